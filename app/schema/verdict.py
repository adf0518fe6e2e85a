"""What is wrong with a call, all of it: its arguments, its tool, its schema. Decides nothing."""

from __future__ import annotations

from app.core.events import Problem
from app.core.tools import Tool
from app.schema.arguments import json_text, read_arguments
from app.schema.sentences import cut
from app.schema.validate import schema_problems


def verdict(tool: Tool | None, name: str, raw: str) -> tuple[Problem, ...]:
    """The problems of a call of `name` with the arguments `raw`; `tool` is None if unknown."""
    arguments = read_arguments(raw)
    if tool is None:
        said = (
            f"There is no tool named {cut(json_text(name), 80)}" if name else "The call has no name"
        )
        unknown = Problem("unknown_tool", f"{said}; answer by hand or deny.")
        return (unknown, *arguments.problems)
    if arguments.value is None:
        return arguments.problems
    return (*arguments.problems, *schema_problems(tool.parameters, arguments.value))
