"""The structural rules that a machine can check: floors, purity, names, vendored files.

Each rule is a function from sources to sentences, which say what to do, and is shown to fail once
on a bad example. The picture is in docs/architecture.md.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import pytest

from bench import structure

ROOT = Path(__file__).resolve().parent.parent
APP = sorted((ROOT / "app/playground").rglob("*.py"))

FLOORS: Mapping[str, int] = {
    "core": 0,
    **dict.fromkeys(("schema", "secrets"), 1),
    **dict.fromkeys(("protocols", "store", "net", "config"), 2),
    **dict.fromkeys(("render", "exchange", "executors", "simulator", "evaluation"), 3),
    "engine": 4,
    **dict.fromkeys(("tap", "batch"), 5),
    "web": 6,
    **dict.fromkeys(("commands", "cli"), 7),
}
SIDEWAYS = {("exchange", "render"), ("cli", "commands"), ("schema", "secrets")} | {
    ("evaluation", "exchange"),
}
"""Imports between packages of one layer that are made on purpose."""

PURE = ("core", "schema", "secrets", "protocols", "render", "exchange", "evaluation")
VIEW = re.compile(r"app/playground/web/(?:\w+/)?(?:\w+_)?view\.py")
SEEDED = {("protocols", "random")}
"""The servers' ends shape a stream by a `Random` with a seed, which is as pure as a number."""
IMPURE = {"asyncio", "httpx", "aiosqlite", "starlette", "time", "uuid", "os", "random", "socket"}

ONLY_IN = {"httpx": "app/playground/net/client.py", "httpx2": "app/playground/net/mcp_http.py"}
"""Libraries that one module imports, so that another can take their place there."""

EXTRAS = {"mcp", "httpx2", "pydantic_monty", "genai_prices", "dask", "distributed"}
"""Optional extras, the only modules that may be imported when first used."""

FOREIGN = {
    "app/playground/exchange/sdk_script.py",  # Python
    "app/playground/secrets/detection.py",  # PEM
    "app/playground/executors/mcp/connection.py",  # mcp
    "app/playground/executors/python/conversion.py",  # pydantic
    "app/playground/executors/workspace/fetch.py",  # h11
    "app/playground/net/client.py",  # h11
    "app/playground/store/database.py",  # SQL
    "app/playground/store/schema.py",  # SQL
}
"""Files that read words which are not ours; those below `app/playground/simulator` read prompts."""

SENTENCE = re.compile(r"[A-Za-z,]{2,} [A-Za-z']{2,}")
READERS = {"startswith", "endswith", "partition", "rpartition", "split", "replace"} | {
    *("removeprefix", "removesuffix", "find", "index", "count", "search", "match", "fullmatch"),
}

PLACES = (
    *("if a:", "if a: pass\n else:", "for a in b:", "while a: pass\n else:", "with a:"),
    *("try:", "try: pass\n except A:", "try: pass\n finally:", "match a:\n  case 1:"),
    *("def g():", "async def g():", "class A:"),
)

WORDING = (
    *("'private network' in why", "how.startswith(('stopped', 'ended with the program'))"),
    *("target(rule).partition('it is not')", "re.search('disconnected', str(error))"),
    *("why == 'The run is halted.'", "match why:\n case 'no such tool': pass"),
)

NAMES_THAT_STAY = (
    "playground.executors.examples",
    "playground.executors.workspace.executor",
)
"""Where `python -m bench.structure` prints names that stay: these are definitions of tools, and a
rule is bound to their words."""

QUOTING = ("test_house.py", "structure.py")
"""Files that quote the words that are no names."""

LONGEST = 160

WIDTHS = {
    *("(max-width: 640px)", "(max-width: 900px)", "(max-width: 1100px)", "(max-width: 1399px)"),
    *("(min-width: 641px)", "(min-width: 901px)", "(min-width: 1101px)", "(min-width: 1400px)"),
}
"""The four at which pages change: static/base.css says why."""

MACHINE = re.compile(r"/" + r"work\b|\bissue" + r" #?\d+\b|" + r"Anthro" + r"pic Claude Code", re.I)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def layer_of_module(module: str) -> str:
    """`playground.protocols.framing` -> `protocols`; "" for `playground` itself."""
    return module.split(".")[1] if "." in module else ""


def layer_of_file(name: str) -> str:
    """The layer of the file of this name: `app/playground/net/client.py` -> `net`."""
    return layer_of_module(name.removeprefix("app/").removesuffix(".py").replace("/", "."))


@lru_cache(maxsize=1)
def parsed(source: str) -> ast.Module:
    """The same for every rule, none of which changes it. One at a time: trees are large."""
    return ast.parse(source)


def imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """(module, line) of every import, `from playground import config` as `playground.config`."""
    for node in nodes:
        match node:
            case ast.Import(names=names):
                yield from ((name.name, node.lineno) for name in names)
            case ast.ImportFrom(module="playground", names=names):
                yield from ((f"playground.{name.name}", node.lineno) for name in names)
            case ast.ImportFrom(module=str(module)):
                yield module, node.lineno


def floor_errors(name: str, source: str) -> list[str]:
    """Imports that point up or sideways."""
    own = layer_of_file(name)
    results = []
    for module, line in imports(structure.statements(parsed(source))):
        other = layer_of_module(module)
        if not module.startswith("playground.") or other == own or other.startswith("__"):
            continue
        lower = FLOORS.get(other, 99) < FLOORS.get(own, -1)
        if not lower and (own, other) not in SIDEWAYS:
            results.append(
                f"{name}:{line}: {own or 'playground'} may not import {other}. Move the code to a "
                f"floor above {other}, or pass in what it needs."
            )
    return results


def purity_errors(name: str, source: str) -> list[str]:
    """Imports of what a pure floor, or a page's view model, may not know."""
    own = layer_of_file(name)
    if own not in PURE and VIEW.fullmatch(name) is None:
        return []
    return [
        f"{name}:{line}: imports {module} into a pure module. Pass in the value instead."
        for module, line in imports(structure.statements(parsed(source)))
        if module.split(".")[0] in IMPURE and (own, module) not in SEEDED
    ]


def library_errors(name: str, source: str) -> list[str]:
    """Imports of a library outside the one module that may."""
    return [
        f"{name}:{line}: imports {module}. Use {ONLY_IN[module.split('.')[0]]} instead."
        for module, line in imports(structure.statements(parsed(source)))
        if ONLY_IN.get(module.split(".")[0], name) != name
    ]


def inner_import_errors(name: str, source: str) -> list[str]:
    """Imports inside functions, but for optional extras."""
    results = set()
    for node in structure.statements(parsed(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for module, line in imports(structure.statements_below(node)):
                if module.split(".")[0] not in EXTRAS:
                    results.add(
                        f"{name}:{line}: imports {module} inside a function. Import it at the top; "
                        f"only optional extras ({', '.join(sorted(EXTRAS))}) are imported late."
                    )
    return sorted(results)


def positional_errors(name: str, source: str) -> list[str]:
    """Calls with more than five positional arguments, but of functions that take any number."""
    tree = parsed(source)
    return [
        f"{name}:{line}: {function} has {positional_count} positional arguments. Pass them by name."
        for line, function, positional_count in structure.positional_calls(
            tree, structure.variadic_functions(tree)
        )
    ]


def order_errors(name: str, source: str) -> list[str]:
    """Constants below the first function, but for a table that needs a function."""
    if name == "app/playground/executors/example_tools.py":
        return []  # rules are bound to its text: if it changes, stored rules ask again
    return [
        f"{name}:{line}: {constant} is below the first function. Move it to the top of the module."
        for line, constant in structure.late_constants(parsed(source))
    ]


def host_errors(name: str, text: str) -> list[str]:
    """Addresses of other hosts that a page would load from."""
    pattern = (
        r"(?:src|href|action|url\(|import|@import|fetch\()\s*=?\s*[\"'(]*(?:https?:)?//[^\"')\s]+"
    )
    return [
        f"{name}: loads {address} from another host. Put the file into static/vendor."
        for address in re.findall(pattern, text)
    ]


def vendored_errors(folder: Path) -> list[str]:
    """Vendored files that are not those whose sums were written down."""
    sums = {}
    for line in (folder / "SHA256SUMS").read_text().split("\n"):
        if line.strip():
            digest, _, file = line.partition(" ")
            sums[file.strip(" *./")] = digest
    problems = [
        f"{file} is gone. Restore it, or remove its line from SHA256SUMS."
        for file in sums
        if not (folder / file).is_file()
    ]
    for path in sorted(folder.iterdir()):
        if path.suffix in (".js", ".css", ".toml") and path.name not in sums:
            problems.append(f"{path.name} is not in SHA256SUMS. Add its sum there.")
        if path.name in sums and hashlib.sha256(path.read_bytes()).hexdigest() != sums[path.name]:
            problems.append(
                f"{path.name} was changed. Restore it, or write its new sum to SHA256SUMS."
            )
    return problems


def test_modules_that_import_each_other_are_found() -> None:
    loop = {
        "playground.a": ast.parse("from playground import b"),
        "playground.b": ast.parse("from playground.a import x"),
    }
    assert structure.circles({"playground": ast.parse(""), **loop}) == [
        ["playground.a", "playground.b"]
    ]


def wording_errors(name: str, source: str) -> list[str]:
    """Where something is decided by the words of a sentence, or by what `str` makes of an error.
    An error has a class, a code and fields for that."""
    if name in FOREIGN or name.startswith("app/playground/simulator/"):
        return []
    errors = []
    for node in structure.walk(parsed(source)):
        match node:
            case ast.Compare(left=left, comparators=others):
                parts = [left, *others]
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in READERS:
                parts = [value, *node.args]
            case ast.MatchValue(value=value):
                parts = [value]
            case _:
                continue
        if any(_is_wording(part) for part in parts):
            errors.append(
                f"{name}:{node.lineno}: reads the words of a sentence in {ast.unparse(node)}. "
                "Decide by a class, a code or a field."
            )
    return errors


def _is_wording(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=str(text)):
            return SENTENCE.search(text) is not None
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return any(map(_is_wording, parts))
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=held)]):
            return held in ("error", "problem", "trouble")
    return False


def within(place: str) -> str:
    """An import in such a place of a function."""
    after = "" if place != "try:" else " finally: pass"
    return f"def f():\n {place}\n   import json\n{after}"


SOURCE_RULES = (
    floor_errors,
    purity_errors,
    library_errors,
    inner_import_errors,
    wording_errors,
)


def test_every_source_keeps_the_rules() -> None:
    """And no two of them import each other: reading them once takes most of the time."""
    errors, names, trees = [], [], {}
    for path in APP:
        source, module = path.read_text(), structure.module_of(path)
        trees[module] = parsed(source)
        errors += [error for rule in SOURCE_RULES for error in rule(name_of(path), source)]
        names += structure.bad_names({module: trees[module]})
    circles, doubles = structure.circles(trees), structure.double_classes(trees)
    bad_names = [name for name in names if not name.startswith(NAMES_THAT_STAY)]
    assert errors == [], "\n".join(errors)
    assert circles == [], f"Move what these modules share into one that both import: {circles}"
    assert doubles == {}, f"Give these classes names that no other class has: {doubles}"
    assert bad_names == [], "Say instead what each of these is:\n" + "\n".join(bad_names)


def test_constants_are_at_the_top_and_long_calls_pass_keywords() -> None:
    """In the program, its tests, benches and examples. Names are plain there, too."""
    errors, calls, variadic = [], [], set[str]()
    for folder in ("app", "tests", "bench", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name, source = name_of(path), path.read_text()
            tree = parsed(source)
            errors += order_errors(name, source)
            if folder != "app" and path.name not in QUOTING:
                errors += structure.bad_names({name: tree})
            variadic |= structure.variadic_functions(tree)
            calls += [(name, *call) for call in structure.positional_calls(tree)]
    errors += [
        f"{name}:{line}: {function} has {positional_count} positional arguments. Pass them by name."
        for name, line, function, positional_count in calls
        if function.rpartition(".")[2] not in variadic
    ]
    assert errors == [], "\n".join(errors)


@pytest.mark.parametrize(
    "source",
    [
        "def f(): ...\nA = f()",
        "def f(): ...\nclass C: ...\nA = C\nB = [A]",
        "A = 1\ndef f(): ...\nA = 2",
        "A = 1\ndef f(): ...",
    ],
)
def test_a_constant_that_needs_a_function_may_follow_it(source: str) -> None:
    assert order_errors("app/playground/core/session.py", source) == []


@pytest.mark.parametrize(
    "source",
    [
        "one = 1",
        "def f(said): ...",
        "def _kept(): ...",
        "def beside(): ...",
        "match a:\n case [*told]: ...",
    ],
)
def test_a_name_to_be_replaced_is_found(source: str) -> None:
    assert len(structure.bad_names({"playground.core.x": ast.parse(source)})) == 1


@pytest.mark.parametrize(
    ("rule", "name", "bad"),
    [
        (
            floor_errors,
            "app/playground/core/session.py",
            "from playground.protocols.framing import Framer",
        ),
        (floor_errors, "app/playground/engine/sessions.py", "from playground.web.site import Site"),
        (floor_errors, "app/playground/protocols/base.py", "import playground.store.log"),
        (floor_errors, "app/playground/protocols/base.py", "from playground import config"),
        (
            floor_errors,
            "app/playground/protocols/lint.py",
            "def f():\n    from playground.engine import sessions",
        ),
        (purity_errors, "app/playground/core/decide.py", "import time"),
        (purity_errors, "app/playground/render/block_contents.py", "from os.path import join"),
        (
            purity_errors,
            "app/playground/web/rules_view.py",
            "from starlette.requests import Request",
        ),
        (purity_errors, "app/playground/web/session/wire_view.py", "import asyncio"),
        (library_errors, "app/playground/net/fetch.py", "import httpx"),
        (inner_import_errors, "app/playground/net/client.py", "def f():\n    import json"),
        *((inner_import_errors, "app/playground/net/client.py", within(place)) for place in PLACES),
        (order_errors, "app/playground/core/session.py", "def f(): ...\nA = 1"),
        (order_errors, "app/playground/core/session.py", "def f(): ...\nA: int = len('a')"),
        (positional_errors, "app/playground/core/session.py", "Call(1, 2, 3, 4, 5, 6)"),
        (positional_errors, "app/playground/core/session.py", "a.f(*b, 2, 3, 4, 5, 6, g=7)"),
        (
            positional_errors,
            "app/playground/core/session.py",
            "def f(a, b, c, d, e, f, *g): ...\nf(1, 2, 3, 4, 5, 6)",
        ),
        *((wording_errors, "app/playground/render/card.py", reads) for reads in WORDING),
    ],
)
def test_a_broken_rule_is_found(rule: object, name: str, bad: str) -> None:
    assert callable(rule)
    (sentence,) = rule(name, bad)
    assert sentence.endswith("."), "A rule says in a sentence what to do."
    assert rule(name, "from playground.core.errors import BadInput") == []


@pytest.mark.parametrize(
    "source",
    [
        "Call(1, 2, 3, 4, 5)",
        "Call(1, 2, 3, 4, 5, f=6)",
        "datetime(1, 2, 3, 4, 5, 6)",
        "def f(a, *g): ...\nf(1, 2, 3, 4, 5, 6)",
    ],
)
def test_a_call_with_few_positional_arguments_is_allowed(source: str) -> None:
    assert positional_errors("app/playground/core/session.py", source) == []


def test_the_package_says_that_it_has_types() -> None:
    marker = ROOT / "app/playground/py.typed"
    assert marker.is_file(), "Add an empty file app/playground/py.typed (PEP 561)."


def test_vendored_files_are_those_that_were_checked(tmp_path: Path) -> None:
    for folder in ("static/vendor", "app/playground/secrets/vendor"):
        assert vendored_errors(ROOT / folder) == []
    (tmp_path / "a.js").write_text("changed")
    (tmp_path / "b.js").write_text("unknown")
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  a.js\n{'0' * 64}  c.js\n")
    assert len(vendored_errors(tmp_path)) == 3


def test_pages_name_no_other_host() -> None:
    for path in [*(ROOT / "templates").rglob("*"), *(ROOT / "static").glob("*.*")]:
        if path.is_file() and path.suffix in (".html", ".css", ".js", ".svg"):
            text = path.read_text().replace("http://www.w3.org/", "")
            assert host_errors(path.name, text) == []
    assert host_errors("bad.html", '<script src="https://cdn.example/x.js">') != []
    assert host_errors("bad.css", "@import url(//cdn.example/x.css)") != []


def long_lines(name: str, text: str) -> list[str]:
    lines = enumerate(text.split("\n"), 1)
    return [
        f"{name}:{number} has more than {LONGEST} characters. Break the line."
        for number, line in lines
        if len(line) > LONGEST
    ]


def other_widths(name: str, text: str) -> list[str]:
    media_widths = re.findall(
        r"\((?:max|min)-width:[^)]*\)", "".join(re.findall(r"@media[^{]*", text))
    )
    known = " ".join(sorted(WIDTHS))
    return [
        f"{name}: changes at {width}. Use one of {known}."
        for width in media_widths
        if width not in WIDTHS
    ]


def test_pages_are_written_in_readable_lines_and_change_at_four_widths() -> None:
    sheets = list((ROOT / "static").glob("*.css"))
    assert [
        other_width for path in sheets for other_width in other_widths(path.name, path.read_text())
    ] == []
    pages = [*(ROOT / "static").glob("*.js"), *(ROOT / "templates").glob("*.html"), *sheets]
    assert [
        long_line for path in pages for long_line in long_lines(path.name, path.read_text())
    ] == []
    assert long_lines("bad", "a" * 161)
    assert other_widths("bad", "@media (max-width: 700px) { a { color: red } }")


def test_nothing_names_the_machine_it_was_written_on() -> None:
    folders = ("app", "tests", "bench", "templates", "docs", "examples")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    paths += [*(ROOT / "static").glob("*.*"), *ROOT.glob("*.*")]
    text = {".py", ".html", ".md", ".css", ".js", ".toml"}
    for path in paths:
        if path.is_file() and path.suffix in text:
            results = MACHINE.findall(path.read_text())
            assert results == [], (
                f"{path} names where it was written. Remove these words: {results}"
            )
    assert MACHINE.search("see /" + "work/x")


def recording_errors(name: str, source: str) -> list[str]:
    """Strings that say where recordings lie; PLAYGROUND_RECORDINGS is to say it."""
    pattern = r"shared/recordings|recordings/(?:INDEX|LICENSES|PROVENANCE)|\.\./recordings"
    results = [] if "PLAYGROUND_RECORDINGS" in source else re.findall(pattern, source)
    return [
        f"{name}: names {place}. Take the folder from PLAYGROUND_RECORDINGS." for place in results
    ]


def test_recordings_are_found_by_their_variable_alone() -> None:
    paths = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").rglob("*.py"), *APP]
    for path in paths:
        if path != Path(__file__).resolve():
            assert recording_errors(name_of(path), path.read_text()) == []
    assert recording_errors("bad.py", 'Path("../recordings")') != []
