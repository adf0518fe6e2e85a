"""`playground run`: one run without a browser, here or through the server that owns it all."""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import socket
import sys
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from app import config
from app.commands.listening import SIGNALS, bound, port_of, serve, server
from app.commands.remote import run_there, waiting_in
from app.commands.told import STOPPED, Teller
from app.commands.toolfiles import check_names, tools_of
from app.core.errors import BadInput
from app.core.rules import Rule, rules_from_flags
from app.core.serialization import to_data
from app.core.session import folded
from app.core.settings import SIMULATOR_URL
from app.engine.engine import Engine
from app.engine.settings import keys_for, settings_from
from app.net.client import is_loopback
from app.net.keys import harden_process, origin
from app.schema import strict_json
from app.simulator.app import simulator_app
from app.store.database import database_path
from app.store.lock import owner_of

EXIT = {"idle": 0, "waiting": 3, "paused": 3, STOPPED: 130}
"""By the state in which the session rests, or that it was stopped here; any other is 1."""

PATIENCE_S, HURRY_S = 20.0, 3.0
"""Seconds that a run may take to stop, and those that are left from a second signal on."""


def main(arguments: argparse.Namespace) -> int:
    """0 done, 1 failed, 3 a person must decide, 130 ended by Ctrl-C, 143 by SIGTERM."""
    if not arguments.prompt.strip():
        raise BadInput("The prompt is empty; say what the model should do.")
    for warning in config.load_env(Path.cwd(), arguments.env_file):
        print(f"playground: {warning}", file=sys.stderr)
    rules = rules_from_flags(arguments.allow, arguments.deny, _answers(arguments.answer))
    asked = _asked(arguments)
    db = database_path(arguments.db or config.default_db())
    owner = owner_of(db)
    if owner is not None and owner.url:
        if arguments.env_file is not None:
            raise BadInput(
                f"The server at {owner.url} owns this database and has keys of its own; start it "
                "with --env-file, or name another --db here."
            )
        token = config.read_token(db) or ""
        running = run_there(owner.url, token, arguments, asked, rules)
    else:
        running = _run_here(db, arguments, asked, rules)
    ends = Ends()
    try:
        state = asyncio.run(ends.until(running))
    except asyncio.CancelledError:
        print("playground: Stopped before the session began.", file=sys.stderr)
        state = STOPPED
    return ends.code if state == STOPPED else EXIT.get(state, 1)


_LEFT = "Ended at once, before the run was seen to stop; the page shows how far it came."


class Ends:
    """SIGTERM or Ctrl-C: the run is stopped, and seen to stop. `code` is the exit code then."""

    def __init__(self) -> None:
        self.code = EXIT[STOPPED]
        self._seen = 0

    async def until(self, running: Coroutine[Any, Any, str]) -> str:
        """What `running` comes to, which a first signal cancels. That may take its time, but no
        longer than `PATIENCE_S`, and than `HURRY_S` from a second one on; a third ends it all."""
        task = asyncio.ensure_future(running)
        loop = asyncio.get_running_loop()

        def end(number: int) -> None:
            self._seen += 1
            if self._seen == 1:
                self.code = 128 + number
                task.cancel()
            if self._seen > 2:
                self._leave()
            loop.call_later(PATIENCE_S if self._seen == 1 else HURRY_S, self._leave)

        for number in SIGNALS:
            loop.add_signal_handler(number, end, number)
        try:
            return await task
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    def _leave(self) -> None:
        print(f"playground: {_LEFT}", file=sys.stderr, flush=True)
        os._exit(self.code)  # acknowledged events are saved; tools end with this process


async def _run_here(
    db: Path, arguments: argparse.Namespace, asked: dict[str, Any], rules: Sequence[Rule]
) -> str:
    with bound("127.0.0.1", 0) as sock:
        return await _run_beside(sock, db, arguments, asked, rules)


async def _run_beside(
    sock: socket.socket,
    db: Path,
    arguments: argparse.Namespace,
    asked: dict[str, Any],
    rules: Sequence[Rule],
) -> str:
    """Run it with a simulator on `sock`."""
    key = secrets.token_urlsafe(16)
    url = f"http://127.0.0.1:{port_of(sock)}"
    simulator = server(simulator_app(pace=0.0, key=lambda sent: sent == key))
    harden_process()
    engine = await Engine.open(db, simulator_url=lambda: url, simulator_key=key)
    serving = asyncio.create_task(serve(simulator, sock, lambda: None))
    try:
        library = [to_data(tool) for tool in await engine.library.tools()]
        asked["tools"] = tools_of(library, arguments.tools)
        settings = await settings_from(engine, asked)
        check_names(rules, [tool.name for tool in settings.tools])
        session_id = await engine.sessions.create(settings)
        await engine.rules.put(session_id, rules, settings.tools)
        return await _told(engine, arguments, session_id)
    finally:
        await engine.close()
        simulator.should_exit = True
        await serving


async def _told(engine: Engine, arguments: argparse.Namespace, session_id: str) -> str:
    """Run it to its rest, telling each event as it is saved; the state it rests in. Where this is
    cancelled the run is stopped, and STOPPED it is."""
    teller = Teller(arguments.json, session_id)
    try:
        return await _run(engine, arguments.prompt, session_id, teller)
    except asyncio.CancelledError:
        await engine.runner.stop(session_id)
        place = f" --db {engine.database.path}" if arguments.db is not None else ""
        teller.stopped(f"where `playground serve{place}` shows it")
        return STOPPED


async def _run(engine: Engine, prompt: str, session_id: str, teller: Teller) -> str:
    sessions, seq = engine.sessions, 0
    await engine.runner.prompt(session_id, prompt)
    while True:
        position = sessions.position
        async with sessions.holding(session_id) as live:
            state = live.session.state
        for logged in await engine.log.events(session_id, seq):
            seq = logged.seq
            teller.tell(logged)
        if state != "running":
            async with sessions.holding(session_id) as live:
                teller.rest(state, waiting_in(folded(live.session)))
            return state
        await sessions.wait(position, sessions.list_version, 60.0)


def _answers(pairs: Sequence[str]) -> list[tuple[str, str]]:
    answers = []
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise BadInput(f"--answer takes NAME=TEXT, not {pair!r}.")
        answers.append((name, text))
    return answers


def _asked(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings of the command line in the words of the JSON contract."""
    asked: dict[str, Any] = {
        "system": arguments.system,
        "tool_choice": arguments.tool_choice,
        "max_turns": arguments.max_turns,
    }
    if arguments.protocol or arguments.base_url:
        if arguments.profile:
            raise BadInput("Give either --profile, or --protocol with --base-url and --model.")
        if not (arguments.protocol and arguments.base_url):
            raise BadInput("--protocol and --base-url go together, with --model.")
        asked |= {"protocol": arguments.protocol, "base_url": arguments.base_url}
        asked |= _key(arguments.protocol, arguments.base_url, os.environ)
    elif arguments.profile:
        asked["profile"] = arguments.profile
    if arguments.model:
        asked["model"] = arguments.model
    if params := _params(arguments):
        asked["params"] = params
    return asked


def _params(arguments: argparse.Namespace) -> dict[str, Any]:
    """The parameters of the request that the command line names."""
    named = [("max_tokens", arguments.max_tokens), ("temperature", arguments.temperature)]
    params = {name: value for name, value in named if value is not None}
    for pair in arguments.param:
        name, equals, text = pair.partition("=")
        try:
            value = strict_json.parse(text)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise BadInput(
                f"--param takes NAME=JSON, such as seed=7 or 'thinking=\"low\"', not {pair!r}."
            )
        if name in params:
            raise BadInput(f"The parameter {name} is named twice; leave one of them out.")
        params[name] = value
    return params


def _key(protocol: str, base_url: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Who types an address here means their key for it, where they have one: its provider's, or the
    protocol's for a server that is no provider's. But nobody means it to be read on the way.
    """
    if base_url.startswith(SIMULATOR_URL):
        return {}
    place = origin(base_url)
    names = [one for one in keys_for(protocol, place) if environ.get(one, "").strip()]
    if not names:
        return {}
    if place.startswith("http:") and not is_loopback(place):
        sentence = f"{names[0]} is not sent to {place}, for all to read; use https to send it."
        print(f"playground: {sentence}", file=sys.stderr)
        return {"key_name": ""}
    return {"key_name": names[0]}
