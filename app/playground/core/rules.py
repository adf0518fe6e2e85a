"""Rules decide calls without asking: in order, the first match wins, no match means ask.

A rule that lets calls through (run, answer) is bound to the content of the tools it was written
for: if a tool has changed or was added later, it asks. A rule that holds calls back is not bound:
it applies to any tool of that name.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import unquote

from playground.core.arguments import ABSENT, passes_tests, steps_of, value_at, values_of
from playground.core.faults import FAULTS
from playground.core.serialization import to_data
from playground.core.session import Call
from playground.core.tools import TOOLS_IN_USE, IdentityKey, Tool

Action = Literal["run", "answer", "deny", "ask", "stop"]
ACTIONS: tuple[Action, ...] = ("run", "answer", "deny", "ask", "stop")
LETS_THROUGH = ("run", "answer")
KEEPS_BACK = ("deny", "stop")

_UNREAD = object()

_MOST_DECODED = 5
_STEP = re.compile(r"[/\\?#;]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class Rule:
    """The conditions on a call, and the action.

    `tool` is an exact name or `*`; `source` is the executor: a kind (`mcp`, `workspace`) or one
    server (`mcp:NAME`); `read_only` requires a tool that declares to change nothing; `when` is as
    in arguments.py. `text` is the answer or the reason of a denial, `fault` the fault to stage.
    `words` is the rule as the user wrote it. `bound` is the content of each tool it was written
    for, None if it applies to any. `here` is the session it was written in and `since_ms` (Unix ms)
    when: in other sessions it decides no older call. `proposed`: by the program.
    """

    tool: str = "*"
    action: Action = "ask"
    text: str = ""
    words: str = ""
    id: str = ""
    source: str = ""
    read_only: bool = False
    when: Mapping[str, Any] = field(default_factory=dict)
    is_error: bool = False
    fault: str = ""
    bound: Mapping[str, str] | None = None
    proposed: bool = False
    enabled: bool = True
    here: str = ""
    since_ms: int = 0

    @property
    def sentence(self) -> str:
        """The rule in words: the user's, or else generated ones."""
        return self.words or rule_text(self)

    def covers(self, tool: Tool) -> bool:
        """Whether it applies to `tool`, whatever the arguments."""
        return (
            self.tool in ("*", tool.name)
            and (not self.read_only or tool.read_only)
            and (not self.source or _comes_from(tool, self.source))
        )


def first_match(rules: Iterable[Rule], call: Call) -> Rule | None:
    """The first rule that matches `call`, whether it decides it or not; None: ask."""
    values: Any = _UNREAD
    for rule in rules:
        if not _meets(rule, call):
            continue
        if rule.when and values is _UNREAD:  # parsed once for all rules
            values = values_of(call.arguments)
        if _fits(rule, values):
            return rule
    return None


def unread_rule(rules: Iterable[Rule], call: Call) -> Rule | None:
    """The first rule that may keep `call` from running, if its tests cannot tell: the arguments
    are not JSON that this program can read, but an agent may read them. None if a rule before it
    applies."""
    if not call.arguments.strip() or values_of(call.arguments) is not ABSENT:
        return None
    for rule in rules:
        if not _meets(rule, call):
            continue
        if not rule.when:
            return None
        if rule.action != "run":
            return rule
    return None


def matches(rule: Rule, call: Call) -> bool:
    """Whether `rule` matches `call`. A call of an unknown tool matches only by its name."""
    return first_match([rule], call) is not None


def _meets(rule: Rule, call: Call) -> bool:
    if not rule.enabled:
        return False
    if call.tool is None:
        return rule.tool in ("*", call.name) and not rule.source and not rule.read_only
    return rule.covers(call.tool)


def _fits(rule: Rule, values: Any) -> bool:
    if not rule.when:
        return True
    if not passes_tests(rule.when, values):
        return False
    return rule.action not in LETS_THROUGH or not _allows_parent_step(rule.when, values)


def _allows_parent_step(when: Mapping[str, Any], values: Any) -> bool:
    """Whether a text permitted by its prefix or a pattern contains a step `..`: "notes/../../key"
    begins with "notes/" but is elsewhere."""
    for pointer, test in when.items():
        value = value_at(values, pointer)
        loose = isinstance(test, Mapping) and test.keys() <= {"prefix", "glob"}
        if loose and isinstance(value, str) and _has_parent_step(value):
            return True
    return False


def _has_parent_step(text: str) -> bool:
    """Whether some reader of `text` as a path or a URL may find a step `..` in it: after repeated
    URL-decoding, normalization (NFKC), and without control characters."""
    for _ in range(_MOST_DECODED):
        plain = unquote(text.replace("%c0%ae", ".").replace("%C0%AE", "."))
        if plain == text:
            break
        text = plain
    else:
        return True  # so many levels of encoding are suspicious
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return any(step.strip() == ".." for step in _STEP.split(_CONTROL.sub("", text)))


def open_host_warning(rule: Rule) -> str:
    """A warning on a URL prefix that does not end the host name, or ""."""
    for test in rule.when.values():
        start = test.get("prefix") if isinstance(test, Mapping) else None
        if isinstance(start, str) and re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*", start):
            return f"Other hosts also begin with {_value(start)}. End the prefix with /."
    return ""


def _comes_from(tool: Tool, source: str) -> bool:
    kind, _, server = source.partition(":")
    return tool.answered_by == kind and (not server or tool.config.get("server") == server)


def content_hash(tool: Tool, code: str) -> str:
    """The hash that a rule is bound to, 64 hex digits: the tool as the model sees it, its executor,
    and `code`, which identifies executed files (`CallChecked.code`)."""
    text = f"[{_content_json(IdentityKey(tool))}, {json.dumps(code)}]"
    return hashlib.sha256(text.encode("ascii")).hexdigest()


@lru_cache(maxsize=TOOLS_IN_USE)
def _content_json(same: IdentityKey[Tool]) -> str:
    """The items of a JSON array, without the brackets."""
    tool = same.value
    shown = [tool.name, tool.description, tool.parameters, tool.answered_by, tool.config]
    return json.dumps(to_data([*shown, tool.format, tool.read_only]), sort_keys=True)[1:-1]


def base_of(rule: Rule) -> str:
    """A hash of the user's input, 32 hex digits: an edit carries that of the rule it was based on,
    so that no unseen change is overwritten."""
    fields = [rule.tool, rule.action, rule.text, rule.words, rule.source, rule.read_only]
    text = json.dumps(to_data([*fields, rule.when, rule.is_error, rule.fault]))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def unbound_reason(rule: Rule, call: Call) -> str:
    """Why the binding of `rule` does not apply to `call`, as a sentence; "" if it does."""
    if rule.bound is None or rule.action not in LETS_THROUGH or call.tool is None:
        return ""
    before = rule.bound.get(call.name)
    if before is None:
        return f"The rule “{rule.sentence}” was added before this tool, so the call needs approval."
    if before != content_hash(call.tool, call.code):
        return (
            f"{call.name} has changed since the rule “{rule.sentence}” was added, so the call "
            "needs approval."
        )
    return ""


def rule_text(rule: Rule) -> str:
    """The rule in words: `run get_weather where /city is "Paris"`."""
    done = {"stop": "stop the run at"}.get(rule.action, rule.action)
    return f"{done} {target(rule)}"


def target(rule: Rule) -> str:
    """The conditions of the rule in words: `get_weather where /city is "Paris"`."""
    who = "every tool" if rule.tool == "*" else _quote_name(rule.tool)
    if rule.read_only:
        who = "read-only tools" if rule.tool == "*" else f"{who} where it is read-only"
    if rule.source:
        kind, _, server = rule.source.partition(":")
        who += f" of {kind} {server}".rstrip()
    tests = " and ".join(test_text(pointer, test) for pointer, test in rule.when.items())
    fault = next((known.title for known in FAULTS if known.name == rule.fault), rule.fault)
    with_fault = f", staged: {fault}" if fault else ""
    return f"{who}{' where ' + tests if tests else ''}{with_fault}"


def test_text(pointer: str, test: Any) -> str:
    """One test of `Rule.when` in words: `/city is "Paris"`."""
    place = _quote_name(pointer) if pointer else "the whole"
    match test:
        case {"equals": dict() as wanted, **rest} if not pointer and not rest:
            return f"the arguments are {_value(wanted)}"
        case {"equals": wanted, **rest} if not rest:
            return f"{place} is {_value(wanted)}"
        case {"prefix": start, **rest} if not rest:
            return f"{place} begins with {_value(start)}"
        case {"glob": pattern, **rest} if not rest:
            return f"{place} matches {_value(pattern)}"
        case {"one_of": list() | tuple() as options, **rest} if not rest:
            return f"{place} in [{', '.join(map(_value, options))}]"
    return f"{place} is {_value(test)}"


def _quote_name(name: str) -> str:
    """Quotes a name that could be read as our own words."""
    return name if re.fullmatch(r"[!-~]+", name) else _value(name)


def _value(value: Any) -> str:
    text = json.dumps(to_data(value), ensure_ascii=False)
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")  # no lone surrogates in text
    return text if len(text) <= 80 else text[:79] + "…"


def pointer_fault(pointer: str) -> str:
    """Why `pointer` is not a valid JSON pointer, as a sentence, or ""."""
    if pointer and not pointer.startswith("/"):
        return f"{pointer!r} is not a JSON pointer. Begin it with /, such as /city."
    if re.search(r"~(?![01])", pointer):
        return f"{pointer!r} is not a JSON pointer. Write ~ as ~0 and / within a name as ~1."
    return "" if len(steps_of(pointer)) <= 64 else "A JSON pointer can have at most 64 steps."


def rules_from_flags(
    allow: Sequence[str], deny: Sequence[str], answer: Sequence[tuple[str, str]]
) -> tuple[Rule, ...]:
    """The rules of a command line: first deny, then answer, then allow."""
    denied = [
        Rule(_star(name), "deny", "Denied on the command line.", f"--deny {name}") for name in deny
    ]
    answered = [Rule(_star(name), "answer", text, f"--answer {name}=...") for name, text in answer]
    allowed = [Rule(_star(name), "run", "", f"--allow {name}") for name in allow]
    return (*denied, *answered, *allowed)


def _star(name: str) -> str:
    return "*" if name == "all" else name
