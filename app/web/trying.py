"""The panel that tries a tool, put together from the engine: for the page of tools, and alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.core.errors import BadTool
from app.core.events import Problem
from app.core.tools import Tool, ToolResult
from app.engine.try_tool import Try, TryCheck
from app.exchange.results import wire_results
from app.render.arguments import as_typed, rows_of
from app.render.card import source
from app.render.filters import ago, clip
from app.render.trying import Mode, Panel, Past, Shown, Wire, wire
from app.schema.form import fields, form_of, value_of
from app.schema.sample import sample
from app.schema.validate import check_call, schema_problems
from app.web.site import Site

RUNS_NOTHING = ("mock", "person")
"""Kinds of tools that may be tried while they are switched off."""


@dataclass(frozen=True)
class Typed:
    """The arguments as they stand on the page: the fields of `form`, or `text` in mode json."""

    mode: Mode = "form"
    form: Mapping[str, Sequence[str]] = field(default_factory=dict)
    text: str = ""
    scratch: str = ""


def sampled(tool: Tool) -> Typed:
    """Arguments to begin with, made up from the schema."""
    schema = schema_of(tool)
    if tool.answered_by == "person":
        return Typed("form" if has_form(tool) else "json")
    text = json.dumps(sample(schema), ensure_ascii=False)
    return Typed("form", form_of(fields(schema, text)), text)


def filled(tool: Tool, text: str, typed: Typed) -> Typed:
    """`typed` with the arguments `text`, in the form where that can show them."""
    read = check_call(tool, tool.name, text)
    if any(one.kind == "malformed" for one in read):
        return Typed("json", {}, text, typed.scratch)
    text = text if text.strip() not in ("", "null") else "{}"
    return Typed(typed.mode, form_of(fields(schema_of(tool), text)), text, typed.scratch)


def schema_of(tool: Tool) -> Any:
    """What is to be filled in: the arguments, or for a person's tool the answer."""
    if tool.answered_by == "person":
        return tool.config.get("output_schema", {})
    return tool.parameters


def has_form(tool: Tool) -> bool:
    """Whether there is a schema to make a form of."""
    return tool.answered_by != "person" or "output_schema" in tool.config


def text_of(tool: Tool, typed: Typed) -> tuple[str, tuple[Problem, ...]]:
    """The JSON text that is typed, or what is wrong with it at which place."""
    if typed.mode == "json":
        return typed.text, ()
    read = value_of(schema_of(tool), typed.form)
    return read.text, read.problems


NEW = "Give the tool a name, and it can be tried here."
BROKEN = "What stands in the editor is no tool yet; mend it, and it can be tried here."


async def first_panel(site: Site, tool: Tool | None, name: str = "") -> Panel:
    """The panel of a page that is opened: a tool of the library, filled with a sample."""
    if tool is None:
        return Panel(None, name, BROKEN if name else NEW)
    return await panel_of(site, tool, name, sampled(tool), ask=False)


async def panel_of(site: Site, tool: Tool, name: str, typed: Typed, *, ask: bool = True) -> Panel:
    """The panel as `typed` has it, with the verdict on it. Unless `ask`, as for a page that is
    only looked at, no server is started or asked for it."""
    engine = site.engine
    off = await is_off(site, tool, name)
    text, problems = await asyncio.to_thread(text_of, tool, typed)
    looked = TryCheck(problems, "", "")
    if not problems:
        looked = await _looked(site, tool, text, typed, off=off, ask=ask)
    drawn = () if typed.mode == "json" else fields(schema_of(tool))
    rows, others = rows_of(as_typed(drawn, typed.form), looked.problems)
    now = engine.sessions.clock()
    past = [] if tool.answered_by == "person" else await engine.log.past_calls(tool.name)
    return Panel(
        tool=tool,
        name=name,
        source=source(tool),
        mode=typed.mode,
        rows=rows,
        text=typed.text,
        others=others,
        unsatisfied=looked.unsatisfied and not problems,
        malformed=looked.malformed or bool(problems),
        off=off,
        person=tool.answered_by == "person",
        lifts=tool.answered_by == "workspace" and tool.config.get("tool") == "run_shell",
        # A mock runs nothing that could be another thing than what was seen.
        seen=looked.seen if tool.answered_by != "mock" else "",
        scratch=typed.scratch,
        past=[
            Past(
                f"{one.session}/{one.seq}",
                f"{ago(one.at_ms, now)} · {clip(one.arguments, 60)} · {one.title or one.session}",
            )
            for one in past
        ],
    )


async def _looked(
    site: Site, tool: Tool, text: str, typed: Typed, *, off: bool, ask: bool
) -> TryCheck:
    if tool.answered_by == "person":
        return TryCheck(await asyncio.to_thread(answer_problems, tool, text), "", "")
    if off:  # nothing of it is touched, not even its file
        return TryCheck(await asyncio.to_thread(check_call, tool, tool.name, text), "", "")
    return await site.engine.trying.look(tool, text, typed.scratch, ask=ask)


def answer_problems(tool: Tool, text: str) -> tuple[Problem, ...]:
    """What is wrong with an answer by hand, where there is a schema for it."""
    schema = tool.config.get("output_schema")
    if schema is None:
        return ()
    if not text:
        return (Problem("schema", "Nothing is answered yet."),)
    return schema_problems(schema, json.loads(text))


async def is_off(site: Site, tool: Tool, name: str) -> bool:
    """Whether a person has to switch it on before anything of it runs."""
    if tool.answered_by in RUNS_NOTHING or not name:
        return False
    entries = await site.engine.library.entries()
    return any(entry.tool.name == name and not entry.enabled for entry in entries)


def shown(site: Site, one: Try) -> Shown:
    """A try for the eye."""
    result = one.result
    return Shown(
        id=one.id,
        tool=one.wanted.tool.name,
        source=source(one.wanted.tool),
        started_ms=one.started_ms,
        changed=one.changed,
        progress=one.progress,
        fraction=one.fraction,
        took_ms=None if one.ended_ms is None else one.ended_ms - one.started_ms,
        result=result,
        wires=_wires(site, one, result) if result is not None else (),
    )


def _wires(site: Site, one: Try, result: ToolResult) -> list[Wire]:
    results = wire_results(one.wanted.tool, one.wanted.arguments or "{}", result, quirks(site))
    return [wire(each.protocol, each.text, each.notes) for each in results]


def quirks(site: Site) -> dict[str, tuple[str, ...]]:
    """What the first vendor of each protocol has of its own."""
    found: dict[str, tuple[str, ...]] = {}
    for profile in site.engine.profiles():
        if not profile.simulated:
            found.setdefault(profile.protocol, profile.quirks)
    return found


def broken(name: str, error: BadTool) -> Panel:
    """The panel of what is no tool (yet)."""
    return Panel(None, name, str(error))
