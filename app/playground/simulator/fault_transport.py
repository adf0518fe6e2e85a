"""Faults in the transport of an answer. The rows of `faults` are built from these:

- `canned`: another status and body in its place;
- `until`: a number of frames, then a cut, silence, an error, other frames, or no end;
- `each` and `whole`: the bytes of every frame, or of all of them, encoded differently or slowly;
- `without` and `again`: events that are missing, or repeated;
- `socket_gets`: bytes below HTTP. These need a server that provides its connection, like
`commands/sockets` (an extension of the ASGI scope).
https://asgi.readthedocs.io/en/latest/extensions.html
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Literal

import anyio
from starlette.types import Receive, Scope, Send

from playground.core.errors import BadInput
from playground.protocols.server import BadRequest, OutgoingFrame, ProviderServer
from playground.simulator import SOCKET

Frames = Sequence[OutgoingFrame]

# -- answers in place of the real one

SENTENCES = {
    400: "This request is refused on purpose, to simulate an error.",
    401: "Incorrect API key provided. Check your key.",
    402: "Your credit balance is too low.",
    403: "Your key does not have permission to use this resource.",
    404: "The model does not exist or you do not have access to it.",
    408: "The request took too long.",
    409: "The request conflicts with another one.",
    413: "Request exceeds the maximum size.",
    422: "The request cannot be processed.",
    429: "Rate limit reached. Please slow down.",
    500: "The server had an error while processing your request.",
    502: "Bad gateway.",
    503: "The server is temporarily unavailable.",
    504: "The gateway timed out.",
    529: "Overloaded",
}
HTML = b"<!doctype html><html><body><h1>It works!</h1><p>This is no API.</p></body></html>"
JSON, SSE, PAGE = "application/json", "text/event-stream", "text/html; charset=utf-8"

FrameChange = Callable[[Frames, ProviderServer, int], Iterable[OutgoingFrame]]
"""(the frames of a valid answer, protocol server, the fault's number) -> the replacement."""

FrameSelection = Callable[[Frames, int], Iterable[OutgoingFrame]]
FrameSource = OutgoingFrame | Callable[[Frames, ProviderServer], Iterable[OutgoingFrame]]

_DRIPS = 50
_DRIP_S = 0.002
_PING_S = 0.05

_PIECE = 16
"""Bytes; small enough that the shortest JSON answer has as many pieces as a stream has frames."""

SocketBytes = Callable[[Mapping[str, str], Frames, int], Iterator[OutgoingFrame]]
"""(the headers, the frames of a valid answer, the number in the name) -> the socket's bytes."""

SocketPart = OutgoingFrame | Callable[[Mapping[str, str], Frames, int], Iterable[OutgoingFrame]]

_BYE = struct.pack("ii", 1, 0)
"""SO_LINGER on, zero seconds: closing such a socket resets the connection."""

CHUNKED = "transfer-encoding: chunked"


@dataclass(frozen=True)
class Canned:
    """A fixed answer, whatever the request."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": JSON})


Answer = Callable[[ProviderServer, int, str], Canned]
"""(protocol server, the number in the fault's name, the given key) -> the answer."""


def canned_answer(status: int, body: bytes = b"", kind: str = JSON) -> Answer:
    return lambda end, number, key: Canned(status, body, {"content-type": kind})


def provider_error(end: ProviderServer, status: int, sentence: str = "") -> BadRequest:
    """An error of this status in the protocol's format."""
    problem = end.problem(status, sentence or SENTENCES[status])
    problem.source = "a fault on purpose"
    return problem


def error_body(end: ProviderServer, status: int, sentence: str = "") -> bytes:
    return end.error(provider_error(end, status, sentence), "req_fault")


def status_answer(status: int, retry_after: str = "") -> Answer:
    """An error answer of `status`."""
    headers = {"content-type": JSON} | ({"retry-after": retry_after} if retry_after else {})
    return lambda end, number, key: Canned(status, error_body(end, status), headers)


def retry(end: ProviderServer, number: int, key: str) -> Canned:
    """429 with a retry time of so many seconds, in this provider's format."""
    problem = provider_error(end, 429)
    problem.retry_s = number
    headers = {} if end.waits_in_body else {"retry-after": str(number)}
    return Canned(429, end.error(problem, "req_fault"), {"content-type": JSON, **headers})


def echo_key(end: ProviderServer, number: int, key: str) -> Canned:
    """401 that repeats the key, like some careless gateways."""
    sentence = f"Incorrect API key provided: {key}. Check your key."
    return Canned(401, error_body(end, 401, sentence))


def error_as_success(end: ProviderServer, number: int, key: str) -> Canned:
    """An error object under status 200."""
    return Canned(200, error_body(end, 500))


def error_event(end: ProviderServer, number: int, key: str) -> Canned:
    """A stream that contains only an error."""
    return Canned(200, end.error_frame(provider_error(end, 500)), {"content-type": end.stream_type})


def redirect(end: ProviderServer, number: int, key: str) -> Canned:
    """A redirect to an unresolvable name: a client must not follow it with a key."""
    if number not in (301, 302, 303, 307, 308):
        raise BadInput(f"{number} is not a redirect. Use 301, 302, 303, 307 or 308.")
    return Canned(number, b"", {"location": f"https://elsewhere.invalid{end.path}"})


# -- the frames of a valid answer, changed


def split_frames(frames: Iterable[OutgoingFrame]) -> Iterator[OutgoingFrame]:
    """A JSON body in pieces, so that faults that count frames can cut it; the pause comes first."""
    for frame in frames:
        for start in range(0, len(frame.data), _PIECE):
            pause = 0.0 if start else frame.pause
            yield OutgoingFrame(frame.data[start : start + _PIECE], pause, frame.tag)


def cut_after(keep: FrameSelection, *then: FrameSource) -> FrameChange:
    """The frames that `keep` selects, followed by `then`; without it, by a regular end."""

    def change_frames(frames: Frames, end: ProviderServer, number: int) -> Iterator[OutgoingFrame]:
        yield from keep(frames, number)
        for what in then:
            yield from [what] if isinstance(what, OutgoingFrame) else what(frames, end)

    return change_frames


def first_frames(frames: Frames, number: int) -> Frames:
    """This many frames."""
    return frames[:number]


def frames_before(place: int) -> FrameSelection:
    """The frames before this one."""
    return lambda frames, number: frames[:place]


def all_frames(frames: Frames, number: int) -> Frames:
    return frames


def half_frames(frames: Frames, number: int) -> Frames:
    return frames[: len(frames) // 2]


def first_bytes(frames: Frames, number: int) -> Frames:
    """This many bytes, and always less than the whole."""
    data = join_frames(frames)
    return [OutgoingFrame(data[: min(number, len(data) - 1)])]


def cut_in_frame(frames: Frames, number: int) -> Frames:
    """This many frames and half of the next."""
    broken = [OutgoingFrame(f.data[: len(f.data) // 2]) for f in frames[number : number + 1]]
    return [*frames[:number], *broken]


def cut_in_arguments(frames: Frames, number: int) -> Frames:
    """Up to the middle of a call's arguments; half of the answer if there is no call."""
    within = [place for place, frame in enumerate(frames) if frame.tag == "args"]
    # The first frame of a call opens it: at least one with real arguments is kept.
    last = within[max(1, len(within) // 2)] if len(within) > 1 else len(frames) // 2
    return frames[: last + 1]


def cut_in_character(frames: Frames, number: int) -> Iterator[OutgoingFrame]:
    """Up to the middle of a multi-byte character."""
    for frame in frames:
        if wide := _multibyte_place(frame.data):
            yield OutgoingFrame(frame.data[:wide], frame.pause)
            return
        yield frame


def up_to_last(tag: str) -> FrameSelection:
    """All frames up to the last one with this tag."""
    return lambda frames, number: frames[: _last(frames, tag) + 1]


def rest_from(start: Callable[[Frames], int]) -> FrameSource:
    """The frames from `start` on, as in the valid answer."""
    return lambda frames, end: frames[start(frames) :]


def event(data: bytes) -> FrameSource:
    """`data` as an event of the protocol: a line, or an SSE event."""
    return lambda frames, end: [
        OutgoingFrame(b"data: %s\n\n" % data if speaks_sse(end) else data + b"\n")
    ]


def error_frames(frames: Frames, end: ProviderServer) -> Frames:
    """An error in an event of the protocol."""
    return [OutgoingFrame(end.error_frame(provider_error(end, 529)))]


def bare_error(frames: Frames, end: ProviderServer) -> Frames:
    """An error as a separate body, outside of any frame."""
    return [OutgoingFrame(error_body(end, 500) + b"\n")]


def repeat_text(frames: Frames, end: ProviderServer) -> Iterable[OutgoingFrame]:
    return (frame for frame in frames if frame.tag == "text")


def pings(frames: Frames, end: ProviderServer) -> Iterator[OutgoingFrame]:
    """An endless sequence of keep-alives."""
    return repeat(OutgoingFrame(b": ping\n\n" if speaks_sse(end) else b"\n", _PING_S, "slow"))


def open_event(frames: Frames, end: ProviderServer) -> Frames:
    """The start of an event with a text."""
    return [OutgoingFrame(b'data: {"x":"' if speaks_sse(end) else b'{"x":"')]


def repeat_data(data: bytes) -> FrameSource:
    return lambda frames, end: repeat(OutgoingFrame(data))


def repeat_last(tag: str) -> FrameSource:
    """The last frame with this tag, many at once, endlessly."""
    return lambda frames, end: repeat(
        OutgoingFrame(frames[_last(frames, tag)].data * 64, tag="text")
    )


def _last(frames: Frames, tag: str) -> int:
    return max((place for place, frame in enumerate(frames) if frame.tag == tag), default=0)


def speaks_sse(end: ProviderServer) -> bool:
    return end.stream_type.startswith(SSE)


def drop_frames(*tags: str) -> FrameChange:
    """All frames except those with these tags."""
    return lambda frames, end, number: (frame for frame in frames if frame.tag not in tags)


def repeat_frames(tag: str) -> FrameChange:
    """The frames with this tag twice."""
    return lambda frames, end, number: (
        frame for frame in frames for _ in range(1 + (frame.tag == tag))
    )


def reencode_frames(written: Callable[[bytes], bytes], ahead: bytes = b"") -> FrameChange:
    """Every frame in another valid encoding, `ahead` before all of them."""

    def change_frames(frames: Frames, end: ProviderServer, number: int) -> Iterator[OutgoingFrame]:
        if ahead:
            yield OutgoingFrame(ahead)
        for frame in frames:
            data = written(frame.data.replace(b"\r\n", b"\n"))
            yield OutgoingFrame(data, frame.pause, frame.tag)

    return change_frames


def remove_spaces(data: bytes) -> bytes:
    """Without the space that may follow a colon."""
    return data.replace(b"data: ", b"data:").replace(b"event: ", b"event:")


def comment_flood(frames: Frames, end: ProviderServer, number: int) -> Iterator[OutgoingFrame]:
    """This many comment lines before each frame."""
    for frame in frames:
        yield OutgoingFrame(b": SIMULATOR PROCESSING\n\n" * number)
        yield frame


def utf8_split(frames: Frames, end: ProviderServer, number: int) -> Iterator[OutgoingFrame]:
    """Each frame in two parts, split inside a multi-byte character if it has one."""
    for frame in frames:
        if wide := _multibyte_place(frame.data):
            yield OutgoingFrame(frame.data[:wide], frame.pause)
            yield OutgoingFrame(frame.data[wide:])
        else:
            yield frame


def _multibyte_place(data: bytes) -> int:
    """A place inside the first multi-byte character; 0 if there is none."""
    return next((place + 1 for place, byte in enumerate(data) if byte >= 0xC0), 0)


def utf8_invalid(frames: Frames, end: ProviderServer, number: int) -> Iterator[OutgoingFrame]:
    """A byte that is invalid in UTF-8, in the first text."""
    spoilt = next((frame for frame in frames if frame.tag == "text"), None)
    for frame in frames:
        if frame is spoilt:
            head, quote, tail = frame.data.rpartition(b'"')
            yield OutgoingFrame(head + b"\xff" + quote + tail, frame.pause)
        else:
            yield frame


def reencode_body(written: Callable[[bytes], Iterable[bytes]], pause: float = 0.0) -> FrameChange:
    """All bytes in other pieces, each after the same pause."""
    tag: Literal["slow", "other"] = "slow" if pause else "other"
    return lambda frames, end, number: (
        OutgoingFrame(piece, pause, tag) for piece in written(join_frames(frames))
    )


def join_frames(frames: Frames) -> bytes:
    return b"".join(frame.data for frame in frames)


def split_bytes(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def split_drips(data: bytes) -> Iterator[bytes]:
    return split_bytes(data, max(1, len(data) // _DRIPS))


drip = reencode_body(split_drips, _DRIP_S)


def gzip_pieces(data: bytes) -> Iterator[bytes]:
    """Compressed, in a few pieces."""
    packed = gzip.compress(data, mtime=0)
    return split_bytes(packed, len(packed) // 3 + 1)


def gzip_cut(data: bytes) -> Iterator[bytes]:
    """Half of the compressed body."""
    packed = gzip.compress(data, mtime=0)
    yield packed[: len(packed) // 2]


def gzip_bomb(frames: Frames, end: ProviderServer, number: int) -> Iterator[OutgoingFrame]:
    """The beginning, then this many MiB of blank lines, compressed to a thousandth."""
    press = zlib.compressobj(wbits=31)
    yield OutgoingFrame(press.compress(join_frames(frames[:1])))
    for _ in range(number):
        if data := press.compress(b"\n" * 1024 * 1024):
            yield OutgoingFrame(data)
    yield OutgoingFrame(press.flush())


# -- faults below HTTP: bytes written to the socket directly


@dataclass(frozen=True)
class RawResponse:
    """An ASGI application that bypasses its server, without pauses."""

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
        # The server must not send anything more, so wait until the connection is gone.
        while (await receive())["type"] != "http.disconnect":
            pass


def _reset(transport: asyncio.Transport) -> None:
    sock = transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _BYE)
    transport.abort()


def has_socket(scope: Scope) -> bool:
    """Whether the server of this request provides its connection."""
    return SOCKET in (scope.get("extensions") or {})


def socket_gets(*parts: SocketPart) -> SocketBytes:
    """These parts, one after the other."""

    def raw(headers: Mapping[str, str], frames: Frames, number: int) -> Iterator[OutgoingFrame]:
        for part in parts:
            yield from [part] if isinstance(part, OutgoingFrame) else part(headers, frames, number)

    return raw


def head(more: str, status: str = "200 OK") -> SocketPart:
    """The status line and the headers, including `more`."""
    return lambda headers, frames, number: [_head(headers, more, status=status)]


def _head(headers: Mapping[str, str], *more: str, status: str = "200 OK") -> OutgoingFrame:
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers.items()), *more]
    return OutgoingFrame("\r\n".join([*lines, "", ""]).encode("latin-1"))


def half_head(headers: Mapping[str, str], frames: Frames, number: int) -> Frames:
    data = _head(headers).data
    return [OutgoingFrame(data[: len(data) // 2])]


def giant_head(headers: Mapping[str, str], frames: Frames, number: int) -> Frames:
    """With a header of this many KiB."""
    return [_head(headers, "x-padding: " + "x" * (number * 1024), CHUNKED)]


def half_body(headers: Mapping[str, str], frames: Frames, number: int) -> Frames:
    """Half of the bytes that the header promises."""
    data = join_frames(frames)
    length = f"content-length: {len(data)}"
    return [_head(headers, length), OutgoingFrame(data[: len(data) // 2])]


def body(headers: Mapping[str, str], frames: Frames, number: int) -> Frames:
    return frames


def chunks(keep: FrameSelection) -> SocketPart:
    """Frames in chunked encoding (HTTP/1.1), without the last chunk."""
    return lambda headers, frames, number: (
        OutgoingFrame(b"%x\r\n%s\r\n" % (len(frame.data), frame.data))
        for frame in keep(frames, number)
        if frame.data
    )
