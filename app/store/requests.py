"""Requests as they are stored: a large one has lists of slices in the place of what is large in it.

Which numbers its slices have is known when it is written, in the transaction that writes it.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.core.events import Event, Logged, RequestSent
from app.store.database import Statement
from app.store.slices import SMALL, CutBody, Runs, cut, encoded, runs_of

NEVER: tuple[int | None, int] = (None, -1)


@dataclass
class KnownSlices:
    """What is known of the slices of a session, so that its next request costs what is new in it.
    `stamp` says of which moment: the position of the session's first event and the number of its
    last slice, which no other moment of one program has, whatever failed or was purged since."""

    numbers: dict[bytes, int] = field(default_factory=dict)
    stamp: tuple[int | None, int] = NEVER
    cut: CutBody | None = None


class SliceMemory:
    """Of the sessions that sent something last, the slices that are known; used in the writer's
    thread alone."""

    def __init__(self) -> None:
        self._known: dict[str, KnownSlices] = {}

    def of(self, session: str) -> KnownSlices:
        known = self._known.pop(session, None) or KnownSlices()
        self._known[session] = known
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]
        return known


REMEMBERED = 8
"""Sessions whose slices are kept in memory."""

LARGEST = 2 * 1024 * 1024
"""Characters of a body that is kept with them."""


class RequestSlices:
    """The rows of `slices` that the requests among `events` bring, and the list of each. All of it
    is made when it is written, in the writer's thread, and made again where that is tried again:
    first comes what is stored of the session, then the rows, then it is asked for the lists."""

    def __init__(self, session: str, events: Sequence[Logged], memory: SliceMemory) -> None:
        self._session, self._memory = session, memory
        self._requests = [
            (logged.seq, logged.event)
            for logged in events
            if isinstance(logged.event, RequestSent) and is_sliced(logged.event)
        ]
        self._known = KnownSlices()
        self._unread: list[tuple[str]] = []
        self._lists: dict[int, Sequence[Runs]] = {}

    def statements(self) -> list[Statement]:
        if not self._requests:
            return []
        known = "SELECT hash, nth FROM slices WHERE session = ?"
        new = "INSERT INTO slices (session, nth, seq, hash, bytes) VALUES (?, ?, ?, ?, ?)"
        return [
            Statement(_STAMP, [(self._session,)], self._recall),
            Statement(known, self._unread, self._know),
            Statement(new, self),
        ]

    def _recall(self, rows: list[Any]) -> None:
        self._known, stamp = self._memory.of(self._session), (rows[0][0], rows[0][1])
        if self._known.stamp != stamp:
            self._known.numbers, self._known.stamp = {}, stamp
        self._unread[:] = [(self._session,)] if len(self._known.numbers) < stamp[1] else []

    def _know(self, rows: list[Any]) -> None:
        self._known.numbers = {row[0]: row[1] for row in rows}

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        known = self._known
        position, last = known.stamp
        known.stamp = NEVER  # until all rows are made: the numbers of some may never be written
        for seq, request in self._requests:
            body, headers = cut(request.body, known.cut), cut(json.dumps(dict(request.headers)))
            known.cut = body if len(body.body) <= LARGEST else None
            for pieces in (headers, body):
                for digest, piece in zip(pieces.hashes, pieces.slices(), strict=True):
                    if digest not in known.numbers:
                        last = known.numbers[digest] = last + 1
                        yield self._session, last, seq, digest, encoded(piece)
            self._lists[seq] = [
                runs_of(known.numbers[digest] for digest in each.hashes) for each in (body, headers)
            ]
        known.stamp = position, last

    def stored(self, logged: Logged) -> Event | None:
        """The event as it is stored where it is in slices: with their lists in the place of what
        consists of them."""
        event = logged.event
        if logged.seq not in self._lists or not isinstance(event, RequestSent):
            return None
        body: Any
        headers: Any
        body, headers = self._lists[logged.seq]
        return replace(event, body=body, headers=headers)


_STAMP = """
    SELECT (SELECT pos FROM events WHERE session = ?1 ORDER BY seq LIMIT 1),
        (SELECT coalesce(max(nth), 0) FROM slices WHERE session = ?1)
"""


def is_sliced(event: Event) -> bool:
    """Whether its text is stored in slices, and its headers with it: that of a request, but for a
    short one; and one with half a character, two of which JSON makes one."""
    if not isinstance(event, RequestSent):
        return False
    return len(event.body) >= SMALL or _has_halves(event.body)


def _has_halves(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def slices_of(event: Event) -> tuple[Runs, Runs] | None:
    """The lists of slices that stand in the place of a request's body and of its headers, which are
    JSON; None where these stand there, as in rows from before schema 11. ValueError or TypeError
    where they are no such lists."""
    body: Any = event.body if isinstance(event, RequestSent) else ""
    headers: Any = event.headers if isinstance(event, RequestSent) else ()
    if not isinstance(body, list):
        return None
    return _checked(body), _checked(headers if isinstance(headers, list) else ())


def _checked(data: Iterable[Any]) -> Runs:
    return [(operator.index(first), operator.index(count)) for first, count in data]


def with_slices(event: Event, body: str, headers: str) -> Event:
    """The request with what was in slices; "" for headers that stand in its row. ValueError or
    TypeError where its headers are none."""
    assert isinstance(event, RequestSent)
    own = event.headers if not headers else dict(json.loads(headers))
    return replace(event, body=body, headers=own)
