"""MCP servers as other programs keep them; what may be a key never comes through."""

from __future__ import annotations

import json
from typing import Any

from app.core.servers import Server
from app.formats.found import FoundServer
from app.formats.read import read
from tests.tables import each_row

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
        ["It is given MY_API_KEY"],
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
        ["alwaysAllow was not taken over", "switched off there", "set REMOTE_API_KEY"],
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
        ["What was asked for there is the variable GITHUB_GITHUB_KEY", "write the path"],
    ),
    "Codex": (
        CODEX,
        [
            Server(
                "docs",
                command="npx",
                args=("-y", "mcp-server"),
                env={"API_KEY": "${API_KEY}", "LOG_LEVEL": "info"},
            ),
            Server(
                "figma",
                url="https://mcp.example.com/mcp",
                headers={"Authorization": "Bearer ${FIGMA_TOKEN}"},
            ),
        ],
        ["set API_KEY", "Left out: startup_timeout_sec"],
    ),
    "Gemini CLI": (
        GEMINI_CLI,
        [Server("http", url="http://localhost:3000/mcp", headers={"X-Trace": "${TRACE_KEY}"})],
        ["trust was not taken over", "Left out: timeout"],
    ),
}


def found(data: Any) -> FoundServer:
    (one,) = read(json.dumps({"mcpServers": {"s": data}})).servers
    return one


@each_row("program", PROGRAMS)
def test_the_file_of_each_program(program: str) -> None:
    text, servers, notes = PROGRAMS[program]
    brought = read(text)
    assert (brought.problem, brought.tools, brought.kind) == ("", (), "MCP servers")
    assert [one.server for one in brought.servers] == servers
    said = " ".join(note for one in brought.servers for note in one.notes)
    assert [note for note in notes if note not in said] == []


@each_row(
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
        {"url": "https://host.example/mcp", "headers": {"X-Anything": "SECRET1 of mine"}},
        {"url": "https://host.example/mcp", "http_headers": {"Cookie": "a=SECRET1"}},
    ],
)
def test_a_literal_that_may_be_a_key_becomes_the_name_of_a_variable(entry: Any) -> None:
    one = found(entry)
    assert one.server is not None, one.problem
    assert "SECRET1" not in repr(one)
    assert "${" in repr(one.server)
    assert any("was not kept: set " in note for note in one.notes)


@each_row(
    ("entry", "said"),
    [
        ({}, "either a command or a url"),
        ({"command": "x", "url": "https://a.example"}, "either a command or a url"),
        ({"url": "file:///etc/passwd"}, "begins with http"),
        ({"command": ["x"]}, "command is a text"),
        ({"command": "x\0"}, "command is a text"),
        ({"command": "x", "args": "y"}, "args is a list"),
        ({"command": "x", "args": ["y" * 9000]}, "args has at most"),
        ({"command": "x", "env": {"A": 1}}, "env is an object of texts"),
        ({"command": "x", "env": {"A=B": "1"}}, "no variable that can be set"),
        ({"url": "https://a.example", "headers": {"A:": "1"}}, "no header that can be sent"),
        ({"url": "https://a.example", "headers": {"A": "1\r\nB: 2"}}, "no header may hold"),
        ({"url": "https://a.example", "bearer_token_env_var": "a}b"}, "no name of a variable"),
    ],
)
def test_a_server_that_cannot_be_is_said(entry: Any, said: str) -> None:
    one = found(entry)
    assert one.server is None
    assert said in one.problem


def test_what_decides_what_is_started_is_told() -> None:
    one = found({"command": "x", "env": {"PATH": "/evil"}})
    assert any("It sets PATH" in note for note in one.notes)


def test_odd_names_are_made_legal_and_said() -> None:
    (one,) = read('{"mcpServers": {"a<b>\\u202e": {"command": "x"}}}').servers
    assert one.server is not None
    assert one.server.name == "a_b"
    assert "\\u202e" in one.notes[0]
