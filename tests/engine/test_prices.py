"""Costs by provider: what is counted how, and all that is not known."""

from __future__ import annotations

from typing import Any

import pytest

from playground.core.events import Usage
from playground.core.settings import Profile
from playground.engine import prices
from playground.engine.prices import cost, counts, unknown_price_reason

priced = pytest.mark.skipif(
    not prices.INSTALLED,
    reason="The list of prices is not installed; pip install -e '.[prices]'.",
)

LONG = {"cache_creation": {"ephemeral_1h_input_tokens": 200}}

COUNTS: list[tuple[str, Usage, dict[str, int] | None]] = [
    ("anthropic", Usage(None, 5), None),
    ("anthropic", Usage(5, None), None),
    ("openai_chat", Usage(), None),
    ("openai_chat", Usage(0, 0), {"input_tokens": 0, "output_tokens": 0}),
    (
        "anthropic",
        Usage(10, 5, {}, 100, 300),
        {
            "input_tokens": 410,
            "output_tokens": 5,
            "cache_read_tokens": 100,
            "cache_write_tokens": 300,
        },
    ),
    (
        "anthropic",
        Usage(10, 5, LONG, None, 300),
        {
            "input_tokens": 310,
            "output_tokens": 5,
            "cache_write_tokens": 300,
            "cache_write_1h_tokens": 200,
        },
    ),
    (
        "openai_chat",
        Usage(
            110,
            output_tokens=50,
            raw={"total_tokens": 160},
            cached_tokens=100,
            cache_write_tokens=None,
            reasoning_tokens=40,
        ),
        {"input_tokens": 110, "output_tokens": 50, "cache_read_tokens": 100},
    ),
    (
        "openai_chat",
        Usage(
            110,
            output_tokens=50,
            raw={"total_tokens": 200},
            cached_tokens=None,
            cache_write_tokens=None,
            reasoning_tokens=40,
        ),
        {"input_tokens": 110, "output_tokens": 90},
    ),
    (
        "openai_responses",
        Usage(
            110,
            output_tokens=50,
            raw={},
            cached_tokens=100,
            cache_write_tokens=None,
            reasoning_tokens=40,
        ),
        {"input_tokens": 110, "output_tokens": 50, "cache_read_tokens": 100},
    ),
    (
        "gemini",
        Usage(
            110,
            output_tokens=50,
            raw={"toolUsePromptTokenCount": 7},
            cached_tokens=100,
            cache_write_tokens=None,
            reasoning_tokens=40,
        ),
        {"input_tokens": 117, "output_tokens": 90, "cache_read_tokens": 100},
    ),
]

ANTHROPIC, OPENAI = "https://api.anthropic.com", "https://api.openai.com/v1"
MILLION = Usage(1_000_000, 1_000_000)

COSTS: list[tuple[Any, str, str, Usage, bool]] = [
    ("anthropic", ANTHROPIC, "claude-sonnet-4-5", Usage(1000, 1000), True),
    ("openai_chat", OPENAI, "gpt-4o", Usage(1000, 1000), True),
    ("openai_responses", OPENAI, "gpt-4o", Usage(1000, 1000), True),
    ("openai_chat", "https://api.groq.com/openai/v1", "llama-3.3-70b-versatile", MILLION, True),
    ("gemini", "https://generativelanguage.googleapis.com/v1beta", "gemini-2.5-flash", MILLION,
     True),
    ("anthropic", ANTHROPIC, "no-such-model", MILLION, False),
    ("anthropic", ANTHROPIC, "", MILLION, False),
    ("anthropic", ANTHROPIC, "claude-sonnet-4-5", Usage(1000, None), False),
    ("anthropic", ANTHROPIC, "claude-sonnet-4-5", Usage(0, 0), False),
    ("anthropic", ANTHROPIC + ".evil.example", "claude-sonnet-4-5", MILLION, False),
    ("openai_chat", "https://llm.example/v1", "gpt-4o", MILLION, False),
    ("openai_chat", "http://127.0.0.1:8000/v1", "gpt-4o", MILLION, False),
    ("ollama", "http://localhost:11434", "llama3.2", MILLION, False),
    ("anthropic", "sim:", "claude-sonnet-4-5", MILLION, False),
]  # fmt: skip

UNKNOWN = [
    ("sim:", "sim-1", "The simulator"),
    ("http://127.0.0.1:8000/v1", "gpt-4o", "on this computer"),
    (OPENAI, "", "No model"),
    (OPENAI, "no-such-model", "does not have no-such-model"),
    ("https://llm.example/v1", "gpt-4o", "does not have gpt-4o"),
    (OPENAI, "gpt-4o", ""),
]


@pytest.mark.parametrize(("protocol", "usage", "counted"), COUNTS)
def test_counts(protocol: str, usage: Usage, counted: dict[str, int] | None) -> None:
    assert counts(protocol, usage) == counted


@priced
@pytest.mark.parametrize(("protocol", "base_url", "model", "usage", "known"), COSTS)
def test_costs(protocol: Any, base_url: str, model: str, usage: Usage, known: bool) -> None:
    count = cost(Profile("p", protocol, base_url), model, usage)
    assert (count is not None) == known
    assert count is None or count > 0


@priced
def test_what_was_read_from_the_cache_is_cheaper() -> None:
    profile = Profile("p", "anthropic", ANTHROPIC)
    beside = cost(profile, "claude-sonnet-4-5", Usage(1000, 0, {}, 9000))
    full_cost = cost(profile, "claude-sonnet-4-5", Usage(10_000, 0))
    assert beside is not None
    assert full_cost is not None
    assert 0 < beside < full_cost / 4


@priced
@pytest.mark.parametrize(("base_url", "model", "words"), UNKNOWN)
def test_why_a_price_is_not_known(base_url: str, model: str, words: str) -> None:
    message = unknown_price_reason(Profile("p", "openai_chat", base_url), model)
    assert words in message
    assert bool(message) == bool(words)


def test_without_the_extra_no_price_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices, "INSTALLED", False)
    assert "not installed" in unknown_price_reason(Profile("p", "openai_chat", OPENAI), "gpt-4o")


def test_without_the_extra_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices, "INSTALLED", False)
    assert cost(Profile("p", "openai_chat", OPENAI), "gpt-4o", MILLION) is None
