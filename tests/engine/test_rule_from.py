"""A rule as it is sent: what is read, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from playground.core.errors import BadInput
from playground.core.rules import rule_text
from playground.engine.rules import parse_rule


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "list of objects"),
        ({"tool": "x"}, "with tool and action"),
        ({"tool": "x", "action": "run", "bound": {}}, "at most"),
        ({"tool": 1, "action": "run"}, "must be a text"),
        ({"tool": "x", "action": "deny", "text": "x" * 100_001}, "at most 100,000"),
        ({"tool": "x", "action": "run", "read_only": "yes"}, "true or false"),
        ({"tool": "x", "action": "allow"}, "one of run, answer"),
        ({"tool": "x", "action": "run", "when": []}, "object of at most 20"),
        ({"tool": "x", "action": "run", "when": {"a": 1}}, "is not a JSON pointer"),
        ({"tool": "x", "action": "run", "when": {"/a": {"like": 1}}}, "A test must be one of"),
        ({"tool": "x", "action": "run", "when": {"/a": {"prefix": 1}}}, "needs a text"),
        ({"tool": "x", "action": "run", "when": {"/a": {"one_of": 1}}}, "needs a list"),
        ({"tool": "x", "action": "run", "fault": "no"}, "There is no fault"),
        ({"tool": "x", "action": "deny", "fault": "slow"}, "whose action is run"),
        ({"tool": "x", "action": "run", "when": {"/a": {"one_of": []}}}, "needs a value"),
        ({"tool": "x", "action": "run", "when": {"/a": {"prefix": ""}}}, "Remove the test"),
        ({"tool": "x", "action": "deny", "when": {"/a": {"glob": "*" * 301}}}, "Shorten it"),
        ({"tool": "", "action": "deny"}, "a tool's name"),
        ({"tool": "x\n", "action": "deny"}, "a tool's name"),
        ({"tool": "x\u202e", "action": "deny"}, "a tool's name"),
        ({"tool": "x", "action": "deny", "source": "mpc"}, "not 'mpc'"),
        ({"tool": "x", "action": "deny", "source": "http:a"}, "not 'http:a'"),
        ({"tool": "x", "action": "deny", "source": "mcp:"}, "not 'mcp:'"),
        ({"tool": "x", "action": "run", "when": {"/a": "x" * 100_000}}, "Shorten their values"),
    ],
)
def test_what_is_no_rule_is_refused(data: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        parse_rule(data)


def test_a_rule_is_read_as_it_was_written() -> None:
    data: Mapping[str, Any] = {
        "tool": "*",
        "action": "run",
        "source": "mcp:files",
        "read_only": True,
        "when": {"/path": {"prefix": "notes/"}},
        "fault": "slow",
    }
    rule = parse_rule(data)
    message = (
        'run read-only tools of mcp files where /path begins with "notes/", staged: a slow answer'
    )
    assert (rule_text(rule), rule.enabled, rule.bound) == (message, True, None)
