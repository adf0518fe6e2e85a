"""How memory is given back to the system."""

from __future__ import annotations

import ctypes
import sys

LARGE = 1024 * 1024
"""Bytes from which a block is one of its own, which goes back as soon as it is freed."""

_M_MMAP_THRESHOLD = -3


def give_back_large_blocks() -> None:
    """Have the C library give back each large block at once. By itself glibc raises the size from
    which it does so up to 32 MiB, and keeps what is smaller for later: after a large answer that
    was a hundred MiB. Nothing where there is another C library."""
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE)
