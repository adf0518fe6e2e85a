"""Requests brought from elsewhere become sessions whose next request says the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.core.events import RequestSent
from playground.core.messages import model_request
from playground.core.session import Call, Session
from playground.core.settings import Profile
from playground.engine.engine import Engine
from playground.exchange.parsers import UnreadableText
from playground.exchange.requests_import import ImportedSession, read_requests, session_from_request
from playground.protocols.registry import codec
from tests.engines import ALLOW_ALL, run_prompt
from tests.tables import rest_slow
from tests.waiting import wait_while_running

PROFILES = ("simulator", *(f"simulator-{n}" for n in ("openai", "responses", "gemini", "ollama")))
PROMPT = "What is 17*23, and the weather in Paris?"

PROFILE = Profile("o", "openai_chat", "https://x")


def import_text(text: str, profile: Profile, session_id: str = "new") -> ImportedSession:
    requests = read_requests(text)
    assert requests.problem == ""
    (request,) = requests.requests
    return session_from_request(request, profile, session_id, 5)


def body_of(session: Session) -> Any:
    assert session.settings is not None
    request = model_request(session, session.settings.tool_choice)
    return json.loads(codec(session.settings.profile.protocol).encode(request).body)


@pytest.mark.anyio
@pytest.mark.parametrize("profile", rest_slow(PROFILES, 2))
async def test_a_request_of_ours_comes_back_as_it_was(profile: str, engine: Engine) -> None:
    more: dict[str, Any] = {
        "asked_profile": profile,
        "rules": ALLOW_ALL,
        "system": "Be brief.",
        "params": {"temperature": 0.5, "max_tokens": 300},
    }
    session = await run_prompt(engine, PROMPT, "get_weather", "calculator", **more)
    await engine.runner.prompt(session.id, "And in Rome?")
    await wait_while_running(engine, session.id)
    log = await engine.log.events(session.id)
    sent = [logged.event for logged in log if isinstance(logged.event, RequestSent)][-1]
    assert session.settings is not None
    command = f"curl {sent.url} -H 'x-api-key: secret' --data-binary @- <<'E'\n{sent.body}\nE"
    result = import_text(command, session.settings.profile)
    assert body_of(result.session) == json.loads(sent.body)
    assert result.session.state == "paused"
    assert [call.status for call in result.session.calls()] == ["done"] * len(session.by_call)
    assert {tool.answered_by for tool in result.log[0].event.settings.tools} == {"person"}  # type: ignore[union-attr]


def with_calls(*ids: str) -> str:
    function = {"name": "f", "arguments": "{}"}
    calls = [{"id": item_id, "type": "function", "function": function} for item_id in ids]
    results = [
        {"role": "tool", "tool_call_id": text, "content": f"r{n}"} for n, text in enumerate(ids)
    ]
    lines = [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": calls}, *results]
    return json.dumps({"model": "m", "messages": lines})


def results_of(session: ImportedSession) -> list[str]:
    return [call.result.text for call in session.session.calls() if call.result is not None]


def test_calls_are_found_without_comparing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """One answer can hold thousands: to compare each with each takes minutes."""
    text = with_calls(*(f"c{n}" for n in range(20)))
    monkeypatch.setattr(Call, "__eq__", lambda *_: pytest.fail("two calls were compared"))
    assert results_of(import_text(text, PROFILE)) == [f"r{n}" for n in range(20)]


def test_calls_that_share_an_id_stay_two_and_it_is_said() -> None:
    session = import_text(with_calls("c", "d", "c"), PROFILE)
    assert results_of(session) == ["r0", "r1", "r2"]
    assert [note for note in session.notes if "share the id" in note]


@pytest.mark.parametrize("most", ["MOST_PARTS", "MOST_CALLS"])
def test_more_calls_than_a_page_bears_are_not_taken(
    monkeypatch: pytest.MonkeyPatch, most: str
) -> None:
    monkeypatch.setattr(f"playground.exchange.requests_import.{most}", 3)
    assert len(results_of(import_text(with_calls(*"abc"), PROFILE))) == 3
    with pytest.raises(UnreadableText, match="more than 3"):
        import_text(with_calls(*"abcd"), PROFILE)
