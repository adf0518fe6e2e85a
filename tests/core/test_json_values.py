"""JSON is read to the same depth by every version of Python, and with the numbers asked for."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from playground.core.arguments import ABSENT, fits, is_json_equal, values_of
from playground.core.json_values import (
    MOST_DEEP,
    ExactNumber,
    TooDeepError,
    is_deeper,
    is_too_deep,
    load_decimals,
    load_json,
    load_json_at,
    load_spelled,
)


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


def test_load_json_at_the_limit_reads_and_beyond_it_refuses() -> None:
    assert load_json(nested(MOST_DEEP)) == json.loads(nested(MOST_DEEP))
    assert load_json(nested(MOST_DEEP).encode()) == json.loads(nested(MOST_DEEP))
    # The last is beyond the limit of every Python, the others are below that of some.
    for levels in (MOST_DEEP + 1, 1_200, 6_000, 200_000):
        for text in (nested(levels), nested(levels).encode()):
            with pytest.raises(TooDeepError, match="deeper than 200 levels"):
                load_json(text)
        with pytest.raises(TooDeepError):
            load_json_at(f"x{nested(levels)}", 1)
        assert is_too_deep(nested(levels))


def test_load_json_of_a_wide_text_reads_it() -> None:
    wide = json.dumps([[{}] * 3] * 500)
    assert load_json(wide) == json.loads(wide)


def test_load_json_at_returns_where_the_value_ends() -> None:
    assert load_json_at('see {"a": 1} there', 4) == ({"a": 1}, 12)


@pytest.mark.parametrize("text", ["", "{", "[1,]", "nested"])
def test_load_json_of_invalid_text_refuses(text: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        load_json(text)


def test_is_deeper_counts_levels_of_lists_tuples_and_objects() -> None:
    value: Any = {"a": ({"b": []},)}
    assert is_deeper(value, 3)
    assert not is_deeper(value, 4)
    assert not is_deeper("text", 0)


def test_spelled_numbers_keep_their_digits_and_equal_no_text() -> None:
    (number,) = load_spelled("[1.50e3]")
    assert isinstance(number, ExactNumber)
    assert str(number) == "1.50e3"
    assert number != "1.50e3"
    assert {number: 1}[ExactNumber("1.50e3")] == 1


def test_decimals_keep_their_digits_and_an_endless_exponent_is_refused() -> None:
    assert load_decimals("[0.10, 1]") == [Decimal("0.10"), Decimal(1)]
    with pytest.raises(ValueError, match="too large"):
        load_decimals("1e99999999999999999999")


def test_arguments_nested_too_deep_have_no_value() -> None:
    for levels in (MOST_DEEP + 1, 6_000):
        assert values_of(nested(levels)) is ABSENT
        assert not fits({"/0": []}, nested(levels))
    assert values_of(nested(MOST_DEEP)) is not ABSENT


def test_equal_compares_deep_values() -> None:
    deep = json.loads(nested(900))
    assert is_json_equal(deep, json.loads(nested(900)))
    assert not is_json_equal(deep, json.loads(nested(899)))
