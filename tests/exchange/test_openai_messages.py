from __future__ import annotations

import json
from typing import Any

import pytest

from playground.exchange.requests_export import write_openai
from playground.simulator.app import ENDS
from tests.exchange.asking import PROTOCOLS, Kind, weather
from tests.simulator.talking import ENDS_BY_NAME

HEADERS = {"authorization": "Bearer k", "content-type": "application/json"}


def line(kind: Kind) -> Any:
    data = write_openai(kind.bundle()).data
    assert data.count(b"\n") == 1
    return json.loads(data)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_strict_end_takes_the_line_of_every_session(protocol: str) -> None:
    message_line = line(weather(protocol))
    assert [message["role"] for message in message_line["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    call = message_line["messages"][1]["tool_calls"][0]["function"]
    assert (call["name"], json.loads(call["arguments"])) == ("get_weather", {"city": "Paris"})
    assert "11" in message_line["messages"][3]["content"]
    end = ENDS_BY_NAME["openai_chat"]
    body = json.dumps({"model": "m", **message_line}).encode()
    request = end.parse(body, HEADERS, end.path).request
    assert len(request.messages) == 4
    assert end in ENDS


def test_its_messages_are_those_that_were_sent() -> None:
    kind = weather("openai_chat")
    message_line = line(kind)
    assert message_line["messages"][:-1] == kind.bodies[-1]["messages"]
    assert message_line["tools"] == kind.bodies[-1]["tools"]


def test_what_waits_is_told_and_nothing_is_no_line() -> None:
    kind = Kind("anthropic")
    assert write_openai(kind.bundle()).data == b""
    kind.prompt("Weather in Paris?")
    kind.turn()
    assert any("not run" in note for note in write_openai(kind.bundle()).notes)
