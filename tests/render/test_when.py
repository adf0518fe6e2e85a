from __future__ import annotations

from dataclasses import replace

import pytest

from playground.core.rules import Rule
from playground.web.tools.view import (
    BindingState,
    WhenCalled,
    called_words,
    place_for,
    when_called,
    when_partial,
)
from tests.factories import ASK_ME, WEATHER
from tests.markup import joined_tags
from tests.render.logs import NASTY
from tests.render.page import ENV

RUN = Rule("get_weather", "run", id="r1", bound={"get_weather": "x"})
SAME: BindingState = {"get_weather": "same"}
CHANGED: BindingState = {"get_weather": "changed"}
EVERY = Rule("*", "run", bound={})
NEVER = Rule("*", "deny", words="never")


@pytest.mark.parametrize(
    ("rules", "held_rules", "word"),
    [
        ((), (), "asks"),
        ((RUN,), (SAME,), "runs"),
        ((RUN,), (CHANGED,), "asks"),
        ((replace(RUN, enabled=False),), (SAME,), "asks"),
        ((EVERY,), ({"get_weather": "new"},), "asks"),
        ((EVERY,), (SAME,), "runs"),
        ((NEVER, RUN), (None, SAME), "denied"),
        ((RUN, NEVER), (SAME, None), "runs"),
        # A changed rule asks; it is never passed over for the next one.
        ((RUN, EVERY), (CHANGED, SAME), "asks"),
        ((replace(RUN, when={"/city": "x"}), NEVER), (SAME, None), "denied"),
        ((Rule("get_weather", "ask"), EVERY), (None, SAME), "asks"),
        ((Rule("other", "deny"),), (None,), "asks"),
        ((Rule("get_weather", "answer", "x", bound={}),), (SAME,), "answered by rule"),
        ((Rule("get_weather", "stop"),), (None,), "stops the run"),
    ],
)
def test_what_the_list_says(
    rules: tuple[Rule, ...], held_rules: tuple[BindingState, ...], word: str
) -> None:
    assert called_words(WEATHER, rules, held_rules) == word


def test_a_tool_answered_by_a_person_asks_whatever_runs() -> None:
    assert called_words(ASK_ME, (EVERY,), ({"ask_me": "same"},)) == "asks"
    when = when_called(ASK_ME, (), ())
    assert (when.action, when.choices) == ("ask", ("ask", "answer", "deny"))


@pytest.mark.parametrize(
    ("rules", "held_rules", "action", "stale", "before"),
    [
        ((), (), "ask", False, ""),
        ((RUN,), (SAME,), "run", False, ""),
        ((RUN,), (CHANGED,), "run", True, ""),
        ((NEVER, RUN), (None, SAME), "run", False, "never"),
        ((NEVER,), (None,), "ask", False, "never"),
        ((replace(RUN, enabled=False),), (SAME,), "ask", False, ""),
        ((replace(RUN, when={"/city": "x"}),), (SAME,), "ask", False,
         'run get_weather where /city is "x"'),
        ((Rule("get_weather", "deny", "No."),), (None,), "deny", False, ""),
    ],
)  # fmt: skip
def test_what_the_editor_shows(
    rules: tuple[Rule, ...],
    held_rules: tuple[BindingState, ...],
    action: str,
    stale: bool,
    before: str,
) -> None:
    when = when_called(WEATHER, rules, held_rules)
    assert (when.action, when.stale, when.before) == (action, stale, before)


@pytest.mark.parametrize(
    ("rules", "place"),
    [
        ((), 0),
        ((Rule("other", "run"),), 1),
        ((EVERY,), 0),
        ((Rule("other", "run"), EVERY), 1),
        ((NEVER,), 1),
        ((EVERY, NEVER, EVERY), 2),
    ],
)
def test_a_new_rule_comes_first_but_not_before_what_keeps_back(
    rules: tuple[Rule, ...], place: int
) -> None:
    assert place_for(WEATHER, rules) == place


def test_its_field_in_the_editor() -> None:
    html = when_partial(ENV, WhenCalled("x", "deny", NASTY, before=NASTY))
    assert "<script" not in html
    assert 'value="deny" id="when-deny" checked data-now="deny"' in joined_tags(html)
    assert "has changed since its rule" in when_partial(ENV, WhenCalled("x", "run", stale=True))
