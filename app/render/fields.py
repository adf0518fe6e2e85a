"""The fields of a schema as a template draws them: numbered, each with what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from app.core.events import Problem
from app.schema.form import Field, Form


@dataclass(frozen=True)
class Row:
    """A field; `number` counts over all of a form and names its element. `wrong` is a sentence."""

    field: Field
    number: int
    wrong: str = ""
    rows: tuple[Row, ...] = ()


def rows_of(
    fields: Sequence[Field], problems: Iterable[Problem] = ()
) -> tuple[tuple[Row, ...], tuple[Problem, ...]]:
    """The rows, and the problems that are of no single field. One inside a field is the field's."""
    places = {one.pointer for one in flat(fields) if not one.rest and one.kind != "object"}
    wrong: dict[str, str] = {}
    others = []
    for problem in problems:
        place = next((p for p in _upwards(problem.pointer) if p in places), None)
        if place is None or problem.kind != "schema":
            others.append(problem)
        else:
            wrong.setdefault(place, problem.message)
    numbers = iter(range(10_000))
    return tuple(_row(field, numbers, wrong) for field in fields), tuple(others)


def flat(fields: Iterable[Field]) -> Iterator[Field]:
    """The fields with all their children, in order."""
    for field in fields:
        yield field
        yield from flat(field.children)


def flat_rows(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows with all inside them, in order."""
    for row in rows:
        yield row
        yield from flat_rows(row.rows)


def as_typed(fields: Sequence[Field], form: Form, pointer: str = "") -> tuple[Field, ...]:
    """`fields` with what stands in `form`, be it right or wrong: nothing typed is lost. They are
    the members of the object at `pointer`."""
    made = tuple(_typed(field, form) for field in fields)
    others = _texts(form, f"rest:{pointer}")
    if not others or any(field.rest for field in fields):
        return made
    label = "other members · JSON object"
    return (*made, Field(pointer, "", label, "json", value=others, rest=True))


def _typed(field: Field, form: Form) -> Field:
    if field.kind == "object":
        return replace(field, children=as_typed(field.children, form, field.pointer))
    is_null = form.get(field.null_key, [""])[-1:] == ["on"] and field.nullable
    typed = _texts(form, f"json:{field.pointer}")
    if typed is not None and field.kind != "json":
        return replace(field, kind="json", value=typed, nullable=False, is_null=False)
    keys: Mapping[str, Sequence[str]] = {
        "text": ("text", "long", "date"),
        "date": ("text", "long", "date"),
        "long": ("text", "long", "date"),
    }
    kinds = ("rest",) if field.rest else keys.get(field.kind, (field.kind,))
    for kind in kinds:
        if (typed := _texts(form, f"{kind}:{field.pointer}")) is not None:
            shown = "long" if "\n" in typed and field.kind in ("text", "date") else field.kind
            return replace(field, value=typed, kind=shown, is_null=is_null)
    return replace(field, is_null=is_null)


def _texts(form: Form, key: str) -> str | None:
    values = form.get(key)
    return values[-1].replace("\r\n", "\n") if values else None


def _row(field: Field, numbers: Iterator[int], wrong: Mapping[str, str]) -> Row:
    number = next(numbers)
    said = "" if field.rest or field.kind == "object" else wrong.get(field.pointer, "")
    return Row(field, number, said, tuple(_row(child, numbers, wrong) for child in field.children))


def _upwards(pointer: str) -> Iterator[str]:
    while pointer:
        yield pointer
        pointer = pointer.rpartition("/")[0]
    yield ""
