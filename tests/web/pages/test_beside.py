"""Sessions side by side over HTTP: the page and its frames, one prompt for all, several models."""

from __future__ import annotations

import re
from typing import Any

import anyio
import httpx
import pytest

from tests.markup import joined_tags
from tests.servers import wait_for_session

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
ASKED = "What is 17 * 23?"
TWO = [{"profile": "simulator"}, {"profile": "simulator-openai"}]


async def create_session(script: httpx.AsyncClient, *tools: str) -> str:
    response = await script.post("/sessions", json={"tools": list(tools)})
    return str(response.json()["id"])


async def start_session(script: httpx.AsyncClient, *tools: str) -> str:
    """A session that was asked: it waits where it has the calculator."""
    session_id = await create_session(script, *tools)
    await script.post(f"/sessions/{session_id}/prompts", json={"text": ASKED})
    await wait_for_session(script, session_id)
    return session_id


async def session_ids(script: httpx.AsyncClient) -> list[str]:
    return [item["id"] for item in (await script.get("/sessions")).json()]


def in_query(url: str) -> list[str]:
    return httpx.URL(url).params.get_list("session")


async def test_the_page_frames_each_session(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    ids = [await start_session(script, "calculator"), await create_session(script)]
    no_view = await page.get(f"/compare?session={ids[0]}&session={ids[1]}")
    assert no_view.text.count("<iframe") == 2  # where something waits, that is what is wanted
    query = "&".join(f"session={text}" for text in (*ids, ids[0], "nobody"))
    response = await page.get(f"/compare?{query}&view=live")
    policy = response.headers["content-security-policy"]
    assert policy.endswith("frame-ancestors 'none'; frame-src 'self'")
    assert response.headers["x-frame-options"] == "DENY"
    framed = [f"/sessions/{item_id}?column=1" for item_id in ids]
    assert re.findall('<iframe src="([^"]*)"', joined_tags(response.text)) == framed
    stream = re.search('hx-sse:connect="([^"]*)"', response.text)
    assert stream is not None
    assert in_query(stream[1].replace("&amp;", "&")) == ids
    assert "Session nobody no longer exists" in response.text
    assert "not sent to 1: decide its waiting calls first" in response.text
    assert (await page.get("/compare?session=nobody&view=live")).status_code == 404
    many = "&".join(f"session={n}" for n in range(5))
    assert "At most 4" in (await page.get(f"/compare?{many}&view=live")).text


async def test_only_a_column_may_be_framed_and_it_stands_alone(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    session_id = await start_session(script, "calculator")
    column = await page.get(f"/sessions/{session_id}?column=1")
    assert column.headers["x-frame-options"] == "SAMEORIGIN"
    assert column.headers["content-security-policy"].endswith("frame-ancestors 'self'")
    assert 'data-key="a"' in column.text  # a call is decided there
    for around in ("hx-sse:connect", 'id="list"', 'id="inspector"', 'id="composer"', "<header c"):
        assert around not in column.text.replace('<header class="card', "")
    for path in (
        f"/sessions/{session_id}",
        f"/sessions/{session_id}?column=",
        f"/sessions/{session_id}/files?column=1",
        "/sessions/nobody?column=1",
        "/welcome?column=1",
        f"/compare/new?session={session_id}",
        "/tools",
    ):
        response = await page.get(path)
        assert response.headers["x-frame-options"] == "DENY", path
        assert "frame-ancestors 'none'" in response.headers["content-security-policy"], path
    elsewhere = {
        "sec-fetch-site": "cross-site",
        "sec-fetch-mode": "navigate",
        "sec-fetch-dest": "iframe",
    }
    response = await page.get(f"/sessions/{session_id}?column=1", headers=elsewhere)
    assert (response.status_code, response.headers["x-frame-options"]) == (403, "DENY")


async def test_one_text_goes_to_all_that_can_take_it(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    waits, free = await start_session(script, "calculator"), await create_session(script)
    body = {"sessions": [waits, free], "text": "Hello."}
    response = await script.post("/compare/prompts", json=body)
    assert response.status_code == 202
    refused, accepted = response.json()
    assert accepted == {"session": free, "ok": True}
    assert (refused["session"], refused["ok"]) == (waits, False)
    assert (await wait_for_session(script, free))["turns"] == 1

    form = {"session": [waits, free], "text": "And now?"}
    response = await page.post("/compare/prompts", data=form)
    assert (response.status_code, in_query(response.headers["location"])) == (303, [waits, free])
    await wait_for_session(script, free)
    response = await page.post("/compare/prompts", data=form, headers={"hx-request": "true"})
    assert (response.status_code, response.text.count('class="toast')) == (200, 1)
    assert "1 session received it. Not simulator" in response.text
    await wait_for_session(script, free)
    response = await page.post("/compare/prompts", data={"session": waits, "text": "No."})
    assert (response.status_code, "Not simulator" in response.text) == (409, True)

    other = (await script.post("/sessions", json={"profile": "simulator-openai"})).json()["id"]
    await script.post(f"/sessions/{other}/delete", json={})
    form = {"session": [free, other], "text": "Still there?"}
    response = await page.post("/compare/prompts", data=form, headers={"hx-request": "true"})
    assert "Not simulator (profile simulator-openai): This session is deleted" in response.text
    await wait_for_session(script, free)

    response = await script.post("/compare/stop", json={"sessions": [waits, free]})
    assert [item["ok"] for item in response.json()] == [True, True]
    assert (await wait_for_session(script, waits))["state"] == "interrupted"
    for path in ("/compare/prompts", "/compare/stop"):
        assert "Name the sessions" in (await page.post(path, data={"text": "x"})).text


async def test_two_models_are_asked_at_once(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    base = {"tools": ["calculator"], "system": "Be brief."}
    response = await script.post("/compare", json={"text": ASKED, "settings": base, "models": TWO})
    assert response.status_code == 201
    ids = response.json()["ids"]
    assert in_query(response.headers["location"]) == ids
    for item, row, protocol in zip(ids, TWO, ("anthropic", "openai_chat"), strict=True):
        output = await wait_for_session(script, item)
        assert [call["name"] for call in output["calls"]] == ["calculator"]
        assert output["title"] == f"{row['profile']}: What is 17 * 23?"
        first, *_ = (await script.get(f"/sessions/{item}/events")).text.splitlines()
        assert f'"protocol": "{protocol}"' in first
        assert "Be brief." in first

    rows = {
        "profile": ["simulator", "", "simulator-gemini", ""],
        "model": ["", "", "sim-9", ""],
        "choice": ["", "", "none", "required"],
    }
    sent = await page.post("/compare", data={"text": ASKED, **rows})
    assert sent.status_code == 303
    plain_body, other = in_query(sent.headers["location"])
    assert (
        len((await wait_for_session(script, plain_body))["calls"]) == 1
    )  # the tools of the session before
    assert (await wait_for_session(script, other))["calls"] == []
    assert (await wait_for_session(script, other))["title"].startswith("sim-9: ")


async def test_other_models_are_asked_from_a_session(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    parent = await start_session(script, "calculator")
    before = (await script.get(f"/sessions/{parent}/events")).text
    form = (await page.get(f"/compare/new?session={parent}")).text
    assert ASKED in form
    chosen = re.findall('<option value="([^"]+)" selected>', form)
    assert (len(chosen), len(set(chosen)), chosen[1][:9]) == (2, 2, "simulator")
    assert "calculator" in form
    rows = {"profile": ["simulator-ollama", "simulator-gemini"], "model": ["", ""]}
    sent = {"from": parent, "at": "prompt", "text": ASKED, "beside": "on", **rows}
    response = await page.post("/compare", data=sent)
    query = in_query(response.headers["location"])
    assert (query[0], len(query)) == (parent, 3)
    for fork in query[1:]:
        folded = await wait_for_session(script, fork)
        assert (folded["turns"], len(folded["calls"])) == (1, 1)
        log = (await script.get(f"/sessions/{fork}/events")).text
        assert f'"parent": "{parent}"' in log
    assert (await script.get(f"/sessions/{parent}/events")).text == before

    body = {"text": "Once more.", "session": parent, "models": TWO}
    refused = await script.post("/compare", json=body)
    assert (refused.status_code, "has not ended" in refused.text) == (409, True)
    result = await script.post("/compare", json={**body, "prompt": 1})
    assert len(result.json()["ids"]) == 2


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"text": ASKED, "models": []}, "1 to 4"),
        ({"text": ASKED, "models": TWO * 3}, "1 to 4"),
        ({"text": ASKED, "models": TWO * 2, "beside": True}, "1 to 3"),
        ({"text": " ", "models": TWO}, "needs text"),
        ({"text": ASKED, "models": ["simulator"]}, "list of settings"),
        ({"text": ASKED, "models": [TWO[0], {"profile": "nobody"}]}, "Model 2: "),
        ({"text": ASKED, "models": TWO, "settings": []}, "must be an object"),
        ({"text": ASKED, "models": TWO, "setings": {}}, "There is no field 'setings'"),
        ({"text": ASKED, "models": TWO, "session": "nobody"}, "no session"),
    ],
)
async def test_what_is_refused_makes_no_session(
    script: httpx.AsyncClient, body: Json, words: str
) -> None:
    before = await session_ids(script)
    response = await script.post("/compare", json=body)
    assert response.status_code in (404, 422)
    assert words in response.json()["error"]
    assert await session_ids(script) == before


async def test_of_forks_that_are_refused_none_is_left(script: httpx.AsyncClient) -> None:
    parent = await start_session(script)
    before = await session_ids(script)
    for more, words in (
        ({"prompt": 7}, "no prompt 7"),
        ({"prompt": "1"}, "number of a prompt"),
        ({"prompt": 1, "text": ""}, "needs text"),
        ({"prompt": 1, "models": [TWO[0], {"tool_choice": "required"}]}, "Model 2: "),
    ):
        body = {"text": "x", "session": parent, "models": TWO, **more}
        response = await script.post("/compare", json=body)
        assert (response.status_code < 500, words in response.text) == (True, True), response.text
        assert await session_ids(script) == before


async def test_the_stream_of_several(script: httpx.AsyncClient) -> None:
    ids = [await create_session(script), await create_session(script)]
    both = "&".join(f"session={item_id}" for item_id in ids)
    for query, kinds in ((both, {"column"}), (f"session={ids[0]}&columns=1", {"column"})):
        async with script.stream("GET", f"/stream?{query}&after=junk") as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            with anyio.fail_after(20):
                async for line in response.aiter_lines():
                    if line.startswith("event: "):
                        assert {line.removeprefix("event: ")} == kinds
                    if line.startswith("id: "):
                        break
    nobody = await script.get("/stream?session=nobody&session=noone")
    assert (nobody.status_code, "None of these" in nobody.text) == (404, True)
    many = await script.get("/stream?" + "&".join(f"session={n}" for n in range(5)))
    assert many.status_code == 422
