"""One run of a batch, from its prompt to its rest: the same wherever it runs.

`run_case` is the seam: a run as JSON in, its session as JSON Lines out. Keys are in the environment
of whoever runs it, and the run names them. Nothing is asked of a user: a call that no rule decides
ends the run, and one that no rule may run because its arguments do not fit, or its tool is not
there, is answered with what is wrong, as agents do it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from app.core.errors import BadInput
from app.core.events import CallDecided
from app.core.late import dataclass
from app.core.rules import Rule
from app.core.serialization import from_data, to_data
from app.core.session import Call, Session
from app.core.settings import Settings
from app.engine.engine import Engine
from app.engine.export_session import read_bundle
from app.exchange.bundle import write_session

UNSOUND = frozenset(("malformed", "schema", "unknown_tool"))
"""What is wrong with a call by the model's own doing."""

ANSWERED = "a call that cannot run is answered with what is wrong"
"""The rule, in words, by which such a call is answered."""

LOOK_S = 60.0

Look = Callable[[Session], None]
"""Called now and then with the session of a run, as far as it has come."""


@dataclass(frozen=True)
class CaseRun:
    """What one run asks. `session` is the id that its session gets, `batch` that of its batch;
    `rules` decide its calls, and after them those that hold in every session."""

    session: str
    title: str
    prompt: str
    settings: Settings
    rules: tuple[Rule, ...] = ()
    batch: str = ""


async def run_case(run_json: str, engine: Engine) -> bytes:
    """Make the run that `run_json` spells (a CaseRun) on `engine`, whose database may be one that
    is thrown away; the whole session as JSON Lines. BadInput where it spells none."""
    try:
        run = from_data(CaseRun, json.loads(run_json))
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise BadInput(f"This is no run of a batch: {error}") from error
    await perform(engine, run)
    return write_session(await read_bundle(engine, run.session)).data


async def perform(engine: Engine, run: CaseRun, look: Look = lambda session: None) -> None:
    """Make a session of `run` and bring it to its rest. Where this is cancelled the run is stopped,
    and its session says so."""
    sessions, runner, session_id = engine.sessions, engine.runner, run.session
    await sessions.create(run.settings, run.title, session_id=session_id, batch=run.batch)
    engine.rules.lend(session_id, run.rules)
    try:
        await runner.prompt(session_id, run.prompt)
        with sessions.listen(session_id) as bell:
            while True:
                bell.clear()
                async with sessions.holding(session_id) as live:
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


def _answers(session: Session) -> list[CallDecided]:
    """The answers to the calls that wait because the model wrote what cannot run."""
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
    """The run as JSON, which `run_case` reads."""
    return json.dumps(to_data(run))
