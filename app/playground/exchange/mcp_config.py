"""Reads MCP servers from the configuration files of other programs; nothing is started.

Where they are in a file: mcp_locations.py. A literal that may be a key becomes the name of a
variable (config_secrets.py), and so does a placeholder (mcp_placeholders.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from playground.core.servers import (
    MOST_TEXT,
    MOST_WORDS,
    NAME,
    VARIABLE,
    WAIT_S,
    KeyReplacement,
    Server,
)
from playground.exchange.mcp_locations import URLS, ServerEntry
from playground.exchange.mcp_placeholders import Placeholders
from playground.exchange.tool_entry import (
    ImportedServer,
    clip,
    note_left_out,
    string_members,
)
from playground.schema.names import PORTABLE_NAME, legal_name, number_name, shorten_name
from playground.schema.validate import HEADER
from playground.secrets.config_secrets import Variables, secrets_in, variable

MOST_REPLACED = 200
"""Values of one server."""
MOST_LOOKED = 256 * 1024
"""Characters of all values of one file that are searched for keys."""

_TRUST = ("autoApprove", "alwaysAllow", "trust", "autoAllow", "always_allow", "auto_approve")
_FOLDERS = ("cwd", "working_directory", "workingDirectory")
_KINDS = ("type", "transport", "transportType")
_STDIO = ("stdio", "local")
_HTTP = (
    *("http", "streamablehttp", "streamable", "shttp", "remote", "url", "sse", "httpsse"),
    *("https", "httpstream", "streamhttp", "httpstreaming", "httpstreamable"),
)
"""Words for the two transports, and for the older one whose servers mostly know the new one."""
_START_TIMES = {
    "startup_timeout_sec": 1.0,
    "startup_timeout_ms": 0.001,
    "initTimeout": 0.001,
    "connectionTimeout": 0.001,
}
_CALL_TIMES = {"tool_timeout_sec": 1.0, "tool_timeout_ms": 0.001, "read_timeout_seconds": 1.0}
"""Members with a time, and their unit in seconds: Codex, LibreChat, Continue, mcp-agent."""
_MOST_SECONDS = 999
_LEAST_MILLISECONDS = 5_000
"""Of a bare `timeout`: up to here it is seconds (Cline, Roo, Zed, Crush), from there on
milliseconds (Claude Code, Gemini CLI, LibreChat, Kiro, Copilot); between them it may be either."""
_DURATION = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|sec|seconds|m|min|minutes|h)?\s*")
_UNITS = {
    **{"ms": 0.001, "s": 1.0, "sec": 1.0, "seconds": 1.0, "m": 60.0, "min": 60.0},
    **{"minutes": 60.0, "h": 3600.0},
}
_KNOWN = (
    *("command", "args", "env", "environment", *_FOLDERS, *_KINDS, "description", "name", "source"),
    *URLS,
    *("headers", "http_headers", "env_http_headers", "bearer_token_env_var", "env_vars"),
    *_TRUST,
    *("disabled", "enabled", "isActive", "timeout", *_START_TIMES, *_CALL_TIMES),
)
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
    placeholders: Placeholders
    notes: list[str] = field(default_factory=list)
    replaced: list[KeyReplacement] = field(default_factory=list)

    def text(self, text: str, name: str, part: str, key: str | int = "") -> str:
        """`text` with a variable for each placeholder and each value that may be a key. `name` is
        the text's name."""
        masked = self.replace_secrets(self.placeholders.to_variables(text, name), name, part, key)
        return self.placeholders.replace_blanks(masked, name)

    def replace_secrets(self, text: str, name: str, part: str, key: str | int = "") -> str:
        """`text` with a variable for each value that may be a key."""
        self.file.left -= len(text)
        if self.file.left < 0:
            most = f"{MOST_LOOKED // 1024} kB"
            raise _InvalidServer(
                f"The values of this file have more than {most} in total. Import a part of it."
            )
        spots = secrets_in(text, name)
        if len(self.replaced) + len(spots) > MOST_REPLACED:
            raise _InvalidServer(
                f"More than {MOST_REPLACED} of its values may be keys. Use variables instead."
            )
        masked, end = "", 0
        for spot in spots:
            value = text[spot.start : spot.end]
            named = variable(self.name, spot.word or "key")
            own = (str(key), named) if part == "env" and value == text else (named,)
            var = self.file.variables.name_for(value, *own)
            self.replaced.append(KeyReplacement(part, key, var, spot.why, value))
            masked, end = f"{masked}{text[end : spot.start]}${{{var}}}", spot.end
        return masked + text[end:]


def read_servers(entries: Sequence[ServerEntry]) -> Iterator[ImportedServer]:
    """The parsed servers, each under a name of its own."""
    file = _ConfigFile(Variables(_variables_in([located.entry for located in entries])))
    names: set[str] = set()
    for located in entries:
        name = number_name(shorten_name(legal_name(located.name), PORTABLE_NAME), names)
        reading = _ServerReader(name, file, Placeholders(name, located.defaults), [*located.notes])
        try:
            if located.problem:
                raise _InvalidServer(located.problem)
            if not isinstance(located.entry, Mapping):
                raise _InvalidServer(
                    "This is not an object with a command or a url. It was left out."
                )
            server = _server(located.name, _in_one_form(located.entry), reading)
        except _InvalidServer as error:
            yield ImportedServer(None, clip(located.name), tuple(reading.notes), str(error))
            continue
        names.add(server.name)
        replaced = tuple(reading.replaced)
        yield ImportedServer(server, server.name, tuple(reading.notes), replaced=replaced)


def with_free_name(imported: ImportedServer, names: set[str]) -> ImportedServer:
    """`imported` under a name that is not in `names`, to which it is added."""
    server = imported.server
    if server is None:
        return imported
    name = number_name(server.name, names)
    names.add(name)
    if name == server.name:
        return imported
    notes = (_note_name(server.name, name), *imported.notes)
    return replace(imported, server=replace(server, name=name), name=name, notes=notes)


def _note_name(called: str, name: str) -> str:
    return f"Another server in this text is called {called}. This one was named {name}."


def literal_keys(server: Server) -> Iterator[tuple[str, str]]:
    """(its name, the value) of each literal in a server that may be a key."""
    places = [(server.command, ""), (server.cwd, ""), (server.url, "")]
    places += [(word, _flag(server.args, place)) for place, word in enumerate(server.args)]
    places += [(text, name) for held in (server.env, server.headers) for name, text in held.items()]
    for text, name in places:
        for spot in secrets_in(text, name):
            yield spot.word, text[spot.start : spot.end]


def with_values(server: Server, back: Iterable[KeyReplacement]) -> Server:
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


def _in_one_form(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """`entry` with its command as one word: Zed has an object there, opencode a list of words; and
    with its headers and variables in the places where most programs have them."""
    match entry.get("command"):
        case {"path": path, **rest}:
            entry = {**entry, **{str(key): value for key, value in rest.items()}, "command": path}
        case [first, *words]:
            args = entry.get("args")
            entry = {**entry, "command": first, "args": [*words, *(args or [])]}
    if "environment" in entry and "env" not in entry:
        entry = {**entry, "env": entry["environment"]}
    options = entry.get("requestOptions")  # Continue
    if isinstance(options, Mapping) and "headers" in options and "headers" not in entry:
        others = {key: value for key, value in options.items() if key != "headers"}
        entry = {key: value for key, value in entry.items() if key != "requestOptions"}
        entry |= {"headers": options["headers"], **({"requestOptions": others} if others else {})}
    return entry


def _server(name: str, entry: Mapping[str, Any], reading: _ServerReader) -> Server:
    if not reading.name:
        raise _InvalidServer("Its name has no letter or digit. Give it another name in the file.")
    if not NAME.fullmatch(name):
        reading.notes.append(f"Its name {clip(name)!a} was changed to {reading.name}.")
    elif name != reading.name:
        reading.notes.append(_note_name(name, reading.name))
    command = _text(entry, "command")
    urls = [_text(entry, key) for key in URLS if entry.get(key)]
    if entry.get("source") == "extension" or ("settings" in entry and not command and not urls):
        raise _InvalidServer(
            "It is an extension, which its own program starts. Write the server with its command."
        )
    _check_transport(entry, bool(command), urls, reading)
    if bool(command) == bool(urls):
        raise _InvalidServer("A server needs either a command or a url. Write one of them.")
    if urls and not re.match(r"https?://[^/\s]", urls[0]):
        raise _InvalidServer("A server's url must begin with http:// or https://. Correct it.")
    host = re.split(r"[/?#]", urls[0])[2] if urls else ""
    if "${" in reading.placeholders.to_variables(host) or re.search(r"[<>{}]", host):
        raise _InvalidServer(
            f"Its url {clip(urls[0])!a} has a placeholder as its host. Write the host there."
        )
    start_s = _wait(entry, _START_TIMES, reading)
    call_s = _wait(entry, _CALL_TIMES, reading)
    if call_s is None and entry.get("timeout") is not None:
        call_s = _bare_timeout(entry["timeout"], reading)
    server = Server(reading.name, start_s=start_s, call_s=call_s)
    if command:
        cwd = next((_text(entry, key) for key in _FOLDERS if entry.get(key)), "")
        server = replace(
            server,
            command=reading.text(command, "", "command"),
            args=_args(entry.get("args"), command, reading),
            env=_env(entry, reading),
            cwd=_folder(cwd, reading),
        )
    else:
        url = reading.text(urls[0], "", "url")
        server = replace(server, url=url, headers=_headers(entry, reading))
    _note_rest(entry, server, reading)
    return server


def _check_transport(
    entry: Mapping[str, Any], has_command: bool, urls: Sequence[str], reading: _ServerReader
) -> None:
    """Refuses a server by another transport than ours."""
    kinds = [kind for kind in map(_kind, (entry.get(key) for key in _KINDS)) if kind]
    if urls and re.match(r"wss?:", urls[0]):
        kinds.append("websocket")
    for kind in kinds:
        known = re.sub(r"[-_ ]", "", kind).lower()
        if known in _STDIO or known in _HTTP:
            if known in (_HTTP if has_command else _STDIO) and kind != "local":
                by = "command; stdio is used" if has_command else "url; HTTP is used"
                reading.notes.append(f"Its type is {kind}, but it has a {by}.")
            continue
        if has_command and not urls:
            reading.notes.append(
                f"Its type is {clip(kind, 40)}, which is unknown. It is started by its command "
                "and uses stdio."
            )
        else:
            raise _InvalidServer(
                f"Its type is {clip(kind, 40)}, but only stdio and streamable HTTP are "
                "supported. If the server has one of them, give its type and address."
            )


def _kind(value: Any) -> str:
    """The name of a transport, which some files have in an object."""
    inner = value.get("type") if isinstance(value, Mapping) else value
    return inner.strip() if isinstance(inner, str) else ""


def _wait(
    entry: Mapping[str, Any], members: Mapping[str, float], reading: _ServerReader
) -> float | None:
    """The time in one of `members`, in seconds."""
    for key, unit_s in members.items():
        if entry.get(key) is not None:
            return _in_bounds(key, entry[key], _seconds(entry[key], unit_s), reading)
    return None


def _bare_timeout(value: Any, reading: _ServerReader) -> float | None:
    """The time in `timeout`, whose unit differs between programs; the note says how it was read."""
    number = _seconds(value, 1.0)
    if isinstance(value, str) and not value.strip().replace(".", "").isdigit():
        return _in_bounds("timeout", value, number, reading)
    if number is not None and _MOST_SECONDS < number < _LEAST_MILLISECONDS:
        reading.notes.append(
            f"Its timeout {number:g} may be seconds or milliseconds and was left out. Set the "
            "call timeout on the server's page."
        )
        return None
    in_ms = number is not None and number >= _LEAST_MILLISECONDS
    seconds = number / 1000 if in_ms and number is not None else number
    seconds = _in_bounds("timeout", value, seconds, reading)
    if seconds is not None:
        unit = "milliseconds" if in_ms else "seconds"
        reading.notes.append(
            f"Its timeout {number:g} was read as {unit}: a call may take {seconds:g} s."
        )
    return seconds


def _seconds(value: Any, unit_s: float) -> float | None:
    """A number in that unit, or a text such as "30s"; None for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value * unit_s
    match = _DURATION.fullmatch(value) if isinstance(value, str) and len(value) < 40 else None
    return float(match[1]) * _UNITS.get(match[2] or "", unit_s) if match else None


def _in_bounds(key: str, value: Any, seconds: float | None, reading: _ServerReader) -> float | None:
    least, longest = WAIT_S
    if seconds is not None and least <= seconds <= longest:
        return round(float(seconds), 3)
    written = (
        clip(value, 40) if isinstance(value, str) else clip(json.dumps(value, default=str), 40)
    )
    reading.notes.append(
        f"{key} ({written}) is not a time from {least:g} to {longest:g} s and was left out."
    )
    return None


def _note_rest(entry: Mapping[str, Any], server: Server, reading: _ServerReader) -> None:
    notes = reading.notes
    for key in _TRUST:
        if entry.get(key):
            notes.append(f"{key} was not imported: every call needs approval until you add a rule.")
    if entry.get("disabled") is True or entry.get("enabled", entry.get("isActive")) is False:
        notes.append("It was switched off there. Here, nothing starts before you accept it.")
    kinds = {_kind(entry.get(key)).lower() for key in _KINDS}
    if server.url and ("sse" in kinds or ("url" in entry and "httpUrl" in entry)):
        notes.append("It used SSE there. Here it uses streamable HTTP.")
    hidden = list(dict.fromkeys(replaced.variable for replaced in reading.replaced))
    if hidden:
        notes.append(
            f"A possible key was not saved. Set {', '.join(hidden)} in the environment or in "
            ".env instead."
        )
    notes += reading.placeholders.notes
    notes += reading.placeholders.sentences()
    texts = [server.command, *server.args, *server.env.values(), server.cwd, server.url]
    whole = " ".join((*texts, *server.headers.values()))
    given = dict.fromkeys(re.findall(r"\$\{(\w+)(?::-[^}]*)?\}", whole))
    explained = {*hidden, *reading.placeholders.variables}
    if own := [name for name in given if name not in explained]:
        notes.append(f"When you accept it, it gets {', '.join(own)} from your environment.")
    if starters := [name for name in server.env if name.upper() in _STARTERS]:
        notes.append(f"It sets {', '.join(starters)}, which can change what is started.")
    notes += note_left_out(entry, _KNOWN)


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key, "")
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > MOST_TEXT or "\0" in value:
        raise _InvalidServer(f"{key} must be a text of at most {MOST_TEXT:,} characters.")
    return value


def _folder(text: str, reading: _ServerReader) -> str:
    """The working directory, unless it is relative to a project that is unknown here."""
    if text and not text.startswith(("/", "~/")):
        reading.notes.append(
            f"Its folder {clip(text)!a} was left out: it is relative to a project or belongs to "
            "another system. Write an absolute path on the server's page."
        )
        return ""
    return reading.text(text, "", "cwd")


def _args(value: Any, command: str, reading: _ServerReader) -> tuple[str, ...]:
    words = [] if value is None else value
    if not isinstance(words, list) or not all(_is_word(word) for word in words):
        raise _InvalidServer("args must be a list of texts. Put each argument in quotes.")
    words = [_as_text(word) for word in words]
    if len(words) > 200 or sum(map(len, words)) > MOST_TEXT or any("\0" in word for word in words):
        raise _InvalidServer(
            f"args can have at most 200 texts, with {MOST_TEXT:,} characters in total."
        )
    in_shell = re.split(r"[/\\]", command)[-1] in _SHELLS
    arguments: list[str] = []
    for place, word in enumerate(words):
        flag = _flag(words, place)
        # A shell script has variables of its own.
        read = reading.replace_secrets if in_shell and " " in word else reading.text
        arguments.append(read(word, flag, "args", place))
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
        raise _InvalidServer("env must be an object of texts. Put each value in quotes.")
    if len(env) > MOST_WORDS:
        raise _InvalidServer(f"env has more than {MOST_WORDS} variables. Import a part of them.")
    if empty := [clip(name, 40) for name, value in env.items() if value is None]:
        reading.notes.append(f"{', '.join(empty[:8])} had no value and was left out.")
    given = {name: _as_text(value) for name, value in env.items() if value is not None}
    names = entry.get("env_vars") or []
    if isinstance(names, list):
        given = {**{name: f"${{{name}}}" for name in names if isinstance(name, str)}, **given}
    variables = {}
    for name, value in given.items():
        if not VARIABLE.fullmatch(name) or len(value) > MOST_TEXT or "\0" in value:
            raise _InvalidServer(f"{clip(name)!a} in env is not a valid variable name. Correct it.")
        variables[name] = reading.text(value, name, "env", name)
    return variables


def _headers(entry: Mapping[str, Any], reading: _ServerReader) -> dict[str, str]:
    given: dict[str, str] = {}
    for key in ("headers", "http_headers"):
        some = string_members(entry.get(key) or {})
        if some is None or len(some) > MOST_WORDS:
            raise _InvalidServer(f"{key} must be an object of texts. Put each value in quotes.")
        given |= some
    headers = {}
    for name, value in given.items():
        if not HEADER.fullmatch(name) or len(value) > MOST_TEXT:
            raise _InvalidServer(f"{clip(name)!a} is not a valid header name. Correct it.")
        if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value):
            raise _InvalidServer(
                f"The header {name} contains a character that is not allowed in a header."
            )
        headers[name] = reading.text(value, name, "headers", name)
    named = dict(string_members(entry.get("env_http_headers") or {}) or {})
    bearer = entry.get("bearer_token_env_var")
    for name, scheme, from_env in [
        *((name, "", value) for name, value in named.items()),
        *([("Authorization", "Bearer ", bearer)] if isinstance(bearer, str) else []),
    ]:
        if not VARIABLE.fullmatch(from_env) or not HEADER.fullmatch(name):
            raise _InvalidServer(f"{clip(from_env)!a} is not a valid variable name. Correct it.")
        headers[name] = f"{scheme}${{{from_env}}}"
    return headers
