"""Listing and searching: what is found, in which form, and that no pattern hangs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from playground.executors.workspace import Folder
from playground.executors.workspace.files import FileSearch, glob_matcher, list_files, search_files

FOUND: list[tuple[dict[str, Any], str]] = [
    ({"pattern": "def"},
        "a.py:2:def one():\na.py:5:def two():\nsrc/b.py:1:def three(): ...\nsrc/deep/c.md:1:# "
        "def\n(1 files that are not text or are too large were skipped.)"
    ),
    ({"pattern": "^def (one|two)"}, "a.py:2:def one():\na.py:5:def two():"),
    ({"pattern": "def one", "around": 1}, "a.py-1-import os\na.py:2:def one():\na.py-3-    pass"),
    ({"pattern": "def o|def t", "around": 1, "path": "a.py"},
     "a.py-1-import os\na.py:2:def one():\na.py-3-    pass\na.py-4-\na.py:5:def two():\n"
     "a.py-6-    pass"),
    ({"pattern": "import|two", "around": 1, "path": "a.py"},
     "a.py:1:import os\na.py-2-def one():\n--\na.py-4-\na.py:5:def two():\na.py-6-    pass"),
    ({"pattern": "def", "output": "files", "glob": "*.py"}, "a.py\nsrc/b.py"),
    ({"pattern": "def", "output": "count", "glob": "*.py"}, "a.py: 2\nsrc/b.py: 1"),
    ({"pattern": "def", "path": "src", "glob": "*.py"}, "src/b.py:1:def three(): ..."),
    ({"pattern": "(?i)IMPORT"}, "a.py:1:import os"),
    ({"pattern": "absent", "glob": "*.py"}, "No match."),
    ({"pattern": "def", "head_limit": 1, "glob": "*.py"},
     "a.py:2:def one():\n(Cut after 1 lines; narrow the search.)"),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "s")
    folder.write("a.py", b"import os\ndef one():\n    pass\n\ndef two():\n    pass\n")
    folder.write("src/b.py", b"def three(): ...\n")
    folder.write("src/deep/c.md", b"# def\n")
    folder.write("bytes", b"def \xff")
    return folder


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/b.py", True),
        ("*.py", "a.pyc", False),
        ("src/*.py", "src/b.py", True),
        ("src/*.py", "src/deep/b.py", False),
        ("src/**/*.py", "src/b.py", True),
        ("src/**/*.py", "src/x/y/b.py", True),
        ("**/b.py", "b.py", True),
        ("?.py", "ab.py", False),
        ("a-b [1](x)+.t", "a-b [1](x)+.t", True),
        ("a.py", "axpy", False),
        ("./src/*", "src/b.py", True),
        ("é*", "été", True),
    ],
)
def test_glob(glob: str, path: str, fits: bool) -> None:
    assert glob_matcher(glob)(path) is fits


def test_listed(folder: Folder) -> None:
    assert list_files(folder, "", "") == (
        "a.py  51 bytes\nbytes  5 bytes\nsrc/\nsrc/b.py  17 bytes\nsrc/deep/\n"
        "src/deep/c.md  6 bytes"
    )
    assert list_files(folder, "src", "*.md") == "src/deep/c.md  6 bytes"
    assert list_files(folder, "", "*.nothing") == "(nothing)"


@pytest.mark.parametrize(("search", "text"), FOUND)
def test_searched(folder: Folder, search: dict[str, Any], text: str) -> None:
    match = search_files(folder, FileSearch(**search))
    assert match == text or match.startswith(text + "\n(1 files")


def test_no_pattern_backtracks(folder: Folder) -> None:
    """With a backtracking engine this would run for longer than the universe."""
    folder.write("long", b"a" * 200_000 + b"!")
    assert search_files(folder, FileSearch("^(a+)+$", glob="long")) == "No match."
    assert search_files(folder, FileSearch("(a|aa)+$", path="long")) == "No match."


def test_a_search_stops_when_told(folder: Folder) -> None:
    stop_checks = []

    def stopped() -> bool:
        stop_checks.append(True)
        return len(stop_checks) > 1

    assert (
        search_files(folder, FileSearch("def"), stopped) == "a.py:2:def one():\na.py:5:def two():"
    )
