from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.core.events import Problem
from playground.render.arguments import (
    LAYOUT_LIMIT,
    ArgumentEdit,
    apply_fix,
    edits,
    lay_out,
    readable_prefix,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=8), inner, max_size=6)
    ),
    max_leaves=40,
)


def text_of(raw: str, *problems: Problem) -> str:
    return "".join(token.text for token in lay_out(raw, problems))


@given(JSON, st.sampled_from([None, 2]))
def test_the_layout_changes_only_white_space(value: object, indent: int | None) -> None:
    raw = json.dumps(value, indent=indent)
    placed = text_of(raw)
    assert json.loads(placed) == value
    literals = re.compile(r'"(?:[^"\\]|\\.)*"|[^"\s,:{}\[\]]+')
    assert literals.findall(placed) == literals.findall(raw)


@given(st.text(max_size=80))
def test_anything_can_be_shown(raw: str) -> None:
    kinds = {token.kind for token in lay_out(raw)}
    if "raw" in kinds:
        assert text_of(raw) == raw


def test_what_fits_stays_on_one_line_and_the_rest_aligns() -> None:
    assert text_of('{"a":1,"b":[true,null]}') == '{"a": 1, "b": [true, null]}'
    long = json.dumps({"title": "x" * 40, "start": "y" * 40, "n": {"k": 1}})
    assert text_of(long).split("\n") == [
        '{"title": "' + "x" * 40 + '",',
        ' "start": "' + "y" * 40 + '",',
        ' "n": {"k": 1}}',
    ]


def test_digits_and_escapes_stay() -> None:
    raw = '{"n":12345678901234567890.10,"e":1E+2,"s":"\\u00e9\\/"}'
    assert text_of(raw) == '{"n": 12345678901234567890.10, "e": 1E+2, "s": "\\u00e9\\/"}'


@pytest.mark.parametrize(
    ("raw", "pointer", "marked"),
    [
        ('{"minutes": "30"}', "/minutes", '"30"'),
        ('{"a": {"b": [1, 22]}}', "/a/b/1", "22"),
        ('{"a~b/c": 5}', "/a~0b~1c", "5"),
        ('{"a": [1]}', "/a", "["),
        ('{"a": 1}', "", "{"),
        ('{"a": 1}', "/nowhere", ""),
    ],
)
def test_the_place_of_a_problem_is_marked(raw: str, pointer: str, marked: str) -> None:
    tokens = lay_out(raw, [Problem("schema", "wrong", pointer)])
    assert "".join(token.text for token in tokens if token.wrong) == marked


@pytest.mark.parametrize(("offset", "marked"), [(6, "}"), (7, " "), (-1, ""), (99, "")])
def test_malformed_text_is_shown_as_it_came(offset: int, marked: str) -> None:
    tokens = lay_out('{"a": }', [Problem("malformed", "no value", offset=offset)])
    assert {token.kind for token in tokens} == {"raw"}
    assert "".join(token.text for token in tokens if token.wrong) == marked
    assert "".join(token.text for token in tokens).strip() == '{"a": }'


@pytest.mark.parametrize(
    ("raw", "pointer", "fix", "wanted"),
    [
        ('{"minutes":  "30", "x":1}', "/minutes", "30", '{"minutes":  30, "x":1}'),
        ('{"a": [1, {"b": [2]}]}', "/a/1", '"c"', '{"a": [1, "c"]}'),
        ('{"a": 1}', "/b", "2", ""),
        ('{"a": 1}', "/a", "", ""),
        ('{"a": ', "/a", "2", ""),
    ],
)
def test_a_fix_replaces_one_value(raw: str, pointer: str, fix: str, wanted: str) -> None:
    assert apply_fix(raw, Problem("schema", "wrong", pointer, fix=fix)) == wanted


@pytest.mark.parametrize(
    ("raw", "edited", "wanted"),
    [
        ('{"minutes": "30"}', '{"minutes": 30}', (ArgumentEdit("minutes", '"30"', "30"),)),
        ('{"a": 1}', '{"a": 1, "b": 2}', (ArgumentEdit("b", "", "2"),)),
        ('{"a": 1}', "{}", (ArgumentEdit("a", "1", ""),)),
        ('{"a": 1}', '{ "a":1 }', ()),
        ('{"a": ', "{}", ()),
    ],
)
def test_edits_are_told_by_name(raw: str, edited: str, wanted: tuple[ArgumentEdit, ...]) -> None:
    assert edits(raw, edited) == wanted


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "raw",
    [
        "[" * 50_000,
        "[" * 30_000 + "]" * 30_000,
        '{"a":' * 10_000,
        '"' + "\\" * 60_000,
        "[" + "1," * 25_000 + "1]",
        " " * LAYOUT_LIMIT,
        '"x' * 30_000,
        "x" * 5_000_000,
    ],
    ids=["open", "deep", "keys", "escapes", "wide", "space", "quotes", "long"],
)
def test_hostile_arguments_are_laid_out_soon(raw: str) -> None:
    lay_out(raw, [Problem("schema", "wrong", "/a")])


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("", None),
        ("{", {}),
        ('{"city": "Par', {"city": "Par"}),
        ('{"city": "Paris", "da', {"city": "Paris"}),
        ('{"a": [1, 2, {"b": tr', {"a": [1, 2, {}]}),
        ('{"a": "x\\', {"a": "x"}),
        ("nope", None),
        ("{'a'", None),
        ('{"a": ' * 5_000, None),
        ('{"a": "\ud800', {"a": "?"}),
    ],
)
def test_readable_prefix(raw: str, value: object) -> None:
    assert readable_prefix(raw) == value


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=6), st.data())
def test_every_prefix_is_readable(value: dict[str, object], data: st.DataObject) -> None:
    raw = json.dumps(value)
    assert readable_prefix(raw) == value
    readable_prefix(raw[: data.draw(st.integers(0, len(raw)))])
