"""The scratch folder of a session, for the built-in tools of this package, opened so that nothing
outside it can be reached.

A path is never passed to the system as a whole: it is opened component by component, each from the
descriptor of the one before and never through a link (openat with O_NOFOLLOW). If another process
replaces a folder by a link between two steps, the result is an error, not another file. Anything
but a plain file (a pipe, a device, a hard link to a file elsewhere) is refused before it is read.
Also the numbered errors of the workspace tools.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

CODES: Mapping[str, str] = {
    "E1": "the file was not read",
    "E2": "the file has changed since it was read",
    "E3": "the old text is not in the file",
    "E4": "the old text occurs more than once",
    "E5": "outside the folder",
    "E6": "no such file",
    "E7": "not a regular file",
    "E8": "too large",
    "E9": "not text",
    "E10": "nothing would change",
    "E11": "an invalid pattern or range",
    "E12": "no such task, or too many",
    "E13": "the system refused",
    "E14": "cannot be fetched",
}
"""Numbered, so that models and tests can distinguish them, however the sentence is worded."""


class WorkspaceError(Exception):
    """One of CODES, with a sentence that says what to do; becomes an error result.

    `reason` is the system's own reason.
    """

    def __init__(self, code: str, sentence: str, reason: str = "") -> None:
        super().__init__(f"{code} {CODES[code]}: {sentence}")
        self.code = code
        self.sentence = sentence
        self.reason = reason


MAX_DEPTH = 40
MAX_ENTRIES = 20_000
"""Limits of the depth and the size of a walk; entries beyond them are reported."""

_LINK = (errno.ELOOP, errno.EMLINK)
_ABSENT = (errno.ENOENT, errno.ENAMETOOLONG)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class FolderEntry:
    """An entry of a walk: `path` is relative, with `/`; `kind` is file, folder, link or other."""

    path: str
    kind: str
    size: int


def parts_of(path: str) -> tuple[str, ...]:
    """The components of a relative path; () is the folder itself. WorkspaceError E5 outside it."""
    if "\0" in path or path.startswith("~") or not _is_encodable(path):
        raise WorkspaceError(
            "E5", f"{path!r} is not a path in the scratch folder. Use one like notes.txt."
        )
    if path.startswith("/"):
        raise WorkspaceError(
            "E5", "Paths are relative to the scratch folder. Use one like notes.txt."
        )
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if ".." in parts:
        raise WorkspaceError(
            "E5", f"{path!r} contains `..`. Use a path relative to the scratch folder."
        )
    if len(parts) > MAX_DEPTH:
        raise WorkspaceError("E5", f"A path has at most {MAX_DEPTH} folders. Use a shorter one.")
    return parts


def _is_encodable(path: str) -> bool:
    """Whether the system accepts it: lone surrogates are not characters."""
    try:
        return bool(path.encode("utf-8")) or not path
    except UnicodeEncodeError:
        return False


class Folder:
    """`root` is created, for this user alone, on the first write."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def make(self) -> None:
        """Creates the folder and its parents, each for this user alone."""
        self.root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.root.mkdir(mode=0o700, exist_ok=True)
        status = self.root.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_mode & 0o700 != 0o700:
            self.root.chmod(0o700)  # a command removed permissions that later ones need

    @contextmanager
    def folder(self, parts: tuple[str, ...], *, create: bool = False) -> Iterator[int]:
        """The descriptor of a subfolder; `create` creates missing ones on the way."""
        try:
            if create:
                self.make()
            here = os.open(self.root, _FOLDER)
        except OSError as error:
            raise _trouble_of(error, "The scratch folder", self.root.is_symlink()) from error
        try:
            for place, part in enumerate(parts):
                path = "/".join(parts[: place + 1])
                try:
                    below = _enter(here, part, create)
                except OSError as error:
                    raise _trouble_of(error, path, _is_link(here, part)) from error
                os.close(here)
                here = below
            yield here
        finally:
            os.close(here)

    @contextmanager
    def file(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        """A plain file, open for reading; E5 to E7 if it is not one of this folder."""
        parts = parts_of(path)
        if not parts:
            raise WorkspaceError("E7", "This is the scratch folder itself. Name a file in it.")
        with self.folder(parts[:-1]) as parent, _open_plain(parent, parts[-1], path) as opened:
            yield opened

    def read(self, path: str, most: int) -> tuple[bytes, os.stat_result]:
        """The content of a file; WorkspaceError E8 if it has more than `most` bytes."""
        with self.file(path) as (descriptor, status):
            return _read_all(descriptor, status, path, most), os.fstat(descriptor)

    def write(self, path: str, data: bytes) -> os.stat_result:
        """Replaces the file by `data` atomically: a reader sees the complete old or new content."""
        parts = parts_of(path)
        if not parts:
            raise WorkspaceError("E7", "This is the scratch folder itself. Name a file in it.")
        with self.folder(parts[:-1], create=True) as parent:
            name, mode = parts[-1], 0o600
            if self._exists(parent, name):
                with _open_plain(parent, name, path) as (_, status):
                    mode = stat.S_IMODE(status.st_mode) & 0o777
            fresh = f".{secrets.token_hex(8)}.new"
            try:
                descriptor = os.open(fresh, _NEW, mode, dir_fd=parent)
                try:
                    with os.fdopen(descriptor, "wb") as file:
                        os.fchmod(descriptor, mode)  # the server's umask removed some of it
                        file.write(data)
                        file.flush()
                        status = os.fstat(file.fileno())
                    os.rename(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)
                except BaseException:
                    with suppress(FileNotFoundError):
                        os.unlink(fresh, dir_fd=parent)
                    raise
            except OSError as error:
                raise _trouble_of(error, path) from error
            return status

    def remove(self, path: str) -> None:
        """Deletes a plain file."""
        parts = parts_of(path)
        with self.folder(parts[:-1]) as parent, _open_plain(parent, parts[-1], path):
            try:
                os.unlink(parts[-1], dir_fd=parent)
            except OSError as error:
                raise _trouble_of(error, path) from error

    def exists(self, path: str) -> bool:
        """Whether an entry has that name, including a broken link."""
        parts = parts_of(path)
        try:
            with self.folder(parts[:-1]) as parent:
                return not parts or self._exists(parent, parts[-1])
        except WorkspaceError as trouble:
            if trouble.code == "E6":
                return False
            raise

    def walk(self, path: str = "") -> Iterator[FolderEntry]:
        """All entries under `path`, in order of name; at most MAX_ENTRIES. Links are listed and not
        followed; a folder that disappears meanwhile is left out."""
        parts = parts_of(path)
        with self.folder(parts) as here:
            left = [MAX_ENTRIES]
            yield from _walk(here, "/".join(parts), MAX_DEPTH - len(parts), left)

    @staticmethod
    def _exists(parent: int, name: str) -> bool:
        try:
            os.stat(name, dir_fd=parent, follow_symlinks=False)
        except OSError as error:
            if error.errno in _ABSENT:
                return False
            raise _trouble_of(error, name) from error
        return True


def _enter(here: int, part: str, create: bool) -> int:
    if create:
        try:
            os.mkdir(part, 0o700, dir_fd=here)
        except FileExistsError:
            pass
    return os.open(part, _FOLDER, dir_fd=here)


@contextmanager
def _open_plain(parent: int, name: str, path: str) -> Iterator[tuple[int, os.stat_result]]:
    """The file `name` of a folder, open; its type is checked before and after opening."""
    try:
        seen = os.stat(name, dir_fd=parent, follow_symlinks=False)
        _check_plain(seen, path)
        descriptor = os.open(name, _FILE, dir_fd=parent)
    except OSError as error:
        raise _trouble_of(error, path) from error
    try:
        status = os.fstat(descriptor)
        _check_plain(status, path)
        yield descriptor, status
    finally:
        os.close(descriptor)


def _check_plain(status: os.stat_result, path: str) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise WorkspaceError(
            "E5", f"{path} is a symbolic link, which is not followed. Name the file itself."
        )
    if stat.S_ISDIR(status.st_mode):
        raise WorkspaceError("E7", f"{path} is a folder. Name a file in it.")
    if not stat.S_ISREG(status.st_mode):
        raise WorkspaceError("E7", f"{path} is a pipe, socket or device. Name a regular file.")
    if status.st_nlink > 1:
        sentence = (
            f"{path} has a second name (a hard link), which may be outside the folder. Use a "
            "copy of it."
        )
        raise WorkspaceError("E5", sentence)


def _read_all(descriptor: int, status: os.stat_result, path: str, most: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while size <= most:
        piece = os.read(descriptor, 1 << 20)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
    sentence = f"{path} has {max(status.st_size, size):,} bytes, more than the {most:,} allowed."
    raise WorkspaceError("E8", sentence + " Read a part of it with run_shell.")


def _walk(here: int, above: str, depth: int, left: list[int]) -> Iterator[FolderEntry]:
    for name in sorted(os.listdir(here)):
        if left[0] <= 0:
            return
        left[0] -= 1
        path = f"{above}/{name}" if above else name
        try:
            status = os.stat(name, dir_fd=here, follow_symlinks=False)
        except OSError:
            continue
        yield FolderEntry(path, _kind(status), status.st_size)
        if stat.S_ISDIR(status.st_mode) and depth > 0:
            try:
                below = os.open(name, _FOLDER, dir_fd=here)
            except OSError:
                continue
            try:
                yield from _walk(below, path, depth - 1, left)
            finally:
                os.close(below)


def _kind(status: os.stat_result) -> str:
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return "file"
    return "folder" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "other"


def _is_link(here: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _trouble_of(error: OSError, path: str, link: bool = False) -> WorkspaceError:
    if error.errno in _LINK or link:
        return WorkspaceError(
            "E5", f"{path} is a symbolic link, which is not followed. Name its target."
        )
    if error.errno in _ABSENT:
        return WorkspaceError("E6", f"There is no {path}. Find it with list_files.")
    if error.errno == errno.ENOTDIR:
        return WorkspaceError(
            "E7", f"{path} is a file, not a folder. Find folders with list_files."
        )
    return WorkspaceError("E13", f"{path}: {error.strerror}.")
