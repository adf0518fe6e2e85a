"""The rule that "Always…" on a card would write, shown before it is written. Pure.

Proposed rules are careful: they never precede a rule that holds calls back, and never run a call
that a user once denied. A rule written by hand may do both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from playground.core.arguments import canonical_text, is_json_equal, same_arguments, values_of
from playground.core.decide import Record, doubled_ids, may_run, next_commands, obstacle
from playground.core.doubts import find_doubt
from playground.core.events import CallDecided
from playground.core.json_values import load_json
from playground.core.rules import KEEPS_BACK, Rule, first_match, matches
from playground.core.session import Call, Session, Turn


class Denials:
    """The user's denials in all sessions: no proposed rule runs these calls. Stores hashes of names
    and arguments, because there may be many, and long ones."""

    def __init__(self) -> None:
        self._denied: dict[str, set[int]] = {}

    def add(self, name: str, arguments: Iterable[str]) -> None:
        """Adds denied calls of the tool `name` with these arguments, as the model wrote them."""
        self._denied.setdefault(name, set()).update(
            hash(canonical_text(text)) for text in arguments
        )

    def has_tool(self, name: str) -> bool:
        """Whether any call of the tool was denied."""
        return bool(self._denied.get(name))

    def has(self, call: Call) -> bool:
        """Whether the same call was denied."""
        denied = self._denied.get(call.name, set())
        return bool(denied) and hash(canonical_text(call.written)) in denied


MOST_EXACT = 4_000
"""Most characters of arguments in a rule."""

_NONE = Denials()

_MARK = "proposed"
"""The id of a rule that is only proposed."""


@dataclass(frozen=True)
class Proposal:
    """`rule` would be inserted at `place` (from 0) in its list, and decide the calls `decides`
    (ids) of this session at once. If `rule` is None, `why_not` says why, and what to do."""

    rule: Rule | None = None
    place: int = 0
    decides: tuple[str, ...] = ()
    why_not: str = ""


def proposal(
    session: Session,
    call: Call,
    rules: Sequence[Rule],
    action: Literal["run", "deny"],
    exact: bool,
    scope_rules: Sequence[Rule],
    denied: Denials = _NONE,
    *,
    always: bool = False,
) -> Proposal:
    """The rule that "always run" or "always deny" for this tool (`exact`: with these arguments)
    would write.

    `rules` are all of the session, in order; `scope_rules` those of the target list: the first ones
    of `rules`, or, if `always`, the last ones. `denied` are the calls that a user denied in other
    sessions.
    """
    if refused := _undecidable_reason(session, call) or _unnameable_reason(call, exact):
        return Proposal(why_not=refused)
    turn = session.turns[call.turn - 1]
    if action == "run" and (refused := _run_refusal(session, turn, call, exact, denied)):
        return Proposal(why_not=refused)
    when = {"": {"equals": json.loads(call.arguments)}} if exact else {}
    rule = Rule(call.name, action, id=_MARK, when=when, here=session.id, proposed=action == "run")
    there = next(
        (listed for listed in scope_rules if matches(listed, call) and _is_alike(listed, rule)),
        None,
    )
    if there is not None:
        sentence = f"The rule “{there.sentence}” already exists"
        return Proposal(why_not=f"{sentence}; renew it if it asks because a tool has changed.")
    place, hindrance = _place(call, rule, scope_rules)
    count = len(scope_rules)
    before = rules[: len(rules) - count] if always else ()
    after = () if always else rules[count:]
    if not hindrance:
        hindrance = _hindrance(call, rule, before, after)
    whole = (*before, *scope_rules[:place], rule, *scope_rules[place:], *after)
    if not hindrance and first_match(whole, call) is rule:
        hindrance = obstacle(session, turn, call, rule, denied.has)
    if hindrance:
        return Proposal(why_not=hindrance)
    return Proposal(replace(rule, id=""), place, tuple(_decided_calls(session, whole, denied)))


def _undecidable_reason(session: Session, call: Call) -> str:
    """Why no rule is written for this call now, or ""."""
    if call.status == "interrupted":
        return "The call was interrupted, and its effect is unknown. Decide it by hand."
    if call.status != "waiting" or not session.is_current(call):
        return "This call no longer waits for a decision; add the rule on the page Rules."
    if session.stopped:
        return "The run was stopped; press Continue, and then decide its calls."
    return ""


def _unnameable_reason(call: Call, exact: bool) -> str:
    """Why no rule can express this call, or ""."""
    if call.name == "*" or not call.name.strip():
        return f"A rule needs an existing tool, and there is no tool {call.name!r}. Deny the call."
    if not exact:
        return ""
    if len(call.arguments) > MOST_EXACT:
        most = f"{MOST_EXACT:,} characters"
        return f"These arguments are longer than a rule may name ({most}); test a part of them."
    if not _is_expressible(call.arguments):
        return (
            "No rule can name these arguments exactly: they are not JSON, or hold a number with "
            "more digits than are kept. Test a part of them by a rule on the page Rules."
        )
    return ""


def _is_expressible(arguments: str) -> bool:
    """Whether a rule can store the values of `arguments` exactly, to the last digit."""
    try:
        return is_json_equal(load_json(arguments), values_of(arguments))
    except ValueError:
        return False


def _run_refusal(session: Session, turn: Turn, call: Call, exact: bool, denied: Denials) -> str:
    """Why no rule that runs this is proposed, or ""."""
    if refused := _unsound_reason(turn, call):
        return refused
    if turn.received is not None and turn.received.stop_at == "calls":
        return (
            "The tap stops at every call, so rules have no effect. On the page Agents, let it "
            "stop only at calls that no rule runs."
        )
    before = [text for name, text in _session_denials(session) if name == call.name]
    if denied.has(call) or any(same_arguments(text, call.arguments) for text in before):
        return "You denied this call before. To let it run now, write a rule by hand."
    if (before or denied.has_tool(call.name)) and not exact:
        return (
            f"You denied a call of {call.name} before; you can still add a rule for these "
            "arguments."
        )
    return ""


def _session_denials(session: Session) -> list[tuple[str, str]]:
    return [
        (call.name, call.arguments)
        for call in session.calls()
        if call.decided is not None
        and call.decided.decision == "deny"
        and call.decided.by == "person"
    ]


def _unsound_reason(turn: Turn, call: Call) -> str:
    """Why no rule may run such a call (laws.md), or ""."""
    if call.tool is None:
        return f"There is no tool {call.name}, so nothing can run. Answer or deny the call."
    if call.tool.answered_by == "person" and turn.received is None:
        return "This tool is answered by the user; answer or deny the call."
    if not turn.runnable or (turn.end is not None and turn.end.reason == "other"):
        return "This answer's finish reason is not a tool call, so no rule runs its calls."
    if turn.end is not None and turn.end.abrupt:
        return "The connection broke before this answer was complete; decide its calls by hand."
    if call.provider_id in doubled_ids(turn):
        return "Another call of this answer has the same id; decide each of them by hand."
    if (doubt := find_doubt(turn, call)) is not None:
        return f"{doubt.message} Decide this call by hand."
    if call.malformed or not may_run(turn, call):
        return "No rule runs a call with invalid arguments. Edit them, or answer or deny the call."
    if call.unsatisfied:
        return "No rule runs a call that does not match its schema. Edit, answer or deny it."
    if call.cautioned:
        return "This call must be reviewed, so no rule can decide it. Decide it by hand."
    return ""


def _is_alike(other: Rule, rule: Rule) -> bool:
    wanted = (rule.tool, rule.action, rule.when, "", False, "")
    return (
        other.tool,
        other.action,
        other.when,
        other.source,
        other.read_only,
        other.fault,
    ) == wanted


def _meets(other: Rule, rule: Rule, call: Call) -> bool:
    """Whether `other`, enabled or not, holds back calls that `rule` matches. So does one that asks
    for some arguments, if `rule` is for all arguments: its author wants to see those calls. One
    that asks for the whole tool does not: `rule` is the user's answer to it."""
    asks = other.action == "ask" and other.when and not rule.when
    if other.action not in KEEPS_BACK and not asks:
        return False
    on = replace(other, enabled=True)
    return matches(on if rule.when else replace(on, when={}), call)


def _place(call: Call, rule: Rule, rules: Sequence[Rule]) -> tuple[int, str]:
    """The position in `rules`, and why the rule would not decide `call` there, or ""."""
    first = next((place for place, rule in enumerate(rules) if matches(rule, call)), len(rules))
    least = max((1 + n for n, other in enumerate(rules) if _meets(other, rule, call)), default=0)
    if first >= least:
        return first, ""
    back, asked = rules[least - 1].sentence, rules[first].sentence
    if first == least - 1:
        return (
            least,
            f"The rule “{back}” comes first. Change it to let a new rule decide this call.",
        )
    sentence = f"It must not come before the rule “{back}”, and “{asked}” comes before that one"
    return least, f"{sentence}; change their order on the page Rules."


def _hindrance(call: Call, rule: Rule, before: Sequence[Rule], after: Sequence[Rule]) -> str:
    """What in the other list prevents it, or ""."""
    first = first_match(before, call)
    if first is not None:
        sentence = f"In this session the rule “{first.sentence}” comes before the permanent rules"
        return f"{sentence}; write it for this session, or change that rule."
    back = next((other for other in after if _meets(other, rule, call)), None)
    if back is not None and rule.action == "run":
        sentence = f"It would come before the permanent rule “{back.sentence}”"
        return f"{sentence}. Change that rule, or write this one by hand."
    return ""


def _decided_calls(session: Session, rules: Sequence[Rule], denied: Denials) -> Iterable[str]:
    for command in next_commands(session, rules, denied.has):
        match command:
            case Record(CallDecided(call_id=call_id, rule_id=rule_id)) if rule_id == _MARK:
                yield call_id
