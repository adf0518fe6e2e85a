"""What was typed into the editor of tools, read: the tool it spells, or what is wrong and where.

The schema travels as JSON text (`parameters`); `now` names the face that was typed into. Nothing
here asks the library: a tool that is looked at need not be saved.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from app.core.errors import BadTool
from app.core.serialization import from_data, to_data
from app.core.settings import PROTOCOLS
from app.core.tools import FREEFORM, NO_PARAMETERS, Tool
from app.core.value_diff import line_changes
from app.exchange.python_signature import face as python_face
from app.exchange.python_signature import tool_from
from app.exchange.tool_export import tool_as_sent
from app.executors.executor import unfilled
from app.protocols.lint import acceptance_matrix, estimate_tokens, findings, merge_by_protocol
from app.protocols.rewrite import Rewrite, rewritten
from app.render.filters import pretty
from app.schema.outline import apply_action, apply_form, outline, row_at
from app.schema.validate import check_tool
from app.store.library import LibraryEntry
from app.web.forms import Body
from app.web.tools.form import FACES, ToolForm, field_of, parameters_of, tool_data
from app.web.tools.view import Editor, Judged, OfferedFix, counts

MOST_ROWS = 400
"""Of the face that is a form. Each is up to 13 fields, and a request brings at most 5,000."""

_ROW_FIELD = re.compile(r"[0-9]{1,4}\.[a-z]{1,20}")


@dataclass(frozen=True)
class TypedTool:
    """`schema` is None where the face that was typed into spells none, `tool` where the rest does
    not either; `errors` then says why, by field, `pointer` where in the tool, and `line` where in
    the JSON or Python text, from 1. `data` is the
    tool before it was checked. `paths` tells where the rows of the form are now."""

    form: ToolForm
    rows: Mapping[str, str] = field(default_factory=dict)
    schema: dict[str, Any] | None = None
    data: Mapping[str, Any] | None = None
    tool: Tool | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    pointer: str = ""
    line: int | None = None
    paths: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


def typed(body: Body) -> TypedTool:
    """What the fields of the editor say."""
    values = body.typed(ToolForm)
    values |= {name: body.text(name, getattr(ToolForm, name)) for name in _SAY_SOMETHING}
    now = body.text("now", "json")
    form = ToolForm(**{**values, "face": now if now in FACES else "json"})
    rows = {name: body.text(name) for name in body.data if _ROW_FIELD.fullmatch(name)}
    return _checked(_with_schema(TypedTool(form, rows)))


def checked(form: ToolForm, tool: Tool | None) -> TypedTool:
    """What fields say that nobody typed: those of a saved `tool`, or drawn by us."""
    if tool is not None:
        return TypedTool(form, schema=dict(tool.parameters), tool=tool)
    return _checked(_with_schema(TypedTool(form)))


_SAY_SOMETHING = ("takes", "method", "timeout_s", "answered_by")
"""Fields that are not empty where they were not sent."""


def _with_schema(was: TypedTool) -> TypedTool:
    """With the schema of the face that was typed into."""
    form = was.form
    if form.takes != "json":
        return replace(was, schema=dict(FREEFORM))
    try:
        match form.face:
            case "form":
                outline_schema = apply_form(parameters_of(form.parameters), was.rows)
                schema = None if outline_schema.problems else outline_schema.schema
                return replace(
                    was, schema=schema, errors=outline_schema.problems, paths=outline_schema.paths
                )
            case "python":
                source_tool = tool_from(form.source.replace("\r\n", "\n"), _bare(form))
                named = replace(form, name=source_tool.name, description=source_tool.description)
                return replace(was, form=named, schema=dict(source_tool.parameters))
            case _:
                return replace(was, schema=parameters_of(form.parameters))
    except BadTool as error:
        place = "source" if form.face == "python" else "parameters"
        return replace(was, errors={place: str(error)}, pointer=error.pointer, line=error.line)


def _bare(form: ToolForm) -> Tool:
    """The tool that a Python text is read over: it keeps what that does not say."""
    try:
        parameters = parameters_of(form.parameters)
    except BadTool:
        parameters = dict(NO_PARAMETERS)
    return Tool(form.name.strip() or "tool", form.description, parameters)


def _checked(was: TypedTool) -> TypedTool:
    if was.schema is None:
        return was
    try:
        data = tool_data(was.form, was.schema)
        return replace(was, data=data, tool=check_tool(data))
    except BadTool as error:
        name = field_of(error.pointer, was.form.answered_by)
        return replace(was, errors={name: str(error)}, pointer=error.pointer)


def typed_tool(body: Body) -> Tool:
    """The tool that the fields of the editor spell; BadTool with a sentence where they do not."""
    was = typed(body)
    if was.tool is None:
        raise BadTool(next(iter(was.errors.values())), was.pointer, was.line)
    return was.tool


# Another face, and the schema changed by a button ---------------------------------------------


def faced(was: TypedTool, face: str) -> Editor:
    """The editor with the schema shown in another face; as it was where that is not possible."""
    if was.schema is None or face not in FACES:
        return as_typed(was)
    text = _keep_typed_text(was.form.parameters, was.schema)
    return shown(replace(was.form, parameters=text, face=face), was.errors, was.line)


def shown(
    form: ToolForm, errors: Mapping[str, str] | None = None, line: int | None = None
) -> Editor:
    """The editor over fields whose `parameters` are sound JSON."""
    editor = Editor(form, errors=errors or {}, line=line)
    match form.face:
        case "form":
            root = outline(parameters_of(form.parameters))
            count = sum(1 for _ in root.flat()) - 1
            if count > MOST_ROWS:
                return replace(editor, form=replace(form, face="json"), large=count)
            return replace(editor, rows=root)
        case "python":
            face = python_face(_bare(form))
            return replace(editor, form=replace(form, source=face.source), lossy=face.lossy)
    return editor


def as_typed(was: TypedTool) -> Editor:
    """The editor with what was typed, every letter of it, and what is wrong."""
    editor = Editor(was.form, errors=was.errors, line=was.line)
    if was.form.face == "form":
        try:
            root = outline(parameters_of(was.form.parameters))
        except BadTool:
            return replace(editor, form=replace(was.form, face="json"))
        return replace(editor, rows=root, typed=was.rows)
    return editor


def done(was: TypedTool, act: str) -> Editor:
    """The editor after a button of a row (`add 3`, `up 2`), or after `format`."""
    if was.schema is None:
        return as_typed(was)
    if act == "format":
        form = replace(was.form, parameters=pretty(was.schema))
        return replace(shown(form, was.errors), focus="parameters")
    verb, _, number = act.partition(" ")
    path = was.paths.get(int(number)) if number.isdigit() else None
    if path is None:
        return faced(was, was.form.face)
    schema, there = apply_action(was.schema, verb, path)
    editor = shown(replace(was.form, parameters=pretty(schema)))
    row = row_at(editor.rows, there) if editor.rows else None
    if row is None:
        return editor
    named = "name" if "name" in row.texts else "type"
    place = {"add": named, "remove": "add"}.get(verb, verb)
    return replace(editor, focus=f"{row.number}.{place}")


def fixed(was: TypedTool, fix: str) -> Editor | None:
    """The editor with what a fix of lint would change; None where there is no schema, or no such
    fix."""
    rewrite_result = _rewritten(was, fix)
    if rewrite_result is None:
        return None
    diff = line_changes(pretty(was.schema or {}), pretty(dict(rewrite_result.parameters)))
    return replace(
        as_typed(was),
        fixed=OfferedFix(fix, diff, rewrite_result.lost, rewrite_result.refused),
        focus="apply",
    )


def applied(was: TypedTool, fix: str) -> Editor | None:
    """The editor with what it changes."""
    rewrite_result = _rewritten(was, fix)
    if rewrite_result is None:
        return None
    form = replace(was.form, parameters=pretty(dict(rewrite_result.parameters)))
    return replace(shown(form, was.errors), focus="lint")


def _rewritten(was: TypedTool, fix: str) -> Rewrite | None:
    match fix:
        case "strict" | "gemini" | "inline" | "drop" if was.schema is not None:
            return rewritten(fix, was.schema)
    return None


def _keep_typed_text(text: str, schema: Mapping[str, Any]) -> str:
    """The text as it was typed, where it says this schema already."""
    try:
        same = json.dumps(parameters_of(text)) == json.dumps(schema)
    except BadTool:
        same = False
    return text if same else pretty(schema)


# The findings about the tool in the editor: lint, which providers accept it, how it is sent.


MOST_COUNTED = 4096

MOST_PLACES = 10
"""Of a mock's results; more would say the same."""


async def judged(typed: TypedTool) -> Judged:
    """The judgement of what was typed, made beside the event loop: a schema may be large."""
    if typed.tool is None:
        problem = next(iter(typed.errors.values()), "")
        return Judged(problem=problem, pointer=typed.pointer)
    return await asyncio.to_thread(judgement, typed.tool)


def judgement(tool: Tool) -> Judged:
    """All that is known of a tool that is sound."""
    return Judged(
        merge_by_protocol(findings(tool)),
        acceptance_matrix(tool),
        max(estimate_tokens(tool, protocol) for protocol in PROTOCOLS),
        list(tool_as_sent(tool)),
        unfilled_places(tool),
    )


def unfilled_places(tool: Tool) -> list[str]:
    """A sentence for each place in a mock's results that no parameter fills."""
    if tool.answered_by != "mock":
        return []
    beside = (*tool.config.get("cases", ()), *tool.config.get("sequence", ()))
    results = [tool.config.get("result"), *(case.get("result") for case in beside)]
    properties = tool.parameters.get("properties")
    known = set(properties) if isinstance(properties, dict) else set()
    return [_unfilled(*place, known) for place in unfilled(results, known)][:MOST_PLACES]


def _unfilled(text: str, name: str, known: set[str]) -> str:
    if name in known:
        return f"`{text}` is not filled; write `{{{{ args.{name} }}}}`."
    return f"`{text}` is not filled: no parameter is called so. Write `{{{{ args.NAME }}}}`."


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
    tokens = {name: known.get(text, 0) for name, text in texts.items()}
    return {name: count for name, count in tokens.items() if count}, len(counted) == len(new)


_counted: dict[str, int] = {}
"""Hints by a tool as it is saved; the list of tools asks for all of them."""


def _hints(text: str) -> int:
    tool: Tool = from_data(Tool, json.loads(text))
    return sum(counts(finding, tool.strict) for finding in merge_by_protocol(findings(tool)))
