from __future__ import annotations

import pytest

from playground.core.events import (
    CallDecided,
    CallDoubted,
    CallStarted,
    PartDelta,
    PartStarted,
    Problem,
)
from playground.render.block_contents import bar_segments, block_template
from playground.render.view import View
from playground.render.wire_rows import WireRows
from tests.factories import Log, turn_with_calls


def prefix_of(*pieces: str) -> str:
    log = Log().start().prompt().request().add(PartStarted(0, "call", "add_event"))
    log.add(*(PartDelta(0, piece) for piece in pieces))
    template, values = block_template(View(log.session(), "", WireRows(), 0), "prefix-1-0")
    assert template == "_prefix.html"
    return str(values["prefix"])


@pytest.mark.parametrize(
    ("raw", "readable"),
    [
        ("", ""),
        ('{"city": "Par', "city: Par"),
        ('{"a": [1, {"b": null}], "c": tr', "a: [1, {b: null}]"),
        ('{"a": {"b": {"c": {"d": {"e": [1]}}}}}', "a: {b: {c: {d: {e: …}}}}"),
        ("[1, 2", ""),
        ("not json", ""),
        ('{"a": ' + "[" * 5000, None),
        ('{"a": "' + "x" * 70_000, ""),
    ],
)
def test_what_can_be_read_of_unfinished_arguments(raw: str, readable: str | None) -> None:
    prefix = prefix_of(raw)
    assert len(prefix) <= 401
    if readable is not None:
        assert prefix == readable


def test_a_long_prefix_shows_its_end() -> None:
    prefix = prefix_of('{"text": "' + "lorem " * 200 + "end")
    assert prefix.startswith("…")
    assert prefix.endswith("lorem end")


def test_a_long_session_has_a_short_bar() -> None:
    log = Log(step_ms=3).start()
    for _ in range(400):
        log.prompt().request().part(0, "text", "a").end("stop")
    assert len(bar_segments(log.session())) <= 1000


@pytest.mark.parametrize(
    ("text", "offset", "marked_span"),
    [
        ('{"minutes": "30", "a', 12, (12, 4)),
        ('{"a": 1.5, ', 6, (6, 3)),
        ('{"a": {', 6, (6, 1)),
        ('{"a": tru!', 6, (6, 1)),
        ('{"\U0001f600": true, ', 6, (7, 4)),  # beyond U+FFFF a browser counts two
        ('{"\u202e": true, ', 6, (11, 4)),  # what is hidden is shown as an escape
    ],
)
def test_the_place_of_a_doubt_as_a_browser_counts(
    text: str, offset: int, marked_span: tuple[int, int]
) -> None:
    log = Log().start().prompt().request().add(PartStarted(0, "call", "add_event"))
    log.add(PartDelta(0, text), CallDoubted(0, Problem("schema", "no", "/a", offset)))
    log.add(PartDelta(0, "and more"))
    _, values = block_template(View(log.session(), "", WireRows(), 0), "doubt-1-0")
    assert values["marked_span"] == marked_span


def test_a_call_that_runs_is_in_the_bar_from_its_first_moment() -> None:
    log = turn_with_calls(("get_weather", {}), ("get_weather", {}))
    log.add(CallDecided("1.1", "run"), CallStarted("1.1", 1))
    assert [
        bar_segment.call
        for bar_segment in bar_segments(log.session())
        if bar_segment.kind == "tool"
    ] == ["1.1"]
