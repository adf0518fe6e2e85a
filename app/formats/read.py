"""The door for what people bring: a text in, the tools and servers it holds out.

Told apart by its shape; the file's name is a hint and no more. Knows no file, no network and no
library: nothing is fetched, started or run, and nothing is saved.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from app.formats import python_source
from app.formats.entry import MOST_TOOLS, refused
from app.formats.found import Brought, Found, FoundServer
from app.formats.shapes import found_in
from app.formats.text import (
    MOST_BYTES,
    Unreadable,
    json_lines,
    json_value,
    toml_value,
    yaml_value,
)

__all__ = ["Brought", "Found", "FoundServer", "read"]

_COMMENT = re.compile(r"(?:\s++|//[^\n]*+|/\*(?>[^*]+|\*(?!/))*+\*/)*+")
_FENCE = "```"
_TOML = re.compile(r"(?m)^\[\[?[A-Za-z0-9_\"'][^\],\n]*\]\]?[ \t\r]*(?:#.*)?$")
_PYTHON = re.compile(r"(?m)^(?:async def |def |class |import |from [\w.]+ import |@[A-Za-z_])")
_YAML = re.compile(r"(?m)^(?:---|- |[\"']?[\w$.-]+[\"']?:(?:[ \t\r]|$))")

_FORMS = (
    "tools of OpenAI, Anthropic, Gemini, MCP or LangChain, a JSON Schema, an OpenAPI document, "
    "Python functions, or a file of MCP servers"
)


@dataclass(frozen=True)
class _Read:
    """What the text is as a text ("JSON", "Python" ...), and what it holds."""

    kind: str
    found: Iterable[Found | FoundServer]
    note: str = ""


def read(text: str, name: str = "", most: int = MOST_TOOLS) -> Brought:
    """What `text` holds, `most` tools and servers at most; `name` is its file's name, or its
    absolute path. Never raises."""
    try:
        if len(text) > MOST_BYTES or len(text.encode("utf-8", "replace")) > MOST_BYTES:
            most = MOST_BYTES // (1024 * 1024)
            raise Unreadable(f"The text is larger than {most} MB; bring it in smaller files.")
        was = _read(text.removeprefix("\ufeff"), name)
        return _brought(was, most)
    except (Unreadable, RecursionError, MemoryError) as error:
        said = str(error) if isinstance(error, Unreadable) else "The text is nested too deep."
        return Brought(problem=said)


def _read(text: str, name: str) -> _Read:
    ending = posixpath.splitext(name.lower())[1]
    start = _start(text)
    if not start:
        raise Unreadable(f"There is nothing in it; bring {_FORMS}.")
    if start == "`" or (ending == ".md" and start not in ("{", "[")):
        return _read(_fenced(text), "")
    if start in "{[" and not (start == "[" and _is_toml(text, ending)):
        return _json(text, name)
    if ending == ".toml" or (ending not in (".py", ".yaml", ".yml") and _is_toml(text, ending)):
        return _Read("TOML", found_in(toml_value(text), name))
    if ending == ".py" or (ending not in (".yaml", ".yml") and _PYTHON.search(text)):
        return _Read("Python", python_source.tools(text, name))
    if ending in (".yaml", ".yml") or _YAML.search(text):
        return _Read("YAML", found_in(yaml_value(text), name))
    raise Unreadable(f"This is in no form that is known here; bring {_FORMS}.")


def _start(text: str) -> str:
    """The first character that is no blank and, where comments may stand first, of none."""
    found = _COMMENT.match(text)
    after = text[found.end() : found.end() + 1] if found else ""
    return after if after in ("{", "[") else text.lstrip()[:1]


def _fenced(text: str) -> str:
    """The first block between fences of Markdown, its lines where they were."""
    lines = text.split("\n")
    fences = [place for place, line in enumerate(lines) if line.lstrip().startswith(_FENCE)]
    if not fences:
        raise Unreadable(f"It holds no block of code (```); bring {_FORMS}.")
    first, last = fences[0], (fences[1] if len(fences) > 1 else len(lines))
    return "\n" * (first + 1) + "\n".join(lines[first + 1 : last])


def _is_toml(text: str, ending: str) -> bool:
    return ending == ".toml" or (ending not in (".json", ".jsonl") and bool(_TOML.search(text)))


def _json(text: str, name: str) -> _Read:
    try:
        value, note = json_value(text)
    except Unreadable:
        lines = _lines(text, name)
        if lines is None:
            raise
        return _Read("JSON Lines", lines)
    return _Read("JSON", found_in(value, name), note)


def _lines(text: str, name: str) -> Iterator[Found | FoundServer] | None:
    """What the lines hold, or None where the first is no JSON by itself."""
    start, more, _ = text.strip().partition("\n")
    if not more or start.rstrip()[-1:] not in ("}", "]"):
        return None
    first = next(json_lines(start))[1]
    return _each_line(text, name) if isinstance(first, dict | list) else None


def _each_line(text: str, name: str) -> Iterator[Found | FoundServer]:
    for _, value in json_lines(text):
        if isinstance(value, Unreadable):
            yield refused({}, "JSON Lines", "", str(value))
        else:
            yield from found_in(value, name)


def _brought(was: _Read, most: int) -> Brought:
    tools: list[Found] = []
    servers: list[FoundServer] = []
    notes = [was.note] if was.note else []
    more = False
    for one in was.found:
        full = tools if isinstance(one, Found) else servers
        if more := len(full) == most:
            notes.append(f"Only the first {most:,} are read; bring the rest by themselves.")
            break
        tools.append(one) if isinstance(one, Found) else servers.append(one)
    kinds = sorted({one.kind for one in tools if one.kind} | {"MCP servers" for _ in servers})
    said = "" if tools or servers else f"It holds no tools and no servers; bring {_FORMS}."
    return Brought(tuple(tools), tuple(servers), " and ".join(kinds), said, tuple(notes), more)
