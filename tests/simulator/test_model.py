"""The model over whole sessions: choices, one call at a time, results woven into words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.core.messages import Message, MessagePart
from playground.core.tools import ToolChoice
from playground.protocols.server import ModelReply
from playground.simulator.model import reply as model_reply
from tests.simulator.factories import SHELF, TWO, asking, calls_message, results, user

BOTH = "What is 17*23, and the weather in Paris?"
SUM = ("c1", "calculator", '{"expression": "17*23"}')
RAIN = ("c2", "get_weather", '{"city": "Paris"}')
WEATHER = '{"city": "Paris", "temperature": 18, "unit": "celsius", "condition": "sunny"}'

NOTE = "<system-reminder>\nUse calculator on 3 * 4, and the weather in Rome.\n</system-reminder>"


def reply(*messages: Message, **request: Any) -> ModelReply:
    return model_reply(asking(*messages, **request))


def names(answer: ModelReply) -> list[str]:
    return [block.name for block in answer.calls]


def test_two_calls_in_order_then_an_answer_that_holds_the_results() -> None:
    first = reply(user(BOTH))
    assert [block.kind for block in first.blocks] == ["text", "call", "call"]
    assert [json.loads(block.text) for block in first.calls] == [
        {"expression": "17*23"},
        {"city": "Paris"},
    ]
    assert first.stop == "calls"
    last = reply(user(BOTH), calls_message(SUM, RAIN), results(("c1", "391"), ("c2", WEATHER)))
    assert last.stop == "stop"
    for word in ("17*23: 391", "Paris", "18 °C", "sunny"):
        assert word in last.text


def test_without_parallel_calls_one_follows_the_other() -> None:
    tool_choice = ToolChoice(parallel=False)
    history = [user(BOTH)]
    assert names(reply(*history, choice=tool_choice)) == ["calculator"]
    history += [calls_message(SUM), results(("c1", "391"))]
    assert names(reply(*history, choice=tool_choice)) == ["get_weather"]
    history += [calls_message(RAIN), results(("c2", "18 degrees"))]
    last = reply(*history, choice=tool_choice)
    assert names(last) == []
    assert "391" in last.text
    assert "18 degrees" in last.text


@pytest.mark.parametrize(
    ("choice", "prompt", "calls"),
    [
        (ToolChoice(), BOTH, ["calculator", "get_weather"]),
        (ToolChoice(), "Hello", []),
        (ToolChoice("none"), BOTH, []),
        (ToolChoice("required"), BOTH, ["calculator", "get_weather"]),
        (ToolChoice("required"), "Hello", ["calculator"]),
        (ToolChoice("required", parallel=False), BOTH, ["calculator"]),
        (ToolChoice("tool", "get_weather"), "Hello", ["get_weather"]),
        (ToolChoice("tool", "get_weather"), BOTH, ["get_weather"]),
        (ToolChoice(allowed=("get_weather",)), BOTH, ["get_weather"]),
    ],
)
def test_the_choice_is_honoured(choice: ToolChoice, prompt: str, calls: list[str]) -> None:
    assert names(reply(user(prompt), choice=choice)) == calls


def test_a_forced_choice_calls_again_though_all_is_answered() -> None:
    history = (user(BOTH), calls_message(SUM, RAIN), results(("c1", "391"), ("c2", "sunny")))
    assert len(names(reply(*history, choice=ToolChoice("required")))) == 1


@pytest.mark.parametrize("choice", [ToolChoice("required"), ToolChoice("tool", "calculator")])
def test_a_forced_call_has_no_words_before_it(choice: ToolChoice) -> None:
    assert {block.kind for block in reply(user(BOTH), choice=choice).blocks} == {"call"}


def test_the_notes_of_a_client_are_no_prompt() -> None:
    noted = Message("user", (MessagePart("text", NOTE), MessagePart("text", "Weather in Paris?")))
    first = reply(noted)
    assert [json.loads(block.text) for block in first.calls] == [{"city": "Paris"}]
    assert names(reply(noted, calls_message(RAIN), results(("c2", "sunny")), user(NOTE))) == []


def test_the_same_words_again_call_nothing_that_was_answered() -> None:
    """As agents do that put their prompt behind the results once more."""
    came = results(("c1", "391"), ("c2", "sunny"))
    history = [user(BOTH), calls_message(SUM, RAIN), came, user(BOTH)]
    assert names(reply(*history)) == []
    more = user("And the weather in Rome?")
    again = reply(*history[:3], more)
    assert [json.loads(block.text) for block in again.calls] == [{"city": "Rome"}]
    message = Message("assistant", (MessagePart("text", "391 and sunny."),))
    assert names(reply(*history[:3], message, user(BOTH))) == ["calculator", "get_weather"]


def test_of_two_turns_in_a_row_all_results_count() -> None:
    last = reply(
        user(BOTH), calls_message(SUM), calls_message(RAIN), results(("c1", "391"), ("c2", WEATHER))
    )
    assert names(last) == []
    assert "391" in last.text
    assert "sunny" in last.text


def test_calls_and_results_in_words_are_read() -> None:
    """As smolagents writes its history."""
    calling = (
        "Calling tools:\n[{'id': 'a', 'type': 'function', 'function': {'name': 'calculator', "
        "'arguments': {'expression': '17*23'}}}, {'id': 'b', 'type': 'function', 'function': "
        "{'name': 'get_weather', 'arguments': {'city': 'Paris'}}}]"
    )
    message = Message("assistant", (MessagePart("text", calling),))
    last = reply(user(f"New task:\n{BOTH}"), message, user(f"Observation:\n391\n{WEATHER}"))
    assert names(last) == []
    assert "17*23: 391" in last.text
    assert "sunny" in last.text
    failed = reply(user(BOTH), message, user("Call id: a\nError:\nNo such station"))
    assert "failed: No such station" in failed.text
    no_calls = Message("assistant", (MessagePart("text", "Calling tools:\n[oops]"),))
    assert names(reply(user("Hello"), no_calls, user(BOTH))) == ["calculator", "get_weather"]


def test_a_place_said_with_its_word_again_is_a_call_of_its_own() -> None:
    both = reply(user("What is the weather in Paris and in Rome?"))
    assert [json.loads(block.text) for block in both.calls] == [{"city": "Paris"}, {"city": "Rome"}]


def test_a_call_whose_arguments_a_person_changed_is_not_made_again() -> None:
    edited = ("c2", "get_weather", '{"city": "Rome"}')
    history = (user(BOTH), calls_message(SUM, edited), results(("c1", "391"), ("c2", "sunny")))
    assert names(reply(*history)) == []


def test_an_error_is_told_and_what_could_be_done() -> None:
    failed = results(("c2", "The station does not answer"), is_error=True)
    text = reply(user("Weather in Paris?"), calls_message(RAIN), failed).text
    assert "The station does not answer" in text
    assert "failed" in text
    assert "try" in text


def test_a_denial_is_accepted() -> None:
    denied = results(("c2", "The user did not allow this call."), is_error=True)
    text = reply(user("Weather in Paris?"), calls_message(RAIN), denied).text
    assert "leave it" in text


def test_words_that_come_with_the_results_do_not_hide_them() -> None:
    answer = reply(
        user("Weather in Paris?"), calls_message(RAIN), results(("c2", "sunny")), user("Go on")
    )
    assert "sunny" in answer.text


def test_a_later_prompt_is_planned_for_itself() -> None:
    history = (user(BOTH), calls_message(SUM, RAIN), results(("c1", "391"), ("c2", "sunny")))
    message = Message("assistant", (MessagePart("text", "391 and sunny."),))
    again = reply(*history, message, user("And in Berlin?"))
    assert [json.loads(block.text) for block in again.calls] == [{"city": "Berlin"}]


@pytest.mark.parametrize(
    ("prompt", "word"),
    [
        ("Hello", "try"),
        ("Who are you?", "simulator"),
        ("Explain quantum gravity", "simulator"),
        ("", "simulator"),
        ("thank you", "welcome"),
    ],
)
def test_without_tools_it_is_pleasant_and_honest(prompt: str, word: str) -> None:
    answer = reply(user(prompt), tools=())
    assert answer.stop == "stop"
    assert word in answer.text


def test_a_prompt_that_no_tool_fits_is_answered_with_an_example() -> None:
    text = reply(user("Sing to me of spring"), tools=SHELF).text
    assert "none of the tools" in text
    assert "Please use calculator" in text


def test_thinking_is_shown_where_it_is_asked_for() -> None:
    assert reply(user(BOTH), thinking=True).blocks[0].kind == "thinking"
    assert all(block.kind != "thinking" for block in reply(user(BOTH)).blocks)


def test_max_tokens_cuts_the_reply() -> None:
    cut = reply(user(BOTH), max_tokens=16)
    assert cut.stop == "length"
    assert sum(len(block.text) for block in cut.blocks) <= 64


@pytest.mark.timeout(20)
def test_a_prompt_of_any_length_is_read_in_bounded_time() -> None:
    for hostile in ("(" * 50_000, "1+" * 50_000, "A " * 50_000, "a, " * 50_000, '"' * 50_000):
        assert reply(user(hostile), tools=TWO).blocks
