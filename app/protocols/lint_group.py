"""What is wrong with several tools in one request: their number, their names, strict ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from app.core import provider_limits as limits
from app.core.tools import Tool
from app.protocols.anthropic import lint as anthropic
from app.protocols.gemini import lint as gemini
from app.protocols.lint_rules import Finding, Severity, nodes
from app.protocols.lint_weak import too_many, twins

TWICE = "https://github.com/continuedev/continue/issues/10200"
TOO_MANY_OPENAI = "https://github.com/vishalmysore/Tools4AI/issues/16"
TOO_MANY_GEMINI = "https://github.com/google-gemini/gemini-cli/issues/19083"
OPTIONAL = "https://github.com/elie222/inbox-zero/issues/2323"
FORCED = "https://github.com/googleapis/python-genai/issues/2133"

MANY_LETTERS = 3000
"""Between what was taken and what was refused there: 240 values of one word, and of two."""
_REFUSES_TWINS = ("anthropic", "openai_responses", "gemini")


def of_group(tools: Sequence[Tool], protocol: str) -> list[Finding]:
    """The findings about `tools` in one request by `protocol`; their own are not among them."""
    result = [*_twice(tools, protocol), *_limits(tools, protocol)]
    result += [replace(finding, protocol=protocol) for finding in too_many(tools)]
    return [*result, *(replace(finding, protocol=protocol) for finding in twins(tools))]


def _twice(tools: Sequence[Tool], protocol: str) -> Iterator[Finding]:
    names = [tool.name for tool in tools]
    for name in sorted({name for name in names if names.count(name) > 1}):
        is_refused = protocol in _REFUSES_TWINS
        message = f"The name {name!r} stands twice: " + (
            "the request is refused." if is_refused else "nobody can tell which is called."
        )
        severity: Severity = "refused" if is_refused else "weak"
        yield Finding(severity, message, "/name", protocol, source=TWICE, inferred=True)


def _limits(tools: Sequence[Tool], protocol: str) -> Iterator[Finding]:
    match protocol:
        case "openai_chat" | "openai_responses":
            most = limits.OPENAI_MOST_TOOLS
            yield from _too_many(tools, most, "OpenAI", protocol, TOO_MANY_OPENAI)
        case "gemini":
            most = limits.GEMINI_MOST_TOOLS
            yield from _too_many(tools, most, "Gemini", protocol, TOO_MANY_GEMINI)
            yield from _states(tools)
        case "anthropic":
            yield from _strict_ones(tools)


def _too_many(
    tools: Sequence[Tool], most: int, who: str, protocol: str, source: str
) -> Iterator[Finding]:
    if len(tools) > most:
        message = f"{who} takes {most} tools in a request, not {len(tools)}."
        yield Finding("refused", message, "", protocol, source=source)


def _strict_ones(tools: Sequence[Tool]) -> Iterator[Finding]:
    strict = [tool for tool in tools if tool.strict]
    counts = [anthropic.count_parameters(nodes(tool.parameters)) for tool in strict]
    optional, unions = sum(count for count, _ in counts), sum(count for _, count in counts)
    for count, most, what, source in (
        (len(strict), limits.ANTHROPIC_MOST_STRICT, "strict tools", anthropic.MANY),
        (
            optional,
            limits.ANTHROPIC_MOST_OPTIONAL,
            "optional parameters of strict tools",
            OPTIONAL,
        ),
        (
            unions,
            limits.ANTHROPIC_MOST_UNIONS,
            "parameters of several types in strict tools",
            anthropic.LIMITS,
        ),
    ):
        if count > most:
            message = f"Anthropic takes {most} {what} in a request, not {count}."
            yield Finding("refused", message, "/strict", "anthropic", source=source)


def _states(tools: Sequence[Tool]) -> Iterator[Finding]:
    """What Gemini compiles of all the schemas together; a tool that is too large by itself has a
    finding of its own."""
    counts = [limits.items_in_all(tool.parameters) for tool in tools]
    count, most = sum(counts), limits.GEMINI_MOST_ITEMS
    if count > most and max(counts) <= most:
        message = f"Gemini takes lists of about {most} items in all in a request, not {count:,}: "
        message += "lower their maxItems, or leave some out."
        yield Finding("refused", message, "", "gemini", source=gemini.STATES, inferred=True)
    letters = sum(
        len(value)
        for tool in tools
        for node in nodes(tool.parameters)
        for value in gemini.texts_of(node.keys.get("enum"))
    )
    if letters > MANY_LETTERS:
        message = f"The enums of these tools have {letters:,} letters: Gemini may refuse a forced "
        message += "choice (mode ANY) among them as too complex; allow fewer tools or shorten them."
        yield Finding("weak", message, "", "gemini", source=FORCED, inferred=True)
