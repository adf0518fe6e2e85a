"""The comparison of sessions as a page: a column each, the first being the reference, and a row for
each prompt and turn. Long texts are cut; docs/contract.md says where all of them are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from jinja2 import Environment

from app.core.session_diff import (
    Alignment,
    CallPair,
    Counts,
    DiffCall,
    DiffPrompt,
    DiffRow,
    DiffTurn,
    Item,
    Measure,
    Side,
)
from app.core.settings import Profile, Settings
from app.core.tools import ToolResult
from app.core.value_diff import JsonChange, TextPiece, json_changes, text_changes
from app.render.filters import clip, duration, plural
from app.render.filters import number as grouped_number
from app.render.paging import CARDS, Shown, query_of, spelled, with_more
from app.render.view import SessionRow

MOST_ROWS = 100
"""Rows of one page in sight."""


@dataclass(frozen=True)
class ComparedSession:
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
class ComparedTurn:
    """What one session has in a row: `how` is reference, same, other, missing or extra. `text` is
    its beginning, `more` how many characters follow; where words differ, `pieces` say how."""

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
    """A row of the page: a prompt or a turn in each session, None where it has none, and below it
    a line of cells for each call, but for `hidden` ones, more of which are at `rest`."""

    kind: Literal["prompt", "turn"]
    equal: bool
    cells: Sequence[ComparedTurn | None]
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
    lines: Sequence[ComparedLine]


@dataclass(frozen=True)
class CompareChoice:
    """A session that may be compared; `why` is fork, parent, or "" for one of the last."""

    row: SessionRow
    why: str
    picked: bool


@dataclass(frozen=True)
class ComparePage:
    """`common` are the rows that a fork took over. `rest` is the address of the rows that follow,
    "" where all are shown; `live` that of the same sessions side by side."""

    columns: Sequence[ComparedSession] = ()
    common: Group | None = None
    groups: Sequence[Group] = ()
    said: Sequence[str] = ()
    rows: int = 0
    start: int = 0
    rest: str = ""
    live: str = ""
    markdown: str = ""
    copied: str = ""
    choices: Sequence[CompareChoice] = ()
    query: str = ""
    most: int = 4


def compare_page(env: Environment, page: ComparePage) -> str:
    return env.get_template("compare.html").render(page=page, section="sessions")


# Rows ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Across:
    """A row over all sessions: `left` of the first, and a Row for each other, None for none."""

    left: Item | None
    rows: Sequence[DiffRow | None]

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


def _by_left(rows: Sequence[DiffRow]) -> Iterator[tuple[list[DiffRow], DiffRow | None]]:
    """Each row with something on the left, and those without that come before it; None at last."""
    extras: list[DiffRow] = []
    for row in rows:
        if row.left is None:
            extras.append(row)
            continue
        yield extras, row
        extras = []
    yield extras, None


def _extras(queues: Sequence[list[DiffRow]]) -> Iterator[Across]:
    """What only others have, side by side where it is of one kind."""
    places = [0] * len(queues)
    while heads := [q[at] for q, at in zip(queues, places, strict=True) if at < len(q)]:
        kind = type(heads[0].right)
        taken: list[DiffRow | None] = []
        for number, queue in enumerate(queues):
            at = places[number]
            fits = at < len(queue) and isinstance(queue[at].right, kind)
            taken.append(queue[at] if fits else None)
            places[number] += fits
        yield Across(None, taken)


def column(
    side: Side, number: int, alignment: Alignment | None, first: str, without: str, note: str = ""
) -> ComparedSession:
    return ComparedSession(
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
    turns = sum(isinstance(item, DiffTurn) for item in items)
    words = plural(turns, "turn") if turns else plural(len(items), "prompt")
    return Group(True, f"{words} in common", [_brief_line(side.id, item) for item in items])


def groups(
    rows: Sequence[Across], ids: Sequence[str], shown: Shown, here: str, start: int = 0
) -> list[Group]:
    """`rows` drawn, those that are equal folded together. `shown` says of how many calls of a row,
    by its number, where these are not CARDS; `here` is the address of the page without that, and
    `start` how many rows are before."""
    found: list[Group] = []
    lines: list[ComparedLine] = []
    before = ""
    for place, row in enumerate(rows):
        settings = "|".join(" ".join(other.settings) for other in row.rows if other is not None)
        number = start + place + 1
        if row.equal:
            line = _brief_line(ids[0], row.left)
        else:
            line = _line(row, ids, settings != before, number, shown.get(number, CARDS))
            rest = f"{here}&shown={spelled(with_more(shown, number))}#row-{number}"
            line = replace(line, rest=rest if line.hidden else "")
        before = settings if isinstance(row.left, DiffTurn) else before
        lines.append(line)
        if place + 1 == len(rows) or rows[place + 1].equal != row.equal:
            turns = sum(line.kind == "turn" for line in lines)
            words = plural(turns, "turn") if turns else plural(len(lines), "prompt")
            found.append(Group(row.equal, f"{words} equal", lines))
            lines = []
    return found


def _brief_line(session_id: str, item: Item | None) -> ComparedLine:
    assert item is not None, "What is equal is on both sides."
    match item:
        case DiffPrompt(text=text):
            return ComparedLine("prompt", True, [_reference(session_id, item)], (), clip(text, 120))
        case DiffTurn(text=text, calls=calls):
            brief = ", ".join(call.name for call in calls) or text
            return ComparedLine("turn", True, [_reference(session_id, item)], (), clip(brief, 120))


def _line(
    row: Across, ids: Sequence[str], settings_new: bool, number: int, most: int
) -> ComparedLine:
    some = row.left or next(other.right for other in row.rows if other is not None)
    cells = [_reference(ids[0], row.left) if row.left is not None else None]
    for compared, session_id in zip(row.rows, ids[1:], strict=True):
        cells.append(_other(session_id, compared, settings_new) if compared is not None else None)
    kind: Literal["prompt", "turn"] = "prompt" if isinstance(some, DiffPrompt) else "turn"
    calls, hidden = call_lines(row.left, row.rows, ids, most)
    return ComparedLine(kind, False, cells, calls, number=number, hidden=hidden)


def _reference(session_id: str, item: Item) -> ComparedTurn:
    href, label = place_of(session_id, item)
    words = turn_measures(item.took) if isinstance(item, DiffTurn) else ()
    text, more = cut(item.text)
    return ComparedTurn("reference", href, label, words, _ended(item), text, more)


def _other(session_id: str, row: DiffRow, settings_new: bool) -> ComparedTurn:
    if row.right is None:
        return ComparedTurn("missing")
    href, label = place_of(session_id, row.right)
    text, more = cut(row.right.text)
    if row.left is None:
        words = turn_measures(row.right.took) if isinstance(row.right, DiffTurn) else ()
        return ComparedTurn("extra", href, label, words, _ended(row.right), text, more)
    words, notes = [], []
    if isinstance(row.left, DiffTurn) and isinstance(row.right, DiffTurn):
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
    return ComparedTurn(how, href, label, words, notes, "" if pieces else text, more, pieces)


def _ended(item: Item) -> list[str]:
    if isinstance(item, DiffPrompt):
        return ["with images"] if item.images else []
    notes = [f"ended by {item.ended}"] if item.ended not in ("stop", "calls", "failed") else []
    if not item.ended:
        notes = ["still open"]
    return [*notes, item.error] if item.error else notes


def place_of(session_id: str, item: Item) -> tuple[str, str]:
    """Its address and its name."""
    kind = "prompt" if isinstance(item, DiffPrompt) else "turn"
    label = f"{kind.capitalize()} {item.number}"
    return f"/sessions/{session_id}#{kind}-{item.number}", label


# The calls of a comparison: a cell for each session, and how much of a difference is shown.


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
    changes: Sequence[JsonChange] = ()
    more: int = 0
    pieces: Sequence[TextPiece] = ()
    result_changes: Sequence[JsonChange] = ()
    result_more: int = 0
    result_pieces: Sequence[TextPiece] = ()


def call_lines(
    left: Item | None, rows: Sequence[DiffRow | None], ids: Sequence[str], most: int
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
    calls = left.calls if isinstance(left, DiffTurn) else ()
    count = max((len(call_pair) for call_pair in extras), default=0)
    for call in calls[:most]:
        line: list[CallCell | None] = [_reference_call(ids[0], call)]
        line += [_other_call(s, by[call.id]) for s, by in zip(ids[1:], found, strict=True)]
        lines.append(line)
    for at in range(min(count, most - len(lines))):
        more = [_other_call(s, extra[at]) if at < len(extra) else None
                for s, extra in zip(ids[1:], extras, strict=True)]  # fmt: skip
        lines.append([None, *more])
    return lines, len(calls) + count - len(lines)


def call_address(session_id: str, call: DiffCall) -> str:
    block_id = f"call-{call.id.replace('.', '-')}"
    return f"/sessions/{session_id}{query_of(block_id)}#{block_id}"


def _reference_call(session_id: str, call: DiffCall) -> CallCell:
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


def _changes(differ: bool, old: str, new: str) -> tuple[Sequence[JsonChange], Sequence[TextPiece]]:
    """By pointer where both are JSON with something inside, else by words."""
    if not differ:
        return (), ()
    changes = json_changes(old, new)
    if changes and all(change.pointer for change in changes):
        return changes, ()
    return (), in_sight(text_changes(old, new))


def came_to(call: DiffCall) -> str:
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


def in_sight(pieces: Sequence[TextPiece]) -> list[TextPiece]:
    """What is the same is cut in its middle, what differs after SHOWN_TEXT characters, and the
    whole after MOST_PIECES pieces; each cut says how much is left out."""
    told: list[TextPiece] = []
    for place, piece in enumerate(pieces[:MOST_PIECES]):
        if piece.how != "same":
            told.append(TextPiece(piece.how, _short(piece.text, SHOWN_TEXT, 0)))
            continue
        head = AROUND if place else 0
        tail = AROUND if place + 1 < len(pieces) else 0
        told.append(TextPiece("same", _short(piece.text, head, tail)))
    if len(pieces) > MOST_PIECES:
        left = len(pieces) - MOST_PIECES
        told.append(TextPiece("same", f" … {plural(left, 'more piece')} …"))
    return told


def _short(text: str, head: int, tail: int) -> str:
    left = len(text) - head - tail
    if left <= 40:
        return text
    return f"{text[:head]} … {plural(left, 'character')} … {text[len(text) - tail :]}"


# A comparison in words: how a session differs, and what it took more or less.


WAYS = {
    "missing": "missing",
    "extra": "extra",
    "arguments": "other arguments",
    "result": "other result",
    "order": "out of order",
    "turn": "in another turn",
}


def summary(alignment: Alignment) -> list[str]:
    """How the right session differs, the gravest first; what it took more or less comes last."""
    found = list(_differences(alignment.counts))
    settings = dict.fromkeys(setting for row in alignment.rows for setting in row.settings)
    if settings:
        found = [*(found or ["the same answers"]), f"asked with another {', '.join(settings)}"]
    return (found or ["no difference"]) + deltas(alignment.left.took, alignment.right.took)


def _differences(counts: Counts) -> Iterator[str]:
    if counts.prompts:
        yield plural(counts.prompts, "other prompt")
    if counts.missing_prompts:
        yield f"{plural(counts.missing_prompts, 'prompt')} missing"
    if counts.extra_prompts:
        yield plural(counts.extra_prompts, "extra prompt")
    if counts.missing:
        yield f"{plural(counts.missing, 'call')} missing"
    if counts.extra:
        yield plural(counts.extra, "extra call")
    if counts.arguments:
        yield f"{counts.arguments} with other arguments"
    if counts.order:
        yield f"{counts.order} out of order"
    if counts.turn:
        yield f"{counts.turn} in another turn"
    if counts.results:
        yield f"{counts.results} with another result"
    if counts.missing_turns:
        yield f"{plural(counts.missing_turns, 'turn')} missing"
    if counts.extra_turns:
        yield plural(counts.extra_turns, "extra turn")
    if counts.ends:
        yield plural(counts.ends, "other end", "other ends")
    if counts.texts:
        yield plural(counts.texts, "answer in other words", "answers in other words")


def deltas(left: Measure, right: Measure) -> list[str]:
    """What the right one took more or less; nothing of what is unknown on either side."""
    told: list[str] = []
    if more := right.busy_ms - left.busy_ms:
        told.append(f"{_sign(more)}{duration(abs(more))}")
    if not (left.uncounted or right.uncounted):
        more = right.read + right.written - left.read - left.written
        if more:
            told.append(f"{_sign(more)}{grouped_number(abs(more))} tokens")
    if not (left.unpriced or right.unpriced):
        dear = right.cost - left.cost
        if abs(dear) >= 0.00005:
            told.append(f"{_sign(dear)}${abs(dear):.4f}")
    return told


def measures(took: Measure) -> list[str]:
    """All of it: `4 turns`, `3 calls`, `2.1 s at work`, `1 234 → 96 tokens`, a cost."""
    told = [plural(took.turns, "turn"), plural(took.calls, "call")]
    if not took.turns:
        return told
    return [*told, f"{duration(took.busy_ms)} at work", _tokens(took), _cost(took)]


def turn_measures(took: Measure) -> list[str]:
    """Those of one turn; what is unknown is left to the sum."""
    told = [duration(took.busy_ms)]
    if not took.uncounted:
        told.append(f"{grouped_number(took.read)} → {grouped_number(took.written)} tokens")
    if not took.unpriced and took.cost:
        told.append(f"${took.cost:.4f}")
    return told


def _tokens(took: Measure) -> str:
    if took.uncounted == took.turns:
        return "tokens unknown"
    known = f"{grouped_number(took.read)} → {grouped_number(took.written)} tokens"
    return f"{known}, {plural(took.uncounted, 'turn')} unknown" if took.uncounted else known


def _cost(took: Measure) -> str:
    if took.unpriced == took.turns:
        return "cost unknown"
    known = f"${took.cost:.4f}" if took.cost >= 0.00005 or not took.cost else "under $0.0001"
    return f"{known}, {plural(took.unpriced, 'turn')} unknown" if took.unpriced else known


def call_words(pair: CallPair) -> list[str]:
    """How one call differs; `same` where it does not."""
    words = [WAYS[way] for way in pair.ways if way != "turn"]
    if "turn" in pair.ways and pair.right is not None:
        words.insert(0, f"in turn {pair.right.turn}")
    return words or ["same"]


def _sign(more: float) -> str:
    return "+" if more > 0 else "−"


@dataclass(frozen=True)
class ModelRow:
    """One of the models of the form, as it is filled in; one that is `needed` cannot be none."""

    profile: str = ""
    model: str = ""
    needed: bool = False


@dataclass(frozen=True)
class AskedFrom:
    """The session whose last prompt is asked of others; `prompt` is its number, 0 for none."""

    id: str
    title: str
    prompt: int
    text: str
    turns: int


def models_page(
    env: Environment,
    source: AskedFrom | None,
    settings: Settings,
    rows: Sequence[ModelRow],
    groups: Sequence[tuple[str, Sequence[Profile]]],
    models: Sequence[str],
) -> str:
    """The form that asks several models; `models` are ids that providers listed."""
    return env.get_template("models.html").render(
        source=source,
        text=source.text if source is not None else "",
        tools=[tool.name for tool in settings.tools],
        system=settings.system,
        rows=rows,
        groups=groups,
        models=models,
    )
