"""What a Python file says are its tools, in the words of agent frameworks.

Four forms are read: a decorator (`@tool`), a call that wraps a function (`FunctionTool(fn)`), a
class (`class Search(BaseTool)`) and a list (`Agent(tools=[fn])`). What is recognised but cannot be
read without running the file is reported, never left out in silence.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from playground.exchange.python_classes import ToolClasses, spec_methods
from playground.exchange.python_functions import Def, Function
from playground.exchange.python_marks import (
    DECORATORS,
    NAME_WORDS,
    READ_IT,
    MarkReader,
    ToolMark,
    short_code,
)
from playground.exchange.python_scopes import (
    OBJECTS,
    FileNames,
    Scope,
    returned_functions,
    returned_values,
)
from playground.exchange.python_tree import expression_text
from playground.exchange.python_types import last_name
from playground.exchange.python_values import has_tool

_WRAPPERS = (
    *("FunctionTool", "LongRunningFunctionTool", "AsyncFunctionTool", "StructuredTool", "Tool"),
    *("ToolDef", "Function", "convert_to_openai_tool", "convert_to_openai_function"),
    *("pydantic_function_tool", "create_tool_from_function", "function_to_schema", "add_tool"),
    *("function_to_json", "create_tool", "upsert_from_function", *DECORATORS),
)
_MAKERS = ("from_function", "from_callable", "from_func", "from_fn", "from_defaults", "from_schema")
"""Class methods of a wrapper."""
_MAKER = re.compile(r"(?:Tool|Function|Declaration)$")

_FUNCTION_WORDS = (
    *("func", "fn", "function", "callable", "coroutine", "async_fn", "entrypoint", "tool"),
    *("on_invoke_tool", "handler", "f", "func_or_tool"),
)

_LIST_CALLS = (
    *("bind_tools", "ToolNode", "from_tools", "use_tools", "add_tools", "register_tools"),
    *("create_react_agent", "create_agent", "create_tool_calling_agent", "initialize_agent"),
    *("register_tool", "add_tool", "ToolSet", "enable_auto_function_calls"),
)
"""Calls whose arguments by position are tools, or lists of them."""
_LIST_WORDS = ("tools", "functions")
_LIST_NAME = re.compile(r"(?i)(?:\w*_)?(?:tools|functions)")
_LIST_METHODS = ("append", "extend", "add", "update", "insert")

_MOST_DEEP = 20
_MOST_NOTES = 10


@dataclass(frozen=True)
class MarkedTools:
    """`functions` are the tools that the file names, in its order; `notes` are about what could not
    be read, `named` whether the file says which of its functions are tools. `read` are the calls
    and definitions that were read, and `decorators` those used as decorators, by `id`."""

    functions: tuple[Function, ...] = ()
    notes: tuple[str, ...] = ()
    named: bool = False
    read: frozenset[int] = frozenset()
    decorators: frozenset[int] = frozenset()


def marked_tools(tree: ast.Module) -> MarkedTools:
    reader = _Reader(tree)
    reader.read()
    more = len(reader.notes) - _MOST_NOTES
    notes = [*list(reader.notes)[:_MOST_NOTES], *([f"And {more} more."] if more > 0 else [])]
    functions = sorted(reader.tools, key=lambda entry: entry[0])
    return MarkedTools(
        tuple(function for _, function in functions),
        tuple(notes),
        reader.named,
        frozenset(reader.calls | reader.used),
        frozenset(reader.decorators),
    )


class _Reader:
    """One reading of a file."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.names = FileNames(tree)
        self.marks = MarkReader(tree)
        self.classes = ToolClasses(self.names, self.marks)
        self.tools: list[tuple[int, Function]] = []
        self.notes: dict[str, None] = {}
        self.named = False
        self.calls: set[int] = set()
        self.decorators: set[int] = set()
        self.used: set[int] = set()
        """Definitions that are tools already, or parts of one."""
        self._found: dict[tuple[str, int], list[Function]] = {}
        self._lists: list[tuple[ast.expr, Scope, str]] = []
        self._classes: list[tuple[ast.ClassDef, Scope]] = []

    def read(self) -> None:
        todo: list[tuple[ast.AST, Scope]] = [(self.tree, self.names.top)]
        while todo:
            node, scope = todo.pop()
            inner = scope
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._read_decorators(node, scope)
                    inner = Scope.from_body(node.body, scope, node.args)
                case ast.ClassDef():
                    self._classes.append((node, scope))
                    inner = Scope.from_body(node.body, scope)
                    inner.holder = node
                case ast.Call():
                    self._call(node, scope)
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                ):
                    if _LIST_NAME.fullmatch(name):
                        self._lists.append((value, scope, f"{name} in line {node.lineno}"))
            todo += reversed([(child, inner) for child in ast.iter_child_nodes(node)])
        # These may name what is defined further down, or what is already a tool by itself.
        for expr, scope, where in self._lists:
            self._read_list(expr, scope, where, 0)
        for class_def, scope in self._classes:
            self._class(class_def, scope)

    # -- Decorators

    def _read_decorators(self, node: Def, scope: Scope) -> None:
        for decorator in node.decorator_list:
            func = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = last_name(func)
            self.calls.add(id(decorator))
            if isinstance(func, ast.Name) and name in self.names.top.defs:
                self.decorators.add(id(self.names.top.defs[name]))
            if name not in DECORATORS or id(node) in self.used:
                continue
            self.used.add(id(node))
            if self._returns_wrapper(node):
                continue  # the call that makes the tool is read where it stands
            mark = self.marks.mark(decorator, ())
            target, inner = self.names.target_of(node, scope), self.names.made_function(node)
            if inner is not None:
                self.used.add(id(inner.node))
                function = replace(self.marks.read(inner, mark), name=mark.name or node.name)
            elif _returns_tool(node) or returned_functions(node):
                problem = f"{node.name}() makes its tool when it is called. {READ_IT}"
                function = replace(self.marks.read(target, mark), problem=problem)
            else:
                function = self.marks.read(target, mark)
            self._add(node.lineno, function, named=not self._only_names(func))

    def _only_names(self, func: ast.expr) -> bool:
        """Whether a decorator is a lambda of the file, as our own export writes it to name a tool:
        the functions beside it are tools, too."""
        return isinstance(func, ast.Name) and isinstance(
            self.names.top.bound.get(func.id), ast.Lambda
        )

    def _returns_wrapper(self, node: Def) -> bool:
        """Whether a factory returns a call that makes a tool of a function: `ToolDef(run)`, or
        `ToolDef(run).as_tool()`."""
        for value in returned_values(node):
            match value:
                case ast.Call(func=ast.Attribute(value=ast.Call() as inner), args=[]):
                    value = inner
            if isinstance(value, ast.Call) and self._is_wrapper(value):
                return True
        return False

    # -- Calls

    def _call(self, call: ast.Call, scope: Scope) -> None:
        name = last_name(call.func)
        match call.func:
            case ast.Call(func=inner) if last_name(inner) in DECORATORS and len(call.args) == 1:
                self._read_wrapper(call.func, call, call.args, scope)
                return
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        decorates = id(call) in self.calls
        if self._is_wrapper(call) and not decorates:
            words = [word.value for word in call.keywords if word.arg in _FUNCTION_WORDS]
            self._read_wrapper(call, call, [*words, *call.args], scope)
        listed = [word.value for word in call.keywords if word.arg in _LIST_WORDS]
        registers = name == "register" and owner is not None and last_name(owner) in OBJECTS
        to_list = owner is not None and _LIST_NAME.fullmatch(last_name(owner))
        if registers or name in _LIST_CALLS or (to_list and name in _LIST_METHODS):
            listed += call.args
        for expr in listed:
            if decorates or id(call) not in self.calls:
                self._lists.append((expr, scope, f"{name}() in line {call.lineno}"))

    def _is_wrapper(self, call: ast.Call) -> bool:
        name = last_name(call.func)
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        by_maker = name in _MAKERS and owner is not None and _MAKER.search(last_name(owner))
        return bool(by_maker) or name in _WRAPPERS

    def _read_wrapper(
        self, marked: ast.Call, call: ast.Call, several: Sequence[ast.expr], scope: Scope
    ) -> None:
        """A call that makes a tool of a function, or of a model."""
        targets = [(expr, self.names.find(expr, scope)) for expr in several]
        known = [(expr, target) for expr, target in targets if target is not None]
        if known:
            expr, target = known[0]
            mark = self.marks.mark(marked, [expr] if marked is call else [])
            self.used.add(id(target.node))
            self.calls.add(id(call))
            function = self.marks.read(target, mark)
            if last_name(call.func) == "Tool" and mark.schema is None and _has(call, "func"):
                note = (
                    "LangChain's Tool gives the model one text, __arg1. These are the "
                    f"parameters of {function.function}()."
                )
                function = replace(function, notes=(*function.notes, note))
            self._add(target.node.lineno, function)
            return
        words = [word.value for word in call.keywords if word.arg in _FUNCTION_WORDS]
        names = [word for word in call.keywords if word.arg in NAME_WORDS]
        if not (words and names) or marked is not call:
            return
        self.calls.add(id(call))
        mark = self.marks.mark(call, words)
        written = short_code(words[0])
        sentence = f"Its function {written} is not in this file, so it cannot be run by its name."
        function = Function(
            mark.name or written,
            function="",
            description="",
            parameters={},
            line=call.lineno,
            decorator=mark.label,
            takes=None,
            by_hand=sentence,
        )
        if mark.schema is None:
            problem = f"Its function {written} is not in this file, so its arguments are unknown."
            function = replace(function, problem=f"{problem} {READ_IT}")
        self._add(call.lineno, self.marks.with_mark(function, mark))

    # -- Lists

    def _read_list(self, expr: ast.expr, scope: Scope, where: str, depth: int) -> None:
        """Takes the tools that a list names."""
        if depth > _MOST_DEEP:
            return
        match expr:
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                for part in parts:
                    self._element(part, scope, where, depth)
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    self._entry(key, value, scope)
            case ast.Starred(value=value) | ast.Await(value=value):
                self._read_list(value, scope, where, depth + 1)
            case ast.BinOp(left=left, right=right):
                self._read_list(left, scope, where, depth + 1)
                self._read_list(right, scope, where, depth + 1)
            case ast.Name(id=name):
                holding = scope.find_scope(name)
                if holding is None:
                    return
                named = holding.bound.get(name)
                if named is not None and not isinstance(named, ast.Call):
                    self._read_list(named, holding, where, depth + 1)
                elif named is not None or name in holding.defs or name in holding.classes:
                    self._element(expr, scope, where, depth)
                elif name in holding.imported:
                    self._note_elsewhere(expr, where)
            case ast.Call(func=func, args=args) if last_name(func) in ("list", "tuple", "set"):
                for part in args[:1]:
                    self._read_list(part, scope, where, depth + 1)
            case ast.Call() | ast.Attribute(value=ast.Name(id="self" | "cls")):
                self._element(expr, scope, where, depth, alone=True)
            case ast.ListComp() if not has_tool(expr):
                self._note(f"{short_code(expr)}, which {where} names, is only known when it runs.")

    def _entry(self, key: ast.expr | None, value: ast.expr, scope: Scope) -> None:
        """Takes one function of an object of functions by name: `TOOLS = {"price": price}`."""
        target = self.names.find(value, scope)
        if target is None or id(target.node) in self.used:
            return
        self.used.add(id(target.node))
        name = key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""
        self._add(target.node.lineno, self.marks.read(target, ToolMark("", name=name)))

    def _element(
        self, expr: ast.expr, scope: Scope, where: str, depth: int, *, alone: bool = False
    ) -> None:
        """Takes one tool of a list; `alone`: the expression is the whole list."""
        if isinstance(expr, ast.Starred):
            self._read_list(expr.value, scope, where, depth + 1)
            return
        if id(expr) in self.calls:
            return
        target = self.names.find(expr, scope)
        if target is not None:
            self.named = True
            factory = self.names.factory_of(expr, scope)
            if factory is not None:
                self.used.add(id(factory))
            if id(target.node) not in self.used:
                self.used.add(id(target.node))
                self._add(target.node.lineno, self.marks.read(target, ToolMark("")))
            return
        lists = self._list_made_by(expr, scope)
        if lists is not None:
            for value, inner in lists:
                self._read_list(value, inner, where, depth + 1)
            return
        if self._is_known_elsewhere(expr, scope):
            self.named = self.named or not alone
            return
        if isinstance(expr, ast.Call) and not has_tool(expr):
            if alone and scope is not self.names.top and "()" not in where:
                return  # `tools = options.pop("tools")` is any list
            self.named = self.named or not alone
            self._note(
                f"{short_code(expr)}, which {where} names, is only known when the file runs."
            )
        elif isinstance(expr, ast.Name | ast.Attribute):
            first = expression_text(expr).partition(".")[0]
            holding = scope.find_scope(first)
            if holding is not None and first in holding.imported:
                self.named = True
                self._note_elsewhere(expr, where)

    def _is_known_elsewhere(self, expr: ast.expr, scope: Scope) -> bool:
        """Whether an element is a call that was read, a value, or an object of a tool class."""
        if id(expr) in self.calls:
            return True
        match expr:
            case ast.Name(id=name):
                holding = scope.find_scope(name)
                value = holding.bound.get(name) if holding else None
                return (
                    value is not None
                    and holding is not None
                    and (has_tool(value) or self._is_known_elsewhere(value, holding))
                )
            case ast.Call(keywords=words) if any(word.arg in _LIST_WORDS for word in words):
                return True  # a list of its own
            case ast.Call(func=ast.Name(id=name)):
                holding = scope.find_scope(name)
                node = holding.classes.get(name) if holding else None
                factory = holding.defs.get(name) if holding else None
                if factory is not None and self._returns_wrapper(factory):
                    self.used.add(id(factory))
                    return True
                return node is not None and self.classes.is_tool_class(node)
        return False

    def _list_made_by(self, expr: ast.expr, scope: Scope) -> list[tuple[ast.expr, Scope]] | None:
        """The lists that a function of the file returns."""
        match expr:
            case ast.Call(func=ast.Name(id=name)):
                holding = scope.find_scope(name)
                node = holding.defs.get(name) if holding else None
                if node is None:
                    return None
                inner = Scope.from_body(node.body, holding, node.args)
                values = returned_values(node)
                lists = [value for value in values if isinstance(value, ast.List | ast.Name)]
                return [(value, inner) for value in lists] or None
        return None

    # -- ToolClasses

    def _class(self, node: ast.ClassDef, scope: Scope) -> None:
        if not self.classes.is_tool_class(node) or has_tool(node):
            return
        methods = [line for line in node.body if isinstance(line, Def)]
        listed = spec_methods(node)
        for method in methods:
            if method.name in listed and id(method) not in self.used:
                self.used.add(id(method))
                inner = Scope.from_body(node.body, scope)
                inner.holder = node
                self._add(
                    method.lineno,
                    self.marks.read(self.names.target_of(method, inner), ToolMark("")),
                )
        if any(id(method) in self.used for method in methods) or id(node) in self.used:
            return
        members = self.classes.members(node)
        if "name" not in members and self.classes.is_base(node):
            return
        self._add(node.lineno, self.classes.read(node, members))

    # -- Results

    def _add(self, line: int, function: Function, *, named: bool = True) -> None:
        self.named = self.named or named
        alike = self._found.setdefault((function.name, function.line), [])
        if function not in alike:
            alike.append(function)
            self.tools.append((line, function))

    def _note_elsewhere(self, expr: ast.expr, where: str) -> None:
        self._note(
            f"{short_code(expr)}, which {where} names, is not defined in this file. Import the "
            "file "
            "that has it."
        )

    def _note(self, sentence: str) -> None:
        self.notes[sentence] = None


def _returns_tool(node: Def) -> bool:
    """Whether a function promises a tool, as the factories of Inspect do."""
    hint = node.returns
    if isinstance(hint, ast.Subscript):
        hint = hint.value
    if isinstance(hint, ast.Constant) and isinstance(hint.value, str):
        return hint.value in ("Tool", "ToolDef")
    return hint is not None and last_name(hint) in ("Tool", "ToolDef", "Callable")


def _has(call: ast.Call, word: str) -> bool:
    return any(keyword.arg == word for keyword in call.keywords)
