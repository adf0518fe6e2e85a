"""What the file of a session is called."""

from __future__ import annotations

import re


def file_name(title: str, ending: str) -> str:
    """`A title!` -> `a-title.html`: letters, digits and dashes, at most 60 of them."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60].strip("-")
    return f"{words or 'session'}.{ending}"
