"""The group `examples`: tools that every installation has, to try things with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from playground.core.tools import SHIPPED, Tool


def _object(required: tuple[str, ...], **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _config(function: str) -> dict[str, Any]:
    return {"file": f"{SHIPPED}example_tools.py", "function": function}


# The first two could run in parallel; run one after the other, a demo is the same each time, and a
# script sees the calls end in their order.
EXAMPLES: tuple[Tool, ...] = (
    Tool(
        name="calculator",
        description=(
            "Evaluate an arithmetic expression and return its value. Use it for every "
            "calculation beyond the trivial. Knows + - * / // % **, parentheses, pi, e, and "
            "abs, ceil, cos, exp, floor, log, max, min, round, sin, sqrt, tan. "
            "Angles are in radians. No variables."
        ),
        parameters=_object(
            ("expression",),
            expression={
                "type": "string",
                "description": "The expression, for example: 2 * (3 + 4) / sqrt(2)",
            },
        ),
        answered_by="python",
        config=_config("calculator"),
        parallel_safe=False,
        timeout_s=10.0,
        group="examples",
    ),
    Tool(
        name="get_weather",
        description=(
            "Get the weather of one city on one day: temperature, low, sky, humidity and wind. "
            "Call it once for each city. The data is made up, but the same for the same question."
        ),
        parameters=_object(
            ("city",),
            city={
                "type": "string",
                "description": "The city, with the country where the name is ambiguous.",
            },
            unit={
                "type": "string",
                "enum": ["celsius", "fahrenheit"],
                "description": "The unit of the temperatures. Celsius if left out.",
            },
            date={
                "type": "string",
                "description": "The day as YYYY-MM-DD. Today if left out.",
            },
        ),
        answered_by="python",
        config=_config("get_weather"),
        parallel_safe=False,
        timeout_s=10.0,
        group="examples",
    ),
    Tool(
        name="slow_report",
        description=(
            "Write a short report on a topic. This takes several seconds; progress is shown "
            "meanwhile. Call it only when the user asks for a report."
        ),
        parameters=_object(
            ("topic",),
            topic={"type": "string", "description": "What the report is about, in a few words."},
            seconds={
                "type": "number",
                "description": "How long to take, from 0 to 60 seconds. 5 if left out.",
                "minimum": 0,
                "maximum": 60,
            },
        ),
        answered_by="python",
        config=_config("slow_report"),
        parallel_safe=True,
        timeout_s=90.0,
        group="examples",
    ),
    Tool(
        name="flaky_lookup",
        description=(
            "Look a record up in the registry by its id. The registry is often unavailable; "
            "the call then fails with an error that says so."
        ),
        parameters=_object(
            ("record_id",),
            record_id={"type": "string", "description": "The id of the record, like R-1042."},
        ),
        answered_by="python",
        config=_config("flaky_lookup"),
        parallel_safe=False,
        timeout_s=10.0,
        group="examples",
    ),
)
