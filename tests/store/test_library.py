"""The person's tools over the shipped ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.core.errors import NotFound
from app.core.settings import Profile
from app.core.tools import Tool
from app.store.library import Library
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
        assert (library.is_shipped(SHIPPED), library.is_shipped(changed)) == (True, False)
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
