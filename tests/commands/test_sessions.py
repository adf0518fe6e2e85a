"""`playground sessions`: newest first, searched, and nothing touched."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from playground.store.database import APPLICATION_ID, OwnerLock
from playground.store.schema import MIGRATIONS
from tests.commands.conftest import Typed
from tests.servers import START_S, command, environment, run_command

READING = (
    ("sessions",),
    ("sessions", "--search", "hello"),
    ("export", "x", "--as", "jsonl"),
    ("verify",),
)

AS_NOBODY = """
import os, sys, importlib
from playground import cli
for module in cli.COMMANDS.values():
    importlib.import_module(module)
if os.getuid() == 0:  # who may read everything
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for words in sys.argv[1:]:
    print(cli.main(words.split("|")), flush=True)
"""


def test_the_list(tmp_path: Path, run_cli: Typed) -> None:
    db = str(tmp_path / "a.db")
    for prompt in ("hello there", "good \x1b[31mmorning"):
        assert run_cli("run", prompt, "--db", db)[0] == 0
    before = (tmp_path / "a.db").read_bytes()
    done = run_command("sessions", "--json", "--db", db, cwd=tmp_path)
    data = json.loads(done.stdout)
    assert [item["title"] for item in data] == ["good \x1b[31mmorning", "hello there"]
    assert all(item["state"] == "idle" and isinstance(item["updated"], int) for item in data)
    read = run_cli("sessions", "--db", db)[1]
    assert "\x1b" not in read
    assert read.count("\n") == 2
    search = run_cli("sessions", "--json", "--search", "there", "--db", db)[1]
    assert [load["title"] for load in json.loads(search)] == ["hello there"]
    none = run_cli("sessions", "--json", "--search", "%", "--db", db)[1]
    assert json.loads(none) == []
    assert (tmp_path / "a.db").read_bytes() == before


def test_no_database_has_no_sessions_and_none_is_made(tmp_path: Path, run_cli: Typed) -> None:
    code, out, message = run_cli("sessions", "--json")
    assert (code, json.loads(out), message) == (0, [], "")
    code, out, message = run_cli("sessions", "--json", "--db", "gone.db")
    assert (code, json.loads(out).keys()) == (2, {"error", "code"})
    assert "There is no database gone.db" in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_file_of_an_older_version_is_told_what_to_do_with(
    tmp_path: Path, run_cli: Typed, words: tuple[str, ...]
) -> None:
    """But for `verify`, which writes where nobody else does, and so brings it up to date."""
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        steps = "".join(MIGRATIONS[:4])
        connection.executescript(
            f"BEGIN; {steps} PRAGMA user_version = 4; PRAGMA application_id = {APPLICATION_ID};"
            " COMMIT"
        )
    before = path.read_bytes()
    if words == ("verify",):
        lock = OwnerLock(path)
        lock.take()  # a server of that version has it
    code, out, message = run_cli(*words, "--db", "old.db")
    assert (code, out) == (2, "")
    assert "older version" in message
    assert f"`playground serve --db {path}`" in message
    assert path.read_bytes() == before
    if words == ("verify",):
        lock.release()
        assert run_cli(*words, "--db", "old.db")[0] == 0


@pytest.mark.slow
def test_a_file_that_may_not_be_read_is_one_sentence(tmp_path: Path) -> None:
    with TemporaryDirectory() as open_folder, TemporaryDirectory() as shut_folder:
        paths = [Path(folder) / "a.db" for folder in (open_folder, shut_folder)]
        for path, mode in zip(paths, (0o755, 0), strict=True):
            path.write_bytes(b"")
            path.chmod(0)
            path.parent.chmod(mode)
        lines = ["|".join((*words, "--db", str(path))) for path in paths for words in READING]
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, *lines],
            capture_output=True,
            text=True,
            cwd="/",
            env=environment(PLAYGROUND_HOME=str(tmp_path)),
            timeout=START_S,
        )
        Path(shut_folder).chmod(0o700)
    assert done.stdout.split() == ["2"] * len(lines)
    outputs = done.stderr.splitlines()
    for line, path in zip(outputs, [path for path in paths for _ in READING], strict=True):
        message = f"playground: Cannot read {path} (Permission denied). Check its permissions, or"
        assert line.startswith(message)


def test_an_empty_file_and_a_file_that_is_no_database(tmp_path: Path, run_cli: Typed) -> None:
    (tmp_path / "empty.db").write_bytes(b"")
    (tmp_path / "text.db").write_text("This is a letter. " * 100)
    code, out, _ = run_cli("sessions", "--json", "--db", "empty.db")
    assert (code, json.loads(out)) == (0, [])
    code, out, message = run_cli("sessions", "--json", "--db", "text.db")
    assert code == 1
    assert "text.db is not a database" in message
    assert json.loads(out).keys() == {"error", "code"}


@pytest.mark.slow
def test_a_file_in_a_folder_of_somebody_else_is_one_sentence(
    tmp_path: Path, run_cli: Typed
) -> None:
    """SQLite needs to write beside a file, also to read it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        assert run_cli("run", "hello", "--db", str(path))[0] == 0
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, f"sessions|--db|{path}"],
            capture_output=True,
            text=True,
            cwd="/",
            env=environment(PLAYGROUND_HOME=str(tmp_path)),
            timeout=START_S,
        )
        Path(folder).chmod(0o700)
    assert done.stdout.split() == ["2"]
    assert done.stderr.startswith(f"playground: Cannot read {path} (")
    assert done.stderr.count("\n") == 1


def test_an_error_that_nobody_reads_is_no_traceback(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)  # as `| head` leaves it
    try:
        done = subprocess.run(
            command("sessions", "--json", "--db", str(tmp_path / "gone.db")),
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            timeout=START_S,
        )
    finally:
        os.close(write)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "There is no database" in done.stderr
