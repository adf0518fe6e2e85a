"""The pages of what leaves and of what comes from somebody else."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from jinja2 import Environment

from app.core.events import CallEnded, PromptAdded
from app.core.settings import Profile, Settings
from app.core.tools import Tool
from app.export.kept import Kept, Written
from app.export.redact import Mark
from app.export.table import Export
from app.render.filters import plural, size
from app.render.imports import Row

LOOK = 24_000
"""Characters of a file that are shown at once."""


@dataclass(frozen=True)
class SharePage:
    """What would leave: `forms` by name, the one that is chosen, what is `left_out` of what can be
    (by name, with what goes with it), and what came of it. `wrong` says why there is no file.
    `read` is what the file tells, as a text, where its own beginning says nothing of that."""

    session_id: str
    title: str
    forms: Mapping[str, Export]
    chosen: str
    can_be_left_out: Mapping[str, str]
    left_out: Collection[str]
    counts: Sequence[tuple[str, str]]
    marks: Sequence[Mark]
    written: Written | None = None
    wrong: str = ""
    read: Written | None = None

    @property
    def look(self) -> str:
        """The beginning of the file, or of what is `read` instead."""
        return self._shown[: 4 * LOOK].decode("utf-8", "replace")[:LOOK]

    @property
    def more(self) -> int:
        """Bytes beyond `look`."""
        return max(0, len(self._shown) - len(self.look.encode("utf-8", "replace")))

    @property
    def _shown(self) -> bytes:
        file = self.read or self.written
        return b"" if file is None else file.data


def share_page(env: Environment, page: SharePage) -> str:
    """What leaves, before it does."""
    return env.get_template("share.html").render(page=page)


def bring_page(env: Environment, wrong: str = "") -> str:
    """The door for a session from somebody else."""
    return env.get_template("share_import.html").render(wrong=wrong)


def take_page(
    env: Environment,
    session_id: str,
    title: str,
    settings: Settings,
    profiles: Sequence[Profile],
    taken: Settings,
) -> str:
    """What goes on from a session of somebody else, by `taken`: where to, with which of its tools,
    and what stays behind."""
    rows = [Row(number, "", tool.name, tool=tool) for number, tool in enumerate(settings.tools)]
    return env.get_template("share_take.html").render(
        session_id=session_id,
        title=title,
        settings=settings,
        profiles=profiles,
        chosen=taken.profile.name,
        rows=rows,
        behind=[name for name in settings.extra if name not in taken.extra],
    )


def counts(kept: Kept) -> list[tuple[str, str]]:
    """(what, how many) of a session, for whoever decides whether it leaves."""
    session = kept.session
    images = sum(
        len(logged.event.images) for logged in kept.log if isinstance(logged.event, PromptAdded)
    )
    results = [logged.event.result for logged in kept.log if isinstance(logged.event, CallEnded)]
    images += sum(piece.type == "image" for result in results for piece in result.content)
    numbers = [
        (session.prompts, "prompt"),
        (len(session.turns), "answer"),
        (len(session.by_call), "call"),
        (len(results), "result"),
        (images, "image"),
        (len(tools_of(kept)), "tool"),
        (len(kept.log), "event"),
    ]
    told = [(noun + "s", plural(number, noun)) for number, noun in numbers]
    recorded = sum(
        len(piece.data) for recording in kept.recordings.values() for piece in recording.pieces
    )
    return [*told, ("recorded", f"{size(recorded)} of recorded answers")]


def tools_of(kept: Kept) -> list[Tool]:
    """The tools that the session has now."""
    settings = kept.session.settings
    return list(settings.tools) if settings is not None else []
