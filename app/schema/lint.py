"""What each provider will refuse or ignore of a tool, and where models stumble. Pure.

Knows no encoder: the tables say what each sends, and tests/simulator proves that they agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.core.settings import PROTOCOLS
from app.core.tools import Tool
from app.schema.lint_finding import Accepted, Finding, Fix, Said, Severity, Verdict

__all__ = [
    "Accepted",
    "Finding",
    "Fix",
    "Said",
    "Severity",
    "Verdict",
    "accepted",
    "findings",
    "of_group",
    "weak_spots",
]


def findings(
    tool: Tool,
    protocols: Sequence[str] = PROTOCOLS,
    *,
    form: Mapping[str, Any] | None = None,
    form_protocol: str = "",
) -> list[Finding]:
    """What is refused, ignored, or would be in strict mode, and the weak spots, worst first.

    `form` is the entry as the file of `form_protocol` has it: for that protocol it is judged as
    it stands, for the others the tool as our encoder sends it.
    """
    return weak_spots(tool)


def weak_spots(tool: Tool) -> list[Finding]:
    """Where models stumble, whatever the provider."""
    return []


def of_group(tools: Sequence[Tool], protocol: str) -> list[Finding]:
    """What is wrong with these tools in one request."""
    return []


def accepted(tool: Tool) -> list[Accepted]:
    """A row for each protocol: the matrix "Accepted by"."""
    unknown = Said("unknown", "Not judged yet.")
    return [Accepted(name, unknown, unknown, unknown, unknown) for name in PROTOCOLS]
