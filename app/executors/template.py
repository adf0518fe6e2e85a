"""Templates with a call's arguments: `{{ args.city }}`, `{{ args.places.0.name }}`, `{{ args }}`.

A string that is one placeholder and nothing else becomes the argument itself, number or object.
Numbers keep their digits. Nothing else is evaluated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import Any

from app.core.arguments import ABSENT, at

PLACE = re.compile(r"\{\{\s*args((?:\.[^\s.{}]+)*)\s*\}\}")

ANY_PLACE = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
"""What was meant as one, perhaps."""


class Digits(str):
    """A number exactly as the model wrote it."""


def parse_arguments(arguments: str) -> dict[str, Any]:
    """Sound arguments, with each number as Digits."""
    value: dict[str, Any] = json.loads(arguments, parse_int=Digits, parse_float=Digits)
    return value


def fill_template(template: Any, arguments: dict[str, Any], known: Collection[str] = ()) -> Any:
    """`template` with its places filled. One that the call leaves out is an empty text where its
    argument is one of `known`, which a call may have, and stays as it is written elsewhere."""

    def value_at(place: re.Match[str]) -> Any:
        steps = steps_of(place)
        value = at(arguments, steps)
        if value is not ABSENT:
            return value
        return "" if steps and steps[0] in known else place[0]

    return _filled(template, value_at)


def left_empty(template: Any, arguments: dict[str, Any], known: Collection[str]) -> list[str]:
    """The places that `filled` makes an empty text of, each once, as they are written."""
    match template:
        case str():
            places = [(place[0], steps_of(place)) for place in PLACE.finditer(template)]
            empty = [
                text
                for text, steps in places
                if steps and steps[0] in known and at(arguments, steps) is ABSENT
            ]
            return list(dict.fromkeys(empty))
        case dict():
            return left_empty(list(template.values()), arguments, known)
        case list():
            every = (left_empty(item, arguments, known) for item in template)
            return list(dict.fromkeys(text for several in every for text in several))
    return []


def filled_or_absent(template: Any, arguments: dict[str, Any]) -> Any:
    """As `filled`, but members and items that are one place without its argument are left out,
    and a place within a longer text becomes nothing. ABSENT where nothing is left."""

    def value_at(place: re.Match[str]) -> Any:
        return at(arguments, steps_of(place))

    return _filled(template, value_at)


def unfilled(template: Any, known: Collection[str]) -> list[tuple[str, str]]:
    """The places that stay as they are written where a call has the arguments `known`: each as its
    text and the name in it."""
    match template:
        case str():
            names = []
            for place in ANY_PLACE.finditer(template):
                sound = PLACE.fullmatch(place[0])
                steps = steps_of(sound) if sound else []
                if sound is None or (steps and steps[0] not in known):
                    names.append((place[0], steps[0] if steps else place[1]))
            return list(dict.fromkeys(names))
        case dict():
            return unfilled(list(template.values()), known)
        case list():
            return list(dict.fromkeys(text for item in template for text in unfilled(item, known)))
    return []


def steps_of(place: re.Match[str]) -> list[str]:
    return place[1].split(".")[1:]


def _filled(template: Any, replace_place: Callable[[re.Match[str]], Any]) -> Any:
    match template:
        case str():
            whole = PLACE.fullmatch(template)
            if whole is not None:
                return replace_place(whole)
            return PLACE.sub(lambda place: as_text(replace_place(place)), template)
        case dict():
            members = ((key, _filled(item, replace_place)) for key, item in template.items())
            return {key: item for key, item in members if item is not ABSENT}
        case list():
            items = (_filled(item, replace_place) for item in template)
            return [item for item in items if item is not ABSENT]
    return template


def as_text(value: Any) -> str:
    """Text as it is, everything else as JSON; nothing for ABSENT."""
    if value is ABSENT:
        return ""
    return str(value) if isinstance(value, str) else as_json(value)


def as_json(value: Any) -> str:
    """Compact JSON in which numbers keep their digits."""
    match value:
        case Digits():
            return str(value)
        case dict():
            members = (
                f"{json.dumps(k, ensure_ascii=False)}: {as_json(v)}" for k, v in value.items()
            )
            return "{" + ", ".join(members) + "}"
        case list():
            return "[" + ", ".join(as_json(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)
