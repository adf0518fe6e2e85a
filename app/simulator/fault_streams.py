"""Faults in how an answer travels: cut, stalled, split at odd places, or told an error half-way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from app.simulator.end import CUT, STALL, End, Frame
from app.simulator.fault_answers import told

Twist = Callable[[Sequence[Frame], End, int], Iterator[Frame]]
"""(the frames of a sound answer, the end, the number in the fault's name) -> frames instead."""

_PIECE = 16
"""Bytes; small enough that the least JSON answer has as many pieces as a stream has frames."""


def in_pieces(frames: Iterable[Frame]) -> Iterator[Frame]:
    """A JSON body in pieces, so that what counts frames can cut it; the wait comes first."""
    for frame in frames:
        for start in range(0, len(frame.data), _PIECE):
            pause = 0.0 if start else frame.pause
            yield Frame(frame.data[start : start + _PIECE], pause, frame.tag)


def cut_after(frames: Sequence[Frame], end: End, number: int) -> Iterator[Frame]:
    """So many frames, then the connection is gone."""
    yield from frames[:number]
    yield CUT


def cut_bytes(frames: Sequence[Frame], end: End, number: int) -> Iterator[Frame]:
    """So many bytes, and always less than the whole."""
    data = b"".join(frame.data for frame in frames)
    yield Frame(data[: min(number, len(data) - 1)])
    yield CUT


def cut_inside(frames: Sequence[Frame], end: End, number: int) -> Iterator[Frame]:
    """So many frames and half of the next, then the connection is gone."""
    yield from frames[:number]
    yield from (Frame(f.data[: len(f.data) // 2]) for f in frames[number : number + 1])
    yield CUT


def clean_end_after(frames: Sequence[Frame], end: End, number: int) -> Iterator[Frame]:
    yield from frames[:number]


def clean_end_mid_args(frames: Sequence[Frame], end: End, number: int) -> Iterator[Frame]:
    """A polite end within a call's arguments; half-way where there is no call."""
    within = [place for place, frame in enumerate(frames) if frame.tag == "args"]
    # The first frame of a call opens it: at least one with real arguments is kept.
    last = within[max(1, len(within) // 2)] if len(within) > 1 else len(frames) // 2
    yield from frames[: last + 1]


def stall_after(frames: Sequence[Frame], end: End, number: int) -> Iterator[Frame]:
    yield from frames[:number]
    yield STALL


def error_mid(frames: Sequence[Frame], end: End, number: int) -> Iterator[Frame]:
    """Half of the frames, then an error event and a polite end."""
    yield from frames[: len(frames) // 2]
    yield Frame(end.error_frame(told(end, 529)))


def error_then_more(frames: Sequence[Frame], end: End, number: int) -> Iterator[Frame]:
    """Half of the frames, an error event, and the other half as if nothing had happened."""
    yield from error_mid(frames, end, number)
    yield from frames[len(frames) // 2 :]


def without(*tags: str) -> Twist:
    """All but the frames with these tags."""
    return lambda frames, end, number: (frame for frame in frames if frame.tag not in tags)


def utf8_split(frames: Sequence[Frame], end: End, number: int) -> Iterator[Frame]:
    """Each frame in two, cut inside a character of several bytes where it has one."""
    for frame in frames:
        wide = next((i + 1 for i, byte in enumerate(frame.data) if byte >= 0xC0), 0)
        if wide:
            yield Frame(frame.data[:wide], frame.pause)
            yield Frame(frame.data[wide:])
        else:
            yield frame


def utf8_invalid(frames: Sequence[Frame], end: End, number: int) -> Iterator[Frame]:
    """A byte that no UTF-8 holds, within the first text."""
    spoilt = False
    for frame in frames:
        if frame.tag == "text" and not spoilt:
            spoilt = True
            head, quote, tail = frame.data.rpartition(b'"')
            yield Frame(head + b"\xff" + quote + tail, frame.pause)
        else:
            yield frame


def one_byte_chunks(frames: Sequence[Frame], end: End, number: int) -> Iterator[Frame]:
    for frame in frames:
        yield from (Frame(frame.data[i : i + 1]) for i in range(len(frame.data)))


def all_in_one(frames: Sequence[Frame], end: End, number: int) -> Iterator[Frame]:
    yield Frame(b"".join(frame.data for frame in frames))


def crlf(frames: Sequence[Frame], end: End, number: int) -> Iterator[Frame]:
    yield from (Frame(f.data.replace(b"\n", b"\r\n"), f.pause, f.tag) for f in frames)


def comment_flood(frames: Sequence[Frame], end: End, number: int) -> Iterator[Frame]:
    """So many comment lines before each frame."""
    flood = b": SIMULATOR PROCESSING\n\n" * number
    for frame in frames:
        yield Frame(flood)
        yield frame


def before_text(data: bytes) -> Twist:
    """The same stream with `data` once before its second frame."""

    def twist(frames: Sequence[Frame], end: End, number: int) -> Iterator[Frame]:
        yield from frames[:1]
        yield Frame(data)
        yield from frames[1:]

    return twist


def first_twice(frames: Sequence[Frame], end: End, number: int) -> Iterator[Frame]:
    yield from frames[:1]
    yield from frames


def more_after_end(frames: Sequence[Frame], end: End, number: int) -> Iterator[Frame]:
    """Once the end was told, some of the text once more."""
    yield from frames
    yield from (frame for frame in frames if frame.tag == "text")
