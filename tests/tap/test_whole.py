"""From the page to the provider and back, through the program as it is served."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx
import pytest

from tests.servers import RunningServer

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"name": "get_weather", "description": "Weather in a city.", "input_schema": CITY}
PROMPT = {"role": "user", "content": "What is the weather in Oslo?"}


async def ask(tap: Any, *messages: Any) -> httpx.Response:
    """The answer to a request of an agent."""
    body = {"model": "simulator", "max_tokens": 100, "messages": messages, "tools": [TOOL]}
    headers = {"anthropic-version": "2023-06-01", "x-api-key": "key-of-the-agent"}
    async with httpx.AsyncClient(timeout=20, trust_env=False) as agent:
        url = tap["urls"]["anthropic"] + "/v1/messages"
        return await agent.post(url, json=body, headers=headers)


@pytest.mark.anyio
async def test_what_an_agent_asks_is_on_the_page_until_it_is_stopped(server: RunningServer) -> None:
    async with server.client() as script:
        tap = (await script.post("/taps", json={"agent": "claude"})).json()
        answer = await ask(tap, PROMPT)
        assert answer.status_code == 200
        (row,) = (await script.get("/taps")).json()
        assert (row["requests"], row["other_requests"]) == (1, [])
        page = (await script.get("/agents", headers={"accept": "text/html"})).text
        assert "connected</span>" in page
        (session_id,) = re.findall(r'<a href="/sessions/(\w+)">', page)
        here = f"/sessions/{session_id}"
        session = (await script.get(here)).json()
        assert (session["tapped"]["tap"], session["state"]) == (tap["id"], "running")
        (call,) = (part for part in answer.json()["content"] if part["type"] == "tool_use")
        assert session["calls"][0]["provider_id"] == call["id"]

        assert (await script.post(f"{here}/stop", json={})).status_code == 200
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": "Rain."}
        data = {"role": "assistant", "content": answer.json()["content"]}
        refused = await ask(tap, PROMPT, data, {"role": "user", "content": [result]})
        assert (refused.status_code, refused.json()["type"]) == (403, "error")
        assert (await script.get(here)).json()["turns"] == 1

        await script.post(f"/taps/{tap['id']}/revoke", json={})
        assert (await ask(tap, PROMPT)).status_code == 401


@pytest.mark.anyio
async def test_a_new_session_of_an_agent_appears_on_the_page_with_the_demos(
    server: RunningServer,
) -> None:
    async with server.client() as script, asyncio.timeout(20):
        tap = (await script.post("/taps", json={"agent": "claude"})).json()
        page = (await script.get("/welcome", headers={"accept": "text/html"})).text
        (url,) = re.findall(r'hx-sse:connect="([^"]+)"', page)
        async with script.stream("GET", url) as stream:
            lines = stream.aiter_lines()
            async for line in lines:
                if 'id="list"' in line:
                    break
            await ask(tap, {"role": "user", "content": "Is it there at once?"})
            async for line in lines:
                if "Is it there at once?" in line:
                    break


@pytest.mark.anyio
async def test_what_is_refused_is_on_the_page_with_its_reason(server: RunningServer) -> None:
    async with server.client() as script:
        tap = (await script.post("/taps", json={"upstream": "gemini"})).json()
        assert (await ask(tap, PROMPT)).status_code == 404
        row = next(row for row in (await script.get("/taps")).json() if row["id"] == tap["id"])
        (other,) = row["other_requests"]
        assert (row["requests"], other["method"], other["path"]) == (1, "POST", "/v1/messages")
        assert (other["status"], "does not use the protocol" in other["refused"]) == (404, True)
        page = (await script.get("/agents", headers={"accept": "text/html"})).text
        assert other["refused"] in page
