"""A limit that a vendor has for itself names that vendor, and takes the protocol's place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from playground.core.errors import BadInput
from playground.core.providers import SHIPPED
from playground.core.settings import PROTOCOLS
from playground.core.tools import Tool
from playground.protocols.lint import findings, tool_group_findings
from playground.protocols.vendor_limits import (
    VENDOR_LIMITS,
    known_providers,
    protocol_of,
    tables_for,
)

Json = dict[str, Any]
TEXT: Json = {"type": "string", "description": "Some text."}
GOOD = Tool(
    "look_up",
    "Looks a text up in the store.",
    {
        "type": "object",
        "properties": {"text": TEXT},
        "required": ["text"],
        "additionalProperties": False,
    },
)


def is_web_address(source: str) -> bool:
    """Whether this is one https address with a host, which a reader can open."""
    parts = urlsplit(source)
    return parts.scheme == "https" and bool(parts.hostname) and len(source.split()) == 1


def with_parameter(**schema: Any) -> Tool:
    properties = {"text": {**TEXT, **schema}}
    return replace(GOOD, parameters={**GOOD.parameters, "properties": properties})


@pytest.mark.parametrize("name", known_providers())
def test_lint_when_any_protocol_or_profile_is_named_checks_its_protocol(name: str) -> None:
    assert protocol_of(name) in PROTOCOLS
    assert [finding for finding in findings(GOOD, (name,)) if finding.severity == "refused"] == []
    tool_group_findings([GOOD], name)
    for table in tables_for(name):
        assert table.protocol == protocol_of(name)
        assert table.profile in ("", name)


def test_lint_when_a_name_is_unknown_lists_all_names() -> None:
    with pytest.raises(BadInput) as refused:
        protocol_of("nobody")
    for name in (*PROTOCOLS, *SHIPPED):
        assert name in str(refused.value)


@pytest.mark.parametrize(
    ("profile", "tool", "message"),
    [
        (
            "groq",
            with_parameter(type="object", required=["a"]),
            "Groq needs `properties` with `required`, even if it is empty at /properties/text.",
        ),
        (
            "groq",
            replace(GOOD, parameters={"type": "object", "required": []}),
            "Groq needs `properties` with `required`, even if it is empty.",
        ),
        (
            "mistral",
            replace(GOOD, name="n" * 65),
            "Mistral accepts names of 1 to 64 letters, digits, underscores and hyphens, not "
            f"{'n' * 65!r}.",
        ),
        (
            "deepseek",
            replace(GOOD, name="look.up"),
            "DeepSeek accepts names of letters, digits, underscores and hyphens, not 'look.up'.",
        ),
        (
            "fireworks",
            with_parameter(type="object", anyOf=[{"required": ["a"]}, TEXT]),
            "Fireworks AI does not accept a branch with only `required` at "
            "/properties/text/anyOf/0.",
        ),
        (
            "llamacpp",
            with_parameter(pattern="abc"),
            "llama.cpp needs ^ at the beginning and $ at the end of a `pattern` at "
            "/properties/text.",
        ),
        (
            "llamacpp",
            with_parameter(pattern=r"^\d+$"),
            r"llama.cpp cannot read \d, \w or \s in a `pattern` at /properties/text.",
        ),
    ],
)
def test_vendor_limit_when_a_tool_exceeds_it_names_the_vendor(
    profile: str, tool: Tool, message: str
) -> None:
    own = [finding for finding in findings(tool, (profile,)) if finding.profile]
    assert [(finding.severity, finding.message, finding.profile) for finding in own] == [
        ("refused", message, profile)
    ]
    assert own[0].source.startswith("https://")
    if own[0].pointer in ("/name", "/parameters"):
        refused = [
            finding for finding in findings(tool, (profile,)) if finding.severity == "refused"
        ]
        assert refused == own, "the protocol's row on the same subject is replaced"
    assert [finding for finding in findings(tool) if finding.profile] == []


@pytest.mark.parametrize(
    ("profile", "count", "messages"),
    [
        ("groq", 128, []),
        ("groq", 129, ["Groq accepts 128 tools in a request, not 129."]),
        ("xai", 200, []),
        ("xai", 201, ["xAI accepts 200 tools in a request, not 201."]),
        ("perplexity", 1, ["Perplexity does not accept tools."]),
        ("openai", 129, ["OpenAI accepts 128 tools in a request, not 129."]),
        ("together", 129, ["OpenAI accepts 128 tools in a request, not 129."]),
    ],
)
def test_vendor_limit_when_there_are_many_tools_replaces_the_protocols(
    profile: str, count: int, messages: list[str]
) -> None:
    tools = [replace(GOOD, name=f"look_{number}", description="") for number in range(count)]
    refused = [
        finding for finding in tool_group_findings(tools, profile) if finding.severity == "refused"
    ]
    assert [finding.message for finding in refused] == messages


@pytest.mark.parametrize(("profile", "holds"), [("openai", True), ("azure", True), ("groq", False)])
def test_limit_of_single_models_when_a_vendor_has_others_does_not_hold(
    profile: str, holds: bool
) -> None:
    lint_findings = findings(with_parameter(pattern="^(?!a)b$"), (profile,))
    assert any("gpt-5.5" in finding.family for finding in lint_findings) is holds


def test_vendor_limits_when_they_are_listed_are_known_profiles_with_sources() -> None:
    for profile, table in VENDOR_LIMITS.items():
        assert SHIPPED[profile].profile.protocol == table.protocol
        assert table.rows
        assert [
            row.source.words for row in table.rows if not is_web_address(row.source.words)
        ] == []


@pytest.mark.parametrize(
    ("source", "accepted"),
    [
        ("https://github.com/openai/openai-python/issues/1", True),
        ("https://docs.mistral.ai/capabilities/function_calling", True),
        ("http://docs.mistral.ai/capabilities", False),
        ("https:///capabilities", False),
        ("https://docs.mistral.ai and another page", False),
        ("Groq's documentation", False),
        ("", False),
    ],
)
def test_source_when_it_is_an_https_address_with_a_host_is_accepted(
    source: str, accepted: bool
) -> None:
    assert is_web_address(source) is accepted
