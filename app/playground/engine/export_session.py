"""Exports a session: reads all of it, redacts it again, and writes it in the requested format."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from playground import __version__, config
from playground.core.errors import NotFound
from playground.core.events import Logged
from playground.core.reducer import fold
from playground.core.session import Session
from playground.exchange.bundle import (
    DEFAULT_BASE,
    PageAssets,
    RecordedChunk,
    Recording,
    SessionBundle,
)
from playground.exchange.session_redaction import (
    RedactedBundle,
    omit,
    redact_session,
    secret_values,
)
from playground.render.environment import environment, join_styles
from playground.secrets.names import may_name_secret
from playground.secrets.redaction import SHORTEST
from playground.store.batches import case_of_session
from playground.store.log import Log
from playground.store.writes import ClosedRecording

if TYPE_CHECKING:
    from playground.engine.engine import Engine  # `playground export` needs no engine


WITH_BESIDE = ("html",)
"""Formats that can include the sessions below this one (further ones of its agent)."""

_PLAIN = re.compile("[A-Za-z]+|[0-9]+")
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.:/_\[\]-]*")

STYLES = ("base", "frame", "flow", "bar", "wire")


async def read_bundle(
    engine: Engine, session_id: str, base_url: str = DEFAULT_BASE, form: str = ""
) -> SessionBundle:
    """Reads everything stored of a session. NotFound if it does not exist. `base_url` is this
    server's address, `form` the export format."""
    async with engine.sessions.lock_session(session_id):
        return await read_bundle_from(engine.log, session_id, base_url, form)


async def read_bundle_from(
    log: Log, session_id: str, base_url: str = DEFAULT_BASE, form: str = ""
) -> SessionBundle:
    """Same, from the database alone; `base_url` is the server's address. Safe while the session is
    written: reads the ends of recordings before their bytes, and those before the events."""
    summary = await log.summary(session_id)
    if summary is None:
        raise NotFound(f"There is no session {session_id[:80]!r}.")
    closed, chunks = await log.recordings(session_id), await log.chunks(session_id)
    events, tags = await log.events(session_id), await log.tags(session_id)
    session = fold(session_id, events)
    by_number: dict[int, list[RecordedChunk]] = {number: [] for number in closed}
    for chunk in chunks:
        by_number.setdefault(chunk.recording, []).append(RecordedChunk(chunk.at_ms, chunk.data))
    recordings = {}
    for number in sorted(by_number):
        end = closed.get(number) or ClosedRecording(number, False)
        recordings[number] = Recording(
            number, by_number[number], end.clean, tuple(end.masked), end.sha256
        )
    expect = await _case_expectations(log, session_id) if summary.batch else ()
    title, parent, created_ms = summary.title, summary.parent, summary.created_ms
    beside = await log.sessions_below(session_id) if form in WITH_BESIDE and session.tapped else ()
    return SessionBundle(
        session,
        title=title,
        log=events,
        recordings=recordings,
        tags=tuple(tags),
        parent=parent,
        created_ms=created_ms,
        look=page_assets(),
        base_url=base_url,
        beside=[await read_bundle_from(log, each, base_url) for each in beside],
        expect=expect,
    )


async def _case_expectations(log: Log, session_id: str) -> Sequence[Mapping[str, Any]]:
    """The expectation of the batch for the case that `session_id` is a run of."""
    asked = await case_of_session(log.database, session_id)
    if asked is None:
        return ()
    cases = json.loads(asked[0])["spec"]["cases"]
    return next((case["expect"] for case in cases if case["id"] == asked[1]), ())


def redact_bundle(
    whole: SessionBundle,
    secrets: Collection[str],
    private: Mapping[str, str],
    left_out: Collection[str],
) -> RedactedBundle:
    """Removes the parts `left_out` from `whole` and redacts `secrets`, the values of the variables
    `private`, and everything that looks like a secret. Takes seconds for a large session."""
    everything = [whole, *whole.beside]
    hidden = {
        value
        for name, value in private.items()
        if any(is_private(name, value, each.session) for each in everything)
    }
    names = frozenset(left_out)
    # A value that is a secret by its position in one session is a secret in all of them.
    shapes = [secret_values(each) for each in everything] if whole.beside else []
    known = frozenset({*secrets, *hidden}.union(*shapes))
    seq = whole.session.seq
    asked = _RedactionRequest(
        whole.session.id,
        seq=seq,
        left_out=names,
        known=known,
        whole=whole,
        log=whole.log,
        recordings=whole.recordings,
    )
    done = _redact_cached(asked)
    others = [redact_session(each, known) for each in omit(whole, names).beside]
    bundle = replace(
        done.bundle,
        look=whole.look,
        base_url=whole.base_url,
        beside=[each.bundle for each in others],
    )
    marks = [
        replace(mark, where=f"{other.bundle.title or 'a side session'}: {mark.where}")
        for other in others
        for mark in other.marks
    ]
    return replace(done, bundle=bundle, marks=(*done.marks, *marks))


@dataclass(frozen=True)
class _RedactionRequest:
    """The parameters of a redaction. Two are equal if they yield the same export."""

    session_id: str
    seq: int
    left_out: frozenset[str]
    known: frozenset[str] = field(repr=False)
    whole: SessionBundle = field(compare=False, repr=False)
    log: Sequence[Logged] = field(hash=False, repr=False)
    recordings: Mapping[int, Recording] = field(hash=False, repr=False)
    about: tuple[object, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        whole = self.whole
        about = (whole.title, tuple(whole.tags), whole.parent, whole.created_ms)
        object.__setattr__(self, "about", about)


@lru_cache(maxsize=1)
def _redact_cached(asked: _RedactionRequest) -> RedactedBundle:
    """Caches the last result: a page is usually viewed in one format, then another, then saved."""
    return redact_session(omit(asked.whole, asked.left_out), asked.known)


def is_private(name: str, value: str, session: Session) -> bool:
    """Whether the value of a .env variable must not be exported. Plain words, numbers and addresses
    without credentials may be, and so may values in the session's settings, unless the variable's
    name is that of a secret."""
    if len(value) < SHORTEST or _PLAIN.fullmatch(value):
        return False
    if may_name_secret(name):
        return True
    profiles = [(settings.profile, settings.model) for _, settings in session.settings_at]
    ours = {
        word
        for profile, model in profiles
        for word in (model, profile.model, profile.base_url, profile.name)
    }
    return value not in ours and not _ADDRESS.fullmatch(value)


@lru_cache(maxsize=1)
def page_assets() -> PageAssets:
    """The templates and the styles (one text) for a page that is exported to a file."""
    folder = config.resource("static")
    styles = join_styles(folder, STYLES)
    script = (folder / "shared.js").read_text("utf-8")
    return PageAssets(
        environment(config.resource("templates")), styles, script, f"playground {__version__}"
    )
