"""Tools that stand in a Python file or in a notebook as values: read, never run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.exchange.tool_import import import_tools

OPENAI = """{"type": "function", "function": {"name": "t", "description": "d",
    "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}}"""
WRITTEN = {"type": "object", "properties": {"a": {"type": "string"}}}

FILES: dict[str, str] = {
    "a list": f"tools = [{OPENAI}]",
    "with hints": f"from typing import Any\nTOOLS: list[dict[str, Any]] = [{OPENAI}]",
    "in a function": f"def main():\n    client.chat(model='m', tools=[{OPENAI}])\n",
    "given back": f"class Agent:\n    def tools(self):\n        return [{OPENAI}]\n",
    "in a body": f"body = {{'messages': messages, 'tools': [{OPENAI}]}}",
    "appended": f"tools = []\ntools.append({OPENAI})",
    "names": 'A = {"a": {"type": "string"}}\nKIND = "object"\ntools = [{"name": "t", '
    '"description": "d", "input_schema": {"type": KIND, "properties": A}}]',
    "merged": 'base = {"type": "object"}\ntool = {"name": "t", "description": "d", "parameters": '
    '{**base, "properties": {"a": {"type": "string"}}}}',
    "texts": 'import textwrap\nN = "t"\ntool = {"name": f"{N}", "description": '
    'textwrap.dedent("""\n  d""").strip(), "parameters": json.loads(\'{"type": "object", '
    '"properties": {"a": {"type": "string"}}}\')}',
    "constructors": "tools = [types.Tool(function_declarations=[types.FunctionDeclaration("
    'name="t", description="d", parameters=types.Schema(type=types.Type.OBJECT, '
    'properties={"a": types.Schema(type="STRING")}))])]',
    "dict()": 'tool = dict(name="t", description="d", input_schema=dict(type="object", '
    'properties=dict(a=dict(type="string"))))',
    "as Python writes it": "[{'name': 't', 'description': 'd', 'strict': None, 'parameters': "
    "{'type': 'object', 'properties': {'a': {'type': 'string'}}}}]",
}


@pytest.mark.parametrize("source", FILES.values(), ids=list(FILES))
def test_a_tool_among_the_values_of_a_file(source: str) -> None:
    imported_tools = import_tools(source, "" if source[0] == "[" else "a.py")
    [tool] = [tool.tool for tool in imported_tools.tools if tool.name == "t"]
    assert tool is not None, imported_tools
    assert (tool.description, tool.parameters) == ("d", WRITTEN)


def test_a_function_and_the_tool_of_its_name_are_one() -> None:
    source = (
        f'def t(a, more=1):\n    """Other."""\n\n\ndef u(b: int):\n    "U."\n\n\nx = [{OPENAI}]'
    )
    imported = import_tools(source, "/there/a.py")
    result = {tool.name: tool for tool in imported.tools}
    assert list(result) == ["t"]
    assert "Not offered, because the file declares its tools: u." in imported.notes
    assert result["t"].tool is not None
    assert result["t"].tool.parameters == WRITTEN
    assert result["t"].tool.config == {"file": "/there/a.py", "function": "t"}
    message = " ".join(result["t"].notes)
    assert "Its description and parameters are those of the tool of this name" in message
    assert "anything is allowed" not in message
    assert "It has no executor" not in message


def test_a_models_schema_is_read_from_its_hints() -> None:
    source = (
        "class Args(BaseModel):\n    a: str\n\n\ntool = {'name': 't', 'parameters': "
        "Args.model_json_schema()}"
    )
    [tool] = [tool.tool for tool in import_tools(source, "a.py").tools]
    assert tool is not None
    assert tool.parameters == {**WRITTEN, "required": ["a"]}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("tool = {'name': 't', 'parameters': make()}", "'make()' is only known when"),
        ("for n in names:\n    x = {'name': n, 'parameters': {}}", "'n' is only known"),
        ("n = 1\nn = 2\nx = {'name': 't', 'parameters': {'minimum': n}}", "'n' is only known"),
        ("def f(n):\n    return {'name': n, 'parameters': {}}", "'n' is only known"),
        ("x = {'name': 't', 'parameters': {1: 2}}", "'1' is only known"),
        ("x = {'name': 't', 'parameters': {'a': 1e999}}", "is only known"),
    ],
)
def test_what_is_only_known_when_it_runs_is_told_by_its_line(source: str, message: str) -> None:
    imported_tools = import_tools(f"import os\n{source}")
    assert message in " ".join(imported_tools.notes)
    assert "A tool in line " in imported_tools.notes[0]


@pytest.mark.parametrize(
    "source",
    [
        "m = {'type': 'function', 'id': '1', 'function': {'name': 'f', 'arguments': '{}'}}",
        "me = {'name': 'Ann', 'role': 'user'}",
    ],
)
def test_what_is_no_tool_is_none(source: str) -> None:
    imported_tools = import_tools(f"import os\n{source}")
    assert (imported_tools.tools, imported_tools.notes) == ((), ())


def notebook(*cells: Any) -> str:
    items = [{"cell_type": "code", "source": cell} if isinstance(cell, str | list) else cell
            for cell in cells]  # fmt: skip
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": items})


def test_the_code_cells_of_a_notebook_are_read_as_one_file() -> None:
    text = notebook(
        {"cell_type": "markdown", "source": ["# def no(): ..."]},
        ["%pip install x\n", "!ls -l\n", "UNIT = {'type': 'string', 'enum': ['C', 'F']}\n"],
        '@tool("sum")\ndef add(a: int, b: int) -> int:\n    "Adds."\n    !echo\n    return a\nadd?',
        "%%bash\ndef not_python() {",
        'NOTE = """\n%d of them\n"""\n',
        "def broken(",
        "files = !ls\ntools = [{'name': 't', 'input_schema': {'type': 'object', "
        "'properties': {'unit': UNIT}}}]",
    )
    imported_tools = import_tools(text, "/there/a.ipynb")
    assert imported_tools.problem == ""
    tools = [tool.tool for tool in imported_tools.tools]
    assert [tool and tool.name for tool in tools] == ["sum", "t"]
    assert tools[1] is not None
    assert tools[1].parameters["properties"]["unit"]["enum"] == ["C", "F"]
    assert {tool.answered_by for tool in tools if tool} == {"mock"}  # a notebook is not run
    assert "Left out, because they are not valid Python: cell 6." in imported_tools.notes


def test_notebooks_of_earlier_versions_are_read_and_what_is_none_says_so() -> None:
    code = {"cell_type": "code", "input": ["def f(x: int) -> int:\n", "    return x"]}
    earlier = {"nbformat": 3, "worksheets": [5, {"cells": [code]}, {}]}
    assert [tool.name for tool in import_tools(json.dumps(earlier)).tools] == ["f"]
    (refused,) = import_tools(json.dumps({"nbformat": 4})).tools
    assert "not a known form of a tool" in refused.problem


@pytest.mark.parametrize(
    "cells", [[], [1, None], [{"cell_type": "code"}], [{"cell_type": "code", "source": {"a": 1}}]]
)
def test_a_notebook_without_code_says_so(cells: Any) -> None:
    assert (
        "It contains no tools" in import_tools(json.dumps({"nbformat": 4, "cells": cells})).problem
    )
