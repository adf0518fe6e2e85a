"""What becomes a session of what an agent asks and gets. The agent is this program itself, with
the tap as its provider: what both logs say of the same conversation is compared."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from playground.core.errors import Refused
from playground.core.events import (
    AnswerPassed,
    CallStarted,
    ClientGone,
    RequestReceived,
    Warned,
)
from playground.core.reducer import fold
from playground.core.rules import Rule
from playground.core.session import Prompt
from playground.engine.decisions import DecisionRequest
from playground.engine.fork import ForkPlace, fork
from playground.engine.rules import ALWAYS
from playground.tap.relay import STOPPED
from tests.engines import ALLOW_ALL, create_session, events_of, run_engine
from tests.tables import rest_slow
from tests.tap.tapping import (
    FORECAST,
    MOST_SLOWLY,
    PROTOCOLS,
    WEATHER,
    Tapping,
    both,
    conversation_lines,
    one_turn,
)
from tests.waiting import wait_while_running

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("protocol", rest_slow(PROTOCOLS, 2))
async def test_a_tapped_conversation_is_the_agents_own(tmp_path: Path, protocol: str) -> None:
    async with both(tmp_path, protocol) as (agent, door):
        session_id = await one_turn(agent, door, "What is the weather in Oslo?", "get_weather")
        for prompt in ("And in Bergen?", "Thank you."):
            await agent.runner.prompt(session_id, prompt)
            own = await wait_while_running(agent, session_id)
        (session,) = await door.sessions()
        log = await door.engine.log.events(session.id)
    assert conversation_lines(session) == conversation_lines(own)
    assert session.state == "idle"
    received = events_of(log, RequestReceived)
    assert received[0].matched == "new"
    assert {event.matched for event in received[1:]} <= {"call", "message"}
    assert len(events_of(log, AnswerPassed)) == len(own.turns)
    assert len(events_of(log, CallStarted)) == len(list(own.calls())) > 0
    assert not events_of(log, Warned)


async def test_requests_without_tools_and_sub_agents_are_sessions_of_their_own(
    tmp_path: Path,
) -> None:
    async with both(tmp_path) as (agent, door):
        door.headers["x-claude-code-session-id"] = "s-1"
        main = await one_turn(agent, door, "What is the weather in Oslo?", "get_weather")
        await one_turn(agent, door, "Write a title.", system="You write titles.")
        await agent.runner.prompt(main, "And in Bergen?")
        await wait_while_running(agent, main)
        door.headers["x-claude-code-agent-id"] = "a-1"
        await one_turn(agent, door, "Look up the weather in Rome.", "get_weather")
        sessions = {session.items[0].text: session for session in await door.sessions()}
    first = sessions["What is the weather in Oslo?"]
    assert [item.text for item in first.items if isinstance(item, Prompt)][1:] == ["And in Bergen?"]
    parents = {text: session.tapped and session.tapped.parent for text, session in sessions.items()}
    assert parents == {
        "What is the weather in Oslo?": "",
        "Write a title.": first.id,
        "Look up the weather in Rome.": first.id,
    }
    assert {value.tapped and value.tapped.thread for value in sessions.values()} == {"s-1"}


async def test_a_title_that_is_asked_for_first_is_a_session_of_its_own(tmp_path: Path) -> None:
    """opencode asks so, by the name of the conversation that follows."""
    async with both(tmp_path) as (agent, door):
        door.headers["x-session-id"] = "s-1"
        await one_turn(agent, door, "Write a title.", system="You write titles.")
        main = await one_turn(agent, door, "What is the weather in Oslo?", "get_weather")
        await agent.runner.prompt(main, "And in Bergen?")
        own = await wait_while_running(agent, main)
        sessions = await door.sessions()
        log = await door.engine.log.events(sessions[1].id)
    assert [len(session.turns) for session in sessions] == [1, len(own.turns)]
    assert not events_of(log, Warned)


@pytest.mark.parametrize("headers", [{}, {"session-id": "s-1"}], ids=["nameless", "named"])
async def test_after_a_start_a_conversation_goes_on_where_it_was(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    """By its header or by what it says; a call that runs at the agent stays so meanwhile."""
    (tmp_path / "agent").mkdir()
    async with run_engine(tmp_path / "agent") as agent, Tapping("anthropic").listening() as door:
        door.headers.update(headers)
        async with run_engine(tmp_path) as ours:
            await door.open(ours)
            session_id = await create_session(agent, ["get_weather"], profile=door.profile())
            await agent.runner.prompt(session_id, "What is the weather in Oslo?")
            own = await wait_while_running(agent, session_id)  # its call waits for the agent's user
            assert own.state == "waiting"
        async with run_engine(tmp_path) as ours:
            await door.open(ours)
            (session,) = await door.sessions()
            assert [call.status for call in session.calls()] == ["running"]
            await agent.runner.decide(
                session_id, "1.1", DecisionRequest("run", own.call("1.1").digest)
            )
            own = await wait_while_running(agent, session_id)
            (session,) = await door.sessions()
    assert conversation_lines(session) == conversation_lines(own)
    assert session.state == "idle"


async def test_a_history_that_was_rewritten_is_said_to_be(tmp_path: Path) -> None:
    """The agent forks where it had made a call: what it says from there on follows."""
    async with both(tmp_path) as (agent, door):
        door.headers["session-id"] = "s-1"
        session_id = await one_turn(agent, door, "What is the weather in Oslo?", "get_weather")
        place = ForkPlace(prompt=1)
        forked = await fork(agent, session_id, place, text="What is the weather in Rome?")
        await wait_while_running(agent, forked)
        (session,) = await door.sessions()
    prompts = [item.text for item in session.items if isinstance(item, Prompt)]
    assert prompts == ["What is the weather in Oslo?", "What is the weather in Rome?"]
    marks = [mark.warning.message for mark in session.marks]
    assert marks == ["The agent rewrote its history: 3 messages became 1."]


async def test_what_was_asked_in_vain_is_asked_again_in_the_same_session(tmp_path: Path) -> None:
    async with both(tmp_path) as (agent, door):
        await one_turn(agent, door, "Say it. [[fault:http-429-then-ok-2]]")
        (session,) = await door.sessions()
    assert session.prompts == 1
    assert [turn.dropped for turn in session.turns] == [True, True, False]


async def test_stop_ends_what_is_under_way_and_refuses_what_comes(tmp_path: Path) -> None:
    async with both(tmp_path) as (agent, door):
        await one_turn(agent, door, "What is the weather in Oslo?", "get_weather")
        (session,) = await door.sessions()
        with pytest.raises(Refused, match="An agent runs this session"):
            await door.engine.runner.prompt(session.id, "I am not the agent.")
        body = session.turns[-1].request.body.encode()
        exchange = door.exchange(body)
        await exchange.begin()
        exchange.receive_head(200, [(b"content-type", b"text/event-stream")])
        start = b'event: message_start\ndata: {"type": "message_start", "message": {"id": "m"}}\n\n'
        assert await exchange.pass_on(start) == start
        await door.engine.runner.stop(session.id)
        await exchange.stopped.wait()
        await exchange.leave()
        with pytest.raises(Refused, match="stopped this session"):
            await door.exchange(body).begin()
        await door.engine.runner.resume(session.id)
        again = door.exchange(body)
        await again.begin()
        await again.leave()
        (session,) = await door.sessions()
    failures = [turn.failure and turn.failure.failure for turn in session.turns]
    assert failures[-2:] == ["stopped", "interrupted"]
    assert [turn.client_gone for turn in session.turns][-2:] == [True, True]


async def test_deltas_pass_after_they_are_logged_also_when_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def frame(name: str, **data: Any) -> bytes:
        return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()

    def delta(text: str) -> bytes:
        block = {"type": "text_delta", "text": text}
        return frame("content_block_delta", index=0, delta=block)

    async with both(tmp_path) as (agent, door):
        append = door.engine.sessions.append

        async def fail_once(*_: Any, **named: Any) -> None:
            monkeypatch.setattr(door.engine.sessions, "append", append)
            raise ValueError("It breaks.")

        await one_turn(agent, door, "What is the weather in Oslo?", "get_weather")
        (session,) = await door.sessions()
        exchange = door.exchange(session.turns[-1].request.body.encode())
        await exchange.begin()
        exchange.receive_head(200, [(b"content-type", b"text/event-stream")])
        await exchange.pass_on(frame("message_start", message={"id": "m"}))
        block = {"type": "text", "text": ""}
        await exchange.pass_on(frame("content_block_start", index=0, content_block=block))
        async with asyncio.timeout(30), door.engine.sessions.lock_session(session.id) as live:
            first = asyncio.create_task(exchange.pass_on(delta("One")))
            while not (exchange._followed and exchange._followed.request.unsaved):
                await asyncio.sleep(0)
            assert not first.done()
            assert live.session.turns[-1].text == ""
        assert await first == delta("One")
        assert await exchange.pass_on(delta(", two")) == delta(", two")
        assert live.session.turns[-1].text == "One, two"
        monkeypatch.setattr(door.engine.sessions, "append", fail_once)
        assert await exchange.pass_on(delta(", three")) == delta(", three")
        await wait_while_running(door.engine, session.id)
        assert live.session.turns[-1].failure is not None
        await exchange.leave()


@pytest.mark.parametrize("protocol", MOST_SLOWLY)
@pytest.mark.parametrize("stream", rest_slow([True, False]), ids=["stream", "whole"])
async def test_a_held_call_goes_to_the_agent_as_it_was_decided(
    tmp_path: Path, protocol: str, stream: bool
) -> None:
    """One runs as it is, one with other arguments, one is denied: the agent never had it."""
    async with both(tmp_path, protocol) as (agent, door):
        await door.stop_at("calls")
        session_id = await create_session(
            agent, ["get_weather"], rules=ALLOW_ALL, profile=door.profile(), stream=stream
        )
        await agent.runner.prompt(session_id, "What is the weather in Oslo? [[fault:parallel-3]]")
        held_session = await door.wait_for_held(3)
        async with agent.sessions.lock_session(session_id) as live:
            assert not list(live.session.calls())
        names = [call.id for call in held_session.calls()]
        await door.decide(names[0], "run")
        await door.decide(names[1], "run", arguments='{"city": "Rome"}')
        await door.decide(names[2], "deny", text="Not there.")
        own = await wait_while_running(agent, session_id)
        (session,) = await door.sessions()
        log = await door.engine.log.events(session.id)
    calls = [json.loads(call.written) for call in own.turns[0].calls]
    assert calls == [json.loads(held_session.call(names[0]).written), {"city": "Rome"}]
    assert "Not there." in own.turns[0].text
    assert [call.status for call in session.turns[0].calls] == ["done"] * 3
    kinds = [call.result and call.result.kind for call in session.turns[0].calls]
    assert kinds[2] == "denied"
    (passed, *_) = events_of(log, AnswerPassed)
    assert passed.changed
    assert [turn.text for turn in session.turns[1:]] == [turn.text for turn in own.turns[1:]]
    assert len(session.turns) == len(own.turns)


async def test_what_no_rule_runs_is_held_and_rules_decide_the_rest(tmp_path: Path) -> None:
    async with both(tmp_path) as (agent, door):
        await door.stop_at("unruled")
        session_id = await create_session(
            agent, [FORECAST], rules=ALLOW_ALL, profile=door.profile()
        )
        await agent.runner.prompt(session_id, WEATHER)
        tools = (await door.wait_for_held()).turns[0].settings.tools
        await door.decide("1.1", "run")
        await wait_while_running(agent, session_id)
        rules = door.engine.rules
        await rules.put(ALWAYS, [Rule("forecast", "run")], tools)
        await one_turn(agent, door, WEATHER, FORECAST)
        await rules.put(ALWAYS, [Rule("forecast", "deny", text="No weather.")], tools)
        await door.stop_at("nothing")
        own = await one_turn(agent, door, WEATHER, FORECAST)
        async with agent.sessions.lock_session(own) as live:
            (answer,) = live.session.turns
        _, ran, denied = await door.sessions()
    assert [call.decided and call.decided.rule for call in ran.calls()] == ["run forecast"]
    assert [call.result and call.result.text for call in ran.calls()] == ["Rain."]
    assert [call.result and call.result.text for call in denied.calls()] == ["No weather."]
    assert "No weather." in answer.text


async def test_an_agent_that_left_and_asks_again_meets_the_same_card(tmp_path: Path) -> None:
    async with both(tmp_path) as (agent, door):
        await door.stop_at("calls")
        session_id = await create_session(
            agent, ["get_weather"], rules=ALLOW_ALL, profile=door.profile()
        )
        await agent.runner.prompt(session_id, WEATHER)
        await door.wait_for_held()
        await agent.runner.stop(session_id)
        await agent.runner.retry(session_id)
        await door.decide("1.1", "run", arguments='{"city": "Rome"}')
        own = await wait_while_running(agent, session_id)
        (session,) = await door.sessions()
        log = await door.engine.log.events(session.id)
    assert [json.loads(call.written) for call in own.turns[1].calls] == [{"city": "Rome"}]
    assert len(session.turns) == 2
    joins = [logged.seq for logged in log if getattr(logged.event, "joins", 0) == 1]
    gone = [logged.seq for logged in log if isinstance(logged.event, ClientGone)]
    for last, left in ((gone[0], True), (joins[0], False)):
        then = fold("then", (logged for logged in log if logged.seq <= last))
        assert then.turns[0].client_gone == left
    assert [call.status for call in session.calls()] == ["done"]


async def test_a_held_call_outlives_the_program(tmp_path: Path) -> None:
    """The agent asks again, meets the same card, and gets the answer as it was recorded: upstream
    is asked once."""
    (tmp_path / "agent").mkdir()
    async with run_engine(tmp_path / "agent") as agent, Tapping("anthropic").listening() as door:
        async with run_engine(tmp_path) as ours:
            await door.open(ours)
            await door.stop_at("calls")
            session_id = await create_session(
                agent, ["get_weather"], rules=ALLOW_ALL, profile=door.profile()
            )
            await agent.runner.prompt(session_id, WEATHER)
            await door.wait_for_held()
            door.break_off()
            await wait_while_running(agent, session_id)
        async with run_engine(tmp_path) as ours:
            await door.open(ours)
            session = await door.wait_for_held()
            await agent.runner.retry(session_id)
            await door.decide("1.1", "run")
            own = await wait_while_running(agent, session_id)
            (session,) = await door.sessions()
    assert [call.status for call in own.calls()] == ["done"]
    assert len(session.turns) == 2
    assert [call.status for call in session.calls()] == ["done"]


async def test_stop_denies_what_is_held(tmp_path: Path) -> None:
    async with both(tmp_path) as (agent, door):
        await door.stop_at("calls")
        session_id = await create_session(
            agent, ["get_weather"], rules=ALLOW_ALL, profile=door.profile()
        )
        await agent.runner.prompt(session_id, WEATHER)
        session = await door.wait_for_held()
        await door.engine.runner.stop(session.id)
        own = await wait_while_running(agent, session_id)
        (session,) = await door.sessions()
    assert not list(own.calls())
    assert STOPPED in own.turns[0].text
    assert [call.result and call.result.kind for call in session.calls()] == ["denied"]


@pytest.mark.parametrize("protocol", MOST_SLOWLY)
async def test_a_client_that_waits_is_told_that_it_goes_on(tmp_path: Path, protocol: str) -> None:
    """By what changes nothing of what it reads."""
    async with both(tmp_path, protocol) as (agent, door):
        door.keepalive_s = 0.01
        await door.open(door.engine)
        await door.stop_at("calls")
        session_id = await create_session(
            agent, ["get_weather"], rules=ALLOW_ALL, profile=door.profile()
        )
        await agent.runner.prompt(session_id, WEATHER)
        await door.wait_for_held()
        door.held_since = asyncio.Event()
        await asyncio.wait_for(door.held_since.wait(), 30)
        await door.decide("1.1", "run")
        own = await wait_while_running(agent, session_id)
        (session,) = await door.sessions()
    assert conversation_lines(session) == conversation_lines(own)
    warnings = [warned.code for turn in own.turns for warned in turn.warnings]
    assert set(warnings) <= {"translation"}
