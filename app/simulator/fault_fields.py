"""Faults in the fields of a protocol: a call's id, name and index, the usage.

It finds these by the shape of the JSON, in a frame of a stream and in a whole body alike: what is
a call in one protocol is none in another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from app.protocols.server import OutgoingFrame, ProviderServer, encoded
from app.simulator.fault_streams import Twist

_CALL_TYPES = ("tool_use", "function_call", "custom_tool_call")
_ARGUMENTS = ("input", "args", "arguments")
_USAGE = ("usage", "usageMetadata", "prompt_eval_count", "eval_count")


@dataclass(frozen=True)
class Spot:
    """Where a call stands: the object with its id under `id_key`, the one with its name."""

    of_id: dict[str, Any]
    id_key: str
    of_name: dict[str, Any]


Mend = Callable[[Any, int], None]
"""(the JSON value of a frame, the number of calls met before it): changes the value in place."""


def spots(value: Any) -> Iterator[Spot]:
    """The calls in a JSON value; their arguments are not looked into."""
    match value:
        case list():
            for item in value:
                yield from spots(item)
        case {"type": str() as kind} if kind in _CALL_TYPES:
            yield Spot(value, "call_id" if "call_id" in value else "id", value)
        case {"functionCall": dict() as called}:
            yield Spot(called, "id", called)
        case {"function": dict() as called} | {"custom": dict() as called}:
            yield Spot(value, "id", called)
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


def mended(mend: Mend) -> Twist:
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

    return mended(mend)


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

    yield from mended(mend)(frames, end, number)


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

    yield from mended(mend)(frames, end, number)


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

    yield from mended(mend)(frames, end, number)


Indexed = Callable[[int], int | None]


def indexes(changed: Indexed) -> Twist:
    """Every index of a call or block changed; None leaves the field out."""

    def mend(value: Any, met: int) -> None:
        for holder, key in list(numbered(value)):
            told = changed(holder[key])
            holder[key] = told
            if told is None:
                del holder[key]

    return mended(mend)


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

    return mended(lambda value, met: change(value))


def _odd(value: Any, odd: Any) -> Any:
    if isinstance(value, dict):
        return {name: _odd(item, odd) for name, item in value.items()}
    return odd
