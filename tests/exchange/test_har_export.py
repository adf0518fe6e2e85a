from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from playground.core.events import RequestSent, ResponseFailed
from playground.exchange.bundle import RecordedChunk, Recording
from playground.exchange.requests_export import archive, write_har
from tests.exchange.asking import Kind, weather

ENTRY: Mapping[str, Any] = {
    "startedDateTime": str,
    "time": int,
    "cache": dict,
    "request": {
        "method": str,
        "url": str,
        "httpVersion": str,
        "cookies": list,
        "headers": [{"name": str, "value": str}],
        "queryString": [{"name": str, "value": str}],
        "postData": {"mimeType": str, "params": list, "text": str},
        "headersSize": int,
        "bodySize": int,
    },
    "response": {
        "status": int,
        "statusText": str,
        "httpVersion": str,
        "cookies": list,
        "headers": [{"name": str, "value": str}],
        "content": {"size": int, "mimeType": str, "text": str},
        "redirectURL": str,
        "headersSize": int,
        "bodySize": int,
    },
    "timings": {"send": int, "wait": int, "receive": int},
}
HAR: Mapping[str, Any] = {
    "log": {
        "version": str,
        "creator": {"name": str, "version": str},
        "pages": [{"startedDateTime": str, "id": str, "title": str, "pageTimings": dict}],
        "entries": [ENTRY],
    }
}
"""What HAR 1.2 demands, as the specification lists it."""


def check(value: Any, form: Any, where: str = "") -> None:
    match form:
        case dict():
            for name, inner in form.items():
                assert name in value, f"{where}.{name}"
                check(value[name], inner, f"{where}.{name}")
        case list():
            for item in value:
                check(item, form[0], where + "[]")
        case _:
            assert isinstance(value, form), where


@pytest.mark.parametrize("protocol", ["anthropic", "gemini"])
def test_an_archive_has_all_that_the_form_demands(protocol: str) -> None:
    kind = weather(protocol)
    har = json.loads(write_har(kind.bundle()).data)
    check(har, HAR)
    entries = har["log"]["entries"]
    assert len(entries) == 2
    for entry, turn in zip(entries, kind.session.turns, strict=True):
        assert entry["request"]["postData"]["text"] == turn.request.body
        assert entry["response"]["content"]["text"].encode() == kind.recordings[turn.number].data
        assert entry["time"] == entry["timings"]["wait"] + entry["timings"]["receive"] > 0
        assert datetime.fromisoformat(entry["startedDateTime"]).timestamp() * 1000 == turn.sent_ms
        assert entry["pageref"] == har["log"]["pages"][0]["id"]
        answer = {item["name"]: item["value"] for item in entry["request"]["queryString"]}
        assert answer == ({"alt": "sse"} if protocol == "gemini" else {})


def test_bytes_that_are_no_text_are_kept_and_failures_are_told() -> None:
    kind = Kind("anthropic")
    kind.prompt("Hello")
    sent = RequestSent(
        1,
        protocol="anthropic",
        method="POST",
        url="https://x.test/v1/messages",
        headers={},
        body="{}",
        model="m",
    )
    kind.log.add(sent, ResponseFailed("unreachable", "No connection."))
    session_bundle = kind.bundle()
    odd = Recording(1, [RecordedChunk(kind.log.now_ms, b"\xff\x00")], masked=[(0, 1)])
    for recordings in ({}, {1: odd}):
        data = write_har(replace(session_bundle, recordings=recordings)).data
        har = json.loads(data)
        check(har, HAR)
        (entry,) = har["log"]["entries"]
        assert entry["response"]["status"] == 0
        assert "No connection." in entry["comment"]
    assert base64.b64decode(entry["response"]["content"]["text"]) == b"\xff\x00"
    assert entry["response"]["content"]["encoding"] == "base64"
    assert "stars" in entry["comment"]


def test_one_turn_alone() -> None:
    kind = weather("anthropic")
    session = kind.session
    har = json.loads(archive(session, session.turns[1:], kind.recordings))
    assert [entry["_turn"] for entry in har["log"]["entries"]] == [2]
