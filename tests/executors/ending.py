"""Calls that run out of time, whatever the load of the machine: their time is long, and is taken
away once they have said that they are at work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from playground.executors.executor import Invocation

TAKEN_S = 500.0
AT_WORK_S = 0.3
"""What is at work goes on with it for so long."""

Report = Callable[..., None]


def over_once(call: Invocation, word: str, answer: Callable[[str], object] = len) -> Report:
    """The report of a call that has `TAKEN_S` too much, and loses them after it said `word`.

    What it says of itself goes to `told`.
    """
    over: list[asyncio.TimerHandle] = []

    def report(text: str, fraction: float | None = None, output: str = "", /) -> None:
        answer(text)
        if word in text + output and not over:
            loop = asyncio.get_running_loop()
            over.append(loop.call_later(AT_WORK_S, call.deadline.extend, -TAKEN_S))

    return report
