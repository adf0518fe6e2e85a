"""A session as a user lives it: from the definition of a tool to the replay."""

from __future__ import annotations

import json
from threading import Event

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.tab import Tab

LENGTHS = """() => {
  window.lengths = new Set();
  const changes = {subtree: true, childList: true, characterData: true};
  new MutationObserver(() => {
    const text = document.querySelector(".card [id^=text-]");
    if (text) window.lengths.add(text.textContent.length);
  }).observe(document.getElementById("flow"), changes);
}"""

SCHEMA = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("title", "start", "place", "notes")},
    "required": ["title", "start", "place", "notes"],
}


def test_a_tool_is_defined_and_its_arguments_are_seen_growing(
    streaming_tab: Tab, slow_simulator: Event
) -> None:
    tab = streaming_tab
    tab.goto("/tools?new=1")
    tab.find("[name=name]").fill("add_event")
    tab.find("[name=description]").fill("Put one event into the calendar of the user.")
    tab.find(".face .cm-content").fill(json.dumps(SCHEMA, indent=2))
    tab.find("[name=result]").fill("{{title}} is in the calendar.")
    tab.page.get_by_role("button", name="Save").click()
    expect(tab.find("#tool-list [aria-current]")).to_contain_text("add_event")

    tab.find(".top nav a", has_text="Sessions").click()
    tab.find("button[data-do=new], .inline button").first.click()
    tab.find("#tab-setup").click()
    for box in tab.find("#setup input[name=tools]").all():
        box.uncheck()
    tab.find("#set-tools-add_event").check()
    expect(tab.find("#dock")).to_contain_text("1 tool")
    tab.page.evaluate(LENGTHS)
    slow_simulator.set()  # a page on a busy machine sees an answer only now and then
    tab.send('Add an event "Walk along the river with Maria and both dogs" tomorrow at noon.')
    tab.page.wait_for_function("() => window.lengths.size > 1")
    slow_simulator.clear()
    tab.waits_for(1)

    tab.press(tab.card(0), "a")
    tab.state("idle")
    expect(tab.card(0).locator(".result")).to_contain_text("is in the calendar.")


def test_a_first_load_of_a_session_takes_few_requests(server: Server, tab: Tab) -> None:
    icon, requested_urls = f"{server.url}/static/icon.svg", set[str]()
    tab.page.on("request", lambda request: requested_urls.add(request.url))
    with tab.page.expect_request("**/stream?**"):  # the last one
        tab.open(server.session())
    tab.page.wait_for_function("performance.getEntriesByName(location.href)[0].loadEventEnd > 0")
    with_scripts = tab.page.evaluate("performance.getEntriesByType('resource').map((e) => e.name)")
    loaded = {icon, *requested_urls, *with_scripts}
    loaded -= {url for url in loaded if url.startswith("data:")}
    assert [url for url in loaded if "/stream?" in url]
    assert len([url for url in loaded if url.endswith(".css")]) <= 3
    assert len([url for url in loaded if url.endswith(".js")]) <= 5
    assert len(loaded) <= 10, loaded


def test_the_first_minute(own_server: Server, new_tab: NewTab) -> None:
    tab = new_tab(own_server)
    tab.page.goto(own_server.link)
    expect(tab.page).to_have_url(own_server.url + "/")
    tab.find(".demo", has_text="Two calls").click()
    tab.waits_for(2)
    tab.press(tab.card(0), "a")
    tab.waits_for(1)
    tab.press(tab.card(1), "h")
    tab.card(1).locator("textarea[name=text]").fill("Sunny, 20 degrees.")
    tab.card(1).locator("button", has_text="Answer").click()
    tab.state("idle")
    expect(tab.card(1)).to_contain_text("answered")
    expect(tab.card(1).locator(".result")).to_contain_text("Sunny, 20 degrees.")
    expect(tab.find(".part.text").last).to_contain_text("391")


def test_each_wire_row_shows_what_it_produced(server: Server, tab: Tab) -> None:
    tab.open(server.session("What is the weather in Lima?")).waits_for(1)
    expect(tab.find(".wirerow", has_text="is valid")).to_have_count(1)  # the last row that comes
    row = tab.find(".wirerow", has_text="input_json_delta")
    row.hover()
    expect(tab.card(0)).to_have_attribute("data-ui", "marked")
    row.click()
    expect(tab.find("#raw")).to_contain_text("partial_json")
    tab.card(0).hover()
    expect(row).to_have_attribute("data-ui", "marked")


@pytest.mark.slow
def test_the_list_is_searched(server: Server, tab: Tab) -> None:
    session_id = server.session(title="A needle in the hay")
    tab.open(server.session(title="Hay alone"))
    tab.find("#search").fill("needle")
    expect(tab.find("#list .row")).to_have_count(1)
    tab.find("#list .row").click()
    expect(tab.page).to_have_url(f"{server.url}/sessions/{session_id}")


def test_a_schema_problem_is_mended_by_a_click_or_run_by_a_second(server: Server, tab: Tab) -> None:
    prompt = "What is the weather in Oslo? [[fault:args-wrong-types]]"
    tab.open(server.session(prompt)).waits_for(1)
    expect(tab.card(0).locator("mark")).to_have_text("12345")
    tab.card(0).locator("[data-do=fix]").click()
    tab.card(0).locator("button", has_text="Run edited").click()
    tab.state("idle")
    expect(tab.card(0).locator(".result")).to_contain_text("12345")

    tab.open(server.session(prompt)).waits_for(1)
    expect(tab.card(0).locator("button", has_text="Run anyway")).not_to_be_visible()
    tab.press(tab.card(0), "a")
    tab.card(0).locator("button", has_text="Run anyway").click()
    tab.state("idle")
    expect(tab.card(0)).to_contain_text("run anyway by you")


def test_all_at_once_runs_only_what_needs_no_second_look(server: Server, tab: Tab) -> None:
    tab.open(server.session("What is 17*23, and the weather in Paris?")).waits_for(2)
    expect(tab.page).to_have_title("(2) What is 17*23, and the weather in Paris? · playground")
    tab.find("#run-all button").click()
    tab.state("idle")
    expect(tab.page).to_have_title("What is 17*23, and the weather in Paris? · playground")
    expect(tab.find(".card[data-status=done]")).to_have_count(2)


def test_long_arguments_are_decided_only_after_they_were_shown(server: Server, tab: Tab) -> None:
    tab.open(server.session("What is the weather in Oslo? [[fault:args-huge-20000]]")).waits_for(1)
    for key in "ae":
        expect(tab.card(0).locator(f"[data-key={key}]")).to_be_disabled()
    tab.card(0).locator(".more button").click()
    expect(tab.card(0).locator(".args .code")).to_contain_text("abcdefgh" * 2_400)
    tab.press(tab.card(0), "a")
    tab.state("idle")


@pytest.mark.slow
def test_what_was_opened_of_a_result_stays_open_while_its_card_is_drawn_anew(
    server: Server, tab: Tab
) -> None:
    session_id = server.session("What is the weather in Oslo?")
    tab.open(session_id).waits_for(1)
    tab.press(tab.card(0), "h")
    tab.card(0).locator("textarea[name=text]").fill("abcdefgh" * 5_000)
    tab.card(0).locator("button", has_text="Answer").click()
    tab.state("idle")
    result, code_block = tab.card(0).locator("[id^=result-]"), tab.card(0).locator(".result .code")
    expect(code_block).to_have_js_property("textContent.length", 16_000)
    result.locator(".rest a").click()
    expect(code_block).to_have_js_property("textContent.length", 40_000)
    drawn_anew = f"""async () => {{
        const id = document.querySelector(".card").id;
        const swap = {{ target: `#${{id}}`, swap: "outerMorph" }};
        await htmx.ajax("GET", `/sessions/{session_id}/blocks/${{id}}`, swap);
    }}"""
    tab.page.evaluate(drawn_anew)
    expect(code_block).to_have_js_property("textContent.length", 40_000)
    expect(result.locator(".rest")).to_have_count(0)
    result.evaluate("one => one.dataset.of = 'another text'")
    tab.page.evaluate(drawn_anew)
    expect(code_block).to_have_js_property("textContent.length", 16_000)


@pytest.mark.slow
def test_stop_leaves_a_history_that_goes_on(server: Server, tab: Tab) -> None:
    session_id = server.session("Say a lot. [[fault:stall-after-8]]")
    tab.open(session_id).state("running")
    expect(tab.find(".part.text")).to_be_visible()
    tab.page.keyboard.press("Escape")
    tab.state("interrupted")
    expect(tab.find(".turnfoot")).to_contain_text("Stopped")
    tab.send("What is 2+3?")
    tab.waits_for(1)
    tab.press(tab.cards.last, "a")
    tab.state("idle")
    expect(tab.find(".turn").last).to_contain_text("5")


@pytest.mark.slow
def test_a_running_tool_tells_how_far_it_is_and_can_be_cancelled(server: Server, tab: Tab) -> None:
    session_id = server.session("Write a slow report about tides, please.", ("slow_report",))
    tab.open(session_id).waits_for(1)
    tab.press(tab.card(0), "a")
    expect(tab.card(0).locator("progress")).to_be_visible()
    tab.card(0).locator("button", has_text="Cancel").click()
    tab.state("idle")
    expect(tab.card(0).locator(".result.failed")).to_be_visible()


@pytest.mark.slow
def test_replay_plays_pauses_steps_and_ends_where_the_page_was(
    streaming_server: Server, streaming_tab: Tab
) -> None:
    server, tab = streaming_server, streaming_tab
    tab.open(server.session("What is 17*23, and the weather in Paris?")).waits_for(2)
    tab.find("#run-all button").click()
    tab.state("idle")
    full_words = tab.words()
    tab.find("#speed").select_option("8")

    tab.find("#bar .play").click()
    expect(tab.find("#bar .play")).to_have_attribute("aria-label", "Pause")
    expect(tab.find(".card").first).to_be_visible()
    tab.find("#bar .play").click()
    expect(tab.find("#bar .play")).to_have_attribute("aria-label", "Play")
    expect(tab.find(".card button[data-key]")).to_have_count(0)

    here = tab.find("#playhead")
    here.evaluate(
        "e => { e.value = e.max / 3; e.dispatchEvent(new Event('input', {bubbles: true})); }"
    )
    before = here.input_value()
    tab.find("#bar [data-do=forth]").click()
    expect(here).not_to_have_value(before)
    after = here.input_value()
    assert int(after) > int(before)
    tab.find("#bar [data-do=back]").click()
    expect(here).not_to_have_value(after)
    assert int(here.input_value()) <= int(before)

    tab.find("#bar .play").click()
    expect(tab.find("#bar .play")).to_have_attribute("aria-label", "Play")
    assert tab.words() == full_words
    tab.find("[data-do=exit-replay]").click()
    expect(tab.find("#composer")).to_be_visible()
    assert tab.words() == full_words


@pytest.mark.slow
def test_a_copy_that_the_browser_refuses_is_told(server: Server, tab: Tab) -> None:
    tab.goto(f"/sessions/{server.session('What is 1+1?')}?tab=request")
    tab.waits_for(1)
    tab.page.evaluate("void (navigator.clipboard.writeText = () => Promise.reject(new Error()))")
    for button in (".card .args > .copy", "#request .copy"):
        tab.find(button).first.click(force=True)
        refused = tab.find("#toasts").get_by_role("alert")
        expect(refused).to_contain_text("blocked the copy")
        refused.get_by_role("button", name="Dismiss").click()
        expect(refused).to_have_count(0)
        assert tab.find(button).first.get_attribute("data-ui") is None


def test_rename_and_delete_with_undo(server: Server, tab: Tab) -> None:
    session_id = server.session("What is 2+2?")
    tab.open(session_id).waits_for(1)
    tab.find("#more summary").click()
    tab.find("#rename-title").fill("Sums & <b>more</b>")
    tab.find("#rename button").click()
    expect(tab.find("#head h1")).to_have_text("Sums & <b>more</b>")
    expect(tab.find(f"#row-{session_id} b")).to_have_text("Sums & <b>more</b>")

    expect(tab.find("#rename-title")).not_to_be_visible()
    tab.find("#more summary").click()
    tab.find("#head button.danger").click()
    expect(tab.find(f"#row-{session_id}")).to_have_count(0)
    tab.find(".toast button", has_text="Undo").click()
    expect(tab.find("#head h1")).to_have_text("Sums & <b>more</b>")
    expect(tab.find(f"#row-{session_id}")).to_be_visible()


@pytest.mark.slow
def test_what_is_typed_and_the_theme_survive_a_reload(server: Server, new_tab: NewTab) -> None:
    tab = new_tab(server).login().open(server.session())
    tab.find("#prompt").fill("Not sent yet")
    root = tab.find("html")
    tab.find("[data-do=theme]").click()
    expect(root).to_have_attribute("data-theme", "dark")
    tab.page.reload()
    expect(tab.find("#prompt")).to_have_value("Not sent yet")
    expect(root).to_have_attribute("data-theme", "dark")
    tab.send("What is 1+1?")
    tab.waits_for(1)
    expect(tab.find("#prompt")).to_have_value("")
    tab.page.reload()
    expect(tab.find("#prompt")).to_have_value("")
