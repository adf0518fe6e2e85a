"""An answer written beforehand, with the call's arguments put in. Runs nothing.

config: {"result", "is_error", "delay_s"}. `result` is a text or any JSON; in its strings
`{{ args.city }}` and `{{ args.places.0.name }}` stand for arguments, `{{ args }}` for all. A
string that is one such place and nothing else becomes the argument itself, number or object.
A place the call does not fill stays as it is written. Nothing else is evaluated.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from typing import Any

from app.core.tools import Tool, ToolResult, text_result
from app.executors.executor import Checked, Invocation, Report

_PLACE = re.compile(r"\{\{\s*args((?:\.[^\s.{}]+)*)\s*\}\}")
_STEPS = 10


class _Digits(str):
    """A number exactly as the model wrote it."""


async def run(invocation: Invocation, report: Report) -> ToolResult:
    """The result as configured, marked `staged`, after `delay_s` seconds of progress."""
    config = invocation.tool.config
    await _delay(float(config.get("delay_s", 0)), report)
    arguments = json.loads(invocation.arguments, parse_int=_Digits, parse_float=_Digits)
    filled = _filled(config.get("result"), arguments)
    text = filled if isinstance(filled, str) else _json(filled)
    failed = bool(config.get("is_error", False))
    return replace(text_result(text, is_error=failed, kind="failed" if failed else ""), staged=True)


async def checked(session: str, tool: Tool, arguments: str) -> Checked:
    return Checked(parallel_safe=tool.parallel_safe)


async def _delay(delay_s: float, report: Report) -> None:
    for step in range(_STEPS if delay_s > 0 else 0):
        report(f"{delay_s * step / _STEPS:.1f} of {delay_s:g} s", step / _STEPS)
        await asyncio.sleep(delay_s / _STEPS)


def _filled(template: Any, arguments: dict[str, Any]) -> Any:
    match template:
        case str():
            whole = _PLACE.fullmatch(template)
            if whole is not None:
                return _at(arguments, whole)
            return _PLACE.sub(lambda place: _text(_at(arguments, place)), template)
        case dict():
            return {key: _filled(item, arguments) for key, item in template.items()}
        case list():
            return [_filled(item, arguments) for item in template]
    return template


def _at(arguments: dict[str, Any], place: re.Match[str]) -> Any:
    """The argument a place names, or the place itself as it is written."""
    here: Any = arguments
    for step in place[1].split(".")[1:]:
        match here:
            case dict() if step in here:
                here = here[step]
            case list() if step.isascii() and step.isdigit() and int(step[:9]) < len(here):
                here = here[int(step[:9])]
            case _:
                return place[0]
    return here


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    """Compact JSON in which numbers keep their digits."""
    match value:
        case _Digits():
            return str(value)
        case dict():
            members = (f"{json.dumps(k, ensure_ascii=False)}: {_json(v)}" for k, v in value.items())
            return "{" + ", ".join(members) + "}"
        case list():
            return "[" + ", ".join(_json(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)
