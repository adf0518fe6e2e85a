"""What is started for a server: `${NAME}` filled in, and no more of the environment than that."""

from __future__ import annotations

import pytest

from playground.core.errors import BadInput
from playground.core.servers import Server
from playground.executors.mcp.process import (
    Launch,
    check_launch,
    fill_references,
    launch_of,
    references,
)

OURS = {"PATH": "/bin", "HOME": "/home/me", "LC_ALL": "C", "SECRET_KEY": "canary", "EMPTY": ""}


def lookup(name: str, url: str) -> str | None:
    return OURS.get(name)


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("plain", "plain"),
        ("${SECRET_KEY}", "canary"),
        ("Bearer ${env:SECRET_KEY}!", "Bearer canary!"),
        ("${EMPTY}", ""),
        ("${SECRET_KEY:-other}", "canary"),
        ("${NOT_THERE:-a b}/c", "a b/c"),
        ("${EMPTY:-}${NOT_THERE:-}", ""),
        ("$HOME {HOME}", "$HOME {HOME}"),
    ],
)
def test_references_are_filled_in(text: str, output: str) -> None:
    assert fill_references(text, lookup) == output


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${NOT_THERE}", "needs NOT_THERE, which is not in the environment"),
        ("${input:key}", r"\$\{input:key\} is not a valid placeholder"),
        ("${A B:-x}", "is not a valid placeholder"),
        ("${}", "is not a valid placeholder"),
    ],
)
def test_what_cannot_be_filled_in_is_named(text: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        fill_references(text, lookup)


def test_a_server_has_its_own_variables_and_those_of_every_program() -> None:
    server = Server("s", "~/run", ("--home", "${HOME}"), {"K": "${SECRET_KEY}"}, "~/notes")
    launch = launch_of(server, OURS, lookup)
    assert launch.command[1:] == ("--home", "/home/me")
    assert not launch.command[0].startswith("~")
    assert not launch.cwd.startswith("~")
    assert launch.environment == {
        "PATH": "/bin",
        "HOME": "/home/me",
        "LC_ALL": "C",
        "K": "canary",
    }
    assert references(server) == ("HOME", "SECRET_KEY")


@pytest.mark.parametrize(
    ("launch", "words"),
    [
        (Launch(("nowhere-program",), "", {"PATH": "/bin"}), "no program 'nowhere-program'"),
        (Launch(("/bin/sh",), "/nowhere", {}), "no folder /nowhere"),
        (Launch(("./sh",), "/tmp", {}), "no program './sh'"),
    ],
)
def test_what_is_not_there_is_told_before_it_is_started(launch: Launch, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        check_launch(launch)
    check_launch(Launch(("sh",), "/", {"PATH": "/bin:/usr/bin"}))
