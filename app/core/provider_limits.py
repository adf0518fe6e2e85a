"""What providers take of tools, in numbers and patterns, each once. Lint says them with their
sources, the encoders foretell them, the simulator refuses by them.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

ANTHROPIC_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
ANTHROPIC_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Names of the parameters at the root."""
ANTHROPIC_UNCOMPILED = re.compile(r"\(\?<?[=!]|\\[1-9bBk]")
"""What strict mode takes in no pattern: lookaround, \\b and backreferences."""
ANTHROPIC_MOST_CACHED = 4
"""Blocks with a cache_control in a request, tools among them."""
ANTHROPIC_MOST_STRICT, ANTHROPIC_MOST_OPTIONAL, ANTHROPIC_MOST_UNIONS = 20, 24, 16

OPENAI_LONGEST_NAME = {"openai_chat": 64, "openai_responses": 128}
OPENAI_NAME = {
    protocol: re.compile(rf"[a-zA-Z0-9_-]{{1,{longest}}}")
    for protocol, longest in OPENAI_LONGEST_NAME.items()
}
OPENAI_MOST_TOOLS = 128
OPENAI_DEEPEST, OPENAI_MOST_PROPERTIES = 10, 5000
OPENAI_MOST_ENUM, OPENAI_MOST_LETTERS = 1000, 120_000
OPENAI_LARGE_ENUM, OPENAI_MOST_ENUM_LETTERS = 250, 15_000
"""One enum of more values than the first has no more letters in all than the second."""

GEMINI_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
GEMINI_MOST_TOOLS = 512
GEMINI_MOST_ITEMS = 960
"""So many items in all that lists with a maxItems may have: `items_in_all`."""
GEMINI_FORMATS = {
    "string": ("enum", "date-time"),
    "integer": ("int32", "int64"),
    "number": ("float", "double"),
}
"""The formats that `parameters` know, by type; other types have none."""

_ASIDE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*+(?:\]|\\?\Z)", re.DOTALL)
_LOOKAROUND = re.compile(r"\(\?<?[=!]")
_OLDER = re.compile(r"(?:.*[/:])?(?:chat)?(?:gpt-[34]|o[134]|gpt-5(?:\.[0-4])?(?:-|$))")


def has_lookaround(pattern: str) -> bool:
    """Whether a regular expression looks ahead or behind, escapes and classes aside."""
    return "(?" in pattern and bool(_LOOKAROUND.search(_ASIDE.sub("", pattern)))


def takes_lookaround(model: str) -> bool:
    """Whether a model of OpenAI is one of those that take lookaround in tools that are not strict:
    those before gpt-5.5. A model of another name is taken for a newer one."""
    return bool(_OLDER.match(model))


@lru_cache(maxsize=1024)
def is_python_regex(pattern: str) -> bool:
    """Whether Python's `re` compiles a pattern, which is what OpenAI's check of schemas asks."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def openai_takes(pattern: str) -> bool:
    """Whether OpenAI takes a pattern in strict tools, and its newer models in any."""
    return is_python_regex(pattern) and not has_lookaround(pattern)


def items_in_all(schema: Any, *, nested: bool = True) -> int:
    """How many items the lists of a schema may have that name a maxItems. The items of a list in
    a list count for each of the outer one where `nested`. Refs are not followed."""
    count, todo = 0, [(schema, 1)]
    while todo:
        part, times = todo.pop()
        if not isinstance(part, Mapping):
            continue
        most = part.get("maxItems", part.get("max_items"))
        here = most if isinstance(most, int) and not isinstance(most, bool) and most > 0 else 0
        count += times * here
        todo += [(inner, times) for inner in _beside(part)]
        todo.append((part.get("items"), times * here if here and nested else times))
    return count


def _beside(schema: Mapping[str, Any]) -> Iterator[Any]:
    """The schemas within `schema` but for those of its items."""
    for key in ("properties", "$defs", "definitions"):
        named = schema.get(key)
        yield from named.values() if isinstance(named, Mapping) else ()
    for key in ("anyOf", "any_of", "oneOf", "allOf", "prefixItems"):
        listed = schema.get(key)
        yield from listed if isinstance(listed, list) else ()
