"""Answers by hand from the form of an output schema."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from html import unescape
from typing import Any

import anyio
import httpx
import pytest

from tests.served import Served, served

pytestmark = pytest.mark.anyio

OUTPUT = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "count": {"type": "integer"}},
    "required": ["ok"],
}
TOOL = {"name": "ask_me", "answered_by": "person", "config": {"output_schema": OUTPUT}}


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("answers") / "a.db", PLAYGROUND_PACE="0") as running:
        yield running


@pytest.fixture
async def script(one: Served) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"authorization": f"Bearer {one.token}", "accept": "application/json"}
    async with httpx.AsyncClient(base_url=one.url, trust_env=False, headers=headers) as made:
        (await made.post("/tools", json=TOOL)).raise_for_status()
        yield made


@pytest.fixture
async def page(one: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=one.url, trust_env=False) as made:
        await made.get(f"/?token={one.token}", follow_redirects=True)
        made.headers.update({"origin": one.url, "accept": "text/html"})
        yield made


async def waiting(script: httpx.AsyncClient) -> tuple[str, dict[str, Any]]:
    """A session with one call of the tool that waits."""
    made = await script.post("/sessions", json={"tools": ["ask_me"], "tool_choice": "required"})
    id_ = made.json()["id"]
    await script.post(f"/sessions/{id_}/prompts", json={"text": "ask"})
    with anyio.fail_after(30):
        while True:
            told = (await script.get(f"/sessions/{id_}")).json()
            if told["state"] == "waiting":
                call: dict[str, Any] = told["calls"][0]
                return id_, call


@pytest.mark.parametrize(
    ("form", "status", "words"),
    [
        (
            {"by": "form", "boolean:/ok": "true", "integer:/count": "1.0"},
            303,
            '{"ok": true, "count": 1.0}',
        ),
        ({"by": "form", "integer:/count": "3"}, 422, "tick that it may go"),
        ({"by": "form", "integer:/count": "x"}, 422, "must be a number"),
        ({"by": "form", "integer:/count": "3", "misfit": "true"}, 303, '{"count": 3}'),
        ({"text": "no"}, 422, "no JSON"),
        ({"text": "no", "misfit": "true"}, 303, "no"),
        ({"text": "broken", "is_error": "true"}, 303, "broken"),
        ({"text": ' {"ok": false}'}, 303, ' {"ok": false}'),
    ],
)
async def test_an_answer_is_checked_against_the_schema(
    script: httpx.AsyncClient,
    page: httpx.AsyncClient,
    form: dict[str, str],
    status: int,
    words: str,
) -> None:
    id_, call = await waiting(script)
    html = (await page.get(f"/sessions/{id_}")).text
    assert 'name="boolean:/ok"' in html
    sent = {"decision": "answer", "digest": call["digest"], **form}
    answer = await page.post(f"/sessions/{id_}/calls/{call['id']}/decision", data=sent)
    assert answer.status_code == status
    call = (await script.get(f"/sessions/{id_}")).json()["calls"][0]
    if status == 422:
        assert words in answer.text
        assert call["result"] is None
    else:
        assert [piece["text"] for piece in call["result"]["content"]] == [words]


async def test_a_script_s_answer_goes_as_it_is(script: httpx.AsyncClient) -> None:
    id_, call = await waiting(script)
    body = {"decision": "answer", "digest": call["digest"], "text": "free"}
    answer = await script.post(f"/sessions/{id_}/calls/{call['id']}/decision", json=body)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"integer:/count": "x1"}, ["", "count must be a number like 30, not 'x1'."]),
        ({"boolean:/ok": "true", "integer:/count": "2.5"}, ["", "count "]),
    ],
)
async def test_a_refused_field_is_told_at_the_field_and_by_its_name(
    script: httpx.AsyncClient, page: httpx.AsyncClient, form: dict[str, str], told: list[str]
) -> None:
    id_, call = await waiting(script)
    html = (await page.get(f"/sessions/{id_}")).text
    sent = {"decision": "answer", "digest": call["digest"], "by": "form", **form}
    url = f"/sessions/{id_}/calls/{call['id']}/decision"
    answer = await page.post(url, data=sent, headers={"hx-request": "true"})
    assert answer.status_code == 422
    pieces = re.findall(r'<p class="wrong" id="([^"]+)"( hidden)?>([^<]*)</p>', answer.text)
    assert len(pieces) == len(told)
    for (place, hidden, said), words in zip(pieces, told, strict=True):
        assert f'aria-describedby="{place}"' in html, "the element that is there is the one put in"
        assert unescape(said).startswith(words)
        assert bool(hidden) == (words == "") == (said == "")
    assert 'class="toast failed"' in answer.text
    assert "/count" not in answer.text
