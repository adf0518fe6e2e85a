"""`playground tap`: an agent in this terminal, with its requests through the server that owns the
database. While the agent runs, the terminal and its signals belong to the agent.

`tap/agents` has the start options of each agent. Threat 36 of docs/safety.md.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from types import FrameType
from typing import Any
from urllib.parse import quote, urlsplit

from playground import config
from playground.core.errors import BadInput, PlaygroundError
from playground.core.settings import Profile
from playground.net.keys import is_loopback, is_vendors_own
from playground.store.database import busy_error, database_path, owner_of
from playground.tap.agents import (
    AGENTS,
    Agent,
    AgentLaunch,
    LaunchUpstream,
    prepare,
    prepare_command,
)

NOT_EXECUTABLE, NOT_FOUND = 126, 127
"""Exit codes for a command that does not start, as in shells."""

SIMULATOR = "simulator"
"""The profile of the built-in simulator."""

PORT = 8765
START_S = 60.0
"""Seconds that a server may take to answer."""
BUSY_S = 10.0
"""Seconds to wait for an owner of the database that is not serving."""
LOOK_S = 0.05
ASK_S = 20.0
IDLE_S = 600.0
"""Seconds that a server started here outlives the last page, stream and agent."""
PRINTED_IDLE_S = 24 * 3600.0
"""The same for an agent that is started manually from printed lines, perhaps later."""
STAY_S = 60.0
"""The interval of requests to the server while an agent runs, so that it stays up, in seconds."""


def main(arguments: argparse.Namespace) -> int:
    """The agent's exit code, 128 + n if signal n ended it; 127 if it is not installed."""
    agent, command = _read_command(arguments)
    if not arguments.print:
        path = _locate(command[0], agent)
        if path is None:
            return NOT_FOUND
        command = (path, *command[1:])
    upstream = arguments.upstream or (agent.upstream if agent else SIMULATOR)
    db = database_path(arguments.db or config.default_db())
    server = find_or_start(db, arguments.port, PRINTED_IDLE_S if arguments.print else IDLE_S)
    goes_to = _read_upstream(server.ask("GET", f"/providers/{quote(upstream, safe='')}"), agent)
    title = agent.title if agent else Path(command[0]).name
    body = {
        "upstream": upstream,
        "title": title,
        "stop_at": arguments.stop_at,
        "agent": agent.name if agent else "",
    }
    if arguments.print:
        return _print(
            agent,
            command=command,
            server=server,
            tap=server.ask("POST", "/taps", body),
            upstream=goes_to,
            db=db,
        )
    with Signals() as signals:
        tap = server.ask("POST", "/taps", body)
        try:
            with _make_scratch() as scratch:
                launch = _prepare(
                    agent,
                    command=command,
                    base=server.base,
                    secret=tap["secret"],
                    upstream=goes_to,
                    scratch=scratch,
                )
                write_scratch(launch, scratch)
                if launch.note:
                    print(f"playground: {launch.note}", file=sys.stderr)
                print(f"playground: {title} is shown at {server.link}", file=sys.stderr, flush=True)
                with server.keep_awake():
                    return signals.run(command[0], launch, arguments.umask)
        finally:
            _revoke(server, tap["id"])


def _read_command(arguments: argparse.Namespace) -> tuple[Agent | None, tuple[str, ...]]:
    """The row of the agent, None for another command, and the command with its own arguments."""
    rest = tuple(arguments.rest or ())
    if arguments.agent is None:
        if not rest:
            raise BadInput(f"Name an agent ({', '.join(AGENTS)}), or a command after --.")
        return None, rest
    agent = AGENTS.get(arguments.agent)
    if agent is None:
        raise BadInput(
            f"There is no agent {arguments.agent!r}. Choose from {', '.join(AGENTS)}. To start "
            f"any other command: playground tap -- {shlex.quote(arguments.agent)} …"
        )
    return agent, (agent.command, *rest)


def _locate(command: str, agent: Agent | None) -> str | None:
    """The path of the command; None, and a sentence on stderr, if it is not found."""
    path = shutil.which(command)
    if path is None:
        if agent is not None:
            hint = f"{agent.title} is not installed. Install it with: {agent.install}"
        else:
            hint = f"There is no command {command!r} on PATH."
        print(f"playground: {config.one_line(hint)}", file=sys.stderr)
    return path


def _read_upstream(profile: Mapping[str, Any], agent: Agent | None) -> LaunchUpstream:
    """From a profile of the server. The agent's own credentials are passed on only to a vendor."""
    protocol, base_url = profile["protocol"], profile["base_url"]
    own = is_vendors_own(Profile(profile["name"], protocol, base_url))
    own = own and not is_loopback(base_url)  # a local server has no login
    if agent is not None and profile["name"] == SIMULATOR:
        protocol = agent.protocols[0]  # the tap has all protocols
    return LaunchUpstream(protocol, own, profile["model"])


def _prepare(
    agent: Agent | None,
    command: Sequence[str],
    base: str,
    secret: str,
    upstream: LaunchUpstream,
    scratch: Path,
) -> AgentLaunch:
    if agent is None:
        return prepare_command(command, base, secret, os.environ, upstream.own_login)
    return prepare(
        agent,
        base,
        secret,
        os.environ,
        upstream,
        home=Path.home(),
        folder=Path.cwd(),
        scratch=scratch,
        arguments=command[1:],
    )


# The server -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LocalServer:
    """A server of this user, called with its token."""

    base: str
    token: str

    @property
    def link(self) -> str:
        return f"{self.base}/?token={self.token}"

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """The JSON answer; PlaygroundError with the server's own sentence, BadInput if the request
        is invalid or its target does not exist."""
        try:
            status, data = self._answer(method, path, body)
            value = json.loads(data) if data else {}
        except (OSError, http.client.HTTPException, ValueError) as trouble:
            sentence = f"The server at {self.base} does not answer: {trouble}."
            raise PlaygroundError(sentence) from trouble
        if status == 401:
            raise PlaygroundError(
                f"The server at {self.base} has another token, perhaps because it was started "
                "with another PLAYGROUND_TOKEN. Set the same token, or stop that server."
            )
        if status >= 400:
            if path.startswith("/taps") and status in (404, 405):
                raise PlaygroundError(
                    f"The server at {self.base} is an older version without taps. Stop it, then "
                    "run this again."
                )
            error = BadInput if status in (404, 422) else PlaygroundError
            raise error(str(value.get("error", f"The server answered {status}.")))
        return value

    def answers(self) -> bool:
        """Whether it accepts requests."""
        with suppress(OSError, http.client.HTTPException):
            return self._answer("GET", "/healthz")[0] == 200
        return False

    @contextmanager
    def keep_awake(self) -> Iterator[None]:
        """Calls it at intervals for the duration of the block: an agent may be silent for hours,
        and an idle server ends."""
        over = Event()

        def ping_server() -> None:
            while not over.wait(STAY_S):
                self.answers()

        thread = Thread(target=ping_server, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _answer(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        # No proxy and no redirect: it is on this machine, and gets the token.
        place = urlsplit(self.base)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=ASK_S)
        sent = b"" if body is None else json.dumps(body).encode()
        headers = {
            "accept": "application/json",
            "authorization": f"Bearer {self.token}",
            "content-type": "application/json",
        }
        try:
            connection.request(method, path, sent, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def find_or_start(db: Path, port: int | None, idle_s: float) -> LocalServer:
    """The server that owns `db`, or a new one. StoreBusy if the owner is not a server;
    PlaygroundError if none answers within `START_S`."""
    token = config.read_or_make_token(db)
    begun = time.monotonic()
    started: subprocess.Popen[bytes] | None = None
    log = db.with_name(db.name + ".server.log")
    while True:
        owner = owner_of(db)
        if owner is not None and owner.url:
            server = LocalServer(owner.url, token)
            if server.answers():
                if started is not None:
                    started.returncode = 0  # it outlives this process, which never waits for it
                return server
        elif owner is None and started is None:
            started = _start(db, port, idle_s, log)
        elif owner is None and started is not None and started.poll() is not None:
            raise PlaygroundError(f"The server did not start: {_read_last_line(log)}")
        elif (
            owner is not None
            and (started is None or owner.pid != started.pid)
            and time.monotonic() > begun + BUSY_S
        ):
            raise busy_error(db, owner)  # not a server that is about to publish its address
        if time.monotonic() > begun + START_S:
            raise PlaygroundError(f"The server does not answer. See {log}.")
        time.sleep(LOOK_S)


def _start(db: Path, port: int | None, idle_s: float, log: Path) -> subprocess.Popen[bytes]:
    """Starts a server in its own process session: Ctrl-C in this terminal does not reach it, and it
    writes to no terminal. Its link, with the token, is not written to a file."""
    words = ["serve", "--db", str(db), "--port", str(port if port is not None else _choose_port())]
    # -P: a folder `playground` in the user's own folder is not this program.
    command = [sys.executable, "-P", "-m", "playground.cli", *words]
    command += ["--idle-exit", f"{idle_s:g}"]
    with log.open("wb") as output:
        return subprocess.Popen(  # noqa: S603 - our own interpreter
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=output,
            start_new_session=True,
        )


def _choose_port() -> int:
    """The default one, so that printed lines and bookmarks stay valid; 0 if it is taken."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", PORT))
        except OSError:
            return 0
    return PORT


def _read_last_line(log: Path) -> str:
    try:
        lines = log.read_text("utf-8", "replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1].removeprefix("playground: ") if lines else f"See {log}."


def _revoke(server: LocalServer, tap: str) -> None:
    try:
        server.ask("POST", f"/taps/{tap}/revoke")
    except PlaygroundError as error:
        sentence = f"{error} The tap is still active. Revoke it on the page Agents."
        print(f"playground: {config.one_line(sentence)}", file=sys.stderr)


# The agent's process ----------------------------------------------------------------------------


class Signals:
    """Signal handling of this process. Before the agent runs a signal raises an exception; while it
    runs Ctrl-C goes to the agent only, and the others are forwarded to it; after it signals are
    ignored, so that cleaning up completes."""

    PASSED = (signal.SIGTERM, signal.SIGHUP)
    LEFT = (signal.SIGINT, signal.SIGQUIT)
    """The terminal also sends these to the agent."""

    def __init__(self) -> None:
        self._agent = 0
        self._over = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        # Python's handlers run between two bytecodes: with a signal just before a blocking call,
        # the handler would wait for that call. So each signal also writes a byte to this pipe.
        self._woken, self._waking = os.pipe()
        os.set_blocking(self._waking, False)
        self._woke = signal.set_wakeup_fd(self._waking, warn_on_full_buffer=False)
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (*self.PASSED, *self.LEFT):
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:  # set by nohup, or for a background job of a script
                self._before[number] = before
                signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        signal.set_wakeup_fd(self._woke)
        os.close(self._woken)
        os.close(self._waking)

    def _receive(self, number: int, _: FrameType | None) -> None:
        if not self._agent and not self._over:
            raise SystemExit(128 + number)
        if number in self.PASSED and not self._over:
            with suppress(ProcessLookupError):
                os.kill(self._agent, number)

    def run(self, path: str, launch: AgentLaunch, umask: int) -> int:
        """Runs it in the terminal's foreground, waits for its end; returns its exit code."""
        ours = os.umask(umask)  # the agent's files are the user's own affair
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, (*self.PASSED, *self.LEFT))
        try:
            self._agent = os.posix_spawn(
                path,
                [launch.command, *launch.arguments],
                launch.environment,
                setsigmask=mask,
                # Python ignores these, which a new program would inherit.
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
            )
        except OSError as error:
            sentence = f"{path} cannot be started: {error.strerror}."
            print(f"playground: {config.one_line(sentence)}", file=sys.stderr)
            return NOT_EXECUTABLE
        finally:
            os.umask(ours)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        try:
            status = self._wait_for(self._agent)
        finally:
            self._over = True
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code

    def _wait_for(self, agent: int) -> int:
        """Waits for its end; returns its wait status."""
        while True:
            pid, status = os.waitpid(agent, os.WNOHANG | os.WUNTRACED)
            if pid and not os.WIFSTOPPED(status):
                return status
            if pid:  # it stopped itself: the shell notices only if we stop, too
                os.kill(os.getpid(), signal.SIGSTOP)
            else:
                os.read(self._woken, 4096)


@contextmanager
def _make_scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="playground-tap-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_scratch(launch: AgentLaunch, folder: Path) -> None:
    """Writes the files and links of `launch` below `folder`, for this user alone."""
    for name, content in launch.files.items():
        path = folder / name
        config.private_folder(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    for name, target in launch.links.items():
        path = folder / name
        config.private_folder(path.parent)
        if not target.exists():
            config.private_folder(target)
        path.symlink_to(target)


def _print(
    agent: Agent | None,
    command: Sequence[str],
    server: LocalServer,
    tap: Mapping[str, Any],
    upstream: LaunchUpstream,
    db: Path,
) -> int:
    """Prints shell lines that start the agent, to stdout; its files are deleted by the next call
    after the tap was revoked."""
    folder = db.with_name(db.name + ".taps")
    open_taps = {row["id"] for row in server.ask("GET", "/taps") if row["revoked_ms"] is None}
    for printed in folder.iterdir() if folder.is_dir() else ():
        if printed.name not in open_taps:
            shutil.rmtree(printed, ignore_errors=True)
    scratch = folder / str(tap["id"])
    launch = _prepare(
        agent,
        command=command,
        base=server.base,
        secret=tap["secret"],
        upstream=upstream,
        scratch=scratch,
    )
    write_scratch(launch, scratch)
    for name in sorted(os.environ.keys() - launch.environment.keys()):
        print(f"unset {name}")
    for name, value in sorted(launch.environment.items()):
        if os.environ.get(name) != value:
            print(f"export {name}={shlex.quote(value)}")
    print(shlex.join([launch.command, *launch.arguments]), flush=True)
    if launch.note:
        print(f"playground: {launch.note}", file=sys.stderr)
    sentence = f"the tap stays active until you revoke it on the page {server.link}"
    print(f"playground: {sentence}", file=sys.stderr)
    return 0
