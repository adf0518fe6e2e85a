"""The Files page over a real server: what it shows, undo, and the Stop of a task."""

from __future__ import annotations

from typing import Any

import anyio
import httpx
import pytest

from tests.servers import wait_for_session

pytestmark = pytest.mark.anyio
JSON = {"accept": "application/json"}
TOOLS = ["write_file", "read_file", "run_shell"]


async def create_session(script: httpx.AsyncClient) -> str:
    response = await script.post("/sessions", json={"tools": TOOLS, "tool_choice": "required"})
    return str(response.json()["id"])


async def waiting(script: httpx.AsyncClient, session_id: str, tool: str) -> dict[str, Any]:
    """A waiting call of `tool`."""
    await script.post(f"/sessions/{session_id}/settings", json={"tool_choice": tool})
    await script.post(f"/sessions/{session_id}/prompts", json={"text": "Go."})
    session = await wait_for_session(script, session_id)
    assert session["state"] == "waiting"
    return dict(session["calls"][-1])


async def run_call(
    script: httpx.AsyncClient, session_id: str, tool: str, arguments: dict[str, Any], **more: Any
) -> str:
    """The result of a call with these arguments, which a user wrote."""
    call = await waiting(script, session_id, tool)
    decision = {"decision": "run", "digest": call["digest"], "arguments": arguments, **more}
    path = f"/sessions/{session_id}/calls/{call['id']}/decision"
    answer = await script.post(path, json=decision)
    assert answer.status_code == 200, answer.text
    session = await wait_for_session(script, session_id)
    done = next(each for each in session["calls"] if each["id"] == call["id"])
    assert done["status"] == "done"
    return str(done["result"]["text"] if "text" in done["result"] else done["result"])


async def test_what_was_written_is_shown_and_undone(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    session_id = await create_session(script)
    here = f"/sessions/{session_id}/files"
    empty = (await page.get(here)).text
    assert "No files yet." in empty
    assert f'href="{here}"' in (await page.get(f"/sessions/{session_id}")).text
    text = "<b>one</b>\n"
    await run_call(script, session_id, "write_file", {"path": "a/<i>.txt", "content": text})
    await run_call(script, session_id, "write_file", {"path": "a/<i>.txt", "content": "two\n"})
    page_html = (await page.get(here)).text
    assert "a/&lt;i&gt;.txt" in page_html
    assert "<i>" not in page_html.partition("<main")[2].replace('<i class="dot', "")
    html = (await page.get(here, params={"path": "a/<i>.txt"})).text
    assert "two" in html
    difference = (await page.get(here, params={"change": 2})).text
    assert "-&lt;b&gt;one" in difference
    assert "+two" in difference

    undone = await page.post(here + "/undo", data={"change": "2"})
    assert (undone.status_code, undone.headers["location"]) == (303, here)
    output = (await script.get(here, params={"path": "a/<i>.txt"}, headers=JSON)).json()
    assert output["text"] == text
    assert [(change["change"], change["by"], change["undone"]) for change in output["changes"]] == [
        (3, "undo 2", False),
        (2, output["changes"][1]["by"], True),
        (1, output["changes"][2]["by"], False),
    ]
    refused = await script.post(here + "/undo", json={"change": 2})
    assert (refused.status_code, refused.json()["error"]) == (
        409,
        "a/<i>.txt was changed after this. Undo the newer change first.",
    )


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"path": "../a.db"}, 422),
        ({"path": "/etc/passwd"}, 422),
        ({"path": "%2e%2e/a.db"}, 404),
        ({"path": "a\0b"}, 422),
        ({"path": "absent"}, 404),
        ({"change": "99"}, 404),
        ({"change": "x"}, 200),
    ],
)
async def test_nothing_else_is_read(
    script: httpx.AsyncClient, query: dict[str, str], status: int
) -> None:
    session_id = await create_session(script)
    answer = await script.get(f"/sessions/{session_id}/files", params=query, headers=JSON)
    assert (answer.status_code, "root:" in answer.text) == (status, False)


@pytest.mark.parametrize("change", [0, "", "x", True, None, 99, "99"])
async def test_undo_of_nothing(script: httpx.AsyncClient, change: Any) -> None:
    session_id = await create_session(script)
    answer = await script.post(f"/sessions/{session_id}/files/undo", json={"change": change})
    assert answer.status_code == (404 if change in (99, "99") else 422)


async def test_no_such_session(script: httpx.AsyncClient) -> None:
    for method, path in (("GET", "files"), ("POST", "files/undo"), ("POST", "tasks/x/stop")):
        answer = await script.request(method, f"/sessions/none/{path}", json={"change": 1})
        assert answer.status_code == 404


async def test_a_task_is_shown_and_stopped(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    session_id = await create_session(script)
    arguments = {"command": "sleep 61 # <b>", "background": True}
    message = await run_call(script, session_id, "run_shell", arguments)
    task_id = message.partition(" as ")[2].split(";")[0].split(",")[0]
    html = (await page.get(f"/sessions/{session_id}")).text
    assert "Background tasks" in html
    assert "sleep 61 # &lt;b&gt;" in html
    stopped = await page.post(f"/sessions/{session_id}/tasks/{task_id}/stop")
    assert (stopped.status_code, stopped.headers["location"]) == (303, f"/sessions/{session_id}")
    assert "Background tasks" not in (await page.get(f"/sessions/{session_id}")).text
    again = await script.post(f"/sessions/{session_id}/tasks/{task_id}/stop", json={})
    assert again.json() == {"ok": True, "how": "stopped by you"}
    none = await script.post(f"/sessions/{session_id}/tasks/nothing/stop", json={})
    assert none.status_code == 404


async def test_the_card_says_how_a_command_runs(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    session_id = await create_session(script)
    call = await waiting(script, session_id, "run_shell")
    html = (await page.get(f"/sessions/{session_id}")).text
    kinds = [problem["kind"] for problem in call["problems"]]
    assert ("Run without the sandbox…" in html) == ("note" in kinds)
    assert ("no sandbox" in html) == ("caution" in kinds)
    assert "schema error" not in html
    decision = {"decision": "run", "digest": call["digest"], "lift": "true"}
    path = f"/sessions/{session_id}/calls/{call['id']}/decision"
    answer = await page.post(path, data={**decision, "seen": "100000"})
    assert answer.status_code == 303
    with anyio.fail_after(30):
        while "run without the sandbox by you" not in html:
            html = (await page.get(f"/sessions/{session_id}")).text
            await anyio.sleep(0.02)
