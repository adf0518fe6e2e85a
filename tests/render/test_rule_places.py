"""The places of a schema that a rule may look at, and what is said of one that there is not."""

from __future__ import annotations

from typing import Any

import pytest

from playground.core.tools import Tool
from playground.web.rules_view import MOST_PLACES, places, unknown_pointer_note

TEXT = {"type": "string"}
PLACE = {"type": "object", "properties": {"city": TEXT, "a/b": TEXT}}
SCHEMA = {
    "type": "object",
    "properties": {
        "at": PLACE,
        "unit": TEXT,
        "days": {"type": "array", "items": PLACE},
        "one": {"anyOf": [PLACE, TEXT]},
        "more": {"type": "object", "properties": {}, "additionalProperties": True},
        "any": {},
    },
}


def test_the_places_to_choose_from() -> None:
    named = ("/at", "/unit", "/days", "/one", "/more", "/any", "/at/city", "/at/a~1b")
    assert places(SCHEMA) == named
    assert places(True) == places({"properties": []}) == ()
    many: dict[str, Any] = {"properties": {f"p{n}": {} for n in range(MOST_PLACES + 5)}}
    assert len(places(many)) == MOST_PLACES


@pytest.mark.parametrize(
    ("pointer", "message"),
    [
        ("", ""),
        ("/unit", ""),
        ("/at/a~1b", ""),
        ("/days/0/city", ""),
        ("/one/whatever", ""),
        ("/more/whatever", ""),
        ("/any/whatever", ""),
        ("/citty", "weather has no /citty; it has at, unit, days, one, more, any."),
        ("/at/citty", "weather has no /at/citty; /at has city, a/b."),
        ("/days/0/citty", "weather has no /days/0/citty; /days/0 has city, a/b."),
    ],
)
def test_a_place_that_there_is_not_is_told(pointer: str, message: str) -> None:
    assert unknown_pointer_note(Tool("weather", parameters=SCHEMA), pointer) == message


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"$ref": "#/a", "properties": {}}])
def test_an_open_schema_is_believed(schema: dict[str, Any]) -> None:
    assert unknown_pointer_note(Tool("weather", parameters=schema), "/x") == ""
    bare = Tool("now", parameters={"type": "object", "properties": {}})
    assert unknown_pointer_note(bare, "/x") == "now has no /x; it has nothing."
