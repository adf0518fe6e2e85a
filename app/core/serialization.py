"""Events as rows and JSON, and back. `kind` is the class name in snake_case."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from app.core.errors import BadInput
from app.core.events import Event, Logged


def kind_of(cls: type) -> str:
    """`PartDelta` -> `part_delta`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


EVENTS: dict[str, type] = {kind_of(cls): cls for cls in get_args(Event)}
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
"""Made once: json.dumps with separators builds an encoder for each event."""

KINDS: dict[type, str] = {cls: kind for kind, cls in EVENTS.items()}


def to_data(value: Any) -> Any:
    """Plain JSON data of a frozen dataclass, tuple or mapping; recursive."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case dict():
            return {key: to_data(item) for key, item in value.items()}
        case list() | tuple():
            return [to_data(item) for item in value]
        case _ if is_dataclass(value):
            cls: Any = type(value)
            return {name: to_data(getattr(value, name)) for name in _names(cls)}
        case Mapping():
            return {key: to_data(item) for key, item in value.items()}
    raise TypeError(f"no JSON for {type(value).__name__}")


def from_data(cls: Any, data: Any) -> Any:
    """The inverse of `to_data` for the dataclass `cls`. Unknown keys are an error."""
    return _reader(cls)(data)


def to_row(event: Event) -> tuple[str, str]:
    """(kind, JSON body). ASCII only, so that lone surrogates survive any store."""
    return KINDS[type(event)], _ENCODE(to_data(event))


def from_row(kind: str, body: str) -> Event:
    """The event of a row; BadInput where this version does not know it."""
    cls = EVENTS.get(kind)
    if cls is None:
        raise BadInput(f"This log holds an event of kind {kind!r}, which this version cannot read.")
    event: Event = from_data(cls, json.loads(body))
    return event


def logged_data(logged: Logged) -> dict[str, Any]:
    """The line of the log as scripts read it: seq, at_ms, kind, source, the event's fields."""
    line: dict[str, Any] = {
        "seq": logged.seq,
        "at_ms": logged.at_ms,
        "kind": KINDS[type(logged.event)],
    }
    if logged.source is not None:
        source = logged.source
        line["source"] = [source.recording, source.start, source.end]
    line.update(to_data(logged.event))
    return line


@lru_cache(maxsize=None)
def _names(cls: Any) -> tuple[str, ...]:
    return tuple(item.name for item in fields(cls))


@lru_cache(maxsize=None)
def _reader(hint: Any) -> Callable[[Any], Any]:
    """A function from JSON data to a value of the type `hint`."""
    if isinstance(hint, type) and is_dataclass(hint):
        hints = get_type_hints(hint)
        readers = {name: _reader(hints[name]) for name in _names(hint)}

        def read(data: Any) -> Any:
            if not isinstance(data, dict):
                raise BadInput(f"{hint.__name__} must be an object, not {type(data).__name__}.")
            unknown = data.keys() - readers.keys()
            if unknown:
                raise BadInput(f"{hint.__name__} has no field {sorted(unknown)[0]!r}.")
            try:
                return hint(**{name: readers[name](item) for name, item in data.items()})
            except TypeError as error:
                raise BadInput(f"{hint.__name__}: {error}.") from error

        return read
    origin, args = get_origin(hint), get_args(hint)
    if origin is tuple:
        item = _reader(args[0])
        return lambda data: tuple(item(entry) for entry in data)
    if origin in (Union, types.UnionType):
        some = [arg for arg in args if arg is not type(None)]
        if len(some) == 1:
            inner = _reader(some[0])
            return lambda data: None if data is None else inner(data)
    return lambda data: data
