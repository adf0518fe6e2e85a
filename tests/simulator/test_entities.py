"""What is found in a piece of a prompt."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

from app.simulator.fake_model import entities
from app.simulator.fake_model.entities import NamedPlace, Number
from tests.simulator.factories import TODAY
from tests.tables import each_row


@each_row(
    ("find", "text", "found"),
    [
        (
            entities.places,
            "flights from Berlin to New York",
            [("from", "Berlin"), ("to", "New York")],
        ),
        (entities.places, "weather in são paulo please", [("in", "São Paulo")]),
        (entities.places, "What about Oslo?", [("", "Oslo")]),
        (entities.names, "Meet Anna in Café Central on Monday", ["Anna", "Café Central"]),
        (entities.listed, "in Paris, London and New York", ["Paris", "London", "New York"]),
        (entities.listed, "in Paris and in New York", ["Paris", "New York"]),
        (entities.listed, "in Paris, in Rome and also in Oslo", ["Paris", "Rome", "Oslo"]),
        (entities.listed, "weather in paris and in rome", ["Paris", "Rome"]),
        (entities.listed, "milk and eggs", []),
        (entities.numbers, "half an hour", [(30, "minute")]),
        (entities.numbers, "two tickets at 7:30 pm on 2026-01-02", [(2, "ticket")]),
        (entities.currencies, "$250 to JPY", ["USD", "JPY"]),
        (entities.emails, "to a.b+c@example.co.uk.", ["a.b+c@example.co.uk"]),
        (entities.urls, "see https://example.com/a?b=c.", ["https://example.com/a?b=c"]),
        (entities.files, "open notes/todo.txt and a@example.com", ["notes/todo.txt"]),
        (entities.codes, "order 1234, #42 and ABC-7", ["1234", "42", "ABC-7"]),
        (entities.quotes, "say 'hi' and “ho” but don't", ["hi", "ho"]),
        (entities.clock, "at 7:30 pm", "19:30"),
        (entities.clock, "at noon", "12:00"),
        (entities.clock, "at 99:99", ""),
    ],
)
def test_finds(find: Callable[[str], Any], text: str, found: Any) -> None:
    def bare(one: Any) -> Any:
        match one:
            case Number(value, unit):
                return (value, unit)
            case NamedPlace(before, name):
                return (before, name)
            case _:
                return one

    result = find(text)
    assert ([bare(one) for one in result] if isinstance(result, list) else result) == found


@each_row(
    ("said", "meant"),
    [
        ("tomorrow", date(2026, 11, 22)),
        ("next friday", date(2026, 11, 27)),
        ("saturday", date(2026, 11, 28)),
        ("the day after tomorrow", date(2026, 11, 23)),
        ("in 2 weeks", date(2026, 12, 5)),
        ("May 3rd", date(2027, 5, 3)),
        ("2026-02-31", None),
    ],
)
def test_days(said: str, meant: date | None) -> None:
    assert entities.day(said, TODAY) == meant
