"""A flood of progress becomes a few reports, and the last word is never lost."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from playground.executors import executor
from playground.executors.executor import ThrottledProgress

pytestmark = pytest.mark.anyio
Told = list[tuple[str, float | None, str]]


async def test_the_first_at_once_and_the_last_at_the_end() -> None:
    rows: Told = []
    some = ThrottledProgress(lambda *text: rows.append(text))
    for step in range(1000):
        some.tell(f"step {step}", step / 1000)
    some.close()
    some.tell("too late", 1.0)
    some.add_output("too late")
    some.close()
    assert rows == [("step 0", 0.0, ""), ("step 999", 0.999, "")]


async def test_prints_add_up_beside_the_last_words() -> None:
    rows: Told = []
    some = ThrottledProgress(lambda *text: rows.append(text))
    some.tell("start", 0.1)
    some.add_output("a\n")
    some.add_output("\n")
    some.add_output("b\nhalf a li")
    some.add_output("ne")
    some.close()
    assert rows == [("start", 0.1, ""), ("start", 0.1, "a\n\nb\nhalf a line")]


async def test_an_interval_later_the_pending_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the last end of a line: a word is not cut where it can wait."""
    monkeypatch.setattr(executor, "PACES", ((1_000, 0.001),))
    rows: Told = []
    third = asyncio.Event()

    def report(text: str, fraction: float | None, output: str = "", /) -> None:
        rows.append((text, fraction, output))
        if len(rows) == 3:
            third.set()

    some = ThrottledProgress(report)
    some.tell("one", None)
    some.tell("two", None)
    some.add_output("line\nhal")
    with anyio.fail_after(20):
        await third.wait()
    some.add_output("f\n")
    some.close()
    assert rows[:3] == [("one", None, ""), ("two", None, "line\n"), ("two", None, "hal")]
    assert "".join(output for _, _, output in rows) == "line\nhalf\n"


async def test_there_is_an_end_to_it_but_the_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "PACES", ((1, 0.0),))
    rows: Told = []
    some = ThrottledProgress(lambda *text: rows.append(text))
    some.tell("x" * 10_000, None)
    await asyncio.sleep(0)
    for _ in range(3):
        some.add_output("y\n")
        await asyncio.sleep(0)
    some.close()
    assert rows == [("x" * executor.MAX_TEXT, None, ""), ("x" * executor.MAX_TEXT, None, "y\n" * 3)]


@pytest.mark.parametrize(
    ("printed_before", "most"),
    [(0, executor.MAX_PIECE), (executor.MAX_WHOLE, executor.SMALL_PIECE)],
)
async def test_a_flood_is_cut_and_says_by_how_much(printed_before: int, most: int) -> None:
    """What is told of 2 MB are its ends, and a sentence that counts the rest."""
    rows: Told = []
    some = ThrottledProgress(lambda *text: rows.append(text))
    some._printed = printed_before
    some.tell("begun", None)
    for _ in range(1_000):
        some.add_output("z" * 1_999 + "\n")
    some.close()
    (_, _, piece) = rows[-1]
    left_out, _, stored_text = piece.partition("\n")
    assert len(rows) == 2
    assert left_out == f"[… {2_000_000 - most:,} characters omitted …]"
    assert len(stored_text) == most
