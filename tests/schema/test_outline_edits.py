"""What is typed into the rows of a schema, and rows added, removed and moved."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.schema.outline import apply_action, apply_form, outline, row_at
from tests.schema.test_outline import EVENT, form_fields

TITLE, MINUTES = ("properties", "title"), ("properties", "minutes")
COLOR, WHO = ("properties", "color"), ("properties", "who")

ORDER = ["title", "minutes", "color", "who", "odd", "any"]


def after(path: Any, typed: dict[str, str | None]) -> Any:
    """EVENT after typing these fields of the row at `path`; None unticks."""
    root = outline(EVENT)
    row = row_at(root, path)
    assert row is not None
    form = form_fields(root)
    for name, text in typed.items():
        if text is None:
            del form[f"{row.number}.{name}"]
        else:
            form[f"{row.number}.{name}"] = text
    return apply_form(EVENT, form), row.number


@pytest.mark.parametrize(
    ("path", "typed", "there", "expected"),
    [
        (TITLE, {"description": ""}, TITLE, {"type": "string", "minLength": 1}),
        (TITLE, {"description": "a\r\nb"}, (*TITLE, "description"), "a\nb"),
        (TITLE, {"enum": "Walk\r\nRun\r\n"}, (*TITLE, "enum"), ["Walk", "Run"]),
        (TITLE, {"default": "30"}, (*TITLE, "default"), "30"),
        (MINUTES, {"default": "45"}, (*MINUTES, "default"), 45),
        (MINUTES, {"null": None}, (*MINUTES, "type"), "integer"),
        (MINUTES, {"type": "number", "low": "0.5"}, (*MINUTES, "minimum"), 0.5),
        (
            MINUTES,
            {"rest": ""},
            MINUTES,
            {"type": ["integer", "null"], "minimum": 5, "default": 30},
        ),
        (MINUTES, {"required": "on"}, ("required",), ["title", "minutes"]),
        (TITLE, {"required": None}, ("required",), KeyError),
        (TITLE, {"name": "what"}, ("required",), ["what"]),
        (TITLE, {"name": "what", "low": "2"}, ("properties", "what", "minLength"), 2),
        (COLOR, {"type": "string", "enum": "red\nblue"}, (*COLOR, "enum"), ["red", "blue"]),
        (COLOR, {"type": "string"}, (*COLOR, "enum"), ["red", 7, None]),
        ((), {"closed": "on"}, ("additionalProperties",), False),
        (("properties", "any"), {"json": "{}"}, ("properties", "any"), {}),
    ],
)
def test_what_is_typed_changes_just_that(path: Any, typed: Any, there: Any, expected: Any) -> None:
    result, _ = after(path, typed)
    assert result.problems == {}
    here = result.schema
    try:
        for key in there:
            here = here[key]
    except KeyError:
        here = KeyError
    assert here == expected
    now, before = result.schema["properties"], EVENT["properties"]
    assert sum(now.get(name) != item for name, item in before.items()) <= 1
    assert result.schema["$defs"] == EVENT["$defs"]
    assert len(result.schema["properties"]) == len(EVENT["properties"])


@pytest.mark.parametrize(
    ("path", "field", "text", "message"),
    [
        (TITLE, "low", "many", "not a JSON value"),
        (TITLE, "low", '"1"', "a number"),
        (TITLE, "name", "minutes", "Two properties"),
        (TITLE, "name", "", "needs a name"),
        (TITLE, "type", "text", "one of string"),
        (TITLE, "rest", "[1]", "JSON object"),
        (TITLE, "rest", '{"minLength": 3}', "its own field"),
        (MINUTES, "default", "x", "double quotes"),
        (("properties", "any"), "json", "[]", "true or false"),
        (("properties", "any"), "json", "{", "not a JSON value"),
    ],
)
def test_what_cannot_be_is_said_at_its_field(
    path: Any, field: str, text: str, message: str
) -> None:
    result, number = after(path, {field: text})
    assert result.schema == EVENT
    (name,) = result.problems if field != "name" or not text else list(result.problems)[-1:]
    assert message in result.problems[name]
    assert name.endswith(field)
    assert text != "many" or name == f"{number}.low"


def test_a_row_that_the_form_does_not_hold_stays() -> None:
    assert apply_form(EVENT, {}).schema == EVENT
    assert apply_form(EVENT, {"1.description": "x"}).schema["required"] == ["title"]


@pytest.mark.parametrize(
    ("act", "path", "order", "focus"),
    [
        ("add", (), [*ORDER, "field"], ("properties", "field")),
        ("remove", TITLE, ORDER[1:], ()),
        ("up", MINUTES, ["minutes", "title", *ORDER[2:]], MINUTES),
        ("up", TITLE, ORDER, TITLE),
        ("down", ("properties", "any"), ORDER, ("properties", "any")),
        ("down", TITLE, ["minutes", "title", *ORDER[2:]], TITLE),
        ("remove", (), ORDER, ()),
        ("nothing", TITLE, ORDER, TITLE),
    ],
)
def test_rows_are_added_removed_and_moved(act: str, path: Any, order: Any, focus: Any) -> None:
    before = json.dumps(EVENT)
    document, there = apply_action(EVENT, act, path)
    assert (list(document["properties"]), there) == (order, focus)
    assert json.dumps(EVENT) == before
    assert document.get("required") == (None if (act, path) == ("remove", TITLE) else ["title"])


def test_an_array_is_given_items_and_an_inner_object_properties() -> None:
    bare = {"type": "object", "properties": {"a": {"type": ["array", "null"]}}}
    document, there = apply_action(bare, "add", ("properties", "a"))
    assert document["properties"]["a"]["items"] == {"type": "string"}
    assert there == ("properties", "a", "items")
    again, _ = apply_action(document, "remove", there)
    assert again == bare
    inner, there = apply_action(EVENT, "add", (*WHO, "items"))
    assert there == (*WHO, "items", "properties", "field")
    inner, there = apply_action(inner, "remove", there)
    assert inner == EVENT
