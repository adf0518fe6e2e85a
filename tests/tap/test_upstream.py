"""What an agent sends of keys and logins is masked from its first request on."""

from __future__ import annotations

import pytest

from playground.core.settings import Profile
from playground.net.keys import Keys
from playground.tap.door import Upstreams, credentials_of
from playground.tap.relay import RefusedRequest

KEY = "sk-ant-canary-71f0c2"


@pytest.mark.parametrize(
    ("headers", "target", "expected"),
    [
        ([(b"authorization", b"Bearer " + KEY.encode())], b"/", {KEY}),
        ([(b"authorization", KEY.encode())], b"/", {KEY}),
        ([(b"x-api-key", b" " + KEY.encode())], b"/", {KEY}),
        ([(b"x-goog-api-key", KEY.encode()), (b"api-key", b"other-key")], b"/", {KEY, "other-key"}),
        ([(b"cookie", b"a=one-login; b=two=2; c")], b"/", {"one-login", "two=2"}),
        ([(b"user-agent", b"agent"), (b"anthropic-beta", b"a,b")], b"/?alt=sse&page=2", set()),
        ([], b"/v1beta/models?alt=sse&key=AIza%2Dcanary", {"AIza-canary"}),
        ([], b"/?%6Bey=" + KEY.encode() + b"&key=", {KEY}),
        ([], b"/?api_key=" + KEY.encode() + b"&a=b", {KEY}),
        ([(b"x-auth-token", KEY.encode()), (b"session_id", b"0a1B2c3D4e5F6g7H")], b"/", {KEY}),
    ],
)
def test_the_credentials_of_a_request(
    headers: list[tuple[bytes, bytes]], target: bytes, expected: set[str]
) -> None:
    assert credentials_of(headers, target) == expected


@pytest.mark.parametrize("base_url", ["https://api.anthropic.com", "https://elsewhere.example", ""])
def test_they_are_masked_wherever_the_request_goes(base_url: str) -> None:
    keys = Keys({})
    profile = Profile("p", "anthropic", base_url)
    upstreams = Upstreams(lambda name: profile, lambda profile: profile.base_url, keys)
    assert KEY in keys.redactor().redact_text(f"Wrong key {KEY}.")
    try:
        upstreams.find("p", "anthropic", b"/v1/messages", [(b"x-api-key", KEY.encode())])
    except RefusedRequest:
        assert not base_url
    assert keys.redactor().redact_text(f"Wrong key {KEY}.") == f"Wrong key {'*' * len(KEY)}."
