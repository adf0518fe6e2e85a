"""A call's arguments on the page: laid out and coloured, problems marked, or as form fields.

Works on the raw text, so that digits, escapes and order are exactly those that will run. Text that
is not JSON becomes one plain token: whether a call may run is decided in schema/, never here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from typing import Any, Literal, cast

import jiter

from playground.core.arguments import pointer_step
from playground.core.events import Problem
from playground.core.json_values import load_json
from playground.schema.form import Form, FormField, typed_text

TokenKind = Literal["key", "string", "number", "word", "mark", "raw"]

WIDTH = 76
"""A container that fits into this many columns stays on one line."""
LAYOUT_LIMIT = 64_000
"""Text that is longer, or nested deeper, is shown unformatted."""
_DEPTH_LIMIT = 64
_DEEPEST_COLUMN = 40

_LEXEME = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*+")'
    r"|(?P<number>-?[0-9][0-9.eE+-]*)"
    r"|(?P<word>true|false|null)"
    r"|(?P<mark>[{}\[\],:])"
    r"|(?P<space>[ \t\r\n]+)",
    re.DOTALL,
)


@dataclass(frozen=True)
class LayoutToken:
    """A piece of the layout; `wrong` if a problem points at it."""

    kind: TokenKind
    text: str
    wrong: bool = False


@dataclass(frozen=True)
class ArgumentEdit:
    """A user's change to one argument; "" means absent."""

    name: str
    old: str
    new: str


@dataclass(frozen=True)
class _Lexeme:
    """A token of the raw text. `pointer` is set on values and on the bracket that opens one."""

    kind: TokenKind
    text: str
    start: int
    pointer: str | None = None


def lay_out(raw: str, problems: Sequence[Problem] = ()) -> tuple[LayoutToken, ...]:
    """The tokens of `raw` on as few lines as are legible, problems marked by their pointer.

    Malformed text is returned unformatted, with the character at the problem's offset marked.
    """
    malformed = [p for p in problems if p.kind == "malformed"]
    if malformed:
        return _raw_tokens(raw, max(p.offset for p in malformed))
    lexemes = _lexemes(raw)
    if lexemes is None:
        return _raw_tokens(raw, -1)
    wrong = {p.pointer for p in problems if p.kind == "schema"}
    return tuple(_merge_tokens(_layout(lexemes, wrong)))


def token_length(raw: str, offset: int) -> int:
    """The length in characters of the token at `offset`; 1 if JSON has no such token."""
    match = _LEXEME.match(raw, offset)
    return 1 if match is None or match.lastgroup == "space" else match.end() - offset


def apply_fix(raw: str, problem: Problem) -> str:
    """`raw` with the problem's safe replacement applied, or "" if it has none."""
    lexemes = _lexemes(raw) if problem.fix else None
    for place, lexeme in enumerate(lexemes or ()):
        if lexeme.pointer == problem.pointer:
            assert lexemes is not None
            last = lexemes[_closing_brackets(lexemes).get(place, place)]
            return raw[: lexeme.start] + problem.fix + raw[last.start + len(last.text) :]
    return ""


def edits(raw: str, edited: str) -> tuple[ArgumentEdit, ...]:
    """The arguments a user changed, by name; empty if that cannot be determined."""
    old, new = _object(raw), _object(edited)
    if old is None or new is None:
        return ()
    names = [*old, *(name for name in new if name not in old)]
    return tuple(
        ArgumentEdit(name, _member_json(old, name), _member_json(new, name))
        for name in names
        if _member_json(old, name) != _member_json(new, name)
    )


def _raw_tokens(raw: str, offset: int) -> tuple[LayoutToken, ...]:
    if not 0 <= offset <= len(raw):
        return (LayoutToken("raw", raw),)
    # An error at the very end has no character to underline: the mark represents what is missing.
    place = raw[offset : offset + 1] or " "
    pieces = (
        LayoutToken("raw", raw[:offset]),
        LayoutToken("raw", place, True),
        LayoutToken("raw", raw[offset + 1 :]),
    )
    return tuple(piece for piece in pieces if piece.text)


def _lexemes(raw: str) -> list[_Lexeme] | None:
    """The tokens of `raw` without white space; None if it is too long, too deep or not JSON."""
    lexemes: list[_Lexeme] = []
    path: list[_Step] = []
    for kind, text, start in _scan(raw):
        if kind is None or len(path) > _DEPTH_LIMIT:
            return None
        match text if kind == "mark" else kind:
            case "}" | "]":
                if not path:
                    return None
                path.pop()
                lexemes.append(_Lexeme(kind, text, start))
            case "," if path:
                path[-1].next()
                lexemes.append(_Lexeme(kind, text, start))
            case "string" if path and path[-1].key_next:
                path[-1].name(text)
                lexemes.append(_Lexeme("key", text, start))
            case "," | ":":
                lexemes.append(_Lexeme(kind, text, start))
            case value:
                pointer = "".join("/" + step.label for step in path)
                lexemes.append(_Lexeme(kind, text, start, pointer))
                if value in ("{", "["):
                    path.append(_Step("0", value == "{", value == "{"))
    return lexemes if lexemes and not path else None


def _scan(raw: str) -> Iterator[tuple[TokenKind | None, str, int]]:
    """(kind, text, start) of each token except white space; kind is None for an invalid token."""
    position = 0
    if len(raw) > LAYOUT_LIMIT:
        yield None, "", 0
    while position < len(raw):
        match = _LEXEME.match(raw, position)
        if match is None:
            yield None, "", position
            return
        if match.lastgroup != "space":
            yield cast(TokenKind, match.lastgroup), match[0], position
        position = match.end()


@dataclass
class _Step:
    """The position in an open container: the key or index of its current item."""

    label: str
    keyed: bool
    key_next: bool

    def next(self) -> None:
        if self.keyed:
            self.key_next = True
        else:
            self.label = str(int(self.label) + 1)

    def name(self, literal: str) -> None:
        self.label, self.key_next = _key(literal), False


def _key(literal: str) -> str:
    """A key as a step of a JSON pointer."""
    try:
        return pointer_step(str(json.loads(literal)))
    except ValueError:
        return literal


def _closing_brackets(lexemes: Sequence[_Lexeme]) -> dict[int, int]:
    """The index of the closing bracket, by the index of each opening bracket."""
    opened: list[int] = []
    closing: dict[int, int] = {}
    for place, lexeme in enumerate(lexemes):
        if lexeme.kind == "mark" and lexeme.text in "{[":
            opened.append(place)
        elif lexeme.kind == "mark" and lexeme.text in "}]":
            closing[opened.pop()] = place
    return closing


def _layout(lexemes: Sequence[_Lexeme], wrong: set[str]) -> Iterator[LayoutToken]:
    """If a container does not fit on a line, its items follow the bracket, one per line."""
    closing = _closing_brackets(lexemes)
    ends = [0, *accumulate(len(x.text) + (x.text in (",", ":")) for x in lexemes)]
    column = 0
    indents: list[int | None] = []  # None: the container is on one line
    for place, lexeme in enumerate(lexemes):
        yield LayoutToken(lexeme.kind, lexeme.text, lexeme.pointer in wrong)
        column += len(lexeme.text)
        inline = bool(indents) and indents[-1] is None
        match lexeme.text if lexeme.kind == "mark" else "":
            case "{" | "[":
                width = ends[closing[place] + 1] - ends[place]
                if inline or width <= 2 or column - 1 + width <= WIDTH:
                    indents.append(None)
                elif column <= _DEEPEST_COLUMN:
                    indents.append(column)
                else:
                    column = 2 * (1 + len(indents))
                    indents.append(column)
                    yield LayoutToken("mark", "\n" + " " * column)
            case "}" | "]":
                indents.pop()
            case ",":
                indent = indents[-1] if indents else None
                column = column + 1 if indent is None else indent
                yield LayoutToken("mark", " " if indent is None else "\n" + " " * indent)
            case ":":
                column += 1
                yield LayoutToken("mark", " ")


def _merge_tokens(tokens: Iterable[LayoutToken]) -> Iterator[LayoutToken]:
    """Merges neighbours of one kind, to reduce the number of elements in the page."""
    for (kind, wrong), run in groupby(tokens, key=lambda token: (token.kind, token.wrong)):
        yield LayoutToken(kind, "".join(token.text for token in run), wrong)


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = load_json(text) if len(text) <= LAYOUT_LIMIT else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _member_json(value: dict[str, Any], name: str) -> str:
    return json.dumps(value[name], ensure_ascii=False) if name in value else ""


# The fields of a schema as a template draws them: numbered, each with its problem.


@dataclass(frozen=True)
class FieldRow:
    """A field; `number` is unique within a form and names its element. `wrong` is a sentence."""

    field: FormField
    number: int
    wrong: str = ""
    rows: tuple[FieldRow, ...] = ()


def rows_of(
    fields: Sequence[FormField], problems: Iterable[Problem] = ()
) -> tuple[tuple[FieldRow, ...], tuple[Problem, ...]]:
    """The rows, and the problems outside of fields. Problems inside a field are in its row."""
    places = {
        field.pointer for field in flat_fields(fields) if not field.rest and field.kind != "object"
    }
    wrong: dict[str, str] = {}
    others = []
    for problem in problems:
        place = next((p for p in _enclosing_pointers(problem.pointer) if p in places), None)
        if place is None or problem.kind != "schema":
            others.append(problem)
        else:
            wrong.setdefault(place, problem.message)
    numbers = iter(range(10_000))
    return tuple(_row(field, numbers, wrong) for field in fields), tuple(others)


def flat_fields(fields: Iterable[FormField]) -> Iterator[FormField]:
    """The fields with all their children, in order."""
    for field in fields:
        yield field
        yield from flat_fields(field.children)


def flat_rows(rows: Iterable[FieldRow]) -> Iterator[FieldRow]:
    """The rows with all nested rows, in order."""
    for row in rows:
        yield row
        yield from flat_rows(row.rows)


def fill_fields(
    fields: Sequence[FormField], form: Form, pointer: str = ""
) -> tuple[FormField, ...]:
    """`fields` with the values in `form`, valid or not, so that no input is lost. They are the
    members of the object at `pointer`."""
    typed_fields = tuple(_fill_field(field, form) for field in fields)
    others = typed_text(form, f"rest:{pointer}")
    if not others or any(field.rest for field in fields):
        return typed_fields
    label = "other members · JSON object"
    return (*typed_fields, FormField(pointer, "", label, "json", value=others, rest=True))


def _fill_field(field: FormField, form: Form) -> FormField:
    if field.kind == "object":
        return replace(field, children=fill_fields(field.children, form, field.pointer))
    is_null = form.get(field.null_key, [""])[-1:] == ["on"] and field.nullable
    typed = typed_text(form, f"json:{field.pointer}")
    if typed is not None and field.kind != "json":
        return replace(field, kind="json", value=typed, nullable=False, is_null=False)
    keys: Mapping[str, Sequence[str]] = {
        "text": ("text", "long", "date"),
        "date": ("text", "long", "date"),
        "long": ("text", "long", "date"),
    }
    kinds = ("rest",) if field.rest else keys.get(field.kind, (field.kind,))
    for kind in kinds:
        if (typed := typed_text(form, f"{kind}:{field.pointer}")) is not None:
            shown = "long" if "\n" in typed and field.kind in ("text", "date") else field.kind
            return replace(field, value=typed, kind=shown, is_null=is_null)
    return replace(field, is_null=is_null)


def _row(field: FormField, numbers: Iterator[int], wrong: Mapping[str, str]) -> FieldRow:
    number = next(numbers)
    problem = "" if field.rest or field.kind == "object" else wrong.get(field.pointer, "")
    return FieldRow(
        field, number, problem, tuple(_row(child, numbers, wrong) for child in field.children)
    )


def _enclosing_pointers(pointer: str) -> Iterator[str]:
    while pointer:
        yield pointer
        pointer = pointer.rpartition("/")[0]
    yield ""


def indent_json(text: str) -> str:
    """Indented JSON, with every digit as typed; other text is returned unchanged."""
    return "".join(token.text for token in lay_out(text))


def readable_prefix(raw: str) -> object | None:
    """The readable part of JSON that is still growing; None if there is none.

    The last string may be cut, the last number may still grow. Call it once a frame, not per delta.
    """
    try:
        value: object = jiter.from_json(
            raw.encode("utf-8", "replace"), partial_mode="trailing-strings", cache_mode="keys"
        )
    except ValueError:
        return None
    return value
