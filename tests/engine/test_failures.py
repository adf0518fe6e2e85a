"""What failed before any output is asked for again, shown and stoppable; what came is told whole.

No test here waits: the sleep is over at once, or held until the test has looked.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from playground.core.errors import Conflict
from playground.core.events import (
    Event,
    RequestSent,
    ResponseEnded,
    ResponseStarted,
    RetryScheduled,
    RunPaused,
    RunStopped,
    TurnDropped,
    Usage,
    Warned,
)
from playground.core.settings import Profile, Protocol
from playground.core.tools import ToolChoice
from playground.engine import responses
from playground.engine.decisions import DecisionRequest
from playground.engine.engine import Engine
from playground.engine.runner import RetryWaits
from tests.engine.test_runner import failing
from tests.engines import StartEngine, create_session, events_of, no_sleep, run_engine, run_prompt
from tests.net.test_client import HEAD, serving
from tests.waiting import wait_for_event, wait_while_running

pytestmark = pytest.mark.anyio

BODY = b'{"error":{"message":"Too many."}}\n'

NO_CALL = (
    b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)
ONLY_LISTED = (
    b'data: {"type":"response.completed","response":{"status":"completed","output":['
    b'{"type":"mcp_list_tools","id":"l","tools":[]}]}}\n\n'
)


class Slept:
    """A sleep that notes how long it was to be; a `held` one does not end."""

    def __init__(self, *, is_held: bool = False) -> None:
        self.seconds: list[float] = []
        self.gate = asyncio.Event()
        if not is_held:
            self.gate.set()

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await self.gate.wait()

    @property
    def waits(self) -> RetryWaits:
        return RetryWaits(self, lambda: 0.5)


# fault, the seconds slept, the state in the end, words of the last sentence
FAULTS: Sequence[tuple[str, list[float], str, str]] = (
    ("http-429-then-ok-2", [1.0, 2.0], "idle", ""),
    ("http-500-then-ok-1", [1.0], "idle", ""),
    ("http-529", [1.0, 2.0], "failed", "529"),
    ("http-429-retry-3", [3.0, 3.0], "failed", "It asks to wait 3 s."),
    (
        "http-429-retry-3600",
        [],
        "failed",
        "It asks to wait 3600 s, too long for an automatic retry.",
    ),
    ("http-429-date", [1.0, 2.0], "failed", "429"),
    ("http-429-junk", [1.0, 2.0], "failed", "429"),
    ("http-401", [], "failed", "401"),
    ("json-error-200", [], "failed", ""),
    ("half-headers", [], "failed", "broke off in the headers of its answer"),
    ("close-at-once", [1.0, 2.0], "failed", "without an HTTP answer"),
    ("cut-after-6", [], "interrupted", ""),
    ("error-mid", [], "failed", ""),
)


@pytest.mark.parametrize("profile", ["simulator", "simulator-openai"])
async def test_each_fault_is_tried_again_as_the_table_says(tmp_path: Path, profile: str) -> None:
    failures = []
    async with run_engine(tmp_path) as engine:
        for fault, seconds, state, words in FAULTS:
            slept = Slept()
            engine.runner.waits = slept.waits
            session = await run_prompt(engine, f"[[fault:{fault}]] hello", asked_profile=profile)
            failure = session.turns[-1].failure
            text = failure.message if failure is not None else ""
            if (slept.seconds, session.state) != (seconds, state) or words not in text:
                failures.append((fault, slept.seconds, session.state, text))
            assert [turn.retries for turn in session.turns] == list(range(len(seconds) + 1))
            assert [turn.dropped for turn in session.turns[:-1]] == [True] * len(seconds)
            for turn in session.turns:
                (message,) = json.loads(turn.request.body)["messages"]
                assert message["role"] == "user"
    assert failures == []


async def counting(engine: Engine, fault: str = "http-500-then-ok-1") -> str:
    """A session that waits for its first retry."""
    session_id = await create_session(engine)
    await engine.runner.prompt(session_id, f"[[fault:{fault}]] hello")
    await wait_for_event(engine, session_id, RetryScheduled)
    return session_id


async def log_of(engine: Engine, session_id: str, kind: type[Event]) -> list[Event]:
    return events_of(await engine.log.events(session_id), kind)


async def test_cancel_ends_the_wait_and_sends_nothing(start_engine: StartEngine) -> None:
    slept = Slept(is_held=True)
    engine = await start_engine(waits=slept.waits)
    session_id = await counting(engine)
    async with engine.sessions.lock_session(session_id) as live:
        assert live.session.state == "running"
        retrying = live.session.retrying
    assert retrying is not None
    assert (retrying.turn, retrying.attempt, retrying.reason) == (1, 1, "500")
    assert retrying.wait_s == 1.0
    with pytest.raises(Conflict, match="still running"):
        await engine.runner.prompt(session_id, "more")
    await engine.runner.stop(session_id)
    slept.gate.set()
    session = await wait_while_running(engine, session_id)
    assert (session.state, session.stopped) == ("failed", True)
    assert len(await log_of(engine, session_id, RequestSent)) == 1
    assert await log_of(engine, session_id, RunStopped)
    assert engine.runner.waits._tasks == {}
    await engine.runner.prompt(session_id, "more")
    assert (await wait_while_running(engine, session_id)).state == "idle"


async def test_retry_now_ends_the_wait_and_sends_once(start_engine: StartEngine) -> None:
    slept = Slept(is_held=True)
    engine = await start_engine(waits=slept.waits)
    session_id = await counting(engine)
    await engine.runner.retry(session_id)
    slept.gate.set()
    session = await wait_while_running(engine, session_id)
    assert (session.state, len(session.turns)) == ("idle", 2)
    assert await log_of(engine, session_id, TurnDropped) == [TurnDropped(1)]


async def test_settings_changed_meanwhile_hold_for_the_retry(start_engine: StartEngine) -> None:
    slept = Slept(is_held=True)
    engine = await start_engine(waits=slept.waits)
    session_id = await counting(engine)
    other = await create_session(engine, model="another")
    async with engine.sessions.lock_session(other) as live:
        settings = live.session.settings
    assert settings is not None
    await engine.runner.settings(session_id, settings)
    slept.gate.set()
    session = await wait_while_running(engine, session_id)
    models = [turn.request.model for turn in session.turns]
    assert models[:2] == ["simulator", "another"]
    assert session.turns[1].retries == 1


async def test_settings_that_allow_no_more_retries_end_the_wait(start_engine: StartEngine) -> None:
    slept = Slept(is_held=True)
    engine = await start_engine(waits=slept.waits)
    session_id = await counting(engine)
    async with engine.sessions.lock_session(session_id) as live:
        settings = live.session.settings
    assert settings is not None
    for most in (1, 0):
        limits = replace(settings.limits, max_retries=most)
        await engine.runner.settings(session_id, replace(settings, limits=limits))
        assert bool(engine.runner.waits._tasks) is (most == 1)
    slept.gate.set()
    assert (await wait_while_running(engine, session_id)).state == "failed"
    assert len(await log_of(engine, session_id, RequestSent)) == 1


async def test_of_clicks_on_one_button_one_sends(start_engine: StartEngine) -> None:
    slept = Slept(is_held=True)
    engine = await start_engine(waits=slept.waits)
    session_id = await counting(engine, "http-500")
    await engine.runner.retry(session_id, 1)
    while True:
        position, version = engine.sessions.position, engine.sessions.list_version
        if len(await log_of(engine, session_id, RetryScheduled)) == 2:
            break
        assert await engine.sessions.wait(position, version, 10.0)
    for _ in range(3):
        with pytest.raises(Conflict, match="no longer the last one"):
            await engine.runner.retry(session_id, 1)
    assert len(await log_of(engine, session_id, RequestSent)) == 2


async def test_a_deleted_session_starts_and_changes_nothing(start_engine: StartEngine) -> None:
    slept = Slept(is_held=True)
    engine = await start_engine(waits=slept.waits)
    session_id = await counting(engine)
    await engine.runner.delete(session_id)
    assert engine.runner.waits._tasks == {}
    slept.gate.set()
    async with engine.sessions.lock_session(session_id) as live:
        settings, seq = live.session.settings, live.session.seq
        assert (live.session.state, live.session.stopped) == ("failed", True)
    assert settings is not None
    runner = engine.runner
    for what in (
        runner.prompt(session_id, "more"),
        runner.retry(session_id),
        runner.resume(session_id),
        runner.settings(session_id, replace(settings, model="other")),
        runner.decide(session_id, "1.0", DecisionRequest("run", "x")),
    ):
        with pytest.raises(Conflict, match="Restore it"):
            await what
    await runner.advance(session_id)
    async with engine.sessions.lock_session(session_id) as live:
        assert live.session.seq == seq
        await engine.sessions.delete(live, deleted=False)
    await runner.retry(session_id)
    assert (await wait_while_running(engine, session_id)).turns[-1].number == 2


async def test_deleting_ends_what_runs(start_engine: StartEngine) -> None:
    engine = await start_engine(pace=1.0)
    session_id = await create_session(engine)
    await engine.runner.prompt(session_id, "hello")
    await wait_for_event(engine, session_id, ResponseStarted)
    await engine.runner.delete(session_id)
    assert not engine.runner._is_busy(session_id)
    session = await wait_while_running(engine, session_id)
    assert (session.state, session.stopped) == ("interrupted", True)


async def test_the_end_of_the_program_sends_nothing_and_continue_goes_on(tmp_path: Path) -> None:
    slept = Slept(is_held=True)
    async with run_engine(tmp_path, waits=slept.waits) as engine:
        session_id = await counting(engine, "http-500")
    async with run_engine(tmp_path, waits=RetryWaits(no_sleep, lambda: 0.5)) as engine:
        session = await wait_while_running(engine, session_id)
        assert (session.state, session.paused, session.retrying) == ("paused", "restart", None)
        assert len(await log_of(engine, session_id, RequestSent)) == 1
        assert await log_of(engine, session_id, RunPaused) == [RunPaused("restart")]
        await engine.runner.resume(session_id)
        session = await wait_while_running(engine, session_id)
        # The retry that was not made is made now, and the one after it.
        assert (session.state, len(session.turns)) == ("failed", 3)


async def test_a_retry_that_cannot_be_saved_waits_for_the_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in (RetryScheduled, TurnDropped):
        async with run_engine(tmp_path) as engine:
            failing(engine, monkeypatch, kind, 2)
            session_id = await create_session(engine)
            await engine.runner.prompt(session_id, "[[fault:http-429-retry-1]] hello")
            await wait_for_event(engine, session_id, RunPaused)
            session = await wait_while_running(engine, session_id)
            assert (session.state, session.paused, len(session.turns)) == ("paused", "store", 1)
            await engine.runner.resume(session_id)
            assert len((await wait_while_running(engine, session_id)).turns) == 3


async def test_a_server_that_is_not_there_is_asked_again(start_engine: StartEngine) -> None:
    slept = Slept()
    engine = await start_engine(waits=slept.waits)
    profile = Profile("gone", "openai_chat", "http://127.0.0.1:9/v1", "", "m")
    session = await run_prompt(engine, "hello", profile=profile)
    assert (session.state, slept.seconds) == ("failed", [1.0, 2.0])
    (first, _) = await log_of(engine, session.id, RetryScheduled)
    assert isinstance(first, RetryScheduled)
    assert first.reason == "unreachable"


def refusal(more: bytes = b"", status: bytes = b"429 Too Many") -> bytes:
    return (
        b"HTTP/1.1 " + status + b"\r\nContent-Type: application/json\r\n"
        b"Connection: close\r\nX-Request-Id: req_7\r\nRetry-After-Ms: 20\r\n"
        b"X-RateLimit-Remaining-Tokens: 0\r\nAnthropic-Ratelimit-Requests-Reset: soon\r\n"
        + more
        + f"Content-Length: {len(BODY)}\r\n\r\n".encode()
        + BODY
    )


@pytest.mark.parametrize(("more", "tries"), [(b"", 3), (b"x-should-retry: false\r\n", 1)])
async def test_a_failure_tells_its_request_and_the_limits(
    tmp_path: Path, more: bytes, tries: int
) -> None:
    slept = Slept()
    async with run_engine(tmp_path, waits=slept.waits) as engine, serving(refusal(more)) as it:
        profile = Profile("p", "openai_chat", it.url, "", "m")
        session = await run_prompt(engine, "hello", profile=profile)
        assert len(session.turns) == tries
        assert slept.seconds == [0.02] * (tries - 1)
        failure = session.turns[-1].failure
        assert failure is not None
        assert failure.request_id == "req_7"
        assert failure.retry_after == 0.02
        assert failure.rate_limits == {
            "retry-after-ms": "20",
            "x-ratelimit-remaining-tokens": "0",
            "anthropic-ratelimit-requests-reset": "soon",
        }


async def test_a_wait_that_is_asked_for_in_the_body_is_waited(tmp_path: Path) -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17s"}
    error = {"error": {"code": 429, "message": "Too many.", "details": [info]}}
    body = json.dumps(error).encode()
    head = b"HTTP/1.1 429 Too Many\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    slept = Slept()
    async with run_engine(tmp_path, waits=slept.waits) as engine, serving(head + body) as it:
        profile = Profile("p", "gemini", it.url, "", "m")
        session = await run_prompt(engine, "hello", profile=profile)
        assert slept.seconds == [17.0, 17.0]
        failure = session.turns[-1].failure
        assert failure is not None
        assert failure.message.endswith(" It asks to wait 17 s.")


async def test_an_event_may_grow_to_the_limit_of_the_settings(tmp_path: Path) -> None:
    answer = HEAD + b"Connection: close\r\n\r\ndata: " + b"x" * 2000 + b"\n\n"
    async with run_engine(tmp_path) as engine, serving(answer) as it:
        profile = Profile("p", "openai_chat", it.url, "", "m")
        session_id = await create_session(engine, profile=profile)
        async with engine.sessions.lock_session(session_id) as live:
            settings = live.session.settings
        assert settings is not None
        limits = replace(settings.limits, max_event_bytes=1000)
        await engine.runner.settings(session_id, replace(settings, limits=limits))
        await engine.runner.prompt(session_id, "hello")
        failure = (await wait_while_running(engine, session_id)).turns[-1].failure
        assert failure is not None
        assert failure.failure == "too_large"
        assert "grew beyond" in failure.message


async def test_a_redirect_tells_its_request(tmp_path: Path) -> None:
    moved = refusal(b"Location: http://elsewhere.invalid/\r\n", b"302 Found")
    async with run_engine(tmp_path) as engine, serving(moved) as it:
        profile = Profile("p", "openai_chat", it.url, "", "m")
        failure = (await run_prompt(engine, "hello", profile=profile)).turns[-1].failure
        assert failure is not None
        assert (failure.failure, failure.request_id) == ("redirect", "req_7")
        assert "x-ratelimit-remaining-tokens" in failure.rate_limits


@pytest.mark.parametrize(
    ("protocol", "body"), [("openai_chat", NO_CALL), ("openai_responses", ONLY_LISTED)]
)
async def test_what_was_not_obeyed_is_said_right_before_the_end(
    tmp_path: Path, protocol: Protocol, body: bytes
) -> None:
    answer = HEAD + b"Connection: close\r\n\r\n" + body
    async with run_engine(tmp_path) as engine, serving(answer) as it:
        profile = Profile("p", protocol, it.url, "", "m")
        session_id = await create_session(
            engine, ["calculator"], profile=profile, tool_choice="required"
        )
        await engine.runner.prompt(session_id, "hello")
        session = await wait_while_running(engine, session_id)
        assert session.turns[0].request.choice == ToolChoice("required")
        log = [event.event for event in await engine.log.events(session_id)]
        place = next(i for i, event in enumerate(log) if isinstance(event, ResponseEnded))
        warned = Warned("choice_ignored", "tool_choice is required, but the model made no call.")
        assert log[place - 1] == warned
        end = log[place]
        assert isinstance(end, ResponseEnded)
        assert end.cost is None


@pytest.mark.parametrize(("answer", "cost"), [(b"", 0.25), (b',"cost":0.5', 0.5)])
async def test_a_cost_is_the_providers_word_or_our_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes, cost: float
) -> None:
    def quarter(profile: Profile, model: str, usage: Usage) -> float | None:
        assert (profile.name, model, usage.input_tokens) == ("p", "m", 7)
        return 0.25

    monkeypatch.setattr(responses, "cost", quarter)
    body = (
        b'{"choices":[{"index":0,"message":{"content":"Hi"},"finish_reason":"stop"}],'
        b'"usage":{"prompt_tokens":7,"completion_tokens":2' + answer + b"}}"
    )
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    async with run_engine(tmp_path) as engine, serving(head + body) as it:
        profile = Profile("p", "openai_chat", it.url, "", "m")
        session = await run_prompt(engine, "hello", profile=profile, stream=False)
        assert session.turns[0].end is not None
        assert session.turns[0].end.cost == cost
