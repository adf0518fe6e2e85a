"""An answer with edited calls is one that never had what was taken out, to every reader of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.core.events import PartEnded, ResponseEnded
from playground.protocols.answer_edits import PassableLength, edit_answer, join_answers
from playground.protocols.editable_answer import CallRemoval, Edit, NewArguments
from playground.protocols.framing import Framer
from tests.protocols.answers import PROTOCOLS, AnswerPart, body, call, text, thinking
from tests.protocols.frames import UNHURRIED, end_of, events_of, parts_of

CALLS = [call(1), call(2), call(3)]
NEW = '{"new": 12345678901234567890.50, "list": ["é", "\\ud83d\\ude00"]}'
ANSWERS: dict[str, list[AnswerPart]] = {
    "calls alone": CALLS,
    "all kinds": [thinking("Hm."), text("Hello."), *CALLS],
}
SHAPES = [
    (protocol, name, streamed)
    for protocol in PROTOCOLS
    for name in ANSWERS
    for streamed in (True, False)
]
JOINS = ("openai_chat", "gemini", "ollama")
"""Protocols in which all text of an answer is one."""

GONE_ON: Sequence[tuple[AnswerPart, ...]] = (
    (thinking("Well."), text("I see.")),
    (thinking("Well."), text("I see."), call(4), call(5)),
    (call(4),),
)

FAULTS = ("none", "crlf", "comments", "cut")


def sets_of_calls() -> list[tuple[int, ...]]:
    return [combination for size in (1, 2, 3) for combination in combinations(range(3), size)]


def edits_of(parts: Sequence[AnswerPart], accepted: Sequence[int]) -> dict[int, Edit]:
    """Take these calls out, counted from 0."""
    places = [place for place, part in enumerate(parts) if part.kind == "call"]
    return {places[nth]: CallRemoval(f"No {nth}.") for nth in accepted}


def without(
    protocol: str, parts: Sequence[AnswerPart], accepted: Sequence[int]
) -> list[AnswerPart]:
    """What is left, and the reasons behind it."""
    left = [part for part in parts if part not in [CALLS[nth] for nth in accepted]]
    message = "\n\n".join(f"No {nth}." for nth in accepted)
    has_text = protocol in JOINS and any(part.kind == "text" for part in parts)
    return [*left, text(f"\n\n{message}" if has_text else message)]


def values_of(data: bytes) -> list[Any]:
    framer = Framer()
    frames = [*framer.feed(data), *framer.end()]
    return [frame.data if frame.data == "[DONE]" else json.loads(frame.data) for frame in frames]


def frames_of(data: bytes) -> list[bytes]:
    framer = Framer()
    return [data[frame.start : frame.end] for frame in [*framer.feed(data), *framer.end()]]


@pytest.mark.parametrize(("protocol", "name", "streamed"), SHAPES)
def test_an_answer_without_calls_is_one_that_never_had_them(
    protocol: str, name: str, streamed: bool
) -> None:
    parts = ANSWERS[name]
    data = body(protocol, parts, streamed=streamed)
    for sets_of_call in sets_of_calls():
        new = edit_answer(protocol, data, edits_of(parts, sets_of_call))
        expected = body(protocol, without(protocol, parts, sets_of_call), streamed=streamed)
        assert events_of(protocol, new) == events_of(protocol, expected)
        if protocol == "gemini":  # a text may share a frame, and no frame may be without content
            contents = [value["candidates"][0]["content"] for value in values_of(new)]
            assert all(content["parts"] for content in contents)
        else:
            assert values_of(new) == values_of(expected)
        for nth in sets_of_call:
            assert not [word for word in CALLS[nth].words if word in new]
            assert CALLS[nth].signature.encode() not in new


def joined(
    protocol: str, parts: Sequence[AnswerPart], more: Sequence[AnswerPart], streamed: bool
) -> tuple[bytes, bytes]:
    """An answer whose calls were all answered here and what followed, as one; and an answer that
    says the same by itself. Each of both counts 3 tokens in and 9 out."""
    first = body(protocol, parts, streamed=streamed)
    passed = PassableLength(protocol).add(first) if streamed else 0
    edits = dict.fromkeys(edits_of(parts, range(3)), CallRemoval(""))
    edited = edit_answer(protocol, first, edits, passed=passed)
    last = body(protocol, more, streamed=streamed)
    for name in (b"msg_", b"resp_", b"c", b"r"):
        last = last.replace(b'"%s1"' % name, b'"%s2"' % name)
    new = join_answers(protocol, edited, last, passed=passed)
    assert new.startswith(first[:passed])
    answer_parts = [part for part in parts if part.kind != "call"]
    gone_on = [part for part in more if part.kind != "thinking"]
    if protocol in JOINS and any(part.kind == "text" for part in parts):
        gone_on = [replace(p, text=f"\n\n{p.text}") if p.kind == "text" else p for p in gone_on]
    plain_body = body(protocol, [*answer_parts, *gone_on], streamed=streamed)
    counted = re.sub(rb'(_tokens|candidatesTokenCount|"eval_count)": 9', rb'\1": 18', plain_body)
    counted = re.sub(rb'(_tokens|totalTokenCount)": 12', rb'\1": 21', counted)
    return new, counted


@pytest.mark.parametrize(("protocol", "name", "streamed"), SHAPES)
def test_what_an_answer_goes_on_with_is_part_of_it(
    protocol: str, name: str, streamed: bool
) -> None:
    """It starts once, says nothing of the calls, and counts what was written in both."""
    for more in GONE_ON:
        new, plain_body = joined(protocol, ANSWERS[name], more, streamed)
        events, expected = events_of(protocol, new), events_of(protocol, plain_body)
        rows = [(kind, part.text.split(), part.name) for kind, part in parts_of(events)]
        assert rows == [(kind, p.text.split(), p.name) for kind, p in parts_of(expected)]
        end, wanted = end_of(events), end_of(expected)
        assert isinstance(end, ResponseEnded)
        assert isinstance(wanted, ResponseEnded)
        assert (end.reason, end.meta) == (wanted.reason, wanted.meta)
        assert end.usage.output_tokens == wanted.usage.output_tokens == 18
        assert end.usage.input_tokens == 3
        assert not [word for nth in range(3) for word in CALLS[nth].words if word in new]
        again = join_answers(protocol, *[body(protocol, (text("A."),), streamed=streamed)] * 2)
        third = join_answers(protocol, again, body(protocol, (text("A."),), streamed=streamed))
        assert end_of(events_of(protocol, third)).usage.output_tokens == 27


@pytest.mark.parametrize(("protocol", "name", "streamed"), SHAPES)
def test_new_arguments_are_everywhere_and_the_old_are_nowhere(
    protocol: str, name: str, streamed: bool
) -> None:
    parts = ANSWERS[name]
    data = body(protocol, parts, streamed=streamed)
    old = parts_of(events_of(protocol, data))
    for nth in range(3):
        place = parts.index(CALLS[nth])
        new = edit_answer(protocol, data, {place: NewArguments(NEW)})
        events = events_of(protocol, new)
        for (kind, was), (_, now) in zip(old, parts_of(events), strict=True):
            if kind == "call" and was.name == CALLS[nth].name:
                assert json.loads(now.text) == json.loads(NEW)
                assert (now.name, now.provider_id) == (was.name, was.provider_id)
                assert now.complete
            else:
                assert now == was
        assert end_of(events) == end_of(events_of(protocol, data))
        assert not [word for word in CALLS[nth].words[1:] if word in new]


@pytest.mark.parametrize(("protocol", "name", "streamed"), SHAPES)
def test_without_edits_it_is_the_very_same(protocol: str, name: str, streamed: bool) -> None:
    data = body(protocol, ANSWERS[name], streamed=streamed)
    assert edit_answer(protocol, data, {}) is data


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_leaves_before_the_calls_is_as_it_came(protocol: str) -> None:
    parts = ANSWERS["all kinds"]
    data = body(protocol, parts)
    split = PassableLength(protocol).add(data)
    assert not [word for call in CALLS for word in call.words if word in data[:split]]
    assert b"Hello." in data[:split]
    assert data[:split].endswith(b"\n")
    for sets_of_call in sets_of_calls():
        assert edit_answer(protocol, data, edits_of(parts, sets_of_call))[:split] == data[:split]
    watched = PassableLength(protocol)
    left = [watched.add(data[nth : nth + 50]) for nth in range(0, len(data), 50)]
    assert left == sorted(left)
    assert left[-1] == split
    assert all(count <= nth * 50 for nth, count in enumerate(left, 1))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_frames_of_what_stays_keep_their_bytes_but_for_numbers(protocol: str) -> None:
    parts = ANSWERS["all kinds"]
    data = body(protocol, parts)
    old = {re.sub(rb"\d+", b"0", frame) for frame in frames_of(data)}
    for edit in (CallRemoval("No."), NewArguments("{}")):
        new = frames_of(edit_answer(protocol, data, {parts.index(CALLS[0]): edit}))
        staying = [frame for frame in new if b"tool2" in frame and b"completed" not in frame]
        assert staying
        assert [data for data in staying if re.sub(rb"\d+", b"0", data) not in old] == []
        first = min(nth for nth, frame in enumerate(new) if b"Hello." in frame)
        assert new[: first + 1] == frames_of(data)[: first + 1]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_edit_of_what_is_no_call_is_refused(protocol: str) -> None:
    parts = ANSWERS["all kinds"]
    for place in (0, 5, -1):
        with pytest.raises(ValueError, match=f"no call at part {place}"):
            edit_answer(protocol, body(protocol, parts), {place: CallRemoval("No.")})


@pytest.mark.parametrize("protocol", ["anthropic", "gemini", "ollama"])
def test_arguments_that_are_no_json_are_refused_where_they_are_a_value(protocol: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        edit_answer(protocol, body(protocol, CALLS, streamed=False), {0: NewArguments('{"a": ')})


# Any edits of any answer, in any state.


@st.composite
def answers(draw: st.DrawFn) -> tuple[list[AnswerPart], dict[int, Edit]]:
    """Parts in any order, and edits of some of their calls."""
    kinds = draw(st.lists(st.sampled_from(["text", "call", "thinking"]), min_size=1, max_size=6))
    parts = [
        call(nth) if kind == "call" else AnswerPart(kind, f"{kind}{nth}.")  # type: ignore[arg-type]
        for nth, kind in enumerate(kinds)
    ]
    choices = st.sampled_from(
        [None, CallRemoval("No."), CallRemoval("Not é\u2028."), NewArguments(NEW)]
    )
    edits = {n: draw(choices) for n, part in enumerate(parts) if part.kind == "call"}
    return parts, {n: edit for n, edit in edits.items() if edit is not None}


def broken(data: bytes, fault: str, at: int) -> bytes:
    match fault:
        case "crlf":
            return data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        case "comments" if data.startswith((b"data", b"event")):
            return re.sub(rb"(\r?\n\r?\n)", rb"\1: waiting\1", data)
        case "cut":
            return data[: at % (len(data) + 1)]
        case _:
            return data


@UNHURRIED
@given(
    st.sampled_from(PROTOCOLS), answers(), st.booleans(), st.sampled_from(FAULTS), st.integers(0)
)
def test_any_edits_leave_what_is_not_edited_and_nothing_of_what_is(
    protocol: str,
    answer: tuple[list[AnswerPart], dict[int, Edit]],
    streamed: bool,
    fault: str,
    at: int,
) -> None:
    parts, wanted = answer
    data = broken(body(protocol, parts, streamed=streamed), fault, at)
    old = parts_of(events_of(protocol, data))
    calls = {part.name: part for part in parts if part.kind == "call"}
    edits: dict[int, Edit] = {}
    for place, (kind, ended) in enumerate(old):
        if kind == "call" and ended.name in calls:
            place_wanted = parts.index(calls[ended.name])
            if place_wanted in wanted:
                edits[place] = wanted[place_wanted]
    new = edit_answer(protocol, data, edits)
    _check(protocol, old, edits, calls, new)


def text_of(parts: Sequence[tuple[str, PartEnded]]) -> str:
    return "".join(ended.text for kind, ended in parts if kind == "text")


def _check(
    protocol: str,
    old: Sequence[tuple[str, PartEnded]],
    edits: Mapping[int, Edit],
    calls: Mapping[str, AnswerPart],
    new: bytes,
) -> None:
    found_parts = parts_of(events_of(protocol, new))
    text_before, text_after = text_of(old), text_of(found_parts)
    assert text_after.startswith(text_before)
    reasons = {edit.reason for edit in edits.values() if isinstance(edit, CallRemoval)}
    assert all(reason in text_after[len(text_before) :] for reason in reasons)
    assert bool(reasons) == (text_after != text_before)
    left = [ended for kind, ended in found_parts if kind == "call"]
    expected = []
    for place, (kind, ended) in enumerate(old):
        match edits.get(place):
            case CallRemoval():
                assert not [word for word in calls[ended.name].words if word in new]
            case NewArguments():
                assert not [word for word in calls[ended.name].words[1:] if word in new]
                expected.append((ended.name, json.loads(NEW)))
            case _ if kind == "call":
                expected.append((ended.name, ended.text))
    ended_calls = [
        (ended.name, json.loads(ended.text) if isinstance(wanted, dict) else ended.text)
        for ended, (_, wanted) in zip(left, expected, strict=True)
    ]
    assert ended_calls == expected
