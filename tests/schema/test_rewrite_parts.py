"""Folding an `allOf`, telling choices apart, and that both stay cheap in large schemas."""

from __future__ import annotations

from typing import Any

import pytest

from playground.protocols import rewrite_parts
from playground.protocols.rewrite import rewrite_for_gemini, rewrite_for_strict
from playground.protocols.rewrite_parts import (
    canonical_text,
    exclude_each_other,
    is_equal,
    merge_all_of,
)

S, I = {"type": "string"}, {"type": "integer"}  # noqa: E741
NESTED: Any = S
for _ in range(58):
    NESTED = {"allOf": [NESTED]}


def kind(value: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"kind": {"const": value}, **more},
        "required": ["kind"],
    }


@pytest.mark.parametrize(
    ("schema", "expected", "done"),
    [
        ({"type": "object"}, {"type": "object"}, True),
        ({"allOf": [S, {"minLength": 1}, True]}, {**S, "minLength": 1}, True),
        ({"allOf": [{"allOf": [S]}, {"allOf": [{"minLength": 1}]}]}, {**S, "minLength": 1}, True),
        ({"allOf": [{"allOf": [S, I]}]}, S, False),
        ({"allOf": [S, False]}, S, False),
        ({"allOf": [{"$ref": "#"}], "title": "t"}, {"title": "t", "$ref": "#"}, True),
        ({"allOf": [{"$ref": "#"}], "minLength": 1}, {"minLength": 1}, False),
        ({"allOf": [{"enum": [1, 0]}, {"enum": [True, 0.0]}]}, {"enum": [0]}, True),
        ({"allOf": [{"const": 1}, {"const": True}]}, {"const": 1}, False),
        ({"allOf": [{"const": 1}, {"const": 1.0}]}, {"const": 1}, True),
        # What one says again changes nothing, unless it looks at what stands beside it.
        ({"type": "object", "allOf": [kind("a")]}, kind("a"), True),
        (
            {
                "additionalProperties": False,
                "allOf": [{**kind("a"), "additionalProperties": False}],
            },
            {"additionalProperties": False},
            False,
        ),
    ],
)
def test_folded(schema: Any, expected: Any, done: bool) -> None:
    answer, fits = merge_all_of(schema)
    assert (canonical_text(answer), fits) == (canonical_text(expected), done)


@pytest.mark.parametrize(
    ("several", "apart"),
    [
        ([S, I], True),
        ([I, {"type": "number"}], False),
        ([S, {"type": ["null", "string"]}], False),
        ([{"enum": ["a", 1]}, {"enum": ["b", True]}], True),
        ([{"enum": [1]}, {"const": 1.0}], False),
        ([{"const": [1]}, {"const": [1.0]}], False),
        ([kind("a"), kind("b"), S], True),
        ([kind("a"), kind("a")], False),
        ([kind("a"), {"type": "object"}], False),
        (
            [{**kind("a"), "type": ["object", "null"]}, {**kind("b"), "type": ["object", "null"]}],
            False,
        ),
        ([S, True], False),
        ([True], True),
    ],
)
def test_choices_that_exclude_each_other(several: list[Any], apart: bool) -> None:
    assert exclude_each_other(several) == apart
    assert exclude_each_other(several[::-1]) == apart


@pytest.mark.parametrize(
    ("value", "other", "expected"),
    [
        *((1, 1.0, True), (1, True, False), (False, 0, False), (None, False, False)),
        *(
            ([1, {"a": 0}], [1.0, {"a": 0.0}], True),
            ([1], [True], False),
            ({"a": 1}, {"b": 1}, False),
        ),
    ],
)
def test_values_are_the_same_as_json_schema_has_it(value: Any, other: Any, expected: bool) -> None:
    assert is_equal(value, other) == is_equal(other, value) == expected
    assert (canonical_text(value) == canonical_text(other)) == expected


def test_a_nested_all_of_is_folded_once_for_each_level(monkeypatch: pytest.MonkeyPatch) -> None:
    merged, calls = rewrite_parts.merge, 0

    def count_merges(item: Any, other: Any) -> Any:
        nonlocal calls
        calls += 1
        assert calls <= 58 * 4
        return merged(item, other)

    monkeypatch.setattr(rewrite_parts, "merge", count_merges)
    schema = {"type": "object", "properties": {"a": NESTED}, "required": ["a"]}
    for rewrite in (rewrite_for_strict, rewrite_for_gemini):
        assert rewrite(schema).parameters["properties"]["a"] == S


def test_the_choices_of_a_wide_one_of_are_spelled_once_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not once for each pair."""
    spelled_, calls = rewrite_parts.canonical_text, 0

    def count_spellings(value: Any) -> str:
        nonlocal calls
        calls += 1
        assert calls <= 4_000
        return spelled_(value)

    monkeypatch.setattr(rewrite_parts, "canonical_text", count_spellings)
    assert exclude_each_other([kind(number) for number in range(2_000)])
    assert not exclude_each_other([kind(number % 1_999) for number in range(2_000)])
