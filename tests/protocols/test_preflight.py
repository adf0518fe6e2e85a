"""What will be refused of tools is said, and they are sent as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from playground.core.tools import Tool
from playground.protocols.registry import CODECS
from tests.protocols.requests import encoded, request

CLOSED: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
OPTIONAL = {**CLOSED, "properties": {"x": {"type": "string"}}}
WITHIN = {**CLOSED, "properties": {"x": {"items": {"type": "object"}}}, "required": ["x"]}

NAMED = "accepts names of 1 to"
LOOSE = "needs `additionalProperties: false` of every object"


def strict(schema: Any, count: int = 1) -> tuple[Tool, ...]:
    return tuple(Tool(f"f{place}", "", schema, strict=True) for place in range(count))


def patterned(pattern: str) -> tuple[Tool, ...]:
    """A tool with an optional list of texts of this pattern."""
    texts = {"type": "array", "items": {"type": "string", "pattern": pattern}}
    return (Tool("f", "", {"type": "object", "properties": {"x": texts}}),)


def lists(most: int, count: int = 1) -> tuple[Tool, ...]:
    schema = {"type": "array", "items": {"type": "string"}, "maxItems": most}
    parameters = {"type": "object", "properties": {"x": schema}}
    return tuple(Tool(f"f{place}", "", parameters) for place in range(count))


@pytest.mark.parametrize(
    ("tools", "word", "refusing"),
    [
        ((Tool("a.b"),), NAMED, "anthropic openai_chat openai_responses"),
        ((Tool("x" * 65),), NAMED, "openai_chat"),
        ((Tool("x" * 129),), NAMED, "anthropic openai_chat openai_responses gemini"),
        ((Tool("1abc"),), NAMED, "gemini"),
        ((Tool("a b"),), NAMED, "anthropic openai_chat openai_responses gemini"),
        (tuple(Tool(f"f{n}") for n in range(129)), "not 129", "openai_chat openai_responses"),
        (strict(CLOSED, 21), "20 strict tools in a request, not 21", "anthropic"),
        (strict(CLOSED, 20), "refused", ""),
        (strict({"type": "object"}), LOOSE, "anthropic openai_chat openai_responses"),
        (strict(WITHIN), LOOSE, "anthropic openai_chat openai_responses"),
        (strict(OPTIONAL), "needs every property in `required`", "openai_chat openai_responses"),
        ((Tool("f", "", OPTIONAL),), "refused", ""),
        (patterned("^(?=a)b"), "does not accept a lookahead", "openai_chat openai_responses"),
        (patterned(r"\p{L}"), "a pattern that Python cannot read", "openai_chat openai_responses"),
        (patterned(r"^[(?=]\(\?!(?:a|b)$"), "refused", ""),
        (lists(960), "refused", ""),
        (lists(480, 2), "refused", ""),
        (lists(481, 2), "about 960 items in total in a request, not 962", "gemini"),
    ],
)
@pytest.mark.parametrize("protocol", CODECS)
def test_what_will_be_refused_is_said(
    protocol: str, tools: tuple[Tool, ...], word: str, refusing: str
) -> None:
    body, sent = encoded(protocol, request(tools=tools))
    assert any(word in note for note in sent.notes) == (protocol in refusing.split())
    assert tools[0].name in str(body["tools"])


def test_a_server_without_a_strict_mode_refuses_no_schema() -> None:
    _, sent = encoded("openai_chat", request(tools=strict(OPTIONAL), quirks=("no_strict",)))
    assert not any("refused" in note for note in sent.notes)


def test_a_schema_of_any_depth_is_judged() -> None:
    knot: dict[str, Any] = dict(CLOSED)
    for _ in range(300):
        knot = {**CLOSED, "properties": {"x": knot}, "required": ["x"]}
    _, sent = encoded("openai_responses", request(tools=strict(knot)))
    assert all("accepts 10 levels of nesting" in note for note in sent.notes)
    assert sent.notes


@pytest.mark.parametrize(
    ("model", "strict", "flag"),
    [
        ("gpt-5.5", False, True),
        ("gpt-5.6-sol", False, True),
        ("gpt-6", False, True),
        ("a-model-of-mine", False, True),
        ("gpt-5.4-mini", False, False),
        ("gpt-5", False, False),
        ("gpt-5-mini-2025-08-07", False, False),
        ("openai/gpt-4o", False, False),
        ("o3", False, False),
        ("gpt-5.4-mini", True, True),
    ],
)
@pytest.mark.parametrize("protocol", ["openai_chat", "openai_responses"])
def test_older_models_of_openai_take_lookaround_in_tools_that_are_not_strict(
    protocol: str, model: str, strict: bool, flag: bool
) -> None:
    tools = tuple(replace(tool, strict=strict) for tool in patterned("a(?<!b)c"))
    _, sent = encoded(protocol, replace(request(tools=tools), model=model))
    assert any("does not accept a lookahead" in note for note in sent.notes) == flag
