"""What masking costs for each small delta of an answer: `python bench/masking.py`.

The bytes of each frame go through `redact_stream`, its events through `StreamRedactor`, with 0, 1
and 20 secrets known, and `Keys.redactor` is asked once, as for each that is saved. Decoding is done
before and not counted. CPU microseconds a delta, the best of some rounds.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from playground.engine.redaction import StreamRedactor
from playground.net.keys import Keys
from playground.protocols.base import ReadItem
from playground.protocols.registry import codec
from playground.secrets.redaction import Redactor

TEXT = (
    "the of and task skip a is in it for ghost sketch that data api key with on was as by are be "
    "this at from or an have not which one all can will said there use what so if other has into"
)
"""Some of its words begin as keys do."""

Heard = list[tuple[bytes, list[ReadItem], int]]
"""Each frame, with what it says and where the last whole one ends."""


def anthropic(texts: Sequence[str]) -> list[Mapping[str, object]]:
    block = {"type": "text", "text": ""}
    message = {"id": "msg_1", "role": "assistant", "model": "m", "usage": {"input_tokens": 1}}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": text},
            }
            for text in texts
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
        {"type": "message_stop"},
    ]


def openai_chat(texts: Sequence[str]) -> list[Mapping[str, object]]:
    def chunk(delta: Mapping[str, object], reason: str | None = None) -> Mapping[str, object]:
        return {
            "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
            "object": "chat.completion.chunk",
            "created": 1741569952,
            "model": "m",
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}],
        }

    return [*(chunk({"content": text}) for text in texts), chunk({}, "stop")]


BODIES = {"anthropic": anthropic, "openai_chat": openai_chat}


def hear(protocol: str, texts: Sequence[str]) -> Heard:
    heard: Heard = []
    decoder = codec(protocol).decoder(200)
    for value in BODIES[protocol](texts):
        name = f"event: {value['type']}\n" if "type" in value else ""
        frame = f"{name}data: {json.dumps(value, separators=(',', ':'))}\n\n".encode()
        heard.append((frame, decoder.feed_all(frame), decoder.settled))
    return heard


def mask(redactor: Redactor, heard: Heard) -> tuple[float, float]:
    """CPU seconds for the bytes, and for the events."""
    of_bytes = 0.0
    clock = time.process_time
    began = clock()
    stream = redactor.redact_stream(decoded=True)
    fed = [stream.feed(frame) for frame, _, _ in heard]
    of_bytes = clock() - began
    assert len(b"".join(fed)) > 0
    stream_redactor = StreamRedactor(1, redactor, joins=True)
    began = clock()
    saved = 0
    for frame, events, settled in heard:
        stream_redactor.add_bytes(frame, 1)
        for start, end, event in events:
            stream_redactor.add_event(event, 1, start, end)
        saved += len(stream_redactor.release(settled).events)
    of_events = clock() - began
    assert saved >= len(heard) - 3
    return of_bytes, of_events


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deltas", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    random_ = random.Random(7)
    texts = [" " + random_.choice(TEXT.split()) for _ in range(options.deltas)]
    alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    starts = ["sk-ant-api03-", "sk-proj-", "AIzaSy", "gsk_", "hf_", "ghp_", "xai-", "pplx-", ""]
    secrets = [starts[n % 9] + "".join(random_.choices(alphabet, k=43)) for n in range(20)]
    for count in (0, 1, 3, 20):
        names = {f"K{nth}_API_KEY": secret for nth, secret in enumerate(secrets[:count])}
        keys = Keys({**{f"V{nth}": "x" * 30 for nth in range(40)}, **names}, simulator_key="sim")
        for protocol in BODIES:
            heard = hear(protocol, texts)
            rounds = [mask(keys.redactor(), heard) for _ in range(options.rounds)]
            of_bytes, of_events = (
                min(times) / len(texts) * 1e6 for times in zip(*rounds, strict=True)
            )
            began = time.process_time()
            for _ in range(1000):
                keys.redactor()
            asking = (time.process_time() - began) * 1000
            print(
                f"{count:2} secrets, {protocol:11}: bytes {of_bytes:6.2f}, events {of_events:6.2f},"
                f" together {of_bytes + of_events:6.2f}; redactor() {asking:6.2f} us"
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
