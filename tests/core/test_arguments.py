"""Tests of arguments by JSON pointer: what holds, and what a text that is odd comes to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.core.arguments import ABSENT, fits, is_json_equal, steps_of, value_at, values_of

DOCUMENT = """{"city": "Paris", "days": 3, "near": 0.1, "flag": true, "none": null, "": "empty",
"a/b": "slash", "m~n": "tilde", "~1": "both", "list": ["x", {"deep": [1, 2]}], "0": "zero",
"path": "notes/today.md", "big": 12345678901234567890123, "nested": {"city": "Rome"}, "one": 1}"""

HOLDS: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"/city": "Paris"}, True),
    ({"/city": "paris"}, False),
    ({"/city": {"equals": "Paris"}}, True),
    ({"/city": {"prefix": "Pa"}}, True),
    ({"/city": {"prefix": ""}}, True),
    ({"/city": {"prefix": "Paris!"}}, False),
    ({"/city": {"glob": "P*s"}}, True),
    ({"/city": {"glob": "p*"}}, False),
    ({"/city": {"glob": "[PQ]ar??"}}, True),
    ({"/path": {"glob": "notes/*"}}, True),
    ({"/path": {"glob": "*.md"}}, True),
    ({"/path": {"glob": "notes"}}, False),
    ({"/city": {"one_of": ["Rome", "Paris"]}}, True),
    ({"/city": {"one_of": []}}, False),
    ({"/days": {"one_of": [1, 3.0]}}, True),
    # All of several.
    ({"/city": "Paris", "/days": 3}, True),
    ({"/city": "Paris", "/days": 4}, False),
    # Numbers are compared to the last digit, and are not words.
    ({"/days": 3.0}, True),
    ({"/days": "3"}, False),
    ({"/near": 0.1}, True),
    ({"/big": 12345678901234567890123}, True),
    ({"/big": 1.2345678901234568e22}, False),
    ({"/flag": True}, True),
    ({"/flag": 1}, False),
    ({"/one": True}, False),
    ({"/one": {"one_of": [True, 2]}}, False),
    ({"/none": None}, True),
    ({"/none": {"equals": None}}, True),
    ({"/none": False}, False),
    # What is not there fits nothing, null neither.
    ({"/gone": None}, False),
    ({"/gone": {"prefix": ""}}, False),
    ({"/city/x": "Paris"}, False),
    ({"/days": {"prefix": ""}}, False),
    ({"/nested": {"glob": "*"}}, False),
    # Pointers: nested, in arrays, escaped.
    ({"/nested/city": "Rome"}, True),
    ({"/list/0": "x"}, True),
    ({"/list/1/deep/1": 2}, True),
    ({"/list/1": {"deep": [1, 2]}}, True),
    ({"/list/1": {"equals": {"deep": [1.0, 2]}}}, True),
    ({"/list/1": {"equals": {"deep": (1, 2)}}}, True),
    ({"/list": ["x"]}, False),
    ({"/list/00": "x"}, False),
    ({"/list/-1": {"deep": [1, 2]}}, False),
    ({"/list/-": "x"}, False),
    ({"/list/0000000000": "x"}, False),
    ({"/list/99999999999999999999": "x"}, False),
    ({"/list/٠": "x"}, False),
    ({"/0": "zero"}, True),
    ({"/": "empty"}, True),
    ({"/a~1b": "slash"}, True),
    ({"/m~0n": "tilde"}, True),
    ({"/~01": "both"}, True),
    ({"": {"equals": json.loads(DOCUMENT)}}, True),
    ({"": {"equals": {"city": "Paris"}}}, False),
    # No test: a value that looks like one, or too much in one.
    ({"/city": {"prefix": "P", "glob": "P*"}}, False),
    ({"/city": {"prefix": 3}}, False),
    ({"/city": {"one_of": "Paris"}}, False),
    ({"/city": {"regex": "P.*"}}, False),
]

ODD = ["", "{", "nonsense", '{"a": 1', "[" * 5_000 + "]" * 5_000]
ODDER = ['{"a": 1e99999999999999999999}', '{"a": -1e-99999999999999999999}']


@pytest.mark.parametrize(("when", "holds"), HOLDS, ids=[str(hold[0])[:60] for hold in HOLDS])
def test_what_fits(when: dict[str, Any], holds: bool) -> None:
    assert fits(when, DOCUMENT) == holds


@pytest.mark.parametrize("text", [*ODD, *ODDER])
def test_what_is_no_json_fits_nothing_and_breaks_nothing(text: str) -> None:
    assert values_of(text) is ABSENT
    assert not fits({"": {"equals": {}}}, text)
    assert not fits({}, text)


def test_long_numbers_are_read_to_the_last_digit() -> None:
    digits = 6_000 * "9"  # more than Python makes an int of
    values = values_of(f'{{"n": {digits}, "far": 1e400}}')
    assert str(values["n"]) == digits
    assert not is_json_equal(3, values["n"])
    assert not is_json_equal(10**5_000, values["n"])
    assert not is_json_equal(1e308 * 10, values["far"])
    assert is_json_equal(10**400, values["far"])


def test_nan_is_equal_to_nothing() -> None:
    assert not fits({"/n": float("nan")}, '{"n": NaN}')
    assert not fits({"/n": 1}, '{"n": Infinity}')


def test_pointers() -> None:
    assert steps_of("") == []
    assert steps_of("/") == [""]
    assert steps_of("/a~1b/~01/0") == ["a/b", "~1", "0"]
    assert value_at([[1, 2]], "/0/1") == 2
    assert value_at([[1, 2]], "/0/2") is ABSENT
    assert value_at("text", "/0") is ABSENT


def test_what_is_nested_too_deep_fits_nothing() -> None:
    text = "[" * 900 + "]" * 900
    assert not fits({"": json.loads(text)}, text)
    assert fits({"/0/0": json.loads("[" * 30 + "]" * 30)}, "[" * 32 + "]" * 32)
