"""Files of packages: under which name they are imported, and what their imports find."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from playground.core.tools import Tool
from playground.executors.executor import Invocation
from playground.executors.python.executor import Python
from playground.executors.python.location import locate

pytestmark = pytest.mark.anyio

SIBLING = "def low(text):\n    return text.lower()\n"
SAY = "\ndef say(text: str) -> str:\n    return low(text) + __name__\n"
HERE = "from .sibling import low" + SAY
ONCE = "import sys\nassert not hasattr(sys, 'was_here')\nsys.was_here = True\n" + HERE
ABOVE = "from ..core.sibling import low" + SAY
DOTTED = "from shop.core.sibling import low" + SAY

LAYOUTS: list[tuple[str, Mapping[str, str], str, str]] = [
    (
        "a package",
        {"shop/__init__.py": "", "shop/sibling.py": SIBLING, "shop/tool.py": HERE},
        "shop/tool.py",
        "hishop.tool",
    ),
    (
        "a package within one",
        {
            "shop/__init__.py": "",
            "shop/core/__init__.py": "",
            "shop/core/sibling.py": SIBLING,
            "shop/tools/__init__.py": "",
            "shop/tools/tool.py": ABOVE,
        },
        "shop/tools/tool.py",
        "hishop.tools.tool",
    ),
    (
        "its own package by its dotted name",
        {
            "shop/__init__.py": "",
            "shop/core/__init__.py": "",
            "shop/core/sibling.py": SIBLING,
            "shop/tool.py": DOTTED,
        },
        "shop/tool.py",
        "hishop.tool",
    ),
    (
        "a script's import of what lies beside it",
        {
            "shop/__init__.py": "",
            "shop/sibling.py": SIBLING,
            "shop/tool.py": "from sibling import low" + SAY,
        },
        "shop/tool.py",
        "hitool_file",
    ),
    (
        "a package that cannot be imported and is not needed",
        {
            "shop/__init__.py": "import absent_of_shop",
            "shop/sibling.py": SIBLING,
            "shop/tool.py": "from sibling import low  # not from shop" + SAY,
        },
        "shop/tool.py",
        "hitool_file",
    ),
    (
        "a package with the name of an installed one, which is meant",
        {
            "xml/__init__.py": "",
            "xml/tool.py": "from xml.dom import Node\ndef low(text):\n    return text.lower()\n"
            + SAY,
        },
        "xml/tool.py",
        "hitool_file",
    ),
    (
        "a package with the name of an installed one, from which it imports relatively",
        {"xml/__init__.py": "", "xml/sibling.py": SIBLING, "xml/tool.py": HERE},
        "xml/tool.py",
        "hixml.tool",
    ),
    (
        "its own package in an import of several",
        {
            "shop/__init__.py": "",
            "shop/sibling.py": SIBLING,
            "shop/tool.py": "import os, shop.sibling\nlow = shop.sibling.low" + SAY,
        },
        "shop/tool.py",
        "hishop.tool",
    ),
    (
        "a package that imports the tool's file",
        {
            "shop/__init__.py": "from .tool import say",
            "shop/sibling.py": SIBLING,
            "shop/tool.py": ONCE,
        },
        "shop/tool.py",
        "hishop.tool",
    ),
    (
        "the package itself",
        {"shop/__init__.py": HERE, "shop/sibling.py": SIBLING},
        "shop/__init__.py",
        "hishop",
    ),
    (
        "a namespace package without a project",
        {"shop/core/sibling.py": SIBLING, "shop/tools/tool.py": ABOVE},
        "shop/tools/tool.py",
        "hishop.tools.tool",
    ),
    (
        "a namespace package in src",
        {
            "pyproject.toml": "",
            "src/shop/sibling.py": SIBLING,
            "src/shop/tool.py": HERE,
        },
        "src/shop/tool.py",
        "hishop.tool",
    ),
    (
        "a file beside src",
        {
            "pyproject.toml": "",
            "src/shop/core/sibling.py": SIBLING,
            "agents/tool.py": DOTTED,
        },
        "agents/tool.py",
        "hitool_file",
    ),
    (
        "a file below the root of its project",
        {"setup.py": "", "shop/core/sibling.py": SIBLING, "shop/tools/tool.py": DOTTED},
        "shop/tools/tool.py",
        "hitool_file",
    ),
    (
        "a package with the name of a module that Python has loaded",
        {"json/__init__.py": "", "json/sibling.py": SIBLING, "json/tool.py": "import json\n"
         "from sibling import low" + SAY + "\nassert json.dumps([1]) == '[1]'\n"},
        "json/tool.py",
        "hitool_file",
    ),
    (
        "a module beside it with the name of one of Python's",
        {
            "shop/__init__.py": "",
            "shop/colorsys.py": "raise LookupError",
            "shop/sibling.py": SIBLING,
            "shop/tool.py": "import colorsys\n" + HERE,
        },
        "shop/tool.py",
        "hishop.tool",
    ),
    (
        "a folder whose name has a dot",
        {"v1.2/__init__.py": "", "v1.2/sibling.py": SIBLING, "v1.2/tool.py":
         "from sibling import low" + SAY},
        "v1.2/tool.py",
        "hitool_file",
    ),
    (
        "no package",
        {"sibling.py": SIBLING, "tool.py": "from sibling import low" + SAY},
        "tool.py",
        "hitool_file",
    ),
]  # fmt: skip

PATHS: list[tuple[str, list[str], bytes, str, str]] = [
    ("/p/a/b/t.py", ["/p/a/__init__.py", "/p/a/b/__init__.py"], b"import a.c", "a.b.t", "/p"),
    ("/p/a/b/t.py", ["/p/a/__init__.py", "/p/a/b/__init__.py"], b"import b", "tool_file", "/p/a/b"),
    ("/p/a/t.py", ["/p/a/__init__.py"], b"import abc\nfrom ab import a", "tool_file", "/p/a"),
    ("/p/a/t.py", [], b"from . import x", "a.t", "/p"),
    ("/p/a/t.py", [], b"  from .. import x", "p.a.t", "/"),
    ("/t.py", ["/__init__.py"], b"from .. import x", "tool_file", "/"),
    ("/p/a/my.tool.py", ["/p/a/__init__.py"], b"from . import x", "a.my_tool", "/p"),
]


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def python_tool(file: Path, function: str = "say") -> Tool:
    return Tool("t", answered_by="python", config={"file": str(file), "function": function})


def invocation(tool: Tool, code: str = "") -> Invocation:
    arguments = '{"text": "Hi"}'
    return Invocation(
        "s",
        call="1.0",
        attempt=1,
        tool=tool,
        arguments=arguments,
        timeout_s=20.0,
        max_output=100_000,
        folder=Path("/"),
        idempotency_key="k",
        code=code,
    )


@pytest.mark.parametrize(("layout", "files", "file", "text"), LAYOUTS)
async def test_call_when_file_lies_in_layout_finds_its_imports(
    layout: str, files: Mapping[str, str], file: str, text: str, tmp_path: Path
) -> None:
    write(tmp_path, files)
    executor = Python()
    try:
        result = await executor.run(invocation(python_tool(tmp_path / file)), lambda *_: None)
    finally:
        await executor.close()
    assert (result.text, result.is_error) == (text, False), layout


async def test_call_when_import_fails_says_where_modules_are_looked_up(tmp_path: Path) -> None:
    write(tmp_path, {"shop/__init__.py": "", "shop/tool.py": "from .absent import low" + SAY})
    executor = Python()
    try:
        call = invocation(python_tool(tmp_path / "shop/tool.py"))
        result = await executor.run(call, lambda *_: None)
    finally:
        await executor.close()
    assert result.is_error
    assert "No module named 'shop.absent'" in result.text
    assert "line 1, in <module>: from .absent import low" in result.text
    assert f"imported as shop.tool; modules are looked up in {tmp_path}" in result.text


async def test_kept_process_when_sibling_changes_imports_it_again(tmp_path: Path) -> None:
    write(tmp_path, {"shop/__init__.py": "", "shop/sibling.py": SIBLING, "shop/tool.py": HERE})
    tool, executor, reports = python_tool(tmp_path / "shop/tool.py"), Python(), list[str]()
    try:
        code = (await executor.check_before_run("s", tool, "{}")).code
        first = await executor.run(invocation(tool, code), lambda *_: None)
        write(tmp_path, {"shop/sibling.py": "def low(text):\n    return 'changed '\n"})
        again = await executor.run(invocation(tool, code), lambda text, *_: reports.append(text))
    finally:
        await executor.close()
    assert (first.text, again.text) == ("hishop.tool", "changed shop.tool")
    assert "sibling.py has changed. Its process was restarted." in reports


async def test_check_when_file_belongs_to_package_notes_what_else_runs(tmp_path: Path) -> None:
    write(tmp_path, {"shop/__init__.py": "", "shop/tool.py": HERE, "alone.py": HERE})
    write(tmp_path, {"shop/plain.py": SIBLING})
    executor = Python()
    inside = await executor.check_before_run("s", python_tool(tmp_path / "shop/tool.py"), "{}")
    alone = await executor.check_before_run("s", python_tool(tmp_path / "alone.py"), "{}")
    assert [problem.kind for problem in inside.problems] == ["note", "note"]
    assert f"imported as shop.tool from {tmp_path}" in inside.problems[1].message
    assert len(alone.problems) == 1
    call_check = await executor.check_before_run("s", python_tool(tmp_path / "shop/plain.py"), "{}")
    assert len(call_check.problems) == 1


@pytest.mark.parametrize(("path", "present", "source", "name", "first"), PATHS)
def test_locate_when_parents_have_init_gives_dotted_name(
    path: str,
    present: list[str],
    source: bytes,
    name: str,
    first: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("isfile", "exists", "isdir"):
        monkeypatch.setattr(f"os.path.{module}", lambda place: place in present)
    place = locate(path, source)
    assert (place.name, place.first) == (name, first)
