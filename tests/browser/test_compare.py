"""Comparing in the page: from the menu to the choice, and to what differs, also on a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.serving import Server
from tests.browser.tab import Tab


@pytest.mark.slow
def test_from_the_menu_to_what_differs(server: Server, tab: Tab) -> None:
    first = server.session("Hello there", tools=[])
    tab.open(first).state("idle")
    second = server.session("Hello <i>here</i>", tools=[])
    tab.open(second).state("idle")
    tab.find("#more summary").click()
    tab.find("#more a", has_text="Compare with…").click()
    expect(tab.find("h1")).to_have_text("Compare")
    tab.find(f".pick input[value='{first}']").check()
    tab.find("button", has_text="Compare").click()
    expect(tab.find(".heads .summary").last).to_contain_text("1 different prompt")
    expect(tab.find(".both").first.locator("ins")).to_have_text("there")
    expect(tab.find(".both i")).to_have_count(0)
    tab.find("a", has_text="make reference").click()
    expect(tab.find(".both").first.locator("del")).to_have_text("there")
    tab.page.set_viewport_size({"width": 390, "height": 844})
    assert not tab.scrolls_sideways()
    tab.find(".both .label a").first.click()
    tab.state("idle")
