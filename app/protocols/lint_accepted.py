"""The matrix "Accepted by": what findings and a protocol's own limits come to, in four words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.core.tools import Tool
from app.protocols.lint_finding import Accepted, Finding, Said

_FORCED: Mapping[str, Said] = {
    "anthropic": Said("yes", "tool_choice names it. Not while the model thinks."),
    "openai_chat": Said("yes", "tool_choice names it; a server like it may not know the word."),
    "openai_responses": Said("yes", "tool_choice names it."),
    "gemini": Said("yes", "Mode ANY with this one name allowed."),
    "ollama": Said(
        "no", "Ollama has no tool choice: the tool is sent alone, and may not be called."
    ),
}
_IMAGES: Mapping[str, Said] = {
    "anthropic": Said("yes", "A result may hold images, but not one that failed."),
    "openai_chat": Said("partly", "OpenAI takes images in results; many servers like it do not."),
    "openai_responses": Said("yes", "A result may hold images."),
    "gemini": Said("partly", "Gemini 3 and later take images in results; others get them after."),
    "ollama": Said("yes", "Images stand beside the result, for models that see."),
}
_NO_STRICT: Mapping[str, Said] = {
    "gemini": Said("partly", "strict is sent as mode VALIDATED, which holds for all tools."),
    "ollama": Said("no", "Ollama has no strict mode."),
}


def accepted_by(protocol: str, found: Sequence[Finding], tool: Tool) -> Accepted:
    """The row of one protocol; `found` is what lint finds of the tool with strict mode off."""
    plain, strict = _plain(found), _NO_STRICT.get(protocol) or _strict(found, tool)
    forced = _FORCED[protocol]
    if plain.verdict == "no":
        forced = plain
        strict = plain if strict.verdict == "yes" else strict
    return Accepted(protocol, plain, strict, forced, _IMAGES[protocol])


def _plain(found: Sequence[Finding]) -> Said:
    for finding in found:
        if finding.severity == "refused":
            return Said("no", finding.message)
    for finding in found:
        if finding.severity == "ignored":
            return Said("partly", finding.message)
    return Said("yes", "The request is taken as it is.")


def _strict(found: Sequence[Finding], tool: Tool) -> Said:
    if tool.format is not None:
        return Said("no", "A free-form tool has no schema to be strict about.")
    against = [finding for finding in found if finding.severity == "strict"]
    if not against:
        return Said("yes", "Strict mode takes the schema.")
    fixed = all(one.fix for one in against)
    return Said("partly" if fixed else "no", against[0].message)
