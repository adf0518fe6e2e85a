"""What must stay unknown stays so: the tap's secret, and every key that an agent sends.

An agent sends a key of its own in each place where there may be one, towards an upstream that is
not the vendor's and whose answers say these keys all the same. Then requests are refused, and one
fails here. What the agent's command line says is in
tests/commands/test_tap.py.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from playground.core.settings import Profile
from playground.tap.door import HEADER, Upstreams
from tests.tap.relaying import TOKEN, Headers, Place, ask, placed
from tests.tap.test_taps import bytes_beside

pytestmark = pytest.mark.anyio

KEYS = {
    b"authorization": "planted-bearer-7f3a91c2d4",
    b"x-api-key": "planted-x-api-key-7f3a91c2d4",
    b"api-key": "planted-api-key-7f3a91c2d4",
    b"x-goog-api-key": "planted-goog-7f3a91c2d4",
    b"cookie": "planted-cookie-7f3a91c2d4",
    b"proxy-authorization": "planted-proxy-7f3a91c2d4",
}
IN_QUERY = "planted-query+7f3a91c2d4/x"
SCHEMES = {b"authorization": "Bearer ", b"proxy-authorization": "Basic ", b"cookie": "login="}
EXPORTS = ("jsonl", "html", "markdown")
TOOL = {"type": "function", "function": {"name": "note", "parameters": {"type": "object"}}}


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with placed(tmp_path) as place:
        raw = f"http://127.0.0.1:{place.provider.port}"
        await place.engine.save_profile(Profile("raw-gemini", "gemini", raw))
        yield place


def echo(key: str) -> bytes:
    """A stream in Chat's form, which says `key` in its headers, a text and a call."""
    half = len(key) // 2
    call = {"index": 0, "id": "call_1", "function": {"name": "note", "arguments": ""}}
    arguments = {"index": 0, "function": {"arguments": json.dumps({"text": key})}}
    deltas = [
        {"content": f"I got {key[:half]}"},
        {"content": f"{key[half:]}, I think."},
        {"tool_calls": [call]},
        {"tool_calls": [arguments]},
    ]
    chunks = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    chunks.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    frames = [
        b"data: %s\n\n" % json.dumps({"id": "c", "model": "m", "choices": [chunk]}).encode()
        for chunk in chunks
    ]
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-request-id: {key}\r\n"
    return head.encode() + b"connection: close\r\n\r\n" + b"".join(frames) + b"data: [DONE]\n\n"


def failure(key: str) -> bytes:
    """An error that says `key`, as vendors do."""
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {key}."}}).encode()
    head = b"HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\ncontent-length: %d"
    return head % len(body) + b"\r\n\r\n" + body


async def traffic(place: Place, secret: str) -> None:
    """All keys are sent where the upstream answers and where it fails, with the secret in the
    header and in the path; bodies say the keys, too."""
    keys = " ".join(KEYS.values())
    sent: Headers = [
        *((name, (SCHEMES.get(name, "") + key).encode()) for name, key in KEYS.items()),
        (b"content-type", b"application/json"),
    ]
    for nth, says in enumerate((echo(keys), failure(keys))):
        place.provider.says(says)
        message = {"role": "user", "content": f"Case {nth}: are these {keys}?"}
        body = {"model": "m", "stream": True, "messages": [message], "tools": [TOOL]}
        target, door = b"/tap/openai/v1/chat/completions", [(HEADER, secret.encode())]
        if nth:
            target, door = b"/tap/" + secret.encode() + b"/openai/v1/chat/completions", []
        data = json.dumps(body).encode()
        got = await ask(place.port, "POST", target, [*sent, *door], data)
        assert (got.status, got.body) == (401 if nth else 200, says.partition(b"\r\n\r\n")[2])
        await arrived_without_keys(place)


async def with_key_in_query(place: Place) -> None:
    _, secret = await place.taps.create("raw-gemini")
    path = b"/v1beta/models/m:generateContent?alt=json&key=" + quote(IN_QUERY, safe="").encode()
    body = json.dumps({"contents": [{"role": "user", "parts": [{"text": IN_QUERY}]}]}).encode()
    place.provider.says(failure(IN_QUERY))
    target = b"/tap/" + secret.encode() + b"/gemini" + path
    kind = (b"content-type", b"application/json")
    assert (await ask(place.port, "POST", target, [kind], body)).status == 401
    await arrived_without_keys(place)
    await ask(place.port, "GET", target.replace(b":generateContent", b""))
    await arrived_without_keys(place)


async def arrived_without_keys(place: Place) -> None:
    """What upstream got besides the body, which is the agent's word."""
    assert place.provider.heads
    for head in place.provider.heads:
        assert b"planted" not in head
        assert HEADER not in head.lower()


async def page_texts(place: Place) -> dict[str, str]:
    """All that is shown of the sessions and the taps, by its address."""
    texts: dict[str, str] = {}
    own = {"authorization": f"Bearer {TOKEN}"}
    url = f"http://127.0.0.1:{place.port}"
    async with httpx.AsyncClient(base_url=url, headers=own, trust_env=False, timeout=30) as client:

        async def get(path: str, accept: str) -> str:
            answer = await client.get(path, headers={"accept": accept})
            assert answer.status_code == 200, path
            texts[f"{path} {accept}"] = answer.text + repr(answer.headers)
            return answer.text

        await get("/agents", "text/html")
        await get("/taps", "application/json")
        sessions = json.loads(await get("/sessions", "application/json"))
        assert len(sessions) == 3
        for session in sessions:
            here = f"/sessions/{session['id']}"
            for accept in ("text/html", "application/json"):
                await get(here, accept)
            await get(f"{here}/events", "application/json")
            for name in EXPORTS:
                await get(f"{here}/export?as={name}", "*/*")
    return texts


async def test_no_key_and_no_secret_is_kept_or_shown(
    place: Place,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.INFO)
    tap, secret = await place.taps.create("raw")
    await traffic(place, secret)
    await with_key_in_query(place)

    name, key = b"x-api-key", b"planted-refused-7f3a91c2d4"
    bad_target = b"/tap/planted-wrong-secret-7f3a91c2d4/openai/v1/models?key=" + key
    assert (await ask(place.port, "GET", bad_target, [(name, key)])).status == 401
    real = b"/tap/" + secret.encode() + b"/openai/v1/models?key=" + key
    page = (b"origin", b"https://elsewhere.example")
    assert (await ask(place.port, "GET", real, [(name, key), page])).status == 403
    with monkeypatch.context() as broken:

        def find(*record: object) -> None:
            raise ValueError(f"a bug with {record}")

        broken.setattr(Upstreams, "find", find)
        assert (await ask(place.port, "GET", real, [(name, key)])).status == 500

    result = await page_texts(place)
    result["log"] = "".join(record.getMessage() for record in caplog.records)
    result["terminal"] = "".join(capfd.readouterr())
    assert "ValueError" in result["log"]
    result["database"] = bytes_beside(tmp_path / "a.db").decode("latin-1")
    assert tap.id in result["database"]
    secrets = {secret, *KEYS.values(), IN_QUERY, quote(IN_QUERY, safe=""), key.decode()}
    secrets |= {"planted-wrong-secret-7f3a91c2d4"}
    where = {(word, place) for place, text in result.items() for word in secrets if word in text}
    assert not where
