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
from app.protocols.lint_group import of_group
from app.protocols.lint_rules import (
    Assessment,
    Finding,
    Fix,
    SentTool,
    Severity,
    ToolAcceptance,
    Verdict,
)
from app.protocols.lint_weak import weak_spots
from app.protocols.ollama import lint as ollama_lint

__all__ = [
    "Assessment",
    "Finding",
    "Fix",
    "Severity",
    "ToolAcceptance",
    "Verdict",
    "acceptance_matrix",
    "findings",
    "merge_by_protocol",
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
    result: list[Finding] = []
    for protocol in protocols:
        if form is not None and protocol == form_protocol:
            result += lint_forms.lint_form(tool, form, protocol)
        else:
            result += of_protocol(tool, protocol)
    result += weak_spots(tool)
    return sorted(dict.fromkeys(result), key=lambda finding: _WORST.index(finding.severity))


def merge_by_protocol(all_findings: Sequence[Finding]) -> list[Finding]:
    """The same said of several protocols as one finding, whose `protocol` names them all with
    commas; in the order of `found`. For a person who reads them together."""
    protocols: dict[Finding, list[str]] = {}
    for finding in all_findings:
        protocols.setdefault(replace(finding, protocol=""), []).append(finding.protocol)
    return [replace(finding, protocol=", ".join(names)) for finding, names in protocols.items()]


def of_protocol(tool: Tool, protocol: str) -> Iterator[Finding]:
    """The findings of one protocol about the tool as our encoder sends it, no weak spots."""
    sent_tool = SentTool(
        tool.name,
        tool.description,
        tool.parameters,
        tool.strict,
        tool.format is not None,
        tool.eager,
    )
    if tool.eager and protocol != "anthropic":
        message = "Arguments as they are written, unchecked, can be asked of Anthropic alone."
        yield Finding("ignored", message, "/eager", protocol, source=_EAGER)
    match protocol:
        case "anthropic":
            yield from _without_custom(sent_tool, protocol, "Anthropic", _NO_CUSTOM)
            yield from anthropic_lint.lint_tool(sent_tool)
        case "openai_chat":
            who = "A server without the quirk custom_tools"
            yield from _without_custom(sent_tool, protocol, who, _CUSTOM_QUIRK)
            yield from openai_lint.lint_tool(sent_tool, protocol)
        case "openai_responses":
            yield from openai_lint.lint_tool(sent_tool, protocol)
        case "gemini":
            yield from gemini_lint.lint_tool(sent_tool)
        case "ollama":
            yield from ollama_lint.lint_tool(sent_tool)


def _without_custom(tool: SentTool, protocol: str, who: str, source: str) -> Iterator[Finding]:
    if tool.freeform:
        message = f"{who} has no free-form tools: it is sent a tool with one text."
        yield Finding("ignored", message, "/format", protocol, source=source)


def acceptance_matrix(tool: Tool) -> list[ToolAcceptance]:
    """A row for each protocol: the matrix "Accepted by"."""
    plain = replace(tool, strict=False)
    return [
        acceptance(protocol, list(of_protocol(plain, protocol)), tool) for protocol in PROTOCOLS
    ]


# The matrix "Accepted by": what findings and a protocol's own limits come to, in four words.


_FORCED: Mapping[str, Assessment] = {
    "anthropic": Assessment("yes", "tool_choice names it. Not while the model thinks."),
    "openai_chat": Assessment(
        "yes", "tool_choice names it; a server like it may not know the word."
    ),
    "openai_responses": Assessment("yes", "tool_choice names it."),
    "gemini": Assessment("yes", "Mode ANY with this one name allowed."),
    "ollama": Assessment(
        "no", "Ollama has no tool choice: the tool is sent alone, and may not be called."
    ),
}
_IMAGES: Mapping[str, Assessment] = {
    "anthropic": Assessment("yes", "A result may hold images, but not one that failed."),
    "openai_chat": Assessment(
        "partly", "OpenAI takes images in results; many servers like it do not."
    ),
    "openai_responses": Assessment("yes", "A result may hold images."),
    "gemini": Assessment(
        "partly", "Gemini 3 and later take images in results; others get them after."
    ),
    "ollama": Assessment("yes", "Images stand beside the result, for models that see."),
}
_NO_STRICT: Mapping[str, Assessment] = {
    "gemini": Assessment("partly", "strict is sent as mode VALIDATED, which holds for all tools."),
    "ollama": Assessment("no", "Ollama has no strict mode."),
}


def acceptance(protocol: str, all_findings: Sequence[Finding], tool: Tool) -> ToolAcceptance:
    """The row of one protocol; `found` is what lint finds of the tool with strict mode off."""
    plain, strict = _plain(all_findings), _NO_STRICT.get(protocol) or _strict(all_findings, tool)
    forced = _FORCED[protocol]
    if plain.verdict == "no":
        forced = plain
        strict = plain if strict.verdict == "yes" else strict
    return ToolAcceptance(protocol, plain, strict, forced, _IMAGES[protocol])


def _plain(all_findings: Sequence[Finding]) -> Assessment:
    for finding in all_findings:
        if finding.severity == "refused":
            return Assessment("no", finding.message)
    for finding in all_findings:
        if finding.severity == "ignored":
            return Assessment("partly", finding.message)
    return Assessment("yes", "The request is taken as it is.")


def _strict(all_findings: Sequence[Finding], tool: Tool) -> Assessment:
    if tool.format is not None:
        return Assessment("no", "A free-form tool has no schema to be strict about.")
    against = [finding for finding in all_findings if finding.severity == "strict"]
    if not against:
        return Assessment("yes", "Strict mode takes the schema.")
    fixable = all(finding.fix for finding in against)
    return Assessment("partly" if fixable else "no", against[0].message)
