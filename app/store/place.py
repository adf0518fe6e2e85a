"""Where a database stands: one file with one name, whatever path led to it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from app.core.errors import NotFound, StoreError, StoreUnreadable


def place_of(path: Path) -> Path:
    """The path of the database itself, behind symbolic links, whether it is there or not yet.

    What stands beside it (lock, token, write-ahead log, files of sessions) is then the same for
    whoever comes by another path. StoreError where the links lead nowhere, or where the file has
    several names (hard links): beside each of them stands another lock. Never opens the file.
    """
    try:
        place = path.resolve()
    except (OSError, RuntimeError) as error:  # links in a circle: a RuntimeError before 3.13
        raise StoreError(
            f"{path} is a link that leads nowhere; name the file itself with --db FILE."
        ) from error
    names = 1
    with suppress(OSError):  # there is none yet, or opening it says more
        names = place.stat().st_nlink if place.is_file() else 1
    if names > 1:
        raise StoreError(
            f"{place} is one file with {names} names (hard links): through another name a second "
            "program could use it at the same time and damage it. Remove the other names (find "
            f"them with: find DIR -samefile {place.name}), or copy it and name the copy with --db "
            "FILE."
        )
    return place


def place_to_read(path: Path) -> Path:
    """The path of a database that is there. NotFound where there is none; StoreUnreadable where
    this user may not read it."""
    place = place_of(path)
    try:
        place.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"There is no database {path}; name one with --db FILE.") from None
    except OSError as error:
        raise _unreadable(path, error.strerror or "it cannot be looked at") from error
    # Asked of the system and not tried: to close a file takes away the locks that SQLite has on it.
    if not os.access(place, os.R_OK):
        raise _unreadable(path, "Permission denied")
    return place


def _unreadable(path: Path, reason: str) -> StoreUnreadable:
    return StoreUnreadable(
        f"Cannot read {path} ({reason}). Check its permissions, or name another file with "
        "--db FILE."
    )
