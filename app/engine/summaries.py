"""The row of the list for a session, from its fold."""

from __future__ import annotations

from app.core.session import Session
from app.store.batch import Summary


def summary_of(session: Session, title: str, created_ms: int, *, own: bool = True) -> Summary:
    """What is folded is written at each change; `own` and the parent as the session is made."""
    assert session.settings is not None
    fork = session.forks[-1][1] if session.forks else None
    return Summary(
        session.id,
        title,
        created_ms,
        session.updated_ms,
        session.state,
        session.settings.model or session.settings.profile.model,
        len(session.by_call),
        session.waits,
        tasks=len(session.open_tasks),
        profile=session.settings.profile.name,
        parent=fork.parent if fork is not None else "",
        parent_seq=fork.parent_seq if fork is not None else 0,
        own=own,
    )


def title_of(prompt: str) -> str:
    """A title from the first prompt, for a session that has none."""
    line = " ".join(prompt.split())
    return line if len(line) <= 60 else line[:59].rstrip() + "…"
