"""Gemini: one hand-written body for each of its quirks (docs/wire.md, 4 and 7)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.core.events import ResponseEnded, ResponseFailed, Usage, Warned
from playground.core.messages import Message, MessagePart, ModelRequest
from playground.core.run_limits import input_output_tokens, output_tokens
from playground.core.tools import ToolChoice
from playground.protocols.answer_edits import edit_answer
from playground.protocols.base import ModelInfo
from playground.protocols.editable_answer import CallRemoval
from playground.protocols.gemini.decode import CODEC, label
from playground.protocols.gemini.request import READER
from playground.protocols.request import AnswerMessage, RequestNotes
from tests.protocols.frames import codes_of, end_of, events_of, parts_of, spanned, sse
from tests.protocols.gemini import call, event, growing, partial_arg, text

STOP = event(reason="STOP")

CALLED = call("f", args={"x": 1})
IMAGE = {"inlineData": {"mimeType": "image/png", "data": "eA=="}}


def parts(*values: Any) -> list[tuple[str, str, dict[str, Any]]]:
    """(kind, text, meta) of each part of a stream of these events."""
    parts = parts_of(events_of("gemini", sse(*values, end="\r\n")))
    return [(kind, part.text, dict(part.meta)) for kind, part in parts]


def response_end(*values: Any) -> ResponseEnded:
    end = end_of(events_of("gemini", sse(*values)))
    assert isinstance(end, ResponseEnded), end
    return end


def failed(body: bytes, status: int = 200) -> ResponseFailed:
    end = end_of(events_of("gemini", body, status=status))
    assert isinstance(end, ResponseFailed), end
    return end


def test_text_and_thoughts_are_deltas_of_one_part_each() -> None:
    rows = parts(
        event(text("Let me ", thought=True)),
        event(text("see.", thought=True), text("It ")),
        event(text("is "), text("so.")),
        STOP,
    )
    assert rows == [("thinking", "Let me see.", {}), ("text", "It is so.", {})]


@pytest.mark.parametrize(
    "pretty",
    [
        lambda values: json.dumps(values, indent=2),
        lambda values: "[" + ",\r\n".join(json.dumps(value) for value in values) + "]",
        lambda values: (
            "[" + "\n,\n".join(json.dumps(value, indent=1) for value in values) + "\n]\n"
        ),
    ],
)
def test_an_array_is_read_as_the_events_are(pretty: Any) -> None:
    """Q62: a stream without alt=sse, however it is written."""
    values = [event(text("a")), event(text("b")), event(call(args={}), reason="STOP")]
    body = pretty(values).encode()
    whole_events = events_of("gemini", body)
    assert parts_of(whole_events) == parts_of(events_of("gemini", sse(*values, end="\r\n")))
    assert end_of(whole_events) == response_end(*values)
    assert [e for _, _, e in spanned("gemini", body, cuts=range(len(body)))] == whole_events


def test_a_whole_answer_is_one_document() -> None:
    body = json.dumps(event(text("a"), call(args={}), reason="STOP"), indent=2).encode()
    assert [kind for kind, _ in parts_of(events_of("gemini", body))] == ["text", "call"]
    assert codes_of(events_of("gemini", body)) == []


# How it ends.


@pytest.mark.parametrize(
    ("reason", "meant", "raw"),
    [
        ("STOP", "stop", "STOP"),
        (1, "stop", "STOP"),
        ("MAX_TOKENS", "length", "MAX_TOKENS"),
        (2, "length", "MAX_TOKENS"),
        ("SAFETY", "refusal", "SAFETY"),
        ("RECITATION", "refusal", "RECITATION"),
        ("PROHIBITED_CONTENT", "refusal", "PROHIBITED_CONTENT"),
        ("MODEL_ARMOR", "refusal", "MODEL_ARMOR"),
        ("OTHER", "other", "OTHER"),
        ("SOMETHING_NEW", "other", "SOMETHING_NEW"),
    ],
)
def test_a_finish_reason_means(reason: Any, meant: str, raw: str) -> None:
    end = response_end(event(text("a")), event(reason=reason))
    assert (end.reason, end.raw_reason) == (meant, raw)


def test_stop_with_calls_means_calls() -> None:
    """Q20."""
    assert response_end(event(call(args={"x": 1}), reason="STOP")).reason == "calls"


def test_an_end_without_a_marker_is_whole_and_without_a_reason_is_not() -> None:
    assert codes_of(events_of("gemini", sse(event(text("a"), reason="STOP")))) == []
    assert failed(sse(event(text("a")))).failure == "interrupted"
    assert (
        failed(sse(event(text("a"), reason="FINISH_REASON_UNSPECIFIED"))).failure == "interrupted"
    )


def test_a_reason_may_come_early_or_in_an_event_of_its_own() -> None:
    """Q50: an early STOP, even in every event, and text after it."""
    early = sse(event(reason="STOP"), event(text("a"), reason="STOP"), event(text("b")))
    assert [part.text for _, part in parts_of(events_of("gemini", early))] == ["ab"]
    later = response_end(
        event(text("a"), reason="STOP"), {"candidates": [{"finishReason": "SAFETY"}]}
    )
    assert later.reason == "refusal"


@pytest.mark.parametrize(
    "candidate",
    [
        {"finishReason": "STOP"},
        {"content": {}, "finishReason": "STOP"},
        {"content": {"role": "model"}, "finishReason": "STOP"},
        {"content": None, "finishReason": "STOP"},
        {"content": {"parts": None}, "finishReason": "STOP"},
    ],
)
def test_content_or_parts_may_be_missing(candidate: dict[str, Any]) -> None:
    assert response_end(event(text("a")), {"candidates": [candidate]}).reason == "stop"


@pytest.mark.parametrize(
    "reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MISSING_THOUGHT_SIGNATURE"]
)
def test_what_cannot_be_run_is_a_failure_in_its_own_words(reason: str) -> None:
    """Q49: a candidate without content, or with a call that was thrown away."""
    answer = {"content": {}, "finishReason": reason, "finishMessage": "print(f(x=1))"}
    end = failed(sse(event(text("a")), event(call(args={})), {"candidates": [answer]}))
    assert (end.failure, end.raw_reason, end.error) == ("error", reason, None)
    assert f"{reason}: print(f(x=1))" in end.message


def test_a_blocked_prompt_is_a_refusal_without_a_word() -> None:
    blocked = {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "No."}}
    whole_events = events_of("gemini", sse(blocked | {"usageMetadata": {"promptTokenCount": 3}}))
    end = end_of(whole_events)
    assert isinstance(end, ResponseEnded)
    assert (end.reason, end.raw_reason, end.usage.input_tokens) == ("refusal", "", 3)
    assert end.meta["promptFeedback"]["blockReason"] == "SAFETY"
    message = next(
        e.message for e in whole_events if isinstance(e, Warned) and e.code == "prompt_blocked"
    )
    assert message == "The provider blocked the prompt: SAFETY. No."
    assert response_end({"promptFeedback": {"blockReason": 1}}).reason == "refusal"


def test_ratings_of_a_prompt_block_nothing() -> None:
    rated = event(text("a"), reason="STOP", promptFeedback={"safetyRatings": []})
    assert response_end(rated).reason == "stop"


# Errors.


def test_an_error_between_the_events_is_bare_json() -> None:
    """Q59."""
    error = {"code": 499, "message": "The operation was cancelled.", "status": "CANCELLED"}
    bare = json.dumps({"error": error}, indent=2).encode()
    for start in (
        sse(event(text("a"), reason="STOP"), end="\r\n"),
        b"[" + json.dumps(STOP).encode(),
    ):
        glue = b",\n" if start[:1] == b"[" else b""
        end = failed(start + glue + bare)
        assert end.error == error
        assert "cancelled" in end.message
    assert codes_of(events_of("gemini", sse(event(text("a"))) + bare + b"\n" + sse(STOP))) == [
        "after_end"
    ]


@pytest.mark.parametrize("wrapped", [True, False])
def test_an_error_status_may_wrap_its_error_in_an_array(wrapped: bool) -> None:
    error = {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED", "details": []}
    value: Any = {"error": error}
    end = failed(json.dumps([value] if wrapped else value, indent=2).encode(), 429)
    assert (end.failure, end.status, end.error) == ("http", 429, error)


def test_what_is_no_answer_is_called_so() -> None:
    assert failed(b"<html>").failure == "not_api"
    assert failed(sse({"choices": []})).failure == "not_api"


# Calls.


def test_arguments_are_quoted_to_the_letter() -> None:
    raw = '{ "x": 1.50, "n": 12345678901234567890, "x": 2 }'
    body = json.dumps(event(call(args="HERE"), reason="STOP")).replace('"HERE"', raw)
    ((kind, part),) = parts_of(events_of("gemini", sse(body)))
    assert (kind, part.name, part.text) == ("call", "f", raw)
    assert part.meta["as_object"] is True
    assert part.provider_id == ""


def test_calls_of_one_name_without_ids_stay_apart_and_in_order() -> None:
    """Q48."""
    rows = parts(event(call(args={"n": 1}), call(args={"n": 2})), event(call(args={"n": 3})), STOP)
    assert [text for _, text, _ in rows] == ['{"n": 1}', '{"n": 2}', '{"n": 3}']


@pytest.mark.parametrize(
    ("members", "text_", "absent"),
    [({}, "", True), ({"args": {}}, "{}", False), ({"args": None}, "null", False)],
)
def test_arguments_may_be_empty_or_absent(members: Any, text_: str, absent: bool) -> None:
    ((_, message, meta),) = parts(event(call(**members), reason="STOP"))
    assert (message, meta.get("absent", False)) == (text_, absent)


def test_an_id_is_kept_where_there_is_one() -> None:
    body = sse(event(call(args={}, id="a1"), call(args={})), STOP)
    assert [part.provider_id for _, part in parts_of(events_of("gemini", body))] == ["a1", ""]


def test_a_call_streamed_by_path_grows_and_ends() -> None:
    body = sse(
        event(call(willContinue=True, id="a", signature="s")),
        event(growing(partial_arg("$.place.city", stringValue="Par", more=True))),
        event(growing(partial_arg("$.place.city", stringValue="is"))),
        event(
            growing(
                partial_arg("$.days[0]", numberValue=3), partial_arg("$.days[1]", boolValue=True)
            )
        ),
        event(growing(goes_on=False)),
        event(call("g", args={})),
        STOP,
    )
    (_, first), (_, second) = parts_of(events_of("gemini", body))
    assert first.text == '{"place":{"city":"Paris"},"days":[3,true]}'
    assert (first.name, first.provider_id, first.complete) == ("f", "a", True)
    assert first.meta == {"part": {"thoughtSignature": "s"}, "id": "a", "as_object": True}
    assert second.name == "g"


@pytest.mark.parametrize(
    "events",
    [
        [event(growing(name="f")), STOP],
        [
            event(growing(partial_arg("$.a", stringValue="x", more=True), name="f")),
            event(call("g")),
            STOP,
        ],
        [
            event(growing(partial_arg("$.a", stringValue="x", more=True), name="f")),
            event(text("b")),
            STOP,
        ],
        [
            event(growing(partial_arg("$.b[9]", numberValue=1), name="f")),
            event(growing(goes_on=False)),
            STOP,
        ],
        [event(growing(name="f")), event({"functionCall": {"partialArgs": [7]}}), STOP],
    ],
)
def test_a_streamed_call_without_its_end_is_not_complete(events: list[Any]) -> None:
    _, part = parts_of(events_of("gemini", sse(*events)))[0]
    assert not part.complete
    with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
        json.loads(part.text)


def test_streamed_arguments_that_do_not_fit_are_told_once() -> None:
    odd = [
        event(growing(partial_arg("$.b[9]", numberValue=1), partial_arg("$.c", numberValue=1)))
    ] * 3
    codes = codes_of(events_of("gemini", sse(event(growing(name="f")), *odd, STOP)))
    assert codes == ["odd_arguments"]


def test_a_streamed_call_may_come_without_arguments_or_whole() -> None:
    for pieces in ([growing(name="f"), growing(goes_on=False)], [call(willContinue=False)]):
        ((_, message, meta),) = parts(*(event(piece) for piece in pieces), STOP)
        assert message == ("{}" if "absent" not in meta else "")
    whole_events = (
        event(call(args={"x": 1}, willContinue=True)),
        event(growing(goes_on=False)),
        STOP,
    )
    ((_, message, _),) = parts(*whole_events)
    assert message == '{"x": 1}'
    ((_, message, _),) = parts(event(growing(name="f")), event(call("", args={"x": 1})), STOP)
    assert message == '{"x": 1}'


def test_a_call_without_anything_is_left_out() -> None:
    assert codes_of(events_of("gemini", sse(event({"functionCall": {}}, text("a")), STOP))) == [
        "empty_call"
    ]


# Signatures (Q51) and what this version has no word for.


def test_a_signature_stays_on_the_part_it_came_on() -> None:
    rows = parts(
        event(text("a", thought=True), text("b", thought=True, thoughtSignature="1")),
        event(text("c"), text("d", thoughtSignature="2"), text("e")),
        event(text("", thoughtSignature="3")),
        event({"thoughtSignature": "4"}),
        event(call(args={}, signature="5"), call("g", args={})),
        event(text("f"), reason="STOP"),
    )
    assert [(kind, text) for kind, text, _ in rows] == [
        *(("thinking", "a"), ("thinking", "b"), ("text", "c"), ("text", "d"), ("text", "e")),
        *(("thinking", ""), ("thinking", ""), ("call", "{}"), ("call", "{}"), ("text", "f")),
    ]
    signatures = [meta.get("part", {}).get("thoughtSignature") for _, _, meta in rows]
    assert signatures == [None, "1", None, "2", None, "3", "4", "5", None, None]


def test_tools_of_the_provider_and_unknown_parts_are_kept() -> None:
    code, out = {"language": "PYTHON", "code": "1"}, {"outcome": "OUTCOME_OK", "output": "1"}
    rows = parts(
        event({"executableCode": code}, {"codeExecutionResult": out}),
        event({"toolCall": {"id": "t1"}}, {"inlineData": {"data": "aGk="}}, {"newThing": 1}),
        STOP,
    )
    kinds = ["server_call", "server_result", "server_call", "other", "other"]
    assert [kind for kind, _, _ in rows] == kinds
    assert json.loads(rows[0][1]) == code
    assert [meta["part"] for _, _, meta in rows][-2:] == [
        {"inlineData": {"data": "aGk="}},
        {"newThing": 1},
    ]


def test_only_the_first_candidate_answers() -> None:
    second = {"content": {"parts": [text("b")]}, "index": 1, "finishReason": "STOP"}
    body = sse(
        {"candidates": [event(text("a"))["candidates"][0], second]}, {"candidates": [second]}, STOP
    )
    whole_events = events_of("gemini", body)
    assert [part.text for _, part in parts_of(whole_events)] == ["a"]
    (stored_data,) = [event.meta for event in whole_events if isinstance(event, Warned)]
    assert stored_data == {"choices": [[second, second]]}


# What is counted and told beside.


def test_counts_of_two_events_are_not_mixed() -> None:
    first = {"promptTokenCount": 5, "candidatesTokenCount": 4, "thoughtsTokenCount": 7}
    last = {"promptTokenCount": 6, "thoughtsTokenCount": 8}
    usage = response_end(
        event(text("a"), usageMetadata=first), event(usageMetadata=last), event(reason="STOP")
    ).usage
    assert usage == Usage(6, None, last, reasoning_tokens=8)
    assert (output_tokens("gemini", usage), input_output_tokens("gemini", usage)) == (8, (6, 8))


def test_the_last_counts_hold_and_thoughts_are_apart() -> None:
    end = response_end(
        event(text("a"), usageMetadata={"trafficType": "ON_DEMAND"}),
        event(usageMetadata={"promptTokenCount": 5, "totalTokenCount": 9}),
        event(
            reason="STOP",
            usageMetadata={
                "promptTokenCount": 5,
                "candidatesTokenCount": 4,
                "thoughtsTokenCount": 7,
                "cachedContentTokenCount": 3,
            },
            responseId="r1",
        ),
    )
    assert (end.usage.input_tokens, end.usage.output_tokens) == (5, 4)
    assert (end.usage.cached_tokens, end.usage.reasoning_tokens) == (3, 7)
    assert (end.meta["id"], end.meta["model"]) == ("r1", "gemini-3-x")
    assert response_end(event(text("a"), reason="STOP", usageMetadata={})).usage == Usage()


def test_numbers_mean_what_the_server_counts_by() -> None:
    """Vertex, known by its traffic, numbers its reasons another way than the Gemini API."""
    assert response_end(event(text("a"), reason=6)).raw_reason == "LANGUAGE"
    vertex = event(text("a"), reason=6, usageMetadata={"trafficType": 1})
    assert response_end(vertex).raw_reason == "BLOCKLIST"


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (event(text("a")), "text"),
        (event(text("a", thought=True)), "thought"),
        (event(call("get_weather"), reason="STOP"), "functionCall get_weather finishReason STOP"),
        (event({"thoughtSignature": "s"}), "thoughtSignature"),
        ({"usageMetadata": {}}, "usageMetadata"),
        ({"promptFeedback": {"blockReason": "SAFETY"}}, "promptFeedback SAFETY"),
        ({"error": {"code": 1}}, "error"),
        ({"candidates": [None]}, ""),
    ],
)
def test_a_frame_has_a_short_name(frame: dict[str, Any], message: str) -> None:
    assert label(frame) == message


def test_the_list_of_models_holds_those_that_answer() -> None:
    model_entry = {
        "name": "models/gemini-x",
        "displayName": "Gemini X",
        "inputTokenLimit": 9,
        "supportedGenerationMethods": ["generateContent"],
        "thinking": True,
    }
    drawn = {"name": "models/imagen", "supportedGenerationMethods": ["predict"]}
    odd = {"name": "models/y", "displayName": 3, "inputTokenLimit": "many", "thinking": 1}
    assert CODEC.models({"models": [model_entry, drawn, odd]}) == (
        ModelInfo("gemini-x", "Gemini X", reasoning=True, window=9),
        ModelInfo("y"),
    )
    assert CODEC.models(None) == ()


def piece(id_: str, place: str, name: str = "", goes_on: bool = True) -> dict[str, Any]:
    """A piece of the streamed call `id_` that says one text at `place`; "" says none."""
    inner = growing(
        *([partial_arg(f"$.{place}", stringValue="x")] if place else []), goes_on=goes_on
    )
    return event({"functionCall": {"id": id_, **inner["functionCall"], **_named(name)}})


def _named(name: str) -> dict[str, str]:
    return {"name": name} if name else {}


@pytest.mark.parametrize(
    ("events", "parts", "codes"),
    [
        (
            [piece("1", "a", "f"), piece("1", "b", "f"), piece("1", "", goes_on=False)],
            [("f", '{"a":"x","b":"x"}', True)],
            [],
        ),
        (
            [piece("1", "a", "f"), piece("1", "b", goes_on=False)],
            [("f", '{"a":"x","b":"x"}', True)],
            [],
        ),
        (
            [
                piece("1", "", "f"),
                piece("2", "", "g"),
                piece("1", "a", goes_on=False),
                piece("2", "b", goes_on=False),
            ],
            [("f", "", False), ("g", "", False)],
            ["mixed_calls", "mixed_calls"],
        ),
        (
            [piece("1", "a", "f"), piece("2", "b", goes_on=False)],
            [("f", '{"a":"x"', False)],
            ["mixed_calls"],
        ),
        (
            [piece("1", "a", "f"), piece("1", "b", "g", goes_on=False)],
            [("f", '{"a":"x"', False)],
            ["mixed_calls"],
        ),
        (
            [piece("1", "a", "f", goes_on=False), piece("2", "b", "g", goes_on=False)],
            [("f", '{"a":"x"}', True), ("g", '{"b":"x"}', True)],
            [],
        ),
    ],
    ids=["named again", "by id", "mixed", "another's", "another name", "one by one"],
)
def test_a_piece_goes_to_the_call_of_its_id(
    events: list[Any], parts: list[Any], codes: list[str]
) -> None:
    results = events_of("gemini", sse(*events, STOP))
    assert [(part.name, part.text, part.complete) for _, part in parts_of(results)] == parts
    assert codes_of(results) == codes


def test_a_text_that_was_never_ended_leaves_its_call_unfinished() -> None:
    answer = growing(partial_arg("$.path", stringValue="/home/me", more=True), name="rm")
    results = events_of("gemini", sse(event(answer), event(growing(goes_on=False)), STOP))
    ((_, part),) = parts_of(results)
    assert (part.text, part.complete) == ('{"path":"/home/me', False)
    assert codes_of(results) == ["odd_arguments"]


@pytest.mark.parametrize(
    ("first", "then", "ended"),
    [
        ("MAX_TOKENS", "STOP", "length"),
        ("SAFETY", "STOP", "refusal"),
        ("MALFORMED_FUNCTION_CALL", "STOP", "error"),
        ("STOP", "STOP", "stop"),
    ],
)
def test_a_reason_is_not_made_good_by_a_later_one(first: str, then: str, ended: str) -> None:
    end = end_of(events_of("gemini", sse(event(text("a"), reason=first), event(reason=then))))
    assert (end.failure if isinstance(end, ResponseFailed) else end.reason) == ended


def test_a_count_below_zero_is_no_count() -> None:
    answer = {"promptTokenCount": -6, "candidatesTokenCount": 2, "thoughtsTokenCount": -1}
    results = events_of("gemini", sse(event(text("a"), reason="STOP", usageMetadata=answer)))
    assert end_of(results).usage == Usage(None, 2, answer)
    assert codes_of(results) == ["odd_usage"]


@pytest.mark.parametrize(
    ("part", "kinds", "sent"),
    [
        ({**text("I look."), **CALLED}, "text call", [text("I look."), CALLED]),
        (
            {**text("Hm.", thought=True), **CALLED, "thoughtSignature": "s"},
            "thinking call",
            [text("Hm.", thought=True), {**CALLED, "thoughtSignature": "s"}],
        ),
        ({**IMAGE, **CALLED}, "other call", [IMAGE, CALLED]),
        ({**text("See."), **IMAGE}, "text other", [text("See."), IMAGE]),
        ({**text(""), **CALLED}, "call", [CALLED]),
        ({"text": None, **CALLED}, "call", [CALLED]),
    ],
    ids=["text", "thought", "image", "no call", "empty text", "null"],
)
def test_a_part_with_two_members_is_two_parts_both_ways(
    part: dict[str, Any], kinds: str, sent: list[Any]
) -> None:
    events = events_of("gemini", sse(event(part), STOP))
    assert " ".join(kind for kind, _ in parts_of(events)) == kinds
    history = tuple(
        MessagePart(
            kind, end.text, name=end.name, meta=end.meta, protocol="gemini", call_id=str(number)
        )
        for number, (kind, end) in enumerate(parts_of(events))
    )
    request = ModelRequest("gemini-2", "", (Message("assistant", history),), (), ToolChoice())
    (content,) = json.loads(CODEC.encode(request).body)["contents"]
    assert content["parts"] == sent


def test_a_part_that_an_older_log_kept_whole_is_sent_as_two() -> None:
    stored_data = {"part": text("I look."), "as_object": True}
    part = MessagePart(
        "call", '{"x": 1}', name="f", meta=stored_data, protocol="gemini", call_id="1"
    )
    request = ModelRequest("gemini-2", "", (Message("assistant", (part,)),), (), ToolChoice())
    (content,) = json.loads(CODEC.encode(request).body)["contents"]
    assert content["parts"] == [text("I look."), CALLED]


def test_a_part_with_two_members_is_read_as_two_from_a_request() -> None:
    parts = [{**text("I look."), **CALLED}]
    result = {"functionResponse": {"name": "f", "response": {"output": "1"}}, **text("Go on.")}
    body = {"contents": [{"role": "model", "parts": parts}, {"role": "user", "parts": [result]}]}
    items = list(READER.items(body, RequestNotes("")))
    (answer,) = [item for item in items if isinstance(item, AnswerMessage)]
    assert [part.kind for part in answer.parts] == ["text", "call"]
    assert "Go on." in repr(items[-1])


def test_of_a_part_with_two_members_only_the_call_is_taken_out() -> None:
    part = {**text("I look."), **CALLED, "thoughtSignature": "s"}
    body = sse(event(part), STOP)
    rows = parts_of(events_of("gemini", edit_answer("gemini", body, {1: CallRemoval("No.")})))
    assert "".join(part.text for _, part in rows) == "I look.\n\nNo."
    assert b"functionCall" not in edit_answer("gemini", body, {1: CallRemoval("No.")})
