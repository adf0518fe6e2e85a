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
    add_output,
    whole_answers,
)
from playground.protocols.history_form import (
    HistoryForm,
    ResultEdit,
    find_mark,
    mark_content,
    write_text,
)
from playground.protocols.item_editor import ItemEditor, ItemForm, continue_items, next_index
from playground.protocols.raw_json import Changes, JsonText, Path, dump_ascii
from playground.protocols.request import Body, dicts

_READ = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""Counts in the start of an answer that its end may repeat."""

_THINKING = ("thinking", "redacted_thinking")

_BLOCKS = ItemForm(
    index="index",
    start="content_block_start",
    item="content_block",
    thinking=_THINKING,
    deltas={"input_json_delta": ("delta", "partial_json")},
)


def edit(answer: EditableAnswer) -> None:
    """Edits a stream, or one message."""
    whole = next((frame for frame in answer.frames if _is_whole(frame)), None)
    if whole is not None:
        _edit_whole(answer, whole)
    else:
        _edit_stream(answer)
    for frame in answer.frames:
        path = ("delta", "stop_reason") if frame.type == "message_delta" else ("stop_reason",)
        if answer.calls_gone and frame.value_at(*path) == "tool_use":
            frame.set("end_turn", *path)


def _edit_stream(answer: EditableAnswer) -> None:
    """A message that starts again numbers its blocks from 0 again."""
    ending = answer.ending_frame(_ends)
    messages: list[list[tuple[EditableFrame, int]]] = [[]]
    for frame in answer.frames:
        if frame.type == "message_start":
            messages.append([])
        elif frame.type.startswith("content_block_"):
            messages[-1].append((frame, frame.places[-1].part if frame.places else -1))

    def write(frame: EditableFrame, text: str, index: int, is_in_pieces: bool) -> None:
        """Writes the arguments of a call that has none in pieces into its start, or behind it."""
        if frame.type != _BLOCKS.start:
            return
        first = frame.value_at(_BLOCKS.item, "input")
        if first:
            frame.put("{}" if is_in_pieces else text, _BLOCKS.item, "input")
        elif not is_in_pieces:
            delta = {"type": "input_json_delta", "partial_json": text}
            value = {"type": "content_block_delta", "index": index, "delta": delta}
            answer.insert_after(frame, value)

    editor = ItemEditor(answer, _BLOCKS, write)
    for events in messages:
        if events:
            editor.edit(events)
    if answer.reasons:
        _insert_text(answer, ending, editor.next_index)


def _insert_text(answer: EditableAnswer, before: EditableFrame | None, index: int) -> None:
    """Adds the reasons as a block after all others."""
    delta = {"type": "text_delta", "text": answer.reasons}
    block = {"type": "text", "text": ""}
    answer.insert(
        before,
        {"type": "content_block_start", "index": index, "content_block": block},
        {"type": "content_block_delta", "index": index, "delta": delta},
        {"type": "content_block_stop", "index": index},
    )


def _edit_whole(answer: EditableAnswer, frame: EditableFrame) -> None:
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
    if wholes := whole_answers(first, last, _is_whole):
        _join_whole(*wholes)
        return
    output: Any = None
    index = next_index(first, _BLOCKS)
    for frame in first.frames:
        if frame.type == "message_delta":
            output = add_output(output, frame.value_at("usage", "output_tokens"))
        if _ends(frame):
            frame.drop()
    read: dict[str, Any] = {}
    for frame in last.frames:
        if frame.type == "message_start":
            usage = frame.value_at("message", "usage") or {}
            read = {name: usage[name] for name in _READ if usage.get(name) is not None}
        elif frame.type == "message_delta":
            for name, count in read.items():
                if frame.value_at("usage", name) is None:
                    frame.set(count, "usage", name)
            written = frame.value_at("usage", "output_tokens")
            frame.set(add_output(output, written), "usage", "output_tokens")
    continue_items(last, _BLOCKS, index, opens=lambda frame: frame.type == "message_start")


def _join_whole(first: EditableFrame, last: EditableFrame) -> None:
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
