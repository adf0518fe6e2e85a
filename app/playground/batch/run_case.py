"""One run of a batch, from its prompt until it is idle: the same wherever it runs.

`run_case` is the interface: a run as JSON in, its session as JSON Lines out, on any engine. The run
names its keys, which are in the environment of the process that runs it. `carried` adds to a run
all that it needs from this engine, `keep_session` stores its session. Nothing is asked of a user: a
call that no rule decides ends the run, and a call that no rule may run because its arguments are
invalid, or its tool does not exist, is answered with the error, as agents do.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from playground.core.errors import BadInput
from playground.core.events import CallDecided
from playground.core.rules import Rule
from playground.core.serialization import from_data, to_data
from playground.core.session import Call, Prompt, Session
from playground.core.settings import Settings
from playground.engine.engine import Engine
from playground.engine.export_session import read_bundle, read_bundle_from
from playground.engine.import_session import batch_of
from playground.engine.rules import ALWAYS
from playground.exchange.bundle import SessionBundle, read_session, write_session
from playground.exchange.session_redaction import redact_session
from playground.executors.http import keys_of
from playground.net.keys import origin

UNSOUND = frozenset(("malformed", "schema", "unknown_tool"))
"""Problems of a call that are the model's own errors."""

ANSWERED = "a call that cannot run is answered with the reason"
"""The rule, in words, that answers such a call."""

LOOK_S = 60.0

Look = Callable[[Session], None]
"""Called at intervals with the current session of a run."""


@dataclass(frozen=True)
class CaseRun:
    """One run's input. `session` is the id of its session, `batch` that of its batch; `rules`
    decide its calls, followed by the rules for all sessions.

    A remote run also carries data that only this process has: `confirmed`, which key may be sent
    where (name and origin, never a key), and `recording`, the session that answers it as JSON
    Lines.
    """

    session: str
    title: str
    prompt: str
    settings: Settings
    rules: tuple[Rule, ...] = ()
    batch: str = ""
    confirmed: tuple[tuple[str, str], ...] = ()
    recording: str = ""


async def run_case(run_json: str, engine: Engine) -> bytes:
    """Makes the run in `run_json` (a CaseRun) on `engine`, whose database may be temporary; returns
    the whole session as JSON Lines. On cancellation, too: then the run is stopped and its session
    says so. BadInput if `run_json` is invalid."""
    try:
        run = from_data(CaseRun, json.loads(run_json))
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise BadInput(f"This is not a run of a batch: {error}") from error
    for name, place in run.confirmed:
        engine.keys.confirm(name, place)
    if recorded := run.settings.profile.recorded:
        async with engine.purging:  # one at a time: it is saved once
            if await engine.log.summary(recorded) is None:
                bundle = await asyncio.to_thread(read_session, run.recording.encode(), recorded)
                await engine.log.append(batch_of(bundle))
    try:
        await run_until_idle(engine, run)
    except asyncio.CancelledError:
        if await engine.log.summary(run.session) is None:
            raise
    return write_session(await read_bundle(engine, run.session)).data


async def pack_run(engine: Engine, run: CaseRun) -> CaseRun:
    """`run` with the data of `engine` that another engine needs to make it."""
    profile, keys = run.settings.profile, engine.keys
    asked = [pair for tool in run.settings.tools for pair in keys_of(tool)]
    if profile.key_name and not profile.simulated:
        asked.append((profile.key_name, origin(profile.base_url)))
    known = frozenset(keys.confirmations())
    recording = ""
    if profile.recorded:
        bundle = await read_bundle_from(engine.log, profile.recorded)
        recording = write_session(bundle).data.decode("ascii")
    return replace(
        run,
        rules=(*run.rules, *engine.rules.rule_list(ALWAYS)),
        confirmed=tuple(pair for pair in dict.fromkeys(asked) if pair in known),
        recording=recording,
    )


async def keep_session(engine: Engine, run: CaseRun, data: bytes, look: Look) -> None:
    """Stores the session of a remote run, with each line checked, and without the keys of this
    process; `look` is called with it as it progressed. BadInput if it cannot be read, or belongs to
    another run."""
    bundle = await asyncio.to_thread(_read, data, run, engine.keys.secrets(), look)
    batch = batch_of(bundle, own=True)
    assert batch.summary is not None
    ours: dict[str, Any] = {"batch": run.batch, "title": run.title, "tags": (), "parent": ""}
    await engine.log.append(replace(batch, summary=replace(batch.summary, **ours), full=False))
    engine.sessions.notify_list()


def _read(data: bytes, run: CaseRun, secrets: frozenset[str], look: Look) -> SessionBundle:
    bundle = read_session(data, run.session, look)
    session = bundle.session
    prompts = [item.text for item in session.items if isinstance(item, Prompt)]
    if (
        [to_data(settings) for _, settings in session.settings_at] != [to_data(run.settings)]
        or not all(_is_prompt(text, run.prompt) for text in prompts[:1])
        or session.tapped is not None
        or session.state == "running"
    ):
        raise BadInput("The worker returned the session of another run. Nothing was saved.")
    return redact_session(bundle, secrets, shapes=False).bundle


def _is_prompt(text: str, prompt: str) -> bool:
    """Whether `text` equals `prompt`, except stars in place of the other end's secrets."""
    pairs = zip(text, prompt, strict=False)
    return len(text) == len(prompt) and all(a in (b, "*") for a, b in pairs)


async def run_until_idle(engine: Engine, run: CaseRun, look: Look = lambda session: None) -> None:
    """Creates a session for `run` and runs it until it is idle. On cancellation the run is stopped,
    and its session says so."""
    sessions, runner, session_id = engine.sessions, engine.runner, run.session
    await sessions.create(run.settings, run.title, session_id=session_id, batch=run.batch)
    engine.rules.set_temporary(session_id, run.rules)
    try:
        await runner.prompt(session_id, run.prompt)
        with sessions.listen(session_id) as bell:
            while True:
                bell.clear()
                async with sessions.lock_session(session_id) as live:
                    look(live.session)
                    answers = _answers(live.session)
                    if answers:
                        await sessions.append(live, answers)
                    elif live.session.state != "running":
                        return
                if answers:
                    await runner.advance(session_id)
                await bell.wait(LOOK_S)
    except asyncio.CancelledError:
        await runner.stop(session_id)
        raise
    finally:
        engine.rules.forget(session_id)
        await engine.executors.forget(session_id)


def has_no_effect(session: Session) -> bool:
    """Whether only mocks could run in the session of a run.

    `extra` members may offer tools that the provider runs.
    """
    return all(
        not settings.extra and all(tool.answered_by == "mock" for tool in settings.tools)
        for _, settings in session.settings_at
    ) and not any(part.kind == "server_call" for turn in session.turns for part in turn.parts)


def _answers(session: Session) -> list[CallDecided]:
    """The answers to calls that wait because their model wrote what cannot run."""
    if session.state != "waiting":
        return []
    return [_answer(call) for call in session.waiting if _is_unsound(call)]


def _is_unsound(call: Call) -> bool:
    return any(problem.kind in UNSOUND for problem in call.problems)


def _answer(call: Call) -> CallDecided:
    wrong = [
        f"{problem.pointer}: {problem.message}" if problem.pointer else problem.message
        for problem in call.problems
        if problem.kind in UNSOUND
    ]
    text = f"The call did not run. {' '.join(wrong)}"
    return CallDecided(call.id, "answer", "rule", ANSWERED, call.digest, text=text, is_error=True)


def run_data(run: CaseRun) -> str:
    """The run as JSON, the input of `run_case`."""
    return json.dumps(to_data(run))
