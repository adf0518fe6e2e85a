"""Forks: a new session from the beginning of another, with the user's changes. core/reducer decides
what a fork copies; the fork then runs through the runner like any session.

A fork of an agent's session begins with the agent's last request as it was sent. The agent's tools
are not available here: tools with recorded results become mocks that return them, and the user
answers the others, unless the user changes that. If the agent rewrote its history, the fork
continues from the history of its last request (`history_of_request`).

The same prompt can go to several models: one session for each, with the changes named by its row.
They are new sessions, or forks of one place of a session, which stays unchanged.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from playground.core.arguments import pointer_step
from playground.core.decide import next_commands
from playground.core.errors import (
    BadInput,
    Conflict,
    IllegalEvent,
    NotFound,
    PlaygroundError,
    Refused,
)
from playground.core.events import (
    CallChecked,
    Event,
    Logged,
    PromptAdded,
    RunPaused,
    SessionStarted,
    SettingsChanged,
    Warned,
)
from playground.core.json_values import load_json
from playground.core.reducer import (
    ForkPrefix,
    apply,
    at_call,
    before_prompt,
    before_turn,
    fork_prefix,
    is_foreign_event,
    preview_fork,
)
from playground.core.session import Call, Prompt, Session, Turn
from playground.core.settings import Profile, Settings, model_of
from playground.core.tools import Tool
from playground.engine import manage_sessions
from playground.engine.decisions import DecisionRequest, decision_event
from playground.engine.engine import Engine
from playground.engine.import_session import batch_of, harmless_settings
from playground.engine.redaction import redact_event
from playground.engine.sessions import LiveSession, new_id
from playground.engine.settings import settings_from
from playground.exchange.bundle import RecordedChunk, Recording, SessionBundle
from playground.exchange.parsers import UnreadableText
from playground.exchange.requests_import import (
    ImportedRequest,
    ImportedSession,
    add_items,
    add_recorded,
)
from playground.executors.executor import PLACE
from playground.protocols.registry import REQUEST_READERS
from playground.protocols.request import RequestNotes, tool_names
from playground.render.filters import clip
from playground.render.view import model_names
from playground.schema.validate import check_call
from playground.store.log import Log
from playground.store.writes import WriteBatch, title_of

LOOK_S = 10.0
"""Seconds to wait until a reopened call can be decided."""

MOST_TITLE = 200

SettingsEdit = Callable[[Settings], Mapping[str, Any]]
"""The changes to the settings at a place, as JSON members of docs/contract.md."""

_ANY = "not decided by a user"

BETAS = ("anthropic-beta", "openai-beta")
"""Headers without which the provider refuses members of the request body."""

REWRITTEN = ("history_changed", "history_left_out")
"""Warning codes: the agent's history differs from that of its session."""

MOST_CASES, LONGEST_CASE, LARGEST_MOCKS = 20, 8_000, 256_000
"""Most results of one mock, characters of one result, and characters of all mocks together."""

SettingsRow = Mapping[str, Any]
"""The changes to the settings for one of the sessions, as JSON members of docs/contract.md."""


@dataclass(frozen=True)
class ForkPlace:
    """Where to fork: before a `prompt` or the request of a `turn` (numbers), at a `call` (id),
    which the fork reopens, or after event `seq`; by default at the end."""

    prompt: int = 0
    turn: int = 0
    call: str = ""
    seq: int | None = None


async def fork(
    engine: Engine,
    session_id: str,
    place: ForkPlace,
    *,
    settings: Settings | None = None,
    change: SettingsEdit | None = None,
    text: str | None = None,
    asked: DecisionRequest | None = None,
    title: str = "",
    go: bool = True,
) -> str:
    """Creates a fork; returns its id. `settings` are the fork's own; `change` instead changes those
    at the place. `text` is its next prompt. `asked` decides the call of the place (the digest is
    set here). Without `go` the fork sends and runs nothing until Continue.

    A fork of an imported session has its tools off and the user's own address (`harmless`), unless
    other settings are given. On NotFound, Refused, BadInput or Conflict no fork is created.
    """
    wish = _ForkRequest(
        place, settings=settings, change=change, text=text, asked=asked, title=title, go=go
    )
    async with engine.sessions.lock_session(session_id) as live:
        history = None
        if place == ForkPlace() and is_rewritten(live.session):
            history = await history_of_request(engine.log, live.session, engine.sessions.clock())
        fork_cut, events = await _plan_fork(engine, live, wish, history)
        named = _title(title) or live.title
        if history is not None:
            child = await _write_history(engine, history, fork_cut, events, named)
        else:
            child = await engine.sessions.fork(live, fork_cut, events, named)
    await _begin(engine, child, wish, fork_cut)
    return child


async def _write_history(
    engine: Engine,
    history: RequestHistory,
    fork_cut: ForkPrefix,
    events: Sequence[Event],
    title: str,
) -> str:
    """Creates a session that begins with the content of an agent's last request."""
    child, now_ms = new_id(), engine.sessions.clock()
    masked = [redact_event(event, engine.keys.redactor()) for event in events]
    added = number_events(masked, fork_cut.seq, now_ms)
    folded = _preview_fork(history.log, fork_cut, masked)
    await engine.log.append(history.batch(child, title, added, folded))
    engine.sessions.notify_list()
    return child


@dataclass(frozen=True)
class _ForkRequest:
    """The parameters of `fork`."""

    place: ForkPlace
    settings: Settings | None = None
    change: SettingsEdit | None = None
    text: str | None = None
    asked: DecisionRequest | None = None
    title: str = ""
    go: bool = True


async def _plan_fork(
    engine: Engine, live: LiveSession, wish: _ForkRequest, history: RequestHistory | None = None
) -> tuple[ForkPrefix, Sequence[Event]]:
    """What the fork copies (from `history`, if given) and the events it adds. Raises all errors of
    a refused fork."""
    place, text, settings = wish.place, wish.text, wish.settings
    if text is not None and (place.turn or place.call):
        raise Refused("A text needs a fork at a prompt or at the end, not at a turn or a call.")
    if wish.asked is not None and not place.call:
        raise Refused("A decision needs a call. Name the call.")
    _title(wish.title)
    fork_cut, log = await _prefix_at(engine, live, place, history)
    foreign = is_foreign_event(live.session, fork_cut.seq, own=live.own)
    notes: Sequence[str] = ()
    had = fork_cut.session.settings
    assert had is not None
    if settings is None:
        there = live.session if history is not None else fork_cut.session
        settings, notes = _default_settings(engine, live, there, foreign=foreign)
        if wish.change is not None:
            settings = await settings_from(engine, wish.change(settings), settings)
    events: list[Event] = [SettingsChanged(settings)] if settings != had else []
    forked = fork_cut.fork_event(foreign=foreign)
    events.append(forked if history is None else replace(forked, parent_seq=live.session.seq))
    events += [Warned("continued", note) for note in notes]
    if text is not None:
        events.append(_prompt(text, _prompt_at(live.session, place), fork_cut))
    begins = _preview_fork(log, fork_cut, events)
    if wish.asked is not None:
        _check_decision(begins, place.call, wish.asked)
    if not wish.go and not fork_cut.reopened and next_commands(begins):
        events.append(RunPaused("fork"))
    return fork_cut, events


async def _begin(engine: Engine, child: str, wish: _ForkRequest, fork_cut: ForkPrefix) -> None:
    await engine.runner.advance(child)
    if fork_cut.reopened and (wish.asked is not None or not wish.go):
        await _decide(engine, child, wish.place.call, wish.asked, go=wish.go)


@dataclass(frozen=True)
class ForkState:
    """A session at a place, as a fork there would begin: `session` with the `settings` of the fork,
    and the `prompt` at that place, if any. `rewritten`: it begins with the content of an agent's
    last request. `notes` are sentences on the settings."""

    session: Session
    settings: Settings
    prompt: Prompt | None
    title: str
    own: bool
    rewritten: bool = False
    notes: Sequence[str] = ()


async def fork_state(engine: Engine, session_id: str, place: ForkPlace) -> ForkState:
    """The state of `session_id` at `place`; creates nothing. Same errors as `fork`."""
    async with engine.sessions.lock_session(session_id) as live:
        fork_cut, _ = await _prefix_at(engine, live, place)
        prompts = (item for item in live.session.items if isinstance(item, Prompt))
        prompt = next((prompt for prompt in prompts if prompt.number == place.prompt), None)
        foreign = is_foreign_event(live.session, fork_cut.seq, own=live.own)
        settings, notes = _default_settings(engine, live, fork_cut.session, foreign=foreign)
        rewritten = place == ForkPlace() and is_rewritten(live.session)
        session = live.session if place.call else fork_cut.session
        return ForkState(
            session,
            settings=settings,
            prompt=prompt,
            title=live.title,
            own=live.own,
            rewritten=rewritten,
            notes=notes,
        )


async def fork_with_answers(
    engine: Engine,
    session_id: str,
    call: str,
    answers: Sequence[DecisionRequest],
    *,
    change: SettingsEdit | None = None,
    title: str = "",
    go: bool = True,
) -> list[str]:
    """A fork for each of `answers` to one call, in order; other parameters as for `fork`. If one is
    refused, none is left."""
    place = ForkPlace(call=call)
    wishes = [
        _ForkRequest(
            place, settings=None, change=change, text=None, asked=asked, title=title, go=go
        )
        for asked in answers
    ]
    children: list[str] = []
    try:
        async with engine.sessions.lock_session(session_id) as live:
            cuts = [await _plan_fork(engine, live, wish) for wish in wishes]
            for fork_cut, events in cuts:
                named = _title(title) or live.title
                children.append(await engine.sessions.fork(live, fork_cut, events, named))
        for child, wish, (fork_cut, _) in zip(children, wishes, cuts, strict=True):
            await _begin(engine, child, wish, fork_cut)
    except PlaygroundError:
        for child in children:
            await engine.runner.delete(child)
        raise
    return children


def _default_settings(
    engine: Engine, live: LiveSession, there: Session, *, foreign: bool
) -> tuple[Settings, Sequence[str]]:
    """The default settings of a fork at that place, and sentences on them."""
    assert there.settings is not None
    if foreign:
        return harmless_settings(engine, there.settings), ()
    return settings_of_agent(live.session, there.settings, len(there.turns))


async def _prefix_at(
    engine: Engine, live: LiveSession, place: ForkPlace, history: RequestHistory | None = None
) -> tuple[ForkPrefix, Sequence[Logged]]:
    """What a fork there copies, and the log it is copied from: the session's or `history`."""
    if live.deleted:
        raise Conflict("This session is deleted. Restore it, then fork it.")
    if history is not None:
        return fork_prefix(history.log, live.id, history.log[-1].seq), history.log
    log = await engine.sessions.log.events_to_fold(live.id)
    chosen = [place.call] if place.call else []
    return fork_prefix(log, live.id, _seq(live.session, place), chosen), log


def _preview_fork(log: Sequence[Logged], fork_cut: ForkPrefix, events: Sequence[Event]) -> Session:
    try:
        return preview_fork(log, fork_cut, events)
    except IllegalEvent as error:
        raise Refused(
            f"The fork cannot start here: {error} Fork without a text, or at another place."
        ) from error


def _title(text: str) -> str:
    title = " ".join(text.split())
    if len(title) > MOST_TITLE:
        raise BadInput(f"A title has at most {MOST_TITLE} characters. Shorten it.")
    return title


def _seq(session: Session, place: ForkPlace) -> int:
    """The event number of the place. NotFound if the session has no such place."""
    if place.prompt:
        return before_prompt(session, place.prompt)
    if place.turn:
        return before_turn(session, place.turn)
    if place.call:
        return at_call(session, place.call)
    if place.seq is not None and not 0 <= place.seq <= session.seq:
        raise NotFound(f"This session has no event {place.seq}; its last one is {session.seq}.")
    return session.seq if place.seq is None else place.seq


def _prompt(text: str, was: Prompt | None, fork_cut: ForkPrefix) -> PromptAdded:
    """The new prompt: with the role and images of the prompt that it replaces, and with its wire
    form if the text is unchanged."""
    images = was.images if was is not None else ()
    if fork_cut.reopened:
        raise Refused(
            "There are open calls at this place. Fork without a text, and decide them in the fork."
        )
    last = fork_cut.session.last_item
    if isinstance(last, Prompt) and (was is None or was.role == last.role):
        raise Refused("That prompt has no answer. Fork from the prompt instead.")
    if not text.strip() and not images:
        raise Refused("A prompt needs text or an image.")
    if was is None:
        return PromptAdded(text)
    return PromptAdded(text, images, was.role, was.form if text == was.text else {})


def _prompt_at(session: Session, place: ForkPlace) -> Prompt | None:
    """The prompt that is replaced, if any."""
    prompts = (item for item in session.items if isinstance(item, Prompt))
    return next((item for item in prompts if item.number == place.prompt), None)


def _check_decision(session: Session, call_id: str, asked: DecisionRequest) -> None:
    """Raises the errors of the decision before the fork is created. The executor is checked only in
    the fork; that check prevents no decision of a user."""
    call = session.call(call_id)
    problems = check_call(call.tool, call.name, call.judged)
    checked = CallChecked(call_id, problems, digest=_ANY)
    apply(session, Logged(session.seq + 1, session.updated_ms, checked))
    decision_event(session, call_id, replace(asked, digest=_ANY))


async def _decide(
    engine: Engine, child: str, call_id: str, asked: DecisionRequest | None, *, go: bool
) -> None:
    """When the reopened calls wait for the user, makes the decision `asked`. On an error the fork
    is deleted."""
    try:
        await _wait_for_checks(engine, child)
        if not go:
            async with engine.sessions.lock_session(child) as live:
                if not live.session.paused:
                    await engine.sessions.append(live, [RunPaused("fork")])
        if asked is not None:
            async with engine.sessions.lock_session(child) as live:
                card = live.session.call(call_id).digest
            await engine.runner.decide(child, call_id, replace(asked, digest=card))
    except PlaygroundError:
        await engine.runner.delete(child)
        raise


async def _wait_for_checks(engine: Engine, session_id: str) -> None:
    """Waits until none of its calls is still being checked; Conflict after LOOK_S."""
    sessions = engine.sessions
    try:
        async with asyncio.timeout(LOOK_S):
            with sessions.listen(session_id) as bell:
                while True:
                    bell.clear()
                    async with sessions.lock_session(session_id) as live:
                        if all(call.status != "proposed" for call in live.session.current_calls):
                            return
                    await bell.wait(LOOK_S)
    except TimeoutError:
        raise Conflict(
            "The executor of this call did not answer in time. Fork without a decision, then "
            "decide "
            "the call in the fork."
        ) from None


# A fork of an agent's session ---------------------------------------------------------------------


def is_rewritten(session: Session) -> bool:
    """Whether the history in the agent's last request differs from that of its session."""
    tapped = session.tapped is not None and bool(session.turns)
    return tapped and any(mark.warning.code in REWRITTEN for mark in session.marks)


def settings_of_agent(
    session: Session, settings: Settings, before: int
) -> tuple[Settings, Sequence[str]]:
    """The settings of a fork of an agent's session that copies `before` turns, and sentences on the
    differences from the agent's own settings."""
    if session.tapped is None or not session.turns:
        return settings, ()
    turn, extra = session.turns[min(before, len(session.turns) - 1)], dict(settings.extra)
    tools, notes = _mock_tools(settings.tools, session.calls())
    body, own = _body(turn), {tool.name for tool in tools}
    others = [name for name in tool_names(body) if name not in own]
    if others and isinstance(body.get("tools"), list):
        extra["tools"] = body["tools"]
        named = ", ".join(dict.fromkeys(others))
        notes.append(
            "The tools are sent as the agent sent them, as an extra member of the request "
            f"(Setup), because {named} cannot be a tool of a session."
        )
    agent = session.tapped.agent or "agent"
    profile = _add_beta_headers(settings.profile, turn, agent)
    return replace(settings, profile=profile, tools=tools, extra=extra), notes


def _add_beta_headers(profile: Profile, turn: Turn, agent: str) -> Profile:
    """A profile of its own for the session if the agent's requests have such headers."""
    sent = turn.request.headers
    betas = {name: sent[name] for name in BETAS if name in sent}
    if not betas:
        return profile
    headers = {**profile.headers, **betas}
    return replace(profile, name=f"{profile.name}:{agent}"[:64], headers=headers)


def _body(turn: Turn) -> Mapping[str, Any]:
    try:
        value = load_json(turn.request.body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _mock_tools(tools: Sequence[Tool], calls: Iterable[Call]) -> tuple[tuple[Tool, ...], list[str]]:
    """The tools, where those with recorded results become mocks."""
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
    notes = [f"Mocks with recorded results: {', '.join(mocks)}. They run nothing."]
    return tuple(mocks.get(tool.name, tool) for tool in tools), notes


def _cases(calls: Sequence[Call], room: int) -> list[Mapping[str, Any]]:
    """The cases of a mock, one for each arguments value, the newest result first."""
    cases = dict[str, Mapping[str, Any]]()
    for call in reversed(calls):
        result, arguments = call.result, _arguments(call)
        if result is None or result.staged or arguments is None or len(cases) == MOST_CASES:
            continue
        text, key = result.text, json.dumps(arguments, sort_keys=True)
        # A text that looks like a placeholder for an argument would be substituted.
        if not text or len(text) > min(LONGEST_CASE, room) or PLACE.search(text) or key in cases:
            continue
        room -= len(text)
        when = {f"/{pointer_step(name)}": {"equals": value} for name, value in arguments.items()}
        cases[key] = {"when": when, "result": text, "is_error": result.is_error}
    # If two cases match, the one that names more arguments is meant.
    return sorted(cases.values(), key=lambda case: -len(case["when"]))


def _arguments(call: Call) -> Mapping[str, Any] | None:
    try:
        value = load_json(call.arguments)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


# The history in the agent's last request ----------------------------------------------------------


@dataclass(frozen=True)
class RequestHistory:
    """The session log made from an agent's last request and its answer, with the recorded bytes."""

    log: Sequence[Logged]
    recordings: Mapping[int, Recording]

    def batch(
        self, session_id: str, title: str, events: Sequence[Logged], folded: Session
    ) -> WriteBatch:
        """A batch that writes the session: this log followed by `events`."""
        log = [*self.log, *events]
        bundle = SessionBundle(folded, title, log, self.recordings, created_ms=log[-1].at_ms)
        return batch_of(replace(bundle, session=replace(folded, id=session_id)), own=True)


async def history_of_request(log: Log, session: Session, now_ms: int) -> RequestHistory:
    """Reads the last request of an agent's session. Refused if it cannot be read."""
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
    except UnreadableText as error:
        raise Refused(f"The agent's last request cannot be continued: {error}") from error
    recordings = {}
    if pasted.response is not None:
        number = len(imported.session.turns)
        pieces = [RecordedChunk(chunk.at_ms, chunk.data) for chunk in chunks]
        closed = (await log.recordings(session.id)).get(turn.number)
        ends = (closed.clean, tuple(closed.masked), closed.sha256) if closed is not None else ()
        recordings[number] = Recording(number, pieces, *ends)
    return RequestHistory(imported.log, recordings)


def number_events(events: Sequence[Event], seq: int, at_ms: int) -> list[Logged]:
    """`events` numbered after event `seq`."""
    return [Logged(seq + nth, at_ms, event) for nth, event in enumerate(events, 1)]


# The same prompt to several models ----------------------------------------------------------------


async def ask_in_new_sessions(
    engine: Engine, text: str, rows: Sequence[SettingsRow], base: Settings
) -> list[str]:
    """Creates a session for each of `rows`, applied to the settings `base`, and sends `text` to all
    at once; their ids. On BadInput or Refused none is created."""
    if not text.strip():
        raise Refused("A prompt needs text. Write the prompt for all of them.")
    wanted = await _settings(engine, rows, base)
    ids = [
        await engine.sessions.create(settings, title)
        for settings, title in zip(wanted, titles_for(wanted, text), strict=True)
    ]
    await asyncio.gather(*(engine.runner.prompt(session_id, text) for session_id in ids))
    return await _tag_together(engine, ids, text)


async def ask_in_forks(
    engine: Engine, session_id: str, place: ForkPlace, text: str, rows: Sequence[SettingsRow]
) -> list[str]:
    """Creates a fork at `place` for each of `rows`, each with `text` as next prompt; their ids.

    On NotFound, BadInput, Refused or Conflict none is left.
    """
    async with engine.sessions.lock_session(session_id) as live:
        base = settings_at(live.session, place)
        if not place.prompt and live.session.state not in ("idle", "failed", "interrupted"):
            raise Conflict(
                "This session has not ended. Retry its last prompt, or wait until it ends."
            )
    titles = titles_for(await _settings(engine, rows, base), text)

    async def fork_row(row: SettingsRow, title: str) -> str:
        def change(_: Settings) -> SettingsRow:
            return row

        return await fork(engine, session_id, place, change=change, text=text, title=title)

    forks = (fork_row(row, title) for row, title in zip(rows, titles, strict=True))
    outcomes = await asyncio.gather(*forks, return_exceptions=True)
    if failed := [outcome for outcome in outcomes if isinstance(outcome, BaseException)]:
        for outcome in outcomes:
            if isinstance(outcome, str):
                await engine.runner.delete(outcome)
        raise failed[0]
    return await _tag_together(
        engine, [outcome for outcome in outcomes if isinstance(outcome, str)], text
    )


async def _tag_together(engine: Engine, ids: list[str], text: str) -> list[str]:
    """Gives all of them one tag, so that the list finds them together."""
    title = engine.keys.redactor().redact_text(title_of(text))  # redacted before it is cut
    printable = "".join(character for character in title if character.isprintable())
    for session_id in ids if len(ids) > 1 else ():
        await manage_sessions.tag(
            engine, session_id, [clip(f"asked: {printable}", manage_sessions.LONGEST_TAG)]
        )
    return ids


def settings_at(session: Session, place: ForkPlace) -> Settings:
    """The settings in force at `place`."""
    seq = before_prompt(session, place.prompt) if place.prompt else session.seq
    held = [settings for at, settings in session.settings_at if at <= seq]
    if not held:
        raise Refused("A fork takes over at least the session's settings.")
    return held[-1]


async def _settings(engine: Engine, rows: Sequence[SettingsRow], base: Settings) -> list[Settings]:
    """The settings of each row, applied to `base`; BadInput names the invalid row."""
    all_settings = []
    for number, row in enumerate(rows, 1):
        try:
            all_settings.append(await settings_from(engine, row, base))
        except PlaygroundError as error:
            raise BadInput(f"Model {number}: {error}") from error
    return all_settings


def titles_for(all_settings: Sequence[Settings], text: str) -> list[str]:
    """A title each: the model, or the profile if only that differs, and the prompt."""
    called = model_names([(model_of(settings), settings.profile.name) for settings in all_settings])
    return [f"{name[:80]}: {title_of(text)}" for name in called]
