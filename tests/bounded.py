"""A bound on work that could be endless: a test fails instead of hanging.

Setup, call and teardown of every test stand in such a bound (`tests/conftest.py`), and a test may
draw a closer one around work that hostile input could stretch. The bounds are far above what the
work takes; how long it takes is measured in `bench/`.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from _pytest.outcomes import OutcomeException

AGAIN_S = 5.0
LOOK_S = 0.01


class NotDone(OutcomeException):
    """Work that did not end.

    No `Exception`: the program under test must not take it for one of its own. An outcome of a
    test, for pytest and anyio then still take down what the test had set up; and not
    `pytest.fail.Exception`, for which `hypothesis` would look for a smaller input that hangs.
    """


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """NotDone where the block is not done in time, even inside C code that checks signals.

    It is raised again every `AGAIN_S` until the block is left: an event loop keeps for itself what
    is raised inside a task. Bounds can be nested; the nearer end counts.
    """
    begun = time.monotonic()
    outer_left, _ = signal.getitimer(signal.ITIMER_REAL)
    if outer_left and outer_left <= seconds:
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        _print_the_tasks()
        _raise_in_the_test(NotDone(f"not done within {seconds:g} s"))

    outer_ring = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, outer_ring)
        if outer_left:
            left = outer_left - (time.monotonic() - begun)
            signal.setitimer(signal.ITIMER_REAL, max(left, 0.001), AGAIN_S)


async def until(there: Callable[[], bool], seconds: float = 20.0) -> None:
    """Returns as soon as it is so; TimeoutError where it does not become so.

    For what tells nobody. Between two looks others have the processor: it may be their work that
    is waited for.
    """
    async with asyncio.timeout(seconds):
        while not there():
            await asyncio.sleep(LOOK_S)


def _print_the_tasks() -> None:
    """Where each task of the loop stands: what nobody can see any more when the test has failed."""
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:  # no loop runs here
        return
    for task in tasks:
        task.print_stack()


def _raise_in_the_test(problem: NotDone) -> None:
    """Playwright runs its event loop in a greenlet. Raised there, this would end the loop, and the
    browser could not even be closed; so the test's own greenlet gets it, and the loop is woken."""
    greenlet = sys.modules.get("greenlet")
    if greenlet is not None:
        running = test = greenlet.getcurrent()
        while test.parent is not None:
            test = test.parent
        if test is not running:
            asyncio.get_running_loop().call_soon_threadsafe(lambda: None)
            test.throw(problem)
            return
    raise problem
