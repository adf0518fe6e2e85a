"""A sentence that repeats a server's words is masked whole and cut only then."""

from __future__ import annotations

import pytest

from playground.net.client import MOST_QUOTED, NetworkError
from playground.secrets.redaction import Redactor

KEY = "sk-canary-0123456789"
mask = Redactor([KEY]).redact_text


@pytest.mark.parametrize("before", [0, MOST_QUOTED - 5, MOST_QUOTED + 5])
def test_no_part_of_a_key_is_left(before: int) -> None:
    place = "x" * before + KEY
    message = NetworkError(
        "redirect", f"It redirects to {place}; not followed.", quoted=place
    ).sentence(mask)
    assert KEY[:4] not in message
    assert message.startswith("It redirects to ")
    assert message.endswith("; not followed.")
    assert len(message) < MOST_QUOTED + 50


def test_what_the_answer_said_of_itself() -> None:
    trouble = NetworkError("http", "No.", headers={"request-id": "r1"})
    assert (trouble.request_id, trouble.sentence(mask)) == ("r1", "No.")
