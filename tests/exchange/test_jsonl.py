"""JSON Lines out and in: equal for anything that may be kept, refused by line for all else."""

from __future__ import annotations

import base64
import hashlib
import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.core.errors import BadInput
from playground.core.events import Event, PromptAdded, SessionForked, SettingsChanged
from playground.core.reducer import fold
from playground.exchange.bundle import (
    MAX_BYTES,
    RecordedChunk,
    Recording,
    SessionBundle,
    read_session,
    write_session,
)
from tests.core.test_messages import stories
from tests.factories import Log, turn_with_calls
from tests.playbook import number_events

BYTES = st.lists(st.binary(min_size=1, max_size=9), max_size=4)

PROMPT = 3


def make_bundle() -> SessionBundle:
    """A session with a call that ran, whose first answer was recorded."""
    log = turn_with_calls(("get_weather", {"city": "Paris"})).run("1.1")
    data = b"data: {}\n\ndata: \xff\n\n"
    pieces = [RecordedChunk(1, data[:5]), RecordedChunk(2, data[5:])]
    recording = Recording(1, pieces, True, ((6, 8),), hashlib.sha256(data).hexdigest())
    return SessionBundle(
        log.session(),
        title="T\u202e",
        log=log.events,
        recordings={1: recording},
        tags=("a", "b"),
        parent="",
        created_ms=5,
    )


def lines_of(session_bundle: SessionBundle) -> list[Any]:
    return [json.loads(line) for line in write_session(session_bundle).data.splitlines()]


def joined(lines: list[Any]) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


@settings(derandomize=True, max_examples=15, deadline=None)
@given(stories(), BYTES, st.text(max_size=9), st.sampled_from(["\ud800", "\u2028", "\0"]))
def test_out_and_in_is_equal(
    events: list[Event], pieces: list[bytes], title: str, odd: str
) -> None:
    log = number_events(*events[:-1], PromptAdded(f"last{odd}"))
    session = fold("s", log)
    data = b"".join(pieces)
    digest = hashlib.sha256(data).hexdigest()
    recording = Recording(1, [RecordedChunk(9, piece) for piece in pieces], False, (), digest)
    session_bundle = SessionBundle(
        session,
        title=title,
        log=log or number_events(*events),
        recordings={1: recording} if session.turns else {},
        tags=(),
        parent="",
        created_ms=3,
    )
    again = read_session(write_session(session_bundle).data, "other")
    assert again.session.id == "other"
    assert list(again.log) == list(session_bundle.log)
    assert again.recordings == session_bundle.recordings
    renamed = replace(again, session=session_bundle.session)
    assert write_session(renamed).data == write_session(session_bundle).data


def test_a_whole_session_comes_back() -> None:
    session_bundle = make_bundle()
    again = read_session(write_session(session_bundle).data, "new")
    assert (again.title, again.tags, again.created_ms) == (
        session_bundle.title,
        session_bundle.tags,
        5,
    )
    assert again.recordings == session_bundle.recordings
    assert again.session.turns[0].number == 1
    assert write_session(session_bundle).file_name == "t.jsonl"


def test_a_fork_says_whose_it_is_and_stands_alone() -> None:
    log = Log().start().add(SessionForked("parent", 1))
    session_bundle = SessionBundle(log.session(), "", log.events)
    assert lines_of(session_bundle)[0]["session"]["parent"] == "parent"
    again = read_session(write_session(session_bundle).data, "new")
    assert again.parent == "", "not an exported session is its parent"
    assert lines_of(again)[0]["session"]["parent"] == "parent"


def deep(levels: int) -> Any:
    return [deep(levels - 1)] if levels else []


def change_line(number: int, **fields: Any) -> bytes:
    lines = lines_of(make_bundle())
    lines[number - 1] = {**lines[number - 1], **fields}
    return joined(lines)


LINES = lines_of(make_bundle())
PIECE = next(n for n, line in enumerate(LINES, 1) if "bytes" in line)
REQUEST = next(n for n, line in enumerate(LINES, 1) if line.get("kind") == "request_sent")
WRONG: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "not an exported session"),
    "a picture": (b"\x89PNG\r\n\x1a\n", "Line 1 "),
    "another program's": (b'{"a": 1}\n', "Line 1 "),
    "no header": (joined(LINES[1:]), "Line 1 "),
    "of a later version": (change_line(1, playground=2), "Line 1 "),
    "a title that is none": (change_line(1, session={"title": 4}), "Line 1 "),
    "tags that are none": (change_line(1, session={"tags": [4]}), "Line 1 "),
    "a time that is none": (change_line(1, session={"created_ms": 10**20}), "Line 1 "),
    "only a header": (joined(LINES[:1]), "not an exported session"),
    "an event of no kind": (change_line(PROMPT, kind="exploded"), f"Line {PROMPT} "),
    "a kind that is a list": (change_line(PROMPT, kind=[]), f"Line {PROMPT} "),
    "a field too many": (change_line(PROMPT, auto_approve=True), f"Line {PROMPT} "),
    "a text that is a number": (change_line(PROMPT, text=7), f"Line {PROMPT} "),
    "a time that is a text": (change_line(PROMPT, at_ms="now"), f"Line {PROMPT} "),
    "a number twice": (change_line(PROMPT, seq=1), f"Line {PROMPT} "),
    "a header that is none": (change_line(REQUEST, headers={'x"""': ""}), "no header"),
    "an address that is none": (change_line(REQUEST, url="http://["), "not an address"),
    "a port that is none": (change_line(REQUEST, url="http://a:9999999/"), "not an address"),
    "a gap in the numbers": (change_line(PROMPT, seq=9), f"Line {PROMPT} "),
    "an event in no place": (joined([*LINES[:2], {**LINES[4], "seq": 2}]), "Line 3 "),
    "a source that is none": (change_line(PROMPT, source=[1, 9, 4]), f"Line {PROMPT} "),
    "a source of two": (change_line(PROMPT, source=[1, 9]), f"Line {PROMPT} "),
    "an image nested deep": (change_line(PROMPT, images=deep(90)), f"Line {PROMPT} "),
    "an object nested deeper": (b'{"a":' * 200_000, "Line 1 "),
    "bytes that are not base64": (change_line(PIECE, bytes="a*"), f"Line {PIECE} "),
    "bytes in no place": (change_line(PIECE, start=3), f"Line {PIECE} "),
    "bytes of no request": (change_line(PIECE, recording=9), f"Line {PIECE} "),
    "no bytes": (change_line(PIECE, bytes=""), f"Line {PIECE} "),
    "other bytes": (change_line(PIECE, bytes=base64.b64encode(b"12345").decode()), "this hash"),
    "marks beyond the bytes": (change_line(len(LINES), masked=[[1, 99]]), f"Line {len(LINES)} "),
    "an event behind the bytes": (joined([*LINES, LINES[2]]), f"Line {len(LINES) + 1} "),
    "a line that is cut": (joined(LINES)[:-9], f"Line {len(LINES)} "),
    "too large": (b" " * (MAX_BYTES + 1), "larger than 32 MiB"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_read_is_named_by_its_line(name: str) -> None:
    data, message = WRONG[name]
    with pytest.raises(BadInput) as caught:
        read_session(data, "new")
    assert message in str(caught.value)
    assert str(caught.value).endswith(".")


@settings(derandomize=True, deadline=None)
@given(st.data())
def test_whatever_stands_in_a_line_it_is_read_or_refused(data: st.DataObject) -> None:
    """One value of one line is another: no other error ever leaves `read`."""
    number = data.draw(st.integers(1, len(LINES)))
    line = LINES[number - 1]
    name = data.draw(st.sampled_from(sorted(line)))
    odd: Any = data.draw(st.sampled_from([None, True, -1, 0, 10**30, "", "x", [], {}, [[]], 1.5]))
    with suppress(BadInput):
        read_session(change_line(number, **{name: odd}), "new")


def test_a_change_of_settings_comes_back_too() -> None:
    log = Log().start()
    had = log.session().settings
    assert had is not None
    log.add(SettingsChanged(replace(had, system="s", params={"temperature": 0.5})))
    session_bundle = SessionBundle(log.session(), "", log.events)
    assert (
        read_session(write_session(session_bundle).data, "n").session.settings
        == session_bundle.session.settings
    )
