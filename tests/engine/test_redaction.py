"""A key is in no row but as stars, whoever wrote it and however it was cut. Threat 16."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args, get_type_hints

import pytest

from playground.core.events import (
    CallChecked,
    CallDecided,
    CallEnded,
    CallProgressed,
    Event,
    PartDelta,
    PartEnded,
    PromptAdded,
    ResponseFailed,
    SettingsChanged,
    TaskEnded,
    TaskStarted,
)
from playground.core.providers import SIMULATOR
from playground.core.serialization import from_row, to_row
from playground.core.settings import Profile, Settings
from playground.core.tools import Tool, text_result
from playground.engine.decisions import DecisionRequest
from playground.engine.engine import Engine
from playground.engine.export_session import read_bundle, redact_bundle
from playground.engine.redaction import redact_event
from playground.engine.sessions import SessionStore
from playground.engine.tool_runs import ProgressSaver, task_writer
from playground.engine.verify import Difference, verify
from playground.exchange.bundle import write_session
from playground.executors.executor import Invocation
from playground.secrets.redaction import Redactor
from tests.engines import ALLOW_ALL, create_session, events_of, run_engine, run_prompt
from tests.net.test_client import serving
from tests.tables import rest_slow
from tests.waiting import wait_while_running

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]
CANARY = "sk-canary/0f1e2d3c4b5a"
ESCAPED = "".join(f"\\u{ord(letter):04x}" for letter in CANARY)
STARS = "*" * len(CANARY)
SAID = f"say {CANARY}!"
ECHO = Tool("echo", config={"result": "you said {{text}}"})

EVENTS: tuple[Event, ...] = (
    SettingsChanged(Settings(SIMULATOR, system=SAID)),
    PromptAdded(SAID),
    PartEnded(0, json.dumps({"key": CANARY})),
    PartEnded(0, f'{{"key": "{ESCAPED}"}}'),
    CallDecided("1.0", "run", arguments=f'{{"a": "{CANARY}"}}'),
    CallDecided("1.0", "answer", text=SAID),
    CallProgressed("1.0", SAID),
    CallProgressed("1.0", "", output=SAID),
    TaskStarted("call-1-0", "1.0", f"echo {SAID}"),
    TaskEnded("call-1-0", "done", text_result(SAID)),
    CallEnded("1.0", text_result(SAID)),
    CallEnded("1.0", text_result("made up"), text_result(SAID)),
    ResponseFailed("error", SAID, error={"message": [SAID]}),
)

NOT_MASKED = {
    # Masked before it is an event, with what was sent.
    *("RequestSent.url", "RequestSent.body", "RequestSent.model"),
    # Masked over the deltas of a part.
    "PartDelta.text",
    # Identifiers, names and digests.
    *("RequestSent.protocol", "RequestSent.method", "ResponseStarted.request_id"),
    *("ResponseFailed.raw_reason", "ResponseFailed.request_id", "Warned.code"),
    *("CallChecked.call_id", "CallChecked.digest", "CallChecked.code", "CallDecided.call_id"),
    *("CallDecided.digest", "CallDecided.rule_id", "CallDecided.fault", "CallReturned.call_id"),
    *("CallStarted.call_id", "CallProgressed.call_id", "CallProgressed.key"),
    *("CallExtended.call_id", "CallEnded.call_id", "CallInterrupted.call_id"),
    *("TaskStarted.task_id", "TaskStarted.call_id", "TaskEnded.task_id", "RunStopped.call_id"),
    *("SessionForked.parent", "RequestReceived.digest", "AnswerPassed.sha256"),
    # Words of this program, and of rules, which are checked when they are saved.
    *("RetryScheduled.reason", "CallChecked.asks", "CallDecided.rule", "CallReturned.why"),
    *("TaskEnded.how", "RunPaused.limit", "RunPaused.message", "RunStopped.rule"),
    "AnswerPassed.says",
}
"""Texts of events in which `redact_event` replaces nothing."""

SHIPPED_ASKED = {
    "get_weather": "What is the weather in Paris?",
    "calculator": "What is 17 * 23?",
}

FIRST = {"index": 0, "id": "c1", "function": {"name": "echo", "arguments": '{"text": "'}}


def text_fields() -> Iterator[tuple[Event, str]]:
    """An event of each kind, and each field of it that is a text of any words."""
    lines = (ROOT / "tests/public_surface/rows.jsonl").read_text("utf-8").splitlines()
    rows = [row for table, row in map(json.loads, lines) if table == "events"]
    events = {type(event): event for event in (from_row(row["kind"], row["body"]) for row in rows)}
    for kind in get_args(Event):
        hints = get_type_hints(kind)
        for each in fields(kind):
            if hints[each.name] in (str, str | None):
                yield events[kind], each.name


def test_every_text_of_an_event_is_masked_or_named_as_one_that_is_not() -> None:
    results = set()
    for event, name in text_fields():
        values: dict[str, Any] = {name: SAID}
        changed: Event = replace(event, **values)
        if CANARY in getattr(redact_event(changed, Redactor([CANARY])), name):
            results.add(f"{type(event).__name__}.{name}")
    assert results - NOT_MASKED == set(), (
        "Mask these fields in `redact_event`. If one holds no text of a user, a model or a tool, "
        "add it to NOT_MASKED."
    )
    assert NOT_MASKED - results == set(), "Remove these from NOT_MASKED: they are masked or gone."


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_the_texts_of_an_event_are_masked(event: Event) -> None:
    kind, body = to_row(redact_event(event, Redactor([CANARY])))
    assert CANARY not in body
    assert ESCAPED not in json.loads(body).get("text", "")
    assert STARS in body
    assert redact_event(event, Redactor()) == event
    assert redact_event(event, Redactor(["another-secret"])) == event
    assert kind == to_row(event)[0]


def test_a_delta_is_left_alone() -> None:
    delta = PartDelta(0, CANARY[:5])
    assert redact_event(delta, Redactor([CANARY])) is delta


@pytest.mark.parametrize("size", [1, 5, 17, 40])
def test_a_key_that_is_printed_in_two_pieces_is_masked(tmp_path: Path, size: int) -> None:
    sessions = cast(SessionStore, SimpleNamespace(redactor=lambda: Redactor([CANARY])))
    invocation = Invocation(
        "s",
        call="1.0",
        attempt=1,
        tool=ECHO,
        arguments="{}",
        timeout_s=1.0,
        max_output=1,
        folder=tmp_path,
        idempotency_key="",
    )
    progress, lines = ProgressSaver(sessions, invocation), list[Event]()
    text = f"é out: {CANARY} done, and {CANARY[:10]}"
    for start in range(0, len(text), size):
        progress.report("at it", None, text[start : start + size])
        lines += progress.take_unsaved()
    lines += progress.take_unsaved(over=True)
    printed = "".join(item.output for item in lines if isinstance(item, CallProgressed))
    assert printed == f"é out: {STARS} done, and {'*' * 10}"
    assert progress.take_unsaved(over=True) == []


@pytest.mark.parametrize(("shown_length", "stars"), [(10, 0), (16, 0), (17, 17), (21, 21)])
def test_a_program_that_ended_by_itself_may_show_how_a_key_begins(
    tmp_path: Path, shown_length: int, stars: int
) -> None:
    sessions = cast(SessionStore, SimpleNamespace(redactor=lambda: Redactor([CANARY])))
    progress = ProgressSaver(
        sessions,
        Invocation(
            "s",
            call="1.0",
            attempt=1,
            tool=ECHO,
            arguments="{}",
            timeout_s=1.0,
            max_output=1,
            folder=tmp_path,
            idempotency_key="",
        ),
    )
    progress.report("at it", None, f"it begins with {CANARY[:shown_length]}")
    (released,) = progress.take_unsaved(over=True, whole=True)
    assert isinstance(released, CallProgressed)
    assert released.output == f"it begins with {'*' * stars}{CANARY[stars:shown_length]}"


@pytest.mark.parametrize(
    "profile",
    rest_slow(["simulator", "simulator-openai", "simulator-gemini", "simulator-ollama"]),
)
async def test_nothing_of_a_plain_session_is_starred(profile: str, engine: Engine) -> None:
    shipped = [tool.name for tool in await engine.library.tools()]
    for tools, prompt in (*SHIPPED_ASKED.items(), ("", "Answer fast, with a basic plan.")):
        named = [tools] if tools else shipped
        session = await run_prompt(engine, prompt, *named, asked_profile=profile, rules=ALLOW_ALL)
        bundle = await read_bundle(engine, session.id)
        left = redact_bundle(bundle, set(engine.keys.secrets()), {}, ())
        assert left.marks == ()
        assert write_session(left.bundle).data == write_session(bundle).data
        checked = [logged.event for logged in bundle.log if isinstance(logged.event, CallChecked)]
        assert all(item.code for item in checked)
        assert len(checked) == bool(tools)


def spoken(*deltas: object) -> bytes:
    """An answer of OpenAI's protocol with a delta for each of `deltas`, then calls or a stop."""
    calls = any(isinstance(delta, dict) and "tool_calls" in delta for delta in deltas)
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"})
    lines = [
        "data: "
        f"{json.dumps({'id': 'x', 'object': 'chat.completion.chunk', 'choices': [choice]})}\n\n"
        for choice in choices
    ]
    head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    body = "".join([*lines, "data: [DONE]\n\n"]).replace("ESCAPED", ESCAPED)
    return (head + body).encode()


def call_delta(arguments: str, **more: object) -> dict[str, object]:
    return {"tool_calls": [{"index": 0, **more, "function": {"arguments": arguments}}]}


ECHOES: dict[str, bytes] = {
    "one character each": spoken(*({"content": letter} for letter in CANARY)),
    "escaped throughout": spoken({"content": "ESCAPED"}),
    "arguments": spoken({"tool_calls": [FIRST]}, *map(call_delta, CANARY), call_delta('"}')),
}


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
async def test_a_key_that_comes_back_in_pieces_is_in_no_row(tmp_path: Path, echo: bytes) -> None:
    async with serving(echo) as provider:
        async with run_engine(tmp_path, environment={"MY_LLM_KEY": CANARY}) as engine:
            await engine.confirm("MY_LLM_KEY", provider.url)
            profile = Profile("echo", "openai_chat", provider.url, "MY_LLM_KEY", "m")
            engine.keys.key_for(profile)  # as after a first request
            session_id = await create_session(engine, [ECHO], profile=profile)
            await engine.runner.prompt(session_id, f"my key is {CANARY}")
            session = await wait_while_running(engine, session_id)
            for call in session.waiting:
                await engine.runner.decide(session_id, call.id, DecisionRequest("run", call.digest))
                await wait_while_running(engine, session_id)
            async with engine.sessions.lock_session(session_id) as live:
                assert live.title == f"my key is {STARS}"
                await engine.sessions.rename(live, f"about {CANARY}")
            await engine.sessions.create(Settings(SIMULATOR), f"with {CANARY}")
            differences: list[Difference] = []
            await verify(engine.database, differences.append)
            assert [difference.line for difference in differences] == []
        assert f"Bearer {CANARY}".encode() in provider.seen[0]
    with closing(sqlite3.connect(tmp_path / "test.db")) as connection:
        rows = connection.execute(
            "SELECT body FROM events WHERE kind NOT LIKE 'part_delta%'"
        ).fetchall()
        titles = connection.execute("SELECT title FROM sessions ORDER BY title").fetchall()
    assert titles == [(f"about {STARS}",), (f"with {STARS}",)]
    assert any(STARS in body for (body,) in rows)
    assert CANARY not in json.dumps([json.loads(body) for (body,) in rows])
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert CANARY.encode() not in path.read_bytes(), path
            assert ESCAPED.encode() not in path.read_bytes(), path


async def test_title_of_a_background_task_when_it_has_a_key_is_masked_in_the_database(
    tmp_path: Path,
) -> None:
    """The title is made from the arguments of a call, which may have a key."""
    async with run_engine(tmp_path, environment={"MY_LLM_KEY": CANARY}) as engine:
        await engine.confirm("MY_LLM_KEY", "https://127.0.0.1:9")
        engine.keys.key_for(Profile("p", "openai_chat", "https://127.0.0.1:9", "MY_LLM_KEY", "m"))
        session = await run_prompt(engine, "What is 17 * 23?", "calculator")
        (call,) = session.waiting
        title = f"curl -H 'x-api-key: {CANARY}'"
        await task_writer(engine.sessions)(session.id, TaskStarted("task-1-0", call.id, title))
        (started,) = events_of(await engine.log.events(session.id), TaskStarted)
        assert started.title == f"curl -H 'x-api-key: {STARS}'"
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert CANARY.encode() not in path.read_bytes(), path
