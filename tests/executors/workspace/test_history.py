"""What was before each change is kept, bounded, and can be put back."""

from __future__ import annotations

from pathlib import Path

import pytest

from playground.executors.workspace import WorkspaceError
from playground.executors.workspace import files as module
from playground.executors.workspace.files import History


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "files" / "s")


def text(history: History, path: str = "a") -> str | None:
    return history.files.read(path, 100)[0].decode() if history.files.exists(path) else None


def write_texts(history: History, *texts: bytes) -> None:
    for data in texts:
        before = history.files.read("a", 100)[0] if history.files.exists("a") else None
        history.write("a", before, data, "1.0", 5)


def code(history: History, number: int) -> str:
    with pytest.raises(WorkspaceError) as caught:
        history.undo(number, 6)
    return caught.value.code


def test_undo_and_undo_of_undo(history: History) -> None:
    write_texts(history, b"one", b"two")
    assert history.undo(2, 6).by == "undo 2"
    assert text(history) == "one"
    history.undo(3, 7)
    assert text(history) == "two"
    changes = [(change.number, change.by, change.undone) for change in history.changes]
    assert changes == [
        (1, "1.0", False),
        (2, "1.0", True),
        (3, "undo 2", True),
        (4, "undo 3", False),
    ]


def test_a_file_that_was_made_goes_and_comes_back(history: History) -> None:
    write_texts(history, b"one")
    history.undo(1, 6)
    assert text(history) is None
    history.undo(2, 7)
    assert text(history) == "one"


def test_what_was_changed_since_is_not_overwritten(history: History) -> None:
    write_texts(history, b"one", b"two")
    assert code(history, 1) == "E2"
    history.files.write("a", b"by a command")
    assert code(history, 2) == "E2"
    history.files.remove("a")
    assert code(history, 2) == "E2"
    assert text(history) is None
    assert code(history, 9) == "E6"


def test_a_link_in_its_place_is_not_followed(history: History) -> None:
    write_texts(history, b"one")
    outside = history.files.root.parent / "outside"
    outside.write_bytes(b"one")
    (history.files.root / "a").unlink()
    (history.files.root / "a").symlink_to(outside)
    assert code(history, 1) == "E5"
    assert outside.read_bytes() == b"one"


def test_it_lies_beside_the_folder_for_this_user_alone(history: History) -> None:
    write_texts(history, b"one")
    place = history.files.root.with_name("s.history")
    assert place.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in place.iterdir()} == {0o600}
    assert [entry.path for entry in history.files.walk()] == ["a"]


def test_the_oldest_are_forgotten(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CHANGES", 3)
    write_texts(history, *(f"text {place}".encode() for place in range(6)))
    assert [change.number for change in history.changes] == [4, 5, 6]
    place = history.files.root.with_name("s.history")
    assert len(list(place.iterdir())) == 1 + 4  # the index, and what three changes need
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    write_texts(history, b"more")
    assert [change.number for change in history.changes] == [7]
    history.undo(7, 9)
    assert text(history) == "text 5"


def test_what_was_read_is_known_after_a_restart(history: History) -> None:
    write_texts(history, b"one")
    data, status = history.files.read("a", 100)
    again = History(history.files.root)
    again.check_known("a", status, data)
    with pytest.raises(WorkspaceError, match="E2"):
        again.check_known("a", status, b"other")
    with pytest.raises(WorkspaceError, match="E1"):
        again.check_known("b", status, data)


def test_what_was_read_is_bounded(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_READ", 2)
    history.files.write("a", b"x")
    data, status = history.files.read("a", 9)
    for path in ("a", "b", "c"):
        history.mark_read(path, status, data)
    with pytest.raises(WorkspaceError, match="E1"):
        history.check_known("a", status, data)
    history.check_known("c", status, data)


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"changes": [{"x": 1}], "read": {}}'])
def test_a_damaged_index_is_told(history: History, damage: str) -> None:
    write_texts(history, b"one")
    (history.files.root.with_name("s.history") / "index.json").write_text(damage)
    with pytest.raises(WorkspaceError, match=r"index.json is damaged. Delete it."):
        history.undo(1, 6)
