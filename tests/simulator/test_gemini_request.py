"""What Gemini refuses and in which words, and what a sound request is read as."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from playground.core.tools import Content, ToolChoice
from playground.protocols.gemini.limits import SKIP_VALIDATOR
from playground.protocols.gemini.server import parse
from playground.protocols.server import BadRequest, ParsedRequest

HI = {"role": "user", "parts": [{"text": "hi"}]}
OWN = b64encode(b"simulator:x").decode()
REAL = b64encode(bytes(range(90))).decode()
TEXT = {"text": "and?"}
FOREIGN = b64encode(b"another server").decode()

COUNT = "number of function response parts is equal to the number of function call parts"

JSON = {"responseMimeType": "application/json"}


def fc(name: str = "f", signature: str | None = OWN, **more: Any) -> dict[str, Any]:
    part: dict[str, Any] = {"functionCall": {"name": name, "args": {}, **more}}
    return {**part, "thoughtSignature": signature} if signature else part


def fr(name: str = "f", **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": "ok"}, **more}}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def person(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def contents(*values: Any) -> dict[str, Any]:
    return {"contents": [HI, *values]}


def declared(*functions: Any) -> dict[str, Any]:
    return {"tools": [{"functionDeclarations": list(functions)}]}


def schema(value: Any) -> dict[str, Any]:
    return declared({"name": "f", "parameters": value})


def prop(value: Any) -> dict[str, Any]:
    return schema({"type": "OBJECT", "properties": {"x": value}})


def calling(**config: Any) -> dict[str, Any]:
    return {"toolConfig": {"functionCallingConfig": config}}


F = declared({"name": "f"})
FG = declared({"name": "f"}, {"name": "g"})


def parse_request(
    of: str = "gemini-3-x", method: str = "generateContent", **changes: Any
) -> ParsedRequest:
    body = {key: item for key, item in {"contents": [HI], **changes}.items() if item is not None}
    return parse(json.dumps(body).encode(), {}, f"/v1beta/models/{of}:{method}")


def formed(**config: Any) -> dict[str, Any]:
    return {"generationConfig": config}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"contents": None}, "contents is not specified"),
        ({"contents": []}, "contents is not specified"),
        ({"contents": {}}, "Invalid value at 'contents' (a list)"),
        ({"foo": 1}, 'Unknown name "foo": Cannot find field.'),
        ({"generation_config": {"foo": 1}}, "Unknown name \"foo\" at 'generation_config'"),
        (contents({"role": "assistant", "parts": [{"text": "x"}]}), "valid role: user, model."),
        (contents({"role": "system", "parts": [{"text": "x"}]}), "valid role: user, model."),
        (contents(model()), "contents[1].parts: contents.parts must not be empty."),
        (contents(model({"text": 1})), "'contents[1].parts[0].text' (TYPE_STRING), 1"),
        (contents(model({})), "contents[1].parts[0].data: required oneof"),
        (contents(model({"text": "a", "functionCall": {"name": "f"}})), "required oneof"),
        (contents(model({"bar": 1})), "Unknown name \"bar\" at 'contents[1].parts[0]'"),
        # calls and their results
        (contents(model(fc())), COUNT),
        (contents(model(fc()), person({"text": "and?"})), COUNT),
        (contents(model(fc(), fc()), person(fr())), COUNT),
        (contents(model(fc()), person(fr(), fr())), COUNT),
        (contents(model(fc()), person(fr()), person(fr())), COUNT),
        (contents(person(fr())), "function response turn comes immediately after a function call"),
        (contents(model(fc(), fc("g")), person(fr("g"), fr("g"))), "g was not called, or was"),
        (contents(model(fc()), person(fr("g"))), "g was not called"),
        (contents(model(fc(id="a")), person(fr(id="b"))), "b is none"),
        (contents(model(fc(id="a"), fc(id="b")), person(fr(id="b"), fr(id="b"))), "b is none"),
        (contents(model(fc()), model(fc(signature=None)), person(fr())), COUNT),
        (contents(model(fc()), person({"text": "x"}), model({"text": "y"}), person(fr())), COUNT),
        (prop({"type": "object", "properties": {}}), "should be non-empty for OBJECT type"),
        ({"contents": [model(fc()), person(fr())]}, "immediately after a user turn"),
        (contents(person(fc())), "functionCall parts are in turns of the model"),
        (contents(model(fr())), "functionCall parts are in turns of the model"),
        (contents(model(fc("")), person(fr())), "function_call.name: Name cannot be empty."),
        (contents(model(fc(args="{}")), person(fr())), "'contents[1].parts[0].function_call.args'"),
        (contents(model(fc()), person(fr(""))), "function_response.name: Name cannot be empty."),
        (
            contents(model(fc()), person(fr(response="ok"))),
            "function_response.response' (type.goog",
        ),
        (
            contents(model(fc()), person(fr(response=None))),
            "function_response.response' (type.goog",
        ),
        (contents(model(fc()), person(fr(response=[]))), "function_response.response' (type.goog"),
        # signatures
        (contents(model(fc(signature=None)), person(fr())), "`default_api:f` , position 2"),
        (contents(model(fc(signature=None), fc()), person(fr(), fr())), "missing a thought_sig"),
        (
            contents(model(fc()), person(fr()), model(fc(signature=None)), person(fr())),
            "position 4",
        ),
        (contents(model(fc(signature=FOREIGN)), person(fr())), "Corrupted thought signature."),
        (contents(model({"text": "a", "thoughtSignature": FOREIGN})), "Corrupted"),
        (contents(model(fc(signature="!")), person(fr())), "Base64 decoding failed"),
        # tools
        (declared({"name": "1f"}), "function_declarations[0].name: Invalid function name."),
        (declared({"name": "a b"}), "Invalid function name."),
        (declared({"name": "x" * 129}), "Invalid function name."),
        (declared({}), "Invalid function name."),
        (declared({"name": "f"}, {"name": "f"}), "Duplicate function declaration found: f"),
        (declared({"name": "f", "strict": True}), 'Unknown name "strict" at \'tools[0].function_d'),
        (
            declared({"name": "f", "parameters": {}, "parametersJsonSchema": {}}),
            "mutually exclusive",
        ),
        (declared({"name": "f", "parametersJsonSchema": "x"}), "parameters_json_schema' (a JSON"),
        ({"tools": [{"functions": []}]}, "Unknown name \"functions\" at 'tools[0]'"),
        (
            schema({"type": "object", "additionalProperties": False}),
            'Unknown name "additionalProperties" at \'tools[0].function_declarations[0].'
            "parameters': Cannot find field.",
        ),
        (
            prop({"const": 1}),
            "at 'tools[0].function_declarations[0].parameters.properties[0].value'",
        ),
        (prop({"anyOf": [{"$ref": "#"}]}), "properties[0].value.any_of[0]': Cannot find field."),
        (prop({"type": ["string", "null"]}), "Proto field is not repeating, cannot start list."),
        (prop({"type": "array"}), "properties[0].value.items: missing field."),
        (prop({"type": "text"}), "properties[0].value.type' (type.googleapis.com"),
        (prop({"type": "integer", "enum": [1]}), "value.enum[0]' (TYPE_STRING), 1"),
        (schema({"type": "object", "required": ["x"]}), "required[0]: property is not defined"),
        (schema({"type": "object", "required": [["x"]]}), "required[0]: property is not defined"),
        (prop({"mode": None}), 'Unknown name "mode" at \'tools[0].function_declarations[0]'),
        (schema({"type": "object", "properties": []}), "parameters.properties' (type.googleapis"),
        # the tool choice
        (F | calling(mode="SOME"), "tool_config.function_calling_config.mode'"),
        (F | calling(mode="ANY", allowedFunctionNames=["g"]), "g is not one of"),
        (
            F | calling(mode="ANY", allowedFunctionNames=[{}]),
            "allowed_function_names[0]' (TYPE_STR",
        ),
        (F | calling(mode="AUTO", allowedFunctionNames=["f"]), "only when function calling mode"),
        (calling(mode="ANY"), "set without function_declarations."),
        (F | calling(streamFunctionCallArguments=True), "for Vertex"),
        # settings
        ({"generationConfig": {"maxOutputTokens": 0}}, "max_output_tokens: must be positive."),
        ({"generationConfig": {"maxOutputTokens": "9"}}, "max_output_tokens' (TYPE_INT32)"),
        ({"generationConfig": {"temperature": 3}}, "in the range [0.0, 2.0]"),
        ({"generationConfig": {"temperature": True}}, "TYPE_FLOAT"),
        ({"generationConfig": {"stopSequences": [1]}}, "stop_sequences[0]' (TYPE_STRING)"),
        ({"generationConfig": {"thinkingConfig": {"thinkingLevel": "SOME"}}}, "thinking_level'"),
        (
            {"generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW", "thinkingBudget": 1}}},
            "only set only one of thinking budget and thinking level",
        ),
        (contents(person({"inlineData": {"data": "aGk="}})), "mime_type is empty"),
        (formed(responseMimeType="text/html"), "allowed mimetypes are `text/plain`"),
        (formed(responseSchema={"type": "STRING"}), "only allowed when the response mime type"),
        (formed(**JSON, responseSchema={}, responseJsonSchema={}), "only one of response_schema"),
        (formed(**JSON, responseSchema={"type": "map"}), "response_schema.type'"),
    ],
)
def test_what_is_refused_and_how(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_request(**changes)
    assert words in str(caught.value)
    assert (caught.value.status, caught.value.kind) == (400, "INVALID_ARGUMENT")
    assert caught.value.source, "every refusal says where it is known from"


@pytest.mark.parametrize(
    "changes",
    [
        contents(model(fc(signature=None)), person(fr())),
        contents(model(fc(signature=FOREIGN)), person(fr())),
    ],
)
def test_an_older_model_asks_for_no_signature(changes: dict[str, Any]) -> None:
    assert len(parse_request("gemini-2.5-x", **changes).request.messages) == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW"}}}, "Thinking level"),
        (contents(model(fc()), person(fr(parts=[{"inlineData": {}}]))), "Multimodal function"),
        (F | formed(**JSON), "Function calling with a response mime type"),
    ],
)
def test_an_older_model_can_do_less(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        parse_request("gemini-2.5-x", **changes)


@pytest.mark.parametrize(
    "changes",
    [
        contents(model(fc(signature=SKIP_VALIDATOR)), person(fr())),
        contents(model(fc(), fc(signature=None)), person(fr(), fr())),
        # Only what was done since the last prompt must be signed.
        contents(model(fc(signature=None)), person(fr()), model({"text": "a"}), HI),
        contents(model({"thoughtSignature": OWN})),
        contents(model({"thoughtSignature": REAL})),
        # One content for each event of a stream, as Google's own clients keep them.
        contents(model({"text": "a"}), model(fc()), model({"text": ""}), person(fr())),
        contents(model(fc()), model(fc("g", None)), person(fr()), person(fr("g")), person(TEXT)),
        contents(model(fc(), fc("g")), person(fr("g"), fr())),
        contents(model(fc(id="a"), fc(id="b")), person(fr(id="b"), fr(id="a"))),
        prop({"type": "object", "properties": {}}) | calling(mode="ANY"),
        {"contents": [HI, HI]},
        {"contents": [{"parts": [{"text": "no role"}]}]},
        {"contents": [person({"file_data": {"file_uri": "u"}}), model({"executable_code": {}})]},
        declared({"name": "a.b:c-d", "parameters": {"type": "OBJECT", "properties": {}}}),
        {"tools": [{"googleSearch": {}}, {"exaAiSearch": {}}], "modelArmorConfig": {}},
        {"generationConfig": {"thinkingConfig": {"thinkingLevel": "XHIGH"}}},
        {"safety_settings": [], "cachedContent": "c", "labels": {}},
        {"toolConfig": None, "systemInstruction": None, "generationConfig": None},
    ],
)
def test_what_is_taken(changes: dict[str, Any]) -> None:
    assert parse_request(**changes).request.messages


def test_a_sound_request_is_read() -> None:
    call = {"function_call": {"name": "f", "args": {"x": 1}, "id": "a"}, "thought_signature": OWN}
    failed = fr(response={"error": "no"})
    image = {"inline_data": {"mime_type": "image/png", "data": "aGk="}}
    got = parse_request(
        contents=[
            person({"text": "hi"}, image),
            model({"text": "why", "thought": True}, call, fc(signature=None)),
            person(fr(id="a", parts=[image]), failed, {"text": "and?"}),
        ],
        system_instruction={"parts": [{"text": "Be"}, {"text": "brief."}]},
        tools=[
            {
                "function_declarations": [
                    {
                        "name": "f",
                        "description": "Does.",
                        "parameters": {
                            "type": "OBJECT",
                            "properties": {"x": {"type": "ARRAY", "items": {"type": "STRING"}}},
                            "required": ["x"],
                        },
                    },
                    {"name": "g", "parameters_json_schema": {"type": "object", "$schema": "s"}},
                ]
            }
        ],
        generation_config={"max_output_tokens": 9, "thinking_config": {"include_thoughts": True}},
    )
    request = got.request
    assert (request.model, request.system, request.stream) == ("gemini-3-x", "Be\nbrief.", False)
    assert request.params == {"max_tokens": 9, "thinking": True, "format": None}
    f, g = request.tools
    assert f.parameters == {
        "type": "object",
        "properties": {"x": {"type": "array", "items": {"type": "string"}}},
        "required": ["x"],
    }
    assert g.parameters == {"type": "object", "$schema": "s"}
    assert [message.role for message in request.messages] == [
        *("user", "assistant", "results", "user"),
    ]
    kinds = [[part.kind for part in message.parts] for message in request.messages]
    assert kinds == [["text", "image"], ["thinking", "call", "call"], ["result"] * 2, ["text"]]
    result, given = request.messages[1].parts[1], request.messages[2].parts
    assert (result.name, result.text, result.call_id) == ("f", '{"x":1}', "a")
    assert [(part.call_id, part.is_error) for part in given] == [("a", False), ("1.1", True)]
    assert given[0].content == (Content(text="ok"), Content("image", "", "image/png", "aGk="))
    assert given[1].content == (Content(text="no"),)


def test_the_path_says_model_and_method() -> None:
    got = parse_request("a%20b", "streamGenerateContent?alt=sse&key=k")
    assert (got.request.model, got.request.stream, got.stream_type) == ("a b", True, "")
    assert parse_request(method="streamGenerateContent").stream_type == "application/json"


@pytest.mark.parametrize(
    ("config", "choice"),
    [
        ({}, ToolChoice()),
        ({"mode": "AUTO"}, ToolChoice()),
        ({"mode": "any"}, ToolChoice("required")),
        ({"mode": "NONE"}, ToolChoice("none")),
        ({"mode": "VALIDATED"}, ToolChoice()),
        ({"mode": "VALIDATED", "allowedFunctionNames": ["f"]}, ToolChoice(allowed=("f",))),
        ({"mode": "ANY", "allowed_function_names": ["g"]}, ToolChoice("tool", "g")),
        (
            {"mode": "ANY", "allowedFunctionNames": ["f", "g"]},
            ToolChoice("required", allowed=("f", "g")),
        ),
    ],
)
def test_the_tool_choice_is_read(config: dict[str, Any], choice: ToolChoice) -> None:
    assert parse_request(**FG, **calling(**config)).request.choice == choice


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"output": "a", "more": 1}, "a"),
        ({"result": "a"}, "a"),
        ({"return_value": {"b": 1}}, '{"b":1}'),
        ({"a": 1}, '{"a":1}'),
    ],
)
def test_what_a_function_returned_goes_by_several_names(response: Any, text: str) -> None:
    read = parse_request(**contents(model(fc()), person(fr(response=response)))).request
    assert read.messages[2].parts[0].content[0].text == text


def test_calls_without_an_id_are_paired_with_their_results() -> None:
    """Generation 2 sends none; whoever reads on must still know which result is whose."""
    calls = [{"functionCall": {"name": "f", "args": {"x": n}}} for n in (1, 2)]
    results = [{"functionResponse": {"name": "f", "response": {"output": f"{n}"}}} for n in (1, 2)]
    contents = [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": calls},
        {"role": "user", "parts": results},
    ]
    body = json.dumps({"contents": contents}).encode()
    target = "/v1beta/models/gemini-2.5-flash:generateContent"
    _, message, given = parse(body, {}, target).request.messages
    assert [part.call_id for part in message.parts] == [part.call_id for part in given.parts]
    assert len({part.call_id for part in message.parts}) == 2
