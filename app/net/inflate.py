"""Compressed bodies, sans-IO: bytes in, pieces of at most 64 KiB out, so that a bomb can be stopped
between two of them. We ask for no compression; some servers compress all the same.

Knows gzip (RFC 1952) and zlib (RFC 1950); finding 10 of docs/safety.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

PIECE = 64 * 1024
CODINGS = frozenset({"gzip", "x-gzip", "deflate"})
EITHER = 32 + zlib.MAX_WBITS  # gzip or zlib, told apart by their first bytes


class Inflate:
    """One body. `complete` is whether the compressed data came to its own end."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(EITHER)
        self._begun = False

    @property
    def complete(self) -> bool:
        return self._stream.eof or not self._begun

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What `data` unpacks to, piece by piece; ValueError where it is not what it says."""
        while data:
            if self._stream.eof:  # several members may follow one another
                self._stream = zlib.decompressobj(EITHER)
            self._begun = True
            try:
                piece = self._stream.decompress(data, PIECE)
            except zlib.error as error:
                raise ValueError(str(error)) from None
            data = self._stream.unconsumed_tail or self._stream.unused_data
            if piece:
                yield piece
