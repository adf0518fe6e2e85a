"""What a file is told as: numbered text, images, notebooks, pages of a PDF."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import anyio
import pypdf
import pytest

from playground.core.tools import image_type
from playground.executors.workspace import WorkspaceError, files
from playground.executors.workspace.files import number_lines, page_range, render_file
from tests.executors.workspace.working import Working

pytestmark = pytest.mark.anyio
PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
MOST = 1 << 20

CODE = {
    "cell_type": "code",
    "source": ["x = 1\n", "x"],
    "outputs": [
        {"output_type": "stream", "name": "stdout", "text": ["hello\n"]},
        {"output_type": "execute_result", "data": {"text/plain": "1"}},
        {
            "output_type": "display_data",
            "data": {"image/png": base64.b64encode(PNG).decode() + "\n", "text/plain": "<Figure>"},
        },
        {"output_type": "error", "ename": "ValueError", "evalue": "no"},
    ],
}


@pytest.mark.parametrize(
    ("text", "offset", "limit", "output"),
    [
        ("a\nb\n", 1, 10, "     1→a\n     2→b"),
        ("a\nb", 2, 10, "     2→b"),
        ("a\r\nb\r\n", 1, 10, "     1→a\n     2→b"),
        ("a\nb\nc\n", 1, 2, "     1→a\n     2→b\n(1 more lines; continue with offset 3.)"),
        ("", 1, 10, "(The file is empty.)"),
        ("\n", 1, 10, "     1→"),
        ("one\x0cstill\u2028one", 1, 10, "     1→one\x0cstill\u2028one"),
        ("x" * 2_003, 1, 1, "     1→" + "x" * 2_000 + "… (3 more characters in this line)"),
    ],
)
def test_numbered(text: str, offset: int, limit: int, output: str) -> None:
    assert number_lines(text, offset, limit) == output


def test_a_large_text_is_cut_at_a_line() -> None:
    output = number_lines("\n".join("y" * 1_000 for _ in range(1_000)))
    assert len(output) < files.MAX_TEXT + 3_000
    assert output.endswith("more lines; continue with offset 200.)")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF89a....", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVE", ""),
        (b"plain", ""),
    ],
)
def test_images(data: bytes, kind: str) -> None:
    assert image_type(data) == kind
    if kind:
        words, picture = render_file("a", data, 1, 10, MOST).content
        assert (picture.type, picture.media_type) == ("image", kind)
        assert base64.b64decode(picture.data) == data
        assert kind in words.text


def notebook(*cells: dict[str, Any]) -> bytes:
    return json.dumps({"cells": cells, "nbformat": 4}).encode()


def test_notebook() -> None:
    result = render_file(
        "a.ipynb", notebook({"cell_type": "markdown", "source": "# Hi"}, CODE), 1, 9, MOST
    )
    first, picture, last = result.content
    assert first.text == (
        "--- cell 1, markdown ---\n# Hi\n--- cell 2, code ---\nx = 1\nx\n--- output ---\nhello\n\n"
        "--- output ---\n1"
    )
    assert (picture.type, base64.b64decode(picture.data)) == ("image", PNG)
    assert last.text == "--- error ---\nValueError: no"


def test_a_notebook_that_is_too_large_is_cut() -> None:
    large = {"cell_type": "code", "source": "y" * 5_000, "outputs": []}
    result = render_file("a.ipynb", notebook(CODE, large), 1, 9, 5_000)
    assert result.content[-1].text == "(The rest of the notebook is too large to be shown.)"
    assert sum(len(content.text) + len(content.data) for content in result.content) < 5_000


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"[]", b'{"cells": 3}', b'{"cells": [{}]}', b"[" * 100_000),
        notebook({"cell_type": "code", "source": 3}),
        notebook(
            {
                "cell_type": "code",
                "source": "",
                "outputs": [{"output_type": "display_data", "data": {"image/png": "§"}}],
            }
        ),
    ],
)
def test_no_notebook(data: bytes) -> None:
    with pytest.raises(WorkspaceError, match="E9"):
        render_file("a.ipynb", data, 1, 9, MOST)


@pytest.mark.parametrize(
    ("words", "pages"), [("", (1, 20)), ("3", (3, 3)), ("1-3", (1, 3)), (" 2 - 4 ", (2, 4))]
)
def test_pages(words: str, pages: tuple[int, int]) -> None:
    assert page_range(words) == pages


@pytest.mark.parametrize("words", ["0", "a", "3-1", "1-", "-2", "1-99", "1,2", "٣"])
def test_no_pages(words: str) -> None:
    with pytest.raises(WorkspaceError, match="E11"):
        page_range(words)


def pdf(*texts: str, password: str = "") -> bytes:
    """A PDF with a page for each text, as small as they come."""
    writer = pypdf.PdfWriter()
    name = pypdf.generic.NameObject
    for text in texts:
        page = writer.add_blank_page(300, 200)
        content = pypdf.generic.DecodedStreamObject()
        content.set_data(f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode())
        page[name("/Contents")] = writer._add_object(content)
        font = pypdf.generic.DictionaryObject(
            {
                name("/Type"): name("/Font"),
                name("/Subtype"): name("/Type1"),
                name("/BaseFont"): name("/Helvetica"),
            }
        )
        fonts = pypdf.generic.DictionaryObject({name("/F1"): font})
        page[name("/Resources")] = pypdf.generic.DictionaryObject({name("/Font"): fonts})
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


async def read_pdf(tmp_path: Path, data: bytes, pages: str = "") -> tuple[str, bool]:
    working = Working(tmp_path / "s")
    working.folder.mkdir(exist_ok=True)
    (working.folder / "a.pdf").write_bytes(data)
    with anyio.fail_after(40):
        result = await working.call("read_file", path="a.pdf", pages=pages)
    return result.text, result.is_error


async def test_pdf(tmp_path: Path) -> None:
    data = pdf("first", "second", "third")
    text, bad = await read_pdf(tmp_path, data)
    assert (bad, text.split("\n")[:2]) == (False, ["--- page 1 of 3 ---", "first"])
    text, bad = await read_pdf(tmp_path, data, "2-3")
    assert (bad, text) == (False, "--- page 2 of 3 ---\nsecond\n--- page 3 of 3 ---\nthird\n")
    assert "has 3 pages" in (await read_pdf(tmp_path, data, "4"))[0]


@pytest.mark.slow
async def test_a_pdf_that_cannot_be_read(tmp_path: Path) -> None:
    for data, message in (
        (pdf("secret", password="x"), "is encrypted"),
        (pdf("first")[:300], "E9"),
        (b"%PDF-1.4\n" + b"1 0 obj<</Length 99>>stream\n" * 99, "E9"),
    ):
        text, bad = await read_pdf(tmp_path, data)
        assert (bad, message in text, "secret" in text.replace("E9", "")) == (True, True, False)


async def test_a_pdf_that_never_ends_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "endless.py"
    script.write_text("while True: pass")
    monkeypatch.setitem(files._EXTRACTORS, "pdf", script)
    monkeypatch.setattr(files, "PDF_S", 0.5)
    text, _ = await read_pdf(tmp_path, pdf("first"))
    assert text.startswith("E8 too large: a.pdf took longer than 0.5 s")
