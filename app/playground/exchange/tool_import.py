"""Imports tools and MCP servers from a text in any known format.

The format is recognised by the content; the file's name is only a hint. No file, network or library
is used: nothing is fetched, started or run, and nothing is saved.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

from playground.core.json_values import TooDeepError, load_json
from playground.exchange import openapi, python_source, python_values
from playground.exchange.mcp_config import with_free_name
from playground.exchange.openapi_documents import Files, bundle
from playground.exchange.parsers import (
    MOST_BYTES,
    UnreadableText,
    json_lines,
    json_value,
    toml_value,
    yaml_value,
)
from playground.exchange.python_functions import Function, with_parameters
from playground.exchange.python_source import PythonFile
from playground.exchange.source_text import (
    MARKDOWN,
    CodeBlock,
    code_blocks,
    language_by_content,
    language_by_ending,
)
from playground.exchange.tool_dialects import CASE, read_tools
from playground.exchange.tool_entry import (
    MOST_TOOLS,
    UNANSWERED,
    ImportedServer,
    ImportedTool,
    ImportedTools,
    ToolListItem,
    clip,
    refused_tool,
)
from playground.schema.schema_checks import one_document

_COMMENT = re.compile(r"(?:\s++|//[^\n]*+|/\*(?>[^*]+|\*(?!/))*+\*/)*+")
_AT_FENCE = re.compile(r"(?m)^ {0,3}(?:```|~~~)")
_MOST_PADDED = 4_000_000
"""Code blocks times lines of one Markdown text: each block is read in its place."""
_UNKNOWN = "Unknown format."
_TOML = re.compile(r"(?m)^\[\[?[A-Za-z0-9_\"'][^\],\n]*\]\]?[ \t\r]*(?:#.*)?$")
_PYTHON = re.compile(
    r"(?m)^(?:async def |def |class |import |from [\w.]+ import |@[A-Za-z_]"
    r"|[A-Za-z_]\w*[ \t]*(?::[^\n=]*)?=[ \t]*[\[{])"
)
_YAML = re.compile(r"(?m)^(?:---|- |[\"']?[\w$.-]+[\"']?:(?:[ \t\r]|$))")

_MOST_NAMED = 8
"""Names in one sentence."""

_FORMS = (
    "tools of OpenAI, Anthropic, Gemini, MCP or LangChain, a JSON Schema, an OpenAPI document, "
    "Python functions, or a file of MCP servers"
)


@dataclass(frozen=True)
class _ToolSource:
    """The syntax of the text ("JSON", "Python" ...), and its content. `choices` are all its tools
    if they can be listed without parsing them, else None."""

    kind: str
    items: Iterable[ImportedTool | ImportedServer]
    notes: Sequence[str] = ()
    choices: Iterable[ToolListItem] | None = None


@dataclass(frozen=True)
class _ImportRequest:
    """The parameters of `import_tools`. `parts` collects the files that were used."""

    name: str
    most: int
    files: Files
    pick: Collection[str] | None
    parts: dict[str, str]


def import_tools(
    text: str,
    name: str = "",
    most: int = MOST_TOOLS,
    *,
    files: Mapping[str, str] | None = None,
    pick: Collection[str] | None = None,
) -> ImportedTools:
    """The content of `text`, at most `most` tools and servers; `name` is its file's name, or its
    absolute path. Never raises.

    `files` are the texts of other files by name, which an OpenAPI document may refer to. `pick` are
    the keys of the tools to parse (`ToolListItem.key`), if the text has more than `most`.
    """
    try:
        if len(text) > MOST_BYTES or len(text.encode("utf-8", "replace")) > MOST_BYTES:
            most = MOST_BYTES // (1024 * 1024)
            raise UnreadableText(f"The text is larger than {most} MB. Import it in smaller files.")
        asked = _ImportRequest(name, most, Files(files or {}), pick, {})
        with one_document():
            was = _read_source(text.removeprefix("\ufeff"), name, asked)
            return replace(_collect(was, asked), parts=tuple(asked.parts))
    # The last two are a net: the parsers bound the depth.
    except (UnreadableText, RecursionError, MemoryError) as error:
        problem = (
            str(error) if isinstance(error, UnreadableText) else "The text is nested too deep."
        )
        return ImportedTools(problem=problem)


def _read_source(text: str, name: str, request: _ImportRequest) -> _ToolSource:
    ending = posixpath.splitext(name.lower())[1]
    start = _start(text)
    if not start:
        raise UnreadableText(f"It is empty. Import {_FORMS}.")
    if ending in MARKDOWN and start not in ("{", "["):
        return _blocks(text, request)
    if start == "<":
        raise UnreadableText(
            "This is HTML or XML, which has no tools. To import a shared session, use Import a "
            "session."
        )
    if start in ("`", "~"):
        return _blocks(text, request)
    if start in "{[" and not (start == "[" and _is_toml(text, ending)):
        return _json(text, name, request)
    if language := language_by_ending(name):
        raise UnreadableText(_language_note(language))
    if ending == ".toml" or (ending not in (".py", ".yaml", ".yml") and _is_toml(text, ending)):
        return _ToolSource("TOML", read_tools(toml_value(text), name))
    if ending == ".py":
        return _python(text, name)
    if ending not in (".yaml", ".yml"):
        not_python: UnreadableText | None = None
        if _PYTHON.search(text):
            try:
                return _python(text, name)
            except UnreadableText as error:
                not_python = error
        if _AT_FENCE.search(text):
            return _blocks(text, request)
        if language := language_by_content(text):
            raise UnreadableText(_language_note(language))
        if not_python:
            raise not_python
    if ending in (".yaml", ".yml") or _YAML.search(text):
        return _value("YAML", yaml_value(text), name, request)
    raise UnreadableText(f"{_UNKNOWN} Import {_FORMS}.")


def _language_note(language: str) -> str:
    return (
        f"This is {language}. The only supported source code is Python. Import the tools as the "
        "JSON that the program sends, or import it as an MCP server."
    )


def _start(text: str) -> str:
    """The first character that is neither blank nor in a comment, where comments may come first."""
    comment = _COMMENT.match(text)
    after = text[comment.end() : comment.end() + 1] if comment else ""
    return after if after in ("{", "[") else text.lstrip()[:1]


def _blocks(text: str, request: _ImportRequest) -> _ToolSource:
    """The content of all fenced blocks of Markdown; each keeps the numbers of its lines."""
    blocks = code_blocks(text)
    if not blocks:
        raise UnreadableText(f"It contains no code block (```). Import {_FORMS}.")
    if len(blocks) * text.count("\n") > _MOST_PADDED:
        raise UnreadableText(
            f"It has {len(blocks):,} code blocks, too many for a text of this length. Import "
            "only the block with the tools or servers."
        )
    sources: list[_ToolSource] = []
    unused: list[tuple[CodeBlock, str, _ToolSource | None]] = []
    for block in blocks:
        try:
            source = _read_source("\n" * (block.line - 1) + block.text, "", request)
            has_any, items = _peek(source.items)
        except UnreadableText as error:
            unused.append((block, str(error), None))
            continue
        source = replace(source, items=items)
        if has_any:
            sources.append(source)
        else:
            unused.append((block, "", source))
    if not sources:
        return _unused_source(unused)
    if len(sources) == 1 and not unused:
        return sources[0]
    notes = [note for source in sources for note in source.notes]
    if unused:
        notes.append(_count_unused(unused, len(blocks)))
    choices = sources[0].choices if len(sources) == 1 else None
    items = _unique_items(chain.from_iterable(source.items for source in sources))
    return _ToolSource(sources[0].kind, items, list(dict.fromkeys(notes)), choices)


def _peek(
    items: Iterable[ImportedTool | ImportedServer],
) -> tuple[bool, Iterable[ImportedTool | ImportedServer]]:
    """Whether one of `items` is a tool or a server, and the same items."""
    seen: list[ImportedTool | ImportedServer] = []
    left = iter(items)
    for item in left:
        seen.append(item)
        if isinstance(item, ImportedServer) or item.tool is not None or item.kind:
            return True, chain(seen, left)
    return False, seen


def _unused_source(unused: Sequence[tuple[CodeBlock, str, _ToolSource | None]]) -> _ToolSource:
    """What the blocks of a text without any tool or server have: their refusals, or the reasons why
    they cannot be read."""
    refused = [source for _, _, source in unused if source is not None]
    items = [item for source in refused for item in source.items]
    if items:
        return _ToolSource(refused[0].kind, items)
    reasons = [(block, problem) for block, problem, _ in unused if problem]
    known = [reason for reason in reasons if not reason[1].startswith(_UNKNOWN)] or reasons
    if len(unused) == 1 and known:
        raise UnreadableText(known[0][1])
    sentences = " ".join(f"Block at line {block.line}: {problem}" for block, problem in known[:3])
    problem = f"None of its {len(unused)} code blocks has tools or servers."
    raise UnreadableText(f"{problem} {sentences or f'Import {_FORMS}.'}")


def _count_unused(unused: Sequence[tuple[CodeBlock, str, _ToolSource | None]], count: int) -> str:
    lines = ", ".join(str(block.line) for block, _, _ in unused[:8])
    more = ", …" if len(unused) > 8 else ""
    return (
        f"Code blocks without a tool or server that can be read: {len(unused)} of {count}, at"
        f" line{'s' if len(unused) > 1 else ''} {lines}{more}."
    )


def _unique_items(
    items: Iterable[ImportedTool | ImportedServer],
) -> Iterator[ImportedTool | ImportedServer]:
    """The items of several blocks: what several show alike is one, and servers have names of their
    own."""
    seen: set[tuple[str, ...]] = set()
    names: set[str] = set()
    for item in items:
        hidden = item.replaced if isinstance(item, ImportedServer) else ()
        shown = (repr(item), *(replaced.value for replaced in hidden))
        if shown in seen:
            continue
        seen.add(shown)
        if isinstance(item, ImportedServer) and item.server is not None:
            item = with_free_name(item, names)
        yield item


def _is_toml(text: str, ending: str) -> bool:
    return ending == ".toml" or (ending not in (".json", ".jsonl") and bool(_TOML.search(text)))


def _value(
    kind: str, value: Any, name: str, request: _ImportRequest, note: str = ""
) -> _ToolSource:
    if not (isinstance(value, Mapping) and openapi.is_document(value)):
        return _ToolSource(kind, read_tools(value, name), [note] if note else [])
    whole, parts = bundle(value, request.name, request.files)
    request.parts.update(parts)
    notes = [*([note] if note else []), *openapi.document_notes(value)]
    return _ToolSource(kind, openapi.tools(whole, request.pick), notes, openapi.choices(whole))


def _json(text: str, name: str, request: _ImportRequest) -> _ToolSource:
    try:
        value, note = json_value(text)
    except UnreadableText:
        lines = _lines(text, name)
        if lines is not None:
            return _ToolSource("JSON Lines", lines)
        if (was := _literal(text)) is not None:
            return was
        raise
    if python_values.is_notebook(value):
        return _notebook(value)
    return _value("JSON", value, name, request, note)


def _literal(text: str) -> _ToolSource | None:
    """The content of a list or an object in Python syntax, with True and 'a'; None if it is JSON,
    however invalid."""
    try:
        load_json(text)
    except TooDeepError:
        return None
    except ValueError:
        pass
    else:
        return None
    try:
        was = _python(f"tools = {text.lstrip()}", "")
    except UnreadableText:
        return None
    return (
        _ToolSource("Python", was.items, [*was.notes, "It was read as Python."])
        if was.items
        else None
    )


def _notebook(value: Any) -> _ToolSource:
    code, notes = python_values.code_of(value)
    was = _python(code, "")
    notes += ["To run one of its functions, save it in a .py file."] if was.items else []
    return _ToolSource("Notebook", was.items, [*notes, *was.notes])


def _python(text: str, name: str) -> _ToolSource:
    """The tools of a Python file: its functions, and those among its values. Those of one name are
    merged, with the function to run and the schema that was written for it."""
    tree = python_source.parse_module(text)
    problem: UnreadableText | None = None
    try:
        file = python_source.read_file(tree)
    except UnreadableText as error:
        file, problem = PythonFile(), error
    listed = python_values.list_tools(tree, file.read)
    from_values = [
        tool
        for _, value in listed.tools
        for tool in read_tools(value, name)
        if isinstance(tool, ImportedTool)
    ]
    if problem is not None and not from_values and not listed.notes:
        raise problem
    by_name = {entry.name: entry for entry in reversed(from_values) if entry.tool is not None}
    answered = {file.handlers.get(tool, tool): tool for tool in by_name}
    functions = [*file.functions, *(other for other in file.others if other.function in answered)]
    others = [other for other in file.others if other not in functions]
    if from_values:  # models are the schemas of these, not separate tools
        functions = [function for function in functions if function.line]
    if by_name and not file.named:
        others = [function for function in functions if function.function not in answered]
        functions = [function for function in functions if function.function in answered]
    merged, used = [], set()
    for function in sorted(functions, key=lambda function: function.line):
        same = by_name.pop(answered.get(function.function, function.name), None)
        merged.append(_merge_schema(function, same, name))
        used.add(id(same))
    rest = [
        entry
        for entry in from_values
        if id(entry) not in used and (entry.tool is not None or not functions)
    ]
    notes = [*listed.notes, *file.notes, *_omitted_note(others)]
    return _ToolSource("Python", [*merged, *rest], notes)


def _omitted_note(others: Sequence[Function]) -> list[str]:
    names = [function.function for function in others]
    if not names:
        return []
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    listed = ", ".join(names[:_MOST_NAMED])
    return [f"Not offered, because the file declares its tools: {listed}{more}."]


def _merge_schema(function: Function, listed: ImportedTool | None, file: str) -> ImportedTool:
    """`function` with the name, the description and the parameters of the tool that it answers."""
    if listed is None or listed.tool is None or function.problem:
        return python_source.imported_tool(function, file)
    merged = with_parameters(function, listed.tool.parameters)
    note = "Its description and parameters are those of the tool of this name in the file."
    notes = [note for note in listed.notes if note != UNANSWERED]
    merged = replace(
        merged,
        name=listed.tool.name,
        description=listed.tool.description,
        notes=(note, *notes, *merged.notes),
    )
    imported = python_source.imported_tool(merged, file)
    if imported.tool is None:
        return imported
    tool = replace(imported.tool, strict=listed.tool.strict)
    return replace(imported, tool=tool, notes=tuple(dict.fromkeys(imported.notes)))


def _lines(text: str, name: str) -> Iterator[ImportedTool | ImportedServer] | None:
    """The content of the lines, or None if the first is not JSON by itself."""
    start, more, _ = text.strip().partition("\n")
    if not more or start.rstrip()[-1:] not in ("}", "]"):
        return None
    first = next(json_lines(start))[1]
    return _each_line(text, name) if isinstance(first, dict | list) else None


def _each_line(text: str, name: str) -> Iterator[ImportedTool | ImportedServer]:
    for _, value in json_lines(text):
        if isinstance(value, UnreadableText):
            yield refused_tool({}, "JSON Lines", "", str(value))
        else:
            yield from read_tools(value, name)


def _collect(source: _ToolSource, request: _ImportRequest) -> ImportedTools:
    tools: list[ImportedTool] = []
    servers: list[ImportedServer] = []
    choices: tuple[ToolListItem, ...] = ()
    notes = [*source.notes, *filter(None, request.parts.values())]
    more, again = False, _Duplicates()
    items_left = iter(source.items)
    for item in items_left:
        if (
            isinstance(item, ImportedTool)
            and request.pick is not None
            and _key(item) not in request.pick
        ):
            continue
        if isinstance(item, ImportedTool) and again.has(item):
            continue
        full = tools if isinstance(item, ImportedTool) else servers
        if more := len(full) == request.most:
            others = [] if source.choices else [item, *items_left]
            choices = tuple(islice(source.choices or _choices([*tools, *others]), MOST_TOOLS))
            notes.append(f"Only the first {request.most:,} are read. Choose the ones you want.")
            break
        tools.append(item) if isinstance(item, ImportedTool) else servers.append(item)
    notes += again.notes()
    kinds = sorted(
        {items_left.kind for items_left in tools if items_left.kind}
        | {"MCP servers" for _ in servers}
    )
    problem = "" if tools or servers else f"It contains no tools and no servers. Import {_FORMS}."
    return ImportedTools(
        tuple(tools),
        servers=tuple(servers),
        kind=" and ".join(kinds),
        problem=problem,
        notes=tuple(notes),
        more=more,
        choices=choices,
    )


@dataclass
class _Duplicates:
    """The functions of a benchmark, many of which are repeated in many of its cases."""

    seen: set[str] = field(default_factory=set)
    same: int = 0
    empty: int = 0

    def has(self, tool: ImportedTool) -> bool:
        """Whether it occurred before; all cases without functions count as one."""
        if tool.kind != CASE:
            return False
        key = (
            json.dumps(tool.form, sort_keys=True) if tool.tool is not None else tool.problem and ""
        )
        if key not in self.seen:
            self.seen.add(key)
            return False
        self.same += bool(key)
        self.empty += not key
        return True

    def notes(self) -> list[str]:
        notes = []
        if self.same:
            notes.append(f"Identical duplicates skipped: {self.same:,}.")
        if self.empty:
            notes.append(f"Cases without functions: {self.empty:,}.")
        return notes


def _key(tool: ImportedTool) -> str:
    """The selection key of a tool: its name, except for operations, whose names may repeat."""
    if tool.kind == openapi.KIND:
        return openapi.key(tool.form)
    return tool.name


def _choices(items: Iterable[ImportedTool | ImportedServer]) -> Iterator[ToolListItem]:
    for item in items:
        if isinstance(item, ImportedTool):
            described = item.tool.description if item.tool else item.problem
            yield ToolListItem(_key(item), item.name, clip(described.partition("\n")[0], 160))
