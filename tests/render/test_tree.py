"""The tree of forks, and the rows of the list with forks below their parents."""

from __future__ import annotations

import pytest

from playground.render.view import SessionRow, nest_forks, rows_by_age
from playground.web.forks import family_tree


def member(name: str, parent: str = "") -> tuple[str, str, str, str, str]:
    return (name, f"Title {name}", "idle", parent, "before turn 2" if parent else "")


@pytest.mark.parametrize(
    ("family", "leaves"),
    [
        ([member("a")], [("a", 0)]),
        (
            [member("a"), member("b", "a"), member("c", "a"), member("d", "b")],
            [("a", 0), ("b", 1), ("d", 2), ("c", 1)],
        ),
        ([member("p", "gone"), member("q", "gone")], [("gone", 0), ("p", 1), ("q", 1)]),
        ([member("x", "y"), member("y", "x")], [("x", 0), ("y", 1)]),
        ([], []),
    ],
)
def test_a_family_stands_as_a_tree(
    family: list[tuple[str, str, str, str, str]], leaves: list[tuple[str, int]]
) -> None:
    tree_rows = family_tree(family, "a")
    assert [(tree_row.id, tree_row.depth) for tree_row in tree_rows] == leaves
    assert [tree_row.id for tree_row in tree_rows if tree_row.here] == [
        row[0] for row in family if row[0] == "a"
    ]
    assert all(tree_row.state == "" for tree_row in tree_rows if tree_row.id == "gone")


def rows(*names: str) -> list[SessionRow]:
    """`b<a` is a row b that was forked from a."""
    pairs = [name.partition("<") for name in names]
    return [SessionRow(text, text, "idle", 0, parent=parent) for text, _, parent in pairs]


@pytest.mark.parametrize(
    ("newest_first", "drawn"),
    [
        (["a", "b"], ["a", "b"]),
        (["n", "b<a", "m", "a"], ["n", "a", ">b", "m"]),
        (["d<b", "c<a", "b<a", "a"], ["a", ">c", ">b", ">>d"]),
        (["b<gone", "a"], ["b", "a"]),
        (["x<y", "y<x", "z"], ["y", ">x", "z"]),
        (["s<s"], ["s"]),
        (["e<d", "d<c", "c<b", "b<a", "a"], ["a", ">b", ">>c", ">>>d", ">>>e"]),
    ],
)
def test_a_fork_stands_below_its_parent_and_a_family_where_its_newest_stood(
    newest_first: list[str], drawn: list[str]
) -> None:
    assert [">" * depth + row.id for row, depth in nest_forks(rows(*newest_first))] == drawn


def test_what_an_agent_did_on_the_side_stands_in_the_part_of_its_session() -> None:
    day = 86_400_000
    now = 30 * day
    rows = [
        SessionRow("side", "a title", "idle", now - 1, above="top"),
        SessionRow("alone", "mine", "idle", now - 2 * day),
        SessionRow("top", "work", "idle", now - 3 * day),
        SessionRow("lost", "a title", "idle", now - 20 * day, above="deleted"),
        SessionRow("ahead", "of a clock that went back", "idle", now + day),
    ]
    assert [(label, [row.id for row in part]) for label, part in rows_by_age(rows, now)] == [
        ("Last 24 hours", ["side", "top", "ahead"]),
        ("Last 7 days", ["alone"]),
        ("Older", ["lost"]),
    ]
