"""Valid names for tools and servers, made of names in any script and of any length.

Letters of other scripts are transliterated (`anyascii`), so that a name still says what the tool is
for; what is too long is shortened where it does not differ from its siblings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set

from anyascii import anyascii

MAX_NAME = 128
PORTABLE_NAME = 64
"""The length that every provider accepts, in characters."""

_ILLEGAL = re.compile(r"[^A-Za-z0-9_.-]+")
_LEAST_SHARED = 8
"""Siblings have at least so many characters more in common than are cut out."""


def legal_name(text: str) -> str:
    """`text` with letters, digits and `_.-` alone, of any length; "" if nothing of it is left."""
    return _ILLEGAL.sub("_", anyascii(text)).strip("_.-")


def shorten_name(name: str, most: int = MAX_NAME, siblings: Iterable[str] = ()) -> str:
    """At most `most` characters of `name`. A piece in its middle is left out; if the siblings that
    are too long as well begin alike or end alike, a piece of that."""
    missing = len(name) - most + 1  # one more for the "_" in its place
    if missing <= 1:
        return name
    least = missing + _LEAST_SHARED
    longer = [sibling for sibling in siblings if len(sibling) > most and sibling != name]
    alike_before = [sibling for sibling in longer if sibling[:least] == name[:least]]
    alike_behind = [sibling for sibling in longer if sibling[-least:] == name[-least:]]
    start = most // 3
    if alike_before:
        differs = _common_length(name, alike_before)
        word = max(name.rfind(mark, 0, differs) for mark in "_.-") + 1
        start = min(start, (word if word >= missing else differs) - missing)
    elif alike_behind:
        ends = len(name) - _common_length(name[::-1], [other[::-1] for other in alike_behind])
        word = ends + len(re.split(r"[_.-]", name[ends:], maxsplit=1)[0])
        start = max(start, word if word + missing <= len(name) else ends)
    return f"{name[:start].rstrip('_.-')}_{name[start + missing :].lstrip('_.-')}"


def number_name(name: str, used: Set[str]) -> str:
    """`name`, or the first of `name_2`, `name_3` … that is not in `used`. It stays a name that
    every provider accepts if it was one."""
    most = PORTABLE_NAME if len(name) <= PORTABLE_NAME else MAX_NAME
    free, number = name, 2
    while free in used:
        free = f"{shorten_name(name, most - len(f'_{number}'))}_{number}"
        number += 1
    return free


def _common_length(name: str, others: Iterable[str]) -> int:
    """The length of the longest start that `name` has in common with all of `others`."""
    length = len(name)
    for other in others:
        while not other.startswith(name[:length]):
            length -= 1
    return length
