"""MCP servers in the files of further programs: where they are, how they are reached, how long they
may take, and what another program would fill in."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from playground.core.servers import Server
from playground.exchange.tool_entry import ImportedServer
from playground.exchange.tool_import import import_tools

AMP = """{"amp.notifications.enabled": false, "amp.mcpServers": {
 "shop": {"command": "npx", "args": ["-y", "shop-mcp"]},
 "wiki": {"url": "https://wiki.example/mcp", "headers": {"X-Team": "a"}}}}"""
CLAUDE_CODE = """{"numStartups": 3, "projects": {
 "/srv/a": {"allowedTools": [], "mcpServers": {
   "wiki": {"type": "http", "url": "https://other.example/mcp"},
   "db": {"type": "stdio", "command": "node", "args": ["db.js"], "env": {}}}},
 "/srv/b": {"mcpServers": {"db": {"type": "stdio", "command": "node", "args": ["db.js"], "env": {}},
   "own": {"command": "x", "cwd": "/srv/own"}}},
 "/srv/c": {"mcpServers": {}}},
 "mcpServers": {"wiki": {"type": "http", "url": "https://wiki.example/mcp"}}}"""
GOOSE = """
GOOSE_PROVIDER: anthropic
extensions:
  developer: {bundled: true, enabled: true, name: developer, timeout: 300, type: builtin}
  github:
    args: ["-y", "server-github"]
    cmd: npx
    description: GitHub
    enabled: true
    env_keys: [GITHUB_TOKEN]
    envs: {LOG: info}
    name: github
    timeout: 300
    type: stdio
  remote: {type: streamable_http, name: Remote, uri: "https://r.example/mcp", timeout: 20}
  nested: {enabled: true, config: {type: stdio, cmd: uvx, args: [x]}}
"""
GOOSE_RECIPE = """
version: 1.0.0
title: A recipe
instructions: Do it.
extensions:
  - {type: stdio, name: code, cmd: uvx, args: [code-mcp], timeout: 60}
  - {type: platform, name: todo}
"""
BUNDLE = """{"manifest_version": "0.3", "name": "notes", "version": "1.0.0",
 "server": {"type": "node", "entry_point": "server/index.js", "mcp_config": {"command": "node",
   "args": ["${__dirname}/server/index.js", "--dir", "${user_config.folder}", "${user_config.n}"],
   "env": {"NOTES_KEY": "${user_config.api_key}"}}},
 "tools": [{"name": "add_note", "description": "Adds a note"}],
 "user_config": {"folder": {"type": "directory", "title": "Folder", "required": true},
   "n": {"type": "number", "default": 5}, "api_key": {"type": "string", "sensitive": true}}}"""
REGISTRY = """{"$schema": "https://static.modelcontextprotocol.io/schemas/server.schema.json",
 "name": "io.github.user/weather", "description": "Weather", "version": "1.0.2",
 "remotes": [{"type": "streamable-http", "url": "https://{tenant}.example/mcp",
   "variables": {"tenant": {"default": "eu"}},
   "headers": [{"name": "X-Key", "isRequired": true, "isSecret": true}]}],
 "packages": [
  {"registryType": "npm", "identifier": "@user/weather", "version": "1.0.2",
   "transport": {"type": "stdio"},
   "environmentVariables": [{"name": "A_KEY", "isSecret": true}, {"name": "UNITS", "default": "C"},
     {"name": "DEBUG"}],
   "packageArguments": [{"type": "positional", "value": "serve"},
     {"type": "named", "name": "--city", "isRequired": true},
     {"type": "named", "name": "--verbose"}]},
  {"registryType": "oci", "identifier": "images.example/user/weather", "version": "1.0.2",
   "transport": {"type": "stdio"}, "runtimeArguments": [{"type": "named", "name": "--mount",
     "value": "src={src},dst=/d", "variables": {"src": {"isRequired": true}}}],
   "environmentVariables": [{"name": "A_KEY", "isRequired": true}]},
  {"registry_type": "pypi", "identifier": "weather-mcp", "version": "2",
   "runtime_hint": "uvx", "environment_variables": [{"name": "B", "is_required": true}]},
  {"registryType": "pypi", "identifier": "w", "transport": {"type": "streamable-http"}},
  {"registryType": "mcpb", "identifier": "https://h.example/w.mcpb"}]}"""
OPENCODE = """{"mcp": {
 "l": {"type": "local", "command": ["bun", "x", "m"], "timeout": 3000},
 "r": {"type": "remote", "url": "https://r.example/mcp",
       "timeout": {"startup": 20000, "request": 45000}}}}"""
CONTINUE_JSON = """{"models": [], "experimental": {"modelContextProtocolServers": [
 {"transport": {"type": "stdio", "command": "uvx", "args": ["mcp-server-time"]}}]}}"""
CONTINUE = """
name: Mine
version: 0.0.1
mcpServers:
  - name: wiki
    type: streamable-http
    url: https://wiki.example/mcp
    connectionTimeout: 20000
    requestOptions: {headers: {X-Team: "${{ secrets.TEAM }}"}}
"""
DEVCONTAINER = """{"image": "x", "customizations": {"vscode": {"extensions": ["a.b"], "mcp": {
 "servers": {"a": {"command": "npx", "args": ["${localEnv:HOME}/x"]}}}}}}"""
GEMINI_EXTENSION = """{"name": "ext", "version": "1.0.0", "contextFileName": "GEMINI.md",
 "mcpServers": {"s": {"command": "node", "args": ["${extensionPath}${/}dist${/}server.js"]}}}"""
LIBRECHAT = """
version: 1.3.1
mcpServers:
  books:
    type: streamable-http
    url: https://books.example/mcp
    timeout: 60000
    initTimeout: 120000
    headers: {X-User: "{{LIBRECHAT_USER_ID}}"}
"""
ZED = """{"context_servers": {"ext": {"source": "extension", "settings": {"a": 1}},
 "c": {"source": "custom", "command": "npx", "timeout": 60}}}"""
DOCKER = """
name: notes
image: mcp/notes
type: server
meta: {category: search}
about: {title: Notes, description: Keeps notes.}
config:
  secrets: [{name: notes.token, env: NOTES_TOKEN, example: "<token>"}]
  env: [{name: NOTES_URL, example: "https://h.example", value: "{{notes.url}}"}]
run: {command: [--transport=stdio], volumes: ["/srv:/srv"]}
"""
OPENHANDS = """
[mcp]
sse_servers = ["https://a.example/sse", {url = "https://b.example/sse"}]
stdio_servers = [{name = "fetch", command = "uvx", args = ["mcp-server-fetch"]}]
"""
LIST = '{"servers": [{"name": "a", "command": "x", "args": ["y"]}]}'
VSCODE_SETTINGS = """{"editor.tabSize": 2, "mcp": {"inputs": [{"id": "r", "default": "eu"}],
 "servers": {"a": {"command": "x", "args": ["${input:r}"]}}}}"""
AGENT = """---
name: helper
description: Helps.
mcp-servers:
  a: {type: local, command: x, args: [y], tools: ["*"]}
---
# You are a helper
"""
PLUGIN = '{"name": "p", "version": "1", "mcpServers": "./.mcp.json"}'

FILES: dict[str, tuple[str, list[Server | str], list[str]]] = {
    "Amp": (
        AMP,
        [
            Server("shop", "npx", ("-y", "shop-mcp")),
            Server("wiki", url="https://wiki.example/mcp", headers={"X-Team": "a"}),
        ],
        [],
    ),
    "Claude Code, with projects": (
        CLAUDE_CODE,
        [
            Server("wiki", url="https://wiki.example/mcp"),
            Server("wiki_2", url="https://other.example/mcp"),
            Server("db", "node", ("db.js",), cwd="/srv/a"),
            Server("own", "x", cwd="/srv/own"),
        ],
        [
            "It belongs to the project /srv/a.",
            "The project /srv/b also had it.",
            "Another server in this text is called wiki. This one was named wiki_2.",
        ],
    ),
    "Goose": (
        GOOSE,
        [
            "Goose runs it itself (builtin)",
            Server(
                "github",
                "npx",
                ("-y", "server-github"),
                {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "LOG": "info"},
                call_s=300,
            ),
            Server("remote", url="https://r.example/mcp", call_s=20),
            Server("nested", "uvx", ("x",)),
        ],
        ["When you accept it, it gets GITHUB_TOKEN"],
    ),
    "a recipe of Goose": (
        GOOSE_RECIPE,
        [Server("code", "uvx", ("code-mcp",), call_s=60), "Goose runs it itself (platform)"],
        [],
    ),
    "an MCP bundle": (
        BUNDLE,
        [
            Server(
                "notes",
                "node",
                (
                    *("${__dirname}/server/index.js", "--dir", "${NOTES_FOLDER}"),
                    "${NOTES_N:-5}",
                ),
                {"NOTES_KEY": "${NOTES_API_KEY}"},
            )
        ],
        ["Claude Desktop fills in ${__dirname}, ${user_config.folder}, ${user_config.n}"],
    ),
    "server.json": (
        REGISTRY,
        [
            Server(
                "weather",
                url="https://eu.example/mcp",
                headers={"X-Key": "${WEATHER_X_KEY}"},
            ),
            Server(
                "weather_2",
                "npx",
                ("-y", "@user/weather@1.0.2", "serve", "--city", "${WEATHER_CITY}"),
                {"A_KEY": "${A_KEY}", "UNITS": "C"},
            ),
            Server(
                "weather_3",
                "docker",
                (
                    *("run", "-i", "--rm", "--mount", "src=${WEATHER_SRC},dst=/d"),
                    *("-e", "A_KEY", "images.example/user/weather:1.0.2"),
                ),
                {"A_KEY": "${A_KEY}"},
            ),
            Server("weather_4", "uvx", ("weather-mcp@2",), {"B": "${B}"}),
            "connect to by streamable-http",
            "Its package is of the type mcpb",
        ],
        ["Optional settings were left out: DEBUG, --verbose."],
    ),
    "an answer of the registry": (
        json.dumps({"servers": [{"server": json.loads(REGISTRY), "_meta": {}}], "metadata": {}}),
        ["eu.example", "npx", "docker", "uvx", "connect to by", "of the type mcpb"],
        [],
    ),
    "opencode": (
        OPENCODE,
        [
            Server("l", "bun", ("x", "m"), start_s=3),
            Server("r", url="https://r.example/mcp", start_s=20, call_s=45),
        ],
        [],
    ),
    "an older file of Continue": (
        CONTINUE_JSON,
        [Server("uvx", "uvx", ("mcp-server-time",))],
        ["In the file, it is under experimental."],
    ),
    "Continue": (
        CONTINUE,
        [
            Server(
                "wiki",
                url="https://wiki.example/mcp",
                headers={"X-Team": "${TEAM}"},
                start_s=20,
            )
        ],
        ["fills in ${{ secrets.TEAM }}; the playground does not. Set TEAM in the environment"],
    ),
    "a development container": (
        DEVCONTAINER,
        [Server("a", "npx", ("${HOME}/x",))],
        ["In the file, it is under customizations → vscode → mcp."],
    ),
    "an extension of Gemini CLI": (
        GEMINI_EXTENSION,
        [Server("s", "node", ("${extensionPath}/dist/server.js",))],
        ["Gemini CLI fills in ${extensionPath}; the playground does not."],
    ),
    "LibreChat": (
        LIBRECHAT,
        [
            Server(
                "books",
                url="https://books.example/mcp",
                headers={"X-User": "${LIBRECHAT_USER_ID}"},
                start_s=120,
                call_s=60,
            )
        ],
        ["LibreChat fills in {{LIBRECHAT_USER_ID}}; the playground does not."],
    ),
    "Zed": (
        ZED,
        ["It is an extension, which its own program starts", Server("c", "npx", call_s=60)],
        ["Its timeout 60 was read as seconds"],
    ),
    "the catalogue of Docker": (
        DOCKER,
        [
            Server(
                "notes",
                "docker",
                (
                    *("run", "-i", "--rm", "-e", "NOTES_TOKEN", "-e", "NOTES_URL"),
                    *("-v", "/srv:/srv", "mcp/notes", "--transport=stdio"),
                ),
                {"NOTES_TOKEN": "${NOTES_TOKEN}", "NOTES_URL": "${notes_url}"},
            )
        ],
        ["Another program fills in {{notes.url}}"],
    ),
    "OpenHands": (
        OPENHANDS,
        [
            Server("a.example", url="https://a.example/sse"),
            Server("b.example", url="https://b.example/sse"),
            Server("fetch", "uvx", ("mcp-server-fetch",)),
        ],
        [],
    ),
    "a list of servers": (LIST, [Server("a", "x", ("y",))], []),
    "settings of VS Code": (VSCODE_SETTINGS, [Server("a", "x", ("${A_R:-eu}",))], []),
    "an agent with front matter": (AGENT, [Server("a", "x", ("y",))], ["Left out: tools."]),
    "a plugin of Claude Code": (PLUGIN, ["Its servers are in the file './.mcp.json'"], []),
}

PLACEHOLDERS: list[tuple[str, str, str]] = [
    ("{{LIBRECHAT_USER_EMAIL}}", "${LIBRECHAT_USER_EMAIL}", "LibreChat fills in"),
    ("{{ user.team }}", "${user_team}", "Another program fills in"),
    ("{{ team | upper }}", "${team}", "Another program fills in"),
    ("${{ secrets.A_TOKEN }}", "${A_TOKEN}", "fills in ${{ secrets.A_TOKEN }}"),
    ("${{ inputs.my-region }}", "${MY_REGION}", "fills in ${{ inputs.my-region }}"),
    ("%APPDATA%/x", "${APPDATA}/x", "Windows fills in %APPDATA%"),
    ("%ProgramFiles(x86)%", "${PROGRAMFILES_X86}", "Windows fills in"),
    ("%UserProfile%", "${USERPROFILE}", "Windows fills in"),
    ("${extensionPath}${/}a", "${extensionPath}/a", "Gemini CLI fills in"),
    ("${CLAUDE_PLUGIN_ROOT}/a", "${CLAUDE_PLUGIN_ROOT}/a", "Claude Code fills in"),
    ("${__dirname}/a", "${__dirname}/a", "Claude Desktop fills in"),
    ("${DOCUMENTS}", "${DOCUMENTS}", "Claude Desktop fills in"),
    ("${user_config.dir}", "${S_DIR}", "Claude Desktop fills in"),
    ("${workspaceFolder}", "${workspaceFolder}", "An editor fills in"),
    ("${workspaceFolder:api}", "${WORKSPACEFOLDER_API}", "An editor fills in"),
    ("${config:a.b}", "${CONFIG_A_B}", "An editor fills in"),
    ("${command:pick}", "${COMMAND_PICK}", "An editor fills in"),
    ("${input:region}", "${S_REGION_KEY}", "An editor fills in"),
    ("${vault:a/b}", "${VAULT_A_B}", "Another program fills in ${vault:a/b}"),
    ("${settings.region}", "${SETTINGS_REGION}", "Another program fills in"),
    ("{file:~/.key}", "${V}", "opencode fills in {file:~/.key}"),
    ("$(pwd)/a", "${S_V}/a", "A shell fills in $(pwd)"),
    ("op://team/item/key", "${V}", "1Password fills in op://team/item/key"),
    ("{{ $env.TEAM }}", "${TEAM}", "Another program fills in"),
    ("<your region>", "${V}", "Replace <your region>."),
    ("a=<region>", "a=${REGION}", "Replace <region>."),
    ("<path>/a", "${S_PATH}/a", "Replace <path>."),
    ("{{user}}", "${S_USER}", "Another program fills in {{user}}"),
    ("${{ inputs.home }}", "${S_HOME}", "fills in ${{ inputs.home }}"),
    ("{{ $env.HOME }}", "${HOME}", "Another program fills in"),
]


def read(entry: Any) -> ImportedServer:
    (server,) = import_tools(json.dumps({"mcpServers": {"s": entry}})).servers
    return server


@pytest.mark.parametrize("program", FILES)
def test_servers_of_a_file_of_a_program_are_read_or_refused_with_the_reason(program: str) -> None:
    text, expected, notes = FILES[program]
    imported = import_tools(text, "helper.agent.md" if text is AGENT else "")
    assert (imported.problem, imported.tools) == ("", ())
    for server, right in zip(imported.servers, expected, strict=True):
        if isinstance(right, Server):
            assert server.server == right
        else:
            assert right in (server.problem or repr(server.server))
    written = " ".join(note for server in imported.servers for note in server.notes)
    assert [note for note in notes if note not in written] == []


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_bundle_with_platform_overrides_gives_the_command_of_this_system(
    system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    own = {"darwin": {"command": "mac"}, "win32": {"command": "win.exe", "args": ["/x"]}}
    config = {"command": "plain", "args": ["a"], "platform_overrides": own}
    manifest = {"manifest_version": "0.3", "name": "n", "server": {"mcp_config": config}}
    (imported,) = import_tools(json.dumps(manifest)).servers
    assert imported.server is not None
    right = {"linux": ("plain", ("a",)), "darwin": ("mac", ("a",)), "win32": ("win.exe", ("/x",))}
    assert (imported.server.command, imported.server.args) == right[system]
    assert any("for this system" in note for note in imported.notes) == (system != "linux")


@pytest.mark.parametrize(
    "text",
    [
        # Schemas that describe such files are none.
        """{"name": "t", "description": "d", "parameters": {"type": "object", "properties":
         {"mcpServers": {"type": "object", "properties": {"command": {"type": "string"}}}}}}""",
        """{"type": "object", "title": "t", "properties": {"mcpServers": {"type": "object",
         "additionalProperties": {"properties": {"url": {"type": "string"}}}}}}""",
        '{"name": "t", "input_schema": {"type": "object", "properties": {"extensions": {}}}}',
    ],
)
def test_schema_that_describes_servers_is_a_tool(text: str) -> None:
    imported = import_tools(text)
    assert imported.servers == ()
    assert [tool.problem for tool in imported.tools] == [""]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"type": "websocket", "url": "https://h.example/ws"}, "Its type is websocket"),
        ({"type": "ws", "url": "https://h.example/ws"}, "Its type is ws"),
        ({"url": "wss://h.example/ws"}, "Its type is websocket"),
        ({"transport": "websocket", "url": "https://h.example/ws"}, "Its type is websocket"),
        ({"transport": {"type": "ws"}, "url": "https://h.example/ws"}, "Its type is ws"),
        ({"transportType": "grpc", "url": "https://h.example"}, "Its type is grpc"),
        ({"type": "openapi", "url": "https://h.example/openapi.json"}, "Its type is openapi"),
        ({"type": "builtin", "name": "developer"}, "Its type is builtin"),
        ({"type": "sdk", "name": "own"}, "Its type is sdk"),
        ({"url": "https://${HOST}/mcp"}, "has a placeholder as its host"),
        ({"url": "https://{{tenant}}.h.example/mcp"}, "a placeholder as its host"),
        ({"url": "https://<host>/mcp"}, "a placeholder as its host"),
        ({"url": "http://localhost:{PORT}/mcp"}, "a placeholder as its host"),
    ],
)
def test_server_by_another_transport_is_refused_with_its_name(entry: Any, reason: str) -> None:
    imported = read(entry)
    assert imported.server is None
    assert reason in imported.problem


@pytest.mark.parametrize(
    "kind",
    [
        *("http", "streamable-http", "streamable_http", "streamableHttp", "StreamableHTTP"),
        *("shttp", "remote", "sse", "SSE", "url", "", "https", "http-stream", "httpStream"),
    ],
)
def test_server_by_streamable_http_in_any_spelling_is_taken(kind: str) -> None:
    imported = read({"type": kind, "url": "https://h.example/mcp"})
    assert imported.server == Server("s", url="https://h.example/mcp")


@pytest.mark.parametrize(
    ("entry", "note"),
    [
        ({"type": "http", "command": "x"}, "Its type is http, but it has a command"),
        ({"transport": "sse", "command": "x"}, "Its type is sse, but it has a command"),
        ({"type": "stdio", "url": "https://h.example"}, "Its type is stdio, but it has a url"),
    ],
)
def test_type_that_does_not_fit_the_rest_is_noted(entry: Any, note: str) -> None:
    imported = read(entry)
    assert imported.server is not None
    assert note in " ".join(imported.notes)


def test_command_of_an_unknown_type_is_taken_with_a_note() -> None:
    imported = read({"type": "docker", "command": "docker", "args": ["run"]})
    assert imported.server == Server("s", "docker", ("run",))
    assert any("Its type is docker, which is unknown" in note for note in imported.notes)


@pytest.mark.parametrize(
    ("member", "value", "start_s", "call_s", "note"),
    [
        ("startup_timeout_sec", 20, 20, None, ""),
        ("startup_timeout_ms", 2500, 2.5, None, ""),
        ("initTimeout", 120000, 120, None, ""),
        ("connectionTimeout", 7000, 7, None, ""),
        ("tool_timeout_sec", 90.5, None, 90.5, ""),
        ("read_timeout_seconds", 30, None, 30, ""),
        ("timeout", 60, None, 60, "read as seconds: a call may take 60 s"),
        ("timeout", 999, None, 999, "read as seconds"),
        ("timeout", 5000, None, 5, "read as milliseconds: a call may take 5 s"),
        ("timeout", 600000, None, 600, "read as milliseconds"),
        ("timeout", "60000", None, 60, "read as milliseconds"),
        ("timeout", "30s", None, 30, ""),
        ("timeout", "2m", None, 120, ""),
        ("timeout", "1500ms", None, 1.5, ""),
        ("timeout", 1800, None, None, "may be seconds or milliseconds and was left out"),
        ("timeout", 0, None, None, "(0) is not a time"),
        ("timeout", True, None, None, "(true) is not a time"),
        ("timeout", "soon", None, None, "(soon) is not a time"),
        ("timeout", 36000000, None, None, "is not a time from 0.1 to 3600 s"),
        ("tool_timeout_sec", 5000, None, None, "is not a time from 0.1 to 3600 s"),
        ("startup_timeout_sec", -1, None, None, "is not a time"),
    ],
)
def test_time_of_a_file_is_taken_in_its_unit(
    member: str, value: Any, start_s: float | None, call_s: float | None, note: str
) -> None:
    imported = read({"command": "x", member: value})
    assert imported.server == Server("s", "x", start_s=start_s, call_s=call_s)
    assert any(note in written for written in imported.notes) == bool(note)
    assert not any("Left out" in written for written in imported.notes)


@pytest.mark.parametrize(("text", "right", "note"), PLACEHOLDERS)
def test_placeholder_of_another_program_is_a_variable_with_a_note(
    text: str, right: str, note: str
) -> None:
    imported = read({"command": "x", "env": {"V": text}})
    assert imported.server is not None
    assert imported.server.env == {"V": right}
    (sentence,) = [written for written in imported.notes if note in written]
    variable = right.partition("${")[2].partition("}")[0]
    assert f"Set {variable} in the environment of the playground, or write the value" in sentence


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("${env:A}", "${A}"),
        ("${localEnv:A}", "${A}"),
        ("{env:A}", "${A}"),
        ("$env:A", "${A}"),
        ("$A/b", "${A}/b"),
        ("${A:-b}", "${A:-b}"),
    ],
)
def test_variable_of_the_environment_is_no_placeholder(text: str, right: str) -> None:
    imported = read({"command": "x", "env": {"V": text}})
    assert imported.server is not None
    assert imported.server.env == {"V": right}
    assert imported.notes == ("When you accept it, it gets A from your environment.",)


@pytest.mark.parametrize(
    "text",
    [
        *("100%", "50% of 20%", "%20%", "%Y-%m-%d", "%H%M%S", "LIKE '%foo%'", "a%2Fb%C3%A9"),
        *("{{.Names}}", "{{json .}}", "{id}", '{"a":{"b":1}}', "a < b > c", "<b>x</b>", "pa$$word"),
        *("https://h.example/{id}/a%20b", "https://h.example/%C3%BC%C3%A9%DF%AB%"),
    ],
)
def test_text_that_looks_like_a_placeholder_stays_without_a_note(text: str) -> None:
    imported = read({"command": "x", "args": [text]})
    assert imported.server is not None
    assert imported.server.args == (text,)
    assert imported.notes == ()
    if text.startswith("https:"):
        address = read({"url": text})
        assert (address.server, address.notes) == (Server("s", url=text), ())


def test_default_of_what_the_editor_asks_for_is_that_of_the_variable() -> None:
    inputs = [
        {"id": "region", "type": "promptString", "default": "eu"},
        {"id": "token", "type": "promptString", "default": "sk-0123456789abcdef"},
    ]
    args = ["${input:region}", "${input:token}"]
    text = json.dumps({"inputs": inputs, "servers": {"s": {"command": "x", "args": args}}})
    (imported,) = import_tools(text).servers
    assert imported.server is not None
    assert imported.server.args == ("${S_REGION:-eu}", "${S_TOKEN}")
    assert "The default of ${S_TOKEN} may be a key and was left out." in imported.notes
