"""Arguments that will not fit are told while they stream, marked where they stand, and replayed."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.serving import Server
from tests.browser.tab import Tab

NAMES = ("title", "start", "place", "notes", "room", "host", "guests", "agenda")
EVENT: dict[str, Any] = {
    "name": "add_event",
    "description": "Put one event into the calendar of the user.",
    "parameters": {
        "type": "object",
        "properties": {name: {"type": "string"} for name in NAMES},
        "required": list(NAMES),
    },
    "config": {"result": "{{title}} is in the calendar."},
}
PROMPT = "Add an event tomorrow at noon. [[fault:args-wrong-types]]"
SAID = "/title is 12345, an integer; the schema requires a string."

WATCH = """() => {
  window.doubts = [];
  const look = () => {
    const doubt = document.querySelector(".doubt[data-offset]");
    if (!doubt) return;
    const marked = [...(CSS.highlights.get("doubt") ?? [])].map(String);
    const text = document.querySelector(".card [id^=text-]")?.textContent;
    const {status} = doubt.closest(".card").dataset;
    window.doubts.push({said: doubt.innerText, marked, text, status});
    const {dataset} = document.documentElement;
    if (marked.length && dataset.seen !== marked[0]) dataset.seen = marked[0];
  };
  const changes = {subtree: true, childList: true, characterData: true, attributes: true};
  new MutationObserver(look).observe(document.body, changes);
}"""

SEEN_TWICE = """() => {
  const marked = window.doubts.filter(({marked}) => marked[0] === "12345");
  return new Set(marked.map(({text}) => text.length)).size > 1;
}"""
"""The text goes on while the doubt stands and is marked."""


@pytest.mark.slow
def test_a_doubt_is_told_and_marked_while_the_arguments_stream(
    streaming_server: Server, streaming_tab: Tab, slow_simulator: Event
) -> None:
    tab = streaming_tab
    tab.open(streaming_server.session(tools=[EVENT]))
    tab.page.evaluate(WATCH)
    slow_simulator.set()  # a page on a busy machine sees an answer only now and then
    tab.send(PROMPT)
    tab.page.wait_for_function(SEEN_TWICE)
    slow_simulator.clear()
    tab.waits_for(1)
    doubts = tab.page.evaluate("window.doubts")
    assert {item["status"] for item in doubts} == {"streaming"}
    assert SAID in " ".join(doubts[-1]["said"].split())
    assert "will not match the schema" in doubts[-1]["said"]
    assert doubts[-1]["marked"] == ["12345"]
    # Once all is known, the usual faults take its place, and the mark is gone.
    expect(tab.find(".doubt")).to_have_count(0)
    expect(tab.card(0).locator(".fault", has_text="/title")).to_be_visible()
    assert tab.page.evaluate("CSS.highlights.has('doubt')") is False
    tab.find("#tab-wire").click()
    expect(tab.find(".wirerow", has_text="arguments will not match: /title")).to_have_count(1)


@pytest.mark.slow
def test_several_fixes_are_made_with_one_click(server: Server, tab: Tab) -> None:
    tab.open(server.session(PROMPT, tools=[EVENT])).waits_for(1)
    tab.card(0).locator("[data-do=fix]", has_text="fix all").click()
    tab.card(0).locator("button", has_text="Run edited").click()
    tab.state("idle")
    expect(tab.card(0).locator(".edited")).to_contain_text('"12345"')


@pytest.mark.slow
def test_the_replay_shows_a_doubt_when_it_came(
    streaming_server: Server, streaming_tab: Tab
) -> None:
    tab = streaming_tab
    tab.open(streaming_server.session(PROMPT, tools=[EVENT])).waits_for(1)
    tab.page.evaluate(WATCH)
    tab.find("[data-do=play]").click()
    expect(tab.find("html")).to_have_attribute("data-seen", "12345")
