"""Work beside the event loop: its result, its error, and an end that waits for nobody."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading

import pytest

from playground.net.threads import run_in_daemon
from tests.servers import ROOT, environment

word = contextvars.ContextVar("word", default="")

ENDLESS = """
import asyncio, threading
from playground.net.threads import run_in_daemon

async def main():
    begun = threading.Event()
    def work():
        begun.set()
        threading.Event().wait()
    task = asyncio.create_task(run_in_daemon(work))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    print("over", flush=True)

asyncio.run(main())
"""


def test_the_result_and_the_error_of_the_work_come_back() -> None:
    def work(left: int, *, right: int) -> tuple[int, str, bool]:
        return left // right, word.get(), threading.current_thread() is threading.main_thread()

    async def main() -> None:
        word.set("here")
        assert await run_in_daemon(work, 6, right=3) == (2, "here", False)
        with pytest.raises(ZeroDivisionError):
            await run_in_daemon(work, 6, right=0)

    asyncio.run(main())


def test_the_program_ends_while_the_work_goes_on() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDLESS],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "over\n", "")
