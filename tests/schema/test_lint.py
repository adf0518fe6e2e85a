"""Weak spots, the matrix and the order of findings; verdicts are in tests/simulator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from playground.core.settings import PROTOCOLS
from playground.core.tools import FREEFORM, Tool
from playground.protocols.lint import (
    acceptance_matrix,
    findings,
    merge_by_protocol,
    tool_group_findings,
    weak_spots,
)
from playground.protocols.tool_limits import MOST_OF_A_RULE

Json = dict[str, Any]

S: Json = {"type": "string", "description": "The text."}
ABOUT = "Looks a text up in the store."
TEXT = "/parameters/properties/text"
INNER = "/parameters" + "/properties/inner" * 6

DEEP: Json = S

SOME_REF = {"anyOf": [S, {"$ref": "#"}]}

DAYS = r"(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
LEAP = r"\d\d[2468][048]|\d\d[13579][26]|\d\d0[48]|[02468][048]00|[13579][26]00"
NESTED: Json = {
    "properties": {
        "x": {"minimum": 0, "title": "X", "type": "integer"},
        "y": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None, "title": "Y"},
    },
    "required": ["x"],
    "title": "Inner",
    "type": "object",
}
OPENAI = ("openai_chat", "openai_responses")


def closed(**properties: Any) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


GOOD = Tool("look_up", ABOUT, closed(text=S))


def with_parameter(schema: Json) -> Tool:
    return replace(GOOD, parameters=closed(text={"description": "d", **schema}))


for _ in range(6):
    DEEP = {**closed(inner=DEEP), "description": "d"}


@pytest.mark.parametrize(
    ("tool", "words", "pointer"),
    [
        (GOOD, "", ""),
        (replace(GOOD, description=" "), "has no description: say what", "/description"),
        (replace(GOOD, description="Looks up."), "The description says little", "/description"),
        (replace(GOOD, name="data"), "The name 'data' says little", "/name"),
        (replace(GOOD, name="do_it"), "The name 'do_it' says little", "/name"),
        (replace(GOOD, name="x1"), "The name 'x1' says little", "/name"),
        (replace(GOOD, name="get_weather"), "", ""),
        (
            replace(
                GOOD,
                parameters={"type": "object", "properties": {"text": S}, "required": ["texts"]},
            ),
            "'texts' is required but is not in `properties`: did you mean 'text'?",
            "/parameters/required",
        ),
        (
            with_parameter({"type": ["integer", "null"], "enum": [1, None, "2", True]}),
            'Only 2 of the values of the enum at /properties/text can be used: "2", true are not',
            f"{TEXT}/enum",
        ),
        (with_parameter({"type": "number", "enum": [1, 2.5]}), "", ""),
        (
            replace(GOOD, parameters=closed(a={"type": "string"})),
            "The parameter 'a' has no description",
            "/parameters/properties/a",
        ),
        (
            replace(GOOD, parameters=closed(**{f"p{n}": {"type": "string"} for n in range(10)})),
            "10 parameters have no description: 'p0', 'p1', 'p2', 'p3', 'p4', 'p5', 'p6', 'p7' "
            "and 2 more.",
            "/parameters/properties/p0",
        ),
        (
            replace(
                GOOD, parameters=closed(**{n: {**S, "type": ["string", "integer"]} for n in "abc"})
            ),
            "Several kinds of value are possible at /properties/a, and at 2 more places:",
            "/parameters/properties/a",
        ),
        (with_parameter({"type": ["string", "integer"]}), "Several kinds of value", TEXT),
        (with_parameter({"type": ["string", "null"]}), "", ""),
        (with_parameter({"anyOf": [S, {"type": "null"}]}), "", ""),
        (with_parameter({"anyOf": [S, {"type": "integer"}]}), "Several kinds", TEXT),
        (with_parameter({"enum": [str(n) for n in range(51)]}), "has 51 values", TEXT),
        (replace(GOOD, parameters=DEEP), "nested 7 levels deep", INNER),
        (
            replace(GOOD, parameters=closed(**{f"p{n}": S for n in range(21)})),
            "The tool has 21 parameters",
            "/parameters/properties",
        ),
        (replace(GOOD, description="word " * 2000), "adds about", ""),
        (replace(GOOD, parameters=FREEFORM, format={"type": "text"}), "", ""),
    ],
)
def test_weak_spots(tool: Tool, words: str, pointer: str) -> None:
    findings = weak_spots(tool)
    assert len(findings) == (1 if words else 0), findings
    for finding in findings:
        assert words in finding.message
        assert (finding.severity, finding.pointer, finding.protocol) == ("weak", pointer, "")


NARROW = with_parameter({"type": "string", "minLength": 2, "maxLength": 1})


@pytest.mark.parametrize(
    ("tool", "severity", "words", "fix"),
    [
        (
            replace(GOOD, parameters={**closed(text=S), "required": ["texts"]}),
            "unsatisfiable",
            "No call can be valid: 'texts' is required but is not in `properties`, and "
            "`additionalProperties` is false. Did you mean 'text'?",
            "rename",
        ),
        (
            replace(GOOD, parameters={**closed(text=S), "required": ["place"]}),
            "unsatisfiable",
            "No call can be valid: 'place' is required but is not in `properties`, and "
            "`additionalProperties` is false. Define or rename it.",
            "",
        ),
        (
            with_parameter({"enum": []}),
            "unsatisfiable",
            "No call can be valid: `enum` at /properties/text is empty, and 'text' is required.",
            "",
        ),
        (
            replace(GOOD, parameters={**with_parameter({"enum": []}).parameters, "required": []}),
            "weak",
            "`enum` at /properties/text is empty: no value can be valid there.",
            "",
        ),
        (
            with_parameter({"type": ["string", "null"], "minLength": 2, "maxLength": 1}),
            "weak",
            "`minLength` 2 at /properties/text is above `maxLength` 1: a string cannot be valid "
            "there.",
            "",
        ),
    ],
)
def test_contradiction_when_it_is_found_says_what_cannot_be_valid(
    tool: Tool, severity: str, words: str, fix: str
) -> None:
    (finding,) = [weak_spot for weak_spot in weak_spots(tool) if "valid" in weak_spot.message]
    assert (finding.severity, finding.message, finding.fix) == (severity, words, fix)


def test_contradiction_when_a_tool_is_refused_too_comes_first() -> None:
    lint_findings = findings(replace(NARROW, name="a.b"))
    assert [finding.severity for finding in lint_findings][:2] == ["unsatisfiable", "refused"]
    assert lint_findings[0].pointer == f"{TEXT}/minLength"


def pair(text: str, other: str, *descriptions: str) -> list[Tool]:
    first, second = descriptions or ("Reads the first thing.", "Deletes something else entirely.")
    return [
        replace(GOOD, name=text, description=first),
        replace(GOOD, name=other, description=second),
    ]


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        (pair("get_user", "delete_user"), ""),
        (pair("get_user", "get-user"), "are similar"),
        (pair("getUser", "get_user"), "are similar"),
        (pair("read_l1", "read_I1"), "are similar"),
        (pair("read", "fetch", ABOUT, ABOUT), "have similar descriptions"),
        (pair("read", "fetch", ABOUT, ABOUT + "!"), "have similar descriptions"),
        (pair("read", "fetch", "", ""), ""),
        ([replace(GOOD, name=f"tool_{n}_up", description="") for n in range(20)], ""),
        ([replace(GOOD, name=f"tool_{n}_up", description="") for n in range(22)], "22 tools"),
    ],
)
def test_tools_beside_each_other(tools: list[Tool], words: str) -> None:
    findings = tool_group_findings(tools, "anthropic")
    assert len(findings) == (1 if words else 0), findings
    assert all(words in finding.message and finding.severity == "weak" for finding in findings)


def test_the_worst_comes_first_and_a_rule_ends() -> None:
    bare = {f"p{n}": {"type": "array", "minLength": 1} for n in range(100)}
    tool = replace(GOOD, name="a.b", description="", parameters=closed(**bare))
    lint_findings = findings(tool)
    order = [finding.severity for finding in lint_findings]
    assert order == sorted(order, key=["refused", "ignored", "strict", "weak"].index)
    chat = [
        finding
        for finding in lint_findings
        if finding.protocol == "openai_chat" and "`items`" in finding.message
    ]
    assert len(chat) == MOST_OF_A_RULE
    assert "and at 80 more places" in chat[-1].message
    assert len(lint_findings) == len(set(lint_findings))


def test_only_the_protocols_asked_for_are_judged() -> None:
    lint_findings = findings(replace(GOOD, name="a.b"), ("openai_chat",))
    assert {finding.protocol for finding in lint_findings} == {"openai_chat"}


def test_a_long_description_is_a_note_on_older_models() -> None:
    lint_findings = findings(replace(GOOD, description="w" * 1025), ("openai_chat",))
    assert [(finding.severity, finding.family) for finding in lint_findings] == [
        ("weak", "gpt-4o, o1, o3-mini")
    ]


# The matrix.


def verdicts(tool: Tool) -> dict[str, str]:
    """y, n, p for plain, strict, forced and images of each protocol."""
    return {
        row.protocol: "".join(
            assessment.verdict[0] for assessment in (row.plain, row.strict, row.forced, row.images)
        )
        for row in acceptance_matrix(tool)
    }


OPTIONAL = replace(GOOD, parameters={**closed(text=S), "required": []})


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        (GOOD, "yyyy yyyp yyyy ypyp ynny"),
        (replace(GOOD, strict=True), "yyyy yyyp yyyy ypyp ynny"),
        (OPTIONAL, "yyyy ypyp ypyy ypyp ynny"),
        (replace(OPTIONAL, strict=True), "yyyy ypyp ypyy ypyp ynny"),
        (replace(GOOD, name="a.b"), "nnny nnnp nnny ypyp ynny"),
        (replace(OPTIONAL, name="a.b"), "nnny nnnp nnny ypyp ynny"),
        (
            replace(OPTIONAL, parameters={**closed(a={"type": "array"}), "required": []}),
            "yyyy nnnp nnny ypyp ynny",
        ),
        (
            replace(GOOD, parameters=closed(a={"type": "string", "pattern": "^(?!a)b"})),
            "ypyy nnnp nnny ppyp pnny",
        ),
        (replace(GOOD, parameters=closed(x=SOME_REF)), "ynyy yyyp yyyy ppyp pnny"),
        (
            replace(GOOD, parameters=FREEFORM, format={"type": "text"}),
            "pnyy pnyp ynyy ppyp pnny",
        ),
    ],
)
def test_the_matrix(tool: Tool, expected: str) -> None:
    assert " ".join(verdicts(tool)[name] for name in PROTOCOLS) == expected
    for row in acceptance_matrix(tool):
        for assessment in (row.plain, row.strict, row.forced, row.images):
            assert assessment.sentence.endswith(".")


def test_the_same_of_several_protocols_is_gathered_into_one() -> None:
    loose = Tool("look_up", ABOUT, {"type": "object", "properties": {"text": S}}, strict=True)
    lint_findings = findings(loose)
    output = merge_by_protocol(lint_findings)
    closed_needed = [
        finding for finding in output if "OpenAI's strict mode needs `additional" in finding.message
    ]
    assert [finding.protocol for finding in closed_needed] == ["openai_chat, openai_responses"]
    assert (
        len({replace(finding, protocol="") for finding in output})
        == len(output)
        < len(lint_findings)
    )
    assert [finding.severity for finding in output] == sorted(
        (finding.severity for finding in output), key=["refused", "ignored", "strict", "weak"].index
    )


# What generators of schemas write: pydantic 2.14, Zod 4.4 and zod-to-json-schema 3.


@pytest.mark.parametrize(
    ("schema", "refused"),
    [
        ({"format": "uuid", "title": "U", "type": "string"}, ()),
        ({"format": "uri", "minLength": 1, "title": "Url", "type": "string"}, ()),
        ({"format": "ipvanyaddress", "title": "Ip", "type": "string"}, ()),
        ({"additionalProperties": {"type": "integer"}, "title": "M", "type": "object"}, ()),
        ({"items": {"$ref": "#/$defs/Inner"}, "maxItems": 50, "type": "array"}, ()),
        ({"anyOf": [{"$ref": "#/$defs/Inner"}, {"type": "null"}], "default": None}, ()),
        ({"items": {"type": "string"}, "type": "array", "uniqueItems": True}, ()),
        ({"anyOf": [{"type": "number"}, {"type": "string"}], "title": "Decimal"}, ()),
        (
            {
                "type": "string",
                "format": "email",
                "pattern": r"^(?:[A-Za-z0-9_'+\-]+\.)*[A-Za-z0-9_+-]@"
                r"(?:[A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$",
            },
            (),
        ),
        (
            {
                "type": "string",
                "format": "date",
                "pattern": rf"^(?:(?:{LEAP})-02-29|\d{{4}}-(?:{DAYS}|(?:02)-(?:0[1-9]|1\d)))$",
            },
            (),
        ),
        ({"type": "string", "format": "starts_with", "pattern": r"^a\/b.*"}, ()),
        ({"type": "integer", "exclusiveMinimum": 0, "maximum": 9007199254740991}, ()),
        ({"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}, ()),
        (
            {
                "type": "object",
                "propertyNames": {"type": "string"},
                "additionalProperties": {"type": "string"},
            },
            (),
        ),
        (
            {
                "type": "string",
                "format": "duration",
                "pattern": r"^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?)$",
            },
            OPENAI,
        ),
        (
            {"type": "string", "pattern": r"^(\p{Extended_Pictographic}|\p{Emoji_Component})+$"},
            OPENAI,
        ),
        ({"type": "string", "pattern": r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"}, OPENAI),
    ],
)
def test_what_generators_write_is_refused_where_it_is_and_nowhere_else(
    schema: Json, refused: tuple[str, ...]
) -> None:
    object_schema = {"type": "object", "properties": {"text": schema}, "required": ["text"]}
    lint_findings = findings(
        replace(GOOD, parameters={**object_schema, "$defs": {"Inner": NESTED}})
    )
    outputs = {finding.protocol for finding in lint_findings if finding.severity == "refused"}
    assert outputs == set(refused)
    assert all(finding.fix == "drop" for finding in lint_findings if finding.severity == "refused")


def test_a_name_that_only_openai_itself_takes_in_responses_is_a_note() -> None:
    lint_findings = findings(replace(GOOD, name="n" * 65), ("openai_responses",))
    assert [(finding.severity, finding.pointer) for finding in lint_findings] == [("weak", "/name")]
    assert "accept names of 64 letters; this one has 65" in lint_findings[0].message


@pytest.mark.parametrize(("word", "flag"), [("pending", False), ("changes_requested", True)])
def test_enums_that_gemini_may_not_force_are_a_note(word: str, flag: bool) -> None:
    """240 values, as they were measured."""
    values = {f"e{n}": {"type": "string", "enum": [f"{word}{v}" for v in "abc"]} for n in range(4)}
    schema = {"type": "object", "properties": values}
    tools = [replace(GOOD, name=f"tool_{n}_up", parameters=schema) for n in range(20)]
    findings = [
        finding for finding in tool_group_findings(tools, "gemini") if "mode ANY" in finding.message
    ]
    assert [finding.severity for finding in findings] == (["weak"] if flag else [])
