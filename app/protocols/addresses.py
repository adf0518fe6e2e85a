"""A profile's base URL and a protocol's path, put together. Pure text; checks nothing."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

_ENDPOINT = re.compile(
    r"/chat/completions$"
    r"|(?<=/v1)/messages$"
    r"|(?<=/api)/chat$"
    r"|(?:(?<=/v1)|(?<=/openai))/responses$"
    r"|/models/[^/]+:(?:streamG|g)enerateContent$"
)
"""Whole addresses that people paste from a provider's examples: the base is what stands before."""
_VERSION = re.compile(r"v\d+[a-z]*\d*")
_GOOGLE = re.compile(r"(?:.*\.)?googleapis\.com(?::\d+)?")


def joined(base_url: str, path: str) -> str:
    """`path` behind `base_url`.

    A query of the base URL (Azure's `?api-version=`) goes behind the path. What the base URL ends
    with and the path begins with stands once: people write `https://api.anthropic.com/v1` as well
    as `https://api.anthropic.com`, or paste the whole address of an endpoint.
    """
    base, _, query = base_url.partition("?")
    path, _, own_query = path.partition("?")
    scheme, mark, rest = base.partition("://")
    host, _, before = (rest if mark else base).strip().partition("/")
    above = _ENDPOINT.sub("", f"/{before}".rstrip("/"))
    segments = above.split("/")[1:]
    steps = path.split("/")[1:]
    own = {part for part in own_query.split("&") if part} | {"alt=sse"}
    queries = [own_query, *(part for part in query.split("&") if part not in own)]
    if segments and _names_version(host, segments[-1], steps[0]):
        steps = steps[1:]
    else:
        steps = steps[_shared(segments, steps) :]
    whole = "/".join([(scheme + mark if mark else "") + host, *segments, *steps])
    whole_query = "&".join(query for query in queries if query)
    return whole + (f"?{whole_query}" if whole_query else "")


def parts_of(url: str) -> SplitResult:
    """Its parts, host and port among them; none at all where it is no address."""
    try:
        parts = urlsplit(url)
        _ = parts.hostname, parts.port
    except ValueError:
        return SplitResult("", "", "", "", "")
    return parts


def _names_version(host: str, last: str, first: str) -> bool:
    """Whether the base names a version of Google's own instead of that of the path."""
    versions = _VERSION.fullmatch(last) and _VERSION.fullmatch(first)
    return bool(versions and _GOOGLE.fullmatch(host))


def _shared(segments: list[str], steps: list[str]) -> int:
    """How many segments the base ends with that the path begins with."""
    most = min(len(segments), len(steps))
    return next((n for n in range(most, 0, -1) if segments[-n:] == steps[:n]), 0)
