"""A batch from its start to its end, over a pause, a stop and a program that was killed."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from playground.batch.batches import CUT, DECIDED, TROUBLES, Batches
from playground.batch.plan import plan_batch
from playground.batch.run_case import ANSWERED, CaseRun, Look, run_case, run_data, run_until_idle
from playground.core.errors import BadInput, Conflict, NotFound
from playground.core.events import CallDecided
from playground.core.tools import Tool
from playground.engine.engine import Engine
from playground.engine.export_session import read_bundle
from playground.engine.import_session import import_session
from playground.evaluation.report import make_report
from playground.evaluation.results import RunResult
from playground.evaluation.spec import Spec
from playground.evaluation.spec_reader import read_spec, spec_from_data
from playground.exchange.batch_export import write as write_test
from playground.exchange.bundle import read_session
from playground.store.batches import run_rows
from tests.engine.boundary import Boundary
from tests.engines import StartEngine, events_of, run_engine

pytestmark = pytest.mark.anyio

WEATHER = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
    "config": {"result": "12 degrees"},
}
ASKS_WEATHER = {"called": "get_weather", "arguments": {"subset": {"city": "Paris"}}}


def a_case(name: str, prompt: str = "What is the weather in Paris?", **more: Any) -> dict[str, Any]:
    return {"id": name, "prompt": f"{prompt} ({name})", "expect": [ASKS_WEATHER], **more}


def a_spec(*cases: Mapping[str, Any], **more: Any) -> Spec:
    defaults = {"stream": False, **more.pop("defaults", {})}
    data = {"playground_batch": 1, "tools": [WEATHER], "defaults": defaults, **more}
    return spec_from_data({**data, "cases": list(cases)})


async def wait_for_outcomes(batches: Batches, batch: str) -> dict[str, str]:
    """The outcomes by case and repetition, once the batch rests."""
    async with asyncio.timeout(40):
        await batches.wait_until_resting(batch)
    return outcomes_of(await batches.results(batch))


def outcomes_of(results: Any) -> dict[str, str]:
    return {f"{result.key.case}{result.key.repetition}": result.outcome for result in results}


def prompt_counts(boundary: Boundary) -> Counter[str]:
    """How often the simulator was asked each prompt for the first time."""
    bodies = (json.loads(exchange.request) for exchange in boundary.exchanges if exchange.request)
    return Counter(json.dumps(b["messages"]) for b in bodies if len(b["messages"]) == 1)


class Holding:
    """Makes runs, of which `most` go on and later ones wait for ever at their claim."""

    def __init__(self, engine: Engine, most: int) -> None:
        self._engine = engine
        self._left = most
        self.holds = asyncio.Event()

    async def __call__(self, run: CaseRun, look: Look) -> None:
        self._left -= 1
        if self._left < 0:
            self.holds.set()
            await asyncio.Event().wait()
        await run_until_idle(self._engine, run, look)


async def test_every_run_is_made_and_its_session_is_kept(tmp_path: Path) -> None:
    boundary = Boundary()
    spec = a_spec(a_case("a"), a_case("b", "Good morning"), defaults={"repetitions": 2})
    async with run_engine(tmp_path, boundary=boundary) as engine:
        batches = Batches(engine)
        batch = await batches.start(await batches.plan(spec))
        with batches.listen(batch) as bell:
            outcomes = await wait_for_outcomes(batches, batch)
            assert await bell.wait(1)
        assert outcomes == {"a1": "passed", "a2": "passed", "b1": "failed", "b2": "failed"}
        progress = await batches.progress(batch)
        assert (progress.state, progress.done, progress.under_way) == ("ended", 4, 0)
        assert [batch_progress.id for batch_progress in await batches.list()] == [batch]
        result: RunResult = (await batches.results(batch))[0]
        assert result.session is not None
        summary = await engine.log.summary(result.session)
        assert summary is not None
        assert (summary.batch, summary.own, summary.title) == (
            batch,
            True,
            f"{result.key.case} · default · simulator · 1",
        )
        assert await engine.log.summaries() == []
        assert engine.rules.rules_of(result.session) == ()
        assert outcomes_of(await Batches(engine).results(batch)) == outcomes
        with pytest.raises(Conflict):
            await batches.pause(batch)
        with pytest.raises(NotFound):
            await batches.resume("nowhere")
    assert sorted(prompt_counts(boundary).values()) == [2, 2]


async def test_what_the_model_writes_wrong_is_answered_and_what_asks_needs_a_person(
    start_engine: StartEngine,
) -> None:
    person = {**WEATHER, "answered_by": "person", "config": {}}
    spec = a_spec(
        a_case("wrong", "What is the weather in Paris? [[fault:args-wrong-types]]"),
        a_case("person", tools=[person]),
        a_case("answered", tools=[person], answers={"get_weather": {"result": "mild"}}),
    )
    engine = await start_engine()
    batches = Batches(engine)
    batch = await batches.start(await batches.plan(spec))
    results = {result.key.case: result for result in await _results(batches, batch)}
    assert {name: run_result.outcome for name, run_result in results.items()} == {
        "wrong": "failed",
        "person": "passed",  # accepted by nobody, so it is a mock
        "answered": "passed",
    }
    decided = events_of(await engine.log.events(str(results["wrong"].session)), CallDecided)
    assert decided[0].by == "rule"
    assert decided[0].rule == ANSWERED
    assert decided[0].is_error
    spec = replace(spec, allow=("get_weather",), cases=spec.cases[1:2])
    batch = await batches.start(await batches.plan(spec))
    assert await wait_for_outcomes(batches, batch) == {"person1": "needs_person"}


async def _results(batches: Batches, batch: str) -> list[RunResult]:
    await wait_for_outcomes(batches, batch)
    return list(await batches.results(batch))


async def test_a_pause_lets_what_runs_end_and_a_stopped_run_is_made_again(tmp_path: Path) -> None:
    spec = a_spec(*(a_case(name) for name in "abcd"))
    boundary = Boundary()
    async with run_engine(tmp_path, boundary=boundary) as engine:
        holding = Holding(engine, 2)
        batches = Batches(engine, make=holding, at_once=1)
        batch = await batches.start(await batches.plan(spec))
        async with asyncio.timeout(30):
            await holding.holds.wait()
        await batches.pause(batch, "Wait.")
        progress = await batches.progress(batch)
        assert (progress.state, progress.why, progress.under_way) == ("paused", "Wait.", 1)
        assert progress.outcomes == {"passed": 2}
        await batches.stop(batch)
        assert (await batches.progress(batch)).state == "stopped"
        other = Batches(engine)
        same = await other.plan(replace(spec, max_cost=3.0))
        assert await other.newest(same.spec) == batch
        clicks = [other.resume(batch) for _ in range(4)]
        refused = [
            error for error in await asyncio.gather(*clicks, return_exceptions=True) if error
        ]
        assert [type(error) for error in refused] == [Conflict] * 3  # the runs are made once
        assert set((await wait_for_outcomes(other, batch)).values()) == {"passed"}
        assert (await other.progress(batch)).state == "ended"
        for change in (other.pause, other.stop, other.resume):
            with pytest.raises(NotFound):
                await change("nothing")
    assert sorted(prompt_counts(boundary).values()) == [1, 1, 1, 1]


async def test_a_killed_program_leaves_what_is_unknown_and_nothing_is_made_twice(
    tmp_path: Path,
) -> None:
    """Cut before anything of the run was sent, within its answer, and between an answer and the
    call that it made; the tool of the last two has an effect."""
    silent = "What is the weather in Paris? [[fault:stall-headers]]"
    real: dict[str, Any] = {
        "tools": [{**WEATHER, "answered_by": "http", "config": {"url": "http://127.0.0.1:9"}}]
    }
    cases = a_case("claimed"), a_case("whole"), a_case("called", **real)
    spec = replace(a_spec(*cases, a_case("cut", silent, **real)), allow=("get_weather",))
    boundary = Boundary()
    async with run_engine(tmp_path, boundary=boundary) as engine:
        sent, called, wait = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def make(run: CaseRun, look: Look) -> None:
            def looked(session: Any) -> None:
                if session.turns and "cut" in run.title:
                    sent.set()

            if run.title.startswith("claimed"):
                await wait.wait()
            if run.title.startswith("called"):  # its call has come, and its rule not been asked
                await run_until_idle(engine, replace(run, rules=()), looked)
                called.set()
                await wait.wait()
            await run_until_idle(engine, run, looked)

        batches = Batches(engine, make=make)
        batch = await batches.start(await batches.plan(spec))
        async with asyncio.timeout(30):
            await sent.wait()
            await called.wait()
            with batches.listen(batch) as bell:
                while not (await batches.progress(batch)).done:
                    bell.clear()
                    await bell.wait(20)
        await engine.database.write([])  # all is in the file
        for ending in ("", "-wal"):
            (tmp_path / f"later.db{ending}").write_bytes(
                (tmp_path / f"test.db{ending}").read_bytes()
            )
        await batches.stop(batch)
    for path in tmp_path.glob("test.db*"):
        path.unlink()
    for path in tmp_path.glob("later.db*"):
        path.rename(tmp_path / path.name.replace("later", "test"))
    boundary.exchanges.clear()
    async with run_engine(tmp_path, boundary=boundary) as engine:
        batches = Batches(engine)
        assert (await batches.progress(batch)).state == "paused"
        await batches.resume(batch)
        assert await wait_for_outcomes(batches, batch) == {
            "claimed1": "passed",
            "whole1": "passed",
            "called1": "unknown",
            "cut1": "unknown",
        }
        unknown = next(
            result for result in await batches.results(batch) if result.key.case == "cut"
        )
        assert (unknown.detail, unknown.session is not None) == (CUT, True)
        assert ["(claimed)" in name for name in prompt_counts(boundary)] == [True]
        await batches.resume(batch)
        assert (await wait_for_outcomes(batches, batch))["cut1"] == "unknown"
        assert sum(prompt_counts(boundary).values()) == 1
        row = next(run for run in await run_rows(engine.database, batch) if run.place[0] == "cut")
        await batches.resume(batch, retry_unknown=True)
        async with asyncio.timeout(30):
            while sum(prompt_counts(boundary).values()) < 3:
                await engine.sessions.wait(engine.sessions.position, 2**30, 5)
        await batches.stop(batch)
        rows = {run.place[0]: run for run in await run_rows(engine.database, batch)}
        assert rows["cut"].session != row.session
        assert rows["cut"].outcome == "stopped"


async def left_after_a_kill(folder: Path, spec: Spec) -> str:
    """The id of a batch whose program was killed while each run was under way: those with `answer`
    in their name within the first answer, the others between that answer and its calls."""
    async with run_engine(folder) as engine:
        left, wait = set[str](), asyncio.Event()

        async def make(run: CaseRun, look: Look) -> None:
            within = "answer" in run.title
            if within:
                run = replace(run, prompt=f"{run.prompt} [[fault:stall-headers]]")

            def looked(session: Any) -> None:
                if session.turns and within:
                    left.add(run.title)

            await run_until_idle(engine, replace(run, rules=()), looked)
            left.add(run.title)
            await wait.wait()

        batches = Batches(engine, make=make)
        batch = await batches.start(await batches.plan(spec))
        async with asyncio.timeout(30):
            while len(left) < spec.runs:
                await engine.sessions.wait(engine.sessions.position, 2**30, 1)
        await engine.database.write([])  # all is in the file
        copies = {path: path.read_bytes() for path in folder.glob("test.db*")}
        await batches.stop(batch)
    for path in folder.glob("test.db*"):
        path.unlink()
    for path, data in copies.items():
        if not path.name.endswith("-shm"):
            path.write_bytes(data)
    return batch


@pytest.mark.parametrize(
    ("case", "made_again"),
    [
        ({}, True),
        ({"settings": {"extra": {"metadata": {"user_id": "u"}}}}, False),
        ({"tools": [{**WEATHER, "answered_by": "http", "config": {"url": "http://127.0.0.1:9"}}]},
         False),
    ],
    ids=["mocks", "extra members", "an http tool"],
)  # fmt: skip
async def test_of_what_a_kill_left_runs_with_nothing_but_mocks_are_made_again(
    tmp_path: Path, case: dict[str, Any], made_again: bool, start_engine: StartEngine
) -> None:
    cases = a_case("answer", expect=[], **case), a_case("calls", expect=[], **case)
    spec = replace(a_spec(*cases), allow=("get_weather",))
    batch = await left_after_a_kill(tmp_path, spec)
    boundary = Boundary()
    engine = await start_engine(boundary=boundary)
    batches = Batches(engine)
    before = {run.place[0]: run.session for run in await run_rows(engine.database, batch)}
    await batches.resume(batch)
    outcomes = await wait_for_outcomes(batches, batch)
    assert set(outcomes.values()) == {"passed" if made_again else "unknown"}
    assert sorted(prompt_counts(boundary).values()) == ([1, 1] if made_again else [])
    after = {run.place[0]: run.session for run in await run_rows(engine.database, batch)}
    assert all((before[name] != after[name]) == made_again for name in before)
    boundary.exchanges.clear()
    await batches.resume(batch)
    assert await wait_for_outcomes(batches, batch) == outcomes
    assert not prompt_counts(boundary)


async def test_money_that_is_spent_or_kept_back_pauses_the_batch(start_engine: StartEngine) -> None:
    """At most what was under way is spent beyond the limit."""
    spec = a_spec(*(a_case(str(number)) for number in range(9)), max_cost=1.0)

    engine = await start_engine()

    async def make(run: CaseRun, look: Look) -> None:
        await run_until_idle(engine, run, look)
        async with engine.sessions.lock_session(run.session) as live:  # nothing costs money here
            for turn in live.session.turns:
                assert turn.end is not None
                turn.end = replace(turn.end, cost=0.15)

    batches = Batches(engine, make=make, at_once=2)
    batch = await batches.start(await batches.plan(spec))
    outcomes = await wait_for_outcomes(batches, batch)
    progress = await batches.progress(batch)
    assert progress.state == "paused"
    assert "The limit of $1 is reached" in progress.why
    assert 0.6 <= progress.spent <= 1.0
    assert len(outcomes) == round(progress.spent / 0.3)
    await batches.resume(batch, max_cost=100.0)
    assert len(await wait_for_outcomes(batches, batch)) == 9
    assert (await batches.progress(batch)).state == "ended"


async def test_it_stops_when_all_is_decided(start_engine: StartEngine) -> None:
    """One variant calls the tool each time, the other has no tool to call."""
    wanted = [{"text_contains": "12 degrees"}]
    cases = [a_case(str(number), expect=wanted) for number in range(30)]
    variants: dict[str, Any] = {"blind": {"tools": []}, "base": {}}
    engine = await start_engine()
    batches = Batches(engine)
    plan = await batches.plan(a_spec(*cases, variants=variants))
    batch = await batches.start(plan, stop_early=True)
    await wait_for_outcomes(batches, batch)
    results = await batches.results(batch)
    progress = await batches.progress(batch)
    report = make_report(plan.spec, results, stopped=True)
    assert (progress.state, progress.why) == ("paused", DECIDED)
    assert 10 < len(results) < plan.spec.runs
    assert [each.verdict for each in report.comparisons] == ["better"]
    await batches.close()


async def test_a_limit_needs_a_price(engine: Engine) -> None:
    models = [{"profile": "openai", "model": "no-such-model"}]
    with pytest.raises(BadInput, match="a price is unknown"):
        await plan_batch(engine, a_spec(a_case("a"), models=models, max_cost=1))
    plan = await plan_batch(engine, a_spec(a_case("a"), models=models))
    assert plan.most_price is None
    with pytest.raises(BadInput, match="There is no tool or tool group 'nothing'"):
        await plan_batch(engine, a_spec(a_case("a", tools=["nothing"])))
    with pytest.raises(BadInput, match="/cases/0/settings/max_turns"):
        await plan_batch(engine, a_spec(a_case("a", settings={"max_turns": 0})))


async def test_trouble_that_goes_on_pauses_the_batch(start_engine: StartEngine) -> None:
    case = a_case("a", "Hello [[fault:http-401]]")
    engine = await start_engine()
    batches = Batches(engine, at_once=4)
    plan = await batches.plan(a_spec(case, defaults={"repetitions": 3 * TROUBLES}))
    batch = await batches.start(plan)
    outcomes = await wait_for_outcomes(batches, batch)
    progress = await batches.progress(batch)
    assert progress.state == "paused"
    assert progress.why.startswith(f"{TROUBLES} runs in a row")
    assert set(outcomes.values()) == {"provider_error"}
    assert TROUBLES <= len(outcomes) < TROUBLES + 4
    await batches.close()


async def test_the_same_run_elsewhere_gives_the_same_session(tmp_path: Path) -> None:
    """The seam: JSON in, JSON Lines out, on a database that knows nothing of the batch."""
    spec = a_spec(a_case("a"))
    (tmp_path / "there").mkdir()
    async with run_engine(tmp_path / "there") as elsewhere, run_engine(tmp_path) as engine:
        plan = await plan_batch(engine, spec)
        (key,) = spec.keys()
        asked_there = run_data(plan.run(key, "run-1", "b"))
        lines = await run_case(asked_there, elsewhere)
        there = read_session(lines, "run-1").session
        await run_until_idle(engine, plan.run(key, "run-1", "b"))
        async with engine.sessions.lock_session("run-1") as live:
            here = live.session
            assert [turn.request.body for turn in there.turns] == [
                turn.request.body for turn in here.turns
            ]
            assert (there.answer, there.state) == (here.answer, here.state)
        assert await import_session(engine, lines)
        with pytest.raises(BadInput):
            await run_case("{}", engine)


async def test_a_failed_run_is_saved_as_a_test_that_fails_again(start_engine: StartEngine) -> None:
    spec = a_spec(a_case("a", "Good morning", answers={"get_weather": "9 degrees"}))
    engine = await start_engine()
    batches = Batches(engine)
    for _ in range(2):
        batch = await batches.start(await batches.plan(spec))
        assert list((await wait_for_outcomes(batches, batch)).values()) == ["failed"]
        (result,) = await batches.results(batch)
        assert result.session is not None
        bundle = await read_bundle(engine, result.session)
        again = read_spec(write_test(bundle).data.decode())
        assert again.cases[0].expect == spec.cases[0].expect
        tool = again.tools[0]
        assert isinstance(tool, Tool)
        assert tool.config == {"result": "9 degrees"}
        spec = again


async def test_a_stop_is_told_to_each_run_once(tmp_path: Path) -> None:
    """Those that take longer to stop than the first are not broken off in it: they would be
    unknown."""
    begun, stopped = asyncio.Event(), 0

    async def make(run: CaseRun, look: Look) -> None:
        nonlocal stopped
        if run.title.startswith("d"):
            begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            for _ in range(20 * "abcd".index(run.title[0])):
                await asyncio.sleep(0)
            stopped += 1
            raise

    async with run_engine(tmp_path) as engine:
        batches = Batches(engine, make=make)
        spec = a_spec(*(a_case(name) for name in "abcd"))
        batch = await batches.start(await batches.plan(spec))
        async with asyncio.timeout(30):
            await begun.wait()
            await batches.stop(batch)
    assert stopped == 4


async def test_what_is_started_twice_begins_once(engine: Engine) -> None:
    batches = Batches(engine)
    plan = await batches.plan(a_spec(a_case("a")))
    token = "0123456789abcdef"
    ids = await asyncio.gather(*(batches.start(plan, token=token) for _ in range(3)))
    assert ids == [token] * 3
    other = await batches.plan(a_spec(a_case("b")))
    changed = await batches.start(other, token=token)
    assert changed != token
    await wait_for_outcomes(batches, token)
    await wait_for_outcomes(batches, changed)
    assert [row.id for row in await batches.list()].count(token) == 1


async def test_thousands_of_cases_keep_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = []

    def read(*given: Any, **named: Any) -> Spec:
        readers.append(threading.current_thread())
        return spec_from_data(*given, **named)

    monkeypatch.setattr("playground.batch.batches.spec_from_data", read)
    monkeypatch.setattr("playground.batch.plan.AT_A_TIME", 1)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with run_engine(tmp_path) as engine:
        batches = Batches(engine, make=Holding(engine, 0))
        other = asyncio.create_task(others())
        plan = await batches.plan(a_spec(*(a_case(str(number)) for number in range(50))))
        other.cancel()
        assert turns >= 50
        batch = await batches.start(plan)
        await batches.stop(batch)
        await Batches(engine).results(batch)
    assert len(readers) == 2
    assert threading.main_thread() not in readers
