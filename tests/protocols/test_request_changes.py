"""What a request changed against the one before it, in the words of every protocol."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from playground.core.events import RequestSent
from playground.core.tools import Tool
from playground.protocols.registry import codec
from playground.protocols.request import RequestChanges, request_changes
from tests.protocols.answers import PROTOCOLS
from tests.protocols.requests import (
    STRICT,
    TOOL,
    assistant,
    call,
    request,
    result_part,
    results,
    user,
)

MORE = Tool("h", "Does h.", {"type": "object", "properties": {}})
HISTORY = (user("Do f."), assistant(call("c1")), results(result_part("c1", "done")))


def make_request(protocol: str, *messages: Any, **changes: Any) -> RequestSent:
    wire = codec(protocol).encode(request(*messages, **{"system": "Be brief.", **changes}))
    return RequestSent(
        1,
        protocol=protocol,
        method="POST",
        url="https://a.example/v1",
        headers={},
        body=wire.body.decode(),
        model="m",
    )


def changes_between(old: RequestSent, new: RequestSent) -> RequestChanges:
    changes = request_changes(old, new)
    assert changes is not None
    return changes


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_first_block_that_differs_is_named_in_every_protocol(protocol: str) -> None:
    before = make_request(protocol, *HISTORY)
    went_on = changes_between(
        before, make_request(protocol, *HISTORY, assistant(call("c2")), user("Go on."))
    )
    assert (went_on.first, went_on.came, went_on.went, went_on.settings) == (None, [], [], ())
    assert went_on.messages[0] == went_on.same < went_on.messages[1]

    system = changes_between(before, make_request(protocol, *HISTORY, system="Be long.")).first
    assert system is not None
    assert system.how == "changed"
    assert system.block.label in ("system 1", "message 1 (system)", "message 1 (developer)")
    assert [p.text for p in system.pieces if p.how != "same"] == ["brief", "long"]

    came = changes_between(before, make_request(protocol, *HISTORY, tools=(TOOL, STRICT, MORE)))
    assert (came.came, came.went, came.altered) == (["h"], [], [])
    assert came.first is not None
    assert (came.first.how, came.first.block.label) == ("added", "tool h")

    turned = changes_between(before, make_request(protocol, *HISTORY, tools=(STRICT, TOOL)))
    assert turned.first is not None
    assert (turned.first.how, turned.came, turned.went) == ("moved", [], [])

    other = changes_between(
        before, make_request(protocol, *HISTORY, tools=(replace(TOOL, description="f!"),))
    )
    assert (other.came, other.went, other.altered) == ([], ["g"], ["f"])
    assert other.first is not None
    assert other.first.block.label == "tool f"

    rewritten = changes_between(before, make_request(protocol, user("In short: f is done.")))
    assert rewritten.messages[0] > rewritten.messages[1]
    assert rewritten.first is not None
    assert rewritten.first.block.kind == "message"
    pieces = [piece.text for piece in rewritten.first.pieces if piece.how != "removed"]
    assert "".join(pieces) == "In short: f is done."


def test_marks_of_the_cache_that_move_change_no_block_and_are_named() -> None:
    def body(marked: int, texts: int) -> RequestSent:
        messages = [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": f"t{n}"}
                    | ({"cache_control": {"type": "ephemeral"}} if n == marked else {})
                ],
            }
            for n in range(texts)
        ]
        text = json.dumps({"model": "m", "temperature": texts, "messages": messages})
        return RequestSent(
            1,
            protocol="anthropic",
            method="POST",
            url="https://a.example",
            headers={},
            body=text,
            model="m",
        )

    changes = changes_between(body(1, 2), body(2, 3))
    assert changes.first is None
    assert changes.marks == (["message 2 (user)"], ["message 3 (user)"])
    assert [(c.pointer, c.old, c.new) for c in changes.settings] == [("/temperature", "2", "3")]


@pytest.mark.parametrize(("old", "new"), [("{", "{}"), ("[]", "{}"), ("{}", '"text"')])
def test_what_is_no_object_is_not_compared(old: str, new: str) -> None:
    bodies = [
        RequestSent(1, protocol="anthropic", method="POST", url="https://a", headers={}, body=text)
        for text in (old, new)
    ]
    assert request_changes(*bodies) is None
    request_sent, other = (
        replace(bodies[0], body="{}", protocol=p) for p in ("anthropic", "gemini")
    )
    assert request_changes(request_sent, other) is None


def test_any_object_is_compared_whatever_its_members_are() -> None:
    odd = {"tools": [1, {}], "system": {"parts": 3}, "messages": "hi", "x": None}
    bodies = [
        RequestSent(
            1,
            protocol="openai_chat",
            method="POST",
            url="https://a",
            headers={},
            body=json.dumps(body),
        )
        for body in (odd, {}, {"tools": {}, "input": [None, 3]})
    ]
    for request_sent in bodies:
        for other in bodies:
            assert request_changes(request_sent, other) is not None
