"""What was found in a text that somebody brought: tools and servers, nothing of it taken yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.core.servers import Replaced, Server
from app.core.tools import Tool


@dataclass(frozen=True)
class ImportedTool:
    """One tool of the text. `tool` is None where it cannot be taken; `problem` then says why, and
    `pointer` where in the tool as our own form has it, "" where that is not known; `refers` says
    that it is because its schema refers to what it does not hold: nothing is fetched.

    `form` is the entry as its own format writes it, and `protocol` whose format that is
    ("anthropic", "openai_chat", "openai_responses", "gemini", or "" for none of them). `kind`
    names the format for a person. `notes` are sentences: what was changed, left out or not known.
    """

    tool: Tool | None
    name: str
    form: Mapping[str, Any] = field(default_factory=dict)
    protocol: str = ""
    kind: str = ""
    notes: tuple[str, ...] = ()
    problem: str = ""
    pointer: str = ""
    refers: bool = False


@dataclass(frozen=True)
class ImportedServer:
    """One MCP server of the text; None where it cannot be taken, and `problem` says why."""

    server: Server | None
    name: str
    notes: tuple[str, ...] = ()
    problem: str = ""
    replaced: tuple[Replaced, ...] = ()


@dataclass(frozen=True)
class ToolChoiceItem:
    """A tool of a text that holds too many to read them all: it is read when `key` is picked.
    `summary` is one line of what it does, `group` its heading in the text, or ""."""

    key: str
    name: str
    summary: str = ""
    group: str = ""


@dataclass(frozen=True)
class ImportedTools:
    """All that a text holds. `problem` says why nothing of it can be used, or ""; `notes` are
    about the text as a whole, `more` that it holds further ones, which were not read. `choices`
    stand in place of tools where there are too many. `parts` are the names of the other files
    that were read as parts of this one."""

    tools: tuple[ImportedTool, ...] = ()
    servers: tuple[ImportedServer, ...] = ()
    kind: str = ""
    problem: str = ""
    notes: tuple[str, ...] = ()
    more: bool = False
    choices: tuple[ToolChoiceItem, ...] = ()
    parts: tuple[str, ...] = ()
