"""What each provider will refuse or ignore of a tool, and where models stumble. Pure.

Knows no encoder: the tables say what each sends, and tests/simulator proves that they agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.core.settings import PROTOCOLS
from app.core.tools import Tool
from app.protocols import lint_forms, openai_lint
from app.protocols.anthropic import lint as anthropic_lint
from app.protocols.gemini import lint as gemini_lint
from app.protocols.lint_accepted import accepted_by
from app.protocols.lint_finding import Accepted, Finding, Fix, Said, Severity, Verdict
from app.protocols.lint_group import of_group
from app.protocols.lint_rules import Sent
from app.protocols.lint_weak import weak_spots
from app.protocols.ollama import lint as ollama_lint

__all__ = [
    "Accepted",
    "Finding",
    "Fix",
    "Said",
    "Severity",
    "Verdict",
    "accepted",
    "findings",
    "gathered",
    "of_group",
    "weak_spots",
]

_WORST: tuple[Severity, ...] = ("refused", "ignored", "strict", "weak")
_NO_CUSTOM = "docs/wire.md, section 1: there are no free-form tools"
_CUSTOM_QUIRK = "docs/wire.md, section 2; the quirk custom_tools of a profile"
_EAGER = "https://platform.claude.com/docs/en/agents-and-tools/tool-use/fine-grained-tool-streaming"


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
    found: list[Finding] = []
    for protocol in protocols:
        if form is not None and protocol == form_protocol:
            found += lint_forms.found(tool, form, protocol)
        else:
            found += of_protocol(tool, protocol)
    found += weak_spots(tool)
    return sorted(dict.fromkeys(found), key=lambda one: _WORST.index(one.severity))


def gathered(found: Sequence[Finding]) -> list[Finding]:
    """The same said of several protocols as one finding, whose `protocol` names them all with
    commas; in the order of `found`. For a person who reads them together."""
    protocols: dict[Finding, list[str]] = {}
    for finding in found:
        protocols.setdefault(replace(finding, protocol=""), []).append(finding.protocol)
    return [replace(one, protocol=", ".join(names)) for one, names in protocols.items()]


def of_protocol(tool: Tool, protocol: str) -> Iterator[Finding]:
    """The findings of one protocol about the tool as our encoder sends it, no weak spots."""
    sent = Sent(
        tool.name,
        tool.description,
        tool.parameters,
        tool.strict,
        tool.format is not None,
        tool.eager,
    )
    if tool.eager and protocol != "anthropic":
        said = "Arguments as they are written, unchecked, can be asked of Anthropic alone."
        yield Finding("ignored", said, "/eager", protocol, source=_EAGER)
    match protocol:
        case "anthropic":
            yield from _without_custom(sent, protocol, "Anthropic", _NO_CUSTOM)
            yield from anthropic_lint.found(sent)
        case "openai_chat":
            who = "A server without the quirk custom_tools"
            yield from _without_custom(sent, protocol, who, _CUSTOM_QUIRK)
            yield from openai_lint.found(sent, protocol)
        case "openai_responses":
            yield from openai_lint.found(sent, protocol)
        case "gemini":
            yield from gemini_lint.found(sent)
        case "ollama":
            yield from ollama_lint.found(sent)


def _without_custom(sent: Sent, protocol: str, who: str, source: str) -> Iterator[Finding]:
    if sent.freeform:
        said = f"{who} has no free-form tools: it is sent a tool with one text."
        yield Finding("ignored", said, "/format", protocol, source=source)


def accepted(tool: Tool) -> list[Accepted]:
    """A row for each protocol: the matrix "Accepted by"."""
    plain = replace(tool, strict=False)
    return [accepted_by(one, list(of_protocol(plain, one)), tool) for one in PROTOCOLS]
