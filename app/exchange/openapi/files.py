"""An OpenAPI document in several files as one: refs to other files become refs within it.

Only files that were brought together are looked at; nothing is fetched or opened.
https://spec.openapis.org/oas/v3.1.0#relative-references-in-api-description-uris
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

from app.exchange.openapi.schemas import HELD
from app.exchange.text import MOST_VALUES, Unreadable, json_value, yaml_value

MOST_IN_PARTS = 2 * MOST_VALUES
"""Values of all the other files: each may repeat what it holds, by aliases."""

_VALUES = ("enum", "const", "default", "example", "examples")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "schemas")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//")


class Files:
    """The texts of files by their names, which may have folders."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._by_base: dict[str, list[str]] = {}
        for name in texts:
            self._by_base.setdefault(posixpath.basename(name), []).append(name)

    def name_of(self, path: str) -> str | None:
        """The file that `path` means: the one of that name, or else the only one whose last part
        is the same (a browser may tell no folders). None where there is none."""
        if path in self._texts:
            return path
        named = self._by_base.get(posixpath.basename(path), [])
        ends = [name for name in named if path.endswith("/" + name) or name.endswith("/" + path)]
        return ends[0] if len(ends) == 1 else named[0] if len(named) == 1 else None

    def value(self, name: str) -> Any:
        """What the file holds; Unreadable where that is neither JSON nor YAML."""
        text = self._texts[name].removeprefix("\ufeff")
        return json_value(text)[0] if text.lstrip()[:1] in ("{", "[") else yaml_value(text)


def bundle(document: Mapping[str, Any], name: str, files: Files) -> tuple[Any, dict[str, str]]:
    """(`document` with all the files it refers to under HELD, those files' names and what was
    wrong with each, "" for nothing). A ref to a file that is not there stays as it is."""
    bundler = _Bundler(name, files)
    whole = bundler.local(document, name)
    bundler.left = MOST_IN_PARTS
    # What is found while a file is read is read after it: files may refer in circles.
    while bundler.waiting:
        path = bundler.waiting.pop()
        try:
            part = bundler.local(files.value(path), path)
            if bundler.left < 0:
                raise Unreadable("The files of the document hold too many values to be read.")
            bundler.held[path] = part
        except Unreadable as error:
            bundler.parts[path] = f"{path} cannot be read: {error}"
    return ({**whole, HELD: bundler.held} if bundler.held else whole), bundler.parts


class _Bundler:
    def __init__(self, root: str, files: Files) -> None:
        self._root, self._files = root, files
        self.held: dict[str, Any] = {}
        self.parts: dict[str, str] = {}
        self.waiting: list[str] = []
        self.left = sys.maxsize

    def local(self, value: Any, base: str, *, by_name: bool = False) -> Any:
        """`value`, which stands in the file `base`, with its refs made local."""
        self.left -= 1
        if self.left < 0:
            return None
        match value:
            case Mapping():
                return {
                    key: self._ref(inner, base)
                    if key == "$ref" and isinstance(inner, str)
                    else inner
                    if key in _VALUES and not by_name
                    else self.local(inner, base, by_name=not by_name and key in _NAMED)
                    for key, inner in value.items()
                }
            case list():
                return [self.local(inner, base) for inner in value]
        return value

    def _ref(self, ref: str, base: str) -> str:
        path, _, pointer = ref.partition("#")
        if _SCHEME.match(path):
            return ref
        name: str | None = base
        if path:
            joined = posixpath.join(posixpath.dirname(base), unquote(path))
            name = self._target(posixpath.normpath(joined))
        if name is None:
            return ref
        if name == self._root:
            return f"#{pointer}"
        if name not in self.parts:
            self.parts[name] = ""
            self.waiting.append(name)
        step = quote(name.replace("~", "~0").replace("/", "~1"), safe="~")
        return f"#/{HELD}/{step}{pointer}"

    def _target(self, path: str) -> str | None:
        if path == posixpath.normpath(self._root):
            return self._root
        return self._files.name_of(path)
