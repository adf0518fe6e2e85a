"""What the page does by itself: focus, Esc, toasts, and what was typed but not sent."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.tab import Tab
from tests.browser.test_decisions import EVENT, RUN, SLOW, opened

THREE = 'What is 17 * 23, what is the weather in Paris, and add an event "Walk"?'
TOOLS: Any = ["calculator", "get_weather", EVENT]


def enter(button: Locator) -> None:
    """Press it as a user without a mouse does."""
    button.focus()
    button.press("Enter")


@pytest.mark.slow
def test_the_focus_stays_near_what_was_pressed(server: Server, tab: Tab) -> None:
    session_id = server.session(THREE, tools=TOOLS)
    tab.open(session_id).waits_for(3)
    edit = opened(tab.card(1), "Edit")
    edit.locator("[name=arguments]").fill('{"city": "Lisbon"}')
    enter(edit.locator("button", has_text="Run edited"))
    tab.waits_for(2)
    expect(tab.card(1)).to_be_focused()
    deny = opened(tab.card(2), "Deny")
    deny.locator("[name=text]").fill("Not today.")
    enter(deny.locator("button", has_text="Deny"))
    tab.waits_for(1)
    expect(tab.card(2)).to_be_focused()
    # Somebody types elsewhere meanwhile: the focus is theirs.
    run = tab.card(0).locator("[data-key=a]")
    run.focus()
    run.evaluate("(button) => { button.click(); document.getElementById('prompt').focus(); }")
    tab.state("idle")
    expect(tab.find("#prompt")).to_be_focused()
    # Each says what became of it.
    for place, words in enumerate(("ran", "edited by you", "denied")):
        expect(tab.card(place)).to_contain_text(words)
    expect(tab.card(1).locator("ins")).to_contain_text("Lisbon")
    folded = server.get_session(session_id)
    texts = [call["result"]["content"][0]["text"] for call in folded["calls"]]
    assert "Lisbon" in texts[1]
    assert (texts[2], folded["turns"]) == ("Not today.", 2)

    loop = server.session(
        "What is the weather in Rome? [[fault:loop]]",
        tools=["get_weather"],
        rules=[{"tool": "get_weather", **RUN}],
        max_turns=1,
    )
    tab.open(loop).state("paused")
    enter(tab.find("#pause").get_by_role("button", name=re.compile("^Continue")).first)
    expect(tab.cards).to_have_count(2)
    tab.state("paused")
    expect(tab.find("#head h1")).to_be_focused()
    tab.goto(f"/sessions/{loop}?tab=setup")
    enter(tab.find("#session-rules").get_by_role("button", name="Delete rule 1"))
    expect(tab.find("#session-rules .rule")).to_have_count(0)
    expect(tab.find("#session-rules h2")).to_be_focused()
    tab.find("#rule-add > summary").click()
    tab.find("#rule-action-ask + span").click()
    enter(tab.find("#rule-form").get_by_role("button", name="Add rule"))
    expect(tab.find("#session-rules .rule")).to_have_count(1)
    expect(tab.find("#rule-add > summary")).to_be_focused()


@pytest.mark.slow
def test_a_refused_rule_says_so_in_sight_and_an_edit_begins_at_its_first_field(
    server: Server, tab: Tab
) -> None:
    tab.forgive("422")
    tab.goto("/rules")
    tab.find("#rule-own > summary").click()
    tab.find("#rule-form button.primary").click()
    expect(tab.find("#rule-look .wrong")).to_be_in_viewport(ratio=1)
    expect(tab.find("#rule-look .wrong")).to_be_focused()
    session_id = server.session("", tools=["calculator"], rules=[{"tool": "*", "action": "ask"}])
    tab.goto(f"/sessions/{session_id}/rules")
    tab.find("#main").get_by_role("link", name="Edit rule 1").click()
    expect(tab.find("#rule-tool")).to_be_focused()


def test_esc_stops_at_once_and_undo_goes_once(server: Server, tab: Tab) -> None:
    rules = [{"tool": "look_up", **RUN}, {"tool": "calculator", **RUN}]
    session_id = server.session(
        "Look up the word fig. [[fault:parallel-2]]", tools=[SLOW], rules=rules
    )
    tab.open(session_id).state("running")
    expect(tab.card(0)).to_have_attribute("data-status", "running")
    expect(tab.find("#prompt")).to_have_attribute("placeholder", re.compile("2 calls run"))
    why = opened(tab.card(0), "Why?")
    why.locator("summary").focus()
    tab.page.keyboard.press("Escape")
    tab.state("interrupted")

    tab.goto(f"/sessions/{session_id}?tab=setup")
    rows = tab.find("#session-rules .rule")
    rows.nth(1).get_by_role("button", name="Delete rule 2").click()
    expect(rows).to_have_count(1)
    toast = tab.find("#toasts .toast", has_text="The rule was deleted.")
    toast.get_by_role("button", name="Undo").click()
    expect(rows).to_have_count(2)
    expect(toast).to_have_count(0)

    tab.goto(f"/sessions/{session_id}/rules")
    tab.find(".rule").nth(0).get_by_role("button", name="Move rule 1 down").click()
    expect(tab.find(".rule").nth(1)).to_be_focused()
    tab.find(".rule").nth(1).get_by_role("button", name="Delete rule 2").click()
    expect(toast).to_be_visible()
    tab.page.reload()
    expect(tab.find(".rule")).to_have_count(1)
    expect(toast).to_have_count(0)


@pytest.mark.slow
def test_what_is_typed_on_a_card_outlives_a_reload(server: Server, tab: Tab) -> None:
    session_id = server.session(THREE, tools=TOOLS)
    tab.open(session_id).waits_for(3)
    opened(tab.card(0), "Answer by hand").locator("[name=text]").fill("my long work")
    opened(tab.card(1), "Edit").locator("[name=arguments]").fill('{"city": "Lima"}')
    opened(tab.card(2), "Deny").locator("[name=text]").fill("Not today.")
    tab.page.reload()
    answer = tab.card(0).locator("form[data-answers] [name=text]")
    reason = tab.card(2).locator("[id^=denyform] [name=text]")
    expect(answer).to_be_visible()
    expect(answer).to_have_value("my long work")
    expect(tab.card(1).locator("[name=arguments]")).to_have_value('{"city": "Lima"}')
    expect(reason).to_have_value("Not today.")
    # Sent, it is gone; decided by another while the page was away, it is shown once more.
    tab.card(2).locator("[id^=denyform] button").click()
    tab.waits_for(2)
    expect(tab.card(2).locator(".result")).to_contain_text("Not today.")
    expect(tab.find("#kept")).to_be_hidden()
    other = server.get_session(session_id)["calls"][1]
    here = f"/sessions/{session_id}/calls/{other['id']}/decision"
    server.post(here, {"decision": "deny", "digest": other["digest"]})
    element = tab.find("#kept article")
    expect(element).to_contain_text("decided without these arguments")
    expect(element.locator("textarea")).to_have_value('{"city": "Lima"}')
    tab.page.reload()
    expect(answer).to_have_value("my long work")
    expect(element).to_have_count(0)
    tab.goto("/tools")
    first = server.get_session(session_id)["calls"][0]
    here = f"/sessions/{session_id}/calls/{first['id']}/decision"
    server.post(here, {"decision": "deny", "digest": first["digest"]})
    tab.open(session_id)
    expect(element).to_contain_text("decided without this answer")
    expect(element.locator("textarea")).to_have_value("my long work")


@pytest.mark.slow
def test_jump_to_latest_covers_no_button_of_an_open_form(
    own_server: Server, new_tab: NewTab
) -> None:
    tab = new_tab(own_server, viewport={"width": 390, "height": 844}, has_touch=True).login()
    tab.open(own_server.session(THREE, tools=TOOLS)).waits_for(3)
    tab.find("#scroll").evaluate("(scroll) => { scroll.scrollTop = 0; }")
    always = opened(tab.card(0), "Always for")
    write = always.locator("button", has_text="Add this rule")
    expect(write).to_be_visible()
    expect(tab.find("#latest")).to_be_visible()
    expect(write).to_be_in_viewport(ratio=1)
