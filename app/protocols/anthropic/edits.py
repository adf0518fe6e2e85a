"""Changes an answer of Anthropic's Messages for a client: calls taken out, other arguments.

Spec: https://docs.anthropic.com/en/api/messages-streaming
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.protocols.answer_frames import AnswerEditor, EditableAnswer, EditableFrame


def edit(answer: EditableAnswer) -> None:
    """A stream, or one message."""
    _Blocks(answer).edit()
    for frame in answer.frames:
        path = ("delta", "stop_reason") if frame.type == "message_delta" else ("stop_reason",)
        if answer.calls_gone and frame.at(*path) == "tool_use":
            frame.set("end_turn", *path)


class _Blocks:
    def __init__(self, answer: EditableAnswer) -> None:
        self._answer = answer
        self._owner: dict[Any, int] = {}  # the call of a block's index
        self._gone: set[int] = set()  # indexes of blocks that go
        self._next = 0  # the index behind the last block that stays
        self._written: set[int] = set()  # calls whose new arguments are there
        self._grow = {
            place.part
            for frame in answer.frames
            for place in frame.places
            if frame.at("delta", "type") == "input_json_delta"
        }

    def edit(self) -> None:
        answer = self._answer
        ending = answer.ending(lambda frame: frame.type in ("message_delta", "message_stop"))
        for frame in list(answer.frames):
            if frame is ending:
                self._say(ending)
            if frame.type == "message":
                self._whole(frame)
                return
            if frame.type == "message_start":
                self._owner.clear()
                self._gone.clear()
                self._next = 0
            elif frame.type.startswith("content_block_"):
                self._block(frame)
        if ending is None:
            self._say(None)

    def _block(self, frame: EditableFrame) -> None:
        answer, index = self._answer, frame.at("index")
        if frame.type == "content_block_start":
            self._owner.pop(index, None)
        for place in frame.places:
            self._owner[index] = place.part
        part = self._owner.get(index, -1)
        if part in answer.taken:
            frame.drop()
            if isinstance(index, int):
                self._gone.add(index)
            return
        if part in answer.arguments:
            self._argue(frame, part, answer.arguments[part])
        if isinstance(index, int):
            new = index - sum(gone < index for gone in self._gone)
            frame.set(new, "index")
            self._next = max(self._next, new + 1)

    def _argue(self, frame: EditableFrame, part: int, text: str) -> None:
        """One delta has all of them; without any, the start of the block or a delta behind it."""
        if frame.type == "content_block_start":
            first = frame.at("content_block", "input")
            if part in self._grow:
                if first:
                    frame.put("{}", "content_block", "input")
            elif first:
                frame.put(text, "content_block", "input")
            else:
                delta = {"type": "input_json_delta", "partial_json": text}
                index = frame.at("index")
                new = index - sum(gone < index for gone in self._gone)
                value = {"type": "content_block_delta", "index": new, "delta": delta}
                self._answer.insert_after(frame, value)
        elif frame.at("delta", "type") == "input_json_delta":
            if part in self._written:
                frame.drop()
            else:
                frame.set(text, "delta", "partial_json")
            self._written.add(part)

    def _say(self, before: EditableFrame | None) -> None:
        """The reasons, as a block behind all others."""
        if not self._answer.reasons:
            return
        index = self._next
        delta = {"type": "text_delta", "text": self._answer.reasons}
        self._answer.insert(
            before,
            {
                "type": "content_block_start",
                "index": index,
                "content_block": {"type": "text", "text": ""},
            },
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        )

    def _whole(self, frame: EditableFrame) -> None:
        answer = self._answer
        for place in frame.places:
            if place.part in answer.taken:
                frame.take(*place.path)
            elif place.part in answer.arguments:
                frame.put(answer.arguments[place.part], *place.path, "input")
        if answer.reasons:
            block = {"type": "text", "text": answer.reasons}
            frame.set(block, "content", len(frame.at("content") or ()))


def keepalive(values: Sequence[Mapping[str, Any]], passed: int) -> bytes:
    """`ping`, which may come at any time, before the start as well."""
    return b'event: ping\ndata: {"type": "ping"}\n\n'


EDITOR = AnswerEditor(edit, keepalive)
