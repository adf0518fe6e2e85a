"""The Setup form as text: what it shows for given settings, which is what it sends back untouched.

Drawing the form and telling what a person changed in it both begin here, so they cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from app.core.settings import Settings
from app.render.filters import pretty, shown

EFFORTS = ("", "low", "medium", "high")


@dataclass(frozen=True)
class SetupForm:
    """By the names of its fields: texts, ticks, and lists of tools."""

    texts: Mapping[str, str]
    ticks: Mapping[str, bool]
    lists: Mapping[str, tuple[str, ...]]


def setup_form(settings: Settings) -> SetupForm:
    """The fields as they stand before a person touches them."""
    choice, params, limits = settings.tool_choice, settings.params, settings.limits
    tools = tuple(tool.name for tool in settings.tools)
    thinking, budget = _thinking(params.get("thinking", ""))
    return SetupForm(
        texts={
            "profile": settings.profile.name,
            "model": settings.model,
            "system": settings.system.replace("\r\n", "\n"),
            "tool_choice": choice.mode,
            "tool_choice_name": choice.name if choice.name in tools else next(iter(tools), ""),
            "temperature": str(params.get("temperature", "")),
            "max_tokens": str(params.get("max_tokens", "")),
            "thinking": thinking,
            "thinking_budget": budget,
            "max_turns": str(limits.max_turns),
            "max_retries": str(limits.max_retries),
            "first_byte_s": f"{limits.first_byte_s:g}",
            "idle_s": f"{limits.idle_s:g}",
            "extra": pretty(dict(settings.extra)) if settings.extra else "",
        },
        ticks={
            "parallel": choice.parallel,
            "stream": settings.stream,
            "allowed_only": choice.allowed is not None,
        },
        lists={"tools": tools, "allowed": tools if choice.allowed is None else choice.allowed},
    )


def _thinking(value: Any) -> tuple[str, str]:
    """(the choice, the budget); `kept` is for what only a script can say."""
    match value:
        case bool():
            return "", ""
        case int():
            return "budget", str(value)
        case str() if value in EFFORTS:
            return value, ""
    return "kept", ""


def refused_fields(refused: Mapping[str, str]) -> str:
    """The sentences on fields that were not saved, for the script that puts them beside these."""
    line = Markup('<p data-refused="{}">{}</p>')
    return "".join(line.format(name, shown(told)) for name, told in refused.items())
