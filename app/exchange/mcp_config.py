"""Reads MCP servers from the configuration files of other programs; nothing is started.

Known: `mcpServers` (Claude Desktop, Cursor, Windsurf, Cline, Gemini CLI), `servers` with `inputs`
(VS Code), `mcp_servers` in TOML (Codex), `context_servers` (Zed), `mcp` (opencode), and servers by
name at the top level. A literal that may be a key becomes the name of a variable
(config_secrets.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from app.core.late import dataclass
from app.core.servers import MOST_TEXT, MOST_WORDS, NAME, VARIABLE, Replaced, Server
from app.exchange.tool_entry import (
    ImportedServer,
    clip,
    note_left_out,
    string_members,
)
from app.schema.names import PORTABLE_NAME, legal_name, shorten_name
from app.schema.validate import HEADER
from app.secrets.config_secrets import Variables, secrets_in, variable

MOST_REPLACED = 200
"""Values of one server."""
MOST_LOOKED = 256 * 1024
"""Characters of all values of one file that are searched for keys."""

_KEYS = ("mcpServers", "mcp_servers", "servers", "context_servers")
_SURE = ("mcpServers", "mcp_servers")
"""Members that only contain servers, even if they are empty."""
_URLS = ("url", "httpUrl", "serverUrl", "serverURL")
_TRUST = ("autoApprove", "alwaysAllow", "trust", "autoAllow", "always_allow", "auto_approve")
_KNOWN = (
    *("command", "args", "env", "environment", "cwd", "type", "transport", "transportType"),
    *("description", "name", "source"),
    *_URLS,
    *("headers", "http_headers", "env_http_headers", "bearer_token_env_var", "env_vars"),
    *_TRUST,
    *("disabled", "enabled"),
)
_BESIDE = ("$schema", "inputs", "version", "name", "description")
"""Members that may be next to servers at the top level."""
_OF_TOOLS = (
    *("parameters", "properties", "input_schema", "inputSchema", "function", "answered_by"),
    *("model", "messages", "skills"),
)
"""Members of tools, requests and agents that servers do not have."""
_PLACE = re.compile(
    r"\$\{(?:(?P<kind>env|input):)?(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)(?P<default>:-[^}]*)?\}"
    r"|\{env:(?P<held>[A-Za-z_][A-Za-z0-9_]*)\}"
    r"|(?<![\w$\\])\$(?P<bare>[A-Z_][A-Z0-9_]*)(?!\w)"
)
_EDITORS = (
    *("workspaceFolder", "workspaceFolderBasename", "workspaceRoot", "userHome", "pathSeparator"),
    *("CLAUDE_PLUGIN_ROOT", "CLAUDE_PROJECT_DIR", "__dirname"),
)
"""Variables that an editor resolves."""
_SHELLS = ("sh", "bash", "zsh", "dash", "fish", "ash")
_STARTERS = ("PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "NODE_OPTIONS", "PYTHONPATH", "BASH_ENV")


class _InvalidServer(ValueError):
    """Why a server cannot be imported, as a sentence."""


@dataclass
class _ConfigFile:
    """The shared state of one file's servers: the variables, and the remaining reading budget."""

    variables: Variables
    left: int = MOST_LOOKED


@dataclass
class _ServerReader:
    """One server while it is parsed."""

    name: str
    file: _ConfigFile
    notes: list[str] = field(default_factory=list)
    replaced: list[Replaced] = field(default_factory=list)

    def hidden(self, text: str, name: str, part: str, key: str | int = "") -> str:
        """`text` with a variable for each value that may be a key. `name` is the text's name."""
        self.file.left -= len(text)
        if self.file.left < 0:
            most = f"{MOST_LOOKED // 1024} kB"
            raise _InvalidServer(
                f"The values of this file are longer than {most} together; import a part."
            )
        spots = secrets_in(text, name)
        if len(self.replaced) + len(spots) > MOST_REPLACED:
            raise _InvalidServer(
                f"More than {MOST_REPLACED} of its values may be keys; write variables there."
            )
        masked, end = "", 0
        for spot in spots:
            value = text[spot.start : spot.end]
            named = variable(self.name, spot.word or "key")
            own = (str(key), named) if part == "env" and value == text else (named,)
            var = self.file.variables.of(value, *own)
            self.replaced.append(Replaced(part, key, var, spot.why, value))
            masked, end = f"{masked}{text[end : spot.start]}${{{var}}}", spot.end
        return masked + text[end:]


def server_entries(entry: Mapping[str, Any]) -> list[tuple[str, Any]] | None:
    """The servers in `entry`, each with its name, or None if it is not such a file."""
    inner = entry.get("mcp")
    for holder in (entry, inner if isinstance(inner, Mapping) else {}):
        for key in _KEYS:
            value = holder.get(key)
            if isinstance(value, Mapping) and (
                key in _SURE or any(isinstance(v, Mapping) for v in value.values())
            ):
                return list(value.items())
            if key == "mcpServers" and isinstance(value, list) and any(map(_is_server, value)):
                return [(_server_name(server), server) for server in value]
    if isinstance(inner, Mapping) and any(map(_is_server, inner.values())):
        return list(inner.items())
    if _is_server(entry):
        return [(_server_name(entry), entry)]
    alone = [(name, server) for name, server in entry.items() if name not in _BESIDE]
    if alone and all(_is_server(server) for _, server in alone):
        return alone
    return None


def _is_server(entry: Any) -> bool:
    """Whether `entry` has a command or an address, as a server does."""
    if not isinstance(entry, Mapping) or not entry.keys().isdisjoint(_OF_TOOLS):
        return False
    command = entry.get("command")
    if isinstance(command, Mapping):
        return isinstance(command.get("path"), str)
    if isinstance(command, list):
        return bool(command) and all(isinstance(word, str) for word in command)
    return isinstance(command, str) or any(
        isinstance(entry.get(key), str) and "://" in entry[key] for key in _URLS
    )


def _server_name(entry: Any) -> str:
    """The name of a server without one in its file."""
    if not isinstance(entry, Mapping):
        return ""
    if isinstance(entry.get("name"), str) and entry["name"].strip():
        return str(entry["name"])
    command = entry.get("command")
    url = next((entry[key] for key in _URLS if isinstance(entry.get(key), str)), "")
    host = re.match(r"[a-z]+://([^/:?#@]+)", url)
    return command if isinstance(command, str) and command else (host[1] if host else "server")


def read_servers(entries: Iterable[tuple[str, Any]]) -> Iterator[ImportedServer]:
    """The parsed servers by name."""
    entries = list(entries)
    file = _ConfigFile(Variables(_variables_in(entries)))
    for name, entry in entries:
        reading = _ServerReader(shorten_name(legal_name(name), PORTABLE_NAME), file)
        try:
            if not isinstance(entry, Mapping):
                raise _InvalidServer(
                    "This is not an object with a command or a url. It was left out."
                )
            server = _server(name, _with_plain_command(entry), reading)
        except _InvalidServer as error:
            yield ImportedServer(None, clip(name), tuple(reading.notes), str(error))
            continue
        replaced = tuple(reading.replaced)
        yield ImportedServer(server, server.name, tuple(reading.notes), replaced=replaced)


def literal_keys(server: Server) -> Iterator[tuple[str, str]]:
    """(its name, the value) of each literal in a server that may be a key."""
    places = [(server.command, ""), (server.cwd, ""), (server.url, "")]
    places += [(word, _flag(server.args, place)) for place, word in enumerate(server.args)]
    places += [(text, name) for held in (server.env, server.headers) for name, text in held.items()]
    for text, name in places:
        for spot in secrets_in(text, name):
            yield spot.word, text[spot.start : spot.end]


def with_values(server: Server, back: Iterable[Replaced]) -> Server:
    """`server` with the values of `back` restored."""
    for replaced in back:
        held, var = getattr(server, replaced.part), f"${{{replaced.variable}}}"
        match held:
            case str():
                held = held.replace(var, replaced.value)
            case Mapping():
                held = {**held, replaced.key: held[replaced.key].replace(var, replaced.value)}
            case _:
                words = list(held)
                words[int(replaced.key)] = words[int(replaced.key)].replace(var, replaced.value)
                held = tuple(words)
        server = replace(server, **{replaced.part: held})
    return server


def _variables_in(value: Any) -> set[str]:
    """All variables that the texts refer to: their names are not used for other values."""
    return set(re.findall(r"\$\{?(?:env:)?([A-Za-z_]\w*)", json.dumps(value, default=str)))


def _with_plain_command(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """`entry` with its command as one word: Zed has an object there, opencode a list of words."""
    match entry.get("command"):
        case {"path": path, **rest}:
            entry = {**entry, **{str(key): value for key, value in rest.items()}, "command": path}
        case [first, *words]:
            args = entry.get("args")
            entry = {**entry, "command": first, "args": [*words, *(args or [])]}
    if "environment" in entry and "env" not in entry:
        entry = {**entry, "env": entry["environment"]}
    return entry


def _server(name: str, entry: Mapping[str, Any], reading: _ServerReader) -> Server:
    if not reading.name:
        raise _InvalidServer("Its name has no letter or digit; give it another in the file.")
    if not NAME.fullmatch(name):
        reading.notes.append(f"Its name was {clip(name)!a}; here it is {reading.name}.")
    command = _text(entry, "command")
    urls = [_text(entry, key) for key in _URLS if entry.get(key)]
    if bool(command) == bool(urls):
        raise _InvalidServer("A server has either a command or a url; write one of them.")
    if urls and not re.match(r"https?://[^/\s]", urls[0]):
        raise _InvalidServer("The url of a server begins with http:// or https://; correct it.")
    server = Server(reading.name)
    if command:
        server = replace(
            server,
            command=reading.hidden(_normalize_variables(command, reading), "", "command"),
            args=_args(entry.get("args"), command, reading),
            env=_env(entry, reading),
            cwd=_folder(_text(entry, "cwd"), reading),
        )
    else:
        url = reading.hidden(_normalize_variables(urls[0], reading), "", "url")
        server = replace(server, url=url, headers=_headers(entry, reading))
    _note_rest(entry, server, reading)
    return server


def _note_rest(entry: Mapping[str, Any], server: Server, reading: _ServerReader) -> None:
    notes = reading.notes
    for key in _TRUST:
        if entry.get(key):
            notes.append(f"{key} was not imported: every call needs approval until you add a rule.")
    if entry.get("disabled") is True or entry.get("enabled") is False:
        notes.append("It was switched off there; here nothing starts before you accept it.")
    kinds = {str(entry.get(key, "")).lower() for key in ("type", "transport", "transportType")}
    if server.url and ("sse" in kinds or ("url" in entry and "httpUrl" in entry)):
        notes.append("It was asked by SSE there; here it is asked by streamable HTTP.")
    hidden = list(dict.fromkeys(replaced.variable for replaced in reading.replaced))
    if hidden:
        notes.append(
            f"A possible key was not saved: set {', '.join(hidden)} in the environment or in .env"
            " instead."
        )
    texts = [server.command, *server.args, *server.env.values(), server.cwd, server.url]
    whole = " ".join((*texts, *server.headers.values()))
    given = dict.fromkeys(re.findall(r"\$\{(\w+)(?::-[^}]*)?\}", whole))
    if editors := [name for name in given if name in _EDITORS]:
        variables = ", ".join(f"${{{name}}}" for name in editors)
        notes.append(
            f"An editor fills in {variables}, which means nothing here; write the path there."
        )
    if own := [name for name in given if name not in (*hidden, *editors)]:
        notes.append(f"It is given {', '.join(own)} of your environment once you accept it.")
    if starters := [name for name in server.env if name.upper() in _STARTERS]:
        notes.append(f"It sets {', '.join(starters)}, which decides what is started.")
    notes += note_left_out(entry, _KNOWN)


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key, "")
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > MOST_TEXT or "\0" in value:
        raise _InvalidServer(f"{key} is a text of at most {MOST_TEXT:,} characters.")
    return value


def _normalize_variables(text: str, reading: _ServerReader, name: str = "") -> str:
    """`${env:NAME}`, `{env:NAME}`, `${input:name}` and `$NAME` as `${NAME}`."""

    def place(match: re.Match[str]) -> str:
        called = match["name"] or match["held"] or match["bare"]
        default = match["default"] or ""
        if match["kind"] == "input":
            called = variable(reading.name, called)
            reading.notes.append(f"What was asked for there is the variable {called} here.")
        elif not VARIABLE.fullmatch(called):
            called = variable(called)
        if default and secrets_in(default[2:], name or called):
            reading.notes.append(f"The default of ${{{called}}} may be a key and was left out.")
            default = ""
        return f"${{{called}{default}}}"

    return _PLACE.sub(place, text)


def _folder(text: str, reading: _ServerReader) -> str:
    """The working directory, unless it is relative to a project that is unknown here."""
    if text and not text.startswith(("/", "~/")):
        reading.notes.append(
            f"Its folder {clip(text)!a} was left out: it counts from a project or is of another"
            " system. Write it as an absolute path on the server's page."
        )
        return ""
    return reading.hidden(_normalize_variables(text, reading), "", "cwd")


def _args(value: Any, command: str, reading: _ServerReader) -> tuple[str, ...]:
    words = [] if value is None else value
    if not isinstance(words, list) or not all(_is_word(word) for word in words):
        raise _InvalidServer("args is a list of texts; put each argument in quotes.")
    words = [_as_text(word) for word in words]
    if len(words) > 200 or sum(map(len, words)) > MOST_TEXT or any("\0" in word for word in words):
        raise _InvalidServer(f"args has at most 200 texts of together {MOST_TEXT:,} characters.")
    in_shell = re.split(r"[/\\]", command)[-1] in _SHELLS
    arguments: list[str] = []
    for place, word in enumerate(words):
        flag = _flag(words, place)
        # A shell script has variables of its own.
        word = word if in_shell and " " in word else _normalize_variables(word, reading, flag)
        arguments.append(reading.hidden(word, flag, "args", place))
    return tuple(arguments)


def _flag(words: Sequence[str], place: int) -> str:
    """The flag whose value is the word at `place`, or ""; a further flag is not a value."""
    before = words[place - 1] if place else ""
    is_flag = before.startswith("-") and "=" not in before and not words[place].startswith("-")
    return before if is_flag else ""


def _is_word(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _as_text(value: Any) -> str:
    """A text, a number or a boolean in the spelling that other programs pass on."""
    return value if isinstance(value, str) else json.dumps(value)


def _env(entry: Mapping[str, Any], reading: _ServerReader) -> dict[str, str]:
    env = entry.get("env") or {}
    values = env.values() if isinstance(env, Mapping) else [[]]
    if not all(value is None or _is_word(value) for value in values):
        raise _InvalidServer("env is an object of texts; put each value in quotes.")
    if len(env) > MOST_WORDS:
        raise _InvalidServer(f"env has more than {MOST_WORDS} variables; import a part of them.")
    if empty := [clip(name, 40) for name, value in env.items() if value is None]:
        reading.notes.append(f"{', '.join(empty[:8])} had no value and was left out.")
    given = {name: _as_text(value) for name, value in env.items() if value is not None}
    names = entry.get("env_vars") or []
    if isinstance(names, list):
        given = {**{name: f"${{{name}}}" for name in names if isinstance(name, str)}, **given}
    variables = {}
    for name, value in given.items():
        if not VARIABLE.fullmatch(name) or len(value) > MOST_TEXT or "\0" in value:
            raise _InvalidServer(
                f"{clip(name)!a} in env is not a variable that can be set; correct it."
            )
        variables[name] = reading.hidden(
            _normalize_variables(value, reading, name), name, "env", name
        )
    return variables


def _headers(entry: Mapping[str, Any], reading: _ServerReader) -> dict[str, str]:
    given: dict[str, str] = {}
    for key in ("headers", "http_headers"):
        some = string_members(entry.get(key) or {})
        if some is None or len(some) > MOST_WORDS:
            raise _InvalidServer(f"{key} is an object of texts; put each value in quotes.")
        given |= some
    headers = {}
    for name, value in given.items():
        if not HEADER.fullmatch(name) or len(value) > MOST_TEXT:
            raise _InvalidServer(f"{clip(name)!a} is not a header that can be sent; correct it.")
        if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value):
            raise _InvalidServer(f"The header {name} holds a character that no header may hold.")
        headers[name] = reading.hidden(
            _normalize_variables(value, reading, name), name, "headers", name
        )
    named = dict(string_members(entry.get("env_http_headers") or {}) or {})
    bearer = entry.get("bearer_token_env_var")
    for name, scheme, from_env in [
        *((name, "", value) for name, value in named.items()),
        *([("Authorization", "Bearer ", bearer)] if isinstance(bearer, str) else []),
    ]:
        if not VARIABLE.fullmatch(from_env) or not HEADER.fullmatch(name):
            raise _InvalidServer(f"{clip(from_env)!a} is not a name of a variable; correct it.")
        headers[name] = f"{scheme}${{{from_env}}}"
    return headers
