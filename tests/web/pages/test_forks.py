"""Forks over HTTP: what a script and a form ask for, and what is refused without a trace."""

from __future__ import annotations

import json
from typing import Any

import anyio
import httpx
import pytest

from playground.core.errors import StoreError
from playground.engine.sessions import SessionStore
from tests.servers import RunningServer, wait_for_session

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
WEATHER = "Weather in Paris?"


async def story(script: httpx.AsyncClient, prompt: str = WEATHER) -> str:
    """A session whose call ran and whose model answered."""
    run_all = [{"tool": "*", "action": "run"}]
    response = await script.post("/sessions", json={"tools": ["get_weather"], "rules": run_all})
    session_id: str = response.json()["id"]
    await script.post(f"/sessions/{session_id}/prompts", json={"text": prompt})
    await wait_for_session(script, session_id)
    return session_id


@pytest.fixture(scope="module")
def shared_session_id(server: RunningServer) -> str:
    """A session that is only read and forked."""

    async def make_story() -> str:
        async with server.client() as script:
            return await story(script)

    return anyio.run(make_story)


async def forked(script: httpx.AsyncClient, parent: str, **fields: Any) -> Json:
    response = await script.post(f"/sessions/{parent}/fork", json=fields)
    assert response.status_code == 201, response.text
    assert response.headers["location"] == f"/sessions/{response.json()['id']}"
    answer: Json = await wait_for_session(script, response.json()["id"])
    return answer


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
    answer = await forked(script, parent, call=call["id"], answer="Frogs.", is_error=True)
    assert answer["calls"][0]["result"]["is_error"] is True
    denied = await forked(script, parent, call=call["id"], deny="Not today.")
    assert "Not today." in json.dumps(denied["calls"][0]["result"])
    open_again = await forked(script, parent, call=call["id"], title="Once more")
    assert (open_again["state"], open_again["title"]) == ("waiting", "Once more")
    forked_session = await forked(script, parent, call=call["id"], answer="Frogs.", go=False)
    assert forked_session["state"] == "paused"
    assert (await script.get(f"/sessions/{parent}/events")).text == before


async def test_what_if_makes_a_fork_for_each_result(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    parent = await story(script)
    call = (await script.get(f"/sessions/{parent}")).json()["calls"][0]["id"]
    results = ["Frogs.", {"text": "Down.", "is_error": True}]
    response = await script.post(
        f"/sessions/{parent}/fork", json={"call": call, "results": results}
    )
    assert response.status_code == 201
    both = [await wait_for_session(script, item_id) for item_id in response.json()["ids"]]
    assert [item["calls"][0]["result"]["is_error"] for item in both] == [False, True]
    # The page's form: empty fields are none, a past result is ticked, each is one more.
    past = (await script.get(f"/sessions/{parent}/calls/{call}/past")).json()["past"][0]["key"]
    form = {"call": call, "results": ["Hail.\r\nAnd wind.", "", " "], "failed": "0", "past": past}
    sent = await page.post(f"/sessions/{parent}/fork", data=form)
    assert sent.status_code == 303
    to = sent.headers["location"]
    assert to.startswith("/compare?session=")
    first, _ = [text.partition("=")[2] for text in to.partition("?")[2].split("&")]
    output = (await wait_for_session(script, first))["calls"][0]["result"]
    assert (output["content"][0]["text"], output["is_error"]) == ("Hail.\nAnd wind.", True)
    alone = await page.post(f"/sessions/{parent}/fork", data={"call": call, "results": "One."})
    assert alone.headers["location"].startswith("/sessions/")


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"prompt": 1, "turn": 1}, 422, "one place"),
        ({"prompt": "x"}, 422, "whole number"),
        ({"turn": 0}, 422, "at least 1"),
        ({"seq": True}, 422, "whole number"),
        ({"call": 1}, 422, "id of a call"),
        ({"call": 0}, 422, "id of a call"),
        ({"call": ["1.0"]}, 422, "id of a call"),
        ({"call": ""}, 422, "is empty"),
        ({"call": None}, 422, "is empty"),
        ({"prompt": "", "text": "Hi"}, 422, "is empty"),
        ({"prompt": 0}, 422, "at least 1"),
        ({"seq": 1.5}, 422, "whole number"),
        ({"call": "9.9"}, 404, "no call"),
        ({"answer": "Hi"}, 422, "needs a call"),
        ({"call": "CALL", "answer": "Hi", "deny": ""}, 422, "one decision"),
        ({"call": "CALL", "answer": 3}, 422, "must be a text"),
        ({"call": "CALL", "arguments": [1]}, 422, "must be an object"),
        ({"call": "CALL", "results": "Hi"}, 422, "must be a list"),
        ({"call": "CALL", "results": []}, 422, "1 to 6"),
        ({"call": "CALL", "results": ["x"] * 7}, 422, "1 to 6"),
        ({"call": "CALL", "results": [{"text": 3}]}, 422, "A result must be"),
        ({"call": "CALL", "results": [{"text": "x", "loud": 1}]}, 422, "A result must be"),
        ({"turn": 1, "text": "Hi"}, 422, "not a turn"),
        ({"settings": ["x"]}, 422, "must be an object"),
        ({"settings": {"loud": 1}}, 422, "no field"),
        ({"where": 1}, 422, "has no field 'where'"),
        ({"go": "yes"}, 422, "true or false"),
    ],
)
async def test_what_cannot_be_is_said_and_nothing_is_made(
    script: httpx.AsyncClient, shared_session_id: str, fields: Json, status: int, words: str
) -> None:
    here = f"/sessions/{shared_session_id}"
    if fields.get("call") == "CALL":
        call = (await script.get(here)).json()["calls"][0]["id"]
        fields = {**fields, "call": call}
    before = len((await script.get(f"{here}/forks")).json())
    refused = await script.post(f"{here}/fork", json=fields)
    assert (refused.status_code, words in refused.json()["error"]) == (status, True), refused.text
    assert len((await script.get(f"{here}/forks")).json()) == before


async def test_settings_hold_from_the_fork_on_by_json_and_by_the_small_form(
    script: httpx.AsyncClient, page: httpx.AsyncClient, shared_session_id: str
) -> None:
    async def settings(session_id: str) -> Json:
        lines = (await script.get(f"/sessions/{session_id}/events")).text.splitlines()
        items = [json.loads(line) for line in lines]
        changed = [item["settings"] for item in items if item["kind"] == "settings_changed"]
        assert [item["kind"] for item in items].count("session_forked") == 1
        last: Json = changed[-1] if changed else {}
        return last

    changes = {"tool_choice": "none", "params": {"temperature": 0.5}}
    child = await forked(script, shared_session_id, turn=1, settings=changes, title=" No  tools ")
    now = await settings(child["id"])
    assert (now["tool_choice"]["mode"], now["params"]) == ("none", {"temperature": 0.5})
    assert (child["title"], child["calls"]) == ("No tools", [])
    form = {"turn": "1", "profile": "simulator-openai", "model": "sim-1", "drawn": "sim-1"}
    form |= {"tool_choice": "auto", "temperature": ".25", "hold": "true"}
    sent = await page.post(f"/sessions/{shared_session_id}/fork", data=form)
    assert sent.status_code == 303
    session_id = sent.headers["location"].rpartition("/")[2]
    now = await settings(session_id)
    assert (now["profile"]["protocol"], now["params"]) == ("openai_chat", {"temperature": 0.25})
    assert (await wait_for_session(script, session_id))["state"] == "paused"
    # What says nothing else changes nothing.
    same = {"prompt": "1", "text": WEATHER, "tool_choice": "auto", "temperature": ""}
    sent = await page.post(f"/sessions/{shared_session_id}/fork", data=same)
    assert await settings(sent.headers["location"].rpartition("/")[2]) == {}


async def test_a_fork_that_cannot_be_read_leaves_the_page_of_the_others(
    script: httpx.AsyncClient, page: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = await story(script)
    child = (await forked(script, parent, turn=2))["id"]
    holding = SessionStore.lock_session

    def only_parent(store: SessionStore, session_id: str) -> Any:
        if session_id == child:
            raise StoreError("This session cannot be read.")
        return holding(store, session_id)

    monkeypatch.setattr(SessionStore, "lock_session", only_parent)
    tree = await page.get(f"/sessions/{parent}/forks")
    assert (tree.status_code, child in tree.text) == (200, True)


async def test_the_pages_show_the_forms_the_tree_and_where_it_branches(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    parent = await story(script, "Weather in Lima?")
    call = (await script.get(f"/sessions/{parent}")).json()["calls"][0]["id"]
    for query, words in [
        ("prompt=1", "Weather in Lima?"),
        ("turn=2", "Ask again in a fork"),
        (f"call={call}", "Past results of get_weather"),
        ("seq=3", "Fork here"),
        ("", "Next prompt (optional)"),
    ]:
        for headers in ({}, {"hx-request": "true"}):
            response = await page.get(f"/sessions/{parent}/fork?{query}", headers=headers)
            assert (response.status_code, words in response.text) == (200, True), query
            assert ("<html" in response.text) is not bool(headers)
    child = (await forked(script, parent, call=call, answer="Frogs.", title="Frogs <b>"))["id"]
    second = (await forked(script, child, turn=2))["id"]
    output = (await script.get(f"/sessions/{second}/forks")).json()
    assert [item["id"] for item in output] == [parent, child, second]
    places = [item["place"] and (item["place"]["kind"], item["place"]["number"]) for item in output]
    assert places == [None, ("call", 1), ("turn", 2)]
    assert [item["here"] for item in output] == [False, False, True]
    tree = (await page.get(f"/sessions/{parent}/forks")).text
    assert "Frogs &lt;b&gt;" in tree
    assert "this session · done" in tree
    assert tree.index(parent) < tree.index(child) < tree.index(second)
    lines = (await page.get(f"/sessions/{parent}/forks", headers={"hx-request": "true"})).text
    assert 'hx-target="#branches-turn-1"' in lines
    assert f"/sessions/{child}" in lines
    seq = output[1]["parent_seq"]
    named = await page.get(f"/sessions/{child}/forks?parent={seq}", headers={"hx-request": "true"})
    assert named.text == f'<a href="/sessions/{parent}">Weather in Lima?</a>'
    await script.post(f"/sessions/{parent}/delete")
    named = await page.get(f"/sessions/{child}/forks?parent={seq}", headers={"hx-request": "true"})
    assert named.text == "a session that does not exist here"
    gone = await script.post(f"/sessions/{parent}/fork", json={})
    assert (gone.status_code, "Restore it" in gone.json()["error"]) == (409, True)


async def test_what_came_from_elsewhere_names_no_session_of_ours(
    script: httpx.AsyncClient, page: httpx.AsyncClient, shared_session_id: str
) -> None:
    child = (await forked(script, shared_session_id, turn=2))["id"]
    export = (await script.get(f"/sessions/{child}/export?as=jsonl")).json()["text"]
    answer = await script.post("/sessions/import", content=export.encode())
    assert answer.status_code == 201, answer.text
    imported = answer.json()["id"]
    seq = (await script.get(f"/sessions/{child}/forks")).json()[-1]["parent_seq"]
    own = await forked(script, imported, go=False)
    for session_id in (imported, own["id"]):
        forks_path = f"/sessions/{session_id}/forks?parent={seq}"
        named = await page.get(forks_path, headers={"hx-request": "true"})
        assert named.text == "a session that does not exist here"
    output = (await script.get(f"/sessions/{imported}/forks")).json()
    assert [item["id"] for item in output] == [imported, own["id"]]
