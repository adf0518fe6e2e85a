"""One Python function, or one model, as a tool: its arguments, and its docstring."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import docstring_parser

from playground.exchange.python_types import (
    OpenType,
    Schema,
    Types,
    TypesTooLarge,
    has_default,
    last_name,
)

RUN_IT = 'To run it, use "Read it with this interpreter".'
_MOST_DOCSTRING = 20_000

_GIVEN = (
    *("Context", "RunContext", "RunContextWrapper", "ToolContext", "RunnableConfig"),
    *("ToolRuntime", "InjectedState", "InjectedStore", "InjectedToolArg", "InjectedToolCallId"),
    *("CallbackManagerForToolRun", "AsyncCallbackManagerForToolRun", "CancellationToken"),
    *("InvocationContext", "Kernel", "KernelArguments", "Agent", "Team"),
)
"""Types of arguments that a framework provides, not the model."""
_GIVEN_NAMES = ("ctx", "run_context", "run_manager", "cancellation_token")
"""Names of such arguments, where they have no type."""
_ALWAYS_GIVEN = ("context_variables", "tool_context")
"""Names of such arguments, whatever their type."""
_GIVEN_DEFAULTS = ("Depends", "Inject", "CurrentContext", "ToolArgument")
"""Defaults that a framework replaces."""

Def = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Function:
    """One function as a tool. `function` is its name in the file, `name` that of the tool;
    `decorator` the one that makes it a tool elsewhere, or ""; `line` is from 1, and 0 for a model.
    `problem` says why it cannot be a tool, `by_hand` why it is one that cannot be run by its name.
    `takes` are the names of its arguments, None for any; `needs` those without a default."""

    name: str
    function: str
    description: str
    parameters: Schema
    line: int
    decorator: str = ""
    notes: tuple[str, ...] = ()
    problem: str = ""
    by_hand: str = ""
    takes: frozenset[str] | None = None
    needs: frozenset[str] = frozenset()


def read_function(node: Def, types: Types, *, method: bool = False) -> Function:
    """The function alone, without what its decorators say. Of a method the first argument
    is the object."""
    documented = _Docstring(ast.get_docstring(node) or "")
    unread = Function(node.name, node.name, documented.description, {}, node.lineno)
    types.aliases = {**types.aliases, **_type_parameters(node)}
    try:
        parameters = _arguments(node, types, documented, method=method)
    except TypesTooLarge as error:
        return replace(unread, problem=str(error))
    problem = ""
    if [*node.args.posonlyargs][int(method) :]:
        problem = "It has positional-only arguments, but a tool is called with argument names."
    open_ended = node.args.kwarg is not None
    return replace(
        unread,
        parameters=parameters,
        notes=tuple(dict.fromkeys(types.notes)),
        problem=problem,
        takes=None if open_ended else frozenset(parameters["properties"]),
        needs=frozenset(parameters.get("required", ())),
    )


def read_model(node: ast.ClassDef, types: Types) -> Function:
    """A class with typed members: its members are the arguments."""
    try:
        parameters = types.members(node)
    except TypesTooLarge as error:
        return Function(node.name, "", "", {}, 0, problem=str(error))
    description = str(parameters.pop("description", ""))
    notes = tuple(dict.fromkeys(types.notes))
    return Function(node.name, "", description, parameters, 0, notes=notes)


def with_parameters(function: Function, parameters: Mapping[str, Any]) -> Function:
    """`function` with a schema that is written elsewhere. It cannot be run by its name if it does
    not take these arguments: its framework hands them over in another way."""
    notes = tuple(note for note in function.notes if not isinstance(note, OpenType))
    changed = replace(function, parameters=dict(parameters), notes=notes)
    properties = parameters.get("properties")
    names = frozenset(properties if isinstance(properties, Mapping) else ())
    extra = frozenset() if function.takes is None else names - function.takes
    if function.by_hand or not (extra or function.needs - names):
        return changed
    own = ", ".join(sorted(function.takes or function.needs)) or "no arguments"
    sentence = (
        f"{function.function}() takes {own}, not the tool's arguments: its framework converts "
        f"them. {RUN_IT}"
    )
    return replace(changed, by_hand=sentence)


def _type_parameters(node: Def) -> dict[str, ast.expr]:
    """`def f[T: (int, str)]`, since Python 3.12: what T may be."""
    parameters: dict[str, ast.expr] = {}
    for parameter in getattr(node, "type_params", ()):
        bound = getattr(parameter, "bound", None) or ast.Name("Any", ast.Load())
        if isinstance(bound, ast.Tuple):
            bound = ast.Subscript(ast.Name("Union", ast.Load()), bound, ast.Load())
        parameters[parameter.name] = bound
    return parameters


def _arguments(node: Def, types: Types, docstring: _Docstring, *, method: bool) -> Schema:
    properties: dict[str, Schema] = {}
    required = []
    plain = [*node.args.posonlyargs, *node.args.args]
    none: list[ast.expr | None] = [None] * (len(plain) - len(node.args.defaults))
    pairs = [*zip(plain, [*none, *node.args.defaults], strict=True)][int(method) :]
    pairs += [*zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
    for argument, default in pairs:
        name, hint = argument.arg, argument.annotation
        if _is_given(name, hint, default, types):
            types.notes.append(f"{name} is filled in by the framework and was left out.")
            continue
        schema = _argument_schema(name, hint, types, docstring)
        schema = types.with_default(schema, default)
        if name in docstring.arguments and "description" not in schema:
            schema = {**schema, "description": docstring.arguments[name]}
        properties[name] = schema
        required += [] if has_default(default) else [name]
    unpacked = _keyword_schema(node.args.kwarg, types)
    if unpacked is not None:
        properties |= unpacked["properties"]
        required += unpacked.get("required", [])
    for more in (node.args.vararg, node.args.kwarg if unpacked is None else None):
        if more is not None:
            types.notes.append(f"*{more.arg} takes any number of arguments and was left out.")
    parameters_schema: Schema = {"type": "object", "properties": properties}
    return {**parameters_schema, "required": required} if required else parameters_schema


def _keyword_schema(more: ast.arg | None, types: Types) -> Schema | None:
    """The arguments of `**more: Unpack[A]`, if A is a TypedDict of the same file."""
    match more and more.annotation:
        case ast.Subscript(value=value, slice=inside) if last_name(value) == "Unpack":
            node = types.classes.get(last_name(inside))
            return None if node is None else types.members(node)
    return None


def _argument_schema(
    name: str, hint: ast.expr | None, types: Types, docstring: _Docstring
) -> Schema:
    """By its hint, else by the type in the docstring."""
    if hint is not None:
        return types.schema(hint)
    if name in docstring.types:
        return types.schema(ast.Constant(value=docstring.types[name]))
    types.notes.append(OpenType(f"{name} has no type"))
    return {}


def _is_given(name: str, hint: ast.expr | None, default: ast.expr | None, types: Types) -> bool:
    """Whether a framework fills an argument in."""
    match default:
        case ast.Call(func=func) if last_name(func) in _GIVEN_DEFAULTS:
            return True
    if name in _ALWAYS_GIVEN or hint is None:
        return name in (*_ALWAYS_GIVEN, *_GIVEN_NAMES)
    if isinstance(hint, ast.Constant) and isinstance(hint.value, str):
        return hint.value in _GIVEN and hint.value not in types.classes
    names = {
        last_name(node) for node in ast.walk(hint) if isinstance(node, ast.Name | ast.Attribute)
    }
    return not (names - types.classes.keys()).isdisjoint(_GIVEN)


class _Docstring:
    """The description of the function and of its arguments in a docstring."""

    def __init__(self, text: str) -> None:
        self.description = text[:_MOST_DOCSTRING]
        self.arguments: dict[str, str] = {}
        self.types: dict[str, str] = {}
        if not text or len(text) > _MOST_DOCSTRING:
            return
        try:
            read = docstring_parser.parse(text)
        except (docstring_parser.ParseError, LookupError):  # raised for ": :"
            return
        if not read.params and not read.returns and not read.raises:
            return
        parts = [
            paragraph for paragraph in (read.short_description, read.long_description) if paragraph
        ]
        self.description = "\n\n".join(parts)
        for param in read.params:
            if param.description:
                self.arguments[param.arg_name] = param.description
            if param.type_name:
                self.types[param.arg_name] = param.type_name
