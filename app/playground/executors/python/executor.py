"""Python tools: a function of the user's own file, or code typed in the page.

A function of a file runs in a child process (`runner.py`), which ends everything the function
started as soon as its stdin closes. No sandbox: it runs as the user. Its arguments are converted by
its type hints (`conversion.py`); printed output is shown while it runs, calls of `report` are
progress. A text result is returned unchanged, the bytes of a PNG, JPEG, WebP or GIF as an image,
everything else as JSON. One child is kept running for each session, file and interpreter, because
importing may take long: the file's state in memory persists between calls. If it is busy, a call
gets a child of its own. If Linux offers namespaces, the child sees and can signal only its own
processes.
config: {"file", "function", "interpreter", "keep"}; `file` may be `shipped:NAME` for one of our
examples; with `keep` false every call has a child of its own.
The environment of a function identifies its call: PLAYGROUND_SESSION, PLAYGROUND_CALL,
PLAYGROUND_ATTEMPT, and PLAYGROUND_IDEMPOTENCY_KEY, the same for all attempts at a call with the
same arguments.

Typed code runs in pydantic-monty (the extra `sandbox`), an interpreter in its own process: a subset
of Python, with limits on time, memory, recursion and output. No files, no network, no environment,
no packages, only its own part of the standard library (json, re, math, datetime, ...). It has its
own number type: a number with more digits than a float has is rounded. A child of ours
(`typed_code.py`) communicates with it, because its results may be far larger than the limit.
config: {"code", "function"}. The function is called with the arguments by name; without `function`
it is the one named like the tool, or the only one.
"""

from __future__ import annotations

import asyncio
import base64
import codecs
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import sys
import sysconfig
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from playground.core.errors import BadInput
from playground.core.events import Problem
from playground.core.json_values import load_json
from playground.core.tools import SHIPPED, Content, Tool, ToolResult, text_result
from playground.executors.executor import (
    LONGEST_S,
    CallCheck,
    Invocation,
    ReportProgress,
    ThrottledProgress,
    image_content,
    script_command,
)
from playground.executors.python.location import locate

# A child process that runs functions of one Python file, one call at a time.
#
# The child is `runner.py`, which ends everything the functions started as soon as its stdin closes.
# Jobs and answers use a socket; printed output has its own pipes, so that it cannot be mistaken for
# an answer. A job is sent once: a child that ends without an answer may have run it, so it is not
# repeated.

_RUNNER = Path(__file__).with_name("runner.py")
READER = str(Path(__file__).with_name("read_tools.py"))
"""Lists the tools of another file: itself a file with a function `read`."""

_END_S = 6.0
_LAST_WORDS_S = 1.0
_CHUNK = 64 * 1024
_MOST_TAIL = 2000
_MOST_BETWEEN = 1024 * 1024
"""Bytes that may be printed between calls; a child that prints more is ended."""

MISSING = "missing"
"""The digest of a missing file: one that appears later is not what was seen."""

REST_S = 300.0
"""How long an idle child is kept running, in seconds."""

MOST_KEPT = 8
"""The maximum number of idle children over all sessions; the least recently used ends first."""

_SHIPPED = Path(__file__).parent.parent
_ENVIRONMENT = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR")

Key = tuple[str, str, str]
"""Session, file and interpreter."""

SANDBOX_MISSING = (
    "Python typed in the page needs the sandbox, which is not installed. Run pip install "
    "'tool-playground[sandbox]', then restart the program."
)
MAX_MEMORY = 256 << 20
MAX_DEPTH = 400

# The limit of all executors, which can be extended, ends the process before; these are a fallback.
_LIMITS = {
    "max_feed_duration_secs": LONGEST_S,
    "max_total_sleep_secs": LONGEST_S,
    "max_memory": MAX_MEMORY,
    "max_recursion_depth": MAX_DEPTH,
}
_FUNCTION = re.compile(r"^(async +)?def +(\w+)", re.M)
_CHILD = Path(__file__).with_name("typed_code.py")

InChild = Callable[[Invocation, ReportProgress], Awaitable[ToolResult]]
"""Runs a function of a file in a child process, like `run_in_child`."""


@dataclass(frozen=True)
class WorkerAnswer:
    """The result of one job: the child's own `message`, or None if it ended without one, with its
    exit `code` and the `tail` of its stderr. `flooded`: its output exceeded the limit."""

    message: Mapping[str, Any] | None
    code: int | None
    tail: str
    flooded: bool


class _Call:
    """The call in progress: the `number` of its job, the receiver of its progress, and how much it
    has printed."""

    def __init__(self, number: int, most: int, report: ReportProgress) -> None:
        self.number, self.most = number, most
        self.progress = ThrottledProgress(report)
        self.decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(2)]
        self.size = 0
        self.message: Mapping[str, Any] | None = None
        self.answered = asyncio.Event()
        self.flooded = asyncio.Event()

    def add_output(self, stream: int, data: bytes, *, counts: bool = True) -> None:
        """Shows printed output at once; all of it counts against the output limit, except what was
        printed before the call."""
        self.size += len(data) if counts else 0
        if self.size > self.most:
            self.flooded.set()
        else:
            self.progress.add_output(self.decoders[stream].decode(data))

    def read_line(self, line: bytes) -> None:
        try:
            message = load_json(line)
        except ValueError:
            return
        if not isinstance(message, dict) or message.get("job") != self.number:
            return  # reports of a thread left by an earlier call
        match message:
            case {"progress": str(text), "fraction": None | int() | float() as fraction}:
                self.progress.tell(text, fraction)
            case {"result": str(), "is_error": bool()} | {"changed": str()}:
                self.message = message
                self.answered.set()


class Worker:
    """One child. `ended` is done when it and all its descendants have ended."""

    def __init__(self, process: asyncio.subprocess.Process, lifeline: int) -> None:
        self._process = process
        self._lifeline = lifeline
        self._prints: list[int] = []
        self._call: _Call | None = None
        self._jobs = 0
        self._between: list[tuple[int, bytes]] = []
        self._between_size = 0
        self._tail = b""
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._listening: asyncio.Task[None]
        self.ended = asyncio.ensure_future(process.wait())

    @classmethod
    async def start(
        cls, command: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> Worker:
        """OSError if the interpreter cannot be started."""
        ours, theirs = socket.socketpair()
        lifeline_end, lifeline = os.pipe()
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                "-B",
                *script_command(_RUNNER, str(theirs.fileno())),
                stdin=lifeline_end,
                stdout=out_end,
                stderr=err_end,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                cwd=folder,
                env=environment,
            )
        except BaseException:
            ours.close()
            for descriptor in (lifeline, out, err):
                os.close(descriptor)
            raise
        finally:
            theirs.close()
            for descriptor in (lifeline_end, out_end, err_end):
                os.close(descriptor)
        worker = cls(process, lifeline)
        worker._listen_to(out, err)
        try:
            worker._reader, worker._writer = await asyncio.open_connection(sock=ours)
        except BaseException:
            ours.close()
            worker._close_lifeline()
            worker._close_prints()
            raise
        worker._listening = asyncio.ensure_future(worker._listen())
        return worker

    @property
    def alive(self) -> bool:
        """Whether it can accept another job."""
        return self._lifeline >= 0 and not self.ended.done() and not self._listening.done()

    async def call(
        self, job: bytes, most: int, report: ReportProgress, *, last: bool
    ) -> WorkerAnswer:
        """The result of `job`; at most `most` bytes of output. After the `last` one the child ends,
        with all its descendants. On cancellation the caller must `end` the child."""
        self._jobs += 1
        call = self._call = _Call(self._jobs, most, report)
        between, self._between, self._between_size = self._between, [], 0
        # What is no Python may have failed by now; an earlier call's words are not repeated.
        errors = b"".join(data for stream, data in between if stream)
        self._tail = errors[-_MOST_TAIL:] if self._jobs == 1 else b""
        for stream, data in between:
            call.add_output(stream, data, counts=False)
        waits = [self.ended, asyncio.ensure_future(call.flooded.wait())]
        if not last:
            waits.append(asyncio.ensure_future(call.answered.wait()))
        sending = asyncio.ensure_future(self._send(job, last=last))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if self.ended.done():
                # An escaped process (no subreaper) may hold the socket: do not wait for it.
                await asyncio.wait([self._listening], timeout=_LAST_WORDS_S)
            self._read_prints(call)
        finally:
            for task in (*waits[1:], sending):
                task.cancel()
            call.progress.close()
            self._call = None
        code = self.ended.result() if self.ended.done() else None
        tail = self._tail.decode("utf-8", "replace").strip()
        return WorkerAnswer(call.message, code, tail, call.flooded.is_set())

    async def end(self) -> None:
        """Closes the lifeline and waits until the guard has ended everything; finally kills it."""
        self._close_lifeline()
        if not self.ended.done():
            self._signal(signal.SIGCONT)  # a tool may have stopped its guard
            await asyncio.wait([self.ended], timeout=_END_S)
        if not self.ended.done():
            self._signal(signal.SIGKILL)
            await self.ended
        self._close_prints()
        self._listening.cancel()
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    def _close_prints(self) -> None:
        for descriptor in self._prints:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)
        self._prints = []

    def _close_lifeline(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def _send(self, job: bytes, *, last: bool) -> None:
        with contextlib.suppress(OSError):  # the child is gone, and its exit gives the reason
            self._writer.write(job)
            if last:
                self._writer.write_eof()
            await self._writer.drain()

    async def _listen(self) -> None:
        """Reads the child's JSON lines, each at most as long as a result may be."""
        pieces: list[bytes] = []
        size = 0
        with contextlib.suppress(OSError):
            while data := await self._reader.read(_CHUNK):
                *lines, rest = data.split(b"\n")
                for line in lines:
                    if self._call is not None:
                        self._call.read_line(b"".join((*pieces, line)))
                    pieces, size = [], 0
                pieces.append(rest)
                size += len(rest)
                if self._call is None or size > 6 * self._call.most + _CHUNK:
                    # JSON may spend six bytes on one
                    if self._call is not None and size:
                        self._call.flooded.set()
                    pieces, size = [], 0

    def _listen_to(self, *descriptors: int) -> None:
        for stream, descriptor in enumerate(descriptors):
            os.set_blocking(descriptor, False)
            self._prints.append(descriptor)
            read = _reader_of(self._read_print, stream, descriptor)
            asyncio.get_running_loop().add_reader(descriptor, read)

    def _read_prints(self, call: _Call) -> None:
        """Reads all output printed so far: it was written before the answer."""
        for stream, descriptor in enumerate(self._prints):
            while not call.flooded.is_set() and self._read_print(stream, descriptor):
                pass

    def _read_print(self, stream: int, descriptor: int) -> bool:
        """Reads one piece of output; False if there is none now."""
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        if not data:  # all processes that could print have ended
            asyncio.get_running_loop().remove_reader(descriptor)
            return False
        if stream:
            self._tail = (self._tail + data)[-_MOST_TAIL:]
        if self._call is not None:
            self._call.add_output(stream, data)
            return True
        self._between.append((stream, data))
        self._between_size += len(data)
        if self._between_size > _MOST_BETWEEN:
            self._close_lifeline()
            self._between, self._between_size = [], 0
        return True


def _reader_of(
    read: Callable[[int, int], bool], stream: int, descriptor: int
) -> Callable[[], None]:
    def ready() -> None:
        read(stream, descriptor)

    return ready


@dataclass
class _KeptWorker:
    """A child that is kept running. `busy`: it has a call; `over`: it must not get another."""

    worker: Worker | None = None
    busy: bool = True
    over: bool = False
    rest: asyncio.TimerHandle | None = None


class Python:
    """Code in the tool goes to the sandbox, a function of a file into a child process."""

    def __init__(self) -> None:
        self._kept: dict[Key, _KeptWorker] = {}  # the most recently used last
        self._ending: set[asyncio.Task[None]] = set()

    async def run(self, invocation: Invocation, report: ReportProgress) -> ToolResult:
        tool = invocation.tool
        if "code" in tool.config:
            return await run_typed_code(invocation, report, run_in_child)
        if not keeps_process(tool):
            return await run_in_child(invocation, report)
        key = (
            invocation.session,
            str(_file(str(tool.config.get("file", "")))),
            str(tool.config.get("interpreter", "")),
        )
        held = self._kept.get(key)
        if held is not None and held.busy:
            return await run_in_child(invocation, report)
        held = self._kept.pop(key, None) or _KeptWorker()
        self._kept[key] = held
        held.busy = True
        if held.rest is not None:
            held.rest.cancel()
        try:
            return await self._run_kept(key, held, invocation, report)
        except BaseException:
            held.over = True
            raise
        finally:
            held.busy = False
            if held.over or held.worker is None or not held.worker.alive:
                await asyncio.shield(self._end(key, held))
            else:
                loop = asyncio.get_running_loop()
                held.rest = loop.call_later(REST_S, self._end, key, held)
                self._end_the_oldest()

    async def check_before_run(self, session: str, tool: Tool, arguments: str) -> CallCheck:
        if "code" in tool.config:
            return await check_typed_code(session, tool, arguments)
        return await check_file(session, tool, arguments)

    async def forget(self, session: str) -> None:
        """A child that has a call ends when that ends."""
        await self._end_all([key for key in self._kept if key[0] == session])

    async def close(self) -> None:
        for held in self._kept.values():
            held.busy = False  # a running call does not use it any more
        await self._end_all(list(self._kept))
        if self._ending:
            await asyncio.wait(list(self._ending))

    async def _run_kept(
        self, key: Key, held: _KeptWorker, invocation: Invocation, report: ReportProgress
    ) -> ToolResult:
        while True:
            fresh = held.worker is None or not held.worker.alive
            if fresh:
                if held.worker is not None:
                    await _end_worker(held.worker)
                    held.worker = None
                started = await _start(invocation)
                if isinstance(started, ToolResult):
                    return started
                held.worker = started
                started.ended.add_done_callback(lambda _: self._on_worker_end(key, held))
            assert held.worker is not None
            job = _job(invocation, keep=True)
            answer = await held.worker.call(job, invocation.max_output, report, last=False)
            match answer.message:
                case {"changed": str(path)} if not fresh:  # it was handed back, and has not run yet
                    await _end_worker(held.worker)
                    held.worker = None
                    report(f"{Path(path).name} has changed. Its process was restarted.", None)
                    continue
                case None | {"over": True}:
                    held.over = True
            return _verdict(answer, invocation.max_output)

    def _end(self, key: Key, held: _KeptWorker) -> asyncio.Task[None]:
        if self._kept.get(key) is held:
            del self._kept[key]
        if held.rest is not None:
            held.rest.cancel()
        task = asyncio.ensure_future(_end_worker(held.worker))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    def _on_worker_end(self, key: Key, held: _KeptWorker) -> None:
        """A child has ended by itself, between calls."""
        resting = not held.busy and self._kept.get(key) is held
        if resting and held.worker is not None and not held.worker.alive:
            self._end(key, held)

    async def _end_all(self, keys: list[Key]) -> None:
        ending = []
        for key in keys:
            held = self._kept[key]
            held.over = True
            if not held.busy:
                ending.append(self._end(key, held))
        await asyncio.gather(*(asyncio.shield(task) for task in ending))

    def _end_the_oldest(self) -> None:
        resting = [key for key, held in self._kept.items() if not held.busy]
        for key in resting[: max(0, len(resting) - MOST_KEPT)]:
            self._end(key, self._kept[key])


async def run_in_child(invocation: Invocation, report: ReportProgress) -> ToolResult:
    """Runs the function in a child of its own; on cancellation it ends the child with all its
    descendants and re-raises."""
    worker = await _start(invocation)
    if isinstance(worker, ToolResult):
        return worker
    try:
        job = _job(invocation, keep=False)
        answer = await worker.call(job, invocation.max_output, report, last=True)
    finally:
        # Shielded: a second cancel must not leave the child behind.
        await asyncio.shield(asyncio.ensure_future(_end_worker(worker)))
    return _verdict(answer, invocation.max_output)


def keeps_process(tool: Tool) -> bool:
    """Whether its child is kept for the next call. Our examples have no imports and no state."""
    file = str(tool.config.get("file", ""))
    return tool.config.get("keep", True) is True and not file.startswith(SHIPPED)


async def check_file(session: str, tool: Tool, arguments: str) -> CallCheck:
    """Includes the digest of the tool's file."""
    code = await asyncio.to_thread(code_of, tool)
    problems = await asyncio.to_thread(_package_notes, tool)
    if keeps_process(tool):
        problems = (_state_note(tool), *problems)
    return CallCheck(code, problems, parallel_safe=tool.parallel_safe)


def _package_notes(tool: Tool) -> tuple[Problem, ...]:
    """That other files run as well: the digest of a call is that of the tool's file alone."""
    name = str(tool.config.get("file", ""))
    file = _file(name)
    if name.startswith(SHIPPED) or not file.is_file():  # a pipe would never end
        return ()
    try:
        place = locate(str(file), file.read_bytes())
    except OSError:
        return ()
    if not place.package:
        return ()
    sentence = (
        f"Its file is imported as {place.name} from {place.first}: the __init__.py of its package "
        "runs first. This approval is bound to the content of the tool's own file, not to that of "
        "the files that it imports."
    )
    return (Problem("note", sentence),)


def _state_note(tool: Tool) -> Problem:
    name = Path(str(tool.config.get("file", ""))).name
    sentence = (
        f"State is kept between calls: one process answers this session's calls of {name}, until "
        "Stop, a change of the file or a pause of 5 minutes. The tool's settings turn that off."
    )
    return Problem("note", sentence)


def code_of(tool: Tool) -> str:
    """SHA-256 of the tool's file, as 64 hex digits; `missing` if it cannot be read.

    Excludes the modules that the file imports.
    """
    file = _file(str(tool.config.get("file", "")))
    if not file.is_file():  # a pipe would never end
        return MISSING
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return MISSING


async def _start(invocation: Invocation) -> Worker | ToolResult:
    """A child for the call, or the reason why there is none."""
    config = invocation.tool.config
    file = _file(str(config.get("file", "")))
    if not file.is_file():
        return _failure(f"There is no file {file}. Correct the tool's file.")
    interpreter = str(config.get("interpreter", ""))
    # Our own interpreter runs without site-packages: our dependencies are not available to tools.
    command = [os.path.expanduser(interpreter)] if interpreter else [sys.executable, "-S"]
    environment = _environment(os.environ) | _call_of(invocation)
    try:
        return await Worker.start(command, file.parent, environment)
    except OSError as error:
        name = interpreter or sys.executable
        return _failure(f"{name} cannot be started: {error.strerror}. Name another Python.")


async def _end_worker(worker: Worker | None) -> None:
    if worker is not None:
        await worker.end()


def _file(name: str) -> Path:
    if name.startswith(SHIPPED):
        return _SHIPPED / Path(name.removeprefix(SHIPPED)).name
    return Path(os.path.expanduser(name)).absolute()  # of an unknown user it stays as it is


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    """The few variables that any program needs; none of them is a key."""
    return {
        name: value
        for name, value in ours.items()
        if name in _ENVIRONMENT or name.startswith("LC_")
    }


def _call_of(invocation: Invocation) -> dict[str, str]:
    """Identifies the call, so that a function can detect that it had its effect before."""
    return {
        "PLAYGROUND_SESSION": invocation.session,
        "PLAYGROUND_CALL": invocation.call,
        "PLAYGROUND_ATTEMPT": str(invocation.attempt),
        "PLAYGROUND_IDEMPOTENCY_KEY": invocation.idempotency_key,
    }


def _job(invocation: Invocation, *, keep: bool) -> bytes:
    """The line the runner reads first, then the arguments exactly as shown."""
    arguments = invocation.arguments.encode("utf-8")
    properties = invocation.tool.parameters.get("properties", {})
    head = {
        "file": str(_file(str(invocation.tool.config.get("file", "")))),
        "code": invocation.code,
        "function": str(invocation.tool.config.get("function", "")),
        "environment": _call_of(invocation),
        "keep": keep,
        "size": len(arguments),
        "report": "report" not in properties,
        "longest_s": LONGEST_S,
        "max_output": invocation.max_output,
    }
    return json.dumps(head).encode("ascii") + b"\n" + arguments


def _verdict(answer: WorkerAnswer, most: int) -> ToolResult:
    if answer.flooded:
        return _too_large(f"The tool printed or returned more than {most:,} bytes and was stopped.")
    match answer.message:
        case {"too_large": True}:
            return _too_large(f"The result has more than {most:,} bytes. Ask for less.")
        case {"result": str(text), "is_error": True} | {"changed": str(text)}:
            return _failure(text)
        case {"result": str(text), "form": str(form)}:
            return _result(text, form)
    code = answer.code
    why = f"exit code {code}"
    if code is not None and code > 128:
        why = signal.strsignal(code - 128) or why
    sentence = (
        f"The tool's process ended without a result ({why}); its effects so far are not undone."
    )
    return _failure(f"{sentence}\n{answer.tail}".strip())


def _result(text: str, form: str) -> ToolResult:
    """The function's return value: a text, JSON, or the bytes of an image in base64."""
    if form == "bytes":
        data = base64.b64decode(text)
        picture = image_content(data)
        sentence = f"The function returned {len(data):,} bytes that are not PNG, JPEG, WebP or GIF."
        return (
            _failure(f"{sentence} Return text, JSON or an image.")
            if not picture
            else ToolResult((picture,))
        )
    media_type = "application/json" if form == "json" else ""
    return ToolResult((Content(text=text, media_type=media_type),))


def _too_large(text: str) -> ToolResult:
    return text_result(text, is_error=True, kind="too_large")


def _failure(text: str) -> ToolResult:
    return text_result(text, is_error=True, kind="failed")


# -- typed code, in the sandbox


async def run_typed_code(
    invocation: Invocation, report: ReportProgress, in_child: InChild
) -> ToolResult:
    """Runs the function; on cancellation it ends the child with its interpreter and re-raises."""
    try:
        import pydantic_monty as monty
    except ImportError:
        return _failure(SANDBOX_MISSING)
    try:
        name, waits = _function(invocation.tool)
    except BadInput as error:
        return _failure(str(error))
    arguments = {
        "code": invocation.tool.config["code"],
        "name": name,
        "waits": waits,
        "arguments": invocation.arguments,
        "limits": _LIMITS,
        "site": str(Path(monty.__file__).parent.parent),
        "binary": _binary(),
    }
    config = {"file": str(_CHILD), "function": "call"}
    ours = Tool(invocation.tool.name, answered_by="python", config=config)
    text = json.dumps(arguments)
    return await in_child(replace(invocation, tool=ours, arguments=text, code=""), report)


async def check_typed_code(session: str, tool: Tool, arguments: str) -> CallCheck:
    """The code is part of the tool itself, and so of the decision."""
    return CallCheck(parallel_safe=tool.parallel_safe)


def _function(tool: Tool) -> tuple[str, bool]:
    """The name of the function to call, and whether to await it. BadInput if there is none."""
    functions = {match[2]: bool(match[1]) for match in _FUNCTION.finditer(str(tool.config["code"]))}
    wanted = str(tool.config.get("function", ""))
    name = wanted or (tool.name if tool.name in functions else next(iter(functions), ""))
    if name not in functions or (not wanted and name != tool.name and len(functions) > 1):
        raise BadInput(
            f"The code has no function {wanted or tool.name}; it has: {', '.join(functions)}. Name "
            "one of them in config.function."
        )
    return name, functions[name]


def _binary() -> str:
    """The interpreter's program; a child without our site-packages would not find it."""
    beside = Path(sysconfig.get_path("scripts"), "monty")
    if "MONTY_BIN" not in os.environ and beside.is_file():
        return str(beside)
    return os.environ.get("MONTY_BIN") or shutil.which("monty") or str(beside)
