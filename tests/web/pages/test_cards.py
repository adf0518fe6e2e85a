"""A turn with many calls: its page shows a hundred cards, and the rest as one asks for it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from anyio.from_thread import BlockingPortal

from playground.core.events import CallDecided
from playground.core.session import Session
from playground.core.tools import Tool
from playground.engine.decisions import DecisionRequest
from playground.engine.engine import Engine
from playground.render.wire_rows import SHOWN
from playground.simulator.scenario import scenario
from playground.web.app import make_app
from playground.web.session import routes as session_pages
from playground.web.site import Site
from playground.web.stream import Cursor, _next_messages
from tests.engines import events_of, run_engine, run_prompt
from tests.markup import joined_tags
from tests.web.asking import BEARER, HERE, PAGE, PORT, TOKEN, call, scope_of

pytestmark = pytest.mark.anyio

NOTE = Tool("note", "", {"type": "object"}, "mock", {"result": "noted"}, parallel_safe=True)
CALLS = 130

DRAWN = [
    ("session_page", ""),
    pytest.param("more_cards_shown", "/cards/1?shown=1.200", marks=pytest.mark.slow),
    pytest.param("block", "/blocks/flow", marks=pytest.mark.slow),
]


async def silent(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("The simulator was reached.")


@dataclass
class Served:
    """A session whose one turn made many calls, which wait, and the pages of its server."""

    engine: Engine
    site: Site
    app: Any
    session: Session

    async def page(self, path: str = "") -> str:
        target = f"/sessions/{self.session.id}{path}"
        answer = await call(self.app, scope_of("GET", target, [("host", HERE), BEARER, PAGE]))
        assert answer.status == 200, answer.body
        return answer.body.decode()

    async def next_message(self, cursor: Cursor) -> str:
        return await _next_messages(self.site, self.session.id, cursor, slow=True)


@pytest.fixture
async def card_server(tmp_path: Path) -> AsyncIterator[Served]:
    calls = [{"name": "note", "arguments": {"n": number}} for number in range(CALLS)]
    script = scenario(json.dumps({"turns": [{"calls": calls, "pace": 0}]}))
    async with run_engine(tmp_path, scenario=script) as engine:
        session = await run_prompt(engine, "go", NOTE)
        assert len(session.waiting) == CALLS
        app, site = make_app(engine, token=TOKEN, port=lambda: PORT, simulator=silent)
        yield Served(engine, site, app, session)
        site.close()


def cards(html: str) -> int:
    return joined_tags(html).count("<article ")


def at_one_key(html: str) -> int:
    """How many calls the button runs that runs several."""
    form = re.search(r'id="run-all">(.*?)</form>', html, re.DOTALL)
    assert form is not None
    return form[1].count('name="call"')


async def test_a_hundred_are_shown_and_the_rest_with_a_click(card_server: Served) -> None:
    html = await card_server.page()
    assert (cards(html), at_one_key(html)) == (100, 100)
    assert "Run 100 of 130" in html
    assert "Show 30 more of 30 calls" in html
    (link,) = re.findall(r'hx-get="/sessions/\w+(/cards/1\?[^"]+)"', html)
    more = await card_server.page(link)
    assert (cards(more), at_one_key(more)) == (30, 130)
    assert more.count('hx-target="#parts-1" hx-swap="beforeend"') == 30
    assert "&amp;shown=1.200" in more  # the stream goes on with them
    # The same link without a script, and after a reload.
    again = await card_server.page("?shown=1.200")
    assert (cards(again), at_one_key(again)) == (130, 130)
    assert not re.search(r"more of \d+ calls", again)
    few = await card_server.page("/cards/1?shown=1.40")  # fewer than a page has anyway
    assert cards(few) == 40
    framed = await card_server.page("?column=1")
    assert (cards(framed), "Open the session to see 30 more calls" in framed) == (100, True)


async def test_the_wire_shows_its_ends_and_the_rows_between_with_clicks(
    card_server: Served,
) -> None:
    rows, row_ids = r'id="wirerow-1-(\d+)"', await card_server.page("?tab=wire")
    first = [int(number) for number in re.findall(rows, row_ids)]
    count = first[-1] + 1
    assert count > 3 * SHOWN
    assert first == [*range(SHOWN), *range(count - SHOWN, count)]
    assert f"Show 100 more of {count - 2 * SHOWN} rows" in row_ids
    between: list[int] = []
    while links := re.findall(r'hx-get="/sessions/\w+(/recordings/1/rows[^"]+)"', row_ids):
        row_ids = await card_server.page(links[0].replace("&amp;", "&"))
        between += [int(number) for number in re.findall(rows, row_ids)]
    assert between == [*range(SHOWN, count - SHOWN)]


async def test_the_button_decides_what_was_shown_and_nothing_else(card_server: Served) -> None:
    """Its form names each call with what its card showed: the server adds none."""
    fields = re.findall(r'name="call" value="([^"]+)"', await card_server.page())
    shown_calls = list(card_server.session.calls())[:100]
    assert fields == [f"{call.id} {call.digest}" for call in shown_calls]
    hidden = list(card_server.session.calls())[100]
    named = [("call", field) for field in fields[:-1]] + [
        ("call", f"{hidden.id} {shown_calls[0].digest}")
    ]
    body = urlencode([("decision", "run"), *named]).encode()
    form = ("content-type", "application/x-www-form-urlencoded")
    target = f"/sessions/{card_server.session.id}/decisions"
    asked_for = scope_of("POST", target, [("host", HERE), BEARER, form])
    outcomes = json.loads((await call(card_server.app, asked_for, [body])).body)
    assert [outcome["call"] for outcome in outcomes if outcome["ok"]] == [
        call.id for call in shown_calls[:-1]
    ]
    decided = events_of(await card_server.engine.log.events(card_server.session.id), CallDecided)
    assert [item.call_id for item in decided] == [call.id for call in shown_calls[:-1]]


@pytest.mark.slow
async def test_the_replay_shows_as_many(card_server: Served) -> None:
    at = f"?at={card_server.session.seq}"
    html = await card_server.page(at)
    assert cards(html) == 100
    assert f'href="/sessions/{card_server.session.id}{at}&amp;shown=1.200"' in html
    assert cards(await card_server.page(f"/cards/1{at}&shown=1.200")) == 30
    assert cards(await card_server.page(f"{at}&shown=1.200")) == 130
    moment = f"/replay/at?seq={card_server.session.seq}"
    assert cards(json.loads(await card_server.page(moment))["html"]) == 100
    assert cards(json.loads(await card_server.page(f"{moment}&shown=1.200"))["html"]) == 130


async def test_a_stream_tells_of_what_its_page_shows(card_server: Served) -> None:
    usual = Cursor(card_server.engine.sessions.position, -1)
    all_of_it = Cursor(card_server.engine.sessions.position, -1, shown={1: 200})
    hidden = list(card_server.session.calls())[119]
    await card_server.engine.runner.decide(
        card_server.session.id, hidden.id, DecisionRequest("deny", hidden.digest)
    )
    block_id = f"call-{hidden.id.replace('.', '-')}"
    output = await card_server.next_message(usual)
    assert f'hx-target="#{block_id}"' not in output
    assert 'hx-target="#more-1"' in output
    assert f'hx-target="#{block_id}"' in await card_server.next_message(all_of_it)


async def test_what_is_no_turn_is_not_there(card_server: Served) -> None:
    for path in ("2", "0", "x", "1_0"):
        scope = scope_of(
            "GET",
            f"/sessions/{card_server.session.id}/cards/{path}",
            [("host", HERE), BEARER, PAGE],
        )
        assert (await call(card_server.app, scope)).status in (404, 422)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "path"), DRAWN)
async def test_nobody_waits_for_the_session_while_its_page_is_drawn(
    name: str, path: str, card_server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of calls take their time, and Stop must not wait for that: the session is free, and
    what happens to it meanwhile is not on the page."""
    async with card_server.engine.sessions.lock_session(card_server.session.id) as live:
        pass
    drawn, lock_states = getattr(session_pages, name), list[bool]()

    def drawing(*arguments: Any) -> Any:
        lock_states.append(live.lock.locked())
        portal.call(card_server.engine.runner.stop, live.id)
        return drawn(*arguments)

    monkeypatch.setattr(session_pages, name, drawing)
    async with BlockingPortal() as portal:
        assert "need approval" in await card_server.page(path) or name == "block"
    assert lock_states == [False]
    assert live.session.stopped


@pytest.mark.slow
async def test_a_page_does_not_read_all_bytes_that_came(
    card_server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls that were left out are no events, and their bytes are there."""
    monkeypatch.setattr(session_pages, "LONG_BYTES", 1000)
    assert card_server.session.seq < session_pages.LONG
    assert cards(await card_server.page()) == 100
    async with card_server.engine.sessions.lock_session(card_server.session.id) as live:
        assert live.wire is None
    assert 'id="wirerow-1-0"' in await card_server.page("?tab=wire")


async def test_blocks_come_by_their_ids_each_for_its_place(card_server: Served) -> None:
    came = await card_server.page("/blocks?ids=turn-1,wire-1&shown=1.200")
    assert re.findall(r'hx-target="#([\w-]+)" hx-swap="outerMorph"><section', came) == [
        "turn-1",
        "wire-1",
    ]
    assert cards(came) == 130
    assert await card_server.page("/blocks?ids=turn-1,wire-1,turn-1&shown=1.200") == came
    many = ",".join(f"turn-{number}" for number in range(1, 102))
    for ids, status in (("turn-9", 404), (many, 422)):
        target = f"/sessions/{card_server.session.id}/blocks?ids={ids}"
        output = await call(
            card_server.app, scope_of("GET", target, [("host", HERE), BEARER, PAGE])
        )
        assert output.status == status
