"""Two texts are the same but for stars, and for nothing else."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from playground.core.events import Logged, PartDelta, PartEnded, PartStarted, Source
from playground.engine.verify import check_session, is_alike
from playground.protocols.registry import codec
from playground.store.writes import Chunk, ClosedRecording
from tests.factories import Log
from tests.protocols.frames import message

STARS = "*" * 8


@pytest.mark.parametrize(
    ("logged", "decoded", "same"),
    [
        ("abc", "abc", True),
        ("abc", "abd", False),
        (f"a{STARS}b", "a12345678b", True),
        (f"a{STARS}b", "a12345678c", False),
        (f"a{STARS}b", "x12345678b", False),
        (f"a{STARS}", "a1234567", False),
        (f"a{STARS}b", "a1234567b", False),
        (f"a{STARS}{STARS}b", f"a{STARS}sk-{STARS}{STARS}b", True),
        (f"a{STARS}{STARS}b", f"a{STARS}sk-{STARS}{STARS}c", False),
        ("a*******b", "a1234567b", False),
        ("a*b", "a*b", True),
        (f"{STARS}*", "123456789", True),
        ({"k": [STARS, 1]}, {"k": ["12345678", 1]}, True),
        ({STARS: 1}, {"12345678": 1}, True),
        ({"k": 1}, {"k": 1, "l": 2}, False),
        ([1], [1, 2], False),
        (1, True, False),
        (1, 1.0, False),
        (None, "", False),
    ],
)
def test_alike(logged: object, decoded: object, same: bool) -> None:
    assert is_alike(logged, decoded) is same


def test_what_was_cut_by_the_end_of_the_program_is_compared_up_to_there() -> None:
    """Nobody saw the end, so that the decoder is not told of one either."""
    request_log = Log().start().request(protocol="openai_chat").events
    log = [*request_log[:-1], replace(request_log[-1], source=Source(1, 0, 0))]
    body = b'data: {"choices":[{"index":0,"delta":{"role":"","content":"Hel"}}]}\n\ndata: {"cho'
    frame = Source(1, 0, body.index(b"\n\n"))
    seq = log[-1].seq
    loggeds = [
        *log,
        Logged(seq + 1, 1, PartStarted(0, "text"), frame),
        Logged(seq + 2, 1, PartDelta(0, "Hel"), frame),
    ]
    done = check_session("s", loggeds, [Chunk(1, 0, 1, body)], {})
    assert [difference.says for difference in done.differences] == []
    assert (done.unended, done.events) == (1, 2)
    short = check_session("s", loggeds[:-1], [Chunk(1, 0, 1, body)], {})
    assert "part_delta" in short.differences[0].line


def test_the_end_of_a_call_that_an_earlier_version_logged_later_is_no_difference() -> None:
    """Up to 0.1.0 the calls of Messages ended in the log when the whole answer did."""
    start: dict[str, Any] = {"type": "tool_use", "name": "look", "input": {}}
    delta: dict[str, Any] = {"type": "input_json_delta", "partial_json": "{}"}
    blocks = [[{**start, "id": id_}, delta] for id_ in "ab"]
    body = message(*blocks, reason="tool_use")
    decoder = codec("anthropic").decoder(200)
    spanned = [*decoder.feed(body), *decoder.end(True)]
    ends = [item for item in spanned if isinstance(item[2], PartEnded)]
    earlier = [*(item for item in spanned[:-1] if item not in ends), *ends, spanned[-1]]
    assert earlier != spanned
    request_log = Log().start().request(protocol="anthropic").events
    for events, differs in ((spanned, False), (earlier, False), (earlier[1:], True)):
        log = [*request_log[:-1], replace(request_log[-1], source=Source(1, 0, 0))]
        for begin, end, event in events:
            log.append(Logged(len(log) + 1, 1, event, Source(1, begin, end)))
        closed = ClosedRecording(1, clean=True, sha256=sha256(body).hexdigest())
        check = check_session("s", log, [Chunk(1, 0, 1, body)], {1: closed})
        assert bool(check.differences) is differs, check.differences
