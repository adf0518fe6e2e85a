"""A fork of an agent's session: it asks as the agent asked last, and its tools are mocks of what
they gave there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from playground.engine.engine import Engine
from playground.engine.fork import ForkPlace, fork
from playground.engine.preview import Draft, preview
from playground.engine.settings import settings_from
from playground.engine.verify import Difference, verify
from tests.tap.agent import TOOLS, FakeAgent, make_agent

pytestmark = pytest.mark.anyio

SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
BETAS = "claude-code-20250219,context-management-2025-06-27"
MORE: Mapping[str, Any] = {
    "metadata": {"user_id": "u_1"},
    "system": [
        {"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "On branch main."},
    ],
    "thinking": {"type": "adaptive", "display": "omitted"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "output_config": {"effort": "medium"},
}


async def worked(engine: Engine) -> tuple[FakeAgent, str]:
    """An agent that read a file, and its session."""
    agent = await make_agent(engine)
    agent.ids = {"x-claude-code-session-id": "s-1", "anthropic-beta": BETAS}
    agent.more, agent.tools = MORE, (*TOOLS, SEARCH)
    first = await agent.ask("<system-reminder>Monday</system-reminder>", "Fix it.")
    await agent.answer(first, "I look.", ("Read", {"file_path": "a"}))
    second = await agent.ask(agent.result_block("Read", "the text of a"))
    await agent.answer(second, "Done.")
    (session_id,) = await engine.log.tapped_sessions(agent.tap.id, 9)
    return agent, session_id


async def next_request(
    engine: Engine, session_id: str
) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """(the body, the headers) with which the session would go on."""
    async with engine.sessions.lock_session(session_id) as live:
        ahead = preview(engine, live.session, Draft("Go on."))
    assert ahead.failed == "", ahead.failed
    return json.loads(ahead.sent.body), ahead.sent.headers


async def test_it_asks_with_all_that_the_agent_asked_with(engine: Engine) -> None:
    engine.keys.paste("ANTHROPIC_API_KEY", "sk-ant-api03-of-a-test-0123456789abcdef")
    agent, session_id = await worked(engine)
    child = await fork(engine, session_id, ForkPlace(), go=False)
    body, headers = await next_request(engine, child)
    assert headers["anthropic-beta"] == BETAS
    for name, value in (*MORE.items(), ("tools", [*TOOLS, SEARCH]), ("max_tokens", 32_000)):
        assert body[name] == value, name
    lines = [*agent.messages, {"role": "user", "content": [{"type": "text", "text": "Go on."}]}]
    lines[2]["content"][0].pop("is_error")  # false says nothing
    assert body["messages"] == lines

    async with engine.sessions.lock_session(child) as live:
        settings = live.session.settings
        assert settings is not None
        by_name = {tool.name: tool for tool in settings.tools}
        (warned, listed) = live.session.turns[-1].warnings
    assert by_name["Read"].config == {
        "cases": [
            {
                "when": {"/file_path": {"equals": "a"}},
                "result": "the text of a",
                "is_error": False,
            }
        ]
    }
    assert (by_name["Read"].answered_by, by_name["Bash"].answered_by) == ("mock", "person")
    assert warned.message == "Mocks with recorded results: Read. They run nothing."
    assert "web_search" in listed.message
    saved = await settings_from(engine, {"profile": settings.profile.name}, settings)
    assert (saved.profile, saved.model) == (settings.profile, settings.model)


async def test_it_goes_on_from_the_history_that_the_agent_made_anew(engine: Engine) -> None:
    engine.keys.paste("ANTHROPIC_API_KEY", "sk-ant-api03-of-a-test-0123456789abcdef")
    agent, session_id = await worked(engine)
    agent.messages = [
        {"role": "user", "content": "In short: a was read."},
        {"role": "assistant", "content": [{"type": "text", "text": "Right."}]},
    ]
    await agent.answer(await agent.ask("And now?"), "That one.", ("Read", {"file_path": "b"}))
    child = await fork(engine, session_id, ForkPlace(), go=False)
    async with engine.sessions.lock_session(child) as live:
        assert live.own
        assert [call.name for call in live.session.waiting] == ["Read"]
        (call,) = live.session.waiting
        chunks = await engine.log.chunks(child, call.turn)
        assert b"That one." in b"".join(chunk.data for chunk in chunks)
    body, _ = await next_request(engine, child)
    texts = [
        {"role": "user", "content": [{"type": "text", "text": "In short: a was read."}]},
        *agent.messages[1:],
    ]
    assert body["messages"][: len(texts)] == texts
    summary = await engine.log.summary(child)
    assert summary is not None
    assert summary.parent == session_id
    differences: list[Difference] = []
    await verify(engine.database, differences.append)
    assert differences == []
    before = await fork(engine, session_id, ForkPlace(turn=2), go=False)
    assert len((await next_request(engine, before))[0]["messages"]) == 3
