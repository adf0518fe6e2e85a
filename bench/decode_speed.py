"""Our decoders beside the official SDKs' stream accumulators: `python bench/decode_speed.py`.

One call whose arguments come in 16,000 deltas. The SDKs read the same bytes from a transport in
memory, through the very functions their users call; each side is timed in turn, the best of some
rounds counts. Exit 1 where ours is not five times as fast, or not linear.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import anthropic
import httpx2
import openai
from openai.lib.streaming.chat import ChatCompletionStreamState

from playground.core.events import PartEnded
from playground.protocols.registry import CODECS

LEAST_RATIO = 5.0
LINEAR = 1.6
"""How much longer a delta may take in a stream twice as long; 2 would be quadratic."""

PIECE = 8
"""Characters in a delta."""

CHUNK = 4096
"""Bytes a network would hand over at once."""


def argument(deltas: int) -> str:
    """The arguments of one call: about `deltas` pieces of JSON text."""
    return json.dumps({"text": "abcdefgh" * deltas})[: -PIECE - 2] + '"}'


def anthropic_body(deltas: int) -> bytes:
    text = argument(deltas)
    block = {"type": "tool_use", "id": "toolu_1", "name": "write", "input": {}}
    message: dict[str, object] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    events: list[Mapping[str, object]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
    ]
    for place in range(0, len(text), PIECE):
        delta = {"type": "input_json_delta", "partial_json": text[place : place + PIECE]}
        events.append({"type": "content_block_delta", "index": 0, "delta": delta})
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    events += [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events
    )


def openai_body(deltas: int) -> bytes:
    text = argument(deltas)

    def chunk(delta: Mapping[str, object], finish: str | None = None) -> bytes:
        value = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }
        return f"data: {json.dumps(value)}\n\n".encode()

    head = {"index": 0, "id": "call_1", "type": "function"}
    first = {**head, "function": {"name": "write", "arguments": ""}}
    pieces = [chunk({"role": "assistant", "content": None, "tool_calls": [first]})]
    for place in range(0, len(text), PIECE):
        function = {"arguments": text[place : place + PIECE]}
        pieces.append(chunk({"tool_calls": [{"index": 0, "function": function}]}))
    return b"".join([*pieces, chunk({}, "tool_calls"), b"data: [DONE]\n\n"])


def ours(protocol: str) -> Callable[[bytes], int]:
    """The length of the arguments that our decoder reads."""

    def read(body: bytes) -> int:
        decoder = CODECS[protocol].decoder(200)
        length = 0
        for start in range(0, len(body), CHUNK):
            for _, _, event in decoder.feed(body[start : start + CHUNK]):
                if isinstance(event, PartEnded):
                    length = len(event.text)
        decoder.end(True)
        return length

    return read


def _transport(body: bytes) -> httpx2.Client:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    return httpx2.Client(transport=httpx2.MockTransport(answer))


def with_anthropic(body: bytes) -> int:
    client = anthropic.Anthropic(api_key="k", http_client=_transport(body))
    with client.messages.stream(
        model="m", max_tokens=10, messages=[{"role": "user", "content": "x"}]
    ) as stream:
        message = stream.get_final_message()
    return len(json.dumps(message.content[0].input))  # type: ignore[union-attr]


def with_openai(body: bytes) -> int:
    client = openai.OpenAI(api_key="k", http_client=_transport(body))
    state = ChatCompletionStreamState()
    for chunk in client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "x"}], stream=True
    ):
        state.handle_chunk(chunk)
    calls = state.get_final_completion().choices[0].message.tool_calls or []
    return len(calls[0].function.arguments)


def best(read: Callable[[bytes], int], body: bytes, length: int, rounds: int) -> float:
    """Seconds of the fastest round; each must have read all of it."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        assert read(body) == length
        times.append(time.perf_counter() - began)
    return min(times)


CASES: Mapping[str, tuple[Callable[[int], bytes], Callable[[bytes], int]]] = {
    "anthropic": (anthropic_body, with_anthropic),
    "openai_chat": (openai_body, with_openai),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deltas", type=int, default=16_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    failed = False
    for protocol, (body_of, sdk) in CASES.items():
        body, length = body_of(options.deltas), len(argument(options.deltas))
        own = best(ours(protocol), body, length, options.rounds)
        theirs = best(sdk, body, length, 1)
        twice = body_of(2 * options.deltas)
        own_twice = best(ours(protocol), twice, len(argument(2 * options.deltas)), options.rounds)
        growth = own_twice / own / 2
        print(
            f"{protocol}: {options.deltas:,} deltas, {len(body):,} bytes: ours {own:.3f} s, "
            f"the SDK {theirs:.3f} s, ratio {theirs / own:.1f}; "
            f"twice as long: {own_twice:.3f} s, {growth:.2f} a delta"
        )
        failed = failed or theirs / own < LEAST_RATIO or growth > LINEAR
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
