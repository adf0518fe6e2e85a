"""Rows of the user's own tools, profiles, servers, rules, taps and confirmations. Does not
interpret or check them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from playground.core.errors import NotFound
from playground.core.rules import Rule
from playground.core.serialization import from_data, to_data
from playground.core.servers import Acceptance, Server
from playground.core.settings import Profile
from playground.core.tools import Tool
from playground.store.database import Database, Statement


@dataclass(frozen=True)
class LibraryEntry:
    """A tool of the library. One that is not `enabled` was imported and is offered to no model
    until a user switches it on. `version` counts its saved changes from 1; 0 is an unchanged
    built-in tool. `updated_ms` is Unix time in ms, 0 for a built-in one."""

    tool: Tool
    enabled: bool = True
    shipped: bool = False
    version: int = 0
    updated_ms: int = 0


@dataclass(frozen=True)
class Version:
    """A saved version of a tool."""

    number: int
    tool: Tool
    saved_ms: int


class Library:
    """`shipped` are the built-in tools; a saved tool of the same name hides one."""

    def __init__(self, database: Database, shipped: tuple[Tool, ...] = ()) -> None:
        self._db = database
        self._shipped = {tool.name: tool for tool in shipped}

    async def entries(self) -> list[LibraryEntry]:
        """All tools, the user's own first, each group by name."""
        rows = await self._db.rows(
            "SELECT body, enabled, updated_ms, (SELECT max(version) FROM tool_versions AS v"
            " WHERE v.name = tools.name) FROM tools ORDER BY name"
        )
        own = [
            LibraryEntry(_tool(row[0]), bool(row[1]), False, row[3] or 1, row[2]) for row in rows
        ]
        names = {entry.tool.name for entry in own}
        shipped = [LibraryEntry(tool, shipped=True) for tool in self._shipped.values()]
        return [*own, *(entry for entry in shipped if entry.tool.name not in names)]

    async def entry(self, name: str) -> LibraryEntry:
        """NotFound if there is none."""
        for entry in await self.entries():
            if entry.tool.name == name:
                return entry
        raise NotFound(f"There is no tool {name!r}.")

    async def tools(self) -> list[Tool]:
        """The tools that sessions may use."""
        return [entry.tool for entry in await self.entries() if entry.enabled]

    async def tool(self, name: str) -> Tool:
        return (await self.entry(name)).tool

    async def group(self, group: str) -> list[Tool]:
        return [tool for tool in await self.tools() if tool.group == group]

    async def versions(self, name: str) -> list[Version]:
        """All saved versions of the user's own tool, newest first; a built-in one has none."""
        rows = await self._db.rows(
            "SELECT version, body, saved_ms FROM tool_versions WHERE name = ?"
            " ORDER BY version DESC",
            (name,),
        )
        return [Version(row[0], _tool(row[1]), row[2]) for row in rows]

    async def save(
        self, tool: Tool, at_ms: int, *, original: str = "", enabled: bool = True
    ) -> None:
        """Saves `tool` and keeps its last version; `original` is its former name, if different."""
        await self.save_all([tool], at_ms, original=original, enabled=enabled)

    async def save_all(
        self, tools: list[Tool], at_ms: int, *, original: str = "", enabled: bool = True
    ) -> None:
        """Saves all or none. `original` is for a single tool only."""
        statements = []
        if original and original != tools[0].name:
            name = tools[0].name
            statements += [
                Statement("DELETE FROM tools WHERE name = ?", [(original,)]),
                Statement("DELETE FROM tool_versions WHERE name = ?", [(name,)]),
                Statement("UPDATE tool_versions SET name = ? WHERE name = ?", [(name, original)]),
            ]
        bodies = [(tool.name, json.dumps(to_data(tool))) for tool in tools]
        statements += [
            Statement(
                "INSERT INTO tool_versions (name, version, body, saved_ms)"
                " SELECT ?, 1 + coalesce(max(version), 0), ?, ? FROM tool_versions"
                " WHERE name = ? HAVING NOT EXISTS (SELECT 1 FROM tool_versions AS v WHERE"
                " v.name = ? AND v.body = ? AND v.version = (SELECT max(version) FROM"
                " tool_versions WHERE name = ?))",
                [(name, body, at_ms, name, name, body, name) for name, body in bodies],
            ),
            Statement(
                "INSERT OR REPLACE INTO tools (name, body, enabled, updated_ms)"
                " VALUES (?, ?, ?, ?)",
                [(name, body, int(enabled), at_ms) for name, body in bodies],
            ),
        ]
        await self._db.write(statements)

    async def switch(self, name: str, *, enabled: bool) -> None:
        """Enables or disables the user's own tool."""
        update = "UPDATE tools SET enabled = ? WHERE name = ?"
        await self._db.write([Statement(update, [(int(enabled), name)])])

    async def delete(self, name: str) -> None:
        """Deletes the user's own tool with its versions; a built-in one that it hid reappears."""
        await self._db.write(
            [
                Statement("DELETE FROM tools WHERE name = ?", [(name,)]),
                Statement("DELETE FROM tool_versions WHERE name = ?", [(name,)]),
            ]
        )

    async def restore(self, name: str, versions: list[Version], *, enabled: bool) -> None:
        """Restores the deleted tool `name` with all its versions."""
        rows = [(name, v.number, json.dumps(to_data(v.tool)), v.saved_ms) for v in versions]
        newest = max(rows, key=lambda row: row[1])
        await self._db.write(
            [
                Statement("INSERT OR REPLACE INTO tool_versions VALUES (?, ?, ?, ?)", rows),
                Statement(
                    "INSERT OR REPLACE INTO tools (name, body, enabled, updated_ms)"
                    " VALUES (?, ?, ?, ?)",
                    [(newest[0], newest[2], int(enabled), newest[3])],
                ),
            ]
        )

    async def servers(self) -> list[tuple[Server, Acceptance]]:
        """The user's MCP servers by name, and what was accepted of each."""
        rows = await self._db.rows("SELECT body, accepted FROM servers ORDER BY name")
        return [
            (from_data(Server, json.loads(row[0])), from_data(Acceptance, json.loads(row[1])))
            for row in rows
        ]

    async def save_server(self, server: Server, accepted: Acceptance, at_ms: int) -> None:
        """Saves `server`, replacing the one of the same name."""
        insert = (
            "INSERT OR REPLACE INTO servers (name, body, accepted, updated_ms) VALUES (?, ?, ?, ?)"
        )
        row = (server.name, json.dumps(to_data(server)), json.dumps(to_data(accepted)), at_ms)
        await self._db.write([Statement(insert, [row])])

    async def delete_server(self, name: str) -> None:
        """Deletes the server, if it exists. Its tools stay, but cannot run."""
        await self._db.write([Statement("DELETE FROM servers WHERE name = ?", [(name,)])])

    async def profiles(self) -> list[Profile]:
        """The user's own profiles, by name."""
        rows = await self._db.rows("SELECT body FROM profiles ORDER BY name")
        return [from_data(Profile, json.loads(row[0])) for row in rows]

    async def save_profile(self, profile: Profile, at_ms: int) -> None:
        """Saves `profile`, replacing the one of the same name."""
        insert = "INSERT OR REPLACE INTO profiles (name, body, updated_ms) VALUES (?, ?, ?)"
        row = (profile.name, json.dumps(to_data(profile)), at_ms)
        await self._db.write([Statement(insert, [row])])

    async def delete_profile(self, name: str) -> None:
        """Deletes the user's own profile, if it exists."""
        await self._db.write([Statement("DELETE FROM profiles WHERE name = ?", [(name,)])])

    async def rules(self) -> dict[str, tuple[Rule, ...]]:
        """The rules of each session that has some, in order; those for all sessions under ""."""
        rows = await self._db.rows("SELECT session, body FROM rules")
        return {row[0]: tuple(from_data(Rule, load) for load in json.loads(row[1])) for row in rows}

    async def save_rules(self, session: str, rules: Sequence[Rule], at_ms: int) -> None:
        """Replaces all rules of the session ("" for the rules of all sessions)."""
        insert = "INSERT OR REPLACE INTO rules (session, body, updated_ms) VALUES (?, ?, ?)"
        row = (session, json.dumps([to_data(rule) for rule in rules]), at_ms)
        await self._db.write([Statement(insert, [row])], full=True)

    async def taps(self) -> list[tuple[str, str]]:
        """(SHA-256 of its secret in hexadecimal digits, JSON) of each tap; never a secret."""
        rows = await self._db.rows("SELECT hash, body FROM taps")
        return [(row[0], row[1]) for row in rows]

    async def save_tap(self, tap_id: str, hashed: str, body: str, at_ms: int) -> None:
        """Saves the tap with the JSON `body`, replacing an earlier one."""
        insert = "INSERT OR REPLACE INTO taps (id, hash, body, updated_ms) VALUES (?, ?, ?, ?)"
        await self._db.write([Statement(insert, [(tap_id, hashed, body, at_ms)])], full=True)

    async def confirmations(self) -> list[tuple[str, str]]:
        """(key name, origin) of each place a key may be sent to; never a key."""
        rows = await self._db.rows("SELECT name, origin FROM confirmations ORDER BY name, origin")
        return [(row[0], row[1]) for row in rows]

    async def confirm(self, name: str, origin: str) -> None:
        """Stores that the key `name` may be sent to `origin`."""
        insert = "INSERT OR IGNORE INTO confirmations (name, origin) VALUES (?, ?)"
        await self._db.write([Statement(insert, [(name, origin)])])


def _tool(body: str) -> Tool:
    tool: Tool = from_data(Tool, json.loads(body))
    return tool
