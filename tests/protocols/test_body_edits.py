"""Results that are edited in a request, and answers of the provider that are put back into it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.core.messages import Message, MessagePart, ModelRequest
from playground.core.tools import Content
from playground.protocols.body_edits import (
    ProviderAnswer,
    edit_results,
    replace_answer,
    result_keys,
)
from playground.protocols.history_form import ResultEdit
from playground.protocols.raw_json import JsonText
from playground.protocols.registry import CODECS, REQUEST_READERS
from playground.protocols.request import RequestItem, RequestNotes, ResultMessage
from playground.protocols.server import BadRequest, ModelReply, ReplyBlock, call
from tests.protocols.answers import PROTOCOLS
from tests.protocols.requests import TOOL, assistant, request, results, user
from tests.protocols.requests import call as call_part
from tests.protocols.test_summary import RECORDINGS, WITHOUT
from tests.simulator.talking import Talk, accepted, profile

MEMBERS = {"gemini": "contents", "openai_responses": "input"}
"""The list of what was said, where it is not `messages`."""

EDITED: Mapping[str, set[tuple[str, ...]]] = {
    "anthropic": {("content",), ("is_error",)},
    "openai_chat": {("content",)},
    "openai_responses": {("output",)},
    "gemini": {("functionResponse", "response"), ("functionResponse", "parts")},
    "ollama": {("content",), ("images",)},
}
"""What of a result may be other than it was."""

EDIT = ResultEdit('another "one" \u2028 é\ud800')
EDITS = (EDIT, ResultEdit("no", is_error=True), ResultEdit(""), ResultEdit('{"a": 1e400}'))

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
TURNS = st.lists(st.tuples(WORDS, st.booleans()), min_size=1, max_size=3)

MODELS = {"gemini": "gemini-3-simulated"}

SEALED = {
    "anthropic": '"signature": "',
    "gemini": '"thoughtSignature": "',
    "openai_chat": '"role": "assistant"',  # it takes no reasoning back
    "openai_responses": '"encrypted_content": "',
}
"""What of the model's thinking goes back."""

CACHED = {"cache_control": {"type": "ephemeral", "ttl": "5m"}}
MARKED = {"type": "text", "text": "Hi.", **CACHED}
OTHER = {**MARKED, "cache_control": {"type": "ephemeral"}}


RESULT: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "anthropic": lambda text: {
        "messages": [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f"}]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c"} | in_pieces(text)],
            },
        ]
    },
    "openai_chat": lambda text: {
        "messages": [{"role": "tool", "tool_call_id": "c", "name": "f", **in_pieces(text)}]
    },
    "openai_responses": lambda text: {
        "input": [
            {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "i"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": text, "status": "x"},
        ]
    },
    "ollama": lambda text: {
        "messages": [{"role": "tool", "tool_name": "f", "content": text, "images": ["secret"]}]
    },
}


def items_of(protocol: str, body: bytes) -> list[RequestItem]:
    value = json.loads(body.decode("utf-8", "surrogateescape"))
    return list(REQUEST_READERS[protocol].items(value, RequestNotes(protocol)))


def results_of(protocol: str, body: bytes) -> list[ResultMessage]:
    return [item for item in items_of(protocol, body) if isinstance(item, ResultMessage)]


def text_of(result: ResultMessage) -> str:
    return "".join(piece.text for piece in result.content)


def says(protocol: str, result: ResultMessage, edit: ResultEdit) -> bool:
    """Whether it reads as the edit has it: in the words where the protocol has none for errors."""
    text = text_of(result)
    if protocol == "gemini" and not edit.is_error and edit.text[:1] == "{":
        return bool(json.loads(text) == json.loads(edit.text))
    if protocol in ("anthropic", "gemini"):
        wanted = edit.text or ("The tool failed and gave no reason." if edit.is_error else "")
        return (text, result.is_error) == (wanted, edit.is_error)
    return text.endswith(edit.text) and (not edit.is_error or text.startswith("Error"))


def check_edited(protocol: str, before: bytes, after: bytes, at: tuple[str | int, ...]) -> None:
    """But for the content of the result at `at` every byte is the one that came."""
    old, new = (body.decode("utf-8", "surrogateescape") for body in (before, after))
    (start, end), (_, new_end) = JsonText(old).span(*at), JsonText(new).span(*at)
    assert new[:start] == old[:start]
    assert new[new_end:] == old[end:]
    assert _others(protocol, old, at) == _others(protocol, new, at)


def _others(protocol: str, text: str, at: tuple[str | int, ...]) -> dict[tuple[str, ...], str]:
    """The members of a result that no edit changes, to the letter."""
    quoted, value = JsonText(text), json.loads(JsonText(text).member(*at))
    inner: list[tuple[str, ...]] = []
    if protocol == "gemini":
        inner = [("functionResponse", name) for name in value["functionResponse"]]
    else:
        inner = [(name,) for name in value]
    return {path: quoted.member(*at, *path) for path in inner if path not in EDITED[protocol]}


def three_results(protocol: str, *, ids: bool = True) -> bytes:
    parts = [
        MessagePart(
            "result",
            text="",
            name="f",
            call_id=f"call_{n}",
            content=(Content(text=f"result {n}"),),
            is_error=n == 1,
        )
        for n in range(3)
    ]
    calls = [call_part(f"call_{n}", f'{{"x": {n}}}') for n in range(3)]
    model_request = request(user("Go."), assistant(*calls), results(*parts), user("And now?"))
    body = CODECS[protocol].encode(model_request).body
    return body if ids else without_ids(protocol, body)


def without_ids(protocol: str, body: bytes) -> bytes:
    value = json.loads(body)
    for message in value.get("messages", ()):
        message.pop("tool_call_id", None)
        for entry in message.get("tool_calls", ()):
            entry.pop("id", None)
    return json.dumps(value).encode()


# Results that are edited.


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_one_of_three_is_edited(protocol: str) -> None:
    for ids in (True, False):
        body = three_results(protocol, ids=ids)
        placed = [result.at for result in results_of(protocol, body)]
        keys = result_keys(protocol, json.loads(body))
        assert list(keys) == placed
        if ids and protocol != "gemini":  # the encoder writes only ids that Gemini gave
            assert list(keys.values()) == ["call_0", "call_1", "call_2"]
        for nth, at in enumerate(placed):
            for edit in (*EDITS, ResultEdit("", is_error=True)):
                edited = edit_results(protocol, body, {keys[at]: edit})
                read = results_of(protocol, edited)
                if edit.text[:2] != '{"':
                    assert says(protocol, read[nth], edit), (ids, nth, edit)
                check_edited(protocol, body, edited, at)
                others = results_of(protocol, body)
                assert [*read[:nth], *read[nth + 1 :]] == [*others[:nth], *others[nth + 1 :]]
        all_edited = edit_results(protocol, body, dict.fromkeys(keys.values(), EDIT))
        assert all(says(protocol, result, EDIT) for result in results_of(protocol, all_edited))
        assert not ids or accepted_body(protocol, all_edited)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_without_the_id_nothing_changes(protocol: str) -> None:
    body = b'\xef\xbb\xbf {"x": 1,"x" :2}'
    odd = [b"", b"no JSON", b"[1]", b'{"messages": 3}', b'{"messages"', b"[" * 5000, body]
    for sent in (three_results(protocol), *odd):
        assert edit_results(protocol, sent, {"another": EDIT}) is sent
        assert edit_results(protocol, sent, {}) is sent


def in_pieces(text: str) -> dict[str, Any]:
    pieces = [
        {"type": "text", "text": text},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        {"type": "text", "text": "secret", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ]
    return {"content": pieces, "cache_control": {"type": "ephemeral"}, "is_error": True, "x": [1]}


@pytest.mark.parametrize("protocol", RESULT)
def test_all_that_a_result_says_is_replaced_and_all_else_stays(protocol: str) -> None:
    body = json.dumps(RESULT[protocol]("secret")).encode()
    [(at, key)] = result_keys(protocol, json.loads(body)).items()
    edited = edit_results(protocol, body, {key: ResultEdit("fine")})
    assert b"secret" not in edited
    assert b"aGk=" not in edited
    for mark in (b'"x": [1]', b'"cache_control": {"type": "ephemeral"}', b'"status": "x"'):
        assert (mark in edited) == (mark in body)
    assert (b'"ttl":"1h"' in edited) == (b'"ttl": "1h"' in body)
    assert text_of(results_of(protocol, edited)[0]) == "fine"
    check_edited(protocol, body, edited, at)


def test_names_of_gemini_in_either_case_and_images_in_results() -> None:
    for name in ("functionResponse", "function_response"):
        response_fields = {"name": "f", "response": {"output": "secret"}, "scheduling": "S"}
        image = [{"inlineData": {"mimeType": "image/png", "data": "c2VjcmV0"}}]
        part = {name: {**response_fields, "parts": image}, "other": 1}
        body = json.dumps({"contents": [{"parts": [{"text": "a"}, part]}]}).encode()
        [key] = result_keys("gemini", json.loads(body)).values()
        part = {name: {**response_fields, "response": {"error": "no"}}, "other": 1}
        wanted = {"contents": [{"parts": [{"text": "a"}, part]}]}
        assert json.loads(edit_results("gemini", body, {key: ResultEdit("no", True)})) == wanted
        exact = edit_results("gemini", body, {key: ResultEdit('{"n": 1.50}')})
        assert b'{"output":{"n": 1.50}}' in exact
        half = edit_results("gemini", body, {key: ResultEdit('{"n": "\ud800"}')})
        assert b'{"output":"{' in half  # no object of strict JSON


def test_bytes_that_are_no_text_stay() -> None:
    body = three_results("anthropic").replace(b"result 1", b"result \xff\xed\xa0\x80")
    edited = edit_results("anthropic", body, {"call_2": ResultEdit("another")})
    assert edited == body.replace(b"result 2", b"another")


def test_one_id_for_several_calls() -> None:
    """Some servers count the calls of each answer from 0."""
    turns = [(assistant(call_part("0")), results(result_part(f"r{n}"))) for n in range(3)]
    messages = [message for turn in turns for message in turn]
    model_request = request(user("Go."), *messages)
    value = json.loads(CODECS["ollama"].encode(model_request).body)
    for message in value["messages"]:  # as the client has them
        for built in message.get("tool_calls", ()):
            built["id"] = "0"
        if message["role"] == "tool":
            message["tool_call_id"] = "0"
    assert list(result_keys("ollama", value).values()) == ["0", "0~2", "0~3"]
    edited = edit_results("ollama", json.dumps(value).encode(), {"0": EDIT})
    assert [text_of(result) for result in results_of("ollama", edited)] == [EDIT.text, "r1", "r2"]
    twice = three_results("anthropic").replace(b'"tool_use_id":"call_1"', b'"tool_use_id":"call_0"')
    edited = edit_results("anthropic", twice, {"call_0": EDIT})
    texts = [text_of(result) for result in results_of("anthropic", edited)]
    assert texts == [EDIT.text, EDIT.text, "result 2"]


def result_part(text: str) -> MessagePart:
    return MessagePart("result", "", "f", "0", (Content(text=text),))


@pytest.mark.parametrize("protocol", ["gemini", "ollama"])
def test_a_key_without_an_id_stays_where_the_agent_shortens_its_history(protocol: str) -> None:
    value = json.loads(three_results(protocol, ids=False))
    keys = set(result_keys(protocol, value).values())
    first = [user("Go."), assistant(call_part("a", '{"x": 9}')), results(result_part("r"))]
    longer = json.loads(CODECS[protocol].encode(request(*first, user("On."))).body)
    longer = json.loads(without_ids(protocol, json.dumps(longer).encode()))
    member = MEMBERS.get(protocol, "messages")
    value[member] = longer[member] + value[member]
    assert keys < set(result_keys(protocol, value).values())


@pytest.mark.parametrize("protocol", ["gemini", "ollama"])
def test_a_result_is_not_that_of_a_call_from_before_a_prompt(protocol: str) -> None:
    turn = assistant(call_part("b", '{"x": 2}')), results(result_part("r"))
    alone, stopped = (
        request(user("Go."), *before, *turn)
        for before in ([], [assistant(call_part("a", '{"x": 1}')), user("Stop.")])
    )
    bodies = (CODECS[protocol].encode(asked).body for asked in (alone, stopped))
    values = (json.loads(without_ids(protocol, body)) for body in bodies)
    [key], [same] = (result_keys(protocol, value).values() for value in values)
    assert key == same


# Any body, however it is written.


def scrambled(value: Any, chance: Random) -> str:
    """The JSON of `value` with random blanks and escapes, and other values before some members
    under the same name, which do not count."""
    gap = chance.choice(("", "", " ", "\n\t", "\r\n  "))
    match value:
        case dict():
            members: list[tuple[str, Any]] = []
            for name, item in value.items():
                members += [(name, [None, {}])] * (not chance.randrange(9))
                members.append((name, item))
            inner = (f"{_text(k, chance)}{gap}:{scrambled(v, chance)}" for k, v in members)
            return f"{{{gap}{f'{gap},'.join(inner)}{gap}}}"
        case list():
            return f"[{gap}{f',{gap}'.join(scrambled(item, chance) for item in value)}{gap}]"
        case str():
            return _text(value, chance)
    return json.dumps(value)


def _text(text: str, chance: Random) -> str:
    letters = (
        f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 and not chance.randrange(5) else letter
        for letter in text
    )
    plain = (json.dumps(x, ensure_ascii=False)[1:-1] if len(x) == 1 else x for x in letters)
    return f'"{"".join(plain)}"'


def conversation(turns: Sequence[Sequence[tuple[str, bool]]]) -> ModelRequest:
    messages = [user("Go.")]
    for number, turn in enumerate(turns):
        ids = [f"call_{number}_{nth}" for nth in range(len(turn))]
        messages.append(assistant(MessagePart("text", "I look."), *map(call_part, ids)))
        parts = [
            MessagePart(
                "result",
                text="",
                name="f",
                call_id=id_,
                content=(Content(text=text),),
                is_error=failed,
            )
            for id_, (text, failed) in zip(ids, turn, strict=True)
        ]
        messages.append(results(*parts))
    return request(*messages)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(max_examples=settings().max_examples // 3)
@given(turns=st.lists(TURNS, max_size=4), text=WORDS, failed=st.booleans(), seed=st.integers(0, 99))
def test_whatever_is_not_edited_keeps_its_bytes(
    protocol: str, turns: list[list[tuple[str, bool]]], text: str, failed: bool, seed: int
) -> None:
    value = json.loads(CODECS[protocol].encode(conversation(turns)).body)
    check_any(protocol, value, ResultEdit(text, failed), Random(seed))


def check_any(protocol: str, value: Any, edit: ResultEdit, chance: Random) -> int:
    body = scrambled(value, chance).encode()
    assert json.loads(body) == value
    keys = result_keys(protocol, value)
    for at, key in keys.items():
        edited = edit_results(protocol, body, {key: edit})
        check_edited(protocol, body, edited, at)
        read = next(result for result in results_of(protocol, edited) if result.at == at)
        assert edit.text[:1] == "{" or says(protocol, read, edit)
        assert result_keys(protocol, json.loads(edited)) == keys
        assert edit_results(protocol, edited, {key: edit}) == edited
    return len(keys)


def recorded_requests() -> Iterator[tuple[str, Any]]:
    for folder in RECORDINGS:
        path: Path = folder / "request.json"
        body = json.loads(path.read_text("utf-8"))["body"]
        if isinstance(body, dict):
            yield json.loads((folder / "meta.json").read_text("utf-8"))["protocol"], body


def test_results_of_recorded_requests() -> None:
    several = list(recorded_requests())
    if not several:
        pytest.skip(WITHOUT)
    edited_bodies = [
        check_any(protocol, body, EDIT, Random(1))
        for protocol, body in several
        if result_keys(protocol, body)
    ]
    assert sum(edited_bodies) >= 8


# Answers of the provider that are put back.


def talk_of(protocol: str, model: str = "") -> Talk:
    model = model or MODELS.get(protocol, "simulator")
    return Talk(protocol, profile=profile(protocol, model), tools=(TOOL,), stream=False)


def think(text: str) -> ReplyBlock:
    return ReplyBlock("thinking", text)


def say(text: str) -> ReplyBlock:
    return ReplyBlock("text", text)


def do(x: int) -> ReplyBlock:
    return call("f", {"x": x})


def accepted_body(protocol: str, body: bytes, model: str = "") -> bool:
    """BadRequest where the strict end refuses it."""
    sent = CODECS[protocol].encode(request(user("hi")))
    path = sent.path.replace("models/m:", f"models/{model or MODELS.get(protocol, 'm')}:")
    return bool(accepted(protocol, replace(sent, body=body, path=path)))


def is_model(element: Mapping[str, Any]) -> bool:
    kinds = ("reasoning", "function_call", "custom_tool_call")
    return element.get("role") in ("assistant", "model") or element.get("type") in kinds


def answers_in(protocol: str, body: bytes) -> list[list[int]]:
    """The places of the elements of each answer."""
    runs: list[list[int]] = []
    elements = json.loads(body)[MEMBERS.get(protocol, "messages")]
    for place, element in enumerate(elements):
        if is_model(element):
            follows = runs and protocol == "openai_responses" and runs[-1][-1] == place - 1
            runs[-1 if follows else len(runs) :] = [[*runs[-1], place] if follows else [place]]
    return runs


def content_of(protocol: str, body: bytes, places: Sequence[int]) -> bytes:
    quoted = JsonText(body.decode())
    member = MEMBERS.get(protocol, "messages")
    raws = [quoted.member(member, place) for place in places]
    return (f"[{','.join(raws)}]" if protocol == "openai_responses" else raws[0]).encode()


def going_on(talk: Talk) -> ModelRequest:
    """The next request, in which the user has said something more."""
    model_request = talk.request()
    return replace(model_request, messages=(*model_request.messages, user("And now?")))


def encode_body(protocol: str, model_request: ModelRequest, messages: Sequence[Message]) -> bytes:
    return CODECS[protocol].encode(replace(model_request, messages=tuple(messages))).body


def gave(protocol: str, truth: bytes, *given: Sequence[ResultEdit | None]) -> list[ProviderAnswer]:
    """The answers of the conversation as it was, with what was answered here."""
    runs = answers_in(protocol, truth)
    return [
        ProviderAnswer(content_of(protocol, truth, places), edits)
        for places, edits in zip(runs, given, strict=False)
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_absorbed_calls_are_put_back(protocol: str) -> None:
    """Both calls of the first answer were answered here; the agent saw one answer with a call, or
    without any, and its words went on behind it."""
    for last in ([do(3)], []):
        talk = talk_of(protocol)
        talk.prompt("Go.")
        talk.answer(ModelReply((think("Hm."), say("I look."), do(1), do(2)), "calls"))
        talk.results(["one", None])
        talk.answer(ModelReply((think("Well."), say("I see."), *last), "calls" if last else "stop"))
        if last:
            talk.results(["three"])
        model_request = going_on(talk)
        truth = encode_body(protocol, model_request, model_request.messages)
        prompt, before, _, after, *rest = model_request.messages
        passed = [part for part in before.parts if part.kind != "call"]
        passed += [part for part in after.parts if part.kind != "thinking"]
        copy = encode_body(
            protocol, model_request, [prompt, Message("assistant", tuple(passed)), *rest]
        )
        assert json.dumps(json.loads(truth)).count(SEALED.get(protocol, '"thinking": "')) >= 2
        answers = gave(protocol, truth, [ResultEdit("one"), ResultEdit("No.", is_error=True)], [])
        [at] = answers_in(protocol, copy)
        restored = replace_answer(protocol, copy, at, answers)
        assert items_of(protocol, restored) == items_of(protocol, truth)
        assert json.loads(restored) == json.loads(truth)
        assert accepted_body(protocol, restored)
        assert items_of(protocol, copy) != items_of(protocol, truth)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_results_of_here_stand_with_those_of_the_agent(protocol: str) -> None:
    """Of three calls the agent ran the middle one, or that and the last one."""
    first_edit, last_edit = ResultEdit("one"), ResultEdit("three")
    cases = [
        ((first_edit, None, last_edit), [1]),
        ((first_edit,), [1, 2]),
        ((None, None, last_edit), [0, 1]),
    ]
    for here, own in cases:
        talk = talk_of(protocol)
        talk.prompt("Go.")
        talk.answer(ModelReply((think("Hm."), say("I look."), do(1), do(2), do(3)), "calls"))
        talk.results(["one", "two", "three"])
        model_request = going_on(talk)
        truth = encode_body(protocol, model_request, model_request.messages)
        first, answer, result, *rest = model_request.messages
        calls = [part for part in answer.parts if part.kind == "call"]
        parts = [p for p in answer.parts if p.kind != "call" or calls.index(p) in own]
        copy = encode_body(
            protocol,
            model_request,
            [
                first,
                Message("assistant", tuple(parts)),
                results(*(result.parts[n] for n in own)),
                *rest,
            ],
        )
        [at] = answers_in(protocol, copy)
        restored = replace_answer(protocol, copy, at, gave(protocol, truth, here))
        assert items_of(protocol, restored) == items_of(protocol, truth), here
        assert accepted_body(protocol, restored)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(seed=st.integers(0, 999))
def test_all_beside_the_answer_keeps_its_bytes(protocol: str, seed: int) -> None:
    value = json.loads(CODECS[protocol].encode(conversation([[("a", False)]] * 3)).body)
    body = scrambled(value, Random(seed)).encode()
    at = answers_in(protocol, body)[1]
    content = content_of(protocol, body, at)
    assert json.loads(replace_answer(protocol, body, at, [ProviderAnswer(content)])) == value
    member = MEMBERS.get(protocol, "messages")
    restored = replace_answer(
        protocol, body, at, [ProviderAnswer(content, [ResultEdit("new")]), ProviderAnswer(content)]
    )
    start, _ = JsonText(body.decode()).span(member, at[0])
    _, end = JsonText(body.decode()).span(member, at[-1])
    assert restored.startswith(body.decode()[:start].encode())
    assert restored.endswith(body.decode()[end:].encode())
    assert [text_of(result) for result in results_of(protocol, restored)] == ["a", "new", "a", "a"]


@pytest.mark.parametrize("model", ["gemini-2.5-simulated", "gemini-3-simulated"])
def test_ids_that_the_agent_made_up_become_the_providers(model: str) -> None:
    """Gemini CLI gives each call an id of its own, and its results that id."""
    for here, own in (((ResultEdit("one"), None), [1]), ((), [0, 1])):
        talk = talk_of("gemini", model)
        talk.prompt("Go.")
        talk.answer(ModelReply((say("I look."), do(1), do(2)), "calls"))
        talk.results(["one", "two"])
        model_request = talk.request()
        truth = encode_body("gemini", model_request, model_request.messages)
        value = json.loads(truth)
        _, answer, result = value["contents"]
        calls = [part for part in answer["parts"] if "functionCall" in part]
        for nth, (part, outcome) in enumerate(zip(calls, result["parts"], strict=True)):
            part["functionCall"]["id"] = outcome["functionResponse"]["id"] = f"made_{nth}"
        answer["parts"] = [p for p in answer["parts"] if p not in calls or calls.index(p) in own]
        result["parts"] = [result["parts"][n] for n in own]
        copy = json.dumps(value).encode()
        restored = replace_answer("gemini", copy, [1], gave("gemini", truth, here))
        assert items_of("gemini", restored) == items_of("gemini", truth)
        assert accepted_body("gemini", restored, model)
        if "2.5" in model:
            assert b'"id"' not in restored


def anthropic_body(*messages: Any) -> bytes:
    return json.dumps({"model": "m", "max_tokens": 9, "messages": messages}, indent=1).encode()


def test_marks_of_the_cache_stay_where_the_agent_set_them() -> None:
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    provider = [{"type": "text", "text": "Well."}, {"type": "redacted_thinking", "data": "d"}]
    first = ProviderAnswer(
        json.dumps({"role": "assistant", "content": [use]}).encode(), [ResultEdit("r")]
    )
    copied = {"role": "assistant", "content": [{"type": "text", "text": "Well.", **CACHED}]}
    body = anthropic_body(
        {"role": "user", "content": "Go."}, copied, {"role": "user", "content": "On."}
    )
    contents: list[Any] = [provider, "Well."]
    for content in contents:
        second = ProviderAnswer(json.dumps({"role": "assistant", "content": content}).encode())
        messages = json.loads(replace_answer("anthropic", body, [1], [first, second]))["messages"]
        assert [message["role"] for message in messages] == [*("user", "assistant") * 2, "user"]
        assert messages[3]["content"][0] == {"type": "text", "text": "Well.", **CACHED}
        assert [block.get("cache_control") for block in messages[1]["content"]] == [None]


@pytest.mark.parametrize(
    ("marked", "content", "wanted"),
    [
        ({"content": "Hi.", **CACHED}, "Hi.", {"content": "Hi.", **CACHED}),
        ({"content": "Hi.", **CACHED}, None, {"content": None, **CACHED}),
        ({"content": [MARKED]}, "Hi.", {"content": [MARKED]}),
        ({"content": [MARKED]}, [{"type": "text", "text": "Hi."}], {"content": [MARKED]}),
        ({"content": [MARKED]}, [MARKED], {"content": [MARKED]}),
        ({"content": [MARKED]}, [OTHER], {"content": [OTHER]}),
        ({"content": [MARKED]}, None, {"content": None}),
    ],
)
def test_marks_of_chat_completions(marked: Any, content: Any, wanted: Any) -> None:
    body = json.dumps({"messages": [{"role": "assistant", **marked}]}).encode()
    answer = ProviderAnswer(json.dumps({"role": "assistant", "content": content}).encode())
    [message] = json.loads(replace_answer("openai_chat", body, [0], [answer]))["messages"]
    assert message == {"role": "assistant", **wanted}


def test_an_answer_whose_items_are_apart() -> None:
    """Some agents send each call with its output behind it."""
    outputs = [
        {"type": "function_call_output", "call_id": id_, "output": id_} for id_ in ("a", "b", "c")
    ]
    calls = [
        {"type": "function_call", "call_id": id_, "name": "f", "arguments": "{}"} for id_ in "abc"
    ]
    calls[1] = {"type": "custom_tool_call", "call_id": "b", "name": "g", "input": "i"}
    outputs[1]["type"] = "custom_tool_call_output"
    go, on = ({"role": "user", "content": text} for text in ("Go.", "On."))
    body = json.dumps({"input": [go, calls[0], outputs[0], calls[2], outputs[2], on]}).encode()
    for own, wanted in ((ResultEdit("b"), [*calls, *outputs]), (None, [*calls, outputs[0]])):
        answer = ProviderAnswer(json.dumps(calls).encode(), [None, own])
        restored = json.loads(replace_answer("openai_responses", body, [1, 3], [answer]))
        assert restored["input"] == [go, *wanted, *([] if own else [outputs[2]]), on]


def test_results_go_first_in_the_message_of_the_user_that_follows() -> None:
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    answer = ProviderAnswer(
        json.dumps({"role": "assistant", "content": [use]}).encode(), [ResultEdit("r", True)]
    )
    document = {"type": "tool_result", "tool_use_id": "t", "content": "r", "is_error": True}
    go, copied = {"role": "user", "content": "Go."}, {"role": "assistant", "content": "No."}
    text = {"type": "text", "text": "On.", **CACHED}
    system = {"role": "system", "content": "Be brief."}
    for follows, wanted in (
        ([{"role": "user", "content": "On."}], [document, {"type": "text", "text": "On."}]),
        ([{"role": "user", "content": [text]}], [document, text]),
        ([system, {"role": "user", "content": [text, text]}], [document, text, text]),
        ([{"role": "user", "content": []}], [document]),
        ([{"role": "user"}], [document]),
        ([], [document]),
        ([{"role": "assistant", "content": "Hm."}], [document]),
    ):
        body = anthropic_body(go, copied, *follows)
        messages = json.loads(replace_answer("anthropic", body, [1], [answer]))["messages"]
        users = [message for message in messages[1:] if message["role"] == "user"]
        assert [message["content"] for message in users] == [wanted]


def test_what_is_put_back_is_written_like_what_is_around_it() -> None:
    text = '{"messages": [\n {"role": "assistant", "content": "No."},\n {"role": "user", '
    text += '"content": [ {"a": 1} ,  {"b": 2}\t]}\n]}'
    use = b'{"role": "assistant", "content": [{"type": "tool_use", "id": "t", "input": 1.0}]}'
    answers = [ProviderAnswer(use, [ResultEdit("r")])] * 2
    restored = replace_answer("anthropic", text.encode(), [0], answers).decode()
    output = '{"type":"tool_result","tool_use_id":"t","content":"r"}'
    assert restored == (
        f'{{"messages": [\n {use.decode()},\n {{"role":"user","content":[{output}]}},\n '
        f'{use.decode()},\n {{"role": "user", '
        f'"content": [ {output} ,  {{"a": 1}} ,  {{"b": 2}}\t]}}'
        "\n]}"
    )


def test_what_cannot_be_put_back_is_refused() -> None:
    body = three_results("anthropic")
    content = content_of("anthropic", body, answers_in("anthropic", body)[0])
    answer = ProviderAnswer(content)
    for sent, at, answers in (
        (b"no JSON", [0], [answer]),
        (body, [], [answer]),
        (body, [9], [answer]),
        (body, [1], []),
        (body, [1], [answer, answer]),  # calls of the first without results
        (body, [1], [ProviderAnswer(b"no JSON")]),
        (body, [1], [ProviderAnswer(b"[]")]),
        (body, [1], [ProviderAnswer(b'["a"]')]),
    ):
        with pytest.raises(ValueError, match=r"answer|JSON|Expecting"):
            replace_answer("anthropic", sent, at, answers)


# That the strict ends would refuse what is not put back as it has to be.


def without_signature(contents: list[Any]) -> None:
    for content in contents:
        for part in content["parts"]:
            part.pop("thoughtSignature", None)


def results_last(messages: list[Any]) -> None:
    messages[2]["content"].insert(0, {"type": "text", "text": "Here:"})


def reasoning_alone(items: list[Any]) -> None:
    del items[2:5]


@pytest.mark.parametrize(
    ("protocol", "spoil"),
    [
        ("gemini", without_signature),
        ("anthropic", results_last),
        ("openai_responses", reasoning_alone),
    ],
)
def test_the_strict_ends_see_the_difference(
    protocol: str, spoil: Callable[[list[Any]], None]
) -> None:
    talk = talk_of(protocol)
    talk.prompt("Go.")
    talk.answer(ModelReply((think("Hm."), do(1)), "calls"))
    talk.results(["one"])
    body = talk.ask()[0].body
    value = json.loads(body)
    assert accepted_body(protocol, body)
    spoil(value[MEMBERS.get(protocol, "messages")])
    with pytest.raises(BadRequest):
        accepted_body(protocol, json.dumps(value).encode())
