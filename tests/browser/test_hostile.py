"""Whatever a model, a tool or a title says is text: no request, no dialog, no element, no act.

The watched tab itself fails on a dialog, a foreign request or a violation of the policy.
"""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server
from tests.browser.tab import Tab
from tests.tables import rest_slow

MARKUP = (
    '<div hx-get="/tools" hx-trigger="load" hx-target="body">x</div>'
    '<hx-partial hx-target="#flow" hx-swap="innerHTML">gone</hx-partial>',
    "![x](https://evil.example/a.png) and [link](javascript:alert(4))"
    " \u202egnp.exe\u202c and zero\u200bwidth \u2066x\u2069",
    "</textarea></script></title><style>*{display:none}</style>",
    '<script>alert(1)</script><img src="https://evil.example/x" onerror=alert(2)>'
    "\"'><b autofocus onfocus=alert(3)>",
)
PAYLOADS = {
    "markup": " ".join(MARKUP),
    "lines": "one\r\ndata: two\n\nevent: grow\rthree\u2028four\x00",
}
HIDDEN = "\u202e\u202c\u200b\u2066\u2069"


def harmless(tab: Tab) -> None:
    """Nothing of a payload became an element or an attribute, and no mark hides or turns text."""
    element = tab.find("#flow :is(script, img, style, b[autofocus], [hx-trigger=load], [onerror])")
    expect(element).to_have_count(0)
    expect(tab.find("#main [href^='javascript:']")).to_have_count(0)
    text = tab.find("#main").inner_text()
    assert not set(text) & set(HIDDEN)


def escaping_tool(payload: str) -> dict[str, object]:
    return {
        "name": "tell",
        "description": payload,
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
        "answered_by": "mock",
        "config": {"result": "Result: " + payload},
    }


@pytest.mark.parametrize("name", rest_slow(PAYLOADS))
def test_a_payload_is_text_everywhere(server: Server, tab: Tab, name: str) -> None:
    payload = PAYLOADS[name]
    title = " ".join(payload.replace("\x00", "").split())
    session_id = server.session(title=title, tools=[escaping_tool(payload)])
    tab.open(session_id)
    tab.send(f'Use tell with the text "{payload}"'.replace("\x00", ""))
    tab.waits_for(1)
    harmless(tab)
    arguments = json.dumps({"text": payload})
    tab.press(tab.card(0), "e")
    tab.card(0).locator("[name=arguments]").fill(arguments)
    tab.card(0).locator("button", has_text="Run edited").click()
    tab.state("idle")
    harmless(tab)
    expect(tab.card(0).locator(".result .code")).to_contain_text("Result: ")
    tab.page.reload()
    harmless(tab)
    call = server.get_session(session_id)["calls"][0]
    assert call["result"]["content"][0]["text"] == "Result: " + payload


@pytest.mark.slow
def test_an_answer_of_html_is_text(server: Server, tab: Tab) -> None:
    session_id = server.session()
    tab.open(session_id)
    faults = {"html-text": "<script>", "fake-call-in-text": "<tool_call>", "sse-injection-text": ""}
    for turns, (fault, word) in enumerate(faults.items(), 1):
        prompt = {"text": f"Say it. [[fault:{fault}]]"}
        server.post(f"/sessions/{session_id}/prompts", prompt)
        expect(tab.find(".part.text")).to_have_count(turns)
        tab.state("idle")
        harmless(tab)
        expect(tab.find(".card")).to_have_count(0)
        shown_text, text = (
            tab.find(".part.text").last.inner_text(),
            server.get_session(session_id)["text"],
        )
        assert word in text
        for literal in ("<script>", "<tool_call>", "data:"):
            assert (literal in shown_text) == (literal in text)


@pytest.mark.parametrize(
    "fault", rest_slow(["tool-odd-name", "args-bidi", "args-ansi", "tool-long-name"], 3)
)
def test_odd_calls_show_what_they_hide(server: Server, tab: Tab, fault: str) -> None:
    tab.open(server.session(f"What is the weather in Rome? [[fault:{fault}]]")).waits_for(1)
    harmless(tab)
    assert not tab.scrolls_sideways()
    if fault == "args-bidi":
        expect(tab.card(0)).to_contain_text("3 hidden characters")
        expect(tab.card(0)).to_contain_text("\\u202e")


def test_the_page_is_not_shown_in_a_frame(server: Server, new_tab: NewTab) -> None:
    tab = new_tab(server).login()
    tab.forgive("frame-ancestors|X-Frame-Options|CSP|chrome-error")
    tab.page.route(
        "**/outside",
        lambda route: route.fulfill(
            content_type="text/html", body=f'<iframe src="{server.url}/welcome"></iframe>'
        ),
    )
    tab.goto("/outside")
    inner = tab.page.frames[-1]
    assert inner != tab.page.main_frame
    expect(inner.locator(".demo, main, form")).to_have_count(0)
