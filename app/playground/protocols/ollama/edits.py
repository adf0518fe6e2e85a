"""Edits an answer of Ollama's chat API for a client: removes calls, changes arguments. Also defines
how results and answers are written in the history of its requests.

Spec: https://docs.ollama.com/api/chat
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
    carried_members,
    may_be_of_calls,
    prepend_paragraph,
)
from playground.protocols.history_form import HistoryForm, ResultEdit, say_result
from playground.protocols.raw_json import Changes, Path, dump_ascii
from playground.protocols.request import Body

_CALLS = ("message", "tool_calls")
_CARRIED = ("model", "remote_model", "remote_host", "created_at")
"""Members that are equal in all lines of an answer."""

_TEXT, _WRITTEN = ("message", "content"), "eval_count"
_AT_END = ("done_reason", _WRITTEN, "prompt_eval_count", "total_duration", "load_duration")


def edit(answer: EditableAnswer) -> None:
    """Edits a stream, or one object."""
    ending = answer.ending_frame(lambda frame: frame.value_at("done") is True)
    for frame in list(answer.frames):
        if frame.places:
            _edit_calls(answer, frame)
    if ending is not None and answer.calls_gone and ending.value_at("done_reason") == "tool_calls":
        ending.set("stop", "done_reason")
    text = answer.joined_reasons
    lines = [frame for frame in answer.frames if frame.value and not frame.dropped]
    if not text:
        return
    if ending is not None and (_has_content(ending) or len(answer.frames) == 1):
        if isinstance(ending.value_at("message"), dict):
            ending.set(f"{ending.value_at('message', 'content') or ''}{text}", "message", "content")
        else:
            ending.set({"role": "assistant", "content": text}, "message")
    else:
        like = ending or (lines or answer.frames)[-1]
        answer.insert(ending, _line(like.value, text))


def _has_content(frame: EditableFrame) -> bool:
    message = frame.value_at("message")
    return isinstance(message, dict) and any(
        item for name, item in message.items() if name != "role"
    )


def _edit_calls(answer: EditableAnswer, frame: EditableFrame) -> None:
    gone = [place for place in frame.places if place.part in answer.taken]
    if len(gone) == len(frame.value_at(*_CALLS)):
        frame.take(*_CALLS)
        message = frame.value_at("message")
        if frame.value_at("done") is not True and not (
            message.get("content") or message.get("thinking")
        ):
            frame.drop()
    else:
        for place in gone:
            frame.take(*place.path)
    if gone and may_be_of_calls(frame.value_at("logprobs"), frame.value_at(*_TEXT)):
        frame.take("logprobs")
    for place in frame.places:
        if place.part in answer.taken:
            continue
        function = (*place.path, "function")
        number = frame.value_at(*function, "index")
        if answer.taken and isinstance(number, int):
            frame.set(answer.number[place.part], *function, "index")
        if place.part in answer.arguments:
            text = answer.arguments[place.part]
            if isinstance(frame.value_at(*function, "arguments"), str):
                frame.set(text, *function, "arguments")
            else:
                frame.put(text, *function, "arguments")


def _line(like: Mapping[str, Any], text: str) -> dict[str, Any]:
    head = carried_members(like, _CARRIED)
    return {**head, "message": {"role": "assistant", "content": text}, "done": False}


def keepalive(values: Sequence[Mapping[str, Any]], passed: int) -> bytes:
    """A line without text: an empty line ends Ollama's own client."""
    return dump_ascii(_line(values[0], "")).encode() + b"\n" if values else b""


# Joining two answers.


def join(first: EditableAnswer, last: EditableAnswer) -> None:
    lines = [frame for frame in first.frames if frame.value]
    is_whole = len(lines) == 1 and len([frame for frame in last.frames if frame.value]) == 1
    has_text = any(frame.value_at(*_TEXT) for frame in lines)
    written: Any = None
    for frame in lines:
        if frame.value_at("done") is not True:
            continue
        written = frame.value_at(_WRITTEN)
        if frame.value_at(*_TEXT) and not is_whole:
            frame.set(False, "done")
            for name in frame.value.keys() & _AT_END:
                frame.take(name)
        else:
            frame.drop()
    for frame in last.frames:
        message = frame.value_at("message")
        if isinstance(message, dict) and "thinking" in message:
            frame.take("message", "thinking")
            if frame.value_at("done") is not True and not _has_other_content(message, "thinking"):
                frame.drop()
                continue
        if has_text and frame.value_at(*_TEXT):
            prepend_paragraph(frame, *_TEXT)
            has_text = False
        if frame.value_at(_WRITTEN) is not None:
            frame.set(add_output(written, frame.value_at(_WRITTEN)), _WRITTEN)
        if is_whole and isinstance(message, dict):
            _prepend_first(frame, lines[0])


def _has_other_content(message: Mapping[str, Any], member: str) -> bool:
    return any(item for name, item in message.items() if name not in ("role", member))


def _prepend_first(frame: EditableFrame, first: EditableFrame) -> None:
    """Both are one object: it begins like the first one."""
    before = first.value_at(*_TEXT) or ""
    after = frame.value_at(*_TEXT) or ""
    frame.set(f"{before}\n\n{after}" if before and after else f"{before}{after}", *_TEXT)
    if thought := first.value_at("message", "thinking"):
        frame.set(thought, "message", "thinking")
    if first.value_at("created_at"):
        frame.set(first.value_at("created_at"), "created_at")


EDITOR = AnswerEditor(edit, keepalive, join)


# The history of a request: results, and answers that are put back.


def _write(message: Body, edit: ResultEdit) -> Changes:
    return {("content",): dump_ascii(say_result(edit)), ("images",): None}


def _make(call: MessagePart, answer: Sequence[Body]) -> Mapping[str, Any]:
    id_ = {"tool_call_id": call.call_id} if call.call_id else {}
    return {"role": "tool", "tool_name": call.name, **id_}


def _id_of(message: Body) -> Path:
    return ("tool_call_id",)


HISTORY = HistoryForm("messages", _write, _make, _id_of)
