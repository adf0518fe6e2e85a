"""One HTML file: it holds all there is, acts on nothing, and is not much larger than its data."""

from __future__ import annotations

import base64
import json
import lzma
import random
import re
import string
import zlib
from dataclasses import replace
from typing import Any

import pytest

from playground.core.errors import BadInput
from playground.core.events import CallEnded, Logged
from playground.core.reducer import fold
from playground.core.serialization import to_row
from playground.core.tools import Content, ToolResult
from playground.engine.export_session import page_assets
from playground.exchange import html
from playground.exchange.bundle import RecordedChunk, Recording, SessionBundle
from playground.exchange.session_redaction import omit
from tests.factories import Log
from tests.render.logs import STORIES
from tests.tables import rest_slow

ROOM = 150_000
"""Bytes that the file may be larger than what is kept of its session."""


def make_bundle(log: list[Logged], *bodies: bytes, title: str = "A story") -> SessionBundle:
    recordings = {
        number: Recording(number, [RecordedChunk(log[-1].at_ms, body)], clean=True)
        for number, body in enumerate(bodies, 1)
    }
    return SessionBundle(fold("s1", log), title, log, recordings, look=page_assets())


def unpacked(page: str) -> Any:
    data = re.search(r'id="data">([^<]+)<', page)
    assert data is not None
    return json.loads(zlib.decompress(base64.b64decode(data[1])))


def size(session_bundle: SessionBundle) -> int:
    rows = (to_row(logged.event) for logged in session_bundle.log)
    recorded = sum(len(recording.data) for recording in session_bundle.recordings.values())
    return recorded + sum(len(kind) + len(body) for kind, body in rows)


def long_story() -> list[Logged]:
    log = Log().start()
    for number in range(30):
        log.prompt(f"Prompt {number}").request()
        for index in range(4):
            log.call(index, "get_weather", {"city": f"City {number}.{index} " + "x" * 200})
        log.end("calls")
        for index in range(4):
            log.check(f"{number * 2 + 1}.{index}").run(f"{number * 2 + 1}.{index}", "11 " * 40)
        log.request().part(0, "text", *(f"word{n} " for n in range(120))).end("stop")
    return log.events


def unpressed() -> list[Logged]:
    """Arguments and a result that no compression makes smaller, in many tokens and in one."""
    noise = random.Random(7)
    letters = string.ascii_letters + string.digits
    words = ["".join(noise.choices(letters, k=9)) for _ in range(9000)]
    log = Log().start().prompt("Write").request()
    log.call(0, "get_weather", {"city": "".join(words)})
    log.call(1, "get_weather", {"city": "x", **{word: word[:3] for word in words[:4000]}})
    log.end("calls").check("1.0").check("1.1").run("1.0", "".join(words)).run("1.1")
    return log.request().part(0, "text", "Done").end("stop").events


@pytest.mark.parametrize(
    "name", rest_slow([*STORIES, pytest.param("long", marks=pytest.mark.slow), "unpressed"], 2)
)
def test_the_file_is_inert_and_no_larger_than_its_data_and_a_bit(name: str) -> None:
    more = {"long": long_story, "unpressed": unpressed}
    session_bundle = make_bundle(STORIES[name] if name in STORIES else more[name]())
    file = html.write(session_bundle)
    page = file.data.decode("utf-8")
    assert len(file.data) <= size(session_bundle) + ROOM
    output = unpacked(page)
    drawn = page[page.index("<body") : page.index('<script type="text/plain"')]
    for text in (drawn, *output["page"].values(), *(frame[1] for frame in output["frames"])):
        assert not re.search(r"<(form|iframe|object|embed|link|script|textarea)\b", text)
        assert not re.search(
            r"\s(hx-(?!target|swap)[a-z-]+|action|formaction|style|on[a-z]+)=", text
        )
        for address in re.findall(r'\s(?:href|src)="([^"]*)"', text):
            assert address.startswith(("#", "data:image/", "http://", "https://", "mailto:"))
    assert "url(" not in re.sub(r'url\("data:[^"]*"\)', "", page)
    assert re.search(
        r"Content-Security-Policy\" content=\"default-src &#39;none&#39;; script", page
    )
    assert file.file_name == "a-story.html"


def test_what_came_and_what_was_sent_ride_along() -> None:
    log = Log().start().prompt("Weather?").request(body='{"a": "é"}').part(0, "text", "Clear")
    bodies = (bytes(range(256)),)
    output = unpacked(html.write(make_bundle(log.end("stop").events, *bodies)).data.decode())
    assert output["bytes"]["1"].encode("latin-1") == bodies[0]
    assert output["requests"]["1"].endswith('{"a": "é"}')
    assert [kind for _, kind, _ in output["marks"]] == ["prompt", "turn"]
    assert [frame[0] for frame in output["frames"]] == sorted(
        frame[0] for frame in output["frames"]
    )


def test_an_image_is_in_the_file_once() -> None:
    data = base64.b64encode(b"\x89PNG" + bytes(range(256)) * 200).decode()
    image = Content("image", data=data, media_type="image/png")
    log = Log().start().prompt().request().call(0, "get_weather", {"city": "Paris"}).end("calls")
    log.check("1.0").run("1.0")
    last = log.events.pop()
    assert isinstance(last.event, CallEnded)
    log.add(CallEnded("1.0", ToolResult((image,))))
    log.request(body=json.dumps({"image": data})).part(0, "text", "Nice").end("stop")
    session_bundle = make_bundle(log.events)
    file = html.write(session_bundle)
    output = unpacked(file.data.decode())
    assert output["long"].count(f"data:image/png;base64,{data}") == 1
    assert data not in file.data.decode()


def packed(data: bytes) -> str:
    return base64.b64encode(lzma.compress(data, preset=2)).decode()


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("", "has no session to import"),
        (None, "This web page is not a shared session"),
        ("{{", "is damaged"),
        (base64.b64encode(b"no lzma at all").decode(), "is damaged"),
        (packed(b"{}" * 2_000)[:60], "is incomplete"),
    ],
)
def test_a_page_that_bears_no_session_says_so(block: str | None, message: str) -> None:
    script_tag = f'<script type="text/plain" id="lines">{block}</script>' if block else ""
    body = '<body class="shared">' if block is not None else "<body>"
    page = f"\n<!DOCTYPE html>\n<html>{body}{script_tag}</html>".encode()
    assert html.is_page(page)
    with pytest.raises(BadInput, match=message):
        html.lines_of(page)


def test_what_a_page_bears_is_unpacked_as_far_as_a_file_may_be_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = f'<script type="text/plain" id="lines">{packed(b" " * 100_000)}</script>'.encode()
    monkeypatch.setattr(html, "MAX_BYTES", 1_000)
    assert len(html.lines_of(page)) == 1_001


def test_what_an_agent_did_beside_a_session_is_in_its_file_and_can_be_left_out() -> None:
    beside = make_bundle(
        Log().start().prompt("Name it").request().end("stop").events, title="A title"
    )
    session_bundle = replace(make_bundle(STORIES["waiting"]), beside=[beside])
    file = html.write(session_bundle)
    page = file.data.decode()
    assert unpacked(page) == unpacked(html.write(make_bundle(STORIES["waiting"])).data.decode())
    data = re.search(r'id="data-1">([^<]+)<', page)
    assert data is not None
    assert "Name it" in json.loads(zlib.decompress(base64.b64decode(data[1])))["page"]["flow"]
    assert re.findall(r"<option value=\"\d\">\d\. ([^<]+)", page) == ["A story", "A title"]
    assert [note for note in file.notes if "without its side sessions" in note]
    alone = html.write(omit(session_bundle, ["beside"]))
    assert "data-1" not in alone.data.decode().partition("<script>")[0]
    assert alone.notes == []
