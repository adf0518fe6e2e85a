"""Names of files, from titles of any kind."""

from __future__ import annotations

import pytest

from app.export.naming import file_name


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("A title!", "a-title.jsonl"),
        ("", "session.jsonl"),
        ("../../etc/passwd\0\r\n", "etc-passwd.jsonl"),
        ("é\u202e", "session.jsonl"),
        ("x" * 500, "x" * 60 + ".jsonl"),
    ],
)
def test_a_name_is_plain(title: str, name: str) -> None:
    assert file_name(title, "jsonl") == name
