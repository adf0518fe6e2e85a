"""One owner: whoever comes second is told who was first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from playground.core.errors import StoreBusy, StoreError
from playground.store.database import Owner, OwnerLock, lock_path, owner_of


def test_one_owner_at_a_time(tmp_path: Path) -> None:
    db = tmp_path / "deeper" / "a.db"
    assert owner_of(db) is None
    first, second = OwnerLock(db), OwnerLock(db)
    first.take()
    assert lock_path(db).stat().st_mode & 0o777 == 0o600
    assert owner_of(db) == Owner(os.getpid(), "")
    first.tell("http://127.0.0.1:1234")
    with pytest.raises(StoreBusy, match=f"process {os.getpid()} at http://127.0.0.1:1234"):
        second.take()
    assert owner_of(db) == Owner(os.getpid(), "http://127.0.0.1:1234")
    first.tell("x")
    assert owner_of(db) == Owner(os.getpid(), "x")
    first.release()
    first.release()
    assert owner_of(db) is None
    second.take()
    second.release()


def test_junk_in_the_file_is_an_owner_without_a_name(tmp_path: Path) -> None:
    db = tmp_path / "a.db"
    lock = OwnerLock(db)
    lock.take()
    for junk in ("", "{", "[]", '{"pid": "x"}'):
        lock_path(db).write_text(junk)
        assert owner_of(db) == Owner(0, "")
        with pytest.raises(StoreBusy):
            OwnerLock(db).take()
    lock.release()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="--db"):
        OwnerLock(tmp_path / "file" / "a.db").take()
