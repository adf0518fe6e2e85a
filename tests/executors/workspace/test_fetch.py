"""fetch_url: pages as text, kept for 15 minutes, and only from where it may go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from playground.executors.workspace import fetch, files
from playground.executors.workspace.fetch import KEPT_S, Pages
from tests.executors.workspace.working import Working
from tests.tables import rest_slow

pytestmark = pytest.mark.anyio

HTML = b"""<!doctype html><html><head><title>The title</title><style>p {}</style>
<script>alert("no")</script></head><body><h1>One &amp; two</h1><p>Some <b>bold</b>
text and <a href="/more#x">a link</a>.<ul><li>first<li>second</ul><noscript>no</noscript></body>"""

TOLD = {
    "/page": "# The title\n\n# One & two\n\nSome **bold**\ntext and [a link]({url}/more#x).\n\n"
    "- first\n- second",
    "/bare": "# x\n\nno head, no body",
    "/latin": "café",
    "/meta": "café",
    "/odd": "plain",
    "/json": '{"a": 1}',
    "/empty": "(The page is empty.)",
    "/deep": "(The page is nested too deep to keep its structure; this is its plain text.)\nbottom",
}


class Site:
    """A server that answers by path, and counts."""

    def __init__(self, answers: Mapping[str, tuple[str, bytes]]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ")[1].decode()
        self.asked.append(path)
        status, body = self.answers.get(path, ("404 Not Found\r\ncontent-type: text/plain", b"no"))
        length = f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write(f"HTTP/1.1 {status}\r\n{length}".encode() + body)
        await writer.drain()
        writer.close()


ANSWERS: Mapping[str, tuple[str, bytes]] = {
    "/page": ("200 OK\r\ncontent-type: text/html; charset=utf-8", HTML),
    "/bare": ("200 OK", b"<html><title>x</title><p>no head, no body"),
    "/latin": ("200 OK\r\ncontent-type: text/plain; charset=iso-8859-1", b"caf\xe9"),
    "/meta": ("200 OK\r\ncontent-type: text/html", b"<meta charset=latin-1><p>caf\xe9"),
    "/odd": ("200 OK\r\ncontent-type: text/plain; charset=rot13", b"plain"),
    "/json": ("200 OK\r\ncontent-type: application/json", b'{"a": 1}'),
    "/image": ("200 OK\r\ncontent-type: image/png", b"\x89PNG\r\n\x1a\n" + bytes(9)),
    "/binary": ("200 OK\r\ncontent-type: application/zip", b"PK\0\1"),
    "/away": ("302 Found\r\nlocation: https://elsewhere.example/x", b""),
    "/near": ("301 Moved\r\nlocation: ../page", b""),
    "/large": ("200 OK\r\ncontent-type: text/plain", b"x" * 150_000),
    "/huge": ("200 OK\r\ncontent-type: text/plain", b"x" * (5 * 1024 * 1024 + 1)),
    "/empty": ("200 OK\r\ncontent-type: text/html", b""),
    "/deep": ("200 OK\r\ncontent-type: text/html", b"<div>" * 20_000 + b"bottom"),
}


@asynccontextmanager
async def site() -> AsyncIterator[tuple[Site, str]]:
    site = Site(ANSWERS)
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0)
    try:
        yield site, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("path", rest_slow(TOLD, 2))
async def test_pages_as_text(tmp_path: Path, path: str) -> None:
    async with site() as (_, url):
        text = await Working(tmp_path).text("fetch_url", url=url + path)
        assert text == TOLD[path].replace("{url}", url)


async def test_what_is_no_page(tmp_path: Path) -> None:
    working = Working(tmp_path)
    async with site() as (_, url):
        image = await working.call("fetch_url", url=url + "/image")
        assert [content.type for content in image.content] == ["text", "image"]
        assert await working.code("fetch_url", url=url + "/binary") == "E9"
        assert await working.code("fetch_url", url=url + "/huge") == "E14"
        large = await working.text("fetch_url", url=url + "/large")
        assert large.endswith("(… 50,000 more characters omitted.)")
        lost = await working.call("fetch_url", url=url + "/absent")
        assert (lost.is_error, lost.text) == (True, f"{url}/absent answers 404 Not Found.\nno")


@pytest.mark.parametrize(
    ("path", "target"), [("/away", "https://elsewhere.example/x"), ("/near", "/page")]
)
async def test_redirects_are_told_and_not_followed(tmp_path: Path, path: str, target: str) -> None:
    async with site() as (item, url):
        result = await Working(tmp_path).call("fetch_url", url=url + path)
        assert result.is_error
        assert f"leads to {target if 'https' in target else url + target};" in result.text
        assert item.asked == [path]


async def test_kept_for_fifteen_minutes_by_session(tmp_path: Path) -> None:
    working = Working(tmp_path)
    async with site() as (item, url):
        for at_s in (0.0, KEPT_S - 1):
            working.at_s = at_s
            await working.text("fetch_url", url=url + "/json")
        assert item.asked == ["/json"]
        working.at_s = KEPT_S + 1
        await working.text("fetch_url", url=url + "/json")
        assert item.asked == ["/json"] * 2
        await working.executors.forget("s")
        await working.text("fetch_url", url=url + "/json")
        assert item.asked == ["/json"] * 3
        for _ in range(2):  # an error is not kept
            await working.call("fetch_url", url=url + "/absent")
        assert item.asked[3:] == ["/absent"] * 2


async def test_no_more_than_a_few_pages_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "MOST_KEPT", 1)
    working = Working(tmp_path)
    async with site() as (item, url):
        for path in ("/json", "/latin", "/json", "/json"):
            await working.text("fetch_url", url=url + path)
        assert item.asked == ["/json", "/latin", "/json"]


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1:1/", "http://localhost/", "http://2130706433/", "http://[::1]/"),
        *(
            "http://169.254.169.254/latest",
            "http://10.0.0.1/",
            "file:///etc/passwd",
            "ftp://x/",
            "x",
        ),
        *("http://inside.example/", "", "http://", "http://a\r\nb/"),
    ],
)
async def test_only_public_addresses(tmp_path: Path, url: str) -> None:
    async def inside(host: str, port: int) -> list[str]:
        return ["192.168.1.1"]

    working = Working(tmp_path, pages=Pages(lambda: 0.0, resolve=inside))
    with anyio.fail_after(20):
        assert await working.code("fetch_url", url=url) == "E14"


async def test_html_that_never_ends_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "endless.py"
    script.write_text("while True: pass")
    monkeypatch.setitem(files._EXTRACTORS, "page", script)
    monkeypatch.setattr(fetch, "PAGE_S", 0.5)
    async with site() as (_, url):
        assert await Working(tmp_path).code("fetch_url", url=url + "/page") == "E14"


@pytest.mark.parametrize("code", ["", "print(3)", "print('[]')", "print('{')", "1/0"])
async def test_a_child_that_tells_nothing(
    tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "child.py"
    script.write_text(code)
    monkeypatch.setitem(files._EXTRACTORS, "pdf", script)
    with anyio.fail_after(20), pytest.raises(ValueError, match=r"object|Expecting"):
        await files.run_extractor("pdf", data=b"x", limit_s=10)
