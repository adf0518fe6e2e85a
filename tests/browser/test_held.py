"""Calls that are held for an agent, as a user decides them while it waits."""

from __future__ import annotations

import json
from queue import Queue
from threading import Thread
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.test_decisions import opened

WEATHER: Any = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def ask(url: str, prompt: str) -> str:
    """All that an agent gets for its request, whenever that is over."""
    body = {
        "model": "simulator",
        "max_tokens": 1000,
        "stream": True,
        "tools": [WEATHER],
        "messages": [{"role": "user", "content": prompt}],
    }
    headers = {"anthropic-version": "2023-06-01", "x-api-key": "none"}
    return httpx.post(f"{url}/v1/messages", json=body, headers=headers, timeout=60).text


@pytest.mark.slow
def test_three_held_calls_one_edited_one_denied_one_as_it_is(
    own_server: Server, new_tab: NewTab
) -> None:
    result = own_server.post("/taps", {"agent": "claude"})
    tab = new_tab(own_server, own=True).login()
    tab.goto("/agents")
    tab.find(f"#stop-calls-{result['id']}").click()
    expect(tab.find(f"#stop-calls-{result['id']}")).to_have_attribute("aria-pressed", "true")
    expect(tab.find(f"#stops-{result['id']}")).to_contain_text("whatever the rules say")
    prompt = "What is the weather in Oslo? [[fault:parallel-3]]"
    got: Queue[str] = Queue()
    url = result["urls"]["anthropic"]
    # Where this fails, it waits for ever.
    Thread(target=lambda: got.put(ask(url, prompt)), daemon=True).start()
    tab.find("#taps a", has_text="What is the weather").click()
    tab.waits_for(3)
    expect(tab.find("#head")).to_contain_text("stops at: every call")
    expect(tab.card(0)).to_contain_text("Held for Claude Code. It gets this call when all 3")
    expect(tab.card(0)).to_contain_text("Claude Code times out in 29:")
    edit = opened(tab.card(0), "Edit…")
    edit.locator("[name=arguments]").fill('{"city": "Rome"}')
    edit.locator("button", has_text="Let it run edited").click()
    expect(tab.card(0)).to_contain_text("decided · waits for the other calls")
    expect(tab.card(0)).to_contain_text("The agent runs the edited arguments.")
    deny = opened(tab.card(1), "Deny…")
    deny.locator("[name=text]").fill("Not there.")
    deny.locator("[name=model_reads][value=false]").check()  # by default the model reads it, later
    deny.locator("button", has_text="Deny").click()
    expect(tab.card(1)).to_contain_text("Not there.")
    assert got.empty()
    tab.press(tab.card(2), "a")
    answer = got.get(timeout=30)
    for number in (0, 2):
        expect(tab.card(number)).to_contain_text("running at the agent")
    frames = [json.loads(line[6:]) for line in answer.splitlines() if line.startswith("data: ")]
    begun = [frame["content_block"] for frame in frames if "content_block" in frame]
    assert [block["type"] for block in begun].count("tool_use") == 2
    assert [word in answer for word in ("Rome", "Not there.")] == [True, True]
