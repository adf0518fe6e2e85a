"""Python that a person typed into the page, in an interpreter that can reach nothing.

pydantic-monty (the extra `sandbox`) runs it in a process of its own: a subset of Python, with
limits on time, memory, recursion and output. No files, no network, no environment, no packages,
of the standard library only what it brings (json, re, math, datetime, ...). Numbers are its own:
one with more digits than a float has is rounded.
config: {"code", "function"}. The function is called with the arguments by name; without
`function` it is the one named like the tool, or the only one. What it prints is progress. A text
is the result as it is, bytes of an image are an image, everything else is JSON.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

from app.core.errors import BadInput
from app.core.tools import Content, Tool, ToolResult, text_result
from app.executors.executor import Checked, Invocation, Report
from app.executors.images import image
from app.executors.progress import Progress

MISSING = (
    "Python typed in the page needs the sandbox, which is not installed: "
    "pip install 'tool-playground[sandbox]', then start the program again."
)
MAX_MEMORY = 256 << 20
MAX_DEPTH = 400
_FUNCTION = re.compile(r"^(async +)?def +(\w+)", re.M)
_ODDLY_LONG = 400  # digits; more are no number that anybody meant
_ARGUMENTS = "_arguments_of_the_call"


class _Flooded(Exception):
    """It printed more than the cap."""


async def run(invocation: Invocation, report: Report) -> ToolResult:
    """Run the function; cancelled, it ends the interpreter and raises on."""
    try:
        import pydantic_monty as monty
    except ImportError:
        return _failed(MISSING)
    progress = Progress(report)
    try:
        name, waits = _function(invocation.tool)
        value = await _value(invocation, name, waits, progress)
    except (BadInput, monty.MontySyntaxError, monty.MontyRuntimeError) as error:
        return _failed(str(error) + _lines(error))
    except monty.MontyCrashedError:
        return _failed("The interpreter of the sandbox broke down over this code.")
    except _Flooded:
        said = f"The tool printed more than {invocation.max_output:,} bytes and was stopped."
        return text_result(said, is_error=True, kind="too_large")
    finally:
        progress.close()
    return _result(value)


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


async def _value(invocation: Invocation, name: str, waits: bool, progress: Progress) -> Any:
    """What the function returns."""
    import pydantic_monty as monty

    loop = asyncio.get_running_loop()
    flooded, printed = loop.create_future(), 0

    def take(text: str) -> None:
        nonlocal printed
        printed += len(text.encode("utf-8", "replace"))
        if printed <= invocation.max_output:
            progress.printed(text)
        elif not flooded.done():
            flooded.set_result(None)

    def told(stream: str, text: str) -> None:
        loop.call_soon_threadsafe(take, text)

    async def fed() -> Any:
        arguments = json.loads(invocation.arguments, parse_int=_integer)
        call = f"{name}(**{_ARGUMENTS})"
        # The interpreter is started with an empty environment: no key can be read through it.
        async with (
            monty.AsyncMonty(max_processes=1) as pool,
            pool.checkout(limits=_limits(invocation.timeout_s)) as session,
        ):
            await session.feed_run(str(invocation.tool.config["code"]), print_callback=told)
            return await session.feed_run(
                f"import asyncio\nasyncio.run({call})" if waits else call,
                inputs={_ARGUMENTS: arguments},
                print_callback=told,
            )

    running = asyncio.ensure_future(fed())
    try:
        await asyncio.wait({running, flooded}, return_when=asyncio.FIRST_COMPLETED)
        if flooded.done() and not running.done():
            raise _Flooded
        return await running
    finally:
        running.cancel()
        await asyncio.wait({running})


def _limits(timeout_s: float) -> Any:
    # The limit of all executors comes first and ends the process; this one is behind it.
    return {
        "max_feed_duration_secs": timeout_s + 1,
        "max_total_sleep_secs": timeout_s + 1,
        "max_memory": MAX_MEMORY,
        "max_recursion_depth": MAX_DEPTH,
    }


def _integer(word: str) -> int | float:
    return int(word) if len(word) <= _ODDLY_LONG else float(word)


def _lines(error: Exception) -> str:
    """The lines of the code on the way to `error`, innermost last; none of ours."""
    traceback = getattr(error, "traceback", None)
    if traceback is None:
        return ""
    frames = [frame for frame in traceback() if "-0>" in frame.filename][-20:]
    said = [
        f"\n  line {frame.line}, in {frame.function_name or 'the code'}: "
        f"{(frame.source_line or '').strip()}"
        for frame in frames
    ]
    return "".join(said)[:20_000]


def _result(value: Any) -> ToolResult:
    if isinstance(value, str):
        return text_result(value.encode("utf-8", "backslashreplace").decode("utf-8"))
    picture = image(value) if isinstance(value, bytes) else None
    if picture is not None:
        return ToolResult((picture,))
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        return _failed(f"The function returned what is no JSON: {error}.")
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return ToolResult((Content(text=text, media_type="application/json"),))


def _plain(value: Any) -> Any:
    """Instances as objects, sets as arrays; nothing is made of anything else."""
    attributes = getattr(value, "attributes", None)
    if isinstance(attributes, Mapping):
        return dict(attributes)
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    raise TypeError(f"a value of type {type(value).__name__}")


def _failed(text: str) -> ToolResult:
    return text_result(text, is_error=True, kind="failed")
