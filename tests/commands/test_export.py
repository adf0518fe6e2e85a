"""`playground export` and `playground import`: out and in, with a server and without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from playground.exchange.export_formats import EXPORTS
from tests.commands.conftest import Typed
from tests.servers import NO_TLS, StartServerProcess, run_command, run_server_process

MOTTO = "seven+blue/elephants"


def lines(text: str) -> list[Any]:
    """Without the id."""
    first, *rest = map(json.loads, text.splitlines())
    return [{**first, "session": {**first["session"], "id": ""}}, *rest]


@pytest.mark.slow
def test_out_and_in_without_a_server_and_with_one(tmp_path: Path, run_cli: Typed) -> None:
    (tmp_path / ".env").write_text(f"HOUSE_MOTTO={MOTTO}\n")
    (tmp_path / ".env").chmod(0o600)
    db = ("--db", str(tmp_path / "a.db"))
    assert run_cli("run", f"hello {MOTTO}", *db)[0] == 0
    (listed,) = json.loads(run_cli("sessions", "--json", *db)[1])
    before = (tmp_path / "a.db").read_bytes()
    done = run_command("export", listed["id"], "--as", "jsonl", *db, cwd=tmp_path)
    assert done.returncode == 0
    assert MOTTO not in done.stdout
    assert "Masked in prompt 1: 1." in done.stderr
    assert (tmp_path / "a.db").read_bytes() == before
    out = tmp_path / "out.jsonl"
    output = run_cli("export", listed["id"], "--as", "jsonl", "-o", "out.jsonl", "--json", *db)[1]
    assert {"where": "title", "count": 1} in json.loads(output)["masked"]
    assert out.read_text() == done.stdout
    assert out.stat().st_mode & 0o077 == 0
    assert sorted(path.name for path in tmp_path.glob(".out*")) == []
    here = run_command("import", "out.jsonl", "--json", *db, cwd=tmp_path)
    with run_server_process(tmp_path / "a.db", PLAYGROUND_PACE="0"):
        there = run_cli("import", "out.jsonl", "--json", *db)[1]
        for imported_text in (here.stdout, there):
            again = run_cli("export", json.loads(imported_text)["id"], "--as", "jsonl", *db)[1]
            assert lines(again) == lines(done.stdout)
        (tmp_path / "bad.jsonl").write_text(done.stdout.replace('"seq": 2', '"seq": 9', 1))
        code, bad, _ = run_cli("import", "bad.jsonl", "--json", *db)
    assert code == 2
    assert "Line 3 " in json.loads(bad)["error"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("export", "x", "--as", "exe"), f"Choose from {', '.join(EXPORTS)}"),
        (("export", "x", "--as", "jsonl"), "There is no database"),
        (("export", "x"), "--as"),
        (("import", "gone.jsonl"), "Cannot read gone.jsonl"),
        (("import",), "FILE"),
    ],
)
def test_wrong_usage_is_one_sentence(run_cli: Typed, words: tuple[str, ...], message: str) -> None:
    code, out, error = run_cli(*words)
    assert (code, out) == (2, "")
    assert message in error
    assert error.count("\n") == 1


def test_a_file_that_is_too_large_is_not_even_read(run_cli: Typed, tmp_path: Path) -> None:
    with (tmp_path / "big").open("wb") as file:
        file.truncate(33 * 1024 * 1024)
    code, _, error = run_cli("import", "big")
    assert code == 2
    assert "larger than 32 MiB" in error


@pytest.mark.slow
def test_what_the_simulator_answered_names_the_server_that_runs(
    tmp_path: Path, run_cli: Typed, start_server_process: StartServerProcess
) -> None:
    """And all of docs/contract.md stands in `--json`, from the page and from the terminal."""
    db = ("--db", str(tmp_path / "a.db"))
    assert run_cli("run", "hello", *db)[0] == 0
    (listed,) = json.loads(run_cli("sessions", "--json", *db)[1])

    def exported(form: str) -> dict[str, Any]:
        return dict(json.loads(run_cli("export", listed["id"], "--as", form, "--json", *db)[1]))

    assert "'http://127.0.0.1:8765/sim/" in exported("curl")["text"]
    server = start_server_process(PLAYGROUND_PACE="0")
    headers = {"authorization": f"Bearer {server.token}", "accept": "application/json"}
    for form, kind in (("curl", "application/x-sh"), ("python", "text/x-python")):
        here = exported(form)
        path = f"{server.url}/sessions/{listed['id']}/export?as={form}"
        there = httpx.get(path, headers=headers, trust_env=False, verify=NO_TLS).json()
        assert here == there
        assert here.keys() == {"file", "media_type", "text", "notes", "masked"}
        assert here["media_type"] == kind
        assert f"{server.url}/sim" in here["text"]
        assert ":8765" not in here["text"]
