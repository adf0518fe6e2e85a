"""The form for a place in words, and the pieces that say where a session branches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from playground.core.reducer import ForkPoint
from playground.core.tools import Tool
from playground.web.forks import ForkForm, branch_lines, fork_fragment, parent_link, wrote_files
from tests.factories import settings, turn_with_calls
from tests.render.page import ENV, NOW_MS

FORM = ForkForm(
    "s1",
    title="A title",
    own=True,
    name="turn",
    value="2",
    settings=settings(),
    profiles=["simulator"],
)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("prompt", "1", "Replace prompt 1"),
        ("turn", "2", "Repeat turn 2"),
        ("call", "1.0", "Call 1.0 once more"),
        ("seq", "7", "Continue after event 7"),
        ("", "", "Continue from the end"),
    ],
)
def test_each_place_has_its_words(name: str, value: str, words: str) -> None:
    form = replace(FORM, name=name, value=value)
    assert (form.words, "." in form.key) == (words, False)


def test_the_form_says_what_is_not_taken_over() -> None:
    own = fork_fragment(ENV, FORM, NOW_MS)
    assert "a call runs only by a rule for all sessions, or when you approve it" in own
    assert "scratch folder" not in own
    foreign = fork_fragment(ENV, replace(FORM, own=False, files=True), NOW_MS)
    assert "its tools are off until you switch them on" in foreign
    assert "The scratch folder is not copied" in foreign


@pytest.mark.parametrize(("value", "expected"), [(0.5, "0.5"), (2, "2"), (None, ""), ("warm", "")])
def test_the_temperature_is_shown_as_it_is_typed(value: object, expected: str) -> None:
    form = replace(FORM, settings=settings(params={"temperature": value}))
    assert form.temperature == expected


def test_where_it_branches_is_said_once_for_all_that_branch_there() -> None:
    lines = branch_lines(
        ENV,
        {
            ForkPoint("prompt", 2): [("a", "One <b>")],
            ForkPoint("turn", 1): [("b", "Two")],
            ForkPoint("call", 1, "1.0"): [("c", "")],
        },
    )
    assert lines.count("<hx-partial") == 2
    assert 'hx-target="#branches-prompt-2" hx-swap="innerHTML"' in lines
    assert "One &lt;b&gt;" in lines
    assert "2 forks" in lines
    assert "New session" in lines


def test_the_parent_is_named_and_nothing_in_its_title_acts() -> None:
    link = '<a href="/sessions/p">A &lt;b&gt;\\u202e</a>'
    assert parent_link(ENV, "p", "A <b>\u202e") == link
    assert parent_link(ENV) == "a session that does not exist here"


def test_files_are_of_the_workspace_alone() -> None:
    log = turn_with_calls(("get_weather", {"city": "Paris"})).run("1.1")
    assert not wrote_files(log.session())
    session = log.session()
    call = session.call("1.1")
    call.tool = Tool("write_file", answered_by="workspace")
    assert wrote_files(session)
