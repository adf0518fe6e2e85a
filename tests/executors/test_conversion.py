"""What a function gets for the JSON of its arguments, and what JSON is made of its result.

Each row is tried with pydantic and without: the interpreter of a user's file may have either.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import datetime
import decimal
import enum
import functools
import inspect
import itertools
import json
import sys
import types
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
    Unpack,
)

import pydantic
import pytest

from playground.executors.python import conversion
from playground.executors.python.conversion import (
    ConversionError,
    TooManyItems,
    arguments_for,
    data_of,
)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(str, enum.Enum):  # noqa: UP042 - as older Pythons have it
    YES = "yes"


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0


@dataclasses.dataclass
class Line:
    start: Point
    tags: set[str] = dataclasses.field(default_factory=set)


T = TypeVar("T")


@dataclasses.dataclass
class Box(Generic[T]):
    """Of any type."""

    item: T
    more: list[T] = dataclasses.field(default_factory=list)


class Pair(NamedTuple):
    first: int
    second: datetime.date


class Query(TypedDict):
    words: list[str]
    since: NotRequired[datetime.date]


class Trip(pydantic.BaseModel):
    city: str
    day: datetime.date
    seats: Annotated[int, pydantic.Field(ge=1)] = 1
    via: list[Point] = []


City = NewType("City", str)
UTC = datetime.timezone.utc  # noqa: UP017 - as Python 3.8 knows it
DAY = datetime.date(2026, 5, 4)
DIGITS = "0.123456789012345678901234567891"
NUMBER = uuid.UUID("12345678-1234-5678-1234-567812345678")
TRIP = {
    "city": "Oslo",
    "day": "2026-05-04",
    "seats": 1,
    "via": [{"x": 1, "y": 0.0}],
}
Fit = tuple[Any, Any, Any]

# (hint, value as JSON has it, what the function gets)
FITS: list[Fit] = [
    (str, "x", "x"),
    (City, "Oslo", "Oslo"),
    (int, 12345678901234567890123, 12345678901234567890123),
    (int, 1.0, 1),
    (float, 3, 3.0),
    (bool, True, True),
    (dict, {"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
    (dict[str, Any], {"a": 1.5}, {"a": 1.5}),
    (list, [1, "a", None], [1, "a", None]),
    (Any, {"a": 1}, {"a": 1}),
    (None, None, None),
    (Optional[str], None, None),  # noqa: UP045
    (int | None, 3, 3),
    (int | str, "5", "5"),
    (int | float, 3, 3),
    (Literal["a", 1], 1, 1),
    (Annotated[str, "of a user"], "x", "x"),
    (Colour, "red", Colour.RED),
    (Level, 2, Level.HIGH),
    (Word, "yes", Word.YES),
    (list[Colour], ["red", "blue"], [Colour.RED, Colour.BLUE]),
    (dict[str, Colour], {"a": "red"}, {"a": Colour.RED}),
    (Mapping[str, set[int]], {"a": [1, 1]}, {"a": {1}}),
    (dict[int, str], {"1": "a"}, {1: "a"}),
    (dict[Colour, int], {"red": 1}, {Colour.RED: 1}),
    (datetime.datetime, "2026-05-04T10:20:30Z", datetime.datetime(2026, 5, 4, 10, 20, 30, 0, UTC)),
    (datetime.datetime, "2026-05-04T10:20:30.5", datetime.datetime(2026, 5, 4, 10, 20, 30, 500000)),
    (datetime.date, "2026-05-04", DAY),
    (datetime.time, "10:20", datetime.time(10, 20)),
    (datetime.timedelta, "P1DT2H30M", datetime.timedelta(1, 9000)),
    (datetime.timedelta, "-PT1.5S", -datetime.timedelta(seconds=1.5)),
    (datetime.date | None, "2026-05-04", DAY),
    (uuid.UUID, str(NUMBER), NUMBER),
    (Path, "a/b", Path("a/b")),
    (decimal.Decimal, DIGITS, decimal.Decimal(DIGITS)),
    (decimal.Decimal, 3, decimal.Decimal(3)),
    (list[decimal.Decimal], [decimal.Decimal(DIGITS)], [decimal.Decimal(DIGITS)]),
    (Annotated[dict[str, Any], 1], {"a": decimal.Decimal(DIGITS)}, {"a": decimal.Decimal(DIGITS)}),
    (float, decimal.Decimal("12345678901234567890.5"), 12345678901234567890.5),
    (bytes, "héllo", "héllo".encode()),
    (set[str], ["a", "b", "a"], {"a", "b"}),
    (frozenset[int], [1, 2], frozenset({1, 2})),
    (tuple[int, str], [1, "a"], (1, "a")),
    (tuple[datetime.date, ...], ["2026-05-04"], (DAY,)),
    (collections.deque[int], [1], collections.deque([1])),
    (Sequence[Level], [1], [Level.LOW]),
    (Point, {"x": 1, "y": 2}, Point(1, 2.0)),
    (Line, {"start": {"x": 1}, "tags": ["a"]}, Line(Point(1), {"a"})),
    (list[Line], [{"start": {"x": 1}}], [Line(Point(1))]),
    (Point | str, "here", "here"),
    (Point | str, {"x": 1}, Point(1)),
    (Pair, [1, "2026-05-04"], Pair(1, DAY)),
    (Query, {"words": ["a"], "since": "2026-05-04"}, {"words": ["a"], "since": DAY}),
    (Query, {"words": []}, {"words": []}),
    (Literal[Colour.RED], "red", Colour.RED),
    (list[Literal[Colour.RED, "x"]] | None, ["red", "x"], [Colour.RED, "x"]),
    (Iterable[int], [1, 2], [1, 2]),
    (Iterable[str] | None, ["a"], ["a"]),
    (Box[Colour], {"item": "red", "more": ["blue"]}, Box(Colour.RED, [Colour.BLUE])),
]

# (hint, value, what the sentence says)
REFUSED: list[Fit] = [
    (str, 5, "not 5"),
    (int, "5", '"5"'),
    (int, True, "true"),
    (int, 1.5, "1.5"),
    (float, "x", '"x"'),
    (bool, 1, "1"),
    (dict, [], "[]"),
    (list, {}, "{}"),
    (int | None, "many", '"many"'),
    (Colour, "green", "blue"),
    (Literal["a"], "b", "a"),
    (datetime.datetime, "yesterday", "yesterday"),
    (datetime.date, "2026-13-01", "2026-13-01"),
    (uuid.UUID, "x", "UUID"),
    (set[int], ["a"], '"a"'),
    (tuple[int, str], [1], "[1]"),
    (Point, {"x": "a"}, "x"),
    (Point, {"y": 1}, "x"),
    (Point, "here", '"here"'),
    (Line, {"start": {"x": []}}, "start.x"),
    (Query, {}, "words"),
    (Iterable[int], ["a"], '"a"'),
    (Box[int], {"item": "x"}, "item"),
]


@pytest.fixture(params=["pydantic", "by hand"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "by hand":
        monkeypatch.setitem(sys.modules, "pydantic", None)
    return str(request.param)


def function_of(hint: Any) -> Callable[..., Any]:
    def function(given: Any) -> Any:
        return given

    function.__annotations__ = {"given": hint}
    return function


def convert(hint: Any, value: Any) -> Any:
    return arguments_for(function_of(hint), {"given": value}, {})["given"]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("hint", "value", "wanted"), FITS)
def test_a_function_gets_what_its_hints_say(hint: Any, value: Any, wanted: Any) -> None:
    result = convert(hint, value)
    assert (result, type(result)) == (wanted, type(wanted))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("hint", "value", "message"), REFUSED)
def test_what_does_not_fit_is_refused_with_its_place(hint: Any, value: Any, message: str) -> None:
    with pytest.raises(ConversionError) as caught:
        convert(hint, value)
    assert str(caught.value).startswith("given")
    assert message in str(caught.value)


class Named(pydantic.BaseModel):
    zip_code: str = pydantic.Field(alias="zipCode")
    data: bytes = b"\xff\xfe"


class Old:
    """As an older pydantic's model is."""

    __fields__ = ("city",)

    def __init__(self, city: str) -> None:
        self.city = city

    @classmethod
    def parse_obj(cls, value: dict[str, str]) -> Old:
        return cls(**value)

    def dict(self) -> dict[str, str]:
        return {"city": self.city}


def numbers() -> Iterator[int]:
    yield from (1, 2)


# (what a function returned, the JSON data of it)
RESULTS: list[tuple[Any, Any]] = [
    ({"a": [1, 1.5, None, True, "x"]}, {"a": [1, 1.5, None, True, "x"]}),
    (12345678901234567890123, 12345678901234567890123),
    (Trip(city="Oslo", day=DAY, via=[Point(1)]), TRIP),
    ([Trip(city="Oslo", day=DAY, via=[Point(1)])], [TRIP]),
    ({"trip": Trip(city="Oslo", day=DAY, via=[Point(1)])}, {"trip": TRIP}),
    (Line(Point(1), {"b", "a"}), {"start": {"x": 1, "y": 0.0}, "tags": ["a", "b"]}),
    (Old("Oslo"), {"city": "Oslo"}),
    (Named(zipCode="1"), {"zip_code": "1", "data": "//4="}),
    (Colour.RED, "red"),
    ({Colour.RED: Level.LOW}, {"red": 1}),
    ({Word.YES, Word.YES}, ["yes"]),
    (datetime.datetime(2026, 5, 4, 10, 20, tzinfo=UTC), "2026-05-04T10:20:00+00:00"),
    ({DAY: datetime.time(10, 20)}, {"2026-05-04": "10:20:00"}),
    (datetime.timedelta(1, 9000, 5), "P1DT9000.000005S"),
    (datetime.timedelta(), "PT0S"),
    ({10, 9}, [9, 10]),
    (frozenset({"a", 1}), [1, "a"]),
    (numbers(), [1, 2]),
    ({"all": (date for date in (DAY,))}, {"all": ["2026-05-04"]}),
    ({"a": 1}.keys(), ["a"]),
    (range(2), [0, 1]),
    (collections.deque([1]), [1]),
    (types.MappingProxyType({"a": DAY}), {"a": "2026-05-04"}),
    ({"text": b"h\xc3\xa9", "data": b"\xff\xfe"}, {"text": "hé", "data": "//4="}),
    (decimal.Decimal(DIGITS), DIGITS),
    (NUMBER, str(NUMBER)),
    (Path("a/b"), "a/b"),
    (Pair(1, DAY), [1, "2026-05-04"]),
    ({1: "a", None: "b", (1, 2): "c"}, {"1": "a", "null": "b", "[1, 2]": "c"}),
    (1 + 2j, "(1+2j)"),
]


@pytest.mark.parametrize(("value", "wanted"), RESULTS)
def test_a_result_is_json_by_what_it_is(value: Any, wanted: Any) -> None:
    assert json.loads(json.dumps(data_of(value, 1000), allow_nan=False)) == wanted


def test_a_result_without_end_is_too_much() -> None:
    for endless in (itertools.count(), {"a": itertools.repeat("x")}):
        with pytest.raises(TooManyItems):
            data_of(endless, 1000)


def names_only(*, day: datetime.date, colour: Colour = Colour.RED) -> None: ...


def with_more(city: str, **more: Unpack[Query]) -> None: ...


def with_field(count: int = pydantic.Field(default=3, ge=1)) -> None: ...


def implicit(unit: str = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013


def unreadable(day: datetime.date, other: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def reporting(day: datetime.date, report: Callable[..., None]) -> None: ...


class RunContextWrapper:
    """As openai-agents has it."""

    def __init__(self, context: Any) -> None:
        self.context = context


class Foreign:
    """As a class of a user's file, of which JSON knows nothing."""


def agents(ctx: RunContextWrapper, day: datetime.date) -> None: ...


def foreign(given: Foreign) -> None: ...


def test_a_call_is_as_the_function_is_written() -> None:
    def record_call(*_: Any) -> None: ...

    cases: list[tuple[Any, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
        (names_only, {"day": "2026-05-04"}, {}, {"day": DAY}),
        (
            with_more,
            {"city": "a", "words": [], "since": "2026-05-04"},
            {},
            {"city": "a", "words": [], "since": DAY},
        ),
        (with_field, {}, {}, {"count": 3}),
        (with_field, {"count": 1}, {}, {"count": 1}),
        (implicit, {"unit": None}, {}, {"unit": None}),
        (unreadable, {"day": "2026-05-04", "other": {"a": 1}}, {}, {"day": DAY, "other": {"a": 1}}),
        (
            reporting,
            {"day": "2026-05-04"},
            {"report": record_call},
            {"day": DAY, "report": record_call},
        ),
        (
            functools.partial(names_only, colour=Colour.BLUE),
            {"day": "2026-05-04"},
            {},
            {"day": DAY},
        ),
        (Point, {"x": 1.0}, {}, {"x": 1}),
        (foreign, {"given": {"a": 1}}, {}, {"given": {"a": 1}}),
    ]
    for function, arguments, ours, wanted in cases:
        assert arguments_for(function, arguments, ours) == wanted
    assert arguments_for(agents, {"day": "2026-05-04"}, {})["ctx"].context is None


def test_a_member_is_found_by_its_name_or_its_alias() -> None:
    for name in ("zipCode", "zip_code"):
        assert convert(Named, {name: "1"}).zip_code == "1"


def test_a_model_of_the_arguments_gives_its_defaults() -> None:
    def book(city: str, day: Any, seats: int, via: Any = None) -> None: ...

    document = arguments_for(book, {"city": "Oslo", "day": "2026-05-04"}, {}, Trip)
    assert document == {"city": "Oslo", "day": DAY, "seats": 1, "via": []}


def test_every_fault_is_told_at_once() -> None:
    def book(trip: Trip, colour: Colour) -> None: ...

    with pytest.raises(ConversionError) as caught:
        arguments_for(book, {"trip": {"city": 1, "seats": 0}, "colour": "x"}, {})
    message = str(caught.value)
    for place in ("trip.city", "trip.day", "trip.seats", "colour"):
        assert f"{place}: " in message


@pytest.mark.anyio
async def test_a_function_of_an_mcp_server_has_a_context(capfd: pytest.CaptureFixture[str]) -> None:
    rows: list[tuple[str, float | None]] = []
    kind = type("Context", (), {"__module__": "mcp.server.fastmcp.server"})
    for hint, default in ((kind, {}), (kind | None, {"default": object()})):

        def search(ctx: Any, city: str) -> None: ...

        search.__annotations__["ctx"] = hint
        parameter = inspect.Parameter(
            "ctx", inspect.Parameter.KEYWORD_ONLY, annotation=hint, **default
        )
        other = inspect.Parameter("city", inspect.Parameter.KEYWORD_ONLY, annotation=str)
        search.__signature__ = inspect.Signature([parameter, other])  # type: ignore[attr-defined]
        document = arguments_for(search, {"city": "a"}, {}, report=lambda *text: rows.append(text))
        await document["ctx"].info("one")
        await document["ctx"].report_progress(1, 4, message="begun")
        with pytest.raises(AttributeError, match="only while an MCP server runs"):
            _ = document["ctx"].session
    assert rows == [("begun", 0.25)] * 2
    assert capfd.readouterr().err == "info: one\n" * 2


def test_what_a_framework_would_fill_in_is_named() -> None:
    def search(ctx: RunContext, city: str) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ConversionError, match=r"'ctx' .*framework fills in"):
        arguments_for(search, {"city": "Oslo"}, {})


def test_it_speaks_old_python() -> None:
    ast.parse(Path(conversion.__file__).read_text(), feature_version=(3, 8))
