"""Returns free memory to the system (with glibc; elsewhere a no-op)."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

LARGE_BLOCK = 1024 * 1024
"""Bytes from which a block gets a mapping of its own, which is unmapped as soon as it is freed."""

LARGE_TEXT = 4 * 1024 * 1024
"""Characters of a text whose pieces, once joined, are worth trimming the heap for."""

_M_MMAP_THRESHOLD = -3


def give_back_large_blocks() -> None:
    """Makes glibc unmap each large block when it is freed. By default it raises that threshold up
    to 32 MiB and keeps smaller blocks: a hundred MiB after a large answer."""
    if (mallopt := _function("mallopt")) is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK)


def give_back_free_memory() -> None:
    """Returns free memory between blocks in use to the system; takes some milliseconds."""
    if (trim := _function("malloc_trim")) is not None:
        trim(0)


def _function(name: str) -> Any:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
