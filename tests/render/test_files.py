"""Lines of a difference, by what happened to them."""

from __future__ import annotations

from app.web.files import DiffLine, diff_lines


def test_lines_of_a_diff() -> None:
    assert diff_lines("@@ -1 +1 @@\n same\n-old\n+new") == [
        DiffLine("place", "@@ -1 +1 @@"),
        DiffLine("same", " same"),
        DiffLine("gone", "-old"),
        DiffLine("added", "+new"),
    ]
