"""Nothing outside the scratch folder is reached: `..`, absolute paths, links, pipes, races."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from playground.executors.workspace import MAX_ENTRIES, Folder, WorkspaceError, parts_of
from tests.shared_state import preserve_shared_state

SECRET = b"what lies outside"

KINDS = ("file", "relative", "folder", "deep", "inside", "broken", "root", "hard")

ROUNDS = 1_500


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A folder with a secret file and folder beside it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(SECRET)
    folder = Folder(tmp_path / "files" / "s")
    folder.make()
    return folder


def outside(folder: Folder) -> Path:
    return folder.root.parent.parent / "outside"


def code(work: Callable[[], object]) -> str:
    with pytest.raises(WorkspaceError) as caught:
        work()
    assert SECRET.decode() not in str(caught.value)
    return caught.value.code


@pytest.mark.parametrize(
    "path",
    ["../outside/secret", "a/../../outside/secret", "/etc/passwd", "~/x", "a\0b", "..", "./.."],
)
def test_paths_that_lead_out(folder: Folder, path: str) -> None:
    for work in (
        lambda: folder.read(path, 100),
        lambda: folder.write(path, b"x"),
        lambda: folder.remove(path),
        lambda: folder.exists(path),
        lambda: list(folder.walk(path)),
    ):
        assert code(work) == "E5"


def test_paths_within() -> None:
    assert parts_of("./a//b/.") == ("a", "b")
    assert parts_of("") == parts_of(".") == ()
    assert parts_of("...") == ("...",)


def linked(folder: Folder, kind: str) -> str:
    """A link of some kind in the folder, and a path through it."""
    root, target = folder.root, outside(folder)
    match kind:
        case "file":
            os.symlink(target / "secret", root / "link")
            return "link"
        case "relative":
            os.symlink("../../outside/secret", root / "link")
            return "link"
        case "folder":
            os.symlink(target, root / "link")
            return "link/secret"
        case "deep":
            (root / "a").mkdir()
            os.symlink(target, root / "a" / "link")
            return "a/link/secret"
        case "inside":
            (root / "own").write_bytes(b"own")
            os.symlink("own", root / "link")
            return "link"
        case "broken":
            os.symlink(target / "absent", root / "link")
            return "link"
        case "root":
            root.rmdir()
            os.symlink(target, root)
            return "secret"
        case _:
            os.link(target / "secret", root / "link")
            return "link"


@pytest.mark.parametrize("kind", KINDS)
def test_no_link_is_followed(folder: Folder, kind: str) -> None:
    path = linked(folder, kind)
    assert code(lambda: folder.read(path, 100)) == "E5"
    assert code(lambda: folder.write(path, b"mine")) == "E5"
    assert code(lambda: folder.remove(path)) == "E5"
    assert sorted(os.listdir(outside(folder))) == ["secret"]
    assert (outside(folder) / "secret").read_bytes() == SECRET


def test_a_walk_tells_links_and_does_not_follow_them(folder: Folder) -> None:
    linked(folder, "folder")
    os.mkfifo(folder.root / "pipe")
    (folder.root / "b").mkdir()
    (folder.root / "b" / "c").write_bytes(b"12")
    entries = [(entry.path, entry.kind) for entry in folder.walk()]
    assert entries == [("b", "folder"), ("b/c", "file"), ("link", "link"), ("pipe", "other")]
    assert [entry.path for entry in folder.walk("b")] == ["b/c"]
    assert code(lambda: list(folder.walk("link"))) == "E5"


def test_a_pipe_or_device_never_holds_anybody_up(folder: Folder) -> None:
    os.mkfifo(folder.root / "pipe")
    assert code(lambda: folder.read("pipe", 100)) == "E7"
    assert code(lambda: folder.write("pipe", b"x")) == "E7"
    if os.geteuid() == 0:
        os.mknod(folder.root / "zero", 0o20666, os.makedev(1, 5))
        assert code(lambda: folder.read("zero", 100)) == "E7"


def test_deep_and_wide_folders_end(folder: Folder) -> None:
    here = folder.root
    for _ in range(60):
        here = here / "d"
        here.mkdir()
    assert max(entry.path.count("/") for entry in folder.walk()) == 40
    assert sum(1 for _ in folder.walk()) < MAX_ENTRIES


def test_a_write_is_whole_and_keeps_the_mode(folder: Folder) -> None:
    with preserve_shared_state():
        os.umask(0o077)  # as in every server
        folder.write("run.sh", b"one")
        os.chmod(folder.root / "run.sh", 0o755)
        folder.write("run.sh", b"two")
    assert (folder.root / "run.sh").stat().st_mode & 0o777 == 0o755
    assert folder.read("run.sh", 3)[0] == b"two"
    assert code(lambda: folder.read("run.sh", 2)) == "E8"
    assert os.listdir(folder.root) == ["run.sh"]


@pytest.mark.parametrize("planted", ["link", "broken", "hard", "file"])
def test_a_new_file_is_a_new_one(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    """What a write goes into first is nothing that stood there, even where its name is known."""
    monkeypatch.setattr("playground.executors.workspace.secrets.token_hex", lambda _: "0" * 16)
    name, target = folder.root / f".{'0' * 16}.new", outside(folder)
    match planted:
        case "link":
            os.symlink(target / "secret", name)
        case "broken":
            os.symlink(target / "absent", name)
        case "hard":
            os.link(target / "secret", name)
        case _:
            name.write_bytes(b"somebody's")
    with pytest.raises(WorkspaceError):
        folder.write("a", b"mine")
    assert (target / "secret").read_bytes() == SECRET
    assert os.listdir(target) == ["secret"]
    assert not (folder.root / "a").exists()


def test_what_the_system_refuses_is_told(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    assert code(lambda: folder.write("a", b"x")) == "E13"
    assert os.listdir(folder.root) == []


class Swapping:
    """Somebody who swaps a folder, and a file, for a link and back, as fast as can be."""

    def __init__(self, folder: Folder) -> None:
        self._root, self._target = folder.root, outside(folder)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        (self._root / "real").mkdir()
        (self._root / "real" / "secret").write_bytes(b"own")
        os.symlink(self._target, self._root / "false")
        (self._root / "own").write_bytes(b"own")
        os.symlink(self._target / "secret", self._root / "link")
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(20)

    def _run(self) -> None:
        here, real, false = (self._root / name for name in ("here", "real", "false"))
        file, own, link = (self._root / name for name in ("file", "own", "link"))
        while not self._over.is_set():
            try:
                os.rename(real, here)
                os.rename(here, real)
                os.rename(false, here)
                os.rename(here, false)
                os.rename(own, file)
                os.rename(file, own)
                os.rename(link, file)
                os.rename(file, link)
            except OSError:  # a write made the folder anew
                shutil.rmtree(here, ignore_errors=True)


def test_races_to_read(folder: Folder) -> None:
    counts = {"own": 0, "E5": 0, "E6": 0, "E7": 0}
    with Swapping(folder):
        for place in range(2 * ROUNDS):
            try:
                data, _ = folder.read("file" if place % 2 else "here/secret", 100)
            except WorkspaceError as trouble:
                counts[trouble.code] += 1
            else:
                assert data == b"own"
                counts["own"] += 1
    assert sum(counts.values()) == 2 * ROUNDS


@pytest.mark.slow
def test_races_to_write_and_remove(folder: Folder) -> None:
    with Swapping(folder):
        for place in range(ROUNDS):
            try:
                folder.write("here/new" if place % 2 else "here/secret", b"own")
                folder.remove("here/new")
            except WorkspaceError:
                continue
    assert sorted(os.listdir(outside(folder))) == ["secret"]
    assert (outside(folder) / "secret").read_bytes() == SECRET
