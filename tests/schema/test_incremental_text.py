"""JSON that arrives: the same tokens however it is cut, and no token twice."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.core.events import Problem
from playground.schema.strict_json import MAX_BYTES, MAX_DEPTH, MAX_KEYS, IncrementalReader
from tests.peaks import peak_of
from tests.schema.pairs import pair, spelled
from tests.tables import rest_slow

CAPS = (
    ('{"a":' + "[" * MAX_DEPTH, 4 + MAX_DEPTH, "nested deeper than"),
    ('{"a":"' + "x" * MAX_BYTES + '"}', 0, "more than the 4,194,304 bytes"),
    ("{" + ",".join(f'"{n}":0' for n in range(MAX_KEYS + 1)), None, "more than 10,000 keys"),
)


class Noted:
    """A walker that objects to nothing, builds the value, and notes where each token began."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any, int]] = []
        self.stack: list[Any] = []
        self.name: list[Any] = []
        self.value: Any = None

    def begin_value(self, at: int) -> Problem | None:
        self.calls.append(("begun", None, at))
        return None

    def open_container(self, kind: str, at: int) -> Problem | None:
        self.calls.append(("opened", kind, at))
        self.stack.append({} if kind == "{" else [])
        self.name.append(None)
        return None

    def key(self, name: str, at: int) -> Problem | None:
        self.calls.append(("key", name, at))
        self.name[-1] = name
        return None

    def scalar(self, value: Any, at: int) -> Problem | None:
        self.calls.append(("scalar", value, at))
        self.put(value)
        return None

    def close_container(self, at: int) -> Problem | None:
        self.calls.append(("closed", None, at))
        self.name.pop()
        self.put(self.stack.pop())
        return None

    def put(self, value: Any) -> None:
        if not self.stack:
            self.value = value
        elif isinstance(self.stack[-1], dict):
            self.stack[-1][self.name[-1]] = value
        else:
            self.stack[-1].append(value)


def read(pieces: list[str]) -> tuple[Noted, Problem | None, bool]:
    noted = Noted()
    reader = IncrementalReader(noted)
    for piece in pieces:
        if (problem := reader.feed(piece)) is not None:
            return noted, problem, reader.closed
    return noted, None, reader.closed


def cut(text: str, places: list[int]) -> list[str]:
    marks = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[a:b] for a, b in pairwise(marks)]


@settings(deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 10**4), max_size=30))
def test_the_value_is_read_whatever_the_cuts(seed: int, places: list[int]) -> None:
    written = spelled(pair(seed).value, seed)
    noted, problem, closed = read(cut(written.text, places))
    assert (problem, closed) == (None, True)
    assert noted.value == json.loads(written.text)
    assert noted.calls == read(list(written.text))[0].calls
    starts = {at for kind, _, at in noted.calls if kind == "begun"}
    assert starts == {start for start, _ in written.values.values()}


@settings(deadline=None)
@given(st.text(alphabet='{}[]",:\\/u0d8e1-+.tfnrl \n\x00\ud83d\ude00\u00a0', max_size=40))
def test_no_text_breaks_it_and_its_cuts_change_nothing(text: str) -> None:
    whole_read, single = read([text]), read(list(text))
    assert whole_read[1] == single[1]
    assert whole_read[2] == single[2]


@pytest.mark.parametrize(("text", "offset", "words"), CAPS)
def test_the_caps_are_those_of_the_strict_parser(text: str, offset: int | None, words: str) -> None:
    _, problem, _ = read([text])
    assert problem is not None
    assert words in problem.message
    assert offset is None or problem.offset == offset


def test_under_the_caps_nothing_is_said() -> None:
    deep = '{"a":' + "[" * (MAX_DEPTH - 1)
    keys = "{" + ",".join(f'"{n}":0' for n in range(MAX_KEYS))
    for text in (deep, keys, '{"a":"' + "x" * (MAX_BYTES - 8) + '"}', '{"a":' + "1" * 400 + ","):
        assert read([text])[1] is None


@pytest.mark.parametrize("escapes", [r"\u0077ork \"play\"\n", r"\ud83d\ude00", r"\\"])
@pytest.mark.parametrize("size", [1000, 2**16])
def test_of_the_escapes_of_a_string_none_is_remembered(escapes: str, size: int) -> None:
    text = '{"a": "' + escapes * (2**16 // len(escapes))
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    assert peak_of(lambda: read(pieces)) < 2 * len(text)


def steps(text: str, size: int) -> int:
    """Lines of Python that run while `text` is read in pieces of `size`."""
    count, pieces = 0, [text[place : place + size] for place in range(0, len(text), size)]

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        read(pieces)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    "text",
    rest_slow(
        [
            '{"a":"' + "x" * 20_000,
            '{"a":"' + "\\n" * 10_000,
            '{"a":1e' + "0" * 20_000,
            '{"a":[' + "1," * 10_000,
            '{"a":' + " " * 20_000,
        ]
    ),
)
def test_twice_the_text_is_twice_the_work(text: str) -> None:
    half = steps(text[: len(text) // 2], 8)
    assert steps(text, 8) < 2.2 * half
