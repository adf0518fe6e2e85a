"""Requests of OpenAI Responses and its dialects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from playground.core.messages import Message, MessagePart
from playground.core.tools import FREEFORM, Tool, ToolChoice
from tests.protocols import responses
from tests.protocols.requests import (
    IMAGE,
    TOOL,
    assistant,
    call,
    encoded,
    request,
    result_part,
    results,
    user,
)

GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /a+/"}
WRITER = Tool("write", "Writes.", FREEFORM, format=GRAMMAR)

FEW = ToolChoice("required", allowed=("write", "gone"))

SEALED: dict[str, Any] = {"block": responses.reasoning(encrypted_content="sealed")}
OPEN: dict[str, Any] = {"block": responses.reasoning("Why.")}
HEAD: dict[str, Any] = {
    "block": {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f"}
}

CUSTOM = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c", "name": "write"}


def body_of(*messages: Message, **changes: Any) -> dict[str, Any]:
    return encoded("openai_responses", request(*messages, **changes))[0]


def encode_messages(*messages: Message, **changes: Any) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = body_of(*messages, **changes)["input"]
    return results


def notes(*messages: Message, **changes: Any) -> str:
    return "\n".join(encoded("openai_responses", request(*messages, **changes))[1].notes)


def own(kind: str, text: str = "", **meta: Any) -> MessagePart:
    return MessagePart(kind, text, meta=meta, protocol="openai_responses")


def own_call(id_: str, arguments: str = "{}", name: str = "f", **meta: Any) -> MessagePart:
    return call(id_, arguments, name, meta=meta, protocol="openai_responses")


def test_the_least() -> None:
    body, sent = encoded("openai_responses", request(tools=()))
    assert (sent.method, sent.path, sent.notes) == ("POST", "/responses", ())
    content = [{"type": "input_text", "text": "hi"}]
    assert body == {
        "model": "m",
        "input": [{"type": "message", "role": "user", "content": content}],
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "stream": True,
    }


def test_system_and_tools() -> None:
    body = body_of(system="Be brief.", stream=False, tools=(TOOL, WRITER))
    assert body["instructions"] == "Be brief."
    assert body["tools"] == [
        {
            "type": "function",
            "name": "f",
            "description": "Does f.",
            "parameters": TOOL.parameters,
            "strict": False,
        },
        {"type": "custom", "name": "write", "description": "Writes.", "format": GRAMMAR},
    ]
    assert body_of()["tools"][1]["strict"] is True
    assert "stream" not in body


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ToolChoice(), None),
        (ToolChoice("none"), "none"),
        (ToolChoice("required"), "required"),
        (ToolChoice("tool", "f"), {"type": "function", "name": "f"}),
        (ToolChoice("tool", "write"), {"type": "custom", "name": "write"}),
        (ToolChoice("tool", "gone"), {"type": "function", "name": "gone"}),
        (
            FEW,
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "custom", "name": "write"}],
            },
        ),
        (ToolChoice("none", allowed=("f",)), "none"),
    ],
)
def test_choices(choice: ToolChoice, expected: Any) -> None:
    body = body_of(choice=choice, tools=(TOOL, WRITER))
    assert body.get("tool_choice") == expected
    assert "parallel_tool_calls" not in body
    if choice.mode != "none":
        assert [tool["name"] for tool in body["tools"]] == ["f", "write"]


def test_a_choice_and_nothing_to_choose_from() -> None:
    assert body_of(choice=ToolChoice(parallel=False))["parallel_tool_calls"] is False
    assert "tool_choice" not in body_of(choice=ToolChoice("required"), tools=())
    assert "no tool to choose from" in notes(choice=ToolChoice("required"), tools=())
    assert "tools" not in body_of(choice=ToolChoice(allowed=()))


def test_quirks() -> None:
    plain_body = body_of(
        quirks=("no_allowed_tools", "no_custom_tools", "no_encrypted_reasoning"),
        choice=FEW,
        tools=(TOOL, WRITER),
    )
    assert "include" not in plain_body
    assert plain_body["tool_choice"] == "required"
    (tool,) = plain_body["tools"]
    assert (tool["type"], tool["name"], tool["parameters"]) == ("function", "write", dict(FREEFORM))
    assert "free-form tool write" in notes(quirks=("no_custom_tools",), tools=(WRITER,))


@pytest.mark.parametrize(
    ("params", "expected", "note"),
    [
        ({"max_tokens": 20, "temperature": 0}, {"max_output_tokens": 20, "temperature": 0}, ""),
        ({"top_p": 0.5}, {"top_p": 0.5}, ""),
        ({"stop": ["x"]}, {"stop": None}, "setting stop was left out"),
        ({"stop": []}, {"stop": None}, ""),
        ({"thinking": "low"}, {"reasoning": {"effort": "low", "summary": "auto"}}, ""),
        ({"thinking": True}, {"reasoning": {"summary": "auto"}}, ""),
        ({"thinking": {"effort": "high"}}, {"reasoning": {"effort": "high"}}, ""),
        ({"thinking": 4096}, {"reasoning": None}, "setting thinking was left out"),
    ],
)
def test_params(params: dict[str, Any], expected: dict[str, Any], note: str) -> None:
    body = body_of(params=params)
    assert {key: body.get(key) for key in expected} == expected
    assert note in notes(params=params)
    assert bool(note) == bool(notes(params=params))


def test_a_person_shows_images() -> None:
    prompt = Message("user", (MessagePart("image", content=(IMAGE,)), MessagePart("text", "See?")))
    picture = {
        "type": "input_image",
        "detail": "auto",
        "image_url": "data:image/png;base64,aGk=",
    }
    assert encode_messages(prompt)[0]["content"] == [
        picture,
        {"type": "input_text", "text": "See?"},
    ]
    assert encode_messages(user(" ")) == []
    answered = results(result_part("c1", "Here:", IMAGE))
    assert encode_messages(assistant(call("c1")), answered)[1]["output"] == [
        {"type": "input_text", "text": "Here:"},
        picture,
    ]


def test_calls_and_results_of_any_provider() -> None:
    items = encode_messages(
        assistant(MessagePart("text", "I look."), call("a", ""), call("x" * 65), call("a")),
        results(
            result_part("a", "1"), result_part("x" * 65, "no", is_error=True), result_part("a")
        ),
    )
    text = [{"type": "output_text", "annotations": [], "text": "I look."}]
    assert items[0] == {"type": "message", "role": "assistant", "content": text}
    calls, outputs = items[1:4], items[4:]
    assert calls[0] == {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    assert [call["call_id"] for call in calls] == [output["call_id"] for output in outputs]
    assert len({call["call_id"] for call in calls}) == 3
    assert all(len(call["call_id"]) <= 64 for call in calls)
    assert [output["output"] for output in outputs] == ["1", "Error: no", ""]
    failed = results(result_part("a", "no", is_error=True))
    assert "begin with Error" in notes(assistant(call("a")), failed)


def test_own_items_go_back_as_they_came() -> None:
    thought = responses.reasoning("Why.", "So.", encrypted_content="sealed")
    block = responses.message()
    del block["content"]
    head = responses.call()
    del head["arguments"]
    cited = {"type": "output_text", "annotations": [{"type": "url_citation"}]}
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    turn = assistant(
        own("thinking", "Why."),
        own("thinking", "So.", block=thought),
        own("server_call", "", block=search),
        own("text", "a", block=block, content=cited),
        own("refusal", "No.", block=block, content={"type": "refusal"}),
        own_call("call_1", '{"x": 2}', block=head),
    )
    pieces = [{**cited, "text": "a"}, {"type": "refusal", "refusal": "No."}]
    assert encode_messages(turn, results(result_part("call_1", "1")))[:4] == [
        thought,
        search,
        {**block, "content": pieces},
        {**head, "arguments": '{"x": 2}'},
    ]
    assert notes(turn) == ""


@pytest.mark.parametrize(
    ("parts", "types", "note"),
    [
        # Nothing came of it, or what came of it cannot be sent.
        ([own("thinking", **SEALED)], [], "without a following item"),
        (
            [own("thinking", **SEALED), own("server_call", block={"type": "computer_call"})],
            [],
            "computer_call without an output",
        ),
        (
            [own_call("a", **HEAD), own("thinking", **SEALED)],
            ["function_call"],
            "without a following item",
        ),
        # A server that stored nothing could not read it.
        ([own("thinking", **OPEN), own_call("a", **HEAD)], ["function_call"], "encrypted content"),
        (
            [own("thinking", **SEALED), own_call("a", **HEAD)],
            ["reasoning", "function_call"],
            "",
        ),
        (
            [MessagePart("thinking", "Hm."), MessagePart("text", "a")],
            ["message"],
            "thinking parts that came by another protocol",
        ),
    ],
)
def test_reasoning_goes_with_what_it_led_to(
    parts: list[MessagePart], types: list[str], note: str
) -> None:
    messages = [assistant(*parts)]
    messages += [results(result_part("a", "1"))] if any(p.kind == "call" for p in parts) else []
    items = [data for data in encode_messages(*messages) if not data["type"].endswith("_output")]
    assert [item["type"] for item in items] == types
    assert note in notes(*messages)
    # An item that has lost its reasoning must not ask for it by its id.
    assert all(("id" in item) == ("reasoning" in types) for item in items)


def test_reasoning_in_the_open_goes_where_nothing_is_sealed() -> None:
    turn = (
        assistant(own("thinking", **OPEN), own_call("a", **HEAD)),
        results(result_part("a", "1")),
    )
    assert encode_messages(*turn, quirks=("no_encrypted_reasoning",))[0] == OPEN["block"]
    answer = responses.reasoning(content=[{"type": "reasoning_text", "text": "Why."}])
    message = assistant(own("thinking", block=answer), own_call("a", **HEAD))
    assert encode_messages(message, turn[1])[0] == answer


@pytest.mark.parametrize(
    ("part", "quirks", "sent"),
    [
        (own_call("c", '{"input": "aé"}', "write", type="custom", block=CUSTOM), (), "custom"),
        (call("c", '{"input": "aé"}', "write"), (), "custom"),
        (
            own_call("c", '{"input": "aé"}', "write", type="custom", block=CUSTOM),
            ("no_custom_tools",),
            "function",
        ),
        (call("c", '{"other": 1}', "write"), (), "function"),
    ],
)
def test_free_form_calls(part: MessagePart, quirks: tuple[str, ...], sent: str) -> None:
    history = (assistant(part), results(result_part("c", "ok")))
    item, output = encode_messages(*history, tools=(WRITER,), quirks=quirks)
    if sent == "custom":
        assert (item["type"], item["input"]) == ("custom_tool_call", "aé")
        assert output["type"] == "custom_tool_call_output"
        assert "arguments" not in item
    else:
        assert (item["type"], item["arguments"]) == ("function_call", part.text)
        assert output["type"] == "function_call_output"
        assert "id" not in item


def test_a_cut_turn_and_an_invented_name() -> None:
    assert encode_messages(assistant(own("text", "Half")))[0]["content"][0]["text"] == "Half"
    item = encode_messages(assistant(call("a", name="no such")), results(result_part("a")))[0]
    assert item["name"] == "no_such"


def test_an_id_goes_out_once() -> None:
    long = {**HEAD["block"], "id": "fc_" + "x" * 70}
    turn = assistant(own_call("a", **HEAD), own_call("b", **HEAD), own_call("c", block=long))
    items = encode_messages(turn, results(result_part("a"), result_part("b"), result_part("c")))
    assert [item.get("id") for item in items[:3]] == ["fc_1", None, None]


@pytest.mark.parametrize(
    ("model", "has_include"),
    [("gpt-5-mini", True), ("o4-mini", True), ("gpt-4o-mini", False), ("openai/gpt-4.1", False)],
)
def test_models_that_do_not_reason_are_not_asked_for_it(model: str, has_include: bool) -> None:
    body = encoded("openai_responses", replace(request(), model=model))[0]
    assert ("include" in body) == has_include
    assert body["store"] is False


def test_what_was_cut_goes_without_ids_and_without_its_reasoning() -> None:
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    spoken = own("text", "a", block=message)
    (item,) = encode_messages(assistant(replace(spoken, complete=False)))
    assert "id" not in item
    cut = replace(own("thinking", "Hm"), complete=False)
    for quirks in ((), ("no_encrypted_reasoning",)):
        (item,) = encode_messages(assistant(cut, spoken), quirks=quirks)
        assert "id" not in item
    assert "Incomplete reasoning" in notes(assistant(cut, spoken))
    search = own("server_call", block={"type": "web_search_call", "id": "ws_1"})
    assert (
        encode_messages(assistant(replace(search, complete=False), spoken))[0]["type"] == "message"
    )
    assert "server call parts that were incomplete" in notes(
        assistant(replace(search, complete=False))
    )


def test_items_that_came_from_another_model_are_left_out() -> None:
    sealed = replace(own("thinking", **SEALED), protocol="", origin="model")
    part = replace(own_call("a", **HEAD), protocol="", origin="model")
    items = encode_messages(assistant(sealed, part), results(result_part("a", "1")))
    assert [item["type"] for item in items] == ["function_call", "function_call_output"]
    assert "id" not in items[0]
    assert "thinking parts that came from another model." in notes(assistant(sealed, part))
