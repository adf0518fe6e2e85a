"""What is to be pressed does not move: by real coordinates, while other calls change around it."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.tab import Tab
from tests.browser.test_room import BELOW, at_end

LONG: Any = {
    "name": "look_up",
    "description": "Look one word up.",
    "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
    "config": {"result": "One of many lines.\n" * 14},
    "parallel_safe": True,
}
CALLS = 6

NOTE_SCROLLED = """(scroll) => {
  window.scrolled = new Promise((done) => scroll.addEventListener("scrollend", done, {once: true}));
}"""
"""`window.scrolled` is there when the next scrolling, which takes its time, has come to rest."""

PAD = "(card, room) => { card.style.paddingBottom = room; }"
"""Makes a card taller, or with "" as tall as it was."""

PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def waiting(server: Server, new_tab: NewTab, width: int) -> tuple[Tab, str]:
    """A tab whose session waits with six calls, each of which grows when it is run."""
    tab = new_tab(server, viewport={"width": width, "height": 844}).login()
    prompt = f"Look up. [[fault:parallel-{CALLS}]]"
    session_id = server.session(prompt, tools=[LONG], max_repeats=0)
    tab.open(session_id).waits_for(CALLS)
    expect(tab.find("#stream[data-htmx-powered]")).to_be_attached()
    return tab, session_id


def hover_run(tab: Tab, card: Locator) -> None:
    """Go over the button Run of `card` with the mouse."""
    button = card.locator("[data-key=a]")
    button.scroll_into_view_if_needed()
    box = button.bounding_box()
    assert box is not None
    tab.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def run_elsewhere(server: Server, tab: Tab, session_id: str, call: int) -> None:
    """Somebody else runs a call, and the page has heard of it."""
    item = server.get_session(session_id)["calls"][call]
    decision = {"decision": "run", "digest": item["digest"]}
    server.post(f"/sessions/{session_id}/calls/{item['id']}/decision", decision)
    expect(tab.card(call)).to_have_attribute("data-status", "done")


def statuses(server: Server, session_id: str) -> list[str]:
    return [call["status"] for call in server.get_session(session_id)["calls"]]


@pytest.mark.parametrize(
    ("width", "place", "top"),
    [
        pytest.param(1440, 3, None, marks=pytest.mark.slow),
        (390, 2, 120),
        pytest.param(1440, 2, 120, marks=pytest.mark.slow),
        pytest.param(390, 3, None, marks=pytest.mark.slow),
    ],
)
def test_a_button_stays_under_the_mouse(
    server: Server, new_tab: NewTab, width: int, place: int, top: int | None
) -> None:
    tab, session_id = waiting(server, new_tab, width)
    if top is not None:
        tab.find("#scroll").evaluate("(scroll, top) => { scroll.scrollTop = top; }", top)
    button = tab.card(place).locator("[data-key=a]")
    hover_run(tab, tab.card(place))
    before = button.bounding_box()
    run_elsewhere(server, tab, session_id, 0)
    tab.page.mouse.down()
    run_elsewhere(server, tab, session_id, place - 1)
    assert before is not None
    after = button.bounding_box()
    assert after is not None
    assert abs(after["y"] - before["y"]) < 2
    tab.page.mouse.up()
    expect(tab.card(place)).to_have_attribute("data-status", "done")
    decided = {0, place - 1, place}
    for call, status in enumerate(statuses(server, session_id)):
        assert status == ("done" if call in decided else "waiting"), call


def top_of(tab: Tab, button: Locator) -> float:
    """Where it is once the page is painted."""
    tab.page.evaluate(PAINTED)
    box = button.bounding_box()
    assert box is not None
    return box["y"]


def test_a_button_stays_where_nothing_can_be_scrolled(server: Server, new_tab: NewTab) -> None:
    """What is above it gets shorter, and then longer than it was; the window is taller than all.
    The top of the flow stays within reach."""
    tab = new_tab(server, viewport={"width": 1440, "height": 4000}).login()
    session_id = server.session(f"Look up. [[fault:parallel-{CALLS}]]", tools=[LONG], max_repeats=0)
    tab.open(session_id).waits_for(CALLS)
    button = tab.card(1).locator("[data-key=a]")
    tab.card(0).evaluate(PAD, "90px")
    hover_run(tab, tab.card(1))
    before = top_of(tab, button)
    tab.card(0).evaluate(PAD, "")
    run_elsewhere(server, tab, session_id, 3)  # below it, so this changes nothing but what is drawn
    assert abs(top_of(tab, button) - before) < 2
    run_elsewhere(server, tab, session_id, 0)
    assert abs(top_of(tab, button) - before) < 2
    tab.page.mouse.wheel(0, -1000)
    expect(tab.find("#prompt-1 h2")).to_be_in_viewport(ratio=1)
    tab.find("#prompt").hover()
    moved = "(column) => [column.style.translate, column.style.marginBottom]"
    assert tab.find("#scroll .column").evaluate(moved) == ["", ""]


@pytest.mark.slow
@pytest.mark.parametrize("place", [CALLS - 2, 3])
def test_a_button_stays_at_the_end_where_what_is_below_it_gets_shorter(
    server: Server, new_tab: NewTab, place: int
) -> None:
    """The browser scrolls then by itself."""
    tab, _ = waiting(server, new_tab, 1440)
    tab.card(CALLS - 1).evaluate(PAD, "100px")
    tab.page.evaluate(PAINTED)
    tab.find("#scroll").evaluate("(scroll) => { scroll.scrollTop = scroll.scrollHeight - 30; }")
    button = tab.card(place).locator("[data-key=a]")
    hover_run(tab, tab.card(place))
    before = top_of(tab, button)
    tab.page.evaluate(
        """(last) => {
             const cards = document.querySelectorAll(".card");
             cards[last].style.paddingBottom = "";
             cards[0].style.paddingBottom = "60px";
           }""",
        CALLS - 1,
    )
    assert abs(top_of(tab, button) - before) < 2


@pytest.mark.slow
def test_the_end_is_followed_again_once_the_mouse_has_gone(server: Server, new_tab: NewTab) -> None:
    tab, session_id = waiting(server, new_tab, 1440)
    hover_run(tab, tab.card(CALLS - 2))
    run_elsewhere(server, tab, session_id, CALLS - 1)
    assert tab.page.evaluate(BELOW, "#scroll") > 100
    tab.find("#prompt").hover()
    expect(tab.find("#latest")).to_be_hidden()
    at_end(tab, "#scroll")


@pytest.mark.slow
def test_who_types_follows_the_end(server: Server, new_tab: NewTab) -> None:
    """Though the mouse still lies over a card."""
    tab, session_id = waiting(server, new_tab, 1440)
    hover_run(tab, tab.card(CALLS - 2))
    tab.find("#prompt").press("x")
    run_elsewhere(server, tab, session_id, CALLS - 1)
    expect(tab.find("#latest")).to_be_hidden()
    at_end(tab, "#scroll")


def test_who_scrolls_over_a_card_is_not_taken_back(server: Server, new_tab: NewTab) -> None:
    tab, session_id = waiting(server, new_tab, 1440)
    hover_run(tab, tab.card(CALLS - 1))
    scroll = tab.find("#scroll")
    scroll.evaluate(NOTE_SCROLLED)
    tab.page.mouse.wheel(0, -150)
    tab.page.evaluate("window.scrolled")
    top = scroll.evaluate("(scroll) => scroll.scrollTop")
    run_elsewhere(server, tab, session_id, CALLS - 1)
    assert scroll.evaluate("(scroll) => scroll.scrollTop") == top
