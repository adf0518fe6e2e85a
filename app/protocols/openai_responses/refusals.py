"""What OpenAI Responses says when it refuses a request, and where that is known from.

https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

import re
from typing import Any

from app.core.provider_limits import OPENAI_LONGEST_NAME
from app.protocols import openai_lint
from app.protocols.server import BadRequest

REFERENCE = "OpenAI API reference: create a response"
NAMES = openai_lint.NAMES["openai_responses"]
NO_OUTPUT = "https://github.com/openai/codex/issues/93"
NO_CALL = "https://github.com/continuedev/continue/issues/10092"
NO_FOLLOWER = "https://github.com/continuedev/continue/issues/8933"
TOO_LONG = "https://github.com/AnswerDotAI/fastllm/issues/45"
ENCRYPTED = "https://github.com/openai/codex/issues/8145"
PREFIX = "https://github.com/jlcodes99/cockpit-tools/issues/2090"
STORED = "https://github.com/openai/openai-agents-python/issues/919"
DUPLICATE = "https://github.com/continuedev/continue/issues/10200"
NO_CUSTOM_OUTPUT = "https://github.com/diegosouzapw/OmniRoute/issues/8946"
NOT_ENCRYPTED = "https://github.com/pydantic/pydantic-ai/issues/2865"
CHOICE = "https://github.com/vllm-project/vllm/pull/40399"
SAY_JSON = "OpenAI guide: Structured outputs, JSON mode"
DEFERRED = "https://github.com/Wei-Shaw/sub2api/issues/5942"
MINIMUM = "https://github.com/vectorize-io/hindsight/issues/58"

_NAME = re.compile(r"[a-zA-Z0-9_-]+")


def refusal(
    sentence: str,
    param: str | None,
    code: str | None = None,
    *,
    source: str = REFERENCE,
    inferred: bool = True,
    status: int = 400,
) -> BadRequest:
    """A refusal. Unless an issue or a recording shows its words, they are `inferred`."""
    return BadRequest(sentence, status, param=param, code=code, source=source, inferred=inferred)


def wrong_type(param: str, wanted: str, value: Any) -> BadRequest:
    kinds = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    got = "null" if value is None else kinds.get(type(value), "a number")
    return refusal(
        f"Invalid type for '{param}': expected {wanted}, but got {got} instead.",
        param,
        "invalid_type",
    )


def missing(param: str) -> BadRequest:
    return refusal(f"Missing required parameter: '{param}'.", param, "missing_required_parameter")


def unknown(param: str) -> BadRequest:
    return refusal(f"Unknown parameter: '{param}'.", param, "unknown_parameter")


def unsupported(param: str, value: Any, known: tuple[str, ...]) -> BadRequest:
    """A value that is none of those known."""
    quoted = [f"'{one}'" for one in known]
    last = f" and {quoted[-1]}" if len(quoted) == 2 else f", and {quoted[-1]}"
    said = quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + last
    return refusal(
        f"Invalid value: '{value}'. Supported values are: {said}.", param, "invalid_value"
    )


def too_long(param: str, most: int, length: int, source: str = TOO_LONG) -> BadRequest:
    return refusal(
        f"Invalid '{param}': string too long. Expected a string with maximum length {most}, but "
        f"got a string with length {length} instead.",
        param,
        "string_above_max_length",
        source=source,
        inferred=False,
    )


def text_of(value: Any, param: str, most: int = 0, source: str = TOO_LONG) -> str:
    """`value` as a text of `most` letters at most (0: any)."""
    if value is None:
        raise missing(param)
    if not isinstance(value, str):
        raise wrong_type(param, "a string", value)
    if most and len(value) > most:
        raise too_long(param, most, len(value), source)
    return value


def name_of(value: Any, param: str, most: int = OPENAI_LONGEST_NAME["openai_responses"]) -> str:
    """`value` as the name of a tool, or of something else of `most` letters."""
    name = text_of(value, param, most, NAMES)
    if not name:
        raise refusal(
            f"Invalid '{param}': empty string. Expected a string with minimum length 1, but got "
            "an empty string instead.",
            param,
            "empty_string",
        )
    if not _NAME.fullmatch(name):
        raise refusal(
            f"Invalid '{param}': string does not match pattern. Expected a string that matches "
            "the pattern '^[a-zA-Z0-9_-]+$'.",
            param,
            "invalid_value",
            source=NAMES,
            inferred=False,
        )
    return name


def number_of(value: Any, param: str, least: float, most: float | None, whole: bool) -> None:
    """Refuse what is no number within these bounds."""
    if value is None:
        return
    kind, word = (int, "integer") if whole else ((int, float), "decimal")
    if isinstance(value, bool) or not isinstance(value, kind):
        raise wrong_type(param, "an integer" if whole else "a decimal", value)
    if value < least:
        raise refusal(
            f"Invalid '{param}': {word} below minimum value. Expected a value >= {least}, but got "
            f"{value} instead.",
            param,
            f"{word}_below_min_value",
            source=MINIMUM,
            inferred=not whole,
        )
    if most is not None and value > most:
        raise refusal(
            f"Invalid '{param}': {word} above maximum value. Expected a value <= {most}, but got "
            f"{value} instead.",
            param,
            f"{word}_above_max_value",
        )
