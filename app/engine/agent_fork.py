"""What a fork of an agent's session begins with: the agent's last request as it was sent.

Its tools ran at the agent, and are not here: those whose results are recorded become mocks of
these, the others are answered by the user, until the user says otherwise. Where the agent rewrote
its history, what its last request had is what the fork goes on from (`history_of_request`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.core.arguments import pointer_step
from app.core.errors import Refused
from app.core.events import Event, Logged, SessionStarted
from app.core.session import Call, Session, Turn
from app.core.settings import Profile, Settings
from app.core.tools import Tool
from app.engine.import_session import batch_of
from app.exchange.bundle import RecordedChunk, Recording, SessionBundle
from app.exchange.parsers import Unreadable
from app.exchange.requests_import import ImportedRequest, ImportedSession, add_items, add_recorded
from app.executors.template import PLACE
from app.protocols.registry import REQUEST_READERS
from app.protocols.request import RequestNotes
from app.protocols.request_changes import tool_names
from app.store.log import Log
from app.store.writes import WriteBatch

BETAS = ("anthropic-beta", "openai-beta")
"""Headers without which members of a body are refused."""

REWRITTEN = ("history_changed", "history_left_out")
"""Codes of what says that the agent's history is not the one that its session tells."""

MOST_CASES, LONGEST_CASE, LARGEST_MOCKS = 20, 8_000, 256_000
"""Results that one mock has, the characters of one, and those of all mocks together."""


def is_rewritten(session: Session) -> bool:
    """Whether the agent's last request has another history than its session tells."""
    tapped = session.tapped is not None and bool(session.turns)
    return tapped and any(mark.warning.code in REWRITTEN for mark in session.marks)


def settings_of_agent(
    session: Session, settings: Settings, before: int
) -> tuple[Settings, Sequence[str]]:
    """What a fork of an agent's session, with `before` turns of it, asks with, and sentences on
    what is otherwise than the agent had it."""
    if session.tapped is None or not session.turns:
        return settings, ()
    turn, extra = session.turns[min(before, len(session.turns) - 1)], dict(settings.extra)
    tools, notes = _with_mocks(settings.tools, session.calls())
    body, own = _body(turn), {tool.name for tool in tools}
    others = [name for name in tool_names(body) if name not in own]
    if others and isinstance(body.get("tools"), list):
        extra["tools"] = body["tools"]
        named = ", ".join(dict.fromkeys(others))
        notes.append(
            f"The tools go as the agent sent them, for {named} can be no tool of a session: they "
            "are an extra member of the request (Setup)."
        )
    agent = session.tapped.agent or "agent"
    profile = _with_betas(settings.profile, turn, agent)
    return replace(settings, profile=profile, tools=tools, extra=extra), notes


def _with_betas(profile: Profile, turn: Turn, agent: str) -> Profile:
    """A profile of the session's own, where the agent's requests bear such headers."""
    sent = turn.request.headers
    betas = {name: sent[name] for name in BETAS if name in sent}
    if not betas:
        return profile
    headers = {**profile.headers, **betas}
    return replace(profile, name=f"{profile.name}:{agent}"[:64], headers=headers)


def _body(turn: Turn) -> Mapping[str, Any]:
    try:
        value = json.loads(turn.request.body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _with_mocks(tools: Sequence[Tool], calls: Iterable[Call]) -> tuple[tuple[Tool, ...], list[str]]:
    """The tools, those with recorded results as mocks of these."""
    by_name: dict[str, list[Call]] = {}
    for call in calls:
        by_name.setdefault(call.name, []).append(call)
    room, mocks = LARGEST_MOCKS, dict[str, Tool]()
    for tool in tools:
        cases = _cases(by_name.get(tool.name, ()), room)
        if cases:
            room -= sum(len(case["result"]) for case in cases)
            mocks[tool.name] = replace(tool, answered_by="mock", config={"cases": cases})
    if not mocks:
        return tuple(tools), []
    notes = [f"Mocks of their recorded results: {', '.join(mocks)}. They run nothing."]
    return tuple(mocks.get(tool.name, tool) for tool in tools), notes


def _cases(calls: Sequence[Call], room: int) -> list[Mapping[str, Any]]:
    """A mock's cases, one for the arguments of each call, the newest result first."""
    cases = dict[str, Mapping[str, Any]]()
    for call in reversed(calls):
        result, arguments = call.result, _arguments(call)
        if result is None or result.staged or arguments is None or len(cases) == MOST_CASES:
            continue
        text, key = result.text, json.dumps(arguments, sort_keys=True)
        # A text that has the form of a place for an argument would be filled in.
        if not text or len(text) > min(LONGEST_CASE, room) or PLACE.search(text) or key in cases:
            continue
        room -= len(text)
        when = {f"/{pointer_step(name)}": {"equals": value} for name, value in arguments.items()}
        cases[key] = {"when": when, "result": text, "is_error": result.is_error}
    # Of two that fit, the one that names more arguments is meant.
    return sorted(cases.values(), key=lambda case: -len(case["when"]))


def _arguments(call: Call) -> Mapping[str, Any] | None:
    try:
        value = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


# The history that the agent's last request had ---------------------------------------------------


@dataclass(frozen=True)
class RequestHistory:
    """The log of a session that says what the agent's last request said, and the answer that came,
    with its bytes."""

    log: Sequence[Logged]
    recordings: Mapping[int, Recording]

    def batch(
        self, session_id: str, title: str, events: Sequence[Logged], folded: Session
    ) -> WriteBatch:
        """The whole of a session that begins so and goes on with `events`."""
        log = [*self.log, *events]
        bundle = SessionBundle(folded, title, log, self.recordings, created_ms=log[-1].at_ms)
        return batch_of(replace(bundle, session=replace(folded, id=session_id)), own=True)


async def history_of_request(log: Log, session: Session, now_ms: int) -> RequestHistory:
    """What the last request of an agent's session said. Refused where that cannot be read."""
    turn = session.turns[-1]
    body, protocol = _body(turn), turn.settings.profile.protocol
    reader, notes = REQUEST_READERS[protocol], RequestNotes(protocol)
    chunks = await log.chunks(session.id, turn.number)
    whole = turn.end is not None and turn.response is not None
    pasted = ImportedRequest(
        protocol,
        reader.setup(body, notes),
        list(reader.items(body, notes)),
        turn.settings.profile.base_url,
        body=turn.request.body,
        response=b"".join(chunk.data for chunk in chunks) if whole else None,
        status=turn.response.status if turn.response is not None else 200,
    )
    imported = ImportedSession(Session(session.id))
    imported.add(now_ms, SessionStarted(turn.settings, session.tapped))
    try:
        add_items(imported, pasted, pasted.items, now_ms)
        if pasted.response is not None:
            add_recorded(imported, pasted, now_ms)
    except Unreadable as error:
        raise Refused(f"The agent's last request cannot be gone on from: {error}") from error
    recordings = {}
    if pasted.response is not None:
        number = len(imported.session.turns)
        pieces = [RecordedChunk(chunk.at_ms, chunk.data) for chunk in chunks]
        closed = (await log.recordings(session.id)).get(turn.number)
        ends = (closed.clean, tuple(closed.masked), closed.sha256) if closed is not None else ()
        recordings[number] = Recording(number, pieces, *ends)
    return RequestHistory(imported.log, recordings)


def as_logged(events: Sequence[Event], seq: int, at_ms: int) -> list[Logged]:
    """`events` behind event `seq`."""
    return [Logged(seq + nth, at_ms, event) for nth, event in enumerate(events, 1)]
