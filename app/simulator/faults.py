"""All that can go wrong, by name: `[[fault:NAME]]` in a prompt or `x-playground-fault: NAME`.

Where a name holds N, a number stands there ("cut-after-3"); without one the fault's own number
holds. A fault in what is said is played once after a prompt: with the result, all is well again.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from app.core.errors import BadInput
from app.simulator import fault_answers as answers
from app.simulator import fault_calls as calls
from app.simulator import fault_streams as streams
from app.simulator.fault_answers import Answer
from app.simulator.fault_calls import Change
from app.simulator.fault_streams import Twist
from app.simulator.reply import Reply

_IN_PROMPT = re.compile(r"\[\[fault:([a-z0-9-]+)\]\]")


@dataclass(frozen=True)
class Fault:
    """A row of the table: one of `answer`, `change`, `twist` and `unstreamed`, or change and twist.

    `number` is what N stands for if none is given. `always`: a change that is played in every turn.
    `then_ok`: the answer is played N times for one request, then it is let through. `any_body`: a
    twist that a JSON body can suffer, too; the others need a stream.
    """

    name: str
    about: str
    number: int = 0
    answer: Answer | None = None
    change: Change | None = None
    twist: Twist | None = None
    unstreamed: bool = False
    always: bool = False
    then_ok: bool = False
    any_body: bool = False
    content_type: str | None = None


@dataclass(frozen=True)
class Injected:
    """A fault as it was asked for, with its number."""

    fault: Fault
    number: int


def _status(status: int, about: str) -> Fault:
    return Fault(f"http-{status}", about, answer=answers.status(status))


def _args(name: str, about: str, change: Change, number: int = 0) -> Fault:
    return Fault(f"args-{name}", about, number, change=change)


def _wire(name: str, about: str, twist: Twist, number: int = 0) -> Fault:
    return Fault(name, about, number, twist=twist)


def _bytes(name: str, about: str, twist: Twist, number: int = 0) -> Fault:
    return Fault(name, about, number, twist=twist, any_body=True)


FAULTS: tuple[Fault, ...] = (
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
    Fault("redirect", "a redirect that keeps the body", answer=answers.redirect(307)),
    Fault("json-instead-of-sse", "one JSON body though a stream was asked for", unstreamed=True),
    _wire("error-mid", "an error event half-way", streams.error_mid),
    _wire("error-then-more", "an error event, then the rest", streams.error_then_more),
    _bytes("cut-after-N", "the connection is lost after N frames", streams.cut_after, 3),
    _bytes("cut-bytes-N", "the connection is lost after N bytes", streams.cut_bytes, 700),
    _bytes("rst-after-N", "the connection is lost within frame N + 1", streams.cut_inside, 3),
    _bytes("clean-end-after-N", "a polite end after N frames", streams.clean_end_after, 5),
    _bytes("clean-end-mid-args", "a polite end within arguments", streams.clean_end_mid_args),
    _bytes("stall-after-N", "silence after N frames", streams.stall_after, 3),
    _wire("no-done", "no closing marker", streams.without("marker")),
    _wire("finish-missing", "no finish reason and no marker", streams.without("finish", "marker")),
    Fault(
        "utf8-split",
        "characters of several bytes, cut apart",
        change=calls.saying("Grüße aus Köln, 世界! 🌍 Ça marche."),
        twist=streams.utf8_split,
        any_body=True,
        always=True,
    ),
    _wire("utf8-invalid", "a byte that is no UTF-8", streams.utf8_invalid),
    _bytes("one-byte-chunks", "every byte alone", streams.one_byte_chunks),
    _bytes("all-in-one", "the whole stream at once", streams.all_in_one),
    _wire("crlf", "line ends of two bytes", streams.crlf),
    _wire("comment-flood", "N comments before each frame", streams.comment_flood, 50),
    _wire("sse-bad-json", "a line that is no JSON", streams.before_text(b"data: {oops\n\n")),
    _wire("start-twice", "the first frame twice", streams.first_twice),
    _wire("data-after-done", "more text after the end", streams.more_after_end),
    Fault("wrong-content-type", "a stream called text/plain", content_type="text/plain"),
    Fault("many-deltas-N", "N deltas of one character", 2000, change=calls.many_deltas),
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
    _args("nul", "a NUL character", calls.raw(calls.with_value('"a\\u0000b"'))),
    _args("bidi", "text that runs backwards on screen", calls.values(calls.upside_down)),
    _args("ansi", "terminal escapes", calls.raw(calls.with_value('"\\u001b[31mred\\u001b[0m"'))),
    _args("path", "a path out of the folder", calls.raw(calls.with_value('"../../etc/passwd"'))),
    _args("ssrf", "an inner address", calls.raw(calls.with_value('"http://169.254.169.254/"'))),
    _args("proto", "a key __proto__", calls.raw(lambda t, n: '{"__proto__": {"admin": true}}')),
    _args("deep-N", "N arrays within each other", calls.raw(calls.deep), 10_000),
    _args("many-keys-N", "N keys", calls.raw(calls.many_keys), 20_000),
    _args("huge-N", "an argument of N characters in deltas of 8", calls.huge, 100_000),
    Fault("tool-unknown", "a tool nobody offered", change=calls.named(lambda n, i: "no_such_tool")),
    Fault("tool-empty-name", "a call without a name", change=calls.named(lambda n, i: "")),
    Fault("tool-long-name", "a name of 300 letters", change=calls.named(lambda n, i: "long" * 75)),
    Fault("tool-odd-name", "a name with odd letters", change=calls.named(lambda n, i: f"{n} ✨\n")),
    Fault(
        "tool-lookalike-name",
        "a name with a Cyrillic letter",
        change=calls.named(lambda n, i: n.translate({ord("a"): "а", ord("e"): "е"})),
    ),
    Fault("finish-length", "cut by max_tokens", change=calls.cut_by_length),
    Fault("finish-filter", "refused", change=calls.stopped("refusal", keep_calls=False)),
    Fault("finish-unknown", "a reason nobody knows", change=calls.stopped("banana")),
    Fault("finish-wrong", "an ordinary end though there are calls", change=calls.stopped("stop")),
    Fault("nothing", "an answer without a word", change=lambda r, q, n: Reply(())),
    Fault("parallel-N", "N calls in one turn", 5, change=calls.parallel),
    Fault("loop", "the same call in every turn", change=calls.again, always=True),
    Fault(
        "fake-call-in-text",
        "a call that is only text",
        change=calls.saying('<tool_call>{"name": "delete_all", "arguments": {}}</tool_call>'),
    ),
    Fault(
        "sse-injection-text",
        "text that looks like frames",
        change=calls.saying('one\n\ndata: {"choices": []}\n\nevent: error\ndata: [DONE]\n\ntwo'),
    ),
    Fault(
        "html-text",
        "text that is HTML",
        change=calls.saying("<script>alert(1)</script><img src=x onerror=alert(2)> **bold**"),
    ),
    Fault(
        "u2028-in-text", "line separators", change=calls.saying("one\u2028two\u2029three\x85four")
    ),
)


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
    """The fault that a prompt asks for, or None. Raises BadInput for a name nobody knows."""
    found = _IN_PROMPT.search(text)
    return by_name(found[1]) if found else None


def without_fault(text: str) -> str:
    """A prompt without its `[[fault:...]]`."""
    return _IN_PROMPT.sub("", text).strip()
