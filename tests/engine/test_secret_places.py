"""One table: every place finds the same secret by the same rules, in every form."""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Callable
from urllib.parse import quote

import pytest

from playground import config
from playground.core.errors import BadInput
from playground.core.events import CallEnded, PartDelta, PartEnded, PartStarted, PromptAdded, Warned
from playground.core.rules import Rule
from playground.core.tools import Content, Tool, ToolResult
from playground.engine.export_session import is_private
from playground.engine.redaction import (
    StreamRedactor,
    check_address,
    check_rule,
    check_tools,
    redact_event,
)
from playground.engine.settings import profile_from
from playground.exchange.bundle import RecordedChunk, Recording, SessionBundle
from playground.exchange.requests_import import read_requests
from playground.exchange.session_redaction import redact_session
from playground.schema.validate import check_config
from playground.secrets.redaction import Redactor
from tests.factories import Log, settings

SECRET = "kn0wn+secret/of=ours-12345"
CODED = base64.b64encode(f"{'x' * 40}{SECRET}{'y' * 60}".encode()).decode()
"""The secret's base64 begins at its 55th character, and ends behind its 88th."""

NAMES = (
    *("Authorization", "Proxy-Authorization", "x-api-key", "api-key", "x-goog-api-key", "Cookie"),
    *("Ocp-Apim-Subscription-Key", "x-functions-key", "X-Amz-Security-Token", "Private-Token"),
    *("x-auth", "x-password", "x-secret", "x-credential", "x-session-id", "x-hub-signature"),
)
HARMLESS = ("accept-language", "x-author", "idempotency-key", "x-design", "x-max-tokens")


def cut(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def in_lines(size: int, line_end: str) -> str:
    return line_end.join(cut(CODED, size))


FORMS = {
    "plain": SECRET,
    "JSON": json.dumps({"key": SECRET}),
    "JSON, escaped throughout": "".join(f"\\u{ord(char):04x}" for char in SECRET),
    "JSON twice": json.dumps(json.dumps(SECRET.replace("/", "\\/")))[1:-1],
    "base64": CODED,
    "base64 in lines": in_lines(76, "\n"),
    "base64 in short lines": in_lines(64, "\r\n"),
    "base64 in lines, in JSON": json.dumps({"file": in_lines(76, "\n")}),
    "percent": quote(SECRET, safe=""),
    "percent twice": quote(quote(SECRET, safe=""), safe=""),
    "header": f"Authorization: Bearer {SECRET}",
    "query": f"https://h.example/x?key={quote(SECRET, safe='')}&page=2",
}


def as_text(redactor: Redactor, text: str) -> str:
    return redactor.redact_text(text)


def as_bytes(redactor: Redactor, text: str) -> str:
    return redactor.redact_bytes(text.encode()).decode()


def as_names(redactor: Redactor, text: str) -> str:
    (name,) = redactor.redact_data({text: 1})
    return str(name)


def prompt(redactor: Redactor, text: str) -> str:
    event = redact_event(PromptAdded(text), redactor)
    assert isinstance(event, PromptAdded)
    return event.text


def result_text(redactor: Redactor, text: str) -> str:
    event = redact_event(CallEnded("1.1", ToolResult((Content(text=text),))), redactor)
    assert isinstance(event, CallEnded)
    return event.result.content[0].text


def note(redactor: Redactor, text: str) -> str:
    event = redact_event(Warned("x", text), redactor)
    assert isinstance(event, Warned)
    return event.message


def log_line(redactor: Redactor, text: str) -> str:
    record = logging.makeLogRecord({"levelno": logging.ERROR, "msg": "%s", "args": (text,)})
    config.log_filter(redactor.redact_text)(record)
    return str(record.msg)


def expect_refusal(check: Callable[[Redactor, str], None]) -> Callable[[Redactor, str], str]:
    def place(redactor: Redactor, text: str) -> str:
        try:
            check(redactor, text)
        except BadInput as error:
            return str(error)
        return text

    return place


def tool_holds(redactor: Redactor, text: str) -> None:
    check_tools([Tool("t", text, {}, "person", {})], redactor)


def rule_holds(redactor: Redactor, text: str) -> None:
    check_rule(Rule("r", "deny", text=text), redactor)


def recording(redactor: Redactor, text: str) -> str:
    log = Log().start(settings())
    log.request()
    pieces = [RecordedChunk(0, piece.encode()) for piece in cut(text, 5)]
    known = {1: Recording(1, pieces, False, (), "")}
    bundle = SessionBundle(log.session(), "t", log.events, known)
    return redact_session(bundle, [SECRET], shapes=False).bundle.recordings[1].data.decode()


def export(redactor: Redactor, text: str) -> str:
    log = Log().start(settings())
    log.request().part(0, "text", *cut(text, 5)).end()
    bundle = SessionBundle(log.session(), "t", log.events, {})
    left = redact_session(bundle, [SECRET], shapes=False).bundle
    deltas = [item.event.text for item in left.log if isinstance(item.event, PartDelta)]
    ends = [item.event.text for item in left.log if isinstance(item.event, PartEnded)]
    assert ends == ["".join(deltas)]
    return ends[0]


def live(size: int) -> Callable[[Redactor, str], str]:
    """What is shown of an answer whose deltas have `size` characters; its bytes say the same."""

    def place(redactor: Redactor, text: str) -> str:
        stream_redactor, frames = StreamRedactor(1, redactor), bytearray()
        shown: list[str] = []

        def take() -> None:
            released = stream_redactor.release(stream_redactor.size)
            shown.extend(
                event.text for event, *_ in released.events if isinstance(event, PartDelta)
            )
            frames.extend(b"".join(chunk.data for chunk in released.chunks))

        stream_redactor.add_event(PartStarted(0, "text", "", ""), 0, 0, 0)
        for piece in cut(text, size):
            frame, start = f"data: {json.dumps({'text': piece})}\n\n".encode(), stream_redactor.size
            stream_redactor.add_bytes(frame, 0)
            stream_redactor.add_event(PartDelta(0, piece), 0, start, stream_redactor.size)
            take()
        stream_redactor.add_event(
            PartEnded(0, text=text, name="", provider_id="", meta={}, complete=True),
            0,
            stream_redactor.size,
            stream_redactor.size,
        )
        take()
        lines = [json.loads(line[6:])["text"] for line in bytes(frames).split(b"\n\n")[:-1]]
        assert [len(piece) for piece in shown] == [*map(len, cut(text, size))]
        assert not shows("".join(lines))
        return "".join(shown)

    return place


PLACES: dict[str, Callable[[Redactor, str], str]] = {
    "text": as_text,
    "bytes": as_bytes,
    "names of JSON": as_names,
    "prompt": prompt,
    "result": result_text,
    "note": note,
    "log line": log_line,
    "tool": expect_refusal(tool_holds),
    "rule": expect_refusal(rule_holds),
    "recording": recording,
    "export": export,
    "live, at once": live(10_000),
    "live, in pieces": live(7),
    "live, by the character": live(1),
}


def shows(text: str) -> bool:
    """Whether `text` shows the secret, after whatever one may undo: more than the three characters
    that may have been seen before it was known that there is one."""
    stored_text = text
    for _ in range(4):
        stored_text = _unescaped(stored_text)
    joined = stored_text.replace("\r", "").replace("\n", "")
    core = (SECRET[4:], quote(SECRET, safe="")[6:], quote(quote(SECRET, safe=""), safe="")[8:])
    return any(form in stored_text for form in core) or CODED[58:84] in joined


def _unescaped(text: str) -> str:
    return re.sub(r"\\(u[0-9a-f]{4}|.)", _meaning, text)


def _meaning(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else {"n": "\n", "r": "\r"}.get(code, code)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("form", FORMS)
def test_every_place_hides_every_form(place: str, form: str) -> None:
    text = FORMS[form]
    assert shows(text), "the row shows nothing to begin with"
    stored_text = PLACES[place](Redactor([SECRET]), text)
    assert not shows(stored_text), stored_text


def profile_header(name: str) -> bool:
    data = {"name": "mine", "protocol": "ollama", "base_url": "http://127.0.0.1:9"}
    return is_refused(lambda: profile_from({**data, "headers": {name: "0"}}, str))


def tool_header(name: str) -> bool:
    config = {"url": "https://h.example/", "headers": {name: "0"}}
    return is_refused(lambda: check_config("http", config))


def address(name: str) -> bool:
    return is_refused(lambda: check_address(f"https://h.example/v1?a=b&{name}=0"))


def pasted_request(name: str) -> bool:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}]})
    url = "http://127.0.0.1:9/v1/chat/completions"
    imported = read_requests(f"curl {url} -H '{name}: 0' -d '{body}'")
    return any("may contain a key" in note for note in imported.notes)


def env_file(name: str) -> bool:
    variable = name.upper().replace("-", "_")
    return is_private(variable, "https://h.example/", Log().start(settings()).session())


def is_refused(check: Callable[[], object]) -> bool:
    try:
        check()
    except BadInput:
        return True
    return False


LITERALS = (profile_header, tool_header, address, pasted_request, env_file)


@pytest.mark.parametrize("name", [*NAMES, *HARMLESS])
def test_every_place_knows_the_names_of_secrets(name: str) -> None:
    harmless = name in HARMLESS
    places = [place.__name__ for place in LITERALS if place(name) == harmless]
    assert places == []
