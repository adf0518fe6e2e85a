"""Each operation of an OpenAPI 3 or Swagger 2 document as an HTTP tool; follows only local refs.

Parameters, and the members of a JSON body or a form, become arguments; what a placeholder in the
URL or a header cannot express is written as a parameter with its style. A security scheme becomes a
header, a query parameter or a cookie with the name of a variable.
https://spec.openapis.org/oas/v3.2.0
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urljoin

from playground.exchange.openapi_arguments import (
    InvalidOperation,
    OperationTool,
    plain_places,
    read_body,
    read_parameters,
    url_path,
    without_fragment,
)
from playground.exchange.openapi_documents import (
    Schemas,
    UnresolvedRef,
    convert_operation,
    convert_swagger,
    is_swagger,
)
from playground.exchange.tool_entry import (
    ImportedTool,
    ToolListItem,
    ToolParts,
    build_tool,
    clip,
    refused_tool,
)
from playground.schema.names import legal_name
from playground.secrets.config_secrets import variable

KIND = "OpenAPI operation"
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "query", "trace")
_KINDS_LOST = (
    "The discriminator's schemas are too large for a tool, so it has only what all of them share."
)
_NO_HOST = "example.invalid"
_ROOTS = ("paths", "webhooks", "components")
"""Members that a document of OpenAPI has one of."""


@dataclass(frozen=True)
class _Key:
    """Where a security scheme sends its key; `value` names the variable."""

    place: str
    name: str
    value: str


def is_document(entry: Mapping[str, Any]) -> bool:
    """Whether `entry` is an OpenAPI or a Swagger document."""
    version = entry.get("openapi", entry.get("swagger"))
    return isinstance(version, str | float) and any(name in entry for name in _ROOTS)


def document_notes(document: Mapping[str, Any]) -> list[str]:
    """Sentences about what the document has besides its paths."""
    webhooks = document.get("webhooks")
    if not isinstance(webhooks, Mapping) or not webhooks or not document.get("paths"):
        return []
    names = [clip(name, 40) for name in webhooks]
    more = f" and {len(names) - 5} more" if names[5:] else ""
    return [
        f"Its webhooks were left out: {', '.join(names[:5])}{more}. They are requests that the API "
        "sends, not ones that a tool can make."
    ]


def tools(
    document: Mapping[str, Any], pick: Collection[str] | None = None
) -> Iterator[ImportedTool]:
    """The operations in the order of the document; with `pick`, those whose `key` is in it."""
    swagger = is_swagger(document)
    if not swagger and not str(document.get("openapi", "")).startswith("3"):
        sentence = "Only OpenAPI 3 and Swagger 2.0 are supported. Convert the document first."
        yield refused_tool({}, KIND, "OpenAPI", sentence)
        return
    if swagger:
        document = convert_swagger(document)
    schemas = Schemas(document)
    paths = document.get("paths")
    if not isinstance(paths, Mapping) or not paths:
        yield refused_tool({}, KIND, _title(document) or "OpenAPI", _missing_paths_note(document))
        return
    for path, item in paths.items():
        form = {"path": path}
        if str(path).startswith("x-"):
            continue
        if pick is not None and not any(name.partition(" ")[2] == str(path) for name in pick):
            continue
        try:
            item = _item(schemas, item)
        except UnresolvedRef as error:
            refused = refused_tool(form, KIND, str(path), str(error))
            yield replace(refused, refers=error.refers)
            continue
        for method, operation in _operations(item):
            if pick is None or key({**form, "method": method}) in pick:
                yield _operation(
                    document,
                    schemas=schemas,
                    path=str(path),
                    item=item,
                    method=method,
                    operation=operation,
                )


def choices(document: Mapping[str, Any]) -> Iterator[ToolListItem]:
    """The operations, without their arguments; those of unreadable paths are left out."""
    schemas = Schemas(document)
    paths = document.get("paths")
    for path, item in paths.items() if isinstance(paths, Mapping) else ():
        with suppress(UnresolvedRef):
            item = _item(schemas, item)
            for method, operation in _operations(item):
                operation = schemas.target(operation)
                operation = operation if isinstance(operation, Mapping) else {}
                name = _name(operation, str(path), method)
                form = {"path": path, "method": method}
                summary = clip(_description(operation).partition("\n")[0], 160)
                tags = operation.get("tags")
                tag = tags[0] if isinstance(tags, list) and tags else ""
                yield ToolListItem(key(form), name, summary, clip(tag, 60))


def _missing_paths_note(document: Mapping[str, Any]) -> str:
    """Why a document without paths has no operation."""
    if document.get("webhooks"):
        return (
            "This OpenAPI document has only webhooks. They are requests that the API sends, not "
            "ones that a tool can make. Import a document with paths."
        )
    return "This OpenAPI document has no paths, so it has no operations. Import one with paths."


def _operations(item: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The (method, operation) pairs of a path."""
    more = item.get("additionalOperations")
    more = more if isinstance(more, Mapping) else {}
    for methods, holder in ((_METHODS, item), (tuple(map(str, more)), more)):
        for method in methods:
            if isinstance(holder.get(method), Mapping):
                yield method, holder[method]


def key(form: Mapping[str, Any]) -> str:
    """The selection key of an operation: its method and its path."""
    return f"{str(form.get('method', '')).upper()} {form.get('path', '')}"


def _item(schemas: Schemas, item: Any) -> Mapping[str, Any]:
    """The path item, with its ref resolved."""
    target = schemas.target(item)
    if not isinstance(target, Mapping):
        raise UnresolvedRef("The value at this path is not an object. Correct the document.")
    return target if target is item else {**target, **item}


def _operation(
    document: Mapping[str, Any],
    schemas: Schemas,
    path: str,
    item: Mapping[str, Any],
    method: str,
    operation: Mapping[str, Any],
) -> ImportedTool:
    form: dict[str, Any] = {"path": path, "method": method, "operation": operation}
    name = _name(operation, path, method)
    tool = OperationTool()
    try:
        operation = schemas.target(operation)
        if not isinstance(operation, Mapping):
            raise InvalidOperation(
                "This operation's $ref does not point to an object. Correct the document."
            )
        name = _name(operation, path, method)
        if method == "trace":
            raise InvalidOperation("TRACE is for debugging connections; a tool cannot send it.")
        if document.get("swagger"):
            operation = convert_operation(document, schemas, item, operation)
        server = _server(document, item, operation, tool)
        path = plain_places(schemas, path, item, operation, tool)
        path = without_fragment(path, tool)
        read_parameters(schemas, path, item, operation, tool)
        url = server + url_path(path, tool)
        read_body(schemas, operation, method, tool)
        _security(document, schemas, operation, tool)
        parameters = schemas.bundle_refs(
            {"type": "object", "properties": tool.properties, "required": tool.required}
        )
    except UnresolvedRef as error:
        if error.too_large and schemas.kinds:
            given = form["operation"]
            plain = _operation(
                document,
                schemas=schemas.without_kinds,
                path=str(form["path"]),
                item=item,
                method=method,
                operation=given,
            )
            return replace(plain, notes=(*plain.notes, _KINDS_LOST))
        refused = refused_tool(form, KIND, name, str(error))
        return replace(refused, pointer="/parameters", refers=error.refers)
    except InvalidOperation as error:
        return refused_tool(form, KIND, name, str(error))
    query = [f"{quote(name, safe='')}={{{argument}}}" for name, argument in tool.query.items()]
    if tool.fixed or query:
        url += "?" + "&".join([*tool.fixed, *query])
    if method in _METHODS:
        method = method.upper()
    config: dict[str, Any] = {"method": method, "url": url}
    if tool.parameters:
        config["parameters"] = tool.parameters
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
    tool: OperationTool,
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
                tool.notes.append("The document names several servers. The first is used.")
            break
    own = document.get("$self")
    if isinstance(own, str) and re.match(r"https?://", own, re.I):
        url = urljoin(own, url)
    if re.match(r"//[^/]", url):
        tool.notes.append("Its server has no scheme. https is used.")
        url = f"https:{url}"
    if lost:
        tool.notes.append(f"{clip(lost)!a} at the end of its server was left out.")
    if place := re.search(r"\{[^{}]*\}", url):
        raise InvalidOperation(
            f"Its server is {clip(url)!a}, and the document has no default for {place[0]!a}. "
            "Write one into its `variables`."
        )
    if re.match(r"https?://[^/]", url, re.I):
        scheme, rest = url.split(":", 1)
        return f"{scheme.lower()}:{rest}".rstrip("/")
    if url.startswith("//") or re.match(r"[^/?#]*:", url):
        raise InvalidOperation(
            f"Its server is {clip(url)!a}, which is not a web address. Write `servers: [{{url: "
            f"https://...}}]` into the document."
        )
    tool.notes.append(f"The document does not name a host. Write it in place of {_NO_HOST}.")
    return f"https://{_NO_HOST}/{url.strip('/')}".rstrip("/")


def _with_defaults(server: Mapping[str, Any]) -> str:
    variables = server.get("variables")
    variables = variables if isinstance(variables, Mapping) else {}

    def default(match: re.Match[str]) -> str:
        named = variables.get(match[1])
        return str(named.get("default", match[0])) if isinstance(named, Mapping) else match[0]

    return re.sub(r"\{([^{}]*)\}", default, str(server.get("url", "")))


# -- keys


def _security(
    document: Mapping[str, Any],
    schemas: Schemas,
    operation: Mapping[str, Any],
    tool: OperationTool,
) -> None:
    """The first alternative that can be sent, one in headers before one that is in the URL, which
    many servers write down. Keys are the names of variables."""
    ways = operation.get("security", document.get("security"))
    components = document.get("components")
    schemes = components.get("securitySchemes") if isinstance(components, Mapping) else None
    if not isinstance(ways, list) or not ways or {} in ways or not isinstance(schemes, Mapping):
        return
    able = []
    for way in ways:
        names = list(way) if isinstance(way, Mapping) else []
        keys = [_key(document, schemas.target(schemes.get(name)), str(name)) for name in names]
        known = [key for key in keys if key is not None]
        places = {(key.place, key.name.lower()) for key in known}
        if known and len(places) == len(keys):
            able.append(known)
    if not able:
        tool.notes.append("Its security scheme cannot be sent by a tool; it is sent without a key.")
        return
    chosen = min(able, key=lambda keys: any(key.place == "query" for key in keys))
    for key in chosen:
        # The key is no argument then, even if described as one.
        tool.drop(key.place, key.name)
        if key.place == "header":
            tool.headers[key.name] = key.value
        else:
            tool.parameters.append({"in": key.place, "name": key.name, "value": key.value})
    names = re.findall(r"\$\{(\w+)\}", " ".join(key.value for key in chosen))
    tool.notes.append(f"It needs a key. Set {', '.join(names)} in the environment.")


def _key(document: Mapping[str, Any], scheme: Any, name: str) -> _Key | None:
    if not isinstance(scheme, Mapping):
        return None
    of = (_title(document)[:30] or "api", name[:30])
    kind, way, place = scheme.get("type"), str(scheme.get("scheme", "")).lower(), scheme.get("in")
    if kind == "apiKey" and place in ("header", "query", "cookie"):
        named = scheme.get("name")
        return (
            _Key(place, named, f"${{{variable(*of, 'key')}}}") if isinstance(named, str) else None
        )
    if kind == "http" and way == "basic":
        return _Key("header", "Authorization", f"Basic ${{{variable(*of, 'key')}}}")
    if (kind == "http" and way == "bearer") or kind in ("oauth2", "openIdConnect"):
        return _Key("header", "Authorization", f"Bearer ${{{variable(*of, 'token')}}}")
    return None
