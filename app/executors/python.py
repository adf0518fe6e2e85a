"""A function of the person's own file, in a child process. No sandbox: it runs as the user.

The child is `runner.py`, which ends everything the function started as soon as its stdin closes.
What the function prints is shown while it runs, what it tells `report` is progress. Its result
is a text as it is, the bytes of a PNG, JPEG, WebP or GIF as an image, everything else as JSON.
Where Linux offers namespaces it sees and can signal only its own processes (see `apart.py`).
config: {"file", "function", "interpreter"}; `file` may be `shipped:NAME` for one of our examples.
In its environment a function finds which call it answers: PLAYGROUND_SESSION, PLAYGROUND_CALL,
PLAYGROUND_ATTEMPT, and PLAYGROUND_IDEMPOTENCY_KEY, the same for all attempts at a call with the
same arguments. Typed code (sandboxed.py) has no environment, and so none of these.
"""

from __future__ import annotations

import asyncio
import base64
import codecs
import hashlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, BinaryIO

from app.core.tools import SHIPPED, Content, Tool, ToolResult, text_result
from app.executors import sandboxed
from app.executors.executor import LONGEST_S, Checked, Invocation, Report
from app.executors.images import image
from app.executors.progress import Progress

MISSING = "missing"
"""Stands for a file that is not there: one that appears later is not what was seen."""

_HERE = Path(__file__).parent
_RUNNER = _HERE / "runner.py"
_ENVIRONMENT = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR")
_END_S = 6.0
_LAST_WORDS_S = 1.0
_CHUNK = 64 * 1024


class Python:
    """Code in the tool goes to the sandbox, a function of a file into a child process."""

    async def run(self, invocation: Invocation, report: Report) -> ToolResult:
        typed = "code" in invocation.tool.config
        if typed:
            return await sandboxed.run(invocation, report, run)
        return await run(invocation, report)

    async def checked(self, session: str, tool: Tool, arguments: str) -> Checked:
        typed = "code" in tool.config
        return await (sandboxed.checked if typed else checked)(session, tool, arguments)


async def run(invocation: Invocation, report: Report) -> ToolResult:
    """Run the function; cancelled, it ends the child with all its children and raises on."""
    config = invocation.tool.config
    file = _file(str(config.get("file", "")))
    if not file.is_file():
        return _failed(f"There is no file {file}; correct the tool's config.file.")
    interpreter = str(config.get("interpreter", ""))
    async with _channel() as (channel, theirs):
        descriptor = theirs.fileno()
        try:
            process = await _started(invocation, file.parent, descriptor)
        except OSError as error:
            name = interpreter or sys.executable
            return _failed(f"{name} cannot be started: {error.strerror}. Name another Python.")
        finally:
            theirs.close()
        try:
            job = _job(invocation, file, descriptor)
            return await _Talk(process, channel, invocation, report).result(job)
        finally:
            # Shielded: whoever cancels twice must not leave the child behind.
            await asyncio.shield(asyncio.ensure_future(_end(process)))


async def checked(session: str, tool: Tool, arguments: str) -> Checked:
    """With the bytes of the tool's file."""
    return Checked(await asyncio.to_thread(code_of, tool), parallel_safe=tool.parallel_safe)


def code_of(tool: Tool) -> str:
    """SHA-256 of the file that answers, as 64 hex digits; `missing` where it cannot be read.

    What that file imports is not in it.
    """
    file = _file(str(tool.config.get("file", "")))
    if not file.is_file():  # a pipe would never end
        return MISSING
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return MISSING


@asynccontextmanager
async def _channel() -> AsyncIterator[tuple[asyncio.StreamReader, BinaryIO]]:
    """A pipe: our end as a stream, and the child's, to be closed as soon as the child has it."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", 0) as ours, os.fdopen(writer, "wb", 0) as theirs:
        stream = asyncio.StreamReader()
        pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), ours
        )
        try:
            yield stream, theirs
        finally:
            pipe.close()


async def _started(invocation: Invocation, folder: Path, writer: int) -> asyncio.subprocess.Process:
    interpreter = str(invocation.tool.config.get("interpreter", ""))
    # Our own interpreter comes without its site-packages: nothing that we installed is a tool's.
    command = [os.path.expanduser(interpreter)] if interpreter else [sys.executable, "-S"]
    return await asyncio.create_subprocess_exec(
        *command,
        "-B",
        str(_RUNNER),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        pass_fds=(writer,),
        start_new_session=True,
        cwd=folder,
        env=_environment(os.environ) | _call_of(invocation),
    )


def _file(name: str) -> Path:
    if name.startswith(SHIPPED):
        return _HERE / Path(name.removeprefix(SHIPPED)).name
    return Path(name).expanduser().absolute()


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    """The few variables a program needs to find its way; no key is among them."""
    return {
        name: value
        for name, value in ours.items()
        if name in _ENVIRONMENT or name.startswith("LC_")
    }


def _call_of(invocation: Invocation) -> dict[str, str]:
    """Which call it is, so that a function that has had its effect before can tell."""
    return {
        "PLAYGROUND_SESSION": invocation.session,
        "PLAYGROUND_CALL": invocation.call,
        "PLAYGROUND_ATTEMPT": str(invocation.attempt),
        "PLAYGROUND_IDEMPOTENCY_KEY": invocation.idempotency_key,
    }


def _job(invocation: Invocation, file: Path, channel: int) -> bytes:
    """The line the runner reads first, then the arguments exactly as they were shown."""
    arguments = invocation.arguments.encode("utf-8")
    properties = invocation.tool.parameters.get("properties", {})
    head = {
        "file": str(file),
        "code": invocation.code,
        "function": str(invocation.tool.config.get("function", "")),
        "channel": channel,
        "size": len(arguments),
        "report": "report" not in properties,
        "longest_s": LONGEST_S,
        "max_output": invocation.max_output,
    }
    return json.dumps(head).encode("ascii") + b"\n" + arguments


class _Talk:
    """Everything that passes between one child and us while it lives."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        channel: asyncio.StreamReader,
        invocation: Invocation,
        report: Report,
    ) -> None:
        self.process = process
        self.channel = channel
        self.most = invocation.max_output
        self.progress = Progress(report)
        self.printed = 0
        self.tail = b""
        self.answer: Mapping[str, Any] | None = None
        self.flooded = asyncio.Event()

    async def result(self, job: bytes) -> ToolResult:
        try:
            async with asyncio.TaskGroup() as group:
                await self.follow(group, job)
        finally:
            self.progress.close()
        if self.flooded.is_set():
            return _too_large(
                f"The tool printed or returned more than {self.most:,} bytes and was stopped."
            )
        return self.verdict(self.process.returncode)

    async def follow(self, group: asyncio.TaskGroup, job: bytes) -> None:
        """Until the child and all it started have ended, or it has said too much."""
        stdin, stdout, stderr = _pipes(self.process)
        readers = [
            group.create_task(self.listen()),
            group.create_task(self.read_prints(stdout)),
            group.create_task(self.read_prints(stderr)),
        ]
        group.create_task(self.send(job, stdin))
        ended = group.create_task(self.process.wait())
        flooded = group.create_task(self.flooded.wait())
        await asyncio.wait({ended, flooded}, return_when=asyncio.FIRST_COMPLETED)
        stdin.close()
        await ended
        # Where a process got away (no subreaper) it may hold the pipes open: do not wait for it.
        _, slow = await asyncio.wait(readers, timeout=_LAST_WORDS_S)
        for task in (flooded, *slow):
            task.cancel()

    def verdict(self, code: int | None) -> ToolResult:
        match self.answer:
            case {"too_large": True}:
                return _too_large(f"The result has more than {self.most:,} bytes; ask for less.")
            case {"result": str(text), "is_error": True}:
                return _failed(text)
            case {"result": str(text), "form": str(form)}:
                return _result(text, form)
        why = f"exit code {code}"
        if code is not None and code > 128:
            why = signal.strsignal(code - 128) or why
        said = self.tail.decode("utf-8", "replace").strip()
        return _failed(f"The tool's process ended without a result ({why}).\n{said}".strip())

    async def send(self, job: bytes, stdin: asyncio.StreamWriter) -> None:
        try:
            stdin.write(job)
            await stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            pass  # the child is gone, and `verdict` tells why

    async def listen(self) -> None:
        """Read the child's JSON lines, each at most as long as a result may be."""
        pieces: list[bytes] = []
        size = 0
        while data := await self.channel.read(_CHUNK):
            *lines, rest = data.split(b"\n")
            for line in lines:
                self.take(b"".join((*pieces, line)))
                pieces, size = [], 0
            pieces.append(rest)
            size += len(rest)
            if size > 6 * self.most + _CHUNK:  # JSON may spend six bytes on one
                self.flooded.set()
                pieces, size = [], 0

    def take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return
        match message:
            case {"progress": str(text), "fraction": None | int() | float() as fraction}:
                self.progress.tell(text, fraction)
            case {"result": str(), "is_error": bool()}:
                self.answer = message

    async def read_prints(self, stream: asyncio.StreamReader) -> None:
        """What is printed is shown as it comes; all of it counts against the cap on output."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while data := await stream.read(_CHUNK):
            self.printed += len(data)
            if self.printed > self.most:
                self.flooded.set()
                continue
            self.progress.printed(decoder.decode(data))
            if stream is self.process.stderr:
                self.tail = (self.tail + data)[-2000:]


def _pipes(
    process: asyncio.subprocess.Process,
) -> tuple[asyncio.StreamWriter, asyncio.StreamReader, asyncio.StreamReader]:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    return process.stdin, process.stdout, process.stderr


async def _end(process: asyncio.subprocess.Process) -> None:
    """Close the lifeline and wait until the guard has ended everything; at last kill the guard.

    The pipes are read to their end, for until then asyncio does not tell that a child has gone.
    """
    if process.returncode is not None:
        return
    stdin, stdout, stderr = _pipes(process)
    stdin.close()
    _signal(process, signal.SIGCONT)  # a tool may have stopped its guard
    rest = asyncio.gather(process.wait(), _drain(stdout), _drain(stderr))
    try:
        async with asyncio.timeout(_END_S):
            await rest
    except TimeoutError:
        _signal(process, signal.SIGKILL)


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    try:
        process.send_signal(number)
    except ProcessLookupError:
        pass


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.read(_CHUNK):
        pass


def _result(text: str, form: str) -> ToolResult:
    """What the function returned: a text, JSON, or the bytes of an image in base64."""
    if form == "bytes":
        data = base64.b64decode(text)
        picture = image(data)
        said = f"The function returned {len(data):,} bytes that are no PNG, JPEG, WebP or GIF."
        return (
            _failed(f"{said} Return text, JSON or an image.")
            if not picture
            else ToolResult((picture,))
        )
    media_type = "application/json" if form == "json" else ""
    return ToolResult((Content(text=text, media_type=media_type),))


def _too_large(text: str) -> ToolResult:
    return text_result(text, is_error=True, kind="too_large")


def _failed(text: str) -> ToolResult:
    return text_result(text, is_error=True, kind="failed")
