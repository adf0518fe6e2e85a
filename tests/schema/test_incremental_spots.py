"""What surely applies to a place, and that its work ends at a cap."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from playground.schema.incremental import WORK, SchemaNodes, WorkSpent
from tests.schema.test_validate import fan

POINT = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}


def spots(inner: Any, **more: Any) -> SchemaNodes:
    return SchemaNodes({"type": "object", "properties": {"a": inner}, **more})


def nowhere() -> tuple[str, ...]:
    return ()


@pytest.mark.parametrize(
    ("inner", "value", "fits"),
    [
        ({"$ref": "#/$defs/p"}, 1, False),
        ({"allOf": [{"minimum": 1}, {"$ref": "#/$defs/n"}]}, 0, False),
        ({"allOf": [{"minimum": 1}, {"$ref": "#/$defs/n"}]}, 1, True),
        ({"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}, None, True),
        ({"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}, "1", False),
        ({"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"minimum": 5}}, "a", False),
        ({"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"minimum": 5}}, 6, True),
        # A container is not judged by what a scalar is judged by, nor the other way round.
        ({"required": ["x"], "minItems": 3}, "text", True),
    ],
)
def test_a_scalar_is_judged_by_all_that_applies(inner: Any, value: Any, fits: bool) -> None:
    known = spots(inner, **{"$defs": {"p": POINT, "n": {"type": "number"}}})
    problem = known.root.member("a").first_problem("scalar", value, nowhere)
    assert (problem is None) == fits


def test_of_a_union_the_one_branch_counts_that_can_be_meant() -> None:
    union = spots({"anyOf": [POINT, {"type": "null"}, {"type": "array"}]}).root.member("a")
    assert union.open_node("object").checks("keys")
    assert not union.checks("keys")
    two = spots({"anyOf": [POINT, {"minProperties": 1}]}).root.member("a")
    assert not two.open_node("object").checks("keys")


def test_a_spot_is_made_once_even_where_a_schema_leads_back_to_itself() -> None:
    spot = spots({"$ref": "#"}).root
    assert spot.member("a").member("a") is spot.member("a")
    assert spot.member("other").member("more") is spot.member("other")


def test_the_first_items_are_told_from_the_rest_in_each_array() -> None:
    array = spots({"prefixItems": [{"type": "null"}], "items": {"type": "string"}})
    spot = array.root.member("a")
    for _ in range(2):
        assert spot.item(0).first_problem("scalar", None, nowhere) is None
        assert spot.item(1).first_problem("scalar", "x", nowhere) is None
        assert spot.item(9).first_problem("scalar", 1, nowhere) is not None


def test_what_is_asked_of_other_schemas_is_found_at_its_own_place() -> None:
    """References are moved with the schema, in data they are left alone."""
    data = {"const": {"$ref": "#/nowhere"}}
    known = spots({"anyOf": [data, {"$ref": "#/$defs/a~1b"}]}, **{"$defs": {"a/b": {"const": 5}}})
    spot = known.root.member("a")
    assert spot.first_problem("scalar", 5, nowhere) is None
    assert spot.first_problem("object", {"$ref": "#/nowhere"}, nowhere) is None
    assert spot.first_problem("scalar", 6, nowhere) is not None


def test_work_ends_at_the_cap() -> None:
    known = spots({"type": "integer"})
    spot = known.root.member("a")
    known.charge(WORK - 1_000)
    assert [spot.first_problem("scalar", 1, nowhere) for _ in range(900)] == [None] * 900
    with pytest.raises(WorkSpent):
        any(spot.first_problem("scalar", 1, nowhere) for _ in range(200))


def test_a_validator_with_too_many_steps_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once started it ends at no signal."""
    judge = Mock()
    monkeypatch.setattr("playground.schema.schema_checks.validator", lambda schema: judge)
    many = {"$defs": fan("anyOf", 8)["$defs"]}
    spot = spots({"$ref": "#/$defs/d0"}, **many).root.member("a")
    assert spot.first_problem("scalar", 12345, nowhere) is None
    judge.is_valid.assert_not_called()
