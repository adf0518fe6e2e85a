"""Python that a person typed into the page, in an interpreter that can reach nothing.

pydantic-monty (the extra `sandbox`) runs it in a process of its own: a subset of Python, with
limits on time, memory, recursion and output. No files, no network, no environment, no packages,
of the standard library only what it brings (json, re, math, datetime, ...). Numbers are its own:
one with more digits than a float has is rounded. A child of ours (`typed_code.py`) talks to it,
for what it returns may be far larger than its limit: only a result within our cap comes here.
config: {"code", "function"}. The function is called with the arguments by name; without
`function` it is the one named like the tool, or the only one. What it prints is progress. A text
is the result as it is, bytes of an image are an image, everything else is JSON.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sysconfig
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from app.core.errors import BadInput
from app.core.tools import Tool, ToolResult, text_result
from app.executors.executor import LONGEST_S, Checked, Invocation, Report

MISSING = (
    "Python typed in the page needs the sandbox, which is not installed: "
    "pip install 'tool-playground[sandbox]', then start the program again."
)
MAX_MEMORY = 256 << 20
MAX_DEPTH = 400
# The limit of all executors ends the process before, and can be put off; these are behind it.
_LIMITS = {
    "max_feed_duration_secs": LONGEST_S,
    "max_total_sleep_secs": LONGEST_S,
    "max_memory": MAX_MEMORY,
    "max_recursion_depth": MAX_DEPTH,
}
_FUNCTION = re.compile(r"^(async +)?def +(\w+)", re.M)
_CHILD = Path(__file__).with_name("typed_code.py")

InChild = Callable[[Invocation, Report], Awaitable[ToolResult]]
"""Runs a function of a file in a child process, as `python.run` does."""


async def run(invocation: Invocation, report: Report, in_child: InChild) -> ToolResult:
    """Run the function; cancelled, it ends the child with its interpreter and raises on."""
    try:
        import pydantic_monty as monty
    except ImportError:
        return _failed(MISSING)
    try:
        name, waits = _function(invocation.tool)
    except BadInput as error:
        return _failed(str(error))
    arguments = {
        "code": invocation.tool.config["code"],
        "name": name,
        "waits": waits,
        "arguments": invocation.arguments,
        "limits": _LIMITS,
        "site": str(Path(monty.__file__).parent.parent),
        "binary": _binary(),
    }
    config = {"file": str(_CHILD), "function": "call"}
    ours = Tool(invocation.tool.name, answered_by="python", config=config)
    text = json.dumps(arguments)
    return await in_child(replace(invocation, tool=ours, arguments=text, code=""), report)


async def checked(session: str, tool: Tool, arguments: str) -> Checked:
    """The code is in the tool itself, and so in what is decided on."""
    return Checked(parallel_safe=tool.parallel_safe)


def _function(tool: Tool) -> tuple[str, bool]:
    """The name of the function to call, and whether it is to be awaited. BadInput for none."""
    found = {match[2]: bool(match[1]) for match in _FUNCTION.finditer(str(tool.config["code"]))}
    wanted = str(tool.config.get("function", ""))
    name = wanted or (tool.name if tool.name in found else next(iter(found), ""))
    if name not in found or (not wanted and name != tool.name and len(found) > 1):
        raise BadInput(
            f"The code has no function {wanted or tool.name}; it has: {', '.join(found)}. Name one "
            "of them in config.function."
        )
    return name, found[name]


def _binary() -> str:
    """The interpreter's program; a child without our site-packages would not find it."""
    beside = Path(sysconfig.get_path("scripts"), "monty")
    if "MONTY_BIN" not in os.environ and beside.is_file():
        return str(beside)
    return os.environ.get("MONTY_BIN") or shutil.which("monty") or str(beside)


def _failed(text: str) -> ToolResult:
    return text_result(text, is_error=True, kind="failed")
