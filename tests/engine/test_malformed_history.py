"""A session goes on after a call with malformed arguments, at a server that parses the history."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from playground.core.events import ResponseFailed, Tapped, Warned
from playground.core.session import Session
from playground.engine.decisions import DecisionRequest
from playground.engine.engine import Engine
from playground.engine.refusals import complains_of_arguments, explain_refusal
from playground.engine.verify import check_session
from playground.simulator.scenario import scenario
from tests.engine.boundary import Boundary
from tests.engines import create_session, events_of, run_engine
from tests.factories import Log
from tests.protocols.test_histories import UNSOUND, arguments_in
from tests.tables import rest_slow
from tests.waiting import wait_while_running

pytestmark = pytest.mark.anyio

LLAMA_CPP = (
    "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] parse error at "
    "line 1, column 14: syntax error while parsing value - unexpected end of input"
)
CUT = '{"city": "Os'
WORK = scenario(
    json.dumps(
        {
            "turns": [
                {"text": "I look.", "calls": [{"name": "get_weather", "arguments": CUT}]},
                *({"text": f"Answer {number}."} for number in range(6)),
            ]
        }
    )
)

PROFILES = {
    "anthropic": "simulator",
    "openai_chat": "simulator-openai",
    "openai_responses": "simulator-responses",
}


def parses_history(body: dict[str, Any]) -> bool:
    """Whether llama.cpp would take the body: the arguments of each call are a JSON object."""
    try:
        return all(isinstance(arguments, dict) for arguments in arguments_in(body))
    except ValueError:
        return False


class StrictServer(Boundary):
    """The simulator behind a check of each body: 500 for one that does not pass."""

    def __init__(self, check: Callable[[dict[str, Any]], bool] = parses_history) -> None:
        super().__init__()
        self._check = check

    def around(self, app: ASGIApp) -> ASGIApp:
        inner = super().around(app)

        async def checked(scope: Scope, receive: Receive, send: Send) -> None:
            body, more = b"", True
            while more:
                message = await receive()
                body += message.get("body", b"")
                more = message.get("more_body", False)

            messages: list[Message] = [{"type": "http.request", "body": body}]

            async def again() -> Message:
                return messages.pop() if messages else await receive()

            if not body or self._check(json.loads(body)):
                await inner(scope, again, send)
                return
            error = {"error": {"code": 500, "message": LLAMA_CPP, "type": "server_error"}}
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 500, "headers": headers})
            await send({"type": "http.response.body", "body": json.dumps(error).encode()})

        return checked


async def decide(engine: Engine, session_id: str, decision: str) -> Session:
    async with engine.sessions.lock_session(session_id) as live:
        digest = live.session.call("1.1").digest
    decision_request = DecisionRequest(
        decision, digest, text="By hand." if decision == "answer" else ""
    )
    await engine.runner.decide(session_id, "1.1", decision_request)
    return await wait_while_running(engine, session_id)


@pytest.mark.parametrize("protocol", rest_slow(["openai_chat", "openai_responses", "anthropic"]))
@pytest.mark.parametrize("decision", ["deny", "answer"])
async def test_the_next_prompts_are_answered_after_a_malformed_call_was_decided(
    tmp_path: Path, protocol: str, decision: str
) -> None:
    async with run_engine(tmp_path, scenario=WORK, boundary=StrictServer()) as engine:
        session_id = await create_session(engine, ["get_weather"], asked_profile=PROFILES[protocol])
        await engine.runner.prompt(session_id, "Go.")
        session = await wait_while_running(engine, session_id)
        assert session.call("1.1").malformed
        session = await decide(engine, session_id, decision)
        await engine.runner.prompt(session_id, "And?")
        session = await wait_while_running(engine, session_id)
    assert [turn.failure for turn in session.turns] == [None] * 3
    for turn in session.turns[1:]:
        assert json.dumps(CUT)[1:-1] in turn.request.body
        assert any("sent as {}" in warning.message for warning in turn.warnings)


async def test_a_refusal_of_the_history_says_which_turn_may_be_the_cause(tmp_path: Path) -> None:
    """Here by a server that refuses each history with a call."""
    strict = StrictServer(lambda body: not arguments_in(body))
    async with run_engine(tmp_path, scenario=WORK, boundary=strict) as engine:
        session_id = await create_session(
            engine, ["get_weather"], asked_profile="simulator-openai", max_retries=0
        )
        await engine.runner.prompt(session_id, "Go.")
        await wait_while_running(engine, session_id)
        session = await decide(engine, session_id, "deny")
        log = await engine.log.events(session_id)
        chunks = await engine.log.chunks(session_id)
        closed = await engine.log.recordings(session_id)
    assert session.turns[1].failure is not None
    assert LLAMA_CPP in session.turns[1].failure.message
    (warning,) = [each for each in events_of(log, Warned) if each.code == "history_refused"]
    assert warning.message.startswith(
        "The cause may be turn 1: the arguments of get_weather there are not a JSON object. Line 1"
    )
    assert warning.message.endswith("fork before that turn if the provider still refuses.")
    assert check_session(session_id, log, chunks, closed).differences == []


def session_with(arguments: str, *, tapped: bool = False) -> Session:
    log = Log().start().prompt().request()
    log.call(0, "get_weather", '{"city": "Oslo"}').end().check("1.0").run("1.0")
    log.request().call(0, "get_weather", arguments).end()
    session = log.session()
    session.tapped = Tapped("a-tap", "tester", "s") if tapped else None
    return session


@pytest.mark.parametrize("tapped", [False, True])
@pytest.mark.parametrize("text", UNSOUND)
def test_the_turn_with_unsound_arguments_is_named(tapped: bool, text: str) -> None:
    sentence = explain_refusal(session_with(text, tapped=tapped), 3)
    assert sentence.startswith("The cause may be turn 2: the arguments of get_weather there are")
    assert ("its agent" in sentence or "The agent sends them unchanged" in sentence) == tapped


def test_no_turn_is_named_where_all_arguments_are_sound() -> None:
    assert explain_refusal(session_with('{"city": "Rome"}'), 3) == ""
    assert explain_refusal(session_with("{"), 2) == ""  # it came later


@pytest.mark.parametrize(
    ("status", "message", "complains"),
    [
        (500, LLAMA_CPP, True),
        (400, "Expecting ',' delimiter: line 1 column 54 (char 53)", True),
        (400, "Unterminated string starting at: line 1 column 1121 (char 1120)", True),
        (400, "'str object' has no attribute 'items'", True),
        (400, "messages.1.content.0.tool_use.input: Input should be a valid dictionary", True),
        (429, "Expecting fewer requests", False),
        (401, "Could not parse your authentication token", False),
        (400, "The model is overloaded", False),
        (200, LLAMA_CPP, False),
    ],
)
def test_words_of_servers_that_parse_the_history(
    status: int, message: str, complains: bool
) -> None:
    assert complains_of_arguments(ResponseFailed("http", message, status)) == complains
