"""A recorded session as the model of another one, over real HTTP, in each protocol."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from playground.core.errors import BadInput, Conflict
from playground.core.events import (
    Event,
    Logged,
    PartDelta,
    PartEnded,
    PartStarted,
    RequestSent,
    ResponseEnded,
    ResponseFailed,
    ResponseStarted,
    RetryScheduled,
    Warned,
)
from playground.engine.decisions import DecisionRequest
from playground.engine.engine import Engine
from playground.engine.manage_sessions import purge
from playground.engine.recorded_model import play, recorded_answers, recorded_prompt
from playground.simulator.recorded import GONE
from tests.engines import ALLOW_ALL, StartEngine, create_session, events_of, run_prompt
from tests.tables import rest_slow
from tests.waiting import wait_while_running

WEATHER = "What is 17*23, and the weather in Paris?"
TOOLS = ("calculator", "get_weather")
pytestmark = pytest.mark.anyio

SIMULATORS = (
    "simulator",
    "simulator-openai",
    "simulator-responses",
    "simulator-gemini",
    "simulator-ollama",
)
ANSWERED = (PartStarted, PartDelta, PartEnded, ResponseEnded, ResponseFailed)


async def recorded(engine: Engine, prompt: str, *tools: str, profile: str = "simulator") -> str:
    """A session that ran to its end; its id."""
    session = await run_prompt(engine, prompt, *tools, asked_profile=profile, rules=ALLOW_ALL)
    assert session.state in ("idle", "failed", "interrupted")
    return session.id


async def played(engine: Engine, session_id: str, prompt: str) -> str:
    """The same with that recording as the model."""
    replay_id = await play(engine, session_id)
    async with engine.sessions.lock_session(replay_id) as live:
        await engine.rules.put(replay_id, ALLOW_ALL, live.session.settings.tools)  # type: ignore[union-attr]
    await engine.runner.prompt(replay_id, prompt)
    await wait_while_running(engine, replay_id)
    return replay_id


def answer_events(log: Sequence[Logged]) -> list[Event]:
    return [logged.event for logged in log if isinstance(logged.event, ANSWERED)]


async def bytes_of(engine: Engine, session_id: str) -> dict[int, bytes]:
    result: dict[int, bytes] = {}
    for chunk in await engine.log.chunks(session_id):
        result[chunk.recording] = result.get(chunk.recording, b"") + chunk.data
    return result


@pytest.mark.parametrize("profile", rest_slow(SIMULATORS))
async def test_the_same_bytes_and_events_in_each_protocol(profile: str, engine: Engine) -> None:
    first = await recorded(engine, WEATHER, *TOOLS, profile=profile)
    again = await played(engine, first, WEATHER)
    logs = [await engine.log.events(text) for text in (first, again)]
    assert await bytes_of(engine, again) == await bytes_of(engine, first)
    assert answer_events(logs[1]) == answer_events(logs[0])
    assert not [item for item in events_of(logs[1], Warned) if item.code == "left_recording"]
    requests = events_of(logs[1], RequestSent)
    assert len(requests) == 2
    assert all(f"/recorded/{first}/" in request.url for request in requests)
    heads = [events_of(log, ResponseStarted) for log in logs]
    assert [head.status for head in heads[0]] == [head.status for head in heads[1]]
    stored_texts = {"content-type", "x-request-id", "request-id"}
    for was, now in zip(*heads, strict=True):
        assert {k: v for k, v in was.headers.items() if k in stored_texts} == {
            k: v for k, v in now.headers.items() if k in stored_texts
        }


@pytest.mark.parametrize("profile", rest_slow(SIMULATORS))
async def test_another_result_is_told_and_another_message_is_refused(
    profile: str, engine: Engine
) -> None:
    first = await recorded(engine, WEATHER, *TOOLS, profile=profile)
    session_id = await play(engine, first)
    await engine.runner.prompt(session_id, WEATHER)
    session = await wait_while_running(engine, session_id)
    for call, decision in zip(session.waiting, ("run", "answer"), strict=True):
        text = "Hail." if decision == "answer" else ""
        told_by = DecisionRequest(decision, call.digest, text=text)
        await engine.runner.decide(session_id, call.id, told_by)
    session = await wait_while_running(engine, session_id)
    log = await engine.log.events(session_id)
    words = [item.message for item in events_of(log, Warned) if item.code == "left_recording"]
    assert words == ["This answer was recorded after a different call or result of get_weather."]
    assert (await bytes_of(engine, session_id))[2] == (await bytes_of(engine, first))[2]

    await engine.runner.prompt(session_id, "And in Rome?")
    session = await wait_while_running(engine, session_id)
    assert session.turn is not None
    assert session.turn.failure is not None
    message = session.turn.failure.message
    assert message.startswith("The recording ends here")
    assert message.endswith("continue with it.")
    assert not events_of(await engine.log.events(session_id), RetryScheduled)

    other = await played(engine, first, "Tell me a story.")
    async with engine.sessions.lock_session(other) as live:
        failure = live.session.turns[-1].failure
    assert failure is not None
    assert "“Tell me a story.”" in failure.message
    assert f"“{WEATHER}” here" in failure.message


@pytest.mark.parametrize(
    "fault", ["http-500-then-ok-2", "cut-after-8", "close-at-once", "error-mid"]
)
async def test_what_failed_fails_again_in_its_order(fault: str, start_engine: StartEngine) -> None:
    prompt = f"Say something. [[fault:{fault}]]"
    engine = await start_engine()
    first = await recorded(engine, prompt)
    again = await played(engine, first, prompt)
    logs = [await engine.log.events(text) for text in (first, again)]
    ends = [
        [
            (type(logged.event), getattr(logged.event, "failure", ""))
            for logged in log
            if isinstance(logged.event, (ResponseEnded, ResponseFailed))
        ]
        for log in logs
    ]
    assert ends[1] == ends[0]
    assert await engine.log.recordings(again) == await engine.log.recordings(first)
    assert await bytes_of(engine, again) == await bytes_of(engine, first)


async def test_what_came_from_somebody_else_plays_without_its_tools(engine: Engine) -> None:
    first = await recorded(engine, WEATHER, *TOOLS)
    async with engine.sessions.lock_session(first) as live:
        live.own = False
        names = [tool.name for tool in live.session.settings.tools]  # type: ignore[union-attr]
    session_id = await play(engine, first, "0")
    async with engine.sessions.lock_session(session_id) as live:
        settings = live.session.settings
    assert names
    assert settings is not None
    assert settings.tools == ()
    assert settings.profile.recorded == first
    assert settings.profile.headers == {"x-playground-pace": "0"}
    assert engine.keys.missing_reason(settings.profile) == ""
    assert await recorded_prompt(engine.log, first, 1) == WEATHER
    assert (
        await recorded_prompt(engine.log, first, 2)
        == await recorded_prompt(engine.log, "nobody", 1)
        == ""
    )


@pytest.mark.parametrize("profile", SIMULATORS)
async def test_a_deleted_session_is_not_played(profile: str, engine: Engine) -> None:
    """Nor while it is: the sentence says what to do, and blames no provider."""
    first = await recorded(engine, WEATHER, profile=profile)
    session_id = await play(engine, first)
    await engine.runner.delete(first)
    with pytest.raises(Conflict, match="Restore it"):
        await play(engine, first)
    for purged in (False, True):
        if purged:
            await purge(engine, [first])
        await engine.runner.prompt(session_id, WEATHER)
        turn = (await wait_while_running(engine, session_id)).turn
        assert turn is not None
        assert turn.failure is not None
        assert turn.failure.message == GONE


async def test_nothing_answered_is_nothing_to_play(engine: Engine) -> None:
    empty = await create_session(engine)
    assert await recorded_answers(engine.log, empty) is None
    assert await recorded_answers(engine.log, "nobody") is None
    with pytest.raises(BadInput, match="nothing to replay"):
        await play(engine, empty)
    with pytest.raises(BadInput, match="pace must be one of"):
        await play(engine, empty, "7")
