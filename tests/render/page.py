"""A page in memory: just enough of a browser to apply frames and compare the outcome."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path

from playground.core.events import Logged, SessionStarted
from playground.core.reducer import apply
from playground.core.session import Session
from playground.render.blocks import PageFrame, ancestors, block, frame
from playground.render.environment import environment
from playground.render.paging import text_pieces
from playground.render.view import View
from playground.render.wire_rows import WireRows

ENV = environment(Path(__file__).parents[2] / "templates")
ENV.globals["asset"] = "/static/{}".format
NOW_MS = 1_790_000_100_000
_VOID = {"input", "br", "hr", "img", "meta", "link", "wbr"}

_ATTRIBUTE = r"""\s+([^\s"'<>/=]+)(?:=(?:"([^"]*)"|'([^']*)'))?"""
_MARKUP = re.compile(rf"<(/?)([A-Za-z][A-Za-z0-9-]*)((?:{_ATTRIBUTE})*)\s*(/?)>|<!.*?>", re.DOTALL)
_ATTRIBUTES = re.compile(_ATTRIBUTE)

BLOCKS = ("head", "flow", "pause", "bar", "dock", "tasks", "wire")

FRAME_BYTES = 40
"""The bytes that stand for one event of the wire in `tests.factories.Log`."""


@dataclass(slots=True)
class Node:
    """An element; `children` are elements and texts."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node | str] = field(default_factory=list)

    def walk(self) -> Iterator[Node]:
        left = [self]
        while left:
            node = left.pop()
            yield node
            left += [child for child in reversed(node.children) if isinstance(child, Node)]

    def find(self, id: str) -> Node | None:
        left = [self]  # `walk` would take a quarter of what the tests of frames cost
        while left:
            node = left.pop()
            if node.attributes.get("id") == id:
                return node
            left += [child for child in node.children[::-1] if child.__class__ is Node]
        return None

    @property
    def is_prose(self) -> bool:
        return self.attributes.get("class") == "prose"

    @property
    def text(self) -> str:
        return "".join(c if isinstance(c, str) else c.text for c in self.children)

    def __str__(self) -> str:
        attributes = "".join(f' {k}="{v}"' for k, v in sorted(self.attributes.items()))
        inside = "".join(str(child) for child in self.children)
        return f"<{self.name}{attributes}>{inside}</{self.name}>"


def parse(html: str) -> Node:
    """The tree of a fragment: every element must be closed, every value quoted, every other `<`
    escaped. The standard library's parser takes all there is, and three times as long."""
    opened = [Node("root")]
    at = 0
    for markup in _MARKUP.finditer(html):
        begin, end = markup.span()
        if begin > at:
            _add_text(opened[-1], html[at:begin])
        at = end
        closes, name, attributes, *_, closed_at_once = markup.groups()
        if name is None:
            continue
        name = name.lower()
        if closes:
            if name not in _VOID:
                last = opened.pop()
                assert last.name == name, f"</{name}> closes <{last.name}>"
            continue
        node = Node(name, _attributes(attributes) if attributes else {})
        opened[-1].children.append(node)
        if name not in _VOID and not closed_at_once:
            opened.append(node)
    if at < len(html):
        _add_text(opened[-1], html[at:])
    assert len(opened) == 1, f"<{opened[-1].name}> is left open"
    return opened[0]


def _attributes(written: str) -> dict[str, str]:
    return {
        name.lower(): unescape(double or single)
        for name, double, single in _ATTRIBUTES.findall(written)
    }


def _add_text(element: Node, written: str) -> None:
    assert "<" not in written, f"no markup and not escaped: {written[:200]}"
    text, here = unescape(written), element.children
    if here and isinstance(here[-1], str):
        here[-1] += text
    else:
        here.append(text)


def roots(html: str) -> list[Node]:
    """The elements at the top; text between them must be white space."""
    children = parse(html).children
    assert all(isinstance(c, Node) or not c.strip() for c in children), html[:200]
    return [child for child in children if isinstance(child, Node)]


def parse_blocks(view: View) -> Node:
    """The blocks of a session, as a page has them."""
    return parse("".join(block(ENV, view, name) for name in BLOCKS))


class Page:
    """What a browser shows of a session. `asked` are the ids of blocks that it has not got and that
    a frame has changed, so that it asks for them."""

    def __init__(self, of: View | Node) -> None:
        self.tree: Node = of if isinstance(of, Node) else parse_blocks(of)
        self.requested: list[str] = []

    @property
    def later(self) -> list[str]:
        """The ids of the blocks that are not there yet."""
        return [n.attributes["id"] for n in self.tree.walk() if "data-later" in n.attributes]

    def load(self, view: View, ids: Sequence[str]) -> Page:
        """Bring these blocks as they are now."""
        for id in ids:
            self._put(id, roots(block(ENV, view, id))[0])
        return self

    def _put(self, id: str, content: Node) -> None:
        target = self.tree.find(id)
        assert target is not None
        assert target.attributes["id"] == content.attributes["id"]
        target.attributes, target.children = content.attributes, content.children

    def apply(self, step: PageFrame) -> None:
        partials = roots(step.html)
        # Targets are looked up before any piece runs, as htmx does.
        targets = [self.tree.find(p.attributes["hx-target"].removeprefix("#")) for p in partials]
        for partial, target in zip(partials, targets, strict=True):
            content, *more = (c for c in partial.children if isinstance(c, Node))
            if more or "id" not in content.attributes:
                continue  # no block: it stands beside the session
            if target is None or (
                "data-later" in target.attributes and partial.attributes["hx-swap"] == "beforeend"
            ):
                outer = (id for id in ancestors(content.attributes["id"]) if id in self.later)
                self.requested.append(next(outer))
            elif partial.attributes["hx-swap"] == "beforeend":
                assert self.tree.find(content.attributes["id"]) is None, "appended twice"
                target.children.append(content)
            else:
                self._put(content.attributes["id"], content)
        for id, start, end, text, deltas, _, *html in step.grow:
            element = self.tree.find(id)
            assert element is not None
            assert element.attributes["data-length"] == str(start)
            prose = [c for c in element.children if isinstance(c, Node) and c.is_prose]
            raw = Node("raw", {}, element.children[len(prose) :]).text + text
            if html:
                prose, raw = [*prose, *roots(html[0])], text
            *pieces, last = text_pieces(raw) if id.startswith("text-") else [raw]
            boxes = [Node("div", {"class": "closed"}, [piece]) for piece in pieces]
            element.children = [*prose, *boxes, *([last] if last else [])]
            element.attributes |= {"data-length": str(end), "data-deltas": str(deltas)}
            counter = self.tree.find(id.replace("text-", "deltas-"))
            if counter is not None and id.startswith("text-"):
                counter.children = [str(deltas)]

    def __str__(self) -> str:
        return "\n".join(str(child) for child in self.tree.children if isinstance(child, Node))


class Live:
    """A session that is folded step by step, with its wire; `step` gives the frame of a range."""

    def __init__(self, events: list[Logged], replay: bool = False) -> None:
        self.events = events
        self.session = Session("s1")
        self.wire = WireRows()
        self.view = View(self.session, "A title", self.wire, NOW_MS, replay=replay)
        self.at = 0

    def go(self, to: int) -> list[Logged]:
        """Fold up to event number `to`; the events folded."""
        loggeds = self.events[self.at : to]
        for logged in loggeds:
            apply(self.session, logged)
            if logged.source is not None:
                self.wire.feed(logged.source.recording, logged.at_ms, frame_bytes(logged))
            self.wire.log(logged)
        self.at = to
        return loggeds

    def step(self, to: int) -> PageFrame:
        since = self.wire.version
        return frame(ENV, self.view, self.go(to), since)


def frame_bytes(logged: Logged) -> bytes:
    """One event of the wire that fills the span of `logged`."""
    kind = "content_block_delta" if "Delta" in type(logged.event).__name__ else "ping"
    return f'data: {{"type":"{kind}"'.encode().ljust(FRAME_BYTES - 3) + b"}\n\n"


def page_after(events: list[Logged], number: int) -> Page:
    """A fresh page after `number` events."""
    live = Live(events)
    live.go(number)
    return Page(live.view)


def first_drawable(events: list[Logged]) -> int:
    """How many events there must be before a page can be drawn."""
    return next(i for i, e in enumerate(events, 1) if isinstance(e.event, SessionStarted))
