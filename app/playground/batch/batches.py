"""The batches of a database: start, pause, resume, stop, and their results.

A run is claimed in the database before anything of it is sent, and its session is saved like any
other. So what is saved determines the state after a killed program. A claim whose session has no
request sent nothing and is run again. One with a request but no end is run again if only mocks
could run; otherwise it is unknown, because a tool may have had its effect, and is run again only on
request. A run with a known end is never repeated.

If remote workers make the runs, the claim says so, and its session is saved here when it is
returned. A claim without a session is unknown then: it may have sent its request.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Protocol

from playground.batch.lanes import AT_ONCE, Budget, LaneWatch, ProviderLane
from playground.batch.plan import BatchPlan, ReadFile, plan_batch
from playground.batch.run_case import (
    CaseRun,
    Look,
    has_no_effect,
    keep_session,
    pack_run,
    run_data,
    run_until_idle,
)
from playground.core.errors import BadInput, Conflict, NotFound, PlaygroundError, StoreError
from playground.engine.engine import Engine
from playground.engine.sessions import ChangeNotifier, new_id
from playground.evaluation.report import make_report
from playground.evaluation.results import RunResult, result_data, result_from_data, score_run
from playground.evaluation.spec import RunKey, Spec, spec_data
from playground.evaluation.spec_reader import spec_from_data
from playground.store.batches import (
    BatchRow,
    BatchState,
    RunRow,
    add_batch,
    batch_row,
    batch_rows,
    claim,
    finish,
    newest_same_batch,
    run_rows,
    set_state,
    unclaim,
)

FINISHED = frozenset(("passed", "failed", "provider_error", "needs_person"))
"""Outcomes of runs that are not repeated."""

TROUBLES = 20
"""The batch pauses after this many consecutive runs of a lane ended with a provider error."""

LOOKS, LOOK_AFTER = 50, 10
"""The maximum number of checks whether all is decided, and the runs between two at least."""

DECIDED = "Each comparison has a verdict that further runs cannot change."

CUT = "The program ended during this run."

AGAIN = "It was interrupted. Only mocks could run, so it is repeated."

STOP_S = 5.0
"""How long a remote worker may take to stop a run, in seconds; then the run is unknown."""

log = logging.getLogger(__name__)

MakeRun = Callable[[CaseRun, Look], Awaitable[None]]
"""Makes a run and saves its session in the database."""


class RunLost(PlaygroundError):
    """The outcome of a remote run cannot be determined: its worker is gone, or its session cannot
    be read."""


class NoRemoteWorker(PlaygroundError):
    """No remote worker is left that could make a run."""


class RemoteWorker(Protocol):
    """A remote process that makes runs, with room for one."""

    @property
    def name(self) -> str: ...

    async def run(self, session: str, run_json: str) -> bytes:
        """Runs `run_case` remotely; returns b"" if it was stopped before it began. RunLost if its
        outcome is unknown."""

    async def stop(self, session: str) -> None:
        """Ends that run now; `run` returns its result so far."""


class RemoteWorkers(Protocol):
    """Remote processes that make runs, `threads` at once in total."""

    @property
    def threads(self) -> int: ...

    def room(self) -> AbstractAsyncContextManager[RemoteWorker]:
        """A worker with room for a run, as soon as there is one; EngineGone if none is left."""


@dataclass(frozen=True)
class BatchProgress:
    """The progress of a batch. `outcomes` counts the runs whose end is known, by outcome;
    `under_way` those in progress. `spent` is in US dollars; `seconds_left` is an estimate, None if
    there is none. `why` is a sentence on the state, or ""."""

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
class _Assignment:
    """`where` is the worker a run was given to, "" if it is made here, or is known not to have
    begun; `lost` is why its result is unknown."""

    where: str
    lost: str = ""


@dataclass(eq=False)
class _LiveBatch:
    """A batch in progress. `go` is set unless it is paused; `moved` is set whenever a run has ended
    or the state has changed."""

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
        """Whether no run is in progress, and none will start by itself."""
        paused = not self.go.is_set() and not self.budget.under_way
        return paused or self.driving is None or self.driving.done()


class Batches:
    """`make` makes one run; `clock` counts seconds; `at_once` is the maximum number of concurrent
    runs per provider. If there are `workers`, they make the runs, as many at once as they have
    threads. Reports are made from `results` and `spec`."""

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
        self._make = make or partial(run_until_idle, engine)
        self._clock = clock
        self._workers = workers
        self._at_once = at_once if workers is None else workers.threads
        self._live: dict[str, _LiveBatch] = {}
        self._bells: dict[str, set[ChangeNotifier]] = {}
        self._resuming: set[str] = set()
        self._starting = asyncio.Lock()

    async def plan(self, spec: Spec, read_file: ReadFile | None = None) -> BatchPlan:
        """The requests of a batch, before it is started: `plan_batch`."""
        return await plan_batch(self._engine, spec, read_file)

    async def start(self, plan: BatchPlan, *, stop_early: bool = False, token: str = "") -> str:
        """Starts a batch and returns its id. With `stop_early` it is paused as soon as each
        comparison has its verdict, which later runs cannot change. A second start with the same
        `token` returns the first batch. BadInput if its SPEC cannot be saved."""
        spec, now = plan.spec, self._engine.sessions.clock()
        body, digest = await asyncio.to_thread(_body_and_digest, spec)
        async with self._starting:
            known = await batch_row(self._engine.database, token) if token else None
            if known is not None and known.body == body:
                return known.id
            batch_id = token if token and known is None else new_id()
            row = BatchRow(
                batch_id,
                digest=digest,
                name=spec.name,
                body=body,
                runs=spec.runs,
                state="running",
                why="",
                created_ms=now,
                updated_ms=now,
            )
            await add_batch(self._engine.database, row)
            self._begin(row, plan, {}, spec.max_cost).stop_early = stop_early
        return row.id

    async def newest(self, spec: Spec) -> str | None:
        """The id of the newest batch with the requests of `spec`, whose tools are looked up."""
        row = await newest_same_batch(self._engine.database, _digest(spec))
        return row.id if row is not None else None

    async def resume(
        self,
        batch_id: str,
        *,
        retry_unknown: bool = False,
        max_cost: float | None = None,
        stop_early: bool = False,
    ) -> None:
        """Continues a batch that is paused, was stopped, or whose program ended; `max_cost` is its
        limit from now on. Conflict if it is in progress."""
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
        if batch_id in self._resuming:  # its saved state is being read: it would be run twice
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
        """Claims no more runs; those in progress are completed. Conflict if it is not in
        progress."""
        live = await self._running_batch(batch_id)
        live.go.clear()
        await self._set_state(live, "paused", why)

    async def stop(self, batch_id: str) -> None:
        """Also ends the runs in progress. It can be resumed."""
        await self._end(await self._running_batch(batch_id), "stopped")

    async def progress(self, batch_id: str) -> BatchProgress:
        """Its progress. NotFound if it does not exist."""
        live = self._live.get(batch_id)
        if live is not None:
            return self._progress(live)
        row = await self._row(batch_id)
        runs = await run_rows(self._engine.database, batch_id)
        outcomes = Counter(run.outcome for run in runs if run.outcome)
        spent = sum(_result(run).cost or 0.0 for run in runs if run.outcome)
        if row.state == "running":
            row = replace(
                row, state="paused", why="The program ended during this batch. Resume it."
            )
        return _progress_of(row, outcomes, spent)

    async def list(self, limit: int = 200) -> list[BatchProgress]:
        """All batches, newest first."""
        rows = await batch_rows(self._engine.database, limit)
        return [await self.progress(row.id) for row in rows]

    async def spec(self, batch_id: str) -> Spec:
        """Its SPEC, whose tools are all definitions."""
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
        """The runs that ended after the first `count`, in the order in which they did; empty if the
        batch is not in progress. Outcomes known when it was resumed come first."""
        live = self._live.get(batch_id)
        return list(islice(live.results.values(), count, None)) if live is not None else []

    @contextmanager
    def listen(self, batch_id: str) -> Iterator[ChangeNotifier]:
        """A bell that rings whenever a run of the batch has ended, or its state has changed."""
        bell = ChangeNotifier()
        bells = self._bells.setdefault(batch_id, set())
        bells.add(bell)
        try:
            yield bell
        finally:
            bells.discard(bell)
            if not bells:
                self._bells.pop(batch_id, None)

    async def wait_until_resting(self, batch_id: str) -> BatchProgress:
        """Waits until the batch ends, is stopped, or is paused with no run in progress."""
        live = self._live.get(batch_id)
        while live is not None and not live.resting:
            live.moved.clear()
            await live.moved.wait()
        return await self.progress(batch_id)

    async def close(self) -> None:
        """Ends the runs in progress, because the program ends; each batch can be resumed."""
        for live in list(self._live.values()):
            await self._end(live, "stopped" if live.go.is_set() else "paused", live.row.why)

    # Running a batch.

    def _begin(
        self, row: BatchRow, plan: BatchPlan, results: dict[RunKey, RunResult], limit: float
    ) -> _LiveBatch:
        budget = Budget(limit)
        for known in results.values():
            budget.add_cost(known.cost)
        finished = {key for key, known in results.items() if known.outcome != "stopped"}
        queues: dict[str, deque[RunKey]] = {}
        every = plan.spec.keys()
        for key in every:
            if key not in finished:
                queues.setdefault(plan.lane(key), deque()).append(key)
        lanes = {place: ProviderLane(self._clock, self._at_once) for place in queues}
        live = _LiveBatch(
            row,
            plan=plan,
            results=results,
            queues=queues,
            lanes=lanes,
            budget=budget,
            began=self._clock(),
        )
        live.go.set()
        self._live[row.id] = live
        live.driving = asyncio.create_task(self._drive(live))
        live.driving.add_done_callback(lambda _: self._notify(live))
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
        except NoRemoteWorker as error:
            await self._set_state(live, "paused", str(error))
        except StoreError as error:
            log.error("Batch %s could not be saved: %s", live.row.id, error)
            live.row = replace(live.row, state="paused", why=str(error))
        finally:
            for worker in workers:
                if not worker.cancelling():  # a second cancel would interrupt its stop
                    worker.cancel()
            if workers:
                await asyncio.wait(workers)

    async def _end(self, live: _LiveBatch, state: BatchState, why: str = "") -> None:
        """Ends all runs in progress; those claimed but not sent can be made again."""
        if live.driving is not None and not live.driving.done():
            live.driving.cancel()
            await asyncio.wait([live.driving])
            await self._set_state(live, state, why)

    async def _work(self, live: _LiveBatch, place: str) -> None:
        """Makes runs of one lane, until none is left."""
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
        """The worker for a run: None means this process."""
        if self._workers is None:
            yield None
            return
        async with self._workers.room() as worker:
            yield worker

    async def _wait_for_money(self, live: _LiveBatch) -> None:
        """Waits until a run has ended, which may have cost less than was reserved for it."""
        budget = live.budget
        if budget.under_way:
            live.moved.clear()
            await live.moved.wait()
        elif live.go.is_set():
            await self.pause(
                live.row.id,
                f"The limit of ${budget.limit:g} is reached: ${budget.spent:.4g} spent, and the "
                f"most expensive run cost ${budget.dearest:.4g}. Resume with a higher limit.",
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
        given = _Assignment(worker.name if worker is not None else "")
        now = self._engine.sessions.clock()
        result: RunResult | None = None
        try:
            await claim(
                database,
                batch=batch_id,
                place=key,
                session=session_id,
                at_ms=now,
                where=given.where,
            )
            try:
                if worker is None:
                    await self._make(run, watch.look)
                else:
                    await self._make_at(worker, run, watch.look, given)
            except RunLost as error:
                given.lost = str(error)
            finally:  # also saves that it was stopped
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
                live.budget.add_cost(result.cost)
            self._notify(live)
        if result is not None:
            if not watch.warned:
                lane.speed_up()
            await self._count_trouble(live, place, result)
            await self._look_for_verdicts(live)

    async def _make_at(
        self, worker: RemoteWorker, run: CaseRun, look: Look, given: _Assignment
    ) -> None:
        """Lets `worker` make a run, and saves its session. On cancellation the run is stopped
        there, and its result so far is saved."""
        making = asyncio.create_task(self._keep_remote_session(worker, run, look, given))
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

    async def _keep_remote_session(
        self, worker: RemoteWorker, run: CaseRun, look: Look, given: _Assignment
    ) -> None:
        order = run_data(await pack_run(self._engine, run))
        data = await worker.run(run.session, order)
        if not data:
            given.where = ""
            return
        try:
            await keep_session(self._engine, run, data, look)
        except BadInput as error:
            raise RunLost(f"The result sent by {worker.name} cannot be saved: {error}") from error

    async def _look_for_verdicts(self, live: _LiveBatch) -> None:
        """A few times in all, because a report is made from all results so far."""
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
            why = f"{TROUBLES} runs in a row failed because of the provider: {result.detail}"
            await self.pause(live.row.id, why)

    async def _score(
        self, spec: Spec, key: RunKey, session_id: str, given: _Assignment
    ) -> RunResult | None:
        """The outcome of the run according to its session; None if there is no session, or nothing
        was sent: then it was not made. A run given to a worker is unknown without its session."""
        try:
            async with self._engine.sessions.lock_session(session_id) as live:
                if not live.session.turns:
                    return None
                return score_run(live.session, key, spec.by_id[key.case].expect, session_id)
        except NotFound:
            if not given.where:
                return None
            lost = given.lost or f"It was running at {given.where}."
            return RunResult(key, "unknown", detail=lost)

    async def _finish(self, batch_id: str, result: RunResult) -> None:
        body = json.dumps(result_data(result))
        await finish(self._engine.database, batch_id, result.key, result.outcome, body)

    async def _known(self, row: BatchRow, spec: Spec) -> dict[RunKey, RunResult]:
        """The known outcomes of claimed runs. One without an end in the table was interrupted: its
        outcome is read from its session and saved."""
        known: dict[RunKey, RunResult] = {}
        for run in await run_rows(self._engine.database, row.id):
            result = _result(run) if run.outcome else await self._settle_interrupted(row, run, spec)
            if result is not None and await self._can_be_made_again(result):
                result = replace(result, outcome="stopped", detail=AGAIN)
            if result is not None:
                known[result.key] = result
        return known

    async def _can_be_made_again(self, result: RunResult) -> bool:
        """Whether the end of a run is unknown and it cannot have had an effect. False for a run
        that was given to a worker, which may still be making it."""
        if result.outcome != "unknown" or result.session is None:
            return False
        try:
            async with self._engine.sessions.lock_session(result.session) as live:
                return has_no_effect(live.session)
        except NotFound:
            return False

    async def _settle_interrupted(self, row: BatchRow, run: RunRow, spec: Spec) -> RunResult | None:
        key = RunKey(*run.place)
        given = _Assignment(run.body, f"The program ended during this run at {run.body}.")
        result = await self._score(spec, key, run.session, given)
        if result is None:
            await unclaim(self._engine.database, row.id, key)
            return None
        if result.session is None:
            await self._finish(row.id, result)
            return result
        async with self._engine.sessions.lock_session(run.session) as live:
            turn = live.session.turn
            failure = turn.failure if turn is not None else None
        # Its rules ended with the program: one of them may have been about to run the waiting call.
        waits = result.outcome == "needs_person"
        if waits or (failure is not None and failure.failure == "interrupted"):
            result = replace(result, outcome="unknown", detail=CUT)
        await self._finish(row.id, result)
        return result

    # The rest.

    async def _set_state(self, live: _LiveBatch, state: BatchState, why: str = "") -> None:
        now = self._engine.sessions.clock()
        live.row = replace(live.row, state=state, why=why, updated_ms=now)
        self._notify(live)
        await set_state(self._engine.database, live.row)

    def _notify(self, live: _LiveBatch) -> None:
        live.moved.set()
        for bell in self._bells.get(live.row.id, ()):
            bell.notify()

    def _progress(self, live: _LiveBatch) -> BatchProgress:
        outcomes = Counter[str](result.outcome for result in live.results.values())
        left = sum(map(len, live.queues.values())) + live.budget.under_way
        seconds = None
        if live.ended_here and live.row.state == "running":
            seconds = left * (self._clock() - live.began) / live.ended_here
        shown = _progress_of(live.row, outcomes, live.budget.spent)
        return replace(shown, under_way=live.budget.under_way, seconds_left=seconds)

    async def _running_batch(self, batch_id: str) -> _LiveBatch:
        """NotFound if the batch does not exist, Conflict if it is not in progress."""
        live = self._live.get(batch_id)
        if live is None:
            await self._row(batch_id)
        if live is None or live.driving is None or live.driving.done():
            raise Conflict("This batch is not running.")
        return live

    async def _forget(self, batch_id: str) -> None:
        """Discards a paused batch with no run in progress: it is resumed from its saved state."""
        if (live := self._live.pop(batch_id, None)) is not None:
            await self._end(live, "paused")

    async def _row(self, batch_id: str) -> BatchRow:
        row = await batch_row(self._engine.database, batch_id)
        if row is None:
            raise NotFound(f"There is no batch {batch_id[:80]!r}.")
        return row


def _body_and_digest(spec: Spec) -> tuple[str, str]:
    """Body and digest of a batch as stored. For thousands of cases it takes seconds."""
    data = spec_data(replace(spec, allow=()))
    spec_from_data(json.loads(json.dumps(data)))  # the stored form must be readable
    return json.dumps({"spec": data, "allow": spec.allow}), _digest(spec)


def _digest(spec: Spec) -> str:
    """Equal for a batch that is continued with another cost limit."""
    return replace(spec, max_cost=0.0).digest()


def _spec_of(row: BatchRow) -> Spec:
    data = json.loads(row.body)
    return spec_from_data(data["spec"], allow=data["allow"])


def _result(run: RunRow) -> RunResult:
    """The result of a run whose end is saved."""
    return result_from_data(json.loads(run.body))


def _progress_of(row: BatchRow, outcomes: Mapping[str, int], spent: float) -> BatchProgress:
    state: BatchState = row.state
    return BatchProgress(
        row.id,
        name=row.name,
        state=state,
        why=row.why,
        runs=row.runs,
        outcomes=dict(outcomes),
        spent=spent,
        created_ms=row.created_ms,
    )
