"""Requests of Gemini: paths, tools, settings, and the exact way back of what it said."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from playground.core.messages import Message, MessagePart, ModelRequest, model_request
from playground.core.reducer import fold
from playground.core.settings import Profile
from playground.core.tools import FREEFORM, Tool, ToolChoice
from playground.protocols.base import join_url
from playground.protocols.gemini.limits import SKIP_VALIDATOR
from playground.protocols.gemini.request import key_header
from playground.protocols.registry import codec
from tests.factories import Log, settings
from tests.protocols import gemini
from tests.protocols.frames import parts_of, spanned, sse
from tests.protocols.requests import (
    IMAGE,
    TOOL,
    assistant,
    call,
    encoded,
    request,
    result_part,
    results,
    user,
)

OLD, NEW = "gemini-2.5-flash", "gemini-3-pro"
WHOLE = "Gemini sends a call's arguments in one piece, not in deltas."

G = Tool("g")

TURN: list[dict[str, Any]] = [
    gemini.text("why", thought=True),
    gemini.text("why not", thought=True, thoughtSignature="1"),
    gemini.text("so"),
    gemini.text(" it is", thoughtSignature="2"),
    gemini.text("", thoughtSignature="3"),
    {"thoughtSignature": "4"},
    {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "5"},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
    {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
    {"somethingNew": [1.5]},
    gemini.call(args={"x": {"y": [1, None]}}, id="a", signature="6"),
    gemini.call(args={}),
    gemini.call("g", newMember=1),
]


def make_request(*messages: Message, model: str = OLD, **changes: Any) -> ModelRequest:
    return replace(request(*messages, **{"tools": (TOOL,), **changes}), model=model)


def body_of(*messages: Message, **changes: Any) -> dict[str, Any]:
    return encoded("gemini", make_request(*messages, **changes))[0]


def encode_messages(*messages: Message, **changes: Any) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = body_of(*messages, **changes)["contents"]
    return results


def notes(*messages: Message, **changes: Any) -> list[str]:
    sent = encoded("gemini", make_request(*messages, **changes))[1]
    return [note for note in sent.notes if note != WHOLE]


def own(kind: str, text: str = "", **meta: Any) -> MessagePart:
    return MessagePart(kind, text, meta=meta, protocol="gemini")


def own_call(name: str = "f", *, id_: str = "", signature: str = "") -> MessagePart:
    meta: dict[str, Any] = {"id": id_} if id_ else {}
    meta |= {"part": {"thoughtSignature": signature}} if signature else {}
    return call(id_ or "call_1_0", "{}", name, meta=meta, protocol="gemini")


def test_the_least() -> None:
    body, sent = encoded("gemini", make_request(tools=(), model="m"))
    assert (sent.method, sent.path) == ("POST", "/v1beta/models/m:streamGenerateContent?alt=sse")
    assert (sent.headers["accept"], sent.expects) == ("text/event-stream",) * 2
    assert body == {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    assert sent.notes == ()


@pytest.mark.parametrize(
    ("model", "stream", "quirks", "path"),
    [
        ("x", False, (), "/v1beta/models/x:generateContent"),
        ("models/x", False, (), "/v1beta/models/x:generateContent"),
        ("tunedModels/x", False, (), "/v1beta/tunedModels/x:generateContent"),
        ("x", False, ("vertex",), "/models/x:generateContent"),
        ("x", True, ("vertex",), "/models/x:streamGenerateContent?alt=sse"),
        ("a b?c#d\ud800", False, (), "/v1beta/models/a%20b%3Fc%23d%3F:generateContent"),
    ],
)
def test_the_model_stands_in_the_path(
    model: str, stream: bool, quirks: tuple[str, ...], path: str
) -> None:
    assert (
        encoded("gemini", make_request(model=model, stream=stream, quirks=quirks))[1].path == path
    )


def test_a_base_url_may_end_in_the_version() -> None:
    path = encoded("gemini", make_request(model="x", stream=False))[1].path
    for base in ("https://g.example", "https://g.example/v1beta/", "https://g.example/v1beta"):
        assert join_url(base, path) == "https://g.example/v1beta/models/x:generateContent"


def test_the_key_travels_in_a_header_of_its_own() -> None:
    assert key_header("k", ()) == {"x-goog-api-key": "k"}
    assert key_header("k", ("vertex",)) == {"authorization": "Bearer k"}


def test_system_tools_and_their_note() -> None:
    body = body_of(system="Be brief.")
    assert body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert body["tools"] == [
        {
            "functionDeclarations": [
                {"name": "f", "description": "Does f.", "parametersJsonSchema": TOOL.parameters}
            ]
        }
    ]
    assert "toolConfig" not in body
    assert encoded("gemini", make_request())[1].notes == (WHOLE,)
    assert encoded("gemini", make_request(stream=False))[1].notes == ()


def test_a_free_form_tool_is_a_function_of_one_text() -> None:
    tool = Tool("w", parameters=FREEFORM, format={"type": "text"})
    declared = body_of(tools=(tool,))["tools"][0]["functionDeclarations"]
    assert declared == [{"name": "w", "parametersJsonSchema": dict(FREEFORM)}]
    assert "free-form" in notes(tools=(tool,))[0]


@pytest.mark.parametrize(
    ("choice", "config", "noted"),
    [
        (ToolChoice(), None, ""),
        (ToolChoice("none"), {"mode": "NONE"}, ""),
        (ToolChoice("required"), {"mode": "ANY"}, ""),
        (ToolChoice("tool", "g"), {"mode": "ANY", "allowedFunctionNames": ["g"]}, ""),
        (
            ToolChoice("required", allowed=("g",)),
            {"mode": "ANY", "allowedFunctionNames": ["g"]},
            "",
        ),
        (
            ToolChoice(allowed=("f",)),
            {"mode": "VALIDATED", "allowedFunctionNames": ["f"]},
            "VALIDATED",
        ),
        (ToolChoice("none", allowed=("f",)), {"mode": "NONE"}, ""),
        (ToolChoice(parallel=False), None, "parallel calls"),
        (ToolChoice("none", parallel=False), {"mode": "NONE"}, ""),
    ],
)
def test_a_tool_choice_goes_as(choice: ToolChoice, config: Any, noted: str) -> None:
    body = body_of(tools=(TOOL, G), choice=choice)
    choice_config = body.get("toolConfig", {}).get("functionCallingConfig")
    assert choice_config == config
    assert len(body["tools"][0]["functionDeclarations"]) == 2
    said_so = notes(tools=(TOOL, G), choice=choice)
    assert [noted in note for note in said_so] == ([True] if noted else [])


def test_strict_is_a_mode_and_nothing_where_it_holds_anyway() -> None:
    strict = Tool("s", strict=True)
    assert body_of(tools=(strict,))["toolConfig"]["functionCallingConfig"] == {"mode": "VALIDATED"}
    assert "strict" in notes(tools=(strict,))[0]
    assert notes(tools=(strict,), choice=ToolChoice("required")) == []


def test_arguments_are_asked_for_piece_by_piece_on_vertex() -> None:
    quirks = ("vertex", "stream_arguments")
    body, sent = encoded("gemini", make_request(quirks=quirks))
    config = body["toolConfig"]["functionCallingConfig"]
    assert config == {"mode": "AUTO", "streamFunctionCallArguments": True}
    assert sent.notes == ()
    assert "toolConfig" not in body_of(quirks=quirks, stream=False)


def test_a_forced_choice_without_tools_is_left_out() -> None:
    for tools in ((), (TOOL,)):
        choice = ToolChoice("required", allowed=())
        assert "toolConfig" not in body_of(tools=tools, choice=choice)
        assert "left out" in notes(tools=tools, choice=choice)[-1]


@pytest.mark.parametrize(
    ("thinking", "old", "new"),
    [
        ("low", {"includeThoughts": True, "thinkingBudget": 1024}, "LOW"),
        ("high", {"includeThoughts": True, "thinkingBudget": 16384}, "HIGH"),
        (2048, {"includeThoughts": True, "thinkingBudget": 2048}, None),
        (0, {"thinkingBudget": 0}, None),
        (-1, {"includeThoughts": True, "thinkingBudget": -1}, None),
        ("adaptive", {"includeThoughts": True, "thinkingBudget": -1}, None),
        ("disabled", {"thinkingBudget": 0}, None),
        (True, {"includeThoughts": True}, None),
        ({"thinkingBudget": 7}, {"thinkingBudget": 7}, None),
        ("banana", None, None),
        (False, None, None),
        (None, None, None),
    ],
)
def test_thinking_is_a_budget_or_a_level(thinking: Any, old: Any, new: str | None) -> None:
    def config(model: str) -> Any:
        body = body_of(model=model, params={"thinking": thinking})
        return body.get("generationConfig", {}).get("thinkingConfig")

    assert config(OLD) == old
    assert config(NEW) == ({"includeThoughts": True, "thinkingLevel": new} if new else old)
    assert len(notes(params={"thinking": thinking})) == (thinking == "banana")


def test_settings_have_their_own_words() -> None:
    params = {"max_tokens": 9, "temperature": 0, "top_p": 0.5, "stop": "x"}
    assert body_of(params=params)["generationConfig"] == {
        "temperature": 0,
        "topP": 0.5,
        "maxOutputTokens": 9,
        "stopSequences": ["x"],
    }


def test_roles_alternate_and_images_stand_in_prompts() -> None:
    image_prompt = Message(
        "user", (MessagePart("image", content=(IMAGE,)), MessagePart("text", "this?"))
    )
    contents = encode_messages(
        image_prompt, assistant(own("text", "yes")), assistant(own("text", "sir")), user("ok")
    )
    image = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    assert contents == [
        {"role": "user", "parts": [image, {"text": "this?"}]},
        {"role": "model", "parts": [{"text": "yes"}, {"text": "sir"}]},
        {"role": "user", "parts": [{"text": "ok"}]},
    ]


def test_results_stand_in_one_content_in_the_order_of_the_calls() -> None:
    contents = encode_messages(
        user("hi"),
        assistant(own_call(id_="a"), own_call("g"), call("call_9", name="f")),
        results(
            result_part("a", '{"t": 1.50}'),
            replace(result_part("call_1_0", "no", is_error=True), name="g"),
            result_part("call_9", "[1]"),
        ),
        user("and?"),
    )
    assert [part.get("functionCall", {}).get("id") for part in contents[1]["parts"]] == [
        *("a", None, None),
    ]
    assert contents[2]["parts"] == [
        {"functionResponse": {"name": "f", "response": {"output": {"t": 1.5}}, "id": "a"}},
        {"functionResponse": {"name": "g", "response": {"error": "no"}}},
        {"functionResponse": {"name": "f", "response": {"output": "[1]"}}},
        {"text": "and?"},
    ]


def test_an_error_without_words_and_an_empty_result() -> None:
    message = assistant(call("a"), call("b"))
    contents = encode_messages(message, results(result_part("a", is_error=True), result_part("b")))
    response_fields = [part["functionResponse"]["response"] for part in contents[1]["parts"]]
    assert response_fields == [{"error": "The tool failed and gave no reason."}, {"output": ""}]


def test_images_in_results_stand_inside_or_beside() -> None:
    history = (
        user("hi"),
        assistant(own_call(signature="s")),
        results(result_part("call_1_0", IMAGE)),
    )
    image = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    (new,) = encode_messages(*history, model=NEW)[2]["parts"]
    assert new["functionResponse"]["parts"] == [image]
    old = encode_messages(*history)[2]["parts"]
    assert "parts" not in old[0]["functionResponse"]
    assert old[1:] == [{"text": "The images that the tools returned:"}, image]
    assert [len(notes(*history, model=model)) for model in (NEW, OLD)] == [0, 1]


# Signatures.


def signatures(contents: list[dict[str, Any]]) -> list[str | None]:
    parts = [part for content in contents for part in content["parts"]]
    return [part.get("thoughtSignature") for part in parts if "functionCall" in part]


@pytest.mark.parametrize(
    ("model", "demanded"),
    [
        ("gemini-2.5-pro", False),
        ("gemini-3-flash", True),
        ("models/gemini-3.5-flash", True),
        ("gemini-12-pro", True),
        ("gemini-flash-latest", True),
        ("gemma-3-27b", False),
    ],
)
def test_calls_from_elsewhere_skip_the_validator(model: str, demanded: bool) -> None:
    history = (
        *(user("hi"), assistant(call("a"), call("b")), results(result_part("a"), result_part("b"))),
        *(assistant(call("c")), results(result_part("c"))),
    )
    wanted_ = [SKIP_VALIDATOR, None, SKIP_VALIDATOR] if demanded else [None] * 3
    assert signatures(encode_messages(*history, model=model)) == wanted_
    assert any(SKIP_VALIDATOR in note for note in notes(*history, model=model)) == demanded


def test_own_signatures_go_back_and_nothing_is_made_up() -> None:
    history = (
        *(user("hi"), assistant(own_call(signature="s"), own_call("g"))),
        results(result_part("call_1_0"), replace(result_part("call_1_0"), name="g")),
    )
    assert signatures(encode_messages(*history, model=NEW)) == ["s", None]
    assert notes(*history, model=NEW) == []


def test_what_came_by_another_protocol_stays_there() -> None:
    foreign = MessagePart("thinking", "why", meta={"part": {"thoughtSignature": "s"}})
    contents = encode_messages(user("hi"), assistant(foreign, MessagePart("text", "so")))
    assert contents[1]["parts"] == [{"text": "so"}]
    assert "thinking parts" in notes(user("hi"), assistant(foreign))[0]


@pytest.mark.parametrize(
    ("name", "goes_as"),
    [("default_api:f.g-1", "default_api:f.g-1"), ("1f", "_1f"), ("a b", "a_b"), ("-f", "_-f")],
)
def test_a_name_begins_with_a_letter(name: str, goes_as: str) -> None:
    part = encode_messages(user("hi"), assistant(call("a", name=name)))[1]["parts"][0]
    assert part["functionCall"]["name"] == goes_as


def test_arguments_that_are_no_object_go_as_an_empty_one() -> None:
    part = encode_messages(user("hi"), assistant(call("a", "[1]")))[1]["parts"][0]
    assert part["functionCall"]["args"] == {}
    assert "not a JSON object" in notes(user("hi"), assistant(call("a", "[1]")))[0]


# What Gemini said goes back as it came, part by part.


def sent_again(body: bytes, model: str = NEW) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The contents after an answer of `body` whose calls were all answered, and the notes."""
    log = Log().start(settings(profile=Profile("test", "gemini", "sim:", model=model)))
    log.prompt("hi").request(protocol="gemini", model=model)
    events = [event for _, _, event in spanned("gemini", body)]
    log.add(*events)
    for index, (kind, _) in enumerate(parts_of(events)):
        if kind == "call":
            log.check(f"1.{index}").run(f"1.{index}")
    sent = codec("gemini").encode(model_request(fold("s", log.events), ToolChoice()))
    contents: list[dict[str, Any]] = json.loads(sent.body)["contents"]
    return contents, sent.notes


@pytest.mark.parametrize("streamed", [True, False])
def test_a_turn_comes_back_part_by_part(streamed: bool) -> None:
    whole_events = gemini.event(*TURN, reason="STOP")
    events = [*(gemini.event(part) for part in TURN), gemini.event(reason="STOP")]
    body = sse(*events, end="\r\n") if streamed else json.dumps(whole_events, indent=2).encode()
    contents, outputs = sent_again(body)
    assert contents[1] == {"role": "model", "parts": TURN}
    answered = [part["functionResponse"] for part in contents[2]["parts"]]
    assert [(item["name"], item.get("id")) for item in answered] == [
        *(("f", "a"), ("f", None), ("g", None)),
    ]
    assert not [note for note in outputs if note != WHOLE]


def test_a_streamed_call_goes_back_whole_with_its_signature() -> None:
    body = sse(
        gemini.event(gemini.call(willContinue=True, id="a", signature="s")),
        gemini.event(gemini.growing(gemini.partial_arg("$.x[0]", stringValue="é"))),
        gemini.event(gemini.growing(goes_on=False), reason="STOP"),
    )
    contents, _ = sent_again(body)
    assert contents[1]["parts"] == [gemini.call(args={"x": ["é"]}, id="a", signature="s")]


def test_what_is_opaque_and_was_cut_or_came_from_another_model_is_left_out() -> None:
    meta = {"part": {"executableCode": {"code": "x"}}, "verbatim": True}
    code = MessagePart("other", meta=meta, protocol="gemini")
    signed = {"part": {"thoughtSignature": "s"}}
    text = MessagePart("text", "so", meta=signed, protocol="gemini")
    cases = [
        (replace(code, complete=False), "other parts that were incomplete."),
        (replace(code, protocol="", origin="model"), "other parts that came from another model."),
    ]
    for part, note in cases:
        contents = encode_messages(user("hi"), assistant(part, text))
        assert contents[1]["parts"] == [{"text": "so", "thoughtSignature": "s"}]
        assert note in notes(user("hi"), assistant(part))[0]
    moved = replace(text, protocol="", origin="model")
    assert encode_messages(user("hi"), assistant(moved))[1]["parts"] == [{"text": "so"}]
