"""Every command finds the owner of a database by whatever path it comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from playground.store.database import OwnerLock
from tests.commands.conftest import Typed

COMMANDS = [
    ("serve", "--port", "0"),
    ("run", "hello"),
    ("import", "brought.jsonl"),
    ("export", "some-session", "--as", "jsonl"),
    ("sessions",),
    ("verify",),
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_no_command_takes_a_file_with_two_names(
    tmp_path: Path, run_cli: Typed, words: tuple[str, ...]
) -> None:
    assert run_cli("run", "hello", "--db", "a.db")[0] == 0
    (tmp_path / "b.db").hardlink_to(tmp_path / "a.db")
    (tmp_path / "brought.jsonl").write_text("{}\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    for name in ("a.db", "b.db"):
        code, out, message = run_cli(*words, "--db", name)
        assert (code, out) == (1, "")
        assert "hard links" in message
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()} == before


@pytest.mark.parametrize("words", [("serve", "--port", "0"), ("run", "hello")])
def test_who_comes_by_a_link_meets_the_owner(
    tmp_path: Path, run_cli: Typed, words: tuple[str, ...]
) -> None:
    (tmp_path / "link.db").symlink_to("a.db")
    lock = OwnerLock(tmp_path / "a.db")
    lock.take()
    try:
        code, out, message = run_cli(*words, "--db", "link.db")
    finally:
        lock.release()
    assert (code, out) == (1, "")
    assert "Another playground" in message
