"""Names and looks of keys, beside names and values that are harmless."""

from __future__ import annotations

import pytest

from playground.secrets.detection import find_keys
from playground.secrets.names import is_opaque, is_secret

OPAQUE = "opaque0123456789abcdef"
NAMES = (
    *("Ocp-Apim-Subscription-Key", "X-Authorization", "x-functions-key", "token", "X-Key"),
    *("x-session-id", "X-Auth", "x-goog-iap-jwt-assertion", "api-key", "X-Amz-Security-Token"),
    *("authentication", "key", "sig", "code", "access_token", "subscription_key"),
)


@pytest.mark.parametrize("name", NAMES)
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name, OPAQUE)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("content-type", OPAQUE),
        ("key_name", "OPENAI_API_KEY"),
        ("signature", OPAQUE),
        ("idempotency-key", OPAQUE),
        ("prompt_cache_key", OPAQUE),
        ("anthropic-ratelimit-tokens-reset", "2026-11-22T05:52:00Z"),
        ("code", "not_found"),
        ("auth", "bearer"),
        ("key", "value"),
        ("token", "information"),
        ("status_code", "200"),
        ("session", "a note for 8 people"),
        *(("key", "issue-1234"), ("code", "postal75001"), ("token", "gpt-4o-mini")),
        *(("session", "2024-05-01T10:00:00Z"), ("key", "PROJ-1234"), ("sid", "a1234567")),
        *((name, OPAQUE) for name in ("country_code", "postal_code", "language_code")),
        *((name, OPAQUE) for name in ("next_page_token", "page_token", "nextPageToken")),
    ],
)
def test_harmless_ones(name: str, value: str) -> None:
    assert not is_secret(name, value)


@pytest.mark.parametrize(
    "text",
    [
        "hf_hub_download_with_retry(x)",
        "npm_package_dependencies_react",
        "gsk_text_generation_pipeline",
        "sk-circle-fade-dot-12",
        "pk_index_users_by_email_2",
        "sk-internationalization-of-7-words",
    ],
)
def test_names_that_begin_like_keys(text: str) -> None:
    assert list(find_keys(text)) == []


def test_what_only_a_machine_reads() -> None:
    assert is_opaque("hQpLmZxCvBnMaSdFgHjK")
    assert not is_opaque("AVeryLongNameOfSomething")
    assert not is_opaque("12345678901234567890")
    assert not is_opaque("<your-token-0>")
