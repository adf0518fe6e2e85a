"""Differences of JSON: every kind, by pointer; the changes lead from one value to the other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.core.arguments import DEEPEST, steps_of
from playground.core.value_diff import JsonChange, json_changes

KINDS: Sequence[tuple[Any, Any, Sequence[tuple[str, str, str, str]]]] = (
    ({"a": 1}, {"a": 1}, []),
    ({"a": 1}, {"a": 2}, [("/a", "changed", "1", "2")]),
    ({"a": "1"}, {"a": 1}, [("/a", "type", '"1"', "1")]),
    ({"a": 1}, {"a": True}, [("/a", "type", "1", "true")]),
    ({"a": 0}, {"a": False}, [("/a", "type", "0", "false")]),
    ({"a": None}, {}, [("/a", "removed", "null", "")]),
    ({}, {"a": {"b": [1]}}, [("/a", "added", "", '{"b": [1]}')]),
    ({"a": {}}, {"a": []}, [("/a", "type", "{}", "[]")]),
    ({"a": [1, 2]}, {"a": [1, 3]}, [("/a/1", "changed", "2", "3")]),
    ({"a": [1, 2]}, {"a": [0, 1, 2]}, [("/a/0", "added", "", "0")]),
    ({"a": [{"b": 1}, 2, 3]}, {"a": [{"b": 1}, 3]}, [("/a/1", "removed", "2", "")]),
    ({"a/b~c": 1}, {"a/b~c": 2}, [("/a~1b~0c", "changed", "1", "2")]),
    ([1], {"0": 1}, [("", "type", "[1]", '{"0": 1}')]),
    ({"b": 1, "a": 1}, {"a": 1, "b": 1}, []),
)

values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "1"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "~/", "0"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(("old", "new", "wanted"), KINDS)
def test_each_kind(old: Any, new: Any, wanted: Sequence[tuple[str, str, str, str]]) -> None:
    changes = json_changes(json.dumps(old), json.dumps(new))
    assert changes is not None
    assert [(item.pointer, item.how, item.old, item.new) for item in changes] == list(wanted)


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("1", "1.0", 0),
        ("100", "1e2", 0),
        ("0.1", "0.10000000000000000001", 1),
        ("9007199254740993", "9007199254740992", 1),
        ("-0", "0", 0),
        ("1" * 5000, "1" * 4999 + "2", 1),
    ],
)
def test_numbers_are_compared_to_the_last_digit(old: str, new: str, count: int) -> None:
    changes = json_changes(f'{{"a": {old}}}', f'{{"a": {new}}}')
    assert changes is not None
    assert len(changes) == count


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"a": 1, "a": 2}', '{"a": NaN}', "[" * 90_000, "[" * 100 + "]" * 100, '{"a": 1} x'],
)
def test_what_is_no_sound_json_is_left_to_the_text(text: str) -> None:
    assert json_changes(text, "{}") is None
    assert json_changes("{}", text) is None


def test_as_deep_as_arguments_may_be() -> None:
    old, new = ("[" * DEEPEST + inner + "]" * DEEPEST for inner in ("1", "2"))
    assert json_changes(old, new) == (JsonChange("/0" * DEEPEST, "changed", "1", "2"),)


def test_types_are_told_in_words() -> None:
    (json_change,) = json_changes('{"a": "5"}', '{"a": 5}') or ()
    assert json_change.types == ("text", "number")


@settings(derandomize=True, deadline=None)
@given(values, values)
def test_the_changes_lead_from_one_to_the_other(old: Any, new: Any) -> None:
    changes = json_changes(json.dumps(old), json.dumps(new))
    assert changes is not None
    assert applied(old, changes) == json.dumps(new, sort_keys=True)
    back = json_changes(json.dumps(new), json.dumps(old))
    assert back is not None
    assert len(back) == len(changes)


def applied(value: Any, changes: Sequence[JsonChange]) -> str:
    """`value` after `changes`, as sorted JSON: removals from the end, then all else in order."""
    root = {"root": json.loads(json.dumps(value))}
    removed = [change for change in changes if change.how == "removed"]
    for json_change in [*[c for c in changes if c.how not in ("removed", "added")], *removed[::-1]]:
        here, last = place(root, json_change.pointer)
        if json_change.how == "removed":
            del here[last]
        else:
            assert here[last] == json.loads(json_change.old)
            here[last] = json.loads(json_change.new)
    for json_change in changes:
        if json_change.how == "added":
            here, last = place(root, json_change.pointer)
            if isinstance(here, list):
                here.insert(last, json.loads(json_change.new))
            else:
                here[last] = json.loads(json_change.new)
    return json.dumps(root["root"], sort_keys=True)


def place(root: Any, pointer: str) -> tuple[Any, Any]:
    here, last = root, "root"
    for step in steps_of(pointer):
        here = here[last]
        last = int(step) if isinstance(here, list) else step  # type: ignore[assignment]
    return here, last


@pytest.mark.slow
def test_a_megabyte_is_one_walk() -> None:
    old = [{"n": number} for number in range(20_000)]
    new = [*old[:10_000], {"n": "x"}, *old[10_001:]]
    changes = json_changes(json.dumps({"a": old}), json.dumps({"a": new}))
    assert changes == (JsonChange("/a/10000/n", "type", "10000", '"x"', ("number", "text")),)
    (gone,) = json_changes(json.dumps(old), json.dumps(old[:10] + old[11:])) or ()
    assert (gone.pointer, gone.how) == ("/10", "removed")
