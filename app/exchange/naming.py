"""What the file of a session is called, and what may stand in a comment of it."""

from __future__ import annotations

import re


def file_name(title: str, ending: str) -> str:
    """`A title!` -> `a-title.html`: letters, digits and dashes, at most 60 of them."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60].strip("-")
    return f"{words or 'session'}.{ending}"


def one_line(text: str) -> str:
    """`text` without a line break, a control or a direction mark."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def comment_text(text: str) -> str:
    """`text` for a comment or a docstring of a program: one line, with nothing in it that ends
    either. All that comes from a session and stands outside of a literal goes through here."""
    return one_line(text).replace("\\", "/").replace('"', "'")
