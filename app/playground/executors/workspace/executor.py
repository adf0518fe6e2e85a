"""The executor of workspace tools: selects the tool, its arguments and its folder; and the group
`workspace`, its tools as a model sees them.

Files are accessed in threads, one at a time in each session; a failure is an error result that
begins with its number.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from playground.core.errors import NotFound
from playground.core.events import STOPPED_BY_MODEL, Problem
from playground.core.json_values import load_json
from playground.core.tools import Tool, ToolResult, text_result
from playground.executors.executor import (
    LONGEST_S,
    CallCheck,
    Deadline,
    Invocation,
    ReportProgress,
    ThrottledProgress,
)
from playground.executors.workspace import Folder, WorkspaceError, files, parts_of, shell
from playground.executors.workspace.fetch import Pages
from playground.executors.workspace.files import MAX_FILE, History
from playground.executors.workspace.shell import ShellCommand, Tasks, reads_only

T = TypeVar("T")

OPEN = "no sandbox"
"""The `code` of a check for a command without a sandbox, so that the decision covers it."""

SHELL_S = 60.0
FETCH_S = 30.0

_PLAIN = frozenset({"read_file", "list_files", "search_files", "fetch_url"})
_CONFINED = Problem(
    "note",
    "It runs in a sandbox: without a network, and able to write only in its scratch folder.",
)

_PATH = {"type": "string", "description": "A path in the scratch folder, like src/main.py."}
_SAYS = "Paths are relative to the scratch folder; outside it is E5, no such file E6."


class InvalidArgument(Exception):
    """An argument is not valid for the tool; the sentence says which."""


class CallArguments:
    """The arguments of a call, with type checks. InvalidArgument if one has another type."""

    def __init__(self, arguments: str) -> None:
        self._values: Mapping[str, Any] = load_json(arguments)

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

    def integer(self, name: str, default: int, least: int, most: int) -> int:
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
            str, Callable[[Invocation, CallArguments, ReportProgress], Awaitable[ToolResult]]
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

    async def run(self, invocation: Invocation, report: ReportProgress) -> ToolResult:
        """Runs the tool; failures are results."""
        does = self._does.get(str(invocation.tool.config.get("tool")))
        if does is None:
            sentence = "There is no such workspace tool. Correct the tool's config.tool."
            return text_result(sentence, is_error=True, kind="failed")
        try:
            return await does(invocation, CallArguments(invocation.arguments), report)
        except InvalidArgument as misfit:
            return text_result(str(misfit), is_error=True, kind="invalid")
        except WorkspaceError as trouble:
            return text_result(str(trouble), is_error=True, kind="failed")

    async def check_before_run(self, session: str, tool: Tool, arguments: str) -> CallCheck:
        """Whether it only reads; for a command, whether a sandbox is available."""
        name = tool.config.get("tool")
        if name != "run_shell":
            return CallCheck(parallel_safe=name in _PLAIN)
        try:
            given = CallArguments(arguments)
            safe = reads_only(given.text("command")) and not given.flag("background")
        except (InvalidArgument, ValueError, AttributeError):
            safe = False
        missing = await self.sandbox()
        if not missing:
            return CallCheck("", (_CONFINED,), safe)
        sentence = (
            f"This system has no sandbox ({missing}). The command would run with your full "
            "rights, on your files and your network. It always needs your approval."
        )
        return CallCheck(OPEN, (Problem("caution", sentence),), safe)

    async def sandbox(self) -> str:
        """ "" if commands can be confined here, or why not; tried once."""
        async with self._probing:
            if self._sandbox is None:
                with tempfile.TemporaryDirectory() as folder:
                    self._sandbox = await shell.sandbox(Path(folder).resolve())
            return self._sandbox

    async def forget(self, session: str) -> None:
        """Ends the session's tasks, and deletes the pages fetched for it."""
        self._pages.forget(session)
        await self.tasks.forget(session)

    async def close(self) -> None:
        """Ends all tasks."""
        await self.tasks.close()

    def history(self, session: str, folder: Path, work: Callable[[History], T]) -> T:
        """Runs `work` with exclusive access to the session's files. Blocks: for a thread."""
        with self._locks[session]:
            return work(History(folder))

    async def _run_exclusive(self, invocation: Invocation, work: Callable[[History], T]) -> T:
        return await asyncio.to_thread(self.history, invocation.session, invocation.folder, work)

    # The tools.

    async def _read(
        self, invocation: Invocation, given: CallArguments, report: ReportProgress
    ) -> ToolResult:
        path = _path(given)
        offset = given.integer("offset", 1, 1, 10**8)
        limit = given.integer("limit", files.LINES, 1, 20_000)
        pages = given.text("pages", "")

        def read_and_note(history: History) -> bytes:
            data, status = history.files.read(path, MAX_FILE)
            history.mark_read(path, status, data)
            return data

        data = await self._run_exclusive(invocation, read_and_note)
        if files.is_pdf(data):
            return await files.read_pdf(path, data, pages)
        if pages:
            raise WorkspaceError(
                "E11", f"{path} is not a PDF. Leave pages out, or use offset and limit."
            )
        return files.render_file(path, data, offset, limit, invocation.max_output)

    async def _write(
        self, invocation: Invocation, given: CallArguments, report: ReportProgress
    ) -> ToolResult:
        path, content = _path(given), given.text("content")
        by, at_ms = invocation.call, self._clock()
        return text_result(
            await self._run_exclusive(
                invocation, lambda history: files.write_file(history, path, content, by, at_ms)
            )
        )

    async def _edit(
        self, invocation: Invocation, given: CallArguments, report: ReportProgress
    ) -> ToolResult:
        path, old, new = _path(given), given.text("old"), given.text("new")
        every = given.flag("replace_all")
        by, at_ms = invocation.call, self._clock()
        return text_result(
            await self._run_exclusive(
                invocation,
                lambda history: files.edit_file(
                    history, path=path, old=old, new=new, by=by, at_ms=at_ms, every=every
                ),
            )
        )

    async def _list(
        self, invocation: Invocation, given: CallArguments, report: ReportProgress
    ) -> ToolResult:
        path, pattern = given.text("path", ""), given.text("pattern", "")
        folder = Folder(invocation.folder)
        folder.make()
        return text_result(
            _escape_name(await asyncio.to_thread(files.list_files, folder, path, pattern))
        )

    async def _search(
        self, invocation: Invocation, given: CallArguments, report: ReportProgress
    ) -> ToolResult:
        wanted = files.FileSearch(
            given.text("pattern"),
            path=given.text("path", ""),
            glob=given.text("glob", ""),
            output=given.text("output", "lines"),
            around=given.integer("around", 0, 0, 20),
            head_limit=given.integer("head_limit", 200, 1, 2_000),
        )
        folder = Folder(invocation.folder)
        folder.make()
        stop = threading.Event()
        try:
            hits = await asyncio.to_thread(files.search_files, folder, wanted, stop.is_set)
        finally:
            stop.set()  # when cancelled, the thread stops after its current file
        return text_result(_escape_name(hits))

    async def _shell(
        self, invocation: Invocation, given: CallArguments, report: ReportProgress
    ) -> ToolResult:
        seconds = given.number("timeout_s", SHELL_S, 1, 600)
        lifted = invocation.lift or invocation.code == OPEN
        background = given.flag("background")
        text = given.text("command")
        if "\0" in text:
            raise InvalidArgument("command must not contain a NUL character.")
        Folder(invocation.folder).make()
        command = ShellCommand(text, invocation.folder.resolve(), not lifted, LONGEST_S)
        if background:
            return await self._begin(invocation, command)
        # The table's own limit would lose the output printed by then.
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
        self, invocation: Invocation, given: CallArguments, report: ReportProgress
    ) -> ToolResult:
        try:
            return text_result(self.tasks.read(invocation.session, given.text("task_id")))
        except NotFound as error:
            raise WorkspaceError("E12", str(error)) from None

    async def _stop_task(
        self, invocation: Invocation, given: CallArguments, report: ReportProgress
    ) -> ToolResult:
        task_id = given.text("task_id")
        try:
            await self.tasks.stop(invocation.session, task_id, STOPPED_BY_MODEL)
            return text_result(self.tasks.read(invocation.session, task_id))
        except NotFound as error:
            raise WorkspaceError("E12", str(error)) from None

    async def _fetch(
        self, invocation: Invocation, given: CallArguments, report: ReportProgress
    ) -> ToolResult:
        url, most = given.text("url"), invocation.max_output
        limit_s = min(FETCH_S, invocation.timeout_s)
        try:
            async with invocation.deadline.time_limit(limit_s):
                return await self._pages.fetch_page(invocation.session, url, None, most)
        except TimeoutError:
            after_s = limit_s + invocation.deadline.extended_s
            raise WorkspaceError(
                "E14", f"{url} took longer than {after_s:g} s, its limit."
            ) from None


async def _run_shell_command(
    command: ShellCommand, limit_s: float, deadline: Deadline, report: ReportProgress
) -> ToolResult:
    """Runs the command to its end, or for `limit_s` seconds and the user's extension."""
    progress = ThrottledProgress(report)
    begun = time.monotonic()
    try:
        async with shell.run_command(command) as running:
            try:
                async with deadline.time_limit(limit_s):
                    code = await running.follow(progress.add_output)
            except TimeoutError:
                after_s = limit_s + deadline.extended_s
                printed = f"{running.output.take()}\n[ended after {after_s:g} s, its limit]"
                return text_result(printed.lstrip(), is_error=True, kind="timeout")
            output = running.output.take()
            if running.flooded:
                printed = (
                    f"{output}\n[ended, because it printed more than {shell.MAX_OUTPUT:,} bytes]"
                )
                return text_result(printed, is_error=True, kind="too_large")
    except OSError as error:
        raise WorkspaceError("E13", f"The shell cannot be started: {error.strerror}.") from error
    finally:
        progress.close()
    return shell.result(output, code, time.monotonic() - begun, lifted=not command.confine)


def _path(given: CallArguments) -> str:
    """The canonical spelling of a path."""
    return "/".join(parts_of(given.text("path")))


def _escape_name(text: str) -> str:
    """File names may not be UTF-8; such bytes are shown as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


# The group `workspace`: tools for a scratch folder of the session, as a model sees them.


def _tool(
    name: str,
    description: str,
    properties: Mapping[str, Any],
    *required: str,
    safe: bool = False,
    reads: bool = False,
    timeout_s: float = 30.0,
) -> Tool:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return Tool(
        name=name,
        description=description,
        parameters=parameters,
        answered_by="workspace",
        config={"tool": name},
        parallel_safe=safe,
        timeout_s=timeout_s,
        group="workspace",
        read_only=reads,
    )


def _integer(words: str, least: int, most: int) -> dict[str, Any]:
    return {"type": "integer", "description": words, "minimum": least, "maximum": most}


def _text(words: str) -> dict[str, Any]:
    return {"type": "string", "description": words}


def _flag(words: str) -> dict[str, Any]:
    return {"type": "boolean", "description": words}


WORKSPACE: tuple[Tool, ...] = (
    _tool(
        "read_file",
        "Read a file of the scratch folder: text with line numbers as `cat -n` gives them, "
        "images (PNG, JPEG, GIF, WebP), PDFs page by page, notebooks (.ipynb) with their outputs. "
        "Gives 2000 lines unless told otherwise; long lines are cut. Too large is E8, neither "
        f"text nor any of these is E9, a folder or a pipe is E7. {_SAYS}",
        {
            "path": _PATH,
            "offset": _integer("The first line to read, from 1. The first if left out.", 1, 10**8),
            "limit": _integer("How many lines to read. 2000 if left out.", 1, 20_000),
            "pages": _text('Which pages of a PDF, like "3" or "1-3"; at most 20.'),
        },
        "path",
        safe=True,
        reads=True,
    ),
    _tool(
        "write_file",
        "Make a file of the scratch folder, or replace one whole; folders on the way are made. "
        "A file that is there must have been read in this session (else E1) and must not have "
        "changed since (else E2: read it again). Prefer edit_file for a small change. "
        f"{_SAYS}",
        {"path": _PATH, "content": _text("All of the new text of the file.")},
        *("path", "content"),
    ),
    _tool(
        "edit_file",
        "Replace a piece of text in a file of the scratch folder. The file must have been read in "
        "this session (else E1) and must not have changed since (else E2: read it again). `old` "
        "must be in the file exactly (else E3) and only once (else E4: give more lines around it, "
        "or set replace_all); `old` and `new` must differ (else E10). Gives the difference. "
        f"{_SAYS}",
        {
            "path": _PATH,
            "old": _text("The text to replace, exactly as it is, without line numbers."),
            "new": _text("The text to put in its place."),
            "replace_all": _flag("Replace each place where `old` is. False if left out."),
        },
        *("path", "old", "new"),
    ),
    _tool(
        "list_files",
        f"List the files and folders of the scratch folder, with sizes, at most 1000. {_SAYS}",
        {
            "path": _text("A folder to begin in. The scratch folder if left out."),
            "pattern": _text("A glob that files must fit, like *.py or src/**/*.md."),
        },
        safe=True,
        reads=True,
    ),
    _tool(
        "search_files",
        "Search the text files of the scratch folder for a regular expression (Rust's syntax: no "
        "look-around, no back-references; anything else is E11). Gives path:line:text, or only "
        f"the files, or counts. {_SAYS}",
        {
            "pattern": _text("The regular expression; (?i) at its beginning ignores case."),
            "path": _text("A file, or a folder to begin in. The scratch folder if left out."),
            "glob": _text("A glob that files must fit, like *.py."),
            "output": {
                "type": "string",
                "enum": ["lines", "files", "count"],
                "description": "What to give. lines if left out.",
            },
            "around": _integer("Lines to give before and after each hit. 0 if left out.", 0, 20),
            "head_limit": _integer("How many lines to give at most. 200 if left out.", 1, 2_000),
        },
        "pattern",
        safe=True,
        reads=True,
        timeout_s=60.0,
    ),
    _tool(
        "run_shell",
        "Run a command with /bin/sh in the scratch folder. Where the system allows, it is in a "
        "sandbox: no network, the system read-only, nothing else to be seen, an own empty /tmp. "
        "What was printed comes back (of much, the beginning and the end) with the exit code. "
        "What the command leaves running is ended with it; for what is to run on, set background, "
        "and use read_task and stop_task with the task id that comes back.",
        {
            "command": _text("The command, as for `sh -c`."),
            "timeout_s": {
                "type": "number",
                "description": "End it after so many seconds. 60 if left out.",
                "minimum": 1,
                "maximum": 600,
            },
            "background": _flag("Run on in the background. False if left out."),
            "description": _text("What it is for, in a few words, for the user who decides."),
        },
        "command",
        timeout_s=620.0,
    ),
    _tool(
        "read_task",
        "What a background task printed since it was last read, and whether it still runs. "
        "No such task is E12.",
        {"task_id": _text("The id that run_shell gave, like task-3-0.")},
        "task_id",
    ),
    _tool(
        "stop_task",
        "End a background task with all it started. No such task is E12.",
        {"task_id": _text("The id that run_shell gave, like task-3-0.")},
        "task_id",
    ),
    _tool(
        "fetch_url",
        "Fetch one page by GET and give its readable text; images as images. Kept for 15 minutes. "
        "Redirects are not followed: where they lead is told, and can be asked for. Only public "
        "addresses; anything else, and trouble on the way, is E14.",
        {"url": _text("The whole URL, with https:// or http://.")},
        "url",
        safe=True,
        timeout_s=60.0,
    ),
)
