"""A batch whose runs are made elsewhere: what crosses, what is kept, and what is unknown."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from playground.batch.batches import Batches, NoRemoteWorker, RunLost
from playground.batch.cluster import (
    DaskWorkers,
    EngineAddress,
    WorkerTasks,
    check_plan,
    differences,
    read_engine,
)
from playground.batch.run_case import pack_run, run_case, run_data
from playground.commands import cluster_worker
from playground.core.errors import BadInput
from playground.core.rules import Rule
from playground.core.tools import Tool
from playground.engine.engine import Engine
from playground.store.batches import claim, run_rows
from tests.batch.test_batches import a_case, a_spec, outcomes_of, wait_for_outcomes
from tests.engines import run_engine

pytestmark = pytest.mark.anyio

Made = Callable[[str, str], Any]

HERE = {"Playground": "1", "Python": "3.11", "distributed": "2026.8.0"}

SILENT = ("", None)


class Elsewhere:
    """Workers with one thread each: `make` gets a session's id and its run, and gives what came
    back. With `left` 0 there is none any more."""

    name = "tcp://elsewhere:1"

    def __init__(self, make: Made, threads: int = 2) -> None:
        self.make = make
        self.threads = threads
        self.left = sys.maxsize
        self.stopped: list[str] = []

    @asynccontextmanager
    async def room(self) -> AsyncIterator[Elsewhere]:
        self.left -= 1
        if self.left < 0:
            raise NoRemoteWorker("There are no workers.")
        yield self

    async def run(self, session: str, run_json: str) -> bytes:
        data: bytes = await self.make(session, run_json)
        return data

    async def stop(self, session: str) -> None:
        self.stopped.append(session)


@asynccontextmanager
async def two_engines(folder: Path) -> AsyncIterator[tuple[Engine, Engine]]:
    (folder / "there").mkdir()
    async with run_engine(folder) as here, run_engine(folder / "there") as there:
        yield here, there


async def test_the_session_of_a_run_elsewhere_is_kept_here_and_scored(tmp_path: Path) -> None:
    spec = a_spec(a_case("a"), a_case("b", "Good morning"), defaults={"repetitions": 2})
    orders: list[str] = []
    async with two_engines(tmp_path) as (here, there):

        async def make(session: str, order: str) -> bytes:
            orders.append(order)
            return await run_case(order, there)

        batches = Batches(here, workers=Elsewhere(make))
        batch = await batches.start(await batches.plan(spec))
        outcomes = await wait_for_outcomes(batches, batch)
        assert outcomes == {"a1": "passed", "a2": "passed", "b1": "failed", "b2": "failed"}
        result = (await batches.results(batch))[0]
        assert result.session is not None
        summary = await here.log.summary(result.session)
        assert summary is not None
        assert (summary.batch, summary.own, summary.title) == (
            batch,
            True,
            "a · default · simulator · 1",
        )
        assert await here.log.summaries() == []
        assert all(key not in order for key in here.keys.secrets() for order in orders)
        plan = await batches.plan(spec)
        embedded = Batches(here)
        again = await wait_for_outcomes(embedded, await embedded.start(plan))
        assert again == outcomes


async def test_what_nobody_knows_of_is_unknown_and_stays_so(tmp_path: Path) -> None:
    """Lost with its worker; a session that cannot be read, or is that of another run; a claim
    whose program was killed. What was stopped before it began is made again."""
    names = ("lost", "junk", "other", "prompt", "system", "early", "whole")
    spec = a_spec(*(a_case(name) for name in names))
    async with two_engines(tmp_path) as (here, there):
        sent: list[str] = []

        async def make(session: str, order: str) -> bytes:
            run = json.loads(order)
            name = run["title"].split(" ")[0]
            sent.append(name)
            if name == "lost":
                raise RunLost("The worker is gone.")
            if name == "other":
                run["settings"]["tools"] = []
            if name == "prompt":
                run["prompt"] += "!"
            if name == "system":
                run["settings"]["system"] = "Call each tool."
            if name == "early" and sent.count("early") == 1:
                return b""
            return b"junk" if name == "junk" else await run_case(json.dumps(run), there)

        batches = Batches(here, workers=Elsewhere(make))
        batch = await batches.start(await batches.plan(spec))
        outcomes = await wait_for_outcomes(batches, batch)
        assert outcomes == {
            "lost1": "unknown",
            "junk1": "unknown",
            "other1": "unknown",
            "prompt1": "unknown",
            "system1": "unknown",
            "whole1": "passed",
        }
        details = {result.key.case: result.detail for result in await batches.results(batch)}
        assert details["lost"] == "The worker is gone."
        assert "Nothing was saved" in details["junk"]
        for name in ("other", "prompt", "system"):
            assert "another run" in details[name], name
        killed = replace(spec, seed=9)
        later = await Batches(here).start(await batches.plan(killed))
        await wait_for_outcomes(batches, later)
        again = Batches(here, workers=Elsewhere(make))
        await again.resume(batch)
        assert (await wait_for_outcomes(again, batch))["early1"] == "passed"
        assert sent.count("lost") == 1
        key = next(iter(spec.keys()))
        await claim(
            here.database, batch=batch, place=key, session="nowhere", at_ms=0, where="tcp://gone:1"
        )
        anew = Batches(here, workers=Elsewhere(make))
        await anew.resume(batch)
        assert (await wait_for_outcomes(anew, batch))[f"{key.case}1"] == "unknown"
        rows = {row.place[0]: row for row in await run_rows(here.database, batch)}
        assert "during this run at tcp://gone:1" in json.loads(rows[key.case].body)["detail"]


async def test_a_stop_is_passed_on_and_its_session_kept(tmp_path: Path) -> None:
    silent = "What is the weather in Paris? [[fault:stall-headers]]"
    spec = a_spec(a_case("long", silent))
    async with two_engines(tmp_path) as (here, there):
        running_there: dict[str, asyncio.Task[bytes]] = {}
        begun = asyncio.Event()

        async def make(session: str, order: str) -> bytes:
            running_there[session] = asyncio.create_task(run_case(order, there))
            begun.set()
            return await running_there[session]

        elsewhere = Elsewhere(make)

        async def stop(session: str) -> None:
            async with asyncio.timeout(30):
                with there.sessions.listen(session) as bell:
                    while not (await there.log.events(session))[2:]:
                        await bell.wait(0.2)
            running_there[session].cancel()

        elsewhere.stop = stop  # type: ignore[method-assign]
        batches = Batches(here, workers=elsewhere)
        batch = await batches.start(await batches.plan(spec))
        async with asyncio.timeout(30):
            await begun.wait()
            await batches.stop(batch)
        assert outcomes_of(await batches.results(batch)) == {"long1": "stopped"}


async def test_a_batch_without_workers_pauses_and_says_why(tmp_path: Path) -> None:
    async with two_engines(tmp_path) as (here, there):
        elsewhere = Elsewhere(lambda _, order: run_case(order, there), threads=1)
        elsewhere.left = 1
        batches = Batches(here, workers=elsewhere)
        batch = await batches.start(await batches.plan(a_spec(a_case("a"), a_case("b"))))
        outcomes = await wait_for_outcomes(batches, batch)
        assert sorted(outcomes.values()) == ["passed"]
        progress = await batches.progress(batch)
        assert (progress.state, progress.why) == ("paused", "There are no workers.")


async def test_a_run_brings_what_is_known_here_alone(tmp_path: Path) -> None:
    """Rules of every session, where keys may go, and the recording that answers; no key."""
    async with two_engines(tmp_path) as (here, there):
        await here.confirm("WEATHER_API_KEY", "https://weather.example:8443/v1")
        await here.confirm("OTHER_API_KEY", "https://other.example")
        headers = {"x": "${WEATHER_API_KEY}"}
        config = {"url": "https://weather.example:8443/v1", "method": "GET", "headers": headers}
        tool = Tool("get_weather", "", {"type": "object"}, "http", config)
        await here.rules.add("", Rule("get_weather", "deny", words="never"), ())
        spec = a_spec(a_case("a"))
        run = (await Batches(here).plan(spec)).run(next(iter(spec.keys())), "0" * 16, "1" * 16)
        run = replace(run, settings=replace(run.settings, tools=(tool,)))
        case_run = await pack_run(here, run)
        assert case_run.confirmed == (("WEATHER_API_KEY", "https://weather.example:8443"),)
        assert [rule.action for rule in case_run.rules] == ["run", "deny"]
        assert not case_run.recording
        await run_case(run_data(case_run), there)
        assert ("WEATHER_API_KEY", "https://weather.example:8443") in there.keys.confirmations()


def test_one_process_makes_a_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs: list[str] = []

    class Maker:
        def run(self, name: str, run_json: str) -> bytes:
            outputs.append(name)
            return b"session"

        def stop(self, name: str) -> None: ...

    monkeypatch.setattr(cluster_worker, "_here", cluster_worker._ProcessRuns(maker=Maker()))  # type: ignore[arg-type]
    assert cluster_worker.begin_once("{}", "a") == b"session"
    assert "second time" in str(cluster_worker.begin_once("{}", "a"))
    cluster_worker.stop(["a", "b"])
    assert cluster_worker.begin_once("{}", "b") == b""
    assert outputs == ["a"]


# The addresses ------------------------------------------------------------------------------------


def test_what_an_engine_may_be() -> None:
    assert read_engine("local:3", trusted=False) == EngineAddress(local=3)
    for sound in ("tcp://127.0.0.1:8786", "tls://far.example:8786", "tcp://[::1]:8786"):
        assert read_engine(sound, trusted=False) == EngineAddress(url=sound)
    far = "tcp://far.example:8786"
    assert read_engine(far, trusted=True) == EngineAddress(url=far)
    with pytest.raises(BadInput, match=r"can run code on its workers and.*this machine"):
        read_engine(far, trusted=False)
    bad_names = (
        "local:0",
        "local:65",
        "local",
        "http://a:1",
        "tcp://a",
        "tls://a:1/x",
        "tcp://u@a:1",
    )
    behind = ("tcp://127.0.0.1:1?x", "tcp://127.0.0.1:1#y", "tcp://127.0.0.1:1\n")
    for text in (*bad_names, *behind, "tcp://a:99999", ""):
        with pytest.raises(BadInput, match="--engine"):
            read_engine(text, trusted=True)


async def test_a_server_of_mcp_is_here_alone(engine: Engine) -> None:
    plan = await Batches(engine).plan(a_spec(a_case("a")))
    check_plan(plan)
    ((place, planned),) = plan.planned.items()
    tools = tuple(replace(tool, answered_by="mcp") for tool in planned.settings.tools)
    settings = replace(planned.settings, tools=tools)
    plan = replace(plan, planned={place: replace(planned, settings=settings)})
    with pytest.raises(BadInput, match="MCP server"):
        check_plan(plan)


# A client of Dask's that is none ------------------------------------------------------------------


class Client:
    """A scheduler with workers by address: their id and versions. `come` has what a run gives."""

    status = "running"

    def __init__(self, workers: dict[str, tuple[str, Any]]) -> None:
        self.workers = workers
        self.scheduler = self
        self.submitted: list[dict[str, Any]] = []
        self.come: list[asyncio.Future[Any]] = []
        self.cancelled = 0

    async def versions(self) -> dict[str, Any]:
        return {"packages": {"distributed": "2026.8.0"}}

    async def identity(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {address: {"nthreads": 1} for address in self.workers}}

    async def run(self, task: Any, *, workers: list[str], on_error: str) -> dict[str, Any]:
        if any(self.workers[where] == SILENT for where in workers):
            await asyncio.Event().wait()
        return {where: self.workers[where] for where in workers}

    def submit(self, task: Any, *given: Any, **options: Any) -> Client:
        self.submitted.append({"given": given, **options})
        return self

    async def result(self) -> Any:
        self.come.append(asyncio.get_running_loop().create_future())
        return await self.come[-1]

    def release(self) -> None: ...

    async def cancel(self, futures: Any, force: bool) -> None:
        self.cancelled += 1


def dask(workers: dict[str, tuple[str, Any]]) -> tuple[DaskWorkers, Client]:
    client = Client(workers)
    none: Any = None
    return DaskWorkers(client, WorkerTasks(none, none, none, lambda: HERE), "tcp://s:1"), client


async def test_versions_are_compared_first() -> None:
    assert differences(HERE, dict(HERE)) == ""
    other = differences(HERE, {**HERE, "Python": "3.12", "distributed": ""})
    assert other == "Python 3.12 and not 3.11, distributed none and not 2026.8.0"
    for about, words in (
        (("id", {**HERE, "Playground": "0"}), "has Playground 0 and not 1"),
        (ModuleNotFoundError("No module named 'playground'"), "has not a Playground"),
    ):
        workers, _ = dask({"tcp://w:1": about})  # type: ignore[dict-item]
        with pytest.raises(BadInput, match=words):
            await workers.begin()
    workers, _ = dask({})
    with pytest.raises(BadInput, match="no workers"):
        await workers.begin()


async def test_a_worker_that_does_not_answer_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("playground.batch.cluster.ABOUT_S", 0.001)
    workers, client = dask({"tcp://w:1": ("first", HERE), "tcp://w:2": SILENT})
    await workers.begin()
    assert workers.threads == 1
    broken: Any = OSError("the connection was reset")
    client.workers["tcp://w:2"] = broken
    await workers._find()
    assert workers.threads == 1
    client.workers["tcp://w:2"] = ("second", HERE)
    await workers._find()
    assert workers.threads == 2
    workers, client = dask({"tcp://w:1": SILENT})
    with pytest.raises(BadInput, match="no workers that answer"):
        await workers.begin()


async def test_who_comes_and_goes_is_seen_whatever_a_scheduler_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("playground.batch.cluster.LOOK_S", 0.0)
    workers, client = dask({"tcp://w:1": ("first", HERE)})
    await workers.begin()
    watching = asyncio.create_task(workers.watch())
    junk: Any = {"tcp://w:1": ("first", HERE), "tcp://w:2": ("second",)}
    for there, threads in ((None, 1), (junk, 1), ({}, 0)):  # None: an error of its own
        client.workers = there  # type: ignore[assignment]
        async with asyncio.timeout(10):
            for _ in range(9):
                workers._changed.clear()
                await workers._changed.wait()
        assert workers.threads == threads
    watching.cancel()
    await asyncio.wait((watching,))


async def test_a_run_is_pinned_to_one_process_and_lost_with_it() -> None:
    workers, client = dask({"tcp://w:1": ("first", HERE)})
    await workers.begin()
    assert workers.threads == 1
    async with workers.room() as room:
        waiting = asyncio.create_task(workers.room().__aenter__())
        making = asyncio.create_task(room.run("s1", "{}"))
        while not client.come:
            await asyncio.sleep(0)
        submission = client.submitted[0]
        assert submission["given"] == ("{}", "first", "s1")
        pinned = {"workers": ["tcp://w:1"], "allow_other_workers": False}
        assert submission.items() >= {**pinned, "retries": 0, "pure": False}.items()
        client.come[0].set_result(b"session")
        assert await making == b"session"
        assert not waiting.done()  # no more at once than it has threads
        making = asyncio.create_task(room.run("s2", "{}"))
        while len(client.come) < 2:
            await asyncio.sleep(0)
        client.workers = {}
        await workers._find()
        with pytest.raises(RunLost, match="was lost during"):
            await making
        assert client.cancelled == 1
        client.workers = {"tcp://w:1": ("second", HERE)}  # its nanny started another one
        await workers._find()
        again = await asyncio.wait_for(waiting, 5)
        making = asyncio.create_task(again.run("s3", "{}"))
        while len(client.come) < 3:
            await asyncio.sleep(0)
        assert client.submitted[2]["given"][1] == "second"
        client.come[2].set_result("another process has its address now.")
        with pytest.raises(RunLost, match="another process"):
            await making
        assert workers.threads == 0  # it is asked anew who stands there
        making = asyncio.create_task(again.run("s4", "{}"))
        while len(client.come) < 4:
            await asyncio.sleep(0)
        client.come[3].set_exception(ValueError("broken"))
        with pytest.raises(RunLost, match="ValueError: broken"):
            await making
