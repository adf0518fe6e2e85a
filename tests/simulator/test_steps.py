"""The way until a request, read from the body that each protocol's codec writes."""

from __future__ import annotations

import json

import pytest

from playground.core.messages import model_request
from playground.core.settings import PROTOCOLS
from playground.core.tools import ToolChoice
from playground.protocols.registry import codec
from playground.simulator.recorded import steps
from tests.factories import Log, session, turn_with_calls

PROMPT = "What is the weather in Paris?"


def body(protocol: str, log: Log) -> str:
    request = model_request(session(log.events), ToolChoice())
    return codec(protocol).encode(request).body.decode()


def two_calls() -> Log:
    return turn_with_calls(("get_weather", {"city": "Paris"}), ("add_event", {"title": "Walk"}))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_messages_calls_and_results_in_order(protocol: str) -> None:
    log = two_calls().run("1.1").run("1.2")
    history_steps = steps(protocol, body(protocol, log))
    kinds = sorted((step.kind, step.name) for step in history_steps)
    assert kinds == [
        ("call", "add_event"), ("call", "get_weather"), ("prompt", ""),
        ("result", "add_event"), ("result", "get_weather"),
    ]  # fmt: skip
    assert PROMPT in json.dumps(history_steps[0].value)
    assert {"city": "Paris"} in [step.value for step in history_steps]
    assert history_steps[0].kind == "prompt"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_the_model_said_is_no_step(protocol: str) -> None:
    log = Log().start().prompt().request().part(0, "thinking", "hm").part(1, "text", "Rain.")
    log.end("stop").prompt("And in Rome?")
    history_steps = steps(protocol, body(protocol, log))
    assert [step.kind for step in history_steps] == ["prompt", "prompt"]
    assert "And in Rome?" in json.dumps(history_steps[1].value)
    assert history_steps[0].place != history_steps[1].place


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"messages": 7}', '{"messages": [1, null]}', "{"]
)
def test_what_is_no_request_has_no_steps(text: str) -> None:
    assert [steps(protocol, text) for protocol in PROTOCOLS] == [[]] * len(PROTOCOLS)
    assert steps("smoke signals", text) == []
