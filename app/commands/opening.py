"""Opens the printed link in a browser without telling it to other processes.

A command line can be read by every user of the machine, so that the browser is given the path of
a private file, which sends it on. Threat 17 of docs/safety.md.
"""

from __future__ import annotations

import os
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from threading import Thread

PAGE = """<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}"><title>Playground</title>
<p><a href="{link}">Open the playground</a></p>
"""


@contextmanager
def opened(link: str, beside: Path) -> Iterator[None]:
    """A browser goes to `link` by a file beside the database `beside`, which is there as long as
    the block lasts. A browser that cannot be started, or a file not made, is no error: the link
    is printed."""
    page = beside.with_name(beside.name + ".open.html").absolute()
    try:
        page.unlink(missing_ok=True)
        descriptor = os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(PAGE.format(link=escape(link)))
        # Some browsers return only when they are closed.
        Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
    except OSError:
        pass
    try:
        yield
    finally:
        page.unlink(missing_ok=True)
