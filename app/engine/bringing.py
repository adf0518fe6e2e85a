"""A session that somebody brings: read, checked and kept to be looked at, and nothing else.

No address of it is asked, no tool runs and no rule of it holds. Threat 14 of docs/safety.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace

from app.core.settings import Profile, Settings
from app.core.tools import ToolChoice
from app.engine.engine import Engine, new_id
from app.engine.summaries import summary_of
from app.export.jsonl import read
from app.export.kept import Kept
from app.export.redact import redacted
from app.store.batch import Batch, Chunk, Closed


async def bring(engine: Engine, data: bytes) -> str:
    """The id under which the session of a JSON Lines file is kept, read-only; BadInput names the
    line that cannot be read, and nothing is kept then."""
    # A large file takes seconds, hence the other thread.
    kept = await asyncio.to_thread(_read, data, engine.keys.secrets())
    await engine.log.append(_batch(kept))
    engine.hub.ring_list()
    return kept.session.id


def _read(data: bytes, secrets: Collection[str]) -> Kept:
    """Without the keys of this place, should the file hold one; all else stays as it is."""
    return redacted(read(data, new_id()), secrets, shapes=False).kept


def _batch(kept: Kept) -> Batch:
    """Written in one go: the whole of it, or nothing."""
    chunks = []
    for number, one in kept.recordings.items():
        start = 0
        for piece in one.pieces:
            chunks.append(Chunk(number, start, piece.at_ms, piece.data))
            start += len(piece.data)
    ends = [
        Closed(number, one.clean, one.masked, one.sha256)
        for number, one in kept.recordings.items()
        if one.clean or one.masked or one.sha256
    ]
    summary = summary_of(kept.session, kept.title, kept.created_ms, own=False)
    summary = replace(summary, parent="", parent_seq=0)  # no session of ours is its parent
    return Batch(kept.session.id, kept.log, chunks, None, summary, True, ends=ends, tags=kept.tags)


def harmless(engine: Engine, settings: Settings) -> Settings:
    """What a fork of a session from somebody else begins with: nothing of it is asked or run. Its
    tools are off, and it goes to the person's own profile of that name and address, or else to the
    simulator."""
    profile = own_profile(engine, settings.profile)
    model = settings.model if profile.base_url == settings.profile.base_url else ""
    return replace(
        settings, profile=profile, model=model, tools=(), tool_choice=ToolChoice(), extra={}
    )


def own_profile(engine: Engine, foreign: Profile) -> Profile:
    """The person's own profile that says the same, or the simulator's for that protocol."""
    there = {one.name: one for one in engine.profiles()}
    same = there.get(foreign.name)
    if same is not None and (same.protocol, same.base_url) == (foreign.protocol, foreign.base_url):
        return same
    ends = (one for one in there.values() if one.simulated and one.protocol == foreign.protocol)
    return next(ends, there["simulator"])
