"""The demos of the first page: each starts, and shows what it says."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from playground.executors.workspace import Folder
from playground.web.demos import DEMOS, MOST_AGENTS, NOTES, example_prompts
from tests.in_process import run_server
from tests.servers import StartServer, wait_for_session

pytestmark = pytest.mark.anyio
DONE = "Done: in notes.txt, “draft” is now “final”."


async def run_calls(client: httpx.AsyncClient, session_id: str) -> Any:
    """The session when the agent has said that it is done, each call run that asked."""
    async with asyncio.timeout(30):
        while (session := await wait_for_session(client, session_id))["text"] != DONE:
            for call in session["calls"]:
                if call["status"] == "waiting":
                    path = f"/sessions/{session_id}/calls/{call['id']}/decision"
                    decision = {"decision": "run", "digest": call["digest"]}
                    assert (await client.post(path, json=decision)).status_code == 200
    return session


async def test_each_demo_starts_and_the_agents_edit_their_file(tmp_path: Path) -> None:
    with run_server(tmp_path / "a.db") as server:
        async with server.client() as client:
            started: dict[str, Any] = {}
            for demo in DEMOS:
                answered = await client.post("/sessions", data={"demo": demo.name})
                assert answered.status_code == 201, answered.text
                started[demo.name] = answered.json()["id"]
            again = await client.post("/sessions", data={"demo": "two-calls"})
            titles = {item["id"]: item["title"] for item in (await client.get("/sessions")).json()}
            assert [titles[started["two-calls"]], titles[again.json()["id"]]] == [
                "Two calls at once",
                "Two calls at once (2)",
            ]
            assert titles[started["tap"]] == "An external agent, live"
            for _ in range(MOST_AGENTS - 1):
                assert (await client.post("/sessions", data={"demo": "tap"})).status_code == 201
            refused = await client.post("/sessions", data={"demo": "tap"})
            assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
            page = await client.get("/tools?example=mistake", headers={"accept": "text/html"})
            assert "No call can be valid: &#39;time&#39; is required" in page.text
            for name in ("workspace", "tap"):
                session = await run_calls(client, started[name])
                assert [call["name"] for call in session["calls"]][-1] == "edit_file"
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        taps = [json.loads(body) for (body,) in database.execute("SELECT body FROM taps")]
    assert len(taps) == MOST_AGENTS
    assert all(tap["revoked_ms"] for tap in taps)  # also of the agents that ended with the server
    written, _ = Folder(tmp_path / "a-files" / started["workspace"]).read("notes.txt", 1000)
    assert written.decode() == NOTES["notes.txt"].replace("draft", "final")


async def test_a_new_session_is_not_like_a_demo(start_server: StartServer) -> None:
    """It has the settings of the last session that is none, else the defaults."""
    form_headers = {"content-type": "application/x-www-form-urlencoded"}
    server = start_server()
    async with server.client() as client:

        async def tools_of_next() -> tuple[list[str], str]:
            result = (await client.post("/sessions", headers=form_headers)).json()["id"]
            events = (await client.get(f"/sessions/{result}/events")).text
            settings = json.loads(events.splitlines()[0])["settings"]
            await client.post("/find/marks", json={"act": "delete", "sessions": [result]})
            return [tool["name"] for tool in settings["tools"]], settings["model"]

        first = await tools_of_next()
        assert len(first[0]) == 4, "the examples"
        await client.post("/sessions", data={"demo": "workspace"})
        assert await tools_of_next() == first
        await client.post("/sessions", json={"tools": ["calculator"]})
        await client.post("/sessions", data={"demo": "workspace"})
        assert (await tools_of_next())[0] == ["calculator"]


def test_three_prompts_are_offered_where_there_are_tools() -> None:
    assert len(example_prompts({"calculator", "get_weather", "slow_report"})) == 3
    assert len(example_prompts({"of_my_own"})) == 3
    assert len(example_prompts(())) == 1
