"""Retry-After in all its forms, and why a connection failed."""

from __future__ import annotations

import socket
import ssl
from datetime import UTC, datetime

import pytest

from playground.net.client import connect_reason, retry_after
from playground.protocols.base import rate_limits

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)

RETRY_AFTER = [
    ({}, None),
    ({"retry-after": "3"}, 3.0),
    ({"retry-after": " 0.5 "}, 0.5),
    ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
    ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
    ({"retry-after-ms": "-1", "retry-after": "9"}, None),
    ({"retry-after": "3600"}, 3600.0),
    ({"retry-after": "Sat, 21 Nov 2026 12:00:07 GMT"}, 7.0),
    ({"retry-after": "Sat, 21 Nov 2026 11:00:00 GMT"}, None),
    ({"retry-after": "Sat, 21 Nov 2026 11:00:00"}, None),
    ({"retry-after": "-5"}, None),
    ({"retry-after": "nan"}, None),
    ({"retry-after": "inf"}, None),
    ({"retry-after": "1e999"}, 1e9),
    ({"retry-after": "9" * 400}, 1e9),
    ({"retry-after-ms": "9" * 400}, 1e6),
    ({"retry-after": "-1e999"}, None),
    ({"retry-after": "soon"}, None),
    ({"retry-after": ""}, None),
]

REASONS = [
    (socket.gaierror(-2, "Name or service not known"), "DNS"),
    (ConnectionRefusedError(111, "refused"), "refused"),
    (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER]"), "http://"),
    (ssl.SSLCertVerificationError(1, "self-signed"), "certificate"),
    (OSError(113, "No route to host"), "network"),
]


@pytest.mark.parametrize(("headers", "seconds"), RETRY_AFTER)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


def test_headers_on_limits() -> None:
    headers = {
        "anthropic-ratelimit-requests-limit": "50",
        "X-RateLimit-Reset-Tokens": "6m0s",
        "x-rate-limit-remaining": "1",
        "RateLimit": "default",
        "retry-after": "3",
        "Retry-After-Ms": "3000",
        "content-type": "text/html",
        "x-request-id": "r",
    }
    assert rate_limits(headers) == {
        "anthropic-ratelimit-requests-limit": "50",
        "x-ratelimit-reset-tokens": "6m0s",
        "x-rate-limit-remaining": "1",
        "ratelimit": "default",
        "retry-after": "3",
        "retry-after-ms": "3000",
    }


def behind(cause: BaseException) -> BaseException:
    """`cause` as the layers of a client wrap it: two of them, and a group."""
    group = OSError("All connection attempts failed")
    group.__cause__ = BaseExceptionGroup("multiple", [OSError("other"), cause])
    outer = RuntimeError("ConnectError")
    outer.__context__ = group
    return outer


@pytest.mark.parametrize(("cause", "word"), REASONS)
def test_the_reason_is_told_apart_however_deep_it_lies(cause: BaseException, word: str) -> None:
    sentence = connect_reason(behind(cause))
    assert word in sentence
    assert sum(other in sentence for _, other in REASONS[:4]) == (1 if word != "network" else 0)


def test_a_circle_of_causes_ends() -> None:
    first, second = ValueError("1"), ValueError("2")
    first.__context__, second.__context__ = second, first
    assert connect_reason(first).startswith("the connection failed")
