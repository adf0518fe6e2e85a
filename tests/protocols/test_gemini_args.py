"""Arguments streamed by path: one JSON text that grows at its end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.protocols.gemini.decode import GrowingArguments
from tests.protocols.gemini import at


def written(*partials: dict[str, Any]) -> tuple[list[str], GrowingArguments]:
    growing = GrowingArguments()
    messages = [
        growing.take(partial, json.dumps(partial.get("numberValue", ""))) for partial in partials
    ]
    return [*messages, growing.close()], growing


@pytest.mark.parametrize(
    ("partials", "pieces"),
    [
        ([], ["{}"]),
        (
            [at("$.a", stringValue="x", more=True), at("$.a", stringValue='"é\n')],
            ['{"a":"x', '\\"é\\n"', "}"],
        ),
        # As Vertex sends it: an empty piece ends a text.
        (
            [at("$.a", stringValue="x", more=True), at("$.a", stringValue=""), at("$.b")],
            ['{"a":"x', '"', "", "}"],
        ),
        (
            [at("$.a", stringValue="x", more=True), at("$.a", stringValue="y"), at("$.b")],
            ['{"a":"x', 'y"', "", "}"],
        ),
        (
            [at("$.a", stringValue="x", more=True), at("$.a")],
            ['{"a":"x', '"', "}"],
        ),
        (
            [at("$.a", numberValue=1.5), at("$.b", boolValue=False), at("$.c", nullValue=0)],
            ['{"a":1.5', ',"b":false', ',"c":null', "}"],
        ),
        (
            [at("$.a[0].b", stringValue="x"), at("$.a[0].c", numberValue=1), at("$.a[1]")],
            ['{"a":[{"b":"x"', ',"c":1', "", "}]}"],
        ),
        (
            [
                at("$.a[0][0]", numberValue=1),
                at("$.a[1]", numberValue=2),
                at("$.d.e.f", boolValue=True),
            ],
            ['{"a":[[1', "],2", '],"d":{"e":{"f":true', "}}}"],
        ),
        (
            [
                at("$['it\\'s \"so\"']", numberValue=1),
                at('$["b.c"]', numberValue=2),
                at("$.a-b", nullValue="NULL_VALUE"),
            ],
            ['{"it\'s \\"so\\"":1', ',"b.c":2', ',"a-b":null', "}"],
        ),
    ],
)
def test_the_text_grows_by_these_pieces(partials: list[dict[str, Any]], pieces: list[str]) -> None:
    messages, growing = written(*partials)
    assert messages == pieces
    assert not growing.broken
    json.loads("".join(messages))


@pytest.mark.parametrize(
    "partials",
    [
        [at("$.a.x", numberValue=1), at("$.b", numberValue=2), at("$.a.y", numberValue=3)],
        [at("$.a", numberValue=1), at("$.a", numberValue=2)],
        [at("$.a[1]", numberValue=1)],
        [at("$.a[0]", numberValue=1), at("$.a[0]", numberValue=2)],
        [at("$.a[0]", numberValue=1), at("$.a.b", numberValue=2)],
        [at("$[0]", numberValue=1)],
        [at("$", stringValue="x")],
        [at("a", stringValue="x")],
        [at("$..a", stringValue="x")],
        [at("$.a[*]", stringValue="x")],
        [at("$['a", stringValue="x")],
        [at("$['\\x']", stringValue="x")],
        [{"stringValue": "x"}],
        [at("$.a", numberValue="NaN")],
        [at("$.a", stringValue="x", more=True)],
        [at("$.a", stringValue="x", more=True), at("$.b", stringValue="y")],
        [at("$.a", stringValue="x", more=True), at("$.a", numberValue=1)],
        [at("$.a", stringValue=1)],
        [at("$" + ".a" * 300, stringValue="x")],
        [
            at("$.a", stringValue="x", more=True),
            at("$.b.c", numberValue=1),
            at("$.a", stringValue="y"),
        ],
    ],
)
def test_what_fits_nowhere_leaves_a_text_that_is_no_json(partials: list[dict[str, Any]]) -> None:
    messages, growing = written(*partials, at("$.z", numberValue=9))
    assert growing.broken
    assert messages[-1] == ""
    with pytest.raises(ValueError, match=r"Expecting|Unterminated|Invalid"):
        json.loads("".join(messages))


def test_a_text_that_was_to_go_on_is_not_closed() -> None:
    messages, growing = written(at("$.a", stringValue="/home", more=True))
    assert (messages, growing.broken) == (['{"a":"/home', ""], True)
