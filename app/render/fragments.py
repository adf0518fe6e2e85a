"""Small pieces of HTML for all pages: messages, errors, and partials that htmx puts in place."""

from __future__ import annotations

from jinja2 import Environment


def error_page(env: Environment, status: int, title: str, sentence: str, back: str = "") -> str:
    """A page that says what went wrong and what to do. `back` is the path it came from."""
    return env.get_template("error.html").render(
        status=status, title=title, sentence=sentence, back=back
    )


def toast(env: Environment, sentence: str, tone: str = "failed", undo: str = "") -> str:
    """A message in the corner as the partial that htmx appends; `undo` is a path to POST to."""
    html = env.get_template("_toast.html").render(sentence=sentence, tone=tone, undo=undo)
    return partial("toasts", "beforeend", html)


def store_banner(env: Environment) -> str:
    """What every page says of the database while nothing can be saved; else an empty place."""
    return env.get_template("_store.html").render()


def partial(target: str, swap: str, html: str) -> str:
    """`html` as the piece that htmx puts in its place, wherever the answer came from."""
    return f'<hx-partial hx-target="#{target}" hx-swap="{swap}">{html}</hx-partial>'
