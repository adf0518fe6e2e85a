"""fetch_url: one page, by GET, from a public address; pages are cached for 15 minutes.

Follows no redirect: it returns the target, and the caller may fetch that.
"""

from __future__ import annotations

import base64
import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urljoin

from playground.core.errors import BadInput, Refused
from playground.core.tools import Content, ToolResult, image_type, text_result
from playground.executors.workspace import WorkspaceError
from playground.executors.workspace.files import run_extractor
from playground.net import fetch as net_fetch
from playground.net.addresses import Resolve, resolve_host
from playground.net.client import NetworkError

KEPT_S = 15 * 60.0
MOST_KEPT = 50
MAX_BYTES = 5 * 1024 * 1024
MAX_TEXT = 100_000
"""Maximum length of a page in a result, in characters."""

PAGE_S = 15.0
_HEADERS = {"accept": "text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.5"}


@dataclass(frozen=True)
class CachedPage:
    until_s: float
    result: ToolResult


class Pages:
    """`clock` is monotonic, in seconds; `private` is for tests, whose servers are local."""

    def __init__(
        self, clock: Callable[[], float], *, private: bool = False, resolve: Resolve = resolve_host
    ) -> None:
        self._clock = clock
        self._private = private
        self._resolve = resolve
        self._kept: dict[str, dict[str, CachedPage]] = {}

    def forget(self, session: str) -> None:
        self._kept.pop(session, None)

    async def fetch_page(
        self, session: str, url: str, timeout_s: float | None, most: int
    ) -> ToolResult:
        """The page as text, from the cache of this session or fresh; within `timeout_s` seconds, or
        until the caller ends it."""
        pages = self._kept.setdefault(session, {})
        now = self._clock()
        if url in pages and pages[url].until_s > now:
            return pages[url].result
        answer = await self._answer(url, timeout_s)
        result = await result_of_response(answer, most)
        if not result.is_error:
            pages.pop(url, None)
            pages[url] = CachedPage(now + KEPT_S, result)
            while len(pages) > MOST_KEPT:
                del pages[next(iter(pages))]
        return result

    async def _answer(self, url: str, timeout_s: float | None) -> net_fetch.FetchResponse:
        try:
            return await net_fetch.fetch(
                "GET",
                url,
                _HEADERS,
                b"",
                private=self._private,
                max_bytes=MAX_BYTES,
                timeout_s=timeout_s,
                resolve=self._resolve,
            )
        except (Refused, BadInput, NetworkError) as error:
            raise WorkspaceError("E14", str(error)) from None


async def result_of_response(answer: net_fetch.FetchResponse, most: int) -> ToolResult:
    """A response as a result of at most `most` bytes."""
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if 300 <= answer.status < 400:
        return _redirect(answer)
    picture = image_type(answer.body)
    if picture and len(answer.body) * 4 // 3 + 1_000 <= most and answer.status < 400:
        data = base64.b64encode(answer.body).decode("ascii")
        words = f"{answer.url}: {picture}, {len(answer.body):,} bytes."
        return ToolResult((Content(text=words), Content("image", media_type=picture, data=data)))
    text = _decode(answer)
    if text is None:
        sentence = (
            f"{answer.url} is {kind or 'of no type'}, {len(answer.body):,} bytes, which is not "
            "text."
        )
        raise WorkspaceError("E9", sentence)
    if kind in ("text/html", "application/xhtml+xml") or text.lstrip()[:15].lower().startswith(
        ("<!doctype html", "<html")
    ):
        text = await _page_text(text, answer.url)
    if len(text) > MAX_TEXT:
        more = len(text) - MAX_TEXT
        text = text[:MAX_TEXT] + f"\n(… {more:,} more characters omitted.)"
    if answer.status >= 400:
        sentence = f"{answer.url} answers {answer.status} {answer.reason}."
        return text_result(f"{sentence}\n{text}".strip(), is_error=True, kind="failed")
    media = "application/json" if kind == "application/json" else ""
    return ToolResult((Content(text=text or "(The page is empty.)", media_type=media),))


def _redirect(answer: net_fetch.FetchResponse) -> ToolResult:
    location = answer.headers.get("location", "")
    try:
        target = urljoin(answer.url, location)
    except ValueError:
        target = location
    sentence = f"{answer.url} answers {answer.status} and leads to {target or 'nowhere'}"
    sentence += "; redirects are not followed. To follow it, fetch that URL."
    return text_result(sentence, is_error=True, kind="failed")


def _decode(answer: net_fetch.FetchResponse) -> str | None:
    """The body as text in its declared encoding, or None if it is not text."""
    if b"\0" in answer.body[:4096]:
        return None
    words = answer.headers.get("content-type", "")
    match = re.search(r"charset\s*=\s*[\"']?([A-Za-z0-9_.:-]+)", words)
    inside = re.search(
        rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([A-Za-z0-9_.:-]+)", answer.body[:4096]
    )
    name = match[1] if match else inside[1].decode("ascii") if inside else "utf-8"
    try:
        coding = codecs.lookup(name)
    except LookupError:
        coding = codecs.lookup("utf-8")
    if coding.name == "undefined" or not getattr(coding, "_is_text_encoding", True):
        coding = codecs.lookup("utf-8")
    return answer.body.decode(coding.name, "replace")


async def _page_text(page: str, url: str) -> str:
    data = page.encode("utf-8", "replace")
    try:
        return str((await run_extractor("page", url, data=data, limit_s=PAGE_S))["text"])
    except (TimeoutError, ValueError, KeyError):
        raise WorkspaceError(
            "E14", f"{url} is HTML that is too large or too complex to read."
        ) from None
