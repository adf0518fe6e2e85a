"""Limits of single vendors for tools, by the name of their profile (core/providers).

A vendor that speaks the protocol of another has its limits and its own: `tables_for` are both. Its
own row takes the place of the protocol's row on the same subject. What has no source is not here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from playground.core.errors import BadInput
from playground.core.providers import SHIPPED, ProviderName
from playground.core.settings import PROTOCOLS
from playground.protocols.registry import LIMITS
from playground.protocols.server import Citation
from playground.protocols.tool_limits import (
    Limit,
    LimitTable,
    Match,
    Node,
    SentTool,
    odd_name,
    too_many_tools,
)

_DASHED = re.compile(r"[a-zA-Z0-9_-]+")
_SHORT = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CLASS = re.compile(r"(?<!\\)(?:\\\\)*\\[dDwWsS]")
"""A class like \\d, outside of an escaped backslash."""
_OF_OPENAI = ("openai", "openai-responses", "azure", "openrouter", "litellm")
"""Profiles that serve the models of OpenAI, which rows with a `family` are about."""


def _lacks_properties(node: Node) -> Match:
    return "required" in node.keys and "properties" not in node.keys


def _requires_only(node: Node) -> Match:
    return node.led in ("anyOf", "oneOf", "allOf") and node.keys.keys() == {"required"}


def _patterns(node: Node) -> Iterator[str]:
    pattern = node.keys.get("pattern")
    if isinstance(pattern, str):
        yield pattern


def _has_loose_pattern(node: Node) -> Match:
    return any(not (text.startswith("^") and text.endswith("$")) for text in _patterns(node))


def _has_class(node: Node) -> Match:
    return any(map(_CLASS.search, _patterns(node)))


def _profile_table(
    profile: ProviderName,
    *,
    of_tool: tuple[Limit[SentTool], ...] = (),
    of_schema: tuple[Limit[Node], ...] = (),
    of_request: tuple[Limit[Sequence[SentTool]], ...] = (),
) -> LimitTable:
    provider = SHIPPED[profile]
    return LimitTable(
        provider.profile.protocol,
        provider.title,
        of_tool=of_tool,
        of_schema=of_schema,
        of_request=of_request,
        profile=profile,
    )


# fmt: off
_TABLES: tuple[LimitTable, ...] = (
    _profile_table("groq",
         of_schema=(
             Limit("needs `properties` with `required`, even if it is empty", _lacks_properties,
                   Citation("https://github.com/usestrix/strix/issues/1088"),
                   "invalid JSON schema for tool {tool.name}, function.parameters: 'required' "
                   "present but 'properties' is missing", subject="properties"),
         ),
         of_request=(
             too_many_tools(128, Citation("https://github.com/gsd-build/gsd-2/issues/4376"),
                            "'tools' : maximum number of items is 128"),
         )),
    _profile_table("xai",
         of_request=(
             too_many_tools(200, Citation("https://github.com/anomalyco/opencode/issues/28911"),
                            "Maximum tools limit reached. {count} tools have been provided but the "
                            "maximum is 200."),
         )),
    _profile_table("mistral",
         of_tool=(
             Limit(
                 "accepts names of 1 to 64 letters, digits, underscores and hyphens, not "
                 "{shown!r}"
             ,
                   odd_name(_SHORT), Citation("https://github.com/Kochava-Studios/witsy/pull/164"),
                   "Function name was {tool.name} but must be a-z, A-Z, 0-9, or contain "
                   "underscores and dashes, with a maximum length of 64.",
                   pointer="/name", subject="names"),
         )),
    _profile_table("deepseek",
         of_tool=(
             Limit("accepts names of letters, digits, underscores and hyphens, not {shown!r}",
                   odd_name(_DASHED), Citation("https://github.com/zed-industries/zed/issues/57531"),
                   "Invalid 'tools[0].function.name': string does not match pattern. Expected a "
                   "string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
                   pointer="/name", subject="names"),
         )),
    _profile_table("cerebras",
         of_tool=(
             Limit("refuses a strict tool for some of its models", lambda tool: tool.strict,
                   Citation("https://github.com/livekit/agents/pull/3134"),
                   severity="weak", pointer="/strict"),
         )),
    _profile_table("fireworks",
         of_schema=(
             Limit("does not accept a branch with only `required`", _requires_only,
                   Citation("https://github.com/earendil-works/pi/issues/5352"),
                   "JSON Schema not supported: could not understand the instance `{node.schema}`."),
         )),
    _profile_table("perplexity",
         of_request=(
             Limit("does not accept tools", lambda tools: bool(tools),
                   Citation("https://github.com/pipecat-ai/pipecat/pull/4862"),
                   "Tool calling is not supported for this model", subject="count"),
         )),
    _profile_table("llamacpp",
         of_schema=(
             Limit("needs ^ at the beginning and $ at the end of a `pattern`", _has_loose_pattern,
                   Citation("https://github.com/ggml-org/llama.cpp/issues/26930"),
                   "JSON schema conversion failed:\nPattern must start with '^' and end with '$'"),
             Limit("cannot read \\d, \\w or \\s in a `pattern`", _has_class,
                   Citation("https://github.com/ggml-org/llama.cpp/issues/27580"),
                   "Failed to initialize samplers: failed to parse grammar"),
         )),
)
# fmt: on

VENDOR_LIMITS: Mapping[str, LimitTable] = {table.profile: table for table in _TABLES}
"""What vendors refuse beyond their protocol, by profile."""


def known_providers() -> tuple[str, ...]:
    """The names `tables_for` takes: protocols, then profiles."""
    return tuple(dict.fromkeys((*PROTOCOLS, *SHIPPED)))


def protocol_of(name: str) -> str:
    """The protocol of that name, or of the profile; BadInput lists all names."""
    if name in PROTOCOLS:
        return name
    if name in SHIPPED:
        return SHIPPED[name].profile.protocol
    names = ", ".join(known_providers())
    raise BadInput(f"There is no provider {name!r}. Choose from {names}.")


def tables_for(name: str) -> tuple[LimitTable, ...]:
    """The limits of a protocol, or of a profile: those of its protocol and the vendor's own."""
    protocol = protocol_of(name)
    table = LIMITS[protocol]
    if name in PROTOCOLS:
        return (table,)
    own = VENDOR_LIMITS.get(name)
    subjects = {row.subject for row in own.rows if row.subject} if own else set()
    if protocol.startswith("openai") and name not in _OF_OPENAI:
        table = table.drop_rows(subjects, families=True)
    elif subjects:
        table = table.drop_rows(subjects)
    return (table, own) if own else (table,)
