"""The guard of a server: all ends with the server, with its lifeline, and with our own end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from playground.executors.mcp import guard as mcp_guard
from tests.executors.mcp_servers import ROOT, alive, lines, wait_for_exit

pytestmark = pytest.mark.anyio

LEAVES = "sh -c 'echo $$ >> {0}; trap \"\" TERM; sleep 600' & setsid sleep 600 & echo $! >> {0}"
"""Children in and out of the group, one that takes no SIGTERM; their pids in a file."""

PARENT = """
import os, subprocess, sys
read, write = os.pipe()
command = [sys.executable, "-I", "-S", "-B", sys.argv[1], str(read), "/bin/sh", "-c", sys.argv[2]]
child = subprocess.Popen(command, pass_fds=(read,), start_new_session=True)
os.close(read)
with open(sys.argv[3], "a") as file:
    file.write(str(child.pid) + chr(10))
child.wait()
"""


def started(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, cwd=ROOT)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_killed_program_leaves_no_server(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "pids"
    script = LEAVES.format(file) + "; echo $$ >> " + str(file) + "; wait; sleep 600"
    command = [sys.executable, "-c", PARENT, mcp_guard.__file__, script, str(file)]
    with started(command) as parent:
        pids = [int(word) for word in await lines(file, 4)]
        assert all(alive(pid) for pid in pids)
        parent.send_signal(number)
        parent.wait(20)
    for pid in pids:
        await wait_for_exit(pid)


async def test_a_server_that_ends_takes_what_it_left_behind_along(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    script = LEAVES.format(file) + f"; while [ $(wc -l < {file}) -lt 3 ]; do :; done; exit 5"
    command = [sys.executable, "-c", PARENT, mcp_guard.__file__, script, str(file)]
    with started(command) as parent:
        pids = [int(word) for word in await lines(file, 3)]
        for pid in pids:
            await wait_for_exit(pid)
        with anyio.fail_after(20):
            await anyio.to_thread.run_sync(parent.wait)


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (("/bin/sh", "-c", "exit 5"), 5, ""),
        (("/bin/sh", "-c", "kill -9 $$"), 128 + 9, ""),
        (("/nowhere/x",), mcp_guard.NOT_STARTED, "/nowhere/x cannot be started: No such file"),
    ],
)
def test_its_exit_code_is_the_server_s(command: tuple[str, ...], code: int, words: str) -> None:
    read, write = os.pipe()
    guard = [sys.executable, "-I", "-S", "-B", mcp_guard.__file__, str(read), *command]
    done = subprocess.run(guard, pass_fds=(read,), capture_output=True, text=True, timeout=20)
    os.close(read)
    os.close(write)
    assert (done.returncode, words in done.stderr) == (code, True)
