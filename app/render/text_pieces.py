"""How much of the difference of two texts is shown."""

from __future__ import annotations

from collections.abc import Sequence

from app.core.value_diff import TextPiece
from app.render.filters import plural

MOST_PIECES = 100
"""Pieces of one text in sight."""

SHOWN_TEXT = 1_200
AROUND = 60
"""Characters in sight of a text, and of what is the same around a difference."""


def in_sight(pieces: Sequence[TextPiece]) -> list[TextPiece]:
    """What is the same is cut in its middle, what differs after SHOWN_TEXT characters, and the
    whole after MOST_PIECES pieces; each cut says how much is left out."""
    cut: list[TextPiece] = []
    for place, piece in enumerate(pieces[:MOST_PIECES]):
        if piece.how != "same":
            cut.append(TextPiece(piece.how, _short(piece.text, SHOWN_TEXT, 0)))
            continue
        head = AROUND if place else 0
        tail = AROUND if place + 1 < len(pieces) else 0
        cut.append(TextPiece("same", _short(piece.text, head, tail)))
    if len(pieces) > MOST_PIECES:
        left = len(pieces) - MOST_PIECES
        cut.append(TextPiece("same", f" … {plural(left, 'more piece')} …"))
    return cut


def _short(text: str, head: int, tail: int) -> str:
    left = len(text) - head - tail
    if left <= 40:
        return text
    return f"{text[:head]} … {plural(left, 'character')} … {text[len(text) - tail :]}"
