"""The person's own tools, profiles and confirmations as rows. Knows nothing of what they mean;
checks are made before.
"""

from __future__ import annotations

import json

from app.core.errors import NotFound
from app.core.rows import from_data, to_data
from app.core.settings import Profile
from app.core.tools import Tool
from app.store.database import Database, Statement


class Library:
    """`shipped` tools come with the program; a saved tool of the same name hides one."""

    def __init__(self, database: Database, shipped: tuple[Tool, ...] = ()) -> None:
        self._db = database
        self._shipped = {tool.name: tool for tool in shipped}

    async def tools(self) -> list[Tool]:
        """All tools, the person's own first, each by name."""
        rows = await self._db.rows("SELECT body FROM tools ORDER BY name")
        own = {tool.name: tool for tool in (from_data(Tool, json.loads(row[0])) for row in rows)}
        return [*own.values(), *(t for name, t in self._shipped.items() if name not in own)]

    async def tool(self, name: str) -> Tool:
        for tool in await self.tools():
            if tool.name == name:
                return tool
        raise NotFound(f"There is no tool {name!r}.")

    def is_shipped(self, tool: Tool) -> bool:
        """Whether `tool` is a shipped one as it came."""
        return self._shipped.get(tool.name) == tool

    async def group(self, group: str) -> list[Tool]:
        return [tool for tool in await self.tools() if tool.group == group]

    async def save(self, tool: Tool, at_ms: int, *, original: str = "") -> None:
        """Save `tool`; `original` is the name it had before, if it had another."""
        statements = [
            Statement(
                "INSERT OR REPLACE INTO tools (name, body, enabled, updated_ms)"
                " VALUES (?, ?, 1, ?)",
                [(tool.name, json.dumps(to_data(tool)), at_ms)],
            )
        ]
        if original and original != tool.name:
            statements.insert(0, Statement("DELETE FROM tools WHERE name = ?", [(original,)]))
        await self._db.write(statements)

    async def delete(self, name: str) -> None:
        """Delete the person's own tool; a shipped one that it hid is back."""
        await self._db.write([Statement("DELETE FROM tools WHERE name = ?", [(name,)])])

    async def profiles(self) -> list[Profile]:
        """The person's own profiles, by name."""
        rows = await self._db.rows("SELECT body FROM profiles ORDER BY name")
        return [from_data(Profile, json.loads(row[0])) for row in rows]

    async def save_profile(self, profile: Profile, at_ms: int) -> None:
        """Save `profile` under its name, over the one that had it."""
        insert = "INSERT OR REPLACE INTO profiles (name, body, updated_ms) VALUES (?, ?, ?)"
        row = (profile.name, json.dumps(to_data(profile)), at_ms)
        await self._db.write([Statement(insert, [row])])

    async def delete_profile(self, name: str) -> None:
        """Delete the person's own profile; nothing where there is none."""
        await self._db.write([Statement("DELETE FROM profiles WHERE name = ?", [(name,)])])

    async def confirmations(self) -> list[tuple[str, str]]:
        """(name of a key, origin) of each place a key may go to; never a key."""
        rows = await self._db.rows("SELECT name, origin FROM confirmations ORDER BY name, origin")
        return [(row[0], row[1]) for row in rows]

    async def confirm(self, name: str, origin: str) -> None:
        """Keep that the key `name` may go to `origin`."""
        insert = "INSERT OR IGNORE INTO confirmations (name, origin) VALUES (?, ?)"
        await self._db.write([Statement(insert, [(name, origin)])])
