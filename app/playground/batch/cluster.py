"""A batch on other processes, by Dask's distributed: it transports bytes, and does not schedule.

A run is given to one process by its address and its worker id, and to no other: a process that was
replaced refuses it, and so does one in which the run began before. So tasks that Dask repeats by
itself end at once. Therefore at most one process makes a run, and the runs of a lost process are
unknown. `WorkerTasks` (`commands/cluster_worker`) are the functions of the other end.

Anyone who can connect to a Dask scheduler runs code on each worker and, by unpickling, here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from playground.batch.batches import NoRemoteWorker, RunLost
from playground.batch.plan import BatchPlan
from playground.core.errors import BadInput
from playground.net.keys import is_loopback

LOCAL_THREADS = 8
"""Concurrent runs in each process of `local:N`."""
MOST_LOCAL = 64

LOOK_S = 1.0
"""The interval between queries of the list of workers, in seconds."""
REPLY_S = 60.0
"""How long a scheduler may take to answer, in seconds."""
ABOUT_S = 5.0
"""The timeout of a new worker's `about`, in seconds; it is repeated at the next look."""
GONE_S = 60.0
"""After so many seconds without a worker, or a scheduler's answer, the batch pauses."""
CANCEL_S = 5.0
TOGETHER_S = 0.05

log = logging.getLogger(__name__)

_INSTALL = "Install the same versions on both machines: pip install 'tool-playground[cluster]'"


@dataclass(frozen=True)
class EngineAddress:
    """The value of --engine: `local` processes of this machine, or the scheduler at `url`."""

    local: int = 0
    url: str = ""


@dataclass(frozen=True)
class WorkerTasks:
    """The functions that run at the other end, under the same names. `work` takes a run as JSON,
    the id of its worker, and the id of its session; it returns the session, nothing if it was
    stopped before, or a sentence on why this process may not make it. `stop` takes ids of sessions;
    `about` returns the worker's id with its versions."""

    work: Callable[[str, str, str], bytes | str]
    stop: Callable[[Sequence[str]], None]
    about: Callable[..., tuple[str, Mapping[str, str]]]
    versions: Callable[[], Mapping[str, str]]


def read_engine(text: str, *, trusted: bool) -> EngineAddress:
    """`local:N`, `tcp://HOST:PORT` or `tls://HOST:PORT`; BadInput says what is wrong with it."""
    word, _, count = text.partition(":")
    if word == "local":
        if not (count.isascii() and count.isdigit() and 0 < int(count) <= MOST_LOCAL):
            raise BadInput(
                f"--engine local:N needs a number from 1 to {MOST_LOCAL}, not {count!r}."
            )
        return EngineAddress(local=int(count))
    try:
        parts = urlsplit(text)
        sound = parts.scheme in ("tcp", "tls") and parts.hostname and parts.port
    except ValueError:
        sound = None
    if not sound or text != f"{parts.scheme}://{parts.netloc}" or parts.username is not None:
        raise BadInput(
            f"--engine must be local:N, tcp://HOST:PORT or tls://HOST:PORT, not {text[:80]!r}."
        )
    if parts.scheme == "tcp" and not trusted and not is_loopback(text):
        raise BadInput(
            f"{text} is on another machine and has no TLS. Anyone who can reach a Dask scheduler "
            "can run code on its workers and, through their results, on this machine; prompts "
            "and answers are not encrypted. Use tls://, or add --engine-trusted if nobody else "
            "can reach it."
        )
    return EngineAddress(url=text)


def check_installed() -> None:
    """BadInput if the extra is not installed."""
    if find_spec("distributed") is None:
        raise BadInput(
            "--engine needs Dask's distributed, which is not installed. Run: pip install "
            "'tool-playground[cluster]'"
        )


def check_plan(plan: BatchPlan) -> None:
    """BadInput if the executor of a tool exists only in this process."""
    for planned in plan.planned.values():
        for tool in planned.settings.tools:
            if tool.answered_by == "mcp":
                raise BadInput(
                    f"The tool {tool.name!r} is answered by an MCP server that only this machine "
                    "has. Leave --engine out, or use a mock."
                )


def differences(here: Mapping[str, str], there: Mapping[str, Any]) -> str:
    """The differences of a worker's versions from those here, "" if there are none."""
    parts = [
        f"{name} {there.get(name) or 'none'} and not {version or 'none'}"
        for name, version in here.items()
        if there.get(name, "") != version
    ]
    return ", ".join(parts)


@dataclass(eq=False)
class _Process:
    """A worker, as its `about` describes it. `gone` is set once it has ended or was replaced."""

    id: str
    address: str
    threads: int
    running: int = 0
    stopping: list[str] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True)
class _Room:
    """A process with room for one run."""

    workers: DaskWorkers
    process: _Process

    @property
    def name(self) -> str:
        return self.process.address

    async def run(self, session: str, run_json: str) -> bytes:
        return await self.workers.run_at(self.process, session, run_json)

    async def stop(self, session: str) -> None:
        await self.workers.stop_at(self.process, session)


class DaskWorkers:
    """The workers of a scheduler. Opened by `dask_workers`."""

    def __init__(self, client: Any, tasks: WorkerTasks, name: str) -> None:
        self._client = client
        self._tasks = tasks
        self._name = name
        self._processes: dict[str, _Process] = {}
        self._refused: dict[str, str] = {}
        """Why a worker is not used. Both by address."""
        self._gone = ""
        self._well = 0.0
        """When the scheduler last answered and had workers, by the loop's clock."""
        self._changed = asyncio.Event()

    @property
    def threads(self) -> int:
        return sum(process.threads for process in self._processes.values())

    def __len__(self) -> int:
        return len(self._processes)

    async def begin(self) -> None:
        """Finds the workers, and compares versions. BadInput if there is none, or they differ."""
        there = await self._wait_for_reply(self._client.scheduler.versions())
        here = self._tasks.versions()
        if wrong := differences({"distributed": here["distributed"]}, there["packages"]):
            raise BadInput(f"The scheduler at {self._name} has {wrong}. {_INSTALL}")
        await self._find()
        if self._refused:
            raise BadInput(next(iter(self._refused.values())))
        if not self._processes:
            raise BadInput(
                f"The scheduler at {self._name} has no workers that answer. Start some, then run "
                "this again."
            )

    async def watch(self) -> None:
        """Tracks which workers come and go, until it is cancelled."""
        loop = asyncio.get_running_loop()
        self._well = loop.time()
        while True:
            await asyncio.sleep(LOOK_S)
            trouble = f"The scheduler at {self._name} does not answer. Resume when it does."
            try:
                await self._find()
                trouble = f"The scheduler at {self._name} has no workers. Resume when it has some."
            except (BadInput, OSError) as error:
                log.info("%s: %s", self._name, error)
            except Exception:  # keep watching, or lost workers would never be noticed
                log.warning("Listing the workers of %s failed.", self._name, exc_info=True)
            if loop.time() - self._well > GONE_S or self._client.status == "closed":
                self._gone = trouble
                for process in list(self._processes.values()):
                    self._remove_process(process)
            self._changed.set()

    @asynccontextmanager
    async def room(self) -> AsyncIterator[_Room]:
        """The process with the most room, as soon as one has any."""
        while (process := self._freest_process()) is None:
            if self._gone:
                raise NoRemoteWorker(self._gone)
            self._changed.clear()
            await self._changed.wait()
        process.running += 1
        try:
            yield _Room(self, process)
        finally:
            process.running -= 1
            self._changed.set()

    async def run_at(self, process: _Process, session: str, run_json: str) -> bytes:
        """The session of the run as the worker returned it. RunLost if its result is unknown."""
        future = self._client.submit(
            self._tasks.work,
            run_json,
            process.id,
            session,
            key=f"playground-{session}",
            workers=[process.address],
            allow_other_workers=False,
            retries=0,
            pure=False,
        )
        came = asyncio.ensure_future(future.result())
        gone = asyncio.create_task(process.gone.wait())
        try:
            await asyncio.wait((came, gone), return_when=asyncio.FIRST_COMPLETED)
            if not came.done():
                raise RunLost(f"The worker at {process.address} was lost during this run.")
            data = came.result()
        except (Exception, asyncio.CancelledError) as error:
            if came.done() and not came.cancelled() and came.exception() is error:
                words = f"{type(error).__name__}: {error}"[:300]
                raise RunLost(f"The worker at {process.address} failed: {words}") from error
            if came.cancelled():  # by Dask, when its scheduler is gone
                raise RunLost(f"The scheduler at {self._name} was lost.") from error
            raise
        finally:
            gone.cancel()
            if not came.done():
                came.cancel()
                with suppress(Exception):
                    await asyncio.wait_for(self._client.cancel([future], force=True), CANCEL_S)
            future.release()
        if isinstance(data, bytes):
            return data
        self._remove_process(process)  # before it is given another
        words = str(data)[:300]
        raise RunLost(f"The worker at {process.address} was lost during this run: {words}")

    async def stop_at(self, process: _Process, session: str) -> None:
        """Batches the calls for all runs that are stopped there at this moment."""
        process.stopping.append(session)
        await asyncio.sleep(TOGETHER_S)
        if process.stopping:
            sessions, process.stopping = process.stopping, []
            run = self._client.run(self._tasks.stop, sessions, workers=[process.address])
            with suppress(Exception):  # it is awaited in any case, and unknown without an answer
                await asyncio.wait_for(run, CANCEL_S)

    async def _find(self) -> None:
        """Updates the workers from the scheduler."""
        identity = await self._wait_for_reply(self._client.scheduler.identity(n_workers=-1))
        there = identity["workers"]
        for process in list(self._processes.values()):
            if process.address not in there:
                self._remove_process(process)
        self._refused = {where: why for where, why in self._refused.items() if where in there}
        if self._processes:
            self._well, self._gone = asyncio.get_running_loop().time(), ""
        known = self._processes.keys() | self._refused.keys()
        new = [address for address in there if address not in known]
        threads = {address: int(there[address]["nthreads"]) for address in new}
        await asyncio.gather(*(self._ask(address, threads[address]) for address in new))

    async def _ask(self, address: str, threads: int) -> None:
        """Accepts or refuses a new worker, or a replacement at the address of a lost one. One that
        does not answer is asked again at the next look; the others do not wait."""
        run = self._client.run(self._tasks.about, workers=[address], on_error="return")
        try:
            about = (await asyncio.wait_for(run, ABOUT_S))[address]
        except (OSError, TimeoutError, KeyError) as error:
            log.info("%s: %s: %s", address, type(error).__name__, error)
            return
        match about:
            case OSError() | TimeoutError():
                return
            case (str(worker), Mapping() as versions):
                wrong = differences(self._tasks.versions(), versions)
            case _:
                worker, wrong = "", f"not a Playground ({str(about)[:300]})"
        if wrong:
            self._refused[address] = f"The worker at {address} has {wrong}. {_INSTALL}"
            log.warning("%s", self._refused[address])
        else:
            self._processes[address] = _Process(worker, address, threads)
            self._well, self._gone = asyncio.get_running_loop().time(), ""
            self._changed.set()

    async def _wait_for_reply(self, asked: Any) -> Any:
        try:
            return await asyncio.wait_for(asked, REPLY_S)
        except TimeoutError:
            raise BadInput(f"{self._name} did not answer within {REPLY_S:.0f} s.") from None

    def _freest_process(self) -> _Process | None:
        free = [each for each in self._processes.values() if each.running < each.threads]
        return max(free, key=lambda each: each.threads - each.running, default=None)

    def _remove_process(self, process: _Process) -> None:
        if self._processes.get(process.address) is process:
            del self._processes[process.address]
        process.gone.set()
        self._changed.set()


@asynccontextmanager
async def dask_workers(engine: EngineAddress, tasks: WorkerTasks) -> AsyncIterator[DaskWorkers]:
    """The workers that `engine` names; those of this machine end with the context. BadInput if they
    cannot be reached or their versions differ."""
    check_installed()
    import dask
    import distributed

    for logger in [name for name in logging.root.manager.loggerDict if name[:11] == "distributed"]:
        logging.getLogger(logger).setLevel(logging.ERROR)  # the batch reports lost workers itself
    async with AsyncExitStack() as opened:
        try:
            if engine.local:
                nothing: dict[str, Any] = {
                    f"distributed.{end}.http.routes": [] for end in ("scheduler", "worker")
                }
                opened.enter_context(dask.config.set(nothing))
                # Without TLS anyone logged in at this machine could run code as its user.
                security = distributed.Security.temporary()
                address: Any = await opened.enter_async_context(
                    distributed.LocalCluster(
                        n_workers=engine.local,
                        threads_per_worker=LOCAL_THREADS,
                        host="127.0.0.1",
                        protocol="tls://",
                        security=security,
                        dashboard_address=None,
                        scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                        memory_limit=0,
                        preload=[tasks.work.__module__],
                        silence_logs=logging.ERROR,
                        asynchronous=True,
                    )
                )
                name = f"local:{engine.local}"
            else:
                address, name, security = engine.url, engine.url, None
            options: dict[str, Any] = {"asynchronous": True, "set_as_default": False}
            client = await opened.enter_async_context(
                distributed.Client(address, security=security, timeout=REPLY_S, **options)
            )
        except (OSError, TypeError, ValueError, RuntimeError, ImportError) as error:
            raise BadInput(
                f"Cannot reach the workers of {_engine_name(engine)}: {error}"
            ) from error
        workers = DaskWorkers(client, tasks, name)
        await workers.begin()
        watching = asyncio.create_task(workers.watch())
        try:
            yield workers
        finally:
            watching.cancel()
            await asyncio.wait((watching,))


def _engine_name(engine: EngineAddress) -> str:
    return engine.url or f"local:{engine.local}"
