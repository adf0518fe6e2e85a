"""How much of a long text, a turn with many calls and a long session is shown, and what shows more.

Of a text, a portion is shown at first, and as much again with each click. The address of a block
says how much, `/sessions/ID/blocks/BLOCK?upto=N`, and without a script that of the page,
`?upto=BLOCK.N`. Lengths are in characters. A file, with no server behind it, shows all. The
arguments of a call are not cut here: what may run is looked at whole (card.py).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlencode
from weakref import ref
from zlib import crc32

from markupsafe import Markup

from app.core.late import dataclass
from app.core.session import Call, Part, Turn
from app.render.filters import markdown

if TYPE_CHECKING:
    from app.render.view import View

PORTION = 262_144
"""Characters of a text that are shown at first, and that each click adds."""

SO_FAR = 10_000
"""Characters by which the size of a text that streams grows on the page."""

_UPTO = re.compile(r"([a-z]+-[0-9]{1,9}-[0-9]{1,9})\.([0-9]{1,9})", re.ASCII)

Upto = Mapping[str, int]
"""By block id: how many characters of its text are shown, where these are not the first portion."""


@dataclass(frozen=True)
class Portion:
    """`text` is what is shown; `rest` characters more are not, of which a click shows the `next`.

    `chosen`: it was asked for. `ways` are (words, query of the block, query of the page) of what
    shows more. `of` is the same for the same text, "" where a first portion is all of it: where a
    page has more of that text than is redrawn, it keeps what it has (static/stream.js).
    """

    text: str
    rest: int
    next: int
    chosen: bool
    ways: tuple[tuple[str, str, str], ...]
    of: str = ""


def portion(view: View, block_id: str, text: str, first: int = PORTION) -> Portion:
    """What the block shows of `text`; `first` characters where it was not asked for more."""
    chosen = block_id in view.upto or block_id in view.expanded
    count = view.upto.get(block_id, first)
    of = _key(text) if view.live and len(text) > first else ""
    if not view.live or block_id in view.expanded or len(text) <= count:
        return Portion(text, 0, 0, chosen, (), of)
    rest = len(text) - count
    step = min(rest, PORTION)
    asked = [("next", count + step), ("all", len(text))] if step < rest else [("all", len(text))]
    ways = tuple((name, *_queries(view, block_id, upto)) for name, upto in asked)
    return Portion(text[:count], rest, step, chosen, ways, of)


def beyond(view: View, part: Part) -> bool:
    """Whether a part that streams has more text than is shown of it: then only its size grows."""
    return view.live and not part.ended and part.length > PORTION


def beginning(view: View, part: Part) -> str:
    """What is shown of the text of a part that streams."""
    return part.text[:PORTION] if beyond(view, part) else part.text


CLOSED, LINE = 4_096, 8_192
"""A piece of a text that streams is closed at the first line end behind so many characters, or
behind so many where no line ends: a browser lays out and draws what is closed by itself."""


def closed(text: str) -> list[str]:
    """The pieces of a text that streams, which are `text` together; the last one is still open. As
    static/stream.js closes them while it grows."""
    pieces, start = list[str](), 0
    while len(text) - start >= CLOSED:
        end = text.find("\n", start + CLOSED - 1) + 1
        if not end and len(text) - start < LINE:
            break
        end = end or text.rfind(" ", start, start + LINE) + 1 or start + LINE
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]


# Markdown while it streams: a block of the text is rendered once, when it is complete, and what is
# behind the last one is shown as it is. What is complete follows from the text so far alone, so
# that a page and its frames agree: a line of text behind a blank line ends what is before it, but
# for a list, which goes on with further items, and a fence of code, which ends where it is closed.


_FENCE = re.compile(r"( {0,3})(`{3,}(?=[^`]*$)|~{3,})")
_ITEM = re.compile(r" {0,3}(?:[-+*]|[0-9]{1,9}[.)])(?:\s|$)")


class TextBlocks:
    """Fed with a text, cut anywhere. `done` are (how much of the text it took to know that it is
    complete, HTML) of each block, in order."""

    def __init__(self) -> None:
        self.done: list[tuple[int, Markup]] = []
        self.length = 0
        self._lines: list[str] = []  # of the block that is not complete
        self._line: list[str] = []  # pieces of a line that has not ended
        self._fence, self._inner = "", False  # what closes it; whether it is in an item of a list
        self._full = self._blank = self._listed = self._doubtful = False

    @property
    def open(self) -> str:
        """What is behind the last block that is complete."""
        return "".join((*self._lines, *self._line))

    def feed(self, text: str) -> None:
        """The text goes on with `text`."""
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
            self._ended(line)

    def _ended(self, line: str) -> None:
        if self._doubtful and not _ITEM.match(line):
            self._close(self.length)
        self._doubtful = False
        if not self._full and line.isspace():
            self.done.append((self.length, Markup("")))  # nothing is seen of it
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


_READ: dict[int, tuple[ref[Part], TextBlocks, int]] = {}
"""By the id of a part that streams: how many of its pieces were read, and what they came to."""


def text_blocks(part: Part) -> TextBlocks:
    """Those of a part that streams, for all that look at it: its text is read once."""
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


def streamed(view: View, part: Part) -> tuple[Sequence[Markup], str]:
    """The blocks that are complete of a part that streams, and the text behind them."""
    if part.kind not in PROSE:
        return (), beginning(view, part)
    blocks = TextBlocks()
    if beyond(view, part):
        blocks.feed(beginning(view, part))
    else:
        blocks = text_blocks(part)
    return [html for _, html in blocks.done], blocks.open


PROSE = ("text", "refusal")
"""Kinds of parts that are Markdown."""


def so_far(length: int) -> int:
    """`length` as it is shown while it grows, so that it is not sent with each delta."""
    return length // SO_FAR * SO_FAR


def _key(text: str) -> str:
    """The same for the same text, without a copy of all of it."""
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
    """What the address of a page says; what cannot be read in it says nothing."""
    match = _UPTO.fullmatch(text)
    return {} if match is None else {match[1]: int(match[2])}


# Turns with many calls: a hundred calls at first, and as many again with each click. What is shown
# is part of a page's address and of its stream's (`shown=TURN.CALLS,...`), so that a page, its
# stream and the page when it is loaded again agree. Of a turn, what stands behind the last call
# that is shown is not shown either.


CARDS = 100
"""Calls of a turn that are shown at first, and that each click adds."""

MOST_TURNS = 100
"""Turns of which an address may say how much is shown."""

SESSION = 0
"""Stands for the session where the number of a turn is meant: of it, turns are counted."""

_SHOWN = re.compile(r"(0|[1-9][0-9]{0,8})\.([1-9][0-9]{0,5})", re.ASCII)

Shown = Mapping[int, int]
"""By the number of a turn: how many of its calls are shown, where these are not CARDS; and of the
SESSION how many of its last turns a page has at first, where these are not TURNS."""

Most = Callable[[int], int]
"""How many calls of the turn of that number are shown."""


def everything(number: int) -> int:
    """All calls of a turn are shown."""
    return sys.maxsize


def most_of(shown: Shown) -> Most:
    """How many calls of each turn a page shows that shows these."""
    return lambda number: shown.get(number, CARDS)


def shown_from(text: str) -> Shown:
    """What an address says is shown; what cannot be read in it says nothing."""
    matches = (_SHOWN.fullmatch(part) for part in text.split(",", MOST_TURNS)[:MOST_TURNS])
    return {int(match[1]): int(match[2]) for match in matches if match is not None}


def spelled(shown: Shown) -> str:
    """The same as text for an address; "" where nothing differs."""
    unusual = (item for item in sorted(shown.items()) if item[1] != (CARDS if item[0] else TURNS))
    return ",".join(f"{turn}.{count}" for turn, count in unusual)


def with_more(shown: Shown, number: int) -> Shown:
    """What is shown after a click for more of turn `number`."""
    return {**shown, number: shown.get(number, CARDS) + CARDS}


def end_of(turn: Turn, most: Most) -> int:
    """How many parts of `turn` are shown."""
    count = most(turn.number)
    return len(turn.parts) if len(turn.calls) <= count else turn.calls[count].part.index


def parts_of(turn: Turn, most: Most) -> Sequence[Part]:
    return turn.parts[: end_of(turn, most)]


def calls_of(turn: Turn, most: Most) -> Sequence[Call]:
    return turn.calls[: most(turn.number)]


def query_of(block_id: str) -> str:
    """The query that makes a page show that block, where it might not by itself: `?shown=1.200`."""
    name, _, rest = block_id.partition("-")
    turn, _, index = rest.partition("-")
    if name not in ("call", "part") or not (turn.isdecimal() and index.isdecimal()):
        return ""
    hundreds = int(index) // CARDS
    return f"?shown={spelled({int(turn): CARDS * (hundreds + 1)})}" if hundreds else ""


# Long sessions: a page has the last turns of the flow and the last sections of the wire. In the
# place of each block before them stands an empty element with its id (templates/_later.html), and
# the block comes when it is looked at, when something leads into it, or when it changes
# (static/later.js). A block that is asked for by its id is always drawn. A replay, a column and a
# file have all blocks at once.


TURNS = 30
"""Turns of the flow, with their prompts, that a page has at first."""

SECTIONS = 2
"""Sections of the wire that a page has at first; of each other the rows come when it is opened."""


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
