"""What Anthropic refuses, and what a sound request is read as."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from playground.core.tools import ToolChoice
from playground.protocols.anthropic.refuse import signature_of
from playground.protocols.anthropic.server import parse
from playground.protocols.server import BadRequest, ParsedRequest

HEADERS = {"anthropic-version": "2023-06-01"}
TOOL = {"name": "f", "input_schema": {"type": "object"}}
CACHED = {"cache_control": {"type": "ephemeral"}}
FINDER = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
HI = {"role": "user", "content": "hi"}
USE = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
CALL = {"role": "assistant", "content": [USE]}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
BODY: dict[str, Any] = {"model": "m", "max_tokens": 2000, "messages": [HI], "tools": [TOOL]}

CALL_X = {"role": "assistant", "content": "x"}
REDACTED = {"type": "redacted_thinking"}
PIXEL = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}
FILE = {"type": "file", "file_id": "file_1"}
WEB = {"type": "web_search_20250305", "name": "web_search"}
CALL_TWO = {"role": "assistant", "content": [{**USE, "id": "t2"}]}
REAL_SIGNATURE = b64encode(b"\x12" + bytes(range(90))).decode()
SIGNED = {"type": "thinking", "thinking": "Hm.", "signature": signature_of("Hm.")}

UNION = ["string", "null"]
THINKS = {"thinking": {"type": "adaptive"}}
IMAGE = {"type": "image", "source": PIXEL}
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}


def turn(role: str, *content: Any) -> dict[str, Any]:
    """A last message of this role."""
    return {"messages": [HI, {"role": role, "content": list(content)}]}


def answers(*ids: str) -> dict[str, Any]:
    """A message with a result for each of these calls."""
    return {"role": "user", "content": [{**RESULT, "tool_use_id": id_} for id_ in ids]}


def thought(**changes: Any) -> dict[str, Any]:
    """Thinking in the latest turn of the assistant."""
    answer = {"type": "text", "text": "x"}
    turn = {"role": "assistant", "content": [{**SIGNED, **changes}, answer]}
    return {"messages": [HI, turn, HI]}


def picture(**changes: Any) -> dict[str, Any]:
    image = {"type": "image", "source": {**PIXEL, **changes}}
    return {"messages": [{"role": "user", "content": [image]}]}


def strict(*schemas: Any) -> dict[str, Any]:
    """A strict tool for each schema."""
    named = enumerate(schemas)
    return {"tools": [{"name": f"f{i}", "input_schema": item, "strict": True} for i, item in named]}


def closed(**properties: Any) -> dict[str, Any]:
    return {**CLOSED, "properties": properties}


def many(count: int, kind: Any = "string", *, needed: bool = False) -> dict[str, Any]:
    names = [f"p{place}" for place in range(count)]
    schema = closed(**{name: {"type": kind} for name in names})
    return {**schema, "required": names if needed else []}


def formed(schema: Any) -> dict[str, Any]:
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}


def parse_request(**changes: Any) -> ParsedRequest:
    body = {key: value for key, value in {**BODY, **changes}.items() if value is not None}
    return parse(json.dumps(body).encode(), HEADERS)


def history(*content: Any) -> dict[str, Any]:
    return {"messages": [HI, CALL, {"role": "user", "content": list(content)}]}


def searched(*blocks: Any) -> dict[str, Any]:
    """A turn of these blocks with a prompt behind it."""
    return {"messages": [HI, {"role": "assistant", "content": list(blocks)}, HI]}


def schema(value: Any, name: str = "f") -> dict[str, Any]:
    return {"tools": [{"name": name, "input_schema": value}]}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": None}, "model: Field required"),
        ({"max_tokens": None}, "max_tokens: Field required"),
        ({"max_tokens": 0}, "greater than or equal to 1"),
        ({"messages": None}, "messages: Field required"),
        ({"messages": []}, "at least one message"),
        ({"messages": [{"role": "system", "content": "x"}]}, "first message must use"),
        ({"messages": [HI, {"role": "tool", "content": "x"}]}, "'user', 'assistant' or 'system'"),
        ({"messages": [HI, {"role": "system", "content": [USE]}]}, "Input tag 'tool_use' found"),
        ({"output_config": {"format": {"type": "json"}}}, "output_config.format.type: Input"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "format.schema: Field required"),
        (formed({"type": "object"}), "output_config.format.schema: For 'object' type, 'additional"),
        (formed(closed(a={"type": "integer", "minimum": 1})), "property minimum is not supported"),
        ({"messages": [{"role": "user", "content": ""}]}, "non-empty content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": " "}]}]},
            "whitespace",
        ),
        ({"messages": [HI, CALL]}, "without `tool_result` blocks immediately after: t1"),
        ({"messages": [HI, CALL, HI]}, "without `tool_result` blocks immediately after: t1"),
        (history({"type": "text", "text": "x"}, RESULT), "immediately after: t1"),
        (history({**RESULT, "tool_use_id": "t2"}), "unexpected `tool_use_id`"),
        (history(RESULT, RESULT), "single result"),
        (history({"type": "tool_result"}), "tool_use_id: Field required"),
        ({"messages": [HI, {"role": "assistant", "content": [{**USE, "input": "{}"}]}]}, "valid"),
        ({"messages": [HI, {"role": "assistant", "content": [USE, USE]}, HI]}, "unique"),
        ({"messages": [{"role": "user", "content": [USE]}]}, "can not be in `user`"),
        (
            {"messages": [HI, {"role": "assistant", "content": [{"type": "thinking"}]}]},
            "signature: Field required",
        ),
        (schema({"type": "object"}, "no spaces"), "should match pattern"),
        (schema({}), "type: Field required"),
        (schema({"type": "string"}), "should be 'object'"),
        (schema({"type": "object", "anyOf": []}), "top level"),
        (schema(True), "valid dictionary"),
        ({"tools": [{"name": "f"}]}, "input_schema: Field required"),
        ({"tools": [TOOL, TOOL]}, "must be unique"),
        ({"tool_choice": {"type": "tool", "name": "g"}}, "'g' not found"),
        ({"tool_choice": {"type": "required"}}, "Input tag"),
        ({"tool_choice": {"type": "auto"}, "tools": None}, "while providing tools"),
        ({"tool_choice": {"type": "none", "disable_parallel_tool_use": True}}, "not permitted"),
        ({"thinking": {"type": "enabled", "budget_tokens": 100}}, "1024"),
        ({"thinking": {"type": "enabled", "budget_tokens": 3000}}, "must be greater"),
        ({"thinking": {"type": "adaptive"}, "tool_choice": {"type": "any"}}, "forces tool use"),
        ({"temperature": 1.5}, "temperature"),
        ({**THINKS, "temperature": 0.5}, "`temperature` may only be set to 1"),
        ({**THINKS, "top_p": 0.9}, "`top_p` must be greater than or equal to 0.95"),
        ({**THINKS, "top_k": 40}, "`top_k` must be unset"),
        (history({**RESULT, "content": [IMAGE], "is_error": True}), "must be type 'text' if"),
        (searched(SEARCH), "without a corresponding result block: s1"),
        (searched(FOUND), "Each `web_search_tool_result` block must have"),
        (searched(FOUND, SEARCH), "unexpected `tool_use_id`"),
        ({"stream": "yes"}, "valid boolean"),
        ({"top_q": 1}, "top_q: Extra inputs"),
        ({"messages": [{"role": "user", "content": " "}]}, "non-whitespace text"),
        (turn("assistant", {"type": "text", "text": ""}, {"type": "text", "text": "x"}), "empty"),
        (turn("assistant", {"type": "text", "text": "\n\n"}, USE), "non-whitespace text"),
        (turn("user", {"type": "audio"}), "content.0: Input tag 'audio' found using 'type'"),
        (turn("user", {"text": "x"}), "content.0.type: Field required"),
        (history({**RESULT, "content": [{"type": "audio"}]}), "Input tag 'audio' found"),
        (history({**RESULT, "content": "", "is_error": True}), "0.tool_result: content cannot be"),
        (history({**RESULT, "content": [], "is_error": True}), "cannot be empty if `is_error`"),
        ({"messages": [HI, {"role": "assistant", "content": "x "}]}, "trailing whitespace"),
        (turn("assistant", {"type": "text", "text": "x\n"}), "trailing whitespace"),
        ({"messages": [HI, CALL_X], "model": "claude-opus-4-6"}, "assistant message prefill"),
        ({"messages": [HI, CALL_X], "model": "claude-sonnet-5"}, "assistant message prefill"),
        ({"system": [{"type": "text", "text": " "}]}, "system.0: text content blocks must contain"),
        (turn("user", {"type": "document", "source": {"type": "path"}}), "expected tags"),
        ({"messages": [HI, CALL, CALL_TWO, answers("t1")]}, "immediately after: t2"),
        ({"messages": [HI, CALL, CALL, answers("t1")]}, "`tool_use` ids must be unique"),
        (
            {"messages": [HI, CALL, CALL_TWO, answers("t1"), HI, answers("t2")]},
            "immediately after: t2",
        ),
        ({"tools": [{**TOOL, "colour": "red"}]}, "colour: Extra inputs"),
        ({"tools": [{**TOOL, "eager_input_streaming": "yes"}]}, "valid boolean"),
        ({"tools": [{**TOOL, "cache_control": {"type": "for ever"}}]}, "should be 'ephemeral'"),
        ({"tools": [{**TOOL, "defer_loading": True}]}, "All tools cannot be deferred."),
        (
            {"tools": [TOOL, {**TOOL, "name": "g", "defer_loading": True, **CACHED}]},
            "Tool 'g' cannot have both defer_loading=true and cache_control set.",
        ),
        (
            {
                "system": [{"type": "text", "text": "x", **CACHED}],
                "tools": [{**TOOL, "name": f"f{n}", **CACHED} for n in range(4)],
            },
            "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        ),
        (strict({"type": "object"}), "must be explicitly set to false"),
        (strict(closed(x={"type": "object"})), "must be explicitly set to false"),
        (strict(closed(x=True)), "Boolean schemas"),
        (strict(closed(x={"$ref": "#"})), "Recursive schemas"),
        (
            strict(
                {**closed(x={"$ref": "#/$defs/a"}), "$defs": {"a": closed(b={"$ref": "#/$defs/a"})}}
            ),
            "Recursive schemas",
        ),
        (strict(*[CLOSED] * 21), "Too many strict tools (21)"),
        (strict(many(13), many(12)), "too many optional parameters (25)"),
        (strict(many(9, UNION, needed=True), many(8, UNION, needed=True)), "union types (17"),
        (strict(many(24)), "Schema is too complex"),
        (strict(many(16, UNION, needed=True)), "Schema is too complex"),
        (thought(thinking="Hm!"), "cannot be modified"),
        (thought(signature="EqQBCkYIBRgCKkBhb3RoZXIgb25l"), "Invalid `signature` in `thinking`"),
        (thought(signature=None), "signature: Field required"),
        (
            {"messages": [HI, *thought(thinking="Hm!")["messages"][1:2], HI, CALL_X, HI]},
            "Invalid `s",
        ),
        ({"messages": [HI, {"role": "assistant", "content": [REDACTED]}]}, "data: Field required"),
        ({"messages": [{"role": "user", "content": [SIGNED]}]}, "can not be in `user`"),
        (picture(media_type="image/bmp"), "'image/gif' or 'image/webp'"),
        (picture(data="no base64!"), "Invalid base64"),
        (picture(data="A" * 6_000_000), "exceeds 5 MB maximum"),
        (picture(type="path"), "does not match any of the expected tags"),
    ],
)
def test_refusals(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest) as exception_info:
        parse_request(**changes)
    assert words in str(exception_info.value)
    assert (exception_info.value.status, exception_info.value.kind) == (
        400,
        "invalid_request_error",
    )
    assert exception_info.value.source


@pytest.mark.parametrize(
    "changes",
    [
        {"messages": [{"role": "assistant", "content": "x"}, HI]},
        {"messages": [HI, CALL_X], "model": "claude-opus-4-20250514"},
        {"messages": [HI, CALL_X], "model": "claude-sonnet-4-5"},
        {**turn("assistant", SEARCH), "model": "claude-sonnet-5"},
        {"messages": [HI, CALL, CALL_TWO, answers("t1", "t2")]},
        {"messages": [HI, CALL, CALL_TWO, answers("t2"), answers("t1"), HI]},
        {"messages": [HI, HI, CALL_X, CALL_X, HI]},
        searched(SEARCH, FOUND, {"type": "text", "text": ""}),
        turn("user", {"type": "image", "source": FILE}),
        turn("user", {"type": "document", "source": FILE}),
        turn("user", {"type": "document", "source": {"type": "text", "data": "x"}}),
        history({**RESULT, "content": [{"type": "document", "source": FILE}]}),
        turn("user", {"type": "container_upload", "file_id": "file_1"}),
        {"context_management": {"edits": []}},
        {"fallbacks": [], "compaction": {}, "thinking": {"type": "between_tools"}},
        {"mcp_servers": [{"type": "url", "url": "https://example.invalid", "name": "m"}]},
        {"tools": [WEB], "tool_choice": {"type": "any"}},
        {"tools": [WEB], "tool_choice": {"type": "tool", "name": "web_search"}},
        {"tools": None, "tool_choice": {"type": "auto"}, "mcp_servers": [{"name": "m"}]},
        thought(signature=REAL_SIGNATURE),
        thought(),
        thought(thinking=""),  # its text was left out by the provider
        picture(),
        picture(type="url", url="https://example.invalid/a.png"),
        strict(*[CLOSED] * 20),
        strict(many(12), many(12)),
        strict(
            {**closed(a={"$ref": "#/$defs/a"}, b={"$ref": "#/$defs/a"}), "$defs": {"a": CLOSED}}
        ),
        {"tools": [{**TOOL, "cache_control": {"type": "ephemeral"}, "input_examples": [{}]}]},
        {"tools": [TOOL, {**TOOL, "name": "g", "defer_loading": True}]},
        {"tools": [FINDER, {**TOOL, "name": "g", "defer_loading": True}]},
        {"tools": [{**TOOL, "name": f"f{n}", **CACHED} for n in range(4)]},
        {**THINKS, "temperature": 1, "top_p": 0.95},
        {
            "messages": [
                HI,
                CALL,
                {"role": "system", "content": "x"},
                history(RESULT)["messages"][2],
            ]
        },
        {"messages": [HI, {"role": "system", "content": [{"type": "tool_removal", "name": "f"}]}]},
        {"output_config": {"effort": "low"}},
        formed(CLOSED),
        {"temperature": 0, "top_p": 0.1, "top_k": 9},
        history({**RESULT, "content": [IMAGE]}),
        searched(SEARCH, FOUND),
        {"messages": [HI, {"role": "assistant", "content": [SEARCH]}]},  # its turn paused
        {
            "messages": [
                HI,
                {"role": "assistant", "content": [SEARCH, {**USE, "caller": {"tool_id": "s1"}}]},
                {"role": "user", "content": [RESULT]},
                {"role": "assistant", "content": [FOUND]},
                HI,
            ]
        },
    ],
)
def test_what_is_sound_is_taken(changes: dict[str, Any]) -> None:
    assert parse_request(**changes).request.messages


def test_what_nobody_saw_is_marked() -> None:
    with pytest.raises(BadRequest) as exception_info:
        parse_request(**history({"type": "text", "text": "x"}, RESULT))
    assert exception_info.value.inferred
    with pytest.raises(BadRequest) as exception_info:
        parse_request(messages=[HI, CALL])
    assert not exception_info.value.inferred


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest, match="Send") as exception_info:
        parse(body, HEADERS)
    assert exception_info.value.inferred


def test_the_version_header_is_needed() -> None:
    with pytest.raises(BadRequest, match="anthropic-version"):
        parse(json.dumps(BODY).encode(), {})


@pytest.mark.parametrize(
    ("choice", "read"),
    [
        (None, ToolChoice()),
        ({"type": "auto", "disable_parallel_tool_use": True}, ToolChoice(parallel=False)),
        ({"type": "any"}, ToolChoice("required")),
        ({"type": "tool", "name": "f"}, ToolChoice("tool", "f")),
        ({"type": "none"}, ToolChoice("none")),
    ],
)
def test_choices(choice: Any, read: ToolChoice) -> None:
    assert parse_request(tool_choice=choice).request.choice == read


def test_a_history_is_read_with_its_results() -> None:
    image = {"type": "image", "source": PIXEL}
    answer = {**RESULT, "content": [{"type": "text", "text": "no"}, image]}
    messages = parse_request(**history(answer, {"type": "text", "text": "go on"})).request.messages
    assert [message.role for message in messages] == ["user", "assistant", "results", "user"]
    result = messages[2].parts[0]
    failed = parse_request(**history({**RESULT, "is_error": True})).request.messages[2].parts[0]
    assert (result.is_error, failed.is_error) == (False, True)
    assert [piece.type for piece in result.content] == ["text", "image"]
    linked = {"type": "image", "source": {"type": "url", "url": "https://example.invalid/a.png"}}
    image_part = (
        parse_request(**history({**RESULT, "content": [linked]})).request.messages[2].parts[0]
    )
    assert [piece.type for piece in image_part.content] == ["image"]
    server_tool = {"type": "web_search_20250305", "name": "web_search"}
    assert [tool.name for tool in parse_request(tools=[TOOL, server_tool]).request.tools] == ["f"]
    assert parse_request(tools=[{**TOOL, "eager_input_streaming": True}]).request.tools[0].eager
    (picture_part,) = parse_request(**picture()).request.messages[0].parts
    assert (picture_part.kind, picture_part.content[0].media_type) == ("image", "image/png")
