"""The server that the commands share: quiet about cuts, loud about what is broken."""

from __future__ import annotations

import asyncio
import socket

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from app.commands.listening import bound, port_of, serve, server
from app.simulator.fault_raw import SOCKET
from tests.loopback import listening

pytestmark = pytest.mark.anyio


async def _cut(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})


async def _broken(scope: Scope, receive: Receive, send: Send) -> None:
    raise ValueError("a bug")


@pytest.mark.parametrize(("app", "said"), [(_cut, ""), (_broken, "a bug")])
async def test_a_dropped_connection_is_no_word_on_stderr(
    app: object, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with bound("127.0.0.1", 0) as sock:
        one = server(app)  # type: ignore[arg-type]
        serving = asyncio.create_task(serve(one, sock, lambda: None))
        async with asyncio.timeout(30):
            reader, writer = await asyncio.open_connection("127.0.0.1", port_of(sock))
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            await reader.read()
            writer.close()
            one.should_exit = True
            await serving
    err = capsys.readouterr().err
    assert said in err
    assert bool(err) == bool(said)


async def _no_delay(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the option of its own connection."""
    connection = scope["extensions"][SOCKET].get_extra_info("socket")
    option = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(option).encode()})


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_response_never_waits_for_an_acknowledgement(host: str) -> None:
    """Without TCP_NODELAY the second write on a kept-open connection waits for 40 ms."""
    async with listening(_no_delay, host) as url, httpx.AsyncClient(trust_env=False) as client:
        assert int((await client.get(url)).text) != 0
