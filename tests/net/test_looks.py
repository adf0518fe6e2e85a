"""Names and looks of keys, beside names and values that are harmless."""

from __future__ import annotations

import pytest

from app.net.looks import is_secret, opaque

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
    ],
)
def test_harmless_ones(name: str, value: str) -> None:
    assert not is_secret(name, value)


def test_what_only_a_machine_reads() -> None:
    assert opaque("hQpLmZxCvBnMaSdFgHjK")
    assert not opaque("AVeryLongNameOfSomething")
    assert not opaque("12345678901234567890")
    assert not opaque("<your-token-0>")
