"""What leaves of a session: read whole, masked once more, then written by its form."""

from __future__ import annotations

from collections.abc import Sequence

from app.core.fold import fold
from app.engine.engine import Engine
from app.export.kept import Kept, Piece, Recording
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
    return Kept(fold(session_id, log), title, log, recordings, (), parent, created_ms)


def _pieces(chunks: Sequence[Chunk]) -> list[Piece]:
    return [Piece(chunk.at_ms, chunk.data) for chunk in chunks]
