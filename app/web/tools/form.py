"""A tool as the texts of the editor's fields, and the fields as a tool in our own form.

What a field cannot say exactly, or has no field at all, stands as JSON in the field `rest_KIND`: a
tool that is saved untouched is the same tool. Knows no HTML and checks no tool.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from app.core.errors import BadTool
from app.core.late import dataclass
from app.core.tools import ANSWERED_BY, Tool
from app.render.filters import pretty
from app.schema import strict_json
from app.schema.validate import MOCKED, parse_tool_json

FACES = ("form", "json", "python")

START = '{\n  "type": "object",\n  "properties": {},\n  "required": []\n}'


@dataclass(frozen=True)
class ToolForm:
    """The editor's fields as text, so that what could not be saved comes back as it was typed.

    `face` is the one that shows the schema; `source` is the Python one. The fields of a kind's
    config are called as its keys, but for `server_tool` and `workspace_tool`.
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


Write = Callable[[Any], str]
Read = Callable[[str], Any]


def tool_form(tool: Tool, face: str = "json") -> ToolForm:
    """The editor's fields for a saved tool."""
    shown: dict[str, Any] = {}
    rest = dict(tool.config)
    for name, (key, write, read) in _FIELDS[tool.answered_by].items():
        text = write(rest[key]) if key in rest else ""
        if text.strip() and "\r" not in text and _same(read, text, rest[key]):
            shown[name] = text if name not in _TICKED else True
            del rest[key]
        elif name == "method" and key in rest:
            shown[name] = ""  # it stands there, and nothing is given twice
    if rest == {"result": ""}:
        rest = {}
    form = ToolForm(
        name=tool.name,
        description=tool.description,
        parameters=pretty(dict(tool.parameters)),
        face=face,
        answered_by=tool.answered_by,
        group=tool.group,
        timeout_s=_seconds_text(tool.timeout_s),
        parallel_safe=tool.parallel_safe,
        strict=tool.strict,
        eager=tool.eager,
        read_only=tool.read_only,
        extra=pretty(tool.extra) if tool.extra else "",
        takes=_takes(tool),
        definition=str((tool.format or {}).get("definition", "")),
    )
    if "result" in rest and tool.answered_by == "mock":
        shown |= _result_fields(rest)
    shown[f"rest_{tool.answered_by}"] = pretty(rest) if rest else ""
    return replace(form, **shown)


def _result_fields(rest: dict[str, Any]) -> dict[str, str]:
    """The fields of a result that does not look like what it is, taken out of `rest`."""
    value = rest["result"]
    kind = "text" if isinstance(value, str) else "json"
    text = _result_text(value)
    if not text.strip() or "\r" in text or not _same(RESULTS[kind], text, value):
        return {}
    del rest["result"]
    return {"result": text, "result_as": kind}


def tool_data(form: ToolForm, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """The tool in our own form that the fields spell, with these parameters; BadTool with the
    place where a field cannot be read. A free-form tool has none."""
    data = {
        "name": form.name.strip(),
        "description": _lines(form.description),
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
            definition = _lines(form.definition)
            if not definition.strip():
                raise BadTool("Write the grammar that the text has to follow.", "/definition")
            return {
                **data,
                "format": {"type": "grammar", "syntax": syntax, "definition": definition},
            }


def parameters_of(text: str) -> dict[str, Any]:
    """The schema that is typed as JSON; BadTool with the line where it is none."""
    return _json_field(text, "/parameters")


def field_of(pointer: str, kind: str) -> str:
    """The field that says what stands at `pointer` of a tool, "" for none."""
    parts = pointer.split("/")[1:] or [""]
    if parts[0] == "config":
        key = parts[1] if len(parts) > 1 else ""
        named = [name for name, (field, _, _) in _FIELDS.get(kind, {}).items() if field == key]
        return named[0] if named else f"rest_{kind}"
    return parts[0] if parts[0] in {field.name for field in fields(ToolForm)} else ""


def _takes(tool: Tool) -> str:
    """What the model writes: `json`, `text`, or in the syntax of a grammar: `lark`, `regex`."""
    if tool.format is None:
        return "json"
    return str(tool.format.get("syntax", "text"))


# Config ---------------------------------------------------------------------------------------


def _config(form: ToolForm) -> dict[str, Any]:
    kind = form.answered_by
    if kind not in ANSWERED_BY:
        return {}
    place = f"/config/rest_{kind}"
    rest = str(getattr(form, f"rest_{kind}"))
    config = _json_field(rest, place) if rest.strip() else {}
    for name, (key, _, read) in _FIELDS[kind].items():
        typed = getattr(form, name)
        if not (typed if isinstance(typed, bool) else _lines(typed).strip()):
            continue
        if key in config:
            raise BadTool(f"{key} is given twice: here and in its own field.", place)
        try:
            read = RESULTS.get(form.result_as, read) if name == "result" else read
            config[key] = read(_lines(typed) if isinstance(typed, str) else "on")
        except BadTool as error:
            raise BadTool(str(error), f"/config/{key}") from error
    if kind == "mock" and not set(MOCKED) & set(config):
        config["result"] = ""
    return config


def _lines(text: str) -> str:
    """Text as it was typed: browsers send line ends of their own."""
    return text.replace("\r\n", "\n")


def _same(read: Read, text: str, value: Any) -> bool:
    """Whether reading gives just this value: 1 is not 1.0, and not true."""
    try:
        return json.dumps(read(text)) == json.dumps(value)
    except (BadTool, ValueError):
        return False


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _result_text(value: Any) -> str:
    return value if isinstance(value, str) else pretty(value)


def _result(text: str) -> Any:
    """A result that is a JSON object or list is one; anything else is a text."""
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
    return pretty(value) if isinstance(value, dict | list) else json.dumps(value)


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
    """Headers, one a line, like `Accept: text/plain`."""
    pairs: dict[str, str] = {}
    for line in text.split("\n"):
        name, colon, value = line.partition(":")
        if not line.strip():
            continue
        if not colon or not name.strip():
            raise BadTool(f"{line.strip()[:40]!r} is not a header; write Name: value.")
        if name.strip() in pairs:
            raise BadTool(f"The header {name.strip()} is there twice; remove one.")
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
"""How a mock's result is read where the user says it; else by its look."""

_LINE: tuple[Write, Read] = (_text, str.strip)
_NUMBER: tuple[Write, Read] = (_number_text, _any_number)
_TICK: tuple[Write, Read] = (_tick_text, lambda text: True)
_OFF: tuple[Write, Read] = (lambda value: "on" if value is False else "", lambda text: False)
_TICKED = ("is_error", "private", "fresh")

_FIELDS: Mapping[str, Mapping[str, tuple[str, Write, Read]]] = {
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
        "headers": ("headers", _pairs_text, _pairs),
        "body": ("body", _result_text, _result),
        "hosts": ("hosts", _list_text, _list),
        "private": ("private", *_TICK),
    },
    "mcp": {"server": ("server", *_LINE), "server_tool": ("tool", *_LINE)},
    "person": {"output_schema": ("output_schema", _json_text, _schema)},
    "workspace": {"workspace_tool": ("tool", *_LINE)},
}
"""By kind: the field, the key of the config it says, how it is written and how it is read."""
