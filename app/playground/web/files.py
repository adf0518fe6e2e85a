"""The Files page of a session: its scratch folder, one file, its changes, and undo by the user.

Also the Stop button of a background task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from playground.core.errors import BadInput, Conflict, NotFound
from playground.core.events import STOPPED_BY_USER
from playground.core.tools import image_type
from playground.executors.workspace import FolderEntry, WorkspaceError
from playground.executors.workspace.files import MAX_FILE, FileChange, History, diff
from playground.web.forms import answer, answer_format, as_json, body_of
from playground.web.site import Site, site_of

T = TypeVar("T")

MOST_ROWS = 500
SHOWN = 100_000
"""Files listed, and characters shown of one."""


async def files(request: Request) -> Response:
    """GET /sessions/ID/files?path=&change=: lists the folder of a session. With `path` a file of
    it, with `change` a diff."""
    site, session_id = site_of(request), request.path_params["id"]
    async with site.engine.sessions.lock_session(session_id) as live:
        title = live.title
    path, number = request.query_params.get("path", ""), _number(request.query_params.get("change"))

    def read_page(history: History) -> FilesPage:
        return _page(history, session_id, title, path, number)

    page = await _run_on_files(site, session_id, read_page)
    if answer_format(request) == "json":
        return as_json(_page_data(page))
    return HTMLResponse(files_page(site.env, page))


async def undo(request: Request) -> Response:
    """POST /sessions/ID/files/undo: restores what change `change` replaced. 409 if the file was
    changed since."""
    body, site, session_id = await body_of(request), site_of(request), request.path_params["id"]
    given = body.data.get("change")
    number = given if type(given) is int else _number(str(given))
    if not number:
        raise BadInput("change must be the number of a change.")
    async with site.engine.sessions.lock_session(session_id) as live:
        live.check_open()
    at_ms = site.engine.sessions.clock()
    back = await _run_on_files(site, session_id, lambda history: history.undo(number, at_ms))
    here = f"/sessions/{session_id}/files"
    return answer(request, {"ok": True, "path": back.path}, location=here)


async def stop_task(request: Request) -> Response:
    """POST /sessions/ID/tasks/TASK/stop: stops a task in the background."""
    site, session_id = site_of(request), request.path_params["id"]
    task_id = request.path_params["task"]
    async with site.engine.sessions.lock_session(session_id) as live:
        task = live.session.tasks.get(task_id)
        call = live.session.call(task.call) if task is not None else None
    if task and task.ended_ms is not None and call and call.task_id == task_id:
        raise Conflict(f"Task {task_id} is over: {task.how}.")
    how = STOPPED_BY_USER
    if not await site.engine.runner.stop_task(session_id, task_id):
        how = await site.engine.workspace.tasks.stop(session_id, task_id, how)
    location = "" if request.headers.get("hx-request") else f"/sessions/{session_id}"
    return answer(request, {"ok": True, "how": how}, location=location)


async def _run_on_files(site: Site, session_id: str, work: Callable[[History], T]) -> T:
    """Runs `work` on the session's files; errors become errors of the page."""
    folder = site.engine.files / session_id
    try:
        return await asyncio.to_thread(site.engine.workspace.history, session_id, folder, work)
    except WorkspaceError as trouble:
        sentence = trouble.sentence
        match trouble.code:
            case "E2":
                raise Conflict(sentence) from None
            case "E6":
                raise NotFound(sentence) from None
        raise BadInput(sentence) from None


def _page(history: History, session_id: str, title: str, path: str, number: int) -> FilesPage:
    entries = list(history.files.walk()) if history.files.root.is_dir() else []
    rows = [_row(entry) for entry in entries[:MOST_ROWS]]
    last = {change.path: change.number for change in history.changes}
    changes = [_change(change, last[change.path]) for change in reversed(history.changes)]
    more = max(len(entries) - MOST_ROWS, 0)
    page = (session_id, title, rows, more, changes)
    if number:
        change = history.change(number)
        try:
            before, after = (history.bytes_of(version) for version in (change.before, change.after))
        except WorkspaceError as trouble:
            return FilesPage(*page, path=change.path, number=number, notice=trouble.sentence)
        if b"\0" in before[:8192] + after[:8192]:
            sentence = "These files are not text, so no difference can be shown."
            return FilesPage(*page, path=change.path, number=number, notice=sentence)
        lines = diff_lines(
            diff(before.decode("utf-8", "replace"), after.decode("utf-8", "replace"))
        )
        return FilesPage(*page, path=change.path, number=number, diff=lines)
    if not path:
        return FilesPage(*page)
    data, _ = history.files.read(path, MAX_FILE)
    if image_type(data) or b"\0" in data[:8192]:
        sentence = f"{image_type(data) or 'No text'}, {len(data):,} bytes."
        return FilesPage(*page, path=path, notice=sentence)
    text = data.decode("utf-8", "replace")
    return FilesPage(*page, path=path, text=text[:SHOWN], more=max(len(text) - SHOWN, 0))


def _row(entry: FolderEntry) -> FileRow:
    name = entry.path.encode("utf-8", "backslashreplace").decode("utf-8")
    return FileRow(name, entry.path if name == entry.path else "", entry.kind, entry.size)


def _change(change: FileChange, last: int) -> ChangeRow:
    """Undo is offered only for the `last` change of a file: an earlier undo would lose it."""
    words = "removed" if not change.after else "changed" if change.before else "made"
    by = change.by if change.by.startswith("undo") else f"call {change.by}"
    undo = change.number == last
    return ChangeRow(
        change.number,
        path=change.path,
        by=by,
        at_ms=change.at_ms,
        words=words,
        undo=undo,
        undone=change.undone,
    )


def _page_data(page: FilesPage) -> dict[str, object]:
    """The page's data, for scripts."""
    return {
        "files": [{"path": row.name, "kind": row.kind, "size": row.size} for row in page.rows],
        "changes": [
            {"change": change.number, "path": change.path, "by": change.by, "undone": change.undone}
            for change in page.changes
        ],
        "path": page.path,
        "text": page.text,
        "diff": "\n".join(line.text for line in page.diff),
    }


def _number(text: str | None) -> int:
    """The number of a change; 0, which is never used, for anything else."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0


@dataclass(frozen=True)
class FileRow:
    """`kind` is file, folder, link or other; `size` in bytes. `name` is for display, `path` is ""
    if it cannot be opened."""

    name: str
    path: str
    kind: str
    size: int


@dataclass(frozen=True)
class ChangeRow:
    """`by` is the call or undo that made it; `undo` whether it is offered; `words` describes it."""

    number: int
    path: str
    by: str
    at_ms: int
    words: str
    undo: bool
    undone: bool


@dataclass(frozen=True)
class DiffLine:
    """`kind` is added, gone, place or same."""

    kind: str
    text: str


@dataclass(frozen=True)
class FilesPage:
    """`path` is the shown file, "" for none; `text` its beginning, `more` the number of characters
    cut; `notice` replaces the text. `diff` is that of change `number`."""

    session: str
    title: str
    rows: Sequence[FileRow]
    more_rows: int
    changes: Sequence[ChangeRow]
    path: str = ""
    text: str = ""
    more: int = 0
    notice: str = ""
    number: int = 0
    diff: Sequence[DiffLine] = ()


def diff_lines(diff: str) -> list[DiffLine]:
    """A unified diff, line by line."""
    kinds = {"+": "added", "-": "gone", "@": "place"}
    return [DiffLine(kinds.get(line[:1], "same"), line) for line in diff.split("\n")]


def files_page(env: Environment, page: FilesPage) -> str:
    return env.get_template("files.html").render(page=page)
