"""Requests whose results are held, as they go over the wire."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from playground.core.session import Session
from playground.engine.decisions import ResultDecision
from playground.tap.relay import STOPPED
from playground.tap.taps import Tap
from tests.tap.relaying import Answer, Place, ask, connected, placed

pytestmark = pytest.mark.anyio

JSON, PACKED = (b"content-type", b"application/json"), (b"content-encoding", b"gzip")
TOOL = {"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}}


def answer(message: dict[str, Any], reason: str) -> bytes:
    """An answer in Chat's form."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
    data = {"id": "c1", "object": "chat.completion", "model": "m", "choices": [choice]}
    body = json.dumps(data).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


def call_of(number: int) -> dict[str, Any]:
    function = {"name": "ls", "arguments": "{}"}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return {"content": None, "tool_calls": [call]}


def body_of(number: int, *more: dict[str, Any]) -> bytes:
    """A request as no encoder writes it, so that whoever writes it again is seen."""
    messages = [{"role": "user", "content": f"List {number}."}, *more]
    return json.dumps({"messages": messages, "model": "m", "tools": [TOOL]}, indent=1).encode()


async def body_with_result(place: Place, target: bytes, number: int) -> bytes:
    """The body that brings the result of a call that the provider made."""
    call = call_of(number)
    place.provider.says(answer(call, "tool_calls"))
    assert (await ask(place.port, "POST", target, [JSON], body_of(number))).status == 200
    place.provider.says(answer({"content": "Done."}, "stop"))
    result = {"role": "tool", "tool_call_id": f"call_{number}", "content": "a.txt"}
    return body_of(number, {"role": "assistant", **call}, result)


async def wait_for_result(place: Place, tap: Tap, *, gone: bool = False) -> Session:
    """The session whose result waits, for an agent that is there or has `gone`."""
    engine = place.engine
    async with asyncio.timeout(20):
        while True:
            position = engine.sessions.position
            for session_id in await engine.log.tapped_sessions(tap.id, 9):
                async with engine.sessions.lock_session(session_id) as live:
                    if live.session.waiting and live.session.received_gone is gone:
                        return live.session
            await engine.sessions.wait(position, engine.sessions.list_version, 20)


async def decide(place: Place, session: Session, text: str | None) -> None:
    decision = ResultDecision(session.call("1.0").digest, text)
    await place.engine.runner.decide_result(session.id, "1.0", decision)


async def test_a_held_request_goes_on_once_it_is_decided(tmp_path: Path) -> None:
    """As it came, or unpacked with its new length; where its client leaves, or the session is
    stopped, it does not."""
    async with placed(tmp_path) as place:
        tap, secret = await place.taps.create("raw", stop_at="results")
        target = b"/tap/" + secret.encode() + b"/openai/v1/chat/completions"

        async def returns(body: bytes) -> Answer:
            packed = gzip.compress(body)
            return await ask(place.port, "POST", target, [JSON, PACKED], packed)

        for number, text in ((1, None), (2, "b.txt")):
            body = await body_with_result(place, target, number)
            task = asyncio.create_task(returns(body))
            session = await wait_for_result(place, tap)
            assert place.provider.bodies == []
            await decide(place, session, text)
            assert (await asyncio.wait_for(task, 20)).status == 200
            (came,) = place.provider.bodies
            sent = dict(place.provider.headers)
            assert int(sent[b"content-length"]) == len(came)
            if text is None:
                assert (gzip.decompress(came), sent[b"content-encoding"]) == (body, b"gzip")
            else:
                assert came == body.replace(b"a.txt", b"b.txt")
                assert b"content-encoding" not in sent

        body = await body_with_result(place, target, 3)
        async with connected(place.port) as client:
            host, length = b"127.0.0.1:%d" % place.port, b"%d" % len(body)
            head = [(b"host", host), JSON, (b"content-length", length)]
            await client.send_head("POST", target, head)
            await client.send_body(body)
            await wait_for_result(place, tap)
        session = await wait_for_result(place, tap, gone=True)
        task = asyncio.create_task(returns(body))
        await wait_for_result(place, tap)
        await place.engine.runner.stop(session.id)
        refused = await asyncio.wait_for(task, 20)
        assert (refused.status, STOPPED.encode() in refused.body) == (403, True)
        assert place.provider.bodies == []
