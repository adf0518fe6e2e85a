"""The other end of `playground batch --engine`: how a worker process makes a run.

`run_case` does it in one function, a run as JSON in, its session as JSON Lines out: it needs only a
temporary database of its own, and no page; keys are in the environment of the process.
"""

from __future__ import annotations

import asyncio
import atexit
import platform
import signal
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playground import __version__
from playground.batch.cluster import WorkerTasks
from playground.batch.run_case import run_case as run_case_on
from playground.commands.own_simulator import engine_beside_simulator
from playground.engine.engine import Engine

MOST_RUNS = 200
"""The number of runs after which a database is replaced."""

CLOSE_S = 10.0


def run_case(run_json: str) -> bytes:
    """Makes a run written by `batch.run_case.run_data`; returns its session as JSON Lines."""
    maker = CaseMaker()
    try:
        return maker.run("", run_json)
    finally:
        maker.close()


@dataclass(eq=False)
class _TemporaryEngine:
    """An engine on a database that is deleted with it."""

    engine: Engine
    ends: AsyncExitStack
    runs: int = 0
    under_way: int = 0


class CaseMaker:
    """Makes runs, several at once from as many threads, in an event loop of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="runs", daemon=True)
        self._thread.start()
        self._tasks: dict[str, asyncio.Task[bytes]] = {}
        self._opening = asyncio.Lock()
        self._current: _TemporaryEngine | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def run(self, name: str, run_json: str) -> bytes:
        """`run_case`, which `stop` can end by `name`. BadInput if `run_json` is not a run."""
        return asyncio.run_coroutine_threadsafe(self._run(name, run_json), self._loop).result()

    def stop(self, name: str) -> None:
        """Ends the run, if it is in progress: it is returned as stopped."""
        self._loop.call_soon_threadsafe(self._cancel, name)

    def close(self) -> None:
        """Deletes what is left."""
        ending = asyncio.run_coroutine_threadsafe(self._close(), self._loop)
        try:
            ending.result(CLOSE_S)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CLOSE_S)
            if not self._thread.is_alive():
                self._loop.close()

    def _cancel(self, name: str) -> None:
        if (task := self._tasks.get(name)) is not None:
            task.cancel()

    async def _run(self, name: str, run_json: str) -> bytes:
        async with self._engine() as engine:
            task = asyncio.create_task(run_case_on(run_json, engine))
            self._tasks[name] = task
            try:
                await asyncio.wait((task,))
            finally:
                del self._tasks[name]
            return b"" if task.cancelled() else task.result()

    @asynccontextmanager
    async def _engine(self) -> AsyncIterator[Engine]:
        async with self._opening:
            place = self._current
            if place is None or place.runs >= MOST_RUNS:
                place, before = await _open_temporary(), place
                self._current = place
                self._retire(before)
            place.runs += 1
            place.under_way += 1
        try:
            yield place.engine
        finally:
            place.under_way -= 1
            if place is not self._current:
                self._retire(place)

    def _retire(self, place: _TemporaryEngine | None) -> None:
        if place is not None and not place.under_way:
            closing = asyncio.create_task(place.ends.aclose())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def _close(self) -> None:
        place, self._current = self._current, None
        for task in self._tasks.values():
            task.cancel()
        self._retire(place)
        if self._closing:
            await asyncio.wait(self._closing)


async def _open_temporary() -> _TemporaryEngine:
    async with AsyncExitStack() as ends:
        folder = ends.enter_context(TemporaryDirectory(prefix="playground-runs-"))
        opened = engine_beside_simulator(Path(folder) / "runs.db")
        engine = await ends.enter_async_context(opened)
        return _TemporaryEngine(engine, ends.pop_all())


# In a worker of Dask ------------------------------------------------------------------------------


@dataclass
class _ProcessRuns:
    """The state of the runs that were given to this process."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    began: set[str] = field(default_factory=set)
    stopped: set[str] = field(default_factory=set)
    maker: CaseMaker | None = None


_here = _ProcessRuns()


def dask_setup(worker: Any) -> None:
    """Called by Dask in a process of `local:N`; the program that started it handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def work(run_json: str, worker_id: str, session: str) -> bytes | str:
    """`run_case` in the worker `worker_id` and no other, once; or why it is refused."""
    from distributed import get_worker

    if get_worker().id != worker_id:
        return "another process has its address now."
    return begin_once(run_json, session)


def begin_once(run_json: str, session: str) -> bytes | str:
    """The run, unless it began in this process before; empty if it was stopped."""
    with _here.lock:
        if session in _here.stopped:
            return b""
        if session in _here.began:
            return "the run was assigned to it a second time."
        _here.began.add(session)
        if _here.maker is None:
            _here.maker = CaseMaker()
            atexit.register(_here.maker.close)
    return _here.maker.run(session, run_json)


def stop(sessions: Sequence[str]) -> None:
    """Ends these runs, and prevents those that have not begun."""
    with _here.lock:
        _here.stopped.update(set(sessions) - _here.began)
    for session in sessions:
        if _here.maker is not None:
            _here.maker.stop(session)


def about(dask_worker: Any) -> tuple[str, Mapping[str, str]]:
    """The id of this worker, assigned by Dask, and its versions."""
    return dask_worker.id, versions()


def versions() -> Mapping[str, str]:
    """Versions that must be the same at both ends, including the prices used for costs."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {
        "Playground": __version__,
        "Python": python,
        "distributed": _installed_version("distributed"),
        "genai-prices": _installed_version("genai-prices"),
    }


def _installed_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


TASKS = WorkerTasks(work, stop, about, versions)
