"""Edited answers of servers that write calls in their own way; each quirk is a frame by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from playground.core.events import PartEnded, PartStarted
from playground.protocols.answer_edits import PassableLength, PassedAnswer, edit_answer
from playground.protocols.editable_answer import CallRemoval, Edit, NewArguments
from playground.protocols.server import IdSource, ModelReply, ReplyBlock
from tests.protocols import gemini, responses
from tests.protocols.answers import PROTOCOLS, body, call, text, thinking
from tests.protocols.frames import (
    DONE,
    calls,
    chunk,
    codes_of,
    events_of,
    fragment,
    line,
    lines,
    message,
    parts_of,
    sse,
)
from tests.protocols.test_answer_edits import values_of
from tests.protocols.test_summary import BODIES, RECORDINGS
from tests.simulator.talking import Talk

NO = CallRemoval("No.")
OTHER = NewArguments('{"z":26}')

ROLE = chunk({"role": "assistant", "content": ""})
CUSTOM = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "f", "input": "SELECT"}}
WHOLE = {"message": {"role": "assistant", "content": None}, "finish_reason": "tool_calls"}

ITEMS = [responses.call(call_id="a"), responses.call('{"x": 1}', "b", name="g")]
RESPONSES: dict[str, bytes] = {
    "no deltas": sse(
        *(responses.added(n, {**item, "arguments": ""}) for n, item in enumerate(ITEMS)),
        *(responses.done(n, item) for n, item in enumerate(ITEMS)),
        responses.completed(*ITEMS),
    ),
    "only at the end": sse(responses.completed(*ITEMS)),
    "nothing at the end": sse(
        *(responses.done(n, item) for n, item in enumerate(ITEMS)), responses.completed()
    ),
    "ids change": sse(
        *(responses.added(n, {**item, "id": f"one{n}"}) for n, item in enumerate(ITEMS)),
        *(responses.done(n, {**item, "id": f"two{n}"}) for n, item in enumerate(ITEMS)),
        responses.completed(*ITEMS),
    ),
    "no index": sse(
        responses.event("output_item.done", item=ITEMS[0]),
        responses.event("output_item.done", item=ITEMS[1]),
        responses.completed(*ITEMS),
    ),
    "in progress": sse(
        responses.done(0, ITEMS[0]),
        responses.event("in_progress", response=responses.body(ITEMS[0], status="in_progress")),
        responses.done(1, ITEMS[1]),
        responses.completed(*ITEMS),
    ),
}

GROWING = sse(
    gemini.event(gemini.text("Hm.", thought=True)),
    gemini.event(gemini.growing(name="f")),
    gemini.event(gemini.growing(gemini.partial_arg("$.a", stringValue="é", more=True))),
    gemini.event(gemini.growing(gemini.partial_arg("$.a", stringValue="b"))),
    gemini.event(gemini.growing(goes_on=False), reason="STOP", usageMetadata={"x": 1}),
    end="\r\n",
)

SIGNED = {"type": "reasoning.encrypted", "data": "x", "id": "a", "format": "google-gemini-v1"}

SAID = [thinking("Hm."), text("Hello."), call(1)]

PIECES = ("I l", "ook.")
MIXED = (
    responses.added(0, responses.message()),
    *({**responses.text(0, piece), "item_id": "msg_1"} for piece in PIECES),
    responses.added(1, responses.call("")),
    responses.args(1, '{"x"'),
    responses.args(1, ":1}"),
    responses.event("output_text.done", 0, item_id="msg_1", content_index=0, text="I look."),
    responses.done(0, responses.message("I look.")),
    responses.done(1, responses.call('{"x":1}')),
)

COPY = fragment(0, "a", "f", '{"x":1}')
BESIDE = {"message": {"role": "assistant", "content": "I look.", "tool_calls": [COPY]},
          "delta": {"role": "assistant", "content": "", "tool_calls": [COPY]},
          "finish_reason": "tool_calls", "index": 0}  # fmt: skip


def named_calls(protocol: str, data: bytes) -> list[tuple[str, str]]:
    """(name, arguments) of the calls."""
    ends = parts_of(events_of(protocol, data))
    return [(ended.name, ended.text) for kind, ended in ends if kind == "call"]


def edited_calls(protocol: str, data: bytes, edits: Mapping[int, Edit]) -> list[tuple[str, str]]:
    new = edit_answer(protocol, data, edits)
    assert not set(codes_of(events_of(protocol, new))) - set(codes_of(events_of(protocol, data)))
    return named_calls(protocol, new)


def two(*fragments: Any) -> bytes:
    return sse(ROLE, *(calls(fragment) for fragment in fragments), chunk({}, "tool_calls"), DONE)


CHATS: dict[str, bytes] = {
    "indexes all 0": two(fragment(0, "a", "f", "{}"), fragment(0, "b", "g", "{}")),
    "no index": two(fragment(None, "a", "f", "{}"), fragment(None, "b", "g", "{}")),
    "indexes from 1": two(fragment(1, "a", "f", "{}"), fragment(2, "b", "g", "{}")),
    "id in every piece": two(
        *(fragment(0, "a", "f", ""), fragment(0, "a", None, "{}")),
        *(fragment(1, "b", "g", ""), fragment(1, "b", None, "{}")),
    ),
    "id before the name": two(
        *(fragment(0, "a"), fragment(0, None, "f"), fragment(0, None, None, "{}")),
        *(fragment(1, "b"), fragment(1, None, "g"), fragment(1, None, None, "{}")),
    ),
    "interleaved": two(
        *(fragment(0, "a", "f", "{"), fragment(1, "b", "g", "{")),
        *(fragment(0, arguments="}"), fragment(1, arguments="}")),
    ),
    "both in one chunk": sse(
        ROLE, calls(fragment(0, "a", "f", "{}"), fragment(1, "b", "g", "{}")), chunk({}, "stop")
    ),
    "with the reason": sse(
        ROLE,
        chunk(
            {
                "content": "",
                "tool_calls": [fragment(0, "a", "f", "{}"), fragment(1, "b", "g", "{}")],
            },
            "tool_calls",
        ),
        DONE,
    ),
    "all in one chunk": sse(
        chunk(
            {
                "role": "assistant",
                "content": "x",
                "tool_calls": [fragment(0, "a", "f", "{}"), fragment(1, "b", "g", "{}")],
            },
            "tool_calls",
        ),
        DONE,
    ),
    "arguments as objects": two(fragment(0, "a", "f", {"x": 1}), fragment(1, "b", "g", {"y": 2})),
    "reason twice": sse(
        ROLE,
        calls(fragment(0, "a", "f", "{}")),
        calls(fragment(1, "b", "g", "{}")),
        chunk({}, "tool_calls", native_finish_reason="tool_use"),
        chunk({"content": ""}, "tool_calls", usage={"prompt_tokens": 1}),
        DONE,
    ),
}


@pytest.mark.parametrize("name", CHATS)
def test_calls_of_chat_dialects(name: str) -> None:
    data = CHATS[name]
    first, second = named_calls("openai_chat", data)
    places = [
        n for n, (kind, _) in enumerate(parts_of(events_of("openai_chat", data))) if kind == "call"
    ]
    assert edited_calls("openai_chat", data, {places[0]: NO}) == [second]
    assert edited_calls("openai_chat", data, {places[1]: NO}) == [first]
    assert edited_calls("openai_chat", data, {places[0]: OTHER}) == [("f", OTHER.text), second]
    assert edited_calls("openai_chat", data, {places[0]: OTHER, places[1]: NO}) == [
        ("f", OTHER.text)
    ]
    none = edit_answer("openai_chat", data, dict.fromkeys(places, NO))
    choices = [c for v in values_of(none) if v != DONE for c in v["choices"]]
    assert not [c for c in choices if "tool_calls" in c["delta"]]
    assert {c["finish_reason"] for c in choices} == {None, "stop"} - (
        {None} if len(choices) == 1 else set()
    )
    assert named_calls("openai_chat", none) == []


@pytest.mark.parametrize("index", [-1, "0", None, True])
def test_a_choice_or_candidate_of_an_odd_number_is_the_answer(index: Any) -> None:
    pieces = [{"content": "x"}, {"tool_calls": [fragment(0, "a", "f", "{}")]}]
    choices: list[Any] = [{"index": index, "delta": piece} for piece in pieces]
    choices.append({"index": index, "delta": {}, "finish_reason": "tool_calls"})
    data = sse(*({"choices": [choice]} for choice in choices))
    if index is not True:
        assert edited_calls("openai_chat", data, {1: NO}) == []
    answer_event = gemini.event(gemini.call(args={}), gemini.call("g", args={}), reason="STOP")
    answer_event["candidates"][0]["index"] = index
    if index != -1:
        assert edited_calls("gemini", sse(answer_event), {0: NO}) == [("g", "{}")]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (two(CUSTOM), []),
        (
            sse(ROLE, chunk({"function_call": {"name": "f", "arguments": "{}"}}, "function_call")),
            [],
        ),
        (two({**fragment(0, "a", "f", "{}"), "function_call": {"name": "f"}}), []),
        (
            sse(
                chunk(
                    {
                        "tool_calls": [fragment(0, "a", "f", "{}")],
                        "function_call": {"name": "f", "arguments": "{}"},
                    },
                    "tool_calls",
                )
            ),
            [],
        ),
        # a head of which no call came
        (two(fragment(0, "a", "f", "{}"), {"index": 1, "function": {"name": ""}}), []),
        # tokens of the call
        (
            sse(
                ROLE,
                {
                    "choices": [
                        {
                            "index": 0,
                            "delta": {"content": None, "tool_calls": [fragment(0, "a", "f", "{}")]},
                            "logprobs": {"content": [{"token": '"f"', "logprob": 0}]},
                            "finish_reason": None,
                        }
                    ]
                },
                chunk({}, "stop"),
            ),
            [],
        ),
        (json.dumps({"choices": [{**WHOLE, "message": {"tool_calls": [CUSTOM]}}]}).encode(), []),
    ],
)
def test_nothing_of_an_odd_call_of_chat_is_left(data: bytes, expected: list[Any]) -> None:
    new = edit_answer("openai_chat", data, {0: NO})
    assert named_calls("openai_chat", new) == expected
    assert b'"f"' not in new
    assert b'\\"f\\"' not in new
    assert b"tool_calls" not in new
    assert b"function_call" not in new


def test_the_input_of_a_free_form_tool_is_no_json() -> None:
    assert edited_calls("openai_chat", two(CUSTOM), {0: NewArguments("DROP é")}) == [
        ("f", "DROP é")
    ]
    item = responses.call(type="custom_tool_call", input="SELECT")
    data = sse(
        {"type": "response.created", "response": responses.body(status="in_progress")},
        responses.added(0, {**item, "input": ""}),
        responses.event("custom_tool_call_input.delta", 0, delta="SEL"),
        responses.event("custom_tool_call_input.delta", 0, delta="ECT"),
        responses.event("custom_tool_call_input.done", 0, input="SELECT"),
        responses.done(0, item),
        responses.completed(item),
    )
    assert edited_calls("openai_responses", data, {0: NewArguments("DROP é")}) == [("f", "DROP é")]
    assert b"SEL" not in edit_answer("openai_responses", data, {0: NewArguments("DROP é")})


@pytest.mark.parametrize("name", RESPONSES)
def test_calls_of_responses_dialects(name: str) -> None:
    data = RESPONSES[name]
    assert edited_calls("openai_responses", data, {0: NO}) == [("g", '{"x": 1}')]
    assert b'"a"' not in edit_answer("openai_responses", data, {0: NO})
    assert edited_calls("openai_responses", data, {1: NO, 0: OTHER}) == [("f", OTHER.text)]
    assert edited_calls("openai_responses", data, {0: NO, 1: NO}) == []


def test_arguments_that_gemini_streams_are_replaced_as_a_whole() -> None:
    assert edited_calls("gemini", GROWING, {1: OTHER}) == [("f", OTHER.text)]
    new = values_of(edit_answer("gemini", GROWING, {1: OTHER}))
    assert len(new) == 2
    assert new[-1]["candidates"][0]["finishReason"] == "STOP"
    assert new[-1]["usageMetadata"] == {"x": 1}
    none = edit_answer("gemini", GROWING, {1: NO})
    assert [value["candidates"][0]["content"]["parts"] for value in values_of(none)] == [
        [{"text": "Hm.", "thought": True}],
        [{"text": "No."}],
    ]
    assert b"functionCall" not in none


def test_an_array_of_gemini_stays_one() -> None:
    events = [gemini.event(gemini.call(name, args={}), usageMetadata={"n": name}) for name in "fgh"]
    data = json.dumps([*events, gemini.event(gemini.text("x"), reason="STOP")], indent=1).encode()
    for accepted in ((0,), (1,), (2,), (0, 1), (0, 1, 2)):
        new = edit_answer("gemini", data, dict.fromkeys(accepted, NO))
        assert len(json.loads(new)) == 4 - len(accepted)
        assert len(named_calls("gemini", new)) == 3 - len(accepted)


def test_what_an_emptied_frame_of_gemini_says_beside_is_said_by_the_next() -> None:
    data = sse(
        gemini.event(gemini.call(args={}), reason="STOP", usageMetadata={"totalTokenCount": 7}),
        gemini.event(gemini.call("g", args={})),
    )
    (value,) = values_of(edit_answer("gemini", data, {0: NO, 1: NO}))
    assert value["candidates"][0]["finishReason"] == "STOP"
    assert value["usageMetadata"] == {"totalTokenCount": 7}


def test_a_call_of_anthropic_without_deltas_gets_one() -> None:
    use = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    assert edited_calls("anthropic", message([use], [use], reason="tool_use"), {1: OTHER}) == [
        ("f", "{}"),
        ("f", OTHER.text),
    ]
    answer_frames = message([{**use, "input": {"x": 1}}], [{**use, "id": "b"}], reason="tool_use")
    assert edited_calls("anthropic", answer_frames, {0: OTHER}) == [("f", OTHER.text), ("f", "{}")]


def test_numbers_close_up_whatever_order_the_blocks_began_in() -> None:
    def event(kind: str, index: int, **more: Any) -> dict[str, Any]:
        return {"type": f"content_block_{kind}", "index": index, **more}

    block = {"type": "tool_use", "input": {}}
    data = sse(
        {"type": "message_start", "message": {}},
        *(
            event("start", n, content_block={**block, "id": f"i{n}", "name": f"f{n}"})
            for n in (2, 1)
        ),
        *(event("stop", n) for n in (1, 2)),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    )
    indexes = [value.get("index") for value in values_of(edit_answer("anthropic", data, {1: NO}))]
    assert indexes == [None, 1, 1, 2, 2, 2, None]
    indexes = [value.get("index") for value in values_of(edit_answer("anthropic", data, {0: NO}))]
    assert indexes == [None, 1, 1, 2, 2, 2, None]


def test_a_comment_within_an_event_is_no_frame() -> None:
    data = body("anthropic", [call(1), call(2)]).replace(b"\ndata: ", b"\n: waiting\ndata: ")
    old = named_calls("anthropic", data)
    assert edit_answer("anthropic", data, {0: NO}).count(b": waiting") == 9
    assert edited_calls("anthropic", data, {0: NO}) == old[1:]
    assert edited_calls("anthropic", data, {0: OTHER}) == [("tool1", OTHER.text), old[1]]


def test_lines_of_ollama_that_say_more_than_a_call_stay() -> None:
    items = [{"function": {"name": name, "arguments": {}}} for name in "fg"]
    data = lines(
        line({"content": "x", "tool_calls": items[:1]}),
        line({"content": "y", "tool_calls": items[1:]}, done=True, done_reason="tool_calls"),
    )
    new = edit_answer("ollama", data, {1: NO, 3: NO})
    assert [value["message"]["content"] for value in values_of(new)] == ["x", "y\n\nNo."]
    assert values_of(new)[-1]["done_reason"] == "stop"
    assert named_calls("ollama", new) == []


def test_what_is_cut_or_unreadable_behind_a_call_that_goes_is_no_piece_of_it() -> None:
    data = body("anthropic", [text("x"), call(1)])
    cut = data[: data.index(b"second1")]
    new = edit_answer("anthropic", cut, {1: NO})
    assert b"tool1" not in new
    assert b"left1" not in new
    assert new.endswith(b'"index":1}\n\n')
    garbled = two(fragment(0, "a", "f", "{}")).replace(
        b"data: [DONE]", b'data: {"cut": "f"\n\ndata: [DONE]'
    )
    assert b'"f"' not in edit_answer("openai_chat", garbled, {0: NO})


def test_what_has_left_stays() -> None:
    data = two({"index": 0, "function": {"name": ""}}, fragment(0, "a", "f", "{}"))
    left = len(sse(ROLE, calls({"index": 0, "function": {"name": ""}})))
    new = edit_answer("openai_chat", data, {0: NO}, passed=left)
    assert new[:left] == data[:left]
    assert b'"f"' not in new


@pytest.mark.parametrize(
    "first",
    [
        calls({"index": 0, "function": {"name": ""}}),
        chunk({"content": "", "reasoning_details": [SIGNED]}),
    ],
)
def test_what_may_be_a_piece_of_a_call_is_held_with_it(first: Any) -> None:
    before = sse(ROLE, chunk({"content": "x"}))
    data = before + sse(first, *(calls(fragment(0, *more)) for more in [("a", "f", "{}")]))
    data += sse(chunk({}, "tool_calls"), DONE)
    assert PassableLength("openai_chat").add(data) == len(before)
    place = [kind for kind, _ in parts_of(events_of("openai_chat", data))].index("call")
    new = edit_answer("openai_chat", data, {place: NO}, passed=len(before))
    assert new.startswith(before)
    assert b'"a"' not in new
    assert b"tool_calls" not in new


# What keeps a client waiting.


def waiting(protocol: str, parts: list[Any], marker: bytes) -> list[bytes]:
    """The events before anything has passed, and when all before `marker` has."""
    data = body(protocol, parts)
    state = PassedAnswer(protocol)
    results = [state.keepalive()]
    state.add(data[:200])
    state.add(data[200:])
    results.append(state.keepalive())
    state.pass_on(data.index(marker))
    return [*results, state.keepalive()]


@pytest.mark.parametrize("protocol", ["anthropic", "gemini"])
def test_events_that_are_always_the_same(protocol: str) -> None:
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    expected = {"anthropic": ping, "gemini": b"\n"}[protocol]
    assert waiting(protocol, SAID, b"tool1") == [expected] * 3


def test_a_chunk_of_chat_that_adds_nothing() -> None:
    before, *others = waiting("openai_chat", SAID, b"tool1")
    assert before == b""
    choice = {"index": 0, "delta": {}, "finish_reason": None}
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    assert [values_of(data) for data in others] == [[{**head, "choices": [choice]}]] * 2
    assert all(data.endswith(b"\n\n") for data in others)


def test_a_line_of_ollama_that_adds_nothing() -> None:
    before, *others = waiting("ollama", SAID, b"tool1")
    assert before == b""
    nothing = {"role": "assistant", "content": ""}
    head = {"model": "m", "created_at": "2026-01-01T00:00:00Z"}
    assert [values_of(data) for data in others] == [
        [{**head, "message": nothing, "done": False}]
    ] * 2


def test_the_response_of_responses_has_what_has_passed() -> None:
    data = body("openai_responses", SAID)
    whole_events = values_of(data)
    before, waiting_frames, now = waiting(
        "openai_responses",
        SAID,
        b'event: response.output_item.added\ndata: {"type": "response.output_item.added", '
        b'"sequence_number": 14',
    )
    assert before == waiting_frames == b""
    (event,) = values_of(now)
    assert event["type"] == "response.in_progress"
    assert event["sequence_number"] == 13
    assert event["response"]["output"] == whole_events[-1]["response"]["output"][:2]
    assert event["response"]["status"] == "in_progress"
    state = PassedAnswer("openai_responses")
    state.add(data)
    state.pass_on(data.index(b"event: response.output_text.done"))
    (open_,) = values_of(state.keepalive())
    assert open_["response"]["output"][1]["content"][0]["text"] == "Hello."
    assert open_["response"]["output"][1]["status"] == "in_progress"


# What the simulator and providers send.


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("streamed", [True, False])
def test_calls_of_the_simulator_are_taken_out_and_edited(protocol: str, streamed: bool) -> None:
    talk = Talk(protocol)
    talk.prompt("Hi.")
    sent, model_request = talk.ask()
    blocks = (
        ReplyBlock("call", answer_part.text, answer_part.name)
        for answer_part in (call(1), call(2), call(3))
    )
    reply = ModelReply(
        (ReplyBlock("thinking", "Hm."), ReplyBlock("text", "Hello."), *blocks), "calls"
    )
    ids = IdSource.from_body(sent.body, 1, 1)
    if streamed:
        data = b"".join(frame.data for frame in talk.end.frames(reply, model_request, ids))
    else:
        data = talk.end.whole(reply, model_request, ids)
    parts = parts_of(events_of(protocol, data))
    places = [place for place, (kind, _) in enumerate(parts) if kind == "call"]
    rows = named_calls(protocol, data)
    assert len(rows) == 3
    for nth, place in enumerate(places):
        assert edited_calls(protocol, data, {place: NO}) == rows[:nth] + rows[nth + 1 :]
        new = [(rows[nth][0], OTHER.text)]
        assert edited_calls(protocol, data, {place: OTHER}) == rows[:nth] + new + rows[nth + 1 :]
    assert edited_calls(protocol, data, dict.fromkeys(places, NO)) == []


@pytest.mark.parametrize("folder", RECORDINGS, ids=lambda folder: folder.name)
def test_recorded_calls_are_taken_out_and_edited(folder: Path) -> None:
    meta = json.loads((folder / "meta.json").read_text("utf-8"))
    data = next(path for name in BODIES if (path := folder / name).exists()).read_bytes()
    protocol = meta["protocol"]
    if meta["http_status"] != 200:
        return
    old = parts_of(events_of(protocol, data))
    places = [place for place, (kind, _) in enumerate(old) if kind == "call"]
    for accepted in [places, *([place] for place in places)]:
        new = edit_answer(protocol, data, dict.fromkeys(accepted, NO))
        left = [ended for place, (_, ended) in enumerate(old) if place in {*places} - {*accepted}]
        assert facts(parts_of(events_of(protocol, new))) == facts(
            [("call", part_ended) for part_ended in left]
        )
    for place in places:
        new = edit_answer(protocol, data, {place: OTHER})
        parts = parts_of(events_of(protocol, new))
        assert parts[place][1].text == OTHER.text
        assert parts[:place] + parts[place + 1 :] == old[:place] + old[place + 1 :]


def facts(parts: list[tuple[str, PartEnded]]) -> list[tuple[str, str, str, bool]]:
    return [
        (ended.provider_id, ended.name, ended.text, ended.complete)
        for kind, ended in parts
        if kind == "call"
    ]


def _unnumbered(*values: Any) -> bytes:
    """A stream of llama.cpp's server: items without an index, all ended at the end."""
    return sse(
        responses.event("created", response=responses.body(status="in_progress")),
        *(
            {name: item for name, item in value.items() if name != "output_index"}
            for value in values
        ),
        responses.completed(responses.message("I look."), responses.call('{"x":1}')),
    )


def _shared(*values: Any) -> bytes:
    """The same items under one index."""
    return sse(
        responses.event("created", response=responses.body(status="in_progress")),
        *({**value, "output_index": 0} for value in values),
        responses.completed(responses.message("I look."), responses.call('{"x":1}')),
    )


@pytest.mark.parametrize("write", [_unnumbered, _shared])
def test_a_call_beside_a_text_is_taken_out_of_items_without_their_own_index(write: Any) -> None:
    body = write(*MIXED)
    new = edit_answer("openai_responses", body, {1: NO})
    rows = parts_of(events_of("openai_responses", new))
    assert "".join(part.text for kind, part in rows if kind == "text").startswith("I look.")
    assert not [kind for kind, _ in rows if kind == "call"]
    assert b"function_call" not in new
    assert new.count(b'output_text.done"') == 2  # the message's own, and that of the reason
    assert edited_calls("openai_responses", body, {1: OTHER}) == [("f", OTHER.text)]
    assert b'{\\"x' not in edit_answer("openai_responses", body, {1: OTHER})


def test_a_client_that_waits_is_told_of_items_without_an_index() -> None:
    passed = PassedAnswer("openai_responses")
    body = _unnumbered(*MIXED[:3])
    passed.add(body)
    end = body.index(b"response.completed") - len('data: {"type": "')
    passed.pass_on(end)
    (output,) = values_of(passed.keepalive())
    (item,) = output["response"]["output"]
    assert item["id"] == "msg_1"


@pytest.mark.parametrize("streamed", [True, False])
def test_a_call_that_stands_in_message_and_delta_is_taken_out_of_both(streamed: bool) -> None:
    value = {"object": "chat.completion", "choices": [BESIDE]}
    body = sse(value, DONE) if streamed else json.dumps(value).encode()
    (index,) = [
        event.index
        for event in events_of("openai_chat", body)
        if isinstance(event, PartStarted) and event.part_kind == "call"
    ]
    new = edit_answer("openai_chat", body, {index: NO})
    assert b'"tool_calls"' not in new
    assert named_calls("openai_chat", new) == []
    assert b'\\"x\\"' not in edit_answer("openai_chat", body, {index: OTHER})
    assert edited_calls("openai_chat", body, {index: OTHER}) == [("f", OTHER.text)]
    text = "" if streamed else "I look."
    messages = [
        part.text for kind, part in parts_of(events_of("openai_chat", new)) if kind == "text"
    ]
    assert "".join(messages).startswith(text)


def test_a_call_that_the_end_of_a_stream_repeats_is_edited_in_both_places() -> None:
    last = {"index": 0, "message": {"tool_calls": [COPY]}, "finish_reason": "tool_calls"}
    body = sse(ROLE, calls(COPY), {"object": "chat.completion", "choices": [last]}, DONE)
    new = edit_answer("openai_chat", body, {0: OTHER})
    assert named_calls("openai_chat", new) == [("f", OTHER.text)]
    assert b'\\"x\\"' not in new
    assert b'"tool_calls"' not in edit_answer("openai_chat", body, {0: NO})
