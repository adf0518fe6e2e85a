"""Requests that people bring, in whatever form: what is taken of them, and what is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.core.messages import model_request
from playground.core.session import Prompt
from playground.core.settings import Profile
from playground.core.tools import ToolChoice
from playground.exchange.requests_import import ImportedRequest, read_requests, session_from_request
from playground.protocols.registry import CODECS
from tests.exchange.hostile import HOSTILE
from tests.tables import rest_slow

TOOL = {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Look"}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "seen"},
    ],
    "tools": [{"type": "function", "function": TOOL}],
    "tool_choice": {"type": "function", "function": {"name": "look"}},
    "parallel_tool_calls": False,
    "seed": 7,
}
CLAUDE: dict[str, Any] = {
    "model": "c",
    "max_tokens": 9,
    "system": [{"type": "text", "text": "Brief.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": "Look"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True},
                {"type": "text", "text": "And now?"},
            ],
        },
    ],
    "tools": [{"name": "look", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "any"},
}
OPENAI = Profile("openai", "openai_chat", "https://api.openai.com/v1")


@pytest.mark.parametrize(
    ("body", "note"),
    [
        ({"type": "web_search"},
            "The tool web_search was left out: A tool of the type 'web_search' is run by its "
            "provider, so it cannot be imported."
        ),
        ({"type": "local_shell"}, "is run by the client"),
        ({"type": "teleport"}, "its type 'teleport' is unknown"),
    ],
)  # fmt: skip
def test_a_tool_without_a_schema_is_left_out_with_who_runs_it(
    body: dict[str, Any], note: str
) -> None:
    responses = Profile("r", "openai_responses", "https://api.openai.com/v1")
    text = json.dumps({"model": "m", "input": "Hi", "tools": [{"type": "function", **TOOL}, body]})
    (request,) = read_requests(text).requests
    session = session_from_request(request, responses, "s", 5)
    assert session.session.settings is not None
    assert [tool.name for tool in session.session.settings.tools] == ["look"]
    assert any(note in sentence for sentence in session.notes), session.notes


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        ({"type": "file_search"}, "tools that the provider runs are not imported"),
        ({"type": "apply_patch"}, "tools that the client runs"),
        ({"type": "shell"}, "tools without a schema"),
        ({"type": "teleport"}, "not supported here"),
    ],
)
def test_a_choice_of_a_tool_without_a_schema_is_left_out_with_the_reason(
    choice: dict[str, Any], why: str
) -> None:
    body = {"model": "m", "input": "Hi", "tools": [{"type": "function", **TOOL}]}
    notes = read_requests(json.dumps({**body, "tool_choice": choice})).notes
    assert any(why in sentence for sentence in notes), notes


def read_request(text: str) -> ImportedRequest:
    requests = read_requests(text)
    assert requests.problem == ""
    (request,) = requests.requests
    return request


def test_a_chat_body_is_taken_whole() -> None:
    request = read_request(json.dumps(CHAT))
    assert request.protocol == "openai_chat"
    setup = request.setup
    assert (setup.model, setup.system, setup.extra) == ("m", "Be brief.", {"seed": 7})
    assert setup.choice == ToolChoice("tool", "look", parallel=False)
    session = session_from_request(request, OPENAI, "s", 5)
    (call,) = session.session.calls()
    assert call.result is not None
    assert (call.status, call.result.text, session.session.state) == ("done", "seen", "paused")


def test_a_claude_body_keeps_what_has_no_word_of_ours() -> None:
    request = read_request(json.dumps(CLAUDE))
    assert request.protocol == "anthropic"
    assert request.setup.extra["system"] == CLAUDE["system"]
    session = session_from_request(request, Profile("a", "anthropic", "https://x"), "s", 5)
    (call,) = session.session.calls()
    assert call.result is not None
    assert call.result.is_error
    assert session.session.prompts == 2
    assert session.session.state == "paused"


def test_results_for_ollama_go_by_id_or_name_and_empty_prompts_stay_out() -> None:
    """An id that no call has was made up by the client: there the name tells."""
    calls = [{"id": id_, "function": {"name": "look", "arguments": {}}} for id_ in ("a", "b")]
    results = [
        {"role": "tool", "tool_name": "look", "tool_call_id": id_, "content": id_}
        for id_ in ("b", "made up")
    ]
    prompts = [{"role": "user", "content": text} for text in ("", "Look")]
    messages = [*prompts, {"role": "assistant", "content": "", "tool_calls": calls}, *results]
    request = read_request(json.dumps({"model": "m", "options": {}, "messages": messages}))
    session = session_from_request(request, OPENAI, "s", 1).session
    assert [item.text for item in session.items if isinstance(item, Prompt)] == ["Look"]
    result_texts = [call.result.text for call in session.turns[0].calls if call.result]
    assert result_texts == ["made up", "b"]


def test_keys_are_left_out_by_name_and_addresses_lose_theirs() -> None:
    command = (
        "curl 'https://user:pw@api.openai.com:444/v1/chat/completions?key=sk-123'"
        f" -H 'Authorization: Bearer sk-123' -d '{json.dumps(CHAT)}'"
    )
    requests = read_requests(command)
    assert requests.requests[0].base_url == "https://api.openai.com:444/v1"
    assert "authorization" in " ".join(requests.notes)
    session = session_from_request(requests.requests[0], OPENAI, "s", 5)
    assert "sk-123" not in repr(session.log)


@pytest.mark.parametrize(
    ("url", "protocol", "base_url", "model"),
    [
        ("https://x.test/a/v1/messages", "anthropic", "https://x.test/a", ""),
        ("https://x.test/v1/chat/completions?a=b", "openai_chat", "https://x.test/v1", ""),
        ("https://x.test/v1/responses", "openai_responses", "https://x.test/v1", ""),
        ("http://x.test:11434/api/chat", "ollama", "http://x.test:11434", ""),
        *(
            (f"https://x.test{path}:streamGenerateContent", "gemini", f"https://x.test{base}", name)
            for path, base, name in (
                ("/v1beta/models/g", "/v1beta", "g"),
                ("/models/google/g", "", "google/g"),
                ("/v1/tunedModels/t", "/v1", "t"),
                ("/v1/publishers/google/models/g", "/v1/publishers/google", "g"),
            )
        ),
    ],
)
def test_the_address_says_protocol_base_and_model(
    url: str, protocol: str, base_url: str, model: str
) -> None:
    member = {"gemini": "contents", "openai_responses": "input"}.get(protocol, "messages")
    answer = {"role": "user", "content": "Look", "parts": [{"text": "Look"}]}
    request = read_request(f"curl {url} -d '{json.dumps({member: [answer]})}'")
    assert (request.protocol, request.base_url, request.setup.model) == (protocol, base_url, model)
    assert request.base_url + request.path == url.partition("?")[0]
    assert not model or request.setup.stream


def test_an_archive_gives_its_longest_request_with_the_bytes_that_came() -> None:
    answer = {"choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}
    entries: list[dict[str, Any]] = [
        {"request": {"url": "https://x/v1/chat/completions", "postData": {"text": text}}}
        for text in (json.dumps({"messages": CHAT["messages"][:2]}), json.dumps(CHAT))
    ]
    entries[1]["response"] = {"status": 200, "content": {"text": json.dumps(answer)}}
    entries.append({"request": {"url": "https://x/other", "postData": {"text": "{}" * 999}}})
    requests = read_requests(json.dumps({"log": {"entries": entries}}))
    assert "longest of 2 in the archive" in requests.notes[0]
    session = session_from_request(requests.requests[0], OPENAI, "s", 5)
    assert session.session.answer == "Hi"
    assert session.response == json.dumps(answer).encode()
    assert session.log[-1].source is not None
    assert session.session.state == "idle"


def test_lines_of_messages_give_the_first_and_a_list_its_messages() -> None:
    lines = "\n".join([json.dumps(CHAT)] * 3)
    assert "Only the first of 3 lines" in read_requests(lines).notes[0]
    assert len(read_request(json.dumps(CHAT["messages"])).items) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a curl command"),
        ("[1]", "not a request to a known chat API"),
        ('{"a": 1}', "not a request to a known chat API"),
        ('{"messages": [{"role": "system", "content": "x"}]}', "no messages"),
        ('{"log": {"entries": []}}', "No entry"),
        ("curl https://x/v1/messages -d '{'", "not valid JSON"),
        ("curl https://x/v1/messages -d '[]'", "not a JSON object"),
        ('{"messages": [{"role": "user", "content": ' + "[" * 3000, "nested"),
    ],
)
def test_what_is_no_request_says_so(text: str, message: str) -> None:
    requests = read_requests(text)
    assert message in requests.problem
    assert requests.requests == ()


@pytest.mark.parametrize("odd", [None, 3, "x", [], {}, [None], [[]], {"role": 3}, [{"role": []}]])
@pytest.mark.parametrize("member", ["messages", "tools", "tool_choice", "system", "stop"])
def test_odd_members_are_no_traceback(odd: Any, member: str) -> None:
    for body in (CHAT, CLAUDE):
        requests = read_requests(json.dumps({**body, member: odd}))
        for request in requests.requests:
            session_from_request(request, OPENAI, "s", 5)


def test_odd_blocks_are_taken_along() -> None:
    """A failed result that holds an image and what nobody knows, and a block of an odd type."""
    data = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    body = json.loads(json.dumps(CLAUDE))
    body["messages"][1]["content"].append({"type": {}, "text": "Hm."})
    body["messages"][2]["content"][0]["content"] = [{"odd": 1}, {"type": "image", "source": data}]
    claude = Profile("claude", "anthropic", "https://api.anthropic.com")
    session = session_from_request(read_request(json.dumps(body)), claude, "s1", 0).session
    sent = json.loads(CODECS["anthropic"].encode(model_request(session, ToolChoice())).body)
    assert sent["messages"][2]["content"][0]["content"].startswith("The tool failed")


@pytest.mark.parametrize("name", rest_slow(HOSTILE, 6))
def test_hostile_texts_end_in_a_sentence(name: str) -> None:
    requests = read_requests(HOSTILE[name][0])
    assert requests.problem
    assert "cannot be read (" not in requests.problem
