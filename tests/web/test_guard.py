"""The guard as tables: hosts, origins, credentials, paths and sizes."""

from __future__ import annotations

import pytest

from playground.core.errors import BadInput
from tests.web.asking import (
    BEARER,
    COOKIE,
    EITHER_WAY,
    HERE,
    OWN,
    PAGE,
    PORT,
    SAME,
    TOKEN,
    Header,
    ask,
)

pytestmark = pytest.mark.anyio

# --- Host (threat 1) ------------------------------------------------------------------------

OUR_HOSTS = [HERE, f"localhost:{PORT}", f"LocalHost:{PORT}", f"[::1]:{PORT}"]
FOREIGN_HOSTS = [
    None,
    "",
    "evil.example",
    f"evil.example:{PORT}",
    "127.0.0.1",
    "127.0.0.1:80",
    "localhost",
    "localhost.",
    f"localhost.:{PORT}",
    f"127.0.0.1.:{PORT}",
    "127.0.0.1:1@evil",
    f"127.0.0.1:{PORT}@evil",
    f"evil@127.0.0.1:{PORT}",
    "[::1",
    "[::1]",
    f"::1:{PORT}",
    f"127.0.0.1:{PORT}/x",
    f"127.0.0.1:{PORT}?x",
    f"127.0.0.1:{PORT}#x",
    f"127.0.0.1:{PORT}/static/",
    f"127.0.0.1:0{PORT}",
    f"127.1:{PORT}",
    f"0.0.0.0:{PORT}",
    f"127.0.0.1:{PORT}, evil.example",
    f"127.0.0.1:{PORT}\x00",
]
WITHOUT_CREDENTIAL = ["/healthz", "/static/app.css", "/", f"/?token={TOKEN}", "/sim/openai/v1"]

NAVIGATES = (("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"))
FOREIGN = [
    [("origin", "http://evil.example")],
    [("origin", "null")],
    [("origin", "")],
    [("origin", f"http://127.0.0.1:{PORT + 1}")],
    [("origin", f"http://localhost:{PORT}")],  # of ours, but not the one that was asked
    [("origin", f"https://127.0.0.1:{PORT}")],
    [("origin", f"http://127.0.0.1:{PORT}.evil.example")],
    [("origin", f"http://127.0.0.1:{PORT}/")],
    [OWN, ("origin", "http://evil.example")],
    [("sec-fetch-site", "cross-site")],
    [("sec-fetch-site", "same-site")],
    [("sec-fetch-site", "")],
    [OWN, ("sec-fetch-site", "cross-site")],
    [OWN, ("sec-fetch-site", "same-site")],
    [SAME, ("origin", "null")],
    [SAME, ("origin", "http://evil.example")],
    [SAME, ("sec-fetch-site", "cross-site")],
    [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")],
    [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "iframe"),
    ],
]
KINDS = ["application/x-www-form-urlencoded", "application/json", "text/plain"]

WRONG = "wrong-token-0123456789abcdefABCDEF_~."

REFUSED: list[list[Header]] = [
    [],
    [("cookie", f"playground_{PORT}=wrong")],
    [("cookie", f"playground_{PORT}={WRONG}")],
    [("cookie", f"playground_{PORT}=")],
    [("cookie", f"playground_{PORT}={TOKEN}x")],
    [("cookie", f"playground_{PORT}={TOKEN[:-1]}")],
    [("cookie", f"playground_{PORT}=\xe9")],
    [("cookie", f'playground_{PORT}="{TOKEN}"')],
    [("cookie", f"playground_{PORT + 1}={TOKEN}")],
    [("cookie", f"playground={TOKEN}")],
    [("cookie", f"xplayground_{PORT}={TOKEN}")],
    [("cookie", f"playground_{PORT}={TOKEN}; playground_{PORT}={TOKEN}")],
    [("cookie", f"playground_{PORT}={TOKEN}; playground_{PORT}={WRONG}")],
    [COOKIE, COOKIE],
    [("authorization", "Bearer wrong")],
    [("authorization", f"Bearer {WRONG}")],
    [("authorization", "Bearer")],
    [("authorization", "Bearer ")],
    [("authorization", TOKEN)],
    [("authorization", f"Basic {TOKEN}")],
    [("authorization", f"Bearer {TOKEN}, Bearer {TOKEN}")],
    [BEARER, BEARER],
    [BEARER, ("Authorization", f"Bearer {WRONG}")],
    [COOKIE, ("authorization", f"Bearer {WRONG}")],
    [BEARER, ("cookie", f"playground_{PORT}={WRONG}")],
    [("x-api-key", TOKEN)],
    [("x-playground-token", TOKEN)],
]

TRICKS = [
    "/static/../sessions", "/static/%2e%2e/sessions", "/static/%2E%2E%2Fsessions",
    "/static%2f..%2fsessions", "/static/..", "/static/./x", "/static//x", "//static/x",
    "/static/..\\sessions", "/static/%5c..%5csessions", "/static/%00", "/static/x%0a",
    "/static\\..\\sessions", "/STATIC/x", "/Static/x", "/staticx", "/static", "static/x",
    "http://evil.example/static/x", "/healthz/", "/healthz/../sessions", "//healthz", "/HEALTHZ",
    "/x/../healthz", "/sim/../sessions", "/sim/%2e%2e/sessions", "*", "",
]  # fmt: skip


@pytest.mark.parametrize("host", OUR_HOSTS)
async def test_our_hosts_are_served(host: str) -> None:
    output = await ask("GET", "/x", COOKIE, host=host)
    assert (output.status, output.ran) == (200, ["GET /x"])


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
@pytest.mark.parametrize("target", WITHOUT_CREDENTIAL)
async def test_a_foreign_host_is_refused_everywhere(host: str | None, target: str) -> None:
    for settings in EITHER_WAY:
        output = await ask("GET", target, BEARER, COOKIE, host=host, **settings)
        assert (output.status, output.ran) == (421, [])


async def test_two_hosts_are_refused_and_forwarded_ones_are_nothing() -> None:
    for second in (HERE, "evil.example"):
        assert (await ask("GET", "/", COOKIE, ("Host", second))).status == 421
    for name in ("x-forwarded-host", "x-original-host", "forwarded"):
        assert (await ask("GET", "/", COOKIE, (name, HERE), host="evil.example")).status == 421


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (f"play.lan:{PORT}", 200),
        (f"Play.LAN:{PORT}", 200),
        ("play.lan", 421),
        ("tls.lan", 200),
        ("tls.lan:443", 200),
        (f"tls.lan:{PORT}", 421),
        (f"[fe80::1]:{PORT}", 200),
        ("[fe80::2]:99", 200),
    ],
)
async def test_allowed_hosts_come_with_their_port(host: str, status: int) -> None:
    names = ["play.lan", "tls.lan:443", "fe80::1", "[fe80::2]:99"]
    assert (await ask("GET", "/x", COOKIE, host=host, allow_hosts=names)).status == status
    foreign = ("origin", f"https://{host.lower()}")
    output = await ask("POST", "/x", COOKIE, foreign, host=host, allow_hosts=names)
    assert output.status == status


async def test_port_80_is_left_out_by_browsers() -> None:
    cookie = ("cookie", f"playground_80={TOKEN}")
    origin = ("origin", "http://localhost")
    output = await ask("POST", "/x", cookie, origin, host="localhost", port=lambda: 80)
    assert output.status == 200


# --- Origin and Sec-Fetch-Site (threats 2, 3, 5) --------------------------------------------


@pytest.mark.parametrize("headers", FOREIGN)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_foreign_write_is_refused(headers: list[Header], kind: str) -> None:
    for credential in (COOKIE, BEARER, ("x-api-key", TOKEN)):
        for target in ("/sessions", "/sim/anthropic/v1/messages"):
            output = await ask("POST", target, credential, ("content-type", kind), *headers)
            assert (output.status, output.ran) == (403, [])
    assert (await ask("POST", "/x", ("content-type", kind), *headers, token=None)).status == 403


@pytest.mark.parametrize("headers", FOREIGN)
@pytest.mark.parametrize("accept", ["text/event-stream", "application/json", "*/*"])
async def test_a_foreign_read_of_a_stream_or_json_is_refused(
    headers: list[Header], accept: str
) -> None:
    output = await ask("GET", "/sessions/1/stream", COOKIE, ("accept", accept), *headers)
    assert (output.status, output.ran) == (403, [])
    assert output.header("access-control-allow-origin") is None


@pytest.mark.parametrize(
    "headers", [[OWN], [SAME], [OWN, SAME], [("sec-fetch-site", "none")], [OWN, ("origin", OWN[1])]]
)
async def test_a_write_of_our_own_page_goes_in(headers: list[Header]) -> None:
    for settings in EITHER_WAY:
        output = await ask("POST", "/sessions", COOKIE, *headers, **settings)
        assert (output.status, output.ran) == (200, ["POST /sessions"])


async def test_a_write_that_says_nothing_of_its_origin_needs_a_bearer_or_a_simulators_key() -> None:
    assert (await ask("POST", "/x", COOKIE)).status == 403
    assert (await ask("POST", "/x", token=None)).status == 403
    assert (await ask("POST", "/x", BEARER)).status == 200
    assert (await ask("POST", "/sim/x", ("x-api-key", TOKEN))).status == 200
    assert (await ask("POST", "/x", ("x-api-key", TOKEN))).status == 401


async def test_a_link_from_elsewhere_may_open_a_page_but_not_write() -> None:
    link = [("sec-fetch-site", "cross-site"), *NAVIGATES]
    assert (await ask("GET", "/sessions/1", COOKIE, PAGE, *link)).status == 200
    assert (await ask("POST", "/sessions/1", COOKIE, PAGE, *link)).status == 403
    output = await ask("GET", "/sessions/1", PAGE, *link)  # SameSite=Strict kept the cookie back
    assert output.status == 401
    assert b"Open the link" in output.body
    assert b'href="/sessions/1"' in output.body


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get"])
async def test_other_methods_are_refused(method: str) -> None:
    output = await ask(method, "/x", BEARER)
    assert (output.status, output.ran, output.header("allow")) == (405, [], "GET, HEAD, POST")
    assert output.header("access-control-allow-methods") is None


# --- the credential (threat 4) --------------------------------------------------------------

assert len(WRONG) == len(TOKEN)


@pytest.mark.parametrize("headers", REFUSED)
async def test_without_the_right_credential_nothing_runs(headers: list[Header]) -> None:
    for method, target in (("GET", "/"), ("GET", "/nowhere"), ("HEAD", "/x"), ("POST", "/x")):
        for output in (
            await ask(method, target, *headers),
            await ask(method, target, OWN, SAME, *headers),
        ):
            assert (output.status, output.ran) == (401, [])
            assert TOKEN.encode() not in output.body


@pytest.mark.parametrize(
    "headers",
    [
        [COOKIE],
        [BEARER],
        [COOKIE, BEARER],
        [("cookie", f"a=b; playground_{PORT + 1}=other;playground_{PORT}={TOKEN}; c")],
        [("authorization", f"bearer  {TOKEN}")],
    ],
)
async def test_the_right_credential_goes_in(headers: list[Header]) -> None:
    assert (await ask("GET", "/x", *headers)).ran == ["GET /x"]
    assert (await ask("POST", "/x", OWN, *headers)).ran == ["POST /x"]


async def test_an_empty_token_is_none_at_all() -> None:
    with pytest.raises(BadInput, match="--no-token"):
        await ask("GET", "/x", ("cookie", f"playground_{PORT}="), token="")


async def test_what_needs_no_credential() -> None:
    output = await ask("GET", "/healthz")
    assert (output.status, output.body, output.ran) == (200, b"ok", [])
    assert (await ask("GET", "/static/app.css")).ran == ["GET /static/app.css"]
    assert (await ask("POST", "/static/app.css", OWN)).status == 401
    assert (await ask("POST", "/healthz", OWN)).status == 401


async def test_the_link_is_exchanged_for_a_cookie() -> None:
    output = await ask("GET", f"/sessions/a%20b?x=1&token={TOKEN}&y=%26", PAGE)
    assert (output.status, output.ran) == (303, [])
    assert output.header("location") == "/sessions/a%20b?x=1&y=%26"
    cookie = output.header("set-cookie")
    assert cookie == f"playground_{PORT}={TOKEN}; HttpOnly; SameSite=Strict; Path=/"
    crumb = cookie.partition(";")[0]
    assert (await ask("GET", "/sessions/a%20b", ("cookie", crumb))).status == 200


async def test_a_link_from_elsewhere_goes_on_as_a_page_of_our_own() -> None:
    """On a redirect the browser would still keep the strict cookie back."""
    link = [("sec-fetch-site", "cross-site"), *NAVIGATES]
    output = await ask("GET", f"/a;b?x=1&token={TOKEN}", PAGE, *link)
    assert (output.status, output.header("refresh"), output.ran) == (200, "0; url=/a;b?x=1", [])
    assert (output.header("location"), TOKEN in (output.header("set-cookie") or "")) == (None, True)
    assert "sandbox" not in (output.header("content-security-policy") or ""), "it could not go on"
    response = await ask("GET", f"/?token={WRONG}", PAGE, *link)
    assert (response.status, response.header("refresh")) == (401, None)


async def test_the_link_mends_a_stale_cookie() -> None:
    stale = ("cookie", f"playground_{PORT}={WRONG}")
    assert (await ask("GET", "/", stale)).status == 401
    assert (await ask("GET", f"/?token={TOKEN}", stale)).status == 303


@pytest.mark.parametrize(
    "query",
    ["token=", "token=wrong", f"token={WRONG}", f"token={TOKEN}&token={TOKEN}",
     f"token={TOKEN}&%74oken={WRONG}", f"Token={TOKEN}", f"x=token={TOKEN}", "token=%FF%00"],
)  # fmt: skip
async def test_a_wrong_link_opens_nothing_not_even_with_the_cookie(query: str) -> None:
    output = await ask("GET", f"/?{query}", PAGE)
    assert (output.status, output.ran, output.header("set-cookie")) == (401, [], None)
    if "oken=" in query and not query.startswith(("Token", "x=")):
        assert (await ask("GET", f"/?{query}", COOKIE)).status == 401


async def test_the_link_is_for_reading_only() -> None:
    assert (await ask("POST", f"/x?token={TOKEN}", OWN)).status == 401
    assert (await ask("GET", f"/sim/x?token={TOKEN}")).status == 401


@pytest.mark.parametrize("target", ["//evil.example/", "/%2Fevil.example", "/\\evil.example"])
async def test_the_link_leads_nowhere_else(target: str) -> None:
    output = await ask("GET", f"{target}?token={TOKEN}")
    assert (output.status, output.header("location")) == (404, None)


async def test_what_the_link_leads_to_is_escaped() -> None:
    output = await ask("GET", f'/a%E2%80%A8%3Cb%3E%22?q=%0d%0aX:1\xe9<"&token={TOKEN}')
    location = output.header("location")
    assert location == "/a%E2%80%A8%3Cb%3E%22?q=%0d%0aX:1%C3%A9%3C%22"
    page = await ask("GET", '/"><script>alert(1)</script>', PAGE)
    assert b"<script" not in page.body


async def test_no_token_switches_the_credential_off_and_nothing_else() -> None:
    assert (await ask("GET", "/x", token=None)).status == 200
    assert (await ask("POST", "/x", OWN, token=None)).status == 200
    assert (await ask("POST", "/sim/x", token=None)).status == 200
    output = await ask("GET", "/x?token=old", token=None)
    assert (output.status, output.header("location"), output.header("set-cookie")) == (
        303,
        "/x",
        None,
    )


# --- the simulator --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x-api-key", "x-goog-api-key", "authorization"])
async def test_the_simulator_takes_the_token_as_its_key(name: str) -> None:
    lead = "Bearer " if name == "authorization" else ""
    target = "/sim/anthropic/v1/messages"
    assert (await ask("POST", target, (name, lead + TOKEN))).ran == [f"POST {target}"]
    assert (await ask("POST", target, (name, lead + WRONG))).status == 401
    assert (await ask("POST", target, *[(name, lead + TOKEN)] * 2)).status == 401
    assert (await ask("POST", target)).status == 401
    assert (await ask("POST", target, COOKIE, OWN)).status == 401
    for other in ("/simulated", "/SIM/x", "/sim%2e/x", "/x/sim/"):
        assert (await ask("POST", other, ("x-api-key", TOKEN))).status == 401


# --- paths that somebody might read differently ---------------------------------------------


@pytest.mark.parametrize("target", TRICKS)
async def test_no_spelling_slips_past_the_credential(target: str) -> None:
    output = await ask("GET", target)
    if target == "/static":
        assert output.ran == ["GET /static"]
        return
    assert (output.status, output.ran) == (401, [])
    with_key = await ask("GET", target, ("x-api-key", TOKEN))
    assert (with_key.status, with_key.ran) == (401, [])
    inside = await ask("GET", target, COOKIE)
    assert inside.status == (200 if inside.ran else 404)
    assert not any(mark in text for text in inside.ran for mark in ("..", "//", "\\"))
