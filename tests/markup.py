"""HTML in the form in which tests compare it."""

from __future__ import annotations

import re

_TAG = re.compile(r"<[a-z][^<>]*>")


def joined_tags(html: str) -> str:
    """`html` with each of its tags on one line: templates write attributes below each other."""
    return _TAG.sub(lambda tag: " ".join(tag[0].split()).replace(" >", ">"), html)
