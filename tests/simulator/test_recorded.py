"""Which recorded answer follows, and what is said where there is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.protocols.server import BadRequest
from playground.simulator.recorded import (
    LEFT,
    MatchingExchange,
    RecordedExchange,
    RecordedSession,
    find_exchange,
    frames,
    headers,
)


def body(*messages: Any) -> str:
    return json.dumps({"messages": messages})


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def call_message(name: str = "look", arguments: str = '{"a": 1}') -> Any:
    call = {"id": "c1", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def result_message(text: str) -> Any:
    return {"role": "tool", "tool_call_id": "c1", "content": text}


def take(number: int, *messages: Any, **more: Any) -> RecordedExchange:
    values: Any = {"status": 200, "headers": {}, "first_s": 0.5, "pieces": [(0.1, b"x")]}
    return RecordedExchange(
        number, body(*messages), clean=more.pop("clean", True), **{**values, **more}
    )


ASKED = user("Look.")
TAPE = RecordedSession(
    "openai_chat",
    [
        take(1, ASKED),
        take(2, ASKED),  # the same again: the first one failed, say
        take(3, ASKED, call_message(), result_message("one")),
        take(4, ASKED, call_message(), result_message("two")),
        take(
            5,
            ASKED,
            call_message(),
            result_message("two"),
            {"role": "assistant", "content": "2"},
            user("So?"),
        ),
    ],
)


@pytest.mark.parametrize(
    ("messages", "again", "number", "others"),
    [
        ([ASKED], 0, 1, ()),
        ([ASKED], 1, 2, ()),
        ([ASKED], 7, 2, ()),
        ([ASKED, call_message(), result_message("two")], 0, 4, ()),
        ([ASKED, call_message(arguments='{ "a":1 }'), result_message("one")], 0, 3, ()),
        ([ASKED, call_message(), result_message("three")], 0, 3, ("look",)),
        ([ASKED, call_message(), result_message("three")], 1, 4, ("look",)),
        ([ASKED, call_message(arguments='{"a": 2}'), result_message("two")], 0, 4, ("look",)),
        ([ASKED, call_message(arguments="{"), result_message("no")], 0, 3, ("look",)),
    ],
)
def test_the_answer_whose_way_is_nearest(
    messages: list[Any], again: int, number: int, others: tuple[str, ...]
) -> None:
    matching_take = find_exchange(TAPE, body(*messages), again)
    assert (matching_take.take.number, matching_take.others) == (number, others)


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([user("Listen.")], "has the message “Look.” here, not the message “Listen.”. Send that "
         "one."),
        ([ASKED, call_message(), result_message("two"), user("So?"), user("Thus.")],
         "The recording ends here"),
        ([ASKED, call_message("hear"), result_message("two")],
         "has a call of look here, not a call of hear"),
        ([ASKED, user("Hey!")], "has a call of look here, not the message “Hey!”"),
        ([ASKED, call_message()], "the result of look came first"),
        ([user("x" * 200)], "“" + "x" * 79 + "…”"),
    ],
)  # fmt: skip
def test_where_the_path_leaves_the_recording(messages: list[Any], words: str) -> None:
    with pytest.raises(BadRequest) as refused:
        find_exchange(TAPE, body(*messages), 0)
    assert words in str(refused.value)
    assert str(refused.value).endswith("Or choose another model in Setup and continue with it.")


def test_a_tape_without_takes_ends_at_once() -> None:
    with pytest.raises(BadRequest, match="The recording ends here"):
        find_exchange(RecordedSession("openai_chat", []), body(ASKED), 0)


def test_bytes_keep_their_pieces_and_pauses_and_their_cut() -> None:
    item = take(1, pieces=[(0.1, b"a"), (0.0, b"b")], clean=False)
    played = [(frame.data, frame.pause, frame.tag) for frame in frames(item)]
    assert played == [
        (b"", 0.5, "other"), (b"a", 0.1, "other"), (b"b", 0.0, "other"), (b"", 0.0, "cut"),
    ]  # fmt: skip
    assert [frame.tag for frame in frames(take(1))] == ["other", "other"]


def test_headers_are_the_recorded_ones_but_for_those_of_the_connection() -> None:
    recorded = {
        "content-type": "text/event-stream", "Content-Length": "7", "Transfer-Encoding": "chunked",
        "content-encoding": "gzip", "date": "then", "x-odd": "a\nb", LEFT: "old",
        "x-ratelimit": "3",
    }  # fmt: skip
    item = take(1, headers=recorded)
    stored_data = {"content-type": "text/event-stream", "x-ratelimit": "3"}
    assert headers(MatchingExchange(item)) == stored_data
    assert headers(MatchingExchange(item, ("a b", "ü"))) == {**stored_data, LEFT: "a%20b,%C3%BC"}
