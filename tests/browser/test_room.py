"""What moves by itself and what does not: the ends that are followed, the room that is kept."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from playground.web.demos import DEMOS
from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.tab import Tab
from tests.tables import rest_slow

BELOW = """(selector) => {
  const scroll = document.querySelector(selector);
  return scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight;
}"""
"""How much of it is below what is in sight, in pixels."""

FIRST_OF_TITLE = """(count) => {
  const title = document.querySelector("#head h1"), first = document.createRange();
  first.setStart(title.firstChild, 0);
  first.setEnd(title.firstChild, Math.min(count, title.firstChild.length));
  const room = title.getBoundingClientRect(), taken = first.getBoundingClientRect();
  return Math.min(room.right - taken.right, room.bottom - taken.bottom);
}"""
"""How much room a title has beyond its first characters, in pixels."""

LINES = "words => Math.round(words.getBoundingClientRect().height / 18)"

TOPS = """(selector) => [...document.querySelectorAll(selector)].map(
  (button) => Math.round(button.getBoundingClientRect().top))"""

NOTE_SHIFTS = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const shift of list.getEntries()) shifted += shift.hadRecentInput ? 0 : shift.value;
}).observe({ type: "layout-shift" });
"""


def at_end(tab: Tab, selector: str) -> None:
    """Wait until the end of what scrolls is in sight: it is followed when the page is next painted,
    which is after the change itself can be read."""
    tab.page.wait_for_function(f"(selector) => ({BELOW})(selector) < 40", arg=selector)


def ask_again(tab: Tab, turns: int) -> None:
    """Ask once more; after it there are so many turns, and all their rows."""
    tab.send("Say it.")
    expect(tab.find(f"#wirerows-{turns}")).to_contain_text("message_stop")
    tab.state("idle")


@pytest.mark.slow
def test_the_wire_follows_the_newest_request(server: Server, new_tab: NewTab) -> None:
    tab = new_tab(server, viewport={"width": 1280, "height": 500}).login()
    tab.goto(f"/sessions/{server.session()}?tab=wire")
    for turns in (1, 2):
        ask_again(tab, turns)
        expect(tab.find(f"#wirerows-{turns} .wirerow").last).to_be_in_viewport()
    at_end(tab, "#panel-wire")
    panel = tab.find("#panel-wire")
    panel.hover()
    tab.page.mouse.wheel(0, -100_000)  # who reads further up stays there
    expect(tab.find("#wirehead-1")).to_be_in_viewport()
    ask_again(tab, 3)
    expect(tab.find("#wirehead-1")).to_be_in_viewport()
    panel.hover()
    tab.page.mouse.wheel(0, 100_000)
    expect(tab.find("#wirerows-3 .wirerow").last).to_be_in_viewport()
    at_end(tab, "#panel-wire")
    ask_again(tab, 4)
    expect(tab.find("#wirerows-4 .wirerow").last).to_be_in_viewport()


@pytest.mark.slow
def test_an_older_request_that_is_opened_stays_in_sight(server: Server, new_tab: NewTab) -> None:
    """Though all lines fitted into the panel before, so that its end was in sight."""
    tab = new_tab(server, viewport={"width": 1280, "height": 700}).login()
    tab.goto(f"/sessions/{server.session()}?tab=wire")
    for turns in (1, 2):
        ask_again(tab, turns)
    head = tab.find("#wirefold-1 > summary")
    before = head.bounding_box()
    head.click()
    expect(tab.find("#wirerows-1 .wirerow").last).to_be_visible()
    tab.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    assert head.bounding_box() == before


@pytest.mark.slow
def test_a_title_is_longer_than_the_figures_beside_it(server: Server, tab: Tab) -> None:
    first = DEMOS[0]
    session_id = server.session(first.prompt, first.tools, title=first.title + ", to be read whole")
    tab.open(session_id).waits_for(2)
    for width in (1440, 1280, 1024, 700, 390):
        tab.page.set_viewport_size({"width": width, "height": 900})
        assert tab.page.evaluate(FIRST_OF_TITLE, 24) >= 0, width
        tops = tab.page.evaluate(TOPS, ".card [data-key=a], .card [data-key=d]")
        assert (len(tops), len(set(tops))) == (4, 2), width  # Deny beside Run, on both cards
    tab.page.set_viewport_size({"width": 1440, "height": 900})
    tab.open(server.session(first.prompt, first.tools, title=first.title)).waits_for(2)
    assert tab.page.evaluate(FIRST_OF_TITLE, len(first.title)) >= 0
    tools = ["calculator", {"name": "ask_anna", "answered_by": "person"}]
    tab.open(server.session("What is 17*23, and what does Anna think?", tools, title="Two needs"))
    tab.waits_for(2)
    assert tab.find("#head .state span").evaluate(LINES) == 1


@pytest.mark.parametrize(("platform", "key"), [("MacIntel", "⌘↵"), ("Linux x86_64", "Ctrl+↵")])
def test_send_names_the_key_of_the_platform(
    server: Server, new_tab: NewTab, platform: str, key: str
) -> None:
    tab = new_tab(server, own=True).login()
    named: Any = f"Object.defineProperty(navigator, 'platform', {{ get: () => '{platform}' }})"
    tab.page.add_init_script(named)
    tab.open(server.session())
    shown = tab.find("#dock kbd").evaluate(
        """(key) => getComputedStyle(key).fontSize === "0px"
             ? getComputedStyle(key, "::before").content : key.innerText"""
    )
    assert key in shown
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("?")
    send = tab.find("#keys div", has=tab.page.get_by_text("Send", exact=True)).locator("kbd").first
    shown = send.evaluate("key => getComputedStyle(key, '::before').content + key.innerText")
    assert ("⌘" in shown) == (platform == "MacIntel")
    expect(tab.find("#keys")).not_to_contain_text("or Ctrl")


@pytest.mark.parametrize("width", rest_slow([1440, 1024, 390]))
def test_nothing_jumps_when_an_answer_of_many_calls_ends(
    streaming_server: Server, new_tab: NewTab, width: int
) -> None:
    server = streaming_server
    tab = new_tab(server, viewport={"width": width, "height": 844}).login()
    session_id = server.session(max_repeats=0)
    tab.open(session_id)
    expect(tab.find("#stream[data-htmx-powered]")).to_be_attached()
    tab.page.evaluate(NOTE_SHIFTS)
    prompt = {"text": "What is the weather in Paris? [[fault:parallel-12]]"}
    server.post(f"/sessions/{session_id}/prompts", prompt)  # not by a click: that excuses a jump
    tab.waits_for(12)
    expect(tab.find(".card.asks")).to_have_count(12)
    # Mostly 0.01. Without the room for the buttons it is 0.42.
    assert tab.page.evaluate("shifted") < 0.05


@pytest.mark.slow
def test_the_dot_of_a_run_stands_where_all_dots_do(server: Server, tab: Tab) -> None:
    tab.open(server.session())
    high = """(state) => {
      const dot = document.querySelector("#head .dot");
      dot.className = `dot ${state}`;
      return dot.getBoundingClientRect().top;
    }"""
    idle, running = (tab.page.evaluate(high, state) for state in ("idle", "running"))
    assert running == idle
