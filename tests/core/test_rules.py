"""Rules: which is about which call, what binds them, what they say, and those of a command line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from playground.core.rules import (
    ACTIONS,
    Rule,
    content_hash,
    first_match,
    matches,
    open_host_warning,
    pointer_fault,
    rule_text,
    rules_from_flags,
    unbound_reason,
    unread_rule,
)
from playground.core.session import Call
from playground.core.tools import Tool
from tests.playbook import call, session, start_events, turn

CALL = session(*start_events(), *turn(1, call(0))).call("1.0")
READ = Tool("read", answered_by="workspace", config={"tool": "read_file"}, read_only=True)
DOCS = Tool("docs", answered_by="mcp", config={"server": "docs", "tool": "find"})
MAIL = Tool("mail", answered_by="mcp", config={"server": "mail"}, read_only=True)

FORMS: list[tuple[Rule, list[Tool], list[Tool]]] = [
    (Rule(), [READ, DOCS, MAIL], []),
    (Rule("read"), [READ], [DOCS, MAIL]),
    (Rule("rea*"), [], [READ]),
    (Rule(source="workspace"), [READ], [DOCS, MAIL]),
    (Rule(source="mcp"), [DOCS, MAIL], [READ]),
    (Rule(source="mcp:docs"), [DOCS], [READ, MAIL]),
    (Rule(source="mcp:Docs"), [], [DOCS]),
    (Rule(source="mcp:"), [DOCS, MAIL], [READ]),
    (Rule(source="mc"), [], [DOCS]),
    (Rule(read_only=True), [READ, MAIL], [DOCS]),
    (Rule("docs", read_only=True), [], [READ, DOCS, MAIL]),
    (Rule(source="mcp", read_only=True), [MAIL], [READ, DOCS]),
    (Rule("read", source="mcp"), [], [READ]),
    (Rule(enabled=False), [], [READ, DOCS, MAIL]),
]

CLIMBS = [
    "notes/../key",
    "notes/..",
    "notes\\..\\key",
    "notes/%2e%2E%2fkey",
    "notes/.%2e/key",
    "notes/..%5Ckey",
    "notes/..?a",
    "notes/..#a",
    "notes/..;/key",
    "notes/..%3bx/key",
    "notes/..%3Fa",
    "notes/.. /key",
    "notes/%252e%252e/key",
    "notes/..%252fkey",
    "notes/.%00./key",
    "notes/..%0a",
    "notes/\uff0e\uff0e/key",
    "notes/%c0%ae%c0%ae/key",
    "notes/%2525252525252e",
]
SOUND = ["notes/a..b", "notes/...", "notes/100%", "notes/a?b=..c", "notes/%25"]

CHANGED: list[Any] = [
    {"description": "Another."},
    {"parameters": {"type": "object", "required": ["x"]}},
    {"answered_by": "http"},
    {"config": {"server": "docs", "tool": "other"}},
    {"config": {"server": "other", "tool": "find"}},
    {"format": {"type": "text"}},
    {"read_only": True},
]

SAID: list[tuple[Rule, str]] = [
    (Rule("*", "run"), "run every tool"),
    (Rule("docs", "deny"), "deny docs"),
    (Rule("docs", "stop"), "stop the run at docs"),
    (Rule("*", "run", read_only=True), "run read-only tools"),
    (Rule("docs", "run", read_only=True), "run docs where it is read-only"),
    (Rule("*", "ask", source="mcp:docs"), "ask every tool of mcp docs"),
    (Rule("*", "ask", source="mcp"), "ask every tool of mcp"),
    (Rule("*", "run", source="workspace", read_only=True), "run read-only tools of workspace"),
    (Rule("a", "run", when={"/city": "Paris"}), 'run a where /city is "Paris"'),
    (Rule("a", "run", when={"/n": 3, "/m": None}), "run a where /n is 3 and /m is null"),
    (Rule("a", "run", when={"/p": {"prefix": "x"}}), 'run a where /p begins with "x"'),
    (Rule("a", "run", when={"/p": {"glob": "*x"}}), 'run a where /p matches "*x"'),
    (Rule("a", "run", when={"/p": {"one_of": [1, "x"]}}), 'run a where /p in [1, "x"]'),
    (Rule("a", "run", when={"": {"equals": {}}}), "run a where the arguments are {}"),
    (Rule("a", "run", when={"": {"one_of": [1]}}), "run a where the whole in [1]"),
    (Rule("a", "answer", fault="error"), "answer a, staged: an error"),
    # What is odd is said, too, and nothing reads as words of ours.
    (Rule("every tool", "run"), 'run "every tool"'),
    (Rule("a", "run", when={"/p is 1 or /q": 2}), 'run a where "/p is 1 or /q" is 2'),
    (Rule("a", "run", when={"/p": {"one_of": 3}}), 'run a where /p is {"one_of": 3}'),
    (Rule("a", "run", when={"/p": {"x": 1, "y": 2}}), 'run a where /p is {"x": 1, "y": 2}'),
    (Rule("a", "run", when={"/p": "\ud800"}), 'run a where /p is "\\ud800"'),
    (Rule("a", "run", when={"/p": 200 * "x"}), 'run a where /p is "' + 78 * "x" + "…"),
]

UNREAD = ['{"a": 1', "x", '{"a": 1e99999999999999999999}', '{"a":' * 201 + "1" + "}" * 201]
ABOUT_A = Rule("docs", "deny", when={"/a": 1})


def make_call(tool: Tool | str, arguments: str = "{}") -> Call:
    """A call of `tool`, or of a name that no tool has."""
    tools = [tool] if isinstance(tool, Tool) else []
    name = tool.name if isinstance(tool, Tool) else tool
    whole_session = session(*start_events(*tools), *turn(1, call(0, name, arguments)))
    return whole_session.call("1.0")


@pytest.mark.parametrize(
    ("rule", "about", "not_about"), FORMS, ids=[rule_text(f[0]) for f in FORMS]
)
def test_forms(rule: Rule, about: list[Tool], not_about: list[Tool]) -> None:
    assert [tool.name for tool in about if not matches(rule, make_call(tool))] == []
    assert [tool.name for tool in not_about if matches(rule, make_call(tool))] == []


@pytest.mark.parametrize(
    ("rule", "about"),
    [
        (Rule(), True),
        (Rule("gone"), True),
        (Rule("read"), False),
        (Rule("gone", source="mcp"), False),
        (Rule("gone", read_only=True), False),
    ],
)
def test_a_call_of_no_tool_is_met_by_its_name(rule: Rule, about: bool) -> None:
    assert matches(rule, make_call("gone")) == about


@pytest.mark.parametrize(
    ("rules", "action"),
    [
        ([], None),
        ([Rule("other", "run")], None),
        ([Rule("get_weather", "run")], "run"),
        ([Rule("*", "run")], "run"),
        ([Rule("get_weather", "ask"), Rule("*", "run")], "ask"),
        ([Rule("*", "deny"), Rule("get_weather", "run")], "deny"),
        ([Rule("*", "deny", enabled=False), Rule("get_weather", "run")], "run"),
        ([Rule("*", "deny", when={"/city": "Rome"}), Rule("*", "run")], "run"),
        ([Rule("*", "deny", when={"/city": "Paris"}), Rule("*", "run")], "deny"),
    ],
)
def test_the_first_that_matches_wins(rules: list[Rule], action: str | None) -> None:
    rule = first_match(rules, CALL)
    assert (rule.action if rule else None) == action


@pytest.mark.parametrize("path", [*CLIMBS, *SOUND])
@pytest.mark.parametrize("test", [{"prefix": "notes"}, {"glob": "notes*"}])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_step_up_is_let_through_by_no_beginning(path: str, test: Any, action: Any) -> None:
    arguments = '{"path": "' + path.replace("\\", "\\\\") + '"}'
    rule = Rule("*", action, when={"/path": test})
    free = path not in CLIMBS or action not in ("run", "answer")
    assert matches(rule, make_call(READ, arguments)) == free
    exact = Rule("*", action, when={"/path": path})
    assert matches(exact, make_call(READ, arguments))


@pytest.mark.parametrize(
    ("start", "flag"),
    [
        ("https://good.example", True),
        ("https://good.example:80", True),
        ("https://good.example/", False),
        ("https://good.example/a", False),
        ("notes", False),
    ],
)
def test_the_beginning_of_an_address_ends_its_host(start: str, flag: bool) -> None:
    assert bool(open_host_warning(Rule("*", "run", when={"/url": {"prefix": start}}))) == flag


@pytest.mark.parametrize("arguments", ["{", "nonsense", '{"n": ' + 5_000 * "1" + "}", ""])
def test_odd_arguments_break_no_rule(arguments: str) -> None:
    call = make_call(READ, arguments)
    assert matches(Rule("*", "run"), call)
    assert not matches(Rule("*", "run", when={"/path": {"prefix": "notes"}}), call)
    assert not matches(Rule("*", "deny", when={"/path": {"glob": "*"}}), call)


def test_a_long_number_beside_a_path() -> None:
    call = make_call(READ, '{"path": "notes/../x", "n": ' + 5_000 * "1" + "}")
    assert not matches(Rule("*", "run", when={"/path": {"prefix": "notes/"}}), call)


@pytest.mark.parametrize("action", ["run", "answer"])
@pytest.mark.parametrize("changes", CHANGED, ids=[str(item)[:40] for item in CHANGED])
def test_a_changed_tool_asks(action: Any, changes: dict[str, Any]) -> None:
    rule = Rule("docs", action, bound={"docs": content_hash(DOCS, "")})
    assert unbound_reason(rule, make_call(DOCS)) == ""
    assert "docs has changed" in unbound_reason(rule, make_call(replace(DOCS, **changes)))


def test_other_code_and_a_newer_tool_ask() -> None:
    rule = Rule("*", "run", bound={"docs": content_hash(DOCS, "abc")})
    call = make_call(DOCS)
    assert "docs has changed" in unbound_reason(rule, call)
    call.code = "abc"
    assert unbound_reason(rule, call) == ""
    assert "before this tool" in unbound_reason(rule, make_call(MAIL))
    assert unbound_reason(replace(rule, bound=None), make_call(MAIL)) == ""
    assert unbound_reason(rule, make_call("gone")) == ""


@pytest.mark.parametrize("action", ["deny", "stop", "ask"])
def test_what_keeps_back_holds_for_whatever_bears_the_name(action: Any) -> None:
    assert unbound_reason(Rule("docs", action, bound={}), make_call(DOCS)) == ""


def test_what_is_no_part_of_a_tool_binds_nothing() -> None:
    assert content_hash(replace(DOCS, timeout_s=5.0, group="x"), "") == content_hash(DOCS, "")


@pytest.mark.parametrize(("rule", "words"), SAID, ids=[row[1][:40] for row in SAID])
def test_what_a_rule_says(rule: Rule, words: str) -> None:
    assert rule_text(rule) == rule.sentence == words
    assert words.encode()
    assert replace(rule, words="mine").sentence == "mine"


@pytest.mark.parametrize(
    ("pointer", "sound"),
    [
        ("", True),
        ("/", True),
        ("/a/0/b~0~1", True),
        ("city", False),
        ("/a~", False),
        ("/a~2", False),
        ("/x" * 64, True),
        ("/x" * 65, False),
    ],
)
def test_pointers(pointer: str, sound: bool) -> None:
    assert (pointer_fault(pointer) == "") == sound


@pytest.mark.parametrize(
    ("allow", "deny", "answer", "action"),
    [
        (["all"], [], [], "run"),
        (["get_weather"], ["all"], [("get_weather", "x")], "deny"),
        (["get_weather"], [], [("get_weather", "x")], "answer"),
        (["all"], ["other"], [("other", "x")], "run"),
        ([], [], [], None),
    ],
)
def test_precedence_is_deny_answer_allow_ask(
    allow: list[str], deny: list[str], answer: list[tuple[str, str]], action: str | None
) -> None:
    rule = first_match(rules_from_flags(allow, deny, answer), CALL)
    assert (rule.action if rule else None) == action


@pytest.mark.parametrize("arguments", UNREAD, ids=["cut", "word", "number", "deep"])
def test_rule_that_cannot_tell_is_found(arguments: str) -> None:
    call = make_call(DOCS, arguments)
    assert unread_rule([Rule("docs", "run", when={"/a": 2}), ABOUT_A], call) is ABOUT_A
    assert unread_rule([Rule("docs", "run"), ABOUT_A], call) is None
    assert unread_rule([ABOUT_A], make_call(MAIL, arguments)) is None
    assert unread_rule([replace(ABOUT_A, action="run")], call) is None


@pytest.mark.parametrize("arguments", ["", " ", "{}", "null", '{"a": 2}'])
def test_rule_that_can_tell_is_not(arguments: str) -> None:
    assert unread_rule([ABOUT_A], make_call(DOCS, arguments)) is None
