"""The walk that checks a body against the table of its shape."""

from __future__ import annotations

from typing import Any

import pytest

from playground.protocols.server import (
    ANY,
    BadRequest,
    Citation,
    Phrases,
    Shape,
    check_shape,
    predicate_rule,
)

SOURCE = Citation("the test")


class Says(Phrases):
    def __init__(self, lead: str = "") -> None:
        self.lead = lead

    def refuse_type(self, value: Any, where: str, shape: Shape) -> BadRequest:
        return SOURCE.refusal(f"{self.lead}{where} is no {shape.name}")

    def refuse_missing(self, where: str, shape: Shape) -> BadRequest:
        return SOURCE.refusal(f"{where} is missing")

    def refuse_unknown(self, name: str, where: str, shape: Shape) -> BadRequest:
        return SOURCE.refusal(f"{self.join(where, name)} is unknown")

    def refuse_variant(self, value: Any, where: str, shape: Shape) -> BadRequest:
        return SOURCE.refusal(f"{where} is of another kind")

    def inner_place(self, where: str, shape: Shape, kind: str = "") -> str:
        return f"{where}<{kind}>" if kind else where


INTEGER = Shape(int, "integer")
TEXT = Shape(str, "text", phrases=Says("here "))
PIECE = Shape(
    dict,
    "piece",
    closed=True,
    untagged="plain",
    members={"mark": TEXT},
    variants={"plain": Shape(members={"text": TEXT}), "number": Shape(members={"n": INTEGER})},
)
BODY = Shape(
    dict,
    "body",
    closed=True,
    required=("model",),
    members={
        "model": Shape(str, "text", rules=(predicate_rule(len, "{where} is empty", SOURCE),)),
        "count": Shape(int, "integer", null=True),
        "share": Shape((int, float), "number"),
        "pieces": Shape((str, list), "list", each=PIECE),
        "labels": Shape(dict, "object", members={"other": ANY}, each=TEXT),
    },
)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ([], " is no body"),
        ({}, "model is missing"),
        ({"model": ""}, "model is empty"),
        ({"model": 7}, "model is no text"),
        ({"model": "m", "modle": "m"}, "modle is unknown"),
        ({"model": "m", "count": True}, "count is no integer"),
        ({"model": "m", "count": 1.5}, "count is no integer"),
        ({"model": "m", "share": None}, "share is no number"),
        ({"model": "m", "share": False}, "share is no number"),
        ({"model": "m", "pieces": {}}, "pieces is no list"),
        ({"model": "m", "pieces": [{}, 1]}, "pieces.1 is no piece"),
        ({"model": "m", "pieces": [{"text": 1}]}, "here pieces.0<plain>.text is no text"),
        ({"model": "m", "pieces": [{"mark": 1}]}, "here pieces.0<plain>.mark is no text"),
        (
            {"model": "m", "pieces": [{"type": "number", "n": "1"}]},
            "pieces.0<number>.n is no integer",
        ),
        ({"model": "m", "pieces": [{"type": "odd"}]}, "pieces.0 is of another kind"),
        ({"model": "m", "pieces": [{"type": []}]}, "pieces.0 is of another kind"),
        ({"model": "m", "labels": {"other": 1, "x": 1}}, "here labels.x is no text"),
    ],
)
def test_the_first_thing_that_is_wrong_is_named_with_its_place(body: Any, words: str) -> None:
    with pytest.raises(BadRequest) as refused:
        check_shape(body, BODY, Says())
    assert str(refused.value) == words


def test_what_has_the_shape_is_taken() -> None:
    pieces = [{"text": "a"}, {"type": "number", "n": 1, "mark": "b", "more": {}}]
    check_shape({"model": "m", "count": None, "share": 1, "pieces": pieces}, BODY, Says())
    check_shape({"model": "m", "pieces": "x", "labels": {"x": "y"}}, BODY, Says())
