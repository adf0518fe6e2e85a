"""What lint says: one finding, and how a protocol takes a tool. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["refused", "ignored", "strict", "weak"]
"""A request would fail (400); accepted and not obeyed; strict mode would refuse; models stumble."""

Fix = Literal["", "strict", "gemini", "inline", "drop"]
"""Which rewrite of `rewrite.py` makes it good."""

Verdict = Literal["yes", "no", "partly", "unknown"]


@dataclass(frozen=True)
class Finding:
    """One thing to know about a tool.

    `message` is a sentence. `pointer` is a JSON pointer into the tool in our own form
    ("/parameters/properties/x", "/name"), "" for the whole tool. `protocol` and `family` (of
    models) are "" where it holds for all. `source` is an address or a document; `inferred` where
    nobody saw a real answer.
    """

    severity: Severity
    message: str
    pointer: str
    protocol: str = ""
    family: str = ""
    source: str = ""
    inferred: bool = False
    fix: Fix = ""


@dataclass(frozen=True)
class Said:
    """A verdict with a sentence that says why."""

    verdict: Verdict
    sentence: str


@dataclass(frozen=True)
class Accepted:
    """How a protocol takes a tool: as it is, in strict mode, forced, with images as results."""

    protocol: str
    plain: Said
    strict: Said
    forced: Said
    images: Said
