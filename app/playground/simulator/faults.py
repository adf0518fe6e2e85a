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
from playground.simulator.fault_calls import ReplyChange
from playground.simulator.fault_transport import Answer, FrameChange, SocketBytes

_IN_PROMPT = re.compile(r"\[\[fault:([a-z0-9-]+)\]\]")

_STARTED = ("anthropic", "openai_chat", "openai_responses")

_GREETING = OutgoingFrame(b"220 mail.invalid ESMTP\r\n\r\n")
_PAST = "Wed, 21 Oct 2015 07:28:00 GMT"
_MIB = b"<!-- " + b"x" * 1024 * 1024
_GZIP = {"content-encoding": "gzip"}

_NO_SIZE = OutgoingFrame(b"zz\r\nnonsense\r\n")


@dataclass(frozen=True)
class FaultScope:
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
    change: ReplyChange | None = None
    twist: FrameChange | None = None
    raw: SocketBytes | None = None
    headers: Mapping[str, str | None] = field(default_factory=dict)
    unstreamed: bool = False
    always: bool = False
    then_ok: bool = False
    any_body: bool = False
    whole_frames: bool = False
    endless: bool = False
    only: FaultScope | None = None


@dataclass(frozen=True)
class Injected:
    """A requested fault, with its number."""

    fault: FaultRow
    number: int


_ON_SSE = FaultScope((*_STARTED, "gemini"), "its stream is JSON lines")
_WITH_MARKER = FaultScope(_STARTED[:2], "the end is sent once, in one frame")
_WITH_START = FaultScope(_STARTED, "no frame opens an answer")
_IN_FRAGMENTS = FaultScope(_STARTED[1:], "a call comes in one piece, or is identified by its index")
_IN_DELTAS = FaultScope(_STARTED, "a call comes in one piece")
_NUMBERED = FaultScope((*_STARTED, "ollama"), "calls have no index")
_NAME_IN_PIECES = FaultScope(("openai_chat",), "a name is not streamed")
_NAME_ONCE = FaultScope(_STARTED[1:], "a name is sent once, at the start of the call")


def scope_error(fault: FaultRow, end: ProviderServer) -> str:
    """A sentence if `fault` has no meaning for the protocol of `end`, else ""."""
    if fault.only is None or end.name in fault.only.protocols:
        return ""
    return (
        f"The fault {fault.name} does not apply to {end.name}: {fault.only.why}. Use it on "
        f"{', '.join(fault.only.protocols)}."
    )


def _answer(name: str, about: str, answer: Answer, number: int = 0, **more: Any) -> FaultRow:
    return FaultRow(name, about, number, answer=answer, **more)


def _wire(name: str, about: str, twist: FrameChange, number: int = 0, **more: Any) -> FaultRow:
    return FaultRow(name, about, number, twist=twist, **more)


def _bytes(name: str, about: str, twist: FrameChange, number: int = 0, **more: Any) -> FaultRow:
    return FaultRow(name, about, number, twist=twist, any_body=True, **more)


def _utf8(name: str, about: str, twist: FrameChange) -> FaultRow:
    """In a text with multi-byte characters."""
    change = calls.only_text("Grüße aus Köln, 世界! 🌍 Ça marche.")
    return FaultRow(f"utf8-{name}", about, change=change, twist=twist, any_body=True, always=True)


def _raw(name: str, about: str, *parts: t.SocketPart, number: int = 0) -> FaultRow:
    return FaultRow(name, about, number, raw=t.socket_gets(*parts))


def _chunks(name: str, about: str, keep: t.FrameSelection, *more: t.SocketPart) -> FaultRow:
    """A chunked body without the last chunk."""
    return _raw(name, about, t.head(t.CHUNKED), t.chunks(keep), *more, CUT)


def _sse(name: str, about: str, written: Callable[[bytes], bytes], ahead: bytes = b"") -> FaultRow:
    return FaultRow(f"sse-{name}", about, twist=t.reencode_frames(written, ahead), only=_ON_SSE)


def _event(name: str, about: str, data: bytes, only: FaultScope | None = None) -> FaultRow:
    """An odd event after the first frame."""
    twist = t.cut_after(t.frames_before(1), t.event(data), t.rest_from(lambda frames: 1))
    return FaultRow(f"sse-{name}", about, twist=twist, only=only)


def _headers(name: str, about: str, kind: str | None) -> FaultRow:
    return FaultRow(name, about, headers={"content-type": kind})


_ANSWERS = (
    *(
        _answer(f"http-{code}", sentence, t.status_answer(code))
        for code, sentence in t.SENTENCES.items()
    ),
    _answer("http-401-echo-key", "a refused key, repeated in the error", t.echo_key),
    _answer("http-429-retry-N", "429 with Retry-After of N seconds", t.retry, 1),
    _answer("http-429-date", "429 with a Retry-After in the past", t.status_answer(429, _PAST)),
    _answer(
        "http-429-junk", "429 with a Retry-After that is not a number", t.status_answer(429, "soon")
    ),
    _answer("http-429-then-ok-N", "429 N times", t.status_answer(429), 2, then_ok=True),
    _answer("http-500-then-ok-N", "500 N times", t.status_answer(500), 1, then_ok=True),
    _answer("http-500-html", "an HTML error page", t.canned_answer(500, t.HTML, t.PAGE)),
    _answer("http-500-empty", "an error without a body", t.canned_answer(500)),
    _answer(
        "http-500-huge", "an error page of 1 MiB", t.canned_answer(500, t.HTML + _MIB, "text/html")
    ),
    _answer("http-204", "no content at all", t.canned_answer(204)),
    _answer("http-299", "an unknown status", t.canned_answer(299, b'{"ok":true}')),
    _answer("html-200", "an HTML page with status 200", t.canned_answer(200, t.HTML, t.PAGE)),
    _answer("html-200-as-sse", "HTML labelled as a stream", t.canned_answer(200, t.HTML, t.SSE)),
    _answer("empty-200", "an empty body", t.canned_answer(200)),
    _answer("empty-sse", "an empty stream", t.canned_answer(200, b"", t.SSE)),
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
    _wire("error-mid", "an error event half-way", t.cut_after(t.half_frames, t.error_frames)),
    _wire(
        "error-then-more",
        "an error event, then the rest",
        t.cut_after(t.half_frames, t.error_frames, t.rest_from(lambda frames: len(frames) // 2)),
    ),
    _wire("error-mid-http-body", "a bare error half-way", t.cut_after(t.half_frames, t.bare_error)),
    FaultRow("error-failed", "an end that reports a failure", change=calls.change_stop("error")),
    _bytes(
        "cut-after-N", "the connection is lost after N frames", t.cut_after(t.first_frames, CUT), 3
    ),
    _bytes(
        "cut-bytes-N", "the connection is lost after N bytes", t.cut_after(t.first_bytes, CUT), 700
    ),
    _bytes(
        "rst-after-N", "the connection is lost in frame N + 1", t.cut_after(t.cut_in_frame, CUT), 3
    ),
    _bytes("clean-end-after-N", "a clean end after N frames", t.cut_after(t.first_frames), 5),
    _bytes(
        "clean-end-mid-args",
        "a clean end in the middle of arguments",
        t.cut_after(t.cut_in_arguments),
    ),
    _bytes("stall-after-N", "silence after N frames", t.cut_after(t.first_frames, STALL), 3),
    _wire("no-done", "no end marker", t.drop_frames("marker"), only=_WITH_MARKER),
    _wire("done-twice", "the end marker twice", t.repeat_frames("marker"), only=_WITH_MARKER),
    _wire(
        "finish-missing", "no finish reason and no end marker", t.drop_frames("finish", "marker")
    ),
    _wire("start-twice", "the first frame twice", t.repeat_frames("start"), only=_WITH_START),
    _wire("no-start", "the first frame left out", t.drop_frames("start"), only=_WITH_START),
    _wire("data-after-done", "more text after the end", t.cut_after(t.all_frames, t.repeat_text)),
    _wire(
        "open-after-done", "a connection held open after the end", t.cut_after(t.all_frames, STALL)
    ),
    _utf8("split", "multi-byte characters, split", t.utf8_split),
    _utf8("truncated", "a clean end in the middle of a character", t.cut_after(t.cut_in_character)),
    _wire("utf8-invalid", "a byte that is not UTF-8", t.utf8_invalid),
    FaultRow("lone-surrogate", "half a character", change=calls.only_text("Half: \ud800 and on.")),
    _bytes(
        "one-byte-chunks", "every byte alone", t.reencode_body(lambda data: t.split_bytes(data, 1))
    ),
    _bytes("all-in-one", "the whole stream at once", t.reencode_body(lambda data: [data])),
    _bytes("drip", "a few bytes at a time", t.drip),
    _wire("crlf", "CRLF line ends", t.reencode_frames(lambda data: data.replace(b"\n", b"\r\n"))),
    _wire("comment-flood", "N comments before each frame", t.comment_flood, 50),
    _sse("bom", "a byte order mark first", bytes, b"\xef\xbb\xbf"),
    _sse("cr", "CR line ends", lambda data: data.replace(b"\n", b"\r")),
    _sse("no-space", "no space after `data:`", t.remove_spaces),
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
    _bytes("gzip", "a compressed body", t.reencode_body(t.gzip_pieces), headers=_GZIP),
    FaultRow(
        "gzip-lie", "labelled as compressed, but not compressed", headers=_GZIP, any_body=True
    ),
    _bytes("gzip-cut", "half a compressed body", t.reencode_body(t.gzip_cut), headers=_GZIP),
    _bytes("gzip-bomb-N", "a few kB that expand to N MiB", t.gzip_bomb, 256, headers=_GZIP),
    _raw(
        "close-framing",
        "a body that ends with the connection",
        t.head("connection: close"),
        t.body,
        CUT,
    ),
    _chunks("bad-chunk-size", "a chunk with an invalid size", t.half_frames, _NO_SIZE),
    _chunks("no-last-chunk", "half a body, no last chunk", t.half_frames),
    _chunks("complete-no-last-chunk", "all of it, no last chunk", t.all_frames),
    _raw("short-body", "half of the promised length", t.half_body, CUT),
    *(
        _wire(name, about, t.cut_after(keep, *then), endless=True)
        for name, about, keep, then in (
            ("pings-forever", "keep-alives only", t.frames_before(3), (t.pings,)),
            (
                "endless-line",
                "an event that never ends",
                t.frames_before(1),
                (t.open_event, t.repeat_data(b"x" * 65536)),
            ),
            ("endless-text", "endless text", t.up_to_last("text"), (t.repeat_last("text"),)),
            ("endless-args", "endless arguments", t.up_to_last("args"), (t.repeat_last("args"),)),
            (
                "unlimited-blank",
                "endless blank lines",
                t.frames_before(3),
                (t.repeat_data(b"\n" * 65536),),
            ),
        )
    ),
    FaultRow("big-delta-N", "a delta of N MiB", 9, change=calls.big_delta),
    FaultRow("many-deltas-N", "N deltas of one character", 2000, change=calls.many_deltas),
)


# -- the model's output: calls, ids, text, ends


def _change(name: str, about: str, change: ReplyChange, number: int = 0, **more: Any) -> FaultRow:
    return FaultRow(name, about, number, change=change, **more)


def _args(name: str, about: str, written: Callable[[str], str]) -> FaultRow:
    """Only the first call, with the JSON text of its arguments rewritten by `written`."""
    return FaultRow(
        f"args-{name}", about, change=calls.rewrite_arguments(lambda text, number: written(text))
    )


def _value(name: str, about: str, value: str) -> FaultRow:
    """The first argument with `value`, which is JSON text and may be invalid."""
    return _args(name, about, lambda text: calls.only_argument(text, value))


def _tool_name(name: str, about: str, written: Callable[[str], str]) -> FaultRow:
    return FaultRow(f"tool-{name}", about, change=calls.rename_call(written))


def _body_edit(
    name: str, about: str, twist: FrameChange, change: ReplyChange = calls.repeat_call
) -> FaultRow:
    """Fields in the JSON of frames or of a body."""
    return FaultRow(name, about, change=change, twist=twist, any_body=True, whole_frames=True)


def _frames(
    name: str, about: str, change: ReplyChange, twist: FrameChange, only: FaultScope
) -> FaultRow:
    """Calls whose frames are changed."""
    return FaultRow(name, about, change=change, twist=twist, only=only)


def _index(name: str, about: str, changed: calls.IndexChange) -> FaultRow:
    return FaultRow(
        f"index-{name}",
        about,
        change=calls.repeat_call,
        twist=calls.indexes(changed),
        only=_NUMBERED,
    )


_CALLS = (
    _args("truncated", "arguments that stop half-way", calls.cut_half),
    _args("garbage", "arguments that are prose", lambda text: "Sure! {city: Paris,,"),
    _args("trailing", "text after the object", lambda text: text + " I hope this helps"),
    _args("two-objects", "the object twice", lambda text: text + text),
    _args("duplicate-keys", "one key with two values", calls.duplicate_keys),
    _args("single-quotes", "a Python dict", lambda text: text.replace('"', "'")),
    _args("comments", "JSON with a comment", lambda text: "/* args */ " + text),
    _args("wrong-types", "each value of a wrong type", calls.rewrite_values(calls.change_type)),
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
    _args("bidi", "right-to-left override characters", calls.rewrite_values(calls.reverse_text)),
    _value("ansi", "terminal escapes", '"\\u001b[31mred\\u001b[0m"'),
    _value("path", "a path out of the folder", '"../../etc/passwd"'),
    _value("ssrf", "an internal address", '"http://169.254.169.254/"'),
    _args("proto", "a key __proto__", lambda text: '{"__proto__": {"admin": true}}'),
    _change("args-deep-N", "N nested arrays", calls.rewrite_arguments(calls.deep_argument), 10_000),
    _change("args-many-keys-N", "N keys", calls.rewrite_arguments(calls.many_keys), 20_000),
    _change(
        "args-huge-N", "an argument of N characters in deltas of 8", calls.huge_argument, 100_000
    ),
    _tool_name("unknown", "a tool that was not offered", lambda name: "no_such_tool"),
    _tool_name("empty-name", "a call without a name", lambda name: ""),
    _tool_name("long-name", "a name of 300 letters", lambda name: "long" * 75),
    _tool_name("odd-name", "a name with unusual characters", lambda name: f"{name} ✨\n"),
    _tool_name(
        "lookalike-name",
        "a name with a Cyrillic letter",
        lambda name: name.translate({ord("a"): "а", ord("e"): "е"}),
    ),
    _body_edit(
        "tool-no-name",
        "a call that names no tool",
        calls.edit_frames(calls.no_names),
        calls.single_call,
    ),
    _frames(
        "tool-name-split",
        "a name in two pieces",
        calls.single_call,
        calls.split_names(0.5),
        _NAME_IN_PIECES,
    ),
    _frames(
        "tool-name-late",
        "a name after its arguments began",
        calls.single_call,
        calls.split_names(0),
        _NAME_ONCE,
    ),
    _body_edit("id-missing", "calls without an id", calls.change_ids(lambda given, n: None)),
    _body_edit("id-empty", "calls whose id is empty", calls.change_ids(lambda given, n: "")),
    _body_edit(
        "id-duplicate", "two calls with the same id", calls.change_ids(lambda given, n: "call_twin")
    ),
    _body_edit(
        "id-odd",
        "an id with unusual characters",
        calls.change_ids(lambda given, n: f"call {n} ✨/\n"),
    ),
    _frames(
        "id-changes",
        "a different id in each fragment",
        calls.repeat_call,
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
        calls.repeat_call,
        calls.interleave,
        _IN_DELTAS,
    ),
    _wire("usage-missing", "no token counts", calls.usage(None)),
    _wire("usage-odd", "token counts that are not numbers", calls.usage("many")),
    _change("parallel-N", "N calls in one turn", calls.parallel_calls, 5),
    _change("loop", "the same call in every turn", calls.repeat_first_call, always=True),
    _change(
        "loop-same-id",
        "the same call under the same id in every turn",
        calls.repeat_first_call,
        twist=calls.change_ids(lambda given, n: "call_same"),
        always=True,
        any_body=True,
        whole_frames=True,
    ),
    _change("finish-length", "cut by max_tokens", calls.cut_by_length),
    _change("finish-filter", "refused", calls.change_stop("refusal", keep_calls=False)),
    _change("finish-unknown", "an unknown finish reason", calls.change_stop("banana")),
    _change(
        "finish-wrong", "a normal finish reason although there are calls", calls.change_stop("stop")
    ),
    _change("nothing", "an empty answer", lambda reply, request, number: ModelReply(())),
    *(
        _change(name, about, calls.only_text(text))
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


def parse_fault(name: str) -> Injected:
    """The fault of this name. BadInput if there is none."""
    for fault in FAULTS:
        pattern = re.escape(fault.name).replace("\\-N", "(?:-(\\d{1,8}))?")
        match = re.fullmatch(pattern, name)
        if match:
            given = match[1] if fault.name.endswith("-N") else None
            return Injected(fault, int(given) if given else fault.number)
    known = ", ".join(fault.name for fault in FAULTS)
    raise BadInput(f"There is no fault {name!r}. Use one of: {known}.")


def prompt_fault(text: str) -> Injected | None:
    """The last fault that a prompt names, or None. BadInput: unknown."""
    names = _IN_PROMPT.findall(text)
    return parse_fault(names[-1]) if names else None


def strip_fault(text: str) -> str:
    """A prompt without its `[[fault:...]]`."""
    return _IN_PROMPT.sub("", text).strip()
