"""Rules decide without asking: ordered, the first that matches wins, no match means ask."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from app.core.state import Call

Action = Literal["run", "answer", "deny", "ask"]


@dataclass(frozen=True)
class Rule:
    """`tool` is an exact name or `*`; `words` is how the person wrote the rule."""

    tool: str
    action: Action
    text: str = ""
    words: str = ""


def first_match(rules: Iterable[Rule], call: Call) -> Rule | None:
    """The rule that decides `call`, or None: ask."""
    rule = next((rule for rule in rules if rule.tool in ("*", call.name)), None)
    return None if rule is None or rule.action == "ask" else rule


def rules_from_flags(
    allow: Sequence[str], deny: Sequence[str], answer: Sequence[tuple[str, str]]
) -> tuple[Rule, ...]:
    """The rules of a command line; deny comes before answer, answer before allow."""
    denied = [
        Rule(_star(name), "deny", "Denied on the command line.", f"--deny {name}") for name in deny
    ]
    answered = [Rule(_star(name), "answer", text, f"--answer {name}=...") for name, text in answer]
    allowed = [Rule(_star(name), "run", "", f"--allow {name}") for name in allow]
    return (*denied, *answered, *allowed)


def _star(name: str) -> str:
    return "*" if name == "all" else name
