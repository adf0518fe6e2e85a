"""The stylesheets and scripts that pages load: source files of `static/` joined into bundles.

A bundle is made once, when the server starts, and served from memory. Its address contains a hash
of its content, so that browsers can cache it permanently. Scripts stay ES modules: in a bundle each
source file is a block that returns its exports, and a source map names its lines in devtools.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.staticfiles import NotModifiedResponse, StaticFiles
from starlette.types import Scope

from playground.core.errors import PlaygroundError
from playground.render.environment import join_styles

STYLES: Mapping[str, Sequence[str]] = {
    "app.css": ("base", "frame", "flow", "bar", "forms"),
    "session.css": ("wire", "rules"),
    **{
        f"{name}.css": (name,)
        for name in ("compare", "onelane", "pages", "providers", "rules", "tools")
    },
}
"""Stylesheets by the pages that share them, with their sources in cascade order."""

START: Sequence[str] = ("theme.js", "vendor/htmx-4.0.1.min.js", "vendor/hx-sse-4.0.1.min.js")
"""Scripts that run while the page is parsed, joined unchanged. A deferred htmx would start in a
task of its own, which may run before its extension."""

SCRIPTS: Mapping[str, Sequence[str]] = {
    "app.js": ("stream", "toasts", "hints", "page", "keys", "focus"),
    "flow.js": ("running", "replay", "countdown", "answer", "refused"),
    "session.js": ("wire", "setup", "request", "codetab"),
    "column.js": ("column",),
    "beside.js": ("beside",),
    "try.js": ("try",),
    "editor.js": ("editor",),
    "import.js": ("import",),
    "share.js": ("share",),
}
"""Modules by the pages that share them, in the order in which they run. Their imports are included,
unless an earlier bundle has them."""

VENDORED: Sequence[str] = ("vendor/codemirror-6.min",)
"""Modules that stay separate files, because they are large and few pages need them."""

FOREVER = "public, max-age=31536000, immutable"
IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./([\w./-]+)\.js";$', re.M)
EXPORT = re.compile(r"^export (?=(?:const|function|async function) (\w+))", re.M)
MODULE_WORD = re.compile(r"^(?:import|export)\b.*$", re.M)


@dataclass
class Bundles:
    """`addresses` are those of the bundles by name; `files` what is served below /static, and
    whether it is immutable."""

    addresses: dict[str, str] = field(default_factory=dict)
    files: dict[str, tuple[bytes, bool]] = field(default_factory=dict)

    def address(self, name: str) -> str:
        """The address of the bundle; KeyError for an unknown name."""
        return self.addresses[name]

    def add(self, name: str, text: str) -> str:
        """Serves `text` under `name`, and under a name with its hash, which is returned."""
        stem, _, kind = name.rpartition(".")
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        hashed = f"{stem}-{digest}.{kind}"
        self.addresses[name] = f"/static/{hashed}"
        self.files[name] = (text.encode(), False)
        self.files[hashed] = (text.encode(), True)
        return hashed


@lru_cache(maxsize=4)
def build(folder: Path) -> Bundles:
    """All bundles of the sources in `folder`, made once."""
    return build_again(folder)


def build_again(folder: Path) -> Bundles:
    """The same from the sources as they are now."""
    bundles = Bundles()
    for name, sources in STYLES.items():
        bundles.add(name, join_styles(folder, sources))
    texts = ((folder / name).read_text("utf-8").rstrip() for name in START)
    parts = zip(START, texts, strict=True)
    bundles.add("start.js", "\n".join(f"/* {name} */\n{text}\n;" for name, text in parts))
    homes: dict[str, str] = {}  # module -> the file that has it
    for module in VENDORED:
        homes[module] = bundles.add(f"{module}.js", (folder / f"{module}.js").read_text("utf-8"))
    for name, listed in SCRIPTS.items():
        modules = tuple(_with_imports(folder, listed, homes))
        text, sections = _join_modules(folder, modules, homes)
        stem = name.removesuffix(".js")
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        source_map = json.dumps({"version": 3, "sections": sections}, ensure_ascii=False)
        bundles.files[f"{stem}-{digest}.js.map"] = (source_map.encode(), True)
        hashed = bundles.add(name, f"{text}//# sourceMappingURL={stem}-{digest}.js.map\n")
        homes |= dict.fromkeys(modules, hashed)
    return bundles


def _with_imports(folder: Path, modules: Sequence[str], homes: Mapping[str, str]) -> Iterator[str]:
    """`modules` and their imports, each once and after its imports, except those in `homes`."""
    seen = set(homes)

    def visit(name: str) -> Iterator[str]:
        if name in seen:
            return
        seen.add(name)
        for _, imported in IMPORT.findall((folder / f"{name}.js").read_text("utf-8")):
            yield from visit(imported)
        yield name

    for name in modules:
        yield from visit(name)


def _join_modules(
    folder: Path, modules: Sequence[str], homes: Mapping[str, str]
) -> tuple[str, list[object]]:
    """The text of a bundle, and the sections of its source map. Lines stay in place in a module."""
    head: list[str] = []
    body: list[str] = []
    places: list[tuple[str, str, int]] = []
    for name in modules:
        source = (folder / f"{name}.js").read_text("utf-8").rstrip()

        def take(match: re.Match[str]) -> str:
            names, module = match.groups()
            bound = f"{module}_js"
            if "/" in module:  # as a whole: its names may hide those of others
                bound = re.sub(r"\W", "_", module)
                line = f'import * as {bound} from "./{homes[module]}";'
            elif module in homes:
                line = f'import {{ {bound} }} from "./{homes[module]}";'
            else:
                line = ""
            if line and line not in head:
                head.append(line)
            return f"const {names} = {bound};"

        exported = [match[1] for match in EXPORT.finditer(source)]
        block = EXPORT.sub("", IMPORT.sub(take, source))
        if left := MODULE_WORD.search(block):
            raise PlaygroundError(f"static/{name}.js: a bundle cannot have {left[0]!r}.")
        places.append((name, source, sum(part.count("\n") + 1 for part in body) + 2))
        body.append(f"// {name}.js")
        body.append(f"export const {name}_js = (() => {{")
        body.append(block)
        body.append(f"return {{ {', '.join(exported)} }};\n}})();\n")
    sections = [
        {
            "offset": {"line": len(head) + line, "column": 0},
            "map": {
                "version": 3,
                "sources": [f"{name}.js"],
                "sourcesContent": [source],
                "names": [],
                "mappings": "AAAA" + ";AACA" * source.count("\n"),
            },
        }
        for name, source, line in places
    ]
    return "\n".join((*head, *body)), list(sections)


class Assets(StaticFiles):
    """The files below /static: the bundles, and unchanged files. With `reload` the bundles are made
    again whenever a source has changed, and browsers are not told to keep them."""

    def __init__(self, folder: Path, *, reload: bool = False) -> None:
        super().__init__(directory=folder)
        self._folder, self._reload = folder, reload
        self._bundles = build(folder)
        self._changes = _changes(folder) if reload else {}

    def address(self, name: str) -> str:
        """The address of the bundle `name`."""
        return self._current_bundles().address(name)

    def _current_bundles(self) -> Bundles:
        if self._reload and (changes := _changes(self._folder)) != self._changes:
            self._bundles, self._changes = build_again(self._folder), changes
        return self._bundles

    async def get_response(self, path: str, scope: Scope) -> Response:
        file = self._current_bundles().files.get(path)
        if file is None or scope["method"] not in ("GET", "HEAD"):
            return await super().get_response(path, scope)
        content, lasting = file
        kind = {"css": "text/css", "js": "text/javascript"}.get(path.rpartition(".")[2])
        headers = {
            "cache-control": FOREVER if lasting and not self._reload else "no-cache",
            "etag": f'"{hashlib.sha256(content).hexdigest()[:16]}"',
        }
        response = Response(content, headers=headers, media_type=kind or "application/json")
        if self.is_not_modified(response.headers, Headers(scope=scope)):
            return NotModifiedResponse(response.headers)
        return response


def _changes(folder: Path) -> dict[Path, int]:
    """When each file of `folder` was changed last."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
