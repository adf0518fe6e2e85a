"""ToolClasses that are tools of an agent framework: `class Search(BaseTool)`."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import replace

from playground.exchange.python_functions import RUN_IT, Def, Function, with_parameters
from playground.exchange.python_marks import (
    DECORATORS,
    READ_IT,
    SCHEMA_WORDS,
    MarkReader,
    ToolMark,
    is_none,
    short_code,
)
from playground.exchange.python_scopes import FileNames, Target
from playground.exchange.python_types import TypesTooLarge, last_name
from playground.exchange.python_values import UnknownValue, class_members, set_members

_TOOL_CLASS = re.compile(r"(?:Tool|Tools|Tool[Kk]it|Toolset|ToolSpec|ToolBase|ToolMessage)$")
_METHODS = ("forward", "_run", "_arun")
"""Methods of a tool class whose arguments are the tool's, if nothing else says them."""


class ToolClasses:
    """The tool classes of one file."""

    def __init__(self, names: FileNames, marks: MarkReader) -> None:
        self.names = names
        self.marks = marks

    def is_tool_class(self, node: ast.ClassDef) -> bool:
        """By the name of a base class, or by a decorator."""
        decorators = (
            mark.func if isinstance(mark, ast.Call) else mark for mark in node.decorator_list
        )
        return any(_TOOL_CLASS.search(base) for base in self.names.bases(node)) or any(
            last_name(decorator) in DECORATORS for decorator in decorators
        )

    def members(self, node: ast.ClassDef) -> dict[str, ast.expr]:
        """What a tool class says of itself, or its base classes in the file."""
        members: dict[str, ast.expr] = {}
        for class_def in reversed(self.names.lineage(node)):
            members |= class_members(class_def)
            for decorator in class_def.decorator_list:
                if isinstance(decorator, ast.Call) and last_name(decorator.func) in DECORATORS:
                    members |= {"name": decorator.args[0]} if decorator.args else {}
        return members

    def is_base(self, node: ast.ClassDef) -> bool:
        """Whether it is what tool classes are derived from, and no tool itself."""
        abstract = any(
            last_name(mark) == "abstractmethod"
            for line in node.body
            if isinstance(line, Def)
            for mark in line.decorator_list
        )
        others = self.names.top.classes.values()
        derived = any(last_name(base) == node.name for other in others for base in other.bases)
        return abstract or "ABC" in map(last_name, node.bases) or derived

    def read(self, node: ast.ClassDef, members: Mapping[str, ast.expr]) -> Function:
        """The tool that a class is. `members` are what it says of itself."""
        instance = self.names.instance_of(node)
        run = next((name for name in _METHODS if self.names.method(node, name)), "")
        runs = instance and run == "forward"
        by_hand = f"It is the class {node.name}, which its framework runs. {RUN_IT}"
        base = next(self.names.bases(node), "")
        function = Function(
            *(
                node.name,
                instance or node.name,
                ast.get_docstring(node) or "",
                {},
                node.lineno,
                base,
            ),
            by_hand="" if runs else by_hand,
        )
        if "name" not in members:
            if self._runs_on_its_members(node):
                read = self.marks.read(Target(node, by_hand=by_hand), ToolMark(base))
                return replace(read, name=node.name)
            return _refuse(function, node, "it has no name")
        for kind in ("name", "description"):
            if kind in members:
                function = self._with_text(function, node, kind, members[kind])
        return function if function.problem else self._with_schema(function, node, run, members)

    def _with_text(
        self, function: Function, node: ast.ClassDef, kind: str, expr: ast.expr
    ) -> Function:
        try:
            text = self.marks.values.evaluate(expr)
        except (UnknownValue, TypesTooLarge):
            text = None
        if kind == "name":
            if isinstance(text, str) and text:
                return replace(function, name=text)
            return _refuse(
                function, node, f"its name {short_code(expr)} is only known when the file runs"
            )
        notes = [*function.notes]
        if not isinstance(text, str):
            notes.append(f"Its description {short_code(expr)} is only known when the file runs.")
        elif any(kind in set_members(class_def) for class_def in self.names.lineage(node)):
            notes.append("Its description may differ, because its __init__ sets it.")
        description = text if isinstance(text, str) and text else function.description
        return replace(function, description=description, notes=tuple(notes))

    def _with_schema(
        self, function: Function, node: ast.ClassDef, run: str, members: Mapping[str, ast.expr]
    ) -> Function:
        """With the schema that the class names, else with the arguments of its method."""
        method = self.names.method(node, run)
        if method is not None:
            target = Target(method, by_hand=function.by_hand or " ", method=True)
            read = self.marks.read(target, ToolMark(node.name))
            function = replace(
                function,
                parameters=read.parameters,
                notes=(*function.notes, *read.notes),
                problem=read.problem,
                takes=read.takes,
                needs=read.needs,
            )
        schema = next((members[word] for word in SCHEMA_WORDS if word in members), None)
        if schema is None or is_none(schema):
            if method is None:
                return _refuse(
                    function, node, "it has neither a schema nor a method forward or _run"
                )
            return function
        try:
            return with_parameters(function, self.marks.schema(schema))
        except (UnknownValue, TypesTooLarge):
            sentence = f"its schema {short_code(schema)} is not written in this file"
        if method is None:
            return _refuse(function, node, sentence)
        note = f"The parameters are those of {run}(): {sentence}."
        return replace(function, notes=(*function.notes, note))

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


def _refuse(function: Function, node: ast.ClassDef, why: str) -> Function:
    return replace(function, problem=f"The class {node.name} was not read: {why}. {READ_IT}")
