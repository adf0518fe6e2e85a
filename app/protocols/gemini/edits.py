"""Changes an answer of Gemini for a client: calls taken out, other arguments.

No frame is left without content: both of Google's SDKs forget the history of a chat over one.
Spec: https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from app.protocols.answer_frames import AnswerEditor, EditableAnswer, EditableFrame
from app.protocols.json_edits import Path


def edit(answer: EditableAnswer) -> None:
    """A stream (of events, or an array), or one response."""
    written: set[int] = set()
    emptied = {frame: None for frame in answer.frames if _edit_parts(answer, frame, written)}
    answering = [frame for frame in answer.frames if _candidate(frame) is not None]
    text = answer.joined_reasons
    target: EditableFrame | None = None
    if answer.taken and answering:
        finishing = [frame for frame in emptied if frame.at(*_at(frame), "finishReason")]
        target = (finishing or answering)[-1]
        place = (*_at(target), "content")
        if isinstance(target.at(*place), dict):
            parts = target.at(*place, "parts")
            count = len(parts) if isinstance(parts, list) else 0
            if count:
                target.set({"text": text}, *place, "parts", count)
            else:
                target.set([{"text": text}], *place, "parts")
        else:
            target.set({"parts": [{"text": text}], "role": "model"}, *place)
    _fold(answer, emptied, target)


def _edit_parts(answer: EditableAnswer, frame: EditableFrame, written: set[int]) -> bool:
    """Edit the pieces of calls; whether nothing is left of the content."""
    where = _candidate(frame)
    parts = frame.at(*where, "content", "parts") if where is not None else None
    if where is None or not isinstance(parts, list):
        return False
    owner = {place.path: place.part for place in frame.places}
    count = 0
    for nth, part in enumerate(parts):
        path = (*where, "content", "parts", nth)
        call = part.get("functionCall") if isinstance(part, dict) else None
        if not isinstance(call, dict):
            continue
        index = owner.get(path, -1)
        is_taken = index in answer.taken or (index < 0 and bool(answer.taken))
        if is_taken or index in written:
            frame.take(*path)
            count += 1
        elif index in answer.arguments:
            written.add(index)
            for name in {"partialArgs", "willContinue"} & call.keys():
                frame.take(*path, "functionCall", name)
            frame.put(answer.arguments[index], *path, "functionCall", "args")
    return count > 0 and count == len(parts)


def _fold(
    answer: EditableAnswer, emptied: Collection[EditableFrame], target: EditableFrame | None
) -> None:
    """Drop what was emptied. What it says beside its content is said by the next frame that stays,
    unless that says it itself, or by the last one."""
    left: dict[Path, Any] = {}
    last: EditableFrame | None = None
    for frame in answer.frames:
        if not _at(frame):
            continue
        if frame in emptied and frame is not target:
            left.update(_beside(frame))
            frame.drop()
            continue
        for path, value in left.items():
            if frame.at(*_path_in(frame, path)) is None:
                frame.set(value, *_path_in(frame, path))
        left, last = {}, frame
    if last is not None:
        for path, value in left.items():
            last.set(value, *_path_in(last, path))


_OWN = "candidate"
"""In the place of a candidate's own path."""


def _beside(frame: EditableFrame) -> dict[Path, Any]:
    beside: dict[Path, Any] = {}
    for name, item in frame.at(*_at(frame)).items():
        if name != "content":
            beside[_OWN, name] = item
    for name, item in frame.value.items():
        if name != "candidates":
            beside[name,] = item
    return beside


def _path_in(frame: EditableFrame, path: Path) -> Path:
    return (*_at(frame), *path[1:]) if path[0] == _OWN else path


def _candidate(frame: EditableFrame) -> Path | None:
    """Where the first candidate is, the only one that is the answer."""
    candidates = frame.at("candidates")
    for place, candidate in enumerate(candidates if isinstance(candidates, list) else []):
        if isinstance(candidate, dict):
            index = candidate.get("index")
            is_number = isinstance(index, int) and not isinstance(index, bool)
            if (is_number and index == 0) or (not is_number and place == 0):
                return ("candidates", place)
    return None


def _at(frame: EditableFrame) -> Path:
    return _candidate(frame) or ()


def keepalive(values: Sequence[Mapping[str, Any]], passed: int) -> bytes:
    """An empty line and nothing else: an event without content empties the history of chats, and a
    comment ends Google's own client."""
    return b"\n"


EDITOR = AnswerEditor(edit, keepalive)
