"""A profile's base URL and a protocol's path, put together. Pure text; checks nothing."""

from __future__ import annotations


def joined(base_url: str, path: str) -> str:
    """`path` behind `base_url`.

    A query of the base URL (Azure's `?api-version=`) goes behind the path. What the base URL ends
    with and the path begins with stands once: people write `https://api.anthropic.com/v1` as well
    as `https://api.anthropic.com`.
    """
    base, _, query = base_url.partition("?")
    path, _, own_query = path.partition("?")
    base = base.rstrip("/")
    version = path[1:].partition("/")[0]
    if base.endswith("/" + version):
        path = path.removeprefix("/" + version)
    queries = "&".join(one for one in (own_query, query) if one)
    return base + path + (f"?{queries}" if queries else "")
