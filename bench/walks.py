"""Walks from the open page, their clicks counted: `python bench/walks.py`.

A first finished call; a pasted mcp.json and a call of one of its tools; the request that broke in
a session of 60 turns; a file of a session for a teammate; each demo to its end. Each is walked in
Chromium on a server of its own (`tests/browser/test_walks.py`); prints the clicks beside the most
that it may take; exit code 1 where one takes more.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from playwright.sync_api import sync_playwright

from tests.browser.chromium import ARGUMENTS, chromium
from tests.browser.serving import run_page_server
from tests.browser.test_walks import WALKS, Walk
from tests.browser.windows import WIDE


def main() -> int:
    """The exit code."""
    sound = True
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as name:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        for number, (title, (walk, most)) in enumerate(WALKS.items()):
            folder = Path(name) / str(number)
            folder.mkdir()
            with run_page_server(folder / "walk.db") as server:
                page = browser.new_context(viewport=WIDE).new_page()
                page.goto(server.link)
                walked = Walk(page, server)
                walk(walked, folder)
                page.context.close()
            sound = sound and walked.clicks <= most
            print(f"{walked.clicks:3} clicks (at most {most}): {title}")
        browser.close()
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
