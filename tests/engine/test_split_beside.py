"""A known secret in pieces is seen by nobody where no delta brings it either: calls that are not
taken, names in pieces, texts between which parts begin anew, cited texts. Threat 16.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from playground.core.serialization import to_row
from playground.core.settings import Limits
from playground.protocols.framing import texts_of, token_lists
from tests.engine.test_split_secrets import SECRET, Saved, cut, save_answer, with_escapes
from tests.protocols import gemini, responses
from tests.protocols.frames import UNHURRIED, calls, chunk, fragment, line, lines, message, sse

pytestmark = pytest.mark.anyio

ONE = Limits(max_calls_per_answer=1)
HALVES = (SECRET[:11], SECRET[11:])


def spelled(value: Any) -> str:
    """What the tokens in JSON data say together."""
    match value:
        case dict():
            return "".join(map(spelled, value.values()))
        case list():
            return "".join(texts_of(value)) or "".join(map(spelled, value))
    return ""


def numbered(text: str) -> str:
    """What lists of numbers in it say together."""
    lists = re.findall(r"\[([0-9, ]+)\]", text)
    return b"".join(bytes(json.loads(f"[{item}]")) for item in lists).decode("utf-8", "replace")


def seen_by_nobody(saved: Saved, secret: str = SECRET) -> None:
    data = saved.data.decode()
    bodies = [to_row(logged.event)[1] for logged in saved.log]
    texts = [data, numbered(data), *map(str, (logged.event for logged in saved.log))]
    texts += map(numbered, bodies)
    texts += [spelled(json.loads(body)) for body in bodies]
    lists = token_lists(saved.data).lists
    texts.append("".join(token.literal.text for tokens in lists for token in tokens))
    for text in texts:
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
    lines = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return message([start], [start, *lines], reason="tool_use")


def _responses_calls(pieces: Sequence[str]) -> list[Any]:
    items = [responses.call("{}", "c0"), responses.call("".join(pieces), "c1")]
    values = [responses.added(n, responses.call("", f"c{n}")) for n in range(2)]
    values += [responses.args(1, piece) for piece in pieces]
    values += [responses.done(number, item) for number, item in enumerate(items)]
    return [*values, responses.completed(*items)]


def _gemini_calls(pieces: Sequence[str]) -> list[Any]:
    values = [gemini.event(gemini.call(args={})), gemini.event(gemini.growing(name="f"))]
    for piece in pieces:
        values.append(
            gemini.event(gemini.growing(gemini.partial_arg("$.a", stringValue=piece, more=True)))
        )
    values.append(gemini.event(gemini.growing(gemini.partial_arg("$.a", stringValue=""))))
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
    lines = [{"type": "citations_delta", "citation": _citation(piece)} for piece in pieces]
    return message([start, {"type": "text_delta", "text": "so"}, *lines])


def _cited_whole(pieces: Sequence[str]) -> bytes:
    block = {"type": "text", "text": "so", "citations": [_citation(piece) for piece in pieces]}
    message = {"type": "message", "id": "m", "content": [block], "stop_reason": "end_turn"}
    return json.dumps({**message, "role": "assistant", "usage": {}}).encode()


def _named(pieces: Sequence[str]) -> list[Any]:
    values = [calls(fragment(0, "c0", pieces[0]))]
    values += [calls(fragment(0, name=piece)) for piece in pieces[1:]]
    return [*values, calls(fragment(0, arguments="{}")), chunk({}, "tool_calls"), "[DONE]"]


def _named_late(pieces: Sequence[str]) -> list[Any]:
    """The same of a call that is not taken."""
    values = [calls(fragment(0, "c0", "f", "{}")), calls(fragment(1, "c1", pieces[0]))]
    values += [calls(fragment(1, name=piece)) for piece in pieces[1:]]
    return [*values, calls(fragment(1, arguments="{}")), chunk({}, "tool_calls"), "[DONE]"]


def _entry(token: str, **more: Any) -> dict[str, Any]:
    return {"token": token, "logprob": -0.1, "bytes": list(token.encode()), **more}


def _tokens(message: str) -> list[dict[str, Any]]:
    """Entries of `said` with two alternatives each, one of them the token itself."""
    pieces = [message[start : start + 3] for start in range(0, len(message), 3)]
    return [_entry(piece, top_logprobs=[_entry("x"), _entry(piece)]) for piece in pieces]


def _chat_tokens(pieces: Sequence[str]) -> list[Any]:
    """A token does not end where a delta does."""
    values, message = [chunk({"role": "assistant", "content": ""})], "".join(pieces)
    for nth, piece in enumerate(pieces):
        value = chunk({"content": piece})
        if nth == 1:
            value["choices"][0]["logprobs"] = {"content": _tokens(message)[:2], "refusal": None}
        elif nth == 2:
            value["choices"][0]["logprobs"] = {"refusal": None, "content": _tokens(message)[2:]}
        values.append(value)
    return [*values, chunk({}, "stop"), "[DONE]"]


def _chat_tokens_whole(pieces: Sequence[str]) -> bytes:
    message = "".join(pieces)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": message},
        "logprobs": {"content": _tokens(message), "refusal": None},
        "finish_reason": "stop",
    }
    return json.dumps({"id": "c", "object": "chat.completion", "choices": [choice]}).encode()


def _chat_tokens_alone(pieces: Sequence[str]) -> list[Any]:
    """They come without any text: they are told at the end of the answer."""
    value = chunk({"role": "assistant"})
    value["choices"][0]["logprobs"] = {"content": _tokens("".join(pieces))}
    return [value, chunk({}, "stop"), "[DONE]"]


def _ollama_tokens(pieces: Sequence[str]) -> list[Any]:
    values = [line({"content": piece}, logprobs=_tokens(piece)) for piece in pieces]
    return [*values, line({"content": ""}, done=True, done_reason="stop")]


def _responses_tokens(pieces: Sequence[str]) -> list[Any]:
    message = "".join(pieces)
    piece = {
        "type": "output_text",
        "text": message,
        "annotations": [],
        "logprobs": _tokens(message),
    }
    item = responses.message(piece)
    values = [responses.added(0, responses.message())]
    values += [{**responses.text(0, piece), "logprobs": _tokens(piece)} for piece in pieces]
    answer = {"content_index": 0, "text": message, "logprobs": _tokens(message)}
    values.append(responses.event("output_text.done", 0, **answer))
    return [*values, responses.done(0, item), responses.completed(item)]


def _responses_tokens_whole(pieces: Sequence[str]) -> bytes:
    message = "".join(pieces)
    piece = {
        "type": "output_text",
        "text": message,
        "annotations": [],
        "logprobs": _tokens(message),
    }
    return json.dumps(responses.body(responses.message(piece))).encode()


def _gemini_tokens(pieces: Sequence[str]) -> list[Any]:
    values = []
    for piece in pieces:
        value = gemini.event(gemini.text(piece))
        likely = [
            {"token": text, "logProbability": -0.1} for text in (piece[:2], piece[2:]) if text
        ]
        others = [{"candidates": [data, {"token": "x"}]} for data in likely]
        answer = {"topCandidates": others, "chosenCandidates": likely}
        value["candidates"][0]["logprobsResult"] = answer
        values.append(value)
    return [*values, gemini.event(reason="STOP")]


WAYS: dict[str, tuple[str, Any]] = {
    "calls of Chat beyond the limit": ("openai_chat", _chat_calls),
    "calls of Anthropic beyond the limit": ("anthropic", _anthropic_calls),
    "calls of Responses beyond the limit": ("openai_responses", _responses_calls),
    "calls of Gemini beyond the limit": ("gemini", _gemini_calls),
    "a name in pieces": ("openai_chat", _named),
    "a name in pieces beyond the limit": ("openai_chat", _named_late),
    "texts that are signed": ("gemini", _gemini_texts),
    "thoughts that are signed": ("gemini", lambda text: _gemini_texts(text, thought=True)),
    "texts between signatures": ("gemini", _gemini_signatures),
    "texts between thoughts": ("openai_chat", _chat_turns),
    "texts of Ollama between thoughts": ("ollama", _ollama_turns),
    "blocks of text": ("anthropic", _text_blocks),
    "tokens of Chat": ("openai_chat", _chat_tokens),
    "tokens of a whole body of Chat": ("openai_chat", _chat_tokens_whole),
    "tokens without a text": ("openai_chat", _chat_tokens_alone),
    "tokens of Ollama": ("ollama", _ollama_tokens),
    "tokens of Responses": ("openai_responses", _responses_tokens),
    "tokens of a whole body of Responses": ("openai_responses", _responses_tokens_whole),
    "tokens of Gemini": ("gemini", _gemini_tokens),
    "cited texts": ("anthropic", _cited),
    "cited texts of a whole message": ("anthropic", _cited_whole),
}


def body_of(way: str, pieces: Sequence[str]) -> tuple[str, bytes]:
    protocol, make = WAYS[way]
    result = make(pieces)
    if isinstance(result, list):
        result = lines(*result) if protocol == "ollama" else sse(*result)
    return protocol, result


@pytest.mark.parametrize("way", WAYS)
async def test_what_no_delta_brings_shows_no_secret_in_pieces(way: str) -> None:
    protocol, body = body_of(way, [*HALVES, "."])
    seen_by_nobody(await save_answer(protocol, [body], limits=ONE))


@pytest.mark.parametrize(
    ("protocol", "body"),
    [
        # The alternatives come first; the tokens that were chosen end before they say as much.
        (
            "gemini",
            b'data: {"candidates": [{"logprobsResult": {"topCandidates": [{"candidates": [{"token":'
            b' "sk-c"}]}, {"candidates": [{"token": "anary/0f1e2d"}]}], "chosenCandidates": [{"tok',
        ),
        # The last token has no end.
        (
            "openai_chat",
            b'data: {"choices": [{"delta": {}, "logprobs": {"content": [{"token": "sk-c"},'
            b' {"token": "anary/0f1e2d+3c4',
        ),
        # A name that the end keeps from its colon is no token, and no text.
        (
            "openai_chat",
            b'data: {"choices": [{"delta": {}, "logprobs": {"content": [{"token": "sk-c"},'
            b' {"token": "anary/0f1e2d", "logprob"',
        ),
        (
            "gemini",
            b'data: {"candidates": [{"content": {"parts": [{"text": "sk-c"}, {"text":'
            b' "anary/0f1e2d", "thoughtSig',
        ),
        # Numbers before the token that they spell.
        (
            "openai_chat",
            b'data: {"choices": [{"delta": {}, "logprobs": {"content": [{"bytes": [115, 107, 45,'
            b' 99, 97, 110, 97, 114, 121, 47, 48, 102, 49], "token": "sk-canar',
        ),
    ],
)
async def test_an_unfinished_frame_shows_no_secret_in_pieces(protocol: str, body: bytes) -> None:
    saved = await save_answer(protocol, [body])
    assert saved.data.startswith(body[:30])
    seen_by_nobody(saved)


@UNHURRIED
@example("tokens of Gemini", 57)
@example("tokens of Gemini", 107)
@example("tokens of a whole body of Responses", 224)
@given(st.sampled_from(sorted(WAYS)), st.integers(0, 2**32))
def test_nor_however_it_is_cut_escaped_and_broken_off(way: str, seed: int) -> None:
    random_ = random.Random(seed)
    message = random_.choice(("", "a ")) + SECRET + random_.choice(("", ".", " it is"))
    protocol, body = body_of(way, cut(message, random_, random_.choice((1, 3, 12))))
    body = with_escapes(body, random_.choice((0, 0.2, 1)), random_)
    sends_whole = random_.random() < 0.5
    body = body if sends_whole else body[: random_.randint(0, len(body))]
    pieces = cut(body, random_, random_.choice((7, 90, 5000)))
    clean = sends_whole or random_.random() < 0.5
    seen_by_nobody(asyncio.run(save_answer(protocol, pieces, clean=clean, limits=ONE)))
