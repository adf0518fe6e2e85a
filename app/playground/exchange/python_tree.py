"""Bounds for the syntax trees of Python, whose own limits depend on the version of Python."""

from __future__ import annotations

import ast

MOST_NESTED = 1_000
"""A module nested deeper is not read. `elif` counts, and each `+` of a long sum."""
_MOST_WRITTEN = 100


def is_nested_deeper(tree: ast.AST, most: int) -> bool:
    """Whether `tree` has more than `most` levels below its root."""
    level = [tree]
    for _ in range(most + 1):
        level = [inner for node in level for inner in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True


def parse_expression(text: str) -> ast.expr:
    """The syntax tree of one expression. ValueError if it is none, or nested too deep."""
    try:
        expression = ast.parse(text, mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:  # the last two: too deep
        raise ValueError(f"this is not an expression: {error}") from None
    if is_nested_deeper(expression, _MOST_WRITTEN):
        raise ValueError("this expression is nested too deep")
    return expression


def expression_text(node: ast.expr) -> str:
    """The code of an expression on one line, "…" if it is nested too deep to be written."""
    if is_nested_deeper(node, _MOST_WRITTEN):
        return "…"
    return " ".join(ast.unparse(node).split())
