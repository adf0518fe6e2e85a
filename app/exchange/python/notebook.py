"""The code of a Jupyter notebook as one Python text, each cell where it stands. Nothing is run.

https://nbformat.readthedocs.io/en/latest/format_description.html
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping
from typing import Any

MOST_CELLS = 2_000
_SHELL = re.compile(r"\w[\w, ]*")
"""What stands before the equals sign of `files = !ls`."""


def is_notebook(value: Any) -> bool:
    return isinstance(value, Mapping) and "nbformat" in value and _cells(value) is not None


def _cells(value: Mapping[str, Any]) -> list[Any] | None:
    """The cells of a notebook; before version 4 they stood in worksheets."""
    sheets = value.get("worksheets")
    if isinstance(sheets, list) and "cells" not in value:
        found = [sheet.get("cells") for sheet in sheets if isinstance(sheet, Mapping)]
        return [cell for cells in found if isinstance(cells, list) for cell in cells]
    cells = value.get("cells")
    return cells if isinstance(cells, list) else None


def code_of(value: Mapping[str, Any]) -> tuple[str, list[str]]:
    """(the code of all cells that are sound Python, sentences on the others)."""
    pieces: list[str] = []
    unsound: list[str] = []
    cells = _cells(value) or []
    for number, cell in enumerate(cells[:MOST_CELLS], 1):
        if not isinstance(cell, Mapping) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", cell.get("input"))
        text = "".join(map(str, source)) if isinstance(source, list) else str(source or "")
        if text.lstrip().startswith("%%"):
            continue  # of another language, or timed
        if not _is_sound(text):
            text = "\n".join(map(_without_magic, text.split("\n")))
        pieces.append(text) if _is_sound(text) else unsound.append(str(number))
    notes = []
    if unsound:
        notes.append(f"No sound Python, and left out: cell {', '.join(unsound[:10])}.")
    if len(cells) > MOST_CELLS:
        notes.append(f"Only the first {MOST_CELLS:,} cells are read.")
    return "\n\n".join(pieces), notes


def _without_magic(line: str) -> str:
    """`line`, or `pass` in its place where IPython alone reads it: `%magic`, `!shell`, `help?`."""
    code = line.strip()
    left, equals, right = code.partition("=")
    asks = code.endswith("?") and not equals and not any(sign in code for sign in "#'\"")
    shell = equals and right.lstrip()[:1] in ("!", "%") and _SHELL.fullmatch(left.strip())
    if code[:1] in ("%", "!", "?") or asks or shell:
        return f"{line[: len(line) - len(line.lstrip())]}pass"
    return line


def _is_sound(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
