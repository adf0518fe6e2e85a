"""An answer whose calls are decided here before the agent gets any byte of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from app.core.decide import AT_AGENT
from app.core.events import (
    CallChecked,
    CallDecided,
    CallEnded,
    CallStarted,
    Event,
    PartStarted,
    ResponseEnded,
)
from app.core.reducer import digest
from app.core.session import Call, Session, Turn
from app.core.tools import text_result
from app.protocols.answer_edits import (
    BeforeCalls,
    Edit,
    NewArguments,
    PassedAnswer,
    TakeOut,
    edit_answer,
    join_answers,
)
from app.protocols.registry import codec
from app.schema.validate import check_call
from app.tap.history import fingerprint_of_answer
from app.tap.relay import STOPPED

STREAMS = ("text/event-stream", "application/x-ndjson")
"""Media types of answers whose frames leave as they come; others are held whole."""

DENIED = "The user did not allow this call."

ENDED = "The calls of this answer were answered in the playground, which ended the answer here."

BEYOND = "This answer makes more calls than can be shown, so this one was left out."


class Unrecorded(Exception):
    """The answer came to a good end, and what its log says is another."""


class HeldAnswer:
    """The bytes of one answer as they came, and how many of them have left: of several answers
    (`pieces`), each of which goes on where the one before ends, where requests were made here."""

    def __init__(self, protocol: str, status: int, *, stream: bool) -> None:
        self.stream = stream
        self.pieces = [bytearray()]
        self._protocol = protocol
        self._before = BeforeCalls(protocol, status)
        self._answer = PassedAnswer(protocol)
        self._edited = b""
        self._left = 0

    def add(self, data: bytes) -> bytes:
        """What may leave now that `data` came: frames before the first that bears any of a call.
        Of what goes on nothing leaves before it has ended."""
        self.pieces[-1] += data
        if not self.stream or len(self.pieces) > 1:
            return b""
        self._answer.add(data)
        return self._leave(self._before.add(data))

    def go_on(self) -> None:
        """What comes from now on is another answer, which goes on from the last."""
        self.pieces.append(bytearray())

    def keepalive(self) -> bytes:
        """The event that tells a client in a stream nothing but that its answer goes on."""
        return self._answer.keepalive() if self.stream else b""

    def rest(self, turns: Sequence[Turn], *, clean: bool) -> tuple[bytes, bool]:
        """What has not left yet, with the decisions on the calls of `turns` made, and whether any
        of them changed it; each turn is that of a piece. `clean` is whether upstream ended well.
        Unrecorded where the answer has calls that were to be decided, and the log knows of none to
        decide."""
        whole, changed = b"", len(turns) > 1
        for turn, piece in zip(turns, self.pieces, strict=True):
            data, is_last = bytes(piece), turn is turns[-1]
            edits = self._edits(turn, data, clean or not is_last)
            if is_last and turn.calls and edits and all(call.answered_here for call in turn.calls):
                edits = dict.fromkeys(edits, TakeOut(ENDED))
            changed = changed or bool(edits)
            first = turn is turns[0]
            edited = edit_answer(self._protocol, data, edits, passed=self._left if first else 0)
            whole = edited if first else self._joined(whole, edited)
        self._edited = whole
        return whole[self._left :], changed

    def _joined(self, whole: bytes, more: bytes) -> bytes:
        return join_answers(self._protocol, whole, more, passed=self._left)

    def _edits(self, turn: Turn, data: bytes, clean: bool) -> dict[int, Edit]:
        """By what came, and not only by what was recorded of it: of many calls the log has some."""
        if turn.received is None or not turn.received.held:
            return {}
        decoder = codec(self._protocol).decoder(200)
        events = [event for *_, event in (*decoder.feed(data), *decoder.end(clean))]
        calls = {e.index for e in events if isinstance(e, PartStarted) and e.part_kind == "call"}
        if turn.holds:
            beyond = calls - {call.part.index for call in turn.calls}
            return edits_of(turn) | dict.fromkeys(beyond, TakeOut(BEYOND))
        ends = (event for event in events if isinstance(event, ResponseEnded))
        if calls and any(e.reason not in ("length", "refusal") and not e.abrupt for e in ends):
            raise Unrecorded("An answer with calls was not recorded to its end.")
        return {}

    def says(self) -> str:
        """The fingerprint of what the client got."""
        decoder = codec(self._protocol).decoder(200)
        spanned = [*decoder.feed(self._edited), *decoder.end(True)]
        return fingerprint_of_answer(event for *_, event in spanned)

    def again(self) -> None:
        """Another request gets it, from its first byte."""
        self._left = 0

    def _leave(self, upto: int) -> bytes:
        data = bytes(self.pieces[0][self._left : upto])
        self._left = max(self._left, upto)
        self._answer.pass_on(self._left)
        return data


def edits_of(turn: Turn) -> dict[int, Edit]:
    """What the decisions on the calls of `turn`, which are all decided, change of its answer. Only
    what runs at the agent leaves."""
    edits: dict[int, Edit] = {}
    for call in turn.calls:
        if call.answered_here:
            edits[call.part.index] = TakeOut("")  # the model reads the reason
        elif not call.to_run and call.status != "running":
            edits[call.part.index] = TakeOut(_reason(call))
        elif call.decided is not None and call.decided.arguments not in (None, call.written):
            edits[call.part.index] = NewArguments(_as_written(call, call.decided.arguments or ""))
    return edits


def _reason(call: Call) -> str:
    """Why the agent does not get the call."""
    decided, result = call.decided, call.result
    if decided is not None and decided.decision == "deny" and decided.text.strip():
        return decided.text.strip()
    return (result.text.strip() if result is not None else "") or DENIED


def _as_written(call: Call, arguments: str) -> str:
    """Edited arguments as the model would have written them: a free-form tool gets the text."""
    text = json.loads(arguments).get("input") if call.freeform else None
    return text if isinstance(text, str) else arguments


def passed_on(session: Session, turn: Turn) -> list[Event]:
    """The calls of an answer that is passed on run at the agent."""
    events: list[Event] = []
    for call in turn.calls if turn.end is not None else ():
        shown = digest(session, call, "")
        problems = tuple(check_call(call.tool, call.name, call.written))
        events.append(CallChecked(call.id, problems, digest=shown))
        events.append(
            CallDecided(call.id, "run", "rule", AT_AGENT, shown, anyway=True, where="agent")
        )
        events.append(CallStarted(call.id, call.attempt))
    return events


def denials(session: Session, turn: Turn) -> list[Event]:
    """What ends the calls that are held where the user stops the session."""
    events: list[Event] = []
    for call in turn.calls:
        shown = call.digest or digest(session, call, "")
        if call.status == "proposed":
            events.append(CallChecked(call.id, digest=shown))
        if call.status in ("proposed", "waiting"):
            events.append(CallDecided(call.id, "deny", digest=shown, text=STOPPED, where="agent"))
        if call.status != "done":
            denial = text_result(STOPPED, is_error=True, kind="denied")
            events.append(CallEnded(call.id, denial))
    return events


def is_stream(headers: Mapping[str, str]) -> bool:
    """Whether an answer with these headers comes in frames."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in STREAMS
