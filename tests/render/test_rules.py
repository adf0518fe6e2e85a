"""Rules as rows and as a form: what the form shows for a rule reads back as that rule."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.core.errors import BadInput
from playground.core.rules import ACTIONS, Rule
from playground.web.rules_view import (
    TEMPLATES,
    WORDS,
    RuleForm,
    RuleList,
    RulesPage,
    TestLine,
    form_data,
    preview_rule,
    read_value,
    rule_form,
    rule_rows,
    rules_page,
    rules_panel,
)
from tests.render.page import ENV

TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["3", "true", '"x"', "[1]", "a, b", " x ", "", "\n", "null", "{", "1e400"]),
)
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False, width=32)),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
).filter(lambda value: "inf" not in repr(value))
TESTS = st.one_of(
    st.builds(lambda value: {"equals": value}, VALUES),
    st.builds(lambda value: {"prefix": value}, TEXTS),
    st.builds(lambda value: {"glob": value}, TEXTS),
    st.builds(lambda values: {"one_of": values}, st.lists(VALUES, max_size=3)),
)


@settings(derandomize=True, deadline=None)
@given(st.dictionaries(st.sampled_from(["", "/a", "/b~1c"]), TESTS, max_size=3))
def test_the_form_reads_back_as_the_rule(when: dict[str, Any]) -> None:
    data = form_data(rule_form(Rule("x", "deny", when=when)))
    assert repr(data["when"]) == repr(when)


@pytest.mark.parametrize(
    ("test", "text", "value"),
    [
        ("equals", "Paris", "Paris"),
        ("equals", "3", 3),
        ("equals", '"3"', "3"),
        ("equals", "[1", "[1"),
        ("prefix", "12", "12"),
        ("prefix", '"a\\nb"', "a\nb"),
        ("one_of", "Paris, 3", ["Paris", 3]),
        ("one_of", '["Paris", 3]', ["Paris", 3]),
    ],
)
def test_how_a_value_is_read(test: str, text: str, value: Any) -> None:
    assert read_value(test, text) == value


@pytest.mark.parametrize(
    ("tests", "message"),
    [
        ([TestLine("", "equals", "x")], "Name the argument to compare with 'x'"),
        ([TestLine("/a", "equals", "")], "Enter a value to compare /a with"),
        ([TestLine("/a", "equals", "1"), TestLine("/a", "glob", "2")], "Duplicate test for /a"),
    ],
)
def test_half_a_test_is_refused(tests: list[TestLine], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        form_data(RuleForm(tests=tuple(tests), does="deny"))


def test_what_belongs_to_another_action_is_left_out() -> None:
    form = RuleForm(reason="no", answer="yes", is_error=True, fault_run="slow", fault_answer="x")
    expected = {
        "run": {"fault": "slow"},
        "answer": {"text": "yes", "is_error": True, "fault": "x"},
        "deny": {"text": "no"},
    }
    for action in ACTIONS:
        data = form_data(RuleForm(**{**vars(form), "does": action}))
        answer_fields = {k: v for k, v in data.items() if k in ("text", "is_error", "fault")}
        assert answer_fields == expected.get(action, {}), action
    assert set(WORDS) == set(ACTIONS)


def test_what_a_binding_says() -> None:
    names = {"a": "same", "b": "same", "c": "changed", "d": "new", "e": "gone"}
    many = {str(number): "same" for number in range(9)}
    rules = [Rule("*", "run"), Rule("*", "run"), Rule("*", "run"), Rule("*", "deny")]
    rows = rule_rows(rules, [names, many, {}, None], 5)
    assert [row.number for row in rows] == [5, 6, 7, 8]
    assert [row.last for row in rows] == [False, False, False, True]
    assert [row.holds for row in rows] == [
        "applies to a and b",
        "applies to 0, 1, 2, 3, 4 and 4 more tools",
        "applies to no tool now",
        "",
    ]
    message = "changed since, needs approval: c; added since, needs approval: d; not available: e"
    assert [row.asks for row in rows] == [message, "", "", ""]
    assert [row.stale for row in rows] == [True, False, False, False]


@pytest.mark.parametrize(
    ("first", "rule", "shadowed"),
    [
        (Rule("*", "ask"), Rule("a", "run"), True),
        (Rule("a", "ask"), Rule("a", "run", when={"/x": 1}), True),
        (Rule("*", "ask", source="mcp"), Rule("*", "run", source="mcp:files"), True),
        (Rule("*", "ask", read_only=True), Rule("a", "run", read_only=True), True),
        (Rule("*", "ask", enabled=False), Rule("a", "run"), False),
        (Rule("*", "ask", when={"/x": 1}), Rule("a", "run"), False),
        (Rule("b", "ask"), Rule("a", "run"), False),
        (Rule("b", "ask"), Rule("*", "run"), False),
        (Rule("*", "ask", read_only=True), Rule("a", "run"), False),
        (Rule("*", "ask", source="mcp:files"), Rule("*", "run", source="mcp"), False),
    ],
)
def test_a_rule_that_never_decides_is_told(first: Rule, rule: Rule, shadowed: bool) -> None:
    rule_preview = preview_rule(rule, 2, rule_rows([first], [None]), ["a"])
    assert rule_preview.sentence.startswith("Rule 2: run ")
    assert any("has no effect" in note for note in rule_preview.notes) is shadowed


def test_words_that_lie_stand_beside_what_the_rule_says() -> None:
    rule_preview = preview_rule(Rule("a", "run", words="deny everything"), 1, (), [])
    assert rule_preview.sentence == "Rule 1: deny everything"
    assert rule_preview.notes[-1] == "Without the note: run a."
    rows = rule_rows([Rule("a", "run", words="deny everything", id="1")], [{}])
    page = rules_page(ENV, RulesPage([RuleList("/rules", rows)]))
    assert "deny everything" in page
    assert "Rule: run a" in page


def test_markup_and_hidden_characters_are_text() -> None:
    bad = "<script>x</script>\u202e"
    rule = Rule(
        bad,
        action="answer",
        text=bad,
        words=bad,
        id="1",
        source=f"mcp:{bad}",
        when={f"/{bad}": bad},
    )
    rows = rule_rows([rule], [{bad: "changed"}])
    page = RulesPage(
        [RuleList("/rules", rows, "", own=True), RuleList("/rules", rows, "", own=False)],
        form=rule_form(rule),
        title=bad,
    )
    for html in (rules_page(ENV, page), rules_panel(ENV, page)):
        assert "<script>x" not in html
        assert "\\u202e" in html


def test_every_template_is_a_rule() -> None:
    for _, _, rule in TEMPLATES.values():
        data = form_data(rule_form(rule))
        assert Rule(**data) == rule


def test_long_values_are_cut_on_the_line_and_whole_in_the_form() -> None:
    long = "x" * 20_000
    rule = Rule("a", "deny", long, "", "1", when={"/a": {"equals": long}})
    page = RulesPage([RuleList("/rules", rule_rows([rule], [None]))], form=rule_form(rule))
    html = rules_page(ENV, page)
    assert html.count(long) == 2
    assert len(html) < 60_000
