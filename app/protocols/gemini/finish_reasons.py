"""Gemini's words for how an answer ended, and what they mean here; numbers where it sends those.

https://ai.google.dev/api/generate-content#FinishReason
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.core.events import EndReason

REASONS: Mapping[str, EndReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",  # the limit of one request; what follows must be asked for
    **dict.fromkeys(
        (
            *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
            *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
            *("MODEL_ARMOR", "ESCALATION", "PUP_LIMITED_DISABLED", "JAILBREAK"),
        ),
        "refusal",
    ),
}
"""What is not here (OTHER, NO_IMAGE, words to come) ends an answer for another reason."""

BROKEN = frozenset(
    {
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "MISSING_THOUGHT_SIGNATURE",
        "TOO_MANY_TOOL_CALLS",
        "UNEXPECTED_TOOL_CALL",
    }
)
"""What the model wrote was thrown away or must not be run: no answer, but one can ask again."""

_BOTH = ("", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER")
_AI_STUDIO = (
    *_BOTH,
    *("LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL"),
    *("IMAGE_SAFETY", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"),
)
_VERTEX = (
    *_BOTH,
    *("BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL", "MODEL_ARMOR"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER"),
    *("UNEXPECTED_TOOL_CALL", "NO_IMAGE"),
)
_BLOCKED = ("", "SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT")


def finish_reason(value: Any, vertex: bool) -> str:
    """The word for `value`, "" where it says nothing yet.

    Asked with enum-encoding=int a server sends numbers; from 6 on Vertex counts another way than
    the Gemini API.
    """
    return _word(value, _VERTEX if vertex else _AI_STUDIO, "FINISH_REASON_UNSPECIFIED")


def block_reason(value: Any) -> str:
    """Why a prompt was blocked, as a word; "" where it was not."""
    return _word(value, _BLOCKED, "BLOCKED_REASON_UNSPECIFIED")


def _word(value: Any, numbered: tuple[str, ...], unspecified: str) -> str:
    if isinstance(value, str):
        return "" if value == unspecified else value
    if isinstance(value, int) and not isinstance(value, bool):
        return numbered[value] if 0 <= value < len(numbered) else str(value)
    return ""
