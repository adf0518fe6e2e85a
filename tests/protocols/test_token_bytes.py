"""The tokens of `logprobs` in the bytes of a frame, and in the data that an event has of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.protocols.framing import star_tokens, texts_of, token_lists, with_texts


def entry(token: str, *beside: dict[str, Any]) -> dict[str, Any]:
    return {"token": token, "bytes": list(token.encode()), "top_logprobs": list(beside)}


def starred(frame: bytes, *deltas: tuple[str, list[tuple[int, int]]]) -> bytes:
    stars, data = star_tokens(frame, deltas), bytearray(frame)
    for place in stars.quoted:
        data[place : place + 1] = b'"'
    for start, end in stars.spans:
        data[start:end] = b"*" * (end - start)
    return bytes(data)


LIKELY = [entry("ab", entry("ab"), entry("no")), entry("no"), entry("é\n", entry("ab"))]


@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_token_is_starred_with_its_like_and_its_numbers_and_the_frame_stays_json(
    ascii_only: bool,
) -> None:
    frame = json.dumps({"n": 1, "logprobs": LIKELY}, ensure_ascii=ascii_only).encode()
    masked = starred(frame, ("ab", [(1, 2)]), ("no", []), ("é\n", [(0, 2)]))
    assert len(masked) == len(frame)
    first, second, third = json.loads(masked)["logprobs"]
    assert (first["token"], first["bytes"]) == ("a*", "******")
    assert [top_logprob["token"] for top_logprob in first["top_logprobs"]] == ["a*", "no"]
    assert [type(top_logprob["bytes"]) for top_logprob in first["top_logprobs"]] == [str, list]
    assert second == LIKELY[1]
    assert set(third["token"]) == {"*"}
    assert third["top_logprobs"] == LIKELY[2]["top_logprobs"]  # another's token is none of its own


def test_the_data_of_an_event_gets_the_same_stars() -> None:
    first, second, odd = with_texts([*LIKELY[:2], "odd"], ["a*", "no"])
    assert (first["token"], first["bytes"]) == ("a*", "**")
    assert [top_logprob["token"] for top_logprob in first["top_logprobs"]] == ["a*", "no"]
    assert (second, odd) == (LIKELY[1], "odd")
    assert texts_of([*LIKELY, 1, {}, {"token": ""}, {"token": 1}]) == ["ab", "no", "é\n"]
    assert texts_of("ab") == []


def test_what_broke_off_counts_and_what_stands_apart_is_none_of_the_entries() -> None:
    answer = {"topCandidates": [{"candidates": [{"token": "x"}]}], "chosenCandidates": [entry("x")]}
    frame = json.dumps(answer).encode()
    token_counts = token_lists(frame)
    assert [[token.literal.text for token in tokens] for tokens in token_counts.lists] == [["x"]]
    assert [token_span.literal.text for token_span in token_counts.apart] == ["x"]
    assert starred(frame, ("x", [(0, 1)])).count(b'"token": "*"') == 2
    cut = frame[: frame.rindex(b"]}]")]
    assert [[token.literal.text for token in tokens] for tokens in token_lists(cut).lists] == [
        ["x"]
    ]


def test_a_string_without_an_end_hides_no_bracket_and_no_later_line() -> None:
    frame = b'[{"token": "a"}, "b\\"c] [{"token"\n[{"token": "d\\"e"}]'
    lists = token_lists(frame).lists
    assert [[token.literal.text for token in tokens] for tokens in lists] == [['d"e'], ["a"]]
