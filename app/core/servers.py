"""An MCP server as the user keeps it, and what of it was accepted. Starts and asks nothing."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from app.core.late import dataclass
from app.core.serialization import to_data

NAME = re.compile(r"(?!\.\.?$)[A-Za-z0-9_.-]{1,64}")
"""Of a server."""
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The name of one in `env`, and of one that `${NAME}` stands for."""
MOST_TEXT = 8_192
MOST_WORDS = 256


@dataclass(frozen=True)
class Server:
    """A server by stdio (`command`, `args`, `env`, `cwd`) or by streamable HTTP (`url`, `headers`).

    In the values of `env` and `headers`, and in `args` and `url`, `${NAME}` stands for a variable
    of our own environment; a key is never written out. `private` allows an address within the
    user's own network: it is set for what the user typed, not for what was imported.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    private: bool = False


@dataclass(frozen=True)
class Replaced:
    """A value of a server that may be a key, and the `${variable}` that stands there now: at
    `part` of the server ("env", "args" ...), of several the one `key` names. `why` is a reason, and
    `place` and `hint` are for a user; the value itself is shown nowhere."""

    part: str
    key: str | int
    variable: str
    why: str
    value: str = field(repr=False)

    @property
    def place(self) -> str:
        match self.part:
            case "env":
                return f"variable {self.key}"
            case "headers":
                return f"header {self.key}"
            case "args":
                return f"argument {int(self.key) + 1}"
            case part:
                return {"cwd": "folder"}.get(part, part)

    @property
    def hint(self) -> str:
        """How it begins, and how long it is."""
        shown = self.value[: min(4, len(self.value) // 4)]
        return f"{shown}… ({len(self.value)} characters)"


@dataclass(frozen=True)
class Accepted:
    """What a user has agreed to: the `fingerprint` of the server ("" for none), and of each of
    its tools by name. What differs from it asks again."""

    server: str = ""
    tools: Mapping[str, str] = field(default_factory=dict)


def fingerprint(server: Server) -> str:
    """What would be started or asked, as 64 hex digits."""
    return _hash(to_data(server))


def tool_fingerprint(name: str, description: str, parameters: Mapping[str, Any]) -> str:
    """What a model reads of a server's tool, as 64 hex digits."""
    return _hash([name, description, parameters])


def _hash(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()
