"""Results that are held on their way to the provider: nothing of one leaves before it is decided,
and what was decided of it holds in every later request."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from playground.core.errors import Conflict, PlaygroundError, Refused
from playground.core.events import (
    CallEnded,
    CallProgressed,
    ClientGone,
    RequestReceived,
    RequestSent,
)
from playground.core.session import Session
from playground.core.settings import Profile
from playground.core.tools import text_result
from playground.engine.decisions import DecisionRequest, ResultDecision
from playground.engine.engine import Engine
from playground.engine.runner import RetryWaits
from playground.protocols.request import ResultMessage
from playground.tap.exchange import AgentExchange
from playground.tap.history import read_body
from playground.tap.holding import has_failed, result_of
from playground.tap.recording import AgentSessions
from playground.tap.relay import (
    STOPPED,
    AgentRequest,
    Exchange,
    RefusedRequest,
    _GuardedExchange,
)
from playground.tap.taps import Tap
from tests.engines import ALLOW_ALL, StartEngine, create_session, events_of, run_engine
from tests.protocols.test_body_edits import three_results
from tests.tap.agent import KIND, FakeAgent, end, taps_of
from tests.tap.tapping import FORECAST, MOST_SLOWLY, PROTOCOLS, WEATHER, both
from tests.tap.test_holding import BASH, READ, answer_of, decide, stopping, waiting
from tests.waiting import wait_while_running

pytestmark = pytest.mark.anyio

LATER = 10

LS: dict[str, Any] = {
    "role": "assistant",
    "tool_calls": [{"function": {"name": "ls", "arguments": {}}}],
}
SAME = {"role": "tool", "tool_name": "ls", "content": "a.txt"}


@pytest.mark.parametrize("protocol", MOST_SLOWLY)
@pytest.mark.parametrize(
    "stream", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["stream", "whole"]
)
async def test_an_edited_result_is_still_edited_ten_turns_later(
    tmp_path: Path, protocol: str, stream: bool
) -> None:
    """The provider gets, byte for byte, what it would get had the agent's tool said so."""
    async with both(tmp_path, protocol) as (agent, door):
        await door.stop_at("results")
        session_id = await create_session(
            agent, [FORECAST], rules=ALLOW_ALL, profile=door.profile(), stream=stream
        )
        await agent.runner.prompt(session_id, WEATHER)
        held_session = await door.wait_for_held()
        assert (held_session.state, len(held_session.turns), held_session.call("1.1").status) == (
            "waiting",
            1,
            "running",
        )
        await door.decide_result("1.1", "Snow.")
        await door.stop_at("nothing")
        for _ in range(LATER):
            await wait_while_running(agent, session_id)
            await agent.runner.prompt(session_id, "Thank you.")
        own = await wait_while_running(agent, session_id)
        (session,) = await door.sessions()
    assert len(own.turns) == len(session.turns) == LATER + 2
    assert "Snow" in own.turns[1].text
    for ours, theirs in zip(own.turns, session.turns, strict=True):
        assert theirs.request.body == ours.request.body.replace("Rain.", "Snow.")
    (call,) = session.calls()
    assert (call.result and call.result.text) == "Snow."
    assert (call.real and call.real.text) == "Rain."
    assert not session.marks


# The agent is a FakeAgent: what goes on to the provider is its exchange's `body`, or what it sent.


async def ask_and_answer(agent: FakeAgent, *calls: Any) -> None:
    """It has asked, and runs these calls."""
    await agent.answer(await agent.ask("List the files."), *calls)


async def returning(
    engine: Engine, agent: FakeAgent, *results: Any, held_count: int = 1
) -> tuple[Exchange, asyncio.Task[Any], Session]:
    """Its next request, with these results, waits for decisions on so many of them."""
    exchange = agent.exchange(*results)
    task = asyncio.create_task(exchange.begin())
    return exchange, task, await waiting(engine, agent, held_count)


async def let_pass(engine: Engine, session: Session, call_id: str, text: str | None = None) -> None:
    digest = session.call(call_id).digest
    await engine.runner.decide_result(session.id, call_id, ResultDecision(digest, text))


async def leaves(task: asyncio.Task[Any], exchange: Exchange) -> None:
    """What the relay does where the client goes."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await exchange.leave()


def has_gone(session: Session) -> bool:
    return session.received_gone


def sent_results(session: Session, turn: int) -> list[str]:
    """What the provider was told of calls with a request."""
    blocks = json.loads(session.turns[turn].request.body)["messages"][-1]["content"]
    return [block["content"] for block in blocks if block["type"] == "tool_result"]


async def test_nothing_of_a_held_result_goes_on_before_it_is_decided(tmp_path: Path) -> None:
    """What is let pass as it is leaves every byte of the request as it came."""
    async with stopping(tmp_path, "results") as (engine, agent):
        await ask_and_answer(agent, BASH, READ)
        results = (
            agent.result_block("Bash", "a.txt"),
            agent.result_block("Read", "Hello.", is_error=True),
        )
        exchange, task, session = await returning(engine, agent, *results, held_count=2)
        real_results = [
            call.real and (call.real.text, call.real.is_error) for call in session.waiting
        ]
        assert real_results == [("a.txt", False), ("Hello.", True)]
        log = await engine.log.events(session.id)
        assert len(events_of(log, RequestSent)) == 1
        with pytest.raises(Conflict):
            await engine.runner.decide_result(session.id, "1.0", ResultDecision("0" * 64, "b"))
        await let_pass(engine, session, "1.1")
        assert not task.done()
        await let_pass(engine, session, "1.0")
        await asyncio.wait_for(task, 20)
        assert exchange.body is None
        with pytest.raises(Conflict):
            await let_pass(engine, session, "1.0", "too late")
        await agent.answer(exchange, "There is a.txt.")
        log = await engine.log.events(session.id)
    kinds = [type(logged.event) for logged in log]
    assert kinds.index(CallEnded) < len(kinds) - kinds[::-1].index(RequestSent)
    assert [event.real for event in events_of(log, CallEnded)] == [None, None]


async def test_a_result_behind_a_word_of_the_system_is_held(tmp_path: Path) -> None:
    async with stopping(tmp_path, "results") as (engine, agent):
        await ask_and_answer(agent, BASH)
        result = agent.result_block("Bash", "a.txt")
        agent.messages.append({"role": "system", "content": "The user opened a file."})
        _, task, session = await returning(engine, agent, result)
        assert not task.done()
        await let_pass(engine, session, "1.0")
        await asyncio.wait_for(task, 20)


async def test_only_errors_are_held(tmp_path: Path) -> None:
    """Results beside one that is held are in the log at once, and go on with it."""
    async with stopping(tmp_path, "errors") as (engine, agent):
        await ask_and_answer(agent, BASH, READ)
        results = (
            agent.result_block("Bash", "a.txt"),
            agent.result_block("Read", "No.", is_error=True),
        )
        exchange, task, session = await returning(engine, agent, *results)
        assert [call.id for call in session.waiting] == ["1.1"]
        assert session.call("1.0").status == "done"
        await let_pass(engine, session, "1.1", "It is empty.")
        await asyncio.wait_for(task, 20)
        assert b"No." not in (exchange.body or b"")
        assert sent_results(session, 1) == ["a.txt", "It is empty."]
        await agent.answer(exchange, "It is empty.", BASH)
        exchange = await agent.ask(agent.result_block("Bash", "b.txt"))
        assert b"It is empty." in (exchange.body or b"")


async def test_an_agent_that_left_and_asks_again_meets_the_same_card(tmp_path: Path) -> None:
    """Decided while it was away, the result goes on at once when it comes."""
    async with stopping(tmp_path, "results") as (engine, agent):
        await ask_and_answer(agent, BASH)
        exchange, task, session = await returning(
            engine, agent, agent.result_block("Bash", "a.txt")
        )
        await leaves(task, exchange)
        assert has_gone(session)
        assert session.state == "waiting"
        exchange = agent.exchange()
        task = asyncio.create_task(exchange.begin())
        while has_gone(session):
            await asyncio.sleep(0)
        await leaves(task, exchange)
        await let_pass(engine, session, "1.0", "b.txt")
        assert [session.state] == ["idle"], "nothing is due before the agent asks again"
        exchange = agent.exchange()
        await asyncio.wait_for(exchange.begin(), 20)
        assert sent_results(session, 1) == ["b.txt"]
        log = await engine.log.events(session.id)
        assert len(await engine.log.tapped_sessions(agent.tap.id, 9)) == 1
    assert len(events_of(log, CallProgressed)) == 1
    assert len(events_of(log, RequestReceived)) == 4
    assert len(events_of(log, ClientGone)) == 2


async def test_another_result_is_another_card_and_another_prompt_makes_it_void(
    tmp_path: Path,
) -> None:
    async with stopping(tmp_path, "results") as (engine, agent):
        await ask_and_answer(agent, BASH)
        exchange, task, before = await returning(engine, agent, agent.result_block("Bash", "a.txt"))
        digest = before.call("1.0").digest
        await leaves(task, exchange)
        agent.messages.pop()
        exchange, task, session = await returning(
            engine, agent, agent.result_block("Bash", "b.txt")
        )
        while session.call("1.0").digest == digest:
            await asyncio.sleep(0)
        with pytest.raises(Conflict):
            await engine.runner.decide_result(session.id, "1.0", ResultDecision(digest))
        await leaves(task, exchange)
        agent.messages.pop()
        await agent.ask("Something else.")
        assert session.call("1.0").status == "interrupted"
        with pytest.raises(Refused):
            await let_pass(engine, session, "1.0")


async def test_two_at_once_are_two_and_the_result_of_both_is_decided_once(tmp_path: Path) -> None:
    async with stopping(tmp_path, "results") as (engine, agent):
        await ask_and_answer(agent, BASH)
        _, task, session = await returning(engine, agent, agent.result_block("Bash", "a.txt"))
        other = agent.exchange()
        assert isinstance(other, AgentExchange)
        beside = asyncio.create_task(other.begin())
        while not other.behind:
            await asyncio.sleep(0)
        await let_pass(engine, session, "1.0", "b.txt")
        await asyncio.wait_for(asyncio.gather(task, beside), 20)
        assert b"a.txt" not in (other.body or b"a.txt")
        assert len(await engine.log.tapped_sessions(agent.tap.id, 9)) == 2


async def test_request_that_waits_elsewhere_when_waiting_fails_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also at a tap that stops at nothing: what it repeats waits for a decision."""

    async def fail(_: str) -> Tap:
        raise OSError("The disk cannot be read.")

    async with stopping(tmp_path, "results") as (engine, agent):
        await ask_and_answer(agent, BASH)
        _, task, session = await returning(engine, agent, agent.result_block("Bash", "a.txt"))
        agent.tap = replace(agent.tap, stop_at="nothing")
        other = agent.exchange()
        assert isinstance(other, AgentExchange)
        guarded = _GuardedExchange(lambda _: other, other.request, str)
        side = asyncio.create_task(guarded.begin())
        while not other.behind:
            await asyncio.sleep(0)
        monkeypatch.setattr(agent.sessions.taps, "get", fail)
        await let_pass(engine, session, "1.0", "b.txt")
        with pytest.raises(RefusedRequest):
            await asyncio.wait_for(side, 20)
        await asyncio.wait({task}, timeout=20)
        assert isinstance(task.exception(), OSError)


async def test_what_an_agent_asks_on_the_side_has_the_edited_result(tmp_path: Path) -> None:
    """Claude Code has its history put together by a request with another system prompt."""
    async with stopping(tmp_path, "results") as (engine, agent):
        agent.ids = {"x-claude-code-session-id": "s-1"}
        await ask_and_answer(agent, BASH)
        exchange, task, session = await returning(
            engine, agent, agent.result_block("Bash", "a.txt")
        )
        await let_pass(engine, session, "1.0", "b.txt")
        await asyncio.wait_for(task, 20)
        await agent.answer(exchange, "There is b.txt.")
        agent.system, agent.tools = "You sum up.", ()
        side = await agent.ask("Sum up.")
        assert b"a.txt" not in (side.body or b"a.txt")
        assert len(await engine.log.tapped_sessions(agent.tap.id, 9)) == 2


def ollama_asks(agent: FakeAgent, *messages: dict[str, Any]) -> AgentExchange:
    body = {"model": "m", "messages": messages, "stream": False}
    request = AgentRequest(
        agent.tap,
        door="ollama",
        method="POST",
        target=b"/api/chat",
        headers=[*KIND, (b"x-session-id", b"s-1")],
        body=json.dumps(body).encode(),
        url="http://127.0.0.1:11434/api/chat",
        profile=Profile("ollama", "ollama", "http://127.0.0.1:11434"),
        at_ms=0,
    )
    return AgentExchange(agent.sessions, request)


async def says(exchange: Exchange, message: Any) -> bytes:
    exchange.receive_head(200, KIND)
    answer = {"model": "m", "message": message, "done": True, "done_reason": "stop"}
    return await exchange.pass_on(json.dumps(answer).encode()) + await end(exchange)


async def test_of_equal_calls_without_ids_each_has_its_own_edit(tmp_path: Path) -> None:
    """Also where the agent has left out the first ones."""
    async with stopping(tmp_path, "results") as (engine, agent):
        asks = partial(ollama_asks, agent)
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
        exchange = asks(*messages)
        await exchange.begin()
        for turn, text in enumerate(("first", None, "third"), 1):
            await says(exchange, LS)
            messages += [LS, SAME]
            exchange = asks(*messages)
            going_on = asyncio.create_task(exchange.begin())
            session = await waiting(engine, agent, 1)
            await let_pass(engine, session, f"{turn}.0", text)
            await asyncio.wait_for(going_on, 20)
        await says(exchange, {"role": "assistant", "content": "Done."})
        summed_up = [{"role": "user", "content": "In sum."}]
        on = {"role": "user", "content": "On."}
        for before, texts in (
            (messages, ["first", "a.txt", "third"]),
            ([*summed_up, *messages[3:]], ["a.txt", "third"]),
            ([*summed_up, *messages[5:]], ["third"]),
        ):
            exchange = asks(*before, on)
            await exchange.begin()
            sent = json.loads(exchange.body or b"")["messages"]
            assert [each["content"] for each in sent if each["role"] == "tool"] == texts
            await exchange.leave()


async def test_of_calls_with_one_id_each_has_its_own_edit(tmp_path: Path) -> None:
    """Some providers count their ids anew in each answer."""
    url = "http://127.0.0.1:11434/v1"
    function = {"name": "ls", "arguments": "{}"}
    calls = {"tool_calls": [{"id": "call_0", "type": "function", "function": function}]}
    call: dict[str, Any] = {"role": "assistant", "content": None, **calls}
    result = {"role": "tool", "tool_call_id": "call_0", "content": "a.txt"}
    async with stopping(tmp_path, "results") as (engine, agent):

        async def asks(*messages: dict[str, Any]) -> AgentExchange:
            request = AgentRequest(
                agent.tap,
                door="openai",
                method="POST",
                target=b"/v1/chat/completions",
                headers=[*KIND, (b"x-session-id", b"s-1")],
                body=json.dumps({"model": "m", "messages": messages}).encode(),
                url=f"{url}/chat/completions",
                profile=Profile("local", "openai_chat", url),
                at_ms=0,
            )
            exchange = AgentExchange(agent.sessions, request)
            await exchange.begin()
            return exchange

        messages: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
        exchange = await asks(*messages)
        for turn, text in enumerate(("first", None, "third"), 1):
            exchange.receive_head(200, KIND)
            choice = {"index": 0, "message": call, "finish_reason": "tool_calls"}
            answer = {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}
            await exchange.pass_on(json.dumps(answer).encode())
            await end(exchange)
            messages += [call, result]
            going_on = asyncio.create_task(asks(*messages))
            session = await waiting(engine, agent, 1)
            await let_pass(engine, session, f"{turn}.0", text)
            exchange = await asyncio.wait_for(going_on, 20)
        await exchange.leave()
        on = {"role": "user", "content": "On."}
        for left_out, texts in ((0, ["first", "a.txt", "third"]), (2, ["a.txt", "third"])):
            exchange = await asks(messages[0], *messages[1 + left_out :], on)
            sent = json.loads(exchange.body or b"")["messages"]
            await exchange.leave()
            assert [each["content"] for each in sent if each["role"] == "tool"] == texts


@pytest.mark.parametrize("third", ["denied", "put back", "aborted"])
async def test_an_equal_call_that_came_to_nothing_moves_no_edit(tmp_path: Path, third: str) -> None:
    """One that the agent never got, also beside one that is put back, and one that it has without a
    result."""
    async with stopping(tmp_path, "results") as (engine, agent):
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
        exchange = ollama_asks(agent, *messages)
        await exchange.begin()
        for turn, text in enumerate(("first", "second"), 1):
            await says(exchange, LS)
            messages += [LS, SAME]
            exchange = ollama_asks(agent, *messages)
            going_on = asyncio.create_task(exchange.begin())
            session = await waiting(engine, agent, 1)
            await let_pass(engine, session, f"{turn}.0", text)
            await asyncio.wait_for(going_on, 20)
        if third != "aborted":
            done = {"role": "assistant", "content": "Done."}
            await says(exchange, done)
            agent.tap = await agent.sessions.taps.set_stop_at(agent.tap.id, "calls")
            messages += [done, {"role": "user", "content": "More."}]
            exchange = ollama_asks(agent, *messages)
            await exchange.begin()
            count = 2 if third == "put back" else 1
            more = {"role": "assistant", "tool_calls": LS["tool_calls"] * count}
            got = asyncio.create_task(says(exchange, more))
            session = await waiting(engine, agent, count)
            for call, decision in zip(list(session.waiting), ("deny", "answer"), strict=False):
                decision_request = DecisionRequest(decision, call.digest, text="No.")
                await engine.runner.decide(session.id, call.id, decision_request)
            messages.append(json.loads(await asyncio.wait_for(got, 20))["message"])
        else:
            await says(exchange, LS)
            messages.append(LS)
        exchange = ollama_asks(agent, *messages, {"role": "user", "content": "On."})
        await exchange.begin()
        sent = json.loads(exchange.body or b"")["messages"]
        await exchange.leave()
    results = [each["content"] for each in sent if each["role"] == "tool"]
    assert results[:2] == ["first", "second"]
    assert len(results) == (4 if third == "put back" else 2)


async def test_stop_refuses_what_waits_and_nothing_is_decided(tmp_path: Path) -> None:
    async with stopping(tmp_path, "results") as (engine, agent):
        await ask_and_answer(agent, BASH)
        _, task, session = await returning(engine, agent, agent.result_block("Bash", "a.txt"))
        await engine.runner.stop(session.id)
        with pytest.raises(Refused, match=STOPPED):
            await asyncio.wait_for(task, 20)
        assert (session.state, session.received_gone) == ("interrupted", True)
        with pytest.raises(Refused):
            await let_pass(engine, session, "1.0")
        await engine.runner.resume(session.id)
        assert session.state == "waiting"
        again = asyncio.create_task(agent.exchange().begin())
        await let_pass(engine, session, "1.0")
        await asyncio.wait_for(again, 20)
        assert len(session.turns) == 2


async def test_a_tap_that_is_revoked_lets_nothing_pass_that_waits(tmp_path: Path) -> None:
    """Also where it stops at nothing by now, and whoever asked first, or on the side."""
    async with stopping(tmp_path, "results") as (engine, agent):
        await ask_and_answer(agent, BASH)
        first, task, session = await returning(engine, agent, agent.result_block("Bash", "a.txt"))
        await leaves(task, first)
        taps = agent.sessions.taps
        agent.tap = await taps.set_stop_at(agent.tap.id, "nothing")
        again, aside = agent.exchange(), agent.exchange()
        tasks = [asyncio.create_task(again.begin())]
        while has_gone(session):
            await asyncio.sleep(0)
        tasks.append(asyncio.create_task(aside.begin()))
        assert isinstance(aside, AgentExchange)
        while not aside.behind:
            await asyncio.sleep(0)
        await taps.revoke(agent.tap.id)
        outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)
        assert [type(outcome) for outcome in outcomes] == [Refused, Refused]
        assert len(session.turns) == 1
        assert len(await engine.log.tapped_sessions(agent.tap.id, 9)) == 1


async def test_what_waited_is_held_again_where_its_card_went(tmp_path: Path) -> None:
    """A request that waits for nobody else's client to come back, and a tap that stops at nothing
    meanwhile."""
    async with stopping(tmp_path, "results") as (engine, agent):
        gate = Gate(engine)
        await ask_and_answer(agent, BASH)
        first, task, session = await returning(engine, agent, agent.result_block("Bash", "a.txt"))
        agent.tap = await agent.sessions.taps.set_stop_at(agent.tap.id, "nothing")
        aside = agent.exchange()
        assert isinstance(aside, AgentExchange)
        beside = asyncio.create_task(aside.begin())
        while not aside.behind:
            await asyncio.sleep(0)
        await leaves(task, first)
        gate.over.set()
        log = await engine.log.events(session.id)
        async with asyncio.timeout(20):
            while len(events_of(log, CallProgressed)) < 2:
                await asyncio.sleep(0)
                log = await engine.log.events(session.id)
        assert not beside.done()
        await let_pass(engine, session, "1.0", "b.txt")
        await asyncio.wait_for(beside, 20)
        assert b"a.txt" not in (aside.body or b"a.txt")


async def test_a_result_that_comes_on_the_side_first_is_held(tmp_path: Path) -> None:
    """Some agents have their history summed up before they go on."""
    async with stopping(tmp_path, "results") as (engine, agent):
        agent.ids = {"x-claude-code-session-id": "s-1"}
        await ask_and_answer(agent, BASH)
        result = agent.result_block("Bash", "a.txt")
        agent.messages.append({"role": "user", "content": [result]})
        system, tools = agent.system, agent.tools
        agent.system, agent.tools = "You sum up.", ()
        side = agent.exchange()
        assert isinstance(side, AgentExchange)
        aside = asyncio.create_task(side.begin())
        session = await waiting(engine, agent, 1)
        agent.system, agent.tools = system, tools
        main = agent.exchange()
        going_on = asyncio.create_task(main.begin())
        while session.received is None:
            await asyncio.sleep(0)
        await let_pass(engine, session, "1.0", "b.txt")
        await asyncio.wait_for(asyncio.gather(aside, going_on), 20)
        assert b"a.txt" not in (side.body or b"a.txt")
        assert sent_results(session, 1) == ["b.txt"]
        log = await engine.log.events(session.id)
    assert len(events_of(log, CallProgressed)) == 1


async def test_of_a_session_that_is_deleted_while_its_result_is_held_nothing_is_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether its agent waits, or has gone; and where it is deleted for good at once."""
    async with stopping(tmp_path, "results") as (engine, agent):
        for how in ("waits", "gone", "purged"):
            agent.messages.clear()
            await ask_and_answer(agent, BASH)
            first, task, session = await returning(
                engine, agent, agent.result_block("Bash", "a.txt")
            )
            if how == "gone":
                await leaves(task, first)
            await engine.runner.delete(session.id)
            if how == "purged":
                async with engine.sessions.lock_session(session.id) as live:
                    await engine.sessions.purge(live)
            if how != "gone":
                with pytest.raises(Refused):
                    await asyncio.wait_for(task, 20)
            assert (engine.runner.void_waits.sessions, agent.sessions._open) == (set(), {})
    assert not caplog.records


async def test_a_held_result_and_an_edit_outlive_the_program(tmp_path: Path) -> None:
    async with stopping(tmp_path, "results") as (engine, agent):
        await ask_and_answer(agent, BASH)
        _, task, session = await returning(engine, agent, agent.result_block("Bash", "a.txt"))
        task.cancel()
    for text in ("b.txt", None):
        async with run_engine(tmp_path) as engine:
            agent.sessions = AgentSessions(engine, taps_of(engine), b"key")
            if text is not None:
                session = await waiting(engine, agent, 1)
                await let_pass(engine, session, "1.0", text)
            exchange = agent.exchange()
            await asyncio.wait_for(exchange.begin(), 20)
            assert b"a.txt" not in (exchange.body or b"a.txt")
            await exchange.leave()
            async with engine.sessions.lock_session(session.id) as live:
                assert sent_results(live.session, -1) == ["b.txt"]
                assert not live.session.marks


async def test_results_are_held_of_an_answer_whose_end_alone_was_logged_before_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_engine: StartEngine
) -> None:
    """Its agent got nothing of its calls, and gets all when it asks again."""
    async with stopping(tmp_path, "results") as (engine, agent):
        exchange = await agent.ask("List the files.")
        exchange.receive_head(200, KIND)
        with monkeypatch.context() as patched:
            patched.setattr("playground.tap.recording.passing_events", lambda *_: [])
            patched.setattr(AgentExchange, "finish", lambda _: asyncio.sleep(0))
            await exchange.pass_on(answer_of(BASH))
            await end(exchange)
    engine = await start_engine()
    agent.sessions = AgentSessions(engine, taps_of(engine), b"key")
    again = agent.exchange()
    assert await again.begin() is not None
    answer = json.loads(await end(again))
    agent.messages.append({"role": "assistant", "content": answer["content"]})
    _, task, session = await returning(engine, agent, agent.result_block("Bash", "a.txt"))
    await let_pass(engine, session, "1.0", "b.txt")
    await asyncio.wait_for(task, 20)
    assert sent_results(session, 1) == ["b.txt"]


class Gate:
    """A sleep that ends when the test says so; `slept` is what was asked of it, in seconds."""

    def __init__(self, engine: Engine) -> None:
        self.over = asyncio.Event()
        self.slept: list[float] = []
        engine.runner.void_waits = RetryWaits(sleep=self)

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        await self.over.wait()


async def becomes(engine: Engine, session: Session, state: str) -> None:
    async with asyncio.timeout(20):
        while session.state != state:
            position = engine.sessions.position
            await engine.sessions.wait(position, engine.sessions.list_version, 0.05)


async def test_a_result_whose_agent_stays_away_is_void_and_held_again_when_it_comes(
    tmp_path: Path,
) -> None:
    async with stopping(tmp_path, "results") as (engine, agent):
        gate = Gate(engine)
        await ask_and_answer(agent, BASH)
        exchange, task, session = await returning(
            engine, agent, agent.result_block("Bash", "a.txt")
        )
        await leaves(task, exchange)
        exchange = agent.exchange()
        again = asyncio.create_task(exchange.begin())
        while has_gone(session):
            await asyncio.sleep(0)
        gate.over.set()  # in time: it is there
        await asyncio.sleep(0)
        assert session.state == "waiting"
        await leaves(again, exchange)
        await becomes(engine, session, "interrupted")
        assert (session.waits, set(gate.slept)) == (0, {900.0})
        with pytest.raises(Refused):
            await let_pass(engine, session, "1.0")
        again = asyncio.create_task(agent.exchange().begin())
        await waiting(engine, agent, 1)
        await let_pass(engine, session, "1.0")
        await asyncio.wait_for(again, 20)
        assert not session.marks


async def test_a_card_of_a_request_on_the_side_that_stays_away_is_void(tmp_path: Path) -> None:
    """No request of the card's own session has brought the result yet."""
    async with stopping(tmp_path, "results") as (engine, agent):
        gate = Gate(engine)
        gate.over.set()
        agent.ids = {"x-claude-code-session-id": "s-1"}
        await ask_and_answer(agent, BASH)
        agent.messages.append({"role": "user", "content": [agent.result_block("Bash", "a.txt")]})
        system, tools = agent.system, agent.tools
        agent.system, agent.tools = "You sum up.", ()
        side = agent.exchange()
        task = asyncio.create_task(side.begin())
        session = await waiting(engine, agent, 1)
        assert session.received is None
        await leaves(task, side)
        await becomes(engine, session, "interrupted")
        assert (session.waits, set(gate.slept)) == (0, {900.0})
        agent.system, agent.tools = system, tools
        main = asyncio.create_task(agent.exchange().begin())
        await waiting(engine, agent, 1)
        await let_pass(engine, session, "1.0", "b.txt")
        await asyncio.wait_for(main, 20)
        assert sent_results(session, 1) == ["b.txt"]


async def test_calls_whose_agent_stays_away_are_void_and_asked_for_again(tmp_path: Path) -> None:
    async with stopping(tmp_path, "calls") as (engine, agent):
        gate = Gate(engine)
        gate.over.set()
        exchange = await agent.ask("List.")
        exchange.receive_head(200, KIND)
        await exchange.pass_on(answer_of(BASH))
        task = asyncio.create_task(end(exchange))
        session = await waiting(engine, agent, 1)
        await leaves(task, exchange)
        await becomes(engine, session, "interrupted")
        assert session.turns[0].dropped
        with pytest.raises(PlaygroundError):
            await decide(engine, session, "1.0", "run")
        await agent.ask()
        assert [len(session.turns), session.prompts, session.marks] == [2, 1, []]
        assert len(await engine.log.tapped_sessions(agent.tap.id, 9)) == 1


async def test_after_a_start_no_agent_waits_and_what_waited_is_void_after_a_while(
    tmp_path: Path, start_engine: StartEngine
) -> None:
    async with stopping(tmp_path, "results") as (engine, agent):
        await ask_and_answer(agent, BASH)
        _, task, session = await returning(engine, agent, agent.result_block("Bash", "a.txt"))
        task.cancel()
    engine = await start_engine()
    async with engine.sessions.lock_session(session.id) as live:
        assert has_gone(live.session)
    assert engine.runner.void_waits.sessions == {session.id}
    engine.runner.mark_agent_returned(session.id)
    Gate(engine).over.set()
    engine.runner.mark_agent_left(session.id)
    await becomes(engine, live.session, "interrupted")


async def test_no_result_goes_on_where_that_it_waits_cannot_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stopping(tmp_path, "results") as (_, agent):
        await ask_and_answer(agent, BASH)

        def fail(*_: Any, **__: Any) -> Any:
            raise ValueError("It breaks.")

        monkeypatch.setattr("playground.tap.recording.holding_events", fail)
        exchange = agent.exchange(agent.result_block("Bash", "a.txt"))
        with pytest.raises(ValueError, match="It breaks"):
            await exchange.begin()
        assert exchange.holds  # so the relay refuses it


async def test_what_is_not_held_is_refused(tmp_path: Path) -> None:
    async with stopping(tmp_path, "nothing") as (engine, agent):
        await ask_and_answer(agent, BASH)
        (session_id,) = await engine.log.tapped_sessions(agent.tap.id, 1)
        for call_id in ("1.0", "9.9"):
            with pytest.raises(PlaygroundError):
                await engine.runner.decide_result(session_id, call_id, ResultDecision("0" * 64))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_which_results_are_errors_is_known_in_each_protocol(protocol: str) -> None:
    items = read_body(protocol, json.loads(three_results(protocol))).items
    results = [result_of(item) for item in items if isinstance(item, ResultMessage)]
    assert [has_failed(result) for result in results] == [False, True, False]


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("Exit code: 1\nOutput:\n", True),
        ("Exit code: 0\nOutput:\nError", False),
        ('{"error": "No such file"}', True),
        ("Process exited with code 2", True),
        ("errors.txt", False),
        ("No error.", False),
    ],
)
def test_an_error_is_known_by_how_agents_write_one(text: str, failed: bool) -> None:
    assert has_failed(text_result(text)) == failed
