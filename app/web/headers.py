"""The headers of every answer. A page asks for one of two changes by a policy of its own that is
nothing but the directive: to be framed by our own pages, or to frame them. Whatever else a page
says of security is dropped. Threats 6 and 10 of docs/safety.md; knows no route.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Headers = Sequence[tuple[bytes, bytes]]

POLICY = b"content-security-policy"

SECURITY_HEADERS: Mapping[bytes, bytes] = {
    POLICY: (
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"no-referrer",
}

FRAMED = (POLICY, b"frame-ancestors 'self'")
"""A page that pages of our own may frame: the column of one session."""

FRAMES = (POLICY, b"frame-src 'self'")
"""A page that frames pages of our own: sessions side by side."""

SANDBOXED = (POLICY, b"sandbox")


def as_text(header: tuple[bytes, bytes]) -> dict[str, str]:
    """One of the above as a page gives it to its response."""
    name, value = header
    return {name.decode(): value.decode()}


def hardened(headers: Headers, *, static: bool) -> list[tuple[bytes, bytes]]:
    """The headers as they leave: an app's own, and ours over them."""
    ours = dict(SECURITY_HEADERS)
    if not static:
        ours[b"cache-control"] = b"no-store"
    if SANDBOXED in headers:  # stricter than ours alone
        ours[POLICY] += b"; sandbox"
    if FRAMES in headers:
        ours[POLICY] += b"; frame-src 'self'"
    if FRAMED in headers:
        ours[POLICY] = ours[POLICY].replace(b"frame-ancestors 'none'", b"frame-ancestors 'self'")
        ours[b"x-frame-options"] = b"SAMEORIGIN"
    theirs = [
        (name, value)
        for name, value in headers
        if name.lower() not in ours and not name.lower().startswith(b"access-control-")
    ]
    return [*theirs, *ours.items()]
