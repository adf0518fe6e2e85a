"""What the server end of OpenAI Responses sends: the events in their order, all their fields."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.protocols.openai_responses.server import END, parse
from playground.protocols.server import IdSource, ModelReply, ParsedRequest, ReplyBlock, call

STAMP = IdSource("s", 7)
BODY: dict[str, Any] = {
    "model": "m",
    "input": "hi",
    "tools": [
        {
            "type": "function",
            "name": "f",
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
        },
        {"type": "custom", "name": "g"},
    ],
    "include": ["reasoning.encrypted_content"],
    "instructions": "Be brief.",
}
SAID = ModelReply(
    (
        ReplyBlock("thinking", "Why."),
        ReplyBlock("text", "So é."),
        call("f", {"x": 1}),
        call("g", {"input": "SELECT 1"}),
    ),
    "calls",
)


def parse_request(**changes: Any) -> ParsedRequest:
    return parse(json.dumps({**BODY, **changes}).encode(), {})


def events(reply: ModelReply, **changes: Any) -> list[dict[str, Any]]:
    data = b"".join(frame.data for frame in END.frames(reply, parse_request(**changes), STAMP))
    return [json.loads(line[6:]) for line in data.split(b"\n") if line.startswith(b"data: ")]


def test_the_events_in_their_order() -> None:
    results = events(SAID)
    names = [event["type"].removeprefix("response.") for event in results]
    without_repeats = [item for place, item in enumerate(names) if names[place - 1] != item]
    assert without_repeats == [
        *("created", "in_progress"),
        *("output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta"),
        *("reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.delta"),
        *("function_call_arguments.done", "output_item.done"),
        *("output_item.added", "custom_tool_call_input.delta"),
        *("custom_tool_call_input.done", "output_item.done"),
        "completed",
    ]
    assert [event["sequence_number"] for event in results] == list(range(len(results)))
    ids = {event["output_index"]: event["item_id"] for event in results if "item_id" in event}
    assert [ids[place].split("_")[0] for place in range(4)] == ["rs", "msg", "fc", "ctc"]


@pytest.mark.parametrize("stop", ["calls", "length", "refusal", "error"])
def test_every_event_is_one_of_the_official_package(stop: str) -> None:
    # Half a second's work: for the worker that runs this alone.
    from openai.types.responses import Response, ResponseStreamEvent
    from pydantic import TypeAdapter

    known: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    results = events(ModelReply(SAID.blocks, stop))
    for event in results:
        assert known.validate_python(event).type == event["type"]
    response = json.loads(END.whole(ModelReply(SAID.blocks, stop), parse_request(), STAMP))
    assert Response.model_validate(response).id == results[-1]["response"]["id"]
    assert response == results[-1]["response"]


@pytest.mark.parametrize(
    ("stop", "name", "output"),
    [
        ("stop", "completed", None),
        ("length", "incomplete", {"reason": "max_output_tokens"}),
        ("refusal", "incomplete", {"reason": "content_filter"}),
        ("banana", "incomplete", {"reason": "banana"}),
        ("error", "failed", None),
    ],
)
def test_ends(stop: str, name: str, output: Any) -> None:
    last = events(ModelReply((ReplyBlock("text", "a"),), stop))[-1]
    response = last["response"]
    assert (last["type"], response["status"]) == (f"response.{name}", name)
    assert response["incomplete_details"] == output
    assert (response["error"] is not None) == (name == "failed")
    cut = "incomplete" if stop == "length" else "completed"
    assert [item["status"] for item in response["output"]] == [cut]


def test_items_are_those_of_the_real_one() -> None:
    thought, text, called, wrote = json.loads(END.whole(SAID, parse_request(), STAMP))["output"]
    assert thought["summary"] == [{"type": "summary_text", "text": "Why."}]
    assert thought["encrypted_content"].startswith("gAAAA")
    assert text["content"][0]["text"] == "So é."
    assert (called["arguments"], called["status"]) == ('{"x": 1}', "completed")
    assert (wrote["type"], wrote["input"]) == ("custom_tool_call", "SELECT 1")
    assert called["call_id"] != wrote["call_id"]
    plain_response = json.loads(END.whole(SAID, parse_request(include=[]), STAMP))
    assert "encrypted_content" not in plain_response["output"][0]
    assert (plain_response["instructions"], plain_response["tools"]) == ("Be brief.", BODY["tools"])
    assert plain_response["usage"]["output_tokens_details"] == {"reasoning_tokens": 1}
