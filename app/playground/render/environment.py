"""The Jinja environment: autoescape, strict, every string made visible by `shown`.

`finalize` is defence in depth: a template cannot forget to show a hidden character, because
everything it prints that is not markup passes through it. Form fields use `|verbatim`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from playground.core.run_limits import cache_missed, output_tokens, writing_speed
from playground.render import filters
from playground.render.paging import (
    beginning,
    first_seq,
    has_hidden_text,
    portion,
    streamed_blocks,
    text_pieces,
)
from playground.render.view import fold_agents, rows_by_age
from playground.render.wire_rows import INFO_WARNINGS

PICTURE = re.compile(r'url\("([a-z]+\.svg)"\)')


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
    )
    env.filters.update(
        added_pieces=filters.added_pieces,
        time_ago=filters.time_ago,
        clip=filters.clip,
        duration=filters.duration,
        exact_time=filters.exact_time,
        show_spaces=filters.show_spaces,
        markdown=filters.markdown,
        fold_agents=fold_agents,
        rows_by_age=rows_by_age,
        number=filters.number,
        one_line=filters.one_line,
        plural=filters.plural,
        pretty_json=filters.pretty_json,
        show_hidden=filters.show_hidden,
        size=filters.size,
        form_text=filters.form_text,
    )
    env.globals |= {"portion": portion, "has_hidden_text": has_hidden_text, "beginning": beginning}
    env.globals["streamed_blocks"] = streamed_blocks
    env.globals |= {"text_pieces": text_pieces, "first_seq": first_seq}
    env.globals["info_warnings"] = INFO_WARNINGS
    env.globals |= {"output_tokens": output_tokens, "writing_speed": writing_speed}
    env.globals["cache_missed"] = cache_missed
    env.globals["has_prices"] = find_spec("genai_prices") is not None
    return env


def _visible(value: Any) -> Any:
    if isinstance(value, str) and not isinstance(value, Markup):
        return filters.show_hidden(value)
    return value


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
