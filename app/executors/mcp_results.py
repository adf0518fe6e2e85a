"""What an MCP server tells, in our own words: its tools as they were listed, results of calls.

Knows no connection. https://modelcontextprotocol.io/specification/2025-11-25/server/tools
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.core.servers import tool_fingerprint
from app.core.tools import Content, ToolResult

if TYPE_CHECKING:
    from mcp import types

JSON = "application/json"
IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif")
MAX_DESCRIPTION = 20_000
MAX_SCHEMA = 512 * 1024
_LEGAL = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST = 64
"""Characters of a name that every provider takes."""


@dataclass(frozen=True)
class Listed:
    """A tool as its server lists it. `fault` is a sentence where it cannot be taken, else ""."""

    name: str
    title: str = ""
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    annotations: Mapping[str, Any] = field(default_factory=dict)
    output_schema: Mapping[str, Any] | None = None
    fault: str = ""

    @property
    def fingerprint(self) -> str:
        return tool_fingerprint(self.name, self.description, self.parameters)


def listed(tools: Sequence[types.Tool]) -> tuple[Listed, ...]:
    """The tools of one listing; of two with one name the second cannot be taken."""
    found: list[Listed] = []
    names: set[str] = set()
    for tool in tools:
        found.append(_listed(tool, twice=tool.name in names))
        names.add(tool.name)
    return tuple(found)


def _listed(tool: types.Tool, *, twice: bool) -> Listed:
    description, fault = tool.description or "", ""
    parameters = tool.input_schema
    if not tool.name:
        fault = "It has no name."
    elif twice:
        fault = "Another tool of this server has the same name."
    elif len(description) > MAX_DESCRIPTION:
        fault = f"Its description has {len(description):,} characters, over {MAX_DESCRIPTION:,}."
        description = description[:MAX_DESCRIPTION]
    elif len(json.dumps(parameters)) > MAX_SCHEMA:
        fault = f"Its schema has more than {MAX_SCHEMA // 1024} kB."
        parameters = {}
    marks = tool.annotations
    return Listed(
        tool.name[:256],
        tool.title or "",
        description,
        parameters,
        marks.model_dump(by_alias=True, exclude_none=True, mode="json") if marks else {},
        tool.output_schema,
        fault,
    )


def legal_name(name: str, server: str, taken: set[str]) -> str:
    """A name for the library that every provider takes and that nothing in `taken` has."""
    plain = _LEGAL.sub("_", name).strip("_")[:_LONGEST] or "tool"
    if plain not in taken:
        return plain
    whole = _LEGAL.sub("_", f"{server}_{plain}")[:_LONGEST]
    number, free = 2, whole
    while free in taken:
        end = f"_{number}"
        free = whole[: _LONGEST - len(end)] + end
        number += 1
    return free


def result_of(result: types.CallToolResult) -> ToolResult:
    """What the model reads: all content in its order, then what is structured if it is not the
    same once more."""
    pieces = tuple(_piece(block) for block in result.content)
    structured = result.structured_content
    if structured is not None:
        texts = [block.text for block in result.content if block.type == "text"]
        if any(same_json(_value(text), structured) for text in texts):
            # Of JSON that stands alone it is known that it is JSON.
            pieces = (
                (_json(json.dumps(structured, ensure_ascii=False)),) if len(pieces) == 1 else pieces
            )
        elif not _wraps(structured, result.content, texts):
            pieces = (*pieces, _json(json.dumps(structured, ensure_ascii=False)))
    if result.is_error and (asks := asked_for(" ".join(piece.text for piece in pieces))):
        pieces = (Content(text=f"{asks} What the tool says of it:"), *pieces)
    return ToolResult(pieces, is_error=result.is_error, kind="failed" if result.is_error else "")


def _wraps(structured: Any, blocks: Sequence[types.ContentBlock], texts: Sequence[str]) -> bool:
    """Whether the blocks say all of `structured`, which only wraps them: as {"result": value} or
    {"content": text}, or {"content": the blocks}."""
    match structured:
        case {**members} if len(members) == 1:
            inner = next(iter(members.values()))
        case _:
            return False
    told = [block.model_dump(by_alias=True, exclude_none=True, mode="json") for block in blocks]
    if same_json(inner, told) or same_json([inner], told):
        return True
    values = [_value(text) for text in texts]
    same = ("\n".join(texts), list(texts), values, *(values if len(values) == 1 else ()))
    return len(texts) == len(blocks) and any(same_json(inner, one) for one in same)


def same_json(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: true is not 1, 1.0 is."""
    match one, other:
        case bool() | None | str(), _:
            return type(one) is type(other) and bool(one == other)
        case int() | float(), int() | float() if not isinstance(other, bool):
            return one == other
        case list(), list():
            pairs = zip(one, other, strict=False)
            return len(one) == len(other) and all(same_json(a, b) for a, b in pairs)
        case Mapping(), Mapping():
            return one.keys() == other.keys() and all(same_json(one[k], other[k]) for k in one)
    return False


_ASKS = (
    ("elicit", "asks the person for input in the middle of a call (elicitation)"),
    ("sampling", "asks for an answer of a model in the middle of a call (sampling)"),
    ("roots", "asks for the person's folders in the middle of a call (roots)"),
)
_REFUSED = re.compile(
    r"(?i)(?:elicitation|sampling|list.?roots) (?:is )?(?:not |un)supported"
    r"|(?:elicitation/create|sampling/createMessage|roots/list)[^\n]{0,80}?not (?:found|supported)"
    r"|client[^\n]{0,40}?(?:not|n't) (?:support|declare|have|advertise)[^\n]{0,40}?"
    r"(?:elicitation|sampling|roots)"
)
_MOST_SAID = 4_000


def asked_for(said: str) -> str:
    """A sentence where `said` tells, in words of the protocol, that a server's request to us was
    refused; "" otherwise."""
    found = _REFUSED.search(said[:_MOST_SAID])
    word = found[0].lower() if found is not None else ""
    return next(
        (f"This tool {asks}; that is not offered here." for key, asks in _ASKS if key in word), ""
    )


def input_wanted(error: ValueError) -> str:
    """The same of an answer that is no result but asks by itself; `error` says that it is none."""
    told = [one.get("input") for one in error.errors()] if hasattr(error, "errors") else []
    requests = next((one.get("inputRequests") for one in told if isinstance(one, Mapping)), None)
    if not isinstance(requests, Mapping):
        return ""
    methods = [
        request.get("method") for request in requests.values() if isinstance(request, Mapping)
    ]
    named = (asks for key, asks in _ASKS if any(key in str(method) for method in methods))
    asks = next(named, "asks for input in the middle of a call")
    return f"This tool {asks}; that is not offered here."


def _value(text: str) -> Any:
    """The JSON value that a text is, or the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _json(text: str) -> Content:
    return Content(text=text, media_type=JSON)


def _piece(block: types.ContentBlock) -> Content:
    match block.type:
        case "text":
            return Content(text=block.text)
        case "image":
            return _image(block.mime_type, block.data)
        case "audio":
            return Content(text=f"[audio, {block.mime_type}, {_size(block.data)}: not shown]")
        case "resource_link":
            about = f" ({block.description})" if block.description else ""
            return Content(text=f"[resource {block.name}: {block.uri}{about}]")
        case "resource":
            return _resource(block.resource)


def _image(media_type: str, data: str) -> Content:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return Content(text=f"[an image, {media_type}, that is no base64 and cannot be shown]")
    if media_type not in IMAGES:
        return Content(text=f"[an image, {media_type}, {_size(data)}: this form is not shown]")
    return Content("image", media_type=media_type, data=data)


def _resource(resource: types.TextResourceContents | types.BlobResourceContents) -> Content:
    kind = (resource.mime_type or "").partition(";")[0]
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return Content(text=text, media_type=JSON if kind == JSON else "")
    blob = str(getattr(resource, "blob", ""))
    if kind in IMAGES:
        return _image(kind, blob)
    return Content(text=f"[resource {resource.uri}, {kind or 'unknown type'}, {_size(blob)}]")


def _size(data: str) -> str:
    return f"{len(data) * 3 // 4:,} bytes"
