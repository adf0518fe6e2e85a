"""JSON, JSON Lines, TOML and YAML as values."""

from __future__ import annotations

import re
from typing import Any

import pytest

from playground.exchange.parsers import (
    UnreadableText,
    json_lines,
    json_value,
    toml_value,
    without_comments,
    yaml_value,
)

BOMB = "a0: &a0 [x]\n" + "".join(f"a{i + 1}: &a{i + 1} [{f'*a{i}, ' * 10}]\n" for i in range(20))
DEEPER = "a0: &a0 [x]\n" + "".join(f"a{i + 1}: &a{i + 1} [*a{i}]\n" for i in range(80))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (
            "a: no\nb: on\nc: true\nd: null\ne: ~\nf:",
            {"a": "no", "b": "on", "c": True, "d": None, "e": None, "f": None},
        ),
        (
            "a: 1\nb: -2.5\nc: 1e3\nd: 0x1f\ne: 1_000\nf: .inf",
            {"a": 1, "b": -2.5, "c": 1000.0, "d": "0x1f", "e": "1_000", "f": ".inf"},
        ),
        (
            "a: '1'\nb: \"true\"\nc: 2026-05-04\nd: 3.1.0",
            {"a": "1", "b": "true", "c": "2026-05-04", "d": "3.1.0"},
        ),
        ("200: ok\ntrue: x", {"200": "ok", "true": "x"}),
        (
            "- [a, {b: c}]\n- |\n  two\n  lines\n- >\n  one\n  line",
            [["a", {"b": "c"}], "two\nlines\n", "one line"],
        ),
        ("a: !!str 1", {"a": "1"}),
        ("a: &x {b: [1]}\nc: [*x, *x]", {"a": {"b": [1]}, "c": [{"b": [1]}, {"b": [1]}]}),
        ("a: &x 1\nb: &x 2\nc: *x", {"a": 1, "b": 2, "c": 2}),
        ("&k a: &v b\n*v : *k", {"a": "b", "b": "a"}),
        (
            "a: &x {b: 1, c: 2}\nd: {<<: *x, b: 3}\ne: {<<: [{c: 4}, *x]}\nf: {<<: 5}",
            {"a": {"b": 1, "c": 2}, "d": {"b": 3, "c": 2}, "e": {"b": 1, "c": 4}, "f": {"<<": 5}},
        ),
    ],
)
def test_yaml_as_its_core_schema_reads_it(text: str, value: Any) -> None:
    assert yaml_value(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2", "Line 2, column 1: duplicate key 'a'."),
        ("a: 1\n---\nb: 2", "a second document begins here"),
        ("[a, b]: 1", "a key must be a text"),
        ("a: *x", "Line 1, column 4: the alias 'x' has no anchor before"),
        ("a: &x [1, *x]", "the alias 'x' has no anchor before"),
        ("? *x\n: &x 1", "the alias 'x' has no anchor before"),
        ("a: &x [1]\n*x : 1", "a key must be a text"),
        (BOMB, "more than 600,000 values"),
        ("a: &x " + "x" * 100_000 + "\nb: [" + "*x, " * 100 + "]", "or they are too long"),
        (DEEPER, "deeper than 64 levels by its aliases"),
        ("a: " + "[" * 65, "column 67: the YAML is nested deeper than 64 levels."),
        # Beyond the bound that libyaml has of its own, too.
        ("a: " + "[" * 1_500, "the YAML is nested deeper than 64 levels."),
        ("{a: " * 1_500, "the YAML is nested deeper than 64 levels."),
        ("a: '" + "[" * 1_500, "found unexpected end of stream"),
        ("a: !mine 1", "the tag '!mine' is not supported"),
        ("a: \x00", "a character that YAML forbids"),
        ("# nothing", "The YAML is empty."),
    ],
)
def test_yaml_that_is_not_read(text: str, message: str) -> None:
    with pytest.raises(UnreadableText, match=re.escape(message)):
        yaml_value(text)


def test_toml() -> None:
    assert toml_value('[a.b]\nc = "${X}" # d\n') == {"a": {"b": {"c": "${X}"}}}
    dots = "[a]\nurl = '" + "." * 100 + "'\n"
    assert toml_value(dots)["a"]["url"] == "." * 100
    with pytest.raises(UnreadableText, match="TOML"):
        toml_value("a = ")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "// no /* comment */ ,}"}', {"a": "// no /* comment */ ,}"}),
        ('{"a": 1, // one\n "b": [1, 2, ], /* two\n lines */ }', {"a": 1, "b": [1, 2]}),
        (r'{"a": "\" // no", }', {"a": '" // no'}),
    ],
)
def test_comments_and_last_commas(text: str, value: Any) -> None:
    parsed_value, note = json_value(text)
    assert parsed_value == value
    assert bool(note) == (text != without_comments(text))
    assert len(without_comments(text)) == len(text)


def test_an_error_is_told_where_it_stands_in_the_text_that_was_typed() -> None:
    with pytest.raises(UnreadableText, match="Line 3, column 1"):
        json_value('{"a": 1,\n"b": 2\n"c": 3}')


def test_json_lines() -> None:
    (row, bad) = json_lines('{"a": 1}\n\n{"a": }\n')
    assert row == (1, {"a": 1})
    assert bad[0] == 3
    assert isinstance(bad[1], UnreadableText)
