"""`playground run`: one run without a browser, here or through the server that owns the database;
its output as lines of text or JSON."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, assert_never

from playground import config
from playground.commands.own_simulator import engine_beside_simulator
from playground.commands.sockets import SIGNALS, run_loop
from playground.commands.tool_files import read_tool_file
from playground.core.errors import BadInput, PlaygroundError
from playground.core.events import (
    AnswerPassed,
    CallChecked,
    CallDecided,
    CallDoubted,
    CallEnded,
    CallExtended,
    CallInterrupted,
    CallProgressed,
    CallReturned,
    CallStarted,
    ClientGone,
    Event,
    Logged,
    PartDelta,
    PartEnded,
    PartStarted,
    PromptAdded,
    RequestReceived,
    RequestSent,
    ResponseEnded,
    ResponseFailed,
    ResponseStarted,
    RetryScheduled,
    RunPaused,
    RunResumed,
    RunStopped,
    SessionForked,
    SessionStarted,
    SettingsChanged,
    TaskEnded,
    TaskStarted,
    TurnDropped,
    Warned,
)
from playground.core.rules import Rule, rules_from_flags
from playground.core.serialization import EVENTS, from_data, logged_data, to_data
from playground.core.session import session_data
from playground.core.settings import SIMULATOR_URL, Limits
from playground.engine.engine import Engine
from playground.engine.settings import keys_for, settings_from
from playground.exchange.parsers import MOST_BYTES
from playground.net.client import HttpClient, NetworkError
from playground.net.keys import is_loopback, origin
from playground.protocols.framing import Framer
from playground.schema import strict_json
from playground.store.database import database_path, owner_of

T = TypeVar("T")

STOPPED = "stopped"
"""The result of a run that is ended by Ctrl-C; not a session state."""

EXIT = {"idle": 0, "waiting": 3, "paused": 3, STOPPED: 130}
"""By the final state of the session, or STOPPED; any other is 1."""

PATIENCE_S, HURRY_S = 20.0, 3.0
"""Seconds that a run may take to stop, and those left after a second signal."""

_LEFT = "The program ended before the run had stopped. The page shows its last state."

LIMITS = Limits(idle_s=120.0, wall_s=24 * 3600.0, max_stream_bytes=1024 * 1024 * 1024)


def main(arguments: argparse.Namespace) -> int:
    """0 done, 1 failed, 3 the user must decide, 130 ended by Ctrl-C, 143 by SIGTERM."""
    if not arguments.prompt.strip():
        raise BadInput("The prompt is empty. Write what the model should do.")
    for warning in config.load_env(Path.cwd(), arguments.env_file):
        print(f"playground: {warning}", file=sys.stderr)
    rules = rules_from_flags(arguments.allow, arguments.deny, _answers(arguments.answer))
    asked = _settings_data(arguments)
    files = read_tool_files(arguments.tools)  # a signal ends this; the loop takes them from here on
    db = database_path(arguments.db or config.default_db())
    owner = owner_of(db)
    if owner is not None and owner.url:
        if arguments.env_file is not None:
            raise BadInput(
                f"The server at {owner.url} uses this database and has its own keys. Start that "
                "server with --env-file, or name another database with --db."
            )
        token = config.read_token(db) or ""
        running = run_remotely(
            owner.url, token=token, arguments=arguments, asked=asked, rules=rules, files=files
        )
    else:
        running = _run_here(db, arguments, asked, rules, files)
    ends = StopSignals()
    try:
        state = run_loop(ends.run_until_signal(running))
    except asyncio.CancelledError:
        print("playground: Stopped before the session began.", file=sys.stderr)
        state = STOPPED
    return ends.code if state == STOPPED else EXIT.get(state, 1)


class StopSignals:
    """Handles SIGTERM and Ctrl-C: stops the run and waits for it. `code` is the exit code."""

    def __init__(self) -> None:
        self.code = EXIT[STOPPED]
        self._seen = 0

    async def run_until_signal(self, running: Coroutine[Any, Any, T]) -> T:
        """The result of `running`, which a first signal cancels. That may take at most
        `PATIENCE_S`, and `HURRY_S` after a second one; a third exits at once."""
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
    db: Path,
    arguments: argparse.Namespace,
    asked: dict[str, Any],
    rules: Sequence[Rule],
    files: Mapping[str, Sequence[Any]],
) -> str:
    async with engine_beside_simulator(db) as engine:
        library = [to_data(tool) for tool in await engine.library.tools()]
        asked["tools"] = tools_from_words(library, arguments.tools, files)
        settings = await settings_from(engine, asked)
        check_names(rules, [tool.name for tool in settings.tools])
        session_id = await engine.sessions.create(settings)
        await engine.rules.put(session_id, rules, settings.tools)
        return await _run_and_print(engine, arguments, session_id)


async def _run_and_print(engine: Engine, arguments: argparse.Namespace, session_id: str) -> str:
    """Runs it until it rests, printing each event as it is saved; returns the final state. On
    cancellation the run is stopped, and the state is STOPPED."""
    teller = RunPrinter(arguments.json, session_id)
    try:
        return await _prompt_and_wait(engine, arguments.prompt, session_id, teller)
    except asyncio.CancelledError:
        await engine.runner.stop(session_id)
        place = f" --db {engine.database.path}" if arguments.db is not None else ""
        teller.stopped(f"To continue, start: playground serve{place}")
        return STOPPED


async def _prompt_and_wait(engine: Engine, prompt: str, session_id: str, teller: RunPrinter) -> str:
    sessions, seq = engine.sessions, 0
    await engine.runner.prompt(session_id, prompt)
    with sessions.listen(session_id) as bell:
        while True:
            bell.clear()
            async with sessions.lock_session(session_id) as live:
                state = live.session.state
            for logged in await engine.log.events(session_id, seq):
                seq = logged.seq
                teller.tell(logged)
            if state != "running":
                async with sessions.lock_session(session_id) as live:
                    teller.rest(state, waiting_calls(session_data(live.session)))
                return state
            await bell.wait(60.0)


def _answers(pairs: Sequence[str]) -> list[tuple[str, str]]:
    answers = []
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise BadInput(f"--answer expects NAME=TEXT, not {pair!r}.")
        answers.append((name, text))
    return answers


def _settings_data(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings of the command line in the format of the JSON contract."""
    asked: dict[str, Any] = {
        "system": arguments.system,
        "tool_choice": arguments.tool_choice,
        "max_turns": arguments.max_turns,
    }
    if arguments.protocol or arguments.base_url:
        if arguments.profile:
            raise BadInput("Use either --profile, or --protocol with --base-url and --model.")
        if not (arguments.protocol and arguments.base_url):
            raise BadInput(
                "--protocol needs --base-url and --model, and --base-url needs --protocol."
            )
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
    """The request parameters on the command line."""
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
                f"--param expects NAME=JSON, such as seed=7 or 'thinking=\"low\"', not {pair!r}."
            )
        if name in params:
            raise BadInput(f"The parameter {name} is given twice. Remove one.")
        params[name] = value
    return params


def _key(protocol: str, base_url: str, environ: Mapping[str, str]) -> dict[str, str]:
    """A user who types an address here means their key for it, if they have one: its provider's, or
    the protocol's for a server that is not a provider's. But it must not be readable in transit."""
    if base_url.startswith(SIMULATOR_URL):
        return {}
    place = origin(base_url)
    names = [name for name in keys_for(protocol, place) if environ.get(name, "").strip()]
    if not names:
        return {}
    if place.startswith("http:") and not is_loopback(place):
        sentence = (
            f"{names[0]} was not sent to {place}, because anyone on the way could read it. Use "
            "https."
        )
        print(f"playground: {sentence}", file=sys.stderr)
        return {"key_name": ""}
    return {"key_name": names[0]}


# The tools of a command line ----------------------------------------------------------------------


def read_tool_files(words: Sequence[str]) -> dict[str, list[Any]]:
    """The tools of the files among the words of --tools: those with / or . in them."""
    return {word: read_tools(Path(word)) for word in words if "/" in word or "." in word}


def tools_from_words(
    library: Sequence[Mapping[str, Any]],
    words: Sequence[str],
    files: Mapping[str, Sequence[Any]],
) -> list[Any]:
    """The tools of --tools, as whole definitions; `files` are those of the words that are files."""
    tools: list[Any] = []
    for word in words:
        if word in files:
            tools += files[word]
            continue
        group = [tool for tool in library if tool["group"] == word]
        if not group:
            raise BadInput(f"There is no tool group {word!r}. `examples` is the built-in one.")
        tools += group
    return tools


def read_tools(path: Path, *, plain: bool = False) -> list[Any]:
    """The tools of a file in any known format; relative paths in it are relative to its folder.
    `plain` refuses a pipe."""
    try:
        imported, _ = read_tool_file(path, MOST_BYTES, plain=plain)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise BadInput(
            f"Cannot read {path} ({reason}); name a readable file, or a group such as `examples`."
        ) from error
    tools = [tool for tool in imported.tools if tool.runner is None]
    for tool in imported.tools:
        if tool.runner is not None:
            print(f"playground: {path}: {tool.name} was left out. {tool.problem}", file=sys.stderr)
    for problem in (imported.problem, *(tool.problem for tool in tools)):
        if problem:
            raise BadInput(f"{path}: {problem}")
    if imported.more:
        raise BadInput(f"{path} has more than {len(imported.tools):,} tools. Split the file.")
    if not imported.tools:
        raise BadInput(f"{path} has MCP servers but no tools. Import it on the page Import tools.")
    if not tools:
        raise BadInput(f"{path} has no usable tool. Name a file with a tool that has a schema.")
    return [to_data(tool.tool) for tool in tools]


def check_names(rules: Sequence[Rule], names: Sequence[str]) -> None:
    """A rule for a missing tool is a typo, and is reported."""
    for rule in rules:
        if rule.tool != "*" and rule.tool not in names:
            there = ", ".join(names) or "none"
            raise BadInput(f"{rule.words}: there is no tool {rule.tool!r}. The tools are {there}.")


# A run through the server that owns the database ------------------------------------------------


class RemoteServer:
    """The server's JSON API."""

    def __init__(self, net: HttpClient, base_url: str, token: str) -> None:
        self._net = net
        self._base_url = base_url
        self._headers = {"authorization": f"Bearer {token}", "accept": "application/json"}

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON answer; PlaygroundError with the server's own sentence."""
        sent = b"" if body is None else json.dumps(body).encode()
        return await self._ask(method, path, sent, "application/json")

    async def send(self, path: str, lines: bytes) -> Any:
        """The JSON answer to JSON Lines."""
        return await self._ask("POST", path, lines, "application/x-ndjson")

    async def _ask(self, method: str, path: str, sent: bytes, kind: str) -> Any:
        headers = {**self._headers, "content-type": kind}
        try:
            async with self._net.open(
                method, self._base_url + path, headers, sent, LIMITS
            ) as answer:
                status = answer.status
                data = b"".join([piece async for piece in answer.chunks()])
        except NetworkError as trouble:
            raise PlaygroundError(f"The server that uses the database: {trouble}") from trouble
        value = json.loads(data)
        if status >= 400:
            sentence = str(value.get("error", f"The server answered {status}."))
            is_input = status in (404, 413, 422)
            error = BadInput(sentence) if is_input else PlaygroundError(sentence)
            error.error_code = str(value.get("code", error.error_code))
            raise error
        return value

    async def events(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
        """The log of a session as it grows."""
        headers = {**self._headers, "accept": "text/event-stream"}
        url = f"{self._base_url}/sessions/{session_id}/events?after=0"
        framer = Framer()
        async with self._net.open("GET", url, headers, b"", LIMITS) as answer:
            async for data in answer.chunks():
                for frame in framer.feed(data):
                    if frame.kind == "sse":
                        yield json.loads(frame.data)


def _rule_data(rule: Rule) -> dict[str, str]:
    """The rules of the command line in the format of the JSON contract."""
    return {"tool": rule.tool, "action": rule.action, "text": rule.text, "words": rule.words}


async def run_remotely(
    base_url: str,
    token: str,
    arguments: argparse.Namespace,
    asked: Mapping[str, Any],
    rules: Sequence[Rule],
    files: Mapping[str, Sequence[Any]],
) -> str:
    """Runs it on the server, with `rules` for this session; returns the final state. On
    cancellation the run is stopped there, and the state is STOPPED."""
    net = HttpClient()
    try:
        remote = RemoteServer(net, base_url, token)
        tools = tools_from_words(await remote.ask("GET", "/tools"), arguments.tools, files)
        check_names(rules, [tool["name"] for tool in tools])
        body = {**asked, "tools": tools, "rules": [_rule_data(rule) for rule in rules]}
        session_id = (await remote.ask("POST", "/sessions", body))["id"]
        teller = RunPrinter(arguments.json, session_id)
        try:
            return await _run_on_server(remote, arguments.prompt, session_id, teller)
        except asyncio.CancelledError:
            await remote.ask("POST", f"/sessions/{session_id}/stop")
            teller.stopped(f"Continue it at {base_url}/sessions/{session_id}")
            return STOPPED
    finally:
        await net.aclose()


async def _run_on_server(
    remote: RemoteServer, prompt: str, session_id: str, teller: RunPrinter
) -> str:
    await remote.ask("POST", f"/sessions/{session_id}/prompts", {"text": prompt})
    async for line in remote.events(session_id):
        logged = parse_log_line(line)
        teller.tell(logged)
        if may_rest(logged.event):
            folded = await remote.ask("GET", f"/sessions/{session_id}")
            if folded["state"] != "running" and folded["seq"] == logged.seq:
                teller.rest(folded["state"], waiting_calls(folded))
                return str(folded["state"])
    raise PlaygroundError("The server ended before the run did.")


def may_rest(event: Event) -> bool:
    """Whether a session may rest after this event."""
    match event:
        case (
            CallChecked() | CallEnded() | CallInterrupted() | CallReturned() | ResponseEnded()
            | ResponseFailed() | RunPaused() | RunStopped() | Warned()
        ):  # fmt: skip
            return True
        case (
            AnswerPassed() | CallDecided() | CallDoubted() | CallExtended() | CallProgressed()
            | CallStarted() | ClientGone() | PartDelta() | PartEnded() | PartStarted()
            | PromptAdded() | RequestReceived() | RequestSent() | ResponseStarted()
            | RetryScheduled() | RunResumed() | SessionForked() | SessionStarted()
            | SettingsChanged() | TaskEnded() | TaskStarted() | TurnDropped()
        ):  # fmt: skip
            return False
        case _:
            assert_never(event)


def waiting_calls(folded: Mapping[str, Any]) -> list[str]:
    """The calls that need a user, as `name (id)`."""
    return [
        f"{call['name']} ({call['id']})"
        for call in folded["calls"]
        if call["status"] in ("waiting", "interrupted")
    ]


# Output -------------------------------------------------------------------------------------------


class RunPrinter:
    """Prints each event once, in order."""

    def __init__(self, as_json: bool, session_id: str) -> None:
        self._json = as_json
        self._session_id = session_id
        self._kinds: dict[int, str] = {}
        self._names: dict[str, str] = {}
        self._turn = 0
        self._retries = 0
        self._paused = ""
        self._open_line = False

    def tell(self, logged: Logged) -> None:
        if isinstance(logged.event, RunPaused):
            self._paused = logged.event.message or f"The run was paused ({logged.event.limit})."
        if self._json:
            self._print(json.dumps(logged_data(logged)))
            if isinstance(logged.event, ResponseFailed):
                self._say(logged.event.message)
        else:
            self._tell(logged.event)

    def rest(self, state: str, waiting: Sequence[str]) -> None:
        """What a user must know when the run rests."""
        self._end_line()
        here = f"Open session {self._session_id} on the page."
        if state == "waiting":
            self._say(f"Needs a decision: {', '.join(waiting)}. {here}")
        elif state == "paused":
            self._say(f"{self._paused or 'The run is paused.'} {here}")
        elif state in ("failed", "interrupted"):
            self._say(here)  # where Retry and Setup are, which the reason may name

    def stopped(self, advice: str) -> None:
        """What a user must know after Ctrl-C."""
        self._end_line()
        self._say(f"The run was stopped. It is session {self._session_id}. {advice}")

    def _tell(self, event: Event) -> None:
        match event:
            case RequestSent(recording=recording):
                self._turn, self._kinds = recording, {}
            case PartStarted(index=index, part_kind=kind):
                self._kinds[index] = kind
            case PartDelta(index=index, text=text) if self._kinds.get(index) in ("text", "refusal"):
                self._write(text)
            case PartEnded(index=index) if self._kinds.get(index) == "call":
                self._names[f"{self._turn}.{index}"] = event.name
                self._line(f"→ {event.name} {event.text or '{}'}")
            case PartEnded():
                self._end_line()
            case CallDecided() if event.decision != "run":
                who = "the user" if event.by == "person" else event.rule
                self._line(f"  {event.decision} by {who}")
            case CallEnded(call_id=call_id, result=result):
                error = " (error)" if result.is_error else ""
                self._line(f"← {self._names.get(call_id, call_id)}{error} {result.text}")
            case ResponseFailed(message=message):
                self._end_line()
                self._say(message)
            case SessionStarted(settings=settings) | SettingsChanged(settings=settings):
                self._retries = settings.limits.max_retries
            case RetryScheduled():
                place = f"{event.attempt} of {self._retries}"
                self._say(f"Trying again in {event.wait_s:.3g} s ({place}): {event.reason}.")
            case (
                AnswerPassed() | CallChecked() | CallDecided() | CallDoubted() | CallEnded()
                | CallExtended() | CallInterrupted() | CallProgressed() | CallReturned()
                | CallStarted() | ClientGone() | PartDelta() | PromptAdded() | RequestReceived()
                | ResponseEnded() | ResponseStarted() | RunPaused() | RunResumed() | RunStopped()
                | SessionForked() | TaskEnded() | TaskStarted() | TurnDropped() | Warned()
            ):  # fmt: skip
                pass
            case _:
                assert_never(event)

    def _write(self, text: str) -> None:
        lines = text.split("\n")
        self._out("\n".join(config.one_line(line) for line in lines))
        self._open_line = bool(lines[-1]) or (self._open_line and len(lines) == 1)

    def _line(self, text: str) -> None:
        self._end_line()
        self._print("\n".join(config.one_line(line) for line in text.split("\n")))

    def _end_line(self) -> None:
        if self._open_line:
            self._out("\n")
            self._open_line = False

    def _print(self, text: str) -> None:
        self._out(text + "\n")

    def _out(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def _say(self, text: str) -> None:
        print(f"playground: {config.one_line(text)}", file=sys.stderr)


def parse_log_line(line: dict[str, object]) -> Logged:
    """The Logged of a line of the log in the format for scripts."""
    from_line = dict(line)
    seq, at_ms, kind = (from_line.pop(name) for name in ("seq", "at_ms", "kind"))
    from_line.pop("source", None)
    assert isinstance(seq, int)
    assert isinstance(at_ms, int)
    assert isinstance(kind, str)
    return Logged(seq, at_ms, from_data(EVENTS[kind], from_line))
