"""An MCP server as configured by the user, and what of it was accepted. Starts and asks nothing."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from playground.core.serialization import to_data

NAME = re.compile(r"(?!\.\.?$)[A-Za-z0-9_.-]{1,64}")
"""Names of servers."""
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Names of variables in `env` and in `${NAME}`."""
MOST_TEXT = 8_192
MOST_WORDS = 256
WAIT_S = (0.1, 3600.0)
"""The least and the longest time that a server may be given, in seconds."""


@dataclass(frozen=True)
class Server:
    """A server by stdio (`command`, `args`, `env`, `cwd`) or streamable HTTP (`url`, `headers`).

    In the values of `env` and `headers`, and in `args` and `url`, `${NAME}` refers to a variable of
    our own environment; keys are never written out. `private` permits an address in the user's own
    network: set for servers that the user typed, not for imported ones.

    `start_s` is how long its start, and each listing of its tools, may take; `call_s` is how long a
    call of a tool may take that is taken from it. Both in seconds; None for the usual time.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    private: bool = False
    start_s: float | None = None
    call_s: float | None = None


@dataclass(frozen=True)
class KeyReplacement:
    """A possible key in a server, and the `${variable}` that replaces it: at `part` of the server
    ("env", "args" ...), and there at `key`. `why` is the reason; `place` and `hint` are for users;
    the value itself is shown nowhere."""

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
        """Its first characters and its length."""
        shown = self.value[: min(4, len(self.value) // 4)]
        return f"{shown}… ({len(self.value)} characters)"


@dataclass(frozen=True)
class Acceptance:
    """What a user has accepted: the `fingerprint` of the server ("" for none), and of each of its
    tools by name. Anything different must be accepted again."""

    server: str = ""
    tools: Mapping[str, str] = field(default_factory=dict)


def fingerprint(server: Server) -> str:
    """A hash of what would be started or contacted, 64 hex digits. How long that may take is no
    part of it: a user who gives a server more time need not accept it again."""
    data = to_data(server)
    del data["start_s"], data["call_s"]
    return _hash(data)


def tool_fingerprint(name: str, description: str, parameters: Mapping[str, Any]) -> str:
    """A hash of a server's tool as models see it, 64 hex digits."""
    return _hash([name, description, parameters])


def _hash(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()
