"""Runs what may take long, and only computes, beside the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def run_apart(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of `work`, from a thread for which neither the end of the event loop nor that of
    the program waits: a document of others can keep it busy for many seconds, and Ctrl-C must not
    wait for that. So it may compute, but must not write. For all else there is
    `asyncio.to_thread`."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def put(value: T | None, error: BaseException | None) -> None:
        if result.done():  # nobody waits any more
            return
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(value)  # type: ignore[arg-type]

    def run() -> None:
        value, error = None, None
        try:
            value = context.run(work, *args, **kwargs)
        except BaseException as caught:
            error = caught
        try:
            loop.call_soon_threadsafe(put, value, error)
        except RuntimeError:  # the loop has ended
            return

    threading.Thread(target=run, name="apart", daemon=True).start()
    return await result
