"""Compares the arguments of a call with what is expected of them, and says what differs.

Numbers are compared by their exact value, whatever their digits: 1 is 1.0, and 12345678901234567890
is no other number. `true` is not 1, and "1" is not 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from app.core.arguments import ABSENT, equal, pointer_step, values_of
from app.evaluation.spec import ArgumentMatch
from app.schema.strict_json import read_arguments
from app.schema.validate import cut, schema_problems

_MOST_SHOWN = 200
_UNSEEN = re.compile(r"[ ,./\-_*^]")
"""What `loose` leaves out of a text, as BFCL does."""


def differences(match: ArgumentMatch, raw: str) -> list[str]:
    """What of the arguments `raw` (JSON text) does not fit, each as half a sentence; [] where all
    fits."""
    arguments = read_arguments(raw)
    if arguments.value is None:
        return [f"they are no sound JSON object ({arguments.problems[0].message})"]
    if match.kind == "schema":
        problems = schema_problems(match.value, arguments.value)
        return [problem.message.rstrip(".") for problem in problems]
    value = values_of(raw) if raw.strip() not in ("", "null") else {}
    comparison = _Comparison(match.loose)
    match match.kind, match.value:
        case "any_of", list(options):
            each = [list(comparison.differing(option, value)) for option in options]
            return min(each, key=len)
        case "any_of", options:
            return list(comparison.outside(options, match.optional, value))
    return list(comparison.differing(match.value, value, subset=match.kind == "subset"))


class _Comparison:
    """`loose` as in ArgumentMatch. Numbers of the values that are compared are Decimals."""

    def __init__(self, loose: bool) -> None:
        self._loose = loose

    def differing(
        self, wanted: Any, value: Any, place: str = "", *, subset: bool = False
    ) -> Iterator[str]:
        """Where `value` is not as `wanted`; with `subset` objects may hold more at any depth."""
        match wanted, value:
            case dict(), dict():
                for name in wanted:
                    here = f"{place}/{pointer_step(name)}"
                    if name in value:
                        yield from self.differing(wanted[name], value[name], here, subset=subset)
                    else:
                        yield f"{here} is missing, and should be {shown(wanted[name])}"
                for name in value.keys() - wanted.keys() if not subset else ():
                    here = f"{place}/{pointer_step(name)}"
                    yield f"{here} is {shown(value[name])}, and should not be there"
            case list(), list() if len(wanted) == len(value):
                for number, (item, other) in enumerate(zip(wanted, value, strict=True)):
                    yield from self.differing(item, other, f"{place}/{number}", subset=subset)
            case _ if not self._same(wanted, value):
                yield f"{place or 'the whole'} is {shown(value)}, and should be {shown(wanted)}"

    def outside(
        self, options: Mapping[str, Sequence[Any]], optional: Sequence[str], value: dict[str, Any]
    ) -> Iterator[str]:
        """Where a parameter is none of its options, is missing, or has none."""
        for name, several in options.items():
            here, present = f"/{pointer_step(name)}", value.get(name, ABSENT)
            words = ", ".join(map(shown, several))
            if present is ABSENT and name not in optional:
                yield f"{here} is missing, and should be {_one_of(words, len(several))}"
            elif present is not ABSENT and not any(
                self._fits(option, present) for option in several
            ):
                should = _one_of(words, len(several))
                yield f"{here} is {shown(present)}, and should be {should}"
        for name in value.keys() - options.keys():
            yield f"/{pointer_step(name)} is {shown(value[name])}, and should not be there"

    def _fits(self, option: Any, value: Any) -> bool:
        return next(self.differing(option, value), None) is None

    def _same(self, wanted: Any, value: Any) -> bool:
        if self._loose and isinstance(wanted, str) and isinstance(value, str):
            return _loosened(wanted) == _loosened(value)
        return equal(wanted, value)


def _loosened(text: str) -> str:
    return _UNSEEN.sub("", text).lower().replace("'", '"')


def _one_of(words: str, count: int) -> str:
    return words if count == 1 else f"one of {cut(words, _MOST_SHOWN)}"


def shown(value: Any) -> str:
    """A value as JSON for a sentence, cut where it is long; Decimals with all their digits."""
    return cut(_json(value), _MOST_SHOWN)


def _json(value: Any) -> str:
    match value:
        case Decimal():
            return str(value)
        case Mapping():
            members = (f"{json.dumps(n, ensure_ascii=False)}: {_json(value[n])}" for n in value)
            return f"{{{', '.join(members)}}}"
        case list() | tuple():
            return f"[{', '.join(map(_json, value))}]"
    return json.dumps(value, ensure_ascii=False)
