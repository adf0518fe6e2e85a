"""The JSON face to the letter of docs/contract.md, over a real server."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from playground.core import errors
from playground.core.errors import PlaygroundError
from playground.engine.preview import WIRES
from playground.web import guard
from tests.markup import joined_tags
from tests.servers import RunningServer, messages, wait_for_session

pytestmark = pytest.mark.anyio

ECHO = {"name": "echo", "answered_by": "mock", "config": {"result": "{{ text }}"}}
PARAMETERS = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOTE = {**ECHO, "name": "note", "config": {"result": "noted"}, "parameters": PARAMETERS}
ALLOW = [{"tool": "*", "action": "run", "text": "", "words": "--allow all"}]
FOLDED = {"id", "title", "state", "seq", "text", "turns", "calls", "tasks"}
CALL = {
    *("id", "provider_id", "name", "status", "arguments", "arguments_raw"),
    *("problems", "digest", "decided_by", "result"),
}


async def posted(script: httpx.AsyncClient, path: str, body: Any = None, status: int = 200) -> Any:
    answer = await script.post(path, json={} if body is None else body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("application/json")
    return answer.json()


async def session(script: httpx.AsyncClient, prompt: str = "", **body: Any) -> str:
    """A new session; with a prompt, at its rest."""
    result = await posted(script, "/sessions", body, 201)
    assert result.keys() == {"id"}
    if prompt:
        await posted(script, f"/sessions/{result['id']}/prompts", {"text": prompt}, 202)
        await wait_for_session(script, result["id"])
    return str(result["id"])


async def get_session(script: httpx.AsyncClient, session_id: str) -> Any:
    return (await script.get(f"/sessions/{session_id}")).json()


async def waiting(script: httpx.AsyncClient, prompt: str = "Use note") -> tuple[str, Any]:
    """A session with a call that waits, and the call."""
    session_id = await session(script, prompt, tools=[NOTE])
    session_data = await get_session(script, session_id)
    assert session_data["state"] == "waiting", session_data
    return session_id, session_data["calls"][0]


def rows(server: RunningServer) -> dict[str, int]:
    """How many rows each table has."""
    with closing(sqlite3.connect(f"file:{server.db}?mode=ro", uri=True)) as connection:
        tables = ("sessions", "events", "chunks", "tools")
        return {t: connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in tables}


async def test_the_folded_session(script: httpx.AsyncClient) -> None:
    session_id, call = await waiting(script)
    session_data = await get_session(script, session_id)
    assert session_data.keys() == FOLDED
    assert call.keys() >= CALL
    assert (call["status"], call["name"], call["decided_by"], call["result"]) == (
        *("waiting", "note"),
        *(None, None),
    )
    assert call["arguments"] == json.loads(call["arguments_raw"])
    assert len(call["digest"]) == 64
    path = f"/sessions/{session_id}/calls/{call['id']}/decision"
    await posted(script, path, {"decision": "run", "digest": call["digest"]})
    done = await wait_for_session(script, session_id)
    assert (done["state"], done["turns"]) == ("idle", 2)
    assert done["text"]
    assert done["calls"][0]["decided_by"] == "person"
    assert done["calls"][0]["result"]["content"][0]["text"] == "noted"


@pytest.mark.parametrize(
    ("body", "profile", "protocol"),
    [
        ({}, "simulator", "anthropic"),
        ({"profile": "simulator-openai"}, "simulator-openai", "openai_chat"),
        ({"protocol": "openai_chat", "base_url": "sim:"}, "simulator-openai_chat", "openai_chat"),
        ({"protocol": "anthropic", "base_url": "sim:", "model": "x"}, "simulator", "anthropic"),
    ],
)
async def test_new_sessions(
    script: httpx.AsyncClient, body: Mapping[str, Any], profile: str, protocol: str
) -> None:
    session_id = await session(script, "hello", **body, title="A title")
    assert (await get_session(script, session_id))["title"] == "A title"
    assert (await get_session(script, session_id))["state"] == "idle"
    lines = (await script.get(f"/sessions/{session_id}/events")).text.split("\n")
    settings = json.loads(lines[0])["settings"]
    assert (settings["profile"]["name"], settings["profile"]["protocol"]) == (profile, protocol)


async def test_what_is_refused_changes_nothing(
    server: RunningServer, script: httpx.AsyncClient
) -> None:
    session_id, call = await waiting(script)
    here, there = f"/sessions/{session_id}", f"/sessions/{session_id}/calls/{call['id']}"
    right = call["digest"]
    before = rows(server)
    refused: list[tuple[str, Any, int]] = [
        ("/sessions", {"tool": []}, 422),
        ("/sessions", {"profile": "nobody"}, 404),
        ("/sessions", {"tools": ["nobody"]}, 422),
        ("/sessions", {"tools": [{"name": "a b"}]}, 422),
        ("/sessions", {"tools": [{**ECHO, "answered_by": "http"}]}, 422),
        ("/sessions", {"title": 7}, 422),
        ("/sessions", {"rules": {}}, 422),
        ("/sessions", {"rules": [{"tool": "*", "action": "explode"}]}, 422),
        ("/sessions", {"rules": [7]}, 422),
        ("/sessions", [], 422),
        ("/sessions/nobody/prompts", {"text": "x"}, 404),
        (here + "/prompts", {"text": "x"}, 409),
        (here + "/prompts", {"text": " "}, 422),
        (here + "/prompts", {"text": 7}, 422),
        (here + "/prompts", {}, 422),
        (here + "/continue", {}, 422),
        (here + "/retry", {}, 422),
        (here + "/rename", {"title": " "}, 422),
        (here + "/rename", {"title": "x" * 201}, 422),
        (here + "/settings", {"max_turns": 0}, 422),
        (here + "/settings", {"tool_choice": "nobody"}, 422),
        (here + "/calls/9.9/decision", {"decision": "run", "digest": right}, 404),
        (here + "/calls/9.9/cancel", {}, 404),
        (there + "/cancel", {}, 409),
        (there + "/extend", {"seconds": 30}, 409),
        (there + "/extend", {"seconds": 0}, 422),
        (there + "/extend", {"seconds": 3601}, 422),
        (there + "/extend", {"seconds": "soon"}, 422),
        (there + "/extend", {"seconds": True}, 422),
        (there + "/extend", {}, 422),
        (here + "/calls/9.9/extend", {"seconds": 30}, 404),
        (there + "/background", {}, 409),
        (here + "/calls/9.9/background", {}, 404),
        (here + "/tasks/call-9-9/stop", {}, 404),
        (there + "/decision", {"decision": "run", "digest": "0" * 64}, 409),
        (there + "/decision", {"decision": "run"}, 422),
        (there + "/decision", {"decision": "maybe", "digest": right}, 422),
        (there + "/decision", {"decision": "run", "digest": right, "arguments": "{"}, 422),
        (there + "/decision", {"decision": "run", "digest": right, "arguments": []}, 422),
        (there + "/decision", {"decision": "run", "digest": right, "arguments": {"text": 1}}, 422),
        (there + "/decision", {"decision": "run", "digest": right, "anyway": "yes"}, 422),
        (here + "/decisions", {}, 422),
        (here + "/decisions", [7], 422),
        ("/tools", {"name": "a b"}, 422),
        ("/tools", {}, 422),
        ("/tools/nobody/delete", {}, 404),
        ("/tools/calculator/delete", {}, 422),
        ("/keys", {"name": "X", "value": " "}, 422),
        ("/nowhere", {}, 404),
        ("/welcome", {}, 405),
    ]
    for path, body, status in refused:
        answer = await script.post(path, json=body)
        assert answer.status_code == status, (path, body, answer.text)
        assert len(answer.json()["error"].split()) > 2, (path, body, answer.text)
    for junk in (b"{", b"\xff", b'{"a": NaN', b"[" * 100_000):
        answer = await script.post(here + "/prompts", content=junk)
        assert answer.status_code == 422, answer.text
    for path in ("/sessions/nobody", here + "/blocks/nothing", here + "/recordings/9"):
        assert (await script.get(path)).status_code == 404
    for after in ("x", "-1", "9" * 30):
        assert (await script.get(f"{here}/events?after={after}")).status_code == 422
    assert rows(server) == before


async def test_fifty_decisions_run_it_once(
    server: RunningServer, script: httpx.AsyncClient, tmp_path: Path
) -> None:
    effects = tmp_path / "effects"
    file = tmp_path / "tool.py"
    file.write_text(f"def note(text=''):\n    open({str(effects)!r}, 'a').write('ran\\n')\n")
    config = {"file": str(file), "function": "note"}
    tool = {**NOTE, "answered_by": "python", "config": config}
    session_id = await session(script, "Use note", tools=[tool])
    (call,) = (await get_session(script, session_id))["calls"]
    path = f"/sessions/{session_id}/calls/{call['id']}/decision"
    body = {"decision": "run", "digest": call["digest"]}
    answers = await asyncio.gather(*(script.post(path, json=body) for _ in range(50)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 49
    lost = next(answer.json() for answer in answers if answer.status_code == 409)
    assert (lost["decision"], lost["decided_by"]) == ("run", "person")
    await wait_for_session(script, session_id)
    assert effects.read_text() == "ran\n"


async def test_a_form_runs_only_what_the_page_showed(script: httpx.AsyncClient) -> None:
    session_id, call = await waiting(script)
    form = {"decision": "run", "digest": call["digest"], "seen": "1"}
    single = f"/sessions/{session_id}/calls/{call['id']}/decision"
    for seen_count, message in (("1", "Show all"), ("-1", "characters"), ("x", "characters")):
        answer = await script.post(single, data={**form, "seen": seen_count})
        assert (answer.status_code, message in answer.text) == (422, True)
    several = {**form, "call": f"{call['id']} {call['digest']}"}
    (outcome,) = (await script.post(f"/sessions/{session_id}/decisions", data=several)).json()
    assert "Press Show all" in outcome["error"]
    assert (await get_session(script, session_id))["state"] == "waiting"
    form["seen"] = str(len(call["arguments_raw"]))
    assert (await script.post(single, data=form)).status_code == 200


async def test_edited_arguments_and_anyway(script: httpx.AsyncClient) -> None:
    for arguments in ({"text": "edited"}, '{"text":  "edited"}'):
        session_id, call = await waiting(script)
        path = f"/sessions/{session_id}/calls/{call['id']}/decision"
        body = {"decision": "run", "digest": call["digest"], "arguments": arguments}
        await posted(script, path, body)
        (after,) = (await wait_for_session(script, session_id))["calls"]
        assert after["arguments"] == {"text": "edited"}
        assert after["arguments_raw"] == call["arguments_raw"]
    session_id, call = await waiting(script, "[[fault:args-missing-required]] Use note")
    path = f"/sessions/{session_id}/calls/{call['id']}/decision"
    body = {"decision": "run", "digest": call["digest"]}
    assert [problem["kind"] for problem in call["problems"]] == ["schema"]
    await posted(script, path, body, 422)
    await posted(script, path, {**body, "anyway": True})
    assert (await wait_for_session(script, session_id))["state"] == "idle"


async def test_answer_deny_and_several_at_once(script: httpx.AsyncClient) -> None:
    session_id, _ = await waiting(script, "[[fault:parallel-4]] Use note")
    calls = (await get_session(script, session_id))["calls"]
    wishes = [
        {"call": calls[0]["id"], "decision": "run", "digest": calls[0]["digest"]},
        {"call": calls[1]["id"], "decision": "run", "digest": "0" * 64},
        {"call": calls[2]["id"], "decision": "deny", "digest": calls[2]["digest"], "text": "no"},
        {"call": "9.9", "decision": "run", "digest": "x"},
    ]
    text = await posted(script, f"/sessions/{session_id}/decisions", wishes)
    assert [(item["call"], item["ok"]) for item in text] == [
        *((calls[0]["id"], True), (calls[1]["id"], False)),
        *((calls[2]["id"], True), ("9.9", False)),
    ]
    for call in (calls[1], calls[3]):
        path = f"/sessions/{session_id}/calls/{call['id']}/decision"
        body = {"decision": "answer", "digest": call["digest"], "text": "mine", "is_error": True}
        await posted(script, path, body)
    results = [call["result"] for call in (await wait_for_session(script, session_id))["calls"]]
    assert [result["is_error"] for result in results] == [False, True, True, True]
    assert [result["kind"] for result in results] == ["", "", "denied", ""]


async def test_a_fault_says_itself_whether_the_tool_runs(script: httpx.AsyncClient) -> None:
    session_id, call = await waiting(script)
    path = f"/sessions/{session_id}/calls/{call['id']}/decision"
    body = {"digest": call["digest"], "fault": "boom"}
    assert "Choose from timeout" in (await posted(script, path, body, 422))["error"]
    body |= {"fault": "cut_json", "decision": "answer"}
    assert "needs the tool to run" in (await posted(script, path, body, 422))["error"]
    # The page's form has no decision, for it depends on what is chosen.
    form = {"digest": call["digest"], "fault": "cut_json", "seen": "1000"}
    assert (await script.post(path, data=form)).status_code in (200, 303)
    output = (await wait_for_session(script, session_id))["calls"][0]
    assert (output["fault"], output["decision"]) == ("cut_json", "run")
    assert output["real"]["content"][0]["text"] == "noted"
    assert output["result"]["content"][0]["text"] == "no"
    assert output["result"]["staged"]


async def test_rules_of_a_script_and_the_limit(script: httpx.AsyncClient) -> None:
    session_id = await session(
        script, "[[fault:loop]] Use note", tools=[NOTE], rules=ALLOW, max_turns=2
    )
    session_data = await get_session(script, session_id)
    assert (session_data["state"], session_data["turns"]) == ("paused", 2)
    assert session_data["calls"][0]["decided_by"] == "--allow all"
    here = f"/sessions/{session_id}/continue"
    page = (await script.get(f"/sessions/{session_id}", headers={"accept": "text/html"})).text
    base_seq = int(page.partition('name="pause" value="')[2].partition('"')[0])
    await posted(script, here, {"pause": base_seq})
    assert (await wait_for_session(script, session_id))["turns"] == 4
    await posted(script, here, {"pause": base_seq}, 409)  # it lifts no limit that nobody saw
    assert (await wait_for_session(script, session_id))["turns"] == 4
    for bad_settings in ({"max_turns": 0}, {"max_turns": "3"}, {"model": "m"}, {"pause": "x"}):
        await posted(script, here, bad_settings, 422)
    await posted(script, here, {"max_turns": 1, "max_cost": 0.5})
    assert (await wait_for_session(script, session_id))["turns"] == 5
    # The form of the page, and what it says of a number that is none.
    for fields, status in (({"max_turns": "much"}, 422), ({"max_turns": " 3 "}, 303)):
        response = await script.post(here, data=fields, headers={"accept": "text/html"})
        assert response.status_code == status
    assert "max_turns must be a whole number, not" not in response.text
    assert (await wait_for_session(script, session_id))["turns"] == 7  # a raised limit counts on
    changes = [
        json.loads(line)["settings"]["limits"]
        for line in (await script.get(f"/sessions/{session_id}/events")).text.splitlines()
        if '"settings_changed"' in line
    ]
    assert [(change["max_turns"], change["max_cost"]) for change in changes] == [(1, 0.5), (3, 0.5)]
    await posted(script, f"/sessions/{session_id}/stop")
    assert (await get_session(script, session_id))["state"] == "interrupted"
    await posted(script, f"/sessions/{session_id}/prompts", {"text": "hello"}, 202)
    await wait_for_session(script, session_id)
    await posted(script, here, {"max_turns": 9}, 422)


async def test_a_browser_sends_line_ends_as_cr_lf_and_a_script_what_it_wants(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    text, file = "one\r\n two", {"images": ("", b"")}
    wanted = {"json": text, "urlencoded": "one\n two", "multipart": "one\n two"}
    for way, stored in wanted.items():
        id_ = (await script.post("/sessions", json={})).json()["id"]
        path = f"/sessions/{id_}/prompts"
        match way:
            case "json":
                await script.post(path, json={"text": text})
            case "urlencoded":
                await page.post(path, data={"text": text})
            case _:
                await page.post(path, data={"text": text}, files=file)
        events = (await script.get(f"/sessions/{id_}/export?as=jsonl")).json()["text"]
        assert json.dumps(stored)[1:-1] in events, way


async def test_the_life_of_a_session(script: httpx.AsyncClient) -> None:
    session_id = await session(
        script, "[[fault:http-500-then-ok-1]] hello", tools=["calculator"], max_retries=0
    )
    here = f"/sessions/{session_id}"
    assert (await get_session(script, session_id))["state"] == "failed"
    for number, status in ((7, 409), ("x", 422), (True, 422), (1, 200), (1, 409)):
        await posted(script, here + "/retry", {"turn": number}, status)
    assert (await wait_for_session(script, session_id))["state"] == "idle"
    await posted(script, here + "/rename", {"title": "  A  new\ntitle "})
    assert (await get_session(script, session_id))["title"] == "A new title"
    await posted(script, here + "/settings", {"model": "other", "tool_choice": "calculator"})
    await posted(script, here + "/prompts", {"text": "What is 2 + 3?"}, 202)
    assert (await wait_for_session(script, session_id))["state"] == "waiting"
    await posted(script, here + "/stop")
    assert (await get_session(script, session_id))["state"] == "interrupted"
    log = [json.loads(x) for x in (await script.get(here + "/events")).text.split("\n") if x]
    sent = [item for item in log if item["kind"] == "request_sent"][-1]
    assert (sent["model"], sent["choice"]["mode"]) == ("other", "tool")
    await posted(script, here + "/delete")
    listed = [item["id"] for item in (await script.get("/sessions")).json()]
    assert session_id not in listed
    await posted(script, here + "/restore")
    listed = [item["id"] for item in (await script.get("/sessions?q=A new")).json()]
    assert session_id in listed


async def test_tools(script: httpx.AsyncClient) -> None:
    assert (await posted(script, "/tools", NOTE, 201))["name"] == "note"
    names = [item["name"] for item in (await script.get("/tools")).json()]
    assert names[0] == "note"
    assert "calculator" in names
    assert (await script.get("/tools/note")).json()["parameters"] == PARAMETERS
    assert (await posted(script, "/tools/note/duplicate", None, 201))["name"] == "note_2"
    for name in ("note", "note_2"):
        await posted(script, f"/tools/{name}/delete")
    assert (await script.get("/tools/note")).status_code == 404


async def test_events_as_lines_and_live(script: httpx.AsyncClient) -> None:
    session_id = await session(script, "hello")
    path = f"/sessions/{session_id}/events"
    answer = await script.get(path)
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    log = [json.loads(line) for line in answer.text.removesuffix("\n").split("\n")]
    assert [line["seq"] for line in log] == list(range(1, len(log) + 1))
    assert all({"seq", "at_ms", "kind"} <= line.keys() for line in log)
    rest = (await script.get(f"{path}?after={len(log) - 2}")).text
    assert [json.loads(line) for line in rest.split("\n") if line] == log[-2:]
    live: list[Any] = []
    async with (
        asyncio.timeout(30),
        script.stream("GET", path + "?after=3", headers={"accept": "text/event-stream"}) as stream,
    ):
        assert stream.headers["content-type"].startswith("text/event-stream")
        async for message in messages(stream):
            live.append(json.loads(message["data"]))
            assert int(message["id"]) == live[-1]["seq"]
            if live[-1]["seq"] == len(log):
                break
    assert live == log[3:]


async def test_the_session_s_stream(script: httpx.AsyncClient) -> None:
    """Its ids are seqs from 1, it ends lines with a bare newline, and junk gets everything."""
    session_id = await session(script, "hello")
    seq = (await get_session(script, session_id))["seq"]
    sizes = {}
    for after in ("0", "1", str(seq - 1), "junk", "-5", str(seq + 99), "9" * 40, ""):
        async with (
            asyncio.timeout(30),
            script.stream("GET", f"/sessions/{session_id}/stream?after={after}") as stream,
        ):
            text = ""
            async for piece in stream.aiter_text():
                text += piece
                if f"id: {seq}\n\n" in text:
                    break
            sizes[after] = len(text)
            assert "\r" not in text
    assert sizes["junk"] == sizes["-5"] == sizes[str(seq + 99)] == sizes["9" * 40] == sizes[""]
    assert sizes[str(seq - 1)] < sizes["junk"]


@pytest.mark.parametrize(
    "prompt",
    [
        "[[fault:args-lone-surrogate]] Use note",
        "[[fault:args-nul]] Use note",
    ],
)
async def test_odd_characters_reach_every_reader(script: httpx.AsyncClient, prompt: str) -> None:
    result = await posted(script, "/sessions", {"tools": [NOTE]}, 201)
    here = f"/sessions/{result['id']}"
    body = json.dumps({"text": prompt}).encode()
    assert (await script.post(here + "/prompts", content=body)).status_code == 202
    session_data = await wait_for_session(script, result["id"])
    assert session_data["id"] == result["id"]
    page = await script.get(here, headers={"accept": "text/html"})
    assert page.status_code == 200
    for path in ("/replay", "/events", "/requests/1", "/recordings/1"):
        assert (await script.get(here + path)).status_code == 200, path
    async with asyncio.timeout(30), script.stream("GET", here + "/stream") as stream:
        async for message in messages(stream):
            if message.get("id"):
                break
    assert (await script.get("/sessions")).status_code == 200


async def test_a_number_beyond_all_floats(script: httpx.AsyncClient) -> None:
    session_id, call = await waiting(script)
    path = f"/sessions/{session_id}/calls/{call['id']}/decision"
    body = {"decision": "run", "digest": call["digest"], "anyway": True}
    answer = await script.post(path, json={**body, "arguments": '{"text": 1e400}'})
    assert answer.status_code in (200, 422)
    assert (await script.get(f"/sessions/{session_id}")).status_code == 200


async def test_the_three_ways_of_asking(script: httpx.AsyncClient) -> None:
    session_id = await session(script)
    path = f"/sessions/{session_id}/prompts"
    for headers, status in (
        ({"accept": "text/html"}, 303),
        ({"accept": "text/html", "hx-request": "true"}, 204),
        ({"accept": "application/json"}, 202),
    ):
        answer = await script.post(path, data={"text": "hello"}, headers=headers)
        assert answer.status_code == status, answer.text
        await wait_for_session(script, session_id)
    page = await script.post(path, data={"text": ""}, headers={"accept": "text/html"})
    assert (page.status_code, "<html" in page.text) == (422, True)
    toast = await script.post(path, data={"text": ""}, headers={"hx-request": "true"})
    assert (toast.status_code, "<html" in toast.text) == (422, False)


async def test_recordings_and_requests(script: httpx.AsyncClient) -> None:
    session_id = await session(script, "hello")
    here = f"/sessions/{session_id}"
    body = (await script.get(here + "/recordings/1")).content
    assert body.startswith(b"event: message_start")
    part = (await script.get(here + "/recordings/1?start=7&end=20")).content
    assert part == body[7:20]
    assert (await script.get(here + "/recordings/1?start=x")).status_code == 422
    assert json.loads((await script.get(here + "/requests/1")).text)["messages"]


async def test_a_demo_speaks_the_protocol_that_was_chosen(script: httpx.AsyncClient) -> None:
    welcome = await script.get("/welcome", headers={"accept": "text/html"})
    names = {piece.split('"')[0] for piece in welcome.text.split('name="demo" value="')[1:]}
    for name, wire in zip(sorted(names - {"tap"}), WIRES, strict=False):
        there = await script.get(f"/welcome?protocol={wire}", headers={"accept": "text/html"})
        assert f'name="protocol" value="{wire}"' in joined_tags(there.text)
        data = {"demo": name, "protocol": wire}
        answer = await script.post("/sessions", data=data, headers={"accept": "text/html"})
        assert answer.status_code == 303, answer.text
        session_id = answer.headers["location"].rpartition("/")[2].partition("?")[0]
        await wait_for_session(script, session_id)
        log = (await script.get(f"/sessions/{session_id}/events")).text
        assert f'"protocol": "{wire}", "method": "POST"' in log
    assert (await script.post("/sessions", data={"demo": "nobody"})).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        b'{"text": "half \\ud800 a character"}',
        b'{"text": "twice", "text": "twice"}',
        b'{"text": NaN}',
        b'{"text": ' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"text": "\xff"}',
        b'{"text": "open',
        b"[]",
    ],
)
async def test_a_body_that_is_no_sound_object_changes_nothing(
    script: httpx.AsyncClient, body: bytes
) -> None:
    result = await posted(script, "/sessions", {}, 201)
    path = f"/sessions/{result['id']}/prompts"
    answer = await script.post(path, content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, list(answer.json())) == (422, ["error", "code"])
    assert (await script.get(f"/sessions/{result['id']}")).json()["seq"] == 1


async def test_edited_arguments_run_as_they_were_written(script: httpx.AsyncClient) -> None:
    exact = '{"text": "x", "big": 12345678901234567890.123456789}'
    session_id, call = await waiting(script)
    path = f"/sessions/{session_id}/calls/{call['id']}/decision"
    body = '{"decision": "run", "anyway": true, "digest": "%s", "arguments": %s}'
    sent = (body % (call["digest"], exact)).encode()
    assert (await script.post(path, content=sent)).status_code == 200
    events = (await script.get(f"/sessions/{session_id}/events")).text.splitlines()
    (decided,) = [line for line in map(json.loads, events) if line["kind"] == "call_decided"]
    assert decided["arguments"] == exact


@pytest.mark.parametrize("text", ["", "null", " "])
async def test_an_emptied_edit_runs_nothing_of_the_old_arguments(
    script: httpx.AsyncClient, text: str
) -> None:
    session_id, call = await waiting(script)
    path = f"/sessions/{session_id}/calls/{call['id']}/decision"
    form = {"decision": "run", "digest": call["digest"], "arguments": text, "anyway": "true"}
    headers = {"accept": "text/html", "content-type": "application/x-www-form-urlencoded"}
    answer = await script.post(path, content=urlencode(form).encode(), headers=headers)
    assert answer.status_code in (303, 422)
    events = (await script.get(f"/sessions/{session_id}/events")).text.splitlines()
    decided = [line for line in map(json.loads, events) if line["kind"] == "call_decided"]
    assert [item["arguments"] for item in decided] == ([] if answer.status_code == 422 else [text])


async def test_a_number_of_any_length_in_a_path_is_just_not_there(
    script: httpx.AsyncClient,
) -> None:
    result = await posted(script, "/sessions", {}, 201)
    for number in ("0", "1", "x", "9" * 5000):
        path = f"/sessions/{result['id']}/recordings/{number}"
        assert (await script.get(path)).status_code == 404


async def test_a_deleted_session_takes_no_prompt_until_it_is_restored(
    script: httpx.AsyncClient,
) -> None:
    result = await posted(script, "/sessions", {}, 201)
    here = f"/sessions/{result['id']}"
    await posted(script, here + "/delete", {}, 200)
    refused = await posted(script, here + "/prompts", {"text": "hi"}, 409)
    assert "Restore" in refused["error"]
    for path, body in (
        ("/retry", {}),
        ("/continue", {}),
        ("/settings", {"model": "other"}),
        ("/rename", {"title": "other"}),
        ("/calls/1.0/decision", {"decision": "run", "digest": "x"}),
    ):
        assert "Restore" in (await posted(script, here + path, body, 409))["error"]
    (item,) = await posted(script, here + "/decisions", [{"call": "1.0", "decision": "deny"}])
    assert "Restore" in item["error"]
    await posted(script, here + "/restore", {}, 200)
    await posted(script, here + "/prompts", {"text": "hi"}, 202)


@pytest.mark.parametrize(
    "rules",
    [
        {},
        [{}],
        [1],
        [{"tool": "x"}],
        [{"tool": "x", "action": "fly"}],
        [{"tool": "x", "action": ["run"]}],
        [{"tool": 5, "action": "run"}],
        [{"tool": "x", "action": "run", "text": 5}],
        [{"tool": "x", "action": "run", "oops": ""}],
    ],
)
async def test_rules_that_are_none_are_refused_in_words(
    script: httpx.AsyncClient, rules: object
) -> None:
    refused = await posted(script, "/sessions", {"rules": rules}, 422)
    assert "__init__" not in refused["error"]


def test_every_error_has_a_code_of_its_own_that_the_contract_names() -> None:
    kinds = [value for value in vars(errors).values() if isinstance(value, type)]
    codes = [kind.error_code for kind in kinds if issubclass(kind, PlaygroundError)]
    assert len(codes) == len(set(codes)) >= 12
    contract = (Path(__file__).resolve().parents[2] / "docs/contract.md").read_text()
    codes += guard.CODES.values()
    assert [code for code in codes if f"`{code}`" not in contract] == []


async def test_a_refusal_says_its_code_beside_its_sentence(script: httpx.AsyncClient) -> None:
    result = await posted(script, "/sessions", {}, 201)
    here = f"/sessions/{result['id']}"
    wanted = {
        ("/sessions/nobody/stop", "{}"): (404, "not_found"),
        ("/nowhere", "{}"): (404, "not_found"),
        (here + "/prompts", '{"text": 1}'): (422, "bad_input"),
        ("/tools", '{"name": "a b"}'): (422, "bad_tool"),
        (here + "/retry", '{"turn": 7}'): (409, "conflict"),
    }
    kind = {"content-type": "application/json"}
    answers = {
        place: await script.post(place[0], content=place[1], headers=kind) for place in wanted
    }
    assert {
        place: (answer.status_code, answer.json()["code"]) for place, answer in answers.items()
    } == wanted
    lost = await script.get("/", headers={"authorization": "Bearer no"})
    assert (lost.status_code, lost.json()["code"]) == (401, "unauthorized")
