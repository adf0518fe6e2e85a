"""What goes back to a provider: complete, in order, nothing dangling."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.core.events import (
    CallDecided,
    CallEnded,
    CallStarted,
    EndReason,
    Event,
    PartDelta,
    PartEnded,
    PartStarted,
    PromptAdded,
    ResponseEnded,
    RunStopped,
    SessionStarted,
    SettingsChanged,
    TaskEnded,
    TaskStarted,
    TurnDropped,
)
from playground.core.messages import Message, model_request
from playground.core.providers import SIMULATOR
from playground.core.settings import Profile
from playground.core.tools import Content, ToolChoice, text_result
from tests.playbook import (
    call,
    call_checked,
    failed,
    opened,
    part,
    run,
    run_call,
    session,
    start_events,
    turn,
)
from tests.playbook import settings as start

IMAGE = Content("image", media_type="image/png", data="aGk=")
STOPPED_TURN: list[Event] = [
    *(PartStarted(0, "thinking"), PartDelta(0, "hm"), PartEnded(0, "hm", complete=False)),
    *(PartStarted(1, "call", "look", "b"), PartEnded(1, '{"a', "look", "b", complete=False)),
]
ORPHAN = "result:toolu_0"

HISTORIES: list[tuple[str, list[Event], list[tuple[str, list[str]]]]] = [
    ("a stopped turn that said nothing", [*failed(1, STOPPED_TURN, failure="stopped")],
     [("user", ["text:hello", "text:on"])]),
    ("cut turns in a row",
     [*failed(1, part(0)), PromptAdded("b"), *failed(2, call(0)), PromptAdded("c"),
      *failed(3, part(0, text=" \n"))],
     [("user", ["text:hello"]), ("assistant", ["text:hi"]),
      ("user", ["text:b", "text:c", "text:on"])]),
    ("ended by length with a call", [*turn(1, part(0), call(1), reason="length")],
     [("user", ["text:hello"]), ("assistant", ["text:hi", 'call:{"city":"Paris"}']),
      ("results", ["result:toolu_1"]), ("user", ["text:on"])]),
    ("a refusal", [*turn(1, part(0, "refusal", "No."), reason="refusal")],
     [("user", ["text:hello"]), ("assistant", ["refusal:No."]), ("user", ["text:on"])]),
    ("a refusal without a word", [*opened(1), ResponseEnded("refusal")],
     [("user", ["text:hello", "text:on"])]),
    ("an empty text beside a call", [*turn(1, part(0, text=""), call(1))],
     [("user", ["text:hello"]), ("assistant", ['call:{"city":"Paris"}']),
      ("results", ["result:toolu_1"]), ("user", ["text:on"])]),
    ("a pause and what came after it", [*turn(1, part(0), reason="pause"), *turn(2, call(0))],
     [("user", ["text:hello"]), ("assistant", ["text:hi", 'call:{"city":"Paris"}']),
      ("results", [ORPHAN]), ("user", ["text:on"])]),
]  # fmt: skip


def shape(*events: Event) -> list[tuple[str, list[str]]]:
    request = model_request(session(*events), ToolChoice())
    return [
        (m.role, [f"{p.kind}:{p.text or p.call_id}" for p in m.parts]) for m in request.messages
    ]


def test_results_follow_their_calls_in_the_order_of_the_calls() -> None:
    events = [
        *start_events(),
        *turn(1, part(0), call(1), call(2)),
        call_checked("1.1"),
        call_checked("1.2"),
    ]
    events += [run("1.2"), *run_call("1.2", "second"), run("1.1"), *run_call("1.1", "first")]
    request = model_request(session(*events), ToolChoice())
    assert [m.role for m in request.messages] == ["user", "assistant", "results"]
    results = request.messages[2].parts
    assert [(p.call_id, p.content[0].text) for p in results] == [
        ("toolu_1", "first"),
        ("toolu_2", "second"),
    ]


def test_of_a_cut_turn_only_what_was_said_goes_back() -> None:
    events = [*start_events(), *failed(1, part(0), call(1)), PromptAdded("go on")]
    assert shape(*events) == [
        ("user", ["text:hello"]),
        ("assistant", ["text:hi"]),
        ("user", ["text:go on"]),
    ]


def test_prompts_in_a_row_become_one_message() -> None:
    events = [*start_events(), *failed(1), PromptAdded("again")]
    assert shape(*events) == [("user", ["text:hello", "text:again"])]


def test_a_dropped_turn_is_gone() -> None:
    assert shape(*start_events(), *failed(1, part(0)), TurnDropped(1)) == [("user", ["text:hello"])]


def test_calls_that_were_never_decided_get_a_result_that_says_so() -> None:
    events = [
        *start_events(),
        *turn(1, call(0)),
        call_checked("1.0"),
        RunStopped(),
        PromptAdded("no"),
    ]
    request = model_request(session(*events), ToolChoice())
    (result,) = request.messages[2].parts
    assert result.is_error
    assert "Not run" in result.content[0].text


def test_what_ran_is_what_the_model_reads_back() -> None:
    edited = run("1.0", arguments='{"city":"Rome"}')
    events = [*start_events(), *turn(1, call(0)), call_checked("1.0"), edited, *run_call("1.0")]
    assistant: Message = model_request(session(*events), ToolChoice()).messages[1]
    assert assistant.parts[0].text == '{"city":"Rome"}'


def test_an_id_is_made_up_where_the_provider_sent_none() -> None:
    nameless = [*part(0, "call", "{}", name="look")]
    events = [*start_events(), *turn(1, nameless), call_checked("1.0")]
    events += [CallDecided("1.0", "deny"), CallEnded("1.0", text_result("no", is_error=True))]
    request = model_request(session(*events), ToolChoice())
    assert (
        request.messages[1].parts[0].call_id == request.messages[2].parts[0].call_id == "call_1_0"
    )


def test_only_allowed_tools_are_sent() -> None:
    choice = ToolChoice("auto", "", ("look",))
    request = model_request(session(*start_events(choice=choice)), choice)
    assert [tool.name for tool in request.offered] == ["look"]


@pytest.mark.parametrize(
    ("events", "expected"), [h[1:] for h in HISTORIES], ids=[h[0] for h in HISTORIES]
)
def test_a_history_is_sound_whatever_happened(
    events: list[Event], expected: list[tuple[str, list[str]]]
) -> None:
    assert shape(*start_events(), *events, RunStopped(), PromptAdded("on")) == expected


def test_a_prompt_of_images_alone_has_no_empty_text() -> None:
    request = model_request(
        session(
            *start_events()[:1], PromptAdded("", (IMAGE,)), *turn(1), PromptAdded(" ", (IMAGE,))
        ),
        ToolChoice(),
    )
    assert [[p.kind for p in m.parts] for m in request.messages] == [["image"], ["text"], ["image"]]


@st.composite
def stories(draw: st.DrawFn) -> list[Event]:
    """A session in which anything may have happened, up to a last prompt."""
    events = start_events(max_turns=99)
    for number in range(1, draw(st.integers(1, 7))):
        kinds = draw(st.lists(st.sampled_from(["text", "empty", "thinking", "refusal", "call"])))
        parts: list[list[Event]] = []
        for index, kind in enumerate(kinds):
            if kind == "call":
                id = draw(st.sampled_from(["", "same", f"id{number}.{index}"]))
                parts.append(part(index, "call", "{}", name="look", provider_id=id))
            else:
                parts.append(part(index, *(("text", "") if kind == "empty" else (kind, kind))))
        if draw(st.booleans()):
            reasons: list[EndReason] = ["stop", "calls", "length", "refusal", "pause"]
            reason = draw(st.sampled_from(reasons))
            inner = [event for part in parts for event in part]
            events += [*opened(number), *inner, ResponseEnded(reason)]
        else:
            events += failed(number, *parts, failure=draw(st.sampled_from(["http", "stopped"])))
        if draw(st.booleans()):
            events.append(TurnDropped(number))
        if draw(st.booleans()):
            images = draw(st.sampled_from([(), (IMAGE,)]))
            text = draw(st.sampled_from(["", "on"])) if images else "on"
            events += [RunStopped(), PromptAdded(text, images)]
    return [*events, RunStopped(), PromptAdded("last")]


@settings(deadline=None)
@given(stories())
def test_messages_alternate_and_every_call_has_its_result_right_after(events: list[Event]) -> None:
    messages = model_request(session(*events), ToolChoice()).messages
    assert messages[0].role == messages[-1].role == "user"
    for before, after in pairwise(messages):
        assert before.role != after.role
        if after.role == "results":
            assert before.role == "assistant"
    for place, message in enumerate(messages):
        assert message.parts
        calls = [part.call_id for part in message.parts if part.kind == "call"]
        assert all(part.text or part.kind not in ("text", "refusal") for part in message.parts)
        results: list[str] = []
        if calls:
            assert messages[place + 1].role == "results"
            results = [part.call_id for part in messages[place + 1].parts]
        assert results == calls
        assert all(part.kind == "result" for part in message.parts) == (message.role == "results")


@pytest.mark.parametrize(
    ("changes", "origin"),
    [
        ({}, ""),
        ({"model": "m"}, ""),
        ({"model": "another"}, "model"),
        ({"profile": Profile("b", "anthropic", "https://b.example", model="m")}, "address"),
        ({"profile": Profile("c", "gemini", SIMULATOR.base_url, model="m")}, "protocol"),
    ],
)
def test_what_came_from_elsewhere_says_so_and_is_nobodys(
    changes: dict[str, Any], origin: str
) -> None:
    """The model is that of the request, whatever its profile says today."""
    first = replace(start(), profile=replace(SIMULATOR, model="m"))
    events: list[Event] = [SessionStarted(first), PromptAdded("hello")]
    events += [*turn(1, part(0, "thinking", "why"), part(1), call(2)), call_checked("1.2")]
    events += [SettingsChanged(replace(first, **changes)), RunStopped(), PromptAdded("on")]
    message = model_request(session(*events), ToolChoice()).messages[1]
    assert {part.origin for part in message.parts} == {origin}
    assert {part.protocol for part in message.parts} == {"" if origin else "anthropic"}


def test_whether_a_part_came_to_its_end_is_told() -> None:
    half: list[Event] = [PartStarted(0, "thinking"), PartEnded(0, "hm", complete=False)]
    events = [*start_events(), *turn(1, half, part(1), reason="length"), PromptAdded("on")]
    messages = model_request(session(*events, *failed(2, part(0))), ToolChoice()).messages
    assert [part.complete for part in messages[1].parts] == [False, True]
    assert [part.complete for part in messages[3].parts] == [False]


def test_what_comes_of_a_call_in_the_background_is_told_once_and_keeps_its_place() -> None:
    """Each request has all messages of the one before it: what was sent once is never moved."""
    behind: list[Event] = [
        TaskStarted("call-1-2", "1.2"),
        CallEnded("1.2", text_result("It goes on.")),
    ]
    events = [*start_events(), *turn(1, part(0), part(1), call(2)), call_checked("1.2")]
    events += [CallDecided("1.2", "run"), CallStarted("1.2", 1), *behind]
    events += [*turn(2), TaskEnded("call-1-2", "done", text_result("42"))]
    events += [PromptAdded("well?")]
    first = model_request(session(*events), ToolChoice()).messages
    events += [*turn(3), PromptAdded("and?")]
    later = model_request(session(*events), ToolChoice()).messages
    assert later[: len(first)] == first
    mark = hashlib.sha256(b"call-1-2\n42").hexdigest()[:16]
    output = "[Task call-1-2, which went on in the background, is over: done. "
    output += f"What follows up to {mark} is output of the tool:]\n42\n[{mark}]"
    assert [part.text for part in first[-1].parts] == [output, "well?"]
    assert [part.text for part in later[-1].parts] == ["and?"]
