"""What OpenAI Responses refuses, where that is known from, and what a sound request is read as."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest

from playground.core.tools import FREEFORM, ToolChoice
from playground.protocols.openai_responses.refuse import sealed_reasoning
from playground.protocols.openai_responses.server import parse
from playground.protocols.server import BadRequest, ParsedRequest

TOOL: dict[str, Any] = {"type": "function", "name": "f", "parameters": None, "strict": None}
FREE = {"type": "custom", "name": "g"}
HI = {"role": "user", "content": "hi"}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
WROTE = {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "SELECT 1"}
TOOK = {"type": "custom_tool_call_output", "call_id": "c2", "output": "1"}
SEAL = sealed_reasoning("x")
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": SEAL}
BODY: dict[str, Any] = {"model": "m", "input": [HI], "tools": [TOOL, FREE], "store": False}

AROUND = {
    "type": "json_schema",
    "name": "n",
    "schema": {
        "type": "object",
        "properties": {"x": {"type": "string", "pattern": "^(?!a)b"}},
        "required": ["x"],
        "additionalProperties": False,
    },
}
OPEN = {"type": "object", "properties": {}}
CLOSED = {"type": "object", "properties": {"x": {}}, "additionalProperties": False}
NESTED = {**CLOSED, "properties": {"x": OPEN}, "required": ["x"]}


def parse_request(**changes: Any) -> ParsedRequest:
    body = {key: value for key, value in {**BODY, **changes}.items() if value is not None}
    return parse(json.dumps(body).encode(), {})


def items(*given: Any) -> dict[str, Any]:
    return {"input": [HI, *given]}


def tool(**changes: Any) -> dict[str, Any]:
    return {"tools": [{**TOOL, **changes}]}


def image(url: Any) -> dict[str, Any]:
    return {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]}


@pytest.mark.parametrize(
    ("changes", "words", "param"),
    [
        ({"model": None}, "Missing required parameter: 'model'", "model"),
        ({"input": None}, "Missing required parameter: 'input'", "input"),
        ({"input": []}, "empty array", "input"),
        ({"input": ""}, "empty array", "input"),
        ({"input": {}}, "but got an object", "input"),
        ({"banana": 1}, "Unknown parameter: 'banana'", "banana"),
        ({"messages": []}, "has moved to 'input'", "messages"),
        ({"max_tokens": 9}, "has moved to 'max_output_tokens'", "max_tokens"),
        ({"max_output_tokens": 15}, "Expected a value >= 16", "max_output_tokens"),
        ({"max_output_tokens": "9"}, "expected an integer", "max_output_tokens"),
        ({"temperature": 3}, "Expected a value <= 2", "temperature"),
        ({"stream": "yes"}, "expected a boolean", "stream"),
        ({"stream_options": {}}, "only allowed when 'stream'", "stream_options"),
        ({"include": ["everything"]}, "Invalid value: 'everything'", "include[0]"),
        ({"reasoning": {"effort": "huge"}}, "'none', 'minimal'", "reasoning.effort"),
        ({"reasoning": {"summary": "x"}}, "'auto', 'concise', and", "reasoning.summary"),
        ({"previous_response_id": "resp_1"}, "'resp_1' not found", "previous_response_id"),
        # Items.
        (items({"type": "banana"}), "Invalid value: 'banana'", "input[1].type"),
        (items({"type": ["message"]}), "Supported values are: 'message'", "input[1].type"),
        (items({"x": 1}), "Missing required parameter: 'input[1].type'", None),
        (items({**CALL, "tool_calls": []}), "Unknown parameter: 'input[1].tool_calls'", None),
        (items({"role": "tool", "content": "x"}), "Invalid value: 'tool'", "input[1].role"),
        (items({"role": "user"}), "'input[1].content'", None),
        (items({**CALL, "arguments": {}}, OUTPUT), "expected a string, but got an object", None),
        (items({**CALL, "name": "no spaces"}, OUTPUT), "does not match pattern", "input[1].name"),
        (items({**CALL, "name": ""}, OUTPUT), "empty string", "input[1].name"),
        (items({**CALL, "call_id": "x" * 65}), "got a string with length 65", "input[1].call_id"),
        (items({**CALL, "id": "call_1"}, OUTPUT), "begins with 'fc'", "input[1].id"),
        (items({**CALL, "id": "fc_1"}, {**CALL, "id": "fc_1"}), "Duplicate item found", None),
        (items(CALL), "No tool output found for function call c1.", "input"),
        (items(OUTPUT), "No tool call found for function call output with call_id c1.", "input"),
        (items(OUTPUT, CALL), "No tool call found", "input"),
        (items(WROTE), "No tool output found for custom tool call c2.", "input"),
        (items(WROTE, {**OUTPUT, "call_id": "c2"}), "No tool call found for function", "input"),
        (items(CALL, {**OUTPUT, "output": None}), "'input[2].output'", None),
        (items(CALL, {**OUTPUT, "output": 3}), "but got a number", "input[2].output"),
        (items(THOUGHT), "'rs_1' of type 'reasoning' was provided without", "input"),
        (items(THOUGHT, HI), "required following item", "input"),
        (items({**THOUGHT, "summary": None}, CALL), "'input[1].summary'", None),
        (items({**THOUGHT, "encrypted_content": "gAAA" + SEAL}), "could not be verified", None),
        (items({**THOUGHT, "encrypted_content": None}), "Items are not persisted", "input"),
        (items({"type": "item_reference", "id": "msg_1"}), "Items are not persisted", "input"),
        (
            {**items({**THOUGHT, "encrypted_content": None}, CALL, OUTPUT), "store": True},
            "Item with id 'rs_1' not found.",
            "input",
        ),
        (
            items({"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}),
            "Supported values are: 'output_text' and 'refusal'",
            "input[1].content[0].type",
        ),
        (
            items({"role": "user", "content": [{"type": "output_text", "text": "x"}]}),
            "Invalid value: 'output_text'",
            "input[1].content[0].type",
        ),
        (image("nowhere"), "Expected a valid URL", "input[0].content[0].image_url"),
        (image("data:image/svg+xml;base64,aGk="), "MIME type 'image/svg+xml'", None),
        (image(None), "Missing required parameter", "input[0].content[0].image_url"),
        # Tools.
        ({"tools": [TOOL] * 129}, "array too long", "tools"),
        ({"tools": [TOOL, TOOL]}, "'f' occurs twice", "tools"),
        ({"tools": [{"type": "tool"}]}, "Invalid value: 'tool'", "tools[0].type"),
        ({"tools": [{}]}, "'tools[0].type'", None),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "'tools[0].name'", None),
        (tool(name="no spaces"), "does not match pattern", "tools[0].name"),
        (tool(defer_loading=True), "Deferred tools require tools.tool_search.", "tools"),
        (tool(name="f" * 129), "maximum length 128, but got", "tools[0].name"),
        (tool(parameters={"type": "string"}), "got 'type: \"string\"'", "tools[0].parameters"),
        (tool(parameters=OPEN, strict=True), "'additionalProperties' is required", None),
        (tool(parameters=CLOSED, strict=True), "Missing 'x'", "tools[0].parameters"),
        (tool(parameters=NESTED, strict=True), "In context=('properties', 'x')", None),
        (tool(strict="yes"), "expected a boolean", "tools[0].strict"),
        ({"tools": [{**FREE, "format": {"type": "xml"}}]}, "'text' and 'grammar'", None),
        (
            {"tools": [{**FREE, "format": {"type": "grammar", "syntax": "ebnf"}}]},
            "'lark' and 'regex'",
            "tools[0].format.syntax",
        ),
        # The form of the answer.
        ({"text": {"format": {"type": "xml"}}}, "'text', 'json_schema'", "text.format.type"),
        ({"text": {"format": {"type": "json_object"}}}, "contain the word 'json'", "input"),
        ({"text": {"format": {"type": "json_schema"}}}, "Missing", "text.format.name"),
        (
            {"text": {"format": {"type": "json_schema", "name": "n" * 65, "schema": {}}}},
            "maximum length 64",
            "text.format.name",
        ),
        (
            {"text": {"format": {**AROUND, "strict": True}}},
            "lookaround is not supported. Found at $.properties.x.pattern",
            "text.format.schema",
        ),
        (
            {
                "text": {
                    "format": {"type": "json_schema", "name": "n", "schema": {}, "strict": True}
                }
            },
            "Invalid schema for response_format 'n'",
            "text.format.schema",
        ),
        ({"client_metadata": "x"}, "expected an object", "client_metadata"),
        # Choices.
        ({"tool_choice": "f"}, "Invalid value: 'f'", "tool_choice"),
        ({"tool_choice": "required", "tools": None}, "must be specified with", "tool_choice"),
        (
            {"tool_choice": {"type": "function", "name": "x"}},
            "'function' not found in 'tools'",
            None,
        ),
        (
            {"tool_choice": {"type": "function", "name": "g"}},
            "'function' not found in 'tools'",
            None,
        ),
        ({"tool_choice": {"type": "web_search"}}, "'web_search' not found", "tool_choice"),
        (
            {
                "tool_choice": {
                    "type": "allowed_tools",
                    "mode": "auto",
                    "tools": [{**FREE, "name": "f"}],
                }
            },
            "'custom' not found in 'tools'",
            "tool_choice",
        ),
    ],
)
def test_refusals(changes: dict[str, Any], words: str, param: str | None) -> None:
    with pytest.raises(BadRequest) as exception_info:
        parse_request(**changes)
    assert words in str(exception_info.value)
    assert exception_info.value.status == (
        404 if "Item with id" in words or "persisted" in words else 400
    )
    assert exception_info.value.source
    if param is not None:
        assert exception_info.value.param == param


SEEN = {
    "input[1].call_id": (items({**CALL, "call_id": "x" * 65}), "string_above_max_length"),
    "input": (items(CALL), None),
    "input[1].id": (items({**CALL, "id": "x"}, OUTPUT), "invalid_value"),
    None: (items({**THOUGHT, "encrypted_content": "x"}), "invalid_encrypted_content"),
}


@pytest.mark.parametrize(("param", "case"), SEEN.items())
def test_what_was_seen_cites_who_saw_it(param: str | None, case: tuple[Any, str | None]) -> None:
    with pytest.raises(BadRequest) as exception_info:
        parse_request(**case[0])
    assert (exception_info.value.param, exception_info.value.code) == (param, case[1])
    assert exception_info.value.source.startswith("https://github.com/")
    assert not exception_info.value.inferred
    with pytest.raises(BadRequest) as guessed:
        parse_request(input=[])
    assert guessed.value.inferred


@pytest.mark.parametrize(
    ("choice", "read", "offered"),
    [
        (None, ToolChoice(), ["f", "g"]),
        ("required", ToolChoice("required"), ["f", "g"]),
        ("none", ToolChoice("none"), ["f", "g"]),
        ({"type": "function", "name": "f"}, ToolChoice("tool", "f"), ["f", "g"]),
        ({"type": "custom", "name": "g"}, ToolChoice("tool", "g"), ["f", "g"]),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [FREE]},
            ToolChoice("required", allowed=("g",)),
            ["g"],
        ),
    ],
)
def test_choices(choice: Any, read: ToolChoice, offered: list[str]) -> None:
    request = parse_request(tool_choice=choice).request
    assert request.choice == read
    assert [tool.name for tool in request.tools] == offered
    assert not parse_request(parallel_tool_calls=False).request.choice.parallel


def test_a_history_is_read_with_its_results() -> None:
    system = {"role": "developer", "content": "Be kind."}
    answer = {"role": "assistant", "content": [{"type": "output_text", "text": "Well."}]}
    failed = {**OUTPUT, "output": [{"type": "input_text", "text": "Error: no"}]}
    request = parse_request(
        instructions="Be brief.", input=[system, HI, THOUGHT, answer, CALL, WROTE, failed, TOOK]
    ).request
    assert request.system == "Be brief.\nBe kind."
    assert [message.role for message in request.messages] == ["user", "assistant", "results"]
    assert [part.kind for part in request.messages[1].parts] == ["thinking", "text", "call", "call"]
    assert request.messages[1].parts[3].text == '{"input":"SELECT 1"}'
    assert [(p.call_id, p.is_error) for p in request.messages[2].parts] == [
        ("c1", True),
        ("c2", False),
    ]
    assert request.tools[1].parameters == FREEFORM


def test_small_permissions() -> None:
    assert parse_request(input="hi").request.messages[0].parts[0].text == "hi"
    assert parse_request(tools=[]).request.tools == ()
    assert parse_request(tools=[{"type": "web_search"}], tool_choice="required").request.tools == ()
    passed = {"role": "user", "content": "hi", "internal_chat_message_metadata_passthrough": {}}
    assert parse_request(
        input=[passed], client_metadata={"a": "b"}
    ).request.messages  # Codex sends both
    # Without a word on it the real one makes a schema strict by itself.
    assert not parse_request(**tool(parameters=OPEN)).request.tools[0].strict
    assert parse_request(reasoning={"effort": "low", "summary": "auto"}).request.params["thinking"]
    assert not parse_request(reasoning={"effort": "low"}).request.params["thinking"]
    for name in ("moderation", "prompt_cache_options", "background_options", "access_programs"):
        assert parse_request(**{name: {}}).request.messages
    assert parse_request(tools=[{"type": "programmatic_tool_calling"}]).request.messages
    assert parse_request(**items({"type": "configuration_update"})).request.messages
    assert parse_request(include=["reasoning.encrypted_content"], model="gpt-4.1").request.messages
    own = {**THOUGHT, "encrypted_content": None, "id": "rs_" + "0a" * 24}
    assert parse_request(store=True, **items(own, CALL, OUTPUT)).request.messages
    token = urlsafe_b64encode(b"\x80" + bytes(range(150))).decode()
    assert parse_request(
        **items({**THOUGHT, "encrypted_content": token}, CALL, OUTPUT)
    ).request.messages
    stored = {**THOUGHT, "encrypted_content": None, "id": "rs_" + "a" * 32}
    assert parse_request(store=True, **items(stored, CALL, OUTPUT)).request.messages
    (part,) = parse_request(**image("data:image/png;base64,aGk=")).request.messages[0].parts
    assert (part.content[0].media_type, part.content[0].data) == ("image/png", "aGk=")
