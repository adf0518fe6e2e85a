"""Faults on a card: the menu that offers them, and afterwards what was real."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from playground.core.events import CallDecided, CallEnded, CallStarted, Problem
from playground.core.faults import FAULTS, Scene, stage_result
from playground.core.tools import Content, ToolResult, text_result
from playground.render.blocks import block
from playground.render.card import fault_choices, staged_fault
from playground.render.view import View
from playground.render.wire_rows import WireRows
from tests.factories import DIGEST, Log, turn_with_calls
from tests.render.page import ENV, Node, parse
from tests.render.test_card import card_of

SCHEMA = Problem("schema", "city is missing.", "/city")
REAL = text_result('{"sky": "clear", "high": 11}')
IMAGE = Content("image", media_type="image/png", data="iVBORw0KGgo=")

RUNS = [fault.name for fault in FAULTS if fault.runs]

SAID = {
    "timeout": "The tool was not run.",
    "error": "The tool was not run.",
    "empty": "The tool was not run.",
    "very_large": "It costs about 25,000 tokens.",
    "stale": "The tool was not run.",
    "cut_json": "The model read only the beginning of the result.",
    "wrong_type": "Actual tool result:",
    "slow": "The result was delayed by 10 s. The model read what the tool returned.",
    "injection": "The instruction at the end is simulated.",
}


def html(log: Log, call: str = "call-1-1", **changes: Any) -> Node:
    view = replace(View(log.session(), "", WireRows(), log.now_ms), **changes)
    return parse(block(ENV, view, call))


def waiting(name: str = "get_weather", arguments: Any = None, *problems: Problem) -> Log:
    call_arguments = {"city": "Paris"} if arguments is None else arguments
    return turn_with_calls((name, call_arguments), checked=False).check("1.1", *problems)


def log_with_end(
    name: str, real: ToolResult | None = REAL, result: ToolResult | None = None
) -> Log:
    row = next(fault for fault in FAULTS if fault.name == name)
    log = waiting().add(CallDecided("1.1", row.decision, digest=DIGEST, fault=name))
    if row.runs:
        log.add(CallStarted("1.1", 1))
    built = result or stage_result(name, Scene("get_weather"), real if row.runs else None)
    return log.add(CallEnded("1.1", built, real if row.runs else None))


def blocked(log: Log, **changes: Any) -> list[str]:
    session, card = log.session(), card_of(log, **changes)
    return [
        fault_choice.fault.name
        for fault_choice in fault_choices(session, session.call("1.1"), card.offer)
        if fault_choice.blocked
    ]


@pytest.mark.parametrize(
    ("log", "wanted"),
    [
        (waiting(), ["stale"]),
        (waiting("get_weather", {}, SCHEMA), ["stale"]),
        (waiting("get_weather", '{"c', Problem("malformed", "Cut.")), ["stale", *RUNS]),
        (waiting("ask_me", {}), ["stale", *RUNS]),
        (waiting("get_weather", {"city": "x" * 20_000}), ["stale", *RUNS]),
    ],
    ids=["sound", "unsatisfied", "malformed", "person", "long"],
)
def test_what_the_menu_offers(log: Log, wanted: list[str]) -> None:
    assert blocked(log) == wanted
    page = html(log)
    radios = [node for node in page.walk() if node.attributes.get("type") == "radio"]
    assert [radio.attributes["value"] for radio in radios] == [fault.name for fault in FAULTS]
    assert [
        radio.attributes["value"] for radio in radios if "disabled" in radio.attributes
    ] == wanted
    for row in FAULTS:
        assert row.says in page.text or row.name in wanted


def test_a_card_without_decisions_has_no_menu() -> None:
    for log in (log_with_end("error"), turn_with_calls(("get_weather", {}), checked=False)):
        assert "Stage a fault" not in html(log).text
    assert "Stage a fault" not in html(waiting(), own=False).text


def test_running_what_does_not_fit_is_a_choice_of_its_own() -> None:
    page = html(waiting("get_weather", {}, SCHEMA))
    form = next(
        node for node in page.walk() if node.attributes.get("id", "").startswith("stageform")
    )
    names = [node.attributes.get("name") for node in form.walk() if node.name == "input"]
    assert names.count("anyway") == 1
    sound = next(
        node
        for node in html(waiting()).walk()
        if node.attributes.get("id", "").startswith("stageform")
    )
    assert "anyway" not in [node.attributes.get("name") for node in sound.walk()]


@pytest.mark.parametrize("row", FAULTS, ids=lambda item: item.name)
def test_afterwards_the_card_says_what_was_real(row: Any) -> None:
    log = log_with_end(row.name)
    page = html(log)
    assert f"staged: {row.title}" in page.text
    assert SAID[row.name] in page.text
    apart = row.runs and row.name != "slow"
    assert ("Actual tool result" in page.text) == apart
    assert (REAL.text in page.text) == row.runs
    assert ("not run" in page.text) != row.runs
    replayed = re.sub(
        r"at=\d+&", "", str(html(log, replay=True))
    )  # the moment, for what is asked for
    assert replayed == str(html(log, own=False))


@pytest.mark.parametrize(
    ("log", "title", "message", "real"),
    [
        (
            log_with_end("slow", REAL, text_result("Cancelled.", is_error=True)),
            "",
            "before a slow answer was staged",
            True,
        ),
        (
            log_with_end("cut_json", None, text_result("It broke.", is_error=True)),
            "",
            "nothing",
            False,
        ),
        (
            log_with_end("wrong_type", ToolResult(), ToolResult(staged=True)),
            "a wrong type",
            "did not change",
            False,
        ),
        (log_with_end("cut_json", ToolResult((IMAGE,))), "truncated JSON", "the beginning", True),
    ],
    ids=["cancelled", "broke", "the same", "an image"],
)
def test_what_did_not_go_as_asked_is_said(log: Log, title: str, message: str, real: bool) -> None:
    session = log.session()
    item = staged_fault(session, session.call("1.1"))
    assert item is not None
    assert item.title == title
    assert message in item.sentence
    assert (item.real is not None) == real
    assert item.sentence in html(log).text


def test_a_stale_result_tells_of_which_turn_it_is() -> None:
    log = waiting().run("1.1", "older").request()
    log.call(0, "get_weather", {"city": "Oslo"}).end().check("2.0")
    assert blocked_of(log, "2.0") == []
    result = stage_result("stale", Scene("get_weather", old=text_result("older")))
    log.add(CallDecided("2.0", "answer", digest=DIGEST, fault="stale"), CallEnded("2.0", result))
    assert "returned in turn 1." in html(log, "call-2-0").text


def blocked_of(log: Log, call_id: str) -> list[str]:
    session, card = log.session(), card_of(log, call_id)
    return [
        fault_choice.fault.name
        for fault_choice in fault_choices(session, session.call(call_id), card.offer)
        if fault_choice.blocked
    ]
