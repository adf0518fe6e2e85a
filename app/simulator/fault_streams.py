"""Faults in how an answer travels: cut, stalled, split at odd places, or told an error half-way."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from app.protocols.server import CUT, STALL, OutgoingFrame, ProviderServer
from app.simulator.fault_answers import told

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
    yield OutgoingFrame(end.error_frame(told(end, 529)))


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
    yield OutgoingFrame(end.error(told(end, 500), "req_fault") + b"\n")


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
