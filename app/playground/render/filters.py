"""Template filters for single values: make hidden characters visible, sizes, times, Markdown.

All data passes `shown` on its way into HTML (the environment ensures it). Knows nothing of
sessions. Threats: model text that hides what runs, and model text that is markup (docs/safety.md
9-12).
"""

from __future__ import annotations

import json
import re
import unicodedata
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import markdown_it.token
import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

_NOT_PLAIN = re.compile(r"[^\n\t\x20-\x7e]+")
# Letters and marks by category, but invisible: fillers, and the variation selectors that can carry
# smuggled text. U+FE0E and U+FE0F are allowed, they only choose how an emoji looks.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0d]")
# Look like the plain space but are not. Normal in prose, suspicious in arguments.
_ODD_SPACE = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_LINE = re.compile("[\n\t]")
# Gaps that look like the end: wide ones (not the indentation of a line), and blank lines.
_PADDING = re.compile(r"(?<![\n ]) {9,}|(?:(?:\n|\\n)[ \t]*+){5,}")
_SMUGGLING = range(0xE0100, 0xE01F0)
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Cs", "Zl", "Zp"})
_MARKDOWN_LIMIT = 100_000
_WIDTH = 72

_TAGS = {
    *("p", "br", "hr", "strong", "em", "s", "code", "pre", "blockquote", "ul", "ol", "li", "a"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"),
}
_SCHEMES = {"http", "https", "mailto"}

_ADDED = re.compile(r"^<([a-z][a-z0-9]*(?:[-_][a-z0-9]+)+)>", re.MULTILINE)
_MOST_OPEN = 20

_MOST_SAID = 600
"""Characters of a system message from an agent that are shown unfolded."""


def show_hidden(text: str) -> str:
    """`text` with every hidden, bidi, control, tag or unassigned character as a visible escape.

    Works character by character, so `shown(a) + shown(b) == shown(a + b)`. The escapes are those
    of JSON (`\\u202e`, a pair beyond U+FFFF), so arguments mean the same when edited in this form.
    """
    return _NOT_PLAIN.sub(lambda match: _shown_run(match[0]), text)


def hidden_count(text: str) -> int:
    """How many characters of `text` are drawn as escapes by `shown`."""
    return sum(
        1
        for match in _NOT_PLAIN.finditer(text)
        for character in match[0]
        if _escape(character) is not None
    )


def show_spaces(text: str) -> str:
    """For arguments: `shown`, and every space but the plain one as an escape too."""
    return _ODD_SPACE.sub(lambda match: f"\\u{ord(match[0]):04x}", show_hidden(text))


def one_line(text: str) -> str:
    """For names: `show_spaces`, and line ends and tabs as escapes."""
    return _LINE.sub(lambda match: "\\n" if match[0] == "\n" else "\\t", show_spaces(text))


def exposed_count(text: str, *, lines: bool = False) -> int:
    """How many characters `show_spaces` draws as escapes; with `lines`, those of `one_line`."""
    odd = len(_ODD_SPACE.findall(text)) + (len(_LINE.findall(text)) if lines else 0)
    return hidden_count(text) + odd


def is_padded(text: str) -> bool:
    """Whether there are wide gaps that a reader may take for the end of the text."""
    return _PADDING.search(text) is not None


def form_text(text: str) -> Markup:
    """For form fields, whose text is sent back: unchanged but lone surrogates (no UTF-8 form)."""
    return escape(text.encode("utf-8", "replace").decode("utf-8"))


def _shown_run(run: str) -> str:
    if run.isprintable() and not _BLANK.search(run) and not _smuggles(run):
        return run
    return "".join(_escape(character) or character for character in run)


def _smuggles(run: str) -> bool:
    return any(ord(character) in _SMUGGLING for character in run if character > "\uffff")


@lru_cache(maxsize=4096)
def _escape(character: str) -> str | None:
    """The visible escape of a hidden character, or None if it can be shown."""
    code = ord(character)
    hidden = (
        unicodedata.category(character) in _HIDDEN_CATEGORIES
        or _BLANK.match(character) is not None
        or code in _SMUGGLING
    )
    if not hidden:
        return None
    if code > 0xFFFF:
        high, low = divmod(code - 0x10000, 0x400)
        return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
    return f"\\u{code:04x}"


def size(count: int, *, unit: bool = False) -> str:
    """Bytes or characters for a narrow column: `312 B`, `3.1k`, `2.0M`; bytes with their `unit`:
    `3.1 kB`."""
    if count < 1000:
        return f"{count} B"
    if unit:
        return f"{count / 1000:.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"
    return f"{count / 1000:.1f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def number(count: int) -> str:
    """`12 345`, with thin spaces as group marks."""
    return f"{count:,}".replace(",", "\u2009")


def duration(milliseconds: int) -> str:
    """`182 ms`, `1.24 s`, `12.4 s`, `3 min 05 s`."""
    if milliseconds < 1000:
        return f"{max(milliseconds, 0)} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def time_ago(at_ms: int, now_ms: int) -> str:
    """`just now`, `4 min ago`, `3 h ago`, `2 days ago`, then the date (UTC)."""
    seconds = (now_ms - at_ms) // 1000
    match seconds:
        case _ if seconds < 60:
            return "just now"
        case _ if seconds < 3600:
            return f"{seconds // 60} min ago"
        case _ if seconds < 86_400:
            return f"{seconds // 3600} h ago"
        case _ if seconds < 14 * 86_400:
            days = seconds // 86_400
            return f"{days} day{'s' if days > 1 else ''} ago"
    return exact_time(at_ms)[:10]


def exact_time(at_ms: int) -> str:
    """`2026-11-21 09:24:34 UTC`; the page's script turns it into the reader's own zone."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def clip(text: str, limit: int) -> str:
    """At most `limit` characters, with an ellipsis if text was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def pretty_json(value: Any) -> str:
    """Text unchanged; other JSON data over several lines, short values on one."""
    return value if isinstance(value, str) else _pretty(value, 0)


def _pretty(value: Any, depth: int) -> str:
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or not value or depth > 8:
        return flat
    if depth and len(flat) + 2 * depth < _WIDTH:
        return flat
    if isinstance(value, dict):
        items = [
            f"{json.dumps(k, ensure_ascii=False)}: {_pretty(v, depth + 1)}"
            for k, v in value.items()
        ]
    else:
        items = [_pretty(item, depth + 1) for item in value]
    left, right = "{}" if isinstance(value, dict) else "[]"
    inner, outer = "\n" + "  " * (depth + 1), "\n" + "  " * depth
    return left + inner + f",{inner}".join(items) + outer + right


def plural(count: int, noun: str, nouns: str = "") -> str:
    """`1 call`, `2 calls`."""
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"


@lru_cache
def _commonmark() -> MarkdownIt:
    # Without the image rule `![alt](src)` is a link: nothing is fetched unless it is clicked.
    parser = markdown_it.MarkdownIt("commonmark", {"html": False})
    return parser.enable(["table", "strikethrough"]).disable("image")


def markdown(text: str) -> Markup:
    """Model text as HTML of an allow-list: no raw HTML, no images, links that name their host."""
    if len(text) > _MARKDOWN_LIMIT:
        return Markup('<div class="raw">{}</div>').format(show_hidden(text))
    parser = _commonmark()
    tokens = parser.parse(show_hidden(text))
    for token in tokens:
        if token.children:
            token.children = _with_hosts(token.children)
    html = parser.renderer.render(tokens, parser.options, {})
    clean = nh3.clean(
        html,
        tags=_TAGS,
        attributes={"*": set(), "a": {"href"}, "ol": {"start"}},
        url_schemes=_SCHEMES,
        link_rel="noopener noreferrer nofollow",
    )
    return Markup(clean)


def _with_hosts(children: list[Token]) -> list[Token]:
    """The tokens, with the host after each link unless its text already names it."""
    result: list[Token] = []
    host, words = "", ""
    for token in children:
        if token.type == "link_open":
            host, words = _host(str(token.attrGet("href") or "")), ""
        words += token.content
        result.append(token)
        if token.type == "link_close" and host and host not in words:
            result.append(markdown_it.token.Token("text", "", 0, content=f" ({host})"))
    return result


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "unreadable address"
    return parts.netloc or parts.path


def added_pieces(text: str, role: str = "user") -> list[tuple[str, str]]:
    """Splits a prompt into (tag, text) pieces: text that an agent added to its user's words is in
    an element at the start of a line, such as `<system-reminder>`; all other text has the tag "".
    No piece is blank or left out. A long one of the system is one piece, by its first line."""
    if role == "system" and len(text) > _MOST_SAID:
        return [(text.strip().partition("\n")[0], text.strip("\n"))]
    pieces, at, unclosed = list[tuple[str, str]](), 0, set[str]()
    for match in _ADDED.finditer(text):
        tag = match[1]
        if match.start() < at or tag in unclosed:
            continue
        end = text.find(f"</{tag}>", match.end())
        if end < 0:
            unclosed.add(tag)
            if len(unclosed) == _MOST_OPEN:  # each one is searched for in the whole text
                break
            continue
        pieces += [("", text[at : match.start()]), (tag, text[match.end() : end])]
        at = end + len(tag) + 3
    pieces.append(("", text[at:]))
    return [(tag, piece.strip("\n")) for tag, piece in pieces if tag or piece.strip()]
