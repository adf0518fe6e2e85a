"""Prints how the code is built: files, lines, circles, names, calls, the longest functions.

    python -m bench.structure

tests/test_house.py checks the layers; this shows the rest of what docs/architecture.md promises.
Exits with 1 where a promise is broken. Every .py file of the package counts; the number of
`__init__.py` files that have only a docstring is printed.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).resolve().parent.parent
MOST_POSITIONAL = 5
VARIADIC = frozenset({"datetime", "print", "syscall", "to_thread", "run_cli", "zip"})
"""Callables from elsewhere, or given as values, that take any number of arguments or whose order
everybody knows."""

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
PARTICIPLES = ("told", "said", "brought", "found", "kept", "laid", "taken", "made")
BAD_VARIABLES = frozenset({"one", *PARTICIPLES})
BAD_FUNCTIONS = frozenset(
    {
        *PARTICIPLES,
        *("above", "across", "alone", "also", "apart", "aside", "away", "back", "before"),
        *("below", "beside", "besides", "between", "beyond", "by", "came", "drawn", "felt"),
        *("for", "given", "gone", "held", "here", "hidden", "in", "into", "its", "left"),
        *("meant", "met", "near", "off", "on", "other", "over", "paid", "plain", "right"),
        *("risen", "safe", "seen", "shown", "shut", "spent", "still", "stood", "such"),
        *("sure", "surely", "theirs", "there", "these", "those", "together", "under", "upon"),
        *("whose", "wrong", "yet"),
    }
)
PARALLEL = frozenset({"Decoder", "_Reader", "_Block", "_Item"})
"""Class names that are the same role in parallel modules."""


def module_of(path: Path) -> str:
    """app/playground/core/tools.py -> playground.core.tools; core/__init__.py -> core."""
    parts = path.relative_to(ROOT / "app").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources() -> dict[str, ast.Module]:
    """The modules of app/playground/ by their names."""
    paths = sorted((ROOT / "app/playground").rglob("*.py"))
    return {module_of(path): ast.parse(path.read_text()) for path in paths}


def imported(tree: ast.Module, modules: Mapping[str, object]) -> set[str]:
    """The modules of app/playground/ that are loaded when this one is."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module in modules:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                names.add(inner if inner in modules else node.module)
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names if alias.name in modules}
    return names


def circles(trees: Mapping[str, ast.Module]) -> list[list[str]]:
    """Modules that import each other: the strongly connected components of more than one
    (Tarjan)."""
    graph = {name: imported(tree, trees) for name, tree in trees.items()}
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    result: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            place = stack.index(name)
            component = stack[place:]
            del stack[place:]
            if len(component) > 1:
                result.append(sorted(component))

    for name in graph:
        if name not in order:
            visit(name)
    return result


def without_code(trees: Mapping[str, ast.Module]) -> int:
    """How many files hold nothing but a docstring."""
    return sum(all(isinstance(node, ast.Expr) for node in tree.body) for tree in trees.values())


@lru_cache(maxsize=1)
def walk(tree: ast.AST) -> Sequence[ast.AST]:
    """All nodes, as `ast.walk` has them, in less of the time that tests/test_house.py takes."""
    nodes = [tree]
    for node in nodes:  # it grows
        for value in vars(node).values():
            if isinstance(value, ast.AST):
                nodes.append(value)
            elif isinstance(value, list):
                nodes += [item for item in value if isinstance(item, ast.AST)]
    return nodes


@lru_cache(maxsize=1)
def statements(tree: ast.Module) -> Sequence[ast.AST]:
    """All statements of a module, without the expressions in them, which are most of a tree."""
    return list(statements_below(tree))


def statements_below(node: ast.AST) -> Iterator[ast.AST]:
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for below in getattr(node, part, ()):
            yield below
            yield from statements_below(below)


def functions(
    trees: Mapping[str, ast.Module],
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """(module, function) of all functions and methods."""
    for name, tree in trees.items():
        for node in statements(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield name, node


def double_classes(trees: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """Class names that mean more than one thing, with their modules."""
    places = defaultdict(list)
    for name, tree in trees.items():
        for node in statements(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name)
    return {
        name: where for name, where in places.items() if len(where) > 1 and name not in PARALLEL
    }


def bad_names(trees: Mapping[str, ast.Module]) -> list[str]:
    """Variables named `one`, variables and functions named by a bare participle, functions named
    by an adverb or a preposition, and texts that speak of the user as the person."""
    result = []
    for name, tree in trees.items():
        for node in walk(tree):
            match node:
                case ast.Name(id=word, ctx=ast.Store()) | ast.arg(arg=word):
                    if word in BAD_VARIABLES:
                        result.append(f"{name}:{node.lineno}: the variable {word}")
                case ast.MatchAs(name=str(word)) | ast.MatchStar(name=str(word)):
                    if word in BAD_VARIABLES:
                        result.append(f"{name}:{node.lineno}: the variable {word}")
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    is_attribute = any("property" in ast.dump(d) for d in node.decorator_list)
                    if node.name.strip("_") in BAD_FUNCTIONS and not is_attribute:
                        result.append(f"{name}:{node.lineno}: the function {node.name}")
                case ast.Constant(value=str(text)) if "the person" in text:
                    result.append(f"{name}:{node.lineno}: the words 'the person'")
    return result


def variadic_functions(tree: ast.Module) -> set[str]:
    """The functions of a module whose arguments after the fifth, or earlier, go to `*args`."""
    return {
        node.name
        for node in statements(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.args.vararg
        and len(node.args.posonlyargs) + len(node.args.args) <= MOST_POSITIONAL
    }


def positional_calls(
    tree: ast.Module, variadic: Set[str] = frozenset()
) -> list[tuple[int, str, int]]:
    """Calls with more than MOST_POSITIONAL positional arguments: (line, function, how many). An
    argument with a star counts as one. Calls of `variadic` functions are not among them."""
    result = []
    for node in walk(tree):
        if isinstance(node, ast.Call) and len(node.args) > MOST_POSITIONAL:
            function = ast.unparse(node.func)
            if function.rpartition(".")[2] not in variadic | VARIADIC:
                result.append((node.lineno, function, len(node.args)))
    return result


def late_constants(tree: ast.Module) -> list[tuple[int, str]]:
    """(line, name) of constants below the first function of a module, which are looked for at its
    top. A table that needs a function or class of the module may stay below it."""
    body = tree.body
    first = next((n for n, node in enumerate(body) if isinstance(node, FUNCTIONS)), len(body))
    needed: set[str] = set()
    """Names that are bound below the first function by anything but a constant of the top."""
    result = []
    assigned = [name for node in body for name in _assigned(node)]
    for node in body[first:]:
        names = _assigned(node)
        if names and all(assigned.count(name) == 1 for name in names):
            uses = {each.id for each in walk(node) if isinstance(each, ast.Name)}
            if not uses & needed:
                result.append((node.lineno, ", ".join(sorted(names))))
                continue
        needed |= _bound(node)
    return result


def _assigned(node: ast.stmt) -> set[str]:
    """The names of a module-level constant, if `node` is one."""
    match node:
        case ast.Assign(targets=targets) if all(
            isinstance(target, ast.Name | ast.Tuple) for target in targets
        ):
            return {each.id for target in targets for each in walk(target) if _is_name(each)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()


def _bound(node: ast.stmt) -> set[str]:
    """All names that a statement binds in its module."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
    bound = {each.id for each in walk(node) if _is_name(each) and isinstance(each.ctx, ast.Store)}
    for each in walk(node):
        match each:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                bound |= {(alias.asname or alias.name).split(".")[0] for alias in aliases}
    return bound


def _is_name(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name)


def main() -> int:
    trees = sources()
    lines = {name: len(path.read_text().splitlines()) for name, path in _paths().items()}
    doubles, loops, names = double_classes(trees), circles(trees), bad_names(trees)
    print(f"{len(trees)} files of {sum(lines.values())} lines")
    print(f"{without_code(trees)} of them only make a folder a package")
    print(f"{len(loops)} circles")
    for loop in loops:
        print("  " + ", ".join(loop))
    print(f"{len(doubles)} class names twice")
    for double, modules in sorted(doubles.items()):
        print(f"  {double}: {', '.join(modules)}")
    print(f"{len(names)} names to be replaced")
    for bad in names:
        print(f"  {bad}")
    files = {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text())
        for folder in ("app", "tests", "bench", "examples")
        for path in sorted((ROOT / folder).rglob("*.py"))
    }
    variadic = set[str]().union(*map(variadic_functions, files.values()))
    calls = {name: positional_calls(tree, variadic) for name, tree in files.items()}
    count = sum(map(len, calls.values()))
    print(f"{count} calls with more than {MOST_POSITIONAL} positional arguments")
    for name, call_rows in calls.items():
        for line, function, positional_count in call_rows:
            print(f"  {name}:{line} {function}: {positional_count}")
    late = {name: late_constants(tree) for name, tree in files.items()}
    print(f"{sum(map(len, late.values()))} constants below a function that they do not need")
    for name, constants in late.items():
        for line, constant in constants:
            print(f"  {name}:{line} {constant}")
    print("the ten longest functions:")
    lengths = [
        ((node.end_lineno or node.lineno) - node.lineno + 1, f"{name}.{node.name}")
        for name, node in functions(trees)
    ]
    for length, where in sorted(lengths, reverse=True)[:10]:
        print(f"  {length:4} {where}")
    return 1 if loops or doubles or names else 0


def _paths() -> dict[str, Path]:
    return {module_of(path): path for path in sorted((ROOT / "app/playground").rglob("*.py"))}


if __name__ == "__main__":
    sys.exit(main())
