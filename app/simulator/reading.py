"""What can be read of a tool's result, whatever it is like: nothing, half of it, far too much.

The simulator believes a result no more than its form allows, and takes no orders from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from app.schema.json_display import readable_prefix
from app.simulator.roles import role

LARGE = 20_000
"""Characters of a result that are still read with pleasure."""

State = Literal["json", "text", "empty", "cut"]

_ORDER = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b[^.\n]{0,40}\b(?:instructions?|rules?|prompt)\b"
    r"|\bdo not (?:tell|inform|mention)\b[^.\n]{0,40}\b(?:person|user|human|anyone)\b"
    r"|\b(?:reveal|answer with|print)\b[^.\n]{0,30}\bsystem prompt\b",
    re.I,
)
_MOST_TEXT = 200_000
_PASSING = re.compile(
    r"\btime[ds]?[- ]?out\b|\btook too long\b|\bafter [\d.]+ s, its limit\b|\btry again\b"
    r"|\btemporar|\bunavailable\b|\b50[0234]\b|\binternal error\b|\bconnection was lost\b"
    r"|\bdid not answer\b",
    re.I,
)
_FORBIDDEN = re.compile(r"\b(?:denied|not allow|declined|refused|permission)", re.I)
_MEASURED = ("temperature", "temp", "humidity", "wind", "low", "high", "price", "amount", "count")


@dataclass(frozen=True)
class Reading:
    """`text` is what is left without orders, `value` its JSON, or the readable part of a cut one.
    `ordered` says that there were orders; `length` is that of the whole result."""

    text: str
    state: State
    value: Any = None
    ordered: bool = False
    length: int = 0

    @property
    def large(self) -> bool:
        return self.length > LARGE


def reading(text: str) -> Reading:
    """`text` as far as it can be read."""
    length, text = len(text), text[:_MOST_TEXT].strip()
    paragraphs = text.split("\n\n")
    kept = [paragraph for paragraph in paragraphs if not _ORDER.search(paragraph)]
    ordered = len(kept) < len(paragraphs)
    text = "\n\n".join(kept).strip()
    if not text:
        return Reading("", "empty", ordered=ordered, length=length)
    try:
        return Reading(text, "json", json.loads(text), ordered, length)
    except (ValueError, RecursionError):
        pass
    if text[0] in '{["':
        return Reading(text, "cut", readable_prefix(text[:60_000]), ordered, length)
    return Reading(text, "text", ordered=ordered, length=length)


def passing(text: str) -> bool:
    """Whether a failure may be over by now: it told of a time-out, or of trouble on its side."""
    return bool(_PASSING.search(text[:2_000])) and not forbidden(text)


def forbidden(text: str) -> bool:
    """Whether a failure was a refusal, which a second try does not change."""
    return bool(_FORBIDDEN.search(text[:2_000]))


def odd(value: Any, arguments: Mapping[str, Any]) -> list[str]:
    """The members of a result whose types cannot be: what was sent as text comes back as a
    number, what is measured comes as text."""
    if not isinstance(value, Mapping):
        return []
    return [
        name
        for name, inner in list(value.items())[:50]
        if _other_type(arguments.get(name), inner)
        or (str(name).lower() in _MEASURED and isinstance(inner, str) and _is_number(inner))
    ]


def elsewhere(value: Any, arguments: Mapping[str, Any]) -> tuple[str, str] | None:
    """(asked for, told of), where a result tells of another place than was asked for."""
    if not isinstance(value, Mapping):
        return None
    for name, given in arguments.items():
        told = value.get(name)
        if role(name, {}, set()) == "place" and isinstance(given, str) and isinstance(told, str):
            one, other = given.casefold().strip(), told.casefold().strip()
            if one and other and one not in other and other not in one:
                return given[:60], told[:60]
    return None


def _other_type(given: Any, told: Any) -> bool:
    if given is None or told is None:
        return False
    numbers = isinstance(given, int | float) and isinstance(told, int | float)
    return not numbers and type(given) is not type(told)


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"-?\d+(?:\.\d+)?", text.strip()))
