"""Rules as rows and as a form: on the Rules page, in a session's Setup, and on the card of a call.

The form is text: parsing the form shown for a rule yields that rule. Knows neither where rules are
stored nor how they are applied.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import urlencode

from jinja2 import Environment

from playground.core.arguments import ABSENT, TESTS, pointer_step, steps_of, value_at
from playground.core.decide import obstacle
from playground.core.errors import BadInput
from playground.core.faults import FAULTS
from playground.core.json_values import load_json
from playground.core.rule_proposals import Proposal
from playground.core.rules import (
    LETS_THROUGH,
    Action,
    Rule,
    base_of,
    first_match,
    open_host_warning,
    rule_text,
    target,
    test_text,
    unbound_reason,
)
from playground.core.serialization import to_data
from playground.core.session import Call, Session
from playground.core.tools import ANSWERED_BY, Tool
from playground.render.filters import plural
from playground.schema import strict_json

WORDS: Mapping[Action, tuple[str, str]] = {
    "run": ("Run", "ran"),
    "answer": ("Answer", "live"),
    "deny": ("Deny", "failed"),
    "ask": ("Ask", "waiting"),
    "stop": ("Stop the run", "failed"),
}
"""By a rule's action: its word, and the class of its pill."""

TEMPLATES: Mapping[str, tuple[str, str, Rule]] = {
    "read_only": (
        "read-only tools",
        "Tools marked read-only run at once. All others still need approval.",
        Rule("*", "run", read_only=True),
    ),
    "workspace": (
        "read-only workspace tools",
        "A coding agent may read files without approval. Edits and commands wait for you.",
        Rule("*", "run", source="workspace", read_only=True),
    ),
    "shell": (
        "run_shell",
        "No command runs. The model reads the reason.",
        Rule("run_shell", "deny", text="No shell commands here."),
    ),
    "servers": (
        "every MCP tool",
        "Calls to MCP servers wait for you, whatever the rules below say.",
        Rule("*", "ask", source="mcp"),
    ),
}
"""Examples by name: what it is about, its purpose, and the rule."""

LEAST_TESTS = 3
"""The minimum number of lines for tests in the form; a rule with more tests has more."""

WHOLE = "#"
"""Represents in the form the pointer to the whole of the arguments, which is an empty string."""

AGENTS_OWN = "The agent runs its calls as set for its tap. See the Agents page."

Scope = Literal["session", "always"]

MOST_PLACES = 100
DEEPEST = 4

_OPEN = ("$ref", "anyOf", "oneOf", "allOf", "if", "patternProperties", "dependentSchemas")


@dataclass(frozen=True)
class RuleRow:
    """One rule: `number` (from 1) is its position in the evaluation order, `place` (from 0) in its
    list. `holding` is the state of its binding by tool name."""

    rule: Rule
    number: int
    place: int
    last: bool = False
    holding: Mapping[str, str] | None = None

    @property
    def target(self) -> str:
        """The rule without its action, which the pill shows: `read-only tools`."""
        return target(self.rule)

    @property
    def sentence(self) -> str:
        """The whole rule, without the user's note."""
        return rule_text(self.rule)

    @property
    def holds(self) -> str:
        """The tools that it currently applies to."""
        names = self._names("same")
        if self.holding is None or self.rule.action not in LETS_THROUGH:
            return ""
        return f"applies to {_list_words(names)}" if names else "applies to no tool now"

    @property
    def asks(self) -> str:
        """The tools it matches but still asks for, and why."""
        changed, new, gone = (_list_words(self._names(name)) for name in ("changed", "new", "gone"))
        reasons = (
            f"changed since, needs approval: {changed}" if changed else "",
            f"added since, needs approval: {new}" if new else "",
            f"not available: {gone}" if gone else "",
        )
        return "; ".join(words for words in reasons if words)

    @property
    def stale(self) -> bool:
        """Whether binding it to the current tools would make a difference."""
        return any(state in ("changed", "new") for state in (self.holding or {}).values())

    def _names(self, state: str) -> list[str]:
        return [name for name, held in (self.holding or {}).items() if held == state]


@dataclass(frozen=True)
class RuleList:
    """Rules in evaluation order. `path` is where they are changed; `session` is the one whose page
    shows them, "" for none, and `own` whether they belong to it."""

    path: str
    rows: Sequence[RuleRow] = ()
    session: str = ""
    own: bool = True
    closed: bool = False
    """Whether nothing may be changed: the session is deleted."""


def rule_rows(
    rules: Sequence[Rule], holding: Sequence[Mapping[str, str] | None], first: int = 1
) -> list[RuleRow]:
    """The rows of one list, whose numbers begin with `first`."""
    last = len(rules) - 1
    return [
        RuleRow(rule, first + place, place, place == last, held)
        for place, (rule, held) in enumerate(zip(rules, holding, strict=True))
    ]


def rule_data(rule: Rule, holding: Mapping[str, str] | None) -> dict[str, Any]:
    """A rule as scripts read it; `bound` is the current state of each tool's binding."""
    return {
        "id": rule.id,
        "tool": rule.tool,
        "action": rule.action,
        "text": rule.text,
        "words": rule.words,
        "said": rule.sentence,
        "source": rule.source,
        "read_only": rule.read_only,
        "when": to_data(rule.when),
        "is_error": rule.is_error,
        "fault": rule.fault,
        "enabled": rule.enabled,
        "proposed": rule.proposed,
        "base": base_of(rule),
        "bound": None if holding is None else dict(holding),
    }


@dataclass(frozen=True)
class TestLine:
    """One test of the arguments, as typed."""

    pointer: str = ""
    test: str = "equals"
    value: str = ""

    __test__ = False  # not a test of pytest


@dataclass(frozen=True)
class RuleForm:
    """The fields as text; `does` is the action. `reason` goes with deny, `answer` and `is_error`
    with answer; the two faults with run and answer. `id` is the rule that is changed, "" for a new
    one, and `base` its version when the form was drawn."""

    tool: str = "*"
    source: str = ""
    read_only: bool = False
    tests: tuple[TestLine, ...] = ()
    does: str = ""
    reason: str = ""
    answer: str = ""
    is_error: bool = False
    fault_run: str = ""
    fault_answer: str = ""
    words: str = ""
    id: str = ""
    first: bool = False
    base: str = ""

    @property
    def lines(self) -> tuple[TestLine, ...]:
        """The tests, and empty lines for further ones."""
        return self.tests + (TestLine(),) * max(1, LEAST_TESTS - len(self.tests))


def rule_form(rule: Rule) -> RuleForm:
    """The form fields of `rule`."""
    return RuleForm(
        rule.tool,
        rule.source,
        rule.read_only,
        tuple(_line(pointer, test) for pointer, test in rule.when.items()),
        rule.action,
        reason=rule.text if rule.action == "deny" else "",
        answer=rule.text if rule.action == "answer" else "",
        is_error=rule.is_error,
        fault_run=rule.fault if rule.action == "run" else "",
        fault_answer=rule.fault if rule.action == "answer" else "",
        words=rule.words,
        id=rule.id,
        base=base_of(rule),
    )


def form_data(form: RuleForm) -> dict[str, Any]:
    """The fields as data that a script would send; fields of other actions are left out. BadInput
    if a test is incomplete, or no action is chosen."""
    if not form.does:
        raise BadInput("Choose an action: run, answer, deny, ask, or stop the run.")
    data: dict[str, Any] = {
        "tool": form.tool.strip(),
        "action": form.does,
        "source": form.source,
        "read_only": form.read_only,
        "when": _when(form.tests),
        "words": " ".join(form.words.split()),
    }
    match form.does:
        case "run":
            data["fault"] = form.fault_run
        case "answer":
            data |= {"text": form.answer, "is_error": form.is_error, "fault": form.fault_answer}
        case "deny":
            data["text"] = form.reason
    return data


def _when(tests: Iterable[TestLine]) -> dict[str, Any]:
    when: dict[str, Any] = {}
    for test_line in tests:
        typed = test_line.pointer.strip()
        if not typed and not test_line.value:
            continue
        if not typed:
            raise BadInput(
                f"Name the argument to compare with {test_line.value[:80]!r}, such as /city. "
                f"{WHOLE} stands for all arguments."
            )
        if not test_line.value:
            raise BadInput(f'Enter a value to compare {typed} with. Write an empty string as "".')
        pointer = "" if typed == WHOLE else typed
        if pointer in when:
            raise BadInput(f"Duplicate test for {typed}. Keep one.")
        value = read_value(test_line.test, test_line.value)
        when[pointer] = {test_line.test: value}
    return when


def read_value(test: str, text: str) -> Any:
    """The value of a typed text: JSON if it parses, else the text itself. `prefix` and `glob`
    compare texts, so that only a quoted text is parsed as JSON; `one_of` takes a JSON list, or
    comma-separated values."""
    if test in ("prefix", "glob"):
        value = _json(text)
        return value if isinstance(value, str) else text
    if test == "one_of":
        value = _json(text)
        return (
            value if isinstance(value, list) else [_json(part.strip()) for part in text.split(",")]
        )
    return _json(text)


def typed_value(test: str, value: Any) -> str:
    """A text that `read_value` parses to `value`; an unquoted one if possible."""
    plain = isinstance(value, str) and value.isprintable() and test != "one_of"
    if plain and value and read_value(test, value) == value:
        return str(value)
    return json.dumps(to_data(value), ensure_ascii=False)


def _json(text: str) -> Any:
    try:
        return strict_json.parse(text)
    except strict_json.InvalidJSON:
        return text


def _line(pointer: str, test: Any) -> TestLine:
    name, value = "equals", test
    if isinstance(test, Mapping) and len(test) == 1 and next(iter(test)) in TESTS:
        ((name, value),) = test.items()
    return TestLine(pointer or WHOLE, name, typed_value(name, value))


def _list_words(names: Sequence[str]) -> str:
    if len(names) > 6:
        return f"{', '.join(names[:5])} and {plural(len(names) - 5, 'more tool', 'more tools')}"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


@dataclass(frozen=True)
class RulePreview:
    """The rule a form would write: `sentence`, the rule with its number, `notes` its effects, or
    `wrong`, why it cannot be written. `behind` is the earlier rule that keeps it from ever
    deciding, if it can be placed before that; `places` are the tool's arguments; `refused` was
    sent."""

    sentence: str = ""
    notes: Sequence[str] = ()
    wrong: str = ""
    behind: RuleRow | None = None
    places: Sequence[str] = ()
    refused: bool = False


def preview_rule(
    rule: Rule,
    number: int,
    before: Sequence[RuleRow],
    covered: Sequence[str],
    named: Tool | None = None,
) -> RulePreview:
    """`rule` before it is written. `before` are the rules evaluated first, `covered` the names of
    the tools that it matches now, `named` the tool that it names."""
    notes = [] if named is None else [unknown_pointer_note(named, pointer) for pointer in rule.when]
    notes, behind = [note for note in (*notes, open_host_warning(rule)) if note], None
    if rule.action in LETS_THROUGH:
        if covered:
            notes.append(
                f"Applies to {_list_words(covered)} as defined now. Changed or new tools need "
                "approval."
            )
        else:
            notes.append("No current tool matches. Calls need approval until the rule is renewed.")
    for row in before:
        earlier = row.rule
        if earlier.enabled and not earlier.when and _covers(earlier, rule):
            notes.append(
                f"Rule {row.number} comes first and matches the same calls, so this rule has "
                "no effect."
            )
            behind = row
            break
    if rule.words:
        notes.append(f"Without the note: {rule_text(rule)}.")
    pointers = places(named.parameters) if named is not None else ()
    return RulePreview(f"Rule {number}: {rule.sentence}", tuple(notes), "", behind, pointers)


def _covers(first: Rule, rule: Rule) -> bool:
    """Whether `first`, which tests no arguments, matches every call that `rule` matches."""
    return (
        first.tool in ("*", rule.tool)
        and (not first.read_only or rule.read_only)
        and first.source in ("", rule.source, rule.source.partition(":")[0])
    )


@dataclass(frozen=True)
class RulesPage:
    """All content of the page. `tools` and `sources` are selectable; `form` is open if it has
    content; `deleted` is the path that restores the rule just deleted, and `moved` says that a
    restored rule is further down than before; `notice` reports a failed action; `undecided` says
    what happens to a call that no rule decides."""

    lists: Sequence[RuleList]
    tools: Sequence[str] = ()
    servers: Sequence[str] = ()
    form: RuleForm = field(default_factory=RuleForm)
    looked: RulePreview = field(default_factory=RulePreview)
    deleted: str = ""
    moved: bool = False
    notice: str = ""
    title: str = ""
    undecided: str = "Every call needs your approval."


def rules_page(env: Environment, page: RulesPage) -> str:
    """The whole page: of the rules for all sessions, or of a session's."""
    return env.get_template("rules.html").render(**_values(page))


def rules_panel(env: Environment, page: RulesPage) -> str:
    """The content of the section in Setup."""
    return env.get_template("_rules.html").render(**_values(page))


def fresh_form(env: Environment, page: RulesPage) -> str:
    """The form in Setup without input."""
    return env.get_template("_rule_form.html").render(**_values(page), live=True)


def rule_preview_html(env: Environment, look: RulePreview) -> str:
    """The preview of a form's rule, below the form."""
    return env.get_template("_rule_look.html").render(preview=look)


@dataclass(frozen=True)
class RuleExample:
    """A rule that can be adopted unchanged: `fields` are the form fields that add it."""

    name: str
    title: str
    why: str
    rule: Rule

    @property
    def fields(self) -> dict[str, str]:
        form = rule_form(self.rule)
        fields = {"tool": form.tool, "source": form.source, "does": form.does}
        return {
            **fields,
            **({"read_only": "on"} if form.read_only else {}),
            **({"reason": form.reason} if form.reason else {}),
        }


def rule_examples() -> Iterator[RuleExample]:
    for name, (title, why, rule) in TEMPLATES.items():
        yield RuleExample(name, title, why, rule)


def _values(page: RulesPage) -> dict[str, Any]:
    return {
        "page": page,
        "lists": page.lists,
        "form": page.form,
        "preview": page.looked,
        "words": WORDS,
        "faults": FAULTS,
        "kinds": ANSWERED_BY,
        "examples": list(rule_examples()),
        "writing": page.form != RuleForm() or page.looked.refused,
        "tests": {
            "equals": "is",
            "prefix": "begins with",
            "glob": "matches",
            "one_of": "in",
        },
    }


# Rules on a card: the one that "Always…" would write, and the one that applies to a call now. A
# rule is shown in full before it is written: its words, its place, its binding and what it decides
# at once. core/rule_proposals.py decides which rules may be proposed.


@dataclass(frozen=True)
class RuleChoice:
    """The user's choices on the panel."""

    action: Literal["run", "deny"] = "run"
    exact: bool = False
    scope: Scope = "session"


@dataclass(frozen=True)
class RulePanel:
    """The panel of a call: the choices, and the resulting rule.

    `lines` are sentences about it; `print` is sent with the form, so that the rule written is the
    one shown. Both are empty if no rule is proposed.
    """

    session: str
    call: Call
    choice: RuleChoice
    proposal: Proposal
    words: str = ""
    lines: tuple[str, ...] = ()
    print: str = ""

    @property
    def data(self) -> dict[str, Any]:
        """The same for a script."""
        rule = self.proposal.rule
        return {
            "rule": proposed_data(rule) if rule is not None else None,
            "said": rule_text(rule) if rule is not None else "",
            "place": self.proposal.place,
            "decides": list(self.proposal.decides),
            "why_not": self.proposal.why_not,
            "digest": self.call.digest,
            "print": self.print,
        }


def proposed_data(rule: Rule) -> dict[str, Any]:
    """A proposed rule, for a script; one that runs calls is bound to the card's version of the
    tool."""
    return rule_data(rule, {rule.tool: "same"} if rule.action == "run" else None)


def rule_panel(
    session: Session, call: Call, choice: RuleChoice, proposal: Proposal, there: Sequence[Rule]
) -> RulePanel:
    """`there` are the rules of the list that it would be added to."""
    panel = RulePanel(session.id, call, choice, proposal)
    if proposal.rule is None:
        return panel
    return replace(
        panel,
        words=f"{_rule_label(proposal.place, choice.scope)}: {rule_text(proposal.rule)}",
        lines=tuple(_rule_lines(session, call, choice, proposal, there)),
        print=fingerprint(choice, proposal, there),
    )


def _rule_label(place: int, scope: Scope) -> str:
    return f"Rule {place + 1} {'of this session' if scope == 'session' else 'for all sessions'}"


def _rule_lines(
    session: Session, call: Call, choice: RuleChoice, proposal: Proposal, there: Sequence[Rule]
) -> list[str]:
    lines = []
    if choice.action == "run":
        lines.append(
            f"It applies while the definition and the code of {call.name} are unchanged. "
            "After a change, calls need approval again."
        )
        lines.append("Calls with a schema error, a warning or a crash still need approval.")
    else:
        lines.append("It applies to every tool of this name, also after changes.")
    if proposal.place < len(there):
        lines.append(f"It is checked before the rule “{there[proposal.place].sentence}”.")
    elif there:
        lines.append(f"It is checked after the {plural(len(there), 'rule')} before it.")
    lines.append(_effect_sentence(session, call, proposal))
    if choice.scope == "always":
        lines.append("In other sessions it decides only new calls.")
    return lines


def _effect_sentence(session: Session, call: Call, proposal: Proposal) -> str:
    others = [session.call(decide) for decide in proposal.decides if decide != call.id]
    named = ", ".join(other.id for other in others[:8])
    more = f" and {len(others) - 8} more" if len(others) > 8 else ""
    if call.id not in proposal.decides:
        return "It decides this call when it is next in order."
    if not others:
        return "It decides this call now, and no other waiting call."
    waiting = f"{plural(len(others), 'waiting call')}"
    return f"It decides this call now, and {waiting}: {named}{more}."


def fingerprint(choice: RuleChoice, proposal: Proposal, there: Sequence[Rule]) -> str:
    """A fingerprint of the panel, 32 hex digits; depends on rule, place, list and effect."""
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
class RuleExplanation:
    """The rule that applies to a call now, or the one that decided it, in its current form. `tests`
    are (what is tested, the call's value); `renew` is the path that binds it to the call's tool."""

    words: str
    tests: tuple[tuple[str, str], ...] = ()
    why: str = ""
    renew: str = ""


def explain_rule(
    session: Session, call: Call, own: Sequence[Rule], always: Sequence[Rule]
) -> RuleExplanation:
    """`own` are the rules of the session, `always` those for all sessions."""
    rules = (*own, *always)
    decided = call.decided
    if decided is not None:
        if decided.by != "rule":
            return RuleExplanation("You decided this call, not a rule.")
        rule = next((rule for rule in rules if rule.id and rule.id == decided.rule_id), None)
        if rule is None:
            return RuleExplanation("This rule was deleted. Its decisions stay.")
        return RuleExplanation(_place_words(rule, own, always), _tests(rule, call))
    rule = first_match(rules, call)
    if rule is None:
        return RuleExplanation("No rule matches this call now.")
    renew = ""
    if rule.action == "ask":
        why = "The rule asks for approval."
    elif call.cut is not None:
        why = "An interrupted call needs your decision. Rules do not apply to it."
    else:
        why = obstacle(session, session.turns[call.turn - 1], call, rule)
        renew = _renewal(session, call, rule) if unbound_reason(rule, call) else ""
    return RuleExplanation(_place_words(rule, own, always), _tests(rule, call), why, renew)


def _renewal(session: Session, call: Call, rule: Rule) -> str:
    """The path contains everything that is shown: what is bound is what was seen."""
    seen = urlencode({"rule": rule.id, "base": base_of(rule), "digest": call.digest})
    return f"/sessions/{session.id}/calls/{call.id}/rule/renew?{seen}"


def _place_words(rule: Rule, own: Sequence[Rule], always: Sequence[Rule]) -> str:
    scope: Scope = "session" if rule in own else "always"
    place = (own if rule in own else always).index(rule)
    text = rule_text(rule)
    named = f"“{rule.words}”: {text}" if rule.words and rule.words != text else text
    return f"{_rule_label(place, scope)}, current version: {named}"


def _tests(rule: Rule, call: Call) -> tuple[tuple[str, str], ...]:
    try:
        values = load_json(call.arguments)
    except ValueError:
        return ()
    return tuple(
        (test_text(pointer, test), _value(value_at(values, pointer)))
        for pointer, test in rule.when.items()
    )


def _value(value: Any) -> str:
    if value is ABSENT:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:199] + "…"


def unasked_words(rules: Sequence[Rule]) -> tuple[str, ...]:
    """What runs without asking, in few words for the dock: rules for several tools by their words,
    and the number of the others."""
    through = [rule for rule in rules if rule.enabled and rule.action in LETS_THROUGH]
    wide = [_wide_words(rule) for rule in through if rule.tool == "*" and not rule.when]
    narrow = len(through) - len(wide)
    return (*dict.fromkeys(wide[:2]), *_count_words(narrow + len(wide[2:]), bool(wide)))


def _wide_words(rule: Rule) -> str:
    done = {"run": "auto-run", "answer": "auto-answer"}[rule.action]
    return f"{done} {target(replace(rule, fault=''))}"


def _count_words(count: int, more: bool) -> tuple[str, ...]:
    if not count:
        return ()
    return (
        f"{count} more"
        if more
        else f"{plural(count, 'rule')} {'auto-runs' if count == 1 else 'auto-run'} calls",
    )


def panel_html(env: Environment, shown: RulePanel, *, whole: bool) -> str:
    """The panel for its place on the card, or, `whole`, as a page of its own."""
    return env.get_template("always.html" if whole else "_always.html").render(panel=shown)


def explanation_html(
    env: Environment, session: str, call: Call, about_rules: RuleExplanation, *, whole: bool
) -> str:
    """The rule for a call now, for its "Why?" or as a page of its own."""
    template = "about.html" if whole else "_about.html"
    return env.get_template(template).render(session_id=session, call=call, about=about_rules)


# The places that a rule may test: the JSON pointers of a tool's schema. Where a schema leaves a
# value open, or has a reference, any pointer is accepted.


def places(schema: Any) -> tuple[str, ...]:
    """The selectable pointers; if there are many, those of the upper levels."""
    pointers = sorted(_places(schema, "", 0), key=lambda pointer: pointer.count("/"))
    return tuple(pointers[:MOST_PLACES])


def _places(schema: Any, pointer: str, depth: int) -> Iterator[str]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or depth == DEEPEST:
        return
    for name, below in properties.items():
        place = f"{pointer}/{pointer_step(name)}"
        yield place
        yield from _places(below, place, depth + 1)


def unknown_pointer_note(tool: Tool, pointer: str) -> str:
    """Why no call of `tool` has a value at `pointer`, as a sentence; "" if one may."""
    schema: Any = tool.parameters
    walked = ""
    for name in steps_of(pointer):
        step = pointer_step(name)
        if not isinstance(schema, Mapping) or any(word in schema for word in _OPEN):
            return ""
        if schema.get("type") == "array":
            schema = schema.get("items") if name.isdigit() else None
            walked += f"/{step}"
            continue
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or schema.get("additionalProperties"):
            return ""
        if name not in properties:
            has = ", ".join(list(properties)[:12]) or "nothing"
            return f"{tool.name} has no {walked}/{step}; {walked or 'it'} has {has}."
        schema, walked = properties[name], f"{walked}/{step}"
    return ""
