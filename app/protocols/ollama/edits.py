"""Changes an answer of Ollama's chat API for a client: calls taken out, other arguments.

Spec: https://docs.ollama.com/api/chat
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.protocols.answer_frames import AnswerEditor, EditableAnswer, EditableFrame
from app.protocols.frame_spans import texts_of
from app.protocols.json_edits import dumped

_CALLS = ("message", "tool_calls")
_CARRIED = ("model", "remote_model", "remote_host", "created_at")
"""Members that lines of one answer share."""


def edit(answer: EditableAnswer) -> None:
    """A stream, or one object."""
    ending = answer.ending(lambda frame: frame.at("done") is True)
    for frame in list(answer.frames):
        if frame.places:
            _edit_calls(answer, frame)
    if ending is not None and answer.calls_gone and ending.at("done_reason") == "tool_calls":
        ending.set("stop", "done_reason")
    text = answer.joined_reasons
    lines = [frame for frame in answer.frames if frame.value and not frame.dropped]
    if not text:
        return
    if ending is not None and (_says(ending) or len(answer.frames) == 1):
        if isinstance(ending.at("message"), dict):
            ending.set(f"{ending.at('message', 'content') or ''}{text}", "message", "content")
        else:
            ending.set({"role": "assistant", "content": text}, "message")
    else:
        like = ending or (lines or answer.frames)[-1]
        answer.insert(ending, _line(like.value, text))


def _says(frame: EditableFrame) -> bool:
    message = frame.at("message")
    return isinstance(message, dict) and any(
        item for name, item in message.items() if name != "role"
    )


def _edit_calls(answer: EditableAnswer, frame: EditableFrame) -> None:
    gone = [place for place in frame.places if place.part in answer.taken]
    if len(gone) == len(frame.at(*_CALLS)):
        frame.take(*_CALLS)
        message = frame.at("message")
        if frame.at("done") is not True and not (message.get("content") or message.get("thinking")):
            frame.drop()
    else:
        for place in gone:
            frame.take(*place.path)
    tokens = frame.at("logprobs")
    if gone and tokens and "".join(texts_of(tokens)) != (frame.at("message", "content") or ""):
        frame.take("logprobs")  # they may be those of the call
    for place in frame.places:
        if place.part in answer.taken:
            continue
        function = (*place.path, "function")
        number = frame.at(*function, "index")
        if answer.taken and isinstance(number, int):
            frame.set(answer.number[place.part], *function, "index")
        if place.part in answer.arguments:
            text = answer.arguments[place.part]
            if isinstance(frame.at(*function, "arguments"), str):
                frame.set(text, *function, "arguments")
            else:
                frame.put(text, *function, "arguments")


def _line(like: Mapping[str, Any], text: str) -> dict[str, Any]:
    head = {name: like[name] for name in _CARRIED if name in like}
    return {**head, "message": {"role": "assistant", "content": text}, "done": False}


def keepalive(values: Sequence[Mapping[str, Any]], passed: int) -> bytes:
    """A line without text: an empty one ends Ollama's own client."""
    return dumped(_line(values[0], "")).encode() + b"\n" if values else b""


EDITOR = AnswerEditor(edit, keepalive)
