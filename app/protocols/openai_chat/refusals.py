"""What OpenAI Chat Completions says when it refuses a request, and where that is known from.

https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import re
from typing import Any

from app.core.provider_limits import OPENAI_LONGEST_NAME
from app.protocols import openai_lint
from app.protocols.server import BadRequest, Source

REFERENCE = Source("OpenAI API reference: create a chat completion")
ASSUMED = Source("OpenAI API reference: create a chat completion", inferred=True)
UNANSWERED = Source("https://github.com/BerriAI/litellm/issues/10083")
NO_CALL = Source("https://github.com/miurla/morphic/issues/136")
OTHER_CALL = Source("docs/wire.md, section 2: results answer the calls before", inferred=True)
TOO_MANY = Source("https://github.com/vishalmysore/Tools4AI/issues/16")
NAMES = Source(openai_lint.NAMES["openai_chat"])
MAX_TOKENS = Source("https://github.com/sipeed/picoclaw/issues/16")
ONLY_DEFAULT = Source("recordings of vercel/ai, openai errors (docs/wire.md, section 2)")
TOOL_CONTENT = Source("recordings of pydantic-ai, test_multimodal_tool_return_matrix")
SAY_JSON = Source("https://github.com/mem0ai/mem0/issues/3008")
IMAGES = Source("OpenAI guide to images", inferred=True)

_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_LONGEST = OPENAI_LONGEST_NAME["openai_chat"]


def wrong_type(param: str, wanted: str, value: Any) -> BadRequest:
    kinds = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    got = "null" if value is None else kinds.get(type(value), "a number")
    return REFERENCE.refusal(
        f"Invalid type for '{param}': expected {wanted}, but got {got} instead.",
        param=param,
        code="invalid_type",
    )


def missing(param: str) -> BadRequest:
    return REFERENCE.refusal(
        f"Missing required parameter: '{param}'.", param=param, code="missing_required_parameter"
    )


def invalid(param: str, sentence: str, source: Source = REFERENCE) -> BadRequest:
    return source.refusal(f"Invalid '{param}': {sentence}", param=param, code="invalid_value")


def unsupported(param: str, value: Any, known: str) -> BadRequest:
    """A value that is none of those known."""
    return REFERENCE.refusal(
        f"Invalid value: '{value}'. Supported values are: {known}.",
        param=param,
        code="invalid_value",
    )


def check_name(name: Any, place: str) -> str:
    if not isinstance(name, str):
        raise missing(place)
    if not _NAME.fullmatch(name):
        raise invalid(
            place,
            "string does not match pattern. Expected a string that matches the pattern "
            "'^[a-zA-Z0-9_-]+$'.",
            NAMES,
        )
    if len(name) > _LONGEST:
        raise NAMES.refusal(
            f"Invalid '{place}': string too long. Expected a string with maximum length "
            f"{_LONGEST}, but got a string with length {len(name)} instead.",
            param=place,
            code="string_above_max_length",
        )
    return name
