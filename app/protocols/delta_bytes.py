"""Where in a frame the characters of its deltas stand, so that exactly these can be starred.

Knows the members in which protocols send text, and how JSON escapes; knows no secret.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

Span = tuple[int, int]
Delta = tuple[str, Sequence[Span]]
"""The text of a delta, and the half-open spans of its characters that are starred."""

TEXT_MEMBERS = frozenset(
    b"text content thinking refusal summary code delta input partial_json arguments args"
    b" reasoning reasoning_content reasoning_text stringValue".split()
)
"""The members whose strings, or strings in arrays, become text of a part in some protocol."""

# A quote in a comment or in the name of an event closes nothing of the next line.
# What has matched is never given back: to remember it costs much memory where there are escapes.
_TOKEN = re.compile(rb'"[^"\\\r\n]*+(?:\\[^\r\n][^"\\\r\n]*+)*+(?:"|\\?(?=[\r\n]|\Z))|[{}]')
_CUT_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_IS_NAME = re.compile(rb"\s*:")
_CHARACTER = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\."
    rb"|[\xc0-\xff][\x80-\xbf]+|.",
    re.DOTALL,
)


@dataclass
class Literal:
    """A JSON string of the frame: bytes `start` to `end` between its quotes."""

    name: bytes
    start: int
    end: int
    text: str


def star_deltas(
    frame: bytes, deltas: Sequence[Delta], members: Collection[bytes] = TEXT_MEMBERS
) -> list[Span]:
    """The bytes of `frame` to be starred for the spans of `deltas`, which are all that its
    `members` bring, in order. A text that stands twice in the frame (reasoning, beside its details)
    is starred in both places."""
    literals = list(text_literals(frame, members))
    unused: dict[str, deque[Literal]] = {}
    for literal in literals:
        unused.setdefault(literal.text, deque()).append(literal)
    strings = deque(literal for literal in literals if literal.name == b"stringValue")
    found: list[Span] = []
    for text, spans in deltas:
        if same := unused.get(text):
            found += bytes_of(frame, same.popleft(), spans)
        elif spans:
            found += _starred_inside(frame, strings, text, spans)
    for text, spans in deltas:
        if spans:
            for literal in unused.pop(text, ()):
                found += bytes_of(frame, literal, spans)
    return sorted(found)


def _starred_inside(
    frame: bytes, strings: deque[Literal], text: str, spans: Sequence[Span]
) -> Iterator[Span]:
    """The same where the delta is no string of the frame: JSON that was put together around one of
    its `strings` (Gemini's `partialArgs`), or the frame's own text for an object."""
    while strings:
        literal = strings.popleft()
        escaped = [json.dumps(char, ensure_ascii=False)[1:-1] for char in literal.text]
        place = text.find("".join(escaped))
        if not escaped or place < 0:
            continue
        inner: list[Span] = []
        for nth, char in enumerate(escaped):
            if any(start < place + len(char) and place < end for start, end in spans):
                inner.append((nth, nth + 1))
            place += len(char)
        yield from bytes_of(frame, literal, inner)
        return
    at = frame.find(text.encode("utf-8", "surrogatepass"))
    if at >= 0:
        for start, end in spans:
            before, upto = (_size(text[:place]) for place in (start, end))
            yield at + before, at + upto


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def text_literals(frame: bytes, members: Collection[bytes] = TEXT_MEMBERS) -> Iterator[Literal]:
    """The strings of `members`, by default those that become text of a part, the last one perhaps
    without its end."""
    names, name = [b""], b""
    for token in _TOKEN.finditer(frame):
        mark = token[0]
        if mark == b"{":
            names.append(name)
        elif mark == b"}":
            name = names.pop() if len(names) > 1 else b""
        elif _IS_NAME.match(frame, token.end()):
            name = text_of(mark).encode("utf-8", "replace") if b"\\" in mark else mark[1:-1]
        elif name not in members:
            continue
        elif len(mark) > 1 and mark.endswith(b'"'):
            yield Literal(name, token.start() + 1, token.end() - 1, text_of(mark))
        else:
            said = _CUT_ESCAPE.sub(b"", mark)
            yield Literal(name, token.start() + 1, token.start() + len(said), text_of(said + b'"'))


def text_of(string: bytes) -> str:
    """What the JSON `string` says, "" where it is none."""
    try:
        text: str = json.loads(string.decode("utf-8", "replace"), strict=False)
    except ValueError:
        return ""
    return text


def bytes_of(frame: bytes, literal: Literal, spans: Sequence[Span]) -> Iterator[Span]:
    """The spans of `frame` in which the characters `spans` of `literal` stand."""
    if not spans:
        return
    wanted = {place for start, end in spans for place in (start, end - 1)}
    found: dict[int, Span] = {}
    count = 0
    for place, character in enumerate(_CHARACTER.finditer(frame, literal.start, literal.end)):
        count = place + 1
        if place in wanted:
            found[place] = character.span()
    if count != len(literal.text):  # its bytes are no UTF-8: rather too much than less
        yield literal.start, literal.end
        return
    for start, end in spans:
        yield found[start][0], found[end - 1][1]
