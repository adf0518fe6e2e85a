"""Where a user's file lies: the name under which it is imported, and the folders that its imports
need.

A file that imports nothing of its package runs by itself, as a script does: the `__init__.py` of
its package may fail, or need what the file does not. With relative imports, or imports of its own
package by name, it belongs to that package, as for `python -m` and pytest: the root (the first
parent folder without `__init__.py`) comes first in `sys.path`. A file with relative imports in
folders without `__init__.py` belongs to a namespace package: its root is that of its
project (a folder `src`, or the folder with `pyproject.toml`), else as many folders up as its
imports go. Loaded by `runner.py`, by any Python from 3.8 on; `executor.py` imports it, too.
https://docs.pytest.org/en/stable/explanation/pythonpath.html
https://packaging.python.org/en/latest/discussions/src-layout-vs-flat-layout/
"""

from __future__ import annotations

import os
import re
import types
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from typing import Any, Callable, NamedTuple  # noqa: UP035 - Python 3.8

ALONE = "tool_file"
"""The name of a file that belongs to no package."""

PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
RELATIVE = re.compile(rb"^[ \t]*from[ \t]+(\.+)", re.M)
MOST_LEVELS = 40


class Location(NamedTuple):
    """`name` is the dotted name of the module. `first` comes before Python's own search path: the
    root of the package, or the file's folder. `last` come after it, so that they shadow nothing: a
    package's own folder, as when the file runs as a script, and the folders of the project.
    `package` is the folder of the outermost package with an `__init__.py`, or ""."""

    name: str
    first: str
    last: tuple[str, ...]
    package: str

    def without_package(self, folder: str, name: str = ALONE) -> Location:
        """The file by itself, outside of its package."""
        last = (*self.last, self.first)
        return Location(name, folder, tuple(place for place in last if place != folder), "")


def locate(path: str, source: bytes) -> Location:
    """The location of the file at the absolute `path`, of which `source` is the content."""
    folder, file = os.path.split(path)
    stem = os.path.splitext(file)[0]
    names = [] if stem == "__init__" else [stem.replace(".", "_")]
    root, package = folder, ""
    while len(names) < MOST_LEVELS and os.path.isfile(os.path.join(root, "__init__.py")):
        if not is_importable(root):
            break
        package = root
        names.insert(0, os.path.basename(root))
        root = os.path.dirname(root)
    project = project_of(root)
    sources = os.path.join(project, "src") if project else ""
    sources = sources if os.path.isdir(sources) else ""
    own = 0 if stem == "__init__" else 1
    wanted = max((len(dots[1]) for dots in RELATIVE.finditer(source)), default=0)
    if len(names) - own < wanted:
        base = next((place for place in (sources, project) if is_below(root, place)), "")
        while root != base and (base or len(names) - own < wanted) and is_importable(root):
            names.insert(0, os.path.basename(root))
            root = os.path.dirname(root)
    if len(names) == own == 1:
        names = [ALONE]
    last = tuple(
        place for place in dict.fromkeys((folder, sources, project)) if place and place != root
    )
    place = Location(".".join(names), root, last, package)
    if package and not wanted and not imports_package(source, names[0]):
        return place.without_package(folder)
    return place


def imports_package(source: bytes, package: str) -> bool:
    """Whether a file imports something of the package of this name."""
    name = re.escape(package.encode())
    lines = rb"^[ \t]*(?:from[ \t]+%b\b|import[ \t][^\n#]*\b%b\b)" % (name, name)
    return re.search(lines, source, re.M) is not None


def is_installed(package: str, root: str) -> bool:
    """Whether Python finds another package of this name than the one in the folder `root`."""
    spec = PathFinder.find_spec(package)
    if spec is None:
        return False
    places = [spec.origin, *(spec.submodule_search_locations or ())]
    own = os.path.realpath(root)
    return not any(place and is_below(os.path.realpath(place), own) for place in places)


def project_of(folder: str) -> str:
    """The nearest folder, from `folder` up, that is the root of a project, or ""."""
    for _ in range(MOST_LEVELS):
        if any(os.path.exists(os.path.join(folder, name)) for name in PROJECT_FILES):
            return folder
        if folder == os.path.dirname(folder):
            break
        folder = os.path.dirname(folder)
    return ""


def is_below(folder: str, other: str) -> bool:
    return bool(other) and folder.startswith(other.rstrip(os.sep) + os.sep)


def is_importable(folder: str) -> bool:
    """Whether a folder's name can be part of a dotted name."""
    name = os.path.basename(folder)
    return bool(name) and "." not in name


class FileFinder(MetaPathFinder, Loader):
    """Finds the file at `path` under its dotted name, whatever imports it (its package may, too),
    and loads it by `execute`: there is one module of it, and it is what was decided on."""

    def __init__(self, name: str, path: str, execute: Callable[[types.ModuleType], None]) -> None:
        self.name, self.path, self.execute = name, path, execute

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != self.name:
            return None
        folder, file = os.path.split(self.path)
        inside = [folder] if file == "__init__.py" else None
        return spec_from_file_location(
            name, self.path, loader=self, submodule_search_locations=inside
        )

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        self.execute(module)
