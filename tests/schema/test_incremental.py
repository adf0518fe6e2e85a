"""The verdict while it streams: never a false alarm, and each true one at its character."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from playground.core.events import Problem
from playground.schema.incremental import IncrementalValidator
from playground.schema.strict_json import read_arguments
from playground.schema.validate import schema_problems
from tests.schema.pairs import DRAFTS as NAMES
from tests.schema.pairs import broken, pair, spelled
from tests.tables import rest_slow

PAIRS = 250

STARTS = [0, *(pytest.param(start, marks=pytest.mark.slow) for start in range(50, PAIRS, 50))]

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "minutes": {"type": "integer", "minimum": 3},
        "unit": {"enum": ["c", "f"]},
        "list": {"type": "array", "items": {"$ref": "#/$defs/point"}, "maxItems": 2},
        "maybe": {"anyOf": [{"$ref": "#/$defs/point"}, {"type": "null"}]},
        "hidden": False,
        "either": {"anyOf": [{"$ref": "#/$defs/point"}, {"required": ["y"]}]},
    },
    "required": ["minutes"],
    "additionalProperties": False,
    "$defs": {
        "point": {
            "type": "object",
            "properties": {"x": {"type": "number"}, "of": {"$ref": "#"}},
            "required": ["x"],
        }
    },
}
CASES = (
    # (text, characters until it is told, the token's start, pointer, words)
    (
        '{"minutes": "30"',
        16,
        12,
        "/minutes",
        '/minutes is "30", a string; the schema requires an int',
    ),
    ('{"minutes": 2}', 14, 12, "/minutes", "an integer of at least 3"),
    ('{"minutes": {', 13, 12, "/minutes", "/minutes is an object; the schema requires an integer"),
    ('{"unit": "C"', 12, 9, "/unit", 'one of "c", "f"'),
    ('{"zone"', 7, 1, "/zone", "is not in the schema, which knows only"),
    ('{"hidden"', 9, 1, "/hidden", "/hidden is not allowed by the schema."),
    ('{"unit": "c"}', 13, 12, "", 'has no "minutes"'),
    ("{}", 2, 1, "", 'has no "minutes"'),
    ('{"list":[{"x":1},{"x":"s"', 25, 22, "/list/1/x", "the schema requires a number"),
    (
        '{"list":[{"x":1},{"x":2},{',
        26,
        25,
        "/list",
        "/list has 3 items; the schema requires an arr",
    ),
    ('{"maybe":{"x":true', 18, 14, "/maybe/x", "the schema requires a number"),
    ('{"maybe":[', 10, 9, "/maybe", "/maybe is an array; the schema requires an object with"),
    ('{"maybe":{"x":1,"of":{"minutes":"9"', 35, 32, "/maybe/of/minutes", '"9", a string'),
    ("[", 1, 0, "", "The arguments are an array; a call needs a JSON object."),
    ('"', 1, 0, "", "The arguments are a string; a call needs a JSON object."),
    ('{"minutes":01', 13, 12, "", "a comma or a closing bracket is expected here"),
    ('{"minutes":3, "minutes"', 23, 14, "", "duplicate key"),
    (
        '{"minutes":3} x',
        15,
        14,
        "",
        "Line 1, column 15: the text continues after the end of the JSON",
    ),
    ('{\n"unit":"a\n', 12, 11, "", "Line 2, column 10: a control character"),
    ('{"unit":"\\ud83da', 16, 9, "", "half of a surrogate pair"),
    ('{"unit":"\\x', 11, 9, "", "this is not a JSON escape"),
    ('{"minutes":NaN', 12, 11, "", "a value is expected here"),
    ("nulL", 4, 0, "", "a value is expected here"),
    ("\u00a0{", 2, 0, "", "a JSON object is expected here"),
    ('{"minutes":-x', 13, 12, "", "a digit is expected here"),
    ('{"minutes":' + "1" * 401, 412, 11, "", "more than 400 digits"),
    ('{"minutes":1e500 ', 17, 11, "", "more than 400 digits"),
)

CHAIN: dict[str, Any] = {"c50": {"type": "object", "required": ["x"]}}

ALONE = (
    # (schema of "a", text): the one branch that can be meant brings along what was known already.
    ({"anyOf": [True, {"type": "null"}], "required": ["x"]}, '{"a": {}'),
    ({"anyOf": [{"$ref": "#/$defs/c50"}, {"type": "null"}]}, '{"a": {}'),
    ({"$ref": "#/$defs/c0"}, '{"a": {}'),
    ({"$ref": "#/$defs/again"}, '{"a": {}'),
)

QUIET = (
    *("", " ", "n", "null", "null \u00a0", "\u00a0null", '{"minutes": 3', '{"minutes": 1'),
    *('{"minutes":3e2,', '{"minutes":30.0}', '{"minutes":3, "list":[{"x":1},{"x":2}]}', '{"zo'),
    *('{"minutes":1e0000000000000000000002,', '{"unit": "', '{"minutes":3, "maybe":null}'),
    *('{"minutes":3}  \n', '{"minutes":tru'),
    *('{"either":{"x":"1","y":2}, "minutes":3}', '{"either":{"y":2}', '{"either":{"x":"1"'),
)

SILENT = (
    {"type": "object", "properties": {"a": {"$ref": "http://example.com/x"}}},
    {"type": "strange"},
    {"type": "object", "$ref": "#"},
)

DRAFTS = (
    ("http://json-schema.org/draft-07/schema#", {"items": [{"type": "string"}, {"type": "null"}]}),
    ("http://json-schema.org/draft-07/schema#", {"items": {}, "prefixItems": [False]}),
    ("https://json-schema.org/draft/2019-09/schema", {"items": [{}], "additionalItems": True}),
    ("http://json-schema.org/draft-04/schema#", {"const": 5, "maxItems": 2}),
    (
        "http://json-schema.org/draft-07/schema#",
        {"$ref": "#/definitions/free", "type": "string", "maxItems": 0},
    ),
    ("https://json-schema.org/draft-07/schema", {"prefixItems": [{}, {}], "items": False}),
    ("https://example.com/unknown", {"prefixItems": [{}, {}], "items": False}),
)


def alarm(schema: Mapping[str, Any], text: str) -> tuple[int, Problem] | None:
    """How many characters had come when it was told, and what."""
    early = IncrementalValidator(schema)
    for place, char in enumerate(text, 1):
        if (problem := early.feed(char)) is not None:
            return place, problem
    return None


def in_pieces(schema: Mapping[str, Any], text: str, random: Random) -> Problem | None:
    """The same from a text that is cut anywhere."""
    early, place, schema_fault = IncrementalValidator(schema), 0, None
    while place < len(text):
        size = random.choice([1, 2, 3, 8, 40, 1000])
        problem = early.feed(text[place : place + size])
        assert schema_fault is None or problem is None, "told twice"
        schema_fault, place = schema_fault or problem, place + size
    return schema_fault


@pytest.mark.parametrize("start", STARTS)
def test_no_false_alarm_on_any_prefix(start: int) -> None:
    for seed in range(start, start + 50):
        node, random = pair(seed), Random(seed)
        assert schema_problems(node.schema, node.value) == (), seed
        text = spelled(node.value, seed).text
        assert alarm(node.schema, text) is None, (seed, text)
        assert in_pieces(node.schema, text, random) is None, (seed, text)


@pytest.mark.parametrize("start", STARTS)
def test_each_fault_is_told_by_the_token_that_makes_it_certain(start: int) -> None:
    kinds: set[str] = set()
    for seed in range(start, start + 50):
        node, random = pair(seed), Random(seed)
        for item in random.sample(node.breaks, min(6, len(node.breaks))):
            schema_fault = broken(node.value, item)
            problems = schema_problems(node.schema, schema_fault)
            assert problems, (seed, item)
            written = spelled(schema_fault, seed)
            outcome = alarm(node.schema, written.text)
            assert outcome is not None, (seed, item, written.text)
            characters, problem = outcome
            assert (characters, problem.offset) == written.certain(item), (seed, item, written.text)
            assert problem.kind == "schema"
            assert problem == in_pieces(node.schema, written.text, random), (seed, item)
            kinds.add(item.kind)
    assert {"type", "required", "enum"} <= kinds


@pytest.mark.parametrize("start", rest_slow(range(0, 400, 100), 2))
def test_at_the_end_it_has_spoken_if_and_only_if_the_verdict_does(start: int) -> None:
    """Values of other schemas, and values with several faults, in schemas of every kind."""
    for seed in range(start, start + 100):
        node, random = pair(seed), Random(seed)
        value = pair(random.randrange(2000)).value if random.random() < 0.3 else node.value
        for item in random.sample(node.breaks, min(2, len(node.breaks))):
            try:
                value = broken(value, item)
            except (KeyError, IndexError, TypeError):
                continue
        text = spelled(value, seed).text
        problem = in_pieces(node.schema, text, random)
        assert (problem is not None) == bool(schema_problems(node.schema, value)), (
            seed,
            text,
            problem,
        )


@pytest.mark.parametrize("start", rest_slow(range(0, 400, 100), 2))
def test_broken_text_is_told_if_and_only_if_nothing_can_make_it_sound(start: int) -> None:
    for seed in range(start, start + 100):
        random = Random(seed)
        text = spelled(pair(seed).value, seed).text
        for _ in range(3):
            place = random.randrange(len(text))
            extra = random.choice([*'{}[]",:\\0eu-+.tn \x00', "", "true", "\\ud800"])
            bad = text[:place] + extra + text[place + random.randrange(2) :]
            output = in_pieces({"type": "object"}, bad, random)
            arguments = read_arguments(bad)
            cut = any("ends before" in problem.message for problem in arguments.problems)
            sound = arguments.value is not None
            if not cut:
                assert (output is None) == sound, (seed, bad, output)
            elif output is not None:
                # Then no end can be put to it: what closes it most simply does not.
                for tail in ('"', '"}', "}", "]}", '":1}', "0}", "1}}", '"}}'):
                    assert read_arguments(bad + tail).value is None, (bad, tail)


@pytest.mark.parametrize(("text", "characters", "offset", "place", "words"), CASES)
def test_what_is_told_and_when(
    text: str, characters: int, offset: int, place: str, words: str
) -> None:
    outcome = alarm(SCHEMA, text)
    assert outcome is not None
    assert (outcome[0], outcome[1].offset, outcome[1].pointer) == (characters, offset, place)
    assert words in outcome[1].message


@pytest.mark.parametrize("draft", NAMES)
def test_every_draft_is_judged_while_it_streams(draft: int) -> None:
    """The same alarms at the same characters; draft 4 knows no schema that is `false`."""
    schema = {"$schema": NAMES[draft], **SCHEMA}
    if draft == 4:
        schema["properties"] = {**SCHEMA["properties"], "hidden": {"enum": []}}
    for text, characters, offset, place, words in CASES:
        if draft == 4 and "hidden" in text:
            continue
        outcome = alarm(schema, text)
        assert outcome is not None, text
        assert (outcome[0], outcome[1].offset, outcome[1].pointer) == (characters, offset, place), (
            text
        )
        assert words in outcome[1].message


for level in range(50):
    CHAIN[f"c{level}"] = {"anyOf": [{"$ref": f"#/$defs/c{level + 1}"}, {"type": "null"}]}


@pytest.mark.parametrize("draft", [6, 7, 2020])
@pytest.mark.parametrize(("inner", "text"), ALONE)
def test_a_branch_that_adds_nothing_ends_no_alarm(draft: int, inner: Any, text: str) -> None:
    again = {"anyOf": [{"$ref": "#/$defs/c50"}, False]}
    schema = {
        "$schema": NAMES[draft],
        "type": "object",
        "properties": {"a": inner},
        "$defs": {**CHAIN, "again": again},
    }
    outcome = alarm(schema, text)
    assert outcome is not None
    assert outcome[0] == len(text)


def test_arguments_that_nothing_satisfies_are_told_at_their_first_character() -> None:
    outcome = alarm({"type": "object", "allOf": [False]}, '{"a": 1}')
    assert outcome == (
        1,
        Problem("schema", "The arguments object is not allowed by the schema.", "", 0),
    )


@pytest.mark.parametrize("text", QUIET)
def test_what_is_not_certain_is_not_told(text: str) -> None:
    assert alarm(SCHEMA, text) is None


def test_it_speaks_once() -> None:
    early = IncrementalValidator(SCHEMA)
    assert early.feed('{"unit": 3, ') is not None
    assert early.feed('"zone": 1}') is None
    assert early.closed


def test_a_pair_of_surrogates_may_be_cut_in_two() -> None:
    schema = {"type": "object", "properties": {"a": {"maxLength": 1}}}
    early = IncrementalValidator(schema)
    assert [early.feed(piece) for piece in ('{"a":"\ud83d', '\ude00"}')] == [None, None]
    lone = IncrementalValidator(schema)
    assert lone.feed('{"a":"\ud83d') is None
    problem = lone.feed('x"}')
    assert problem is not None
    assert "half of a surrogate pair" in problem.message


@pytest.mark.parametrize("schema", SILENT)
def test_a_schema_that_cannot_be_used_is_not_judged(schema: Any) -> None:
    assert alarm(schema, '{"a": 12345}') is None


@pytest.mark.parametrize(("draft", "inner"), DRAFTS)
def test_what_a_draft_does_not_know_is_not_held_against_a_value(draft: str, inner: Any) -> None:
    schema = {
        "$schema": draft,
        "type": "object",
        "properties": {"a": inner},
        "definitions": {"free": {}},
    }
    assert schema_problems(schema, {"a": ["x", None]}) == ()
    assert alarm(schema, '{"a": ["x", null]}') is None
