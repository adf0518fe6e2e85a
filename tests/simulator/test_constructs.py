"""Lint, the preflight and the strict ends of the simulator say the same of every construct."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bench import constructs
from playground.core.messages import Message, MessagePart, ModelRequest
from playground.core.settings import PROTOCOLS
from playground.core.tools import IdentityKey, Tool, ToolChoice
from playground.protocols.base import WireRequest
from playground.protocols.lint import Finding, findings, tool_group_findings
from playground.protocols.registry import CODECS, LIMITS
from playground.protocols.server import BadRequest, ParsedRequest
from playground.protocols.tool_limits import LimitTable
from tests.simulator.constructs import (
    CONSTRUCTS,
    NULL,
    Construct,
    Json,
    S,
    closed,
    strict,
    tool,
)
from tests.simulator.talking import accepted
from tests.tables import rest_slow

STRICT_MODES = ("anthropic", "openai_chat", "openai_responses")

ALIKE = 28
"""From here on `many` repeats itself but for the number in the name."""

HUNDREDS = 129
"""Of more tools lint is asked for Gemini alone, whose cap is 512: it takes its time."""

LOOSE = {**closed(**{f"p{n}": S for n in range(5)}), "required": []}
UNIONS = closed(**{f"p{n}": {"anyOf": [S, NULL]} for n in range(4)})

CACHE = {"type": "ephemeral"}

OWN: list[tuple[str, Json, bool]] = [
    ("anthropic", {"name": "look", "input_schema": closed(x=S)}, True),
    ("anthropic", {"name": "look", "input_schema": closed(x=S), "inputSchema": {}}, False),
    ("anthropic", {"name": "look", "input_schema": {"properties": {}}}, False),
    ("anthropic", {"name": "look", "input_schema": True}, False),
    ("anthropic", {"name": "look"}, False),
    (
        "anthropic",
        {"name": "look", "input_schema": closed(), "defer_loading": True, "cache_control": CACHE},
        False,
    ),
    ("anthropic", {"name": "look", "input_schema": closed(), "cache_control": CACHE}, True),
    ("anthropic", {"name": "look", "input_schema": {"type": "object"}, "strict": True}, False),
    ("openai_chat", {"type": "function", "function": {"name": "look"}}, True),
    ("openai_chat", {"type": "function", "function": {"name": "look", "parameters": {}}}, True),
    (
        "openai_chat",
        {"type": "function", "function": {"name": "look", "parameters": {"type": "string"}}},
        False,
    ),
    ("openai_chat", {"type": "custom", "custom": {"name": "look"}}, True),
    ("openai_responses", {"type": "function", "name": "look", "parameters": closed(x=S)}, True),
    (
        "openai_responses",
        {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": True},
        False,
    ),
    ("openai_responses", {"type": "custom", "name": "look"}, True),
    ("gemini", {"name": "look", "parametersJsonSchema": {"const": 1}}, True),
    ("gemini", {"name": "look", "inputSchema": {}}, False),
    ("gemini", {"name": "look", "parameters": {}, "parameters_json_schema": {}}, False),
    # The name as the file has it, whatever our own form makes of it.
    ("anthropic", {"name": "look up", "input_schema": closed(x=S)}, False),
    ("openai_chat", {"type": "function", "function": {"name": "look up"}}, False),
    ("openai_chat", {"type": "custom", "custom": {"name": "look up"}}, False),
    ("openai_chat", {"function": {"name": "look"}}, False),
    ("openai_responses", {"type": "function", "name": "look up", "parameters": closed()}, False),
    ("gemini", {"name": "look up", "parametersJsonSchema": closed(x=S)}, False),
    ("gemini", {"name": "look up", "parameters": closed(x=S)}, False),
]

RECORDED = Path(__file__).parents[2] / os.environ.get(
    "PLAYGROUND_RECORDINGS", "../shared/recordings"
)


def encode_tools(protocol: str, *tools: Tool, model: str = "m") -> WireRequest:
    """What our encoder sends with these tools."""
    asks = Message("user", (MessagePart("text", "Go."),))
    return CODECS[protocol].encode(ModelRequest(model, "", (asks,), tools, ToolChoice()))


def refusal(protocol: str, *tools: Tool, model: str = "m") -> BadRequest | None:
    try:
        accepted(protocol, encode_tools(protocol, *tools, model=model))
    except BadRequest as refusal_error:
        return refusal_error
    return None


def findings_by_severity(tool: Tool, protocol: str) -> dict[str, list[Finding]]:
    """What lint finds, by severity; weak spots aside."""
    return _findings_by_kind(IdentityKey(tool), protocol, IdentityKey(LIMITS[protocol]))


@cache
def _findings_by_kind(
    same: IdentityKey[Tool], protocol: str, table: IdentityKey[LimitTable]
) -> dict[str, list[Finding]]:
    output = [each for each in findings(same.value, (protocol,)) if each.protocol]
    kinds = ("refused", "ignored", "strict")
    return {kind: [each for each in output if each.severity == kind] for kind in kinds}


def test_the_table_is_large_enough_and_says_each_thing_once() -> None:
    assert len(CONSTRUCTS) >= 60
    assert len({construct.about for construct in CONSTRUCTS}) == len(CONSTRUCTS)


@pytest.mark.parametrize("protocol", rest_slow(PROTOCOLS))
@pytest.mark.parametrize("row", CONSTRUCTS, ids=[construct.about for construct in CONSTRUCTS])
def test_lint_preflight_and_the_strict_end_say_the_same(protocol: str, row: Construct) -> None:
    """Of the tool as it is and, where that is a word of the protocol, of a strict one. What lint
    makes of each is in docs/constructs.md."""
    findings = findings_by_severity(row.tool, protocol)
    check_agreement(protocol, row.tool, findings)
    if protocol not in STRICT_MODES or row.tool.format is not None:
        assert not findings["strict"]
        return
    strict_tool = strict(row)
    of_strict = findings_by_severity(strict_tool, protocol)
    check_agreement(protocol, strict_tool, of_strict)
    assert not of_strict["strict"]
    assert bool(of_strict["refused"]) == bool(findings["refused"] or findings["strict"])


def check_agreement(protocol: str, tool: Tool, data: dict[str, list[Finding]]) -> None:
    request, refused = encode_tools(protocol, tool), None
    try:
        accepted(protocol, request)
    except BadRequest as answer:
        refused = answer
    assert (refused is not None) == bool(data["refused"]), (refused, data)
    assert any("be refused" in note for note in request.notes) == bool(data["refused"])
    check_sources(refused, data["refused"])


def check_sources(refused: BadRequest | None, findings: list[Finding]) -> None:
    """Every verdict says where it is known from, and what the end was made after is among it."""
    assert all(finding.source for finding in findings)
    if refused is not None:
        known = {(finding.source, finding.inferred) for finding in findings}
        assert (refused.source, refused.inferred) in known, (refused, known)


@pytest.mark.parametrize(
    ("protocol", "model", "refused"),
    [
        ("openai_chat", "gpt-4o", False),
        ("openai_chat", "gpt-5.5", True),
        ("openai_responses", "gpt-5.4-mini", False),
        ("openai_responses", "gpt-5.6-sol", True),
    ],
)
def test_older_models_take_lookaround_but_of_strict_tools(
    protocol: str, model: str, refused: bool
) -> None:
    texts = {"type": "array", "items": {"anyOf": [{"type": "string", "pattern": "^(?=a)b"}, NULL]}}
    item = tool(closed(x=texts))
    bad_request = refusal(protocol, item, model=model)
    assert (bad_request is not None) == refused
    bad_request = refusal(protocol, replace(item, strict=True), model=model)
    assert bad_request is not None
    assert (bad_request.code, bad_request.param) == ("invalid_json_schema", "tools")
    assert "lookaround is not supported. Found at $.properties.x.items.anyOf[0].pattern" in str(
        bad_request
    )


@pytest.mark.parametrize(
    ("model", "refused"), [("gemini-2.0-flash", True), ("gemini-2.5-flash", False)]
)
def test_older_models_of_gemini_take_no_parameters_without_properties(
    model: str, refused: bool
) -> None:
    entry = {"name": "look", "parameters": {"type": "OBJECT", "properties": {}}}
    assert (refusal_of_entry("gemini", entry, model) is not None) == refused
    output = findings(tool(closed()), ("gemini",), form=entry, form_protocol="gemini")
    notes = [(finding.severity, finding.family) for finding in output if finding.protocol]
    assert notes == [("weak", "gemini-2.0 and older")]


@pytest.mark.parametrize("protocol", ["gemini", "ollama"])
def test_strict_where_there_is_none_is_ignored_and_noted(protocol: str) -> None:
    item = tool(closed(x=S), strict=True)
    assert [each.pointer for each in findings_by_severity(item, protocol)["ignored"]] == ["/strict"]
    assert any("strict" in note for note in encode_tools(protocol, item).notes)
    assert refusal(protocol, item) is None


def test_what_an_encoder_leaves_out_it_notes() -> None:
    """A free-form tool that becomes a function is a verdict "ignored" with the encoder's note."""
    (construct,) = (each for each in CONSTRUCTS if each.about == "free-form tool")
    for protocol in PROTOCOLS:
        notes = " ".join(encode_tools(protocol, construct.tool).notes)
        assert ("one text" in notes) == bool(
            findings_by_severity(construct.tool, protocol)["ignored"]
        ), protocol


# Several tools.


def many(count: int, **changes: Any) -> list[Tool]:
    base = tool(changes.pop("schema", closed(x=S)), **changes)
    texts = ("alpha", "beta", "gamma", "delta")
    return [
        replace(base, name=f"{texts[n % 4]}{n:03}x", description=f"{n} {texts[n % 4]} " * (n % 7))
        for n in range(count)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tools", "refused"),
    [
        (many(2), ""),
        (many(128), ""),
        (many(129), "openai_chat openai_responses"),
        (many(512), "openai_chat openai_responses"),
        (many(513), "openai_chat openai_responses gemini"),
        (many(20, strict=True), ""),
        (many(21, strict=True), "anthropic"),
        (many(4, schema=LOOSE, strict=True), "openai_chat openai_responses"),
        (many(5, schema=LOOSE, strict=True), "anthropic openai_chat openai_responses"),
        (many(4, schema=UNIONS, strict=True), ""),
        (many(5, schema=UNIONS, strict=True), "anthropic"),
        ([tool(closed()), tool(closed())], "anthropic openai_responses gemini"),
        (many(4, schema=closed(x={"type": "array", "items": S, "maxItems": 240})), ""),
        (many(5, schema=closed(x={"type": "array", "items": S, "maxItems": 240})), "gemini"),
    ],
)
def test_several_tools_in_one_request(tools: list[Tool], refused: str) -> None:
    for protocol in PROTOCOLS:
        expected = protocol in refused.split()
        assert (refusal(protocol, *tools) is not None) == expected, protocol
        if len(tools) > HUNDREDS and protocol != "gemini":
            continue
        of_each = [
            finding
            for each in tools[:ALIKE]
            for finding in findings_by_severity(each, protocol)["refused"]
        ]
        of_all = [
            finding
            for finding in tool_group_findings(tools, protocol)
            if finding.severity == "refused"
        ]
        assert bool(of_each or of_all) == expected, (protocol, of_all)
        assert all(finding.source for finding in of_all)


# Files in a protocol's own form are judged as they stand.


def refusal_of_entry(protocol: str, entry: Any, model: str = "m") -> BadRequest | None:
    """What the end says of a request whose tools were written by hand."""
    request = encode_tools(protocol, tool(closed()), model=model)
    body = json.loads(request.body)
    body["tools"] = [{"functionDeclarations": [entry]}] if protocol == "gemini" else [entry]
    written = replace(request, body=json.dumps(body).encode())
    try:
        assert isinstance(accepted(protocol, written), ParsedRequest)
    except BadRequest as refusal_error:
        return refusal_error
    return None


def properties(schema: Any, **more: Any) -> Json:
    return {"type": "OBJECT", "properties": {"x": schema}, **more}


FORMS: list[tuple[Any, bool]] = [
    (properties({"type": "STRING"}), True),
    (properties({"type": "string", "description": "d", "nullable": True}), True),
    (properties({"type": "STRING"}, required=["x"]), True),
    (properties({"type": "STRING"}, required=["y"]), False),
    (properties({"type": "STRING"}, additionalProperties=False), False),
    (
        {"$schema": "http://json-schema.org/draft-07/schema#", **properties({"type": "STRING"})},
        False,
    ),
    (properties({"type": "STRING", "const": "a"}), False),
    (properties({"type": "OBJECT", "propertyNames": {"type": "STRING"}}), False),
    (properties({"type": ["STRING", "NULL"]}), False),
    (properties({"type": "TEXT"}), False),
    (properties({"type": "STRING", "enum": ["a"]}), True),
    (properties({"type": "STRING", "enum": [1, 2]}), False),
    (properties({"type": "INTEGER", "enum": ["1"]}), False),
    (properties({"enum": ["a"]}), False),
    (properties({"type": "ARRAY"}), False),
    (properties({"type": "ARRAY", "items": {"type": "STRING"}, "minItems": 1}), True),
    (properties({"type": "ARRAY", "items": {"type": "ARRAY"}}), False),
    (properties({"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]}), True),
    (properties({"any_of": [{"type": "STRING"}], "description": "d"}), False),
    (properties({"oneOf": [{"type": "STRING"}]}), False),
    (properties({"allOf": [{"type": "STRING"}]}), False),
    (properties({"not": {"type": "STRING"}}), False),
    (properties({"$ref": "#/$defs/s"}), False),
    (properties({"type": "STRING"}, **{"$defs": {}}), False),
    (properties({"type": "NUMBER", "minimum": 1, "maximum": 9}), True),
    (properties({"type": "NUMBER", "exclusiveMinimum": 1}), False),
    (properties({"type": "NUMBER", "multipleOf": 1}), False),
    (properties({"type": "STRING", "pattern": "^a", "minLength": 1, "max_length": 9}), True),
    (properties({"type": "STRING", "format": "date-time", "default": "x", "title": "T"}), True),
    (properties({"type": "ARRAY", "items": {"type": "STRING"}, "uniqueItems": True}), False),
    (properties({"type": "OBJECT", "patternProperties": {}}), False),
    (properties(True), False),
    (properties({"type": "STRING", "format": "uri"}), False),
    (properties({"type": "STRING", "format": "email"}), False),
    (properties({"type": "STRING", "format": "enum", "enum": ["a"]}), True),
    (properties({"type": "STRING", "format": "enum", "enum": []}), False),
    (properties({"type": "STRING", "format": "enum"}), False),
    (properties({"type": "STRING", "enum": []}), True),
    (properties({"type": "STRING", "enum": ["a", ""]}), False),
    (properties({"type": "INTEGER", "format": "int64"}), True),
    (properties({"type": "INTEGER", "format": "uint32"}), False),
    (properties({"type": "NUMBER", "format": "double"}), True),
    (properties({"type": "NUMBER", "format": "int32"}), False),
    (properties({"type": "BOOLEAN", "format": "int32"}), False),
    (properties({"type": "ARRAY", "items": {"type": "STRING"}, "format": "enum"}), False),
    (properties({"type": "OBJECT", "properties": {}}), False),
    (properties({"type": "OBJECT"}), False),
    (properties({"type": "OBJECT", "properties": {"y": {"type": "STRING"}}}), True),
    (properties({"properties": {"y": {"type": "STRING"}}}), False),
    (properties({"type": "STRING", "properties": {"y": {"type": "STRING"}}}), False),
    (properties({"type": "STRING", "required": ["y"]}), False),
    (properties({"type": "STRING", "items": {"type": "STRING"}}), False),
    (properties({"items": {"type": "STRING"}}), False),
    (properties({"type": "ARRAY", "items": {"type": "STRING"}, "maxItems": 960}), True),
    (properties({"type": "ARRAY", "items": {"type": "STRING"}, "maxItems": 961}), False),
    (properties({"type": "ARRAY", "items": {"type": "STRING"}, "max_items": 961}), False),
    ({"type": "STRING"}, False),
    ({"type": "OBJECT", "properties": {}}, True),
    ({"type": "OBJECT"}, True),
    ({}, True),
    ({"type": 6, "properties": {"x": {"type": 1}}}, True),
    ({"type": 6, "properties": {"x": {"type": 8}}}, False),
    (properties({"type": "STRING"}, property_ordering=["x"]), True),
]


@pytest.mark.parametrize(("parameters", "sound"), FORMS)
def test_gemini_parameters_are_judged_as_they_stand(parameters: Any, sound: bool) -> None:
    entry = {"name": "look", "description": "Looks something up.", "parameters": parameters}
    item = tool(closed(x=S))
    output = findings(item, ("gemini",), form=entry, form_protocol="gemini")
    refused = [each for each in output if each.severity == "refused"]
    answer = refusal_of_entry("gemini", entry)
    assert (answer is None) == sound, answer
    assert (not refused) == sound, refused
    assert all(each.source and each.fix in ("gemini", "") for each in refused)
    check_sources(answer, refused)


@pytest.mark.parametrize(("protocol", "entry", "sound"), OWN)
def test_other_forms_are_judged_as_they_stand(protocol: str, entry: Json, sound: bool) -> None:
    item = tool(closed(x=S), format={"type": "text"} if entry.get("type") == "custom" else None)
    output = findings(item, (protocol,), form=entry, form_protocol=protocol)
    refused = [each for each in output if each.severity == "refused"]
    answer = refusal_of_entry(protocol, entry)
    assert (answer is None) == sound, answer
    assert (not refused) == sound, refused


# What real ones took is taken here.


def recorded() -> Iterator[tuple[str, str, list[Any]]]:
    """(protocol, model, tools) of the recorded requests that were answered."""
    for path in sorted(RECORDED.glob("*/meta.json")):
        meta = json.loads(path.read_text("utf-8"))
        recorded_body = json.loads(path.with_name("request.json").read_text("utf-8"))
        body = recorded_body.get("body")
        if meta["http_status"] != 200 or not isinstance(body, dict) or not body.get("tools"):
            continue
        model = body.get("model") or str(recorded_body["path"]).rpartition("/")[2].partition(":")[0]
        yield meta["protocol"], model, body["tools"]


def test_the_tools_of_recorded_requests_are_taken() -> None:
    several = list(recorded())
    if not several:
        pytest.skip(f"No recordings in {RECORDED}: set PLAYGROUND_RECORDINGS to their folder.")
    for protocol, model, tools in several:
        request = encode_tools(protocol, tool(closed()), model=model)
        body = json.loads(request.body)
        written = replace(request, body=json.dumps({**body, "tools": tools}).encode())
        assert isinstance(accepted(protocol, written), ParsedRequest)
        forms = [item for each in tools for item in each.get("functionDeclarations", [each])]
        for form in forms:
            if form.get("type", "function") not in ("function", "custom") or "name" not in str(
                form
            ):
                continue
            output = findings(tool(closed()), (protocol,), form=form, form_protocol=protocol)
            assert not [finding for finding in output if finding.severity == "refused"], form


def test_the_document_says_what_the_tables_say() -> None:
    """Written anew by `python -m bench.constructs`."""
    assert constructs.DOCUMENT.read_text() == constructs.document()
