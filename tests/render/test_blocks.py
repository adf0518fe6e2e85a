from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.core.errors import NotFound
from playground.core.events import (
    Event,
    PartDelta,
    PartKind,
    PartStarted,
    ResponseFailed,
    ResponseStarted,
)
from playground.render import paging
from playground.render.blocks import (
    PageFrame,
    Touch,
    ancestors,
    block,
    changed_blocks,
    frame,
    pieces,
)
from playground.render.filters import markdown
from tests.factories import WEATHER, Log
from tests.factories import settings as settings_of
from tests.render.logs import STORIES
from tests.render.page import ENV, Live, Node, Page, first_drawable, page_after, parse, roots
from tests.tables import rest_slow

apart = pytest.mark.parametrize("apart", [11, pytest.param(1, marks=pytest.mark.slow)])
"""How many events lie between two looks: to draw a page anew takes longer than all its frames."""

MARKDOWN = """\
# Title

- a
- b

- c
  more

**bold** behind a list

```python
x = 1

y = *2*
```
Right behind it

~~~
z
~~~

1. one

   ```
   code

   ```

2. two

> quote

17*23 and 2*2"""


@st.composite
def cuts(draw: st.DrawFn) -> tuple[str, list[int]]:
    """A story and the places where a reader of its stream happens to look."""
    name = draw(st.sampled_from(sorted(STORIES)))
    events = STORIES[name]
    places = draw(st.sets(st.integers(first_drawable(events), len(events)), min_size=1))
    return name, [*sorted(places), len(events)]


@cache
def fresh(name: str, place: int) -> str:
    """The page of a story as it is drawn anew, for all that compare with it."""
    return str(page_after(STORIES[name], place))


@settings(deadline=None, max_examples=settings().max_examples // 2)
@given(cuts())
def test_a_page_and_its_frames_equal_a_fresh_page(case: tuple[str, list[int]]) -> None:
    name, places = case
    events = STORIES[name]
    live = Live(events)
    live.go(places[0])
    page = Page(live.view)
    for place in places[1:]:
        page.apply(live.step(place))
        assert str(page) == fresh(name, place)


@apart
@pytest.mark.parametrize("name", rest_slow(STORIES, 2))
def test_every_event_alone_makes_the_same_page(name: str, apart: int) -> None:
    events = STORIES[name]
    live = Live(events)
    live.go(1)
    page = Page(live.view)
    for place in range(2, len(events) + 1):
        page.apply(live.step(place))
        if place % apart == 0 or place == len(events):
            assert str(page) == fresh(name, place), events[place - 1].event


@apart
@pytest.mark.parametrize("name", rest_slow(STORIES, 2))
def test_it_does_so_where_texts_outgrow_what_is_shown(
    name: str, apart: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "PORTION", 9)
    monkeypatch.setattr(paging, "CLOSED", 2)
    monkeypatch.setattr(paging, "LINE", 4)
    monkeypatch.setattr(paging, "SO_FAR", 5)
    events = STORIES[name]
    looks = {*range(2, len(events) + 1, apart), len(events)}
    drawn = {place: str(page_after(events, place)) for place in looks}
    for stride in (1, 2, 5) if apart == 1 else (1,):
        live = Live(events)
        live.go(1)
        page = Page(live.view)
        for place in range(1 + stride, len(events) + 1, stride):
            page.apply(live.step(place))
            if place in looks:
                assert str(page) == drawn[place], (stride, events[place - 1].event)


@pytest.mark.parametrize("kind", rest_slow(["text", "call", "thinking"], 2))
def test_a_text_that_streams_on_and_on_sends_but_its_size(kind: PartKind) -> None:
    log = (
        Log()
        .start(settings_of(WEATHER))
        .prompt()
        .request()
        .add(PartStarted(0, kind, "get_weather"))
    )
    log.add(*(PartDelta(0, "é" * 1_000) for _ in range(3_000)))
    live = Live(log.events)
    live.go(len(log.events) - 3_000)
    page, steps = Page(live.view), list[PageFrame]()
    while live.at < len(log.events):
        steps.append(frame(ENV, live.view, live.go(live.at + 1)))
        page.apply(steps[-1])
    fresh = page_after(log.events, len(log.events))
    assert str(page.tree.find("flow")) == str(fresh.tree.find("flow"))
    text = page.tree.find("text-1-0")
    assert text is not None
    assert len(text.text) == paging.PORTION
    beyond = steps[paging.PORTION // 1_000 + 1 :]
    outputs = [step.html for step in beyond if not step.empty]
    assert not any(step.grow for step in beyond)
    assert len(outputs) <= (3_000_000 - paging.PORTION) / paging.SO_FAR + 1
    assert "3\u2009000\u2009000 characters so far" in outputs[-1]
    assert max(map(len, outputs)) < 300


@apart
@pytest.mark.parametrize("name", rest_slow(["waiting", "interleaved", "side by side"]))
def test_it_does_so_where_a_turn_shows_but_its_first_call(
    name: str, apart: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "CARDS", 1)
    events = STORIES[name]
    live = Live(events)
    live.go(1)
    page = Page(live.view)
    for place in range(2, len(events) + 1):
        page.apply(live.step(place))
        if place % apart == 0 or place == len(events):
            assert str(page) == str(page_after(events, place)), events[place - 1].event
    cards = [node for node in page.tree.walk() if node.attributes.get("class", "")[:4] == "card"]
    assert len(cards) == sum(bool(turn.calls) for turn in live.session.turns)
    assert "more of" in str(page)


@apart
@pytest.mark.parametrize("name", rest_slow(STORIES, 2))
def test_what_a_page_has_not_got_comes_as_it_is_by_then(
    name: str, apart: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = STORIES[name]
    fresh_page = fresh(name, len(events))  # which is kept: made before a page has less at first
    monkeypatch.setattr(paging, "TURNS", 1)
    monkeypatch.setattr(paging, "SECTIONS", 1)
    for start in range(first_drawable(events), len(events), 4 * apart):
        live = Live(events)
        live.go(start)
        page = Page(live.view)
        for place in range(start + 1, len(events) + 1, apart):
            page.apply(live.step(place))
            page.load(live.view, page.requested)
            page.requested.clear()
        page.apply(live.step(len(events)))
        page.load(live.view, page.later).load(live.view, page.later)  # and what came without rows
        assert not page.later
        assert str(page) == fresh_page, start


def test_of_a_long_session_a_page_has_the_last_turns_and_a_place_for_each_other() -> None:
    log = Log().start(settings_of(WEATHER))
    for _ in range(paging.TURNS + 5):
        log.prompt().request().part(0, "text", "word").end()
    live = Live(log.events)
    live.go(len(log.events))
    page = Page(live.view)
    some = range(1, 6)
    sections = range(1, len(live.session.turns) - paging.SECTIONS + 1)
    assert {*page.later} == {f"{kind}-{n}" for kind in ("prompt", "turn") for n in some} | {
        f"wire-{n}" for n in sections
    }
    for whole in (
        replace(live.view, live=False),
        replace(live.view, replay=True),
        replace(live.view, framed=True),
        replace(live.view, shown={paging.SESSION: len(live.session.turns)}),
    ):
        assert not Page(whole).later


def test_the_stories_tell_every_kind_of_event() -> None:
    types = {type(logged.event) for events in STORIES.values() for logged in events}
    assert types == set(get_args(Event))


@pytest.mark.parametrize("name", STORIES)
def test_each_block_has_one_root_that_bears_its_id(name: str) -> None:
    events = STORIES[name]
    live = Live(events)
    seen_texts: set[str] = set()
    for place in range(1, len(events) + 1):
        ids = {t.id for logged in live.go(place) for t in changed_blocks(logged, live.session)}
        ids |= {f"wirerow-{s.number}-{r.number}" for s, r, _ in live.wire.changes_since(0) if r}
        for id in ids - {"list"}:
            if id.startswith(("text-", "print-")) or id in seen_texts:
                continue
            seen_texts.add(id)
            (root,) = roots(block(ENV, live.view, id))
            assert root.attributes["id"] == id
    assert {re.sub(r"[-0-9]+", "", id) for id in seen_texts} >= {
        "head",
        "turn",
        "call",
        "part",
        "wirerow",
    }


@pytest.mark.parametrize("name", STORIES)
def test_ids_are_unique(name: str) -> None:
    page = page_after(STORIES[name], len(STORIES[name]))
    ids = [node.attributes["id"] for node in page.tree.walk() if "id" in node.attributes]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    "id", ["", "x", "head-1", "turn-0", "turn-9", "call-1-0", "part-1-1", "call-1-99", "list; x"]
)
def test_a_block_that_is_not_there(id: str) -> None:
    live = Live(STORIES["waiting"])
    live.go(len(live.events))
    with pytest.raises(NotFound, match=r"\.$"):
        block(ENV, live.view, id)


@pytest.mark.parametrize(
    ("touches", "expected"),
    [
        ([("a", "changed"), ("a", "changed")], ["a changed"]),
        ([("part-1-0", "changed"), ("part-1-0", "new")], ["part-1-0 new"]),
        ([("turn-1", "new"), ("part-1-0", "new"), ("text-1-0", "grown")], ["turn-1 new"]),
        ([("call-1-0", "changed"), ("prefix-1-0", "changed")], ["call-1-0 changed"]),
        ([("text-1-0", "grown"), ("head", "changed"), ("turn-2", "new")],
         ["turn-2 new", "head changed", "text-1-0 grown"]),
        ([("wire-1", "new"), ("wirerow-1-0", "new"), ("wirehead-1", "changed")], ["wire-1 new"]),
    ],
)  # fmt: skip
def test_pieces_draw_nothing_twice(touches: list[tuple[str, str]], expected: list[str]) -> None:
    united = pieces(Touch(id, how) for id, how in touches)  # type: ignore[arg-type]
    assert [f"{touch.id} {touch.how}" for touch in united] == expected


def test_growing_text_travels_alone() -> None:
    log = Log().start().prompt().request().part(0, "text", *["word "] * 50)
    live = Live(log.events)
    deltas = [i for i, e in enumerate(log.events, 1) if isinstance(e.event, PartDelta)]
    live.go(deltas[9])
    step = frame(ENV, live.view, live.go(deltas[29]))
    assert step.html == ""
    assert step.grow == [("text-1-0", 50, 150, "word " * 20, 30, "part-1-0")]


@pytest.mark.parametrize("stride", rest_slow([1, 4, 50]))
def test_markdown_is_rendered_a_block_at_a_time(
    stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered = list[str]()

    def note_markdown(text: str) -> str:
        rendered.append(text)
        return markdown(text)

    monkeypatch.setattr(paging, "markdown", note_markdown)
    log = Log().start().prompt().request().add(PartStarted(0, "text"))
    log.add(*(PartDelta(0, letter) for letter in MARKDOWN))
    live, begin = Live(log.events), len(log.events) - len(MARKDOWN)
    live.go(begin)
    page = Page(live.view)
    for place in [*range(begin + stride, len(log.events), stride), len(log.events)]:
        page.apply(live.step(place))
        if place % 7 == 0 or stride > 1:
            before = len(rendered)
            assert str(page.tree.find("flow")) == str(
                page_after(log.events, place).tree.find("flow")
            )
            del rendered[before:]  # a page that is loaded reads its text once
    text = page.tree.find("text-1-0")
    assert text is not None
    blocks = [child for child in text.children if isinstance(child, Node) and child.is_prose]
    kinds = [child.name for block in blocks for child in block.children if isinstance(child, Node)]
    assert kinds == ["h1", "ul", "p", "pre", "p", "pre", "ol", "blockquote"]
    # Each once, and in order; a blank line that begins one is left out.
    known = MARKDOWN[: MARKDOWN.index("17*23")].replace("~~~\n\n1", "~~~\n1")
    assert "".join(rendered) == known
    assert text.children[-1] == "17*23 and 2*2"
    rendered_text = "".join(str(child) for block in blocks for child in block.children)
    assert rendered_text == "".join(map(str, parse(markdown("".join(rendered))).children))


def test_a_delta_of_a_part_that_has_ended_meanwhile_draws_the_part() -> None:
    log = Log().start().prompt().request().part(0, "text", "a", "b")
    live = Live(log.events)
    live.go(len(log.events))
    (delta,) = [e for e in log.events if e.event == PartDelta(0, "a")]
    step = frame(ENV, live.view, [delta])
    assert 'hx-target="#part-1-0"' in step.html
    assert not step.grow


def test_every_ancestor_is_a_block() -> None:
    assert list(ancestors("text-1-0"))[-1] == "flow"
    assert list(ancestors("wirerow-2-7")) == ["wirerows-2", "wire-2", "wire"]
    assert not list(ancestors("head"))


def test_a_failure_shows_the_id_of_its_request_to_be_copied() -> None:
    log = Log().start().prompt("hi").request()
    log.events[-1] = replace(log.events[-1], event=ResponseStarted(500, {}, "req_7"))
    log.add(ResponseFailed("http", "No.", 500))
    foot = page_after(log.events, len(log.events)).tree.find("turnfoot-1")
    assert foot is not None
    assert "req_7" in foot.text
    assert "req_7" in [node.attributes.get("data-copy") for node in foot.walk()]
