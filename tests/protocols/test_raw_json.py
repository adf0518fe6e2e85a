"""JSON to the letter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.core.json_values import MOST_DEEP
from playground.protocols.raw_json import JsonText, join_pieces, parse_json
from tests.protocols.frames import UNHURRIED

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)

LONG = "7" * 309


@UNHURRIED
@given(VALUES, VALUES, st.sampled_from([None, 1, "\t"]))
def test_a_member_is_quoted_to_the_letter(before: Any, value: Any, indent: Any) -> None:
    text = json.dumps({"a": [before, {"b": value}], "c": before}, indent=indent)
    match = JsonText(text).member("a", 1, "b")
    assert match in text
    assert json.loads(match) == value


@pytest.mark.parametrize(
    ("text", "path", "match"),
    [
        ('{"a": 1.10}', ("a",), "1.10"),
        ('{"a": 1, "a": 2 }', ("a",), "2"),
        ('{"a": 1}', ("b",), ""),
        ('{"a": 1}', (0,), ""),
        ("[]", (0,), ""),
        ("7", ("a",), ""),
        (' {"a" : [ 1 , {"b":{}} ] } ', ("a", 1, "b"), "{}"),
    ],
)
def test_members(text: str, path: tuple[str | int, ...], match: str) -> None:
    assert JsonText(text).member(*path) == match


@UNHURRIED
@given(VALUES, st.booleans())
def test_what_is_parsed_is_what_json_says(value: Any, escaped: bool) -> None:
    text = json.dumps(value, ensure_ascii=escaped)
    if "Infinity" not in text:
        assert repr(parse_json(text)) == repr(json.loads(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1e999, -1E+400]", ["1e999", "-1E+400"]),
        (f"[{LONG}, {LONG}.5, {LONG[:250]}e99]", [int(LONG), f"{LONG}.5", f"{LONG[:250]}e99"]),
        (f'["{LONG}", {"7" * 4000}]', [LONG, "7" * 4000]),
        ("[NaN, -Infinity]", [None, None]),
        ('["\\ud83d", "\\ud83d\\ude00"]', ["\ud83d", "\U0001f600"]),
        ('{"a": 1, "b": 2, "a": 3}', {"a": 3, "b": 2}),
        ("[9007199254740993, 1e-400, -0.0]", [2**53 + 1, 0.0, -0.0]),
    ],
)
def test_what_no_float_or_text_holds(text: str, expected: Any) -> None:
    assert repr(parse_json(text)) == repr(expected)


def test_what_is_parsed_can_be_written_again() -> None:
    text = '{"nan": NaN, "big": 1e999, "long": ' + "9" * 5000 + "}"
    value = parse_json(text)
    assert value == {"nan": None, "big": "1e999", "long": "9" * 5000}
    assert json.loads(json.dumps(value, allow_nan=False)) == value


@pytest.mark.parametrize("fill", ["", "0", '"[[[[{{{{\\""', '["a"], []'])
def test_depth_is_what_brackets_outside_of_texts_make(fill: str) -> None:
    spare = fill.startswith("[")
    deepest = "[" * (MOST_DEEP - spare) + fill + "]" * (MOST_DEEP - spare)
    assert parse_json(deepest) == json.loads(deepest)
    with pytest.raises(ValueError, match="deeper"):
        parse_json(f"[{deepest}]")
    assert parse_json(json.dumps(["[" * 300, [[]] * 300])) == ["[" * 300, [[]] * 300]


def test_a_string_that_is_never_closed_costs_its_length() -> None:
    with pytest.raises(ValueError, match="Unterminated"):
        parse_json('{"a": [' + "[]," * 300 + '"' + '\\"' * 500_000)


def test_halves_of_a_character_become_whole_and_lone_ones_stay() -> None:
    assert join_pieces(["a\ud83d", "\ude00b"]) == "a\U0001f600b"
    assert join_pieces(["é\ud83d", "b"]) == "é\ud83db"
