"""Held means nothing has left: what is not decided to run does not reach the agent, whatever goes
wrong meanwhile. The agent is a FakeAgent: what it gets are the bytes of its exchange."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from playground.core.errors import Refused, StoreUnwritable
from playground.core.events import (
    CallChecked,
    CallDecided,
    CallStarted,
    RequestSent,
    RunPaused,
    Warned,
)
from playground.core.rules import Rule
from playground.core.session import Call, Part, Session, Turn
from playground.core.settings import Settings
from playground.engine.decisions import DecisionRequest
from playground.engine.engine import Engine
from playground.engine.rules import ALWAYS
from playground.engine.runner import recover
from playground.net.client import NetworkError
from playground.protocols.editable_answer import NewArguments
from playground.tap import places
from playground.tap.exchange import AgentExchange
from playground.tap.holding import edits_of
from playground.tap.recording import AgentSessions
from playground.tap.relay import Exchange
from tests.engine.unwritable import FullDisk
from tests.engines import events_of, run_engine
from tests.protocols.answers import AnswerPart, body
from tests.tap.agent import KIND, UPSTREAM, FakeAgent, end, make_agent, worked

pytestmark = pytest.mark.anyio

BASH, READ = ("Bash", {"command": "ls"}), ("Read", {"path": "a.txt"})

SETTINGS = Settings(UPSTREAM)

IDLE = ("idle", "idle")


def answer_of(*calls: tuple[str, Any]) -> bytes:
    """An answer with these calls, as JSON."""
    blocks = [
        {"type": "tool_use", "id": f"toolu_{place}", "name": name, "input": value}
        for place, (name, value) in enumerate(calls)
    ]
    answer = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4",
        "content": blocks,
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 1200, "output_tokens": 80},
    }
    return json.dumps(answer).encode()


@asynccontextmanager
async def stopping(
    tmp_path: Path, stop_at: str = "calls"
) -> AsyncIterator[tuple[Engine, FakeAgent]]:
    """An engine, and an agent whose tap stops at `stop_at`."""
    async with run_engine(tmp_path) as engine:
        agent = await make_agent(engine)
        agent.tap = await agent.sessions.taps.set_stop_at(agent.tap.id, stop_at)
        yield engine, agent


async def begun_to_end(exchange: Exchange, *calls: tuple[str, Any]) -> asyncio.Task[bytes]:
    """The answer with `calls` has come; the task gives what the agent gets of it."""
    exchange.receive_head(200, KIND)
    assert await exchange.pass_on(answer_of(*calls)) == b""
    return asyncio.create_task(end(exchange))


async def waiting(engine: Engine, agent: FakeAgent, count: int) -> Session:
    """The agent's session, as soon as so many of its calls wait for a decision."""
    async with asyncio.timeout(20):
        while True:
            position = engine.sessions.position
            for session_id in await engine.log.tapped_sessions(agent.tap.id, 1):
                async with engine.sessions.lock_session(session_id) as live:
                    if len(live.session.waiting) == count:
                        return live.session
            await engine.sessions.wait(position, engine.sessions.list_version, 20)


async def decide(engine: Engine, session: Session, call_id: str, decision: str) -> None:
    decision_request = DecisionRequest(decision, session.call(call_id).digest)
    await engine.runner.decide(session.id, call_id, decision_request)


def names(data: bytes) -> list[str]:
    """The calls of an answer as the agent got it."""
    blocks = json.loads(data)["content"]
    return [block["name"] for block in blocks if block["type"] == "tool_use"]


async def test_stop_takes_back_what_was_decided_and_has_not_left(tmp_path: Path) -> None:
    async with stopping(tmp_path) as (engine, agent):
        got = await begun_to_end(await agent.ask("List."), BASH, READ)
        session = await waiting(engine, agent, 2)
        await decide(engine, session, "1.0", "run")
        await engine.runner.stop(session.id)
        assert names(await asyncio.wait_for(got, 20)) == []


async def test_what_a_rule_answers_waits(tmp_path: Path) -> None:
    """There is nothing yet by which an agent would get the answer."""
    async with stopping(tmp_path) as (engine, agent):
        tools = await _tools(engine, agent)
        await engine.rules.put(ALWAYS, [Rule("Bash", "answer", text="Nothing there.")], tools)
        got = await begun_to_end(await agent.ask("List."), BASH)
        session = await waiting(engine, agent, 1)
        assert not got.done()
        await decide(engine, session, "2.0", "run")
        assert names(await asyncio.wait_for(got, 20)) == ["Bash"]


async def test_an_answer_that_is_no_stream_is_held_for_a_minute(tmp_path: Path) -> None:
    """Then it is cut, and its agent meets the card when it asks again."""
    async with stopping(tmp_path) as (engine, agent):
        now_ms = engine.sessions.clock()
        engine.sessions.clock = lambda: now_ms
        agent.sessions.keepalive_s = 0.0
        got = await begun_to_end(await agent.ask("List."), BASH)
        session = await waiting(engine, agent, 1)
        now_ms += 59_999
        for _ in range(50):
            await asyncio.sleep(0)
        assert not got.done()
        now_ms += 1
        with pytest.raises(NetworkError):
            await asyncio.wait_for(got, 20)
        assert session.turns[0].client_gone
        again = agent.exchange()
        head = await again.begin()
        assert head is not None
        got = asyncio.create_task(end(again))
        await decide(engine, session, "1.0", "run")
        assert names(await asyncio.wait_for(got, 20)) == ["Bash"]
    assert len(session.turns) == 1


async def _tools(engine: Engine, agent: FakeAgent) -> Any:
    exchange = await agent.ask("Hello.")
    await agent.answer(exchange, "Hello.")
    (session_id,) = await engine.log.tapped_sessions(agent.tap.id, 1)
    async with engine.sessions.lock_session(session_id) as live:
        assert live.session.settings is not None
        return live.session.settings.tools


async def test_a_rule_for_one_tool_keeps_back_no_other(tmp_path: Path) -> None:
    async with stopping(tmp_path, "nothing") as (engine, agent):
        tools = await _tools(engine, agent)
        await engine.rules.put(ALWAYS, [Rule("Read", "deny", text="No.")], tools)
        got = await begun_to_end(await agent.ask("List."), BASH, READ)
        assert names(await asyncio.wait_for(got, 20)) == ["Bash"]


@pytest.mark.parametrize("arguments", ['{"path":"/etc/x","x":%s}', '{"path":"/etc/x","x":%s'])
@pytest.mark.parametrize("action", ["deny", "ask", "stop"])
async def test_arguments_that_a_rule_cannot_read_wait(
    tmp_path: Path, action: Any, arguments: str
) -> None:
    """An agent may read what is nested deeper than this program reads, or broken."""
    answer = body("anthropic", [AnswerPart("call", arguments % ("[" * 250 + "]" * 250), "Read")])
    async with stopping(tmp_path, "nothing") as (engine, agent):
        rule = Rule("Read", action, when={"/path": {"prefix": "/etc/"}})
        await engine.rules.put(ALWAYS, [rule], await _tools(engine, agent))
        exchange = await agent.ask("List.")
        exchange.receive_head(200, [(b"content-type", b"text/event-stream")])
        got = await exchange.pass_on(answer)
        ending = asyncio.create_task(end(exchange))
        session = await waiting(engine, agent, 1)
        (call,) = session.waiting
        assert "The arguments cannot be read, so the rule" in call.asks
        await decide(engine, session, call.id, "deny")
        assert b"/etc/" not in got + await asyncio.wait_for(ending, 20)


async def test_every_call_waits_also_behind_a_rule_that_runs_it(tmp_path: Path) -> None:
    async with stopping(tmp_path) as (engine, agent):
        tools = await _tools(engine, agent)
        await engine.rules.put(ALWAYS, [Rule("Bash", "run"), Rule("*", "deny", text="No.")], tools)
        got = await begun_to_end(await agent.ask("List."), BASH, READ)
        session = await waiting(engine, agent, 1)
        await decide(engine, session, "2.0", "run")
        assert names(await asyncio.wait_for(got, 20)) == ["Bash"]


async def test_calls_beyond_those_that_are_shown_do_not_leave(tmp_path: Path) -> None:
    async with stopping(tmp_path, "unruled") as (engine, agent):
        tools = await _tools(engine, agent)
        await engine.rules.put(ALWAYS, [Rule("Bash", "run")], tools)
        got = await begun_to_end(await agent.ask("List."), *[BASH] * 256, READ)
        assert "Read" not in names(await asyncio.wait_for(got, 30))


@pytest.mark.parametrize("since", [RequestSent, CallChecked, CallDecided])
async def test_while_nothing_can_be_saved_nothing_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, since: Any
) -> None:
    """Before the end of the answer is saved, before its calls are decided, before they begin."""
    async with stopping(tmp_path) as (engine, agent):
        agent.sessions.keepalive_s = 0.01
        disk = FullDisk(engine, monkeypatch, since)
        got = await begun_to_end(await agent.ask("List."), BASH)
        if since is CallDecided:
            session = await waiting(engine, agent, 1)
            with suppress(StoreUnwritable):
                await decide(engine, session, "1.0", "run")
        await asyncio.wait_for(disk.noticed(), 20) if since is not CallChecked else None
        await asyncio.wait({got}, timeout=0.05)
        assert not got.done()
        await disk.lifted()
        if since is not CallDecided:
            await decide(engine, await waiting(engine, agent, 1), "1.0", "run")
        assert names(await asyncio.wait_for(got, 20)) == ["Bash"]
        log = await engine.log.events((await waiting(engine, agent, 0)).id)
        assert len(events_of(log, CallDecided)) == 1


def test_a_free_form_call_that_was_edited_gets_text() -> None:
    part = Part(
        0,
        kind="call",
        name="apply_patch",
        provider_id="call_1",
        meta={"type": "custom"},
        seq=1,
        started_ms=0,
        pieces=["old"],
    )
    decided = CallDecided("1.0", "run", digest="d", arguments='{"input": "new"}', where="agent")
    call = Call("1.0", 1, part, None, "decided", decided=decided)
    turn = Turn(
        1,
        RequestSent(
            1, protocol="openai_responses", method="POST", url="", headers={}, body="", model=""
        ),
        SETTINGS,
        1,
        0,
    )
    turn.calls.append(call)
    assert edits_of(turn) == {0: NewArguments("new")}


async def test_stop_holds_before_the_agent_asks_until_it_is_let_go_on(tmp_path: Path) -> None:
    async with stopping(tmp_path, "nothing") as (engine, agent):
        session_id = await worked(agent)
        await engine.runner.stop(session_id)
        with pytest.raises(Refused, match="stopped this session"):
            await agent.ask("And now?")
        await engine.runner.resume(session_id)
        await agent.answer(await agent.ask(), "Now.")
        async with engine.sessions.lock_session(session_id) as live:
            assert [turn.text for turn in live.session.turns][-1] == "Now."


async def test_an_agent_that_leaves_while_its_request_is_taken_in_leaves_nothing_open(
    tmp_path: Path,
) -> None:
    """Wherever it is cut, the next request of the session follows."""
    async with stopping(tmp_path, "nothing") as (engine, agent):
        session_id = await worked(agent)
        agent.messages.append({"role": "user", "content": "And b?"})
        for turns in range(0, 40, 3):
            exchange = agent.exchange()
            asking = asyncio.create_task(exchange.begin())
            for _ in range(turns):
                await asyncio.sleep(0)
            asking.cancel()
            with suppress(asyncio.CancelledError):
                await asking
            await exchange.leave()
        await agent.answer(await agent.ask(), "There is no b.")
        async with engine.sessions.lock_session(session_id) as live:
            assert not [turn.number for turn in live.session.turns if turn.open]
            assert live.session.answer == "There is no b."
        assert len(await engine.log.tapped_sessions(agent.tap.id, 10)) == 1


async def test_what_cannot_be_recorded_is_not_sent_where_it_is_to_be_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay refuses where an exchange that holds cannot begin."""
    async with stopping(tmp_path) as (engine, agent):
        disk = FullDisk(engine, monkeypatch)
        disk.on = True
        exchange = agent.exchange("List.")
        with pytest.raises(StoreUnwritable):
            await exchange.begin()
        assert exchange.holds
        assert not agent.sessions._open


async def test_of_many_sessions_little_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is forgotten is read again: both go on where they were."""
    monkeypatch.setattr(places, "MOST_THREADS", 1)
    async with stopping(tmp_path, "nothing") as (engine, agent):
        other = FakeAgent(agent.sessions, agent.tap, answered=100)
        for asking, prompt in ((agent, "List a."), (other, "List b.")) * 2:
            await asking.answer(await asking.ask(prompt), f"{prompt} That is it.", BASH)
            asking_again = await asking.ask(asking.result_block("Bash", "x"))
            await asking.answer(asking_again, f"{prompt} Done.")
        sessions = await engine.log.tapped_sessions(agent.tap.id, 10)
        assert len(sessions) == 2
        assert len(agent.sessions.places._threads) == 1
        for session_id in sessions:
            assert not events_of(await engine.log.events(session_id), Warned)


async def gone_while_held(agent: FakeAgent, engine: Engine) -> Session:
    """The agent has left while its call waited; its session."""
    exchange = await agent.ask("List.")
    got = await begun_to_end(exchange, BASH)
    session = await waiting(engine, agent, 1)
    got.cancel()
    await asyncio.wait({got})
    await exchange.leave()
    return session


async def test_a_card_is_void_once_its_agent_asks_something_else(tmp_path: Path) -> None:
    async with stopping(tmp_path) as (engine, agent):
        session = await gone_while_held(agent, engine)
        assert [call.id for call in session.waiting] == ["1.0"]
        await agent.answer(await agent.ask("Never mind."), "As you like.")
        async with engine.sessions.lock_session(session.id) as live:
            assert live.session.turns[0].dropped
            assert (len(live.session.turns), live.session.state) == (2, "idle")
        with pytest.raises(Refused, match="This call is void"):
            await decide(engine, session, "1.0", "run")


async def test_a_stopped_session_gives_no_answer_that_was_held(tmp_path: Path) -> None:
    """Once it is let go on, the agent meets its card again."""
    async with stopping(tmp_path) as (engine, agent):
        session = await gone_while_held(agent, engine)
        await engine.runner.stop(session.id)
        with pytest.raises(Refused, match="stopped this session"):
            await agent.ask()
        await engine.runner.resume(session.id)
        got = asyncio.create_task(end(await agent.ask()))
        await decide(engine, session, "1.0", "run")
        assert names(await asyncio.wait_for(got, 20)) == ["Bash"]
        assert len(session.turns) == 1


async def nothing(*_: Any) -> None:
    pass


async def test_an_answer_that_the_program_did_not_see_decided_is_not_paused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the end of the answer and the checks of its calls."""
    async with stopping(tmp_path) as (engine, agent):
        with monkeypatch.context() as killed:
            killed.setattr(engine.runner, "_advance", nothing)
            exchange = await agent.ask("List.")
            exchange.receive_head(200, KIND)
            await exchange.pass_on(answer_of(BASH))
        (session_id,) = await recover(engine.sessions, lambda _: ())
        log = await engine.log.events(session_id)
        assert not events_of(log, RunPaused)
        got = asyncio.create_task(end(exchange))
        session = await waiting(engine, agent, 1)
        await decide(engine, session, "1.0", "run")
        assert names(await asyncio.wait_for(got, 20)) == ["Bash"]


async def test_a_packed_answer_waits_unpacked(tmp_path: Path) -> None:
    """No coding is asked for, but a gateway may send one."""
    async with stopping(tmp_path) as (engine, agent):
        exchange = await agent.ask("List.")
        packed = gzip.compress(answer_of(BASH))
        kind = (*KIND, (b"content-encoding", b"gzip"), (b"content-length", b"%d" % len(packed)))
        assert [*exchange.receive_head(200, kind)] == [*KIND]
        assert await exchange.pass_on(packed) == b""
        got = asyncio.create_task(end(exchange))
        await decide(engine, await waiting(engine, agent, 1), "1.0", "run")
        assert await asyncio.wait_for(got, 20) == answer_of(BASH)


async def test_with_its_tap_the_cards_of_an_agent_that_left_need_nobody(tmp_path: Path) -> None:
    """One that waits still gets its answer."""
    for there in (True, False):
        (tmp_path / str(there)).mkdir()
        async with stopping(tmp_path / str(there)) as (engine, agent):
            if there:
                got = await begun_to_end(await agent.ask("List."), BASH)
                session = await waiting(engine, agent, 1)
            else:
                session = await gone_while_held(agent, engine)
            await engine.runner.leave(session.id)
            async with engine.sessions.lock_session(session.id) as live:
                assert live.session.waits == there
            if there:
                await decide(engine, session, "1.0", "run")
                assert names(await asyncio.wait_for(got, 20)) == ["Bash"]


async def state_of(engine: Engine, session_id: str) -> tuple[str, str]:
    """As the session's page has it, and as the list has it."""
    async with engine.sessions.lock_session(session_id) as live:
        state = live.session.state
    summary = await engine.log.summary(session_id)
    assert summary is not None
    return state, summary.state


async def test_session_is_idle_when_its_agent_gets_a_denial_in_place_of_the_calls(
    tmp_path: Path,
) -> None:
    """Nothing is due: the agent has a text, and may end with it."""
    async with stopping(tmp_path) as (engine, agent):
        got = await begun_to_end(await agent.ask("List."), BASH, READ)
        session = await waiting(engine, agent, 2)
        await decide(engine, session, "1.0", "deny")
        assert await state_of(engine, session.id) == ("waiting", "waiting")
        await decide(engine, session, "1.1", "deny")
        assert names(await asyncio.wait_for(got, 20)) == []
        assert await state_of(engine, session.id) == IDLE


async def test_session_runs_while_its_agent_has_one_call_beside_a_denied_call(
    tmp_path: Path,
) -> None:
    async with stopping(tmp_path) as (engine, agent):
        got = await begun_to_end(await agent.ask("List."), BASH, READ)
        session = await waiting(engine, agent, 2)
        await decide(engine, session, "1.0", "deny")
        await decide(engine, session, "1.1", "run")
        answer = json.loads(await asyncio.wait_for(got, 20))
        assert await state_of(engine, session.id) == ("running", "running")
        agent.messages.append({"role": "assistant", "content": answer["content"]})
        await agent.answer(await agent.ask(agent.result_block("Read", "words")), "It has words.")
        assert await state_of(engine, session.id) == IDLE


@pytest.mark.parametrize("decision", ["deny", "run"])
async def test_session_is_idle_when_its_calls_are_decided_after_its_agent_has_left(
    tmp_path: Path, decision: str
) -> None:
    """The agent that asks again gets the answer, and the session goes on."""
    async with stopping(tmp_path) as (engine, agent):
        session = await gone_while_held(agent, engine)
        await decide(engine, session, "1.0", decision)
        assert await state_of(engine, session.id) == IDLE
        got = await asyncio.wait_for(end(await agent.ask()), 20)
        assert names(got) == (["Bash"] if decision == "run" else [])
        expected = ("running", "running") if decision == "run" else IDLE
        assert await state_of(engine, session.id) == expected


@pytest.mark.parametrize("decision", ["deny", "run"])
async def test_session_is_idle_when_the_program_ended_before_a_decided_answer_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decision: str
) -> None:
    async with stopping(tmp_path) as (engine, agent):
        with monkeypatch.context() as killed:
            killed.setattr(AgentExchange, "_take_decisions", never)
            got = await begun_to_end(await agent.ask("List."), BASH)
            session = await waiting(engine, agent, 1)
            await decide(engine, session, "1.0", decision)
            assert await state_of(engine, session.id) == ("running", "running")
            got.cancel()
            with suppress(asyncio.CancelledError):
                await got
        assert await recover(engine.sessions, lambda _: ()) == [session.id]
        assert await state_of(engine, session.id) == IDLE
        agent.sessions = AgentSessions(engine, agent.sessions.taps, b"key")  # as after a start
        again = await asyncio.wait_for(end(await agent.ask()), 20)
        assert names(again) == (["Bash"] if decision == "run" else [])


async def never(*_: Any) -> bool:
    """Nothing is taken: the program is killed first."""
    return False


async def test_an_answer_that_left_and_was_not_noted_is_the_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full, or the program is killed, right after its calls began."""
    async with stopping(tmp_path) as (engine, agent):
        disk = FullDisk(engine, monkeypatch, CallStarted)
        got = await begun_to_end(await agent.ask("List."), BASH)
        session = await waiting(engine, agent, 1)
        await decide(engine, session, "1.0", "run")
        answer = json.loads(await asyncio.wait_for(got, 20))
        await disk.lifted()
        agent.messages.append({"role": "assistant", "content": answer["content"]})
        await agent.answer(await agent.ask(agent.result_block("Bash", "a.txt")), "There is a.txt.")
        async with engine.sessions.lock_session(session.id) as live:
            first, second = live.session.turns
            assert (first.dropped, first.passed, second.text) == (False, None, "There is a.txt.")
            assert [call.status for call in first.calls] == ["done"]
