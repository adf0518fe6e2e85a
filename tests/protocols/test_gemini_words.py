"""Finish reasons, and the numbers that may stand for them."""

from __future__ import annotations

from typing import Any

import pytest

from playground.protocols.gemini.decode import BROKEN, REASONS, block_reason, finish_reason


@pytest.mark.parametrize(
    ("value", "studio", "vertex"),
    [
        ("STOP", "STOP", "STOP"),
        ("NEW_WORD", "NEW_WORD", "NEW_WORD"),
        ("FINISH_REASON_UNSPECIFIED", "", ""),
        (0, "", ""),
        (1, "STOP", "STOP"),
        (2, "MAX_TOKENS", "MAX_TOKENS"),
        (6, "LANGUAGE", "BLOCKLIST"),
        (9, "SPII", "MALFORMED_FUNCTION_CALL"),
        (10, "MALFORMED_FUNCTION_CALL", "MODEL_ARMOR"),
        (12, "UNEXPECTED_TOOL_CALL", "IMAGE_PROHIBITED_CONTENT"),
        (99, "99", "99"),
        (-1, "-1", "-1"),
        (None, "", ""),
        (True, "", ""),
        (1.5, "", ""),
        ([], "", ""),
    ],
)
def test_a_finish_reason_is_a_word(value: Any, studio: str, vertex: str) -> None:
    assert finish_reason(value, vertex=False) == studio
    assert finish_reason(value, vertex=True) == vertex


@pytest.mark.parametrize(
    ("value", "word"),
    [("SAFETY", "SAFETY"), ("BLOCKED_REASON_UNSPECIFIED", ""), (0, ""), (4, "PROHIBITED_CONTENT")],
)
def test_why_a_prompt_was_blocked(value: Any, word: str) -> None:
    assert block_reason(value) == word


def test_what_is_broken_is_no_ending() -> None:
    assert not BROKEN & REASONS.keys()
