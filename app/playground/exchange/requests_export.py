"""Exports requests of a session: with the name of the key, as curl, in OpenAI's or Anthropic's
format, and with their answers as an HTTP archive.

Made from a turn that was sent or from the next request; for another protocol the request is encoded
again by that protocol's codec from the session before the turn.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

from playground import __version__
from playground.core.errors import BadInput
from playground.core.events import RequestSent
from playground.core.json_values import load_json, refuse_constant
from playground.core.messages import model_request
from playground.core.providers import PROFILES
from playground.core.session import Session, Turn
from playground.core.settings import Profile, Protocol
from playground.exchange.bundle import (
    DEFAULT_BASE,
    HEADER_NAME,
    ExportFile,
    Recording,
    SessionBundle,
    comment_text,
    file_name,
)
from playground.protocols.base import WireRequest, url_parts
from playground.protocols.facts import FACTS
from playground.protocols.parameters import extra_for, supported_params
from playground.protocols.registry import codec
from playground.secrets.detection import AGENTS_OWN

SIMULATOR = DEFAULT_BASE + "/sim"
SIMULATOR_KEY = "PLAYGROUND_TOKEN"
SIMULATOR_WORDS = (
    "The simulator answers this. Choose a PLAYGROUND_TOKEN of at least 8 characters, export it, "
    "and start the program: playground serve"
)

_PACKAGE_PATHS: Mapping[str, str] = {"gemini": r"/(?P<version>v\d\w*)(?P<owner>/publishers/[^/]+)?"}
"""The path that a protocol's official package inserts between base URL and `FACTS.path`."""

_KEY = re.compile(r"(?:Bearer )?\$(\w+)")
_KEY_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_OF_THE_CONNECTION = {
    *("accept-encoding", "connection", "content-length", "expect", "host", "keep-alive"),
    *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
}
"""Headers that every HTTP client sets itself."""

_STARRED = re.compile(r"([?&])[^?&=]+=\*\*\*(&|$)")
"""A key in a query, which is never stored."""

MOST_WORD = 100_000
"""Bytes; a longer word is not allowed on a command line."""

_CURL_GLOB = re.compile(r"[][{}]")
"""Characters that make curl expand several addresses, unless `-g` is given."""

_UNSEEN = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal would interpret instead of showing."""

MEMBERS = ("messages", "tools", "parallel_tool_calls")

FOREIGN = "The model's name is a suggestion: this session used another provider's model."

PHRASES: Mapping[int, str] = {
    200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
    408: "Request Timeout", 413: "Content Too Large", 429: "Too Many Requests",
    500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable",
    529: "Overloaded",
}  # fmt: skip
"""HTTP/2 has none, but the format requires one; "" for others."""


@dataclass(frozen=True)
class ExportedRequest:
    """`headers` contain the key as `$NAME`, `key_name` is that NAME or "". `number` is the turn's,
    0 for a request that was not sent yet. `notes` are sentences on what was changed or left out."""

    number: int
    protocol: str
    method: str
    url: str
    headers: Mapping[str, str]
    body: str
    model: str = ""
    key_name: str = ""
    simulated: bool = False
    notes: Sequence[str] = field(default=())

    @property
    def value(self) -> dict[str, Any] | None:
        """The body as a JSON object, None if it is not one."""
        try:
            parsed = load_json(self.body, parse_constant=refuse_constant)
        except ValueError:
            return None
        return parsed if isinstance(parsed, dict) else None

    @property
    def streams(self) -> bool:
        value = self.value or {}
        if self.protocol == "gemini":
            return ":streamGenerateContent" in self.url
        return bool(value.get("stream", self.protocol == "ollama"))

    @property
    def key_header(self) -> str:
        """The name of the header that contains the key, "" if none does."""
        names = (name for name, value in self.headers.items() if holds_key(value, self.key_name))
        return next(names, "")


def export_request(
    sent: RequestSent, profile: Profile, number: int = 0, simulator: str = SIMULATOR
) -> ExportedRequest:
    """`sent` by `profile`, for sending it again from elsewhere; `simulator` is the simulator's base
    URL. An agent's credentials are replaced by the profile's key."""
    name = SIMULATOR_KEY if profile.simulated else profile.key_name
    name = name if _KEY_NAME.fullmatch(name) else ""
    notes: list[str] = []
    headers = {}
    given = {title: value for title, value in sent.headers.items() if value != AGENTS_OWN}
    url = _STARRED.sub(lambda match: "?" if match[1] == "?" and match[2] else match[2], sent.url)
    if (len(given) < len(sent.headers) or url != sent.url) and name:
        given |= codec(sent.protocol).key_header(f"${name}", profile.quirks)
        notes.append(f"The agent's own credentials were left out: {name} is sent instead.")
    for title, value in given.items():
        if title.lower() in _OF_THE_CONNECTION:
            continue
        if not HEADER_NAME.fullmatch(title) or _CONTROL.search(value):
            notes.append("A header that HTTP does not allow was left out.")
            continue
        if "****" in value:
            notes.append(f"The header {title} was masked. Replace the stars by its value.")
        headers[title] = value
    url = _CONTROL.sub("", url)
    if profile.simulated:
        path = url.split("/", 3)[3] if url.count("/") > 2 else ""
        url = f"{simulator}/{path.removeprefix('sim/')}"
        notes.append(SIMULATOR_WORDS)
    return ExportedRequest(
        number,
        protocol=sent.protocol,
        method=sent.method,
        url=url,
        headers=headers,
        body=sent.body,
        model=sent.model,
        key_name=name,
        simulated=profile.simulated,
        notes=tuple(dict.fromkeys(notes)),
    )


def request_of_turn(turn: Turn, base_url: str = DEFAULT_BASE) -> ExportedRequest:
    """The request of `turn`; `base_url` is the address of the simulator's server."""
    return export_request(turn.request, turn.settings.profile, turn.number, base_url + "/sim")


def sent_turns(session: Session) -> list[Turn]:
    """The turns whose request can be sent again; a retry that repeats another is left out."""
    return [turn for turn in session.turns if not turn.dropped and turn.request.body]


def holds_key(value: str, key_name: str) -> bool:
    """Whether a header's value is the key of that name, alone or as a bearer token."""
    match = _KEY.fullmatch(value)
    return match is not None and bool(key_name) and match[1] == key_name


def package_base(request: ExportedRequest) -> tuple[str, str, Mapping[str, str]] | None:
    """(base URL, query, named parts of its path) for the official package of its protocol; None if
    the package does not use this path."""
    parts = url_parts(request.url)
    facts = FACTS.get(request.protocol)
    before = _PACKAGE_PATHS.get(request.protocol, "")
    match = re.search(f"{before}{facts.path}$", parts.path) if facts else None
    if match is None:
        return None
    base = f"{parts.scheme}://{parts.netloc}{parts.path[: match.start()]}"
    return base, parts.query, match.groupdict("")


def session_before(session: Session, turn: Turn) -> Session:
    """A copy of `session` in its state when `turn` was sent."""
    place = next(i for i, item in enumerate(session.items) if item.seq == turn.seq)
    ended = {name: task for name, task in session.tasks.items() if task.ended_seq < turn.seq}
    return replace(
        session, items=session.items[:place], settings=turn.settings, tasks=ended, turns=[]
    )


def encode_request(
    session: Session, protocol: Protocol, turn: Turn | None, profile: Profile | None = None
) -> WireRequest:
    """The request of `turn` (None: the next one) in `protocol`.

    BadInput if the request cannot be expressed in it.
    """
    past = session if turn is None else session_before(session, turn)
    settings = past.settings
    assert settings is not None
    own = profile or default_profile(protocol)
    choice = settings.tool_choice if turn is None else turn.request.choice
    model = settings.model or settings.profile.model
    if settings.profile.protocol != protocol:
        model = own.model or model
    params, notes = supported_params(protocol, settings.params)
    extra, more = extra_for(protocol, settings)
    spoken = replace(settings, profile=own, model=model, params=params, extra=extra)
    request = codec(protocol).encode(model_request(replace(past, settings=spoken), choice))
    return replace(request, notes=(*notes, *more, *request.notes))


def default_profile(protocol: Protocol) -> Profile:
    """The vendor's own row of a protocol: the first that uses it, or one without an address."""
    rows = (row for row in PROFILES if row.protocol == protocol and not row.simulated)
    return next(rows, Profile(protocol, protocol, ""))


# -- curl commands -----------------------------------------------------------------------------


def write_curl(bundle: SessionBundle) -> ExportFile:
    """Every request of the session, one command each."""
    turns = sent_turns(bundle.session)
    asked = [request_of_turn(turn, bundle.base_url) for turn in turns]
    notes = list(dict.fromkeys(note for request in asked for note in request.notes))
    lines = [
        "#!/bin/sh",
        *(f"# {comment_text(request)}" for request in (bundle.title or "A session", *notes)),
    ]
    for request in asked:
        lines += ["", f"# Request {request.number}", curl_command(request)]
    if not asked:
        lines.append("# Nothing was sent yet.")
    text = "\n".join(lines) + "\n"
    data = text.encode("utf-8", "replace")
    return ExportFile(file_name(bundle.title, "sh"), "application/x-sh", data, notes)


def curl_command(request: ExportedRequest) -> str:
    """The command; it sends exactly `request.body` in UTF-8."""
    head = ["curl"]
    if _CURL_GLOB.search(request.url):
        head.append("-g")
    if request.method != "POST":
        head.append(f"-X {shell_quote(request.method)}")
    if request.url.startswith("-"):
        head.append("--url")
    words = [" ".join([*head, shell_quote(request.url)])]
    if request.streams:
        words.append("--no-buffer")
    for name, value in request.headers.items():
        if holds_key(value, request.key_name):
            bare = value.partition("$")[0]
            words.append(f'-H {shell_quote(f"{name}: {bare}")}"${request.key_name}"')
        else:
            # A semicolon sends a header without a value.
            words.append(f"-H {shell_quote(f'{name}: {value}' if value else f'{name};')}")
    body = request.body.encode("utf-8", "replace")
    if _UNSEEN.search(request.body):
        coded = base64.b64encode(body).decode("ascii")
        piped, sent = f"printf %s {shell_quote(coded)} | base64 -d | ", "--data-binary @-"
    elif len(body) > MOST_WORD:
        # printf is a shell builtin, and accepts a word of any length.
        piped, sent = f"printf %s {shell_quote(request.body)} | ", "--data-binary @-"
    else:
        piped, sent = "", f"--data-raw {shell_quote(request.body)}"
    return piped + " \\\n  ".join([*words, sent])


def shell_quote(text: str) -> str:
    """One word of a POSIX shell, whatever its content."""
    return "'" + text.replace("\x00", "").replace("'", "'\\''") + "'"


# -- One line of OpenAI messages ---------------------------------------------------------------


def write_openai(bundle: SessionBundle) -> ExportFile:
    """One line: {"messages": [...], "tools": [...]}; empty if the session has no messages."""
    session, name = bundle.session, file_name(bundle.title, "openai.jsonl")
    if not session.items:
        return ExportFile(name, "application/x-ndjson", b"", ("Nothing was sent yet.",))
    settings = session.settings
    assert settings is not None
    own = settings.profile if settings.profile.protocol == "openai_chat" else None
    try:
        request = encode_request(session, "openai_chat", None, own)
    except BadInput as error:
        return ExportFile(name, "application/x-ndjson", b"", (str(error),))
    body = json.loads(request.body)
    line = {member: body[member] for member in MEMBERS if member in body}
    notes = list(request.notes)
    if any(call.result is None for call in session.current_calls):
        notes.append("A call without a result got one that says it was not run.")
    data = json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    return ExportFile(name, "application/x-ndjson", data, tuple(notes))


# -- The last request for Anthropic ------------------------------------------------------------


def write_anthropic(bundle: SessionBundle) -> ExportFile:
    """The body alone, as one JSON object; for Anthropic's own sessions exactly the bytes sent."""
    turns, name = sent_turns(bundle.session), file_name(bundle.title, "anthropic.json")
    if not bundle.session.items:
        return ExportFile(name, "application/json", b"{}\n", ("Nothing was sent yet.",))
    last = turns[-1] if turns else None
    if last is not None and last.request.protocol == "anthropic":
        data = last.request.body.encode("utf-8", "replace")
        notes = tuple(note for note in request_of_turn(last).notes if "simulator" not in note)
        return ExportFile(name, "application/json", data, notes)
    try:
        request = encode_request(bundle.session, "anthropic", last)
    except BadInput as error:
        return ExportFile(name, "application/json", b"{}\n", (str(error),))
    settings = bundle.session.settings
    foreign = settings is not None and settings.profile.protocol != "anthropic"
    notes = (FOREIGN, *request.notes) if foreign else request.notes
    return ExportFile(name, "application/json", request.body, notes)


# -- An HTTP archive, for the developer tools of a browser -------------------------------------

# Format: http://www.softwareishard.com/blog/har-12-spec/. Times are those at which this program saw
# the bytes, in ms. TLS and name look-up are part of `wait`.


def write_har(bundle: SessionBundle) -> ExportFile:
    """All requests of the session, including failed ones."""
    data = archive(bundle.session, bundle.session.turns, bundle.recordings, bundle.title)
    return ExportFile(file_name(bundle.title, "har"), "application/json", data)


def archive(
    session: Session, turns: Iterable[Turn], recordings: Mapping[int, Recording], title: str = ""
) -> bytes:
    """The archive of some of the turns, as the bytes of a file."""
    chosen = list(turns)
    page = f"session-{session.id}"
    begun = chosen[0].sent_ms if chosen else session.started_ms
    log = {
        "version": "1.2",
        "creator": {"name": "tool-playground", "version": __version__},
        "pages": [
            {
                "startedDateTime": _time(begun),
                "id": page,
                "title": title or session.id,
                "pageTimings": {"onContentLoad": -1, "onLoad": -1},
            }
        ],
        "entries": [_entry(turn, recordings.get(turn.number), page) for turn in chosen],
    }
    return json.dumps({"log": log}, indent=1).encode("ascii") + b"\n"


def _entry(turn: Turn, recording: Recording | None, page: str) -> dict[str, Any]:
    timings = _timings(turn, recording)
    comment = f"Turn {turn.number}"
    if turn.failure is not None:
        comment += f": {turn.failure.message}"
    if recording is not None and recording.masked:
        comment += f" ({len(recording.masked)} secrets are replaced by stars of the same length)"
    return {
        "pageref": page,
        "startedDateTime": _time(turn.sent_ms),
        "time": sum(value for value in timings.values() if value > 0),
        "request": _request(turn),
        "response": _response(turn, recording),
        "cache": {},
        "timings": timings,
        "comment": comment,
        "_turn": turn.number,
    }


def _request(turn: Turn) -> dict[str, Any]:
    sent = turn.request
    query = parse_qsl(url_parts(sent.url).query, keep_blank_values=True)
    kind = {name.lower(): value for name, value in sent.headers.items()}.get("content-type", "")
    return {
        "method": sent.method,
        "url": sent.url,
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _headers(sent.headers),
        "queryString": [{"name": name, "value": value} for name, value in query],
        "postData": {"mimeType": kind, "params": [], "text": sent.body},
        "headersSize": -1,
        "bodySize": len(sent.body.encode("utf-8", "replace")),
    }


def _response(turn: Turn, recording: Recording | None) -> dict[str, Any]:
    head = turn.response
    headers = dict(head.headers) if head is not None else {}
    kind = {name.lower(): value for name, value in headers.items()}.get("content-type", "")
    data = recording.data if recording is not None else b""
    # Without a response, browsers write status 0.
    status = head.status if head is not None else 0
    response: dict[str, Any] = {
        "status": status,
        "statusText": PHRASES.get(status, ""),
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _headers(headers),
        "content": _content(data, kind or "application/octet-stream"),
        "redirectURL": _redirect_url(status, headers),
        "headersSize": -1,
        "bodySize": len(data),
    }
    if turn.failure is not None:
        response["_error"] = turn.failure.failure
    return response


def _redirect_url(status: int, headers: Mapping[str, str]) -> str:
    """The redirect target of a 3xx answer, as sent; "" for all others."""
    places = (value for name, value in headers.items() if name.lower() == "location")
    return next(places, "") if 300 <= status < 400 else ""


def _content(data: bytes, kind: str) -> dict[str, Any]:
    """As text if it is UTF-8, else as base64: no byte is changed."""
    content: dict[str, Any] = {"size": len(data), "mimeType": kind}
    try:
        return {**content, "text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {**content, "text": base64.b64encode(data).decode("ascii"), "encoding": "base64"}


def _timings(turn: Turn, recording: Recording | None) -> dict[str, int]:
    """`wait` is until the head of the answer, `receive` until its last byte."""
    pieces = recording.pieces if recording is not None else ()
    last = max([piece.at_ms for piece in pieces] + [turn.closed_ms or turn.sent_ms])
    first = turn.answered_ms or (pieces[0].at_ms if pieces else last)
    return {
        "blocked": -1,
        "dns": -1,
        "connect": -1,
        "ssl": -1,
        "send": 0,
        "wait": max(first - turn.sent_ms, 0),
        "receive": max(last - first, 0),
    }


def _headers(headers: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in headers.items()]


def _time(at_ms: int) -> str:
    seconds, ms = divmod(at_ms, 1000)
    whole = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{ms:03}Z"
