"""The rows of the table in `faults` that are about what the model says: calls, ids, text, ends."""

from __future__ import annotations

import json

from app.protocols.reply import ModelReply
from app.simulator import fault_calls as calls
from app.simulator import fault_fields as fields
from app.simulator.fault import Fault
from app.simulator.fault_calls import Change
from app.simulator.fault_streams import Twist

_STARTED = ("anthropic", "openai_chat", "openai_responses")
_NUMBERED = (*_STARTED, "ollama")
_WHOLE_CALL = "a call comes whole there"
_NO_INDEX = "calls have no index there"


def _args(name: str, about: str, change: Change, number: int = 0) -> Fault:
    return Fault(f"args-{name}", about, number, change=change)


def _says(name: str, about: str, change: Change, number: int = 0) -> Fault:
    return Fault(name, about, number, change=change)


def _id(name: str, about: str, twist: Twist, change: Change = calls.pair) -> Fault:
    return Fault(f"id-{name}", about, change=change, twist=twist, any_body=True, whole_frames=True)


def _index(name: str, about: str, changed: fields.Indexed) -> Fault:
    return Fault(
        f"index-{name}",
        about,
        change=calls.pair,
        twist=fields.indexes(changed),
        only=_NUMBERED,
        why=_NO_INDEX,
    )


CALLS: tuple[Fault, ...] = (
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
    Fault("tool-unknown", "a tool nobody offered", change=calls.named(lambda n, i: "no_such_tool")),
    Fault("tool-empty-name", "a call without a name", change=calls.named(lambda n, i: "")),
    Fault("tool-long-name", "a name of 300 letters", change=calls.named(lambda n, i: "long" * 75)),
    Fault("tool-odd-name", "a name with odd letters", change=calls.named(lambda n, i: f"{n} ✨\n")),
    Fault(
        "tool-lookalike-name",
        "a name with a Cyrillic letter",
        change=calls.named(lambda n, i: n.translate({ord("a"): "а", ord("e"): "е"})),
    ),
    Fault(
        "tool-no-name",
        "a call that names no tool",
        change=calls.alone,
        twist=fields.mended(fields.no_names),
        any_body=True,
        whole_frames=True,
    ),
    Fault(
        "tool-name-split",
        "a name in two pieces",
        change=calls.alone,
        twist=fields.split_names,
        only=("openai_chat",),
        why="a name has no pieces there",
    ),
    Fault(
        "tool-name-late",
        "a name after its arguments began",
        change=calls.alone,
        twist=fields.late_names,
        only=("openai_chat", "openai_responses"),
        why="a name is told once, where the call opens",
    ),
    _id("missing", "calls without an id", fields.ids(lambda given, n: None)),
    _id("empty", "calls whose id is empty", fields.ids(lambda given, n: "")),
    _id("duplicate", "two calls of one id", fields.ids(lambda given, n: "call_twin")),
    _id("odd", "an id of odd characters", fields.ids(lambda given, n: f"call {n} ✨/\n")),
    Fault(
        "id-changes",
        "another id in each fragment",
        change=calls.pair,
        twist=fields.changing_ids,
        only=("openai_chat", "openai_responses"),
        why=_WHOLE_CALL + ", or is called by its index",
    ),
    _index("missing", "calls without an index", lambda index: None),
    _index("gap", "indexes far apart", lambda index: index * 3 + 5),
    _index("reversed", "indexes that count down", lambda index: 100 - index),
    _index("same", "one index for all", lambda index: 0),
    _index("negative", "indexes below zero", lambda index: -1 - index),
    _index("huge", "indexes beyond any array", lambda index: index + 10**15),
    Fault(
        "interleaved",
        "two calls written at the same time",
        change=calls.pair,
        twist=fields.interleaved,
        only=_STARTED,
        why=_WHOLE_CALL,
    ),
    Fault("usage-missing", "no word on tokens", twist=fields.usage(None)),
    Fault("usage-odd", "tokens that are no numbers", twist=fields.usage("many")),
    Fault(
        "loop-same-id",
        "the same call under the same id in every turn",
        change=calls.again,
        twist=fields.ids(lambda given, n: "call_same"),
        always=True,
        any_body=True,
        whole_frames=True,
    ),
    Fault("finish-length", "cut by max_tokens", change=calls.cut_by_length),
    Fault("finish-filter", "refused", change=calls.stopped("refusal", keep_calls=False)),
    Fault("finish-unknown", "a reason nobody knows", change=calls.stopped("banana")),
    Fault("finish-wrong", "an ordinary end though there are calls", change=calls.stopped("stop")),
    Fault("nothing", "an answer without a word", change=lambda r, q, n: ModelReply(())),
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
