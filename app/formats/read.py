"""The door for what people bring: a text in, the tools and servers it holds out.

Told apart by its shape. Knows no file, no network and no library: nothing is fetched or started.
"""

from __future__ import annotations

import json
from typing import Any

from app.core.errors import BadTool
from app.formats.found import Brought, Found, FoundServer
from app.schema.validate import check_tool

__all__ = ["Brought", "Found", "FoundServer", "read"]


def read(text: str, name: str = "") -> Brought:
    """What `text` holds; `name` is its file's name, a hint only. Never raises."""
    try:
        value: Any = json.loads(text)
        entries = value if isinstance(value, list) else [value]
        tools = tuple(Found(check_tool(one), one["name"], one, kind="our own") for one in entries)
    except (ValueError, BadTool) as error:
        return Brought(problem=str(error))
    return Brought(tools, kind="our own")
