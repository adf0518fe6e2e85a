"""What a request changed against the one before it, in words: blocks, tools, tokens, the cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment

from app.core.events import Usage
from app.core.limits import cache_missed, turn_usage, written
from app.core.session import Turn
from app.core.value_diff import JsonChange, TextPiece
from app.protocols.request import FirstDifference, RequestBlock, RequestChanges
from app.render.filters import duration, number, plural
from app.render.text_pieces import in_sight

MOST_SETTINGS = 20
"""Other members that are shown."""

MOST_NAMES = 40
"""Tools, and marked blocks, that are named in one line."""

_HOW = {
    "changed": "was changed",
    "added": "came",
    "removed": "went",
    "moved": "stands in another place",
}

UNREAD = "One of the two bodies cannot be read, so they are not compared."


@dataclass(frozen=True)
class OtherSettings:
    """What differs beside tools, system prompt and messages; `more` are not shown."""

    changes: Sequence[JsonChange]
    more: int


@dataclass(frozen=True)
class ShownChanges:
    """Turn `now` beside the turn `before` it; `changes` is None where they cannot be compared."""

    session_id: str
    before: Turn
    now: Turn
    changes: RequestChanges | None

    @property
    def lead(self) -> str:
        """What a reader wants to know first."""
        changes = self.changes
        if changes is None:
            return UNREAD
        before, now = changes.messages
        if (first := changes.first) is not None:
            return f"The first difference: {_naming(first)} {_HOW[first.how]}."
        if now > before:
            return f"What request {self.before.number} said stands; {_added(now - before)}."
        return f"It says what request {self.before.number} said."

    @property
    def pieces(self) -> Sequence[TextPiece]:
        first = self.changes.first if self.changes is not None else None
        return in_sight(first.pieces) if first is not None else ()

    @property
    def lines(self) -> Sequence[tuple[str, str]]:
        """(what, words) of what came, went and was changed."""
        changes = self.changes
        if changes is None:
            return ()
        before, now = changes.messages
        counts = (
            plural(now, "message")
            if before == now
            else f"{number(before)} messages became {number(now)}"
        )
        standing = (
            "all as before"
            if changes.same == before == now
            else f"the first {number(changes.same)}"
        )
        if changes.same != now or before != now:
            standing = f"{standing} as before" if changes.same else "none as before"
        marks = [_names(each) for each in changes.marks]
        lines = [
            ("Messages", f"{counts}, {standing}"),
            ("Tools that came", _names(changes.came)),
            ("Tools that went", _names(changes.went)),
            ("Tools that changed", _names(changes.altered)),
            ("Marked for the cache", marks[1] or ("nothing" if marks[0] else "")),
            ("Marked before", marks[0] if marks[0] != marks[1] else ""),
        ]
        return [line for line in lines if line[1]]

    @property
    def settings(self) -> OtherSettings | None:
        listed = self.changes.settings if self.changes is not None else ()
        if not listed:
            return None
        return OtherSettings(listed[:MOST_SETTINGS], max(0, len(listed) - MOST_SETTINGS))

    @property
    def tokens(self) -> Sequence[tuple[str, str, str, str]]:
        """(what, of the request before, of this one, the difference), as the provider counted."""
        was, now = _counters(self.before), _counters(self.now)
        rows = [(name, was[name], now[name]) for name in was]
        return [
            (name, _count(old), _count(new), _more(old, new))
            for name, old, new in rows
            if (old, new) != (None, None)
        ]

    @property
    def cache(self) -> str:
        """Why the cache was missed, as far as the two requests say; "" where it was not."""
        if not cache_missed(self.before, self.now):
            return ""
        first = self.changes.first if self.changes is not None else None
        if first is not None:
            return f"The cache was missed: what it had ends before {_naming(first)}."
        if self.changes is not None and self.changes.settings:
            return "The cache was missed: no block of it changed, but what else is set did."
        waited = duration(max(0, self.now.sent_ms - (self.before.closed_ms or self.before.sent_ms)))
        return (
            "The cache was missed although nothing before its end changed: the provider did not "
            f"keep it, or not so long ({waited} after the answer before)."
        )

    def data(self) -> Mapping[str, Any]:
        """See docs/contract.md."""
        about: dict[str, Any] = {
            "request": self.now.number,
            "against": self.before.number,
            "missed": cache_missed(self.before, self.now),
            "tokens": {"before": _counters(self.before), "now": _counters(self.now)},
        }
        changes = self.changes
        if changes is None:
            return {**about, "failed": UNREAD}
        first = changes.first
        return {
            **about,
            "failed": None,
            "first": None if first is None else _first_data(first),
            "tools": {
                "came": list(changes.came),
                "went": list(changes.went),
                "changed": list(changes.altered),
            },
            "messages": {
                "before": changes.messages[0],
                "now": changes.messages[1],
                "same": changes.same,
            },
            "marks": {"before": list(changes.marks[0]), "now": list(changes.marks[1])},
            "settings": [
                {"pointer": change.pointer, "old": change.old, "new": change.new}
                for change in changes.settings
            ],
        }


def changes_fragment(env: Environment, shown: ShownChanges) -> str:
    """For below the wire's rows."""
    return env.get_template("_request_changes.html").render(shown=shown)


def _first_data(first: FirstDifference) -> Mapping[str, Any]:
    block = first.block
    pieces = [{"how": piece.how, "text": piece.text} for piece in in_sight(first.pieces)]
    about = {"kind": block.kind, "number": block.number, "name": block.name}
    return {**about, "how": first.how, "pieces": pieces}


def _naming(first: FirstDifference) -> str:
    block: RequestBlock = first.block
    return "the system prompt" if block.label == "system 1" else block.label


def _added(count: int) -> str:
    return f"{plural(count, 'message')} {'was' if count == 1 else 'were'} added"


def _names(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {number(more)} more" if more > 0 else "")


def _counters(turn: Turn) -> Mapping[str, int | None]:
    closed = turn.end or turn.failure
    usage = closed.usage if closed is not None else Usage()
    counted = turn_usage(turn) if turn.end is not None else None
    return {
        "read": counted[0] if counted is not None else usage.input_tokens,
        "cached": usage.cached_tokens,
        "cache_written": usage.cache_write_tokens,
        "written": written(turn.request.protocol, usage),
        "bytes": len(turn.request.body.encode("utf-8", "replace")),
    }


def _count(count: int | None) -> str:
    return "?" if count is None else number(count)


def _more(old: int | None, new: int | None) -> str:
    if old is None or new is None or old == new:
        return ""
    return f"{'+' if new > old else '−'}{number(abs(new - old))}"
