"""An answer whose calls are decided here before the agent gets any byte of them."""

from __future__ import annotations

from app.core.session import Turn
from app.protocols.answer_edits import (
    Arguments,
    Edit,
    PassedAnswer,
    TakeOut,
    edit_answer,
    split_before_calls,
)
from app.protocols.base import Spanned
from app.protocols.registry import codec
from app.tap.history import fingerprint_of_answer

STREAMS = ("text/event-stream", "application/x-ndjson")
"""Media types of answers whose frames leave as they come; others are held whole."""

DENIED = "The user did not allow this call."


class HeldAnswer:
    """The bytes of one answer as they came, and how many of them have left."""

    def __init__(self, protocol: str, status: int, *, stream: bool) -> None:
        self.stream = stream
        self.data = bytearray()
        self._protocol = protocol
        self._decoder = codec(protocol).decoder(status)
        self._events: list[Spanned] = []
        self._answer = PassedAnswer(protocol)
        self._edited = b""
        self._left = 0

    def add(self, data: bytes) -> bytes:
        """What may leave now that `data` came: frames before the first that bears any of a call."""
        self.data += data
        if not self.stream:
            return b""
        self._answer.add(data)
        self._events += self._decoder.feed(data)
        return self._leave(split_before_calls(self._events, self._decoder.settled))

    def keepalive(self) -> bytes:
        """The event that tells a client in a stream nothing but that its answer goes on."""
        return self._answer.keepalive() if self.stream else b""

    def rest(self, turn: Turn) -> tuple[bytes, bool]:
        """What has not left yet, with the decisions on the calls of `turn` made, and whether any of
        them changed it."""
        edits = edits_of(turn)
        self._edited = edit_answer(self._protocol, bytes(self.data), edits, passed=self._left)
        return self._edited[self._left :], bool(edits)

    def says(self) -> str:
        """The fingerprint of what the client got."""
        decoder = codec(self._protocol).decoder(200)
        spanned = [*decoder.feed(self._edited), *decoder.end(True)]
        return fingerprint_of_answer(event for *_, event in spanned)

    def again(self) -> None:
        """Another request gets it, from its first byte."""
        self._left = 0

    def _leave(self, upto: int) -> bytes:
        data = bytes(self.data[self._left : upto])
        self._left = max(self._left, upto)
        self._answer.pass_on(self._left)
        return data


def edits_of(turn: Turn) -> dict[int, Edit]:
    """What the decisions on the calls of `turn` change of its answer."""
    edits: dict[int, Edit] = {}
    for call in turn.calls:
        decided = call.decided
        if decided is None:
            continue
        if decided.decision == "deny":
            edits[call.part.index] = TakeOut(decided.text.strip() or DENIED)
        elif decided.arguments is not None and decided.arguments != call.written:
            edits[call.part.index] = Arguments(decided.arguments)
    return edits
