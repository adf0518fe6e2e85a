"""Gemini's server end: the official package, unchanged, and what its protocol cannot say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from playground.core.events import ResponseEnded, ResponseFailed
from playground.core.messages import Message, MessagePart, ModelRequest
from playground.core.tools import ToolChoice
from playground.protocols.base import requested_wait
from playground.protocols.gemini.decode import CODEC
from playground.protocols.gemini.server import END, answer_body, error, frames
from playground.protocols.server import IdSource, ModelReply, ParsedRequest, ReplyBlock, call
from playground.simulator.fault_transport import retry
from tests.protocols.frames import end_of, events_of, parts_of
from tests.servers import NO_TLS
from tests.tables import rest_slow

if TYPE_CHECKING:  # half a second of each worker, also of those that run no test of it
    from google import genai
    from google.genai import types

PROMPT = "What is 17*23, and the weather in Paris?"
RESULTS: dict[str, dict[str, Any]] = {
    "calculator": {"output": "391"},
    "get_weather": {"output": {"temperature": 18}},
}
DECLARED: list[Any] = [
    {
        "name": "calculator",
        "parameters": {"type": "OBJECT", "properties": {"expression": {"type": "STRING"}}},
    },
    {
        "name": "get_weather",
        "parameters_json_schema": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
]
THREE, TWO = "gemini-3-simulated", "gemini-2.5-simulated"

STAMP = IdSource("seed", 1)

REPLY = ModelReply(
    (ReplyBlock("thinking", "Hm."), ReplyBlock("text", "Grüße\n\n世界"), call("f", '{"x": 1.50}'))
)


@pytest.fixture
def client(simulator: str) -> Iterator[genai.Client]:
    from google import genai
    from google.genai import types

    options = types.HttpOptions(base_url=simulator + "/gemini", api_version="v1beta")
    with genai.Client(api_key="k", http_options=options) as client:
        yield client


def config(**changes: Any) -> types.GenerateContentConfig:
    from google.genai import types

    config_fields: dict[str, Any] = {
        "tools": [types.Tool(function_declarations=DECLARED)],
        "automatic_function_calling": types.AutomaticFunctionCallingConfig(disable=True),
        "thinking_config": types.ThinkingConfig(include_thoughts=True),
    }
    return types.GenerateContentConfig(**{**config_fields, **changes})


def parts_said(
    client: genai.Client, model: str, contents: list[Any], stream: bool, **changes: Any
) -> list[types.Part]:
    from google.genai import types

    body: Any = {"model": model, "contents": contents, "config": config(**changes)}
    if stream:
        events: list[Any] = list(client.models.generate_content_stream(**body))
    else:
        events = [client.models.generate_content(**body)]
    assert events[-1].candidates[0].finish_reason == types.FinishReason.STOP
    assert all(event.usage_metadata.total_token_count > 1 for event in events)
    return [part for event in events for part in event.candidates[0].content.parts or ()]


@pytest.mark.parametrize("stream", rest_slow([True, False]))
@pytest.mark.parametrize("model", [THREE, TWO])
def test_the_google_package_runs_a_whole_loop(
    client: genai.Client, model: str, stream: bool
) -> None:
    from google.genai import types

    contents: list[Any] = [types.UserContent(PROMPT)]
    for _ in range(3):
        parts = parts_said(client, model, contents, stream)
        calls = [part.function_call for part in parts if part.function_call]
        if not calls:
            break
        assert [(call.name, call.args) for call in calls] == [
            ("calculator", {"expression": "17*23"}),
            ("get_weather", {"city": "Paris"}),
        ]
        assert [bool(call.id) for call in calls] == [model == THREE] * 2
        signed = [bool(part.thought_signature) for part in parts if part.function_call]
        assert signed == [model == THREE, False]
        answers = [
            types.FunctionResponse(id=call.id, name=call.name, response=RESULTS[str(call.name)])
            for call in calls
        ]
        contents.append(types.Content(role="model", parts=parts))
        contents.append(
            types.UserContent([types.Part(function_response=answer) for answer in answers])
        )
    text = "".join(part.text for part in parts if part.text and not part.thought)
    assert any(part.thought for part in parts)
    assert "391" in text
    assert "18" in text


def test_the_google_package_reads_the_list_and_the_errors(client: genai.Client) -> None:
    from google.genai import errors, types

    assert [model.name for model in client.models.list()] == [f"models/{THREE}", f"models/{TWO}"]
    forced = types.ToolConfig(
        function_calling_config=types.FunctionCallingConfig(
            mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=["get_weather"]
        )
    )
    parts = parts_said(client, TWO, ["Hello."], stream=False, tool_config=forced)
    assert [part.function_call.name for part in parts if part.function_call] == ["get_weather"]
    with pytest.raises(errors.ClientError, match=r"400 INVALID_ARGUMENT.*valid role"):
        client.models.generate_content(
            model=TWO, contents=[types.Content(role="system", parts=[types.Part(text="x")])]
        )


def test_a_key_may_stand_in_the_query_and_a_stream_be_an_array(simulator: str) -> None:
    body = {"contents": [{"parts": [{"text": "Hello."}]}]}
    url = f"{simulator}/gemini/v1beta/models/{TWO}:streamGenerateContent"
    for query, kind in (("key=k", "application/json"), ("alt=sse&key=k", END.stream_type)):
        answer = httpx.post(f"{url}?{query}", json=body, timeout=30, verify=NO_TLS)
        assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
        assert isinstance(end_of(events_of("gemini", answer.content)), ResponseEnded)
    assert httpx.post(url, json=body, timeout=30, verify=NO_TLS).status_code == 403


# What goes out, byte for byte.


def make_request(model: str = THREE, **more: Any) -> ParsedRequest:
    request = ModelRequest(
        model, "", (Message("user", (MessagePart("text", "hi"),)),), (), ToolChoice()
    )
    return ParsedRequest(request, 3, **more)


def both(reply: ModelReply, **more: Any) -> list[bytes]:
    """The answer as events, as an array and as a document."""
    array = make_request(stream_type="application/json", **more)
    return [
        b"".join(frame.data for frame in frames(reply, make_request(**more), STAMP)),
        b"".join(frame.data for frame in frames(reply, array, STAMP)),
        answer_body(reply, make_request(**more), STAMP),
    ]


def test_three_forms_of_one_answer_say_the_same() -> None:
    lines = []
    for body in both(REPLY):
        whole_ = events_of("gemini", body)
        end = end_of(whole_)
        assert isinstance(end, ResponseEnded)
        assert (end.reason, end.raw_reason) == ("calls", "STOP")
        lines.append([(kind, part.text, part.meta) for kind, part in parts_of(whole_)])
        counted = end.usage
        assert (counted.input_tokens, counted.output_tokens, counted.reasoning_tokens) == (3, 13, 1)
    assert lines[0] == lines[1] == lines[2]
    assert [text for _, text, _ in lines[0]] == ["Hm.", "Grüße\n\n世界", '{"x": 1.50}']


def test_events_end_like_windows_lines_and_an_array_is_one_document() -> None:
    events, array, document = both(REPLY)
    assert events.count(b"\r\n\r\n") == events.count(b"data: ")
    assert b"\n" not in events.replace(b"\r\n", b"")
    assert len(json.loads(array)) == events.count(b"data: ")
    assert json.loads(document)["candidates"][0]["content"]["role"] == "model"


def test_only_the_third_generation_signs_and_numbers_its_calls() -> None:
    reply = ModelReply((call("f", {}), call("f", {})), "calls")
    for model, signed in ((THREE, True), (TWO, False)):
        for body in both(reply, model=model):
            first, second = (part for _, part in parts_of(events_of("gemini", body)))
            assert ("part" in first.meta, "part" in second.meta) == (signed, False)
            assert (first.provider_id != "", second.provider_id != "") == (signed, signed)
        text = parts_of(
            events_of("gemini", both(ModelReply((ReplyBlock("text", "a"),)), model=model)[0])
        )
        assert len(text) == 1 + signed  # the signature stands on an empty text of its own


@pytest.mark.parametrize(
    "raw", ["Sure! {", "[1]", "42", "null", '{"x": NaN}', '{"a": 1} {"a": 1}', "[" * 50_000]
)
def test_arguments_that_are_no_object_end_the_answer(raw: str) -> None:
    """As the real one: nothing of the call, but a reason and a message for it."""
    for body in both(ModelReply((ReplyBlock("text", "So. "), call("f", raw)), "calls")):
        lines = events_of("gemini", body)
        end = end_of(lines)
        assert isinstance(end, ResponseFailed)
        assert end.raw_reason == "MALFORMED_FUNCTION_CALL"
        assert f"Malformed function call: f({raw[:5]}" in end.message
        assert [kind for kind, _ in parts_of(lines)].count("call") == 0


@pytest.mark.parametrize(
    "raw",
    ["", "{}", '{"x": 1, "x": 2}', f'{{"x": {"7" * 5000}}}', '{"x": "\\ud800"}', '{\r\n"x":\n1}'],
)
def test_arguments_that_are_an_object_travel_to_the_letter(raw: str) -> None:
    for body in both(ModelReply((call("f", raw),), "calls")):
        ((_, part),) = (
            (kind, p) for kind, p in parts_of(events_of("gemini", body)) if kind == "call"
        )
        assert part.text.split() == raw.split()
        assert part.meta.get("absent", False) == (raw == "")


def test_a_call_that_was_cut_by_length_is_thrown_away() -> None:
    for body in both(ModelReply((call("f", '{"x": 1}'), call("f", '{"x": ')), "length")):
        lines = events_of("gemini", body)
        end = end_of(lines)
        assert isinstance(end, ResponseEnded)
        assert (end.reason, end.raw_reason) == ("length", "MAX_TOKENS")
        assert [part.text for kind, part in parts_of(lines) if kind == "call"] == ['{"x": 1}']


@pytest.mark.parametrize(
    ("stop", "raw"), [("stop", "STOP"), ("refusal", "SAFETY"), ("banana", "banana")]
)
def test_the_finish_reason_is_in_googles_words(stop: str, raw: str) -> None:
    for body in both(ModelReply((ReplyBlock("text", "a"),), stop)):
        assert end_of(events_of("gemini", body)).raw_reason == raw


def test_an_error_says_in_its_body_when_to_come_back() -> None:
    canned = retry(END, 7, "k")
    assert "retry-after" not in canned.headers
    output = json.loads(canned.body)["error"]
    assert (output["code"], output["status"], requested_wait(output)) == (
        429,
        "RESOURCE_EXHAUSTED",
        7.0,
    )


def test_a_refused_key_has_a_reason() -> None:
    output = json.loads(error(END.bad_key("k"), ""))["error"]
    assert (output["code"], output["status"]) == (400, "INVALID_ARGUMENT")
    assert output["details"][0]["reason"] == "API_KEY_INVALID"
    assert END.no_key is not None
    assert json.loads(error(END.no_key, ""))["error"]["status"] == "PERMISSION_DENIED"


def test_keys_travel_in_either_header() -> None:
    assert END.key({"x-goog-api-key": "k"}) == END.key({"authorization": "Bearer k"}) == "k"
    assert END.key({"authorization": "Basic k"}) == ""


def test_its_models_can_be_listed_by_the_codec() -> None:
    listed = CODEC.models(json.loads(END.models(0)))
    assert [(model_info.id, model_info.window) for model_info in listed] == [
        (THREE, 1_048_576),
        (TWO, 1_048_576),
    ]
