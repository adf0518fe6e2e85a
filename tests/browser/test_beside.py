"""Two models asked at once, side by side: one stream, and each decides for itself."""

from __future__ import annotations

import pytest
from playwright.sync_api import FrameLocator, Request, expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.tab import Tab

WIDTHS = """() => [...document.querySelectorAll(".lane")].map(
    (lane) => [lane.querySelector("iframe").clientWidth, lane.clientWidth])"""


def state(frame: FrameLocator, word: str, waiting: int = 0) -> None:
    head = frame.locator("#head")
    expect(head).to_have_attribute("data-state", word)
    expect(head).to_have_attribute("data-waiting", str(waiting))


@pytest.mark.slow
def test_two_models_live(server: Server, new_tab: NewTab) -> None:
    tab: Tab = new_tab(server).login()
    server.session(tools=["calculator"])  # whose tools the next ones are given
    tab.goto("/compare/new")
    streams: list[str] = []

    def note(request: Request) -> None:
        if "/stream?" in request.url:
            streams.append(request.url)

    tab.page.on("request", note)
    tab.find("#ask-text").fill("What is 17 * 23?")
    tab.find("#profile-1").select_option("simulator")
    tab.find("#profile-2").select_option("simulator-openai")
    tab.find("button.primary").click()

    frame_locator, two = (tab.page.frame_locator("iframe").nth(place) for place in (0, 1))
    state(frame_locator, "waiting", 1)
    state(two, "waiting", 1)
    expect(tab.find("#besidehead")).to_contain_text("2 calls need your decision")
    expect(tab.page).to_have_title("(2) Side by side · playground")
    expect(tab.find("#dock button")).to_be_disabled()

    # A key decides on the focused card of the focused column, and on no other.
    tab.page.keyboard.press("1")
    tab.page.keyboard.press("j")
    expect(frame_locator.locator(".card")).to_be_focused()
    frame_locator.locator(".card [data-key=a]").click()
    state(frame_locator, "idle")
    expect(frame_locator.locator(".part.text").last).to_contain_text("391")
    state(two, "waiting", 1)
    expect(tab.find("#lane-1")).to_have_attribute("data-state", "idle")
    expect(tab.find("#dock button")).to_contain_text("Send to 1 of 2")

    two.locator(".card [data-key=d]").click()
    two.locator(".card form[id^=denyform] button").click()
    state(two, "idle")
    tab.send("And 2 * 3?")
    state(frame_locator, "waiting", 1)
    state(two, "waiting", 1)
    tab.find('[data-key="escape"]').click()
    state(frame_locator, "interrupted")
    state(two, "interrupted")
    tab.page.remove_listener("request", note)
    (stream,) = (url for url in streams if "store=1" not in url)
    assert stream.count("session=") == 2

    two_more = "".join(f"&session={server.session(tools=[])}" for _ in range(2))
    tab.goto("/compare?" + tab.page.url.partition("?")[2] + two_more)
    for width, column_count in (
        (1280, 4),
        (1201, 4),
        (1000, 1),
    ):  # beside each other where they fit
        tab.page.set_viewport_size({"width": width, "height": 800})
        widths = [pair for pair in tab.page.evaluate(WIDTHS) if pair[1]]
        assert len(widths) == column_count
        assert all(inner <= lane for inner, lane in widths), width
    tab.page.set_viewport_size({"width": 390, "height": 844})
    expect(tab.find(".lane").nth(1)).to_be_hidden()
    tab.find("#pick-2").click()
    expect(tab.find(".lane").nth(1)).to_be_visible()
    expect(tab.find(".lane").nth(0)).to_be_hidden()
    assert not tab.scrolls_sideways()
