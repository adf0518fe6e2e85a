"""Type hints as JSON Schema: the same values are accepted as pydantic accepts for the same hint."""

from __future__ import annotations

import ast
import datetime
import typing
from typing import Any

import jsonschema_rs
import pytest
from pydantic import Field, TypeAdapter

from playground.exchange.python_types import Types

HINTS = (
    *("str", "int", "float", "bool", "None", "Any", "list", "dict", "dict[str, int]"),
    *("list[int]", "list[list[str]]", "set[str]", "Sequence[int]", "tuple[int, str]"),
    *("tuple[int, ...]", "int | None", "Optional[str]", "Union[int, str]", "int | str | None"),
    *("Literal['a', 'b']", "Literal[1, 'a', None]", "Optional[Literal['a']]", "dict[str, Any]"),
    *("Annotated[int, Field(ge=2, lt=4)]", "Annotated[str, Field(min_length=2)]"),
    *(
        "Annotated[int, Field(gt=1)]",
        "Annotated[list[int], Field(max_length=1)]",
        "typing.List[int]",
        "Dict[str, bool]",
    ),
    *("FrozenSet[int]", "OrderedDict[str, int]", "Deque[int]"),
    *("Optional[list[int]]", "list[int | None]", "datetime.date", "'int'", "list['str']"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, 0, 1, 2, 3, 4, 1.5, "", "a", "b", "ab", "2026-05-04", [], [1], [1, 2], ["a"]),
    *([1, "a"], [None], [["a"]], ["a", "a"], {}, {"k": 1}, {"k": True}, {"k": "v"}),
)
SCOPE = {**vars(typing), "typing": typing, "datetime": datetime, "Field": Field}

CLASSES = '''
class Unit(Enum):
    C = "c"
    F = "f"

class Base(BaseModel):
    id: int

class Place(Base):
    """Where it is."""
    model_config = {}
    city: str = Field(description="Its name", max_length=9)
    unit: Unit = Unit.C
    kids: list["Place"] = Field(default_factory=list)
    secret: ClassVar[int] = 1

class Aliased(BaseModel):
    zip_code: str = Field(alias="zipCode")
    street: Annotated[str, Field(validation_alias="streetName")] = ""

class Open(TypedDict, total=False):
    a: Required[int]
    b: str

@dataclass(frozen=True)
class Point:
    x: float
    y: float = 0.5

@dataclass
class Box(Generic[T, U]):
    item: T
    more: list[U] = field(default_factory=list)
    seed: InitVar[int] = 0
    made: int = field(default=1, init=False)

class Other:
    x: int
'''


def schema_of(hint: str, source: str = "") -> tuple[dict[str, Any], list[str]]:
    tree = ast.parse(source)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    types = Types(classes, {})
    return types.schema(ast.parse(hint, mode="eval").body), types.notes


@pytest.mark.parametrize("hint", HINTS)
def test_a_hint_accepts_what_pydantic_says_it_accepts(hint: str) -> None:
    schema, notes = schema_of(hint)
    theirs = TypeAdapter(eval(hint, SCOPE)).json_schema()
    ours, reference = (
        jsonschema_rs.Draft202012Validator(data, validate_formats=True) for data in (schema, theirs)
    )
    for value in VALUES:
        assert ours.is_valid(value) == reference.is_valid(value), (value, schema, theirs)
    assert notes == []


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        ("Unit", {"type": "string", "enum": ["c", "f"]}),
        ("Literal[Unit.F]", {"type": "string", "enum": ["f"]}),
        (
            "Box[int, Unit]",
            {
                "type": "object",
                "properties": {
                    "item": {"type": "integer"},
                    "more": {"type": "array", "items": {"type": "string", "enum": ["c", "f"]}},
                    "seed": {"type": "integer", "default": 0},
                },
                "required": ["item"],
            },
        ),
        (
            "Place",
            {
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "city": {"type": "string", "maxLength": 9, "description": "Its name"},
                    "unit": {"type": "string", "enum": ["c", "f"]},
                    "kids": {"type": "array"},
                },
                "required": ["id", "city"],
                "description": "Where it is.",
            },
        ),
        (
            "Aliased",
            {
                "type": "object",
                "properties": {
                    "zipCode": {"type": "string"},
                    "streetName": {"type": "string", "default": ""},
                },
                "required": ["zipCode"],
            },
        ),
        (
            "Open",
            {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
                "required": ["a"],
            },
        ),
        (
            "Point",
            {
                "type": "object",
                "properties": {"x": {"type": "number"}, "y": {"type": "number", "default": 0.5}},
                "required": ["x"],
            },
        ),
    ],
)
def test_the_classes_of_the_file(hint: str, schema: dict[str, Any]) -> None:
    assert schema_of(hint, CLASSES)[0] == schema


@pytest.mark.parametrize("hint", ["Other", "numpy.ndarray", "Callable[[int], str]", "f(1)", "'('"])
def test_what_is_not_known_allows_anything_and_is_said(hint: str) -> None:
    schema, notes = schema_of(hint, CLASSES)
    assert schema == {}
    assert "is not known here" in notes[0]


def test_a_class_that_holds_itself_is_said() -> None:
    assert schema_of("Place", CLASSES)[1] == [
        "Place refers to itself. Inside it, anything is allowed."
    ]


@pytest.mark.parametrize("body", ["A = auto()\n B = auto()", "A = 'a'\n B = auto()", "pass"])
def test_an_enum_whose_values_are_not_all_known_is_not_known(body: str) -> None:
    schema, notes = schema_of("E", f"class E(Enum):\n {body}\n")
    assert schema == {}
    assert "'E' is not known" in notes[0]
