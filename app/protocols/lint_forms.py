"""A tool judged as a file in a protocol's own form has it, sent by whoever wrote that file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.core.tools import Tool
from app.protocols import openai_lint
from app.protocols.anthropic import lint as anthropic_lint
from app.protocols.gemini import lint as gemini_lint
from app.protocols.lint_rules import Finding, SentTool

EXTRA = "Anthropic API reference: Messages, tools"
ANTHROPIC_MEMBERS = (
    *("type", "name", "description", "input_schema", "strict", "eager_input_streaming"),
    *("input_examples", "defer_loading", "allowed_callers", "cache_control"),
)
UNCACHED = "https://github.com/Wei-Shaw/sub2api/issues/4990"
_EMPTY: Mapping[str, Any] = {"type": "object", "properties": {}}


def lint_form(tool: Tool, form: Mapping[str, Any], protocol: str) -> Iterator[Finding]:
    """What `protocol` refuses or ignores of the entry `form`; pointers are into our own form."""
    match protocol:
        case "anthropic":
            yield from _anthropic(form)
        case "openai_chat":
            if "type" not in form:
                message = 'OpenAI needs "type" of every tool: "function" or "custom".'
                yield Finding("refused", message, "", protocol, source=openai_lint.NO_SCHEMA)
            inner = form.get("custom", form.get("function", form))
            yield from _openai(tool, inner if isinstance(inner, Mapping) else {}, protocol)
        case "openai_responses":
            yield from _openai(tool, form, protocol)
        case "gemini":
            yield from gemini_lint.lint_form(form, _raw(form, "name"))


def _raw(form: Mapping[str, Any], key: str) -> str:
    """The text as the file has it: our own form may have a name that was made legal."""
    value = form.get(key)
    return value if isinstance(value, str) else ""


def _anthropic(form: Mapping[str, Any]) -> Iterator[Finding]:
    for key in form:
        if key not in ANTHROPIC_MEMBERS:
            message = f"Anthropic knows no member {str(key)[:80]!r} of a tool."
            yield Finding("refused", message, "", "anthropic", source=EXTRA)
    if form.get("defer_loading") and form.get("cache_control"):
        message = (
            "Anthropic caches no tool that is deferred: leave out cache_control or defer_loading."
        )
        yield Finding("refused", message, "", "anthropic", source=UNCACHED)
    name, about = _raw(form, "name"), _raw(form, "description")
    tool = SentTool(name, about, form.get("input_schema"), bool(form.get("strict")))
    yield from anthropic_lint.lint_tool(tool)


def _openai(tool: Tool, form: Mapping[str, Any], protocol: str) -> Iterator[Finding]:
    """Where Responses is told nothing of strict it makes a schema strict by itself."""
    schema = form.get("parameters")
    schema = _EMPTY if schema is None else schema
    strict, freeform = form.get("strict") is True, tool.format is not None
    name, about = _raw(form, "name"), _raw(form, "description")
    yield from openai_lint.lint_tool(SentTool(name, about, schema, strict, freeform), protocol)
