"""The Code tab over a real server: as data, as a fragment, as a page without script, as a file."""

from __future__ import annotations

import ast
import json

import httpx
import pytest

from playground.engine.preview import WIRES
from tests.markup import joined_tags
from tests.servers import RunningServer, wait_for_session

pytestmark = pytest.mark.anyio

LATER = "planted-value-0123456789"
"""Typed before it was known to be a key."""


async def test_a_request_as_code(script: httpx.AsyncClient, server: RunningServer) -> None:
    response = await script.post("/sessions", json={"tools": ["calculator"]})
    path = f"/sessions/{response.json()['id']}"

    # Nothing was sent yet: the next request is shown.
    ahead = (await script.get(path + "/code")).json()
    assert (ahead["turn"], ahead["protocol"]) == (0, "anthropic")
    assert "/sim/anthropic/v1/messages" in ahead["curl"]

    await script.post(path + "/prompts", json={"text": f"It's </pre><b>&amp; 2+3? {LATER}"})
    await wait_for_session(script, path.rpartition("/")[2])
    first = (await script.get(path + "/code")).json()
    assert first["turn"] == 1
    assert f"curl '{server.url}/sim/anthropic/v1/messages'" in first["curl"]
    sent = (await script.get(path + "/requests/1", headers={"accept": "text/plain"})).text
    assert sent.replace("'", "'\\''") in first["curl"]
    assert "$PLAYGROUND_TOKEN" in first["curl"]
    assert server.token not in json.dumps(first)
    ast.parse(first["python"])
    assert (await script.get(path + "/code?turn=next")).json()["turn"] == 0

    for wire in WIRES:
        other = (await script.get(path + f"/code?turn=1&wire={wire}")).json()
        assert (other["protocol"], other["failed"], other["turn"]) == (wire, None, 1)
        assert f"'{server.url}/sim/" in other["curl"]
        ast.parse(other["python"])

    for query, status in (("turn=7", 404), ("wire=x", 422), ("form=x", 422)):
        answer = await script.get(f"{path}/code?turn=1&{query}")
        assert (answer.status_code, answer.json()["error"][-1]) == (status, ".")

    async with server.page() as page:
        text = (await page.get(f"{path}?tab=code&turn=1&form=python")).text
        assert 'id="code-python" name="form" value="python" checked' in joined_tags(text)
        assert "import anthropic" in text
        assert "</pre><b>" not in text.partition('id="panel-code"')[2]
        htmx = {"hx-request": "true"}
        drawn = await page.get(f"{path}/code?wire=gemini", headers=htmx)
        assert drawn.text.startswith('<hx-partial hx-target="#code"')
        assert "from google import genai" in drawn.text
        file = await page.get(f"{path}/code?form=curl&file=1")
        assert file.text == first["curl"]
        assert 'filename="request.sh"' in file.headers["content-disposition"]
        assert 'id="code"' in (await page.get(path)).text

    plain_response = await script.get(f"{path}/code?form=curl&file=1", headers={"accept": "*/*"})
    assert plain_response.text == first["curl"]
    await script.post("/keys", json={"name": "OPENAI_API_KEY", "value": LATER})
    for turn in ("1", "next"):
        after = (await script.get(f"{path}/code?turn={turn}")).text
        assert LATER not in after
        assert "*" * len(LATER) in after
