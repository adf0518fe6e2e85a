"""Differences of texts: nothing is lost, words are whole, and the work is bounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.core import value_diff
from playground.core.value_diff import MOST_PIECES, TextPiece, text_changes

CASES: Sequence[tuple[str, str, Sequence[tuple[str, str]]]] = (
    ("", "", []),
    ("a", "a", [("same", "a")]),
    ("", "a b", [("added", "a b")]),
    ("a b", "", [("removed", "a b")]),
    (
        "The sky is blue.",
        "The sea is blue.",
        [("same", "The "), ("removed", "sky"), ("added", "sea"), ("same", " is blue.")],
    ),
    (
        "one two three four",
        "one three five four",
        [
            ("same", "one "),
            ("removed", "two "),
            ("same", "three"),
            ("added", " five"),
            ("same", " four"),
        ],
    ),
    ("cats", "catalog", [("removed", "cats"), ("added", "catalog")]),
)

texts = st.text(alphabet="ab \n.\u2028é", max_size=40)

LONG = "word " * 200_000
BY_LINES = "".join(f"line {number} of many\n" for number in range(MOST_PIECES))


@pytest.mark.parametrize(("old", "new", "wanted"), CASES)
def test_words(old: str, new: str, wanted: Sequence[tuple[str, str]]) -> None:
    assert [(text_change.how, text_change.text) for text_change in text_changes(old, new)] == list(
        wanted
    )


def sides(pieces: Sequence[TextPiece]) -> tuple[str, str]:
    return (
        "".join(piece.text for piece in pieces if piece.how != "added"),
        "".join(piece.text for piece in pieces if piece.how != "removed"),
    )


@settings(derandomize=True, deadline=None)
@given(texts, texts)
def test_both_texts_can_be_read_from_the_pieces(old: str, new: str) -> None:
    text_pieces = text_changes(old, new)
    assert sides(text_pieces) == (old, new)
    assert all(text_piece.text for text_piece in text_pieces)
    assert all(a.how != b.how for a, b in pairwise(text_pieces))


@pytest.mark.parametrize(
    ("old", "new", "most"),
    [
        (LONG + "end " + LONG, LONG + "fin " + LONG, 4),
        ("a " * 300_000, "b " * 300_000, 3),
        (BY_LINES, BY_LINES.replace("line 7 ", "line 8 ").replace("line 2900 ", "line 1 "), 7),
        ("ab" * 1_000_000, "ba" * 1_000_000, 2),
        ("x" * 1_000_000, "x" * 999_999 + "y", 2),
        (" ".join("ab"[n % 2] for n in range(1400)), " ".join("ba"[n % 3 % 2] for n in range(1400)),
         2800),
    ],
)  # fmt: skip
def test_long_texts_are_told_whole(
    old: str, new: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    way = value_diff._edit_path

    def count_texts(before: Sequence[str], after: Sequence[str]) -> Any:
        looked.append(len(before) + len(after))
        return way(before, after)

    monkeypatch.setattr(value_diff, "_edit_path", count_texts)
    text_pieces = text_changes(old, new)
    assert sides(text_pieces) == (old, new)
    assert len(text_pieces) <= most
    assert sum(looked) <= 2 * MOST_PIECES


def test_the_way_has_an_end() -> None:
    def many(letter: str) -> list[str]:
        return list(numbered(letter))

    assert value_diff._edit_path(many("a"), many("b")) is None


def numbered(letter: str) -> Iterator[str]:
    return (f"{letter}{number}" for number in range(1000))
