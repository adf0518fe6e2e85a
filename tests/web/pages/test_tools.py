"""The tool editor as a plain form: what a model writes for a tool, and what comes back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from app.core.tools import FREEFORM
from tests.served import Served, served

pytestmark = pytest.mark.anyio

FORM = {"original": "", "name": "write", "answered_by": "mock", "result": "ok", "timeout_s": "30"}


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("tools") / "a.db", PLAYGROUND_PACE="0") as running:
        yield running


@pytest.fixture
async def page(one: Served) -> AsyncIterator[httpx.AsyncClient]:
    """A browser without script: the cookie, and forms."""
    async with httpx.AsyncClient(base_url=one.url, trust_env=False) as made:
        await made.get(f"/?token={one.token}", follow_redirects=True)
        made.headers.update({"origin": one.url, "accept": "text/html"})
        yield made


@pytest.mark.parametrize(
    ("typed", "format", "parameters"),
    [
        ({"takes": "json", "parameters": '{"type": "object"}'}, None, {"type": "object"}),
        ({"parameters": '{"type": "object"}', "eager": "on"}, None, {"type": "object"}),
        ({"takes": "text", "parameters": "{"}, {"type": "text"}, dict(FREEFORM)),
        (
            {"takes": "lark", "definition": 'start: "a"'},
            {"type": "grammar", "syntax": "lark", "definition": 'start: "a"'},
            dict(FREEFORM),
        ),
    ],
)
async def test_what_a_tool_takes_is_kept(
    page: httpx.AsyncClient, typed: dict[str, str], format: Any, parameters: Any
) -> None:
    saved = await page.post("/tools", data={**FORM, **typed, "original": "write"})
    assert saved.status_code == 303, saved.text
    tool = (await page.get("/tools/write", headers={"accept": "application/json"})).json()
    assert (tool["format"], tool["parameters"]) == (format, parameters)
    assert tool["eager"] == ("eager" in typed)
    shown = (await page.get("/tools/write")).text
    takes = (format or {}).get("syntax", "text") if format else "json"
    assert f'value="{takes}" checked' in shown


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"takes": "regex", "definition": " "}, "Write the grammar"),
        ({"takes": "prose", "definition": "x"}, "format is"),
        ({"takes": "json", "parameters": "{"}, "parameters-error"),
    ],
)
async def test_what_cannot_be_is_said_and_nothing_typed_is_lost(
    page: httpx.AsyncClient, typed: dict[str, str], said: str
) -> None:
    refused = await page.post("/tools", data={**FORM, **typed, "name": "other"})
    assert refused.status_code == 422
    assert said in refused.text
    assert 'value="other"' in refused.text
