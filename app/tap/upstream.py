"""Where a request of an agent goes on to, and with which headers.

Nothing is changed that need not be: hop-by-hop headers end here, the length and the host are made
new, and no compression is asked for. The agent's own credentials go to the vendor of its protocol
alone; every other upstream gets the key of its profile. https://www.rfc-editor.org/rfc/rfc9110
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import unquote_plus, urlsplit

from app.core.errors import BadInput, NotFound
from app.core.providers import SIMULATORS
from app.core.settings import Profile, Protocol
from app.net.keys import Keys, is_vendors_own, origin
from app.protocols.base import join_url
from app.protocols.registry import codec
from app.secrets.names import names_key
from app.tap.relay import CREDENTIALS, DoorName, RawHeaders, RefusedRequest, end_to_end

DOORS: Mapping[DoorName, tuple[Protocol, ...]] = {
    "anthropic": ("anthropic",),
    "openai": ("openai_chat", "openai_responses"),
    "gemini": ("gemini",),
    "ollama": ("ollama",),
}
"""The protocols that are spoken at each door, the usual one first."""

KEY_PARAM = "key"
"""The member of the query that a Gemini key may stand in."""

_SIMULATED: Mapping[Protocol, Profile] = {row.profile.protocol: row.profile for row in SIMULATORS}
_RESPONSES = re.compile(rb"(/v1)?/responses(/.*)?")
_CHAT = re.compile(rb"(/v1)?/chat/completions")


@dataclass(frozen=True)
class Upstream:
    """`profile` is what the tap's is for the protocol of the request. `place` is
    scheme://host:port, `target` path and query behind it, undecoded; `headers` are what goes out,
    but for the length of the body."""

    profile: Profile
    place: str
    target: bytes
    headers: RawHeaders

    @property
    def url(self) -> str:
        return self.place + self.target.decode("latin-1")


class Upstreams:
    """Finds the upstream of a request. `profile_named` raises NotFound, `base_url` gives the
    address of a profile and raises BadInput where it has none."""

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
        """Where a request at `door` for `target` goes on to by the profile `name`. RefusedRequest
        where there is no such profile, it speaks another protocol, or has no address or no key.
        The agent's credentials are masked from now on, wherever they turn up."""
        for credential in credentials_of(headers, target):
            self._keys.learn(credential)
        try:
            profile = _fitting(self._profile_named(name), door, target)
            base_url = self._base_url(profile)
            place = origin(base_url)
            vendor = is_vendors_own(profile)
        except NotFound as error:
            raise RefusedRequest(404, f"{error} The tap leads to it: make another tap.") from None
        except BadInput as error:
            raise RefusedRequest(502, str(error)) from None
        if not vendor:
            target = _without_key(target)
            headers = self._with_own_key(profile, headers)
        target = _joined(base_url, door, target)
        return Upstream(profile, place, target, _outgoing(headers, place))

    def _with_own_key(self, profile: Profile, headers: RawHeaders) -> RawHeaders:
        if missing := self._keys.missing(profile):
            raise RefusedRequest(401, missing)
        key = self._keys.key_for(profile)
        own = codec(profile.protocol).key_header(key, profile.quirks) if key else {}
        added = [
            (header.lower().encode("latin-1", "replace"), value.encode("latin-1", "replace"))
            for header, value in {**profile.headers, **own}.items()
        ]
        gone = CREDENTIALS | {header for header, _ in added}
        return [*(pair for pair in headers if pair[0] not in gone), *added]


def credentials_of(headers: RawHeaders, target: bytes) -> set[str]:
    """What of a request are keys and logins: in its headers behind the name of a scheme or of a
    cookie, and in its query."""
    credentials: set[str] = set()
    for name, value in headers:
        text = value.decode("latin-1").strip()
        if name == b"cookie":
            credentials |= {pair.partition("=")[2].strip() for pair in text.split(";")}
        elif name in CREDENTIALS:
            credentials.add(text.rpartition(" ")[2])
    for pair in target.decode("latin-1").partition("?")[2].split("&"):
        member, _, text = (unquote_plus(part) for part in pair.partition("="))
        if names_key(member, text):
            credentials.add(text)
    return credentials - {""}


def protocol_at(door: DoorName, target: bytes) -> Protocol | None:
    """The protocol of a request for `target`; None where any of the door's may be meant."""
    path = target.partition(b"?")[0]
    if door != "openai":
        return DOORS[door][0]
    if _RESPONSES.fullmatch(path):
        return "openai_responses"
    return "openai_chat" if _CHAT.fullmatch(path) else None


def _fitting(profile: Profile, door: DoorName, target: bytes) -> Profile:
    """`profile` as it speaks the protocol of the request."""
    spoken = DOORS[door]
    protocol = protocol_at(door, target)
    if profile.simulated and not profile.recorded:
        own = profile.protocol if profile.protocol in spoken else spoken[0]
        return _SIMULATED[protocol or own]
    if profile.protocol not in spoken:
        raise RefusedRequest(
            404,
            f"The upstream of this tap, {profile.name}, does not speak what is asked at this door "
            f"(/tap/{door}). Ask at the door of its protocol, or make a tap with another upstream.",
        )
    if profile.recorded or not protocol:
        return profile
    return replace(profile, protocol=protocol)


def _joined(base_url: str, door: DoorName, target: bytes) -> bytes:
    """Path and query: the target behind a profile's base URL, which has the version in it where
    the protocol is OpenAI's."""
    path = target.decode("latin-1")
    if door == "openai":
        path = re.sub(r"^/v1(?=[/?]|$)", "", path)
    bare = not path.startswith("/")  # the base URL itself
    url = join_url(base_url, "/" + path if bare else path)
    joined = re.sub(r"^[^/?]*", "", url.partition("://")[2])
    if bare:
        joined = re.sub(r"(?<=.)/(?=\?|$)", "", joined, count=1)
    return joined.encode("latin-1")


def _without_key(target: bytes) -> bytes:
    path, mark, query = target.partition(b"?")
    left = [
        pair
        for pair in query.split(b"&")
        if unquote_plus(pair.partition(b"=")[0].decode("latin-1")).lower() != KEY_PARAM
    ]
    return path + (mark if left else b"") + b"&".join(left)


def _outgoing(headers: RawHeaders, place: str) -> RawHeaders:
    """The headers of a request as they go on: the host in front, no coding asked for."""
    dropped = {b"host", b"expect", b"accept-encoding"}
    own = [pair for pair in end_to_end(headers) if pair[0] not in dropped]
    host = urlsplit(place).netloc.encode("latin-1")
    return [(b"host", host), *own, (b"accept-encoding", b"identity")]
