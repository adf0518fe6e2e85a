"""Probabilities of tokens in the shapes that providers send."""

from __future__ import annotations

from typing import Any

import pytest

from playground.render.block_contents import MOST, Odds, TokenOdds, odds

OPENAI = [
    {"token": "Hi", "logprob": 0.0, "top_logprobs": [
        {"token": "Hi", "logprob": 0.0}, {"token": "Oh", "logprob": -0.6931471805599453}]},
    {"token": "!", "logprob": -9999.0},
]  # fmt: skip
GEMINI = {
    "topCandidates": [{"candidates": [{"token": "Oh", "logProbability": -2.302585092994046}]}],
    "chosenCandidates": [
        {"token": "Hi", "logProbability": 0},
        {"token": "!", "logProbability": -9999},
    ],
}
HI = TokenOdds("Hi", "100.0", (("Oh", "50.0"),))


@pytest.mark.parametrize(
    ("logprobs", "tokens"),
    [
        (None, None),
        ([], None),
        ({}, None),
        ("soon", None),
        ([1, None], None),
        (OPENAI, (HI, TokenOdds("!", "0.0"))),
        ({"content": OPENAI, "refusal": None}, (HI, TokenOdds("!", "0.0"))),
        ([{"content": OPENAI[:1]}, {"content": OPENAI[1:]}], (HI, TokenOdds("!", "0.0"))),
        (GEMINI, (TokenOdds("Hi", "100.0", (("Oh", "10.0"),)), TokenOdds("!", "0.0"))),
        ([{"token": None, "logprob": "x"}, {"token": "a", "logprob": float("nan")}],
         (TokenOdds("?", "?"), TokenOdds("a", "?"))),
        ([{"token": "a", "logprob": 800}], (TokenOdds("a", "100.0"),)),
    ],
)  # fmt: skip
def test_odds(logprobs: Any, tokens: tuple[TokenOdds, ...] | None) -> None:
    assert odds(logprobs) == (None if tokens is None else Odds(tokens, len(tokens)))


def test_many_are_cut_and_counted() -> None:
    token_odds = odds([{"token": "a", "logprob": -1.0}] * (MOST + 1))
    assert token_odds is not None
    assert (len(token_odds.tokens), token_odds.count) == (MOST, MOST + 1)
