"""Trying a tool in the browser: the form, the verdict, a run, its progress, its end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from playground.render.environment import environment
from playground.web.tools.view import TryOutcome, try_result
from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.tab import APP_MODULES, Tab

FACE = ".face .cm-content"

TEMPLATES = Path(__file__).parents[2] / "templates"
EVENT: dict[str, Any] = {
    "name": "add_event",
    "description": "Put one event into the calendar.",
    "parameters": {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "minutes": {"type": "integer", "minimum": 5},
            "guests": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["title"],
    },
    "config": {"result": '{"title": "{{ args.title }}", "n": 2.50}'},
}
ASK = {
    "name": "ask_me",
    "answered_by": "person",
    "config": {
        "output_schema": {
            "type": "object",
            "properties": {
                "ok": {"type": "boolean"},
                "why": {"type": "string"},
                "n": {"type": "integer"},
            },
            "required": ["ok"],
        }
    },
}
PLAIN = {**EVENT, "name": "plain_event", "config": {"result": "saved"}}
SLOW = {"name": "slow_mock", "config": {"result": "late", "delay_s": 600}}

DAYS = '{"type": "object", "properties": {"days": {"type": "integer", "minimum": LEAST}},' + (
    ' "required": ["days"]}'
)

APPLY = f"async (html) => (await {APP_MODULES}).stream_js.applyFrame({{ html }})"


@pytest.fixture(autouse=True, scope="module")
def _tools(server: Server) -> None:
    for tool in (EVENT, PLAIN, ASK, SLOW):
        server.post("/tools", tool)


def test_typed_checked_and_run_by_keyboard(tab: Tab) -> None:
    tab.goto("/tools/add_event")
    title, minutes = tab.find("[name='text:/title']"), tab.find("[name='integer:/minutes']")
    expect(tab.find("#try-verdict .pill")).to_have_text("valid")
    minutes.fill("3x")
    expect(tab.find("#try")).to_contain_text("must be a number like 30")
    expect(tab.find("#try-acts button.primary")).to_be_disabled()
    minutes.fill("3")
    expect(tab.find("#try-verdict .pill")).to_have_text("1 problem")
    expect(tab.find("#try-acts")).to_contain_text("Run anyway")
    minutes.fill("7")
    expect(tab.find("#try-verdict .pill")).to_have_text("valid")
    title.fill("Walk <b>")
    expect(title).to_be_focused()
    title.press("Enter")
    expect(tab.find(".tryresult")).to_contain_text('"Walk <b>"')
    expect(tab.find(".tryresult")).to_contain_text("2.50")
    wires = tab.find(".trywires details")
    expect(wires).to_have_count(5)
    wires.first.locator("summary").press("Enter")
    expect(wires.first).to_contain_text("tool_result")
    expect(minutes).to_have_value("7")


@pytest.mark.slow
def test_what_stands_in_the_editor_is_what_is_tried(tab: Tab) -> None:
    tab.goto("/tools/plain_event")
    tab.find("[name='text:/title']").fill("kept")
    tab.find("textarea[name=result]").fill("not saved: {{ args.title }}")
    tab.find("#try-acts button.primary").click()
    expect(tab.find(".tryresult")).to_contain_text("not saved: kept")
    assert tab.server.get("/tools/plain_event")["config"] == PLAIN["config"]


def test_a_sample_follows_the_schema_until_it_is_changed(tab: Tab) -> None:
    tab.goto("/tools/add_event?face=json")
    schema, days = tab.find(FACE), tab.find("[name='integer:/days']")
    for least in (5, 6):
        schema.fill(DAYS.replace("LEAST", str(least)))
        expect(days).to_have_value(str(least))
    days.fill("8")
    schema.fill(DAYS.replace("LEAST", "9"))
    expect(tab.find("#try-verdict .pill")).to_have_text("1 problem")
    expect(days).to_have_value("8")


@pytest.mark.slow
def test_a_sample_replaces_what_was_typed(tab: Tab) -> None:
    """Also where it is the sample that the page began with."""
    tab.goto("/tools/add_event")
    minutes = tab.find("[name='integer:/minutes']")
    sample = minutes.input_value()
    minutes.fill("77")
    tab.find("#try-acts button[value=sample]").click()
    expect(minutes).to_have_value(sample)


@pytest.mark.slow
def test_a_sample_that_does_not_come_leaves_what_was_typed(tab: Tab) -> None:
    tab.goto("/tools/add_event?face=json")
    minutes, title = tab.find("[name='integer:/minutes']"), tab.find("[name='text:/title']")
    minutes.fill("77")
    title.fill("mine")
    expect(tab.find("#try-verdict .pill")).to_have_text("valid")
    tab.find(FACE).fill("{")
    expect(tab.find("#try-verdict")).to_contain_text("the text ends")
    with tab.page.expect_response("**/tools/try"):
        tab.find("#try-acts button[value=sample]").click()
    tab.page.route("**/tools/try", lambda route: route.fulfill(status=503, body="Not now."))
    with tab.page.expect_response("**/tools/try"):
        tab.find("#try-acts button[value=sample]").click()
    tab.page.evaluate("() => new Promise((done) => setTimeout(done))")
    expect(minutes).to_have_value("77")
    expect(title).to_have_value("mine")
    tab.forgive("503")


@pytest.mark.slow
def test_form_and_json_are_two_ways_to_write_the_same(tab: Tab) -> None:
    tab.goto("/tools/add_event")
    tab.find("[name='integer:/minutes']").fill("9007199254740993")
    tab.find("#try-form button[value=json]").click()
    text = tab.find("#try-json")
    expect(text).to_have_value(re.compile(r'"minutes": 9007199254740993,\s+"guests"'))
    text.fill('{"title": "a\\nb", "minutes": 1e1')
    expect(tab.find("#try-verdict")).to_contain_text("the text ends before")
    text.fill('{"title": "a\\nb", "minutes": 1e1, "more": [1]}')
    expect(tab.find("#try-verdict .pill")).to_have_text("valid")
    tab.find("#try-form button[value=form]").click()
    expect(tab.find("[name='long:/title']")).to_have_value("a\nb")
    expect(tab.find("[name='integer:/minutes']")).to_have_value("1e1")
    expect(tab.find("[name='rest:']")).to_have_value('{"more": [1]}')


@pytest.mark.slow
def test_a_run_is_followed_and_cancelled(tab: Tab) -> None:
    tab.goto("/tools/slow_mock")
    tab.find("#try-acts button.primary").click()
    expect(tab.find("#try-result .pill")).to_contain_text("running")
    tab.find("#try-result").get_by_role("button", name="Cancel").click()
    expect(tab.find("#try-result .pill")).to_have_text("interrupted")
    expect(tab.find(".tryresult")).to_contain_text("cancelled")


@pytest.mark.slow
def test_what_can_be_clicked_stays_while_a_run_tells_of_itself(tab: Tab) -> None:
    tab.goto("/tools/plain_event")
    env = environment(TEMPLATES)
    rows: list[tuple[str, float | None]] = [("", None), ("a", 0.1), ("b", 0.2), ("c", None)]
    places = []
    for number, (word, fraction) in enumerate(rows):
        try_outcome = TryOutcome(
            "x",
            tool="t",
            source="t",
            started_ms=0,
            changed=number,
            progress=word,
            fraction=fraction,
            took_ms=None,
            result=None,
        )
        tab.page.evaluate(APPLY, try_result(env, try_outcome))
        expect(tab.find("#try-result .progress")).to_contain_text(word)
        button = tab.find("#try-result").get_by_role("button", name="Cancel")
        same = button.evaluate("(button) => button === (window.seen ??= button)")
        assert same, f"another button at {word!r}"
        places.append(button.bounding_box())
    assert places.count(places[0]) == len(rows), "it stays in its place"


@pytest.mark.slow
def test_a_click_right_after_a_refusal_is_sent(tab: Tab) -> None:
    tab.goto("/tools/add_event")
    tab.forgive("422")
    tab.find("[name='integer:/minutes']").fill("3")
    again = tab.find("#try-acts").get_by_role("button", name="Run it")
    expect(tab.find("#try-verdict .pill")).to_have_text("1 problem")
    for _ in range(2):
        with tab.page.expect_response("**/tools/try") as answer:
            again.click()
        assert answer.value.status == 422
        expect(tab.find("#try-verdict")).to_contain_text("or run it anyway")


@pytest.mark.slow
def test_a_call_of_a_person_s_tool_is_answered_by_its_form(tab: Tab, server: Server) -> None:
    session_id = server.session("ask", tools=["ask_me"], tool_choice="required")
    tab.open(session_id)
    tab.waits_for(1)
    card = tab.card(0)
    card.locator("summary[data-key=h]").click()
    answer = card.locator("form.answers")
    expect(answer.locator("[name='boolean:/ok']")).to_be_focused()  # the first field of all
    answer.locator("[name='text:/why']").fill("because")
    tab.forgive("422")
    number = answer.locator("[name='integer:/n']")
    number.fill("x1")
    answer.get_by_role("button", name="Answer").click()
    expect(number).to_have_attribute("aria-invalid", "true")
    element = answer.locator(f"#{number.get_attribute('aria-describedby')}")
    expect(element).to_have_text("n must be a number like 30, not 'x1'.")
    number.fill("")
    answer.get_by_role("button", name="Answer").click()
    expect(number).not_to_have_attribute("aria-invalid", "true")
    expect(element).to_be_hidden()
    expect(answer.locator("[name='text:/why']")).to_have_value("because")
    # One way at a time: what stands in the other is there still.
    expect(card.get_by_role("button", name="Answer", exact=True)).to_have_count(1)
    card.locator(".ways span", has_text="Text or JSON").click()
    expect(card.get_by_role("button", name="Answer", exact=True)).to_have_count(1)
    expect(number).to_be_hidden()
    answer.locator("textarea[name=text]").fill("no")
    answer.get_by_role("button", name="Answer").click()
    expect(tab.find("#toasts")).to_contain_text("even if it does not match the schema")
    card.locator(".ways span", has_text="Form").click()
    expect(answer.locator("[name='text:/why']")).to_have_value("because")
    answer.locator("[name='boolean:/ok']").select_option("true")
    answer.get_by_role("button", name="Answer").click()
    tab.waits_for(0)
    (call,) = server.get_session(session_id)["calls"]
    assert call["result"]["content"][0]["text"] == '{"ok": true, "why": "because"}'


def test_without_script_it_is_a_form(new_tab: NewTab, server: Server) -> None:
    tab = new_tab(server, java_script_enabled=False).login()
    tab.goto("/tools/add_event")
    tab.find("[name='text:/title']").fill("plain")
    tab.find("#try-acts button.primary").click()
    tab.page.wait_for_url("**/tools/try/*")
    expect(tab.find(".tryresult")).to_contain_text('"plain"')
    expect(tab.find("[name='text:/title']")).to_have_value("plain")


@pytest.mark.slow
def test_nothing_scrolls_sideways_on_a_narrow_screen(new_tab: NewTab, server: Server) -> None:
    tab = new_tab(server, viewport={"width": 390, "height": 844}).login()
    tab.goto("/tools/add_event")
    tab.find("[data-drawer=inspector]").click()
    tab.find("[name='text:/title']").fill("long" * 200)
    tab.find("#try-acts button.primary").click()
    expect(tab.find(".tryresult")).to_be_visible()
    for summary in tab.find(".trywires summary").all():
        summary.click()
    assert not tab.scrolls_sideways()
