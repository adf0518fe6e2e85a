"""Tools of real MCP servers: what was accepted, calls, and what they come to."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from playground.core.errors import BadInput
from playground.core.servers import Acceptance, Server, fingerprint
from playground.core.tools import Tool, ToolResult
from playground.executors.executor import CallCheck, Deadline, Invocation
from playground.executors.mcp import executor as mcp_module
from playground.executors.mcp.executor import Mcp
from playground.executors.mcp.process import TAIL
from playground.executors.run_with_limits import Executors
from tests.executors.mcp_servers import alive, by_stdio, lines, serve_http
from tests.tables import rest_slow
from tests.waiting import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient_mcp")]
PATIENCE_S = 600.0
"""Nothing is given up, however busy the machine is: who waits for that fails by another bound."""

WAYS = ("stdio", "http", "json")


class World:
    """One server as it was accepted, and the executor that knows it."""

    def __init__(self, server: Server, accepted: Acceptance | None = None) -> None:
        self.server = server
        self.accepted = Acceptance(fingerprint(server)) if accepted is None else accepted
        self.mcp = Mcp(self.known_servers, dict(os.environ, OUR_OWN_KEY="canary"))
        self.progress: list[tuple[str, float | None]] = []
        self.printed: list[str] = []

    async def known_servers(self) -> list[tuple[Server, Acceptance]]:
        return [(self.server, self.accepted)]

    def tool(self, name: str) -> Tool:
        config = {"server": self.server.name, "tool": name}
        return Tool(name, answered_by="mcp", config=config)

    async def run(
        self, name: str, arguments: Mapping[str, Any] | str = "{}", **more: Any
    ) -> ToolResult:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        call = Invocation(
            "s",
            call="1.0",
            attempt=1,
            tool=self.tool(name),
            arguments=text,
            timeout_s=20,
            max_output=50_000,
            folder=Path("/"),
            idempotency_key="k",
        )
        executors = Executors({"mcp": self.mcp})
        with anyio.fail_after(40):
            return await executors.run(replace(call, **more), self.report)

    def report(self, text: str, fraction: float | None, output: str = "", /) -> None:
        self.progress.append((text, fraction))
        self.printed.append(output)

    async def checked(self, name: str, arguments: str = "{}") -> CallCheck:
        with anyio.fail_after(40):
            return await self.mcp.check_before_run("s", self.tool(name), arguments)

    async def accept_all(self) -> None:
        with anyio.fail_after(40):
            peer = await self.mcp.list_tools(self.server, PATIENCE_S)
        prints = {listed_tool.name: listed_tool.fingerprint for listed_tool in peer.listed or ()}
        self.accepted = replace(self.accepted, tools=prints)


@asynccontextmanager
async def world(server: Server, accepted: Acceptance | None = None) -> AsyncIterator[World]:
    """It, with all that it started ended afterwards."""
    world = World(server, accepted)
    try:
        yield world
    finally:
        with anyio.fail_after(20):
            await world.mcp.close()


@pytest.fixture(scope="module")
async def shared_world() -> AsyncIterator[World]:
    """The SDK's server by stdio, started once: it takes a second to be read."""
    async with world(by_stdio("sdk", env={"MINE": "x${OUR_OWN_KEY}"})) as item:
        yield item


@pytest.fixture
def fresh_world(shared_world: World) -> World:
    """It, with nothing told and no tool accepted, for tests that leave it as it was."""
    shared_world.accepted = Acceptance(fingerprint(shared_world.server))
    shared_world.progress, shared_world.printed = [], []
    return shared_world


@asynccontextmanager
async def open_world(way: str, fresh_world: World | None = None) -> AsyncIterator[World]:
    """By stdio the SDK's server that stands, or where none does one by hand; over HTTP with
    streams, or over HTTP with JSON, the SDK's."""
    if way == "stdio" and fresh_world is not None:
        yield fresh_world
        return
    if way == "stdio":
        async with world(by_stdio("fine")) as item:
            yield item
        return
    async with (
        serve_http(json_response=way == "json") as url,
        world(Server("fine", url=url, private=True)) as item,
    ):
        yield item


@pytest.mark.parametrize("way", WAYS)
async def test_a_server_lists_its_tools_and_answers(way: str, fresh_world: World) -> None:
    async with open_world(way, fresh_world) as world:
        peer = await world.mcp.list_tools(world.server, PATIENCE_S)
        add = next(tool for tool in peer.listed or () if tool.name == "add")
        assert add.description == "Add two numbers."
        assert set(add.parameters["properties"]) == {"a", "b"}

        assert (await world.run("add", {"a": 2, "b": 3})).text == "5"
        assert (await world.run("say", {"text": "hæ"})).text == "hæ"
        weather = await world.run("weather", {"city": "Oslo"})
        assert [piece.media_type for piece in weather.content] == ["application/json"]
        assert json.loads(weather.text) == {"city": "Oslo", "celsius": 7.5}
        picture = await world.run("picture")
        assert [(p.type, p.media_type) for p in picture.content] == [("image", "image/png")]
        result = await world.run("fail")
        assert (result.is_error, result.kind) == (True, "failed")
        missing = await world.run("add", {"a": 2})
        assert missing.is_error


@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_progress_is_told_with_its_share(way: str, fresh_world: World) -> None:
    async with open_world(way, fresh_world) as world:
        assert (await world.run("count")).text == "counted"
        assert world.progress[0] == ("at 1", 1 / 3)
        assert world.progress[-1] == ("at 3", 1.0)


async def test_its_log_is_what_the_call_prints(fresh_world: World) -> None:
    assert (await fresh_world.run("chatty")).text == "said"
    assert "".join(fresh_world.printed) == 'info logger: first\nwarning: {"left": 2}\n'


@pytest.mark.parametrize("way", WAYS)
async def test_a_call_of_one_server_keeps_its_connection(way: str, fresh_world: World) -> None:
    async with open_world(way, fresh_world) as world:
        await world.run("add", {"a": 1, "b": 1})
        first = world.mcp.peer(world.server).connection
        await world.run("add", {"a": 1, "b": 1})
        assert world.mcp.peer(world.server).connection is first


@pytest.mark.parametrize(
    ("accepted", "words"),
    [
        (Acceptance(), "was not accepted yet"),
        (Acceptance("0" * 64), "has changed since it was accepted"),
    ],
)
async def test_what_was_not_accepted_is_not_started(
    tmp_path: Path, accepted: Acceptance, words: str
) -> None:
    started = tmp_path / "started"
    server = Server("trap", "/bin/sh", ("-c", f"touch {started}; sleep 5"))
    async with world(server, accepted) as item:
        checked = await item.checked("t")
        assert [problem.kind for problem in checked.problems] == ["caution"]
        assert words in checked.problems[0].message
        result = await item.run("t")
        assert result.is_error
        assert "Nothing was run" in result.text
        with pytest.raises(BadInput, match="accept"):
            await item.mcp.list_tools(server)
    assert not started.exists()


async def test_a_server_nobody_knows_is_named(fresh_world: World) -> None:
    tool = replace(fresh_world.tool("t"), config={"server": "other", "tool": "t"})
    checked = await fresh_world.mcp.check_before_run("s", tool, "{}")
    assert "no MCP server 'other'" in checked.problems[0].message


async def test_an_accepted_tool_is_run_by_rules_and_another_is_not(fresh_world: World) -> None:
    assert "was not accepted" in (await fresh_world.checked("say")).problems[0].message
    await fresh_world.accept_all()
    assert (await fresh_world.checked("say")).problems == ()
    assert "no longer lists" in (await fresh_world.checked("nothing")).problems[0].message


@pytest.mark.parametrize("way", rest_slow(WAYS))
async def test_a_tool_that_changed_after_it_was_accepted_asks_again(way: str) -> None:
    async with open_world(way) as world:
        await world.accept_all()
        before = await world.checked("say")
        assert (await world.run("change")).text == "changed"
        with anyio.fail_after(20):
            while not (after := await world.checked("say")).problems:
                await anyio.sleep(0.01)
        assert after.problems[0].kind == "caution"
        assert "after it was accepted" in after.problems[0].message
        assert after.code != before.code, "a card from before is stale"
        stale = await world.run("say", {"text": "x"}, code=before.code)
        assert stale.is_error
        assert "Nothing was run" in stale.text
        fresh = await world.run("say", {"text": "x"}, code=after.code)
        assert fresh.text == "x", "a user may run it"
        assert (await world.checked("add")).problems == (), "the others are as they were"


async def test_a_notification_alone_takes_the_trust_away() -> None:
    async with world(by_stdio("turncoat")) as item:
        await item.accept_all()
        before = await item.checked("t")
        assert before.problems == ()
        stale = await item.run("t", code=before.code)
        assert stale.text == "fine"
        connection = item.mcp.peer(item.server).connection
        assert connection is not None
        await wait_until(lambda: connection.stale)
        result = await item.run("t", code=before.code)
        assert result.is_error
        assert "has changed on its server" in result.text


async def test_a_server_that_hears_no_cancellation_holds_up_nobody_and_is_ended(
    tmp_path: Path,
) -> None:
    """The whole server stands still: the call is over at once all the same."""
    file = tmp_path / "deaf"
    async with open_world("stdio") as world:
        work = asyncio.create_task(world.run("deaf", {"file": str(file)}))
        assert await lines(file, 1) == ["deaf"]
        work.cancel()
        with anyio.fail_after(20), pytest.raises(asyncio.CancelledError):
            await work


@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_a_call_past_its_time_is_cancelled_on_the_server(
    way: str, tmp_path: Path, fresh_world: World
) -> None:
    file = tmp_path / "hang"
    async with open_world(way, fresh_world) as world:
        await world.run("add", {"a": 1, "b": 1})
        deadline = Deadline()
        work = asyncio.create_task(
            world.run("hang", {"file": str(file)}, timeout_s=600.0, deadline=deadline)
        )
        assert await lines(file, 1) == ["began"]
        assert deadline.extend(-600)
        result = await work
        assert (result.is_error, result.kind) == (True, "timeout")
        assert await lines(file, 2) == ["began", "cancelled"]
        assert (await world.run("add", {"a": 1, "b": 1})).text == "2", "the server goes on"


async def test_a_server_that_dies_in_a_call_runs_it_once(tmp_path: Path) -> None:
    file = tmp_path / "ran"
    async with world(by_stdio("fine")) as item:
        result = await item.run("die", {"file": str(file)})
        assert result.is_error
        assert "its effect is unknown" in result.text
        assert "exit code 3" in result.text
        assert (await item.run("add", {"a": 1, "b": 1})).text == "2", "made anew"
        assert await lines(file, 1) == ["ran"]


async def test_a_server_that_hangs_in_initialize_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mcp_module, "CONNECT_S", 1.0)
    async with world(by_stdio("deaf")) as item:
        result = await item.run("t")
        assert "did not answer within 1 s" in result.text
        assert (await item.checked("t")).problems[0].kind == "caution"


@pytest.mark.parametrize(("word", "words"), [("deaf", "did not answer"), ("mute", "did not list")])
async def test_server_with_a_start_time_is_given_up_after_that_time(word: str, words: str) -> None:
    async with world(by_stdio(word, start_s=0.7)) as item:
        result = await item.run("t")
        assert f"{words} " in result.text
        assert "within 0.7 s" in result.text
        assert "within 0.7 s" in (await item.checked("t")).problems[0].message


@pytest.mark.parametrize(
    ("word", "words"),
    rest_slow(
        [
            ("stderr", "64 MB without a request"),
            ("line", "more than 16 MB"),
            ("prints", "lines without a request"),
            ("notifies", "lines without a request"),
            ("nonsense", "not valid MCP"),
            ("asks", "asks the user for input in the middle of a call (elicitation)"),
        ],
        2,
    ),
)
async def test_a_server_that_floods_or_babbles_is_stopped(
    word: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("playground.executors.mcp.process.MAX_LINES", 300)
    async with world(by_stdio(word)) as item:
        result = await item.run("t")
        assert result.is_error
        assert words in result.text
        assert len(item.mcp.peer(item.server).tail) <= TAIL


async def test_prints_between_messages_do_no_harm() -> None:
    async with world(by_stdio("talks")) as item:
        assert (await item.run("t")).text == "fine"
        assert b"a print between messages" in item.mcp.peer(item.server).tail


async def test_a_large_result_is_refused_and_the_server_goes_on(fresh_world: World) -> None:
    result = await fresh_world.run("flood", {"size": 60_000})
    assert result.kind == "too_large"
    assert (
        await fresh_world.run("flood", {"size": 600_000}, max_output=10**6)
    ).text == "x" * 600_000
    assert (await fresh_world.run("add", {"a": 1, "b": 1})).text == "2"


async def test_nothing_is_offered_that_a_server_may_ask_for(fresh_world: World) -> None:
    assert (await fresh_world.run("ask")).text.startswith("refused")


async def test_a_thousand_tools_are_enough() -> None:
    async with world(by_stdio("many")) as item:
        with pytest.raises(BadInput, match="more than 1000 tools"):
            await item.mcp.list_tools(item.server)


async def test_a_server_that_ends_at_once_leaves_its_last_words() -> None:
    async with world(by_stdio("gone")) as item:
        with pytest.raises(BadInput, match="exit code 7"):
            await item.mcp.list_tools(item.server)
        assert b"no licence found" in item.mcp.peer(item.server).tail


async def test_the_environment_of_a_server_holds_what_it_was_given_alone(
    fresh_world: World,
) -> None:
    assert (await fresh_world.run("variable", {"name": "MINE"})).text == "xcanary"
    assert (await fresh_world.run("variable", {"name": "OUR_OWN_KEY"})).text == "not there"
    assert (await fresh_world.run("variable", {"name": "PATH"})).text == os.environ["PATH"]


async def test_numbers_that_lose_digits_are_told_and_endless_ones_refused(
    fresh_world: World,
) -> None:
    await fresh_world.accept_all()
    note = await fresh_world.checked("add", '{"a": 0.1234567890123456789, "b": 1.50}')
    assert [problem.kind for problem in note.problems] == ["note"]
    assert "0.1234567890123456789 is passed" in note.problems[0].message
    tiny = await fresh_world.checked("add", '{"a": 1e-99999999999999999999, "b": 1}')
    assert "1e-99999999999999999999 is passed to the server as 0.0." in str(tiny.problems)
    refused = await fresh_world.run("add", '{"a": 1e999, "b": 1}')
    assert refused.is_error
    assert "Nothing was run" in refused.text
    exact = await fresh_world.run("add", '{"a": 123456789012345678901234567890, "b": 1}')
    assert exact.text == "123456789012345678901234567891"


@pytest.mark.slow
async def test_closing_ends_the_server_and_what_it_left_behind(tmp_path: Path) -> None:
    file = tmp_path / "child"
    async with world(by_stdio("fine")) as item:
        await item.run("child", {"file": str(file)})
        (line,) = await lines(file, 1)  # it ran once
        child = int(line)
        assert alive(child)
    assert not alive(child)


@pytest.mark.slow
async def test_a_connection_that_rests_is_closed_and_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("playground.executors.mcp.connection.IDLE_S", 1.0)
    async with world(by_stdio("fine")) as item:
        await item.accept_all()
        code = (await item.checked("add")).code
        peer = item.mcp.peer(item.server)
        await wait_until(lambda: not peer.open)
        monkeypatch.setattr("playground.executors.mcp.connection.IDLE_S", PATIENCE_S)
        assert (await item.run("add", {"a": 1, "b": 1}, code=code)).text == "2"
