"""The head and the foot of a turn: times, tokens, cost, retries, waits and what went wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from playground.core.events import (
    PartEnded,
    PartStarted,
    RequestSent,
    ResponseEnded,
    ResponseFailed,
    ResponseStarted,
    RetryScheduled,
    RunStopped,
    Source,
    TurnDropped,
    Usage,
    Warned,
)
from playground.core.settings import Profile
from playground.render.blocks import block
from playground.render.view import View, state_words
from playground.render.wire_rows import WireRows
from tests.factories import Log, settings
from tests.render.page import ENV, Node, roots

REAL = settings(profile=Profile("real", "openai_chat", "https://llm.example/v1", model="m"))
LIMITS = {"retry-after": "1", "x-ratelimit-remaining-tokens": "0"}
REFUSED = ResponseFailed(
    "http",
    message="Too many.",
    status=429,
    retry_after=1.0,
    error={"m": "slow"},
    raw_reason="",
    usage=Usage(),
    request_id="req_9",
    rate_limits=LIMITS,
)

COUNTED = ResponseEnded(
    "stop",
    usage=Usage(
        1412,
        output_tokens=96,
        raw={},
        cached_tokens=1000,
        cache_write_tokens=20,
        reasoning_tokens=40,
    ),
)


def turn_block(log: Log, number: int, name: str = "turnfoot", rest: str = "", **view: Any) -> Node:
    drawn_view = View(log.session(), "", WireRows(), log.now_ms, **view)
    (root,) = roots(block(ENV, drawn_view, f"{name}-{number}{rest}"))
    return root


def words(node: Node) -> str:
    return " ".join(node.text.split())


def attribute_values(node: Node, attribute: str) -> list[str]:
    return [node.attributes[attribute] for node in node.walk() if attribute in node.attributes]


def buttons(node: Node) -> list[str]:
    return [words(node) for node in node.walk() if node.name == "button" and node.text.strip()]


def refused_log() -> Log:
    return Log().start().prompt().request().add(REFUSED)


def counting() -> Log:
    log = refused_log()
    return log.add(RetryScheduled(1, 1, 1.25, log.now_ms + 1250, "429"))


def test_a_retry_that_is_waited_for_is_counted_down_and_can_be_cancelled() -> None:
    log = counting()
    foot = turn_block(log, 1)
    assert "Trying again in 1.2 s (1 of 2): 429" in words(foot)
    assert attribute_values(foot, "data-until") == [str(log.now_ms - 10 + 1250)]
    assert buttons(foot) == ["Retry now", "Cancel"]
    assert state_words(log.session()) == "waiting to retry"


def test_in_a_replay_the_countdown_stands_still() -> None:
    foot = turn_block(counting(), 1, replay=True)
    assert "Trying again in 1.2 s (1 of 2): 429" in words(foot)
    assert attribute_values(foot, "data-until") == []
    assert buttons(foot) == []


@pytest.mark.parametrize("event", [RunStopped(), TurnDropped(1, automatic=True)])
def test_the_countdown_goes_with_its_end(event: Any) -> None:
    assert "Trying again" not in words(turn_block(counting().add(event), 1))


def test_a_failure_shows_the_providers_words_then_its_limits() -> None:
    foot = turn_block(refused_log(), 1)
    message = words(foot)
    assert -1 < message.index("slow") < message.index("x-ratelimit-remaining-tokens")
    assert "req_9" in message
    assert buttons(foot) == ["Retry"]


@pytest.mark.parametrize(
    ("events", "message", "attribute", "bound"),
    [
        ([], "Waiting for the first byte…", "data-elapsed", "60"),
        ([ResponseStarted(200, {})], "Waiting for the first part…", "data-silence", "60"),
        ([ResponseStarted(200, {}), PartStarted(0, "text")], "", "data-silence", "60"),
    ],
)
def test_the_waits_run_in_the_page(
    events: list[Any], message: str, attribute: str, bound: str
) -> None:
    log = Log().start().prompt()
    log.add(
        RequestSent(
            1,
            protocol="anthropic",
            method="POST",
            url="http://x/v1/messages",
            headers={},
            body="{}",
        ),
        *events,
    )
    foot = turn_block(log, 1)
    assert words(foot) == message
    assert attribute_values(foot, attribute)
    assert attribute_values(foot, "data-bound") == [bound]
    # A head alone is no first byte: until a part is there, the time for that one counts on.
    waits_on = len(events) == 1
    assert attribute_values(foot, "data-first") == (["60"] if waits_on else [])
    assert attribute_values(turn_block(log, 1, replay=True), "data-bound") == []
    assert attribute_values(turn_block(log, 1, live=False), "data-bound") == []


def test_notes_on_translation_that_were_made_before_are_folded() -> None:
    again, new = Warned("translation", "No tool_choice."), Warned("translation", "No images.")
    log = Log().start().prompt().request().add(again, Warned("odd", "Odd.")).part(0, "text", "a")
    log.end("stop").prompt().request().add(again, new, Warned("odd", "Odd."))
    first, second = turn_block(log, 1), turn_block(log, 2)
    of_notes = [
        [node for node in turn.walk() if node.name == "details"] for turn in (first, second)
    ]
    of_notes = [[node for node in turn if node.attributes["class"] != "fork"] for turn in of_notes]
    assert not of_notes[0]
    (folded,) = of_notes[1]
    assert words(folded).startswith("1 note on translation, as in the previous turn")
    assert "No tool_choice." in folded.text
    assert "No images." not in folded.text
    notes = [node for node in second.walk() if "note" in node.attributes.get("class", "").split()]
    assert [words(note) for note in notes] == ["No images.", "! Odd."]


def test_other_choices_and_likely_tokens_are_there_to_be_opened() -> None:
    entry = {"token": "Hi", "logprob": 0.0}
    log = Log().start().prompt().request().add(PartStarted(0, "text"))
    log.add(PartEnded(0, "Hi", meta={"logprobs": [entry] * 600}))
    log.add(Warned("other_choices", "1 more.", {"choices": [{"text": "Oh"}]}))
    log.add(ResponseEnded("stop", meta={"logprobs": [entry]}))
    foot, part = turn_block(log, 1), turn_block(log, 1, "part", "-0")
    assert "Oh" in foot.text
    assert "100.0" in foot.text
    assert "The first 500 of 600 tokens." in words(part)
    assert sum(node.name == "tr" for node in part.walk()) == 501


def head(end: ResponseEnded, *, real: bool = True, priced: bool = True) -> Node:
    ENV.globals["has_prices"], before = priced, ENV.globals["has_prices"]
    try:
        log = Log().start(REAL if real else None).prompt().request()
        log.part(0, "text", "Hi")
        return turn_block(log.add(end), 1, "turnhead")
    finally:
        ENV.globals["has_prices"] = before


def test_the_head_and_the_wire_say_one_speed() -> None:
    gemini = settings(profile=Profile("g", "gemini", "https://llm.example/v1", model="m"))
    log = Log(step_ms=100).start(gemini).prompt().request(protocol="gemini").part(0, "text", "Hi")
    log.add(ResponseEnded("stop", usage=Usage(8, 100, reasoning_tokens=50)))
    wire = WireRows()
    for logged in log.events:
        wire.log(replace(logged, source=Source(1, 0, 0)))
    wire.feed(1, log.now_ms - 100, b"data: {}\n\n")
    view = View(log.session(), "", wire, log.now_ms)
    headed, wired = (roots(block(ENV, view, f"{name}-1"))[0] for name in ("turnhead", "wirehead"))
    assert "500/s" in words(headed)
    assert "Tokens per second500.0" in words(wired)


def test_a_head_tells_times_tokens_and_speed() -> None:
    node = head(COUNTED)
    messages = [words(child) for child in node.children if isinstance(child, Node)]
    assert messages == [
        *("sim-1", "real", "first after 20 ms", "50 ms", "1 412 → 96 tokens"),
        *("3 200/s", "cost unknown"),
    ]
    titles = " ".join(attribute_values(node, "title"))
    assert "1\u2009000 read from its cache; 20 written to its cache; 40 thought" in titles


@pytest.mark.parametrize(
    ("end", "real", "priced", "text"),
    [
        (replace(COUNTED, cost=0.00123), True, True, "$0.0012"),
        (replace(COUNTED, cost=0.00123), True, False, "$0.0012"),
        (replace(COUNTED, cost=0.000001), True, True, "under $0.0001"),
        (replace(COUNTED, cost=0.0), True, True, "$0"),
        (COUNTED, True, True, "cost unknown"),
        (ResponseEnded("stop"), True, True, "cost unknown"),
        (COUNTED, True, False, ""),
        (COUNTED, False, True, ""),
    ],
)
def test_a_cost_is_said_or_said_to_be_unknown(
    end: ResponseEnded, real: bool, priced: bool, text: str
) -> None:
    match = words(head(end, real=real, priced=priced))
    assert match.endswith(text)
    assert ("cost" in match or "$" in match) == bool(text)


def test_a_head_counts_the_retries_before_it() -> None:
    log = counting().add(TurnDropped(1, automatic=True)).request()
    assert words(turn_block(log, 2, "turnhead")).endswith("1 retry")
    assert "retr" not in words(turn_block(log, 1, "turnhead"))


def test_a_failure_names_whose_it_is() -> None:
    assert words(turn_block(refused_log(), 1)).startswith("HTTP 429 · simulator Too many.")
    stopped = Log().start().prompt().request().add(ResponseFailed("stopped", "Stopped by you."))
    assert words(turn_block(stopped, 1)).startswith("Stopped Stopped by you.")
