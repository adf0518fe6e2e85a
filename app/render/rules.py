"""Rules as rows and as a form, on the page Rules and in a session's Setup. Pure.

The form is text: what it shows for a rule reads back as that rule. Knows neither where rules are
kept nor what they are bound to; that is handed in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment

from app.core.arguments import TESTS
from app.core.errors import BadInput
from app.core.faults import FAULTS
from app.core.rules import LETS_THROUGH, Action, Rule, base_of, host_left_open, told
from app.core.serialization import to_data
from app.core.tools import ANSWERED_BY, Tool
from app.render.filters import plural
from app.render.rule_places import places, strange
from app.schema import strict_json

WORDS: Mapping[Action, tuple[str, str]] = {
    "run": ("runs", "ran"),
    "answer": ("answers", "live"),
    "deny": ("denies", "failed"),
    "ask": ("asks", "waiting"),
    "stop": ("stops the run", "failed"),
}
"""By a rule's action: the word, and the class of the pill."""

TEMPLATES: Mapping[str, tuple[str, Rule]] = {
    "read_only": ("Run read-only tools", Rule("*", "run", read_only=True)),
    "workspace": (
        "Run what only reads the workspace",
        Rule("*", "run", source="workspace", read_only=True),
    ),
    "shell": ("Deny run_shell", Rule("run_shell", "deny", text="No shell commands here.")),
    "servers": ("Ask at every tool of a server", Rule("*", "ask", source="mcp")),
}
"""By name: the words on the button, and what it fills the form with."""

LEAST_TESTS = 3
"""Lines for tests in the form; a rule with more has more."""

WHOLE = "#"
"""Stands in the form for the pointer to the whole of the arguments, which is an empty text."""


@dataclass(frozen=True)
class RuleRow:
    """One rule: `number` (from 1) is its turn among all that are asked, `place` (from 0) where it
    stands in its list. `holding` is how its binding stands to the tools, by their names."""

    rule: Rule
    number: int
    place: int
    last: bool = False
    holding: Mapping[str, str] | None = None

    @property
    def told(self) -> str:
        """What it says, whatever words a person gave it."""
        return told(self.rule)

    @property
    def holds(self) -> str:
        """Which tools it holds for, as they are now."""
        names = self._names("same")
        if self.holding is None or self.rule.action not in LETS_THROUGH:
            return ""
        return f"holds for {_listed(names)}" if names else "holds for no tool now"

    @property
    def asks(self) -> str:
        """For which tools it asks although it is about them, and why."""
        changed, new, gone = (_listed(self._names(name)) for name in ("changed", "new", "gone"))
        said = (
            f"changed since: {changed}, asks" if changed else "",
            f"newer than the rule: {new}, asks" if new else "",
            f"not there now: {gone}" if gone else "",
        )
        return "; ".join(one for one in said if one)

    @property
    def stale(self) -> bool:
        """Whether binding it to the tools as they are now would make a difference."""
        return any(one in ("changed", "new") for one in (self.holding or {}).values())

    def _names(self, state: str) -> list[str]:
        return [name for name, one in (self.holding or {}).items() if one == state]


@dataclass(frozen=True)
class RuleList:
    """Rules that are asked one after the other. `path` is where they are changed; `session` is
    the one whose page shows them, "" for none, and `own` whether they are its own."""

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
    """A rule as scripts read it; `bound` says how each tool stands to it now."""
    return {
        "id": rule.id,
        "tool": rule.tool,
        "action": rule.action,
        "text": rule.text,
        "words": rule.words,
        "said": rule.said,
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
    """One test of the arguments, as it is typed."""

    pointer: str = ""
    test: str = "equals"
    value: str = ""

    __test__ = False  # no test of pytest's


@dataclass(frozen=True)
class RuleForm:
    """The fields as text. `reason` goes with deny, `answer` and `is_error` with answer; the two
    faults with run and answer. `id` is the rule that is changed, "" for a new one, and `base` says
    which it was when the form was drawn."""

    tool: str = "*"
    source: str = ""
    read_only: bool = False
    tests: tuple[TestLine, ...] = ()
    action: str = ""
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
        """The tests, and empty lines for more of them."""
        return self.tests + (TestLine(),) * max(1, LEAST_TESTS - len(self.tests))


def rule_form(rule: Rule) -> RuleForm:
    """The fields that spell `rule`."""
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
    """What the fields spell, as a script would send it; what belongs to another action is left
    out. BadInput where a test is half there, or nothing is said to be done."""
    if not form.action:
        raise BadInput("Choose what the rule does: run, answer, deny, ask, or stop the run.")
    data: dict[str, Any] = {
        "tool": form.tool.strip(),
        "action": form.action,
        "source": form.source,
        "read_only": form.read_only,
        "when": _when(form.tests),
        "words": " ".join(form.words.split()),
    }
    match form.action:
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
                f"Say where {test_line.value[:80]!r} should stand, as in /city; "
                f"{WHOLE} is all of it."
            )
        if not test_line.value:
            raise BadInput(f'Say what {typed} is compared with; an empty text is written "".')
        pointer = "" if typed == WHOLE else typed
        if pointer in when:
            raise BadInput(f"There are two tests for {typed}; make one of them.")
        value = read_value(test_line.test, test_line.value)
        when[pointer] = {test_line.test: value}
    return when


def read_value(test: str, text: str) -> Any:
    """What a typed value means: JSON where it is JSON, else the text as it is. `prefix` and `glob`
    compare texts, so that only a text in quotes is read as JSON; `one_of` takes a JSON list, or
    values with commas between them."""
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
    """A text that `read_value` reads as `value`; the plain one where there is one."""
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


def _listed(names: Sequence[str]) -> str:
    if len(names) > 6:
        return f"{', '.join(names[:5])} and {plural(len(names) - 5, 'more tool', 'more tools')}"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


@dataclass(frozen=True)
class Look:
    """What a form would write: `said` as a sentence with its number, `notes` what follows from it,
    or `wrong`, why it cannot be written. `behind` is the rule that lets it never decide, where it
    can be written before that; `places` are those of the tool's arguments; `refused` was sent."""

    said: str = ""
    notes: Sequence[str] = ()
    wrong: str = ""
    behind: RuleRow | None = None
    places: Sequence[str] = ()
    refused: bool = False


def look(
    rule: Rule,
    number: int,
    before: Sequence[RuleRow],
    covered: Sequence[str],
    named: Tool | None = None,
) -> Look:
    """`rule` before it is written. `before` are those that are asked first, `covered` the names of
    the tools that it is about now, `named` the one that it names."""
    notes = [] if named is None else [strange(named, pointer) for pointer in rule.when]
    notes, behind = [note for note in (*notes, host_left_open(rule)) if note], None
    if rule.action in LETS_THROUGH:
        if covered:
            notes.append(f"Holds for {_listed(covered)} as now; what changes or comes later asks.")
        else:
            notes.append("It is about no tool that is there now, so it asks until it is renewed.")
    for row in before:
        one = row.rule
        if one.enabled and not one.when and _about_all_of(one, rule):
            notes.append(
                f"Rule {row.number} comes first and is about the same: this never decides."
            )
            behind = row
            break
    if rule.words:
        notes.append(f"In its own words: {told(rule)}.")
    found = places(named.parameters) if named is not None else ()
    return Look(f"Rule {number}: {rule.said}", tuple(notes), "", behind, found)


def _about_all_of(first: Rule, rule: Rule) -> bool:
    """Whether `first`, which looks at no arguments, is about each call that `rule` is about."""
    return (
        first.tool in ("*", rule.tool)
        and (not first.read_only or rule.read_only)
        and first.source in ("", rule.source, rule.source.partition(":")[0])
    )


@dataclass(frozen=True)
class RulesPage:
    """All that is shown. `tools` and `sources` are to choose from; `form` is open where there is
    something in it; `deleted` is the path at which the rule just deleted is had back, and
    `moved` says that one that was had back stands further down than it did; `notice` is what could
    not be done."""

    lists: Sequence[RuleList]
    tools: Sequence[str] = ()
    servers: Sequence[str] = ()
    form: RuleForm = field(default_factory=RuleForm)
    looked: Look = field(default_factory=Look)
    deleted: str = ""
    moved: bool = False
    notice: str = ""
    title: str = ""


def rules_page(env: Environment, page: RulesPage) -> str:
    """The whole page: of the rules for always, or of a session's."""
    return env.get_template("rules.html").render(**_values(page))


def rules_panel(env: Environment, page: RulesPage) -> str:
    """The section in Setup: what stands inside of it."""
    return env.get_template("_rules.html").render(**_values(page))


def fresh_form(env: Environment, page: RulesPage) -> str:
    """The form in Setup as it was before anything was typed."""
    return env.get_template("_rule_form.html").render(**_values(page), live=True)


def looked(env: Environment, look: Look) -> str:
    """What a form would write, as it stands below the form."""
    return env.get_template("_rule_look.html").render(look=look)


def _values(page: RulesPage) -> dict[str, Any]:
    return {
        "page": page,
        "lists": page.lists,
        "form": page.form,
        "look": page.looked,
        "words": WORDS,
        "faults": FAULTS,
        "kinds": ANSWERED_BY,
        "templates": TEMPLATES,
        "tests": {
            "equals": "is",
            "prefix": "begins with",
            "glob": "fits",
            "one_of": "is one of",
        },
    }
