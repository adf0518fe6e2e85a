"""What leaves of a session: read whole, masked once more, then written by its form."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from functools import lru_cache

from app import __version__, config
from app.core.fold import fold
from app.engine.engine import Engine
from app.export.kept import Kept, Look, Piece, Recording
from app.render.environment import environment
from app.store.batch import Chunk


async def kept(engine: Engine, session_id: str) -> Kept:
    """All that is kept of a session; NotFound where there is none."""
    async with engine.hub.holding(session_id) as live:
        title, created_ms = live.title, live.created_ms
        log = await engine.log.events(session_id)
        chunks = await engine.log.chunks(session_id)
        closed = await engine.log.recordings(session_id)
        summary = await engine.log.summary(session_id)
    recordings = {}
    for number in sorted({*closed, *(chunk.recording for chunk in chunks)}):
        end = closed.get(number)
        pieces = _pieces([chunk for chunk in chunks if chunk.recording == number])
        recordings[number] = (
            Recording(number, pieces)
            if end is None
            else Recording(number, pieces, end.clean, end.masked, end.sha256)
        )
    parent = summary.parent if summary is not None else ""
    return Kept(fold(session_id, log), title, log, recordings, (), parent, created_ms, look())


def _pieces(chunks: Sequence[Chunk]) -> list[Piece]:
    return [Piece(chunk.at_ms, chunk.data) for chunk in chunks]


STYLES = ("tokens", "app", "running", "answer", "staged", "wire", "fork", "shared")


@lru_cache(maxsize=1)
def look() -> Look:
    """What a page in a file is drawn with: the templates, and the page's own styles in one text."""
    folder = config.resource("static")
    styles = "".join((folder / f"{name}.css").read_text("utf-8") for name in STYLES)
    styles = re.sub(r"@import [^;]+;", "", styles)
    styles = re.sub(r'url\("([a-z]+)\.svg"\)', lambda match: _drawn(match[1]), styles)
    script = (folder / "shared.js").read_text("utf-8")
    return Look(
        environment(config.resource("templates")), styles, script, f"playground {__version__}"
    )


def _drawn(name: str) -> str:
    data = (config.resource("static") / f"{name}.svg").read_bytes()
    return f'url("data:image/svg+xml;base64,{base64.b64encode(data).decode()}")'
