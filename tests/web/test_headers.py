"""Which headers an answer bears, and the two that a page may change."""

from __future__ import annotations

import pytest

from playground.net.isolation import HARDENING, ISOLATED, POLICY, isolate_headers
from playground.web.guard import FRAMED, FRAMES, SECURITY_HEADERS, Headers, harden_headers

PAGE = (b"content-type", b"text/html; charset=utf-8")

FOR_BROWSERS: Headers = (
    (b"Set-Cookie", b"playground_8321=other"),
    (b"set-cookie2", b"a=1"),
    (b"clear-site-data", b'"*"'),
    (b"service-worker-allowed", b"/"),
    (b"strict-transport-security", b"max-age=1"),
    (b"public-key-pins", b"max-age=1"),
    (b"alt-svc", b'h3=":443"'),
    (b"nel", b"{}"),
    (b"report-to", b"{}"),
    (b"reporting-endpoints", b'a="https://x.example"'),
    (b"accept-ch", b"sec-ch-ua-model"),
    (b"origin-agent-cluster", b"?1"),
    (b"refresh", b"0; url=/sessions"),
    (b"link", b"</x.js>; rel=preload; as=script"),
    (b"speculation-rules", b'"/x.json"'),
    (b"sourcemap", b"/x.map"),
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-credentials", b"true"),
    (b"timing-allow-origin", b"*"),
    (b"cross-origin-resource-policy", b"cross-origin"),
    (b"cross-origin-opener-policy", b"unsafe-none"),
    (b"Content-Security-Policy", b"script-src *"),
    (b"content-security-policy-report-only", b"report-uri https://x.example"),
    (b"x-content-type-options", b"sniff"),
    (b"x-frame-options", b"ALLOWALL"),
    (b"referrer-policy", b"unsafe-url"),
    (b"permissions-policy", b"camera=*"),
)
KEPT: Headers = (
    (b"content-type", b"text/html"),
    (b"request-id", b"req_1"),
    (b"retry-after", b"3"),
    (b"x-ratelimit-remaining-tokens", b"7"),
    (b"content-encoding", b"gzip"),
    (b"www-authenticate", b"Bearer"),
    (b"server", b"odd"),
)


def hardened_headers(
    *theirs: tuple[bytes, bytes], static: bool = False, foreign: bool = False
) -> dict[bytes, bytes]:
    headers = harden_headers(theirs, static=static, foreign=foreign)
    assert len(dict(headers)) == len(headers), "a header twice"
    return dict(headers)


@pytest.mark.parametrize(
    ("theirs", "policy", "framing"),
    [
        ([], b"frame-ancestors 'none'", b"DENY"),
        ([FRAMED], b"frame-ancestors 'self'", b"SAMEORIGIN"),
        ([FRAMES], b"frame-ancestors 'none'; frame-src 'self'", b"DENY"),
        ([(FRAMED[0], b"frame-ancestors *")], b"frame-ancestors 'none'", b"DENY"),
        ([(FRAMED[0], b"frame-src *; frame-ancestors 'self'")], b"frame-ancestors 'none'", b"DENY"),
        ([(b"x-frame-options", b"SAMEORIGIN")], b"frame-ancestors 'none'", b"DENY"),
    ],
)
def test_a_page_asks_for_what_is_known_and_gets_nothing_else(
    theirs: Headers, policy: bytes, framing: bytes
) -> None:
    headers = hardened_headers(PAGE, *theirs)
    assert headers[POLICY].endswith(b"base-uri 'none'; " + policy)
    assert headers[b"x-frame-options"] == framing
    rest = {name: value for name, value in SECURITY_HEADERS.items() if name[:2] == b"cr"}
    assert rest.items() <= headers.items()


@pytest.mark.parametrize(
    "theirs",
    [
        [],
        [(b"content-type", b"text/plain; charset=utf-8")],
        [(b"content-type", b"image/svg+xml")],
        [(b"content-type", b"application/xhtml+xml")],
        [(b"content-type", b"text/html"), (b"content-disposition", b'attachment; filename="a"')],
        [(b"Content-Type", b"application/json"), FRAMED],
        [(b"content-type", b"application/octet-stream"), FRAMES],
        [(b"content-type", b"text/plain"), (POLICY, b"default-src *")],
    ],
)
def test_headers_of_what_is_no_page_isolate_it(theirs: Headers) -> None:
    headers = hardened_headers(*theirs)
    assert headers[POLICY] == ISOLATED + b"; frame-ancestors 'none'"
    assert HARDENING.items() <= headers.items()


def test_what_is_kept_and_what_is_dropped() -> None:
    assert hardened_headers((b"x-own", b"1"))[b"x-own"] == b"1"
    assert hardened_headers((b"set-cookie", b"a=1"))[b"set-cookie"] == b"a=1"
    assert hardened_headers()[b"cache-control"] == b"no-store"
    assert b"cache-control" not in hardened_headers(static=True)
    assert b"access-control-allow-origin" not in hardened_headers(
        (b"Access-Control-Allow-Origin", b"*")
    )


def test_isolated_headers_keep_what_programs_read_and_drop_what_browsers_obey() -> None:
    got = isolate_headers([*KEPT[:3], *FOR_BROWSERS, *KEPT[3:]])
    assert got == [*KEPT, (POLICY, b"sandbox; default-src 'none'"), *HARDENING.items()]


@pytest.mark.parametrize("kind", [b"text/html", b"application/json"])
def test_headers_of_the_simulator_isolate_its_answer(kind: bytes) -> None:
    headers = hardened_headers((b"content-type", kind), *FOR_BROWSERS, FRAMED, foreign=True)
    own = {POLICY: ISOLATED, **HARDENING, b"content-type": kind, b"cache-control": b"no-store"}
    assert headers == own
