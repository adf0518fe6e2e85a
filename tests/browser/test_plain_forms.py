"""Every step works as a plain form, before a script has loaded or where none may run."""

from __future__ import annotations

import pytest
from playwright.sync_api import Error, expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.tab import Tab


@pytest.fixture
def scriptless_tab(own_server: Server, new_tab: NewTab) -> Tab:
    tab = new_tab(own_server, java_script_enabled=False)
    tab.page.goto(own_server.link)
    assert tab.page.url == own_server.url + "/"
    return tab


def settled(tab: Tab, state: str) -> None:
    """Reload as a user without script does, when the session is in this state."""
    tab.page.wait_for_url("**/sessions/*")
    tab.server.comes_to(tab.page.url.rpartition("/")[2], state)
    for _ in range(100):
        try:
            tab.page.reload()
        except Error:  # the form's own redirect was quicker
            continue
        if tab.find("#head").get_attribute("data-state") == state:
            return
    raise AssertionError(f"the session never was {state}")


def test_a_demo_is_started_decided_and_answered(scriptless_tab: Tab) -> None:
    expect(scriptless_tab.find("#list .empty")).to_be_visible()
    scriptless_tab.find(".demo").first.click()
    settled(scriptless_tab, "waiting")
    scriptless_tab.press(scriptless_tab.card(0), "a")
    settled(scriptless_tab, "waiting")
    scriptless_tab.press(scriptless_tab.card(1), "h")
    scriptless_tab.card(1).locator("textarea[name=text]").fill("Sunny.")
    scriptless_tab.card(1).locator("button", has_text="Answer").click()
    settled(scriptless_tab, "idle")
    scriptless_tab.send("What is 3*4?")
    settled(scriptless_tab, "waiting")
    scriptless_tab.press(scriptless_tab.cards.last, "d")
    scriptless_tab.cards.last.locator("button", has_text="Deny").click()
    settled(scriptless_tab, "idle")
    expect(scriptless_tab.cards.last).to_contain_text("denied")
    expect(scriptless_tab.cards).to_have_count(3)


@pytest.mark.slow
def test_settings_a_title_and_a_deletion(server: Server, new_tab: NewTab) -> None:
    tab = new_tab(server, java_script_enabled=False).login()
    tab.goto("/welcome")
    tab.find(".inline button").click()
    tab.page.wait_for_url("**/sessions/*")
    session_id = tab.page.url.rpartition("/")[2]
    expect(tab.find(f"#row-{session_id}")).to_have_count(1)
    tab.find("#setup [name=system]").fill("Be brief.")
    tab.find("#setup button", has_text="Save").click()
    expect(tab.find("#setup [name=system]")).to_have_value("Be brief.")
    tab.find("#more summary").click()
    tab.find("#rename-title").fill("Plain")
    tab.find("#rename button").click()
    expect(tab.find("#head h1")).to_have_text("Plain")
    tab.find("#more summary").click()
    tab.find("#head button.danger").click()
    expect(tab.find(f"#row-{session_id}")).to_have_count(0)
