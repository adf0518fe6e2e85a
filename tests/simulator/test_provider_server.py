"""Codec and server end are the two sides of one protocol: what one writes the other reads."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from playground.core.events import PartEnded, ResponseEnded, ResponseFailed
from playground.core.messages import ModelRequest
from playground.core.tools import Tool, ToolChoice
from playground.protocols.registry import CODECS
from playground.protocols.server import (
    IdSource,
    ModelReply,
    OutgoingFrame,
    ParsedRequest,
    ProviderServer,
    ReplyBlock,
    call,
    pieces,
)
from playground.simulator.app import ENDS
from playground.simulator.faults import parse_fault
from playground.simulator.model import reply
from tests.simulator.factories import SHELF, asking, calls_message, results, user

VERSION = {"anthropic-version": "2023-06-01"}
SUM = ("c1", "calculator", '{"expression": "17*23"}')
SAID = ModelReply(
    (ReplyBlock("text", "Grüße 世界 🌍"), call("f", {"x": "é"}), call("f", "")), "calls"
)
both = pytest.mark.parametrize("end", ENDS, ids=[end.name for end in ENDS])
STAMP = IdSource("s", 0)


def frames(end: ProviderServer, answer: ModelReply) -> list[OutgoingFrame]:
    body = _read(end, asking(user("hi"), max_tokens=500))
    return list(end.frames(answer, body, STAMP))


def _read(end: ProviderServer, request: ModelRequest) -> ParsedRequest:
    """What the end makes of the request as its codec writes it."""
    if end.name == "gemini":  # before the third generation its calls have no ids
        request = replace(request, model="gemini-3-x")
    sent = CODECS[end.name].encode(request)
    return end.parse(sent.body, VERSION, sent.path)


def decoded(end: ProviderServer, data: bytes, *, clean: bool = True) -> list[object]:
    decoder = CODECS[end.name].decoder(200)
    return [event for _, _, event in decoder.feed(data) + decoder.end(clean)]


@both
@pytest.mark.parametrize("streamed", [True, False])
def test_the_codec_reads_what_was_said(end: ProviderServer, streamed: bool) -> None:
    body = _read(end, asking(user("hi"), max_tokens=500))
    data = b"".join(frame.data for frame in frames(end, SAID))
    events = decoded(end, data if streamed else end.whole(SAID, body, STAMP))
    ended = [event for event in events if isinstance(event, PartEnded)]
    assert [part.name for part in ended] == ["", "f", "f"]
    assert ended[0].text == "Grüße 世界 🌍"
    assert json.loads(ended[1].text) == {"x": "é"}
    assert len({part.provider_id for part in ended[1:]}) == 2
    assert isinstance(events[-1], ResponseEnded)
    assert events[-1].reason == "calls"


@both
@pytest.mark.parametrize(
    "choice",
    [ToolChoice(), ToolChoice("required", parallel=False), ToolChoice("tool", "translate")],
)
def test_the_end_reads_what_the_codec_wrote(end: ProviderServer, choice: ToolChoice) -> None:
    history = (user("17*23?"), calls_message(SUM), results(("c1", "391")))
    request = asking(*history, tools=SHELF, choice=choice, max_tokens=500)
    read = _read(end, request).request
    assert _roles(read) == _roles(request)
    if end.name == "ollama":  # it has no tool choice: the codec narrows the tools instead
        request = replace(request, tools=_narrowed(choice), choice=ToolChoice())
    if end.name == "gemini":  # it has no word for one call at a time
        request = replace(request, choice=replace(choice, parallel=True))
    assert [tool.name for tool in read.tools] == [tool.name for tool in request.tools]
    assert read.choice == request.choice
    assert reply(read) == reply(request)


def _narrowed(choice: ToolChoice) -> tuple[Tool, ...]:
    return tuple(tool for tool in SHELF if choice.mode != "tool" or tool.name == choice.name)


def _roles(request: ModelRequest) -> list[str]:
    return [message.role for message in request.messages]


@both
@pytest.mark.parametrize(
    ("fault", "end_as"),
    [
        ("cut-after-3", "interrupted"),
        ("cut-bytes-300", "interrupted"),
        ("rst-after-4", "interrupted"),
        ("clean-end-mid-args", "interrupted"),
        ("finish-missing", "interrupted"),
        ("error-mid", "error"),
        ("no-done", "calls"),
        ("utf8-split", "calls"),
        ("one-byte-chunks", "calls"),
        ("comment-flood", "calls"),
        ("crlf", "calls"),
        ("all-in-one", "calls"),
    ],
)
def test_a_twisted_stream_is_read_for_what_it_is(
    end: ProviderServer, fault: str, end_as: str
) -> None:
    injected = parse_fault(fault)
    assert injected.fault.twist is not None
    twisted = list(injected.fault.twist(frames(end, SAID), end, injected.number))
    dirty = any(frame.tag == "cut" for frame in twisted)
    events = decoded(end, b"".join(frame.data for frame in twisted), clean=not dirty)
    last = [e for e in events if isinstance(e, ResponseEnded | ResponseFailed)]
    assert len(last) == 1
    literal = last[0].failure if isinstance(last[0], ResponseFailed) else last[0].reason
    assert literal == end_as


@both
@pytest.mark.parametrize(
    "text",
    [
        '{"x": 1, "x": 2}',
        '{"x": NaN}',
        '{"x": 1.10,\n "y": 1e400}',
        '{"x": %s}' % ("7" * 5000),
        '{"x": "\\ud800"}',
    ],
    ids=["twice", "nan", "digits", "long", "half"],
)
def test_arguments_stand_to_the_letter_in_a_json_answer(end: ProviderServer, text: str) -> None:
    body = _read(end, asking(user("hi"), max_tokens=500))
    events = decoded(end, end.whole(ModelReply((call("f", text),), "calls"), body, STAMP))
    parts = [event for event in events if isinstance(event, PartEnded)]
    if end.name == "gemini" and "NaN" in text:
        assert parts == []
        return
    (part,) = parts
    assert part.text in (text, _unread(end, text))
    assert part.text == text or "NaN" in text


def _unread(end: ProviderServer, text: str) -> str:
    """How a call that the provider itself cannot read is said, if it says such a call at all."""
    return f'{{"name": "f", "arguments": {text}}}' if end.name == "ollama" else text


@both
@pytest.mark.parametrize("text", ["Sure! {city", "[" * 10_000, "half \ud800"])
def test_what_is_no_json_is_a_text_in_a_json_answer(end: ProviderServer, text: str) -> None:
    body = _read(end, asking(user("hi"), max_tokens=500))
    events = decoded(end, end.whole(ModelReply((call("f", text),), "calls"), body, STAMP))
    parts = [event for event in events if isinstance(event, PartEnded)]
    if end.name == "gemini":  # it gives such a call up, and says so in its finish reason
        assert parts == []
        return
    (part,) = parts
    as_text = (json.dumps(text), json.dumps(text, ensure_ascii=False))
    assert part.text in (text, *as_text, _unread(end, text).replace("\ud800", "\ufffd"))


def test_pieces_are_of_a_readers_size_or_as_asked() -> None:
    text = "The quick brown fox jumps over the lazy dog."
    assert "".join(pieces(ReplyBlock("text", text), STAMP.chance())) == text
    assert all(
        3 <= len(p) <= 8 for p in list(pieces(ReplyBlock("text", text), STAMP.chance()))[:-1]
    )
    assert {len(p) for p in pieces(ReplyBlock("text", "a" * 64, piece=8), STAMP.chance())} == {8}


def test_ids_are_one_for_a_place_and_a_request() -> None:
    assert STAMP.id("x", 0) == IdSource("s", 9).id("x", 0)
    assert len({STAMP.id("x", 0), STAMP.id("x", 1), IdSource("t", 0).id("x", 0)}) == 3


@both
def test_a_refused_key_says_where_that_is_known_from(end: ProviderServer) -> None:
    refused = [end.bad_key("k"), *([end.no_key] if end.no_key else [])]
    assert all(problem.source for problem in refused)
