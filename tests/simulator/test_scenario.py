"""Scenarios: what is read, and the place that every refusal names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.core.errors import BadInput
from app.simulator.scenario import scenario
from tests.tables import each_row


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
    assert [(one.fault.name, one.number) for one in read.faults] == [("cut-after-N", 7)]
    assert read.pace == 0.5


@each_row(
    ("data", "place"),
    [
        ([], "/"),
        ({}, "/turns"),
        ({"turns": []}, "/turns"),
        ({"turns": [{}], "x": 1}, "/x"),
        ({"turns": ["a"]}, "/turns/0"),
        ({"turns": [{"txet": "a"}]}, "/turns/0/txet"),
        ({"turns": [{"text": 1}]}, "/turns/0/text"),
        ({"turns": [{"calls": {}}]}, "/turns/0/calls"),
        ({"turns": [{"calls": [{}]}]}, "/turns/0/calls/0/name"),
        ({"turns": [{"calls": [{"name": "f", "arguments": 3}]}]}, "/turns/0/calls/0/arguments"),
        ({"turns": [{}, {"faults": ["nope"]}]}, "/turns/1/faults/0"),
        ({"turns": [{"pace": -1}]}, "/turns/0/pace"),
        ({"turns": [{"pace": True}]}, "/turns/0/pace"),
    ],
)
def test_a_mistake_is_told_with_its_place(data: Any, place: str) -> None:
    with pytest.raises(BadInput) as told:
        scenario(json.dumps(data))
    assert str(told.value).startswith(place + ":")


def test_a_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(BadInput, match="not JSON"):
        scenario("{")
