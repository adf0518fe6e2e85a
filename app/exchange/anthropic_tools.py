"""Tools as Anthropic's Messages write them. https://docs.anthropic.com/en/api/messages#body-tools"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.exchange.entry import Pieces, kept, left_out, made
from app.exchange.found import Found

KIND = "Anthropic"
_KNOWN = ("type", "name", "description", "input_schema", "strict", "eager_input_streaming")
_EXTRA = ("cache_control", "defer_loading", "input_examples", "allowed_callers")
"""Kept for Anthropic as they are."""


def tool(entry: Mapping[str, Any]) -> Found:
    """`{"name", "description", "input_schema"}`"""
    pieces = Pieces(
        entry.get("name"),
        entry.get("description"),
        entry.get("input_schema"),
        rest={
            "strict": entry.get("strict"),
            "eager": entry.get("eager_input_streaming"),
            "extra": kept(entry, "anthropic", _EXTRA),
        },
        notes=left_out(entry, (*_KNOWN, *_EXTRA)),
    )
    return made(entry, KIND, pieces, "anthropic")
