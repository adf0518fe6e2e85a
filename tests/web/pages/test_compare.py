"""Comparing over HTTP: what is chosen, the forms of the answer, and what is refused."""

from __future__ import annotations

import httpx
import pytest

from tests.markup import joined_tags
from tests.servers import wait_for_session

pytestmark = pytest.mark.anyio

REFUSED = (
    ({"session": ["nobody", "else"]}, 404, "There is no session"),
    ({"session": "{one}"}, 422, "Name at least two sessions"),
    ({"session": ["{one}", "{one}"]}, 422, "Name at least two sessions"),
    ({"session": ["a", "b", "c", "d", "e"]}, 422, "At most 4 sessions"),
    ({"session": ["{one}", "x"], "view": "sideways"}, 422, "view must be turns or live."),
)


async def start_session(script: httpx.AsyncClient, text: str, session_id: str = "") -> str:
    """A session that was asked `text`, and has answered or waits."""
    if not session_id:
        session_id = (await script.post("/sessions", json={"tools": []})).json()["id"]
    if text:
        await script.post(f"/sessions/{session_id}/prompts", json={"text": text})
    await wait_for_session(script, session_id)
    return session_id


async def test_a_fork_is_compared_with_its_parent(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    parent = await start_session(script, "Hello <b>you</b>")
    response = await script.post(f"/sessions/{parent}/fork", json={})
    child = await start_session(script, "And now?", response.json()["id"])
    query = {"session": [parent, child], "view": "turns"}
    output = (await script.get("/compare", params=query)).json()
    assert [session["id"] for session in output["sessions"]] == [parent, child]
    assert output["against"][0]["common"] == 2
    assert output["against"][0]["counts"]["extra_prompts"] == 1

    drawn = await page.get("/compare", params=query)
    assert drawn.status_code == 200
    assert "1 turn in common" in drawn.text
    assert "And now?" in drawn.text
    assert "<b>you" not in drawn.text
    assert f"/compare?session={child}&amp;session={parent}&amp;view=turns" in drawn.text
    text = await page.get("/compare", params={**query, "as": "markdown"})
    assert text.headers["content-type"].startswith("text/plain")
    assert text.text.startswith("# Comparison\n")

    asked_once = await page.get("/compare", params={"session": parent})
    assert "Choose two to four sessions" in asked_once.text
    assert f'value="{child}"' in asked_once.text
    assert '<span class="tag">fork</span>' in asked_once.text
    twice = await page.get("/compare", params={"session": [parent, parent]})
    assert "selected twice" in twice.text
    plain_response = await page.get(
        "/compare", params={"session": parent, "q": "no such", "choose": "1"}
    )
    assert f'value="{parent}" checked' in joined_tags(plain_response.text)
    assert f'value="{child}"' not in plain_response.text


async def test_more_than_stand_side_by_side_are_chosen_from(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    items = [(await script.post("/sessions", json={"tools": []})).json()["id"] for _ in range(6)]
    drawn = await page.get("/compare", params={"session": items})
    assert (drawn.status_code, "At most 4 sessions side by side" in drawn.text) == (200, True)
    html = joined_tags(drawn.text)
    ticked = [f'value="{item}" checked' in html for item in items]
    assert ticked == [True] * 4 + [False] * 2
    assert all(f'value="{item}"' in drawn.text for item in items)


async def test_sessions_without_turns_and_pages_of_rows(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    text, other = await start_session(script, ""), await start_session(script, "")
    drawn = await page.get("/compare", params={"session": [text, other]})
    assert "These sessions have no messages yet." in drawn.text
    assert drawn.text.count("No turns yet.") == 2
    live = await page.get("/compare", params={"session": [text, other], "view": "live"})
    assert live.status_code == 200
    assert "<iframe" in live.text


async def test_what_is_refused_says_why(script: httpx.AsyncClient, page: httpx.AsyncClient) -> None:
    text = await start_session(script, "")
    for params, status, words in REFUSED:
        named = params["session"]
        ids = [named] if isinstance(named, str) else list(named)
        query = {**params, "session": [name.replace("{one}", text) for name in ids]}
        answer = await script.get("/compare", params=query)
        assert (answer.status_code, words in answer.json()["error"]) == (status, True), params
    other = await start_session(script, "")
    answer = await page.get("/compare", params={"session": [text, other], "from": "x"})
    assert (answer.status_code, "whole number" in answer.text) == (422, True)


async def test_a_column_says_what_was_decided_in_it_and_that_it_is_deleted(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    response = await script.post("/sessions", json={"tools": ["calculator"]})
    parent = await start_session(script, "What is 17 * 23?", response.json()["id"])
    (call,) = (await script.get(f"/sessions/{parent}")).json()["calls"]
    results = {"call": call["id"], "results": ["17*23 = 0", "17*23 <b> = 1"]}
    forks = (await script.post(f"/sessions/{parent}/fork", json=results)).json()["ids"]
    for fork in forks:
        await start_session(script, "", fork)
    query = {"session": forks, "view": "live"}
    drawn = (await page.get("/compare", params=query)).text
    assert ">answered: 17*23 = 0</p>" in drawn
    assert ">answered: 17*23 &lt;b&gt; = 1</p>" in drawn
    await script.post(f"/sessions/{forks[1]}/delete", json={})
    drawn = (await page.get("/compare", params={**query, "view": "turns"})).text
    assert ">answered: 17*23 = 0</p>" in drawn
    assert '<p class="muted">deleted</p>' in drawn
