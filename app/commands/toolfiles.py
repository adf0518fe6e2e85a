"""The tools a command line names: groups of the library, and files in our own form."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.core.errors import BadInput
from app.core.rules import Rule
from app.schema.validate import parse_tool_json


def tools_of(library: Sequence[Mapping[str, Any]], words: Sequence[str]) -> list[Any]:
    """The tools that --tools names, as whole definitions; a word with / or . is a file."""
    found: list[Any] = []
    for word in words:
        if "/" in word or "." in word:
            found += read_tools(Path(word))
            continue
        group = [tool for tool in library if tool["group"] == word]
        if not group:
            raise BadInput(f"There is no group of tools {word!r}; `examples` is the shipped one.")
        found += group
    return found


def read_tools(path: Path) -> list[Any]:
    """A file of tools in our own form: one, a list, or one a line."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise BadInput(
            f"Cannot read {path} ({reason}); name a readable file, or a group like `examples`."
        ) from error
    return [_placed(tool, path.parent) for tool in _tools_in(text)]


def _tools_in(text: str) -> list[Any]:
    try:
        value = json.loads(text)
    except ValueError:
        lines = [line for line in text.split("\n") if line.strip()]
        if len(lines) < 2:
            return [parse_tool_json(text)]  # raises, with line and column
        return [parse_tool_json(line) for line in lines]
    return value if isinstance(value, list) else [value]


def _placed(tool: Any, folder: Path) -> Any:
    """`tool` with the paths of its config made absolute: they count from the file they stand in,
    whoever runs the tool."""
    config = tool.get("config") if isinstance(tool, dict) else None
    if not isinstance(config, dict) or tool.get("answered_by") != "python":
        return tool
    placed = dict(config)
    for name in ("file", "interpreter"):
        path = str(config.get(name) or "")
        counts = path and not path.startswith("shipped:") and (name == "file" or "/" in path)
        if counts:
            placed[name] = os.path.abspath(folder / Path(path).expanduser())
    return {**tool, "config": placed}


def check_names(rules: Sequence[Rule], names: Sequence[str]) -> None:
    """A rule for a tool that is not there is a slip of the pen, and is said so."""
    for rule in rules:
        if rule.tool != "*" and rule.tool not in names:
            there = ", ".join(names) or "none"
            raise BadInput(f"{rule.words}: there is no tool {rule.tool!r} here; there is {there}.")
