"""Times that run in the page: the wait for a retry, for the first byte, and an answer's silence."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.tab import Tab


@pytest.mark.slow
def test_a_retry_is_counted_down_made_at_once_and_cancelled(server: Server, tab: Tab) -> None:
    tab.open(server.session("[[fault:http-429-retry-30]] hello"))
    expect(tab.find(".retrying")).to_contain_text("(1 of 2): 429")
    expect(tab.find("#head .state")).to_contain_text("waiting to retry")
    expect(tab.find(".retrying time")).to_have_text(re.compile(r"^[12]?\d s$"))
    tab.page.set_viewport_size({"width": 390, "height": 800})
    assert not tab.scrolls_sideways()
    tab.find(".turnfoot button", has_text="Retry now").click()
    expect(tab.find(".turn")).to_have_count(2)
    expect(tab.find(".turn.dropped")).to_have_count(1)
    expect(tab.find(".turn").last.locator(".retrying")).to_contain_text("(1 of 2): 429")
    tab.find(".turnfoot button", has_text="Cancel").click()
    tab.state("failed")
    expect(tab.find(".retrying")).to_have_count(0)
    expect(tab.find(".turnfoot button.primary")).to_have_text("Retry")


@pytest.mark.slow
def test_the_waits_for_an_answer_are_counted(server: Server, new_tab: NewTab) -> None:
    for fault, arrived, words in (
        ("stall-headers", "request", r"^Waiting for the first byte… [1-5]\d s of 60 s$"),
        ("stall-after-6", "text_delta×3", r"^silent for [1-5]\d s of 60 s$"),
    ):
        tab = new_tab(server, own=True).login()  # a clock of its own, not ahead of the server's yet
        tab.page.clock.install()
        tab.open(server.session(f"[[fault:{fault}]] What is 17 * 23?"))
        wait = tab.find(".turnfoot .wait").last
        expect(tab.find("#wirerows-1")).to_contain_text(arrived)
        tab.page.clock.run_for(500)
        tab.page.clock.fast_forward(11_000)
        expect(wait).to_have_text(re.compile(words))
        tab.forgive("htmx:sse:error")  # the reload may meet its stream as it is being opened
        tab.page.reload()  # what was waited already still counts
        tab.page.clock.run_for(500)
        expect(wait).to_have_text(re.compile(words))
        tab.find("#head button", has_text="Stop").click()
        tab.state("interrupted")
