"""Tools as an MCP server lists them, and as Bedrock wraps them.

https://modelcontextprotocol.io/specification/2025-06-18/server/tools#tool
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.exchange.entry import ToolParts, build_tool, note_left_out
from app.exchange.found import ImportedTool

MCP, BEDROCK = "MCP", "Bedrock Converse"
_MCP_KNOWN = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")


def mcp_tool(entry: Mapping[str, Any]) -> ImportedTool:
    """`{"name", "description", "inputSchema"}`. A listing names no server, so nobody answers it."""
    notes = note_left_out(entry, (*_MCP_KNOWN, "_meta"))
    title = entry.get("title")
    if isinstance(title, str) and title:
        notes.append("Its title is for people and was left out; models are told the name.")
    if "annotations" in entry:
        notes.append("Its annotations are the server's own word and are not relied upon.")
    notes.append("To have it answered by its server, add the server and take its tools there.")
    pieces = ToolParts(
        entry.get("name"),
        entry.get("description"),
        entry.get("inputSchema"),
        output=entry.get("outputSchema"),
        notes=notes,
    )
    return build_tool(entry, MCP, pieces)


def bedrock_tool(entry: Mapping[str, Any]) -> ImportedTool:
    """The inside of `toolSpec`: an inputSchema that is `{"json": schema}`."""
    inner = entry["inputSchema"]
    pieces = ToolParts(
        entry.get("name"),
        entry.get("description"),
        inner.get("json"),
        rest={"strict": entry.get("strict")},
        notes=note_left_out(entry, ("name", "description", "inputSchema", "strict")),
    )
    return build_tool(entry, BEDROCK, pieces)
