"""The comparison of sessions as a page, as JSON and as Markdown, from one alignment.

The page has a column for each session, the first being the reference, and a row for each prompt and
turn. The page and Markdown cut long texts; JSON is complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from jinja2 import Environment

from playground.core.providers import SHIPPED
from playground.core.session_diff import (
    Alignment,
    CallPair,
    Counts,
    DiffCall,
    DiffItem,
    DiffRow,
    DiffTurn,
    Measure,
    Side,
)
from playground.core.settings import Profile, Settings
from playground.core.tools import ToolResult
from playground.core.value_diff import (
    SHOWN_TEXT,
    JsonChange,
    TextPiece,
    json_changes,
    text_changes,
    visible_pieces,
)
from playground.render.call_status import call_block
from playground.render.filters import clip, duration, one_line, plural
from playground.render.filters import number as grouped_number
from playground.render.paging import CARDS, ShownCounts, format_shown, query_of, show_more
from playground.render.view import SessionRow

MOST_ROWS = 100
"""Rows of one page."""

MOST_CHANGES = 12
"""Changes shown per call."""

SHOWN_VALUE = 240
"""Characters shown per value."""

WAYS = {
    "missing": "missing",
    "extra": "extra",
    "arguments": "different arguments",
    "result": "different result",
    "order": "out of order",
    "turn": "in another turn",
}

_DIFFERENCES: Sequence[tuple[str, str, str]] = (
    ("prompts", "{} different prompt", "{} different prompts"),
    ("missing_prompts", "{} prompt missing", "{} prompts missing"),
    ("extra_prompts", "{} extra prompt", "{} extra prompts"),
    ("missing", "{} call missing", "{} calls missing"),
    ("extra", "{} extra call", "{} extra calls"),
    ("arguments", "{} with different arguments", "{} with different arguments"),
    ("order", "{} out of order", "{} out of order"),
    ("turn", "{} in another turn", "{} in another turn"),
    ("results", "{} with a different result", "{} with different results"),
    ("missing_turns", "{} turn missing", "{} turns missing"),
    ("extra_turns", "{} extra turn", "{} extra turns"),
    ("ends", "{} different finish reason", "{} different finish reasons"),
    ("texts", "{} answer with different text", "{} answers with different text"),
)
"""By attribute name of Counts: the singular and plural words. The most important first."""

CUT = 200
"""Maximum length of a value in Markdown, in characters."""


@dataclass(frozen=True)
class ComparedSession:
    """A session; `words` say how it differs from the first, `first` is the address of a comparison
    with it as reference. `without` is the page of the others, "" for none."""

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
class ComparedTurn:
    """One session's cell in a row: `how` is reference, same, other, missing or extra. `text` is its
    beginning, `more` the number of characters cut; if words differ, `pieces` is their diff."""

    how: Literal["reference", "same", "other", "missing", "extra"]
    href: str = ""
    label: str = ""
    words: Sequence[str] = ()
    notes: Sequence[str] = ()
    text: str = ""
    more: int = 0
    pieces: Sequence[TextPiece] = ()


@dataclass(frozen=True)
class ComparedLine:
    """A row of the page: a prompt or a turn in each session, None if it has none, and below it a
    line of cells for each call. `hidden` counts omitted calls, which are at `rest`."""

    kind: Literal["prompt", "turn"]
    equal: bool
    cells: Sequence[ComparedTurn | None]
    calls: Sequence[Sequence[CallCell | None]]
    brief: str = ""
    number: int = 0
    hidden: int = 0
    rest: str = ""


@dataclass(frozen=True)
class RowGroup:
    """Consecutive rows that are all equal, or all different."""

    equal: bool
    words: str
    lines: Sequence[ComparedLine]


@dataclass(frozen=True)
class CompareChoice:
    """A session offered for comparison; `why` is fork, parent, or "" for one of the most recent."""

    row: SessionRow
    why: str
    picked: bool


@dataclass(frozen=True)
class ComparePage:
    """`common` are the rows shared by all. `rest` is the address of the rows that follow, "" if all
    are shown; `live` that of the same sessions side by side."""

    columns: Sequence[ComparedSession] = ()
    common: RowGroup | None = None
    groups: Sequence[RowGroup] = ()
    notices: Sequence[str] = ()
    rows: int = 0
    start: int = 0
    rest: str = ""
    live: str = ""
    markdown: str = ""
    copied: str = ""
    choices: Sequence[CompareChoice] = ()
    query: str = ""
    most: int = 4


def compare_page(env: Environment, page: ComparePage, now_ms: int = 0) -> str:
    return env.get_template("compare.html").render(page=page, section="sessions", now_ms=now_ms)


# Rows ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AlignedRow:
    """A row over all sessions: `left` of the first, and a Row for each other, None for none."""

    left: DiffItem | None
    rows: Sequence[DiffRow | None]

    @property
    def equal(self) -> bool:
        return all(row is not None and row.equal for row in self.rows)


def align_rows(alignments: Sequence[Alignment]) -> list[AlignedRow]:
    """The rows of all alignments, which share the left side, joined by their left items."""
    left = [list(_split_by_left(alignment.rows)) for alignment in alignments]
    lines: list[AlignedRow] = []
    for steps in zip(*left, strict=True):
        lines += _extras([extra for extra, _ in steps])
        rows = [row for _, row in steps]
        if rows[0] is not None:
            lines.append(AlignedRow(rows[0].left, rows))
    return lines


def _split_by_left(rows: Sequence[DiffRow]) -> Iterator[tuple[list[DiffRow], DiffRow | None]]:
    """Each row with a left item, with the preceding rows without one; None at the end."""
    extras: list[DiffRow] = []
    for row in rows:
        if row.left is None:
            extras.append(row)
            continue
        yield extras, row
        extras = []
    yield extras, None


def _extras(queues: Sequence[list[DiffRow]]) -> Iterator[AlignedRow]:
    """Rows that only other sessions have, merged into one if of the same kind."""
    places = [0] * len(queues)
    while heads := [q[at] for q, at in zip(queues, places, strict=True) if at < len(q)]:
        kind = type(heads[0].right)
        rows: list[DiffRow | None] = []
        for number, queue in enumerate(queues):
            at = places[number]
            fits = at < len(queue) and isinstance(queue[at].right, kind)
            rows.append(queue[at] if fits else None)
            places[number] += fits
        yield AlignedRow(None, rows)


def column(
    side: Side, number: int, alignment: Alignment | None, first: str, without: str, note: str = ""
) -> ComparedSession:
    return ComparedSession(
        number,
        id=side.id,
        title=side.title or "New session",
        model=side.model,
        profile=side.profile,
        state=side.state,
        measures=measures(side.took),
        words=summary(alignment) if alignment is not None else (),
        first=first,
        without=without,
        note=note or ("No turns yet." if not side.took.turns else ""),
    )


def common_group(side: Side, count: int) -> RowGroup | None:
    """The common rows, as brief lines."""
    items = side.items[:count]
    if not items:
        return None
    lines = [_brief_line(side.id, item) for item in items]
    return RowGroup(True, f"{_count_words(lines)} in common", lines)


def _count_words(lines: Sequence[ComparedLine]) -> str:
    """The number of turns, or of prompts if there is no turn."""
    turns = sum(line.kind == "turn" for line in lines)
    return plural(turns, "turn") if turns else plural(len(lines), "prompt")


def groups(
    rows: Sequence[AlignedRow], ids: Sequence[str], shown: ShownCounts, here: str, start: int = 0
) -> list[RowGroup]:
    """`rows` drawn, with equal ones folded together. `shown` is the number of calls by row, if not
    CARDS; `here` is the address of the page without that parameter, and `start` the number of rows
    before."""
    all_groups: list[RowGroup] = []
    lines: list[ComparedLine] = []
    before = ""
    for place, row in enumerate(rows):
        settings = "|".join(" ".join(other.settings) for other in row.rows if other is not None)
        number = start + place + 1
        if row.equal:
            line = _brief_line(ids[0], row.left)
        else:
            line = _line(row, ids, settings != before, number, shown.get(number, CARDS))
            rest = f"{here}&shown={format_shown(show_more(shown, number))}#row-{number}"
            line = replace(line, rest=rest if line.hidden else "")
        before = settings if isinstance(row.left, DiffTurn) else before
        lines.append(line)
        if place + 1 == len(rows) or rows[place + 1].equal != row.equal:
            all_groups.append(RowGroup(row.equal, f"{_count_words(lines)} equal", lines))
            lines = []
    return all_groups


def _brief_line(session_id: str, item: DiffItem | None) -> ComparedLine:
    assert item is not None, "What is equal is on both sides."
    brief = ", ".join(call.name for call in item.calls) or item.text
    return ComparedLine(item.kind, True, [_reference(session_id, item)], (), clip(brief, 120))


def _line(
    row: AlignedRow, ids: Sequence[str], settings_new: bool, number: int, most: int
) -> ComparedLine:
    item = row.left or next(other.item for other in row.rows if other is not None)
    cells = [_reference(ids[0], row.left) if row.left is not None else None]
    for compared, session_id in zip(row.rows, ids[1:], strict=True):
        cells.append(
            _other_turn(session_id, compared, settings_new) if compared is not None else None
        )
    calls, hidden = call_lines(row.left, row.rows, ids, most)
    return ComparedLine(item.kind, False, cells, calls, number=number, hidden=hidden)


def _reference(
    session_id: str, item: DiffItem, how: Literal["reference", "extra"] = "reference"
) -> ComparedTurn:
    href, label = place_of(session_id, item)
    words = turn_measures(item.took) if isinstance(item, DiffTurn) else ()
    text, more = cut(item.text)
    return ComparedTurn(
        how, href=href, label=label, words=words, notes=_end_notes(item), text=text, more=more
    )


def _other_turn(session_id: str, row: DiffRow, settings_new: bool) -> ComparedTurn:
    if row.right is None:
        return ComparedTurn("missing")
    if row.left is None:
        return _reference(session_id, row.right, "extra")
    href, label = place_of(session_id, row.right)
    text, more = cut(row.right.text)
    words, notes = [], []
    if isinstance(row.left, DiffTurn) and isinstance(row.right, DiffTurn):
        words = deltas(row.left.took, row.right.took)
        if "end" in row.ways:
            notes.append(f"ended with {row.right.ended or 'nothing yet'}, not {row.left.ended}")
        if row.right.error:
            notes.append(row.right.error)
        if row.settings and settings_new:
            notes.append(f"different {', '.join(row.settings)}")
    if "images" in row.ways:
        notes.append("different images")
    pieces = (
        visible_pieces(text_changes(row.left.text, row.right.text)) if "text" in row.ways else ()
    )
    how: Literal["same", "other"] = "same" if row.equal else "other"
    return ComparedTurn(
        how,
        href=href,
        label=label,
        words=words,
        notes=notes,
        text="" if pieces else text,
        more=more,
        pieces=pieces,
    )


def _end_notes(item: DiffItem) -> list[str]:
    if not isinstance(item, DiffTurn):
        return ["with images"] if item.images else []
    notes = [f"ended with {item.ended}"] if item.ended not in ("stop", "calls", "failed") else []
    if not item.ended:
        notes = ["still open"]
    return [*notes, item.error] if item.error else notes


def place_of(session_id: str, item: DiffItem) -> tuple[str, str]:
    """The address and the name of an item."""
    label = f"{item.kind.capitalize()} {item.number}"
    return f"/sessions/{session_id}#{item.kind}-{item.number}", label


# The calls of a comparison: a cell for each session, and how much of a difference is shown.


@dataclass(frozen=True)
class FieldDifference:
    """`changes` of JSON, and the number omitted, or else `pieces` of text."""

    changes: Sequence[JsonChange] = ()
    more: int = 0
    pieces: Sequence[TextPiece] = ()


@dataclass(frozen=True)
class CallCell:
    """A call in one session: complete, or the differences of its arguments and its result."""

    how: Literal["reference", "same", "other", "missing", "extra"]
    href: str = ""
    id: str = ""
    name: str = ""
    words: Sequence[str] = ()
    arguments: str = ""
    result: str = ""
    changed: FieldDifference = FieldDifference()
    result_changed: FieldDifference = FieldDifference()


def call_lines(
    left: DiffItem | None, rows: Sequence[DiffRow | None], ids: Sequence[str], most: int
) -> tuple[list[list[CallCell | None]], int]:
    """A line for each call of the first session, then the calls that only others have: `most`
    lines, and the number omitted."""
    lines: list[list[CallCell | None]] = []
    matching: list[Mapping[str, CallPair]] = []
    extras: list[list[CallPair]] = []
    for row in rows:
        pairs = row.calls if row is not None else ()
        matching.append({pair.left.id: pair for pair in pairs if pair.left is not None})
        extras.append([pair for pair in pairs if pair.left is None])
    calls = left.calls if left is not None else ()
    count = max((len(call_pair) for call_pair in extras), default=0)
    for call in calls[:most]:
        line: list[CallCell | None] = [_reference_call(ids[0], call)]
        line += [_other_call(s, by[call.id]) for s, by in zip(ids[1:], matching, strict=True)]
        lines.append(line)
    for at in range(min(count, most - len(lines))):
        more = [_other_call(s, extra[at]) if at < len(extra) else None
                for s, extra in zip(ids[1:], extras, strict=True)]  # fmt: skip
        lines.append([None, *more])
    return lines, len(calls) + count - len(lines)


def call_address(session_id: str, call: DiffCall) -> str:
    block_id = call_block(call.id)
    return f"/sessions/{session_id}{query_of(block_id)}#{block_id}"


def _reference_call(session_id: str, call: DiffCall) -> CallCell:
    return CallCell(
        "reference",
        href=call_address(session_id, call),
        id=call.id,
        name=call.name,
        words=["edited"] if call.edited else [],
        arguments=clip(call.arguments, SHOWN_VALUE),
        result=clip(outcome_text(call), SHOWN_VALUE),
    )


def _other_call(session_id: str, pair: CallPair) -> CallCell:
    left, right = pair.left, pair.right
    if right is None:
        return CallCell("missing", words=call_words(pair))
    own = _reference_call(session_id, right)
    if left is None:
        return replace(own, how="extra", words=call_words(pair))
    return CallCell(
        "other" if pair.ways else "same",
        own.href,
        own.id,
        own.name,
        call_words(pair) + (["edited"] if right.edited and not left.edited else []),
        changed=_field_difference("arguments" in pair.ways, left.arguments, right.arguments),
        result_changed=_field_difference(
            "result" in pair.ways, outcome_text(left), outcome_text(right)
        ),
    )


def _field_difference(differ: bool, old: str, new: str) -> FieldDifference:
    """By pointer if both are JSON containers with content, else by words."""
    changes = json_changes(old, new) if differ else ()
    if changes and all(change.pointer for change in changes):
        return FieldDifference(changes[:MOST_CHANGES], max(len(changes) - MOST_CHANGES, 0))
    return FieldDifference(pieces=visible_pieces(text_changes(old, new)) if differ else ())


def outcome_text(call: DiffCall) -> str:
    """The result of a call as the model read it, or the call's state."""
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


# A comparison in words: how a session differs, and its difference in cost and time.


def summary(alignment: Alignment) -> list[str]:
    """The differences of the right session, most important first; those in cost and time last."""
    differences = _differences(alignment.counts)
    settings = dict.fromkeys(setting for row in alignment.rows for setting in row.settings)
    if settings:
        differences = [
            *(differences or ["the same answers"]),
            f"different {', '.join(settings)}",
        ]
    return (differences or ["no difference"]) + deltas(alignment.left.took, alignment.right.took)


def _differences(counts: Counts) -> list[str]:
    return [
        (singular if count == 1 else several).format(count)
        for name, singular, several in _DIFFERENCES
        if (count := getattr(counts, name))
    ]


def deltas(left: Measure, right: Measure) -> list[str]:
    """How much more or less the right one took; omits values unknown on either side."""
    changes: list[str] = []
    if more := right.busy_ms - left.busy_ms:
        changes.append(f"{_sign(more)}{duration(abs(more))}")
    if not (left.uncounted or right.uncounted):
        more = right.read + right.written - left.read - left.written
        if more:
            changes.append(f"{_sign(more)}{grouped_number(abs(more))} tokens")
    if not (left.unpriced or right.unpriced):
        dear = right.cost - left.cost
        if abs(dear) >= 0.00005:
            changes.append(f"{_sign(dear)}${abs(dear):.4f}")
    return changes


def measures(took: Measure) -> list[str]:
    """All measures: `4 turns`, `3 calls`, `2.1 s at work`, `1 234 → 96 tokens`, a cost."""
    words = [plural(took.turns, "turn"), plural(took.calls, "call")]
    if not took.turns:
        return words
    return [*words, f"{duration(took.busy_ms)} at work", _tokens(took), _cost(took)]


def turn_measures(took: Measure) -> list[str]:
    """The measures of one turn; unknown values are omitted."""
    words = [duration(took.busy_ms)]
    if not took.uncounted:
        words.append(f"{grouped_number(took.read)} → {grouped_number(took.written)} tokens")
    if not took.unpriced and took.cost:
        words.append(f"${took.cost:.4f}")
    return words


def _tokens(took: Measure) -> str:
    known = f"{grouped_number(took.read)} → {grouped_number(took.written)} tokens"
    return _known_words(known, "tokens", took.turns, took.uncounted)


def _cost(took: Measure) -> str:
    known = f"${took.cost:.4f}" if took.cost >= 0.00005 or not took.cost else "under $0.0001"
    return _known_words(known, "cost", took.turns, took.unpriced)


def _known_words(known: str, what: str, turns: int, unknown: int) -> str:
    if unknown == turns:
        return f"{what} unknown"
    return f"{known}, {plural(unknown, 'turn')} unknown" if unknown else known


def call_words(pair: CallPair) -> list[str]:
    """How one call differs; `same` if it does not."""
    words = [WAYS[way] for way in pair.ways if way != "turn"]
    if "turn" in pair.ways and pair.right is not None:
        words.insert(0, f"in turn {pair.right.turn}")
    return words or ["same"]


def _sign(more: float) -> str:
    return "+" if more > 0 else "−"


# The same as JSON data, uncut.


def comparison_data(sides: Sequence[Side], alignments: Sequence[Alignment]) -> Mapping[str, Any]:
    """The whole comparison; `rows` are those after the common ones."""
    return {
        "sessions": [_side_data(side) for side in sides],
        "against": [
            {
                "session": alignment.right.id,
                "common": alignment.common,
                "counts": asdict(alignment.counts),
                "summary": summary(alignment),
                "rows": [_row_data(row) for row in alignment.rows],
            }
            for alignment in alignments
        ],
    }


def _side_data(side: Side) -> dict[str, Any]:
    return {
        "id": side.id,
        "title": side.title,
        "state": side.state,
        "model": side.model,
        "profile": side.profile,
        "dropped": side.dropped,
        **_measure_data(side.took),
    }


def _measure_data(took: Measure) -> dict[str, Any]:
    """Sums are null if the value of one of their turns is unknown."""
    return {
        "turns": took.turns,
        "calls": took.calls,
        "busy_ms": took.busy_ms,
        "input_tokens": None if took.uncounted else took.read,
        "output_tokens": None if took.uncounted else took.written,
        "cost": None if took.unpriced else took.cost,
    }


def _row_data(row: DiffRow) -> dict[str, Any]:
    return {
        "kind": row.item.kind,
        "left": _item_data(row.left),
        "right": _item_data(row.right),
        "ways": list(row.ways),
        "settings": list(row.settings),
        "calls": [_pair_data(pair) for pair in row.calls],
    }


def _item_data(item: DiffItem | None) -> dict[str, Any] | None:
    if not isinstance(item, DiffTurn):
        return None if item is None else {"number": item.number, "text": item.text}
    return {
        "number": item.number,
        "model": item.model,
        "text": item.text,
        "ended": item.ended,
        "error": item.error,
        **_measure_data(item.took),
    }


def _pair_data(pair: CallPair) -> dict[str, Any]:
    left, right, changes = pair.left, pair.right, pair.changes
    return {
        "left": left.id if left is not None else None,
        "right": right.id if right is not None else None,
        "name": pair.call.name,
        "ways": list(pair.ways),
        "changes": None if changes is None else [
            {"pointer": c.pointer, "how": c.how, "old": c.old, "new": c.new} for c in changes
        ],
    }  # fmt: skip


# Markdown --------------------------------------------------------------------------------------


def markdown(sides: Sequence[Side], alignments: Sequence[Alignment]) -> str:
    """A heading, a line for each session, and the differences, turn by turn."""
    first = sides[0]
    lines = ["# Comparison", "", f"- Reference: {_name(first)}: {', '.join(measures(first.took))}"]
    for alignment in alignments:
        took = ", ".join(measures(alignment.right.took))
        lines.append(f"- {_name(alignment.right)}: **{', '.join(summary(alignment))}** ({took})")
    for alignment in alignments:
        lines += ["", f"## {_name(alignment.right)}", ""]
        if alignment.common:
            lines.append(f"- {alignment.common} prompts and turns in common")
        different = [line for row in alignment.rows if not row.equal for line in _row_lines(row)]
        lines += different or ["- No difference."]
    return "\n".join(lines) + "\n"


def _row_lines(row: DiffRow) -> Iterator[str]:
    numbers = " / ".join(str(side.number) if side is not None else "none"
                         for side in (row.left, row.right))  # fmt: skip
    ways = [*row.ways, *(f"another {setting}" for setting in row.settings)]
    yield f"- {row.item.kind.capitalize()} {numbers}" + (f": {', '.join(ways)}" if ways else "")
    if "text" in row.ways and row.left is not None and row.right is not None:
        yield f"  - was: {_code(row.left.text)}"
        yield f"  - is: {_code(row.right.text)}"
    for pair in row.calls:
        if pair.ways:
            yield from _pair_lines(pair)


def _pair_lines(pair: CallPair) -> Iterator[str]:
    left, right = pair.left, pair.right
    yield f"  - {_code(pair.call.name)} ({pair.call.id}): {', '.join(call_words(pair))}"
    if left is None or right is None:
        yield f"    - {_code(pair.call.arguments)}"
        return
    if "arguments" in pair.ways:
        changes = pair.changes
        if changes is None:
            yield f"    - {_code(left.arguments)} → {_code(right.arguments)}"
        for change in changes or ():
            old, new = (_code(text) if text else "nothing" for text in (change.old, change.new))
            yield f"    - {_code(change.pointer or '(all)')}: {old} → {new}"
    if "result" in pair.ways:
        yield f"    - result: {_code(outcome_text(left))} → {_code(outcome_text(right))}"


def _name(side: Side) -> str:
    asked = _code(side.model) + (f" by {_code(side.profile)}" if side.profile != side.model else "")
    return f"{_code(side.title or 'New session')} ({asked}, {side.id})"


def _code(text: str) -> str:
    """`text` as one line of inline code, cut; Markdown in it has no effect."""
    shown = one_line(clip(text, CUT))
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    ticks, gap = "`" * (longest + 1), " " if longest or not shown.strip() else ""
    return f"{ticks}{gap}{shown}{gap}{ticks}" if shown else "(empty)"


# The form that sends a prompt to several models.


@dataclass(frozen=True)
class ModelRow:
    """One model row of the form with its input; a `needed` one must have a profile."""

    profile: str = ""
    model: str = ""
    needed: bool = False


@dataclass(frozen=True)
class PromptSource:
    """The session whose last prompt is sent to others; `prompt` is its number, 0 for none."""

    id: str
    title: str
    prompt: int
    text: str
    turns: int


def models_page(
    env: Environment,
    source: PromptSource | None,
    settings: Settings,
    rows: Sequence[ModelRow],
    groups: Sequence[tuple[str, Sequence[Profile]]],
    models: Sequence[str],
) -> str:
    """The form that sends a prompt to several models; `models` are ids that providers listed."""
    return env.get_template("models.html").render(
        source=source,
        text=source.text if source is not None else "",
        tools=[tool.name for tool in settings.tools],
        system=settings.system,
        rows=rows,
        groups=groups,
        models=models,
        titles={name: vendor.title for name, vendor in SHIPPED.items()},
    )
