"""The generated files run in this process, by the official packages, against the simulator."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from playground.exchange.requests_export import request_of_turn
from playground.exchange.sdk_script import TEMPLATES, literal, source, write
from tests.exchange.asking import PROTOCOLS, Kind, weather
from tests.exchange.conftest import Heard
from tests.tables import rest_slow


def play(text: str, recording_server: Heard, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a file as `python file.py` does; what it printed."""
    monkeypatch.setenv("PLAYGROUND_TOKEN", "key-of-mine")
    recording_server.requests.clear()
    code = compile(text.replace("http://127.0.0.1:8765", recording_server.url), "file.py", "exec")
    printed = io.StringIO()
    names: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.redirect_stdout(printed):
        try:
            exec(code, names)
        finally:
            client = names.get("client")
            close = getattr(client, "close", None) or getattr(client._client, "close", None)  # type: ignore[union-attr]
            close()  # type: ignore[misc]
    return printed.getvalue()


def normalize_body(body: Any) -> Any:
    """`body` without what Google's package does by itself: it spells one name otherwise, which the
    API takes for the same, and sends an empty group of settings."""
    text = json.dumps(body).replace('"parameters_json_schema"', '"parametersJsonSchema"')
    data = json.loads(text)
    if data.get("generationConfig") == {}:
        del data["generationConfig"]
    return data


@pytest.mark.slow
@pytest.mark.parametrize("stream", rest_slow([True, False]))
@pytest.mark.parametrize("protocol", rest_slow(PROTOCOLS, 2))
def test_each_file_runs_and_asks_the_same(
    protocol: str, stream: bool, recording_server: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = weather(protocol, stream=stream)
    printed = play(write(kind.bundle()).data.decode(), recording_server, monkeypatch)
    assert "get_weather(" in printed
    assert "11" in printed
    bodies = recording_server.bodies()
    assert len(bodies) == 2
    assert normalize_body(bodies[0]) == kind.bodies[0]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_request_with_a_history_is_the_same_body(
    protocol: str, recording_server: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = weather(protocol, params={"temperature": 1, "max_tokens": 900, "thinking": True})
    last = kind.session.turns[-1]
    text, _ = source(request_of_turn(last), {}, 'A title\n"""\nimport os\\')
    play(text, recording_server, monkeypatch)
    assert normalize_body(recording_server.bodies()[0]) == kind.bodies[-1]


def names(call: Any) -> set[str]:
    return set(inspect.signature(call).parameters)


def test_the_words_of_each_package_are_its_own() -> None:
    # A second's work: for the worker that runs this alone.
    import anthropic
    import ollama
    import openai
    from openai.resources.responses import Responses

    assert TEMPLATES["anthropic"].known <= names(anthropic.resources.Messages.create)
    assert TEMPLATES["anthropic"].known <= names(anthropic.resources.Messages.stream)
    assert TEMPLATES["openai_chat"].known <= names(openai.resources.chat.Completions.create)
    assert TEMPLATES["openai_responses"].known <= names(Responses.create)
    assert TEMPLATES["ollama"].known <= names(ollama.Client.chat)


@pytest.mark.parametrize(
    "value",
    [
        {"a": ["'''", '"""', "\\", "\n", "\u202e", "\ud800", None, True, 1.5, 10**30]},
        {"x" * 90: {"y": [{"z": "w" * 90}, [], {}]}},
    ],
)
def test_a_literal_is_the_value(value: Mapping[str, Any]) -> None:
    assert ast.literal_eval(literal(value)) == value


def test_what_has_no_form_says_so() -> None:
    request = request_of_turn(weather("anthropic").session.turns[0])
    for odd in (replace(request, body="[]"), replace(request, url="https://x.test/else")):
        text, notes = source(odd, {})
        assert "curl" in notes[0]
        ast.parse(text)
    empty = Kind("anthropic").bundle()
    assert write(empty).notes == ("Nothing was sent yet.",)
