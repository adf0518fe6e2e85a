"""What looks like a secret, and what only nearly does."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest

from app.export.shapes import header_spans, hidden, spans

DIGITS = "0123456789abcdefABCDEF0123456789"
SECRETS = {
    f"sk-ant-api03-{DIGITS}": "the key {} was",
    f"sk-proj-{DIGITS}_x": '{{"text": "{}"}}',
    f"sk_live_{DIGITS}": "{}",
    f"ghp_{DIGITS}": "git clone {}",
    f"github_pat_{DIGITS}": "({})",
    f"glpat-{DIGITS}": "{},",
    "AKIAABCDEFGHIJKLMNOP": "aws {}",
    f"AIza{DIGITS}": "?key={}&a=b",
    f"xoxb-{DIGITS}": "{}",
    f"hf_{DIGITS}": "{}",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlLXg": "jwt={}",
    "dXNlcjpwYXNzd29yZDEyMw==": "Authorization: Basic {}",
    "opaque.token~1234567": 'curl -H "authorization: bearer {}"',
    "hunter2-is-it": "https://me:{}@example.org/x",
    "correct-horse-1": '{{\\"password\\": \\"{}\\"}}',
    "ab/cd+ef==0123456789": "aws_secret_access_key = {}",
    "c0ffee": "Cookie: sid={}; theme=dark",
}
INNOCENT = (
    "a risk-assessment-of-something-long-enough",
    "sk-learn-pipelines-and-estimators",
    '{"max_tokens": 1000000, "token": "information"}',
    "the bearer authentication scheme; basic understanding",
    "password: required",
    '{"password": {"type": "string"}, "api_key": "${MY_API_KEY}"}',
    "https://example.org:8080/a@b",
    "a cookie: chocolate",
    "Bearer $OPENAI_API_KEY",
    base64.b64encode(bytes(range(256)) * 40).decode(),
)


@pytest.mark.parametrize(("secret", "around"), SECRETS.items())
def test_a_secret_is_seen_as_a_whole(secret: str, around: str) -> None:
    text = around.format(secret)
    found = [text[start:end] for start, end in spans(text)]
    assert any(secret.strip("=") in one for one in found), found


@pytest.mark.parametrize("text", INNOCENT)
def test_what_is_no_secret_stays(text: str) -> None:
    assert [text[start:end] for start, end in spans(text)] == []


@pytest.mark.parametrize("before", ["", "x", "xy", "some words before"])
def test_a_secret_is_seen_behind_base64_and_percent_signs(before: str) -> None:
    secret = f"sk-ant-api03-{DIGITS}/+"
    coded = base64.b64encode(f"{before} {secret} and".encode()).decode()
    for text in (f'"{coded}"', quote(f" {secret} ", safe="")):
        found = {one[a:b] for one in hidden(text) for a, b in spans(one)}
        assert any(one.startswith(secret[:40]) for one in found)


def test_lines_of_a_private_key_and_not_their_ends() -> None:
    text = "-----BEGIN RSA PRIVATE KEY-----\\nMIIEabc/+=\\nZZZ=\\n-----END RSA PRIVATE KEY-----"
    assert [text[a:b] for a, b in spans(text)] == ["MIIEabc/+=", "ZZZ="]


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("Authorization", "Bearer abc", ["abc"]),
        ("authorization", "abc", ["abc"]),
        ("x-api-key", "short", ["short"]),
        ("set-cookie", "sid=1a; Path=/; HttpOnly; Max-Age=5", ["1a"]),
        ("cookie", "a=1; b=2", ["1", "2"]),
        ("x-csrf-token", "v", ["v"]),
        ("x-api-key", "$ANTHROPIC_API_KEY", []),
        ("authorization", "Bearer ${NAME}", []),
        ("anthropic-ratelimit-tokens-remaining", "1000", []),
        ("content-type", "application/json", []),
    ],
)
def test_headers_are_secret_by_their_names(name: str, value: str, secret: list[str]) -> None:
    assert [value[start:end] for start, end in header_spans(name, value)] == secret
