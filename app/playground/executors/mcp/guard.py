"""Starts an MCP server by stdio, ends it with its descendants. No sandbox: it runs as the user.

Started by path: `guard.py LIFELINE COMMAND [ARGUMENT...]`. The server has our stdin, stdout and
stderr; the guard does not use them. LIFELINE is a descriptor whose other end our program holds:
when that closes, even because the program was killed, all processes are ended. See `runner.py`.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

# Python imports only its own library: `-I`.
sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), *[".."] * 3)))

from playground.executors.python import runner

sys.path.pop(0)

NOT_STARTED = 127
"""The exit code if the command could not be started, as in a shell."""


def main() -> NoReturn:
    lifeline, command = int(sys.argv[1]), sys.argv[2:]
    runner.prctl(runner.PR_SET_CHILD_SUBREAPER, 1)
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: None)
    guard = os.getpid()
    server = os.fork()
    if server == 0:
        exec_server(command, lifeline, guard)
    # `runner.wait` expects its lifeline as stdin; and a server's pipes close with the server.
    os.dup2(lifeline, 0)
    os.close(lifeline)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    status = runner.wait(server, wake)
    if status is None:
        runner.terminate(server)
    runner.end_all()
    os._exit(0 if status is None else runner.code_of(status))


def exec_server(command: list[str], lifeline: int, guard: int) -> NoReturn:
    """Becomes the server, in its own process group; with default signal handling."""
    signal.set_wakeup_fd(-1)
    os.setsid()
    runner.prctl(runner.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guard:
        os._exit(NOT_STARTED)
    os.close(lifeline)
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606 - what the user accepted
    except OSError as error:
        os.write(2, f"{command[0]} cannot be started: {error.strerror}.\n".encode())
    os._exit(NOT_STARTED)


if __name__ == "__main__":
    main()
