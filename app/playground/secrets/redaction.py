"""Redaction of known secrets: stars of the same length, so that spans over the bytes stay valid.

A byte is redacted exactly if it is part of an occurrence of a secret's form (literal, URL-encoded,
JSON-escaped minimally or completely, up to three nested levels of either, base64 at any alignment,
hexadecimal), or if a stream ended inside one. So the result is independent of how a stream is cut.
Text that is not streamed is also searched with its JSON escapes undone, so that it does not matter
which characters of a secret are escaped. Knows no keys and no files; threat 16 of docs/safety.md.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, AnyStr, Generic

from playground.secrets.forms import (
    BEGUN,
    CODED,
    LEVELS,
    LINE_END,
    LONG,
    SHORT_LINE,
    Begin,
    FormSearch,
    Span,
    forms_of,
    is_line_broken,
    merge_spans,
    replace_with_stars,
    wrapped_base64,
)

SHORTEST = 8
"""Characters; redacting anything shorter would blank ordinary words."""

_MOST = 0.75
"""This fraction of a secret counts as the whole secret."""

_WORD = re.compile("[A-Za-z]{1,15}")
"""A key that is a plain word, as local servers accept."""

HEAD = 4
"""Characters that count as the beginning of a secret: fewer begin ordinary words."""

_PIECE = 64 * 1024
"""Characters of a text that are unescaped at once: a position is stored for each escape in them."""

_ODD_ESCAPE = re.compile(r"\\u00[2-7][0-9a-fA-F]|\\/")
"""An escape of a character that needs none: `json.dumps` never writes it."""

_LAST = HEAD * 6**LEVELS
"""Most characters of a form's escaped head: six per escape, at each level."""

_ESCAPE = re.compile(r'(\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt]))')
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")

_HALF = re.compile(r"\\u[dD][89abAB]")
"""`json` joins two surrogates into one character."""

_JSON = json.JSONDecoder(strict=False)
_STAND_INS = ("\0", "\1", r"\u0000", r"\u0001")
_MEANS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class Redactor:
    """Redacts those of `secrets` with at least 8 characters. Its repr shows none of them."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {secret for secret in secrets if len(secret) >= SHORTEST}
        self._texts = sorted({form for secret in known for form in forms_of(secret)})
        self._known = known

    def __repr__(self) -> str:
        return f"Redactor({len(self._texts)} forms)"

    @property
    def knows_any(self) -> bool:
        """Whether it has any secret to search for."""
        return bool(self._texts)

    def redact_text(self, text: str) -> str:
        return replace_with_stars(text, self.spans(text), "*")

    def redact_bytes(self, data: bytes) -> bytes:
        return replace_with_stars(data, self.byte_spans(data), b"*")

    def byte_spans(self, data: bytes) -> list[Span]:
        """The half-open masked spans of `data`, in order."""
        spans = merge_spans(self._byte_search.spans(data), self.escaped_spans(data))
        return merge_spans(spans, self._wrapped_spans(data.decode("latin-1")))

    def spans(self, text: str) -> list[Span]:
        """The half-open masked spans of `text`, in order."""
        spans = merge_spans(self._text_search.spans(text), self._wrapped_spans(text))
        if not self._texts or _ODD_ESCAPE.search(text) is None:
            return spans
        return merge_spans(spans, self._escaped_text_spans(text))

    def escaped_spans(self, data: bytes | bytearray) -> list[Span]:
        """The spans of `data` that are a secret once JSON escapes are undone."""
        if not self._texts or b"\\" not in data:
            return []
        text = data.decode("latin-1")
        return self._escaped_text_spans(text) if _ODD_ESCAPE.search(text) else []

    def redact_data(self, value: Any) -> Any:
        """A copy of JSON data of any depth with all strings masked, including names."""
        box = [value]
        unread: list[Any] = [box]
        while unread:
            holder = unread.pop()
            places = list(holder.items() if isinstance(holder, dict) else enumerate(holder))
            for place, item in places:
                match item:
                    case str():
                        holder[place] = self.redact_text(item)
                    case Mapping():
                        holder[place] = {self._name(name): it for name, it in item.items()}
                        unread.append(holder[place])
                    case list() | tuple():
                        holder[place] = list(item)
                        unread.append(holder[place])
        return box[0]

    def holds(self, value: Any) -> bool:
        """Whether JSON data of any depth has a secret in one of its strings or names.

        Ignores keys that are plain words (local servers accept any): such words occur innocently.
        """
        unread: list[Any] = [value]
        while unread:
            match unread.pop():
                case str() as text:
                    if self._odd_redactor.spans(text):
                        return True
                case Mapping() as names:
                    unread += [*names.keys(), *names.values()]
                case list() | tuple() as items:
                    unread += items
        return False

    def redact_stream(self, *, decoded: bool = False) -> RedactionStream[bytes]:
        """`decoded`: the bytes are JSON that is decoded and masked again. Forms with unnecessary
        escapes are left to that step, which knows how many characters they are."""
        return RedactionStream(self._json_search if decoded else self._byte_search, b"*")

    def redact_texts(self) -> RedactionStream[str]:
        """The same for texts, cut at any position."""
        return RedactionStream(self._text_search, "*")

    @cached_property
    def _odd_redactor(self) -> Redactor:
        odd = {secret for secret in self._known if not _WORD.fullmatch(secret)}
        return self if len(odd) == len(self._known) else Redactor(odd)

    # Created on first use; most redactors process no stream.
    @cached_property
    def _text_search(self) -> FormSearch[str]:
        return FormSearch(self._texts)

    @cached_property
    def _byte_search(self) -> FormSearch[bytes]:
        return FormSearch(list(map(_encode, self._texts)))

    @cached_property
    def _json_search(self) -> FormSearch[bytes]:
        plain = (text for text in self._texts if _ODD_ESCAPE.search(text) is None)
        return FormSearch(list(map(_encode, plain)))

    def _wrapped_spans(self, text: str) -> Iterator[Span]:
        """The secret spans in wrapped base64, without the line breaks."""
        for whole, lines in wrapped_base64(text) if self._texts else ():
            done, spans = 0, self._text_search.spans(whole)
            for start, end in lines:
                size = end - start
                yield from (
                    (start + max(first - done, 0), start + min(last - done, size))
                    for first, last in spans
                    if first < done + size and last > done
                )
                done += size

    def _escaped_text_spans(self, text: str) -> list[Span]:
        """The secret spans after one or more levels of escapes are undone, from the first backslash
        of each. Processes long text in pieces, each with the end of the one before."""
        spans: list[Span] = []
        levels: list[Unescaper] = []
        ends = [""]  # of each level: may begin a form
        for start in range(0, len(text), _PIECE):
            piece = text[start : start + _PIECE]
            is_last, size = start + _PIECE >= len(text), start + len(piece)
            for nth in range(LEVELS + 1):
                seen = ends[nth] + piece
                if nth:
                    size = levels[nth - 1].size
                    at = size - len(seen)
                    for first, last in self._text_search.spans(seen):
                        spans.append(_places(levels[:nth], at + first, at + last))
                if nth == len(levels) < LEVELS and "\\" in piece:
                    levels.append(Unescaper(size - len(piece)))
                    ends.append(ends[nth])
                ends[nth] = seen[1 - self._text_search.longest :]
                if nth == len(levels):
                    break
                piece = levels[nth].feed(piece) + (levels[nth].end() if is_last else "")
            for nth, level in enumerate(reversed(levels), LEVELS - len(levels)):
                # Each character may be an escape of 6 characters.
                level.forget((self._text_search.longest + 1) * 6**nth)
        return merge_spans(spans)

    def _name(self, name: Any) -> Any:
        return self.redact_text(name) if isinstance(name, str) else name


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


class RedactionStream(Generic[AnyStr]):
    """One stream of bytes or of texts, cut at any position.

    `feed` returns what is decided: it holds back only an end that may begin a secret, which is
    shorter than the longest form. `ranges` are the masked half-open spans of all that was returned,
    counted from the beginning of the stream; `returned` is its size; `held` is what is held back,
    of which the first `covered` units will certainly be masked.
    """

    def __init__(self, forms: FormSearch[AnyStr], star: AnyStr) -> None:
        self.ranges: list[Span] = []
        self.returned = 0
        self.held: AnyStr = star[:0]
        self.covered = 0  # units of a secret that began earlier
        self._forms: FormSearch[AnyStr] = forms
        self._begin: Begin[AnyStr] = forms.begin
        self._star: AnyStr = star

    @property
    def longest(self) -> int:
        """The length of the longest form, in units."""
        return self._forms.longest

    def copy(self) -> RedactionStream[AnyStr]:
        """A stream that continues from here, with `ranges` of its own."""
        other = copy(self)
        other.ranges = []
        return other

    def feed(self, data: AnyStr) -> AnyStr:
        buffer = self.held + data if self.held else data
        if not self.covered and len(buffer) <= LONG:
            beginning = self._begin(buffer)
            upto = len(buffer) if beginning is None else beginning.start()
            if len(buffer) - upto < BEGUN:
                # Contains no complete form, and only this one can have begun.
                self.held = buffer[upto:]
                self.returned += upto
                return buffer[:upto]
        return self._release(buffer, self._forms.cut_at(buffer))

    def end(self, *, whole: bool = False) -> AnyStr:
        """Returns what was held back. Most of a secret is secret too: a beginning of 8 characters
        is masked, because the rest may have been cut off. `whole`: it was not cut off, so less than
        three quarters of a form only begins like a secret."""
        last = self.held
        size = self._longest_begun() if whole else len(last)
        if size < SHORTEST:
            return self._release(last, len(last))
        released = self._release(last, len(last) - size) if size < len(last) else last[:0]
        self.covered = size
        return released + self._release(self.held, len(self.held))

    def _longest_begun(self) -> int:
        """The length of the longest end of `held` that is most of a form."""
        longest = 0
        for form in self._forms.forms:
            least = max(SHORTEST, longest + 1, math.ceil(len(form) * _MOST))
            for size in range(min(len(form) - 1, len(self.held)), least - 1, -1):
                if self.held.endswith(form[:size]):
                    longest = size
                    break
        return longest

    def _release(self, buffer: AnyStr, upto: int) -> AnyStr:
        if upto == 0:
            self.held = buffer
            return self._star[:0]
        spans: list[Span] = merge_spans([(0, self.covered)], self._forms.spans(buffer))
        certain = [(start, min(end, upto)) for start, end in spans if start < upto]
        for start, end in certain:
            self._add_range(self.returned + start, self.returned + end)
        # Forms that begin later will be found again in `held`; earlier ones would not.
        self.covered = max([0, *(end - upto for start, end in spans if start < upto)])
        self.held = buffer[upto:]
        self.returned += upto
        return replace_with_stars(buffer[:upto], certain, self._star)

    def _add_range(self, start: int, end: int) -> None:
        if self.ranges and self.ranges[-1][1] == start:
            start = self.ranges.pop()[0]
        self.ranges.append((start, end))


def _places(levels: Sequence[Unescaper], start: int, end: int) -> Span:
    """Maps a span of the output of the last of `levels` to the input of the first one."""
    for level in reversed(levels):
        start, end = level.place(start), level.place(end)
    return start, end


# One part of an answer, whose text arrives in pieces ----------------------------------------------


class PartRedactor:
    """Determines which characters of a part's text are in a known secret, or may be, so that they
    are not shown before that is decided. Searches the text as it is, and with up to three levels of
    JSON escapes undone: arguments are JSON, where a secret may be escaped character by character.
    Positions count characters of the part's text."""

    def __init__(self, redactor: Redactor) -> None:
        self.size = 0
        self._looks = redactor.knows_any
        self._as_it_is = _GrowingText(redactor)
        self._unescaped: list[_Level] = []  # each from the first backslash of the one before

    @property
    def undecided(self) -> int | None:
        """The position of the first possible secret of which 4 or more characters have arrived."""
        first = self._as_it_is.undecided
        for nth, level in enumerate(self._unescaped):
            if level.reading.undecided is not None:
                place = self._place(nth, level.reading.undecided)
                first = place if first is None else min(first, place)
        return first

    @property
    def has_secrets(self) -> bool:
        if self._as_it_is.spans.all:
            return True
        return bool(self._unescaped) and any(level.spans.all for level in self._unescaped)

    def feed(self, text: str) -> None:
        self.size += len(text)
        if self._unescaped or "\\" in text:
            for start in range(0, len(text) if self._looks else 0, _PIECE):
                self._feed(text[start : start + _PIECE])
        elif self._looks:
            self._as_it_is.feed(text)

    def end(self, *, whole: bool) -> Span | None:
        """Decides everything at the end of the part. `whole`: the part is complete; otherwise a
        cut-off secret is masked from 8 characters on. Returns the span of a secret without its
        end."""
        begun = self.undecided is not None
        self._as_it_is.end(whole=whole)
        for nth, level in enumerate(self._unescaped):
            level.reading.end(whole=whole)  # an incomplete escape has no meaning
            self._take(nth, level)
        last = merge_spans(*(spans.all[-1:] for spans in self._all_spans()))[-1:]
        return last[0] if begun and last and last[0][1] == self.size else None

    def spans(self, start: int, end: int) -> list[Span]:
        """The masked spans of the characters `start` to `end`, counted from `start`."""
        merged = merge_spans(*(spans.inside(start, end) for spans in self._all_spans()))
        return [(first - start, last - start) for first, last in merged]

    def mask(self, start: int, text: str) -> str:
        """`text`, the part's characters from `start` on, with stars."""
        return replace_with_stars(text, self.spans(start, start + len(text)), "*")

    def _all_spans(self) -> Iterator[_Spans]:
        yield self._as_it_is.spans
        yield from (level.spans for level in self._unescaped)

    def _feed(self, text: str) -> None:
        reading = self._as_it_is
        for nth in range(LEVELS + 1):
            if nth == len(self._unescaped) and nth < LEVELS and "\\" in text:
                unescaper = Unescaper(reading.size)
                self._unescaped.append(_Level(unescaper, reading.copy(), _Spans()))
            reading.feed(text)
            if nth:
                self._take(nth - 1, self._unescaped[nth - 1])
            if nth == len(self._unescaped):
                break
            reading, text = self._unescaped[nth].reading, self._unescaped[nth].unescaper.feed(text)
        if all(level.reading.idle for level in self._unescaped):
            for level in self._unescaped:
                level.unescaper.forget(_LAST)

    def _take(self, nth: int, level: _Level) -> None:
        for start, end in level.reading.spans.all:
            level.spans.add(self._place(nth, start), self._place(nth, end))
        level.reading.spans.all.clear()

    def _place(self, nth: int, place: int) -> int:
        """The position in the part's text of character `place` of level `nth`."""
        for level in reversed(self._unescaped[: nth + 1]):
            place = level.unescaper.place(place)
        return place


@dataclass
class _Level:
    """The text after one more level of unescaping; `spans` are positions in the part."""

    unescaper: Unescaper
    reading: _GrowingText
    spans: _Spans


class _GrowingText:
    """A growing text: its secrets, and possible ones."""

    def __init__(self, redactor: Redactor) -> None:
        self.spans = _Spans()
        self.undecided: int | None = None
        self._redactor = redactor
        self._stream = redactor.redact_texts()
        self._line = ""  # the end of the text if it may be a line of base64
        self._joined: _JoinedLines | None = None

    @property
    def size(self) -> int:
        return self._stream.returned + len(self._stream.held)

    @property
    def idle(self) -> bool:
        """Whether what is held back is too short to begin a secret."""
        return len(self._stream.held) < HEAD and self._joined is None

    def copy(self) -> _GrowingText:
        other = copy(self)
        other.spans, other._stream = _Spans(), self._stream.copy()
        other._joined = self._joined and self._joined.copy()
        return other

    def feed(self, text: str) -> None:
        stream = self._stream
        stream.feed(text)
        if self._joined is not None:
            self._joined.feed(text)
        elif len(text) + len(self._line) > SHORT_LINE and is_line_broken(self._line + text):
            self._joined = _JoinedLines(self._redactor, self.size - len(self._line + text))
            self._joined.feed(self._line + text)
        if before_line := text.rstrip(CODED):
            self._line = text[len(before_line) :]
        else:
            self._line += text
        if len(self._line) > LONG:
            self._line = self._line[-max(LONG // 2, stream.longest) :]
        is_plain = len(stream.held) < HEAD and not stream.covered and not stream.ranges
        is_plain = is_plain and self._joined is None
        if not is_plain or self.undecided is not None:
            self._take()

    def end(self, *, whole: bool) -> None:
        self._stream.end(whole=whole)
        if self._joined is not None:
            self._joined.stream.end(whole=whole)
        self._take()

    def _take(self) -> None:
        spans, undecided = _new_spans(self._stream)
        if (joined := self._joined) is not None:
            more, open_from = joined.new_spans()
            spans = merge_spans(spans, more)
            places = [place for place in (undecided, open_from) if place is not None]
            undecided = min(places, default=None)
            if open_from is None and len(joined.stream.held) <= len(self._line):
                self._joined = None  # a possible beginning is searched again at the next line end
        self.undecided = undecided
        for start, end in spans:
            self.spans.add(start, end)


def _new_spans(stream: RedactionStream[str]) -> tuple[list[Span], int | None]:
    """The newly masked spans of `stream`, and where the undecided rest begins."""
    decided = stream.returned + stream.covered
    spans = merge_spans(stream.ranges, [(stream.returned, decided)])
    stream.ranges.clear()
    is_open = len(stream.held) >= HEAD and decided < stream.returned + len(stream.held)
    return spans, decided if is_open else None


class _JoinedLines:
    """The text of a part from character `start` on without line ends: wrapped base64. Positions are
    those in the part's text."""

    def __init__(self, redactor: Redactor, start: int) -> None:
        self.stream = redactor.redact_texts()
        self._size = start  # characters of the text that were read
        self._from: list[int] = [0]  # positions in the joined text
        self._shifts: list[int] = [start]  # from there, its offset in the text

    def copy(self) -> _JoinedLines:
        other = copy(self)
        other.stream = self.stream.copy()
        other._from, other._shifts = self._from[:], self._shifts[:]
        return other

    def feed(self, text: str) -> None:
        joined = self._size - self._shifts[-1]
        for nth, line in enumerate(LINE_END.split(text)):
            if nth % 2:
                self._from.append(joined)
                self._shifts.append(self._shifts[-1] + len(line))
            else:
                joined += len(line)
                self.stream.feed(line)
        self._size += len(text)

    def new_spans(self) -> tuple[list[Span], int | None]:
        """The newly masked spans, line by line, and where the undecided rest begins."""
        spans, undecided = _new_spans(self.stream)
        lines = [line for start, end in spans for line in self._lines(start, end)]
        return lines, None if undecided is None else self._place(undecided)

    def _lines(self, start: int, end: int) -> Iterator[Span]:
        inner = self._from[bisect_right(self._from, start) : bisect_left(self._from, end)]
        for first, last in pairwise([start, *inner, end]):
            place = self._place(first)
            yield place, place + last - first

    def _place(self, index: int) -> int:
        return index + self._shifts[bisect_right(self._from, index) - 1]


class _Spans:
    """Half-open spans in order; those that touch are merged."""

    def __init__(self) -> None:
        self.all: list[Span] = []

    def add(self, start: int, end: int) -> None:
        """Adds in any order: possible base64 is searched again at the next line end."""
        later = list[Span]()
        while self.all and self.all[-1][0] > start:
            later.append(self.all.pop())
        for span in ((start, end), *reversed(later)):
            if self.all and span[0] <= self.all[-1][1]:
                first, last = self.all.pop()
                span = first, max(last, span[1])
            self.all.append(span)

    def inside(self, start: int, end: int) -> list[Span]:
        inner: list[Span] = []
        nth = max(0, bisect_right(self.all, (start, end)) - 1)
        while nth < len(self.all) and self.all[nth][0] < end:
            first, last = max(start, self.all[nth][0]), min(end, self.all[nth][1])
            if first < last:
                inner.append((first, last))
            nth += 1
        return inner


# Undoes JSON escapes and maps positions back ------------------------------------------------------


class Unescaper:
    """Undoes JSON escapes in a text cut at any position; everywhere, because it need not be known
    which parts are JSON strings. `offset` is the position of the first piece in the whole text.
    Positions are rarely mapped, so pieces with escapes are stored and parsed again for that."""

    def __init__(self, offset: int = 0) -> None:
        self._cut = ""  # an escape whose rest has not arrived
        self._read = offset  # characters of the text consumed
        self._written = offset  # characters returned, counted from the same position
        # The pieces with escapes, and the counts read and written before each.
        self._pieces: list[str] = []
        self._reads: list[int] = []
        self._starts: list[int] = []
        self._looked_at = -1  # the piece mapped last
        # Output from character `_from[n]` on is `_shifts[n]` further in the text.
        self._from: list[int] = []
        self._shifts: list[int] = []

    @property
    def size(self) -> int:
        """The number of characters returned, plus `offset`."""
        return self._written

    def feed(self, text: str) -> str:
        """The next piece without its escapes; an incomplete escape waits for its rest."""
        if "\\" not in text and not self._cut:
            self._read += len(text)
            self._written += len(text)
            return text
        return "".join(self._feed(piece) for piece in _split_pieces(text))

    def end(self) -> str:
        """The incomplete escape, unchanged."""
        rest, self._cut = self._cut, ""
        self._written += len(rest)
        self._read += len(rest)
        return rest

    def place(self, index: int) -> int:
        """The position in the text of character `index` of the output."""
        nth = bisect_right(self._starts, index) - 1
        if nth < 0:
            return index
        if nth != self._looked_at:
            self._index_piece(nth)
        place = bisect_right(self._from, index) - 1
        before = self._reads[nth] - self._starts[nth]
        return index + (self._shifts[place] if place >= 0 else before)

    def forget(self, keep: int) -> None:
        """Drops data for positions before the last `keep` characters of the output."""
        unused = bisect_right(self._starts, self._written - keep) - 1
        if unused > 0:
            del self._pieces[:unused], self._reads[:unused], self._starts[:unused]
            self._looked_at, self._from, self._shifts = -1, [], []

    def _feed(self, text: str) -> str:
        text = self._cut + text
        size = _size_before_cut(text)
        text, self._cut = text[:size], text[size:]
        undone = text
        if "\\" in text:
            quickly = _unescape_by_json(text)
            undone = _unescape_text(text) if quickly is None else quickly
        if len(undone) < len(text):
            self._pieces.append(text)
            self._reads.append(self._read)
            self._starts.append(self._written)
        self._read += len(text)
        self._written += len(undone)
        return undone

    def _index_piece(self, nth: int) -> None:
        self._looked_at, self._from, self._shifts = nth, [], []
        shift, first = self._reads[nth] - self._starts[nth], self._reads[nth]
        for escape in _ESCAPE.finditer(self._pieces[nth]):
            self._from.append(first + escape.start() - shift + 1)
            shift += escape.end() - escape.start() - 1
            self._shifts.append(shift)


def _split_pieces(text: str) -> Iterator[str]:
    return (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))


def _size_before_cut(text: str) -> int:
    """The position of an incomplete escape at the end; a backslash after another is escaped."""
    cut = _CUT_ESCAPE.search(text, max(0, len(text) - 5))
    if cut is None:
        return len(text)
    before = text[: cut.start() + 1]
    is_escape = (len(before) - len(before.rstrip("\\"))) % 2
    return cut.start() if is_escape else len(text)


def _unescape_text(text: str) -> str:
    pieces = _ESCAPE.split(text)
    pieces[1::2] = map(_unescape, pieces[1::2])
    return "".join(pieces)


def _unescape_by_json(text: str) -> str | None:
    """The same by `json`, if it can parse the text as one string: two characters that the text does
    not contain, not even escaped, replace its quotes and its literal backslashes."""
    if _HALF.search(text) or any(mark in text for mark in _STAND_INS):
        return None
    text = text.replace(r"\\", "\0").replace(r"\"", '"').replace('"', "\1")
    try:
        undone: str = _JSON.decode(f'"{text}"')
    except ValueError:  # a backslash that begins no escape
        return None
    return undone.replace("\1", '"').replace("\0", "\\")


@lru_cache(maxsize=2**14)
def _unescape(escape: str) -> str:
    return chr(int(escape[2:], 16)) if escape[1] == "u" else _MEANS.get(escape[1], escape[1])
