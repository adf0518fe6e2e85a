"""The user's MCP servers: what is kept, accepted, taken; by the engine that runs sessions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import pytest

from playground.core.errors import BadInput, BadTool, Conflict, NotFound
from playground.core.servers import Acceptance, Server, fingerprint
from playground.core.tools import Tool
from playground.engine.decisions import DecisionRequest
from playground.engine.engine import Engine
from playground.engine.servers import ShownServer, list_offered_tools
from playground.engine.settings import profile_from
from playground.exchange.tool_import import import_tools
from playground.executors.executor import ThrottledProgress
from playground.executors.mcp.connection import ListedTool
from playground.schema.validate import check_tool
from tests.engines import ALLOW_ALL, StartEngine, create_session
from tests.executors.mcp_servers import by_stdio
from tests.waiting import wait_while_running

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient_mcp")]
CANARY = "canary-7d1c02f94ab85e63"

BAD: list[tuple[Mapping[str, Any], str]] = [
    ({"command": "x"}, "needs a name"),
    ({"name": "a b", "command": "x"}, "needs a name"),
    ({"name": "a"}, "either a command or a URL"),
    ({"name": "a", "command": "x", "url": "http://x"}, "either a command or a URL"),
    ({"name": "a", "command": "x", "autoApprove": ["*"]}, "no field 'autoApprove'"),
    ({"name": "a", "command": "x", "headers": {"b": "c"}}, "Only a server with a URL"),
    ({"name": "a", "url": "http://x", "args": ["b"]}, "Only a server with a command"),
    ({"name": "a", "url": "ftp://x"}, "Invalid URL"),
    ({"name": "a", "url": "http://user:pw@x"}, "Invalid URL"),
    ({"name": "a", "url": "http://${HOST}/mcp"}, "Invalid URL"),
    ({"name": "a", "command": "x", "cwd": "work"}, "absolute path"),
    ({"name": "a", "command": "x\0y"}, "command must be a text"),
    ({"name": "a", "command": "x", "args": "y"}, "args must be a list"),
    ({"name": "a", "command": "x", "args": [3]}, "args must be a text"),
    ({"name": "a", "command": "x", "env": {"A B": "c"}}, "cannot be a name in env"),
    ({"name": "a", "url": "http://x", "headers": {"A B": "c"}}, "cannot be a name in headers"),
    ({"name": "a", "url": "http://x", "private": "yes"}, "private must be true or false"),
    (
        {"name": "a", "command": "x", "start_s": "9"},
        "start_s must be a number of seconds from 0.1",
    ),
    (
        {"name": "a", "command": "x", "call_s": 0},
        "must be a number of seconds from 0.1 to 3600",
    ),
    ({"name": "a", "command": "x", "call_s": 3601}, "call_s must be a number of seconds"),
    ({"name": "a", "command": "x", "call_s": True}, "call_s must be a number of seconds"),
    ({"name": "a", "command": "x", "env": {"MY_TOKEN": "abc"}}, "MY_TOKEN looks like a key"),
    ({"name": "a", "command": "x", "env": {"DB_PASSWORD": "abc"}}, "looks like a key"),
    ({"name": "a", "command": "x", "args": ["--api-key", "abc"]}, "--api-key looks like a key"),
    ({"name": "a", "command": "x", "args": ["--token=abc"]}, "--token looks like a key"),
    ({"name": "a", "command": "x", "args": ["sk-abcdefghijklmnop"]}, "looks like a key"),
    ({"name": "a", "url": "http://x", "headers": {"Authorization": "Bearer a"}}, "like a key"),
    ({"name": "a", "url": "http://x/mcp?token=abc"}, "token looks like a key"),
    ({"name": "a", "command": "x", "env": {"A": CANARY}}, "contains the value of a key"),
]
GOOD: list[Mapping[str, Any]] = [
    {"name": "a", "command": "npx", "args": ["-y", "@scope/server", "/home/me/My notes"]},
    {"name": "a", "command": "x", "env": {"MY_TOKEN": "${MY_TOKEN}", "MODE": "fast"}},
    {"name": "a", "command": "x", "args": ["--api-key", "${K}"], "cwd": "~/notes"},
    {"name": "a", "url": "https://x/mcp", "headers": {"Authorization": "Bearer ${T}"}},
    {"name": "a", "url": "http://127.0.0.1:3000/mcp?token=${T}", "private": True},
    {"name": "a", "command": "x", "start_s": 120, "call_s": 0.5},
    {"name": "a", "url": "http://x", "start_s": None, "call_s": 3600},
]


async def list_server(servers: Any, name: str) -> ShownServer:
    with anyio.fail_after(40):
        server: ShownServer = await servers.list_tools(name)
    return server


def marks(server: ShownServer) -> dict[str, str]:
    return {offered_tool.name: offered_tool.mark for offered_tool in server.offered}


@pytest.mark.slow
async def test_from_kept_to_taken_and_changed(start_engine: StartEngine) -> None:
    server = by_stdio("turncoat")
    engine = await start_engine()
    servers = engine.servers
    await servers.save(server)
    assert (await servers.get("turncoat")).state == "new"
    with pytest.raises(BadInput, match="was not accepted yet"):
        await servers.list_tools("turncoat")
    with pytest.raises(Conflict, match="changed since it was shown"):
        await servers.accept("turncoat", "0" * 64)
    assert (await servers.get("turncoat")).state == "new"

    await servers.accept("turncoat", fingerprint(server))
    assert (await servers.get("turncoat")).state == "resting"
    listed_server = await list_server(servers, "turncoat")
    assert (listed_server.state, marks(listed_server)) == ("connected", {"t": "new"})
    first = listed_server.offered[0].listed
    assert first is not None
    with pytest.raises(Conflict, match="has changed its tool t"):
        await servers.add_tools("turncoat", [("t", "0" * 64)])
    assert await servers.add_tools("turncoat", [("t", first.fingerprint)]) == ["t"]
    entry = await engine.library.entry("t")
    assert entry.enabled
    assert entry.tool.config == {"server": "turncoat", "tool": "t"}
    assert (entry.tool.group, entry.tool.description) == ("mcp · turncoat", "A tool.")
    assert marks(await servers.get("turncoat")) == {"t": "same"}

    await engine.library.save(replace(entry.tool, name="mine", timeout_s=5), 1, original="t")
    checked = await engine.executors.check_before_run("s", entry.tool, "{}")
    assert checked.problems == ()
    connection = engine.servers._mcp.peer(server).connection
    assert connection is not None
    await connection.call("t", {}, ThrottledProgress(lambda *_: None))
    listed_server = await list_server(servers, "turncoat")
    assert marks(listed_server) == {"t": "changed"}
    second = listed_server.offered[0].listed
    assert second is not None
    checked = await engine.executors.check_before_run("s", entry.tool, "{}")
    assert [problem.kind for problem in checked.problems] == ["caution"]
    assert await servers.add_tools("turncoat", [("t", second.fingerprint)]) == ["mine"]
    mine = await engine.library.entry("mine")
    assert (mine.tool.description, mine.tool.timeout_s) == ("Now it is another.", 5)
    assert mine.version == 3
    assert (await engine.executors.check_before_run("s", mine.tool, "{}")).problems == ()

    await servers.stop("turncoat")
    assert (await servers.get("turncoat")).state == "resting"
    await servers.withdraw("turncoat")
    assert (await servers.get("turncoat")).state == "new"
    await servers.delete("turncoat")
    with pytest.raises(NotFound):
        await servers.get("turncoat")
    assert (await engine.library.entry("mine")).tool == mine.tool


async def test_a_changed_server_asks_again(start_engine: StartEngine) -> None:
    server = by_stdio("fine")
    engine = await start_engine()
    await engine.servers.save(server)
    await engine.servers.accept("fine", fingerprint(server))
    await engine.servers.save(replace(server, env={"A": "1"}), "fine")
    assert (await engine.servers.get("fine")).state == "changed"
    await engine.servers.save(server, "fine")
    assert (await engine.servers.get("fine")).state == "resting", "it is the accepted one"
    with pytest.raises(Conflict, match="already"):
        await engine.servers.save(server)
    await engine.servers.save(replace(server, name="other"), "fine")
    servers = await engine.servers.list_servers()
    assert [(shown_server.server.name, shown_server.state) for shown_server in servers] == [
        ("other", "changed")
    ]


async def test_what_a_server_needs_and_says_is_told_without_a_key(
    start_engine: StartEngine,
) -> None:
    server = by_stdio("gone", env={"A": "${MY_API_KEY}", "B": "${NOT_THERE}"})
    engine = await start_engine(environment={"MY_API_KEY": CANARY, "PATH": "/bin"})
    await engine.servers.save(server)
    await engine.servers.accept("gone", fingerprint(server))
    assert (await engine.servers.get("gone")).missing == ("NOT_THERE",)
    with pytest.raises(BadInput, match="This server needs NOT_THERE"):
        await list_server(engine.servers, "gone")
    loud = Server("loud", "/bin/sh", ("-c", 'echo "$A" >&2'), {"A": "${MY_API_KEY}"})
    await engine.servers.save(loud)
    await engine.servers.accept("loud", fingerprint(loud))
    with pytest.raises(BadInput, match="exit code 0"):
        await list_server(engine.servers, "loud")
    listed_server = await engine.servers.get("loud")
    assert (listed_server.state, listed_server.tail) == ("failed", "*" * len(CANARY) + "\n")
    assert CANARY not in listed_server.tail


@pytest.mark.parametrize(("data", "words"), BAD)
async def test_what_cannot_be_kept_says_why(
    data: Mapping[str, Any], words: str, start_engine: StartEngine
) -> None:
    engine = await start_engine(environment={"MY_API_KEY": CANARY})
    with pytest.raises(BadInput) as refused:
        engine.servers.parse_server(data)
    assert words in str(refused.value)
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize("data", GOOD)
async def test_what_is_kept(data: Mapping[str, Any], engine: Engine) -> None:
    server = engine.servers.parse_server(data)
    await engine.servers.save(server)
    assert (await engine.servers.get("a")).server == server


async def test_times_of_a_server_are_no_part_of_what_was_accepted(
    start_engine: StartEngine,
) -> None:
    server = by_stdio("fine", call_s=120.0)
    assert fingerprint(server) == fingerprint(by_stdio("fine"))
    engine = await start_engine()
    await engine.servers.save(server)
    await engine.servers.accept("fine", fingerprint(server))
    row = await engine.servers.list_tools("fine")
    chosen = [(tool.name, tool.listed.fingerprint) for tool in row.offered if tool.listed]
    await engine.servers.add_tools("fine", chosen[:1])
    assert (await engine.library.tool(chosen[0][0])).timeout_s == 120
    await engine.servers.save(replace(server, start_s=90.0, call_s=None), "fine")
    row = await engine.servers.list_tools("fine")
    assert (row.state, row.server.start_s) == ("connected", 90)
    await engine.servers.add_tools("fine", chosen[:2])
    times = [(await engine.library.tool(name)).timeout_s for name, _ in chosen[:2]]
    assert times == [120, 60], "a tool that was taken keeps its own time"


def test_each_tool_is_marked_by_what_was_accepted() -> None:
    here = [
        ListedTool("a"),
        ListedTool("b", description="new"),
        ListedTool("c"),
        ListedTool("d", fault="Bad."),
    ]
    prints = {"a": ListedTool("a").fingerprint, "b": ListedTool("b").fingerprint, "z": "0"}
    own = Tool("mine", answered_by="mcp", config={"server": "s", "tool": "b"})
    offered_tools = list_offered_tools("s", Acceptance("x", prints), here, [Tool("a"), own])
    assert [(offered_tool.name, offered_tool.mark) for offered_tool in offered_tools] == [
        ("a", "same"),
        ("b", "changed"),
        ("c", "new"),
        ("d", "refused"),
        ("z", "gone"),
    ]
    assert [offered_tool.own for offered_tool in offered_tools] == [None, own, None, None, None]
    unasked = list_offered_tools("s", Acceptance("x", prints), None, [])
    assert [(offered_tool.name, offered_tool.mark) for offered_tool in unasked] == [
        ("a", "same"),
        ("b", "same"),
        ("z", "same"),
    ]


async def test_a_rule_runs_what_was_accepted_and_asks_when_it_changes(
    start_engine: StartEngine,
) -> None:
    server = by_stdio("turncoat")
    engine = await start_engine()
    await engine.servers.save(server)
    await engine.servers.accept("turncoat", fingerprint(server))
    first = (await list_server(engine.servers, "turncoat")).offered[0].listed
    assert first is not None
    await engine.servers.add_tools("turncoat", [("t", first.fingerprint)])
    tool = await engine.library.tool("t")
    await engine.library.save(replace(tool, name="note"), 1, original="t")
    session_id = await create_session(engine, ["note"], rules=ALLOW_ALL)
    await engine.runner.prompt(session_id, "Use note, please.")
    session = await wait_while_running(engine, session_id)
    assert session.state == "idle"
    assert [call.result.text for call in session.calls() if call.result] == ["fine"]

    await engine.runner.prompt(session_id, "Use note, please.")
    session = await wait_while_running(engine, session_id)
    assert session.state == "waiting"
    (call,) = session.waiting
    assert call.cautioned
    assert "after it was accepted" in call.problems[0].message

    await engine.runner.decide(session_id, call.id, DecisionRequest("run", call.digest))
    session = await wait_while_running(engine, session_id)
    assert [call.result.text for call in session.calls() if call.result] == ["fine", "fine"]


async def test_the_name_of_a_header_has_one_limit(engine: Engine) -> None:
    for letters in (128, 129):
        headers = {"x" * letters: "y"}
        entry = {"url": "https://x.test/mcp", "headers": headers}
        config = {"url": "https://x.test/a", "headers": headers}
        profile = {"name": "p", "protocol": "ollama", "base_url": "https://x.test"}
        ways: tuple[Callable[[], Any], ...] = (
            partial(engine.servers.parse_server, {"name": "a", **entry}),
            partial(_imported, entry),
            partial(check_tool, {"name": "t", "answered_by": "http", "config": config}),
            partial(profile_from, {**profile, "headers": headers}, str),
        )
        for way in ways:
            if letters == 128:
                way()
            else:
                with pytest.raises((BadInput, BadTool)):
                    way()


def _imported(entry: Mapping[str, Any]) -> None:
    (server,) = import_tools(json.dumps({"mcpServers": {"a": entry}})).servers
    if server.server is None:
        raise BadInput(server.problem)
