"""What the requests of a coding agent cost in the store: `python bench/request_bodies.py`.

Each request repeats the one before and adds what came since. Writes the requests of 200 turns and
the recordings of their answers through `Log.append`, opens the session as a server does, and
compares the growth of the file after a checkpoint with the bytes that are new: those of the first
request, of each message that came since, and of the recordings; a marker that moves
(`cache_control`) is not new. Exit 1 where a file grows by more than three times what is new. Then
once more with all events of the answers and calls. CPU milliseconds of the process, the median of
the rounds.

Two versions are compared in turn, each by this file in its own folder `bench`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from playground.core.events import (
    CallChecked,
    CallDecided,
    CallEnded,
    CallStarted,
    Event,
    Logged,
    RequestSent,
    ResponseStarted,
    Source,
)
from playground.core.tools import Content, ToolResult
from playground.protocols.registry import codec
from playground.store.database import Database
from playground.store.log import Log
from playground.store.writes import Chunk, Summary, WriteBatch

MOST = 3.0
"""How many times the new bytes a file may grow."""

TEXT = "the file is read and edited where a test of app/store/log.py failed with an error"
WORDS = TEXT.split()
HEADERS = {
    "accept": "application/json",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025"
    "-06-27,prompt-caching-scope-2026-01-05,effort-2025-11-24",
    "anthropic-version": "2023-06-01",
    "content-type": "application/json",
    "user-agent": "agent-cli/2.1.330 (external, cli)",
    "x-app": "cli",
    "x-api-key": "*" * 108,
    "x-agent-session-id": "6f0dbb2e-0d1c-4a0c-8f9e-1f2f3a4b5c6d",
    "x-stainless-arch": "x64",
    "x-stainless-lang": "js",
    "x-stainless-os": "Linux",
    "x-stainless-package-version": "0.94.0",
    "x-stainless-retry-count": "0",
    "x-stainless-runtime": "node",
    "x-stainless-runtime-version": "v24.3.0",
    "x-stainless-timeout": "600",
    "accept-encoding": "identity",
}

Body = Callable[[str, list[Any], list[Any]], dict[str, Any]]

GROWTH = (60, 1200)
"""Characters that a turn adds at least and at most, besides some 300 of JSON."""


def prose(chance: random.Random, size: int) -> str:
    """Text of about `size` characters, in lines."""
    words = chance.choices(WORDS, k=size // 5)
    return " ".join(word + "\n" * (not place % 12) for place, word in enumerate(words, 1))[:size]


def tools_of(chance: random.Random, size: int) -> list[dict[str, Any]]:
    """Tools of an agent: long descriptions, schemas of many small members."""
    tools: list[dict[str, Any]] = []
    while len(json.dumps(tools)) < size:
        members = {
            f"{name.replace('/', '.')}_{place}": {
                "type": "string",
                "description": prose(chance, 60),
            }
            for place, name in enumerate(chance.sample(WORDS, 6))
        }
        schema = {"type": "object", "properties": members, "required": list(members)[:2]}
        described = prose(chance, chance.choice((90, 200, 1500)))
        name = f"tool_{len(tools)}"
        tools.append({"name": name, "description": described, "input_schema": schema})
    return tools


@dataclass(frozen=True)
class Turn:
    """What came of one request: a text, a call and its result."""

    number: int
    text: str
    arguments: str
    result: str


def turns(chance: random.Random, count: int, least: int, most: int) -> list[Turn]:
    """Turns whose texts have between `least` and `most` characters together."""
    several = []
    for number in range(1, count + 1):
        size = chance.randint(least, most)
        arguments = json.dumps({"path": f"app/{number}.py", "text": prose(chance, size // 4)})
        text, result = prose(chance, size // 4), prose(chance, size // 2)
        several.append(Turn(number, text, arguments, result))
    return several


# How agents write a request, by protocol: its head, what a turn adds to the list of messages, and
# the whole. ---------------------------------------------------------------------------------------


def anthropic_messages(turn: Turn) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": f"toolu_{turn.number:020}", "name": "tool_1"}
    text = {"type": "text", "text": turn.text}
    result = {
        "tool_use_id": call["id"],
        "type": "tool_result",
        "content": [{"type": "text", "text": turn.result}],
    }
    return [
        {"role": "assistant", "content": [text, {**call, "input": json.loads(turn.arguments)}]},
        {"role": "user", "content": [result]},
    ]


def anthropic_body(system: str, tools: list[Any], messages: list[Any]) -> dict[str, Any]:
    """With a marker on the last message, as agents set it."""
    marker = {"cache_control": {"type": "ephemeral"}}
    if isinstance(messages[-1]["content"], list):
        *before, last = messages[-1]["content"]
        messages = [*messages[:-1], {**messages[-1], "content": [*before, {**last, **marker}]}]
    return {
        "model": "claude-sonnet-5",
        "messages": messages,
        "system": [{"type": "text", "text": system, **marker}],
        "tools": tools,
        "metadata": {"user_id": "user_0123456789"},
        "max_tokens": 32000,
        "thinking": {"type": "adaptive", "display": "omitted"},
        "stream": True,
    }


def chat_messages(turn: Turn) -> list[dict[str, Any]]:
    function = {"name": "tool_1", "arguments": turn.arguments}
    call = {"id": f"call_{turn.number:020}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": turn.text, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": turn.result},
    ]


def chat_body(system: str, tools: list[Any], messages: list[Any]) -> dict[str, Any]:
    schema = ("parameters", "input_schema")
    functions = [
        {"type": "function", "function": {name.replace(*schema[::-1]): tool[name] for name in tool}}
        for tool in tools
    ]
    return {
        "model": "gpt-5",
        "max_tokens": 32000,
        "messages": [{"role": "system", "content": system}, *messages],
        "tools": functions,
        "tool_choice": "auto",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def responses_messages(turn: Turn) -> list[dict[str, Any]]:
    call = {"type": "function_call", "call_id": f"call_{turn.number:020}", "name": "tool_1"}
    text = {"type": "output_text", "text": turn.text}
    return [
        {"type": "message", "role": "assistant", "content": [text]},
        {**call, "arguments": turn.arguments},
        {"type": "function_call_output", "call_id": call["call_id"], "output": turn.result},
    ]


def responses_body(system: str, tools: list[Any], messages: list[Any]) -> dict[str, Any]:
    return {
        "model": "gpt-5-codex",
        "instructions": system,
        "input": messages,
        "tools": [{"type": "function", "strict": False, **tool} for tool in tools],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "019a0000-0000-7000-8000-000000000000",
    }


def gemini_messages(turn: Turn) -> list[dict[str, Any]]:
    call = {"name": "tool_1", "args": json.loads(turn.arguments)}
    result = {"name": "tool_1", "response": {"output": turn.result}}
    return [
        {"role": "model", "parts": [{"text": turn.text}, {"functionCall": call}]},
        {"role": "user", "parts": [{"functionResponse": result}]},
    ]


def gemini_body(system: str, tools: list[Any], messages: list[Any]) -> dict[str, Any]:
    return {
        "contents": messages,
        "systemInstruction": {"role": "user", "parts": [{"text": system}]},
        "tools": [{"functionDeclarations": tools}],
        "generationConfig": {"temperature": 0, "topP": 1},
    }


Messages = Callable[[Turn], list[dict[str, Any]]]
FORMS: Mapping[str, tuple[Messages, Body]] = {
    "anthropic": (anthropic_messages, anthropic_body),
    "openai_chat": (chat_messages, chat_body),
    "openai_responses": (responses_messages, responses_body),
    "gemini": (gemini_messages, gemini_body),
}


@dataclass(frozen=True)
class Shape:
    """A session: characters of system and of tools, and with how many of its messages the agent
    puts a summary in the place of all but the last few."""

    protocol: str
    system: int
    tools: int
    full: int = 1 << 30


SHAPES = [
    *(Shape(protocol, 20_000, 40_000) for protocol in FORMS),
    *(Shape(protocol, 1000, 2000, 70_000) for protocol in FORMS),
]


def prompt_of(protocol: str, text: str) -> dict[str, Any]:
    member: dict[str, Any] = {"parts": [{"text": text}]} if protocol == "gemini" else {}
    return {"role": "user", **(member or {"content": text})}


def size_of(messages: Sequence[Any]) -> int:
    return sum(len(json.dumps(message, separators=(",", ":"))) for message in messages)


def requests(shape: Shape, several: Sequence[Turn]) -> Iterator[tuple[str, int]]:
    """The body of each request, and how many of its bytes are new."""
    chance = random.Random(7)
    messages_of, body_of = FORMS[shape.protocol]
    system, tools = prose(chance, shape.system), tools_of(chance, shape.tools)
    prompt = prose(chance, 200)
    messages = added = [prompt_of(shape.protocol, prompt)]
    for turn in several:
        body = json.dumps(body_of(system, tools, messages), separators=(",", ":"))
        yield body, size_of(added) if turn.number > 1 else len(body)
        added = messages_of(turn)
        messages = [*messages, *added]
        if size_of(messages) > shape.full:
            summary = prompt_of(shape.protocol, prose(chance, 3000))
            messages, added = [summary, *messages[-6:]], [summary, *added]


def answer(turn: Turn) -> bytes:
    """The answer of a turn as Anthropic streams it, a delta for every 12 characters."""
    usage = {"input_tokens": 20_000, "output_tokens": 1}
    message = {"id": f"msg_{turn.number}", "type": "message", "role": "assistant", "content": []}
    data: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "model": "m", "usage": usage}}
    ]
    call = {"type": "tool_use", "id": f"toolu_{turn.number:020}", "name": "tool_1", "input": {}}
    blocks = (
        ({"type": "text", "text": ""}, "text_delta", "text", turn.text),
        (call, "input_json_delta", "partial_json", turn.arguments),
    )
    for index, (block, kind, member, text) in enumerate(blocks):
        data.append({"type": "content_block_start", "index": index, "content_block": block})
        for place in range(0, len(text), 12):
            delta = {"type": kind, member: text[place : place + 12]}
            data.append({"type": "content_block_delta", "index": index, "delta": delta})
        data.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    data += [{"type": "message_delta", "delta": end, "usage": usage}, {"type": "message_stop"}]
    return b"".join(
        f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode() for data in data
    )


def events_of_answer(turn: Turn, data: bytes) -> list[tuple[Event, Source | None]]:
    """All that the log has of a turn behind its request."""
    decoder = codec("anthropic").decoder(200)
    spanned = [*decoder.feed(data), *decoder.end(True)]
    call_id = f"{turn.number}.1"
    result = ToolResult((Content("text", turn.result),))
    headers = {"content-type": "text/event-stream", "request-id": f"req_{turn.number:020}"}
    calls: list[Event] = [
        CallChecked(call_id, digest="0" * 64),
        CallDecided(call_id, "run", "rule", "all tools", "0" * 64),
        CallStarted(call_id, 1),
        CallEnded(call_id, result),
    ]
    return [
        (ResponseStarted(200, headers), Source(turn.number, 0, 0)),
        *((event, Source(turn.number, start, end)) for start, end, event in spanned),
        *((event, None) for event in calls),
    ]


@dataclass(frozen=True)
class Measured:
    """Bytes that are new, by which the file grew, of the recordings, of the first and the largest
    request; CPU ms of writing and of opening."""

    fresh: int
    grown: int
    recorded: int
    first: int
    largest: int
    write_ms: float
    open_ms: float


async def measured(folder: Path, shape: Shape, count: int, whole: bool) -> Measured:
    several = turns(random.Random(11), count, *GROWTH)
    written = list(requests(shape, several))
    answers = [answer(turn) for turn in several]
    fresh = sum(size for _, size in written) + sum(map(len, answers))
    batches: list[WriteBatch] = []
    seq = 0
    for (body, _), turn, data in zip(written, several, answers, strict=True):
        url = "https://api.anthropic.example/v1/messages?beta=true"
        sent = RequestSent(
            turn.number,
            protocol=shape.protocol,
            method="POST",
            url=url,
            headers=HEADERS,
            body=body,
            model="m",
        )
        seq, at_ms = seq + 1, 1_790_000_000_000 + 20_000 * turn.number
        batches.append(WriteBatch("0123456789abcdef", [Logged(seq, at_ms, sent)], full=True))
        log: list[Logged] = []
        for event, source in events_of_answer(turn, data) if whole else ():
            seq += 1
            log.append(Logged(seq, at_ms + 500, event, source))
        chunks = [Chunk(turn.number, 0, at_ms + 500, data)]
        batches.append(WriteBatch("0123456789abcdef", log, chunks))
    path = folder / f"{time.monotonic_ns()}.db"
    database = await Database.open(path)
    store = await Log.open(database)
    summary = Summary(
        "0123456789abcdef",
        title="",
        created_ms=1,
        updated_ms=1,
        state="idle",
        model="m",
        calls=0,
        waiting=0,
    )
    await store.append(WriteBatch(summary.id, summary=summary))
    await database.close()
    empty = path.stat().st_size
    database = await Database.open(path)
    store = await Log.open(database)
    times = [time.process_time()]
    for batch in batches:
        await store.append(batch)
    times.append(time.process_time())
    opened = await store.events_to_fold(summary.id)
    times.append(time.process_time())
    bodies = [logged.event.body for logged in opened if isinstance(logged.event, RequestSent)]
    assert bodies == [body for body, _ in written]
    await database.close()  # takes the write-ahead log into the file
    grown = path.stat().st_size - empty
    path.unlink()
    write_ms, open_ms = 1000 * (times[1] - times[0]), 1000 * (times[2] - times[1])
    recorded = sum(map(len, answers))
    return Measured(
        fresh,
        grown=grown,
        recorded=recorded,
        first=len(bodies[0]),
        largest=max(map(len, bodies)),
        write_ms=write_ms,
        open_ms=open_ms,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=200)
    options = parser.parse_args()
    worst = 0.0
    for whole in (False, True):
        print("All events of the session:" if whole else "Requests and recordings alone:")
        for shape in SHAPES:
            with tempfile.TemporaryDirectory() as name:
                rounds = [
                    asyncio.run(measured(Path(name), shape, options.turns, whole))
                    for _ in range(options.rounds)
                ]
            item = rounds[0]
            ratio = item.grown / item.fresh
            worst = worst if whole else max(worst, ratio)
            write, opening = (
                statistics.median(getattr(each, member) for each in rounds)
                for member in ("write_ms", "open_ms")
            )
            beside = (item.grown - item.recorded) / (item.fresh - item.recorded)
            print(
                f"  {shape.protocol:16} requests of {item.first / 1000:2.0f} to"
                f" {item.largest / 1000:3.0f} kB, new {item.fresh / 1000:5.0f} kB, file"
                f" {item.grown / 1000:6.0f} kB: {ratio:5.2f} times (without recordings"
                f" {beside:5.2f}); write {write:4.0f} ms of CPU, open {opening:4.0f}",
                flush=True,
            )
    print(f"At most {worst:.2f} times what is new (may be {MOST:.0f}).")
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())
