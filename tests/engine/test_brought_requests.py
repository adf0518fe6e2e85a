"""What somebody brings is kept to be read: a request as the session it would be."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from app.core.errors import BadInput, Refused
from app.engine.bringing import bring
from app.engine.forking import Place, fork
from tests.engine.running import running
from tests.formats.test_requests import CHAT, CLAUDE

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
    tmp_path: Path, text: str, profile: str
) -> None:
    async with running(tmp_path) as engine:
        session_id = await bring(engine, text.encode())
        async with engine.hub.holding(session_id) as live:
            assert (live.own, live.session.state) == (False, "paused")
            assert live.title
            settings = live.session.settings
            assert settings is not None
            assert settings.profile.name == profile
        with pytest.raises(Refused):
            await engine.driver.resume(session_id)
        child = await fork(engine, session_id, Place(), go=False)
        async with engine.hub.holding(child) as live:
            assert live.session.settings is not None
            assert (live.session.settings.tools, live.session.state) == ((), "paused")


async def test_an_archive_brings_its_bytes_and_no_key(tmp_path: Path) -> None:
    said = {"message": {"content": f"Hi {KEY}"}, "finish_reason": "stop", "index": 0}
    answer = json.dumps({"choices": [said]})
    entry: dict[str, Any] = {
        "request": {
            "url": f"https://x/v1/chat/completions?key={KEY}",
            "headers": [{"name": "Authorization", "value": f"Bearer {KEY}"}],
            "postData": {"text": json.dumps(CHAT)},
        },
        "response": {"status": 200, "content": {"text": answer}},
    }
    async with running(tmp_path) as engine:
        session_id = await bring(engine, json.dumps({"log": {"entries": [entry]}}).encode())
        (chunk,) = await engine.log.chunks(session_id)
        assert chunk.data == answer.replace(KEY, "*" * len(KEY)).encode()
        closed = (await engine.log.recordings(session_id))[chunk.recording]
        assert closed.sha256 == hashlib.sha256(chunk.data).hexdigest()
        assert [answer[start:end] for start, end in closed.masked] == [KEY]
        assert KEY not in repr(await engine.log.events(session_id))


async def test_what_is_none_of_it_says_what_can_be_brought(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        with pytest.raises(BadInput, match="Bring a session that was exported"):
            await bring(engine, b"hello")
        assert await engine.log.summaries() == []
