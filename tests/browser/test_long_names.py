"""Names of 64 and 128 letters, as MCP servers give them, widen no column and cover no button."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewTab
from tests.browser.serving import Server

WIDTHS = (1440, 1280, 1024, 390)
LONG, LONGER = "n" * 64, "m" * 128
FILE = "f" * 128 + ".txt"

FIND_TROUBLE = """() => {
  const found = new Map();
  const tell = (what, element) => {
    const { left, right } = element.getBoundingClientRect();
    const size = `${left} to ${right}, ${element.scrollWidth} in ${element.clientWidth}`;
    found.set(element, `${what}: ${element.outerHTML.slice(0, 120)} (${size})`);
  };
  const isShown = (element) => element.checkVisibility({ visibilityProperty: true });
  const all = () => [...document.body.querySelectorAll("*")].filter(isShown);

  // What may scroll sideways, and the forms of editors: their heads reach over both edges.
  const mayScroll = `pre, textarea, input, select, table, svg, iframe, .code, .coder, .diff,
    .wide-table, .editor form, .skip`;
  const closed = document.querySelectorAll(":is(main, #inspector) details:not([open])");
  for (const details of closed) details.open = true;
  for (const element of all().reverse()) {
    const style = getComputedStyle(element);
    if (style.display === "inline" || style.textOverflow === "ellipsis") continue;
    if (element.clientWidth <= 1 || element.closest(mayScroll)) continue;
    if (element.scrollWidth <= element.clientWidth + 4) continue;
    if ([...found.keys()].some((inner) => element.contains(inner))) continue;
    tell("content sticks out", element);
  }
  for (const details of closed) details.open = false;

  const columns = ".list, .scroll, .page, .inspector > section, .offered";
  const low = document.querySelector(".shared #bar")?.getBoundingClientRect().top;  // it stays
  const pressed = "button, a, summary, select, textarea, input:not([type=hidden], .unseen)";
  const dialog = document.querySelector("dialog:modal");  // all around it cannot be pressed
  const within = (element) => !dialog || dialog.contains(element);
  for (const element of all().filter((element) => element.matches(pressed) && within(element))) {
    const box = element.getBoundingClientRect();
    const column = element.closest(columns)?.getBoundingClientRect();
    const x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
    if (!box.width || y < (column?.top ?? 0)) continue;
    if (y > Math.min(column?.bottom ?? Infinity, low ?? innerHeight) - 1) continue;
    const hit = document.elementFromPoint(x, y);
    if (element.contains(hit) || hit?.contains(element)) continue;
    if (element.closest("label")?.contains(hit)) continue;
    tell(`covered by ${hit?.outerHTML.slice(0, 60) ?? "nothing: it is out of sight"}`, element);
  }
  const root = document.scrollingElement;
  if (root.scrollWidth > root.clientWidth) tell("the page scrolls sideways", root);
  return [...found.values()];
}"""

BESIDE_ITS_NAME = """() => {
  const dot = document.querySelector(".card > header .dot").getBoundingClientRect();
  const name = document.createRange();
  name.selectNodeContents(document.querySelector(".card h3"));
  const line = [...name.getClientRects()].find((box) => box.width > 20);
  return dot.top >= line.top - 2 && dot.bottom <= line.bottom + 2 && dot.right <= line.left;
}"""
"""Whether the dot of a card stands in the first line of its name."""


def a_tool(name: str) -> dict[str, object]:
    return {
        "name": name,
        "description": f"Says {name}.",
        "group": name[:100],
        "parameters": {"type": "object", "properties": {LONG: {"type": "string"}}},
        "answered_by": "mock",
        "config": {"result": name},
    }


def named_long(server: Server) -> list[str]:
    """Everything that has a name gets a long one; the pages that show them."""
    for name in (LONG, LONGER):
        server.post("/tools", a_tool(name))
    server.post("/servers", {"name": LONG, "command": "true", "args": [LONGER]})
    server.post("/rules", {"tool": LONGER, "action": "deny", "when": {f"/{LONGER}": LONGER}})
    server.post("/taps", {"title": LONGER, "agent": LONG})
    server.post(f"/taps/{server.post('/taps', {'title': LONGER})['id']}/revoke", {})
    address = {"protocol": "openai_chat", "base_url": "http://127.0.0.1:1/v1", "model": LONGER}
    server.post("/providers", {"name": LONG, **address})
    waits = server.session(
        f"Call {LONGER} and get_weather.",
        [LONG, LONGER, "get_weather"],
        tool_choice=LONG,
        title=LONGER,
        rules=[{"tool": LONG, "action": "ask"}],
    )
    server.post(f"/sessions/{waits}/tags", {"tags": ["g" * 40, "h" * 40]})
    new = server.session("", [LONG], profile=LONG, title=LONG)
    fork = server.post(f"/sessions/{waits}/fork", {"title": LONGER})["id"]
    writes = server.session(
        f'Use write_file with the path "{FILE}" and the content "x"',
        ["write_file"],
        rules=[{"tool": "write_file", "action": "run"}],
    )
    tools = ["/tools", f"/tools/{LONG}", f"/tools/{LONGER}"]
    servers = ["/servers", f"/servers/{LONG}", f"/servers/{LONG}?edit=1"]
    of_session = ["?tab=request", "?tab=code", "/fork", "/forks", "/share", "/rules", "?at=3"]
    of_call = ["/calls/1.0/always", "/fork?call=1.0"]
    return [
        *("/welcome", "/find", "/find?q=n", *tools, "/rules", "/providers", f"/providers/{LONG}"),
        "/agents",
        *(*servers, "/import", "/sessions/import", "/compare/new"),
        *(f"/sessions/{waits}{path}" for path in (*of_session, *of_call)),
        *(
            f"/sessions/{new}",
            f"/sessions/{fork}",
            f"/sessions/{writes}",
            f"/sessions/{writes}/files",
        ),
        f"/compare?session={waits}&session={fork}&view=turns",
        f"/compare?session={waits}&session={fork}&view=live",
    ]


@pytest.mark.slow
def test_long_names_widen_no_column(own_server: Server, new_tab: NewTab) -> None:
    tab = new_tab(own_server).login()
    pages = named_long(own_server)
    trouble = []
    for path in (pages[-1], *pages):
        tab.goto(path)
        for width in WIDTHS:
            tab.page.set_viewport_size({"width": width, "height": 900})
            trouble += [f"{path} at {width}: {what}" for what in tab.page.evaluate(FIND_TROUBLE)]
        expect(tab.find(".htmx-request")).to_have_count(
            0
        )  # who leaves earlier ends it with an error
    assert not trouble, "\n".join(trouble)


def test_the_dot_of_a_card_stands_beside_its_name(server: Server, new_tab: NewTab) -> None:
    server.post("/tools", a_tool(LONG))
    tab = new_tab(server).login()
    tab.open(server.session(f"Call {LONG}.", [LONG])).waits_for(1)
    for width in WIDTHS:
        tab.page.set_viewport_size({"width": width, "height": 900})
        assert tab.page.evaluate(BESIDE_ITS_NAME), width
