"""The next request for the eye: laid out for a narrow column, or to the byte.

The layout keeps the digits and the order of what will be sent. Knows nothing of how a request is
made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment

from app.core.events import RequestSent
from app.render.arguments import LAYOUT_LIMIT, Token
from app.render.filters import clip, number

LONG_TEXT = 4000
LONG_DATA = 200
"""Texts longer than this are shortened in the layout; of data without spaces, less is shown."""
EXACT_LIMIT = 64 * 1024
"""Characters of a body that are shown to the byte at once."""
COPIED_LIMIT = 200_000
"""A longer body is fetched when it is copied, and not kept in the page."""

NAMES = {
    "anthropic": "Anthropic",
    "openai_chat": "OpenAI Chat",
    "openai_responses": "OpenAI Responses",
    "gemini": "Gemini",
    "ollama": "Ollama",
}
"""What a protocol is called where a person reads of it."""
SHORT_NAMES = {**NAMES, "openai_responses": "Responses"}
"""The same where there is little room."""

_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_DATA = re.compile(r"[A-Za-z0-9+/=_-]+")
_ESCAPE_AT_END = re.compile(r"(\\+)(?:u[0-9A-Fa-f]{0,3})?\Z")
_KEPT = 80
_WIDTH = 48


@dataclass(frozen=True)
class NextRequest:
    """`wire` is the protocol that was picked, "" for the session's own. See engine/preview."""

    profile: str
    sent: RequestSent
    notes: Sequence[str] = ()
    says: Sequence[str] = ()
    failed: str = ""
    wire: str = ""

    @property
    def name(self) -> str:
        return NAMES.get(self.sent.protocol, self.sent.protocol)

    @property
    def size(self) -> int:
        return len(self.sent.body.encode("utf-8", "replace"))

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The body laid out; too long or too deep a one comes back as it is, in part."""
        text = shortened(self.sent.body)
        try:
            value = json.loads(text, parse_int=_Digits, parse_float=_Digits)
            if len(text) <= LAYOUT_LIMIT:
                return tuple(_layout(value, 0))
        except (ValueError, RecursionError):
            pass
        return (Token("raw", clip(text, LAYOUT_LIMIT)),)

    @property
    def exact(self) -> str:
        return self.sent.body[:EXACT_LIMIT]

    @property
    def more(self) -> int:
        """Characters that `exact` leaves out."""
        return max(len(self.sent.body) - EXACT_LIMIT, 0)

    @property
    def copied(self) -> str | None:
        """All that is copied, or None where it has to be fetched for that."""
        return self.sent.body if len(self.sent.body) <= COPIED_LIMIT else None


@dataclass(frozen=True)
class _Digits:
    """A number as it was written."""

    text: str


def _layout(value: Any, depth: int) -> Iterator[Token]:
    """The tokens of a JSON value, two columns deeper with each container that needs lines."""
    match value:
        case dict() if value:
            pairs = [
                [Token("key", _text(name)), Token("mark", ": "), *_layout(item, depth + 1)]
                for name, item in value.items()
            ]
            yield from _container("{", pairs, "}", depth)
        case list() if value:
            yield from _container("[", [list(_layout(v, depth + 1)) for v in value], "]", depth)
        case _Digits():
            yield Token("number", value.text)
        case str():
            yield Token("string", _text(value))
        case dict() | list():
            yield Token("mark", "{}" if isinstance(value, dict) else "[]")
        case _:
            yield Token("word", json.dumps(value))


def _container(start: str, items: Iterable[list[Token]], end: str, depth: int) -> Iterator[Token]:
    """On one line where that is short, else a line for each item."""
    items = list(items)
    length = sum(len(token.text) + 2 for item in items for token in item)
    flat = length + 2 * depth <= _WIDTH and not any("\n" in t.text for i in items for t in i)
    inner, outer = ("", "") if flat else ("\n" + "  " * (depth + 1), "\n" + "  " * depth)
    yield Token("mark", start + inner)
    for place, item in enumerate(items):
        if place:
            yield Token("mark", ", " if flat else "," + inner)
        yield from item
    yield Token("mark", outer + end)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def shortened(text: str) -> str:
    """JSON text with its long strings cut, each saying how much it was; it stays JSON."""
    return _STRING.sub(lambda found: _short(found[0]), text)


def _short(quoted: str) -> str:
    is_data = _DATA.fullmatch(quoted, 1, len(quoted) - 1) is not None
    if len(quoted) - 2 <= (LONG_DATA if is_data else LONG_TEXT):
        return quoted
    start = quoted[1 : 1 + (_KEPT if is_data else LONG_TEXT // 2)]
    cut = _ESCAPE_AT_END.search(start)
    if cut is not None and len(cut[1]) % 2:  # an odd backslash begins an escape that was cut
        start = start[: cut.end(1) - 1]
    return f'"{start}… {number(len(quoted) - 2 - len(start))} more characters"'


def request_fragment(env: Environment, request: NextRequest) -> str:
    """The panel's content, its id `request`."""
    return env.get_template("_request_next.html").render(request=request)


def setup_notes(env: Environment, session_id: str, request: NextRequest) -> str:
    """What the profile cannot say, as the line below it in Setup; its id `setup-notes`."""
    return env.get_template("_setup_notes.html").render(request=request, session_id=session_id)
