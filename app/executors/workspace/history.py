"""What files were before each change, and what was read: beside the scratch folder, never in it.

`ID.history/index.json` has the changes, newest last, and for each file that was read its state
then; the bytes lie beside it by their SHA-256. Bounded: the oldest changes are forgotten.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from app.executors.workspace.folder import Folder, WorkspaceError

MOST_CHANGES = 200
MOST_BYTES = 50 * 1024 * 1024
MOST_READ = 2_000
MAX_FILE = 10 * 1024 * 1024
"""Bytes of a file that the file tools read or write."""


@dataclass(frozen=True)
class FileChange:
    """`before` and `after` are the SHA-256 of the bytes, or "" where there was no file.

    `by` is the call, or "undo N"; `undone` says that a user took it back.
    """

    number: int
    path: str
    by: str
    at_ms: int
    before: str
    after: str
    size: int
    undone: bool = False


@dataclass
class Index:
    changes: list[FileChange] = field(default_factory=list)
    read: dict[str, list[object]] = field(default_factory=dict)
    """By path: modification time in ns, size and SHA-256 as they were when it was read."""


class History:
    """Of one session; the caller sees to it that nobody else uses it at the same time."""

    def __init__(self, folder: Path) -> None:
        self.files = Folder(folder)
        self._place = folder.with_name(folder.name + ".history")

    @property
    def changes(self) -> list[FileChange]:
        """Newest last."""
        return self._load().changes

    def saw(self, path: str, status: os.stat_result, data: bytes) -> None:
        """The model knows the file as it is now."""
        index = self._load()
        index.read.pop(path, None)
        index.read[path] = [status.st_mtime_ns, status.st_size, _digest(data)]
        while len(index.read) > MOST_READ:
            del index.read[next(iter(index.read))]
        self._save(index)

    def check_known(self, path: str, status: os.stat_result, data: bytes) -> None:
        """WorkspaceError E1 or E2 where the model does not know the file as it is now."""
        known = self._load().read.get(path)
        if known is None:
            raise WorkspaceError("E1", f"Read {path} with read_file before it is changed.")
        if known != [status.st_mtime_ns, status.st_size, _digest(data)]:
            raise WorkspaceError("E2", f"Read {path} again with read_file, then change it.")

    def write(
        self, path: str, before: bytes | None, after: bytes, by: str, at_ms: int
    ) -> FileChange:
        """Keep `before`, and put `after` in its place."""
        change = self._keep(path, before, after, by, at_ms)
        status = self.files.write(path, after)
        self._add(change)
        self.saw(path, status, after)
        return change

    def undo(self, number: int, at_ms: int) -> FileChange:
        """What change `number` replaced is back; that is a change too, and can be undone.

        WorkspaceError E2 where the file is not any more as the change left it.
        """
        change = self.change(number)
        now = self._now(change.path)
        if (_digest(now) if now is not None else "") != change.after:
            sentence = f"{change.path} was changed after this; undo the newer change first."
            raise WorkspaceError("E2", sentence)
        before = self.bytes_of(change.before) if change.before else None
        back = self._keep(change.path, now, before, f"undo {number}", at_ms)
        if before is None:
            self.files.remove(change.path)
        else:
            self.files.write(change.path, before)
        self._add(back, undone=number)
        return back

    def change(self, number: int) -> FileChange:
        for change in self.changes:
            if change.number == number:
                return change
        raise WorkspaceError("E6", f"There is no change {number} any more; reload the page.")

    def bytes_of(self, digest: str) -> bytes:
        """The bytes of that SHA-256; WorkspaceError E6 where they were forgotten."""
        try:
            return (self._place / digest).read_bytes() if digest else b""
        except OSError:
            raise WorkspaceError("E6", "This state was too old or too large to be kept.") from None

    def _now(self, path: str) -> bytes | None:
        return self.files.read(path, MAX_FILE)[0] if self.files.exists(path) else None

    def _keep(
        self, path: str, before: bytes | None, after: bytes | None, by: str, at_ms: int
    ) -> FileChange:
        for data in (before, after):
            if data is not None:
                self._put(_digest(data), data)
        old = "" if before is None else _digest(before)
        new = "" if after is None else _digest(after)
        return FileChange(0, path, by, at_ms, old, new, len(after or b""))

    def _add(self, change: FileChange, undone: int = 0) -> None:
        index = self._load()
        number = index.changes[-1].number + 1 if index.changes else 1
        index.changes = [
            replace(change, undone=True) if change.number == undone else change
            for change in index.changes
        ]
        index.changes.append(replace(change, number=number))
        self._trim(index)
        self._save(index)

    def _trim(self, index: Index) -> None:
        """Forget the oldest changes beyond the bounds, and the bytes that none needs."""
        del index.changes[:-MOST_CHANGES]
        sizes = {path.name: path.stat().st_size for path in self._place.iterdir()}
        while len(index.changes) > 1 and _needed(index, sizes) > MOST_BYTES:
            del index.changes[0]
        wanted = {digest for change in index.changes for digest in (change.before, change.after)}
        for name in sizes:
            if len(name) == 64 and name not in wanted:
                (self._place / name).unlink(missing_ok=True)

    def _put(self, name: str, data: bytes) -> None:
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (len(name) == 64 and (self._place / name).exists()):
            fresh = self._place / (name + ".new")
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.replace(fresh, self._place / name)

    def _load(self) -> Index:
        try:
            data = json.loads((self._place / "index.json").read_bytes())
            return Index([FileChange(**change) for change in data["changes"]], data["read"])
        except FileNotFoundError:
            return Index()
        except (ValueError, KeyError, TypeError):
            raise WorkspaceError(
                "E13", f"{self._place}/index.json is damaged; delete it."
            ) from None

    def _save(self, index: Index) -> None:
        data = {"changes": [asdict(change) for change in index.changes], "read": index.read}
        self._put("index.json", json.dumps(data).encode("ascii"))


def _needed(index: Index, sizes: Mapping[str, int]) -> int:
    wanted = {digest for change in index.changes for digest in (change.before, change.after)}
    return sum(sizes.get(digest, 0) for digest in wanted)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
