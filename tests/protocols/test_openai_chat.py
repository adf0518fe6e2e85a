"""Chat Completions and its dialects: one hand-written body for each quirk of docs/wire.md."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.commands.decode import decode
from playground.core.events import ResponseEnded, ResponseFailed, Warned
from playground.protocols.openai_chat.decode import label, merge_details
from tests.protocols.frames import (
    DONE,
    calls,
    chunk,
    codes_of,
    end_of,
    events_of,
    fragment,
    parts_of,
    sse,
)

FINISH = chunk({}, "tool_calls")

BOTH = {
    "index": 0,
    "message": {"role": "assistant", "content": "Hall A."},
    "delta": {"role": "assistant", "content": ""},
    "finish_reason": "stop",
}


@pytest.mark.parametrize(
    ("chunks", "text"),
    [
        ([chunk({"content": "a"}), chunk({"content": "b"}, "stop")], "ab"),
        ([chunk({"content": None, "tool_calls": None, "role": None}), chunk({"content": ""}),
          chunk({"content": "a"}, "stop")], "a"),
        ([chunk(None), {"choices": [{"index": 0, "delta": None}]}, chunk({"content": "a"}, "stop")],
         "a"),
        ([{"choices": [], "prompt_filter_results": []}, chunk({"content": "a"}, "stop"),
          {"choices": [], "usage": {"prompt_tokens": 1}}], "a"),
        ([chunk({"content": [{"type": "text", "text": "a"}, "b"]}, "stop")], "ab"),
        ([chunk({"content": "a", "annotations": [{"type": "url_citation"}]}, "stop")], "a"),
        ([chunk({"content": "<tool_call>"}, "stop")], "<tool_call>"),
        ([chunk({"content": "\ud83d"}), chunk({"content": "\ude00"}, "stop")], "\U0001f600"),
    ],
    ids=["Q19", "Q33", "Q31 Q61 no delta", "Q31 no choices", "Q34 a list", "Q60", "Q56", "halves"],
)  # fmt: skip
def test_text(chunks: list[Any], text: str) -> None:
    facts = decode("openai_chat", sse(*chunks, DONE))
    assert (facts["text"], facts["ended"], facts["tool_calls"]) == (text, "complete", [])


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "why"},
        {"reasoning": "why"},
        {"reasoning": "why", "reasoning_content": "why"},
        {"reasoning": "why", "reasoning_details": [{"type": "reasoning.text", "text": "why"}]},
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "why"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "why"}]}]},
        {"content": [{"type": "thinking", "thinking": "why"}]},
    ],
)
def test_q34_reasoning_in_all_its_spellings(delta: dict[str, Any]) -> None:
    body = sse(chunk(delta), chunk({"content": "so"}, "stop"), DONE)
    facts = decode("openai_chat", body)
    assert (facts["reasoning_text"], facts["text"]) == ("why", "so")


def test_signed_details_ride_on_a_thinking_part() -> None:
    details = [
        {"type": "reasoning.text", "text": "a", "index": 0, "signature": None},
        {"type": "reasoning.text", "text": "b", "index": 0, "signature": "s"},
        {"type": "reasoning.encrypted", "data": "x", "index": 1},
    ]
    body = sse(
        *(chunk({"reasoning_details": [detail]}) for detail in details),
        calls(fragment(0, "a", "f", "{}")),
        FINISH,
        DONE,
    )
    thinking, call = parts_of(events_of("openai_chat", body))
    assert (thinking[0], thinking[1].text, call[0]) == ("thinking", "ab", "call")
    assert thinking[1].meta["reasoning_details"] == [
        {"type": "reasoning.text", "text": "ab", "index": 0, "signature": "s"},
        {"type": "reasoning.encrypted", "data": "x", "index": 1},
    ]
    assert merge_details(["junk", {"type": None}]) == [{"type": None}]


def test_q51_a_signature_without_a_call_and_other_members_are_kept() -> None:
    extra = {"google": {"thought_signature": "s"}}
    body = sse(
        chunk({"content": "a"}), chunk({"extra_content": extra, "new_member": 7}), chunk({}, "stop")
    )
    events = events_of("openai_chat", body)
    _, (kind, part) = parts_of(events)
    assert (kind, part.meta) == ("thinking", {"extra_content": extra})
    end = end_of(events)
    assert isinstance(end, ResponseEnded)
    assert end.meta["message"] == {"new_member": 7}


def test_q35_text_on_both_sides_of_a_call() -> None:
    body = sse(
        chunk({"content": "a"}), calls(fragment(0, "c", "f", "{}")), chunk({"content": "b"}), FINISH
    )
    kinds = [(kind, part.text) for kind, part in parts_of(events_of("openai_chat", body))]
    assert kinds == [("text", "a"), ("call", "{}"), ("text", "b")]


@pytest.mark.parametrize(
    ("reasons", "called", "reason", "raw"),
    [
        (["stop"], False, "stop", "stop"),
        (["stop"], True, "calls", "stop"),  # Q20
        (["tool_calls"], False, "stop", "tool_calls"),  # Q21
        (["tool_calls", "tool_calls"], True, "calls", "tool_calls"),  # Q22
        (["length"], True, "length", "length"),  # Q54
        (["function_call"], True, "calls", "function_call"),
        (["content_filter"], False, "refusal", "content_filter"),
        (["eos"], False, "stop", "eos"),
        (["something_new"], False, "other", "something_new"),
        ([7], False, "other", "7"),
    ],
)
def test_reasons(reasons: list[Any], called: bool, reason: str, raw: str) -> None:
    head = calls(fragment(0, "a", "f", "{}")) if called else chunk({"content": "x"})
    events = events_of("openai_chat", sse(head, *(chunk({}, r) for r in reasons), DONE))
    end = end_of(events)
    assert isinstance(end, ResponseEnded)
    assert (end.reason, end.raw_reason) == (reason, raw)
    assert ("calls_missing" in codes_of(events)) == (raw == "tool_calls" and not called)


@pytest.mark.parametrize(
    "usage",
    [
        {"usage": {"prompt_tokens": 3, "completion_tokens": 4, "cost": 0.5}},
        {"x_groq": {"usage": {"prompt_tokens": 3, "completion_tokens": 4, "cost": 0.5}}},
    ],
    ids=["Q32", "Q32 x_groq"],
)
def test_usage(usage: dict[str, Any]) -> None:
    end = end_of(events_of("openai_chat", sse(chunk({"content": "a"}, "stop", **usage), DONE)))
    assert (end.usage.input_tokens, end.usage.output_tokens) == (3, 4)
    assert isinstance(end, ResponseEnded)
    assert end.cost == 0.5


@pytest.mark.parametrize(
    ("more", "counts"),
    [
        ({}, (None, None, None)),
        (
            {
                "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1},
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            (2, 1, 3),
        ),
        ({"prompt_cache_hit_tokens": 5}, (5, None, None)),
        ({"prompt_tokens_details": None, "completion_tokens_details": [1]}, (None, None, None)),
    ],
)
def test_usage_in_full(more: dict[str, Any], counts: tuple[int | None, ...]) -> None:
    answer = {"prompt_tokens": 9, "completion_tokens": 4, **more}
    usage = end_of(
        events_of("openai_chat", sse(chunk({"content": "a"}, "stop", usage=answer), DONE))
    ).usage
    assert (usage.cached_tokens, usage.cache_write_tokens, usage.reasoning_tokens) == counts


def _likely(kind: str, token: str, text: str, **delta: Any) -> dict[str, Any]:
    value = chunk({kind: text, **delta})
    value["choices"][0]["logprobs"] = {kind: [{"token": token, "logprob": -1}], "x": None}
    return value


def test_logprobs_stay_on_the_part_whose_tokens_they_are() -> None:
    body = sse(
        _likely("content", "", ""),
        _likely("content", "a", "a"),
        _likely("content", "b", "b", tool_calls=[fragment(0, "c", "f", "{}")]),
        _likely("refusal", "no", "no"),
        _likely("content", "late", ""),
        FINISH,
        DONE,
    )
    events = events_of("openai_chat", body)
    assert [
        [item["token"] for item in part.meta.get("logprobs", ())] for _, part in parts_of(events)
    ] == [["", "a", "b"], [], ["no"]]
    end = end_of(events)
    assert isinstance(end, ResponseEnded)
    assert end.meta["logprobs"] == [{"token": "late", "logprob": -1}]


@pytest.mark.parametrize(
    ("pieces", "count"),
    [
        (["\n<th", "ink>", "hm</think>so"], 1),
        (["so <think>"], 0),
        (["<thin", "k"], 0),
    ],
)
def test_q34_thinking_inside_of_text_stays_there_and_is_told(pieces: list[str], count: int) -> None:
    body = sse(*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop"), DONE)
    events = events_of("openai_chat", body)
    assert codes_of(events).count("inline_thinking") == count
    assert decode("openai_chat", body)["text"] == "".join(pieces)


def test_q58_further_choices_are_kept_beside() -> None:
    other = {"index": 1, "delta": {"content": "b"}, "finish_reason": "stop"}
    body = sse(chunk({"role": "assistant", "content": "a"}, "stop"), {"choices": [other]}, DONE)
    events = events_of("openai_chat", body)
    (warned,) = [event for event in events if isinstance(event, Warned)]
    assert warned.meta["choices"] == [
        {"index": 1, "pieces": [{"content": "b"}], "finish_reason": "stop"}
    ]
    assert decode("openai_chat", body)["text"] == "a"


def test_a_whole_message_yields_the_same_grammar() -> None:
    message = {
        "role": "assistant",
        "content": "hi",
        "refusal": "no",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f"}}],
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    facts = decode("openai_chat", _document(choice))
    assert (facts["text"], facts["refusal"], facts["ended"]) == ("hi", "no", "complete")
    assert facts["tool_calls"][0]["arguments_state"] == "absent"
    # Q61: a choice that was filtered comes without its message.
    filtered = decode("openai_chat", _document({"index": 0, "finish_reason": "content_filter"}))
    assert (filtered["stop_reason"], filtered["ended"]) == ("content_filter", "complete")


def _document(choice: dict[str, Any]) -> bytes:
    return json.dumps({"object": "chat.completion", "choices": [choice]}, indent=1).encode()


def test_other_kinds_of_calls() -> None:
    custom = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "f", "input": "SELECT"}}
    (call,) = decode("openai_chat", sse(calls(custom), FINISH, DONE))["tool_calls"]
    assert (call["kind"], call["arguments_state"], call["arguments_raw"]) == (
        "custom",
        "freeform",
        "SELECT",
    )
    legacy = [chunk({"function_call": {"name": "f", "arguments": "{"}}),
              chunk({"function_call": {"arguments": "}"}}, "function_call")]  # fmt: skip
    (call,) = decode("openai_chat", sse(*legacy, DONE))["tool_calls"]
    assert (call["kind"], call["id"], call["arguments_raw"]) == ("function_call", None, "{}")


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (chunk({"content": "a", "role": None}), "chunk content"),
        (chunk({}, "stop"), "chunk finish_reason stop"),
        ({"choices": [], "usage": {"a": 1}}, "usage"),
        ({"error": {}}, ""),
        ({"error": {"message": "no"}}, "error"),
        ({"choices": [{"message": {}}]}, "chat.completion"),
        ({"choices": 7, "object": "x"}, "x"),
    ],
)
def test_labels(frame: dict[str, Any], words: str) -> None:
    assert label(frame) == words


@pytest.mark.parametrize("error", [{"code": 502, "message": "upstream died"}, "upstream died"])
def test_an_error_of_the_choice_is_an_error(error: Any) -> None:
    choice = {"index": 0, "error": error, "finish_reason": "stop"}
    delta, message = {"content": "half"}, {"role": "assistant", "content": "half"}
    streamed = sse({"choices": [{**choice, "delta": delta}], "usage": {"prompt_tokens": 3}}, DONE)
    answered = {"object": "chat.completion", "choices": [{**choice, "message": message}]}
    for body in (streamed, json.dumps(answered).encode()):
        end = end_of(events_of("openai_chat", body))
        assert isinstance(end, ResponseFailed)
        assert (end.failure, end.error) == ("error", error)
        assert "upstream died" in end.message
    fine = end_of(events_of("openai_chat", sse(chunk({"content": "a"}, "stop"), DONE)))
    assert isinstance(fine, ResponseEnded)


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_a_reason_is_not_made_good_by_a_later_one(reason: str) -> None:
    events = events_of("openai_chat", sse(chunk({"content": "a"}, reason), chunk({}, "stop"), DONE))
    end = end_of(events)
    assert isinstance(end, ResponseEnded)
    assert (end.raw_reason, codes_of(events)) == (reason, ["reason_changed"])


def test_a_message_counts_over_a_delta_where_the_body_is_no_stream() -> None:
    message_body = json.dumps({"object": "chat.completion", "choices": [BOTH]}).encode()
    ((kind, part),) = parts_of(events_of("openai_chat", message_body))
    assert (kind, part.text) == ("text", "Hall A.")
    # In a stream the delta counts, beside which some servers send all so far.
    deltas = [
        {"object": "chat.completion.chunk", "choices": [{**BOTH, "delta": {"content": text}}]}
        for text in ("Hall", " A.")
    ]
    ((_, part),) = parts_of(events_of("openai_chat", sse(*deltas, DONE)))
    assert part.text == "Hall A."


def _ended_by(message: dict[str, Any], *chunks: Any) -> list[Any]:
    last = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }
    return events_of("openai_chat", sse(chunk({"role": "assistant"}), *chunks, last, DONE))


@pytest.mark.parametrize(
    ("content", "text", "codes"),
    [
        ("Hall A.", "Hall A.", []),
        ("Hall A. Open.", "Hall A. Open.", []),
        ("Hall B.", "Hall A.", ["message_differs"]),
        (None, "Hall A.", []),
    ],
)
def test_a_message_at_the_end_of_a_stream_is_compared_with_it(
    content: Any, text: str, codes: list[str]
) -> None:
    events = _ended_by({"content": content}, chunk({"content": "Hall"}), chunk({"content": " A."}))
    assert "".join(part.text for _, part in parts_of(events)) == text
    assert codes_of(events) == codes


@pytest.mark.parametrize(
    ("listed", "codes"),
    [
        ('{"x": 1}', []),
        ('{"x":1}', []),
        ("", []),
        ('{"x":2}', ["item_differs"]),
    ],
)
def test_calls_at_the_end_of_a_stream_are_no_further_ones(listed: str, codes: list[str]) -> None:
    streamed = fragment(0, "a", "f", '{"x": 1}')
    again = {**fragment(None, "a", "f", listed), "type": "function"}
    events = _ended_by({"tool_calls": [again]}, calls(streamed))
    ((kind, part),) = parts_of(events)
    assert (kind, part.text, part.complete) == ("call", '{"x": 1}', True)
    assert codes_of(events) == codes


@pytest.mark.parametrize(
    ("reason", "native", "flag"),
    [
        ("stop", "MALFORMED_FUNCTION_CALL", True),
        ("tool_calls", "UNEXPECTED_TOOL_CALL", True),
        ("stop", "MAX_TOKENS", True),
        ("stop", "SAFETY", True),
        ("stop", "error", True),
        ("length", "max_output_tokens", False),
        ("stop", "STOP", False),
        ("tool_calls", "tool_use", False),
        ("stop", "brand_new", False),
    ],
)
def test_a_reason_of_the_models_server_that_is_worse_is_told(
    reason: str, native: str, flag: bool
) -> None:
    last = chunk({"content": "a"}, reason)
    last["choices"][0]["native_finish_reason"] = native
    events = events_of("openai_chat", sse(chunk({"role": "assistant"}), last, DONE))
    codes = [code for code in codes_of(events) if code != "calls_missing"]
    assert codes == (["native_reason"] if flag else [])
