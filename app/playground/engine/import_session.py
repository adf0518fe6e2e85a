"""Imports a session: reads, checks and stores it for viewing.

None of its addresses is requested, no tool runs, none of its rules holds. Threat 14 of
docs/safety.md.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from playground.core.decide import close_imported
from playground.core.errors import BadInput
from playground.core.session import Prompt, Session
from playground.core.settings import Limits, Profile, Settings, apply_timeouts
from playground.engine.engine import Engine
from playground.engine.sessions import new_id
from playground.engine.settings import sound_params, unnamed_profile
from playground.exchange import html
from playground.exchange.bundle import RecordedChunk, Recording, SessionBundle, read_session
from playground.exchange.parsers import UnreadableText
from playground.exchange.requests_import import (
    ImportedRequest,
    check_size,
    read_requests,
    session_from_request,
)
from playground.exchange.session_redaction import redact_session
from playground.protocols.parameters import THINKING
from playground.protocols.request import text_of
from playground.store.writes import Chunk, ClosedRecording, WriteBatch, summary_of, title_of

WHAT = (
    "a session that was exported as JSON Lines or shared as HTML, the body of a request to OpenAI, "
    "Anthropic, Gemini or Ollama, a curl command, or an HTTP archive (HAR)"
)
"""What can be imported, for messages."""


async def import_session(engine: Engine, data: bytes) -> str:
    """Stores an imported session read-only; returns its id. `data` is a session as JSON Lines or as
    a shared page, or a request as its body, a curl command or an HTTP archive. BadInput says why it
    cannot be read (for a session, in which line); then nothing is stored."""
    # In another thread, because a large file takes seconds.
    reads = _read_request
    if html.is_page(data):
        data, reads = await asyncio.to_thread(html.lines_of, data), _read
    elif data.lstrip().startswith(b'{"playground"'):
        reads = _read
    try:
        bundle = await asyncio.to_thread(reads, engine, data)
    except UnreadableText as error:
        raise BadInput(str(error)) from None
    await engine.log.append(batch_of(bundle))
    engine.sessions.notify_list()
    return bundle.session.id


def _read(engine: Engine, data: bytes) -> SessionBundle:
    """Removes only this program's own keys, should the file hold one."""
    bundle = read_session(data, new_id(), _check_readable)
    return redact_session(bundle, engine.keys.secrets(), shapes=False).bundle


def _check_readable(session: Session) -> None:
    try:
        check_size(session)
    except UnreadableText as error:
        raise BadInput(str(error)) from None


def _read_request(engine: Engine, data: bytes) -> SessionBundle:
    """Redacts everything that looks like a key: a request was not written to be stored."""
    imported = read_requests(data.decode("utf-8", "replace"))
    if not imported.requests:
        raise BadInput(f"{imported.problem} Import {WHAT}.")
    pasted, now = _keep_valid_params(imported.requests[0]), engine.sessions.clock()
    converted = session_from_request(
        pasted, _profile_for_request(engine, pasted), new_id(), pasted.at_ms or now
    )
    for note in (*imported.notes, *converted.notes):
        converted.tell("brought", note)
    recordings = {}
    if converted.response:
        number, digest = (
            len(converted.session.turns),
            hashlib.sha256(converted.response).hexdigest(),
        )
        piece = RecordedChunk(pasted.at_ms or now, converted.response)
        recordings[number] = Recording(number, [piece], True, (), digest)
    prompts = (
        item.text
        for item in converted.session.items
        if isinstance(item, Prompt) and item.role == "user"
    )
    bundle = SessionBundle(
        converted.session, title_of(next(prompts, "")), converted.log, recordings, created_ms=now
    )
    return redact_session(bundle, engine.keys.secrets()).bundle


def _keep_valid_params(pasted: ImportedRequest) -> ImportedRequest:
    """Keeps the parameters that a user could have chosen and adds a note on the others. An object
    that controls thinking becomes an extra member, unchanged."""
    setup, word = pasted.setup, THINKING.get(pasted.protocol)
    params, extra = sound_params(setup.params), dict(setup.extra)
    left = {name: param for name, param in setup.params.items() if name not in params}
    if word and isinstance(left.get("thinking"), dict) and word not in extra:
        extra[word] = left.pop("thinking")
    setup = replace(setup, params=params, extra=extra)
    notes = (
        [f"Left out, because a session cannot have these settings: {', '.join(left)}."]
        if left
        else []
    )
    return replace(pasted, setup=setup, notes=(*pasted.notes, *notes))


def _profile_for_request(engine: Engine, pasted: ImportedRequest) -> Profile:
    """The user's profile for the request's address, or a new one for that address."""
    rows = [profile for profile in engine.profiles() if profile.protocol == pasted.protocol]
    if not pasted.base_url:
        return next(row for row in rows if not row.simulated)
    same = (row for row in rows if row.base_url.rstrip("/") == pasted.base_url.rstrip("/"))
    host = urlsplit(pasted.base_url).hostname or "somewhere"
    return next(same, unnamed_profile(host[:60], pasted.protocol, pasted.base_url))


def batch_of(bundle: SessionBundle, *, own: bool = False) -> WriteBatch:
    """One atomic write of the whole session. A session that is not the user's `own` never runs and
    gets no parent here."""
    chunks = []
    for number, recording in bundle.recordings.items():
        start = 0
        for piece in recording.pieces:
            chunks.append(Chunk(number, start, piece.at_ms, piece.data))
            start += len(piece.data)
    ends = [
        ClosedRecording(number, recording.clean, recording.masked, recording.sha256)
        for number, recording in bundle.recordings.items()
        if recording.clean or recording.masked or recording.sha256
    ]
    if not own:
        close_imported(bundle.session)
    summary = summary_of(bundle.session, bundle.title, bundle.created_ms, own=own)
    if not own:
        summary = replace(summary, parent="", parent_seq=0)
    return WriteBatch(
        bundle.session.id,
        events=bundle.log,
        chunks=chunks,
        closed=None,
        summary=summary,
        full=True,
        ends=ends,
        tags=bundle.tags,
    )


def harmless_settings(engine: Engine, settings: Settings) -> Settings:
    """Default settings for a fork of an imported session; nothing of it is requested or run. Tools
    are off, and the profile is the user's own of that name and address, else the simulator. Limits
    are the defaults; parameters that a user could not choose and extra members are dropped, except
    the blocks of the system prompt that is shown."""
    profile = own_profile(engine, settings.profile)
    model = settings.model if profile.base_url == settings.profile.base_url else ""
    return Settings(
        profile,
        model,
        settings.system,
        params=sound_params(settings.params),
        extra=_system_blocks(settings) if profile.protocol == settings.profile.protocol else {},
        stream=settings.stream,
        limits=apply_timeouts(Limits(), profile),
    )


def _system_blocks(settings: Settings) -> Mapping[str, Any]:
    """Anthropic's system prompt in blocks, as an extra member, if the blocks hold exactly the text
    that is shown and no other members than cache marks."""
    blocks = settings.extra.get("system")
    if settings.profile.protocol != "anthropic" or not isinstance(blocks, list):
        return {}
    known = {"type", "text", "cache_control"}
    sound = all(isinstance(block, dict) and block.keys() <= known for block in blocks)
    return {"system": blocks} if sound and text_of(blocks) == settings.system else {}


def own_profile(engine: Engine, foreign: Profile) -> Profile:
    """The user's own profile of the same name, protocol and address, else the simulator's."""
    there = {profile.name: profile for profile in engine.profiles()}
    same = there.get(foreign.name)
    if same is not None and (same.protocol, same.base_url) == (foreign.protocol, foreign.base_url):
        return same
    ends = (
        profile
        for profile in there.values()
        if profile.simulated and profile.protocol == foreign.protocol
    )
    return next(ends, there["simulator"])
