"""What of a pattern looks around, and which models take that."""

from __future__ import annotations

import pytest

from playground.protocols.openai_chat.limits import has_lookaround, takes_lookaround


@pytest.mark.parametrize(
    ("pattern", "looks"),
    [
        ("^(?=a)b", True),
        ("a(?<!b)", True),
        (r"\[(?=a)", True),
        ("[]x](?!a)", True),
        ("(?P<name>a)(?:b)", False),
        (r"\(?=a", False),
        (r"(?:a)[](?=\]]", False),
        # As long as the square of it would never end.
        ("(?:" + "[" * 300_000, False),
        ("(?:" + "[\\" * 150_000, False),
    ],
)
def test_lookaround_is_told_from_what_looks_like_it(pattern: str, looks: bool) -> None:
    assert has_lookaround(pattern) == looks


@pytest.mark.parametrize(
    ("model", "takes"),
    [
        ("gpt-4o-mini", True),
        ("ft:gpt-4.1-2025-04-14:acme::x1", True),
        ("openai/gpt-5.4", True),
        ("chatgpt-4o-latest", True),
        ("gpt-5.5", False),
        ("ft:gpt-5.5:acme::x1", False),
        ("gpt-oss-120b", False),
    ],
)
def test_a_model_is_older_by_its_name(model: str, takes: bool) -> None:
    assert takes_lookaround(model) == takes
