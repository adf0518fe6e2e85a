"""Faults in what the model says and in the fields that carry it.

First what is said: calls with broken arguments, unknown tools, odd endings. Then the fields of a
protocol: a call's id, name and index, the usage. These are found by the shape of the JSON, in a
frame of a stream and in a whole body alike.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from app.core.messages import MessagePart, ModelRequest, arguments_object
from app.protocols.server import (
    ModelReply,
    OutgoingFrame,
    ProviderServer,
    ReplyBlock,
    call,
    encoded,
)
from app.simulator.fake_model.plan import Background, forced_call
from app.simulator.fault_transport import Twist

Change = Callable[[ModelReply, ModelRequest, int], ModelReply]
"""(the reply as it would be, the request, the number in the fault's name) -> the reply instead."""


def some_call(reply: ModelReply, request: ModelRequest) -> ReplyBlock:
    """The first call of `reply`, or one made up, so that there is something to break."""
    if reply.calls:
        return reply.calls[0]
    if not request.offered:
        return call("get_weather", {"city": "Paris", "days": 3})
    prompt = "".join(p.text for m in request.messages[-1:] for p in m.parts if p.kind == "text")
    best = forced_call(prompt[:1_000], request.offered, Background(), date(2026, 1, 1))
    return call(best.tool.name, best.arguments)


def raw(written: Callable[[str, int], str], *, stop: str = "calls") -> Change:
    """The first call alone, its arguments rewritten; `written` gets their JSON text."""

    def change(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
        block = some_call(reply, request)
        text = written(block.text, number)
        # What is huge comes in pieces of a size that a provider would choose for it.
        piece = 64 if len(text) > 10_000 else block.piece
        return ModelReply((replace(block, text=text, piece=piece),), stop)

    return change


def values(rewritten: Callable[[Any], Any]) -> Change:
    """The first call alone, each of its values rewritten."""

    def written(text: str, number: int) -> str:
        given = arguments_object(text) or {"city": "Paris"}
        return json.dumps({k: rewritten(v) for k, v in given.items()}, ensure_ascii=False)

    return raw(written)


def named(name: Callable[[str, int], str]) -> Change:
    """The first call alone under another name."""

    def change(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
        block = some_call(reply, request)
        return ModelReply((replace(block, name=name(block.name, number)),), "calls")

    return change


def first_pair(text: str) -> tuple[str, Any]:
    given: Mapping[str, Any] = arguments_object(text) or {}
    return next(iter(given.items()), ("city", "Paris"))


def duplicate_keys(text: str, number: int) -> str:
    """The first key once more, with another value: which of the two will be run?"""
    name, value = first_pair(text)
    other = "something else" if isinstance(value, str) else -1
    key = json.dumps(name)
    return f"{{{key}: {json.dumps(value)}, {key}: {json.dumps(other)}}}"


def cut(text: str, number: int) -> str:
    """The first half, and always less than the whole."""
    return text[: max(1, len(text) // 2)]


def of_another_type(value: Any) -> Any:
    return 12345 if isinstance(value, str) else "not a number"


def upside_down(value: Any) -> Any:
    """A right-to-left override and a zero-width space: what is shown is not what is there."""
    return f"\u202egnp.{value}\u202c\u200b" if isinstance(value, str) else value


def with_value(value: str) -> Callable[[str, int], str]:
    """The first argument replaced by `value`, which is JSON text and may be no sound JSON."""
    return lambda text, number: f"{{{json.dumps(first_pair(text)[0])}: {value}}}"


def huge(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
    """One argument of `number` characters in deltas of 8."""
    block = some_call(reply, request)
    name, _ = first_pair(block.text)
    text = f'{{"{name}": "{"abcdefgh" * (number // 8)}{"x" * (number % 8)}"}}'
    return ModelReply((replace(block, text=text, piece=8),), "calls")


def deep(text: str, number: int) -> str:
    return f"{{{json.dumps(first_pair(text)[0])}: {'[' * number}{']' * number}}}"


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


def pair(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
    """The first call twice."""
    return parallel(reply, request, 2)


def alone(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
    """The first call and nothing else."""
    return parallel(reply, request, 1)


def parallel(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
    return ModelReply((some_call(reply, request),) * number, "calls")


def again(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
    """The first call of the session over and over, whatever came back."""
    made: list[MessagePart] = [p for m in request.messages for p in m.parts if p.kind == "call"]
    block = call(made[0].name, made[0].text) if made else some_call(reply, request)
    return ModelReply((ReplyBlock("text", "Let me check that once more."), block), "calls")


def saying(text: str) -> Change:
    """Only this text."""
    return lambda reply, request, number: ModelReply((ReplyBlock("text", text),))


def stopped(stop: str, *, keep_calls: bool = True) -> Change:
    """The same reply with another reason for its end."""

    def change(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
        kept = [b for b in reply.blocks if keep_calls or b.kind != "call"]
        return ModelReply(tuple(kept), stop)

    return change


def cut_by_length(reply: ModelReply, request: ModelRequest, number: int) -> ModelReply:
    """A turn cut by `max_tokens`: in its call where it has one, else in its text."""
    if not request.offered:
        text = reply.text
        return ModelReply((ReplyBlock("text", text[: max(1, len(text) // 2)]),), "length")
    return raw(cut, stop="length")(reply, request, number)


# -- in the JSON of frames and bodies: a call's id, name and index, the usage

_CALL_TYPES = ("tool_use", "function_call", "custom_tool_call")
_ARGUMENTS = ("input", "args", "arguments")
_USAGE = ("usage", "usageMetadata", "prompt_eval_count", "eval_count")


@dataclass(frozen=True)
class CallFields:
    """Where a call stands: the object with its id under `id_key`, the one with its name."""

    of_id: dict[str, Any]
    id_key: str
    of_name: dict[str, Any]


FieldEdit = Callable[[Any, int], None]
"""(the JSON value of a frame, the number of calls met before it): changes the value in place."""


def spots(value: Any) -> Iterator[CallFields]:
    """The calls in a JSON value; their arguments are not looked into."""
    match value:
        case list():
            for item in value:
                yield from spots(item)
        case {"type": str() as kind} if kind in _CALL_TYPES:
            yield CallFields(value, "call_id" if "call_id" in value else "id", value)
        case {"functionCall": dict() as called}:
            yield CallFields(called, "id", called)
        case {"function": dict() as called} | {"custom": dict() as called}:
            yield CallFields(value, "id", called)
        case dict():
            for name, item in value.items():
                if name not in _ARGUMENTS:
                    yield from spots(item)


def numbered(value: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """The objects that bear the index of a call or block, with the name of that field."""
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
                yield from numbered(item)
        case list():
            for item in value:
                yield from numbered(item)


def value_of(frame: OutgoingFrame) -> tuple[bytes, Any, bytes] | None:
    """(what stands before, the JSON value, what stands behind) of a frame; None without JSON."""
    start = frame.data.find(b"{")
    body = frame.data[start:].rstrip()
    if start < 0:
        return None
    try:
        value = json.loads(body, parse_float=str)
    except (ValueError, RecursionError):
        return None
    return frame.data[:start], value, frame.data[start + len(body) :]


def edit_frames(mend: FieldEdit) -> Twist:
    """Each frame with its JSON changed."""

    def twist(
        frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
    ) -> Iterator[OutgoingFrame]:
        met = 0
        for frame in frames:
            found = value_of(frame)
            if found is None:
                yield frame
                continue
            before, value, behind = found
            mend(value, met)
            met += sum(1 for spot in spots(value) if spot.of_name.get("name"))
            yield OutgoingFrame(before + encoded(value) + behind, frame.pause, frame.tag)

    return twist


def ids(changed: Callable[[str, int], str | None]) -> Twist:
    """The id of each call changed; None leaves the field out. It gets (id, number of the call)."""

    def mend(value: Any, met: int) -> None:
        for place, spot in enumerate(spots(value)):
            if spot.id_key in spot.of_id:
                told = changed(spot.of_id[spot.id_key], met + place)
                spot.of_id[spot.id_key] = told
                if told is None:
                    del spot.of_id[spot.id_key]

    return edit_frames(mend)


def changing_ids(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """Another id in each fragment of a call, where only the first should have one."""
    count = 0

    def mend(value: Any, met: int) -> None:
        nonlocal count
        for spot in spots(value):
            count += 1
            key = "id" if "call_id" in spot.of_id else spot.id_key
            spot.of_id[key] = f"{spot.of_id.get(key, 'call')}_{count}"
        if isinstance(value, dict) and "item_id" in value:
            count += 1
            value["item_id"] = f"{value['item_id']}_{count}"

    yield from edit_frames(mend)(frames, end, number)


def no_names(value: Any, met: int) -> None:
    for spot in spots(value):
        spot.of_name.pop("name", None)


def late_names(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """A name that is missing where a call opens and comes with a later fragment."""
    held: list[str] = []

    def mend(value: Any, met: int) -> None:
        for spot in spots(value):
            if held and "name" not in spot.of_name:
                spot.of_name["name"] = held.pop(0)
            elif spot.of_name.get("name") and _opens(value):
                held.append(spot.of_name.pop("name"))

    yield from edit_frames(mend)(frames, end, number)


def _opens(value: Any) -> bool:
    """Whether a frame opens a call and does not tell it whole."""
    return isinstance(value, dict) and value.get("type", "response.output_item.added") in (
        "response.output_item.added",
    )


def split_names(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """The first half of a name where a call opens, the second with its next fragment."""
    held: list[str] = []

    def mend(value: Any, met: int) -> None:
        for spot in spots(value):
            name = spot.of_name.get("name", "")
            if held and not name:
                spot.of_name["name"] = held.pop(0)
            elif len(name) > 1:
                half = len(name) // 2
                spot.of_name["name"] = name[:half]
                held.append(name[half:])

    yield from edit_frames(mend)(frames, end, number)


Indexed = Callable[[int], int | None]


def indexes(changed: Indexed) -> Twist:
    """Every index of a call or block changed; None leaves the field out."""

    def mend(value: Any, met: int) -> None:
        for holder, key in list(numbered(value)):
            told = changed(holder[key])
            holder[key] = told
            if told is None:
                del holder[key]

    return edit_frames(mend)


def interleaved(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """The frames of the calls one by one in turn, as if they were written at the same time."""
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
    found = value_of(frame)
    holders = list(numbered(found[1])) if found else []
    return holders[0][0][holders[0][1]] if holders else None


def usage(odd: Any) -> Twist:
    """The counts of tokens replaced by `odd`; None leaves them out."""

    def change(value: Any) -> None:
        match value:
            case list():
                for item in value:
                    change(item)
            case dict():
                for name in list(value):
                    if name not in _USAGE:
                        change(value[name])
                    elif odd is None:
                        del value[name]
                    else:
                        value[name] = _odd(value[name], odd)

    return edit_frames(lambda value, met: change(value))


def _odd(value: Any, odd: Any) -> Any:
    if isinstance(value, dict):
        return {name: _odd(item, odd) for name, item in value.items()}
    return odd
