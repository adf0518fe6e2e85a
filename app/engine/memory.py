"""Memory is given back to the system where the C library is glibc; elsewhere nothing is done. And
how often is looked for what only refers to itself."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any

LARGE_BLOCK = 1024 * 1024
"""Bytes from which a block is one of its own, which goes back as soon as it is freed."""

LARGE_TEXT = 4 * 1024 * 1024
"""Characters of a text after which what its pieces took is worth giving back."""

OBJECTS = 10_000
"""How many more objects there are before the next look for garbage; by itself Python takes 700."""

_M_MMAP_THRESHOLD = -3


def look_for_garbage_less() -> None:
    """From now on look for cycles of objects after each OBJECTS that came and stayed. The events
    of an answer stay for a while, and have no cycles: with a hundred answers at once a tenth of
    the CPU went into looking through them, and each delta waited for that some time."""
    gc.set_threshold(OBJECTS, *gc.get_threshold()[1:])


def give_back_large_blocks() -> None:
    """From now on give back each large block at once. By itself glibc raises the size from which
    it does so up to 32 MiB, and keeps what is smaller for later: a hundred MiB after a large
    answer."""
    if (mallopt := _function("mallopt")) is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK)


def give_back_free_memory() -> None:
    """Give back what is free between the blocks that are in use; takes some milliseconds."""
    if (trim := _function("malloc_trim")) is not None:
        trim(0)


def _function(name: str) -> Any:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
