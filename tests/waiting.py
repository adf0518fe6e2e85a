"""Waits for what notifies nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

LOOK_S = 0.01


async def wait_until(is_true: Callable[[], bool], seconds: float = 20.0) -> None:
    """Returns as soon as `is_true()`; TimeoutError after `seconds`.

    Polls, and leaves the event loop to others in between: it may be their work that is waited for.
    """
    async with asyncio.timeout(seconds):
        while not is_true():
            await asyncio.sleep(LOOK_S)
