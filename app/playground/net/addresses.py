"""Checks addresses for tools: parses and resolves a URL once, and checks each address.

Callers must connect to one of the returned addresses and must not resolve again. No HTTP, no tools.
Threat 20 of docs/safety.md, https://www.rfc-editor.org/rfc/rfc6890
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from playground.core.errors import BadInput, Refused
from playground.net.keys import DEFAULT_PORTS, LOCAL_NAME, origin

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves a host name and port to addresses; OSError if it has none."""

MOST_ADDRESSES = 4
MAY_REACH = "may reach this computer and its network"
"""The label on all pages of the option that permits private addresses."""
"""Most addresses of a host that are tried."""

_PRIVATE = tuple(
    ipaddress.ip_network(block)
    for block in (
        *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"),
        *("::1/128", "fc00::/7"),
    )
)
"""Permitted by `private`: this machine and private networks. Nothing else is ever permitted."""

_METADATA = frozenset(
    ipaddress.ip_address(word)
    for word in (
        *("100.100.100.200", "168.63.129.16", "192.0.0.192"),
        *("fd00:ec2::254", "fd20:ce::254"),
    )
)
"""Cloud metadata services, which return a machine's keys, outside of the link-local networks."""

_GLOBAL = ipaddress.ip_network("2000::/3")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_SHUT = tuple(
    ipaddress.ip_network(block)
    for block in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24"),
        *("192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        *("2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20"),
    )
)
"""IANA's special-purpose blocks, for IPv6 those within 2000::/3. Written out, because Python's
`is_global` changes between releases. Whole blocks: the few public hosts in them serve no tools.
https://www.iana.org/assignments/iana-ipv4-special-registry/"""

_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


@dataclass(frozen=True)
class CheckedAddress:
    """The target of a URL. `host` is the name for the request and the certificate, without
    brackets; only `addresses` may be connected to, in this order."""

    scheme: str
    host: str
    port: int
    addresses: tuple[str, ...]

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == DEFAULT_PORTS[self.scheme] else f"{name}:{self.port}"


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """The addresses from the system resolver, in its order."""
    entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


async def check_address(
    url: str, *, private: bool, hosts: Sequence[str] = (), resolve: Resolve = resolve_host
) -> CheckedAddress:
    """The target of `url`. Refused, with a sentence, if it must not be reached.

    `private` permits loopback and private networks. `hosts`, if any, are the only hosts permitted:
    `api.example.com`, or `*.example.com` for its subdomains. A host with any forbidden address is
    refused as a whole.
    """
    try:
        parts = urlsplit(origin(url))
        host, port = _host(parts.hostname or ""), parts.port
    except BadInput as error:
        raise Refused(str(error)) from None
    if not _is_permitted(host, hosts):
        raise Refused(f"{host} is not one of the hosts this tool may reach: {', '.join(hosts)}.")
    port = DEFAULT_PORTS[parts.scheme] if port is None else port
    literal = _literal(host)
    if literal is None and not private and LOCAL_NAME.fullmatch(host):
        raise Refused(
            _refusal_sentence(host, AddressFault("a name of this machine or network", True))
        )
    addresses = [literal] if literal is not None else await _resolve_host(host, port, resolve)
    for address in addresses:
        why = _fault(address, private)
        if why is not None:
            why = why if literal is not None else replace(why, words=f"{address}, {why.words}")
            raise Refused(_refusal_sentence(host, why))
    return CheckedAddress(
        parts.scheme, host, port, tuple(map(_address_text, addresses[:MOST_ADDRESSES]))
    )


def _host(name: str) -> str:
    """`name` without the trailing dot. BadInput if parsers could disagree about the host."""
    host = name.lower().removesuffix(".")
    if ":" in host:
        return str(ipaddress.IPv6Address(host))
    labels = host.split(".")
    if not all(labels):
        raise BadInput(f"{name!r} is not a host name: it has an empty label between two dots.")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            sentence = f"{name!r} is an address in an unusual notation. Write it like 203.0.113.7."
            raise BadInput(sentence) from None
    return host


def _literal(host: str) -> IPAddress | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_permitted(host: str, hosts: Sequence[str]) -> bool:
    """Whether `hosts` permits it; an empty list permits all."""
    below = ("." + host[2:].lower() for host in hosts if host.startswith("*."))
    names = (host.lower().strip("[]").removesuffix(".") for host in hosts)
    return not hosts or host in names or any(host.endswith(end) for end in below)


async def _resolve_host(host: str, port: int, resolve: Resolve) -> list[IPAddress]:
    try:
        words = await resolve(host, port)
    except (OSError, UnicodeError):
        sentence = f"The name {host} cannot be resolved (DNS). Check the spelling and your network."
        raise Refused(sentence) from None
    try:
        addresses = [ipaddress.ip_address(word) for word in words]
    except ValueError:
        raise Refused(
            f"The name {host} does not resolve to an IP address. Check the name."
        ) from None
    if not addresses:
        raise Refused(f"The name {host} has no address. Check the spelling.")
    return addresses


def _address_text(address: IPAddress) -> str:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


@dataclass(frozen=True)
class AddressFault:
    """Why an address must not be reached; `private` if a user may permit it."""

    words: str
    private: bool = False


def _fault(address: IPAddress, private: bool) -> AddressFault | None:
    """The reason why `address` must not be reached, or None."""
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id:
        return AddressFault("an address with a zone")
    for form in (address, *_embedded_addresses(address)):
        why = _own_fault(form, private)
        if why is not None:
            other = f"{form} in another form, {why.words}"
            return why if form == address else replace(why, words=other)
    return None


def _embedded_addresses(address: IPAddress) -> Iterator[ipaddress.IPv4Address]:
    """The IPv4 addresses embedded in an IPv6 address, in any of the standard encodings."""
    if isinstance(address, ipaddress.IPv4Address):
        return
    number = int(address)
    high, low = number >> 96, ipaddress.IPv4Address(number & 0xFFFFFFFF)
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    elif high == 0 and number >> 32 == 0 and number > 1:
        yield low
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if address in _NAT64 or (number >> 32) & 0xFDFFFFFF == 0x5EFE:  # RFC 6052; ISATAP, RFC 5214
        yield low


def _own_fault(address: IPAddress, private: bool) -> AddressFault | None:
    if address in _METADATA or address.is_link_local:
        return AddressFault("an address where cloud machines get their keys")
    if address.is_unspecified:
        return AddressFault("an address that no machine has")
    if any(address in block for block in _PRIVATE if block.version == address.version):
        own = AddressFault("an address of this machine or of a private network", True)
        return None if private else own
    if address.is_multicast:
        return AddressFault("a multicast or broadcast address")
    special = AddressFault("an address for special use, not a public host")
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None or address in _NAT64:
            return None  # judged by the embedded addresses
        if address not in _GLOBAL:
            return special
    shut = any(address in block for block in _SHUT if block.version == address.version)
    return special if shut else None


def _refusal_sentence(host: str, why: AddressFault) -> str:
    refused = f"{host} was not contacted: it is {why.words}."
    if not why.private:
        return f"{refused} Name a public host."
    return f"{refused} If this is intended, tick “{MAY_REACH}” for it (in JSON: private)."
