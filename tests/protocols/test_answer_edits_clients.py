"""The official packages make of an edited answer what they make of one that never had the calls.

Those of npm (openai, @anthropic-ai/sdk, @google/genai) are found in the folder that
PLAYGROUND_NODE_MODULES names.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from playground.protocols.answer_edits import PassableLength, PassedAnswer, edit_answer
from playground.protocols.editable_answer import NewArguments
from tests.protocols.answers import PROTOCOLS, body
from tests.protocols.frames import spanned
from tests.protocols.test_answer_edits import (
    ANSWERS,
    CALLS,
    GONE_ON,
    NEW,
    edits_of,
    joined,
    sets_of_calls,
    without,
)

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]  # packages load for long
ASKED: list[Any] = [{"role": "user", "content": "Hi."}]
SCRIPT = Path(__file__).with_name("answer_edits.mjs")
STREAMS = {"openai_chat", "openai_responses", "anthropic", "gemini"}


def library(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} is not installed (extra: dev)")


def transport(httpx: Any, data: bytes, streamed: bool) -> Any:
    """A client of that library whose every answer is `data`."""
    kind = "text/event-stream" if streamed else "application/json"
    answer = httpx.MockTransport(
        lambda request: httpx.Response(200, headers={"content-type": kind}, content=data)
    )
    return httpx.Client(transport=answer)


def of_anthropic(data: bytes, streamed: bool) -> Any:
    anthropic = library("anthropic")
    client = anthropic.Anthropic(
        api_key="k", http_client=transport(library("httpx2"), data, streamed), max_retries=0
    )
    body: Any = {"model": "m", "max_tokens": 9, "messages": ASKED}
    if not streamed:
        return client.messages.create(**body).model_dump()
    with client.messages.stream(**body) as stream:
        return stream.get_final_message().model_dump()


def of_openai(data: bytes, streamed: bool) -> Any:
    client = library("openai").OpenAI(
        api_key="k", http_client=transport(library("httpx2"), data, streamed), max_retries=0
    )
    if not streamed:
        return client.chat.completions.create(model="m", messages=ASKED).model_dump()
    with client.chat.completions.stream(model="m", messages=ASKED) as stream:
        return stream.get_final_completion().model_dump()


def of_responses(data: bytes, streamed: bool) -> Any:
    client = library("openai").OpenAI(
        api_key="k", http_client=transport(library("httpx2"), data, streamed), max_retries=0
    )
    if not streamed:
        return client.responses.create(model="m", input="Hi.").model_dump()
    with client.responses.stream(model="m", input="Hi.") as stream:
        return stream.get_final_response().model_dump()


def of_google(data: bytes, streamed: bool) -> Any:
    """What a chat remembers, which forgets answers that it takes for broken."""
    genai = library("google.genai")
    options = genai.types.HttpOptions(
        httpx_client=transport(library("httpx2"), data, streamed), base_url="http://127.0.0.1"
    )
    chat = genai.Client(api_key="k", http_options=options).chats.create(model="m")
    if streamed:
        list(chat.send_message_stream("Hi."))
    else:
        chat.send_message("Hi.")
    contents = chat.get_history(curated=True)[1:]
    parts = [part.model_dump(exclude_none=True) for content in contents for part in content.parts]
    return [part for part in parts if part != {"text": ""}]


def of_ollama(data: bytes, streamed: bool) -> Any:
    """The texts together, and the calls."""
    ollama, httpx = library("ollama"), library("httpx")
    client = ollama.Client()
    client._client = httpx.Client(
        base_url="http://127.0.0.1",
        transport=httpx.MockTransport(lambda request: httpx.Response(200, content=data)),
    )
    body: Any = {"model": "m", "messages": ASKED, "stream": streamed}
    answer = client.chat(**body)
    pieces = [piece.model_dump() for piece in (answer if streamed else [answer])]
    message = "".join(piece["message"]["content"] or "" for piece in pieces)
    calls = [result for piece in pieces for result in piece["message"]["tool_calls"] or ()]
    return message, calls, pieces[-1]["done_reason"], pieces[-1]["eval_count"]


CLIENTS: dict[str, Callable[[bytes, bool], Any]] = {
    "anthropic": of_anthropic,
    "openai_chat": of_openai,
    "openai_responses": of_responses,
    "gemini": of_google,
    "ollama": of_ollama,
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_official_package_sees_an_answer_without_the_calls(protocol: str) -> None:
    parts, read = ANSWERS["all kinds"], CLIENTS[protocol]
    for streamed in (True, False):
        data = body(protocol, parts, streamed=streamed)
        for accepted in ((0,), (1,), (0, 2), (0, 1, 2)):
            new = edit_answer(protocol, data, edits_of(parts, accepted))
            plain_body = body(protocol, without(protocol, parts, accepted), streamed=streamed)
            assert read(new, streamed) == read(plain_body, streamed)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_official_package_sees_one_answer_of_two(protocol: str) -> None:
    """Its final object is that of an answer without the calls that were answered here."""
    read = CLIENTS[protocol]
    for parts in ANSWERS.values():
        for streamed in (True, False):
            for more in GONE_ON:
                new, plain_body = joined(protocol, parts, more, streamed)
                read_answer = read(new, streamed)
                assert read_answer == read(plain_body, streamed)
                answer_json = json.dumps(read_answer, default=str).encode()
                assert not [word for call in CALLS for word in call.words if word in answer_json]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_official_package_sees_the_new_arguments(protocol: str) -> None:
    parts, read = ANSWERS["all kinds"], CLIENTS[protocol]
    place = parts.index(CALLS[1])
    for streamed in (True, False):
        data = body(protocol, parts, streamed=streamed)
        new = read(edit_answer(protocol, data, {place: NewArguments(NEW)}), streamed)
        answer_json = json.dumps(new, default=str).replace("\\", "")
        assert "first2" not in answer_json
        assert "second2" not in answer_json
        assert (
            answer_json.count("12345678901234567890.5")
            + answer_json.count("1.2345678901234567e+19")
            >= 1
        )


@pytest.mark.parametrize("protocol", sorted(STREAMS | {"ollama"}))
def test_the_official_package_ignores_what_keeps_it_waiting(protocol: str) -> None:
    """Also before all frames, and in the middle of what has passed."""
    parts, read = ANSWERS["all kinds"], CLIENTS[protocol]
    data = body(protocol, parts)
    events = spanned(protocol, data)
    split = PassableLength(protocol).add(data)
    for end in sorted({0, *(start for start, *_ in events if start <= split)}):
        state = PassedAnswer(protocol)
        state.add(data)
        state.pass_on(end)
        waited = data[:end] + state.keepalive() * 2 + data[end:]
        assert read(waited, True) == read(data, True)


# The packages of npm.


def cases() -> Iterator[dict[str, Any]]:
    """Pairs of bodies that are one answer: edited and plain; interrupted by waiting, and not."""
    parts = ANSWERS["all kinds"]
    for protocol in sorted(STREAMS):
        for streamed in (True, False):
            data = body(protocol, parts, streamed=streamed)
            about = {"protocol": protocol, "streamed": streamed}
            for sets_of_call in sets_of_calls():
                edited = edit_answer(protocol, data, edits_of(parts, sets_of_call))
                plain_body = body(
                    protocol, without(protocol, parts, sets_of_call), streamed=streamed
                )
                yield {
                    **about,
                    "name": f"{protocol} {sets_of_call}",
                    "edited": edited,
                    "plain": plain_body,
                }
        data = body(protocol, parts)
        events = spanned(protocol, data)
        split = PassableLength(protocol).add(data)
        for end in sorted({0, *(start for start, *_ in events if start <= split)}):
            state = PassedAnswer(protocol)
            state.add(data)
            state.pass_on(end)
            waited = data[:end] + state.keepalive() * 2 + data[end:]
            about = {"protocol": protocol, "streamed": True, "name": f"{protocol} at {end}"}
            yield {**about, "edited": waited, "plain": data}


def test_the_packages_of_npm(tmp_path: Path) -> None:
    modules, node = os.environ.get("PLAYGROUND_NODE_MODULES"), shutil.which("node")
    names = ("openai", "@anthropic-ai/sdk", "@google/genai")
    if node is None or not modules or not all((Path(modules) / name).is_dir() for name in names):
        pytest.skip("The folder that PLAYGROUND_NODE_MODULES names does not have all three.")
    (tmp_path / "node_modules").symlink_to(modules)
    script, cases_path = tmp_path / SCRIPT.name, tmp_path / "cases.json"
    script.write_text(SCRIPT.read_text())
    cases_path.write_text(json.dumps(list(cases()), default=bytes.decode))
    ran = subprocess.run((node, script, cases_path), capture_output=True, text=True, timeout=50)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr
