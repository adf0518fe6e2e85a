"""Every step works as a plain form, before a script has loaded or where none may run."""

from __future__ import annotations

import pytest
from playwright.sync_api import Error, expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.tab import Tab


@pytest.fixture
def plain(own_server: Server, new_tab: NewTab) -> Tab:
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


def test_a_demo_is_started_decided_and_answered(plain: Tab) -> None:
    expect(plain.find("#list .empty")).to_be_visible()
    plain.find(".demo").first.click()
    settled(plain, "waiting")
    plain.press(plain.card(0), "a")
    settled(plain, "waiting")
    plain.press(plain.card(1), "h")
    plain.card(1).locator("textarea[name=text]").fill("Sunny.")
    plain.card(1).locator("button", has_text="Answer").click()
    settled(plain, "idle")
    plain.send("What is 3*4?")
    settled(plain, "waiting")
    plain.press(plain.cards.last, "d")
    plain.cards.last.locator("button", has_text="Deny").click()
    settled(plain, "idle")
    expect(plain.cards.last).to_contain_text("denied")
    expect(plain.cards).to_have_count(3)


@pytest.mark.slow
def test_settings_a_title_and_a_deletion(server: Server, new_tab: NewTab) -> None:
    plain = new_tab(server, java_script_enabled=False).login()
    plain.goto("/welcome")
    plain.find(".inline button").click()
    plain.page.wait_for_url("**/sessions/*")
    session_id = plain.page.url.rpartition("/")[2]
    expect(plain.find(f"#row-{session_id}")).to_have_count(1)
    plain.find("#setup [name=system]").fill("Be brief.")
    plain.find("#setup button", has_text="Save").click()
    expect(plain.find("#setup [name=system]")).to_have_value("Be brief.")
    plain.find("#more summary").click()
    plain.find("#rename-title").fill("Plain")
    plain.find("#rename button").click()
    expect(plain.find("#head h1")).to_have_text("Plain")
    plain.find("#more summary").click()
    plain.find("#head button.danger").click()
    expect(plain.find(f"#row-{session_id}")).to_have_count(0)
