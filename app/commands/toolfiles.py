"""The tools a command line names: groups of the library, and files in any known form."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.core.errors import BadInput
from app.core.rules import Rule
from app.core.serialization import to_data
from app.exchange.tool_import import read


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
    """The tools of a file in any known form; relative paths in it count from where it stands."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise BadInput(
            f"Cannot read {path} ({reason}); name a readable file, or a group like `examples`."
        ) from error
    brought = read(text, os.path.abspath(path))
    for said in (brought.problem, *(tool.problem for tool in brought.tools)):
        if said:
            raise BadInput(f"{path}: {said}")
    if brought.more:
        raise BadInput(f"{path} holds more than {len(brought.tools):,} tools; split it.")
    if not brought.tools:
        raise BadInput(f"{path} holds servers and no tools; bring it on the page, at Import.")
    return [to_data(tool.tool) for tool in brought.tools]


def check_names(rules: Sequence[Rule], names: Sequence[str]) -> None:
    """A rule for a tool that is not there is a slip of the pen, and is said so."""
    for rule in rules:
        if rule.tool != "*" and rule.tool not in names:
            there = ", ".join(names) or "none"
            raise BadInput(f"{rule.words}: there is no tool {rule.tool!r} here; there is {there}.")
