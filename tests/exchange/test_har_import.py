"""HTTP archives: what of them is a request, and what came back."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from playground.exchange.requests_import import har_exchanges, is_har


def entry(url: str = "https://x/v1/messages", **response: Any) -> dict[str, Any]:
    post = {"mimeType": "application/json", "text": "{}"}
    headers = [{"name": "X-Api-Key", "value": "k"}, "odd"]
    return {
        "startedDateTime": "2026-11-22T04:00:00.250Z",
        "request": {"url": url, "headers": headers, "postData": post},
        "response": response,
    }


def har(*entries: Any) -> dict[str, Any]:
    return {"log": {"version": "1.2", "entries": list(entries)}}


def test_what_was_sent_and_what_came_back() -> None:
    coded = base64.b64encode(b"\xff\x00").decode()
    exchanges = list(
        har_exchanges(
            har(
                entry(status=200, content={"text": "é"}),
                entry(status=500, content={"text": coded, "encoding": "base64"}),
                entry(content={"size": 3}),
            )
        )
    )
    assert [(har_exchange.status, har_exchange.response) for har_exchange in exchanges] == [
        (200, "é".encode()),
        (500, b"\xff\x00"),
        (0, None),
    ]
    assert exchanges[0].headers == {"x-api-key": "k"}
    assert exchanges[0].at_ms == 1_795_320_000_250


@pytest.mark.parametrize(
    "odd",
    [
        None,
        {},
        {"request": 3},
        {"request": {"url": 3, "postData": {"text": "{}"}}},
        {"request": {"url": "u", "postData": {"params": []}}},
    ],
)
def test_entries_that_sent_nothing_are_passed_over(odd: Any) -> None:
    assert list(har_exchanges(har(odd))) == []


def test_odd_times_and_codings_are_unknown_and_no_error() -> None:
    odd = entry(status="x", content={"text": "!", "encoding": "base64"})
    odd["startedDateTime"] = "yesterday"
    (har_exchange,) = har_exchanges(har(odd))
    assert (har_exchange.status, har_exchange.response, har_exchange.at_ms) == (0, None, 0)


@pytest.mark.parametrize(("value", "is_one"), [(har(), True), ({"log": []}, False), ([], False)])
def test_an_archive_is_told_by_its_shape(value: Any, is_one: bool) -> None:
    assert is_har(value) is is_one
