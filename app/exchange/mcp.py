"""Tools as an MCP server lists them, and as Bedrock wraps them.

https://modelcontextprotocol.io/specification/2025-06-18/server/tools#tool
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.exchange.entry import Pieces, left_out, made
from app.exchange.found import Found

KIND, BEDROCK = "MCP", "Bedrock Converse"
_KNOWN = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")


def tool(entry: Mapping[str, Any]) -> Found:
    """`{"name", "description", "inputSchema"}`. A listing names no server, so nobody answers it."""
    notes = left_out(entry, (*_KNOWN, "_meta"))
    title = entry.get("title")
    if isinstance(title, str) and title:
        notes.append("Its title is for people and was left out; models are told the name.")
    if "annotations" in entry:
        notes.append("Its annotations are the server's own word and are not relied upon.")
    notes.append("To have it answered by its server, add the server and take its tools there.")
    pieces = Pieces(
        entry.get("name"),
        entry.get("description"),
        entry.get("inputSchema"),
        output=entry.get("outputSchema"),
        notes=notes,
    )
    return made(entry, KIND, pieces)


def bedrock(entry: Mapping[str, Any]) -> Found:
    """The inside of `toolSpec`: an inputSchema that is `{"json": schema}`."""
    inner = entry["inputSchema"]
    pieces = Pieces(
        entry.get("name"),
        entry.get("description"),
        inner.get("json"),
        rest={"strict": entry.get("strict")},
        notes=left_out(entry, ("name", "description", "inputSchema", "strict")),
    )
    return made(entry, BEDROCK, pieces)
