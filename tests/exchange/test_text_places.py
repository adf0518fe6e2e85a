"""The line of a tool and of its parts in the text that it was imported from."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.exchange.text_places import ToolLines, line_of_steps, text_root
from playground.exchange.tool_import import import_tools

Json = dict[str, Any]
SCHEMA: Json = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "a/b": {"type": "integer"}},
    "required": ["city"],
}
WEATHER: Json = {"name": "weather", "parameters": SCHEMA}

YAML = """# tools
- name: weather
  description: Tells the weather.
  input_schema:
    type: object
    properties:
      city: {type: string}
"""
PYTHON = """import os


def weather(
    city: str,
    days: int = 1,
) -> str:
    'Tells the weather.'
"""
COMMENTED = """{
  // what it is called
  "name": "weather",
  "description": "Tells the weather.",
  "parameters": {"type": "object",
    "properties": {
      "city": {"type": "string"},
    },
  },
}
"""
TOOL_SPEC = {"toolSpec": {"name": "weather", "inputSchema": {"json": SCHEMA}}}


def chat(name: str) -> Json:
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA}}


def indented(value: Any) -> str:
    return json.dumps(value, indent=1)


@pytest.mark.parametrize(
    ("name", "text", "pointer", "words"),
    [
        ("a.json", indented(WEATHER), "", "{"),
        ("a.json", indented(WEATHER), "/name", '"name"'),
        ("a.json", indented(WEATHER), "/parameters/properties/city/type", '"type": "string"'),
        ("a.json", indented(WEATHER), "/parameters/properties/a~1b", '"a/b"'),
        ("a.json", indented(WEATHER), "/parameters/properties/none/type", '"properties"'),
        ("a.json", indented([chat("first"), chat("weather")]), "/parameters/required", "required"),
        (
            "a.json",
            indented({"tools": [{"name": "weather", "inputSchema": SCHEMA}]}),
            "/parameters/required",
            "required",
        ),
        ("a.json", indented([TOOL_SPEC]), "/parameters/properties/city", '"city"'),
        ("a.jsonl", f"{json.dumps(chat('x'))}\n\n{json.dumps(chat('weather'))}\n", "", "weather"),
        ("a.json", COMMENTED, "/parameters/properties/city", '"city"'),
        ("a.yaml", YAML, "/parameters/properties/city", "city:"),
        ("a.yaml", YAML, "/description", "description:"),
        ("a.py", PYTHON, "/parameters/properties/days", "days: int"),
        ("a.py", PYTHON, "/description", "def weather"),
    ],
)
def test_line_when_the_place_is_in_the_text_is_that_line(
    name: str, text: str, pointer: str, words: str
) -> None:
    item = next(tool for tool in import_tools(text, name).tools if tool.name == "weather")
    line = ToolLines(text, name).line(item, pointer)
    assert line is not None
    assert words in text.split("\n")[line - 1]


def test_line_when_two_tools_have_one_name_is_told_apart() -> None:
    text = indented([chat("weather"), chat("weather")])
    first, second = import_tools(text, "a.json").tools
    places = ToolLines(text, "a.json")
    lines = [places.line(first, "/parameters", 0), places.line(second, "/parameters", 1)]
    assert lines == [number for number, line in enumerate(text.split("\n"), 1) if "param" in line]


@pytest.mark.parametrize("text", ["", "{", '{"name": ', "[1, ", "nothing", '{"a": 1', "[" * 5000])
def test_line_when_the_text_cannot_be_read_is_unknown(text: str) -> None:
    item = import_tools(indented(WEATHER), "a.json").tools[0]
    for name in ("a.json", "a.yaml", "a.py", "a.txt"):
        assert ToolLines(text, name).line(item, "/name") is None


def test_line_when_an_anchor_contains_itself_ends() -> None:
    item = import_tools(indented(WEATHER), "a.json").tools[0]
    assert ToolLines("- &a\n  name: weather\n  again: *a\n", "a.yaml").line(item, "/name") == 2


def test_line_of_steps_when_a_place_is_missing_is_the_nearest() -> None:
    root = text_root(indented(SCHEMA))
    assert root is not None
    assert line_of_steps(root, ["properties", "city", "enum"]) == 4
    assert line_of_steps(root, []) == 1
    assert text_root("{") is None
