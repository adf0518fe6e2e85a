"""What becomes of a tool's calls without a word of a person, as the rules for always say it: for
the editor ("When called") and the list of tools. Pure; a session may have rules of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jinja2 import Environment

from app.core.rules import LETS_THROUGH, Rule
from app.core.tools import Tool
from app.render.fragments import partial

Held = Mapping[str, str] | None
"""How a rule's binding stands to the tools: "same", "changed", "new" or "gone" by name."""

WORDS = {"run": "runs", "answer": "answered by rule", "deny": "denied", "stop": "stops the run"}
KEEPS_BACK = ("deny", "stop")


@dataclass(frozen=True)
class When:
    """The rule that names just this tool: `action` is ask where there is none, `text` its answer
    or reason. `stale`: it was written for another version. `before` is the rule that is asked
    before it, or ""; `choices` are the actions that there are for such a tool. `chosen` and `typed`
    are what stands in the form and is not saved."""

    tool: str
    action: str = "ask"
    text: str = ""
    stale: bool = False
    before: str = ""
    choices: Sequence[str] = ("ask", "run", "answer", "deny")
    chosen: str = ""
    typed: str | None = None


def own_rule(name: str, rules: Sequence[Rule]) -> Rule | None:
    """The rule about this tool alone, whatever its arguments."""
    return next((rule for rule in rules if rule.tool == name and _plain(rule)), None)


def _plain(rule: Rule) -> bool:
    return not (rule.when or rule.source or rule.read_only or rule.fault)


def place_for(tool: Tool, rules: Sequence[Rule]) -> int:
    """Where a new rule about just this tool belongs: before what is about it, too, but never
    before what keeps its calls back."""
    about = [place for place, rule in enumerate(rules) if rule.covers(tool)]
    back = [place for place in about if rules[place].action in KEEPS_BACK]
    return max(back[-1] + 1 if back else 0, about[0] if about else len(rules))


def when_called(tool: Tool, rules: Sequence[Rule], held: Sequence[Held]) -> When:
    """`rules` are those for always, in order, and `held` how each is bound now."""
    person = tool.answered_by == "person"
    when = When(tool.name, choices=("ask", "answer", "deny") if person else When.choices)
    first = next((rule for rule in rules if rule.enabled and rule.covers(tool)), None)
    rule = own_rule(tool.name, rules)
    if rule is None or not rule.enabled or rule.action not in when.choices:
        return When(tool.name, before=first.said if first else "", choices=when.choices)
    before = first.said if first is not None and first is not rule else ""
    stale = _asks_again(tool, rule, held[rules.index(rule)])
    return When(tool.name, rule.action, rule.text, stale, before, when.choices)


def _asks_again(tool: Tool, rule: Rule, held: Held) -> bool:
    return rule.action in LETS_THROUGH and held is not None and held.get(tool.name) != "same"


def called(tool: Tool, rules: Sequence[Rule], held: Sequence[Held]) -> str:
    """For the list, in a word or two: what the first rule does that is about every call of it."""
    for rule, state in zip(rules, held, strict=True):
        if not rule.enabled or rule.when or not rule.covers(tool):
            continue
        if rule.action == "ask" or _asks_again(tool, rule, state):
            break
        if rule.action == "run" and tool.answered_by == "person":
            break
        return WORDS[rule.action]
    return "asks"


def drawn_when(env: Environment, when: When) -> str:
    """The field of the editor in its place."""
    html = env.get_template("_tool_when.html").render(when=when)
    return partial("when-called", "outerMorph", html)
