"""The next request, images and the Setup form, over a real server."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import httpx
import pytest

from playground.engine.preview import WIRES
from tests.servers import wait_for_session

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
IMAGE = {"media_type": "image/png", "data": base64.b64encode(PNG).decode()}
FIELDS = {"profile", "protocol", "method", "url", "headers", "body", "notes", "says", "failed"}

FORM = {"profile": "simulator", "tool_choice": "auto", "parallel": "on", "stream": "on"}

FILES = (
    *("recordings/1", "recordings/1/bytes", "requests/1", "requests/1/body", "events"),
    *("export?as=html", "export?as=jsonl", "export?as=markdown", "export?as=har"),
    *("code?file=1&form=python", "code?file=1&form=curl", "images/SEQ/0", ""),
)


async def create_session(script: httpx.AsyncClient, **body: Any) -> str:
    answer = await script.post("/sessions", json=body)
    return str(answer.json()["id"])


async def log(script: httpx.AsyncClient, session_id: str) -> list[Any]:
    text = (await script.get(f"/sessions/{session_id}/events")).text
    return [json.loads(line) for line in text.splitlines()]


async def test_the_next_request_as_data(script: httpx.AsyncClient) -> None:
    session_id = await create_session(script, tools=["calculator"])
    before = await log(script, session_id)
    path = f"/sessions/{session_id}/request"
    draft = {"text": "What is 2+3?", "images": [IMAGE]}
    data = (await script.post(path, json=draft)).json()
    assert data.keys() == FIELDS
    assert data["failed"] is None
    assert (data["profile"], data["method"]) == ("simulator", "POST")
    assert data["headers"]["x-api-key"] == "$PLAYGROUND_TOKEN"
    assert IMAGE["data"] in data["body"]
    bare = (await script.get(path)).json()
    assert "There is no prompt yet" in bare["says"][0]
    for wire in WIRES:
        other = (await script.post(path, json={**draft, "wire": wire})).json()
        assert other["protocol"] == wire
        assert (await script.get(path, params={"wire": wire})).json()["protocol"] == wire
    assert await log(script, session_id) == before
    await script.post(f"/sessions/{session_id}/prompts", json=draft)
    await wait_for_session(script, session_id)
    sent = next(item for item in await log(script, session_id) if item["kind"] == "request_sent")
    assert (sent["body"], sent["url"], sent["headers"]) == (
        data["body"],
        data["url"],
        data["headers"],
    )


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"wire": "morse"}, "The wire must be one of"),
        ({"images": [{**IMAGE, "data": "&"}]}, "Image 1: data is not base64"),
        ({"images": [{**IMAGE, "media_type": "image/gif"}]}, "its content is image/png"),
        ({"text": 3}, "text must be a text"),
    ],
)
async def test_a_bad_draft_is_refused(
    script: httpx.AsyncClient, body: dict[str, Any], sentence: str
) -> None:
    answer = await script.post(f"/sessions/{await create_session(script)}/request", json=body)
    assert answer.status_code == 422
    assert sentence in answer.json()["error"]


async def test_images_of_a_prompt_are_served_and_cannot_do_anything(
    script: httpx.AsyncClient,
) -> None:
    session_id = await create_session(script)
    await script.post(f"/sessions/{session_id}/prompts", json={"text": "", "images": [IMAGE]})
    await wait_for_session(script, session_id)
    seq = next(
        item["seq"] for item in await log(script, session_id) if item["kind"] == "prompt_added"
    )
    image = await script.get(f"/sessions/{session_id}/images/{seq}/0")
    assert image.content == PNG
    assert image.headers["content-type"] == "image/png"
    assert image.headers["content-disposition"] == "inline"
    assert image.headers["x-content-type-options"] == "nosniff"
    assert image.headers["cache-control"] == "no-store"
    assert image.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    for path in (f"images/{seq}/1", "images/1/0", "images/x/0", f"images/{seq}/-1"):
        assert (await script.get(f"/sessions/{session_id}/{path}")).status_code == 404
    assert (await script.get(f"/sessions/{session_id}/calls/9.9/images/0")).status_code == 404
    empty = await script.post(f"/sessions/{session_id}/prompts", json={"text": " ", "images": []})
    assert "needs some text, or an image" in empty.json()["error"]


async def test_a_plain_form_brings_images(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    session_id = await create_session(script)
    files = [("images", ("a.png", PNG, "image/png")), ("images", ("", b"", "application/x"))]
    path = f"/sessions/{session_id}/prompts"
    sent = await page.post(path, data={"text": "x" * 2_000_000}, files=files)
    assert (sent.status_code, sent.headers["location"]) == (303, f"/sessions/{session_id}")
    await wait_for_session(script, session_id)
    prompt = next(item for item in await log(script, session_id) if item["kind"] == "prompt_added")
    assert [image["data"] for image in prompt["images"]] == [IMAGE["data"]]
    assert len(prompt["text"]) == 2_000_000
    bad = await page.post(path, data={"text": "x"}, files=[("images", ("a.png", b"GIF", "x/y"))])
    assert bad.status_code == 422
    assert "Image 1 is not a PNG, JPEG, WebP or GIF" in bad.text


async def test_the_tab_and_the_line_in_setup(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    session_id = await create_session(script, profile="openai")
    here = f"/sessions/{session_id}"
    drawn = (await page.get(here, params={"tab": "request"})).text
    assert "OPENAI_API_KEY" in drawn.partition('id="request"')[2]
    other = (await page.get(here, params={"tab": "request", "wire": "anthropic"})).text
    assert "anthropic-version" in other
    htmx = {"hx-request": "true"}
    response = await page.post(here + "/request", data={"text": "Hi", "wire": ""}, headers=htmx)
    assert response.text.startswith('<hx-partial hx-target="#request" hx-swap="outerMorph">')
    assert 'hx-target="#setup-notes"' in response.text


async def settings_of(script: httpx.AsyncClient, session_id: str) -> Any:
    changes = [item["settings"] for item in await log(script, session_id) if "settings" in item]
    return changes[-1]


async def test_the_setup_form(script: httpx.AsyncClient, page: httpx.AsyncClient) -> None:
    session_id = await create_session(script, params={"top_p": 0.5}, model="m1")
    path = f"/sessions/{session_id}/settings"
    form = {**FORM, "model": "m1", "thinking": "high", "first_byte_s": "7.5", "max_retries": "0"}
    assert (await page.post(path, data=form)).status_code == 303
    output = await settings_of(script, session_id)
    assert output["params"] == {"top_p": 0.5, "thinking": "high"}
    assert (output["limits"]["first_byte_s"], output["limits"]["max_retries"]) == (7.5, 0)
    budget = {**form, "thinking": "budget", "thinking_budget": "2048"}
    await page.post(path, data=budget)
    assert (await settings_of(script, session_id))["params"]["thinking"] == 2048
    # Another provider has other models and other times: those of the form were the last one's.
    switched = {**form, "profile": "simulator-openai"}
    drawn = await page.post(path, data=switched, headers={"hx-request": "true"})
    assert drawn.text.startswith('<hx-partial hx-target="#panel-setup" hx-swap="innerMorph">')
    output = await settings_of(script, session_id)
    assert (output["profile"]["protocol"], output["model"]) == ("openai_chat", "")
    assert output["limits"]["first_byte_s"] == 60.0
    response = await page.post(path, data={**form, "thinking": "budget", "thinking_budget": "much"})
    assert "The thinking budget must be a whole number" in response.text


async def test_two_tabs_change_different_fields(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    session_id = await create_session(script)
    path = f"/sessions/{session_id}/settings"
    item, other = {**FORM, "base": "1", "system": "Brief."}, {**FORM, "base": "1", "model": "m1"}
    both = await asyncio.gather(*(page.post(path, data=data) for data in (item, other)))
    assert [answer.status_code for answer in both] == [303, 303]
    output = await settings_of(script, session_id)
    assert (output["system"], output["model"]) == ("Brief.", "m1")


async def test_a_refused_form_leads_back(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    session_id = await create_session(script)
    path = f"/sessions/{session_id}/settings"
    bad_form = {**FORM, "base": "1", "temperature": "warm", "system": "Brief."}
    refused = await page.post(path, data=bad_form)
    assert refused.status_code == 422
    assert "not &#39;warm&#39;. All other changes are saved." in refused.text
    assert f'href="/sessions/{session_id}"' in refused.text
    assert (await settings_of(script, session_id))["system"] == "Brief."
    drawn = await page.post(path, data=bad_form, headers={"hx-request": "true"})
    assert drawn.status_code == 422
    assert '<p data-refused="temperature">temperature must be' in drawn.text
    gone = await page.get("/sessions/none")
    assert gone.status_code == 404
    assert "/sessions/none" not in gone.text


async def test_what_a_session_holds_is_isolated_where_it_is_opened(
    script: httpx.AsyncClient,
) -> None:
    """Recorded bytes, requests, images and files: what a provider or a model wrote."""
    session_id = await create_session(script)
    prompt = {"text": "<script>alert(1)</script>", "images": [IMAGE]}
    await script.post(f"/sessions/{session_id}/prompts", json=prompt)
    await wait_for_session(script, session_id)
    seq = next(
        item["seq"] for item in await log(script, session_id) if item["kind"] == "prompt_added"
    )
    for path in FILES:
        address = f"/sessions/{session_id}/{path}".replace("SEQ", str(seq)).rstrip("/")
        for accept in ("*/*", "text/html,application/xhtml+xml,*/*;q=0.8", "application/json"):
            answer = await script.get(address, headers={"accept": accept})
            is_page = answer.headers["content-type"].startswith("text/html")
            is_file = answer.headers.get("content-disposition", "").startswith("attachment")
            policy = answer.headers["content-security-policy"]
            assert answer.status_code == 200, (path, accept)
            assert policy.startswith("sandbox; ") == (not is_page or is_file), (path, accept)
            assert answer.headers["x-content-type-options"] == "nosniff"
            if is_page and not is_file:
                assert "<script>alert" not in answer.text, (path, accept)
