"""Requests that are equal: those that are open at once are as many, and one that comes again after
a cut is one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from playground.core.reducer import fold
from tests.tap.relaying import Provider, ask, placed

pytestmark = pytest.mark.anyio

MANY = 20
KIND = (b"content-type", b"application/json")


def answer(number: int) -> bytes:
    """A whole answer in Chat's form, which says its number."""
    message = {"role": "assistant", "content": f"Answer {number}."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    data = {"id": f"c{number}", "object": "chat.completion", "model": "m", "choices": [choice]}
    body = json.dumps(data).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


async def test_equal_requests_at_once_are_as_many_upstream(tmp_path: Path) -> None:
    """Each agent gets an answer of its own, each session has one."""
    together = asyncio.Event()

    async def play(
        provider: Provider, reader: asyncio.StreamReader, out: asyncio.StreamWriter
    ) -> None:
        number = len(provider.bodies)
        if number == MANY:
            together.set()
        await asyncio.wait_for(together.wait(), 30)
        out.write(answer(number))
        await out.drain()

    async with placed(tmp_path) as place:
        tap, secret = await place.taps.create("raw")
        place.provider.plays(play)
        target = b"/tap/" + secret.encode() + b"/openai/v1/chat/completions"
        messages = [{"role": "user", "content": "The same, please."}]
        body = json.dumps({"model": "m", "messages": messages}).encode()
        got = await asyncio.gather(
            *(ask(place.port, "POST", target, [KIND], body) for _ in range(MANY))
        )
        assert len(place.provider.bodies) == MANY
        ids = await place.engine.log.tapped_sessions(tap.id, 2 * MANY)
        texts = []
        for session_id in ids:
            session = fold(session_id, await place.engine.log.events(session_id))
            texts += [turn.text for turn in session.turns]
    lines = sorted(json.loads(each.body)["choices"][0]["message"]["content"] for each in got)
    assert lines == sorted(f"Answer {number}." for number in range(1, MANY + 1))
    assert (len(ids), sorted(texts)) == (MANY, lines)
