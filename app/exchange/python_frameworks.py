"""What a Python file says are its tools, in the words of agent frameworks.

Four forms are read: a decorator (`@tool`), a call that wraps a function (`FunctionTool(fn)`), a
class (`class Search(BaseTool)`) and a list (`Agent(tools=[fn])`). What is recognised but cannot be
read without running the file is reported, never left out in silence.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from app.core.late import dataclass
from app.exchange.python_functions import (
    Def,
    Function,
    read_function,
    read_model,
    with_parameters,
)
from app.exchange.python_types import Schema, TooLarge, Types, is_record, last_name
from app.exchange.python_values import Unknown, Values, has_tool
from app.exchange.tool_entry import from_openapi_schema

READ_IT = 'Use "Read it with this interpreter".'

_DECORATORS = (
    *("tool", "tool_plain", "function_tool", "beta_tool", "beta_async_tool", "kernel_function"),
    *("ai_function", "ai_callable", "register_function", "register_for_llm", "register_tool"),
)
_WRAPPERS = (
    *("FunctionTool", "LongRunningFunctionTool", "AsyncFunctionTool", "StructuredTool", "Tool"),
    *("ToolDef", "Function", "convert_to_openai_tool", "convert_to_openai_function"),
    *("pydantic_function_tool", "create_tool_from_function", "function_to_schema", "add_tool"),
    *("function_to_json", *_DECORATORS),
)
_MAKERS = ("from_function", "from_callable", "from_func", "from_fn", "from_defaults", "from_schema")
"""Class methods of a wrapper."""
_MAKER = re.compile(r"(?:Tool|Function|Declaration)$")

_FUNCTION_WORDS = (
    *("func", "fn", "function", "callable", "coroutine", "async_fn", "entrypoint", "tool"),
    *("on_invoke_tool", "handler", "f", "func_or_tool"),
)
_NAME_WORDS = ("name", "name_override", "tool_name", "name_or_callable")
_DESCRIPTION_WORDS = ("description", "description_override", "tool_description")
_SCHEMA_WORDS = (
    *("args_schema", "input_schema", "inputSchema", "input_model", "parameters", "fn_schema"),
    *("params_json_schema", "json_schema", "schema", "args_type", "inputs"),
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

_TOOL_CLASS = re.compile(r"(?:Tool|Tools|Tool[Kk]it|Toolset|ToolSpec|ToolBase)$")
_METHODS = ("forward", "_run", "_arun")
"""Methods of a tool class whose arguments are the tool's, if nothing else says them."""
_OBJECTS = ("self", "cls")

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
    functions = sorted(reader.found, key=lambda found: found[0])
    return MarkedTools(
        tuple(function for _, function in functions),
        tuple(notes),
        reader.named,
        frozenset(reader.calls | reader.used),
        frozenset(reader.decorators),
    )


def types_of(tree: ast.Module) -> Types:
    """The classes and type aliases at the top of a file."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    aliases: dict[str, ast.expr] = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                aliases[name] = _alias(value)
            case ast.AnnAssign(
                target=ast.Name(id=name), annotation=hint, value=ast.expr() as value
            ):
                if last_name(hint) == "TypeAlias":
                    aliases[name] = value
            case _ if type(node).__name__ == "TypeAlias":  # since Python 3.12
                aliases[last_name(getattr(node, "name"))] = getattr(node, "value")  # noqa: B009
    return Types(classes, aliases)


def _alias(value: ast.expr) -> ast.expr:
    """The type that an assignment defines: `NewType("City", str)` is a str."""
    match value:
        case ast.Call(func=func, args=[_, kind]) if last_name(func) == "NewType":
            return kind
        case ast.Call(func=func, args=[_, *kinds], keywords=words) if last_name(func) == "TypeVar":
            bounds = [word.value for word in words if word.arg == "bound"]
            if kinds:
                union: ast.expr = ast.Name("Union", ast.Load())
                return ast.Subscript(union, ast.Tuple(kinds, ast.Load()), ast.Load())
            return bounds[0] if bounds else ast.Name("Any", ast.Load())
    return value


def returned_functions(node: Def) -> list[Def | None]:
    """The functions that a function makes and returns, None for one that is not known; [] if it
    returns something else."""
    scope = _Scope.of(node.body, None)
    values = _returned(node)
    made = [scope.defs.get(last_name(value)) for value in values]
    lambdas = any(isinstance(value, ast.Lambda) for value in values)
    return list(dict.fromkeys(made)) if any(made) or lambdas else []


def _returned(node: Def) -> list[ast.expr]:
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


@dataclass
class _Scope:
    """The names of a module, of a function or of a class body. `bound` are assigned ones: None if
    there is more than one value. `holder` is the class around a method."""

    outer: _Scope | None = None
    defs: dict[str, Def] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    bound: dict[str, ast.expr | None] = field(default_factory=dict)
    imported: dict[str, str] = field(default_factory=dict)
    holder: ast.ClassDef | None = None

    @classmethod
    def of(
        cls,
        body: Sequence[ast.AST],
        outer: _Scope | None,
        arguments: ast.arguments | None = None,
    ) -> _Scope:
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

    def holding(self, name: str) -> _Scope | None:
        """The scope that has `name`."""
        scope: _Scope | None = self
        while scope is not None:
            if any(
                name in names for names in (scope.defs, scope.classes, scope.bound, scope.imported)
            ):
                return scope
            scope = scope.outer
        return None


@dataclass(frozen=True)
class _Target:
    """A function or a model that something names; `function` is its name in the file, "" if it
    cannot be run by its name, and `by_hand` says why."""

    node: Def | ast.ClassDef
    function: str = ""
    by_hand: str = ""
    method: bool = False


@dataclass(frozen=True)
class _Mark:
    """What a decorator or a call says of its tool. `problem` says why that is not known."""

    label: str
    name: str = ""
    description: str = ""
    schema: ast.expr | None = None
    notes: tuple[str, ...] = ()
    problem: str = ""


class _Reader:
    """One reading of a file."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.values = Values(tree)
        self.top = _Scope.of(tree.body, None)
        self.found: list[tuple[int, Function]] = []
        self.notes: dict[str, None] = {}
        self.named = False
        self.calls: set[int] = set()
        self.decorators: set[int] = set()
        self._types = types_of(tree)
        self.used: set[int] = set()
        """Definitions that are tools already, or parts of one."""
        self._lists: list[tuple[ast.expr, _Scope, str]] = []
        self._classes: list[tuple[ast.ClassDef, _Scope]] = []

    def read(self) -> None:
        todo: list[tuple[ast.AST, _Scope]] = [(self.tree, self.top)]
        while todo:
            node, scope = todo.pop()
            inner = scope
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._decorated(node, scope)
                    inner = _Scope.of(node.body, scope, node.args)
                case ast.ClassDef():
                    self._classes.append((node, scope))
                    inner = _Scope.of(node.body, scope)
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
        # These may name what stands further down, and what is a tool by itself already.
        for expr, scope, where in self._lists:
            self._listed(expr, scope, where, 0)
        for class_def, scope in self._classes:
            self._class(class_def, scope)

    # -- Decorators

    def _decorated(self, node: Def, scope: _Scope) -> None:
        for decorator in node.decorator_list:
            func = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = last_name(func)
            self.calls.add(id(decorator))
            if isinstance(func, ast.Name) and name in self.top.defs:
                self.decorators.add(id(self.top.defs[name]))
            if name not in _DECORATORS or id(node) in self.used:
                continue
            self.used.add(id(node))
            if self._returns_wrapper(node):
                continue  # the call that makes the tool is read where it stands
            mark = self._mark(decorator, ())
            target, made = self._target_of(node, scope), self._made_by(node)
            if made is not None:
                self.used.add(id(made.node))
                function = replace(self._read(made, mark), name=mark.name or node.name)
            elif _returns_tool(node) or returned_functions(node):
                problem = f"{node.name}() makes its tool when it is called. {READ_IT}"
                function = replace(self._read(target, mark), problem=problem)
            else:
                function = self._read(target, mark)
            self._add(node.lineno, function, named=not self._only_names(func))

    def _only_names(self, func: ast.expr) -> bool:
        """Whether a decorator is a lambda of the file, as our own export writes it to name a tool:
        the functions beside it are tools, too."""
        return isinstance(func, ast.Name) and isinstance(self.top.bound.get(func.id), ast.Lambda)

    def _returns_wrapper(self, node: Def) -> bool:
        """Whether a factory returns a call that makes a tool of a function: `ToolDef(run)`, or
        `ToolDef(run).as_tool()`."""
        for value in _returned(node):
            match value:
                case ast.Call(func=ast.Attribute(value=ast.Call() as inner), args=[]):
                    value = inner
            if isinstance(value, ast.Call) and self._is_wrapper(value):
                return True
        return False

    def _made_by(self, node: Def) -> _Target | None:
        """The function that a factory makes and returns, if it returns no other."""
        made = returned_functions(node)
        if len(made) != 1 or made[0] is None:
            return None
        sentence = (
            f"{node.name}() makes this function when it is called, so it cannot be run by its name."
        )
        return _Target(made[0], by_hand=sentence)

    def _target_of(self, node: Def, scope: _Scope) -> _Target:
        holder = scope.holder
        if (
            holder is not None
            and scope.outer is not None
            and holder in scope.outer.classes.values()
        ):
            static = any(last_name(mark) == "staticmethod" for mark in node.decorator_list)
            sentence = (
                f"It is a method of the class {holder.name}, so it cannot be run without an object."
            )
            return _Target(node, by_hand=sentence, method=not static)
        if scope is self.top:
            return _Target(node, function=node.name)
        return _Target(
            node, by_hand="It stands inside of another function, so it cannot be run by its name."
        )

    def _read(self, target: _Target, mark: _Mark) -> Function:
        """The tool of a function or a model, with what `mark` says of it."""
        types = self._new_types()
        if isinstance(target.node, ast.ClassDef):
            function = read_model(target.node, types)
            function = replace(function, line=target.node.lineno)
        else:
            function = read_function(target.node, types, method=target.method)
        function = replace(
            function,
            function=target.function or function.name,
            by_hand=target.by_hand,
            decorator=mark.label,
        )
        return self._with_mark(function, mark)

    def _with_mark(self, function: Function, mark: _Mark) -> Function:
        if mark.schema is not None and (texts := _texts(mark.schema)):
            return self._with_mark(_described(function, texts), replace(mark, schema=None))
        if mark.schema is not None:
            try:
                function = with_parameters(function, self._schema(mark.schema))
            except (Unknown, TooLarge, RecursionError):
                written = _short(mark.schema)
                if function.takes is not None and len(function.takes) != 1:
                    note = (
                        f"Its schema {written} is not written in this file, so its parameters are"
                        f" those of {function.function}()."
                    )
                    function = replace(function, notes=(*function.notes, note))
                else:
                    problem = f"Its schema {written} is only known when the file runs. {READ_IT}"
                    function = replace(function, problem=function.problem or problem)
        return replace(
            function,
            name=mark.name or function.name,
            description=mark.description or function.description,
            notes=(*function.notes, *mark.notes),
            problem=mark.problem or function.problem,
        )

    def _mark(self, node: ast.expr, functions: Sequence[ast.expr]) -> _Mark:
        """What a decorator or a call says. `functions` are its arguments that are the function."""
        if not isinstance(node, ast.Call):
            return _Mark(ast.unparse(node)[:60])
        words = {str(word.arg): word.value for word in node.keywords}
        given: dict[str, ast.expr] = {}
        for kind, names in (
            ("name", _NAME_WORDS),
            ("description", _DESCRIPTION_WORDS),
            ("schema", _SCHEMA_WORDS),
        ):
            known = [words[name] for name in names if name in words]
            given |= {kind: known[0]} if known and not _is_none(known[0]) else {}
        by_place = ["name", "description", "schema"]
        for argument in node.args:
            if argument in functions:
                by_place = by_place[1:] if by_place[:1] == ["name"] else by_place
            elif by_place and not isinstance(argument, ast.Starred):
                given.setdefault(by_place.pop(0), argument)
        mark = _Mark(ast.unparse(node.func)[:60], schema=given.get("schema"))
        for kind in ("name", "description"):
            if kind in given and given[kind] not in functions:
                mark = self._with_text(mark, kind, given[kind])
        return mark

    def _with_text(self, mark: _Mark, kind: str, expr: ast.expr) -> _Mark:
        try:
            text = self.values.of(expr)
        except (Unknown, TooLarge, RecursionError):
            text = None
        if isinstance(text, str):
            return replace(mark, name=text) if kind == "name" else replace(mark, description=text)
        sentence = f"Its {kind} {_short(expr)} is only known when the file runs."
        if kind == "name":
            return replace(mark, problem=f"{sentence} {READ_IT}")
        return replace(mark, notes=(*mark.notes, sentence))

    # -- Schemas

    def _schema(self, expr: ast.expr) -> Schema:
        """The parameters that an expression stands for: a model, a JSON Schema, an object of types
        by name, or of schemas by name."""
        match expr:
            case ast.Name(id=name) if name in self._types.classes:
                node = self._types.classes[name]
                if not is_record(node, self._types.classes):
                    raise Unknown(f"{name} is no model")
                members = self._new_types().members(node)
                members.pop("description", None)
                return members
            case ast.Name(id=name) if isinstance(named := self.values.names.get(name), ast.Dict):
                return self._schema(named)
            case ast.Dict(keys=keys, values=values) if not _is_plain(values):
                return self._typed(keys, values)
        return _parameters(self.values.of(expr))

    def _typed(self, keys: Sequence[ast.expr | None], values: Sequence[ast.expr]) -> Schema:
        """`{"a": float, "b": list[str]}`: all of them are needed."""
        if any(isinstance(value, ast.Dict) for value in values):
            # A schema, one part of which is not plain: say so.
            return _parameters(self.values.of(ast.Dict(list(keys), list(values))))
        types = self._new_types()
        properties = {}
        for key, value in zip(keys, values, strict=True):
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                raise Unknown("a name that is only known when the file runs")
            properties[key.value] = types.schema(value)
        if types.notes:
            raise Unknown(types.notes[0])
        return {"type": "object", "properties": properties, "required": list(properties)}

    # -- Calls

    def _call(self, call: ast.Call, scope: _Scope) -> None:
        name = last_name(call.func)
        if id(call) in self.calls:
            return  # a decorator
        match call.func:
            case ast.Call(func=inner) if last_name(inner) in _DECORATORS and len(call.args) == 1:
                self._wrapped(call.func, call, call.args, scope)
                return
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if self._is_wrapper(call):
            words = [word.value for word in call.keywords if word.arg in _FUNCTION_WORDS]
            self._wrapped(call, call, [*words, *call.args], scope)
        listed = [word.value for word in call.keywords if word.arg in _LIST_WORDS]
        registers = name == "register" and owner is not None and last_name(owner) in _OBJECTS
        if (
            registers
            or name in _LIST_CALLS
            or (
                name in _LIST_METHODS
                and owner is not None
                and _LIST_NAME.fullmatch(last_name(owner))
            )
        ):
            listed += call.args
        for expr in listed:
            if id(call) not in self.calls:
                self._lists.append((expr, scope, f"{name}() in line {call.lineno}"))

    def _is_wrapper(self, call: ast.Call) -> bool:
        name = last_name(call.func)
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        made = name in _MAKERS and owner is not None and _MAKER.search(last_name(owner))
        return bool(made) or name in _WRAPPERS

    def _wrapped(
        self, marked: ast.Call, call: ast.Call, several: Sequence[ast.expr], scope: _Scope
    ) -> None:
        """A call that makes a tool of a function, or of a model."""
        targets = [(expr, self._find(expr, scope, 0)) for expr in several]
        known = [(expr, target) for expr, target in targets if target is not None]
        if known:
            expr, target = known[0]
            mark = self._mark(marked, [expr] if marked is call else [])
            self.used.add(id(target.node))
            self.calls.add(id(call))
            function = self._read(target, mark)
            if last_name(call.func) == "Tool" and mark.schema is None and _has(call, "func"):
                note = (
                    "LangChain's Tool gives the model one text, __arg1; the parameters are those of"
                    f" {function.function}()."
                )
                function = replace(function, notes=(*function.notes, note))
            self._add(target.node.lineno, function)
            return
        words = [word.value for word in call.keywords if word.arg in _FUNCTION_WORDS]
        names = [word for word in call.keywords if word.arg in _NAME_WORDS]
        if not (words and names) or marked is not call:
            return
        self.calls.add(id(call))
        mark = self._mark(call, words)
        written = _short(words[0])
        sentence = (
            f"Its function {written} is not one of this file, so it cannot be run by its name."
        )
        function = Function(
            mark.name, "", "", {}, call.lineno, mark.label, takes=None, by_hand=sentence
        )
        if mark.schema is None:
            problem = (
                f"Its function {written} is not one of this file, so its arguments are not known."
            )
            function = replace(function, problem=f"{problem} {READ_IT}")
        self._add(call.lineno, self._with_mark(function, mark))

    # -- Lists

    def _listed(self, expr: ast.expr, scope: _Scope, where: str, depth: int) -> None:
        """Takes the tools that a list names."""
        if depth > _MOST_DEEP:
            return
        match expr:
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                for part in parts:
                    self._element(part, scope, where, depth)
            case ast.Starred(value=value) | ast.Await(value=value):
                self._listed(value, scope, where, depth + 1)
            case ast.BinOp(left=left, right=right):
                self._listed(left, scope, where, depth + 1)
                self._listed(right, scope, where, depth + 1)
            case ast.Name(id=name):
                holding = scope.holding(name)
                if holding is None:
                    return
                named = holding.bound.get(name)
                if named is not None and not isinstance(named, ast.Call):
                    self._listed(named, holding, where, depth + 1)
                elif named is not None or name in holding.defs or name in holding.classes:
                    self._element(expr, scope, where, depth)
            case ast.Call(func=func, args=args) if last_name(func) in ("list", "tuple", "set"):
                for part in args[:1]:
                    self._listed(part, scope, where, depth + 1)
            case ast.Call() | ast.Attribute(value=ast.Name(id="self" | "cls")):
                self._element(expr, scope, where, depth, alone=True)
            case ast.ListComp() if not has_tool(expr):
                self._note(f"{_short(expr)}, which {where} names, is only known when it runs.")

    def _element(
        self, expr: ast.expr, scope: _Scope, where: str, depth: int, *, alone: bool = False
    ) -> None:
        """Takes one tool of a list; `alone`: it stands for the whole list."""
        if isinstance(expr, ast.Starred):
            self._listed(expr.value, scope, where, depth + 1)
            return
        if id(expr) in self.calls:
            return
        target = self._find(expr, scope, 0)
        if target is not None:
            self.named = True
            factory = self._factory_of(expr, scope)
            if factory is not None:
                self.used.add(id(factory))
            if id(target.node) not in self.used:
                self.used.add(id(target.node))
                self._add(target.node.lineno, self._read(target, _Mark("")))
            return
        made = self._list_made_by(expr, scope)
        if made is not None:
            for value, inner in made:
                self._listed(value, inner, where, depth + 1)
            return
        if self._is_known_elsewhere(expr, scope):
            self.named = self.named or not alone
            return
        if isinstance(expr, ast.Call) and not has_tool(expr):
            self.named = self.named or not alone
            self._note(f"{_short(expr)}, which {where} names, is only known when the file runs.")
        elif isinstance(expr, ast.Name | ast.Attribute):
            first = expr
            while isinstance(first, ast.Attribute):
                first = first.value  # type: ignore[assignment]
            holding = scope.holding(last_name(first))
            if holding is not None and last_name(first) in holding.imported:
                self.named = True
                self._note(
                    f"{_short(expr)}, which {where} names, is not defined in this file; import the"
                    " file that has it."
                )

    def _factory_of(self, expr: ast.expr, scope: _Scope) -> Def | None:
        """The function of the file that is called to make an element of a list."""
        match expr:
            case ast.Name(id=name):
                holding = scope.holding(name)
                value = holding.bound.get(name) if holding else None
                return self._factory_of(value, holding) if value and holding else None
            case ast.Call(func=ast.Name(id=name)):
                holding = scope.holding(name)
                return holding.defs.get(name) if holding else None
        return None

    def _is_known_elsewhere(self, expr: ast.expr, scope: _Scope) -> bool:
        """Whether an element is a call that was read, a value, or an object of a tool class."""
        if id(expr) in self.calls:
            return True
        match expr:
            case ast.Name(id=name):
                holding = scope.holding(name)
                value = holding.bound.get(name) if holding else None
                return (
                    value is not None
                    and holding is not None
                    and (has_tool(value) or self._is_known_elsewhere(value, holding))
                )
            case ast.Call(keywords=words) if any(word.arg in _LIST_WORDS for word in words):
                return True  # a list of its own
            case ast.Call(func=ast.Name(id=name)):
                holding = scope.holding(name)
                node = holding.classes.get(name) if holding else None
                factory = holding.defs.get(name) if holding else None
                if factory is not None and self._returns_wrapper(factory):
                    self.used.add(id(factory))
                    return True
                return node is not None and self._is_tool_class(node)
        return False

    def _list_made_by(self, expr: ast.expr, scope: _Scope) -> list[tuple[ast.expr, _Scope]] | None:
        """The lists that a function of the file returns."""
        match expr:
            case ast.Call(func=ast.Name(id=name)):
                holding = scope.holding(name)
                node = holding.defs.get(name) if holding else None
                if node is None:
                    return None
                inner = _Scope.of(node.body, holding, node.args)
                values = _returned(node)
                lists = [value for value in values if isinstance(value, ast.List | ast.Name)]
                return [(value, inner) for value in lists] or None
        return None

    def _find(self, expr: ast.expr, scope: _Scope, depth: int) -> _Target | None:
        """The function, method or model of the file that an expression stands for."""
        if depth > _MOST_DEEP:
            return None
        match expr:
            case ast.Name(id=name):
                holding = scope.holding(name)
                if holding is None:
                    return None
                if name in holding.defs:
                    return self._target_of(holding.defs[name], holding)
                if name in holding.classes:
                    node = holding.classes[name]
                    sentence = f"It is the class {name}, not a function."
                    classes = {**self._types.classes, **holding.classes}
                    return _Target(node, by_hand=sentence) if is_record(node, classes) else None
                value = holding.bound.get(name)
                if value is None or id(value) in self.calls:
                    return None
                target = self._find(value, holding, depth + 1)
                made = isinstance(value, ast.Call) and holding is self.top
                if made and target is not None and isinstance(target.node, Def):
                    return replace(target, function=name, by_hand="")
                return target
            case ast.Attribute(value=ast.Name(id=owner), attr=attr):
                holder: ast.ClassDef | None = scope.holder if owner in _OBJECTS else None
                if holder is None:
                    holder = self._class_of(owner, scope)
                inner = _Scope.of(holder.body, self.top) if holder is not None else None
                if inner is None or holder is None or attr not in inner.defs:
                    return None
                inner.holder = holder
                sentence = (
                    f"It is a method of the class {holder.name}, so it cannot be run without an"
                    " object."
                )
                node_ = inner.defs[attr]
                static = any(last_name(mark) == "staticmethod" for mark in node_.decorator_list)
                return _Target(node_, by_hand=sentence, method=not static)
            case ast.Call(func=ast.Name(id=name)):
                holding = scope.holding(name)
                factory = holding.defs.get(name) if holding else None
                return self._made_by(factory) if factory is not None else None
        return None

    def _class_of(self, name: str, scope: _Scope) -> ast.ClassDef | None:
        """The class of an object of the file, or the class itself."""
        holding = scope.holding(name)
        if holding is None:
            return None
        if name in holding.classes:
            return holding.classes[name]
        match holding.bound.get(name):
            case ast.Call(func=ast.Name(id=made)):
                inner = holding.holding(made)
                return inner.classes.get(made) if inner else None
        return None

    # -- Classes

    def _is_tool_class(self, node: ast.ClassDef) -> bool:
        return any(_TOOL_CLASS.search(base) for base in self._bases(node))

    def _bases(self, node: ast.ClassDef) -> Iterator[str]:
        for class_def in self._line(node):
            for base in class_def.bases:
                yield last_name(base.value if isinstance(base, ast.Subscript) else base)

    def _line(self, node: ast.ClassDef) -> list[ast.ClassDef]:
        """A class, and those of the file that it is derived from, nearest first."""
        line = [node]
        for class_def in line:
            for base in class_def.bases:
                known = self.top.classes.get(last_name(base))
                if known is not None and known not in line:
                    line.append(known)
        return line

    def _class(self, node: ast.ClassDef, scope: _Scope) -> None:
        if not self._is_tool_class(node) or has_tool(node):
            return
        methods = [line for line in node.body if isinstance(line, Def)]
        listed = self._spec_methods(node)
        for method in methods:
            if method.name in listed and id(method) not in self.used:
                self.used.add(id(method))
                inner = _Scope.of(node.body, scope)
                inner.holder = node
                self._add(method.lineno, self._read(self._target_of(method, inner), _Mark("")))
        if any(id(method) in self.used for method in methods) or id(node) in self.used:
            return
        derived = (base for other in self.top.classes.values() for base in other.bases)
        members = self._members(node)
        if "name" not in members and any(last_name(base) == node.name for base in derived):
            return  # what its own tools are derived from
        self._add(node.lineno, self._class_tool(node, scope, members))

    def _spec_methods(self, node: ast.ClassDef) -> list[str]:
        """The methods that llama-index's `spec_functions` lists."""
        for line in node.body:
            match line:
                case (
                    ast.Assign(targets=[ast.Name(id="spec_functions")], value=value)
                    | ast.AnnAssign(target=ast.Name(id="spec_functions"), value=ast.expr() as value)
                ):
                    parts = value.elts if isinstance(value, ast.List | ast.Tuple) else []
                    # A pair is a function, and the same for asynchronous use.
                    names = [
                        part.elts[0] if isinstance(part, ast.Tuple) else part for part in parts
                    ]
                    return [str(part.value) for part in names if isinstance(part, ast.Constant)]
        return []

    def _members(self, node: ast.ClassDef) -> dict[str, ast.expr]:
        """What a tool class says of itself: in its body, in its properties, and to the constructor
        of its framework's class."""
        members: dict[str, ast.expr] = {}
        for class_def in reversed(self._line(node)):
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
                if isinstance(decorator, ast.Call) and last_name(decorator.func) in _DECORATORS:
                    members |= {"name": decorator.args[0]} if decorator.args else {}
        return members

    def _class_tool(
        self, node: ast.ClassDef, scope: _Scope, members: Mapping[str, ast.expr]
    ) -> Function:
        instance = self._instance_of(node)
        run = next((name for name in _METHODS if self._method(node, name)), "")
        by_hand = f"It is the class {node.name}, which its framework runs."
        if instance and run == "forward":
            by_hand = ""
        empty = Function(
            node.name,
            instance or node.name,
            "",
            {},
            node.lineno,
            next(self._bases(node), ""),
            by_hand=by_hand,
        )
        if "name" not in members and self._runs_on_its_members(node):
            read = self._read(_Target(node, by_hand=by_hand), _Mark(node.name))
            return replace(read, name=node.name)
        texts = {}
        for kind in ("name", "description"):
            try:
                texts[kind] = self.values.of(members[kind]) if kind in members else ""
            except (Unknown, RecursionError):
                problem = (
                    f"The class {node.name} was not read: its {kind} {_short(members[kind])} is"
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
        schema = next((members[word] for word in _SCHEMA_WORDS if word in members), None)
        method = self._method(node, run)
        if method is not None:
            target = _Target(method, by_hand=by_hand or " ", method=True)
            read = self._read(target, _Mark(node.name))
            function = replace(
                function,
                parameters=read.parameters,
                notes=read.notes,
                problem=read.problem,
                takes=read.takes,
                needs=read.needs,
            )
        if schema is not None and not _is_none(schema):
            try:
                return with_parameters(function, self._schema(schema))
            except (Unknown, TooLarge, RecursionError):
                sentence = f"its schema {_short(schema)} is not written in this file"
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
        run = self._method(node, "run")
        return run is not None and len(run.args.args) == 1 and run.args.kwarg is None

    def _method(self, node: ast.ClassDef, name: str) -> Def | None:
        for class_def in self._line(node):
            for line in class_def.body:
                if isinstance(line, Def) and line.name == name:
                    return line
        return None

    def _instance_of(self, node: ast.ClassDef) -> str:
        """The name of an object of the class at the top of the file, or ""."""
        for name, value in self.top.bound.items():
            match value:
                case ast.Call(func=ast.Name(id=made)) if made == node.name:
                    return name
        return ""

    # -- Results

    def _new_types(self) -> Types:
        return Types(self._types.classes, self._types.aliases)

    def _add(self, line: int, function: Function, *, named: bool = True) -> None:
        self.named = self.named or named
        if not any(function == other for _, other in self.found):
            self.found.append((line, function))

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


def _parameters(value: Any) -> Schema:
    """The parameters of a JSON value: a schema, or schemas by name."""
    if isinstance(value, list) and all(
        isinstance(inner, Mapping) and isinstance(inner.get("name"), str) for inner in value
    ):
        value = {inner["name"]: {"required": False, **inner} for inner in value}
        for inner in value.values():
            del inner["name"]
    if not isinstance(value, Mapping):
        raise Unknown("no object")
    if isinstance(value.get("json"), Mapping):
        return _parameters(value["json"])
    if value.get("type") == "object" or "properties" in value or not value:
        return {"type": "object", "properties": {}, **value}
    if not all(isinstance(inner, Mapping) for inner in value.values()):
        raise Unknown("no schema")
    needed = [name for name, inner in value.items() if not _is_optional(inner)]
    properties = {name: _property(inner) for name, inner in value.items()}
    return {"type": "object", "properties": properties, "required": needed}


def _texts(schema: ast.expr) -> dict[str, str]:
    """`{"a": "What a is."}`: texts by argument, which are no schema; {} for anything else."""
    match schema:
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            texts = {
                key.value: value.value
                for key, value in pairs
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant)
                if isinstance(key.value, str) and isinstance(value.value, str)
            }
            return texts if len(texts) == len(keys) and "type" not in texts else {}
    return {}


def _described(function: Function, texts: Mapping[str, str]) -> Function:
    properties = function.parameters.get("properties", {})
    described = {
        name: {**schema, "description": texts[name]} if name in texts else schema
        for name, schema in properties.items()
    }
    return replace(function, parameters={**function.parameters, "properties": described})


def _is_optional(schema: Mapping[str, Any]) -> bool:
    return schema.get("nullable") is True or schema.get("required") is False or "default" in schema


def _property(schema: Mapping[str, Any]) -> Schema:
    """One of the schemas by name: `nullable` as in OpenAPI, "any" for any value."""
    anything = ("type", "nullable") if schema.get("type") == "any" else ()
    plain = {
        key: value
        for key, value in schema.items()
        if key not in anything and not (key == "required" and isinstance(value, bool))
    }
    converted: Schema = from_openapi_schema(plain)
    return converted


def _is_plain(values: Sequence[ast.expr]) -> bool:
    """Whether the values of an object are those of JSON, not types."""
    plain = (ast.Constant, ast.Dict, ast.List, ast.JoinedStr)
    return all(
        isinstance(value, plain) and not (isinstance(value, ast.Constant) and value.value is None)
        for value in values
    )


def _is_none(expr: ast.expr) -> bool:
    return isinstance(expr, ast.Constant) and expr.value is None


def _has(call: ast.Call, word: str) -> bool:
    return any(keyword.arg == word for keyword in call.keywords)


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


def _short(expr: ast.expr) -> str:
    written = " ".join(ast.unparse(expr).split())
    return written if len(written) <= 60 else f"{written[:59]}…"
