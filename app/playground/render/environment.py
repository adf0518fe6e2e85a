"""The Jinja environment: autoescape, strict, every string made visible by `shown`.

`finalize` is defence in depth: a template cannot forget to show a hidden character, because
everything it prints that is not markup passes through it. Form fields use `|verbatim`.
"""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from typing import Any

from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined, compiler
from jinja2.bccache import Bucket
from jinja2.ext import Extension
from markupsafe import Markup

from playground.core.limits import cache_missed, writing_speed, written
from playground.render import filters
from playground.render.paging import beginning, beyond, closed, first_seq, portion, streamed
from playground.render.view import by_age, fold_agents
from playground.render.wire_rows import TOLD


class CompiledTemplates(BytecodeCache):
    """Compiles each template once per process: pages and exported files have separate environments
    with the same options. Where Python stores its compiled modules, the templates are also cached
    on disk, in the `__pycache__` of their folder. The cache key covers a template's text and the
    files that determine how it is compiled (`_COMPILERS`)."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Any] = {}

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        return filename or name

    def get_source_checksum(self, source: str) -> str:
        return super().get_source_checksum(_compilers() + source)

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._kept.get((bucket.key, bucket.checksum))
        if bucket.code is None:
            try:
                path = _compiled_path(bucket.key)
                if _is_private(path.parent, Path(bucket.key)):
                    with path.open("rb") as file:
                        bucket.load_bytecode(file)
            except Exception:  # unreadable: it is rewritten
                bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._kept[bucket.key, bucket.checksum] = bucket.code
        if sys.dont_write_bytecode:
            return
        path = _compiled_path(bucket.key)
        with suppress(OSError):  # a folder that we may not write to
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_private(path.parent, Path(bucket.key)):
                begun = path.with_name(f"{path.name}.{id(bucket)}")
                try:
                    with begun.open("xb") as file:
                        bucket.write_bytecode(file)
                    begun.replace(path)
                finally:
                    begun.unlink(missing_ok=True)  # the disk is full
            else:
                path.parent.rmdir()  # if empty: other checkouts' files stay


def _compiled_path(template: str) -> Path:
    return Path(cache_from_source(template)).with_suffix(f".{Path(template).suffix[1:]}.pyc")


def _is_private(folder: Path, template: Path) -> bool:
    """Whether only the owner of the template's file can write to the folder: code loaded from it is
    executed."""
    status = folder.stat()
    return status.st_uid == template.stat().st_uid and not status.st_mode & 0o022


_COMPILERS = (__file__, filters.__file__, compiler.__file__)


@lru_cache
def _compilers() -> str:
    """Compiling a template already applies our filters to constants."""
    files = (Path(file).stat() for file in _COMPILERS)
    return " ".join(f"{file.st_mtime_ns} {file.st_size}" for file in files)


COMPILED = CompiledTemplates()

_JINJA = r"\{%.*?%\}|\{\{.*?\}\}|\{(?![%{])"
_QUOTED = rf"\"(?:{_JINJA}|[^\"{{])*\"|'(?:{_JINJA}|[^'{{])*'"
_TAG = re.compile(rf"<[a-z][\w-]*(?:{_QUOTED}|{_JINJA}|[^>\"'{{])*>", re.S)
_BREAK = re.compile(
    # A conditional attribute brings its own space.
    rf"({_QUOTED})|\s*\n\s*(\{{% *(?:if|for) (?:(?!%\}}).)*%\}}(?=\s))|({_JINJA})|\s*\n\s*",
    re.S,
)


class _OneLineTags(Extension):
    """Joins a tag to one line, however many lines its attributes take in the template."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        return _TAG.sub(
            lambda tag: _BREAK.sub(
                lambda part: part[part.lastindex] if part.lastindex else " ", tag[0]
            ),
            source,
        )


def environment(folder: Path, *, reload: bool = False) -> Environment:
    """The environment over the templates in `folder`; `reload` reads changed files again."""
    env = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=reload,
        cache_size=-1,
        bytecode_cache=COMPILED,
        extensions=[_OneLineTags],
    )
    env.filters.update(
        added_pieces=filters.added_pieces,
        ago=filters.ago,
        clip=filters.clip,
        duration=filters.duration,
        exact=filters.exact,
        exposed=filters.exposed,
        markdown=filters.markdown,
        folded=fold_agents,
        by_age=by_age,
        number=filters.number,
        one_line=filters.one_line,
        plural=filters.plural,
        pretty=filters.pretty,
        shown=filters.shown,
        size=filters.size,
        verbatim=filters.verbatim,
    )
    env.globals |= {"portion": portion, "beyond": beyond, "beginning": beginning}
    env.globals["streamed"] = streamed
    env.globals |= {"closed": closed, "first_seq": first_seq}
    env.globals["told"] = TOLD
    env.globals |= {"written": written, "writing_speed": writing_speed}
    env.globals["cache_missed"] = cache_missed
    env.globals["priced"] = find_spec("genai_prices") is not None
    return env


def _visible(value: Any) -> Any:
    if isinstance(value, str) and not isinstance(value, Markup):
        return filters.shown(value)
    return value


PICTURE = re.compile(r'url\("([a-z]+\.svg)"\)')


def join_styles(folder: Path, names: Iterable[str]) -> str:
    """The stylesheets `names` of `folder`, without ".css", in this order."""

    def embed(match: re.Match[str]) -> str:
        data = base64.b64encode((folder / match[1]).read_bytes()).decode()
        return f'url("data:image/svg+xml;base64,{data}")'

    texts = (f"/* {name}.css */\n{(folder / f'{name}.css').read_text('utf-8')}" for name in names)
    return PICTURE.sub(embed, "\n".join(texts))


# Small pieces of HTML for all pages: messages, errors, and partials that htmx puts in place -------


def error_page(env: Environment, status: int, title: str, sentence: str, back: str = "") -> str:
    """A page that says what went wrong and what to do. `back` is the path the user came from."""
    return env.get_template("error.html").render(
        status=status, title=title, sentence=sentence, back=back
    )


def toast(env: Environment, sentence: str, tone: str = "failed", undo: str = "") -> str:
    """A message in the corner as the partial that htmx appends; `undo` is a path to POST to."""
    html = env.get_template("_toast.html").render(sentence=sentence, tone=tone, undo=undo)
    return partial("toasts", "beforeend", html)


def store_banner(env: Environment) -> str:
    """The banner of every page while the database cannot be written; else a placeholder."""
    return env.get_template("_store.html").render()


def partial(target: str, swap: str, html: str) -> str:
    """`html` as a piece that htmx swaps into its place, whichever request returned it."""
    return f'<hx-partial hx-target="#{target}" hx-swap="{swap}">{html}</hx-partial>'
