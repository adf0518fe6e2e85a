from __future__ import annotations

import re

import pytest

from app.core.tools import Tool
from app.render.pages import (
    Surroundings,
    ToolForm,
    error_page,
    list_fragment,
    raw_bytes,
    session_page,
    toast,
    tool_form,
    tools_page,
    welcome_page,
)
from app.render.view import SessionRow
from tests.factories import ADD_EVENT, ASK_ME, SIMULATOR, WEATHER
from tests.render.logs import NASTY, STORIES
from tests.render.page import ENV, NOW_MS, Live, Node, parse, roots

ROWS = [
    SessionRow("a", NASTY, "waiting", NOW_MS - 1000, NASTY, 3, 2),
    SessionRow("b", "", "idle", NOW_MS - 10**9),
]
AROUND = Surroundings((SIMULATOR,), {}, (WEATHER, ADD_EVENT, ASK_ME), "setup", 17)


def pages() -> dict[str, str]:
    made = {
        "welcome": welcome_page(ENV, ROWS, NOW_MS, [("weather", NASTY, NASTY)]),
        "welcome-empty": welcome_page(ENV, [], NOW_MS, []),
        "tools": tools_page(ENV, [WEATHER, ADD_EVENT], tool_form(ADD_EVENT), "add_event"),
        "tools-wrong": tools_page(
            ENV, [], ToolForm(name=NASTY, parameters=NASTY), "", {"name": NASTY, "": NASTY}, 3
        ),
        "error": error_page(ENV, 409, "Too late", NASTY, "/sessions/s1"),
    }
    for name, events in STORIES.items():
        live = Live(events)
        live.go(len(events))
        made[name] = session_page(ENV, live.view, AROUND)
    return made


PAGES = pages()


def tree(name: str) -> Node:
    return parse(re.sub(r"^<!doctype html>", "", PAGES[name]))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_well_formed_and_holds_no_markup_from_data(name: str) -> None:
    PAGES[name].encode("utf-8")
    page = tree(name)
    scripts = [node for node in page.walk() if node.name == "script"]
    assert all(
        node.attributes["src"].startswith("/static/") and not node.children for node in scripts
    )
    assert not any("style" in node.attributes or node.name == "style" for node in page.walk())
    assert not any(key.startswith("on") for node in page.walk() for key in node.attributes)
    assert not any(node.name.startswith("hx-") for node in page.walk())
    assert "{{ 7 * 7 }}" in page.text or NASTY[:8] not in page.text


@pytest.mark.parametrize("name", PAGES)
def test_a_page_can_be_used_without_seeing_it(name: str) -> None:
    page = tree(name)
    ids = [node.attributes["id"] for node in page.walk() if "id" in node.attributes]
    assert len(ids) == len(set(ids))
    wrapped = {id(inner) for node in page.walk() if node.name == "label" for inner in node.walk()}
    labelled = {
        n.attributes["for"] for n in page.walk() if n.name == "label" and "for" in n.attributes
    }
    for node in page.walk():
        a = node.attributes
        if node.name in ("input", "textarea", "select") and a.get("type") != "hidden":
            named = "aria-label" in a or a.get("id") in labelled or id(node) in wrapped
            assert named, node.attributes
        if node.name == "button":
            assert node.text.strip() or a.get("aria-label"), a
        if node.name == "form":
            assert a.get("action") or a.get("method") == "dialog", a


def test_the_page_says_where_its_stream_begins() -> None:
    stream = tree("waiting").find("stream")
    assert stream is not None
    assert stream.attributes["hx-sse:connect"] == "/stream?session=s1&after=17"


def test_the_tool_form_round_trips() -> None:
    tool = Tool(
        "t", "d", {"type": "object"}, "python", {"file": "f.py", "function": "g"}, timeout_s=1.5
    )
    form = tool_form(tool)
    assert (form.file, form.function, form.timeout_s) == ("f.py", "g", "1.5")
    page = parse(tools_page(ENV, [tool], form, "t").removeprefix("<!doctype html>"))
    parameters = page.find("parameters")
    assert parameters is not None
    assert parameters.text == '\n{\n  "type": "object"\n}'


def test_the_list_outside_a_session() -> None:
    (root,) = roots(list_fragment(ENV, ROWS, NOW_MS, here="a"))
    assert root.attributes["id"] == "list"
    assert [n.attributes.get("aria-current") for n in root.walk() if n.name == "a"] == [
        "page",
        None,
    ]
    assert "Nothing matches “x”" in list_fragment(ENV, [], NOW_MS, "x")


def test_small_pieces() -> None:
    (partial,) = roots(toast(ENV, NASTY, undo="/sessions/a/restore"))
    assert partial.attributes == {"hx-target": "#toasts", "hx-swap": "beforeend"}
    assert "/sessions/a/restore" in str(partial)
    assert "\\u0000\ufffd" in raw_bytes(ENV, b"\x00\xff", 7)
