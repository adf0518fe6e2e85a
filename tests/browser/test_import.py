"""The import page: files dropped, what was found, and taking it by keyboard."""

from __future__ import annotations

import json

from playwright.sync_api import expect

from tests.browser.tab import Tab

HOSTILE = '<img src=x onerror="alert(1)">\u202e'
TOOLS = [
    {"name": "dropped", "description": HOSTILE, "input_schema": {"type": "object"}},
    {"name": "second", "input_schema": {"type": "object", "properties": {}}},
]
DROP = """([name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name));
  const main = document.querySelector("main");
  for (const kind of ["dragover", "drop"])
    main.dispatchEvent(new DragEvent(kind, {bubbles: true, cancelable: true, dataTransfer: data}));
}"""


def test_a_dropped_file_is_shown_and_taken_by_keyboard(tab: Tab) -> None:
    tab.goto("/import")
    tab.page.evaluate(DROP, ["tools.json", json.dumps(TOOLS)])
    cards = tab.find(".found")
    expect(cards).to_have_count(2)
    expect(cards.first).to_contain_text("onerror")
    expect(cards.first).to_contain_text(r"\u202e")
    expect(tab.find("main img")).to_have_count(0)
    every, on = tab.find("[data-all] input").first, tab.find("[data-all] input").last
    every.uncheck()
    expect(tab.find("[name=take]:checked")).to_have_count(0)
    tab.find("[name=take]").first.focus()
    tab.page.keyboard.press("Space")
    expect(every).to_have_js_property("indeterminate", True)
    expect(tab.find("[name=on]:checked")).to_have_count(0)
    on.check()
    expect(tab.find("[name=on]:checked")).to_have_count(2)
    tab.find("[name='as:0']").focus()
    tab.page.keyboard.press("ControlOrMeta+A")
    tab.page.keyboard.type("picked")
    tab.page.keyboard.press("Enter")
    expect(tab.find("[role=status].done")).to_contain_text("1 tool imported.")
    assert tab.server.script.get("/tools/picked").json()["enabled"] is True
    assert tab.server.script.get("/tools/second").status_code == 404


def test_the_page_fits(tab: Tab) -> None:
    tab.goto("/import")
    long = "x" * 300
    servers = {"mcpServers": {"s": {"command": "npx", "args": [f"/{long}"], "env": {"A": "1"}}}}
    tool = {"name": "n" * 120, "description": long, "input_schema": {"type": "object"}}
    tab.find("textarea").fill(json.dumps({**servers, "tools": [tool]}))
    tab.find("button.primary").click()
    expect(tab.find(".found")).to_have_count(2)
    wide = "document.querySelector('main').scrollWidth - document.querySelector('main').clientWidth"
    for width in (390, 1280):
        tab.page.set_viewport_size({"width": width, "height": 800})
        assert tab.page.evaluate(wide) <= 0
        assert tab.page.evaluate("document.body.scrollWidth - innerWidth") <= 0
