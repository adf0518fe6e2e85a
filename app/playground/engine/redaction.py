"""Keeps secrets out of the log: masks them in events and in the stream of an answer, and refuses
them in typed input. Threat 16 of docs/safety.md.

`redact_event` masks the texts of an event: typed by a user, joined by a decoder, or returned by a
tool. Sent bytes are masked earlier. The checks refuse addresses, settings, tools and rules that
hold a known key, before they are stored or shown: keys are referenced by variable name.

`StreamRedactor` masks an answer as it arrives, where a secret may be spread over many deltas. A
text is held back while its end may be the beginning of a secret, and replaced by stars if it was
one. Order is preserved: while one text is undecided, later bytes and events of all parts wait,
until the text continues or ends. Bytes are released in whole frames, with their events, so that a
character is starred in an event and in its frame at the same time. A text is that of a part; or a
text outside of the events (`SideText`); or, if no end of a part repeats its text (`joins`), that of
all parts of one kind: some providers begin a new part for each signature or citation.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any, assert_never
from urllib.parse import unquote

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
    PartDelta,
    PartEnded,
    PartKind,
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
from playground.core.rules import Rule
from playground.core.serialization import to_data
from playground.core.settings import Settings
from playground.core.tools import Tool, ToolResult
from playground.net.keys import origin
from playground.protocols.base import TOKENS, SideText
from playground.protocols.decoder import PROSE
from playground.protocols.framing import (
    TEXT_MEMBERS,
    Stars,
    StringSpan,
    bytes_of,
    has_tokens,
    star_deltas,
    star_tokens,
    starred_tokens,
    text_literals,
    texts_of,
    token_lists,
    token_spans,
    with_texts,
)
from playground.secrets.forms import merge_spans, replace_with_stars
from playground.secrets.names import may_name_secret
from playground.secrets.redaction import SHORTEST, PartRedactor, Redactor
from playground.store.writes import Chunk

# Events and typed input ---------------------------------------------------------------------------


_QUERY_MEMBER = re.compile("[?&;]([^=&;]*)=")

Span = tuple[int, int]

_LONGEST = 1024
"""Characters at the end of a part that may form a secret with the following ones."""

_MOST_BESIDE = 20_000
"""Most side texts open at once; more than the maximum number of calls has names."""

_MEMBERS = TEXT_MEMBERS | {b"name", b"cited_text"}

_LISTED = ("cited_text", "token")
"""Side texts that an event repeats in full, one by one."""

_MOST_STRINGS = 100
"""Most strings examined in an incomplete frame, and most texts that they may continue; real answers
have a few."""


def redact_event(event: Event, redactor: Redactor) -> Event:
    """Replaces secrets by stars in the texts that a user, a model or a tool wrote."""
    text, data = redactor.redact_text, redactor.redact_data
    match event:
        case PartDelta() | RequestSent() | ResponseStarted():
            return event  # masked before they are events: over the deltas, and with the bytes
        case SessionStarted(settings) | SettingsChanged(settings):
            return replace(event, settings=replace(settings, system=text(settings.system)))
        case PromptAdded():
            return replace(event, text=text(event.text), form=data(event.form))
        case RequestReceived():
            return replace(event, path=text(event.path), ids=data(event.ids))
        case PartStarted() | PartEnded():
            name, provider_id = text(event.name), text(event.provider_id)
            event = replace(event, name=name, provider_id=provider_id, meta=data(event.meta))
            return replace(event, text=text(event.text)) if isinstance(event, PartEnded) else event
        case Warned():
            return replace(event, message=text(event.message), meta=data(event.meta))
        case ResponseEnded():
            return replace(event, raw_reason=text(event.raw_reason), meta=data(event.meta))
        case CallDoubted(problem=problem):
            return replace(event, problem=replace(problem, message=text(problem.message)))
        case CallProgressed():
            masked_real = None if event.real is None else _mask_result(event.real, redactor)
            return replace(
                event, text=text(event.text), output=text(event.output), real=masked_real
            )
        case TaskStarted():
            return replace(event, title=text(event.title))
        case TaskEnded(result=result):
            return (
                event if result is None else replace(event, result=_mask_result(result, redactor))
            )
        case CallDecided(arguments=arguments):
            edited = None if arguments is None else text(arguments)
            return replace(event, text=text(event.text), arguments=edited)
        case CallEnded(result=result, real=real):
            masked_real = None if real is None else _mask_result(real, redactor)
            return replace(event, result=_mask_result(result, redactor), real=masked_real)
        case ResponseFailed():
            return replace(event, message=text(event.message), error=data(event.error))
        case (
            AnswerPassed() | CallChecked() | CallExtended() | CallInterrupted() | CallReturned()
            | CallStarted() | ClientGone() | RetryScheduled() | RunPaused() | RunResumed()
            | RunStopped() | SessionForked() | TurnDropped()
        ):  # fmt: skip
            return event  # only identifiers, numbers and words of this program
        case _:
            assert_never(event)


def _mask_result(result: ToolResult, redactor: Redactor) -> ToolResult:
    content = tuple(
        replace(piece, text=redactor.redact_text(piece.text)) for piece in result.content
    )
    return replace(
        result,
        content=content,
        form=redactor.redact_data(result.form),
        mismatch=redactor.redact_text(result.mismatch),
    )


def check_address(base_url: str) -> None:
    """BadInput if `base_url` is not a valid address or contains a key."""
    origin(base_url)
    if "#" in base_url:
        raise BadInput("A base URL must not contain #. Remove the # and what follows it.")
    if any(may_name_secret(unquote(name)) for name in _QUERY_MEMBER.findall(base_url)):
        raise BadInput(
            "A base URL must not contain a key. Remove it and enter the name of its variable."
        )


def check_settings(settings: Settings, redactor: Redactor, before: Settings) -> None:
    """BadInput if a setting holds a known key; names the setting, never the value.

    Values unchanged since `before` are not checked: a key that became known later must not prevent
    a user from removing it setting by setting. The system prompt is not checked: free text may hold
    a key and is masked when it is stored.
    """
    old = _places(before)
    _check(
        {name: value for name, value in _places(settings).items() if value != old[name]}, redactor
    )
    check_tools((tool for tool in settings.tools if tool not in before.tools), redactor)


def _places(settings: Settings) -> dict[str, Any]:
    profile = settings.profile
    return {
        "model": settings.model,
        "base_url": profile.base_url,
        "The profile": [profile.name, profile.key_name, profile.model, profile.headers],
        "tool_choice": to_data(settings.tool_choice),
        "params": settings.params,
        "extra": settings.extra,
    }


def check_tools(tools: Iterable[Tool], redactor: Redactor) -> None:
    """BadInput if a tool holds a known key; tools are numbered, because the name may hold it."""
    for number, tool in enumerate(tools, 1):
        data = to_data(tool)
        _check({f"{name} of tool {number}": value for name, value in data.items()}, redactor)


def check_rule(rule: Rule, redactor: Redactor) -> None:
    """BadInput if a rule holds a known key in any of its fields."""
    names = ("tool", "source", "when", "text", "words")
    _check({f"{name} of the rule": getattr(rule, name) for name in names}, redactor)


def _check(places: Mapping[str, Any], redactor: Redactor) -> None:
    for place, value in places.items():
        if redactor.holds(value):
            raise BadInput(
                f"{place} contains the value of a key. Remove it. Name the key's variable "
                "instead; the key is sent in the protocol's own header."
            )


# The stream of an answer ------------------------------------------------------------------------


@dataclass(slots=True)
class ShownText:
    """A growing text. `mask` knows its secrets; it begins at position `base` of the mask, because
    several texts may be masked as one. `last` is its end, unmasked. `head` and `tail` are the first
    characters, and the ends of the last pieces, as shown; `shown` is all that was shown of
    citations and tokens, text by text."""

    mask: PartRedactor
    base: int = 0
    size: int = 0
    last: str = ""
    head: str = ""
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=SHORTEST - 1))
    shown: list[str] = field(default_factory=list)

    def feed(self, text: str) -> None:
        self.mask.feed(text)
        self.size += len(text)
        self.last += text
        if len(self.last) > 2 * _LONGEST:
            self.last = self.last[-_LONGEST:]

    def show(self, text: str) -> None:
        if len(self.head) < SHORTEST - 1:
            self.head = (self.head + text)[: SHORTEST - 1]
        if text:
            self.tail.append(text[1 - SHORTEST :])

    def mask_text(self, text: str) -> str:
        """The whole text with stars. Where only a few characters of a secret are in it, repeats
        what was shown of them: `verify` accepts no stars shorter than a secret."""
        spans = self.mask.spans(self.base, self.base + self.size)
        text = replace_with_stars(text, spans, "*")
        for start, end in spans:
            if end - start < SHORTEST and start == 0:
                text = self.head[:end] + text[end:]
            elif end - start < SHORTEST and end == self.size:
                text = text[:start] + "".join(self.tail)[start - end :]
        return text


@dataclass(slots=True)
class HeldEvent:
    """An event or side text that is held back, with its time and byte span, its text, and the
    position `at` of it in the mask. `name` is the name's text (start and end of a part), `cited`
    that of its citations (end of a part), `tokens` the texts of its tokens."""

    event: Event | SideText
    at_ms: int
    start: int
    end: int
    shown_text: ShownText | None = None
    at: int = 0
    name: ShownText | None = None
    cited: ShownText | None = None
    tokens: Sequence[ShownText] = ()

    @property
    def is_undecided(self) -> bool:
        if self.shown_text is None or not isinstance(self.event, PartDelta | SideText):
            return False
        undecided = self.shown_text.mask.undecided
        return undecided is not None and undecided < self.at + len(self.event.text)

    @property
    def stars(self) -> Sequence[Span]:
        """The spans of the event's text that are starred."""
        if self.shown_text is None or not isinstance(self.event, PartDelta | SideText):
            return ()
        return self.shown_text.mask.spans(self.at, self.at + len(self.event.text))

    @property
    def has_secrets(self) -> bool:
        if self.shown_text is not None and self.shown_text.mask.has_secrets:
            return True
        more = (self.name, self.cited, *self.tokens)
        return any(text is not None and text.mask.has_secrets for text in more)

    def mask_event(self) -> Event | SideText:
        """The event with stars."""
        event, shown_text = self.event, self.shown_text
        name = self.name
        if isinstance(event, PartStarted | PartEnded) and name is not None:
            event = replace(event, name=name.mask.mask(0, event.name))
        if isinstance(event, PartEnded):
            if shown_text is not None and len(event.text) == shown_text.size:
                text = shown_text.mask_text(event.text)
                meta = _mask_repeats(event.meta, event.text, text)
                event = replace(event, text=text, meta=meta)
            if self.cited is not None and self.cited.mask.has_secrets:
                event = replace(event, meta=_replace_citations(event.meta, self.cited.shown))
        elif isinstance(event, PartDelta | SideText) and shown_text is not None:
            event = replace(event, text=shown_text.mask.mask(self.at, event.text))
        return event


def _mask_repeats(value: Any, text: str, masked: str) -> Any:
    """JSON data of an answer, with strings that are a substring of `text` replaced by the same
    substring of `masked`: some providers also repeat a part's text in pieces."""
    match value:
        case str():
            place = text.find(value) if len(value) >= SHORTEST else -1
            return value if place < 0 else masked[place : place + len(value)]
        case dict():
            return {name: _mask_repeats(item, text, masked) for name, item in value.items()}
        case list():
            return [_mask_repeats(item, text, masked) for item in value]
    return value


def _replace_citations(meta: Mapping[str, Any], shown: Sequence[str]) -> Mapping[str, Any]:
    """A block with its cited texts as they were shown; empty ones were not shown."""
    block = meta.get("block")
    cited = block.get("citations") if isinstance(block, dict) else None
    if not isinstance(block, dict) or not isinstance(cited, list):
        return meta
    citations, texts = [], iter(shown)
    for citation in cited:
        text = citation.get("cited_text") if isinstance(citation, dict) else None
        if text and isinstance(text, str):
            citation = {**citation, "cited_text": next(texts, text)}
        citations.append(citation)
    return {**meta, "block": {**block, "citations": citations}}


def _continued_secrets(
    redactor: Redactor, before: str, literals: Sequence[StringSpan]
) -> Iterator[tuple[StringSpan, Sequence[Span]]]:
    """For each of `literals`, its secret spans if they continue the text `before` in this order."""
    part = PartRedactor(redactor)
    part.feed(before)
    texts = [literal.text[:_LONGEST] if before else literal.text for literal in literals]
    for text in texts:
        part.feed(text)
    part.end(whole=False)
    at = len(before)
    for literal, text in zip(literals, texts, strict=True):
        yield literal, part.spans(at, at + len(text))
        at += len(text)


def _read(redactor: Redactor, texts: Iterable[str], *, whole: bool = True) -> PartRedactor:
    """The redaction of the complete text that `texts` form together."""
    part = PartRedactor(redactor)
    for text in texts:
        part.feed(text)
    part.end(whole=whole)
    return part


def _spans_of(part: PartRedactor, texts: Iterable[str]) -> Iterator[Sequence[Span]]:
    """The masked spans of each of `texts`, which together are the text of `part`."""
    at = 0
    for text in texts:
        yield part.spans(at, at + len(text))
        at += len(text)


def _star_texts(part: PartRedactor, texts: Sequence[str]) -> list[str]:
    spans = _spans_of(part, texts)
    return [replace_with_stars(text, marks, "*") for text, marks in zip(texts, spans, strict=True)]


@dataclass
class ReleasedItems:
    """What may be saved and shown, in order."""

    events: list[tuple[Event, int, int, int]] = field(default_factory=list)
    """Events with their time and byte span."""
    chunks: list[Chunk] = field(default_factory=list)


class StreamRedactor:
    """Masks the bytes and events of one answer. `masked` are the starred spans of released bytes,
    in order; `size` counts the bytes received, `saved` those released."""

    def __init__(self, recording: int, redactor: Redactor, *, joins: bool = False) -> None:
        self.masked: list[Span] = []
        self.size = 0
        self.saved = 0
        self._recording = recording
        self._redactor = redactor
        self._hash = hashlib.sha256()
        self._pieces: deque[tuple[int, bytes]] = deque()  # (time in ms, bytes) as they came
        self._events: deque[HeldEvent] = deque()
        self._joins = joins
        self._kinds: dict[int, PartKind] = {}
        self._parts: dict[int, ShownText] = {}
        self._side_texts: OrderedDict[tuple[int, str], ShownText] = (
            OrderedDict()
        )  # the oldest is quickly removed
        self._ended: dict[PartKind, tuple[ShownText, PartEnded]] = {}  # next may continue it
        self._lasts = {""}  # texts that an incomplete frame may continue
        self._undecided: HeldEvent | None = None
        self._may_wait = False  # the last text that grew held something back
        self._has_secrets = False  # some text contains, or contained, a secret
        self._cut: set[str] = set()  # ends of parts that are the beginning of a secret
        self._cut_redactor = Redactor()
        self._broken_at = sys.maxsize  # where an incomplete frame begins

    @property
    def sha256(self) -> str:
        """The hash of the released bytes, as hex digits."""
        return self._hash.hexdigest()

    @property
    def has_escapes(self) -> bool:
        """Whether a backslash is among the bytes held back."""
        return any(b"\\" in piece for _, piece in self._pieces)

    def add_bytes(self, data: bytes, at_ms: int) -> None:
        self.size += len(data)
        self._pieces.append((at_ms, data))

    def add_event(self, event: Event | SideText, at_ms: int, start: int, end: int) -> None:
        waiting = HeldEvent(event, at_ms, start, end)
        match event:
            case PartDelta(index=index, text=text):
                self._extend_text(waiting, self._parts[index], text)
            case SideText(part=index, member=member, text=text):
                self._extend_text(waiting, self._side_text(index, member), text)
            case PartStarted(index=index, part_kind=kind):
                self._kinds[index] = kind
                shown_text = ShownText(PartRedactor(self._redactor))
                if kind in self._ended:
                    before, _ = self._ended.pop(kind)
                    shown_text = ShownText(before.mask, before.mask.size, last=before.last)
                self._parts[index] = shown_text
                waiting.name = self._side_texts.get((index, "name"))
            case PartEnded(index=index):
                waiting.shown_text = shown_text = self._parts.pop(index)
                named = self._end_side_text(index, "name", whole=event.complete)
                # If the end has a different name, that is masked separately, later.
                waiting.name = named if named and named.size == len(event.name) else None
                waiting.cited = self._end_side_text(index, "cited_text", whole=event.complete)
                kind = self._kinds.pop(index)
                tokens = self._side_texts.get((TOKENS.get(kind, TOKENS["text"]), "token"))
                waiting.tokens = [tokens] if tokens is not None else []
                ends: tuple[ShownText, PartEnded] | None = (shown_text, event)
                if self._joins and kind in PROSE:
                    ends = self._ended.get(kind)
                    self._ended[kind] = shown_text, event
                if ends is not None:
                    self._end(*ends)
            case ResponseEnded() | ResponseFailed():
                streams = (
                    self._side_texts.get((token_kind, "token")) for token_kind in TOKENS.values()
                )
                waiting.tokens = [stream for stream in streams if stream is not None]
                whole = isinstance(event, ResponseEnded)
                for shown_text, ended in self._ended.values():
                    self._end(shown_text, ended, whole=whole)
                for index, member in list(self._side_texts):
                    self._end_side_text(index, member, whole=whole)
        self._events.append(waiting)

    def _extend_text(self, waiting: HeldEvent, shown_text: ShownText, text: str) -> None:
        waiting.shown_text, waiting.at = shown_text, shown_text.mask.size
        shown_text.feed(text)
        if shown_text.mask.undecided is not None:
            self._may_wait = True
        if shown_text.mask.has_secrets:
            self._has_secrets = True

    def _end(self, shown_text: ShownText, event: PartEnded, *, whole: bool = True) -> None:
        """Ends the text of the part that `event` ends; `whole`: the text is complete."""
        # If the end has a different text than the deltas, the deltas were cut off.
        same = len(event.text) == shown_text.size
        cut = shown_text.mask.end(whole=whole and event.complete and same)
        self._has_secrets = self._has_secrets or shown_text.mask.has_secrets
        if cut is None or not same:
            return
        text = event.text[max(0, cut[0] - shown_text.base) : cut[1] - shown_text.base]
        if text not in self._cut:
            self._cut.add(text)
            self._cut_redactor = Redactor(self._cut)

    def _side_text(self, index: int, member: str) -> ShownText:
        if (index, member) not in self._side_texts:
            if len(self._side_texts) >= _MOST_BESIDE:
                self._end_side_text(*next(iter(self._side_texts)), whole=True)
            self._side_texts[index, member] = ShownText(PartRedactor(self._redactor))
        return self._side_texts[index, member]

    def _end_side_text(self, index: int, member: str, *, whole: bool) -> ShownText | None:
        shown_text = self._side_texts.pop((index, member), None)
        if shown_text is not None:
            shown_text.mask.end(whole=whole)
            self._has_secrets = self._has_secrets or shown_text.mask.has_secrets
        return shown_text

    def break_off(self, settled: int) -> None:
        """The answer broke off without an end event; `settled` as for `release`."""
        self._broken_at = settled
        ended = (shown_text for shown_text, _ in self._ended.values())
        texts = chain(ended, self._parts.values(), self._side_texts.values())
        self._lasts |= {shown_text.last[-_LONGEST:] for shown_text in islice(texts, _MOST_STRINGS)}

    def release(self, settled: int) -> ReleasedItems:
        """Releases all decided content before byte `settled`, the end of the last whole frame."""
        upto = settled
        if self._may_wait:
            if self._undecided is not None and self._undecided.is_undecided:
                return ReleasedItems()
            self._undecided = next((event for event in self._events if event.is_undecided), None)
            if self._undecided is not None:
                upto = min(settled, self._undecided.start)
            self._may_wait = self._undecided is not None
        events: list[HeldEvent] = []
        while self._events and self._events[0].end <= upto:
            events.append(self._events.popleft())
        pieces = self._pieces_before(upto)
        data = pieces[0][1] if len(pieces) == 1 else b"".join(piece for _, piece in pieces)
        if (stars := self._stars_in(data, upto, events)) is not None:
            data = self._star_bytes(data, stars)
        released = ReleasedItems()
        for waiting in events:
            event = self._show(waiting)
            if not isinstance(event, SideText):
                released.events.append((event, waiting.at_ms, waiting.start, waiting.end))
        self._hash.update(data)
        start = 0
        for at_ms, piece in pieces:
            end = start + len(piece)
            released.chunks.append(
                Chunk(self._recording, self.saved + start, at_ms, data[start:end])
            )
            start = end
        self.saved += start
        return released

    def _pieces_before(self, upto: int) -> list[tuple[int, bytes]]:
        """The held-back bytes before `upto`, as received; the last piece may be cut."""
        pieces, left = [], upto - self.saved
        while left > 0:
            at_ms, piece = self._pieces.popleft()
            if len(piece) > left:
                self._pieces.appendleft((at_ms, piece[left:]))
                piece = piece[:left]
            pieces.append((at_ms, piece))
            left -= len(piece)
        return pieces

    def _stars_in(self, data: bytes, upto: int, events: Sequence[HeldEvent]) -> Stars | None:
        """The stars in `data`, the first held-back bytes, up to byte `upto`, for `events`; None if
        there can be none, as in most deltas."""
        may_hide = b"\\" in data or b'token"' in data  # its name may be escaped, too
        if not (may_hide or self._has_secrets or self._cut or self._broken_at < upto):
            return None
        stars = Stars(self._redactor.escaped_spans(data))
        if self._cut:
            stars.spans += self._repeated_spans(data, events)
        if self._broken_at < upto and self._redactor.knows_any:
            stars.spans += self._broken_frame_spans(data, events)
        if may_hide and has_tokens(data):
            stars.add(self._repeated_token_stars(data, events))
        if self._has_secrets:
            stars.add(self._frame_stars(data, events))
        return stars

    def _show(self, waiting: HeldEvent) -> Event | SideText:
        """The event as it may be shown."""
        event, shown_text = waiting.event, waiting.shown_text
        if self._has_secrets and waiting.has_secrets:
            event = waiting.mask_event()
        if isinstance(event, PartDelta) and shown_text is not None:
            shown_text.show(event.text)
        elif isinstance(event, PartEnded | ResponseEnded):
            event = replace(event, meta=self._replace_tokens(event.meta, waiting.tokens))
        elif isinstance(event, SideText) and event.member in _LISTED and shown_text is not None:
            shown_text.shown.append(event.text)
        elif isinstance(event, Warned | ResponseFailed) and self._cut:
            event = redact_event(event, self._cut_redactor)
        return event

    def _replace_tokens(
        self, meta: Mapping[str, Any], tokens: Sequence[ShownText]
    ) -> Mapping[str, Any]:
        """Replaces the tokens in an event's data by those shown, and masks the tokens that a
        provider repeats at the end of a part as one text."""
        content = meta.get("content")
        again = content.get("logprobs") if isinstance(content, dict) else None
        if isinstance(content, dict) and (texts := texts_of(again)):
            part = _read(self._redactor, texts)
            if part.has_secrets:
                likely = with_texts(content["logprobs"], _star_texts(part, texts))
                meta = {**meta, "content": {**content, "logprobs": likely}}
        count = len(texts_of(meta.get("logprobs")))
        texts = []
        for item in tokens:
            more = item.shown[: count - len(texts)]
            del item.shown[: len(more)]
            texts += more
        if not any("*" in text for text in texts):
            return meta
        return {**meta, "logprobs": with_texts(meta["logprobs"], texts)}

    def _star_bytes(self, data: bytes, stars: Stars) -> bytes:
        """`data`, the first held-back bytes, with its stars."""
        starred = bytearray(data)
        for place in stars.quoted:
            if place < len(data):  # the bracket that ends a list may be missing
                starred[place] = ord('"')
        for start, end in merge_spans(stars.spans):
            starred[start:end] = b"*" * (end - start)
            self.masked.append((self.saved + start, self.saved + end))
        return bytes(starred)

    def _repeated_token_stars(self, data: bytes, events: Iterable[HeldEvent]) -> Stars:
        """The stars in token lists of frames that have no token event."""
        frames = merge_spans(
            (waiting.start, waiting.end)
            for waiting in events
            if isinstance(waiting.event, SideText) and waiting.event.member == "token"
        )
        stars, at = Stars(), self.saved
        for start, end in [*frames, (self.saved + len(data),) * 2]:
            between = data[at - self.saved : start - self.saved]
            for tokens in token_lists(between).lists if has_tokens(between) else ():
                texts = [token.literal.text for token in tokens]
                part = _read(self._redactor, texts)
                if part.has_secrets:
                    pairs = zip(tokens, _spans_of(part, texts), strict=True)
                    stars.add(starred_tokens(between, pairs), at - self.saved)
            at = max(at, end)
        return stars

    def _frame_stars(self, data: bytes, events: Iterable[HeldEvent]) -> Stars:
        """The stars in `data`, the first held-back bytes, for the texts of `events`."""
        frames: dict[tuple[Span, str], list[tuple[str, Sequence[Span]]]] = {}
        starred_frames: set[tuple[Span, str]] = set()
        for waiting in events:
            event = waiting.event
            if isinstance(event, PartDelta | SideText) and waiting.start >= self.saved:
                span = (waiting.start - self.saved, waiting.end - self.saved)
                member = event.member if isinstance(event, SideText) else ""
                frames.setdefault((span, member), []).append((event.text, waiting.stars))
                if waiting.stars:
                    starred_frames.add((span, member))
        stars = Stars()
        for (start, end), member in starred_frames:
            frame, deltas = data[start:end], frames[(start, end), member]
            if member == "token":
                stars.add(star_tokens(frame, deltas), start)
            else:
                members = {member.encode()} if member else TEXT_MEMBERS
                stars.add(Stars(star_deltas(frame, deltas, members)), start)
        return stars

    def _repeated_spans(self, data: bytes, events: Iterable[HeldEvent]) -> Iterator[Span]:
        """The spans of incomplete secrets in frames without deltas: at the end of a part some
        providers repeat its text."""
        text_events = (
            waiting for waiting in events if isinstance(waiting.event, PartDelta | SideText)
        )
        deltas = merge_spans((delta.start, delta.end) for delta in text_events)
        at = self.saved
        for start, end in [*deltas, (self.saved + len(data),) * 2]:
            between = data[at - self.saved : start - self.saved]
            for first, last in self._cut_redactor.byte_spans(between):
                yield at - self.saved + first, at - self.saved + last
            at = max(at, end)

    def _broken_frame_spans(self, data: bytes, events: Sequence[HeldEvent]) -> Iterator[Span]:
        """The spans of strings that continue or begin a secret in a frame that no decoder could
        read, so it is unknown to which part they belong."""
        deltas = (waiting for waiting in events if isinstance(waiting.event, PartDelta | SideText))
        if any(delta.end > self._broken_at for delta in deltas):
            return  # only its last line end was missing
        at = self._broken_at - self.saved
        frame = data[at:]
        literals = list(islice(text_literals(frame, _MEMBERS, broken=True), _MOST_STRINGS))
        of_members: dict[bytes, list[StringSpan]] = {}
        for literal in literals:
            of_members.setdefault(literal.name, []).append(literal)
        runs = [run for run in of_members.values() if len(run) > 1]
        # Each string is mapped to bytes once, not once for each text that it may continue.
        broken: dict[int, tuple[StringSpan, list[Span]]] = {}
        for run in (*([literal] for literal in literals), *runs):
            for last_text in self._lasts:
                for literal, spans in _continued_secrets(self._redactor, last_text, run):
                    broken.setdefault(literal.start, (literal, []))[1].extend(spans)
        for literal, spans in broken.values():
            for first, last in bytes_of(frame, literal, merge_spans(spans)):
                yield at + first, at + last
        if has_tokens(frame):
            # Which of them together are a text is unknown as well: alternatives may come before
            # the tokens that were chosen, and the frame may end in between.
            yield from ((at + start, at + end) for start, end in token_spans(frame) if start < end)
