"""Searches sessions by their texts, by title, and by properties.

Plain words match as prefixes, all in the same text; a "phrase" matches literally; `tool:` and
similar words filter. No input is an error: ignored input is reported in `notes`.

Each search has its own connection and a time limit, after which it returns what it has, so it
blocks no page and no other search. Newest first; title matches come first.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from playground.store.database import store_error
from playground.store.log import SUMMARY, summary_of_row
from playground.store.schema import TOKENS
from playground.store.writes import Summary, storable

# Parses the user's input --------------------------------------------------------------------------

WORDS = 32
"""Most words and phrases used; the others are ignored, with a note."""

LONGEST = 100
"""Most characters of one word."""

STATES = ("idle", "running", "paused", "waiting", "failed", "interrupted")
MARKS = ("pinned", "archived", "deleted", "fork", "foreign", "agent", "batch")
KEYS = ("tool", "model", "profile", "state", "tag", "is", "after", "before")
_KEYED = re.compile(rf"({'|'.join(KEYS)}):(?:\"([^\"]*)\"?|(\S*))")

LIMIT_S = 0.8
"""Time limit of a search, in seconds."""

FEW = 200
"""Up to so many sessions are searched one by one; with more, all matching texts are scanned."""

LOOKED_UP = 500
"""So many sessions are queried one by one before all permitted ids are read at once."""

KNOWN = 8_000
"""If at most so many sessions have a tool or tag, their ids are read first."""

LOOKED_THROUGH = 50_000
"""So many matching texts are scanned for a few sessions; after that each session is queried by
itself, which costs as much as thousands of texts."""

STEPS = 2_000
"""SQLite steps between two checks of the time limit."""

TEXTS = "('prompt_added', 'part_ended', 'call_decided', 'call_ended')"

_MATCHES = f"""
    SELECT found.rowid, events.session FROM found CROSS JOIN events INDEXED BY texts_in_order
        ON events.pos = found.rowid AND events.kind IN {TEXTS}
    WHERE found MATCH ? AND found.rowid BETWEEN ? AND ? ORDER BY found.rowid DESC
"""  # noqa: S608
_POSITIONS = """
    SELECT rowid FROM found WHERE found MATCH ? AND rowid BETWEEN ? AND ?
    ORDER BY rowid DESC LIMIT ?
"""
_OWNER = "SELECT session FROM events WHERE pos = ?"
_SPAN = """
    SELECT (SELECT pos FROM events WHERE session = ? ORDER BY seq LIMIT 1),
        (SELECT pos FROM events WHERE session = ? ORDER BY seq DESC LIMIT 1)
"""
_ONE = "id = ?"
_ESCAPE = " ESCAPE '\\'"
_TITLES = "sessions INDEXED BY sessions_by_title WHERE deleted_ms IS NULL AND"

_EVENT = """
    SELECT seq, at_ms, kind, length(body), CASE kind
        WHEN 'prompt_added' THEN 'prompt-' || (SELECT count(*) FROM events AS e
            WHERE e.session = events.session AND e.seq <= events.seq AND e.kind = 'prompt_added')
        WHEN 'part_ended' THEN iif(json_extract(body, '$.name') != '', 'call-', 'part-')
            || recording || '-' || json_extract(body, '$.index')
        ELSE 'call-' || replace(json_extract(body, '$.call_id'), '.', '-') END
    FROM events WHERE pos = ?
"""
"""Includes the id of the block that shows it (render/blocks.py)."""

_MARKS = {
    "pinned": "pinned_ms IS NOT NULL",
    "archived": "archived_ms IS NOT NULL",
    "fork": "parent != ''",
    "foreign": "own = 0",
    "agent": "tap != '' AND own",
    "batch": "batch != ''",
}
_NAMES = {"model": "sessions", "profile": "sessions", "tool": "called", "tag": "tags"}

LONG_TEXT = 300_000
"""Bytes of an event above which no excerpt is made: marking it would take too long."""

BEGIN, END = "\x02", "\x03"

_TEXT = "SELECT CAST(text AS BLOB) FROM texts WHERE pos = ?"
_MARKED = """
    SELECT rowid, CAST(snippet(shown, 0, char(2), char(3), '…', 14) AS BLOB) FROM shown
    WHERE shown MATCH ?
"""


@dataclass(frozen=True)
class SearchQuery:
    """`words` are prefixes, `phrases` literal. Of each of the other lists one value must match;
    times are Unix ms, `after_ms` inclusive, `before_ms` exclusive. `notes` are sentences about
    ignored input; `signs` have no letter or digit: only titles are searched for them."""

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
        """Whether it has any filter besides text."""
        lists = (self.tools, self.models, self.profiles, self.states, self.tags, self.marks)
        return any(lists) or self.after_ms is not None or self.before_ms is not None

    @property
    def match(self) -> str:
        """The FTS5 query. Every word is quoted, so that none is an operator. A single letter is no
        prefix: too many words begin with it."""
        starts = (_quote(word) + ("*" if len(word) > 1 else "") for word in self.words)
        return " AND ".join([*starts, *map(_quote, self.phrases)])


@dataclass(frozen=True)
class ExcerptPart:
    """Text of an excerpt; `marked` if it matched."""

    text: str
    marked: bool


@dataclass
class _ParsedQuery:
    """The input parsed so far."""

    words: list[str] = field(default_factory=list)
    phrases: list[str] = field(default_factory=list)
    lists: dict[str, list[str]] = field(default_factory=lambda: {key: [] for key in KEYS})
    times: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    signs: list[str] = field(default_factory=list)


def parse_query(text: str) -> SearchQuery:
    """Parses `text`, which may be anything."""
    read, place = _ParsedQuery(), 0
    text = "".join(" " if ord(letter) < 32 or letter == "\x7f" else letter for letter in text)
    while place < len(text):
        if text[place].isspace():
            place += 1
        elif match := _KEYED.match(text, place):
            _add_keyed(read, match[1], (match[2] or match[3] or "").strip())
            place = match.end()
        elif text[place] == '"':
            end = text.find('"', place + 1)
            end = len(text) if end < 0 else end
            _add_text(read, read.phrases, text[place + 1 : end])
            place = end + 1
        else:
            end = next((n for n in range(place, len(text)) if text[n] in ' "'), len(text))
            _add_text(read, read.words, text[place:end])
            place = max(end, place + 1)
    if len(read.words) + len(read.phrases) > WORDS:
        read.notes.append(f"Only the first {WORDS} words were used.")
        read.phrases = read.phrases[:WORDS]
        read.words = read.words[: WORDS - len(read.phrases)]
    tools, models, profiles, states, tags, marks = (
        tuple(read.lists[key]) for key in ("tool", "model", "profile", "state", "tag", "is")
    )
    return SearchQuery(
        tuple(read.words),
        phrases=tuple(read.phrases),
        tools=tools,
        models=models,
        profiles=profiles,
        states=states,
        tags=tags,
        marks=marks,
        after_ms=read.times.get("after"),
        before_ms=read.times.get("before"),
        notes=tuple(read.notes),
        signs=tuple(read.signs[:WORDS]),
    )


def _add_text(read: _ParsedQuery, some: list[str], text: str) -> None:
    """Adds `text` to `some`, or to the signs."""
    text_kept = text[:LONGEST].encode("utf-8", "replace").decode()
    if any(map(str.isalnum, text_kept)):
        some.append(text_kept)
    elif text_kept.strip():
        read.signs.append(text_kept)


def _add_keyed(read: _ParsedQuery, key: str, value: str) -> None:
    value = value[:LONGEST].encode("utf-8", "replace").decode()
    choices = {"state": STATES, "is": MARKS}.get(key)
    if not value:
        read.notes.append(f"{key}: needs a value right after it.")
    elif key in ("after", "before"):
        at_ms = _day_ms(value)
        if at_ms is None:
            read.notes.append(f"{key}: expects a date such as 2026-01-31; it was left out.")
        else:
            read.times[key] = at_ms
    elif choices is not None and value.lower() not in choices:
        read.notes.append(f"{key}: expects {', '.join(choices)}; it was left out.")
    else:
        read.lists[key].append(value.lower() if choices is not None else value)


def _day_ms(text: str) -> int | None:
    """The beginning of a day, month or year (2026, 2026-01, 2026-01-31), in UTC."""
    for form in ("%Y-%m-%d", "%Y-%m", "%Y"):
        try:
            return int(datetime.strptime(text, form).replace(tzinfo=UTC).timestamp() * 1000)
        except ValueError:
            continue
    return None


def _quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


# Search -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SearchHit:
    """A matching session: by the event `seq` of that `kind`, or, if 0, by title or properties.
    `at_ms` is its time, Unix ms; `place` the id of the block that shows it."""

    session: Summary
    seq: int = 0
    at_ms: int = 0
    kind: str = ""
    place: str = ""
    excerpt: Sequence[ExcerptPart] = ()


@dataclass(frozen=True)
class SearchResult:
    """`more`: there are more hits; `cut`: the time limit ended the search early."""

    hits: Sequence[SearchHit] = ()
    more: bool = False
    cut: bool = False


async def search(
    path: Path, wanted: SearchQuery, limit: int, limit_s: float = LIMIT_S
) -> SearchResult:
    """Up to `limit` sessions of the database at `path`, read-only. StoreError if it cannot be
    read."""
    try:
        return await asyncio.to_thread(search_in_thread, path, wanted, limit, limit_s)
    except sqlite3.Error as error:
        raise store_error(error, path) from error


def search_in_thread(
    path: Path, wanted: SearchQuery, limit: int, limit_s: float = LIMIT_S
) -> SearchResult:
    """The same, in the calling thread."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    ends = time.monotonic() + limit_s
    with closing(sqlite3.connect(uri, uri=True, timeout=limit_s)) as connection:
        connection.set_progress_handler(lambda: time.monotonic() > ends, STEPS)
        running = _Search(connection, wanted, limit, ends)
        try:
            if wanted.has_text:
                running.texts()
            else:
                running.sessions()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            running.cut = True
        connection.set_progress_handler(None, 0)  # excerpts check the time themselves
        return running.result()


@dataclass
class _Search:
    """A running search: the hits so far, each session once."""

    connection: sqlite3.Connection
    wanted: SearchQuery
    limit: int
    ends: float
    hits: dict[str, SearchHit] = field(default_factory=dict)
    cut: bool = False
    narrow: dict[bool, tuple[str, Sequence[object]]] = field(default_factory=dict)
    allowed: frozenset[str] | None = None
    refused: int = 0
    having: frozenset[str] | None = None
    places: dict[str, int] = field(default_factory=dict)

    @property
    def full(self) -> bool:
        return len(self.hits) > self.limit

    def result(self) -> SearchResult:
        """The hits, with excerpts of those returned; `places` has the positions of their texts."""
        hits = list(self.hits.values())[: self.limit]
        shown = [self.places[hit.session.id] for hit in hits if hit.session.id in self.places]
        marked = excerpts(self.connection, self.wanted.match, shown, self.ends) if shown else {}
        some = [
            replace(hit, excerpt=marked.get(self.places.get(hit.session.id, 0), ())) for hit in hits
        ]
        return SearchResult(some, len(self.hits) > self.limit, self.cut)

    @property
    def plus(self) -> str:
        """Pinned sessions and forks are few: the "+" makes SQLite filter first and sort after."""
        return "+" if {"pinned", "fork", "deleted"} & set(self.wanted.marks) else ""

    def rows(self, where: str, values: Sequence[object], limit: int) -> Iterator[Summary]:
        """The sessions that satisfy `where` and all filters except the text."""
        # For one session, tests whether it has the tools and tags, not which sessions have them.
        each = where == _ONE
        if each not in self.narrow:
            self.narrow[each] = self.filter_sql(0 if each else 2_000)
        narrowed, more = self.narrow[each]
        sql = (
            f"SELECT {SUMMARY} FROM sessions WHERE {where}{narrowed}"  # noqa: S608
            f" ORDER BY {self.plus}updated_ms DESC, id LIMIT ?"
        )
        return map(summary_of_row, self.connection.execute(sql, (*values, *more, limit)))

    def wanted_session(self, session: str) -> Summary | None:
        """The session if it passes the filters. Queried one by one, until so many failed that it is
        faster to read all permitted ids."""
        for some in (self.having, self.allowed):
            if some is not None and session not in some:
                return None
        session_row = next(self.rows(_ONE, (session,), 1), None)
        self.refused += session_row is None
        if self.refused > LOOKED_UP and self.allowed is None:
            narrowed, values = self.filter_sql(20_000)
            ids = f"SELECT id FROM sessions WHERE 1{narrowed}"  # noqa: S608
            self.allowed = frozenset(row[0] for row in self.connection.execute(ids, values))
        return session_row

    def sessions(self) -> None:
        for row in self.rows("1", (), self.limit + 1):
            self.hits[row.id] = SearchHit(row, at_ms=row.updated_ms)

    def texts(self) -> None:
        """If few sessions are permitted, searches them one by one, newest first; else scans
        matching texts, newest first, until enough are permitted. Titles first."""
        if (few := self._few_sessions()) is not None:
            parts = [part.lower() for part in self.in_title]
            for summary in few:
                if all(part in summary.title.lower() for part in parts):
                    self.hits[summary.id] = SearchHit(summary, at_ms=summary.updated_ms)
            self._search_few(few)
            return
        self.having = self._sessions_having()
        self._titles()
        if not self.wanted.match:
            return
        match = (self.wanted.match, 0, 2**62)
        for position, session in self.connection.execute(_MATCHES, match):
            if self.full:
                return
            if (
                session not in self.hits
                and (session_found := self.wanted_session(session)) is not None
            ):
                self._keep(session_found, position)

    def _few_sessions(self) -> list[Summary] | None:
        """All permitted sessions, newest first; None if there are more than FEW."""
        if not self.wanted.narrows:
            return None
        narrowed, values = self.filter_sql(2_000)
        sql = f"SELECT count(*) FROM (SELECT 1 FROM sessions WHERE 1{narrowed} LIMIT ?)"  # noqa: S608
        (number,) = self.connection.execute(sql, (*values, FEW + 1)).fetchone()
        return None if number > FEW else list(self.rows("1", (), FEW + 1))

    def _sessions_having(self) -> frozenset[str] | None:
        """The sessions with a wanted tool or tag, if not too many: then no others are queried."""
        wanted = self.wanted
        for table, column, some in (("tags", "tag", wanted.tags), ("called", "tool", wanted.tools)):
            one_of = f"{column} IN ({', '.join('?' * len(some))})"
            sql = f"SELECT session FROM {table} WHERE {one_of} LIMIT ?"  # noqa: S608
            if some:
                rows = self.connection.execute(sql, (*some, KNOWN + 1)).fetchall()
                if len(rows) <= KNOWN:
                    return frozenset(row[0] for row in rows)
        return None

    @property
    def in_title(self) -> list[str]:
        """Texts that a title must contain; the longest first, because most titles lack it."""
        wanted = self.wanted
        return sorted((*wanted.words, *wanted.phrases, *wanted.signs), key=len, reverse=True)

    def _titles(self) -> None:
        wanted = self.wanted
        values: list[object] = [_like_pattern(part) for part in self.in_title]
        # ESCAPE costs 25 % more over all titles.
        escaped = ("\\" in str(value) for value in values)
        conditions = ["title LIKE ?" + (_ESCAPE if is_escaped else "") for is_escaped in escaped]
        for bound, at_ms in ((">=", wanted.after_ms), ("<", wanted.before_ms)):
            if at_ms is not None:
                conditions.append(f"updated_ms {bound} ?")
                values.append(at_ms)
        likes = " AND ".join(conditions)
        # An index contains the titles: a few megabytes instead of the whole table.
        source = "sessions WHERE" if "deleted" in self.wanted.marks else _TITLES
        sql = f"SELECT id FROM {source} {likes} ORDER BY updated_ms DESC, id"  # noqa: S608
        for (session,) in self.connection.execute(sql, values):
            if (summary := self.wanted_session(session)) is not None:
                self.hits[summary.id] = SearchHit(summary, at_ms=summary.updated_ms)
            if self.full:
                return

    def _search_few(self, few: Sequence[Summary]) -> None:
        """The newest matching text of each of `few`: scans all matching texts once; if there are
        too many, queries the remaining sessions one by one."""
        left = [summary for summary in few if summary.id not in self.hits]
        if not left or not self.wanted.match:
            return
        spans = {
            summary.id: self.connection.execute(_SPAN, (summary.id, summary.id)).fetchone()
            for summary in left
        }
        spans = {id_: span for id_, span in spans.items() if span[0] is not None}
        if not spans:
            return
        low, high = min(span[0] for span in spans.values()), max(span[1] for span in spans.values())
        values = (self.wanted.match, low, high, LOOKED_THROUGH)
        positions = [row[0] for row in self.connection.execute(_POSITIONS, values)]
        first = dict[str, int]()
        for position in _positions_inside(positions, list(spans.values())):
            (owner,) = self.connection.execute(_OWNER, (position,)).fetchone()
            first.setdefault(owner, position)
        reached = positions[-1] if len(positions) == LOOKED_THROUGH else 0
        for summary in left:
            if self.full:
                return
            id_ = summary.id
            if id_ not in first and id_ in spans and spans[id_][0] < reached:
                self._search_one(summary, spans[id_])
            elif id_ in first:
                self._keep(summary, first[id_])

    def _search_one(self, summary: Summary, span: tuple[int, int]) -> None:
        for position, owner in self.connection.execute(_MATCHES, (self.wanted.match, *span)):
            if owner == summary.id:
                self._keep(summary, position)
                return

    def _keep(self, summary: Summary, position: int) -> None:
        row = self.connection.execute(_EVENT, (position,)).fetchone()
        seq, at_ms, kind, size, place = row
        if size <= LONG_TEXT:
            self.places[summary.id] = position
        self.hits[summary.id] = SearchHit(summary, seq, at_ms, kind, place)

    def filter_sql(self, few: int) -> tuple[str, list[object]]:
        """The filters, except the text, as conditions on the table sessions. Tools and tags that at
        most `few` sessions have are looked up first, others tested for each session."""
        wanted, marks = self.wanted, self.wanted.marks
        values: list[object] = []
        sql = ["deleted_ms IS NOT NULL" if "deleted" in marks else "deleted_ms IS NULL"]
        sql += [_MARKS[mark] for mark in marks if mark in _MARKS]
        for column, some in (("state", wanted.states), ("profile", wanted.profiles)):
            if some:
                sql.append(f"{column} IN ({', '.join('?' * len(some))})")
                values += some
        if wanted.models:
            models = [
                name
                for name in names(self.connection, "model")
                if any(part.lower() in name.lower() for part in wanted.models)
            ]
            sql.append(f"model IN ({', '.join('?' * len(models))})")
            values += models
        for table, column, some in (("called", "tool", wanted.tools), ("tags", "tag", wanted.tags)):
            if some:
                sql.append(self._membership_sql(table, column, some, few))
                values += some
        for bound, at_ms in ((">=", wanted.after_ms), ("<", wanted.before_ms)):
            if at_ms is not None:
                sql.append(f"updated_ms {bound} ?")
                values.append(at_ms)
        return "".join(f" AND {condition}" for condition in sql), values

    def _membership_sql(self, table: str, column: str, some: Sequence[str], few: int) -> str:
        """The condition that a session has one of `some`."""
        one_of = f"{column} IN ({', '.join('?' * len(some))})"
        number = f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {one_of} LIMIT ?)"  # noqa: S608
        if few and self.connection.execute(number, (*some, few + 1)).fetchone()[0] <= few:
            return f"id IN (SELECT session FROM {table} WHERE {one_of})"  # noqa: S608
        return f"EXISTS (SELECT 1 FROM {table} WHERE session = sessions.id AND {one_of})"  # noqa: S608


def names(connection: sqlite3.Connection, column: str, most: int = 200) -> list[str]:
    """The distinct values of `column` ("model", "profile", "tool" or "tag"), in order: one index
    step per value, not per row."""
    table, names, last = _NAMES[column], list[str](), ""
    after = f"SELECT min({column}) FROM {table} WHERE {column} > ?"  # noqa: S608
    while len(names) < most:
        (value,) = connection.execute(after, (last,)).fetchone()
        if value is None:
            break
        names.append(last := value)
    return names


def _positions_inside(positions: Sequence[int], spans: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Those of `positions` inside one of `spans` (first and last position); spans of sessions that
    ran at the same time overlap."""
    lows, highs = list[int](), list[int]()
    for low, high in sorted(spans):
        if highs and low <= highs[-1]:
            highs[-1] = max(highs[-1], high)
        else:
            lows.append(low)
            highs.append(high)
    for position in positions:
        place = bisect_right(lows, position) - 1
        if place >= 0 and position <= highs[place]:
            yield position


def _like_pattern(text: str) -> str:
    text = storable(text).replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{text}%"


def choices(path: Path) -> dict[str, list[str]]:
    """The possible filters: the values of "model", "profile", "tool" and "tag"."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        return {column: names(connection, column) for column in _NAMES}


# Excerpts ---------------------------------------------------------------------------------------


def excerpts(
    connection: sqlite3.Connection, match: str, positions: Sequence[int], ends: float
) -> Mapping[int, Sequence[ExcerptPart]]:
    """Excerpts by position, for those of `positions` that could be marked until `ends` (monotonic).
    Marked by one query in a small index in memory: in the large one each hit would look up all
    matching texts again."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as small:
        small.execute(f"CREATE VIRTUAL TABLE shown USING fts5 (text, {TOKENS})")
        small.execute("BEGIN")
        for position in positions:
            if time.monotonic() > ends:
                break
            row = connection.execute(_TEXT, (position,)).fetchone()
            if row is not None and row[0] is not None:
                small.execute(
                    "INSERT INTO shown (rowid, text) VALUES (?, CAST(? AS TEXT))", (position, *row)
                )
        marked = small.execute(_MARKED, (match,)).fetchall()
    return {position: excerpt_parts(bytes(text)) for position, text in marked}


def excerpt_parts(marked: bytes) -> list[ExcerptPart]:
    """Splits an excerpt in which BEGIN and END surround matches; invalid UTF-8 (lone surrogates)
    becomes U+FFFD."""
    parts: list[ExcerptPart] = []
    for number, part in enumerate(marked.decode("utf-8", "replace").split(BEGIN)):
        inner, end, rest = part.partition(END)
        inside = bool(number and end)
        parts += [ExcerptPart(inner if inside else part.replace(END, ""), inside)]
        parts += [ExcerptPart(rest.replace(END, ""), False)] if inside else []
    return [piece for piece in parts if piece.text]
