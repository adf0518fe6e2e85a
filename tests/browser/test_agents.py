"""The page of agents: a tap made by its form, its lines copied, the list that keeps itself."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.tab import Tab

POLL_MS = 2_000


@pytest.mark.slow
def test_a_tap_is_made_seen_and_revoked(own_server: Server, new_tab: NewTab) -> None:
    tab = new_tab(own_server, own=True).login()
    tab.page.clock.install()
    tab.goto("/agents")
    expect(tab.find("#taps")).to_contain_text("No taps yet")
    tab.find("[name=title]").fill("My agent")
    tab.find("[name=upstream]").select_option("simulator")
    tab.find("button.primary").click()
    line = tab.find("#new-tap code").first
    expect(line).to_contain_text("export ANTHROPIC_BASE_URL=http://127.0.0.1:")
    assert line.inner_text() == tab.find("#new-tap .copy").first.get_attribute("data-copy")
    expect(tab.find("#taps h3")).to_have_text(["My agent"])

    # What was begun stays as it is where the list is drawn again.
    tab.find("#taps .more-acts summary").click()
    revoke = tab.find("#taps .more-acts button")
    expect(revoke).to_be_visible()
    other = own_server.post("/taps", {"agent": "claude"})
    tab.page.clock.fast_forward(POLL_MS)
    expect(tab.find("#taps h3")).to_have_text(["Claude Code", "My agent"])
    expect(tab.find("#taps .more-acts[open]")).to_have_count(1)
    expect(line).to_be_visible()
    tab.find("#taps .more-acts[open] button").click()
    expect(tab.find("#taps h3")).to_have_text(["Claude Code"])
    expect(tab.find("#new-tap")).to_have_count(0)
    expect(tab.find("#ended-taps")).to_contain_text("1 revoked tap")
    own_server.post(f"/taps/{other['id']}/revoke", {})
    tab.page.clock.fast_forward(POLL_MS)
    expect(tab.find("#taps")).to_contain_text("No taps yet")


@pytest.mark.slow
def test_the_page_fits_a_phone(server: Server, new_tab: NewTab) -> None:
    for title in ("short", "x" * 200):
        assert server.script.post("/taps", json={"title": title}).status_code == 201
    tab = new_tab(server, viewport={"width": 390, "height": 800}).login()
    tab.goto("/agents")
    tab.find("[name=upstream]").select_option("simulator")
    tab.find("button.primary").click()
    expect(tab.find("#new-tap")).to_be_visible()
    assert not tab.scrolls_sideways()
    tab.find("#taps .more-acts summary").first.click()
    box = tab.find("#taps .more-acts button").first.bounding_box()
    assert box is not None
    assert (box["x"] >= 0, box["x"] + box["width"] <= 390) == (True, True)
    assert whole_links(tab)


def whole_links(tab: Tab) -> bool:
    """Whether the menu of pages has each link whole in the window, in one line."""
    tab.find("button[popovertarget=sections]").click()
    expect(tab.find("#sections a").last).to_be_in_viewport(ratio=1)
    heights = tab.page.evaluate(
        "[...document.querySelectorAll('#sections a')].map((link) => link.clientHeight)"
    )
    return bool(min(heights) > 0 and max(heights) < 48)
