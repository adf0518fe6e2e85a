"""Types of fields, looked at; texts, changed wherever they stand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from playground.core.events import (
    CallDecided,
    CallEnded,
    PartStarted,
    PromptAdded,
    ResponseEnded,
    ResponseStarted,
    SessionStarted,
    TurnDropped,
)
from playground.core.serialization import type_mismatch, with_texts
from playground.core.tools import Content, ToolResult
from tests.factories import settings, turn_with_calls

DEEP: Any = []
for _ in range(200):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (PromptAdded(7), "text must be a text"),  # type: ignore[arg-type]
        (PromptAdded("a", (Content("video"),)), "type must be one of"),  # type: ignore[arg-type]
        (PartStarted(True, "text"), "index must be a whole number"),
        (PartStarted(2**70, "text"), "index must be a whole number"),
        (PartStarted(0, "text", meta={"a": DEEP}), "meta must be JSON that is not nested too deep"),
        (ResponseStarted(200, {"a": 1}), "headers must be a text"),  # type: ignore[dict-item]
        (ResponseStarted(200, []), "headers must be an object"),  # type: ignore[arg-type]
        (ResponseEnded("stop", cost=float("inf")), "cost must be a number"),
        (CallEnded("1.0", "done"), "result must be ToolResult"),  # type: ignore[arg-type]
        (CallDecided("1.0", "run", arguments=3), "arguments must be a text"),  # type: ignore[arg-type]
        (TurnDropped(1, 1), "automatic must be true or false"),  # type: ignore[arg-type]
    ],
)
def test_what_a_field_may_not_be_is_said(event: Any, message: str) -> None:
    assert message in type_mismatch(type(event), event)


def test_our_own_events_fit() -> None:
    log = turn_with_calls(("get_weather", {"city": "Paris"})).run("1.1").events
    assert [type_mismatch(type(logged.event), logged.event) for logged in log] == [""] * len(log)


def test_texts_change_and_words_of_our_own_do_not() -> None:
    event = SessionStarted(settings(system="stop", extra={"stop": ["stop", {"a": "stop"}]}))
    changed = with_texts(type(event), event, lambda name, text: text.replace("stop", "****"))
    wanted = settings(system="****", extra={"****": ["****", {"a": "****"}]})
    assert changed == replace(event, settings=wanted)
    ended = CallEnded("1.0", ToolResult((Content(text="text"),), kind="failed"))
    loud = with_texts(CallEnded, ended, lambda name, text: text.upper())
    assert loud == CallEnded("1.0", ToolResult((Content(text="TEXT"),), kind="failed"))
    assert with_texts(CallEnded, ended, lambda name, text: text) is ended
    left = with_texts(CallEnded, ended, lambda name, text: text.upper(), left=("text",))
    assert left.result.content[0].text == ended.result.content[0].text


def test_names_of_objects_come_with_their_texts() -> None:
    names: list[tuple[str, str]] = []
    event = ResponseStarted(200, {"set-cookie": "a=b"}, "id")
    with_texts(ResponseStarted, event, lambda name, text: names.append((name, text)) or text)  # type: ignore[func-returns-value]
    assert ("set-cookie", "a=b") in names
    assert ("request_id", "id") in names
