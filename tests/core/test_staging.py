"""What each fault makes of a result: cut JSON is surely none, wrong types are surely wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.core.decide import next_commands
from playground.core.events import CallDecided, CallEnded
from playground.core.faults import (
    FAULTS,
    LARGE,
    Scene,
    change_leaf_types,
    change_types,
    failure,
    order,
    rows,
    scene,
    stage_result,
    truncate_text,
)
from playground.core.rules import Rule
from playground.core.tools import ANSWERED_BY, Content, Tool, ToolResult, text_result
from tests.playbook import call, call_checked, session, start_events, turn

IMAGE = Content("image", media_type="image/png", data="iVBORw0KGgo=")
SUNNY = '{"city": "Paris", "temperature": 18, "tags": ["warm"], "wind": {"speed": 3.5}}'
SCENE = Scene("get_weather", Tool("get_weather", timeout_s=12), "send_email", text_result("old"))

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@settings(derandomize=True)
@given(JSON.map(json.dumps) | st.text(max_size=30))
def test_cut_json_is_none_whatever_it_was(text: str) -> None:
    assert not is_json(truncate_text(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SUNNY, SUNNY[: SUNNY.index('"tags"') + 3]),
        ("391", '{"result": 3'),
        ("7", '{"result": 7'),
        ("true", '{"result": tr'),
        ('"sunny"', '"su'),
        ("[[], []]", "[[],"),
        ("12 km", "12 k"),
        ("It is sunny.", "It is "),
        ("", '{"res'),
    ],
)
def test_where_it_is_cut(text: str, expected: str) -> None:
    assert truncate_text(text) == expected


@settings(derandomize=True)
@given(JSON)
def test_every_leaf_is_of_another_type(value: Any) -> None:
    assert same_types(value, change_leaf_types(value, 0)) == []
    assert json.loads(change_types(json.dumps(value))) == json.loads(
        json.dumps(change_leaf_types(value, 0))
    )


def same_types(before: Any, after: Any) -> list[Any]:
    """The leaves that kept their type."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [same_type for name in before for same_type in same_types(before[name], after[name])]
    if isinstance(before, list) and isinstance(after, list):
        return [
            same_type for pair in zip(before, after, strict=True) for same_type in same_types(*pair)
        ]
    numbers = isinstance(before, int | float) and isinstance(after, int | float)
    return [before] if type(before) is type(after) or (numbers and before is not True) else []


@pytest.mark.parametrize(
    ("text", "result"),
    [
        (SUNNY, {"city": 5, "temperature": "18", "tags": {"0": "warm"}, "wind": [3.5]}),
        ("391", "391"),
        ('"12 apples"', 12),
        ("18 °C and sunny", 18),
        ("007", 7),
        ("sunny", 5),
        ("null", "null"),
        ("[1, 2]", ["1", "2"]),
        ("{}", []),
        ("[]", {}),
    ],
)
def test_how_types_turn(text: str, result: Any) -> None:
    assert json.loads(change_types(text)) == result


def test_a_wrong_type_is_wrong_for_the_schema_too() -> None:
    """Where the turned leaves would do, the whole turns; what everything fits stays turned."""

    def an_object(text: str) -> bool:
        return isinstance(json.loads(text), dict)

    assert json.loads(change_types(SUNNY, an_object)) == list(json.loads(SUNNY).values())
    assert json.loads(change_types(SUNNY, lambda _: True)) == change_leaf_types(
        json.loads(SUNNY), 0
    )


def test_a_deep_value_is_turned_as_deep_as_it_is_looked_at() -> None:
    deep: Any = "leaf"
    for _ in range(300):
        deep = [deep, 1]
    assert json.dumps(change_leaf_types(deep, 0)).count('"1"]') == 50


@pytest.mark.parametrize("fault", FAULTS, ids=lambda item: item.name)
@pytest.mark.parametrize(
    "real",
    [
        text_result(SUNNY),
        text_result("sunny"),
        ToolResult(),
        ToolResult((IMAGE,)),
        ToolResult((Content(text="a photo"), IMAGE)),
        text_result("no such city", is_error=True, kind="failed"),
        text_result("ü" * 2_000),
    ],
    ids=["json", "text", "empty", "image", "both", "error", "full"],
)
def test_every_fault_of_every_result(fault: Any, real: ToolResult) -> None:
    """Marked, never the real thing but for the slow one, the same again, and within the limit."""
    real_result = real if fault.runs else None
    result = stage_result(fault.name, SCENE, real_result, most=4_000)
    assert result.staged
    assert result == stage_result(fault.name, SCENE, real_result, most=4_000)
    assert (result.content == real.content) == (
        fault.name == "slow" or (result.content, real.content) == ((), ())
    )
    assert len(result.text.encode()) <= 4_000
    if fault.runs:
        assert result.is_error == real.is_error
    if fault.name == "injection":
        assert order(SCENE) in result.text
    if fault.name == "cut_json":
        assert result.text
        assert not is_json(result.text)


def test_what_stands_in_for_a_tool() -> None:
    timeout = stage_result("timeout", SCENE)
    assert (timeout.kind, timeout.text) == (
        "timeout",
        "The tool was stopped after 12 s, its limit.",
    )
    assert stage_result("error", SCENE).kind == "failed"
    assert stage_result("empty", SCENE).content == ()
    assert stage_result("stale", SCENE).text == "old"
    assert LARGE * 0.99 < len(rows()) <= LARGE
    assert len(json.loads(rows())) > 500
    messages = {failure(Tool("x", answered_by=kind)) for kind in ANSWERED_BY} | {failure(None)}
    assert len(messages) == len(ANSWERED_BY)


def test_the_order_names_a_tool_that_does_something() -> None:
    look, send = Tool("look", read_only=True), Tool("send_email")
    for tools, wanted in (((look, send), "send_email"), ((look,), "look"), ((), "")):
        item = session(*start_events(Tool("get_weather"), *tools), *turn(1, call(0)))
        assert scene(item, item.call("1.0")).other == wanted
    assert "send_email" in order(SCENE)
    assert "system prompt" in order(Scene("x"))


def test_what_runs_nothing_ends_the_call_at_once() -> None:
    decided = CallDecided("1.0", "answer", digest="digest", fault="error")
    item = session(*start_events(), *turn(1, call(0)), call_checked("1.0"), decided)
    (command,) = next_commands(item)
    assert isinstance(command.event, CallEnded)  # type: ignore[union-attr]
    assert (command.event.result.staged, command.event.real) == (True, None)  # type: ignore[union-attr]


def test_a_rule_that_cannot_stage_its_fault_asks() -> None:
    rule = Rule("get_weather", "answer", fault="stale")
    item = session(*start_events(), *turn(1, call(0)), call_checked("1.0"))
    assert next_commands(item, [rule]) == []
    (command,) = next_commands(item, [Rule("get_weather", "answer", fault="empty")])
    assert command.event.fault == "empty"  # type: ignore[union-attr]
