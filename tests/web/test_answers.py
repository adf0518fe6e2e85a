"""Answers by hand from the form of an output schema."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from types import SimpleNamespace
from typing import Any

import anyio
import httpx
import pytest

from playground.core.errors import BadInput, Conflict, PlaygroundError
from playground.engine.decisions import DecisionRequest
from playground.web.session.actions import decide_each, refusals
from tests.servers import RunningServer, wait_for_session
from tests.tables import rest_slow

pytestmark = pytest.mark.anyio

OUTPUT = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "count": {"type": "integer"}},
    "required": ["ok"],
}
TOOL = {"name": "ask_me", "answered_by": "person", "config": {"output_schema": OUTPUT}}


@pytest.fixture
async def script(server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    async with server.client() as async_client:
        (await async_client.post("/tools", json=TOOL)).raise_for_status()
        yield async_client


async def waiting(script: httpx.AsyncClient) -> tuple[str, dict[str, Any]]:
    """A session with one call of the tool that waits."""
    response = await script.post("/sessions", json={"tools": ["ask_me"], "tool_choice": "required"})
    id_ = response.json()["id"]
    await script.post(f"/sessions/{id_}/prompts", json={"text": "ask"})
    output = await wait_for_session(script, id_)
    assert output["state"] == "waiting"
    return id_, output["calls"][0]


@pytest.mark.parametrize(
    ("form", "status", "words"),
    rest_slow(
        [
            (
                {"by": "form", "boolean:/ok": "true", "integer:/count": "1.0"},
                303,
                '{"ok": true, "count": 1.0}',
            ),
            ({"by": "form", "integer:/count": "3"}, 422, "even if it does not match the schema”"),
            ({"by": "form", "integer:/count": "x"}, 422, "must be a number"),
            ({"by": "form", "integer:/count": "3", "misfit": "true"}, 303, '{"count": 3}'),
            ({"text": "no"}, 422, "not valid JSON"),
            ({"text": "no", "misfit": "true"}, 303, "no"),
            ({"text": "broken", "is_error": "true"}, 303, "broken"),
            ({"text": ' {"ok": false}'}, 303, ' {"ok": false}'),
            ({"text": '{"ok":\r\nfalse}'}, 303, '{"ok":\nfalse}'),
            ({"by": "form", "integer:/count": "3", "is_error": "true"}, 303, '{"count": 3}'),
        ],
        3,
    ),
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
    ("form", "outputs"),
    [
        ({"integer:/count": "x1"}, ["", "count must be a number like 30, not 'x1'."]),
        ({"boolean:/ok": "true", "integer:/count": "2.5"}, ["", "count "]),
        ({"integer:/count": "3"}, ["ok is required.", ""]),
        ({}, ["ok is required.", ""]),
        ({"integer:/count": "2.5"}, ["ok is required.", "count "]),
    ],
)
async def test_a_refused_field_is_told_at_the_field_and_by_its_name(
    script: httpx.AsyncClient, page: httpx.AsyncClient, form: dict[str, str], outputs: list[str]
) -> None:
    id_, call = await waiting(script)
    html = (await page.get(f"/sessions/{id_}")).text
    sent = {"decision": "answer", "digest": call["digest"], "by": "form", **form}
    url = f"/sessions/{id_}/calls/{call['id']}/decision"
    answer = await page.post(url, data=sent, headers={"hx-request": "true"})
    assert answer.status_code == 422
    pieces = re.findall(r'<p class="wrong" id="([^"]+)"( hidden)?>([^<]*)</p>', answer.text)
    assert len(pieces) == len(outputs)
    for (place, hidden, text), words in zip(pieces, outputs, strict=True):
        assert f'aria-describedby="{place}"' in html, "the element that is there is the one put in"
        assert unescape(text).startswith(words)
        assert bool(hidden) == (words == "") == (text == "")
    assert 'class="toast failed"' in answer.text
    assert "/count" not in answer.text
    assert ("And 1 more." in answer.text) == all(outputs), "what is missing is said once"


class Meeting:
    """A runner whose decisions wait for one another: done one by one, none would ever end."""

    def __init__(self, wanted: int) -> None:
        self.wanted, self.all_here = wanted, anyio.Event()

    async def decide(self, session_id: str, call_id: str, decision: DecisionRequest) -> None:
        self.wanted -= 1
        if not self.wanted:
            self.all_here.set()
        await self.all_here.wait()
        if decision.digest == "stale":
            raise Conflict("Too late.", {"status": "done"})
        if decision.digest == "bug":
            raise RuntimeError("a bug")


def site_of(runner: Meeting) -> Any:
    return SimpleNamespace(engine=SimpleNamespace(runner=runner))


async def test_no_decision_of_several_waits_for_another() -> None:
    unread = BadInput("text must be a text.")
    decisions: list[tuple[str, DecisionRequest | PlaygroundError]] = [
        ("1.0", DecisionRequest("run")),
        ("1.1", DecisionRequest("run", "stale")),
        ("1.2", unread),
    ]
    with anyio.fail_after(20):
        lines = await decide_each(site_of(Meeting(2)), "s", decisions)
    assert lines == [
        {"call": "1.0", "ok": True},
        {"call": "1.1", "ok": False, "error": "Too late.", "code": "conflict", "status": "done"},
        {"call": "1.2", "ok": False, "error": "text must be a text.", "code": "bad_input"},
    ]
    assert refusals(lines) == "1.1: Too late. 1.2: text must be a text."


async def test_a_bug_in_one_is_told_after_all_are_over() -> None:
    meeting = Meeting(2)
    decisions = [("1.0", DecisionRequest("run", "bug")), ("1.1", DecisionRequest("run"))]
    with anyio.fail_after(20), pytest.raises(RuntimeError, match="a bug"):
        await decide_each(site_of(meeting), "s", decisions)
    assert meeting.wanted == 0
