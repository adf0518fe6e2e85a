"""The page "Agents" and the API of taps: a secret is shown once, and what a tap does is told."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from playground.core.events import Tapped
from playground.engine.engine import Engine
from playground.engine.fork import ForkPlace, fork
from playground.engine.import_session import import_session
from playground.engine.settings import settings_from
from playground.engine.verify import verify
from playground.store.database import Statement
from playground.tap.agents import AGENTS, BY_HAND
from playground.web.agents import MOST_SESSIONS, SILENT_MS
from playground.web.app import make_app
from tests.engines import StartEngine, run_engine
from tests.markup import joined_tags
from tests.web.asking import HERE, JSON, PAGE, PORT, TOKEN
from tests.web.test_providers import Asked, _nothing

pytestmark = pytest.mark.anyio

MEMBERS = {
    *("id", "title", "upstream", "stop_at", "agent", "created_ms", "revoked_ms"),
    *("requests", "last_request_ms", "other_requests"),
}
SECRET = re.compile(r"/tap/([\w-]{43})/")


class Clocked(Asked):
    """The app around an engine whose clock is moved by hand, with its Site."""

    def __init__(self, engine: Engine) -> None:
        self.now_ms = 1_800_000_000_000
        engine.sessions.clock = lambda: self.now_ms
        self.app, self.site = make_app(engine, token=TOKEN, port=lambda: PORT, simulator=_nothing)

    async def page(self, path: str = "/agents") -> str:
        output = await self.get(path, PAGE)
        assert output.status == 200
        return output.body.decode()

    async def json(self, path: str, body: Any = None) -> Any:
        output = await (self.get(path, JSON) if body is None else self.post(path, body, JSON))
        assert output.status in (200, 201), output.body
        return json.loads(output.body)


async def test_a_tap_by_its_api(engine: Engine) -> None:
    client = Clocked(engine)
    tap_form = {"upstream": "simulator", "title": "T", "stop_at": "calls", "agent": "claude"}
    output = await client.post("/taps", tap_form, JSON)
    result = json.loads(output.body)
    assert (output.status, set(result)) == (201, {"id", "secret", "urls"})
    door = f"http://{HERE}/tap/{result['secret']}"
    assert result["urls"] == {
        "anthropic": f"{door}/anthropic",
        "openai": f"{door}/openai/v1",
        "gemini": f"{door}/gemini",
        "ollama": f"{door}/ollama",
    }
    assert result["secret"] not in (await client.page()) + json.dumps(await client.json("/taps"))
    (row,) = await client.json("/taps")
    assert set(row) == MEMBERS
    assert {name: row[name] for name in tap_form} == tap_form
    assert (row["requests"], row["last_request_ms"], row["other_requests"]) == (0, None, [])
    tap = await client.site.taps.find(result["secret"])
    assert tap is not None
    assert tap.id == row["id"] == result["id"]

    here = f"/taps/{tap.id}"
    for stop in ("unruled", "results", "errors", "nothing"):
        changed = await client.json(f"{here}/settings", {"stop_at": stop})
        assert changed == {**row, "stop_at": stop}
    client.now_ms += 1
    revoked = await client.json(f"{here}/revoke", {})
    assert revoked == {**changed, "revoked_ms": client.now_ms}
    assert await client.json(f"{here}/revoke", {}) == revoked
    assert await client.site.taps.find(result["secret"]) is None
    assert (await client.post(f"{here}/settings", {"stop_at": "calls"}, JSON)).status == 409

    least = await client.json("/taps", {})  # nothing named: the simulator
    assert [tap["id"] for tap in await client.json("/taps")] == [least["id"], tap.id]
    assert (await client.json("/taps"))[0]["upstream"] == "simulator"


async def test_what_is_wrong_makes_no_tap(engine: Engine) -> None:
    client = Clocked(engine)
    for body, status in (
        ({"upstream": "nobody"}, 404),
        ({"upstream": "azure"}, 422),
        ({"upstream": 1}, 422),
        ({"stop_at": "everything"}, 422),
        ({"title": "x" * 201}, 422),
    ):
        output = await client.post("/taps", body, JSON)
        assert (output.status, "error" in json.loads(output.body)) == (status, True), body
    for path in ("/taps/t9/settings", "/taps/t9/revoke"):
        assert (await client.post(path, {"stop_at": "nothing"}, JSON)).status == 404
    output = await client.post("/taps", {"upstream": "nobody", "title": "<b>Mine"}, PAGE)
    assert (output.status, b'value="&lt;b&gt;Mine"' in output.body) == (422, True)
    assert b'role="alert">There is no profile' in output.body
    assert await client.json("/taps") == []


async def test_a_tap_by_the_form_shows_its_secret_once(engine: Engine) -> None:
    client = Clocked(engine)
    empty = await client.page()
    assert "No taps yet" in empty
    for agent in AGENTS.values():
        assert f">{agent.title}</dt>" in empty
        assert f'data-copy="playground tap {agent.name} --db ' in empty
    for choice in ("simulator", "simulator-ollama", "anthropic", "openai-responses"):
        assert f'<option value="{choice}"' in empty
    empty = joined_tags(empty)
    assert '<option value="azure"' not in empty  # it has no address
    assert '<option value="groq"' not in joined_tags(
        empty
    )  # it has no key, and takes no vendor's login
    output = await client.post("/taps", {"upstream": "simulator", "title": "<i>"}, PAGE)
    result = output.body.decode()
    (secret,) = set(SECRET.findall(result))
    for door in ("anthropic", "openai/v1", "gemini", "ollama"):
        assert f'data-copy="http://{HERE}/tap/{secret}/{door}"' in result
    assert all(f">{row.title}</dt>" in result for row in BY_HAND)
    assert "&lt;i&gt;" in result
    assert (output.status, output.header("cache-control")) == (201, "no-store")
    assert secret not in await client.page()
    one_door = await client.post("/taps", {"upstream": "gemini"}, PAGE)
    assert b"GOOGLE_GEMINI_BASE_URL=" in one_door.body
    assert b"ANTHROPIC_BASE_URL=" not in one_door.body
    assert (await client.get("/taps", PAGE)).header("location") == "/agents"


async def test_the_page_tells_what_a_tap_does(engine: Engine) -> None:
    client = Clocked(engine)
    taps = client.site.taps
    claude, _ = await taps.create(agent="claude")
    by_hand, _ = await taps.create(title="Mine")
    silent = "No request yet. Claude Code's own settings may point elsewhere."
    client.now_ms += SILENT_MS - 1
    assert silent not in await client.page()
    client.now_ms += 1
    assert silent in await client.page()
    assert (await client.page()).count("No request yet. Claude") == 1  # nobody starts by hand
    taps.note(claude.id, client.now_ms)
    page = await client.page()
    assert silent not in page
    assert "1 request<" in page

    taps.note(by_hand.id, client.now_ms)
    taps.note_other(by_hand.id, "GET", b"/v1/<models>?key=AIza", 404, client.now_ms)
    page = await client.page()
    assert "1 other request</summary>" in page
    assert "GET /v1/&lt;models&gt;?key=***</code> <small>404" in page
    assert "Its body could not be read" not in page
    taps.note_other(by_hand.id, "POST", b"/v1/messages", 400, client.now_ms, unread=True)
    assert "Its body could not be read" in await client.page()

    output = await client.post(f"/taps/{claude.id}/revoke", {"x": ""}, PAGE)
    assert (output.status, output.header("location")) == (303, "/agents")
    page = await client.page()
    assert "1 revoked tap</summary>" in page
    assert f'action="/taps/{claude.id}/revoke"' not in page
    assert f'action="/taps/{by_hand.id}/revoke"' in page


async def test_a_tap_of_an_earlier_start_is_not_called_silent(tmp_path: Path) -> None:
    """What came then is not remembered."""
    async with run_engine(tmp_path) as engine:
        await Clocked(engine).site.taps.create(agent="codex")
    async with run_engine(tmp_path) as engine:
        client = Clocked(engine)
        client.now_ms += 10 * SILENT_MS
        page = await client.page()
        assert "No request yet. Claude" not in page
        assert "none since the playground was started" in page


async def test_a_tap_lists_the_newest_of_its_sessions(engine: Engine) -> None:
    client = Clocked(engine)
    tap, _ = await client.site.taps.create(agent="claude")
    ended, _ = await client.site.taps.create(agent="codex")
    settings = await settings_from(engine, {})
    ids = []
    for number in range(MOST_SESSIONS + 1):
        client.now_ms += 1
        title = f"Session <{number}>"
        ids.append(await engine.sessions.create(settings, title, Tapped(tap.id, "claude")))
    last = await engine.sessions.create(settings, "Ended", Tapped(ended.id, "codex"))
    await client.site.taps.revoke(ended.id)
    page = await client.page()
    assert re.findall(r'<a href="/sessions/(\w+)">', page) == [*reversed(ids[1:]), last]
    assert "Session &lt;10&gt;" in page
    assert "The newest 10 are listed" in page


async def test_only_an_agents_own_sessions_are_its_taps(engine: Engine) -> None:
    """A fork is ours, an import somebody else's; what is deleted comes back with its tap."""
    client = Clocked(engine)
    tap, _ = await client.site.taps.create()
    settings = await settings_from(engine, {})
    session_id = await engine.sessions.create(settings, "Tapped", Tapped(tap.id))
    await fork(engine, session_id, ForkPlace())
    text = (await client.get(f"/sessions/{session_id}/export?as=jsonl", PAGE)).body
    await import_session(engine, text)

    async def list_titles() -> list[str]:
        results = re.findall(r'<a href="/sessions/(\w+)">', await client.page())
        assert await engine.log.tapped_sessions(tap.id, 5) == results
        return results

    assert await list_titles() == [session_id]
    assert (await client.post(f"/sessions/{session_id}/delete", {})).status == 200
    assert await list_titles() == []
    assert (await client.post(f"/sessions/{session_id}/restore", {})).status == 200
    assert await list_titles() == [session_id]
    await engine.database.write([Statement("UPDATE sessions SET tap = ''", [()])])
    assert await list_titles() == []
    says: list[str] = []
    await verify(engine.database, lambda difference: says.append(difference.says), mending=True)
    assert says == [f'the list has tap "", but the log has "{tap.id}"'] * 2  # the import, too
    assert await list_titles() == [session_id]


async def test_the_list_is_sent_again_where_it_has_changed(engine: Engine) -> None:
    client = Clocked(engine)
    tap, _ = await client.site.taps.create(agent="claude")

    async def address() -> str:
        (address,) = re.findall(r'hx-get="(/agents/taps\?version=\w+)"', await client.page())
        return str(address)

    here = await address()
    client.now_ms += 1000
    assert (await client.get(here)).status == 204
    client.site.taps.note(tap.id, client.now_ms)
    changed = await client.get(here)
    assert (changed.status, b'id="taps"' in changed.body) == (200, True)
    assert (await address()).encode() in changed.body
    here = await address()
    await client.site.taps.revoke(tap.id)
    assert (await client.get(here)).status == 200


async def test_a_ready_provider_stands_first(start_engine: StartEngine) -> None:
    engine = await start_engine(environment={"GROQ_API_KEY": "gsk-canary-10c0ffee"})
    client = Clocked(engine)
    await engine.save_profile(replace(engine.profile("vllm"), name="mine"))
    page = await client.page()
    groups = re.findall(r'<optgroup label="([^"]+)">', page)
    assert groups[:2] == ["Ready", "With the agent&#39;s own key or login"]
    first = page[page.index('<optgroup label="Ready">') :].partition("</optgroup>")[0]
    assert '<option value="groq">Groq</option>' in first, "said once"
    assert '<option value="mine"' in page
    assert "gsk-canary" not in page
