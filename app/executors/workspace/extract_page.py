"""Extracts the text of an HTML page, in a process of its own: URL as argument, UTF-8 on stdin.

One JSON object on stdout: {"text"}. Memory and time are limited here; the other side is
`files.run_extractor`.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from html.parser import HTMLParser
from urllib.parse import urljoin

CPU_S = 10
MEMORY = 1 << 30
_SKIPPED = frozenset({"script", "style", "template", "noscript", "svg", "iframe"})
_BLOCKS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "fieldset"),
        *("figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header"),
        *("hr", "li", "main", "nav", "ol", "p", "pre", "section", "table", "tr", "ul", "title"),
    )
)
_MARKS = {"h1": "# ", "h2": "## ", "h3": "### ", "h4": "#### ", "li": "- "}


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    page = sys.stdin.buffer.read().decode("utf-8", "replace")
    print(json.dumps({"text": page_text(page, sys.argv[1])}))


def page_text(page: str, url: str) -> str:
    """The text, one line per block, with headings and list items marked, and link targets."""
    reader = _PageReader(url)
    reader.feed(page)
    reader.close()
    lines = [re.sub(r"[ \t\r\f\v]+", " ", line).strip() for line in reader.whole().split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


class _PageReader(HTMLParser):
    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self._url = url
        self._pieces: list[str] = []
        self._skipping: list[str] = []
        self._links: list[str] = []
        self._title = False

    def whole(self) -> str:
        return "".join(self._pieces)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._title = tag == "title" and "svg" not in self._skipping
        if tag in _SKIPPED:
            self._skipping.append(tag)
        if tag in _BLOCKS and not self._skipping:
            self._pieces.append("\n" + _MARKS.get(tag, ""))
        if tag == "a":
            self._links.append(_target(self._url, dict(attrs).get("href") or ""))

    def handle_endtag(self, tag: str) -> None:
        self._title = False
        if tag in self._skipping:
            while self._skipping.pop() != tag:
                pass
        if tag == "a" and self._links:
            target = self._links.pop()
            if target and not self._skipping:
                self._pieces.append(f" <{target}>")
        if tag in _BLOCKS and not self._skipping:
            self._pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if self._title:
            self._pieces.append(f"# {data.strip()}\n\n")
        elif not self._skipping:
            self._pieces.append(data)


def _target(url: str, href: str) -> str:
    """The absolute target of a link; "" if it is not a page, or a place in this one."""
    try:
        target = urljoin(url, href.strip())
    except ValueError:
        return ""
    same = href.startswith("#") or not href
    return target[:500] if target.startswith(("http://", "https://")) and not same else ""


if __name__ == "__main__":
    main()
