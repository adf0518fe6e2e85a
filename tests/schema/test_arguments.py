"""The table of arguments: what is read, what is malformed and where, and in what time."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.core.json_values import exact_number
from playground.executors.python import runner
from playground.schema.strict_json import MAX_BYTES, InvalidJSON, parse, read_arguments
from tests.tables import rest_slow

MB4 = MAX_BYTES
OBJECTS = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=10,
    ),
)

MALFORMED = {
    "truncated": ('{"city": "Par', 13, "Line 1, column 14: the text ends before"),
    "truncated-value": ('{"city": ', 9, "the text ends before"),
    "truncated-line": ('{\n"city": 1,\n', 13, "Line 3, column 1"),
    "garbage": ("hello", 0, "a value is expected here"),
    "trailing": ('{"a": 1} x', 9, "continues after the end"),
    "two-objects": ('{"a":1}{"b":2}', 7, "continues after the end"),
    "single-quotes": ("{'a':1}", 1, "a key in double quotes"),
    "comments": ('{"a":1 // x\n}', 7, "a comma or a closing bracket"),
    "trailing-comma": ('{"a":1,\n}', None, "Line"),
    "control-chars": ('{"a":"x\ny"}', 7, "control character"),
    "bad-escape": ('{"a":"\\x"}', 6, "escape"),
    "leading-zero": ('{"a":01}', 6, "a comma or a closing bracket"),
    "bom": ("\ufeff{}", 0, "byte order mark"),
    "array": ("[1]", 0, "an array"),
    "number": (" 12", 1, "an integer"),
    "boolean": ("true", 0, "a boolean"),
    "double-encoded": (json.dumps('{"a":1}'), 0, "encoded twice"),
    "duplicate-keys": (
        '{"a":1,\n "b":{"a":2, "a":3}}',
        21,
        'Line 2, column 14: duplicate key "a"',
    ),
    "duplicate-escaped": ('{"a":1,"\\u0061" :2}', 7, "duplicate key"),
    "nan": ('{"x":"NaN", "a":NaN}', 16, "NaN is not JSON"),
    "infinity": ('{"a":-Infinity}', 5, "-Infinity is not JSON"),
    "lone-high": ('{"a":"\\ud83d\\ude00 \\\\ud800 \\ud800"}', 27, "surrogate"),
    "lone-low": ('{"a":"\\ude00"}', 6, "surrogate"),
    "swapped": ('{"a":"\\ude00\\ud83d"}', 6, "surrogate"),
    "high-high-low": ('{"a":"\\ud83d\\ud83d\\ude00"}', 6, "surrogate"),
    "split-pair": ('{"a":"\\ud83dx\\ude00"}', 6, "surrogate"),
    "surrogate-key": ('{"\\uDFFF":1}', 2, "surrogate"),
    "raw-surrogate": ('{"a":"\ud800"}', 6, "surrogate"),
    "depth-65": ('{"a":' * 65 + "1" + "}" * 65, 320, "deeper than 64"),
    "depth-100000": ('{"a":' * 100_000 + "1" + "}" * 100_000, 320, "deeper than 64"),
    "depth-unclosed": ("[" * 100_000, 64, "deeper than 64"),
    "keys-10001": (json.dumps({f"k{n}": 1 for n in range(10_001)}), None, "more than 10,000 keys"),
    "digits-401": ('{"a":-' + "1" * 401 + "}", 5, "400 digits"),
    "digits-5000": ('{"s":"' + "1" * 500 + '","a":' + "1" * 5000 + "}", 512, "400 digits"),
    "digits-after-point": ('{"a":0.' + "1" * 400 + "}", 5, "400 digits"),
    "exponent": ('{"a":[1,1e401]}', 8, "400 digits"),
    "exponent-huge": ('{"a":-1e9999999999999999999}', 5, "400 digits"),
    "exponent-tiny": ('{"a":1e-9999999999}', 5, "400 digits"),
    "too-large": ('{"a":"' + "x" * MB4 + '"}', 0, "4,194,304"),
    "too-large-bytes": ('{"a":"' + "é" * (MB4 // 2) + '"}', 0, "4,194,304"),
}
SOUND = {
    "plain": ('{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}),
    "space": (' \n{"a":1}\t', {"a": 1}),
    "depth-64": ('{"a":' * 63 + "{}" + "}" * 63, None),
    "keys-10000": (json.dumps({f"k{n}": n for n in range(10_000)}), None),
    "pair": ('{"a":"\\ud83d\\ude00 \\\\ud800"}', {"a": "😀 \\ud800"}),
    "exact-floats": ('{"a":[0.1,1.50,1e23,5e-324,-0.0,0.0,1.7976931348623157e308]}', None),
    "same-key-elsewhere": ('{"a":{"a":1},"b":[{"a":1},{"a":2}]}', None),
    "proto": ('{"__proto__": {"x": 1}}', {"__proto__": {"x": 1}}),
    "bidi": ('{"a":"\u202e"}', {"a": "\u202e"}),
    "digits-in-string": ('{"a":"' + "1" * 5000 + '"}', {"a": "1" * 5000}),
    "four-megabytes": ('{"a":"' + "x" * (MB4 - 8) + '"}', None),
}
NOTED = {
    "empty": ("", {}, "nothing"),
    "blank": (" \n", {}, "nothing"),
    "null": (" null ", {}, "null"),
    "bignum": ('{"a":{"b":[9007199254740993]}}', {"a": {"b": [2**53 + 1]}}, "/a/b/0"),
    "digits-400": ('{"a":' + "7" * 400 + "}", {"a": int("7" * 400)}, "/a"),
    "beyond-double": ('{"a":1e400}', {"a": 10**400}, "/a"),
    "tiny": ('{"a":1e-99999}', {"a": 0.0}, "/a"),
    "decimal-25": ('{"a":0.1234567890123456789012345}', {"a": 0.12345678901234568}, "/a"),
    "half": ('{"n":12345678901234567890.5}', {"n": 12345678901234567890.5}, "/n"),
    "whole": ('{"n":12345678901234567890.0}', {"n": 12345678901234567890.0}, "/n"),
    "once": ('{"n":1e400,"d":0.12345678901234567891}', None, "/n"),
    "nul": ('{"a/b":"x\\u0000"}', {"a/b": "x\0"}, "/a~1b"),
}
SLOW = {
    "deep": '{"a":' * 100_000,
    "numbers": '{"a":[' + "0," * 400_000 + "0]}",
    "lists-and-a-duplicate": '{"a":[' + "[]," * 200_000 + '[]],"a":1}',
    "backslashes": '{"a":1,"b":"' + "\\\\" * 400_000 + '","b":1}',
    "pairs": '{"a":"' + "\\ud83d\\ude00" * 300_000 + '\\ud800"}',
    "quotes": '"' * MB4,
    "many-long-numbers": '{"a":[' + ("1" * 401 + ",") * 9_000 + "1]}",
    "floats": '{"a":[' + "0.0," * 200_000 + "0]}",
    "dashes": '{"a":"' + "1-" * 400_000 + '"}',
    "es": '{"a":1' + "e" * 1_000_000 + "}",
}

WORDS = st.from_regex(r"\A-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?\Z")


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed(case: str) -> None:
    raw, offset, words = MALFORMED[case]
    arguments = read_arguments(raw)
    assert arguments.value is None
    (problem,) = arguments.problems
    assert problem.kind == "malformed"
    assert words in problem.message
    assert problem.message.endswith(".")
    assert 0 <= problem.offset <= len(raw)
    assert offset is None or problem.offset == offset
    assert problem.fix == ('{"a":1}' if case == "double-encoded" else "")


@pytest.mark.parametrize("case", SOUND)
def test_sound(case: str) -> None:
    raw, value = SOUND[case]
    arguments = read_arguments(raw)
    assert arguments.problems == ()
    assert arguments.value == (json.loads(raw) if value is None else value)


@pytest.mark.parametrize("case", NOTED)
def test_noted(case: str) -> None:
    raw, value, words = NOTED[case]
    arguments = read_arguments(raw)
    assert arguments.value == value or value is None
    (problem,) = arguments.problems
    assert problem.kind == "note"
    assert words in problem.message


@pytest.mark.timeout(30)
@pytest.mark.parametrize("case", rest_slow(SLOW, 3))
def test_time_is_bounded(case: str) -> None:
    read_arguments(SLOW[case])


@given(WORDS.filter(lambda word: not word.lstrip("-").isdigit()))
def test_a_tool_is_given_the_number_that_was_checked(word: str) -> None:
    number = exact_number(word)
    assert Decimal(repr(number) if isinstance(number, float) else number) == Decimal(word)
    assert (type(runner.exact_number(word)), runner.exact_number(word)) == (type(number), number)


@given(OBJECTS, st.sampled_from([None, 1]), st.booleans())
def test_what_json_writes_is_read_back(
    value: dict[str, object], indent: int | None, escaped: bool
) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=escaped)
    assert read_arguments(raw).value == value


@given(OBJECTS, st.data())
def test_cut_or_garbled_text_never_raises(value: dict[str, object], data: st.DataObject) -> None:
    raw = json.dumps(value)
    cut = data.draw(st.integers(0, len(raw)))
    junk = data.draw(st.text(max_size=3))
    for text in (raw[:cut], raw[:cut] + junk + raw[cut:]):
        read = read_arguments(text)
        assert (read.value is None) == any(p.kind == "malformed" for p in read.problems)
        if read.value is not None and text.strip() not in ("", "null"):
            assert read.value == json.loads(text)


def test_parse_tells_line_and_column_after_lf_only() -> None:
    with pytest.raises(InvalidJSON, match=r"Line 2, column 8: a value is expected here\."):
        parse('{"a": "\u2028",\n  "b": }')
