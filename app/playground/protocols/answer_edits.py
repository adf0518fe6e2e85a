"""Edits a provider's answer for the client: removes calls, changes arguments, and appends the
answer to a request that was made here with results for those calls.

Also determines which part of an answer may be passed on before its calls are decided, and the
keep-alive events for the time until then. Pure. An answer is the received frames and their edits: a
protocol's editor (EDITOR in its folder's `edits`) marks frames; unmarked frames keep their exact
bytes. The decoder locates the calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from playground.core.events import PartStarted
from playground.core.messages import left_out_count
from playground.core.session import Turn
from playground.protocols.editable_answer import Edit, EditableAnswer
from playground.protocols.facts import FACTS
from playground.protocols.framing import Framer
from playground.protocols.raw_json import parse_json
from playground.protocols.registry import EDITORS, codec


def edit_answer(protocol: str, data: bytes, edits: Mapping[int, Edit], *, passed: int = 0) -> bytes:
    """Applies edits, by PartStarted.index of the calls, to a complete answer (SSE, JSON Lines, or
    one JSON body). Its first `passed` bytes were passed on already and stay.

    Frames that are not edited keep their bytes except for numbers. A removed call leaves no bytes,
    the reasons become one text at the end, and an answer without remaining calls ends like one that
    had none. New arguments are written wherever the old ones were. ValueError if an index is no
    call of the answer, if arguments are invalid JSON in a protocol that has a value there, or if
    the frames of a broken answer overlap.
    """
    if not edits:
        return data
    decoder = codec(protocol).decoder(200)
    places = decoder.locate()
    events = [*decoder.feed(data), *decoder.end(True)]
    parts = [event for *_, event in events if isinstance(event, PartStarted)]
    calls = [part.index for part in parts if part.part_kind == "call"]
    if unknown := sorted(edits.keys() - set(calls)):
        raise ValueError(f"This answer has no call at part {unknown[0]}.")
    has_text = any(part.part_kind == "text" for part in parts)
    answer = EditableAnswer(data, edits, calls, places, has_text=has_text, passed=passed)
    EDITORS[protocol].edit(answer)
    return answer.bytes()


def why_not_answered(turn: Turn) -> str:
    """Why the calls of an agent cannot be answered here, as a sentence, or ""."""
    protocol = turn.request.protocol
    if EDITORS[protocol].join is None:
        return (
            f"Calls of an agent that uses {FACTS[protocol].title} cannot be answered here. Run, "
            "edit or deny the call."
        )
    if left_out_count(turn):
        return (
            "The answer has more calls than can be shown, so none of them can be answered here. "
            "Run, edit or deny them."
        )
    return ""


def join_answers(protocol: str, first: bytes, last: bytes, *, passed: int = 0) -> bytes:
    """Joins two complete answers (see `why_not_answered`): the second continues the first, which
    has no calls left. The first `passed` bytes were passed on already and stay.

    The result has one start, with the first one's id, and the end of the last. It omits the last
    one's thinking; its output tokens are the sum, all other counts those of the last. ValueError if
    only one of them is a stream.
    """
    join = EDITORS[protocol].join
    assert join is not None
    pair = [
        EditableAnswer(data, {}, (), (), has_text=False, passed=left)
        for data, left in ((first, passed), (last, 0))
    ]
    join(*pair)
    if all(frame.dropped for frame in pair[1].frames):
        return pair[0].bytes()
    return b"".join(answer.bytes() for answer in pair)


class PassableLength:
    """How much of an answer may be passed on before its calls are decided: everything before the
    frame with the first piece of a call, with what may become one, or that was not read, and
    before text that is in no frame."""

    def __init__(self, protocol: str, status: int = 200) -> None:
        self._decoder = codec(protocol).decoder(status)
        self._places = self._decoder.locate()

    def add(self, data: bytes) -> int:
        """How many bytes of the answer may be passed on, including these: O(len(data))."""
        self._decoder.feed(data)
        del self._places[1:]
        first = self._places[0].start if self._places else self._decoder.settled
        return min(first, self._decoder.settled, self._decoder.stray)


class PassedAnswer:
    """State of an answer whose client waits in the middle of the stream."""

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self._framer = Framer()
        self._values: list[tuple[int, Mapping[str, Any]]] = []
        self._passed = 0

    def add(self, data: bytes) -> None:
        """Adds bytes from the provider, whether they may be passed on or not."""
        for frame in self._framer.feed(data):
            try:
                value = parse_json(frame.data) if frame.kind in ("sse", "json") else None
            except ValueError:
                continue
            if isinstance(value, dict):
                self._values.append((frame.end, value))

    def pass_on(self, size: int) -> None:
        """The first `size` bytes of the answer were passed on to the client."""
        self._passed = size

    def keepalive(self) -> bytes:
        """An event without content that keeps the client waiting; b"" if none is possible yet.
        Valid only between two frames."""
        values = [value for _, value in self._values]
        passed = sum(end <= self._passed for end, _ in self._values)
        return EDITORS[self.protocol].keepalive(values, passed)
