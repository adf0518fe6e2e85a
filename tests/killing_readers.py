"""Readers that follow a session as a browser and a script do, over the kill and the restart of its
server, and what a page may show beside a log: the law of docs/safety.md, "What is shown before it
is saved".
"""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx

from playground.render.blocks import PageFrame
from playground.render.filters import show_hidden
from tests.render.page import Page, parse
from tests.servers import messages

STREAM = {"accept": "text/event-stream"}
SETTLED_S = 20.0
"""How long a page may take until it shows what a new one shows."""

RECONNECTS = 0.02
"""How often a reader gives its connection up, by messages."""

Log = Mapping[int, Mapping[str, Any]]
Place = tuple[int, int]
"""Of a part: the number of its turn, and its index."""


@dataclass
class PageReader:
    """A tab. `is_saved`: it follows the stream of the session, which gives saved events alone, and
    not the page's own. `cursor` is the `id:` that came last, `problems` are sentences."""

    session: str
    is_saved: bool
    chance: Random
    page: Page = field(default_factory=lambda: Page(parse("")))
    stream: str = ""
    cursor: str = ""
    problems: list[str] = field(default_factory=list)

    async def load(self, client: httpx.AsyncClient) -> None:
        """The page as it is now, and the address of its stream."""
        answer = await client.get(f"/sessions/{self.session}", headers={"accept": "text/html"})
        self.page = Page(parse(answer.text))
        address = re.search(r'hx-sse:connect="([^"]+)"', answer.text)
        assert address is not None
        own = f"/sessions/{self.session}/stream"
        self.stream = own if self.is_saved else html.unescape(address[1])

    @property
    def says_full(self) -> bool:
        """Whether this page says that nothing can be saved."""
        store = self.page.tree.find("store")
        return store is not None and "Cannot write" in store.text

    async def follow(self, client: httpx.AsyncClient) -> None:
        """Until the server is gone, or the caller ends it."""
        with suppress(httpx.HTTPError):
            while True:
                await self._connection(client)

    async def _connection(self, client: httpx.AsyncClient) -> None:
        headers = STREAM | ({"last-event-id": self.cursor} if self.cursor else {})
        async with (
            client.stream("GET", self.stream, headers=headers) as answer,
            aclosing(messages(answer)) as stream,
        ):
            async for message in stream:
                self._apply(message)
                if "id" in message and self.chance.random() < RECONNECTS:
                    return

    def _apply(self, message: Mapping[str, str]) -> None:
        if "id" in message:
            self._check_cursor(message["id"])
        if "data" not in message:
            return
        try:
            if message.get("event") == "grow":
                self.page.apply(PageFrame("", json.loads(message["data"])))
            elif "event" not in message:
                self.page.apply(PageFrame(message["data"], []))
        except (AssertionError, StopIteration) as error:
            self.problems.append(f"a frame does not fit the page: {error!r}, {message}")

    def _check_cursor(self, cursor: str) -> None:
        """Within an epoch, and for saved events ever, it only grows."""
        (before, last), (epoch, position) = _cursor(self.cursor), _cursor(cursor)
        if epoch == before and position < last:
            self.problems.append(f"the cursor went back from {self.cursor} to {cursor}")
        self.cursor = cursor

    def told_before(self, log: Log) -> Iterator[str]:
        """What this page shows, and the log, which was read after the kill, does not have."""
        yield from self.problems
        texts, ended = texts_of(log), _ended_parts(log)
        for place, text in self.growing().items():
            logged = show_hidden(texts.get(place, ""))
            may_be_ahead = not self.is_saved and text.startswith(logged)
            if not logged.startswith(text) and not may_be_ahead:
                yield f"{self._name} showed part {place} as {text!r}, logged is {logged!r}"
        for node in self.page.tree.walk():
            place_of = re.fullmatch(r"(?:part|call)-(\d+)-(\d+)", node.attributes.get("id", ""))
            if place_of is None:
                continue
            place = int(place_of[1]), int(place_of[2])
            is_open = self.page.tree.find(f"text-{place[0]}-{place[1]}") is not None
            if not is_open and place not in ended:
                yield f"{self._name} showed that part {place} has ended"
            if kind := _STATUS.get(node.attributes.get("data-status", "")):
                call = f"{place[0]}.{place[1]}"
                if not any(e["kind"] == kind and e["call_id"] == call for e in log.values()):
                    yield f"{self._name} showed {kind} of call {call}, which is not logged"

    def ahead(self, log: Log) -> int:
        """Characters that this page showed and that were lost: deltas of the last moment."""
        texts = texts_of(log)
        return sum(
            max(len(text) - len(show_hidden(texts.get(place, ""))), 0)
            for place, text in self.growing().items()
        )

    def growing(self) -> dict[Place, str]:
        """The texts of the parts that this page shows as open."""
        ids = ((node, node.attributes.get("id", "")) for node in self.page.tree.walk())
        generator = ((node, re.fullmatch(r"text-(\d+)-(\d+)", id)) for node, id in ids)
        return {(int(m[1]), int(m[2])): node.text for node, m in generator if m is not None}

    async def told_after(self, client: httpx.AsyncClient, before: str, log: Log) -> Sequence[str]:
        """What this page shows otherwise than a new one, or than the log, once it has settled.
        `before` is its cursor of before the restart; `follow` goes on meanwhile."""
        differs = ["no message came"]
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLED_S):
                while differs:
                    await asyncio.sleep(0.3)
                    fresh = PageReader(self.session, self.is_saved, self.chance)
                    await fresh.load(client)
                    differs = list(self._differs(fresh.page, log))
        if not self.is_saved and _cursor(self.cursor)[0] == _cursor(before)[0]:
            differs.append(f"the epoch of {before} went on after the restart")
        return [f"{self._name}: {sentence}" for sentence in [*self.problems, *differs]]

    def _differs(self, fresh: Page, log: Log) -> Iterator[str]:
        for name in ("flow", "head", "bar"):
            mine, other = str(self.page.tree.find(name)), str(fresh.tree.find(name))
            if mine != other:
                pairs = enumerate(zip(mine, other, strict=False))
                at = next((place for place, (a, b) in pairs if a != b), 0)
                here = slice(max(at - 60, 0), at + 100)
                yield f"#{name} is …{mine[here]}… and new …{other[here]}…"
        if growing := self.growing():
            yield f"parts go on: {sorted(growing)}"
        for place, text in _ended_parts(log).items():
            node = self.page.tree.find(f"part-{place[0]}-{place[1]}")
            for prose in node.walk() if node is not None else ():
                is_text = prose.attributes.get("class") == "prose"
                if is_text and " ".join(prose.text.split()) != " ".join(show_hidden(text).split()):
                    yield f"part {place} is {prose.text!r}, and logged {text!r}"

    @property
    def _name(self) -> str:
        return "the stream of saved events" if self.is_saved else "the page"


@dataclass
class LogReader:
    """A script that follows `/events`: `lines` by seq."""

    session: str
    lines: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    async def follow(self, client: httpx.AsyncClient, until: int | None = None) -> None:
        """From where it is, until the server is gone, or the event `until` has come."""
        after = max(self.lines, default=0)
        path = f"/sessions/{self.session}/events?after={after}"
        with suppress(httpx.HTTPError):
            async with (
                client.stream("GET", path, headers=STREAM) as answer,
                aclosing(messages(answer)) as stream,
            ):
                while after != until:
                    message = await anext(stream, None)
                    if message is None:
                        return
                    if "data" in message:
                        line = json.loads(message["data"])
                        after = self._take(line, after)
                        await self.arrived(client, line)

    def _take(self, line: Mapping[str, Any], after: int) -> int:
        seq: int = line["seq"]
        if seq != after + 1:
            self.problems.append(f"after event {after} came event {seq}")
        self.lines[seq] = line
        return seq

    async def arrived(self, client: httpx.AsyncClient, line: Mapping[str, Any]) -> None:
        """What a script does where a line of the log arrives."""


_STATUS = {
    "waiting": "call_checked",
    "running": "call_started",
    "done": "call_ended",
    "interrupted": "call_interrupted",
}
"""What must be logged where a card says that its call stands so."""


def _cursor(cursor: str) -> tuple[str, int]:
    """Its epoch, "" for none, and its position."""
    epoch, _, position = cursor.rpartition("-")
    return epoch, int(position or 0)


def texts_of(log: Log) -> dict[Place, str]:
    """What the deltas of each part make together."""
    pieces: dict[Place, list[str]] = {}
    for place, event in _parts(log, "part_delta"):
        pieces.setdefault(place, []).append(event["text"])
    return {place: "".join(several) for place, several in pieces.items()}


def _ended_parts(log: Log) -> dict[Place, str]:
    return {place: event["text"] for place, event in _parts(log, "part_ended")}


def _parts(log: Log, kind: str) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    turn = 0
    for seq in sorted(log):
        turn += log[seq]["kind"] == "request_sent"
        if log[seq]["kind"] == kind:
            yield (turn, log[seq]["index"]), log[seq]
