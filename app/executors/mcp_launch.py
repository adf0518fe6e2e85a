"""What is started or asked for a server, once a person has accepted it: its `${NAME}` filled in.

Knows the environment by what it is handed, and tells no value of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from app.core.errors import BadInput
from app.core.servers import Server
from app.executors.mcp_connection import Transport
from app.executors.mcp_stdio import Flood, Launch, Words, check_launch, stdio
from app.net.mcp_http import streams

REFERENCE = re.compile(r"\$\{(?:env:)?([^}]*)\}")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PASSED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM")
"""What every server has of our environment, beside LC_...; no key is among it."""

Lookup = Callable[[str, str], str | None]
"""The value of a variable, by its name and the URL it is to be sent to ("": to a process)."""


def filled(text: str, lookup: Lookup, url: str = "") -> str:
    """`text` with its `${NAME}` filled in, and `${NAME:-default}` by its default where the variable
    is not set. BadInput names what is missing, never a value."""

    def value(match: re.Match[str]) -> str:
        name, falls_back, default = match.group(1).partition(":-")
        if not NAME.fullmatch(name):
            raise BadInput(
                f"{match.group(0)} cannot be filled in; write ${{NAME}} with the name of a"
                " variable of the environment."
            )
        found = lookup(name, url)
        if falls_back and not found:
            return default
        if found is None:
            raise BadInput(
                f"There is no {name} in the environment, which this server needs; set it and"
                " start the playground again."
            )
        return found

    return REFERENCE.sub(value, text)


def references(server: Server) -> tuple[str, ...]:
    """The names in all its `${NAME}`, each once; not those that have a default."""
    texts = (server.command, *server.args, server.url)
    whole = " ".join((*texts, *server.env.values(), *server.headers.values()))
    return tuple(dict.fromkeys(one for one in REFERENCE.findall(whole) if ":-" not in one))


def launch_of(server: Server, environment: Mapping[str, str], lookup: Lookup) -> Launch:
    """What is started for a server by stdio: its own variables, and the few that any program
    needs to find its way."""
    passed = {k: v for k, v in environment.items() if k in PASSED or k.startswith("LC_")}
    own = {name: filled(value, lookup) for name, value in server.env.items()}
    command = tuple(filled(word, lookup) for word in (server.command, *server.args))
    first = os.path.expanduser(command[0])
    return Launch((first, *command[1:]), os.path.expanduser(server.cwd), {**passed, **own})


def transport_of(server: Server, environment: Mapping[str, str], lookup: Lookup) -> Transport:
    """How a connection to `server` is made; everything is filled in only then."""

    @asynccontextmanager
    async def opened(words: Words, ended: Callable[[], None]) -> AsyncIterator[Any]:
        if server.command:
            launch = launch_of(server, environment, lookup)
            check_launch(launch)
            async with stdio(launch, words, ended) as both:
                yield both
            return
        headers = {
            name: filled(value, lookup, server.url) for name, value in server.headers.items()
        }
        url = filled(server.url, lookup, server.url)

        def heard(size: int, events: int) -> None:
            try:
                words.heard(size, events)
            except Flood as flood:
                words.fault = str(flood)
                ended()
                raise

        async with streams(url, headers, private=server.private, heard=heard) as both:
            yield both

    return opened
