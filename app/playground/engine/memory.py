"""Returns free memory to the system (with glibc; elsewhere a no-op), and makes the garbage
collector run less often."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any

LARGE_BLOCK = 1024 * 1024
"""Bytes from which a block gets a mapping of its own, which is unmapped as soon as it is freed."""

LARGE_TEXT = 4 * 1024 * 1024
"""Characters of a text whose pieces, once joined, are worth trimming the heap for."""

OBJECTS = 10_000
"""Surviving allocations between two runs of the garbage collector; Python's default is 700."""

_M_MMAP_THRESHOLD = -3


def look_for_garbage_less() -> None:
    """Makes the collector run only after OBJECTS surviving allocations. The events of an answer
    live for a while and have no cycles: with a hundred concurrent answers a tenth of the CPU went
    into traversing them, which delayed each delta."""
    gc.set_threshold(OBJECTS, *gc.get_threshold()[1:])


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
