"""Every fault by name on every protocol ends as docs/reliability.md says ("what users expect").

The table below is that one: its rows in its words, each with the faults it names and what must be
seen in the session. A fault that means nothing on a protocol is left out by the simulator's own
rule for it. Two rows live elsewhere: what is retried in test_runner, what loops in test_decide.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from playground.core.decide import may_run, next_commands
from playground.core.rules import Rule
from playground.core.session import Call, Session
from playground.core.settings import Limits, Profile
from playground.engine.engine import Engine
from playground.engine.responses import ALIVE_FACTOR
from playground.engine.sessions import now_ms
from playground.protocols.registry import CODECS
from playground.simulator.app import ENDS
from playground.simulator.faults import FAULTS, FaultRow, scope_error
from tests.clock import loop_clock, on_asyncio
from tests.engine.boundary import Boundary, Exchange
from tests.engines import create_session, run_engine
from tests.tables import rest_slow
from tests.waiting import wait_while_running

pytestmark = pytest.mark.anyio
Push = Callable[[float], None]

ALLOW = (Rule("*", "run", words="--allow all"),)
SUM = {"expression": "17 * 23"}
LEAD = "I'll use calculator for 17 * 23."

# Where arguments are an object, a server that cannot read what the model wrote makes no call of
# it: Ollama shows it as text, Gemini ends with MALFORMED_FUNCTION_CALL.
NO_OBJECT: Mapping[str, Mapping[str, object]] = {
    "gemini": {"state": "failed", "failure": "error", "calls": 0, "problem": ""},
    "ollama": {"state": "idle", "failure": "", "calls": 0, "problem": ""},
}
CUT_OBJECT: Mapping[str, Mapping[str, object]] = {
    name: {"state": "idle", "calls": 0, "problem": ""} for name in ("gemini", "ollama")
}

NO_DIFFERENCE: Mapping[str, Mapping[str, object]] = {
    name: {"problem": "note schema"} for name in ("gemini", "ollama")
}
"""Nothing and an empty object are the same there."""

NUMBERS: Mapping[str, str] = {
    **dict.fromkeys(("cut-after-N", "rst-after-N", "stall-after-N", "clean-end-after-N"), "-2"),
    **{"gzip-bomb-N": "-1", "args-many-keys-N": "-10001", "args-huge-N": "-4000"},
    **{"args-deep-N": "-100", "many-deltas-N": "-100", "comment-flood-N": "-5"},
    **{"cut-bytes-N": "-200", "big-delta-N": "-1"},
}
"""Small ones, where the size is not the point."""

SILENT = ("stall-after-N", "stall-headers", "http-500-stall", "open-after-done", "pings-forever")
CAPPED = (
    *("gzip-bomb-N", "endless-line", "endless-text", "endless-args", "unlimited-blank"),
    "big-delta-N",
)
AFTER_THE_END = ("error-then-more", "done-twice", "data-after-done", "open-after-done")

SHORTER = (*CAPPED, *AFTER_THE_END, "http-500-huge", "gzip-lie", "stall-after-N", "pings-forever")
"""What we do not read to its end: of these the beginning is kept."""

TOGETHER = 20


@dataclass(frozen=True)
class Row:
    """What must be seen where one of `faults` was played.

    `state` is the session's, `failure` the kind of its failure. `calls` is how many there are
    (None: not looked at), `sound` whether they are the call as it was meant, `problem` the kind of
    the first problem of the first one (one of several words). `kept_text`: the answer's text starts
    so. `warned` are codes of which one must be among the warnings; "plain" wants none at all.
    `but` says otherwise for a protocol.
    """

    words: str
    faults: str
    state: str
    failure: str = ""
    calls: int | None = None
    sound: bool = False
    problem: str | None = None
    kept_text: str = ""
    warned: str = ""
    but: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


def failed(words: str, faults: str, failure: str, **more: object) -> Row:
    return Row(words, faults, "failed", failure, **more)  # type: ignore[arg-type]


def interrupted(words: str, faults: str, **more: object) -> Row:
    return Row(words, faults, "interrupted", "interrupted", **more)  # type: ignore[arg-type]


def waiting_row(words: str, faults: str, **more: object) -> Row:
    """A whole answer with its one call, which waits for a user."""
    answer = {"calls": 1, "sound": True, "problem": "", **more}
    return Row(words, faults, "waiting", **answer)  # type: ignore[arg-type]


def needs_you(words: str, faults: str, problem: str, **more: object) -> Row:
    return Row(words, faults, "waiting", calls=1, problem=problem, **more)  # type: ignore[arg-type]


def idle_row(words: str, faults: str, **more: object) -> Row:
    return Row(words, faults, "idle", calls=0, **more)  # type: ignore[arg-type]


TABLE: tuple[Row, ...] = (
    failed("closed: retry only when no byte came", "close-at-once rst-at-once", "unreachable"),
    failed("not HTTP; a byte came: no retry", "half-headers not-http giant-header-N", "not_api"),
    failed("after the first-byte time-out", "stall-headers", "timeout"),
    failed("the status is known, the rest is not waited for", "http-500-stall", "http"),
    failed(
        "no retry: model or URL, size, offending field",
        "http-400 http-401 http-401-echo-key http-402 http-403 http-404 http-413 http-422",
        "http",
    ),
    failed(
        "failed once retries are used up (here there are none)",
        """http-408 http-409 http-429 http-500 http-502 http-503 http-504 http-529
        http-429-retry-N http-429-date http-429-junk http-429-then-ok-N http-500-then-ok-N""",
        "http",
    ),
    failed("the status tells", "http-500-html http-500-empty http-500-huge", "http"),
    failed(
        "not an API answer",
        "http-204 http-299 html-200 html-200-as-sse empty-200 empty-sse",
        "not_api",
    ),
    failed(
        "the provider's error; everything after it ignored",
        "json-error-200 json-error-in-sse error-mid error-failed error-then-more"
        " error-mid-http-body",
        "error",
    ),
    waiting_row(
        "accepted as a non-streamed answer (note)", "json-instead-of-sse", warned="content_type"
    ),
    waiting_row(
        "done when the body parses (note)",
        "wrong-content-type no-content-type",
        warned="content_type",
    ),
    waiting_row("done when the body parses", "charset-latin1"),
    failed("redirects to URL; not followed", "redirect-N", "redirect"),
    waiting_row("done", "gzip", warned="plain"),
    interrupted("interrupted", "gzip-lie gzip-cut"),
    interrupted("stopped at the cap", "gzip-bomb-N"),
    waiting_row(
        "byte-identical to the plain stream",
        """one-byte-chunks all-in-one close-framing drip crlf comment-flood sse-bom sse-cr
        sse-no-space sse-multi-data sse-comments sse-fields""",
        kept_text=LEAD,
        warned="plain",
    ),
    idle_row(
        "byte-identical to the plain stream", "utf8-split", kept_text="Grüße aus Köln, 世界! 🌍 Ça"
    ),
    idle_row(
        "byte-identical to the plain stream",
        "u2028-in-text",
        kept_text="one\u2028two\u2029three\x85",
    ),
    idle_row(
        "byte-identical to the plain stream", "many-deltas-N", kept_text="All work and no play"
    ),
    interrupted(
        "partial kept; a partly received call cannot run",
        """bad-chunk-size no-last-chunk short-body cut-after-N cut-bytes-N rst-after-N
        clean-end-after-N clean-end-mid-args finish-missing""",
    ),
    interrupted("partial text kept", "utf8-truncated"),
    waiting_row("done, with a warning", "no-done", warned="no_marker"),
    waiting_row(
        "done: the end was told",
        "complete-no-last-chunk open-after-done",
        but={"gemini": {"warned": "unclean_close"}},  # by the finish reason alone
    ),
    interrupted("after the idle time-out", "stall-after-N pings-forever"),
    interrupted(
        "event skipped and counted; nobody knows what it told",
        "sse-bad-json sse-nul-bytes",
        warned="bad_json stray_text",
        kept_text=LEAD,
    ),
    waiting_row(
        "event skipped and counted",
        "sse-json-array sse-json-null",
        warned="not_an_object stray_text",
    ),
    waiting_row("event skipped and counted", "sse-empty-data", warned="empty_event"),
    waiting_row("U+FFFD shown, marked", "utf8-invalid", warned="bad_utf8"),
    idle_row(
        "U+FFFD shown, marked; stored; replay equal",
        "lone-surrogate",
        kept_text="Half: \ufffd and on.",
        warned="lone_surrogate",
    ),
    interrupted(
        "stopped at the cap",
        "big-delta-N endless-line endless-text endless-args unlimited-blank",
    ),
    needs_you(
        "unknown tool; never runs",
        """tool-unknown tool-empty-name tool-no-name tool-long-name tool-odd-name
        tool-lookalike-name""",
        "unknown_tool",
    ),
    waiting_row("done (joined)", "tool-name-split tool-name-late"),
    needs_you(
        "treated as {}, noted; then the schema decides", "args-empty", "note", but=NO_DIFFERENCE
    ),
    needs_you("treated as {}, noted; then the schema decides", "args-null", "note", but=NO_OBJECT),
    needs_you(
        "parse error with position; never repaired and run",
        """args-truncated args-garbage args-trailing args-two-objects args-single-quotes
        args-comments args-control-chars args-array args-number args-double-encoded args-nan""",
        "malformed",
        but=NO_OBJECT,
    ),
    needs_you(
        "malformed: duplicates, half characters, over a cap",
        """args-duplicate-keys args-long-int args-lone-surrogate args-deep-N
        args-many-keys-N""",
        "malformed",
    ),
    needs_you("runs, the exact text passed, flagged", "args-nul", "note"),
    needs_you("the exact text passed, flagged (and no text, as asked)", "args-bignum", "note"),
    needs_you("runs: under every cap", "args-huge-N", ""),
    needs_you("schema errors by path", "args-wrong-types args-proto", "schema"),
    needs_you("schema errors by path", "args-missing-required", "schema", but=NO_DIFFERENCE),
    needs_you(
        "the tool's own guard; shown with escapes",
        "args-ssrf args-path args-bidi args-ansi",
        "",
    ),
    waiting_row("own internal id", "id-missing id-empty id-odd id-changes", calls=2),
    waiting_row("duplicates flagged", "id-duplicate", calls=2, warned="same_id"),
    waiting_row(
        "by first appearance, no loss, no merge of two calls",
        """index-missing index-gap index-reversed index-same index-negative index-huge
        interleaved""",
        calls=2,
    ),
    waiting_row("no loss", "parallel-N", calls=5),
    needs_you("a turn ended by length runs no call", "finish-length", "malformed", but=CUT_OBJECT),
    idle_row("shown as such", "finish-filter"),
    idle_row(
        "shown as such",
        "nothing",
        warned="empty_answer",
        but={"gemini": {"warned": ""}},  # there is a part: it holds a signature alone
    ),
    waiting_row("shown as such", "finish-unknown"),
    waiting_row("a wrong but good finish: calls handled", "finish-wrong"),
    waiting_row("usage unknown, not 0", "usage-missing usage-odd"),
    waiting_row("first or last wins as the dialect says", "start-twice done-twice"),
    waiting_row("done, with a warning", "no-start", warned="no_opening"),
    waiting_row("data after the end ignored", "data-after-done"),
    waiting_row("stops at max turns", "loop loop-same-id"),
    idle_row("plain text", "fake-call-in-text sse-injection-text html-text"),
)


def limits_of(fault: FaultRow) -> Limits:
    """Caps that a test can wait for; no retries. No time is reached unless it is set ahead."""
    size = 100_000 if fault.name in CAPPED else Limits.max_stream_bytes
    return Limits(max_retries=0, wall_s=1e6, max_stream_bytes=size)


async def prompted(engine: Engine, protocol: str, fault: FaultRow) -> str:
    """A session whose request meets `fault`."""
    limits = limits_of(fault)
    # Gemini's older models give their calls no ids, so that nothing could be wrong with these.
    model = "gemini-3-simulated" if protocol == "gemini" else "m"
    profile = Profile("sim", protocol, "sim:", model=model)  # type: ignore[arg-type]
    session_id = await create_session(engine, ["calculator"], profile=profile)
    async with engine.sessions.lock_session(session_id) as live:
        assert live.session.settings is not None
        live.session.settings = replace(live.session.settings, limits=limits)
    name = fault.name.removesuffix("-N") + NUMBERS.get(fault.name, "")
    await engine.runner.prompt(session_id, f"[[fault:{name}]] What is 17 * 23?")
    return session_id


@dataclass
class Clock:
    """The clock that stamps what arrives, so many seconds ahead."""

    ahead_s: float = 0.0

    def __call__(self) -> int:
        return now_ms() + int(1000 * self.ahead_s)


async def fallen_silent(
    engine: Engine, session_id: str, fault: FaultRow, sent: Sequence[Exchange], push: Push
) -> None:
    """Set the clocks ahead as soon as all has come that ever will, until the request has ended.
    `sent` gets the exchange when the request arrives."""
    idle_s, clock = limits_of(fault).idle_s, engine.sessions.clock
    assert isinstance(clock, Clock)
    for _ in range(2_000):
        async with engine.sessions.lock_session(session_id) as live:
            if live.session.state != "running":
                return
        stored_data = b"".join(chunk.data for chunk in await engine.log.chunks(session_id))
        match fault.name:
            case "pings-forever" if (
                stored_data
            ):  # the signs of life keep coming by the loop's clock
                clock.ahead_s += (ALIVE_FACTOR + 1) * idle_s
            case "stall-headers" if sent and sent[0].request:
                push(idle_s + 1)
            case "http-500-stall" if stored_data:
                push(idle_s + 1)
            case "stall-after-N" | "open-after-done" if (
                stored_data and stored_data == sent[0].answer
            ):
                push(idle_s + 1)
        await engine.sessions.wait(engine.sessions.position, engine.sessions.list_version, 0.02)
    raise AssertionError(f"{fault.name} does not end")


def differences(row: Row, protocol: str, session: Session) -> list[str]:
    """What is not as the row says."""
    row = replace(row, **row.but.get(protocol, {}))  # type: ignore[arg-type]
    turn, calls = session.turns[-1], session.turns[-1].calls
    failure = turn.failure.failure if turn.failure is not None else ""
    codes = {warning.code for warning in turn.warnings} - {"translation"}
    problem = calls[0].problems[0].kind if calls and calls[0].problems else ""
    failures = []
    if (session.state, failure) != (row.state, row.failure):
        failures.append(f"{session.state} {failure}")
    if row.calls is not None and len(calls) != row.calls:
        failures.append(f"{len(calls)} calls")
    if row.sound and not all(
        (call.name, arguments_of(call)) == ("calculator", SUM) for call in calls
    ):
        failures.append(f"calls {[(call.name, call.raw[:60]) for call in calls]}")
    if row.problem is not None and problem not in (row.problem.split() or [""]):
        failures.append(f"problem {problem!r}")
    if not turn.text.startswith(row.kept_text):
        failures.append(f"text {turn.text[:40]!r}")
    if row.warned == "plain" and codes:
        failures.append(f"warned {codes}")
    if row.warned not in ("", "plain") and not codes & set(row.warned.split()):
        failures.append(f"not warned of {row.warned}: {codes}")
    if turn.failure is not None and not turn.failure.message.rstrip().endswith(
        (".", "!", "?", ")")
    ):
        failures.append(f"no sentence: {turn.failure.message}")
    failures += forbidden(row, session)
    return failures


def arguments_of(call: Call) -> object:
    """Their value; where they travel as an object, their spelling is the provider's."""
    try:
        return json.loads(call.raw)
    except ValueError:
        return call.raw


def forbidden(row: Row, session: Session) -> list[str]:
    """What must never be: a call of a turn that did not end well, or of a malformed one, runs."""
    turn = session.turns[-1]
    able = [may_run(turn, call) for call in turn.calls]
    bad = row.failure or "length" in row.faults or row.problem in ("malformed", "unknown_tool")
    failures = ["a call could run"] if bad and any(able) else []
    if row.failure and next_commands(session, ALLOW):
        failures.append("it would go on by itself")
    doubted = [call for call in turn.calls if call.part.doubt is not None and turn.end is not None]
    if not all(call.malformed or call.unsatisfied for call in doubted):
        failures.append("what streamed was doubted, and turned out to be well")
    if "usage" in row.faults and turn.end is not None and turn.end.usage.input_tokens is not None:
        failures.append(f"usage {turn.end.usage.input_tokens}")
    return failures


def playing(fault: FaultRow, share: int) -> list[str]:
    """The protocols on which it is played: others for each fault, so that all have their turn."""
    able = [end.name for end in ENDS if not scope_error(fault, end)]
    first = FAULTS.index(fault) % len(able)
    return (able[first:] + able[:first])[:share]


def test_each_fault_has_one_row() -> None:
    counted = Counter(name for row in TABLE for name in row.faults.split())
    assert {name for name, count in counted.items() if count > 1} == set()
    assert set(counted) == {fault.name for fault in FAULTS}


@on_asyncio
@pytest.mark.parametrize("share", [1, pytest.param(len(CODECS), marks=pytest.mark.slow)])
@pytest.mark.parametrize("protocol", rest_slow(CODECS))
async def test_each_fault_ends_as_people_expect(
    tmp_path: Path, protocol: str, share: int, caplog: pytest.LogCaptureFixture
) -> None:
    """And what is kept are the bytes that were sent, which decode to the same events once more.
    Each fault is played on `share` protocols of those where it means something."""
    rows = {name: row for row in TABLE for name in row.faults.split()}
    cases = [fault for fault in FAULTS if protocol in playing(fault, share)]
    errors_by_fault: dict[str, list[str]] = {}
    boundary = Boundary()
    async with run_engine(tmp_path, boundary=boundary) as engine:

        async def judge(fault: FaultRow, session_id: str) -> None:
            session = await wait_while_running(engine, session_id)
            whole, packed = fault.name not in SHORTER, "content-encoding" in fault.headers
            errors = differences(rows[fault.name], protocol, session)
            errors += await boundary.wrongly_kept(
                engine, session.id, is_complete=whole, seen=fault.raw is None and not packed
            )
            if errors:
                errors_by_fault[fault.name] = errors

        loud = [fault for fault in cases if fault.name not in SILENT]
        for place in range(0, len(loud), TOGETHER):
            batch = loud[place : place + TOGETHER]
            ids = await asyncio.gather(*(prompted(engine, protocol, fault) for fault in batch))
            await asyncio.gather(*map(judge, batch, ids))
        engine.sessions.clock = Clock()
        with loop_clock() as push:
            for fault in (fault for fault in cases if fault.name in SILENT):
                boundary.exchanges.clear()
                session_id = await prompted(engine, protocol, fault)
                await fallen_silent(engine, session_id, fault, boundary.exchanges, push)
                await judge(fault, session_id)
    assert caplog.messages == [], "what broke off looks like an answer that was interrupted"
    assert errors_by_fault == {}, "\n".join(
        f"{name}: {errors}" for name, errors in errors_by_fault.items()
    )
