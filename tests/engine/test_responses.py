"""One request against the simulator's faults: the session goes on, the bytes kept, no key."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from playground.commands.sockets import bind_socket, port_of
from playground.core.decide import next_commands
from playground.core.errors import Conflict, Refused
from playground.core.events import (
    Event,
    PartDelta,
    PartEnded,
    RequestSent,
    ResponseFailed,
    ResponseStarted,
)
from playground.core.session import session_data
from playground.core.settings import Limits, Profile
from playground.core.tools import Tool
from playground.engine.decisions import DecisionRequest
from playground.engine.engine import Engine
from playground.engine.responses import (
    TOGETHER,
    TOGETHER_BYTES,
    OpenRequest,
    PreparedRequest,
    ProviderClient,
    Received,
    ResponseRecorder,
    StreamingValidation,
    join_headers,
)
from playground.engine.sessions import SessionStore
from playground.protocols.registry import codec
from playground.secrets.redaction import Redactor
from tests.engines import KEY, StartEngine, create_session, events_of, run_engine, run_prompt
from tests.factories import Log
from tests.net.test_client import HEAD, serving
from tests.waiting import wait_while_running

pytestmark = pytest.mark.anyio

CANARY = "sk-canary-7f3a9c1e5b2d4680"

# fault, the session's state, the failure ("" for a good end), a word of the sentence; what each
# of them all comes to on each protocol is the table of test_faults.
FAULTS: tuple[tuple[str, str, str, str], ...] = (
    ("http-400", "failed", "http", "400"),
    ("html-200", "failed", "not_api", "HTML"),
    ("json-error-200", "failed", "error", ""),
    ("redirect", "failed", "redirect", "elsewhere.invalid"),
    ("error-mid", "failed", "error", ""),
    ("cut-after-6", "interrupted", "interrupted", ""),
    ("clean-end-mid-args", "interrupted", "interrupted", ""),
    ("no-done", "waiting", "", ""),
    ("args-garbage", "waiting", "", ""),
)


@pytest.mark.parametrize("profile", ["simulator", "simulator-openai"])
async def test_a_session_survives_each_kind_of_end(profile: str, engine: Engine) -> None:
    failures: list[tuple[str, ...]] = []
    for fault, state, failure, word in FAULTS:
        prompt = f"[[fault:{fault}]] What is 17 * 23?"
        session = await run_prompt(engine, prompt, "calculator", asked_profile=profile)
        turn = session.turns[-1]
        literal = turn.failure.failure if turn.failure is not None else ""
        message = turn.failure.message if turn.failure is not None else ""
        if (session.state, literal) != (state, failure) or word not in message:
            failures.append((fault, session.state, literal, message))
        if message and not message.rstrip().endswith((".", "!", "?", ")", '"')):
            failures.append((fault, "no sentence", message))
        assert next_commands(session) == []
        # The session survives: it reads again from its log, and takes what comes next.
        again = await engine.log.events(session.id)
        assert again[-1].seq == session.seq
        if state in ("failed", "interrupted"):
            await engine.runner.retry(session.id)
            await wait_while_running(engine, session.id)
    assert failures == []


@pytest.mark.parametrize("fault", ["args-truncated", "args-garbage", "args-array", "tool-unknown"])
async def test_what_is_malformed_waits_and_cannot_run(fault: str, engine: Engine) -> None:
    session = await run_prompt(engine, f"[[fault:{fault}]] What is 17 * 23?", "calculator")
    (call,) = session.waiting
    for anyway in (False, True):
        wish = DecisionRequest("run", call.digest, anyway=anyway)
        with pytest.raises(Refused):
            await engine.runner.decide(session.id, call.id, wish)
    assert (await wait_while_running(engine, session.id)).seq == session.seq
    await engine.runner.decide(session.id, call.id, DecisionRequest("deny", call.digest))
    result = (await wait_while_running(engine, session.id)).call(call.id).result
    assert result is not None
    assert result.kind == "denied"


@pytest.mark.parametrize("profile", ["simulator", "simulator-openai"])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("what", ["empty", "null"])
async def test_arguments_that_say_nothing_are_noted(
    profile: str, stream: bool, what: str, engine: Engine
) -> None:
    prompt = f"[[fault:args-{what}]] What is 17 * 23?"
    more = {"asked_profile": profile, "stream": stream}
    (call,) = (await run_prompt(engine, prompt, "calculator", **more)).waiting
    assert call.problems[0].kind == "note"
    assert "{} is passed" in call.problems[0].message
    assert call.arguments == "{}"


@pytest.mark.parametrize("profile", ["simulator", "simulator-openai"])
async def test_a_session_outlives_every_name_a_model_invents(
    profile: str, start_engine: StartEngine
) -> None:
    names = ("unknown", "empty-name", "long-name", "odd-name", "lookalike-name")
    engine = await start_engine()
    for name in names:
        prompt = f"[[fault:tool-{name}]] What is 17 * 23?"
        session = await run_prompt(engine, prompt, "calculator", asked_profile=profile)
        (call,) = session.waiting
        await engine.runner.decide(session.id, call.id, DecisionRequest("deny", call.digest))
        session = await wait_while_running(engine, session.id)
        assert session.turns[1].failure is None, (name, session.turns[1].failure)


async def test_a_cut_call_can_be_read_and_never_run(engine: Engine) -> None:
    session = await run_prompt(engine, "[[fault:clean-end-mid-args]] 17 * 23?", "calculator")
    (call,) = session.calls()
    assert call.raw
    assert not call.part.complete
    with pytest.raises((Refused, Conflict)):
        await engine.runner.decide(session.id, call.id, DecisionRequest("run", call.digest or "x"))


async def test_an_echoed_key_is_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    environment = {"ANTHROPIC_API_KEY": CANARY}
    async with run_engine(tmp_path, environment=environment) as engine:
        url = engine.runner._client._simulator_url()
        engine.keys.paste("ANTHROPIC_API_KEY", CANARY, url)
        profile = Profile("echo", "anthropic", url + "/anthropic", "ANTHROPIC_API_KEY", "m")
        session = await run_prompt(
            engine, f"[[fault:http-401-echo-key]] my key is {CANARY[:9]}", profile=profile
        )
        failure = session.turns[-1].failure
        assert failure is not None
        assert (failure.failure, failure.status) == ("http", 401)
        (sent,) = events_of(await engine.log.events(session.id), RequestSent)
        assert "$ANTHROPIC_API_KEY" in sent.headers.values()
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert CANARY.encode() not in path.read_bytes(), path
            assert KEY.encode() not in path.read_bytes(), path
    assert CANARY not in caplog.text


@pytest.mark.parametrize(
    ("fault", "stream", "text"),
    [
        ("wrong-content-type", True, "is called text/plain"),
        ("json-instead-of-sse", True, "is called application/json"),
        ("no-done", True, ""),
        ("http-500", True, ""),
        ("wrong-content-type", False, ""),
    ],
)
async def test_an_answer_of_another_type_than_asked_is_noted(
    fault: str, stream: bool, text: str, engine: Engine
) -> None:
    session = await run_prompt(engine, f"[[fault:{fault}]] Hi", stream=stream)
    outputs = [w.message for w in session.turns[0].warnings if w.code == "content_type"]
    assert bool(outputs) == bool(text)
    assert all(text in message for message in outputs)


@pytest.mark.parametrize(
    ("key_name", "end"),
    [("A_KEY", "Check A_KEY."), ("", "The profile names no key (Providers).")],
)
async def test_a_refused_key_is_named(key_name: str, end: str, start_engine: StartEngine) -> None:
    engine = await start_engine(environment={"A_KEY": "wrong-key-0123456789"})
    url = engine.runner._client._simulator_url()
    engine.keys.paste("A_KEY", "wrong-key-0123456789", url)
    profile = Profile("p", "anthropic", url + "/anthropic", key_name, "m")
    failure = (await run_prompt(engine, "hello", profile=profile)).turns[0].failure
    assert failure is not None
    assert failure.status == 401
    assert failure.message.endswith(end)


async def test_without_a_model_nothing_is_sent(engine: Engine) -> None:
    profile = Profile("p", "ollama", "sim:")
    failure = (await run_prompt(engine, "hello", profile=profile)).turns[0].failure
    assert failure is not None
    assert (failure.failure, failure.status) == ("bad_request", None)
    assert "No model is named. Choose one." in failure.message


async def test_the_wait_that_is_asked_is_said(engine: Engine) -> None:
    session = await run_prompt(engine, "[[fault:http-429-retry-30]] Hi")
    failure = session.turns[0].failure
    assert failure is not None
    assert failure.message.endswith(" It asks to wait 30 s.")
    response = session.turns[0].response
    assert response is not None
    assert response.request_id.startswith("req_")


async def test_without_a_key_nothing_is_sent(engine: Engine) -> None:
    session = await run_prompt(engine, "hello", asked_profile="openai")
    failure = session.turns[-1].failure
    assert failure is not None
    assert failure.failure == "no_key"
    assert "OPENAI_API_KEY" in failure.message
    assert session.state == "failed"


async def test_a_refused_connection_names_the_place(start_engine: StartEngine) -> None:
    sock = bind_socket("127.0.0.1", 0)
    port = port_of(sock)
    sock.close()
    engine = await start_engine()
    profile = Profile("gone", "openai_chat", f"http://127.0.0.1:{port}/v1", "", "m")
    session = await run_prompt(engine, "hello", profile=profile)
    failure = session.turns[-1].failure
    assert failure is not None
    assert failure.failure == "unreachable"
    assert f"127.0.0.1:{port}" in failure.message


async def test_what_came_is_kept_byte_for_byte(tmp_path: Path) -> None:
    body = (
        b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
        b": odd\n\n"
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    )
    async with (
        run_engine(tmp_path) as engine,
        serving(HEAD + b"Connection: close\r\n\r\n" + body) as it,
    ):
        profile = Profile("raw", "openai_chat", it.url, "", "m")
        session = await run_prompt(engine, "hello", profile=profile)
        assert session.answer == "Hi"
        chunks = await engine.log.chunks(session.id)
        stored_data = b"".join(chunk.data for chunk in chunks)
        assert stored_data == body
        for logged in await engine.log.events(session.id):
            if isinstance(logged.event, PartDelta) and logged.source is not None:
                assert b'"Hi"' in stored_data[logged.source.start : logged.source.end]
    with closing(sqlite3.connect(tmp_path / "test.db")) as connection:
        assert connection.execute("SELECT clean FROM recordings").fetchall() == [(1,)]


async def test_what_came_with_the_end_is_told(tmp_path: Path) -> None:
    more = b'data: {"choices":[{"index":0,"delta":{"content":"and"}}]}\n\n'
    end = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'
    answer = HEAD + b"Connection: close\r\n\r\n" + end + b"data: [DONE]\n\n" + more
    async with run_engine(tmp_path) as engine, serving(answer) as it:
        profile = Profile("raw", "openai_chat", it.url, "", "m")
        session = await run_prompt(engine, "hello", profile=profile)
        assert session.answer == "Hi"
        assert "after_end" in [warning.code for warning in session.turns[0].warnings]


async def test_stop_ends_a_silent_answer_at_once(engine: Engine) -> None:
    session_id = await create_session(engine, ["calculator"])
    await engine.runner.prompt(session_id, "[[fault:stall-after-6]] What is 17 * 23?")
    async with asyncio.timeout(20):
        while not events_of(await engine.log.events(session_id), PartDelta):
            await engine.sessions.wait(engine.sessions.position, engine.sessions.list_version, 5)
    async with asyncio.timeout(20):
        await engine.runner.stop(session_id)
    session = await wait_while_running(engine, session_id)
    failure = session.turns[-1].failure
    assert failure is not None
    assert failure.failure == "stopped"
    assert session.state == "interrupted"
    assert session.turns[-1].text
    assert session_data(session)["text"] == session.turns[-1].text


@pytest.mark.parametrize("began", [False, True], ids=["before it begins", "as it begins"])
async def test_an_answer_that_is_stopped_before_its_reader_ran_ends(
    monkeypatch: pytest.MonkeyPatch, began: bool, start_engine: StartEngine
) -> None:
    read = ProviderClient._read

    def stop_and_read(
        client: ProviderClient, prepared: PreparedRequest, answering: OpenRequest
    ) -> Coroutine[Any, Any, None]:
        failure = ResponseFailed("stopped", "Stopped.")
        if began:
            asyncio.get_running_loop().call_soon(answering.stop, failure)
        else:
            answering.stop(failure)
        return read(client, prepared, answering)

    engine = await start_engine()
    monkeypatch.setattr(ProviderClient, "_read", stop_and_read)
    session_id = await create_session(engine, ["calculator"])
    await engine.runner.prompt(session_id, "What is 17 * 23?")
    with anyio.fail_after(20):
        session = await wait_while_running(engine, session_id)
    failure = session.turns[-1].failure
    assert failure is not None
    assert failure.failure == "stopped"


def test_no_header_is_sent_twice() -> None:
    own = {"Anthropic-Version": "mine", "Accept": "x/y"}
    headers = join_headers(
        {"anthropic-version": "theirs", "accept": "a/b"}, own, {"X-Api-Key": "k"}
    )
    assert headers == {"anthropic-version": "mine", "accept": "x/y", "x-api-key": "k"}


async def test_what_is_written_at_once_is_bounded_by_its_bytes() -> None:
    answering, piece = OpenRequest(), b"x" * (TOGETHER_BYTES // 4)
    for _ in range(10):
        answering.put(Received(0, piece))
    assert [len(await answering.next_items()) for _ in range(3)] == [4, 4, 2]
    for _ in range(TOGETHER + 1):
        answering.put(Received(0, b"x"))
    assert [len(await answering.next_items()) for _ in range(2)] == [TOGETHER, 1]


class Saving:
    """A session store that keeps nothing."""

    def __init__(self, saved: Callable[[], object] = lambda: None) -> None:
        self._saved = saved

    async def append(self, *_: Any, **named: Any) -> None:
        self._saved()


def written_to(sessions: Saving, *tools: Tool) -> ResponseRecorder:
    sent = Log().start().request(protocol="ollama").events[-2].event
    assert isinstance(sent, RequestSent)

    async def then(_: Any) -> None: ...

    prepared = PreparedRequest(sent, codec("ollama"), {}, b"", Limits(), tools=tools)
    return ResponseRecorder(cast(SessionStore, sessions), "s", prepared, Redactor(), then)


def test_close_lets_go_of_what_was_not_read() -> None:
    open_request = OpenRequest()
    open_request.put(Received(0, b"x"))
    open_request.close()
    assert open_request.queue.empty()


async def test_others_get_their_turn_between_pieces_that_arrived_together() -> None:
    """Each can hold hundreds of calls: Stop of another session waits for one piece, not for all."""
    turns, turns_before_saving = 0, list[int]()

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    writing = written_to(Saving(lambda: turns_before_saving.append(turns)))
    line = b'{"message": {"role": "assistant", "content": "x"}, "done": false}\n'
    task = asyncio.create_task(others())
    arrived = [
        Received(0, started=ResponseStarted(200, {})),
        *(Received(0, line * 40) for _ in range(50)),
    ]
    await writing.take(arrived, lambda: None)
    task.cancel()
    assert turns_before_saving[0] >= len(arrived) - 2


async def test_once_stopped_no_call_is_checked_while_it_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What had arrived by then is decoded and kept; Stop waits for that, and for nothing else."""
    looked: list[Event] = []
    monkeypatch.setattr(
        StreamingValidation, "check_event", lambda self, event: looked.append(event)
    )
    writing, asked_count = written_to(Saving(), Tool("note")), count()
    document = {"function": {"name": "note", "arguments": {"n": 1}}}
    line = json.dumps({"message": {"role": "assistant", "content": "", "tool_calls": [document]}})
    first = Received(0, started=ResponseStarted(200, {}))
    rest = [Received(0, line.encode() + b"\n") for _ in range(50)]
    stopped = ResponseFailed("stopped", "Stop.")
    await writing.take([first, *rest], lambda: stopped if next(asked_count) > 5 else None)
    assert sum(isinstance(event, PartEnded) for event in looked) == 5
