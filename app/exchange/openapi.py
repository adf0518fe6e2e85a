"""Each operation of an OpenAPI 3 or Swagger 2 document as an HTTP tool; follows only local refs.

Path, query and header parameters and the members of a JSON body become arguments; a security scheme
becomes a header with the name of a variable.
https://spec.openapis.org/oas/v3.1.0
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from typing import Any
from urllib.parse import quote

from app.core.late import dataclass
from app.exchange.openapi_documents import (
    FORM,
    JSON,
    Schemas,
    UnresolvedRef,
    convert_operation,
    convert_swagger,
    is_swagger,
)
from app.exchange.tool_entry import (
    ImportedTool,
    ToolListItem,
    ToolParts,
    build_tool,
    clip,
    refused_tool,
)
from app.schema.names import PORTABLE_NAME, legal_name, shorten_name
from app.secrets.config_secrets import variable

KIND = "OpenAPI operation"
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
_WITH_BODY = ("post", "put", "patch")
_NOT_SET = ("accept", "content-type", "authorization", "host", "content-length", "cookie", "te")
_JSON = re.compile(r"application/(?:[\w.+-]*\+)?json\b|\*/\*", re.I)
_WHOLE = (
    *("minProperties", "maxProperties", "patternProperties", "propertyNames"),
    *("additionalProperties", "dependentRequired", "dependentSchemas"),
)
"""Keywords about a body as a whole, which its members cannot express separately."""
_NO_HOST = "example.invalid"


@dataclass
class _OperationTool:
    """One operation while it is parsed."""

    notes: list[str] = field(default_factory=list)
    properties: dict[str, Any] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    query: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    body: Any = None


class _InvalidOperation(ValueError):
    """Why an operation cannot be a tool."""


def is_document(entry: Mapping[str, Any]) -> bool:
    """Whether `entry` is an OpenAPI or a Swagger document."""
    return isinstance(entry.get("openapi", entry.get("swagger")), str | float) and "paths" in entry


def tools(
    document: Mapping[str, Any], pick: Collection[str] | None = None
) -> Iterator[ImportedTool]:
    """The operations in the order of the document; with `pick`, those whose `key` is in it."""
    swagger = is_swagger(document)
    if not swagger and not str(document.get("openapi", "")).startswith("3"):
        sentence = "Only OpenAPI 3 and Swagger 2.0 are read; convert the document first."
        yield refused_tool({}, KIND, "OpenAPI", sentence)
        return
    if swagger:
        document = convert_swagger(document)
    schemas = Schemas(document)
    paths = document["paths"]
    for path, item in paths.items() if isinstance(paths, Mapping) else ():
        form = {"path": path}
        if pick is not None and not any(key({**form, "method": way}) in pick for way in _METHODS):
            continue
        try:
            item = _item(schemas, item)
        except UnresolvedRef as error:
            refused = refused_tool(form, KIND, str(path), str(error))
            yield replace(refused, refers=error.refers)
            continue
        for method in _METHODS:
            picked = pick is None or key({**form, "method": method}) in pick
            if picked and isinstance(item.get(method), Mapping):
                yield _operation(document, schemas, str(path), item, method)


def choices(document: Mapping[str, Any]) -> Iterator[ToolListItem]:
    """The operations, without their arguments; those of unreadable paths are left out."""
    schemas = Schemas(document)
    paths = document["paths"]
    for path, item in paths.items() if isinstance(paths, Mapping) else ():
        with suppress(UnresolvedRef):
            item = _item(schemas, item)
            for method in _METHODS:
                if isinstance(item.get(method), Mapping):
                    operation = schemas.target(item[method])
                    operation = operation if isinstance(operation, Mapping) else {}
                    name = _name(operation, str(path), method)
                    form = {"path": path, "method": method}
                    summary = clip(_description(operation).partition("\n")[0], 160)
                    tags = operation.get("tags")
                    tag = tags[0] if isinstance(tags, list) and tags else ""
                    yield ToolListItem(key(form), name, summary, clip(tag, 60))


def key(form: Mapping[str, Any]) -> str:
    """The selection key of an operation: its method and its path."""
    return f"{str(form.get('method', '')).upper()} {form.get('path', '')}"


def _item(schemas: Schemas, item: Any) -> Mapping[str, Any]:
    """The path item, with its ref resolved."""
    target = schemas.target(item)
    if not isinstance(target, Mapping):
        raise UnresolvedRef("The value at this path is not an object; correct the document.")
    return target if target is item else {**target, **item}


def _operation(
    document: Mapping[str, Any], schemas: Schemas, path: str, item: Mapping[str, Any], method: str
) -> ImportedTool:
    operation = item[method]
    form = {"path": path, "method": method, "operation": operation}
    name = _name(operation, path, method)
    tool = _OperationTool()
    try:
        operation = schemas.target(operation)
        if not isinstance(operation, Mapping):
            raise _InvalidOperation(
                "What this operation refers to is not an object; correct the document."
            )
        name = _name(operation, path, method)
        if document.get("swagger"):
            operation = convert_operation(document, schemas, item, operation)
        server = _server(document, item, operation, tool)
        _parameters(schemas, path, item, operation, tool)
        _body(schemas, operation, method, tool)
        _security(document, schemas, operation, tool)
        parameters = schemas.closed(
            {"type": "object", "properties": tool.properties, "required": tool.required}
        )
    except UnresolvedRef as error:
        refused = refused_tool(form, KIND, name, str(error))
        return replace(refused, pointer="/parameters", refers=error.refers)
    except _InvalidOperation as error:
        return refused_tool(form, KIND, name, str(error))
    config: dict[str, Any] = {"method": method.upper(), "url": server + _path(path, tool)}
    if tool.query:
        config["url"] += "?" + "&".join(tool.query)
    if tool.headers:
        config["headers"] = tool.headers
    if tool.body is not None:
        config["body"] = tool.body
    pieces = ToolParts(
        name,
        _description(operation),
        parameters,
        answered_by="http",
        config=config,
        rest={"group": _title(document)},
        notes=tool.notes,
    )
    return build_tool(form, KIND, pieces)


def _name(operation: Mapping[str, Any], path: str, method: str) -> str:
    given = operation.get("operationId")
    return given if isinstance(given, str) and legal_name(given) else legal_name(f"{method}{path}")


def _description(operation: Mapping[str, Any]) -> str:
    values = [operation.get(key) for key in ("summary", "description")]
    texts = [text.strip() for text in values if isinstance(text, str) and text.strip()]
    return "\n\n".join(dict.fromkeys(texts))


def _title(document: Mapping[str, Any]) -> str:
    info = document.get("info")
    title = info.get("title") if isinstance(info, Mapping) else ""
    return clip(" ".join(title.split()), 60) if isinstance(title, str) else ""


def _server(
    document: Mapping[str, Any],
    item: Mapping[str, Any],
    operation: Mapping[str, Any],
    tool: _OperationTool,
) -> str:
    """The address of the API without a trailing slash; the operation's own comes first.

    One without a host is relative to the location of the document, which is unknown here; so is the
    address of a document without servers.
    """
    url, lost = "/", ""
    for holder in (operation, item, document):
        listed = holder.get("servers")
        if isinstance(listed, list) and listed and isinstance(listed[0], Mapping):
            url = _with_defaults(listed[0]).strip()
            whole, url = url, re.split("[?#]", url, maxsplit=1)[0]
            lost = whole[len(url) :]
            if len(listed) > 1:
                tool.notes.append("The document names several servers; this is the first.")
            break
    if re.match(r"//[^/]", url):
        tool.notes.append("Its server names no scheme; https is used.")
        url = f"https:{url}"
    if lost:
        tool.notes.append(f"{clip(lost)!a} at the end of its server was left out.")
    if place := re.search(r"\{[^{}]*\}", url):
        raise _InvalidOperation(
            f"Its server is {clip(url)!a}, and the document has no default for {place[0]!a}; "
            "write one into its `variables`."
        )
    if re.match(r"https?://[^/]", url, re.I):
        scheme, rest = url.split(":", 1)
        return f"{scheme.lower()}:{rest}".rstrip("/")
    if url.startswith("//") or re.match(r"[^/?#]*:", url):
        raise _InvalidOperation(
            f"Its server is {clip(url)!a}, which is not a web address; write "
            "`servers: [{url: https://...}]` into the document."
        )
    tool.notes.append(
        f"The document does not say which host it is about: write it in place of {_NO_HOST}."
    )
    return f"https://{_NO_HOST}/{url.strip('/')}".rstrip("/")


def _with_defaults(server: Mapping[str, Any]) -> str:
    variables = server.get("variables")
    variables = variables if isinstance(variables, Mapping) else {}

    def default(match: re.Match[str]) -> str:
        named = variables.get(match[1])
        return str(named.get("default", match[0])) if isinstance(named, Mapping) else match[0]

    return re.sub(r"\{([^{}]*)\}", default, str(server.get("url", "")))


# -- parameters


def _parameters(
    schemas: Schemas,
    path: str,
    item: Mapping[str, Any],
    operation: Mapping[str, Any],
    tool: _OperationTool,
) -> None:
    """The parameters of the path and of the operation; the latter override the former."""
    parameters: dict[tuple[str, str], Mapping[str, Any]] = {}
    for holder in (item, operation):
        listed = holder.get("parameters")
        for entry in listed if isinstance(listed, list) else ():
            parameter = schemas.target(entry)
            if isinstance(parameter, Mapping):
                parameters[str(parameter.get("in")), str(parameter.get("name"))] = parameter
    for (where, name), parameter in parameters.items():
        _parameter(schemas, where, name, parameter, tool)
    for name in re.findall(r"\{([^{}/]*)\}", path):
        if name not in tool.places:
            tool.notes.append(f"{clip(name)!a} in the path is not described; it is any text.")
            _parameter(schemas, "path", name, {"schema": {"type": "string"}}, tool)


def _parameter(
    schemas: Schemas, where: str, name: str, parameter: Mapping[str, Any], tool: _OperationTool
) -> None:
    if where == "cookie":
        tool.notes.append(f"The cookie {clip(name)!a} was left out: tools send none.")
        return
    if where == "header" and name.lower() in _NOT_SET:
        return
    if where not in ("path", "query", "header"):
        return
    content = parameter.get("content")
    schema = parameter.get("schema", _first(content) if isinstance(content, Mapping) else {})
    schema = schemas.rewritten(schema)
    if isinstance(parameter.get("description"), str) and isinstance(schema, Mapping):
        schema = {**schema, "description": parameter["description"]}
    argument = _argument(name, where, tool)
    tool.properties[argument] = schema
    if parameter.get("required") is True or where == "path":
        tool.required.append(argument)
    if style := _actual_style(where, parameter, _types(schemas.followed(schema))):
        tool.notes.append(f"{argument} is sent as {style}; the document asks for another way.")
    match where:
        case "path":
            tool.places[name] = argument
        case "query":
            tool.query.append(f"{quote(name, safe='')}={{{argument}}}")
        case _:
            tool.headers[name] = f"{{{{ args.{argument} }}}}"


def _actual_style(where: str, parameter: Mapping[str, Any], types: Collection[str]) -> str:
    """The style in which a value is sent if it differs from the one of `parameter`, or ""."""
    style, explode = parameter.get("style"), parameter.get("explode")
    if where != "query":
        if style in ("matrix", "label"):
            return "it is"
        return "JSON" if "content" not in parameter and {"array", "object"} & {*types} else ""
    if "content" in parameter:
        return "" if types and not {"array", "string"} & {*types} else "plain pairs"
    if style in ("deepObject", "spaceDelimited", "pipeDelimited") or explode is False:
        return "plain pairs"
    return "JSON" if "object" in types else ""


def _is_object(schemas: Schemas, schema: Any) -> bool:
    """Whether a member may be an object, alone or as one of several types."""
    schema = schemas.followed(schema)
    if not isinstance(schema, Mapping):
        return False
    several = [alternative for word in ("anyOf", "oneOf") for alternative in schema.get(word, ())]
    all_types = [_types(alternative) for alternative in (schema, *map(schemas.followed, several))]
    return any("object" in types for types in all_types)


def _types(schema: Any) -> Collection[str]:
    kinds = schema.get("type") if isinstance(schema, Mapping) else None
    return [
        kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if isinstance(kind, str)
    ]


def _argument(name: str, where: str, tool: _OperationTool) -> str:
    plain = shorten_name(legal_name(name.replace(".", "_")), PORTABLE_NAME) or where
    free, number = plain, 1
    while free in tool.properties:
        number += 1
        free = f"{plain}_{where}" if number == 2 else f"{plain}_{where}_{number - 1}"
    return free


def _path(path: str, tool: _OperationTool) -> str:
    """The path with its placeholders named by the arguments, and all else URL-encoded."""
    url_path = ""
    for place, text in enumerate(re.split(r"\{([^{}/]*)\}", path)):
        if place % 2 == 0:
            url_path += quote(text, safe="/:@!$&'()*+,;=~%-._")
        else:
            url_path += f"{{{tool.places[text]}}}"
    return url_path if url_path.startswith("/") else f"/{url_path}"


# -- the body


def _body(
    schemas: Schemas, operation: Mapping[str, Any], method: str, tool: _OperationTool
) -> None:
    body = schemas.target(operation.get("requestBody"))
    content = body.get("content") if isinstance(body, Mapping) else None
    if not isinstance(content, Mapping) or not content:
        tool.body = "none" if method in _WITH_BODY else None
        return
    kinds = [str(kind) for kind in content]
    picked = next((kind for kind in kinds if _JSON.match(kind)), None)
    if picked is None:
        picked = FORM if FORM in kinds else kinds[0]
    if picked.startswith("multipart/"):
        raise _InvalidOperation(
            "It is sent files as multipart, which an http tool cannot send; write its own."
        )
    media = content[picked]
    schema = schemas.rewritten(media.get("schema", {})) if isinstance(media, Mapping) else {}
    flat = schemas.followed(schema)
    way = "form" if picked == FORM else "json"
    kind = picked if picked != "*/*" else JSON
    if (_JSON.match(picked) or way == "form") and _is_flat(flat, tool):
        required = flat.get("required", [])
        tool.notes += [
            f"{word} of its body ({flat[word]!s:.60}) was left out, because the members of the "
            "body are arguments of their own."
            for word in _WHOLE
            if flat.get(word) and flat[word] is not True
        ]
        for name, prop in flat["properties"].items():
            followed = schemas.followed(prop)
            if isinstance(followed, Mapping) and followed.get("readOnly") is True:
                continue
            tool.properties[name] = prop
            tool.required += [name] if name in required else []
        tool.body = way
        nested = [name for name, prop in flat["properties"].items() if _is_object(schemas, prop)]
        if way == "form" and nested:
            names = ", ".join(nested[:5]) + (" and others" if nested[5:] else "")
            tool.notes.append(f"An object is sent as JSON within the form: {clip(names)}.")
        if way == "json" and kind != JSON:
            tool.headers["Content-Type"] = kind
        return
    if way == "form":
        raise _InvalidOperation("Its form has no plain members, so no arguments can be made of it.")
    name = _argument("body", "body", tool)
    tool.properties[name] = schema if _JSON.match(picked) else {"type": "string"}
    tool.required += [name] if body.get("required") is True else []
    tool.headers["Content-Type"] = kind
    tool.body = f"{{{{ args.{name} }}}}"
    if _JSON.match(picked) and "string" in _types(flat):
        tool.notes.append(f"{name} is sent as it is; a text needs its quotes to be JSON.")


def _is_flat(schema: Any, tool: _OperationTool) -> bool:
    """Whether the members of a body can be separate arguments."""
    if not isinstance(schema, Mapping) or not isinstance(schema.get("properties"), Mapping):
        return False
    if any(word in schema for word in ("allOf", "anyOf", "oneOf", "not", "if", "$ref")):
        return False
    names = schema["properties"]
    legal = all(re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) for name in names)
    return legal and not any(name in tool.properties for name in names)


def _first(content: Mapping[str, Any]) -> Any:
    media = next(iter(content.values()), None)
    return media.get("schema", {}) if isinstance(media, Mapping) else {}


# -- keys


def _security(
    document: Mapping[str, Any],
    schemas: Schemas,
    operation: Mapping[str, Any],
    tool: _OperationTool,
) -> None:
    """The first alternative that can be expressed by headers; keys by the names of variables."""
    ways = operation.get("security", document.get("security"))
    components = document.get("components")
    schemes = components.get("securitySchemes") if isinstance(components, Mapping) else None
    if not isinstance(ways, list) or not ways or {} in ways or not isinstance(schemes, Mapping):
        return
    for way in ways:
        if not isinstance(way, Mapping):
            continue
        named = [_header(document, schemas.target(schemes.get(name)), str(name)) for name in way]
        if all(named) and len({scheme[0].lower() for scheme in named if scheme}) == len(named):
            for header, value in filter(None, named):
                _give_key(header, value, tool)
            names = re.findall(r"\$\{(\w+)\}", " ".join(scheme[1] for scheme in named if scheme))
            tool.notes.append(f"It needs a key: set {', '.join(names)} in the environment.")
            return
    tool.notes.append("Its security scheme cannot be sent as a header; it is sent without a key.")


def _give_key(header: str, value: str, tool: _OperationTool) -> None:
    """Sends the key as a header, which is not an argument then, even if described as one."""
    for name in [name for name in tool.headers if name.lower() == header.lower()]:
        argument = tool.headers.pop(name).removeprefix("{{ args.").removesuffix(" }}")
        if tool.properties.pop(argument, None) is not None and argument in tool.required:
            tool.required.remove(argument)
    tool.headers[header] = value


def _header(document: Mapping[str, Any], scheme: Any, name: str) -> tuple[str, str] | None:
    if not isinstance(scheme, Mapping):
        return None
    of = (_title(document)[:30] or "api", name[:30])
    kind, way = scheme.get("type"), str(scheme.get("scheme", "")).lower()
    if kind == "apiKey" and scheme.get("in") == "header" and isinstance(scheme.get("name"), str):
        return scheme["name"], f"${{{variable(*of, 'key')}}}"
    if kind == "http" and way == "basic":
        return "Authorization", f"Basic ${{{variable(*of, 'key')}}}"
    if (kind == "http" and way == "bearer") or kind in ("oauth2", "openIdConnect"):
        return "Authorization", f"Bearer ${{{variable(*of, 'token')}}}"
    return None
