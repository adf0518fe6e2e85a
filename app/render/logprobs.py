"""How likely each token was, as rows of a small table, from what the providers call logprobs.

https://platform.openai.com/docs/api-reference/chat/object (`logprobs.content`; Ollama's are alike),
https://ai.google.dev/api/generate-content#LogprobsResult
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

MOST = 500
"""Rows that are shown; of more, their number is said."""

BESIDE = 5
"""Alternatives that are shown for one token."""


@dataclass(frozen=True)
class Token:
    """A token, its probability in percent (`97.3`), and what else might have stood there."""

    text: str
    percent: str
    others: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Odds:
    """The first tokens, and how many there are in all."""

    tokens: tuple[Token, ...]
    count: int


def odds(logprobs: Any) -> Odds | None:
    """None where there is nothing that can be read."""
    entries = list(_entries(logprobs))
    tokens = (_token(entry, others) for entry, others in entries[:MOST])
    return Odds(tuple(tokens), len(entries)) if entries else None


def _entries(logprobs: Any) -> Iterator[tuple[Mapping[str, Any], Sequence[Any]]]:
    match logprobs:
        case {"chosenCandidates": list(chosen), **rest}:  # Gemini
            steps = rest.get("topCandidates")
            for entry, step in zip_longest(chosen, steps if isinstance(steps, list) else ()):
                others = step.get("candidates") if isinstance(step, Mapping) else None
                if isinstance(entry, Mapping):
                    yield entry, others if isinstance(others, list) else ()
        case Mapping():
            for name in ("content", "refusal"):
                yield from _entries(logprobs.get(name))
        case list():
            for entry in logprobs:
                if isinstance(entry, Mapping) and "token" in entry:
                    others = entry.get("top_logprobs")
                    yield entry, others if isinstance(others, list) else ()
                elif isinstance(entry, Mapping):
                    yield from _entries(entry)


def _token(entry: Mapping[str, Any], others: Sequence[Any]) -> Token:
    text = _text(entry)
    beside = [other for other in others if isinstance(other, Mapping) and _text(other) != text]
    pairs = tuple((_text(one), _percent(one)) for one in beside[:BESIDE])
    return Token(text, _percent(entry), pairs)


def _text(entry: Mapping[str, Any]) -> str:
    token = entry.get("token")
    return token if isinstance(token, str) else "?"


def _percent(entry: Mapping[str, Any]) -> str:
    value = entry.get("logprob", entry.get("logProbability"))
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return "?"
    return f"{100 * math.exp(min(value, 0)):.1f}"
