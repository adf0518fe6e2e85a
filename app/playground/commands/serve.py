"""`playground serve`: the server, from the lock on its database to its last stream."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import logging
import os
import secrets
import socket
import sys
import time
import webbrowser
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from html import escape
from pathlib import Path
from threading import Thread

from starlette.types import ASGIApp, Receive, Scope, Send

from playground import config
from playground.commands.own_simulator import own_simulator
from playground.commands.sockets import (
    bind_socket,
    end_on_signals,
    port_of,
    run_loop,
    serve,
    server,
    url_host,
)
from playground.core.errors import BadInput
from playground.core.providers import LOOPBACK_NAMES
from playground.engine.engine import Engine
from playground.engine.memory import give_back_large_blocks
from playground.net.keys import harden_process
from playground.store.database import busy_error, database_path, owner_of
from playground.web.app import make_app

OPENED_S = 30.0
"""The timeout in seconds for a started browser to read its target."""

PAGE = """<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}"><title>Playground</title>
<p><a href="{link}">Open the playground</a></p>
"""


def main(arguments: argparse.Namespace) -> int:
    """Serves until stopped; returns 0."""
    if arguments.no_token and not _is_loopback(arguments.host):
        raise BadInput(
            "--no-token works on loopback only: elsewhere, without a token, anyone could run "
            "your tools."
        )
    for warning in config.load_env(Path.cwd(), arguments.env_file):
        print(f"playground: {warning}", file=sys.stderr)
    give_back_large_blocks()
    run_loop(_serve(arguments))
    return 0


async def _serve(arguments: argparse.Namespace) -> None:
    db = database_path(arguments.db or config.default_db())
    if (owner := owner_of(db)) is not None:  # before binding the port: this message says more
        raise busy_error(db, owner)
    sock = bind_socket(arguments.host, arguments.port)
    try:
        await _serve_on(sock, db, arguments)
    finally:
        sock.close()


async def _serve_on(sock: socket.socket, db: Path, arguments: argparse.Namespace) -> None:
    port = port_of(sock)
    base = f"http://{url_host(arguments.host)}:{port}"
    token = None if arguments.no_token else config.read_or_make_token(db)
    key = token or secrets.token_urlsafe(16)
    harden_process()
    engine = await Engine.open(
        db,
        simulator_url=lambda: base + "/sim",
        simulator_key=key,
        notify=lambda words: print(f"playground: {words}", file=sys.stderr, flush=True),
    )
    engine.private = config.env_values(Path.cwd(), arguments.env_file)
    try:
        engine.lock.tell(base)
        for output in logging.getLogger().handlers:
            output.addFilter(
                config.log_filter(
                    lambda text: engine.keys.redactor().redact_text(text),
                    config.printable_lines if arguments.dev else config.one_line,
                )
            )
        app, site = make_app(
            engine,
            token=token,
            port=lambda: port,
            simulator=own_simulator(engine, key, _pace()),
            allow_hosts=[*arguments.allow_host, *_host_names(arguments.host)],
            dev=arguments.dev,
        )
        idle = IdleWatch(app, lambda: engine.runner.working)
        instance = server(idle, limit_concurrency=500)
        ending: list[asyncio.Task[None]] = []
        tasks: list[asyncio.Task[None]] = []

        def on_leaving() -> None:
            site.close()
            ending.append(asyncio.create_task(engine.end_runs()))

        def ready() -> None:
            link = base + "/" + (f"?token={token}" if token else "")
            print(f"Playground on {link}", flush=True)
            if arguments.open:
                tasks.append(asyncio.create_task(_open(link, db)))

        with end_on_signals(instance, on_leaving) as end:
            if arguments.idle_exit is not None:
                tasks.append(asyncio.create_task(idle.wait(arguments.idle_exit, end)))
            await serve(instance, sock, ready)
            await asyncio.gather(*ending)
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
    finally:
        await engine.close()


async def _open(link: str, db: Path) -> None:
    with open_browser(link, db):
        await asyncio.sleep(OPENED_S)


def _pace() -> float:
    """PLAYGROUND_PACE scales the simulator's speed: 1 is human, 0 is without delay."""
    try:
        return max(0.0, float(os.environ.get("PLAYGROUND_PACE", "1")))
    except ValueError as error:
        raise BadInput(
            "PLAYGROUND_PACE must be a number: 1 is human pace, 0 is without delay."
        ) from error


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host_names(host: str) -> list[str]:
    """The requested address is accepted as a host name.

    A loopback name would be accepted with https, too, if it were added here.
    """
    # The guard always accepts the loopback names, but only with http.
    return [] if host in ("0.0.0.0", "::", "", *LOOPBACK_NAMES) else [host]


# Opening the link ---------------------------------------------------------------------------------
# Every user of the machine can read a command line, so the browser gets the path of a private file,
# which redirects it. Threat 17 of docs/safety.md.


@contextmanager
def open_browser(link: str, beside: Path) -> Iterator[None]:
    """Opens `link` in a browser by a file next to the database `beside`, which exists for the
    duration of the block. If the browser cannot be started, or the file not written, that is no
    error: the link is printed."""
    page = beside.with_name(beside.name + ".open.html").absolute()
    try:
        page.unlink(missing_ok=True)
        descriptor = os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(PAGE.format(link=escape(link)))
        # Some browsers return only when they are closed.
        Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
    except OSError:
        pass
    try:
        yield
    finally:
        page.unlink(missing_ok=True)


# Ending an idle server: --idle-exit ---------------------------------------------------------------


class IdleWatch:
    """`app`, with a record of whether it is in use.

    An open page has a stream, a working agent a request, and its launcher asks each minute;
    `working` says whether sessions run without any of these. `clock` is in seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        working: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._working = working
        self._clock = clock
        self._open = 0
        self._last = clock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._open += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._open -= 1
            self._last = self._clock()

    def idle_s(self) -> float:
        """Seconds since the last observed activity."""
        if self._open or self._working():
            self._last = self._clock()
        return self._clock() - self._last

    async def wait(
        self,
        seconds: float,
        then: Callable[[], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Calls `then` after `seconds` without activity."""
        looks_s = seconds / 10
        while (idle := self.idle_s()) < seconds:
            await sleep(min(looks_s, seconds - idle))
        then()
