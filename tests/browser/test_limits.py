"""A limit that is reached and lifted, in two tabs; the lanes of calls that run at once."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.tab import Tab

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
NOTE = {
    "name": "note",
    "answered_by": "mock",
    "parameters": TEXT,
    "parallel_safe": True,
    "config": {"result": "noted", "delay_s": 0.15},
}
ALLOW = [{"tool": "*", "action": "run", "text": "", "words": "--allow all"}]


@pytest.mark.slow
def test_a_limit_is_told_in_every_tab_and_lifted_from_one(server: Server, new_tab: NewTab) -> None:
    item, two = new_tab(server).login(), new_tab(server).login()
    session_id = server.session(
        "[[fault:loop]] Use note", [NOTE], rules=ALLOW, max_turns=2, max_cost=0.5
    )
    for tab in (item, two):
        tab.goto(f"/sessions/{session_id}?tab=setup")
        tab.state("paused")
        expect(tab.find("#pause")).to_contain_text("2 turns were made, which is the limit")
        expect(tab.find("#limits summary")).to_contain_text("2 turns · 32 calls · $0.50")
        expect(tab.find("#head .spent")).to_contain_text("2 of 2 turns · ")
    item.find("#limits > summary").click()
    expect(item.find("#price-unknown")).to_contain_text("The cost limit can't be enforced.")
    # What is typed beside the button is kept as the new limit, and the run goes on.
    item.find("#raise-max_turns").fill("3")
    item.find("#pause .raise button").click()
    for tab in (item, two):
        expect(tab.find("#pause")).to_contain_text("3 turns were made, which is the limit")
        expect(tab.find("#limits summary")).to_contain_text("3 turns · 32 calls")
    expect(item.find("#set-turns")).to_have_value("3")
    two.page.keyboard.press("c")
    for tab in (item, two):
        expect(tab.find(".turnhead")).to_have_count(6)
        expect(tab.find("#pause")).to_contain_text("3 turns were made")
    item.page.keyboard.press("Escape")
    for tab in (item, two):
        tab.state("interrupted")
        expect(tab.find("#pause")).to_be_empty()


@pytest.mark.slow
def test_a_limit_is_reached_and_lifted_and_the_flow_is_followed_to_the_next_pause(
    server: Server, new_tab: NewTab
) -> None:
    tab = new_tab(server, viewport={"width": 1440, "height": 500}).login()
    session_id = server.session(
        "[[fault:loop]] Use note", [NOTE], rules=ALLOW, max_turns=2, max_repeats=0
    )
    tab.open(session_id).state("paused")
    expect(tab.find("#pause")).to_contain_text("2 turns were made, which is the limit")
    for raised, turns in (("", 4), ("3", 5)):  # a raised limit counts on
        if raised:
            tab.find("#raise-max_turns").fill(raised)
            tab.find("#pause button", has_text="Continue with a limit").click()
        else:
            tab.find("#pause button", has_text="Continue").first.click()
        expect(tab.find(".turnhead")).to_have_count(turns)
        tab.state("paused")
        expect(tab.find("#latest")).to_be_hidden()
        expect(tab.find("#pause")).to_be_in_viewport(ratio=1)
    # Who scrolls away is left where he is.
    tab.page.evaluate("document.querySelector('#scroll').scrollTop = 0")
    expect(tab.find("#latest")).to_be_visible()


@pytest.mark.slow
def test_lanes_say_what_they_are_and_lead_to_their_calls(
    streaming_server: Server, streaming_tab: Tab
) -> None:
    server, tab = streaming_server, streaming_tab
    # Long enough that the first four run at once, though each start is saved before the next one.
    slow = {**NOTE, "config": {"result": "noted", "delay_s": 0.6}}
    session_id = server.session("[[fault:parallel-5]] Use note", [slow], rules=ALLOW)
    tab.open(session_id)
    tab.state("idle")
    bars = tab.find("#track rect.tool")
    expect(bars).to_have_count(5)
    expect(tab.find("#bar")).to_have_attribute("data-lanes", "4")
    # The bar follows the rest of the page: once it shows all of the time it stays as it is.
    duration = server.get(f"/sessions/{session_id}/replay/reel")["duration"]
    expect(tab.find("#bar")).to_have_attribute("data-duration", str(duration))
    tops = bars.evaluate_all("rows => rows.slice(0, 4).map(row => row.getAttribute('y'))")
    assert len(set(tops)) == 4
    box = bars.nth(1).bounding_box()
    assert box is not None
    tab.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(tab.find("#segment")).to_have_text(
        re.compile(r"^note runs, call 1\.1, .*, parallel with 3 others$")
    )
    expect(tab.find("#call-1-1")).to_have_attribute("data-ui", "marked")
    tab.find("#times > summary").click()
    tab.find("#times a", has_text="note runs, call 1.4").click()
    expect(tab.find("#times")).not_to_have_attribute("open", "")
    expect(tab.find("#call-1-4")).to_be_in_viewport()
    # A click on the bar goes to that moment, and to the block of what was clicked.
    tab.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(tab.find("#head .state")).to_contain_text("replay")
    expect(tab.find("#call-1-1")).to_be_in_viewport()
    expect(tab.find("#playhead")).to_have_attribute(
        "aria-valuetext", re.compile("note runs, call 1.1")
    )
