"""The editor of tools: converts a tool to the texts of its fields and back, checks the tool in the
editor, and parses the input into a tool or into errors with their places.

What a field cannot represent exactly, or has no field, is JSON in the field `rest_KIND`: a tool
that is saved unedited is the same tool. The schema is sent as JSON text (`parameters`); `now` names
the tab that was edited. Knows no HTML, and never queries the library: a tool can be checked without
being saved.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from playground.core.arguments import name_of_step
from playground.core.errors import BadTool
from playground.core.serialization import from_data, to_data
from playground.core.settings import PROTOCOLS
from playground.core.tools import ANSWERED_BY, FREEFORM, NO_PARAMETERS, Tool
from playground.core.value_diff import LineChange, line_changes
from playground.exchange.python_signature import python_source as python_face
from playground.exchange.python_signature import tool_from
from playground.exchange.text_places import line_of_steps, text_root
from playground.exchange.tool_export import WireForm, tool_as_sent
from playground.executors.executor import unfilled_placeholders
from playground.net.threads import run_in_daemon
from playground.protocols.lint import (
    Finding,
    ToolAcceptance,
    acceptance_matrix,
    estimate_tokens,
    findings,
    merge_by_protocol,
)
from playground.protocols.rewrite import Rewrite, apply_rewrite
from playground.protocols.vendor_limits import VENDOR_LIMITS
from playground.render.filters import plural, pretty_json
from playground.schema import strict_json
from playground.schema.http_parameters import check_parameters
from playground.schema.outline import OutlineRow, apply_action, apply_form, outline, row_at
from playground.schema.validate import MOCKED, check_tool, parse_tool_json
from playground.store.library import LibraryEntry
from playground.web.forms import Body
from playground.web.tools.parameter_rows import ParameterRow, parameter_rows

FACES = ("form", "json", "python")

START = '{\n  "type": "object",\n  "properties": {},\n  "required": []\n}'

_OFF: tuple[Write, Read] = (lambda value: "on" if value is False else "", lambda text: False)
_TICKED = ("is_error", "private", "fresh")

MOST_FIRST = 6

MOST_ROWS = 400
"""The limit of the form tab. Each row has up to 13 fields, and a request at most 5,000."""

_ROW_FIELD = re.compile(r"[0-9]{1,4}\.[a-z]{1,20}")

_SAY_SOMETHING = ("takes", "method", "timeout_s", "answered_by")
"""Fields with a default if they were not sent."""

MOST_COUNTED = 4096

MOST_PLACES = 10
"""The limit of a mock's results; more would add nothing."""

_counted: dict[str, int] = {}
"""Hints by a tool's saved state; the list of tools requests all of them."""


@dataclass(frozen=True)
class ToolForm:
    """The editor's fields as text, so that refused input is returned unchanged.

    `face` is the tab that shows the schema; `source` is the Python one. The fields of a kind's
    config have the names of its keys, except `server_tool` and `workspace_tool`.
    """

    name: str = ""
    description: str = ""
    parameters: str = START
    face: str = "json"
    source: str = ""
    answered_by: str = "mock"
    group: str = ""
    timeout_s: str = "30"
    parallel_safe: bool = False
    strict: bool = False
    eager: bool = False
    read_only: bool = False
    extra: str = ""
    takes: str = "json"
    definition: str = ""
    result: str = ""
    result_as: str = ""
    is_error: bool = False
    delay_s: str = ""
    failure_rate: str = ""
    failure: str = ""
    file: str = ""
    function: str = ""
    interpreter: str = ""
    fresh: bool = False
    code: str = ""
    method: str = "GET"
    url: str = ""
    http_parameters: str = ""
    headers: str = ""
    body: str = ""
    hosts: str = ""
    private: bool = False
    server: str = ""
    server_tool: str = ""
    workspace_tool: str = ""
    output_schema: str = ""
    rest_mock: str = ""
    rest_python: str = ""
    rest_http: str = ""
    rest_mcp: str = ""
    rest_person: str = ""
    rest_workspace: str = ""
    rest_other: str = ""

    @property
    def parameter_rows(self) -> list[ParameterRow]:
        """How the parameters are sent; [] for none, and for refused ones."""
        try:
            parameters = strict_json.parse(self.http_parameters or "[]")
            check_parameters(parameters)
        except (strict_json.InvalidJSON, BadTool):
            return []
        return parameter_rows({"parameters": parameters})


Write = Callable[[Any], str]
Read = Callable[[str], Any]


def tool_form(tool: Tool, face: str = "json") -> ToolForm:
    """The editor's fields for a saved tool."""
    shown: dict[str, Any] = {}
    rest = dict(tool.config)
    for name, (key, write, read) in FIELDS.get(tool.answered_by, {}).items():
        text = write(rest[key]) if key in rest else ""
        if text.strip() and "\r" not in text and _parses_to(read, text, rest[key]):
            shown[name] = text if name not in _TICKED else True
            del rest[key]
        elif name == "method" and key in rest:
            shown[name] = ""  # the field has it, and no value is given twice
    if rest == {"result": ""}:
        rest = {}
    form = ToolForm(
        name=tool.name,
        description=tool.description,
        parameters=pretty_json(dict(tool.parameters)),
        face=face,
        answered_by=tool.answered_by,
        group=tool.group,
        timeout_s=_seconds_text(tool.timeout_s),
        parallel_safe=tool.parallel_safe,
        strict=tool.strict,
        eager=tool.eager,
        read_only=tool.read_only,
        extra=pretty_json(tool.extra) if tool.extra else "",
        takes=_input_format(tool),
        definition=str((tool.format or {}).get("definition", "")),
    )
    if "result" in rest and tool.answered_by == "mock":
        shown |= _result_fields(rest)
    shown[_rest_field(tool.answered_by)] = pretty_json(rest) if rest else ""
    return replace(form, **shown)


def _result_fields(rest: dict[str, Any]) -> dict[str, str]:
    """The fields of a result whose text looks like another type, removed from `rest`."""
    value = rest["result"]
    kind = "text" if isinstance(value, str) else "json"
    text = _result_text(value)
    if not text.strip() or "\r" in text or not _parses_to(RESULTS[kind], text, value):
        return {}
    del rest["result"]
    return {"result": text, "result_as": kind}


def tool_data(form: ToolForm, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """The tool in our own format that the fields spell, with these parameters; BadTool with the
    place if a field cannot be parsed. A free-form tool has none."""
    data = {
        "name": form.name.strip(),
        "description": form.description,
        "answered_by": form.answered_by,
        "config": _config(form),
        "strict": form.strict,
        "eager": form.eager,
        "read_only": form.read_only,
        "extra": _json_field(form.extra, "/extra") if form.extra.strip() else {},
        "parallel_safe": form.parallel_safe,
        "timeout_s": _number(form.timeout_s, "/timeout_s"),
        "group": form.group.strip(),
    }
    match form.takes:
        case "json":
            return {**data, "parameters": dict(parameters or {})}
        case "text":
            return {**data, "format": {"type": "text"}}
        case syntax:
            definition = form.definition
            if not definition.strip():
                raise BadTool("Enter the grammar that the text must follow.", "/definition")
            return {
                **data,
                "format": {"type": "grammar", "syntax": syntax, "definition": definition},
            }


def parameters_of(text: str) -> dict[str, Any]:
    """The parsed JSON schema; BadTool with the line if it is invalid."""
    return _json_field(text, "/parameters")


def field_of(pointer: str, kind: str) -> str:
    """The field for the value at `pointer` of a tool, "" for none."""
    parts = pointer.split("/")[1:] or [""]
    if parts[0] == "config":
        key = parts[1] if len(parts) > 1 else ""
        named = [name for name, (field, _, _) in FIELDS.get(kind, {}).items() if field == key]
        return named[0] if named else _rest_field(kind)
    return parts[0] if parts[0] in {field.name for field in fields(ToolForm)} else ""


def _rest_field(kind: str) -> str:
    """The field with the rest of the config; a kind without fields of its own has that alone."""
    return f"rest_{kind}" if kind in FIELDS else "rest_other"


def _input_format(tool: Tool) -> str:
    """The format of the model's input: `json`, `text`, or a grammar: `lark`, `regex`."""
    if tool.format is None:
        return "json"
    return str(tool.format.get("syntax", "text"))


# Config ---------------------------------------------------------------------------------------


def _config(form: ToolForm) -> dict[str, Any]:
    kind = form.answered_by
    if kind not in ANSWERED_BY:
        return {}
    place = f"/config/{_rest_field(kind)}"
    rest = str(getattr(form, _rest_field(kind)))
    config = _json_field(rest, place) if rest.strip() else {}
    for name, (key, _, read) in FIELDS.get(kind, {}).items():
        typed = getattr(form, name)
        if not (typed if isinstance(typed, bool) else typed.strip()):
            continue
        if key in config:
            raise BadTool(f"{key} is set twice: here and in its own field.", place)
        try:
            read = RESULTS.get(form.result_as, read) if name == "result" else read
            config[key] = read(typed if isinstance(typed, str) else "on")
        except BadTool as error:
            raise BadTool(str(error), f"/config/{key}") from error
    if kind == "mock" and not set(MOCKED) & set(config):
        config["result"] = ""
    return config


def _parses_to(read: Read, text: str, value: Any) -> bool:
    """Whether parsing yields exactly this value: 1 is not 1.0, and not true."""
    try:
        return json.dumps(read(text)) == json.dumps(value)
    except (BadTool, ValueError):
        return False


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _result_text(value: Any) -> str:
    return value if isinstance(value, str) else pretty_json(value)


def _result(text: str) -> Any:
    """A result that parses as a JSON object or list is one; anything else is a text."""
    if text.strip()[:1] not in ("{", "["):
        return text
    try:
        return strict_json.parse(text)
    except strict_json.InvalidJSON:
        return text


def _json_value(text: str) -> Any:
    try:
        return strict_json.parse(text)
    except strict_json.InvalidJSON as error:
        raise BadTool(f"This is not valid JSON: {error}") from error


def _json_text(value: Any) -> str:
    return pretty_json(value) if isinstance(value, dict | list) else json.dumps(value)


def _json_field(text: str, pointer: str) -> dict[str, Any]:
    try:
        return parse_tool_json(text, "The value of this field")
    except BadTool as error:
        raise BadTool(str(error), pointer, error.line) from error


def _schema(text: str) -> Any:
    return _json_field(text, "/config/output_schema")


def _seconds_text(value: float) -> str:
    text = f"{value:g}"
    return text if float(text) == value else repr(value)


def _number(text: str, pointer: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise BadTool(f"{text.strip()[:40]!r} is not a number of seconds.", pointer) from error


def _any_number(text: str) -> int | float:
    try:
        value = strict_json.parse(text.strip())
    except strict_json.InvalidJSON:
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadTool(f"{text.strip()[:40]!r} is not a number.")
    return value


def _number_text(value: Any) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return json.dumps(value) if is_number else ""


def _pairs_text(value: Any) -> str:
    if not isinstance(value, Mapping) or not all(isinstance(item, str) for item in value.values()):
        return ""
    return "\n".join(f"{name}: {item}" for name, item in value.items())


def _pairs(text: str) -> dict[str, str]:
    """Headers, one per line, like `Accept: text/plain`."""
    pairs: dict[str, str] = {}
    for line in text.split("\n"):
        name, colon, value = line.partition(":")
        if not line.strip():
            continue
        if not colon or not name.strip():
            raise BadTool(f"{line.strip()[:40]!r} is not a header. Write Name: value.")
        if name.strip() in pairs:
            raise BadTool(f"The header {name.strip()} is there twice. Remove one.")
        pairs[name.strip()] = value.strip()
    return pairs


def _list_text(value: Any) -> str:
    is_texts = isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
    return "\n".join(value) if is_texts else ""


def _list(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _tick_text(value: Any) -> str:
    return "on" if value is True else ""


RESULTS: Mapping[str, Read] = {"text": lambda text: text, "json": _json_value}
"""How a mock's result is parsed if the user chose a type; else by its syntax."""

_LINE: tuple[Write, Read] = (_text, str.strip)
_NUMBER: tuple[Write, Read] = (_number_text, _any_number)
_TICK: tuple[Write, Read] = (_tick_text, lambda text: True)

FIELDS: Mapping[str, Mapping[str, tuple[str, Write, Read]]] = {
    "mock": {
        "result": ("result", _result_text, _result),
        "is_error": ("is_error", *_TICK),
        "delay_s": ("delay_s", *_NUMBER),
        "failure_rate": ("failure_rate", *_NUMBER),
        "failure": ("failure", *_LINE),
    },
    "python": {
        "file": ("file", *_LINE),
        "function": ("function", *_LINE),
        "interpreter": ("interpreter", *_LINE),
        "fresh": ("keep", *_OFF),
        "code": ("code", _text, lambda text: text),
    },
    "http": {
        "method": ("method", *_LINE),
        "url": ("url", *_LINE),
        "http_parameters": ("parameters", _json_text, _json_value),
        "headers": ("headers", _pairs_text, _pairs),
        "body": ("body", _result_text, _result),
        "hosts": ("hosts", _list_text, _list),
        "private": ("private", *_TICK),
    },
    "mcp": {"server": ("server", *_LINE), "server_tool": ("tool", *_LINE)},
    "person": {"output_schema": ("output_schema", _json_text, _schema)},
    "workspace": {"workspace_tool": ("tool", *_LINE)},
}
"""By kind: the field, its key in the config, how it is written and how it is parsed."""


# The page's data about the tool in the editor.


@dataclass(frozen=True)
class ToolCheck:
    """The check of the tool in the editor. `notes` are sentences about its executor. `problem` says
    why there is no check; it is empty for a new tool."""

    findings: Sequence[Finding] = ()
    accepted: Sequence[ToolAcceptance] = ()
    tokens: int = 0
    sent: Sequence[WireForm] = ()
    notes: Sequence[str] = ()
    problem: str = ""
    pointer: str = ""

    def layout(self, strict: bool) -> tuple[list[Finding], list[tuple[str, str, list[Finding]]]]:
        """The findings shown first, and the folded ones: (title, fix, findings)."""
        first = [finding for finding in self.findings if is_hint(finding, strict)]
        own = [finding for finding in self.findings if finding.profile]
        hidden = first[MOST_FIRST:]
        folds = [(f"{len(hidden)} more", "", hidden)]
        for severity, title in (("strict", "strict-mode issue"), ("ignored", "keyword")):
            rest = [
                finding
                for finding in self.findings
                if finding.severity == severity and finding not in (*first, *own)
            ]
            fix = next((finding.fix for finding in rest if finding.fix), "")
            words = f"{plural(len(rest), title)}{' ignored' if severity == 'ignored' else ''}"
            folds.append((words, fix, rest))
        folds.append((f"{plural(len(own), 'limit')} of single vendors", "", own))
        return first[:MOST_FIRST], [fold for fold in folds if fold[2]]


def is_hint(finding: Finding, strict: bool) -> bool:
    """Whether a finding is a hint: strict mode issues only count for a strict tool, and what a
    provider ignores without harm, or what a single vendor refuses, never counts."""
    if finding.profile:
        return False
    if finding.severity == "strict":
        return strict
    return finding.severity != "ignored"


@dataclass(frozen=True)
class OfferedFix:
    """An offered rewrite: `lost` are sentences about lost meaning, `refused` about what providers
    would still refuse."""

    fix: str
    diff: Sequence[LineChange]
    lost: Sequence[str] = ()
    refused: Sequence[str] = ()


@dataclass(frozen=True)
class Clash:
    """A concurrent save of the tool: the changes that saving would make to it, and the state that
    would be overwritten."""

    diff: Sequence[LineChange]
    over: str


@dataclass(frozen=True)
class Editor:
    """The form of one tool. `original` is the name it was saved under, "" for a new one, and
    `drawn` the state (state_of) that the form was drawn from. `errors` by field, "" for all; `line`
    counts from 1 within the parameters. `rows` is the outline of the schema for the form tab, and
    `typed` the refused input of its fields; `large` is the number of rows if they are too many for
    it. `lossy` says why the Python tab cannot be edited. `focus` is the id of the element to focus.
    `unsaved`: this is input that was refused or only checked."""

    form: ToolForm
    original: str = ""
    drawn: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    line: int | None = None
    rows: OutlineRow | None = None
    typed: Mapping[str, str] = field(default_factory=dict)
    lossy: Sequence[str] = ()
    check: ToolCheck = ToolCheck()
    fixed: OfferedFix | None = None
    focus: str = ""
    large: int = 0
    unsaved: bool = False
    clash: Clash | None = None


@dataclass(frozen=True)
class FindingPlace:
    """Where a finding is in the editor: the id of a field, and the text of a link to it."""

    id: str
    label: str


def finding_places(editor: Editor) -> Callable[[str], FindingPlace | None]:
    """Looks up the place of a finding by its pointer; None for one about the whole tool."""
    form = editor.form
    root = text_root(form.parameters) if form.face == "json" else None

    def find(pointer: str) -> FindingPlace | None:
        steps = [name_of_step(step) for step in pointer.split("/")[1:]]
        match steps[:1]:
            case ["name" | "description" as field] if form.face != "python":
                return FindingPlace(field, "show")
            case ["format"] if form.takes not in ("json", "text"):
                return FindingPlace("definition", "show")
            case ["parameters"] if form.takes == "json" and form.face == "json":
                line = line_of_steps(root, steps[1:]) if root else 1
                return FindingPlace("parameters", f"line {line}")
            case ["parameters"] if form.takes == "json" and editor.rows is not None:
                return FindingPlace(_row_id(editor.rows, tuple(steps[1:])), "show")
            case ["parameters" | "name" | "description"] if form.face == "python":
                return FindingPlace("source", "show")
        return None

    return find


def _row_id(root: OutlineRow, steps: tuple[str, ...]) -> str:
    """The id of a field of the deepest row that contains the place."""
    rows = [row for row in root.flat() if row.path == steps[: len(row.path)]]
    row = max(rows, key=lambda row: len(row.path))
    if row is root:
        return "0.add"
    return f"{row.number}.{'name' if 'name' in row.texts else 'type'}"


# Parsing the input.


@dataclass(frozen=True)
class TypedTool:
    """`schema` is None if the edited tab is invalid, `tool` if anything is; `errors` then says why,
    by field, `pointer` the place in the tool, and `line` that in the JSON or Python text, from 1.
    `data` is the tool before the check. `paths` gives the new places of the form's rows."""

    form: ToolForm
    rows: Mapping[str, str] = field(default_factory=dict)
    schema: dict[str, Any] | None = None
    data: Mapping[str, Any] | None = None
    tool: Tool | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    pointer: str = ""
    line: int | None = None
    paths: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


def parse_editor(body: Body) -> TypedTool:
    """Parses the fields of the editor."""
    values = body.form_fields(ToolForm)
    values |= {name: body.text(name, getattr(ToolForm, name)) for name in _SAY_SOMETHING}
    now = body.text("now", "json")
    form = ToolForm(**{**values, "face": now if now in FACES else "json"})
    rows = {name: body.text(name) for name in body.data if _ROW_FIELD.fullmatch(name)}
    return _add_tool(_add_schema(TypedTool(form, rows)))


def parse_saved(form: ToolForm, tool: Tool | None) -> TypedTool:
    """Parses fields without user input: those of a saved `tool`, or generated by us."""
    if tool is not None:
        return TypedTool(form, schema=dict(tool.parameters), tool=tool)
    return _add_tool(_add_schema(TypedTool(form)))


def _add_schema(current: TypedTool) -> TypedTool:
    """Adds the schema of the edited tab."""
    form = current.form
    if form.takes != "json":
        return replace(current, schema=dict(FREEFORM))
    try:
        match form.face:
            case "form":
                outline_schema = apply_form(parameters_of(form.parameters), current.rows)
                schema = None if outline_schema.problems else outline_schema.schema
                return replace(
                    current,
                    schema=schema,
                    errors=outline_schema.problems,
                    paths=outline_schema.paths,
                )
            case "python":
                source_tool = tool_from(form.source, _bare_tool(form))
                named = replace(form, name=source_tool.name, description=source_tool.description)
                return replace(current, form=named, schema=dict(source_tool.parameters))
            case _:
                return replace(current, schema=parameters_of(form.parameters))
    except BadTool as error:
        place = "source" if form.face == "python" else "parameters"
        return replace(current, errors={place: str(error)}, pointer=error.pointer, line=error.line)


def _bare_tool(form: ToolForm) -> Tool:
    """The tool that a Python text is merged into: it provides what the text does not specify."""
    try:
        parameters = parameters_of(form.parameters)
    except BadTool:
        parameters = dict(NO_PARAMETERS)
    return Tool(form.name.strip() or "tool", form.description, parameters)


def _add_tool(current: TypedTool) -> TypedTool:
    if current.schema is None:
        return current
    try:
        data = tool_data(current.form, current.schema)
        return replace(current, data=data, tool=check_tool(data))
    except BadTool as error:
        name = field_of(error.pointer, current.form.answered_by)
        return replace(current, errors={name: str(error)}, pointer=error.pointer)


def typed_tool(body: Body) -> Tool:
    """The tool in the fields of the editor; BadTool with a sentence if it is invalid."""
    was = parse_editor(body)
    if was.tool is None:
        raise BadTool(next(iter(was.errors.values())), was.pointer, was.line)
    return was.tool


# Switching tabs, and changes of the schema by a button ------------------------------------------


def switch_tab(current: TypedTool, face: str) -> Editor:
    """The editor with the schema in another tab; unchanged if that is not possible."""
    if current.schema is None or face not in FACES:
        return editor_as_typed(current)
    text = _keep_typed_text(current.form.parameters, current.schema)
    return build_editor(
        replace(current.form, parameters=text, face=face), current.errors, current.line
    )


def build_editor(
    form: ToolForm, errors: Mapping[str, str] | None = None, line: int | None = None
) -> Editor:
    """The editor for fields whose `parameters` are valid JSON."""
    editor = Editor(form, errors=errors or {}, line=line)
    match form.face:
        case "form":
            root = outline(parameters_of(form.parameters))
            count = sum(1 for _ in root.flat()) - 1
            if count > MOST_ROWS:
                return replace(editor, form=replace(form, face="json"), large=count)
            return replace(editor, rows=root)
        case "python":
            face = python_face(_bare_tool(form))
            return replace(editor, form=replace(form, source=face.source), lossy=face.lossy)
    return editor


def editor_as_typed(current: TypedTool) -> Editor:
    """The editor with the exact input, and its errors."""
    editor = Editor(current.form, errors=current.errors, line=current.line)
    if current.form.face == "form":
        try:
            root = outline(parameters_of(current.form.parameters))
        except BadTool:
            return replace(editor, form=replace(current.form, face="json"))
        return replace(editor, rows=root, typed=current.rows)
    return editor


def apply_row_action(current: TypedTool, act: str) -> Editor:
    """The editor after a button of a row (`add 3`, `up 2`), or after `format`."""
    if current.schema is None:
        return editor_as_typed(current)
    if act == "format":
        form = replace(current.form, parameters=pretty_json(current.schema))
        return replace(build_editor(form, current.errors), focus="parameters")
    verb, _, number = act.partition(" ")
    path = current.paths.get(int(number)) if number.isdigit() else None
    if path is None:
        return switch_tab(current, current.form.face)
    schema, there = apply_action(current.schema, verb, path)
    editor = build_editor(replace(current.form, parameters=pretty_json(schema)))
    row = row_at(editor.rows, there) if editor.rows else None
    if row is None:
        return editor
    named = "name" if "name" in row.texts else "type"
    place = {"add": named, "remove": "add"}.get(verb, verb)
    return replace(editor, focus=f"{row.number}.{place}")


def preview_fix(current: TypedTool, fix: str) -> Editor | None:
    """The editor with the changes of a lint fix; None if there is no schema, or no such fix."""
    rewrite_result = _rewrite(current, fix)
    if rewrite_result is None:
        return None
    diff = line_changes(
        pretty_json(current.schema or {}), pretty_json(dict(rewrite_result.parameters))
    )
    return replace(
        editor_as_typed(current),
        fixed=OfferedFix(fix, diff, rewrite_result.lost, rewrite_result.refused),
        focus="apply",
    )


def apply_fix(current: TypedTool, fix: str) -> Editor | None:
    """The editor with the fix applied."""
    rewrite_result = _rewrite(current, fix)
    if rewrite_result is None:
        return None
    form = replace(current.form, parameters=pretty_json(dict(rewrite_result.parameters)))
    return replace(build_editor(form, current.errors), focus="lint")


def _rewrite(current: TypedTool, fix: str) -> Rewrite | None:
    match fix:
        case "strict" | "gemini" | "inline" | "drop" | "rename" if current.schema is not None:
            return apply_rewrite(fix, current.schema)
    return None


def _keep_typed_text(text: str, schema: Mapping[str, Any]) -> str:
    """The original text, if it already has this schema."""
    try:
        same = json.dumps(parameters_of(text)) == json.dumps(schema)
    except BadTool:
        same = False
    return text if same else pretty_json(schema)


# The findings about the tool in the editor: lint, which providers accept it, how it is sent.


async def check_typed(typed: TypedTool) -> ToolCheck:
    """Checks the input, outside the event loop: a schema may be large."""
    if typed.tool is None:
        problem = next(iter(typed.errors.values()), "")
        return ToolCheck(problem=problem, pointer=typed.pointer)
    return await run_in_daemon(tool_check, typed.tool)


def tool_check(tool: Tool) -> ToolCheck:
    """The check of a valid tool."""
    return ToolCheck(
        merge_by_protocol(findings(tool, (*PROTOCOLS, *VENDOR_LIMITS))),
        acceptance_matrix(tool),
        max(estimate_tokens(tool, protocol) for protocol in PROTOCOLS),
        list(tool_as_sent(tool)),
        unfilled_places(tool),
    )


def unfilled_places(tool: Tool) -> list[str]:
    """A sentence for each placeholder in a mock's results that no parameter fills."""
    if tool.answered_by != "mock":
        return []
    beside = (*tool.config.get("cases", ()), *tool.config.get("sequence", ()))
    results = [tool.config.get("result"), *(case.get("result") for case in beside)]
    properties = tool.parameters.get("properties")
    known = set(properties) if isinstance(properties, dict) else set()
    return [_unfilled_sentence(*place, known) for place in unfilled_placeholders(results, known)][
        :MOST_PLACES
    ]


def _unfilled_sentence(text: str, name: str, known: set[str]) -> str:
    if name in known:
        return f"`{text}` is not replaced. Write `{{{{ args.{name} }}}}`."
    return f"`{text}` is not replaced: no parameter has this name. Write `{{{{ args.NAME }}}}`."


async def hints(
    entries: Iterable[LibraryEntry], most: int | None = None
) -> tuple[dict[str, int], bool]:
    """The number of hints per tool, by name, without zeros; and whether all are included: of those
    not counted before, at most `most` are counted."""
    texts = {entry.tool.name: json.dumps(to_data(entry.tool)) for entry in entries}
    new = [text for text in dict.fromkeys(texts.values()) if text not in _counted]
    counted = await asyncio.to_thread(lambda: {text: _hints(text) for text in new[:most]})
    known = {**_counted, **counted}
    _counted.update(counted)
    while len(_counted) > MOST_COUNTED:
        del _counted[next(iter(_counted))]
    tokens = {name: known.get(text, 0) for name, text in texts.items()}
    return {name: count for name, count in tokens.items() if count}, len(counted) == len(new)


def _hints(text: str) -> int:
    tool: Tool = from_data(Tool, json.loads(text))
    return sum(is_hint(finding, tool.strict) for finding in merge_by_protocol(findings(tool)))
