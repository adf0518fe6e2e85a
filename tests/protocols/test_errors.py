"""Errors in the provider's own words: the shapes are those of docs/wire.md, section 0."""

from __future__ import annotations

from typing import Any

import pytest

from playground.protocols.base import http_sentence, not_api_sentence, read_error, requested_wait

RETRY = "type.googleapis.com/google.rpc.RetryInfo"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"error": {"message": "no", "type": "t", "param": None, "code": "c"}}, "no"),
        ({"type": "error", "error": {"type": "t", "message": "no"}, "request_id": "r"}, "no"),
        ({"error": {"code": 400, "message": "no", "status": "S", "details": []}}, "no"),
        ({"object": "error", "message": "no", "type": "t", "raw_status_code": 400}, "no"),
        ({"detail": "no"}, "no"),
        ({"detail": [{"msg": "no", "loc": ["body"]}, {"msg": "way"}]}, "no; way"),
        ({"code": "c", "error": "no"}, "no"),
        ({"error": "no"}, "no"),
        ({"error": {"code": 502, "message": "no", "metadata": {}}, "user_id": "u"}, "no"),
        ({"code": "c", "message": "no", "type": "t"}, "no"),
        ({"error": {"type": "overloaded_error"}}, "overloaded_error"),
        ({"error": {"message": {"detail": "no"}}}, "no"),
    ],
)
def test_shapes(value: dict[str, Any], words: str) -> None:
    provider_error = read_error(value)
    assert provider_error is not None
    assert provider_error.words == words
    assert provider_error.error in (value, value.get("error"))


@pytest.mark.parametrize(
    "value", [{}, {"error": None}, {"error": {}}, {"choices": [], "message": "x"}, {"type": "ping"}]
)
def test_what_is_no_error(value: dict[str, Any]) -> None:
    assert read_error(value) is None


def test_a_status_or_an_event_named_error_makes_the_loosest_shape_one() -> None:
    assert read_error({"anything": 1}, "error") is not None
    assert read_error({"anything": 1}, expected=True) is not None
    assert read_error({}, expected=True) is None


@pytest.mark.parametrize("status", [400, 401, 404, 413, 418, 429, 500, 529])
def test_every_sentence_says_what_to_do(status: int) -> None:
    assert str(status) in http_sentence(status, "")
    message = http_sentence(status, "their words")
    assert "their words. " in message
    assert message.endswith(".")


def test_a_page_for_people_is_not_put_into_a_sentence() -> None:
    message = http_sentence(500, "<!doctype html><h1>It works!</h1>")
    assert "an HTML or XML page" in message
    assert "It works" not in message


def test_a_body_of_something_else_is_described() -> None:
    message = not_api_sentence("X API", 58, "<!doctype html>\n<p>hi")
    assert message.startswith("This is not an answer of the X API, but HTML or XML (58 bytes)")
    assert message.endswith(".")


@pytest.mark.parametrize(
    ("error", "wait"),
    [
        ({"details": [{"@type": RETRY, "retryDelay": "17s"}]}, 17.0),
        ({"details": [{"@type": "x.QuotaFailure"}, {"@type": RETRY, "retryDelay": "0.5s"}]}, 0.5),
        ({"details": [None, {"@type": RETRY, "retryDelay": "soon"}]}, None),
        ({"details": [{"@type": RETRY, "retryDelay": "-3s"}]}, None),
        ({"details": [{"@type": RETRY, "retryDelay": "9" * 400 + "s"}]}, None),
        ({"details": [{"@type": RETRY}]}, None),
        ({"details": [{"retryDelay": "17s"}]}, None),
        ({"details": "17s"}, None),
        ({}, None),
        ("text", None),
        (None, None),
    ],
)
def test_how_long_an_error_asks_to_wait(error: Any, wait: float | None) -> None:
    assert requested_wait(error) == wait
