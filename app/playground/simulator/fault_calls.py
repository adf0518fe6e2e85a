"""Faults in the model's output and in the fields that carry it.

First the output: calls with broken arguments, unknown tools, odd endings. Then the fields of a
protocol: a call's id, name and index, the usage. These are found by the shape of the JSON, both in
stream frames and in whole bodies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from playground.core.json_values import load_json
from playground.core.messages import MessagePart, ModelRequest, arguments_object
from playground.protocols.server import (
    ModelReply,
    OutgoingFrame,
    ProviderServer,
    ReplyBlock,
    call,
    encode_json,
)
from playground.simulator.fault_transport import FrameChange, Frames
from playground.simulator.plan import forced_call

ReplyChange = Callable[[ModelReply, ModelRequest, int], ModelReply]
"""(the correct reply, the request, the number in the fault's name) -> the replacement."""

_CALL_TYPES = ("tool_use", "function_call", "custom_tool_call")
_ARGUMENTS = ("input", "args", "arguments")
_ADDED = "response.output_item.added"
_USAGE = ("usage", "usageMetadata", "prompt_eval_count", "eval_count")

FieldEdit = Callable[[Any], None]
"""Gets the JSON value of a frame, and changes it in place."""

IndexChange = Callable[[int], int | None]


def some_call(reply: ModelReply, request: ModelRequest) -> ReplyBlock:
    """The first call of `reply`, or a generated one, so that there is something to break."""
    if reply.calls:
        return reply.calls[0]
    if not request.offered:
        return call("get_weather", {"city": "Paris", "days": 3})
    prompt = "".join(p.text for m in request.messages[-1:] for p in m.parts if p.kind == "text")
    best = forced_call(prompt[:1_000], request.offered)
    return call(best.tool.name, best.arguments)


def rewrite_arguments(written: Callable[[str, int], str], *, stop: str = "calls") -> ReplyChange:
    """Only the first call, with its arguments rewritten; `written` gets their JSON text."""

    def change(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
        block = some_call(reply, request)
        text = written(block.text, number)
        # A huge text is split into pieces of a realistic size.
        piece = 64 if len(text) > 10_000 else block.piece
        return ModelReply((replace(block, text=text, piece=piece),), stop)

    return change


def rewrite_values(rewritten: Callable[[Any], Any]) -> Callable[[str], str]:
    """Arguments with each of their values rewritten."""

    def rewrite_text(text: str) -> str:
        given = arguments_object(text) or {"city": "Paris"}
        return json.dumps({k: rewritten(v) for k, v in given.items()}, ensure_ascii=False)

    return rewrite_text


def rename_call(written: Callable[[str], str]) -> ReplyChange:
    """Only the first call, with another name."""

    def change(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
        block = some_call(reply, request)
        return ModelReply((replace(block, name=written(block.name)),), "calls")

    return change


def first_pair(text: str) -> tuple[str, Any]:
    given: Mapping[str, Any] = arguments_object(text) or {}
    return next(iter(given.items()), ("city", "Paris"))


def duplicate_keys(text: str) -> str:
    """Repeats the first key with another value, which makes the arguments ambiguous."""
    name, value = first_pair(text)
    other = "something else" if isinstance(value, str) else -1
    key = json.dumps(name)
    return f"{{{key}: {json.dumps(value)}, {key}: {json.dumps(other)}}}"


def cut_half(text: str) -> str:
    """The first half, and always less than the whole."""
    return text[: max(1, len(text) // 2)]


def change_type(value: Any) -> Any:
    return 12345 if isinstance(value, str) else "not a number"


def reverse_text(value: Any) -> Any:
    """A right-to-left override and a zero-width space: the displayed text differs from the data."""
    return f"\u202egnp.{value}\u202c\u200b" if isinstance(value, str) else value


def only_argument(text: str, value: str) -> str:
    """Only the first argument, with `value`, which is JSON text and may be invalid."""
    return f"{{{json.dumps(first_pair(text)[0])}: {value}}}"


def huge_argument(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
    """One argument of `number` characters in deltas of 8."""
    block = some_call(reply, request)
    text = only_argument(block.text, f'"{"abcdefgh" * (number // 8)}{"x" * (number % 8)}"')
    return ModelReply((replace(block, text=text, piece=8),), "calls")


def deep_argument(text: str, number: int) -> str:
    return only_argument(text, "[" * number + "]" * number)


def many_keys(text: str, number: int) -> str:
    return json.dumps({f"key{place}": place for place in range(number)})


def many_deltas(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
    """A long text, one character at a time."""
    text = "All work and no play makes a model a dull toy. "
    return ModelReply((ReplyBlock("text", (text * (number // len(text) + 1))[:number], piece=1),))


def big_delta(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
    """A text of so many MiB in one delta."""
    size = number * 1024 * 1024
    return ModelReply((ReplyBlock("text", "x" * size, piece=size),))


def repeat_call(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
    """The first call twice."""
    return parallel_calls(reply, request, 2)


def single_call(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
    """Only the first call."""
    return parallel_calls(reply, request, 1)


def parallel_calls(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
    return ModelReply((some_call(reply, request),) * number, "calls")


def repeat_first_call(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
    """Repeats the first call of the session, whatever the results."""
    calls: list[MessagePart] = [p for m in request.messages for p in m.parts if p.kind == "call"]
    block = call(calls[0].name, calls[0].text) if calls else some_call(reply, request)
    return ModelReply((ReplyBlock("text", "Let me check that once more."), block), "calls")


def only_text(text: str) -> ReplyChange:
    """Only this text."""
    return lambda reply, request, number: ModelReply((ReplyBlock("text", text),))


def change_stop(stop: str, *, keep_calls: bool = True) -> ReplyChange:
    """The same reply with another stop reason."""

    def change(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
        blocks = [b for b in reply.blocks if keep_calls or b.kind != "call"]
        return ModelReply(tuple(blocks), stop)

    return change


def cut_by_length(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
    """A turn cut by `max_tokens`: in its call if it has one, else in its text."""
    if not request.offered:
        text = reply.text
        return ModelReply((ReplyBlock("text", text[: max(1, len(text) // 2)]),), "length")
    return rewrite_arguments(lambda text, number: cut_half(text), stop="length")(
        reply, request, number
    )


# -- in the JSON of frames and bodies: a call's id, name and index, the usage


@dataclass(frozen=True)
class CallFields:
    """The fields of a call: the object with its id under `id_key`, the one with its name."""

    of_id: dict[str, Any]
    id_key: str
    of_name: dict[str, Any]


def find_calls(value: Any) -> Iterator[CallFields]:
    """The calls in a JSON value; their arguments are not searched."""
    match value:
        case list():
            for item in value:
                yield from find_calls(item)
        case {"type": str() as kind} if kind in _CALL_TYPES:
            yield CallFields(value, "call_id" if "call_id" in value else "id", value)
        case {"functionCall": dict() as called}:
            yield CallFields(called, "id", called)
        case {"function": dict() as called} | {"custom": dict() as called}:
            yield CallFields(value, "id", called)
        case dict():
            for name, item in value.items():
                if name not in _ARGUMENTS:
                    yield from find_calls(item)


def find_indexes(value: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """The objects with the index of a call or block, and the name of that field."""
    match value:
        case {"type": str() as kind, "index": int()} if kind.startswith("content_block"):
            yield value, "index"
        case {"output_index": int()}:
            yield value, "output_index"
        case {"tool_calls": list() as calls}:
            for call in calls:
                for holder in (call, call.get("function", {})):
                    if "index" in holder:
                        yield holder, "index"
        case dict():
            for item in value.values():
                yield from find_indexes(item)
        case list():
            for item in value:
                yield from find_indexes(item)


def value_of(frame: OutgoingFrame) -> tuple[bytes, Any, bytes] | None:
    """(bytes before, the JSON value, bytes after) of a frame; None without JSON."""
    start = frame.data.find(b"{")
    body = frame.data[start:].rstrip()
    if start < 0:
        return None
    try:
        value = load_json(body, parse_float=str)
    except ValueError:
        return None
    return frame.data[:start], value, frame.data[start + len(body) :]


def edit_frames(edit: FieldEdit) -> FrameChange:
    """Each frame with its JSON changed."""

    def change_frames(frames: Frames, end: ProviderServer, number: int) -> Iterator[OutgoingFrame]:
        for frame in frames:
            located = value_of(frame)
            if located is None:
                yield frame
                continue
            before, value, behind = located
            edit(value)
            yield OutgoingFrame(before + encode_json(value) + behind, frame.pause, frame.tag)

    return change_frames


def _put(holder: dict[str, Any], key: str, value: Any) -> None:
    """None leaves the field out."""
    holder[key] = value
    if value is None:
        del holder[key]


def change_ids(changed: Callable[[str, int], str | None]) -> FrameChange:
    """The id of each call changed; None leaves the field out. Receives (id, number of the call)."""

    def change_frames(frames: Frames, end: ProviderServer, number: int) -> Iterable[OutgoingFrame]:
        known: dict[str, int] = {}

        def edit(value: Any) -> None:
            for spot in find_calls(value):
                given = spot.of_id.get(spot.id_key)
                if given is not None:
                    place = known.setdefault(given, len(known))
                    _put(spot.of_id, spot.id_key, changed(given, place))

        return edit_frames(edit)(frames, end, number)

    return change_frames


def changing_ids(frames: Frames, end: ProviderServer, number: int) -> Iterable[OutgoingFrame]:
    """Another id in each fragment of a call, although only the first should have one."""
    counted = count(1)

    def edit(value: Any) -> None:
        for spot in find_calls(value):
            key = "id" if "call_id" in spot.of_id else spot.id_key
            spot.of_id[key] = f"{spot.of_id.get(key, 'call')}_{next(counted)}"
        if isinstance(value, dict) and "item_id" in value:
            value["item_id"] = f"{value['item_id']}_{next(counted)}"

    return edit_frames(edit)(frames, end, number)


def no_names(value: Any) -> None:
    for spot in find_calls(value):
        spot.of_name.pop("name", None)


def split_names(share: float) -> FrameChange:
    """This share of a name where a call begins (no name if that is empty), the rest with its next
    fragment."""

    def change_frames(frames: Frames, end: ProviderServer, number: int) -> Iterable[OutgoingFrame]:
        held: list[str] = []

        def edit(value: Any) -> None:
            opens = value.get("type", _ADDED) == _ADDED
            for spot in find_calls(value):
                name = spot.of_name.get("name", "")
                if held and not name:
                    spot.of_name["name"] = held.pop(0)
                elif name and opens:
                    size = int(len(name) * share)
                    _put(spot.of_name, "name", name[:size] or None)
                    held.append(name[size:])

        return edit_frames(edit)(frames, end, number)

    return change_frames


def indexes(changed: IndexChange) -> FrameChange:
    """Every index of a call or block changed; None leaves the field out."""

    def edit(value: Any) -> None:
        for holder, key in list(find_indexes(value)):
            _put(holder, key, changed(holder[key]))

    return edit_frames(edit)


def interleave(frames: Frames, end: ProviderServer, number: int) -> Iterator[OutgoingFrame]:
    """The frames of the calls interleaved, as if they were generated in parallel."""
    rows: dict[int, list[OutgoingFrame]] = {}
    within = [place for place, frame in enumerate(frames) if frame.tag == "args"]
    if not within:
        yield from frames
        return
    last = max(i for i, f in enumerate(frames) if f.tag not in ("finish", "marker"))
    first = within[0]
    while first and _index(frames[first - 1]) == _index(frames[first]):
        first -= 1
    rest: list[OutgoingFrame] = []
    for frame in frames[first : last + 1]:
        index = _index(frame)
        (rest if index is None else rows.setdefault(index, [])).append(frame)
    yield from frames[:first]
    for place in range(max(map(len, rows.values()), default=0)):
        yield from (row[place] for row in rows.values() if place < len(row))
    yield from rest
    yield from frames[last + 1 :]


def _index(frame: OutgoingFrame) -> int | None:
    located = value_of(frame)
    holders = list(find_indexes(located[1])) if located else []
    return holders[0][0][holders[0][1]] if holders else None


def usage(odd: Any) -> FrameChange:
    """The token counts replaced by `odd`; None leaves them out."""

    def edit(value: Any) -> None:
        if isinstance(value, list):
            for item in value:
                edit(item)
        elif isinstance(value, dict):
            for name in list(value):
                if name in _USAGE:
                    _put(value, name, odd and _replace_counts(value[name], odd))
                else:
                    edit(value[name])

    return edit_frames(edit)


def _replace_counts(value: Any, odd: Any) -> Any:
    if isinstance(value, dict):
        return {name: _replace_counts(item, odd) for name, item in value.items()}
    return odd
