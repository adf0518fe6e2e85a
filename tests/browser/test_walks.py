"""Four walks from the open page to what somebody came for, each click counted.

`python bench/walks.py` prints the clicks. Nothing waits for a time, only for what is to be seen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.executors.mcp_servers import by_stdio

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("patient_mcp")]

BROKEN_TURN, TURNS = 38, 60
RUN = {"tool": "get_weather", "action": "run"}


class Walk:
    """A page that is walked by clicks alone, but for what is pasted."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page, self.server, self.clicks = page, server, 0

    def click(self, target: Locator) -> None:
        target.click()
        self.clicks += 1

    def button(self, name: str | re.Pattern[str]) -> None:
        self.click(self.page.get_by_role("button", name=name).first)

    def link(self, name: str | re.Pattern[str]) -> None:
        self.click(self.page.get_by_role("link", name=name).first)


def first_finished_call(walk: Walk, _: Path) -> None:
    """From the first page to a call that is done."""
    walk.page.goto(walk.server.base + "/welcome")
    walk.button("Two calls at once")
    walk.click(walk.page.locator(".card.asks").first.get_by_role("button", name="Run").first)
    expect(walk.page.locator('.card[data-status="done"]').first).to_contain_text("391")


def pasted_server(walk: Walk, _: Path) -> None:
    """From the first page to the result of a tool of a server in a pasted mcp.json."""
    stub = by_stdio("fine")
    pasted = {"mcpServers": {"stub": {"command": stub.command, "args": list(stub.args)}}}
    walk.page.goto(walk.server.base + "/welcome")
    walk.link("MCP servers")
    walk.link("Import an mcp.json")
    walk.page.locator("[name=text]").fill(json.dumps(pasted))
    walk.button("See what is in it")
    walk.button("Import selected")
    walk.click(walk.page.locator("#main .done a").first)
    walk.button("Accept and let it be started")
    walk.button("List tools")
    walk.button("Add selected tools")
    walk.link("add in the library")
    walk.button("Run it")
    expect(walk.page.locator("#try-result [role=status]")).to_have_text("ok")


def long_session(server: Server) -> str:
    """A session of 60 turns, one of which the provider refused."""
    session_id = server.session(
        title="Sixty turns",
        tools=["get_weather"],
        rules=[RUN],
        max_retries=0,
        max_turns=BROKEN_TURN - 1,
        max_repeats=0,
    )

    def ask(text: str, state: str) -> None:
        server.post(f"/sessions/{session_id}/prompts", {"text": text})
        server.comes_to(session_id, state)

    ask("What is the weather in Rome? [[fault:loop]]", "paused")
    ask("Say hello [[fault:http-500]]", "failed")
    server.post(f"/sessions/{session_id}/settings", {"max_turns": TURNS - BROKEN_TURN})
    ask("What is the weather in Oslo? [[fault:loop]]", "paused")
    assert server.folded(session_id)["turns"] == TURNS
    return session_id


def broken_request(walk: Walk, _: Path) -> None:
    """From the first page to the answer that broke among sixty."""
    long_session(walk.server)
    walk.page.goto(walk.server.base + "/welcome")
    walk.link(re.compile("Sixty turns"))
    walk.click(walk.page.get_by_role("tab", name="Wire"))
    walk.click(walk.page.locator("#wiretools > summary"))
    walk.page.locator("#wireq").fill("error")
    walk.click(walk.page.locator(".wirefind button"))
    found = walk.page.locator("#raw li a").first
    expect(found).to_contain_text(f"request {BROKEN_TURN}")
    walk.click(found)
    expect(walk.page.locator("#raw")).to_contain_text("The server had an error")


def shared_file(walk: Walk, folder: Path) -> None:
    """From the first page to a file that a teammate opens from disk."""
    session_id = walk.server.session("What is 17*23?", title="For Maria")
    walk.server.comes_to(session_id, "waiting")
    walk.page.goto(walk.server.base + "/welcome")
    walk.link(re.compile("For Maria"))
    walk.link("Share")
    with walk.page.expect_download() as coming:
        walk.link("Download")
    file = folder / "for-maria.html"
    coming.value.save_as(file)
    theirs = walk.page.context.new_page()
    theirs.goto(file.as_uri())
    expect(theirs.locator("#head h1")).to_have_text("For Maria")
    expect(theirs.locator(".card")).to_have_count(1)


WALKS: dict[str, tuple[Callable[[Walk, Path], None], int]] = {
    "first finished call": (first_finished_call, 2),
    "paste an mcp.json and call one of its tools": (pasted_server, 10),
    "find the request that broke among 60": (broken_request, 5),
    "hand a teammate a file": (shared_file, 3),
}
"""By name: the walk, and the most clicks that it takes."""


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_takes_no_more_clicks(
    name: str, server: Server, new_tab: NewTab, tmp_path: Path
) -> None:
    walk, most = WALKS[name]
    tab = new_tab(server, own=True).login()
    tab.leaves = True
    walked = Walk(tab.page, server)
    walk(walked, tmp_path)
    assert walked.clicks <= most


def test_a_hint_that_was_read_is_gone_for_good(server: Server, new_tab: NewTab) -> None:
    tab = new_tab(server, own=True).login()
    tab.goto("/welcome")
    hints = tab.find("#hints")
    for number in (1, 2, 3):
        expect(hints.locator("small")).to_have_text(f"{number} of 3")
        expect(hints.locator("p:visible")).to_have_count(1)
        hints.get_by_role("button", name="Got it").click()
    expect(hints).not_to_be_visible()
    tab.open(server.session())
    expect(tab.find(".feet")).to_be_visible()
    expect(hints).not_to_be_visible()
