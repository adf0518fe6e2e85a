"""Tools that are values in a Python file: `tools = [{"type": "function", ...}]`, anywhere.

Read from the syntax tree, with simple names, sums and constructors resolved; nothing is run. Values
known only at run time are reported by their line.
https://docs.python.org/3/library/ast.html
"""

from __future__ import annotations

import ast
import inspect
import math
import re
import textwrap
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from playground.exchange.parsers import UnreadableText, json_value
from playground.exchange.python_tree import MOST_NESTED, expression_text, is_nested_deeper
from playground.exchange.python_types import Types, TypesTooLarge, is_record, last_name

MOST_VALUES = 100_000
MOST_CHARS = 4 * 1024 * 1024
"""The limit of one file, counted each time a value is used."""
MOST_LISTED = 1_000
_MOST_DEEP = 80

_SCHEMAS = ("parameters", "input_schema", "inputSchema", "args_schema", "params_json_schema")
_HOLDS = ("function_declarations", "functionDeclarations", "toolSpec")
_DEFS = (ast.FunctionDef, ast.AsyncFunctionDef)
_STRIPS: Mapping[str, Callable[[str], str]] = {
    "strip": str.strip,
    "lstrip": str.lstrip,
    "rstrip": str.rstrip,
    "dedent": textwrap.dedent,
    "cleandoc": inspect.cleandoc,
}

MOST_CELLS = 2_000

_SHELL = re.compile(r"\w[\w, ]*")
"""The left side of `files = !ls`."""


class UnknownValue(ValueError):
    """A value known only at run time. `str` is a sentence."""


@dataclass(frozen=True)
class ListedTools:
    """`tools` are values in other formats, each with its line; `notes` are about those that could
    not be read."""

    tools: tuple[tuple[int, Any], ...] = ()
    notes: tuple[str, ...] = ()


def list_tools(tree: ast.Module, read: Collection[int] = ()) -> ListedTools:
    """The tools among the values of a file, in their order; `read` are calls that have been read,
    by `id`."""
    values = Values(tree)
    tools: list[tuple[int, Any]] = []
    notes: list[str] = []
    for node in _tool_nodes(tree, read):
        if len(tools) + len(notes) == MOST_LISTED:
            notes.insert(0, f"Only the first {MOST_LISTED:,} tools in its values are read.")
            break
        try:
            tools.append((node.lineno, values.evaluate(_with_names(node, tree))))
        except (UnknownValue, TypesTooLarge) as error:
            notes.append(f"A tool in line {node.lineno} was left out: {error}")
    more = [f"{len(notes) - 10} more were left out."] if len(notes) > 10 else []
    return ListedTools(tuple(tools), (*notes[:10], *more))


def has_tool(node: ast.AST) -> bool:
    """Whether a value in `node` describes a tool."""
    return next(_tool_nodes(node, ()), None) is not None


def _tool_nodes(tree: ast.AST, read: Collection[int]) -> Iterator[ast.expr]:
    """The outermost expressions that describe a tool."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if id(node) in read:
            continue
        if isinstance(node, ast.expr) and _is_tool(node):
            yield node
        else:
            todo += reversed(list(ast.iter_child_nodes(node)))


def _with_names(node: ast.expr, tree: ast.Module) -> ast.expr:
    """A tool with names in place of the functions that it holds: `"handler": fetch`."""
    names = {line.name for line in tree.body if isinstance(line, _DEFS)}

    def replace_function(value: ast.expr) -> ast.expr:
        function = "lambda" if isinstance(value, ast.Lambda) else last_name(value)
        is_function = isinstance(value, ast.Lambda) or function in names
        return ast.copy_location(ast.Constant(function), value) if is_function else value

    match node:
        case ast.Dict(keys=keys, values=values):
            return ast.copy_location(
                ast.Dict(keys, [replace_function(value) for value in values]), node
            )
        case ast.Call(func=func, args=args, keywords=words):
            changed = [ast.keyword(word.arg, replace_function(word.value)) for word in words]
            return ast.copy_location(ast.Call(func, args, changed), node)
    return node


def class_members(node: ast.ClassDef) -> dict[str, ast.expr]:
    """What a class says of its objects: in its body, in its properties, and in its constructor."""
    members = set_members(node)
    for line in node.body:
        match line:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                members[name] = _default_of(value)
            case ast.FunctionDef(name=name, body=[*_, ast.Return(value=ast.expr() as value)]):
                marks = {last_name(mark) for mark in line.decorator_list}
                if marks & {"property", "cached_property"}:
                    members[name] = value
    return members


def set_members(node: ast.ClassDef) -> dict[str, ast.expr]:
    """What the constructor of a class sets."""
    members: dict[str, ast.expr] = {}
    for line in node.body:
        if isinstance(line, ast.FunctionDef) and line.name == "__init__":
            members |= _super_arguments(line)
    return members


def _default_of(value: ast.expr) -> ast.expr:
    """The default that `Field(default=...)` gives."""
    match value:
        case ast.Call(func=func, args=args, keywords=words) if last_name(func) == "Field":
            defaults = [*args[:1], *(word.value for word in words if word.arg == "default")]
            return defaults[0] if defaults else value
    return value


def _super_arguments(node: ast.FunctionDef) -> dict[str, ast.expr]:
    """What a constructor hands to the one of its base class by name, or sets itself."""
    given: dict[str, ast.expr] = {}
    for call in ast.walk(node):
        match call:
            case ast.Call(
                func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"),
                keywords=words,
            ):
                given |= {word.arg: word.value for word in words if word.arg}
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id="self"), attr=attr)], value=value
            ):
                given[attr] = value
    return given


def _is_tool(node: ast.expr) -> bool:
    match node:
        case ast.Dict():
            members = _members(node)
        case ast.Call(func=func, args=[]) if _makes_object(last_name(func)):
            members = {str(word.arg): word.value for word in node.keywords if word.arg}
        case _:
            return False
    if any(key in members for key in _HOLDS):
        return True
    if "name" in members:
        return any(key in members for key in _SCHEMAS)
    match members.get("type"), members.get("function"):
        case ast.Constant(value="function"), ast.Dict() as inner:
            return "arguments" not in _members(inner)
        case ast.Constant(value="function"), ast.Name() | ast.Call():
            return True
    return False


def _makes_object(name: str) -> bool:
    """Whether the callable of that name is `dict`, or an SDK type, recognised by its name."""
    return name == "dict" or name[:1].isupper()


def _members(node: ast.Dict) -> dict[str, ast.expr]:
    pairs = zip(node.keys, node.values, strict=True)
    return {
        key.value: value
        for key, value in pairs
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


@dataclass
class Values:
    """The values of one file. `names` are those bound to exactly one expression."""

    tree: ast.Module
    names: dict[str, ast.expr | None] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    attributes: dict[int, ast.expr] = field(default_factory=dict)
    _known: dict[str, tuple[Any, int, int]] = field(default_factory=dict)
    _open: list[str] = field(default_factory=list)
    _count: int = 0
    _chars: int = 0

    def __post_init__(self) -> None:
        for node in ast.walk(self.tree):
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                ):
                    self.names[name] = None if name in self.names else value
                case ast.AugAssign(target=ast.Name(id=name)) | ast.arg(arg=name):
                    self.names[name] = None
                case (
                    ast.For(target=ast.Name(id=name)) | ast.comprehension(target=ast.Name(id=name))
                ):
                    self.names[name] = None
                case ast.ClassDef(name=name):
                    self.classes[name] = node
                    self._add_attributes(node)

    def _add_attributes(self, node: ast.ClassDef) -> None:
        """The value of `self.name` in a class."""
        members = class_members(node)
        for inner in ast.walk(node):
            match inner:
                case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=attr) if attr in members:
                    self.attributes[id(inner)] = members[attr]

    def evaluate(self, node: ast.expr, depth: int = 0) -> Any:
        """The JSON value of `node`."""
        self._count += 1
        if self._count > MOST_VALUES or self._chars > MOST_CHARS or depth > _MOST_DEEP:
            raise UnknownValue("The values of this file are too many or too deep.")
        match node:
            case ast.Constant(value=None | bool() | int() | str() as value):
                return self._count_text(value) if isinstance(value, str) else value
            case ast.Constant(value=float() as number) if math.isfinite(number):
                return number
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                return self._items(items, depth)
            case ast.Dict():
                return self._object(node, depth)
            case ast.Name(id=name):
                return self._name_value(name, node, depth)
            case ast.Attribute() if id(node) in self.attributes:
                return self.evaluate(self.attributes[id(node)], depth + 1)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                value = self.evaluate(operand, depth + 1)
                return -value if isinstance(value, int | float) else self._refuse(node)
            case ast.BinOp(left=left, op=ast.Add() | ast.BitOr() as op, right=right):
                return self._sum(
                    node, op, self.evaluate(left, depth + 1), self.evaluate(right, depth + 1)
                )
            case ast.JoinedStr(values=pieces):
                return "".join(self._piece(piece, depth) for piece in pieces)
            case ast.Subscript(value=value, slice=inside):
                try:
                    return self.evaluate(value, depth + 1)[self.evaluate(inside, depth + 1)]
                except (LookupError, TypeError):
                    return self._refuse(node)
            case ast.Attribute(value=value, attr=attr) if last_name(value).endswith("Type"):
                return attr
            case ast.Call():
                return self._call(node, depth)
        return self._refuse(node)

    def _count_text(self, text: str) -> str:
        self._chars += len(text)
        if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
            raise UnknownValue(
                "A text contains half of a surrogate pair, which is not a character."
            )
        return text

    def _items(self, items: list[ast.expr], depth: int) -> list[Any]:
        listed: list[Any] = []
        for item in items:
            if isinstance(item, ast.Starred):
                several = self.evaluate(item.value, depth + 1)
                listed += several if isinstance(several, list) else self._refuse(item)
            else:
                listed.append(self.evaluate(item, depth + 1))
        return listed

    def _object(self, node: ast.Dict, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            inner = self.evaluate(value, depth + 1)
            if key is None:
                members |= inner if isinstance(inner, dict) else self._refuse(value)
                continue
            name = self.evaluate(key, depth + 1)
            members[name if isinstance(name, str) else self._refuse(key)] = inner
        return members

    def _name_value(self, name: str, node: ast.expr, depth: int) -> Any:
        """The value of a name, counted each time it is used."""
        if name in self._known:
            value, count, chars = self._known[name]
            self._count += count
            self._chars += chars
            return value
        node_of_name = self.names.get(name)
        if node_of_name is None or name in self._open:
            self._refuse(node)
        before = self._count, self._chars
        self._open.append(name)
        try:
            value = self.evaluate(node_of_name, depth + 1)
        finally:
            self._open.pop()
        self._known[name] = value, self._count - before[0], self._chars - before[1]
        return value

    def _sum(self, node: ast.expr, op: ast.operator, left: Any, right: Any) -> Any:
        match op, left, right:
            case ast.Add(), str(), str():
                return left + right
            case ast.Add(), list(), list():
                return left + right
            case ast.BitOr(), dict(), dict():
                return left | right
        return self._refuse(node)

    def _piece(self, node: ast.expr, depth: int) -> str:
        match node:
            case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                value_of_node = self.evaluate(value, depth + 1)
                return (
                    str(value_of_node)
                    if isinstance(value_of_node, str | int)
                    else self._refuse(node)
                )
        return str(self.evaluate(node, depth + 1))

    def _call(self, node: ast.Call, depth: int) -> Any:
        name = last_name(node.func)
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        match name, node.args:
            case "model_json_schema" | "schema", [] if last_name(owner or node) in self.classes:
                return self._schema(last_name(owner or node), node)
            case "strip" | "lstrip" | "rstrip", [] if owner is not None:
                return self._text(_STRIPS[name], owner, depth)
            case "dedent" | "cleandoc", [argument]:
                return self._text(_STRIPS[name], argument, depth)
            case "loads", [argument]:
                return self._parse_json(self.evaluate(argument, depth + 1), node)
            case "list" | "tuple" | "dict", [argument] if not node.keywords:
                return self.evaluate(argument, depth + 1)
            case _, [] if _makes_object(name):
                return self._keywords(node, depth)
        return self._refuse(node)

    def _keywords(self, node: ast.Call, depth: int) -> dict[str, Any]:
        """The arguments by name."""
        keywords: dict[str, Any] = {}
        for word in node.keywords:
            value = self.evaluate(word.value, depth + 1)
            if word.arg is None:
                keywords |= value if isinstance(value, dict) else self._refuse(node)
            elif value is not None:
                keywords[word.arg] = value
        return keywords

    def _text(self, change: Callable[[str], str], node: ast.expr, depth: int) -> str:
        text = self.evaluate(node, depth + 1)
        return change(text) if isinstance(text, str) else self._refuse(node)

    def _parse_json(self, text: Any, node: ast.expr) -> Any:
        try:
            return json_value(text)[0] if isinstance(text, str) else self._refuse(node)
        except UnreadableText:
            self._refuse(node)

    def _schema(self, name: str, node: ast.expr) -> Any:
        """A model's schema, by its type hints."""
        definition = self.classes[name]
        if not is_record(definition, self.classes):
            self._refuse(node)
        aliases = {name: value for name, value in self.names.items() if value is not None}
        return Types(self.classes, aliases).members(definition)

    def _refuse(self, node: ast.expr) -> NoReturn:
        written = expression_text(node)
        short = written if len(written) <= 60 else f"{written[:59]}…"
        raise UnknownValue(f"{short!a} is only known when the file runs; write it out.")


# -- The code of a Jupyter notebook ------------------------------------------------------------


def is_notebook(value: Any) -> bool:
    return isinstance(value, Mapping) and "nbformat" in value and _cells(value) is not None


def _cells(value: Mapping[str, Any]) -> list[Any] | None:
    """The cells of a notebook; before version 4 they were in worksheets."""
    sheets = value.get("worksheets")
    if isinstance(sheets, list) and "cells" not in value:
        sheets_cells = [sheet.get("cells") for sheet in sheets if isinstance(sheet, Mapping)]
        return [cell for cells in sheets_cells if isinstance(cells, list) for cell in cells]
    cells = value.get("cells")
    return cells if isinstance(cells, list) else None


def code_of(value: Mapping[str, Any]) -> tuple[str, list[str]]:
    """(the code of all valid Python cells, sentences on the others)."""
    pieces: list[str] = []
    unsound: list[str] = []
    cells = _cells(value) or []
    for number, cell in enumerate(cells[:MOST_CELLS], 1):
        if not isinstance(cell, Mapping) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", cell.get("input"))
        text = "".join(map(str, source)) if isinstance(source, list) else str(source or "")
        if text.lstrip().startswith("%%"):
            continue  # in another language, or timed
        if not _is_sound(text):
            text = "\n".join(map(_without_magic, text.split("\n")))
        pieces.append(text) if _is_sound(text) else unsound.append(str(number))
    notes = []
    if unsound:
        notes.append(
            f"Left out, because they are not valid Python: cell {', '.join(unsound[:10])}."
        )
    if len(cells) > MOST_CELLS:
        notes.append(f"Only the first {MOST_CELLS:,} cells are read.")
    return "\n\n".join(pieces), notes


def _without_magic(line: str) -> str:
    """`line`, or `pass` if only IPython can parse it: `%magic`, `!shell`, `help?`."""
    code = line.strip()
    left, equals, right = code.partition("=")
    asks = code.endswith("?") and not equals and not any(sign in code for sign in "#'\"")
    shell = equals and right.lstrip()[:1] in ("!", "%") and _SHELL.fullmatch(left.strip())
    if code[:1] in ("%", "!", "?") or asks or shell:
        return f"{line[: len(line) - len(line.lstrip())]}pass"
    return line


def _is_sound(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return not is_nested_deeper(tree, MOST_NESTED)
