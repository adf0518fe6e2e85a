"""Frames and their spans, whatever the cuts."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.protocols.framing import Frame, Framer
from tests.protocols.frames import UNHURRIED

CASES: list[tuple[str, bytes, list[tuple[str, str]]]] = [
    ("line feeds", b"data: a\n\ndata: b\n\n", [("sse", "a"), ("sse", "b")]),
    ("Q38 CRLF", b"data: a\r\n\r\ndata: b\r\n\r\n", [("sse", "a"), ("sse", "b")]),
    ("Q38 lone CR", b"data: a\r\rdata: b\r\r", [("sse", "a"), ("sse", "b")]),
    (
        "mixed line ends",
        b"data: a\r\n\ndata: b\n\r\ndata: c\r\n\r",
        [("sse", "a"), ("sse", "b"), ("sse", "c")],
    ),
    ("Q39 byte order mark", b"\xef\xbb\xbfdata: a\n\n", [("sse", "a")]),
    ("several data lines", b"data: a\ndata:b\ndata\ndata:  c\n\n", [("sse", "a\nb\n\n c")]),
    (
        "Q37 comments",
        b": ping\n\n:\ndata: a\n\n",
        [("comment", ": ping"), ("comment", ":"), ("sse", "a")],
    ),
    ("a comment inside", b"data: a\n: x\ndata: b\n\n", [("comment", ": x"), ("sse", "a\nb")]),
    (
        "no data",
        b"event: ping\n\nretry: 10\n\nid: 7\n\n",
        [("fields", ""), ("fields", ""), ("fields", "")],
    ),
    ("empty data", b"data:\n\n", [("sse", "")]),
    ("blank lines first", b"\r\n\n \ndata: a\n\n", [("sse", "a")]),
    (
        "an unknown field",
        b"data: a\nfoo: 1\ndataset: 2\n\n",
        [("text", "foo: 1\ndataset: 2"), ("sse", "a")],
    ),
    (
        "U+2028, U+0085",
        "data: \u2028\u2029\u0085\x0b\x0c\x1c\n\n".encode(),
        [("sse", "\u2028\u2029\u0085\x0b\x0c\x1c")],
    ),
    ("no blank line at the end", b"data: a", [("sse", "a")]),
    ("cut in a field name", b"data: a\n\ndat", [("sse", "a"), ("fields", "")]),
    ("one document", b'{"a": [1, "}\\"]"]}', [("json", '{"a": [1, "}\\"]"]}')]),
    (
        "a document over lines",
        b'\n{\n "a": {\n  "b": 1}\n}\n',
        [("json", '{\n "a": {\n  "b": 1}\n}')],
    ),
    (
        "Q62 an array",
        b'[{"a": 1},\n{\n"b": [2]}\n]\n',
        [("json", '{"a": 1}'), ("json", '{\n"b": [2]}')],
    ),
    (
        "escaped quotes",
        b'[{"a": "\\"}"}, {"b": "\\\\"}]',
        [("json", '{"a": "\\"}"}'), ("json", '{"b": "\\\\"}')],
    ),
    (
        "JSON Lines",
        b'{"a":1}\n{"b":2}\r\n\n{"c":3}',
        [("json", '{"a":1}'), ("json", '{"b":2}'), ("json", '{"c":3}')],
    ),
    (
        "a broken line among JSON Lines",
        b'{"a":1}\n{"b":\n{"c":3}\n',
        [("json", '{"a":1}'), ("json", '{"b":'), ("json", '{"c":3}')],
    ),
    ("a broken first line", b'{"a":"x\n{"b":2}\n', [("json", '{"a":"x'), ("json", '{"b":2}')]),
    (
        "Q59 bare JSON after events",
        b'data: a\n\n{\n "error": {\n  "code": 1\n }\n}\n',
        [("sse", "a"), ("json", '{\n "error": {\n  "code": 1\n }\n}')],
    ),
    (
        "bare JSON in between",
        b'data: a\n\n[{"x": 1}]\ndata: b\n\n',
        [("sse", "a"), ("json", '{"x": 1}'), ("sse", "b")],
    ),
    ("bare JSON, cut", b'data: a\n\n{"error": {"c', [("sse", "a"), ("json", '{"error": {"c')]),
    (
        "bare JSON and a rest",
        b'data: a\n\n{"x": 1} oops',
        [("sse", "a"), ("json", '{"x": 1}'), ("text", "oops")],
    ),
    ("HTML", b"<html>\n{data: x}\n</html>", [("text", "<html>\n{data: x}\n</html>")]),
    ("plain words", b"upstream\nis down", [("text", "upstream\nis down")]),
    ("a bare marker", b"data: a\n\n[DONE]\n", [("sse", "a"), ("text", "[DONE]")]),
    ("nothing", b"", []),
    ("blanks only", b"\n \r\n", []),
]  # fmt: skip

PIECES = st.sampled_from(
    b'data: |data|event: e|\n|\r|\r\n|: c|{|}|[|]|"|\\|,|x| |<|\xef\xbb\xbf|\xff|\xc3\xa9|[DONE]'
    b'|{"a":1}|\n\n|id: 1'.split(b"|")
)


def frames(body: bytes, *cuts: int, cap: int = 1 << 20) -> list[Frame]:
    framer = Framer(cap)
    places = [0, *sorted(cut for cut in cuts if 0 < cut < len(body)), len(body)]
    found_frames: list[Frame] = []
    for start, end in pairwise(places):
        found_frames += framer.feed(body[start:end])
    return found_frames + framer.end()


def brief(body: bytes) -> list[tuple[str, str]]:
    return [(frame.kind, frame.data) for frame in frames(body)]


@pytest.mark.parametrize(("body", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_kinds_and_data(body: bytes, expected: list[tuple[str, str]]) -> None:
    assert brief(body) == expected
    all_frames = frames(body)
    assert frames(body, *range(len(body))) == all_frames
    assert all(frames(body, cut) == all_frames for cut in range(len(body)))


def test_the_span_is_the_lines_without_their_ends() -> None:
    body = b": ping\r\n\r\nevent: e\r\ndata: a\r\n\r\n"
    comment, event = frames(body)
    assert body[comment.start : comment.end] == b": ping"
    assert body[event.start : event.end] == b"event: e\r\ndata: a"
    assert event.event == "e"


def test_a_frame_is_there_as_soon_as_its_last_byte() -> None:
    framer = Framer()
    assert framer.feed(b"data: a\r") == []
    assert [frame.data for frame in framer.feed(b"\r")] == ["a"]
    assert framer.feed(b"\n") == []
    assert framer.end() == []
    array = Framer()
    assert [frame.data for frame in array.feed(b'[{"a": 1}')] == ['{"a": 1}']


@pytest.mark.parametrize("body", [b"data: {", b'{"a"', b"dat", b"event: x\n"])
def test_what_the_end_cut_is_marked(body: bytes) -> None:
    assert [frame.complete for frame in frames(body)] == [False]


@pytest.mark.parametrize("end", [b"\r\n", b"\r", b"\n"], ids=["CRLF", "CR", "LF"])
def test_a_line_end_that_is_cut_in_two_is_one(end: bytes) -> None:
    """After each byte, and between each CR and its LF alone: an event of two lines stays one."""
    body = b"event: e" + end + b"data: a" + end + b"data: b" + end + end + b"data: c" + end + end
    within = [place for place in range(1, len(body)) if body[place - 1 : place + 1] == b"\r\n"]
    for cuts in (range(len(body)), within, within[:1], within[1:2], within[3:4], within[-1:]):
        found_frames = [(frame.event, frame.data) for frame in frames(body, *cuts)]
        assert found_frames == [("e", "a\nb"), ("", "c")], [*cuts]


def test_what_is_no_utf8_is_marked() -> None:
    (frame,) = frames(b"data: \xff\n\n")
    assert (frame.data, frame.sound) == ("\ufffd", False)


@pytest.mark.parametrize(
    ("body", "start"),
    [
        (b"data: a\n\ndata: " + b"x" * 200, 9),
        (b"data: a\n\n" + b"data: x\n" * 30, 9),
        (b'{"a": "' + b"x" * 200, 0),
        (b'[{"a": 1}, {"a": "' + b"x" * 200 + b'"}]', 11),
        (b"data: a\n\n: " + b"x" * 200, 9),
    ],
)
def test_the_cap_ends_everything(body: bytes, start: int) -> None:
    found_frames = frames(body + b"\n\ndata: b\n\n", cap=100)
    assert (found_frames[-1].kind, found_frames[-1].start, found_frames[-1].end) == (
        "too_large",
        start,
        start + 100,
    )
    assert len(found_frames) == (1 if start == 0 else 2)


def test_a_flood_of_stray_text_is_kept_in_part() -> None:
    (frame,) = frames(b"<p>" + b"x\n" * 200_000)
    assert (frame.end, len(frame.data)) == (400_003, 65_536)


@UNHURRIED
@given(st.lists(PIECES, max_size=30).map(b"".join), st.lists(st.integers(0, 120)), st.data())
def test_no_cut_changes_a_frame(body: bytes, cuts: list[int], data: st.DataObject) -> None:
    cap = data.draw(st.sampled_from([8, 20, 1 << 20]))
    assert frames(body, *cuts, cap=cap) == frames(body, cap=cap)
    assert frames(body, *range(len(body)), cap=cap) == frames(body, cap=cap)


def test_a_last_line_of_json_that_was_cut_is_not_complete() -> None:
    def last(body: bytes) -> bool:
        framer = Framer()
        return (framer.feed(body) + framer.end())[-1].complete

    assert last(b'{"a":1}\n{"b":2}')
    assert not last(b'{"a":1}\n{"b":{"c":2}')


def test_blank_lines_without_end_are_no_frames_and_cost_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[int] = []
    one_line = Framer._line

    def count_lines(self: Framer, start: int, end: int) -> bool:
        looked.append(end - start)
        return one_line(self, start, end)

    monkeypatch.setattr(Framer, "_line", count_lines)
    framer = Framer()
    found_frames = framer.feed(b"data: 1\n\n")
    for ends in (b"\n", b"\r\n", b"\r", b"\n\r\r\n"):
        found_frames += framer.feed(ends * 10_000)
    found_frames += framer.feed(b"\ndata: 2\n\n") + framer.end()
    assert [frame.data for frame in found_frames] == ["1", "2"]
    assert len(looked) < 20


@pytest.mark.parametrize(
    ("body", "unclosed"),
    [
        (b'[{"a":1}', True),
        (b'[{"a":1},\n', True),
        (b'[{"a":1}]', False),
        (b'[\n{"a":1}\n,\n{"b":[2]}\n]\n', False),
        (b'[{"a":1},{"b":2}\n<html>', True),
        (b'{"a":[1]}', False),
        (b"[\ndata: a\n\n", False),
        (b"[]", False),
    ],
)
def test_an_array_without_its_end_is_known(body: bytes, unclosed: bool) -> None:
    for cuts in ((), range(len(body))):
        framer = Framer()
        for start, end in pairwise([0, *cuts, len(body)]):
            framer.feed(body[start:end])
        framer.end()
        assert framer.unclosed == unclosed
