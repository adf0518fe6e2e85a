"""Calls that are answered here in place of an agent: it gets one answer without them, the provider
gets its own answers and the results, in all that follows."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from playground.core.errors import Refused
from playground.core.events import AnswerPassed
from playground.core.providers import SIMULATORS
from playground.core.session import Session
from playground.core.tools import Content
from playground.engine.decisions import DecisionRequest
from playground.engine.engine import Engine
from playground.engine.fork import ForkPlace, fork
from playground.engine.runner import recover
from playground.protocols import answer_edits
from playground.protocols.registry import EDITORS
from playground.protocols.request import ResultMessage
from playground.simulator.scenario import scenario
from playground.tap.exchange import AgentExchange
from playground.tap.history import read_body
from playground.tap.holding import ENDED
from playground.tap.recording import AgentSessions
from tests.engines import ALLOW_ALL, create_session, events_of, run_engine
from tests.tables import rest_slow
from tests.tap.agent import KIND, end
from tests.tap.tapping import FORECAST, PROTOCOLS, WEATHER, Tapping, both
from tests.tap.test_holding import stopping, waiting
from tests.tap.test_places import responses_exchange
from tests.waiting import wait_while_running

pytestmark = pytest.mark.anyio

OSLO, ROME, BERN = (
    {"name": "get_weather", "arguments": {"city": c}} for c in ("Oslo", "Rome", "Bern")
)
WORK = scenario(
    json.dumps(
        {
            "turns": [
                {"thinking": "Hm.", "text": "I look.", "calls": [OSLO, ROME]},
                {"thinking": "Well.", "text": "I look again.", "calls": [BERN]},
                {"thinking": "So.", "text": "Rain everywhere."},
                *({"text": f"Answer {n}."} for n in range(10)),
            ]
        }
    )
)

IDS = re.compile(r"(?:toolu_|call_|chatcmpl-)\w+")

MALFORMED = scenario(
    json.dumps(
        {
            "turns": [
                {"text": "I look.", "calls": [{**OSLO, "arguments": '{"city": "Os'}]},
                *({"text": f"Answer {n}."} for n in range(12)),
            ]
        }
    )
)

SAME = scenario(
    json.dumps({"turns": [{"text": "I look.", "calls": [OSLO]}, *({"text": "Rain."},) * 4]})
)

AGAIN = scenario(
    json.dumps({"turns": [{"text": f"Look {n}.", "calls": [OSLO]} for n in range(14)]})
)

CUT = scenario(
    json.dumps(
        {
            "turns": [
                {"text": "I look.", "calls": [OSLO]},
                {"text": "Rain.", "faults": ["http-429-then-ok-2"]},
            ]
        }
    )
)

GO = {"role": "user", "content": "Go."}

STALLS = scenario(
    json.dumps(
        {
            "turns": [
                {"text": "I look.", "calls": [OSLO]},
                {"text": "Rain.", "faults": ["stall-after-1"]},
            ]
        }
    )
)


async def answer_calls(engine: Engine, session_id: str, *calls: str) -> None:
    """By hand, each by its id."""
    for call_id in calls:
        async with engine.sessions.lock_session(session_id) as live:
            digest = live.session.call(call_id).digest
        decision = DecisionRequest("answer", digest, text=f"Rain in {call_id}.")
        await engine.runner.decide(session_id, call_id, decision)


async def went_on(engine: Engine, session_id: str) -> Session:
    """Ten prompts later."""
    for number in range(10):
        await engine.runner.prompt(session_id, f"Prompt {number}.")
        session = await wait_while_running(engine, session_id)
    return session


async def never_tapped(
    engine: Engine,
    protocol: str,
    called: Sequence[Sequence[str]] = (("1.2", "1.3"), ("2.2",)),
) -> Session:
    """The same conversation with the simulator itself, whose calls its user answers."""
    (name,) = (row.profile.name for row in SIMULATORS if row.profile.protocol == protocol)
    session_id = await create_session(engine, ["get_weather"], asked_profile=name)
    await engine.runner.prompt(session_id, "Go.")
    for calls in called:
        await wait_while_running(engine, session_id)
        await answer_calls(engine, session_id, *calls)
    await wait_while_running(engine, session_id)
    return await went_on(engine, session_id)


def numbered(body: str) -> str:
    """Its ids by the order in which they come."""
    number_by_id: dict[str, str] = {}
    return IDS.sub(lambda id_: number_by_id.setdefault(id_[0], f"id_{len(number_by_id)}"), body)


@pytest.mark.parametrize("protocol", rest_slow(PROTOCOLS))
async def test_ten_turns_later_the_provider_has_what_it_would_have(
    tmp_path: Path, protocol: str
) -> None:
    """To the byte, as with an agent that was never tapped; that got one answer without calls."""
    async with both(tmp_path, protocol, WORK) as (agent, door):
        await door.stop_at("calls")
        own_id = await create_session(
            agent, ["get_weather"], rules=ALLOW_ALL, profile=door.profile()
        )
        await agent.runner.prompt(own_id, "Go.")
        for calls in (("1.2", "1.3"), ("2.2",)):
            session = await door.wait_for_held(len(calls))
            await answer_calls(door.engine, session.id, *calls)
        await wait_while_running(agent, own_id)
        own = await went_on(agent, own_id)
        twin = await never_tapped(agent, protocol)
        (session,) = await door.sessions()
        log = await door.engine.log.events(session.id)
    sent, wanted = session.turns[-1].request.body, twin.turns[-1].request.body
    assert numbered(sent) == numbered(wanted)
    assert [turn.request.continues for turn in session.turns] == [0, 1, 2, *[0] * 10]
    assert not session.marks
    first = own.turns[0]
    rows = [(part.kind, part.text.strip()) for part in first.parts if part.kind != "text"]
    assert rows == [("thinking", "Hm.")]
    assert "".join(first.text.split()) == "Ilook.Ilookagain.Raineverywhere."
    assert (first.end and first.end.reason, list(own.calls())) == ("stop", [])
    passed = events_of(log, AnswerPassed)
    assert [event.recording for event in passed] == [3, *range(4, 14)]
    usages = [turn.end.usage for turn in session.turns[:3] if turn.end is not None]
    assert first.end is not None
    assert first.end.usage.output_tokens == sum(usage.output_tokens or 0 for usage in usages)
    assert first.end.usage.input_tokens == usages[-1].input_tokens


@pytest.mark.parametrize("protocol", rest_slow(("openai_chat", "openai_responses", "anthropic")))
async def test_malformed_arguments_that_are_answered_here_go_back_as_an_object(
    tmp_path: Path, protocol: str
) -> None:
    """In the request that is made here and in the agent's later ones; their text in the result."""
    async with both(tmp_path, protocol, MALFORMED) as (agent, door):
        await door.stop_at("calls")
        own_id = await create_session(
            agent, ["get_weather"], rules=ALLOW_ALL, profile=door.profile()
        )
        await agent.runner.prompt(own_id, "Go.")
        session = await door.wait_for_held()
        await answer_calls(door.engine, session.id, "1.1")
        await wait_while_running(agent, own_id)
        await agent.runner.prompt(own_id, "And?")
        await wait_while_running(agent, own_id)
        (session,) = await door.sessions()
        twin = await never_tapped(agent, protocol, [("1.1",)])
    for turn, same in zip(session.turns[1:], twin.turns[1:], strict=False):
        sent = turn.request.body
        assert 'You wrote:]\\n{\\"city\\": \\"Os' in sent
        assert sent.count('\\"Os') == 1
        if turn.request.continues:
            assert numbered(sent) == numbered(same.request.body)
    assert len(session.turns) == 3


def results_in(protocol: str, body: str) -> list[tuple[str, Any]]:
    """The ids and the texts of the results in a body, in order."""
    items = read_body(protocol, json.loads(body)).items
    results = (item for item in items if isinstance(item, ResultMessage))
    return [(result.call_id, result.content[0].text) for result in results]


@pytest.mark.parametrize("protocol", rest_slow(PROTOCOLS, 2))
async def test_beside_calls_that_the_agent_runs_the_rest_is_put_into_its_next_request(
    tmp_path: Path, protocol: str
) -> None:
    """No request is made here; what the user edited stays as it ran."""
    async with both(tmp_path, protocol, WORK) as (agent, door):
        await door.stop_at("calls")
        own_id = await create_session(
            agent, [replace(FORECAST, name="get_weather")], rules=ALLOW_ALL, profile=door.profile()
        )
        await agent.runner.prompt(own_id, "Go.")
        session = await door.wait_for_held(2)
        await door.decide("1.2", "run", arguments='{"city": "Paris"}')
        await door.decide("1.3", "deny", text="Not there.", model_reads=True)
        await door.wait_for_held(1)
        await door.decide("2.2", "deny", text="That is all.")
        own = await wait_while_running(agent, own_id)
        (call,) = own.turns[0].calls
        (session,) = await door.sessions()
    second = session.turns[1]
    ids = [call.provider_id for call in session.turns[0].calls]
    refused = "Not there." if protocol in ("anthropic", "gemini") else "Error: Not there."
    assert results_in(protocol, second.request.body) == [(ids[0], "Rain."), (ids[1], refused)]
    assert second.request.continues == 0
    assert "Paris" in second.request.body
    assert "Oslo" not in second.request.body
    assert json.loads(call.written) == {"city": "Paris"}
    assert "Not there." not in own.turns[0].text
    assert "That is all." in own.turns[1].text
    assert [call.result and call.result.text for call in session.calls()] == [
        *("Rain.", "Not there.", "That is all.")
    ]
    assert not session.marks


async def test_what_the_agent_no_longer_has_is_not_put_back_and_the_page_says_so(
    tmp_path: Path,
) -> None:
    """It rewinds to before the answer; what it then asks is as it asks it."""
    async with both(tmp_path, "anthropic", WORK) as (agent, door):
        door.headers["session-id"] = "s-1"
        await door.stop_at("calls")
        own_id = await create_session(
            agent, ["get_weather"], rules=ALLOW_ALL, profile=door.profile()
        )
        await agent.runner.prompt(own_id, "Go.")
        for calls in (("1.2", "1.3"), ("2.2",)):
            session = await door.wait_for_held(len(calls))
            await answer_calls(door.engine, session.id, *calls)
        await wait_while_running(agent, own_id)
        await door.stop_at("nothing")
        forked = await fork(agent, own_id, ForkPlace(prompt=1), text="Go elsewhere.")
        own = await wait_while_running(agent, forked)
        (session,) = await door.sessions()
    last = session.turns[-1]
    assert own.turns[-1].end is not None
    assert last.end is not None
    assert "Rain in" not in session.turns[3].request.body
    marks = [mark.warning.message for mark in session.marks]
    assert sum("no longer in the agent's history" in mark for mark in marks) == 1


async def test_of_an_answer_that_comes_again_where_its_agent_went_back_the_later_is_put_back(
    tmp_path: Path,
) -> None:
    """Both say the same, and the agent has one of them."""
    async with both(tmp_path, "anthropic", SAME) as (agent, door):
        door.headers["session-id"] = "s-1"
        await door.stop_at("calls")
        own_id = await create_session(
            agent, ["get_weather"], rules=ALLOW_ALL, profile=door.profile()
        )
        await agent.runner.prompt(own_id, "Go.")
        session = await door.wait_for_held()
        await answer_calls(door.engine, session.id, "1.1")
        await wait_while_running(agent, own_id)
        await agent.runner.prompt(own_id, "And?")
        await wait_while_running(agent, own_id)
        forked = await fork(agent, own_id, ForkPlace(prompt=1), text="Go.")
        session = await door.wait_for_held()
        await answer_calls(door.engine, session.id, "4.1")
        await wait_while_running(agent, forked)
        await agent.runner.prompt(forked, "And?")
        await wait_while_running(agent, forked)
        (session,) = await door.sessions()
    results = results_in("anthropic", session.turns[-1].request.body)
    assert [text for _, text in results] == ["Rain in 4.1."]


@pytest.mark.parametrize("protocol", rest_slow(PROTOCOLS[:4], 2))
async def test_a_forced_call_that_is_answered_forces_no_other(
    tmp_path: Path, protocol: str
) -> None:
    """The simulator refuses to end where one is forced."""
    async with both(tmp_path, protocol) as (agent, door):
        await door.stop_at("calls")
        own_id = await create_session(
            agent, ["get_weather"], rules=ALLOW_ALL, profile=door.profile(), tool_choice="required"
        )
        await agent.runner.prompt(own_id, WEATHER)
        session = await door.wait_for_held()
        (waiting,) = session.waiting
        await answer_calls(door.engine, session.id, waiting.id)
        own = await wait_while_running(agent, own_id)
        (session,) = await door.sessions()
    assert [turn.request.choice.mode for turn in session.turns] == ["required", "auto"]
    bodies = [json.loads(turn.request.body) for turn in session.turns]
    choices = [body.get("tool_choice") or body.get("toolConfig") for body in bodies]
    assert choices == {
        "anthropic": [{"type": "any"}, {"type": "auto"}],
        "gemini": [{"functionCallingConfig": {"mode": mode}} for mode in ("ANY", "AUTO")],
    }.get(protocol, ["required", "auto"])
    assert (len(own.turns), own.state, list(own.calls())) == (1, "idle", [])


@pytest.mark.slow
async def test_of_one_answer_ten_requests_are_made_here(tmp_path: Path) -> None:
    async with both(tmp_path, "anthropic", AGAIN) as (agent, door):
        await door.stop_at("calls")
        own_id = await create_session(
            agent, ["get_weather"], rules=ALLOW_ALL, profile=door.profile()
        )
        await agent.runner.prompt(own_id, "Go.")
        for number in range(1, 12):
            session = await door.wait_for_held()
            await answer_calls(door.engine, session.id, f"{number}.1")
        own = await wait_while_running(agent, own_id)
        assert own.turns[0].text.endswith(ENDED)
        await agent.runner.prompt(own_id, "Go on.")
        session = await door.wait_for_held()
    assert len(session.turns) == 12
    assert [text for _, text in results_in("anthropic", session.turns[-1].request.body)] == [
        f"Rain in {number}.1." for number in range(1, 12)
    ]


async def test_an_answer_that_cannot_go_on_is_cut_and_its_retry_goes_on(tmp_path: Path) -> None:
    """The decision that was made holds; what was asked here is asked once more."""
    async with both(tmp_path, "anthropic", CUT) as (agent, door):
        await door.stop_at("calls")
        own_id = await create_session(
            agent, ["get_weather"], rules=ALLOW_ALL, profile=door.profile()
        )
        await agent.runner.prompt(own_id, "Go.")
        session = await door.wait_for_held()
        await answer_calls(door.engine, session.id, "1.1")
        for _ in range(2):
            own = await wait_while_running(agent, own_id)
            assert own.turns[-1].failure is not None
            await agent.runner.retry(own_id)
        own = await wait_while_running(agent, own_id)
        (session,) = await door.sessions()
    assert own.turns[-1].text == "I look.Rain."
    assert [turn.dropped for turn in session.turns] == [False, True, True, False]
    assert [turn.request.continues for turn in session.turns] == [0, 1, 1, 1]
    assert [call.result and call.result.text for call in session.calls()] == ["Rain in 1.1."]


@pytest.mark.parametrize("when", rest_slow(["decided", "asked", "held"]))
async def test_an_answer_that_goes_on_outlives_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Killed before the request from here, while its answer comes, or while a call of that waits:
    the agent asks again and gets the same as without."""
    (tmp_path / "agent").mkdir()
    reached = asyncio.Event()

    async def hang(*_: Any) -> Any:
        reached.set()
        await asyncio.Event().wait()

    ours = partial(run_engine, tmp_path, scenario=WORK)
    async with run_engine(tmp_path / "agent") as agent, Tapping("anthropic").listening() as door:
        async with ours() as engine:
            await door.open(engine)
            await door.stop_at("calls")
            own_id = await create_session(
                agent, ["get_weather"], rules=ALLOW_ALL, profile=door.profile()
            )
            await agent.runner.prompt(own_id, "Go.")
            session = await door.wait_for_held(2)
            with monkeypatch.context() as killed:
                if when == "decided":
                    killed.setattr(AgentSessions, "request_continuation", hang)
                if when == "asked":
                    killed.setattr(AgentExchange, "_read_continuation", hang)
                await answer_calls(engine, session.id, "1.2", "1.3")
                if when == "held":
                    await door.wait_for_held(1)
                else:
                    await asyncio.wait_for(reached.wait(), 30)
                door.break_off()
                await wait_while_running(agent, own_id)
        async with ours() as engine:
            await door.open(engine)
            await recover(engine.sessions, lambda _: ())
            await agent.runner.retry(own_id)
            session = await door.wait_for_held(1)
            await answer_calls(engine, session.id, session.waiting[0].id)
            own = await wait_while_running(agent, own_id)
            (session,) = await door.sessions()
    assert "".join(own.turns[-1].text.split()) == "Ilook.Ilookagain.Raineverywhere."
    assert [turn.dropped for turn in session.turns] == (
        [False, True, False, False] if when == "asked" else [False] * 3
    )
    assert session.state == "idle"


async def test_what_cannot_be_answered_is_refused(tmp_path: Path) -> None:
    """An image, and where it is not known how answers of the protocol are joined."""
    async with both(tmp_path) as (agent, door):
        await door.stop_at("calls")
        own_id = await create_session(
            agent, ["get_weather"], rules=ALLOW_ALL, profile=door.profile()
        )
        await agent.runner.prompt(own_id, WEATHER)
        await door.wait_for_held()
        image = Content("image", media_type="image/png", data="iVBORw0KGgo=")
        with pytest.raises(Refused, match="Remove the images"):
            await door.decide("1.1", "answer", images=(image,))
        with pytest.MonkeyPatch.context() as patched:
            unknown = {"anthropic": replace(EDITORS["anthropic"], join=None)}
            patched.setattr(answer_edits, "EDITORS", unknown)
            for more in ({"decision": "answer"}, {"decision": "deny", "model_reads": True}):
                with pytest.raises(Refused, match="cannot be answered here"):
                    await door.decide("1.1", **more)
        await door.decide("1.1", "deny", text="No.")
        own = await wait_while_running(agent, own_id)
    assert "No." in own.turns[0].text


def responded(id_: str, *calls: str) -> bytes:
    """An answer of Responses with these calls."""
    items = [
        {
            "type": "function_call",
            "id": f"fc_{name}",
            "call_id": f"call_{name}",
            "name": name,
            "arguments": "{}",
            "status": "completed",
        }
        for name in calls
    ]
    answer = {"id": id_, "object": "response", "status": "completed", "output": items}
    return json.dumps(answer).encode()


def call_output(name: str, text: str) -> dict[str, str]:
    return {"type": "function_call_output", "call_id": f"call_{name}", "output": text}


class OneAnswer:
    """As a request's answer from upstream."""

    status = 200
    headers = KIND

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._data


async def test_where_the_provider_keeps_the_history_the_next_request_follows_the_last_answer(
    tmp_path: Path,
) -> None:
    """By its id, and not by that of the one answer which the agent got."""
    requested_items: list[Any] = []

    @asynccontextmanager
    async def ask(body: bytes) -> AsyncIterator[Any]:
        requested_items.append(json.loads(body))
        yield OneAnswer(responded("resp_2", "b", "c"))

    async with stopping(tmp_path) as (engine, agent):
        first = responses_exchange(agent, "Go.", "", ask)
        await first.begin()
        first.receive_head(200, KIND)
        await first.pass_on(responded("resp_1", "a"))
        got = asyncio.create_task(end(first))
        session = await waiting(engine, agent, 1)
        await answer_calls(engine, session.id, "1.0")
        await waiting(engine, agent, 2)
        asked_run = DecisionRequest("run", session.call("2.0").digest, "{}")
        await engine.runner.decide(session.id, "2.0", asked_run)
        await answer_calls(engine, session.id, "2.1")
        answer = json.loads(await asyncio.wait_for(got, 20))
        second = responses_exchange(agent, [call_output("b", "Ran.")], "resp_1", ask)
        await second.begin()
        assert second.session_id == session.id
        await second.leave()
    (body,) = requested_items
    assert body["input"][0] == {"role": "user", "content": "Go."}
    assert [item.get("call_id") for item in body["input"][1:]] == ["call_a", "call_a"]
    assert body["input"][2] == call_output("a", "Rain in 1.0.")
    assert (answer["id"], [item["name"] for item in answer["output"]]) == ("resp_1", ["b"])
    assert second.body is not None
    sent = json.loads(second.body)
    assert sent["previous_response_id"] == "resp_2"
    assert sent["input"] == [call_output("c", "Rain in 2.1."), call_output("b", "Ran.")]
    assert [call.result and call.result.text for call in session.calls()] == [
        *("Rain in 1.0.", "Ran.", "Rain in 2.1.")
    ]


def call_item(name: str) -> dict[str, Any]:
    (item,) = json.loads(responded("", name))["output"]
    return dict(item)


async def decided(engine: Engine, session: Session, *runs: str) -> None:
    """These run at the agent, the other calls of the answer are answered by hand."""
    for call in list(session.waiting):
        decision = DecisionRequest("run", call.digest, "{}")
        if call.id in runs:
            await engine.runner.decide(session.id, call.id, decision)
        else:
            await answer_calls(engine, session.id, call.id)


async def test_an_answer_that_the_agent_writes_in_turn_with_its_results_is_put_back_once(
    tmp_path: Path,
) -> None:
    """Wherever it has it, and whatever it has left out ahead of it."""
    async with stopping(tmp_path) as (engine, agent):
        first = responses_exchange(agent, [GO], "")
        await first.begin()
        first.receive_head(200, KIND)
        await first.pass_on(responded("resp_1", "a", "b", "c"))
        got = asyncio.create_task(end(first))
        session = await waiting(engine, agent, 3)
        await decided(engine, session, "1.0", "1.2")
        await asyncio.wait_for(got, 20)
        copy = [call_item("a"), call_output("a", "A."), call_item("c"), call_output("c", "C.")]
        for before in ([GO], []):
            second = responses_exchange(agent, [*before, *copy], "")
            await second.begin()
            assert second.body is not None
            sent = json.loads(second.body)["input"]
            results = (
                call_output("a", "A."),
                call_output("b", "Rain in 1.1."),
                call_output("c", "C."),
            )
            assert [item.get("call_id") for item in sent[len(before) :]] == [
                *("call_a", "call_b", "call_c") * 2
            ]
            assert sent[-3:] == list(results)
            await second.leave()


async def test_a_later_call_by_the_id_of_one_that_was_denied_is_not_of_that_answer(
    tmp_path: Path,
) -> None:
    """Some providers count their ids anew in each answer."""
    async with stopping(tmp_path) as (engine, agent):
        first = responses_exchange(agent, [GO], "")
        await first.begin()
        first.receive_head(200, KIND)
        await first.pass_on(responded("resp_1", "a", "b", "c"))
        got = asyncio.create_task(end(first))
        session = await waiting(engine, agent, 3)
        denial = DecisionRequest("deny", session.call("1.1").digest, text="No.")
        await engine.runner.decide(session.id, "1.1", denial)
        await decided(engine, session, "1.2")
        await asyncio.wait_for(got, 20)
        own = [call_item("c"), call_output("c", "C.")]
        later = [call_item("b"), call_output("b", "B.")]
        second = responses_exchange(agent, [GO, *own, *later], "")
        await second.begin()
        sent = json.loads(second.body or b"")["input"]
        await second.leave()
    assert sent[-2:] == later


async def test_reasoning_that_lost_its_call_here_is_left_out_where_it_stands_alone(
    tmp_path: Path,
) -> None:
    """By its id or its seal; reasoning that an agent left alone by itself goes as it came."""
    ours = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}
    own = {**ours, "id": "rs_0", "encrypted_content": "another"}
    without_id = {name: value for name, value in ours.items() if name != "id"}
    says = {"role": "assistant", "content": "The user did not allow this call."}
    more = {"role": "user", "content": "On."}
    async with stopping(tmp_path) as (engine, agent):
        first = responses_exchange(agent, [GO], "")
        await first.begin()
        first.receive_head(200, KIND)
        answer = json.loads(responded("resp_1", "a"))
        answer["output"].insert(0, ours)
        await first.pass_on(json.dumps(answer).encode())
        got = asyncio.create_task(end(first))
        session = await waiting(engine, agent, 1)
        denial = DecisionRequest("deny", session.waiting[0].digest)
        await engine.runner.decide(session.id, session.waiting[0].id, denial)
        stored = json.loads(await asyncio.wait_for(got, 20))["output"]
        assert [item["type"] for item in stored] == ["reasoning", "message"]
        for lines, wanted in (
            ([ours, says], None),
            ([ours], []),
            ([without_id], []),
            ([own, ours], [own]),
            ([own], None),
        ):
            exchange = responses_exchange(agent, [GO, *lines, more], "")
            await exchange.begin()
            sent = None if exchange.body is None else json.loads(exchange.body)["input"]
            assert sent == (None if wanted is None else [GO, *wanted, more]), lines
            await exchange.leave()


async def test_a_result_beside_an_answer_by_hand_is_held_and_edited(tmp_path: Path) -> None:
    """The provider gets both in the order of the calls, then and later."""
    async with both(tmp_path, "anthropic", WORK) as (agent, door):
        await door.stop_at("calls")
        own_id = await create_session(
            agent, [replace(FORECAST, name="get_weather")], rules=ALLOW_ALL, profile=door.profile()
        )
        await agent.runner.prompt(own_id, "Go.")
        session = await door.wait_for_held(2)
        await door.stop_at("results")
        await answer_calls(door.engine, session.id, "1.2")
        await door.decide("1.3", "run")
        assert [call.id for call in (await door.wait_for_held(1)).waiting] == ["1.3"]
        await door.decide_result("1.3", "Snow.")
        assert [call.id for call in (await door.wait_for_held(1)).waiting] == ["2.2"]
        await door.decide_result("2.2")
        await wait_while_running(agent, own_id)
        (session,) = await door.sessions()
    for turn in session.turns[1:]:
        first, second, *_ = results_in("anthropic", turn.request.body)
        assert (first[1], second[1]) == ("Rain in 1.2.", "Snow.")
    assert (len(session.turns), session.marks) == (3, [])


async def until(engine: Engine, holds: Callable[[], bool]) -> None:
    """Something was logged by which it holds."""
    sessions = engine.sessions
    async with asyncio.timeout(30):
        while not holds():
            await sessions.wait(sessions.position, sessions.list_version, 30)


@pytest.mark.parametrize("how", ["stop", "leave"])
async def test_an_answer_that_goes_on_is_ended_by_stop_and_by_its_agent(
    tmp_path: Path, how: str
) -> None:
    """Nothing of it stays open; what was decided stays."""
    async with both(tmp_path, "anthropic", STALLS) as (agent, door):
        await door.stop_at("calls")
        own_id = await create_session(
            agent, ["get_weather"], rules=ALLOW_ALL, profile=door.profile()
        )
        await agent.runner.prompt(own_id, "Go.")
        session = await door.wait_for_held()
        await answer_calls(door.engine, session.id, "1.1")
        await until(door.engine, lambda: len(session.turns) > 1 and bool(session.turns[1].response))
        if how == "stop":
            await door.engine.runner.stop(session.id)
        else:
            await agent.runner.stop(own_id)
        own = await wait_while_running(agent, own_id)
        await until(door.engine, lambda: session.turns[1].client_gone)
    failure = session.turns[1].failure
    assert own.turns[0].failure is not None
    assert failure is not None
    assert failure.failure == ("stopped" if how == "stop" else "interrupted")
    assert [call.result and call.result.text for call in session.calls()] == ["Rain in 1.1."]
    assert session.stopped == (how == "stop")
