"""Where a request goes: the base URL as people write it, the path as the protocol has it."""

from __future__ import annotations

import pytest

from app.wire.address import joined


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        ("https://a.example", "/v1/messages", "https://a.example/v1/messages"),
        ("https://a.example/v1/", "/v1/messages", "https://a.example/v1/messages"),
        ("https://a.example/v1", "/chat/completions", "https://a.example/v1/chat/completions"),
        ("https://a.example/v1", "/v1beta/models", "https://a.example/v1/v1beta/models"),
        ("https://a.example/d?api-version=1", "/chat", "https://a.example/d/chat?api-version=1"),
        ("https://a.example?x=1", "/m:s?alt=sse", "https://a.example/m:s?alt=sse&x=1"),
    ],
)
def test_base_and_path_make_one_address(base: str, path: str, url: str) -> None:
    assert joined(base, path) == url
