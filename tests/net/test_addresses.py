"""Every way to spell an address that is not for tools, with a resolver that would betray us."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from playground.core.errors import Refused
from playground.net.addresses import MAY_REACH, CheckedAddress, check_address

pytestmark = pytest.mark.anyio

NAMES = {
    "public.example": ["93.184.216.34"],
    "two.example": ["2606:2800:220:1::1", "93.184.216.34"],
    "many.example": [f"93.184.216.{number}" for number in range(1, 20)],
    "dns64.example": ["64:ff9b::5db8:d822"],
    "mapped.example": ["::ffff:93.184.216.34"],
    "evil.example": ["127.0.0.1"],
    "half.example": ["93.184.216.34", "10.0.0.1"],
    "metadata.example": ["169.254.169.254"],
    "six.example": ["::1"],
    "azure.example": ["168.63.129.16"],
    "zone.example": ["fe80::1%eth0"],
    "nowhere.example": [],
    "junk.example": ["not an address"],
    "nat.example": ["64:ff9b::7f00:1"],
    "house.example": ["192.168.1.10"],
}

LOCAL = ("internal", ".lan", ".home", ".corp", ".intranet", ".arpa", ".localdomain")

V4, V6 = "93.184.216.34", "2606:2800:220:1::1"


class Resolver:
    """Answers from a table, knows `localhost` as a public host, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        if host in NAMES:
            return NAMES[host]
        if "localhost" in host or host.endswith(LOCAL):
            return ["93.184.216.34"]
        raise socket.gaierror(socket.EAI_NONAME, "unknown")


HOSTS_NEVER = [
    *("127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "0x7f.1", "0x7f.0.0.1", "0X7F.0.0.1"),
    *("2130706433", "0x7f000001", "017700000001", "0177.0.0.1", "127.0.0.01", "0", "0.0.0.0"),
    *("1.2.3.4.5", "999.1.1.1", "134744072", "evil.0x7f", "0x", "127.0.0.1.."),
    *("localhost", "localhost.", "LOCALHOST", "a.localhost", "printer.local", "db.internal"),
    *("10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1", "169.254.169.254"),
    *("100.64.0.1", "100.100.100.200", "192.0.2.1", "198.18.0.1", "203.0.113.9", "224.0.0.1"),
    *("240.0.0.1", "255.255.255.255", "192.0.0.1", "192.88.99.1"),
    *("[::]", "[::1]", "[0:0:0:0:0:0:0:1]", "[::127.0.0.1]", "[::ffff:127.0.0.1]"),
    *("[::ffff:a9fe:a9fe]", "[::ffff:7f00:1]", "[::ffff:0:127.0.0.1]", "[::8.8.8.8]"),
    *("[2002:7f00:1::]", "[2002:a9fe:a9fe::1]", "[64:ff9b::7f00:1]", "[64:ff9b::10.0.0.1]"),
    *("[64:ff9b:1::1]", "[2001:0:4136:e378:8000:63bf:3fff:fdd2]", "[fe80::1]", "[fe80::1%25eth0]"),
    *("[fe80::1%eth0]", "[fc00::1]", "[fd00:ec2::254]", "[fec0::1]", "[ff02::1]", "[100::1]"),
    *("[2001:db8::1]", "[2606:2800::5efe:127.0.0.1]", "[2606:2800::200:5efe:10.0.0.1]"),
    *("192.0.0.192", "192.0.0.9", "192.0.0.10", "192.0.0.170", "168.63.129.16", "azure.example"),
    *("192.31.196.1", "192.52.193.1", "192.175.48.1", "198.51.100.1", "0.1.2.3", "198.19.255.255"),
    *("[::ffff:168.63.129.16]", "[64:ff9b::c000:c0]", "[2001:4:112::1]", "[2620:4f:8000::1]"),
    *("[3fff::1]", "[5f00::1]", "[2001:20::1]", "[2001:1::1]", "[64:ff9b:1::8.8.8.8]"),
    *("router.lan", "nas.home", "wiki.corp", "a.intranet", "printer.home.arpa", "x.localdomain"),
    *("[::1", "::1", "[127.0.0.1]", "[v1.x]", ""),
    *("evil@127.0.0.1", "public.example@127.0.0.1", "public.example:80@127.0.0.1"),
    *("127.0.0.1:80:90", "127.0.0.1\\@public.example", "127.0.0.1%2f@public.example"),
    *(
        "127。0。0。1",
        "127．0．0．1",
        "①②⑦.0.0.1",
        "ⓛocalhost",
        "loc\u00adalhost",
        "public。example",
    ),
    *("127.0.0.1\t", "127.0.0.1\n", "127.0.0.1 ", "public.example\0", "public%2eexample"),
    *("a..b", ".public.example", "public.example:99999", "public.example:x"),
    *("evil.example", "half.example", "metadata.example", "six.example", "zone.example"),
    *("nowhere.example", "junk.example", "nat.example", "unknown.example"),
]


@pytest.mark.parametrize("host", HOSTS_NEVER)
async def test_refused_before_anything_is_contacted(host: str) -> None:
    resolver = Resolver()
    with pytest.raises(Refused) as caught:
        await check_address(f"http://{host}/x", private=False, resolve=resolver)
    assert str(caught.value)
    known = [name for name, _ in resolver.asked]
    assert all(name in NAMES or name == "unknown.example" for name in known)


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/passwd", "ftp://public.example/", "gopher://127.0.0.1:6379/_x", "//x/y"),
        *(
            "public.example",
            "",
            "javascript:alert(1)",
            "ws://public.example",
            "http:/x",
            "http:///",
        ),
        *("httpx://public.example", "unix:///var/run/docker.sock", "data:text/plain,x"),
    ],
)
async def test_only_http(url: str) -> None:
    with pytest.raises(Refused, match="Invalid URL"):
        await check_address(url, private=True, resolve=Resolver())


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://public.example/a?b", CheckedAddress("https", "public.example", 443, (V4,))),
        ("HTTP://Public.Example.:8080", CheckedAddress("http", "public.example", 8080, (V4,))),
        (f"http://{V4}/", CheckedAddress("http", V4, 80, (V4,))),
        ("http://[2606:2800:220:1:0:0:0:1]:81", CheckedAddress("http", V6, 81, (V6,))),
        ("https://two.example", CheckedAddress("https", "two.example", 443, (V6, V4))),
        (
            "https://dns64.example",
            CheckedAddress("https", "dns64.example", 443, ("64:ff9b::5db8:d822",)),
        ),
        ("https://mapped.example", CheckedAddress("https", "mapped.example", 443, (V4,))),
    ],
)
async def test_a_public_host_is_looked_up_once(url: str, place: CheckedAddress) -> None:
    resolver = Resolver()
    assert await check_address(url, private=False, resolve=resolver) == place
    assert len(resolver.asked) == (place.host not in place.addresses)


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "[::1]", "10.1.2.3", "192.168.0.1", "100.64.0.1", "[fd12::1]"),
        *("[::ffff:127.0.0.1]", "evil.example", "house.example", "half.example", "db.internal"),
    ],
)
async def test_private_opens_this_machine_and_its_networks(host: str) -> None:
    place = await check_address(f"http://{host}:8000/", private=True, resolve=Resolver())
    assert place.port == 8000


@pytest.mark.parametrize(
    "host",
    [
        *("169.254.169.254", "[::ffff:a9fe:a9fe]", "[fe80::1]", "metadata.example", "0.0.0.0"),
        *("[::]", "224.0.0.1", "[fd00:ec2::254]", "100.100.100.200", "127.1", "2130706433"),
        *("evil@127.0.0.1", "zone.example", "240.0.0.1", "[2002:a9fe:a9fe::1]"),
        *("168.63.129.16", "192.0.0.192", "azure.example", "192.0.0.1"),
    ],
)
async def test_private_opens_nothing_else(host: str) -> None:
    with pytest.raises(Refused):
        await check_address(f"http://{host}/", private=True, resolve=Resolver())


@pytest.mark.parametrize(
    ("hosts", "allowed"),
    [
        ((), True),
        (("public.example",), True),
        (("PUBLIC.example.",), True),
        (("*.example",), True),
        (("other.example", "public.example"), True),
        (("*.public.example",), False),
        (("blic.example",), False),
        (("example",), False),
    ],
)
async def test_a_list_of_hosts(hosts: tuple[str, ...], allowed: bool) -> None:
    resolver = Resolver()
    looking = check_address("https://public.example", private=False, hosts=hosts, resolve=resolver)
    if allowed:
        await looking
        return
    with pytest.raises(Refused, match="not one of the hosts"):
        await looking
    assert resolver.asked == []


async def test_no_more_addresses_than_are_worth_a_try() -> None:
    place = await check_address("http://many.example", private=False, resolve=Resolver())
    assert len(place.addresses) == 4


async def test_the_sentence_says_what_to_do() -> None:
    for url, message in [
        ("http://127.0.0.1", MAY_REACH),
        ("http://evil.example", MAY_REACH),
        ("http://localhost", MAY_REACH),
        ("http://169.254.169.254", "Name a public host"),
        ("http://127.1", "unusual notation"),
    ]:
        with pytest.raises(Refused, match=message):
            await check_address(url, private=False, resolve=Resolver())


def test_the_pages_call_it_as_the_sentence_does() -> None:
    templates = Path(__file__).parents[2] / "templates"
    for name in ("_tool_config.html", "server.html", "server_form.html"):
        assert MAY_REACH in (templates / name).read_text("utf-8"), name


@pytest.mark.parametrize(
    ("place", "authority"),
    [
        (CheckedAddress("https", "a.example", 443, ()), "a.example"),
        (CheckedAddress("https", "a.example", 80, ()), "a.example:80"),
        (CheckedAddress("http", "::1", 8000, ()), "[::1]:8000"),
    ],
)
def test_authority(place: CheckedAddress, authority: str) -> None:
    assert place.authority == authority


async def test_the_system_is_asked() -> None:
    place = await check_address("http://localhost:9", private=True)
    assert set(place.addresses) <= {"127.0.0.1", "::1"}


@pytest.mark.parametrize("public", [True, False])
async def test_what_python_holds_for_global_does_not_matter(
    public: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its list changes from release to release."""
    for kind in (ipaddress.IPv4Address, ipaddress.IPv6Address):
        monkeypatch.setattr(kind, "is_global", property(lambda _: public))
        monkeypatch.setattr(kind, "is_private", property(lambda _: not public))
    resolver = Resolver()
    for host in ("93.184.216.34", "[2606:2800:220:1::1]", "[2a00:1450::1]"):
        assert await check_address(f"http://{host}/", private=False, resolve=resolver)
    for host in ("192.0.0.192", "198.18.0.1", "240.0.0.1", "[2001:db8::1]", "[3fff::1]"):
        with pytest.raises(Refused):
            await check_address(f"http://{host}/", private=False, resolve=resolver)
