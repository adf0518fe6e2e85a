"""The line between page and server: reloads, second tabs, a server that dies and comes back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import SEEN, NewTab
from tests.browser.serving import Process, Server
from tests.browser.tab import Held, Tab

LOST = r"ERR_|Failed to load resource|Failed to fetch|network error"

NOTE_CANCEL = """
const cancel = ReadableStreamDefaultReader.prototype.cancel;
ReadableStreamDefaultReader.prototype.cancel = function (...reasons) {
  sessionStorage.setItem("closed", "by the page");
  return cancel.apply(this, reasons);
};
addEventListener("pagehide", () => sessionStorage.setItem("at the end", sessionStorage.closed));
"""


def agrees(tab: Tab, folded: Any) -> None:
    """The page shows the session as the server has it, nothing missing, nothing twice."""
    expect(tab.find(".turn")).to_have_count(folded["turns"])
    names = tab.find(".card h3")
    expect(names).to_have_count(len(folded["calls"]))
    assert names.all_inner_texts() == [call["name"] for call in folded["calls"]]
    expect(tab.find(".part.text").last).to_have_text(folded["text"])
    ids = tab.page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))


def test_a_reload_in_mid_stream_misses_and_doubles_nothing(
    streaming_server: Server, streaming_tab: Tab
) -> None:
    server, tab = streaming_server, streaming_tab
    session_id = server.session("What is 17*23, and the weather in Paris?")
    tab.open(session_id)
    for _ in range(6):
        tab.page.reload()
    tab.waits_for(2)
    agrees(tab, server.get_session(session_id))
    live = tab.words()
    tab.page.reload()
    assert tab.words() == live


@pytest.mark.slow
def test_the_wire_comes_to_who_opens_it_in_mid_stream(
    streaming_server: Server, streaming_tab: Tab
) -> None:
    server, tab = streaming_server, streaming_tab
    session_id = server.session("What is 17*23, and the weather in Paris?")
    urls = list[str]()
    tab.page.on("request", lambda request: urls.append(request.url))
    tab.goto(f"/sessions/{session_id}?tab=setup")
    expect(tab.find(".turn")).to_have_count(1)
    assert tab.find(".wirerow").count() == 0
    with tab.page.expect_request("**/stream?**&wire=1"):
        tab.find("#tab-wire").click()
    expect(tab.find(".wirerow").first).to_be_visible()
    tab.waits_for(2)
    expect(tab.find(".wirerow", has_text="is valid")).to_have_count(2)
    assert ["&wire=1" in url for url in urls if "/stream?" in url] == [False, True]
    rows = [tab.find("#wire").inner_text(), tab.words()]
    tab.page.reload()
    assert [tab.find("#wire").inner_text(), tab.words()] == rows
    agrees(tab, server.get_session(session_id))
    assert "&wire=1" in next(url for url in reversed(urls) if "/stream?" in url)


def test_what_is_decided_in_one_tab_is_seen_in_the_other(server: Server, new_tab: NewTab) -> None:
    session_id = server.session("What is 17*23, and the weather in Paris?")
    tab, other = (new_tab(server).login().open(session_id) for _ in range(2))
    tab.waits_for(2)
    other.waits_for(2)
    tab.press(tab.card(0), "a")
    expect(other.card(0)).to_contain_text("ran")
    expect(other.page).to_have_title("(1) What is 17*23, and the weather in Paris? · playground")
    other.press(other.card(1), "a")
    tab.state("idle")
    other.state("idle")
    assert tab.words() == other.words()
    agrees(tab, server.get_session(session_id))


def test_the_second_decision_on_one_card_is_told_that_it_came_too_late(
    server: Server, tab: Tab
) -> None:
    session_id = server.session("What is the weather in Paris?")
    tab.open(session_id).waits_for(1)
    tab.forgive("409")
    # The page is behind: it does not hear that somebody else was quicker.
    tab.page.evaluate("document.getElementById('stream').remove()")
    tab.page.route("**/stream?**", lambda route: route.abort())
    tab.forgive(LOST)
    call = server.get_session(session_id)["calls"][0]
    decision = {"decision": "deny", "digest": call["digest"]}
    server.post(f"/sessions/{session_id}/calls/{call['id']}/decision", decision)
    tab.press(tab.card(0), "a")
    expect(tab.find(".toast.failed")).to_be_visible()
    assert server.get_session(session_id)["calls"][0]["result"]["kind"] == "denied"


@pytest.fixture
def process(tmp_path: Path, browser: Browser) -> Iterator[Process]:
    process = Process(tmp_path / "playground.db", SEEN)
    yield process
    process.end()


@pytest.mark.slow
def test_a_killed_server_that_comes_back_is_found_and_says_what_it_cut(
    process: Process, new_tab: NewTab
) -> None:
    session_id = process.session("What is 17*23, and the weather in Paris?")
    tab, cut = (new_tab(process).login() for _ in range(2))
    tab.open(session_id).waits_for(2)
    cut.open(process.session("Say a lot. [[fault:stall-after-8]]")).state("running")
    expect(cut.find(".part.text .raw")).not_to_be_empty()
    for item in (tab, cut):
        item.forgive(LOST)
    process.end(signal.SIGKILL)
    expect(tab.find("#offline")).to_be_visible()
    process.start()
    expect(tab.find("#offline")).not_to_be_visible(timeout=30_000)
    tab.press(tab.card(0), "a")
    tab.waits_for(1)
    tab.press(tab.card(1), "a")
    tab.state("idle")
    agrees(tab, process.get_session(session_id))

    cut.state("interrupted")
    expect(cut.find(".part.text")).not_to_be_empty()
    expect(cut.find(".turn")).to_have_count(1)
    cut.find(".turnfoot button", has_text="Retry").click()
    expect(cut.find(".turn")).to_have_count(2)
    cut.find("#head [data-key=escape]").click()
    cut.state("interrupted")


def test_a_page_that_is_left_closes_its_stream_before(server: Server, new_tab: NewTab) -> None:
    tab = new_tab(server, own=True).login()
    tab.page.add_init_script(NOTE_CANCEL)
    tab.open(server.session()).send("What is 17 * 23?")
    tab.waits_for(1)  # told by the stream, so it is there
    tab.goto("/rules")
    assert tab.page.evaluate("sessionStorage['at the end']") == "by the page"


def test_a_page_that_is_left_before_it_has_its_stream_says_nothing_of_it(
    server: Server, tab: Tab
) -> None:
    gate = Held(tab.page, "/stream?**")
    tab.open(server.session())
    gate.arrived(tab.page)
    tab.goto("/rules")  # the tab would note an error on the console


@pytest.mark.slow
def test_a_page_that_stays_after_all_takes_its_stream_up_again(server: Server, tab: Tab) -> None:
    session_id = server.session()
    tab.open(session_id).send("What is 17 * 23?")
    tab.waits_for(1)
    tab.page.evaluate("dispatchEvent(new Event('beforeunload'))")
    tab.press(tab.card(0), "a")
    tab.state("idle")
    agrees(tab, server.get_session(session_id))
