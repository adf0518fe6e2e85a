"""`dataclass` of core/late beside that of the standard library: only when it compiles differs."""

import dataclasses
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, replace
from functools import partial
from typing import Any, Generic, TypeVar

import pytest

from playground.core import late

T = TypeVar("T")
Decorator = Callable[..., Any]


def plain(dataclass: Decorator) -> Any:
    @dataclass
    class Point:
        x: int
        y: list[int] = field(default_factory=list)

    return Point


def frozen(dataclass: Decorator) -> Any:
    @dataclass(frozen=True)
    class Point:
        x: int
        y: tuple[int, ...] = ()

    return Point


def by_name(dataclass: Decorator) -> Any:
    @dataclass(frozen=True, kw_only=True)
    class Point(Generic[T]):
        """Has a doc, and more than fields."""

        x: T
        y: int = field(default=2, repr=False, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "seen", True)

    return Point


def with_own_methods(dataclass: Decorator) -> Any:
    @dataclass(eq=False)
    class Point(Exception):
        x: int
        y: int = 0

        def __repr__(self) -> str:
            return "own"

    return Point


def slots(dataclass: Decorator) -> Any:
    @dataclass(frozen=True, slots=True)
    class Point:
        x: int
        y: int = 1

    return Point


def derived(dataclass: Decorator) -> Any:
    @dataclass(frozen=True)
    class Base:
        x: int

    @dataclass(frozen=True)
    class Point(Base):
        y: int = 1

    return Point


def below(dataclass: Decorator) -> Any:
    class Point(frozen(dataclass)):  # type: ignore[misc]
        def __init__(self, x: int) -> None:
            super().__init__(x)
            self.seen = True

    return Point


def with_own_equality(dataclass: Decorator) -> Any:
    @dataclass(frozen=True)
    class Point:
        x: int

        def __eq__(self, other: object) -> bool:
            return True

    return Point


def with_own_hash(dataclass: Decorator) -> Any:
    @dataclass
    class Point:
        x: int

        def __hash__(self) -> int:
            return 1

    return Point


def ordered(dataclass: Decorator) -> Any:
    @dataclass(order=True)
    class Point:
        x: int

    return Point


def result(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except Exception as error:
        return type(error), str(error)


def assign(point: Any) -> Any:
    point.x = 2
    return point.x


def delete(point: Any) -> Any:
    del point.x
    return hasattr(point, "x")


ACTIONS: dict[str, Callable[[Any], Any]] = {
    "fields": lambda cls: [(item.name, item.type) for item in fields(cls)],
    "match": lambda cls: cls.__match_args__,
    "repr": lambda cls: repr(cls(x=1)).rpartition(".")[2],
    "equal": lambda cls: (cls(x=1) == cls(x=1), cls(x=1) == cls(x=2), cls(x=1) == 1),
    "hash": lambda cls: hash(cls(x=1)) == hash(cls(x=1)),
    "less": lambda cls: cls(x=1) < cls(x=2),
    "replace": lambda cls: vars_of(replace(cls(x=1), x=3)),
    "assign": lambda cls: assign(cls(x=1)),
    "delete": lambda cls: delete(cls(x=1)),
    "by place": lambda cls: vars_of(cls(1)),
    "too few": lambda cls: cls(),
    "unknown": lambda cls: cls(z=1),
}


def vars_of(point: Any) -> dict[str, Any]:
    return {name: getattr(point, name) for name in ("x", "y", "seen") if hasattr(point, name)}


MADE = [plain, frozen, by_name, with_own_methods, slots]
MADE += [derived, below, with_own_equality, with_own_hash, ordered]


@pytest.mark.parametrize("make", MADE)
def test_a_class_is_what_the_standard_library_makes_of_it(make: Callable[[Decorator], Any]) -> None:
    for name, action in ACTIONS.items():
        # each is the first use of a class of its own
        wanted = result(partial(action, make(dataclasses.dataclass)))
        assert result(partial(action, make(late.dataclass))) == wanted, name


def test_no_method_is_compiled_before_a_class_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[dict[str, Any]] = []
    real = dataclasses.dataclass

    def count(cls: Any, **options: Any) -> Any:
        compiled.append(options)
        return real(cls, **options)

    monkeypatch.setattr(dataclasses, "dataclass", count)
    point = frozen(late.dataclass)
    assert [options["init"] for options in compiled] == [False]
    with pytest.raises(FrozenInstanceError):
        point(1).z = 1
    assert point(1) == point(1)
    assert len(compiled) == 2, "compiled once, by the first use"


def test_a_method_that_somebody_put_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    point = plain(late.dataclass)
    made: list[int] = []
    initialize = point.__init__

    def noting(self: Any, x: int) -> None:
        made.append(x)
        initialize(self, x)

    monkeypatch.setattr(point, "__init__", noting)
    monkeypatch.setattr(point, "__eq__", lambda *_: False)
    assert point(1) != point(1)
    assert made == [1, 1]
