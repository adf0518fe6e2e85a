"""The page of a session's files: lines of a difference, and why nothing of a file is shown."""

from __future__ import annotations

import pytest

from playground.web.files import DiffLine, FilesPage, diff_lines, files_page
from tests.render.page import ENV


def test_lines_of_a_diff() -> None:
    assert diff_lines("@@ -1 +1 @@\n same\n-old\n+new") == [
        DiffLine("place", "@@ -1 +1 @@"),
        DiffLine("same", " same"),
        DiffLine("gone", "-old"),
        DiffLine("added", "+new"),
    ]


@pytest.mark.parametrize("number", [0, 1])
def test_why_nothing_of_a_file_is_shown(number: int) -> None:
    page = FilesPage("s", "A", (), 0, (), path="x.bin", number=number, notice="Not text, 9 bytes.")
    assert '<p class="note">Not text, 9 bytes.</p>' in files_page(ENV, page)
