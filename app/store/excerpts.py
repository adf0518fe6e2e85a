"""The words around what was found, for the hits that are shown.

They are marked in a small index of their own in memory, all by one query: in the large one each
hit would have every text that fits looked up again.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing

from app.store.database import TOKENS
from app.store.query import Piece

LONG_TEXT = 300_000
"""Bytes of an event beyond which no excerpt is made: marking it would take too long."""

BEGIN, END = "\x02", "\x03"

_TEXT = "SELECT CAST(text AS BLOB) FROM texts WHERE pos = ?"
_MARKED = """
    SELECT rowid, CAST(snippet(shown, 0, char(2), char(3), '…', 14) AS BLOB) FROM shown
    WHERE shown MATCH ?
"""


def excerpts(
    connection: sqlite3.Connection, match: str, positions: Sequence[int], ends: float
) -> Mapping[int, Sequence[Piece]]:
    """By position, for those of `positions` that could be marked until `ends` (monotonic)."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as small:
        small.execute(f"CREATE VIRTUAL TABLE shown USING fts5 (text, {TOKENS})")
        small.execute("BEGIN")
        for position in positions:
            if time.monotonic() > ends:
                break
            row = connection.execute(_TEXT, (position,)).fetchone()
            if row is not None and row[0] is not None:
                small.execute(
                    "INSERT INTO shown (rowid, text) VALUES (?, CAST(? AS TEXT))", (position, *row)
                )
        marked = small.execute(_MARKED, (match,)).fetchall()
    return {position: pieces(bytes(text)) for position, text in marked}


def pieces(marked: bytes) -> list[Piece]:
    """An excerpt in which BEGIN and END stand around what was looked for; what is no UTF-8 (lone
    surrogates) becomes U+FFFD."""
    made: list[Piece] = []
    for number, part in enumerate(marked.decode("utf-8", "replace").split(BEGIN)):
        inner, end, rest = part.partition(END)
        inside = bool(number and end)
        made += [Piece(inner if inside else part.replace(END, ""), inside)]
        made += [Piece(rest.replace(END, ""), False)] if inside else []
    return [piece for piece in made if piece.text]
