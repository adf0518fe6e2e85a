"""Decides calls: the check of each call before its decision, and the user's decision.

The executor, the schema and the rules check a call before it is decided. A call that was held is
checked again before it begins. A decision is compared with the table "When a call may run" and with
the digest of the card it was made on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, get_args

from playground.core.decide import ask_reason, may_run
from playground.core.errors import BadInput, Conflict, Refused
from playground.core.events import (
    CallChecked,
    CallDecided,
    CallEnded,
    CallReturned,
    Decision,
    Problem,
)
from playground.core.faults import OTHER_WAY, get_fault, staging_obstacle
from playground.core.reducer import digest
from playground.core.rules import first_match, unbound_reason
from playground.core.run_limits import repeats_recent_call
from playground.core.serialization import to_data
from playground.core.session import Call, Session, Turn
from playground.core.tools import Content, Tool, text_result
from playground.engine.rules import Policy
from playground.engine.sessions import LiveSession, SessionStore
from playground.engine.tool_runs import Supervise
from playground.executors.executor import CallCheck
from playground.executors.run_with_limits import Executors
from playground.protocols.answer_edits import why_not_answered
from playground.schema.validate import check_call

_DECISIONS: tuple[Decision, ...] = get_args(Decision)

log = logging.getLogger(__name__)

CHECKS_TOGETHER = 100
"""Maximum number of checks that are written, or started, before other tasks get a turn, so that
Stop does not wait for all of them."""

Follow = Callable[[LiveSession, Collection[str]], Awaitable[None]]
"""(session, checked): does what follows; the calls `checked` were checked a moment ago."""

SOON_S = 2.0
"""Time limit for checking a call again before it begins."""

_BROKEN = Problem(
    "caution",
    "The executor of this call could not be checked. See the program's log, and review the call.",
)

_PACKED = Problem(
    "caution",
    "The arguments were a JSON string instead of the object that this protocol uses, and were "
    "unpacked. Check that they are right.",
)

_REPEATED = Problem("note", "The same call with the same arguments was made in the last two turns.")


@dataclass(frozen=True)
class DecisionRequest:
    """A decision by a user, or by a script on a user's behalf. `arguments` is JSON text or None.

    `seen` is how many characters of the model's arguments the page showed; None from a script,
    which has all. `lift` lifts the sandbox of a workspace tool for this call. `images` belong to an
    answer. `fault` is a fault to stage (faults.py); it determines whether the tool runs, so
    `decision` may be empty. `model_reads`, for a denied call of an agent: the model gets the reason
    as the tool result; otherwise the agent gets it in the answer, from which the call is removed.
    """

    decision: str
    digest: str = ""
    arguments: str | None = None
    anyway: bool = False
    text: str = ""
    is_error: bool = False
    seen: int | None = None
    lift: bool = False
    images: tuple[Content, ...] = ()
    fault: str = ""
    model_reads: bool = False


def decision_event(session: Session, call_id: str, asked: DecisionRequest) -> CallDecided:
    """Converts the request `asked` into an event.

    NotFound: no such call. Conflict: too late, or the card is stale; carries the actual decision.
    Refused: the table forbids it. BadInput: the request is not a valid decision.
    """
    call = session.call(call_id)
    decision = _decision(asked)
    _check_time(session, call)
    if not asked.digest:
        raise BadInput("A decision needs the digest of its card.")
    check_digest(call, asked.digest)
    if session.tapped is not None:
        _check_agents(session.turns[call.turn - 1], decision, asked)
    answered = decision == "answer" or (decision == "deny" and asked.model_reads)
    if asked.images and decision != "answer":
        raise BadInput("Only an answer can have images. Remove them, or answer by hand.")
    arguments = asked.arguments if decision == "run" else None
    edited = () if arguments is None else check_call(call.tool, call.name, arguments)
    anyway = False
    if decision == "run":
        if arguments is None and asked.seen is not None and asked.seen < len(call.judged):
            raise Refused("Some arguments were hidden. Press Show all and read them.")
        anyway = _check_run(
            session, call, None if arguments is None else edited, anyway=asked.anyway
        )
    if message := staging_obstacle(session, call, asked.fault):
        raise Refused(message)
    return CallDecided(
        call.id,
        decision,
        digest=asked.digest,
        arguments=arguments,
        text=asked.text,
        is_error=asked.is_error,
        anyway=anyway,
        lift=decision == "run" and asked.lift,
        images=asked.images,
        fault=asked.fault,
        problems=edited,
        where="here" if session.tapped is None or answered else "agent",
    )


def _check_agents(turn: Turn, decision: Decision, asked: DecisionRequest) -> None:
    """Raises Refused if a call of an agent cannot be decided this way."""
    if asked.fault or asked.lift:
        raise Refused("This is an agent's call: run it, edit its arguments, answer it or deny it.")
    if asked.images:
        raise Refused("The answer to an agent's call must be text. Remove the images.")
    if (decision == "answer" or asked.model_reads) and (why := why_not_answered(turn)):
        raise Refused(why)


@dataclass(frozen=True)
class ResultDecision:
    """A user's decision on a result that is held for an agent. `text` replaces it; None passes it
    on unchanged. `digest` is that of the card."""

    digest: str
    text: str | None = None
    is_error: bool = False


def result_event(session: Session, call_id: str, asked: ResultDecision) -> CallEnded:
    """Converts the request `asked` into an event. NotFound: no such call. Conflict: too late, or
    the card is stale. Refused: no result of the call is held. BadInput: no digest."""
    call = session.call(call_id)
    if call.at_agent and call.status == "done":
        raise Conflict("This call's result was already decided.", outcome(call))
    if not call.result_held or call.real is None:
        raise Refused("No result of this call is held here.")
    if not asked.digest:
        raise BadInput("A decision needs the digest of its card.")
    check_digest(call, asked.digest)
    if session.stopped:
        raise Refused("The session was stopped. Continue it to decide its results.")
    if asked.text is None:
        return CallEnded(call.id, call.real)
    bare = all(piece.type == "text" for piece in call.real.content)
    if bare and (asked.text, asked.is_error) == (call.real.text, call.real.is_error):
        return CallEnded(call.id, call.real)
    return CallEnded(call.id, text_result(asked.text, is_error=asked.is_error), real=call.real)


def check_digest(call: Call, digest: str) -> None:
    """Raises Conflict, with the state of the call, if the card with `digest` is stale."""
    if digest != call.digest:
        raise Conflict("This card is out of date. Check the call again.", outcome(call))


def outcome(call: Call) -> dict[str, Any]:
    """The state of the call, for a request that lost a race: what was decided instead."""
    decided = call.decided
    return {
        "call": call.id,
        "status": call.status,
        "digest": call.digest,
        "decision": decided.decision if decided else None,
        "decided_by": decided.by if decided else None,
        "result": to_data(call.result) if call.result else None,
    }


def _decision(asked: DecisionRequest) -> Decision:
    if asked.fault:
        row = get_fault(asked.fault)
        if asked.text or asked.is_error or asked.images:
            advice = "has its own result: leave out text, is_error and images."
            raise BadInput(f"{_capitalize(row.title)} {advice}")
        if asked.decision not in ("", row.decision):
            raise Refused(f"{_capitalize(row.title)} {OTHER_WAY[row.runs]}")
        return row.decision
    for word in _DECISIONS:
        if word == asked.decision:
            return word
    raise BadInput(f"A decision must be run, answer or deny, not {asked.decision!r}.")


def _capitalize(title: str) -> str:
    return title[:1].upper() + title[1:]


def _check_time(session: Session, call: Call) -> None:
    if call.status in ("decided", "running", "done"):
        raise Conflict("This call was already decided.", outcome(call))
    turn = session.turns[call.turn - 1]
    if turn.open:
        raise Refused("The answer is still arriving. You can decide this call when it has ended.")
    if not session.is_current(call) and turn.received is not None and turn.end is not None:
        raise Refused(
            "The agent disconnected before it got this answer, and has sent another request "
            "since. This call is void."
            if turn.passed is None
            else "The agent already has this call and has continued."
        )
    if not session.is_current(call):
        raise Refused(
            "The answer this call belongs to did not end normally. Retry it, or send the "
            "prompt again."
        )
    if session.stopped:
        raise Refused("The run was stopped; press Continue to decide its calls.")


def _check_run(
    session: Session, call: Call, edited: tuple[Problem, ...] | None, *, anyway: bool
) -> bool:
    """Whether it runs although the arguments violate the schema. Raises Refused if it must not run.
    `edited` are the problems of edited arguments; None: run the arguments on the card."""
    if session.tapped is None and call.tool is None:
        raise Refused(f"There is no tool {call.name!r} to run; answer by hand or deny.")
    if session.tapped is None and call.tool is not None and call.tool.answered_by == "person":
        raise Refused("This tool is answered by the user; answer by hand or deny.")
    if edited is None:
        if not may_run(session.turns[call.turn - 1], call):
            raise Refused("This call's arguments cannot run. Edit them, answer by hand, or deny.")
        unsatisfied = call.unsatisfied
    else:
        malformed = next((p for p in edited if p.kind == "malformed"), None)
        if malformed is not None:
            raise Refused(f"The edited arguments cannot run: {malformed.message}")
        unsatisfied = any(p.kind == "schema" for p in edited)
        if unsatisfied and not anyway:
            problem = next(p for p in edited if p.kind == "schema")
            raise Refused(
                f"The edited arguments do not match the schema: {problem.message} Correct them, "
                "or run them anyway."
            )
    if unsatisfied and not anyway:
        raise Refused("The arguments do not match the schema; edit them, or run anyway.")
    return unsatisfied


# Calls are checked concurrently, without the session lock: an executor may have to wait for a slow
# server, and this must not block stopping or reading the session.


class Cancellable(Protocol):
    """Something that can be cancelled."""

    def cancel(self) -> object: ...


@dataclass(frozen=True)
class OpenCheck:
    """A check in progress: `work` can be cancelled, `task` writes the result to the log."""

    task: asyncio.Future[None]
    work: Cancellable


@dataclass(eq=False)
class CheckBatch:
    """Checks that started together. `left`: calls whose check is not written yet; `works`: the
    running checks by call id; `pending`: how many checks have no result yet."""

    left: dict[str, Call]
    pending: int
    works: dict[str, asyncio.Task[CallCheck]] = field(default_factory=dict)
    ended: bool = False

    def cancel(self) -> None:
        self.ended = True
        for work in self.works.values():
            work.cancel()


@dataclass(frozen=True)
class HeldCall:
    """A call that is about to begin, as it was when its check started."""

    id: str
    tool: Tool
    arguments: str
    decided: CallDecided


class CallChecks:
    """`follow` does what follows from a check while the session is still locked, so a call that a
    rule decides is never shown as waiting for the user."""

    def __init__(
        self,
        sessions: SessionStore,
        executors: Executors,
        supervise: Supervise,
        follow: Follow,
        policy: Policy,
    ) -> None:
        self._policy = policy
        self._sessions = sessions
        self._executors = executors
        self._supervise = supervise
        self._then = follow
        self._open: dict[tuple[str, str], OpenCheck] = {}
        self._batches: dict[str, list[CheckBatch]] = {}

    def start(self, live: LiveSession, call_ids: Sequence[str]) -> None:
        """Starts concurrent checks of proposed calls."""
        calls = {call_id: live.session.call(call_id) for call_id in call_ids}
        batch = CheckBatch(calls, len(calls))
        batches = self._batches.setdefault(live.id, [])
        batches.append(batch)

        def forget() -> None:
            """Cancels the remaining checks: if writing failed, their results are not needed."""
            batch.cancel()
            batches.remove(batch)
            if not batches:
                del self._batches[live.id]
            for call_id in batch.left:
                del self._open[live.id, call_id]

        follow = self._follow(live.id, batch)
        checking = OpenCheck(asyncio.ensure_future(self._supervise(live.id, follow, forget)), batch)
        self._open.update({(live.id, call_id): checking for call_id in call_ids})

    async def check(self, session_id: str, call: Call) -> CallCheck:
        """The executor's check of a call; needs no session lock."""
        return await self._executors.check_before_run(session_id, call.tool, call.arguments)

    async def refuse_changed(self, live: LiveSession, call_id: str, checked: CallCheck) -> None:
        """Raises Conflict, with a new digest, if the call's executor differs from the one shown.

        First does what follows from the new check: a rule may decide the changed call.
        """
        call = live.session.call(call_id)
        if checked.code != call.code:
            await self._sessions.append(
                live, [checked_event(live.session, call, checked, self._policy)]
            )
            await self._then(live, ())
            raise Conflict(
                "This tool's executor has changed since this card was shown. Check the call again.",
                outcome(call),
            )

    def recheck(self, live: LiveSession, call_ids: Sequence[str]) -> set[str]:
        """Checks again those of the calls about to begin that a rule decided: they may have waited
        for other calls, and their executor may have changed since. Returns the calls that are being
        checked; each continues after its check."""
        calls = [live.session.call(call_id) for call_id in call_ids]
        seen = [
            HeldCall(call.id, call.tool, call.arguments, call.decided)
            for call in calls
            if call.tool and call.decided and call.decided.by == "rule"
        ]
        begun = [held for held in seen if not self.is_under_way(live.id, held.id)]
        if begun:
            self._start_recheck(live.id, begun)
        return {held.id for held in seen}

    def _start_recheck(self, session_id: str, seen: Sequence[HeldCall]) -> None:
        keys = [(session_id, held.id) for held in seen]
        work = asyncio.gather(*(self._known_check(session_id, held) for held in seen))
        follow = self._follow_recheck(session_id, seen, work)

        def forget() -> None:
            for key in keys:
                del self._open[key]

        task = asyncio.ensure_future(self._supervise(session_id, follow, forget))
        self._open.update(dict.fromkeys(keys, OpenCheck(task, work)))

    async def _known_check(self, session_id: str, seen: HeldCall) -> CallCheck | None:
        """The current executor of the call. None if it is not known in time: then the executor
        checks when it runs the call, and fails rather than run something else."""
        try:
            async with asyncio.timeout(SOON_S):
                return await self._executors.check_without_server(
                    session_id, seen.tool, seen.arguments
                )
        except TimeoutError:
            return None

    async def _follow_recheck(
        self,
        session_id: str,
        seen: Sequence[HeldCall],
        work: asyncio.Future[list[CallCheck | None]],
    ) -> None:
        """Revokes decisions made for a different executor, before any of the calls begins."""
        await asyncio.wait([work])
        if work.cancelled():
            return
        async with self._sessions.lock_session(session_id) as live:
            for held, checked in zip(seen, work.result(), strict=True):
                call = live.session.call(held.id)
                stands = call.status == "decided" and call.decided == held.decided
                if stands and not live.session.stopped and checked and checked.code != call.code:
                    await self._revoke_decision(live, held, checked)
            await self._then(live, [held.id for held in seen])

    async def _revoke_decision(self, live: LiveSession, held: HeldCall, checked: CallCheck) -> None:
        call, rule = live.session.call(held.id), held.decided.rule
        why = f"The executor of {call.name} has changed since the rule “{rule}” decided the call."
        await self._sessions.append(live, [CallReturned(call.id, "rule", why)])
        await self._policy.load_session_denials(live.session)
        await self._sessions.append(
            live, [checked_event(live.session, call, checked, self._policy)]
        )

    async def recheck_waiting(self, session_id: str, rule_id: str) -> None:
        """Checks again the calls that wait only because their executor is not the one the rule is
        bound to; it may match by now. Then does what follows."""
        async with self._sessions.lock_session(session_id) as live:
            rules = self._policy.rules_of(session_id)
            calls = [
                call
                for call in live.session.current_calls
                if call.status == "waiting"
                and (rule := first_match(rules, call)) is not None
                and rule.id == rule_id
                and unbound_reason(rule, call)
            ]
        looked = await asyncio.gather(*(self.check(session_id, call) for call in calls))
        async with self._sessions.lock_session(session_id) as live:
            for before, checked in zip(calls, looked, strict=True):
                call = live.session.call(before.id)
                waits = call.status == "waiting" and live.session.is_current(call)
                if waits and not live.session.stopped and checked.code != call.code:
                    await self._policy.load_session_denials(live.session)
                    event = checked_event(live.session, call, checked, self._policy)
                    await self._sessions.append(live, [event])
            await self._then(live, ())

    def is_under_way(self, session_id: str, call_id: str) -> bool:
        return (session_id, call_id) in self._open

    def count(self, session_id: str) -> int:
        """How many proposed calls of the session are being checked."""
        return sum(batch.pending for batch in self._batches.get(session_id, ()))

    def end(self, session_id: str) -> list[asyncio.Future[None]]:
        """Cancels the session's checks. The returned futures complete when the checks have ended.
        The calls keep their status; they are checked again when the run continues."""
        open_ = {check for (session, _), check in self._open.items() if session == session_id}
        for check in open_:
            check.work.cancel()
        return [check.task for check in open_]

    @property
    def sessions(self) -> set[str]:
        return {session for session, _ in self._open}

    async def _follow(self, session_id: str, batch: CheckBatch) -> None:
        """Writes results of checks as they arrive, in batches of at most CHECKS_TOGETHER: a slow
        check does not delay other calls."""
        came: asyncio.Queue[str] = asyncio.Queue()
        for number, call in enumerate(batch.left.values(), 1):
            if batch.ended:
                return
            work = batch.works[call.id] = asyncio.create_task(self.check(session_id, call))
            work.add_done_callback(partial(_put, came, call.id))
            if number % CHECKS_TOGETHER == 0:
                await asyncio.sleep(0)
        while batch.left:
            call_ids = [await came.get()]
            while len(call_ids) < CHECKS_TOGETHER and not came.empty():
                call_ids.append(came.get_nowait())
            if batch.ended:
                return
            whole = (call_id for call_id in call_ids if not batch.works[call_id].cancelled())
            async with self._sessions.lock_session(session_id) as live:
                batch.pending -= len(call_ids)
                await self._write(
                    live, {call_id: _result_of(call_id, batch.works[call_id]) for call_id in whole}
                )
            for call_id in call_ids:
                del batch.works[call_id], batch.left[call_id], self._open[session_id, call_id]

    async def _write(self, live: LiveSession, checks: Mapping[str, CallCheck]) -> None:
        session = live.session
        if session.stopped:
            return
        await self._policy.load_session_denials(session)
        calls = (session.call(call_id) for call_id in checks)
        events = [
            checked_event(session, call, checks[call.id], self._policy)
            for call in calls
            if call.status == "proposed" and session.is_current(call)
        ]
        if not events:
            return
        await self._sessions.append(live, events)
        await self._then(live, ())


def _put(came: asyncio.Queue[str], call_id: str, _: asyncio.Future[CallCheck]) -> None:
    came.put_nowait(call_id)


def _result_of(call_id: str, work: asyncio.Future[CallCheck]) -> CallCheck:
    """The result of the check. If it raised, which is a bug, only a user can run the call."""
    if (error := work.exception()) is None:
        return work.result()
    log.error("The check of call %s failed.", call_id, exc_info=error)
    return CallCheck(problems=(_BROKEN,))


def checked_event(session: Session, call: Call, checked: CallCheck, policy: Policy) -> CallChecked:
    """The event with everything known about the call: schema, executor, session and rules."""
    unsaid = call.part.meta.get("empty") and call.judged == call.written
    raw = "" if unsaid else call.judged
    problems = (*check_call(call.tool, call.name, raw), *checked.problems)
    if call.part.meta.get("packed") and call.judged == call.written:
        problems += (_PACKED,)
    if repeats_recent_call(session, call):
        problems += (_REPEATED,)
    seen = digest(session, call, checked.code)
    event = CallChecked(call.id, problems, checked.parallel_safe, seen, checked.code)
    rules = policy.rules_of(session.id)
    return replace(event, asks=ask_reason(session, call, event, rules, policy.denials.has))
