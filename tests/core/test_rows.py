"""Rows and lines: nothing of an event is lost, whatever is in it."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.core.errors import BadInput
from playground.core.events import Event, Logged, PartDelta, PartEnded, Source
from playground.core.serialization import EVENTS, from_row, kind_of, logged_data, to_row
from tests.core.test_reducer import LONG

TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("event", LONG, ids=lambda event: kind_of(type(event)))
def test_there_and_back(event: Event) -> None:
    assert from_row(*to_row(event)) == event


@given(TEXT, st.dictionaries(TEXT, JSON, max_size=3))
def test_any_text_survives_and_a_row_is_ascii(text: str, meta: dict[str, Any]) -> None:
    event = PartEnded(0, text, text, text, meta, complete=False)
    kind, body = to_row(event)
    assert body.isascii()
    assert from_row(kind, body) == event


def test_the_line_of_a_script_has_no_second_kind() -> None:
    assert all("kind" not in getattr(cls, "__dataclass_fields__", {}) for cls in EVENTS.values())
    line = logged_data(Logged(7, 9, PartDelta(1, "x"), Source(1, 2, 3)))
    assert line == {
        "seq": 7,
        "at_ms": 9,
        "kind": "part_delta",
        "source": [1, 2, 3],
        "index": 1,
        "text": "x",
    }


@pytest.mark.parametrize(
    ("kind", "body"),
    [("no_such_event", "{}"), ("part_delta", '{"index": 1}'), ("part_delta", '{"odd": 1}')],
)
def test_a_row_that_cannot_be_read_says_so(kind: str, body: str) -> None:
    with pytest.raises(BadInput):
        from_row(kind, body)


def test_no_field_of_an_event_hides_one_of_its_line() -> None:
    own = {"seq", "at_ms", "kind"}
    assert [
        kind for kind, cls in EVENTS.items() if own & {field.name for field in fields(cls)}
    ] == []


def test_every_kind_is_json() -> None:
    for event in LONG:
        json.dumps(logged_data(Logged(1, 1, event)))
