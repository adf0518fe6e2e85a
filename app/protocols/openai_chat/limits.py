"""Defines what OpenAI refuses of the tools of Chat Completions; other servers keep most of it.

https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

from app.protocols.limits import (
    LACKS_EAGER,
    TWICE,
    Limit,
    LimitTable,
    Match,
    SentTool,
    equal_names,
    lacks_freeform,
)
from app.protocols.openai_limits import (
    NO_TYPE,
    SCHEMA_LIMITS,
    name_limits,
    needs_object,
    newer_lookaround,
    too_many,
)
from app.protocols.server import Citation

LONGEST_NAME = 64
_LONG_DESCRIPTION = 1024


def _long_description(tool: SentTool) -> Match:
    return len(tool.description) > _LONG_DESCRIPTION and {"length": len(tool.description)}


# fmt: off
LIMITS = LimitTable(
    "openai_chat",
    "OpenAI",
    of_tool=(
        LACKS_EAGER,
        lacks_freeform("A server without the quirk custom_tools has no free-form tools: it is sent "
                       "a tool with one text",
                       "docs/wire.md, section 2; the quirk custom_tools of a profile"),
        NO_TYPE,
        *name_limits(LONGEST_NAME,
                     Citation("https://github.com/home-assistant/core/issues/121325")),
        Limit(f"Older models of OpenAI refuse a description of more than {_LONG_DESCRIPTION:,} "
              "characters; this one has {length:,}", _long_description,
              Citation("https://github.com/langchain-ai/open_deep_research/issues/80"),
              severity="weak", pointer="/description", family="gpt-4o, o1, o3-mini"),
        needs_object(),
    ),
    of_schema=(*SCHEMA_LIMITS, newer_lookaround(inferred=True)),
    of_request=(equal_names(TWICE), too_many(inferred=False)),
)
# fmt: on
