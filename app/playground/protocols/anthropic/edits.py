"""Edits an answer of Anthropic's Messages for a client: removes calls, changes arguments. Also
defines how results and answers are written in the history of its requests.

Spec: https://docs.anthropic.com/en/api/messages-streaming
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from playground.core.messages import MessagePart
from playground.protocols.editable_answer import (
    AnswerEditor,
    EditableAnswer,
    EditableFrame,
    GapCloser,
    add_output,
)
from playground.protocols.history_form import (
    HistoryForm,
    ResultEdit,
    find_mark,
    mark_content,
    write_text,
)
from playground.protocols.raw_json import Changes, JsonText, Path, dump_ascii
from playground.protocols.request import Body, dicts

_READ = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""Counts in the start of an answer that its end may repeat."""

_THINKING = ("thinking", "redacted_thinking")


def edit(answer: EditableAnswer) -> None:
    """Edits a stream, or one message."""
    _Blocks(answer).edit()
    for frame in answer.frames:
        path = ("delta", "stop_reason") if frame.type == "message_delta" else ("stop_reason",)
        if answer.calls_gone and frame.value_at(*path) == "tool_use":
            frame.set("end_turn", *path)


class _Blocks:
    def __init__(self, answer: EditableAnswer) -> None:
        self._answer = answer
        self._blocks: list[tuple[EditableFrame, int, GapCloser]] = []
        self._next = 0  # the index after the last remaining block
        self._written: set[int] = set()  # calls whose new arguments are written
        self._grow = {
            place.part
            for frame in answer.frames
            for place in frame.places
            if frame.value_at("delta", "type") == "input_json_delta"
        }

    def edit(self) -> None:
        for frame in self._answer.frames:
            if frame.type == "message":
                self._whole(frame)
                return
        ending = self._answer.ending_frame(_ends)
        self._find()
        numbers = None
        for frame, part, gaps in self._blocks:
            if gaps is not numbers:
                numbers, self._next = gaps, 0
            self._edit_block(frame, part, gaps)
        self._add_reasons(ending)

    def _find(self) -> None:
        """Maps blocks to calls; a restarted message numbers its blocks from 0 again."""
        owner: dict[Any, int] = {}
        gaps = GapCloser()
        for frame in self._answer.frames:
            index = frame.value_at("index")
            if frame.type == "message_start":
                owner, gaps = {}, GapCloser()
            if not frame.type.startswith("content_block_"):
                continue
            if frame.type == "content_block_start":
                owner.pop(index, None)
            for place in frame.places:
                owner[index] = place.part
            part = owner.get(index, -1)
            self._blocks.append((frame, part, gaps))
            if part in self._answer.taken and isinstance(index, int):
                gaps.add(index)

    def _edit_block(self, frame: EditableFrame, part: int, gaps: GapCloser) -> None:
        if part in self._answer.taken:
            frame.drop()
            return
        index = frame.value_at("index")
        new = gaps.new_number(index) if isinstance(index, int) else 0
        if part in self._answer.arguments:
            self._set_arguments(frame, part, new)
        if isinstance(index, int):
            frame.set(new, "index")
        self._next = max(self._next, new + 1)

    def _set_arguments(self, frame: EditableFrame, part: int, index: int) -> None:
        """One delta gets all arguments; without any, the start of the block or a new delta."""
        text = self._answer.arguments[part]
        if frame.type == "content_block_start":
            first = frame.value_at("content_block", "input")
            if part in self._grow:
                if first:
                    frame.put("{}", "content_block", "input")
            elif first:
                frame.put(text, "content_block", "input")
            else:
                delta = {"type": "input_json_delta", "partial_json": text}
                value = {"type": "content_block_delta", "index": index, "delta": delta}
                self._answer.insert_after(frame, value)
        elif frame.value_at("delta", "type") == "input_json_delta":
            if part in self._written:
                frame.drop()
            else:
                frame.set(text, "delta", "partial_json")
            self._written.add(part)

    def _add_reasons(self, before: EditableFrame | None) -> None:
        """Adds the reasons as a block after all others."""
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
            frame.set(block, "content", len(frame.value_at("content") or ()))


def _ends(frame: EditableFrame) -> bool:
    return frame.type in ("message_delta", "message_stop")


def keepalive(values: Sequence[Mapping[str, Any]], passed: int) -> bytes:
    """`ping`, which may be sent at any time, even before the start."""
    return b'event: ping\ndata: {"type": "ping"}\n\n'


# Joining two answers.


def join(first: EditableAnswer, last: EditableAnswer) -> None:
    wholes = [frame for answer in (first, last) for frame in answer.frames if _is_whole(frame)]
    if wholes:
        _join_whole(*wholes)
        return
    output: Any = None
    index = 0
    for frame in first.frames:
        if frame.type == "message_delta":
            output = add_output(output, frame.value_at("usage", "output_tokens"))
        if _ends(frame):
            frame.drop()
        elif isinstance(number := frame.value_at("index"), int):
            index = max(index, number + 1)
    _go_on(last, index, output)


def _go_on(answer: EditableAnswer, index: int, output: Any) -> None:
    """Renumbers its blocks from `index` on; `output` tokens were written before it."""
    gaps, thinking, read = GapCloser(), set[int](), dict[str, Any]()
    for frame in answer.frames:
        number = frame.value_at("index")
        match frame.type:
            case "message_start":
                usage = frame.value_at("message", "usage") or {}
                read = {name: usage[name] for name in _READ if usage.get(name) is not None}
                frame.drop()
            case "content_block_start" if frame.value_at("content_block", "type") in _THINKING:
                thinking.add(number)
                gaps.add(number)
            case "message_delta":
                for name, count in read.items():
                    if frame.value_at("usage", name) is None:
                        frame.set(count, "usage", name)
                written = frame.value_at("usage", "output_tokens")
                frame.set(add_output(output, written), "usage", "output_tokens")
        if number in thinking:
            frame.drop()
        elif isinstance(number, int):
            frame.set(index + gaps.new_number(number), "index")


def _join_whole(first: EditableFrame, last: EditableFrame | None = None) -> None:
    if last is None:
        raise ValueError("One of these answers is a stream, and the other is not.")
    quoted, place = JsonText(last.data), len(first.value_at("content") or ())
    for number, block in enumerate(last.value_at("content") or ()):
        if not (isinstance(block, dict) and block.get("type") in _THINKING):
            first.put(quoted.member("content", number), "content", place)
            place += 1
    for name in last.value.keys() - {"id", "type", "role", "model", "content", "usage"}:
        first.put(quoted.member(name), name)
    usage = dict(last.value_at("usage") or {})
    written = first.value_at("usage", "output_tokens")
    first.set({**usage, "output_tokens": add_output(written, usage.get("output_tokens"))}, "usage")
    last.drop()


def _is_whole(frame: EditableFrame) -> bool:
    return frame.type == "message"


EDITOR = AnswerEditor(edit, keepalive, join)


# The history of a request: results, and answers that are put back.


def _write(block: Body, edit: ResultEdit) -> Changes:
    text = edit.text
    if edit.is_error and not text:
        text = "The tool failed and gave no reason."  # the API refuses an error without text
    content = write_text(text, find_mark(block.get("content"))) if text else None
    changes: dict[Path, str | None] = {("content",): content}
    if edit.is_error != (block.get("is_error") is True):
        changes["is_error",] = dump_ascii(edit.is_error)
    return changes


def _make(call: MessagePart, answer: Sequence[Body]) -> Mapping[str, Any]:
    return {"type": "tool_result", "tool_use_id": call.call_id}


def _id_of(block: Body) -> Path:
    return ("tool_use_id",)


def _keep_mark(copy: Sequence[Body], element: Body) -> Changes:
    blocks = [block for message in copy for block in dicts(message.get("content"))]
    return mark_content(element.get("content"), find_mark(blocks))


def _ask_freely(body: Body) -> Changes:
    choice = body.get("tool_choice")
    if not isinstance(choice, dict) or choice.get("type") not in ("any", "tool"):
        return {}
    return {("tool_choice", "type"): dump_ascii("auto"), ("tool_choice", "name"): None}


HISTORY = HistoryForm(
    *("messages", _write, _make, _id_of),
    holder="content",
    keep_mark=_keep_mark,
    ask_freely=_ask_freely,
)
