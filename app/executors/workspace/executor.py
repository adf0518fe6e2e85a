"""The executor of workspace tools: which tool, with which arguments, in which folder.

Files are touched in threads, one at a time in each session; trouble is an error result that
begins with its number.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from app.core.errors import NotFound
from app.core.events import STOPPED_BY_MODEL, Problem
from app.core.tools import Tool, ToolResult, text_result
from app.executors.executor import (
    LONGEST_S,
    CallCheck,
    Deadline,
    Invocation,
    Report,
    ThrottledProgress,
)
from app.executors.workspace import files, shell
from app.executors.workspace.fetch import Pages
from app.executors.workspace.files import MAX_FILE, History
from app.executors.workspace.folder import Folder, WorkspaceError, parts_of
from app.executors.workspace.shell import ShellCommand, Tasks, reads_only

T = TypeVar("T")

OPEN = "no sandbox"
"""Stands in a check's `code` for a command that would run without one: that is what is decided."""

SHELL_S = 60.0
FETCH_S = 30.0

_PLAIN = frozenset({"read_file", "list_files", "search_files", "fetch_url"})
_CONFINED = Problem(
    "note",
    "It runs in a sandbox: no network, and nothing but its scratch folder can be written.",
)


class InvalidArgument(Exception):
    """An argument is not what the tool takes; the sentence says which."""


class CallArguments:
    """The arguments of a call, each of the type asked for. InvalidArgument where it is another."""

    def __init__(self, arguments: str) -> None:
        self._values: Mapping[str, Any] = json.loads(arguments)

    def text(self, name: str, default: str | None = None) -> str:
        value = self._values.get(name, default)
        if not isinstance(value, str):
            raise InvalidArgument(f"{name} must be a text.")
        return value

    def number(self, name: str, default: float, least: float, most: float) -> float:
        value = self._values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidArgument(f"{name} must be a number.")
        if not least <= value <= most:
            raise InvalidArgument(f"{name} must be from {least:g} to {most:g}.")
        return value

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        value = self.number(name, default, least, most)
        if value != int(value):
            raise InvalidArgument(f"{name} must be a whole number.")
        return int(value)

    def flag(self, name: str) -> bool:
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            raise InvalidArgument(f"{name} must be true or false.")
        return value


class Workspace:
    """`clock` gives Unix time in ms."""

    def __init__(self, tasks: Tasks, pages: Pages, clock: Callable[[], int]) -> None:
        self.tasks = tasks
        self._pages = pages
        self._clock = clock
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._probing = asyncio.Lock()
        self._sandbox: str | None = None
        self._does: Mapping[
            str, Callable[[Invocation, CallArguments, Report], Awaitable[ToolResult]]
        ] = {
            "read_file": self._read,
            "write_file": self._write,
            "edit_file": self._edit,
            "list_files": self._list,
            "search_files": self._search,
            "run_shell": self._shell,
            "read_task": self._read_task,
            "stop_task": self._stop_task,
            "fetch_url": self._fetch,
        }

    async def run(self, invocation: Invocation, report: Report) -> ToolResult:
        """Run the tool; trouble is a result."""
        does = self._does.get(str(invocation.tool.config.get("tool")))
        if does is None:
            sentence = "There is no such workspace tool; correct the tool's config.tool."
            return text_result(sentence, is_error=True, kind="failed")
        try:
            return await does(invocation, CallArguments(invocation.arguments), report)
        except InvalidArgument as misfit:
            return text_result(str(misfit), is_error=True, kind="invalid")
        except WorkspaceError as trouble:
            return text_result(str(trouble), is_error=True, kind="failed")

    async def checked(self, session: str, tool: Tool, arguments: str) -> CallCheck:
        """Whether it only reads; for a command, whether there is a sandbox for it."""
        name = tool.config.get("tool")
        if name != "run_shell":
            return CallCheck(parallel_safe=name in _PLAIN)
        try:
            given = CallArguments(arguments)
            safe = reads_only(given.text("command")) and not given.flag("background")
        except (InvalidArgument, ValueError, RecursionError, AttributeError):
            safe = False
        missing = await self.sandbox()
        if not missing:
            return CallCheck("", (_CONFINED,), safe)
        sentence = (
            f"This system offers no sandbox ({missing}): the command would run with all your "
            "rights, on your files and your network. It is never run without being asked for."
        )
        return CallCheck(OPEN, (Problem("caution", sentence),), safe)

    async def sandbox(self) -> str:
        """ "" where commands can be confined here, or why not; tried once."""
        async with self._probing:
            if self._sandbox is None:
                with tempfile.TemporaryDirectory() as folder:
                    self._sandbox = await shell.sandbox(Path(folder).resolve())
            return self._sandbox

    async def forget(self, session: str) -> None:
        """End the session's tasks, and forget what was fetched for it."""
        self._pages.forget(session)
        await self.tasks.forget(session)

    async def close(self) -> None:
        """End all tasks."""
        await self.tasks.close()

    def history(self, session: str, folder: Path, work: Callable[[History], T]) -> T:
        """Do `work` while nobody else changes the session's files. Blocks: for a thread."""
        with self._locks[session]:
            return work(History(folder))

    async def _alone(self, invocation: Invocation, work: Callable[[History], T]) -> T:
        return await asyncio.to_thread(self.history, invocation.session, invocation.folder, work)

    # The tools.

    async def _read(
        self, invocation: Invocation, given: CallArguments, report: Report
    ) -> ToolResult:
        path = _path(given)
        offset = given.whole("offset", 1, 1, 10**8)
        limit = given.whole("limit", files.LINES, 1, 20_000)
        pages = given.text("pages", "")

        def known(history: History) -> bytes:
            data, status = history.files.read(path, MAX_FILE)
            history.saw(path, status, data)
            return data

        data = await self._alone(invocation, known)
        if files.is_pdf(data):
            return await files.read_pdf(path, data, pages)
        if pages:
            raise WorkspaceError(
                "E11", f"{path} is not a PDF; leave pages out, or use offset and limit."
            )
        return files.render_file(path, data, offset, limit, invocation.max_output)

    async def _write(
        self, invocation: Invocation, given: CallArguments, report: Report
    ) -> ToolResult:
        path, content = _path(given), given.text("content")
        by, at_ms = invocation.call, self._clock()
        return text_result(
            await self._alone(
                invocation, lambda history: files.write_file(history, path, content, by, at_ms)
            )
        )

    async def _edit(
        self, invocation: Invocation, given: CallArguments, report: Report
    ) -> ToolResult:
        path, old, new = _path(given), given.text("old"), given.text("new")
        every = given.flag("replace_all")
        by, at_ms = invocation.call, self._clock()
        return text_result(
            await self._alone(
                invocation,
                lambda history: files.edit_file(history, path, old, new, by, at_ms, every=every),
            )
        )

    async def _list(
        self, invocation: Invocation, given: CallArguments, report: Report
    ) -> ToolResult:
        path, pattern = given.text("path", ""), given.text("pattern", "")
        folder = Folder(invocation.folder)
        folder.make()
        return text_result(_sound(await asyncio.to_thread(files.list_files, folder, path, pattern)))

    async def _search(
        self, invocation: Invocation, given: CallArguments, report: Report
    ) -> ToolResult:
        wanted = files.FileSearch(
            given.text("pattern"),
            given.text("path", ""),
            given.text("glob", ""),
            given.text("output", "lines"),
            given.whole("around", 0, 0, 20),
            given.whole("head_limit", 200, 1, 2_000),
        )
        folder = Folder(invocation.folder)
        folder.make()
        stop = threading.Event()
        try:
            hits = await asyncio.to_thread(files.search_files, folder, wanted, stop.is_set)
        finally:
            stop.set()  # cancelled, the thread goes no further than its file
        return text_result(_sound(hits))

    async def _shell(
        self, invocation: Invocation, given: CallArguments, report: Report
    ) -> ToolResult:
        seconds = given.number("timeout_s", SHELL_S, 1, 600)
        lifted = invocation.lift or invocation.code == OPEN
        background = given.flag("background")
        text = given.text("command")
        if "\0" in text:
            raise InvalidArgument("command must have no NUL character.")
        Folder(invocation.folder).make()
        command = ShellCommand(text, invocation.folder.resolve(), not lifted, LONGEST_S)
        if background:
            return await self._begin(invocation, command)
        # The table's own limit would lose what was printed by then.
        limit_s = min(seconds, max(invocation.timeout_s - 5, 0.5 * invocation.timeout_s))
        return await _run_shell_command(command, limit_s, invocation.deadline, report)

    async def _begin(self, invocation: Invocation, command: ShellCommand) -> ToolResult:
        call, attempt = invocation.call, invocation.attempt
        task = await self.tasks.start(invocation.session, call, attempt, command)
        if task.how and not task.announced:
            return text_result(task.how, is_error=True, kind="failed")
        where = "" if command.confine else ", without the sandbox"
        sentence = f"It runs in the background as {task.id}{where}; read_task tells what it prints."
        return text_result(sentence)

    async def _read_task(
        self, invocation: Invocation, given: CallArguments, report: Report
    ) -> ToolResult:
        try:
            return text_result(self.tasks.read(invocation.session, given.text("task_id")))
        except NotFound as error:
            raise WorkspaceError("E12", str(error)) from None

    async def _stop_task(
        self, invocation: Invocation, given: CallArguments, report: Report
    ) -> ToolResult:
        task_id = given.text("task_id")
        try:
            await self.tasks.stop(invocation.session, task_id, STOPPED_BY_MODEL)
            return text_result(self.tasks.read(invocation.session, task_id))
        except NotFound as error:
            raise WorkspaceError("E12", str(error)) from None

    async def _fetch(
        self, invocation: Invocation, given: CallArguments, report: Report
    ) -> ToolResult:
        url, most = given.text("url"), invocation.max_output
        limit_s = min(FETCH_S, invocation.timeout_s)
        try:
            async with invocation.deadline.within(limit_s):
                return await self._pages.fetched(invocation.session, url, None, most)
        except TimeoutError:
            after_s = limit_s + invocation.deadline.extended_s
            raise WorkspaceError(
                "E14", f"{url} was not done after {after_s:g} s, its limit."
            ) from None


async def _run_shell_command(
    command: ShellCommand, limit_s: float, deadline: Deadline, report: Report
) -> ToolResult:
    """The command run to its end, or for `limit_s` seconds and what a user grants."""
    progress = ThrottledProgress(report)
    begun = time.monotonic()
    try:
        async with shell.run_command(command) as running:
            try:
                async with deadline.within(limit_s):
                    code = await running.follow(progress.printed)
            except TimeoutError:
                after_s = limit_s + deadline.extended_s
                printed = f"{running.output.take()}\n[ended after {after_s:g} s, its limit]"
                return text_result(printed.lstrip(), is_error=True, kind="timeout")
            output = running.output.take()
            if running.flooded:
                printed = f"{output}\n[ended, for it printed more than {shell.MAX_OUTPUT:,} bytes]"
                return text_result(printed, is_error=True, kind="too_large")
    except OSError as error:
        raise WorkspaceError("E13", f"The shell cannot be started: {error.strerror}.") from error
    finally:
        progress.close()
    return shell.result(output, code, time.monotonic() - begun, lifted=not command.confine)


def _path(given: CallArguments) -> str:
    """One spelling for one file."""
    return "/".join(parts_of(given.text("path")))


def _sound(text: str) -> str:
    """Names of files may be no UTF-8; those bytes are shown as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
