"""Tools of a Python file, read from source text; nothing is run or imported."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from playground.exchange.parsers import UnreadableText
from playground.exchange.python_frameworks import marked_tools
from playground.exchange.python_functions import Def, Function, read_function, read_model
from playground.exchange.python_marks import READ_IT, types_of
from playground.exchange.python_scopes import returned_functions
from playground.exchange.python_syntax import newer_syntax
from playground.exchange.python_tree import MOST_NESTED, is_nested_deeper
from playground.exchange.python_types import Types, is_record, last_name, literal
from playground.exchange.tool_entry import ImportedTool, ToolParts, build_tool, refused_tool

KIND = "Python"
MOST_BYTES = 512 * 1024
_TOO_DEEP = "The Python is nested too deep."


@dataclass(frozen=True)
class PythonFile:
    """`functions` are its tools. `named`: the file says which of its functions are tools, and
    `others` are the rest; `handlers` are functions by the name of the tool that they answer.
    `notes` are about what could not be read, `read` are the calls that were read, by `id`."""

    functions: tuple[Function, ...] = ()
    notes: tuple[str, ...] = ()
    named: bool = False
    others: tuple[Function, ...] = ()
    handlers: Mapping[str, str] = field(default_factory=dict)
    read: frozenset[int] = frozenset()


def tools(source: str, file: str = "") -> Iterator[ImportedTool]:
    """Every tool of `source`; `file` is its absolute path, if known."""
    for function in functions(source):
        yield imported_tool(function, file)


def imported_tool(function: Function, file: str) -> ImportedTool:
    """The checked tool, answered by the function if it can be run by its name."""
    form = {"name": function.name, "function": function.function, "line": function.line}
    if function.problem:
        return refused_tool(form, KIND, function.name, function.problem)
    notes = list(function.notes)
    pieces = ToolParts(function.name, function.description, function.parameters, notes=notes)
    if function.decorator:
        notes.append(
            f"This comes from the file's text. The framework of {function.decorator} may give the"
            ' model another description or schema; "Read it with this interpreter" shows it.'
        )
    if function.by_hand:
        notes.append(function.by_hand)
    elif file.startswith("/") and function.line:
        if function.decorator:
            notes.append(
                f"Its file imports a framework (for {function.decorator}). Name an interpreter "
                "that has it."
            )
        config = {"file": file, "function": function.function}
        pieces = replace(pieces, answered_by="python", config=config)
    elif function.line:
        notes.append("To run it, name the absolute path of its file in the editor.")
    return build_tool(form, KIND, pieces)


def functions(source: str) -> list[Function]:
    """The tools of `source`. Unreadable, with the line, if it is not Python, or if all of its
    functions are methods."""
    return list(read_file(parse_module(source)).functions)


def read_file(tree: ast.Module) -> PythonFile:
    """The tools that the file names; if it names none, its public functions; without these, its
    models. Unreadable if all functions are methods."""
    marked = marked_tools(tree)
    node_ids = marked.read | marked.decorators
    types = types_of(tree)
    # Of several definitions of one name the last counts.
    definitions = {node.name: node for node in tree.body if isinstance(node, Def)}
    others = [
        _read_unmarked(node, types)
        for node in definitions.values()
        if _is_public(node) and id(node) not in node_ids
    ]
    file = PythonFile(
        marked.functions,
        marked.notes,
        marked.named,
        handlers=_handlers(tree),
        read=marked.read,
    )
    if marked.named:
        return replace(file, others=tuple(others))
    exported = _exported_names(tree)
    if exported & {function.function for function in others}:
        file = replace(file, others=tuple(x for x in others if x.function not in exported))
        others = [function for function in others if function.function in exported]
    functions = sorted([*marked.functions, *others], key=lambda function: function.line)
    if functions:
        return replace(file, functions=tuple(functions))
    models = [
        read_model(node, Types(types.classes, types.aliases))
        for node in tree.body
        if isinstance(node, ast.ClassDef) and is_record(node, types.classes)
    ]
    if not models and _has_methods(tree):
        raise UnreadableText(
            "Its functions are methods of a class, which are not supported: a tool is called "
            "without an object. Write top-level functions that call them."
        )
    return replace(file, functions=tuple(models))


def _read_unmarked(node: Def, types: Types) -> Function:
    """A function of a file that does not say which ones are tools."""
    function = read_function(node, Types(types.classes, types.aliases))
    inner_functions = returned_functions(node)
    if not inner_functions:
        return function
    names = ", ".join(inner.name if inner is not None else "a lambda" for inner in inner_functions)
    problem = (
        f"It returns a function ({names}), which is only made when {node.name}() is called."
        f" {READ_IT}"
    )
    return replace(function, problem=problem)


def _is_public(node: Def) -> bool:
    """Excludes private functions, and overload stubs for type checkers."""
    if any(last_name(mark) == "overload" for mark in node.decorator_list):
        return False
    return not node.name.startswith("_")


def _exported_names(tree: ast.Module) -> frozenset[str]:
    """The names in `__all__`."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                known, names = literal(value)
                return (
                    frozenset(map(str, names)) if known and isinstance(names, list) else frozenset()
                )
    return frozenset()


def _has_methods(tree: ast.Module) -> bool:
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    return any(isinstance(line, Def) for class_ in classes for line in class_.body)


def _handlers(tree: ast.Module) -> dict[str, str]:
    """The functions that are next to the name of a tool: `{"get_weather": weather}`, or
    `{"name": "get_weather", "handler": weather}`."""
    names = {node.name for node in tree.body if isinstance(node, Def)}
    handlers = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Dict):
            continue
        called = ""
        for key, value in zip(node.keys, node.values, strict=True):
            match key, value:
                case ast.Constant(value="name"), ast.Constant(value=str() as text):
                    called = text
                case ast.Constant(value=str() as text), ast.Name(id=name) if name in names:
                    handlers[called or text] = name
    return handlers


def parse_module(source: str) -> ast.Module:
    """The syntax tree; Unreadable, with the line, if it is not Python."""
    if len(source) > MOST_BYTES:
        raise UnreadableText(
            f"Python of more than {MOST_BYTES // 1024} kB is not supported. Split the file."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # compiler warnings about `"\d"`
            tree = ast.parse(source)
    except SyntaxError as error:
        what = "a number has too many digits" if "digits" in error.msg else error.msg
        line = error.lineno or 1
        newer = newer_syntax(source, line)
        if newer is not None:
            raise UnreadableText(newer.sentence, newer.line) from None
        raise UnreadableText(f"Line {line}: this is not valid Python: {what}.", line) from None
    except (RecursionError, MemoryError):  # deeper than this version of Python reads
        raise UnreadableText(_TOO_DEEP) from None
    except ValueError:
        raise UnreadableText(
            "The Python contains a character that is not allowed in source code."
        ) from None
    if is_nested_deeper(tree, MOST_NESTED):
        raise UnreadableText(_TOO_DEEP)
    return tree
