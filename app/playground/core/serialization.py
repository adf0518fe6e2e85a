"""Converts events to rows and JSON, and back. `kind` is the class name in snake_case.

Checks values against the types of their fields, so that events from a file are checked as strictly
as our own, and maps all texts within a value.
"""

from __future__ import annotations

import json
import math
import re
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from playground.core.errors import BadInput
from playground.core.events import Event, Logged

MAX_DEPTH = 80
"""Most levels of JSON data in a value: more than our own events ever have."""


def kind_of(cls: type) -> str:
    """`PartDelta` -> `part_delta`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


EVENTS: dict[str, type] = {kind_of(cls): cls for cls in get_args(Event)}
KINDS: dict[type, str] = {cls: kind for kind, cls in EVENTS.items()}


def _members(value: Any) -> dict[str, Any]:
    """The fields of a dataclass, or a mapping as a dict."""
    if isinstance(value, Mapping):
        return dict(value)
    if not is_dataclass(value):
        raise TypeError(f"cannot serialize {type(value).__name__}")
    cls: Any = type(value)
    return {name: getattr(value, name) for name in _names(cls)}


_ENCODE = json.JSONEncoder(separators=(",", ":"), default=_members).encode
"""Created once: json.dumps with separators creates an encoder for each event."""


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
    raise TypeError(f"cannot serialize {type(value).__name__}")


def from_data(cls: Any, data: Any) -> Any:
    """The inverse of `to_data` for the dataclass `cls`. Unknown keys are an error."""
    return _reader(cls)(data)


def to_row(event: Event) -> tuple[str, str]:
    """(kind, JSON body). ASCII only, so that lone surrogates survive any store."""
    return KINDS[type(event)], _ENCODE(event)


def from_row(kind: str, body: str) -> Event:
    """The event of a row; BadInput if this version does not know it."""
    cls = EVENTS.get(kind)
    if cls is None:
        raise BadInput(f"This log has an event of kind {kind!r}, which this version cannot read.")
    event: Event = from_data(cls, json.loads(body))
    return event


def logged_data(logged: Logged) -> dict[str, Any]:
    """A log line for scripts: seq, at_ms, kind, source, and the event's fields."""
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
    """A function that converts JSON data to a value of the type `hint`."""
    if isinstance(hint, type) and is_dataclass(hint):
        hints = get_type_hints(hint)
        readers = {name: _reader(hints[name]) for name in _names(hint)}

        def read(data: Any) -> Any:
            if not isinstance(data, dict):
                raise BadInput(f"{hint.__name__} must be an object, not {type(data).__name__}.")
            try:
                return hint(**{name: readers[name](item) for name, item in data.items()})
            except KeyError as error:
                raise BadInput(f"{hint.__name__} has no field {error.args[0]!r}.") from error
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


# Checks values against the types of their fields --------------------------------------------------


def type_mismatch(hint: Any, value: Any, place: str = "") -> str:
    """The first violation of `hint` in `value`, as half a sentence, or ""."""
    if isinstance(hint, type) and is_dataclass(hint):
        if not isinstance(value, hint):
            return _violation(place, hint.__name__)
        hints = _hints(hint)
        each = (type_mismatch(hints[name], getattr(value, name), name) for name in hints)
        return next((misfit_path for misfit_path in each if misfit_path), "")
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any or hint is object:
        return (
            ""
            if _is_plain(value, MAX_DEPTH)
            else _violation(place, "JSON that is not nested too deep")
        )
    if origin is Literal:
        return (
            ""
            if any(value == argument for argument in args)
            else _violation(place, "one of its allowed values")
        )
    if origin in (Union, types.UnionType):
        fits = any(not type_mismatch(argument, value, place) for argument in args)
        return "" if fits else type_mismatch(args[0], value, place)
    if origin is tuple:
        if not isinstance(value, tuple):
            return _violation(place, "a list")
        each = (type_mismatch(args[0], item, place) for item in value)
        return next((misfit_path for misfit_path in each if misfit_path), "")
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            return _violation(place, "an object")
        each = (type_mismatch(args[1], item, place) for item in value.values())
        return next((misfit_path for misfit_path in each if misfit_path), "")
    return _scalar(hint, value, place)


def with_texts(
    hint: Any,
    value: Any,
    change: Callable[[str, str], str],
    name: str = "",
    *,
    left: Collection[str] = (),
) -> Any:
    """A copy of `value` with each text replaced by `change(field name, text)`, except Literal
    values and the fields named in `left`. In an object the keys are the names; `left` does not
    apply there."""
    if isinstance(hint, type) and is_dataclass(hint):
        hints = _hints(hint)
        changed = {
            hint: getattr(value, hint)
            if hint in left
            else with_texts(hints[hint], getattr(value, hint), change, hint, left=left)
            for hint in hints
        }
        same = all(changed[hint] is getattr(value, hint) for hint in hints)
        return value if same else hint(**changed)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal or value is None:
        return value
    if origin in (Union, types.UnionType):
        fits = next((argument for argument in args if not type_mismatch(argument, value)), Any)
        return with_texts(fits, value, change, name, left=left)
    if origin is tuple:
        items = tuple(with_texts(args[0], item, change, name, left=left) for item in value)
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return _change_texts(value, change, name)


def _change_texts(value: Any, change: Callable[[str, str], str], name: str) -> Any:
    match value:
        case str():
            return change(name, value)
        case Mapping():
            items = {change(name, k): _change_texts(v, change, str(k)) for k, v in value.items()}
            unchanged = list(items) == list(value) and all(items[k] is value[k] for k in value)
            return value if unchanged else items
        case list() | tuple():
            several = [_change_texts(item, change, name) for item in value]
            same = all(a is b for a, b in zip(several, value, strict=True))
            return value if same else several
    return value


def _scalar(hint: Any, value: Any, place: str) -> str:
    match value:
        case bool():
            fits = hint is bool
        case int():
            fits = hint in (int, float) and abs(value) < 2**63
        case float():
            fits = hint is float and math.isfinite(value)
        case _:
            fits = value is None if hint in (None, type(None)) else isinstance(value, hint)
    words = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
    return "" if fits else _violation(place, words.get(hint, "null"))


def _is_plain(value: Any, depth: int) -> bool:
    match value:
        case None | bool() | int() | float() | str():
            return True
        case dict():
            inner = value.values()
            return depth > 0 and all(_is_plain(item, depth - 1) for item in inner)
        case list() | tuple():
            return depth > 0 and all(_is_plain(item, depth - 1) for item in value)
    return False


def _violation(place: str, what: str) -> str:
    return f"{place or 'it'} must be {what}"


@lru_cache(maxsize=None)
def _hints(cls: type) -> Mapping[str, Any]:
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}
