"""No secret that was planted leaves, in any export and in any form of it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.core.events import (
    CallChecked,
    CallDecided,
    CallEnded,
    CallProgressed,
    CallStarted,
    Logged,
    PartDelta,
    PartEnded,
    PromptAdded,
    RequestSent,
    ResponseFailed,
    ResponseStarted,
    Source,
    Warned,
)
from playground.core.settings import Profile
from playground.core.tools import Content, Tool, ToolResult
from playground.engine.export_session import is_private, page_assets, redact_bundle
from playground.exchange.bundle import (
    ExportFile,
    RecordedChunk,
    Recording,
    SessionBundle,
    read_session,
)
from playground.exchange.export_formats import EXPORTS
from playground.exchange.session_redaction import redact_session
from playground.protocols.registry import CODECS
from tests.factories import Log
from tests.factories import settings as made

KNOWN = "kn0wn+secret/of=ours-12345"
ENV = {"HOUSE_MOTTO": "blue 7 elephants!", "DATABASE_PASSWORD": "correct-horse"}
SHAPED = {
    "make": "sk-ant-api03-AbCdEfGhIjKlMnOp0123456789",
    "bearer": "opaque~token.0123456789",
    "cookie": "c00kie-value-abcdef",
    "url": "urlpass-99-word",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlLXg",
}
PLANTED = (KNOWN, *ENV.values(), *SHAPED.values())


def forms(secret: str) -> Iterator[str]:
    """As it is, in base64 at any alignment, in URLs, in JSON."""
    raw = secret.encode()
    yield secret
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield json.dumps(secret)[1:-1]
    for before in ("", "x", "xy"):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            # What the neighbours of the secret do not decide of it.
            yield encode(before.encode() + raw).decode().rstrip("=")[len(before) and 4 : -4]


def everything() -> str:
    """One text with all that is planted, each where its kind shows it."""
    shaped_lines = {
        "make": SHAPED["make"],
        "bearer": f"authorization: Bearer {SHAPED['bearer']}",
        "cookie": f"Cookie: sid={SHAPED['cookie']}; a=b",
        "url": f"https://me:{SHAPED['url']}@example.org/",
        "jwt": SHAPED["jwt"],
    }
    secret_texts = [KNOWN, *ENV.values(), *shaped_lines.values()]
    coded = [base64.b64encode(f"x{text}y".encode()).decode() for text in PLANTED]
    return " | ".join([*secret_texts, *coded, *(quote(text, safe="") for text in PLANTED)])


def request_fields(body: Any) -> dict[str, Any]:
    headers = {
        "authorization": f"Bearer {SHAPED['bearer']}",
        "cookie": f"sid={SHAPED['cookie']}",
        "x-api-key": SHAPED["make"],
        "content-type": "application/json",
    }
    url = f"https://me:{SHAPED['url']}@example.org/v1/messages?jwt={SHAPED['jwt']}"
    return {"headers": headers, "url": url, "body": json.dumps(body)}


def planted(text: str) -> SessionBundle:
    """A session with `text` in every place that a text can have; of a long one the beginning in
    its title."""
    profile = Profile("mine", "anthropic", "https://api.anthropic.com", headers={"x-note": text})
    tool = Tool(
        "fetch",
        text,
        {"type": "object", "description": text},
        "http",
        {"url": "https://example.org", "headers": {"x-note": text}},
    )
    log = Log().start(made(tool, profile=profile, model="m-1", system=text, extra={"user": text}))
    log.add(PromptAdded(text))
    body = {"model": "m-1", "max_tokens": 9, "messages": [{"role": "user", "content": text}]}
    log.request(**request_fields(body))
    log.events[-1] = replace(
        log.events[-1],
        event=ResponseStarted(200, {"set-cookie": f"sid={SHAPED['cookie']}; Path=/"}, text),
    )
    answer = [text[start : start + 7] for start in range(0, len(text), 7)]
    log.part(0, "text", *answer)
    log.call(1, "fetch", {"file": f"{text}.txt"}).end().check("1.1")
    log.add(CallDecided("1.1", "answer", text=text, digest="d" * 64))
    log.add(CallEnded("1.1", ToolResult((Content(text=text),))))
    log.request(**request_fields(body))
    log.add(ResponseFailed("http", text, 401, error={"message": text}, rate_limits={"a": text}))
    frames = [f"data: {json.dumps({'text': piece})}\n\n".encode() for piece in answer]
    echoed = f"data: {json.dumps({'echo': text})}\n\n".encode()
    events, at = [], 0
    deltas = iter(frames)
    for logged in log.events:
        if isinstance(logged.event, PartDelta) and logged.event.index == 0:
            frame = next(deltas)
            logged = replace(logged, source=Source(1, at, at + len(frame)))
            at += len(frame)
        events.append(logged)
    data = b"".join(frames) + echoed
    pieces = [RecordedChunk(5, data[start : start + 11]) for start in range(0, len(data), 11)]
    digest = hashlib.sha256(data).hexdigest()
    recordings = {
        1: Recording(1, pieces, True, (), digest),
        2: Recording(2, [RecordedChunk(6, echoed)]),
    }
    tags = tuple(PLANTED)
    return SessionBundle(
        log.session(),
        title=f"T {text[:5_000]}",
        log=events,
        recordings=recordings,
        tags=tags,
        parent="",
        created_ms=5,
        look=page_assets(),
    )


WHOLE = planted(everything())
MASKED = redact_bundle(WHOLE, {KNOWN}, ENV, ())


def texts_of(form: str, written: ExportFile) -> str:
    """The file, and what its own base64 of recordings holds."""
    text = written.data.decode("utf-8", "replace")
    if form == "jsonl":
        session_bundle = read_session(written.data, "n")
        text += "".join(
            value.data.decode("latin-1") for value in session_bundle.recordings.values()
        )
    return text + written.file_name + " ".join(written.notes)


@pytest.mark.parametrize("form", EXPORTS)
def test_nothing_that_was_planted_leaves(form: str) -> None:
    text = texts_of(form, EXPORTS[form].write(MASKED.bundle))
    leaked_forms = {form for secret in PLANTED for form in forms(secret) if form in text}
    assert not leaked_forms


def test_the_planted_are_there_before() -> None:
    text = texts_of("jsonl", EXPORTS["jsonl"].write(WHOLE))
    assert [secret for secret in PLANTED if secret not in text] == []


def test_it_says_where() -> None:
    places = {mark.where: mark.count for mark in MASKED.marks}
    for where in ("title", "tags", "settings", "prompt 1", "request 1", "headers of answer 1"):
        assert places[where]
    for where in ("answer 1", "call 1.1", "error of answer 2", "bytes of answer 1"):
        assert places[where]


@pytest.mark.parametrize("secret", [KNOWN, SHAPED["make"]])
@pytest.mark.parametrize("cut", [3, 9, 20])
def test_what_a_call_prints_is_masked_as_one_text(secret: str, cut: int) -> None:
    log = Log().start(made(model="m-1")).prompt("hi")
    log.request().part(0, "text", "x").call(1, "work", "{}").end().check("1.1")
    log.add(CallDecided("1.1", "run", digest="d" * 64), CallStarted("1.1", 1))
    printed = f"out: {secret} done"
    for text in (printed[: 5 + cut], printed[5 + cut :]):
        log.add(CallProgressed("1.1", "", None, text))
    (redaction,) = (
        m
        for m in redact_bundle(SessionBundle(log.session(), "", log.events), {KNOWN}, {}, ()).marks
    )
    assert (redaction.where, redaction.count) == ("call 1.1", 2)
    masked = redact_bundle(SessionBundle(log.session(), "", log.events), {KNOWN}, {}, ()).bundle.log
    texts = [logged.event.output for logged in masked if isinstance(logged.event, CallProgressed)]
    assert "".join(texts) == f"out: {'*' * len(secret)} done"
    assert len(texts[0]) == 5 + cut


@pytest.mark.parametrize("levels", range(4))
def test_a_known_secret_in_lines_of_base64_is_masked_and_the_lines_stay(levels: int) -> None:
    before, after = "x" * 50, "y" * 50
    text = base64.encodebytes(f"{before}{KNOWN}{after}".encode()).decode()
    joined_text = "".join(text.split())
    for _ in range(levels):
        text = json.dumps(text)
    log = Log().start().prompt(text).events
    (message,) = (
        logged.event.text
        for logged in redact_session(
            SessionBundle(Log().start().session(), "", log), [KNOWN]
        ).bundle.log
        if isinstance(logged.event, PromptAdded)
    )
    assert len(message) == len(text)
    stars = {place for place, (a, b) in enumerate(zip(text, message, strict=True)) if a != b}
    assert all(text[place].isalnum() or text[place] in "+/" for place in stars)
    assert len(stars) >= len(KNOWN) * 4 // 3 - 1
    assert joined_text[68:100] not in message.replace("\\", "").replace("n", "")


@pytest.mark.parametrize("levels", range(4))
@pytest.mark.parametrize("protocol", CODECS)
def test_a_known_secret_in_lines_of_base64_leaves_in_no_recorded_bytes(
    protocol: str, levels: int
) -> None:
    """However often it stands in a JSON text within another, and whatever piece a byte came in."""
    text = base64.encodebytes(f"{'x' * 50}{KNOWN}{'y' * 50}".encode()).decode()
    joined_text = "".join(text.split())
    for _ in range(levels):
        text = json.dumps(text)
    data = f"{protocol} data: {text}\n\n".encode()
    for size in (7, len(data)):
        pieces = [
            RecordedChunk(5, data[start : start + size]) for start in range(0, len(data), size)
        ]
        session_bundle = SessionBundle(
            Log().start().session(), "", Log().start().events, {1: Recording(1, pieces)}
        )
        recording = redact_session(session_bundle, [KNOWN]).bundle.recordings[1]
        left = recording.data.decode().replace("\\", "").replace("n", "")
        assert len(recording.data) == len(data)
        assert joined_text[68:100].replace("n", "") not in left
        assert recording.data.count(b"*") >= len(KNOWN) * 4 // 3 - 1


@pytest.mark.parametrize("code", [lambda raw: base64.b64encode(raw).decode(), quote])
def test_what_looks_like_a_secret_is_found_where_it_is_only_coded(code: Any) -> None:
    coded = code(f"cookie: sid={SHAPED['cookie']}".encode())
    log = Log().start().prompt(f"it was {coded}").events
    (redaction,) = redact_session(SessionBundle(Log().start().session(), "", log), []).marks
    assert redaction.where == "prompt 1"


def test_lengths_stay_and_hashes_are_of_what_leaves() -> None:
    for number, recording in MASKED.bundle.recordings.items():
        before = WHOLE.recordings[number]
        assert [len(p.data) for p in recording.pieces] == [len(p.data) for p in before.pieces]
        changed = {
            n for n, (a, b) in enumerate(zip(recording.data, before.data, strict=True)) if a != b
        }
        assert changed <= {n for start, end in recording.masked for n in range(start, end)}
    recording = MASKED.bundle.recordings[1]
    assert recording.sha256 == hashlib.sha256(recording.data).hexdigest()


def test_a_secret_in_pieces_is_masked_in_each_and_in_its_frame() -> None:
    """What is decoded of the bytes that leave is what the log that leaves says."""
    recording, lines = MASKED.bundle.recordings[1], []
    for logged in MASKED.bundle.log:
        if isinstance(logged.event, PartDelta) and logged.source and logged.event.index == 0:
            frame = recording.data[logged.source.start : logged.source.end]
            lines.append(logged.event.text)
            assert json.loads(frame.removeprefix(b"data: "))["text"] == logged.event.text
    ended = [o.event for o in MASKED.bundle.log if isinstance(o.event, PartEnded)]
    assert "".join(lines) == ended[0].text


def test_a_secret_in_pieces_is_masked_in_its_frames_however_these_escape_it() -> None:
    log = Log().start().request().part(0, "text", *KNOWN).end()
    events: list[Logged] = []
    frames: list[bytes] = []
    for logged in log.events:
        if isinstance(logged.event, PartDelta):
            escaped = "".join(f"\\u{ord(char):04x}" for char in logged.event.text)
            at = sum(map(len, frames))
            frames.append(f'data: {{"text": "{escaped}"}}\n\n'.encode())
            logged = replace(logged, source=Source(1, at, at + len(frames[-1])))
        events.append(logged)
    pieces = [RecordedChunk(5, frame) for frame in frames]
    session_bundle = SessionBundle(log.session(), "", events, {1: Recording(1, pieces)})
    left = redact_session(session_bundle, [KNOWN]).bundle.recordings[1]
    assert [piece.data.count(b"*") for piece in left.pieces] == [6] * len(KNOWN)


def test_bodies_stay_json_and_words_stay() -> None:
    for logged in MASKED.bundle.log:
        if isinstance(logged.event, RequestSent):
            assert json.loads(logged.event.body)["model"] == "m-1"
            assert logged.event.protocol == "anthropic"
            assert logged.event.headers["authorization"].startswith("Bearer *")


def test_the_last_one_is_kept_until_anything_of_it_is_another() -> None:
    first = redact_bundle(WHOLE, {KNOWN}, ENV, ()).bundle
    assert (
        redact_bundle(replace(WHOLE, log=list(WHOLE.log)), {KNOWN}, ENV, ()).bundle.log is first.log
    )
    others = (
        redact_bundle(WHOLE, set(), ENV, ()),
        redact_bundle(replace(WHOLE, title="T"), {KNOWN}, ENV, ()),
        redact_bundle(replace(WHOLE, recordings={}), {KNOWN}, ENV, ()),
        redact_bundle(WHOLE, {KNOWN}, ENV, ("recordings",)),
    )
    assert all(other.bundle.log is not first.log for other in others)
    assert others[1].bundle.title == "T"


def test_twice_is_once_and_nothing_found_is_nothing_changed() -> None:
    again = redact_bundle(MASKED.bundle, {KNOWN}, ENV, ())
    assert again.marks == ()
    assert again.bundle.log == MASKED.bundle.log
    assert again.bundle.recordings == MASKED.bundle.recordings


@pytest.mark.parametrize(
    ("name", "value", "private"),
    [
        ("MOTTO", "blue 7 elephants!", True),
        ("MOTTO", "short", False),
        ("MOTTO", "production", False),
        ("YEAR", "20261122", False),
        ("API_BASE_URL", "https://example.org:8080/v1", False),
        ("API_BASE_URL", "https://example.org/?sig=1234567890", True),
        ("DATABASE_URL", "postgres://me:pass@host/db", True),
        ("MODEL", "m-1-of-this-session", False),
        ("MY_TOKEN", "m-1-of-this-session", True),
    ],
)
def test_what_of_an_env_file_is_private(name: str, value: str, private: bool) -> None:
    session = Log().start(made(model="m-1-of-this-session")).session()
    assert is_private(name, value, session) is private


def redact_prompts(bundle: SessionBundle) -> tuple[list[str], dict[str, int]]:
    """The prompts as they leave, and how often there are stars where."""
    done = redact_session(bundle, [])
    prompts = [
        logged.event.text for logged in done.bundle.log if isinstance(logged.event, PromptAdded)
    ]
    return prompts, {mark.where: mark.count for mark in done.marks}


@pytest.mark.parametrize(
    ("prompt", "marks"), [("hi", {}), (f"api_key={'0a' * 32}", {"prompt 1": 1})]
)
def test_our_own_fields_are_no_secrets(prompt: str, marks: dict[str, int]) -> None:
    log = Log().start(made(model="m-1")).prompt(prompt).request().part(0, "text", "x")
    log.call(1, "work", "{}").end().check("1.1")
    log.events[-1] = replace(
        log.events[-1], event=CallChecked("1.1", digest="0a" * 32, code="0a" * 32)
    )
    log.add(Warned("a1b2c3d4e5f6a7b8c9", "a word"))
    assert redact_prompts(SessionBundle(log.session(), "", log.events))[1] == marks


def test_a_key_of_an_object_that_is_called_like_our_field_is_looked_at() -> None:
    key = SHAPED["make"]
    config = {
        "protocol": key,
        "method": key,
        "code": key,
        "limit": [key],
        "key": "opaque01234567890",
    }
    tool = Tool("fetch", "", {"type": "object"}, "http", config)
    log = Log().start(made(tool, model="m-1"))
    assert redact_prompts(SessionBundle(log.session(), "", log.events))[1] == {"settings": 4}


@pytest.mark.parametrize(
    ("text", "far"),
    [
        ("password=correct-horse-1", "correct-horse-1"),
        ("password=not-so-short-words", "not-so-short-words"),
        ("https://x.example/?api_key=model-of-this-session-1", "model-of-this-session-1"),
    ],
)
def test_what_may_be_no_secret_is_starred_only_where_it_stands(text: str, far: str) -> None:
    model = "model-of-this-session-1"
    log = Log().start(made(model=model)).prompt(text)
    prompts, marks = redact_prompts(SessionBundle(log.session(), f"so {far} it is", log.events))
    assert prompts == [text.replace(far, "*" * len(far))]
    assert list(marks) == ["prompt 1"]


def test_what_is_surely_one_is_starred_everywhere() -> None:
    log = Log().start(made(model="m-1")).prompt("password=opaque0123456789abc")
    session_bundle = SessionBundle(log.session(), "so opaque0123456789abc it is", log.events)
    assert redact_session(session_bundle, []).bundle.title == f"so {'*' * 19} it is"


def test_an_address_that_is_called_a_key_leaves_the_address_of_the_request() -> None:
    url = "http://127.0.0.1:8080/x"
    log = Log().start(made(model="m-1")).prompt(f"api_key={url} and api_key=127.0.0.1:8080/x2/ab")
    log.request(url=url)
    done = redact_session(SessionBundle(log.session(), "", log.events), []).bundle
    assert [logged.event.url for logged in done.log if isinstance(logged.event, RequestSent)] == [
        url
    ]


@settings(derandomize=True, deadline=None)
@given(st.lists(st.integers(1, 9), max_size=8), st.sampled_from(sorted(CODECS)))
def test_a_secret_is_found_however_the_bytes_are_cut(cuts: list[int], protocol: str) -> None:
    data = f"{protocol} before {KNOWN} after".encode()
    pieces, start = [], 0
    for size in cuts:
        if data[start : start + size]:
            pieces.append(RecordedChunk(1, data[start : start + size]))
        start += size
    if data[start:]:
        pieces.append(RecordedChunk(1, data[start:]))
    log: list[Logged] = Log().start().events
    session_bundle = SessionBundle(Log().start().session(), "", log, {1: Recording(1, pieces)})
    recording = redact_session(session_bundle, [KNOWN]).bundle.recordings[1]
    assert recording.data == data.replace(KNOWN.encode(), b"*" * len(KNOWN))
    assert len(recording.pieces) == len(pieces)
