"""How much of a turn with many calls is shown: a hundred calls, and as many again with each click.

What is shown is part of a page's address and of its stream's (`shown=TURN.CALLS,...`), so that a
page, its stream and the page when it is loaded again agree. A file, with no server behind it, shows
all. Of a turn, what stands behind the last call that is shown is not shown either.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence

from app.core.session import Call, Part, Turn

CARDS = 100
"""Calls of a turn that are shown at first, and that each click adds."""

MOST_TURNS = 100
"""Turns of which an address may say how much is shown."""

_SHOWN = re.compile(r"([1-9][0-9]{0,8})\.([1-9][0-9]{0,5})", re.ASCII)

Shown = Mapping[int, int]
"""By the number of a turn: how many of its calls are shown, where these are not CARDS."""

Most = Callable[[int], int]
"""How many calls of the turn of that number are shown."""


def everything(number: int) -> int:
    """All calls of a turn are shown."""
    return sys.maxsize


def shown_from(text: str) -> Shown:
    """What an address says is shown; what cannot be read in it says nothing."""
    found = (_SHOWN.fullmatch(part) for part in text.split(",", MOST_TURNS)[:MOST_TURNS])
    return {int(one[1]): int(one[2]) for one in found if one is not None}


def spelled(shown: Shown) -> str:
    """The same as text for an address; "" where nothing differs."""
    return ",".join(f"{turn}.{count}" for turn, count in sorted(shown.items()) if count != CARDS)


def with_more(shown: Shown, number: int) -> Shown:
    """What is shown after a click for more of turn `number`."""
    return {**shown, number: shown.get(number, CARDS) + CARDS}


def end_of(turn: Turn, most: Most) -> int:
    """How many parts of `turn` are shown."""
    count = most(turn.number)
    return len(turn.parts) if len(turn.calls) <= count else turn.calls[count].part.index


def parts_of(turn: Turn, most: Most) -> Sequence[Part]:
    return turn.parts[: end_of(turn, most)]


def calls_of(turn: Turn, most: Most) -> Sequence[Call]:
    return turn.calls[: most(turn.number)]


def query_of(block_id: str) -> str:
    """The query that makes a page show that block, where it might not by itself: `?shown=1.200`."""
    name, _, rest = block_id.partition("-")
    turn, _, index = rest.partition("-")
    if name not in ("call", "part") or not (turn.isdecimal() and index.isdecimal()):
        return ""
    hundreds = int(index) // CARDS
    return f"?shown={spelled({int(turn): CARDS * (hundreds + 1)})}" if hundreds else ""
