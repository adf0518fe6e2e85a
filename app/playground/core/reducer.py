"""The fold: computes a session from its events, in order.

Theory of operation. `apply(session, logged)` is the only function that changes a Session. It is
called once for each event, in order of `seq`, by the owner of the session (the store for a live
one, a loader or the replay for a copy), and refuses an event that cannot follow. A Session is
mutable and has one owner; all other code only reads it and keeps no reference.

A turn is one request and its answer. It goes  sent -> open -> ended | failed.  A call goes

    streaming -> proposed -> waiting -> decided -> running -> done
                                 ^          |          |
                                 |__________| returned |
                                 |_____________________| interrupted (asks the user again)

At the beginning of a fork, a call can return to proposed from any state.

A call that waits for a user is checked again if its tool's file changed: the card gets a new
digest, and the decision remains open.

A call of a failed turn keeps its state: it can be read, but never run. A growing part stores its
deltas in a list, so that the cost of a delta does not depend on the length of the part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, assert_never

from playground.core.errors import IllegalEvent, NotFound, Refused
from playground.core.events import (
    AnswerPassed,
    CallChecked,
    CallDecided,
    CallDoubted,
    CallEnded,
    CallExtended,
    CallInterrupted,
    CallProgressed,
    CallReturned,
    CallStarted,
    ClientGone,
    Event,
    Logged,
    PartDelta,
    PartEnded,
    PartStarted,
    PromptAdded,
    RequestReceived,
    RequestSent,
    ResponseEnded,
    ResponseFailed,
    ResponseStarted,
    RetryScheduled,
    RunPaused,
    RunResumed,
    RunStopped,
    SessionForked,
    SessionStarted,
    SettingsChanged,
    TaskEnded,
    TaskStarted,
    TurnDropped,
    Warned,
)
from playground.core.run_limits import call_limit_pause, is_limit_raised
from playground.core.serialization import to_data
from playground.core.session import (
    MARKED,
    Call,
    CallStatus,
    Mark,
    Part,
    Prompt,
    Session,
    Task,
    Turn,
)
from playground.core.tools import TOOLS_IN_USE, IdentityKey, Tool

MOST_OUTPUT = 16_000
"""Characters kept of a running call's output: its end. The log has all of it."""

UNFORESEEN = RequestReceived("", stop_at="calls", held=True)
"""Used for an agent's request if the log does not say how it was received: its calls wait for the
user."""

_UNDER_WAY = "An answer is still arriving."
_RUNS = "This session is still running; stop it or wait."


def apply(session: Session, logged: Logged) -> None:
    """Folds one event into `session`; IllegalEvent, without any change, if it cannot follow."""
    if logged.seq <= session.seq:
        raise IllegalEvent(f"Event {logged.seq} comes after {session.seq}.")
    _apply(session, logged)
    if call_id := getattr(logged.event, "call_id", ""):
        _mark_changed(session, call_id)
    session.seq = logged.seq
    before = 0 if isinstance(logged.event, SessionForked) else session.updated_ms  # by any session
    session.updated_ms = max(before, logged.at_ms)


def _mark_changed(session: Session, call_id: str) -> None:
    call = session.by_call.get(call_id)
    standing = session.turns[call.turn - 1].cached_groups if call is not None else None
    if call is not None and standing is not None:
        standing.mark_changed(call)


def fold(session_id: str, log: Iterable[Logged]) -> Session:
    """The session of `log`. `seq` may have gaps: deltas of ended parts can be left out."""
    session = Session(session_id)
    for logged in log:
        apply(session, logged)
    return session


def _apply(session: Session, logged: Logged) -> None:
    event, at_ms = logged.event, logged.at_ms
    if session.settings is None and not isinstance(event, SessionStarted):
        raise IllegalEvent("A session begins with its settings.")
    match event:
        case SessionStarted(settings=settings, tapped=tapped):
            _require(session.settings is None, "This session has begun already.")
            session.settings, session.started_ms, session.tapped = settings, at_ms, tapped
            session.settings_at.append((logged.seq, settings))
        case SessionForked():
            _apply_fork(session, event, logged)
        case SettingsChanged(settings=settings):
            session.settings = settings
            session.settings_at.append((logged.seq, settings))
        case PromptAdded(text=text, images=images, role=role, form=form):
            if session.tapped is None:
                _require(not session.waits, "Decide the waiting calls first, or stop the run.")
                _require(session.state != "running", _RUNS)
            else:  # an agent decides on its own what follows
                _require(session.turn is None or not session.turn.open, _UNDER_WAY)
            session.prompts += 1
            by_agent = session.tapped is not None
            prompt = Prompt(
                session.prompts,
                text=text,
                seq=logged.seq,
                at_ms=at_ms,
                images=images,
                role=role,
                form=form,
                by_agent=by_agent,
            )
            session.items.append(prompt)
            session.stopped, session.paused, session.paused_because = False, "", ""
            session.retries = 0
        case RequestSent():
            _request_sent(session, event, logged)
        case ResponseStarted():
            turn = _open_turn(session)
            turn.response, turn.answered_ms = event, at_ms
        case PartStarted():
            _part_started(session, event, logged)
        case PartDelta(index=index, text=text):
            part = _open_part(session, index)
            part.pieces.append(text)
            part.deltas += 1
            part.length += len(text)
        case CallDoubted(index=index, problem=problem):
            part = _open_part(session, index)
            _require(part.kind == "call", "Only a call's arguments can be doubted.")
            part.doubt = problem
        case PartEnded():
            _part_ended(session, event, at_ms)
        case ResponseEnded():
            turn = _open_turn(session)
            _require(all(part.ended for part in turn.parts), "A part is still open.")
            turn.end, turn.closed_ms = event, at_ms
            session.retries = 0
        case ResponseFailed():
            turn = _open_turn(session)
            _require(all(part.ended for part in turn.parts), "A part is still open.")
            turn.failure, turn.closed_ms = event, at_ms
        case RetryScheduled():
            last = session.turn
            if last is None or last.failure is None or last.number != event.turn:
                raise IllegalEvent("Only the last answer, where it failed, is asked for again.")
            _require(not session.stopped and not session.paused, "The run is halted.")
            session.retrying, session.retries = event, event.attempt
        case Warned():
            if session.tapped is not None and event.code in MARKED:
                session.marks.append(Mark(len(session.marks) + 1, event, logged.seq))
            elif session.turns:
                session.turns[-1].warnings.append(event)
        case CallProgressed():
            _apply_progress(session, event, logged.seq, at_ms)
        case CallChecked() | CallDecided() | CallStarted() | CallEnded():
            _call_changed(session, event, at_ms)
        case CallReturned():
            _revoke_decision(session, event)
        case CallExtended(call_id=call_id, by_s=by_s):
            _call_with_status(session, call_id, "running").extended_s += by_s
        case CallInterrupted(call_id=call_id):
            call = _call_with_status(session, call_id, "running")
            _interrupt_call(session, call, at_ms)
        case TaskStarted(task_id=task_id, call_id=call_id, title=title):
            _require(task_id not in session.tasks, f"Task {task_id} already exists.")
            session.call(call_id)
            session.tasks[task_id] = Task(task_id, call_id, title, at_ms)
        case TaskEnded(task_id=task_id, how=how, result=result):
            task = session.tasks.get(task_id)
            if task is None or task.ended_ms is not None:
                raise IllegalEvent(f"No task {task_id} is running.")
            task.ended_ms, task.how, task.result = at_ms, how, result
            task.ended_seq = logged.seq
        case RunPaused(limit=limit, message=message):
            session.paused, session.paused_because = limit, message
            session.halted_seq = logged.seq
            _cancel_retry(session)
        case RunResumed():
            _resume_run(session, at_ms)
        case RunStopped(rule=rule, call_id=call_id):
            if call_id:
                _call_with_status(session, call_id, "waiting").stopped_by = rule
            session.stopped, session.paused, session.halted_seq = True, "", logged.seq
            _cancel_retry(session)
        case TurnDropped(turn=number):
            last = session.turn
            if last is None or last.open or last.number != number:
                raise IllegalEvent("Only the last turn, and one that has ended, can be dropped.")
            _require(not any(c.status == "running" for c in last.calls), "A call is running.")
            last.dropped, session.stopped = True, False
            session.paused, session.paused_because, session.retrying = "", "", None
            if not event.automatic:
                session.retries = 0
        case RequestReceived():
            _require(session.turn is None or not session.turn.open, _UNDER_WAY)
            if not event.joins:
                session.received, session.received_ms = event, at_ms
                session.received_gone = False
                return
            last = session.turn
            if last is None or last.number != event.joins or last.passed is not None:
                raise IllegalEvent("Only the last request, where its answer waits, is joined.")
            last.client_gone, last.joined_ms = False, at_ms
        case ClientGone(recording=number) if number > len(session.turns):
            _require(session.received is not None, "Nothing waits for that request to be sent.")
            session.received_gone = True
        case AnswerPassed(recording=number) | ClientGone(recording=number):
            last = session.turns[number - 1] if 0 < number <= len(session.turns) else None
            later = session.turns[number:]
            if last is None or last.open or not all(turn.dropped for turn in later):
                raise IllegalEvent("Only an answer that has ended was passed on.")
            last.passed = event if isinstance(event, AnswerPassed) else None
            last.client_gone = isinstance(event, ClientGone)
        case _:
            assert_never(event)


def _apply_fork(session: Session, event: SessionForked, logged: Logged) -> None:
    """Restarts the run. Earlier decisions do not count in a fork: each current call without a
    result becomes proposed again, and so do those `reopened`; in an imported log such calls of all
    turns, whatever it claims. Tasks stayed with the parent."""
    _require(session.turn is None or not session.turn.open, _UNDER_WAY)
    current = {call.id for call in session.current_calls}
    _require(current.issuperset(event.reopened), "These calls have ended.")
    _cancel_retry(session)
    session.tapped = session.received = None  # the fork belongs to the user
    session.paused, session.paused_because, session.retries = "", "", 0
    session.stopped = session.stopped and not event.reopened
    session.forks.append((logged.seq, event))
    for task in session.open_tasks:
        task.ended_ms, task.ended_seq, task.how = logged.at_ms, logged.seq, "not part of this fork"
    reopened = {
        call.id
        for call in session.calls()
        if call.status != "done" and (event.foreign or call.id in current)
    }.union(event.reopened)
    tasks = ((name, task) for name, task in session.tasks.items() if task.call not in reopened)
    session.tasks = dict(tasks)  # a reopened call may start a task with that id again
    assert session.settings is not None
    tools = {tool.name: tool for tool in reversed(session.settings.tools)}
    session.denied = [call for call in session.denied if call.id not in reopened]
    session.denied_alike, session.denied_read = {}, 0
    for turn in session.turns:
        turn.received = None  # the original requester has its answer
        turn.calls = [
            _reopen_call(session, c, tools) if c.id in reopened else c for c in turn.calls
        ]
        turn.cached_groups, turn.repeats = None, None
    session.resumed_turn, session.resumed_ms = len(session.turns), logged.at_ms
    session.forgiven = frozenset(call.id for call in session.current_calls if call.status == "done")


def _reopen_call(session: Session, call: Call, tools: Mapping[str, Tool]) -> Call:
    """A fresh copy of the call that only a user can decide. Its tool is one of this session,
    possibly not the one that was sent with the turn."""
    tool, status = tools.get(call.name), call.status
    if status == "proposed" and call.taken_back and call.tool is tool and call.progress is None:
        return call  # repeated forks would create thousands
    fresh = Call(call.id, call.turn, call.part, tool, "proposed", taken_back=True)
    session.by_call[call.id] = fresh
    return fresh


def _interrupt_call(session: Session, call: Call, at_ms: int) -> None:
    """Keeps what ran last as the card's arguments, even if a user had edited them."""
    _end_call(call, at_ms)
    decided = call.decided
    if decided is not None and decided.arguments is not None:
        # Older logs have no problems for an edit that was run anyway: keep the earlier ones.
        if decided.problems or not decided.anyway:
            cautions = (problem for problem in call.problems if problem.kind == "caution")
            call.problems = (*decided.problems, *cautions)
    elif decided is not None and call.cut is not None:
        decided = replace(decided, arguments=call.cut.arguments)
    call.cut, call.decided = decided, None
    call.status, call.progress = "interrupted", None
    call.interruptions += 1
    call.digest = digest(session, call, call.code)


def _end_call(call: Call, at_ms: int) -> None:
    call.ended_ms = at_ms
    if call.progress is not None and call.progress.waits:
        call.started_ms = at_ms  # it never got a slot, so it never ran


def _resume_run(session: Session, at_ms: int) -> None:
    """Restarts the run: its usage and failures so far no longer count. If the reached limit was
    raised, the run keeps counting instead, up to the new limit."""
    counts_on, turn = is_limit_raised(session), session.turn
    if turn is not None and call_limit_pause(session, turn):  # also if Stop came after the pause
        turn.calls_before = session.calls_allowed
    session.paused, session.paused_because, session.stopped = "", "", False
    if not counts_on:
        session.resumed_turn = session.turns[-1].number if session.turns else 0
        session.resumed_ms = at_ms
        done = (call.id for call in session.current_calls if call.status == "done")
        session.forgiven = frozenset(done)


def _cancel_retry(session: Session) -> None:
    """Cancels a scheduled retry, which can be made later."""
    if session.retrying is not None:
        session.retries = session.retrying.attempt - 1
        session.retrying = None


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise IllegalEvent(sentence)


def _open_turn(session: Session) -> Turn:
    turn = session.turn
    if turn is None or not turn.open:
        raise IllegalEvent("No answer is arriving.")
    return turn


def _open_part(session: Session, index: int) -> Part:
    turn = _open_turn(session)
    if not 0 <= index < len(turn.parts) or turn.parts[index].ended:
        raise IllegalEvent(f"Part {index} is not open.")
    return turn.parts[index]


def _request_sent(session: Session, event: RequestSent, logged: Logged) -> None:
    _require(session.turn is None or not session.turn.open, _UNDER_WAY)
    _require(event.recording == len(session.turns) + 1, "Recordings count from 1.")
    assert session.settings is not None
    turn = Turn(event.recording, event, session.settings, logged.seq, logged.at_ms)
    turn.retries = session.retries
    if event.continues:
        before = session.turn
        if before is None or before.number != event.continues or before.passed is not None:
            raise IllegalEvent(
                "Only the last answer can be continued, and only if no agent has it."
            )
        turn.received = before.received
    elif session.tapped is not None and not event.is_history:
        turn.received, session.received = session.received or UNFORESEEN, None
    session.turns.append(turn)
    session.items.append(turn)


def _part_started(session: Session, event: PartStarted, logged: Logged) -> None:
    turn = _open_turn(session)
    _require(event.index == len(turn.parts), f"Part {event.index} is out of order.")
    part = Part(
        event.index,
        kind=event.part_kind,
        name=event.name,
        provider_id=event.provider_id,
        meta=dict(event.meta),
        seq=logged.seq,
        started_ms=logged.at_ms,
    )
    if turn.first_part_ms is None:
        turn.first_part_ms = logged.at_ms
    turn.parts.append(part)
    if event.part_kind == "call":
        call = Call(f"{turn.number}.{event.index}", turn.number, part, None)
        call.tool = turn.settings.tool(event.name)
        turn.calls.append(call)
        session.by_call[call.id] = call


def _part_ended(session: Session, event: PartEnded, at_ms: int) -> None:
    part = _open_part(session, event.index)
    part.pieces, part.length = [event.text], len(event.text)
    part.name = event.name or part.name
    part.provider_id = event.provider_id or part.provider_id
    part.meta.update(event.meta)
    part.ended_ms, part.complete = at_ms, event.complete
    if part.kind == "call":
        turn = _open_turn(session)
        call = session.by_call[f"{turn.number}.{part.index}"]
        call.status, call.tool = "proposed", turn.settings.tool(part.name)


def _call_with_status(session: Session, call_id: str, *statuses: CallStatus) -> Call:
    call = session.by_call.get(call_id)
    if call is None:
        raise IllegalEvent(f"There is no call {call_id!r}.")
    _require(session.is_current(call), f"Call {call_id} can no longer be changed.")
    if call.status not in statuses:
        raise IllegalEvent(f"Call {call_id} is {call.status}, not {' or '.join(statuses)}.")
    return call


def _revoke_decision(session: Session, event: CallReturned) -> None:
    """Only a call that has not begun can be returned. One that was interrupted before is shown as
    interrupted; it gets a new digest, so that no click on the old card decides it."""
    call = _call_with_status(session, event.call_id, "decided")
    _require(
        call.decided is not None and call.decided.decision == "run", "This call is not to be run."
    )
    call.decided, call.decided_ms, call.asks = None, None, event.why
    call.status = "interrupted" if call.interruptions else "waiting"
    call.returned += 1
    call.taken_back = call.taken_back or event.by == "person"
    call.digest = digest(session, call, call.code)


def _apply_progress(session: Session, event: CallProgressed, seq: int, at_ms: int) -> None:
    """Background calls report progress, too."""
    call = session.by_call.get(event.call_id)
    task = session.tasks.get(call.task_id) if call is not None else None
    if call is None or task is None or task.ended_ms is not None:
        came = session.tapped is not None and event.real is not None
        call = _call_with_status(
            session, event.call_id, "running", *(("interrupted",) if came else ())
        )
        if came:  # even if none was expected any more
            call.status, call.result_key = "running", event.key
    if call.progress is not None and call.progress.waits and not event.waits:
        call.started_ms = at_ms  # it has a slot: it runs from now on
    call.progress = event
    call.real = event.real or call.real
    if call.result_held:
        call.digest, call.ended_ms = result_digest(session, call), at_ms
    call.output += event.output
    call.printed += len(event.output)
    if len(call.output) > MOST_OUTPUT:
        # Drops half at once, so that a page rarely has to reload it.
        call.output, call.cut_seq = call.output[-MOST_OUTPUT // 2 :], seq


def _call_changed(
    session: Session,
    event: CallChecked | CallDecided | CallStarted | CallEnded,
    at_ms: int,
) -> None:
    match event:
        case CallChecked():
            call = _call_with_status(session, event.call_id, "proposed", "waiting", "interrupted")
            call.problems, call.parallel_safe = event.problems, event.parallel_safe
            call.digest, call.code, call.asks = event.digest, event.code, event.asks
            if call.status == "proposed":
                call.status, call.checked_ms = "waiting", at_ms
        case CallDecided():
            call = _call_with_status(session, event.call_id, "waiting", "interrupted")
            call.decided, call.status, call.decided_ms = event, "decided", at_ms
            if event.decision == "deny" and event.by == "person":
                session.denied.append(call)
        case CallStarted():
            call = _call_with_status(session, event.call_id, "decided")
            _require(
                call.decided is not None and call.decided.decision == "run",
                "This call is not to be run.",
            )
            _require(event.attempt == call.attempt, "This attempt has ended.")
            call.status, call.started_ms, call.ended_ms = "running", at_ms, None
            call.output, call.printed, call.extended_s, call.real = "", 0, 0.0, None
        case CallEnded():
            call = _call_with_status(
                session, event.call_id, "decided", "running", "waiting", "interrupted"
            )
            if call.result_held:  # it ended when its result arrived
                call.released_ms = at_ms
            elif call.status == "running" or call.started_ms is None:
                _end_call(call, at_ms)  # an interrupted call has ended before
            call.result, call.status = event.result, "done"
            call.real = event.real
        case _:
            assert_never(event)


def digest(session: Session, call: Call, code: str) -> str:
    """A hash of what a card shows, 64 hex digits, sent with a decision: only what was seen runs.

    `code` identifies the content of the tool's file (`CallChecked.code`).
    """
    before = (session.id, call.id, call.attempt, call.part.name)
    after = (call.judged, code, *((call.returned,) if call.returned else ()))
    tool = _tool_json(IdentityKey(call.tool))
    text = ",".join([*map(json.dumps, before), tool, *map(json.dumps, after)])
    return hashlib.sha256(f"[{text}]".encode("ascii")).hexdigest()


def result_digest(session: Session, call: Call) -> str:
    """The same for a card that shows a held result."""
    words = [session.id, call.id, "result", to_data(call.real)]
    return hashlib.sha256(json.dumps(words, sort_keys=True).encode("ascii")).hexdigest()


@lru_cache(maxsize=TOOLS_IN_USE)
def _tool_json(tool: IdentityKey[Tool | None]) -> str:
    return json.dumps(to_data(tool.value), sort_keys=True, separators=(",", ":"))


# Forks: how much of the log a fork copies, and which calls are reopened. It copies a prefix of the
# log, unchanged, that ends where no answer is open. The user's changes follow it (SessionForked,
# and the fork's own events).


@dataclass(frozen=True)
class ForkPrefix:
    """The first `seq` events, folded as `session`, and the calls that are reopened after them."""

    seq: int
    session: Session
    reopened: tuple[str, ...] = ()

    def fork_event(self, *, foreign: bool = False) -> SessionForked:
        """The event that ends the copied part."""
        return SessionForked(self.session.id, self.seq, self.reopened, foreign)


def before_prompt(session: Session, number: int) -> int:
    """The last event before prompt `number`; NotFound if it does not exist."""
    for item in session.items:
        if isinstance(item, Prompt) and item.number == number:
            return item.seq - 1
    raise NotFound(f"This session has no prompt {number}.")


def before_turn(session: Session, number: int) -> int:
    """The last event before the request of turn `number`; NotFound if it does not exist."""
    if not 0 < number <= len(session.turns):
        raise NotFound(f"This session has no turn {number}.")
    return session.turns[number - 1].seq - 1


def at_call(session: Session, call_id: str) -> int:
    """The last event before the continuation after the calls of that turn, so its calls are as they
    were when the run continued. NotFound if the call does not exist."""
    turn = session.turns[session.call(call_id).turn - 1]
    return next((item.seq - 1 for item in session.items if item.seq > turn.seq), session.seq)


def fork_prefix(
    log: Sequence[Logged], session_id: str, seq: int, chosen: Sequence[str] = ()
) -> ForkPrefix:
    """The prefix of `log` up to event `seq`, or to before an answer that was open there. Reopens
    the `chosen` calls and those that were not done; the latter, if the run was stopped and none is
    chosen, only after Continue.

    `log` may lack the deltas of ended parts. Refused if a chosen call can no longer be decided at
    that place.
    """
    session = fold(session_id, (logged for logged in log if logged.seq <= seq))
    turn = session.turn
    if turn is not None and turn.open:
        seq = turn.seq - 1
        session = fold(session_id, (logged for logged in log if logged.seq <= seq))
    if session.settings is None:
        raise Refused("A fork must copy at least the session's settings.")
    current = {call.id for call in session.current_calls}
    if lost := [call_id for call_id in chosen if call_id not in current]:
        raise Refused(f"Call {lost[0]} can no longer be decided: its answer did not end normally.")
    goes_on = bool(chosen) or not session.stopped  # a stopped run waits for Continue
    reopened = [
        call.id
        for call in session.current_calls
        if call.id in chosen or (call.status != "done" and goes_on)
    ]
    return ForkPrefix(session.seq, session, tuple(reopened))


def is_foreign_event(session: Session, seq: int, *, own: bool) -> bool:
    """Whether event `seq` is from somebody else: an imported session, or the part that a fork
    copied from one."""
    return not own or any(fork.foreign and seq < at for at, fork in session.forks)


def preview_fork(log: Sequence[Logged], cut: ForkPrefix, events: Sequence[Event]) -> Session:
    """The fork as it will begin: the part `cut` of `log`, followed by `events`. It has the parent's
    id. IllegalEvent if they cannot follow."""
    session = fold(cut.session.id, (logged for logged in log if logged.seq <= cut.seq))
    for event in events:
        apply(session, Logged(session.seq + 1, session.updated_ms, event))
    return session


@dataclass(frozen=True)
class ForkPoint:
    """The item at which a fork branches off: at its calls, or before it; "end" is after the last
    one."""

    kind: Literal["prompt", "turn", "call", "end"]
    number: int = 0
    call: str = ""

    @property
    def words(self) -> str:
        match self.kind:
            case "call":
                return f"at call {self.call}"
            case "end":
                return "at its end"
            case _:
                return f"before {self.kind} {self.number}"


def fork_point(parent: Session, seq: int, reopened: Sequence[str] = ()) -> ForkPoint:
    """Where a fork that copied its first `seq` events branches off `parent`."""
    if reopened and (call := parent.by_call.get(reopened[0])) is not None:
        return ForkPoint("call", call.turn, call.id)
    item = next((item for item in parent.items if item.seq > seq), None)
    if item is None:
        return ForkPoint("end", parent.turns[-1].number if parent.turns else 0)
    return ForkPoint("prompt" if isinstance(item, Prompt) else "turn", item.number)
