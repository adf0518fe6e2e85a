"""Answering by hand in the browser: drafts, past results, images, one answer for several calls, and
what was typed when somebody else is quicker."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.tab import Tab
from tests.browser.test_request import DOT, file

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {
    "name": "weather_of",
    "description": "The weather of a city.",
    "parameters": CITY,
    "answered_by": "person",
}
OUTPUT = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "why": {"type": "string"}},
    "required": ["ok"],
}
TYPED = {"name": "ask_typed", "answered_by": "person", "config": {"output_schema": OUTPUT}}
THREE = "The weather in Rome? And the weather in Berlin? And the weather in Madrid?"

DROP = """(form, data) => {
  const bytes = Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
  const carrier = new DataTransfer();
  carrier.items.add(new File([bytes], "dropped.png", {type: "image/png"}));
  const options = {dataTransfer: carrier, bubbles: true, cancelable: true};
  form.dispatchEvent(new DragEvent("drop", options));
}"""


@pytest.fixture(autouse=True, scope="module")
def _tools(server: Server) -> None:
    for tool in (WEATHER, TYPED):
        server.post("/tools", tool)


def opened(tab: Tab, session_id: str, calls: int = 1) -> Locator:
    """The form for the answer to the first call, opened by its key's button."""
    tab.open(session_id)
    tab.waits_for(calls)
    card = tab.card(0)
    card.locator("summary[data-key=h]").press("Enter")
    return card.locator("form[data-answers]")


def contents(server: Server, session_id: str) -> list[Any]:
    calls = server.get_session(session_id)["calls"]
    return [call["result"] and call["result"]["content"] for call in calls]


@pytest.mark.slow
def test_one_answer_with_an_image_goes_to_several_and_is_had_again(
    server: Server, tab: Tab
) -> None:
    first = server.session(THREE, tools=["weather_of"])
    form = opened(tab, first, 3)
    text, element = form.locator("textarea[name=text]"), form.locator(".said")
    expect(text).to_be_focused()
    text.fill('{"sky": 1,\n "x" 2}')
    expect(element).to_contain_text("Line 2, column 6: a colon")
    form.get_by_role("button", name="Draft").click()
    expect(element).to_have_text("Valid JSON.")
    drafted = text.input_value()
    assert '"city": "Rome"' in drafted
    form.get_by_role("button", name="Another draft").click()
    expect(text).not_to_have_value(drafted)
    expect(form.locator(".likes input")).to_have_count(2)
    form.locator(".likes input").nth(1).check()
    form.locator("input[type=file]").set_input_files([file("a.png")])
    expect(form.locator(".thumb")).to_have_count(1)
    form.evaluate(DROP, base64.b64encode(DOT).decode())
    expect(form.locator(".thumb")).to_have_count(2)
    expect(tab.find("#thumbs .thumb")).to_have_count(0)  # the composer takes none of them
    form.locator(".thumb button").first.click()
    expect(form.locator(".thumb")).to_have_count(1)
    sent = text.input_value()
    text.press("Control+Enter")
    tab.waits_for(1)
    expect(tab.card(0).locator(".result .image")).to_have_count(1)
    expect(tab.card(2).locator(".result .image")).to_have_count(1)
    expect(tab.find("#kept")).to_be_hidden()
    got = contents(server, first)
    assert got[1] is None
    for content in (got[0], got[2]):
        assert [piece["type"] for piece in content] == ["text", "image"]
        assert content[0]["text"] == sent

    form = opened(tab, server.session("The weather in Oslo?", tools=["weather_of"]))
    form.locator(".pastway summary").click()
    past = form.locator(".past", has_text='{"city": "Rome"}').first
    expect(past).to_contain_text("1 image")
    wide = tab.page.viewport_size
    tab.page.set_viewport_size({"width": 390, "height": 800})
    assert not tab.scrolls_sideways()
    assert wide is not None
    tab.page.set_viewport_size(wide)
    past.click()
    text = form.locator("textarea[name=text]")
    expect(text).to_have_value(sent)
    expect(form.locator(".thumb")).to_have_count(1)
    expect(form.locator(".likes input")).to_have_count(0)
    form.get_by_role("button", name="no permission").click()
    expect(text).to_have_value("Permission denied.")
    expect(form.locator("[name=is_error]")).to_be_checked()
    text.press("Control+z")
    expect(text).to_have_value(sent)


@pytest.mark.slow
def test_what_was_typed_is_kept_when_another_tab_is_quicker(server: Server, tab: Tab) -> None:
    session_id = server.session(THREE, tools=["weather_of"])
    form = opened(tab, session_id, 3)
    form.locator("textarea[name=text]").fill("my long work")
    (call, other, _) = server.get_session(session_id)["calls"]
    here = f"/sessions/{session_id}/calls"
    # Another call is decided: the card is drawn anew, and what is typed stays in its place.
    server.post(f"{here}/{other['id']}/decision", {"decision": "deny", "digest": other["digest"]})
    tab.waits_for(2)
    expect(form.locator("textarea[name=text]")).to_have_value("my long work")
    wish = {"decision": "answer", "digest": call["digest"], "text": "first"}
    server.post(f"{here}/{call['id']}/decision", wish)
    element = tab.find("#kept article")
    expect(element).to_contain_text(f"Call {call['id']} weather_of was decided without this answer")
    expect(element.locator("textarea")).to_have_value("my long work")
    expect(tab.card(0).locator(".result")).to_contain_text("first")
    element.get_by_role("button", name="Discard").click()
    expect(tab.find("#kept")).to_be_hidden()


def test_a_typed_answer_is_filled_by_a_draft_and_told_at_its_fields(
    server: Server, tab: Tab
) -> None:
    session_id = server.session("ask", tools=["ask_typed"], tool_choice="required")
    form = opened(tab, session_id)
    ok, why = form.locator("[name='boolean:/ok']"), form.locator("[name='text:/why']")
    expect(ok).to_be_focused()
    tab.forgive("422")
    form.get_by_role("button", name="Answer", exact=True).click()
    expect(form.locator(".wrong", has_text="ok is required.")).to_be_visible()
    form.get_by_role("button", name="Draft").click()
    expect(why).not_to_have_value("")
    form.locator(".ways span", has_text="Text or JSON").click()
    expect(form.locator(".said")).to_have_text("Valid JSON that matches the output schema.")
    expect(why).to_be_hidden()
    form.locator("[name=text]").fill("{}")
    form.get_by_role("button", name="Answer", exact=True).click()
    refused = form.locator("> .wrong")
    expect(refused).to_contain_text("which the schema requires")
    expect(form.locator("[name=text]")).to_have_attribute("aria-invalid", "true")
    form.locator("[name=text]").fill('{"ok": true}')
    expect(refused).to_be_hidden()
    form.get_by_role("button", name="Another draft").click()
    form.locator(".ways span", has_text="Form").click()
    why.fill("by hand")
    why.press("Enter")
    tab.waits_for(0)
    assert '"why": "by hand"' in contents(server, session_id)[0][0]["text"]


@pytest.mark.slow
def test_without_a_script_the_answer_is_a_plain_form(server: Server, new_tab: NewTab) -> None:
    tab = new_tab(server, java_script_enabled=False).login()
    session_id = server.session("The weather in Oslo?", tools=["weather_of"])
    server.comes_to(session_id, "waiting")
    card = tab.open(session_id).card(0)
    card.locator("summary[data-key=h]").press("Enter")
    form = card.locator("form[data-answers]")
    expect(form.get_by_role("button", name="Draft")).to_be_hidden()
    form.locator("textarea[name=text]").fill("plain\nwords")
    form.locator("input[type=file]").set_input_files([file("a.png")])
    form.get_by_role("button", name="Answer", exact=True).click()
    expect(tab.card(0).locator(".result .image")).to_have_count(1)
    assert contents(server, session_id)[0][0]["text"] == "plain\nwords"
