"""A rule that asks because a tool has changed, renewed from the card and from its list."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from playground.core.rules import Rule
from playground.core.session import Call
from playground.core.tools import Tool, ToolChoice
from playground.engine.engine import Engine
from playground.engine.rules import ALWAYS
from tests.engines import create_session
from tests.waiting import wait_while_running
from tests.web.asking import JSON, PAGE
from tests.web.test_providers import Asked

pytestmark = pytest.mark.anyio
HTMX = ("hx-request", "true")
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}


def in_file(folder: Path) -> Tool:
    return Tool(
        "note", "Notes.", TEXT, "python", {"file": str(folder / "t.py"), "function": "note"}
    )


def write_tool(folder: Path, result: str) -> None:
    (folder / "t.py").write_text(f"def note(**given):\n    return {result!r}\n")


async def start_session(engine: Engine, tools: list[Tool]) -> str:
    session_id = await create_session(engine, tools)
    async with engine.sessions.lock_session(session_id) as live:
        settings = live.session.settings
    assert settings is not None
    settings = replace(settings, tool_choice=ToolChoice("required"))
    await engine.runner.settings(session_id, settings)
    await engine.runner.prompt(session_id, "Say something")
    return session_id


async def call_of(engine: Engine, session_id: str) -> Call:
    return (await wait_while_running(engine, session_id)).turns[0].calls[0]


def renewal(output: Any) -> str:
    return str(json.loads(output.body)["renew"])


@pytest.mark.parametrize("into", ["session", "always"])
async def test_a_card_renews_the_rule_for_what_it_shows(into: str, engine: Engine) -> None:
    client, rules = Asked(engine), engine.rules
    old = Tool("own", "Old.", TEXT, "mock", {"result": "x"})
    other, new = replace(old, name="other"), replace(old, description="New.")
    first = await rules.add(ALWAYS, Rule("*", "run"), [old, other])
    session_id = await start_session(engine, [new])
    if into == "session":
        await rules.move_to_list(ALWAYS, first.id, session_id)
    call = await call_of(engine, session_id)
    here = f"/sessions/{session_id}/calls/{call.id}/rule"
    renew = renewal(await client.get(here, JSON))
    page = (await client.get(here, PAGE)).body.decode()
    assert f'action="{renew.replace("&", "&amp;")}"' in page
    for bad_path in (renew[:-1] + "x", renew.replace("base=", "base=0"), here + "/renew"):
        assert (await client.post(bad_path, {}, JSON)).status in (409, 422), bad_path
    assert (await call_of(engine, session_id)).status == "waiting"
    assert (await client.post(renew, {}, HTMX)).body.count(b"Renewed for own") == 1
    done = await call_of(engine, session_id)
    assert (done.status, done.decided and done.decided.by) == ("done", "rule")
    rule = rules.rules_of(session_id)[0]
    assert await rules.binding_states([rule], [new, other]) == [{"own": "same", "other": "same"}]


async def test_a_renewal_in_the_list_frees_the_call_that_waits(
    tmp_path: Path, engine: Engine
) -> None:
    """The file changed while the call waited: the rule is bound to what is there by now."""
    write_tool(tmp_path, "one")
    tool = in_file(tmp_path)
    rule = await engine.rules.add(ALWAYS, Rule("note", "run"), [tool])
    write_tool(tmp_path, "two")
    session_id = await start_session(engine, [tool])
    await engine.rules.move_to_list(ALWAYS, rule.id, session_id)
    call = await call_of(engine, session_id)
    assert "has changed since" in call.asks
    digest = call.digest
    write_tool(tmp_path, "three")
    renew = f"/sessions/{session_id}/rules/{rule.id}/renew"
    assert (await Asked(engine).post(renew, {}, JSON)).status == 200
    done = await call_of(engine, session_id)
    assert done.result is not None, done.asks
    assert "three" in str(done.result.content)
    assert done.digest != digest, "decided as it was looked at anew"


async def test_a_card_renews_nothing_that_it_does_not_show(tmp_path: Path, engine: Engine) -> None:
    write_tool(tmp_path, "one")
    tool = in_file(tmp_path)
    rule = await engine.rules.add(ALWAYS, Rule("note", "run"), [tool])
    write_tool(tmp_path, "two")
    client, session_id = Asked(engine), await start_session(engine, [tool])
    call = await call_of(engine, session_id)
    here = f"/sessions/{session_id}/calls/{call.id}/rule"
    renew = renewal(await client.get(here, JSON))
    write_tool(tmp_path, "three")
    output = await client.post(renew, {}, JSON)
    assert (output.status, b"Check the call again" in output.body) == (409, True), output.body
    assert engine.rules.rule_list(ALWAYS) == (rule,)
    again = renewal(await client.get(here, JSON))
    assert again != renew
    assert (await client.post(again, {}, JSON)).status == 200
    assert "three" in str((await call_of(engine, session_id)).result)


async def test_a_deny_at_the_same_moment_comes_before_the_proposed_rule(engine: Engine) -> None:
    """Who writes a rule in the list does not hold the session."""
    client, rules = Asked(engine), engine.rules
    session_id = await start_session(engine, [Tool("own", "Own.", TEXT, "mock", {"result": "x"})])
    call = await call_of(engine, session_id)
    here = f"/sessions/{session_id}/calls/{call.id}/always"
    async with rules._writing:
        writing = asyncio.create_task(client.post(here, {"digest": call.digest}, JSON))
        async with asyncio.timeout(20):
            while not rules._writing._waiters:
                await asyncio.sleep(0)
        await rules._insert(session_id, Rule("own", "deny", id="d", here=session_id), 0)
    assert (await writing).status == 409
    assert [rule.action for rule in rules.rule_list(session_id)] == ["deny"]
