"""A known secret in pieces is seen by nobody where no delta brings it either: calls that are not
taken, names in pieces, texts between which parts begin anew, cited texts. Threat 16.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.settings import Limits
from tests.engine.test_split_secrets import SECRET, Saved, cut, with_escapes, written
from tests.tables import each_row
from tests.wire import gemini, responses
from tests.wire.frames import UNHURRIED, calls, chunk, fragment, line, lines, message, sse

pytestmark = pytest.mark.anyio

ONE = Limits(max_calls_per_answer=1)
HALVES = (SECRET[:11], SECRET[11:])


def seen_by_nobody(saved: Saved, secret: str = SECRET) -> None:
    for text in (saved.data.decode(), *(str(one.event) for one in saved.log)):
        assert secret[4:9] not in text
        assert secret[-6:] not in text
    assert saved.differences() == []


def _chat_calls(pieces: Sequence[str]) -> list[Any]:
    """The second and the third call alternate."""
    values = [calls(fragment(number, f"c{number}", "f", "")) for number in range(3)]
    values.append(calls(fragment(0, arguments="{}")))
    for piece in pieces:
        values += [calls(fragment(1, arguments=piece)), calls(fragment(2, arguments="x"))]
    return [*values, chunk({}, "tool_calls"), "[DONE]"]


def _anthropic_calls(pieces: Sequence[str]) -> bytes:
    start = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    said = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return message([start], [start, *said], reason="tool_use")


def _responses_calls(pieces: Sequence[str]) -> list[Any]:
    items = [responses.call("{}", "c0"), responses.call("".join(pieces), "c1")]
    values = [responses.added(n, responses.call("", f"c{n}")) for n in range(2)]
    values += [responses.args(1, piece) for piece in pieces]
    values += [responses.done(number, item) for number, item in enumerate(items)]
    return [*values, responses.completed(*items)]


def _gemini_calls(pieces: Sequence[str]) -> list[Any]:
    values = [gemini.event(gemini.call(args={})), gemini.event(gemini.growing(name="f"))]
    for piece in pieces:
        values.append(gemini.event(gemini.growing(gemini.at("$.a", stringValue=piece, more=True))))
    values.append(gemini.event(gemini.growing(gemini.at("$.a", stringValue=""))))
    return [*values, gemini.event(gemini.growing(goes_on=False), reason="STOP")]


def _gemini_texts(pieces: Sequence[str], **own: Any) -> list[Any]:
    values = [
        gemini.event(gemini.text(piece, thoughtSignature=f"s{number}", **own))
        for number, piece in enumerate(pieces)
    ]
    return [*values, gemini.event(reason="STOP")]


def _gemini_signatures(pieces: Sequence[str]) -> list[Any]:
    """Each piece is followed by a signature alone."""
    values = []
    for piece in pieces:
        values += [gemini.event(gemini.text(piece)), gemini.event({"thoughtSignature": "s"})]
    return [*values, gemini.event(reason="STOP")]


def _chat_turns(pieces: Sequence[str]) -> list[Any]:
    """Between two pieces of the text stands a thought."""
    values = []
    for piece in pieces:
        values += [chunk({"content": piece}), chunk({"reasoning": "hm"})]
    return [*values, chunk({}, "stop"), "[DONE]"]


def _ollama_turns(pieces: Sequence[str]) -> list[Any]:
    values = []
    for piece in pieces:
        values += [line({"content": piece}), line({"content": "", "thinking": "hm"})]
    return [*values, line({"content": ""}, done=True, done_reason="stop")]


def _text_blocks(pieces: Sequence[str]) -> bytes:
    """Each piece is a block of its own, as cited text is."""
    start = {"type": "text", "text": ""}
    return message(*([start, {"type": "text_delta", "text": piece}] for piece in pieces))


def _citation(cited: str) -> Mapping[str, Any]:
    return {"type": "char_location", "cited_text": cited, "document_index": 0}


def _cited(pieces: Sequence[str]) -> bytes:
    start = {"type": "text", "text": "", "citations": []}
    said = [{"type": "citations_delta", "citation": _citation(piece)} for piece in pieces]
    return message([start, {"type": "text_delta", "text": "so"}, *said])


def _cited_whole(pieces: Sequence[str]) -> bytes:
    block = {"type": "text", "text": "so", "citations": [_citation(one) for one in pieces]}
    whole = {"type": "message", "id": "m", "content": [block], "stop_reason": "end_turn"}
    return json.dumps({**whole, "role": "assistant", "usage": {}}).encode()


def _named(pieces: Sequence[str]) -> list[Any]:
    values = [calls(fragment(0, "c0", pieces[0]))]
    values += [calls(fragment(0, name=piece)) for piece in pieces[1:]]
    return [*values, calls(fragment(0, arguments="{}")), chunk({}, "tool_calls"), "[DONE]"]


def _named_late(pieces: Sequence[str]) -> list[Any]:
    """The same of a call that is not taken."""
    values = [calls(fragment(0, "c0", "f", "{}")), calls(fragment(1, "c1", pieces[0]))]
    values += [calls(fragment(1, name=piece)) for piece in pieces[1:]]
    return [*values, calls(fragment(1, arguments="{}")), chunk({}, "tool_calls"), "[DONE]"]


WAYS: dict[str, tuple[str, Any]] = {
    "calls of Chat beyond the limit": ("openai_chat", _chat_calls),
    "calls of Anthropic beyond the limit": ("anthropic", _anthropic_calls),
    "calls of Responses beyond the limit": ("openai_responses", _responses_calls),
    "calls of Gemini beyond the limit": ("gemini", _gemini_calls),
    "a name in pieces": ("openai_chat", _named),
    "a name in pieces beyond the limit": ("openai_chat", _named_late),
    "texts that are signed": ("gemini", _gemini_texts),
    "thoughts that are signed": ("gemini", lambda said: _gemini_texts(said, thought=True)),
    "texts between signatures": ("gemini", _gemini_signatures),
    "texts between thoughts": ("openai_chat", _chat_turns),
    "texts of Ollama between thoughts": ("ollama", _ollama_turns),
    "blocks of text": ("anthropic", _text_blocks),
    "cited texts": ("anthropic", _cited),
    "cited texts of a whole message": ("anthropic", _cited_whole),
}


def body_of(way: str, pieces: Sequence[str]) -> tuple[str, bytes]:
    protocol, make = WAYS[way]
    made = make(pieces)
    if isinstance(made, list):
        made = lines(*made) if protocol == "ollama" else sse(*made)
    return protocol, made


@each_row("way", WAYS)
async def test_what_no_delta_brings_shows_no_secret_in_pieces(way: str) -> None:
    protocol, body = body_of(way, [*HALVES, "."])
    seen_by_nobody(await written(protocol, [body], limits=ONE))


@UNHURRIED
@given(st.sampled_from(sorted(WAYS)), st.integers(0, 2**32))
def test_nor_however_it_is_cut_escaped_and_broken_off(way: str, seed: int) -> None:
    random_ = random.Random(seed)
    said = random_.choice(("", "a ")) + SECRET + random_.choice(("", ".", " it is"))
    protocol, body = body_of(way, cut(said, random_, random_.choice((1, 3, 12))))
    body = with_escapes(body, random_.choice((0, 0.2, 1)), random_)
    whole = random_.random() < 0.5
    body = body if whole else body[: random_.randint(0, len(body))]
    pieces = cut(body, random_, random_.choice((7, 90, 5000)))
    clean = whole or random_.random() < 0.5
    seen_by_nobody(asyncio.run(written(protocol, pieces, clean=clean, limits=ONE)))
