"""Tools written out: each form reads back, and what it cannot say is told."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from playground.core.errors import BadInput
from playground.core.serialization import to_data
from playground.core.tools import FREEFORM, Tool
from playground.exchange.tool_export import FORMATS, write_tools
from playground.exchange.tool_import import import_tools
from playground.executors.examples import EXAMPLES

PLACE = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "floor": {"type": "integer", "minimum": 0}},
    "required": ["city"],
}
PARAMETERS = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "description": "What it is called."},
        "minutes": {"type": "integer", "minimum": 5},
        "place": PLACE,
        "color": {"type": "string", "enum": ["red", "blue"]},
    },
    "required": ["title"],
}
EVENT = Tool("add_event", "Put one event into the calendar.", PARAMETERS, config={"result": "ok"})
MOVE = replace(EVENT, name="move_event", description="Move it.")
STRICT = replace(EVENT, name="strict_event", strict=True)
FREE = Tool("say", "Say it.", FREEFORM, config={"result": ""}, format={"type": "text"})
HTTP = Tool(
    "find_user",
    "Look a user up.",
    {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "lang": {"type": "string"},
            "name": {"type": "string"},
            "x": {"type": "boolean"},
        },
        "required": ["id", "name"],
    },
    "http",
    {
        "method": "POST",
        "url": "https://api.example.com/users/{id}?lang={lang}",
        "headers": {"X-Api-Key": "${EXAMPLE_API_KEY}", "X-Flag": "{{ args.x }}"},
        "body": "json",
    },
    group="users",
)
TOOLS = (EVENT, MOVE)

STYLED = {
    "method": "COPY",
    "url": "https://api.example.com/x/{ids}?p={p}",
    "parameters": [
        {"in": "path", "name": "ids", "style": "matrix"},
        {"in": "query", "name": "t", "explode": False},
        {"in": "query", "name": "f", "style": "deepObject"},
        {"in": "cookie", "name": "sid"},
        {"in": "header", "name": "X-L"},
        {"in": "query", "name": "j", "content_type": "application/json"},
        {"in": "body", "name": "file", "content_type": "text/csv", "file": True},
        {"in": "body", "name": "l", "style": "form", "explode": False},
        {"in": "query", "name": "api_key", "value": "${MY_API_KEY}"},
    ],
    "body": "multipart",
}


def tool_content(tool: Tool) -> tuple[Any, ...]:
    """What every form says of a tool."""
    parameters = {key: item for key, item in tool.parameters.items() if key != "title"}
    return tool.name, tool.description, parameters


@pytest.mark.parametrize("name", [text for text in FORMATS if text != "openapi"])
@pytest.mark.parametrize("tools", [TOOLS, TOOLS[:1]], ids=["two", "one"])
def test_each_form_reads_back(name: str, tools: tuple[Tool, ...]) -> None:
    written = write_tools(name, tools)
    imported_tools = import_tools(written.text, written.file_name)
    assert [tool.problem for tool in imported_tools.tools] == ["" for _ in tools], imported_tools
    back = [tool.tool for tool in imported_tools.tools]
    assert [tool_content(tool) for tool in back if tool] == [tool_content(tool) for tool in tools]


@pytest.mark.parametrize("name", ["json_schema", "langchain"])
def test_a_title_of_the_schema_that_gives_way_is_told(name: str) -> None:
    titled = Tool("f", "D.", {"type": "object", "title": "FArgs", "description": "Args."})
    written = write_tools(name, [titled])
    assert "FArgs" not in written.text
    assert [note for note in written.notes if "was replaced" in note] == [
        "The schema of f had a title of its own, which was replaced.",
        "The schema of f had a description of its own, which was replaced.",
    ]


@pytest.mark.parametrize("name", ["own", "jsonl"])
def test_our_own_forms_lose_nothing(name: str) -> None:
    tools = (*EXAMPLES, EVENT, STRICT, FREE, HTTP, Tool("ask", answered_by="person"))
    written = write_tools(name, tools)
    assert written.notes == ()
    assert [tool.tool for tool in import_tools(written.text).tools] == list(tools)


def test_openapi_reads_back_as_the_same_operation() -> None:
    written = write_tools("openapi", [HTTP, EVENT])
    assert written.notes == (
        "find_user: the argument x is called X-Flag in the export.",
        "add_event is not an HTTP tool and was left out.",
    )
    (imported_tool,) = import_tools(written.text).tools
    assert imported_tool.tool is not None
    assert imported_tool.tool.name == "find_user"
    assert imported_tool.tool.config["method"] == "POST"
    assert imported_tool.tool.config["url"] == HTTP.config["url"]
    assert imported_tool.tool.config["body"] == "json"
    assert set(imported_tool.tool.config["headers"]) == {"X-Flag", "X-Api-Key"}
    assert re.fullmatch(r"\$\{\w+\}", imported_tool.tool.config["headers"]["X-Api-Key"])
    assert imported_tool.tool.parameters["properties"].keys() == {"id", "lang", "name", "X-Flag"}
    assert sorted(imported_tool.tool.parameters["required"]) == ["id", "name"]


def test_openapi_reads_back_the_styles() -> None:
    texts, lists = ("p", "sid", "j", "file", "plain"), ("ids", "t", "X-L", "l")
    properties: dict[str, Any] = {name: {"type": "string"} for name in texts}
    properties |= {name: {"type": "array", "items": {"type": "string"}} for name in lists}
    properties["f"] = {"type": "object"}
    schema = {"type": "object", "properties": properties}
    written = write_tools("openapi", [Tool("f", "", schema, "http", STYLED)])
    assert written.notes == ()
    document = json.loads(written.text)
    assert document["openapi"] == "3.2.0"
    (imported_tool,) = import_tools(written.text).tools
    assert imported_tool.tool is not None, imported_tool.problem
    config = json.loads(
        json.dumps(imported_tool.tool.config).replace("${F_MY_API_KEY_KEY}", "${MY_API_KEY}")
    )
    assert config == STYLED


def test_openapi_tells_what_it_leaves_out() -> None:
    config = {
        "method": "PUT",
        "url": "https://api.example.com/a?fixed=1",
        "headers": {"Accept": "text/csv"},
        "body": '{"a": {{ args.a }}}',
    }
    again = Tool("again", answered_by="http", config=config)
    written = write_tools("openapi", [Tool("first", answered_by="http", config=config), again])
    assert [note.partition(":")[2].split()[1] for note in written.notes[:3]] == ["fixed"] * 2 + [
        "template"
    ]
    assert "again has the same path as another tool" in written.notes[-1]


@pytest.mark.parametrize(
    ("name", "pick"),
    [
        ("anthropic", lambda data: data[0]["strict"]),
        ("openai_chat", lambda data: data[0]["function"]["strict"]),
        ("openai_responses", lambda data: data[0]["strict"]),
    ],
)
def test_the_forms_of_providers_are_the_words_that_are_sent(name: str, pick: Any) -> None:
    assert pick(json.loads(write_tools(name, [STRICT]).text)) is True


def test_what_a_form_cannot_say_is_told() -> None:
    assert any("strict" in note for note in write_tools("mcp", [STRICT]).notes)
    assert any("free" in note.lower() for note in write_tools("anthropic", [FREE]).notes)
    assert json.loads(write_tools("openai_chat", [FREE]).text)[0]["type"] == "custom"
    odd = replace(EVENT, parameters={**PARAMETERS, "oneOf": [{}], "title": "T"})
    assert any("oneOf" in note for note in write_tools("python", [odd]).notes)
    assert any("title" in note for note in write_tools("json_schema", [odd]).notes)


def test_mcp_tells_the_schema_of_the_result() -> None:
    tool = Tool("ask", answered_by="person", config={"output_schema": PLACE})
    assert json.loads(write_tools("mcp", [tool]).text)["tools"][0]["outputSchema"] == PLACE


def test_a_python_file_is_sound_and_its_classes_are_told_apart() -> None:
    other = {**PARAMETERS, "properties": {"place": {**PLACE, "required": []}}, "required": []}
    tools = (EVENT, replace(MOVE, parameters=other), Tool("get-weather", "Place: where it is."))
    source = write_tools("python", tools).text
    names = [node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    assert names == ["Place", "Place2"]
    compile(source, "tools.py", "exec")
    back = [tool.tool for tool in import_tools(source, "tools.py").tools]
    assert [tool.name for tool in back if tool] == ["add_event", "move_event", "get-weather"]
    assert [tool.description for tool in back if tool][-1] == "Place: where it is."
    second = back[1].parameters["properties"]["place"] if back[1] else {}
    assert "required" not in second


@pytest.mark.parametrize(
    ("tools", "called", "name"),
    [
        (TOOLS, "", "tools.json"),
        (TOOLS[:1], "", "add_event.json"),
        (TOOLS, 'mcp · x"\r\nSet-Cookie: a', "mcp-x-Set-Cookie-a.json"),
        (TOOLS, "../../etc/passwd", "etc-passwd.json"),
        (TOOLS, "\u202e…", "tools.json"),
        (TOOLS, "a" * 500, f"{'a' * 60}.json"),
    ],
)
def test_a_file_has_a_plain_name(tools: tuple[Tool, ...], called: str, name: str) -> None:
    assert write_tools("own", tools, called).file_name == name


def test_what_cannot_be_written() -> None:
    with pytest.raises(BadInput, match="format must be one of own"):
        write_tools("word", TOOLS)
    with pytest.raises(BadInput, match="Choose a tool"):
        write_tools("own", [])


@pytest.mark.parametrize("name", list(FORMATS))
def test_every_shipped_tool_can_be_written(name: str) -> None:
    assert write_tools(name, EXAMPLES).text.endswith("\n")
    assert to_data(EXAMPLES[0])
