"""What is said of sessions that stand side by side."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from playground.core.events import RequestSent, ResponseEnded, Usage
from playground.core.session import Session, Turn
from playground.render.view import View, model_names
from playground.render.wire_rows import WireRows
from playground.web.side_by_side import Lane, lane, lanes_page, measures, pieces, status_line
from tests.factories import Log, session, settings, turn_with_calls
from tests.render.page import ENV, NOW_MS, roots

HOSTILE = "<img src=x onerror=alert(1)>\"'\u202e"


def view(log: Log | None = None, **changes: object) -> View:
    folded = session() if log is None else log.session()
    return replace(View(folded, "A title", WireRows(), NOW_MS), **changes)  # type: ignore[arg-type]


def amounts(folded: Session) -> dict[str, str]:
    return {name: much for name, much, _ in measures(folded)}


def turn(number: int, *, first: int | None, took: int, end: ResponseEnded | None) -> Turn:
    """Sent at 1000, with times since then in ms."""
    request = RequestSent(
        number, protocol="anthropic", method="POST", url="/", headers={}, body="{}", model="sim-1"
    )
    turn = Turn(number, request, settings(), seq=number + 1, sent_ms=1000, end=end)
    turn.first_part_ms = None if first is None else 1000 + first
    turn.closed_ms = None if end is None else 1000 + took
    return turn


def response_end(read: int | None, wrote: int | None, cost: float | None) -> ResponseEnded:
    return ResponseEnded("stop", usage=Usage(read, wrote), cost=cost)


def of(*turns: Turn) -> Session:
    return Session("s1", settings=settings(), turns=list(turns), items=list(turns))


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ((), ("–", "–", "–", "–", "0", "–")),
        ((turn(1, first=None, took=0, end=None),), ("–", "–", "–", "–", "0", "–")),
        ((turn(1, first=250, took=0, end=None),), ("250 ms", "–", "–", "–", "0", "–")),
        (
            (turn(1, first=250, took=750, end=response_end(10, 20, 0.5)),),
            ("250 ms", "40/s", "30", "$0.50", "0", "750 ms"),
        ),
        (  # what a provider does not say is not 0
            (turn(1, first=250, took=750, end=response_end(None, None, None)),),
            ("250 ms", "–", "unknown", "unknown", "0", "750 ms"),
        ),
        (
            (
                turn(1, first=250, took=750, end=response_end(10, 20, 0.5)),
                turn(2, first=500, took=1000, end=response_end(None, None, None)),
            ),
            ("250 ms", "40/s", "≥ 30", "≥ $0.50", "0", "1.75 s"),
        ),
        (
            (turn(1, first=5, took=5, end=response_end(1, 2, 0.0)),),
            ("5 ms", "–", "3", "$0.00", "0", "5 ms"),
        ),
    ],
)
def test_measures(turns: tuple[Turn, ...], expected: tuple[str, ...]) -> None:
    names_of = ("first token", "speed", "tokens", "cost", "calls", "model")
    assert amounts(of(*turns)) == dict(zip(names_of, expected, strict=True))


def test_measures_are_of_the_run_that_the_last_prompt_began() -> None:
    log = turn_with_calls(("get_weather", {"city": "Lima"}), ("get_weather", {"city": "Rome"}))
    assert amounts(log.session())["calls"] == "2"


@pytest.mark.parametrize(
    ("view", "open", "busy"),
    [
        (view(), True, ""),
        (view(Log().start().prompt()), False, "the model is answering"),
        (view(turn_with_calls(("get_weather", {"city": "Lima"}))), False, "decide its waiting"),
        (view(own=False), False, "from someone else"),
    ],
)
def test_who_takes_a_prompt(view: View, open: bool, busy: str) -> None:
    item = lane(view, 1)
    assert (item.open, item.busy.startswith(busy)) == (open, True)


def lanes(*states: str, **changes: object) -> list[Lane]:
    base = lane(view(), 1)
    lanes = [replace(base, number=n, id=f"s{n}", state=s) for n, s in enumerate(states, 1)]
    return [replace(lane, **changes) for lane in lanes]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lanes", "words"),
    [
        (lanes("idle", "failed"), "nothing runs"),
        (lanes("running", "idle"), "1 runs"),
        (lanes("running", "running"), "2 run"),
        (lanes("waiting", "waiting", waiting=2), "4 calls need your decision"),
        (lanes("waiting", waiting=1), "1 call needs your decision"),
        (lanes("paused", "running"), "1 runs · 1 paused"),
        (lanes("deleted", "running"), "1 runs"),
    ],
)
def test_all_in_one_line(lanes: list[Lane], words: str) -> None:
    assert status_line(lanes) == words


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        ([("a", "x"), ("b", "x")], ["a", "b"]),
        ([("a", "x"), ("a", "y"), ("b", "y")], ["x", "y", "b"]),
        ([("a", "x"), ("a", "x")], ["1. x", "2. x"]),
    ],
)
def test_each_has_a_name_that_tells_it_apart(
    models: list[tuple[str, str]], expected: list[str]
) -> None:
    assert model_names(models) == expected


def test_each_piece_is_one_element_with_its_id_and_shows_data_as_text() -> None:
    hostile = replace(
        lane(view(), 1, "/compare?x"),
        title=HOSTILE,
        model=HOSTILE,
        profile=HOSTILE,
        words=HOSTILE,
        busy=HOSTILE,
        open=False,
    )
    for id, html in pieces(ENV, [hostile, *lanes("running", "waiting", waiting=1)[1:]]).items():
        (root,) = roots(html)
        assert root.attributes["id"] == id
        assert not any(node.name == "img" or "onerror" in node.attributes for node in root.walk())
    page = lanes_page(ENV, [hostile], [HOSTILE], "e-7")
    assert "<img src=x" not in page
    assert "after=e-7" in page
    assert "style=" not in page


def test_stop_all_stands_while_something_can_be_stopped() -> None:
    for states, there in ((("idle", "failed"), False), (("idle", "paused"), True)):
        assert ("/compare/stop" in pieces(ENV, lanes(*states))["besidehead"]) is there


def test_one_that_is_deleted_says_so_and_is_sent_nothing() -> None:
    waits = view(turn_with_calls(("get_weather", {"city": "Lima"})))
    gone = lane(waits, 2, deleted=True)
    assert (gone.state, gone.words, gone.waiting, gone.open) == ("deleted", "deleted", 0, False)
    first, _, third = lanes("idle", "idle", "idle")
    drawn = pieces(ENV, [first, gone, third])
    assert re.findall('name="session" value="([^"]*)"', drawn["dock"]) == ["s1", "s3"]
    assert "Send to 2 <kbd" in drawn["dock"]
    assert "not to" not in drawn["dock"]
    assert f"/sessions/{gone.id}/restore" in drawn["lane-2"]
    assert "deleted" in drawn["pick-2"]
    assert "disabled" in pieces(ENV, [gone])["dock"]
