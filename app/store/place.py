"""Where a database stands: one file with one name, whatever path led to it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from app.core.errors import StoreError


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
