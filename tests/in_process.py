"""Servers in this process, on a free port of loopback: of any ASGI application, and of the program.

The program's takes a fraction of the second that a process takes to start. Tests that end a server
by a signal, kill it, or look at what it reads and prints use a process (tests/servers.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
from anyio.from_thread import start_blocking_portal
from starlette.types import ASGIApp
from uvicorn.loops.auto import auto_loop_factory

from playground.commands.own_simulator import own_simulator
from playground.commands.sockets import GRACE_S, bind_socket, port_of, server, url_host
from playground.engine.engine import Engine
from playground.web.app import make_app
from tests.servers import RunningServer, environment

LOOK_S = 0.002
TOKEN = "token-of-a-server-in-this-process"

LOOP: dict[str, Any] = {"loop_factory": auto_loop_factory()}
"""anyio's options for the loop that the program runs on."""


@contextmanager
def run_server(db: Path, pace: float = 0, **changes: str) -> Iterator[RunningServer]:
    """The server of `playground serve`, in a thread, for as long as the block lasts. `pace` is its
    simulator's: 0 answers at once. `changes` are those of its environment."""
    with (
        start_blocking_portal(backend_options=LOOP) as portal,
        portal.wrap_async_context_manager(_serve_program(db, pace, environment(**changes))) as url,
    ):
        yield RunningServer(url=url, token=TOKEN, db=db)


@contextmanager
def serve_in_thread(app: ASGIApp) -> Iterator[str]:
    """`serve_app` in a thread of its own; its base URL."""
    with (
        start_blocking_portal(backend_options=LOOP) as portal,
        portal.wrap_async_context_manager(serve_app(app)) as url,
    ):
        yield url


@asynccontextmanager
async def serve_app(app: ASGIApp, host: str = "127.0.0.1", **options: Any) -> AsyncIterator[str]:
    """An application for as long as the block lasts; its base URL. At the end open answers may take
    as long as those of the program.

    It is uvicorn's server without its main loop, which looks every tenth of a second whether to
    end and then waits for another one: a fifth of a second for each of the many servers of tests.
    """
    sock = bind_socket(host, 0)
    running = server(app, log_config=None, **options)  # setting up the logging is the slowest part
    running.lifespan = running.config.lifespan_class(running.config)
    await running.startup(sockets=[sock])
    await running.on_tick(0)
    state = running.server_state
    try:
        yield f"http://{url_host(host)}:{port_of(sock)}"
    finally:
        for listener in running.servers:
            listener.close()
        for connection in list(state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(GRACE_S):
                while state.connections or state.tasks:
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            for task in state.tasks:
                task.cancel()
        sock.close()


@asynccontextmanager
async def _serve_program(db: Path, pace: float, environ: dict[str, str]) -> AsyncIterator[str]:
    here = httpx.URL()
    engine = await Engine.open(
        db, simulator_url=lambda: f"{here}/sim", simulator_key=TOKEN, environment=environ
    )
    try:
        app, site = make_app(
            engine,
            token=TOKEN,
            port=lambda: here.port or 0,
            simulator=own_simulator(engine, TOKEN, pace),
        )
        async with serve_app(app) as url:
            here = httpx.URL(url)
            try:
                yield url
            finally:
                site.close()
                await engine.end_runs()
    finally:
        await engine.close()
