"""Keys: read by variable name per request, kept only in memory, each bound to an origin.

A key is sent to its provider's own address, or to one the user confirmed for it; a key from the
environment also to the address to which the environment moves its provider. A profile with another
address gets none. Threats 15 and 16 of docs/safety.md.
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import urlsplit

from playground.core.errors import BadInput
from playground.core.providers import KEY_NAME, PROVIDERS, VENDORS
from playground.core.settings import Profile
from playground.secrets.redaction import Redactor

SAME: Mapping[str, tuple[str, ...]] = {
    "GEMINI_API_KEY": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "GOOGLE_API_KEY": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "HF_TOKEN": ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"),
    "PERPLEXITY_API_KEY": ("PERPLEXITY_API_KEY", "PPLX_API_KEY"),
}
"""Alternative names of one key, in order of precedence, as in the provider's own client."""

DEFAULT_ORIGINS: Mapping[str, str] = {
    name: provider.origin
    for provider in PROVIDERS
    if provider.profile.key_name
    for name in SAME.get(provider.profile.key_name, (provider.profile.key_name,))
} | {"VERTEX_ACCESS_TOKEN": "https://aiplatform.googleapis.com"}
"""The origin of each key's provider. Vertex has one more in each region. An Azure resource has its
own, in AZURE_OPENAI_ENDPOINT: none is here."""

ADDRESS_NAMES: Mapping[str, str] = {"AZURE_OPENAI_API_KEY": "AZURE_OPENAI_ENDPOINT"}
"""The variable that moves a key's provider, if it is not X_BASE_URL for X_API_KEY."""

PROVIDER_HOSTS: Mapping[str, str] = {
    host: provider.profile.key_name
    for provider in PROVIDERS
    for host in provider.hosts
    if host.startswith((".", "-"))
}
"""Host suffixes of providers that have one host per region or customer."""

REGION = re.compile(r"[a-z0-9-]{2,40}")

SECRET_NAME = re.compile(r"\w*(API_KEY|ACCESS_KEY|SECRET_KEY|_TOKEN|_SECRET)", re.I)
SECRET_LENGTH = 16
"""Variables masked although no profile uses them, from this length on; shorter may be words."""

PLAIN = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "TERM", "LANG", "LANGUAGE", "TZ"),
        *("TMPDIR", "TEMP", "TMP", "HOSTNAME", "EDITOR", "VIRTUAL_ENV", "DISPLAY"),
        *("LC_ALL", "LC_CTYPE", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"),
    )
)
"""Variables whose values are public; masking them would blank half of a page."""

DEFAULT_PORTS = {"http": 80, "https": 443}
AUTHORITY = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")

LOCAL_NAME = re.compile(
    r"localhost|.+\.(localhost|local|internal|localdomain|home\.arpa|lan|home|corp|intranet)"
)
"""Names of this machine and of private networks; no public host has one."""

PR_SET_DUMPABLE = 4


def origin(url: str) -> str:
    """`scheme://host:port` of `url`, in lower case, without the scheme's default port.

    BadInput if it is not a plain http(s) URL: with a user name, a backslash or anything else in the
    host that two parsers could read differently.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    scheme = parts.scheme.lower()
    odd = " " in url or not url.isprintable()  # urlsplit drops line breaks, other parsers do not
    if odd or scheme not in DEFAULT_PORTS or not host or not AUTHORITY.fullmatch(parts.netloc):
        raise BadInput(f"Invalid URL {url[:200]!r}. Use https://host:port/path.")
    name = f"[{host}]" if ":" in host else host
    return f"{scheme}://{name}" + ("" if port in (None, DEFAULT_PORTS[scheme]) else f":{port}")


def provider_keys(place: str) -> list[str]:
    """The names of the keys whose provider is at the origin `place`: no other key is for it, in any
    protocol. A provider's host belongs to it on all ports."""
    names = [name for name, own in DEFAULT_ORIGINS.items() if own == place]
    host = urlsplit(place).hostname or ""
    if not names:
        remote = {name: own for name, own in DEFAULT_ORIGINS.items() if own.startswith("https:")}
        names = [name for name, own in remote.items() if urlsplit(own).hostname == host]
    return names or [name for end, name in PROVIDER_HOSTS.items() if host.endswith(end)]


def is_vendors_own(profile: Profile) -> bool:
    """Whether `profile` is at the origin of its protocol's own vendor: another program's login to
    that vendor may be sent only there."""
    try:
        place = origin(profile.base_url)
    except BadInput:
        return False
    vendors = (row.profile for row in VENDORS if row.profile.base_url)
    return any(
        (vendor.protocol, origin(vendor.base_url)) == (profile.protocol, place)
        for vendor in vendors
    )


def is_loopback(url: str) -> bool:
    """Whether `url` is certainly on this machine; False for an invalid URL."""
    try:
        host = urlsplit(url).hostname or ""
        if host == "localhost" or host.endswith(".localhost"):
            return True
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def is_near(place: str) -> bool:
    """Whether the host of the origin `place` is this machine or in a private network."""
    host = urlsplit(place).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return LOCAL_NAME.fullmatch(host) is not None or "." not in host
    return address.is_loopback or (address.is_private and not address.is_unspecified)


def check_key_name(name: str) -> None:
    """BadInput if `name` cannot be the name of a key's variable."""
    if not KEY_NAME.fullmatch(name):
        raise BadInput(
            f"{name[:80]!r} does not look like a key's name. Use a variable with KEY, TOKEN or "
            "SECRET in its name."
        )


class Keys:
    """All keys of this process by variable name. Its repr shows no value.

    `confirmed` are saved (name, base URL) pairs; `simulator_key` is the simulator's key: the page's
    token if it runs on the page's own port, else any word.
    """

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        confirmed: Iterable[tuple[str, str]] = (),
        simulator_key: str = "sim",
    ) -> None:
        self._environ = os.environ if environ is None else environ
        self._pasted: dict[str, str] = {}
        self._confirmed: set[tuple[str, str]] = set()
        self._simulator_key = simulator_key
        self._learned: set[str] = set()
        self._version = 1  # counts known values
        self._redactor: tuple[int, frozenset[str], Redactor] = (0, frozenset(), Redactor())
        for name, url in confirmed:
            self.confirm(name, url)

    def __repr__(self) -> str:
        return f"Keys({', '.join(self.names())})"

    def paste(self, name: str, value: str, base_url: str = "") -> None:
        """Keeps a key for this run; it wins over the environment's. BadInput if it is empty.

        With `base_url` it is confirmed for that address as well.
        """
        if not value.strip():
            raise BadInput(f"The key for {name} is empty. Paste it again.")
        if base_url:
            self.confirm(name, base_url)
        self._pasted[name] = value.strip()
        self._version += 1

    def confirm(self, name: str, base_url: str) -> None:
        """Records that the user permits sending the key `name` to the origin of `base_url`.

        BadInput if `name` is not a key name, or `base_url` is invalid.
        """
        check_key_name(name)
        self._confirmed.add((name, origin(base_url)))

    def confirmations(self) -> list[tuple[str, str]]:
        """The confirmed (name, origin) pairs, in order, to be saved for the next start."""
        return sorted(self._confirmed)

    def names(self) -> list[str]:
        """Names of the known keys that have a value; never a value."""
        names = {name for name in DEFAULT_ORIGINS if self._environ.get(name, "").strip()}
        return sorted(names | self._pasted.keys())

    def key_source(self, name: str) -> tuple[str, str]:
        """(name, "pasted" or "environment") of the key that is used as `name`; ("", "") for none.

        The name differs if the provider has several names for its key (`SAME`).
        """
        for other, value, place in self._sources(name):
            if value:
                return other, place
        return "", ""

    def key_for(self, profile: Profile) -> str | None:
        """The key to send with a request of `profile`, or None: `missing` returns the reason."""
        if profile.simulated:
            return self._simulator_key
        if not profile.key_name or not self.may_send(profile):
            return None
        value = self._value(profile.key_name)
        if value:
            self.learn(value)
        return value

    def missing_reason(self, profile: Profile) -> str:
        """A sentence on the missing key, or "" if none is missing."""
        name = profile.key_name
        if profile.simulated or not name:
            return ""
        if not self._value(name):
            return f"{name} is not set. Set it in the environment, or add it under Providers."
        if self.may_send(profile):
            return ""
        try:
            place = origin(profile.base_url)
        except BadInput as error:
            return str(error)
        return f"{name} is not confirmed for {place}. Confirm it under Providers first."

    def may_send(self, profile: Profile) -> bool:
        """Whether the key of `profile` may be sent to its address."""
        try:
            place = origin(profile.base_url)
        except BadInput:
            return False
        name = profile.key_name
        if place == DEFAULT_ORIGINS.get(name) or (name, place) in self._confirmed:
            return True
        return self._moved_origin(name) == place

    def unconfirmed_origin(self, profile: Profile) -> str:
        """The origin that the user may confirm for the key of `profile`, or ""."""
        if not profile.key_name or not self._value(profile.key_name) or self.may_send(profile):
            return ""
        try:
            return origin(profile.base_url)
        except BadInput:
            return ""

    def tool_key(self, name: str, url: str) -> str:
        """The key `name` for a tool's request to `url`; it is masked from now on.

        BadInput if it does not exist or may not be sent there: a provider's key may be sent to that
        provider, all others to addresses that the user confirmed.
        """
        check_key_name(name)
        place = origin(url)
        own = place == DEFAULT_ORIGINS.get(name) or self._moved_origin(name) == place
        if not own and (name, place) not in self._confirmed:
            raise BadInput(
                f"{name} does not belong to {place} and was not sent. Keep this tool's key in a "
                "separate variable."
                if name in DEFAULT_ORIGINS
                else f"{name} was not sent, because it is not confirmed for {place}. To confirm "
                "it, save the tool on its page, or switch it off and on."
            )
        return self._checked_value(name, place)

    def variable(self, name: str, url: str = "") -> str | None:
        """The variable `name` for an MCP server that the user accepted with it, or None.

        Masked from now on, unless it is public. With a `url` a bound value is sent only to the
        address it is bound to.
        """
        value = self._value(name)
        if url and value and name not in PLAIN:
            place = origin(url)
            bound = {where for known, where in self._confirmed if known == name}
            bound |= {DEFAULT_ORIGINS[name]} if name in DEFAULT_ORIGINS else set()
            # The user accepted name and URL together, so an unbound key may be sent there.
            return self.tool_key(name, url) if bound else self._checked_value(name, place)
        if value and name not in PLAIN:
            self.learn(value)
        return value

    def _checked_value(self, name: str, place: str) -> str:
        """The value, if the connection to `place` is safe for it: https, or a near host."""
        if place.startswith("http:") and not is_near(place):
            raise BadInput(
                f"{name} was not sent, because anyone on the way to {place} could read it. Use "
                "https."
            )
        value = self._value(name)
        if not value:
            raise BadInput(f"{name} is not set. Set it in the environment of this program.")
        self.learn(value)
        return value

    def learn(self, value: str) -> None:
        """Masks `value` from now on, as long as the process lives: it leaves this program, or
        arrived as a credential."""
        if value not in self._learned:
            self._learned.add(value)
            self._version += 1

    def secrets(self) -> frozenset[str]:
        """All values to mask everywhere: currently known, used or not, and all learned ones."""
        named = (
            value.strip()
            for name, value in self._environ.items()
            if name in DEFAULT_ORIGINS
            or (SECRET_NAME.fullmatch(name) and len(value) >= SECRET_LENGTH)
        )
        return frozenset([*self._pasted.values(), *self._learned, self._simulator_key, *named])

    def redactor(self) -> Redactor:
        """A redactor of `secrets`, updated when a key is pasted or a value learned: nothing else
        changes the environment of the process."""
        version, secrets, redactor = self._redactor
        if version != self._version:
            version, known = self._version, self.secrets()
            redactor = redactor if known == secrets else Redactor(known)
            self._redactor = (version, known, redactor)
        return redactor

    def _value(self, name: str) -> str | None:
        return next((value for _, value, _ in self._sources(name) if value), None)

    def _sources(self, name: str) -> Iterator[tuple[str, str, str]]:
        """(name, value, origin) of all sources of the key `name`, in order of precedence."""
        names = SAME.get(name, (name,))
        for other in (name, *names):
            yield other, self._pasted.get(other, ""), "pasted"
        for other in names:
            yield other, self._environ.get(other, "").strip(), "environment"

    def _moved_origin(self, name: str) -> str:
        """The origin to which the environment moves its own key `name`, or "".

        Not for a pasted key or one of another name: the address was not written for that one.
        """
        own = self._environ.get(name, "").strip()
        if not own or self._value(name) != own:
            return ""
        if name == "VERTEX_ACCESS_TOKEN":
            return self._region()
        provider, ending, _ = name.partition("_API_KEY")
        variable = ADDRESS_NAMES.get(name, f"{provider}_BASE_URL" if ending else "")
        try:
            return origin(self._environ.get(variable, "").strip())
        except BadInput:
            return ""

    def _region(self) -> str:
        """Vertex's host for the region; any valid region name leads to Google's domain."""
        region = self._environ.get("GOOGLE_CLOUD_LOCATION", "").strip()
        if not REGION.fullmatch(region):
            return ""
        return f"https://{region}-aiplatform.googleapis.com"


def harden_process() -> None:
    """Hides this process's memory and environment, which has keys, from other programs of the same
    user: on Linux only root can read them from now on. Child processes are not hardened, and get no
    keys. Threat 16 of docs/safety.md."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
