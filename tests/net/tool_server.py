"""A server that a tool may call: each connection gets the same bytes, or what a function plays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter


class Server:
    """Answers each connection with the same bytes, and keeps what was asked."""

    def __init__(self, answer: bytes | Callable[[Reader, Writer], Awaitable[None]]) -> None:
        self.answer, self.seen, self.port = answer, list[bytes](), 0

    async def serve(self, reader: Reader, writer: Writer) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    head += await reader.readexactly(int(line[15:]))
            self.seen.append(head)
            if isinstance(self.answer, bytes):
                writer.write(self.answer)
                await writer.drain()
            else:
                await self.answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(answer: Any) -> AsyncIterator[Server]:
    item = Server(answer)
    server = await asyncio.start_server(item.serve, "127.0.0.1", 0)
    item.port = server.sockets[0].getsockname()[1]
    try:
        yield item
    finally:
        server.close()


def http_response(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body
