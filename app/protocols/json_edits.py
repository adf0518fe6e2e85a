"""Changes values in JSON text and leaves every other byte as it is.

Reads the text as `raw_json` does; knows no protocol.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.protocols.raw_json import BLANK, DECODER, skip_blanks

Path = tuple[str | int, ...]

Changes = Mapping[Path, str | None]
"""The JSON text of the new value at a path; None takes the value out of its object or array."""


class _Member(NamedTuple):
    """A member of an object, or an element: `start` is where its name begins (or its value)."""

    key: str | int
    start: int
    value: int
    end: int


def change_json(text: str, changes: Changes) -> str:
    """`text` with these changes: O(len(text)) for each level of the longest path.

    A member that an object does not have is added at its end; of a doubled name both are changed.
    A path that leads nowhere (into a text, beyond the end of an array) changes nothing.
    """
    if () in changes:
        return changes[()] or ""
    start = skip_blanks(text, 0)
    if not changes or text[start : start + 1] not in ("{", "["):
        return text
    is_object = text[start] == "{"
    members = _members(text, start)
    below: dict[str | int, dict[Path, str | None]] = {}
    for path, value in changes.items():
        below.setdefault(path[0], {})[path[1:]] = value
    out: list[str] = []
    if members:
        opening, closing = text[: members[0].start], text[members[-1].end :]
    else:
        end = text.rindex("}" if is_object else "]")
        opening, closing = text[:end], text[end:]
    for nth, member in enumerate(members):
        wanted = below.get(member.key, {})
        if wanted.get((), "") is None:
            continue
        if out:
            out.append(text[members[nth - 1].end : member.start])
        out.append(text[member.start : member.value])
        out.append(change_json(text[member.value : member.end], wanted))
    names = {member.key for member in members}
    between = text[members[-2].end : members[-1].start] if len(members) > 1 else ","
    for key, wanted in below.items():
        added = wanted.get(())
        if key in names or added is None or is_object != isinstance(key, str):
            continue
        if out:
            out.append(between)
        out.append(f"{dumped(key)}:{added}" if isinstance(key, str) else added)
    return "".join([opening, *out, closing])


def _members(text: str, start: int) -> Sequence[_Member]:
    """The members of the object, or the elements of the array, that begins at `start`."""
    members: list[_Member] = []
    is_object = text[start] == "{"
    at = skip_blanks(text, start + 1)
    while text[at] not in "}]":
        key: str | int = len(members)
        begin = at
        if is_object:
            key, at = DECODER.raw_decode(text, at)
            at = skip_blanks(text, skip_blanks(text, at) + 1)
        _, end = DECODER.raw_decode(text, at)
        members.append(_Member(key, begin, at, end))
        at = skip_blanks(text, end)
        if text[at] == ",":
            at = skip_blanks(text, at + 1)
    return members


_LINE_ENDS = {
    ord("\n"): " ",
    ord("\r"): " ",
    0x85: "\\u0085",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}
"""Outside of texts a line end is a blank, inside none can be but the last three."""


def one_line(text: str) -> str:
    """The JSON `text` on one line, whatever takes lines apart: the same value."""
    return text.translate(_LINE_ENDS).strip(BLANK)


def dumped(value: object) -> str:
    """A value as JSON that any line reader keeps whole: no blanks, ASCII alone."""
    return json.dumps(value, separators=(",", ":"))
