"""A tool's key goes where the user let it: by saving the tool, or by switching it on."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.anyio

KEY = "canary-of-the-team"


@pytest.fixture(scope="module")
def server_environment() -> dict[str, str]:
    return {"TEAM_TOKEN": KEY, "OPENAI_API_KEY": KEY}


def tool(name: str, port: int, key: str = "TEAM_TOKEN") -> dict[str, Any]:
    """One that reaches nobody: port 1 to 9 of this machine."""
    headers = {"Authorization": f"Bearer ${{{key}}}"}
    config = {"url": f"http://127.0.0.1:{port}/", "headers": headers, "private": True}
    return {"name": name, "description": "D.", "answered_by": "http", "config": config}


async def tried(script: httpx.AsyncClient, what: Any) -> str:
    response = await script.post("/tools/try", json={"tool": what, "arguments": {}})
    return str(response.text)


async def test_saved_it_goes_there_and_nowhere_else(script: httpx.AsyncClient) -> None:
    assert "it is not confirmed for http://127.0.0.1:1." in await tried(script, tool("a", 1))
    assert (await script.post("/tools", json=tool("a", 1))).status_code == 201
    assert "was not sent" not in await tried(script, "a")
    assert "it is not confirmed for http://127.0.0.1:2." in await tried(script, tool("a", 2))


async def test_a_key_of_a_provider_is_not_let_go_by_a_tool(script: httpx.AsyncClient) -> None:
    response = await script.post("/tools", json=tool("b", 3, "OPENAI_API_KEY"))
    assert response.status_code == 201
    assert "does not belong to http://127.0.0.1:3" in await tried(script, "b")


async def test_switched_on_it_may(script: httpx.AsyncClient) -> None:
    assert (await script.post("/tools", json=tool("c", 4))).status_code == 201
    off = await script.post("/tools/c/switch", json={"enabled": False})
    assert "keys" not in off.json()
    # Saved while it is off, it goes nowhere yet.
    assert (await script.post("/tools", json=tool("c", 5))).status_code == 201
    assert "it is not confirmed" in await tried(script, tool("d", 5))
    on = await script.post("/tools/c/switch", json={"enabled": True})
    assert on.json()["keys"] == ["TEAM_TOKEN may be sent to http://127.0.0.1:5 from now on."]
    assert "was not sent" not in await tried(script, "c")
