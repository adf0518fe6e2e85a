"""What a server's answers become, over a table of contents; names and listings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.core.tools import NAME, Content, ToolResult
from playground.executors.mcp.connection import (
    MAX_DESCRIPTION,
    library_name,
    listed_tools,
    result_of,
)

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAf"
    "FcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
OBJECT = {"city": "Oslo", "c": 1.5}


def tool_result(answer: dict[str, Any]) -> ToolResult:
    """What an answer of a server becomes."""
    from mcp.types import CallToolResult  # half a second's work: for the worker that runs this

    return result_of(CallToolResult.model_validate(answer))


def text(message: str) -> dict[str, Any]:
    return {"type": "text", "text": message}


def resource(**more: Any) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": "file:///a.txt", **more}}


CONTENTS: list[tuple[dict[str, Any], list[Content]]] = [
    ({"content": []}, []),
    ({"content": [text("a"), text("b")]}, [Content(text="a"), Content(text="b")]),
    (
        {"content": [{"type": "image", "mimeType": "image/png", "data": PNG}]},
        [Content("image", media_type="image/png", data=PNG)],
    ),
    (
        {"content": [{"type": "image", "mimeType": "image/svg+xml", "data": PNG}]},
        [Content(text="[an image, image/svg+xml, 72 bytes: format not supported]")],
    ),
    (
        {"content": [{"type": "image", "mimeType": "image/png", "data": "!!"}]},
        [Content(text="[an image, image/png, not valid base64: not shown]")],
    ),
    (
        {"content": [{"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}]},
        [Content(text="[audio, audio/wav, 3 bytes: not shown]")],
    ),
    (
        {
            "content": [
                {"type": "resource_link", "name": "a", "uri": "file:///a", "description": "d"}
            ]
        },
        [Content(text="[resource a: file:///a (d)]")],
    ),
    ({"content": [resource(text="hi")]}, [Content(text="hi")]),
    (
        {"content": [resource(text="{}", mimeType="application/json")]},
        [Content(text="{}", media_type="application/json")],
    ),
    (
        {"content": [resource(blob=PNG, mimeType="image/png")]},
        [Content("image", media_type="image/png", data=PNG)],
    ),
    (
        {"content": [resource(blob="AAAA", mimeType="application/zip")]},
        [Content(text="[resource file:///a.txt, application/zip, 3 bytes]")],
    ),
    (
        {"content": [text(json.dumps(OBJECT, indent=2))], "structuredContent": OBJECT},
        [Content(text=json.dumps(OBJECT), media_type="application/json")],
    ),
    (
        {"content": [], "structuredContent": OBJECT},
        [Content(text=json.dumps(OBJECT), media_type="application/json")],
    ),
    (
        {"content": [text("It is mild.")], "structuredContent": OBJECT},
        [
            Content(text="It is mild."),
            Content(text=json.dumps(OBJECT), media_type="application/json"),
        ],
    ),
    ({"content": [text("5")], "structuredContent": {"result": 5}}, [Content(text="5")]),
    (
        {"content": [text("5"), text("6")], "structuredContent": {"result": [5, 6]}},
        [Content(text="5"), Content(text="6")],
    ),
    (
        {"content": [text("long " * 9)], "structuredContent": {"content": "long " * 9}},
        [Content(text="long " * 9)],
    ),
    (
        {"content": [text("a")], "structuredContent": {"content": [text("a")]}},
        [Content(text="a")],
    ),
    (
        {"content": [text("a")], "structuredContent": {"content": text("a")}},
        [Content(text="a")],
    ),
    (
        {
            "content": [{"type": "image", "mimeType": "image/png", "data": PNG}],
            "structuredContent": {
                "content": [{"type": "image", "mimeType": "image/png", "data": PNG}]
            },
        },
        [Content("image", media_type="image/png", data=PNG)],
    ),
    (
        {
            "content": [text('{"a": 1}'), text('{"a": 2}')],
            "structuredContent": {"items": [{"a": 1.0}, {"a": 2}]},
        },
        [Content(text='{"a": 1}'), Content(text='{"a": 2}')],
    ),
    (
        {"content": [text(json.dumps(OBJECT)), text("Done.")], "structuredContent": OBJECT},
        [Content(text=json.dumps(OBJECT)), Content(text="Done.")],
    ),
    (
        {"content": [text("true")], "structuredContent": {"result": 1}},
        [Content(text="true"), Content(text='{"result": 1}', media_type="application/json")],
    ),
    (
        {"content": [text("a")], "structuredContent": {"content": "b"}},
        [Content(text="a"), Content(text='{"content": "b"}', media_type="application/json")],
    ),
    (
        {"content": [text("5")], "structuredContent": {"result": 6}},
        [Content(text="5"), Content(text='{"result": 6}', media_type="application/json")],
    ),
]


@pytest.mark.parametrize(("answer", "pieces"), CONTENTS)
def test_contents(answer: dict[str, Any], pieces: list[Content]) -> None:
    result = tool_result(answer)
    assert list(result.content) == pieces
    assert not result.is_error


def test_an_error_of_the_tool_is_an_error_result() -> None:
    answer = {"content": [text("no")], "isError": True}
    result = tool_result(answer)
    assert (result.is_error, result.kind, result.text) == (True, "failed", "no")


@pytest.mark.parametrize(
    ("message", "asks"),
    [
        ("Error executing tool ask: Elicitation not supported", "(elicitation)"),
        ("MCP error -32601: Client does not support elicitation", "(elicitation)"),
        ("Client does not support form elicitation.", "(elicitation)"),
        ("Error executing tool t: Sampling not supported", "(sampling)"),
        ("sampling/createMessage: Method not found", "(sampling)"),
        ("Client doesn't support sampling (required for sampling/createMessage)", "(sampling)"),
        ("List roots not supported", "(roots)"),
        ("The sample was not found", ""),
        ("Unsupported city", ""),
        ("The support of elicitation is fine.", ""),
    ],
)
def test_what_a_server_asks_of_us_is_told_in_plain_words(message: str, asks: str) -> None:
    result = tool_result({"content": [text(message)], "isError": True})
    assert result.is_error
    assert result.content[-1].text == message
    assert len(result.content) == (2 if asks else 1)
    if asks:
        assert asks in result.content[0].text
        assert "not supported here" in result.content[0].text
    assert (
        len(tool_result({"content": [text(message)]}).content) == 1
    )  # of a success nothing is said


@pytest.mark.parametrize(
    ("name", "accepted_names", "legal"),
    [
        ("search", set(), "search"),
        ("search", {"search"}, "my_srv_search"),
        ("search", {"search", "my_srv_search"}, "my_srv_search_2"),
        ("repo/issue.list", set(), "repo_issue_list"),
        ("söök <b>", set(), "sook_b"),
        ("!!!", set(), "tool"),
        ("x" * 200, set(), "x" * 21 + "_" + "x" * 42),
        ("x" * 60, {"x" * 60}, "my_srv_" + "x" * 14 + "_" + "x" * 42),
    ],
)
def test_names_are_legal_and_nobody_else_s(name: str, accepted_names: set[str], legal: str) -> None:
    match = library_name(name, "my.srv", accepted_names)
    assert match == legal
    assert NAME.fullmatch(match)
    assert len(match) <= 64


def test_what_cannot_be_taken_of_a_listing_says_why() -> None:
    from mcp.types import Tool, ToolAnnotations

    schema, reads = {"type": "object"}, ToolAnnotations(read_only_hint=True)
    tools = [
        Tool(
            name="a",
            title="A",
            input_schema=schema,
            annotations=reads,
        ),
        Tool(name="a", input_schema=schema),
        Tool(name="", input_schema=schema),
        Tool(name="long", description="x" * (MAX_DESCRIPTION + 1), input_schema=schema),
        Tool(name="big", input_schema={**schema, "description": "x" * 600_000}),
    ]
    first, *bad = listed_tools(tools)
    assert (first.title, first.annotations, first.fault) == ("A", {"readOnlyHint": True}, "")
    assert ["same name" in bad[0].fault, "no name" in bad[1].fault] == [True, True]
    assert ["characters" in bad[2].fault, "schema" in bad[3].fault] == [True, True]
    assert len(bad[2].description) == MAX_DESCRIPTION


def test_a_tool_s_print_is_of_all_a_model_is_told() -> None:
    from mcp.types import Tool

    def print_of(**more: Any) -> str:
        data = {"name": "a", "description": "d", "input_schema": {"type": "object"}, **more}
        return listed_tools([Tool(**data)])[0].fingerprint

    assert print_of() == print_of()
    changed = ({"name": "b"}, {"description": "d "}, {"input_schema": {"type": "object", "x": 1}})
    assert len({print_of(), *(print_of(**data) for data in changed)}) == 4
