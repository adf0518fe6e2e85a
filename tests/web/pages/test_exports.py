"""Tools as files to save."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from playground.exchange.tool_import import import_tools
from tests.servers import RunningServer

pytestmark = pytest.mark.anyio

ODD_GROUP = 'my "group"; é\u202e'
KEY = "sk-ant-late-key-0123456789abcdef"
TOOLS = [
    {"name": "one", "config": {"result": "1"}, "group": ODD_GROUP},
    {"name": "two", "config": {"result": f"it is {KEY}"}, "group": ODD_GROUP},
]


@pytest.fixture
async def script(server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    async with server.client(accept="*/*") as async_client:
        for tool in TOOLS:
            await async_client.post("/tools", json=tool, headers={"accept": "application/json"})
        yield async_client


async def test_a_group_is_saved_under_a_plain_name(script: httpx.AsyncClient) -> None:
    answer = await script.get("/export", params={"format": "own", "group": ODD_GROUP})
    assert answer.status_code == 200
    assert answer.headers["content-disposition"] == 'attachment; filename="my-group.json"'
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert [tool.name for tool in import_tools(answer.text).tools] == ["one", "two"]


async def test_some_by_name_and_all(script: httpx.AsyncClient) -> None:
    answer = await script.get("/export?format=python&name=one&name=one")
    assert answer.headers["content-disposition"] == 'attachment; filename="one.py"'
    assert answer.text.count("def ") == 1
    everything = import_tools((await script.get("/export?format=jsonl")).text).tools
    assert {"one", "two", "calculator"} <= {imported_tool.name for imported_tool in everything}


async def test_a_script_is_told_what_is_lost(script: httpx.AsyncClient) -> None:
    response = await script.get(
        "/export?format=mcp&name=one", headers={"accept": "application/json"}
    )
    assert set(response.json()) == {"file", "text", "notes"}
    assert response.json()["notes"]


@pytest.mark.parametrize(
    ("query", "status"),
    [("format=word", 422), ("name=nobody", 404), ("group=nothing", 422), ("format=", 422)],
)
async def test_what_cannot_be_exported(script: httpx.AsyncClient, query: str, status: int) -> None:
    assert (await script.get(f"/export?{query}")).status_code == status


async def test_a_key_that_became_known_later_is_masked(
    server: RunningServer, script: httpx.AsyncClient
) -> None:
    pasted = await script.post(
        "/keys",
        data={"name": "ANTHROPIC_API_KEY", "value": KEY},
        headers={"accept": "application/json"},
    )
    assert pasted.status_code < 400, pasted.text
    text = (await script.get("/export?name=two")).text
    assert KEY not in text
    assert "***" in text
