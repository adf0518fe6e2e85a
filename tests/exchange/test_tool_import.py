"""The door: each format as the library or program of that name writes it, and hostile texts.

The texts were written by openai 3.54, anthropic 2.12, google-genai 3.4, mcp 2.3, pydantic 2.14 and
langchain-core 1.7, or copied in shape from the programs' documentation.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from playground.exchange.tool_entry import ImportedTools
from playground.exchange.tool_import import import_tools
from playground.schema.strict_json import parse
from tests.exchange.hostile import HOSTILE, PYTHON

ROOT = Path(__file__).resolve().parents[2]
OBJECT = {"type": "object", "properties": {}}

OPENAI_CHAT = """{"type": "function", "function": {"name": "GetWeather", "strict": true,
 "parameters": {"$defs": {"Place": {"properties": {"city": {"description": "Name of the city",
 "title": "City", "type": "string"}}, "required": ["city"], "title": "Place", "type": "object",
 "additionalProperties": false}}, "properties": {"place": {"$ref": "#/$defs/Place"}},
 "required": ["place"], "title": "GetWeather", "type": "object", "additionalProperties": false},
 "description": "Current weather for a place."}}"""
RESPONSES = """{"model": "gpt-5", "input": "hi", "tools": [
 {"type": "function", "name": "get_weather", "description": "Now.", "strict": true,
  "parameters": {"type": "object", "properties": {}, "required": []}},
 {"type": "custom", "name": "code_exec", "description": "Runs code.",
  "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}},
 {"type": "web_search"}]}"""
ANTHROPIC = """{"name": "get_w", "description": "Current weather.", "input_schema":
 {"additionalProperties": false, "properties": {"city": {"description": "The city.",
 "title": "City", "type": "string"}, "days": {"default": 1, "title": "Days", "type": "integer"}},
 "required": ["city"], "type": "object"}, "cache_control": {"type": "ephemeral"}}"""
GEMINI = """{"functionDeclarations":[{"description":"d","name":"get_weather","parameters":
 {"properties":{"city":{"description":"c","minLength":1,"type":"STRING"},
 "days":{"nullable":true,"type":"INTEGER"}},"required":["city"],"type":"OBJECT"}}]}"""
GEMINI_PYTHON = """{"function_declarations":[{"name":"get_weather","parameters":
 {"properties":{"city":{"min_length":1,"type":"STRING"}},"required":["city"],"type":"OBJECT"}}]}"""
GEMINI_PLAIN = """{"name": "f", "parametersJsonSchema": {"type": "object", "properties": {}}}"""
MCP = """{"jsonrpc": "2.0", "id": 1, "result": {"ttlMs":0,"tools":[{"name":"read_file",
 "title":"Read","description":"Reads.","inputSchema":{"type":"object","properties":{"path":
 {"type":"string"}},"required":["path"]},"outputSchema":{"type":"object","properties":{"text":
 {"type":"string"}}},"annotations":{"readOnlyHint":true}}],"resultType":"complete"}}"""
PYDANTIC = """{"$defs": {"Place": {"description": "Where it is.", "properties": {"city":
 {"title": "City", "type": "string"}}, "required": ["city"], "title": "Place", "type": "object"}},
 "description": "Current weather for a place.", "properties": {"place": {"$ref": "#/$defs/Place"},
 "days": {"anyOf": [{"maximum": 7, "type": "integer"}, {"type": "null"}], "default": null}},
 "required": ["place"], "title": "GetWeather", "type": "object"}"""
LANGCHAIN = """{"type": "function", "function": {"name": "get_weather", "description": "Now.",
 "parameters": {"properties": {"city": {"type": "string"}}, "required": ["city"],
 "type": "object"}}}"""
LANGCHAIN_ARGS = """{"name": "get_weather", "description": "Now.", "args_schema": {"description":
 "Now.", "properties": {"city": {"title": "City", "type": "string"}}, "required": ["city"],
 "title": "get_weather", "type": "object"}, "return_direct": false}"""
LANGCHAIN_DUMP = """{"lc": 1, "type": "not_implemented", "id": ["langchain_core", "tools",
 "structured", "StructuredTool"], "repr": "StructuredTool(name='get_weather')",
 "name": "get_weather"}"""
BEDROCK = """{"toolConfig": {"tools": [{"toolSpec": {"name": "top_song", "inputSchema":
 {"json": {"type": "object", "properties": {"sign": {"type": "string"}}}}}}]}}"""
FUNCTIONS = """{"model": "gpt-4", "functions": [{"name": "f", "description": "d", "parameters":
 {"type": "object", "properties": {}}}]}"""
OPENAPI = """openapi: 3.0.3
info: {title: Pets, version: "1"}
servers: [{url: https://pets.example/v1}]
paths:
  /pets/{id}:
    get:
      operationId: getPet
      parameters: [{name: id, in: path, required: true, schema: {type: integer}}]
      responses: {200: {description: "OK"}}
"""
SOURCE = '''from typing import Literal

def get_weather(city: str, unit: Literal["c", "f"] = "c") -> str:
    """Current weather for a city."""
    raise SystemExit("never run")
'''
OWN = """{"name": "ask", "answered_by": "person", "parameters": {"type": "object"}}"""

FORMATS: dict[str, tuple[str, list[tuple[str, str, str]]]] = {
    "openai chat": (OPENAI_CHAT, [("GetWeather", "OpenAI Chat", "mock")]),
    "responses": (
        RESPONSES,
        [
            ("get_weather", "OpenAI Responses", "mock"),
            ("code_exec", "OpenAI Responses", "mock"),
            ("web_search", "", "A tool of the type 'web_search' is run by its provider"),
        ],
    ),
    "anthropic": (ANTHROPIC, [("get_w", "Anthropic", "mock")]),
    "gemini": (GEMINI, [("get_weather", "Gemini", "mock")]),
    "gemini by its sdk": (GEMINI_PYTHON, [("get_weather", "Gemini", "mock")]),
    "gemini, plain": (GEMINI_PLAIN, [("f", "Gemini", "mock")]),
    "mcp": (MCP, [("read_file", "MCP", "mock")]),
    "pydantic": (PYDANTIC, [("GetWeather", "JSON Schema", "mock")]),
    "langchain": (LANGCHAIN, [("get_weather", "OpenAI Chat", "mock")]),
    "langchain args": (LANGCHAIN_ARGS, [("get_weather", "LangChain", "mock")]),
    "langchain dump": (LANGCHAIN_DUMP, [("get_weather", "LangChain", "convert_to_openai_tool")]),
    "bedrock": (BEDROCK, [("top_song", "Bedrock Converse", "mock")]),
    "functions": (FUNCTIONS, [("f", "OpenAI functions", "mock")]),
    "openapi": (OPENAPI, [("getPet", "OpenAPI operation", "http")]),
    "python": (SOURCE, [("get_weather", "Python", "mock")]),
    "own": (OWN, [("ask", "our own form", "person")]),
    "mixed": (
        f"[{ANTHROPIC}, {GEMINI}, [{OWN}], 3]",
        [
            ("get_w", "Anthropic", "mock"),
            ("get_weather", "Gemini", "mock"),
            ("ask", "our own form", "person"),
            ("", "", "this is not"),
        ],
    ),
    "lines": (
        OWN + "\n\n{broken\n" + json.dumps(json.loads(MCP)) + "\n",
        [
            ("ask", "our own form", "person"),
            ("", "JSON Lines", "Line 3 is not valid JSON"),
            ("read_file", "MCP", "mock"),
        ],
    ),
    "yaml": (
        "- name: f\n  input_schema: {type: object, properties: {on: {enum: [yes, no]}}}\n",
        [("f", "Anthropic", "mock")],
    ),
}

SERVERS = '{"mcpServers": {"notes": {"command": "npx", "args": ["-y", "notes"]}}}'
IN_DOCKER = '{"mcpServers": {"notes": {"command": "docker", "args": ["run", "notes"]}}}'
IN_PYTHON = f'def f():\n    """\n```json\n{SERVERS}\n```\n"""\n'
README = f"""<p align="center"><img src="x.png"></p>

# Notes

```bash
npm install -g notes
```

For Claude Desktop:

```json
{SERVERS}
```

- with Docker:

  ~~~jsonc
  // or this
  {IN_DOCKER}
  ~~~

and once more, and what it answers:

````json
{SERVERS}
````

```json
{{"temperature": 3, "unit": "C"}}
```

and its tool:

```python
def add(a: int, b: int) -> int:
    \"\"\"Adds two numbers.\"\"\"
    return a + b
```

```toml
[mcp_servers.other]
command = "x"
```
"""

SOURCES = {
    "TypeScript": """import { tool } from "ai";
import { z } from "zod";
type Price = { sku: string };
export const price = tool({ inputSchema: z.object({ sku: z.string() }) });
""",
    "JavaScript or TypeScript": """import { tool } from "ai";
export const price = tool({ description: "Price" });
""",
    "Go": 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("x") }\n',
    "Rust": "use rmcp::tool;\n\npub fn add(a: i32) -> i32 { a }\n",
    "Java": "package a.b;\n\nimport java.util.List;\n\npublic class Tools {}\n",
    "C#": "using System;\n\nnamespace Tools;\n\npublic class A {}\n",
    "C": "#include <stdio.h>\nint main() { return 0; }\n",
    "a shell script": "#!/usr/bin/env bash\nexport A=1\n",
}

WATCHED = """
import json, os, sys
import anyascii
from playground.exchange.tool_import import import_tools

FORBIDDEN = ("socket.", "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn",
             "os.remove", "os.rename", "os.mkdir", "urllib.", "ctypes.", "exec")

def watch(event, arguments):
    writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
    # Python itself looks for the file of a syntax error under the name <unknown>; the tables that
    # names in other scripts are read by are loaded when a letter of theirs comes.
    known = ("<unknown>", os.path.dirname(anyascii.__file__))
    opens = event == "open" and not str(arguments[0]).startswith(known)
    if watching and (event.startswith(FORBIDDEN) or writes or opens):
        happened.append([event, str(arguments[0])[:80]])

watching, happened, results = False, [], {}
sys.addaudithook(watch)
for text in ("def f(a: int): 'x'", '{"name": "f", "description": "", "args": {}}'):
    import_tools(text)  # what is loaded when first used
anyascii.anyascii("天")
for case, text in json.load(sys.stdin).items():
    watching = True
    brought = import_tools(text)
    watching = False
    results[case] = [brought.problem, [one.problem for one in brought.tools],
                     [one.tool.name for one in brought.tools if one.tool]]
print(json.dumps([results, happened]))
"""


def tool_outcomes(imported_tools: ImportedTools) -> list[tuple[str, str, str]]:
    return [
        (tool.name, tool.kind, tool.tool.answered_by if tool.tool else tool.problem)
        for tool in imported_tools.tools
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_is_told_by_its_shape(name: str) -> None:
    text, expected = FORMATS[name]
    imported_tools = import_tools(text)
    assert imported_tools.problem == ""
    outcomes = tool_outcomes(imported_tools)
    assert [row[:2] for row in outcomes] == [item[:2] for item in expected]
    for (_, _, who), (_, _, wanted) in zip(outcomes, expected, strict=True):
        assert wanted in who
    # The same by a name that says otherwise: only the shape counts.
    assert tool_outcomes(import_tools(text, "notes.txt")) == outcomes
    assert tool_outcomes(import_tools("\ufeff" + text)) == outcomes


def test_the_door_says_what_was_made_up() -> None:
    (imported_tool,) = import_tools(MCP).tools
    assert imported_tool.tool is not None
    assert imported_tool.tool.config["result"].keys() == {"text"}  # sampled from its output schema
    assert any("simulated" in note for note in imported_tool.notes)
    first_tool = import_tools(ANTHROPIC.replace('"name"', '"owner": 5, "name"', 1)).tools[0]
    assert first_tool.tool is not None
    assert first_tool.tool.extra == {"anthropic": {"cache_control": {"type": "ephemeral"}}}
    assert first_tool.notes[0] == "Left out: owner."


def test_comments_are_left_out_and_it_is_said() -> None:
    text = '{ // a tool\n "name": "f", /* of "Claude" */ "input_schema": {"type": "object",}, }'
    imported_tools = import_tools(text)
    assert tool_outcomes(imported_tools) == [("f", "Anthropic", "mock")]
    assert imported_tools.notes == ("Comments and trailing commas were removed.",)
    assert import_tools('{"name": "//", "x": "a,}",}').problem == ""


@pytest.mark.parametrize("comment", ["// hi\n", "/* {not\n yet */", "\n // a\n\n/* b */ "])
def test_comments_may_stand_first(comment: str) -> None:
    assert tool_outcomes(import_tools(comment + ANTHROPIC)) == [("get_w", "Anthropic", "mock")]
    assert tool_outcomes(import_tools(comment + f"[{OWN}]")) == [("ask", "our own form", "person")]


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        (f"```json\n{ANTHROPIC}\n```\n", "", "Anthropic"),
        (f"\n```\n{ANTHROPIC}", "", "Anthropic"),
        (f"```python\n{SOURCE}```\nThat is `it`.", "", "Python"),
        (f"Here it is:\n\n  ```json\n{ANTHROPIC}\n  ```\nSo long.", "chat.md", "Anthropic"),
    ],
)
def test_a_block_between_fences_is_read(text: str, name: str, kind: str) -> None:
    assert [tool.kind for tool in import_tools(text, name).tools] == [kind]


@pytest.mark.parametrize("name", ["README.md", "notes.markdown", "page.mdx"])
def test_markdown_with_several_blocks_gives_the_tools_and_servers_of_all(name: str) -> None:
    imported = import_tools(README, name)
    assert imported.problem == ""
    assert [tool.name for tool in imported.tools] == ["add"]
    assert [
        (server.name, server.server and server.server.command) for server in imported.servers
    ] == [
        ("notes", "npx"),
        ("notes_2", "docker"),
        ("other", "x"),
    ]
    assert "Code blocks without a tool or server that can be read: 2 of 7, at lines 6, 29." in (
        imported.notes
    )


def test_markdown_without_a_name_is_known_by_its_blocks() -> None:
    text = f"# Notes\n\nclass room\n\n```sh\nnpm i notes\n```\n\n```json\n{SERVERS}\n```\n"
    (server,) = import_tools(text).servers
    assert server.name == "notes"
    assert import_tools(IN_PYTHON).servers == ()


def test_markdown_refusal_of_a_server_is_shown_beside_a_good_one() -> None:
    bad = '{"mcpServers": {"socket": {"type": "websocket", "url": "https://h.example"}}}'
    imported = import_tools(f"```\n{SERVERS}\n```\n\n```\n{bad}\n```", "a.md")
    assert [(server.name, bool(server.problem)) for server in imported.servers] == [
        ("notes", False),
        ("socket", True),
    ]


def test_markdown_without_any_says_what_each_block_lacks() -> None:
    text = '```sh\nls\n```\n\n```json\n{"mcpServers": {"a": ...}}\n```\n\n```ts\nconst a = 1;\n```'
    problem = import_tools(text, "README.md").problem
    assert "None of its 3 code blocks has tools or servers." in problem
    assert "Block at line 6: This is not valid JSON. Line 6, column 22" in problem
    assert "Block at line 10: This is JavaScript or TypeScript" in problem


def test_markdown_with_very_many_blocks_is_refused() -> None:
    problem = import_tools("```\nx\n```\n" * 2_000, "README.md").problem
    assert "It has 2,000 code blocks" in problem


@pytest.mark.parametrize("language", SOURCES)
def test_source_of_another_language_is_called_by_its_name(language: str) -> None:
    problem = import_tools(SOURCES[language]).problem
    assert problem.startswith(f"This is {language}. The only supported source code is Python.")


@pytest.mark.parametrize(
    ("name", "language"),
    [
        *(("tools.ts", "TypeScript"), ("Tools.TSX", "TypeScript"), ("tools.mjs", "JavaScript")),
        *(("tools.go", "Go"), ("tools.rs", "Rust"), ("Tools.java", "Java"), ("tools.rb", "Ruby")),
    ],
)
def test_source_file_is_of_the_language_of_its_ending(name: str, language: str) -> None:
    problem = import_tools(SOURCES["JavaScript or TypeScript"], name).problem
    assert problem.startswith(f"This is {language}. The only supported source code is Python.")
    assert [tool.name for tool in import_tools(ANTHROPIC, name).tools] == ["get_w"]


@pytest.mark.parametrize("text", ["import os\ndef f(:\n", "class A:\nx y z\n", "x = [\n"])
def test_python_with_a_fault_is_still_called_python(text: str) -> None:
    assert "this is not valid Python" in import_tools(text).problem
    assert "this is not valid Python" in import_tools(SOURCES["TypeScript"], "a.py").problem


def test_the_lines_of_a_block_are_those_of_the_text() -> None:
    assert "Line 3, column 1" in import_tools('```json\n{"a":\n}\n```').problem
    assert "no code block" in import_tools("# Notes", "notes.md").problem


def test_names_of_two_tools_stay_the_same() -> None:
    assert [tool.name for tool in import_tools(f"[{OWN}, {OWN}]").tools] == ["ask", "ask"]


def test_only_so_many_tools_are_shown() -> None:
    many = [{"name": f"t{number}", "input_schema": OBJECT} for number in range(600)]
    imported_tools = import_tools(json.dumps(many), most=500)
    assert len(imported_tools.tools) == 500
    assert imported_tools.more
    assert "first 500" in imported_tools.notes[0]
    assert [choice.key for choice in imported_tools.choices[498:502]] == [
        "t498",
        "t499",
        "t500",
        "t501",
    ]
    picked = import_tools(json.dumps(many), most=500, pick={"t3", "t599"})
    assert [tool.name for tool in picked.tools] == ["t3", "t599"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "It is empty"),
        ("   \n", "It is empty"),
        ("[]", "It contains no tools and no servers"),
        ('{"mcpServers": {}}', "It contains no tools and no servers"),
        ("hello", "Unknown format"),
        ("{", "Line 1, column 2: the text ends"),
        ('{"a": 1, "a": 2}', "duplicate key"),
        ("x = 1\ndef f(:", "Line 2: this is not valid Python"),
        ("[mcp_servers.a\n", "not valid JSON"),
        ("[mcp_servers.a]\nx = ", "not valid TOML"),
        ("a: [1\nb: 2", "not valid YAML. Line 2"),
        ("x" * (8 * 1024 * 1024 + 1), "larger than 8 MB"),
    ],
)
def test_what_cannot_be_read_says_what_to_do(text: str, message: str) -> None:
    imported_tools = import_tools(text)
    assert message in imported_tools.problem
    assert imported_tools.tools == ()


@pytest.mark.parametrize("text", ['{"a": [' + "1," * 600_000, '{"a": [\n' + "1,\n" * 600_000])
def test_a_large_text_that_is_no_json_is_parsed_once(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines are looked for only where a line break ends a value."""
    parsed: list[int] = []

    def count_parses(text: str, *most: int) -> Any:
        parsed.append(len(text))
        return parse(text, *most)

    monkeypatch.setattr("playground.exchange.parsers.parse", count_parses)
    assert "not valid JSON" in import_tools(text).problem
    assert parsed == [len(text)]


@pytest.fixture(scope="module")
def read_hostile() -> dict[str, Any]:
    """All hostile texts read in one process of their own, which a crash would end and in which
    whatever opens, connects or starts is noted."""
    done = subprocess.run(
        [sys.executable, "-c", WATCHED],
        input=json.dumps({name: text for name, (text, _) in {**HOSTILE, **PYTHON}.items()}),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=100,
        check=True,
    )
    results, happened = json.loads(done.stdout)
    assert happened == []
    return dict(results)


@pytest.mark.parametrize("name", [*HOSTILE, *PYTHON])
def test_a_hostile_text_is_refused_or_disarmed(name: str, read_hostile: dict[str, Any]) -> None:
    problem, problems, names = read_hostile[name]
    wanted = {**HOSTILE, **PYTHON}[name][1]
    message = " ".join([problem, *problems])
    if wanted:
        assert wanted in message
        assert names == []
    else:
        assert message.strip() == ""
        assert len(names) == 1
