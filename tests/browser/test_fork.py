"""A result is changed in a fork: from the card of its call to the new session, and back."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.serving import Server
from tests.browser.tab import Tab


@pytest.mark.slow
def test_a_result_is_changed_in_a_fork_and_the_parent_says_so(server: Server, tab: Tab) -> None:
    rules = [{"tool": "*", "action": "run"}]
    parent = server.session("What is the weather in Lima?", ["get_weather"], rules=rules)
    tab.open(parent).state("idle")
    output = tab.find("#flow .turn").nth(1).inner_text()
    # By keys alone: the card's menu, and in it the word.
    tab.find(".card .also > summary").press("Enter")
    tab.find(".card .fork > summary").press("Enter")
    # It opens where the reader looks, though the page stood at its end.
    first = tab.find(".card textarea").first
    expect(first).to_be_focused()
    expect(first).to_be_in_viewport(ratio=1)
    expect(tab.find(".card .fork[open] > summary")).to_be_in_viewport(ratio=1)
    result = tab.find(".card textarea[name=results]").first
    expect(result).to_have_value(re.compile("temperature"))
    result.fill("Frogs.")
    tab.find(".card button", has_text="Fork with these results").click()
    tab.page.wait_for_url(lambda url: not url.endswith(parent))
    tab.state("idle")
    expect(tab.find(".card .result")).to_contain_text("Frogs.")
    line = tab.find(".forkline")
    expect(line).to_contain_text(re.compile(r"Forked from What is the weather in Lima\? at call"))
    expect(tab.find(".turn").nth(1)).to_contain_text("Frogs.")
    child = tab.page.url.rpartition("/")[2]
    expect(tab.find(f"#row-{child}")).to_have_attribute("data-depth", "1")
    line.locator("a").click()
    expect(tab.find(".branch")).to_have_text("1 fork")
    assert tab.find("#flow .turn").nth(1).inner_text().startswith(output.split("\n")[0])
    tab.find(".branch").click()
    tab.page.wait_for_url(lambda url: url.endswith(child))
