"""Faults on purpose: what a person can make of a call's result, to see what the model does.

Some alter what the tool really returned (`runs`), the others stand in for it and run nothing. Both
stay in the log: `CallEnded.real` is what the tool returned, `CallEnded.result` what the model read.
Knows no clock: `slow` is waited for by who runs the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.core.tools import Content, ToolResult, text_result


@dataclass(frozen=True)
class Fault:
    """`title` is what it is called, `says` what it does, as a sentence."""

    name: str
    title: str
    runs: bool
    says: str


FAULTS: tuple[Fault, ...] = (
    Fault("timeout", "a time-out", False, "Nothing runs; the model reads that time was up."),
    Fault("error", "an error", False, "Nothing runs; the model reads that the tool failed."),
    Fault("empty", "an empty result", False, "Nothing runs; the model reads nothing at all."),
    Fault("very_large", "a very large result", False, "Nothing runs; the model reads 100 kB."),
    Fault("stale", "a stale result", False, "Nothing runs; the model reads an older result."),
    Fault("cut_json", "cut JSON", True, "The tool runs; the model reads half of its result."),
    Fault("wrong_type", "a wrong type", True, "The tool runs; its result changes its types."),
    Fault("slow", "a slow answer", True, "The tool runs; its result is held back for 10 s."),
    Fault("injection", "an injected instruction", True, "The tool runs; an order is added."),
)

SLOW_S = 10.0
"""How long a slow answer is held back, in seconds."""

LARGE = 100_000
"""Characters of a very large result."""


def fault(name: str) -> Fault | None:
    """The row of that name."""
    return next((one for one in FAULTS if one.name == name), None)


def staged(name: str, real: ToolResult | None, past: Sequence[ToolResult] = ()) -> ToolResult:
    """What the model reads. `real` is there for those that run; `past` are earlier results of the
    same tool, newest last."""
    result = real if real is not None else text_result("")
    match name:
        case "timeout":
            said = "The tool was stopped after 30 s, its limit."
            result = text_result(said, is_error=True, kind="timeout")
        case "error":
            result = text_result("The tool failed: internal error.", is_error=True, kind="failed")
        case "empty":
            result = ToolResult(())
        case "very_large":
            line = "All work and no play makes a very large result. "
            result = text_result((line * (LARGE // len(line) + 1))[:LARGE])
        case "stale":
            result = past[-1] if past else text_result("")
        case "cut_json":
            result = replace(result, content=tuple(_halved(piece) for piece in result.content))
        case _:
            pass
    return replace(result, staged=True)


def _halved(piece: Content) -> Content:
    return replace(piece, text=piece.text[: len(piece.text) // 2])
