"""Faults in how an answer travels: replaced by an error, cut, stalled, split at odd places.

The last part is below HTTP and needs a server that hands its connection over, as
`commands/sockets` does (an extension of the ASGI scope).
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

import anyio
from starlette.types import Receive, Scope, Send

from app.core.errors import BadInput
from app.protocols.server import CUT, RESET, STALL, BadRequest, OutgoingFrame, ProviderServer
from app.simulator.extension import SOCKET

# -- faults that replace the whole answer: an error status, HTML, a redirect

_SENTENCES = {
    400: "This request is refused on purpose: the simulator plays a fault.",
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
_HTML = b"<!doctype html><html><body><h1>It works!</h1><p>This is no API.</p></body></html>"


@dataclass(frozen=True)
class Canned:
    """An answer as it goes out, whatever the request was."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})


Answer = Callable[[ProviderServer, int, str], Canned]
"""(end, the number in the fault's name, the key that was given) -> the answer."""


def provider_error(end: ProviderServer, status: int, sentence: str = "") -> BadRequest:
    """An error of this status in the words of the protocol."""
    kind, code = end.kinds.get(status) or end.kinds[400]
    sentence = sentence or _SENTENCES[status]
    return BadRequest(sentence, status, kind=kind, code=code, source="a fault on purpose")


def status(status: int, headers: Mapping[str, str] | None = None) -> Answer:
    """An error answer of `status`."""

    def answer(end: ProviderServer, number: int, key: str) -> Canned:
        body = end.error(provider_error(end, status), "req_fault")
        return Canned(status, body, {"content-type": "application/json", **(headers or {})})

    return answer


def retry(end: ProviderServer, number: int, key: str) -> Canned:
    """429 that asks to come back after so many seconds, where this provider says it."""
    problem = provider_error(end, 429)
    problem.retry_s = number
    headers = {} if end.waits_in_body else {"retry-after": str(number)}
    body = end.error(problem, "req_fault")
    return Canned(429, body, {"content-type": "application/json", **headers})


def echo_key(end: ProviderServer, number: int, key: str) -> Canned:
    """401 that repeats the key, as careless gateways do."""
    problem = provider_error(end, 401, f"Incorrect API key provided: {key}. Check your key.")
    return Canned(401, end.error(problem, "req_fault"))


def html(status: int, kind: str = "text/html; charset=utf-8") -> Answer:
    return lambda end, number, key: Canned(status, _HTML, {"content-type": kind})


def huge(end: ProviderServer, number: int, key: str) -> Canned:
    """An error page of a MiB."""
    return Canned(500, _HTML + b"<!-- " + b"x" * 1024 * 1024, {"content-type": "text/html"})


def odd_success(end: ProviderServer, number: int, key: str) -> Canned:
    """A status that nobody has heard of, with a body that says nothing."""
    return Canned(299, b'{"ok":true}')


def empty(status: int, kind: str = "application/json") -> Answer:
    return lambda end, number, key: Canned(status, b"", {"content-type": kind})


def error_as_success(end: ProviderServer, number: int, key: str) -> Canned:
    """An error object under status 200."""
    return Canned(200, end.error(provider_error(end, 500), "req_fault"))


def error_event(end: ProviderServer, number: int, key: str) -> Canned:
    """A stream that holds an error and nothing else."""
    return Canned(200, end.error_frame(provider_error(end, 500)), {"content-type": end.stream_type})


def redirect(end: ProviderServer, number: int, key: str) -> Canned:
    """A redirect into a name that leads nowhere: nobody should follow it with a key in hand."""
    if number not in (301, 302, 303, 307, 308):
        raise BadInput(f"{number} is no redirect. Use 301, 302, 303, 307 or 308.")
    return Canned(number, b"", {"location": f"https://elsewhere.invalid{end.path}"})


Twist = Callable[[Sequence[OutgoingFrame], ProviderServer, int], Iterator[OutgoingFrame]]
"""(the frames of a sound answer, the end, the number in the fault's name) -> frames instead."""

_DRIPS = 50
_DRIP_S = 0.002
_PING_S = 0.05
_PIECE = 16
"""Bytes; small enough that the least JSON answer has as many pieces as a stream has frames."""


def in_pieces(frames: Iterable[OutgoingFrame]) -> Iterator[OutgoingFrame]:
    """A JSON body in pieces, so that what counts frames can cut it; the wait comes first."""
    for frame in frames:
        for start in range(0, len(frame.data), _PIECE):
            pause = 0.0 if start else frame.pause
            yield OutgoingFrame(frame.data[start : start + _PIECE], pause, frame.tag)


def cut_after(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """So many frames, then the connection is gone."""
    yield from frames[:number]
    yield CUT


def cut_bytes(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """So many bytes, and always less than the whole."""
    data = b"".join(frame.data for frame in frames)
    yield OutgoingFrame(data[: min(number, len(data) - 1)])
    yield CUT


def cut_inside(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """So many frames and half of the next, then the connection is gone."""
    yield from frames[:number]
    yield from (OutgoingFrame(f.data[: len(f.data) // 2]) for f in frames[number : number + 1])
    yield CUT


def clean_end_after(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    yield from frames[:number]


def clean_end_mid_args(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """A polite end within a call's arguments; half-way where there is no call."""
    within = [place for place, frame in enumerate(frames) if frame.tag == "args"]
    # The first frame of a call opens it: at least one with real arguments is kept.
    last = within[max(1, len(within) // 2)] if len(within) > 1 else len(frames) // 2
    yield from frames[: last + 1]


def stall_after(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    yield from frames[:number]
    yield STALL


def error_mid(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """Half of the frames, then an error event and a polite end."""
    yield from frames[: len(frames) // 2]
    yield OutgoingFrame(end.error_frame(provider_error(end, 529)))


def error_then_more(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """Half of the frames, an error event, and the other half as if nothing had happened."""
    yield from error_mid(frames, end, number)
    yield from frames[len(frames) // 2 :]


def without(*tags: str) -> Twist:
    """All but the frames with these tags."""
    return lambda frames, end, number: (frame for frame in frames if frame.tag not in tags)


def utf8_split(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """Each frame in two, cut inside a character of several bytes where it has one."""
    for frame in frames:
        wide = next((i + 1 for i, byte in enumerate(frame.data) if byte >= 0xC0), 0)
        if wide:
            yield OutgoingFrame(frame.data[:wide], frame.pause)
            yield OutgoingFrame(frame.data[wide:])
        else:
            yield frame


def utf8_invalid(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """A byte that no UTF-8 holds, within the first text."""
    spoilt = False
    for frame in frames:
        if frame.tag == "text" and not spoilt:
            spoilt = True
            head, quote, tail = frame.data.rpartition(b'"')
            yield OutgoingFrame(head + b"\xff" + quote + tail, frame.pause)
        else:
            yield frame


def one_byte_chunks(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    for frame in frames:
        yield from (OutgoingFrame(frame.data[i : i + 1]) for i in range(len(frame.data)))


def all_in_one(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    yield OutgoingFrame(b"".join(frame.data for frame in frames))


def crlf(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    yield from (OutgoingFrame(f.data.replace(b"\n", b"\r\n"), f.pause, f.tag) for f in frames)


def comment_flood(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """So many comment lines before each frame."""
    flood = b": SIMULATOR PROCESSING\n\n" * number
    for frame in frames:
        yield OutgoingFrame(flood)
        yield frame


def utf8_truncated(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """A polite end inside a character of several bytes."""
    for frame in frames:
        wide = next((i + 1 for i, byte in enumerate(frame.data) if byte >= 0xC0), 0)
        if wide:
            yield OutgoingFrame(frame.data[:wide], frame.pause)
            return
        yield frame


def event(end: ProviderServer, data: bytes) -> OutgoingFrame:
    """`data` as an event of the protocol: a line of it, or what SSE makes of one."""
    if speaks_sse(end):
        return OutgoingFrame(b"data: %s\n\n" % data)
    return OutgoingFrame(data + b"\n")


def speaks_sse(end: ProviderServer) -> bool:
    return end.stream_type.startswith("text/event-stream")


def odd_event(data: bytes) -> Twist:
    """The same stream with an event that holds `data`, once before its second frame."""

    def twist(
        frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
    ) -> Iterator[OutgoingFrame]:
        yield from frames[:1]
        yield event(end, data)
        yield from frames[1:]

    return twist


def error_bare(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """Half of the frames, then the error as a body of its own, in no frame at all."""
    yield from frames[: len(frames) // 2]
    yield OutgoingFrame(end.error(provider_error(end, 500), "req_fault") + b"\n")


def drip(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """A few bytes at a time, each after a moment."""
    data = b"".join(frame.data for frame in frames)
    size = max(1, len(data) // _DRIPS)
    for start in range(0, len(data), size):
        yield OutgoingFrame(data[start : start + size], _DRIP_S, "slow")


def then_silence(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """The whole answer; the connection stays open."""
    yield from frames
    yield STALL


def again(tag: str) -> Twist:
    """The frames with this tag twice."""

    def twist(
        frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
    ) -> Iterator[OutgoingFrame]:
        for frame in frames:
            yield frame
            if frame.tag == tag:
                yield frame

    return twist


def respelt(spelt: Callable[[bytes], bytes], first: bytes = b"") -> Twist:
    """The same events in another legal spelling of SSE, `first` ahead of them."""

    def twist(
        frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
    ) -> Iterator[OutgoingFrame]:
        if first:
            yield OutgoingFrame(first)
        for frame in frames:
            data = spelt(frame.data.replace(b"\r\n", b"\n"))
            yield OutgoingFrame(data, frame.pause, frame.tag)

    return twist


def over_lines(data: bytes) -> bytes:
    """The JSON of an event over several `data` lines: a line break is a space to JSON."""
    return data.replace(b'{"', b'{\ndata: "', 1)


def tight(data: bytes) -> bytes:
    """Without the space that may follow a colon."""
    return data.replace(b"data: ", b"data:").replace(b"event: ", b"event:")


def with_fields(data: bytes) -> bytes:
    """With fields that say nothing about the event."""
    return b"id: 7\nretry: 3000\n" + data


def gzipped(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """The body compressed, in a few pieces."""
    data = gzip.compress(b"".join(frame.data for frame in frames), mtime=0)
    size = len(data) // 3 + 1
    yield from (OutgoingFrame(data[start : start + size]) for start in range(0, len(data), size))


def gzip_cut(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """Half of the compressed body, and a polite end."""
    whole = b"".join(frame.data for frame in gzipped(frames, end, number))
    yield OutgoingFrame(whole[: len(whole) // 2])


def gzip_bomb(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """A start, then so many MiB of blank lines in a thousandth of that."""
    press = zlib.compressobj(wbits=31)
    yield OutgoingFrame(press.compress(b"".join(frame.data for frame in frames[:1])))
    blank = b"\n" * 1024 * 1024
    for _ in range(number):
        if data := press.compress(blank):
            yield OutgoingFrame(data)
    yield OutgoingFrame(press.flush())


def endless_line(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """An event that begins and never ends."""
    yield from frames[:1]
    yield OutgoingFrame(b'data: {"x":"' if speaks_sse(end) else b'{"x":"')
    while True:
        yield OutgoingFrame(b"x" * 65536)


def endless(tag: str) -> Twist:
    """The stream up to its last frame with this tag, and that one for ever."""

    def twist(
        frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
    ) -> Iterator[OutgoingFrame]:
        last = max((i for i, frame in enumerate(frames) if frame.tag == tag), default=0)
        yield from frames[: last + 1]
        while True:
            yield OutgoingFrame(frames[last].data * 64, tag="text")

    return twist


def unlimited_blank(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """Blank lines for ever."""
    yield from frames[:3]
    while True:
        yield OutgoingFrame(b"\n" * 65536)


def pings_forever(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """Signs of life, and nothing else, for ever."""
    yield from frames[:3]
    while True:
        yield OutgoingFrame(b": ping\n\n" if speaks_sse(end) else b"\n", _PING_S, "slow")


def more_after_end(
    frames: Sequence[OutgoingFrame], end: ProviderServer, number: int
) -> Iterator[OutgoingFrame]:
    """Once the end was told, some of the text once more."""
    yield from frames
    yield from (frame for frame in frames if frame.tag == "text")


# -- faults below HTTP: bytes written to the socket itself

Raw = Callable[[Mapping[str, str], Sequence[OutgoingFrame], int], Iterator[OutgoingFrame]]
"""(the headers, the frames of a sound answer, the number in the name) -> what the socket gets."""

_BYE = struct.pack("ii", 1, 0)
"""SO_LINGER on, zero seconds: closing such a socket is a reset."""


@dataclass(frozen=True)
class RawResponse:
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
