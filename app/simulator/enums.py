"""Which values of an enum a text names, by their own words or by others that mean the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from app.simulator import entities

_SAME = {
    "celsius": "metric c °c centigrade degreesc",
    "fahrenheit": "imperial f °f degreesf",
    "metric": "celsius c °c",
    "imperial": "fahrenheit f °f",
    "high": "urgent important critical asap",
    "low": "whenever minor trivial",
    "true": "on yes",
    "false": "off no",
    "km": "kilometers kilometres kilometer",
    "mi": "miles mile",
    "kg": "kilograms kilos kilogram",
    "lb": "pounds lbs pound",
}


def mentioned(values: Sequence[Any], text: str) -> list[Any]:
    """The values that `text` names, in its order."""
    text = text.lower()
    places = [(min(_places(value, text), default=-1), value) for value in values]
    found = [(place, value) for place, value in places if place >= 0]
    return [value for _, value in sorted(found, key=lambda pair: pair[0])]


def _places(value: Any, text: str) -> list[int]:
    own = str(value).lower()
    spellings = [own, own.replace("_", " "), *_SAME.get(own, "").split()]
    spellings += [language for language, code in entities.LANGUAGES.items() if code == value]
    found = [_position(spelling, text) for spelling in spellings if spelling]
    return [place for place in found if place >= 0]


def _position(spelling: str, text: str) -> int:
    ending = "s?" if len(spelling) > 2 and spelling[-1].isalpha() else ""
    found = re.search(
        rf"(?<!\w){re.escape(spelling.removesuffix('s') or spelling)}{ending}(?!\w)", text
    )
    exact = re.search(rf"(?<!\w){re.escape(spelling)}(?!\w)", text)
    hit = exact or (found if len(spelling) > 3 else None)
    return hit.start() if hit else -1
