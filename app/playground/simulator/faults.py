"""All faults by name: `[[fault:NAME]]` in a prompt or `x-playground-fault: NAME`.

An N in a name is replaced by a number ("cut-after-3"); without one the fault's default applies. A
fault in the model's output is played once after a prompt: after the result, all is normal again. It
is written in the last paragraph of a prompt; the next prompt without one plays none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from playground.core.errors import BadInput
from playground.protocols.server import CUT, RESET, STALL, ModelReply, OutgoingFrame, ProviderServer
from playground.simulator import fault_calls as calls
from playground.simulator import fault_transport as t
from playground.simulator.fault_calls import Change
from playground.simulator.fault_transport import Answer, Raw, Twist

_IN_PROMPT = re.compile(r"\[\[fault:([a-z0-9-]+)\]\]")

_STARTED = ("anthropic", "openai_chat", "openai_responses")

_GREETING = OutgoingFrame(b"220 mail.invalid ESMTP\r\n\r\n")
_PAST = "Wed, 21 Oct 2015 07:28:00 GMT"
_MIB = b"<!-- " + b"x" * 1024 * 1024
_GZIP = {"content-encoding": "gzip"}

_NO_SIZE = OutgoingFrame(b"zz\r\nnonsense\r\n")


@dataclass(frozen=True)
class Only:
    """The protocols for which a fault has a meaning, and in a clause what the others lack."""

    protocols: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class FaultRow:
    """One fault: an `answer` in place of the real one, a `change` of the model's output, a `twist`
    of its frames, other `headers` (None: left out), `raw` bytes on the socket, no stream
    (`unstreamed`). Change, twist and headers can be combined.

    `number` is the default of N. `always`: the change is played in every turn. `then_ok`: the
    answer is played N times for one request, then the real one. `any_body`: the twist also applies
    to a JSON body, in pieces or (`whole_frames`) as a whole; the others need a stream. `endless`:
    it never ends by itself.
    """

    name: str
    about: str
    number: int = 0
    _: KW_ONLY
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
    only: Only | None = None


@dataclass(frozen=True)
class Injected:
    """A requested fault, with its number."""

    fault: FaultRow
    number: int


_ON_SSE = Only((*_STARTED, "gemini"), "its stream is JSON lines")
_WITH_MARKER = Only(_STARTED[:2], "the end is sent once, in one frame")
_WITH_START = Only(_STARTED, "no frame opens an answer")
_IN_FRAGMENTS = Only(_STARTED[1:], "a call comes in one piece, or is identified by its index")
_IN_DELTAS = Only(_STARTED, "a call comes in one piece")
_NUMBERED = Only((*_STARTED, "ollama"), "calls have no index")
_NAME_IN_PIECES = Only(("openai_chat",), "a name is not streamed")
_NAME_ONCE = Only(_STARTED[1:], "a name is sent once, at the start of the call")


def meaningless(fault: FaultRow, end: ProviderServer) -> str:
    """A sentence if `fault` has no meaning for the protocol of `end`, else ""."""
    if fault.only is None or end.name in fault.only.protocols:
        return ""
    return (
        f"The fault {fault.name} does not apply to {end.name}: {fault.only.why}. Use it on "
        f"{', '.join(fault.only.protocols)}."
    )


def _answer(name: str, about: str, answer: Answer, number: int = 0, **more: Any) -> FaultRow:
    return FaultRow(name, about, number, answer=answer, **more)


def _wire(name: str, about: str, twist: Twist, number: int = 0, **more: Any) -> FaultRow:
    return FaultRow(name, about, number, twist=twist, **more)


def _bytes(name: str, about: str, twist: Twist, number: int = 0, **more: Any) -> FaultRow:
    return FaultRow(name, about, number, twist=twist, any_body=True, **more)


def _wide(name: str, about: str, twist: Twist) -> FaultRow:
    """In a text with multi-byte characters."""
    change = calls.saying("Grüße aus Köln, 世界! 🌍 Ça marche.")
    return FaultRow(f"utf8-{name}", about, change=change, twist=twist, any_body=True, always=True)


def _raw(name: str, about: str, *parts: t.Part, number: int = 0) -> FaultRow:
    return FaultRow(name, about, number, raw=t.socket_gets(*parts))


def _chunks(name: str, about: str, keep: t.Keep, *more: t.Part) -> FaultRow:
    """A chunked body without the last chunk."""
    return _raw(name, about, t.head(t.CHUNKED), t.chunks(keep), *more, CUT)


def _sse(name: str, about: str, written: Callable[[bytes], bytes], ahead: bytes = b"") -> FaultRow:
    return FaultRow(f"sse-{name}", about, twist=t.each(written, ahead), only=_ON_SSE)


def _event(name: str, about: str, data: bytes, only: Only | None = None) -> FaultRow:
    """An odd event after the first frame."""
    twist = t.until(t.at(1), t.event(data), t.rest_from(lambda frames: 1))
    return FaultRow(f"sse-{name}", about, twist=twist, only=only)


def _headers(name: str, about: str, kind: str | None) -> FaultRow:
    return FaultRow(name, about, headers={"content-type": kind})


_ANSWERS = (
    *(_answer(f"http-{code}", sentence, t.status(code)) for code, sentence in t.SENTENCES.items()),
    _answer("http-401-echo-key", "a refused key, repeated in the error", t.echo_key),
    _answer("http-429-retry-N", "429 with Retry-After of N seconds", t.retry, 1),
    _answer("http-429-date", "429 with a Retry-After in the past", t.status(429, _PAST)),
    _answer("http-429-junk", "429 with a Retry-After that is not a number", t.status(429, "soon")),
    _answer("http-429-then-ok-N", "429 N times", t.status(429), 2, then_ok=True),
    _answer("http-500-then-ok-N", "500 N times", t.status(500), 1, then_ok=True),
    _answer("http-500-html", "an HTML error page", t.canned(500, t.HTML, t.PAGE)),
    _answer("http-500-empty", "an error without a body", t.canned(500)),
    _answer("http-500-huge", "an error page of 1 MiB", t.canned(500, t.HTML + _MIB, "text/html")),
    _answer("http-204", "no content at all", t.canned(204)),
    _answer("http-299", "an unknown status", t.canned(299, b'{"ok":true}')),
    _answer("html-200", "an HTML page with status 200", t.canned(200, t.HTML, t.PAGE)),
    _answer("html-200-as-sse", "HTML labelled as a stream", t.canned(200, t.HTML, t.SSE)),
    _answer("empty-200", "an empty body", t.canned(200)),
    _answer("empty-sse", "an empty stream", t.canned(200, b"", t.SSE)),
    _answer("json-error-200", "an error object with status 200", t.error_as_success),
    _answer("json-error-in-sse", "a stream with one error", t.error_event),
    _answer("redirect-N", "a redirect of status N", t.redirect, 307),
    _raw(
        "http-500-stall",
        "half an error, then silence",
        t.head("content-length: 1000", "500 Internal Server Error"),
        OutgoingFrame(b'{"error"'),
        STALL,
    ),
    _raw("close-at-once", "the connection closed without a byte", CUT),
    _raw("rst-at-once", "the connection reset without a byte", RESET),
    _raw("half-headers", "closed in the middle of the headers", t.half_head, CUT),
    _raw("not-http", "the greeting of another protocol", _GREETING, CUT),
    _raw(
        "giant-header-N",
        "a header of N KiB",
        t.giant_head,
        t.chunks(t.all_frames),
        OutgoingFrame(b"0\r\n\r\n"),
        CUT,  # no further request could be answered on this connection
        number=256,
    ),
    _raw("stall-headers", "silence from the start", STALL),
)

_STREAMS = (
    FaultRow(
        "json-instead-of-sse", "one JSON body although a stream was requested", unstreamed=True
    ),
    _wire("error-mid", "an error event half-way", t.until(t.half, t.error_told)),
    _wire(
        "error-then-more",
        "an error event, then the rest",
        t.until(t.half, t.error_told, t.rest_from(lambda frames: len(frames) // 2)),
    ),
    _wire("error-mid-http-body", "a bare error half-way", t.until(t.half, t.error_bare)),
    FaultRow("error-failed", "an end that reports a failure", change=calls.stopped("error")),
    _bytes("cut-after-N", "the connection is lost after N frames", t.until(t.first, CUT), 3),
    _bytes("cut-bytes-N", "the connection is lost after N bytes", t.until(t.first_bytes, CUT), 700),
    _bytes("rst-after-N", "the connection is lost in frame N + 1", t.until(t.into_frame, CUT), 3),
    _bytes("clean-end-after-N", "a clean end after N frames", t.until(t.first), 5),
    _bytes(
        "clean-end-mid-args", "a clean end in the middle of arguments", t.until(t.into_arguments)
    ),
    _bytes("stall-after-N", "silence after N frames", t.until(t.first, STALL), 3),
    _wire("no-done", "no end marker", t.without("marker"), only=_WITH_MARKER),
    _wire("done-twice", "the end marker twice", t.again("marker"), only=_WITH_MARKER),
    _wire("finish-missing", "no finish reason and no end marker", t.without("finish", "marker")),
    _wire("start-twice", "the first frame twice", t.again("start"), only=_WITH_START),
    _wire("no-start", "the first frame left out", t.without("start"), only=_WITH_START),
    _wire("data-after-done", "more text after the end", t.until(t.all_frames, t.text_again)),
    _wire("open-after-done", "a connection held open after the end", t.until(t.all_frames, STALL)),
    _wide("split", "multi-byte characters, split", t.utf8_split),
    _wide("truncated", "a clean end in the middle of a character", t.until(t.into_character)),
    _wire("utf8-invalid", "a byte that is not UTF-8", t.utf8_invalid),
    FaultRow("lone-surrogate", "half a character", change=calls.saying("Half: \ud800 and on.")),
    _bytes("one-byte-chunks", "every byte alone", t.whole(lambda data: t.cut_up(data, 1))),
    _bytes("all-in-one", "the whole stream at once", t.whole(lambda data: [data])),
    _bytes("drip", "a few bytes at a time", t.drip),
    _wire("crlf", "CRLF line ends", t.each(lambda data: data.replace(b"\n", b"\r\n"))),
    _wire("comment-flood", "N comments before each frame", t.comment_flood, 50),
    _sse("bom", "a byte order mark first", bytes, b"\xef\xbb\xbf"),
    _sse("cr", "CR line ends", lambda data: data.replace(b"\n", b"\r")),
    _sse("no-space", "no space after `data:`", t.tight),
    # The JSON of an event over several `data` lines: a line break is a space to JSON.
    _sse(
        "multi-data", "an event with two data lines", lambda d: d.replace(b'{"', b'{\ndata: "', 1)
    ),
    _sse("comments", "a comment in each event", lambda data: b": hi\n" + data),
    _sse("fields", "ids and a retry", lambda data: b"id: 7\nretry: 3000\n" + data),
    _event("bad-json", "an event that is not JSON", b"{oops"),
    _event("json-array", "an event that is an array", b"[]"),
    _event("json-null", "an event that is null", b"null"),
    _event("empty-data", "an event without data", b"", _ON_SSE),
    _event("nul-bytes", "an event of NUL bytes", b"\x00\x00"),
    _headers("wrong-content-type", "a stream of text/plain", "text/plain"),
    _headers("no-content-type", "a body without a type", None),
    _headers("charset-latin1", "a wrong charset", f"{t.SSE}; charset=iso-8859-1"),
    _bytes("gzip", "a compressed body", t.whole(t.gzipped), headers=_GZIP),
    FaultRow(
        "gzip-lie", "labelled as compressed, but not compressed", headers=_GZIP, any_body=True
    ),
    _bytes("gzip-cut", "half a compressed body", t.whole(t.gzip_cut), headers=_GZIP),
    _bytes("gzip-bomb-N", "a few kB that expand to N MiB", t.gzip_bomb, 256, headers=_GZIP),
    _raw(
        "close-framing",
        "a body that ends with the connection",
        t.head("connection: close"),
        t.body,
        CUT,
    ),
    _chunks("bad-chunk-size", "a chunk with an invalid size", t.half, _NO_SIZE),
    _chunks("no-last-chunk", "half a body, no last chunk", t.half),
    _chunks("complete-no-last-chunk", "all of it, no last chunk", t.all_frames),
    _raw("short-body", "half of the promised length", t.half_of_promised, CUT),
    *(
        _wire(name, about, t.until(keep, *then), endless=True)
        for name, about, keep, then in (
            ("pings-forever", "keep-alives only", t.at(3), (t.pings,)),
            (
                "endless-line",
                "an event that never ends",
                t.at(1),
                (t.opened, t.forever(b"x" * 65536)),
            ),
            ("endless-text", "endless text", t.up_to_last("text"), (t.last_forever("text"),)),
            ("endless-args", "endless arguments", t.up_to_last("args"), (t.last_forever("args"),)),
            ("unlimited-blank", "endless blank lines", t.at(3), (t.forever(b"\n" * 65536),)),
        )
    ),
    FaultRow("big-delta-N", "a delta of N MiB", 9, change=calls.big_delta),
    FaultRow("many-deltas-N", "N deltas of one character", 2000, change=calls.many_deltas),
)


# -- the model's output: calls, ids, text, ends


def _says(name: str, about: str, change: Change, number: int = 0, **more: Any) -> FaultRow:
    return FaultRow(name, about, number, change=change, **more)


def _args(name: str, about: str, written: Callable[[str], str]) -> FaultRow:
    """Only the first call, with the JSON text of its arguments rewritten by `written`."""
    return FaultRow(f"args-{name}", about, change=calls.raw(lambda text, number: written(text)))


def _value(name: str, about: str, value: str) -> FaultRow:
    """The first argument with `value`, which is JSON text and may be invalid."""
    return _args(name, about, lambda text: calls.with_first(text, value))


def _named(name: str, about: str, written: Callable[[str], str]) -> FaultRow:
    return FaultRow(f"tool-{name}", about, change=calls.named(written))


def _edited(name: str, about: str, twist: Twist, change: Change = calls.pair) -> FaultRow:
    """Fields in the JSON of frames or of a body."""
    return FaultRow(name, about, change=change, twist=twist, any_body=True, whole_frames=True)


def _frames(name: str, about: str, change: Change, twist: Twist, only: Only) -> FaultRow:
    """Calls whose frames are changed."""
    return FaultRow(name, about, change=change, twist=twist, only=only)


def _index(name: str, about: str, changed: calls.Indexed) -> FaultRow:
    return FaultRow(
        f"index-{name}", about, change=calls.pair, twist=calls.indexes(changed), only=_NUMBERED
    )


_CALLS = (
    _args("truncated", "arguments that stop half-way", calls.cut),
    _args("garbage", "arguments that are prose", lambda text: "Sure! {city: Paris,,"),
    _args("trailing", "text after the object", lambda text: text + " I hope this helps"),
    _args("two-objects", "the object twice", lambda text: text + text),
    _args("duplicate-keys", "one key with two values", calls.duplicate_keys),
    _args("single-quotes", "a Python dict", lambda text: text.replace('"', "'")),
    _args("comments", "JSON with a comment", lambda text: "/* args */ " + text),
    _args("wrong-types", "each value of a wrong type", calls.values(calls.of_another_type)),
    _args("missing-required", "an empty object", lambda text: "{}"),
    _args("array", "an array instead of the object", lambda text: f"[{text}]"),
    _args("number", "a number instead of the object", lambda text: "42"),
    _args("null", "null instead of the object", lambda text: "null"),
    _args("empty", "no arguments at all", lambda text: ""),
    _args("double-encoded", "a string of JSON", json.dumps),
    _value("nan", "a value NaN", "NaN"),
    _value("bignum", "an integer of 40 digits", "1234567890" * 4),
    _value("long-int", "an integer of 5000 digits", "7" * 5000),
    _value("lone-surrogate", "half a character", '"\\ud800"'),
    _value("control-chars", "a bare line break", '"a\nb"'),
    _value("nul", "a NUL character", '"a\\u0000b"'),
    _args("bidi", "right-to-left override characters", calls.values(calls.upside_down)),
    _value("ansi", "terminal escapes", '"\\u001b[31mred\\u001b[0m"'),
    _value("path", "a path out of the folder", '"../../etc/passwd"'),
    _value("ssrf", "an internal address", '"http://169.254.169.254/"'),
    _args("proto", "a key __proto__", lambda text: '{"__proto__": {"admin": true}}'),
    _says("args-deep-N", "N nested arrays", calls.raw(calls.deep), 10_000),
    _says("args-many-keys-N", "N keys", calls.raw(calls.many_keys), 20_000),
    _says("args-huge-N", "an argument of N characters in deltas of 8", calls.huge, 100_000),
    _named("unknown", "a tool that was not offered", lambda name: "no_such_tool"),
    _named("empty-name", "a call without a name", lambda name: ""),
    _named("long-name", "a name of 300 letters", lambda name: "long" * 75),
    _named("odd-name", "a name with unusual characters", lambda name: f"{name} ✨\n"),
    _named(
        "lookalike-name",
        "a name with a Cyrillic letter",
        lambda name: name.translate({ord("a"): "а", ord("e"): "е"}),
    ),
    _edited(
        "tool-no-name", "a call that names no tool", calls.edit_frames(calls.no_names), calls.alone
    ),
    _frames(
        "tool-name-split",
        "a name in two pieces",
        calls.alone,
        calls.parted_names(0.5),
        _NAME_IN_PIECES,
    ),
    _frames(
        "tool-name-late",
        "a name after its arguments began",
        calls.alone,
        calls.parted_names(0),
        _NAME_ONCE,
    ),
    _edited("id-missing", "calls without an id", calls.ids(lambda given, n: None)),
    _edited("id-empty", "calls whose id is empty", calls.ids(lambda given, n: "")),
    _edited("id-duplicate", "two calls with the same id", calls.ids(lambda given, n: "call_twin")),
    _edited(
        "id-odd", "an id with unusual characters", calls.ids(lambda given, n: f"call {n} ✨/\n")
    ),
    _frames(
        "id-changes",
        "a different id in each fragment",
        calls.pair,
        calls.changing_ids,
        _IN_FRAGMENTS,
    ),
    _index("missing", "calls without an index", lambda index: None),
    _index("gap", "indexes far apart", lambda index: index * 3 + 5),
    _index("reversed", "indexes that count down", lambda index: 100 - index),
    _index("same", "the same index for all calls", lambda index: 0),
    _index("negative", "indexes below zero", lambda index: -1 - index),
    _index("huge", "very large indexes", lambda index: index + 10**15),
    _frames(
        "interleaved",
        "two interleaved calls",
        calls.pair,
        calls.interleaved,
        _IN_DELTAS,
    ),
    _wire("usage-missing", "no token counts", calls.usage(None)),
    _wire("usage-odd", "token counts that are not numbers", calls.usage("many")),
    _says("parallel-N", "N calls in one turn", calls.parallel, 5),
    _says("loop", "the same call in every turn", calls.again, always=True),
    _says(
        "loop-same-id",
        "the same call under the same id in every turn",
        calls.again,
        twist=calls.ids(lambda given, n: "call_same"),
        always=True,
        any_body=True,
        whole_frames=True,
    ),
    _says("finish-length", "cut by max_tokens", calls.cut_by_length),
    _says("finish-filter", "refused", calls.stopped("refusal", keep_calls=False)),
    _says("finish-unknown", "an unknown finish reason", calls.stopped("banana")),
    _says("finish-wrong", "a normal finish reason although there are calls", calls.stopped("stop")),
    _says("nothing", "an empty answer", lambda reply, request, number: ModelReply(())),
    *(
        _says(name, about, calls.saying(text))
        for name, about, text in (
            (
                "fake-call-in-text",
                "a call written as text",
                '<tool_call>{"name": "delete_all", "arguments": {}}</tool_call>',
            ),
            (
                "sse-injection-text",
                "text that looks like frames",
                'one\n\ndata: {"choices": []}\n\nevent: error\ndata: [DONE]\n\ntwo',
            ),
            (
                "html-text",
                "text that is HTML",
                "<script>alert(1)</script><img src=x onerror=alert(2)> **bold**",
            ),
            ("u2028-in-text", "line separators", "one\u2028two\u2029three\x85four"),
        )
    ),
)

FAULTS = (*_ANSWERS, *_STREAMS, *_CALLS)


def by_name(name: str) -> Injected:
    """The fault of this name. BadInput if there is none."""
    for fault in FAULTS:
        pattern = re.escape(fault.name).replace("\\-N", "(?:-(\\d{1,8}))?")
        match = re.fullmatch(pattern, name)
        if match:
            given = match[1] if fault.name.endswith("-N") else None
            return Injected(fault, int(given) if given else fault.number)
    known = ", ".join(fault.name for fault in FAULTS)
    raise BadInput(f"There is no fault {name!r}. Use one of: {known}.")


def in_prompt(text: str) -> Injected | None:
    """The last fault that a prompt names, or None. BadInput: unknown."""
    names = _IN_PROMPT.findall(text)
    return by_name(names[-1]) if names else None


def without_fault(text: str) -> str:
    """A prompt without its `[[fault:...]]`."""
    return _IN_PROMPT.sub("", text).strip()
