"""How much of a long text, turn or session is shown, and the links to the rest.

A text first shows one portion, and another portion with each click. The address of a block says how
much, `/sessions/ID/blocks/BLOCK?upto=N`, and without a script the address of the page,
`?upto=BLOCK.N`. Lengths are in characters. An exported file has no server, so it shows everything.
The arguments of a call are not cut here: users see all that may run (card.py).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode
from weakref import ref
from zlib import crc32

from markupsafe import Markup

from playground.core.session import Call, Part, Turn
from playground.render.filters import markdown

if TYPE_CHECKING:
    from playground.render.view import View

PORTION = 262_144
"""Characters of a text that are shown at first and added by each click."""

SO_FAR = 10_000
"""The step in characters by which the displayed size of a streaming text grows."""

_UPTO = re.compile(r"([a-z]+-[0-9]{1,9}-[0-9]{1,9})\.([0-9]{1,9})", re.ASCII)

Upto = Mapping[str, int]
"""By block id: how many characters of its text are shown, if not the first portion."""

CLOSED, LINE = 4_096, 8_192
"""A piece of a streaming text is closed at the first line end after CLOSED characters, or after
LINE characters without one: a browser lays out and draws closed pieces separately."""

_FENCE = re.compile(r"( {0,3})(`{3,}(?=[^`]*$)|~{3,})")
_ITEM = re.compile(r" {0,3}(?:[-+*]|[0-9]{1,9}[.)])(?:\s|$)")

_READ: dict[int, tuple[ref[Part], TextBlocks, int]] = {}
"""By the id of a streaming part: how many of its pieces were read, and the resulting blocks."""

PROSE = ("text", "refusal")
"""Kinds of parts rendered as Markdown."""

CARDS = 100
"""Calls of a turn that are shown at first and added by each click."""

MOST_TURNS = 100
"""The maximum number of turns in the `shown` parameter of an address."""

SESSION = 0
"""Denotes the session in place of a turn number: its turns are counted, not calls."""

_SHOWN = re.compile(r"(0|[1-9][0-9]{0,8})\.([1-9][0-9]{0,5})", re.ASCII)

ShownCounts = Mapping[int, int]
"""By turn number: how many of its calls are shown, if not CARDS; for SESSION, how many of its last
turns a page has at first, if not TURNS."""

CallsShown = Callable[[int], int]
"""The number of calls shown, by turn number."""

TURNS = 30
"""Turns of the flow, with their prompts, that a page has at first."""

SECTIONS = 2
"""Sections of the wire that a page has at first; rows of others are loaded when opened."""


@dataclass(frozen=True)
class Portion:
    """`text` is shown; `rest` is the number of hidden characters, `next` how many a click adds.

    `chosen`: the length was requested. `ways` are (words, query of the block, query of the page) of
    the links to more. `of` is a key of the text, "" if a first portion is all of it: a page that
    already shows more of the same text than is redrawn keeps it (static/stream.js).
    """

    text: str
    rest: int
    next: int
    chosen: bool
    ways: tuple[tuple[str, str, str], ...]
    of: str = ""


def portion(view: View, block_id: str, text: str, first: int = PORTION) -> Portion:
    """The portion of `text` that the block shows; `first` characters if no length was requested."""
    chosen = block_id in view.upto or block_id in view.expanded
    count = view.upto.get(block_id, first)
    of = _key(text) if view.live and len(text) > first else ""
    if not view.live or block_id in view.expanded or len(text) <= count:
        return Portion(text, rest=0, next=0, chosen=chosen, ways=(), of=of)
    rest = len(text) - count
    step = min(rest, PORTION)
    asked = [("next", count + step), ("all", len(text))] if step < rest else [("all", len(text))]
    ways = tuple((name, *_queries(view, block_id, upto)) for name, upto in asked)
    return Portion(text[:count], rest=rest, next=step, chosen=chosen, ways=ways, of=of)


def has_hidden_text(view: View, part: Part) -> bool:
    """Whether a streaming part has more text than is shown: then only its size grows."""
    return view.live and not part.ended and part.length > PORTION


def beginning(view: View, part: Part) -> str:
    """The shown part of a streaming text."""
    return part.text[:PORTION] if has_hidden_text(view, part) else part.text


def text_pieces(text: str) -> list[str]:
    """The pieces of a streaming text, whose concatenation is `text`; the last one is open.
    static/stream.js closes them in the same places."""
    pieces, start = list[str](), 0
    while len(text) - start >= CLOSED:
        end = text.find("\n", start + CLOSED - 1) + 1
        if not end and len(text) - start < LINE:
            break
        end = end or text.rfind(" ", start, start + LINE) + 1 or start + LINE
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]


# Streaming Markdown: each block of the text is rendered once, when it is complete; the rest is
# shown as plain text. Completeness depends only on the text so far, so that a page and its frames
# agree: a line of text after a blank line ends the block before it, except a list, which continues
# with further items, and a code fence, which ends where it is closed.


class TextBlocks:
    """Reads a text in chunks cut anywhere. `done` has, for each block in order, (how much of the
    text was needed to know that it is complete, HTML)."""

    def __init__(self) -> None:
        self.done: list[tuple[int, Markup]] = []
        self.length = 0
        self._lines: list[str] = []  # of the incomplete block
        self._line: list[str] = []  # pieces of the incomplete line
        self._fence, self._inner = "", False  # what closes it; whether it is in a list item
        self._full = self._blank = self._listed = self._doubtful = False

    @property
    def open(self) -> str:
        """The text after the last complete block."""
        return "".join((*self._lines, *self._line))

    def feed(self, text: str) -> None:
        """Appends `text`."""
        start = 0
        while start < len(text):
            end = text.find("\n", start) + 1 or len(text)
            self._take(text[start:end])
            start = end

    def _take(self, piece: str) -> None:
        if not self._line and self._blank and not self._fence and not piece[0].isspace():
            self._doubtful = self._listed and piece[0] in "-+*0123456789"
            if not self._doubtful:
                self._close(self.length + 1)
        self._line.append(piece)
        self.length += len(piece)
        if piece[-1] == "\n":
            line = "".join(self._line)
            self._line.clear()
            self._end_line(line)

    def _end_line(self, line: str) -> None:
        if self._doubtful and not _ITEM.match(line):
            self._close(self.length)
        self._doubtful = False
        if not self._full and line.isspace():
            self.done.append((self.length, Markup("")))  # it is invisible
            return
        self._lines.append(line)
        if self._fence:
            mark = line.strip()
            if mark.startswith(self._fence) and not mark.strip(self._fence[0]):
                self._fence = ""
                if not self._inner:
                    self._close(self.length)
            return
        if match := _FENCE.match(line):
            self._fence, self._inner = match[2], self._listed and bool(match[1])
        self._full, self._blank = True, line.isspace()
        self._listed = self._listed or _ITEM.match(line) is not None

    def _close(self, known: int) -> None:
        html = Markup('<div class="prose">{}</div>').format(markdown("".join(self._lines)))
        self.done.append((known, html))
        self._lines.clear()
        self._full = self._blank = self._listed = False


def text_blocks(part: Part) -> TextBlocks:
    """The blocks of a streaming part, shared by all readers: its text is read once."""
    whose, blocks, read = _READ.get(id(part), (ref(part), TextBlocks(), 0))
    if whose() is not part or id(part) not in _READ:
        whose, blocks, read = ref(part), TextBlocks(), 0
        for key, (other, _, _) in list(_READ.items()):
            if (known := other()) is None or known.ended:
                _READ.pop(key, None)
    for piece in part.pieces[read:]:
        blocks.feed(piece)
    _READ[id(part)] = whose, blocks, len(part.pieces)
    return blocks


def streamed_blocks(view: View, part: Part) -> tuple[Sequence[Markup], str]:
    """The complete blocks of a streaming part, and the text after them."""
    if part.kind not in PROSE:
        return (), beginning(view, part)
    blocks = TextBlocks()
    if has_hidden_text(view, part):
        blocks.feed(beginning(view, part))
    else:
        blocks = text_blocks(part)
    return [html for _, html in blocks.done], blocks.open


def rounded_length(length: int) -> int:
    """`length` rounded for display while it grows, so that it is not sent with each delta."""
    return length // SO_FAR * SO_FAR


def _key(text: str) -> str:
    """Equal for equal texts, without a copy of the text."""
    check = 0
    for start in range(0, len(text), PORTION):
        check = crc32(text[start : start + PORTION].encode("utf-8", "surrogatepass"), check)
    return f"{len(text)}-{check:x}"


def _queries(view: View, block_id: str, upto: int) -> tuple[str, str]:
    where = {"at": str(view.session.seq)} if view.replay else {}
    cards = {"shown": view.cards} if view.cards else {}
    return (
        urlencode({**where, "upto": upto}),
        urlencode({**where, **cards, "upto": f"{block_id}.{upto}"}, safe=","),
    )


def upto_from(text: str) -> Upto:
    """Parses the address of a page; unreadable values are ignored."""
    match = _UPTO.fullmatch(text)
    return {} if match is None else {match[1]: int(match[2])}


# Turns with many calls: a hundred calls at first, another hundred with each click. The selection is
# part of the address of a page and of its stream (`shown=TURN.CALLS,...`), so that a page, its
# stream and the reloaded page agree. Everything in a turn after its last shown call is hidden, too.


def all_calls(number: int) -> int:
    """All calls of a turn are shown."""
    return sys.maxsize


def most_of(shown: ShownCounts) -> CallsShown:
    """The number of calls of each turn that a page with this selection shows."""
    return lambda number: shown.get(number, CARDS)


def shown_from(text: str) -> ShownCounts:
    """Parses the selection of an address; unreadable values are ignored."""
    matches = (_SHOWN.fullmatch(part) for part in text.split(",", MOST_TURNS)[:MOST_TURNS])
    return {int(match[1]): int(match[2]) for match in matches if match is not None}


def format_shown(shown: ShownCounts) -> str:
    """The selection as text for an address; "" if it is the default."""
    unusual = (item for item in sorted(shown.items()) if item[1] != (CARDS if item[0] else TURNS))
    return ",".join(f"{turn}.{count}" for turn, count in unusual)


def show_more(shown: ShownCounts, number: int) -> ShownCounts:
    """The selection after a click for more of turn `number`."""
    return {**shown, number: shown.get(number, CARDS) + CARDS}


def end_of(turn: Turn, most: CallsShown) -> int:
    """How many parts of `turn` are shown."""
    count = most(turn.number)
    return len(turn.parts) if len(turn.calls) <= count else turn.calls[count].part.index


def parts_of(turn: Turn, most: CallsShown) -> Sequence[Part]:
    return turn.parts[: end_of(turn, most)]


def calls_of(turn: Turn, most: CallsShown) -> Sequence[Call]:
    return turn.calls[: most(turn.number)]


def query_of(block_id: str) -> str:
    """The query that makes a page show a block that may be hidden by default: `?shown=1.200`."""
    name, _, rest = block_id.partition("-")
    turn, _, index = rest.partition("-")
    if name not in ("call", "part") or not (turn.isdecimal() and index.isdecimal()):
        return ""
    hundreds = int(index) // CARDS
    return f"?shown={format_shown({int(turn): CARDS * (hundreds + 1)})}" if hundreds else ""


# Long sessions: a page has the last turns of the flow and the last sections of the wire. Each
# earlier block is represented by an empty element with its id (templates/_later.html); the block is
# loaded when it comes into view, when a link leads into it, or when it changes (static/later.js). A
# block requested by its id is always drawn. A replay, a column and a file have all blocks at once.


def first_seq(view: View) -> int:
    """The seq of the first prompt or turn that a page has at first."""
    left, first = _most_turns(view, TURNS), 0
    for item in reversed(view.session.items):
        if isinstance(item, Turn):
            if left == 0:
                return first
            left -= 1
        first = item.seq
    return 0


def first_section(view: View) -> int:
    """The number of the first section of the wire that a page has at first."""
    return len(view.wire.sections) - _most_turns(view, SECTIONS) + 1


def _most_turns(view: View, usual: int) -> int:
    in_parts = view.live and not view.replay and not view.framed
    return view.shown.get(SESSION, usual) if in_parts else sys.maxsize
