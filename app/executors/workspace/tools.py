"""The group `workspace`: what works in a scratch folder of the session, as a model sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.core.tools import Tool

_PATH = {"type": "string", "description": "A path in the scratch folder, like src/main.py."}
_SAYS = "Paths are relative to the scratch folder; outside it is E5, no such file E6."


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


def _whole(words: str, least: int, most: int) -> dict[str, Any]:
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
            "offset": _whole("The first line to read, from 1. The first if left out.", 1, 10**8),
            "limit": _whole("How many lines to read. 2000 if left out.", 1, 20_000),
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
            "around": _whole("Lines to give before and after each hit. 0 if left out.", 0, 20),
            "head_limit": _whole("How many lines to give at most. 200 if left out.", 1, 2_000),
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
            "description": _text("What it is for, in a few words, for the person who decides."),
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
