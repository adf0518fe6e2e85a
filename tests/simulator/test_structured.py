"""Answers in the form that was asked for, on every protocol; the tools that end a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest

from playground.core.messages import Message
from playground.core.tools import Tool, ToolChoice
from playground.protocols.server import ModelReply
from playground.simulator.app import ENDS
from playground.simulator.model import is_final
from playground.simulator.model import reply as model_reply
from tests.simulator.client_loop import SHAPES, loop
from tests.simulator.factories import WEATHER, asking, calls_message, results, user

PROMPT = "What is the weather in Paris? Answer as JSON."
REPORT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "temperature": {"type": "number"},
        "sky": {"$ref": "#/$defs/sky"},
        "summary": {"type": "string"},
    },
    "required": ["city", "temperature", "sky", "summary"],
    "additionalProperties": False,
    "$defs": {"sky": {"enum": ["cloudy", "sunny"], "type": "string"}},
}
PLAIN = {
    "type": "OBJECT",
    "properties": {
        "days": {"type": "ARRAY", "items": {"type": "INTEGER"}, "minItems": "2"},
        "mood": {"type": "STRING", "enum": ["low", "high"]},
    },
    "required": ["days", "mood"],
}
GEMINI_REPORT = {
    "type": "OBJECT",
    "properties": {
        "city": {"type": "STRING"},
        "temperature": {"type": "NUMBER"},
        "sky": {"type": "STRING", "enum": ["cloudy", "sunny"]},
        "summary": {"type": "STRING"},
    },
    "required": ["city", "temperature", "sky", "summary"],
}
CHAT = {"model": "m", "messages": [{"role": "user", "content": PROMPT}]}
GEMINI = {"contents": [{"role": "user", "parts": [{"text": PROMPT}]}]}

RAIN = ("c1", "get_weather", '{"city": "Paris"}')
SAID = '{"temperature": 18, "unit": "celsius", "condition": "sunny"}'
FINAL = Tool("final_result", "The final response which ends this conversation.", REPORT)
OTHER = Tool("WeatherReport", "A report on the weather.", REPORT)
END = Tool(
    "final_answer",
    "Provides a final answer to the given problem.",
    {"type": "object", "properties": {"answer": {}}, "required": ["answer"]},
)
FORCED = ToolChoice("required")


def gemini(**config: Any) -> dict[str, Any]:
    return {**GEMINI, "generationConfig": {"responseMimeType": "application/json", **config}}


def answer(name: str, body: dict[str, Any]) -> str:
    """What the model answers to a body that the end of this name has read."""
    end = next(end for end in ENDS if end.name == name)
    headers = {"anthropic-version": "2023-06-01"}
    parsed = end.parse(json.dumps(body).encode(), headers, end.path)
    return model_reply(parsed.request).text


def schema_format(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "name": "report", "schema": schema, "strict": True}


FORMS: dict[str, tuple[str, Callable[[Any], dict[str, Any]]]] = {
    "response_format": (
        "openai_chat",
        lambda s: {
            **CHAT,
            "response_format": {"type": "json_schema", "json_schema": schema_format(s)},
        },
    ),
    "text.format": (
        "openai_responses",
        lambda s: {"model": "m", "input": PROMPT, "text": {"format": schema_format(s)}},
    ),
    "output_config": (
        "anthropic",
        lambda s: {
            **CHAT,
            "max_tokens": 4000,
            "output_config": {"format": {"type": "json_schema", "schema": s}},
        },
    ),
    "output_format": (
        "anthropic",
        lambda s: {
            **CHAT,
            "max_tokens": 4000,
            "output_format": {"type": "json_schema", "schema": s},
        },
    ),
    "responseJsonSchema": ("gemini", lambda s: gemini(responseJsonSchema=s)),
    "format": ("ollama", lambda s: {**CHAT, "format": s}),
}


def _members(body: dict[str, Any]) -> dict[str, Any]:
    """The members of a request without its messages."""
    return {name: body[name] for name in body if name not in ("messages", "input", "contents")}


@pytest.mark.parametrize(("end", "body"), FORMS.values())
def test_an_answer_satisfies_the_schema_that_was_asked_for(
    end: str, body: Callable[[Any], dict[str, Any]]
) -> None:
    value = json.loads(answer(end, body(REPORT)))
    jsonschema_rs.validate(REPORT, value)
    assert value["city"] == "Paris"


@pytest.mark.parametrize(
    ("end", "members"),
    [
        *((end, _members(body(REPORT))) for end, body in FORMS.values()),
        ("gemini", _members(gemini(responseSchema=GEMINI_REPORT))),
    ],
)
def test_the_answer_after_tool_calls_satisfies_the_schema(
    end: str, members: dict[str, Any]
) -> None:
    for shape in SHAPES[::18]:
        names, text = loop(end, {**shape, "split": False, "ids": "own"}, **members)
        assert names == ["calculator", "get_weather"]
        jsonschema_rs.validate(REPORT, json.loads(text))


@pytest.mark.parametrize(
    ("end", "body"),
    [
        ("openai_chat", {**CHAT, "response_format": {"type": "json_object"}}),
        (
            "openai_responses",
            {"model": "m", "input": PROMPT, "text": {"format": {"type": "json_object"}}},
        ),
        ("gemini", gemini()),
        ("ollama", {**CHAT, "format": "json"}),
    ],
)
def test_any_object_will_do_where_no_schema_was_given(end: str, body: dict[str, Any]) -> None:
    assert isinstance(json.loads(answer(end, body)), dict)


def test_a_schema_that_stands_in_the_prompt_is_met() -> None:
    """As clients do that ask for any object: instructor in its mode JSON."""
    output = (
        f"Answer in json that matches this json_schema:\n\n{json.dumps(REPORT, indent=2)}\n\nNow."
    )
    messages = [{"role": "system", "content": output}, *CHAT["messages"]]
    body = {**CHAT, "messages": messages, "response_format": {"type": "json_object"}}
    jsonschema_rs.validate(REPORT, json.loads(answer("openai_chat", body)))


def test_schemas_in_words_of_openapi_are_satisfied_too() -> None:
    value = json.loads(answer("gemini", gemini(responseSchema=PLAIN)))
    assert len(value["days"]) == 2
    assert value["mood"] in ("low", "high")
    listed = {"type": "STRING", "enum": ["cat", "dog"]}
    bare = answer("gemini", gemini(responseMimeType="text/x.enum", responseSchema=listed))
    assert bare in ("cat", "dog")


@pytest.mark.parametrize(
    ("end", "body"),
    [
        ("openai_chat", {**CHAT, "response_format": {"type": "text"}}),
        ("openai_responses", {"model": "m", "input": PROMPT, "text": {"verbosity": "low"}}),
        ("gemini", gemini(responseMimeType="text/plain")),
        ("ollama", {**CHAT, "format": ""}),
        ("anthropic", {**CHAT, "max_tokens": 400, "output_config": {"effort": "low"}}),
    ],
)
def test_words_stay_words(end: str, body: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Expecting value"):
        json.loads(answer(end, body))


# What is said in the form, and what is called until then.


def reply(*messages: Message, **request: Any) -> ModelReply:
    return model_reply(asking(*messages, **request))


def test_the_calls_come_first_then_json_of_what_they_gave() -> None:
    prompt = user("What is the weather in Paris?")
    first = reply(prompt, format={"schema": REPORT})
    assert [(block.kind, block.name) for block in first.blocks] == [("call", "get_weather")]
    last = reply(prompt, calls_message(RAIN), results(("c1", SAID)), format={"schema": REPORT})
    value = json.loads(last.text)
    jsonschema_rs.validate(REPORT, value)
    assert (value["city"], value["temperature"]) == ("Paris", 18)
    assert "sunny" in value["summary"]


def test_a_list_has_an_item_for_each_result() -> None:
    both = calls_message(RAIN, ("c2", "get_weather", '{"city": "Rome"}'))
    came = results(("c1", '{"temperature": 18}'), ("c2", '{"temperature": 25}'))
    item: dict[str, Any] = {
        "properties": {"city": {"type": "string"}, "temperature": {"type": "integer"}}
    }
    item |= {"type": "object", "required": ["city", "temperature"]}
    schema = {
        "type": "object",
        "properties": {"cities": {"type": "array", "items": item}},
        "required": ["cities"],
    }
    last = reply(user("Weather in Paris and Rome?"), both, came, format={"schema": schema})
    cities = [(city["city"], city["temperature"]) for city in json.loads(last.text)["cities"]]
    assert cities == [("Paris", 18), ("Rome", 25)]


@pytest.mark.parametrize(
    ("tools", "choice", "calls"),
    [
        ((WEATHER, FINAL), FORCED, ["get_weather", "final_result", "final_result"]),
        ((WEATHER, FINAL), ToolChoice(), ["get_weather", "final_result", ""]),
        ((WEATHER, END), FORCED, ["get_weather", "final_answer", "final_answer"]),
        ((WEATHER, OTHER), FORCED, ["get_weather", "WeatherReport", "get_weather"]),
        ((WEATHER,), FORCED, ["get_weather", "get_weather"]),
        ((WEATHER,), ToolChoice(), ["get_weather", ""]),
        ((FINAL,), FORCED, ["final_result"]),
        ((WEATHER, FINAL), ToolChoice("tool", "final_result"), ["final_result", "final_result"]),
        ((WEATHER, FINAL), ToolChoice("tool", "get_weather"), ["get_weather", "get_weather"]),
    ],
)
def test_a_run_that_must_call_comes_to_its_end(
    tools: tuple[Tool, ...], choice: ToolChoice, calls: list[str]
) -> None:
    history = [user("What is the weather in Paris?")]
    items = []
    for number in range(len(calls)):
        answer = reply(*history, tools=tools, choice=choice)
        items.append(answer.calls[0].name if answer.calls else "")
        for block in answer.calls:
            tool = next(tool for tool in tools if tool.name == block.name)
            jsonschema_rs.validate(dict(tool.parameters), json.loads(block.text))
            history += [
                calls_message((f"c{number}", block.name, block.text)),
                results((f"c{number}", SAID)),
            ]
    assert items == calls


def test_what_ends_a_run_tells_what_was_found() -> None:
    history = (user("What is the weather in Paris?"), calls_message(RAIN), results(("c1", SAID)))
    [block] = reply(*history, tools=(WEATHER, FINAL), choice=FORCED).calls
    assert json.loads(block.text)["temperature"] == 18
    [block] = reply(*history, tools=(WEATHER, END), choice=FORCED).calls
    assert "18 °C" in json.loads(block.text)["answer"]


def test_the_last_answer_is_given_again_where_it_was_refused() -> None:
    ended = ("c2", "final_result", "{}")
    history = (
        user("Weather in Paris?"),
        calls_message(RAIN),
        results(("c1", SAID)),
        calls_message(ended),
    )
    refused = results(("c2", "Field required: city"), is_error=True)
    [block] = reply(*history, refused, tools=(WEATHER, FINAL)).calls
    assert block.name == "final_result"


@pytest.mark.parametrize(
    ("name", "final"),
    [
        ("final_answer", True),
        ("final_result_Fruit", True),
        ("StructuredOutput", True),
        ("attempt_completion", True),
        ("finish_order", False),
        ("get_result", False),
        ("donee", False),
    ],
)
def test_tools_that_end_a_run_are_known_by_their_names(name: str, final: bool) -> None:
    assert is_final(Tool(name)) is final
