"""The page of a comparison: rows over several sessions, what is folded, what is cut in sight, and
hostile text that stays text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from playground.core.session_diff import Side, align, side
from playground.core.value_diff import SHOWN_TEXT, JsonChange, text_changes, visible_pieces
from playground.render.paging import CARDS, ShownCounts
from playground.render.view import SessionRow
from playground.web.compare_view import (
    MOST_CHANGES,
    CallCell,
    CompareChoice,
    ComparePage,
    align_rows,
    column,
    common_group,
    compare_page,
    groups,
)
from tests.core.sides import Turns, round_log, sided
from tests.factories import Log, settings
from tests.render.page import ENV, Node, parse

A, B, C = ("look_up", {"id": 1}), ("add_event", {"title": "x"}), ("look_up", {"id": 2})

HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(2)">"\'{{7*7}}\u202etxt\u200b'


def page_of(sides: Sequence[Side], shown: ShownCounts | None = None) -> ComparePage:
    ids = [side.id for side in sides]
    alignments = [align(sides[0], other, 0) for other in sides[1:]]
    return ComparePage(
        [
            column(side, at, alignments[at - 1] if at else None, "/first", "/without")
            for at, side in enumerate(sides)
        ],
        groups=groups(align_rows(alignments), ids, shown or {}, "/compare?here"),
    )


def sessions(*all_turns: Sequence[Turns]) -> list[Side]:
    return [sided(*turns, id=f"s{number}") for number, turns in enumerate(all_turns)]


def parse_page(sides: Sequence[Side]) -> Node:
    return parse(compare_page(ENV, page_of(sides)))


def test_a_turn_of_many_calls_shows_a_hundred_and_the_rest_on_demand() -> None:
    many = [("look_up", {"id": number}) for number in range(1_000)]
    sides = sessions([many], [[B]])
    html = compare_page(ENV, page_of(sides))
    assert html.count('class="line call"') == CARDS
    assert len(html) < 100_000  # all of them are many times that
    assert "Show 100 more of 901 calls" in html
    assert 'href="/compare?here&amp;shown=2.200#row-2"' in html
    more = compare_page(ENV, page_of(sides, {2: 200}))
    assert more.count('class="line call"') == 200
    assert 'id="row-2"' in more
    page_html = compare_page(ENV, page_of(sides, {2: 1_100}))
    assert page_html.count('class="line call"') == 1_001
    assert "more of" not in page_html


def words_of(lines: Sequence[Sequence[CallCell | None]]) -> list[list[Any]]:
    return [
        [call_cell and (call_cell.id, call_cell.how, *call_cell.words) for call_cell in line]
        for line in lines
    ]


def test_equal_turns_are_folded_and_others_stand_open() -> None:
    groups = page_of(sessions([[A], [A], [B], "x"], [[A], [A], [C], "x"])).groups
    assert [(group.equal, group.words, len(group.lines)) for group in groups] == [
        (True, "2 turns equal", 3),
        (False, "1 turn equal", 1),
        (True, "1 turn equal", 1),
    ]
    assert [line.brief for line in groups[0].lines] == ["Go.", "look_up", "look_up"]


def test_calls_stand_beside_those_they_are_compared_with() -> None:
    sides = sessions([[A, B]], [[C, B]], [[B, A]], [[B], [A, A]])
    (line, extra) = page_of(sides).groups[1].lines
    assert words_of(line.calls) == [
        [
            ("1.0", "reference"),
            ("1.0", "other", "different arguments"),
            ("1.1", "other", "out of order"),
            ("2.0", "other", "in turn 2"),
        ],
        [
            ("1.1", "reference"),
            ("1.1", "same", "same"),
            ("1.0", "same", "same"),
            ("1.0", "same", "same"),
        ],
    ]
    assert [cell and cell.how for cell in extra.cells] == [None, None, None, "extra"]
    assert words_of(extra.calls) == [[None, None, None, ("2.1", "extra", "extra")]]
    first = line.calls[0][1]
    assert first is not None
    assert first.changed.changes == (JsonChange("/id", "changed", "1", "2"),)
    assert first.href == "/sessions/s1#call-1-0"


def test_a_session_without_turns_misses_all() -> None:
    compare_page = page_of(sessions([[A], "x"], []))
    assert compare_page.columns[1].note == "No turns yet."
    assert list(compare_page.columns[1].measures) == ["0 turns", "0 calls"]
    assert list(compare_page.columns[1].words[:2]) == ["1 call missing", "2 turns missing"]
    hows = [line.cells[1] and line.cells[1].how for line in compare_page.groups[1].lines]
    assert hows == ["missing", "missing"]


def test_another_model_is_said_where_it_begins() -> None:
    def side_with_models(*models: str) -> Side:
        log = Log().start()
        for model in models:
            log.prompt().request(model=model).part(0, "text", model).end("stop")
        return side(log.session())

    groups = page_of([side_with_models("a", "a", "a"), side_with_models("a", "b", "b")]).groups
    notes = [line.cells[1].notes for group in groups for line in group.lines[-1:]
             if len(line.cells) > 1 and line.cells[1] is not None]  # fmt: skip
    assert [list(note) for note in notes] == [["different model"], []]


def test_columns_are_told_apart_and_the_same_text_is_said() -> None:
    def side_with_profile(profile: str) -> Side:
        result = settings(profile=replace(settings().profile, name=profile))
        log = Log().start(result).prompt().request().part(0, "text", "Hello.").end("stop")
        return side(log.session(profile))

    html = compare_page(ENV, page_of([side_with_profile("mine"), side_with_profile("other")]))
    assert ("· mine ·" in html, "· other ·" in html) == (True, True)
    assert html.count(">same text<") == 1
    assert html.count("Hello.</p>") == 1


def test_a_prompt_stands_beside_no_turn() -> None:
    more = side(round_log("z", prompt="More", log=round_log("x")).session("more"))
    lines = [
        line
        for group in page_of([*sessions(["x"], ["x", "y"]), more]).groups
        for line in group.lines
    ]
    rows = [(line.kind, [cell and cell.label for cell in line.cells]) for line in lines[2:]]
    assert rows == [
        ("turn", [None, "Turn 2", None]),
        ("prompt", [None, None, "Prompt 2"]),
        ("turn", [None, None, "Turn 2"]),
    ]


def test_what_is_in_common_is_one_fold() -> None:
    (side,) = sessions([[A], "x"])
    group = common_group(side, 3)
    assert group is not None
    assert (group.words, [line.cells[0].label for line in group.lines if line.cells[0]]) == (
        "2 turns in common",
        ["Prompt 1", "Turn 1", "Turn 2"],
    )
    assert common_group(side, 0) is None


def test_hostile_text_stays_text() -> None:
    calls = (HOSTILE, {HOSTILE: HOSTILE}, HOSTILE), (HOSTILE, {HOSTILE: "x", "more": HOSTILE}, "y")
    sides = [
        sided([calls[0]], HOSTILE, prompt="<b>One</b>", id="a"),
        sided([calls[1]], HOSTILE + "!", prompt=HOSTILE, id="b"),
    ]
    page = page_of(sides)
    row = SessionRow("a", HOSTILE, "idle", 0)
    page = ComparePage(page.columns, groups=page.groups, notices=[HOSTILE], copied=HOSTILE,
                       choices=[CompareChoice(row, "fork", True)], query=HOSTILE)  # fmt: skip
    html = compare_page(ENV, page)
    tree = parse(html)
    names = {node.name for node in tree.walk()}
    assert not names & {"img", "b>"}
    assert all("src" in node.attributes for node in tree.walk() if node.name == "script")
    assert "onerror" not in {key for node in tree.walk() for key in node.attributes}
    assert html.count("\u202e") <= 2  # in form fields alone, which give back what was typed
    assert "7*7" in html
    assert "49" not in html


def test_what_is_cut_in_sight_says_how_much_is_left_out() -> None:
    many = {f"k{number}": number for number in range(100)}
    other = {name: -1 - number for name, number in many.items()}
    big = "word " * 200_000
    sides = [
        sided([("t", many), ("u", {"x": big})], big, id="a"),
        sided([("t", other), ("u", {"x": big + "end"})], "short " + big, id="b"),
    ]
    html = compare_page(ENV, page_of(sides))
    assert f"and {100 - MOST_CHANGES} more" in html
    assert len(html) < 60_000
    assert "characters" in html
    pieces = visible_pieces(text_changes(big + "a" + big, big + "b" + big))
    assert [piece.how for piece in pieces] == ["same", "removed", "added", "same"]
    assert all(len(piece.text) < SHOWN_TEXT + 200 for piece in pieces)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_column_for_each(count: int) -> None:
    text_lists: list[Sequence[Turns]] = [[[A], "x"], [[B], "x"], [[C], "x"], ["x"]]
    tree = parse_page(sessions(*text_lists[:count]))
    lines = [n for n in tree.walk() if "line" in n.attributes.get("class", "").split()]
    cells = [
        sum(isinstance(c, Node) and "cell" in c.attributes.get("class", "") for c in n.children)
        for n in lines
    ]
    assert set(cells) == {count}
