"""How the MCP servers of the tests are started, by stdio and over HTTP, and what they leave."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import uvicorn

from playground.core.servers import Server
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent.parent


def by_stdio(word: str, **more: Any) -> Server:
    """The server that a word stands for: "sdk" is made with the SDK, the others are by hand."""
    file = Path(__file__).with_name("mcp_by_sdk.py" if word == "sdk" else "mcp_by_hand.py")
    return Server(word, sys.executable, (str(file.resolve()), word), **more)


async def lines(file: Path, most: int) -> list[str]:
    """The lines of `file`, as soon as there are so many."""
    await wait_until(lambda: file.exists() and file.read_text().count("\n") >= most)
    return file.read_text().splitlines()


async def wait_for_exit(pid: int) -> None:
    """Returns when the process is no more; TimeoutError where it stays."""
    await wait_until(lambda: not alive(pid))


def alive(pid: int) -> bool:
    """Whether the process is there, and no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@asynccontextmanager
async def serve_http(*, json_response: bool = False) -> AsyncIterator[str]:
    """The URL of the SDK's server over HTTP on loopback."""
    from tests.executors.mcp_by_sdk import fine  # a second's work, for who comes here alone

    app = fine().streamable_http_app(json_response=json_response)
    async with serving(app) as base:
        yield base + "/mcp"


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """The base URL of an ASGI app on a free port."""
    config = uvicorn.Config(
        app, port=0, log_config=None, log_level="error", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    async with anyio.create_task_group() as group:
        group.start_soon(server.serve)
        await wait_until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
