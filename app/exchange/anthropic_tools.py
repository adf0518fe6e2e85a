"""Tools as Anthropic's Messages write them. https://docs.anthropic.com/en/api/messages#body-tools"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.exchange.entry import ToolParts, build_tool, note_left_out, protocol_extra
from app.exchange.found import ImportedTool

ANTHROPIC = "Anthropic"
_ANTHROPIC_KNOWN = (
    "type",
    "name",
    "description",
    "input_schema",
    "strict",
    "eager_input_streaming",
)
_ANTHROPIC_EXTRA = ("cache_control", "defer_loading", "input_examples", "allowed_callers")
"""Kept for Anthropic as they are."""


def anthropic_tool(entry: Mapping[str, Any]) -> ImportedTool:
    """`{"name", "description", "input_schema"}`"""
    pieces = ToolParts(
        entry.get("name"),
        entry.get("description"),
        entry.get("input_schema"),
        rest={
            "strict": entry.get("strict"),
            "eager": entry.get("eager_input_streaming"),
            "extra": protocol_extra(entry, "anthropic", _ANTHROPIC_EXTRA),
        },
        notes=note_left_out(entry, (*_ANTHROPIC_KNOWN, *_ANTHROPIC_EXTRA)),
    )
    return build_tool(entry, ANTHROPIC, pieces, "anthropic")
