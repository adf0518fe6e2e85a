"""MCP servers as other programs keep them. Read and shown; nothing is started or contacted.

Known: `mcpServers` (Claude Desktop, Cursor, Windsurf, Gemini CLI), `servers` with `inputs` (VS
Code), `mcp_servers` in TOML (Codex). A literal that may be a key becomes the name of a variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.core.servers import Server
from app.formats.entry import clipped, left_out, snake, texts
from app.formats.found import FoundServer
from app.formats.secrets import (
    in_word,
    is_reference,
    may_be_key,
    names_key,
    reference,
    url_without,
    variable,
)

NAME = re.compile(r"(?!\.\.?$)[A-Za-z0-9_.-]{1,64}")
MOST_TEXT = 8_192

_KEYS = ("mcpServers", "mcp_servers", "servers")
_URLS = ("url", "httpUrl", "serverUrl")
_TRUST = ("autoApprove", "alwaysAllow", "trust", "autoAllow", "always_allow", "auto_approve")
_KNOWN = (
    *("command", "args", "env", "cwd", "type", "transport", "description", "name"),
    *_URLS,
    *("headers", "http_headers", "env_http_headers", "bearer_token_env_var", "env_vars"),
    *_TRUST,
    *("disabled", "enabled"),
)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACE = re.compile(
    r"\$\{(?:(?P<kind>env|input):)?(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)(?P<default>:-[^}]*)?\}"
    r"|\$(?P<bare>[A-Za-z_][A-Za-z0-9_]*)"
)
_STARTERS = ("PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "NODE_OPTIONS", "PYTHONPATH", "BASH_ENV")


class _Bad(ValueError):
    """Why a server cannot be taken, as a sentence."""


@dataclass
class _Read:
    """One server while it is read."""

    name: str
    notes: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)


def of(entry: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The servers that `entry` holds by name, or None where it is no such file."""
    inner = entry.get("mcp")
    for holder in (entry, inner if isinstance(inner, Mapping) else {}):
        for key in _KEYS:
            value = holder.get(key)
            if isinstance(value, Mapping) and all(isinstance(v, Mapping) for v in value.values()):
                return value
    if isinstance(entry.get("command"), str) and "parameters" not in entry:
        return {str(entry.get("name") or entry["command"]): entry}
    return None


def servers(told: Mapping[str, Any]) -> Iterator[FoundServer]:
    """Each of the servers by name."""
    for name, entry in told.items():
        reading = _Read(snake(name)[:64])
        try:
            server = _server(name, entry, reading)
        except _Bad as error:
            yield FoundServer(None, clipped(name), tuple(reading.notes), str(error))
            continue
        yield FoundServer(server, server.name, tuple(reading.notes))


def _server(name: str, entry: Mapping[str, Any], reading: _Read) -> Server:
    if not reading.name:
        raise _Bad("Its name has no letter or digit; give it another in the file.")
    if not NAME.fullmatch(name):
        reading.notes.append(f"Its name was {clipped(name)!a}; here it is {reading.name}.")
    command = _text(entry, "command")
    urls = [_text(entry, key) for key in _URLS if entry.get(key)]
    if bool(command) == bool(urls):
        raise _Bad("A server has either a command or a url; write one of them.")
    if urls and not re.match(r"https?://[^/\s]", urls[0]):
        raise _Bad("The url of a server begins with http:// or https://; correct it.")
    url = _url(urls[0], reading) if urls else ""
    server = Server(
        reading.name,
        command=_referred(command, reading),
        args=_args(entry.get("args"), reading) if command else (),
        env=_env(entry, reading) if command else {},
        cwd=_referred(_text(entry, "cwd"), reading) if command else "",
        url=url,
        headers=_headers(entry, reading) if url else {},
    )
    _note_rest(entry, server, reading)
    return server


def _note_rest(entry: Mapping[str, Any], server: Server, reading: _Read) -> None:
    notes = reading.notes
    for key in _TRUST:
        if entry.get(key):
            notes.append(f"{key} was not taken over: every call asks until you make a rule.")
    if entry.get("disabled") is True or entry.get("enabled") is False:
        notes.append("It was switched off there; here nothing starts before you accept it.")
    kinds = {str(entry.get(key, "")).lower() for key in ("type", "transport")}
    if "sse" in kinds or ("url" in entry and "httpUrl" in entry):
        notes.append("It was asked by SSE there; here it is asked by streamable HTTP.")
    if reading.hidden:
        names = ", ".join(dict.fromkeys(reading.hidden))
        notes.append(
            f"What may be a key was not kept: set {names} in the environment or in .env instead."
        )
    told = [server.url, *server.args, *server.env.values(), *server.headers.values()]
    given = dict.fromkeys(re.findall(r"\$\{(\w+)\}", " ".join(told)))
    if own := [name for name in given if name not in reading.hidden]:
        notes.append(f"It is given {', '.join(own)} of your environment once you accept it.")
    if found := [name for name in server.env if name.upper() in _STARTERS]:
        notes.append(f"It sets {', '.join(found)}, which decides what is started.")
    notes += left_out(entry, _KNOWN)


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key, "")
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > MOST_TEXT or "\0" in value:
        raise _Bad(f"{key} is a text of at most {MOST_TEXT:,} characters.")
    return value


def _referred(text: str, reading: _Read) -> str:
    """`${env:NAME}`, `${input:name}`, `${NAME:-default}` and `$NAME` as `${NAME}`."""

    def place(match: re.Match[str]) -> str:
        name = match["name"] or match["bare"]
        if match["kind"] == "input":
            name = variable(reading.name, name)
            reading.notes.append(f"What was asked for there is the variable {name} here.")
        elif not _VARIABLE.fullmatch(name):
            name = variable(name)
        elif name in ("workspaceFolder", "userHome", "workspaceRoot", "pathSeparator"):
            reading.notes.append(f"${{{name}}} means nothing here; write the path in its place.")
        if match["default"]:
            reading.notes.append(f"The default of ${{{name}}} was left out; set the variable.")
        return f"${{{name}}}"

    return _PLACE.sub(place, text)


def _args(value: Any, reading: _Read) -> tuple[str, ...]:
    value = [] if value is None else value
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise _Bad("args is a list of texts; put each argument in quotes.")
    if len(value) > 200 or sum(map(len, value)) > MOST_TEXT or any("\0" in one for one in value):
        raise _Bad(f"args has at most 200 texts of together {MOST_TEXT:,} characters.")
    made: list[str] = []
    for place, word in enumerate(value):
        before = value[place - 1] if place else ""
        made.append(_arg(_referred(word, reading), before, reading))
    return tuple(made)


def _arg(word: str, before: str, reading: _Read) -> str:
    """One argument; `--token x`, `--token=x`, `NAME=x`, `Authorization: x` hide their x."""
    match = re.match(r"([^=:\s]+)(=|: ?)(?!//)(.+)", word, re.DOTALL)
    if match and names_key(match[1]) and not is_reference(match[3]):
        name = variable(reading.name, match[1].strip("-"))
        reading.hidden.append(name)
        return f"{match[1]}{match[2]}{reference(match[3], name)}"
    follows = before.startswith("-") and "=" not in before and names_key(before)
    if (follows and not word.startswith("-") and not is_reference(word)) or in_word(word):
        name = variable(reading.name, before.strip("-") if follows else "key")
        reading.hidden.append(name)
        return reference(word, name)
    return _url(word, reading) if re.match(r"[a-z][a-z0-9+.-]*://", word, re.I) else word


def _url(url: str, reading: _Read) -> str:
    name = variable(reading.name, "key")
    url = _referred(url, reading)
    made = url_without(url, name)
    reading.hidden += [name] if made != url else []
    return made


def _env(entry: Mapping[str, Any], reading: _Read) -> dict[str, str]:
    given = texts(entry.get("env") or {})
    if given is None:
        raise _Bad("env is an object of texts; put each value in quotes.")
    names = entry.get("env_vars") or []
    if isinstance(names, list):
        given = {**{one: f"${{{one}}}" for one in names if isinstance(one, str)}, **given}
    made = {}
    for name, value in given.items():
        if not _VARIABLE.fullmatch(name) or len(value) > MOST_TEXT or "\0" in value:
            raise _Bad(f"{clipped(name)!a} in env is no variable that can be set; correct it.")
        value = _referred(value, reading)
        if may_be_key(name, value):
            reading.hidden.append(name)
            value = f"${{{name}}}"
        made[name] = value
    return made


def _headers(entry: Mapping[str, Any], reading: _Read) -> dict[str, str]:
    given: dict[str, str] = {}
    for key in ("headers", "http_headers"):
        some = texts(entry.get(key) or {})
        if some is None:
            raise _Bad(f"{key} is an object of texts; put each value in quotes.")
        given |= some
    made = {}
    for name, value in given.items():
        if not _HEADER.fullmatch(name) or len(value) > MOST_TEXT:
            raise _Bad(f"{clipped(name)!a} is no header that can be sent; correct it.")
        if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value):
            raise _Bad(f"The header {name} holds a character that no header may hold.")
        value = _referred(value, reading)
        if may_be_key(name, value):
            variable_name = variable(reading.name, name)
            reading.hidden.append(variable_name)
            value = reference(value, variable_name)
        made[name] = value
    named = dict(texts(entry.get("env_http_headers") or {}) or {})
    bearer = entry.get("bearer_token_env_var")
    for name, scheme, from_env in [
        *((name, "", value) for name, value in named.items()),
        *([("Authorization", "Bearer ", bearer)] if isinstance(bearer, str) else []),
    ]:
        if not _VARIABLE.fullmatch(from_env) or not _HEADER.fullmatch(name):
            raise _Bad(f"{clipped(from_env)!a} is no name of a variable; correct it.")
        made[name] = f"{scheme}${{{from_env}}}"
    return made
