"""ToolClasses that are tools of an agent framework: `class Search(BaseTool)`."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import replace

from app.exchange.python_functions import RUN_IT, Def, Function, with_parameters
from app.exchange.python_marks import (
    DECORATORS,
    READ_IT,
    SCHEMA_WORDS,
    MarkReader,
    ToolMark,
    is_none,
    short,
)
from app.exchange.python_scopes import FileNames, Target
from app.exchange.python_types import TooLarge, last_name
from app.exchange.python_values import Unknown

_TOOL_CLASS = re.compile(r"(?:Tool|Tools|Tool[Kk]it|Toolset|ToolSpec|ToolBase)$")
_METHODS = ("forward", "_run", "_arun")
"""Methods of a tool class whose arguments are the tool's, if nothing else says them."""


class ToolClasses:
    """The tool classes of one file."""

    def __init__(self, names: FileNames, marks: MarkReader) -> None:
        self.names = names
        self.marks = marks

    def is_tool_class(self, node: ast.ClassDef) -> bool:
        return any(_TOOL_CLASS.search(base) for base in self.names.bases(node))

    def members(self, node: ast.ClassDef) -> dict[str, ast.expr]:
        """What a tool class says of itself: in its body, in its properties, and to the constructor
        of its framework's class."""
        members: dict[str, ast.expr] = {}
        for class_def in reversed(self.names.line(node)):
            for line in class_def.body:
                match line:
                    case (
                        ast.Assign(targets=[ast.Name(id=name)], value=value)
                        | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                    ):
                        members[name] = _default_of(value)
                    case ast.FunctionDef(name="__init__"):
                        members |= _given_to_super(line)
                    case ast.FunctionDef(
                        name=name, body=[*_, ast.Return(value=ast.expr() as value)]
                    ):
                        marks = {last_name(mark) for mark in line.decorator_list}
                        if marks & {"property", "cached_property"}:
                            members[name] = value
            for decorator in class_def.decorator_list:
                if isinstance(decorator, ast.Call) and last_name(decorator.func) in DECORATORS:
                    members |= {"name": decorator.args[0]} if decorator.args else {}
        return members

    def read(self, node: ast.ClassDef, members: Mapping[str, ast.expr]) -> Function:
        instance = self.names.instance_of(node)
        run = next((name for name in _METHODS if self.names.method(node, name)), "")
        by_hand = f"It is the class {node.name}, which its framework runs. {RUN_IT}"
        if instance and run == "forward":
            by_hand = ""
        empty = Function(
            node.name,
            instance or node.name,
            "",
            {},
            node.lineno,
            next(self.names.bases(node), ""),
            by_hand=by_hand,
        )
        if "name" not in members and self._runs_on_its_members(node):
            read = self.marks.read(Target(node, by_hand=by_hand), ToolMark(node.name))
            return replace(read, name=node.name)
        texts = {}
        for kind in ("name", "description"):
            try:
                texts[kind] = self.marks.values.of(members[kind]) if kind in members else ""
            except (Unknown, RecursionError):
                problem = (
                    f"The class {node.name} was not read: its {kind} {short(members[kind])} is"
                    f" only known when the file runs. {READ_IT}"
                )
                return replace(empty, problem=problem)
        name = texts["name"] if isinstance(texts["name"], str) else ""
        description = texts["description"] if isinstance(texts["description"], str) else ""
        description = description or ast.get_docstring(node) or ""
        function = replace(empty, name=name or node.name, description=description)
        if not name:
            problem = f"The class {node.name} was not read: it has no name. {READ_IT}"
            return replace(function, problem=problem)
        schema = next((members[word] for word in SCHEMA_WORDS if word in members), None)
        method = self.names.method(node, run)
        if method is not None:
            target = Target(method, by_hand=by_hand or " ", method=True)
            read = self.marks.read(target, ToolMark(node.name))
            function = replace(
                function,
                parameters=read.parameters,
                notes=read.notes,
                problem=read.problem,
                takes=read.takes,
                needs=read.needs,
            )
        if schema is not None and not is_none(schema):
            try:
                return with_parameters(function, self.marks.schema(schema))
            except (Unknown, TooLarge, RecursionError):
                sentence = f"its schema {short(schema)} is not written in this file"
                if method is None:
                    problem = f"The class {node.name} was not read: {sentence}. {READ_IT}"
                    return replace(function, problem=problem)
                note = f"The parameters are those of {run}(): {sentence}."
                return replace(function, notes=(*function.notes, note))
        if method is None:
            problem = (
                f"The class {node.name} was not read: it has neither a schema nor a method forward"
                f" or _run. {READ_IT}"
            )
            return replace(function, problem=problem)
        return function

    def _runs_on_its_members(self, node: ast.ClassDef) -> bool:
        """Agency Swarm: the arguments are the typed members, and `run` takes none."""
        run = self.names.method(node, "run")
        return run is not None and len(run.args.args) == 1 and run.args.kwarg is None


def spec_methods(node: ast.ClassDef) -> list[str]:
    """The methods that llama-index's `spec_functions` lists."""
    for line in node.body:
        match line:
            case (
                ast.Assign(targets=[ast.Name(id="spec_functions")], value=value)
                | ast.AnnAssign(target=ast.Name(id="spec_functions"), value=ast.expr() as value)
            ):
                parts = value.elts if isinstance(value, ast.List | ast.Tuple) else []
                # A pair is a function, and the same for asynchronous use.
                names = [part.elts[0] if isinstance(part, ast.Tuple) else part for part in parts]
                return [str(part.value) for part in names if isinstance(part, ast.Constant)]
    return []


def _default_of(value: ast.expr) -> ast.expr:
    """The default that `Field(default=...)` gives."""
    match value:
        case ast.Call(func=func, args=args, keywords=words) if last_name(func) == "Field":
            defaults = [*args[:1], *(word.value for word in words if word.arg == "default")]
            return defaults[0] if defaults else value
    return value


def _given_to_super(node: Def) -> dict[str, ast.expr]:
    """What a constructor hands to the one of its base class by name."""
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
