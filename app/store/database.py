"""The SQLite file: opening it, bringing it up to date (`schema`), and its one writer.

Every write goes through `Database.write`: the writer commits whatever is queued, over all
sessions, as soon as the last commit is done. A write that asks for full durability is synced to
the disk before it counts; the others are safe against a killed process, not against a power cut.
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
from pathlib import Path
from typing import Any

import aiosqlite

from app.core.errors import (
    Conflict,
    NotFound,
    StoreBusy,
    StoreError,
    StoreGone,
    StoreUnreadable,
    StoreUnwritable,
)
from app.core.late import dataclass
from app.store.schema import MIGRATIONS

# Whether the database can be written, by its last write; and who waits until it can.

log = logging.getLogger("playground")

PROBE_S = 1.0
"""How often a database that could not be written is tried again, in seconds."""
CALM_S = 5.0
"""So long must all writes have worked, in seconds, until nothing is said of those that failed."""


class Health:
    """`trouble` is why nothing can be written now, None while all is well. `told` is the same for
    who reads it: it stays for a while, for on a disk that is nearly full writes fail and succeed in
    turns; `unsteady` is whether one has succeeded meanwhile. `clock` counts seconds."""

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
        """`callback` is called whenever `trouble`, or what is known of it, has become another."""
        self._watching.append(callback)

    def failed(self, trouble: StoreUnwritable) -> None:
        """A write failed for a reason that passes."""
        if self.trouble is None:
            log.warning("Nothing can be saved: %s", trouble)
        if str(self.trouble) != str(trouble):
            self._become(trouble)

    def worked(self) -> None:
        """A write was committed."""
        if self.trouble is not None:
            log.warning("The database can be written again.")
            self._become(None)

    def look(self) -> None:
        """Called now and then: what passed long enough ago is shown no more."""
        passed = self.trouble is None and self.clock() - self._well_since >= CALM_S
        if self.told is not None and passed:
            self._tell(None, unsteady=False)

    def _become(self, trouble: StoreUnwritable | None) -> None:
        before, self.trouble = self.trouble, trouble
        for now, event in ((trouble is None, self._well), (trouble is not None, self._troubled)):
            (event.set if now else event.clear)()
        if trouble is not None:
            self._tell(trouble, unsteady=self.unsteady)
        elif isinstance(before, StoreGone):  # nobody deletes it in turns
            self._tell(None, unsteady=False)
        else:
            self._well_since = self.clock()
            self._tell(self.told, unsteady=True)

    def _tell(self, trouble: StoreUnwritable | None, *, unsteady: bool) -> None:
        self.told, self.unsteady = trouble, unsteady
        for watching in self._watching:
            watching()

    def end(self) -> None:
        """The program ends: nobody waits any longer."""
        self._ending = True
        self._well.set()

    async def again(self, pause_s: float = PROBE_S) -> bool:
        """Wait until another try to write makes sense: until all is well, or where it is (whoever
        failed did not fail here) for `pause_s` seconds. False where the program ends, and nothing
        is waited for any more."""
        if self._ending:
            return False
        if self.trouble is None:
            await asyncio.sleep(pause_s)
        else:
            await self._well.wait()
        return True

    async def or_trouble(self, tasks: Collection[asyncio.Future[Any]]) -> None:
        """Until all `tasks` are done; but no longer than all is well, for what they have still to
        write down waits for that. At the end of the program nothing does."""
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
"""A file up to this size is checked when it is opened; a larger one would hold up the start."""

LOOK_S = 2.0
"""How often it is looked whether the file is still there, in seconds, where nothing is written."""

_ROWS_AT_ONCE = 64
"""Rows that are fetched from a cursor in one step."""

PATIENCE_S = 2.0
"""Seconds after which a message says that a file is being updated."""


@dataclass(frozen=True)
class Statement:
    """One SQL statement with the rows it is executed for. SQLite makes two copies of a value, so
    what is large comes in many rows, which are made one after the other.

    A query, which has `take`, is made in the transaction: what it finds for each of `rows` is given
    to `take`, in the writer's thread, for the rows of later statements to be made of."""

    sql: str
    rows: Iterable[Sequence[Any]]
    take: Callable[[list[Any]], None] | None = None


PROBE = (
    Statement("INSERT OR REPLACE INTO confirmations VALUES ('', '')", [()]),
    Statement("DELETE FROM confirmations WHERE name = ''", [()]),
)
"""Writes a page and leaves nothing."""


@dataclass
class _Write:
    statements: Sequence[Statement]
    full: bool
    done: asyncio.Future[None]


class _Connection(aiosqlite.Connection):
    """A connection whose thread runs a whole transaction in one go: to send it each statement, and
    wait for it, takes several times as long as most of them."""

    async def transact(self, groups: Sequence[Sequence[Statement]], full: bool) -> None:
        """Write all of `groups`, or nothing."""
        # The thread keeps what it did last until there is something else to do: not the rows.
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
    """Open with `open`, end with `close`. `owner` False opens read-only, for commands that look."""

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
        self._looking = asyncio.create_task(self._look()) if writer is not None else None

    @classmethod
    async def open(
        cls, path: Path, *, owner: bool = True, notify: Callable[[str], None] | None = None
    ) -> Database:
        """StoreError with a sentence where the file cannot be used; it is never overwritten.

        `notify` gets a sentence where bringing the file up to date takes long.
        """
        opened: list[aiosqlite.Connection] = []
        writer: _Connection | None = None
        if path.is_dir():
            raise StoreError(f"{path} is a folder; name a file in it with --db FILE.")
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
                        f"Cannot read {path} ({error}): SQLite keeps a file beside it, also to "
                        "read. Copy it to a folder that you may write to, and name the copy with "
                        "--db FILE."
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
        """Returns when it is committed. A cancelled caller does not undo what it queued."""
        await asyncio.shield(self.submit(statements, full=full))

    def submit(
        self, statements: Sequence[Statement], *, full: bool = False
    ) -> asyncio.Future[None]:
        """Queue a write; what is returned is done when it is committed, with all that was queued
        meanwhile. After `close` nothing is: StoreError."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._closed:
            problem = f"{self.path} is closed, for the program ends; this was not written."
            done.set_exception(StoreError(problem))
        else:
            self._queue.put_nowait(_Write(statements, full, done))
        return done

    async def rows(self, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """All rows of a query, as committed when it began."""
        await self._open.wait()
        try:
            # In one go: a query that another began in the middle of would see what that one sees.
            return list(await self._reader.execute_fetchall(sql, values))
        except (sqlite3.Error, UnicodeError) as error:
            raise store_error(error, self.path) from error

    async def is_empty(self) -> bool:
        """Whether the file was made, and nothing was ever written to it."""
        return not (await self.rows("PRAGMA user_version"))[0][0]

    async def give_back(self, pages: int) -> None:
        """Up to `pages` free pages to the system, where the file was made for it."""
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
        # The writer goes last: the last connection to go takes the write-ahead log into the file.
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
            del batch, writes  # nothing that was written is held until the next write comes

    async def _commit(self, writes: Sequence[_Write]) -> None:
        try:
            await self._transaction([w.statements for w in writes], any(w.full for w in writes))
        except Exception as error:
            if len(writes) > 1:  # one bad write must not take the others with it
                for write in writes:
                    await self._commit([write])
                return
            failure = error if isinstance(error, StoreError) else store_error(error, self.path)
            if isinstance(failure, StoreUnwritable):
                self._troubled(failure)
            if not writes[0].done.done():
                writes[0].done.set_exception(failure)  # the writer lives on
            return
        self.health.worked()
        for write in writes:
            if not write.done.done():
                write.done.set_result(None)

    def _check_file(self) -> None:
        """StoreUnwritable where the file is not where it was, or nobody may write it: SQLite goes
        on with what it has open, and all that it wrote would be gone with the program."""
        try:
            status = self.path.stat()
        except FileNotFoundError as error:
            raise StoreGone(
                f"The database {self.path} was deleted or moved while the program uses it. Put it "
                "back, or have its contents written there again."
            ) from error
        except OSError as error:
            raise StoreUnwritable(f"Cannot see {self.path}: {error.strerror}.") from error
        if (status.st_dev, status.st_ino) != self._file:
            raise StoreUnwritable(
                f"Another file stands where the database {self.path} was; nothing is saved into "
                "it. Move it away, and put the database back."
            )
        if not status.st_mode & 0o222 or not os.access(self.path, os.W_OK):
            raise StoreUnwritable(
                f"{self.path} was made read-only. Make it writable again: chmod u+w {self.path}"
            )

    async def write_anew(self) -> None:
        """All that the open database holds, where its file was deleted; it goes on with that file.

        Conflict where the file is not gone; StoreError where it could not be written.
        """
        try:
            self._check_file()
        except StoreGone:
            pass
        else:
            raise Conflict(f"{self.path} exists; nothing to write.")
        assert self._writer is not None
        copy = self.path.with_name(f"{self.path.name}.copy-{os.getpid()}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            copy.unlink(missing_ok=True)
            os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            await self._writer.execute("VACUUM INTO ?", (str(copy),))
            await asyncio.to_thread(_sync, copy)
            os.link(copy, self.path)  # never over a file that came meanwhile
        except FileExistsError as error:
            raise Conflict(f"Another file stands at {self.path} by now; move it away.") from error
        except sqlite3.Error as error:
            raise store_error(error, self.path) from error
        except OSError as error:
            raise StoreUnwritable(f"Cannot write {self.path}: {error.strerror}.") from error
        finally:
            copy.unlink(missing_ok=True)
        await self._reopen()
        await self.write(PROBE)

    async def _reopen(self) -> None:
        """Leave what was deleted for what stands there now; queries wait meanwhile. StoreError
        where it cannot be opened: only another start helps then."""
        assert self._writer is not None
        self._open.clear()
        try:
            # The last to go takes the write-ahead log into its file, and what has the log's name
            # away: nothing of an old one may stand beside a new file.
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

    def _troubled(self, trouble: StoreUnwritable) -> None:
        """From here on it is tried again and again, until something can be written."""
        self.health.failed(trouble)
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(self._probe())

    async def _look(self) -> None:
        """While nothing is written nobody would notice that nothing could be."""
        while True:
            await asyncio.sleep(LOOK_S)
            if self._open.is_set() and self.health.trouble is None:
                try:
                    self._check_file()
                except StoreUnwritable as trouble:
                    self._troubled(trouble)
            self.health.look()

    async def _probe(self) -> None:
        while self.health.trouble is not None:
            await asyncio.sleep(PROBE_S)
            with suppress(StoreError):
                await self.write(PROBE)

    async def _transaction(self, groups: Sequence[Sequence[Statement]], full: bool) -> None:
        await self._open.wait()
        self._check_file()
        if self._wal is not None and not self._wal.exists():
            await self._reopen()  # into the file with it, before the program's end loses it
        assert self._writer is not None
        await self._writer.transact(groups, full)


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _wal_of(path: Path) -> Path | None:
    """The write-ahead log, where the file system allows for one."""
    wal = path.with_name(path.name + "-wal")
    return wal if wal.exists() else None


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


async def _connect(path: Path, *, read_only: bool) -> _Connection:
    uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}"
    # Opened here: where aiosqlite fails to, its thread may tell a loop that is closed by then.
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
                raise _damaged(path, str(verdict))
        if not path.stat().st_size:
            # Holds for a new file alone (another one would only be written to, at each start):
            # what is purged from it can be given back.
            await connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        await connection.execute("PRAGMA journal_mode = WAL")
        await connection.execute("PRAGMA foreign_keys = ON")
        await _migrate(connection, path, notify)
    except BaseException:
        await connection.close()
        raise
    return connection


def _make_private(path: Path) -> None:
    """The file and what SQLite keeps beside it, for this user alone: others may have been able to
    read a file from elsewhere, and what is made from now on takes over its rights."""
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
            f"{path} is a database of another program; it was left as it is. "
            "Name another file with --db FILE."
        )
    version = await _value(connection, "PRAGMA user_version")
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{path} was written by a newer version of this program (schema {version}, this one "
            f"reads up to {len(MIGRATIONS)}). Upgrade, or name another file with --db FILE."
        )


async def _check_readable(connection: aiosqlite.Connection, path: Path) -> None:
    """StoreUnreadable where the schema is an older one: reading alone cannot change that."""
    version = await _value(connection, "PRAGMA user_version")
    if 0 < version < len(MIGRATIONS):
        raise StoreUnreadable(
            f"{path} was written by an older version of this program (schema {version}, this one "
            f"reads {len(MIGRATIONS)}). Start `playground serve --db {path}` once: it brings the "
            "file up to date, and keeps a copy of it."
        )


async def _migrate(
    connection: aiosqlite.Connection, path: Path, notify: Callable[[str], None] | None
) -> None:
    version = await _value(connection, "PRAGMA user_version")
    if version == len(MIGRATIONS):
        return
    words = f"Bringing the database up to date (schema {version} to {len(MIGRATIONS)})…"
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


def _damaged(path: Path, what: str) -> StoreError:
    return StoreError(
        f"{path} is damaged ({what.splitlines()[0][:120]}); it was left as it is. Start with a new "
        f'file by --db FILE; "sqlite3 {path} .recover" can save what is readable.'
    )


def _is_out_of_reach(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorname", "") or ""
    return code.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM"))


def store_error(error: Exception, path: Path) -> StoreError:
    """What SQLite said, as a sentence."""
    code = getattr(error, "sqlite_errorname", "") or ""
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreBusy(f"Another process has locked {path}; try again when it is done.")
    if code == "SQLITE_NOTADB":
        return StoreError(
            f"{path} is not a database; it was left as it is. Name another file with --db FILE."
        )
    if code.startswith("SQLITE_CORRUPT") or isinstance(error, UnicodeDecodeError):
        return _damaged(path, str(error))
    if isinstance(error, sqlite3.Error) and _is_out_of_reach(error):
        return StoreUnwritable(
            f"Cannot write {path}: {error}. Check its permissions, or name another file with "
            "--db FILE."
        )
    if code.startswith("SQLITE_FULL"):
        return StoreUnwritable(f"Cannot write {path}: the disk is full. Make room on it.")
    if code.startswith("SQLITE_IOERR"):
        return StoreUnwritable(f"Cannot write {path}: {error}. Is the disk full?")
    return StoreError(f"The database {path} refused: {error}.")


# One file with one name, whatever path led to it ------------------------------------------------


def database_path(path: Path) -> Path:
    """The path of the database itself, behind symbolic links, whether it is there or not yet.

    What stands beside it (lock, token, write-ahead log, files of sessions) is then the same for
    one that comes by another path. StoreError where the links lead nowhere, or where the file has
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


def readable_database(path: Path) -> Path:
    """The path of a database that is there. NotFound where there is none; StoreUnreadable where
    this user may not read it."""
    place = database_path(path)
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


# Who owns a database ------------------------------------------------------------------------------
# One process, by an advisory lock on a file beside it that holds its pid and URL.


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
