"""What a vendor is: a profile, and what a person wants to know about it. The rows are in `vendors`
and `compatible`.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from app.core.settings import SIMULATOR_URL, Profile

LOCAL_S = 300.0
"""A local server may load its model before its first byte, and think long between two."""


@dataclass(frozen=True)
class Hint:
    """Something worth knowing before a request is made, and where that is known from."""

    fact: str
    source: str


@dataclass(frozen=True)
class Vendor:
    """A profile with what a person wants to know about it.

    `key_place` is where to get a key, `start` how a `local` server is started. Both are texts.
    `hosts` are its hosts besides the profile's; one that begins with a dot or a dash is how the
    hosts end of a vendor that has one for each region or customer.
    """

    profile: Profile
    title: str
    about: str
    key_place: str = ""
    local: bool = False
    start: str = ""
    hints: tuple[Hint, ...] = ()
    hosts: tuple[str, ...] = ()

    def stands_at(self, base_url: str) -> bool:
        """Whether `base_url` leads to this vendor, by the host alone; on this machine by the port.

        Never an error, whatever the address looks like.
        """
        try:
            there, own = urlsplit(base_url), urlsplit(self.profile.base_url)
            host = (there.hostname or "").removesuffix(".")  # with it a name is whole, and the same
            if self.local:
                return host in _HERE and own.port == there.port
        except ValueError:
            return False
        ends = tuple(host for host in self.hosts if host.startswith((".", "-")))
        return host != "" and (host in (own.hostname, *self.hosts) or host.endswith(ends))


_HERE = ("127.0.0.1", "localhost", "::1")


def simulated(name: str, protocol: str, title: str) -> Vendor:
    return Vendor(
        Profile(name, protocol, SIMULATOR_URL, model="simulator"),  # type: ignore[arg-type]
        f"Simulator, {title}",
        "Built in: answers at once, calls tools by the words of a prompt, plays faults.",
    )


def on_this_machine(
    name: str,
    title: str,
    about: str,
    url: str,
    start: str,
    *hints: Hint,
    key_name: str = "",
    key_place: str = "",
    model: str = "",
) -> Vendor:
    """A server on this machine that speaks Chat Completions."""
    profile = Profile(
        name,
        "openai_chat",
        url,
        key_name,
        model,
        first_byte_s=LOCAL_S,
        idle_s=LOCAL_S,
    )
    return Vendor(profile, title, about, key_place, True, start, hints)


def compatible(
    name: str,
    title: str,
    about: str,
    url: str,
    key_name: str,
    key_place: str,
    *hints: Hint,
    model: str = "",
    quirks: str = "",
    hosts: tuple[str, ...] = (),
) -> Vendor:
    """A service out there that speaks Chat Completions."""
    named = tuple(quirks.split())
    profile = Profile(name, "openai_chat", url, key_name, model, quirks=named)
    return Vendor(profile, title, about, key_place, hints=hints, hosts=hosts)
