"""Lists that are long: what is looked for is found, and what is open is in sight."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server

GROUPS = ("birds", "fishes", "trees")


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, browser: object) -> Iterator[Server]:
    """A server whose library holds 300 tools in three groups."""
    server = Server(tmp_path_factory.mktemp("full") / "playground.db", 0.0)
    server.post(
        "/tools",
        [
            {"name": f"{group}_{n}", "answered_by": "person", "group": group}
            for group in GROUPS
            for n in range(100)
        ],
    )
    yield server
    server.end()


def test_what_is_looked_for_is_opened_by_enter_and_empty_groups_go(
    full: Server, new_tab: NewTab
) -> None:
    tab = new_tab(full).login()
    tab.goto("/tools")
    tab.page.keyboard.press("/")
    tab.page.keyboard.type("fishes_7")
    headings = tab.find("#tool-list h2:visible")
    expect(headings).to_have_text(["fishes"])
    expect(tab.find("#tool-list .row:visible")).to_have_count(11)
    tab.page.keyboard.type("zzz")
    expect(headings).to_have_count(0)
    expect(tab.find("[data-none]")).to_be_visible()
    for _ in "zzz":
        tab.page.keyboard.press("Backspace")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url("**/tools/fishes_7")
    # It is the 200th or so: seen all the same, and the page itself stays where it is.
    expect(tab.find("#tool-list [aria-current]")).to_be_in_viewport()
    assert tab.page.evaluate("scrollY") == 0


def test_servers_are_found_as_tools_are(full: Server, new_tab: NewTab) -> None:
    for name in ("alpha", "beta"):
        full.post("/servers", {"name": name, "url": f"https://{name}.example/mcp"})
    tab = new_tab(full).login()
    tab.goto("/servers")
    tab.page.keyboard.press("/")
    tab.page.keyboard.type("bet")
    expect(tab.find("#server-list .row:visible")).to_have_count(1)
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url("**/servers/beta")
