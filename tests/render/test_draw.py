from __future__ import annotations

import pytest

from app.core.events import PartDelta, PartStarted
from app.render.draw import bar_segments, drawn
from app.render.view import View
from app.render.wire_rows import WireRows
from tests.factories import Log


def prefix_of(*pieces: str) -> str:
    log = Log().start().prompt().request().add(PartStarted(0, "call", "add_event"))
    log.add(*(PartDelta(0, piece) for piece in pieces))
    template, values = drawn(View(log.session(), "", WireRows(), 0), "prefix-1-0")
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
