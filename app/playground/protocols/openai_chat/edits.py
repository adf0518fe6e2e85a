"""Edits an answer of Chat Completions for a client: removes calls, changes arguments. Also defines
how results and answers are written in the history of its requests.

Spec: https://platform.openai.com/docs/api-reference/chat-streaming
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from playground.core.messages import MessagePart
from playground.protocols.base import CallPlace
from playground.protocols.editable_answer import (
    AnswerEditor,
    EditableAnswer,
    EditableFrame,
    carried_members,
    joined_usage,
    may_be_of_calls,
    prepend_paragraph,
    whole_answers,
)
from playground.protocols.history_form import (
    HistoryForm,
    ResultEdit,
    find_mark,
    mark_content,
    say_result,
    write_text,
)
from playground.protocols.openai_chat.decode import REASONS, THOUGHTS, message_member
from playground.protocols.raw_json import Changes, JsonText, Path, dump_ascii
from playground.protocols.request import MARK, Body, dicts

_CARRIED = ("id", "object", "created", "model", "system_fingerprint", "service_tier", "provider")
"""Members that are equal in all chunks of an answer."""

_DETAILS = "reasoning_details"

_NATIVE: Mapping[str, Any] = {**REASONS, "tool_use": "calls"}

_TOKENS = ("completion_tokens", "completion_tokens_details"), "total_tokens"
"""The counts of what was written, and of all."""


def edit(answer: EditableAnswer) -> None:
    """Edits a stream, or one completion."""
    carriers = _carriers(answer)
    for frame in answer.frames:
        if frame.places:
            _edit_calls(answer, frame, carriers)
    if answer.taken:
        _take_signatures(answer)
        _add_reasons(answer)
    for frame in answer.frames:
        _take_copies(frame)
        if answer.calls_gone:
            _end_without_calls(frame)


# Calls.


def _carriers(answer: EditableAnswer) -> Mapping[int, CallPlace]:
    """The place for a call's new arguments: its first non-empty arguments, or its first piece."""
    carriers: dict[int, tuple[bool, CallPlace]] = {}
    for frame in answer.frames:
        for place in frame.places:
            says = bool(frame.value_at(*_arguments_at(frame, place.path)))
            if place.part not in carriers or (says and not carriers[place.part][0]):
                carriers[place.part] = (says, place)
    return {part: place for part, (_, place) in carriers.items()}


def _arguments_at(frame: EditableFrame, path: Path) -> Path:
    if path[-1:] == ("function_call",):
        return (*path, "arguments")
    is_custom = isinstance(frame.value_at(*path, "custom"), dict)
    return (*path, "custom", "input") if is_custom else (*path, "function", "arguments")


def _edit_calls(
    answer: EditableAnswer, frame: EditableFrame, carriers: Mapping[int, CallPlace]
) -> None:
    left: dict[Path, set[Path]] = {}  # by message: the removed pieces
    for place in frame.places:
        path, part = place.path, place.part
        message = path[:3]
        goes = part in answer.taken
        if part in answer.arguments:
            is_whole = frame.kind == "sse" and path[2] == "message"  # it repeats the stream
            is_carrier = carriers[part] is place or is_whole
            new = answer.arguments[part] if is_carrier else ""
            goes = _set_arguments(frame, path, new, is_carrier=is_carrier)
        if goes:
            left.setdefault(message, set()).add(path)
        elif answer.taken and _is_number(frame.value_at(*path, "index")):
            frame.set(answer.number[part], *path, "index")
    for message, paths in left.items():
        _take(answer, frame, message, paths)


def _set_arguments(frame: EditableFrame, path: Path, text: str, *, is_carrier: bool) -> bool:
    """Writes the arguments of a piece; returns whether the piece is empty after that."""
    where = _arguments_at(frame, path)
    old = frame.value_at(*where)
    if is_carrier:
        if old is None or isinstance(old, str):
            body, value = frame.value_at(*where[:-1]), {where[-1]: text}
            if isinstance(body, dict):
                frame.set(text, *where)
            else:
                frame.set(value, *where[:-1])
        else:
            frame.put(text, *where)
        return False
    if old is None:
        return False
    rest = {key: item for key, item in frame.value_at(*where[:-1]).items() if key != where[-1]}
    entry = frame.value_at(*path)
    own = {key: item for key, item in entry.items() if key not in ("index", "type", where[-2])}
    if where[-2] == "function_call":
        own = {}
    if old and not any(rest.values()) and not any(own.values()):
        return True
    if old:
        frame.set("", *where)
    return False


def _take(answer: EditableAnswer, frame: EditableFrame, message: Path, paths: set[Path]) -> None:
    """Removes these pieces of calls from a message, and what becomes empty."""
    entries = frame.value_at(*message, "tool_calls")
    if isinstance(entries, list):
        placed = {place.path for place in frame.places}
        if answer.taken:  # empty calls would be calls to a client
            paths |= {
                path
                for nth in range(len(entries))
                if (path := (*message, "tool_calls", nth)) not in placed
            }
        gone = {path for path in paths if path[-2] == "tool_calls"}
        if len(gone) == len(entries):
            paths = (paths - gone) | {(*message, "tool_calls")}
    for path in paths:
        frame.take(*path)
    _take_logprobs(frame, message)
    _drop_empty(frame, message, {path[-1] for path in paths if len(path) == len(message) + 1})


def _drop_empty(frame: EditableFrame, message: Path, members: Collection[str | int]) -> None:
    """Drops a chunk that is empty without these members of its delta."""
    rest = {name: item for name, item in frame.value_at(*message).items() if name not in members}
    choice = frame.value_at(*message[:2])
    says_more = choice.get("finish_reason") or any(rest.values()) or message[-1] == "message"
    if not says_more and len(frame.value_at("choices")) == 1 and not frame.value.get("usage"):
        frame.drop()


def _take_signatures(answer: EditableAnswer) -> None:
    """Removes reasoning details with a removed call's id, as they sign that call (OpenRouter, for
    Gemini)."""
    ids = {
        frame.value_at(*place.path, "id")
        for frame in answer.frames
        for place in frame.places
        if place.part in answer.taken
    } - {None, ""}
    for frame in answer.frames:
        choice = _choice(frame)
        if choice is None or frame.dropped:
            continue
        message = (*choice, _member(frame, choice))
        details = frame.value_at(*message, _DETAILS)
        entries = enumerate(details if isinstance(details, list) else [])
        gone = [n for n, entry in entries if isinstance(entry, dict) and entry.get("id") in ids]
        if gone and len(gone) == len(details):
            frame.take(*message, _DETAILS)
            _drop_empty(frame, message, {_DETAILS})
            continue
        for nth in gone:
            frame.take(*message, _DETAILS, nth)


def _take_logprobs(frame: EditableFrame, message: Path) -> None:
    """Removes logprobs that are not those of the text: they may be those of the call."""
    tokens = frame.value_at(*message[:2], "logprobs", "content")
    if may_be_of_calls(tokens, frame.value_at(*message, "content")):
        frame.put("null", *message[:2], "logprobs")


def _member(frame: EditableFrame, choice: Path) -> str:
    """The member of the choice that has the answer, as the decoder reads it."""
    return message_member(frame.value_at(*choice), streams=frame.kind == "sse")


def _take_copies(frame: EditableFrame) -> None:
    """Removes the calls from the member of a choice that is not read: they are copies of others."""
    choice = _choice(frame)
    if choice is None:
        return
    other = {"message": "delta", "delta": "message"}[_member(frame, choice)]
    for name in ("tool_calls", "function_call"):
        if frame.value_at(*choice, other, name):
            frame.take(*choice, other, name)


# The end.


def _choice(frame: EditableFrame) -> Path | None:
    """The path of the first choice, which alone is the answer."""
    choices = frame.value_at("choices")
    for place, choice in enumerate(choices if isinstance(choices, list) else []):
        index = choice.get("index") if isinstance(choice, dict) else 1
        if not (isinstance(index, int) and index > 0):
            return ("choices", place)
    return None


def _ends(frame: EditableFrame) -> bool:
    choice = _choice(frame)
    return choice is not None and bool(frame.value_at(*choice, "finish_reason"))


def _end_without_calls(frame: EditableFrame) -> None:
    choice = _choice(frame)
    if choice is None:
        return
    for name, words in (("finish_reason", REASONS), ("native_finish_reason", _NATIVE)):
        if words.get(str(frame.value_at(*choice, name))) == "calls":
            frame.set("stop", *choice, name)


def _add_reasons(answer: EditableAnswer) -> None:
    """Adds the reasons in a new chunk before the one that ends the answer, or to that one if it has
    text of its own or is the whole answer."""
    text = answer.joined_reasons
    if not text:
        return
    ending = answer.ending_frame(_ends)
    chunks = [frame for frame in answer.frames if _choice(frame) is not None and not frame.dropped]
    place = _choice(ending) if ending is not None else None
    if ending is not None and place is not None:
        member = _member(ending, place)
        content = ending.value_at(*place, member, "content")
        if member == "message" or content or chunks[0] is ending:
            _append(ending, (*place, member), text)
            return
    before = ending or answer.ending_frame(lambda frame: frame.is_done)
    like = (chunks or [frame for frame in answer.frames if _choice(frame) is not None])[-1]
    answer.insert(before, _chunk(like.value, {"content": text}))


def _append(frame: EditableFrame, message: Path, text: str) -> None:
    content = frame.value_at(*message, "content")
    if isinstance(content, list):
        frame.set({"type": "text", "text": text}, *message, "content", len(content))
    elif isinstance(frame.value_at(*message), dict):
        frame.set(f"{content or ''}{text}", *message, "content")
    else:
        frame.set({"content": text}, *message)


def _chunk(like: Mapping[str, Any], delta: Mapping[str, Any]) -> dict[str, Any]:
    head = carried_members(like, _CARRIED)
    return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def keepalive(values: Sequence[Mapping[str, Any]], passed: int) -> bytes:
    """A chunk without content: without a choice it would break loops of client code, with an empty
    text it would be an event of its own."""
    like = next((value for value in values if value.get("choices")), None)
    return b"data: " + dump_ascii(_chunk(like, {})).encode() + b"\n\n" if like else b""


# Joining two answers.


def join(first: EditableAnswer, last: EditableAnswer) -> None:
    if wholes := whole_answers(first, last, _is_whole):
        _join_whole(*wholes)
        return
    usage: Any = None
    has_text = False
    for frame in first.frames:
        usage = frame.value_at("usage") or usage
        has_text = has_text or _has_text(frame)
        if frame.is_done or (frame.value and _choice(frame) is None):
            frame.drop()
        elif _ends(frame):
            _go_past_end(frame)
    ids = [id_ for frame in first.frames if isinstance(id_ := frame.value_at("id"), str)]
    for frame in last.frames:
        if _choice(frame) is not None:
            _go_on(frame)
            if has_text and _has_text(frame) and not frame.dropped:
                prepend_paragraph(frame, *(_choice(frame) or ()), "delta", "content")
                has_text = False
        if ids and isinstance(frame.value_at("id"), str):
            frame.set(ids[0], "id")
        if isinstance(used := frame.value_at("usage"), dict):
            frame.set(joined_usage(usage, used, *_TOKENS), "usage")


def _is_whole(frame: EditableFrame) -> bool:
    choice = _choice(frame)
    if choice is None or _member(frame, choice) != "message":
        return False
    return isinstance(frame.value_at(*choice, "message"), dict)


def _has_text(frame: EditableFrame) -> bool:
    choice = _choice(frame)
    return choice is not None and bool(frame.value_at(*choice, "delta", "content"))


def _go_past_end(frame: EditableFrame) -> None:
    """The chunk that ends the first answer must not end it; drops it if it has nothing else."""
    choice = _choice(frame) or ()
    delta = frame.value_at(*choice, "delta")
    if not any(value for name, value in (delta or {}).items() if name != "role"):
        frame.drop()
        return
    for name in ("finish_reason", "native_finish_reason"):
        if frame.value_at(*choice, name):
            frame.put("null", *choice, name)
    if frame.value_at("usage"):
        frame.put("null", "usage")


def _go_on(frame: EditableFrame) -> None:
    """Removes its start and its thinking."""
    choice = _choice(frame) or ()
    delta = frame.value_at(*choice, "delta")
    if not isinstance(delta, dict):
        return
    gone = {name for name in delta if name == "role" or name in THOUGHTS}
    content = delta.get("content")
    if isinstance(content, list):
        for nth, piece in enumerate(content):
            if isinstance(piece, dict) and piece.get("type") == "thinking":
                frame.take(*choice, "delta", "content", nth)
    for name in gone:
        frame.take(*choice, "delta", name)
    if gone:
        _drop_empty(frame, (*choice, "delta"), gone)


def _join_whole(first: EditableFrame, last: EditableFrame) -> None:
    here, place = _choice(first) or (), _choice(last) or ()
    quoted = JsonText(last.data)
    for name, value in last.value_at(*place).items():
        if name not in ("index", "message"):
            first.set(value, *here, name)
    for name, value in last.value_at(*place, "message").items():
        if name == "content" and isinstance(value, str) and value:
            before = first.value_at(*here, "message", "content")
            first.set(f"{before}\n\n{value}" if before else value, *here, "message", "content")
        elif name not in ("role", "content") and name not in THOUGHTS and value is not None:
            first.put(quoted.member(*place, "message", name), *here, "message", name)
    if isinstance(used := last.value_at("usage"), dict):
        first.set(joined_usage(first.value_at("usage"), used, *_TOKENS), "usage")
    last.drop()


EDITOR = AnswerEditor(edit, keepalive, join)


# The history of a request: results, and answers that are put back.


def _write(message: Body, edit: ResultEdit) -> Changes:
    return {("content",): write_text(say_result(edit), find_mark(message.get("content")))}


def _make(call: MessagePart, answer: Sequence[Body]) -> Mapping[str, Any]:
    if not call.call_id and any(message.get("function_call") for message in answer):
        return {"role": "function", "name": call.name}
    return {"role": "tool", "tool_call_id": call.call_id}


def _id_of(message: Body) -> Path:
    return ("tool_call_id",)


def _keep_mark(copy: Sequence[Body], element: Body) -> Changes:
    """OpenRouter and others accept cache marks on a message or on its pieces."""
    changes: dict[Path, str | None] = {}
    pieces = [piece for message in copy for piece in dicts(message.get("content"))]
    changes.update(mark_content(element.get("content"), find_mark(pieces)))
    if (mark := find_mark(list(copy))) and not element.get(MARK):
        changes[MARK,] = dump_ascii(mark)
    return changes


def _ask_freely(body: Body) -> Changes:
    changes: dict[Path, str | None] = {}
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        changes["tool_choice", "allowed_tools", "mode"] = dump_ascii("auto")
    elif isinstance(choice, dict) or choice in ("required", "any"):
        changes["tool_choice",] = dump_ascii("auto")
    if isinstance(body.get("function_call"), dict):
        changes["function_call",] = dump_ascii("auto")
    return changes


HISTORY = HistoryForm(
    *("messages", _write, _make, _id_of), keep_mark=_keep_mark, ask_freely=_ask_freely
)
