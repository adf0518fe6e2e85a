"""Reads a Python file with an interpreter of the user's: runs it in the guarded process of Python
tools, and takes the tools that its framework's objects describe. Threat 14 of docs/safety.md.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from playground.core.errors import BadInput
from playground.core.json_values import load_json
from playground.core.tools import Tool
from playground.engine.engine import Engine
from playground.engine.sessions import new_id
from playground.exchange.parsers import UnreadableText
from playground.exchange.python_objects import tools_from_objects
from playground.exchange.python_source import MOST_BYTES
from playground.exchange.tool_entry import ImportedTools
from playground.executors.executor import Invocation
from playground.executors.python.executor import READER
from playground.net.threads import run_in_daemon

TIMEOUT_S = 60.0
"""The time for the imports of a file, in seconds; those of some frameworks take more than ten."""
MAX_OUTPUT = 4 * 1024 * 1024
PASTED = "pasted.py"


@dataclass(frozen=True)
class FileToRead:
    """What is to be read: the `file` at an absolute path, or the `text` of one called `name`, with
    the texts of `others` in the same folder, by relative name. `interpreter` is the absolute path
    of a Python, "" for this program's own without its packages."""

    file: str = ""
    text: str = ""
    name: str = ""
    others: Mapping[str, str] = field(default_factory=dict)
    interpreter: str = ""


async def read_python(engine: Engine, wanted: FileToRead) -> ImportedTools:
    """The tools of the file, or the problem that its code met. BadInput if it cannot be run."""
    for place, what in ((wanted.file, "file"), (wanted.interpreter, "interpreter")):
        if place and (not place.startswith(("/", "~")) or "\0" in place):
            raise BadInput(f"The {what} must be an absolute path. {place[:80]!a} is not.")
    if wanted.file:
        path = Path(os.path.expanduser(wanted.file))
        content = await asyncio.to_thread(_content, path)
        text = _decode(content)
        digest = hashlib.sha256(content).hexdigest()
        result = await _read(engine, wanted, path, text, file=str(path), digest=digest)
        if wanted.text.strip() and wanted.text.split() != text.split():
            note = f"{path} differs from the text that was sent. The file was used."
            result = replace(result, notes=(*result.notes, note))
        return result
    if not wanted.text.strip():
        raise BadInput("Name the path of a Python file, or send its text.")
    if len(wanted.text) > MOST_BYTES:
        raise BadInput(f"The text has more than {MOST_BYTES // 1024} kB. Split the file.")
    # The file may have moved or replaced its folder.
    with tempfile.TemporaryDirectory(prefix="playground-", ignore_cleanup_errors=True) as folder:
        path = await asyncio.to_thread(_write, Path(folder).resolve(), wanted)
        return await _read(engine, wanted, path, wanted.text)


def _content(path: Path) -> bytes:
    try:
        if not path.is_file():  # a pipe would never end
            raise BadInput(f"There is no file {path}; name the path of a Python file.")
        if path.stat().st_size > MOST_BYTES:
            raise BadInput(f"{path} has more than {MOST_BYTES // 1024} kB; split the file.")
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from None


def _decode(content: bytes) -> str:
    """The text of a Python file in the encoding that it declares, as Python reads it."""
    try:
        return importlib.util.decode_source(content)
    except (SyntaxError, LookupError, ValueError):  # Python refuses it, too, and says why
        return content.decode("utf-8-sig", "replace")


def _write(folder: Path, wanted: FileToRead) -> Path:
    """The pasted texts as files in `folder`; returns the path of the one to read."""
    own = wanted.name or PASTED
    own = own if own.endswith(".py") else f"{own}.py"
    for name, text in {**wanted.others, own: wanted.text}.items():
        path = folder / name
        if "\0" in name:
            raise BadInput(
                f"{name[:80]!a} cannot be the name of a file: it contains a NUL character."
            )
        try:
            if not path.resolve().is_relative_to(folder):
                raise BadInput(f"{name[:80]!a} is not the name of a file.")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8", "surrogatepass")
        except (OSError, ValueError) as error:  # too long, also the name of a folder
            why = getattr(error, "strerror", None) or error
            raise BadInput(f"{name[:80]!a} cannot be the name of a file: {why}.") from None
    return path


async def _read(
    engine: Engine, wanted: FileToRead, path: Path, text: str, file: str = "", digest: str = ""
) -> ImportedTools:
    """`text` is the content of `path`, which has this `digest` if it is a `file` of the user's."""
    config = {"file": READER, "function": "read", "keep": False}
    config |= {"interpreter": wanted.interpreter} if wanted.interpreter else {}
    invocation = Invocation(
        session=f"read-{new_id()}",
        call="1.1",
        attempt=1,
        tool=Tool("read", answered_by="python", config=config),
        arguments=json.dumps({"path": str(path), "digest": digest}),
        timeout_s=TIMEOUT_S,
        max_output=MAX_OUTPUT,
        folder=path.parent,
        idempotency_key="",
    )
    result = await engine.executors.run(invocation, lambda *_: None)
    if result.is_error:
        return ImportedTools(problem=engine.keys.redactor().redact_text(result.text))
    try:
        listed = load_json(result.text)
        return await run_in_daemon(tools_from_objects, listed, text, file, wanted.interpreter)
    except (ValueError, UnreadableText):
        return ImportedTools(problem="Its process did not return a list of tools.")
