"""`playground export`: a session as a file. Only reads, even while a server owns the database."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from playground import config
from playground.core.errors import BadInput, NotFound
from playground.engine.export_session import read_bundle_from, redact_bundle
from playground.exchange.bundle import DEFAULT_BASE, ExportFile, SessionBundle
from playground.exchange.export_formats import EXPORTS
from playground.exchange.session_redaction import Redaction
from playground.net.keys import Keys
from playground.store.database import Database, owner_of, readable_database
from playground.store.log import Log


def main(arguments: argparse.Namespace) -> int:
    """0; the file is complete, or not written."""
    if arguments.form not in EXPORTS:
        raise BadInput(f"There is no format {arguments.form!r}. Choose from {', '.join(EXPORTS)}.")
    for warning in config.load_env(Path.cwd(), arguments.env_file):
        print(f"playground: {warning}", file=sys.stderr)
    path = readable_database(arguments.db or config.default_db())
    redacted = redact_bundle(
        asyncio.run(_read_session(path, arguments.session, arguments.form)),
        Keys(simulator_key=config.read_token(path) or "").secrets(),
        config.env_values(Path.cwd(), arguments.env_file),
        arguments.without,
    )
    written = EXPORTS[arguments.form].write(redacted.bundle)
    _put(arguments, written, redacted.marks)
    return 0


async def _read_session(path: Path, session_id: str, form: str) -> SessionBundle:
    database = await Database.open(path, owner=False)
    try:
        if await database.is_empty():
            raise NotFound(f"There is no session {session_id[:80]!r}.")
        owner = owner_of(path)
        here = owner.url if owner is not None and owner.url else DEFAULT_BASE
        return await read_bundle_from(await Log.open(database), session_id, here, form)
    finally:
        await database.close()


def _put(arguments: argparse.Namespace, written: ExportFile, marks: Sequence[Redaction]) -> None:
    if arguments.output is not None:
        _save(arguments.output, written.data)
    redactions = [f"Masked in {mark.where}: {mark.count}." for mark in marks]
    for sentence in (*written.notes, *redactions):
        print(f"playground: {config.one_line(sentence)}", file=sys.stderr)
    if arguments.json:
        masked = [{"where": mark.where, "count": mark.count} for mark in marks]
        data = {
            "file": str(arguments.output or written.file_name),
            "media_type": written.media_type,
            "notes": list(written.notes),
        }
        text = {} if arguments.output else {"text": written.data.decode("utf-8", "replace")}
        print(json.dumps({**data, "masked": masked, **text}))
    elif arguments.output is None:
        sys.stdout.buffer.write(written.data)
        sys.stdout.flush()


def _save(path: Path, data: bytes) -> None:
    """Private to this user, and atomic: an existing file is replaced completely or not at all."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(data)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        message = f"{path} cannot be written ({error.strerror}). Name another file with -o."
        raise BadInput(message) from error
