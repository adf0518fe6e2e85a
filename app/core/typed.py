"""Values against the types of their fields: an event from a file is looked at as closely as this
program's own are made, and a text is changed wherever it stands in one. Pure.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

MAX_DEPTH = 80
"""Of the JSON data inside one value: more than any event of our own has."""


def misfit(hint: Any, value: Any, place: str = "") -> str:
    """The first thing in `value` that `hint` does not allow, as half a sentence; "" for none."""
    if isinstance(hint, type) and is_dataclass(hint):
        if not isinstance(value, hint):
            return _wrong(place, hint.__name__)
        hints = _hints(hint)
        each = (misfit(hints[name], getattr(value, name), name) for name in hints)
        return next((found for found in each if found), "")
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any or hint is object:
        return "" if _plain(value, MAX_DEPTH) else _wrong(place, "JSON of a sound depth")
    if origin is Literal:
        return (
            "" if any(value == argument for argument in args) else _wrong(place, "a word it may be")
        )
    if origin in (Union, types.UnionType):
        fits = any(not misfit(argument, value, place) for argument in args)
        return "" if fits else misfit(args[0], value, place)
    if origin is tuple:
        if not isinstance(value, tuple):
            return _wrong(place, "a list")
        each = (misfit(args[0], one, place) for one in value)
        return next((found for found in each if found), "")
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            return _wrong(place, "an object")
        each = (misfit(args[1], one, place) for one in value.values())
        return next((found for found in each if found), "")
    return _scalar(hint, value, place)


def with_texts(
    hint: Any,
    value: Any,
    change: Callable[[str, str], str],
    name: str = "",
    *,
    left: Collection[str] = (),
) -> Any:
    """A copy of `value` in which `change(field name, text)` stands for each text; the words that
    only a few may be are left, and so are the fields called as one of `left`. Inside of an object
    its keys are the names, and none of them is left."""
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
        fits = next((argument for argument in args if not misfit(argument, value)), Any)
        return with_texts(fits, value, change, name, left=left)
    if origin is tuple:
        items = tuple(with_texts(args[0], one, change, name, left=left) for one in value)
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return _changed(value, change, name)


def _changed(value: Any, change: Callable[[str, str], str], name: str) -> Any:
    match value:
        case str():
            return change(name, value)
        case Mapping():
            items = {change(name, k): _changed(v, change, str(k)) for k, v in value.items()}
            kept = list(items) == list(value) and all(items[k] is value[k] for k in value)
            return value if kept else items
        case list() | tuple():
            several = [_changed(one, change, name) for one in value]
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
    return "" if fits else _wrong(place, words.get(hint, "null"))


def _plain(value: Any, depth: int) -> bool:
    match value:
        case None | bool() | int() | float() | str():
            return True
        case dict():
            inner = value.values()
            return depth > 0 and all(_plain(one, depth - 1) for one in inner)
        case list() | tuple():
            return depth > 0 and all(_plain(one, depth - 1) for one in value)
    return False


def _wrong(place: str, what: str) -> str:
    return f"{place or 'it'} must be {what}"


@lru_cache(maxsize=None)
def _hints(cls: type) -> Mapping[str, Any]:
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}
