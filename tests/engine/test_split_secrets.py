"""A known secret that comes in pieces is seen by nobody: not in an event, not in a recorded byte.

Whatever the protocol, the cuts, the escapes and the parts between which it alternates. Threat 16.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from playground.core.events import (
    Event,
    Logged,
    PartDelta,
    PartEnded,
    RequestSent,
    ResponseStarted,
    Source,
    Warned,
)
from playground.core.settings import Limits
from playground.engine.redaction import ReleasedItems, StreamRedactor, redact_event
from playground.engine.responses import PreparedRequest, Received, ResponseRecorder
from playground.engine.sessions import SessionStore
from playground.engine.verify import check_session
from playground.net.client import NetworkError
from playground.protocols.registry import codec
from playground.secrets.redaction import Redactor
from playground.store.writes import Chunk, ClosedRecording
from tests.factories import Log, settings
from tests.protocols import gemini, responses
from tests.protocols.frames import UNHURRIED, calls, chunk, fragment, line, lines, spanned, sse

pytestmark = pytest.mark.anyio

SECRET = "sk-canary/0f1e2d+3c4b5a69"
MASKER = Redactor([SECRET])

Part = tuple[str, list[str]]
"""What kind of part it is, and its pieces."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')

FORMS: dict[str, Callable[[random.Random], str]] = {
    "plain": lambda _: SECRET,
    "percent": lambda _: quote(SECRET, safe=""),
    "base64": lambda random_: base64.b64encode(
        b"x" * random_.randint(0, 2) + SECRET.encode() + b"yz"
    ).decode(),
    "escaped": lambda random_: "".join(
        f"\\u{ord(text):04x}" if random_.random() < 0.4 else text for text in SECRET
    ),
    "a beginning": lambda random_: SECRET[: random_.randint(1, 7)],
}


@dataclass
class Saved:
    """A session that keeps what the recorder saves, as the session store would."""

    log: list[Logged] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    closed: dict[int, ClosedRecording] = field(default_factory=dict)

    async def append(
        self,
        _: Any,
        events: Sequence[Event],
        *,
        times: Sequence[int],
        sources: Sequence[Source],
        chunks: Sequence[Chunk],
        closed: ClosedRecording | None,
        then: object,
    ) -> None:
        for event, at_ms, source in zip(events, times, sources, strict=True):
            seq = self.log[-1].seq + 1
            self.log.append(Logged(seq, at_ms, redact_event(event, MASKER), source))
        self.chunks += chunks
        if closed is not None:
            self.closed[closed.recording] = closed

    @property
    def data(self) -> bytes:
        return b"".join(chunk.data for chunk in self.chunks)

    def differences(self) -> list[str]:
        return [
            difference.line
            for difference in check_session("s", self.log, self.chunks, self.closed).differences
        ]


async def save_answer(
    protocol: str,
    pieces: Sequence[bytes],
    *,
    clean: bool = True,
    ended: bool = True,
    limits: Limits = Limits(),  # noqa: B008
) -> Saved:
    """What is saved of an answer whose bytes arrive as `pieces`; it is whole at every moment."""
    log = Log().start(settings(limits=limits)).request(protocol=protocol)
    saved = Saved(list(log.events[:-1]))
    sent = saved.log[-1].event
    assert isinstance(sent, RequestSent)
    prepared = PreparedRequest(sent, codec(protocol), {}, b"", limits)

    async def then(_: Any) -> None: ...

    writing = ResponseRecorder(cast(SessionStore, saved), "s", prepared, MASKER, then)
    await writing.take([Received(0, started=ResponseStarted(200, {}))], lambda: None)
    for nth, piece in enumerate(pieces, 1):
        if not writing.over:
            await writing.take([Received(nth, piece)], lambda: None)
            if nth % (1 + len(pieces) // 4) == 0:
                assert saved.differences() == []
    if ended and not writing.over:
        trouble = None if clean else NetworkError("interrupted", "It broke.", began=True)
        await writing.take([Received(len(pieces) + 1, ended=True, trouble=trouble)], lambda: None)
    return saved


def interleaved(parts: Sequence[Part]) -> Iterator[tuple[int, str, str]]:
    """(number, kind, piece), one of each part after the other."""
    for nth in range(max(len(pieces) for _, pieces in parts)):
        for number, (kind, pieces) in enumerate(parts):
            if nth < len(pieces):
                yield number, kind, pieces[nth]


def anthropic(parts: Sequence[Part]) -> list[Any]:
    starts = {
        "text": {"type": "text", "text": ""},
        "thinking": {"type": "thinking", "thinking": ""},
        "call": {"type": "tool_use", "id": "t", "name": "f", "input": {}},
    }
    deltas = {
        "text": ("text_delta", "text"),
        "thinking": ("thinking_delta", "thinking"),
        "call": ("input_json_delta", "partial_json"),
    }
    values: list[Any] = [{"type": "message_start", "message": {"id": "m", "usage": {}}}]
    for number, (kind, _) in enumerate(parts):
        block = starts[kind]
        values.append({"type": "content_block_start", "index": number, "content_block": block})
    for number, kind, piece in interleaved(parts):
        type_, member = deltas[kind]
        delta = {"type": type_, member: piece}
        values.append({"type": "content_block_delta", "index": number, "delta": delta})
    values += [{"type": "content_block_stop", "index": number} for number in range(len(parts))]
    values.append({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}})
    return [*values, {"type": "message_stop"}]


def openai_chat(parts: Sequence[Part]) -> list[Any]:
    """Prose comes part by part there; only calls alternate."""
    members = {"text": "content", "thinking": "reasoning", "refusal": "refusal"}
    values = []
    for kind, pieces in parts:
        for piece in pieces if kind in members else ():
            delta: dict[str, Any] = {members[kind]: piece}
            if kind == "thinking":
                delta["reasoning_details"] = [{"type": "reasoning.text", "text": piece, "index": 0}]
            values.append(chunk(delta))
    called = [(kind, ["", *pieces]) for kind, pieces in parts if kind == "call"]
    for number, _, piece in interleaved(called) if called else ():
        head = {"id": f"c{number}", "name": "f"} if not piece else {}
        values.append(calls(fragment(number, arguments=piece, **head)))
    return [*values, chunk({}, "tool_calls" if called else "stop"), "[DONE]"]


def openai_responses(parts: Sequence[Part]) -> list[Any]:
    items: list[dict[str, Any]] = []
    values: list[Any] = []
    for number, (kind, pieces) in enumerate(parts):
        message = "".join(pieces)
        match kind:
            case "call":
                items.append(responses.call(message, f"call_{number}"))
                values.append(responses.added(number, responses.call("", f"call_{number}")))
            case "thinking":
                items.append(responses.reasoning(message))
                values.append(responses.added(number, responses.reasoning()))
            case _:
                items.append(responses.message(message))
                values.append(responses.added(number, responses.message()))
    tell = {"call": responses.args, "thinking": responses.summary, "text": responses.text}
    values += [tell[kind](number, piece) for number, kind, piece in interleaved(parts)]
    values += [responses.done(number, item) for number, item in enumerate(items)]
    return [*values, responses.completed(*items)]


def gemini_events(parts: Sequence[Part]) -> list[Any]:
    values = []
    for kind, pieces in parts:
        if kind == "call":
            values.append(gemini.event(gemini.growing(name="f")))
            for piece in pieces:
                answer = gemini.partial_arg("$.a", stringValue=piece, more=True)
                values.append(gemini.event(gemini.growing(answer)))
            values.append(gemini.event(gemini.growing(gemini.partial_arg("$.a", stringValue=""))))
            values.append(gemini.event(gemini.growing(goes_on=False)))
        else:
            thought = {"thought": True} if kind == "thinking" else {}
            values += [gemini.event(gemini.text(piece, **thought)) for piece in pieces]
    return [*values, gemini.event(reason="STOP")]


def ollama(parts: Sequence[Part]) -> list[Any]:
    values = []
    for kind, pieces in parts:
        if kind == "call":
            function = {"name": "f", "arguments": {"a": "".join(pieces)}}
            values.append(line({"content": "", "tool_calls": [{"function": function}]}))
        else:
            member = "thinking" if kind == "thinking" else "content"
            values += [line({"content": "", member: piece}) for piece in pieces]
    return [*values, line({"content": ""}, done=True, done_reason="stop")]


PROTOCOLS = {
    "anthropic": (anthropic, ("text", "thinking", "call")),
    "openai_chat": (openai_chat, ("text", "thinking", "refusal", "call")),
    "openai_responses": (openai_responses, ("text", "thinking", "call")),
    "gemini": (gemini_events, ("text", "thinking", "call")),
    "ollama": (ollama, ("text", "thinking", "call")),
}


def with_escapes(body: bytes, share: float, random_: random.Random) -> bytes:
    """`body` with a share of the letters in its strings as escapes, which none of them needs."""

    def escape(string: re.Match[bytes]) -> bytes:
        characters = re.findall(rb"\\.|[^\\]", string[0][1:-1])
        return b'"%s"' % b"".join(
            (b"\\/" if character == b"/" else b"\\u%04x" % character[0])
            if len(character) == 1 and random_.random() < share
            else character
            for character in characters
        )

    return _STRING.sub(escape, body) if share else body


def cut(text: Any, random_: random.Random, most: int) -> list[Any]:
    """`text` in pieces of 1 to `most` characters or bytes."""
    pieces, start = [], 0
    while start < len(text):
        size = random_.randint(1, most)
        pieces.append(text[start : start + size])
        start += size
    return pieces


def answer(protocol: str, random_: random.Random) -> bytes:
    """A body whose parts say our key in some form, in pieces."""
    make, kinds = PROTOCOLS[protocol]
    parts: list[Part] = []
    for _ in range(random_.randint(1, 3)):
        kind = random_.choice(kinds)
        if kind in ("text", "thinking") and any(other == kind for other, _ in parts):
            kind = "call"  # else two would be one in protocols that tell no parts apart
        forms = random_.choices(sorted(FORMS), k=random_.randint(1, 3))
        message = " and ".join(FORMS[form](random_) for form in forms)
        message = f"my key is {message}" + random_.choice(("", ".", " it is"))
        if kind == "call" and protocol not in ("gemini", "ollama"):
            message = f'{{"a": "{message}"}}'
        parts.append((kind, cut(message, random_, random_.choice((1, 3, 12, 200)))))
    values = make(parts)
    body = lines(*values) if protocol == "ollama" else sse(*values)
    return with_escapes(body, random_.choice((0, 0.2, 1)), random_)


@example("ollama", 1611)  # in a member of the arguments, which no part is made of
@UNHURRIED
@given(st.sampled_from(sorted(PROTOCOLS)), st.integers(0, 2**32))
def test_an_answer_that_breaks_off_shows_none_either(protocol: str, seed: int) -> None:
    random_ = random.Random(seed)
    body = answer(protocol, random_)
    body = body[: random_.randint(0, len(body))]
    pieces = cut(body, random_, random_.choice((90, 5000)))
    saved = asyncio.run(save_answer(protocol, pieces, clean=random_.random() < 0.5))
    assert len(saved.data) <= len(body)
    for text in (saved.data.decode(), *(str(logged.event) for logged in saved.log)):
        assert SECRET[4:9] not in text
    assert saved.differences() == []


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kind", ["text", "thinking"])
def test_most_of_a_secret_at_the_end_is_seen_by_nobody(
    protocol: str, kind: str, clean: bool
) -> None:
    """Nor where the end of the part and that of the answer say it once more."""
    parts = [(kind, ["my key is ", *SECRET[:-2]]), ("call", ['{"a": 1}'])]
    make, _ = PROTOCOLS[protocol]
    frames = [lines(item) if protocol == "ollama" else sse(item) for item in make(parts)]
    saved = asyncio.run(save_answer(protocol, frames, clean=clean))
    for text in (saved.data.decode(), *(str(logged.event) for logged in saved.log)):
        assert SECRET[4:9] not in text
    assert saved.differences() == []


async def test_an_error_that_says_most_of_a_secret_once_more_agrees_with_its_bytes() -> None:
    cut = SECRET[:-2]
    error = {"code": "x", "message": f"no {cut}"}
    body = responses.body(responses.message(cut), status="failed", error=error)
    frames = openai_responses([("text", [cut[:9], cut[9:]])])[:-2]
    frames.append(responses.event("failed", response=body))
    saved = await save_answer("openai_responses", [sse(frame) for frame in frames])
    assert SECRET[4:9] not in saved.data.decode() + str(saved.log[-1].event)
    assert saved.differences() == []


@pytest.mark.parametrize("after", ["", '", "x": "y', '"}}]}'])
@pytest.mark.parametrize("start", [0, 3, 7, 12])
async def test_a_frame_that_broke_off_goes_on_with_no_secret(start: int, after: str) -> None:
    """Nobody decodes it; its bytes are kept all the same."""
    frame = 'data: {"choices": [{"delta": {"content": "' + SECRET[start:18] + after
    frames = [sse(chunk({"content": f"a {SECRET[:start]}"})), frame.encode()]
    saved = await save_answer("openai_chat", frames, clean=False)
    assert SECRET[max(start, 4) : 18].encode() not in saved.data
    assert saved.data.startswith(frames[0][:40])
    assert len(saved.data) == sum(map(len, frames))
    assert saved.differences() == []


@pytest.mark.parametrize("after", ["", " it is"])
async def test_a_key_with_characters_that_json_escapes_differs_from_no_end(
    monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    """In pieces it has fewer characters than its escapes have bytes, which are stars at the end."""
    key = 'k<é>y"&%20-ü日本-77'
    monkeypatch.setattr(f"{__name__}.MASKER", Redactor([key]))
    parts = [("text", ["so ", *key, *key, after]), ("thinking", ["hm ", *key])]
    saved = await save_answer(
        "openai_responses", [sse(openai_response) for openai_response in openai_responses(parts)]
    )
    warned = [logged.event.code for logged in saved.log if isinstance(logged.event, Warned)]
    assert warned == ["no_opening"]
    assert key[4:9] not in saved.data.decode() + str([logged.event for logged in saved.log])
    assert saved.differences() == []


async def test_a_quote_outside_of_the_json_of_a_frame_hides_nothing() -> None:
    frames = [b'event: "x\r\n' + sse(chunk({"content": char})) for char in SECRET]
    saved = await save_answer("openai_chat", [*frames, sse(chunk({}, "stop"), "[DONE]")])
    texts = texts_of([event for _, _, event in spanned("openai_chat", saved.data)])
    assert texts == {0: "sk-" + "*" * len(SECRET[3:])}
    assert saved.differences() == []


def chunk_frames(*pieces: str) -> list[bytes]:
    """Each piece as a frame of its own."""
    return [sse(chunk({"content": piece})) for piece in pieces]


@pytest.mark.parametrize(
    ("pieces", "shown_text"),
    [
        (["Let me ask-"], "Let me ask-"),  # three characters of a key hold nothing up
        (["a ", "sk-c"], "a "),
        (["a s", "k-", "c", "a"], "a sk-"),
        (["a s", "k-", "c", "ow", " b"], "a sk-cow b"),
        (["a sk-can", "dy no"], "a sk-candy no"),
        (["a s", "k-", "c", SECRET[4:], " b"], f"a sk-{'*' * (len(SECRET) - 3)} b"),
        (["a", f" {SECRET[:9]}", SECRET[9:]], f"a {'*' * len(SECRET)}"),
    ],
)
async def test_what_may_be_a_secret_waits_until_it_is_decided(
    pieces: list[str], shown_text: str
) -> None:
    saved = await save_answer("openai_chat", chunk_frames(*pieces), ended=False)
    assert texts_of([logged.event for logged in saved.log]) == {0: shown_text}
    assert len(saved.data) == len(b"".join(chunk_frames(*pieces)[: saved.data.count(b"data: ")]))
    assert SECRET[4:9].encode() not in saved.data
    assert saved.differences() == []


async def test_what_waited_has_the_time_of_its_arrival_and_its_place() -> None:
    """Other parts wait behind it: an event never overtakes another."""
    frames = [
        calls(fragment(0, "a", "f", "")),
        calls(fragment(1, "b", "f", "")),
        calls(fragment(0, arguments='{"a": "sk-c')),
        calls(fragment(1, arguments='{"b": 1}')),
        calls(fragment(0, arguments='ow"}')),
    ]
    pieces = [sse(frame) for frame in frames]
    before = await save_answer("openai_chat", pieces[:4], ended=False)
    assert texts_of([logged.event for logged in before.log]) == {}
    assert before.data == b"".join(pieces[:2])
    after = await save_answer("openai_chat", pieces, ended=False)
    loggeds = [logged for logged in after.log if isinstance(logged.event, PartDelta)]
    assert [(cast(PartDelta, logged.event).index, logged.at_ms) for logged in loggeds] == [
        (0, 3),
        (1, 4),
        (0, 5),
    ]
    assert [chunk.at_ms for chunk in after.chunks] == [1, 2, 3, 4, 5]


def texts_of(events: Sequence[Event]) -> dict[int, str]:
    """What the deltas of each part say together."""
    texts: dict[int, str] = {}
    for event in events:
        if isinstance(event, PartDelta):
            texts[event.index] = texts.get(event.index, "") + event.text
    return texts


def shown_of(text: str, start: int) -> range:
    """The places of the characters of a secret at `start` that may be seen before it is decided:
    three, each of them perhaps an escape, and one that is not yet a whole escape."""
    escaped = "\\" in text[start : start + 4]
    return range(start, start + (40 if escaped else 3))


def shape(start: int, end: int, event: Event) -> tuple[Any, ...]:
    size = len(event.text) if isinstance(event, PartDelta | PartEnded) else 0
    return type(event), getattr(event, "index", -1), start, end, size


@UNHURRIED
@given(st.sampled_from(sorted(PROTOCOLS)), st.integers(0, 2**32))
def test_a_split_secret_is_seen_by_nobody(protocol: str, seed: int) -> None:
    seen_by_nobody(protocol, random.Random(seed))


def seen_by_nobody(protocol: str, random_: random.Random) -> None:
    body = answer(protocol, random_)
    saved = asyncio.run(save_answer(protocol, cut(body, random_, random_.choice((7, 90, 5000)))))
    events = [logged.event for logged in saved.log]
    plain_events = [(start, end, event) for start, end, event in spanned(protocol, body)]

    logged = [
        (logged.source.start, logged.source.end, logged.event)
        for logged in saved.log
        if logged.source is not None and not isinstance(logged.event, ResponseStarted)
    ]
    assert [shape(*row) for row in logged] == [shape(*row) for row in plain_events]

    whole_texts = texts_of([event for _, _, event in plain_events])
    for index, text in texts_of(events).items():
        spans = MASKER.spans(whole_texts[index])
        stars = MASKER.redact_text(whole_texts[index])
        shown_places = {
            place for start, _ in spans for place in shown_of(whole_texts[index], start)
        }
        assert len(text) == len(stars)
        for place, (char, wanted) in enumerate(zip(text, stars, strict=True)):
            assert char == wanted or (place in shown_places and char == whole_texts[index][place])
        (ended,) = [e for e in events if isinstance(e, PartEnded) and e.index == index]
        assert ended.text == stars

    covered = {place for start, end in saved.closed[1].masked for place in range(start, end)}
    assert len(saved.data) == len(body)
    for place, (byte, sent) in enumerate(zip(saved.data, body, strict=True)):
        assert byte == (ord("*") if place in covered else sent)
    seen_texts = [text for _, _, event in spanned(protocol, saved.data) for text in [str(event)]]
    for text in (saved.data.decode(), *seen_texts, *(str(event) for event in events)):
        assert SECRET[4:9] not in text
        assert SECRET[-6:] not in text
    assert saved.differences() == []


@pytest.mark.parametrize("much", [True, False])
async def test_a_large_event_is_looked_through_while_others_get_their_turn(
    monkeypatch: pytest.MonkeyPatch, much: bool
) -> None:
    """In another thread; what is small is not worth one. Both save the same."""
    threads: set[int] = set()
    release = StreamRedactor.release

    def note_release(redactor: StreamRedactor, settled: int) -> ReleasedItems:
        if redactor.size > redactor.saved:
            threads.add(threading.get_ident())
        return release(redactor, settled)

    monkeypatch.setattr(StreamRedactor, "release", note_release)
    monkeypatch.setattr("playground.engine.responses.MUCH", 0 if much else 2**20)
    message = json.dumps({"key": SECRET})
    body = b"".join(sse(value) for value in anthropic([("call", [message[:20], message[20:]])]))
    saved = await save_answer("anthropic", [body[:300], body[300:]])
    assert (threading.get_ident() in threads) != much
    assert len(threads) == 1 or much
    ended = [logged.event for logged in saved.log if isinstance(logged.event, PartEnded)]
    assert [len(item.text) for item in ended] == [len(message)]
    assert ended[0].text == message.replace(SECRET, "*" * len(SECRET))
    assert saved.differences() == []
