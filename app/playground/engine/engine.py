"""Builds all parts needed to run sessions, for the server and for commands without a server."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from playground.core.errors import NotFound
from playground.core.providers import (
    ACCOUNT,
    KEY_NAME,
    SHIPPED,
    add_account_headers,
    profile_named,
    profiles,
)
from playground.core.settings import Profile
from playground.core.tools import Tool
from playground.engine.providers import Providers
from playground.engine.responses import ProviderClient
from playground.engine.rules import Policy, RuleStore
from playground.engine.runner import Runner, recover, recover_agents
from playground.engine.servers import Servers
from playground.engine.sessions import SessionStore, new_id, now_ms
from playground.engine.tool_runs import task_writer
from playground.engine.try_tool import ToolTries
from playground.executors.examples import EXAMPLES
from playground.executors.http import keys_of
from playground.executors.mcp.executor import Mcp
from playground.executors.run_with_limits import Executors, executors
from playground.executors.workspace.executor import WORKSPACE, Workspace
from playground.executors.workspace.fetch import Pages
from playground.executors.workspace.shell import Tasks
from playground.net.client import HttpClient
from playground.net.keys import DEFAULT_ORIGINS, Keys, origin
from playground.store.database import Database, OwnerLock, database_path
from playground.store.library import Library
from playground.store.log import Log


@dataclass
class Engine:
    """Everything that runs sessions on one database. Create it with `open`, end it with `close`."""

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
    """The folder for the sessions' scratch folders."""
    environment: Mapping[str, str]
    own: dict[str, Profile] = field(default_factory=dict)
    """The user's own profiles by name, as stored in the library."""
    private: Mapping[str, str] = field(default_factory=dict)
    """The variables of the .env file; their values must never leave the process."""
    ends: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """Further callbacks for `close`, called last one first."""
    purging: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while sessions are purged: a session whose recording is in use must not be deleted."""

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
        """Opens the database at `path` for this process and recovers interrupted runs. `notify` is
        called with a sentence if that takes long.

        StoreBusy: another process has the database open. StoreError: it cannot be used.
        """
        environment = os.environ if environment is None else environment
        path = database_path(path)
        async with AsyncExitStack() as opened:  # undoes everything if a step fails
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
            rules = RuleStore(
                library,
                executors=runs,
                clock=clock,
                new_id=new_id,
                redactor=keys.redactor,
                changed=sessions.notify_list,
            )
            await rules.load()
            policy = Policy(rules, log)
            runner = Runner(sessions, client, runs, folder, policy)
            providers = Providers(net, keys, simulator_url)
            servers = Servers(library, mcp, keys.redactor, clock)
            trying = ToolTries(runs, folder, clock, new_id, keys.redactor)
            own = {profile.name: profile for profile in await library.profiles()}
            parts = (lock, database, log, library, sessions, keys, net, client, runner, providers)
            more = (runs, servers, trying, workspace, rules, policy, folder)
            engine = cls(*parts, *more, environment, own)
            await recover(sessions, rules.rules_of)
            await recover_agents(sessions, runner.mark_agent_left)
            opened.pop_all()
        return engine

    async def write_anew(self) -> None:
        """Rewrites the whole database after its file was deleted. Conflict if it still exists."""
        self.lock.renew()
        await self.database.write_anew()

    async def end_runs(self) -> None:
        """Ends running work; first whatever starts runs, or it would count its runs as failed."""
        for end in reversed(self.ends):
            await end()
        await self.runner.close()

    async def close(self) -> None:
        """Ends running work and closes the database."""
        async with AsyncExitStack() as ends:  # runs all, last one first, even if one raises
            ends.callback(self.lock.release)
            ends.push_async_callback(self.database.close)
            ends.push_async_callback(self.log.close)
            ends.push_async_callback(self.net.aclose)
            ends.push_async_callback(self.runner.close)
            ends.push_async_callback(self.trying.close)
            for end in self.ends:
                ends.push_async_callback(end)

    def profiles(self) -> tuple[Profile, ...]:
        """The built-in profiles with the user's changes, then the user's own profiles."""
        own = {
            name: add_account_headers(profile, self.environment)
            for name, profile in self.own.items()
        }
        shipped = [own.pop(profile.name, profile) for profile in profiles(self.environment)]
        return (*shipped, *own.values())

    def profile(self, name: str) -> Profile:
        """NotFound lists the known names."""
        return profile_named(name, self.profiles())

    def editable_profile(self, name: str) -> Profile:
        """The profile as a user edits it: without the headers set by the environment. NotFound
        lists the known names."""
        nobody = {k: v for k, v in self.environment.items() if k not in ACCOUNT}
        return self.own.get(name) or profile_named(name, profiles(nobody))

    async def save_profile(self, profile: Profile) -> None:
        """Saves the user's `profile`, already checked; it hides a built-in one of that name.

        This permits no key to be sent: for a new address that is confirmed separately.
        """
        await self.library.save_profile(profile, self.sessions.clock())
        self.own = dict(sorted({**self.own, profile.name: profile}.items()))

    async def delete_profile(self, name: str) -> None:
        """Deletes the user's own profile; a built-in profile that it hid becomes visible again.

        NotFound if the user has no profile of that name.
        """
        if name not in self.own:
            shipped = " It is built in and cannot be deleted." if name in SHIPPED else ""
            raise NotFound(f"You have no profile {name!r} of your own.{shipped}")
        await self.library.delete_profile(name)
        self.own = {other: profile for other, profile in self.own.items() if other != name}

    async def confirm_keys_of(self, tool: Tool) -> list[str]:
        """Permits sending the keys of `tool`, which the user saved or switched on, to its address.

        Returns a sentence for each newly permitted key. A provider's key is never permitted here.
        """
        confirmed = []
        for name, place in keys_of(tool):
            known = name in DEFAULT_ORIGINS or not KEY_NAME.fullmatch(name)
            if not known and (name, place) not in self.keys.confirmations():
                await self.confirm(name, place)
                confirmed.append(f"{name} may be sent to {place} from now on.")
        return confirmed

    async def confirm(self, key_name: str, base_url: str) -> None:
        """Permits sending the key to the origin of `base_url`, also after a restart."""
        self.keys.confirm(key_name, base_url)
        await self.library.confirm(key_name, origin(base_url))
