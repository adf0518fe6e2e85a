"""The rows of a schema: what they show, and that they lose nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.schema.outline import MAX_ROWS, OutlineRow, apply_form, outline, row_at

EVENT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "description": "What\nit is", "minLength": 1},
        "minutes": {"type": ["integer", "null"], "minimum": 5, "default": 30, "multipleOf": 5},
        "color": {"enum": ["red", 7, None]},
        "who": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {"mail": {"type": "string", "format": "email", "pattern": "@"}},
                "required": ["mail"],
                "additionalProperties": False,
            },
        },
        "odd": {"type": ["string", "integer"]},
        "any": True,
    },
    "required": ["title"],
    "$defs": {"a": {}},
}

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text())
NAMES = st.sampled_from(
    (
        *("type", "enum", "default", "description", "minimum", "maxLength", "required", "items"),
        *("additionalProperties", "properties", "format", "pattern", "x"),
    )
)
ANY = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(), inner, max_size=4)
    ),
    max_leaves=8,
)
SCHEMAS = st.recursive(
    st.booleans()
    | st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "integer", "number", "boolean", ["string", "null"]])},
        optional={
            **dict.fromkeys(("default", "const", "x"), ANY),
            "enum": st.lists(SCALARS, min_size=1, max_size=4),
            "description": st.text(),
            "minimum": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
            "maxLength": st.integers(0, 9),
            "format": st.text(),
        },
    ),
    lambda inner: (
        st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.dictionaries(st.text(), inner, max_size=4),
            },
            optional={
                "required": st.lists(st.text(max_size=2), max_size=2, unique=True),
                "additionalProperties": st.booleans() | inner,
            },
        )
        | st.fixed_dictionaries({"type": st.just("array")}, optional={"items": inner})
        | st.fixed_dictionaries({}, optional={"anyOf": st.lists(inner), "items": ANY})
    ),
    max_leaves=12,
)


def form_fields(root: OutlineRow) -> dict[str, str]:
    """All fields of a form as a browser would send them, untouched."""
    form = {f"{row.number}.here": "1" for row in root.flat()}
    form |= {
        f"{row.number}.{name}": text for row in root.flat() for name, text in row.texts.items()
    }
    form |= {
        f"{row.number}.{name}": "on" for row in root.flat() for name, on in row.ticks.items() if on
    }
    return form


@pytest.mark.parametrize(
    ("path", "texts", "ticks"),
    [
        ((), {"rest": '{\n  "$defs": {\n    "a": {}\n  }\n}'}, {"closed": False}),
        (
            ("properties", "title"),
            {"name": "title", "type": "string", "description": "What\nit is", "low": "1"},
            {"required": True, "null": False},
        ),
        (
            ("properties", "minutes"),
            {"low": "5", "default": "30", "rest": '{\n  "multipleOf": 5\n}'},
            {"required": False, "null": True},
        ),
        (("properties", "color"), {"type": "", "enum": '"red"\n7\nnull'}, {}),
        (
            ("properties", "who", "items", "properties", "mail"),
            {"format": "email", "rest": '{\n  "pattern": "@"\n}'},
            {"required": True},
        ),
        (("properties", "who", "items"), {"rest": ""}, {"closed": True}),
        (("properties", "odd"), {"name": "odd"}, {}),
        (("properties", "any"), {"json": "true"}, {}),
    ],
)
def test_what_a_row_shows(path: Any, texts: dict[str, str], ticks: dict[str, bool]) -> None:
    row = row_at(outline(EVENT), path)
    assert row is not None
    assert {name: row.texts.get(name) for name in texts} == texts
    assert {name: row.ticks.get(name) for name in ticks} == ticks


def exactly(value: Any) -> str:
    """As JSON text, so that 1, 1.0 and true differ, and so does the order of members."""
    return json.dumps(value)


@given(st.dictionaries(st.text(), SCHEMAS, max_size=4), ANY)
def test_an_untouched_form_is_the_very_same_schema(properties: Any, more: Any) -> None:
    schema = {"type": "object", "properties": properties, "x-more": more}
    edited = apply_form(schema, form_fields(outline(schema)))
    assert edited.problems == {}
    assert exactly(edited.schema) == exactly(schema)


@given(st.dictionaries(st.text(), SCHEMAS, max_size=4))
def test_rows_say_all_of_a_schema_or_keep_it_as_json(properties: Any) -> None:
    """Whatever stands in a row and is not in its fields stands in its `rest`."""
    schema = {"type": "object", "properties": properties}
    for row in outline(schema).flat():
        here: Any = schema
        for key in row.path:
            here = here[key]
        if "json" in row.texts:
            assert exactly(json.loads(row.texts["json"])) == exactly(here)
            continue
        rest = json.loads(row.texts["rest"] or "{}")
        number = sum(bool(text) for name, text in row.texts.items() if name not in ("name", "rest"))
        number += len({"properties", "items"} & set(here)) - len(
            {"properties", "items"} & set(rest)
        )
        number += row.place == "root"  # its type
        number += row.ticks.get("closed", False) + ("required" in here and "required" not in rest)
        assert number + len(rest) == len(here)


def test_what_is_too_deep_or_too_much_is_json() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(9):
        deep = {"type": "object", "properties": {"a": deep}}
    rows = list(outline(deep).flat())
    assert rows[-1].depth == 6
    assert "json" in rows[-1].texts
    many = {"type": "object", "properties": {f"a{n}": {"type": "string"} for n in range(400)}}
    rows = list(outline(many).flat())
    assert "json" in rows[-1].texts
    assert "json" not in rows[MAX_ROWS - 1].texts


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "string", "enum": ["a\nb"]},
        {"type": "string", "enum": ["", "a"]},
        {"type": "string", "enum": ["a", None]},
        {"type": "string", "default": 5},
        {"type": "integer", "minimum": "5"},
        {"type": "string", "description": "a\rb"},
    ],
)
def test_what_a_field_would_give_back_otherwise_stands_in_the_rest(odd: dict[str, Any]) -> None:
    row = outline({"type": "object", "properties": {"a": odd}}).children[0]
    (keyword,) = set(odd) - {"type"}
    assert json.loads(row.texts["rest"]) == {keyword: odd[keyword]}
    assert row.texts.get(keyword, "") == ""


def test_that_nothing_is_required_leaves_nothing_over_and_stays_as_it_is() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": []}
    root = outline(schema)
    assert root.texts["rest"] == ""
    assert apply_form(schema, form_fields(root)).schema == schema
