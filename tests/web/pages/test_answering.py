"""What helps with an answer by hand, over HTTP: it reads and makes up, and decides nothing."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.servers import RunningServer, wait_for_session

pytestmark = pytest.mark.anyio

OUTPUT = {
    "type": "object",
    "properties": {"sky": {"type": "string"}, "high": {"type": "integer"}},
    "required": ["sky", "high"],
}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {
    "name": "weather_of",
    "description": "The weather of a city.",
    "parameters": CITY,
    "answered_by": "person",
}
TYPED = {"name": "ask_me", "answered_by": "person", "config": {"output_schema": OUTPUT}}
THREE = "The weather in Rome? And the weather in Berlin? And the weather in Madrid?"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
DOT = {"media_type": "image/png", "data": base64.b64encode(PNG).decode()}
Json = dict[str, Any]


@pytest.fixture
async def script(server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    async with server.client() as async_client:
        for tool in (WEATHER, TYPED):
            (await async_client.post("/tools", json=tool)).raise_for_status()
        yield async_client


@pytest.fixture
async def page(server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    async with server.page(**{"hx-request": "true"}) as async_client:
        yield async_client


async def waiting(
    script: httpx.AsyncClient, prompt: str = THREE, tool: str = "weather_of", **more: Any
) -> tuple[str, list[Json]]:
    """A session whose calls wait: its address, and the calls."""
    response = await script.post("/sessions", json={"tools": [tool], **more})
    here = f"/sessions/{response.json()['id']}"
    await script.post(f"{here}/prompts", json={"text": prompt})
    return here, await settled(script, here, "waiting")


async def settled(script: httpx.AsyncClient, here: str, state: str) -> list[Json]:
    output = await wait_for_session(script, here.rpartition("/")[2])
    assert output["state"] == state
    calls: list[Json] = output["calls"]
    return calls


async def test_past_results_are_listed_and_taken_whole(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    here, calls = await waiting(script)
    long = "x" * 5_000
    lines: list[Json] = [
        {"text": long, "images": [DOT]},
        {"text": "<b>Not found.</b>", "is_error": True},
        {"text": '{"sky": "clear"}'},
    ]
    wishes = [
        {"call": call["id"], "decision": "answer", "digest": call["digest"], **data}
        for call, data in zip(calls, lines, strict=True)
    ]
    output = (await script.post(f"{here}/decisions", json=wishes)).json()
    assert [item["ok"] for item in output] == [True] * 3
    await settled(script, here, "idle")

    here, calls = await waiting(script, "The weather in Oslo?")
    at = f"{here}/calls/{calls[0]['id']}"
    listed = (await script.get(f"{at}/past")).json()["past"]
    past = listed[:3]  # the newest come first; behind them are those of other tests
    assert [item["arguments"] for item in past] == [
        '{"city": "Madrid"}',
        '{"city": "Berlin"}',
        '{"city": "Rome"}',
    ]
    assert [item["is_error"] for item in past] == [False, True, False]
    assert (past[2]["length"], len(past[2]["text"]), past[2]["images"]) == (5_000, 300, 1)
    past_result = (await script.get(f"{at}/past", params={"one": past[2]["key"]})).json()
    assert past_result == {"text": long, "form": None, "is_error": False, "images": [DOT]}
    html = (await page.get(f"{at}/past")).text
    assert html.count('data-do="take-past"') == len(listed)
    assert "&lt;b&gt;Not found." in html
    assert (await settled(script, here, "waiting"))[0]["result"] is None, "nothing was sent"


@pytest.mark.parametrize(
    ("key", "status"), [("x", 422), ("s/x", 422), ("s/-1", 422), ("nobody/3", 404)]
)
async def test_a_past_result_that_is_none_is_refused(
    script: httpx.AsyncClient, key: str, status: int
) -> None:
    here, calls = await waiting(script, "The weather in Oslo?")
    answer = await script.get(f"{here}/calls/{calls[0]['id']}/past", params={"one": key})
    assert answer.status_code == status
    assert (await script.get(f"{here}/calls/9.9/past")).status_code == 404


async def test_a_draft_fits_and_another_number_is_another_one(script: httpx.AsyncClient) -> None:
    here, (call,) = await waiting(script, "ask", "ask_me", tool_choice="required")
    at = f"{here}/calls/{call['id']}"
    result = (await script.post(f"{at}/draft", json={})).json()
    assert result["made_from"] == "schema"
    assert set(result["form"]) == {"text:/sky", "integer:/high"}
    output = (await script.post(f"{at}/check", json={"text": result["text"]})).json()
    assert output["fits"] is True
    assert result == (await script.post(f"{at}/draft", json={"number": 0})).json()
    other = (await script.post(f"{at}/draft", data={"number": "1"})).json()
    assert other["text"] != result["text"]
    for number in (-1, 1_000, "x", True, 1.5):
        answer = await script.post(f"{at}/draft", json={"number": number})
        assert answer.status_code == 422
        assert "whole number" in answer.json()["error"]


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ({"text": '{"sky": "clear"}'}, {"form": "json", "fits": False}),
        ({"text": '{"sky": "clear"}', "is_error": True}, {"form": "json", "fits": None}),
        ({"text": '{"a":\n1 2}'}, {"form": "broken", "line": 2, "column": 3, "fits": False}),
        ({"text": "sunny", "is_error": True}, {"form": "text", "fits": None}),
        ({"text": '{"sky":"x","high":12.0}', "lay_out": True}, {"fits": True}),
    ],
)
async def test_what_is_typed_is_told_for_what_it_is(
    script: httpx.AsyncClient, body: Json, answer: Json
) -> None:
    here, (call,) = await waiting(script, "ask", "ask_me", tool_choice="required")
    got = (await script.post(f"{here}/calls/{call['id']}/check", json=body)).json()
    assert {name: got[name] for name in answer} == answer
    assert ("text" in got) == ("lay_out" in body)
    if got["fits"] is False and got["form"] == "json":
        assert 'The answer has no "high"' in got["says"]
    if "lay_out" in body:
        assert got["text"] == '{"sky": "x", "high": 12.0}'


async def test_one_answer_goes_to_the_calls_that_are_ticked(
    script: httpx.AsyncClient, page: httpx.AsyncClient
) -> None:
    here, calls = await waiting(script)
    first, second, third = calls
    at = f"{here}/calls/{first['id']}"
    alike = (await script.get(f"{at}/like")).json()["like"]
    assert [item["call"] for item in alike] == [second["id"], third["id"]]
    html = (await page.get(f"{at}/like")).text
    assert html.count('name="also"') == 2
    stale = f"{third['id']} {'0' * 64}"
    sent = {
        "decision": "answer",
        "digest": first["digest"],
        "text": "the\r\nsame",
        "also": [f"{second['id']} {second['digest']}", stale],
    }
    answer = await page.post(
        f"{at}/decision", data=sent, files={"images": ("dot.png", PNG, "image/png")}
    )
    assert answer.status_code == 200
    assert f"{third['id']}: This card is out of date" in answer.text
    assert first["id"] + ":" not in answer.text
    each, two, three = (await script.get(here)).json()["calls"]
    for call in (each, two):
        assert [piece["type"] for piece in call["result"]["content"]] == ["text", "image"]
        assert call["result"]["content"][0]["text"] == "the\nsame"
    assert three["result"] is None
    late = await page.post(f"{at}/decision", data=sent)
    assert late.status_code == 409, "the card's own call did not go"
    assert (await page.get(f"{at}/like")).text.strip() == "", "a decided call has none alike"
    picture = await page.get(f"{at}/images/0")
    assert (picture.content, picture.headers["content-type"]) == (PNG, "image/png")
    # Without a script the refusal is a page, and whatever could go has gone.
    response = await page.post(
        f"{at}/decision", data=sent, headers={"hx-request": "", "accept": "text/html"}
    )
    assert response.status_code == 409
    assert response.text.count("This call was already decided.") >= 1


async def test_of_a_list_each_is_decided_for_itself(script: httpx.AsyncClient) -> None:
    here, (first, second, third) = await waiting(script)
    svg = {"media_type": "image/svg+xml", "data": "AA=="}

    def wish(call: Json, **more: Any) -> Json:
        return {"call": call["id"], "decision": "answer", "digest": call["digest"], **more}

    wishes = [
        wish(first, text=3),
        wish(second, images=[svg]),
        wish(third, text="", images=[DOT]),
        wish(third, text="again"),
        {"call": "9.9", "decision": "answer", "digest": "x"},
    ]
    output = (await script.post(f"{here}/decisions", json=wishes)).json()
    assert [item["ok"] for item in output] == [False, False, True, False, False]
    for each, words in zip(
        output,
        ("text must be a text", "media_type must be one of", "", "already decided", "9.9"),
        strict=True,
    ):
        assert words in each.get("error", "")
    calls = (await script.get(here)).json()["calls"]
    assert [call["status"] for call in calls] == ["waiting", "waiting", "done"]
    assert [piece["type"] for piece in calls[2]["result"]["content"]] == ["image"]
