"""Calls are checked while they stream: which are, and what is told when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from playground.core.events import (
    CallChecked,
    CallDoubted,
    Event,
    PartDelta,
    PartEnded,
    PartStarted,
)
from playground.core.settings import Profile, Protocol
from playground.core.tools import Tool
from playground.engine.responses import StreamingValidation
from playground.protocols.decoder import EventBuilder
from tests.engines import run_engine, run_prompt

ADD = Tool(
    "add",
    parameters={
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "additionalProperties": False,
    },
)
ADD_ALL = Tool("add_all")
WORDS = Tool("words", format={"type": "text"}, parameters=ADD.parameters)
BROKEN = Tool("broken", parameters={"type": "object", "$ref": "http://example.com/"})
STRICT = Tool(
    "get_weather",
    "Get the weather of a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
PROTOCOLS = ("anthropic", "openai_chat", "openai_responses", "gemini", "ollama")
TOOLS = (ADD, ADD_ALL, WORDS, BROKEN)
WRONG = (PartDelta(0, '{"a": '), PartDelta(0, '"x"'), PartDelta(0, ', "b": 1}'))
TEXT = '{"a": "x", "b": 1}'


def with_doubts(events: Sequence[Event], protocol: str = "anthropic") -> list[Event]:
    """The events, and the doubts where they come."""
    doubts, results = StreamingValidation(TOOLS, protocol), list[Event]()
    for event in events:
        if isinstance(event, PartEnded):
            results += _some(doubts.check_call_end(event))
        results.append(event)
        results += _some(doubts.check_event(event))
    return results


def _some(event: CallDoubted | None) -> Iterator[CallDoubted]:
    if event is not None:
        yield event


def kinds(events: Sequence[Event]) -> str:
    return " ".join(type(event).__name__.removeprefix("Part").lower() for event in events)


def call(name: str, *, ended: str = "") -> tuple[Event, ...]:
    end = PartEnded(0, TEXT, ended or name)
    return (PartStarted(0, "call", name), *WRONG, end)


CASES = (
    (call("add"), "anthropic", "started delta delta calldoubted delta ended"),
    (call("unknown"), "anthropic", "started delta delta delta ended"),
    (call("words"), "anthropic", "started delta delta delta ended"),
    (call("broken"), "anthropic", "started delta delta delta ended"),
    # The name comes late, or may go on: then all is known at the end.
    (call("", ended="add"), "anthropic", "started delta delta delta calldoubted ended"),
    (call("", ended="unknown"), "anthropic", "started delta delta delta ended"),
    (call("add"), "openai_chat", "started delta delta delta calldoubted ended"),
    (call("add", ended="add_all"), "openai_chat", "started delta delta delta ended"),
    (call("add_all"), "openai_chat", "started delta delta delta ended"),
    # What is no call, and what is sent a second time.
    ((PartStarted(0, "text"), *WRONG), "anthropic", "started delta delta delta"),
    (
        (PartStarted(0, "call", "add"), PartDelta(0, '{"a": 1}'), PartDelta(0, '{"a": 1}')),
        "openai_responses",
        "started delta delta",
    ),
    (
        (PartStarted(0, "call", "add"), PartDelta(0, TEXT), PartEnded(0, TEXT, "add")),
        "gemini",
        "started delta calldoubted ended",
    ),
)


@pytest.mark.parametrize(("events", "protocol", "wanted"), CASES)
def test_a_doubt_comes_right_after_what_made_it_certain(
    events: Sequence[Event], protocol: str, wanted: str
) -> None:
    assert kinds(with_doubts(events, protocol)) == wanted


def test_custom_calls_are_texts_whatever_their_name() -> None:
    end = PartEnded(0, "no JSON", "add", meta={"type": "custom"})
    assert kinds(with_doubts((PartStarted(0, "call", ""), end))) == "started ended"


def test_calls_that_stream_at_the_same_time_are_told_apart() -> None:
    events = [PartStarted(0, "call", "add"), PartStarted(1, "call", "add")]
    pieces = [(0, '{"a": '), (1, '{"a"'), (0, "1}"), (1, ': "1"'), (1, "}")]
    results = with_doubts([*events, *(PartDelta(*piece) for piece in pieces)])
    doubts = [event for event in results if isinstance(event, CallDoubted)]
    assert [(doubt.index, doubt.problem.pointer) for doubt in doubts] == [(1, "/a")]


def test_an_answer_that_is_written_in_one_piece_is_doubted_too() -> None:
    answer = EventBuilder()
    answer.add_whole_part("call", TEXT, "add", "id")
    assert "calldoubted" in kinds(with_doubts([event for _, _, event in answer.take_events()]))


@pytest.mark.anyio
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_log_says_it_before_the_call_is_checked(
    tmp_path: Path, protocol: Protocol
) -> None:
    profile = Profile("sim", protocol, "sim:", model="gemini-3-simulated")
    async with run_engine(tmp_path) as engine:
        prompt = "What is the weather in Oslo? [[fault:args-wrong-types]]"
        session = await run_prompt(engine, prompt, STRICT, profile=profile)
        log = await engine.log.events(session.id)
    lines = [logged.event for logged in log if isinstance(logged.event, CallDoubted | CallChecked)]
    assert [type(item) for item in lines] == [CallDoubted, CallChecked]
    doubted, checked = lines
    assert isinstance(doubted, CallDoubted)
    assert isinstance(checked, CallChecked)
    assert doubted.problem.message in [problem.message for problem in checked.problems]
    sources = [logged.source for logged in log if isinstance(logged.event, CallDoubted)]
    assert sources != [None]
    (call,) = session.turns[0].calls
    assert call.part.doubt == doubted.problem
    assert call.raw[doubted.problem.offset] in "0123456789"
