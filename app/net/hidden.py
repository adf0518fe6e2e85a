"""Keeps what this process knows from other programs of the same user: on Linux its memory and its
environment, which has keys in it, can then be read by root alone. Threat 16 of docs/safety.md.
"""

from __future__ import annotations

import ctypes
import sys

PR_SET_DUMPABLE = 4


def hide() -> None:
    """From now on. What is started from here is as open as ever, and is given no key."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
