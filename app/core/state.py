"""The fold: a session is what its events say, in order.

Theory of operation. `apply(session, logged)` is the only function that changes a Session. It is
called once for each event, in order of `seq`, by whoever owns the session (the hub for a live
one, a loader or the replay for a copy), and it refuses an event that cannot follow. A Session is
mutable and has one owner; everybody else reads it and keeps nothing.

    session.items    Prompt | Turn, in the order of the flow
    turn.parts       Part, in order of appearance; turn.calls is those that are ours to answer

A turn is one request and its answer. It goes  sent -> open -> ended | failed.  A call goes

    streaming -> proposed -> waiting -> decided -> running -> done
                                 ^________________ interrupted (asks the person again)

The call of a turn that failed stays where it was: it can be read, never run. A growing part
keeps its deltas in a list, so that a delta costs the same however long the part is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from app.core.errors import IllegalEvent, NotFound
from app.core.events import (
    CallChecked,
    CallDecided,
    CallEnded,
    CallInterrupted,
    CallProgressed,
    CallStarted,
    Logged,
    PartDelta,
    PartEnded,
    PartKind,
    PartStarted,
    Problem,
    PromptAdded,
    RequestSent,
    ResponseEnded,
    ResponseFailed,
    ResponseStarted,
    RunPaused,
    RunResumed,
    RunStopped,
    SessionStarted,
    SettingsChanged,
    TurnDropped,
    Warned,
    to_data,
)
from app.core.settings import Settings
from app.core.tools import Tool, ToolResult

CallStatus = Literal[
    "streaming", "proposed", "waiting", "decided", "running", "interrupted", "done"
]
SessionState = Literal["running", "paused", "waiting", "failed", "interrupted", "idle"]


@dataclass
class Part:
    """One block of an answer. `started_ms` and `ended_ms` are Unix ms; `seq` its first event."""

    index: int
    kind: PartKind
    name: str
    provider_id: str
    meta: dict[str, Any]
    seq: int
    started_ms: int
    ended_ms: int | None = None
    complete: bool = False
    deltas: int = 0
    length: int = 0
    pieces: list[str] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return self.ended_ms is not None

    @property
    def text(self) -> str:
        return self.pieces[0] if len(self.pieces) == 1 else "".join(self.pieces)


@dataclass
class Call:
    """A tool call. Its own id is `TURN.PART`; the provider's stands beside it on the part."""

    id: str
    turn: int
    part: Part
    tool: Tool | None
    status: CallStatus = "streaming"
    problems: tuple[Problem, ...] = ()
    parallel_safe: bool = False
    digest: str = ""
    decided: CallDecided | None = None
    progress: CallProgressed | None = None
    result: ToolResult | None = None
    interruptions: int = 0
    checked_ms: int | None = None
    decided_ms: int | None = None
    started_ms: int | None = None
    ended_ms: int | None = None

    @property
    def name(self) -> str:
        return self.part.name

    @property
    def provider_id(self) -> str:
        return self.part.provider_id

    @property
    def raw(self) -> str:
        """The arguments exactly as the model wrote them; may be unfinished or malformed."""
        return self.part.text

    @property
    def attempt(self) -> int:
        return 1 + self.interruptions

    @property
    def arguments(self) -> str:
        """The text that runs: edited if a person edited it, `{}` where the model sent nothing."""
        if self.decided is not None and self.decided.arguments is not None:
            return self.decided.arguments
        return self.raw if self.raw.strip() not in ("", "null") else "{}"

    @property
    def malformed(self) -> bool:
        return any(p.kind in ("malformed", "unknown_tool") for p in self.problems)

    @property
    def unsatisfied(self) -> bool:
        """The schema is not satisfied (and nothing worse)."""
        return any(p.kind == "schema" for p in self.problems)


@dataclass
class Prompt:
    number: int
    text: str
    seq: int
    at_ms: int


@dataclass
class Turn:
    """One request and its answer. `number` counts from 1 and equals the recording's number."""

    number: int
    request: RequestSent
    settings: Settings
    seq: int
    sent_ms: int
    response: ResponseStarted | None = None
    answered_ms: int | None = None
    first_part_ms: int | None = None
    parts: list[Part] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    warnings: list[Warned] = field(default_factory=list)
    end: ResponseEnded | None = None
    failure: ResponseFailed | None = None
    closed_ms: int | None = None
    dropped: bool = False

    @property
    def open(self) -> bool:
        return self.end is None and self.failure is None

    @property
    def runnable(self) -> bool:
        """Whether its calls may run as they are: the answer came to a good end."""
        return self.end is not None and self.end.reason not in ("length", "refusal")

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if part.kind in ("text", "refusal"))


@dataclass
class Session:
    """`stopped` is set by Stop until the next prompt; `paused` names the limit that was reached."""

    id: str
    settings: Settings | None = None
    items: list[Prompt | Turn] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    prompts: int = 0
    stopped: bool = False
    paused: str = ""
    resumed_turn: int = 0
    seq: int = 0
    started_ms: int = 0
    updated_ms: int = 0
    by_call: dict[str, Call] = field(default_factory=dict)
    settings_at: list[tuple[int, Settings]] = field(default_factory=list)

    @property
    def turn(self) -> Turn | None:
        """The last turn that was not dropped."""
        return next((turn for turn in reversed(self.turns) if not turn.dropped), None)

    def call(self, call_id: str) -> Call:
        """The call of that id; NotFound with a sentence."""
        call = self.by_call.get(call_id)
        if call is None:
            raise NotFound(f"This session has no call {call_id!r}.")
        return call

    def calls(self) -> Iterator[Call]:
        for turn in self.turns:
            yield from turn.calls

    @property
    def current_calls(self) -> list[Call]:
        """The calls that can still be decided: those of a last turn that came to an end."""
        item = self.last_item
        return item.calls if isinstance(item, Turn) and item.end is not None else []

    @property
    def waiting(self) -> list[Call]:
        """The calls that need a person, in order."""
        if self.stopped:
            return []
        return [call for call in self.current_calls if call.status in ("waiting", "interrupted")]

    @property
    def answer(self) -> str:
        """The last answer's text, "" where there is none."""
        return next(
            (turn.text for turn in reversed(self.turns) if not turn.dropped and turn.text), ""
        )

    @property
    def state(self) -> SessionState:
        """The first that holds, in the order of docs/contract.md."""
        item = self.last_item
        if any(call.status == "running" for call in self.current_calls):
            return "running"
        if isinstance(item, Turn) and item.open:
            return "running"
        if self.paused:
            return "paused"
        if self.waiting:
            # What is decided already still goes on beside the one that waits.
            busy = any(call.status in ("proposed", "decided") for call in self.current_calls)
            return "running" if busy else "waiting"
        if isinstance(item, Turn) and item.failure is not None:
            cut = item.failure.failure in ("interrupted", "stopped")
            return "interrupted" if cut else "failed"
        if self.stopped:
            return "interrupted"
        if isinstance(item, Turn) and item.end is not None:
            return "running" if item.calls or item.end.reason == "pause" else "idle"
        return "idle" if item is None else "running"

    @property
    def last_item(self) -> Prompt | Turn | None:
        return next(
            (i for i in reversed(self.items) if isinstance(i, Prompt) or not i.dropped), None
        )

    @property
    def turns_since_prompt(self) -> int:
        """Turns of the last prompt, or since the person last let the run go on."""
        count = 0
        for item in reversed(self.items):
            if isinstance(item, Prompt):
                break
            count += not item.dropped and item.number > self.resumed_turn
        return count


def apply(session: Session, logged: Logged) -> None:
    """Fold one event into `session`; IllegalEvent, and nothing changed, where it cannot follow."""
    if logged.seq <= session.seq:
        raise IllegalEvent(f"Event {logged.seq} comes after {session.seq}.")
    _apply(session, logged)
    session.seq = logged.seq
    session.updated_ms = max(session.updated_ms, logged.at_ms)


def fold(session_id: str, log: Iterable[Logged]) -> Session:
    """The session that `log` tells. `seq` may have gaps: deltas of ended parts can be left out."""
    session = Session(session_id)
    for logged in log:
        apply(session, logged)
    return session


def _apply(session: Session, logged: Logged) -> None:
    event, at_ms = logged.event, logged.at_ms
    if session.settings is None and not isinstance(event, SessionStarted):
        raise IllegalEvent("A session begins with its settings.")
    match event:
        case SessionStarted(settings=settings):
            _require(session.settings is None, "This session has begun already.")
            session.settings, session.started_ms = settings, at_ms
            session.settings_at.append((logged.seq, settings))
        case SettingsChanged(settings=settings):
            session.settings = settings
            session.settings_at.append((logged.seq, settings))
        case PromptAdded(text=text):
            _require(not session.waiting, "Decide the waiting calls first, or stop the run.")
            _require(session.state != "running", "This session is still running; stop it or wait.")
            session.prompts += 1
            session.items.append(Prompt(session.prompts, text, logged.seq, at_ms))
            session.stopped, session.paused = False, ""
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
        case PartEnded():
            _part_ended(session, event, at_ms)
        case ResponseEnded():
            turn = _open_turn(session)
            _require(all(part.ended for part in turn.parts), "A part is still open.")
            turn.end, turn.closed_ms = event, at_ms
        case ResponseFailed():
            turn = _open_turn(session)
            _require(all(part.ended for part in turn.parts), "A part is still open.")
            turn.failure, turn.closed_ms = event, at_ms
        case Warned():
            if session.turns:
                session.turns[-1].warnings.append(event)
        case CallChecked() | CallDecided() | CallStarted() | CallProgressed() | CallEnded():
            _call_changed(session, event, at_ms)
        case CallInterrupted(call_id=call_id):
            call = _call_in(session, call_id, "running")
            call.status, call.decided, call.progress = "interrupted", None, None
            call.interruptions += 1
            call.digest = digest(session, call)
        case RunPaused(limit=limit):
            session.paused = limit
        case RunResumed():
            session.paused, session.stopped = "", False
            session.resumed_turn = session.turns[-1].number if session.turns else 0
        case RunStopped():
            session.stopped = True
        case TurnDropped(turn=number):
            last = session.turn
            if last is None or last.open or last.number != number:
                raise IllegalEvent("Only the last turn, and one that has ended, can be dropped.")
            _require(not any(c.status == "running" for c in last.calls), "A call is running.")
            last.dropped, session.stopped, session.paused = True, False, ""


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise IllegalEvent(sentence)


def _open_turn(session: Session) -> Turn:
    turn = session.turn
    if turn is None or not turn.open:
        raise IllegalEvent("No answer is under way.")
    return turn


def _open_part(session: Session, index: int) -> Part:
    turn = _open_turn(session)
    if not 0 <= index < len(turn.parts) or turn.parts[index].ended:
        raise IllegalEvent(f"Part {index} is not open.")
    return turn.parts[index]


def _request_sent(session: Session, event: RequestSent, logged: Logged) -> None:
    _require(session.turn is None or not session.turn.open, "An answer is under way.")
    _require(event.recording == len(session.turns) + 1, "Recordings count from 1.")
    assert session.settings is not None
    turn = Turn(event.recording, event, session.settings, logged.seq, logged.at_ms)
    session.turns.append(turn)
    session.items.append(turn)


def _part_started(session: Session, event: PartStarted, logged: Logged) -> None:
    turn = _open_turn(session)
    _require(event.index == len(turn.parts), f"Part {event.index} is out of turn.")
    part = Part(
        event.index,
        event.part_kind,
        event.name,
        event.provider_id,
        dict(event.meta),
        logged.seq,
        logged.at_ms,
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


def _call_in(session: Session, call_id: str, *statuses: CallStatus) -> Call:
    call = session.by_call.get(call_id)
    if call is None:
        raise IllegalEvent(f"There is no call {call_id!r}.")
    _require(call in session.current_calls, f"Call {call_id} can no longer be changed.")
    if call.status not in statuses:
        raise IllegalEvent(f"Call {call_id} is {call.status}, not {' or '.join(statuses)}.")
    return call


def _call_changed(
    session: Session,
    event: CallChecked | CallDecided | CallStarted | CallProgressed | CallEnded,
    at_ms: int,
) -> None:
    match event:
        case CallChecked():
            call = _call_in(session, event.call_id, "proposed")
            call.problems, call.parallel_safe = event.problems, event.parallel_safe
            call.digest, call.status, call.checked_ms = event.digest, "waiting", at_ms
        case CallDecided():
            call = _call_in(session, event.call_id, "waiting", "interrupted")
            call.decided, call.status, call.decided_ms = event, "decided", at_ms
        case CallStarted():
            call = _call_in(session, event.call_id, "decided")
            _require(call.decided is not None and call.decided.decision == "run", "Not to be run.")
            _require(event.attempt == call.attempt, "This attempt is over.")
            call.status, call.started_ms, call.ended_ms = "running", at_ms, None
        case CallProgressed():
            _call_in(session, event.call_id, "running").progress = event
        case CallEnded():
            call = _call_in(session, event.call_id, "decided", "running", "waiting", "interrupted")
            call.result, call.status, call.ended_ms = event.result, "done", at_ms


def digest(session: Session, call: Call) -> str:
    """What a card shows, as 64 hex digits: a decision carries it, so that what was seen is run."""
    tool = call.tool
    shown = [
        session.id,
        call.id,
        call.attempt,
        call.part.name,
        to_data(tool) if tool is not None else None,
        call.raw,
    ]
    text = json.dumps(shown, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def folded(session: Session, title: str = "") -> Mapping[str, Any]:
    """The session as `GET /sessions/ID` gives it to scripts; see docs/contract.md."""
    return {
        "id": session.id,
        "title": title,
        "state": session.state,
        "seq": session.seq,
        "text": session.answer,
        "turns": sum(not turn.dropped for turn in session.turns),
        "calls": [_folded_call(call) for call in session.calls()],
    }


def _folded_call(call: Call) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments) if not call.malformed else None
    except (ValueError, RecursionError):
        arguments = None
    decided = call.decided
    return {
        "id": call.id,
        "provider_id": call.provider_id,
        "name": call.name,
        "status": call.status,
        "arguments": arguments,
        "arguments_raw": call.raw,
        "problems": [to_data(problem) for problem in call.problems],
        "digest": call.digest,
        "decided_by": decided and (decided.by if not decided.rule else decided.rule),
        "decision": decided and decided.decision,
        "result": to_data(call.result) if call.result is not None else None,
    }
