"""The forms in which a secret may be echoed, and the search for them in a text or in bytes.

One pass, in C, searches for the first units (characters or bytes) of all forms; only at these
positions are the forms compared, and only the few with that beginning.
"""

from __future__ import annotations

import base64
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, AnyStr, Generic
from urllib.parse import quote, quote_plus

Span = tuple[int, int]

LEVELS = 3
"""Levels of repeated escaping: JSON in JSON in JSON, a URL in a URL."""

BEGUN = 3
"""Units of a beginning: with fewer, ordinary words match; more add little."""

_KEY = 8
"""Units of the key that selects the few forms for a position; no form is shorter."""

LONG = 4096
"""Length in units from which searching for each form separately is faster."""

Begin = Callable[..., re.Match[AnyStr] | None]

CODED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"
"""The digits of both base64 alphabets."""

LINE_END = re.compile(r"([\r\n]+)")

SHORT_LINE = 40
"""Minimum digits of a line of wrapped base64."""

_DIGIT = "[A-Za-z0-9+/_-]"

_BROKEN = {
    end: re.compile(rf"{re.escape(end)}(?<={_DIGIT}{{{SHORT_LINE}}}{re.escape(end)})")
    for end in "\n\r\\"
}
"""The end of a long base64 line; begins with a literal, which is found many times as fast."""

_BREAK = r"(?:\\++r)?\\++n|\r?\n"
_WRAPPED = re.compile(
    rf"(?<![A-Za-z0-9+/_=-]){_DIGIT}{{{SHORT_LINE},}}+(?:(?:{_BREAK})[A-Za-z0-9+/_=-]++)+"
)
_UNBROKEN = re.compile(rf"(?:{_BREAK})?(?P<v>[A-Za-z0-9+/_=-]++)")


class FormSearch(Generic[AnyStr]):
    """Finds `forms`, each of at least 8 units: complete ones in a text, and ones cut by its end.
    `begin(text, start=0)` finds the first units of a form, or as much of them as fits at the end of
    `text`."""

    def __init__(self, forms: Sequence[AnyStr]) -> None:
        self.forms: Sequence[AnyStr] = forms
        self._sorted: Sequence[AnyStr] = sorted(forms)
        self.longest = max(map(len, forms), default=0)
        self._by_key: dict[AnyStr, list[AnyStr]] = {}
        for form in forms:
            self._by_key.setdefault(form[:_KEY], []).append(form)
        self.begin: Begin[AnyStr] = _begin(forms)

    def spans(self, text: AnyStr) -> list[Span]:
        """Every occurrence, including overlapping ones; merged and in order."""
        if len(text) > LONG:
            return merge_spans(_occurrences(text, self.forms))
        if self.begin(text) is None:
            return []
        return merge_spans(
            (place, place + len(form))
            for place in self._begins(text, 0)
            for form in self._by_key.get(text[place : place + _KEY], ())
            if text.startswith(form, place)
        )

    def cut_at(self, text: AnyStr) -> int:
        """Where the longest proper prefix of a form at the end of `text` begins; the length of
        `text` if there is none."""
        for place in self._begins(text, max(0, len(text) + 1 - self.longest)):
            end = text[place:]
            nth = bisect_right(self._sorted, end)
            # In sorted order, a longer form with the prefix `end` comes directly after it.
            if nth < len(self._sorted) and self._sorted[nth].startswith(end):
                return place
        return len(text)

    def _begins(self, text: AnyStr, start: int) -> Iterator[int]:
        match = self.begin(text, start)
        while match is not None:
            yield match.start()
            match = self.begin(text, match.start() + 1)


def _begin(forms: Sequence[AnyStr]) -> Begin[AnyStr]:
    heads = {form[:BEGUN] for form in forms}
    if not heads:
        return _find_nothing
    texts = {head if isinstance(head, str) else head.decode("latin-1") for head in heads}
    pattern: Any = _alternatives(texts)
    of_bytes = isinstance(forms[0], bytes)
    search: Begin[AnyStr]
    search = re.compile(pattern.encode("latin-1") if of_bytes else pattern).search
    return search


def _find_nothing(text: object, start: int = 0) -> None:
    """Finds nothing; a pattern that never matches would try each position."""


def _alternatives(words: Iterable[str]) -> str:
    """A pattern of `words` (of equal length), or of their prefixes at the end of the text; factored
    by first characters, so that most positions cost one comparison."""
    rests: dict[str, set[str]] = {}
    for word in words:
        rests.setdefault(word[0], set()).add(word[1:])
    if not any(chain(*rests.values())):
        return f"[{''.join(map(re.escape, sorted(rests)))}]"
    return "|".join(
        rf"{re.escape(first)}(?:{_alternatives(rest)}|\Z)" for first, rest in sorted(rests.items())
    )


def _occurrences(text: AnyStr, forms: Iterable[AnyStr]) -> Iterator[Span]:
    for form in forms:
        place = text.find(form)
        while place >= 0:
            yield place, place + len(form)
            place = text.find(form, place + 1)


def forms_of(secret: str) -> Iterator[str]:
    """The forms in which `secret` may be echoed."""
    raw = secret.encode("utf-8", "surrogateescape")
    escaped = quoted = {secret}
    yield secret
    for _ in range(LEVELS):
        quoted = {form for text in quoted for form in _url_forms(text)}
        yield from quoted
        escaped = {form for text in escaped for form in _json_forms(text)}
        yield from escaped
        yield from (form.replace("/", "\\/") for form in escaped)
    yield raw.hex()
    yield raw.hex().upper()
    units = secret.encode("utf-16-be", "surrogatepass").hex()
    for digits in (units, units.upper()):
        yield re.sub("....", lambda match: "\\u" + match[0], digits)
    encoders: tuple[Callable[[bytes], bytes], ...] = (base64.b64encode, base64.urlsafe_b64encode)
    for encode in encoders:
        yield encode(raw).decode("ascii").rstrip("=")
        for shift in range(3):
            # In the base64 of a longer text, the characters that depend only on these bytes.
            first, last = -(-shift * 8 // 6), (shift + len(raw)) * 8 // 6
            yield encode(bytes(shift) + raw).decode("ascii")[first:last]


def _url_forms(text: str) -> Iterator[str]:
    raw = text.encode("utf-8", "surrogateescape")
    for encoded in (quote(raw, safe=""), quote(raw), quote_plus(raw)):
        yield encoded
        yield re.sub("%..", lambda match: match[0].lower(), encoded)


def _json_forms(text: str) -> Iterator[str]:
    """Escaped as in a JSON string; the arguments of a call are JSON inside of JSON."""
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]


def merge_spans(*several: Iterable[Span]) -> list[Span]:
    """Sorts half-open spans and merges those that touch or overlap."""
    return list(_iterate_merged(chain(*several)))


def _iterate_merged(spans: Iterable[Span]) -> Iterator[Span]:
    start = end = 0
    for first, last in sorted(spans):
        if first > end:
            if end > start:
                yield start, end
            start = first
        end = max(end, last)
    if end > start:
        yield start, end


def replace_with_stars(text: AnyStr, spans: Sequence[Span], star: AnyStr) -> AnyStr:
    """Replaces each character of `spans`, which are in order, by a star."""
    if not spans:
        return text
    pieces: list[AnyStr] = []
    done = 0
    for start, end in spans:
        pieces += [text[done:start], star * (end - start)]
        done = end
    pieces.append(text[done:])
    return star[:0].join(pieces)


def is_line_broken(text: str) -> bool:
    """Whether a line of `text` ends with what may be a line of base64."""
    return any(end in text and broken.search(text) for end, broken in _BROKEN.items())


def wrapped_base64(text: str) -> Iterator[tuple[str, list[Span]]]:
    """Each stretch of wrapped base64, joined, and the spans of its lines."""
    if not is_line_broken(text):
        return
    for block in _WRAPPED.finditer(text):
        lines = [line.span("v") for line in _UNBROKEN.finditer(text, *block.span())]
        yield "".join(text[start:end] for start, end in lines), lines
