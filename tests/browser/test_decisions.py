"""Decisions and the run, as a user sees them: who ran what, what waits, where it went.

Whole stories, each over all that takes part in it; the parts have their own tests.
"""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.tab import Tab

EVENT: Any = {
    "name": "add_event",
    "description": "Put one event into the calendar.",
    "parameters": {
        "type": "object",
        "properties": {"title": {"type": "string"}},
        "required": ["title"],
    },
    "config": {"result": "{{ title }} is in the calendar."},
}
SLOW: Any = {
    "name": "look_up",
    "description": "Look one word up.",
    "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
    "config": {"result": "It means much.", "delay_s": 60},
    "parallel_safe": True,
}
RUN: Any = {"action": "run", "words": "from the first line"}


def opened(card: Locator, words: str) -> Locator:
    """The part of a card that its button of these words opens."""
    card.locator("summary", has_text=words).press("Enter")  # wherever it moves meanwhile
    return card.locator("details[open]", has_text=words)


@pytest.mark.slow
def test_three_calls_one_by_rule_one_edited_one_denied(server: Server, tab: Tab) -> None:
    session_id = server.session(
        'What is 17 * 23, what is the weather in Paris, and add an event "Walk"?',
        tools=["calculator", "get_weather", EVENT],
        rules=[{"tool": "calculator", **RUN}],
    )
    tab.open(session_id).waits_for(2)
    expect(tab.card(0)).to_have_attribute("data-status", "done")
    expect(tab.card(0).locator(".result")).to_contain_text("391")
    edit = opened(tab.card(1), "Edit")
    edit.locator("[name=arguments]").fill('{"city": "Lisbon"}')
    edit.locator("button", has_text="Run edited").click()
    tab.waits_for(1)
    deny = opened(tab.card(2), "Deny")
    deny.locator("[name=text]").fill("Not today.")
    deny.locator("button", has_text="Deny").click()
    tab.state("idle")

    expect(tab.card(1)).to_contain_text("edited by you")
    expect(tab.card(2).locator(".result")).to_contain_text("Not today.")
    for place, words in enumerate(("from the first line", "You ran it", "You denied it")):
        why = opened(tab.card(place), "Why?")
        expect(why).to_contain_text(words)
    by = [call["decided_by"] for call in server.get_session(session_id)["calls"]]
    assert by == ["from the first line", "person", "person"]


@pytest.mark.slow
def test_what_is_refused_is_said_below_the_arguments(server: Server, tab: Tab) -> None:
    tab.open(server.session("What is the weather in Paris?", tools=["get_weather"])).waits_for(1)
    edit = opened(tab.card(0), "Edit")
    field, send = edit.locator("[name=arguments]"), edit.locator("button", has_text="Run edited")
    tab.forgive("422")
    for arguments, words in (("{", "Line 1, column 2"), ("{}", "city")):
        field.fill(arguments)
        expect(edit.get_by_role("alert")).to_be_hidden()
        send.click()
        expect(edit.get_by_role("alert")).to_contain_text(words)
        expect(field).to_have_attribute("aria-invalid", "true")
        place = field.get_attribute("aria-describedby")
        assert place == edit.get_by_role("alert").get_attribute("id")
    field.fill('{"city": "Lisbon"}')
    expect(edit.get_by_role("alert")).to_be_hidden()
    assert field.get_attribute("aria-invalid") is None
    send.click()
    tab.state("idle")


@pytest.mark.slow
def test_a_slow_call_is_cancelled_and_the_lanes_show_what_ran_beside_it(
    server: Server, tab: Tab
) -> None:
    session_id = server.session(
        "Look up the word fig. [[fault:parallel-3]]",
        tools=[SLOW],
        rules=[{"tool": "look_up", **RUN}],
    )
    tab.open(session_id).state("running")
    for place in range(3):
        expect(tab.card(place)).to_have_attribute("data-status", "running")
    expect(tab.find("#bar")).to_have_attribute("data-lanes", "3")
    tab.card(1).locator("button", has_text="Cancel this call").click()
    expect(tab.card(1)).to_have_attribute("data-status", "done")
    expect(tab.card(1).locator(".result")).to_contain_text("cancelled")
    for place in (0, 2):  # the others run on
        expect(tab.card(place)).to_have_attribute("data-status", "running")
    for place in (0, 2):
        tab.card(place).locator("button", has_text="Cancel this call").click()
    tab.state("idle")
    rows = tab.find("#track rect[data-block^=call-1]")
    heights = "rows => new Set(rows.map(row => row.getAttribute('y'))).size"
    assert rows.evaluate_all(heights) == 3  # at once: the bar is drawn again meanwhile
    results = [call["result"] for call in server.get_session(session_id)["calls"]]
    assert all(result["is_error"] and result["kind"] == "interrupted" for result in results)


@pytest.mark.slow
def test_a_fault_is_staged_and_the_model_recovers(server: Server, tab: Tab) -> None:
    session_id = server.session("What is the weather in Oslo?", tools=["get_weather"])
    tab.open(session_id).waits_for(1)
    tab.card(0).locator(".also > summary").press("Enter")
    tab.card(0).locator(".stage > summary").press("Enter")
    stage = tab.card(0).locator(".stage[open]")
    stage.locator("input[value=error]").check()
    stage.locator("button", has_text="Stage fault").click()
    expect(tab.card(0)).to_contain_text("staged: an error")
    expect(tab.card(0).locator(".result")).to_contain_text("database connection was lost")
    # The model asks once more; this time it is run, and it has what it asked for.
    tab.waits_for(1)
    tab.press(tab.card(1), "a")
    tab.state("idle")
    expect(tab.find(".part.text").last).to_contain_text("Oslo")
    first, second = server.get_session(session_id)["calls"]
    assert (first["result"]["staged"], first["result"]["is_error"]) == (True, True)
    assert not second["result"]["is_error"]


def test_always_is_shown_then_written_and_decides_the_next_call(
    own_server: Server, new_tab: NewTab
) -> None:
    # On a server where nothing was denied: such a rule is offered only then.
    server, tab = own_server, new_tab(own_server).login()
    session_id = server.session("What is the weather in Paris?", tools=["get_weather"])
    tab.open(session_id).waits_for(1)
    always = opened(tab.card(0), "Always for get_weather")
    expect(always.locator(".offered")).to_contain_text("run get_weather")
    always.locator("label", has_text="These arguments").click()
    expect(always.locator(".offered")).to_contain_text('"Paris"')
    always.locator("label", has_text="This tool").click()
    expect(always.locator(".offered")).not_to_contain_text('"Paris"')
    assert server.get(f"/sessions/{session_id}/rules") == []  # it was only shown
    always.locator("button", has_text="Add this rule").click()
    tab.state("idle")
    expect(tab.card(0)).to_have_attribute("data-status", "done")

    tab.send("And what is the weather in Rome?")
    expect(tab.cards).to_have_count(2)
    expect(tab.card(1)).to_have_attribute("data-status", "done")
    tab.state("idle")
    why = opened(tab.card(1), "Why?")
    expect(why).to_contain_text("run get_weather")
    assert [call["decided_by"] for call in server.get_session(session_id)["calls"]] == [
        "run get_weather"
    ] * 2
