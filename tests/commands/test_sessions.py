"""`playground sessions`: newest first, searched, and nothing touched."""

from __future__ import annotations

import json
from pathlib import Path

from tests.served import ran


def test_the_list(tmp_path: Path) -> None:
    db = str(tmp_path / "a.db")
    for prompt in ("hello there", "good \x1b[31mmorning"):
        assert ran("run", prompt, "--db", db, cwd=tmp_path).returncode == 0
    before = (tmp_path / "a.db").read_bytes()
    done = ran("sessions", "--json", "--db", db, cwd=tmp_path)
    found = json.loads(done.stdout)
    assert [one["title"] for one in found] == ["good \x1b[31mmorning", "hello there"]
    assert all(one["state"] == "idle" and isinstance(one["updated"], int) for one in found)
    read = ran("sessions", "--db", db, cwd=tmp_path)
    assert "\x1b" not in read.stdout
    assert read.stdout.count("\n") == 2
    search = ran("sessions", "--json", "--search", "there", "--db", db, cwd=tmp_path)
    assert [one["title"] for one in json.loads(search.stdout)] == ["hello there"]
    none = ran("sessions", "--json", "--search", "%", "--db", db, cwd=tmp_path)
    assert json.loads(none.stdout) == []
    assert (tmp_path / "a.db").read_bytes() == before


def test_no_database_has_no_sessions_and_none_is_made(tmp_path: Path) -> None:
    done = ran("sessions", "--json", "--db", "gone.db", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)) == (0, [])
    assert not (tmp_path / "gone.db").exists()


def test_an_empty_file_and_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "empty.db").write_bytes(b"")
    (tmp_path / "text.db").write_text("This is a letter. " * 100)
    empty = ran("sessions", "--json", "--db", "empty.db", cwd=tmp_path)
    assert (empty.returncode, json.loads(empty.stdout)) == (0, [])
    text = ran("sessions", "--json", "--db", "text.db", cwd=tmp_path)
    assert text.returncode == 1
    assert "text.db is not a database" in text.stderr
    assert json.loads(text.stdout).keys() == {"error"}
