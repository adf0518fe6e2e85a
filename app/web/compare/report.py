"""A comparison as JSON data, which is complete, and as Markdown, where long values are cut."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from app.core.session_diff import (
    Alignment,
    CallPair,
    DiffPrompt,
    DiffRow,
    DiffTurn,
    Item,
    Measure,
    Side,
)
from app.core.value_diff import json_changes
from app.render.filters import clip, one_line
from app.web.compare.view import call_words, came_to, measures, summary

CUT = 200
"""Characters of a value in Markdown."""


def compared(sides: Sequence[Side], alignments: Sequence[Alignment]) -> Mapping[str, Any]:
    """All of it; `rows` are those after what is in common."""
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
    """Sums are null where one of their turns is unknown."""
    return {
        "turns": took.turns,
        "calls": took.calls,
        "busy_ms": took.busy_ms,
        "input_tokens": None if took.uncounted else took.read,
        "output_tokens": None if took.uncounted else took.written,
        "cost": None if took.unpriced else took.cost,
    }


def _row_data(row: DiffRow) -> dict[str, Any]:
    kind = "prompt" if isinstance(row.left or row.right, DiffPrompt) else "turn"
    return {
        "kind": kind,
        "left": _item_data(row.left),
        "right": _item_data(row.right),
        "ways": list(row.ways),
        "settings": list(row.settings),
        "calls": [_pair_data(pair) for pair in row.calls],
    }


def _item_data(item: Item | None) -> dict[str, Any] | None:
    match item:
        case None:
            return None
        case DiffPrompt(number=number, text=text):
            return {"number": number, "text": text}
        case DiffTurn():
            return {
                "number": item.number,
                "model": item.model,
                "text": item.text,
                "ended": item.ended,
                "error": item.error,
                **_measure_data(item.took),
            }


def _pair_data(pair: CallPair) -> dict[str, Any]:
    left, right = pair.left, pair.right
    changes = None
    if left is not None and right is not None and "arguments" in pair.ways:
        found = json_changes(left.arguments, right.arguments)
        changes = None if found is None else [
            {"pointer": c.pointer, "how": c.how, "old": c.old, "new": c.new} for c in found
        ]  # fmt: skip
    return {
        "left": left.id if left is not None else None,
        "right": right.id if right is not None else None,
        "name": (left or right).name if (left or right) is not None else "",  # type: ignore[union-attr]
        "ways": list(pair.ways),
        "changes": changes,
    }


# Markdown --------------------------------------------------------------------------------------


def markdown(sides: Sequence[Side], alignments: Sequence[Alignment]) -> str:
    """A heading, a line for each session, and what differs, turn by turn."""
    first = sides[0]
    lines = ["# Comparison", "", f"- Reference: {_name(first)}: {', '.join(measures(first.took))}"]
    for alignment in alignments:
        took = ", ".join(measures(alignment.right.took))
        lines.append(f"- {_name(alignment.right)}: **{', '.join(summary(alignment))}** ({took})")
    for alignment in alignments:
        lines += ["", f"## {_name(alignment.right)}", ""]
        if alignment.common:
            lines.append(f"- {alignment.common} prompts and turns in common")
        told = [line for row in alignment.rows if not row.equal for line in _row_lines(row)]
        lines += told or ["- No difference."]
    return "\n".join(lines) + "\n"


def _row_lines(row: DiffRow) -> Iterator[str]:
    some = row.left or row.right
    assert some is not None
    kind = "Prompt" if isinstance(some, DiffPrompt) else "Turn"
    numbers = " / ".join(str(side.number) if side is not None else "none"
                         for side in (row.left, row.right))  # fmt: skip
    ways = [*row.ways, *(f"another {setting}" for setting in row.settings)]
    yield f"- {kind} {numbers}" + (f": {', '.join(ways)}" if ways else "")
    if "text" in row.ways and row.left is not None and row.right is not None:
        yield f"  - was: {_code(row.left.text)}"
        yield f"  - is: {_code(row.right.text)}"
    for pair in row.calls:
        if pair.ways:
            yield from _pair_lines(pair)


def _pair_lines(pair: CallPair) -> Iterator[str]:
    left, right = pair.left, pair.right
    some = left or right
    assert some is not None
    yield f"  - {_code(some.name)} ({some.id}): {', '.join(call_words(pair))}"
    if left is None or right is None:
        yield f"    - {_code(some.arguments)}"
        return
    if "arguments" in pair.ways:
        changes = json_changes(left.arguments, right.arguments)
        if changes is None:
            yield f"    - {_code(left.arguments)} → {_code(right.arguments)}"
        for change in changes or ():
            old, new = (_code(text) if text else "nothing" for text in (change.old, change.new))
            yield f"    - {_code(change.pointer or '(all)')}: {old} → {new}"
    if "result" in pair.ways:
        yield f"    - result: {_code(came_to(left))} → {_code(came_to(right))}"


def _name(side: Side) -> str:
    asked = _code(side.model) + (f" by {_code(side.profile)}" if side.profile != side.model else "")
    return f"{_code(side.title or 'New session')} ({asked}, {side.id})"


def _code(text: str) -> str:
    """`text` in one line of code, cut: whatever is in it is no Markdown."""
    shown = one_line(clip(text, CUT))
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    ticks, gap = "`" * (longest + 1), " " if longest or not shown.strip() else ""
    return f"{ticks}{gap}{shown}{gap}{ticks}" if shown else "(empty)"
