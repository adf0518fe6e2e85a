"""Reads a rule in the words of docs/contract.md, as scripts send it and the form spells it.

Says what is wrong with one that is none, or that could never hold. Knows neither where rules are
kept nor which tools there are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from app.core.arguments import TESTS
from app.core.errors import BadInput
from app.core.faults import fault
from app.core.rules import ACTIONS, Rule, pointer_fault
from app.core.serialization import to_data
from app.core.tools import ANSWERED_BY

MOST_WORDS = 4_000
MOST_TEXT = 100_000
MOST_GLOB = 300
"""Characters of a pattern: a text is read up to so many times to tell whether it fits."""

MOST_WHEN = 100_000
"""Bytes of a rule's tests as JSON."""


def parse_rule(data: Any) -> Rule:
    """A rule in the words of docs/contract.md; BadInput says what is wrong."""
    known = {*_TEXTS, *_TRUTHS, "action", "when"}
    if not isinstance(data, Mapping) or not {"tool", "action"} <= data.keys() <= known:
        raise BadInput(
            "rules must be a list of objects with tool and action, and "
            f"{', '.join(sorted(known - {'tool', 'action'}))} at most."
        )
    for name in _TEXTS & data.keys():
        most = MOST_TEXT if name == "text" else MOST_WORDS
        if not isinstance(data[name], str) or len(data[name]) > most:
            raise BadInput(f"The {name} of a rule must be a text of at most {most:,} characters.")
    if not data["tool"] or not data["tool"].isprintable():
        raise BadInput("The tool of a rule is the name of a tool, or * for every tool.")
    _check_source(data.get("source", ""))
    for name in _TRUTHS & data.keys():
        if not isinstance(data[name], bool):
            raise BadInput(f"{name} of a rule must be true or false.")
    if data["action"] not in ACTIONS:
        raise BadInput(f"A rule's action is one of {', '.join(ACTIONS)}.")
    rule = Rule(**{**data, "when": _when(data.get("when", {}))})
    _check_fault(rule)
    return rule


_TEXTS = {"tool", "text", "words", "source", "fault"}
_TRUTHS = {"read_only", "is_error", "enabled"}
assert {*_TEXTS, *_TRUTHS} <= {field.name for field in fields(Rule)}


def _check_source(source: str) -> None:
    """One that no tool can come from would make a rule that never holds."""
    kind, colon, server = source.partition(":")
    if source and (kind not in ANSWERED_BY or (colon and (kind != "mcp" or not server))):
        raise BadInput(
            f"The source of a rule is one of {', '.join(ANSWERED_BY)}, or mcp:SERVER; "
            f"{source[:80]!r} is none."
        )


def _when(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or len(value) > 20:
        raise BadInput("when is an object of at most 20 tests: a JSON pointer, and a test for it.")
    for pointer, test in value.items():
        if said := pointer_fault(pointer):
            raise BadInput(said)
        if isinstance(test, Mapping) and len(test) == 1:
            ((name, wanted),) = test.items()
            text = name in ("prefix", "glob") and not isinstance(wanted, str)
            if text or (name == "one_of" and not isinstance(wanted, list)):
                kind = "a text" if text else "a list"
                raise BadInput(f"The test {name} at {pointer} needs {kind}.")
            if name == "one_of" and not wanted:
                raise BadInput(
                    f"The test one_of at {pointer} needs a value; none fits an empty list."
                )
            if name == "prefix" and not wanted:
                raise BadInput(
                    f"Every text begins with an empty one; leave out the test at {pointer}."
                )
            if name == "glob" and len(wanted) > MOST_GLOB:
                raise BadInput(
                    f"The pattern at {pointer} has more than {MOST_GLOB} characters; shorten it."
                )
            if name in TESTS:
                continue
        if isinstance(test, Mapping):
            raise BadInput(f"A test is one of {', '.join(TESTS)}; at {pointer} there is none.")
    try:
        size = len(json.dumps(to_data(value)))
    except RecursionError:
        size = MOST_WHEN + 1
    if size > MOST_WHEN:
        raise BadInput(f"The tests of a rule have at most {MOST_WHEN:,} bytes; compare with less.")
    return dict(value)


def _check_fault(rule: Rule) -> None:
    if not rule.fault:
        return
    row = fault(rule.fault)
    if row is None:
        raise BadInput(f"There is no fault {rule.fault!r}.")
    fitting = "run" if row.runs else "answer"
    if rule.action != fitting:
        raise BadInput(f"{row.title} is staged by a rule whose action is {fitting}.")
    if not row.runs and (rule.text or rule.is_error):
        raise BadInput(f"{row.title} is the whole answer; leave out text and is_error beside it.")
