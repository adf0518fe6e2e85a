"""The page of providers: a test and a list come into their row, and a model into a session."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.tab import Tab


def row(tab: Tab, name: str) -> Locator:
    return tab.find(f'[id="provider-{name}"]')


def test_a_provider_is_tested_listed_and_used(tab: Tab) -> None:
    tab.goto("/providers")
    row(tab, "simulator").get_by_role("button", name="Test").click()
    expect(row(tab, "simulator").locator(".answer")).to_contain_text("It answers.")
    openai = row(tab, "simulator-openai")
    openai.get_by_role("button", name="Models").click()
    expect(openai.locator(".models li")).not_to_have_count(0)
    expect(row(tab, "simulator").locator(".answer")).to_contain_text("It answers.")
    model = openai.locator(".models li").first
    name = model.locator(".mono").inner_text()
    model.get_by_role("button", name="New session").click()
    tab.page.wait_for_url("**/sessions/*")
    lines = tab.server.script.get(tab.page.url.split("?")[0] + "/events").text
    assert f'"model": "{name}"' in lines
    assert '"name": "simulator-openai"' in lines


@pytest.mark.slow
def test_the_list_is_searched_and_a_profile_of_one_s_own_added(tab: Tab) -> None:
    tab.goto("/providers")
    tab.find("#search").fill("mistral")
    expect(row(tab, "mistral")).to_be_visible()
    expect(row(tab, "groq")).not_to_be_visible()
    tab.find("[data-do=new]").click()
    tab.find("[name=base_url]").fill("http://127.0.0.1:9")
    tab.find("[name=protocol]").select_option("ollama")
    expect(tab.find(".of-openai_chat")).not_to_be_visible()
    expect(tab.find("[name=name]")).not_to_be_visible()
    tab.find("button.primary").click()
    own = row(tab, "127.0.0.1:9")
    expect(own.locator("header")).to_contain_text("saved")
    own.get_by_role("button", name="Test").click()
    expect(own.locator(".answer")).to_contain_text("cannot reach 127.0.0.1:9")
    own.get_by_role("link", name="Edit").click()
    tab.find("button.danger").click()
    tab.page.wait_for_url("**/providers")
    expect(own).to_have_count(0)
