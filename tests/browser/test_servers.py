"""An MCP server added, looked at, accepted, asked and taken, by keyboard; and without a script."""

from __future__ import annotations

import shlex

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.tab import Tab
from tests.executors.mcp_servers import by_stdio

pytestmark = pytest.mark.usefixtures("patient_mcp")


def pressed(tab: Tab, name: str) -> None:
    """The button is reached and pressed by the keyboard alone."""
    button = tab.page.get_by_role("button", name=name)
    button.focus()
    expect(button).to_be_focused()
    tab.page.keyboard.press("Enter")


@pytest.mark.slow
def test_a_server_is_added_and_its_tools_are_taken_by_keyboard(tab: Tab) -> None:
    server = by_stdio("fine")
    tab.goto("/servers")
    tab.page.keyboard.press("n")
    tab.page.wait_for_url("**/servers?new=1")
    tab.find("[name=name]").focus()
    tab.page.keyboard.type("browser.fine")
    tab.page.keyboard.press("Tab")
    tab.page.keyboard.type(shlex.join((server.command, *server.args)))
    pressed(tab, "Save")
    tab.page.wait_for_url("**/servers/browser.fine")
    expect(tab.find(".consent")).to_contain_text(server.args[0])
    expect(tab.find(".consent h2")).to_have_text("This would be started on your machine")
    expect(tab.page.get_by_role("button", name="List tools")).to_have_count(0)
    pressed(tab, "Accept and start")
    expect(tab.find(".head .pill")).to_have_text("accepted")
    pressed(tab, "List tools")
    expect(tab.find(".head .pill")).to_have_text("connected")
    add = tab.find(".offered .tool").first
    expect(add).to_contain_text("Add two numbers.")
    for box in tab.find(".offered [type=checkbox]").all()[1:]:
        box.focus()
        tab.page.keyboard.press("Space")
    pressed(tab, "Add selected tools")
    expect(tab.page.get_by_role("status").filter(has_text="in the library")).to_be_visible()
    expect(add.locator(".pill")).to_have_text("taken")
    add.get_by_role("link").click()
    tab.page.wait_for_url("**/tools/add")
    expect(tab.find("[name=name]")).to_have_value("add")


def test_the_pages_fit_a_phone(server: Server, new_tab: NewTab) -> None:
    word = "x" * 300
    body = {"name": "narrow", "command": "npx", "args": [word, "a b", "c\u200bd"]}
    assert server.script.post("/servers", json=body).status_code == 201
    tab = new_tab(server, viewport={"width": 390, "height": 800}).login()
    for path in ("/servers", "/servers/narrow", "/servers/narrow?edit=1", "/servers?new=1"):
        tab.goto(path)
        expect(tab.find("#main")).to_be_visible()
        wide = tab.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390, path
