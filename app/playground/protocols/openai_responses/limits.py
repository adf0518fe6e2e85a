"""Limits of OpenAI for the tools of Responses.

https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

import re

from playground.protocols.openai_chat.limits import (
    SCHEMA_LIMITS,
    name_limits,
    names_of,
    needs_object,
    newer_lookaround,
    tool_count_limit,
)
from playground.protocols.server import Citation
from playground.protocols.tool_limits import (
    LACKS_EAGER,
    CallIdLimit,
    Limit,
    LimitTable,
    Match,
    SentTool,
    equal_names,
)

REFERENCE = Citation("OpenAI API reference: create a response", inferred=True)
NAMES = Citation("https://github.com/CommandCodeAI/command-code/issues/778")
_LONGEST_NAME = 128
SHORT_NAME = 64
"""The length limit of other servers of this protocol."""

CALL_ID = CallIdLimit(
    re.compile("[^\ud800-\udfff]{1,64}"),
    "this protocol accepts 64 characters",
    Citation("https://github.com/orchidfiles/ungate/issues/26"),
)


def _lacks_name(tool: SentTool) -> Match:
    return not tool.name and {"shown": ""}


def _longer_than_elsewhere(tool: SentTool) -> Match:
    length = len(tool.name)
    return SHORT_NAME < length <= _LONGEST_NAME and {"length": length}


# fmt: off
LIMITS = LimitTable(
    "openai_responses",
    "OpenAI",
    of_tool=(
        LACKS_EAGER,
        Limit(names_of(_LONGEST_NAME), _lacks_name, REFERENCE,
              "Invalid '{where}': empty string. Expected a string with minimum length 1, but got "
              "an empty string instead.", pointer="/name", param="{where}", code="empty_string"),
        *name_limits(_LONGEST_NAME, NAMES),
        Limit(
            f"Other servers with the Responses API accept names of {SHORT_NAME} letters; this "
            f"one has {{length}}"
        , _longer_than_elsewhere,
              Citation("https://github.com/anomalyco/opencode/issues/43714"), severity="weak",
              pointer="/name"),
        needs_object(),
    ),
    of_schema=(*SCHEMA_LIMITS, newer_lookaround(inferred=False)),
    of_request=(
        tool_count_limit(inferred=True),
        equal_names(REFERENCE, "Invalid 'tools': the name '{name}' occurs twice.", "tools"),
    ),
)
# fmt: on
