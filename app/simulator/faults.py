"""All that can go wrong, by name: `[[fault:NAME]]` in a prompt or `x-playground-fault: NAME`.

Where a name holds N, a number stands there ("cut-after-3"); without one the fault's own number
holds. A fault in what is said is played once after a prompt: with the result, all is well again.
It stands in the last paragraph of a prompt; the next prompt without one plays none.
"""

from __future__ import annotations

import re

from app.core.errors import BadInput
from app.simulator import fault_answers as answers
from app.simulator import fault_calls as calls
from app.simulator import fault_raw as raw
from app.simulator import fault_streams as streams
from app.simulator.fault import Fault, Injected
from app.simulator.fault_answers import Answer
from app.simulator.fault_raw import Raw
from app.simulator.fault_streams import Twist
from app.simulator.faults_said import CALLS

_IN_PROMPT = re.compile(r"\[\[fault:([a-z0-9-]+)\]\]")

_SSE = ("anthropic", "openai_chat", "openai_responses", "gemini")
_STARTED = ("anthropic", "openai_chat", "openai_responses")
_NO_SSE = "its stream is lines of JSON"
_ONE_END = "the end is told once, in one frame"


def _status(status: int, about: str) -> Fault:
    return Fault(f"http-{status}", about, answer=answers.status(status))


def _answer(name: str, about: str, answer: Answer, number: int = 0) -> Fault:
    return Fault(name, about, number, answer=answer)


def _wire(name: str, about: str, twist: Twist, number: int = 0) -> Fault:
    return Fault(name, about, number, twist=twist)


def _bytes(name: str, about: str, twist: Twist, number: int = 0) -> Fault:
    return Fault(name, about, number, twist=twist, any_body=True)


def _endless(name: str, about: str, twist: Twist) -> Fault:
    return Fault(name, about, twist=twist, endless=True)


def _raw(name: str, about: str, played: Raw, number: int = 0) -> Fault:
    return Fault(name, about, number, raw=played)


def _sse(name: str, about: str, twist: Twist) -> Fault:
    return Fault(f"sse-{name}", about, twist=twist, only=_SSE, why=_NO_SSE)


def _gzip(name: str, about: str, twist: Twist | None, number: int = 0) -> Fault:
    headers = {"content-encoding": "gzip"}
    return Fault(name, about, number, twist=twist, headers=headers, any_body=True)


_ANSWERS: tuple[Fault, ...] = (
    _status(400, "a refused request"),
    Fault("http-401-echo-key", "a refused key, repeated in the error", answer=answers.echo_key),
    _status(401, "a refused key"),
    _status(402, "no money left"),
    _status(403, "not permitted"),
    _status(404, "no such model"),
    _status(408, "a time-out told by status"),
    _status(409, "a conflict"),
    _status(413, "too large a request"),
    _status(422, "a request that cannot be processed"),
    _status(429, "too many requests, without a word on when to come back"),
    Fault("http-429-retry-N", "429 with Retry-After of N seconds", 1, answer=answers.retry),
    Fault(
        "http-429-date",
        "429 with a Retry-After in the past",
        answer=answers.status(429, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}),
    ),
    Fault(
        "http-429-junk",
        "429 with a Retry-After that means nothing",
        answer=answers.status(429, {"retry-after": "soon"}),
    ),
    Fault("http-429-then-ok-N", "429 N times", 2, answer=answers.status(429), then_ok=True),
    _status(500, "an error of the server"),
    Fault("http-500-html", "an error page for people", answer=answers.html(500)),
    Fault("http-500-empty", "an error without a body", answer=answers.empty(500)),
    Fault("http-500-then-ok-N", "500 N times", 1, answer=answers.status(500), then_ok=True),
    _status(502, "a bad gateway"),
    _status(503, "not available"),
    _status(504, "a gateway time-out"),
    _status(529, "overloaded"),
    Fault("http-204", "no content at all", answer=answers.empty(204)),
    Fault("html-200", "a page of HTML under status 200", answer=answers.html(200)),
    Fault("empty-200", "an empty body", answer=answers.empty(200)),
    Fault("empty-sse", "a stream of nothing", answer=answers.empty(200, "text/event-stream")),
    Fault("json-error-200", "an error object under 200", answer=answers.error_as_success),
    _answer("http-500-huge", "an error page of a MiB", answers.huge),
    _answer("http-299", "a status nobody has heard of", answers.odd_success),
    _answer("html-200-as-sse", "HTML called a stream", answers.html(200, "text/event-stream")),
    _answer("json-error-in-sse", "a stream of one error", answers.error_event),
    _answer("redirect-N", "a redirect of status N", answers.redirect, 307),
    _raw("http-500-stall", "half an error, then silence", raw.stall_500),
    _raw("close-at-once", "the connection closed without a byte", raw.close_at_once),
    _raw("rst-at-once", "the connection reset without a byte", raw.reset_at_once),
    _raw("half-headers", "closed within the headers", raw.half_headers),
    _raw("not-http", "the greeting of another protocol", raw.not_http),
    _raw("giant-header-N", "a header of N KiB", raw.giant_header, 256),
    _raw("stall-headers", "silence from the start", raw.stall_headers),
)

_STREAMS: tuple[Fault, ...] = (
    Fault("json-instead-of-sse", "one JSON body though a stream was asked for", unstreamed=True),
    _wire("error-mid", "an error event half-way", streams.error_mid),
    _wire("error-then-more", "an error event, then the rest", streams.error_then_more),
    _bytes("cut-after-N", "the connection is lost after N frames", streams.cut_after, 3),
    _bytes("cut-bytes-N", "the connection is lost after N bytes", streams.cut_bytes, 700),
    _bytes("rst-after-N", "the connection is lost within frame N + 1", streams.cut_inside, 3),
    _bytes("clean-end-after-N", "a polite end after N frames", streams.clean_end_after, 5),
    _bytes("clean-end-mid-args", "a polite end within arguments", streams.clean_end_mid_args),
    _bytes("stall-after-N", "silence after N frames", streams.stall_after, 3),
    _wire("error-mid-http-body", "a bare error half-way", streams.error_bare),
    Fault("error-failed", "an end that tells of failure", change=calls.stopped("error")),
    Fault(
        "no-done",
        "no closing marker",
        twist=streams.without("marker"),
        only=("anthropic", "openai_chat"),
        why=_ONE_END,
    ),
    Fault(
        "done-twice",
        "the closing marker twice",
        twist=streams.again("marker"),
        only=("anthropic", "openai_chat"),
        why=_ONE_END,
    ),
    _wire("finish-missing", "no finish reason and no marker", streams.without("finish", "marker")),
    Fault(
        "utf8-split",
        "characters of several bytes, cut apart",
        change=calls.saying("Grüße aus Köln, 世界! 🌍 Ça marche."),
        twist=streams.utf8_split,
        any_body=True,
        always=True,
    ),
    Fault(
        "utf8-truncated",
        "a polite end within a character",
        change=calls.saying("Grüße aus Köln, 世界! 🌍 Ça marche."),
        twist=streams.utf8_truncated,
        any_body=True,
        always=True,
    ),
    Fault("lone-surrogate", "half a character", change=calls.saying("Half: \ud800 and on.")),
    _wire("utf8-invalid", "a byte that is no UTF-8", streams.utf8_invalid),
    _bytes("one-byte-chunks", "every byte alone", streams.one_byte_chunks),
    _bytes("all-in-one", "the whole stream at once", streams.all_in_one),
    _wire("crlf", "line ends of two bytes", streams.crlf),
    _wire("comment-flood", "N comments before each frame", streams.comment_flood, 50),
    _sse("bom", "a byte order mark first", streams.respelt(bytes, b"\xef\xbb\xbf")),
    _sse("cr", "line ends of a lone CR", streams.respelt(lambda d: d.replace(b"\n", b"\r"))),
    _sse("no-space", "no space after `data:`", streams.respelt(streams.tight)),
    _sse("multi-data", "an event over two data lines", streams.respelt(streams.over_lines)),
    _sse("comments", "a comment within each event", streams.respelt(lambda d: b": hi\n" + d)),
    _sse("fields", "ids and a retry", streams.respelt(streams.with_fields)),
    _wire("sse-bad-json", "an event that is no JSON", streams.odd_event(b"{oops")),
    _wire("sse-json-array", "an event that is an array", streams.odd_event(b"[]")),
    _wire("sse-json-null", "an event that is null", streams.odd_event(b"null")),
    _sse("empty-data", "an event without data", streams.odd_event(b"")),
    _wire("sse-nul-bytes", "an event of NUL bytes", streams.odd_event(b"\x00\x00")),
    Fault(
        "start-twice",
        "the first frame twice",
        twist=streams.again("start"),
        only=_STARTED,
        why="no frame opens an answer",
    ),
    Fault(
        "no-start",
        "the first frame left out",
        twist=streams.without("start"),
        only=_STARTED,
        why="no frame opens an answer",
    ),
    _wire("data-after-done", "more text after the end", streams.more_after_end),
    Fault("wrong-content-type", "a stream of text/plain", headers={"content-type": "text/plain"}),
    Fault("no-content-type", "a body without a type", headers={"content-type": None}),
    Fault(
        "charset-latin1",
        "a charset that it is not",
        headers={"content-type": "text/event-stream; charset=iso-8859-1"},
    ),
    _gzip("gzip", "a compressed body", streams.gzipped),
    _gzip("gzip-lie", "called compressed, and is not", None),
    _gzip("gzip-cut", "half a compressed body", streams.gzip_cut),
    _gzip("gzip-bomb-N", "N MiB out of a few kB", streams.gzip_bomb, 256),
    _bytes("drip", "a few bytes at a time", streams.drip),
    _raw("close-framing", "a body that ends with the connection", raw.close_framing),
    _raw("bad-chunk-size", "a chunk whose size is no number", raw.bad_chunk_size),
    _raw("no-last-chunk", "half a body, no last chunk", raw.no_last_chunk),
    Fault(
        "complete-no-last-chunk",
        "all of it, no last chunk",
        raw=raw.complete_no_last_chunk,
    ),
    _raw("short-body", "half of the promised length", raw.short_body),
    Fault(
        "open-after-done",
        "a connection held open after the end",
        twist=streams.then_silence,
    ),
    _endless("pings-forever", "signs of life, and nothing else", streams.pings_forever),
    _endless("endless-line", "an event that never ends", streams.endless_line),
    _endless("endless-text", "text for ever", streams.endless("text")),
    _endless("endless-args", "arguments for ever", streams.endless("args")),
    _endless("unlimited-blank", "blank lines for ever", streams.unlimited_blank),
    Fault("big-delta-N", "a delta of N MiB", 9, change=calls.big_delta),
    Fault("many-deltas-N", "N deltas of one character", 2000, change=calls.many_deltas),
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
