"""Imports requests to chat APIs: a body, a curl command, an HTTP archive, or JSON Lines.

`read_requests` parses the text, `session_from_request` converts a request into session events: the
model's messages become answers of its protocol and are decoded by the codec. Nothing is sent or
run; headers that may contain a key are left out by name.
http://www.softwareishard.com/blog/har-12-spec/ https://curl.se/docs/manpage.html
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from playground.core.decide import doubled_ids
from playground.core.events import (
    CallChecked,
    CallEnded,
    Event,
    Logged,
    PromptAdded,
    RequestSent,
    ResponseStarted,
    RunPaused,
    RunStopped,
    SessionStarted,
    Source,
    Warned,
)
from playground.core.reducer import apply
from playground.core.session import Call, Session
from playground.core.settings import PROTOCOLS, Profile, Protocol, Settings
from playground.core.tools import Tool, ToolResult
from playground.exchange.parsers import MOST_BYTES, UnreadableText, json_lines, json_value
from playground.exchange.tool_entry import UNANSWERED
from playground.exchange.tool_import import import_tools
from playground.protocols.base import join_url
from playground.protocols.facts import FACTS
from playground.protocols.registry import REQUEST_READERS, codec
from playground.protocols.request import (
    AnswerMessage,
    PromptMessage,
    RequestItem,
    RequestNotes,
    RequestSetup,
    ResultMessage,
    dicts,
    is_empty,
)
from playground.secrets.names import may_name_secret

MOST_ITEMS = 5_000
"""Messages of one request, and entries of an archive that are read."""

_BODY = ("-d", "--data", "--data-raw", "--data-binary", "--data-ascii", "--json")
_TAKES = (
    *("-A", "--user-agent", "-b", "--cookie", "-e", "--referer", "-m", "--max-time", "-o"),
    *("--output", "-u", "--user", "-x", "--proxy", "--connect-timeout", "--retry", "-w"),
    *("--write-out", "--cacert", "--cert", "--key", "--resolve", "--limit-rate", "-T"),
    *("-c", "-C", "-D", "-E", "-F", "-K", "-P", "-Q", "-r", "-t", "-U", "-y", "-Y", "-z"),
)

_VALUED = {name[1] for name in (*_BODY, *_TAKES, "-X", "-H") if len(name) == 2}
"""Letters of the short options that have a value."""

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"', "0": "\0", "a": "\a"}
_ANSI = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_CURL = re.compile(r"(?m)^\s*(?:\$\s+)?(?:\S*/)?curl(?:\.exe)?\s|^printf %s ")

_CARETS = re.compile(r'curl(?:\.exe)?\s+(?:-\S+\s+)*\^"')
"""Copied by a browser for Windows' command prompt: a caret before each sign, in quotes, too."""

_HEREDOC = re.compile(
    r"""\$'(?:[^'\\]|\\.)*+'|'[^']*+'|"(?:[^"\\]|\\.)*+"|\\.|(?<!\S)#[^\n]*"""
    r"""|<<-?\s*(['"]?)(?P<end>[A-Za-z_][A-Za-z0-9_]*)\1""",
    re.DOTALL,
)
"""Quoted text and comments, which may contain anything, or the end word of a here-document."""

MOST_PARTS = 1_000
"""Texts and calls of one imported answer: a page draws all of them."""

MOST_CALLS = 5_000
"""Calls of a whole imported session."""

MOST_TURNS, MOST_FORKS = 500, 100
"""Requests of an imported session, and its forks: folding revisits all of them."""

WAITS = "This request was imported, not sent. Press Continue here to use it."


@dataclass(frozen=True)
class ImportedRequest:
    """One request of a chat API. `base_url` is its address, "" if unknown; `body` is its text.
    `response` are the received bytes, None if unavailable, with their `status`; `at_ms` is when it
    was sent (Unix ms), 0 for unknown. `notes` are sentences."""

    protocol: Protocol
    setup: RequestSetup
    items: Sequence[RequestItem]
    base_url: str = ""
    path: str = ""
    body: str = ""
    response: bytes | None = None
    status: int = 200
    at_ms: int = 0
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class ImportedRequests:
    """`requests` in order; `problem` says why there are none, "" if there are some."""

    requests: Sequence[ImportedRequest] = ()
    notes: Sequence[str] = ()
    problem: str = ""


def read_requests(text: str) -> ImportedRequests:
    """The requests in `text`. Never raises."""
    try:
        if len(text) > MOST_BYTES:
            raise UnreadableText(f"The text is larger than {MOST_BYTES >> 20} MB.")
        return _read(text.removeprefix("\ufeff"))
    except UnreadableText as error:
        return ImportedRequests(problem=str(error))
    except (RecursionError, MemoryError):  # a net: the parsers bound the depth
        return ImportedRequests(problem="The text is nested too deep.")
    # Any other exception is caused by the text: people import anything.
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        return ImportedRequests(problem=f"This request cannot be read ({type(error).__name__}).")


def _read(text: str) -> ImportedRequests:
    if is_curl(text):
        commands = curl_commands(text)
        last = commands[-1]
        notes = (
            [f"Only the last of {len(commands)} commands was imported."]
            if len(commands) > 1
            else []
        )
        return _request(last.url, last.body, last.headers, notes)
    if text.lstrip()[:1] not in ("{", "["):
        raise UnreadableText("This is not a curl command, an HTTP archive or a request body.")
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) > 1 and all(line.lstrip().startswith("{") for line in lines):
        return _read_lines(text)
    value, note = json_value(text)
    if is_har(value):
        return _read_archive(value)
    if isinstance(value, list):
        if len(value) > MOST_ITEMS:
            raise UnreadableText(f"The list has more than {MOST_ITEMS:,} messages.")
        value = {"messages": value}
    if not isinstance(value, dict):
        raise UnreadableText("This is not a request body.")
    return _request("", json.dumps(value), {}, [note] if note else [], body=value)


def _read_lines(text: str) -> ImportedRequests:
    """JSON Lines of messages, as used for fine-tuning: only the first is imported."""
    values = [value for _, value in json_lines(text)]
    if bad := next((value for value in values if isinstance(value, UnreadableText)), None):
        raise bad
    notes = [f"Only the first of {len(values)} lines was imported."]
    return _request("", json.dumps(values[0]), {}, notes, body=values[0])


def _read_archive(value: Any) -> ImportedRequests:
    exchanges = list(har_exchanges(value))[:MOST_ITEMS]
    known = [exchange for exchange in exchanges if protocol_of(exchange.url, None) is not None]
    if not known:
        raise UnreadableText("No entry of this archive is a request to a known chat API.")
    # Later requests of a run contain the earlier ones: the longest body has the most.
    last = max(known, key=lambda exchange: len(exchange.body))
    number = known.index(last) + 1
    notes = [f"Only request {number}, the longest of {len(known)} in the archive, was imported."]
    longest = _request(last.url, last.body, last.headers, notes if len(known) > 1 else [])
    request = longest.requests[0]
    status = last.status or 200
    whole = replace(request, response=last.response, status=status, at_ms=last.at_ms)
    return ImportedRequests((whole,), longest.notes)


def _request(
    url: str,
    text: str,
    headers: Mapping[str, str],
    notes: Sequence[str],
    body: dict[str, Any] | None = None,
) -> ImportedRequests:
    value = json_value(text)[0] if body is None else body
    if not isinstance(value, dict):
        raise UnreadableText("The body of this request is not a JSON object.")
    protocol = protocol_of(url, value)
    if protocol is None:
        raise UnreadableText("This is not a request to a known chat API.")
    all_notes = [*notes]
    if left := [name for name in headers if may_name_secret(name)]:
        all_notes.append(f"Left out, because they may contain a key: {', '.join(left)}.")
    base_url, path = _address(url, protocol)
    end = _path_end(path, protocol)
    named = end.groupdict() if end else {}
    reader, unread = REQUEST_READERS[protocol], RequestNotes(protocol)
    items = [item for item in reader.items(value, unread) if not is_empty(item)][:MOST_ITEMS]
    if not items:
        raise UnreadableText("This request has no messages.")
    if not any(isinstance(item, AnswerMessage) for item in items) and not base_url:
        all_notes.append(f"Read as a request of {protocol}, judging by its form.")
    setup = reader.setup(value, unread)
    if model := named.get("model"):
        setup = replace(setup, model=model, stream=named["method"].startswith("stream"))
    request = ImportedRequest(
        protocol, setup=setup, items=items, base_url=base_url, path=path, body=text
    )
    return ImportedRequests((request,), (*all_notes, *unread.sentences))


def protocol_of(url: str, body: Mapping[str, Any] | None) -> Protocol | None:
    """The protocol of a request to `url`, by its path, else by its body; None if it is not one of
    ours."""
    path = urlsplit(url).path
    known = (protocol for protocol in PROTOCOLS if _path_end(path, protocol))
    return next(known, _guess_protocol(body) if body is not None else None)


def _path_end(path: str, protocol: Protocol) -> re.Match[str] | None:
    return re.search(FACTS[protocol].path + "$", path)


def _guess_protocol(body: Mapping[str, Any]) -> Protocol | None:
    """The protocol of a body, recognised by its shape; None if it is not one of ours."""
    if isinstance(body.get("contents"), list):
        return "gemini"
    if "input" in body and "messages" not in body:
        return "openai_responses"
    messages = dicts(body.get("messages"))
    if not messages:
        return None
    tools = dicts(body.get("tools"))
    blocks = [block for message in messages for block in dicts(message.get("content"))]
    if any("input_schema" in tool for tool in tools) or any(
        block.get("type") in ("tool_use", "tool_result") for block in blocks
    ):
        return "anthropic"
    if "system" in body or "stop_sequences" in body or "anthropic_version" in body:
        return "anthropic"
    if (
        "options" in body
        or "keep_alive" in body
        or any("tool_name" in message for message in messages)
    ):
        return "ollama"
    return "openai_chat"


def _address(url: str, protocol: Protocol) -> tuple[str, str]:
    """(base URL, rest of the path), without possible keys; an empty URL has no base."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "", "/models" if protocol == "gemini" else FACTS[protocol].path
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    origin = f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")
    end = _path_end(parts.path, protocol)
    return (origin + parts.path[: end.start()], end[0]) if end else (origin, parts.path)


# -- HTTP archives -----------------------------------------------------------------------------


@dataclass(frozen=True)
class HarExchange:
    """One entry. `response` is None if the archive does not contain its bytes."""

    url: str
    body: str
    headers: dict[str, str] = field(default_factory=dict)
    status: int = 0
    response: bytes | None = None
    at_ms: int = 0


def is_har(value: object) -> bool:
    """Whether a JSON value is an HTTP archive."""
    return isinstance(_member(value, "log").get("entries"), list)


def har_exchanges(value: Any) -> Iterator[HarExchange]:
    """The entries with a request body, in the order of the archive."""
    for entry in value["log"]["entries"]:
        request, answer = _member(entry, "request"), _member(entry, "response")
        text, status = _member(request, "postData").get("text"), answer.get("status")
        if not isinstance(text, str) or not isinstance(request.get("url"), str):
            continue
        yield HarExchange(
            request["url"],
            body=text,
            headers=_headers(request.get("headers")),
            status=status if type(status) is int else 0,
            response=_content(answer.get("content")),
            at_ms=_time(entry.get("startedDateTime")),
        )


def _member(value: object, name: str) -> dict[str, Any]:
    member = value.get(name) if isinstance(value, dict) else None
    return member if isinstance(member, dict) else {}


def _headers(value: object) -> dict[str, str]:
    pairs = (
        [header for header in value if isinstance(header, dict)] if isinstance(value, list) else []
    )
    return {str(pair.get("name")).lower(): str(pair.get("value")) for pair in pairs}


def _content(value: object) -> bytes | None:
    text = value.get("text") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(text, str) or not text:
        return None
    if value.get("encoding") != "base64":
        return text.encode("utf-8", "replace")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _time(value: object) -> int:
    """Unix ms; 0 if the time cannot be parsed."""
    try:
        return round(datetime.fromisoformat(str(value)).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return 0


# -- curl command lines ------------------------------------------------------------------------


@dataclass
class CurlCommand:
    """The request of a command line."""

    method: str = ""
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""


def is_curl(text: str) -> bool:
    """Whether `text` is a command line of curl, or a script with some."""
    return _CURL.search(text) is not None


def curl_commands(text: str) -> list[CurlCommand]:
    """The curl commands of `text`, in order; Unreadable with a sentence if one cannot be parsed, or
    if there is none."""
    if _CARETS.search(text):
        text = re.sub(r"\^(\r?\n|.)", lambda match: " " if "\n" in match[1] else match[1], text)
    text, here = _without_heredoc(text)
    commands, words = [], list[str]()
    for word in (*_words(text), "\n"):
        if word not in ("\n", "&&"):
            words.append(word)
            continue
        if any(_is_curl_word(word) for word in words):
            commands.append(_curl_command(words, here))
        words.clear()
    if not commands:
        raise UnreadableText("It has no curl command.")
    return commands


def _is_curl_word(word: str) -> bool:
    return word.removesuffix(".exe").rpartition("/")[2] == "curl"


def _curl_command(line: list[str], here: str | None) -> CurlCommand:
    start = next(place for place, word in enumerate(line) if _is_curl_word(word))
    command, words, piped = CurlCommand(), iter(line[start + 1 :]), line[:start]
    if piped[:2] == ["printf", "%s"] and len(piped) > 2:
        here = _decode_base64(piped[2]) if "base64" in piped else piped[2]
    for word in words:
        name, value = _option(word)
        if name in _BODY:
            given = next(words, "") if value is None else value
            piece = here if given == "@-" and here is not None else given
            if piece.startswith("@"):
                raise UnreadableText("The body is in a file. Put its text in the command instead.")
            command.body += "&" + piece if command.body else piece
        elif name in ("-X", "--request"):
            command.method = (next(words, "") if value is None else value).upper()
        elif name in ("-H", "--header"):
            header, _, header_value = (next(words, "") if value is None else value).partition(":")
            command.headers[header.strip().lower()] = header_value.strip()
        elif name == "--url":
            command.url = next(words, "") if value is None else value
        elif name in _TAKES and value is None:
            next(words, "")
        elif word in ("|", ">", "2>"):
            break
        elif not word.startswith("-") and not command.url:
            command.url = word
    if not command.url:
        raise UnreadableText("The command has no URL. Paste the whole command.")
    return command


def _decode_base64(coded: str) -> str:
    try:
        return base64.b64decode(coded, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        raise UnreadableText("The body is invalid base64.") from None


def _option(word: str) -> tuple[str, str | None]:
    """The name of an option, and its value if that is in the same word."""
    if word.startswith("--"):
        name, joined, value = word.partition("=")
        return name, value if joined else None
    # Letters can be combined as in -sSLXPOST; the first with a value takes the rest of the word.
    letters = word[1:] if word.startswith("-") else ""
    place = next((place for place, letter in enumerate(letters) if letter in _VALUED), None)
    if place is None:
        return word, None
    return "-" + letters[place], letters[place + 1 :] or None


def _without_heredoc(text: str) -> tuple[str, str | None]:
    """The command without its here-document, and that; None if it has none."""
    match = next((match for match in _HEREDOC.finditer(text) if match["end"]), None)
    if match is None:
        return text, None
    line_end = text.find("\n", match.end())
    body = text[line_end + 1 :] if line_end >= 0 else ""
    end = re.search(rf"(?m)^\t*{match['end']}[ \t\r]*$", body)
    if end is None:
        raise UnreadableText(
            f"The here-document has no end {match['end']}. Paste the whole command."
        )
    rest = text[: match.start()] + text[match.end() : max(line_end, match.end())]
    # The line end before the end word belongs to the shell; curl sends it, but JSON ignores it.
    return rest, body[: end.start()].removesuffix("\n")


def _words(text: str) -> Iterator[str]:
    """The words of command lines, and the end of each line as a separate word."""
    text = re.sub(r"[ \t]*(?:\\|\^|`)\r?\n", " ", text)
    word, began, place = "", False, 0
    while place < len(text):
        sign = text[place]
        if sign in " \t\r\n;":
            if began:
                yield word
            if sign in "\n;":
                yield "\n"
            word, began = "", False
            place += 1
            continue
        if sign == "#" and not began:
            end = text.find("\n", place)
            place = len(text) if end < 0 else end
            continue
        began = True
        if text.startswith("$'", place):
            piece, place = _read_ansi_quote(text, place + 2)
        elif sign == "'":
            end = text.find("'", place + 1)
            if end < 0:
                raise UnreadableText("A quote is not closed. Paste the whole command.")
            piece, place = text[place + 1 : end], end + 1
        elif sign == '"':
            piece, place = _read_double_quote(text, place + 1)
        elif sign in "\\^" and place + 1 < len(text):
            piece, place = text[place + 1], place + 2
        else:
            piece, place = sign, place + 1
        word += piece
    if began:
        yield word


def _read_ansi_quote(text: str, start: int) -> tuple[str, int]:
    match = re.compile(r"(?:[^'\\]|\\.)*'", re.DOTALL).match(text, start)
    if match is None:
        raise UnreadableText("A quote is not closed. Paste the whole command.")

    def unescape(escape: re.Match[str]) -> str:
        number = escape[1] or escape[2] or escape[3]
        if number and int(number, 16) < 0x110000:
            return chr(int(number, 16))
        return _ESCAPES.get(escape[4] or "", escape[0])

    return _ANSI.sub(unescape, match[0][:-1]), match.end()


def _read_double_quote(text: str, start: int) -> tuple[str, int]:
    match = re.compile(r'(?:[^"\\]|\\.)*"', re.DOTALL).match(text, start)
    if match is None:
        raise UnreadableText("A quote is not closed. Paste the whole command.")
    inner = re.sub(
        r'\\([\\"$`\n])', lambda escape: "" if escape[1] == "\n" else escape[1], match[0][:-1]
    )
    return inner, match.end()


# -- From a request to the events of a session -------------------------------------------------


@dataclass
class ImportedSession:
    """`session` is folded from `log`, and from its previous state; `response` are the bytes of its
    last turn, if included. `open` are its `open_calls`. `notes` are sentences on what could not be
    imported."""

    session: Session
    log: list[Logged] = field(default_factory=list)
    open: dict[tuple[str, str], list[Call]] = field(default_factory=dict)
    response: bytes = b""
    notes: dict[str, None] = field(default_factory=dict)

    def tell(self, code: str, sentence: str) -> None:
        """Adds a sentence to the log, at the last answer."""
        self.add(self.session.updated_ms, Warned(code, sentence))

    def add(self, at_ms: int, event: Event, source: Source | None = None) -> None:
        """Adds the next event, at `at_ms` (Unix ms)."""
        logged = Logged(self.session.seq + 1, at_ms, event, source)
        apply(self.session, logged)
        self.log.append(logged)


def session_from_request(
    pasted: ImportedRequest, profile: Profile, session_id: str, at_ms: int
) -> ImportedSession:
    """The session of `pasted`; each event has `at_ms` (Unix ms). Its tools are answered by a user:
    their executors are not here. Unreadable if it is too large."""
    imported = ImportedSession(Session(session_id), notes=dict.fromkeys(pasted.notes))
    settings, notes = settings_of(pasted.setup, profile)
    imported.notes |= dict.fromkeys(notes)
    imported.add(at_ms, SessionStarted(settings))
    add_items(imported, pasted, pasted.items, at_ms)
    if pasted.response is not None:
        add_recorded(imported, pasted, at_ms)
    if imported.session.state == "running":
        imported.add(at_ms, RunPaused("brought", WAITS))
    return imported


def add_recorded(imported: ImportedSession, pasted: ImportedRequest, at_ms: int) -> None:
    """Adds the answer to `pasted`, whose bytes were included."""
    assert pasted.response is not None
    imported.response = pasted.response
    _add_answer(imported, pasted, at_ms, pasted.response, pasted.body, recorded=True)


def add_items(
    imported: ImportedSession, pasted: ImportedRequest, items: Iterable[RequestItem], at_ms: int
) -> None:
    """Adds `items` of `pasted` to its session: prompts, answers without a recording, and results.
    Unreadable if it becomes too large."""
    for item in items:
        match item:
            case PromptMessage(text=text, images=images, role=role, form=form):
                tapped = imported.session.tapped is not None
                if not tapped and imported.session.state in ("running", "waiting"):
                    imported.add(at_ms, RunStopped())
                imported.add(at_ms, PromptAdded(text, images, role, form))
            case AnswerMessage(answer=answer):
                data = json.dumps(answer).encode()
                _add_answer(imported, pasted, at_ms, data, "", recorded=False)
            case ResultMessage():
                _add_result(imported, at_ms, item)


def check_size(session: Session) -> None:
    """Unreadable if the last answer has too many parts, or the session too many calls, requests or
    forks, to draw its page in time: called after each event, before that takes long."""
    if session.turns and len(session.turns[-1].parts) > MOST_PARTS:
        raise UnreadableText(
            f"An answer of more than {MOST_PARTS:,} texts and calls is not imported."
        )
    if len(session.by_call) > MOST_CALLS:
        raise UnreadableText(f"A session of more than {MOST_CALLS:,} calls is not imported.")
    if len(session.turns) > MOST_TURNS:
        raise UnreadableText(f"A session of more than {MOST_TURNS:,} requests is not imported.")
    if len(session.forks) > MOST_FORKS:
        raise UnreadableText(
            f"A session that was forked more than {MOST_FORKS} times is not imported."
        )


def settings_of(setup: RequestSetup, profile: Profile) -> tuple[Settings, list[str]]:
    """The settings of a request, with its tools answered by a user, and sentences on what could not
    be imported."""
    tools_imported = import_tools(json.dumps(list(setup.tools))) if setup.tools else None
    notes = [*tools_imported.notes] if tools_imported is not None else []
    tools = dict[str, Tool]()
    for tool in tools_imported.tools if tools_imported is not None else ():
        called = f"The tool {tool.name or 'without a name'}"
        if tool.tool is None:
            notes.append(f"{called} was left out: {tool.problem}")
        elif tool.name in tools:
            notes.append(f"{called} was left out: another tool has the same name.")
        else:
            tools[tool.name] = replace(tool.tool, answered_by="person", config={})
            notes += [f"{called}: {note}" for note in tool.notes if note != UNANSWERED]
    settings = Settings(
        profile,
        model=setup.model,
        system=setup.system,
        tools=tuple(tools.values()),
        tool_choice=setup.choice,
        params=setup.params,
        extra=setup.extra,
        stream=setup.stream,
    )
    return settings, notes


def _add_answer(
    imported: ImportedSession,
    pasted: ImportedRequest,
    at_ms: int,
    data: bytes,
    body: str,
    *,
    recorded: bool,
) -> None:
    """Adds a turn; `recorded`: the bytes are those really received, and are stored."""
    number, settings = len(imported.session.turns) + 1, imported.session.settings
    assert settings is not None
    url = join_url(settings.profile.base_url, pasted.path)
    sent = RequestSent(
        number,
        protocol=pasted.protocol,
        method="POST",
        url=url,
        headers={},
        body=body,
        model=settings.model,
    )
    status = pasted.status if recorded else 200
    imported.add(at_ms, sent)
    imported.add(at_ms, ResponseStarted(status, {}), Source(number, 0, 0) if recorded else None)
    decoder = codec(pasted.protocol).decoder(status)
    turn = imported.session.turns[-1]
    for start, end, event in (*decoder.feed(data), *decoder.end(True)):
        if recorded or not isinstance(event, Warned):
            imported.add(at_ms, event, Source(number, start, end) if recorded else None)
            check_size(imported.session)
    for call_id in doubled_ids(turn):
        imported.notes[
            f"Calls share the id {call_id[:60]!r}: their results are matched in order."
        ] = None
    imported.open = open_calls(imported.session)


def open_calls(session: Session) -> dict[tuple[str, str], list[Call]]:
    """The calls of the last answer by ("id", id) and ("name", name), the last first."""
    calls: dict[tuple[str, str], list[Call]] = {}
    for call in reversed(session.current_calls):
        calls.setdefault(("id", call.provider_id), []).append(call)
        calls.setdefault(("name", call.name), []).append(call)
    return calls


def _add_result(imported: ImportedSession, at_ms: int, item: ResultMessage) -> None:
    call = _find_call(imported, item)
    if call is None:
        name = item.call_id or item.name
        imported.notes[f"A result was left out: there is no call {name[:60]!r} before it."] = None
        return
    if call.status == "proposed":
        imported.add(at_ms, CallChecked(call.id))
    result = ToolResult(item.content, is_error=item.is_error, form=item.form)
    imported.add(at_ms, CallEnded(call.id, result))


def _find_call(imported: ImportedSession, item: ResultMessage) -> Call | None:
    """The call that a result answers: by its id; by its name if it has none. Of several calls the
    first that is still open."""
    open_calls = imported.open.get(
        ("id", item.call_id) if item.call_id else ("name", item.name), []
    )
    while open_calls and not (
        imported.session.is_current(open_calls[-1]) and open_calls[-1].status != "done"
    ):
        open_calls.pop()
    return open_calls[-1] if open_calls else None
