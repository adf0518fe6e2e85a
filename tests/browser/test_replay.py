"""The past on the page: whatever way a user takes through it, each moment is what it was."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.tab import Tab

# What stands in the flow, here and on a fresh page of the same moment. Marks of the reader's own
# (data-ui), the hours of its clock and what lies open are no part of it.
COMPARED = """async () => {
  const text = (one) => (one.children.length || one.matches("time") ? "" : one.textContent.trim());
  const told = (root) => [...root.querySelectorAll("#flow, #flow *, #pause")]
    .map((one) => [one.id, one.className, text(one)].join("|"));
  const place = document.querySelector("#share-place").getAttribute("href");
  const fresh = new DOMParser().parseFromString(await (await fetch(place)).text(), "text/html");
  return [place, told(document), told(fresh)];
}"""


def rested(server: Server, tab: Tab) -> str:
    rules = [{"tool": "*", "action": "run"}]
    session_id = server.session("What is 17*23, and the weather in Paris?", rules=rules)
    server.comes_to(session_id, "idle")
    tab.open(session_id).state("idle")
    return session_id


def same_as_fresh(tab: Tab) -> str:
    """The page shows its moment exactly; the address of that moment."""
    place, here, fresh = tab.page.evaluate(COMPARED)
    assert here == fresh, place
    return str(place)


def drag(tab: Tab, ms: int) -> None:
    """Put the play head at `ms`, and wait until the page is there."""
    tab.page.evaluate(
        """(ms) => new Promise((shown) => {
             document.addEventListener("replay:shown", shown, {once: true});
             const head = document.getElementById("playhead");
             head.value = ms;
             head.dispatchEvent(new Event("input", {bubbles: true}));
           })""",
        ms,
    )


def test_every_drag_step_and_jump_shows_what_a_fresh_page_shows(
    streaming_server: Server, streaming_tab: Tab
) -> None:
    tab = streaming_tab
    rested(streaming_server, tab)  # a past that took its time
    chance, seen_texts = Random(17), set[str]()
    most = int(tab.find("#playhead").get_attribute("max") or 0)
    for ms in (0, *(chance.randint(0, most) for _ in range(2))):
        drag(tab, ms)
        seen_texts.add(same_as_fresh(tab))
        position = tab.find("#placed").get_attribute("data-position") or ""
        tab.find("#bar [data-do=forth]").click()
        expect(tab.find("#placed")).not_to_have_attribute("data-position", position)
        seen_texts.add(same_as_fresh(tab))
    assert len(seen_texts) > 2
    drag(tab, 0)
    tab.page.keyboard.press("]")
    expect(tab.find(".card")).to_have_count(1)
    tab.page.keyboard.press("]")
    expect(tab.find(".card")).to_have_count(2)
    same_as_fresh(tab)
    # Played on from the middle, at the speed chosen, to the end.
    tab.find("#speed").select_option("20")
    tab.find("#bar .play").click()
    expect(tab.find("#bar .play")).to_have_attribute("aria-label", "Play")
    same_as_fresh(tab)


@pytest.mark.slow
def test_keys_step_event_by_event_while_the_session_goes_on(server: Server, tab: Tab) -> None:
    session_id = rested(server, tab)
    last, press = server.get_session(session_id)["seq"], tab.page.keyboard.press
    tab.find("#playhead").focus()
    for _ in range(3):  # quicker than the page follows
        press("ArrowLeft")
    expect(tab.find("#place")).to_have_text(f"event {last - 3} of {last}")
    tab.page.wait_for_url(f"**?at={last - 3}")
    press("ArrowRight")
    expect(tab.find("#place")).to_have_text(f"event {last - 2} of {last}")
    # The page of a moment says, too, what goes on, and its list shows it.
    tab.page.reload()
    expect(tab.find("body[data-replay=on]")).to_have_count(1)  # it knows where the log ends
    server.post(f"/sessions/{session_id}/prompts", {"text": "What is 2*3?"})
    expect(tab.find("#newer")).to_contain_text("newer events")
    expect(tab.find(f"#row-{session_id}")).to_contain_text("3 calls")
    expect(tab.find("#place")).to_have_text(re.compile(f"event {last - 2} of"))
    press(" ")  # plays on; how long that takes nobody knows, so its end is looked at
    expect(tab.find("#place")).to_have_text(re.compile(f"event {last} of"))
    press("Escape")
    expect(tab.find("#composer")).to_be_visible()
    assert "at=" not in tab.page.url


@pytest.mark.slow
def test_a_moment_has_an_address_that_needs_no_script(server: Server, new_tab: NewTab) -> None:
    session_id = rested(server, new_tab(server).login())
    seq = server.get(f"/sessions/{session_id}/replay/reel")["marks"][2][3]
    options: Any = {"java_script_enabled": False}
    tab = new_tab(server, **options).login()
    tab.goto(f"/sessions/{session_id}?at={seq}")
    expect(tab.find("#head .state")).to_contain_text("replay")
    expect(tab.find("#place")).to_have_text(
        f"event {seq} of {server.get_session(session_id)['seq']}"
    )
    tab.find("[data-kind=call][data-by='1']").click()
    expect(tab.find(".card")).to_have_count(2)
    here = tab.page.url
    tab.find("#bar [data-do=back]").click()
    tab.page.wait_for_url(lambda url: url != here)
    # Forking here asks first how to go on.
    fork = tab.find("#fork-here").get_attribute("href")
    assert fork == f"/sessions/{session_id}/fork?seq={tab.page.url.rpartition('=')[2]}"
    tab.find("[data-do=exit-replay]").click()
    expect(tab.find("#composer")).to_be_visible()
