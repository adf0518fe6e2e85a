"""What a comparison says in words: how a session differs, and what it took more or less."""

from __future__ import annotations

from collections.abc import Iterator

from app.core.session_diff import Alignment, CallPair, Counts, Measure
from app.render.filters import duration, number, plural

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
            told.append(f"{_sign(more)}{number(abs(more))} tokens")
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
        told.append(f"{number(took.read)} → {number(took.written)} tokens")
    if not took.unpriced and took.cost:
        told.append(f"${took.cost:.4f}")
    return told


def _tokens(took: Measure) -> str:
    if took.uncounted == took.turns:
        return "tokens unknown"
    known = f"{number(took.read)} → {number(took.written)} tokens"
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
