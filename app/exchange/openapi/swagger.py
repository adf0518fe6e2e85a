"""Swagger 2.0 as OpenAPI 3, as far as an operation's request goes: its refs stay where they point.

https://swagger.io/specification/v2/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.exchange.openapi.schemas import Schemas

_SCHEMA = (
    *("type", "format", "items", "default", "enum", "multipleOf", "pattern", "uniqueItems"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("minLength", "maxLength", "minItems", "maxItems"),
)
"""What stands in a parameter itself there, and in its `schema` since."""
_STYLES = {"ssv": "spaceDelimited", "pipes": "pipeDelimited"}
_JSON = "application/json"
_FORM = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"


def is_swagger(document: Mapping[str, Any]) -> bool:
    """Whether `document` is of version 2, the last one called Swagger."""
    return str(document.get("swagger", "")).startswith("2")


def as_openapi(document: Mapping[str, Any]) -> dict[str, Any]:
    """`document` with its servers and ways to secure it as OpenAPI 3 says them. Its operations
    are converted one by one by `operation_of`."""
    schemes = _mapping(document.get("securityDefinitions"))
    return {
        **document,
        "openapi": "3.0.0",
        "servers": [{"url": _server(document)}],
        "components": {
            "securitySchemes": {name: _scheme(scheme) for name, scheme in schemes.items()}
        },
    }


def operation_of(
    document: Mapping[str, Any],
    schemas: Schemas,
    item: Mapping[str, Any],
    operation: Mapping[str, Any],
) -> dict[str, Any]:
    """The operation with its parameters, and those of its path, and its body as OpenAPI 3."""
    given = {
        (str(parameter.get("in")), str(parameter.get("name"))): parameter
        for holder in (item, operation)
        for parameter in _parameters(schemas, holder)
    }
    kinds = operation.get("consumes", document.get("consumes"))
    kinds = [kind for kind in kinds if isinstance(kind, str)] if isinstance(kinds, list) else []
    made = {
        **operation,
        "parameters": [_parameter(one) for (where, _), one in given.items() if where in _PLACES],
    }
    body = next((one for (where, _), one in given.items() if where == "body"), None)
    fields = [one for (where, _), one in given.items() if where == "formData"]
    if body is not None:
        made["requestBody"] = {
            "required": body.get("required") is True,
            "content": {kind: {"schema": body.get("schema", {})} for kind in kinds or [_JSON]},
        }
    elif fields:
        made["requestBody"] = {"content": {_form_kind(fields, kinds): {"schema": _form(fields)}}}
    return made


_PLACES = ("path", "query", "header")


def _parameters(schemas: Schemas, holder: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    listed = holder.get("parameters")
    for one in listed if isinstance(listed, list) else ():
        parameter = schemas.target(one)
        if isinstance(parameter, Mapping):
            yield parameter


def _parameter(given: Mapping[str, Any]) -> dict[str, Any]:
    made = {key: value for key, value in given.items() if key not in _SCHEMA}
    made["schema"] = {key: given[key] for key in _SCHEMA if key in given}
    if given.get("type") == "array" and given.get("in") == "query":
        way = given.get("collectionFormat", "csv")
        made |= {"style": _STYLES.get(str(way), "form"), "explode": way == "multi"}
    return made


def _form(fields: list[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            str(field.get("name")): {
                key: field[key] for key in (*_SCHEMA, "description") if key in field
            }
            for field in fields
        },
        "required": [str(field.get("name")) for field in fields if field.get("required") is True],
    }


def _form_kind(fields: list[Mapping[str, Any]], kinds: list[str]) -> str:
    """A form is sent as files only where it has some, or where nothing else is taken."""
    has_files = any(field.get("type") == "file" for field in fields)
    return _MULTIPART if has_files or kinds == [_MULTIPART] else _FORM


def _server(document: Mapping[str, Any]) -> str:
    """The address; without a host it is the path alone."""
    host, base = document.get("host"), document.get("basePath")
    path = base if isinstance(base, str) else ""
    if not isinstance(host, str) or not host:
        return path or "/"
    ways = document.get("schemes")
    ways = [way for way in ways if way in ("http", "https")] if isinstance(ways, list) else []
    return f"{'https' if 'https' in ways or not ways else ways[0]}://{host}/{path.lstrip('/')}"


def _scheme(given: Any) -> Any:
    if isinstance(given, Mapping) and given.get("type") == "basic":
        return {"type": "http", "scheme": "basic"}
    return given


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
