"""What leaves is masked once more: every known secret in each of its forms, and whatever looks like
one, with stars of the same length, in the log, the recordings, the title and the tags. Pure.

Threats 16 and 30 of docs/safety.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import AnyStr

from app.core.events import (
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
)
from app.core.reducer import fold
from app.core.serialization import with_texts
from app.exchange.bundle import RecordedChunk, Recording, SessionBundle
from app.exchange.redact_shapes import (
    Span,
    certain_spans,
    decoded_texts,
    header_spans,
    secret_spans,
    wrapped_base64,
)
from app.protocols.frame_spans import Delta, star_deltas
from app.secrets.patterns import is_long_opaque
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
    kept: SessionBundle, secrets: Collection[str], *, shapes: bool = True
) -> RedactedBundle:
    """`kept` without `secrets`; with `shapes` also without what looks like one, wherever else that
    stands in it. Applying it twice changes nothing."""
    known = Redactor([*secrets, *(_secret_values(kept) if shapes else ())])
    return _BundleRedactor(kept, known, shapes).done()


def _secret_values(kept: SessionBundle) -> set[str]:
    """The values that are looked for everywhere: keys of known makes, and what looks like a secret
    and is long enough to stand nowhere by chance. What the session is made of is none of them."""
    found: set[str] = set()
    sure: set[str] = set()
    seen: set[str] = set()

    def look(name: str, text: str) -> str:
        places = _by_name(name, text)
        found.update(
            one for one in (text[start:end] for start, end in places) if is_long_opaque(one)
        )
        if text not in seen:
            seen.add(text)
            for one in chain([text], decoded_texts(text)):
                sure.update(one[start:end] for start, end in certain_spans(one))
                maybe = (one[start:end] for start, end in secret_spans(one))
                found.update(value for value in maybe if is_long_opaque(value))
        return text

    for logged in kept.log:
        if not isinstance(logged.event, PartDelta):  # of which the whole is looked at, below
            with_texts(type(logged.event), logged.event, look, left=_OWN)
    streamed = _streams(kept.log).values()
    joined = ("".join(_chunk_text(one) for one in part) for part in streamed)
    answers = (recording.data.decode("latin-1") for recording in kept.recordings.values())
    for text in (kept.title, *kept.tags, *joined, *answers):
        look("", text)
    ours = _own_words(kept)
    found = {one for one in found if not any(word in one or one in word for word in ours)}
    return {one for one in found | sure if len(one) >= SHORTEST and one.strip("*")}


def _own_words(kept: SessionBundle) -> set[str]:
    """The names and hosts that the session's settings and requests need to be read again."""
    words: set[str] = set()
    for _, one in kept.session.settings_at:
        profile = one.profile
        words |= {one.model, profile.model, profile.name, _host(profile.base_url)}
        words |= {tool.name for tool in one.tools}
    sent = (logged.event for logged in kept.log)
    words |= {_host(one.url) for one in sent if isinstance(one, RequestSent)}
    return {word for word in words if len(word) >= SHORTEST}


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2]


def _by_name(name: str, text: str) -> list[Span]:
    return [] if name.lower() in _ANYTHING else header_spans(name, text)


@dataclass
class _BundleRedactor:
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
            whole = "".join(_chunk_text(one) for one in part)
            masked, start = self._text("", whole), 0
            if masked == whole:
                continue
            for one in part:
                old = _chunk_text(one)
                text = masked[start : start + len(old)]
                start += len(old)
                if text != old:
                    changed[one.seq] = _with_chunk_text(one, text)
        return changed

    def _recording(
        self, one: Recording, frames: Mapping[Span, Sequence[Delta]]
    ) -> tuple[Recording, int]:
        """Masked as a whole, whatever piece a byte came in, and in `frames` where deltas are."""
        before = one.data
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
            return one, 0
        new = _changed_spans(before, data)
        marked = tuple(_merge_spans([*one.masked, *new]))
        digest = hashlib.sha256(data).hexdigest() if one.sha256 else ""
        pieces, start = [], 0
        for piece in one.pieces:
            pieces.append(RecordedChunk(piece.at_ms, data[start : start + len(piece.data)]))
            start += len(piece.data)
        return replace(one, pieces=pieces, masked=marked, sha256=digest), len(new)


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
