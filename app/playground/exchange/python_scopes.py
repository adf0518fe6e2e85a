"""The names of a Python file, by scope, and the functions that its expressions name."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from playground.exchange.python_functions import RUN_IT, Def
from playground.exchange.python_types import is_record, last_name

_MOST_DEEP = 20
OBJECTS = ("self", "cls")


@dataclass
class Scope:
    """The names of a module, of a function or of a class body. `bound` are assigned ones: None if
    there is more than one value. `holder` is the class around a method."""

    outer: Scope | None = None
    defs: dict[str, Def] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    bound: dict[str, ast.expr | None] = field(default_factory=dict)
    imported: dict[str, str] = field(default_factory=dict)
    holder: ast.ClassDef | None = None

    @classmethod
    def from_body(
        cls,
        body: Sequence[ast.AST],
        outer: Scope | None,
        arguments: ast.arguments | None = None,
    ) -> Scope:
        scope = cls(outer, holder=outer.holder if outer else None)
        for argument in ast.walk(arguments) if arguments is not None else ():
            if isinstance(argument, ast.arg):
                scope.bound[argument.arg] = None
        todo = [*reversed(body)]
        while todo:
            node = todo.pop()
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    scope.defs[name] = node
                    continue
                case ast.ClassDef(name=name):
                    scope.classes[name] = node
                    continue
                case ast.Import(names=names):
                    for alias in names:
                        scope.imported[(alias.asname or alias.name).partition(".")[0]] = alias.name
                case ast.ImportFrom(module=module, names=names, level=level):
                    for alias in names:
                        scope.imported[alias.asname or alias.name] = "." * level + (module or "")
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                ):
                    scope.bound[name] = None if name in scope.bound else value
            if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
                todo += reversed(list(ast.iter_child_nodes(node)))
        return scope

    def find_scope(self, name: str) -> Scope | None:
        """The scope that has `name`."""
        scope: Scope | None = self
        while scope is not None:
            if any(
                name in names for names in (scope.defs, scope.classes, scope.bound, scope.imported)
            ):
                return scope
            scope = scope.outer
        return None


@dataclass(frozen=True)
class Target:
    """A function or a model that something names; `function` is its name in the file, "" if it
    cannot be run by its name, and `by_hand` says why."""

    node: Def | ast.ClassDef
    function: str = ""
    by_hand: str = ""
    method: bool = False


class FileNames:
    """The names of one file."""

    def __init__(self, tree: ast.Module) -> None:
        self.top = Scope.from_body(tree.body, None)

    def find(self, expr: ast.expr, scope: Scope, depth: int = 0) -> Target | None:
        """The function, method or model of the file that an expression names."""
        if depth > _MOST_DEEP:
            return None
        match expr:
            case ast.Name(id=name):
                holding = scope.find_scope(name)
                if holding is None:
                    return None
                if name in holding.defs:
                    return self.target_of(holding.defs[name], holding)
                if name in holding.classes:
                    node = holding.classes[name]
                    sentence = f"It is the class {name}, not a function."
                    classes = {**self.top.classes, **holding.classes}
                    return Target(node, by_hand=sentence) if is_record(node, classes) else None
                value = holding.bound.get(name)
                if value is None:
                    return None
                target = self.find(value, holding, depth + 1)
                is_result = isinstance(value, ast.Call) and holding is self.top
                if is_result and target is not None and isinstance(target.node, Def):
                    return replace(target, function=name, by_hand="")
                return target
            case ast.Attribute(value=ast.Name(id=owner), attr=attr):
                holder: ast.ClassDef | None = scope.holder if owner in OBJECTS else None
                if holder is None:
                    holder = self.class_of(owner, scope)
                methods = Scope.from_body(holder.body, None).defs if holder is not None else {}
                if holder is None or attr not in methods:
                    return None
                return _method_target(methods[attr], holder)
            case ast.Call(func=ast.Name(id=name)):
                holding = scope.find_scope(name)
                factory = holding.defs.get(name) if holding else None
                return self.made_function(factory) if factory is not None else None
        return None

    def target_of(self, node: Def, scope: Scope) -> Target:
        """A function that is defined in `scope`."""
        holder = scope.holder
        if (
            holder is not None
            and scope.outer is not None
            and holder in scope.outer.classes.values()
        ):
            return _method_target(node, holder)
        if scope is self.top:
            return Target(node, function=node.name)
        return Target(
            node, by_hand="It is defined inside another function, so it cannot be run by its name."
        )

    def class_of(self, name: str, scope: Scope) -> ast.ClassDef | None:
        """The class of an object of the file, or the class itself."""
        holding = scope.find_scope(name)
        if holding is None:
            return None
        if name in holding.classes:
            return holding.classes[name]
        match holding.bound.get(name):
            case ast.Call(func=ast.Name(id=class_name)):
                inner = holding.find_scope(class_name)
                return inner.classes.get(class_name) if inner else None
        return None

    def made_function(self, node: Def) -> Target | None:
        """The function that a factory makes and returns, if it returns no other."""
        functions = returned_functions(node)
        if len(functions) != 1 or functions[0] is None:
            return None
        sentence = f"{node.name}() makes this function when it is called. {RUN_IT}"
        return Target(functions[0], by_hand=sentence)

    def factory_of(self, expr: ast.expr, scope: Scope) -> Def | None:
        """The function of the file that is called to make an element of a list."""
        match expr:
            case ast.Name(id=name):
                holding = scope.find_scope(name)
                value = holding.bound.get(name) if holding else None
                return self.factory_of(value, holding) if value and holding else None
            case ast.Call(func=ast.Name(id=name)):
                holding = scope.find_scope(name)
                return holding.defs.get(name) if holding else None
        return None

    def bases(self, node: ast.ClassDef) -> Iterator[str]:
        """The names of the classes that it is derived from, in this file or elsewhere."""
        for class_def in self.lineage(node):
            for base in class_def.bases:
                yield last_name(base.value if isinstance(base, ast.Subscript) else base)

    def lineage(self, node: ast.ClassDef) -> list[ast.ClassDef]:
        """A class, and those of the file that it is derived from, nearest first."""
        line = [node]
        for class_def in line:
            for base in class_def.bases:
                known = self.top.classes.get(last_name(base))
                if known is not None and known not in line:
                    line.append(known)
        return line

    def method(self, node: ast.ClassDef, name: str) -> Def | None:
        """Its method of that name, or an inherited one of this file."""
        for class_def in self.lineage(node):
            for line in class_def.body:
                if isinstance(line, Def) and line.name == name:
                    return line
        return None

    def instance_of(self, node: ast.ClassDef) -> str:
        """The name of an object of the class at the top of the file, or ""."""
        for name, value in self.top.bound.items():
            match value:
                case ast.Call(func=ast.Name(id=class_name)) if class_name == node.name:
                    return name
        return ""


def _method_target(node: Def, holder: ast.ClassDef) -> Target:
    static = any(last_name(mark) == "staticmethod" for mark in node.decorator_list)
    sentence = f"It is a method of the class {holder.name}, and needs an object. {RUN_IT}"
    return Target(node, by_hand=sentence, method=not static)


def returned_functions(node: Def) -> list[Def | None]:
    """The functions that a function makes and returns, None for one that is not known; [] if it
    returns something else."""
    scope = Scope.from_body(node.body, None)
    values = returned_values(node)
    functions = [
        scope.defs.get(value.id) if isinstance(value, ast.Name) else None for value in values
    ]
    lambdas = any(isinstance(value, ast.Lambda) for value in values)
    return list(dict.fromkeys(functions)) if any(functions) or lambdas else []


def returned_values(node: Def) -> list[ast.expr]:
    """The values that a function returns, without those of functions inside of it."""
    values: list[ast.expr] = []
    todo: list[ast.AST] = [*reversed(node.body)]
    while todo:
        line = todo.pop()
        if isinstance(line, ast.Return) and line.value is not None:
            several = line.value
            values += (
                [several.body, several.orelse] if isinstance(several, ast.IfExp) else [several]
            )
        elif not isinstance(line, Def | ast.ClassDef | ast.Lambda):
            todo += reversed(list(ast.iter_child_nodes(line)))
    return values
