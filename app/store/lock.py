"""One process owns a database: an advisory lock on a file beside it, holding pid and URL."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path

from app.core.errors import StoreBusy, StoreError


@dataclass(frozen=True)
class Owner:
    """Who owns the database now. `url` is "" for an owner that serves nothing."""

    pid: int
    url: str


def lock_path(database: Path) -> Path:
    return database.with_name(database.name + ".lock")


def owner_of(database: Path) -> Owner | None:
    """The live owner of `database`, or None. Never takes the lock for longer than a look."""
    try:
        file = lock_path(database).open("r+", encoding="utf-8")
    except OSError:
        return None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return _read(file.read())
    return None


def busy_error(database: Path, owner: Owner | None) -> StoreBusy:
    """The error of the second program."""
    where = f" at {owner.url}" if owner and owner.url else ""
    who = f" (process {owner.pid}{where})" if owner and owner.pid else ""
    return StoreBusy(
        f"Another playground{who} is using {database}. "
        "Use that one, or name another database with --db FILE."
    )


class OwnerLock:
    """Held from `take` to `release`; the system releases it when the process dies."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._path = lock_path(database)
        self._fd: int | None = None
        self._url = ""

    def take(self) -> None:
        """StoreBusy, naming the owner, where another process holds it."""
        try:
            self._database.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreError(
                f"Cannot write beside {self._database}: {error.strerror}. "
                "Name another place with --db FILE."
            ) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            raise busy_error(self._database, owner_of(self._database)) from error
        self._fd = fd
        self.tell(self._url)

    def renew(self) -> None:
        """Take it once more where its file was deleted: nobody would see that it is held.
        StoreBusy where another process has taken it since."""
        held = self._fd
        assert held is not None
        try:
            if self._path.stat().st_ino == os.fstat(held).st_ino:
                return
        except FileNotFoundError:
            pass
        self.take()
        os.close(held)

    def tell(self, url: str) -> None:
        """Write who we are and where we serve into the lock file."""
        assert self._fd is not None
        self._url = url
        text = json.dumps({"pid": os.getpid(), "url": url})
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, text.encode(), 0)

    def release(self) -> None:
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None


def _read(text: str) -> Owner | None:
    try:
        data = json.loads(text)
        return Owner(int(data["pid"]), str(data["url"]))
    except (ValueError, KeyError, TypeError):
        return Owner(0, "")
