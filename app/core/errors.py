"""Every exception a user can cause. Each carries one sentence that says what to do.

    PlaygroundError
    ├── BadInput            what was given cannot be used (usage, a tool, a setting)
    │   └── BadTool         ... with the place of the error in the tool
    ├── NotFound            there is no such session, call, tool or profile
    ├── Refused             the table "when a call may run" forbids it
    ├── Conflict            somebody was quicker, or the card is stale; `outcome` says what holds
    ├── IllegalEvent        an event that cannot follow what came before (a bug, or a race lost)
    └── StoreError          the database cannot be used
        ├── StoreUnwritable ... written right now: the disk is full, the file is not there
        │   ├── StoreBusy   ... because another process holds it
        │   └── StoreGone   ... because its file was deleted, or moved
        └── StoreUnreadable ... by this user, or by a command that only reads

Trouble at a provider or in a tool is no exception: it is an event, or a result with `is_error`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class PlaygroundError(Exception):
    """Base of all. `str(error)` is the sentence for the user, `error_code` the word for programs,
    which never changes (docs/contract.md)."""

    error_code = "failed"


class BadInput(PlaygroundError):
    """What was given cannot be used."""

    error_code = "bad_input"


class BadTool(BadInput):
    """A tool definition that cannot be saved. `pointer` is the JSON pointer of the place, `line`
    that of the text in which the tool was written, from 1."""

    error_code = "bad_tool"

    def __init__(self, sentence: str, pointer: str = "", line: int | None = None) -> None:
        super().__init__(sentence)
        self.pointer = pointer
        self.line = line


class NotFound(PlaygroundError):
    """There is no such thing."""

    error_code = "not_found"


class Refused(PlaygroundError):
    """The rules forbid it as it stands."""

    error_code = "refused"


class Conflict(PlaygroundError):
    """The decision came too late or from a stale card. `outcome` is what was decided instead."""

    error_code = "conflict"

    def __init__(self, sentence: str, outcome: Mapping[str, Any] | None = None) -> None:
        super().__init__(sentence)
        self.outcome = dict(outcome or {})


class IllegalEvent(PlaygroundError):
    """An event that cannot follow what the session holds; nothing was changed."""

    error_code = "illegal_event"


class StoreError(PlaygroundError):
    """The database cannot be opened, read or written."""

    error_code = "store_error"


class StoreUnwritable(StoreError):
    """Nothing can be written now; that passes, and nothing was changed."""

    error_code = "store_unwritable"


class StoreBusy(StoreUnwritable):
    """Another process holds the database."""

    error_code = "store_busy"


class StoreGone(StoreUnwritable):
    """The file of the open database is not there any more."""

    error_code = "store_gone"


class StoreUnreadable(StoreError):
    """This user may not read the file, or it must first be updated."""

    error_code = "store_unreadable"
