"""Extracts the text of an HTML page as Markdown, in a process of its own: URL as argument, UTF-8 on
stdin.

One JSON object on stdout: {"text"}. Memory and time are limited here; the other side is
`files.run_extractor`.
"""

from __future__ import annotations

import json
import re
import resource
import sys
import textwrap
from collections.abc import Iterator
from urllib.parse import urljoin

from bs4 import BeautifulSoup, Tag
from markdownify import ATX, MarkdownConverter

CPU_S = 10
MEMORY = 1 << 30
MAX_TARGET = 500
"""Maximum length of a link's target, in characters."""
MOST_SPANNED = 50
"""Columns of one cell at most: HTML allows 1,000, which makes a long text of a short page."""

_SKIPPED = ("script", "style", "template", "noscript", "svg", "iframe")
_MOST_NESTED = 200
"""The converter calls itself for each level, three functions deep."""
_TOO_DEEP = "(The page is nested too deep to keep its structure; this is its plain text.)\n"


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    page = sys.stdin.buffer.read().decode("utf-8", "replace")
    print(json.dumps({"text": page_text(page, sys.argv[1])}))


def page_text(page: str, url: str) -> str:
    """The page as Markdown below its title; links lead to absolute URLs, images are their texts."""
    soup = BeautifulSoup(page, "lxml")
    for tag in soup.find_all(_SKIPPED):
        tag.extract()
    heading = ""
    if soup.title:
        heading = f"# {' '.join(soup.title.extract().get_text().split())}\n\n"
    url = _base(soup, url)
    for link in soup.find_all("a"):
        link.attrs = {"href": _target(url, str(link.get("href") or ""))}
    for image in soup.find_all("img"):
        if alternative := str(image.get("alt") or ""):
            image.replace_with(alternative)
        else:
            image.extract()
    for ordered in soup.find_all("ol"):
        _number_items(ordered)
    for table in soup.find_all("table"):
        _unfold_layout(table)
    if _is_deeper(soup, _MOST_NESTED):
        text = _TOO_DEEP + "\n".join(soup.stripped_strings)
    else:
        text = _PageConverter().convert_soup(soup)
    return (heading + text).strip()


def _is_deeper(soup: Tag, most: int) -> bool:
    level = [soup]
    for _ in range(most + 1):
        level = [inner for tag in level for inner in tag.children if isinstance(inner, Tag)]
        if not level:
            return False
    return True


class _PageConverter(MarkdownConverter):
    def __init__(self) -> None:
        # Nobody renders this text: a model reads it, and "\\_" in a name would be copied with it.
        super().__init__(
            heading_style=ATX,
            bullets="-",
            escape_asterisks=False,
            escape_underscores=False,
            table_infer_header=True,
        )

    def convert_li(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        # The library counts the siblings before each item, which is quadratic.
        number = el.get("value") if el.parent and el.parent.name == "ol" else None
        bullet = f"{number}. " if number else "- "
        text = text.strip()
        return bullet + textwrap.indent(text, " " * len(bullet)).lstrip() + "\n" if text else "\n"

    def convert_tr(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        # The library draws the line below the head once more in each tbody and tfoot, and not at
        # all below a caption.
        row = f"|{text}\n"
        table = el.find_parent("table")
        if table is None or table.find("tr") is not el:
            return row
        columns = sum(map(_columns, el.find_all(("td", "th"), recursive=False)))
        return row + "|" + " --- |" * columns + "\n"

    def convert_br(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        # The library ends lines of code with two spaces, too.
        if "pre" in parent_tags:
            return "\n"
        return " " if "_inline" in parent_tags else "  \n"

    def convert_pre(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        # The library's fence is always three backticks, also around a text that has them.
        fence = "`" * max((len(run) + 1 for run in re.findall(r"`{3,}", text)), default=3)
        code = text.strip("\r\n")
        return f"\n\n{fence}{_code_language(el)}\n{code}\n{fence}\n\n" if code.strip() else ""

    def convert_td(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        # The library leaves a bar as it is, which would begin another cell.
        cell = " ".join(text.replace("|", "\\|").split("\n")).strip()
        return f" {cell} |" + " |" * (_columns(el) - 1)

    convert_th = convert_td

    def convert_main(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        text = text.strip()
        if "_inline" in parent_tags:
            return f" {text} "
        return f"\n\n{text}\n\n" if text else ""

    # Blocks that the library takes for a part of the line: their words would run together.
    convert_nav = convert_header = convert_footer = convert_aside = convert_main
    convert_address = convert_hgroup = convert_details = convert_summary = convert_main
    convert_dialog = convert_form = convert_fieldset = convert_legend = convert_main
    convert_option = convert_textarea = convert_figure = convert_main

    def convert_button(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f" {text.strip()} " if text.strip() else ""


def _code_language(block: Tag) -> str:
    """The language of a code block by its class or its parent's: `language-py`, `lang-py`,
    `highlight-source-py` (GitHub), `highlight-py` (Sphinx)."""
    for tag in _nearby_tags(block):
        for name in tag.get_attribute_list("class"):
            match = re.fullmatch(
                r"(?:language|lang|highlight-source|highlight)-(\w[\w+#-]*)", name or ""
            )
            if match and match[1] != "default":
                return match[1]
    return ""


def _nearby_tags(block: Tag) -> Iterator[Tag]:
    yield block
    yield from block.find_all("code", recursive=False, limit=1)
    yield from list(block.parents)[:2]


def _columns(cell: Tag) -> int:
    return max(1, min(_whole_number(cell.get("colspan"), 1), MOST_SPANNED))


def _unfold_layout(table: Tag) -> None:
    """Makes blocks of the cells of a table of one row with code or a table in it, such as code
    beside its line numbers, which are left out: a cell of Markdown is one line."""
    row = table.find("tr")
    if row is None or row.find_next_sibling("tr") or not row.find(("pre", "table")):
        return
    sections = table.find_all(("thead", "tbody", "tfoot"), recursive=False, limit=2)
    if len(sections) > 1:
        return
    has_code = row.find("pre") is not None
    for cell in row.find_all(("td", "th"), recursive=False):
        cell.name = "div"
        if has_code and re.fullmatch(r"\s*1(?:\s+[0-9]+)*\s*", cell.get_text()):
            cell.extract()
    for tag in (row, *sections, table):
        tag.name = "div"


def _base(soup: BeautifulSoup, url: str) -> str:
    """What the links of the page are relative to."""
    base = soup.find("base", href=True)
    try:
        return urljoin(url, str(base["href"]).strip()) if base else url
    except ValueError:
        return url


def _number_items(ordered: Tag) -> None:
    """Sets `value` of each item to its number, as a browser counts: from `start`, down when it is
    `reversed`, and on from an item's own `value`."""
    items = ordered.find_all("li", recursive=False)
    down = ordered.has_attr("reversed")
    number = _whole_number(ordered.get("start"), len(items) if down else 1)
    for item in items:
        number = _whole_number(item.get("value"), number)
        item["value"] = str(number)
        number += -1 if down else 1


def _whole_number(value: object, otherwise: int) -> int:
    match = re.fullmatch(r"\s*([+-]?[0-9]{1,9})\s*", str(value or ""))
    return int(match[1]) if match else otherwise


def _target(url: str, href: str) -> str:
    """The absolute target of a link; "" if it is not a page, or a place in this one."""
    try:
        target = urljoin(url, href.strip())
    except ValueError:
        return ""
    same = href.startswith("#") or not href
    return target[:MAX_TARGET] if target.startswith(("http://", "https://")) and not same else ""


if __name__ == "__main__":
    main()
