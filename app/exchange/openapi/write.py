"""HTTP tools as an OpenAPI 3.1 document, an operation each. Others are left out, with a note.

https://spec.openapis.org/oas/v3.1.0
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from app.core.tools import Tool

_URL = re.compile(r"(?P<server>https?://[^/?#{}]+)(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?")
_PLACE = re.compile(r"\{([^{}]+)\}")
_ARGUMENT = re.compile(r"\{\{\s*args\.([A-Za-z0-9_-]+)\s*\}\}")
_KEY = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_WITH_BODY = ("POST", "PUT", "PATCH")


def document(tools: Sequence[Tool]) -> tuple[str, list[str]]:
    """(the document as JSON, notes)."""
    paths: dict[str, dict[str, Any]] = {}
    schemes: dict[str, Any] = {}
    notes: list[str] = []
    for tool in tools:
        if tool.answered_by != "http":
            notes.append(f"{tool.name} is no http tool and was left out.")
            continue
        _add(tool, paths, schemes, notes)
    made: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": tools[0].group or tools[0].name, "version": "1"},
        "paths": paths,
    }
    if schemes:
        made["components"] = {"securitySchemes": schemes}
    return json.dumps(made, indent=2, ensure_ascii=False), notes


def _add(tool: Tool, paths: dict[str, Any], schemes: dict[str, Any], notes: list[str]) -> None:
    config = tool.config
    method, found = str(config.get("method", "GET")), _URL.fullmatch(str(config.get("url", "")))
    if found is None:
        notes.append(f"{tool.name} has a URL that OpenAPI cannot say and was left out.")
        return
    path = found["path"] or "/"
    item = paths.setdefault(path, {"servers": [{"url": found["server"]}]})
    if method.lower() in item or item["servers"][0]["url"] != found["server"]:
        notes.append(f"{tool.name} stands at a path that is taken ({path}) and was left out.")
        return
    item[method.lower()] = _operation(tool, path, found["query"] or "", method, schemes, notes)
    for word in ("$defs", "definitions", "allOf", "anyOf", "oneOf"):
        if word in tool.parameters:
            notes.append(f"{tool.name}: {word} of its arguments as a whole was left out.")


def _operation(
    tool: Tool, path: str, query: str, method: str, schemes: dict[str, Any], notes: list[str]
) -> dict[str, Any]:
    members: dict[str, Any] = dict(tool.parameters.get("properties", {}))
    needed = tool.parameters.get("required", [])
    used: list[str] = []
    parameters: list[dict[str, Any]] = []

    def add(name: str, argument: str, where: str) -> None:
        used.append(argument)
        if name != argument:
            notes.append(f"{tool.name}: the argument {argument} is called {name} there.")
        required = where == "path" or argument in needed
        schema = members.get(argument, {"type": "string"})
        given = {"required": True} if required else {}
        parameters.append({"name": name, "in": where, **given, "schema": schema})

    for argument in _PLACE.findall(path):
        add(argument, argument, "path")
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        place = _PLACE.fullmatch(value)
        if place:
            add(unquote(name), place[1], "query")
        else:
            notes.append(f"{tool.name}: the fixed part {pair!r} of its URL was left out.")
    made: dict[str, Any] = {"operationId": tool.name, "parameters": parameters}
    if tool.description:
        made["description"] = tool.description
    security = _headers(tool, add, schemes, notes)
    rest = {name: schema for name, schema in members.items() if name not in used}
    body = tool.config.get("body", "json" if method in _WITH_BODY else "")
    if rest and body in ("json", "form"):
        made["requestBody"] = _body(rest, needed, body)
    elif rest and body == "":
        for name in rest:
            add(name, name, "query")
    elif body not in ("", "none", "json", "form"):
        notes.append(f"{tool.name}: the template of its body was left out.")
    made["responses"] = {"200": {"description": "The result."}}
    return {**made, **({"security": [security]} if security else {})}


def _body(rest: Mapping[str, Any], needed: Sequence[str], way: str) -> dict[str, Any]:
    kind = "application/json" if way == "json" else "application/x-www-form-urlencoded"
    required = [name for name in needed if name in rest]
    schema = {"type": "object", "properties": dict(rest), "required": required}
    return {"required": bool(required), "content": {kind: {"schema": schema}}}


def _headers(tool: Tool, add: Any, schemes: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Headers of arguments become parameters, those of keys ways to secure it."""
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
