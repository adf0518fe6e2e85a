"""MCP servers that are slow to start, fail to, or are withdrawn meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from playground.core.servers import Acceptance, Server
from playground.executors.mcp import executor as mcp_module
from tests.executors.mcp_servers import by_stdio, serving
from tests.executors.test_mcp import PATIENCE_S, World, world
from tests.waiting import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient_mcp")]


async def connecting(world: World) -> None:
    await wait_until(lambda: world.mcp.peer(world.server).connecting is not None)


def stale(world: World) -> bool:
    """Whether the server's list is to be asked for."""
    connection = world.mcp.peer(world.server).connection
    return connection is None or connection.stale


async def test_a_check_that_is_cancelled_is_over_at_once_and_another_goes_on(
    tmp_path: Path,
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    late = by_stdio("late")
    async with world(replace(late, args=(*late.args, str(pipe)))) as item:
        first, second = (asyncio.create_task(item.checked("t")) for _ in range(2))
        await connecting(item)
        first.cancel()
        with anyio.fail_after(20):
            await asyncio.wait([first])
        assert first.cancelled()
        with anyio.fail_after(20):
            await anyio.to_thread.run_sync(pipe.write_bytes, b"go")
            checked = await second
        assert "was not accepted" in checked.problems[0].message


async def test_a_server_that_is_stopped_while_it_starts_is_ended() -> None:
    async with world(by_stdio("deaf")) as item:
        check = asyncio.create_task(item.checked("t"))
        await connecting(item)
        with anyio.fail_after(20):
            await item.mcp.stop(item.server.name)
            checked = await check
        assert "cannot be listed" in checked.problems[0].message
        peer = item.mcp.peer(item.server)
        assert (peer.open, peer.connecting, peer.fault) == (False, None, "")


async def test_a_start_that_is_given_up_leaves_no_pipe_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends: list[int] = []

    async def never(launch: object, lifeline: int) -> None:
        ends.append(os.dup(lifeline))
        await anyio.sleep_forever()

    monkeypatch.setattr("playground.executors.mcp.process._start", never)
    async with world(by_stdio("deaf")) as item:
        check = asyncio.create_task(item.checked("t"))
        await wait_until(lambda: bool(ends))
        with anyio.fail_after(20):
            await item.mcp.stop(item.server.name)
            await check
    (end,) = ends
    os.set_blocking(end, False)
    assert os.read(end, 1) == b"", "nobody holds the other end"
    os.close(end)


async def test_a_server_that_is_withdrawn_while_it_starts_is_not_used(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    late = by_stdio("late")
    async with world(replace(late, args=(*late.args, str(pipe)))) as item:
        check = asyncio.create_task(item.checked("t"))
        await connecting(item)
        item.accepted = Acceptance()
        with anyio.fail_after(20):
            await anyio.to_thread.run_sync(pipe.write_bytes, b"go")
            checked = await check
        assert "was not accepted yet" in checked.problems[0].message
        assert not item.mcp.peer(item.server).open


async def test_a_server_that_fails_is_started_once_for_many_checks(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    server = Server("broken", "/bin/sh", ("-c", f"echo x >> {starts}; exit 3"))
    async with world(server) as item:
        with anyio.fail_after(30):
            call_checks = await asyncio.gather(*(item.checked("t") for _ in range(4)))
            call_checks.append(await item.checked("t"))
        assert {checked.problems[0].kind for checked in call_checks} == {"caution"}
        assert "exit code 3" in call_checks[-1].problems[0].message
        assert starts.read_text() == "x\n"


async def test_a_check_has_its_time_and_a_list_that_was_not_told_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world(by_stdio("mute")) as item:
        check = asyncio.create_task(item.checked("t"))
        with anyio.fail_after(20):
            await wait_until(lambda: not stale(item))  # it asks
            check.cancel()
            await asyncio.wait([check])
        assert stale(item)
        monkeypatch.setattr(mcp_module, "CHECK_S", 0.2)
        assert "did not answer within 0.2 s" in (await item.checked("t")).problems[0].message


async def flooding(scope: Any, receive: Any, send: Any) -> None:
    """A server over HTTP that tells without end, and is not asked for anything."""
    if scope["type"] != "http":
        return
    kind = b"application/json" if scope["method"] == "POST" else b"text/event-stream"
    head = [(b"content-type", kind), (b"mcp-session-id", b"1")]
    if scope["method"] == "POST":
        body = json.loads((await receive())["body"])
        await send({"type": "http.response.start", "status": 200, "headers": head})
        result: dict[str, Any] = {"tools": []}
        if body["method"] == "initialize":
            version = body["params"]["protocolVersion"]
            about = {"name": "flood", "version": "1"}
            result = {"protocolVersion": version, "capabilities": {}, "serverInfo": about}
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": body.get("id"), "result": result}
        if body["method"] == "server/discover":
            error = {"code": -32601, "message": "no such method"}
            answer = {"jsonrpc": "2.0", "id": body["id"], "error": error}
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})
        return
    await send({"type": "http.response.start", "status": 200, "headers": head})
    answer = {"jsonrpc": "2.0", "method": "notifications/resources/list_changed"}
    data = b"event: message\ndata: " + json.dumps(answer).encode() + b"\n\n"
    with suppress(OSError):  # we have hung up
        while True:
            await send({"type": "http.response.body", "body": data, "more_body": True})
            await anyio.lowlevel.checkpoint()


async def test_a_stream_over_http_that_never_ends_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("playground.executors.mcp.process.MAX_LINES", 30)
    async with serving(flooding) as url, world(Server("f", url=url + "/", private=True)) as item:
        with anyio.fail_after(20):
            await item.mcp.list_tools(item.server, PATIENCE_S)
            await wait_until(lambda: not item.mcp.peer(item.server).open)
        assert "30 lines without a request" in item.mcp.peer(item.server).fault


async def test_what_is_known_is_told_without_asking() -> None:
    async with world(by_stdio("fine")) as item:
        assert await item.mcp.check_without_server(item.tool("say"), "{}") is None
        assert item.mcp.peer(item.server).connection is None
        checked = await item.checked("say")
        assert await item.mcp.check_without_server(item.tool("say"), "{}") == checked
