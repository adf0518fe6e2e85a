"""read_file: text with line numbers, images, PDFs page by page, notebooks cell by cell.

What a file is, its first bytes say; only a notebook is known by its name. A PDF is taken apart in
a process of its own (`pdf.py`), for it comes from anywhere and may never end.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from app.core.tools import Content, ToolResult, text_result
from app.executors.workspace.child import told_by
from app.executors.workspace.history import MAX_FILE
from app.executors.workspace.trouble import Trouble

LINES = 2_000
MAX_LINE = 2_000
MAX_TEXT = 200_000
"""Characters of a file that one call gives."""

PAGES = 20
PDF_S = 20.0

_IMAGES: Sequence[tuple[bytes, str]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_PDF = Path(__file__).with_name("pdf.py")


def image_type(data: bytes) -> str:
    """The media type of an image, told by its first bytes, or ""."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for mark, kind in _IMAGES if data.startswith(mark)), "")


def is_pdf(data: bytes) -> bool:
    return data.startswith(b"%PDF-")


def shown(path: str, data: bytes, offset: int, limit: int, most: int) -> ToolResult:
    """A file that is no PDF, as a result of at most `most` bytes."""
    kind = image_type(data)
    if kind:
        return _image(path, data, kind, most)
    if path.endswith(".ipynb"):
        return notebook(path, data, most)
    return text_result(numbered(text_of(path, data), offset, limit))


def text_of(path: str, data: bytes) -> str:
    """The text of a file; Trouble E9 where it is none."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        said = f"{path} is no UTF-8 text (byte {error.start:,}); look at it with run_shell."
        raise Trouble("E9", said) from None
    if "\0" in text:
        raise Trouble("E9", f"{path} has NUL bytes, so it is no text; look at it with run_shell.")
    return text


def numbered(text: str, offset: int = 1, limit: int = LINES) -> str:
    """Lines `offset` (from 1) to `offset + limit - 1`, as `cat -n` numbers them."""
    # Not `splitlines`: that would also cut at form feeds and other signs inside a line.
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return "(The file is empty.)"
    if offset > len(lines):
        said = f"The file has {len(lines):,} lines; ask for an offset up to that."
        raise Trouble("E11", said)
    told: list[str] = []
    size = 0
    for number, line in enumerate(lines[offset - 1 : offset - 1 + limit], offset):
        told.append(f"{number:6}→{_cut(line.removesuffix(chr(13)))}")
        size += len(told[-1])
        if size > MAX_TEXT:
            break
    last = offset + len(told) - 1
    if last < len(lines):
        left = len(lines) - last
        told.append(f"({left:,} more lines; go on with offset {last + 1}.)")
    return "\n".join(told)


def _cut(line: str) -> str:
    more = len(line) - MAX_LINE
    return line if more <= 0 else f"{line[:MAX_LINE]}… ({more:,} more characters in this line)"


def _image(path: str, data: bytes, kind: str, most: int) -> ToolResult:
    if len(data) * 4 // 3 + 1_000 > most:
        allowed = (most - 1_000) * 3 // 4
        said = f"{path} has {len(data):,} bytes; an image may have {allowed:,}. Make it smaller."
        raise Trouble("E8", said)
    words = f"{path}: {kind}, {len(data):,} bytes."
    picture = Content("image", media_type=kind, data=base64.b64encode(data).decode("ascii"))
    return ToolResult((Content(text=words), picture))


# -- notebooks


def notebook(path: str, data: bytes, most: int) -> ToolResult:
    """The cells with their outputs; images as images, as far as there is room."""
    try:
        cells = json.loads(text_of(path, data))["cells"]
        pieces = [piece for number, cell in enumerate(cells, 1) for piece in _cell(number, cell)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        said = f"{path} is no notebook of version 4; read it as text with run_shell."
        raise Trouble("E9", said) from None
    content: list[Content] = []
    room = most - 1_000
    for piece in pieces:
        size = len(piece.text.encode("utf-8", "replace")) + len(piece.data)
        if size > room:
            content.append(Content(text="(The rest of the notebook is too large to be shown.)"))
            break
        room -= size
        if content and piece.type == content[-1].type == "text":
            content[-1] = Content(text=content[-1].text + "\n" + piece.text)
        else:
            content.append(piece)
    return ToolResult(tuple(content) or (Content(text="(The notebook is empty.)"),))


def _cell(number: int, cell: Mapping[str, Any]) -> Iterator[Content]:
    kind = str(cell["cell_type"])
    yield Content(text=f"--- cell {number}, {kind} ---\n{_joined(cell['source'])}")
    for output in cell.get("outputs", ()):
        yield from _output(output)


def _output(output: Mapping[str, Any]) -> Iterator[Content]:
    match output.get("output_type"):
        case "stream":
            yield Content(text=f"--- output ---\n{_joined(output['text'])}")
        case "error":
            yield Content(text=f"--- error ---\n{output.get('ename')}: {output.get('evalue')}")
        case "display_data" | "execute_result":
            data = output.get("data", {})
            pictures = [kind for kind in ("image/png", "image/jpeg") if kind in data]
            if "text/plain" in data and not pictures:
                yield Content(text=f"--- output ---\n{_joined(data['text/plain'])}")
            for kind in pictures[:1]:
                encoded = re.sub(r"\s", "", _joined(data[kind]))
                raw = base64.b64decode(encoded, validate=True)
                if image_type(raw) == kind:
                    yield Content("image", media_type=kind, data=encoded)


def _joined(value: Any) -> str:
    return value if isinstance(value, str) else "".join(str(line) for line in value)


# -- PDFs


def page_range(words: str) -> tuple[int, int]:
    """The first and last page of "3", "1-3" or "" (the first PAGES). Trouble E11 otherwise."""
    found = re.fullmatch(r"\s*([0-9]{1,6})\s*(?:-\s*([0-9]{1,6})\s*)?|", words)
    if found is None:
        raise Trouble("E11", f'{words!r} are no pages; say "3" or "1-3".')
    first = int(found[1] or 1)
    last = int(found[2] or found[1] or PAGES)
    if not 1 <= first <= last:
        raise Trouble("E11", f'{words!r} are no pages; say "3" or "1-3", from 1.')
    if last - first >= PAGES:
        raise Trouble("E11", f"At most {PAGES} pages at once; ask for a smaller range.")
    return first, last


async def pdf(path: str, data: bytes, pages: str) -> ToolResult:
    """The text of some pages of a PDF."""
    assert len(data) <= MAX_FILE
    first, last = page_range(pages)
    numbers = (str(first), str(last), str(MAX_TEXT))
    try:
        told = await told_by(_PDF, *numbers, data=data, limit_s=PDF_S)
    except TimeoutError:
        said = f"{path} took longer than {PDF_S:g} s to read; ask for fewer pages."
        raise Trouble("E8", said) from None
    except ValueError:
        raise Trouble("E9", f"{path} is damaged or too large to be read as a PDF.") from None
    if "trouble" in told:
        raise Trouble("E9", f"{path} {told['trouble']}")
    return text_result(str(told["text"]))
