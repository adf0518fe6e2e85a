"""The page of providers: told without a key's value, asked for one at a time, changed by forms."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import pytest
from starlette.types import ASGIApp, Message

from playground.core.providers import PROVIDERS, SIMULATORS
from playground.engine.engine import Engine
from playground.web.app import make_app
from tests.engines import StartEngine, run_engine
from tests.net.test_client import serving
from tests.servers import wait_for_session
from tests.web.asking import BEARER, HERE, JSON, PAGE, PORT, TOKEN, Told, call, scope_of

pytestmark = pytest.mark.anyio

KEY = "sk-canary-1f0c9a72b65d43e8"
ENVIRONMENT = {"GOOGLE_API_KEY": KEY, "GROQ_API_KEY": KEY + "-groq"}
LIST = b'{"data": [{"id": "one <b>", "context_length": 4096}]}'
FORM = ("content-type", "application/x-www-form-urlencoded")

TYPED = {
    "name": "mine",
    "protocol": "openai_chat",
    "base_url": "https://llm.example/v1",
    "key_name": "MY_KEY",
    "model": "m",
    "headers": "x-title: my: program\n\n",
    "quirks": "openai_chat:short_ids",
    "connect_s": "10",
    "first_byte_s": "60",
    "idle_s": "60",
}

WRONG: tuple[tuple[dict[str, str], str], ...] = (
    ({"name": "openai"}, "There is a profile"),
    ({"base_url": "ftp://x"}, "Invalid URL"),
    ({"name": "", "base_url": ""}, "Enter the base URL"),
    ({"headers": "no colon"}, "one header per line"),
    ({"headers": "Authorization: x"}, "looks like a key"),
    ({"idle_s": "long"}, "not a number of seconds"),
    ({"idle_s": "nan"}, "seconds from"),
    ({"protocol": "smtp"}, "protocol must be one of"),
    ({"base_url": f"https://llm.example/{KEY}"}, "value of a key"),
)


class Asked:
    """The app around an engine; a body stays open behind its last byte, as under a server."""

    def __init__(self, engine: Engine) -> None:
        self.app: ASGIApp = make_app(engine, token=TOKEN, port=lambda: PORT, simulator=_nothing)[0]

    async def get(self, path: str, *headers: Any) -> Told:
        head = [("host", HERE), BEARER, *headers]
        return await call(self.app, scope_of("GET", path, head))

    async def post(self, path: str, body: Any = None, *headers: Any, stays: bool = True) -> Told:
        raw = json.dumps(body or {}).encode()
        kind: Any = ("content-type", "application/json")
        if isinstance(body, Mapping) and PAGE in headers:
            raw, kind = urlencode(body, doseq=True).encode(), FORM
        all_headers = [("host", HERE), BEARER, kind, ("content-length", str(len(raw))), *headers]
        pieces: list[Message] = [{"type": "http.request", "body": raw, "more_body": False}]
        sent: list[Message] = []

        async def receive() -> Message:
            if pieces:
                return pieces.pop(0)
            if stays:
                await asyncio.Event().wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)

        async with asyncio.timeout(20):
            await self.app(scope_of("POST", path, all_headers), receive, send)
        headers_of = [(n.decode().lower(), v.decode()) for n, v in sent[0]["headers"]]
        body_of = b"".join(data.get("body", b"") for data in sent[1:])
        return Told(sent[0]["status"], headers_of, body_of)


async def _nothing(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("The simulator of the app was reached.")


def provider(body: bytes, status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


async def test_the_list_names_every_profile_and_no_key(start_engine: StartEngine) -> None:
    engine = await start_engine(environment=ENVIRONMENT)
    client = Asked(engine)
    listed = json.loads((await client.get("/providers", JSON)).body)
    rows = {row["name"]: row for row in listed}
    assert list(rows) == [vendor.profile.name for vendor in PROVIDERS]
    gemini, azure = rows["gemini"], rows["azure"]
    assert (gemini["state"], gemini["key_name"]) == ("ready", "GEMINI_API_KEY")
    assert (gemini["key_found"], gemini["key_from"]) == ("GOOGLE_API_KEY", "environment")
    assert (azure["state"], azure["key_found"]) == ("address", "")
    assert rows["anthropic"]["missing"].startswith("ANTHROPIC_API_KEY is not set")
    assert rows["mistral"]["quirks"]["short_ids"]
    assert rows["ollama"]["local"]
    assert json.loads((await client.get("/providers/groq", JSON)).body) == rows["groq"]
    page = await client.get("/providers", PAGE)
    for row in listed:
        assert f'id="provider-{row["name"]}"'.encode() in page.body
        assert all(reason in page.body.decode() for reason in row["quirks"])
    assert b"GOOGLE_API_KEY</span> found in the environment" in page.body
    assert KEY.encode() not in page.body + json.dumps(listed).encode()
    for path in ("/providers?new=1", "/providers/openai", "/providers/vllm"):
        assert (await client.get(path, PAGE)).status == 200
    assert (await client.get("/providers/simulator", PAGE)).status == 422
    assert (await client.get("/providers/nobody", JSON)).status == 404


async def test_the_simulator_is_tested_and_listed_in_all_three_ways(engine: Engine) -> None:
    client = Asked(engine)
    for vendor in SIMULATORS:
        here = f"/providers/{vendor.profile.name}"
        tested = json.loads((await client.post(here + "/test")).body)
        assert (tested["ok"], tested["status"]) == (True, 200), tested
        assert tested["first_ms"] <= tested["total_ms"]
        listed = json.loads((await client.post(here + "/models")).body)
        assert listed["ok"], listed
        assert listed["models"]
    fragment = await client.post("/providers/simulator/test", None, ("hx-request", "true"))
    assert fragment.body.startswith(b'<div class="answer">')
    response = await client.post("/providers/simulator-openai/models", {}, PAGE)
    assert b"<main" in response.body
    assert b"gpt-simulated-1" in response.body
    assert await engine.log.summaries() == []


async def test_a_key_goes_nowhere_before_a_person_says_so(tmp_path: Path) -> None:
    async with (
        serving(provider(LIST)) as server,
        run_engine(tmp_path, environment=ENVIRONMENT) as engine,
    ):
        client = Asked(engine)
        body = {"name": "groq", "protocol": "openai_chat", "base_url": server.url + "/v1"}
        body |= {"key_name": "GROQ_API_KEY"}
        assert (await client.post("/providers", body)).status == 201
        for action in ("test", "models"):
            output = json.loads((await client.post(f"/providers/groq/{action}")).body)
            assert not output["ok"]
            assert "not confirmed" in output["sentence"]
        assert server.seen == []
        page = (await client.get("/providers", PAGE)).body.decode()
        assert f"Send GROQ_API_KEY to {server.url}</button>" in page
        await client.post("/keys", {"name": "GROQ_API_KEY", "base_url": server.url})
        output = json.loads((await client.post("/providers/groq/models")).body)
        assert [model["id"] for model in output["models"]] == ["one <b>"]
        [request] = server.seen
        assert f"Bearer {KEY}-groq".encode() in request
        answer = await client.post("/providers/groq/models", {}, PAGE)
        assert b"one &lt;b&gt;" in answer.body
        assert b"one <b>" not in answer.body


async def test_an_echoed_key_is_masked(tmp_path: Path) -> None:
    error = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}-groq"}}).encode()
    async with (
        serving(provider(error, "401 Unauthorized")) as server,
        run_engine(tmp_path, environment=ENVIRONMENT) as engine,
    ):
        client = Asked(engine)
        body = {"name": "x", "protocol": "openai_chat", "base_url": server.url, "model": "m"}
        await client.post("/providers", {**body, "key_name": "GROQ_API_KEY"})
        await engine.confirm("GROQ_API_KEY", server.url)
        for headers in ((), (PAGE,), (("hx-request", "true"),)):
            output = await client.post("/providers/x/test", {}, *headers)
            assert output.status == 200
            assert b"Incorrect API key provided" in output.body
            assert KEY.encode() not in output.body


async def test_a_test_ends_when_nobody_waits_for_it(tmp_path: Path) -> None:
    gone = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()
        gone.set()

    async with serving(silent) as server, run_engine(tmp_path) as engine:
        client = Asked(engine)
        body = {"name": "slow", "protocol": "ollama", "base_url": server.url, "model": "m"}
        await client.post("/providers", body)
        output = await client.post("/providers/slow/test", {}, stays=False)
        assert output.status == 499
        async with asyncio.timeout(20):
            if server.seen:
                await gone.wait()


async def test_the_editor_adds_changes_renames_and_takes_back(engine: Engine) -> None:
    client = Asked(engine)
    saved = await client.post("/providers", TYPED, PAGE)
    assert saved.header("location") == "/providers?saved=mine#provider-mine"
    mine = engine.profile("mine")
    assert mine.headers == {"x-title": "my: program"}
    assert mine.quirks == ("short_ids",)
    for action in ("/providers/mine", "/providers?new=1"):
        assert (await client.get(action, PAGE)).status == 200
    # Quirks of another protocol are ticked where nobody sees them.
    other = {**TYPED, "original": "mine", "name": "renamed", "protocol": "ollama"}
    assert (await client.post("/providers", other, PAGE)).status == 303
    assert (engine.profile("renamed").quirks, list(engine.own)) == ((), ["renamed"])
    changed = {**TYPED, "original": "openai", "name": "openai"}
    assert (await client.post("/providers", changed, PAGE)).status == 303
    assert engine.profile("openai").base_url == TYPED["base_url"]
    page = (await client.get("/providers/openai", PAGE)).body
    assert b"Reset to default" in page
    # Three fields are enough, and nobody's name is taken twice.
    three = {**TYPED, "name": "", "base_url": "https://llm.example:8443/v1", "quirks": ""}
    for name in ("llm.example:8443", "llm.example:8443-2"):
        output = await client.post("/providers", three, PAGE)
        assert output.header("location") == f"/providers?saved={quote(name)}#provider-{name}"
    for name in ("openai", "renamed", "llm.example:8443", "llm.example:8443-2"):
        assert (await client.post(f"/providers/{name}/delete", {}, PAGE)).status == 303
    assert engine.own == {}
    assert (await client.post("/providers/openai/delete")).status == 404


async def test_what_cannot_be_saved_comes_back_as_it_was_typed(start_engine: StartEngine) -> None:
    engine = await start_engine(environment=ENVIRONMENT)
    client = Asked(engine)
    for typed, words in WRONG:
        output = await client.post("/providers", {**TYPED, "model": "kept & typed", **typed}, PAGE)
        assert output.status == 422
        assert words in output.body.decode(), typed
        assert b"kept &amp; typed" in output.body
        assert KEY.encode() not in output.body
    assert engine.own == {}


async def test_a_new_session_takes_the_profile_and_the_model(engine: Engine) -> None:
    client = Asked(engine)
    for form in ({"profile": "simulator-openai"}, {"profile": "simulator", "model": "x"}):
        output = await client.post("/sessions", form, PAGE)
        session_id = str(output.header("location")).rpartition("/")[2]
        async with engine.sessions.lock_session(session_id) as live:
            settings = live.session.settings
        assert settings is not None
        assert (settings.profile.name, settings.model) == (
            *(form["profile"], form.get("model", "")),
        )
        assert settings.tools


async def test_a_turn_without_a_key_leads_to_its_field(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    result = (await script.post("/sessions", json={"profile": "openai"})).json()["id"]
    await script.post(f"/sessions/{result}/prompts", json={"text": "Hello"})
    assert (await wait_for_session(script, result))["state"] == "failed"
    failed = (await page.get(f"/sessions/{result}")).text
    assert "or add it under Providers." in failed
    assert 'href="/providers#key-openai"' in failed
    assert 'id="key-openai"' in (await page.get("/providers")).text
