"""Whatever stands in a session, the programs that are made of it hold it in literals only."""

from __future__ import annotations

import ast
import io
import json
import os
import subprocess
import tokenize
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from playground.core.events import RequestSent, ResponseStarted
from playground.core.reducer import fold
from playground.exchange import replay_test, requests_export, sdk_script
from playground.exchange.bundle import RecordedChunk, SessionBundle
from playground.exchange.export_formats import EXPORTS
from playground.exchange.requests_export import request_of_turn
from playground.render.wire_rows import Section
from tests.exchange.asking import PROTOCOLS, weather
from tests.tables import rest_slow

TEXTS = (
    'x"""+evil()+"""',
    "x'''+evil()+'''",
    "\\",
    'x"+evil()+"',
    "'; touch evil; '",
    "\ntouch evil\nevil()\n",
    "\r\u2028\x85\x0cevil()",
    "$(touch evil)`touch evil`",
    '"$(touch evil)"',
    "{evil()}{0}%s",
    "\ud800\u202e\0",
)
WORDS = ("Paris", "get_weather", "degrees", "simulator")


def swapped(value: Any, text: str) -> Any:
    """`value` with `text` for each of WORDS, also within the JSON that is a text of it."""
    match value:
        case str():
            inside = json.dumps(text)[1:-1] if value[:1] in ("{", "[") else text
            for word in WORDS:
                value = value.replace(word, inside)
            return value
        case dict():
            return {swapped(k, text): swapped(v, text) for k, v in value.items()}
        case list() | tuple():
            return type(value)(swapped(item, text) for item in value)
        case _ if is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in fields(value)]
            return replace(value, **{n: swapped(getattr(value, n), text) for n in names})
    return value


def hostile(session_bundle: SessionBundle, text: str, more: str = "****") -> SessionBundle:
    """A session with `text` in its title, names, arguments, results, headers, addresses, bytes."""
    log = []
    for logged in session_bundle.log:
        event = swapped(logged.event, text)
        if isinstance(event, RequestSent):
            headers = {**event.headers, text: more, f"x-{text}": text, "x-a": text, "x-b": more}
            url = event.url.replace("http://127.0.0.1:1234/", f"http://127.0.0.1:1234/{text}/")
            event = replace(event, headers=headers, url=url)
        log.append(replace(logged, event=event))
    raw = json.dumps(text)[1:-1].encode()
    recordings = {}
    for number, recording in session_bundle.recordings.items():
        data = recording.data
        for word in WORDS:
            data = data.replace(word.encode(), raw)
        recordings[number] = replace(recording, pieces=[RecordedChunk(0, data)])
    return replace(
        session_bundle,
        session=fold("s1", log),
        log=log,
        title=text,
        recordings=recordings,
        tags=(text,),
    )


def code_of(text: str) -> Iterator[str]:
    """All of a Python file that is no literal and no docstring: names, comments, what it does."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Constant):
            for _, value in ast.iter_fields(node):
                yield from [value] if isinstance(value, str) else []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


@pytest.mark.parametrize("protocol", rest_slow(PROTOCOLS, 2))
def test_no_python_file_does_what_a_session_says(protocol: str) -> None:
    def shape(data: bytes) -> list[type]:
        return [type(node) for node in ast.parse(data).body]

    mild = weather(protocol).bundle()
    shapes = {write: shape(write(mild).data) for write in (sdk_script.write, replay_test.write)}
    for text in TEXTS:
        session_bundle = hostile(mild, text)
        for write, wanted in shapes.items():
            output = write(session_bundle).data.decode()
            assert not [word for word in code_of(output) if "evil" in word], (text, write)
            assert shape(output.encode()) == wanted
        for turn in session_bundle.session.turns:
            model_request = request_of_turn(turn)
            odd = (f"Left out: {text}.", *model_request.notes)
            output, _ = sdk_script.source(replace(model_request, notes=odd), {text: [text]}, text)
            assert not [word for word in code_of(output) if "evil" in word], text


def test_no_shell_does_what_a_session_says(tmp_path: Path) -> None:
    mild = weather("gemini").bundle()
    scripts = [requests_export.write_curl(hostile(mild, text)).data for text in TEXTS]
    # In place of curl a function that takes its words and does nothing.
    script = b"curl() { echo asked; }\n" + b"\n".join(scripts)
    done = subprocess.run(
        ["/bin/sh"], input=script, cwd=tmp_path, capture_output=True, timeout=30, check=False,
        env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.stdout.split() == [b"asked"] * 2 * len(TEXTS), done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "body",
    [
        {"tools": [{"functionDeclarations": 1}], "contents": 1},
        {"tools": 1, "contents": [1], "messages": 1},
        {"tools": [{"functionDeclarations": [1]}], "contents": [{"parts": 1}], "messages": [1]},
        {"temperature": float("inf"), "messages": []},
        {"messages": json.loads("[" * 400 + "]" * 400)},
        {"tools": {}, "generationConfig": 1, "messages": {}, "contents": {"parts": [1]}},
    ],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_body_of_any_shape_makes_a_file(protocol: str, body: Any) -> None:
    request = request_of_turn(weather(protocol).session.turns[0])
    text, _ = sdk_script.source(
        replace(request, body=json.dumps(body).replace("Infinity", "1e999")), {}
    )
    assert "inf" not in code_of(text)


def addressed(url: str, **head: Any) -> SessionBundle:
    """A session whose requests went to `url`, and were answered by `head`."""
    session_bundle = weather("openai_chat").bundle()
    log = []
    for logged in session_bundle.log:
        event = logged.event
        if isinstance(event, RequestSent):
            event = replace(event, url=url)
        if isinstance(event, ResponseStarted):
            event = replace(event, **head)
        log.append(replace(logged, event=event))
    return replace(session_bundle, session=fold("s1", log), log=log)


@pytest.mark.parametrize("form", [name for name in EXPORTS if name != "html"])
@pytest.mark.parametrize("url", ["http://[", "http://a:99999/v1/chat/completions", "", "-o/tmp/x"])
def test_an_address_of_any_kind_makes_a_file(url: str, form: str) -> None:
    session_bundle = addressed(url)
    assert EXPORTS[form].write(session_bundle).data
    assert Section(1, protocol="openai_chat", method="POST", url=url, size=0, sent_ms=0).path


def test_curl_takes_an_address_as_it_stands() -> None:
    turn = addressed("http://a/{b}[1]").session.turns[0]
    request = request_of_turn(turn)
    assert requests_export.curl_command(replace(request, url="http://a/{b}[1]")).startswith(
        "curl -g 'http://a/{b}"
    )
    assert requests_export.curl_command(replace(request, url="-o/x")).startswith(
        "curl --url '-o/x'"
    )


@pytest.mark.parametrize(("status", "output"), [(307, "/else?a=b"), (201, "")])
def test_an_archive_says_where_a_redirect_points_to(status: int, output: str) -> None:
    session_bundle = addressed("http://a/b", status=status, headers={"Location": "/else?a=b"})
    log = json.loads(EXPORTS["har"].write(session_bundle).data)["log"]
    assert {entry["response"]["redirectURL"] for entry in log["entries"]} == {output}
