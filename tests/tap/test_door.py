"""Who comes in at the door for agents, where requests go on to and with whose key."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from playground.core.errors import NotFound, StoreError
from playground.core.providers import SHIPPED
from playground.core.settings import PROTOCOLS, Profile, Protocol
from playground.net.keys import Keys
from playground.protocols.registry import CODECS
from playground.tap.door import DOORS, HEADER, Upstreams
from playground.tap.relay import (
    CREDENTIALS,
    DoorName,
    RefusedRequest,
    UnobservedExchange,
    error_body,
)
from tests.tap.relaying import (
    AGENT_KEY,
    ISOLATING,
    PROVIDER_KEY,
    TOKEN,
    Answer,
    Headers,
    Place,
    ask,
    connected,
    door_of,
    placed,
    tool_request,
)

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"

REFUSED = {
    "no secret": (b"/tap/openai/v1/models", [], 401),
    "a wrong secret": (b"/tap/openai/v1/models", [(HEADER, b"x" * 43)], 401),
    "a wrong secret in the path": (b"/tap/%s/openai/v1/models" % (b"x" * 43), [], 401),
    "two secrets": (b"/tap/SECRET/openai/v1/models", [(HEADER, b"x" * 43)], 401),
    "a secret that is no text": (b"/tap/openai/v1/models", [(HEADER, b"\xff\xfe")], 401),
    "the page's own token": (b"/tap/openai/v1/models", [(HEADER, TOKEN.encode())], 401),
    "nothing": (b"/tap", [], 401),
    "no door": (b"/tap/SECRET", [], 404),
    "an unknown door": (b"/tap/SECRET/other/v1", [], 404),
    "a door written otherwise": (b"/tap/SECRET/%6fpenai/v1", [], 404),
    "a slash that is none": (b"/tap%2fSECRET/openai/v1/models", [], 401),
    "a page elsewhere": (b"/tap/SECRET/openai/v1", [(b"origin", b"https://x.example")], 403),
    "a page of ours": (b"/tap/SECRET/openai/v1", [(b"origin", b"http://127.0.0.1")], 403),
    "a page without origin": (b"/tap/SECRET/openai/v1", [(b"origin", b"null")], 403),
    "a browser": (b"/tap/SECRET/openai/v1", [(b"sec-fetch-site", b"same-origin")], 403),
    "an image elsewhere": (b"/tap/SECRET/openai/v1", [(b"sec-fetch-site", b"cross-site")], 403),
    "a page without a secret": (b"/tap/openai/v1", [(b"origin", b"null")], 403),
    "another protocol": (b"/tap/SECRET/anthropic/v1/messages", [], 404),
}

TYPED = (b"sec-fetch-site", b"none")
"""No page has asked, but for an extension's or the user: an address that was typed, a bookmark."""

EMPTY = (b"sec-fetch-dest", b"empty")
DESTINATIONS = (
    *(b"document", b"iframe", b"frame", b"fencedframe", b"nested-document", b"embed", b"object"),
    *(b"image", b"script", b"style", b"font", b"audio", b"video", b"track", b"manifest", b"xslt"),
    *(b"worker", b"sharedworker", b"serviceworker", b"audioworklet", b"report", b"json"),
    *(b"websocket", b"", b"EMPTY", b"empty, document"),
)
BROWSERS: dict[str, Headers] = {
    "a navigation": [TYPED, (b"sec-fetch-mode", b"navigate")],
    "a navigation with no other header": [(b"sec-fetch-mode", b"navigate")],
    "a navigation to a frame of an old Chrome": [(b"sec-fetch-mode", b"nested-navigate")],
    "a socket": [(b"sec-fetch-mode", b"websocket"), EMPTY],
    "a mode twice": [(b"sec-fetch-mode", b"cors"), (b"sec-fetch-mode", b"navigate")],
    "a destination twice": [EMPTY, (b"sec-fetch-dest", b"document")],
    "a prefetch": [(b"sec-purpose", b"prefetch"), (b"sec-fetch-dest", b"document")],
    "a service worker": [(b"service-worker", b"script")],
    "a browser that is logged in": [(b"cookie", b"a=1; playground_8321=x; b=2")],
    "one that is logged in to another playground": [(b"cookie", b"playground_1=x")],
    **{f"destination {name!r}": [TYPED, (b"sec-fetch-dest", name)] for name in DESTINATIONS},
}

ABSOLUTE = [
    ("http://HERE/PATH", "HERE", 200),
    ("HTTP://HERE/PATH", "HERE", 200),
    ("http://HERE/PATH", "evil.example", 421),
    ("http://evil.example/PATH", "HERE", 421),
    ("https://evil.example/PATH", "HERE", 421),
    ("http://evil.example/PATH", "evil.example", 421),
    ("http://HERE@evil.example/PATH", "HERE", 421),
    ("http://evil.example@HERE/PATH", "HERE", 421),
    ("http:///PATH", "HERE", 421),
    ("http://127.0.0.1/PATH", "HERE", 421),
    ("http://evil.example:80?/PATH", "HERE", 421),
    ("//evil.example/PATH", "HERE", 404),  # a path, and none of ours
]

OWN: Headers = [(b"x-a", b"1"), *((name, AGENT_KEY.encode()) for name in sorted(CREDENTIALS))]

VENDORS: Sequence[tuple[str, DoorName, bytes, str]] = [
    ("anthropic", "anthropic", b"/v1/messages", "https://api.anthropic.com"),
    ("openai", "openai", b"/v1/chat/completions", "https://api.openai.com"),
    ("openai", "openai", b"/v1/responses", "https://api.openai.com"),
    ("openai-responses", "openai", b"/v1/models", "https://api.openai.com"),
    ("gemini", "gemini", b"/v1beta/models", "https://generativelanguage.googleapis.com"),
    ("ollama-cloud", "ollama", b"/api/chat", "https://ollama.com"),
]

KEYS_IN_A_QUERY = (
    *(b"key", b"api_key", b"api-key", b"apikey", b"apiKey", b"access_token", b"auth_token"),
    *(b"token", b"password", b"client_secret", b"x-api-key", b"subscription-key", b"k%65y"),
    *(b"%61pi%5fkey", b"API_KEY"),
)
NO_KEYS_IN_A_QUERY = (
    *(b"alt=sse", b"beta=true", b"api-version=2025-01-01", b"pageToken=abc", b"max_tokens=5"),
    *(b"$alt=json;enum-encoding=int", b"a", b"=", b"", b"next_token=x"),
)

KEYS_IN_A_HEADER = (
    *(b"x-auth-token", b"helicone-auth", b"ocp-apim-subscription-key", b"xi-api-key"),
    *(b"cf-access-client-secret", b"x-amz-security-token", b"x-litellm-api-key"),
)
NO_KEYS_IN_A_HEADER = (
    *(b"idempotency-key", b"session_id", b"conversation_id", b"openai-organization"),
    *(b"x-goog-api-client", b"x-stainless-lang", b"anthropic-beta", b"x-claude-code-session-id"),
    *(b"http-referer", b"x-title", b"openai-intent", b"x-prompt-cache-key", b"user-agent"),
)

UNFIT: Sequence[tuple[str, DoorName, int]] = [
    ("anthropic", "openai", 404),
    ("openai", "anthropic", 404),
    ("ollama", "gemini", 404),
    ("nowhere", "openai", 404),
    ("groq", "openai", 401),  # no key
    ("azure", "openai", 502),  # no address
]


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    async with placed(tmp_path_factory.mktemp("tap")) as place:
        yield place


async def get(place: Place, target: bytes, *headers: tuple[bytes, bytes]) -> Answer:
    place.provider.says(OK)
    return await ask(place.port, "GET", target, headers)


async def test_the_secret_stands_in_the_header_or_in_the_path(place: Place) -> None:
    """It goes no further than here."""
    secret = place.secrets["raw"]
    for target, headers in (
        (b"/tap/openai/v1/models", [(HEADER, secret)]),
        (b"/tap/" + secret + b"/openai/v1/models", []),
        (b"/tap/" + secret + b"/openai/v1/models", [(HEADER, secret)]),
    ):
        assert (await get(place, target, *headers)).status == 200
        assert secret not in place.provider.heads[0]


@pytest.mark.parametrize("name", REFUSED)
async def test_a_request_that_is_not_ours_is_refused(place: Place, name: str) -> None:
    target, headers, status = REFUSED[name]
    got = await get(place, target.replace(b"SECRET", place.secrets["raw"]), *headers)
    assert got.status == status
    assert got.clean
    assert dict(got.headers)[b"content-type"] == b"application/json"
    assert json.loads(got.body)
    assert got.headers[-len(ISOLATING) :] == list(ISOLATING)
    assert place.provider.heads == []


@pytest.mark.parametrize("name", BROWSERS)
async def test_what_a_browser_asks_for_is_refused_by_each_method(place: Place, name: str) -> None:
    """An upstream would answer with a page, and its script would run in our origin."""
    target = place.target("openai", b"/v1/models", "raw")
    place.provider.says(OK)
    for method in ("GET", "HEAD", "POST", "OPTIONS"):
        got = await ask(place.port, method, target, BROWSERS[name])
        assert got.status == 403, method
        assert got.headers[-len(ISOLATING) :] == list(ISOLATING)
    assert place.provider.heads == []


@pytest.mark.parametrize(
    "headers",
    [
        [TYPED],
        [(b"sec-fetch-mode", b"cors")],  # Node's fetch
        [TYPED, (b"sec-fetch-mode", b"cors"), EMPTY],  # an extension's
        [TYPED, (b"sec-fetch-mode", b"no-cors"), EMPTY],  # a program with a browser inside
        [(b"cookie", b"my_playground_1=x; playground=1; playground_x=2")],
        [(b"referer", b"https://github.com/me/my-agent")],
    ],
)
async def test_what_a_program_asks_for_comes_in(place: Place, headers: Headers) -> None:
    target = place.target("openai", b"/v1/models", "raw")
    got = await get(place, target, *headers)
    assert got.status == 200
    assert got.headers[-len(ISOLATING) :] == list(ISOLATING)


async def test_the_secret_goes_on_in_no_header(place: Place) -> None:
    """Neither as a key nor in the address that a client says it came from."""
    secret = place.secrets["raw"]
    target = place.target("openai", b"/v1/models", "raw")
    headers = [
        (b"referer", b"http://127.0.0.1/tap/" + secret + b"/openai/v1/x"),
        (b"x-other", b"a " + secret),
        (b"x-kept", b"1"),
    ]
    assert (await get(place, target, *headers)).status == 200
    assert secret not in place.provider.heads[0]
    assert (b"x-kept", b"1") in place.provider.headers


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 399])
async def test_a_redirect_has_no_target_that_an_agent_could_follow(
    place: Place, status: int
) -> None:
    """A client would send the request, with the tap's secret, past the tap."""
    line = b"HTTP/1.1 %d Elsewhere\r\nlocation: http://127.0.0.1:1/v1\r\n" % status
    place.provider.says(line + b"content-length: 0\r\n\r\n")
    got = await ask(place.port, "POST", place.target("openai", b"/v1/x", "raw"), (), b"{}")
    assert got.status == status
    assert b"location" not in dict(got.headers)


@pytest.mark.parametrize(
    "host", [b"evil.example", b"127.0.0.1", b"127.0.0.1:1", b"localhost.:80", b"x@127.0.0.1"]
)
async def test_another_host_is_refused_before_its_secret_is_read(place: Place, host: bytes) -> None:
    place.provider.says(OK)
    async with connected(place.port) as client:
        target = place.target("openai", b"/v1/models", "raw")
        await client.send_head("GET", target, [(b"host", host)])
        await client.send_body()
        assert (await client.answer()).status == 421
    assert place.provider.heads == []


@pytest.mark.parametrize("path", ["tap/SECRET/openai/v1/models", "sessions"])
@pytest.mark.parametrize(("target", "host", "status"), ABSOLUTE)
async def test_a_target_with_another_host_is_refused(
    place: Place, target: str, host: str, status: int, path: str
) -> None:
    """`GET http://host/path`, by the door and by the guard, whatever Host says."""
    here, secret = f"127.0.0.1:{place.port}", place.secrets["raw"].decode()
    place.provider.says(OK)
    target = target.replace("PATH", path).replace("HERE", here).replace("SECRET", secret)
    lines = [
        f"GET {target} HTTP/1.1",
        f"Host: {host.replace('HERE', here)}",
        f"Authorization: Bearer {TOKEN}",
        "Connection: close",
    ]
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    writer.write("\r\n".join([*lines, "", ""]).encode())
    answer = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    assert int(answer.split(b" ")[1]) == status
    assert len(place.provider.heads) == (status == 200 and path != "sessions")


async def test_errors_are_in_the_form_of_the_protocol(place: Place) -> None:
    """What the agent's library makes of them is the sentence."""
    for protocol in PROTOCOLS:
        path, _, body = tool_request(protocol, "Hello")
        version = b"/v1" if protocol.startswith("openai") else b""
        target = b"/tap/" + door_of(protocol).encode() + version + path
        got = await ask(place.port, "POST", target, (), body)
        assert got.status == 401
        decoder = CODECS[protocol].decoder(401)
        events = [event for _, _, event in decoder.feed(got.body) + decoder.end(True)]
        assert "The secret of a tap is missing" in repr(events[-1])


async def test_a_revoked_tap_is_refused_at_once(place: Place) -> None:
    taps = place.taps
    tap, secret = await taps.create("raw")
    target = b"/tap/" + secret.encode() + b"/openai/v1/models"
    assert (await get(place, target)).status == 200
    await taps.revoke(tap.id)
    assert (await get(place, target)).status == 401


async def test_an_upgrade_is_answered_426(place: Place) -> None:
    """By which an agent knows to ask over HTTP; and the connection ends."""
    upgrade = [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")]
    target = place.target("openai", b"/v1/responses", "raw")
    got = await get(place, target, *upgrade, (b"sec-websocket-version", b"13"))
    assert (got.status, place.provider.heads) == (426, [])
    assert (await get(place, b"/tap/openai/v1/responses", *upgrade)).status == 401


async def test_an_upstream_that_is_not_there_is_said(place: Place) -> None:
    """In the form of the protocol, with status 502."""
    gone = replace(place.engine.profile("raw"), name="gone", base_url="http://127.0.0.1:1")
    await place.engine.save_profile(gone)
    _, secret = await place.taps.create("gone")
    got = await get(place, b"/tap/" + secret.encode() + b"/openai/v1/models")
    assert (got.status, got.clean) == (502, True)
    error = json.loads(got.body)["error"]
    assert "127.0.0.1:1" in error["message"]
    assert error["type"] == "server_error"
    await place.engine.delete_profile("gone")
    got = await get(place, b"/tap/" + secret.encode() + b"/openai/v1/models")
    assert got.status == 404
    assert "gone" in json.loads(got.body)["error"]["message"]


async def test_a_tap_that_leads_to_a_tap_leads_nowhere(place: Place) -> None:
    """As where its address for agents was left in the variable that moves the provider."""
    own = f"http://localhost:{place.port}/tap/{place.secrets['raw'].decode()}/openai/v1"
    loop = replace(place.engine.profile("raw"), name="loop", base_url=own)
    await place.engine.save_profile(loop)
    _, secret = await place.taps.create("loop")
    got = await get(place, b"/tap/" + secret.encode() + b"/openai/v1/models")
    assert (got.status, place.provider.heads) == (404, [])
    assert "loop" in json.loads(got.body)["error"]["message"]
    await place.engine.delete_profile("loop")


async def test_a_database_that_cannot_be_read_is_said(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def find(secret: str) -> None:
        raise StoreError("The database cannot be read.")

    monkeypatch.setattr(place.taps, "find", find)
    got = await get(place, place.target("openai", b"/v1/models", "raw"))
    assert (got.status, json.loads(got.body)["error"]["message"]) == (
        503,
        "The database cannot be read.",
    )


@pytest.mark.parametrize("where", ["in the exchange", "in the door"])
async def test_no_log_says_path_or_header(
    place: Place, where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(logging.getLogger("httpcore"), "level", logging.WARNING)

    def make(request: Any) -> UnobservedExchange:
        raise ValueError(f"a bug with {request.url} {request.target} {request.headers}")

    def find(*record: Any) -> None:
        raise ValueError(f"a bug with {record}")

    place.exchanges.make = make
    if where == "in the door":
        monkeypatch.setattr(Upstreams, "find", find)
    secret = place.secrets["raw"].decode()
    place.provider.says(OK)
    target = place.target("openai", b"/v1/private-word?key=private-key&x=1", "raw")
    headers = [(b"authorization", f"Bearer {AGENT_KEY}".encode())]
    got = await ask(place.observed, "GET", target, headers)
    assert got.status == (500 if where == "in the door" else 200)
    message = "".join(record.getMessage() for record in caplog.records)
    assert "ValueError" in message
    for word in (secret, AGENT_KEY, PROVIDER_KEY, "private-word", "private-key"):
        assert word not in message
        assert word not in got.body.decode()


# -- where a request goes on to, and with whose key


def upstreams(*own: Profile, **environment: str) -> Upstreams:
    known = {**{name: row.profile for name, row in SHIPPED.items()}, **{p.name: p for p in own}}

    def profile_named(name: str) -> Profile:
        if name not in known:
            raise NotFound(f"There is no profile {name!r}.")
        return known[name]

    def base_url(profile: Profile) -> str:
        return "http://127.0.0.1:9/sim" if profile.simulated else profile.base_url

    return Upstreams(profile_named, base_url, Keys(environment, simulator_key="the-simulators"))


@pytest.mark.parametrize(("name", "door", "path", "place"), VENDORS)
def test_the_agents_own_credentials_go_to_the_vendor(
    name: str, door: DoorName, path: bytes, place: str
) -> None:
    upstream = upstreams().find(name, door, path + b"?a=1&key=mine", OWN)
    assert (upstream.place, upstream.target) == (place, path + b"?a=1&key=mine")
    assert set(OWN) <= set(upstream.headers)


def test_to_nobody_else() -> None:
    """Each of these gets its own key; a gateway moved there by a variable, too."""
    groq = upstreams(GROQ_API_KEY="groq-key")
    upstream = groq.find("groq", "openai", b"/v1/chat/completions?key=mine&a=1&k%65y=2", OWN)
    assert upstream.url == "https://api.groq.com/openai/v1/chat/completions?a=1"
    assert [value for name, value in upstream.headers if name in CREDENTIALS] == [
        b"Bearer groq-key"
    ]
    moved = replace(SHIPPED["anthropic"].profile, base_url="https://gateway.example/x")
    named = {"ANTHROPIC_API_KEY": "own-key", "ANTHROPIC_BASE_URL": "https://gateway.example/x"}
    upstream = upstreams(moved, **named).find("anthropic", "anthropic", b"/v1/messages", OWN)
    assert upstream.url == "https://gateway.example/x/v1/messages"
    assert AGENT_KEY.encode() not in {value for _, value in upstream.headers}
    assert (b"x-api-key", b"own-key") in upstream.headers
    # The vendor's host by another scheme or port is another place.
    for address in ("http://api.anthropic.com", "https://api.anthropic.com:8443"):
        odd = Profile("odd", "anthropic", address)
        upstream = upstreams(odd).find("odd", "anthropic", b"/v1/messages", OWN)
        assert AGENT_KEY.encode() not in {value for _, value in upstream.headers}


@pytest.mark.parametrize("name", KEYS_IN_A_QUERY)
def test_a_key_in_a_query_goes_on_to_the_vendor_alone(name: bytes) -> None:
    """Whatever stands around it goes on as it is."""
    before, after = b"&".join(NO_KEYS_IN_A_QUERY[:5]), b"&".join(NO_KEYS_IN_A_QUERY[5:])
    path = b"/v1/chat/completions"
    query = b"&".join((before, name + b"=" + AGENT_KEY.encode(), after))
    groq = upstreams(GROQ_API_KEY="groq-key")
    upstream = groq.find("groq", "openai", path + b"?" + query, ())
    assert upstream.target == b"/openai" + path + b"?" + before + b"&" + after
    upstream = upstreams().find("openai", "openai", path + b"?" + query, ())
    assert upstream.target == path + b"?" + query
    assert groq.find("groq", "openai", path + b"?" + name + b"=", ()).target == b"/openai" + path


@pytest.mark.parametrize("name", KEYS_IN_A_HEADER)
def test_a_header_that_is_named_as_a_key_goes_on_to_the_vendor_alone(name: bytes) -> None:
    sent: Headers = [
        *((stored_data, b"0a1B2c3D4e5F6g7H8i9J") for stored_data in NO_KEYS_IN_A_HEADER)
    ]
    headers = [*sent, (name, AGENT_KEY.encode())]
    upstream = upstreams(GROQ_API_KEY="groq-key").find("groq", "openai", b"/v1/models", headers)
    assert set(sent) <= set(upstream.headers)
    assert name not in dict(upstream.headers)
    upstream = upstreams().find("openai", "openai", b"/v1/models", headers)
    assert set(headers) <= set(upstream.headers)


@pytest.mark.parametrize("door", list(DOORS))
def test_the_simulator_has_an_end_for_each_door(door: DoorName) -> None:
    for protocol in DOORS[door]:
        path = {"openai_responses": b"/v1/responses", "openai_chat": b"/v1/chat/completions"}
        upstream = upstreams().find("simulator", door, path.get(protocol, b"/v1/x"), OWN)
        assert upstream.profile.protocol == protocol
        assert upstream.place == "http://127.0.0.1:9"
        keys = [value for name, value in upstream.headers if name in CREDENTIALS]
        assert [key.rpartition(b" ")[2] for key in keys] == [b"the-simulators"] or (
            protocol == "ollama"
        )
        assert AGENT_KEY.encode() not in keys


@pytest.mark.parametrize(("name", "door", "status"), UNFIT)
def test_an_upstream_that_does_not_fit_is_refused(name: str, door: DoorName, status: int) -> None:
    with pytest.raises(RefusedRequest) as refused:
        upstreams().find(name, door, b"/v1/x", OWN)
    assert refused.value.status == status
    assert json.loads(error_body(DOORS[door][0], status, refused.value.sentence))


@pytest.mark.parametrize(
    ("path", "protocol"),
    [
        (b"/v1/responses", "openai_responses"),
        (b"/responses?x=1", "openai_responses"),
        (b"/v1/responses/resp_1/cancel", "openai_responses"),
        (b"/v1/chat/completions", "openai_chat"),
        (b"/v1/models", "openai_chat"),
    ],
)
def test_the_path_tells_which_protocol_of_openai_is_meant(path: bytes, protocol: Protocol) -> None:
    upstream = upstreams().find("openai", "openai", path, ())
    assert (upstream.profile.name, upstream.profile.protocol) == ("openai", protocol)


# -- the limits of the server are those of pages


async def test_an_agent_may_take_its_time_and_is_never_one_too_many(place: Place) -> None:
    """A body that stops for longer than the server's patience, on a server that takes no further
    connection; without a secret it waits as for any other."""
    target = place.target("openai", b"/v1/files", "raw")
    length = (b"content-length", b"10")
    async with place.impatient() as port:
        host = (b"host", b"127.0.0.1:%d" % place.port)
        async with connected(port) as slow, connected(port) as stranger:
            place.provider.says(OK)
            await slow.send_head("POST", target, [host, length])
            await slow.send_piece(b"01234")
            # The stranger's time is over after that of the agent would be.
            await stranger.send_head("POST", b"/tap/openai/v1/files", [host, length])
            assert (await stranger.answer(0)).status == 401
            assert await stranger.reader.read() is not None
            await slow.send_body(b"56789")
            assert (await slow.answer()).status == 200
            assert place.provider.bodies == [b"0123456789"]
            async with connected(port) as page:
                await page.send_head("GET", b"/healthz", [host])
                await page.send_body()
                assert (await page.answer()).status == 503
