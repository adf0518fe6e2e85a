"""The functions of a Python file as tools: names, type hints and docstrings, read and never run.

A decorator that makes a tool (`@tool`, `@mcp.tool()`, `@function_tool` ...) may name it anew.
https://docs.python.org/3/library/ast.html
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import docstring_parser

from app.exchange.entry import ToolParts, build_tool
from app.exchange.found import ImportedTool
from app.exchange.python.annotations import (
    ANYTHING,
    Schema,
    TooLarge,
    Types,
    has_default,
    is_record,
    last_name,
    literal,
)
from app.exchange.text import Unreadable

KIND = "Python"
MOST_BYTES = 512 * 1024
_MOST_DOCSTRING = 20_000

_TOOLS = (
    *("tool", "tool_plain", "function_tool", "beta_tool", "beta_async_tool", "kernel_function"),
    *("ai_function", "ai_callable", "register_function"),
)
_GIVEN = (
    *("Context", "RunContext", "RunContextWrapper", "ToolContext", "RunnableConfig"),
    *("ToolRuntime", "InjectedState", "InjectedStore", "InjectedToolArg", "InjectedToolCallId"),
)
"""Types of arguments that a framework fills in, and no model."""

Def = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Function:
    """One function as a tool. `function` is its name in the file, `name` that of the tool;
    `decorator` the one that makes it a tool elsewhere, or ""; `line` is from 1. `problem` says
    why it cannot be one."""

    name: str
    function: str
    description: str
    parameters: Schema
    line: int
    decorator: str = ""
    notes: tuple[str, ...] = ()
    problem: str = ""


def tools(source: str, file: str = "") -> Iterator[ImportedTool]:
    """Every function of `source`; `file` is the absolute path it stands at, where that is known."""
    found = functions(source)
    for one in found:
        notes = list(one.notes)
        pieces = ToolParts(one.name, one.description, one.parameters, notes=notes)
        if file.startswith("/") and one.line:
            if one.decorator:
                notes.append(
                    f"It is decorated by @{one.decorator}; name an interpreter that has what the "
                    "file imports."
                )
            config = {"file": file, "function": one.function}
            pieces = replace(pieces, answered_by="python", config=config)
        elif one.line:
            notes.append("To have it run, name the absolute path of its file in the editor.")
        form = {"name": one.name, "function": one.function, "line": one.line}
        tool = build_tool(form, KIND, pieces)
        yield replace(tool, tool=None, problem=one.problem) if one.problem else tool


def functions(source: str) -> list[Function]:
    """The functions at the top of `source`; where there are none, its pydantic models and the
    like. Unreadable, with the line, where it is no Python, and where all are methods."""
    tree = parsed(source)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    aliases = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                aliases[name] = _alias(value)
            case ast.AnnAssign(
                target=ast.Name(id=name), annotation=hint, value=ast.expr() as value
            ):
                if last_name(hint) == "TypeAlias":
                    aliases[name] = value
    found = []
    for node in tree.body:
        if isinstance(node, Def) and _is_tool(node):
            found.append(_function(node, Types(classes, aliases)))
    if not found:
        found = [
            _model(node, Types(classes, aliases))
            for node in tree.body
            if isinstance(node, ast.ClassDef) and is_record(node, classes)
        ]
    if not found and any(
        isinstance(line, Def) for class_ in classes.values() for line in class_.body
    ):
        raise Unreadable(
            "Its functions are methods of a class, which are not read: a tool is called without "
            "an object. Put functions that call them at the top of the file."
        )
    return found


def _is_tool(node: Def) -> bool:
    """Not what is private, nor a stub that only tells a type checker of one more way to call."""
    if any(last_name(mark) == "overload" for mark in node.decorator_list):
        return False
    return bool(_decorator(node)[0]) or not node.name.startswith("_")


def parsed(source: str) -> ast.Module:
    """The syntax tree; Unreadable, with the line, where it is no Python."""
    if len(source) > MOST_BYTES:
        raise Unreadable(
            f"Python of more than {MOST_BYTES // 1024} kB is not read; split the file."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a compiler would say of `"\d"`
            return ast.parse(source)
    except SyntaxError as error:
        what = "a number has too many digits" if "digits" in error.msg else error.msg
        said = f"Line {error.lineno or 1}: this is no sound Python: {what}."
        raise Unreadable(said) from None
    except (RecursionError, MemoryError):
        raise Unreadable("The Python is nested too deep to be read.") from None
    except ValueError:
        raise Unreadable("The Python holds a character that no source may hold.") from None


def _alias(value: ast.expr) -> ast.expr:
    """What an assignment stands for as a type: `NewType("City", str)` is a str."""
    match value:
        case ast.Call(func=func, args=[_, kind]) if last_name(func) == "NewType":
            return kind
    return value


def _function(node: Def, types: Types) -> Function:
    decorator, named = _decorator(node)
    told = _Told(ast.get_docstring(node) or "")
    name, description = str(named.get("name") or node.name), named.get("description")
    found = Function(name, node.name, "", {}, node.lineno, decorator)
    try:
        model = named.get("args_schema")
        if isinstance(model, str) and model in types.classes:
            parameters = types.members(types.classes[model])
            parameters.pop("description", None)
        else:
            parameters = _arguments(node, types, told)
    except (TooLarge, RecursionError) as error:
        said = str(error) if isinstance(error, TooLarge) else "Its types are nested too deep."
        return replace(found, problem=said)
    problem = ""
    if node.args.posonlyargs:
        problem = "It has arguments that go by position only; a tool is called by their names."
    return replace(
        found,
        description=str(description or told.description),
        parameters=parameters,
        notes=tuple(dict.fromkeys(types.notes)),
        problem=problem,
    )


def _model(node: ast.ClassDef, types: Types) -> Function:
    """A class of typed members: its members are the arguments."""
    try:
        parameters = types.members(node)
    except (TooLarge, RecursionError):
        return Function(node.name, "", "", {}, 0, problem="Its types are too large or too deep.")
    description = str(parameters.pop("description", ""))
    notes = tuple(dict.fromkeys(types.notes))
    return Function(node.name, "", description, parameters, 0, notes=notes)


def _decorator(node: Def) -> tuple[str, Mapping[str, Any]]:
    """The decorator that makes a tool of it, as written, and what it says: name, description."""
    for mark in node.decorator_list:
        func = mark.func if isinstance(mark, ast.Call) else mark
        if last_name(func) not in _TOOLS:
            continue
        said: dict[str, Any] = {}
        if isinstance(mark, ast.Call):
            for argument in mark.args[:1]:
                said["name"] = literal(argument)[1]
            for word in mark.keywords:
                key = str(word.arg).removesuffix("_override")
                value = last_name(word.value) if key == "args_schema" else literal(word.value)[1]
                said[key] = value
        texts = {key: value for key, value in said.items() if isinstance(value, str)}
        return ast.unparse(func)[:60], texts
    return "", {}


def _arguments(node: Def, types: Types, told: _Told) -> Schema:
    properties: dict[str, Schema] = {}
    required = []
    plain = [*node.args.posonlyargs, *node.args.args]
    none: list[ast.expr | None] = [None] * (len(plain) - len(node.args.defaults))
    pairs = [*zip(plain, [*none, *node.args.defaults], strict=True)]
    pairs += [*zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
    for argument, default in pairs:
        name, hint = argument.arg, argument.annotation
        if hint is not None and _is_given(hint):
            types.notes.append(f"{name} is filled in by the framework and was left out.")
            continue
        schema = _hinted(name, hint, types, told)
        schema = types.with_default(schema, default)
        if name in told.arguments and "description" not in schema:
            schema = {**schema, "description": told.arguments[name]}
        properties[name] = schema
        required += [] if has_default(default) else [name]
    unpacked = _unpacked(node.args.kwarg, types)
    if unpacked is not None:
        properties |= unpacked["properties"]
        required += unpacked.get("required", [])
    for more in (node.args.vararg, node.args.kwarg if unpacked is None else None):
        if more is not None:
            types.notes.append(f"*{more.arg} takes any number of arguments and was left out.")
    made: Schema = {"type": "object", "properties": properties}
    return {**made, "required": required} if required else made


def _unpacked(more: ast.arg | None, types: Types) -> Schema | None:
    """The arguments of `**more: Unpack[A]`, where A is a TypedDict of the same file."""
    match more and more.annotation:
        case ast.Subscript(value=value, slice=inside) if last_name(value) == "Unpack":
            node = types.classes.get(last_name(inside))
            return None if node is None else types.members(node)
    return None


def _hinted(name: str, hint: ast.expr | None, types: Types, told: _Told) -> Schema:
    """By its hint, else by the type that the docstring gives."""
    if hint is not None:
        return types.schema(hint)
    if name in told.types:
        return types.schema(ast.Constant(value=told.types[name]))
    types.notes.append(f"{name} has no type, so {ANYTHING}")
    return {}


def _is_given(hint: ast.expr) -> bool:
    names = {
        last_name(node) for node in ast.walk(hint) if isinstance(node, ast.Name | ast.Attribute)
    }
    return not names.isdisjoint(_GIVEN)


class _Told:
    """What a docstring says of the function and of its arguments."""

    def __init__(self, text: str) -> None:
        self.description = text[:_MOST_DOCSTRING]
        self.arguments: dict[str, str] = {}
        self.types: dict[str, str] = {}
        if not text or len(text) > _MOST_DOCSTRING:
            return
        try:
            read = docstring_parser.parse(text)
        except docstring_parser.ParseError:
            return
        if not read.params and not read.returns and not read.raises:
            return
        parts = [one for one in (read.short_description, read.long_description) if one]
        self.description = "\n\n".join(parts)
        for param in read.params:
            if param.description:
                self.arguments[param.arg_name] = param.description
            if param.type_name:
                self.types[param.arg_name] = param.type_name
