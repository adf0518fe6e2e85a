"""What a person wrote into the search box, as a value. Knows no rows: `search` looks for it.

Plain words are looked for as beginnings, all of them in one text; a "phrase" as it stands; `tool:`
and its like narrow. Nothing that can be typed is an error: what has no sense is said in `notes`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime

WORDS = 32
"""How many words and phrases are looked for; more are left out, and that is said."""

LONGEST = 100
"""Characters of one word."""

STATES = ("idle", "running", "paused", "waiting", "failed", "interrupted")
MARKS = ("pinned", "archived", "deleted", "fork", "foreign")
KEYS = ("tool", "model", "profile", "state", "tag", "is", "after", "before")
_KEYED = re.compile(rf"({'|'.join(KEYS)}):(?:\"([^\"]*)\"?|(\S*))")


@dataclass(frozen=True)
class Wanted:
    """`words` are beginnings, `phrases` whole. Of each of the other lists, one must fit; times are
    Unix ms, `after_ms` inclusive, `before_ms` exclusive. `notes` are sentences about what was left
    out; `signs` have no letter or digit: only titles are searched for them."""

    words: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    after_ms: int | None = None
    before_ms: int | None = None
    notes: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()

    @property
    def has_text(self) -> bool:
        return bool(self.words or self.phrases or self.signs)

    @property
    def narrows(self) -> bool:
        """Whether anything but text is asked for."""
        lists = (self.tools, self.models, self.profiles, self.states, self.tags, self.marks)
        return any(lists) or self.after_ms is not None or self.before_ms is not None

    @property
    def match(self) -> str:
        """The text as FTS5 wants it. Every word is quoted, so that none is an operator. One letter
        is no beginning: too much begins with it."""
        starts = (_quoted(word) + ("*" if len(word) > 1 else "") for word in self.words)
        return " AND ".join([*starts, *map(_quoted, self.phrases)])


@dataclass(frozen=True)
class Piece:
    """Text of an excerpt; `marked` where it is what was looked for."""

    text: str
    marked: bool


@dataclass
class _Read:
    """What was read so far."""

    words: list[str] = field(default_factory=list)
    phrases: list[str] = field(default_factory=list)
    lists: dict[str, list[str]] = field(default_factory=lambda: {key: [] for key in KEYS})
    times: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    signs: list[str] = field(default_factory=list)


def wanted(text: str) -> Wanted:
    """`text` as it was typed, whatever it is."""
    read, place = _Read(), 0
    text = "".join(" " if ord(one) < 32 or one == "\x7f" else one for one in text)
    while place < len(text):
        if text[place].isspace():
            place += 1
        elif found := _KEYED.match(text, place):
            _take(read, found[1], (found[2] or found[3] or "").strip())
            place = found.end()
        elif text[place] == '"':
            end = text.find('"', place + 1)
            end = len(text) if end < 0 else end
            _keep(read, read.phrases, text[place + 1 : end])
            place = end + 1
        else:
            end = next((n for n in range(place, len(text)) if text[n] in ' "'), len(text))
            _keep(read, read.words, text[place:end])
            place = max(end, place + 1)
    if len(read.words) + len(read.phrases) > WORDS:
        read.notes.append(f"Only the first {WORDS} words were looked for.")
        read.phrases = read.phrases[:WORDS]
        read.words = read.words[: WORDS - len(read.phrases)]
    tools, models, profiles, states, tags, marks = (
        tuple(read.lists[key]) for key in ("tool", "model", "profile", "state", "tag", "is")
    )
    return Wanted(
        tuple(read.words),
        tuple(read.phrases),
        tools,
        models,
        profiles,
        states,
        tags,
        marks,
        read.times.get("after"),
        read.times.get("before"),
        tuple(read.notes),
        tuple(read.signs[:WORDS]),
    )


def _keep(read: _Read, some: list[str], text: str) -> None:
    """`text` among `some`, or with the signs."""
    kept = text[:LONGEST].encode("utf-8", "replace").decode()
    if any(one.isalnum() for one in kept):
        some.append(kept)
    elif kept.strip():
        read.signs.append(kept)


def _take(read: _Read, key: str, value: str) -> None:
    value = value[:LONGEST].encode("utf-8", "replace").decode()
    choices = {"state": STATES, "is": MARKS}.get(key)
    if not value:
        read.notes.append(f"{key}: needs a value right after it.")
    elif key in ("after", "before"):
        at_ms = _day_ms(value)
        if at_ms is None:
            read.notes.append(f"{key}: takes a date such as 2026-01-31; it was left out.")
        else:
            read.times[key] = at_ms
    elif choices is not None and value.lower() not in choices:
        read.notes.append(f"{key}: takes {', '.join(choices)}; it was left out.")
    else:
        read.lists[key].append(value.lower() if choices is not None else value)


def _day_ms(text: str) -> int | None:
    """The beginning of a day, month or year (2026, 2026-01, 2026-01-31), UTC as all times here."""
    for form in ("%Y-%m-%d", "%Y-%m", "%Y"):
        try:
            return int(datetime.strptime(text, form).replace(tzinfo=UTC).timestamp() * 1000)
        except ValueError:
            continue
    return None


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
