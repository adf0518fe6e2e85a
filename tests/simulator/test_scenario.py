"""Scenarios: what is read, and the place that every refusal names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.core.errors import BadInput
from playground.core.messages import Message, MessagePart, ModelRequest
from playground.core.tools import ToolChoice
from playground.simulator.scenario import scenario, script


def test_a_turn_is_read_with_all_its_words() -> None:
    turn = {
        "text": "a",
        "thinking": "b",
        "calls": [{"name": "f", "arguments": "{oops"}, {"name": "g"}],
        "stop_reason": "banana",
        "faults": ["cut-after-7"],
        "pace": 0.5,
    }
    [read] = scenario(json.dumps({"turns": [turn]})).turns
    assert [(b.kind, b.text, b.name) for b in read.reply.blocks] == [
        ("thinking", "b", ""),
        ("text", "a", ""),
        ("call", "{oops", "f"),
        ("call", "{}", "g"),
    ]
    assert read.reply.stop == "banana"
    assert [(fault.fault.name, fault.number) for fault in read.faults] == [("cut-after-N", 7)]
    assert read.pace == 0.5


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ([], "/"),
        ({}, "/"),
        ({"turns": []}, "/turns"),
        ({"turns": [{}], "x": 1}, "/x"),
        ({"turns": ["a"]}, "/turns/0"),
        ({"turns": [{"txet": "a"}]}, "/turns/0/txet"),
        ({"turns": [{"text": 1}]}, "/turns/0/text"),
        ({"turns": [{"calls": {}}]}, "/turns/0/calls"),
        ({"turns": [{"calls": [{}]}]}, "/turns/0/calls/0"),
        ({"turns": [{"calls": [{"name": "f", "arguments": 3}]}]}, "/turns/0/calls/0/arguments"),
        ({"turns": [{}, {"faults": ["nope"]}]}, "/turns/1/faults/0"),
        ({"turns": [{"pace": -1}]}, "/turns/0/pace"),
        ({"turns": [{"pace": True}]}, "/turns/0/pace"),
    ],
)
def test_a_mistake_is_told_with_its_place(data: Any, place: str) -> None:
    with pytest.raises(BadInput) as exception_info:
        scenario(json.dumps(data))
    assert str(exception_info.value).startswith(place + ":")


def request_after(model: str, *prompts: str) -> ModelRequest:
    """A request after `prompts`, each but the last answered."""
    messages = []
    for prompt in prompts:
        messages.append(Message("user", (MessagePart("text", prompt),)))
        messages.append(Message("assistant", (MessagePart("text", "Yes."),)))
    return ModelRequest(model, "", tuple(messages[:-1]), (), ToolChoice())


def test_of_several_scenarios_the_first_that_fits_is_played() -> None:
    several = [
        {"model": "a", "prompt": "cake", "turns": [{"text": "1"}, {"text": "2"}]},
        {"prompt": "cake", "turns": [{"text": "3"}]},
        {"model": "b", "turns": [{"text": "4"}]},
    ]
    played = script(json.dumps({"scenarios": several}))

    def text(request: ModelRequest) -> str | None:
        turn = played.turn(request)
        return turn.reply.blocks[0].text if turn is not None else None

    assert text(request_after("a", "a cake")) == "1"
    assert text(request_after("a", "a cake", "bread")) == "2"
    assert text(request_after("b", "a cake")) == "3"
    assert text(request_after("b", "bread")) == "4"
    assert "has ended" in (text(request_after("b", "bread", "a cake")) or "")
    assert text(request_after("a", "bread")) is None


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ({"scenarios": []}, "/scenarios"),
        ({"scenarios": [{}]}, "/scenarios/0"),
        ({"scenarios": [{"turns": [{}]}], "turns": []}, "/turns"),
        ({"scenarios": [{"turns": [{}]}, {"turns": [{}], "x": 1}]}, "/scenarios/1/x"),
        ({"scenarios": [{"turns": [{"pace": -1}]}]}, "/scenarios/0/turns/0/pace"),
        ({"scenarios": [{"turns": [{}], "model": 1}]}, "/scenarios/0/model"),
    ],
)
def test_a_mistake_in_one_of_several_is_told_with_its_place(data: Any, place: str) -> None:
    with pytest.raises(BadInput) as exception_info:
        script(json.dumps(data))
    assert str(exception_info.value).startswith(place + ":")


def test_a_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(BadInput, match="not JSON"):
        scenario("{")
