"""`playground sessions`: the list, read-only."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from datetime import datetime
from pathlib import Path

from playground import config
from playground.core.errors import NotFound
from playground.store.database import Database, readable_database
from playground.store.log import Log
from playground.store.search import parse_query
from playground.store.search import search as find
from playground.store.writes import Summary

MOST = 10_000
"""The maximum number of sessions in a search result."""

PATIENCE_S = 20.0
"""Seconds that a search may take here, where no page waits for it."""


def main(arguments: argparse.Namespace) -> int:
    """0. If no database is given, and the user's own does not exist yet, there are no sessions."""
    try:
        path = readable_database(arguments.db or config.default_db())
    except NotFound:
        if arguments.db is not None:
            raise
        summaries = list[Summary]()
    else:
        summaries = asyncio.run(_sessions(path, arguments.search))
    if arguments.json:
        print(json.dumps([_data(session) for session in summaries]))
        return 0
    for session in summaries:
        when = datetime.fromtimestamp(session.updated_ms / 1000).strftime("%Y-%m-%d %H:%M")
        print(f"{session.id}  {when}  {session.state:<11}  {config.one_line(session.title)}")
    return 0


async def _sessions(path: Path, search: str) -> list[Summary]:
    database = await Database.open(path, owner=False)
    try:
        if await database.is_empty():
            return []
        if search.strip():
            hits = await find(path, parse_query(search), MOST, PATIENCE_S)
            if hits.more or hits.cut:
                print(
                    "playground: there are more sessions. Add search terms to narrow the list.",
                    file=sys.stderr,
                )
            return [hit.session for hit in hits.hits]
        return await (await Log.open(database)).summaries(limit=-1, archived=True)
    finally:
        await database.close()


def _data(session: Summary) -> dict[str, object]:
    return {
        "id": session.id,
        "title": session.title,
        "state": session.state,
        "updated": session.updated_ms,
    }
