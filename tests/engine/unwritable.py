"""A database that cannot be written for a while, as SQLite itself would say it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import pytest

from playground.core.events import Event
from playground.core.serialization import kind_of
from playground.engine.engine import Engine
from playground.store import database as database_module
from playground.store.database import Statement


class FullDisk:
    """The disk under `engine` is full while `on`; with `from_kind` it fills up by itself, right
    after an event of that kind was saved. `tries` counts what was not written."""

    def __init__(
        self, engine: Engine, patch: pytest.MonkeyPatch, from_kind: type[Event] | None = None
    ) -> None:
        self.on = False
        self.tries = 0
        self._kind = kind_of(from_kind) if from_kind is not None else None
        self._engine = engine
        self._write = engine.database._transaction
        patch.setattr(engine.database, "_transaction", self._transaction)
        patch.setattr(database_module, "PROBE_S", 0.01)

    async def _transaction(self, groups: Sequence[Sequence[Statement]], full: bool) -> None:
        if self.on:
            self.tries += 1
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorname = "SQLITE_FULL"
            raise error
        await self._write(groups, full)
        rows: list[Any] = [row for group in groups for statement in group for row in statement.rows]
        if self._kind is not None and any(self._kind in row for row in rows):
            self.on, self._kind = True, None

    async def noticed(self) -> None:
        """Until a write has failed."""
        sessions = self._engine.sessions
        while not sessions.health.trouble:
            await sessions.wait(sessions.position, sessions.list_version, 40)

    async def lifted(self) -> None:
        """There is room again, and that was noticed."""
        self.on = False
        sessions = self._engine.sessions
        while sessions.health.trouble:
            await sessions.wait(sessions.position, sessions.list_version, 40)
