"""The batches of a database: start, pause, resume, stop, and what they have come to.

A run is claimed in the database before anything of it is sent, and its session is saved as any
other. So what a killed program leaves behind is known by what is saved: a claim without a request
in its session sent nothing and is made again; one with it and without an end is unknown, and is
made again only where that is asked for. A run whose end is known is never made twice.

Where workers elsewhere make the runs, the claim says so, and its session is saved here when it has
come back. A claim without a session is unknown then: it may have sent its request.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Protocol

from app.batch.lanes import AT_ONCE, Budget, LaneWatch, ProviderLane
from app.batch.plan import BatchPlan, ReadFile, plan_batch
from app.batch.run_case import CaseRun, Look, carried, keep_session, perform, run_data
from app.core.errors import BadInput, Conflict, NotFound, PlaygroundError, StoreError
from app.core.late import dataclass
from app.engine.engine import Engine
from app.engine.sessions import Bell, new_id
from app.evaluation.report import make_report
from app.evaluation.results import RunResult, result_data, result_from_data, score_run
from app.evaluation.spec import RunKey, Spec, spec_data
from app.evaluation.spec_reader import spec_from_data
from app.store.batches import (
    BatchRow,
    BatchState,
    RunRow,
    add_batch,
    batch_row,
    batch_rows,
    claim,
    finish,
    newest_alike,
    run_rows,
    set_state,
    unclaim,
)

FINISHED = frozenset(("passed", "failed", "provider_error", "needs_person"))
"""Outcomes of runs that are not made again."""

TROUBLES = 20
"""So many runs of a lane that end one after the other by its provider's trouble pause the batch."""

LOOKS, LOOK_AFTER = 50, 10
"""How often, at most, it is looked whether all is decided, and after how many runs at least."""

DECIDED = "Each comparison has its verdict, which stays whatever comes."

CUT = "The program ended while this run was under way."

STOP_S = 5.0
"""How long a worker elsewhere may take to stop a run, in seconds; then it is unknown."""

log = logging.getLogger(__name__)

MakeRun = Callable[[CaseRun, Look], Awaitable[None]]
"""Makes a run, whose session is in the database then."""


class RunLost(PlaygroundError):
    """Nobody here will know what a run elsewhere came to: its worker is gone, or its session
    cannot be read."""


class EngineGone(PlaygroundError):
    """There is no worker elsewhere any more that could make a run."""


class RemoteWorker(Protocol):
    """A process that makes runs elsewhere, with room for one."""

    @property
    def name(self) -> str: ...

    async def run(self, session: str, run_json: str) -> bytes:
        """`run_case`, there; nothing where it was stopped before it began. RunLost where it is not
        known what it came to."""

    async def stop(self, session: str) -> None:
        """Let that run end now; `run` returns what it came to."""


class RemoteWorkers(Protocol):
    """Processes that make runs elsewhere, `threads` at once in all."""

    @property
    def threads(self) -> int: ...

    def room(self) -> AbstractAsyncContextManager[RemoteWorker]:
        """One that has room for a run, as soon as there is one; EngineGone where there is none."""


@dataclass(frozen=True)
class BatchProgress:
    """How far a batch has come. `outcomes` counts the runs whose end is known, by outcome;
    `under_way` those that are being made. `spent` is in US dollars; `seconds_left` is an estimate,
    None where there is none. `why` is a sentence on the state, or ""."""

    id: str
    name: str
    state: BatchState
    why: str
    runs: int
    outcomes: Mapping[str, int]
    under_way: int = 0
    spent: float = 0.0
    seconds_left: float | None = None
    created_ms: int = 0

    @property
    def done(self) -> int:
        return sum(self.outcomes.values())


@dataclass(eq=False)
class _Given:
    """To `where` a run was given away, "" where it is made here, or is known not to have begun;
    `lost` is why its result is unknown."""

    where: str
    lost: str = ""


@dataclass(eq=False)
class _LiveBatch:
    """A batch that is being made. `go` is set unless it is paused; `moved` is set whenever a run
    has ended or the state is another."""

    row: BatchRow
    plan: BatchPlan
    results: dict[RunKey, RunResult]
    queues: dict[str, deque[RunKey]]
    lanes: dict[str, ProviderLane]
    budget: Budget
    began: float
    go: asyncio.Event = field(default_factory=asyncio.Event)
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    troubles: Counter[str] = field(default_factory=Counter)
    ended_here: int = 0
    stop_early: bool = False
    driving: asyncio.Task[None] | None = None

    @property
    def resting(self) -> bool:
        """Whether nothing is under way, and nothing will be by itself."""
        paused = not self.go.is_set() and not self.budget.under_way
        return paused or self.driving is None or self.driving.done()


class Batches:
    """`make` makes one run; `clock` counts seconds; `at_once` is how many runs ask one provider at
    the same time at most. Where there are `workers` they make the runs, as many at once as they
    have threads. Reports are made of `results` and `spec`."""

    def __init__(
        self,
        engine: Engine,
        *,
        make: MakeRun | None = None,
        clock: Callable[[], float] = time.monotonic,
        at_once: int = AT_ONCE,
        workers: RemoteWorkers | None = None,
    ) -> None:
        self._engine = engine
        self._make = make or partial(perform, engine)
        self._clock = clock
        self._workers = workers
        self._at_once = at_once if workers is None else workers.threads
        self._live: dict[str, _LiveBatch] = {}
        self._bells: dict[str, set[Bell]] = {}
        self._resuming: set[str] = set()
        self._starting = asyncio.Lock()

    async def plan(self, spec: Spec, read_file: ReadFile | None = None) -> BatchPlan:
        """What a batch would ask, before it is started: `plan_batch`."""
        return await plan_batch(self._engine, spec, read_file)

    async def start(self, plan: BatchPlan, *, stop_early: bool = False, token: str = "") -> str:
        """Begin a batch; its id. With `stop_early` it is paused as soon as each comparison has its
        verdict, which stays whatever comes. What is started a second time by the same `token`
        has begun already. BadInput where its SPEC cannot be kept."""
        spec, now = plan.spec, self._engine.sessions.clock()
        body, digest = await asyncio.to_thread(_body_and_digest, spec)
        async with self._starting:
            known = await batch_row(self._engine.database, token) if token else None
            if known is not None and known.body == body:
                return known.id
            batch_id = token if token and known is None else new_id()
            row = BatchRow(batch_id, digest, spec.name, body, spec.runs, "running", "", now, now)
            await add_batch(self._engine.database, row)
            self._begin(row, plan, {}, spec.max_cost).stop_early = stop_early
        return row.id

    async def newest(self, spec: Spec) -> str | None:
        """The id of the newest batch that asks what `spec` does, whose tools are looked up."""
        row = await newest_alike(self._engine.database, _digest(spec))
        return row.id if row is not None else None

    async def resume(
        self,
        batch_id: str,
        *,
        retry_unknown: bool = False,
        max_cost: float | None = None,
        stop_early: bool = False,
    ) -> None:
        """Go on with a batch that is paused, was stopped, or whose program ended; `max_cost` is
        its limit from now on. Conflict where it is being made."""
        live = self._live.get(batch_id)
        driven = live is not None and live.driving is not None and not live.driving.done()
        if live is not None and driven and not (retry_unknown and live.resting):
            if live.go.is_set():
                raise Conflict("This batch is running.")
            live.budget.limit = live.budget.limit if max_cost is None else max_cost
            live.stop_early = stop_early
            await self._set_state(live, "running")
            live.go.set()
            return
        if batch_id in self._resuming:  # what is saved is being read: it would be made twice
            raise Conflict("This batch is being resumed.")
        self._resuming.add(batch_id)
        try:
            await self._forget(batch_id)
            row = await self._row(batch_id)
            spec = await asyncio.to_thread(_spec_of, row)
            if max_cost is not None:
                spec = replace(spec, max_cost=max_cost)
            plan = await self.plan(spec)
            results = await self._known(row, spec)
            if retry_unknown:
                results = {key: run for key, run in results.items() if run.outcome != "unknown"}
            live = self._begin(row, plan, results, spec.max_cost)
        finally:
            self._resuming.discard(batch_id)
        live.stop_early = stop_early
        await self._set_state(live, "running")

    async def pause(self, batch_id: str, why: str = "") -> None:
        """Claim no more runs; those under way come to their end. Conflict where it is not being
        made."""
        live = await self._making(batch_id)
        live.go.clear()
        await self._set_state(live, "paused", why)

    async def stop(self, batch_id: str) -> None:
        """End what is under way, too. It can be resumed."""
        await self._end(await self._making(batch_id), "stopped")

    async def progress(self, batch_id: str) -> BatchProgress:
        """How far it has come. NotFound where there is none."""
        live = self._live.get(batch_id)
        if live is not None:
            return self._progress(live)
        row = await self._row(batch_id)
        runs = await run_rows(self._engine.database, batch_id)
        outcomes = Counter(run.outcome for run in runs if run.outcome)
        spent = sum(_result(run).cost or 0.0 for run in runs if run.outcome)
        if row.state == "running":
            row = replace(row, state="paused", why="The program ended while it ran. Resume it.")
        return _progress_of(row, outcomes, spent)

    async def list(self, limit: int = 200) -> list[BatchProgress]:
        """All batches, newest first."""
        rows = await batch_rows(self._engine.database, limit)
        return [await self.progress(row.id) for row in rows]

    async def spec(self, batch_id: str) -> Spec:
        """What it asks, with definitions of tools alone."""
        live = self._live.get(batch_id)
        if live is not None:
            return live.plan.spec
        return await asyncio.to_thread(_spec_of, await self._row(batch_id))

    async def results(self, batch_id: str) -> Sequence[RunResult]:
        """The runs whose end is known, in the order of `Spec.keys`."""
        live = self._live.get(batch_id)
        if live is not None:
            spec, known = live.plan.spec, live.results
        else:
            row = await self._row(batch_id)
            spec = await asyncio.to_thread(_spec_of, row)
            runs = await run_rows(self._engine.database, batch_id)
            known = {result.key: result for result in (_result(run) for run in runs if run.outcome)}
        every = spec.keys()
        return [known[key] for key in every if key in known]

    def ended_since(self, batch_id: str, count: int) -> Sequence[RunResult]:
        """The runs that ended after the first `count`, in the order in which they did; nothing of
        a batch that is not being made. Outcomes known when it was resumed come first."""
        live = self._live.get(batch_id)
        return list(islice(live.results.values(), count, None)) if live is not None else []

    @contextmanager
    def listen(self, batch_id: str) -> Iterator[Bell]:
        """A bell that rings whenever a run of the batch has ended, or its state is another."""
        bell = Bell()
        bells = self._bells.setdefault(batch_id, set())
        bells.add(bell)
        try:
            yield bell
        finally:
            bells.discard(bell)
            if not bells:
                self._bells.pop(batch_id, None)

    async def rested(self, batch_id: str) -> BatchProgress:
        """Until the batch ends, is stopped, or is paused with nothing under way."""
        live = self._live.get(batch_id)
        while live is not None and not live.resting:
            live.moved.clear()
            await live.moved.wait()
        return await self.progress(batch_id)

    async def close(self) -> None:
        """End what is under way, because the program ends; each batch can be resumed."""
        for live in list(self._live.values()):
            await self._end(live, "stopped" if live.go.is_set() else "paused", live.row.why)

    # How it is made.

    def _begin(
        self, row: BatchRow, plan: BatchPlan, results: dict[RunKey, RunResult], limit: float
    ) -> _LiveBatch:
        budget = Budget(limit)
        for known in results.values():
            budget.ended(known.cost)
        finished = {key for key, known in results.items() if known.outcome != "stopped"}
        queues: dict[str, deque[RunKey]] = {}
        every = plan.spec.keys()
        for key in every:
            if key not in finished:
                queues.setdefault(plan.lane(key), deque()).append(key)
        lanes = {place: ProviderLane(self._clock, self._at_once) for place in queues}
        live = _LiveBatch(row, plan, results, queues, lanes, budget, self._clock())
        live.go.set()
        self._live[row.id] = live
        live.driving = asyncio.create_task(self._drive(live))
        live.driving.add_done_callback(lambda _: self._ring(live))
        return live

    async def _drive(self, live: _LiveBatch) -> None:
        workers = [
            asyncio.create_task(self._work(live, place))
            for place, queue in live.queues.items()
            for _ in range(min(self._at_once, len(queue)))
        ]
        try:
            await asyncio.gather(*workers)
            await self._set_state(live, "ended")
        except EngineGone as error:
            await self._set_state(live, "paused", str(error))
        except StoreError as error:
            log.error("Batch %s could not be saved: %s", live.row.id, error)
            live.row = replace(live.row, state="paused", why=str(error))
        finally:
            for worker in workers:
                if not worker.cancelling():  # a second time would break off how it stops its run
                    worker.cancel()
            if workers:
                await asyncio.wait(workers)

    async def _end(self, live: _LiveBatch, state: BatchState, why: str = "") -> None:
        """End all that is under way; what is claimed and not sent can be made again."""
        if live.driving is not None and not live.driving.done():
            live.driving.cancel()
            await asyncio.wait([live.driving])
            await self._set_state(live, state, why)

    async def _work(self, live: _LiveBatch, place: str) -> None:
        """Make runs of one lane, until none is left."""
        queue, lane = live.queues[place], live.lanes[place]
        while queue:
            await live.go.wait()
            if not live.budget.allows:
                await self._wait_for_money(live)
                continue
            async with lane.place(), self._room() as worker:
                if queue and live.go.is_set() and live.budget.allows:
                    await self._run(live, queue.popleft(), lane, place, worker)

    @asynccontextmanager
    async def _room(self) -> AsyncIterator[RemoteWorker | None]:
        """Where a run is made: None is here."""
        if self._workers is None:
            yield None
            return
        async with self._workers.room() as worker:
            yield worker

    async def _wait_for_money(self, live: _LiveBatch) -> None:
        """Until a run has ended, which may have cost less than was kept back for it."""
        budget = live.budget
        if budget.under_way:
            live.moved.clear()
            await live.moved.wait()
        elif live.go.is_set():
            await self.pause(
                live.row.id,
                f"The limit of ${budget.limit:g} is reached: ${budget.spent:.4g} are spent, and "
                f"the dearest run cost ${budget.dearest:.4g}. Resume with a higher limit.",
            )

    async def _run(
        self,
        live: _LiveBatch,
        key: RunKey,
        lane: ProviderLane,
        place: str,
        worker: RemoteWorker | None,
    ) -> None:
        database, batch_id, session_id = self._engine.database, live.row.id, new_id()
        watch = LaneWatch(lane, lambda: datetime.now(UTC))
        live.budget.under_way += 1
        run = live.plan.run(key, session_id, batch_id)
        given = _Given(worker.name if worker is not None else "")
        now = self._engine.sessions.clock()
        result: RunResult | None = None
        try:
            await claim(database, batch_id, key, session_id, now, given.where)
            try:
                if worker is None:
                    await self._make(run, watch.look)
                else:
                    await self._make_at(worker, run, watch.look, given)
            except RunLost as error:
                given.lost = str(error)
            finally:  # where it is stopped it is saved that it was
                result = await self._score(live.plan.spec, key, session_id, given)
                if result is not None:
                    await self._finish(batch_id, result)
                elif worker is not None:  # it is known that nothing was sent
                    await unclaim(database, batch_id, key)
        finally:
            live.budget.under_way -= 1
            if result is not None:
                live.results[key] = result
                live.ended_here += 1
                live.budget.ended(result.cost)
            self._ring(live)
        if result is not None:
            if not watch.warned:
                lane.went_well()
            await self._count_trouble(live, place, result)
            await self._look_for_verdicts(live)

    async def _make_at(self, worker: RemoteWorker, run: CaseRun, look: Look, given: _Given) -> None:
        """Let `worker` make a run, and keep its session. Where this is cancelled the run is
        stopped there, and what it came to is kept."""
        making = asyncio.create_task(self._take_in(worker, run, look, given))
        try:
            await asyncio.shield(making)
        except asyncio.CancelledError:
            await worker.stop(run.session)
            await asyncio.wait((making,), timeout=STOP_S)
            raise
        finally:
            making.cancel()
            await asyncio.wait((making,))
            _ = making.cancelled() or making.exception()  # or asyncio reports it as never retrieved

    async def _take_in(self, worker: RemoteWorker, run: CaseRun, look: Look, given: _Given) -> None:
        order = run_data(await carried(self._engine, run))
        data = await worker.run(run.session, order)
        if not data:
            given.where = ""
            return
        try:
            await keep_session(self._engine, run, data, look)
        except BadInput as error:
            raise RunLost(f"What {worker.name} sent cannot be kept: {error}") from error

    async def _look_for_verdicts(self, live: _LiveBatch) -> None:
        """A few times in all, for a report is made of all results that there are."""
        every = max(LOOK_AFTER, live.plan.spec.runs // LOOKS)
        if live.stop_early and live.go.is_set() and live.ended_here % every == 0:
            report = make_report(live.plan.spec, live.results.values())
            if report.decided and report.state != "ended":
                await self.pause(live.row.id, DECIDED)

    async def _count_trouble(self, live: _LiveBatch, place: str, result: RunResult) -> None:
        if result.outcome != "provider_error":
            live.troubles[place] = 0
            return
        live.troubles[place] += 1
        if live.troubles[place] == TROUBLES and live.go.is_set():
            live.troubles[place] = 0
            why = f"{TROUBLES} runs in a row ended by the provider's trouble: {result.detail}"
            await self.pause(live.row.id, why)

    async def _score(
        self, spec: Spec, key: RunKey, session_id: str, given: _Given
    ) -> RunResult | None:
        """What the run came to by its session; None where there is no session, or nothing was
        sent: then it was not made. One given to a worker is unknown without its session."""
        try:
            async with self._engine.sessions.holding(session_id) as live:
                if not live.session.turns:
                    return None
                return score_run(live.session, key, spec.by_id[key.case].expect, session_id)
        except NotFound:
            if not given.where:
                return None
            lost = given.lost or f"It was under way at {given.where}."
            return RunResult(key, "unknown", detail=lost)

    async def _finish(self, batch_id: str, result: RunResult) -> None:
        body = json.dumps(result_data(result))
        await finish(self._engine.database, batch_id, result.key, result.outcome, body)

    async def _known(self, row: BatchRow, spec: Spec) -> dict[RunKey, RunResult]:
        """What is known of the runs that were claimed. One without an end in the table was cut: it
        is looked up in its session, and what is found is saved."""
        known: dict[RunKey, RunResult] = {}
        for run in await run_rows(self._engine.database, row.id):
            result = _result(run) if run.outcome else await self._cut(row, run, spec)
            if result is not None:
                known[result.key] = result
        return known

    async def _cut(self, row: BatchRow, run: RunRow, spec: Spec) -> RunResult | None:
        key = RunKey(*run.place)
        given = _Given(run.body, f"The program ended while this run was under way at {run.body}.")
        result = await self._score(spec, key, run.session, given)
        if result is None:
            await unclaim(self._engine.database, row.id, key)
            return None
        if result.session is None:
            await self._finish(row.id, result)
            return result
        async with self._engine.sessions.holding(run.session) as live:
            turn = live.session.turn
            failure = turn.failure if turn is not None else None
        # Its rules ended with the program: one of them may have been about to run what waits.
        waits = result.outcome == "needs_person"
        if waits or (failure is not None and failure.failure == "interrupted"):
            result = replace(result, outcome="unknown", detail=CUT)
        await self._finish(row.id, result)
        return result

    # The rest.

    async def _set_state(self, live: _LiveBatch, state: BatchState, why: str = "") -> None:
        now = self._engine.sessions.clock()
        live.row = replace(live.row, state=state, why=why, updated_ms=now)
        self._ring(live)
        await set_state(self._engine.database, live.row)

    def _ring(self, live: _LiveBatch) -> None:
        live.moved.set()
        for bell in self._bells.get(live.row.id, ()):
            bell.ring()

    def _progress(self, live: _LiveBatch) -> BatchProgress:
        outcomes = Counter[str](result.outcome for result in live.results.values())
        left = sum(map(len, live.queues.values())) + live.budget.under_way
        seconds = None
        if live.ended_here and live.row.state == "running":
            seconds = left * (self._clock() - live.began) / live.ended_here
        shown = _progress_of(live.row, outcomes, live.budget.spent)
        return replace(shown, under_way=live.budget.under_way, seconds_left=seconds)

    async def _making(self, batch_id: str) -> _LiveBatch:
        """NotFound where there is no such batch, Conflict where it is not being made."""
        live = self._live.get(batch_id)
        if live is None:
            await self._row(batch_id)
        if live is None or live.driving is None or live.driving.done():
            raise Conflict("This batch is not running.")
        return live

    async def _forget(self, batch_id: str) -> None:
        """End what was paused with nothing under way: it begins again by what is saved."""
        if (live := self._live.pop(batch_id, None)) is not None:
            await self._end(live, "paused")

    async def _row(self, batch_id: str) -> BatchRow:
        row = await batch_row(self._engine.database, batch_id)
        if row is None:
            raise NotFound(f"There is no batch {batch_id[:80]!r}.")
        return row


def _body_and_digest(spec: Spec) -> tuple[str, str]:
    """Body and digest of a batch as they are kept. For thousands of cases it takes seconds."""
    data = spec_data(replace(spec, allow=()))
    spec_from_data(json.loads(json.dumps(data)))  # what is kept has to be read again
    return json.dumps({"spec": data, "allow": spec.allow}), _digest(spec)


def _digest(spec: Spec) -> str:
    """The same for a batch that goes on with another limit of money."""
    return replace(spec, max_cost=0.0).digest()


def _spec_of(row: BatchRow) -> Spec:
    data = json.loads(row.body)
    return spec_from_data(data["spec"], allow=data["allow"])


def _result(run: RunRow) -> RunResult:
    """What a run came to whose end is saved."""
    return result_from_data(json.loads(run.body))


def _progress_of(row: BatchRow, outcomes: Mapping[str, int], spent: float) -> BatchProgress:
    state: BatchState = row.state
    return BatchProgress(
        row.id,
        row.name,
        state,
        row.why,
        row.runs,
        dict(outcomes),
        spent=spent,
        created_ms=row.created_ms,
    )
