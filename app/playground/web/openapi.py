"""The OpenAPI document of the HTTP API, made from the routes of the application.

A docstring of an endpoint begins with `METHOD PATH: sentence`. The sentence is the summary of its
operation, and each `?name=` or `&name=` is a query parameter. What differs from the usual operation
(a status, a media type, a schema) follows as YAML after a line `---`, in the fields of OpenAPI: the
convention of Starlette's own schema generator.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import yaml
from starlette.convertors import Convertor, IntegerConvertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, compile_path

from playground import __version__
from playground.core import errors
from playground.core.errors import PlaygroundError
from playground.core.serialization import EVENTS
from playground.schema.documents import SchemaFile, published_schema
from playground.web.forms import as_json
from playground.web.guard import CODES

JsonObject = dict[str, Any]

VERSION = "3.1.0"

DESCRIPTION = """A local playground for tool-calling models. docs/contract.md describes it in words.

A script gets JSON; a browser gets pages from the same routes, and a form without a script is
redirected. The simulator below /sim and the taps below /tap speak the protocols of the providers,
which this document does not describe."""

PUBLISHED: Mapping[SchemaFile, str] = {"tools": "Tools", "batch": "Batch"}
"""The published schemas that a route accepts, and their names here."""

REFUSALS: Mapping[int, str] = {
    401: "The credential is missing or wrong.",
    404: "The path names something that does not exist.",
    409: "Too late, or the client has seen an older state.",
    413: "The body is too large.",
    422: "The input cannot be used.",
    503: "The database cannot be used now.",
}
"""The errors of every route, where they can happen: see `_usual_operation`."""

HTML_OR_JSON: JsonObject = {"application/json": {}, "text/html": {}}

FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")

TYPES: Mapping[Any, JsonObject] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    NoneType: {"type": "null"},
    Any: {},
}

QUERY = re.compile(r"[?&](\w+)(?==)")


class Docstring(NamedTuple):
    """The sentence of a docstring, the rest of its text, its query parameters, and its YAML."""

    summary: str
    description: str
    query: tuple[str, ...]
    fields: JsonObject


async def document(request: Request) -> Response:
    """GET /openapi.json: describes all routes as an OpenAPI document.

    ---
    responses:
      200: {description: An OpenAPI 3.1 document., content: {application/json: {}}}
    """
    return as_json(openapi_of(request.app.routes))


def openapi_of(routes: Iterable[BaseRoute]) -> JsonObject:
    """The document of all `routes`, but for applications that are mounted."""
    paths: JsonObject = {}
    for route in routes:
        if isinstance(route, Mount):
            continue
        path, methods = _operations(route)
        paths.setdefault(path, {}).update(methods)
    return {
        "openapi": VERSION,
        "info": {"title": "Playground", "version": __version__, "description": DESCRIPTION},
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": {**_published_schemas(), **event_schemas(), "Error": _error_schema()},
            "responses": {_name(status): _refusal(words) for status, words in REFUSALS.items()},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def docstring_of(endpoint: Callable[..., Any]) -> Docstring:
    """What the docstring of `endpoint` says."""
    # getdoc removes the indentation, as Python 3.13 does itself.
    text, _, data = (inspect.getdoc(endpoint) or "").partition("\n---\n")
    text = " ".join(text.split())
    _, _, words = text.partition(": ")
    summary, _, description = words.partition(". ")
    own = yaml.safe_load(data) if data else {}
    summary = summary.removesuffix(".")
    summary = summary[:1].upper() + summary[1:]
    return Docstring(summary, description, tuple(dict.fromkeys(QUERY.findall(text))), own)


def event_schemas() -> JsonObject:
    """A schema for each kind of event, as a line of a log, and for each dataclass in them."""
    schemas: JsonObject = {}
    for kind, cls in EVENTS.items():
        _add_dataclass(cls, schemas)
        schema = schemas[cls.__name__]
        line = {
            "seq": {"type": "integer"},
            "at_ms": {"type": "integer"},
            "kind": {"const": kind},
        }
        source = {"type": "array", "items": {"type": "integer"}}
        schema["properties"] = {**line, "source": source, **schema["properties"]}
        schema["required"] = [*line, *schema["required"]]
    schemas["Event"] = {
        "description": "A line of a log.",
        "oneOf": [_reference(cls.__name__) for cls in EVENTS.values()],
        "discriminator": {
            "propertyName": "kind",
            "mapping": {kind: _reference(cls.__name__)["$ref"] for kind, cls in EVENTS.items()},
        },
    }
    return schemas


# Operations.


def _operations(route: Any) -> tuple[str, JsonObject]:
    """The path of `route` without converters, and its operation for each method."""
    _, path, convertors = compile_path(route.path)
    docstring = docstring_of(route.endpoint)
    methods = sorted(method.lower() for method in route.methods - {"HEAD"})
    return path, {method: _operation(path, convertors, method, docstring) for method in methods}


def _operation(
    path: str, convertors: Mapping[str, Convertor[Any]], method: str, docstring: Docstring
) -> JsonObject:
    """The usual operation, with the fields of the docstring in place of its own."""
    operation = _usual_operation(path, convertors, method, docstring)
    own = dict(docstring.fields)
    operation["parameters"] = _merge_parameters(operation["parameters"], own.pop("parameters", []))
    own_responses = {str(status): it for status, it in own.pop("responses", {}).items()}
    operation["responses"] = _responses(operation["responses"], own_responses)
    if "requestBody" in operation:
        operation["requestBody"]["content"] |= own.pop("requestBody", {}).get("content", {})
    return {**operation, **own}


def _usual_operation(
    path: str, convertors: Mapping[str, Convertor[Any]], method: str, docstring: Docstring
) -> JsonObject:
    """An operation as most of ours are: JSON or a page by GET, JSON or a form by POST."""
    is_post = method == "post"
    refusals = {401}
    refusals |= {404} if convertors else set()
    refusals |= {422} if is_post or docstring.query else set()
    refusals |= {409, 413, 503} if is_post else set()
    content = {"application/json": {}} if is_post else HTML_OR_JSON
    responses: JsonObject = {
        "200": {"description": "Done." if is_post else "The requested content."}
    }
    responses["200"]["content"] = content
    if is_post:
        responses["303"] = {"description": "To a form without a script: where to look."}
    for status in sorted(refusals):
        responses[str(status)] = {"$ref": f"#/components/responses/{_name(status)}"}
    operation: JsonObject = {
        "operationId": re.sub(r"\W+", "_", f"{method}{path}").strip("_"),
        "tags": [path.split("/")[1] or "pages"],
        "summary": docstring.summary,
        "parameters": [
            *(_parameter("path", name, it) for name, it in convertors.items()),
            *(_parameter("query", name) for name in docstring.query),
        ],
        "responses": responses,
    }
    if docstring.description:
        operation["description"] = docstring.description
    if is_post:
        body: JsonObject = {"schema": {"type": "object"}}
        operation["requestBody"] = {
            "content": {"application/json": body, **dict.fromkeys(FORMS, body)}
        }
    return operation


def _parameter(place: str, name: str, convertor: Convertor[Any] | None = None) -> JsonObject:
    kind = int if isinstance(convertor, IntegerConvertor) else str
    return {"name": name, "in": place, "required": place == "path", "schema": TYPES[kind]}


def _merge_parameters(usual: list[JsonObject], own: list[JsonObject]) -> list[JsonObject]:
    """The parameters of both; an own one replaces the usual one of its name."""
    named = {(it["in"], it["name"]): it for it in (*usual, *own)}
    return list(named.values())


def _responses(usual: JsonObject, own: JsonObject) -> JsonObject:
    """The responses of both; own successes replace the usual one, and are JSON by default."""
    if any(status.startswith("2") for status in own):
        usual = {status: it for status, it in usual.items() if not status.startswith("2")}
    for status, response in own.items():
        if status.startswith("2") and status != "204":
            response.setdefault("content", {"application/json": {}})
    return dict(sorted({**usual, **own}.items()))


# Schemas.


def _add_dataclass(cls: type, schemas: JsonObject) -> None:
    """Adds the schema of the dataclass `cls`, and of those in its fields, under their names."""
    if cls.__name__ in schemas:
        return
    schemas[cls.__name__] = schema = {"type": "object"}
    if cls.__doc__ and not cls.__doc__.startswith(f"{cls.__name__}("):  # dataclass's own
        schema["description"] = " ".join(cls.__doc__.split())
    hints = get_type_hints(cls)
    names = [field.name for field in fields(cls)]
    properties = {name: _schema_of(hints[name], schemas) for name in names}
    schemas[cls.__name__] |= {"properties": properties, "required": names}


def _schema_of(hint: Any, schemas: JsonObject) -> JsonObject:
    """The JSON Schema of a field's type; adds the dataclasses in it to `schemas`."""
    if hint in TYPES:
        return dict(TYPES[hint])
    if isinstance(hint, type) and is_dataclass(hint):
        _add_dataclass(hint, schemas)
        return _reference(hint.__name__)
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(parts)}
    if origin in (Union, UnionType):
        return {"anyOf": [_schema_of(part, schemas) for part in parts]}
    if origin is tuple:
        return {"type": "array", "items": _schema_of(parts[0], schemas)}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema_of(parts[1], schemas)}
    raise TypeError(f"There is no schema for {hint}; add its type to TYPES.")


def _published_schemas() -> JsonObject:
    return {
        name: _move_references(published_schema(file), f"#/components/schemas/{name}/")
        for file, name in PUBLISHED.items()
    }


def _move_references(value: Any, place: str) -> Any:
    """A published schema with its references adapted to this document."""
    match value:
        case {"$ref": str(target)} if target.startswith("#/"):
            return {**value, "$ref": place + target.removeprefix("#/")}
        case dict():
            return {name: _move_references(item, place) for name, item in value.items()}
        case list():
            return [_move_references(item, place) for item in value]
    return value


def _error_schema() -> JsonObject:
    classes = [each for each in vars(errors).values() if isinstance(each, type)]
    own = {each.error_code for each in classes if issubclass(each, PlaygroundError)}
    codes = sorted({*own, *CODES.values()})
    return {
        "type": "object",
        "description": "`error` is a sentence and may be reworded; `code` is stable.",
        "properties": {"error": {"type": "string"}, "code": {"enum": codes}},
        "required": ["error", "code"],
    }


def _refusal(words: str) -> JsonObject:
    content = {"application/json": {"schema": _reference("Error")}, "text/html": {}}
    return {"description": words, "content": content}


def _reference(name: str) -> JsonObject:
    return {"$ref": f"#/components/schemas/{name}"}


def _name(status: int) -> str:
    return f"Error{status}"
