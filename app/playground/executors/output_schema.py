"""Checks a tool's result against its output schema (`config.output_schema`), for the user: what the
model gets stays as it is."""

from __future__ import annotations

from typing import Any

from playground.core.tools import IdentityKey, ToolResult
from playground.executors.executor import Invocation
from playground.net.threads import run_in_daemon
from playground.schema import schema_checks
from playground.schema.schema_checks import Place, pointer
from playground.schema.validate import schema_problems

_MOST_SENTENCES = 3

NO_STRUCTURE = "The result has no structured content, which the tool's output schema requires."


async def output_mismatch(invocation: Invocation, result: ToolResult, value: Any) -> str:
    """Why `value`, which `result` is made of, does not satisfy the output schema of its tool: "" if
    it does, if there is no schema, or if the call failed."""
    schema = invocation.tool.config.get("output_schema")
    if schema is None or result.is_error:
        return ""
    return await run_in_daemon(_mismatch, invocation, schema, value)


def _mismatch(invocation: Invocation, schema: Any, value: Any) -> str:
    usable = schema_checks.cached_validator(IdentityKey(schema))
    if isinstance(usable, tuple):
        return f"The result was not checked: its output schema cannot be used. {usable[0]}"
    if schema_checks.steps(schema, value) > schema_checks.MAX_STEPS:
        return "The result was not checked: its output schema would take too long to check."
    problems = schema_problems(schema, value, _name)
    if not problems:
        return ""
    # The sentences show values: a key is masked before a value is cut.
    masked = schema_problems(schema, invocation.redact(value), _name)
    places = {problem.pointer for problem in problems}
    sentences = [problem.message for problem in masked if problem.pointer in places]
    more = len(problems) - _MOST_SENTENCES
    ending = f" And {more} more." if more > 0 else ""
    reasons = " ".join(sentences[:_MOST_SENTENCES])
    return f"The result does not satisfy the tool's output schema. {reasons}{ending}".strip()


def _name(place: Place) -> str:
    return pointer(place) or "The result"
