"""Exceptions that a user can cause. Each has a sentence that says what to do.

    PlaygroundError
    ├── BadInput            the input cannot be used (usage, a tool, a setting)
    │   └── BadTool         ... with the position of the error in the tool
    ├── NotFound            no such session, call, tool or profile
    ├── Refused             the table "when a call may run" forbids it
    ├── Conflict            too late, or the card is stale; `outcome` is the current state
    ├── IllegalEvent        an event that cannot follow the earlier ones (a bug, or a lost race)
    └── StoreError          the database cannot be used
        ├── StoreUnwritable ... written now: the disk is full, the file is missing
        │   ├── StoreBusy   ... because another process holds it
        │   └── StoreGone   ... because its file was deleted, or moved
        └── StoreUnreadable ... by this user, or by a command that only reads

Failures of a provider or a tool are not exceptions, but events, or results with `is_error`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class PlaygroundError(Exception):
    """Base class. `str(error)` is the sentence for the user, `error_code` a stable code for
    programs (docs/contract.md)."""

    error_code = "failed"


class BadInput(PlaygroundError):
    """The input cannot be used."""

    error_code = "bad_input"


class BadTool(BadInput):
    """A tool definition that cannot be saved. `pointer` is the JSON pointer of the error, `line`
    its line in the text of the tool, from 1."""

    error_code = "bad_tool"

    def __init__(self, sentence: str, pointer: str = "", line: int | None = None) -> None:
        super().__init__(sentence)
        self.pointer = pointer
        self.line = line


class NotFound(PlaygroundError):
    """The thing does not exist."""

    error_code = "not_found"


class Refused(PlaygroundError):
    """The rules forbid it in the current state."""

    error_code = "refused"


class Conflict(PlaygroundError):
    """The decision came too late or from a stale card. `outcome` is the actual decision."""

    error_code = "conflict"

    def __init__(self, sentence: str, outcome: Mapping[str, Any] | None = None) -> None:
        super().__init__(sentence)
        self.outcome = dict(outcome or {})


class IllegalEvent(PlaygroundError):
    """An event that cannot follow the state of the session; nothing was changed."""

    error_code = "illegal_event"


class StoreError(PlaygroundError):
    """The database cannot be opened, read or written."""

    error_code = "store_error"


class StoreUnwritable(StoreError):
    """The database temporarily cannot be written; nothing was changed."""

    error_code = "store_unwritable"


class StoreBusy(StoreUnwritable):
    """Another process holds the database."""

    error_code = "store_busy"


class StoreGone(StoreUnwritable):
    """The file of the open database no longer exists."""

    error_code = "store_gone"


class StoreUnreadable(StoreError):
    """This user may not read the file, or it must first be migrated."""

    error_code = "store_unreadable"
