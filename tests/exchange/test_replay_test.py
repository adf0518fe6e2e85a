"""The exported test passes by its own recording, and fails by another one."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from playground.core.tools import Tool
from playground.exchange.bundle import RecordedChunk, Recording, SessionBundle
from playground.exchange.replay_read import calls_of
from playground.exchange.replay_test import NOTHING, write
from tests.exchange.asking import PROTOCOLS, Kind
from tests.factories import WEATHER

SUM = Tool(
    "calculator", "Sums.", {"type": "object", "properties": {"expression": {}}, "required": []}
)

BOTH = "What is the weather in Paris, and what is 17*23?"
FORECAST = replace(WEATHER, name="get_forecast", description="The weather of a city.")

NO_OBJECTS = [
    '{"x":NaN}',
    '{"x":1e999}',
    '{"x":' * 300 + "1" + "}" * 300,
    '{"x":' * 3000,
    "[1]",
    "{x",
]


def make_bundle(protocol: str, prompt: str, *tools: Tool, **changes: Any) -> SessionBundle:
    kind = Kind(protocol, tools=tools or (WEATHER, SUM), **changes)
    kind.prompt(prompt)
    kind.turn()
    kind.results(["11 degrees" for _ in kind.session.turns[-1].calls])
    kind.turn()
    return kind.bundle('A """ title\\')


def outcome(session_bundle: SessionBundle, played: SessionBundle | None = None) -> str:
    """Run the test that was exported from `kept` on the recording of `played`."""
    export_file = write(session_bundle)
    names: dict[str, Any] = {"__name__": "test_it"}
    exec(compile(export_file.data, export_file.file_name, "exec"), names)
    if played is not None:
        names["ANSWERS"][:] = [
            {**answer, "body": base64.b64encode(played.recordings[number].data).decode()}
            for number, answer in enumerate(names["ANSWERS"], 1)
        ]
    try:
        names["test_the_calls_are_those_of_the_recording"]()
    except AssertionError:
        return "failed"
    return "passed"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_it_passes_by_its_own_recording_and_sees_a_change(protocol: str, stream: bool) -> None:
    own = make_bundle(protocol, "What is the weather in Paris?", stream=stream)
    assert [call.name for call in own.session.calls()] == ["get_weather"]
    assert write(own).notes == ()
    assert outcome(own) == "passed"
    other_city = make_bundle(protocol, "What is the weather in Rome?", stream=stream)
    other_name = make_bundle(protocol, "What is the weather in Paris?", FORECAST, stream=stream)
    no_call = make_bundle(protocol, "Hello", stream=stream)
    assert outcome(own, other_city) == "failed"
    assert outcome(own, other_name) == "failed"
    assert outcome(own, replace(own, recordings=dict.fromkeys((1, 2), no_call.recordings[1]))) == (
        "failed"
    )


def test_it_sees_another_order_and_not_what_is_optional() -> None:
    own = make_bundle("anthropic", BOTH)
    calls = calls_of("anthropic", own.recordings[1].data)
    assert sorted(name for name, _ in calls) == ["calculator", "get_weather"]
    body = own.recordings[1].data
    swapped = body.replace(b"calculator", b"\0").replace(b"get_weather", b"calculator")
    swapped = swapped.replace(b"\0", b"get_weather")
    turned = Recording(1, [RecordedChunk(0, swapped)])
    assert outcome(own) == "passed"
    assert outcome(own, replace(own, recordings={**own.recordings, 1: turned})) == "failed"
    # The schema of the calculator requires nothing.
    bundle = make_bundle("anthropic", BOTH, stream=False)
    assert b"17*23" in bundle.recordings[1].data
    loose = Recording(1, [RecordedChunk(0, bundle.recordings[1].data.replace(b"17*23", b"99*99"))])
    assert outcome(bundle, replace(bundle, recordings={**bundle.recordings, 1: loose})) == "passed"


def test_pytest_alone_runs_the_file(tmp_path: Path) -> None:
    export_file = write(make_bundle("openai_chat", BOTH))
    assert export_file.file_name == "test_a_title.py"
    (tmp_path / export_file.file_name).write_bytes(export_file.data)
    words = [sys.executable, "-I", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    words.append(export_file.file_name)
    env = {"PATH": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_a_session_of_nothing_says_so() -> None:
    export_file = write(Kind("gemini").bundle())
    assert export_file.notes == (NOTHING,)
    assert outcome(Kind("gemini").bundle()) == "passed"


@pytest.mark.parametrize("text", NO_OBJECTS)
def test_arguments_that_are_no_object_are_compared_by_their_text(text: str) -> None:
    own = make_bundle("openai_chat", "What is the weather in Paris?", stream=False)

    def with_arguments(arguments: str) -> SessionBundle:
        body = json.loads(own.recordings[1].data)
        body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = arguments
        recording = Recording(1, [RecordedChunk(0, json.dumps(body).encode())])
        return replace(own, recordings={**own.recordings, 1: recording})

    assert outcome(with_arguments(text)) == "passed"
    assert outcome(with_arguments(text), with_arguments(text + " ")) == "failed"


def test_an_answer_that_the_test_cannot_read_is_left_out() -> None:
    own = make_bundle("openai_chat", "What is the weather in Paris?")
    odd = Recording(1, [RecordedChunk(0, b'{"choices": [{"message": {"tool_calls": [5]}}]}')])
    session_bundle = replace(own, recordings={**own.recordings, 1: odd})
    assert write(session_bundle).notes == ("Turn 1 was left out: the test cannot read its answer.",)
    assert outcome(session_bundle) == "passed"
