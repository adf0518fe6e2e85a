"""The comparison of sessions as a page: a column each, the first being what the others are compared
with, and a row for each prompt and turn. Long texts are cut in sight; docs/contract.md says where
all of them are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from jinja2 import Environment

from app.core.session_diff import Alignment, Answered, Asked, Item, Row, Side
from app.core.value_diff import Piece, text_changes
from app.render.compare_calls import CallCell, call_lines, cut, in_sight
from app.render.compare_words import deltas, measures, summary, turn_measures
from app.render.filters import clip, plural
from app.render.paging import CARDS, Shown, spelled, with_more
from app.render.view import SessionRow

MOST_ROWS = 100
"""Rows of one page in sight."""


@dataclass(frozen=True)
class Column:
    """A session; `words` say how it differs from the first, `first` is the address at which the
    others are compared with it. `without` is the page of the others, "" for none."""

    number: int
    id: str
    title: str
    model: str
    profile: str
    state: str
    measures: Sequence[str]
    words: Sequence[str]
    first: str
    without: str
    note: str = ""


@dataclass(frozen=True)
class Cell:
    """What one session has in a row: `how` is reference, same, other, missing or extra. `text` is
    its beginning, `more` how many characters follow; where words differ, `pieces` say how."""

    how: Literal["reference", "same", "other", "missing", "extra"]
    href: str = ""
    label: str = ""
    words: Sequence[str] = ()
    notes: Sequence[str] = ()
    text: str = ""
    more: int = 0
    pieces: Sequence[Piece] = ()


@dataclass(frozen=True)
class Line:
    """A row of the page: a prompt or a turn in each session, None where it has none, and below it
    a line of cells for each call, but for `hidden` ones, more of which are at `rest`."""

    kind: Literal["prompt", "turn"]
    equal: bool
    cells: Sequence[Cell | None]
    calls: Sequence[Sequence[CallCell | None]]
    brief: str = ""
    number: int = 0
    hidden: int = 0
    rest: str = ""


@dataclass(frozen=True)
class Group:
    """Rows that follow each other and are all equal, or all not."""

    equal: bool
    words: str
    lines: Sequence[Line]


@dataclass(frozen=True)
class Choice:
    """A session that may be compared; `why` is fork, parent, or "" for one of the last."""

    row: SessionRow
    why: str
    picked: bool


@dataclass(frozen=True)
class ComparePage:
    """`common` are the rows that a fork took over. `rest` is the address of the rows that follow,
    "" where all are shown; `live` that of the same sessions side by side."""

    columns: Sequence[Column] = ()
    common: Group | None = None
    groups: Sequence[Group] = ()
    said: Sequence[str] = ()
    rows: int = 0
    start: int = 0
    rest: str = ""
    live: str = ""
    markdown: str = ""
    copied: str = ""
    choices: Sequence[Choice] = ()
    query: str = ""
    most: int = 4


def compare_page(env: Environment, page: ComparePage) -> str:
    return env.get_template("compare.html").render(page=page, section="sessions")


# Rows ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Across:
    """A row over all sessions: `left` of the first, and a Row for each other, None for none."""

    left: Item | None
    rows: Sequence[Row | None]

    @property
    def equal(self) -> bool:
        return all(row is not None and row.equal for row in self.rows)


def across(alignments: Sequence[Alignment]) -> list[Across]:
    """The rows of all alignments, whose left side is the same, joined by what is on the left."""
    left = [list(_by_left(alignment.rows)) for alignment in alignments]
    found: list[Across] = []
    for steps in zip(*left, strict=True):
        found += _extras([extra for extra, _ in steps])
        rows = [row for _, row in steps]
        if rows[0] is not None:
            found.append(Across(rows[0].left, rows))
    return found


def _by_left(rows: Sequence[Row]) -> Iterator[tuple[list[Row], Row | None]]:
    """Each row with something on the left, and those without that come before it; None at last."""
    extras: list[Row] = []
    for row in rows:
        if row.left is None:
            extras.append(row)
            continue
        yield extras, row
        extras = []
    yield extras, None


def _extras(queues: Sequence[list[Row]]) -> Iterator[Across]:
    """What only others have, side by side where it is of one kind."""
    places = [0] * len(queues)
    while heads := [q[at] for q, at in zip(queues, places, strict=True) if at < len(q)]:
        kind = type(heads[0].right)
        taken: list[Row | None] = []
        for number, queue in enumerate(queues):
            at = places[number]
            fits = at < len(queue) and isinstance(queue[at].right, kind)
            taken.append(queue[at] if fits else None)
            places[number] += fits
        yield Across(None, taken)


def column(
    side: Side, number: int, alignment: Alignment | None, first: str, without: str, note: str = ""
) -> Column:
    return Column(
        number,
        side.id,
        side.title or "New session",
        side.model,
        side.profile,
        side.state,
        measures(side.took),
        summary(alignment) if alignment is not None else (),
        first,
        without,
        note or ("No turns yet." if not side.took.turns else ""),
    )


def common_group(side: Side, count: int) -> Group | None:
    """What all have in common, as brief lines."""
    items = side.items[:count]
    if not items:
        return None
    turns = sum(isinstance(item, Answered) for item in items)
    words = plural(turns, "turn") if turns else plural(len(items), "prompt")
    return Group(True, f"{words} in common", [_brief_line(side.id, item) for item in items])


def groups(
    rows: Sequence[Across], ids: Sequence[str], shown: Shown, here: str, start: int = 0
) -> list[Group]:
    """`rows` drawn, those that are equal folded together. `shown` says of how many calls of a row,
    by its number, where these are not CARDS; `here` is the address of the page without that, and
    `start` how many rows are before."""
    found: list[Group] = []
    lines: list[Line] = []
    before = ""
    for place, row in enumerate(rows):
        settings = "|".join(" ".join(one.settings) for one in row.rows if one is not None)
        number = start + place + 1
        if row.equal:
            line = _brief_line(ids[0], row.left)
        else:
            line = _line(row, ids, settings != before, number, shown.get(number, CARDS))
            rest = f"{here}&shown={spelled(with_more(shown, number))}#row-{number}"
            line = replace(line, rest=rest if line.hidden else "")
        before = settings if isinstance(row.left, Answered) else before
        lines.append(line)
        if place + 1 == len(rows) or rows[place + 1].equal != row.equal:
            turns = sum(line.kind == "turn" for line in lines)
            words = plural(turns, "turn") if turns else plural(len(lines), "prompt")
            found.append(Group(row.equal, f"{words} equal", lines))
            lines = []
    return found


def _brief_line(session_id: str, item: Item | None) -> Line:
    assert item is not None, "What is equal is on both sides."
    match item:
        case Asked(text=text):
            return Line("prompt", True, [_reference(session_id, item)], (), clip(text, 120))
        case Answered(text=text, calls=calls):
            brief = ", ".join(call.name for call in calls) or text
            return Line("turn", True, [_reference(session_id, item)], (), clip(brief, 120))


def _line(row: Across, ids: Sequence[str], settings_new: bool, number: int, most: int) -> Line:
    some = row.left or next(one.right for one in row.rows if one is not None)
    cells = [_reference(ids[0], row.left) if row.left is not None else None]
    for one, session_id in zip(row.rows, ids[1:], strict=True):
        cells.append(_other(session_id, one, settings_new) if one is not None else None)
    kind: Literal["prompt", "turn"] = "prompt" if isinstance(some, Asked) else "turn"
    calls, hidden = call_lines(row.left, row.rows, ids, most)
    return Line(kind, False, cells, calls, number=number, hidden=hidden)


def _reference(session_id: str, item: Item) -> Cell:
    href, label = place_of(session_id, item)
    words = turn_measures(item.took) if isinstance(item, Answered) else ()
    text, more = cut(item.text)
    return Cell("reference", href, label, words, _ended(item), text, more)


def _other(session_id: str, row: Row, settings_new: bool) -> Cell:
    if row.right is None:
        return Cell("missing")
    href, label = place_of(session_id, row.right)
    text, more = cut(row.right.text)
    if row.left is None:
        words = turn_measures(row.right.took) if isinstance(row.right, Answered) else ()
        return Cell("extra", href, label, words, _ended(row.right), text, more)
    words, notes = [], []
    if isinstance(row.left, Answered) and isinstance(row.right, Answered):
        words = deltas(row.left.took, row.right.took)
        if "end" in row.ways:
            notes.append(f"ends by {row.right.ended or 'nothing yet'}, not {row.left.ended}")
        if row.right.error:
            notes.append(row.right.error)
        if row.settings and settings_new:
            notes.append(f"asked with another {', '.join(row.settings)}")
    if "images" in row.ways:
        notes.append("other images")
    pieces = in_sight(text_changes(row.left.text, row.right.text)) if "text" in row.ways else ()
    how: Literal["same", "other"] = "same" if row.equal else "other"
    return Cell(how, href, label, words, notes, "" if pieces else text, more, pieces)


def _ended(item: Item) -> list[str]:
    if isinstance(item, Asked):
        return ["with images"] if item.images else []
    notes = [f"ended by {item.ended}"] if item.ended not in ("stop", "calls", "failed") else []
    if not item.ended:
        notes = ["still open"]
    return [*notes, item.error] if item.error else notes


def place_of(session_id: str, item: Item) -> tuple[str, str]:
    """Its address and its name."""
    kind = "prompt" if isinstance(item, Asked) else "turn"
    label = f"{kind.capitalize()} {item.number}"
    return f"/sessions/{session_id}#{kind}-{item.number}", label
