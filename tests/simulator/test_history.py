"""A loop of tool calls ends, whatever shape of history a client sends: every call is made once,
and the answer holds every result."""

from __future__ import annotations

import json

import pytest

from playground.core.messages import Message, MessagePart
from playground.protocols.server import BadRequest
from playground.simulator.history import history_of, user_text
from playground.simulator.model import reply as model_reply
from tests.simulator.client_loop import SHAPES, loop
from tests.simulator.factories import asking, calls_message, results, user

RAIN = ("c", "get_weather", '{"city": "Paris"}')
WRITTEN = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


@pytest.mark.parametrize(
    ("protocol", "least"),
    [
        ("ollama", len(SHAPES)),
        ("openai_chat", 18),
        ("openai_responses", 36),
        ("anthropic", 18),
        ("gemini", 36),
    ],
)
def test_a_run_ends_in_every_shape_of_history_that_the_server_accepts(
    protocol: str, least: int
) -> None:
    failures, accepted = [], 0
    for shape in SHAPES:
        try:
            names, answer = loop(protocol, shape)
            accepted += 1
        except BadRequest:
            continue
        except AssertionError as error:
            failures.append((shape, str(error)))
            continue
        if names != ["calculator", "get_weather"] or "391" not in answer or "sunny" not in answer:
            failures.append((shape, f"{names} {answer}"))
    assert failures == []
    assert accepted >= least


def assistant(text: str) -> Message:
    return Message("assistant", (MessagePart("text", text),))


@pytest.mark.parametrize(
    "messages",
    [
        (assistant("I'll use get_weather for Paris."), results(("", "sunny"))),
        (assistant(WRITTEN), user("<tool_response>\nsunny\n</tool_response>")),
        (assistant(WRITTEN), user("Observation: sunny")),
        (
            assistant('Action: get_weather\nAction Input: {"city": "Paris"}'),
            user("Observation: sunny"),
        ),
        (assistant("I'll use get_weather."), user("Tool result: sunny")),
        (assistant("I'll use get_weather."), user("Result of get_weather: sunny")),
        (assistant("I'll use get_weather."), user('<tool_result id="1">sunny</tool_result>')),
        (calls_message(("c", "tooluse_7f", '{"city": "Paris"}')), results(("c", "sunny"))),
        (calls_message(("c", "call_9", '{"q": 1}')), results(("c", "sunny"))),
        (calls_message(RAIN), results(("c", "sunny")), assistant("It is")),
        (calls_message(RAIN), results(("c", "sunny")), results(("c", "sunny"))),
        (calls_message(RAIN), assistant("One moment."), results(("c", "sunny"))),
        (calls_message(RAIN), user("<note_of_host>Wait.</note_of_host>"), results(("", "sunny"))),
    ],
)
def test_a_call_whose_answer_has_an_odd_shape_is_not_made_again(
    messages: tuple[Message, ...],
) -> None:
    answer = model_reply(asking(user("What is the weather in Paris?"), *messages))
    assert not answer.calls
    assert "sunny" in answer.text


def test_an_answer_of_an_earlier_turn_does_not_count_for_the_next() -> None:
    before = (
        user("Weather in Paris?"),
        calls_message(RAIN),
        results(("c", "sunny")),
        assistant("Sunny."),
    )
    [again] = model_reply(asking(*before, user("Weather in Paris?"))).calls
    assert json.loads(again.text) == {"city": "Paris"}
    error = model_reply(asking(*before, user("Error: what is the weather in Rome?"))).calls
    assert [json.loads(call.text) for call in error] == [{"city": "Rome"}]


def test_results_go_to_the_calls_of_their_own_turn() -> None:
    """Of two turns whose calls have no ids, and of one that was never answered."""
    history = history_of(
        (
            user("Weather in Rome?"),
            calls_message(("0", "get_weather", '{"city": "Rome"}')),
            user("Rather in Paris."),
            calls_message(("1", "get_weather", '{"city": "Paris"}')),
            results(("", "sunny")),
        )
    )
    assert [outcome.arguments for outcome in history.results] == [{"city": "Paris"}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<current_datetime>2026-11-28</current_datetime>\n\nRead a.txt.", "Read a.txt."),
        ('<user_input mode="act">Read a.txt.</user_input>', "Read a.txt."),
        ("<environment_details>b.txt</environment_details><task>Read</task>", "Read"),
        ("<reminderInstructions>x</reminderInstructions><userRequest>Go</userRequest>", "Go"),
        ("Make <b>a.txt</b> bold, not <MyPart>this</MyPart>", None),
        ("Is a_b < c_d > e_f?", None),
        ("<open_tag>never closed", None),
        ("<tool_result>sunny</tool_result>", None),
    ],
)
def test_what_a_client_added_to_a_prompt_is_removed(text: str, expected: str | None) -> None:
    assert user_text(text) == (text if expected is None else expected)


def test_a_prompt_that_is_one_tagged_block_stays_a_prompt() -> None:
    assert history_of([user("<shopping_list>Weather</shopping_list>")]).prompt.count("Weather") == 1
    noted = history_of([user("Weather in Paris?"), user("<system-reminder>x</system-reminder>")])
    assert noted.prompt == "Weather in Paris?"
