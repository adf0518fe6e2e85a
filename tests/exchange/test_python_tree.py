"""Python is read to the same depth by every version of Python."""

from __future__ import annotations

import ast

import pytest

from playground.exchange.parsers import UnreadableText
from playground.exchange.python_source import parse_module
from playground.exchange.python_tree import (
    MOST_NESTED,
    expression_text,
    is_nested_deeper,
    parse_expression,
)


def test_is_nested_deeper_counts_levels_below_the_root() -> None:
    tree = ast.parse("x", mode="eval")  # Expression, Name, Load
    assert is_nested_deeper(tree, 1)
    assert not is_nested_deeper(tree, 2)


@pytest.mark.parametrize("source", ["x = " + "-" * 1_100 + "1", "x = y" + ".y" * 1_100])
def test_parse_module_beyond_the_limit_refuses(source: str) -> None:
    """Every supported Python parses these."""
    assert is_nested_deeper(ast.parse(source), MOST_NESTED)
    with pytest.raises(UnreadableText, match="nested too deep"):
        parse_module(source)


def test_parse_module_below_the_limit_reads() -> None:
    branches = "".join(f"elif x == {number}:\n    pass\n" for number in range(900))
    assert parse_module(f"if x:\n    pass\n{branches}").body


@pytest.mark.parametrize("text", ["", "x =", "x" + ".x" * 150, "-" * 90_000 + "1"])
def test_parse_expression_of_what_is_none_or_too_deep_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="expression"):
        parse_expression(text)


def test_expression_text_is_one_line_or_an_ellipsis() -> None:
    assert expression_text(parse_expression("f(1,\n  'a')")) == "f(1, 'a')"
    assert expression_text(ast.parse("x" + ".x" * 150, mode="eval").body) == "…"
