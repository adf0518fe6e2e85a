"""Redacts a session before it is exported: known secrets, values that look like one, omitted parts.

Secrets become stars of the same length in the log, the recordings, the title and the tags; `omit`
leaves out recordings, results, thinking or images. Pure. Threats 16 and 30 of docs/safety.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, AnyStr, assert_never

from playground.core.errors import BadInput
from playground.core.events import (
    AnswerPassed,
    CallChecked,
    CallDecided,
    CallDoubted,
    CallEnded,
    CallExtended,
    CallInterrupted,
    CallProgressed,
    CallReturned,
    CallStarted,
    ClientGone,
    Event,
    Logged,
    PartDelta,
    PartEnded,
    PartStarted,
    PromptAdded,
    RequestReceived,
    RequestSent,
    ResponseEnded,
    ResponseFailed,
    ResponseStarted,
    RetryScheduled,
    RunPaused,
    RunResumed,
    RunStopped,
    SessionForked,
    SessionStarted,
    SettingsChanged,
    TaskEnded,
    TaskStarted,
    TurnDropped,
    Warned,
)
from playground.core.reducer import fold
from playground.core.serialization import with_texts
from playground.core.tools import Content, ToolResult
from playground.exchange.bundle import RecordedChunk, Recording, SessionBundle
from playground.protocols.framing import Delta, star_deltas
from playground.secrets.detection import header_spans
from playground.secrets.forms import Span, merge_spans, replace_with_stars
from playground.secrets.likely_secrets import SecretCollector, likely_spans, redact_likely
from playground.secrets.redaction import SHORTEST, Redactor

_OWN = frozenset(
    ("protocol", "method", "call_id", "task_id", "reopened", "limit", "code", "digest")
)
"""Fields of our events whose values are written by this program. A key of the same name in an
external object is searched."""

_ANYTHING = ("code", "key")
"""Names that data use for many purposes: there only secrets of known formats are redacted."""

_BLOCK = 1024

OMITTABLE: Mapping[str, str] = {
    "recordings": "the bytes of the answers",
    "results": "tool results, and the request bodies, which repeat them",
    "thinking": "thinking, the bytes of the answers, and the request bodies",
    "images": "images, and the request bodies, which repeat them",
    "beside": "an agent's side sessions: its sub-agents and side requests",
}
"""The parts that can be omitted, by name, and what goes with them."""

GONE = "[left out]"
_BODIES = {"results", "thinking", "images"}
_BYTES = {"recordings", "thinking"}


@dataclass(frozen=True)
class Redaction:
    """The number of redacted stretches at the place `where`, in words."""

    where: str
    count: int


@dataclass(frozen=True)
class RedactedBundle:
    bundle: SessionBundle
    marks: Sequence[Redaction] = ()


def redact_session(
    bundle: SessionBundle, secrets: Collection[str], *, shapes: bool = True
) -> RedactedBundle:
    """Redacts `bundle`: known `secrets` and, with `shapes`, everything that looks like one.

    Idempotent.
    """
    known = Redactor([*secrets, *(secret_values(bundle) if shapes else ())])
    return _SessionRedactor(bundle, known, shapes).redact()


def secret_values(bundle: SessionBundle) -> set[str]:
    """The values that are redacted everywhere: keys of known formats, and values that look like a
    secret and are too long to occur by chance. Excludes the names and hosts of the session."""
    collector = SecretCollector()

    def add(name: str, text: str) -> str:
        collector.add(text, _name_spans(name, text))
        return text

    for logged in bundle.log:
        if not isinstance(logged.event, PartDelta):  # whose whole text is searched below
            with_texts(type(logged.event), logged.event, add, left=_OWN)
    streamed = _streams(bundle.log).values()
    joined = ("".join(_chunk_text(candidate) for candidate in part) for part in streamed)
    answers = (recording.data.decode("latin-1") for recording in bundle.recordings.values())
    for text in (bundle.title, *bundle.tags, *joined, *answers):
        collector.add(text)
    return collector.values(_own_words(bundle))


def _own_words(bundle: SessionBundle) -> set[str]:
    """The names and hosts in the session's settings and requests, which are needed to import it."""
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


def _name_spans(name: str, text: str) -> list[Span]:
    return [] if name.lower() in _ANYTHING else header_spans(name, text)


@dataclass
class _SessionRedactor:
    """One pass over all stored data."""

    bundle: SessionBundle
    known: Redactor
    shapes: bool
    done_before: dict[str, str] = field(default_factory=dict)

    def redact(self) -> RedactedBundle:
        bundle, marks = self.bundle, []
        streamed = self._redact_streams()
        log, turn, prompts = [], 0, 0
        for logged in bundle.log:
            turn += isinstance(logged.event, RequestSent)
            prompts += isinstance(logged.event, PromptAdded)
            where = _place_words(logged.event, turn, prompts)
            counts = [0]
            event = streamed.get(logged.seq, logged.event)
            if isinstance(event, CallProgressed):
                counts[0] += _changes(_chunk_text(logged), event.output)
            if not isinstance(event, PartDelta):
                event = self._event(event, counts)
            log.append(logged if event is logged.event else replace(logged, event=event))
            marks.append(Redaction(where, counts[0]))
        recordings = {}
        frames = _frame_deltas(bundle.log, streamed)
        for number, recording in bundle.recordings.items():
            recordings[number], count = self._recording(recording, frames.get(recording.number, {}))
            marks.append(Redaction(f"bytes of answer {number}", count))
        title, tags = self._text("", bundle.title), [self._text("", tag) for tag in bundle.tags]
        marks += [Redaction("title", _changes(bundle.title, title))]
        marks += [
            Redaction("tags", _changes(*pair)) for pair in zip(bundle.tags, tags, strict=True)
        ]
        session = fold(bundle.session.id, log)
        masked = replace(
            bundle,
            session=session,
            title=title,
            log=log,
            recordings=recordings,
            tags=tuple(tags),
            expect=with_texts(Any, bundle.expect, self._text),
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
            masked = (
                redact_likely(text, self.known) if self.shapes else self.known.redact_text(text)
            )
            self.done_before[text] = masked
        return replace_with_stars(masked, _name_spans(name, masked) if self.shapes else (), "*")

    def _redact_streams(self) -> dict[int, PartDelta | CallProgressed]:
        """The pieces of an answer, or of a call's output, that contain a part of a secret, by seq:
        the whole secret is visible only in their concatenation."""
        changed: dict[int, PartDelta | CallProgressed] = {}
        for part in _streams(self.bundle.log).values():
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
        """Redacted as a whole, across pieces, and in `frames` where their deltas are."""
        before = recording.data
        after = bytearray(before)
        for (start, end), deltas in frames.items():
            if any(spans for _, spans in deltas):
                for first, last in star_deltas(before[start:end], deltas):
                    after[start + first : start + last] = b"*" * (last - first)
        data = self.known.redact_bytes(bytes(after))
        if self.shapes:
            data = replace_with_stars(data, likely_spans(data.decode("latin-1")), b"*")
        if data == before:
            return recording, 0
        new = _changed_spans(before, data)
        marked = tuple(merge_spans(recording.masked, new))
        digest = hashlib.sha256(data).hexdigest() if recording.sha256 else ""
        pieces, start = [], 0
        for piece in recording.pieces:
            pieces.append(RecordedChunk(piece.at_ms, data[start : start + len(piece.data)]))
            start += len(piece.data)
        return replace(recording, pieces=pieces, masked=marked, sha256=digest), len(new)


def _frame_deltas(
    log: Iterable[Logged], streamed: Mapping[int, PartDelta | CallProgressed]
) -> dict[int, dict[Span, list[Delta]]]:
    """The text of each recording's frames: all deltas, replaced by those in `streamed`, which are
    redacted."""
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
    """The deltas of each part, by turn and index, and the output of each call, by its id."""
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
    """The text that the event adds to its stream."""
    event = logged.event
    assert isinstance(event, PartDelta | CallProgressed)
    return event.text if isinstance(event, PartDelta) else event.output


def _with_chunk_text(logged: Logged, text: str) -> PartDelta | CallProgressed:
    event = logged.event
    assert isinstance(event, PartDelta | CallProgressed)
    if isinstance(event, PartDelta):
        return replace(event, text=text)
    return replace(event, output=text)


def _place_words(event: Event, turn: int, prompts: int) -> str:
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
        case (
            CallChecked() | CallDecided() | CallEnded() | CallExtended() | CallInterrupted()
            | CallProgressed() | CallReturned() | CallStarted() | TaskStarted()
        ):  # fmt: skip
            return f"call {event.call_id}"
        case RunStopped(call_id=call_id):
            return f"call {call_id}" if call_id else "notes of the run"
        case (
            AnswerPassed() | CallDoubted() | ClientGone() | RequestReceived() | RetryScheduled()
            | RunPaused() | RunResumed() | SessionForked() | TaskEnded() | TurnDropped() | Warned()
        ):  # fmt: skip
            return "notes of the run"
        case _:
            assert_never(event)


def _sum_redactions(marks: Iterable[Redaction]) -> tuple[Redaction, ...]:
    """One for each place, in order; without those of zero count."""
    counts: dict[str, int] = {}
    for mark in marks:
        if mark.count:
            counts[mark.where] = counts.get(mark.where, 0) + mark.count
    return tuple(Redaction(where, count) for where, count in counts.items())


def _changes(old: str, new: str) -> int:
    return 0 if old == new else len(_changed_spans(old, new))


def _changed_spans(old: AnyStr, new: AnyStr) -> list[Span]:
    """The spans in which two texts of equal length differ."""
    assert len(old) == len(new)
    spans: list[Span] = []
    for start in range(0, len(old), _BLOCK):  # most of a large text is equal: a fast comparison
        a, b = old[start : start + _BLOCK], new[start : start + _BLOCK]
        if a != b:
            places = (
                start + place for place, (x, y) in enumerate(zip(a, b, strict=True)) if x != y
            )
            spans += ((place, place + 1) for place in places)
    return merge_spans(spans)


# -- Parts that a user omits -----------------------------------------------------------------------


def omit(bundle: SessionBundle, names: Collection[str]) -> SessionBundle:
    """`bundle` without the parts `names`; BadInput if one cannot be omitted."""
    for name in names:
        if name not in OMITTABLE:
            there = ", ".join(OMITTABLE)
            raise BadInput(f"{name[:40]!r} cannot be left out. Choose from {there}.")
    if not names:
        return bundle
    beside = () if "beside" in names else [omit(each, names) for each in bundle.beside]
    log: list[Logged] = []
    thinking: set[int] = set()  # the parts of the open turn that are thinking
    for logged in bundle.log:
        event = logged.event
        if isinstance(event, RequestSent):
            thinking = set()
        if isinstance(event, PartStarted) and event.part_kind == "thinking":
            thinking.add(event.index)
        log.append(replace(logged, event=_omit_from(event, names, thinking)))
    recordings = {} if _BYTES & set(names) else bundle.recordings
    session = fold(bundle.session.id, log)
    return replace(bundle, log=log, session=session, recordings=recordings, beside=beside)


def _omit_from(event: Event, names: Collection[str], thinking: Collection[int]) -> Event:
    """The event without the parts `names`; `thinking` are the parts of its answer that are
    thinking."""
    images = "images" in names
    match event:
        case RequestSent():
            return replace(event, body="{}") if _BODIES & set(names) else event
        case PromptAdded() if images and event.images:
            return replace(event, images=(), text=event.text or GONE, form={})
        case PartStarted(index=index) if "thinking" in names and index in thinking:
            return replace(event, meta={})
        case PartDelta(index=index) if "thinking" in names and index in thinking:
            return replace(event, text="")
        case PartEnded(index=index) if "thinking" in names and index in thinking:
            return replace(event, text=GONE, meta={})
        case CallDecided(decision="answer") if "results" in names:
            return replace(event, text=GONE, images=())
        case CallDecided():
            return replace(event, images=()) if images and event.images else event
        case CallEnded(result=result, real=real):
            cut_real = None if real is None else _cut(real, names)
            return replace(event, result=_cut(result, names), real=cut_real)
        case TaskEnded(result=result):
            return replace(event, result=None if result is None else _cut(result, names))
        case CallProgressed(real=real):
            event = replace(event, real=None if real is None else _cut(real, names))
            return replace(event, text="", output="") if "results" in names else event
        case (
            AnswerPassed() | CallChecked() | CallDoubted() | CallExtended() | CallInterrupted()
            | CallReturned() | CallStarted() | ClientGone() | PartDelta() | PartEnded()
            | PartStarted() | PromptAdded() | RequestReceived() | ResponseEnded()
            | ResponseFailed() | ResponseStarted() | RetryScheduled() | RunPaused() | RunResumed()
            | RunStopped() | SessionForked() | SessionStarted() | SettingsChanged()
            | TaskStarted() | TurnDropped() | Warned()
        ):  # fmt: skip
            return event  # it has none of these parts
        case _:
            assert_never(event)


def _cut(result: ToolResult, names: Collection[str]) -> ToolResult:
    if "results" in names:
        return _without_content(result)
    return _no_images(result) if "images" in names else result


def _without_content(result: ToolResult) -> ToolResult:
    return replace(result, content=(Content(text=GONE),), form={}, mismatch="")


def _no_images(result: ToolResult) -> ToolResult:
    content = (
        Content(text=GONE) if content.type == "image" else content for content in result.content
    )
    return replace(result, content=tuple(content), form={})
