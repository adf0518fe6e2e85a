"""The request after any history: nothing in it that its provider is known to refuse."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.core.events import CallDecided, CallEnded, PromptAdded, RunStopped
from playground.core.messages import MessagePart, model_request
from playground.core.reducer import fold
from playground.core.session import Session
from playground.core.settings import PROTOCOLS, Profile, Protocol
from playground.core.tools import Content, Tool, ToolChoice, text_result
from playground.protocols.anthropic.limits import CALL_ID as ANTHROPIC_ID
from playground.protocols.base import WireRequest
from playground.protocols.ollama.limits import CALL_ID as OLLAMA_ID
from playground.protocols.openai_chat.limits import CALL_ID as CHAT_ID
from playground.protocols.openai_chat.limits import SHORT_CALL_ID
from playground.protocols.openai_responses.limits import CALL_ID as RESPONSES_ID
from playground.protocols.registry import ENDS, codec
from tests.factories import Log, settings
from tests.protocols import responses
from tests.protocols.frames import (
    DONE,
    UNHURRIED,
    chunk,
    fragment,
    line,
    lines,
    message,
    spanned,
    sse,
)
from tests.protocols.requests import assistant, call, encoded, request, result_part, results, user

CASES = Path(__file__).parents[2] / os.environ.get("PLAYGROUND_CASES", "../shared/cases") / "wire"

SEATS = Tool(
    "seat_map",
    "The seats of a hall.",
    {"type": "object", "properties": {"hall": {"type": "string"}}},
)
ID_LIMITS = {
    "anthropic": ANTHROPIC_ID,
    "openai_chat": CHAT_ID,
    "openai_responses": RESPONSES_ID,
    "ollama": OLLAMA_ID,
}

UNSOUND = [
    '{"hall": "B", "no',
    '{"hall": "B"} trailing',
    "[1]",
    '"{\\"hall\\":\\"B\\"}"',
    "12",
    "SELECT 1",
    '{"a":1,"a":2}',
    '{"a":{"b":1,"b":1}}',
    '{"a": NaN}',
    '{"a": -Infinity}',
    '{"a": "\\ud83d"}',
    '{"a": "\t"}',
    "{'a': 1}",
    "\ufeff{}",
    '{"a":' * 70 + "1" + "}" * 70,
    '{"a":' * 3000,
    '{"a":' + "9" * 5000 + "}",
]
EMPTY = ["", " \n", "null", "{}"]

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
ARGUMENTS = st.one_of(
    st.text(st.characters(), max_size=12),
    st.sampled_from(UNSOUND + EMPTY),
    JSON_VALUES.map(json.dumps),
    JSON_VALUES.map(lambda value: json.dumps(value, ensure_ascii=False)),
    st.tuples(JSON_VALUES.map(json.dumps), st.integers(0, 30)).map(lambda it: it[0][: it[1]]),
)

IDS = st.one_of(
    st.text(max_size=6),
    st.text(st.characters(), max_size=3),
    st.sampled_from(["call_1", "functions.f:0", "a" * 40, "a" * 41, "a" * 64, "a" * 65]),
    st.integers(38, 520).map(lambda size: "é" * size),
    st.integers(38, 520).map(lambda size: f"call__thought__{'s' * size}"),
)

THINKING = (
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "Which hall?"},
    {"type": "signature_delta", "signature": "CUTSIGNATURE"},
)
BLANK: list[dict[str, Any]] = [{"type": "text", "text": ""}, {"type": "text_delta", "text": "\n\n"}]
CALLED: list[dict[str, Any]] = [
    {"type": "tool_use", "id": "toolu_1", "name": "seat_map", "input": {}},
    {"type": "input_json_delta", "partial_json": '{"hall":"B"}'},
]
CUT_ARGUMENTS = '{"hall": "B", "no'


def arguments_in(body: dict[str, Any]) -> list[Any]:
    """The arguments of all calls in a body, as its server reads them."""
    results: list[Any] = []
    for part in (part for content in body.get("contents", ()) for part in content["parts"]):
        results += [part["functionCall"].get("args", {})] if "functionCall" in part else []
    for item in body.get("input", ()):
        results += [loads(item["arguments"])] if item["type"] == "function_call" else []
    for entry in body.get("messages", ()):
        blocks = entry["content"] if isinstance(entry["content"], list) else []
        results += [block["input"] for block in blocks if block["type"] == "tool_use"]
        functions = [item["function"] for item in entry.get("tool_calls", ()) if "function" in item]
        functions += [entry["function_call"]] if "function_call" in entry else []
        for function in functions:
            arguments = function["arguments"]
            results.append(loads(arguments) if isinstance(arguments, str) else arguments)
    return results


def texts_in(value: Any) -> Iterator[str]:
    """All texts in a body."""
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from texts_in(item)
        case dict():
            for name, item in value.items():
                yield name
                yield from texts_in(item)


def loads(text: str) -> Any:
    """Reads JSON as the strictest server does: no constants, no key twice."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    return json.loads(text, parse_constant=refuse, object_pairs_hook=unique)


def ids_in(body: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The ids of the calls, and of the results, in the order of the history."""
    outputs, answered = list[str](), list[str]()
    for item in body.get("input", ()):
        if item["type"] in ("function_call", "custom_tool_call"):
            outputs.append(item["call_id"])
        elif item["type"].endswith("_output"):
            answered.append(item["call_id"])
    for entry in body.get("messages", ()):
        outputs += [item["id"] for item in entry.get("tool_calls", ())]
        answered += [entry["tool_call_id"]] if "tool_call_id" in entry else []
        for block in entry["content"] if isinstance(entry["content"], list) else ():
            outputs += [block["id"]] if block["type"] == "tool_use" else []
            answered += [block["tool_use_id"]] if block["type"] == "tool_result" else []
    return outputs, answered


def accepted(protocol: str, sent: WireRequest) -> dict[str, Any]:
    """The body of a request that the provider's end takes, and that is strict throughout."""
    body: dict[str, Any] = loads(sent.body.decode("utf-8"))
    ENDS[protocol].parse(sent.body, sent.headers, sent.path)
    assert all(isinstance(arguments, dict) for arguments in arguments_in(body))
    for text in texts_in(body):
        text.encode("utf-8")  # no half of a surrogate pair
    outputs, answered = ids_in(body)
    assert outputs == answered
    assert len(set(outputs)) == len(outputs)
    if protocol in ID_LIMITS:
        assert all(ID_LIMITS[protocol].pattern.fullmatch(id_) for id_ in outputs)
    return body


def history(*arguments: str, protocol: str = "", **changes: Any) -> Any:
    """A request whose history has a call with each of `arguments`, all denied."""
    calls = [
        call(f"c{number}", text, "seat_map", protocol=protocol)
        for number, text in enumerate(arguments)
    ]
    denied = [result_part(f"c{number}", "Denied.", is_error=True) for number in range(len(calls))]
    parts = user("hi"), assistant(*calls), results(*denied), user("go on")
    return request(*parts, tools=(SEATS,), **changes)


@UNHURRIED
@given(
    st.sampled_from(PROTOCOLS),
    st.lists(ARGUMENTS, min_size=1, max_size=4),
    st.booleans(),
)
def test_arguments_in_a_history_are_objects_whatever_the_model_wrote(
    protocol: Protocol, arguments: list[str], own: bool
) -> None:
    wanted = history(*arguments, protocol=protocol if own else "")
    sent = codec(protocol).encode(wanted)
    body = accepted(protocol, sent)
    assert len(arguments_in(body)) == len(arguments)
    assert codec(protocol).encode(wanted) == sent


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("text", UNSOUND)
def test_unsound_arguments_go_as_an_empty_object_and_their_text_in_the_result(
    protocol: Protocol, text: str
) -> None:
    body, sent = encoded(protocol, history(text))
    assert arguments_in(body) == [{}]
    assert any(read.endswith(f"You wrote:]\n{text}") for read in texts_in(body))
    assert any("Denied." in read for read in texts_in(body))
    (note,) = [note for note in sent.notes if "sent as {}" in note]
    assert note.startswith(
        "The arguments of seat_map are not a JSON object. They were sent as {}, with the"
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("text", [*EMPTY, '{"hall":"\ud83d"}', '{"hall": "B"} '])
def test_sound_arguments_add_nothing_to_the_result(protocol: Protocol, text: str) -> None:
    body, sent = encoded(protocol, history(text))
    assert "You wrote" not in json.dumps(body)
    assert not any("sent as {}" in note for note in sent.notes)
    hall = {"hall": "\ufffd"} if "\ud83d" in text else {"hall": "B"}
    assert arguments_in(body) == [hall if "hall" in text else {}]
    flag = any("surrogate" in note for note in sent.notes)
    assert flag == ("\ud83d" in text)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_text_follows_the_result_of_its_own_call(protocol: Protocol) -> None:
    """Calls with one id, and an imported result whose pieces have members of their own."""
    calls = assistant(call("t", '{"n":1'), call("t", "{}"), call("u", "[2]"))
    piece = Content(text="kept")
    imported = replace(result_part("u", "kept"), pieces=((piece, {"x": 1}),), protocol=protocol)
    answers = results(result_part("t", "first"), result_part("t", "second"), imported)
    body, _ = encoded(protocol, request(user("hi"), calls, answers))
    text = json.dumps(body)
    order = [text.index(word) for word in ("first", '{\\"n\\":1', "second", "kept", "[2]")]
    if protocol == "gemini":
        order = [text.index(word) for word in ("first", "second", "kept", "[2]")]
    assert order == sorted(order)
    assert text.count("You wrote") == 2


@pytest.mark.parametrize("kind", ["", "function_call"])
def test_the_older_dialect_has_sound_arguments_too(kind: str) -> None:
    part = call("t", "{", meta={"type": kind}, protocol="openai_chat")
    body, _ = encoded("openai_chat", request(assistant(part), results(result_part("t", "no"))))
    assert arguments_in(body) == [{}]


# Ids.


@UNHURRIED
@given(
    st.sampled_from([*ID_LIMITS, "short_ids"]),
    st.lists(st.lists(IDS, min_size=1, max_size=3), min_size=1, max_size=3),
)
def test_ids_are_taken_distinct_equal_in_call_and_result_and_stable(
    protocol: str, turns: list[list[str]]
) -> None:
    """Each request of a session that goes on has the ids of the one before."""
    quirks = ("short_ids",) if protocol == "short_ids" else ()
    limit = SHORT_CALL_ID if quirks else ID_LIMITS[protocol]
    protocol = "openai_chat" if quirks else protocol
    messages, before = [user("hi")], list[str]()
    for ids in turns:
        messages.append(assistant(*(call(id_) for id_ in ids)))
        messages.append(results(*(result_part(id_, "x") for id_ in ids)))
        body, _ = encoded(protocol, request(*messages, quirks=quirks))
        outputs, answered = ids_in(body)
        assert outputs == answered
        assert all(limit.pattern.fullmatch(id_) for id_ in outputs)
        assert len(set(outputs)) == len(outputs)
        assert outputs[: len(before)] == before
        before = outputs
    assert len(before) == sum(map(len, turns))


@pytest.mark.parametrize(
    ("protocol", "id_", "stays"),
    [
        ("openai_chat", "c" * 40, True),
        ("openai_chat", "c" * 41, False),
        ("openai_responses", "c" * 64, True),
        ("openai_responses", "c" * 65, False),
        ("anthropic", "functions.seat_map:0", False),
        ("anthropic", "toolu_01-a", True),
        ("ollama", "functions.seat_map:0", True),
    ],
)
def test_an_id_stays_where_its_provider_takes_it(protocol: str, id_: str, stays: bool) -> None:
    body, sent = encoded(protocol, request(assistant(call(id_)), results(result_part(id_, "x"))))
    outputs, answered = ids_in(body)
    assert outputs == answered
    assert (outputs == [id_]) == stays
    assert any("The id of one call was changed" in note for note in sent.notes) != stays


@pytest.mark.parametrize(("protocol", "is_kept"), [("openai_chat", True), ("", False)])
def test_a_server_whose_ids_carry_data_gets_its_own_back(protocol: str, is_kept: bool) -> None:
    id_ = f"call_1__thought__{'c2ln' * 200}"
    part = call(id_, protocol=protocol)
    wanted = request(assistant(part), results(result_part(id_, "x")), quirks=("long_ids",))
    body, _ = encoded("openai_chat", wanted)
    sent_ids, answered = ids_in(body)
    assert sent_ids == answered
    assert (sent_ids == [id_]) == is_kept


# The next request after an answer, by all five protocols.


def next_session(protocol: str, body: bytes, asks: Protocol, *, clean: bool = True) -> Session:
    """The session after an answer with all of its calls denied, and a further prompt; its next
    request goes to a profile of the protocol `asks`."""
    own = next(each for each in PROTOCOLS if each == protocol)
    profile = Profile("test", own, "sim:", model="sim-1")
    log = Log().start(settings(SEATS, profile=profile)).prompt("hi").request(protocol=own)
    events = [event for *_, event in spanned(protocol, body, clean=clean)]
    log.add(*events)
    for wire_call in log.session().turns[0].calls if log.session().turns[0].end else ():
        log.check(wire_call.id)
        denial = text_result("Denied.", is_error=True, kind="denied")
        log.add(CallDecided(wire_call.id, "deny", digest="d" * 64), CallEnded(wire_call.id, denial))
    log.add(RunStopped(), PromptAdded("go on"))
    session = fold("s", log.events)
    assert session.settings is not None
    profile = replace(profile, protocol=asks)
    session.settings = replace(session.settings, profile=profile)
    return session


def next_requests(
    protocol: str, body: bytes, *, clean: bool = True, without: str = ""
) -> Iterator[tuple[Protocol, dict[str, Any]]]:
    """The next request after an answer by each protocol, once its end has taken it."""
    for asks in (each for each in PROTOCOLS if each != without):
        wanted = model_request(next_session(protocol, body, asks, clean=clean), ToolChoice())
        yield asks, accepted(asks, codec(asks).encode(wanted))


def opened(*blocks: dict[str, Any]) -> list[dict[str, Any]]:
    """The beginning of an Anthropic stream: `blocks` are starts and deltas of block 0."""
    start, *deltas = blocks
    return [
        {"type": "message_start", "message": {"id": "m1", "model": "x", "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": start},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
    ]


def gemini_answer(*parts: Any, reason: str = "STOP") -> bytes:
    content = {"role": "model", "parts": list(parts)}
    return sse({"candidates": [{"content": content, "finishReason": reason}]})


def gemini_call(name: str = "seat_map", **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {"hall": "B"}}, **more}


def chat_call(name: str, arguments: str, id_: str = "call_1") -> bytes:
    document = chunk({"tool_calls": [fragment(0, id_, name, arguments)]})
    return sse(document, chunk({}, "tool_calls"), DONE)


def responses_call(arguments: str, **changes: Any) -> bytes:
    item = responses.call(arguments, **{"name": "seat_map", **changes})
    return sse(responses.done(0, item), responses.completed(item))


def ollama_call(name: str, arguments: Any) -> bytes:
    document = {
        "content": "\n",
        "tool_calls": [{"function": {"name": name, "arguments": arguments}}],
    }
    return lines(line(document), line({"content": ""}, done=True, done_reason="stop"))


ANSWERS: list[tuple[str, str, bytes, str]] = [
    ("thinking cut in its signature", "anthropic", sse(*opened(*THINKING)), "CUTSIGNATURE"),
    ("thinking cut by the limit of tokens", "anthropic",
     sse(*opened(*THINKING), {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}),
     "CUTSIGNATURE"),
    ("a text of blanks before a call", "anthropic", message(BLANK, CALLED, reason="tool_use"),
     '"\\n\\n"'),
    ("a text of blanks alone", "anthropic", message(BLANK), '"\\n\\n"'),
    ("a text of blanks before a call", "openai_chat",
     sse(chunk({"content": "\n\n"}), chunk({"tool_calls": [fragment(0, "c", "seat_map", "{}")]}),
         chunk({}, "tool_calls"), DONE), '"\\n\\n"'),
    ("arguments cut by the limit of tokens", "openai_chat",
     chat_call("seat_map", CUT_ARGUMENTS), ""),
    ("arguments that are a list", "openai_chat", chat_call("seat_map", "[1]"), ""),
    ("arguments cut", "anthropic",
     message([CALLED[0], {"type": "input_json_delta", "partial_json": CUT_ARGUMENTS}],
             reason="tool_use"), ""),
    ("arguments cut", "openai_responses", responses_call(CUT_ARGUMENTS), ""),
    ("arguments that are a text", "ollama", ollama_call("seat_map", CUT_ARGUMENTS), ""),
    ("an unknown name with a colon", "gemini", gemini_answer(gemini_call("default_api:seat_map")),
     ""),
    ("a name that is no name", "gemini", gemini_answer(gemini_call("seat map<|x|>")), "<|x|>"),
    ("a name that is no name", "openai_chat", chat_call("seat map<|x|>", "{}"), "<|x|>"),
    ("a name that is no name", "openai_responses", responses_call("{}", name="seat map<|x|>"),
     "<|x|>"),
    ("a name that is no name", "ollama", ollama_call("seat map<|x|>", {}), "<|x|>"),
    ("a name that is no name", "anthropic",
     message([{**CALLED[0], "name": "seat map<|x|>"}], reason="tool_use"), "<|x|>"),
    ("an empty name", "openai_chat", chat_call("", "{}"), ""),
    ("a long id", "openai_chat", chat_call("seat_map", "{}", "c" * 305), "c" * 65),
    ("an id of Kimi's", "openai_chat", chat_call("seat_map", "{}", "functions.seat_map:0"), ""),
    ("a long id", "openai_responses", responses_call("{}", call_id="c" * 305), "c" * 65),
    ("text and call in one part", "gemini", gemini_answer(gemini_call(text="On it.")), ""),
    ("a thought and a call in one part", "gemini",
     gemini_answer(gemini_call(text="Hm.", thought=True, thoughtSignature="c2ln")), ""),
    ("two equal calls without ids", "gemini", gemini_answer(gemini_call(), gemini_call()), ""),
    ("half of a character", "openai_chat", sse(chunk({"content": "a \ud83d"}, "stop"), DONE), ""),
    ("half of a character in arguments", "openai_chat",
     chat_call("seat_map", '{"hall":"\ud83d"}'), ""),
]  # fmt: skip


@pytest.mark.parametrize(("protocol", "body", "gone"), [row[1:] for row in ANSWERS],
          ids=[f"{row[1]}: {row[0]}" for row in ANSWERS])  # fmt: skip
@pytest.mark.parametrize("clean", [True, False])
def test_the_next_request_is_accepted_by_every_protocol(
    protocol: str, body: bytes, gone: str, clean: bool
) -> None:
    """`gone` is what no next request may contain."""
    for asks, sent in next_requests(protocol, body, clean=clean):
        written = json.dumps({**sent, "tools": []})
        strict = asks not in ("ollama", "gemini") or gone != "c" * 65
        if gone and strict and (gone != '"\\n\\n"' or asks == "anthropic"):
            assert gone not in written, asks
        if asks == "gemini":
            for part in (part for content in sent["contents"] for part in content["parts"]):
                assert not {"text", "functionCall"} <= part.keys()


def case_files() -> list[Path]:
    return sorted(CASES.glob("*.*"))


@pytest.mark.skipif(not CASES.is_dir(), reason="No cases: set PLAYGROUND_CASES to their folder.")
def test_the_next_request_after_each_public_case_is_accepted() -> None:
    listed = json.loads((CASES / "expect.json").read_text())
    failures = []
    for name, case in listed.items():
        body = (CASES / case["file"]).read_bytes()
        # llama.cpp signs nothing and takes its thoughts back so; the simulator is Anthropic.
        without = "anthropic" if name == "a12-llama-anthropic" else ""
        try:
            list(next_requests(case["protocol"], body, without=without))
        except Exception as error:
            failures.append(f"{name}: {error!r}")
    assert failures == []


# Histories that no answer leads to, but sessions of others do.


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_blank_prompts_and_results_are_accepted(protocol: Protocol) -> None:
    image = Content("image", media_type="image/png", data="aGk=")
    calls = assistant(call("a"), call("b"), call("c"), call("d"))
    answers = results(
        result_part("a", ""),
        result_part("b", " ", is_error=True),
        result_part("c", is_error=True),
        result_part("d", " ", image),
    )
    prompts = user("\n", "hi"), user(" ")
    for first, then in product(prompts[:1], prompts):
        wanted = request(first, calls, answers, then, tools=(Tool("f"),))
        accepted(protocol, codec(protocol).encode(wanted))


def test_an_answer_to_be_continued_has_no_white_space_at_its_end() -> None:
    ending = assistant(MessagePart("text", "So far \n"))
    body, sent = encoded("anthropic", request(user("hi"), ending, tools=()))
    assert body["messages"][-1]["content"] == [{"type": "text", "text": "So far"}]
    assert "White space at the end of the last answer was left out." in sent.notes
