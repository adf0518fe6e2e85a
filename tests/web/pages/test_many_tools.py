"""The page of many tools: hints are counted for some before it is drawn, and for all after it."""

from __future__ import annotations

from typing import Any

import pytest

from playground.core.tools import Tool
from playground.protocols.lint import findings
from playground.web.app import make_app
from playground.web.tools import editor
from playground.web.tools.routes import MOST_AT_ONCE
from tests.engines import StartEngine
from tests.web.asking import BEARER, HERE, PAGE, PORT, TOKEN, call, scope_of

pytestmark = pytest.mark.anyio

TOOLS = 150
SHIPPED_MOST = 50
OPEN: Any = {"type": "object", "properties": {"a": {}}}  # a hint: nothing says what it takes


async def silent(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("The simulator was reached.")


async def test_a_page_judges_few_of_many_tools(
    monkeypatch: pytest.MonkeyPatch, start_engine: StartEngine
) -> None:
    looked: list[str] = []

    def count_findings(tool: Tool, *providers: Any) -> Any:
        looked.append(tool.name)
        return findings(tool, *providers)

    monkeypatch.setattr(editor, "findings", count_findings)
    engine = await start_engine()
    for number in range(TOOLS):
        await engine.library.save(Tool(f"tool_{number}", "", OPEN, "mock", {"result": ""}), 1)
    app, site = make_app(engine, token=TOKEN, port=lambda: PORT, simulator=silent)

    async def page(path: str) -> str:
        answer = await call(app, scope_of("GET", path, [("host", HERE), BEARER, PAGE]))
        assert answer.status == 200, answer.body
        return answer.body.decode()

    first = await page("/tools/tool_7")
    assert len(looked) <= MOST_AT_ONCE + 1  # and the one that is open
    assert first.count('href="/tools/tool_') == TOOLS
    assert 'hx-get="/tools?list=tool_7" hx-trigger="load"' in first
    listed = await page("/tools?list=tool_7")
    assert listed.count(" hint") >= TOOLS
    assert "hx-trigger" not in listed
    assert listed.count('aria-current="page"') == 1
    before = len(looked)
    assert before <= TOOLS + SHIPPED_MOST  # each once
    assert "?list=" not in await page("/tools")
    assert len(looked) == before
    site.close()
