"""A table of rows in one test: all rows are tried, and each wrong one is named."""

from __future__ import annotations

import pytest

from tests.bounded import NotDone
from tests.tables import each_row

ROWS = [(1, "a"), pytest.param(2, "b", id="two"), (3, "c")]


def test_every_row_is_tried_and_each_wrong_one_named() -> None:
    tried = []

    @each_row("number, word", ROWS)
    def check(number: int, word: str) -> None:
        tried.append((number, word))
        assert number == 1, "not one"

    with pytest.raises(pytest.fail.Exception) as told:
        check()
    assert tried == [(1, "a"), (2, "b"), (3, "c")]
    assert "2 of 3 rows are wrong" in str(told.value)
    assert "\ntwo\n" in str(told.value)
    assert "\n3, 'c'\n" in str(told.value)
    assert "1, 'a'" not in str(told.value)


def test_a_row_that_raises_nothing_where_it_should_is_wrong() -> None:
    @each_row("text", ["1", "x"])
    def check(text: str) -> None:
        with pytest.raises(ValueError, match="invalid literal"):
            int(text)

    with pytest.raises(pytest.fail.Exception, match="1 of 2 rows"):
        check()


def test_what_ends_the_test_names_its_row() -> None:
    @each_row("number", [1, 2])
    def check(number: int) -> None:
        if number == 2:
            raise NotDone("not done")

    with pytest.raises(NotDone) as told:
        check()
    assert told.value.__notes__ == ["in the row 2"]


@each_row("number", [1, 2])
@each_row("word", ["a", "b"])
def test_tables_can_be_crossed_and_take_fixtures(
    number: int, word: str, request: pytest.FixtureRequest
) -> None:
    assert request.node.name == "test_tables_can_be_crossed_and_take_fixtures"
    assert number in (1, 2)
    assert word in ("a", "b")


@pytest.mark.anyio
@each_row("number", [1, 2])
async def test_coroutines_are_awaited(number: int) -> None:
    assert number


def test_an_empty_table_is_skipped() -> None:
    @each_row("number", [])
    def check(number: int) -> None:
        raise AssertionError

    with pytest.raises(pytest.skip.Exception):
        check()
