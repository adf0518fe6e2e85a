"""Walks from the open page to what somebody came for, and each demo to its end, each click counted.

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
    walk.page.goto(walk.server.url + "/welcome")
    walk.button("Two calls at once")
    walk.click(walk.page.locator(".card.asks").first.get_by_role("button", name="Run").first)
    expect(walk.page.locator('.card[data-status="done"]').first).to_contain_text("391")


def pasted_server(walk: Walk, _: Path) -> None:
    """From the first page to the result of a tool of a server in a pasted mcp.json."""
    stub = by_stdio("fine")
    pasted = {"mcpServers": {"stub": {"command": stub.command, "args": list(stub.args)}}}
    walk.page.goto(walk.server.url + "/welcome")
    walk.link("MCP servers")
    walk.link("Import an mcp.json")
    walk.page.locator("[name=text]").fill(json.dumps(pasted))
    walk.button("Preview")
    walk.button("Import selected")
    walk.click(walk.page.locator("#main .done a").first)
    walk.button("Accept and start")
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
    assert server.get_session(session_id)["turns"] == TURNS
    return session_id


def broken_request(walk: Walk, _: Path) -> None:
    """From the first page to the answer that broke among sixty."""
    long_session(walk.server)
    walk.page.goto(walk.server.url + "/welcome")
    walk.link(re.compile("Sixty turns"))
    walk.click(walk.page.get_by_role("tab", name="Wire"))
    walk.click(walk.page.locator("#wiretools > summary"))
    walk.page.locator("#wireq").fill("error")
    walk.click(walk.page.locator(".wirefind button"))
    element = walk.page.locator("#raw li a").first
    expect(element).to_contain_text(f"request {BROKEN_TURN}")
    walk.click(element)
    expect(walk.page.locator("#raw")).to_contain_text("The server had an error")


def shared_file(walk: Walk, folder: Path) -> None:
    """From the first page to a file that a teammate opens from disk."""
    session_id = walk.server.session("What is 17*23?", title="For Maria")
    walk.server.comes_to(session_id, "waiting")
    walk.page.goto(walk.server.url + "/welcome")
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


def to_the_end(walk: Walk) -> None:
    """The run is over, and the model has answered; no call is left to be decided."""
    expect(walk.page.locator("#head")).to_have_attribute("data-state", "idle")
    expect(walk.page.locator(".card.asks")).to_have_count(0)


def start_demo(walk: Walk, title: str) -> None:
    """A demo, from the first page to its first card."""
    walk.page.goto(walk.server.url + "/welcome")
    walk.click(walk.page.locator(".demo", has_text=title).first)
    expect(walk.page.locator(".card.asks").first).to_be_visible()


def run_next(walk: Walk, name: str, label: str = "Run") -> None:
    """Run the call of this tool, when it asks."""
    asks = walk.page.locator(".card.asks", has=walk.page.locator("h3", has_text=name))
    walk.click(asks.get_by_role("button", name=re.compile(f"^{label}")).first)


def answer_next(walk: Walk, name: str, words: str) -> None:
    """Answer the call of this tool by hand, when it asks."""
    card = walk.page.locator(".card.asks", has=walk.page.locator("h3", has_text=name))
    walk.click(card.locator("[data-key=h]"))
    card.locator("textarea[name=text]").fill(words)
    walk.click(card.locator(".act[open] button.primary"))


def two_calls(walk: Walk, _: Path) -> None:
    """One call run, the other answered by hand."""
    start_demo(walk, "Two calls at once")
    run_next(walk, "calculator")
    answer_next(walk, "get_weather", "Fog, 3 degrees")
    to_the_end(walk)
    expect(walk.page.locator(".turn").last).to_contain_text("391")
    expect(walk.page.locator(".turn").last).to_contain_text("Fog")


def wrong_types(walk: Walk, _: Path) -> None:
    """Arguments that do not fit, made to fit."""
    start_demo(walk, "Arguments that do not fit")
    walk.button(re.compile("fix: "))
    walk.click(walk.page.get_by_role("button", name="Run edited"))
    to_the_end(walk)
    expect(walk.page.locator(".card[data-status=done]")).to_contain_text("12345")


def schema_mistake(walk: Walk, _: Path) -> None:
    """A tool that no call satisfies, mended and tried."""
    walk.page.goto(walk.server.url + "/welcome")
    walk.link(re.compile("A schema mistake"))
    page = walk.page
    expect(page.locator("#main")).to_contain_text("No call can be valid")
    schema = page.locator(".cm-content").first
    text = schema.inner_text()
    schema.fill(text.replace('"time"', '"when"').replace('["2", "4", "6"]', "[2, 4, 6]"))
    expect(page.locator("#main")).not_to_contain_text("No call can be valid")
    expect(page.locator("#main")).not_to_contain_text("has no value of the type")
    walk.button("Sample")
    expect(page.locator("#try")).not_to_contain_text("other members")
    walk.button("Run it")
    expect(page.locator("#try-result [role=status]")).to_have_text("ok")


def five_protocols(walk: Walk, _: Path) -> None:
    """Same request for each protocol, then the run to its end."""
    start_demo(walk, "One request on five protocols")
    for title in ("Anthropic", "OpenAI Chat", "Responses", "Gemini", "Ollama"):
        walk.click(walk.page.locator("#panel-request label", has_text=title).first)
    run_next(walk, "calculator")
    run_next(walk, "get_weather")
    to_the_end(walk)


def edited_file(walk: Walk, _: Path) -> None:
    """A file read, edited, looked at, and as it was again."""
    start_demo(walk, "An agent edits a file")
    run_next(walk, "read_file")
    run_next(walk, "edit_file")
    to_the_end(walk)
    walk.click(walk.page.locator("#more > summary"))
    walk.click(walk.page.locator("#more a", has_text="Files"))
    walk.button(re.compile("Undo"))
    expect(walk.page.locator("main")).to_contain_text("undone")


def behind_a_tap(walk: Walk, _: Path) -> None:
    """Somebody else's agent, let run at each of its calls."""
    start_demo(walk, "An external agent")
    run_next(walk, "read_file", "Let it run")
    run_next(walk, "edit_file", "Let it run")
    to_the_end(walk)


def slow_tool(walk: Walk, _: Path) -> None:
    """A tool that takes its time, cancelled by a click."""
    start_demo(walk, "A slow tool")
    run_next(walk, "slow_report")
    walk.click(walk.page.locator(".card").get_by_role("button", name=re.compile("Cancel")).first)
    to_the_end(walk)


def failing_tool(walk: Walk, _: Path) -> None:
    """A tool that raises an error, and the model that goes on."""
    start_demo(walk, "A tool that fails")
    run_next(walk, "flaky_lookup")
    expect(walk.page.locator(".card")).to_have_count(2)  # the model tries it once more
    run_next(walk, "flaky_lookup")
    to_the_end(walk)
    expect(walk.page.locator(".card .pill.failed")).to_have_count(2)


def colleague(walk: Walk, _: Path) -> None:
    """One call that only you can answer, next to one that runs."""
    start_demo(walk, "You are the tool")
    answer_next(walk, "ask_colleague", "Yes, ship it.")
    run_next(walk, "get_weather")
    to_the_end(walk)
    expect(walk.page.locator(".turn").last).to_contain_text("ship it")


WALKS: dict[str, tuple[Callable[[Walk, Path], None], int]] = {
    "first finished call": (first_finished_call, 2),
    "paste an mcp.json and call one of its tools": (pasted_server, 10),
    "find the request that broke among 60": (broken_request, 5),
    "hand a teammate a file": (shared_file, 3),
    "demo: two calls at once": (two_calls, 4),
    "demo: arguments that do not fit": (wrong_types, 3),
    "demo: a schema mistake": (schema_mistake, 3),
    "demo: one request on five protocols": (five_protocols, 8),
    "demo: an agent edits a file": (edited_file, 6),
    "demo: somebody else's agent": (behind_a_tap, 3),
    "demo: a slow tool": (slow_tool, 3),
    "demo: a tool that fails": (failing_tool, 3),
    "demo: you are the tool": (colleague, 4),
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
