"""The calls of a comparison, a cell for each session, and how much of a difference is in sight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from app.core.session_diff import Answered, CallPair, Item, Made, Row
from app.core.tools import ToolResult
from app.core.value_diff import Change, Piece, json_changes, text_changes
from app.render.compare_words import call_words
from app.render.filters import clip, plural
from app.render.paging import query_of

MOST_CHANGES = 12
MOST_PIECES = 100
"""Changes of one call, and pieces of one text, in sight."""

SHOWN_TEXT = 1_200
SHOWN_VALUE = 240
AROUND = 60
"""Characters in sight of a text, of a value, and of what is the same around a difference."""


@dataclass(frozen=True)
class CallCell:
    """A call in one session. `changes` are of its arguments, `pieces` where these are no JSON;
    `result_changes` and `result_pieces` of its result; `more` changes are not shown."""

    how: Literal["reference", "same", "other", "missing", "extra"]
    href: str = ""
    id: str = ""
    name: str = ""
    words: Sequence[str] = ()
    arguments: str = ""
    result: str = ""
    changes: Sequence[Change] = ()
    more: int = 0
    pieces: Sequence[Piece] = ()
    result_changes: Sequence[Change] = ()
    result_more: int = 0
    result_pieces: Sequence[Piece] = ()


def call_lines(
    left: Item | None, rows: Sequence[Row | None], ids: Sequence[str], most: int
) -> tuple[list[list[CallCell | None]], int]:
    """A line for each call of the first session, then those that only others have: `most` of them,
    and how many more there are."""
    lines: list[list[CallCell | None]] = []
    found: list[Mapping[str, CallPair]] = []
    extras: list[list[CallPair]] = []
    for row in rows:
        pairs = row.calls if row is not None else ()
        found.append({pair.left.id: pair for pair in pairs if pair.left is not None})
        extras.append([pair for pair in pairs if pair.left is None])
    calls = left.calls if isinstance(left, Answered) else ()
    count = max((len(call_pair) for call_pair in extras), default=0)
    for call in calls[:most]:
        line: list[CallCell | None] = [_reference_call(ids[0], call)]
        line += [_other_call(s, by[call.id]) for s, by in zip(ids[1:], found, strict=True)]
        lines.append(line)
    for at in range(min(count, most - len(lines))):
        more = [_other_call(s, one[at]) if at < len(one) else None
                for s, one in zip(ids[1:], extras, strict=True)]  # fmt: skip
        lines.append([None, *more])
    return lines, len(calls) + count - len(lines)


def call_address(session_id: str, call: Made) -> str:
    block_id = f"call-{call.id.replace('.', '-')}"
    return f"/sessions/{session_id}{query_of(block_id)}#{block_id}"


def _reference_call(session_id: str, call: Made) -> CallCell:
    return CallCell(
        "reference",
        call_address(session_id, call),
        call.id,
        call.name,
        ["edited"] if call.edited else [],
        clip(call.arguments, SHOWN_VALUE),
        clip(came_to(call), SHOWN_VALUE),
    )


def _other_call(session_id: str, pair: CallPair) -> CallCell:
    left, right = pair.left, pair.right
    if right is None:
        return CallCell("missing", words=call_words(pair))
    own = _reference_call(session_id, right)
    if left is None:
        return CallCell("extra", own.href, own.id, own.name, call_words(pair), own.arguments,
                        own.result)  # fmt: skip
    words = call_words(pair) + (["edited"] if right.edited and not left.edited else [])
    changes, pieces = _changes("arguments" in pair.ways, left.arguments, right.arguments)
    told = "result" in pair.ways
    results, words_of = _changes(told, came_to(left), came_to(right))
    return CallCell(
        "other" if pair.ways else "same",
        own.href,
        own.id,
        own.name,
        words,
        changes=changes[:MOST_CHANGES],
        more=max(len(changes) - MOST_CHANGES, 0),
        pieces=pieces,
        result_changes=results[:MOST_CHANGES],
        result_more=max(len(results) - MOST_CHANGES, 0),
        result_pieces=words_of,
    )


def _changes(differ: bool, old: str, new: str) -> tuple[Sequence[Change], Sequence[Piece]]:
    """By pointer where both are JSON with something inside, else by words."""
    if not differ:
        return (), ()
    changes = json_changes(old, new)
    if changes and all(change.pointer for change in changes):
        return changes, ()
    return (), in_sight(text_changes(old, new))


def came_to(call: Made) -> str:
    """What the model read of a call, or where it stands."""
    if call.result is None:
        return f"({call.status})"
    before = "denied: " if call.denied else "error: " if call.result.is_error else ""
    return before + _result_text(call.result)


def _result_text(result: ToolResult) -> str:
    images = sum(piece.type == "image" for piece in result.content)
    return result.text + (f" ({plural(images, 'image')})" if images else "")


# In sight --------------------------------------------------------------------------------------


def cut(text: str) -> tuple[str, int]:
    return text[:SHOWN_TEXT], max(len(text) - SHOWN_TEXT, 0)


def in_sight(pieces: Sequence[Piece]) -> list[Piece]:
    """What is the same is cut in its middle, what differs after SHOWN_TEXT characters, and the
    whole after MOST_PIECES pieces; each cut says how much is left out."""
    told: list[Piece] = []
    for place, piece in enumerate(pieces[:MOST_PIECES]):
        if piece.how != "same":
            told.append(Piece(piece.how, _short(piece.text, SHOWN_TEXT, 0)))
            continue
        head = AROUND if place else 0
        tail = AROUND if place + 1 < len(pieces) else 0
        told.append(Piece("same", _short(piece.text, head, tail)))
    if len(pieces) > MOST_PIECES:
        left = len(pieces) - MOST_PIECES
        told.append(Piece("same", f" … {plural(left, 'more piece')} …"))
    return told


def _short(text: str, head: int, tail: int) -> str:
    left = len(text) - head - tail
    if left <= 40:
        return text
    return f"{text[:head]} … {plural(left, 'character')} … {text[len(text) - tail :]}"
