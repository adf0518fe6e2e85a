"""`playground serve`: its one line, what it refuses to start on, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import httpx
import pytest

from tests.commands.conftest import Typed
from tests.servers import (
    END_S,
    NO_TLS,
    START_S,
    WAIT_S,
    ServerProcess,
    StartServerProcess,
    environment,
    run_command,
    run_server_process,
)
from tests.tables import rest_slow

LINE = re.compile(r"Playground on http://127\.0\.0\.1:\d+/\?token=[A-Za-z0-9._~-]{22,}\n")
UNPRIVILEGED = """
import os, sys
import playground.cli, playground.commands.run, playground.commands.serve
if os.getuid() == 0:
    os.setuid(65534)
for words in sys.argv[1:]:
    print(playground.cli.main(words.split("|")), flush=True)
"""
"""Gives its rights away once all is imported: the interpreter may be root's alone."""


def get(server_process: ServerProcess, path: str = "/sessions", **headers: str) -> httpx.Response:
    request_headers = {
        "authorization": f"Bearer {server_process.token}",
        "accept": "application/json",
        **headers,
    }
    return httpx.get(
        server_process.url + path,
        headers=request_headers,
        timeout=30,
        trust_env=False,
        verify=NO_TLS,
    )


def refusal_of(run_cli: Typed, *words: str) -> str:
    """The sentence of a `serve` that does not start."""
    code, out, message = run_cli("serve", "--port", "0", *words)
    assert (code, out, message.count("\n")) == (1, "", 1), message
    return message


def check_schemes(server_process: ServerProcess) -> None:
    """A loopback name answers to no other scheme."""
    port = server_process.url.rpartition(":")[2]
    for name in ("127.0.0.1", "localhost"):
        foreign = f"https://{name}:{port}"
        assert get(server_process, host=f"{name}:{port}", origin=foreign).status_code == 403
        own = f"http://{name}:{port}"
        assert get(server_process, host=f"{name}:{port}", origin=own).status_code == 200


def test_one_line_and_private_files(tmp_path: Path) -> None:
    with run_server_process(tmp_path / "a.db") as server_process:
        assert LINE.fullmatch(server_process.line)
        assert get(server_process, "/healthz").text == "ok"
        assert get(server_process).json() == []
        assert get(server_process, authorization="").status_code == 401
        check_schemes(server_process)
        modes = {
            path.name: stat.S_IMODE(path.stat().st_mode)
            for path in tmp_path.iterdir()
            if path.name != "server.log"
        }
        assert modes == dict.fromkeys(
            ("a.db", "a.db-wal", "a.db-shm", "a.db.lock", "a.db.token"), 0o600
        )
        assert server_process.end() == 0
        assert server_process.process.stdout is not None
        assert server_process.process.stdout.read() == ""
    assert (tmp_path / "server.log").read_text() == ""
    assert not (tmp_path / "a.db-wal").exists()
    assert (tmp_path / "a.db.lock").read_text() == "", "no process is left behind"


@pytest.mark.parametrize("number", rest_slow([signal.SIGINT, signal.SIGTERM]))
def test_a_signal_ends_it_in_order(tmp_path: Path, number: int) -> None:
    """With a tool that never ends, an answer under way and a stream that is read."""
    (tmp_path / "tool.py").write_text(
        "import time, signal\n"
        "def stuck(text=''):\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    open('began', 'w').close()\n"
        "    time.sleep(600)\n"
    )
    tool = {
        "name": "stuck",
        "answered_by": "python",
        "config": {"file": str(tmp_path / "tool.py"), "function": "stuck"},
        "timeout_s": 600,
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
    }
    rules = [{"tool": "*", "action": "run", "text": "", "words": "all"}]
    with run_server_process(tmp_path / "a.db", PLAYGROUND_PACE="0.2") as item_id:
        headers = {"authorization": f"Bearer {item_id.token}", "accept": "application/json"}
        with httpx.Client(
            base_url=item_id.url, headers=headers, timeout=WAIT_S, trust_env=False, verify=NO_TLS
        ) as client:
            ids = []
            for prompt in ("Use stuck", "[[fault:stall-after-6]] hi"):
                body = {"tools": [tool], "rules": rules}
                ids.append(client.post("/sessions", json=body).json()["id"])
                client.post(f"/sessions/{ids[-1]}/prompts", json={"text": prompt})
            path = f"/sessions/{ids[0]}/events?after=0"
            with client.stream("GET", path, headers={"accept": "text/event-stream"}) as answer:
                lines = answer.iter_lines()
                assert any('"call_started"' in line for line in lines)
                assert item_id.end(number) == 0  # bounded: the tool alone would take ten minutes
    assert (tmp_path / "server.log").read_text() == ""
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        states = dict(connection.execute("SELECT id, state FROM sessions").fetchall())
    assert [states[item_id] for item_id in ids] == ["waiting", "interrupted"]


def test_with_nothing_to_do_it_ends(tmp_path: Path) -> None:
    """When that is: tests/commands/test_tap.py."""
    with run_server_process(tmp_path / "a.db", "--idle-exit", "0.1") as server_process:
        assert server_process.process.wait(END_S) == 0
    assert (tmp_path / "server.log").read_text() == ""


@pytest.mark.slow
def test_a_second_server_refuses_and_names_the_first(tmp_path: Path, run_cli: Typed) -> None:
    with run_server_process(tmp_path / "a.db") as server_process:
        done = run_command("serve", "--port", "0", "--db", "a.db", cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert f"process {server_process.process.pid} at {server_process.url}" in done.stderr
        assert "--db" in done.stderr
        port = server_process.url.rpartition(":")[2]
        assert f"at {server_process.url}" in run_cli("serve", "--port", port, "--db", "a.db")[2]
        assert get(server_process).status_code == 200
    with run_server_process(tmp_path / "a.db") as after:  # killed, and the lock is free
        assert get(after).status_code == 200
        assert after.token == server_process.token


def test_a_port_in_use(run_cli: Typed) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = str(sock.getsockname()[1])
        code, _, message = run_cli("serve", "--port", port, "--db", "a.db")
    assert code == 1
    assert port in message
    assert "--port 0" in message


@pytest.mark.parametrize(
    "words",
    [
        ("--port", "70000"),
        ("--port", "http"),
        ("--host", "0.0.0.0", "--no-token"),
        ("--host", "::", "--no-token"),
        ("--host", "example.com", "--no-token"),
        ("--host", "no such host"),
        ("--env-file", "gone.env"),
    ],
    ids=" ".join,
)
def test_wrong_usage(run_cli: Typed, words: tuple[str, ...]) -> None:
    code, out, message = run_cli("serve", "--db", "a.db", *words)
    assert (code, out, message.count("\n")) == (2, "", 1)


def test_without_a_token_on_loopback(start_server_process: StartServerProcess) -> None:
    server_process = start_server_process("--no-token")
    assert server_process.line == f"Playground on {server_process.url}/\n"
    headers = {"accept": "application/json"}
    answer = httpx.get(
        server_process.url + "/sessions",
        headers=headers,
        timeout=WAIT_S,
        trust_env=False,
        verify=NO_TLS,
    )
    assert answer.json() == []


@pytest.mark.slow
def test_on_localhost_with_a_token_of_one_s_own(start_server_process: StartServerProcess) -> None:
    token = "my-own-token-1"
    server_process = start_server_process("--host", "localhost", PLAYGROUND_TOKEN=token)
    assert server_process.token == token
    check_schemes(server_process)


def as_text(path: Path) -> None:
    path.write_text("Dear Sir or Madam,\n" * 1000)


def as_flipped(path: Path) -> None:
    data, chance = bytearray(path.read_bytes()), Random(1)
    for _ in range(400):
        data[chance.randrange(100, len(data))] ^= 0xFF
    path.write_bytes(data)


def as_cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9000])


def as_newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 999")


def as_foreign(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE letters (text)")


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (as_text, "is not a database"),
        (as_flipped, "damaged"),
        (as_cut, "damaged"),
        (as_newer, "newer version"),
        (as_foreign, "another program"),
    ],
)
def test_a_file_that_is_not_ours_is_left_as_it_is(
    tmp_path: Path, run_cli: Typed, spoil: Callable[[Path], None], word: str
) -> None:
    path = tmp_path / "a.db"
    assert run_cli("run", "hello", "--db", "a.db")[0] == 0
    spoil(path)
    before = path.read_bytes()
    message = refusal_of(run_cli, "--db", "a.db")
    assert word in message
    assert "a.db" in message
    assert "--db" in message
    assert path.read_bytes() == before
    for words in (("sessions",), ("run", "hello")):
        code, _, message = run_cli(*words, "--db", "a.db")
        assert code in (0, 1) if words == ("sessions",) else code == 1
        assert "Traceback" not in message
    assert path.read_bytes() == before


@pytest.mark.slow
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """Root may write anywhere, so that it must be somebody else who tries."""
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    for parent in tmp_path.parents[:2]:
        os.chmod(parent, 0o755)
    os.chmod(tmp_path, 0o755)
    lines = [
        f"serve|--port|0|--db|{folder / 'deeper' / 'a.db'}",
        f"serve|--port|0|--no-token|--db|{folder / 'deeper' / 'a.db'}",
        f"run|hi|--db|{folder / 'a.db'}",
    ]
    done = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED, *lines],
        capture_output=True,
        text=True,
        cwd="/",
        env=environment(HOME="/"),
        timeout=START_S,
    )
    assert done.stdout.split() == ["1", "1", "1"], done.stderr
    assert [str(folder) in line for line in done.stderr.splitlines()] == [True] * 3
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_damage_within_a_row_is_said(
    tmp_path: Path, run_cli: Typed, start_server_process: StartServerProcess
) -> None:
    assert run_cli("run", "hello", "--db", "a.db")[0] == 0
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute("UPDATE events SET body = '{\"oops' WHERE seq = 2")
        connection.commit()
        ((session,),) = connection.execute("SELECT id FROM sessions").fetchall()
    server_process = start_server_process()
    answer = get(server_process, f"/sessions/{session}")
    assert answer.status_code == 503
    assert "seq 2" in answer.json()["error"]
    assert json.loads(get(server_process).text)[0]["id"] == session
