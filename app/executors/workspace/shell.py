"""run_shell: a command in the scratch folder, in the sandbox where the system offers one.

The child is `confined.py`, which ends everything the command started as soon as its stdin closes.
Where there is no sandbox the card says so before anybody decides, and no rule runs the call.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from app.core.tools import ToolResult, text_result
from app.executors.script import by_path
from app.executors.workspace.trouble import Trouble

HEAD = 16 * 1024
TAIL = 16 * 1024
"""Bytes of the output that are kept from its beginning and its end."""

MAX_OUTPUT = 64 * 1024 * 1024
"""A command that prints more than this is ended."""

PROBE_S = 10.0
_CONFINED = Path(__file__).with_name("confined.py")
_KEPT = ("LANG", "LANGUAGE", "TZ")
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_END_S = 6.0
_LAST_WORDS_S = 1.0
_CHUNK = 64 * 1024


@dataclass(frozen=True)
class Command:
    """`cpu_s` is the time it may compute, in seconds; `confine`: in the sandbox or not at all."""

    text: str
    folder: Path
    confine: bool
    cpu_s: float


class Output:
    """The beginning and the end of what was printed, and how much there was between."""

    def __init__(self) -> None:
        self.head = b""
        self.tail = b""
        self.size = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        room = HEAD - len(self.head)
        self.head += data[:room]
        self.tail = (self.tail + data[room:])[-TAIL:] if len(data) > room else self.tail

    def take(self) -> str:
        """All that is kept, as text; from here on it is empty."""
        left_out = self.size - len(self.head) - len(self.tail)
        words = f"\n[… {left_out:,} bytes are left out here …]\n".encode() if left_out else b""
        data = self.head + words + self.tail
        self.head, self.tail, self.size = b"", b"", 0
        return data.decode("utf-8", "replace")


class Running:
    """A command under way; made by `started`. `output` fills while `follow` runs."""

    def __init__(self, process: asyncio.subprocess.Process, channel: asyncio.StreamReader) -> None:
        self._process = process
        self._channel = channel
        self.output = Output()
        self.total = 0
        self.flooded = False

    async def follow(self, printed: Callable[[str], None]) -> int:
        """Until it has ended; its exit code. Trouble E13 where nothing was run."""
        stdout = self._process.stdout
        assert stdout is not None
        reader = asyncio.create_task(self._read(stdout, printed))
        reason = asyncio.create_task(self._channel.read(_CHUNK))
        try:
            code = await self._process.wait()
            # Where a process got away it may hold the pipes open: do not wait for it.
            await asyncio.wait((reader, reason), timeout=_LAST_WORDS_S)
            if reason.done() and reason.result():
                said = json.loads(reason.result())["broken"]
                sentence = f"Nothing was run, for the sandbox was not made: {said}."
                raise Trouble("E13", sentence, reason=said)
            return code
        finally:
            reader.cancel()
            reason.cancel()
            await asyncio.wait((reader, reason))

    async def end(self) -> None:
        """End it with all it started; at last by force. Cancelled, it goes on all the same."""
        await asyncio.shield(asyncio.ensure_future(self._end()))

    async def _end(self) -> None:
        process = self._process
        if process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        self._signal(signal.SIGCONT)
        try:
            async with asyncio.timeout(_END_S):
                await asyncio.gather(process.wait(), self._drained())
        except TimeoutError:
            self._signal(signal.SIGKILL)

    async def _drained(self) -> None:
        """Until its pipe is read to the end asyncio does not tell that a child has gone."""
        stdout = self._process.stdout
        assert stdout is not None
        try:
            while await stdout.read(_CHUNK):
                pass
        except RuntimeError:
            pass  # `follow` reads it still

    async def _read(self, stdout: asyncio.StreamReader, printed: Callable[[str], None]) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while data := await stdout.read(_CHUNK):
            self.total += len(data)
            if self.total > MAX_OUTPUT and not self.flooded:
                self.flooded = True
                assert self._process.stdin is not None
                self._process.stdin.close()
            if not self.flooded:
                self.output.add(data)
                printed(decoder.decode(data))

    def _signal(self, number: int) -> None:
        try:
            self._process.send_signal(number)
        except ProcessLookupError:
            pass


@asynccontextmanager
async def running(command: Command) -> AsyncIterator[Running]:
    """The command, under way; on leaving it is ended with all it started."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", 0) as ours:
        stream = asyncio.StreamReader()
        pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), ours
        )
        try:
            try:
                process = await _started(writer)
            finally:
                os.close(writer)
            one = Running(process, stream)
            try:
                assert process.stdin is not None
                try:
                    process.stdin.write(_job(command, writer))
                    await process.stdin.drain()
                except (BrokenPipeError, ConnectionResetError):
                    pass  # it has gone, and `follow` tells how
                yield one
            finally:
                await one.end()
        finally:
            pipe.close()


async def _started(writer: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-S", "-B", *by_path(_CONFINED)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        pass_fds=(writer,),
        start_new_session=True,
        cwd="/",
        env={"PATH": _PATH},
    )


def _job(command: Command, channel: int) -> bytes:
    folder = str(command.folder)
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    environment |= {"PATH": _PATH, "HOME": folder, "PWD": folder, "TERM": "dumb"}
    job = {
        "command": command.text,
        "folder": folder,
        "confine": command.confine,
        "cpu_s": command.cpu_s,
        "environment": environment,
        "channel": channel,
        "size": 0,
    }
    return json.dumps(job).encode("ascii") + b"\n"


async def sandbox(folder: Path) -> str:
    """ "" where commands can be confined here, or else why not. Tried, for only that tells."""
    if sys.platform != "linux":
        return "only Linux has namespaces"
    try:
        async with asyncio.timeout(PROBE_S), running(Command(":", folder, True, 10)) as one:
            code = await one.follow(lambda _: None)
            return "" if code == 0 else f"a trial ended with exit code {code}"
    except Trouble as trouble:
        return trouble.reason or str(trouble)
    except (OSError, TimeoutError) as error:
        return f"{type(error).__name__} {error}".strip()


def result(output: str, code: int, seconds: float, *, lifted: bool) -> ToolResult:
    """What was printed, then how it ended."""
    words = f"exit code {code}"
    if code > 128:
        try:
            words += f", {signal.strsignal(code - 128)}"
        except ValueError:
            pass
    where = ", without the sandbox" if lifted else ""
    body = output if not output or output.endswith("\n") else output + "\n"
    return text_result(f"{body}[{words}, {seconds:.1f} s{where}]", is_error=code != 0)
