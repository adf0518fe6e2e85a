"""What looks like a key, and what does not."""

from __future__ import annotations

from app.formats.secrets import in_word, is_reference, may_be_key, reference, url_without, variable
from tests.tables import each_row


@each_row(
    ("name", "value", "expected"),
    [
        ("A_KEY", "x", True),
        ("Authorization", "Bearer ${A}", False),
        ("Authorization", "Bearer ${A} and more", True),
        ("A_KEY", "", False),
        ("LOG_LEVEL", "debug", False),
        ("PORT", "8080", False),
        ("ROOT", "/home/me/my project", True),
        ("ROOT", "/home/me/project", False),
        ("BASE", "https://api.example.com/v1", False),
        ("BASE", "https://me:pw@api.example.com/v1", True),
        ("BASE", "https://api.example.com/v1?x=1", True),
        ("ANY", "AKIAABCDEFGHIJKLMNOP", True),
        ("ANY", "a sentence", True),
    ],
)
def test_too_many_rather_than_too_few(name: str, value: str, expected: bool) -> None:
    assert may_be_key(name, value) is expected


@each_row(
    ("word", "expected"),
    [
        ("-y", False),
        ("@modelcontextprotocol/server-filesystem", False),
        ("ghcr.io/github/github-mcp-server", False),
        ("mcp-server-with-a-long-name-of-words", False),
        ("sk-abcdefghijkl", True),
        ("0123456789abcdef0123456789abcdef", True),
    ],
)
def test_arguments_by_their_looks(word: str, expected: bool) -> None:
    assert in_word(word) is expected


def test_names_and_references() -> None:
    assert variable("my-server", "X-Key") == "MY_SERVER_X_KEY"
    assert variable("9", "x") == "MY_9_X_KEY"
    assert reference("Bearer abc", "A_KEY") == "Bearer ${A_KEY}"
    assert is_reference("${A}")
    assert not is_reference("Bearer")
    url = "https://u:p@h.example/x?api_key=1&page=2"
    assert url_without(url, "K") == "https://${K}@h.example/x?api_key=${K}&page=2"
