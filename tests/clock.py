"""A clock that a test sets ahead: what waits for a time-out is not waited for, and a limit that a
busy machine would reach by itself can be a large one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""asyncio's own loop: a timer of uvloop that runs already rings by no clock of ours."""


@contextmanager
def loop_clock() -> Iterator[Callable[[float], None]]:
    """Gives what sets the clock of the running loop ahead by so many seconds, and its timers."""
    loop = asyncio.get_running_loop()
    real, ahead = loop.time, 0.0

    def push(seconds: float) -> None:
        nonlocal ahead
        ahead += seconds

    loop.time = lambda: real() + ahead  # type: ignore[method-assign]
    try:
        yield push
    finally:
        loop.time = real  # type: ignore[method-assign]
