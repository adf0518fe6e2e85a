"""A key that a provider repeats is in no file, log, page or stream of ours. Threat 16."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.net.test_client import serving
from tests.served import messages, rested, served

pytestmark = pytest.mark.anyio

CANARY = "sk-canary-5e8d1b7a90c34f26"


async def test_an_echoed_key_reaches_nobody(tmp_path: Path) -> None:
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {CANARY}."}}).encode()
    head = b"HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\n"
    echo = f"X-Echo: {CANARY}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    async with serving(head + echo + body) as provider:
        with served(tmp_path / "a.db", OPENAI_API_KEY=CANARY) as one:
            async with one.client() as client:
                asked = {"protocol": "openai_chat", "base_url": provider.url, "model": "m"}
                asked |= {"key_name": "OPENAI_API_KEY"}  # an address alone takes no key along
                asked["key_name"] = "OPENAI_API_KEY"
                made = (await client.post("/sessions", json=asked)).json()
                here = f"/sessions/{made['id']}"
                await client.post(here + "/prompts", json={"text": "hello"})
                found = await rested(client, made["id"])
                seen = [json.dumps(found)]
                for path in ("", "/events", "/replay", "/recordings/1", "/requests/1"):
                    answer = await client.get(here + path, headers={"accept": "text/html"})
                    assert answer.status_code == 200
                    seen.append(answer.text)
                async with asyncio.timeout(10), client.stream("GET", here + "/stream") as stream:
                    async for message in messages(stream):
                        seen.append(json.dumps(message))
                        if "id" in message:
                            break
            assert one.end() == 0
        assert found["state"] == "failed"
        (request,) = provider.seen
        assert f"Bearer {CANARY}".encode() in request, "the right key was sent"
    assert [text for text in seen if CANARY in text] == []
    for file in tmp_path.iterdir():
        assert CANARY.encode() not in file.read_bytes(), file.name
