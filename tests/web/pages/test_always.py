"""A rule from a card, and what the rules say of a call, over a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import pytest

from tests.servers import RunningServer, messages, wait_for_session

pytestmark = pytest.mark.anyio

NOTE = {
    "name": "note",
    "answered_by": "mock",
    "config": {"result": "noted"},
    "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
}
HTMX = {"hx-request": "true", "accept": "text/html"}


@pytest.fixture
async def script(server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    async with server.client() as async_client:
        for listed in (await async_client.get("/rules")).json():  # none of another test
            await async_client.post(f"/rules/{listed['id']}/delete")
        yield async_client


async def waiting(script: httpx.AsyncClient, name: str) -> tuple[str, dict[str, Any]]:
    """A session with a call of the tool `name` that waits: its path, and the call."""
    (await script.post("/tools", json={**NOTE, "name": name})).raise_for_status()
    response = await script.post("/sessions", json={"tools": [name], "tool_choice": "required"})
    path = f"/sessions/{response.json()['id']}"
    await script.post(f"{path}/prompts", json={"text": "Say something"})
    output = await wait_for_session(script, response.json()["id"])
    assert output["state"] == "waiting", output
    return path, output["calls"][0]


async def call_of(script: httpx.AsyncClient, path: str) -> dict[str, Any]:
    folded = await wait_for_session(script, path.rpartition("/")[2])
    call: dict[str, Any] = folded["calls"][0]
    return call


@pytest.mark.parametrize("scope", ["session", "always"])
async def test_the_rule_is_shown_then_written_and_decides_the_call(
    script: httpx.AsyncClient, scope: str
) -> None:
    path, call = await waiting(script, f"note_{scope}")
    here = f"{path}/calls/{call['id']}"
    data = (await script.get(f"{here}/always?scope={scope}")).json()
    assert (data["said"], data["place"]) == (f"run note_{scope}", 0)
    assert data["decides"] == [call["id"]]
    listed = "/rules" if scope == "always" else f"{path}/rules"
    assert (await script.get(listed)).json() == []  # showing writes nothing
    about = (await script.get(f"{here}/rule")).json()
    assert about["said"] == "No rule matches this call now."
    body = {"scope": scope, "digest": call["digest"], "print": data["print"]}
    answer = await script.post(f"{here}/always", json=body)
    assert answer.status_code == 201, answer.text
    assert answer.json()["decides"] == [call["id"]]
    ran = await call_of(script, path)
    assert (ran["status"], ran["decided_by"]) == ("done", f"run note_{scope}")
    (rule,) = (await script.get(listed)).json()
    assert rule["id"] == answer.json()["rule"]["id"]
    assert (rule["proposed"], rule["bound"]) == (True, {f"note_{scope}": "same"})
    output = (await script.get(f"{here}/rule")).json()["said"]
    assert output.startswith("Rule 1 ")
    # Undo takes the rule away; what was decided stays.
    undone = await script.post(answer.json()["undo"])
    assert undone.status_code == 200
    assert (await script.get(listed)).json() == []
    assert (await call_of(script, path))["status"] == "done"
    assert "was deleted" in (await script.get(f"{here}/rule")).json()["said"]
    again = await script.post(f"{here}/always", json=body)
    assert again.status_code == 422
    assert "no longer waits" in again.json()["error"]


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"digest": "0" * 64}, 409, "out of date"),
        ({"digest": ""}, 422, "needs the digest"),
        ({"print": "0" * 32}, 409, "Check the rule again"),
        ({"decision": "stop"}, 422, "decision must be run or deny"),
        ({"scope": "ever"}, 422, "scope must be"),
        ({"exact": "maybe"}, 422, "exact must be"),
        ({"text": "x" * 5000}, 422, "at most"),
    ],
)
async def test_what_was_not_shown_is_not_written(
    script: httpx.AsyncClient, changes: dict[str, Any], status: int, words: str
) -> None:
    path, call = await waiting(script, "note_refused")
    body = {"digest": call["digest"], **changes}
    answer = await script.post(f"{path}/calls/{call['id']}/always", json=body)
    assert (answer.status_code, words in answer.text) == (status, True), answer.text
    assert (await script.get(f"{path}/rules")).json() == []
    assert (await call_of(script, path))["status"] == "waiting"


async def test_a_list_that_changed_meanwhile_is_looked_at_again(script: httpx.AsyncClient) -> None:
    path, call = await waiting(script, "note_changed")
    here = f"{path}/calls/{call['id']}/always"
    data = (await script.get(here)).json()
    rule = {"tool": "other", "action": "deny"}
    (await script.post(f"{path}/rules", json=rule)).raise_for_status()
    body = {"digest": call["digest"], "print": data["print"]}
    assert (await script.post(here, json=body)).status_code == 409
    assert (await call_of(script, path))["status"] == "waiting"


async def test_what_was_denied_in_another_session_is_not_let_through(
    script: httpx.AsyncClient,
) -> None:
    path, call = await waiting(script, "note_denied")
    body = {"decision": "deny", "digest": call["digest"]}
    (await script.post(f"{path}/calls/{call['id']}/decision", json=body)).raise_for_status()
    (await script.post(f"{path}/delete")).raise_for_status()
    other, call = await waiting(script, "note_denied")
    here = f"{other}/calls/{call['id']}/always"
    data = (await script.get(here)).json()
    assert data["rule"] is None
    assert "You denied" in data["why_not"]
    answer = await script.post(here, json={"digest": call["digest"]})
    assert answer.status_code == 422
    assert (await script.get(f"{here}?decision=deny")).json()["rule"]["action"] == "deny"


async def test_without_script_it_is_a_page_and_plain_forms(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    path, call = await waiting(script, "note_plain")
    here = f"{path}/calls/{call['id']}"
    assert f'href="{here}/always"' in (await page.get(path)).text
    html = (await page.get(f"{here}/always?decision=deny&scope=session&exact=false")).text
    assert "<!doctype html>" in html
    assert "Rule 1 of this session: deny note_plain" in html
    assert "<!doctype html>" in (await page.get(f"{here}/rule")).text
    form = {"decision": "deny", "exact": "false", "scope": "session", "text": "Not here."}
    answer = await page.post(f"{here}/always", data={**form, "digest": call["digest"]})
    assert (answer.status_code, answer.headers["location"]) == (303, path)
    assert "Not here." in str((await call_of(script, path))["result"])


async def test_htmx_gets_the_panel_and_a_toast_with_undo(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    path, call = await waiting(script, "note_htmx")
    here = f"{path}/calls/{call['id']}/always"
    panel = await page.get(here, headers=HTMX)
    assert "<!doctype" not in panel.text
    assert "Rule 1 of this session: run note_htmx" in panel.text
    answer = await page.post(here, data={"digest": call["digest"]}, headers=HTMX)
    assert answer.status_code == 200, answer.text
    (rule,) = (await script.get(f"{path}/rules")).json()
    assert f'hx-post="{path}/rules/{rule["id"]}/delete"' in answer.text


async def test_a_deleted_session_takes_no_rule(script: httpx.AsyncClient) -> None:
    path, call = await waiting(script, "note_gone")
    (await script.post(f"{path}/delete")).raise_for_status()
    body = {"digest": call["digest"]}
    answer = await script.post(f"{path}/calls/{call['id']}/always", json=body)
    assert answer.status_code == 409
    assert (await script.get(f"{path}/calls/9.9/always")).status_code == 404


async def test_the_dock_of_an_open_page_says_what_runs_unasked(script: httpx.AsyncClient) -> None:
    path, _ = await waiting(script, "note_dock")
    stream = f"/stream?session={path.rpartition('/')[2]}&after=0"
    rule = {"tool": "*", "action": "run", "read_only": True}
    with anyio.fail_after(20):
        async with script.stream("GET", stream, headers={"accept": "text/event-stream"}) as answer:
            generator = messages(answer)
            assert "auto-run read-only tools" not in (await anext(generator))["data"]
            (await script.post(f"{path}/rules", json=rule)).raise_for_status()
            async for data in generator:
                if "auto-run read-only tools" in data["data"]:
                    break
