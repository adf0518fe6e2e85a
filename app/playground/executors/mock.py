"""A predefined result, with the call's arguments inserted (`executor.py`). Runs nothing.

config has at least one of these; if several, the first that applies is used:
`cases`: [{"when": {POINTER: test}, "result", "is_error"}], the first whose tests all pass; a test
is a value, or {"equals" | "prefix" | "glob" | "one_of": ...};
`sequence`: [{"result", "is_error"}], one after the other in a session; at its end the last is
repeated, or with `cycle` it starts again. A call that runs again gets the same result;
`sample`: true, a value made from `output_schema`, the same for the same arguments;
`result` with `is_error`. In addition `delay_s`, and `failure_rate` from 0 to 1: for this share of
calls the result is the error `failure`; idempotency keys determine which calls.
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from playground.core.arguments import fits
from playground.core.events import Problem
from playground.core.json_values import load_json
from playground.core.tools import Content, ResultKind, Tool, ToolResult, text_result
from playground.executors.executor import (
    CallCheck,
    Invocation,
    ReportProgress,
    as_json,
    empty_placeholders,
    fill_template,
    parse_arguments,
)
from playground.executors.output_schema import output_mismatch
from playground.net.threads import run_in_daemon
from playground.schema.satisfy import sample_value

JSON = "application/json"
_STEPS = 10
_MOST_SESSIONS = 1_000
FAILURE = "The mock failed, as its failure rate asks for; try again."
NO_CASE = "No case of this mock matches these arguments, and it has no other result."


class Mock:
    """Its only state is each session's position in its sequences."""

    def __init__(self) -> None:
        self._places: dict[str, dict[tuple[str, str], int]] = {}

    async def run(self, invocation: Invocation, report: ReportProgress) -> ToolResult:
        """The configured result, marked `staged`, after `delay_s` seconds of progress."""
        config = invocation.tool.config
        await _delay(float(config.get("delay_s", 0)), report)
        if is_random_failure(float(config.get("failure_rate", 0)), invocation.idempotency_key):
            return _staged_result(str(config.get("failure", FAILURE)), failed=True)
        chosen = self._choose_result(config, invocation)
        if chosen is None:
            return _staged_result(NO_CASE, failed=True)
        arguments = parse_arguments(invocation.arguments)
        if chosen.get("sample", False):
            result = await run_in_daemon(_sample, config, arguments)
        else:
            result = fill_template(
                chosen.get("result"), arguments, _known_arguments(invocation.tool)
            )
        staged = _staged_result(result, failed=bool(chosen.get("is_error", False)))
        return replace(staged, mismatch=await self._mismatch(invocation, staged))

    async def _mismatch(self, invocation: Invocation, staged: ToolResult) -> str:
        """How the result violates the output schema, "" if it does not. The text may be meant
        literally or as JSON."""
        text = staged.text
        try:
            value = load_json(text)
        except ValueError:
            return await output_mismatch(invocation, staged, text)
        mismatch = await output_mismatch(invocation, staged, value)
        is_text = staged.content[0].media_type != JSON
        return "" if is_text and not await output_mismatch(invocation, staged, text) else mismatch

    async def check_before_run(self, session: str, tool: Tool, arguments: str) -> CallCheck:
        """Adds a note on placeholders of the result that the call leaves empty."""
        try:
            empty = _empty_placeholders(tool, arguments)
        except ValueError:  # invalid arguments, which the check reports
            empty = []
        verb = "is" if len(empty) == 1 else "are"
        named = ", ".join(empty[:5]) + (", …" if len(empty) > 5 else "")
        sentence = f"The result uses arguments that the call left out: {named} {verb} empty."
        problems = (Problem("note", sentence),) if empty else ()
        return CallCheck(problems=problems, parallel_safe=tool.parallel_safe)

    def _choose_result(self, config: Mapping[str, Any], invocation: Invocation) -> Any:
        """The result to return: {"result", "is_error"}, or {"sample": true}, or None."""
        if (case := _case(config, invocation.arguments)) is not None:
            return case
        if sequence := config.get("sequence"):
            return self._next(sequence, bool(config.get("cycle", False)), invocation)
        if config.get("sample", False):
            return {"sample": True}
        return config if "result" in config else None

    def _next(self, sequence: Sequence[Any], cycle: bool, invocation: Invocation) -> Any:
        places = self._places.setdefault(invocation.session, {})
        self._places[invocation.session] = self._places.pop(invocation.session)  # now the latest
        if len(self._places) > _MOST_SESSIONS:
            del self._places[next(iter(self._places))]
        name = invocation.tool.name
        so_far = sum(tool == name for tool, _ in places)
        place = places.setdefault((name, invocation.call), so_far)
        return sequence[place % len(sequence) if cycle else min(place, len(sequence) - 1)]


def _sample(config: Mapping[str, Any], arguments: Mapping[str, Any]) -> Any:
    """A value for the output schema, the same for the same arguments."""
    seed = zlib.crc32(as_json(arguments).encode()) | 1
    return sample_value(config.get("output_schema", {}), seed=seed)


def _case(config: Mapping[str, Any], arguments: str) -> Any:
    """The first case that matches, or None."""
    return next((case for case in config.get("cases", ()) if fits(case["when"], arguments)), None)


def _empty_placeholders(tool: Tool, arguments: str) -> list[str]:
    """The placeholders that are empty in a call's result; for a sequence, in any of its results."""
    given, known = parse_arguments(arguments), _known_arguments(tool)
    if not known or not isinstance(given, dict):
        return []
    chosen = _case(tool.config, arguments)
    several = tool.config.get("sequence") if chosen is None else None
    if chosen is None and not several and tool.config.get("sample", False):
        return []
    return empty_placeholders(
        list(several or [(chosen or tool.config).get("result")]), given, known
    )


def _known_arguments(tool: Tool) -> Collection[str]:
    properties = tool.parameters.get("properties")
    return properties if isinstance(properties, Mapping) else ()


def is_random_failure(rate: float, key: str) -> bool:
    """Whether the call of this idempotency key belongs to the share `rate` that fails."""
    dice = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4]) / 2**32
    return dice < rate


def _staged_result(result: Any, *, failed: bool) -> ToolResult:
    kind: ResultKind = "failed" if failed else ""
    if isinstance(result, str):
        return replace(text_result(result, is_error=failed, kind=kind), staged=True)
    piece = Content(text=as_json(result), media_type=JSON)
    return ToolResult((piece,), is_error=failed, kind=kind, staged=True)


async def _delay(delay_s: float, report: ReportProgress) -> None:
    for step in range(_STEPS if delay_s > 0 else 0):
        report(f"{delay_s * step / _STEPS:.1f} of {delay_s:g} s", step / _STEPS)
        await asyncio.sleep(delay_s / _STEPS)
