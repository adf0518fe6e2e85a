"""Trying a tool, as a script, as htmx and as a plain form."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from tests.executors.mcp_servers import by_stdio
from tests.markup import joined_tags
from tests.servers import RunningServer, wait_for_session

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient_mcp", "script")]

NUMBER = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 5}, "who": {"type": "string"}},
    "required": ["n"],
}
MOCK = {"name": "count", "parameters": NUMBER, "config": {"result": "{{ args.n }} it is"}}
EDITOR = {
    "answered_by": "mock",
    "name": "count",
    "parameters": '{"type": "object", "properties": {"m": {"type": "integer"}}}',
    "result": "as typed",
    "timeout_s": "30",
    "now": "json",
}
PERSON = {
    "name": "ask_me",
    "answered_by": "person",
    "config": {"output_schema": {"type": "object", "properties": {"ok": {"type": "boolean"}}}},
}
SLOW = {"name": "slow", "config": {"result": "late", "delay_s": 600}}

HX = {"hx-request": "true"}


@pytest.fixture
async def script(server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    async with server.client() as async_client:
        for tool in (MOCK, PERSON, SLOW):
            (await async_client.post("/tools", json=tool)).raise_for_status()
        with anyio.fail_after(60):
            yield async_client


async def test_a_script_gets_the_result_and_what_each_provider_would_get(
    script: httpx.AsyncClient,
) -> None:
    sent = b'{"tool": "count", "arguments": {"n": 9007199254740993.0}}'
    answer = await script.post(
        "/tools/try", content=sent, headers={"content-type": "application/json"}
    )
    output = answer.json()
    assert answer.status_code == 200, output
    assert output["state"] == "done"
    assert output["result"]["text"] == "9007199254740993.0 it is"
    assert output["result"]["staged"] is True
    assert output["wire"]["openai_chat"]["value"]["content"] == "9007199254740993.0 it is"
    assert len(output["wire"]) == 5
    again = (await script.get(f"/tools/try/{output['id']}")).json()
    assert again == output
    sessions = (await script.get("/sessions")).json()
    assert not any("try" in session["id"] for session in sessions)


async def test_result_that_breaks_the_output_schema_is_said_beside_it(
    script: httpx.AsyncClient,
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tool = {"name": "wrong", "config": {"result": {"n": "three"}, "output_schema": schema}}
    (await script.post("/tools", json=tool)).raise_for_status()
    answer = (await script.post("/tools/try", json={"tool": "wrong"})).json()
    mismatch = answer["result"]["mismatch"]
    assert mismatch.endswith('/n is "three", a string; the schema requires an integer.')
    page = await script.get(f"/tools/try/{answer['id']}", headers={"accept": "text/html"})
    assert mismatch in unescape(page.text)
    assert mismatch not in str(answer["wire"])  # no model reads it


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"tool": "count", "arguments": {"n": 1}}, 422, "run it anyway"),
        ({"tool": "count", "arguments": '{"n": 7'}, 422, "cannot be run"),
        ({"tool": "count", "arguments": [7]}, 422, "arguments must be"),
        ({"tool": "nobody"}, 404, "no tool"),
        ({"tool": {"name": "x y"}}, 422, "name"),
        ({"tool": 3}, 422, "tool must be"),
        ({"tool": "ask_me"}, 422, "Write the answer"),
    ],
)
async def test_a_refusal_says_why(
    script: httpx.AsyncClient, body: dict[str, Any], status: int, words: str
) -> None:
    answer = await script.post("/tools/try", json=body)
    assert answer.status_code == status
    assert words in answer.json()["error"]


async def test_run_anyway_an_own_tool_and_an_answer_by_hand(script: httpx.AsyncClient) -> None:
    body: dict[str, Any] = {"tool": "count", "arguments": {"n": 1}, "anyway": True}
    assert (await script.post("/tools/try", json=body)).json()["result"]["text"] == "1 it is"
    own = {"tool": {"name": "own", "config": {"result": "mine"}}}
    assert (await script.post("/tools/try", json=own)).json()["result"]["text"] == "mine"
    body = {"tool": "ask_me", "answer": "no", "is_error": True}
    output = (await script.post("/tools/try", json=body)).json()
    assert (output["result"]["text"], output["result"]["is_error"]) == ("no", True)


async def test_a_try_that_runs_is_told_and_cancelled(script: httpx.AsyncClient) -> None:
    output = (await script.post("/tools/try", json={"tool": "slow", "wait": False})).json()
    assert output["state"] == "running"
    ended = (await script.post(f"/tools/try/{output['id']}/cancel")).json()
    assert ended["result"]["kind"] == "interrupted"
    assert (await script.get("/tools/try/nothing")).status_code == 404


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("http", {"method": "GET", "url": "http://127.0.0.1:9/"}),
        ("workspace", {"tool": "read_file"}),
    ],
)
async def test_a_tool_that_is_switched_off_asks_first(
    script: httpx.AsyncClient, kind: str, config: dict[str, str]
) -> None:
    tool = {"name": f"off_{kind}", "answered_by": kind, "config": config}
    (await script.post("/tools", json=tool)).raise_for_status()
    body = {"tool": tool["name"], "anyway": True}
    assert (await script.post("/tools/try", json=body)).json()["result"]["is_error"]
    off = await script.post(f"/tools/off_{kind}/switch", json={"enabled": False})
    off.raise_for_status()
    answer = await script.post("/tools/try", json=body)
    assert answer.status_code == 422
    assert "switch it on" in answer.json()["error"]


@pytest.mark.slow
async def test_a_page_that_is_looked_at_starts_no_server(
    script: httpx.AsyncClient, page: httpx.AsyncClient, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    server = {"name": "trap", "command": "/bin/sh", "args": ["-c", f"touch {started}; exit 3"]}
    print_ = (await script.post("/servers", json=server)).json()["fingerprint"]
    accepted = await script.post("/servers/trap/accept", json={"fingerprint": print_})
    accepted.raise_for_status()
    config = {"server": "trap", "tool": "t"}
    tool = {"name": "trapped", "answered_by": "mcp", "config": config}
    (await script.post("/tools", json=tool)).raise_for_status()
    html = (await page.get("/tools/trapped")).text
    assert inputs(html)["try_seen"] == "unasked"
    assert not started.exists()
    answer = await page.post("/tools/try", data={**inputs(html), "do": "run"}, headers=HX)
    assert answer.status_code == 422, "it was not seen that the server does not answer"
    assert "Check it again" in answer.text
    assert "exit code 3" in answer.text
    assert started.exists()


async def test_a_server_s_tool_that_is_open_and_untouched_runs_at_the_first_click(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    fine = by_stdio("fine")
    server = {"name": "fine", "command": fine.command, "args": list(fine.args)}
    print_ = (await script.post("/servers", json=server)).json()["fingerprint"]
    await script.post("/servers/fine/accept", json={"fingerprint": print_})
    (await script.post("/servers/fine/list", json={})).raise_for_status()
    listed = (await script.get("/servers/fine")).json()["tools"]
    add = next(item for item in listed if item["name"] == "add")
    accepted = {"tools": [f"{add['fingerprint']} add"]}
    (await script.post("/servers/fine/take", json=accepted)).raise_for_status()

    html = (await page.get("/tools/add")).text
    assert inputs(html)["try_seen"] != "unasked", "the server is connected"
    form = {**editor(html), **inputs(html), "integer:/a": "2", "integer:/b": "3", "do": "run"}
    assert "output_schema" in form["rest_mcp"]
    answer = await page.post("/tools/try", data=form, headers=HX)
    assert answer.status_code == 200, answer.text


def editor(html: str) -> dict[str, str]:
    """The fields of the editor of a tool of a server, as a browser sends them untouched."""
    html = joined_tags(html)
    form = html[html.index('<form id="tool"') :]
    form = form[: form.index("</form>")]
    sent = {}
    for tag in re.findall(r"<input [^>]*>", form):
        result = dict(re.findall(r'([\w-]+)="([^"]*)"', tag))
        ticks = 'type="checkbox"' in tag or 'type="radio"' in tag
        if "name" in result and (not ticks or " checked" in tag):
            sent[result["name"]] = unescape(result.get("value", ""))
    for name, text in re.findall(r'<textarea [^>]*?name="(\w+)"[^>]*>\n?([^<]*)</textarea>', form):
        sent[name] = unescape(text)
    return sent


def inputs(html: str) -> dict[str, str]:
    """The hidden fields of the panel."""
    return dict(
        re.findall(r'<input type="hidden" name="(try_\w+)" value="([^"]*)"', joined_tags(html))
    )


async def test_without_script_the_panel_is_a_form(page: httpx.AsyncClient) -> None:
    html = (await page.get("/tools/count")).text
    assert 'name="integer:/n"' in html
    assert inputs(html)["try_tool"] == "count"
    form = {**inputs(html), "integer:/n": "8", "do": "run"}
    answer = await page.post("/tools/try", data=form)
    assert answer.status_code == 303
    page_html = (await page.get(answer.headers["location"])).text
    assert "8 it is" in page_html
    assert "OpenAI Responses" in page_html
    for do, words in (("json", "<textarea"), ("sample", 'value="5"'), ("form", "integer:/n")):
        again = await page.post("/tools/try", data={**form, "do": do})
        assert again.status_code == 200
        assert words in again.text


async def test_what_stands_in_the_editor_is_what_runs(page: httpx.AsyncClient) -> None:
    form = {**EDITOR, "original": "count", "try_mode": "form", "integer:/m": "3", "do": "run"}
    answer = await page.post("/tools/try", data=form, headers=HX)
    assert answer.status_code == 200, answer.text
    id_ = re.search(r'data-try="(\w+)"', answer.text)
    assert id_ is not None
    while "data-running" in answer.text:
        answer = await page.get(f"/tools/try/{id_[1]}?after=0", headers=HX)
    assert "as typed" in answer.text


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"integer:/m": "three"}, "must be a number like 30"),
        ({"try_mode": "json", "try_json": '{"m": "3"}'}, "integer"),
        ({"try_mode": "json", "try_json": '{"m": '}, "cannot be read"),
        ({"integer:/m": "3"}, "valid"),
        ({"integer:/m": "3", "parameters": "{"}, "Line 1"),
    ],
)
async def test_the_verdict_while_typing(
    page: httpx.AsyncClient, form: dict[str, str], words: str
) -> None:
    sent = {**EDITOR, "try_mode": "form", "do": "check", **form}
    answer = await page.post("/tools/try", data=sent, headers=HX)
    assert answer.status_code == 200
    assert words in answer.text
    assert "<textarea" not in answer.text
    assert "<input name" not in answer.text


async def test_nothing_runs_that_was_not_seen(page: httpx.AsyncClient) -> None:
    form = {**EDITOR, "try_mode": "form", "integer:/m": "3", "try_seen": "0" * 24, "do": "run"}
    answer = await page.post("/tools/try", data=form, headers=HX)
    assert answer.status_code == 422
    assert "has changed" in answer.text
    assert "data-try" not in answer.text


async def test_nothing_typed_is_lost_when_the_form_is_drawn_anew(page: httpx.AsyncClient) -> None:
    form = {**EDITOR, "try_mode": "form", "integer:/m": "thr<ee", "do": "look"}
    answer = await page.post("/tools/try", data=form, headers=HX)
    assert 'value="thr&lt;ee"' in answer.text


async def test_a_past_call_fills_the_form(
    page: httpx.AsyncClient, script: httpx.AsyncClient
) -> None:
    response = await script.post("/sessions", json={"tools": ["count"], "tool_choice": "required"})
    id_ = response.json()["id"]
    await script.post(f"/sessions/{id_}/prompts", json={"text": "count"})
    (call,) = (await wait_for_session(script, id_))["calls"]
    html = (await page.get("/tools/count")).text
    key = re.search(rf'<option value="({id_}/\d+)"', html)
    assert key is not None
    form = {**inputs(html), "do": "past", "try_past": key[1]}
    filled = await page.post("/tools/try", data=form, headers=HX)
    written = call["arguments"]["n"]
    assert f'value="{written}"' in filled.text
    gone = await page.post("/tools/try", data={**form, "try_past": "x/1"}, headers=HX)
    assert "Choose another" in gone.text


async def test_a_person_s_tool_has_the_form_of_its_answer(page: httpx.AsyncClient) -> None:
    html = (await page.get("/tools/ask_me")).text
    assert 'name="boolean:/ok"' in html
    assert "Run it" not in html
    form = {**inputs(html), "boolean:/ok": "true", "do": "answer"}
    answer = await page.post("/tools/try", data=form)
    page_html = (await page.get(answer.headers["location"])).text
    assert "&#34;ok&#34;" in page_html


async def test_what_is_missing_replaces_what_was_missing_before(page: httpx.AsyncClient) -> None:
    """The page of a new tool asks for a name; with a name, for what is missing then."""
    new = "Give the tool a name"
    drawn = (await page.get("/tools?new=1")).text
    assert new in drawn[drawn.index('id="try-verdict"') : drawn.index('id="try-acts"')]
    assert drawn.count(new) == 1
    typed = {**EDITOR, "answered_by": "python", "name": "typed_now", "do": "look"}
    response = await page.post("/tools/try", data=typed, headers={"hx-request": "true"})
    assert 'hx-target="#try-verdict"' in response.text
    assert "A Python tool needs a file: the absolute path of a .py file" in response.text


async def test_an_empty_result_is_said(script: httpx.AsyncClient, page: httpx.AsyncClient) -> None:
    silent = {"name": "silent", "config": {"result": ""}}
    output = (await script.post("/tools/try", json={"tool": silent})).json()
    html = (await page.get(f"/tools/try/{output['id']}")).text
    assert '<p class="muted">(empty)</p>' in html
