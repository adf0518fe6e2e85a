"""Finds the line of a tool, or of a part of it, in the text that it was imported from.

JSON (also with comments, also JSON Lines), YAML and Python. The nearest place that the text has is
found; None if the tool is not found again.
"""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from playground.core.arguments import name_of_step
from playground.exchange.parsers import MOST_LOOSE_BYTES, UnreadableText, without_comments
from playground.exchange.python_source import parse_module
from playground.exchange.tool_entry import ImportedTool

MOST_BYTES = 2 * 1024 * 1024
"""Beyond this no line is looked for: an index of the text would take longer than its check."""
MOST_DEPTH = 200

_NAMES = ("name", "operationId", "title")
"""Members that name a tool."""
_SCHEMAS = (
    *("parameters", "input_schema", "inputSchema", "parametersJsonSchema"),
    *("parameters_json_schema", "params_json_schema", "args_schema", "schema"),
)
"""Members that hold its schema."""
_WRAPPERS = ("json", "jsonSchema", "schema", "function", "custom")
_SPACE = re.compile(r"[ \t\r\n]*")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class TextNode:
    """A value of a text: its line, from 1, its members with the lines of their names (of a list
    under "0", "1", ...), and the text of a scalar."""

    line: int
    members: Mapping[str, tuple[int, TextNode]] = field(default_factory=dict)
    text: str | None = None


class ToolLines:
    """The lines of the tools in one text."""

    def __init__(self, text: str, name: str) -> None:
        self._python: list[ast.AST] = []
        self._entries: dict[str, list[TextNode]] = {}
        if len(text) > MOST_BYTES:
            return
        roots = _json_roots(text) if text.lstrip()[:1] in ("{", "[") else []
        if not roots and name.endswith((".yaml", ".yml")):
            roots = _yaml_roots(text)
        if not roots and name.endswith(".py"):
            self._python = _definitions(text)
        for root in roots:
            for node in _all_nodes(root):
                for key in _NAMES:
                    if key in node.members and (called := node.members[key][1].text):
                        self._entries.setdefault(called, []).append(node)
                        break

    def line(self, item: ImportedTool, pointer: str, number: int = 0) -> int | None:
        """The line of `pointer`, a place in our own form of the tool. `number` counts the tools of
        that name in the text."""
        steps = [name_of_step(step) for step in pointer.split("/")[1:]]
        for called in _written_names(item):
            if nodes := self._entries.get(called):
                return _line_in(nodes[min(number, len(nodes) - 1)], steps)
            for definition in self._python:
                if getattr(definition, "name", "") == called:
                    return _line_in_python(definition, steps)
        return None


def _written_names(item: ImportedTool) -> Iterator[str]:
    """The names under which the tool may be written in its text."""
    for form in (item.form, *(item.form.get(key) for key in ("function", "custom", "toolSpec"))):
        if isinstance(form, Mapping):
            yield from (form[key] for key in _NAMES if isinstance(form.get(key), str))
    yield item.name


def _all_nodes(root: TextNode) -> Iterator[TextNode]:
    """Every node once, in the order of the text."""
    seen: set[int] = set()
    todo = [root]
    while todo:
        node = todo.pop()
        if id(node) not in seen:  # an anchor of YAML may be used more than once
            seen.add(id(node))
            yield node
            todo.extend(reversed([inner for _, inner in node.members.values()]))


def _line_in(entry: TextNode, steps: list[str]) -> int:
    """The line of the last of `steps` that is there."""
    node, line = entry, entry.line
    if steps[:1] == ["parameters"]:
        key = next((key for key in _SCHEMAS if key in entry.members), None)
        if key is None:
            return line
        line, node = entry.members[key]
        steps = steps[1:]
    for step in steps:
        wrapped = next((key for key in _WRAPPERS if key in node.members), None)
        if step not in node.members and wrapped is not None:
            node = node.members[wrapped][1]
        if step not in node.members:
            break
        line, node = node.members[step]
    return line


# JSON.


def text_root(text: str) -> TextNode | None:
    """The value of a JSON text with its lines; None if the text is not JSON."""
    roots = _json_roots(text) if len(text) <= MOST_BYTES else []
    return roots[0] if roots else None


def line_of_steps(root: TextNode, steps: list[str]) -> int:
    """The line of a place, or of the nearest one around it that is there."""
    node, line = root, root.line
    for step in steps:
        if step not in node.members:
            break
        line, node = node.members[step]
    return line


def _json_roots(text: str) -> list[TextNode]:
    """The values of a JSON text, or of JSON Lines; none if it is neither."""
    for candidate in (text, without_comments(text) if len(text) <= MOST_LOOSE_BYTES else text):
        try:
            return list(_JsonReader(candidate).roots())
        except (ValueError, IndexError):
            continue
    return []


class _JsonReader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.decoder = json.JSONDecoder()

    def roots(self) -> Iterator[TextNode]:
        at = self.skip(0)
        while at < len(self.text):
            node, at = self.read(at, 0)
            yield node
            at = self.skip(at)

    def skip(self, at: int) -> int:
        """The offset after the white space at `at`."""
        match = _SPACE.match(self.text, at)
        return match.end() if match else at

    def line(self, at: int) -> int:
        return bisect_right(self.starts, at)

    def read(self, at: int, depth: int) -> tuple[TextNode, int]:
        """The value at `at`, and the offset after it."""
        if depth > MOST_DEPTH:
            raise ValueError("nested too deep")
        opening = self.text[at]
        if opening == "{":
            return self.object(at, depth)
        if opening == "[":
            return self.array(at, depth)
        value, end = self.decoder.raw_decode(self.text, at)
        return TextNode(self.line(at), text=value if isinstance(value, str) else None), end

    def object(self, start: int, depth: int) -> tuple[TextNode, int]:
        members: dict[str, tuple[int, TextNode]] = {}
        at = self.skip(start + 1)
        while self.text[at] != "}":
            line = self.line(at)
            name, at = self.decoder.raw_decode(self.text, at)
            at = self.skip(at)
            if self.text[at] != ":":
                raise ValueError("missing colon")
            node, at = self.read(self.skip(at + 1), depth + 1)
            members[name] = line, node
            at = self.next_item(at, "}")
        return TextNode(self.line(start), members), at + 1

    def array(self, start: int, depth: int) -> tuple[TextNode, int]:
        members: dict[str, tuple[int, TextNode]] = {}
        at = self.skip(start + 1)
        while self.text[at] != "]":
            node, at = self.read(at, depth + 1)
            members[str(len(members))] = node.line, node
            at = self.next_item(at, "]")
        return TextNode(self.line(start), members), at + 1

    def next_item(self, at: int, closing: str) -> int:
        """The offset of the next item, or of `closing`."""
        at = self.skip(at)
        if self.text[at] == closing:
            return at
        if self.text[at] != ",":
            raise ValueError("missing comma")
        return self.skip(at + 1)


# YAML.


def _yaml_roots(text: str) -> list[TextNode]:
    try:
        if _is_yaml_deeper(text, MOST_DEPTH):
            return []
        return [_yaml_node(node, {}) for node in yaml.compose_all(text, Loader=_LOADER) if node]
    except yaml.YAMLError:
        return []


def _is_yaml_deeper(text: str, most: int) -> bool:
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > most:
                return True
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return False


def _yaml_node(node: Any, known: dict[int, TextNode]) -> TextNode:
    """`known` are the nodes that anchors name; one that contains itself is empty there."""
    if id(node) in known:
        return known[id(node)]
    line = node.start_mark.line + 1
    known[id(node)] = TextNode(line)
    members: dict[str, tuple[int, TextNode]] = {}
    text: str | None = None
    match node:
        case yaml.MappingNode():
            for key, value in node.value:
                members[str(key.value)] = key.start_mark.line + 1, _yaml_node(value, known)
        case yaml.SequenceNode():
            for index, value in enumerate(node.value):
                members[str(index)] = value.start_mark.line + 1, _yaml_node(value, known)
        case yaml.ScalarNode():
            text = str(node.value)
    known[id(node)] = TextNode(line, members, text)
    return known[id(node)]


# Python.


def _definitions(text: str) -> list[ast.AST]:
    """The functions and classes of a source, outer before inner."""
    try:
        module = parse_module(text)
    except UnreadableText:
        return []
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [node for node in ast.walk(module) if isinstance(node, kinds)]


def _line_in_python(definition: ast.AST, steps: list[str]) -> int:
    """The line of a parameter or a field, or of the definition."""
    if steps[:2] == ["parameters", "properties"] and len(steps) > 2:
        for node in ast.walk(definition):
            match node:
                case ast.arg(arg=name) if name == steps[2]:
                    return node.lineno
                case ast.AnnAssign(target=ast.Name(id=name)) if name == steps[2]:
                    return node.lineno
    return int(getattr(definition, "lineno", 1))
