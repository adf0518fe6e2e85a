"""What is a tool, and what is refused with what it is instead.

The shapes are those of public files: packages, manifests and configurations that lie beside tools,
and tools whose parameters have another name or another form than in the known formats.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.exchange.tool_dialects import read_tools
from playground.exchange.tool_entry import ImportedTool
from playground.exchange.tool_import import import_tools
from playground.protocols.provider_tools import runner

SKU = {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}
NAMED = {"name": "price", "description": "Price."}

OTHER_FILES = [
    (
        {"type": "function", "name": "f", "stateMutability": "view", "outputs": [],
         "inputs": [{"name": "a", "type": "string"}]},
        "smart contract",
    ),
    ({"type": "event", "name": "E", "anonymous": False, "inputs": []}, "smart contract"),
    ({"name": "n", "version": "1", "description": "d", "main": "i.js"}, "npm package file"),
    ({"name": "n", "version": "1", "description": "d", "config": {"port": 1}, "bin": {}}, "npm"),
    ({"private": True, "scripts": {"a": "b"}, "dependencies": {}}, "npm package file"),
    ({"name": "n", "lockfileVersion": 3, "packages": {}}, "npm lock file"),
    (
        {"name": "e", "version": "1", "engines": {"vscode": "^1"}, "contributes": {}},
        "VS Code extension",
    ),
    ({"name": "a/b", "description": "d", "require": {"php": "8"}, "autoload": {}}, "Composer"),
    ({"compilerOptions": {"strict": True}, "include": ["src"]}, "TypeScript configuration"),
    (
        {"$schema": "https://json.schemastore.org/tsconfig", "extends": "./base.json"},
        "format https://json.schemastore.org/tsconfig",
    ),
    ({"$schema": "https://biomejs.dev/schemas/2/schema.json", "linter": {}}, "biomejs.dev"),
    ({"manifest_version": 3, "name": "x", "description": "d", "version": "1"}, "browser extension"),
    (
        {"dxt_version": "0.1", "name": "x", "description": "d", "server": {"type": "binary"},
         "tools": [{"name": "a", "description": "A."}]},
        "manifest of an MCP bundle",
    ),
    (
        {"name": "io.x/y", "description": "d", "version": "1", "packages": [{"identifier": "y"}]},
        "entry of the MCP registry",
    ),
    (
        {"$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
         "name": "io.x/y", "description": "d", "version": "1", "remotes": []},
        "entry of the MCP registry",
    ),
    (
        {"schema_version": "v1", "name_for_model": "todo", "description_for_model": "d",
         "api": {"type": "openapi", "url": "https://x.example/openapi.yaml"}},
        "plugin manifest",
    ),
    (
        {"schema_version": "v2.1", "name_for_human": "Todo", "functions": [NAMED], "runtimes": []},
        "plugin manifest",
    ),
    (
        {"name": "agent", "description": "d", "url": "https://x.example", "version": "1",
         "capabilities": {}, "skills": [{"id": "s", "name": "s", "description": "d", "tags": []}]},
        "card of an agent",
    ),
    ({"name": "ci", "on": ["push"], "jobs": {"a": {}}}, "GitHub workflow"),
    (
        {"name": "a", "description": "d", "inputs": {"who": {"type": "string"}}, "runs": {}},
        "GitHub Action",
    ),
    (
        {"name": "$(Date)", "pool": "x", "parameters": [{"name": "a", "type": "string"}],
         "steps": []},
        "pipeline",
    ),
    ({"name": "x", "services": {"db": {"image": "postgres"}}}, "Docker Compose"),
    ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}, "Kubernetes"),
    ({"name": "My flow", "nodes": [], "connections": {}}, "workflow of n8n"),
    (
        {"name": "A", "description": "d", "slug": "a", "arch": ["amd64"],
         "options": {"port": 1}, "schema": {"port": "int"}},
        "add-on of Home Assistant",
    ),
    ({"name": "t", "description": "d", "input_variables": ["q"], "template": "{q}"}, "prompt"),
    (
        {"provider": "autogen_core.tools.FunctionTool", "component_type": "tool",
         "config": {"name": "f", "description": "d", "source_code": "def f(): ..."}},
        "component of AutoGen",
    ),
    (
        {"name": "p", "version": "1", "description": "d", "author": {"name": "a"}, "license": "x"},
        "manifest of a package or a plugin",
    ),
    ({"graphs": {"agent": "./a.py:graph"}, "dependencies": ["."]}, "LangGraph"),
    ({"role": "tool", "name": "price", "content": "3"}, "message of a conversation"),
    ({"type": "tool_use", "id": "t1", "name": "price", "input": {"sku": "a"}}, "call of a tool"),
    (
        {"type": "function", "id": "c", "function": {"name": "price", "arguments": "{}"}},
        "call of a tool",
    ),
    ({"name": "price", "arguments": '{"sku": "a"}'}, "call of a tool"),
    ({"name": "price", "args": {"sku": "a"}, "id": "c1", "type": "tool_call"}, "call of a tool"),
    ({"functionCall": {"name": "price", "args": {"sku": "a"}}}, "call of a tool"),
]  # fmt: skip

LISTED = [{"name": "sku", "type": "string", "desc": "Number"}, {"name": "n", "type": "int"}]
BY_NAME = {"sku": {"type": "str", "required": True}, "n": {"type": "int"}}
READ = [
    # parameters under other names
    ({**NAMED, "params_json_schema": SKU, "strict_json_schema": True}, ["sku"]),
    ({**NAMED, "argsSchema": SKU}, ["sku"]),
    ({**NAMED, "parametersSchema": SKU}, ["sku"]),
    ({**NAMED, "input": SKU}, ["sku"]),
    ({**NAMED, "inputs_schema": SKU, "outputs_schema": {"type": "object"}}, ["sku"]),
    ({**NAMED, "schema": SKU}, ["sku"]),
    ({**NAMED, "kwargs": SKU, "tags": ["a"], "metadata": {"a": {"type": "string"}}}, ["sku"]),
    ({**NAMED, "input_parameters": SKU, "output_parameters": SKU}, ["sku"]),
    ({**NAMED, "run_params_schema": SKU, "init_params_schema": SKU}, ["sku"]),
    ({**NAMED, "run_params_schema": SKU, "args_copy": SKU}, ["sku"]),
    ({**NAMED, "version": "1", "author": "a", "main": "x", "arguments_schema": SKU}, ["sku"]),
    ({"type": "function", **NAMED, "input_schema": SKU}, ["sku"]),
    ({"type": "function", **NAMED, "inputSchema": SKU}, ["sku"]),
    ({"type": "function", "function": NAMED, "parameters": SKU}, ["sku"]),
    ({"type": "function", "function": {**NAMED, "params_json_schema": SKU}}, ["sku"]),
    ({"type": "custom", **NAMED, "url": "https://x.example", "parameters": SKU}, ["sku"]),
    ({"type": "client", **NAMED, "parameters": SKU}, ["sku"]),
    ({"functionDeclarations": [{**NAMED, "input_schema": SKU}]}, ["sku"]),
    # a schema in a wrapper, as a text, or of Google's classes
    ({**NAMED, "parameters": {"jsonSchema": SKU}}, ["sku"]),
    ({**NAMED, "inputSchema": {"jsonSchema": {"$schema": "x", **SKU}}}, ["sku"]),
    ({**NAMED, "inputSchema": {"type": "object", "jsonSchema": SKU}}, ["sku"]),
    ({**NAMED, "parameters": {"schema": {"json": SKU}}}, ["sku"]),
    ({**NAMED, "json_schema": {**NAMED, "parameters": SKU}, "source_code": "x"}, ["sku"]),
    ({**NAMED, "tool_spec": {"inputSchema": {"json": SKU}}}, ["sku"]),
    ({"toolSpec": {**NAMED, "inputSchema": {"json": json.dumps(SKU)}}}, ["sku"]),
    ({**NAMED, "inputSchema": json.dumps(SKU)}, ["sku"]),
    ({**NAMED, "parameters": {"type_": "OBJECT", "properties": {"sku": {"type_": "STRING"}},
      "required": ["sku"]}}, ["sku"]),
    ({**NAMED, "parameters": {"type": 6, "properties": {"sku": {"type": 1}},
      "required": ["sku"]}}, ["sku"]),
    ({**NAMED, "parameters": {"type": "Type.OBJECT", "properties": {"sku": {"type":
      "Type.STRING"}}, "required": ["sku"]}}, ["sku"]),
    # parameters by name
    ({**NAMED, "parameter_definitions": BY_NAME}, ["sku"]),
    ({**NAMED, "parameters": BY_NAME}, ["sku"]),
    ({**NAMED, "inputs": {"sku": {"type": "string"}, "n": {"type": "integer", "nullable": True}},
      "output_type": "string"}, ["sku"]),
    ({**NAMED, "args_schema": {"sku": "string", "n": "integer"}}, ["sku", "n"]),
    ({**NAMED, "parameters": {"sku": {"type": "str"}, "n": {"type": "int, optional"}}}, ["sku"]),
    # lists of parameters
    ({**NAMED, "arguments": LISTED}, ["sku", "n"]),
    ({**NAMED, "arguments": [LISTED[0], {**LISTED[1], "optional": True}]}, ["sku"]),
    ({**NAMED, "parameters": [{**LISTED[0], "is_required": True}, LISTED[1]]}, ["sku"]),
    ({**NAMED, "parameters": [{"name": "sku", "schema_data": {"type": "string"},
      "default_value": None, "is_required": True}]}, ["sku"]),
    ({"name": "clock", "description": "d", "arguments": []}, None),
]  # fmt: skip

ZOD = {"def": {"type": "object", "shape": {}}, "type": "object", "~standard": {"vendor": "zod"}}

RUN_BY = {
    "client": ["run by the client with", "run by the client."],
    "provider": ["run by its provider,", "run by Google"],
    "either": ["does not say who runs it"],
}


def only(entry: Any) -> ImportedTool:
    (tool,) = read_tools(entry, "")
    assert isinstance(tool, ImportedTool)
    return tool


@pytest.mark.parametrize(("entry", "what"), OTHER_FILES)
def test_a_file_of_another_kind_is_refused_with_what_it_is(entry: Any, what: str) -> None:
    tool = only(entry)
    assert tool.tool is None
    assert what in tool.problem
    assert "not a tool" in tool.problem


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("pyproject.toml", '[project]\nname = "x"\ndescription = "d"\n[build-system]\n', "Python"),
        ("Cargo.toml", '[package]\nname = "x"\ndescription = "d"\n[dependencies]\n', "Rust"),
        ("ci.yml", "name: CI\non:\n  push:\njobs:\n  test: {runs-on: x}\n", "GitHub workflow"),
        ("action.yml", "name: A\ndescription: d\ninputs:\n  a: {default: 1}\nruns: {using: x}\n",
         "GitHub Action"),
        ("mcp-agent.yaml", "$schema: ../mcp-agent.schema.json\nlogger: {level: info}\n", "$schema"),
        ("smithery.yaml", "startCommand:\n  type: stdio\n  configSchema: {type: object}\n",
         "Smithery"),
    ],
)  # fmt: skip
def test_a_file_in_toml_or_yaml_is_refused_with_what_it_is(name: str, text: str, what: str) -> None:
    (tool,) = import_tools(text, name).tools
    assert tool.tool is None
    assert what in tool.problem


@pytest.mark.parametrize(("entry", "required"), READ)
def test_parameters_in_another_form_are_read(entry: Any, required: list[str] | None) -> None:
    imported = only(entry)
    assert imported.tool is not None, imported.problem
    schema = imported.tool.parameters
    assert schema.get("required") == required
    if required is not None:
        assert schema["properties"]["sku"]["type"] == "string"
        assert schema["type"] == "object"


@pytest.mark.parametrize("entry", [entry for entry, _ in READ])
def test_parameters_read_in_another_form_are_noted(entry: Any) -> None:
    if entry.get("parameters") != SKU or "function" in entry:
        assert any("arameter" in note or "schema" in note for note in only(entry).notes)


def test_what_a_list_of_parameters_says_is_kept() -> None:
    days = {"name": "days", "type": "array", "items": {"type": "integer"}, "desc": "Days",
            "optional": True}  # fmt: skip
    imported = only({**NAMED, "arguments": [LISTED[0], days]})
    assert imported.tool is not None
    assert imported.tool.parameters == {
        "type": "object",
        "properties": {
            "sku": {"type": "string", "description": "Number"},
            "days": {"type": "array", "items": {"type": "integer"}, "description": "Days"},
        },
        "required": ["sku"],
    }
    assert imported.notes[0] == "Its parameters were in `arguments`."


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        # nothing holds a schema
        (NAMED, ["not a known form of a tool", "description"]),
        ({**NAMED, "tags": ["a"], "examples": [{"sku": "a"}], "returns": SKU}, ["known form"]),
        ({"tools": [NAMED]}, ["not a known form of a tool"]),
        ({"jsonrpc": "2.0", "id": 1, "result": {"tools": [NAMED]}}, ["not a known form of a tool"]),
        ({**NAMED, "input_schema": None}, ["It has no schema"]),
        ({**NAMED, "inputSchema": None}, ["It has no schema"]),
        ({"name": "server", "description": "d", "configSchema": SKU}, ["not a known form"]),
        # what may hold parameters was not understood
        ({**NAMED, "params": ["sku", "n"]}, ["`params`"]),
        ({**NAMED, "arguments": [{"name": "sku", "description": "d", "required": True}]},
         ["`arguments`"]),
        ({**NAMED, "args_schema": "<class 'PriceInput'>"}, ["`args_schema`"]),
        ({**NAMED, "arguments": {"sku": "tea"}}, ["`arguments`"]),
        ({**NAMED, "required_parameters": LISTED[:1], "optional_parameters": LISTED[1:]},
         ["`required_parameters` or `optional_parameters`"]),
        ({"type": "function", **NAMED, "arguments": {"sku": 1}}, ["`arguments`"]),
        ({"functions": [{**NAMED, "params": ["sku"]}]}, ["`params`"]),
        ({"functionDeclarations": [{**NAMED, "params": ["sku"]}]}, ["`params`"]),
        # a schema that would allow everything
        ({**NAMED, "parameters": {"values": {"a": 1}, "options": {}}}, ["values, options"]),
        ({**NAMED, "parameters": {"type": "object", "sku": {"note": "x"}}}, ["type, sku"]),
        ({**NAMED, "input_schema": {"$defs": {"A": SKU}}}, ["$defs"]),
        ({**NAMED, "inputSchema": ZOD}, ["Zod schema"]),
        ({**NAMED, "parameters": {"_def": {"typeName": "ZodObject"}}}, ["Zod schema"]),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "$defs": {"A": SKU}},
         ["says nothing about an object of arguments"]),
        ({**NAMED, "input_schema": {"type": "array"}}, ["Arguments must be an object"]),
        ({**NAMED, "parameters": {"type": "object", "sku": "string"}}, ["type, sku"]),
        ({**NAMED, "input_schema": {"type": "object", "entries": {"sku": {}}}}, ["entries"]),
        ({"type": "webhook", **NAMED, "api_schema": {"query_params_schema": SKU,
          "path_params_schema": {"id": {"type": "string"}}}}, ["'webhook' is unknown"]),
        # types that are not known
        ({"type": "session.created", "event_id": "e"}, ["'session.created' is unknown"]),
        ({"type": "end_call", "name": "end", "description": "d"}, ["'end_call' is unknown"]),
        ({"tools": [{"type": "teleport"}]}, ["'teleport' is unknown"]),
        ({"name": "Set", "type": "n8n-nodes-base.set", "parameters": {"values": {}, "x": {}}},
         ["values, x"]),
        ({"type": "Feature", "geometry": {}, "properties": {}}, ["'Feature' is unknown"]),
        ({"name": "index", "mappings": {"properties": {"sku": {"type": "text"}}}}, ["known form"]),
        # an empty member of a call, a container, a launch configuration or a step
        ({"name": "now", "arguments": {}}, ["no schema of arguments"]),
        ({"name": "now", "args": {}}, ["no schema of arguments"]),
        ({"name": "web", "image": "nginx", "args": []}, ["no schema of arguments"]),
        ({"name": "run", "type": "node", "request": "launch", "args": []}, ["'node' is unknown"]),
        ({"name": "step", "inputs": {}}, ["no schema of arguments"]),
        # an empty schema beside parameters
        ({**NAMED, "parameters": {}, "inputs": {"sku": {"type": "string"}}}, ["`inputs` does"]),
        ({"type": "function", "function": {**NAMED, "parameters": {"type": "object",
          "properties": {}}, "arguments": LISTED}}, ["`arguments` does"]),
        ({**NAMED, "inputSchema": {"type": "object"}, "parameters": SKU}, ["`parameters` does"]),
    ],
)  # fmt: skip
def test_a_thing_without_a_schema_that_is_understood_is_refused(
    entry: Any, names: list[str]
) -> None:
    imported = only(entry)
    assert imported.tool is None
    for name in names:
        assert name in imported.problem
    assert imported.runner is None
    assert "run by" not in imported.problem


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "function", "function": NAMED},
        {"type": "function", **NAMED, "parameters": None},
        {"functions": [NAMED]},
        {"functionDeclarations": [NAMED]},
        {**NAMED, "answered_by": "person"},
        {**NAMED, "inputSchema": {}},
        {**NAMED, "input_schema": {"type": "object"}},
        {**NAMED, "parameters": {}},
        {**NAMED, "parameters": {"$schema": "https://json-schema.org/draft/2020-12/schema"}},
        {**NAMED, "parameters": {"type": "object", "properties": {}, "x-order": {"a": 1}}},
        {
            **NAMED,
            "parameters": {"type": "object", "properties": {}, "optional": [], "ui": {"a": 1}},
        },
        {
            **NAMED,
            "parameters": {"type": "object", "properties": {}},
            "command": "x",
            "args": ["-v"],
        },
        {**NAMED, "inputs": {}, "output_type": "string"},
        {"title": "price", "description": "Price.", "type": "object"},
    ],
)
def test_a_declared_tool_without_arguments_is_taken(entry: Any) -> None:
    imported = only(entry)
    assert imported.tool is not None, imported.problem
    assert not imported.tool.parameters.get("properties")


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ({"type": "session.update", "session": {"type": "realtime", "tools": [
            {"type": "function", **NAMED, "parameters": SKU}]}}, ["price"]),
        ({"type": "response.create", "response": {"tools": [
            {"type": "function", **NAMED, "parameters": SKU}]}}, ["price"]),
        ({"setup": {"model": "m", "tools": [{"functionDeclarations": [NAMED]}]}}, ["price"]),
        ({"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {
            "model": "m", "tools": [{"type": "function", "function": NAMED}]}}, ["price"]),
        ({"name": "agent", "description": "d", "tools": [{**NAMED, "input_schema": SKU}]},
         ["price"]),
        ({"tools": {"price": {"description": "d", "inputSchema": {"jsonSchema": SKU}}}}, ["price"]),
        ({"tools": {"a": {"kind": "sql", "parameters": LISTED}, "b": {"kind": "sql",
            "parameters": []}}}, ["a", "b"]),
        ({"a": {"description": "d", "parameters": SKU}, "b": {"inputSchema": {"json": SKU}}},
         ["a", "b"]),
        ({"id": "t", "name": "T", "content": "x", "specs": [{**NAMED, "parameters": SKU}]},
         ["price"]),
        ({"type": "haystack.tools.tool.Tool", "data": {**NAMED, "parameters": SKU}}, ["price"]),
        ({"lc": 1, "type": "constructor", "id": ["x", "Tool"], "kwargs": {
            **NAMED, "args_schema": SKU}}, ["price"]),
        ({"name": "f", "description": "d", "type": "object", **SKU}, ["f"]),
    ],
)  # fmt: skip
def test_tools_inside_of_a_document_are_found(document: Any, names: list[str]) -> None:
    tools = list(read_tools(document, ""))
    assert [tool.name for tool in tools] == names
    assert all(isinstance(tool, ImportedTool) and tool.tool is not None for tool in tools)


@pytest.mark.parametrize(
    "entry",
    [
        {**NAMED, "url": "https://shop.example/price", "method": "GET", "schema": SKU},
        {**NAMED, "url": "https://shop.example", "input": {"sku": {"type": "string"}}},
        {**NAMED, "command": "price {{sku}}", "arguments": LISTED},
        {**NAMED, "command": "price", "args_schema": SKU},
    ],
)
def test_a_tool_with_a_command_or_an_address_is_no_server(entry: Any) -> None:
    imported = only(entry)
    assert imported.tool is not None, imported.problem
    assert "sku" in imported.tool.parameters["properties"]


def test_what_stands_beside_a_schema_in_its_wrapper_is_noted() -> None:
    imported = only({"name": "price", "json_schema": {**NAMED, "parameters": SKU}})
    assert any("Left out there: name, description." in note for note in imported.notes)


@pytest.mark.parametrize(
    ("entry", "who"),
    [
        *[({"type": kind}, "client") for kind in ("computer", "apply_patch", "local_shell",
          "computer_use_preview", "computer_toolset_20260801", "browser_toolset_20260801")],
        *[({"type": kind, "name": "x"}, "client") for kind in ("bash_20241022", "bash_20250124",
          "text_editor_20250728", "computer_20251124", "memory_20250818")],
        *[({"type": kind}, "provider") for kind in ("web_search", "web_search_preview",
          "web_search_preview_2025_03_11", "web_search_2025_08_26", "file_search", "retrieval",
          "code_interpreter", "image_generation", "programmatic_tool_calling", "x_search",
          "browser_search", "document_library", "openrouter:web_search", "mcp_toolset",
          "google_search", "url_context")],
        *[({"type": kind, "name": "x"}, "provider") for kind in ("web_search_20250305",
          "web_fetch_20250910", "code_execution_20250825", "advisor_20260301",
          "tool_search_tool_regex_20251119")],
        ({"type": "mcp", "server_label": "x", "server_url": "https://x.example"}, "provider"),
        ({"type": "builtin_function", "function": {"name": "$web_search"}}, "provider"),
        ({"type": "shell"}, "either"),
        ({"type": "shell", "environment": {"type": "local"}}, "client"),
        ({"type": "shell", "environment": {"type": "container_auto"}}, "provider"),
        ({"type": "tool_search"}, "provider"),
        ({"type": "tool_search", "execution": "client"}, "client"),
        ({"type": "provider-defined", "id": "openai.web_search", "name": "w", "args": {}},
         "provider"),
        ({"type": "provider", "id": "anthropic.bash_20250124", "name": "b", "args": {}}, "client"),
        ({"type": "provider", "id": "x.y", "name": "b", "args": {}}, "either"),
        ({"systemTool": {"name": "nova_grounding"}}, "provider"),
        ({"googleSearch": {}}, "provider"),
        ({"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}, "client"),
        ({"computer_use": {}}, "client"),
    ],
)  # fmt: skip
def test_a_tool_of_a_provider_is_refused_with_who_runs_it(entry: Any, who: str) -> None:
    imported = only(entry)
    assert imported.tool is None
    assert imported.runner == who
    assert any(word in imported.problem for word in RUN_BY[who])


def test_the_runner_of_a_type_that_is_not_known_is_not_known() -> None:
    for kind in ("function", "custom", "session.update", "memory", "bash", "x_20250101", 5, None):
        assert runner({"type": kind}) is None


def test_a_list_with_a_tool_of_a_provider_is_taken_without_it() -> None:
    tools = [{"type": "function", **NAMED, "parameters": SKU}, {"type": "web_search"}]
    price, search = import_tools(json.dumps({"tools": tools})).tools
    assert price.tool is not None
    assert (search.tool, search.runner) == (None, "provider")


def test_a_dump_of_many_wrappers_ends() -> None:
    deep: Any = SKU
    for _ in range(40):
        deep = {"schema": deep}
    assert only({**NAMED, "parameters": deep}).tool is None
    text: Any = SKU
    for _ in range(8):
        text = json.dumps({"schema": text})
    assert only({**NAMED, "parameters": text}).tool is None
