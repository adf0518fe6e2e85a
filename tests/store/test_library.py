"""The user's tools over the shipped ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from playground.core.errors import NotFound
from playground.core.servers import Acceptance, Server, fingerprint
from playground.core.settings import Profile
from playground.core.tools import Tool
from playground.store.library import Library
from tests.store.test_database import opened

pytestmark = pytest.mark.anyio

SHIPPED = Tool("shipped", "as it came", group="examples")


async def test_own_tools_come_first_and_hide_shipped_ones(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as database:
        library = Library(database, (SHIPPED,))
        mine = Tool("mine", 'a "quoted" \u2028 text', {"type": "object"}, config={"result": [1]})
        await library.save(mine, 1)
        assert await library.tools() == [mine, SHIPPED]
        changed = replace(SHIPPED, description="changed")
        await library.save(changed, 2)
        assert await library.tools() == [mine, changed]
        assert [(entry.shipped, entry.version) for entry in await library.entries()] == [
            (False, 1),
            (False, 1),
        ]
        assert await library.group("examples") == [changed]
        await library.delete("shipped")
        assert await library.tool("shipped") == SHIPPED
        renamed = replace(mine, name="renamed")
        await library.save(renamed, 3, original="mine")
        assert await library.tools() == [renamed, SHIPPED]
        with pytest.raises(NotFound):
            await library.tool("mine")


async def test_own_profiles_are_kept_as_they_were(tmp_path: Path) -> None:
    mine = Profile("mine", "ollama", "http://h:1", headers={"x-a": "b"}, quirks=("q",), idle_s=0.5)
    async with opened(tmp_path / "a.db") as database:
        library = Library(database)
        await library.save_profile(replace(mine, model="before"), 1)
        await library.save_profile(mine, 2)
        await library.save_profile(replace(mine, name="another"), 3)
    async with opened(tmp_path / "a.db") as database:
        library = Library(database)
        assert await library.profiles() == [replace(mine, name="another"), mine]
        await library.delete_profile("another")
        await library.delete_profile("nobody")
        assert await library.profiles() == [mine]


async def test_confirmations_are_kept_once_each(tmp_path: Path) -> None:
    for _ in range(2):
        async with opened(tmp_path / "a.db") as database:
            library = Library(database)
            for place in ("http://b:1", "http://a:1", "http://b:1"):
                await library.confirm("A_KEY", place)
            expected = [("A_KEY", "http://a:1"), ("A_KEY", "http://b:1")]
            assert await library.confirmations() == expected


async def test_a_saved_change_keeps_the_one_before(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as database:
        library = Library(database, (SHIPPED,))
        first, second = Tool("mine", "one"), Tool("mine", "two")
        for number, tool in enumerate((first, first, second, first), 1):
            await library.save(tool, number)
        versions = await library.versions("mine")
        assert [(v.number, v.tool, v.saved_ms) for v in versions] == [
            (3, first, 4),
            (2, second, 3),
            (1, first, 1),
        ]
        assert (await library.entry("mine")).version == 3
        await library.save(replace(first, name="other"), 5, original="mine")
        assert [v.number for v in await library.versions("other")] == [4, 3, 2, 1]
        assert await library.versions("mine") == await library.versions("shipped") == []
        gone = await library.versions("other")
        await library.delete("other")
        await library.restore("other", gone, enabled=False)
        assert (await library.versions("other"), await library.tools()) == (gone, [SHIPPED])


async def test_what_is_switched_off_is_given_to_nobody(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as database:
        library = Library(database)
        await library.save_all([Tool("a"), Tool("b")], 1, enabled=False)
        await library.switch("b", enabled=True)
        assert [tool.name for tool in await library.tools()] == ["b"]
        assert [entry.enabled for entry in await library.entries()] == [False, True]


async def test_servers_are_kept_with_what_was_accepted(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as database:
        library = Library(database)
        server = Server("files", command="npx", args=("-y", "x"), env={"A": "${A}"})
        await library.save_server(server, Acceptance(), 1)
        accepted = Acceptance(fingerprint(server), {"read": "abc"})
        await library.save_server(server, accepted, 2)
        assert await library.servers() == [(server, accepted)]
        assert fingerprint(replace(server, args=("-y", "y"))) != accepted.server
        await library.delete_server("files")
        assert await library.servers() == []
