"""The Jinja environment: autoescape, strict, every string made visible by `shown`.

`finalize` is the defence in depth: a template cannot forget to show a hidden character, because
whatever it prints that is not markup already passes there. Form fields say `|verbatim`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from jinja2.ext import Extension
from markupsafe import Markup

from app.core.limits import written
from app.render import filters
from app.render.paging import beginning, beyond, closed, first_seq, portion
from app.render.view import nest_forks
from app.render.wire_rows import TOLD


class _Compiled(BytecodeCache):
    """Each template compiled once in a process: pages and exported files have environments of
    their own, with the same options."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Any] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._kept.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._kept[bucket.key, bucket.checksum] = bucket.code


COMPILED = _Compiled()

_JINJA = r"\{%.*?%\}|\{\{.*?\}\}|\{(?![%{])"
_QUOTED = rf"\"(?:{_JINJA}|[^\"{{])*\"|'(?:{_JINJA}|[^'{{])*'"
_TAG = re.compile(rf"<[a-z][\w-]*(?:{_QUOTED}|{_JINJA}|[^>\"'{{])*>", re.S)
_BREAK = re.compile(
    # An attribute behind a condition brings its own space.
    rf"({_QUOTED})|\s*\n\s*(\{{% *(?:if|for) (?:(?!%\}}).)*%\}}(?=\s))|({_JINJA})|\s*\n\s*",
    re.S,
)


class _OneLineTags(Extension):
    """Sends a tag in one line, however many lines the template has for its attributes."""

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
        ago=filters.ago,
        clip=filters.clip,
        duration=filters.duration,
        exact=filters.exact,
        exposed=filters.exposed,
        markdown=filters.markdown,
        nested=nest_forks,
        number=filters.number,
        one_line=filters.one_line,
        plural=filters.plural,
        pretty=filters.pretty,
        shown=filters.shown,
        size=filters.size,
        verbatim=filters.verbatim,
    )
    env.globals |= {"portion": portion, "beyond": beyond, "beginning": beginning}
    env.globals |= {"closed": closed, "first_seq": first_seq}
    env.globals["told"] = TOLD
    env.globals["written"] = written
    env.globals["priced"] = find_spec("genai_prices") is not None
    return env


def _visible(value: Any) -> Any:
    if isinstance(value, str) and not isinstance(value, Markup):
        return filters.shown(value)
    return value


PICTURE = re.compile(r'url\("([a-z]+\.svg)"\)')


def join_styles(folder: Path, names: Iterable[str]) -> str:
    """The stylesheets `names` of `folder`, without ".css", in this order."""

    def embed(found: re.Match[str]) -> str:
        data = base64.b64encode((folder / found[1]).read_bytes()).decode()
        return f'url("data:image/svg+xml;base64,{data}")'

    texts = (f"/* {name}.css */\n{(folder / f'{name}.css').read_text('utf-8')}" for name in names)
    return PICTURE.sub(embed, "\n".join(texts))
