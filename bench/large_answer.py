"""The memory of an answer that reaches the cap of 64 MiB: `python bench/large_answer.py`.

A provider of its own sends text, numbers or arguments (these also escaped), in deltas of `--deltas`
characters: 1000, or almost 8 MiB each (an event may have 8 MiB), until the server stops reading.
For each a server of its own is started; printed are its resident memory before, at its peak, and
after 25 s of quiet.
Exit 1 where one grew by more than the bound, or kept more than that.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from playground.engine.sessions import REST_S
from tests.servers import ServerProcess, messages, run_server_process

MIB = 1024 * 1024
MOST_GROWN = 200_000_000
MOST_KEPT = 40 * MIB
"""What memory may grow by at most, and what may stay of that."""
BIG = 8 * MIB - 1024
QUIET_S = REST_S + 5
CALLS = ("args", "escaped")
"""The kinds that are arguments; `escaped` are full of escapes, and a key is known."""
KEY = {"OPENAI_API_KEY": "sk-canary/0f1e2d+3c4b5a69"}

Events = Iterator[tuple[str, Mapping[str, Any]]]


def _anthropic(kind: str, pieces: Iterator[str]) -> Events:
    yield "message_start", {"message": {"id": "m", "role": "assistant", "content": []}}
    block: dict[str, Any] = {"type": "text", "text": ""}
    if kind in CALLS:
        block = {"type": "tool_use", "id": "t", "name": "calculator", "input": {}}
    yield "content_block_start", {"index": 0, "content_block": block}
    name, member = ("input_json_delta", "partial_json") if kind in CALLS else ("text_delta", "text")
    for piece in pieces:
        yield "content_block_delta", {"index": 0, "delta": {"type": name, member: piece}}


def _openai_chat(kind: str, pieces: Iterator[str]) -> Events:
    call: dict[str, Any] = {"index": 0, "id": "t", "type": "function"}
    for number, piece in enumerate(pieces):
        delta: dict[str, Any] = {"role": "assistant"} if not number else {}
        if kind in CALLS:
            named = {"name": "calculator"} if not number else {}
            opened = call if not number else {"index": 0}
            delta["tool_calls"] = [{**opened, "function": {**named, "arguments": piece}}]
        else:
            delta["content"] = piece
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        yield "", {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


PROTOCOLS: Mapping[str, Callable[[str, Iterator[str]], Events]] = {
    "anthropic": _anthropic,
    "openai_chat": _openai_chat,
}


def pieces(kind: str, size: int) -> Iterator[str]:
    """Text, numbers (words that are all different), or the arguments of a call, plain or escaped,
    without an end, `size` characters at a time."""
    if kind == "numbers":
        for first in count(10**8, size // 10):
            yield " ".join(map(str, range(first, first + size // 10)))
    words = "All work and no play makes a model a dull toy. "
    if kind == "escaped":
        words = r"All \u0077ork and no \"play\"\n"
    piece = words * (size // len(words) + 1)
    piece = piece[: size if kind != "escaped" else size - size % len(words)]
    if kind in CALLS:
        yield '{"expression": "'
    while True:
        yield piece


@asynccontextmanager
async def provider(protocol: str, kind: str, size: int) -> AsyncIterator[str]:
    """A provider that answers every request so, for ever; its base URL."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")  # what it is asked is not looked at
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        with suppress(ConnectionError, asyncio.CancelledError):
            for name, data in PROTOCOLS[protocol](kind, pieces(kind, size)):
                named = {"type": name, **data} if name else data
                message = f"event: {name}\n" if name else ""
                writer.write(f"{message}data: {json.dumps(named)}\n\n".encode())
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def resident(server_process: ServerProcess, name: str = "VmRSS") -> int:
    """Bytes of its memory that are resident, now or (VmHWM) at the most."""
    status = Path(f"/proc/{server_process.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith(name + ":"))


@dataclass(frozen=True)
class Measured:
    """Bytes of memory, and the seconds until the answer was saved."""

    before: int
    peak: int
    after: int
    seconds: float


async def measured(
    server_process: ServerProcess, protocol: str, kind: str, size: int, *, watched: bool
) -> Measured:
    async with provider(protocol, kind, size) as base_url, server_process.client() as client:
        settings = {"base_url": base_url, "model": "m", "protocol": protocol}
        response = await client.post("/sessions", json={**settings, "tools": ["calculator"]})
        path = f"/sessions/{response.json()['id']}"
        await client.get(path)  # what is loaded at first use is no growth
        before, began = resident(server_process), time.perf_counter()
        watching = asyncio.create_task(_watch(server_process, path)) if watched else None
        await client.post(path + "/prompts", json={"text": "Write."})
        async with asyncio.timeout(900):
            while (await _listed(client))["state"] == "running":
                await asyncio.sleep(0.2)
        seconds = time.perf_counter() - began
        if watching is not None:
            watching.cancel()
        await asyncio.sleep(QUIET_S)
        return Measured(
            before, resident(server_process, "VmHWM"), resident(server_process), seconds
        )


async def _listed(client: Any) -> dict[str, Any]:
    """The line of the newest session: to ask for all of it would cost memory itself."""
    listed = (await client.get("/sessions")).json()
    result: dict[str, Any] = (listed if isinstance(listed, list) else listed["sessions"])[0]
    return result


async def _watch(server_process: ServerProcess, path: str) -> None:
    """Read the live stream as a page does."""
    async with (
        server_process.client() as client,
        client.stream("GET", path + "/stream?after=1", headers={"accept": "text/html"}) as answer,
    ):
        async for _ in messages(answer):
            pass


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--protocols", nargs="+", default=list(PROTOCOLS))
    parser.add_argument("--kinds", nargs="+", default=["text", "numbers", *CALLS])
    parser.add_argument("--deltas", type=int, nargs="+", default=[1000, BIG], help="characters")
    parser.add_argument("--watched", action="store_true", help="a page looks on")
    arguments = parser.parse_args()
    holds = True
    for protocol in arguments.protocols:
        for kind in arguments.kinds:
            for size in arguments.deltas:
                with tempfile.TemporaryDirectory() as folder:
                    home = {"PLAYGROUND_HOME": os.path.join(folder, "home")}
                    if kind == "escaped":
                        home |= KEY
                    with run_server_process(Path(folder) / "large.db", **home) as server_process:
                        row = asyncio.run(
                            measured(
                                server_process, protocol, kind, size, watched=arguments.watched
                            )
                        )
                grown, stored = row.peak - row.before, row.after - row.before
                holds = holds and grown <= MOST_GROWN and stored <= MOST_KEPT
                print(
                    f"{protocol:>12} {kind}, deltas of {size:>7}: before {row.before // MIB} MiB,"
                    f" grown by {grown // MIB}, kept {stored // MIB}; {row.seconds:.1f} s",
                    flush=True,
                )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
