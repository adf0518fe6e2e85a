"""Compressed bodies: any cut, lies and bombs."""

from __future__ import annotations

import gzip
import zlib

import pytest

from playground.net.client import MOST_PIECE, Decompressor

TEXT = b"data: hello\n\n" * 500


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize(
    "packed",
    [gzip.compress(TEXT), zlib.compress(TEXT), gzip.compress(TEXT[:99]) * 3],
    ids=["gzip", "deflate", "members"],
)
def test_any_cut_gives_the_same(packed: bytes, size: int) -> None:
    inflate = Decompressor()
    parts = [packed[start : start + size] for start in range(0, len(packed), size)]
    text = b"".join(piece for part in parts for piece in inflate.feed(part))
    assert text in (TEXT, TEXT[:99] * 3)
    assert inflate.complete


def test_a_cut_is_noticed_and_nothing_at_all_is_complete() -> None:
    inflate = Decompressor()
    assert inflate.complete
    assert TEXT.startswith(b"".join(inflate.feed(gzip.compress(TEXT)[:-9])))
    assert not inflate.complete


@pytest.mark.parametrize(
    "lie",
    [TEXT, gzip.compress(TEXT) + b"junk", b"\x1f\x8b\xff\xff"],
    ids=["plain", "junk-after", "head-alone"],
)
def test_a_lie_is_an_error(lie: bytes) -> None:
    with pytest.raises(ValueError, match="rror"):
        list(Decompressor().feed(lie))


def test_a_bomb_comes_in_small_pieces() -> None:
    pieces = Decompressor().feed(gzip.compress(bytes(64 * 1024 * 1024)))
    assert len(next(pieces)) <= MOST_PIECE
    assert len(next(pieces)) <= MOST_PIECE
