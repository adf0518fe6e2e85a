"""Which call a fragment belongs to: one hand-written body for each quirk of docs/wire.md."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from playground.commands.decode import decode
from tests import counted
from tests.protocols.frames import DONE, calls, chunk, codes_of, events_of, fragment, parts_of, sse

FINISH = chunk({}, "tool_calls")
Expected = list[tuple[str | None, str, str | None]]
"""id, name and raw arguments of each call."""

CALLS: list[tuple[str, list[Any], Expected]] = [
    (
        "plain",
        [calls(fragment(0, "a", "f", "")), calls(fragment(0, arguments='{"x"')),
         calls(fragment(0, arguments=":1}"))],
        [("a", "f", '{"x":1}')],
    ),
    (
        "Q1 index missing",
        [calls(fragment(None, "a", "f", "{}"), fragment(None, "b", "g", '{"y":2}'))],
        [("a", "f", "{}"), ("b", "g", '{"y":2}')],
    ),
    (
        "Q1 index missing, fragments by id",
        [calls(fragment(None, "a", "f", "{")), calls(fragment(None, "a", None, "}"))],
        [("a", "f", "{}")],
    ),
    (
        "Q2, Q3 index always 0",
        [calls(fragment(0, "a", "f", "{}")), calls(fragment(0, "b", "f", '{"y":2}'))],
        [("a", "f", "{}"), ("b", "f", '{"y":2}')],
    ),
    (
        "Q4 index starts at 1",
        [calls(fragment(1, "a", "f", "")), calls(fragment(1, arguments="{}"))],
        [("a", "f", "{}")],
    ),
    (
        "Q5 index -1",
        [calls(fragment(-1, "a", "f", "")), calls(fragment(-1, arguments="{}"))],
        [("a", "f", "{}")],
    ),
    (
        "Q6 the head of the second call with index 0, its tail with 1",
        [calls(fragment(0, "a", "f", "{}")), calls(fragment(0, "b", "g", "")),
         calls(fragment(1, arguments='{"y"')), calls(fragment(1, arguments=":2}"))],
        [("a", "f", "{}"), ("b", "g", '{"y":2}')],
    ),
    (
        "Q7 one index several times in a chunk",
        [calls(fragment(0, "a", "f", ""), fragment(0, arguments="{"), fragment(0, arguments="}"))],
        [("a", "f", "{}")],
    ),
    (
        "Q8 later ids empty or null",
        [calls(fragment(0, "a", "f", "{")), calls(fragment(0, "", None, '"x":')),
         chunk({"tool_calls": [{"index": 0, "id": None, "function": {"arguments": "1}"}}]})],
        [("a", "f", '{"x":1}')],
    ),
    (
        "Q9 id and name in every fragment",
        [calls(fragment(0, "a", "f", "{")), calls(fragment(0, "a", "f", "}"))],
        [("a", "f", "{}")],
    ),
    (
        "Q10 a new id in every fragment",
        [calls(fragment(0, "a", "f", "{")), calls(fragment(0, "r1", None, '"x":')),
         calls(fragment(0, "r2", None, "1}"))],
        [("a", "f", '{"x":1}')],
    ),
    ("Q11 no id at all", [calls(fragment(0, None, "f", "{}"))], [(None, "f", "{}")]),
    (
        "Q11 no id, one index, two names",
        [calls(fragment(0, None, "f", "{}")), calls(fragment(0, None, "g", "{}"))],
        [(None, "f", "{}"), (None, "g", "{}")],
    ),
    (
        "Q1, Q11 neither index nor id",
        [calls(fragment(None, None, "f", "{}")), calls(fragment(None, None, "g", "{")),
         calls(fragment(arguments="}"))],
        [(None, "f", "{}"), (None, "g", "{}")],
    ),
    (
        "Q12 the id before the name",
        [calls(fragment(0, "a")), calls(fragment(0, None, "f")),
         calls(fragment(0, arguments="{}"))],
        [("a", "f", "{}")],
    ),
    (
        "Q13 the name in every chunk",
        [calls(fragment(0, "a", "f", "{")), calls(fragment(0, None, "f", "}"))],
        [("a", "f", "{}")],
    ),
    (
        "Q14 the name in pieces",
        [calls(fragment(0, "a", "edit_ex", "")), calls(fragment(0, None, "isting_file", "")),
         calls(fragment(0, arguments="{}"))],
        [("a", "edit_existing_file", "{}")],
    ),
    (
        "Q15 the last fragment repeats the head",
        [calls(fragment(0, "a", "f", "")), calls(fragment(0, arguments='{"x":')),
         calls(fragment(0, "a", "f", "1}"))],
        [("a", "f", '{"x":1}')],
    ),
    (
        "Q17 two whole calls in one delta",
        [calls(fragment(0, "a", "f", "{}"), fragment(1, "b", "g", "{}"))],
        [("a", "f", "{}"), ("b", "g", "{}")],
    ),
    (
        "Q23 arguments as an object, digits kept",
        ['{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":'
         '{"name":"f","arguments":{"x": 1.10, "x": 12345678901234567890.5}}}]}}]}'],
        [("a", "f", None)],
    ),
    ("Q24 empty arguments", [calls(fragment(0, "a", "f", ""))], [("a", "f", "")]),
    ("Q25 the text null", [calls(fragment(0, "a", "f", "null"))], [("a", "f", "null")]),
    ("Q25 no arguments at all", [calls(fragment(0, "a", "f"))], [("a", "f", None)]),
    (
        "Q25 null in later fragments",
        [calls(fragment(0, "a", "f", "{}")),
         chunk({"tool_calls": [{"index": 0, "function": {"arguments": None}}]})],
        [("a", "f", "{}")],
    ),
    (
        "Q26 doubly encoded stays as it is",
        [calls(fragment(0, "a", "f", '"{\\"x\\":1}"'))],
        [("a", "f", '"{\\"x\\":1}"')],
    ),
    (
        "Q27 the first brace beside the name",
        [calls(fragment(0, "a", "f", "{")), calls(fragment(0, arguments='"x":1}'))],
        [("a", "f", '{"x":1}')],
    ),
    (
        "Q28 two objects run together",
        [calls(fragment(0, "a", "f", '{"x":1')),
         chunk({"tool_calls": [{"index": 0, "function": {"name": None, "arguments": '{"y":2'}}]})],
        [("a", "f", '{"x":1{"y":2')],
    ),
    (
        "Q36 type null",
        [chunk({"tool_calls": [{**fragment(0, "a", "f", "{"), "type": None}]}),
         calls(fragment(0, arguments="}"))],
        [("a", "f", "{}")],
    ),
    (
        "Q53 a wrapper call is a call",
        [calls(fragment(0, "a", "multi_tool_use.parallel", '{"tool_uses":[]}'))],
        [("a", "multi_tool_use.parallel", '{"tool_uses":[]}')],
    ),
    (
        "Q55 an empty head first",
        [calls(fragment(0, "", "", "")), calls(fragment(0, "a", "f", "{}"))],
        [("a", "f", "{}")],
    ),
    (
        "one id for two calls",
        [calls(fragment(0, "a", "f", "{}")), calls(fragment(1, "a", "f", '{"y":2}'))],
        [("a", "f", "{}"), ("a", "f", '{"y":2}')],
    ),
    (
        "interleaved, indices with gaps and reversed",
        [calls(fragment(7, "b", "g", "")), calls(fragment(2, "a", "f", "")),
         calls(fragment(7, arguments="{")), calls(fragment(2, arguments='{"x"')),
         calls(fragment(7, arguments="}")), calls(fragment(2, arguments=":1}"))],
        [("b", "g", "{}"), ("a", "f", '{"x":1}')],
    ),
    (
        "the name after the arguments",
        [calls(fragment(0, "a", None, "{")), calls(fragment(0, None, "f", "}"))],
        [("a", "f", "{}")],
    ),
    (
        "another name for the same call, after its arguments began",
        [calls(fragment(0, "a", "f", "{")), calls(fragment(0, "a", "g", "}"))],
        [("a", "f", "{}")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("chunks", "expected"), [c[1:] for c in CALLS], ids=[c[0] for c in CALLS])
def test_fragments_find_their_call(chunks: list[Any], expected: Expected) -> None:
    facts = decode("openai_chat", sse(*chunks, FINISH, DONE))
    call_rows = [(c["id"], c["name"], c["arguments_raw"]) for c in facts["tool_calls"]]
    assert call_rows == expected
    assert (facts["ended"], facts["error"]) == ("complete", None)


def test_arguments_as_an_object_keep_their_own_text() -> None:
    _, chunks, _ = next(case for case in CALLS if case[0].startswith("Q23"))
    ((_, call),) = parts_of(events_of("openai_chat", sse(*chunks, FINISH, DONE)))
    assert call.text == '{"x": 1.10, "x": 12345678901234567890.5}'


def test_a_head_that_nothing_followed_is_no_call() -> None:
    body = sse(calls(fragment(0, "", "", "")), chunk({"content": "hi"}), chunk({}, "stop"), DONE)
    events = events_of("openai_chat", body)
    assert [kind for kind, _ in parts_of(events)] == ["text"]
    assert "empty_call" in codes_of(events)


def test_one_id_for_two_calls_is_flagged() -> None:
    body = sse(calls(fragment(0, "a", "f", "{}"), fragment(1, "a", "f", "{}")), FINISH, DONE)
    assert "same_id" in codes_of(events_of("openai_chat", body))


def _calls_and_warnings(*values: Any) -> tuple[list[tuple[str, bool]], list[str]]:
    """(arguments, complete) of each call, and the warnings."""
    events = events_of("openai_chat", sse(*values, FINISH, DONE))
    return [(part.text, part.complete) for _, part in parts_of(events)], codes_of(events)


def _old(name: str | None, arguments: str) -> dict[str, Any]:
    named = {"name": name} if name else {}
    return {"function_call": {**named, "arguments": arguments}}


def test_one_call_in_both_members_is_one_call() -> None:
    ends = [
        ("f", '{"x"', {"id": "a"}),
        (None, ":1}", {}),
    ]
    mirrored = []
    for name, arguments, more in ends:
        old = _old(name, arguments)
        new = {"index": 0, **more, "function": old["function_call"]}
        mirrored.append(chunk({"tool_calls": [new], **old}))
    assert _calls_and_warnings(*mirrored) == ([('{"x":1}', True)], ["same_call"])
    # Where one came after the other, the second is begun already, but never whole.
    new = calls(fragment(0, "a", "f", "{}"))
    both = [("{}", True), ("{}", False)]
    assert _calls_and_warnings(new, chunk(_old("f", "{}"))) == (both, ["same_call"])
    assert _calls_and_warnings(new, chunk(_old("g", "{}"))) == ([("{}", True), ("{}", True)], [])
    parts, codes = _calls_and_warnings(
        chunk({"tool_calls": [fragment(0, "a", "f", "{}")], **_old("g", "{}")})
    )
    assert (len(parts), codes) == (2, [])


@pytest.mark.parametrize(
    ("first", "then", "expected", "codes"),
    [
        ('{"x":1}', {"x": 1}, ('{"x": 1}', True), []),
        ("", {"x": 1}, ('{"x": 1}', True), []),
        ({"x": 1}, {"x": 1}, ('{"x": 1}', True), []),
        ('{"x":1}', {"y": 2}, ('{"y": 2}', False), ["arguments_replaced"]),
        ({"x": 1}, {"x": True}, ('{"x": true}', False), ["arguments_replaced"]),
        ('{"x":', {"x": 1}, ('{"x": 1}', False), ["arguments_replaced"]),
        ('{"x":1}', {}, ("{}", False), ["arguments_replaced"]),
    ],
)
def test_arguments_that_replace_others_are_told(
    first: Any, then: Any, expected: tuple[str, bool], codes: list[str]
) -> None:
    values = calls(fragment(0, "a", "f", first)), calls(fragment(0, arguments=then))
    assert _calls_and_warnings(*values) == ([expected], codes)


def test_a_finish_reason_does_not_look_at_every_call_again() -> None:
    """Four times as many calls and finish reasons are four times the work."""
    few, many = (counted.lines_of("protocols", partial(_finished_often, n)) for n in (20, 80))
    assert many <= 4.4 * few, many / few


def _finished_often(count: int) -> None:
    heads = [calls(fragment(n, f"id{n}", "f", "{}")) for n in range(count)]
    facts = decode("openai_chat", sse(*heads, *count * [FINISH], DONE))
    assert len(facts["tool_calls"]) == count
