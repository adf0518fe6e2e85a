"""What the Responses end stores for a key: responses, conversations and their items."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from playground.protocols.openai_responses import stored
from playground.simulator.app import simulator_app

pytestmark = pytest.mark.anyio

PROMPT = "What is 17*23?"
TOOL = {
    "type": "function",
    "name": "calculator",
    "strict": False,
    "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}},
}


class Client:
    """Asks one simulator as the holder of a key."""

    def __init__(self, http: httpx.AsyncClient, key: str = "k") -> None:
        self.http, self.headers = http, {"authorization": f"Bearer {key}"}

    async def send(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        url = f"/openai/v1{path}"
        response = await self.http.request(method, url, json=body, headers=self.headers)
        assert response.status_code == status, response.text
        return response.json()

    async def ask(self, status: int = 200, **body: Any) -> Any:
        full_body = {"model": "m", "tools": [TOOL], **body}
        return await self.send("POST", "/responses", full_body, status)


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(simulator_app(pace=0))
    async with httpx.AsyncClient(transport=transport, base_url="http://sim") as client:
        yield client


@pytest.fixture
def client(http: httpx.AsyncClient) -> Client:
    return Client(http)


def output_for(response: Any) -> list[dict[str, Any]]:
    """The results of the calls of a response."""
    calls = [item for item in response["output"] if item["type"] == "function_call"]
    assert calls
    return [
        {"type": "function_call_output", "call_id": call["call_id"], "output": "391"}
        for call in calls
    ]


async def test_a_response_goes_on_with_what_was_stored(client: Client) -> None:
    first = await client.ask(input=PROMPT)
    second = await client.ask(input=output_for(first), previous_response_id=first["id"])
    assert "391" in json.dumps(second["output"])
    assert (first["store"], second["previous_response_id"]) == (True, first["id"])
    assert second["usage"]["input_tokens"] > first["usage"]["input_tokens"]
    third = await client.ask(input="Thanks!", previous_response_id=second["id"])
    assert third["output"][0]["type"] == "message"


async def test_calls_of_a_stored_response_without_results_are_refused(client: Client) -> None:
    first = await client.ask(input=PROMPT)
    refused = await client.ask(400, input="Well?", previous_response_id=first["id"])
    assert "No tool output found for function call" in refused["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
async def test_get_returns_a_stored_response_as_it_was_answered(
    client: Client, stream: bool
) -> None:
    body = {"model": "m", "input": PROMPT, "stream": stream}
    answer = await client.http.post("/openai/v1/responses", json=body, headers=client.headers)
    response = (
        json.loads(answer.text.rpartition("data: ")[2])["response"] if stream else answer.json()
    )
    assert await client.send("GET", f"/responses/{response['id']}") == response
    listed = await client.send("GET", f"/responses/{response['id']}/input_items")
    assert listed["data"][0]["content"] == [{"type": "input_text", "text": PROMPT}]
    assert await client.send("DELETE", f"/responses/{response['id']}") == {
        "id": response["id"],
        "object": "response",
        "deleted": True,
    }
    await client.send("GET", f"/responses/{response['id']}", status=404)


async def test_what_is_not_stored_is_not_found(client: Client, http: httpx.AsyncClient) -> None:
    unstored = await client.ask(input=PROMPT, store=False)
    await client.send("GET", f"/responses/{unstored['id']}", status=404)
    refused = await client.ask(400, input="So?", previous_response_id=unstored["id"])
    assert refused["error"]["code"] == "previous_response_not_found"
    mine = await client.ask(input="Hi")
    await Client(http, "another").send("GET", f"/responses/{mine['id']}", status=404)
    await client.ask(404, input="So?", conversation="conv_none")
    await client.ask(404, input=[{"type": "item_reference", "id": "msg_" + "a" * 32}])


async def test_only_the_last_responses_are_stored(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "MOST_STORED", 2)
    ids = [(await client.ask(input=f"Hi {number}"))["id"] for number in range(3)]
    await client.send("GET", f"/responses/{ids[0]}", status=404)
    for item_id in ids[1:]:
        await client.send("GET", f"/responses/{item_id}")
    monkeypatch.setattr(stored, "MOST_BYTES", 10)
    large = await client.ask(input="Hi")
    await client.send("GET", f"/responses/{large['id']}", status=404)


async def test_a_conversation_keeps_its_items(client: Client) -> None:
    conversation = await client.send("POST", "/conversations", {"metadata": {"a": "b"}})
    path = f"/conversations/{conversation['id']}"
    assert (conversation["object"], conversation["metadata"]) == ("conversation", {"a": "b"})
    first = await client.ask(input=PROMPT, conversation=conversation["id"])
    assert first["conversation"] == {"id": conversation["id"]}
    named = {"id": conversation["id"]}
    second = await client.ask(input=output_for(first), conversation=named)
    assert "391" in json.dumps(second["output"])
    listed = await client.send("GET", f"{path}/items?order=asc&limit=100")
    kinds = [item["type"] for item in listed["data"]]
    assert (kinds[0], kinds[-2:]) == ("message", ["function_call_output", "message"])
    assert len({item["id"] for item in listed["data"]}) == len(kinds)
    newest = await client.send("GET", f"{path}/items?limit=1")
    assert (newest["data"], newest["has_more"]) == ([listed["data"][-1]], True)
    rest = await client.send("GET", f"{path}/items?after={newest['last_id']}&limit=100")
    assert rest["data"] == list(reversed(listed["data"][:-1]))


async def test_the_same_request_twice_in_a_conversation_gets_two_answers(client: Client) -> None:
    conversation = await client.send("POST", "/conversations")
    answers = [await client.ask(input="Hello", conversation=conversation["id"]) for _ in range(3)]
    assert len({answer["id"] for answer in answers}) == 3


async def test_items_of_a_conversation_are_added_read_and_deleted(client: Client) -> None:
    conversation = await client.send("POST", "/conversations", {"items": [{"role": "user",
                                     "content": "Hi"}]})  # fmt: skip
    path = f"/conversations/{conversation['id']}"
    answer = {"role": "assistant", "content": "Hello."}
    added = await client.send("POST", f"{path}/items", {"items": [answer]})
    (item,) = added["data"]
    assert item["content"][0]["type"] == "output_text"
    assert await client.send("GET", f"{path}/items/{item['id']}") == item
    await client.send("DELETE", f"{path}/items/{item['id']}")
    await client.send("GET", f"{path}/items/{item['id']}", status=404)
    left = await client.send("GET", f"{path}/items")
    assert [item["role"] for item in left["data"]] == ["user"]
    # What is listed is accepted as input again.
    await client.ask(input=left["data"])
    await client.send("POST", path, {"metadata": {"c": "d"}})
    assert (await client.send("GET", path))["metadata"] == {"c": "d"}
    assert (await client.send("DELETE", path))["object"] == "conversation.deleted"
    await client.send("GET", path, status=404)
    bad_body = {"items": [{"type": "banana"}]}
    refused = await client.send("POST", "/conversations", bad_body, 400)
    assert "Invalid value: 'banana'" in refused["error"]["message"]


async def test_a_reference_stands_for_a_stored_item(client: Client) -> None:
    first = await client.ask(input=PROMPT)
    call = next(item for item in first["output"] if item["type"] == "function_call")
    reference = {"type": "item_reference", "id": call["id"]}
    user = {"role": "user", "content": PROMPT}
    second = await client.ask(input=[user, reference, *output_for(first)])
    assert "391" in json.dumps(second["output"])


async def test_input_and_model_are_optional_where_something_stands_for_them(
    client: Client,
) -> None:
    first = await client.ask(input="Hello")
    await client.ask(previous_response_id=first["id"])
    await client.send("POST", "/responses", {"prompt": {"id": "pmpt_1"}})
    conversation = (await client.send("POST", "/conversations"))["id"]
    both = {"conversation": conversation, "previous_response_id": first["id"]}
    refused = await client.ask(400, input="Hi", **both)
    assert refused["error"]["param"] == "conversation"
    await client.ask(400)


async def test_a_background_response_is_done_at_once(client: Client) -> None:
    response = await client.ask(input="Hello", background=True)
    assert (response["background"], response["status"]) == (True, "completed")
    await client.send("POST", f"/responses/{response['id']}/cancel")
    other = await client.ask(input="Hello there")
    await client.send("POST", f"/responses/{other['id']}/cancel", status=400)
