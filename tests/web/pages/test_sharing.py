"""A session as a file over HTTP, the look at it first, and one that somebody brings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from playground.exchange.bundle import SessionBundle, write_session
from playground.exchange.export_formats import EXPORTS
from tests.exchange.test_agents import CLAUDE_CODE
from tests.factories import Log
from tests.factories import settings as made
from tests.servers import RunningServer, run_server_process, wait_for_session

pytestmark = pytest.mark.anyio

PAGE = {"accept": "text/html"}
MOTTO = "seven+blue/elephants"
LOOKS_LIKE = "sk-ant-api03-AbCdEfGh0123456789"
PROMPT = f"hello {MOTTO} and {LOOKS_LIKE} <script>alert(1)</script>"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("share")
    (folder / ".env").write_text(f"HOUSE_MOTTO={MOTTO}\n")
    (folder / ".env").chmod(0o600)
    with run_server_process(folder / "a.db", PLAYGROUND_PACE="0") as running:
        yield running


@pytest.fixture
async def session_id(script: httpx.AsyncClient) -> str:
    made_one = await script.post("/sessions", json={"title": "A <b>title</b>", "tools": []})
    session_id: str = made_one.json()["id"]
    await script.post(f"/sessions/{session_id}/prompts", json={"text": PROMPT})
    await wait_for_session(script, session_id)
    return session_id


def foreign() -> bytes:
    """A file that would have run at once where it was made."""
    log = Log().start(made(system="Their words.")).prompt("from afar").request()
    log.part(0, "text", "I see.").end("stop")
    return write_session(SessionBundle(log.session(), "From afar", log.events)).data


async def import_shared_session(script: httpx.AsyncClient) -> str:
    answer = await script.post("/sessions/import", content=foreign())
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


@pytest.mark.parametrize("form", EXPORTS)
async def test_every_form_is_a_file_without_what_must_not_leave(
    script: httpx.AsyncClient, session_id: str, form: str
) -> None:
    path = f"/sessions/{session_id}/export?as={form}"
    answer = await script.get(path, headers={"accept": "*/*"})
    if answer.status_code == 422:
        pytest.skip(answer.text[:80])  # a form may say that it cannot say this session
    assert answer.status_code == 200
    name = re.fullmatch(
        r'attachment; filename="([a-z0-9_.-]+)"', answer.headers["content-disposition"]
    )
    assert name is not None
    assert MOTTO not in answer.text
    assert LOOKS_LIKE not in answer.text
    output = (await script.get(path)).json()
    assert output["file"] == name[1]
    assert {item["where"] for item in output["masked"]} >= {"prompt 1", "request 1"}


async def test_the_page_says_what_leaves(script: httpx.AsyncClient, session_id: str) -> None:
    page = await script.get(f"/sessions/{session_id}/share?as=jsonl", headers=PAGE)
    assert page.status_code == 200
    assert ">1 prompt<" in page.text
    assert "<td>prompt 1</td>" in page.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.text
    assert "<script>alert" not in page.text
    assert MOTTO not in page.text
    assert f"/sessions/{session_id}/export?as=jsonl" in page.text
    less = await script.get(
        f"/sessions/{session_id}/share?as=jsonl&without=recordings", headers=PAGE
    )
    assert "0 B of recorded answers" in less.text
    assert "as=jsonl&amp;without=recordings" in less.text


async def test_a_page_is_looked_at_as_what_it_tells(
    script: httpx.AsyncClient, session_id: str
) -> None:
    page = (await script.get(f"/sessions/{session_id}/share?as=html", headers=PAGE)).text
    look = re.search(r'<pre class="code look"[^>]*>(.*?)</pre>', page, re.DOTALL)
    assert look is not None
    assert "## Prompt 1" in look[1]
    assert "hello ****" in look[1]
    assert "Content-Security-Policy" not in look[1]
    assert MOTTO not in page


async def test_what_cannot_be_asked_for(script: httpx.AsyncClient, session_id: str) -> None:
    here = f"/sessions/{session_id}"
    for path in ("/export?as=exe", "/export", "/export?as=jsonl&without=prompts"):
        answer = await script.get(here + path)
        assert answer.status_code == 422, path
        assert answer.json()["error"].endswith(".")
    assert (await script.get(here + "/share?without=prompts", headers=PAGE)).status_code == 422
    assert (await script.get("/sessions/none/export?as=jsonl")).status_code == 404
    assert (await script.get("/sessions/none/share", headers=PAGE)).status_code == 404


async def test_a_session_is_brought_read_and_goes_on_as_a_copy(script: httpx.AsyncClient) -> None:
    session_id = await import_shared_session(script)
    here = f"/sessions/{session_id}"
    page = (await script.get(here, headers=PAGE)).text
    assert "from someone else" in page
    assert "Continue here" in page
    assert 'id="composer"' not in page
    for path, body in (("/prompts", {"text": "x"}), ("/settings", {"model": "x"}), ("/retry", {})):
        assert (await script.post(here + path, json=body)).status_code == 422
    html = (await script.get(here + "/take", headers=PAGE)).text
    for words in ("get_weather", "ask_me", "tools.py", "Their words."):
        assert words in html
    none = await script.post(here + "/take", json={"tools": ["no_such"]})
    assert none.status_code == 422
    response = await script.post(here + "/take", json={"tools": ["get_weather"]})
    assert response.status_code == 201
    child = (await script.get(f"/sessions/{response.json()['id']}/events")).text.splitlines()
    *_, changed, forked = [json.loads(line) for line in child]
    assert forked["kind"] == "session_forked"
    assert forked["foreign"] is True
    assert [tool["name"] for tool in changed["settings"]["tools"]] == ["get_weather"]
    assert changed["settings"]["profile"]["base_url"] == "sim:"
    own = await script.post(f"/sessions/{response.json()['id']}/take", json={"tools": []})
    assert own.status_code == 422
    assert (await script.post(here + "/delete", json={})).status_code == 200


async def test_a_form_brings_a_file_and_reads_why_not(script: httpx.AsyncClient) -> None:
    door = await script.get("/sessions/import", headers=PAGE)
    assert door.status_code == 200

    async def post_import(data: bytes) -> httpx.Response:
        files: Any = {"file": ("a.jsonl", data)}
        return await script.post("/sessions/import", files=files, headers=PAGE)

    answer = await post_import(foreign())
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/sessions/")
    for data, message in ((foreign()[:-9], "Line "), (b"", "choose a file"), (b"\xff\n", "")):
        response = await post_import(data)
        assert response.status_code == 422
        assert message in response.text
        assert '<b class="mono">a.jsonl</b>' in response.text
        assert "It contains MCP servers" not in response.text
    pasted = await script.post("/sessions/import", data={"text": "no <session>"}, headers=PAGE)
    assert "no &lt;session&gt;</textarea>" in pasted.text
    servers = (await post_import(b'{"mcpServers": {"notes": {"command": "npx"}}}')).text
    assert 'It contains MCP servers: use <a href="/import">' in servers


async def test_a_new_session_is_not_like_a_foreign_one(script: httpx.AsyncClient) -> None:
    log = Log(now_ms=4_000_000_000_000).start(made(system="EVIL")).prompt("late")
    data = write_session(SessionBundle(log.session(), "Late", log.events)).data
    assert (await script.post("/sessions/import", content=data)).status_code == 201
    listed = (await script.get("/sessions")).json()
    foreign_id = next(item["id"] for item in listed if item["title"] == "Late")
    response = await script.post(f"/sessions/{foreign_id}/fork", json={"go": False})
    assert response.status_code == 201  # one's own, and later than all others
    assert "EVIL" in (await script.get(f"/sessions/{response.json()['id']}/events")).text
    answer = await script.post("/sessions", data={"model": "m"}, headers=PAGE)
    child = answer.headers["location"]
    assert "EVIL" not in (await script.get(f"{child}/events")).text


@pytest.mark.slow
async def test_the_page_of_an_agents_request_says_who_spoke_and_what_stays_behind(
    script: httpx.AsyncClient,
) -> None:
    messages = [*CLAUDE_CODE["messages"]]
    file = {"type": "document", "source": {"type": "file", "file_id": "f"}}
    messages[0] = {"role": "user", "content": [*messages[0]["content"], file]}
    body = json.dumps({**CLAUDE_CODE, "messages": messages})
    session_id = (await script.post("/sessions/import", content=body)).json()["id"]
    page = (await script.get(f"/sessions/{session_id}", headers=PAGE)).text
    assert page.count("<h2>System</h2>") == page.count("<h2>You</h2>") == 2
    assert "sent back to anthropic only: document." in page
    here = f"/sessions/{session_id}/take"
    html = (await script.get(here, headers=PAGE)).text
    assert "metadata, context_management, output_config, thinking." in html
    assert "defer_loading" in html
    for profile, blocks in (("anthropic", CLAUDE_CODE["system"]), ("openai", None)):
        response = await script.post(here, json={"tools": ["Edit"], "profile": profile})
        log = (await script.get(f"/sessions/{response.json()['id']}/events")).text.splitlines()
        (changed,) = [json.loads(line) for line in log if '"settings_changed"' in line]
        assert changed["settings"]["extra"].get("system") == blocks
        assert changed["settings"]["tools"][0]["extra"]["anthropic"]["defer_loading"] is True
