"""Where schemas stand inside schemas, and how a local `$ref` is followed."""

from __future__ import annotations

import pytest

from playground.schema.schema_checks import all_subschemas, is_local, pointer, resolve

ROOT = {
    "$defs": {"a/b": {"type": "string"}, "c~d": {"prefixItems": [{}, {"const": 1}]}, "é %": True},
    "properties": {"$ref": {"type": "integer"}, "items": {"items": {"not": {}}}},
    "enum": [{"properties": {"x": {}}}],
    "dependencies": {"x": ["y"], "z": {"type": "object"}},
    "items": [{}, True],
    "additionalProperties": False,
}


def test_subschemas_are_found_and_data_is_not() -> None:
    assert {pointer(place) for place, _ in all_subschemas(ROOT)} == {
        "",
        "/$defs/a~1b",
        "/$defs/c~0d",
        "/$defs/c~0d/prefixItems/0",
        "/$defs/c~0d/prefixItems/1",
        "/$defs/é %",
        "/properties/$ref",
        "/properties/items",
        "/properties/items/items",
        "/properties/items/items/not",
        "/dependencies/z",
        "/items/0",
        "/items/1",
        "/additionalProperties",
    }


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ("#", ROOT),
        ("#/$defs/a~1b", {"type": "string"}),
        ("#/$defs/c~0d/prefixItems/1", {"const": 1}),
        ("#/$defs/%C3%A9%20%25", True),
        ("#/$defs/%zz", None),
        ("#/$defs/c~0d/prefixItems/2", None),
        ("#/$defs/c~0d/prefixItems/-1", None),
        ("#/$defs/c~0d/prefixItems/²", None),
        ("#/nowhere", None),
    ],
)
def test_resolved(ref: str, expected: object) -> None:
    assert is_local(ref)
    assert resolve(ROOT, ref) == expected


@pytest.mark.parametrize("ref", ["", "other.json", "#anchor", "https://example.com/#/x", None, 3])
def test_not_local(ref: object) -> None:
    assert not is_local(ref)
