"""Pages of bytes lose none and cut no character; marks stand where they belong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.render.wire_rows import WireRows
from playground.web.session.wire_view import HITS, PAGE, find_matches, frame_rows, raw_page
from tests.factories import Log


@settings(derandomize=True, max_examples=25, deadline=None)
@given(st.text(alphabet="aé€😀\n*", max_size=30), st.booleans())
def test_pages_put_together_are_the_bytes(text: str, as_hex: bool) -> None:
    data = (text * (2 * PAGE // (len(text.encode()) + 1) + 1)).encode()
    at, all_bytes = 0, b""
    while at < len(data):
        page = raw_page(1, data, (0, len(data)), [], at=at, as_hex=as_hex)
        assert "\ufffd" not in page.copied
        assert "\\x" not in page.copied
        all_bytes += bytes.fromhex(page.copied) if as_hex else page.copied.encode()
        shown_pieces = [piece for line in page.lines for piece in line.hex] or page.pieces
        assert sum(piece.size for piece in shown_pieces) == page.to - page.at
        assert page.to > at
        at = page.to
    assert all_bytes == data


@pytest.mark.parametrize(
    ("masked", "hit", "kinds"),
    [
        ([], (0, 0), [("abcdefgh", "")]),
        ([(2, 5)], (0, 0), [("ab", ""), ("cde", "masked"), ("fgh", "")]),
        ([(0, 8)], (0, 0), [("abcdefgh", "masked")]),
        ([], (3, 4), [("abc", ""), ("d", "hit"), ("efgh", "")]),
        ([(2, 5)], (3, 8), [("ab", ""), ("c", "masked"), ("defgh", "hit")]),
        ([(2, 50)], (0, 0), [("ab", ""), ("cdefgh", "masked")]),
    ],
)
def test_marks(
    masked: list[tuple[int, int]], hit: tuple[int, int], kinds: list[tuple[str, str]]
) -> None:
    page = raw_page(1, b"abcdefgh", (0, 8), masked, hit=hit)
    joined: list[tuple[str, str]] = []
    for piece in page.pieces:
        if joined and joined[-1][1] == piece.kind:
            joined[-1] = (joined[-1][0] + piece.text, piece.kind)
        else:
            joined.append((piece.text, piece.kind))
    assert joined == kinds
    assert page.masked == sum(min(end, 8) - start for start, end in masked)


def test_a_page_begins_near_what_was_found() -> None:
    data = b"x" * 10 * PAGE
    page = raw_page(1, data, (0, len(data)), [], hit=(5 * PAGE, 5 * PAGE + 4))
    assert page.at < 5 * PAGE < page.to
    assert page.to - page.at == PAGE
    assert raw_page(1, b"\xffa\x00", (0, 3), []).copied == "\\xffa\x00"
    assert raw_page(1, b"", (0, 0), []).copied == ""


def test_frames_with_their_times() -> None:
    pieces = [(1000, b"data: a\n\nda"), (1040, b"ta: b\n\n"), (1090, b"data: c\n\n")]
    rows = frame_rows(pieces, (0, 27), 900)
    assert [(single.start, single.end, single.at_ms, single.data) for single in rows] == [
        (0, 7, 100, "a"),
        (9, 16, 140, "b"),
        (18, 25, 190, "c"),
    ]
    assert [single.data for single in frame_rows(pieces, (9, 18), 900)] == ["b"]


@pytest.mark.parametrize(
    ("text", "body", "expected"),
    [
        ("b", b"abc", [(1, 2)]),
        ("B", b"abcb", [(1, 2), (3, 4)]),
        ('say "x"', b'{"t": "say \\"x\\""}', [(7, 16)]),
        ("é", '{"a": "\\u00e9", "b": "é"}'.encode(), [(7, 13), (22, 24)]),
        ("zz", b"abc", []),
    ],
)
def test_what_is_found(text: str, body: bytes, expected: list[tuple[int, int]]) -> None:
    rows = WireRows()
    for logged in Log().start().prompt().request().events:
        rows.log(logged)
    hits = find_matches(text, [(1, body)], rows)
    assert [(hit.start, hit.end) for hit in hits] == expected
    many: Callable[[int], bytes] = lambda count: b"b " * count  # noqa: E731
    assert len(find_matches("b", [(1, many(HITS + 9))], rows)) == HITS
