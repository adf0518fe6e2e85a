"""Arguments streamed by path: one JSON text that grows at its end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.protocols.gemini.decode import GrowingArguments
from tests.protocols.gemini import partial_arg


def feed_partials(*partials: dict[str, Any]) -> tuple[list[str], GrowingArguments]:
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
            [
                partial_arg("$.a", stringValue="x", more=True),
                partial_arg("$.a", stringValue='"é\n'),
            ],
            ['{"a":"x', '\\"é\\n"', "}"],
        ),
        # As Vertex sends it: an empty piece ends a text.
        (
            [
                partial_arg("$.a", stringValue="x", more=True),
                partial_arg("$.a", stringValue=""),
                partial_arg("$.b"),
            ],
            ['{"a":"x', '"', "", "}"],
        ),
        (
            [
                partial_arg("$.a", stringValue="x", more=True),
                partial_arg("$.a", stringValue="y"),
                partial_arg("$.b"),
            ],
            ['{"a":"x', 'y"', "", "}"],
        ),
        (
            [partial_arg("$.a", stringValue="x", more=True), partial_arg("$.a")],
            ['{"a":"x', '"', "}"],
        ),
        (
            [
                partial_arg("$.a", numberValue=1.5),
                partial_arg("$.b", boolValue=False),
                partial_arg("$.c", nullValue=0),
            ],
            ['{"a":1.5', ',"b":false', ',"c":null', "}"],
        ),
        (
            [
                partial_arg("$.a[0].b", stringValue="x"),
                partial_arg("$.a[0].c", numberValue=1),
                partial_arg("$.a[1]"),
            ],
            ['{"a":[{"b":"x"', ',"c":1', "", "}]}"],
        ),
        (
            [
                partial_arg("$.a[0][0]", numberValue=1),
                partial_arg("$.a[1]", numberValue=2),
                partial_arg("$.d.e.f", boolValue=True),
            ],
            ['{"a":[[1', "],2", '],"d":{"e":{"f":true', "}}}"],
        ),
        (
            [
                partial_arg("$['it\\'s \"so\"']", numberValue=1),
                partial_arg('$["b.c"]', numberValue=2),
                partial_arg("$.a-b", nullValue="NULL_VALUE"),
            ],
            ['{"it\'s \\"so\\"":1', ',"b.c":2', ',"a-b":null', "}"],
        ),
    ],
)
def test_the_text_grows_by_these_pieces(partials: list[dict[str, Any]], pieces: list[str]) -> None:
    messages, growing = feed_partials(*partials)
    assert messages == pieces
    assert not growing.broken
    json.loads("".join(messages))


@pytest.mark.parametrize(
    "partials",
    [
        [
            partial_arg("$.a.x", numberValue=1),
            partial_arg("$.b", numberValue=2),
            partial_arg("$.a.y", numberValue=3),
        ],
        [partial_arg("$.a", numberValue=1), partial_arg("$.a", numberValue=2)],
        [partial_arg("$.a[1]", numberValue=1)],
        [partial_arg("$.a[0]", numberValue=1), partial_arg("$.a[0]", numberValue=2)],
        [partial_arg("$.a[0]", numberValue=1), partial_arg("$.a.b", numberValue=2)],
        [partial_arg("$[0]", numberValue=1)],
        [partial_arg("$", stringValue="x")],
        [partial_arg("a", stringValue="x")],
        [partial_arg("$..a", stringValue="x")],
        [partial_arg("$.a[*]", stringValue="x")],
        [partial_arg("$['a", stringValue="x")],
        [partial_arg("$['\\x']", stringValue="x")],
        [{"stringValue": "x"}],
        [partial_arg("$.a", numberValue="NaN")],
        [partial_arg("$.a", stringValue="x", more=True)],
        [partial_arg("$.a", stringValue="x", more=True), partial_arg("$.b", stringValue="y")],
        [partial_arg("$.a", stringValue="x", more=True), partial_arg("$.a", numberValue=1)],
        [partial_arg("$.a", stringValue=1)],
        [partial_arg("$" + ".a" * 300, stringValue="x")],
        [
            partial_arg("$.a", stringValue="x", more=True),
            partial_arg("$.b.c", numberValue=1),
            partial_arg("$.a", stringValue="y"),
        ],
    ],
)
def test_what_fits_nowhere_leaves_a_text_that_is_no_json(partials: list[dict[str, Any]]) -> None:
    messages, growing = feed_partials(*partials, partial_arg("$.z", numberValue=9))
    assert growing.broken
    assert messages[-1] == ""
    with pytest.raises(ValueError, match=r"Expecting|Unterminated|Invalid"):
        json.loads("".join(messages))


def test_a_text_that_was_to_go_on_is_not_closed() -> None:
    messages, growing = feed_partials(partial_arg("$.a", stringValue="/home", more=True))
    assert (messages, growing.broken) == (['{"a":"/home', ""], True)
