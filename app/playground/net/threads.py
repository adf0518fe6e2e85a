"""Runs what may take long, and only computes, outside the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def run_in_daemon(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Returns the result of `work`, computed in a daemon thread.

    Neither the end of the event loop nor that of the program waits for it, as for a thread of
    `asyncio.to_thread`: a document from outside can take many seconds, and Ctrl-C must not wait for
    that. So `work` may compute, but must not write.
    """
    future: Future[T] = Future()
    context = contextvars.copy_context()
    future.set_running_or_notify_cancel()  # so that a caller that is cancelled leaves it alone

    def run() -> None:
        try:
            future.set_result(context.run(work, *args, **kwargs))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="run_apart", daemon=True).start()
    return await asyncio.wrap_future(future)
