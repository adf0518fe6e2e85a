from __future__ import annotations

from dataclasses import replace

import pytest

from playground.core.events import CallChecked, CallDecided, CallInterrupted, CallStarted
from playground.core.rule_proposals import Proposal, proposal
from playground.core.rules import Rule, base_of, content_hash
from playground.web.rules_view import (
    RuleChoice,
    RulePanel,
    explain_rule,
    explanation_html,
    fingerprint,
    panel_html,
    rule_panel,
    unasked_words,
)
from tests.factories import DIGEST, WEATHER, Log, turn_with_calls
from tests.render.logs import NASTY
from tests.render.page import ENV, roots

READS = Rule("*", "run", id="r1", read_only=True)
PARIS = {"": {"equals": {"city": "Paris"}}}


def two() -> Log:
    return turn_with_calls(("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"}))


def panel_and_proposal(
    choice: RuleChoice, *there: Rule, log: Log | None = None
) -> tuple[RulePanel, Proposal]:
    session = (log or two()).session()
    call = session.call("1.1")
    always = choice.scope == "always"
    offered = proposal(
        session,
        call=call,
        rules=there,
        action=choice.action,
        exact=choice.exact,
        scope_rules=there,
        always=always,
    )
    return rule_panel(session, call, choice, offered, there), offered


@pytest.mark.parametrize(
    ("choice", "there", "words", "line"),
    [
        (RuleChoice(), (), "Rule 1 of this session: run get_weather",
         "It decides this call now, and 1 waiting call: 1.2."),
        (RuleChoice(exact=True), (),
         'Rule 1 of this session: run get_weather where the arguments are {"city": "Paris"}',
         "It decides this call now, and no other waiting call."),
        (RuleChoice("deny", scope="always"), (), "Rule 1 for all sessions: deny get_weather",
         "In other sessions it decides only new calls."),
        (RuleChoice("deny"), (), "Rule 1 of this session: deny get_weather",
         "It applies to every tool of this name, also after changes."),
        (RuleChoice(), (), "Rule 1 of this session: run get_weather",
         "It applies while the definition and the code of get_weather are unchanged. "
         "After a change, calls need approval again."),
        (RuleChoice(), (Rule("*", "ask", words="mine"),), "Rule 1 of this session: run get_weather",
         "It is checked before the rule “mine”."),
        (RuleChoice(), (Rule("other", "deny"),), "Rule 2 of this session: run get_weather",
         "It is checked after the 1 rule before it."),
    ],
)  # fmt: skip
def test_a_rule_is_shown_before_it_is_written(
    choice: RuleChoice, there: tuple[Rule, ...], words: str, line: str
) -> None:
    rule_panel, _ = panel_and_proposal(choice, *there)
    assert rule_panel.words == words
    assert line in rule_panel.lines
    html = panel_html(ENV, rule_panel, whole=False)
    assert f'name="print" value="{rule_panel.print}"' in html
    assert f"Add this rule and {choice.action}" in html
    assert ("Reason for the model" in html) == (choice.action == "deny")


def test_what_is_not_offered_says_why_and_has_no_button() -> None:
    rule_panel, _ = panel_and_proposal(RuleChoice(), Rule("get_weather", "deny", words="never"))
    assert "never" in rule_panel.proposal.why_not
    html = panel_html(ENV, rule_panel, whole=False)
    assert "This rule is not available." in html
    assert 'method="post"' not in html


def test_the_print_changes_with_the_rule_its_place_its_list_and_what_it_decides() -> None:
    _, proposal = panel_and_proposal(RuleChoice())
    assert proposal.rule is not None
    asks = Rule("other", "ask")
    prints = [
        fingerprint(RuleChoice(), proposal, ()),
        fingerprint(RuleChoice(scope="always"), proposal, ()),
        fingerprint(RuleChoice(), replace(proposal, rule=replace(proposal.rule, when=PARIS)), ()),
        fingerprint(RuleChoice(), replace(proposal, place=1), ()),
        fingerprint(RuleChoice(), replace(proposal, decides=("1.1",)), ()),
        fingerprint(RuleChoice(), proposal, (asks,)),
        fingerprint(RuleChoice(), proposal, (replace(asks, enabled=False),)),
    ]
    assert len(set(prints)) == len(prints)
    assert fingerprint(RuleChoice(), proposal, ()) == prints[0]


def test_hostile_names_and_values_stay_text() -> None:
    log = turn_with_calls((NASTY, {"city": NASTY}), (NASTY, {}))
    for choice in (RuleChoice("deny"), RuleChoice("deny", exact=True), RuleChoice()):
        rule_panel, _ = panel_and_proposal(choice, Rule("*", "ask", words=NASTY), log=log)
        html = panel_html(ENV, rule_panel, whole=False)
        assert "<script" not in html
        assert "<hx-partial" not in html
        roots(html)
    session = log.session()
    rule = Rule(NASTY, "ask", words=NASTY, when={"/city": {"prefix": "<"}})
    sentences = explain_rule(session, session.call("1.1"), (rule,), ())
    html = explanation_html(ENV, "s1", session.call("1.1"), sentences, whole=False)
    assert "<script" not in html
    assert len(roots(html)) == 1


def decided(rule: str, rule_id: str) -> Log:
    event = CallDecided("1.1", "run", "rule", rule, rule_id=rule_id, digest=DIGEST)
    return two().add(event)


def test_the_rule_that_decided_a_call_is_told_as_it_stands() -> None:
    log = decided("x", "r2")
    session = log.session()
    call = session.call("1.1")
    rule = Rule("get_weather", "run", words="mine", id="r2", when={"/city": {"prefix": "Pa"}})
    sentences = explain_rule(session, call, (), (READS, rule))
    assert sentences.words == (
        "Rule 2 for all sessions, current version: “mine”: "
        'run get_weather where /city begins with "Pa"'
    )
    assert sentences.tests == (('/city begins with "Pa"', '"Paris"'),)
    assert explain_rule(session, call, (), (READS,)).words.startswith("This rule was deleted")
    person = two().add(CallDecided("1.1", "run", digest=DIGEST)).session()
    assert (
        explain_rule(person, person.call("1.1"), (READS,), ()).words
        == "You decided this call, not a rule."
    )
    log.add(CallStarted("1.1", 1), CallInterrupted("1.1"))
    session = log.session()
    cut = explain_rule(session, session.call("1.1"), (rule,), ())
    assert cut.why == "An interrupted call needs your decision. Rules do not apply to it."


def test_a_waiting_call_is_told_which_rule_is_about_it_and_may_renew_it() -> None:
    log = turn_with_calls(("get_weather", {"city": "Paris"}), checked=False)
    log.add(CallChecked("1.1", digest=DIGEST, code="new"))
    session = log.session()
    call = session.call("1.1")
    assert explain_rule(session, call, (READS,), ()).words == "No rule matches this call now."
    rule = Rule(
        "get_weather",
        "run",
        id="r2",
        here="s1",
        bound={"get_weather": content_hash(WEATHER, "old")},
    )
    changed = explain_rule(session, call, (rule,), ())
    assert "has changed since" in changed.why
    seen = f"rule=r2&base={base_of(rule)}&digest={DIGEST}"
    assert changed.renew == f"/sessions/s1/calls/1.1/rule/renew?{seen}"
    assert explain_rule(session, call, (), (rule,)).renew == changed.renew
    same = replace(rule, bound={"get_weather": content_hash(WEATHER, "new")})
    assert (
        explain_rule(session, call, (same,), ()).why,
        explain_rule(session, call, (same,), ()).renew,
    ) == (
        "",
        "",
    )
    asks = explain_rule(session, call, (Rule("*", "ask", id="r3"),), ())
    assert (asks.why, asks.renew) == ("The rule asks for approval.", "")


@pytest.mark.parametrize(
    ("rules", "chips"),
    [
        ((), ()),
        ((READS,), ("auto-run read-only tools",)),
        ((READS, READS), ("auto-run read-only tools",)),
        ((replace(READS, enabled=False),), ()),
        ((Rule("*", "deny"), Rule("*", "ask"), Rule("*", "stop")), ()),
        ((Rule("a", "run"),), ("1 rule auto-runs calls",)),
        ((READS, Rule("a", "run"), Rule("b", "answer", "x")),
         ("auto-run read-only tools", "2 more")),
        ((Rule("*", "answer", "x", source="mcp"),), ("auto-answer every tool of mcp",)),
        ((Rule("*", "run", when=PARIS),), ("1 rule auto-runs calls",)),
    ],
)  # fmt: skip
def test_the_dock_says_what_runs_unasked(rules: tuple[Rule, ...], chips: tuple[str, ...]) -> None:
    assert unasked_words(rules) == chips
