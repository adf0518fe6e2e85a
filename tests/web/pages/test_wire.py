"""The bytes of a session over a real server: pages of them, frames, search and files."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from tests.served import Served, rested, served

pytestmark = pytest.mark.anyio

HTMX = {"hx-request": "true", "accept": "text/html"}


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("wire") / "a.db", PLAYGROUND_PACE="0") as running:
        yield running


@pytest.fixture
async def client(one: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with one.client() as made:
        yield made


async def asked(client: httpx.AsyncClient, prompt: str) -> str:
    """The path of a new session with one prompt, at its rest."""
    made = (await client.post("/sessions", json={"max_retries": 0})).json()
    here = f"/sessions/{made['id']}"
    (await client.post(here + "/prompts", json={"text": prompt})).raise_for_status()
    await rested(client, made["id"])
    return here


async def test_files_of_the_very_bytes(client: httpx.AsyncClient) -> None:
    here = await asked(client, "hällo")
    shown = (await client.get(here + "/recordings/1")).content
    file = await client.get(here + "/recordings/1/bytes")
    assert file.content == shown
    assert file.headers["content-type"] == "application/octet-stream"
    assert file.headers["content-disposition"] == (
        "attachment; filename=\"h-llo-answer-1.bin\"; filename*=UTF-8''h%C3%A4llo%20answer%201.bin"
    )
    sent = await client.get(here + "/requests/1/body")
    assert sent.content == (await client.get(here + "/requests/1")).content
    for path in ("/recordings/2/bytes", "/requests/2/body", "/recordings/9/frames"):
        assert (await client.get(here + path)).status_code == 404


async def test_what_is_masked_is_marked(client: httpx.AsyncClient) -> None:
    here = await asked(client, "[[fault:http-401-echo-key]] hello")
    html = (await client.get(here + "/recordings/1", headers=HTMX)).text
    stars = re.search(r'<mark class="masked" title="(\d+) bytes masked">(\*+)</mark>', html)
    assert stars is not None
    assert int(stars[1]) == len(stars[2])
    assert f"{stars[1]} bytes masked</h3>" in html
    hexed = (await client.get(here + "/recordings/1?as=hex", headers=HTMX)).text
    assert '<mark class="masked">2a 2a' in hexed


async def test_frames_and_search_lead_to_the_bytes(client: httpx.AsyncClient) -> None:
    here = await asked(client, "hello there")
    body = (await client.get(here + "/recordings/1")).content
    frames = (await client.get(here + "/recordings/1/frames")).json()
    texts = [body[one["start"] : one["end"]] for one in frames]
    assert all(text.startswith(b"event: ") for text in texts)
    assert len(texts) == body.count(b"event: ")
    some = (await client.get(here + f"/recordings/1/frames?start={frames[1]['start']}")).json()
    assert some == frames[1:]
    (hit,) = (await client.get(here + "/wire?q=MESSAGE_stop%22")).json()
    assert body[hit["start"] : hit["end"]] == b'message_stop"'
    found = (await client.get(here + "/wire?q=message_stop", headers=HTMX)).text
    assert f'data-jump="wirerow-1-{hit["row"]}"' in found
    link = re.search(r'hx-get="([^"]+)"', found)
    assert link is not None
    there = (await client.get(link[1].replace("&amp;", "&"), headers=HTMX)).text
    assert '<mark class="hit">message_stop</mark>' in there
    none = (await client.get(here + "/wire?q=nowhere", headers=HTMX)).text
    assert "No place in the bytes holds “nowhere”" in none
    plain = await client.get(here + "/wire?q=message_stop", headers={"accept": "text/html"})
    assert 'class="frames"' in plain.text
    assert 'id="panel-wire"' in plain.text
    for bad in ("/wire", "/wire?q=" + "x" * 201, "/recordings/1/frames?first=x"):
        assert (await client.get(here + bad)).status_code == 422
