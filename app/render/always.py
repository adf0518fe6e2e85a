"""Rules as a card shows them: the one that "Always…" would write, and the one about a call now.

A rule is shown in full before it is written: its words, its place, what it is bound to and what it
decides at once. Knows no HTML; which rule may be proposed at all is core/rule_proposals.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlencode

from jinja2 import Environment

from app.core.arguments import ABSENT, value_at
from app.core.decide import obstacle
from app.core.rule_proposals import Proposal
from app.core.rules import LETS_THROUGH, Rule, base_of, first_match, told, unbound
from app.core.serialization import to_data
from app.core.session import Call, Session
from app.render.filters import plural

Scope = Literal["session", "always"]


@dataclass(frozen=True)
class Choice:
    """What a person chose on the panel."""

    action: Literal["run", "deny"] = "run"
    exact: bool = False
    scope: Scope = "session"


@dataclass(frozen=True)
class Panel:
    """The panel of a call: what is chosen, and the rule that would be written then.

    `lines` are sentences about it; `why_not` stands in its place where none is offered. `print`
    goes back with the form, so that what is written is what was shown.
    """

    session: str
    call: Call
    choice: Choice
    words: str = ""
    lines: tuple[str, ...] = ()
    why_not: str = ""
    print: str = ""


def panel(
    session: Session, call: Call, choice: Choice, proposal: Proposal, there: Sequence[Rule]
) -> Panel:
    """`there` are the rules of the list that it would be written into."""
    if proposal.rule is None:
        return Panel(session.id, call, choice, why_not=proposal.why_not)
    words = f"{_numbered(proposal.place, choice.scope)}: {told(proposal.rule)}"
    return Panel(
        session.id,
        call,
        choice,
        words,
        tuple(_lines(session, call, choice, proposal, there)),
        print=print_of(choice, proposal, there),
    )


def _numbered(place: int, scope: Scope) -> str:
    return f"Rule {place + 1} {'of this session' if scope == 'session' else 'for always'}"


def _lines(
    session: Session, call: Call, choice: Choice, proposal: Proposal, there: Sequence[Rule]
) -> list[str]:
    lines = []
    if choice.action == "run":
        lines.append(
            f"It holds as long as the definition and the code of {call.name} stay as they are; "
            "where they change, it asks again."
        )
        lines.append("What needs a second look still asks: a broken schema, a caution, a crash.")
    else:
        lines.append("It holds for every tool of this name, whatever becomes of it.")
    if proposal.place < len(there):
        lines.append(f"It is asked before the rule “{there[proposal.place].said}”.")
    elif there:
        lines.append(f"It is asked after {'the' if len(there) == 1 else 'all'} "
                     f"{plural(len(there), 'rule')} that stand{'s' if len(there) == 1 else ''} "
                     "there.")  # fmt: skip
    lines.append(_at_once(session, call, proposal))
    if choice.scope == "always":
        lines.append("In other sessions it decides the calls that come after it.")
    return lines


def _at_once(session: Session, call: Call, proposal: Proposal) -> str:
    others = [session.call(decide) for decide in proposal.decides if decide != call.id]
    named = ", ".join(other.id for other in others[:8])
    more = f" and {len(others) - 8} more" if len(others) > 8 else ""
    if call.id not in proposal.decides:
        return "It decides this call as soon as its turn comes."
    if not others:
        return "It decides this call at once, and no other that waits."
    waiting = f"{len(others)} that {'waits' if len(others) == 1 else 'wait'}"
    return f"It decides this call at once, and {waiting}: {named}{more}."


def print_of(choice: Choice, proposal: Proposal, there: Sequence[Rule]) -> str:
    """What was shown, as 32 hex digits: another rule, place, list or effect is another print."""
    shown = [
        choice.scope,
        to_data(proposal.rule) if proposal.rule is not None else None,
        proposal.place,
        list(proposal.decides),
        [to_data(rule) for rule in there],
    ]
    text = json.dumps(shown, sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


@dataclass(frozen=True)
class About:
    """The rule that is about a call now, or the one that decided it, as it stands. `tests` are
    (what is asked, what stands there); `renew` is the path that binds it to the call's tool."""

    words: str
    tests: tuple[tuple[str, str], ...] = ()
    why: str = ""
    renew: str = ""


def about(session: Session, call: Call, own: Sequence[Rule], always: Sequence[Rule]) -> About:
    """`own` are the rules of the session, `always` those that hold in every one."""
    rules = (*own, *always)
    decided = call.decided
    if decided is not None:
        if decided.by != "rule":
            return About("You decided it, and no rule.")
        rule = next((rule for rule in rules if rule.id and rule.id == decided.rule_id), None)
        if rule is None:
            return About("This rule does not stand any more; what it decided stays.")
        return About(_standing(rule, own, always), _tests(rule, call))
    rule = first_match(rules, call)
    if rule is None:
        return About("No rule is about this call now.")
    if rule.action == "ask":
        return About(_standing(rule, own, always), _tests(rule, call), "It asks.")
    if call.cut is not None:
        said = "No rule decides a call that was cut; it asks you."
        return About(_standing(rule, own, always), _tests(rule, call), said)
    hindrance = obstacle(session, session.turns[call.turn - 1], call, rule)
    renew = _renewal(session, call, rule) if unbound(rule, call) else ""
    return About(_standing(rule, own, always), _tests(rule, call), hindrance, renew)


def _renewal(session: Session, call: Call, rule: Rule) -> str:
    """It names all that is shown: what is bound is what was seen."""
    seen = urlencode({"rule": rule.id, "base": base_of(rule), "digest": call.digest})
    return f"/sessions/{session.id}/calls/{call.id}/rule/renew?{seen}"


def _standing(rule: Rule, own: Sequence[Rule], always: Sequence[Rule]) -> str:
    scope: Scope = "session" if rule in own else "always"
    place = (own if rule in own else always).index(rule)
    said = told(rule)
    named = f"“{rule.words}”, which says: {said}" if rule.words and rule.words != said else said
    return f"{_numbered(place, scope)}, as it stands now: {named}"


def _tests(rule: Rule, call: Call) -> tuple[tuple[str, str], ...]:
    try:
        values = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return ()
    return tuple(
        (told(Rule(call.name, when={pointer: test})).partition(" where ")[2],
         _value(value_at(values, pointer)))
        for pointer, test in rule.when.items()
    )  # fmt: skip


def _value(value: Any) -> str:
    if value is ABSENT:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:199] + "…"


def lets_through(rules: Sequence[Rule]) -> tuple[str, ...]:
    """What runs unasked, in few words for the dock: what holds for more than one tool by its
    words, and of the others how many there are."""
    through = [rule for rule in rules if rule.enabled and rule.action in LETS_THROUGH]
    wide = [_wide(one) for one in through if one.tool == "*" and not one.when]
    narrow = len(through) - len(wide)
    return (*dict.fromkeys(wide[:2]), *_others(narrow + len(wide[2:]), bool(wide)))


def _wide(rule: Rule) -> str:
    done = {"run": "auto-run", "answer": "auto-answer"}[rule.action]
    return f"{done} {told(rule).partition(' ')[2].split(', staged')[0]}"


def _others(count: int, more: bool) -> tuple[str, ...]:
    if not count:
        return ()
    return (
        f"{count} more"
        if more
        else f"{plural(count, 'rule')} {'runs' if count == 1 else 'run'} calls unasked",
    )


def drawn_panel(env: Environment, shown: Panel, *, whole: bool) -> str:
    """The panel for its place on the card, or, `whole`, as a page of its own."""
    return env.get_template("always.html" if whole else "_always.html").render(panel=shown)


def drawn_about(env: Environment, session: str, call: Call, found: About, *, whole: bool) -> str:
    """What the rules say of a call now, for its "Why?" or as a page of its own."""
    template = "about.html" if whole else "_about.html"
    return env.get_template(template).render(session_id=session, call=call, about=found)
