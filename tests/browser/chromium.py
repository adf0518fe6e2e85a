"""Which browser the tests use, and how it is started."""

from __future__ import annotations

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str:
    """The browser's program, or "" where there is none."""
    named = os.environ.get("PLAYGROUND_CHROMIUM", "")
    return named or next(filter(None, map(shutil.which, NAMES)), "")
