"""Finds the byte spans of text in a frame, so that redaction can star exactly these.

They are the characters of its deltas, and the tokens of its `logprobs` with their alternatives and
the `bytes` that spell them in numbers.

Knows the members in which protocols send text and tokens, and how JSON escapes; knows no secret.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
_CHARACTER = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\."
    rb"|[\xc0-\xff][\x80-\xbf]+|.",
    re.DOTALL,
)


@dataclass
class StringSpan:
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
    unused: dict[str, deque[StringSpan]] = {}
    for literal in literals:
        unused.setdefault(literal.text, deque()).append(literal)
    strings = deque(literal for literal in literals if literal.name == b"stringValue")
    result: list[Span] = []
    for text, spans in deltas:
        if same := unused.get(text):
            result += bytes_of(frame, same.popleft(), spans)
        elif spans:
            result += _starred_inside(frame, strings, text, spans)
    for text, spans in deltas:
        if spans:
            for literal in unused.pop(text, ()):
                result += bytes_of(frame, literal, spans)
    return sorted(result)


def _starred_inside(
    frame: bytes, strings: deque[StringSpan], text: str, spans: Sequence[Span]
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


def text_literals(
    frame: bytes, members: Collection[bytes] = TEXT_MEMBERS, *, broken: bool = False
) -> Iterator[StringSpan]:
    """The strings of `members`, by default those that become text of a part, the last one perhaps
    without its end. Of a `broken` frame also the one in which it ends, whatever its member."""
    names, name = [b""], b""
    for token in _TOKEN.finditer(frame):
        mark = token[0]
        if mark == b"{":
            names.append(name)
        elif mark == b"}":
            name = names.pop() if len(names) > 1 else b""
        elif _IS_NAME.match(frame, token.end()):
            name = text_of(mark).encode("utf-8", "replace") if b"\\" in mark else mark[1:-1]
        elif len(mark) > 1 and mark.endswith(b'"'):
            if name in members:
                yield StringSpan(name, token.start() + 1, token.end() - 1, text_of(mark))
        elif name in members or broken:
            literal = _CUT_ESCAPE.sub(b"", mark)
            yield StringSpan(
                name, token.start() + 1, token.start() + len(literal), text_of(literal + b'"')
            )


def text_of(string: bytes) -> str:
    """What the JSON `string` says, "" where it is none."""
    try:
        text: str = json.loads(string.decode("utf-8", "replace"), strict=False)
    except ValueError:
        return ""
    return text


def bytes_of(frame: bytes, literal: StringSpan, spans: Sequence[Span]) -> Iterator[Span]:
    """The spans of `frame` in which the characters `spans` of `literal` stand."""
    if not spans:
        return
    places = {place for start, end in spans for place in (start, end - 1)}
    span_at: dict[int, Span] = {}
    count = 0
    for place, character in enumerate(_CHARACTER.finditer(frame, literal.start, literal.end)):
        count = place + 1
        if place in places:
            span_at[place] = character.span()
    if count != len(literal.text):  # its bytes are no UTF-8: rather too much than less
        yield literal.start, literal.end
        return
    for start, end in spans:
        yield span_at[start][0], span_at[end - 1][1]


_MARK = re.compile(rb'"[^"\\\r\n]*+(?:\\[^\r\n][^"\\\r\n]*+)*+("?)|[{}\[\]]')
"""A string without an end is read once as a whole: not again from each quote that is in it."""
_BRACKET = re.compile(rb"[{}\[\]]")
_IS_NAME = re.compile(rb"\s*:")

_NAME = re.compile(
    rb'"(?:t|\\u0074)(?:o|\\u006[fF])(?:k|\\u006[bB])(?:e|\\u0065)(?:n|\\u006[eE])"\s*:'
)

_BESIDE = b"top_logprobs"
"""The list of what else might have stood there, in an entry."""
_APART = b"candidates"
"""The same where it stands apart from the entries (Gemini)."""


@dataclass
class TokenSpan:
    """An entry: its text in the frame, the digits of its `bytes`, and its alternatives."""

    literal: StringSpan
    numbers: Span | None = None
    beside: list[TokenSpan] = field(default_factory=list)


@dataclass
class Stars:
    """Spans of a frame to be starred. `quoted` are places of brackets that become quotes, for a
    list of stars would be no JSON."""

    spans: list[Span] = field(default_factory=list)
    quoted: list[int] = field(default_factory=list)

    def add(self, others: Stars, at: int = 0) -> None:
        """Those of a frame that begins at `at`, too."""
        self.spans += [(at + start, at + end) for start, end in others.spans]
        self.quoted += [at + place for place in others.quoted]


@dataclass
class _Open:
    is_list: bool
    name: bytes
    start: int = 0
    token: StringSpan | None = None
    numbers: Span | None = None
    tokens: list[TokenSpan] = field(default_factory=list)
    beside: list[TokenSpan] = field(default_factory=list)


@dataclass
class TokenLists:
    """The lists of entries of a frame, in order, and those that stand `apart` from them."""

    lists: list[list[TokenSpan]] = field(default_factory=list)
    apart: list[TokenSpan] = field(default_factory=list)


def has_tokens(frame: bytes) -> bool:
    """Whether any entry may stand there; most answers have none."""
    return _NAME.search(frame) is not None


def _marks(frame: bytes) -> Iterator[re.Match[bytes]]:
    """The strings and the brackets; those in a string without an end count, for it may be none."""
    for mark in _MARK.finditer(frame):
        if mark[1] == b"":
            yield from _BRACKET.finditer(frame, mark.start(), mark.end())
        else:
            yield mark


def token_lists(frame: bytes) -> TokenLists:
    """What is not closed, for its end never came, counts."""
    result = TokenLists()
    stack, name = [_Open(False, b"")], b""
    for mark in _marks(frame):
        sign, top = mark[0], stack[-1]
        if sign in (b"{", b"["):
            stack.append(_Open(sign == b"[", top.name if top.is_list else name, mark.start()))
        elif sign in (b"}", b"]"):
            if len(stack) > 1:
                _close(stack.pop(), stack[-1], mark.start(), result)
        elif top.is_list:
            continue
        elif _IS_NAME.match(frame, mark.end()):
            name = text_of(sign).encode("utf-8", "replace") if b"\\" in sign else sign[1:-1]
        elif name == b"token":
            top.token = StringSpan(name, mark.start() + 1, mark.end() - 1, text_of(sign))
    while len(stack) > 1:
        _close(stack.pop(), stack[-1], len(frame), result)
    return result


def _close(closed: _Open, above: _Open, end: int, result: TokenLists) -> None:
    if not closed.is_list:
        if closed.token is not None:
            above.tokens.append(TokenSpan(closed.token, closed.numbers, closed.beside))
    elif closed.name == b"bytes":
        above.numbers = (closed.start + 1, end)
    elif closed.name == _BESIDE:
        above.beside = closed.tokens
    elif closed.name == _APART:
        result.apart += closed.tokens
    elif closed.tokens:
        result.lists.append(closed.tokens)


def star_tokens(frame: bytes, deltas: Sequence[Delta]) -> Stars:
    """What of `frame` is starred for the spans of `deltas`, which are the texts of all entries in
    their order."""
    result = token_lists(frame)
    unused: dict[str, deque[TokenSpan]] = {}
    for token in (token for tokens in result.lists for token in tokens):
        unused.setdefault(token.literal.text, deque()).append(token)
    pairs = []
    for text, spans in deltas:
        if same := unused.get(text):
            pairs.append((same.popleft(), spans))
    return starred_tokens(frame, pairs, result.apart)


def starred_tokens(
    frame: bytes,
    tokens: Iterable[tuple[TokenSpan, Sequence[Span]]],
    apart: Sequence[TokenSpan] = (),
) -> Stars:
    """What of `frame` is starred where of each token these characters are."""
    stars = Stars()
    for token, spans in tokens:
        if spans:
            for occurrence in (token, *_alike(token, token.beside), *_alike(token, apart)):
                stars.spans += bytes_of(frame, occurrence.literal, spans)
                if occurrence.numbers is not None and occurrence.numbers[0] < occurrence.numbers[1]:
                    stars.spans.append(occurrence.numbers)
                    stars.quoted += [occurrence.numbers[0] - 1, occurrence.numbers[1]]
    return stars


def _alike(token: TokenSpan, others: Iterable[TokenSpan]) -> Iterator[TokenSpan]:
    return (candidate for candidate in others if candidate.literal.text == token.literal.text)


def texts_of(entries: Any) -> list[str]:
    """The texts of the entries that have one."""
    if not isinstance(entries, list):
        return []
    texts = (entry.get("token") for entry in entries if isinstance(entry, dict))
    return [text for text in texts if text and isinstance(text, str)]


def with_texts(entries: Sequence[Any], texts: Iterable[str]) -> list[Any]:
    """The entries with these texts, which are their own but for stars."""
    left, result = iter(texts), []
    for entry in entries:
        text = entry.get("token") if isinstance(entry, dict) else None
        if text and isinstance(text, str) and (new := next(left, text)) != text:
            entry = _with_text(entry, text, new)
            beside = entry.get("top_logprobs")
            if isinstance(beside, list):
                entry["top_logprobs"] = [
                    _with_text(item, text, new)
                    if isinstance(item, dict) and item.get("token") == text
                    else item
                    for item in beside
                ]
        result.append(entry)
    return result


def _with_text(entry: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    result = {**entry, "token": new}
    if isinstance(entry.get("bytes"), list) and entry["bytes"]:
        result["bytes"] = "*" * len(old)
    return result
