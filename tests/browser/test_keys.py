"""Keys: they move, and decide only on the focused card that could be read."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.tab import Tab

READ = """(selector) => {
  // As long as the page asks for, and a frame more, since the card was whole on screen.
  return new Promise((done) => new IntersectionObserver((entries, observer) => {
    if (!entries.some((entry) => entry.intersectionRatio >= 0.99)) return;
    observer.disconnect();
    setTimeout(done, 560);
  }, {threshold: [0.99]}).observe(document.querySelector(selector)));
}"""

SCROLL = "selector => document.querySelector(selector).scrollIntoView({block: 'nearest'})"

FILLED = """() => {
  const colour = getComputedStyle(document.querySelector(".logo")).backgroundColor;
  return [...document.querySelectorAll("button, .button")]
    .filter((one) => one.checkVisibility() && getComputedStyle(one).backgroundColor === colour)
    .map((one) => one.firstChild.textContent.trim());
}"""
"""What the buttons say that are filled with the accent: one at a time."""


def read(tab: Tab, number: int) -> None:
    """Have a card whole on screen for as long as it takes."""
    tab.page.evaluate(READ, f"#{tab.card(number).get_attribute('id')}")


@pytest.fixture
def waiting_tab(server: Server, tab: Tab) -> Tab:
    tab.open(server.session("What is 17*23, and the weather in Paris?")).waits_for(2)
    return tab


def focused(tab: Tab, number: int) -> None:
    expect(tab.card(number)).to_be_focused()


def test_keys_move_from_call_to_call_and_decide_only_the_focused_one_that_was_read(
    waiting_tab: Tab,
) -> None:
    keyboard = waiting_tab.page.keyboard
    read(waiting_tab, 0)
    for key in "aehd":  # no card has the focus
        keyboard.press(key)
    waiting_tab.waits_for(2)
    expect(waiting_tab.find("details.act[open]")).to_have_count(0)

    for key, number in (("j", 0), ("j", 1), ("j", 1), ("k", 0)):
        keyboard.press(key)
        focused(waiting_tab, number)

    # Another text on the card: what was read before does not count.
    waiting_tab.page.evaluate(
        """() => {
          const card = document.querySelector(".card");
          card.dataset.digest += "x";
          document.dispatchEvent(new Event("htmx:after:swap"));
          card.focus();
          card.dispatchEvent(new KeyboardEvent("keydown", {key: "a", bubbles: true}));
        }"""
    )
    expect(waiting_tab.find(".toast.hint")).to_contain_text("half a second")
    waiting_tab.waits_for(2)
    read(waiting_tab, 0)
    keyboard.press("a")
    waiting_tab.waits_for(1)


@pytest.mark.slow
def test_shift_a_runs_only_what_was_read(server: Server, new_tab: NewTab) -> None:
    tab = new_tab(server, viewport={"width": 1000, "height": 600}).login()
    session_id = server.session("[[fault:parallel-3]] What is the weather in Paris?")
    tab.open(session_id).waits_for(3)
    tab.card(2).scroll_into_view_if_needed()
    read(tab, 2)
    tab.page.keyboard.press("Shift+A")
    expect(tab.find(".toast.hint")).to_contain_text("every card it runs")
    tab.waits_for(3)
    for number in range(3):
        tab.card(number).scroll_into_view_if_needed()
        read(tab, number)
    tab.page.keyboard.press("Shift+A")
    tab.state("idle")
    assert {call["status"] for call in server.get_session(session_id)["calls"]} == {"done"}


def test_a_card_that_is_cut_by_the_window_is_decided_when_both_its_ends_were_read(
    server: Server, new_tab: NewTab
) -> None:
    tab = new_tab(server, viewport={"width": 1000, "height": 330}).login()
    tab.open(server.session("What is the weather in Paris?")).waits_for(1)
    tab.card(0).focus()
    for end in ("header", ".acts"):
        tab.page.keyboard.press("a")
        expect(tab.find(".toast.hint")).to_be_visible()
        tab.waits_for(1)
        tab.page.evaluate(SCROLL, f".card > {end}")  # at once: what stands there may be morphed
        tab.page.evaluate(READ, f".card > {end}")
    tab.page.keyboard.press("a")
    tab.state("idle")


def test_each_decision_has_its_key(waiting_tab: Tab) -> None:
    keyboard = waiting_tab.page.keyboard
    read(waiting_tab, 0)
    waiting_tab.card(0).focus()
    assert waiting_tab.page.evaluate(FILLED) == ["Run"]
    leads = (("e", "[name=arguments]", "Run edited"), ("h", "textarea[name=text]", "Answer"))
    for key, field, lead in leads:
        keyboard.press(key)
        expect(waiting_tab.card(0).locator(field)).to_be_focused()
        assert waiting_tab.page.evaluate(FILLED) == [lead]
        keyboard.press("Escape")
        expect(waiting_tab.card(0).locator(field)).not_to_be_visible()
        focused(waiting_tab, 0)
    keyboard.press("d")
    expect(waiting_tab.card(0).locator("input[name=text]")).to_be_focused()
    keyboard.type("No d, a, e or h decides in here")
    keyboard.press("Control+Enter")
    waiting_tab.waits_for(1)
    expect(waiting_tab.card(0)).to_contain_text("denied")

    waiting_tab.card(1).focus()
    read(waiting_tab, 1)
    keyboard.press("a")
    waiting_tab.state("idle")
    expect(waiting_tab.card(1)).to_contain_text("ran")


def test_the_other_keys(server: Server, tab: Tab) -> None:
    session_id = server.session()
    tab.open(session_id)
    keyboard = tab.page.keyboard
    expect(tab.find("#prompt")).to_be_focused()  # a new session is there to be asked
    tab.find("#prompt").blur()
    keyboard.press("/")
    expect(tab.find("#search")).to_be_focused()
    keyboard.press("Escape")
    keyboard.press("?")
    expect(tab.find("#keys")).to_be_visible()
    keyboard.press("Escape")
    expect(tab.find("#keys")).not_to_be_visible()
    tab.find("#prompt").fill("What is 1+1?")
    keyboard.press("Control+Enter")
    tab.waits_for(1)
    tab.card(0).focus()  # nobody leaves a field for nothing: a swap would give it back
    keyboard.press("n")
    tab.page.wait_for_url(lambda url: "/sessions/" in url and session_id not in url)


@pytest.mark.slow
def test_an_empty_message_box_is_left_and_says_why_nothing_is_sent(waiting_tab: Tab) -> None:
    keyboard, box = waiting_tab.page.keyboard, waiting_tab.find("#prompt")
    box.fill("And 2*3?")
    keyboard.press("Control+Enter")
    hint = waiting_tab.find("#toasts .hint")
    expect(hint).to_have_text("Nothing was sent. Decide the waiting calls first.")
    keyboard.press("Escape")
    expect(box).to_be_focused()
    box.fill("")
    keyboard.press("Escape")
    expect(box).not_to_be_focused()
    keyboard.press("j")
    focused(waiting_tab, 0)
