"""Lists that are long: what is looked for is found, and what is open is in sight."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server, run_page_server
from tests.browser.tab import Held

GROUPS = ("birds", "fishes", "trees")

ROWS = """(list) => [...list.querySelectorAll("label:not([hidden])")].map(
    (row) => `${row.innerText} ${row.getBoundingClientRect().y}`)"""


@pytest.fixture(scope="module")
def full_server(tmp_path_factory: pytest.TempPathFactory, browser: object) -> Iterator[Server]:
    """A server whose library holds 90 tools in three groups."""
    tools = [
        {"name": f"{group}_{n}", "answered_by": "person", "group": group}
        for group in GROUPS
        for n in range(30)
    ]
    with run_page_server(tmp_path_factory.mktemp("full") / "playground.db") as server:
        server.post("/tools", tools)
        yield server


@pytest.mark.slow
def test_what_is_looked_for_is_opened_by_enter_and_empty_groups_go(
    full_server: Server, new_tab: NewTab
) -> None:
    tab = new_tab(full_server).login()
    tab.goto("/tools")
    tab.page.keyboard.press("/")
    tab.page.keyboard.type("fishes_1")
    headings = tab.find("#tool-list h2:visible")
    expect(headings).to_have_text(["fishes"])
    expect(tab.find("#tool-list .row:visible")).to_have_count(11)
    tab.page.keyboard.type("zzz")
    expect(headings).to_have_count(0)
    expect(tab.find("[data-none]")).to_be_visible()
    for _ in "zzz":
        tab.page.keyboard.press("Backspace")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url("**/tools/fishes_1")
    # It is the 40th or so: seen all the same, and the page itself stays where it is.
    expect(tab.find("#tool-list [aria-current]")).to_be_in_viewport()
    assert tab.page.evaluate("scrollY") == 0


@pytest.mark.slow
def test_the_row_of_an_old_session_is_in_sight(own_server: Server, new_tab: NewTab) -> None:
    sessions = [own_server.session(title=f"Session {n}", tools=[]) for n in range(30)]
    tab = new_tab(own_server, viewport={"width": 1280, "height": 700}).login()
    for place in (0, 10):
        tab.open(sessions[place])
        expect(tab.find("#hints")).to_be_visible()
        expect(tab.find("#list [aria-current]")).to_be_in_viewport(ratio=1)


def test_servers_are_found_as_tools_are(full_server: Server, new_tab: NewTab) -> None:
    for name in ("alpha", "beta"):
        full_server.post("/servers", {"name": name, "url": f"https://{name}.example/mcp"})
    tab = new_tab(full_server).login()
    tab.goto("/servers")
    tab.page.keyboard.press("/")
    tab.page.keyboard.type("bet")
    expect(tab.find("#server-list .row:visible")).to_have_count(1)
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url("**/servers/beta")


@pytest.mark.slow
def test_of_many_tools_some_are_chosen_by_keyboard(full_server: Server, new_tab: NewTab) -> None:
    session_id = full_server.session(tools=["calculator"])
    tab = new_tab(full_server).login()
    tab.goto(f"/sessions/{session_id}?tab=setup")
    tools, chosen = tab.find("#set-tools"), tab.find("#set-tools [name=tools]:checked")
    rows = tab.find("#set-tools label:visible")
    before = tools.evaluate(ROWS)
    search = tab.find("#set-tools-search")
    search.focus()
    tab.page.keyboard.type("birds_25")
    expect(tab.find("#set-tools h3:visible")).to_have_text(["birds"])
    tab.page.keyboard.press("Enter")
    expect(tab.find("#set-tools-birds_25")).to_be_focused()
    tab.page.keyboard.press("Space")
    expect(tab.find("#set-allowed-birds_25")).to_be_attached()  # it is saved and drawn anew
    expect(search).to_have_value("birds_25")
    expect(rows).to_have_count(1)
    search.fill("")
    tab.page.get_by_role("button", name="all of trees").focus()
    tab.page.keyboard.press("Enter")
    expect(tab.find("#set-allowed-trees_29")).to_be_attached()
    expect(chosen).to_have_count(32)
    # Enter in another field chooses nothing.
    tab.find("[name=model]").fill("m7")
    tab.page.keyboard.press("Enter")
    expect(tab.find("[name=model]")).to_have_value("m7")
    expect(chosen).to_have_count(32)
    tab.page.get_by_role("button", name="clear selection").click()
    expect(chosen).to_have_count(0)
    expect(tab.find("#set-allowed-trees_29")).not_to_be_attached()
    # All of a group are those that a search leaves in sight.
    search.fill("trees_1")
    tab.page.get_by_role("button", name="all of trees").click()
    expect(chosen).to_have_count(11)
    expect(tab.find("#set-allowed-trees_19")).to_be_attached()
    search.fill("")
    assert tools.evaluate(ROWS) == before
    # What is let go stays in its place until "selected only" is ticked again.
    only = tab.find("#set-tools-chosen")
    only.focus()
    tab.page.keyboard.press("Space")
    expect(rows).to_have_count(11)
    tab.find("#set-tools-trees_1").uncheck()
    expect(tab.find("#set-allowed-trees_1")).not_to_be_attached()
    expect(rows).to_have_count(11)
    only.uncheck()
    only.check()
    expect(rows).to_have_count(10)
    search.fill("trees_19")
    expect(rows).to_have_count(1)
    tab.page.set_viewport_size({"width": 390, "height": 800})
    assert not tab.scrolls_sideways()


@pytest.mark.slow
def test_a_row_stays_under_the_mouse_when_its_tool_is_chosen(
    full_server: Server, new_tab: NewTab
) -> None:
    session_id = full_server.session(tools=[])
    tab = new_tab(full_server).login()
    tab.goto(f"/sessions/{session_id}?tab=setup")
    gate = Held(tab.page, f"/sessions/{session_id}/settings")
    tools = tab.find("#set-tools")
    for n in (3, 4):
        tab.find(f"#set-tools-trees_{n}").check()
    before = tools.evaluate(ROWS)
    for n in (3, 4):  # drawn anew twice
        gate.pass_on(tab.page, n - 3)
        expect(tab.find(f"#set-allowed-trees_{n}")).to_be_attached()
        assert tools.evaluate(ROWS) == before


@pytest.mark.slow
def test_without_script_a_group_is_chosen_by_its_button(
    full_server: Server, new_tab: NewTab
) -> None:
    session_id = full_server.session(tools=["calculator"])
    tab = new_tab(full_server, java_script_enabled=False).login()
    tab.goto(f"/sessions/{session_id}?tab=setup")
    tab.find("[name=model]").fill("m8")
    tab.page.get_by_role("button", name="all of fishes").click()
    names = {tool["name"] for tool in settings_of(full_server, session_id)["tools"]}
    assert names == {"calculator", *(f"fishes_{n}" for n in range(30))}
    assert settings_of(full_server, session_id)["model"] == "m8"
    tab.goto(f"/sessions/{session_id}?tab=setup")
    tab.find("#set-tools-chosen").check()
    expect(tab.find("#set-tools h3:visible")).to_have_text(["fishes", "examples"])
    expect(tab.find("#set-tools label:visible")).to_have_count(31)
    tab.page.get_by_role("button", name="clear selection").click()
    assert settings_of(full_server, session_id)["tools"] == []


def settings_of(server: Server, session_id: str) -> Any:
    """The settings of the last line of the log that changed them."""
    lines = server.script.get(f"/sessions/{session_id}/events").text.splitlines()
    return [json.loads(line) for line in lines if "settings_changed" in line][-1]["settings"]


@pytest.mark.slow
def test_the_menu_of_exports_stays_on_a_narrow_page(full_server: Server, new_tab: NewTab) -> None:
    tab = new_tab(full_server).login()
    tab.page.set_viewport_size({"width": 390, "height": 844})
    tab.goto("/tools/trees_1")
    tab.find("#export > summary").click()
    box = tab.find("#export .sheet").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
