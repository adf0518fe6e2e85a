"""The panel that tries a tool: what would run, its arguments, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jinja2 import Environment

from app.core.events import Problem
from app.core.tools import Content, Tool, ToolResult
from app.render.arguments import LAYOUT_LIMIT, FieldRow, Token, flat_rows, laid_out
from app.render.card import Tone
from app.render.filters import duration, size
from app.render.fragments import partial
from app.render.request import COPIED_LIMIT, NAMES, shortened

Mode = Literal["form", "json"]


@dataclass(frozen=True)
class Past:
    """A past call to fill the arguments from; `key` names it in a form."""

    key: str
    label: str


@dataclass(frozen=True)
class Panel:
    """`tool` is None where what is on the screen is none, and `broken` says why. `name` is the one
    it is saved under, "" for none. `others` are problems of no single field; `off` says that it is
    switched off. `text` is the JSON of mode json. `seen` goes back with Run (engine/try_tool)."""

    tool: Tool | None
    name: str = ""
    broken: str = ""
    source: str = ""
    mode: Mode = "form"
    rows: tuple[FieldRow, ...] = ()
    text: str = ""
    others: tuple[Problem, ...] = ()
    unsatisfied: bool = False
    malformed: bool = False
    off: bool = False
    person: bool = False
    lifts: bool = False
    seen: str = ""
    scratch: str = ""
    past: Sequence[Past] = ()

    @property
    def verdict(self) -> tuple[str, Tone]:
        """In words, and the colour that goes with them."""
        wrong = sum(bool(row.wrong) for row in flat_rows(self.rows))
        wrong += sum(problem.kind in ("schema", "malformed") for problem in self.others)
        if self.malformed:
            return "cannot be read", "failed"
        if wrong:
            return f"{wrong} problem{'s' if wrong > 1 else ''}", "failed"
        return "valid", "ran"


@dataclass(frozen=True)
class Wire:
    """What one provider would be told. `copied` is the text to the letter, None if too long."""

    name: str
    tokens: tuple[Token, ...]
    copied: str | None
    notes: Sequence[str]


@dataclass(frozen=True)
class Shown:
    """A try as it stands. `took` is set once it ended; `changed` is the cursor to ask behind."""

    id: str
    tool: str
    source: str
    started_ms: int
    changed: int
    progress: str
    fraction: float | None
    took_ms: int | None
    result: ToolResult | None
    wires: Sequence[Wire] = ()

    @property
    def running(self) -> bool:
        return self.result is None

    @property
    def words(self) -> tuple[str, Tone]:
        if self.result is None:
            return "running", "live"
        if self.result.is_error:
            return self.result.kind.replace("_", " ") or "error", "failed"
        return "ok", "ran"

    @property
    def line(self) -> str:
        """`38 ms · 21 B · made up`"""
        if self.result is None:
            return ""
        count = sum(len(content.text.encode("utf-8", "replace")) for content in self.result.content)
        count += sum(len(content.data) * 3 // 4 for content in self.result.content)
        words = [duration(self.took_ms or 0), size(count), self.source]
        return " · ".join([*words, *(["made up"] if self.result.staged else [])])

    @property
    def pieces(self) -> list[tuple[Content, tuple[Token, ...]]]:
        """Each piece of the result with its tokens: laid out where it is JSON."""
        content = self.result.content if self.result is not None else ()
        return [(one, tokens_of(one.text) if one.type == "text" else ()) for one in content]

    @property
    def copied(self) -> str | None:
        text = self.result.text if self.result is not None else ""
        return text if len(text) <= COPIED_LIMIT else None


def tokens_of(text: str) -> tuple[Token, ...]:
    """JSON laid out with long strings cut; any other text as it came, up to a limit."""
    if text.lstrip()[:1] in ("{", "["):
        text = shortened(text)
        if len(text) <= LAYOUT_LIMIT:
            return laid_out(text)
    rest = len(text) - LAYOUT_LIMIT
    more = f"\n… {rest:,} more characters" if rest > 0 else ""
    return (Token("raw", text[:LAYOUT_LIMIT] + more),)


def laid(text: str) -> str:
    """JSON text laid out for an editor; its digits stay."""
    return "".join(token.text for token in laid_out(text))


def wire(protocol: str, text: str, notes: Sequence[str]) -> Wire:
    """One provider's words for the eye."""
    copied = text if len(text) <= COPIED_LIMIT else None
    return Wire(NAMES.get(protocol, protocol), tokens_of(text), copied, notes)


def try_panel(env: Environment, panel: Panel, shown: Shown | None = None) -> str:
    """The whole panel, its id `try`."""
    return env.get_template("_try.html").render(panel=panel, shown=shown)


def try_page(env: Environment, panel: Panel, shown: Shown | None, back: str) -> str:
    """The panel as a page of its own, for who has no script."""
    return env.get_template("try.html").render(panel=panel, shown=shown, back=back)


def try_arguments(env: Environment, panel: Panel) -> str:
    """The panel but its result, as pieces for htmx: the tool or the way to write has changed."""
    html = env.get_template("_try_arguments.html").render(panel=panel)
    return partial("try-arguments", "outerMorph", html)


def try_checked(env: Environment, panel: Panel) -> str:
    """The verdict and the sentence of each field, as pieces for htmx: no input is touched."""
    pieces = [
        partial("try-verdict", "outerMorph", _verdict(env, panel)),
        partial("try-acts", "outerMorph", env.get_template("_try_acts.html").render(panel=panel)),
    ]
    macros = env.get_template("_fields.html").make_module()
    for row in flat_rows(panel.rows):
        pieces.append(partial(f"try-wrong-{row.number}", "outerMorph", macros.wrong("try", row)))  # type: ignore[attr-defined]
    return "".join(pieces)


def try_said(env: Environment, sentence: str, tone: str = "failed") -> str:
    """Why what was asked could not be done, in the place of the verdict; in the tone `told` where
    nothing went wrong."""
    html = env.get_template("_try_verdict.html").render(panel=None, sentence=sentence, tone=tone)
    return partial("try-verdict", "outerMorph", html)


def try_result(env: Environment, shown: Shown) -> str:
    """What came of it, or how far it is, as a piece for htmx."""
    html = env.get_template("_try_result.html").render(shown=shown)
    return partial("try-result", "outerMorph", html)


def _verdict(env: Environment, panel: Panel) -> str:
    return env.get_template("_try_verdict.html").render(panel=panel, sentence="")
