"""Response headers for bytes that are not ours but leave from our address: answers of providers
that pass through a tap, and the simulator's, which may be recorded ones of somebody else.

A browser that shows such an answer must treat it as a page of no origin: it runs no script, loads
nothing, sends no form, cannot be framed, and changes nothing that is stored for our own pages.
https://www.w3.org/TR/CSP3/ https://html.spec.whatwg.org/multipage/browsers.html#sandboxing
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

POLICY = b"content-security-policy"

ISOLATED = b"sandbox; default-src 'none'"
"""The policy of every response that is not a page of ours."""

HARDENING: Mapping[bytes, bytes] = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"no-referrer",
}
"""The security headers of every response, besides its policy."""

_KEPT_FOR_THE_ORIGIN = frozenset(
    (
        *(b"set-cookie", b"set-cookie2", b"clear-site-data", b"service-worker-allowed"),
        *(b"strict-transport-security", b"expect-ct", b"alt-svc", b"accept-ch", b"critical-ch"),
        *(b"nel", b"report-to", b"reporting-endpoints", b"origin-agent-cluster", b"origin-trial"),
    )
)
"""A browser would keep these for all of our address, or act on them there."""

_FOLLOWED = frozenset(
    (b"refresh", b"link", b"speculation-rules", b"sourcemap", b"x-sourcemap", b"content-location")
)
"""Addresses that a browser would go to or load."""

_GRANTS = frozenset(
    (
        *(b"timing-allow-origin", b"permissions-policy", b"feature-policy", b"document-policy"),
        *(b"x-xss-protection", b"x-permitted-cross-domain-policies"),
    )
)
_POLICIES = (b"access-control-", b"content-security-policy", b"cross-origin-", b"public-key-pins")
"""Beginnings of the names by which an answer says who may read it and what it may do."""


def is_for_browsers(name: bytes) -> bool:
    """Whether a response header of this name, in lower case, only tells a browser what to do."""
    return (
        name in _KEPT_FOR_THE_ORIGIN
        or name in _FOLLOWED
        or name in _GRANTS
        or name in HARDENING
        or name.startswith(_POLICIES)
    )


def isolate_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """`headers` of an answer without those for browsers, and followed by ours."""
    theirs = [pair for pair in headers if not is_for_browsers(pair[0].lower())]
    return [*theirs, (POLICY, ISOLATED), *HARDENING.items()]
