"""A key that a provider repeats is in no file, log, page or stream of ours. Threat 16."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import httpx
import pytest

from tests.in_process import run_server
from tests.net.test_client import HEAD, serving
from tests.servers import messages, run_command, run_server_process, wait_for_session

pytestmark = pytest.mark.anyio

CANARY = "sk-canary-5e8d1b7a90c34f26"


async def test_an_echoed_key_reaches_nobody(tmp_path: Path) -> None:
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {CANARY}."}}).encode()
    head = b"HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\n"
    echo = f"X-Echo: {CANARY}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    async with serving(head + echo + body) as provider:
        with run_server_process(tmp_path / "a.db", OPENAI_API_KEY=CANARY) as server_process:
            async with server_process.client() as client:
                form = {"protocol": "openai_chat", "base_url": provider.url, "model": "m"}
                form |= {"key_name": "OPENAI_API_KEY"}  # an address alone takes no key along
                form["title"] = f"T {CANARY}"
                result = (await client.post("/sessions", json=form)).json()
                here = f"/sessions/{result['id']}"
                await client.post(here + "/prompts", json={"text": "hello"})
                session_data = await wait_for_session(client, result["id"])
                tool = {"name": "t", "answered_by": "mock", "config": {"result": CANARY}}
                refused = [
                    await client.post("/tools", json=tool),
                    await client.post(here + "/settings", json={"extra": {"user": CANARY}}),
                ]
                assert [answer.status_code for answer in refused] == [422, 422]
                seen_texts = [json.dumps(session_data), *(answer.text for answer in refused)]
                for path in ("", "/events", "/replay", "/recordings/1", "/requests/1"):
                    answer = await client.get(here + path, headers={"accept": "text/html"})
                    assert answer.status_code == 200
                    seen_texts.append(answer.text)
                async with asyncio.timeout(30), client.stream("GET", here + "/stream") as stream:
                    async for message in messages(stream):
                        seen_texts.append(json.dumps(message))
                        if "id" in message:
                            break
            assert server_process.end() == 0
        assert session_data["state"] == "failed"
        (request,) = provider.seen
        assert f"Bearer {CANARY}".encode() in request, "the right key was sent"
    assert [text for text in seen_texts if CANARY in text] == []
    for file in tmp_path.iterdir():
        assert CANARY.encode() not in file.read_bytes(), file.name


@pytest.mark.slow
async def test_a_key_that_comes_in_pieces_is_seen_by_nobody(tmp_path: Path) -> None:
    """Not even while it comes: the page, the events, the bytes and the stream are looked at."""
    kinds = ("content", "reasoning", "refusal", "arguments")
    with run_server(tmp_path / "a.db", OPENAI_API_KEY=CANARY) as running_server:
        async with running_server.client() as client:
            texts_by_kind = {kind: await _in_pieces(client, kind) for kind in kinds}
    done = run_command("verify", "--db", str(tmp_path / "a.db"), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    for kind, outputs in texts_by_kind.items():
        text = "".join(
            "".join(re.findall(r'"text": ?"((?:[^"\\]|\\.)*)"', part)) for part in outputs
        )
        for piece in (CANARY[4:], CANARY[:5]):
            assert piece not in text + str(outputs), kind
    for file in tmp_path.rglob("*.db*"):
        assert CANARY[4:].encode() not in file.read_bytes(), file.name
        assert CANARY[:4].encode() not in file.read_bytes(), file.name


async def _in_pieces(client: httpx.AsyncClient, kind: str) -> list[str]:
    """All that could be seen of an answer that has the key in its deltas, letter by letter."""
    go_on = asyncio.Event()

    def delta(text: str) -> bytes:
        answer: dict[str, object] = {kind: text}
        if kind == "arguments":
            call = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": text}}
            answer = {"tool_calls": [call]}
        value = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": answer}]}
        return f"data: {json.dumps(value)}\n\n".encode()

    async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Connection: close\r\n\r\n" + delta("Llook7 "))
        for letter in CANARY[:-1]:
            writer.write(delta(letter))
            await writer.drain()
        await go_on.wait()
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        writer.write(
            delta(CANARY[-1]) + delta(" over7there") + f"data: {json.dumps(end)}\n\n".encode()
        )
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()

    seen_texts: list[str] = []
    async with serving(speak) as provider:
        form = {"protocol": "openai_chat", "base_url": provider.url, "model": "m"}
        form |= {"key_name": "OPENAI_API_KEY"}
        result = (await client.post("/sessions", json=form)).json()
        here = f"/sessions/{result['id']}"
        await client.post(here + "/prompts", json={"text": "hello"})
        async with asyncio.timeout(30), client.stream("GET", here + "/stream") as stream:
            async for message in messages(stream):
                seen_texts.append(json.dumps(message))
                if "Llook7" in seen_texts[-1]:
                    for path in ("", "/events", "/recordings/1"):
                        answer = await client.get(here + path)
                        seen_texts.append(answer.text)
                    go_on.set()
                if "over7there" in seen_texts[-1]:
                    break
        await wait_for_session(client, result["id"])
        for path in ("", "/events", "/replay", "/recordings/1", "/export?as=har"):
            answer = await client.get(here + path, headers={"accept": "text/html"})
            assert answer.status_code == 200
            seen_texts.append(answer.text)
    return seen_texts


async def test_a_key_goes_to_a_moved_vendor_once_a_person_says_so(tmp_path: Path) -> None:
    page = {"accept": "text/html"}
    async with serving(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n") as provider:
        with run_server(tmp_path / "a.db", OPENAI_BASE_URL=provider.url) as running_server:
            async with running_server.client() as client:
                pasted = {"name": "OPENAI_API_KEY", "value": CANARY}
                assert (await client.post("/keys", json=pasted)).status_code == 200
                result = (await client.post("/sessions", json={"profile": "openai"})).json()
                here = f"/sessions/{result['id']}"
                await client.post(here + "/prompts", json={"text": "hello"})
                assert (await wait_for_session(client, result["id"]))["state"] == "failed"
                assert provider.seen == []
                offer = f"Send OPENAI_API_KEY to {provider.url}"
                assert offer in (await client.get(here, headers=page)).text
                key_form = {"name": "HOME", "base_url": provider.url}
                assert (await client.post("/keys", json=key_form)).status_code == 422
                form = {"name": "OPENAI_API_KEY", "base_url": provider.url, "session": result["id"]}
                answer = await client.post("/keys", data=form, headers=page)
                assert (answer.status_code, answer.headers["location"]) == (303, here)
                assert offer not in (await client.get(here, headers=page)).text
                assert (await client.post(here + "/retry")).status_code == 200
                await wait_for_session(client, result["id"])
        (request,) = provider.seen
        assert f"Bearer {CANARY}".encode() in request
    for file in tmp_path.iterdir():
        assert CANARY.encode() not in file.read_bytes(), file.name
