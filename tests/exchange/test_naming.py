"""Names of files and words of comments, from titles of any kind."""

from __future__ import annotations

import pytest

from playground.exchange.bundle import comment_text, file_name, one_line


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


def test_a_comment_is_one_line_that_ends_nothing() -> None:
    assert one_line("a\nb\u202e\x1b[2J\u2028c") == "a b [2J c"
    assert comment_text('a\n"""b\\') == "a '''b/"
