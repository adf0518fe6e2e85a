"""Changes a provider's answer for the client that gets it: calls taken out, other arguments, and
what the provider went on with once these were answered here.

What of an answer may leave before its calls are decided, and the harmless events that keep a
client waiting meanwhile, too. Pure; how each protocol writes an answer is in its folder's `edits`,
and where its calls are is said by its decoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.core.events import PartStarted
from app.core.messages import left_out
from app.core.session import Turn
from app.protocols.answer_frames import Edit, EditableAnswer, NewArguments, TakeOut
from app.protocols.framing import Framer
from app.protocols.raw_json import parse_json
from app.protocols.registry import EDITORS, FACTS, codec

__all__ = [
    "BeforeCalls",
    "Edit",
    "NewArguments",
    "PassedAnswer",
    "TakeOut",
    "edit_answer",
    "join_answers",
    "why_not_answered",
]


def edit_answer(protocol: str, data: bytes, edits: Mapping[int, Edit], *, passed: int = 0) -> bytes:
    """A whole answer (SSE, JSON Lines, or one JSON body) with these edits of its calls, by
    PartStarted.index. Its first `passed` bytes have left already and stay.

    Frames of what is not edited keep their bytes but for numbers. Where a call is taken out no byte
    of it is left, the reasons are one text of their own at the end, and an answer without any call
    left ends as one that had none. New arguments are at every place that had the old. ValueError
    where an index is no call of the answer, or arguments are no JSON where a protocol has a value,
    or the frames of a broken answer overlap.
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
    """Why the calls of an agent cannot be answered here, as a sentence; "" where they can."""
    protocol = turn.request.protocol
    if EDITORS[protocol].join is None:
        return (
            f"A call cannot be answered in place of an agent that speaks {FACTS[protocol].title}: "
            "let it run the call, edit it, or deny it."
        )
    if left_out(turn):
        return (
            "The answer makes more calls than can be shown, so none of them can be answered here: "
            "let them run, edit or deny them."
        )
    return ""


def join_answers(protocol: str, first: bytes, last: bytes, *, passed: int = 0) -> bytes:
    """One answer of two whole ones (`why_not_answered`), the second of which goes on where the
    first, which has no calls left, ends. The first `passed` bytes have left already and stay.

    It starts once, with the id of the first, and ends as the last does. It has no thinking of the
    last; its output tokens are the sum, all other counters those of the last. ValueError where one
    is a stream and the other is not.
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


class BeforeCalls:
    """How much of an answer may leave, as it comes, before its calls are decided: all up to the
    frame that bears the first of a call, or what may yet be a piece of one."""

    def __init__(self, protocol: str, status: int = 200) -> None:
        self._decoder = codec(protocol).decoder(status)
        self._places = self._decoder.locate()

    def add(self, data: bytes) -> int:
        """How many bytes of the answer may leave with these: O(len(data))."""
        self._decoder.feed(data)
        del self._places[1:]
        first = self._places[0].start if self._places else self._decoder.settled
        return min(first, self._decoder.settled)


class PassedAnswer:
    """What is known of an answer while a client waits in its stream."""

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self._framer = Framer()
        self._values: list[tuple[int, Mapping[str, Any]]] = []
        self._passed = 0

    def add(self, data: bytes) -> None:
        """These bytes came from the provider, whether they may leave or not."""
        for frame in self._framer.feed(data):
            try:
                value = parse_json(frame.data) if frame.kind in ("sse", "json") else None
            except ValueError:
                continue
            if isinstance(value, dict):
                self._values.append((frame.end, value))

    def pass_on(self, size: int) -> None:
        """The first `size` bytes of the answer have gone to the client."""
        self._passed = size

    def keepalive(self) -> bytes:
        """The event that tells a client nothing but that its answer goes on; b"" where there is
        none yet. It may stand between two frames alone."""
        values = [value for _, value in self._values]
        passed = sum(end <= self._passed for end, _ in self._values)
        return EDITORS[self.protocol].keepalive(values, passed)
