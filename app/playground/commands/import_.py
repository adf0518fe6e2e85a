"""`playground import`: imports a session, a request, a curl command or a HAR; here or through the
server."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path

from playground import config
from playground.commands.run import RemoteServer
from playground.core.errors import BadInput, PlaygroundError
from playground.engine.engine import Engine
from playground.engine.import_session import import_session
from playground.exchange.bundle import MAX_BYTES
from playground.net.client import HttpClient
from playground.store.database import database_path, owner_of


def main(arguments: argparse.Namespace) -> int:
    """0; if the file cannot be read, nothing is stored."""
    data = _data(arguments.file)
    path = database_path(arguments.db or config.default_db())
    owner = owner_of(path)
    if owner is not None and owner.url:
        session_id = asyncio.run(_import_remotely(owner.url, config.read_token(path) or "", data))
    else:
        session_id = asyncio.run(_import_here(path, data))
    print(json.dumps({"id": session_id}) if arguments.json else session_id)
    return 0


def _data(path: Path) -> bytes:
    try:
        return config.read_file(path, MAX_BYTES)
    except OSError as error:
        message = f"Cannot read {path} ({error.strerror}); name a readable file."
        raise BadInput(message) from error


async def _import_here(path: Path, data: bytes) -> str:
    engine = await Engine.open(path, simulator_url=_no_url, simulator_key="")
    try:
        return await import_session(engine, data)
    finally:
        await engine.close()


def _no_url() -> str:
    raise PlaygroundError("Nothing is sent during an import.")


async def _import_remotely(base_url: str, token: str, data: bytes) -> str:
    net = HttpClient()
    try:
        answer = await RemoteServer(net, base_url, token).send("/sessions/import", data)
    finally:
        await net.aclose()
    return str(answer["id"])
