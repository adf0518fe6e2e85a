"""A table as one test: every row is tried, and the failure names each row that is wrong."""

from __future__ import annotations

import inspect
import reprlib
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import pytest

SHORT = reprlib.Repr()
SHORT.maxstring = SHORT.maxother = 100

Rows = list[tuple[str, dict[str, Any]]]


def rest_slow(values: Iterable[Any], quick: int = 1) -> list[Any]:
    """For `parametrize`, where the way is one and the values are dear: the first `quick` are tried
    for every change, the rest with the slow tests. A row of several values is a tuple."""
    some = list(values)
    return [*some[:quick], *map(_slow, some[quick:])]


def _slow(value: Any) -> Any:
    if _is_param(value):
        return pytest.param(*value.values, id=value.id, marks=[*value.marks, pytest.mark.slow])
    row = value if isinstance(value, tuple) else (value,)
    return pytest.param(*row, marks=pytest.mark.slow)


def each_row(
    names: str | Sequence[str], rows: Iterable[Any], ids: Any = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What `pytest.mark.parametrize` says, in one test: thousands of tests that take no time of
    their own take minutes together. For checks that share nothing but what no row changes."""
    single = isinstance(names, str) and "," not in names
    words = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    named = _named(words, [(row,) if single and not _is_param(row) else row for row in rows], ids)

    def decorate(check: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(check)
        def run(**fixtures: Any) -> None:
            wrong: list[str] = []
            for name, row in named:
                with _noted(name, wrong):
                    check(**row, **fixtures)
            _tell(wrong, len(named))

        @wraps(check)
        async def run_async(**fixtures: Any) -> None:
            wrong: list[str] = []
            for name, row in named:
                with _noted(name, wrong):
                    await check(**row, **fixtures)
            _tell(wrong, len(named))

        made: Any = run_async if inspect.iscoroutinefunction(check) else run
        signature = inspect.signature(check)
        left = [one for name, one in signature.parameters.items() if name not in words]
        made.__signature__ = signature.replace(parameters=left)
        return made  # type: ignore[no-any-return]

    return decorate


def _is_param(row: Any) -> bool:
    """Whether `pytest.param` made it."""
    return hasattr(row, "marks")


def _named(words: Sequence[str], rows: Sequence[Any], ids: Any) -> Rows:
    written = None if ids is None or callable(ids) else list(ids)
    found = []
    for number, row in enumerate(rows):
        values = row.values if _is_param(row) else row
        if _is_param(row) and row.id:
            name = str(row.id)
        elif written is not None:
            name = str(written[number])
        else:
            said = [ids(value) if callable(ids) else SHORT.repr(value) for value in values]
            name = ", ".join(map(str, said))
        found.append((name, dict(zip(words, values, strict=True))))
    return found


@contextmanager
def _noted(name: str, wrong: list[str]) -> Iterator[None]:
    """What a row fails with goes to `wrong`; only what ends the whole test passes."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as problem:
        spot = traceback.extract_tb(problem.__traceback__)[-1]
        kind = "" if isinstance(problem, AssertionError) else f"{type(problem).__name__}: "
        wrong.append(f"{name}\n  {spot.filename}:{spot.lineno}: {kind}{problem}")
    except BaseException as problem:
        problem.add_note(f"in the row {name}")
        raise


def _tell(wrong: Sequence[str], rows: int) -> None:
    if not rows:
        pytest.skip("a table without rows")
    if wrong:
        pytest.fail(f"{len(wrong)} of {rows} rows are wrong\n" + "\n".join(wrong), pytrace=False)
