"""Setup in two tabs, and with fields that cannot be saved."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.tab import APP_MODULES, Held, Tab
from tests.browser.windows import WIDE


@pytest.mark.slow
def test_setup_follows_what_another_tab_changed(server: Server, new_tab: NewTab) -> None:
    session_id = server.session(model="old-model")
    item, two = new_tab(server).login(), new_tab(server).login()
    for tab in (item, two):
        tab.goto(f"/sessions/{session_id}?tab=setup")
    two.find("[name=system]").focus()
    two.page.keyboard.type("Half typ")
    item.find("[name=tool_choice][value=required] + span").click()
    item.find("[name=tools][value=get_weather]").uncheck()
    expect(item.find("#setup")).to_contain_text("Applies to the first request after a prompt")
    expect(two.find("#setup")).to_contain_text("Applies to the first request after a prompt")
    expect(two.find("[name=tools][value=get_weather]")).not_to_be_checked()
    expect(two.find("#allowed code")).to_have_text(["calculator"])
    # What is half typed stays, with the cursor in it, and takes back nothing of the other tab.
    two.page.keyboard.type("ed.")
    two.find("#limits > summary").click()
    two.find("[name=max_turns]").fill("3")
    two.find("[name=max_turns]").blur()
    expect(item.find("[name=system]")).to_have_value("Half typed.")
    expect(item.find("[name=max_turns]")).to_have_value("3")
    # A field that has the focus shows what holds, too, where nothing was typed into it.
    two.find("[name=model]").focus()
    item.find("[name=profile]").select_option("simulator-gemini")
    for tab in (item, two):
        expect(tab.find("[name=profile]")).to_have_value("simulator-gemini")
        expect(tab.find("[name=model]")).to_have_value("")
    item.find("[name=stream]").uncheck()
    expect(two.find("[name=stream]")).not_to_be_checked()
    changes = [
        line
        for line in server.script.get(f"/sessions/{session_id}/events").text.splitlines()
        if "settings_changed" in line
    ]
    assert '"model": ""' in changes[-1]
    assert '"max_turns": 3' in changes[-1]
    assert "Half typed." in changes[-1]


@pytest.mark.slow
def test_a_field_that_cannot_be_saved_is_marked_and_holds_up_nothing(
    server: Server, tab: Tab
) -> None:
    tab.forgive("status of 422")
    session_id = server.session()
    tab.goto(f"/sessions/{session_id}?tab=setup")
    error_row, field = tab.find("#setup .wrong"), tab.find("[name=temperature]")
    field.fill("warm")
    field.blur()
    expect(error_row).to_have_text("temperature must be a number, not 'warm'.")
    expect(field).to_have_attribute("aria-invalid", "true")
    for _ in range(3):
        tab.find("[name=stream]").click()
        expect(tab.find("#toasts")).to_be_empty()
    tab.find("#limits > summary").click()
    tab.find("[name=max_turns]").fill("4")
    tab.find("[name=max_turns]").blur()
    expect(tab.find("#dock")).to_contain_text("max 4 turns")
    # Not even what somebody else puts there takes it away unseen.
    server.post(f"/sessions/{session_id}/settings", {"params": {"temperature": 0.9}, "model": "m9"})
    expect(tab.find("[name=model]")).to_have_value("m9")
    expect(field).to_have_value("warm")
    tab.page.evaluate(
        f"""async () => {{
          const {{ say }} = (await {APP_MODULES}).toasts_js;
          for (const words of ["Refused.", "Refused.", "Refused. ".repeat(20)]) say(words);
        }}"""
    )
    expect(tab.find("#toasts .toast")).to_have_count(2)
    for width in (1440, 1000, 700, 390):
        tab.page.set_viewport_size({"width": width, "height": 800})
        toasts, send = (tab.find(literal).bounding_box() for literal in ("#toasts", "#dock button"))
        assert toasts is not None
        assert send is not None
        beside = send["x"] + send["width"] <= toasts["x"]
        assert beside or toasts["y"] + toasts["height"] <= send["y"], width
    tab.page.set_viewport_size(WIDE)
    expect(field).to_have_value("warm")
    expect(error_row).to_have_count(1)
    field.fill("0.5")
    field.blur()
    expect(error_row).to_have_count(0)
    expect(tab.find("#toasts .toast")).to_have_count(0)
    expect(field).not_to_have_attribute("aria-invalid", "true")
    tab.page.reload()
    expect(field).to_have_value("0.5")
    expect(tab.find("[name=stream]")).not_to_be_checked()


@pytest.mark.slow
def test_what_is_ticked_while_a_change_is_on_its_way_counts(server: Server, tab: Tab) -> None:
    session_id = server.session()
    tab.goto(f"/sessions/{session_id}?tab=setup")
    gate = Held(tab.page, "/settings")
    box = tab.find("[name=stream]")
    box.click()
    gate.arrived(tab.page)
    box.click()  # back to what the server last agreed to, and a change all the same
    base = tab.find("#set-base").input_value()
    answer = gate.routes[0].fetch()
    expect(tab.find("#set-base")).not_to_have_value(base)  # the stream is quicker than the answer
    gate.routes[0].fulfill(response=answer)
    with tab.page.expect_response("**/settings"):  # a page that is left would take it back
        gate.pass_on(tab.page, 1)
    stream = ["stream=on" in (route.request.post_data or "") for route in gate.routes]
    assert stream == [False, True]
    tab.page.unroute("**/settings")
    expect(box).to_be_checked()
    tab.page.reload()
    expect(box).to_be_checked()
