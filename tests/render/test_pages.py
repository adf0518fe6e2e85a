from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import pytest

from playground.core.events import Logged
from playground.exchange.tool_export import WireForm
from playground.protocols.lint import Assessment, Finding, ToolAcceptance
from playground.render.environment import error_page, toast
from playground.render.view import SessionRow
from playground.schema.outline import outline
from playground.store.library import LibraryEntry, Version
from playground.web.session.view import SessionPageContext, session_page
from playground.web.session_list import list_fragment, welcome_page
from playground.web.tools.editor import (
    Editor,
    OfferedFix,
    ToolCheck,
    ToolForm,
    tool_form,
)
from playground.web.tools.view import (
    EditorContext,
    tools_page,
)
from tests.factories import ADD_EVENT, ASK_ME, SIMULATOR, WEATHER
from tests.render.logs import NASTY, STORIES
from tests.render.page import ENV, NOW_MS, Live, Node, parse, roots

ROWS = [
    SessionRow(
        "a", title=NASTY, state="waiting", updated_ms=NOW_MS - 1000, model=NASTY, calls=3, waiting=2
    ),
    SessionRow("b", "", "idle", NOW_MS - 10**9),
]
AROUND = SessionPageContext((SIMULATOR,), {}, (WEATHER, ADD_EVENT, ASK_ME), "setup", "e-17")

NESTED = {
    "type": "object",
    "properties": {
        NASTY: {"type": "array", "items": {"type": "object", "properties": {NASTY: True}}},
        "b": {"type": "string", "enum": [NASTY], "default": NASTY, "description": NASTY},
    },
}
YES = Assessment("yes", NASTY)
EDITOR = Editor(
    tool_form(ADD_EVENT),
    "add_event",
    check=ToolCheck(
        [
            Finding(
                "refused",
                message=NASTY,
                pointer=f"/parameters/{NASTY}",
                protocol="gemini",
                family=NASTY,
                source=NASTY,
                inferred=True,
                fix="gemini",
            ),
            Finding("weak", NASTY, "", source="https://a.example/"),
        ],
        [ToolAcceptance("gemini", YES, YES, YES, YES)],
        17,
        [WireForm("gemini", NASTY, [NASTY]), WireForm("ollama", "", [NASTY])],
    ),
    fixed=OfferedFix("strict", [("+", NASTY), ("-", NASTY), (" ", ""), ("@", "@@")], [NASTY]),
)
ENTRY = LibraryEntry(ADD_EVENT, False, False, 2, NOW_MS)
NEAR = EditorContext(
    [
        ENTRY,
        LibraryEntry(ASK_ME, shipped=True),
        LibraryEntry(replace(ASK_ME, name="b", group=NASTY)),
    ],
    {"add_event": 2},
    ENTRY,
    [Version(2, ADD_EVENT, NOW_MS), Version(1, ASK_ME, 0)],
    [("ours", NASTY)],
    now_ms=NOW_MS,
)


def story_page(events: list[Logged]) -> str:
    live = Live(events)
    live.go(len(events))
    return session_page(ENV, live.view, AROUND)


PAGES: dict[str, Callable[[], str]] = {
    "welcome": lambda: welcome_page(ENV, ROWS, NOW_MS),
    "welcome-empty": lambda: welcome_page(ENV, [], NOW_MS),
    "tools": lambda: tools_page(ENV, EDITOR, NEAR),
    "tools-form": lambda: tools_page(ENV, replace(EDITOR, rows=outline(NESTED)), NEAR),
    "tools-python": lambda: tools_page(
        ENV, replace(EDITOR, form=replace(EDITOR.form, face="python"), lossy=(NASTY,)), NEAR
    ),
    "tools-wrong": lambda: tools_page(
        ENV,
        Editor(
            ToolForm(name=NASTY, parameters=NASTY, answered_by="mcp", server=NASTY),
            errors={"name": NASTY, "": NASTY, "parameters": NASTY},
            line=3,
            check=ToolCheck(problem=NASTY, pointer="/parameters"),
        ),
        EditorContext(deleted="add_event"),
    ),
    "error": lambda: error_page(ENV, 409, "Too late", NASTY, "/sessions/s1"),
    **{name: partial(story_page, events) for name, events in STORIES.items()},
}
"""Drawn when a test asks: a worker that runs none of these draws none."""


@cache
def page_of(name: str) -> str:
    return PAGES[name]()


def tree(name: str) -> Node:
    return parse(re.sub(r"^<!doctype html>", "", page_of(name)))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_well_formed_and_holds_no_markup_from_data(name: str) -> None:
    page_of(name).encode("utf-8")
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
    assert stream.attributes["hx-sse:connect"] == "/stream?session=s1&after=e-17&rules=0"


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
