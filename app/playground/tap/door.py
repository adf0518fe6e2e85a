"""The door for agents: handles requests below /tap, before the page's own guard, and finds the
upstream of a request.

An agent identifies its tap by a secret, in the header `x-playground-tap` (/tap/openai/v1/…) or in
the path (/tap/SECRET/openai/v1/…). Checks, in order: Host, no browser, secret, door, upgrade,
upstream.

An upstream may answer anything, and its answer leaves from the origin of our own pages. So nothing
passes that a browser asks for by itself (a page, a frame, an image, a script), no request of a web
page, and none with the cookie of our pages. For browsers that do not say what they ask for, every
answer is isolated (`net/isolation`).
"""

from __future__ import annotations

import logging
import re
import secrets
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import get_args
from urllib.parse import unquote_plus, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from playground.config import one_line
from playground.core.errors import BadInput, NotFound, StoreError
from playground.core.providers import SIMULATORS
from playground.core.settings import Profile, Protocol
from playground.net.isolation import isolate_headers
from playground.net.keys import Keys, is_vendors_own, origin
from playground.protocols.base import join_url
from playground.protocols.registry import codec
from playground.secrets.names import names_key
from playground.tap import PREFIX
from playground.tap.relay import (
    AgentRequest,
    DoorName,
    RawHeaders,
    RefusedRequest,
    Relay,
    agent_connection,
    end_to_end_headers,
    is_credential,
    refuse,
)
from playground.tap.taps import Tap, Taps

logger = logging.getLogger("playground")

HEADER = b"x-playground-tap"

_DOORS: Mapping[bytes, DoorName] = {door.encode(): door for door in get_args(DoorName)}

_BY_PROGRAMS: Mapping[bytes, tuple[bytes, ...]] = {
    b"sec-fetch-mode": (b"cors", b"no-cors", b"same-origin"),
    b"sec-fetch-dest": (b"empty",),
    b"sec-fetch-site": (b"none",),
}
"""What a program may say of its request (Node's fetch: the mode `cors`): it reads the answer, and
no web page has asked. Anything else is a navigation, a frame, an image, a script, or a socket.
https://www.w3.org/TR/fetch-metadata/"""

_BROWSERS_OWN = frozenset((b"origin", b"service-worker"))
"""Headers that only web pages cause."""

_PAGE_COOKIE = re.compile(rb"(?:^|;)\s*playground_\d+=")
"""The cookie of our pages, or of another playground's: browsers send it to every port."""

WRONG_HOST = (421, "This address is not served here. Use the base URL that the playground printed.")
FOREIGN = (
    403,
    "This address is only for agents that you start yourself, not for browsers or web pages. "
    "Use it as an agent's base URL. The playground's own pages show what the agent does.",
)
NO_SECRET = (
    401,
    "The secret of a tap is missing, wrong or revoked. Start the agent with playground tap, or "
    "make a tap on the page Agents.",
)
NO_DOOR = (404, f"There is no such address. Use {PREFIX}/anthropic, openai, gemini or ollama.")
LOOP = (
    "The upstream of this tap, {}, points to a tap of this program. Change its address on the "
    "page Providers, or the variable that sets it."
)
NO_UPGRADE = (
    426,
    "There are no WebSockets here. Send the request over HTTP, to the same address.",
    ((b"upgrade", b"HTTP/1.1"), (b"connection", b"upgrade, close")),
)

DOORS: Mapping[DoorName, tuple[Protocol, ...]] = {
    "anthropic": ("anthropic",),
    "openai": ("openai_chat", "openai_responses"),
    "gemini": ("gemini",),
    "ollama": ("ollama",),
}
"""The protocols of each door, the default first."""

_SIMULATED: Mapping[Protocol, Profile] = {row.profile.protocol: row.profile for row in SIMULATORS}
_RESPONSES = re.compile(rb"(/v1)?/responses(/.*)?")
_CHAT = re.compile(rb"(/v1)?/chat/completions")


class Door:
    """An ASGI app before `inside`, which gets the requests that are not for agents. `is_own_host`
    says whether a Host is ours; `clock` is Unix time in ms; `mask` is applied to everything that is
    logged."""

    def __init__(
        self,
        inside: ASGIApp,
        *,
        taps: Taps,
        upstreams: Upstreams,
        relay: Relay,
        is_own_host: Callable[[bytes], bool],
        clock: Callable[[], int],
        mask: Callable[[str], str] = str,
    ) -> None:
        self._inside = inside
        self._taps = taps
        self._upstreams = upstreams
        self._relay = relay
        self._is_own_host = is_own_host
        self._clock = clock
        self._mask = mask

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] == "http" and (path == PREFIX or path.startswith(PREFIX + "/")):
            await self._answer(scope, receive, send)
        else:
            await self._inside(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def send_isolated(message: Message) -> None:
            nonlocal started
            started = True
            if message["type"] == "http.response.start":
                message = {**message, "headers": _client_headers(message)}
            await send(message)

        in_path, door, target = _parts(scope)
        protocol = "" if door is None else protocol_at(door, target) or DOORS[door][0]
        try:
            tap, secret = await self._authenticate(scope, in_path)
            if door is None:
                raise RefusedRequest(*NO_DOOR)
            if _is_upgrade(scope):
                raise RefusedRequest(*NO_UPGRADE)
            # The secret goes no further, also where it was given as a key or is in a Referer.
            headers = [
                (name, value.strip()) for name, value in scope["headers"] if secret not in value
            ]
            await self._relay_request(
                tap,
                door=door,
                target=target,
                headers=headers,
                scope=scope,
                receive=receive,
                send=send_isolated,
            )
        except RefusedRequest as refused:
            await refuse(send_isolated, protocol, refused)
        except StoreError as error:
            if not started:
                await refuse(send_isolated, protocol, RefusedRequest(503, str(error)))
        except Exception as error:
            # No exception reaches the server: its log would not be masked.
            failed = self._internal_error(error)
            if not started:
                await refuse(send_isolated, protocol, failed)

    async def _authenticate(self, scope: Scope, in_path: bytes) -> tuple[Tap, bytes]:
        """Authenticates the request; the tap and its secret. RefusedRequest if it is of none."""
        headers: RawHeaders = scope["headers"]
        hosts = [value.strip() for name, value in headers if name == b"host"]
        if len(hosts) != 1 or not self._is_own_host(hosts[0]):
            raise RefusedRequest(*WRONG_HOST)
        if any(_is_from_browser(name, value.strip()) for name, value in headers):
            raise RefusedRequest(*FOREIGN)
        presented = {value.strip() for name, value in headers if name == HEADER}
        if in_path:
            presented.add(in_path)
        if len(presented) != 1:
            raise RefusedRequest(*NO_SECRET)
        secret = presented.pop()
        tap = await self._taps.find(secret.decode("latin-1"))
        if tap is None:
            raise RefusedRequest(*NO_SECRET)
        return tap, secret

    async def _relay_request(
        self,
        tap: Tap,
        door: DoorName,
        target: bytes,
        headers: RawHeaders,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        at_ms = self._clock()
        try:
            upstream = self._upstream(tap, door, target, headers)
        except RefusedRequest as refused:  # shown on the page of taps
            asked = (tap.id, scope["method"], target, refused.status, at_ms)
            self._taps.note(tap.id, at_ms)
            self._taps.note_other(*asked, refused.sentence)
            raise
        connection = agent_connection(scope)
        if connection is not None:
            connection.wait_for_body()
        request = AgentRequest(
            tap,
            door=door,
            method=scope["method"],
            target=target,
            headers=headers,
            body=None,
            url=upstream.url,
            profile=upstream.profile,
            at_ms=at_ms,
        )
        await self._relay(
            request,
            place=upstream.place,
            target=upstream.target,
            headers=upstream.headers,
            scope=scope,
            receive=receive,
            send=send,
        )

    def _upstream(self, tap: Tap, door: DoorName, target: bytes, headers: RawHeaders) -> Upstream:
        """RefusedRequest if there is none for the request, or it leads back to this server."""
        upstream = self._upstreams.find(tap.upstream, door, target, headers)
        here = self._is_own_host(dict(upstream.headers)[b"host"])
        if here and upstream.target.startswith(PREFIX.encode() + b"/"):
            raise RefusedRequest(404, LOOP.format(upstream.profile.name))
        return upstream

    def _internal_error(self, error: Exception) -> RefusedRequest:
        """An error id for the user; logs it with the traceback, without the error's message, which
        may contain a path or a header."""
        error_id = secrets.token_hex(4)
        frames = "".join(traceback.format_tb(error.__traceback__))
        text = f"error {error_id} in a tap request: {type(error).__name__}\n{frames}"
        logger.error(one_line(self._mask(text)))
        return RefusedRequest(500, f"Internal error. See {error_id} in the log.")


def _parts(scope: Scope) -> tuple[bytes, DoorName | None, bytes]:
    """(secret, door, rest of the path with query), undecoded; the secret is b"" if the path has
    none, the door None if unknown."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    first, slash, behind = raw.removeprefix(PREFIX.encode() + b"/").partition(b"/")
    secret = b""
    if first not in _DOORS:
        secret = first
        first, slash, behind = behind.partition(b"/")
    query: bytes = scope["query_string"]
    target = slash + behind + (b"?" + query if query else b"")
    return secret, _DOORS.get(first), target


def _is_from_browser(name: bytes, value: bytes) -> bool:
    """Whether a request with this header is a browser's own, or a web page's."""
    if name == b"cookie":
        return _PAGE_COOKIE.search(value) is not None
    return name in _BROWSERS_OWN or value not in _BY_PROGRAMS.get(name, (value,))


def _client_headers(start: Message) -> RawHeaders:
    """The headers of an answer as the client gets them. A redirect keeps its status but not its
    target: a client that follows it would send the request, the secret among its headers, past the
    tap, and its calls would not be held."""
    redirects = 300 <= start["status"] < 400
    return isolate_headers(
        (name, value) for name, value in start["headers"] if not (redirects and name == b"location")
    )


def _is_upgrade(scope: Scope) -> bool:
    asked = [value.lower() for name, value in scope["headers"] if name == b"upgrade"]
    return any(b"websocket" in value for value in asked)


# The upstream of a request, and its headers -------------------------------------------------------

# Changes as little as possible: removes hop-by-hop headers, sets length and host, and asks for no
# compression. The agent's own credentials are sent only to the vendor of its protocol; every other
# upstream gets the key of its profile. https://www.rfc-editor.org/rfc/rfc9110


@dataclass(frozen=True)
class Upstream:
    """`profile` is the tap's, adapted to the protocol of the request. `place` is
    scheme://host:port, `target` path and query, undecoded; `headers` are sent, plus the length of
    the body."""

    profile: Profile
    place: str
    target: bytes
    headers: RawHeaders

    @property
    def url(self) -> str:
        return self.place + self.target.decode("latin-1")


class Upstreams:
    """Finds the upstream of a request. `profile_named` raises NotFound; `base_url` returns the
    address of a profile, or raises BadInput if it has none."""

    def __init__(
        self,
        profile_named: Callable[[str], Profile],
        base_url: Callable[[Profile], str],
        keys: Keys,
    ) -> None:
        self._profile_named = profile_named
        self._base_url = base_url
        self._keys = keys

    def find(self, name: str, door: DoorName, target: bytes, headers: RawHeaders) -> Upstream:
        """The upstream by profile `name` for a request to `target` at `door`. RefusedRequest if
        there is no such profile, it speaks another protocol, or has no address or no key. Masks the
        agent's credentials everywhere from now on."""
        for credential in credentials_of(headers, target):
            self._keys.learn(credential)
        try:
            profile = _fit_profile(self._profile_named(name), door, target)
            base_url = self._base_url(profile)
            place = origin(base_url)
            vendor = is_vendors_own(profile)
        except NotFound as error:
            raise RefusedRequest(404, f"{error} The tap uses it. Make another tap.") from None
        except BadInput as error:
            raise RefusedRequest(502, str(error)) from None
        if not vendor:
            target = _strip_keys(target)
            headers = self._add_key(profile, headers)
        target = _join_target(base_url, door, target)
        return Upstream(profile, place, target, _outgoing_headers(headers, place))

    def _add_key(self, profile: Profile, headers: RawHeaders) -> RawHeaders:
        if missing := self._keys.missing_reason(profile):
            raise RefusedRequest(401, missing)
        key = self._keys.key_for(profile)
        own = codec(profile.protocol).key_header(key, profile.quirks) if key else {}
        added = [
            (header.lower().encode("latin-1", "replace"), value.encode("latin-1", "replace"))
            for header, value in {**profile.headers, **own}.items()
        ]
        ours = {header for header, _ in added}
        theirs = [pair for pair in headers if pair[0] not in ours and not is_credential(pair[0])]
        return [*theirs, *added]


def credentials_of(headers: RawHeaders, target: bytes) -> set[str]:
    """The keys and logins of a request: in its headers, after a scheme or a cookie's name, and in
    its query."""
    credentials: set[str] = set()
    for name, value in headers:
        text = value.decode("latin-1").strip()
        if name == b"cookie":
            credentials |= {pair.partition("=")[2].strip() for pair in text.split(";")}
        elif is_credential(name):
            credentials.add(text.rpartition(" ")[2])
    members = map(_member, target.partition(b"?")[2].split(b"&"))
    credentials |= {text for name, text in members if names_key(name, text)}
    return credentials - {""}


def _member(pair: bytes) -> tuple[str, str]:
    """Name and value of a member of a query."""
    name, _, value = pair.decode("latin-1").partition("=")
    return unquote_plus(name), unquote_plus(value)


def protocol_at(door: DoorName, target: bytes) -> Protocol | None:
    """The protocol of a request to `target`; None if any of the door's is possible."""
    path = target.partition(b"?")[0]
    if door != "openai":
        return DOORS[door][0]
    if _RESPONSES.fullmatch(path):
        return "openai_responses"
    return "openai_chat" if _CHAT.fullmatch(path) else None


def _fit_profile(profile: Profile, door: DoorName, target: bytes) -> Profile:
    """`profile` with the protocol of the request."""
    spoken = DOORS[door]
    protocol = protocol_at(door, target)
    if profile.simulated and not profile.recorded:
        own = profile.protocol if profile.protocol in spoken else spoken[0]
        return _SIMULATED[protocol or own]
    if profile.protocol not in spoken:
        raise RefusedRequest(
            404,
            f"The upstream of this tap, {profile.name}, does not use the protocol of this "
            f"address (/tap/{door}). Use the address of its protocol, or make a tap with another "
            "upstream.",
        )
    if profile.recorded or not protocol:
        return profile
    return replace(profile, protocol=protocol)


def _join_target(base_url: str, door: DoorName, target: bytes) -> bytes:
    """Path and query: appends the target to a profile's base URL, which includes the version if the
    protocol is OpenAI's."""
    path = target.decode("latin-1")
    if door == "openai":
        path = re.sub(r"^/v1(?=[/?]|$)", "", path)
    bare = not path.startswith("/")  # the base URL itself
    url = join_url(base_url, "/" + path if bare else path)
    joined = re.sub(r"^[^/?]*", "", url.partition("://")[2])
    if bare:
        joined = re.sub(r"(?<=.)/(?=\?|$)", "", joined, count=1)
    return joined.encode("latin-1")


def _strip_keys(target: bytes) -> bytes:
    path, mark, query = target.partition(b"?")
    left = [pair for pair in query.split(b"&") if not names_key(*_member(pair))]
    return path + (mark if left else b"") + b"&".join(left)


def _outgoing_headers(headers: RawHeaders, place: str) -> RawHeaders:
    """The headers to send: the host first, and no compression requested."""
    dropped = {b"host", b"expect", b"accept-encoding"}
    own = [pair for pair in end_to_end_headers(headers) if pair[0] not in dropped]
    host = urlsplit(place).netloc.encode("latin-1")
    return [(b"host", host), *own, (b"accept-encoding", b"identity")]
