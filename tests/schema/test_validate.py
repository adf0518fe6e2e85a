"""Values against schemas: every problem with its place, a fix only where it is safe, no hanging."""

from __future__ import annotations

import json
import socket
from typing import Any
from unittest.mock import Mock

import pytest

from playground.core.errors import BadTool
from playground.core.tools import IdentityKey
from playground.schema import schema_checks
from playground.schema.schema_checks import MAX_STEPS, cached_validator, steps
from playground.schema.validate import MAX_PROBLEMS, check_tool, parse_tool_json, schema_problems

Json = dict[str, Any]

INTEGER = {"type": "integer", "minimum": 5}

FIXES = [
    ({"type": "integer"}, "30", "30"),
    ({"type": "integer"}, "-12345678901234567890123", "-12345678901234567890123"),
    ({"type": "integer"}, "030", ""),
    ({"type": "integer"}, "3.5", ""),
    ({"type": "integer"}, 3.5, ""),
    ({"type": "integer"}, " 3", ""),
    ({"type": "integer"}, True, ""),
    ({"type": "integer", "minimum": 5}, "4", ""),
    ({"type": "number"}, "1.10", "1.10"),
    ({"type": "number"}, "1e5", ""),
    ({"type": "boolean"}, "true", "true"),
    ({"type": "boolean"}, "True", ""),
    ({"type": "boolean"}, 1, ""),
    ({"type": "string"}, 30, '"30"'),
    ({"type": "string"}, 1.5, ""),
    ({"type": "string"}, None, ""),
    ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", "[1, 2]"),
    ({"type": "array", "items": {"type": "integer"}}, '["1"]', ""),
    ({"type": "array"}, "1, 2", ""),
    ({"type": "object"}, '{"a": 1}', '{"a": 1}'),
    ({"type": "object"}, '{"a": 1, "a": 2}', ""),
    ({"type": ["integer", "boolean"]}, "true", "true"),
    ({"enum": [1, 2]}, "2", "2"),
    ({"enum": ["1", "2"]}, 2, '"2"'),
    ({"const": 7}, "7", "7"),
    ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, "null", ""),
]

TWICE = {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}

NOT_MUCH = (
    *("redos", "unique", "many-items"),
    *("deep-schema", "huge-schema", "pattern-bomb"),
    *(f"fan-{k}-{n}" for k in ("allOf", "anyOf", "oneOf") for n in (4, 5)),
)
"""What the validator is started on; all else is refused by the count of its steps."""

DRAFT_4 = "http://json-schema.org/draft-04/schema#"


def an_object(**properties: Any) -> Json:
    return {"type": "object", "properties": properties}


POINT = {
    "$defs": {"point": an_object(x=INTEGER)},
    **an_object(at={"$ref": "#/$defs/point"}),
}

PROBLEMS: list[tuple[Json, Any, list[tuple[str, str, str]]]] = [
    (
        an_object(minutes=INTEGER),
        {"minutes": "30"},
        [
            (
                "/minutes",
                '/minutes is "30", a string; the schema requires an integer of at least 5.',
                "30",
            )
        ],
    ),
    (
        an_object(minutes=INTEGER),
        {"minutes": 3},
        [
            (
                "/minutes",
                "/minutes is 3, an integer; the schema requires an integer of at least 5.",
                "",
            )
        ],
    ),
    (
        POINT,
        {"at": {"x": "7"}},
        [("/at/x", '/at/x is "7", a string; the schema requires an integer of at least 5.', "7")],
    ),
    (
        an_object(unit={"enum": ["c", "f"]}),
        {"unit": "C"},
        [("/unit", '/unit is "C", a string; the schema requires one of "c", "f".', '"c"')],
    ),
    (  # its enum is satisfied, its const is not
        an_object(unit={"enum": ["c", "f"], "const": "f"}),
        {"unit": "c"},
        [("/unit", '/unit is "c", a string; the schema requires "f".', "")],
    ),
    (  # its enum is satisfied, its type is not
        an_object(guests={"type": "integer", "enum": ["2", "4"]}),
        {"guests": "2"},
        [("/guests", '/guests is "2", a string; the schema requires an integer.', "")],
    ),
    (  # which of the two is meant nobody knows
        an_object(unit={"enum": ["k", "K", 1]}),
        {"unit": "\u212a"},
        [("/unit", '/unit is "\u212a", a string; the schema requires one of "k", "K", 1.', "")],
    ),
    (  # jsonschema-rs tells another place than that of the value
        an_object(**{"": {"items": {"type": "integer"}}}),
        {"": ["1"]},
        [("/0", '/0 is "1", a string; the schema requires an integer.', "")],
    ),
    (
        {**an_object(), "required": ["a", "b"]},
        {"a": 1},
        [("", 'The arguments object has no "b", which the schema requires.', "")],
    ),
    (
        {**an_object(a={}), "additionalProperties": False},
        {"a": 1, "b/c": 2, "d": 3},
        [
            ("/b~1c", '/b~1c is not in the schema, which knows only "a".', ""),
            ("/d", '/d is not in the schema, which knows only "a".', ""),
        ],
    ),
    (
        an_object(n={"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        {"n": "12"},
        [("/n", '/n is "12", a string; the schema requires an integer or null.', "12")],
    ),
    (
        an_object(s={"type": "string", "minLength": 1, "maxLength": 2}),
        {"s": ""},
        [
            (
                "/s",
                '/s is "", a string; the schema requires a string with at least 1 character '
                "and at most 2 characters.",
                "",
            )
        ],
    ),
    (
        an_object(d={"type": "string", "format": "date"}),
        {"d": "soon"},
        [("/d", '/d is "soon", a string; the schema requires a string in the format date.', "")],
    ),
    (
        an_object(a={"pattern": "^(?:(?=a)a|aa)+$"}),
        {"a": "a" * 200 + "!"},
        [("/a", "/a could not be checked, because the schema's pattern takes too long.", "")],
    ),
    (an_object(a=False), {"a": 1}, [("/a", "/a is not allowed by the schema.", "")]),
    (
        an_object(a={"not": {"const": 1}}),
        {"a": 1},
        [("/a", "/a is 1, an integer; the schema requires anything but 1.", "")],
    ),
    (
        an_object(a={"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        {"a": [1, "2", 1]},
        [
            ("/a/1", '/a/1 is "2", a string; the schema requires an integer.', "2"),
            ("/a/2", "/a/2 is 1, an integer, like /a/0; the schema requires each item once.", ""),
        ],
    ),
]


@pytest.mark.parametrize(("schema", "value", "expected"), PROBLEMS)
def test_problems(schema: Json, value: Any, expected: list[tuple[str, str, str]]) -> None:
    problems = schema_problems(schema, value)
    assert sorted((p.pointer, p.message, p.fix) for p in problems) == expected
    assert {p.kind for p in problems} == {"schema"}


@pytest.mark.parametrize(("schema", "value", "fix"), FIXES)
def test_fix_is_lossless_or_absent(schema: Json, value: Any, fix: str) -> None:
    (problem,) = schema_problems(an_object(v=schema), {"v": value})
    assert problem.fix == fix
    if fix:
        assert schema_problems(an_object(v=schema), {"v": json.loads(fix)}) == ()


def test_other_problems_do_not_hinder_a_fix() -> None:
    schema = {**an_object(a={"type": "integer"}, b={"type": "integer"}), "required": ["c"]}
    problems = schema_problems(schema, {"a": "1", "b": "x"})
    assert {p.pointer: p.fix for p in problems} == {"": "", "/a": "1", "/b": ""}


@pytest.mark.parametrize("value", [{"n": 30.0}, {"n": 10**399}, {"n": -0.0}])
def test_numbers_that_are_integers(value: Json) -> None:
    assert schema_problems(an_object(n={"type": "integer"}), value) == ()


def test_problems_are_capped() -> None:
    value = {str(n): "x" for n in range(10_000)}
    problems = schema_problems({"additionalProperties": {"type": "integer"}}, value)
    assert len(problems) == MAX_PROBLEMS + 1
    assert problems[-1].message == f"There are more problems than the {MAX_PROBLEMS} shown."


def fan(keyword: str, levels: int, width: int = 10) -> Json:
    defs: Json = {
        f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * width} for n in range(levels)
    }
    return {"$defs": {**defs, f"d{levels}": {"type": "string"}}, "$ref": "#/$defs/d0"}


def nested(value: Any, times: int) -> Any:
    for _ in range(times):
        value = {"x": value}
    return value


def unevaluated(levels: int) -> Json:
    schema: Json = an_object(a={})
    for _ in range(levels):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return schema


HOSTILE: dict[str, tuple[Json, Any]] = {
    "redos": (an_object(a={"pattern": "^(a+)+$"}), {"a": "a" * 50_000 + "!"}),
    "redos-lookaround": (an_object(a={"pattern": "^(?:a|a|aa)+(?!b)$"}), {"a": "a" * 50_000 + "!"}),
    "redos-everywhere": (
        {"additionalProperties": {"pattern": "^(?:a|a|aa)+(?!b)$"}},
        {f"k{n}": "a" * 200 + f"!{n}" for n in range(10_000)},
    ),
    "patterns-many": (
        {"allOf": [an_object(a={"pattern": f"(x+)+y{n}"}) for n in range(3_000)]},
        {"a": "x" * 1_000_000},
    ),
    **{f"fan-{k}-{n}": (fan(k, n), {}) for k in ("allOf", "anyOf", "oneOf") for n in (4, 5, 8)},
    "fan-valid": (fan("anyOf", 6), "text"),
    "chain": (fan("allOf", 400, 1), {}),
    "self": ({"$ref": "#"}, {}),
    "self-twice": (TWICE, {}),
    "self-in-not": ({"not": {"$ref": "#"}}, {}),
    "branching-recursion": (an_object(x=TWICE), nested(1, 60)),
    "unevaluated": (unevaluated(25), {"a": 1}),
    "unique": (an_object(a={"uniqueItems": True}), {"a": [[1] * 100 + [n] for n in range(5_000)]}),
    "many-items": (an_object(a={"items": INTEGER}), {"a": [4] * 150_000}),
    "deep-schema": (an_object(x=nested({}, 2_000)), {}),
    "huge-schema": (an_object(**{f"p{n}": INTEGER for n in range(20_000)}), {}),
    "pattern-bomb": (an_object(a={"pattern": "((((a{10}){10}){10}){10}){10}"}), {"a": "a"}),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_schemas_answer_in_time(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema, value = HOSTILE[case]
    # Looked at first: the validator, once started on one of these, ends at no signal.
    assert (steps(schema, value) > MAX_STEPS) is (case not in NOT_MUCH)
    if case not in NOT_MUCH and not isinstance(cached_validator(IdentityKey(schema)), tuple):
        judge = Mock(is_valid=Mock(side_effect=AssertionError("It was started.")))
        monkeypatch.setattr(
            "playground.schema.schema_checks.cached_validator", lambda schema: judge
        )
    problems = schema_problems(schema, value)
    assert all(p.kind == "schema" and p.message.endswith(".") for p in problems)
    assert problems or case in ("unique", "fan-valid")


def test_a_remote_ref_is_refused_and_not_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        server.setblocking(False)
        for schema in (
            {"$ref": url},
            an_object(a={"items": [{"$ref": url}]}),
            {"$schema": url, **an_object(a=INTEGER)},
            {"$id": url, **an_object(a=INTEGER)},
            {"$id": url, "$ref": "other.json"},
            {"$dynamicRef": url},
            {"allOf": [{"$id": url, "$ref": "#/x"}]},
        ):
            schema_problems(schema, {"a": 1})
        with pytest.raises(ValueError, match="never fetched"):
            schema_checks.validator({"$ref": url})
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize(
    "value", [{"a": "\ud800"}, {"a": float("inf")}, nested({}, 3_000), {"a": "x\0"}]
)
def test_odd_values_never_raise(value: Any) -> None:
    schema_problems(an_object(a=INTEGER, x={"$ref": "#"}), value)


GOOD: Json = {
    "name": "get_weather",
    "description": "The weather.",
    "parameters": {**an_object(city={"type": "string"}), "required": ["city"]},
    "config": {"result": "fine"},
}
PYTHON: Json = {**GOOD, "answered_by": "python", "config": {"file": "/a.py", "function": "f"}}

BAD_TOOLS: list[tuple[Any, str, str]] = [
    ([], "", "JSON object"),
    ({}, "/name", "1 to 128"),
    ({**GOOD, "name": ""}, "/name", "letters"),
    ({**GOOD, "name": "two words"}, "/name", "letters"),
    ({**GOOD, "name": "gët"}, "/name", "letters"),
    ({**GOOD, "name": "x" * 129}, "/name", "128"),
    ({**GOOD, "name": "x\n"}, "/name", "letters"),
    ({**GOOD, "name": 3}, "/name", "letters"),
    ({**GOOD, "colour/~": 1}, "/colour~1~0", "colour"),
    ({**GOOD, "description": None}, "/description", "text"),
    ({**GOOD, "description": "x" * 70_000}, "/description", "at most 65536"),
    ({**GOOD, "description": "\ud800"}, "/description", "surrogate"),
    ({**GOOD, "parameters": None}, "/parameters", "requires an object"),
    ({**GOOD, "parameters": {"type": "string"}}, "/parameters/type", '"type": "object"'),
    ({**GOOD, "parameters": {}}, "/parameters/type", '"type": "object"'),
    (
        {**GOOD, "parameters": an_object(a={"type": "integr"})},
        "/parameters/properties/a/type",
        '"integr" at /properties/a/type is not a JSON Schema type',
    ),
    (
        {**GOOD, "parameters": an_object(a={"pattern": "("})},
        "/parameters/properties/a/pattern",
        "regular expression",
    ),
    (
        {**GOOD, "parameters": {**an_object(), "required": "city"}},
        "/parameters/required",
        "list of names",
    ),
    (
        {**GOOD, "parameters": an_object(a={"minimum": "3"})},
        "/parameters/properties/a/minimum",
        "valid JSON Schema",
    ),
    (
        {**GOOD, "parameters": an_object(a={"$ref": "https://example.com/x"})},
        "/parameters/properties/a/$ref",
        "Nothing is fetched",
    ),
    (
        {**GOOD, "parameters": an_object(a={"$ref": "file:///etc/passwd"})},
        "/parameters/properties/a/$ref",
        "Nothing is fetched",
    ),
    (
        {**GOOD, "parameters": an_object(a={"$ref": "#/$defs/none"})},
        "/parameters/properties/a/$ref",
        "no schema at #/$defs/none",
    ),
    ({**GOOD, "parameters": an_object(x=nested({}, 100))}, "/parameters", "64 levels"),
    ({**GOOD, "parameters": an_object(x=nested({}, 5_000))}, "/parameters", "64 levels"),
    ({**GOOD, "parameters": {**an_object(), "title": "x" * 300_000}}, "/parameters", "262,144"),
    ({**GOOD, "parameters": {**an_object(), "title": "\ud800"}}, "/parameters", "surrogate"),
    ({**GOOD, "answered_by": "magic"}, "/answered_by", 'requires one of "mock"'),
    ({**GOOD, "answered_by": ["mock"]}, "/answered_by", 'requires one of "mock"'),
    ({**GOOD, "answered_by": "mcp", "config": {}}, "/config/server", "config.server"),
    ({**GOOD, "config": []}, "/config", "an array"),
    ({**GOOD, "config": {}}, "/config/result", "needs a result"),
    ({**GOOD, "config": {"result": 1, "x": 1}}, "/config/x", "is not in the schema"),
    ({**GOOD, "config": {"result": 1, "is_error": 1}}, "/config/is_error", "true or false"),
    ({**GOOD, "config": {"result": 1, "delay_s": -1}}, "/config/delay_s", "3600"),
    ({**GOOD, "config": {"result": 1, "delay_s": float("nan")}}, "/config/delay_s", "NaN"),
    ({**PYTHON, "config": {}}, "/config/file", "needs a file: the absolute"),
    ({**PYTHON, "config": {"file": "/a.py"}}, "/config/function", "needs a function: the name"),
    ({**PYTHON, "config": {"file": "/a.py", "function": "a b"}}, "/config/function", "plain name"),
    *(
        ({**PYTHON, "config": {**PYTHON["config"], name: path}}, f"/config/{name}", "absolute path")
        for name in ("file", "interpreter")
        for path in ("a.py", "./a.py", "../a.py", "~root/a.py", " /a.py")
    ),
    (
        {**PYTHON, "config": {**PYTHON["config"], "interpreter": "shipped:x"}},
        "/config/interpreter",
        "absolute path",
    ),
    ({**PYTHON, "config": {"code": "x"}}, "/config/code", "a function in it"),
    (
        {**PYTHON, "config": {"file": "/a.py", "function": "f", "interpreter": 3}},
        "/config/interpreter",
        "path of a Python",
    ),
    (
        {**GOOD, "answered_by": "person", "config": {"output_schema": {"type": "x"}}},
        "/config/output_schema/type",
        "not a JSON Schema type",
    ),
    ({**GOOD, "strict": "yes"}, "/strict", "true or false"),
    ({**GOOD, "parallel_safe": 1}, "/parallel_safe", "true or false"),
    ({**GOOD, "timeout_s": 0}, "/timeout_s", "at most 3600"),
    ({**GOOD, "timeout_s": True}, "/timeout_s", "at most 3600"),
    ({**GOOD, "timeout_s": float("nan")}, "/timeout_s", "NaN"),
    ({**GOOD, "timeout_s": "30"}, "/timeout_s", "at most 3600"),
    ({**GOOD, "group": 3}, "/group", "at most 100 characters"),
]


@pytest.mark.parametrize(("data", "pointer", "words"), BAD_TOOLS)
def test_bad_tool(data: Any, pointer: str, words: str) -> None:
    with pytest.raises(BadTool) as caught:
        check_tool(data)
    assert caught.value.pointer == pointer
    assert words in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    "data",
    [
        GOOD,
        PYTHON,
        {"name": "a", "answered_by": "person"},
        {"name": "a", "config": {"result": None}, "timeout_s": 1},
        {**GOOD, "parameters": {**POINT, "$schema": "http://json-schema.org/draft-07/schema#"}},
        {**GOOD, "parameters": an_object(**{"$ref": {"type": "string"}})},
        {**GOOD, "parameters": an_object(a={"enum": [{"$ref": "https://example.com"}]})},
    ],
)
def test_good_tool(data: Json) -> None:
    tool = check_tool(data)
    for name, value in data.items():
        assert getattr(tool, name) == value
    assert isinstance(tool.timeout_s, float)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"name": "a",\n "strict": yes}', "Line 2, column 12"),
        ('{"name": "a"', "Line 1, column 13"),
        ('{"name": "a", "name": "b"}', "duplicate key"),
        ("[]", "not an array"),
        ("", "Line 1, column 1"),
    ],
)
def test_tool_text(text: str, words: str) -> None:
    with pytest.raises(BadTool, match=words):
        parse_tool_json(text)
    assert parse_tool_json('{"name": "a"}') == {"name": "a"}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"properties": []}, "at /properties, keyword properties:"),
        ({"properties": {"a": 5}}, "at /properties/a, keyword properties:"),
        ({"properties": {"anyOf": 5}}, "at /properties/anyOf, keyword properties:"),
        (
            {"properties": {"properties": {"minimum": "3"}}},
            "at /properties/properties/minimum, keyword minimum:",
        ),
        ({"properties": {"a": {"type": 3}}}, "3 at /properties/a/type is not a JSON Schema type"),
        (
            {"properties": {"a": {"pattern": "("}}},
            '"(" at /properties/a/pattern is not a valid reg',
        ),
        ({"properties": {"a": {"required": True}}}, "required at /properties/a/required must"),
        (
            {"patternProperties": {"[": {}}},
            "at /patternProperties/[ is not a valid regular",
        ),
        ({"anyOf": [{}, {"items": [{}]}]}, "at /anyOf/1/items, keyword items:"),
        (
            {"$schema": DRAFT_4, "properties": {"a": {"exclusiveMinimum": 3}}},
            "at /properties/a, keyword exclusiveMinimum:",
        ),
    ],
)
def test_an_invalid_schema_is_told_with_its_place_and_keyword(schema: Any, message: str) -> None:
    problem = schema_checks.fault({"type": "object", **schema})
    assert problem is not None
    assert message in problem[0]
