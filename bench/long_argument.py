"""One argument of 100 kB and of 1 MB in deltas of 8 characters: `python bench/long_argument.py`.

Measures the decoder alone, the check against the schema while it streams, and a whole server
with a reader on its live stream. What is linear takes ten times as long for ten times the text.
Exit 1 where a bound does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from playground.protocols.registry import CODECS
from playground.schema.incremental import IncrementalValidator
from tests.servers import ServerProcess, messages, run_server_process

MOST_S = 20.0
MOST_BYTES = 8.0
"""What a whole answer of 1 MB may take, and what may go to the browser per byte of argument."""
MOST_CHECKED = 2.0
"""How many times as long as the decoder the check may take."""

SCHEMA = {
    "type": "object",
    "properties": {
        "expression": {"type": "string", "minLength": 1},
        "numbers": {"type": "array", "items": {"type": "integer", "minimum": 0}},
    },
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Measured:
    """Seconds, and bytes to the browser; `saved_s` is without a reader, `read_s` with one.

    `checked_s` are those of one string, and of as many characters of short numbers.
    """

    size: int
    decoded_s: float
    checked_s: tuple[float, float]
    saved_s: float
    read_s: float
    sent: int
    frames: int


def frames_of(size: int) -> bytes:
    """The body of an Anthropic answer with one call whose argument is `size` characters."""
    text = json.dumps({"expression": "abcdefgh" * (size // 8)})
    block = {"type": "tool_use", "id": "toolu_1", "name": "calculator", "input": {}}
    events: list[dict[str, object]] = [
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": block},
    ]
    for place in range(0, len(text), 8):
        delta = {"type": "input_json_delta", "partial_json": text[place : place + 8]}
        events.append({"type": "content_block_delta", "index": 0, "delta": delta})
    events += [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}},
        {"type": "message_stop"},
    ]
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events
    )


def decoder_time(size: int) -> float:
    """Seconds to decode it, in pieces of 4 kB."""
    body = frames_of(size)
    decoder = CODECS["anthropic"].decoder(200)
    began = time.perf_counter()
    for place in range(0, len(body), 4096):
        decoder.feed(body[place : place + 4096])
    decoder.end(True)
    return time.perf_counter() - began


def checked_time(arguments: object) -> float:
    """Seconds to check it while it streams, in deltas of 8 characters."""
    text = json.dumps(arguments)
    early = IncrementalValidator(SCHEMA)
    began = time.perf_counter()
    for place in range(0, len(text), 8):
        if early.feed(text[place : place + 8]) is not None:
            raise AssertionError("A false alarm.")
    return time.perf_counter() - began


async def server_time(
    server_process: ServerProcess, size: int, *, read: bool
) -> tuple[float, int, int]:
    """(seconds until it rests, bytes to the reader, frames) of one answer."""
    async with server_process.client() as client:
        response = await client.post("/sessions", json={"tools": ["calculator"]})
        path = f"/sessions/{response.json()['id']}"
        # A reader that comes later gets everything once: the page as it was is not counted.
        reader = asyncio.create_task(_read(server_process, path)) if read else None
        began = time.perf_counter()
        prompt = {"text": f"[[fault:args-huge-{size}]] calculate"}
        await client.post(path + "/prompts", json=prompt)
        headers = {"accept": "text/event-stream"}
        if reader is not None:
            sent, frames = await reader
            return time.perf_counter() - began, sent, frames
        async with client.stream("GET", path + "/events?after=0", headers=headers) as answer:
            async for message in messages(answer):
                if '"kind": "call_checked"' in message.get("data", ""):
                    return time.perf_counter() - began, 0, 0
    raise AssertionError("The stream ended before the answer did.")


async def _read(server_process: ServerProcess, path: str) -> tuple[int, int]:
    """Read the live stream as a page does, until the call waits."""
    sent = frames = 0
    async with (
        server_process.client() as client,
        client.stream("GET", path + "/stream?after=1", headers={"accept": "text/html"}) as answer,
    ):
        async for message in messages(answer):
            frames += 1
            sent += sum(len(value.encode()) for value in message.values())
            if 'value="run"' in message.get("data", ""):
                return sent, frames
    raise AssertionError("The stream ended before the answer did.")


async def measured(server_process: ServerProcess, size: int) -> Measured:
    saved, _, _ = await server_time(server_process, size, read=False)
    read_s, sent, frames = await server_time(server_process, size, read=True)
    checked = (
        checked_time({"expression": "abcdefgh" * (size // 8)}),
        checked_time({"numbers": [1234] * (size // 6)}),
    )
    return Measured(
        size,
        decoded_s=decoder_time(size),
        checked_s=checked,
        saved_s=saved,
        read_s=read_s,
        sent=sent,
        frames=frames,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 1_000_000])
    arguments = parser.parse_args()
    rows = []
    with (
        tempfile.TemporaryDirectory() as folder,
        run_server_process(Path(folder) / "long.db", PLAYGROUND_PACE="0") as server_process,
    ):
        for size in arguments.sizes:
            row = asyncio.run(measured(server_process, size))
            rows.append(row)
            print(
                f"{row.size:>9} characters: decoder {row.decoded_s:.3f} s, check"
                f" {row.checked_s[0]:.3f} s (numbers {row.checked_s[1]:.3f} s), saved"
                f" {row.saved_s:.2f} s, read live {row.read_s:.2f} s,"
                f" {row.sent / row.size:.1f} bytes a byte in {row.frames} frames",
                flush=True,
            )
    first, last = rows[0], rows[-1]
    print(
        f"ratios for {last.size / first.size:.0f} times the text:"
        f" decoder {last.decoded_s / first.decoded_s:.1f},"
        f" check {last.checked_s[0] / first.checked_s[0]:.1f}"
        f" (numbers {last.checked_s[1] / first.checked_s[1]:.1f}),"
        f" saved {last.saved_s / first.saved_s:.1f}, read live {last.read_s / first.read_s:.1f}"
    )
    slow = max(last.checked_s) > MOST_CHECKED * last.decoded_s
    holds = (
        not slow and last.read_s < MOST_S and all(row.sent <= MOST_BYTES * row.size for row in rows)
    )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
