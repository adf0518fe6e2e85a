"""The parts put together, for anyone who runs sessions: the server, or a command without one."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import field
from pathlib import Path

from app.core.errors import NotFound
from app.core.late import dataclass
from app.core.providers import ACCOUNT, KEY_NAME, SHIPPED, profile_named, profiles, with_account
from app.core.settings import Profile
from app.core.tools import Tool
from app.engine.providers import Providers
from app.engine.responses import ProviderClient
from app.engine.rules import Policy, RuleStore
from app.engine.runner import Runner, recover, recover_agents
from app.engine.servers import Servers
from app.engine.sessions import SessionStore, new_id, now_ms
from app.engine.tool_runs import task_writer
from app.engine.try_tool import ToolTries
from app.executors.examples import EXAMPLES
from app.executors.http import keys_of
from app.executors.mcp.executor import Mcp
from app.executors.run_with_limits import Executors, executors
from app.executors.workspace.executor import WORKSPACE, Workspace
from app.executors.workspace.fetch import Pages
from app.executors.workspace.shell import Tasks
from app.net.client import HttpClient
from app.net.keys import DEFAULT_ORIGINS, Keys, origin
from app.store.database import Database, OwnerLock, database_path
from app.store.library import Library
from app.store.log import Log


@dataclass
class Engine:
    """Everything that runs sessions on one database. Made by `open`, ended by `close`."""

    lock: OwnerLock
    database: Database
    log: Log
    library: Library
    sessions: SessionStore
    keys: Keys
    net: HttpClient
    client: ProviderClient
    runner: Runner
    providers: Providers
    executors: Executors
    servers: Servers
    trying: ToolTries
    workspace: Workspace
    rules: RuleStore
    policy: Policy
    files: Path
    """Holds the sessions' scratch folders."""
    environment: Mapping[str, str]
    own: dict[str, Profile] = field(default_factory=dict)
    """The user's own profiles by name, as the library has them."""
    private: Mapping[str, str] = field(default_factory=dict)
    """The variables of the .env file that was found: their values never leave."""
    ends: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """What else ends before it does: called by `close`, the last one first."""
    purging: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while sessions are deleted for good: the heir of a recording cannot go meanwhile."""

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        simulator_url: Callable[[], str],
        simulator_key: str,
        clock: Callable[[], int] = now_ms,
        environment: Mapping[str, str] | None = None,
        notify: Callable[[str], None] | None = None,
    ) -> Engine:
        """Take the database at `path` for this process, and recover what was cut. `notify` gets a
        sentence where that takes long.

        StoreBusy where another process owns it, StoreError where it cannot be used.
        """
        environment = os.environ if environment is None else environment
        path = database_path(path)
        async with AsyncExitStack() as opened:  # undone, whatever breaks before the engine stands
            lock = OwnerLock(path)
            lock.take()
            opened.callback(lock.release)
            database = await Database.open(path, notify=notify)
            opened.push_async_callback(database.close)
            log = await Log.open(database)
            library = Library(database, EXAMPLES + WORKSPACE)
            keys = Keys(environment, await library.confirmations(), simulator_key)
            sessions = SessionStore(log, clock, new_id, keys.redactor)
            net = HttpClient()
            client = ProviderClient(sessions, net, keys, simulator_url)
            folder = path.with_name(path.stem + "-files")
            mcp = Mcp(library.servers, environment, keys.variable)
            workspace = Workspace(Tasks(task_writer(sessions)), Pages(time.monotonic), clock)
            runs = executors(keys, mcp, workspace)
            rules = RuleStore(library, runs, clock, new_id, keys.redactor, sessions.ring_list)
            await rules.load()
            policy = Policy(rules.of, log)
            runner = Runner(sessions, client, runs, folder, policy)
            providers = Providers(net, keys, simulator_url)
            servers = Servers(library, mcp, keys.redactor, clock)
            trying = ToolTries(runs, folder, clock, new_id, keys.redactor)
            own = {profile.name: profile for profile in await library.profiles()}
            parts = (lock, database, log, library, sessions, keys, net, client, runner, providers)
            more = (runs, servers, trying, workspace, rules, policy, folder)
            engine = cls(*parts, *more, environment, own)
            await recover(sessions, rules.of)
            await recover_agents(sessions, runner.has_left)
            opened.pop_all()
        return engine

    async def write_anew(self) -> None:
        """The whole database where its file was deleted. Conflict where it is not gone."""
        self.lock.renew()
        await self.database.write_anew()

    async def end_runs(self) -> None:
        """End what is under way; first who makes runs, or these would count as broken off."""
        for end in reversed(self.ends):
            await end()
        await self.runner.close()

    async def close(self) -> None:
        """End what is under way and let the database go."""
        async with AsyncExitStack() as ends:  # from the last to the first, whatever breaks
            ends.callback(self.lock.release)
            ends.push_async_callback(self.database.close)
            ends.push_async_callback(self.log.close)
            ends.push_async_callback(self.net.aclose)
            ends.push_async_callback(self.runner.close)
            ends.push_async_callback(self.trying.close)
            for end in self.ends:
                ends.push_async_callback(end)

    def profiles(self) -> tuple[Profile, ...]:
        """The shipped profiles, each as the user changed it, then those of the user alone."""
        own = {name: with_account(profile, self.environment) for name, profile in self.own.items()}
        shipped = [own.pop(profile.name, profile) for profile in profiles(self.environment)]
        return (*shipped, *own.values())

    def profile(self, name: str) -> Profile:
        """NotFound names those there are."""
        return profile_named(name, self.profiles())

    def bare(self, name: str) -> Profile:
        """The profile of that name as a user edits it: the environment's own headers are not
        part of it. NotFound names those there are."""
        nobody = {k: v for k, v in self.environment.items() if k not in ACCOUNT}
        return self.own.get(name) or profile_named(name, profiles(nobody))

    async def save_profile(self, profile: Profile) -> None:
        """Keep the user's own `profile`, which was checked; a shipped one of its name is hidden.

        No key goes anywhere by this: for a new address it is confirmed by itself.
        """
        await self.library.save_profile(profile, self.sessions.clock())
        self.own = dict(sorted({**self.own, profile.name: profile}.items()))

    async def delete_profile(self, name: str) -> None:
        """Delete the user's own profile; a shipped one that it hid is back.

        NotFound where there is none of the user's own.
        """
        if name not in self.own:
            shipped = " It is shipped and cannot be deleted." if name in SHIPPED else ""
            raise NotFound(f"You have no profile {name!r} of your own.{shipped}")
        await self.library.delete_profile(name)
        self.own = {other: profile for other, profile in self.own.items() if other != name}

    async def confirm_keys_of(self, tool: Tool) -> list[str]:
        """The user saved or switched on `tool`: its keys may go to its address from now on.

        Returns a sentence for each that could not before. A provider's key stays its own.
        """
        confirmed = []
        for name, place in keys_of(tool):
            known = name in DEFAULT_ORIGINS or not KEY_NAME.fullmatch(name)
            if not known and (name, place) not in self.keys.confirmations():
                await self.confirm(name, place)
                confirmed.append(f"{name} may go to {place} from now on.")
        return confirmed

    async def confirm(self, key_name: str, base_url: str) -> None:
        """The key may go to the origin of `base_url`, now and after the next start."""
        self.keys.confirm(key_name, base_url)
        await self.library.confirm(key_name, origin(base_url))
