"""When a tool is called, set in its editor, over a real server."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.markup import joined_tags
from tests.servers import RunningServer, wait_for_session

pytestmark = pytest.mark.anyio

PARAMETERS = {"type": "object", "properties": {}}
NOTE = {
    "name": "note",
    "answered_by": "mock",
    "config": {"result": "noted"},
    "parameters": PARAMETERS,
}
HTMX = {"hx-request": "true", "accept": "text/html"}


@pytest.fixture
async def script(server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    async with server.client() as async_client:
        (await async_client.post("/tools", json=NOTE)).raise_for_status()
        for listed in (await async_client.get("/rules")).json():
            await async_client.post(f"/rules/{listed['id']}/delete")
        yield async_client


async def page_of(script: httpx.AsyncClient) -> str:
    return (await script.get("/tools/note", headers={"accept": "text/html"})).text


async def state_of_a_call(script: httpx.AsyncClient) -> tuple[str, list[Any]]:
    body = {"tools": ["note"], "tool_choice": "required"}
    session_id = (await script.post("/sessions", json=body)).json()["id"]
    await script.post(f"/sessions/{session_id}/prompts", json={"text": "Note it"})
    folded = await wait_for_session(script, session_id)
    call = folded["calls"][0]
    return call["status"], call["result"]


async def test_it_is_a_rule_for_always_about_just_this_tool(script: httpx.AsyncClient) -> None:
    assert (await state_of_a_call(script))[0] == "waiting"
    assert "mock · asks" in await page_of(script)
    output = (await script.post("/tools/note/when", json={"when": "run"})).json()
    assert output == {"tool": "note", "when": "run", "text": "", "stale": False, "before": ""}
    (rule,) = (await script.get("/rules")).json()
    assert (rule["tool"], rule["action"], rule["bound"]) == ("note", "run", {"note": "same"})
    assert (await state_of_a_call(script))[0] == "done"
    assert "mock · runs" in await page_of(script)
    # A changed tool asks again, and its page says so and offers it.
    changed = {**NOTE, "description": "Notes things."}
    (await script.post("/tools", json=changed)).raise_for_status()
    assert (await state_of_a_call(script))[0] == "waiting"
    html = await page_of(script)
    assert "has changed since its rule was added" in html
    assert "mock · asks" in html
    assert (await script.post("/tools/note/when", json={"again": "run"})).json()["stale"] is False
    assert (await state_of_a_call(script))[0] == "done"
    output = (await script.post("/tools/note/when", json={"when": "deny", "text": "Never."})).json()
    assert (output["when"], output["text"]) == ("deny", "Never.")
    assert "Never." in str(await state_of_a_call(script))
    assert len((await script.get("/rules")).json()) == 1
    assert (await script.post("/tools/note/when", json={"when": "ask"})).json()["when"] == "ask"
    assert (await script.get("/rules")).json() == []
    assert (await state_of_a_call(script))[0] == "waiting"


async def test_what_cannot_be_set_is_said(script: httpx.AsyncClient) -> None:
    answer = await script.post("/tools/note/when", json={"when": "stop"})
    assert (answer.status_code, "is one of" in answer.text) == (422, True)
    person = {"name": "ask_me", "answered_by": "person", "config": {}, "parameters": PARAMETERS}
    (await script.post("/tools", json=person)).raise_for_status()
    assert (await script.post("/tools/ask_me/when", json={"when": "run"})).status_code == 422
    assert (await script.post("/tools/nothing/when", json={"when": "run"})).status_code == 404
    deny = {"tool": "*", "action": "deny", "words": "never at all"}
    (await script.post("/rules", json=deny)).raise_for_status()
    output = (await script.post("/tools/note/when", json={"when": "run"})).json()
    assert (output["when"], output["before"]) == ("run", "never at all")
    assert "mock · denied" in await page_of(script)


async def test_the_forms_of_the_page(server: RunningServer, script: httpx.AsyncClient) -> None:
    async with server.page() as page:
        response = await page.post("/tools/note/when", data={"when": "run", "when_text": ""})
        assert (response.status_code, response.headers["location"]) == (303, "/tools/note")
        answer = await page.post("/tools/note/when", data={"when": "ask"}, headers=HTMX)
        assert 'hx-target="#when-called"' in answer.text
        assert "note needs approval, unless another rule decides it." in answer.text


async def test_save_sends_it_along_and_keeps_what_was_chosen(
    server: RunningServer, script: httpx.AsyncClient
) -> None:
    fields = {"original": "note", "name": "note", "answered_by": "mock", "takes": "json",
              "now": "json", "face": "json", "parameters": '{"type":"object","properties":{}}',
              "config": "{}", "timeout_s": "60", "when_was": "ask", "text_was": ""}  # fmt: skip
    async with server.page() as page:
        # Refused before anything is saved, and the choice stands as it was made.
        empty = await page.post("/tools", data={**fields, "when": "answer", "when_text": " "})
        assert (empty.status_code, (await script.get("/rules")).json()) == (422, [])
        assert "Enter the result." in empty.text
        assert re.search('value="answer" id="when-answer" checked', joined_tags(empty.text))
        refused = await page.post("/tools/note/when", data={"when": "answer"}, headers=HTMX)
        assert refused.status_code == 422
        faces = {**fields, "when": "deny", "when_text": "Not now.", "face": "form"}
        drawn = await page.post("/tools/faces", data=faces, headers=HTMX)
        assert 'value="deny" id="when-deny" checked' in joined_tags(drawn.text)
        assert 'value="Not now."' in drawn.text
        saved = await page.post("/tools", data={**fields, "when": "run", "when_text": ""})
        assert saved.status_code == 303, saved.text
        (rule,) = (await script.get("/rules")).json()
        assert (rule["action"], rule["bound"]) == ("run", {"note": "same"})
        # What is not touched is not written: a rule for an older version goes on asking.
        same = {**fields, "when_was": "run", "when": "run", "description": "Another one."}
        assert (await page.post("/tools", data=same)).status_code == 303
        assert (await script.get("/rules")).json()[0]["bound"] == {"note": "changed"}
