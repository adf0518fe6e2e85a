"""Where a request goes: the base URL as people write it, the path as the protocol has it."""

from __future__ import annotations

import pytest

from playground.protocols.base import join_url, url_parts

GOOGLE = "https://generativelanguage.googleapis.com"
CALLED = "/models/g:streamGenerateContent?alt=sse"
ROUTER = "https://r.example/api/v1"


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        ("https://a.example", "/v1/messages", "https://a.example/v1/messages"),
        ("https://a.example/v1/", "/v1/messages", "https://a.example/v1/messages"),
        ("https://a.example/v1", "/chat/completions", "https://a.example/v1/chat/completions"),
        ("https://a.example/v1", "/v1beta/models", "https://a.example/v1/v1beta/models"),
        ("https://a.example/d?api-version=1", "/chat", "https://a.example/d/chat?api-version=1"),
        ("https://a.example?x=1", "/m:s?alt=sse", "https://a.example/m:s?alt=sse&x=1"),
        ("https://a.example/v1", "", "https://a.example/v1"),
        # A host is no path, whatever it is called.
        ("http://api", "/api/chat", "http://api/api/chat"),
        ("http://chat", "/chat/completions", "http://chat/chat/completions"),
        ("http://models/", "/models", "http://models/models"),
        ("https://v1:80/", "/v1/messages", "https://v1:80/v1/messages"),
        ("https://ollama.com/api", "/api/chat", "https://ollama.com/api/chat"),
        # Google's versions: the one that was written down holds.
        (f"{GOOGLE}/v1", f"/v1beta{CALLED}", f"{GOOGLE}/v1{CALLED}"),
        (f"{GOOGLE}/v1alpha/", f"/v1beta{CALLED}", f"{GOOGLE}/v1alpha{CALLED}"),
        (f"{GOOGLE}/v1beta", f"/v1beta{CALLED}", f"{GOOGLE}/v1beta{CALLED}"),
        (GOOGLE, f"/v1beta{CALLED}", f"{GOOGLE}/v1beta{CALLED}"),
        ("https://z.example/paas/v4", "/v1/messages", "https://z.example/paas/v4/v1/messages"),
        # A whole address that was pasted is not doubled, and the models are listed beside it.
        (f"{ROUTER}/chat/completions", "/chat/completions", f"{ROUTER}/chat/completions"),
        (f"{ROUTER}/chat/completions/", "/models", f"{ROUTER}/models"),
        (f"{ROUTER}/responses", "/responses", f"{ROUTER}/responses"),
        (f"{ROUTER}/responses", "/models", f"{ROUTER}/models"),
        (f"{ROUTER}/messages", "/v1/messages", f"{ROUTER}/messages"),
        (f"{ROUTER}/messages", "/v1/models?limit=9", f"{ROUTER}/models?limit=9"),
        ("http://h/api/chat", "/api/tags", "http://h/api/tags"),
        (
            f"{GOOGLE}/v1beta/models/a:generateContent",
            f"/v1beta{CALLED}",
            f"{GOOGLE}/v1beta{CALLED}",
        ),
        (f"{GOOGLE}/v1beta{CALLED}", f"/v1beta{CALLED}", f"{GOOGLE}/v1beta{CALLED}"),
        (f"{GOOGLE}/v1beta{CALLED}", "/v1beta/models?a=1", f"{GOOGLE}/v1beta/models?a=1"),
    ],
)
def test_base_and_path_make_one_address(base: str, path: str, url: str) -> None:
    assert join_url(base, path) == url


def test_what_is_no_address_has_no_parts() -> None:
    assert url_parts("https://a.example:81/b?c").port == 81
    for odd in ("http://[", "http://a:99999/", "http://a:b/", "http://[::g]/", ""):
        assert url_parts(odd).geturl() == ""
