"""All that can go wrong, by name: `[[fault:NAME]]` in a prompt or `x-playground-fault: NAME`.

Where a name holds N, a number stands there ("cut-after-3"); without one the fault's own number
holds. A fault in what is said is played once after a prompt: with the result, all is well again.
It stands in the last paragraph of a prompt; the next prompt without one plays none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.core.errors import BadInput
from app.protocols.server import ModelReply, ProviderServer
from app.simulator import fault_calls as calls
from app.simulator import fault_transport as transport
from app.simulator.fault_calls import Change
from app.simulator.fault_transport import Answer, Raw, Twist


@dataclass(frozen=True)
class FaultRow:
    """One way to go wrong: an `answer` in place of all, a `change` of what is said, a `twist` of
    the frames it travels in, other `headers` (None: left out), bytes `raw` on the socket, no
    stream at all (`unstreamed`). Change, twist and headers may come together.

    `number` is what N stands for if none is given. `always`: a change that is played in every turn.
    `then_ok`: the answer is played N times for one request, then it is let through. `any_body`: a
    twist that a JSON body can suffer, too, in pieces or (`whole_frames`) as it is; the others need
    a stream. `endless`: it never ends by itself. `only` names the protocols on which it means
    anything (empty: all), and `why` says in a clause what the others lack.
    """

    name: str
    about: str
    number: int = 0
    answer: Answer | None = None
    change: Change | None = None
    twist: Twist | None = None
    raw: Raw | None = None
    headers: Mapping[str, str | None] = field(default_factory=dict)
    unstreamed: bool = False
    always: bool = False
    then_ok: bool = False
    any_body: bool = False
    whole_frames: bool = False
    endless: bool = False
    only: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Injected:
    """A fault as it was asked for, with its number."""

    fault: FaultRow
    number: int


def meaningless(fault: FaultRow, end: ProviderServer) -> str:
    """A sentence where `fault` has no meaning on the protocol of `end`, else ""."""
    if not fault.only or end.name in fault.only:
        return ""
    return (
        f"The fault {fault.name} has no meaning on {end.name}: {fault.why}. "
        f"Use it on {', '.join(fault.only)}."
    )


_IN_PROMPT = re.compile(r"\[\[fault:([a-z0-9-]+)\]\]")

_SSE = ("anthropic", "openai_chat", "openai_responses", "gemini")
_OPENED = ("anthropic", "openai_chat", "openai_responses")
_NO_SSE = "its stream is lines of JSON"
_ONE_END = "the end is told once, in one frame"


def _status(status: int, about: str) -> FaultRow:
    return FaultRow(f"http-{status}", about, answer=transport.status(status))


def _answer(name: str, about: str, answer: Answer, number: int = 0) -> FaultRow:
    return FaultRow(name, about, number, answer=answer)


def _wire(name: str, about: str, twist: Twist, number: int = 0) -> FaultRow:
    return FaultRow(name, about, number, twist=twist)


def _bytes(name: str, about: str, twist: Twist, number: int = 0) -> FaultRow:
    return FaultRow(name, about, number, twist=twist, any_body=True)


def _endless(name: str, about: str, twist: Twist) -> FaultRow:
    return FaultRow(name, about, twist=twist, endless=True)


def _raw(name: str, about: str, played: Raw, number: int = 0) -> FaultRow:
    return FaultRow(name, about, number, raw=played)


def _sse(name: str, about: str, twist: Twist) -> FaultRow:
    return FaultRow(f"sse-{name}", about, twist=twist, only=_SSE, why=_NO_SSE)


def _gzip(name: str, about: str, twist: Twist | None, number: int = 0) -> FaultRow:
    headers = {"content-encoding": "gzip"}
    return FaultRow(name, about, number, twist=twist, headers=headers, any_body=True)


_ANSWERS: tuple[FaultRow, ...] = (
    _status(400, "a refused request"),
    FaultRow(
        "http-401-echo-key", "a refused key, repeated in the error", answer=transport.echo_key
    ),
    _status(401, "a refused key"),
    _status(402, "no money left"),
    _status(403, "not permitted"),
    _status(404, "no such model"),
    _status(408, "a time-out told by status"),
    _status(409, "a conflict"),
    _status(413, "too large a request"),
    _status(422, "a request that cannot be processed"),
    _status(429, "too many requests, without a word on when to come back"),
    FaultRow("http-429-retry-N", "429 with Retry-After of N seconds", 1, answer=transport.retry),
    FaultRow(
        "http-429-date",
        "429 with a Retry-After in the past",
        answer=transport.status(429, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}),
    ),
    FaultRow(
        "http-429-junk",
        "429 with a Retry-After that means nothing",
        answer=transport.status(429, {"retry-after": "soon"}),
    ),
    FaultRow("http-429-then-ok-N", "429 N times", 2, answer=transport.status(429), then_ok=True),
    _status(500, "an error of the server"),
    FaultRow("http-500-html", "an error page for people", answer=transport.html(500)),
    FaultRow("http-500-empty", "an error without a body", answer=transport.empty(500)),
    FaultRow("http-500-then-ok-N", "500 N times", 1, answer=transport.status(500), then_ok=True),
    _status(502, "a bad gateway"),
    _status(503, "not available"),
    _status(504, "a gateway time-out"),
    _status(529, "overloaded"),
    FaultRow("http-204", "no content at all", answer=transport.empty(204)),
    FaultRow("html-200", "a page of HTML under status 200", answer=transport.html(200)),
    FaultRow("empty-200", "an empty body", answer=transport.empty(200)),
    FaultRow("empty-sse", "a stream of nothing", answer=transport.empty(200, "text/event-stream")),
    FaultRow("json-error-200", "an error object under 200", answer=transport.error_as_success),
    _answer("http-500-huge", "an error page of a MiB", transport.huge),
    _answer("http-299", "a status nobody has heard of", transport.odd_success),
    _answer("html-200-as-sse", "HTML called a stream", transport.html(200, "text/event-stream")),
    _answer("json-error-in-sse", "a stream of one error", transport.error_event),
    _answer("redirect-N", "a redirect of status N", transport.redirect, 307),
    _raw("http-500-stall", "half an error, then silence", transport.stall_500),
    _raw("close-at-once", "the connection closed without a byte", transport.close_at_once),
    _raw("rst-at-once", "the connection reset without a byte", transport.reset_at_once),
    _raw("half-headers", "closed within the headers", transport.half_headers),
    _raw("not-http", "the greeting of another protocol", transport.not_http),
    _raw("giant-header-N", "a header of N KiB", transport.giant_header, 256),
    _raw("stall-headers", "silence from the start", transport.stall_headers),
)

_STREAMS: tuple[FaultRow, ...] = (
    FaultRow("json-instead-of-sse", "one JSON body though a stream was asked for", unstreamed=True),
    _wire("error-mid", "an error event half-way", transport.error_mid),
    _wire("error-then-more", "an error event, then the rest", transport.error_then_more),
    _bytes("cut-after-N", "the connection is lost after N frames", transport.cut_after, 3),
    _bytes("cut-bytes-N", "the connection is lost after N bytes", transport.cut_bytes, 700),
    _bytes("rst-after-N", "the connection is lost within frame N + 1", transport.cut_inside, 3),
    _bytes("clean-end-after-N", "a polite end after N frames", transport.clean_end_after, 5),
    _bytes("clean-end-mid-args", "a polite end within arguments", transport.clean_end_mid_args),
    _bytes("stall-after-N", "silence after N frames", transport.stall_after, 3),
    _wire("error-mid-http-body", "a bare error half-way", transport.error_bare),
    FaultRow("error-failed", "an end that tells of failure", change=calls.stopped("error")),
    FaultRow(
        "no-done",
        "no closing marker",
        twist=transport.without("marker"),
        only=("anthropic", "openai_chat"),
        why=_ONE_END,
    ),
    FaultRow(
        "done-twice",
        "the closing marker twice",
        twist=transport.again("marker"),
        only=("anthropic", "openai_chat"),
        why=_ONE_END,
    ),
    _wire(
        "finish-missing", "no finish reason and no marker", transport.without("finish", "marker")
    ),
    FaultRow(
        "utf8-split",
        "characters of several bytes, cut apart",
        change=calls.saying("Grüße aus Köln, 世界! 🌍 Ça marche."),
        twist=transport.utf8_split,
        any_body=True,
        always=True,
    ),
    FaultRow(
        "utf8-truncated",
        "a polite end within a character",
        change=calls.saying("Grüße aus Köln, 世界! 🌍 Ça marche."),
        twist=transport.utf8_truncated,
        any_body=True,
        always=True,
    ),
    FaultRow("lone-surrogate", "half a character", change=calls.saying("Half: \ud800 and on.")),
    _wire("utf8-invalid", "a byte that is no UTF-8", transport.utf8_invalid),
    _bytes("one-byte-chunks", "every byte alone", transport.one_byte_chunks),
    _bytes("all-in-one", "the whole stream at once", transport.all_in_one),
    _wire("crlf", "line ends of two bytes", transport.crlf),
    _wire("comment-flood", "N comments before each frame", transport.comment_flood, 50),
    _sse("bom", "a byte order mark first", transport.respelt(bytes, b"\xef\xbb\xbf")),
    _sse("cr", "line ends of a lone CR", transport.respelt(lambda d: d.replace(b"\n", b"\r"))),
    _sse("no-space", "no space after `data:`", transport.respelt(transport.tight)),
    _sse("multi-data", "an event over two data lines", transport.respelt(transport.over_lines)),
    _sse("comments", "a comment within each event", transport.respelt(lambda d: b": hi\n" + d)),
    _sse("fields", "ids and a retry", transport.respelt(transport.with_fields)),
    _wire("sse-bad-json", "an event that is no JSON", transport.odd_event(b"{oops")),
    _wire("sse-json-array", "an event that is an array", transport.odd_event(b"[]")),
    _wire("sse-json-null", "an event that is null", transport.odd_event(b"null")),
    _sse("empty-data", "an event without data", transport.odd_event(b"")),
    _wire("sse-nul-bytes", "an event of NUL bytes", transport.odd_event(b"\x00\x00")),
    FaultRow(
        "start-twice",
        "the first frame twice",
        twist=transport.again("start"),
        only=_OPENED,
        why="no frame opens an answer",
    ),
    FaultRow(
        "no-start",
        "the first frame left out",
        twist=transport.without("start"),
        only=_OPENED,
        why="no frame opens an answer",
    ),
    _wire("data-after-done", "more text after the end", transport.more_after_end),
    FaultRow(
        "wrong-content-type", "a stream of text/plain", headers={"content-type": "text/plain"}
    ),
    FaultRow("no-content-type", "a body without a type", headers={"content-type": None}),
    FaultRow(
        "charset-latin1",
        "a charset that it is not",
        headers={"content-type": "text/event-stream; charset=iso-8859-1"},
    ),
    _gzip("gzip", "a compressed body", transport.gzipped),
    _gzip("gzip-lie", "called compressed, and is not", None),
    _gzip("gzip-cut", "half a compressed body", transport.gzip_cut),
    _gzip("gzip-bomb-N", "N MiB out of a few kB", transport.gzip_bomb, 256),
    _bytes("drip", "a few bytes at a time", transport.drip),
    _raw("close-framing", "a body that ends with the connection", transport.close_framing),
    _raw("bad-chunk-size", "a chunk whose size is no number", transport.bad_chunk_size),
    _raw("no-last-chunk", "half a body, no last chunk", transport.no_last_chunk),
    FaultRow(
        "complete-no-last-chunk",
        "all of it, no last chunk",
        raw=transport.complete_no_last_chunk,
    ),
    _raw("short-body", "half of the promised length", transport.short_body),
    FaultRow(
        "open-after-done",
        "a connection held open after the end",
        twist=transport.then_silence,
    ),
    _endless("pings-forever", "signs of life, and nothing else", transport.pings_forever),
    _endless("endless-line", "an event that never ends", transport.endless_line),
    _endless("endless-text", "text for ever", transport.endless("text")),
    _endless("endless-args", "arguments for ever", transport.endless("args")),
    _endless("unlimited-blank", "blank lines for ever", transport.unlimited_blank),
    FaultRow("big-delta-N", "a delta of N MiB", 9, change=calls.big_delta),
    FaultRow("many-deltas-N", "N deltas of one character", 2000, change=calls.many_deltas),
)


# -- what the model says: calls, ids, text, ends

_STARTED = ("anthropic", "openai_chat", "openai_responses")
_NUMBERED = (*_STARTED, "ollama")
_WHOLE_CALL = "a call comes whole there"
_NO_INDEX = "calls have no index there"


def _args(name: str, about: str, change: Change, number: int = 0) -> FaultRow:
    return FaultRow(f"args-{name}", about, number, change=change)


def _says(name: str, about: str, change: Change, number: int = 0) -> FaultRow:
    return FaultRow(name, about, number, change=change)


def _id(name: str, about: str, twist: Twist, change: Change = calls.pair) -> FaultRow:
    return FaultRow(
        f"id-{name}", about, change=change, twist=twist, any_body=True, whole_frames=True
    )


def _index(name: str, about: str, changed: calls.Indexed) -> FaultRow:
    return FaultRow(
        f"index-{name}",
        about,
        change=calls.pair,
        twist=calls.indexes(changed),
        only=_NUMBERED,
        why=_NO_INDEX,
    )


CALLS: tuple[FaultRow, ...] = (
    _args("truncated", "arguments that stop half-way", calls.raw(calls.cut)),
    _args("garbage", "arguments that are prose", calls.raw(lambda t, n: "Sure! {city: Paris,,")),
    _args("trailing", "text after the object", calls.raw(lambda t, n: t + " I hope this helps")),
    _args("two-objects", "the object twice", calls.raw(lambda t, n: t + t)),
    _args("duplicate-keys", "one key with two values", calls.raw(calls.duplicate_keys)),
    _args("single-quotes", "a Python dict", calls.raw(lambda t, n: t.replace('"', "'"))),
    _args("comments", "JSON with a comment", calls.raw(lambda t, n: "/* args */ " + t)),
    _args("wrong-types", "each value of another type", calls.values(calls.of_another_type)),
    _args("missing-required", "an empty object", calls.raw(lambda t, n: "{}")),
    _args("array", "an array in place of the object", calls.raw(lambda t, n: f"[{t}]")),
    _args("number", "a number in place of the object", calls.raw(lambda t, n: "42")),
    _args("null", "null in place of the object", calls.raw(lambda t, n: "null")),
    _args("empty", "no arguments at all", calls.raw(lambda t, n: "")),
    _args("double-encoded", "a string of JSON", calls.raw(lambda t, n: json.dumps(t))),
    _args("nan", "a value NaN", calls.raw(calls.with_value("NaN"))),
    _args("bignum", "an integer of 40 digits", calls.raw(calls.with_value("1234567890" * 4))),
    _args("long-int", "an integer of 5000 digits", calls.raw(calls.with_value("7" * 5000))),
    _args("lone-surrogate", "half a character", calls.raw(calls.with_value('"\\ud800"'))),
    _args("control-chars", "a bare line break", calls.raw(calls.with_value('"a\nb"'))),
    _args("nul", "a NUL character", calls.raw(calls.with_value('"a\\u0000b"'))),
    _args("bidi", "text that runs backwards on screen", calls.values(calls.upside_down)),
    _args("ansi", "terminal escapes", calls.raw(calls.with_value('"\\u001b[31mred\\u001b[0m"'))),
    _args("path", "a path out of the folder", calls.raw(calls.with_value('"../../etc/passwd"'))),
    _args("ssrf", "an inner address", calls.raw(calls.with_value('"http://169.254.169.254/"'))),
    _args("proto", "a key __proto__", calls.raw(lambda t, n: '{"__proto__": {"admin": true}}')),
    _args("deep-N", "N arrays within each other", calls.raw(calls.deep), 10_000),
    _args("many-keys-N", "N keys", calls.raw(calls.many_keys), 20_000),
    _args("huge-N", "an argument of N characters in deltas of 8", calls.huge, 100_000),
    FaultRow(
        "tool-unknown", "a tool nobody offered", change=calls.named(lambda n, i: "no_such_tool")
    ),
    FaultRow("tool-empty-name", "a call without a name", change=calls.named(lambda n, i: "")),
    FaultRow(
        "tool-long-name", "a name of 300 letters", change=calls.named(lambda n, i: "long" * 75)
    ),
    FaultRow(
        "tool-odd-name", "a name with odd letters", change=calls.named(lambda n, i: f"{n} ✨\n")
    ),
    FaultRow(
        "tool-lookalike-name",
        "a name with a Cyrillic letter",
        change=calls.named(lambda n, i: n.translate({ord("a"): "а", ord("e"): "е"})),
    ),
    FaultRow(
        "tool-no-name",
        "a call that names no tool",
        change=calls.alone,
        twist=calls.edit_frames(calls.no_names),
        any_body=True,
        whole_frames=True,
    ),
    FaultRow(
        "tool-name-split",
        "a name in two pieces",
        change=calls.alone,
        twist=calls.split_names,
        only=("openai_chat",),
        why="a name has no pieces there",
    ),
    FaultRow(
        "tool-name-late",
        "a name after its arguments began",
        change=calls.alone,
        twist=calls.late_names,
        only=("openai_chat", "openai_responses"),
        why="a name is told once, where the call opens",
    ),
    _id("missing", "calls without an id", calls.ids(lambda given, n: None)),
    _id("empty", "calls whose id is empty", calls.ids(lambda given, n: "")),
    _id("duplicate", "two calls of one id", calls.ids(lambda given, n: "call_twin")),
    _id("odd", "an id of odd characters", calls.ids(lambda given, n: f"call {n} ✨/\n")),
    FaultRow(
        "id-changes",
        "another id in each fragment",
        change=calls.pair,
        twist=calls.changing_ids,
        only=("openai_chat", "openai_responses"),
        why=_WHOLE_CALL + ", or is called by its index",
    ),
    _index("missing", "calls without an index", lambda index: None),
    _index("gap", "indexes far apart", lambda index: index * 3 + 5),
    _index("reversed", "indexes that count down", lambda index: 100 - index),
    _index("same", "one index for all", lambda index: 0),
    _index("negative", "indexes below zero", lambda index: -1 - index),
    _index("huge", "indexes beyond any array", lambda index: index + 10**15),
    FaultRow(
        "interleaved",
        "two calls written at the same time",
        change=calls.pair,
        twist=calls.interleaved,
        only=_STARTED,
        why=_WHOLE_CALL,
    ),
    FaultRow("usage-missing", "no word on tokens", twist=calls.usage(None)),
    FaultRow("usage-odd", "tokens that are no numbers", twist=calls.usage("many")),
    FaultRow(
        "loop-same-id",
        "the same call under the same id in every turn",
        change=calls.again,
        twist=calls.ids(lambda given, n: "call_same"),
        always=True,
        any_body=True,
        whole_frames=True,
    ),
    FaultRow("finish-length", "cut by max_tokens", change=calls.cut_by_length),
    FaultRow("finish-filter", "refused", change=calls.stopped("refusal", keep_calls=False)),
    FaultRow("finish-unknown", "a reason nobody knows", change=calls.stopped("banana")),
    FaultRow(
        "finish-wrong", "an ordinary end though there are calls", change=calls.stopped("stop")
    ),
    FaultRow("nothing", "an answer without a word", change=lambda r, q, n: ModelReply(())),
    FaultRow("parallel-N", "N calls in one turn", 5, change=calls.parallel),
    FaultRow("loop", "the same call in every turn", change=calls.again, always=True),
    FaultRow(
        "fake-call-in-text",
        "a call that is only text",
        change=calls.saying('<tool_call>{"name": "delete_all", "arguments": {}}</tool_call>'),
    ),
    FaultRow(
        "sse-injection-text",
        "text that looks like frames",
        change=calls.saying('one\n\ndata: {"choices": []}\n\nevent: error\ndata: [DONE]\n\ntwo'),
    ),
    FaultRow(
        "html-text",
        "text that is HTML",
        change=calls.saying("<script>alert(1)</script><img src=x onerror=alert(2)> **bold**"),
    ),
    FaultRow(
        "u2028-in-text", "line separators", change=calls.saying("one\u2028two\u2029three\x85four")
    ),
)

FAULTS = (*_ANSWERS, *_STREAMS, *CALLS)


def by_name(name: str) -> Injected:
    """The fault of this name. Raises BadInput where there is none."""
    for fault in FAULTS:
        pattern = re.escape(fault.name).replace("\\-N", "(?:-(\\d{1,8}))?")
        found = re.fullmatch(pattern, name)
        if found:
            given = found[1] if fault.name.endswith("-N") else None
            return Injected(fault, int(given) if given else fault.number)
    known = ", ".join(fault.name for fault in FAULTS)
    raise BadInput(f"There is no fault {name!r}. Use one of: {known}.")


def in_prompt(text: str) -> Injected | None:
    """The fault that a prompt asks for, the last it names, or None. BadInput: unknown."""
    found = _IN_PROMPT.findall(text)
    return by_name(found[-1]) if found else None


def without_fault(text: str) -> str:
    """A prompt without its `[[fault:...]]`."""
    return _IN_PROMPT.sub("", text).strip()
