"""The rows of a schema's form in a browser: undone, pressed fast, where the focus is, mended."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.serving import Server
from tests.browser.tab import Held, Tab
from tests.browser.test_tools import FACE, saved

INNER = {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "integer"}}}


def names(tab: Tab) -> list[str]:
    """What the rows are called, at one moment: they may be drawn again between two looks."""
    field_values: list[str] = tab.find("#rows [id$='.name']").evaluate_all(
        "fields => fields.map(field => field.value)"
    )
    return field_values


@pytest.mark.slow
def test_a_change_of_type_is_undone_with_all_that_was_in_it(server: Server, tab: Tab) -> None:
    saved(server, "retype", parameters={"type": "object", "properties": {"o": INNER}})
    tab.goto("/tools/retype?face=form")
    tab.forgive("beforeunload")
    tab.find("[id='1.type']").select_option("string")
    expect(tab.find("[id='2.name']")).to_have_count(0)
    tab.find("#undo").click()
    expect(tab.find("[id='1.type']")).to_have_value("object")
    expect(tab.find("[id='3.name']")).to_have_value("y")
    expect(tab.find("#undo")).to_be_hidden()
    assert names(tab) == ["o", "x", "y"]


def test_the_focus_is_never_lost(server: Server, tab: Tab) -> None:
    rows = {"a": {"type": "array"}, "b": {"type": "string"}, "c": {"type": "string"}}
    saved(server, "focus_me", parameters={"type": "object", "properties": rows})
    tab.goto("/tools/focus_me?face=form")
    tab.forgive("beforeunload")
    for pressed, there in [
        ("1.add", "2.type"),
        ("2.remove", "1.add"),
        ("2.up", "1.down"),  # at the top there is no way up
        ("2.down", "3.up"),
    ]:
        tab.find(f"[id='{pressed}']").focus()
        tab.page.keyboard.press("Enter")
        expect(tab.find(f"[id='{there}']")).to_be_focused()


@pytest.mark.slow
def test_a_refusal_goes_when_what_it_is_about_is_mended(server: Server, tab: Tab) -> None:
    saved(server, "mend_me")
    tab.goto("/tools/mend_me")
    tab.forgive("422|beforeunload")
    seconds = tab.find("[name=timeout_s]")
    seconds.fill("soon")
    tab.page.keyboard.press("Control+s")
    expect(tab.find("#timeout_s-error")).to_be_visible()
    seconds.fill("5")
    expect(tab.find("#timeout_s-error")).to_have_count(0)
    expect(tab.find("[name=timeout_s][aria-invalid]")).to_have_count(0)
    tab.find(FACE).fill('{"type": }')
    tab.page.keyboard.press("Control+s")
    expect(tab.find("#parameters-error")).to_be_visible()
    tab.find(FACE).fill('{"type": "object"}')
    expect(tab.find("#parameters-error")).to_have_count(0)
    expect(tab.find("#parameters[aria-invalid]")).to_have_count(0)


@pytest.mark.slow
def test_what_is_pressed_fast_is_done_in_turn(server: Server, tab: Tab) -> None:
    rows = {name: {"type": "string"} for name in "abcd"}
    saved(server, "fast", parameters={"type": "object", "properties": rows})
    tab.goto("/tools/fast?face=form")
    tab.forgive("beforeunload")
    gate = Held(tab.page, "/tools/faces")

    def twice(selector: str, after: list[str]) -> None:
        number = len(gate.routes)
        tab.find(selector).evaluate("one => { one.click(); one.click(); }")
        gate.pass_on(tab.page, number)
        if selector != "[id='1.remove']":
            gate.pass_on(tab.page, number + 1)
        expect(tab.find("#rows [id$='.name']")).to_have_count(len(after))
        expect(tab.find(f"[id='1.name'][value='{after[0]}']")).to_be_attached()
        assert names(tab) == after

    twice("[id='3.up']", ["c", "a", "b", "d"])  # the row, and not the number
    twice("[id='0.add']", ["c", "a", "b", "d", "field", "field_2"])
    twice("[id='1.remove']", ["a", "b", "d", "field", "field_2"])  # gone, and not the next one
    twice("#undo", ["c", "a", "b", "d", "field"])
