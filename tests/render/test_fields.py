"""The fields of a form as rows: their problems at their places, and what was typed kept."""

from __future__ import annotations

import pytest

from playground.core.events import Problem
from playground.render.arguments import fill_fields, flat_fields, flat_rows, rows_of
from playground.schema.form import fields, form_of

SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "day": {"type": "string"},
        "any": {},
        "in": {"type": "object", "properties": {"a": {"type": ["string", "null"]}}},
    },
}


def test_a_problem_stands_at_its_field_or_with_the_others() -> None:
    problems = [
        Problem("schema", "n is wrong", "/n"),
        Problem("schema", "deep in any", "/any/0/x"),
        Problem("schema", "of the whole", ""),
        Problem("schema", "nowhere", "/gone"),
        Problem("note", "only said", "/n"),
    ]
    rows, others = rows_of(fields(SCHEMA), problems)
    errors_by_pointer = {row.field.pointer: row.wrong for row in flat_rows(rows) if row.wrong}
    assert errors_by_pointer == {"/n": "n is wrong", "/any": "deep in any"}
    assert [other.message for other in others] == ["of the whole", "nowhere", "only said"]
    numbers = [row.number for row in flat_rows(rows)]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize(
    "form",
    [
        {"integer:/n": ["3x"]},
        {"text:/day": ["a"], "json:/n": ["{"]},
        {"rest:": ['{"other": 1}'], "integer:/n": ["1"]},
        {"rest:/in": ["{"], "null:/in/a": ["on"]},
        {"long:/day": ["a\nb"]},
    ],
)
def test_nothing_typed_is_lost(form: dict[str, list[str]]) -> None:
    again = form_of(fill_fields(fields(SCHEMA), form))
    assert {key: again.get(key) for key in form} == form


def test_a_text_of_several_lines_gets_several_lines() -> None:
    (day,) = (
        form_field
        for form_field in flat_fields(fill_fields(fields(SCHEMA), {"text:/day": ["a\nb"]}))
        if form_field.pointer == "/day"
    )
    assert (day.kind, day.value) == ("long", "a\nb")
