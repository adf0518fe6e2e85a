"""MCP servers as other programs keep them; what may be a key never comes through."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from playground.core.servers import Server
from playground.exchange.mcp_config import with_values
from playground.exchange.tool_entry import ImportedServer
from playground.exchange.tool_import import import_tools

DESKTOP = """{"mcpServers": {"filesystem": {"command": "npx",
 "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/me/Desktop"]}}}"""
CURSOR = """{"mcpServers": {"remote": {"url": "https://api.example.com/mcp",
 "headers": {"API_KEY": "${env:MY_API_KEY}"}}}}"""
WINDSURF = """{"mcpServers": {"remote": {"serverUrl": "https://api.example.com/mcp",
 "headers": {"API_KEY": "value"}, "disabled": true, "alwaysAllow": ["a"]}}}"""
VSCODE = """{
  // kept by the editor
  "inputs": [{"type": "promptString", "id": "github-key", "password": true}],
  "servers": {"github": {"type": "http", "url": "https://api.example.com/mcp/",
    "headers": {"Authorization": "Bearer ${input:github-key}"}},
   "files": {"type": "stdio", "command": "node", "args": ["${workspaceFolder}/s.js"]}},
}"""
CODEX = """model = "o3"

[mcp_servers.docs]
command = "npx"
args = ["-y", "mcp-server"]
env = { "API_KEY" = "value", "LOG_LEVEL" = "info" }
startup_timeout_sec = 20

[mcp_servers.figma]
url = "https://mcp.example.com/mcp"
bearer_token_env_var = "FIGMA_TOKEN"
"""
GEMINI_CLI = """{"theme": "Dark", "mcpServers": {"http": {"httpUrl": "http://localhost:3000/mcp",
 "headers": {"X-Trace": "$TRACE_KEY"}, "timeout": 5000, "trust": true}}}"""

PROGRAMS: dict[str, tuple[str, list[Server], list[str]]] = {
    "Claude Desktop": (
        DESKTOP,
        [
            Server(
                "filesystem",
                command="npx",
                args=("-y", "@modelcontextprotocol/server-filesystem", "/Users/me/Desktop"),
            )
        ],
        [],
    ),
    "Cursor": (
        CURSOR,
        [
            Server(
                "remote",
                url="https://api.example.com/mcp",
                headers={"API_KEY": "${MY_API_KEY}"},
            )
        ],
        ["When you accept it, it gets MY_API_KEY"],
    ),
    "Windsurf": (
        WINDSURF,
        [
            Server(
                "remote",
                url="https://api.example.com/mcp",
                headers={"API_KEY": "${REMOTE_API_KEY}"},
            )
        ],
        ["alwaysAllow was not imported", "switched off there", "Set REMOTE_API_KEY"],
    ),
    "VS Code": (
        VSCODE,
        [
            Server(
                "github",
                url="https://api.example.com/mcp/",
                headers={"Authorization": "Bearer ${GITHUB_GITHUB_KEY}"},
            ),
            Server("files", command="node", args=("${workspaceFolder}/s.js",)),
        ],
        [
            "An editor fills in ${input:github-key}; the playground does not. Set "
            "GITHUB_GITHUB_KEY",
            "An editor fills in ${workspaceFolder}; the playground does not. Set workspaceFolder",
        ],
    ),
    "Codex": (
        CODEX,
        [
            Server(
                "docs",
                command="npx",
                args=("-y", "mcp-server"),
                env={"API_KEY": "${API_KEY}", "LOG_LEVEL": "info"},
                start_s=20,
            ),
            Server(
                "figma",
                url="https://mcp.example.com/mcp",
                headers={"Authorization": "Bearer ${FIGMA_TOKEN}"},
            ),
        ],
        ["Set API_KEY"],
    ),
    "Gemini CLI": (
        GEMINI_CLI,
        [
            Server(
                "http",
                url="http://localhost:3000/mcp",
                headers={"X-Trace": "${TRACE_KEY}"},
                call_s=5,
            )
        ],
        ["trust was not imported", "Its timeout 5000 was read as milliseconds"],
    ),
}

# Of every program and way: what stands between « and » is a key, and all else is none.
SHAPES: dict[str, str] = {
    "a package whose name holds sk-": """{"mcpServers": {"task-master-ai": {"command": "npx",
      "args": ["-y", "--package=task-master-ai", "task-master-ai", "--author", "Ann",
      "--design", "blue"], "env": {"ANTHROPIC_API_KEY": "«your_key_here»", "OPENAI_API_KEY": "",
      "AWS_REGION": "us-east-1", "FILE_PATH": "task.json", "TASK_MASTER_TOOLS": "core"}}}}""",
    "two values of one URL": """{"mcpServers": {"two": {"url":
      "https://host.example/sse?api_key=«k-one»&profile=me&token=«t-two»"}}}""",
    "user and password": """{"mcpServers": {"pg": {"command": "docker", "args": ["run",
      "-i", "--rm", "-e", "DATABASE_URI", "-e", "PGPASSWORD=«pw1»", "-e", "MODE=fast",
      "mcp/postgres:latest"],
      "env": {"DATABASE_URI": "postgresql://me:«p@ss1»@localhost:5432/db?sslmode=require"}}}}""",
    "headers inside of a variable": """{"mcpServers": {"notion": {"command": "npx",
      "args": ["-y", "@notionhq/notion-mcp-server"], "env": {"OPENAPI_MCP_HEADERS":
      "{\\"Authorization\\": \\"Bearer «ntn_00»\\", \\"Notion-Version\\": \\"2022-06-28\\"}"}}}}""",
    "mcp-remote": """{"mcpServers": {"remote": {"command": "npx", "args": ["mcp-remote",
      "https://host.example/mcp", "--header", "x-api-key:«d41d8cd98f00»", "--header",
      "Authorization: Bearer «abc123»", "--header", "X-Org: demo", "--allow-http"]}}}""",
    "a command line in one text": """{"mcpServers": {"n8n": {"command": "cmd", "args": ["/c",
      "npx -y @smithery/cli@latest run exa --key «0000-1111» --profile my-own"]}}}""",
    "VS Code": """{"inputs": [{"type": "promptString", "id": "key", "password": true}],
      "servers": {"vs": {"type": "stdio", "command": "docker", "args": ["run", "--rm", "-e",
      "API_KEY=${input:key}", "-v", "${workspaceFolder}/c.yaml:/app/c.yaml",
      "images.example/a/b:latest"]}}}""",
    "settings of VS Code": """{"editor.tabSize": 2, "mcp": {"servers": {"s": {"url":
      "http://localhost:7007/mcp", "headers": {"Authorization": "Bearer ${env:A_TOKEN}"}}}}}""",
    "Cursor, by name alone": """{"linear": {"url": "https://mcp.linear.app/mcp"},
      "local": {"command": "python3.11", "args": ["/home/me/server.py"]}}""",
    "Zed": """{"context_servers": {"new": {"source": "custom", "command": "uvx", "args": ["serve"],
      "env": {}}, "old": {"command": {"path": "npx", "args": ["-y", "server"],
      "env": {"A_TOKEN": "«abc»"}}, "settings": {}}}, "theme": "One Dark"}""",
    "opencode": """{"$schema": "https://opencode.ai/config.json", "model": "a/b", "mcp": {
      "slack": {"type": "local", "command": ["docker", "run", "-e", "SLACK_MCP_XOXC_TOKEN=«x1»",
      "-e", "SLACK_MCP_ADD_MESSAGE_TOOL=1", "images.example/s:latest"], "environment": {"A": "1"},
      "enabled": true}, "jira": {"type": "remote", "url": "https://mcp.atlassian.com/v1/mcp",
      "headers": {"Authorization": "Bearer {env:JIRA_TOKEN}"}, "oauth": {}}}}""",
    "Windsurf and Antigravity": """{"mcpServers": {"a": {"serverUrl": "https://a.example/mcp"},
      "b": {"serverURL": "https://b.example/mcp", "headers": {"X-Org": "demo",
      "X-Goog-Api-Key": "«AQ.Xy7QP5KU5HDbHT-2dl6wAFLpwAAwr5X6Xl»"}, "disabled": false}}}""",
    "Cline, on Windows": r"""{"mcpServers": {"github.com/a/b": {"command": "cmd.exe", "args": ["/c",
      "npx.cmd", "-y", "@a/b"], "env": {"PATH": "C:/Python312/Scripts;%PATH%", "MSSQL_USER": "ro",
      "MSSQL_PASSWORD": "«SsysYWUFOIiVHfF»", "MSSQL_DRIVER": "{ODBC Driver 17 for SQL Server}",
      "CONNECTION": "Server=DC\\DEV14;Database=Dev;Trusted_Connection=True"},
      "transportType": "stdio", "alwaysAllow": []}}}""",
    "numbers and nothing": """{"mcpServers": {"n": {"command": "x", "args": ["--port", 8080, true],
      "env": {"PORT": 3000, "DEBUG": true, "NONE": null, "MAX_TOKENS": 6000}}}}""",
    "Continue": """
mcpServers:
  - name: sqlite
    command: npx
    args: ["-y", "mcp-sqlite", "/path/to/your/database.db"]
  - name: remote
    url: https://host.example/mcp
""",
}


def read_server(data: Any) -> ImportedServer:
    server, *_ = import_tools(
        json.dumps({"mcpServers": {"s": data, "beside": {"command": "x"}}})
    ).servers
    return server


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_file_of_each_program(program: str) -> None:
    text, servers, notes = PROGRAMS[program]
    imported_tools = import_tools(text)
    assert (imported_tools.problem, imported_tools.tools, imported_tools.kind) == (
        "",
        (),
        "MCP servers",
    )
    assert [server.server for server in imported_tools.servers] == servers
    message = " ".join(note for server in imported_tools.servers for note in server.notes)
    assert [note for note in notes if note not in message] == []


@pytest.mark.parametrize("marked", SHAPES.values(), ids=list(SHAPES))
def test_ordinary_values_stay_and_each_key_gets_a_variable(marked: str) -> None:
    """The values that are put back make the server as it stands in the file."""
    text, planted = re.sub("[«»]", "", marked), re.findall("«(.*?)»", marked)
    imported_tools = import_tools(text)
    assert imported_tools.problem == ""
    assert [server.problem for server in imported_tools.servers if server.problem] == []
    replaced = [value for server in imported_tools.servers for value in server.replaced]
    assert sorted(value.value for value in replaced) == sorted(planted)
    assert len({value.variable for value in replaced}) == len(set(planted))
    stored_text, there = repr([server.server for server in imported_tools.servers]), ""
    for item in imported_tools.servers:
        assert item.server is not None
        there += repr(with_values(item.server, item.replaced))
    for value in replaced:
        assert f"${{{value.variable}}}" in stored_text
        assert value.value not in stored_text
        assert value.value in there
        assert value.value not in repr(value)


def test_one_name_in_two_servers_is_two_variables_where_the_values_differ() -> None:
    entry = {"command": "x", "env": {"API_KEY": "one-1"}}
    answer = {
        "a": entry,
        "same": entry,
        "b": {"command": "x", "env": {"API_KEY": "two-2"}},
        "c": {"command": "x", "args": ["--key", "three-3", "${OTHER_KEY}"]},
        "other": {"url": "https://h.example/mcp?key=four-4"},
    }
    servers = [server.server for server in import_tools(json.dumps({"mcpServers": answer})).servers]
    assert [server.env for server in servers[:3] if server] == [
        {"API_KEY": "${API_KEY}"},
        {"API_KEY": "${API_KEY}"},
        {"API_KEY": "${B_API_KEY}"},
    ]
    assert servers[3] is not None
    assert servers[3].args == ("--key", "${C_KEY}", "${OTHER_KEY}")
    assert servers[4] is not None
    assert servers[4].url == "https://h.example/mcp?key=${OTHER_KEY_2}"


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        ("x", "$GITHUB_TOKEN", "${GITHUB_TOKEN}"),
        ("x", "--token=$GITHUB_TOKEN", "--token=${GITHUB_TOKEN}"),
        ("x", "{env:A}", "${A}"),
        ("x", "${env:A}", "${A}"),
        ("x", "${A:-a/b}", "${A:-a/b}"),
        ("x", "${A:-sk-0123456789abcdef}", "${A}"),
        ("x", "pa$word", "pa$word"),
        ("x", "^a$B$", "^a$B$"),
        ("/bin/sh", "for f in *; do echo $F; done", "for f in *; do echo $F; done"),
        ("x", "%APPDATA%", "${APPDATA}"),
    ],
)
def test_what_refers_to_a_variable(command: str, text: str, expected: str) -> None:
    server = read_server({"command": command, "args": ["-c", text]})
    assert server.server is not None
    assert server.server.args == ("-c", expected)


@pytest.mark.parametrize(
    ("cwd", "stored_text"),
    [
        ("/home/me/a", "/home/me/a"),
        ("~/a", "~/a"),
        ("./a", ""),
        (".", ""),
        ("${workspaceFolder}/a", ""),
        ("C:\\\\a", ""),
    ],
)
def test_a_folder_that_counts_from_a_project_is_left_out_and_said(
    cwd: str, stored_text: str
) -> None:
    server = read_server({"command": "x", "cwd": cwd})
    assert server.server is not None
    assert server.server.cwd == stored_text
    assert any(
        "was left out: it is relative to a project" in note for note in server.notes
    ) != bool(stored_text)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": {"type": "string"}, "url": {"type": "string"}}',
        '{"a": {"url": "https://a.example", "parameters": {}}}',
        '{"a": {"url": "no address"}}',
        '{"name": "t", "description": "d", "url": "https://a.example", "inputSchema": {}}',
    ],
)
def test_what_is_no_server(text: str) -> None:
    assert import_tools(text).servers == ()


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "x", "env": {"A_KEY": "SECRET1"}},
        {"command": "x", "env": {"PLAIN": "ghp_SECRET1aaaaaaaaaaaa"}},
        {"command": "x", "env": {"DSN": "postgres://me:SECRET1@host/db"}},
        {"command": "x", "args": ["--api-key", "SECRET1"]},
        {"command": "x", "args": ["--token=SECRET1"]},
        {"command": "x", "args": ["-e", "MY_TOKEN=SECRET1"]},
        {"command": "x", "args": ["--header", "Authorization: Bearer SECRET1"]},
        {"command": "x", "args": ["sk-SECRET1aaaaaaaaaaaaa"]},
        {"command": "x", "args": ["https://u:SECRET1@host.example/x"]},
        {"url": "https://host.example/mcp?api_key=SECRET1"},
        {"url": "https://u:SECRET1@host.example/mcp"},
        {"url": "https://host.example/mcp", "headers": {"Authorization": "Bearer SECRET1"}},
        {"command": "sh", "args": ["-c", "server --api-key SECRET1 --port 80"]},
        {"command": "npx server --token SECRET1"},
        {"url": "https://host.example/mcp", "http_headers": {"Cookie": "a=SECRET1"}},
    ],
)
def test_a_literal_that_may_be_a_key_becomes_the_name_of_a_variable(entry: Any) -> None:
    server = read_server(entry)
    assert server.server is not None, server.problem
    assert "SECRET1" not in repr(server)
    assert "${" in repr(server.server)
    assert any("was not saved. Set " in note for note in server.notes)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({}, "either a command or a url"),
        ({"command": "x", "url": "https://a.example"}, "either a command or a url"),
        ({"url": "file:///etc/passwd"}, "begin with http"),
        ({"command": {"path": 1}}, "command must be a text"),
        ({"command": "x\0"}, "command must be a text"),
        ({"command": "x", "args": "y"}, "args must be a list"),
        ({"command": "x", "args": ["y" * 9000]}, "args can have at most"),
        ({"command": "x", "env": {"A": ["1"]}}, "env must be an object of texts"),
        ({"command": "x", "env": [["A", "1"]]}, "env must be an object of texts"),
        ({"command": "x", "args": ["a", None]}, "args must be a list"),
        ({"command": "x", "env": {f"A{n}": "1" for n in range(257)}}, "more than 256 variables"),
        ("npx", "not an object with a command or a url"),
        ({"command": "x", "env": {"A=B": "1"}}, "not a valid variable name"),
        ({"url": "https://a.example", "headers": {"A:": "1"}}, "not a valid header name"),
        ({"url": "https://a.example", "headers": {"A": "1\r\nB: 2"}}, "not allowed in a header"),
        ({"url": "https://a.example", "bearer_token_env_var": "a}b"}, "not a valid variable name"),
    ],
)
def test_a_server_that_cannot_be_is_said(entry: Any, message: str) -> None:
    server = read_server(entry)
    assert server.server is None
    assert message in server.problem


def test_values_without_end_are_looked_through_to_a_bound() -> None:
    entry = {"command": "x", "env": {f"V{n}": "a b " * 2_000 for n in range(20)}}
    answer = dict.fromkeys("abc", entry)
    first, *rest = import_tools(json.dumps({"mcpServers": answer})).servers
    assert first.server is not None
    assert ["more than 256 kB in total" in server.problem for server in rest] == [True, True]
    assert "More than 200 of its values" in read_server({"command": "p://a:b@h " * 201}).problem


def test_what_decides_what_is_started_is_told() -> None:
    server = read_server({"command": "x", "env": {"PATH": "/evil"}})
    assert any("It sets PATH" in note for note in server.notes)


def test_odd_names_are_made_legal_and_said() -> None:
    (server,) = import_tools('{"mcpServers": {"a<b>\\u202e": {"command": "x"}}}').servers
    assert server.server is not None
    assert server.server.name == "a_b"
    assert "\\u202e" in server.notes[0]
