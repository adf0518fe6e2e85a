"""The difference a result tells: right, small, and never quadratic."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.executors.workspace.files import MAX_DIFF, diff

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "-x", "+y", "@@"]), max_size=30)


@pytest.mark.parametrize(
    ("before", "after", "output"),
    [
        ("a\nb\nc", "a\nB\nc", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c"),
        ("", "new", "@@ -1,1 +1,1 @@\n-\n+new"),
        ("a\n", "a\nb\n", "@@ -1,2 +1,3 @@\n a\n+b\n "),
        ("\n".join("12345678x"), "\n".join("12345678y"), "@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-x\n+y"),
        ("x\n" * 1000, "y\n" * 1000, "@@ from line 1 on: 1,000 lines became 1,000 @@"),
    ],
)
def test_diff(before: str, after: str, output: str) -> None:
    assert diff(before, after) == output


def test_a_long_diff_is_cut() -> None:
    output = diff("a", "\n".join("x" * 100 for _ in range(300)))
    assert output.endswith("… (the diff is longer)")
    assert len(output) < MAX_DIFF + 100


@given(LINES, LINES)
def test_it_is_the_diff_that_everybody_knows(old: list[str], new: list[str]) -> None:
    """Patched in, the new text comes out, as with difflib's own."""
    outputs = diff("\n".join(old), "\n".join(new)).split("\n")
    old, new = "\n".join(old).split("\n"), "\n".join(new).split("\n")
    assert patched(old, outputs) == new
    if old != new:
        assert patched(old, list(difflib.unified_diff(old, new, lineterm=""))[2:]) == new


def patched(old: list[str], hunks: list[str]) -> list[str]:
    new: list[str] = []
    place = left = 0
    for line in hunks:
        if left == 0 and line.startswith("@@ -"):
            start, _, count = line.split(" ")[1][1:].partition(",")
            first = int(start) - (count != "0")
            new += old[place:first]
            place, left = first, sum(int(x.partition(",")[2] or 1) for x in line.split(" ")[1:3])
            continue
        if line[:1] in (" ", "-"):
            assert old[place] == line[1:]
            place, left = place + 1, left - 1
        if line[:1] in (" ", "+"):
            new.append(line[1:])
            left -= 1
    return new + old[place:]
