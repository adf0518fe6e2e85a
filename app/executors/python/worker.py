"""A child process that runs functions of one Python file, one call at a time.

The child is `runner.py`, which ends everything the functions started as soon as its stdin closes.
Jobs go over a socket and answers come back on it; what is printed comes on pipes of its own, so
that no print can look like an answer. A job is sent once: a child that ends without an answer has
perhaps run it, and nobody runs it again.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import json
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.executors.executor import Report, ThrottledProgress
from app.executors.script import by_path

_RUNNER = Path(__file__).with_name("runner.py")
_END_S = 6.0
_LAST_WORDS_S = 1.0
_CHUNK = 64 * 1024
_MOST_TAIL = 2000
_MOST_BETWEEN = 1024 * 1024
"""Bytes that may be printed while there is no call; a child that prints more is ended."""


@dataclass(frozen=True)
class WorkerAnswer:
    """What came of one job: the child's own `message`, or None where it ended without one, with
    its exit `code` and the `tail` of its stderr. `flooded`: it said more than it may."""

    message: Mapping[str, Any] | None
    code: int | None
    tail: str
    flooded: bool


class _Call:
    """The call under way: the `number` of its job, where its progress goes, and how much it has
    printed."""

    def __init__(self, number: int, most: int, report: Report) -> None:
        self.number, self.most = number, most
        self.progress = ThrottledProgress(report)
        self.decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(2)]
        self.size = 0
        self.message: Mapping[str, Any] | None = None
        self.answered = asyncio.Event()
        self.flooded = asyncio.Event()

    def printed(self, stream: int, data: bytes, *, counts: bool = True) -> None:
        """What is printed is shown as it comes; all of it counts against the cap on output, but
        for what had been printed before the call."""
        self.size += len(data) if counts else 0
        if self.size > self.most:
            self.flooded.set()
        else:
            self.progress.printed(self.decoders[stream].decode(data))

    def take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(message, dict) or message.get("job") != self.number:
            return  # what an earlier call has left behind still reports
        match message:
            case {"progress": str(text), "fraction": None | int() | float() as fraction}:
                self.progress.tell(text, fraction)
            case {"result": str(), "is_error": bool()} | {"changed": str()}:
                self.message = message
                self.answered.set()


class Worker:
    """One child. `ended` is done when it and all that it started have ended."""

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
        """OSError where the interpreter cannot be started."""
        ours, theirs = socket.socketpair()
        lifeline_end, lifeline = os.pipe()
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                "-B",
                *by_path(_RUNNER, str(theirs.fileno())),
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
            worker._let_go()
            worker._close_prints()
            raise
        worker._listening = asyncio.ensure_future(worker._listen())
        return worker

    @property
    def alive(self) -> bool:
        """Whether it can take another job."""
        return self._lifeline >= 0 and not self.ended.done() and not self._listening.done()

    async def call(self, job: bytes, most: int, report: Report, *, last: bool) -> WorkerAnswer:
        """What comes of `job`; at most `most` bytes of output. After the `last` one the child
        ends, with all that it started. Cancelled, it leaves the child to `end`."""
        self._jobs += 1
        call = self._call = _Call(self._jobs, most, report)
        between, self._between, self._between_size, self._tail = self._between, [], 0, b""
        for stream, data in between:
            call.printed(stream, data, counts=False)
        waits = [self.ended, asyncio.ensure_future(call.flooded.wait())]
        if not last:
            waits.append(asyncio.ensure_future(call.answered.wait()))
        sending = asyncio.ensure_future(self._send(job, last=last))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if self.ended.done():
                # A process that got away (no subreaper) may hold the socket: do not wait for it.
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
        """Close the lifeline and wait until the guard has ended everything; at last kill it."""
        self._let_go()
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

    def _let_go(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def _send(self, job: bytes, *, last: bool) -> None:
        with contextlib.suppress(OSError):  # the child is gone, and its end tells why
            self._writer.write(job)
            if last:
                self._writer.write_eof()
            await self._writer.drain()

    async def _listen(self) -> None:
        """Read the child's JSON lines, each at most as long as a result may be."""
        pieces: list[bytes] = []
        size = 0
        with contextlib.suppress(OSError):
            while data := await self._reader.read(_CHUNK):
                *lines, rest = data.split(b"\n")
                for line in lines:
                    if self._call is not None:
                        self._call.take(b"".join((*pieces, line)))
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
        """All that has been printed by now: it was written before the answer was."""
        for stream, descriptor in enumerate(self._prints):
            while not call.flooded.is_set() and self._read_print(stream, descriptor):
                pass

    def _read_print(self, stream: int, descriptor: int) -> bool:
        """One piece of what was printed; False where there is none now."""
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        if not data:  # all who could print have ended
            asyncio.get_running_loop().remove_reader(descriptor)
            return False
        if stream:
            self._tail = (self._tail + data)[-_MOST_TAIL:]
        if self._call is not None:
            self._call.printed(stream, data)
            return True
        self._between.append((stream, data))
        self._between_size += len(data)
        if self._between_size > _MOST_BETWEEN:
            self._let_go()
            self._between, self._between_size = [], 0
        return True


def _reader_of(
    read: Callable[[int, int], bool], stream: int, descriptor: int
) -> Callable[[], None]:
    def ready() -> None:
        read(stream, descriptor)

    return ready
