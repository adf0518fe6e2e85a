"""What all encoders share, and the way round: bytes, events, session, request, bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.core.errors import BadInput
from playground.core.messages import model_request
from playground.core.reducer import fold
from playground.core.settings import PROTOCOLS, Profile
from playground.core.tools import Tool, ToolChoice
from playground.protocols.base import WireRequest
from playground.protocols.encoder import sound_object
from playground.protocols.registry import CODECS, codec
from tests.factories import Log, settings
from tests.protocols import responses
from tests.protocols.frames import DONE, UNHURRIED, chunk, fragment, message, parts_of, spanned, sse
from tests.protocols.requests import assistant, call, encoded, request, result_part, results, user

BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "why", "signature": "sig"},
    {"type": "redacted_thinking", "data": "x"},
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": [1.5, "é"]}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "u"}]},
    {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}},
    {"type": "text", "text": "so", "citations": [{"cited_text": "c"}]},
    {"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1}, "caller": {"type": "direct"}},
]
DETAILS = [{"type": "reasoning.text", "text": "why", "signature": "s", "index": 0}]
TOOL_CALL = {
    "id": "t1",
    "type": "function",
    "function": {"name": "f", "arguments": '{"x": 1.10}'},
    "extra_content": {"google": {"thought_signature": "s"}},
}

ITEMS: list[dict[str, Any]] = [
    responses.reasoning("why", "so", encrypted_content="sealed"),
    {"type": "web_search_call", "id": "ws_1", "action": {"query": "é"}, "status": "completed"},
    {"type": "some_future_type", "id": "x", "more": [1.5]},
    responses.message("so", {"type": "refusal", "refusal": "no"}, phase="commentary"),
    responses.call('{"x": 1.10}', caller={"type": "direct"}),
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c2", "name": "g", "input": "é\n"},
]

TEXTS = st.text(st.characters(), max_size=5)

LIMITS = {"anthropic": 128, "openai_chat": 64, "openai_responses": 64, "ollama": 128, "gemini": 128}

DIGITS = '{"a":1.10,"b":1e400,"c":' + "9" * 400 + ',"d": 0.1000000000000000055511,"é":"\\u00e9"}'

LONG = "x" * 600


def sent_again(protocol: str, body: bytes) -> list[dict[str, Any]]:
    """The messages of the request after an answer of `body` whose calls were all answered."""
    spoken = next(literal for literal in PROTOCOLS if literal == protocol)
    profile = Profile("test", spoken, "sim:", model="sim-1")
    log = Log().start(settings(profile=profile)).prompt("hi").request(protocol=protocol)
    events = [event for _, _, event in spanned(protocol, body)]
    log.add(*events)
    called = [f"1.{index}" for index, (kind, _) in enumerate(parts_of(events)) if kind == "call"]
    for call_id in called:
        log.check(call_id).run(call_id)
    session = fold("s", log.events)
    sent = codec(protocol).encode(model_request(session, ToolChoice()))
    body_sent = json.loads(sent.body)
    messages: list[dict[str, Any]] = body_sent.get("messages") or body_sent["input"]
    return messages


@pytest.mark.parametrize("streamed", [True, False])
def test_anthropic_blocks_come_back_verbatim(streamed: bool) -> None:
    whole_message = {"type": "message", "content": BLOCKS, "stop_reason": "tool_use", "usage": {}}
    stream = message(*([block] for block in BLOCKS), reason="tool_use")
    messages = sent_again("anthropic", stream if streamed else json.dumps(whole_message).encode())
    assert messages[1] == {"role": "assistant", "content": BLOCKS}
    assert messages[2]["content"][0]["tool_use_id"] == "t1"


@pytest.mark.parametrize("streamed", [True, False])
def test_openai_messages_come_back_verbatim(streamed: bool) -> None:
    message = {"role": "assistant", "content": "so", "reasoning_details": DETAILS}
    tail = {"tool_calls": [{"index": 0, **TOOL_CALL}]}
    document = {"choices": [{"message": {**message, **tail}, "finish_reason": "tool_calls"}]}
    body = json.dumps(document).encode()
    if streamed:
        body = sse(chunk(message), chunk(tail), chunk({}, "tool_calls"), DONE)
    messages = sent_again("openai_chat", body)
    assert messages[1] == {**message, "tool_calls": [TOOL_CALL]}
    assert messages[2]["tool_call_id"] == "t1"


@pytest.mark.parametrize("streamed", [True, False])
def test_items_of_responses_come_back_verbatim(streamed: bool) -> None:
    body = json.dumps(responses.body(*ITEMS)).encode()
    if streamed:
        done = (responses.done(place, item) for place, item in enumerate(ITEMS))
        body = sse(*done, responses.completed())
    items = sent_again("openai_responses", body)
    assert items[1:7] == ITEMS
    assert [(item["type"], item["call_id"]) for item in items[7:]] == [
        ("function_call_output", "call_1"),
        ("custom_tool_call_output", "c2"),
    ]


def test_an_answer_of_one_protocol_goes_on_in_the_other() -> None:
    body = sse(chunk({"tool_calls": [fragment(0, "functions.f:0", "f", "")]}), chunk({}, "stop"))
    log = Log().start(settings()).prompt("hi").request(protocol="openai_chat")
    log.add(*(event for _, _, event in spanned("openai_chat", body)))
    log.check("1.0").run("1.0")
    wanted = model_request(fold("s", log.events), ToolChoice())
    messages = json.loads(codec("anthropic").encode(wanted).body)["messages"]
    (block,) = messages[1]["content"]
    assert block["input"] == {}
    assert messages[2]["content"][0]["tool_use_id"] == block["id"]


@UNHURRIED
@given(st.sampled_from(sorted(CODECS)), TEXTS, st.text(max_size=6), st.lists(TEXTS, max_size=4))
def test_every_text_and_id_can_be_sent(
    protocol: str, text: str, arguments: str, ids: list[str]
) -> None:
    """Lone surrogates, control characters, ids that are empty or alike: never an exception."""
    messages = [user(text), assistant(*(call(id_, arguments) for id_ in ids))]
    answered = results(*(result_part(id_, text) for id_ in ids))
    body, _ = encoded(protocol, request(*messages, *([answered] if ids else []), system=text))
    if protocol == "gemini":  # there, ids that Gemini did not give are not sent
        assert names_in(body) == ["f"] * 2 * len(ids)
        return
    if protocol == "openai_responses":
        items = [item for item in body["input"] if item["type"].startswith("function_call")]
        sent = [item["call_id"] for item in items if item["type"] == "function_call"]
        assert [item["call_id"] for item in items] == sent * 2
        assert len(set(sent)) == len(ids)
        return
    sent = [c["id"] for m in body["messages"] for c in m.get("tool_calls", ())]
    sent += [b["id"] for m in body["messages"] for b in m["content"] or () if "id" in b]
    got = [m["tool_call_id"] for m in body["messages"] if "tool_call_id" in m]
    got += [
        b["tool_use_id"] for m in body["messages"] for b in m["content"] or () if "tool_use_id" in b
    ]
    assert sent == got
    assert len(set(sent)) == len(ids)


def names_in(body: dict[str, Any]) -> list[str]:
    """The names of calls and results, in the order of the history."""
    names: list[str] = []
    for part in (part for content in body.get("contents", ()) for part in content["parts"]):
        names += [part[key]["name"] for key in ("functionCall", "functionResponse") if key in part]
    names += [item["name"] for item in body.get("input", ()) if "name" in item]
    for text in body.get("messages", ()):
        blocks = text["content"] if isinstance(text["content"], list) else []
        names += [block["name"] for block in blocks if block["type"] == "tool_use"]
        names += [c[c.get("type", "function")]["name"] for c in text.get("tool_calls", ())]
        names += [text["function_call"]["name"]] if "function_call" in text else []
        names += [text["name"]] if text["role"] == "function" else []
        names += [text["tool_name"]] if "tool_name" in text else []
    return names


def about_names(sent: WireRequest) -> list[str]:
    return [note for note in sent.notes if note.startswith("The tool's name")]


@pytest.mark.parametrize("protocol", CODECS)
@pytest.mark.parametrize(
    ("name", "goes_as"),
    [
        ("", "unknown_tool"),
        ("a b\n", "a_b_"),
        ("functions.f", "functions_f"),
        ("cаlculator", "c_lculator"),
        ("\ud800", "_"),
        ("x" * 300, "x" * 300),
        ("no_such-tool1", "no_such-tool1"),
    ],
)
def test_a_name_the_model_invented_goes_back_as_one_that_is_taken(
    protocol: str, name: str, goes_as: str
) -> None:
    goes_as = goes_as[: LIMITS[protocol]]
    if protocol == "gemini" and name == "functions.f":
        goes_as = name  # dots are letters there
    for kind in ("", "custom", "function_call"):
        part = call("t1", name=name, meta={"type": kind}, protocol=protocol)
        named_result = replace(result_part("t1", "no such tool"), name=name)
        body, sent = encoded(protocol, request(assistant(part), results(named_result)))
        assert set(names_in(body)) == {goes_as}
        assert len(about_names(sent)) == (name != goes_as)


@pytest.mark.parametrize("protocol", CODECS)
def test_the_name_of_a_tool_that_is_sent_along_stays(protocol: str) -> None:
    dotted = request(assistant(call("t1", name="a.b")), tools=(Tool("a.b"),))
    body, sent = encoded(protocol, dotted)
    assert names_in(body) == ["a.b"]
    assert about_names(sent) == []


@pytest.mark.parametrize("protocol", CODECS)
def test_a_request_that_json_cannot_say_is_refused_with_a_sentence(protocol: str) -> None:
    with pytest.raises(BadInput, match=r"change the settings\.$"):
        encoded(protocol, request(extra={"x": float("nan")}))


@pytest.mark.parametrize(
    ("text", "sound"), [('{"a": 1}', True), ("[]", False), ("", False), ("{" * 9, False),
                        ('{"a":' + "[" * 100_000, False), ('{"a": Infinity}', False)],
)  # fmt: skip
def test_sound_objects(text: str, sound: bool) -> None:
    assert (sound_object(text) is not None) == sound


@pytest.mark.parametrize("protocol", CODECS)
def test_arguments_are_sent_to_the_letter(protocol: str) -> None:
    """Digits, spaces and escapes; and what looks like our own mark for them does no harm."""
    mark = '{"1":0,"1":0}'
    messages = [
        user(mark),
        assistant(call("t1", DIGITS), call("t2", f'{{"x":{json.dumps(mark)}}}')),
    ]
    wanted = request(
        *messages, results(result_part("t1", mark), result_part("t2", "")), extra={"y": {"1": 0}}
    )
    sent = codec(protocol).encode(wanted)
    body = sent.body.decode()
    spelled = DIGITS if protocol in ("anthropic", "gemini", "ollama") else json.dumps(DIGITS)[1:-1]
    if protocol in ("openai_chat", "openai_responses"):
        spelled = json.dumps(DIGITS, ensure_ascii=False)[1:-1]
    assert spelled in body
    assert mark not in body
    assert not any("arguments of f" in note for note in sent.notes)


@pytest.mark.parametrize(
    ("text", "goes_as"),
    [
        ('{"price": 1.10}', '{"price": 1.10}'),
        ('{"a":1,"a":2}', '"{\\"a\\":1,\\"a\\":2}"'),
        ('{"a":1e400}', '"{\\"a\\":1e400}"'),
    ],
)
def test_a_result_is_spliced_or_goes_as_text(text: str, goes_as: str) -> None:
    wanted = request(assistant(call("t1")), results(result_part("t1", text)), tools=())
    assert f'"output":{goes_as}'.encode() in codec("gemini").encode(wanted).body


@pytest.mark.parametrize("protocol", CODECS)
@pytest.mark.parametrize("mode", ["auto", "required"])
def test_where_no_tool_is_allowed_it_is_said(protocol: str, mode: Any) -> None:
    body, sent = encoded(protocol, request(choice=ToolChoice(mode, allowed=())))
    assert "tools" not in body
    assert sent.notes[0] == "No tool is allowed, so none was sent."
    assert ("tool choice was left out" in "".join(sent.notes)) == (mode == "required")
    assert encoded(protocol, request(tools=()))[1].notes == ()


@pytest.mark.parametrize(
    ("protocol", "who"),
    [
        ("anthropic", "Anthropic accepts letters, digits, _ and -"),
        ("openai_chat", "OpenAI accepts 40 characters, newer models 64"),
        ("openai_responses", "this protocol accepts 64 characters"),
        ("ollama", "Ollama is sent 512 characters"),
    ],
)
def test_changed_ids_are_told_in_one_note(protocol: str, who: str) -> None:
    def id_notes(*ids: str) -> list[str]:
        outcome = (
            assistant(*(call(id_) for id_ in ids)),
            results(*(result_part(id_, "") for id_ in ids)),
        )
        return [note for note in encoded(protocol, request(*outcome))[1].notes if "The id" in note]

    assert id_notes("a", "b") == []
    assert id_notes("a", LONG) == [
        f"The id of one call was changed: {who}, and accepts each only once."
    ]
    (note,) = id_notes(LONG, "a", LONG, "a")
    assert note == f"The ids of 3 calls were changed: {who}, and accepts each only once."


@pytest.mark.parametrize(
    ("protocol", "params", "extra", "name", "expected", "replaced"),
    [
        ("gemini", {"max_tokens": 9, "top_p": 1}, {"generationConfig": {"seed": 1, "topP": 0.5}},
         "generationConfig", {"maxOutputTokens": 9, "topP": 0.5, "seed": 1},
         ["generationConfig.topP"]),
        ("openai_responses", {"thinking": "low"}, {"reasoning": {"summary": "detailed"}},
         "reasoning", {"effort": "low", "summary": "detailed"}, ["reasoning.summary"]),
        ("ollama", {"top_p": 1}, {"options": {"seed": 1}}, "options", {"top_p": 1, "seed": 1}, []),
        ("openai_chat", {}, {"stream_options": {"include_obfuscation": False}}, "stream_options",
         {"include_usage": True, "include_obfuscation": False}, []),
        ("openai_chat", {"stop": "a"}, {"stop": ["b"]}, "stop", ["b"], ["stop"]),
        ("openai_chat", {"top_p": 1}, {"top_p": 1, "seed": 2}, "seed", 2, []),
        # Two kinds of thinking cannot be one.
        ("anthropic", {"thinking": 2000}, {"thinking": {"type": "adaptive"}}, "thinking",
         {"type": "adaptive"}, ["thinking"]),
    ],
)  # fmt: skip
def test_extra_members_join_groups_and_replace_the_rest(
    protocol: str,
    params: dict[str, Any],
    extra: dict[str, Any],
    name: str,
    expected: Any,
    replaced: list[str],
) -> None:
    body, sent = encoded(protocol, request(params=params, extra=extra, tools=()))
    assert body[name] == expected
    outputs = [note for note in sent.notes if note.startswith("extra replaces")]
    assert outputs == [f"extra replaces {text}." for text in replaced]


def test_extra_members_of_a_tool_config_stand_beside_ours() -> None:
    extra = {"toolConfig": {"retrievalConfig": {"languageCode": "en"}}}
    body, _ = encoded("gemini", request(choice=ToolChoice("required"), extra=extra))
    assert set(body["toolConfig"]) == {"functionCallingConfig", "retrievalConfig"}


@pytest.mark.parametrize("protocol", ["anthropic", "openai_chat", "openai_responses", "ollama"])
@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("stream", [True, False])
def test_a_stream_among_the_extra_members_holds(
    protocol: str, is_streamed: bool, stream: bool
) -> None:
    body, sent = encoded(protocol, request(stream=is_streamed, extra={"stream": stream}))
    assert body["stream"] == stream
    assert bool(sent.expects) == ("accept" in sent.headers) == stream
    assert stream or "stream_options" not in body


def test_where_the_path_says_that_it_streams_an_extra_member_does_not() -> None:
    _, sent = encoded("gemini", request(extra={"stream": False}))
    assert (sent.expects, "stream" in sent.path) == ("text/event-stream", True)
