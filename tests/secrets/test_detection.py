"""What looks like a secret, and what only nearly does."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from playground.secrets.detection import decoded_texts, header_spans, secret_spans

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
    f"tvly-dev-{DIGITS}": "{}",
    f"SG.{DIGITS[:22]}.{DIGITS}": "({})",
    f"shpat_{DIGITS}": "{}",
    f"whsec_{DIGITS}": "{}",
    f"lin_api_{DIGITS}": "{}",
    f"figd_{DIGITS}": "{}",
    f"ntn_{DIGITS}": "{}",
    f"GOCSPX-{DIGITS}": "{}",
    f"fw_{DIGITS}": "{}",
    f"dop_v1_{DIGITS}": "{}",
    "opaque0123456789a": "Authorization: token {}",
    "opaque0123456789b": "git clone https://{}@github.com/x",
    "opaque0123456789c": "https://{}:x-oauth-basic@github.com/x",
    "opaque0123456789d": "https://api.example/v1?page=2&key={}#end",
    "opaque0123456789e": "https://api.example/v1?sig={}&a=b",
    "abc123def456": "Bearer {}",
    "dXNlcjpwYXNzd29yZA==": "send Basic {}",
    "hQpLmZxCvBnMaSdFgHjK": "gsk_{}",
    "three_words_here": 'password = "{}"',
    "a1b2c3.d4e5f6": "api_key={}",
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
    "\\task-rabbit-number-1-of-many-others and C:\\new\\sk-learn-pipelines-and-estimators",
    "https://some.user@example.org/ and https://example.org/?code=not_found&key=value",
    "Authorization: required documentation; authorization: Bearer <your-token-0>",
    "is it so? really; key=value-of-something",
    "Bearer $OPENAI_API_KEY",
    "a basic command-line tool; Basic object-oriented programming in basic end-to-end tests",
    "Basic v1.2.3-beta.4 release of bearer of-bad-news-again",
    "password = os.environ.get('PW'); api_key=settings.api_key; passwd = getpass.getpass()",
    "password = os.environ['PW2']; access_token = my_token_variable; api_key = config2.read(x)",
    "the api_key=http://127.0.0.1:8080/x and the API key: see https://docs.example/4you",
    "https://x.example/a?key=issue-1234&code=postal75001&session=2024-05-01T10&token=gpt-4o-mini",
    "https://x.example/?country_code=FR-75001A&page_token=opaque0123456789e",
    base64.b64encode(bytes(range(256)) * 40).decode(),
)

BORDERS = ("\n", "\t", "\r\n", "\b", "é", "\x1b[32m", "\x1b[1;31m", '"', "['")


@pytest.mark.parametrize(("secret", "around"), SECRETS.items())
def test_a_secret_is_seen_as_a_whole(secret: str, around: str) -> None:
    text = around.format(secret)
    secret_texts = [text[start:end] for start, end in secret_spans(text)]
    assert any(secret.strip("=") in text for text in secret_texts), secret_texts


@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize("border", BORDERS)
def test_a_secret_is_seen_behind_a_border_however_often_that_is_escaped(
    border: str, level: int
) -> None:
    key, cookie, token = f"ghp_{DIGITS}", "c0ffee-sid", "opaque~token.0123456789"
    text = f"x{border}{key} y{border}Cookie: sid={cookie}; a=b z{border}Bearer {token}"
    for _ in range(level):
        text = json.dumps([text])
    assert {key, cookie, token} <= {text[start:end] for start, end in secret_spans(text)}


def test_a_secret_that_is_escaped_itself_is_hidden() -> None:
    text = json.dumps(json.dumps('https://me:a"b/c-0123é@example.org/')).replace("/", "\\/")
    assert any(
        "me:" in decoded_text and "b/c-0123é" in decoded_text
        for decoded_text in decoded_texts(text)
    )


def test_base64_in_lines_is_put_together() -> None:
    coded = base64.encodebytes(f"{'x' * 50} sk-ant-api03-{DIGITS} {'y' * 50}".encode()).decode()
    for text in (coded, json.dumps(coded), json.dumps(json.dumps(coded))):
        assert any(secret_spans(decoded_text) for decoded_text in decoded_texts(text))


@pytest.mark.parametrize("text", INNOCENT)
def test_what_is_no_secret_stays(text: str) -> None:
    assert [text[start:end] for start, end in secret_spans(text)] == []


@pytest.mark.parametrize("before", ["", "x", "xy", "some words before"])
def test_a_secret_is_seen_behind_base64_and_percent_signs(before: str) -> None:
    secret = f"sk-ant-api03-{DIGITS}/+"
    coded = base64.b64encode(f"{before} {secret} and".encode()).decode()
    for text in (f'"{coded}"', quote(f" {secret} ", safe="")):
        secret_texts = {
            decoded_text[a:b]
            for decoded_text in decoded_texts(text)
            for a, b in secret_spans(decoded_text)
        }
        assert any(text.startswith(secret[:40]) for text in secret_texts)


def test_lines_of_a_private_key_and_not_their_ends() -> None:
    text = "-----BEGIN RSA PRIVATE KEY-----\\nMIIEabc/+=\\nZZZ=\\n-----END RSA PRIVATE KEY-----"
    assert [text[a:b] for a, b in secret_spans(text)] == ["MIIEabc/+=", "ZZZ="]


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
        ("ocp-apim-subscription-key", "opaque0123456789", ["opaque0123456789"]),
        ("x-authorization", "Bearer opaque0123456789", ["opaque0123456789"]),
        ("x-session-id", "opaque0123456789", ["opaque0123456789"]),
    ],
)
def test_headers_are_secret_by_their_names(name: str, value: str, secret: list[str]) -> None:
    assert [value[start:end] for start, end in header_spans(name, value)] == secret
