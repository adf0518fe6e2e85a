"""What every codec promises, over the whole table: grammar, spans, cuts, no exception, no n²."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.core.events import (
    PartDelta,
    PartEnded,
    ResponseEnded,
    ResponseFailed,
    Warned,
)
from playground.core.serialization import to_row
from playground.protocols.registry import CODECS
from tests.protocols import gemini, responses
from tests.protocols.frames import (
    UNHURRIED,
    chunk,
    codes_of,
    end_of,
    events_of,
    fragment,
    line,
    lines,
    message,
    obey_the_grammar,
    parts_of,
    spanned,
    sse,
)
from tests.tables import rest_slow

CALL = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
SEEDS: dict[str, list[bytes]] = {
    "anthropic": [
        message(
            [{"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": "é"}],
            [{"type": "text", "text": ""}, {"type": "text_delta", "text": "a\u2028b"}],
            [CALL, {"type": "input_json_delta", "partial_json": '{"x": 1}'}],
            reason="tool_use",
        ),
        json.dumps(
            {"type": "message", "content": [CALL], "stop_reason": "tool_use", "usage": {}}, indent=1
        ).encode(),
        sse({"type": "error", "error": {"type": "overloaded_error", "message": "no"}}),
    ],
    "openai_chat": [
        b": ping\r\n\r\n"
        + sse(
            chunk({"reasoning": "é", "reasoning_details": [{"type": "x", "data": "y"}]}),
            chunk({"content": "a\u2028b"}),
            chunk({"tool_calls": [fragment(0, "a", "f", '{"x"'), fragment(1, "b", "g", {"y": 1})]}),
            chunk({"tool_calls": [fragment(0, arguments=": 1}")]}),
            chunk({}, "tool_calls", usage={"prompt_tokens": 1, "completion_tokens": 2}),
            "[DONE]",
            end="\r\n",
        ),
        json.dumps(
            {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}, indent=1
        ).encode(),
        sse(chunk({"function_call": {"name": "f", "arguments": "{"}}), {"error": {"code": 1}}),
    ],
    "openai_responses": [
        sse(
            {"type": "response.created", "response": responses.body(status="in_progress")},
            responses.added(0, responses.reasoning()),
            responses.summary(0, "é"),
            responses.done(0, responses.reasoning("é", encrypted_content="x")),
            responses.added(1, responses.message()),
            responses.text(1, "a\u2028"),
            responses.done(1, responses.message("a\u2028b", {"type": "refusal", "refusal": "c"})),
            responses.added(2, responses.call("")),
            responses.args(2, '{"x"'),
            responses.done(2, responses.call({"x": 1})),
            responses.completed(responses.call({"x": 1}), responses.message("d")),
        ),
        json.dumps(responses.body(responses.message("a"), responses.call()), indent=1).encode(),
        sse({"type": "error", "error": {"message": "no"}}, responses.completed(status="failed")),
    ],
    "gemini": [
        sse(
            gemini.event(gemini.text("é", thought=True)),
            gemini.event(gemini.text("a\u2028b"), gemini.text("c", thoughtSignature="s")),
            gemini.event({"executableCode": {"code": "1"}}, {"inlineData": {"data": "aGk="}}),
            gemini.event(gemini.call(args={"x": 1}, id="a", signature="t")),
            gemini.event(gemini.growing(name="g")),
            gemini.event(
                gemini.growing(gemini.partial_arg("$.a[0].b", stringValue="é", more=True))
            ),
            gemini.event(
                gemini.growing(gemini.partial_arg("$.c", numberValue=1.50)), reason="STOP"
            ),
            gemini.event(gemini.growing(goes_on=False), usageMetadata={"promptTokenCount": 1}),
            end="\r\n",
        ),
        json.dumps([gemini.event(gemini.text("a")), gemini.event(reason=1)], indent=2).encode(),
        sse(gemini.event(gemini.text("a"))) + b'{\n "error": {\n  "code": 499\n }\n}\n',
        sse({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {}}),
    ],
    "ollama": [
        lines(
            line({"thinking": "é", "content": ""}),
            line({"content": "a\u2028b"}, logprobs=[{"token": "a", "logprob": -1}]),
            line({"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {"x": 1}}}]}),
            line({}, done=True, done_reason="stop", eval_count=2),
        ),
        json.dumps(line({"content": "a"}, done=True, done_reason="stop"), indent=1).encode(),
        lines(line({"content": "a"}), {"error": "no"}),
    ],
}
CASES = [(protocol, body) for protocol, bodies in SEEDS.items() for body in bodies]

OPENED: dict[str, list[Any]] = {
    "anthropic": [
        {"type": "message_start", "message": {}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ],
    "openai_chat": [chunk({"role": "assistant", "content": ""}), chunk({"content": "a"}, "stop")],
    "openai_responses": [
        {"type": "response.created", "response": {}},
        responses.added(0, responses.message()),
        responses.text(0, "a"),
    ],
}

SAID: dict[str, Callable[[str], Any]] = {
    "anthropic": lambda message: {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": message},
    },
    "openai_chat": lambda message: chunk({"content": message}),
    "openai_responses": lambda message: responses.text(0, message),
    "gemini": lambda message: gemini.event(gemini.text(message)),
    "ollama": lambda message: line({"content": message}),
}

JUNK = st.one_of(
    st.binary(max_size=6),
    st.sampled_from(
        b'null|0|-1|""|[]|{}|[DONE]|true|1e999|NaN|"x"|\n\n|data: |\\ud800'.split(b"|")
    ),
)

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-1, 3), st.text(max_size=3), st.just("text")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=4), inner, max_size=3),
    ),
    max_leaves=5,
)

MANY = 40_000
GROWING: dict[str, tuple[bytes, bytes]] = {
    "anthropic": (
        sse({"type": "content_block_start", "index": 0, "content_block": CALL}),
        sse(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": "12345678"},
            }
        ),
    ),
    "openai_chat": (
        sse(chunk({"tool_calls": [fragment(0, "a", "f", "")]})),
        sse(chunk({"tool_calls": [fragment(0, arguments="12345678")]})),
    ),
    "openai_responses": (
        sse(responses.added(0, responses.call(""))),
        sse(responses.args(0, "12345678")),
    ),
    "gemini": (b"", sse(gemini.event(gemini.text("12345678")))),
    "ollama": (b"", lines(line({"content": "12345678"}))),
}


def test_every_codec_is_held_to_this() -> None:
    assert SEEDS.keys() == CODECS.keys()
    assert all(name == codec.name for name, codec in CODECS.items())


@pytest.mark.parametrize(("protocol", "body"), CASES)
def test_cut_everywhere_and_once_anywhere(protocol: str, body: bytes) -> None:
    spans = spanned(protocol, body)
    obey_the_grammar(spans, len(body))
    assert spanned(protocol, body, cuts=range(len(body))) == spans
    for cut in range(1, len(body), 7):
        assert spanned(protocol, body, cuts=[cut]) == spans


@UNHURRIED
@given(st.sampled_from(CASES), st.lists(st.integers(0, 2000)))
def test_no_cutting_changes_an_event_or_its_span(case: tuple[str, bytes], cuts: list[int]) -> None:
    assert spanned(*case, cuts=cuts) == spanned(*case)


def frames_of(protocol: str) -> list[bytes]:
    """The frames of a whole answer, the last of which (but for Gemini) is the end of it."""
    body = SEEDS[protocol][0].removeprefix(b": ping\r\n\r\n")
    apart = b"\r\n\r\n" if b"\r\n" in body else b"\n" if protocol == "ollama" else b"\n\n"
    return [frame + apart for frame in body.removesuffix(apart).split(apart)]


@pytest.mark.parametrize("protocol", CODECS)
@pytest.mark.parametrize("broken", ['{"cut": ', "no JSON at all", '{"a": NaNa}', "\0\0"])
def test_an_answer_of_which_an_event_was_lost_is_interrupted(protocol: str, broken: str) -> None:
    """Wherever it stood, and whatever follows: nobody knows what it told."""
    frames = frames_of(protocol)
    lost = lines(broken) if protocol == "ollama" else sse(broken)
    places = range(len(frames) + (protocol == "gemini"))
    ends = [
        end_of(events_of(protocol, b"".join([*frames[:place], lost, *frames[place:]])))
        for place in places
    ]
    assert [isinstance(end, ResponseFailed) and end.failure for end in ends] == [
        "interrupted" for _ in places
    ]


@pytest.mark.parametrize("protocol", ["anthropic", "openai_chat", "gemini"])
def test_a_finish_reason_is_an_end_though_the_connection_breaks(protocol: str) -> None:
    """But one that no rule trusts; where we hung up ourselves, it is none."""
    frames = frames_of(protocol)
    body = b"".join(frames if protocol == "gemini" else frames[:-1])
    events = events_of(protocol, body, clean=False)
    end = end_of(events)
    assert isinstance(end, ResponseEnded)
    assert end.abrupt
    assert "unclean_close" in codes_of(events)
    assert parts_of(events) == parts_of(events_of(protocol, body))
    decoder = CODECS[protocol].decoder(200)
    decoder.feed(body)
    stopped = end_of([event for *_, event in decoder.end(False, stopped=True)])
    assert isinstance(stopped, ResponseFailed)


@pytest.mark.parametrize("protocol", CODECS)
def test_a_whole_answer_ends_well_and_warns_of_no_loss(protocol: str) -> None:
    end = end_of(events_of(protocol, b"".join(frames_of(protocol))))
    assert isinstance(end, ResponseEnded)
    assert not end.abrupt


@pytest.mark.parametrize("protocol", OPENED)
def test_a_stream_without_its_opening_is_told_once(protocol: str) -> None:
    opening, *rest = OPENED[protocol]
    for body, count in ((sse(opening, *rest, *rest), 0), (sse(*rest, *rest), 1)):
        codes = [item.code for item in events_of(protocol, body) if isinstance(item, Warned)]
        assert codes.count("no_opening") == count


@pytest.mark.parametrize("protocol", CODECS)
@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["a\ud800b"], "a\ufffdb"),
        (["a\ud83d", "\ude00b"], "a\U0001f600b"),
        (["a\ud83d", "b"], "a\ufffdb"),
        (["a\ude00\ud83d"], "a\ufffd\ufffd"),
        (["é\ud83d", "\ud83d", "\ude00"], "é\ufffd\U0001f600"),
    ],
)
def test_half_a_character_of_a_text_is_shown_as_lost(
    protocol: str, pieces: list[str], text: str
) -> None:
    items = [SAID[protocol](piece) for piece in pieces]
    body = lines(*items) if protocol == "ollama" else sse(*items)
    events = events_of(protocol, body)
    deltas = "".join(event.text for event in events if isinstance(event, PartDelta))
    assert (deltas, [part.text for _, part in parts_of(events)]) == (text, [text])
    assert ("lone_surrogate" in codes_of(events)) == ("\ufffd" in text)


def test_what_a_message_said_is_compared_as_it_is_shown() -> None:
    body = sse(
        responses.added(0, responses.message()),
        responses.text(0, "a\ud800"),
        responses.done(0, responses.message("a\ud800")),
        responses.completed(responses.message("a\ud800")),
    )
    events = events_of("openai_responses", body)
    assert [part.text for _, part in parts_of(events)] == ["a\ufffd"]
    assert "item_differs" not in codes_of(events)


@pytest.mark.parametrize(
    ("body", "packed"),
    [
        (sse(gemini.event(gemini.call(args='{"x": 1}'), reason="STOP")), True),
        (sse(gemini.event(gemini.call(args={"x": 1}), reason="STOP")), False),
        (lines(line({"tool_calls": [{"function": {"name": "f", "arguments": '{"x": 1}'}}]})), True),
        (lines(line({"tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]})), False),
    ],
)
def test_arguments_as_a_text_where_an_object_belongs_are_marked(body: bytes, packed: bool) -> None:
    ((_, call),) = parts_of(events_of("gemini" if b"functionCall" in body else "ollama", body))
    assert json.loads(call.text) == {"x": 1}
    assert call.meta.get("packed", False) is packed


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, bytes]:
    """A sound body with some of its bytes replaced, doubled, dropped or cut off."""
    protocol, body = draw(st.sampled_from(CASES))
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, len(body)))
        end = min(len(body), start + draw(st.integers(0, 40)))
        new = draw(st.one_of(JUNK, st.just(body[start:end] * 2)))
        body = body[:start] + new + body[end:]
    return protocol, body


@UNHURRIED
@given(
    mutated(), st.sampled_from([200, 204, 400, 529]), st.booleans(), st.lists(st.integers(0, 999))
)
def test_no_bytes_raise_or_break_the_grammar(
    case: tuple[str, bytes], status: int, clean: bool, cuts: list[int]
) -> None:
    protocol, body = case
    events = spanned(protocol, body, status=status, clean=clean, cuts=cuts)
    obey_the_grammar(events, len(body))
    assert events == spanned(protocol, body, status=status, clean=clean)


def _replaced(value: Any, path: list[int], new: Any) -> Any:
    """`value` with the member that `path` leads to replaced; numbers wrap around."""
    if not path or not isinstance(value, dict | list) or not value:
        return new
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = keys[path[0] % len(keys)]
    inner = _replaced(value[key], path[1:], new)
    if isinstance(value, dict):
        return {**value, key: inner}
    return [inner if place == key else item for place, item in enumerate(value)]


@UNHURRIED
@given(st.sampled_from(CASES), st.data())
def test_no_json_raises_or_breaks_the_grammar(case: tuple[str, bytes], data: st.DataObject) -> None:
    """Sound JSON of the wrong shape reaches deeper than broken bytes do."""
    protocol, body = case
    text = body.decode().replace("\r\n", "\n")
    events, rows = "data: " in text, "\n{" in text
    frames = text.split("\n\n") if events else text.split("\n") if rows else [text]
    place = data.draw(st.integers(0, len(frames) - 1))
    payload = frames[place].removeprefix("data: ").strip()
    if payload.startswith("{"):
        path = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=7))
        changed = _replaced(json.loads(payload), path, data.draw(VALUES))
        frames[place] = ("" if rows else "data: ") + json.dumps(changed)
    body = ("\n" if rows else "\n\n").join(frames).encode()
    obey_the_grammar(spanned(protocol, body), len(body))


@pytest.mark.timeout(30)
@pytest.mark.slow
@pytest.mark.parametrize("protocol", CODECS)
def test_a_delta_costs_the_same_however_long_the_part_is(protocol: str) -> None:
    head, delta = GROWING[protocol]
    body = head + delta * MANY
    events = spanned(protocol, body, cuts=range(0, len(body), 65_536))
    (ended,) = [event for _, _, event in events if isinstance(event, PartEnded)]
    assert ended.text == "12345678" * MANY


@pytest.mark.timeout(30)
@pytest.mark.slow
def test_a_large_line_byte_by_byte_is_linear() -> None:
    body = sse(chunk({"content": "x" * 100_000}))
    obey_the_grammar(spanned("openai_chat", body, cuts=range(len(body))), len(body))


def _object_calls(protocol: str, number: int) -> bytes:
    """A document of as many calls whose arguments are objects."""
    if protocol == "anthropic":
        blocks = [{**CALL, "input": {"x": 1}}] * number
        return json.dumps({"type": "message", "content": blocks, "stop_reason": "x"}).encode()
    if protocol == "openai_responses":
        many = [responses.call({"x": 1}, f"c{index}") for index in range(number)]
        return json.dumps(responses.body(*many)).encode()
    if protocol == "gemini":
        return json.dumps(gemini.event(*[gemini.call(args={"x": 1})] * number)).encode()
    if protocol == "ollama":
        call = {"function": {"name": "f", "arguments": {"x": 1}}}
        return json.dumps(line({"tool_calls": [call] * number}, done=True)).encode()
    calls = [fragment(index, f"i{index}", "f", {"x": 1}) for index in range(number)]
    return json.dumps({"choices": [{"message": {"tool_calls": calls}}]}).encode()


@pytest.mark.timeout(30)
@pytest.mark.slow
@pytest.mark.parametrize("protocol", CODECS)
def test_many_arguments_in_one_document_are_linear(protocol: str) -> None:
    body = _object_calls(protocol, 8_000)
    events = spanned(protocol, body)
    texts = [event.text for _, _, event in events if isinstance(event, PartEnded)]
    assert texts == ['{"x": 1}'] * 8_000


@pytest.mark.parametrize("protocol", rest_slow(CODECS))
@pytest.mark.parametrize("deep", ["error", "usage", "choices", "message", "content", "type"])
def test_depth_is_no_way_in(protocol: str, deep: str) -> None:
    """Whatever was read must also be stored: `to_row` walks every event."""
    for depth in (150, 199, 500, 990, 100_000):
        for opening, closing in (("[", "]"), ('{"message":', "}"), ('{"error":', "}")):
            nested = opening * depth + "0" + closing * depth
            body = sse(f'{{"{deep}":{nested}}}', f'{{"type":"message_delta","usage":{nested}}}')
            for status in (200, 400):
                events = spanned(protocol, body, status=status)
                obey_the_grammar(events, len(body))
                assert all(to_row(event) for _, _, event in events)
