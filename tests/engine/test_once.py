"""Exactly once: whatever is decided at the same moment, a call's effect happens once or not at all.

The first tests ask over HTTP from several connections, the others the driver itself: there the
order of things is drawn from a seed, so that a failure comes again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from playground.core.errors import Conflict, Refused
from playground.core.events import (
    CallDecided,
    CallEnded,
    CallExtended,
    CallStarted,
    RunResumed,
    TaskEnded,
    TaskStarted,
)
from playground.core.reducer import digest
from playground.core.rules import Rule
from playground.core.session import Call, Session
from playground.core.tools import Tool, ToolResult, text_result
from playground.engine.decisions import DecisionRequest
from playground.engine.engine import Engine
from playground.executors.executor import Invocation, ReportProgress
from tests.engines import ALLOW_ALL, StartEngine, create_session, events_of, run_engine, run_prompt
from tests.markup import joined_tags
from tests.servers import ServerProcess, messages, run_server_process, wait_for_session
from tests.tables import rest_slow
from tests.waiting import wait_for_event, wait_while_running

pytestmark = pytest.mark.anyio

WISHES = ("run", "answer", "deny")
POLITE = (Conflict, Refused)
TOOL = "def note(text=''):\n    with open({!r}, 'a') as file:\n        file.write('ran\\n')\n"
PARAMETERS = {"type": "object", "properties": {"text": {"type": "string"}}}

NOTE = Tool("note", "Notes a text.", PARAMETERS, config={"result": "noted"}, parallel_safe=True)


@pytest.fixture(scope="module")
def server_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with run_server_process(
        tmp_path_factory.mktemp("once") / "once.db", PLAYGROUND_PACE="0"
    ) as running:
        yield running


@pytest.fixture
async def clients(server_process: ServerProcess) -> AsyncIterator[list[httpx.AsyncClient]]:
    """Five scripts, each on connections of its own."""
    async with AsyncExitStack() as opened:
        yield [await opened.enter_async_context(server_process.client()) for _ in range(5)]


async def noting(client: httpx.AsyncClient, folder: Path) -> tuple[str, Mapping[str, Any]]:
    """A session whose one call, of a tool that appends a line to `effects`, waits."""
    file = folder / "tool.py"
    file.write_text(TOOL.format(str(folder / "effects")))
    config = {"file": str(file), "function": "note"}
    tool = {"name": "note", "parameters": PARAMETERS, "answered_by": "python", "config": config}
    session_id = (await client.post("/sessions", json={"tools": [tool]})).json()["id"]
    await client.post(f"/sessions/{session_id}/prompts", json={"text": "Use note"})
    folded = await wait_for_session(client, session_id)
    assert folded["state"] == "waiting"
    return session_id, folded["calls"][0]


async def one_decision(client: httpx.AsyncClient, path: str, body: Any) -> tuple[bool, Any]:
    answer = await client.post(f"{path}/calls/{body['call']}/decision", json=body)
    assert answer.status_code in (200, 409), answer.text
    return answer.status_code == 200, answer.json()


async def in_a_list(client: httpx.AsyncClient, path: str, body: Any) -> tuple[bool, Any]:
    answer = await client.post(f"{path}/decisions", json=[body])
    assert answer.status_code == 200, answer.text
    (outcome,) = answer.json()
    return outcome["ok"], outcome


@pytest.mark.parametrize("post", rest_slow([one_decision, in_a_list]))
@pytest.mark.parametrize("first", rest_slow(WISHES))
async def test_of_fifty_mixed_decisions_one_wins_and_the_others_hear_of_it(
    clients: list[httpx.AsyncClient], tmp_path: Path, first: str, post: Any
) -> None:
    session_id, call = await noting(clients[0], tmp_path)
    chance = Random(first)
    wishes = [first, *(chance.choice(WISHES) for _ in range(49))]
    bodies = [
        {"call": call["id"], "decision": wish, "digest": call["digest"], "text": wish}
        for wish in wishes
    ]
    lines = await asyncio.gather(
        *(
            post(clients[place % 5], f"/sessions/{session_id}", body)
            for place, body in enumerate(bodies)
        )
    )
    (winner,) = [body["decision"] for body, (won, _) in zip(bodies, lines, strict=True) if won]
    lost = [outcome for won, outcome in lines if not won]
    assert len(lost) == 49
    assert {(item["call"], item["decision"], item["decided_by"]) for item in lost} == {
        (call["id"], winner, "person")
    }
    assert {item["error"] for item in lost} <= {
        "This call was already decided.",
        "This card is out of date. Check the call again.",
    }
    await wait_for_session(clients[0], session_id)
    effects = tmp_path / "effects"
    assert (effects.read_text() if effects.exists() else "") == "ran\n" * (winner == "run")


async def test_the_other_tab_is_shown_what_was_decided(
    clients: list[httpx.AsyncClient], tmp_path: Path
) -> None:
    """Both tabs have the card; one denies, the other's Run is refused, and its card says so."""
    session_id, call = await noting(clients[0], tmp_path)
    path = f"/sessions/{session_id}"
    cursor = (await clients[0].get(path)).json()["seq"]
    block = f"call-{call['id'].replace('.', '-')}"
    accept = {"accept": "text/event-stream"}
    async with (
        asyncio.timeout(20),
        clients[1].stream("GET", f"{path}/stream?after={cursor}", headers=accept) as stream,
    ):
        body = {"call": call["id"], "digest": call["digest"]}
        won, _ = await one_decision(
            clients[0], path, {**body, "decision": "deny", "text": "No, <never>."}
        )
        late, outcome = await one_decision(clients[1], path, {**body, "decision": "run"})
        assert (won, late, outcome["decision"]) == (True, False, "deny")
        page_html = ""
        async for message in messages(stream):
            html = joined_tags(message.get("data", ""))
            _, card, page_html = html.rpartition(f'<article id="{block}"')
            if card and 'data-status="done"' in page_html:
                break
        assert "No, &lt;never&gt;." in page_html.partition("</article>")[0]
    assert not (tmp_path / "effects").exists()


# The rest asks the runner itself; what a tool does is only counted.


class Effects:
    """In the place of the executors: how often each call was run, and what it was run with. What
    `hangs` runs until it is ended."""

    def __init__(self, engine: Engine, *, hangs: bool = False) -> None:
        self.ran: list[Invocation] = []
        self.hangs = hangs
        engine.executors.run = self  # type: ignore[method-assign]

    async def __call__(self, invocation: Invocation, report: ReportProgress) -> ToolResult:
        self.ran.append(invocation)
        await (asyncio.Event().wait() if self.hangs else asyncio.sleep(0))
        return text_result("noted")


async def waiting(engine: Engine, prompt: str = "Use note", tool: Tool = NOTE) -> Session:
    session = await run_prompt(engine, prompt, tool)
    assert session.state == "waiting"
    return session


async def stop(engine: Engine, session: Session) -> None:
    await engine.runner.stop(session.id)


async def cancel(engine: Engine, session: Session) -> None:
    await engine.runner.cancel(session.id, next(session.calls()).id)


async def rule(engine: Engine, session: Session) -> None:
    """As a card's Always does: one written here decides what waits here."""
    await engine.rules.add(session.id, Rule("note", "run", here=session.id), [NOTE])
    await engine.runner.advance(session.id)


async def change(engine: Engine, session: Session) -> None:
    assert session.settings is not None
    changed = replace(session.settings, system="Another.", tools=())
    await engine.runner.settings(session.id, changed)


async def proceed(engine: Engine, session: Session) -> None:
    await engine.runner.resume(session.id)


MEANWHILE = ((stop,), (cancel,), (rule,), (change,), (stop, proceed), (rule, stop, cancel, change))


@pytest.mark.parametrize("others", MEANWHILE)
async def test_whatever_happens_meanwhile_a_call_runs_once_or_not(
    others: tuple[Any, ...], engine: Engine
) -> None:
    for seed in range(4):
        effects, chance = Effects(engine), Random(seed)
        session = await waiting(engine)
        (call,) = session.waiting

        async def decide(
            wish: str, chance: Random = chance, session: Session = session, call: Call = call
        ) -> None:
            for _ in range(chance.randrange(12)):
                await asyncio.sleep(0)
            await engine.runner.decide(session.id, call.id, DecisionRequest(wish, call.digest))

        work = [decide(chance.choice(WISHES)) for _ in range(20)]
        work += [other(engine, session) for other in others for _ in range(2)]
        chance.shuffle(work)
        outcomes = await asyncio.gather(*work, return_exceptions=True)
        for outcome in outcomes:
            assert outcome is None or isinstance(outcome, POLITE), outcome
            assert outcome is None or len(str(outcome).split()) > 3
        await wait_while_running(engine, session.id)
        log = await engine.log.events(session.id)
        decided = events_of(log, CallDecided)
        runs = sum(item.decision == "run" for item in decided)
        assert len(decided) <= 1
        assert len(effects.ran) == len(events_of(log, CallStarted)) <= runs
        assert len(events_of(log, CallEnded)) <= 1


async def extend(engine: Engine, session: Session) -> None:
    await engine.runner.extend(session.id, next(session.calls()).id, 30)


async def put_behind(engine: Engine, session: Session) -> None:
    await engine.runner.move_to_background(session.id, next(session.calls()).id)


async def test_whatever_befalls_a_call_that_runs_it_ends_once(tmp_path: Path) -> None:
    """Cancelled, given time, put into the background, stopped, all at once and twice."""
    all_at_once, tasks = (cancel, extend, stop, change, proceed), 0
    async with run_engine(tmp_path) as engine:
        for seed in range(6):
            effects, chance = Effects(engine, hangs=True), Random(seed)
            session = await waiting(engine)
            (call,) = session.waiting
            await engine.runner.decide(session.id, call.id, DecisionRequest("run", call.digest))
            chosen = [put_behind, *chance.sample(all_at_once, 2)] * 2
            chance.shuffle(chosen)
            outcomes = await asyncio.gather(
                *(item(engine, session) for item in chosen), return_exceptions=True
            )
            for outcome in outcomes:
                assert outcome is None or isinstance(outcome, POLITE), outcome
            await engine.runner.stop(session.id)
            session = await wait_while_running(engine, session.id)
            log = await engine.log.events(session.id)
            assert len(effects.ran) == len(events_of(log, CallStarted)) == 1
            assert len(events_of(log, CallEnded)) == 1
            ends = [logged.seq for logged in log if isinstance(logged.event, CallEnded)]
            assert all(
                logged.seq < ends[0] for logged in log if isinstance(logged.event, CallExtended)
            )
            ended = {item.how for item in events_of(log, TaskEnded)}
            assert len(events_of(log, TaskStarted)) == len(ended) <= 1
            assert ended <= {"stopped by you", "stopped with the run"}
            tasks += len(ended)
            assert (session.open_tasks, engine.runner._running._running) == ([], {})
    assert tasks


async def test_of_clicks_on_continue_one_goes_on(engine: Engine) -> None:
    """The others hear that nothing is paused: no limit is lifted twice by one double click."""
    effects = Effects(engine, hangs=True)
    session_id = await create_session(engine, [NOTE], rules=ALLOW_ALL)
    await engine.runner.prompt(session_id, "[[fault:loop]] Use note")
    await wait_for_event(engine, session_id, CallStarted)
    await engine.runner.stop(session_id)
    clicks = [engine.runner.resume(session_id) for _ in range(10)]
    base_exceptions = await asyncio.gather(*clicks, return_exceptions=True)
    assert (
        base_exceptions.count(None),
        {str(base_exception) for base_exception in base_exceptions if base_exception},
    ) == (
        1,
        {"Nothing is paused here."},
    )
    await engine.runner.stop(session_id)
    assert len(events_of(await engine.log.events(session_id), RunResumed)) == 1
    assert len(effects.ran) <= 2


def stale(session: Session, call: Call) -> dict[str, str]:
    """Digests of what is not this call as it stands."""
    edited = replace(NOTE, config={"result": "another"})
    held_call = session.call("1.1")
    return {
        "no digest of this": "0" * 64,
        "another call": held_call.digest,
        "another attempt": digest(session, replace(call, interruptions=1), call.code),
        "an edited tool": digest(session, replace(call, tool=edited), call.code),
        "another file": digest(session, call, "f" * 64),
        "other arguments": digest(session, replace(call, part=_with(call, "{}")), call.code),
        "another session": digest(replace(session, id="another"), call, call.code),
        "its beginning": call.digest[:32],
        "in capitals": call.digest.upper(),
    }


def _with(call: Call, text: str) -> Any:
    return replace(call.part, pieces=[text], length=len(text))


@pytest.mark.parametrize("wish", WISHES)
async def test_a_decision_on_anything_else_is_refused_and_nothing_runs(
    wish: str, engine: Engine
) -> None:
    effects = Effects(engine)
    session = await waiting(engine, "[[fault:parallel-2]] Use note")
    call = session.call("1.0")
    assert digest(session, call, call.code) == call.digest
    before = await engine.log.events(session.id)
    for what, stale_decision in stale(session, call).items():
        with pytest.raises(Conflict, match="out of date") as caught:
            await engine.runner.decide(session.id, call.id, DecisionRequest(wish, stale_decision))
        assert caught.value.outcome["digest"] == call.digest, what
    assert await engine.log.events(session.id) == before
    assert effects.ran == []


async def test_a_tool_that_is_edited_meanwhile_runs_as_the_card_showed_it(engine: Engine) -> None:
    effects = Effects(engine)
    session = await waiting(engine)
    (call,) = session.waiting
    assert session.settings is not None
    edited = replace(NOTE, config={"result": "another"})
    await engine.runner.settings(session.id, replace(session.settings, tools=(edited,)))
    await engine.runner.decide(session.id, call.id, DecisionRequest("run", call.digest))
    await wait_while_running(engine, session.id)
    assert [invocation.tool for invocation in effects.ran] == [NOTE]


async def test_a_rule_for_always_leaves_other_sessions_calls_to_the_person(engine: Engine) -> None:
    """Two sessions, one rule: it decides what waits where it was written, and what comes later."""
    effects = Effects(engine)
    here, there = await waiting(engine), await waiting(engine)
    written = Rule("note", "run", words="always", here=here.id)
    await engine.rules.add("", written, [NOTE])
    await asyncio.gather(*(engine.runner.advance(session.id) for session in (here, there) * 3))
    assert (await wait_while_running(engine, here.id)).state == "idle"
    assert (await wait_while_running(engine, there.id)).state == "waiting"
    assert [invocation.session for invocation in effects.ran] == [here.id]
    new = [await create_session(engine, [NOTE]) for _ in range(2)]
    await asyncio.gather(*(engine.runner.prompt(text, "Use note") for text in new))
    assert [(await wait_while_running(engine, text)).state for text in new] == ["idle", "idle"]
    assert sorted(invocation.session for invocation in effects.ran) == sorted([here.id, *new])


async def test_a_rule_that_fits_the_new_file_decides_in_one_hold_with_the_refusal(
    tmp_path: Path, start_engine: StartEngine
) -> None:
    """The card is stale, and what the call is now a rule runs: no call waits without a reason."""
    file = tmp_path / "tool.py"
    file.write_text(TOOL.format(str(tmp_path / "effects")))
    tool = replace(NOTE, answered_by="python", config={"file": str(file), "function": "note"})
    engine = await start_engine()
    session = await waiting(engine, tool=tool)
    (call,) = session.waiting
    digest, effects = call.digest, Effects(engine)
    file.write_text(file.read_text() + "# another\n")
    await engine.rules.add(session.id, Rule("note", "run", here=session.id), [tool])
    await engine.runner.advance(session.id)
    assert call.status == "waiting"  # as it was checked, it is not what the rule is bound to
    with pytest.raises(Conflict, match="has changed since this card") as caught:
        await engine.runner.decide(session.id, call.id, DecisionRequest("run", digest))
    assert json.dumps(caught.value.outcome)
    assert (caught.value.outcome["decision"], caught.value.outcome["decided_by"]) == (
        "run",
        "rule",
    )
    assert (await wait_while_running(engine, session.id)).state == "idle"
    assert [invocation.code for invocation in effects.ran] == [call.code]
