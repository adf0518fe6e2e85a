"""Where the MCP servers of a file are: the entries of each known program, in one common form.

Known: `mcpServers` at any place (Claude, also below `projects`, Cursor, Windsurf, Cline, Roo, Amp,
Gemini CLI, Kiro, LibreChat, Continue), `servers` (VS Code), `mcp_servers` (Codex),
`context_servers` (Zed), `mcp` (opencode, Crush), `extensions` (Goose), the manifest of an MCP
bundle, `server.json` of the registry, `server.yaml` of Docker, and servers by name at the top
level.
https://github.com/modelcontextprotocol/mcpb/blob/main/MANIFEST.md
https://github.com/modelcontextprotocol/registry/blob/main/docs/reference/server-json
https://github.com/docker/mcp-registry
https://block.github.io/goose/docs/getting-started/using-extensions
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from playground.exchange.parameter_forms import declares_members, find_parameters
from playground.exchange.tool_entry import clip
from playground.secrets.config_secrets import variable_name

_SURE = (
    *("mcpServers", "mcp_servers", "mcp-servers", "modelContextProtocolServers"),
    *("stdio_servers", "sse_servers", "shttp_servers"),  # OpenHands
)
"""Members that only contain servers, even if they are empty, and wherever they are."""
_KEYS = (*_SURE, "servers", "context_servers")
URLS = ("url", "httpUrl", "serverUrl", "serverURL", "baseUrl", "uri")
_BESIDE = ("$schema", "inputs", "version", "name", "description")
"""Members that may be next to servers at the top level."""
_OF_TOOLS = (
    *("parameters", "properties", "input_schema", "inputSchema", "function", "answered_by"),
    *("model", "messages", "skills"),
)
"""Members of tools, requests and agents that servers do not have."""
_OF_SCHEMAS = (*_OF_TOOLS, "definitions", "$defs", "components", "examples", "default", "tools")
"""Members that are not searched for servers: what is called `mcpServers` in there is a schema."""
_MOST_INSIDE = 4
_OF_GOOSE = (
    *("stdio", "sse", "streamable_http", "builtin", "platform", "frontend", "inline_python"),
)
_STARTED_BY = {"npm": "npx", "pypi": "uvx", "oci": "docker", "nuget": "dnx"}


@dataclass(frozen=True)
class ServerEntry:
    """A server as its file has it. `problem` says why it is none that can be imported, or "";
    `defaults` are those of its placeholders, by the text in their braces; `project` is the folder
    of the project that it belongs to, or ""."""

    name: str
    entry: Any
    notes: tuple[str, ...] = ()
    problem: str = ""
    defaults: Mapping[str, str] = field(default_factory=dict)
    project: str = ""


def server_entries(entry: Mapping[str, Any]) -> list[ServerEntry] | None:
    """The servers in `entry`, or None if it is not such a file."""
    if _is_bundle(entry):
        return [_from_bundle(entry)]
    if _is_of_docker(entry):
        return [_from_docker(entry)]
    if (published := _published_servers(entry)) is not None:
        return [located for server in published for located in _from_registry(server)]
    held = list(_nested_servers(entry))
    if held:
        defaults = _input_defaults(entry)
        located = [replace(server, defaults=defaults) for servers in held for server in servers]
        return _unique_servers(sorted(located, key=lambda server: bool(server.project)))
    inner = entry.get("mcp")
    if isinstance(inner, Mapping) and any(map(is_server, inner.values())):
        return [ServerEntry(name, _from_opencode(server)) for name, server in inner.items()]
    if (extensions := _goose_extensions(entry)) is not None:
        return [_from_goose(name, extension) for name, extension in extensions]
    if is_server(entry):
        return [ServerEntry(_server_name(entry), entry)]
    alone = [(name, server) for name, server in entry.items() if name not in _BESIDE]
    if alone and all(is_server(server) for _, server in alone):
        return [ServerEntry(name, server) for name, server in alone]
    return None


def is_server(entry: Any) -> bool:
    """Whether `entry` has a command or an address, as a server does."""
    if not isinstance(entry, Mapping) or not entry.keys().isdisjoint(_OF_TOOLS):
        return False
    command = entry.get("command")
    if isinstance(command, Mapping):
        return isinstance(command.get("path"), str)
    if isinstance(command, list):
        return bool(command) and all(isinstance(word, str) for word in command)
    if not isinstance(command, str) and not any(
        isinstance(entry.get(key), str) and "://" in entry[key] for key in URLS
    ):
        return False
    read = find_parameters(entry).read.values()  # of a tool that a command or an address answers
    return not any(declares_members(parameters.schema) for parameters in read)


def _server_name(entry: Any) -> str:
    """The name of a server without one in its file."""
    if not isinstance(entry, Mapping):
        return ""
    if isinstance(entry.get("name"), str) and entry["name"].strip():
        return str(entry["name"])
    command = entry.get("command")
    url = next((entry[key] for key in URLS if isinstance(entry.get(key), str)), "")
    host = re.match(r"[a-z]+://([^/:?#@]+)", url)
    return command if isinstance(command, str) and command else (host[1] if host else "server")


# -- members that hold servers by name


def _nested_servers(
    holder: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[list[ServerEntry]]:
    """The servers of each member that holds some, at the top level and below."""
    for key, value in holder.items():
        word = re.split(r"[./]", str(key))[-1]  # amp.mcpServers, chat.mcp.servers
        sure = word in _SURE
        if not sure and not (word in _KEYS and (not path or path[-1] == "mcp")):
            if isinstance(value, Mapping) and len(path) < _MOST_INSIDE and key not in _OF_SCHEMAS:
                yield from _nested_servers(value, (*path, str(key)))
            continue
        match value:
            case Mapping() if _holds_servers(value, sure=sure and not path[1:], deep=len(path) > 1):
                named = [ServerEntry(name, server) for name, server in value.items()]
                yield [_with_place(server, path) for server in named]
            case list() if any(_is_listed(server, named=not sure) for server in value):
                listed = [
                    ServerEntry(_server_name(inner), inner) for inner in map(_from_list, value)
                ]
                yield [_with_place(server, path) for server in listed]
            case str() if sure and value.endswith(".json"):
                sentence = f"Its servers are in the file {clip(value)!a}. Import that file."
                yield [ServerEntry(clip(str(key)), None, problem=sentence)]


def _holds_servers(value: Mapping[str, Any], *, sure: bool, deep: bool) -> bool:
    if deep:
        return any(map(is_server, value.values()))
    return sure or any(isinstance(server, Mapping) for server in value.values())


def _is_listed(entry: Any, *, named: bool) -> bool:
    """Whether an entry of a list is a server. What else has a list of `servers` does not name
    them."""
    server = _from_list(entry)
    return is_server(server) and (not named or "name" in server)


def _from_list(entry: Any) -> Any:
    """An entry of a list, where OpenHands may have a bare address, and older files of Continue have
    the server below `transport`."""
    if isinstance(entry, str) and "://" in entry:
        return {"url": entry}
    inner = entry.get("transport") if isinstance(entry, Mapping) else None
    return (
        {**inner, **{k: v for k, v in entry.items() if k != "transport"}}
        if is_server(inner) and isinstance(inner, Mapping)
        else entry
    )


def _with_place(server: ServerEntry, path: tuple[str, ...]) -> ServerEntry:
    """`server` with the project that it belongs to, or a note on the place where it was found."""
    if len(path) == 2 and path[0] == "projects":
        return replace(server, project=path[1])
    if len(path) > 1 or (path and path[0] != "mcp"):
        place = " → ".join(clip(step) for step in path)
        return replace(server, notes=(f"In the file, it is under {place}.",))
    return server


def _unique_servers(servers: Sequence[ServerEntry]) -> list[ServerEntry]:
    """Servers without repetitions: one that several projects have alike is one."""
    unique: list[ServerEntry] = []
    projects: list[list[str]] = []
    places: dict[tuple[str, str], int] = {}
    for server in servers:
        written = json.dumps(server.entry, sort_keys=True, default=str)
        place = places.setdefault((server.name, written), len(unique))
        if place == len(unique):
            unique.append(server)
            projects.append([])
        if server.project:
            projects[place].append(server.project)
    return [
        _merge_projects(server, own_projects) if own_projects else server
        for server, own_projects in zip(unique, projects, strict=True)
    ]


def _merge_projects(server: ServerEntry, projects: Sequence[str]) -> ServerEntry:
    """`server` in the folder of its first project, which is where it was started."""
    others = [clip(project) for project in projects[1:]]
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    also = f" The project{'s' if others[1:] else ''} {', '.join(others[:3])}{more} also had it."
    note = f"It belongs to the project {clip(projects[0])}.{also if others else ''}"
    entry = server.entry
    if server.project and isinstance(entry, Mapping) and entry.get("command"):
        entry = {"cwd": projects[0], **entry}
        note += " There it was started in that project's folder."
    return replace(server, entry=entry, notes=(*server.notes, note))


def _input_defaults(entry: Mapping[str, Any]) -> dict[str, str]:
    """The defaults of what VS Code asks for, by the text in the braces of its placeholder."""
    inner = entry.get("mcp")
    inputs = (inner if isinstance(inner, Mapping) else entry).get("inputs")
    return {
        f"input:{asked['id']}": asked["default"]
        for asked in _list_of(inputs)
        if isinstance(asked, Mapping)
        and isinstance(asked.get("id"), str)
        and isinstance(asked.get("default"), str)
    }


def _from_opencode(server: Any) -> Any:
    """A server of opencode, whose timeouts are milliseconds: one for its start, or two."""
    if not isinstance(server, Mapping) or server.get("type") not in ("local", "remote"):
        return server
    given = server.get("timeout")
    rest = {key: value for key, value in server.items() if key != "timeout"}
    match given:
        case Mapping():
            return {
                **rest,
                "startup_timeout_ms": given.get("startup"),
                "tool_timeout_ms": given.get("request"),
            }
        case None:
            return server
    return {**rest, "startup_timeout_ms": given}


# -- Goose


def _goose_extensions(entry: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]] | None:
    """The extensions by name: an object in the settings, a list in a recipe."""
    given = entry.get("extensions")
    pairs = list(given.items()) if isinstance(given, Mapping) else []
    pairs += [("", extension) for extension in _list_of(given)]
    extensions = [
        (str(name or extension.get("name", "")), _goose_config(extension))
        for name, extension in pairs
        if isinstance(extension, Mapping)
    ]
    is_goose = any(extension.get("type") in _OF_GOOSE for _, extension in extensions)
    return extensions if is_goose else None


def _goose_config(extension: Mapping[str, Any]) -> Mapping[str, Any]:
    """An extension, whose settings may be below `config`."""
    inner = extension.get("config")
    return {**extension, **inner} if isinstance(inner, Mapping) else extension


def _from_goose(name: str, extension: Mapping[str, Any]) -> ServerEntry:
    kind = extension.get("type")
    if kind not in ("stdio", "sse", "streamable_http"):
        sentence = (
            f"Goose runs it itself ({clip(kind)}), so there is no server to start or connect to."
        )
        return ServerEntry(name, extension, problem=sentence)
    words = {"cmd": "command", "uri": "url", "envs": "env", "env_keys": "env_vars"}
    known = ("display_name", "bundled", "available_tools", "config")
    entry = {words.get(key, key): value for key, value in extension.items() if key not in known}
    if "timeout" in entry:
        entry["tool_timeout_sec"] = entry.pop("timeout")
    return ServerEntry(name, entry)


# -- MCP bundles


def _is_bundle(entry: Mapping[str, Any]) -> bool:
    config = _object_of(entry.get("server")).get("mcp_config")
    is_manifest = "manifest_version" in entry or "dxt_version" in entry
    return is_manifest and isinstance(_object_of(config).get("command"), str)


def _from_bundle(manifest: Mapping[str, Any]) -> ServerEntry:
    """The server of a bundle, by its command for this system."""
    name = manifest.get("name")
    config = manifest["server"]["mcp_config"]
    overrides = config.get("platform_overrides")
    own = overrides.get(sys.platform) if isinstance(overrides, Mapping) else None
    entry = {key: value for key, value in config.items() if key != "platform_overrides"}
    notes = []
    if isinstance(own, Mapping):
        entry |= own
        notes.append(f"Its command is the one for this system ({sys.platform}).")
    settings = manifest.get("user_config")
    defaults = {}
    for key, setting in settings.items() if isinstance(settings, Mapping) else ():
        default = setting.get("default") if isinstance(setting, Mapping) else None
        if isinstance(default, str | int | float):
            text = default if isinstance(default, str) else str(default).lower()
            defaults[f"user_config.{key}"] = text
        elif default is not None:
            notes.append(f"The default of {clip(key)} is not a text and was left out.")
    called = name if isinstance(name, str) else ""
    return ServerEntry(called, entry, tuple(notes), defaults=defaults)


# -- the catalogue of Docker


def _is_of_docker(entry: Mapping[str, Any]) -> bool:
    return (
        entry.get("type") == "server"
        and isinstance(entry.get("image"), str)
        and isinstance(entry.get("name"), str)
    )


def _from_docker(entry: Mapping[str, Any]) -> ServerEntry:
    """The server in a container, with the variables that its settings and secrets are given to."""
    config, run = (_object_of(entry.get(key)) for key in ("config", "run"))
    env = {}
    for setting in (*_list_of(config.get("secrets")), *_list_of(config.get("env"))):
        if isinstance(setting, Mapping):
            name, value = setting.get("env", setting.get("name")), setting.get("value")
            if isinstance(name, str):
                env[name] = value if isinstance(value, str) else f"${{{name}}}"
    volumes = [word for word in _list_of(run.get("volumes")) if isinstance(word, str)]
    passed = [word for name in env for word in ("-e", name)]
    mounted = [word for volume in volumes for word in ("-v", volume)]
    command = _list_of(run.get("command"))
    args = ["run", "-i", "--rm", *passed, *mounted, entry["image"], *command]
    return ServerEntry(entry["name"], {"command": "docker", "args": args, "env": env})


# -- the registry


def _published_servers(entry: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """The servers of a `server.json`, or of an answer of the registry."""
    listed = entry.get("servers")
    answers = listed if isinstance(listed, list) else [entry]
    servers = []
    for answer in answers:
        inner = answer.get("server") if isinstance(answer, Mapping) else None
        server = inner if isinstance(inner, Mapping) else answer
        if not isinstance(server, Mapping) or not _is_published(server):
            return None
        servers.append(server)
    return servers or None


def _is_published(server: Mapping[str, Any]) -> bool:
    if not isinstance(server.get("name"), str):
        return False
    packages, remotes = server.get("packages"), server.get("remotes")
    return any(
        isinstance(part, Mapping) and _package_kind(part) for part in _list_of(packages)
    ) or any(
        isinstance(part, Mapping) and isinstance(part.get("url"), str) and _member(part, "type")
        for part in _list_of(remotes)
    )


def _object_of(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _member(entry: Mapping[str, Any], name: str) -> Any:
    """A member under its name, or in the spelling of the registry's first schemas."""
    snake = re.sub(r"([A-Z])", lambda letter: f"_{letter[1].lower()}", name)
    return entry.get(name, entry.get(snake))


def _package_kind(package: Mapping[str, Any]) -> str:
    kind = _member(package, "registryType") or package.get("registry_name")
    return {"docker": "oci"}.get(kind, kind) if isinstance(kind, str) else ""


def _from_registry(server: Mapping[str, Any]) -> Iterator[ServerEntry]:
    """One entry for each package and each address of a published server."""
    name = server["name"].rpartition("/")[2]
    for remote in _list_of(server.get("remotes")):
        if isinstance(remote, Mapping):
            yield ServerEntry(name, _PublishedEntry(name).remote(remote))
    for package in _list_of(server.get("packages")):
        if isinstance(package, Mapping):
            yield _from_package(name, package)


def _from_package(name: str, package: Mapping[str, Any]) -> ServerEntry:
    kind = _package_kind(package)
    transport = package.get("transport")
    by = transport.get("type", "stdio") if isinstance(transport, Mapping) else "stdio"
    identifier = package.get("identifier") or package.get("name")
    if by != "stdio":
        sentence = (
            f"Its {clip(kind)} package is a server that you start yourself and connect to by "
            f"{clip(by)}. Start it, then add its address on the page Servers."
        )
        return ServerEntry(name, package, problem=sentence)
    if kind not in _STARTED_BY or not isinstance(identifier, str):
        sentence = (
            f"Its package is of the type {clip(kind)}, which cannot be started directly. Install "
            "it, then add its command on the page Servers."
        )
        return ServerEntry(name, package, problem=sentence)
    reading = _PublishedEntry(name)
    entry = reading.package(kind, identifier, package)
    optional = ", ".join(reading.optional[:8])
    notes = (f"Optional settings were left out: {optional}.",) if optional else ()
    return ServerEntry(name, entry, notes)


@dataclass
class _PublishedEntry:
    """Writes a published server as an entry. `optional` are the settings that it does not need."""

    name: str
    optional: list[str] = field(default_factory=list)

    def remote(self, remote: Mapping[str, Any]) -> dict[str, Any]:
        headers = self._named_values(remote.get("headers"), prefix=self.name)
        url = self._with_variables(str(remote["url"]), remote)
        return {"type": _member(remote, "type"), "url": url, "headers": headers}

    def package(self, kind: str, identifier: str, package: Mapping[str, Any]) -> dict[str, Any]:
        version = package.get("version")
        version = version if isinstance(version, str) and version != "latest" else ""
        hint = _member(package, "runtimeHint")
        command = hint if isinstance(hint, str) and hint else _STARTED_BY[kind]
        env = self._named_values(_member(package, "environmentVariables"))
        first = self._words(_member(package, "runtimeArguments"))
        if kind == "oci":
            tagged = identifier if not version or ":" in identifier else f"{identifier}:{version}"
            passed = [word for name in env for word in ("-e", name) if not _sets(first, name)]
            start = ["run", "-i", "--rm"] if first[:1] != ["run"] else []
            words = [*start, *first, *passed, tagged]
        else:
            sign = "==" if kind == "pypi" and command != "uvx" else "@"
            tagged = f"{identifier}{sign}{version}" if version else identifier
            yes = ["-y"] if command == "npx" and "-y" not in first and "--yes" not in first else []
            words = [*yes, *first, tagged, *(["--yes", "--"] if command == "dnx" else [])]
        words += self._words(_member(package, "packageArguments"))
        return {"command": command, "args": words, "env": env}

    def _named_values(self, given: Any, prefix: str = "") -> dict[str, str]:
        """Variables or headers with their values."""
        values: dict[str, str] = {}
        for setting in _list_of(given):
            if isinstance(setting, Mapping) and isinstance(setting.get("name"), str):
                name = setting["name"]
                value = self._value(setting, variable_name(*filter(None, (prefix, name))))
                if value is not None:
                    values[name] = value
        return values

    def _words(self, given: Any) -> list[str]:
        words: list[str] = []
        for setting in _list_of(given):
            if not isinstance(setting, Mapping):
                continue
            flag = setting.get("name") if setting.get("type") == "named" else None
            hint = _member(setting, "valueHint")
            named = next((word for word in (flag, hint) if isinstance(word, str)), "argument")
            plain = not {"value", "default", "valueHint", "value_hint", "variables", "format"} & (
                setting.keys()
            )
            if isinstance(flag, str) and plain and not _member(setting, "isRequired"):
                self.optional.append(flag)
                continue
            value = self._value(setting, variable_name(self.name, named))
            if value is not None:
                words += [flag, value] if isinstance(flag, str) else [value]
        return words

    def _value(self, setting: Mapping[str, Any], variable: str) -> str | None:
        """The value of a setting; None if it is not needed."""
        for key in ("value", "default"):
            value = setting.get(key)
            if isinstance(value, str | int | float):
                text = value if isinstance(value, str) else str(value).lower()
                return self._with_variables(text, setting)
        if _member(setting, "isRequired") or _member(setting, "isSecret"):
            return f"${{{variable}}}"
        named = setting.get("name") or _member(setting, "valueHint")
        self.optional.append(clip(named, 40))
        return None

    def _with_variables(self, text: str, setting: Mapping[str, Any]) -> str:
        """`text` with each `{name}` that its setting declares."""
        declared = setting.get("variables")
        for name, described in declared.items() if isinstance(declared, Mapping) else ():
            given = described if isinstance(described, Mapping) else {}
            value = next(
                (given[key] for key in ("value", "default") if isinstance(given.get(key), str)),
                f"${{{variable_name(self.name, name)}}}",
            )
            text = text.replace(f"{{{name}}}", value)
        return text


def _sets(words: Sequence[str], name: str) -> bool:
    """Whether the words of `docker run` set the variable `name` themselves."""
    return any(word == name or word.startswith(f"{name}=") for word in words)
