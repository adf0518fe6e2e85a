"""The command palette, the panels that fold and are dragged, and the presentation."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.serving import Server
from tests.browser.tab import Tab

WIDTH = "selector => document.querySelector(selector).getBoundingClientRect().width"


def test_the_palette_goes_where_a_few_letters_say(server: Server, tab: Tab) -> None:
    tab.goto("/rules")
    keyboard = tab.page.keyboard
    chosen = tab.find("#palette-list [aria-selected=true]")
    keyboard.press("Control+k")
    expect(chosen).to_have_count(1)
    keyboard.type("get_we")
    expect(chosen).to_contain_text("get_weather")
    keyboard.press("Escape")
    expect(tab.find("#palette")).to_be_hidden()
    keyboard.press("Control+k")
    keyboard.type("qqq<b>")
    expect(tab.find("#palette-list")).to_contain_text("Nothing matches “qqq<b>”")
    tab.find("#palette-query").fill("get weather")
    expect(chosen).to_contain_text("get_weather")
    keyboard.press("Enter")
    tab.page.wait_for_url("**/tools/get_weather")


@pytest.mark.slow
def test_equal_titles_are_told_apart_by_their_times(server: Server, tab: Tab) -> None:
    server.session(title="One of many")
    tab.goto("/rules")
    tab.page.keyboard.press("Control+k")
    tab.page.keyboard.type("one of many")
    element = tab.find("#palette-list [role=option]", has_text="One of many")
    expect(element.locator("time")).to_have_text("just now")


def test_panels_fold_and_keep_their_widths_and_a_conversation_is_presented(
    server: Server, tab: Tab
) -> None:
    tab.open(server.session("Say hello")).state("idle")
    keyboard, page = tab.page.keyboard, tab.page
    side, inspector = tab.find("#side"), tab.find("#inspector")
    tab.find("#inspector .grip").focus()
    before = page.evaluate(WIDTH, "#inspector")
    keyboard.press("ArrowLeft")
    assert page.evaluate(WIDTH, "#inspector") == before + 16
    keyboard.press("s")
    expect(side).to_be_hidden()
    page.reload()
    expect(side).to_be_hidden()
    assert page.evaluate(WIDTH, "#inspector") == before + 16
    tab.find("button[data-drawer=side]").click()
    expect(side).to_be_visible()

    keyboard.press("p")
    for panel in (side, inspector, tab.find(".top")):
        expect(panel).to_be_hidden()
    expect(tab.find("#prompt")).to_be_visible()
    keyboard.press("Escape")
    expect(inspector).to_be_visible()
    assert not tab.scrolls_sideways()
