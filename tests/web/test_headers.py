"""Which headers an answer bears, and the two that a page may change."""

from __future__ import annotations

from app.web.guard import FRAMED, FRAMES, SANDBOXED, SECURITY_HEADERS, Headers, hardened
from tests.tables import each_row


def told(*theirs: tuple[bytes, bytes], static: bool = False) -> dict[bytes, bytes]:
    headers = hardened(theirs, static=static)
    assert len(dict(headers)) == len(headers), "a header twice"
    return dict(headers)


@each_row(
    ("theirs", "policy", "framing"),
    [
        ([], b"frame-ancestors 'none'", b"DENY"),
        ([FRAMED], b"frame-ancestors 'self'", b"SAMEORIGIN"),
        ([FRAMES], b"frame-ancestors 'none'; frame-src 'self'", b"DENY"),
        ([SANDBOXED], b"frame-ancestors 'none'; sandbox", b"DENY"),
        ([(FRAMED[0], b"frame-ancestors *")], b"frame-ancestors 'none'", b"DENY"),
        ([(FRAMED[0], b"frame-src *; frame-ancestors 'self'")], b"frame-ancestors 'none'", b"DENY"),
        ([(b"x-frame-options", b"SAMEORIGIN")], b"frame-ancestors 'none'", b"DENY"),
    ],
)
def test_a_page_asks_for_what_is_known_and_gets_nothing_else(
    theirs: Headers, policy: bytes, framing: bytes
) -> None:
    headers = told(*theirs)
    assert headers[b"content-security-policy"].endswith(b"base-uri 'none'; " + policy)
    assert headers[b"x-frame-options"] == framing
    rest = {name: value for name, value in SECURITY_HEADERS.items() if name[:2] == b"cr"}
    assert rest.items() <= headers.items()


def test_what_is_kept_and_what_is_dropped() -> None:
    assert told((b"x-own", b"1"))[b"x-own"] == b"1"
    assert told()[b"cache-control"] == b"no-store"
    assert b"cache-control" not in told(static=True)
    assert b"access-control-allow-origin" not in told((b"Access-Control-Allow-Origin", b"*"))
