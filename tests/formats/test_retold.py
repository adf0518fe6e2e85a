"""Requests brought from elsewhere become sessions whose next request says the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.core.events import RequestSent
from app.core.messages import model_request
from app.core.settings import Profile
from app.core.state import Call, Session
from app.formats.requests import read_requests
from app.formats.retold import Retold, retold
from app.wire.protocols import codec
from tests.engine.running import ALLOW_ALL, asked, rested, running

PROFILES = ("simulator", *(f"simulator-{n}" for n in ("openai", "responses", "gemini", "ollama")))
PROMPT = "What is 17*23, and the weather in Paris?"


def told(text: str, profile: Profile, session_id: str = "new") -> Retold:
    brought = read_requests(text)
    assert brought.problem == ""
    (request,) = brought.requests
    return retold(request, profile, session_id, 5)


def body_of(session: Session) -> Any:
    assert session.settings is not None
    request = model_request(session, session.settings.tool_choice)
    return json.loads(codec(session.settings.profile.protocol).encode(request).body)


@pytest.mark.anyio
@pytest.mark.parametrize("profile", PROFILES)
async def test_a_request_of_ours_comes_back_as_it_was(tmp_path: Path, profile: str) -> None:
    async with running(tmp_path) as engine:
        more: dict[str, Any] = {
            "asked_profile": profile,
            "rules": ALLOW_ALL,
            "system": "Be brief.",
            "params": {"temperature": 0.5, "max_tokens": 300},
        }
        session = await asked(engine, PROMPT, "get_weather", "calculator", **more)
        await engine.driver.prompt(session.id, "And in Rome?")
        await rested(engine, session.id)
        log = await engine.log.events(session.id)
        sent = [one.event for one in log if isinstance(one.event, RequestSent)][-1]
        assert session.settings is not None
        command = f"curl {sent.url} -H 'x-api-key: secret' --data-binary @- <<'E'\n{sent.body}\nE"
        made = told(command, session.settings.profile)
        assert body_of(made.session) == json.loads(sent.body)
        assert made.session.state == "paused"
        assert [call.status for call in made.session.calls()] == ["done"] * len(session.by_call)
        assert {tool.answered_by for tool in made.log[0].event.settings.tools} == {"person"}  # type: ignore[union-attr]


def test_calls_are_found_without_comparing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """One answer can hold thousands: to compare each with each takes minutes."""
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        for n in range(20)
    ]
    results = [{"role": "tool", "tool_call_id": f"c{n}", "content": f"r{n}"} for n in range(20)]
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": calls}, *results]
    (request,) = read_requests(json.dumps({"model": "m", "messages": said})).requests
    monkeypatch.setattr(Call, "__eq__", lambda *_: pytest.fail("two calls were compared"))
    made = retold(request, Profile("o", "openai_chat", "https://x"), "s", 5)
    texts = [call.result.text for call in made.session.calls() if call.result is not None]
    assert texts == [f"r{n}" for n in range(20)]
