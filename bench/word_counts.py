"""Counts the words of each document, and lists the paragraphs that are too long.

`python -m bench.word_counts` prints both; tests/test_docs.py holds the bounds.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

MOST_WORDS = {"README.md": 700, "CONTRIBUTING.md": 600}
"""The most words of single documents, code and tables included."""

MOST_IN_PARAGRAPH = 120

_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
_RULE = re.compile(r"[\s|:-]+")
_CELL = re.compile(r"(?<!\\)\|")

_MORE = (ROOT / "bench" / "README.md", ROOT / ".github" / "PULL_REQUEST_TEMPLATE.md")


def documents() -> list[Path]:
    """The documents that people read: at the top, in docs and bench."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *_MORE]


def word_count(text: str) -> int:
    """Words as `wc -w` counts them."""
    return len(text.split())


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Each paragraph, list item and table cell with the number of its first line. Code blocks and
    headings are none."""
    fence, first, lines = "", 0, list[str]()
    for number, line in enumerate([*text.split("\n"), ""], 1):
        match = _FENCE.match(line)
        if fence:
            fence = "" if match and match[1].startswith(fence) else fence
            continue
        starts = match or not line.strip() or line.startswith("#") or line.lstrip()[:1] == "|"
        if lines and (starts or _ITEM.match(line)):
            yield first, " ".join(lines)
            lines = []
        if match:
            fence = match[1]
        elif line.lstrip()[:1] == "|":
            cells = [] if _RULE.fullmatch(line) else _CELL.split(line)
            yield from ((number, cell.strip()) for cell in cells if cell.strip())
        elif line.strip() and not line.startswith("#"):
            first = first if lines else number
            lines.append(_ITEM.sub("", line).strip())


def long_paragraphs(text: str) -> list[tuple[int, int]]:
    """(first line, words) of each paragraph above the bound."""
    counted = ((number, word_count(paragraph)) for number, paragraph in paragraphs(text))
    return [(number, words) for number, words in counted if words > MOST_IN_PARAGRAPH]


def main(names: Sequence[str]) -> int:
    """Prints the named documents, or all; exit code 1 if one is over a bound."""
    over = False
    for path in [Path(name) for name in names] or documents():
        text = path.read_text("utf-8")
        name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
        most = MOST_WORDS.get(name)
        words, long = word_count(text), long_paragraphs(text)
        print(f"{words:6,} {name}" + (f" (at most {most})" if most else ""))
        for number, count in long:
            print(f"       line {number}: a paragraph of {count} words")
        over |= bool(long) or (most is not None and words > most)
    return int(over)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
