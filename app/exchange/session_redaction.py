"""Redacts a session before it leaves: known secrets, what looks like one, what is left out.

Secrets become stars of the same length in the log, the recordings, the title and the tags; `omit`
leaves out recordings, results, thinking or images. Pure. Threats 16 and 30 of docs/safety.md.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import AnyStr
from urllib.parse import unquote

from app.core.errors import BadInput
from app.core.events import (
    CallDecided,
    CallEnded,
    CallProgressed,
    Event,
    Logged,
    PartDelta,
    PartEnded,
    PartStarted,
    PromptAdded,
    RequestSent,
    ResponseEnded,
    ResponseFailed,
    ResponseStarted,
    SessionStarted,
    SettingsChanged,
    TaskEnded,
)
from app.core.reducer import fold
from app.core.serialization import with_texts
from app.core.tools import Content, ToolResult
from app.exchange.bundle import RecordedChunk, Recording, SessionBundle
from app.protocols.frame_spans import Delta, star_deltas
from app.secrets.patterns import find_keys, is_long_opaque, is_opaque, is_secret
from app.secrets.redaction import SHORTEST, Redactor

_OWN = frozenset(
    ("protocol", "method", "call_id", "task_id", "reopened", "limit", "code", "digest")
)
"""Fields of our events whose values are this program's own words. A key of an object that somebody
else wrote may be called the same, and is looked at."""

_ANYTHING = ("code", "key")
"""Names that data give to all sorts of things: of these only known makes are secrets."""

_BLOCK = 1024


@dataclass(frozen=True)
class Redaction:
    """So many stretches are stars at the place `where`, in words."""

    where: str
    count: int


@dataclass(frozen=True)
class RedactedBundle:
    kept: SessionBundle
    marks: Sequence[Redaction] = ()


def redact_session(
    bundle: SessionBundle, secrets: Collection[str], *, shapes: bool = True
) -> RedactedBundle:
    """Redacts `bundle`: known `secrets` and, with `shapes`, whatever looks like one.

    Applying it twice changes nothing.
    """
    known = Redactor([*secrets, *(_secret_values(bundle) if shapes else ())])
    return _SessionRedactor(bundle, known, shapes).done()


def _secret_values(bundle: SessionBundle) -> set[str]:
    """The values that are looked for everywhere: keys of known makes, and what looks like a secret
    and is long enough to stand nowhere by chance. What the session is made of is none of them."""
    found: set[str] = set()
    sure: set[str] = set()
    seen: set[str] = set()

    def look(name: str, text: str) -> str:
        places = _by_name(name, text)
        found.update(
            candidate
            for candidate in (text[start:end] for start, end in places)
            if is_long_opaque(candidate)
        )
        if text not in seen:
            seen.add(text)
            for candidate in chain([text], decoded_texts(text)):
                sure.update(candidate[start:end] for start, end in certain_spans(candidate))
                maybe = (candidate[start:end] for start, end in secret_spans(candidate))
                found.update(value for value in maybe if is_long_opaque(value))
        return text

    for logged in bundle.log:
        if not isinstance(logged.event, PartDelta):  # of which the whole is looked at, below
            with_texts(type(logged.event), logged.event, look, left=_OWN)
    streamed = _streams(bundle.log).values()
    joined = ("".join(_chunk_text(candidate) for candidate in part) for part in streamed)
    answers = (recording.data.decode("latin-1") for recording in bundle.recordings.values())
    for text in (bundle.title, *bundle.tags, *joined, *answers):
        look("", text)
    ours = _own_words(bundle)
    found = {
        candidate
        for candidate in found
        if not any(word in candidate or candidate in word for word in ours)
    }
    return {
        candidate
        for candidate in found | sure
        if len(candidate) >= SHORTEST and candidate.strip("*")
    }


def _own_words(bundle: SessionBundle) -> set[str]:
    """The names and hosts that the session's settings and requests need to be read again."""
    words: set[str] = set()
    for _, item in bundle.session.settings_at:
        profile = item.profile
        words |= {item.model, profile.model, profile.name, _host(profile.base_url)}
        words |= {tool.name for tool in item.tools}
    sent = (logged.event for logged in bundle.log)
    words |= {_host(item.url) for item in sent if isinstance(item, RequestSent)}
    return {word for word in words if len(word) >= SHORTEST}


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2]


def _by_name(name: str, text: str) -> list[Span]:
    return [] if name.lower() in _ANYTHING else header_spans(name, text)


@dataclass
class _SessionRedactor:
    """One pass over all that is kept."""

    kept: SessionBundle
    known: Redactor
    shapes: bool
    done_before: dict[str, str] = field(default_factory=dict)

    def done(self) -> RedactedBundle:
        kept, marks = self.kept, []
        streamed = self._streamed()
        log, turn, prompts = [], 0, 0
        for logged in kept.log:
            turn += isinstance(logged.event, RequestSent)
            prompts += isinstance(logged.event, PromptAdded)
            where = _where(logged.event, turn, prompts)
            counts = [0]
            event = streamed.get(logged.seq, logged.event)
            if isinstance(event, CallProgressed):
                counts[0] += _changes(_chunk_text(logged), event.output)
            if not isinstance(event, PartDelta):
                event = self._event(event, counts)
            log.append(logged if event is logged.event else replace(logged, event=event))
            marks.append(Redaction(where, counts[0]))
        recordings = {}
        frames = _frame_deltas(kept.log, streamed)
        for number, recording in kept.recordings.items():
            recordings[number], count = self._recording(recording, frames.get(recording.number, {}))
            marks.append(Redaction(f"bytes of answer {number}", count))
        title, tags = self._text("", kept.title), [self._text("", tag) for tag in kept.tags]
        marks += [Redaction("title", _changes(kept.title, title))]
        marks += [Redaction("tags", _changes(*pair)) for pair in zip(kept.tags, tags, strict=True)]
        session = fold(kept.session.id, log)
        masked = replace(
            kept, session=session, title=title, log=log, recordings=recordings, tags=tuple(tags)
        )
        return RedactedBundle(masked, _sum_redactions(marks))

    def _event(self, event: Event, counts: list[int]) -> Event:
        def change(name: str, text: str) -> str:
            masked = self._text(name, text)
            counts[0] += _changes(text, masked)
            return text if masked == text else masked

        changed: Event = with_texts(type(event), event, change, left=_OWN)
        return changed

    def _text(self, name: str, text: str) -> str:
        masked = self.done_before.get(text)
        if masked is None:
            masked = self.known.redact_text(text)
            masked = _replace_spans(masked, _wrapped_spans(masked, self.known), "*")
            masked = _replace_spans(masked, secret_spans(masked) if self.shapes else (), "*")
            self.done_before[text] = masked
        return _replace_spans(masked, _by_name(name, masked) if self.shapes else (), "*")

    def _streamed(self) -> dict[int, PartDelta | CallProgressed]:
        """The pieces of an answer, or of what a call printed, that a secret goes through, by seq:
        whole it shows only in the text that they make together."""
        changed: dict[int, PartDelta | CallProgressed] = {}
        for part in _streams(self.kept.log).values():
            whole = "".join(_chunk_text(logged) for logged in part)
            masked, start = self._text("", whole), 0
            if masked == whole:
                continue
            for logged in part:
                old = _chunk_text(logged)
                text = masked[start : start + len(old)]
                start += len(old)
                if text != old:
                    changed[logged.seq] = _with_chunk_text(logged, text)
        return changed

    def _recording(
        self, recording: Recording, frames: Mapping[Span, Sequence[Delta]]
    ) -> tuple[Recording, int]:
        """Masked as a whole, whatever piece a byte came in, and in `frames` where deltas are."""
        before = recording.data
        after = bytearray(before)
        for (start, end), deltas in frames.items():
            if any(spans for _, spans in deltas):
                for first, last in star_deltas(before[start:end], deltas):
                    after[start + first : start + last] = b"*" * (last - first)
        data = self.known.redact_bytes(bytes(after))
        data = _replace_spans(data, _wrapped_spans(data.decode("latin-1"), self.known), b"*")
        if self.shapes:
            data = _replace_spans(data, secret_spans(data.decode("latin-1")), b"*")
        if data == before:
            return recording, 0
        new = _changed_spans(before, data)
        marked = tuple(_merge_spans([*recording.masked, *new]))
        digest = hashlib.sha256(data).hexdigest() if recording.sha256 else ""
        pieces, start = [], 0
        for piece in recording.pieces:
            pieces.append(RecordedChunk(piece.at_ms, data[start : start + len(piece.data)]))
            start += len(piece.data)
        return replace(recording, pieces=pieces, masked=marked, sha256=digest), len(new)


def _frame_deltas(
    log: Iterable[Logged], streamed: Mapping[int, PartDelta | CallProgressed]
) -> dict[int, dict[Span, list[Delta]]]:
    """What the frames of each recording say: all deltas, with what of them is other in `streamed`,
    which has stars there."""
    frames: dict[int, dict[Span, list[Delta]]] = {}
    for logged in log if streamed else ():
        source, event = logged.source, streamed.get(logged.seq, logged.event)
        if source is not None and isinstance(event, PartDelta):
            old = _chunk_text(logged)
            spans = [] if event.text == old else _changed_spans(old, event.text)
            deltas = frames.setdefault(source.recording, {})
            deltas.setdefault((source.start, source.end), []).append((old, spans))
    return frames


def _streams(log: Iterable[Logged]) -> dict[tuple[int, int | str], list[Logged]]:
    """The deltas of each part, by turn and index, and what each call printed, by its id."""
    parts: dict[tuple[int, int | str], list[Logged]] = {}
    turn = 0
    for logged in log:
        match logged.event:
            case RequestSent():
                turn += 1
            case PartStarted(index=index):
                parts[turn, index] = []
            case PartDelta(index=index):
                parts.setdefault((turn, index), []).append(logged)
            case CallProgressed(call_id=call_id):
                parts.setdefault((0, call_id), []).append(logged)
    return parts


def _chunk_text(logged: Logged) -> str:
    """What the event adds to its stream."""
    event = logged.event
    assert isinstance(event, PartDelta | CallProgressed)
    return event.text if isinstance(event, PartDelta) else event.output


def _with_chunk_text(logged: Logged, text: str) -> PartDelta | CallProgressed:
    event = logged.event
    assert isinstance(event, PartDelta | CallProgressed)
    if isinstance(event, PartDelta):
        return replace(event, text=text)
    return replace(event, output=text)


def _wrapped_spans(text: str, known: Redactor) -> list[Span]:
    """What of base64 that is broken into lines is a known secret; the breaks are not."""
    found: list[Span] = []
    for whole, lines in wrapped_base64(text):
        masked, done = known.redact_text(whole), 0
        for start, end in lines if masked != whole else ():
            old, new = text[start:end], masked[done : done + end - start]
            found += [(start + a, start + b) for a, b in _changed_spans(old, new)]
            done += end - start
    return found


def _where(event: Event, turn: int, prompts: int) -> str:
    match event:
        case SessionStarted() | SettingsChanged():
            return "settings"
        case PromptAdded():
            return f"prompt {prompts}"
        case RequestSent():
            return f"request {turn}"
        case ResponseStarted():
            return f"headers of answer {turn}"
        case PartStarted() | PartDelta() | PartEnded() | ResponseEnded():
            return f"answer {turn}"
        case ResponseFailed():
            return f"error of answer {turn}"
    call_id = getattr(event, "call_id", "")
    return f"call {call_id}" if call_id else "notes of the run"


def _sum_redactions(marks: Iterable[Redaction]) -> tuple[Redaction, ...]:
    """One for each place, in order; those where nothing is masked are left out."""
    counts: dict[str, int] = {}
    for mark in marks:
        if mark.count:
            counts[mark.where] = counts.get(mark.where, 0) + mark.count
    return tuple(Redaction(where, count) for where, count in counts.items())


def _changes(old: str, new: str) -> int:
    return 0 if old == new else len(_changed_spans(old, new))


def _changed_spans(old: AnyStr, new: AnyStr) -> list[Span]:
    """The spans in which two texts of one length differ."""
    assert len(old) == len(new)
    found: list[Span] = []
    for start in range(0, len(old), _BLOCK):  # most of a large text is the same: quickly seen
        a, b = old[start : start + _BLOCK], new[start : start + _BLOCK]
        if a != b:
            places = (
                start + place for place, (x, y) in enumerate(zip(a, b, strict=True)) if x != y
            )
            found += ((place, place + 1) for place in places)
    return list(_merge_spans(found))


def _merge_spans(several: Iterable[Span]) -> Iterator[Span]:
    """Half-open spans in order, those that touch as one."""
    start = end = -1
    for first, last in sorted(several):
        if first > end:
            if end > start:
                yield start, end
            start = first
        end = max(end, last)
    if end > start:
        yield start, end


def _replace_spans(text: AnyStr, several: Iterable[Span], star: AnyStr) -> AnyStr:
    pieces: list[AnyStr] = []
    done = 0
    for start, end in _merge_spans(several):
        pieces += [text[done:start], star * (end - start)]
        done = end
    pieces.append(text[done:])
    return star[:0].join(pieces)


# -- What looks like a secret ------------------------------------------------------------------


_SLACK = re.compile(r"hooks\.slack\.com/services/(?P<v>[A-Za-z0-9/]{20,})")
_BEARER = re.compile(
    r"(?<![a-z0-9])(?:bearer|basic)(?:\s|%20|\+)+(?P<v>(?![A-Za-z]+(?:[^A-Za-z0-9._~+/=-]|\Z))"
    r"[A-Za-z0-9._~+/=-]{12,})",
)
_AUTHORIZED = re.compile(
    r"authorization(?:\\*[\"'])?\s*[:=]\s*(?:\\*[\"'])?(?:[A-Za-z][A-Za-z0-9-]* +)?"
    r"(?P<v>[^\s\"'\\,;<>{}$]{8,})",
)
_VALUE = (
    r"(?:\\*[\"'])?\s*[:=]\s*(?:\\*[\"'])?(?P<v>[^\s\"',;{}\[\]()<>$*\\&]{8,})"  # of an assignment
)


def _preceded_by(last: str, *firsts: str) -> str:
    """A pattern of `last` where one of `firsts` stands before it. It begins with plain letters,
    which are found many times as fast."""
    named = (f"(?<={first}{gap}{last})" for first in firsts for gap in ("", "[-_ ]"))
    return f"{last}(?:{'|'.join(named)})"


_ASSIGNED = tuple(
    re.compile(name + _VALUE)
    for name in (
        _preceded_by("key", "api", "access", "secret", "subscription", "functions")
        + "(?:[-_]?id)?",
        _preceded_by("token", "access", "auth", "refresh", "session"),
        _preceded_by("secret", "client"),
        "passw(?:or)?d",
        "passphrase",
    )
)
_IN_URL = re.compile(r"(?<=://)[^\s/:@\"'\\]*:(?P<v>[^\s/@\"'\\]+)(?=@)")
_USER = re.compile(r"(?<=://)(?P<v>[^\s/:@\"'\\]{8,})(?=:[^\s/@\"'\\]*@|@)")
_MEMBER = re.compile(r"[?&;](?P<name>[A-Za-z0-9_.-]{2,40})=(?P<v>[^\s&;#\"'\\<>]{8,})")
_COOKIES = re.compile(
    r"(?<![a-z0-9])(?:set-)?cookie(?:\\*[\"'])?\s*:\s*(?:\\*[\"'])?"
    r"(?P<all>[\w.-]+=[^;\s\"'\\]*(?:;\s*[\w.-]+(?:=[^;\s\"'\\]*)?)*)",
)
_PRIVATE = re.compile(
    r"-----BEGIN (?:[A-Z ]+ )?PRIVATE KEY(?: BLOCK)?-----(?P<all>[A-Za-z0-9+/=\\\s:,-]{16,}?)"
    r"(?:-----END|\Z)"
)
_LINE = re.compile(r"\\[nr]|\s+|(?P<v>[^\\\s]+)")

_BORDER = re.compile(
    r"(?:\x1b|(?<!\\)\\++(?:u001[bB]|x1[bB]|033|e))\[[0-9;]*+[A-Za-z]"
    r"|(?<!\\)\\++(?:[nrtbfv]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})"
)
"""What is one character inside of JSON and like it, or none on a terminal, and ends in a letter or
a digit that is no part of the word after it."""

_COOKIE = re.compile(r"(?P<name>[^=;,\s]+)=(?P<v>[^;,\s]*)")
_ATTRIBUTES = {"path", "domain", "expires", "max-age", "samesite", "priority", "version"}

_NAMED = re.compile(r"(?:[A-Za-z]+ )?(?:\$\{?[A-Za-z_][A-Za-z0-9_]*\}?|\*+)")
"""The name of a variable in place of its value, or what is masked already."""

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9-]* )?(?P<v>.+)", re.DOTALL)

_WORD = re.compile("[A-Za-z]+|[0-9]+")
_NAME = re.compile(r"[a-z_]\w*(?:\.[a-z_]\w*)*")
_DOTTED = re.compile(r"[a-z_]\w*(?:\.[a-z_]\w*)*\.?")
_ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9a-fA-F]{4})|(?P<plain>[\"'\\/]))")
_BREAK = r"(?:\\++r)?\\++n|\r?\n"
_WRAPPED = re.compile(
    rf"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{{40,}}+(?:(?:{_BREAK})[A-Za-z0-9+/_=-]++)+"
)
_UNBROKEN = re.compile(rf"(?:{_BREAK})?(?P<v>[A-Za-z0-9+/_=-]++)")
_RUN = re.compile(r"[A-Za-z0-9+/_-]{24,}")
_LONG_RUN = 64 * 1024
"""A longer one is a file or an image, whose base64 begins where it does."""

Span = tuple[int, int]


def secret_spans(text: str) -> list[Span]:
    """Where something that looks like a secret stands in `text`, as it is."""
    if "\\" in text or "\x1b" in text:
        text = _BORDER.sub(lambda border: " " * len(border[0]), text)
    found = list(find_keys(text))
    # Of the same length, for there is one letter whose small form is longer; and many times as fast
    # as a pattern that takes both.
    lower = text.replace("\u0130", "i").lower()
    if "slack" in lower:
        found += [match.span("v") for match in _SLACK.finditer(text)]
    if "bearer" in lower or "basic" in lower:
        places = (
            match.span("v") for match in _BEARER.finditer(lower) if _is_credential(text, match)
        )
        found += places
    if "authorization" in lower:
        places = (match.span("v") for match in _AUTHORIZED.finditer(lower))
        found += [(start, end) for start, end in places if is_opaque(text[start:end])]
    for named in _ASSIGNED:
        found += [match.span("v") for match in named.finditer(lower) if not _is_code(match)]
    if "://" in text:
        found += [
            match.span("v") for match in _IN_URL.finditer(text) if not _NAMED.fullmatch(match["v"])
        ]
        found += [match.span("v") for match in _USER.finditer(text) if is_opaque(match["v"])]
    if "?" in text:
        members = _MEMBER.finditer(text)
        found += [member.span("v") for member in members if is_secret(member["name"], member["v"])]
    if "cookie" in lower:
        for match in _COOKIES.finditer(lower):
            found += _cookie_spans(text, *match.span("all"))
    if "PRIVATE KEY" in text:
        for match in _PRIVATE.finditer(text):
            lines = _LINE.finditer(text, *match.span("all"))
            found += [line.span("v") for line in lines if line["v"]]
    return found


def certain_spans(text: str) -> list[Span]:
    """Those whose make or place says that they are secret, whatever their length."""
    found = list(find_keys(text))
    if "://" in text:
        found += [match.span("v") for match in _IN_URL.finditer(text) if is_opaque(match["v"])]
    return found


def _is_credential(text: str, match: re.Match[str]) -> bool:
    """Whether "Bearer" or "Basic" means a header: a command-line tool may be basic, too."""
    value = text[match.start("v") : match.end("v")]
    if is_opaque(value) if match[0][:2] == "be" else is_long_opaque(value):
        return True
    try:
        return b":" in base64.b64decode(value, validate=True) and is_opaque(value)
    except (binascii.Error, ValueError):
        return False


def _is_code(match: re.Match[str]) -> bool:
    """Whether what is assigned is a word, an address, or what a program reads it from: a name, a
    member of one, a call."""
    value, text = match["v"], match.string
    if _WORD.fullmatch(value) or "://" in value:
        return True
    if text[match.start("v") - 1] in "\"'":
        return False
    if _DOTTED.fullmatch(value) and text[match.end("v") : match.end("v") + 1] in ("(", "["):
        return True
    return _NAME.fullmatch(value) is not None and not any(letter.isdigit() for letter in value)


def header_spans(name: str, value: str) -> list[Span]:
    """What of the header (or a field like one) `name` is secret, by its name alone, or by its name
    and looks."""
    whole = _SCHEME.fullmatch(value)
    if whole is None or not is_secret(name, whole["v"]) or _NAMED.fullmatch(value):
        return []
    if "cookie" in name.lower():
        return _cookie_spans(value, 0, len(value))
    return [whole.span("v") if "auth" in name.lower() else (0, len(value))]


def decoded_texts(text: str) -> Iterator[str]:
    """The texts behind the base64, the percent signs and the escapes of `text`."""
    if "%" in text:
        yield unquote(text, errors="replace")
    if "\\" in text:
        once = _ESCAPE.sub(_unescape, text)
        yield once
        if "\\" in once:
            yield _ESCAPE.sub(_unescape, once)
    lines = (block for block, _ in wrapped_base64(text))
    found: list[str] = []
    for data in chain((run[0] for run in _RUN.finditer(text)), lines):
        data = data.translate(_STANDARD)
        for shift in range(4 if len(data) <= _LONG_RUN else 1):
            whole = len(data) - (len(data) - shift) % 4
            try:
                found.append(base64.b64decode(data[shift:whole]).decode("latin-1"))
            except (binascii.Error, ValueError):
                continue
    # Together, for there may be very many of them; nothing goes on from one to the next.
    yield _APART.join(found)


_APART = "\n<>\n"


def wrapped_base64(text: str) -> Iterator[tuple[str, list[Span]]]:
    """Each stretch of base64 that is broken into lines, put together, and where they stand."""
    for block in _WRAPPED.finditer(text):
        lines = [line.span("v") for line in _UNBROKEN.finditer(text, *block.span())]
        yield "".join(text[start:end] for start, end in lines), lines


def _unescape(match: re.Match[str]) -> str:
    return chr(int(match["code"], 16)) if match["code"] else match["plain"]


def _cookie_spans(text: str, start: int, end: int) -> list[Span]:
    return [
        match.span("v")
        for match in _COOKIE.finditer(text, start, end)
        if match["v"] and match["name"].lower() not in _ATTRIBUTES
    ]


_STANDARD = str.maketrans("-_", "+/")

# -- What a user leaves out --------------------------------------------------------------------


OMITTABLE: Mapping[str, str] = {
    "recordings": "the bytes of the answers",
    "results": "what the tools returned, and the bodies of the requests, which repeat it",
    "thinking": "what the model thought, the bytes of the answers and the bodies of the requests",
    "images": "images, and the bodies of the requests, which repeat them",
}
"""What can be left out, by name, and what goes with it."""

GONE = "[left out]"
_BODIES = {"results", "thinking", "images"}
_BYTES = {"recordings", "thinking"}


def omit(bundle: SessionBundle, names: Collection[str]) -> SessionBundle:
    """`bundle` without what `names` name; BadInput where one is not to be left out."""
    for name in names:
        if name not in OMITTABLE:
            there = ", ".join(OMITTABLE)
            raise BadInput(f"{name[:40]!r} cannot be left out; there is {there}.")
    if not names:
        return bundle
    log: list[Logged] = []
    thinking: set[int] = set()  # the parts of the open turn that are thoughts
    for logged in bundle.log:
        event = logged.event
        if isinstance(event, RequestSent):
            thinking = set()
        if isinstance(event, PartStarted) and event.part_kind == "thinking":
            thinking.add(event.index)
        log.append(replace(logged, event=_omit_from(event, names, thinking)))
    recordings = {} if _BYTES & set(names) else bundle.recordings
    session = fold(bundle.session.id, log)
    return replace(bundle, log=log, session=session, recordings=recordings)


def _omit_from(event: Event, names: Collection[str], thinking: Collection[int]) -> Event:
    if "images" in names:
        event = _without_images(event)
    if "results" in names:
        event = _without_results(event)
    match event:
        case RequestSent() if _BODIES & set(names):
            return replace(event, body="{}")
        case PartStarted(index=index) if "thinking" in names and index in thinking:
            return replace(event, meta={})
        case PartDelta(index=index) if "thinking" in names and index in thinking:
            return replace(event, text="")
        case PartEnded(index=index) if "thinking" in names and index in thinking:
            return replace(event, text=GONE, meta={})
    return event


def _without_results(event: Event) -> Event:
    match event:
        case CallEnded(result=result, real=real):
            return replace(
                event,
                result=_without_content(result),
                real=None if real is None else _without_content(real),
            )
        case TaskEnded(result=ToolResult() as result):
            return replace(event, result=_without_content(result))
        case CallProgressed(real=real):
            kept = None if real is None else _without_content(real)
            return replace(event, text="", output="", real=kept)
        case CallDecided(decision="answer"):
            return replace(event, text=GONE, images=())
    return event


def _without_images(event: Event) -> Event:
    match event:
        case PromptAdded(images=images) if images:
            return replace(event, images=(), text=event.text or GONE, form={})
        case CallDecided(images=images) if images:
            return replace(event, images=())
        case CallEnded(result=result, real=real):
            kept = None if real is None else _no_images(real)
            return replace(event, result=_no_images(result), real=kept)
        case TaskEnded(result=ToolResult() as result):
            return replace(event, result=_no_images(result))
        case CallProgressed(real=ToolResult() as real):
            return replace(event, real=_no_images(real))
    return event


def _without_content(result: ToolResult) -> ToolResult:
    return replace(result, content=(Content(text=GONE),), form={})


def _no_images(result: ToolResult) -> ToolResult:
    content = (
        Content(text=GONE) if content.type == "image" else content for content in result.content
    )
    return replace(result, content=tuple(content), form={})
