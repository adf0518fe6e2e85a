"""One database has one owner, whatever path led to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from playground.core.errors import StoreBusy, StoreError
from playground.store.database import OwnerLock, database_path, owner_of


def by_link(folder: Path) -> Path:
    (folder / "link.db").symlink_to("a.db")
    return folder / "link.db"


def by_links(folder: Path) -> Path:
    by_link(folder)
    (folder / "deeper").mkdir()
    (folder / "deeper" / "far.db").symlink_to("../link.db")
    return folder / "deeper" / "far.db"


def by_linked_folder(folder: Path) -> Path:
    (folder / "other").symlink_to(folder, target_is_directory=True)
    return folder / "other" / "a.db"


def by_dots(folder: Path) -> Path:
    (folder / "deeper").mkdir()
    return folder / "deeper" / ".." / "a.db"


def by_relative(folder: Path) -> Path:
    return Path("a.db")


WAYS = [by_link, by_links, by_linked_folder, by_dots, by_relative]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("there", [True, False])
def test_every_way_leads_to_one_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Callable[[Path], Path], there: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    if there:
        (tmp_path / "a.db").touch()
    path = way(tmp_path)
    assert database_path(path) == tmp_path / "a.db"
    lock = OwnerLock(database_path(tmp_path / "a.db"))
    lock.take()
    try:
        assert owner_of(database_path(path)) is not None
        with pytest.raises(StoreBusy):
            OwnerLock(database_path(path)).take()
    finally:
        lock.release()


def test_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a.db").symlink_to("b.db")
    (tmp_path / "b.db").symlink_to("a.db")
    with pytest.raises(StoreError, match="is a broken link"):
        database_path(tmp_path / "a.db")


def test_a_second_name_is_refused_under_each_and_gone_with_the_other(tmp_path: Path) -> None:
    (tmp_path / "a.db").touch()
    (tmp_path / "b.db").hardlink_to(tmp_path / "a.db")
    (tmp_path / "c.db").symlink_to("b.db")
    for name in ("a.db", "b.db", "c.db"):
        with pytest.raises(StoreError, match="2 names"):
            database_path(tmp_path / name)
    (tmp_path / "a.db").unlink()
    assert database_path(tmp_path / "c.db") == tmp_path / "b.db"
