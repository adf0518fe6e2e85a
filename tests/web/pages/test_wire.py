"""The bytes of a session over a real server: pages of them, frames, search and files."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.markup import joined_tags
from tests.servers import wait_for_session

pytestmark = pytest.mark.anyio

HTMX = {"hx-request": "true", "accept": "text/html"}


async def start_session(script: httpx.AsyncClient, prompt: str) -> str:
    """The path of a new session with one prompt, at its rest."""
    result = (await script.post("/sessions", json={"max_retries": 0})).json()
    here = f"/sessions/{result['id']}"
    (await script.post(here + "/prompts", json={"text": prompt})).raise_for_status()
    await wait_for_session(script, result["id"])
    return here


async def test_files_of_the_very_bytes(script: httpx.AsyncClient) -> None:
    here = await start_session(script, "hällo")
    recorded_bytes = (await script.get(here + "/recordings/1")).content
    file = await script.get(here + "/recordings/1/bytes")
    assert file.content == recorded_bytes
    assert file.headers["content-type"] == "application/octet-stream"
    assert file.headers["content-disposition"] == (
        "attachment; filename=\"h-llo-answer-1.bin\"; filename*=UTF-8''h%C3%A4llo%20answer%201.bin"
    )
    sent = await script.get(here + "/requests/1/body")
    assert sent.content == (await script.get(here + "/requests/1")).content
    for path in ("/recordings/2/bytes", "/requests/2/body", "/recordings/9/frames"):
        assert (await script.get(here + path)).status_code == 404


async def test_what_is_masked_is_marked(script: httpx.AsyncClient) -> None:
    here = await start_session(script, "[[fault:http-401-echo-key]] hello")
    html = joined_tags((await script.get(here + "/recordings/1", headers=HTMX)).text)
    stars = re.search(r'<mark class="masked" title="(\d+) bytes masked">(\*+)</mark>', html)
    assert stars is not None
    assert int(stars[1]) == len(stars[2])
    assert f"{stars[1]} bytes masked</h3>" in html
    hexed = joined_tags((await script.get(here + "/recordings/1?as=hex", headers=HTMX)).text)
    assert '<mark class="masked">2a 2a' in hexed


async def test_frames_and_search_lead_to_the_bytes(script: httpx.AsyncClient) -> None:
    here = await start_session(script, "hello there")
    body = (await script.get(here + "/recordings/1")).content
    frames = (await script.get(here + "/recordings/1/frames")).json()
    texts = [body[frame["start"] : frame["end"]] for frame in frames]
    assert all(text.startswith(b"event: ") for text in texts)
    assert len(texts) == body.count(b"event: ")
    some = (await script.get(here + f"/recordings/1/frames?start={frames[1]['start']}")).json()
    assert some == frames[1:]
    (hit,) = (await script.get(here + "/wire?q=MESSAGE_stop%22")).json()
    assert body[hit["start"] : hit["end"]] == b'message_stop"'
    match = (await script.get(here + "/wire?q=message_stop", headers=HTMX)).text
    assert f'data-jump="wirerow-1-{hit["row"]}"' in match
    link = re.search(r'hx-get="([^"]+)"', match)
    assert link is not None
    there = joined_tags((await script.get(link[1].replace("&amp;", "&"), headers=HTMX)).text)
    assert '<mark class="hit">message_stop</mark>' in there
    none = (await script.get(here + "/wire?q=nowhere", headers=HTMX)).text
    assert "Not found in the bytes: “nowhere”" in none
    response = await script.get(here + "/wire?q=message_stop", headers={"accept": "text/html"})
    assert 'class="frames"' in response.text
    assert 'id="panel-wire"' in response.text
    for bad in ("/wire", "/wire?q=" + "x" * 201, "/recordings/1/frames?first=x"):
        assert (await script.get(here + bad)).status_code == 422
