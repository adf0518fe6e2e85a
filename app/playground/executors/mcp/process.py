"""An MCP server as a child process: its command with `${NAME}` filled in, its messages, its end.

Not the SDK's own transport, because that reads lines of any length, redirects stderr to a file and
leaves the server running when we are killed. The child is `guard.py`. Parses no message. Values of
the environment never appear in an error.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import anyio
import anyio.lowlevel

from playground.core.errors import BadInput

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage
import re
from typing import Any

from playground.core.servers import VARIABLE, Server
from playground.net.mcp_http import streams

MAX_LINE = 16 * 1024 * 1024
MAX_UNASKED = 64 * 1024 * 1024
MAX_LINES = 20_000
"""Bytes and lines that a server may write between two requests to it."""

TAIL = 16 * 1024
"""Bytes stored of its last output: twice what is shown, so that no key is cut in half."""

EXIT_S = 1.0
"""How long a server may take to exit after its stdin was closed, in seconds."""
END_S = 5.0
SLOW_LINE = 256 * 1024
"""The length in bytes from which a line is parsed in a thread, so that nothing else is blocked."""

_GUARD = Path(__file__).with_name("guard.py")
_CHUNK = 64 * 1024

Streams = tuple[
    "MemoryObjectReceiveStream[SessionMessage | Exception]",
    "MemoryObjectSendStream[SessionMessage]",
]

REFERENCE = re.compile(r"\$\{(?:env:)?([^}]*)\}")

PASSED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM")
"""The variables of our environment that every server gets, in addition to LC_...; none is a key."""

Lookup = Callable[[str, str], str | None]
"""The value of a variable, by its name and the URL it will be sent to ("": to a process)."""


@dataclass(frozen=True)
class Launch:
    """The command of a process. `environment` is all that the server gets; `cwd` may be ""."""

    command: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]


class ServerOutput:
    """A server's output outside the protocol, and why it ended ("" while it runs)."""

    def __init__(self) -> None:
        self.tail = b""
        self.fault = ""
        self._unasked = self._lines = 0

    def reset_counts(self) -> None:
        """A request was sent to the server: it may write again."""
        self._unasked = self._lines = 0

    def count_received(self, size: int, lines: int = 0) -> None:
        """Counts received data; Flood if it is too much."""
        self._unasked += size
        self._lines += lines
        if self._unasked > MAX_UNASKED or self._lines > MAX_LINES:
            much = (
                f"{MAX_UNASKED // 2**20} MB" if self._lines <= MAX_LINES else f"{MAX_LINES:,} lines"
            )
            raise OutputFlood(
                f"The server wrote more than {much} without a request and was stopped. Check its "
                "last output; it may log in an endless loop."
            )

    def add(self, data: bytes) -> None:
        """From stderr, or from stdout if it is not a message."""
        self.tail = (self.tail + data)[-TAIL:]


Transport = Callable[[ServerOutput, Callable[[], None]], AbstractAsyncContextManager[Any]]
"""(collector of last output, callback at the end): the streams of a connection, as a context."""


class OutputFlood(Exception):
    """More data than the limit; the sentence says which."""


def check_launch(launch: Launch) -> None:
    """BadInput if it cannot be started, with what to do about it."""
    name = launch.command[0]
    if launch.cwd and not Path(launch.cwd).is_dir():
        raise BadInput(f"There is no folder {launch.cwd}. Correct the server's working directory.")
    place = os.path.join(launch.cwd, name) if "/" in name else name
    if shutil.which(place, path=launch.environment.get("PATH", os.defpath)) is None:
        raise BadInput(f"There is no program {name!r}. Install it, or correct the command.")


@asynccontextmanager
async def stdio(
    launch: Launch, words: ServerOutput, ended: Callable[[], None]
) -> AsyncIterator[Streams]:
    """The server's messages in, and ours out, for the duration of the block.

    `ended` is called when the server's stdout ends; `words.fault` then gives the reason.
    """
    read, write_end = os.pipe()
    lifeline = os.fdopen(write_end, "wb", 0)
    try:
        process = await _start(launch, read)
    except BaseException as error:  # cancelled during the start, too
        lifeline.close()
        if not isinstance(error, OSError):
            raise
        sentence = f"{launch.command[0]} cannot be started: {error.strerror}."
        raise BadInput(sentence) from None
    finally:
        os.close(read)
    pipe = _Pipe(process, words)
    async with anyio.create_task_group() as group:
        group.start_soon(pipe.read_messages, ended)
        group.start_soon(pipe.read_stderr)
        group.start_soon(pipe.send_messages)
        try:
            yield pipe.incoming, pipe.outgoing
        finally:
            with anyio.CancelScope(shield=True):
                pipe.close()
                await _end(process, lifeline)
            group.cancel_scope.cancel()


async def _start(launch: Launch, lifeline: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-B", str(_GUARD), str(lifeline)),
        *launch.command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        pass_fds=(lifeline,),
        start_new_session=True,
        cwd=launch.cwd or None,
        env=dict(launch.environment),
    )


class _Pipe:
    """The messages between one server and us, line by line."""

    def __init__(self, process: asyncio.subprocess.Process, words: ServerOutput) -> None:
        self._process = process
        self._words = words
        self._closed = False
        # No buffer in between: a server has to wait until its output is read.
        self._came, self.incoming = anyio.create_memory_object_stream["SessionMessage | Exception"](
            0
        )
        self.outgoing, self._goes = anyio.create_memory_object_stream["SessionMessage"](0)

    def close(self) -> None:
        """We end it: what follows is not a failure of the server."""
        self._closed = True
        for stream in (self.incoming, self.outgoing, self._came, self._goes):
            stream.close()

    async def read_messages(self, ended: Callable[[], None]) -> None:
        """Reads every message the server sends; then reports that it has ended."""
        assert self._process.stdout is not None
        try:
            async for line in self._lines(self._process.stdout):
                message = await _message(line)
                if message is None:
                    self._words.add(line[:200] + b"\n")
                    continue
                await self._came.send(message)
        except OutputFlood as flood:
            self._words.fault = str(flood)
            _kill(self._process, signal.SIGTERM)  # the guard ends all
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        else:
            await self._record_exit()
        self._came.close()
        ended()
        # Reads to the end: until then asyncio does not report that a child has exited.
        await _drain(self._process.stdout)

    async def _lines(self, stdout: asyncio.StreamReader) -> AsyncIterator[bytes]:
        pieces: list[bytes] = []
        size = 0
        while data := await stdout.read(_CHUNK):
            *lines, rest = data.split(b"\n")
            self._words.count_received(len(data), len(lines))
            await anyio.lowlevel.checkpoint()  # a flood must not block everything else
            for line in lines:
                whole = b"".join((*pieces, line))
                pieces, size = [], 0
                if whole.strip():
                    yield whole
            pieces.append(rest)
            size += len(rest)
            if size > MAX_LINE:
                raise OutputFlood(
                    f"The server sent a message of more than {MAX_LINE // 2**20} MB and was "
                    "stopped. Ask its tool for less."
                )

    async def _record_exit(self) -> None:
        """The reason why stdout ended, if not known yet."""
        if self._words.fault or self._closed:
            return
        with anyio.move_on_after(EXIT_S):
            await self._process.wait()
        code = self._process.returncode
        if code is None:
            self._words.fault = "The server closed its stdout."
        elif code > 128:
            name = signal.strsignal(code - 128) or f"signal {code - 128}"
            self._words.fault = f"The server was ended by a signal ({name})."
        else:
            self._words.fault = f"The server ended by itself (exit code {code})."

    async def read_stderr(self) -> None:
        """Reads its stderr, of which the end is stored."""
        assert self._process.stderr is not None
        try:
            while data := await self._process.stderr.read(_CHUNK):
                self._words.add(data)
                self._words.count_received(len(data))
        except OutputFlood as flood:
            self._words.fault = str(flood)
            _kill(self._process, signal.SIGTERM)
            await _drain(self._process.stderr)

    async def send_messages(self) -> None:
        """Sends our messages; if the server is gone, `listen` reports it."""
        assert self._process.stdin is not None
        stdin = self._process.stdin
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            async for goe in self._goes:
                text = goe.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode("utf-8") + b"\n")
                await stdin.drain()


async def _message(line: bytes) -> SessionMessage | None:
    """The message in a line; None for other output, such as a print."""
    if not line.lstrip().startswith(b"{"):
        return None
    from mcp.shared.message import SessionMessage
    from mcp.types import jsonrpc_message_adapter

    def parse_line() -> SessionMessage | None:
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            return None

    return await asyncio.to_thread(parse_line) if len(line) > SLOW_LINE else parse_line()


async def _end(process: asyncio.subprocess.Process, lifeline: BinaryIO) -> None:
    """Closes its stdin, then its lifeline, and finally kills the guard."""
    assert process.stdin is not None
    process.stdin.close()
    with anyio.move_on_after(EXIT_S):
        await process.wait()
    lifeline.close()
    with anyio.move_on_after(END_S):
        await process.wait()
    if process.returncode is None:
        _kill(process, signal.SIGKILL)


def _kill(process: asyncio.subprocess.Process, number: int) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(number)


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.read(_CHUNK):
        pass


# -- the command of an accepted server


def fill_references(text: str, lookup: Lookup, url: str = "") -> str:
    """`text` with each `${NAME}` filled in, and `${NAME:-default}` by its default if the variable
    is not set. BadInput names what is missing, never a value."""

    def value(match: re.Match[str]) -> str:
        name, falls_back, default = match.group(1).partition(":-")
        if not VARIABLE.fullmatch(name):
            raise BadInput(
                f"{match.group(0)} is not a valid placeholder. Write ${{NAME}} with the name"
                " of an environment variable."
            )
        looked_up = lookup(name, url)
        if falls_back and not looked_up:
            return default
        if looked_up is None:
            raise BadInput(
                f"This server needs {name}, which is not in the environment. Set it and restart "
                "the playground."
            )
        return looked_up

    return REFERENCE.sub(value, text)


def references(server: Server) -> tuple[str, ...]:
    """The distinct names in all its `${NAME}` without a default."""
    texts = (server.command, *server.args, server.url)
    whole = " ".join((*texts, *server.env.values(), *server.headers.values()))
    return tuple(dict.fromkeys(name for name in REFERENCE.findall(whole) if ":-" not in name))


def launch_of(server: Server, environment: Mapping[str, str], lookup: Lookup) -> Launch:
    """The command of a server by stdio, with its own variables and the few that any program
    needs."""
    passed = {k: v for k, v in environment.items() if k in PASSED or k.startswith("LC_")}
    own = {name: fill_references(value, lookup) for name, value in server.env.items()}
    command = tuple(fill_references(word, lookup) for word in (server.command, *server.args))
    first = os.path.expanduser(command[0])
    return Launch((first, *command[1:]), os.path.expanduser(server.cwd), {**passed, **own})


def transport_of(server: Server, environment: Mapping[str, str], lookup: Lookup) -> Transport:
    """Makes connections to `server`; references are resolved at that time."""

    @asynccontextmanager
    async def open_streams(words: ServerOutput, ended: Callable[[], None]) -> AsyncIterator[Any]:
        if server.command:
            launch = launch_of(server, environment, lookup)
            check_launch(launch)
            async with stdio(launch, words, ended) as both:
                yield both
            return
        headers = {
            name: fill_references(value, lookup, server.url)
            for name, value in server.headers.items()
        }
        url = fill_references(server.url, lookup, server.url)

        def on_received(size: int, events: int) -> None:
            try:
                words.count_received(size, events)
            except OutputFlood as flood:
                words.fault = str(flood)
                ended()
                raise

        async with streams(url, headers, private=server.private, heard=on_received) as both:
            yield both

    return open_streams
