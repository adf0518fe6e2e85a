"""Tables of tests whose rows are dear."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def rest_slow(values: Iterable[Any], quick: int = 1) -> list[Any]:
    """Rows for `parametrize`: the first `quick` run for every change, the rest with the slow tests.

    For rows that take the same way through the code. A row of several values is a tuple.
    """
    rows = list(values)
    return [*rows[:quick], *map(_mark_slow, rows[quick:])]


def _mark_slow(row: Any) -> Any:
    if hasattr(row, "marks"):  # made by pytest.param
        return pytest.param(*row.values, id=row.id, marks=[*row.marks, pytest.mark.slow])
    values = row if isinstance(row, tuple) else (row,)
    return pytest.param(*values, marks=pytest.mark.slow)
