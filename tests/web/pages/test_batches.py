"""Batches over HTTP: a SPEC becomes runs, a page that follows them, and files."""

from __future__ import annotations

import asyncio
import html
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.in_process import run_server
from tests.servers import StartServer, wait_for_session

pytestmark = pytest.mark.anyio

NASTY = "<img src=x onerror=alert(1)>"
TOOL = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "Its name."}},
        "required": ["city"],
    },
    "config": {"result": "rain"},
}
SPEC: dict[str, Any] = {
    "playground_batch": 1,
    "name": f"weather {NASTY}",
    "defaults": {"repetitions": 2},
    "tools": [TOOL],
    "models": ["simulator"],
    "cases": [
        {
            "id": "asked",
            "prompt": "What is the weather in Oslo?",
            "expect": [{"called": "get_weather", "arguments": {"exact": {"city": "Oslo"}}}],
        },
        {"id": NASTY, "prompt": "What is the weather in Rome?", "expect": [{"no_call": True}]},
    ],
}


async def wait_for_batch(client: httpx.AsyncClient, batch_id: str) -> Any:
    async with asyncio.timeout(30):
        while (batch := (await client.get(f"/batches/{batch_id}")).json())["state"] != "ended":
            await asyncio.sleep(0.02)
    return batch


async def test_a_spec_is_run_shown_and_exported(start_server: StartServer) -> None:
    page = {"accept": "text/html"}
    server = start_server()
    async with server.client() as client:
        response = await client.post("/batches", json={**SPEC, "cases": [{"id": "a"}]})
        assert (response.status_code, response.json()["code"]) == (422, "bad_input")
        started = await client.post("/batches", json=SPEC)
        assert started.status_code == 201
        batch = await wait_for_batch(client, batch_id := started.json()["id"])
        assert (batch["passed"], batch["failed"], batch["planned"]) == (2, 2, 4)

        page_html = (await client.get(f"/batches/{batch_id}", headers=page)).text
        assert NASTY not in page_html
        failing = batch["failures"][0]
        assert failing["why"][0] in html.unescape(page_html)
        assert f"/sessions/{failing['session']}" in page_html
        fragment = await client.get(f"/batches/{batch_id}/report?version=other", headers=page)
        assert 'id="batch"' in fragment.text
        assert "hx-trigger" not in fragment.text, "nothing more will come"
        for form in ("csv", "json", "junit", "markdown", "html", "spec"):
            file = await client.get(f"/batches/{batch_id}/export?as={form}")
            assert (file.status_code, bool(file.content)) == (200, True), form
        assert (await client.post(f"/batches/{batch_id}/pause")).status_code == 409
        listed = (await client.get("/batches", headers=page)).text
        assert "2 passed" in listed
        assert [row["id"] for row in (await client.get("/batches")).json()] == [batch_id]
        # Its runs are in no list of sessions but by their own addresses.
        assert (await client.get("/sessions")).json() == []


async def test_a_session_becomes_a_batch_of_several_models(start_server: StartServer) -> None:
    server = start_server()
    async with server.client() as client, server.page() as browser:
        session_form = {"tools": [TOOL], "rules": [{"tool": "get_weather", "action": "run"}]}
        response = await client.post("/sessions", json={**session_form, "title": NASTY})
        session_id = response.json()["id"]
        prompt = {"text": "What is the weather in Oslo?"}
        await client.post(f"/sessions/{session_id}/prompts", json=prompt)
        await wait_for_session(client, session_id)
        form = (await browser.get(f"/batches/new?session={session_id}")).text
        assert NASTY not in form
        spec = (await client.get(f"/sessions/{session_id}/export?as=batch")).json()["text"]
        typed = {"spec": spec, "repetitions": "2", "models": ["simulator", "simulator-gemini"]}

        checked = await browser.post("/batches", data={**typed, "do": "check"})
        assert "Nothing was started. Estimate: 4 runs of 1 cases" in checked.text
        refused = await browser.post("/batches", data={**typed, "repetitions": "many"})
        assert refused.status_code == 422
        assert "Repetitions must be a number" in refused.text
        assert json.loads(spec)["cases"][0]["prompt"] in refused.text, "what was typed stays"

        token = re.findall('name="token" value="([0-9a-f]{16})"', form)[0]
        begun, again = [
            await browser.post("/batches", data={**typed, "token": token}) for _ in range(2)
        ]
        assert begun.status_code == 303
        assert begun.headers["location"] == again.headers["location"]
        assert len((await client.get("/batches")).json()) == 1
        batch = await wait_for_batch(client, begun.headers["location"].rpartition("/")[2])
        assert (batch["passed"], batch["failed"]) == (4, 0)
        assert "4 passed" in (await browser.get("/batches")).text


async def test_runs_that_end_with_the_server_are_no_provider_errors(tmp_path: Path) -> None:
    many = {**SPEC, "defaults": {"repetitions": 40}}
    with run_server(tmp_path / "a.db", pace=0.3) as server:
        async with server.client() as client:
            batch_id = (await client.post("/batches", json=many)).json()["id"]
            async with asyncio.timeout(30):
                while not (await client.get(f"/batches/{batch_id}")).json()["done"]:
                    await asyncio.sleep(0.01)
    with run_server(tmp_path / "a.db") as server:
        async with server.client() as client:
            outcomes = (await client.get(f"/batches/{batch_id}")).json()["outcomes"]
            # Whether a run is stopped, cut (unknown) or has sent nothing is a matter of the moment.
            assert set(outcomes) <= {"passed", "failed", "stopped", "unknown"}
