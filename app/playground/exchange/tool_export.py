"""Exports tools in other formats, and a tool's result as each provider receives it.

Both are made by the encoders, so they are exactly the bytes that are sent; losses are noted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from playground.core.errors import BadInput, PlaygroundError
from playground.core.messages import Message, MessagePart, ModelRequest
from playground.core.serialization import to_data
from playground.core.tools import Tool, ToolChoice, ToolResult
from playground.exchange.python_signature import python_file, python_source
from playground.protocols.raw_json import JsonText, parse_json
from playground.protocols.registry import CODECS, REQUEST_READERS
from playground.protocols.request import AnswerMessage, RequestNotes
from playground.render.filters import pretty_json
from playground.schema.http_parameters import OPENAPI_STYLES, HttpParameter, parameters_of
from playground.schema.validate import METHODS, WITH_BODY

# -- HTTP tools as an OpenAPI document, https://spec.openapis.org/oas/v3.2.0 -------------------

_URL = re.compile(r"(?P<server>https?://[^/?#{}]+)(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?")
_PLACE = re.compile(r"\{([^{}]+)\}")
_ARGUMENT = re.compile(r"\{\{\s*args\.([A-Za-z0-9_-]+)\s*\}\}")
_KEY = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_BODIES = {
    "json": "application/json",
    "form": "application/x-www-form-urlencoded",
    "multipart": "multipart/form-data",
}
"""The media types of bodies that are made of arguments."""

MOST_NAME = 60

_QUIRKS: Mapping[str, tuple[str, ...]] = {"openai_chat": ("custom_tools",)}
"""The quirks of the vendor that a format is named after."""

_SLUG = re.compile(r"[^A-Za-z0-9_-]+")

TextWithNotes = tuple[str, list[str]]
"""(the text of the file, notes)."""

_TITLE = ("title", "description")
"""If a schema represents a tool, these are the tool's."""

CALL_ID = "call_1"


def openapi_document(tools: Sequence[Tool]) -> tuple[str, list[str]]:
    """(the document as JSON, notes)."""
    paths: dict[str, dict[str, Any]] = {}
    schemes: dict[str, Any] = {}
    notes: list[str] = []
    for tool in tools:
        if tool.answered_by != "http":
            notes.append(f"{tool.name} is not an HTTP tool and was left out.")
            continue
        _add(tool, paths, schemes, notes)
    document: dict[str, Any] = {
        "openapi": "3.2.0" if any(_needs_3_2(tool) for tool in tools) else "3.1.0",
        "info": {"title": tools[0].group or tools[0].name, "version": "1"},
        "paths": paths,
    }
    if schemes:
        document["components"] = {"securitySchemes": schemes}
    return json.dumps(document, indent=2, ensure_ascii=False), notes


def _method_place(method: str) -> str:
    """The member of a path for the method; the method itself if it is one of the others."""
    return method.lower() if method in METHODS else method


def _needs_3_2(tool: Tool) -> bool:
    """Whether OpenAPI 3.1 cannot express its method, or a place or style of its parameters."""
    if tool.answered_by != "http":
        return False
    method = tool.config.get("method", "GET")
    return (
        method == "QUERY"
        or method not in METHODS
        or any(
            parameter.place == "querystring" or parameter.style == "cookie"
            for parameter in parameters_of(tool.config)
        )
    )


def _add(tool: Tool, paths: dict[str, Any], schemes: dict[str, Any], notes: list[str]) -> None:
    config = tool.config
    method, url = str(config.get("method", "GET")), _URL.fullmatch(str(config.get("url", "")))
    if url is None:
        notes.append(f"{tool.name} has a URL that OpenAPI cannot express and was left out.")
        return
    path = url["path"] or "/"
    item = paths.setdefault(path, {"servers": [{"url": url["server"]}]})
    place = _method_place(method)
    operations = item.setdefault("additionalOperations", {}) if place == method else item
    if place in operations or item["servers"][0]["url"] != url["server"]:
        notes.append(f"{tool.name} has the same path as another tool ({path}) and was left out.")
        return
    operations[place] = _operation(
        tool, path=path, query=url["query"] or "", method=method, schemes=schemes, notes=notes
    )
    for word in ("$defs", "definitions", "allOf", "anyOf", "oneOf"):
        if word in tool.parameters:
            notes.append(f"{tool.name}: {word} of the whole arguments object was left out.")


def _operation(
    tool: Tool, path: str, query: str, method: str, schemes: dict[str, Any], notes: list[str]
) -> dict[str, Any]:
    members: dict[str, Any] = dict(tool.parameters.get("properties", {}))
    needed = tool.parameters.get("required", [])
    used: list[str] = []
    parameters: list[dict[str, Any]] = []

    own = parameters_of(tool.config)
    styled = {parameter.argument: parameter for parameter in own if parameter.place == "path"}

    def add(name: str, argument: str, where: str, style: HttpParameter | None = None) -> None:
        used.append(argument)
        if name != argument or (where == "path" and style and style.name != name):
            called = style.name if style else name
            notes.append(f"{tool.name}: the argument {argument} is called {called} in the export.")
        required = where == "path" or argument in needed
        schema = members.get(argument, {"type": "string"})
        given = {"required": True} if required else {}
        kind = style.content_type if style else ""
        value = {"content": {kind: {"schema": schema}}} if kind else {"schema": schema}
        parameters.append({"name": name, "in": where, **given, **value, **_style(style)})
        if style and style.style not in OPENAPI_STYLES[style.place]:
            notes.append(f"{tool.name}: OpenAPI has no style {style.style} for {argument}.")

    for argument in _PLACE.findall(path):
        add(argument, argument, "path", styled.get(argument))
    for parameter in own:
        if parameter.argument and parameter.place not in ("path", "body"):
            add(parameter.name, parameter.argument, parameter.place, parameter)
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        place = _PLACE.fullmatch(value)
        if place:
            add(unquote(name), place[1], "query")
        else:
            notes.append(f"{tool.name}: the fixed part {pair!r} of its URL was left out.")
    operation: dict[str, Any] = {"operationId": tool.name, "parameters": parameters}
    if tool.description:
        operation["description"] = tool.description
    security = {**_headers(tool, add, schemes, notes), **_keys(tool, own, schemes, notes)}
    rest = {name: schema for name, schema in members.items() if name not in used}
    body = tool.config.get("body", "json" if method in WITH_BODY else "")
    if rest and body in _BODIES:
        fields = {parameter.argument: parameter for parameter in own if parameter.place == "body"}
        operation["requestBody"] = _body(rest, needed, body, fields)
    elif rest and body == "":
        for name in rest:
            add(name, name, "query")
    elif body not in ("", "none", *_BODIES):
        notes.append(f"{tool.name}: the template of its body was left out.")
    operation["responses"] = {"200": {"description": "The result."}}
    return {**operation, **({"security": [security]} if security else {})}


def _body(
    rest: Mapping[str, Any], needed: Sequence[str], way: str, fields: Mapping[str, HttpParameter]
) -> dict[str, Any]:
    names = {
        argument: fields[argument].name if argument in fields else argument for argument in rest
    }
    required = [names[argument] for argument in needed if argument in rest]
    members = {
        names[argument]: _file(schema) if argument in fields and fields[argument].file else schema
        for argument, schema in rest.items()
    }
    media: dict[str, Any] = {
        "schema": {"type": "object", "properties": members, "required": required}
    }
    encoding = {
        parameter.name: _style(parameter) | _content_type(parameter)
        for parameter in fields.values()
    }
    if any(encoding.values()):
        media["encoding"] = {name: given for name, given in encoding.items() if given}
    return {"required": bool(required), "content": {_BODIES[way]: media}}


def _style(parameter: HttpParameter | None) -> dict[str, Any]:
    """The members of OpenAPI for the style of a parameter or a field; {} for the default."""
    if parameter is None or parameter.content_type or not parameter.style:
        return {}
    reserved = {"allowReserved": True} if parameter.allow_reserved else {}
    return {"style": parameter.style, "explode": parameter.explode, **reserved}


def _content_type(parameter: HttpParameter) -> dict[str, Any]:
    members: dict[str, Any] = (
        {"contentType": parameter.content_type} if parameter.content_type else {}
    )
    headers = {name: {"schema": {"const": text}} for name, text in parameter.headers.items()}
    return members | ({"headers": headers} if headers else {})


def _file(schema: Any) -> dict[str, Any]:
    """The schema of a field that is sent as a file, of one or several."""
    text = {"type": "string", "format": "binary"}
    if isinstance(schema, Mapping) and schema.get("type") == "array":
        return {"type": "array", "items": text}
    return text


def _keys(
    tool: Tool, own: Sequence[HttpParameter], schemes: dict[str, Any], notes: list[str]
) -> dict[str, Any]:
    """The keys in the query or in cookies as security schemes."""
    security: dict[str, Any] = {}
    for parameter in own:
        key = _KEY.fullmatch(parameter.value)
        if key:
            schemes[key[1]] = {"type": "apiKey", "in": parameter.place, "name": parameter.name}
            security[key[1]] = []
        elif parameter.value:
            notes.append(
                f"{tool.name}: the fixed {parameter.place} parameter {parameter.name} was left out."
            )
    return security


def _headers(tool: Tool, add: Any, schemes: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Headers with arguments become parameters, those with keys security schemes."""
    security: dict[str, Any] = {}
    headers = tool.config.get("headers", {})
    for name, value in headers.items() if isinstance(headers, Mapping) else ():
        argument, key = _ARGUMENT.fullmatch(str(value)), _KEY.search(str(value))
        if argument:
            add(name, argument[1], "header")
        elif key:
            scheme: dict[str, Any] = {"type": "apiKey", "in": "header", "name": name}
            if name.lower() == "authorization":
                basic = str(value).lower().startswith("basic ")
                scheme = {"type": "http", "scheme": "basic" if basic else "bearer"}
            schemes[key[1]] = scheme
            security[key[1]] = []
        else:
            notes.append(f"{tool.name}: the fixed header {name} was left out.")
    return security


# -- all formats -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ToolFormat:
    """A format by its name for a user, and its file extension."""

    label: str
    ending: str
    media_type: str
    text: Callable[[Sequence[Tool]], TextWithNotes]


@dataclass(frozen=True)
class ToolFile:
    """A file to save: `file_name` contains letters, digits, `_`, `-` and one dot."""

    file_name: str
    media_type: str
    text: str
    notes: tuple[str, ...] = ()


def write_tools(name: str, tools: Sequence[Tool], called: str = "") -> ToolFile:
    """`tools` in the format `name`; `called` is the base of the file name, else the tool's name.

    BadInput if there is no such format, or nothing to write.
    """
    form = FORMATS.get(name)
    if form is None:
        raise BadInput(f"The format must be one of {', '.join(FORMATS)}, not {name[:40]!r}.")
    if not tools:
        raise BadInput("There is no tool to export. Choose a tool, or a group with tools.")
    text, notes = form.text(tools)
    stem = _SLUG.sub("-", called or (tools[0].name if len(tools) == 1 else "tools")).strip("-")
    return ToolFile(
        f"{stem[:MOST_NAME] or 'tools'}.{form.ending}",
        form.media_type,
        text if text.endswith("\n") else text + "\n",
        tuple(dict.fromkeys(notes)),
    )


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _json_of_values(values: Sequence[Any]) -> str:
    return _json(values[0] if len(values) == 1 else list(values))


def _write_own(tools: Sequence[Tool]) -> TextWithNotes:
    return _json_of_values([_data(tool) for tool in tools]), []


def _write_lines(tools: Sequence[Tool]) -> TextWithNotes:
    return "\n".join(json.dumps(_data(tool), ensure_ascii=False) for tool in tools), []


def _data(tool: Tool) -> dict[str, Any]:
    """Our own format, to be imported again; omits the implied parameters of a free-form tool."""
    data: dict[str, Any] = to_data(tool)
    data.pop("parameters" if tool.format is not None else "format")
    return data


def _example_request(tools: Sequence[Tool], *messages: Message, **more: Any) -> ModelRequest:
    """A request with these tools; `more` are other fields of it."""
    messages = messages or (Message("user", (MessagePart("text", "Hello."),)),)
    return ModelRequest("", "", messages, tuple(tools), ToolChoice(), **more)


def _tools_sent(protocol: str, tools: Sequence[Tool], **more: Any) -> tuple[Any, tuple[str, ...]]:
    """(the tools of a request's body, notes on what is left out or changed)."""
    sent = CODECS[protocol].encode(_example_request(tools, **more))
    return json.loads(sent.body).get("tools"), sent.notes


@dataclass(frozen=True)
class WireForm:
    """A tool, or its result, as `protocol` sends it: JSON text, "" if the encoder refuses it.
    `notes` say what the protocol could not express."""

    protocol: str
    text: str
    notes: Sequence[str] = ()


def tool_as_sent(tool: Tool) -> Iterator[WireForm]:
    """The tool's entry in a request, in each protocol."""
    for protocol in CODECS:
        try:
            listed, notes = _tools_sent(protocol, [tool])
        except PlaygroundError as error:
            yield WireForm(protocol, "", (str(error),))
            continue
        match listed:
            case [{"functionDeclarations": [entry]}] | [entry]:
                yield WireForm(protocol, pretty_json(entry), notes)
            case _:
                yield WireForm(protocol, pretty_json(listed), notes)


def _write_protocol(protocol: str) -> Callable[[Sequence[Tool]], TextWithNotes]:
    quirks = _QUIRKS.get(protocol, ())

    def text(tools: Sequence[Tool]) -> TextWithNotes:
        listed, notes = _tools_sent(protocol, tools, stream=False, quirks=quirks)
        return _json(listed), [*notes, *_answer_notes(tools)]

    return text


def _answer_notes(tools: Sequence[Tool]) -> list[str]:
    """Only our own format includes the executor."""
    kinds = {tool.answered_by for tool in tools}
    return ["This format does not include the tools' executors."] if kinds else []


def _write_mcp(tools: Sequence[Tool]) -> TextWithNotes:
    listed = []
    for tool in tools:
        entry: dict[str, Any] = {"name": tool.name}
        if tool.description:
            entry["description"] = tool.description
        entry["inputSchema"] = dict(tool.parameters)
        for key, word in (("output_schema", "outputSchema"), ("annotations", "annotations")):
            if key in tool.config:
                entry[word] = tool.config[key]
        listed.append(entry)
    return _json({"tools": listed}), [*_answer_notes(tools), *_lossy_notes(tools)]


def _write_schema(tools: Sequence[Tool]) -> TextWithNotes:
    schemas = []
    for tool in tools:
        described = {"description": tool.description} if tool.description else {}
        schemas.append({"title": tool.name, **described, **_without_title(tool)})
    return _json_of_values(schemas), _schema_notes(tools)


def _write_langchain(tools: Sequence[Tool]) -> TextWithNotes:
    entries = [
        {
            "name": tool.name,
            "description": tool.description,
            "args_schema": {"title": tool.name, **_without_title(tool)},
        }
        for tool in tools
    ]
    return _json_of_values(entries), _schema_notes(tools)


def _without_title(tool: Tool) -> dict[str, Any]:
    return {key: value for key, value in tool.parameters.items() if key not in _TITLE}


def _schema_notes(tools: Sequence[Tool]) -> list[str]:
    titles = [
        f"The schema of {tool.name} had a {key} of its own, which was replaced."
        for tool in tools
        for key in _TITLE
        if key in tool.parameters
    ]
    return [*_answer_notes(tools), *_lossy_notes(tools), *titles]


def _lossy_notes(tools: Sequence[Tool]) -> list[str]:
    """Features that only our format and some providers have."""
    notes = [
        f"{tool.name} expects free text. Here it has one argument." for tool in tools if tool.format
    ]
    return notes + [
        f"{tool.name} is strict, which this format cannot express." for tool in tools if tool.strict
    ]


def _write_python(tools: Sequence[Tool]) -> TextWithNotes:
    notes = [f"{tool.name}: {loss}" for tool in tools for loss in python_source(tool).lossy]
    return python_file(tools), [*notes, *_answer_notes(tools)]


def _json_format(label: str, text: Callable[[Sequence[Tool]], TextWithNotes]) -> ToolFormat:
    return ToolFormat(label, "json", "application/json", text)


FORMATS: dict[str, ToolFormat] = {
    "own": _json_format("Our own form", _write_own),
    "jsonl": ToolFormat("JSON Lines", "jsonl", "application/jsonl", _write_lines),
    "anthropic": _json_format("Anthropic", _write_protocol("anthropic")),
    "openai_chat": _json_format("OpenAI Chat", _write_protocol("openai_chat")),
    "openai_responses": _json_format("OpenAI Responses", _write_protocol("openai_responses")),
    "gemini": _json_format("Gemini", _write_protocol("gemini")),
    "mcp": _json_format("MCP tools/list", _write_mcp),
    "json_schema": _json_format("JSON Schema", _write_schema),
    "langchain": _json_format("LangChain", _write_langchain),
    "python": ToolFormat("Python", "py", "text/x-python", _write_python),
    "openapi": _json_format("OpenAPI", openapi_document),
}

# -- Results of tools in each protocol ---------------------------------------------------------


def wire_results(
    tool: Tool,
    arguments: str,
    result: ToolResult,
    quirks: Mapping[str, Sequence[str]] | None = None,
) -> list[WireForm]:
    """The result of one call of `tool` in each protocol; `quirks` by protocol, as in a profile."""
    return [
        _wire_result(name, tool, arguments, result, (quirks or {}).get(name, ())) for name in CODECS
    ]


def _wire_result(
    protocol: str, tool: Tool, arguments: str, result: ToolResult, quirks: Sequence[str]
) -> WireForm:
    call = MessagePart("call", arguments, tool.name, CALL_ID)
    answer = MessagePart(
        "result", name=tool.name, call_id=CALL_ID, content=result.content, is_error=result.is_error
    )
    history = (
        Message("user", (MessagePart("text", "Call it."),)),
        Message("assistant", (call,)),
        Message("results", (answer,)),
    )
    try:
        sent = CODECS[protocol].encode(_example_request([tool], *history, quirks=tuple(quirks)))
    except BadInput as error:
        return WireForm(protocol, "", (str(error),))
    return WireForm(protocol, _results_after_call(protocol, sent.body.decode()), sent.notes)


def _results_after_call(protocol: str, body: str) -> str:
    """The items after the call in the list that contains the history."""
    value, quoted = parse_json(body), JsonText(body)
    items = REQUEST_READERS[protocol].items(value, RequestNotes(protocol))
    *_, (member, call, *_) = (item.at for item in items if isinstance(item, AnswerMessage))
    pieces = [quoted.member(member, place) for place in range(int(call) + 1, len(value[member]))]
    return pieces[0] if len(pieces) == 1 else f"[{','.join(pieces)}]"


def results_data(results: Sequence[WireForm]) -> dict[str, object]:
    """The results by protocol for a script: the parsed value, the text, the notes."""
    return {
        result.protocol: {
            "value": json.loads(result.text) if result.text else None,
            "text": result.text,
            "notes": list(result.notes),
        }
        for result in results
    }
