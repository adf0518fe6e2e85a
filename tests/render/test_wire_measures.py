"""What is measured of a request, and the words of its limits."""

from __future__ import annotations

import pytest

from playground.core.events import (
    Event,
    PartDelta,
    PartStarted,
    ResponseEnded,
    ResponseFailed,
    Usage,
)
from playground.render.wire_rows import Measures, rate_limit_words, state

END = ResponseEnded("stop", usage=Usage(10, 30))

FAILED = ResponseFailed("http", "no")


def measured(*rows: tuple[int, Event | int]) -> Measures:
    """Events, or numbers of bytes that came as one frame, each with its time."""
    measures = Measures()
    for at_ms, item in rows:
        if isinstance(item, int):
            measures.feed(at_ms, item, 1)
        else:
            measures.log(item, at_ms)
    return measures


def test_a_streamed_answer() -> None:
    measures = measured(
        (100, 10),
        (120, PartStarted(0, "text")),
        (150, PartDelta(0, "a")),
        (150, 10),
        (900, 10),
        (900, PartStarted(1, "call")),
        (1650, 12_345),
        (1650, END),
    )
    assert measures.facts(20.0) == [
        ("First byte", "100 ms"),
        ("First token", "150 ms"),
        ("First call", "900 ms"),
        ("Tokens per second", "20.0"),
        ("Longest gap", "750 ms at 150 ms"),
        ("Received", "12\u2009375 bytes, 4 frames"),
    ]


def test_what_means_nothing_is_not_said() -> None:
    assert Measures().facts() == []
    names = [name for name, _ in measured((5, 10), (5, PartDelta(0, "a")), (5, END)).facts()]
    assert names == ["First byte", "First token", "Received"]


def test_it_tells_whether_anything_is_new() -> None:
    measures = Measures()
    assert [measures.feed(1, 1, 1), measures.feed(2, 1, 1)] == [True, False]
    delta = PartDelta(0, "a")
    assert [measures.log(delta, 3), measures.log(delta, 4)] == [True, False]
    assert measures.log(END, 5)
    assert measures.feed(6, 1, 1)  # what came with the end, or after it


@pytest.mark.parametrize(
    ("status", "measures", "kind", "words"),
    [
        (None, Measures(), "", ""),
        (None, measured((1, FAILED)), "", "no bytes were"),
        (200, measured((1, 5)), "text/event-stream", ""),
        (200, measured((1, FAILED)), "", "empty body"),
        (429, measured((1, 5), (1, FAILED)), "application/json", "Refused with status 429"),
        (200, measured((1, 5), (1, END)), "application/json", "one JSON body"),
        (200, measured((1, 5), (1, END)), "application/x-ndjson", ""),
        (200, measured((1, 5), (2, 5), (2, END)), "text/event-stream", ""),
    ],
)
def test_what_kind_of_answer_it_was(
    status: int | None, measures: Measures, kind: str, words: str
) -> None:
    message = state(status, measures, kind)
    assert words in message
    assert bool(words) == bool(message)


@pytest.mark.parametrize(
    ("headers", "messages"),
    [
        ({}, []),
        (
            {
                "X-RateLimit-Limit-Requests": "50",
                "x-ratelimit-remaining-requests": "48",
                "x-ratelimit-reset-requests": "12s",
            },
            ["requests: 48 of 50 left, resets in 12s"],
        ),
        (
            {
                "anthropic-ratelimit-input-tokens-limit": "9",
                "anthropic-ratelimit-input-tokens-reset": "2026-11-22T05:00:00Z",
            },
            ["input tokens: at most 9, resets at 2026-11-22T05:00:00Z"],
        ),
        ({"x-ratelimit-remaining": "3"}, ["requests: 3 left"]),
        ({"ratelimit-reset": "12"}, ["requests: resets in 12 s"]),
        ({"retry-after": "3"}, ["asks to wait 3 s"]),
        ({"retry-after-ms": "300"}, ["asks to wait 300 ms"]),
        ({"ratelimit-policy": '"q";w=1'}, ['ratelimit-policy: "q";w=1']),
        ({"content-type": "x"}, []),
    ],
)
def test_limits(headers: dict[str, str], messages: list[str]) -> None:
    assert rate_limit_words(headers) == messages
