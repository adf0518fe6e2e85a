"""Edits an answer of Gemini for a client: removes calls, changes arguments. Also defines how
results and answers are written in the history of its requests.

Every remaining frame has content: both of Google's SDKs drop a chat's history over one without.
Spec: https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from playground.core.messages import MessagePart
from playground.protocols.editable_answer import (
    AnswerEditor,
    EditableAnswer,
    EditableFrame,
    joined_usage,
    prepend_paragraph,
)
from playground.protocols.encoder import exact_object, sound_object
from playground.protocols.gemini.request import split_part
from playground.protocols.history_form import HistoryForm, ResultEdit
from playground.protocols.raw_json import Changes, JsonText, Path, dump_ascii
from playground.protocols.request import Body

_OWN = "candidate"
"""Placeholder for the path of a candidate."""

_TOKENS = ("candidatesTokenCount", "thoughtsTokenCount"), "totalTokenCount"
"""The counts of what was written, and of all."""

_NAMES = ("functionResponse", "function_response")
_HALF = re.compile("[\ud800-\udfff]")


def edit(answer: EditableAnswer) -> None:
    """Edits a stream (of events, or an array), or one response."""
    written: set[int] = set()
    emptied = {frame: None for frame in answer.frames if _edit_parts(answer, frame, written)}
    answering = [frame for frame in answer.frames if _candidate(frame) is not None]
    text = answer.joined_reasons
    target: EditableFrame | None = None
    if answer.taken and answering:
        finishing = [
            frame for frame in emptied if frame.value_at(*_candidate_path(frame), "finishReason")
        ]
        target = (finishing or answering)[-1]
        place = (*_candidate_path(target), "content")
        if isinstance(target.value_at(*place), dict):
            parts = target.value_at(*place, "parts")
            count = len(parts) if isinstance(parts, list) else 0
            if count:
                target.set({"text": text}, *place, "parts", count)
            else:
                target.set([{"text": text}], *place, "parts")
        else:
            target.set({"parts": [{"text": text}], "role": "model"}, *place)
    _fold(answer, emptied, target)


def _edit_parts(answer: EditableAnswer, frame: EditableFrame, written: set[int]) -> bool:
    """Edits the pieces of calls; returns whether the content is empty after that."""
    where = _candidate(frame)
    parts = frame.value_at(*where, "content", "parts") if where is not None else None
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
        if (is_taken or index in written) and len(split_part(part)) > 1:
            for name in ("functionCall", "thoughtSignature"):  # its text stays
                frame.take(*path, name)
        elif is_taken or index in written:
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
    """Drops emptied frames. Their other members are moved to the next remaining frame, unless that
    has them itself, or to the last one."""
    left: dict[Path, Any] = {}
    last: EditableFrame | None = None
    for frame in answer.frames:
        if not _candidate_path(frame):
            continue
        if frame in emptied and frame is not target:
            left.update(_other_members(frame))
            frame.drop()
            continue
        for path, value in left.items():
            if frame.value_at(*_path_in(frame, path)) is None:
                frame.set(value, *_path_in(frame, path))
        left, last = {}, frame
    if last is not None:
        for path, value in left.items():
            last.set(value, *_path_in(last, path))


def _other_members(frame: EditableFrame) -> dict[Path, Any]:
    beside: dict[Path, Any] = {}
    for name, item in frame.value_at(*_candidate_path(frame)).items():
        if name != "content":
            beside[_OWN, name] = item
    for name, item in frame.value.items():
        if name != "candidates":
            beside[name,] = item
    return beside


def _path_in(frame: EditableFrame, path: Path) -> Path:
    return (*_candidate_path(frame), *path[1:]) if path[0] == _OWN else path


def _candidate(frame: EditableFrame) -> Path | None:
    """The path of the first candidate, which alone is the answer."""
    candidates = frame.value_at("candidates")
    for place, candidate in enumerate(candidates if isinstance(candidates, list) else []):
        if isinstance(candidate, dict):
            index = candidate.get("index")
            is_number = isinstance(index, int) and not isinstance(index, bool)
            if (is_number and index == 0) or (not is_number and place == 0):
                return ("candidates", place)
    return None


def _candidate_path(frame: EditableFrame) -> Path:
    return _candidate(frame) or ()


def keepalive(values: Sequence[Mapping[str, Any]], passed: int) -> bytes:
    """An empty line only: an event without content drops the history of chats, and a comment ends
    Google's own client."""
    return b"\n"


# Joining two answers.


def join(first: EditableAnswer, last: EditableAnswer) -> None:
    frames = [frame for frame in first.frames if _candidate_path(frame)]
    going_on = [frame for frame in last.frames if frame.value]
    if not frames or not going_on or frames[-1].kind != going_on[0].kind:
        raise ValueError("One of these answers is a stream, and the other is not.")
    used, id_ = frames[-1].value_at("usageMetadata"), frames[0].value_at("responseId")
    has_text = any(map(_texts, frames))
    for frame in going_on:
        if isinstance(frame.value_at("usageMetadata"), dict):
            usage = joined_usage(used, frame.value_at("usageMetadata"), *_TOKENS)
            frame.set(usage, "usageMetadata")
        if id_ and frame.value_at("responseId"):
            frame.set(id_, "responseId")
        if has_text and _texts(frame):
            at = (*_candidate_path(frame), "content", "parts", _texts(frame)[0], "text")
            prepend_paragraph(frame, *at)
            has_text = False
    if frames[-1].kind == "json":
        _take_over(frames[-1], going_on)
        return
    for frame in frames:
        for name in ("finishReason", "finishMessage"):
            if frame.value_at(*_candidate_path(frame), name) is not None:
                frame.take(*_candidate_path(frame), name)
    emptied = [frame for frame in going_on if _drop_thoughts(frame)]
    if len(emptied) == len(going_on):  # no frame may be without content
        at_end = emptied.pop()
        at_end.put('[{"text":""}]', *_candidate_path(at_end), "content", "parts")
    _fold(last, emptied, None)


def _parts(frame: EditableFrame) -> Sequence[Any]:
    parts = (
        frame.value_at(*_candidate_path(frame), "content", "parts")
        if _candidate_path(frame)
        else None
    )
    return parts if isinstance(parts, list) else ()


def _is_thought(part: Any) -> bool:
    return isinstance(part, dict) and part.get("thought") is True


def _texts(frame: EditableFrame) -> list[int]:
    """The indexes of the text parts."""
    return [
        nth
        for nth, part in enumerate(_parts(frame))
        if isinstance(part, dict) and part.get("text") and not _is_thought(part)
    ]


def _drop_thoughts(frame: EditableFrame) -> bool:
    """Removes thoughts; returns whether the content is empty after that."""
    thoughts = [nth for nth, part in enumerate(_parts(frame)) if _is_thought(part)]
    if thoughts and len(thoughts) == len(_parts(frame)):
        return True
    for nth in thoughts:
        frame.take(*_candidate_path(frame), "content", "parts", nth)
    return False


def _take_over(target: EditableFrame, going_on: Sequence[EditableFrame]) -> None:
    """Merges the second answer into the last object of the first, with the end of the second."""
    place, count = (*_candidate_path(target), "content", "parts"), len(_parts(target))
    for frame in going_on:
        quoted = JsonText(frame.bytes().decode("utf-8", "backslashreplace"))
        for nth, part in enumerate(_parts(frame)):
            if not _is_thought(part):
                target.put(
                    quoted.member(*_candidate_path(frame), "content", "parts", nth), *place, count
                )
                count += 1
        for path in _other_members(frame) if _candidate_path(frame) else ():
            target.put(quoted.member(*_path_in(frame, path)), *_path_in(target, path))
        frame.drop()


EDITOR = AnswerEditor(edit, keepalive, join)


# The history of a request: results, and answers that are put back.


def _write(part: Body, edit: ResultEdit) -> Changes:
    """Replaces also what the tool returned besides its text (`parts`)."""
    changes: dict[Path, str | None] = {}
    for name in _NAMES:
        if name in part:
            changes[name, "response"] = _response(edit)
            changes[name, "parts"] = None
    return changes


def _response(edit: ResultEdit) -> str:
    """Same form as the encoder's: a result that is an object is sent as one."""
    if edit.is_error:
        return dump_ascii({"error": edit.text or "The tool failed and gave no reason."})
    value = exact_object(edit.text) if sound_object(edit.text) is not None else None
    if value is None:
        return dump_ascii({"output": edit.text})
    text = _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", value.text)
    return f'{{"output":{text}}}'


def _make(call: MessagePart, answer: Sequence[Body]) -> Mapping[str, Any]:
    id_ = {"id": call.call_id} if call.call_id else {}
    return {_NAMES[0]: {**id_, "name": call.name}}


def _id_of(part: Body) -> Path:
    return (next((name for name in _NAMES if name in part), _NAMES[0]), "id")


def _ask_freely(body: Body) -> Changes:
    changes: dict[Path, str | None] = {}
    for at in (("toolConfig", "functionCallingConfig"), ("tool_config", "function_calling_config")):
        config = body.get(at[0])
        calling = config.get(at[1]) if isinstance(config, dict) else None
        if isinstance(calling, dict) and str(calling.get("mode") or "").upper() == "ANY":
            named = calling.get("allowedFunctionNames") or calling.get("allowed_function_names")
            changes[*at, "mode"] = dump_ascii(
                "VALIDATED" if named else "AUTO"
            )  # AUTO takes no names
    return changes


HISTORY = HistoryForm(*("contents", _write, _make, _id_of), holder="parts", ask_freely=_ask_freely)
