from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.core.events import (
    CallDecided,
    CallDoubted,
    CallEnded,
    CallStarted,
    Logged,
    PartDelta,
    PartStarted,
    Problem,
    RequestSent,
    ResponseFailed,
    ResponseStarted,
    RetryScheduled,
    RunPaused,
    RunStopped,
    SessionForked,
    Source,
    TaskEnded,
    TaskStarted,
    Warned,
)
from playground.core.tools import text_result
from playground.render import wire_rows
from playground.render.wire_rows import WireRow, WireRows
from tests.factories import START_MS, Log

LINES = b"".join(
    json.dumps({"message": {"role": "assistant", "content": text}, "done": not text}).encode()
    + b"\n"
    for text in ("Hi", " you", "")
)
ARRAY = b"[" + b"\n,\n".join(
    json.dumps({"candidates": [{"content": {"parts": [{"text": text}]}}]}).encode()
    for text in ("Hi", " you")
)


def sse(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def delta(text: str) -> bytes:
    return sse(
        "content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": text}
    )


BODY = (
    sse("message_start", message={"id": "m"})
    + delta("{")
    + delta('"a"')
    + b": keep-alive\n\n"
    + sse("ping")
    + sse("ping")
    + delta(": 1}")
    + b"data: no json\n\n"
    + sse("message_stop")
)


def opened(protocol: str = "anthropic") -> WireRows:
    rows = WireRows()
    for logged in Log().start().prompt().request(protocol=protocol).events:
        rows.log(logged)
    return rows


def described(rows: WireRows) -> list[tuple[str, int, int, int]]:
    return [(row.short, row.count, row.start, row.end) for row in rows.sections[0].rows]


def test_runs_of_one_label_are_one_row() -> None:
    rows = opened()
    rows.feed(1, START_MS + 500, BODY)
    assert [(label, count) for label, count, _, _ in described(rows)] == [
        ("request 2 B", 1),
        ("message_start", 1),
        ("input_json_delta", 2),
        (": keep-alive", 1),
        ("ping", 2),
        ("input_json_delta", 1),
        ("no json", 1),
        ("message_stop", 1),
    ]
    assert all(row.at_ms == 470 for row in rows.sections[0].rows[1:])
    run = rows.sections[0].rows[2]
    assert BODY[run.start : run.end] == (delta("{") + delta('"a"')).rstrip(b"\n")


@given(st.lists(st.integers(0, len(BODY)), max_size=20))
def test_rows_do_not_depend_on_how_the_bytes_are_cut(cuts: list[int]) -> None:
    whole_rows, pieces = opened(), opened()
    whole_rows.feed(1, START_MS, BODY)
    places = [0, *sorted(cuts), len(BODY)]
    for start, end in pairwise(places):
        pieces.feed(1, START_MS, BODY[start:end])
    assert described(pieces) == described(whole_rows)


def test_a_row_knows_what_its_bytes_made() -> None:
    rows = opened()
    rows.feed(1, START_MS, BODY)
    start = described(rows)[2][2]
    rows.log(Logged(9, START_MS, PartStarted(0, "call", "add"), Source(1, start, start + 10)))
    rows.log(Logged(10, START_MS, PartDelta(0, "{"), Source(1, start, start + 10)))
    assert rows.sections[0].rows[2].blocks == ("call-1-0",)
    assert rows.sections[0].rows[3].blocks == ()


def test_changes_since_a_version_cost_what_changed() -> None:
    rows = opened()
    rows.feed(1, START_MS, delta("a"))
    version = rows.version
    assert rows.changes_since(version) == []
    rows.feed(1, START_MS, delta("b"))
    ((section, row, new),) = rows.changes_since(version)
    assert (section.number, row and row.count, new) == (1, 2, False)
    rows.feed(1, START_MS, sse("message_stop"))
    assert [new for _, _, new in rows.changes_since(version)] == [False, True]


def test_many_deltas_are_one_row() -> None:
    rows = opened()
    for _ in range(5_000):
        rows.feed(1, START_MS, delta("x"))
    assert len(rows.sections[0].rows) == 2
    assert len(rows.changes_since(0)) == 3  # the head, the request, the run


def test_own_facts_stand_between_the_frames() -> None:
    rows = opened()
    log = Log(turns=1)
    log.add(ResponseStarted(200, {}), PartStarted(0, "call", "get_weather"))
    log.add(CallDecided("1.0", "run", "rule", "no weather"), CallDecided("1.0", "run"))
    log.add(CallStarted("1.0", 1))
    log.now_ms += 172
    log.add(CallEnded("1.0", text_result("x")), Warned("odd", "Odd."), RunStopped())
    log.add(ResponseFailed("stopped", "Stopped."), RunPaused("max_turns", "Ten turns were made."))
    log.add(RunPaused("restart"), RunStopped("no weather"))
    for logged in log.events:
        rows.log(logged)
    own = [(r.label, r.tone) for r in rows.sections[0].rows if r.way == "own"]
    assert own == [
        ("get_weather → run, by rule “no weather”", ""),
        ("get_weather → run, by the user", ""),
        ("get_weather ran in 182 ms", "ran"),
        ("Odd.", "waiting"),
        ("stopped by the user", "waiting"),
        ("Stopped.", "failed"),
        ("paused: Ten turns were made.", "waiting"),
        ("paused: restart", "waiting"),
        ("stopped by rule “no weather”", "waiting"),
    ]


def test_a_call_that_goes_to_the_background_has_not_ended_there() -> None:
    rows = opened()
    log = Log(turns=1).add(ResponseStarted(200, {}), PartStarted(0, "call", "look_up"))
    log.add(CallStarted("1.0", 1), TaskStarted("call-1-0", "1.0", "look_up"))
    log.add(CallEnded("1.0", text_result("It goes on.")))
    log.add(TaskStarted("child", "1.0", "a process"), TaskEnded("child", "done"))
    log.add(TaskEnded("call-1-0", "done", text_result("x")))
    for logged in log.events:
        rows.log(logged)
    own = [(r.label, r.tone) for r in rows.sections[0].rows if r.way == "own"]
    assert own == [
        ("look_up moved to background", ""),
        ("look_up in the background: done", "ran"),
    ]


def test_what_ran_in_the_parent_took_no_time_of_a_fork() -> None:
    rows = opened()
    log = Log(turns=1).add(ResponseStarted(200, {}), PartStarted(0, "call", "look_up"))
    log.add(CallStarted("1.0", 1), SessionForked("parent", 4, ("1.0",)))
    for logged in log.add(CallEnded("1.0", text_result("By hand."))).events:
        rows.log(logged)
    own = [row.label for row in rows.sections[0].rows if row.way == "own"]
    assert own == ["forked here; everything above is from the parent", "look_up done"]


def test_a_retry_that_is_waited_for_is_a_row() -> None:
    log = Log().start().prompt().request().add(ResponseFailed("http", "Too many.", 429))
    log.add(RetryScheduled(1, 2, 1.25, 9_000, "429"))
    wire = WireRows()
    for logged in log.events:
        wire.log(logged)
    row = wire.sections[0].rows[-1]
    assert (row.label, row.tone) == ("retry 2 in 1.2 s", "waiting")


def test_a_protocol_of_another_version_is_shown_without_labels() -> None:
    rows = opened("unheard_of")
    rows.feed(1, START_MS, b'{"a": 1}\n')
    assert rows.sections[0].rows[1].label == '{"a": 1}'


def test_facts_before_any_request_have_no_place() -> None:
    rows = WireRows()
    rows.note(0, "nothing was sent")
    assert rows.sections == []


@pytest.mark.parametrize(
    ("protocol", "body", "labels"),
    [
        ("ollama", LINES, [("chat content", 2), ("chat done", 1)]),
        ("gemini", ARRAY + b"]", [("text", 2)]),
        ("openai_chat", b'{"object": "chat.completion", "choices": []}', [("chat.completion", 1)]),
        ("ollama", b'{"error": "no such model"}\n', [("error", 1)]),
    ],
)
def test_lines_and_lists_of_json_are_rows_too(
    protocol: str, body: bytes, labels: list[tuple[str, int]]
) -> None:
    for size in (1, 7, len(body)):
        rows = WireRows()
        rows.log(
            Logged(
                1,
                START_MS,
                RequestSent(
                    1, protocol=protocol, method="POST", url="http://x/y", headers={}, body="{}"
                ),
            )
        )
        for start in range(0, len(body), size):
            rows.feed(1, START_MS, body[start : start + size])
        rows.end(1, START_MS)
        assert [(row.label, row.count) for row in rows.sections[0].rows[1:]] == labels


def test_a_sentence_that_ends_in_deltas_is_told_whole() -> None:
    message = "Gemini sends a call's arguments in one piece, not in deltas."
    assert WireRow(1, "own", message, 0).short == message
    assert not WireRow(1, "own", message, 0).minor
    assert WireRow(1, "down", "content_block_delta text_delta", 0).short == "text_delta"


def test_a_doubt_is_a_fact_of_our_own_beside_its_call() -> None:
    log = Log().start().prompt().request().add(PartStarted(0, "call", "add_event"))
    log.add(PartDelta(0, '{"minutes": "30"'))
    log.add(CallDoubted(0, Problem("schema", "/minutes is a string.", "/minutes", 12)))
    rows = WireRows()
    for event in log.events:
        rows.log(event)
    last = rows.sections[0].rows[-1]
    assert last.label == "add_event arguments will not match: /minutes is a string."
    assert (last.way, last.tone, last.blocks) == ("own", "waiting", ("call-1-0",))


def test_a_reader_who_is_far_behind_is_told_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the newest changes are kept by their order."""
    few, all_ = opened(), opened()
    for item, most in ((few, 3), (all_, 4096)):
        monkeypatch.setattr(wire_rows, "RECENT", most)
        for start in range(0, len(BODY), 20):
            item.feed(1, START_MS + start, BODY[start : start + 20])
            item.join(Source(1, 0, 1), f"part-1-{start}")
    for version in range(all_.version + 2):
        rows, expected = few.changes_since(version), all_.changes_since(version)
        assert [(row, new) for _, row, new in rows] == [(row, new) for _, row, new in expected]
