"""run_shell: a command in the scratch folder, in the sandbox if the system offers one.

The child is `confined.py`, which ends everything the command started as soon as its stdin closes.
If there is no sandbox the card says so before the decision, and no rule runs the call. A command
may continue in the background: such a task outlives its turn, but ends with its session's Stop or
deletion, and with the program.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playground.core.errors import NotFound
from playground.core.events import (
    ENDED_WITH_PROGRAM,
    STOPPED_WITH_RUN,
    Event,
    TaskEnded,
    TaskStarted,
)
from playground.core.tools import ToolResult, text_result
from playground.executors.executor import script_command
from playground.executors.workspace import WorkspaceError

HEAD = 16 * 1024
TAIL = 16 * 1024
"""Bytes of the output that are stored from its beginning and its end."""

MAX_OUTPUT = 64 * 1024 * 1024
"""A command that prints more than this is ended."""

PROBE_S = 10.0
_CONFINED = Path(__file__).with_name("confined.py")
_KEPT = ("LANG", "LANGUAGE", "TZ")
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_END_S = 6.0
_LAST_WORDS_S = 1.0
_CHUNK = 64 * 1024

READS = frozenset({"ls", "cat", "head", "tail", "wc", "grep", "find", "pwd", "echo"})

_WORD = re.compile(r"""(?:[A-Za-z0-9_./,:@%+-][A-Za-z0-9_./,:@%+=-]*|'[^'\n]*'|"[^"$`\\!\n]*")+""")
_ACTS = ("-exec", "-ok", "-delete", "-fprint", "-fls", "-files0-from")

MOST_RUNNING = 8

MOST_KEPT = 20
"""Maximum number of running tasks of one session, and of finished ones that can still be read."""

TITLE = 200

Tell = Callable[[str, Event], Awaitable[None]]
"""(session, event): logs it."""


@dataclass(frozen=True)
class ShellCommand:
    """`cpu_s` is the CPU time limit, in seconds; `confine`: run only in the sandbox."""

    text: str
    folder: Path
    confine: bool
    cpu_s: float


class Output:
    """The beginning and the end of the output, and the number of bytes in between."""

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
        """All stored output, as text; it is empty afterwards."""
        left_out = self.size - len(self.head) - len(self.tail)
        words = f"\n[… {left_out:,} bytes omitted …]\n".encode() if left_out else b""
        data = self.head + words + self.tail
        self.head, self.tail, self.size = b"", b"", 0
        return data.decode("utf-8", "replace")


class RunningCommand:
    """A running command; made by `run_command`. `output` is filled while `follow` runs."""

    def __init__(self, process: asyncio.subprocess.Process, channel: asyncio.StreamReader) -> None:
        self._process = process
        self._channel = channel
        self.output = Output()
        self.total = 0
        self.flooded = False

    async def follow(self, printed: Callable[[str], None]) -> int:
        """Waits for its end; returns its exit code. WorkspaceError E13 if nothing was run."""
        stdout = self._process.stdout
        assert stdout is not None
        reader = asyncio.create_task(self._read(stdout, printed))
        reason = asyncio.create_task(self._channel.read(_CHUNK))
        try:
            code = await self._process.wait()
            # An escaped process may hold the pipes open: do not wait for it.
            await asyncio.wait((reader, reason), timeout=_LAST_WORDS_S)
            if reason.done() and reason.result():
                reason_text = json.loads(reason.result())["broken"]
                sentence = (
                    f"Nothing was run, because the sandbox could not be created: {reason_text}."
                )
                raise WorkspaceError("E13", sentence, reason=reason_text)
            return code
        finally:
            reader.cancel()
            reason.cancel()
            await asyncio.wait((reader, reason))

    async def end(self) -> None:
        """Ends it with all its descendants; finally by force. Continues even if cancelled."""
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
                await asyncio.gather(process.wait(), self._drain())
        except TimeoutError:
            self._signal(signal.SIGKILL)

    async def _drain(self) -> None:
        """Until its pipe is read to the end asyncio does not report that a child has exited."""
        stdout = self._process.stdout
        assert stdout is not None
        try:
            while await stdout.read(_CHUNK):
                pass
        except RuntimeError:
            pass  # `follow` still reads it

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
async def run_command(command: ShellCommand) -> AsyncIterator[RunningCommand]:
    """The running command; on exit of the context it is ended with all its descendants."""
    ours, theirs = socket.socketpair()
    try:
        channel, end = await asyncio.open_connection(sock=ours)
    except BaseException:
        ours.close()
        theirs.close()
        raise
    try:
        with theirs:
            number = theirs.fileno()
            process = await _start(number)
        running = RunningCommand(process, channel)
        try:
            assert process.stdin is not None
            try:
                process.stdin.write(_job(command, number))
                await process.stdin.drain()
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has exited, and `follow` gives the reason
            yield running
        finally:
            await running.end()
    finally:
        end.close()


async def _start(channel: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-S", "-B", *script_command(_CONFINED)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        pass_fds=(channel,),
        start_new_session=True,
        cwd="/",
        env={"PATH": _PATH},
    )


def _job(command: ShellCommand, channel: int) -> bytes:
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
    """ "" if commands can be confined here, or else why not. Only a trial shows it."""
    if sys.platform != "linux":
        return "only Linux has namespaces"
    try:
        async with (
            asyncio.timeout(PROBE_S),
            run_command(ShellCommand(":", folder, True, 10)) as running,
        ):
            code = await running.follow(lambda _: None)
            return "" if code == 0 else f"a test ended with exit code {code}"
    except WorkspaceError as trouble:
        return trouble.reason or str(trouble)
    except (OSError, TimeoutError) as error:
        return f"{type(error).__name__} {error}".strip()


def result(output: str, code: int, seconds: float, *, lifted: bool) -> ToolResult:
    """The output, then the exit status."""
    words = f"exit code {code}"
    if code > 128:
        try:
            words += f", {signal.strsignal(code - 128)}"
        except ValueError:
            pass
    where = ", without the sandbox" if lifted else ""
    body = output if not output or output.endswith("\n") else output + "\n"
    return text_result(f"{body}[{words}, {seconds:.1f} s{where}]", is_error=code != 0)


# -- commands that only read; what the parser does not understand counts as writing


def reads_only(command: str) -> bool:
    """Whether the command certainly changes nothing."""
    words = _split(command)
    if not words or words[0] not in READS:
        return False
    return words[0] != "find" or not any(_unquote(word).startswith(_ACTS) for word in words[1:])


def _split(command: str) -> list[str]:
    """The words of a command that consists of plain and quoted words only, or [] otherwise."""
    words: list[str] = []
    place = 0
    text = command.strip(" ")
    while place < len(text):
        if text[place] == " ":
            place += 1
            continue
        match = _WORD.match(text, place)
        if match is None:
            return []
        words.append(match[0])
        place = match.end()
        if place < len(text) and text[place] != " ":
            return []
    return words


def _unquote(word: str) -> str:
    return word.replace("'", "").replace('"', "")


# -- commands in the background


@dataclass
class BackgroundTask:
    """`output` is what was not read yet; `how` it ended, "" while it runs; `asked` is why it was
    ended, `announced`: its start was logged."""

    id: str
    call: str
    title: str
    output: Output = field(default_factory=Output)
    how: str = ""
    asked: str = ""
    announced: bool = False
    work: asyncio.Task[None] | None = None
    begun: asyncio.Event = field(default_factory=asyncio.Event)


class Tasks:
    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._tasks: dict[str, dict[str, BackgroundTask]] = {}

    async def start(
        self, session: str, call: str, attempt: int, command: ShellCommand
    ) -> BackgroundTask:
        """Starts `command`; returns when it is running and logged."""
        tasks = self._tasks.setdefault(session, {})
        if sum(not task.how for task in tasks.values()) >= MOST_RUNNING:
            raise WorkspaceError(
                "E12", f"{MOST_RUNNING} tasks are running, the maximum. Stop one with stop_task."
            )
        task_id = f"task-{call.replace('.', '-')}" + (f"-{attempt}" if attempt > 1 else "")
        task = BackgroundTask(task_id, call, command.text[:TITLE])
        tasks[task_id] = task
        task.work = asyncio.create_task(self._run(session, task, command))
        begun = asyncio.create_task(task.begun.wait())
        try:
            await asyncio.wait((begun, task.work), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._end(task, "its call was cancelled")
            raise
        finally:
            begun.cancel()
        self._trim(tasks)
        return task

    def read(self, session: str, task_id: str) -> str:
        """Its output since the last read, and its state."""
        task = self._task(session, task_id)
        text = task.output.take()
        state = task.how or "running"
        return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}[{state}]"

    async def stop(self, session: str, task_id: str, how: str) -> str:
        """Ends it, if it still runs; returns how it ended."""
        task = self._task(session, task_id)
        await self._end(task, how)
        return task.how

    async def forget(self, session: str, how: str = STOPPED_WITH_RUN) -> None:
        """Ends all tasks of a session; their output can still be read."""
        await asyncio.gather(*(self._end(task, how) for task in self._session_tasks(session)))

    async def close(self) -> None:
        """The program ends."""
        ends = (self.forget(session, ENDED_WITH_PROGRAM) for session in list(self._tasks))
        await asyncio.gather(*ends)

    def _session_tasks(self, session: str) -> list[BackgroundTask]:
        return list(self._tasks.get(session, {}).values())

    def _task(self, session: str, task_id: str) -> BackgroundTask:
        task = self._tasks.get(session, {}).get(task_id)
        if task is None:
            known = ", ".join(task.id for task in self._session_tasks(session)) or "none"
            raise NotFound(f"There is no task {task_id[:80]!r}. The tasks are: {known}.")
        return task

    @staticmethod
    async def _end(task: BackgroundTask, how: str) -> None:
        if task.work is not None and not task.work.done():
            if not task.asked and not task.how:  # once: a second one would cut the output
                task.asked = how
                task.work.cancel()
            await asyncio.wait((task.work,))

    async def _run(self, session: str, task: BackgroundTask, command: ShellCommand) -> None:
        try:
            how = await self._follow(session, task, command)
        except asyncio.CancelledError:
            how = task.asked or ENDED_WITH_PROGRAM
        task.how = how
        if task.announced:
            await self._tell(session, TaskEnded(task.id, how))

    async def _follow(self, session: str, task: BackgroundTask, command: ShellCommand) -> str:
        try:
            async with run_command(command) as running:
                running.output = task.output
                task.announced = True
                await self._tell(session, TaskStarted(task.id, task.call, task.title))
                task.begun.set()
                code = await running.follow(lambda _: None)
        except WorkspaceError as trouble:
            return str(trouble)
        except OSError as error:
            return f"could not be started: {error.strerror}"
        return "ended, because it printed too much" if running.flooded else f"exit code {code}"

    @staticmethod
    def _trim(tasks: dict[str, BackgroundTask]) -> None:
        for task in [task for task in tasks.values() if task.how][: max(len(tasks) - MOST_KEPT, 0)]:
            del tasks[task.id]
