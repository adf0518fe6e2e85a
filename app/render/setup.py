"""The Setup form as text: what it shows for given settings, which is what it sends back untouched.

Drawing the form and telling what a person changed in it both begin here, so they cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from app.core.settings import Settings
from app.core.tools import Tool
from app.render.filters import pretty, shown
from app.render.limits import LIFTED, limit_text

MANY_TOOLS = 20
"""More are searched, and stand in groups."""

EFFORTS = ("", "low", "medium", "high")

PARAMS = ("temperature", "max_tokens", "thinking")
"""The parameters that have fields of their own; the others stand in one, as JSON."""


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
    others = {name: value for name, value in params.items() if name not in PARAMS}
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
            "max_calls_per_turn": str(limits.max_calls_per_turn),
            "max_calls_per_answer": str(limits.max_calls_per_answer),
            "max_parallel": str(limits.max_parallel),
            **{name: limit_text(name, limits) for name in LIFTED},
            "max_retries": str(limits.max_retries),
            "first_byte_s": f"{limits.first_byte_s:g}",
            "idle_s": f"{limits.idle_s:g}",
            "own_params": pretty(others) if others else "",
            "extra": pretty(dict(settings.extra)) if settings.extra else "",
        },
        ticks={
            "parallel": choice.parallel,
            "stream": settings.stream,
            "continue_on_error": limits.continue_on_error,
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


@dataclass(frozen=True)
class ToolRow:
    """A tool that may be chosen. `words` are what it is searched by."""

    name: str
    kind: str
    words: str
    chosen: bool


@dataclass(frozen=True)
class Offered:
    """The tools to choose from as (title, rows), in an order that no choice changes: a row that
    moved would be missed by the next click."""

    groups: Sequence[tuple[str, Sequence[ToolRow]]]
    count: int
    many: bool


def offered_tools(library: Sequence[Tool], settings: Settings) -> Offered:
    """The library, and what the session alone has."""
    chosen = {tool.name for tool in settings.tools}
    known = {tool.name for tool in library}
    rows = [(group_of(tool), _tool_row(tool, tool.answered_by, chosen)) for tool in library]
    rows += [
        (group_of(tool), _tool_row(tool, "of this session", chosen))
        for tool in settings.tools
        if tool.name not in known
    ]
    if len(rows) <= MANY_TOOLS:
        flat = [("Tools", [row for _, row in rows])] if rows else []
        return Offered(flat, len(rows), many=False)
    groups: dict[str, list[ToolRow]] = {}
    for title, row in rows:
        groups.setdefault(title, []).append(row)
    return Offered([*groups.items()], len(rows), many=True)


def group_of(tool: Tool) -> str:
    """The title of the group that a tool stands in."""
    if tool.answered_by == "mcp":
        return tool.group or f"mcp · {tool.config.get('server', '')}"
    return tool.group or ("workspace" if tool.answered_by == "workspace" else "yours")


def _tool_row(tool: Tool, kind: str, chosen: set[str]) -> ToolRow:
    words = " ".join((tool.name, kind, group_of(tool), tool.description[:300]))
    return ToolRow(tool.name, kind, words, tool.name in chosen)


def refused_fields(refused: Mapping[str, str]) -> str:
    """The sentences on fields that were not saved, for the script that puts them beside these."""
    line = Markup('<p data-refused="{}">{}</p>')
    return "".join(line.format(name, shown(told)) for name, told in refused.items())
