"""Forks over HTTP: what a script and a form ask for, and what is refused without a trace."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import httpx
import pytest

from tests.served import Served, served

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
WEATHER = "Weather in Paris?"


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("forks") / "f.db", PLAYGROUND_PACE="0") as running:
        yield running


@pytest.fixture
async def script(one: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with one.client() as made:
        yield made


@pytest.fixture
async def page(one: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=one.url, trust_env=False, timeout=40.0) as made:
        await made.get(f"/?token={one.token}", follow_redirects=True)
        made.headers.update({"origin": one.url, "accept": "text/html"})
        yield made


async def rested(script: httpx.AsyncClient, session_id: str) -> Json:
    with anyio.fail_after(30):
        while (told := (await script.get(f"/sessions/{session_id}")).json())["state"] == "running":
            pass
    whole: Json = told
    return whole


async def story(script: httpx.AsyncClient, prompt: str = WEATHER) -> str:
    """A session whose call ran and whose model answered."""
    run_all = [{"tool": "*", "action": "run"}]
    made = await script.post("/sessions", json={"tools": ["get_weather"], "rules": run_all})
    session_id: str = made.json()["id"]
    await script.post(f"/sessions/{session_id}/prompts", json={"text": prompt})
    await rested(script, session_id)
    return session_id


async def forked(script: httpx.AsyncClient, parent: str, **fields: Any) -> Json:
    made = await script.post(f"/sessions/{parent}/fork", json=fields)
    assert made.status_code == 201, made.text
    assert made.headers["location"] == f"/sessions/{made.json()['id']}"
    return await rested(script, made.json()["id"])


async def test_a_call_gets_other_arguments_another_answer_or_a_denial(
    script: httpx.AsyncClient,
) -> None:
    parent = await story(script)
    before = (await script.get(f"/sessions/{parent}/events")).text
    call = (await script.get(f"/sessions/{parent}")).json()["calls"][0]
    edited = await forked(script, parent, call=call["id"], arguments={"city": "Rome"})
    assert edited["calls"][0]["arguments"] == {"city": "Rome"}
    assert edited["state"] == "idle"
    raw = await forked(script, parent, call=call["id"], arguments='{"city":  "Oslo"}')
    assert raw["calls"][0]["arguments"] == {"city": "Oslo"}
    said = await forked(script, parent, call=call["id"], answer="Frogs.", is_error=True)
    assert said["calls"][0]["result"]["is_error"] is True
    denied = await forked(script, parent, call=call["id"], deny="Not today.")
    assert "Not today." in json.dumps(denied["calls"][0]["result"])
    open_again = await forked(script, parent, call=call["id"], title="Once more")
    assert (open_again["state"], open_again["title"]) == ("waiting", "Once more")
    held = await forked(script, parent, call=call["id"], answer="Frogs.", go=False)
    assert held["state"] == "paused"
    assert (await script.get(f"/sessions/{parent}/events")).text == before
