"""How much of a turn with many calls is shown."""

from __future__ import annotations

import pytest

from playground.render import paging
from playground.render.paging import format_shown, query_of, show_more, shown_from


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("1.200", {1: 200}),
        ("1.200,12.300", {1: 200, 12: 300}),
        ("0.500", {paging.SESSION: 500}),
        ("0.0,1.0,x,2.,.3,-1.200,1.2.3,3.100", {3: 100}),
        ("1.99999999", {}),
        ("\u0661.200", {}),
        (",".join(f"{n}.200" for n in range(1, 500)), dict.fromkeys(range(1, 101), 200)),
    ],
)
def test_what_an_address_says_is_shown(text: str, expected: dict[int, int]) -> None:
    assert shown_from(text) == expected


def test_each_click_shows_a_hundred_more() -> None:
    counts = show_more(show_more({}, 1), 1)
    assert (counts, format_shown(counts), shown_from(format_shown(counts))) == (
        {1: 300},
        "1.300",
        counts,
    )


@pytest.mark.parametrize(
    ("block_id", "query"),
    [
        ("call-3-7", ""),
        ("call-3-100", "?shown=3.200"),
        ("part-1-250", "?shown=1.300"),
        ("turn-300", ""),
        ("call-x-100", ""),
        ("", ""),
    ],
)
def test_a_link_to_a_call_shows_it(block_id: str, query: str) -> None:
    assert query_of(block_id) == query


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", [0]),
        ("a" * (paging.LINE - 1), [paging.LINE - 1]),
        ("a" * (paging.LINE + 5), [paging.LINE, 5]),
        ("a\n" * paging.CLOSED, [paging.CLOSED, paging.CLOSED, 0]),
        ("a" * 5_000 + "\nb", [5_001, 1]),
        ("a " * paging.LINE, [paging.LINE, paging.LINE, 0]),
    ],
)
def test_a_text_that_grows_is_closed_where_lines_end(text: str, pieces: list[int]) -> None:
    closed_paging = paging.text_pieces(text)
    assert [len(piece) for piece in closed_paging] == pieces
    assert "".join(closed_paging) == text
    for end in range(0, len(text), 997):  # whatever it was when it was looked at
        before = paging.text_pieces(text[:end])
        assert before[:-1] == closed_paging[: len(before) - 1]
