"""The SQLite file: opening it, migrating it (`schema`), and its single writer.

Every write goes through `Database.write`: as soon as the last commit is done, the writer commits
everything queued, over all sessions. A write with full durability is synced to disk before it
completes; the others survive a killed process, but not a power cut.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiosqlite

from playground.core.errors import (
    Conflict,
    NotFound,
    StoreBusy,
    StoreError,
    StoreGone,
    StoreUnreadable,
    StoreUnwritable,
)
from playground.store.schema import MIGRATIONS

# Whether the database can be written, judged by the last write, and waiting until it can.

log = logging.getLogger("playground")

PROBE_S = 1.0
"""Seconds between attempts to write while the database cannot be written."""
CALM_S = 5.0
"""Seconds without failure after which a past write failure is no longer shown."""


class Health:
    """`trouble` is why nothing can be written now, else None. `told` is the same for display: it
    stays for a while, because on a nearly full disk writes alternately fail and succeed;
    `unsteady`: one has succeeded since. `clock` counts seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.trouble: StoreUnwritable | None = None
        self.told: StoreUnwritable | None = None
        self.unsteady = False
        self._well_since = 0.0
        self._well = asyncio.Event()
        self._well.set()
        self._troubled = asyncio.Event()
        self._watching: list[Callable[[], object]] = []
        self._ending = False

    def watch(self, callback: Callable[[], object]) -> None:
        """`callback` is called whenever `trouble` or `told` changes."""
        self._watching.append(callback)

    def mark_failed(self, trouble: StoreUnwritable) -> None:
        """A write failed for a temporary reason."""
        if self.trouble is None:
            log.warning("Nothing can be saved: %s", trouble)
        if str(self.trouble) != str(trouble):
            self._set_trouble(trouble)

    def mark_working(self) -> None:
        """A write was committed."""
        if self.trouble is not None:
            log.warning("The database is writable again.")
            self._set_trouble(None)

    def refresh(self) -> None:
        """Called periodically: clears `told` after CALM_S without failures."""
        passed = self.trouble is None and self.clock() - self._well_since >= CALM_S
        if self.told is not None and passed:
            self._tell(None, unsteady=False)

    def _set_trouble(self, trouble: StoreUnwritable | None) -> None:
        before, self.trouble = self.trouble, trouble
        for now, event in ((trouble is None, self._well), (trouble is not None, self._troubled)):
            (event.set if now else event.clear)()
        if trouble is not None:
            self._tell(trouble, unsteady=self.unsteady)
        elif isinstance(before, StoreGone):  # a deleted file does not come and go
            self._tell(None, unsteady=False)
        else:
            self._well_since = self.clock()
            self._tell(self.told, unsteady=True)

    def _tell(self, trouble: StoreUnwritable | None, *, unsteady: bool) -> None:
        self.told, self.unsteady = trouble, unsteady
        for watching in self._watching:
            watching()

    def end(self) -> None:
        """The program ends: all waits return."""
        self._ending = True
        self._well.set()

    async def wait_for_retry(self, pause_s: float = PROBE_S) -> bool:
        """Waits until another attempt makes sense: until the database can be written, or if it can
        (the failure was elsewhere) for `pause_s` seconds. False if the program ends, so that
        nothing should wait any more."""
        if self._ending:
            return False
        if self.trouble is None:
            await asyncio.sleep(pause_s)
        else:
            await self._well.wait()
        return True

    async def wait_or_trouble(self, tasks: Collection[asyncio.Future[Any]]) -> None:
        """Waits until all `tasks` are done, or the database cannot be written, because the tasks
        would then wait for it. At the end of the program waits for the tasks only."""
        if self._ending:
            await asyncio.wait(tasks)
            return
        done = asyncio.ensure_future(asyncio.wait(tasks))
        troubled = asyncio.ensure_future(self._troubled.wait())
        try:
            await asyncio.wait([done, troubled], return_when=asyncio.FIRST_COMPLETED)
        finally:
            done.cancel()
            troubled.cancel()


APPLICATION_ID = 0x706C6179  # "play"
QUICK_CHECK_BYTES = 64 * 1024 * 1024
"""A file up to this size is checked when opened; checking a larger one would delay the start."""

LOOK_S = 2.0
"""Seconds between checks that the file still exists while nothing is written."""

_ROWS_AT_ONCE = 64
"""Rows fetched from a cursor in one step."""

PATIENCE_S = 2.0
"""Seconds after which a message says that a file is being migrated."""


@dataclass(frozen=True)
class Statement:
    """One SQL statement with the rows to execute it for. SQLite makes two copies of a value, so
    large content is split into many rows, generated one after the other.

    A query (with `take`) runs in the transaction: `take` gets the results for each of `rows`, in
    the writer's thread, so that the rows of later statements can depend on them."""

    sql: str
    rows: Iterable[Sequence[Any]]
    take: Callable[[list[Any]], None] | None = None


PROBE = (
    Statement("INSERT OR REPLACE INTO confirmations VALUES ('', '')", [()]),
    Statement("DELETE FROM confirmations WHERE name = ''", [()]),
)
"""Writes a page and leaves no data."""


@dataclass
class _Write:
    statements: Sequence[Statement]
    full: bool
    done: asyncio.Future[None]


class _Connection(aiosqlite.Connection):
    """A connection that runs a whole transaction in its thread: passing each statement and awaiting
    it takes several times as long as most statements."""

    async def transact(self, groups: Sequence[Sequence[Statement]], full: bool) -> None:
        """Writes all of `groups`, or nothing."""
        # The thread references its last job until the next one; the list lets it drop the rows.
        given = [groups]
        del groups
        await self._execute(self._transact, given, full)  # type: ignore[no-untyped-call]

    def _transact(self, given: list[Sequence[Sequence[Statement]]], full: bool) -> None:
        groups = given.pop()
        connection = self._conn
        connection.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statements in groups:
                for statement in statements:
                    if statement.take is None:
                        connection.executemany(statement.sql, statement.rows)
                        continue
                    for values in statement.rows:
                        statement.take(connection.execute(statement.sql, values).fetchall())
            connection.execute("COMMIT")
        except Exception:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise


class Database:
    """Open with `open`, end with `close`. `owner` False opens read-only, for inspection."""

    def __init__(self, path: Path, writer: _Connection | None, reader: aiosqlite.Connection):
        self.path = path
        self._writer = writer
        self._reader = reader
        self.health = Health()
        self._queue: asyncio.Queue[_Write | None] = asyncio.Queue()
        self._probing: asyncio.Task[None] | None = None
        self._closed = False
        self._file, self._wal = _identity(path), _wal_of(path)
        self._open = asyncio.Event()
        self._open.set()
        self._task = asyncio.create_task(self._write_all()) if writer is not None else None
        self._looking = asyncio.create_task(self._watch_file()) if writer is not None else None

    @classmethod
    async def open(
        cls, path: Path, *, owner: bool = True, notify: Callable[[str], None] | None = None
    ) -> Database:
        """Opens the file. StoreError with a sentence if it cannot be used; never overwrites it.

        `notify` gets a sentence if the migration takes long.
        """
        opened: list[aiosqlite.Connection] = []
        writer: _Connection | None = None
        if path.is_dir():
            raise StoreError(f"{path} is a folder. Name a file in it with --db FILE.")
        try:
            if owner:
                writer = await _open_writer(path, notify)
                opened.append(writer)
            opened.append(await _connect(path, read_only=True))
            if not owner:
                await _check_identity(opened[0], path)
                await _check_readable(opened[0], path)
        except BaseException as error:
            for connection in opened:
                await connection.close()
            match error:
                case sqlite3.Error() if not owner and _is_out_of_reach(error):
                    raise StoreUnreadable(
                        f"Cannot read {path} ({error}): to read it, SQLite needs to write a file "
                        "next to it. Copy it to a folder that you can write to, and name the "
                        "copy with --db FILE."
                    ) from error
                case sqlite3.Error() | UnicodeDecodeError():
                    raise store_error(error, path) from error
                case OSError():
                    raise StoreError(
                        f"Cannot open {path}: {error.strerror}. Name another file with --db FILE."
                    ) from error
            raise
        return cls(path, writer, opened[-1])

    async def write(self, statements: Sequence[Statement], *, full: bool = False) -> None:
        """Returns after the commit. Cancelling the caller does not undo what it queued."""
        await asyncio.shield(self.submit(statements, full=full))

    def submit(
        self, statements: Sequence[Statement], *, full: bool = False
    ) -> asyncio.Future[None]:
        """Queues a write; the future is done when it and everything queued until then is
        committed. StoreError after `close`."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._closed:
            problem = f"{self.path} is closed, because the program is ending. This was not saved."
            done.set_exception(StoreError(problem))
        else:
            self._queue.put_nowait(_Write(statements, full, done))
        return done

    async def rows(self, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """All rows of a query, as committed when it began."""
        await self._open.wait()
        try:
            # One step: if another query began in between it would share this one's snapshot.
            return list(await self._reader.execute_fetchall(sql, values))
        except (sqlite3.Error, UnicodeError) as error:
            raise store_error(error, self.path) from error

    async def is_empty(self) -> bool:
        """Whether the file is new and nothing was ever written to it."""
        return not (await self.rows("PRAGMA user_version"))[0][0]

    async def free_pages(self, pages: int) -> None:
        """Returns up to `pages` free pages to the system, if the file was created for that."""
        assert self._writer is not None
        try:
            async with self._writer.execute(f"PRAGMA incremental_vacuum({pages})") as cursor:
                await cursor.fetchall()
        except sqlite3.Error as error:
            raise store_error(error, self.path) from error

    async def close(self) -> None:
        self._closed = True
        for task in (self._probing, self._looking):
            if task is not None:
                task.cancel()
        if self._task is not None:
            self._queue.put_nowait(None)
            await self._task
        # The writer last: the last connection to close merges the write-ahead log into the file.
        await self._reader.close()
        if self._writer is not None:
            await self._writer.close()

    async def _write_all(self) -> None:
        assert self._writer is not None
        while True:
            batch = [await self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get_nowait())
            writes = [write for write in batch if write is not None]
            if writes:
                await self._commit(writes)
            if len(writes) < len(batch):
                return
            del batch, writes  # frees them while it waits for the next write

    async def _commit(self, writes: Sequence[_Write]) -> None:
        try:
            await self._transaction([w.statements for w in writes], any(w.full for w in writes))
        except Exception as error:
            if len(writes) > 1:  # one bad write must not fail the others
                for write in writes:
                    await self._commit([write])
                return
            failure = error if isinstance(error, StoreError) else store_error(error, self.path)
            if isinstance(failure, StoreUnwritable):
                self._mark_failed(failure)
            if not writes[0].done.done():
                writes[0].done.set_exception(failure)  # the writer keeps running
            return
        self.health.mark_working()
        for write in writes:
            if not write.done.done():
                write.done.set_result(None)

    def _check_file(self) -> None:
        """StoreUnwritable if the file was moved or is not writable: SQLite would keep writing to
        the open file, and all that would be lost when the program ends."""
        try:
            status = self.path.stat()
        except FileNotFoundError as error:
            raise StoreGone(
                f"The database {self.path} was deleted or moved while in use. Put it back, or "
                "have the page write its contents there again."
            ) from error
        except OSError as error:
            raise StoreUnwritable(f"Cannot read {self.path}: {error.strerror}.") from error
        if (status.st_dev, status.st_ino) != self._file:
            raise StoreUnwritable(
                f"The database {self.path} was replaced by another file. Nothing is saved into "
                "that file. Move it away, and put the database back."
            )
        if not status.st_mode & 0o222 or not os.access(self.path, os.W_OK):
            raise StoreUnwritable(
                f"{self.path} was made read-only. Make it writable again: chmod u+w {self.path}"
            )

    async def write_anew(self) -> None:
        """Writes the open database to its path after the file was deleted, and goes on with that
        file.

        Conflict if the file exists; StoreError if it could not be written.
        """
        try:
            self._check_file()
        except StoreGone:
            pass
        else:
            raise Conflict(f"{self.path} exists, so nothing has to be written.")
        assert self._writer is not None
        copy = self.path.with_name(f"{self.path.name}.copy-{os.getpid()}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            copy.unlink(missing_ok=True)
            os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            await self._writer.execute("VACUUM INTO ?", (str(copy),))
            await asyncio.to_thread(_sync, copy)
            os.link(copy, self.path)  # never replaces a file created meanwhile
        except FileExistsError as error:
            raise Conflict(f"There is another file at {self.path} now. Move it away.") from error
        except sqlite3.Error as error:
            raise store_error(error, self.path) from error
        except OSError as error:
            raise StoreUnwritable(f"Cannot write {self.path}: {error.strerror}.") from error
        finally:
            copy.unlink(missing_ok=True)
        await self._reopen()
        await self.write(PROBE)

    async def _reopen(self) -> None:
        """Closes the deleted file and opens the one now at the path; queries wait until then.
        StoreError if it cannot be opened: then only a restart helps."""
        assert self._writer is not None
        self._open.clear()
        try:
            # The last connection to close merges the write-ahead log into its file and deletes what
            # has the log's name: no old log may remain next to a new file.
            await self._reader.close()
            await self._writer.close()
            for end in ("-wal", "-shm"):
                self.path.with_name(self.path.name + end).unlink(missing_ok=True)
            self._writer = await _open_writer(self.path)
            self._reader = await _connect(self.path, read_only=True)
            self._file, self._wal = _identity(self.path), _wal_of(self.path)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"{self.path} cannot be reopened ({error}). Restart the program."
            ) from error
        finally:
            self._open.set()

    def _mark_failed(self, trouble: StoreUnwritable) -> None:
        """Records the failure and retries until something can be written."""
        self.health.mark_failed(trouble)
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(self._probe())

    async def _watch_file(self) -> None:
        """Detects an unwritable file while there are no writes, which would detect it."""
        while True:
            await asyncio.sleep(LOOK_S)
            if self._open.is_set() and self.health.trouble is None:
                try:
                    self._check_file()
                except StoreUnwritable as trouble:
                    self._mark_failed(trouble)
            self.health.refresh()

    async def _probe(self) -> None:
        while self.health.trouble is not None:
            await asyncio.sleep(PROBE_S)
            with suppress(StoreError):
                await self.write(PROBE)

    async def _transaction(self, groups: Sequence[Sequence[Statement]], full: bool) -> None:
        await self._open.wait()
        self._check_file()
        if self._wal is not None and not self._wal.exists():
            await self._reopen()  # else its content is lost when the program ends
        assert self._writer is not None
        await self._writer.transact(groups, full)


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _wal_of(path: Path) -> Path | None:
    """The write-ahead log, if the file system supports one."""
    wal = path.with_name(path.name + "-wal")
    return wal if wal.exists() else None


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


async def _connect(path: Path, *, read_only: bool) -> _Connection:
    uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}"
    # Opened here: if aiosqlite fails to open, its thread may report to a loop that is closed.
    raw = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=5.0, check_same_thread=False)
    connection = _Connection(lambda: raw, _ROWS_AT_ONCE)
    await connection
    connection.row_factory = sqlite3.Row
    return connection


async def _open_writer(path: Path, notify: Callable[[str], None] | None = None) -> _Connection:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    connection = await _connect(path, read_only=False)
    try:
        await _check_identity(connection, path)
        _make_private(path)
        if path.stat().st_size <= QUICK_CHECK_BYTES:
            verdict = await _value(connection, "PRAGMA quick_check(1)")
            if verdict != "ok":
                raise _damage_error(path, str(verdict))
        if not path.stat().st_size:
            # Takes effect on new files only (others would just be written to at each start), so
            # that their purged pages can be returned.
            await connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        await connection.execute("PRAGMA journal_mode = WAL")
        await connection.execute("PRAGMA foreign_keys = ON")
        await _migrate(connection, path, notify)
    except BaseException:
        await connection.close()
        raise
    return connection


def _make_private(path: Path) -> None:
    """Restricts the file and SQLite's files next to it to this user: a file from elsewhere may be
    readable by others, and new files inherit its permissions."""
    if os.name != "posix":
        return
    for file in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        with suppress(FileNotFoundError):
            status = file.stat()
            if status.st_mode & 0o077 and status.st_uid == os.getuid():
                file.chmod(0o600)


async def _value(connection: aiosqlite.Connection, sql: str) -> Any:
    for row in await connection.execute_fetchall(sql):
        return row[0]
    return None


async def _check_identity(connection: aiosqlite.Connection, path: Path) -> None:
    identity = await _value(connection, "PRAGMA application_id")
    tables = await _value(connection, "SELECT count(*) FROM sqlite_master")
    if identity != APPLICATION_ID and tables:
        raise StoreError(
            f"{path} is a database of another program. It was not changed. Name another file "
            "with --db FILE."
        )
    version = await _value(connection, "PRAGMA user_version")
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{path} was written by a newer version of this program (schema {version}, this one "
            f"reads up to {len(MIGRATIONS)}). Upgrade, or name another file with --db FILE."
        )


async def _check_readable(connection: aiosqlite.Connection, path: Path) -> None:
    """StoreUnreadable if the schema is older: a read-only connection cannot migrate it."""
    version = await _value(connection, "PRAGMA user_version")
    if 0 < version < len(MIGRATIONS):
        raise StoreUnreadable(
            f"{path} was written by an older version of this program (schema {version}, this one "
            f"reads {len(MIGRATIONS)}). Start `playground serve --db {path}` once. It updates "
            "the file and keeps a copy."
        )


async def _migrate(
    connection: aiosqlite.Connection, path: Path, notify: Callable[[str], None] | None
) -> None:
    version = await _value(connection, "PRAGMA user_version")
    if version == len(MIGRATIONS):
        return
    words = f"Updating the database (schema {version} to {len(MIGRATIONS)})…"
    loop = asyncio.get_running_loop()
    waiting = loop.call_later(PATIENCE_S, notify, words) if notify is not None and version else None
    try:
        if version > 0:
            await _value(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
            backup = path.with_name(f"{path.name}.v{version}.backup")
            await asyncio.to_thread(shutil.copy2, path, backup)
        steps = "".join(MIGRATIONS[version:])
        await connection.executescript(
            f"BEGIN IMMEDIATE; {steps} PRAGMA user_version = {len(MIGRATIONS)};"
            f" PRAGMA application_id = {APPLICATION_ID}; COMMIT;"
        )
    finally:
        if waiting is not None:
            waiting.cancel()


def _damage_error(path: Path, what: str) -> StoreError:
    return StoreError(
        f"{path} is damaged ({what.splitlines()[0][:120]}); it was not changed. Start a new "
        f'file with --db FILE; "sqlite3 {path} .recover" can save what is readable.'
    )


def _is_out_of_reach(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorname", "") or ""
    return code.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM"))


def store_error(error: Exception, path: Path) -> StoreError:
    """SQLite's error as a StoreError with a sentence."""
    code = getattr(error, "sqlite_errorname", "") or ""
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreBusy(f"Another process has locked {path}. Try again later.")
    if code == "SQLITE_NOTADB":
        return StoreError(
            f"{path} is not a database. It was not changed. Name another file with --db FILE."
        )
    if code.startswith("SQLITE_CORRUPT") or isinstance(error, UnicodeDecodeError):
        return _damage_error(path, str(error))
    if isinstance(error, sqlite3.Error) and _is_out_of_reach(error):
        return StoreUnwritable(
            f"Cannot write {path}: {error}. Check its permissions, or name another file with "
            "--db FILE."
        )
    if code.startswith("SQLITE_FULL"):
        return StoreUnwritable(f"Cannot write {path}: the disk is full. Free some space.")
    if code.startswith("SQLITE_IOERR"):
        return StoreUnwritable(f"Cannot write {path}: {error}. Is the disk full?")
    return StoreError(f"The database {path} reported an error: {error}.")


# One file with one name, whatever path led to it ------------------------------------------------


def database_path(path: Path) -> Path:
    """The real path of the database, with symbolic links resolved, whether it exists or not.

    So the files next to it (lock, token, write-ahead log, files of sessions) are the same for every
    path to it. StoreError if the links form a circle, or if the file has several names (hard
    links): each name would have its own lock. Never opens the file.
    """
    place = Path(os.path.realpath(path))
    # What is still a link after all were followed is part of a circle.
    if any(os.path.islink(part) for part in (place, *place.parents)):
        raise StoreError(f"{path} is a broken link. Name the file itself with --db FILE.")
    names = 1
    with suppress(OSError):  # does not exist, or opening it reports more
        names = place.stat().st_nlink if place.is_file() else 1
    if names > 1:
        raise StoreError(
            f"{place} is one file with {names} names (hard links). A second program could use it "
            "through another name at the same time and damage it. Remove the other names (find "
            f"them with: find DIR -samefile {place.name}), or copy it and name the copy with "
            "--db FILE."
        )
    return place


def readable_database(path: Path) -> Path:
    """The path of an existing database. NotFound if there is none; StoreUnreadable if this user may
    not read it."""
    place = database_path(path)
    try:
        place.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"There is no database {path}. Name one with --db FILE.") from None
    except OSError as error:
        raise _unreadable_error(path, error.strerror or "it cannot be checked") from error
    # Asks the system instead of opening: closing a file releases SQLite's locks on it.
    if not os.access(place, os.R_OK):
        raise _unreadable_error(path, "Permission denied")
    return place


def _unreadable_error(path: Path, reason: str) -> StoreUnreadable:
    return StoreUnreadable(
        f"Cannot read {path} ({reason}). Check its permissions, or name another file with "
        "--db FILE."
    )


# Owner of a database: one process, by an advisory lock on a file next to it that has its pid and
# URL.


@dataclass(frozen=True)
class Owner:
    """The current owner of the database. `url` is "" for an owner that serves nothing."""

    pid: int
    url: str


def lock_path(database: Path) -> Path:
    return database.with_name(database.name + ".lock")


def owner_of(database: Path) -> Owner | None:
    """The live owner of `database`, or None. Holds the lock only for the check."""
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
    """The error shown by a second program."""
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
        """Takes the lock. StoreBusy, naming the owner, if another process holds it."""
        try:
            self._database.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreError(
                f"Cannot write next to {self._database}: {error.strerror}. Name another place "
                "with --db FILE."
            ) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            raise busy_error(self._database, owner_of(self._database)) from error
        self._fd = fd
        self.tell(self._url)

    def renew(self) -> None:
        """Takes the lock again after its file was deleted, because others cannot see the old lock.
        StoreBusy if another process has taken it since."""
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
        """Writes our pid and URL into the lock file."""
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
