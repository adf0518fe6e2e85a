"""What somebody brings is kept to be read: a request as the session it would be."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from playground.core.errors import BadInput, Refused
from playground.core.session import Prompt
from playground.engine import export_session
from playground.engine.engine import Engine
from playground.engine.fork import ForkPlace, fork
from playground.engine.import_session import import_session
from playground.exchange.export_formats import EXPORTS
from playground.exchange.requests_export import encode_request
from tests.engines import StartEngine, run_engine
from tests.exchange.test_agents import CLAUDE_CODE, OPENCODE, normalize_body
from tests.exchange.test_requests_import import CHAT, CLAUDE

pytestmark = pytest.mark.anyio

KEY = "sk-ant-api03-" + "Ab9" * 12


@pytest.mark.parametrize(
    ("text", "profile"),
    [
        (json.dumps(CHAT), "openai"),
        (f"curl http://127.0.0.1:1/v1/chat/completions -d '{json.dumps(CHAT)}'", "127.0.0.1"),
        (f"curl https://api.anthropic.com/v1/messages -d '{json.dumps(CLAUDE)}'", "anthropic"),
    ],
)
async def test_a_request_is_kept_and_goes_on_as_a_fork_without_its_tools(
    text: str, profile: str, engine: Engine
) -> None:
    session_id = await import_session(engine, text.encode())
    async with engine.sessions.lock_session(session_id) as live:
        assert (live.own, live.session.state) == (False, "paused")
        assert live.title
        settings = live.session.settings
        assert settings is not None
        assert settings.profile.name == profile
    with pytest.raises(Refused):
        await engine.runner.resume(session_id)
    child = await fork(engine, session_id, ForkPlace(), go=False)
    async with engine.sessions.lock_session(child) as live:
        assert live.session.settings is not None
        assert (live.session.settings.tools, live.session.state) == ((), "paused")


async def test_an_archive_brings_its_bytes_and_no_key(start_engine: StartEngine) -> None:
    data = {"message": {"content": f"Hi {KEY}"}, "finish_reason": "stop", "index": 0}
    answer = json.dumps({"choices": [data]})
    entry: dict[str, Any] = {
        "request": {
            "url": f"https://x/v1/chat/completions?key={KEY}",
            "headers": [{"name": "Authorization", "value": f"Bearer {KEY}"}],
            "postData": {"text": json.dumps(CHAT)},
        },
        "response": {"status": 200, "content": {"text": answer}},
    }
    engine = await start_engine()
    session_id = await import_session(engine, json.dumps({"log": {"entries": [entry]}}).encode())
    (chunk,) = await engine.log.chunks(session_id)
    assert chunk.data == answer.replace(KEY, "*" * len(KEY)).encode()
    closed = (await engine.log.recordings(session_id))[chunk.recording]
    assert closed.sha256 == hashlib.sha256(chunk.data).hexdigest()
    assert [answer[start:end] for start, end in closed.masked] == [KEY]
    assert KEY not in repr(await engine.log.events(session_id))


async def test_what_is_none_of_it_says_what_can_be_brought(engine: Engine) -> None:
    with pytest.raises(BadInput, match="Import a session that was exported"):
        await import_session(engine, b"hello")
    assert await engine.log.summaries() == []


async def test_a_request_of_an_agent_is_kept_forked_and_exported(engine: Engine) -> None:
    """With its messages of the system where they were, in the form that they came in."""
    first = await import_session(engine, json.dumps(CLAUDE_CODE).encode())
    bundle = await export_session.read_bundle(engine, first)
    assert bundle.title.startswith("<reminder>")
    sent = json.loads(encode_request(bundle.session, "anthropic", None).body)
    assert normalize_body("anthropic", sent) == normalize_body("anthropic", CLAUDE_CODE)
    again = await import_session(engine, EXPORTS["jsonl"].write(bundle).data)
    copy = await export_session.read_bundle(engine, again)
    assert [logged.event for logged in copy.log] == [item.event for item in bundle.log]
    child = await fork(engine, again, ForkPlace(), go=False)
    own = (await export_session.read_bundle(engine, child)).session
    sent = json.loads(encode_request(own, "anthropic", None).body)
    assert sent["system"] == CLAUDE_CODE["system"]
    lines = [message["role"] for message in sent["messages"]]
    assert lines == [message["role"] for message in CLAUDE_CODE["messages"]]
    assert sent["messages"][0] == CLAUDE_CODE["messages"][0]
    assert "tools" not in sent
    edited = await fork(engine, again, ForkPlace(prompt=4), text="Plan mode is on.", go=False)
    last = (await export_session.read_bundle(engine, edited)).session.items[-1]
    assert isinstance(last, Prompt)
    assert (last.role, last.text, last.form) == ("system", "Plan mode is on.", {})


@pytest.mark.parametrize("body", [CLAUDE_CODE, OPENCODE], ids=["anthropic", "openai_chat"])
async def test_a_brought_request_is_exported_for_others(
    tmp_path: Path, body: dict[str, Any]
) -> None:
    """What was only brought has no turn that was sent; the next request is what it says."""
    body = {**body, "messages": body["messages"][:2]}
    async with run_engine(tmp_path) as engine:
        bundle = await export_session.read_bundle(
            engine, await import_session(engine, json.dumps(body).encode())
        )
    chat = json.loads(EXPORTS["openai"].write(bundle).data)
    claude = EXPORTS["anthropic"].write(bundle)
    assert [message["role"] for message in chat["messages"]][-1] in ("system", "user")
    assert json.loads(claude.data)["messages"][0]["role"] == "user"
    assert any("seed" in note for note in claude.notes) == ("seed" in body)
