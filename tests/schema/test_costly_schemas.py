"""Schemas of a few kilobytes that stand for gigabytes: refused, or done with little work."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.core.tools import IdentityKey
from playground.schema import schema_checks
from playground.schema.form import fields
from playground.schema.incremental import IncrementalValidator
from playground.schema.outline import outline
from playground.schema.satisfy import sample_value
from playground.schema.schema_checks import (
    MAX_PATTERNS_BYTES,
    MAX_STEPS,
    MAX_VALIDATOR_BYTES,
    cached_validator,
    fault,
    pattern_bytes,
    steps,
)
from playground.schema.validate import schema_problems

Json = dict[str, Any]

BOMB = "a{1,60000}{1,60000}"

IN_USE = [
    r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
    r"^(?!.*--)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$",
    r"^[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
    r"(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$",
    r"^[\p{L}\p{N} ]+$",
    r"^.{1,2000}[a-z]$",
    r"^(?=.*[A-Z])(?=.*\d)(?=.*[a-z]).{8,128}$",
    r"^arn:(aws[a-zA-Z-]*)?:iam::\d{12}:role/?[a-zA-Z_0-9+=,.@\-_/]+$",
]

STATES = [
    ("abc", 3),
    ("^a{1,5}$", 7),
    ("[a-z]{3}", 3),
    (r"[\]{}(]{3}", 3),
    (r"\p{L}{5}", 5),
    ("((a{3}){3}){3}", 27),
    ("(?:a|b){4}", 8),
    ("(?<n>ab){3}c", 7),
    ("a{2,}", 3),
    ("(a{0,1000}){0,1000}", 1_000_000),
]

WIDE: Json = {
    "type": "object",
    "properties": {f"p{n}": {} for n in range(15_000)},
    "required": [f"p{n}" for n in range(14_000)],
}
NESTED_COUNTS: Json = {
    "type": "object",
    "required": ["a"],
    "properties": {
        "a": {
            "type": "array",
            "minItems": 10**9,
            "uniqueItems": True,
            "items": {
                "type": "array",
                "minItems": 10**9,
                "uniqueItems": True,
                "items": {"type": "string", "minLength": 10**9},
            },
        }
    },
}


def of_patterns(*patterns: str) -> Json:
    properties = {f"p{n}": {"type": "string", "pattern": text} for n, text in enumerate(patterns)}
    return {"type": "object", "properties": properties}


def many_of(pattern: str, count: int) -> Json:
    """A schema of `count` different patterns of this kind; %d is their number."""
    return of_patterns(*(pattern % (60_000 - number) for number in range(count)))


TOO_LARGE: list[tuple[str, Json, str]] = [
    ("counts of counts", many_of("a{1,60000}{1,%d}", 200), "/properties/p0/pattern"),
    ("Unicode letters", of_patterns(r"^(\p{L}a){1,2000}$"), "/properties/p0/pattern"),
    (
        "an expression of look-arounds",
        of_patterns("".join(rf"(?=(\p{{L}}a){{1,{50 + n}}}x)" for n in range(20))),
        "/properties/p0/pattern",
    ),
    (
        "names of properties",
        {
            "type": "object",
            "patternProperties": {f"^(ab){{1,{20_000 + n}}}$": {} for n in range(99)},
        },
        "/patternProperties",
    ),
    ("many", of_patterns(*(f"^x{n}[a-z]+$" for n in range(3_500))), "/pattern"),
    ("a long one", of_patterns(r"[\w\d\s]" * 2_000), "/properties/p0/pattern"),
    ("long ones", of_patterns(*(rf"\p{{L}}{n}" * 200 for n in range(10))), "/pattern"),
    (
        "where only a reference leads",
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/elsewhere/all"}},
            "elsewhere": {"all": {"allOf": [{"pattern": f"^({BOMB}){n}x$"} for n in range(9)]}},
        },
        "/elsewhere/all",
    ),
]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("schema", "place"), [row[1:] for row in TOO_LARGE], ids=[row[0] for row in TOO_LARGE]
)
def test_patterns_too_large_for_a_schema_are_refused_with_their_place(
    schema: Json, place: str
) -> None:
    problem = fault(schema)
    assert problem is not None
    assert place in problem[1]
    assert place in problem[0]
    assert any(word in problem[0] for word in ("MiB when", "characters", "shorten it"))


def test_patterns_in_use_together_are_compiled() -> None:
    assert fault(of_patterns(*IN_USE)) is None
    assert fault(of_patterns(r"^\S(.{0,4998}\S)?$")) is None
    assert fault(of_patterns(*(rf"^[\s\S]{{1,{131_072 + n}}}$" for n in range(9)))) is None
    assert fault(of_patterns(r"^[\p{L}][\p{L}\p{N} ]{0,99}$")) is None


def test_a_pattern_that_is_none_is_still_called_one() -> None:
    problem = fault(of_patterns("[a{1,60000}"))
    assert problem is not None
    assert "is not a valid regular expression" in problem[0]


@pytest.mark.parametrize(("pattern", "states"), STATES)
def test_a_match_is_counted_by_the_states_of_the_pattern(pattern: str, states: int) -> None:
    text = "a" * 9
    assert steps({"pattern": pattern}, text) == 1 + 1 + states * 10 // 9


@pytest.mark.parametrize(
    "pattern", ["a[ab]{5000}c", "(?=.*a[ab]{300}c)x", r"(a|b){300}\1c"], ids=str
)
def test_a_match_that_would_take_long_is_not_started(pattern: str) -> None:
    schema = of_patterns(pattern)
    assert fault(schema) is None
    text = "ab" * 10_000
    assert steps(schema, {"p0": text}) > MAX_STEPS
    [problem] = schema_problems(schema, {"p0": text})
    assert "would take too long" in problem.message


def test_a_usual_match_that_fails_is_explained() -> None:
    schema = of_patterns(IN_USE[1])
    [problem] = schema_problems(schema, {"p0": "a--" + "b" * 55})
    assert problem.pointer == "/p0"
    addresses = {"type": "array", "items": {"type": "string", "pattern": IN_USE[2]}}
    value = {"to": [*(f"person{n}@mail.example.com" for n in range(500)), "nobody"]}
    problems = schema_problems({"type": "object", "properties": {"to": addresses}}, value)
    assert [problem.pointer for problem in problems] == ["/to/500"]


def test_validators_are_kept_by_their_size_and_not_by_their_number() -> None:
    small = [IdentityKey(of_patterns(f"^a{n}$")) for n in range(300)]
    stored = [cached_validator(same) for same in small]
    assert all(cached_validator(same) is first for same, first in zip(small, stored, strict=True))
    large = [IdentityKey(of_patterns(rf"^\S(.{{0,{4900 + n}}}\S)?$")) for n in range(9)]
    assert pattern_bytes(large[0].value) * len(large) > MAX_VALIDATOR_BYTES
    for same in large:
        assert not isinstance(cached_validator(same), tuple)
    assert cached_validator(small[0]) is not stored[0]


COSTLY: dict[str, Json] = {
    "just below the bound": of_patterns(*(f"^(ab){{1,{9_000 + n}}}$" for n in range(5))),
    "in each other": {
        "type": "object",
        "properties": {
            "a": {"anyOf": [{"anyOf": [{"anyOf": [{"pattern": r"^\S(.{0,4998}\S)?$"}]}]}]}
        },
    },
    "wanted": {
        **of_patterns(*(f"^(a|b|c)*{n}$" for n in range(500))),
        "required": [f"p{n}" for n in range(500)],
    },
}


@pytest.mark.parametrize("name", COSTLY)
def test_values_are_made_and_checked_with_a_bounded_number_of_compiled_patterns(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = COSTLY[name]
    assert fault(schema) is None
    compiled = []

    def build(schema: Json) -> Any:
        compiled.append(pattern_bytes(schema))
        return validator(schema)

    validator = schema_checks.validator
    monkeypatch.setattr(schema_checks, "validator", build)
    text = json.dumps(sample_value(schema))
    assert sum(compiled) <= 6 * MAX_PATTERNS_BYTES
    compiled.clear()
    IncrementalValidator(schema).feed(text)
    assert sum(compiled) <= 4 * MAX_PATTERNS_BYTES


@pytest.mark.parametrize("schema", [WIDE, NESTED_COUNTS], ids=["wide", "counts"])
def test_a_schema_that_wants_much_gets_a_bounded_value(schema: Json) -> None:
    for value in (sample_value(schema), sample_value(schema, seed=3)):
        assert len(json.dumps(value)) < 20_000_000
    outline(schema)
    fields(schema)


def test_arguments_that_open_costly_objects_in_each_other_compile_a_bounded_number_of_patterns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schema: Json = {"type": "object"}
    for _ in range(20):
        forbidden = {"required": ["z"], "properties": {"z": {"pattern": r"^\S(.{0,4998}\S)?$"}}}
        schema = {"type": "object", "properties": {"a": schema}, "not": forbidden}
    compiled = []

    def build(schema: Json) -> Any:
        compiled.append(pattern_bytes(schema))
        return validator(schema)

    validator = schema_checks.validator
    assert fault(schema) is None
    monkeypatch.setattr(schema_checks, "validator", build)
    IncrementalValidator(schema).feed('{"a": ' * 20 + "{}" + "}" * 20)
    assert sum(compiled) <= 4 * MAX_PATTERNS_BYTES
