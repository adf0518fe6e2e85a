"""An application on a free port of loopback, served in this process and ended at once.

It is uvicorn's server without its main loop, which looks every tenth of a second whether to end
and then waits for another one: a fifth of a second for each of the many servers of the tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp
from uvicorn.loops.auto import auto_loop_factory

from playground.commands.sockets import GRACE_S, bind_socket, port_of, server, url_host

LOOK_S = 0.002

LOOP: dict[str, Any] = {"loop_factory": auto_loop_factory()}
"""anyio's options for the loop that the program runs on."""


@asynccontextmanager
async def listening(app: ASGIApp, host: str = "127.0.0.1", **options: Any) -> AsyncIterator[str]:
    """The base URL. At the end open answers may take as long as those of the program."""
    sock = bind_socket(host, 0)
    one = server(app, log_config=None, **options)  # to set up the logging takes it longest
    one.lifespan = one.config.lifespan_class(one.config)
    await one.startup(sockets=[sock])
    await one.on_tick(0)
    state = one.server_state
    try:
        yield f"http://{url_host(host)}:{port_of(sock)}"
    finally:
        for listener in one.servers:
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
