"""Faults below HTTP: what is written to the socket itself, where a server would not let it pass.

They need a server that hands its connection over: `commands/listening` does, as an extension of the
ASGI scope. https://asgi.readthedocs.io/en/latest/extensions.html
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import anyio
from starlette.types import Receive, Scope, Send

from app.protocols.server import CUT, RESET, STALL, OutgoingFrame

SOCKET = "playground.socket"
"""The extension of the scope that holds the asyncio transport of the connection."""

Raw = Callable[[Mapping[str, str], Sequence[OutgoingFrame], int], Iterator[OutgoingFrame]]
"""(the headers, the frames of a sound answer, the number in the name) -> what the socket gets."""

_BYE = struct.pack("ii", 1, 0)
"""SO_LINGER on, zero seconds: closing such a socket is a reset."""


@dataclass(frozen=True)
class RawPlayed:
    """An ASGI application that writes past its server, without a pause."""

    frames: Iterable[OutgoingFrame]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        transport: asyncio.Transport = scope["extensions"][SOCKET]
        for frame in self.frames:
            if transport.is_closing():
                break
            match frame.tag:
                case "stall":
                    break
                case "cut":
                    transport.close()
                case "reset":
                    _reset(transport)
                case _:
                    transport.write(frame.data)
                    await anyio.lowlevel.checkpoint()
        # Only when the connection is gone the server has nothing to add.
        while (await receive())["type"] != "http.disconnect":
            pass


def _reset(transport: asyncio.Transport) -> None:
    sock = transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _BYE)
    transport.abort()


def can(scope: Scope) -> bool:
    """Whether the server of this request hands its connection over."""
    return SOCKET in (scope.get("extensions") or {})


def _head(headers: Mapping[str, str], *more: str, status: str = "200 OK") -> OutgoingFrame:
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers.items()), *more]
    return OutgoingFrame("\r\n".join([*lines, "", ""]).encode("latin-1"))


def _chunks(frames: Iterable[OutgoingFrame]) -> Iterator[OutgoingFrame]:
    """Frames in the framing of HTTP/1.1, without the last chunk."""
    yield from (OutgoingFrame(b"%x\r\n%s\r\n" % (len(f.data), f.data)) for f in frames if f.data)


_CHUNKED = "transfer-encoding: chunked"


def close_at_once(
    headers: Mapping[str, str], frames: Sequence[OutgoingFrame], n: int
) -> Iterator[OutgoingFrame]:
    yield CUT


def reset_at_once(
    headers: Mapping[str, str], frames: Sequence[OutgoingFrame], n: int
) -> Iterator[OutgoingFrame]:
    yield RESET


def half_headers(
    headers: Mapping[str, str], frames: Sequence[OutgoingFrame], n: int
) -> Iterator[OutgoingFrame]:
    """The status line and a part of the headers."""
    head = _head(headers).data
    yield OutgoingFrame(head[: len(head) // 2])
    yield CUT


def not_http(
    headers: Mapping[str, str], frames: Sequence[OutgoingFrame], n: int
) -> Iterator[OutgoingFrame]:
    """The greeting of another protocol."""
    yield OutgoingFrame(b"220 mail.invalid ESMTP\r\n\r\n")
    yield CUT


def giant_header(
    headers: Mapping[str, str], frames: Sequence[OutgoingFrame], n: int
) -> Iterator[OutgoingFrame]:
    """A header of so many KiB, then all the rest."""
    yield _head(headers, "x-padding: " + "x" * (n * 1024), _CHUNKED)
    yield from _chunks(frames)
    yield OutgoingFrame(b"0\r\n\r\n")


def stall_headers(
    headers: Mapping[str, str], frames: Sequence[OutgoingFrame], n: int
) -> Iterator[OutgoingFrame]:
    yield STALL


def stall_500(
    headers: Mapping[str, str], frames: Sequence[OutgoingFrame], n: int
) -> Iterator[OutgoingFrame]:
    """An error's head and the start of its body, and then silence."""
    yield _head(headers, "content-length: 1000", status="500 Internal Server Error")
    yield OutgoingFrame(b'{"error"')
    yield STALL


def bad_chunk_size(
    headers: Mapping[str, str], frames: Sequence[OutgoingFrame], n: int
) -> Iterator[OutgoingFrame]:
    """Half of the frames, then a chunk whose size is no number."""
    yield _head(headers, _CHUNKED)
    yield from _chunks(frames[: len(frames) // 2])
    yield OutgoingFrame(b"zz\r\nnonsense\r\n")
    yield CUT


def no_last_chunk(
    headers: Mapping[str, str], frames: Sequence[OutgoingFrame], n: int
) -> Iterator[OutgoingFrame]:
    """Half of the frames, each chunk whole, and a polite end of the connection alone."""
    yield _head(headers, _CHUNKED)
    yield from _chunks(frames[: len(frames) // 2])
    yield CUT


def complete_no_last_chunk(
    headers: Mapping[str, str], frames: Sequence[OutgoingFrame], n: int
) -> Iterator[OutgoingFrame]:
    """All that was to be said; what is missing is the word that it was all."""
    yield _head(headers, _CHUNKED)
    yield from _chunks(frames)
    yield CUT


def short_body(
    headers: Mapping[str, str], frames: Sequence[OutgoingFrame], n: int
) -> Iterator[OutgoingFrame]:
    """Half of the bytes that the header promises."""
    data = b"".join(frame.data for frame in frames)
    yield _head(headers, f"content-length: {len(data)}")
    yield OutgoingFrame(data[: len(data) // 2])
    yield CUT


def close_framing(
    headers: Mapping[str, str], frames: Sequence[OutgoingFrame], n: int
) -> Iterator[OutgoingFrame]:
    """No length and no chunks: the end of the connection is the end of the body."""
    yield _head(headers, "connection: close")
    yield from frames
    yield CUT
