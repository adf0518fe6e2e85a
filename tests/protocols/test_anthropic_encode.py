"""Requests of Anthropic Messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from playground.core.messages import Message, MessagePart, ModelRequest
from playground.core.tools import FREEFORM, Tool, ToolChoice
from tests.protocols.requests import (
    IMAGE,
    assistant,
    call,
    encoded,
    request,
    result_part,
    results,
    user,
)

FORCED = ToolChoice("required")

THOUGHT = {"type": "thinking"}
SEARCH = {"type": "server_tool_use", "name": "web_search"}
FOUND = {"type": "web_search_tool_result", "content": []}

SAID = MessagePart("text", "a", protocol="anthropic")

UNSIGNED = "Left out of the history: thinking parts that came without their signature."
UNPAIRED = " parts that came incomplete or without their counterpart."
PAIR = ["server_tool_use", "web_search_tool_result"]


def body_of(*messages: Message, **changes: Any) -> dict[str, Any]:
    return encoded("anthropic", request(*messages, **changes))[0]


def encode_messages(*messages: Message) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = body_of(*messages)["messages"]
    return results


def notes(wanted: ModelRequest) -> tuple[str, ...]:
    return encoded("anthropic", wanted)[1].notes


def own(kind: str, text: str = "", **block: Any) -> MessagePart:
    return MessagePart(kind, text, meta={"block": block}, protocol="anthropic")


def test_the_least() -> None:
    body, sent = encoded("anthropic", request(tools=()))
    assert (sent.method, sent.path, sent.notes) == ("POST", "/v1/messages", ())
    assert sent.headers["anthropic-version"] == "2023-06-01"
    assert sent.headers["content-type"] == "application/json"
    assert body == {
        "model": "m",
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "stream": True,
    }
    assert b": " not in sent.body


def test_system_tools_and_strict_only_where_set() -> None:
    body = body_of(system="Be brief.", stream=False)
    assert body["system"] == "Be brief."
    assert body["tools"][0] == {
        "name": "f",
        "description": "Does f.",
        "input_schema": {"type": "object", "properties": {"x": {"type": "integer"}}},
    }
    assert (body["tools"][1]["name"], body["tools"][1]["strict"]) == ("g", True)
    assert "stream" not in body


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ToolChoice(), None),
        (ToolChoice(parallel=False), {"type": "auto", "disable_parallel_tool_use": True}),
        (ToolChoice("required"), {"type": "any"}),
        (ToolChoice("tool", "g"), {"type": "tool", "name": "g"}),
        (
            ToolChoice("tool", "g", parallel=False),
            {"type": "tool", "name": "g", "disable_parallel_tool_use": True},
        ),
        (ToolChoice("none", parallel=False), {"type": "none"}),
    ],
)
def test_choices(choice: ToolChoice, expected: Any) -> None:
    assert body_of(choice=choice).get("tool_choice") == expected


def test_a_choice_among_no_tools_is_left_out_with_a_note() -> None:
    wanted = request(tools=(), choice=ToolChoice("required"))
    assert "tool_choice" not in encoded("anthropic", wanted)[0]
    assert len(notes(wanted)) == 1


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"temperature": 0, "top_p": 0.5}, {"temperature": 0, "top_p": 0.5, "max_tokens": 4096}),
        ({"stop": "END"}, {"stop_sequences": ["END"], "max_tokens": 4096}),
        ({"stop": ["A", ""]}, {"stop_sequences": ["A"], "max_tokens": 4096}),
        ({"max_tokens": 7}, {"max_tokens": 7}),
        (
            {"thinking": 2000},
            {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 4096},
        ),
        (
            {"thinking": "high"},
            {"thinking": {"type": "enabled", "budget_tokens": 16384}, "max_tokens": 20480},
        ),
        (
            {"thinking": {"type": "adaptive"}},
            {"thinking": {"type": "adaptive"}, "max_tokens": 4096},
        ),
        ({"thinking": False, "temperature": None}, {"max_tokens": 4096}),
    ],
)
def test_params(params: dict[str, Any], expected: dict[str, Any]) -> None:
    body = body_of(tools=(), params=params)
    assert {k: v for k, v in body.items() if k not in ("model", "messages", "stream")} == expected


def test_what_has_no_word_is_noted_and_extra_wins() -> None:
    wanted = request(params={"thinking": 1.5}, extra={"max_tokens": 1, "metadata": {}})
    body, sent = encoded("anthropic", wanted)
    assert (body["max_tokens"], body["metadata"]) == (1, {})
    assert len(sent.notes) == 2


@pytest.mark.parametrize(
    ("model", "changes", "note"),
    [
        ("claude-fable-5-1", {"choice": FORCED}, "refuses a forced tool"),
        (
            "anthropic/claude-opus-5.5-20260920",
            {"choice": ToolChoice("tool", "f")},
            "in the prom",
        ),
        ("claude-fable-5", {"choice": FORCED}, ""),
        ("claude-fable-5-1", {}, ""),
        ("m", {"choice": FORCED, "params": {"thinking": 2000}}, "while thinking is on"),
        ("m", {"choice": FORCED, "params": {"thinking": "adaptive"}}, "while thinking is on"),
        ("m", {"choice": FORCED, "params": {"thinking": "disabled"}}, ""),
        ("claude-opus-4-7", {"params": {"thinking": 2000}}, "refuses a thinking budget"),
        ("claude-opus-4-6", {"params": {"thinking": 2000}}, ""),
        ("claude-sonnet-5-5", {"params": {"temperature": 0}}, "temperature"),
        ("claude-fable-5", {"params": {"thinking": "disabled"}}, "always thinks"),
        ("claude-opus-5", {"params": {"thinking": "disabled"}}, ""),
        ("m", {"params": {"thinking": 2000, "temperature": 0.5}}, "A temperature is refused"),
        ("m", {"params": {"thinking": "adaptive", "top_p": 0.1}}, "A top_p below 0.95"),
        ("m", {"params": {"top_p": 0}, "extra": {"thinking": {"type": "enabled"}}}, "A top_p"),
        ("m", {"params": {"thinking": 2000, "temperature": 1, "top_p": 0.95}}, ""),
        ("m", {"params": {"temperature": 0, "top_p": 0.1}}, ""),
    ],
)
def test_what_will_be_refused_is_said_and_sent_as_asked(
    model: str, changes: dict[str, Any], note: str
) -> None:
    wanted = replace(request(**changes), model=model)
    body, sent = encoded("anthropic", wanted)
    assert bool(sent.notes) == bool(note)
    assert note in "".join(sent.notes)
    if wanted.choice.forced:
        assert body["tool_choice"]["type"] in ("any", "tool")


@pytest.mark.parametrize(
    ("thinking", "expected"),
    [
        (True, {"thinking": {"type": "adaptive"}}),
        ("low", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        (2000, {"thinking": {"type": "enabled", "budget_tokens": 2000}}),
    ],
)
def test_models_that_take_no_budget_are_told_an_effort(thinking: Any, expected: Any) -> None:
    wanted = replace(request(params={"thinking": thinking}), model="claude-opus-5-5")
    body = encoded("anthropic", wanted)[0]
    assert {key: body[key] for key in ("thinking", "output_config") if key in body} == expected


def test_tools_that_are_eager_free_form_or_not_allowed() -> None:
    tools = (Tool("a", eager=True), Tool("b", "", FREEFORM, format={"type": "text"}), Tool("c"))
    wanted = request(tools=tools, choice=ToolChoice(allowed=("a", "b")))
    body, sent = encoded("anthropic", wanted)
    assert [tool["name"] for tool in body["tools"]] == ["a", "b"]
    assert body["tools"][0]["eager_input_streaming"] is True
    assert body["tools"][1]["input_schema"] == FREEFORM
    assert "eager_input_streaming" not in body["tools"][1]
    assert len(sent.notes) == 2


def test_images_of_a_prompt_stand_before_its_text() -> None:
    image_part = MessagePart("image", content=(IMAGE,))
    prompt = Message("user", (image_part, image_part, MessagePart("text", "what?")))
    image_block = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
    }
    assert encode_messages(prompt) == [
        {"role": "user", "content": [image_block, image_block, {"type": "text", "text": "what?"}]}
    ]
    after = encode_messages(assistant(call("t1")), results(result_part("t1", "x")), prompt)
    assert [block["type"] for block in after[1]["content"]] == [
        "tool_result", "image", "image", "text"
    ]  # fmt: skip


def test_own_blocks_go_back_as_they_came() -> None:
    blocks = encode_messages(
        user("hi"),
        assistant(
            own("thinking", "why", type="thinking", signature="s"),
            own("thinking", "", type="thinking", signature="s2"),
            own("thinking", type="redacted_thinking", data="x"),
            own("text", "a", type="text", citations=[{"n": 1}]),
            own("server_call", '{"q": 1}', type="server_tool_use", id="s1", name="web_search"),
            own("server_result", type="web_search_tool_result", tool_use_id="s1", content=[1]),
            own("other", type="compaction", content="c"),
        ),
    )[1]["content"]
    assert blocks == [
        {"type": "thinking", "thinking": "why", "signature": "s"},
        {"type": "thinking", "thinking": "", "signature": "s2"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "a", "citations": [{"n": 1}]},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": 1}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [1]},
        {"type": "compaction", "content": "c"},
    ]


def test_foreign_opaque_parts_are_left_out_with_a_note() -> None:
    thinking = MessagePart("thinking", "why", meta={"field": "x"}, protocol="openai_chat")
    other = MessagePart("other", meta={"block": {"type": "y"}}, protocol="openai_chat")
    text = MessagePart("text", "a", protocol="openai_chat")
    wanted = request(user("hi"), assistant(thinking, other, thinking, text))
    body, sent = encoded("anthropic", wanted)
    assert body["messages"][1]["content"] == [{"type": "text", "text": "a"}]
    assert len(sent.notes) == 2


def test_a_turn_of_which_nothing_is_left_is_not_sent() -> None:
    foreign = MessagePart("thinking", "why", protocol="openai_chat")
    assert encode_messages(
        user("a"), assistant(foreign, MessagePart("text", " \n")), user("", "b")
    ) == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]


def test_results_are_one_message_before_the_text_that_follows() -> None:
    last = encode_messages(
        user("hi"),
        assistant(call("t1"), call("t2")),
        results(result_part("t1", "one"), result_part("t2", "two", IMAGE)),
        user("and?"),
    )[-1]
    picture = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    assert last == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "one"},
            {
                "type": "tool_result",
                "tool_use_id": "t2",
                "content": [{"type": "text", "text": "two"}, {"type": "image", "source": picture}],
            },
            {"type": "text", "text": "and?"},
        ],
    }


def test_an_empty_result_has_no_content_and_an_empty_error_has_words() -> None:
    blocks = encode_messages(
        assistant(call("a"), call("b")),
        results(result_part("a", ""), result_part("b", is_error=True)),
    )
    assert blocks[1]["content"][0] == {"type": "tool_result", "tool_use_id": "a"}
    assert blocks[1]["content"][1]["content"]


@pytest.mark.parametrize("text", ["[1]", "nope", '{"x": NaN}', '"{}"'])
def test_input_must_be_an_object(text: str) -> None:
    wanted = request(assistant(call("t1", text)), results(result_part("t1", "bad")))
    body, sent = encoded("anthropic", wanted)
    assert body["messages"][0]["content"][0]["input"] == {}
    assert "not a JSON object" in sent.notes[0]


def test_ids_are_made_fit_and_stay_paired() -> None:
    messages = encode_messages(
        assistant(call("functions.f:0"), call("same"), call("same")),
        results(
            result_part("functions.f:0", "1"), result_part("same", "2"), result_part("same", "3")
        ),
    )
    sent = [block["id"] for block in messages[0]["content"]]
    assert sent == [block["tool_use_id"] for block in messages[1]["content"]]
    assert len(set(sent)) == 3
    assert all(id_.replace("_", "").isalnum() for id_ in sent)


def server_part(kind: str, id_: str, text: str = "", **more: Any) -> MessagePart:
    own_part = kind == "server_call"
    block: dict[str, Any] = {"id" if own_part else "tool_use_id": id_}
    block |= SEARCH if own_part else FOUND
    fields: dict[str, Any] = {"call_id": id_, "meta": {"block": block}, "protocol": "anthropic"}
    return MessagePart(kind, text, **{**fields, **more})


CALLED = server_part("server_call", "s1", '{"q":1}')
ANSWERED = server_part("server_result", "s1")
SEALED = own("thinking", "why", type="thinking", signature="s")


@pytest.mark.parametrize(
    ("parts", "types", "note"),
    [
        # Cut by max_tokens in the middle of a thought; started anew by a gateway.
        ([own("thinking", "Hm", **THOUGHT, signature="")], [], UNSIGNED),
        ([replace(own("thinking", "H", **THOUGHT), complete=False), SEALED, SAID],
         ["thinking", "text"], UNSIGNED),
        ([own("thinking", type="redacted_thinking"), SAID], ["text"], UNSIGNED),
        # A server that signs nothing wants it back with its calls (Kimi).
        ([own("thinking", "Hm", **THOUGHT, signature=""), SAID], ["thinking", "text"], ""),
        ([replace(SEALED, protocol="", origin="model"), SAID], ["text"], "from another model."),
        ([replace(SEALED, protocol="", origin="address"), SAID], ["text"], "another address."),
        ([replace(SEALED, protocol="", origin="protocol"), SAID], ["text"], "another protocol."),
        ([CALLED, ANSWERED, SAID], [*PAIR, "text"], ""),
        ([SAID, CALLED], ["text"], "server call" + UNPAIRED),
        ([SAID, ANSWERED], ["text"], "server result" + UNPAIRED),
        ([replace(CALLED, text='{"q'), ANSWERED, SAID], ["text"], "server call" + UNPAIRED),
        ([replace(CALLED, complete=False), ANSWERED, SAID], ["text"], "server result" + UNPAIRED),
        ([replace(own("other", type="compaction"), complete=False), SAID], ["text"], "incomplete"),
    ],
)  # fmt: skip
def test_what_would_be_refused_for_ever_is_left_out(
    parts: list[MessagePart], types: list[str], note: str
) -> None:
    wanted = request(user("hi"), assistant(*parts), user("on"))
    body, sent = encoded("anthropic", wanted)
    turn = [message for message in body["messages"] if message["role"] == "assistant"]
    assert [block["type"] for item in turn for block in item["content"]] == types
    assert any(note in text for text in sent.notes) if note else not sent.notes


def test_a_call_of_the_providers_own_may_wait_for_its_result() -> None:
    paused = encode_messages(user("hi"), assistant(SAID, CALLED))
    assert [block["type"] for block in paused[1]["content"]] == ["text", "server_tool_use"]
    caller = {"type": "code_execution_20260120", "tool_id": "s1"}
    within = replace(own("call", "{}", caller=caller), name="f", call_id="t1")
    message = results(result_part("t1", "x"))
    ran = encode_messages(
        user("hi"), assistant(CALLED, within), message, assistant(ANSWERED, SAID), user("on")
    )
    assert [block["type"] for block in ran[1]["content"]] == ["server_tool_use", "tool_use"]
    assert ran[1]["content"][1]["caller"] == caller
    assert ran[3]["content"][0]["type"] == "web_search_tool_result"
    alone = encode_messages(user("hi"), assistant(within), message)
    assert "caller" not in alone[1]["content"][0]


def test_text_of_a_turn_that_was_cut_goes_without_what_came_with_it() -> None:
    cited = own("text", "a", type="text", citations=[{"n": 1}])
    (block,) = encode_messages(user("hi"), assistant(replace(cited, complete=False)))[1]["content"]
    assert block == {"type": "text", "text": "a"}


def test_images_of_failed_results_stand_behind_the_results() -> None:
    message = results(
        result_part("t1", IMAGE, is_error=True), result_part("t2", "no", IMAGE, is_error=True)
    )
    wanted = request(assistant(call("t1"), call("t2")), message, user("on"))
    body, sent = encoded("anthropic", wanted)
    first, second, *rest = body["messages"][1]["content"]
    assert first["content"] == "The tool failed; the image that it returned follows."
    assert (second["content"], second["is_error"]) == ("no", True)
    assert [block["type"] for block in rest] == ["text", "image", "image", "text"]
    assert "after the results" in sent.notes[0]
