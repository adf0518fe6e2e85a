"""The ends of llama.cpp and vLLM: what they refuse where OpenAI does not, and the other way."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from playground.core.providers import SHIPPED
from playground.simulator.app import simulator_app
from playground.simulator.local_servers import LOCAL_SERVERS

pytestmark = pytest.mark.anyio

TOOL = {"type": "object", "properties": {"expression": {"type": "string"}}}
PROMPT = "What is 17*23?"


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(simulator_app(pace=0))
    async with httpx.AsyncClient(transport=transport, base_url="http://sim") as client:
        yield client


def chat(arguments: str | None = None, *, answered: bool = True) -> dict[str, Any]:
    """A request by Chat Completions, with a call of these arguments in its history."""
    function = {"name": "calculator", "parameters": TOOL}
    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    if arguments is not None:
        call: dict[str, Any] = {"id": "c1", "type": "function"}
        call["function"] = {"name": "calculator", "arguments": arguments}
        messages += [{"role": "assistant", "content": None, "tool_calls": [call]}]
        messages += [{"role": "tool", "tool_call_id": "c1", "content": "391"}] if answered else []
    return {
        "model": "m",
        "messages": messages,
        "tools": [{"type": "function", "function": function}],
    }


def responses(arguments: str | None = None, *, answered: bool = True) -> dict[str, Any]:
    """The same by Responses."""
    items: list[Any] = [{"role": "user", "content": PROMPT}]
    if arguments is not None:
        call = {"type": "function_call", "call_id": "c1", "name": "calculator"}
        items += [{**call, "arguments": arguments}]
        output = {"type": "function_call_output", "call_id": "c1", "output": "391"}
        items += [output] if answered else []
    tool = {"type": "function", "name": "calculator", "parameters": TOOL, "strict": False}
    return {"model": "m", "input": items, "tools": [tool]}


PATHS = {"/chat/completions": chat, "/responses": responses}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("server", "arguments", "status"),
    [
        ("llamacpp", '{"expression": "17', 500),
        ("llamacpp", "17*23", 500),
        ("llamacpp", "", 500),
        ("llamacpp", '{"expression": "17*23"}', 200),
        ("llamacpp", "null", 200),
        ("vllm", '{"expression": "17', 400),
        ("vllm", "", 200),
        ("vllm", "{}", 200),
        ("openai", '{"expression": "17', 200),
    ],
)
async def test_arguments_of_the_history_are_json_for_a_local_server(
    http: httpx.AsyncClient, path: str, server: str, arguments: str, status: int
) -> None:
    headers = {"authorization": "Bearer k"}
    answer = await http.post(f"/{server}/v1{path}", json=PATHS[path](arguments), headers=headers)
    assert answer.status_code == status, answer.text
    if status == 500:
        error = answer.json()["error"]
        assert (error["code"], error["type"]) == (500, "server_error")
        assert error["message"].startswith("Failed to parse tool call arguments as JSON: ")


@pytest.mark.parametrize("server", [server.name for server in LOCAL_SERVERS])
async def test_a_local_server_takes_what_openai_refuses(
    http: httpx.AsyncClient, server: str
) -> None:
    """Without a key, too."""
    orphan = {"role": "tool", "tool_call_id": "c9", "content": "x"}
    body = {**chat("{}"), "chat_template_kwargs": {"enable_thinking": False}}
    body["messages"].append(orphan)
    body["tools"][0]["function"]["name"] = "no spaces?"
    del body["model"]
    assert (await http.post(f"/{server}/v1/chat/completions", json=body)).status_code == 200
    named = {**responses("{}"), "top_k": 40}
    assert (await http.post(f"/{server}/v1/responses", json=named)).status_code == 200
    assert (await http.get(f"/{server}/v1/models")).status_code == 200
    stored = {**responses(), "previous_response_id": "resp_1"}
    refused = await http.post(f"/{server}/v1/responses", json=stored)
    assert refused.status_code in (400, 404)


@pytest.mark.parametrize("path", PATHS)
async def test_llamacpp_answers_no_history_that_ends_with_a_call(
    http: httpx.AsyncClient, path: str
) -> None:
    answer = await http.post(f"/llamacpp/v1{path}", json=PATHS[path]("{}", answered=False))
    assert answer.status_code == 400
    assert "Cannot continue an assistant message" in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "changes",
    [
        {"tools": [{"type": "function"}]},
        {"tools": {}},
        {"tools": [{"type": "function", "function": {"name": 1}, "name": 1}]},
        {"messages": ["x"], "input": ["x"]},
        {"messages": None, "input": None},
        {"max_tokens": "x", "max_output_tokens": "x"},
        {"response_format": "x", "text": "x"},
    ],
)
async def test_a_body_of_another_shape_is_refused(path: str, changes: dict[str, Any]) -> None:
    transport = httpx.ASGITransport(simulator_app(pace=0))
    async with httpx.AsyncClient(transport=transport, base_url="http://sim") as client:
        body = {**PATHS[path](), **changes}
        answer = await client.post(f"/vllm/v1{path}", json=body)
    assert answer.status_code == 400, answer.text


async def test_the_stream_of_llamacpp_has_no_indexes_and_says_what_the_whole_answer_says(
    http: httpx.AsyncClient,
) -> None:
    body = {**responses(), "input": f"{PROMPT} And what is 2*3?", "stream": True}
    answer = await http.post("/llamacpp/v1/responses", json=body)
    events = [json.loads(line[6:]) for line in answer.text.split("\n") if line[:6] == "data: "]
    indexes = {"output_index", "sequence_number", "content_index"}
    assert not any(indexes & event.keys() for event in events)
    ended = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert [item["type"] for item in ended] == ["message", "function_call", "function_call"]
    assert [("id" in item, "call_id" in item) for item in ended] == [
        *((True, False), (False, True), (False, True))
    ]
    streamed: dict[str, str] = {}
    for event in events:
        if event["type"].endswith(".delta"):
            streamed[event["item_id"]] = streamed.get(event["item_id"], "") + event["delta"]
    texts = {item["id"]: item["content"][0]["text"] for item in ended[:1]}
    texts |= {item["call_id"]: item["arguments"] for item in ended[1:]}
    assert streamed == texts
    assert events[-1]["response"]["output"] == ended
    response = await http.post("/llamacpp/v1/responses", json={**body, "stream": False})
    assert [item["type"] for item in response.json()["output"]] == [item["type"] for item in ended]


def test_each_is_named_as_its_profile() -> None:
    """`/llamacpp/v1` stands for the address of the profile llamacpp."""
    for server in LOCAL_SERVERS:
        profile = SHIPPED[server.name].profile
        assert profile.base_url.endswith("/v1")
        assert {end.base for end in server.ends()} == {f"/{profile.name}/v1"}
