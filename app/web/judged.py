"""What the page of tools tells about a tool that is typed: lint, who accepts it, how it is sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable

from app.core.serialization import from_data, to_data
from app.core.settings import PROTOCOLS
from app.core.tools import Tool
from app.engine.preview import tool_as_sent
from app.executors.filling import unfilled
from app.protocols.lint import acceptance_matrix, findings, merge_by_protocol
from app.protocols.lint_weak import estimate_tokens
from app.protocols.rewrite import Rewrite
from app.render.filters import pretty
from app.render.tools import Fixed, Judged, Sent, counts, difference
from app.store.library import LibraryEntry
from app.web.typed_tool import Typed

MOST_COUNTED = 4096

MOST_PLACES = 10
"""Of a mock's results; more would say the same."""


async def judged(typed: Typed) -> Judged:
    """The judgement of what was typed, made beside the event loop: a schema may be large."""
    if typed.tool is None:
        said = next(iter(typed.errors.values()), "")
        return Judged(problem=said, pointer=typed.pointer)
    return await asyncio.to_thread(judgement, typed.tool)


def judgement(tool: Tool) -> Judged:
    """All that is known of a tool that is sound."""
    return Judged(
        merge_by_protocol(findings(tool)),
        acceptance_matrix(tool),
        max(estimate_tokens(tool, protocol) for protocol in PROTOCOLS),
        [
            Sent(protocol, "" if entry is None else pretty(entry), notes)
            for protocol, entry, notes in tool_as_sent(tool)
        ],
        unfilled_places(tool),
    )


def unfilled_places(tool: Tool) -> list[str]:
    """A sentence for each place in a mock's results that no parameter fills."""
    if tool.answered_by != "mock":
        return []
    beside = (*tool.config.get("cases", ()), *tool.config.get("sequence", ()))
    results = [tool.config.get("result"), *(one.get("result") for one in beside)]
    properties = tool.parameters.get("properties")
    known = set(properties) if isinstance(properties, dict) else set()
    return [_unfilled(*place, known) for place in unfilled(results, known)][:MOST_PLACES]


def _unfilled(text: str, name: str, known: set[str]) -> str:
    if name in known:
        return f"`{text}` is not filled; write `{{{{ args.{name} }}}}`."
    return f"`{text}` is not filled: no parameter is called so. Write `{{{{ args.NAME }}}}`."


def fixed(typed: Typed, fix: str, made: Rewrite) -> Fixed:
    """A rewrite, to be looked at before it is taken."""
    before, after = pretty(typed.schema or {}), pretty(dict(made.parameters))
    return Fixed(fix, difference(before, after), made.lost)


async def hints(
    entries: Iterable[LibraryEntry], most: int | None = None
) -> tuple[dict[str, int], bool]:
    """How many hints each tool has, by name, those without left out; and whether these are all: of
    those that are not counted yet, at most `most` are."""
    texts = {entry.tool.name: json.dumps(to_data(entry.tool)) for entry in entries}
    new = [text for text in dict.fromkeys(texts.values()) if text not in _counted]
    counted = await asyncio.to_thread(lambda: {text: _hints(text) for text in new[:most]})
    known = {**_counted, **counted}
    _counted.update(counted)
    while len(_counted) > MOST_COUNTED:
        del _counted[next(iter(_counted))]
    found = {name: known.get(text, 0) for name, text in texts.items()}
    return {name: count for name, count in found.items() if count}, len(counted) == len(new)


_counted: dict[str, int] = {}
"""Hints by a tool as it is saved; the list of tools asks for all of them."""


def _hints(text: str) -> int:
    tool: Tool = from_data(Tool, json.loads(text))
    return sum(counts(finding, tool.strict) for finding in merge_by_protocol(findings(tool)))
