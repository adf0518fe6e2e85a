"""Rounds of kill -9 with agents behind taps: what an agent or a deciding script has got must hold.

Eight agents work through a server, each by a protocol and a tap of its own: from two nothing is
held back, of two every call is and of two every result (killing_results), and of two every call is
answered by hand, so that the server asks on (killing_absorbed); scripts decide. The server
is killed at an instant drawn from the seed (`MOMENTS`) and started again at its address; the agents
send again what broke off, as SDKs do, and go on to the end of their work. Upstream is the simulator
with a scenario, in this process, which counts what it is asked.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from playground.simulator.app import simulator_app
from playground.simulator.scenario import scenario
from tests.in_process import serve_app
from tests.killing import Outcome, read_log, sound
from tests.killing_absorbed import HandDecider
from tests.killing_results import ResultDecider, returned
from tests.servers import NO_TLS, ServerProcess, launch_server

CALLS = (1, 3, 0, 2, 1, 0)
"""How many calls each turn of the scenario has; behind one without any the user says to go on."""

WORDS = 24
PACE = 0.25
LOST_S = 0.05
"""Seconds of text before a kill that may be lost."""

MOST = "ms before the kill came the first text that was lost"
LATE = "ms late was what slept here before the kill"

SETTLED_S = 2.0
"""What upstream had said so long before the kill has come."""

RETRY_S = 0.05
POLL_S = 0.02
BEAT_S = 0.005
WORK_S = 60.0

KEY = "ROUND_API_KEY"
TOOL = "note"
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
MOMENTS = (
    *("while answers pass", "while calls are held"),
    *("while decisions are made", "while results are held"),
    "while an answer goes on here",
)

PATHS = {"anthropic": "/anthropic", "openai_chat": "/openai/v1"}
"""Where the simulator speaks each protocol."""

OWN = "a call of its own history"

ANSWERS = CALLS.count(0)
"""What an agent gets whose calls are all answered by hand: one answer up to each turn without."""

Log = Mapping[int, Mapping[str, Any]]


def mark(turn: int, nth: int) -> str:
    """The text of call `nth` of a turn, which is in no other."""
    return f"mark-{turn}-{nth}-of-this-work"


def marks() -> list[list[str]]:
    """Of the calls of each turn."""
    return [[mark(turn, nth) for nth in range(count)] for turn, count in enumerate(CALLS, 1)]


def turn_text(turn: int) -> str:
    return f"Turn {turn}: " + " ".join(f"word{number}" for number in range(WORDS)) + "."


def script_of_work() -> str:
    turns = []
    for turn, count in enumerate(CALLS, 1):
        calls = [{"name": TOOL, "arguments": {"text": mark(turn, n)}} for n in range(count)]
        turns.append({"text": turn_text(turn), "calls": calls})
    return json.dumps({"turns": turns})


# Upstream ---------------------------------------------------------------------------------------


@dataclass
class Asked:
    """A request that came upstream: of which agent, for which turn, and when (monotonic seconds)
    the last byte of its answer was written."""

    agent: str
    turn: int
    at: float
    whole_at: float | None = None


@dataclass
class Upstream:
    """The simulator; each answer has ids of its own."""

    results: ResultDecider
    by_hand: HandDecider
    asked: list[Asked] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        body = b""
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
        data = json.loads(body)
        system = data.get("system") or data["messages"][0]["content"]
        turn = 1 + sum(message["role"] == "assistant" for message in data["messages"])
        request = Asked(system, turn, time.monotonic())
        self.asked.append(request)
        self.results.came_upstream(system, data)
        self.by_hand.came_upstream(system, turn, data)
        read = False

        async def again() -> Message:
            nonlocal read
            if read:
                return await receive()
            read = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def note_end(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                request.whole_at = time.monotonic()

        app: ASGIApp = simulator_app(
            pace=PACE, scenario=scenario(script_of_work()), seed=len(self.asked)
        )
        await app(scope, again, note_end)

    def of(self, agent: str, turn: int) -> list[Asked]:
        return [request for request in self.asked if (request.agent, request.turn) == (agent, turn)]


# The agent --------------------------------------------------------------------------------------


@dataclass
class GotCall:
    """A call as an agent read it."""

    id: str = ""
    name: str = ""
    arguments: str = ""

    @property
    def text(self) -> str:
        return str(json.loads(self.arguments or "{}").get("text", ""))


@dataclass
class Attempt:
    """What came of one answer. `texts` are its pieces with the time each came at (monotonic
    seconds); `whole` is whether its end came, as SDKs see it: `message_stop`, `[DONE]`."""

    turn: int
    texts: list[tuple[float, str]] = field(default_factory=list)
    calls: dict[int, GotCall] = field(default_factory=dict)
    raw: bytearray = field(default_factory=bytearray)
    whole: bool = False

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.texts)

    def lost(self, saved: str) -> float | None:
        """When the first piece came that goes beyond what was `saved`."""
        length = 0
        for at, text in self.texts:
            length += len(text)
            if length > len(saved):
                return at
        return None


@dataclass
class Agent:
    """Works through `url` until the scenario is over. `may_ask` is cleared while the log is looked
    at; `decided` are the marks of calls whose decision was on its way, None where none is held.
    `answers` is how many it gets: fewer than turns where calls are answered by hand. `resumed`: its
    first request brings turn 1 as a history of its own, which this tap never saw."""

    name: str
    protocol: str
    url: str
    headers: Mapping[str, str]
    decided: set[str] | None
    answers: int = len(CALLS)
    resumed: bool = False
    attempts: list[Attempt] = field(default_factory=list)
    effects: list[GotCall] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    may_ask: asyncio.Event = field(default_factory=asyncio.Event)
    messages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def first(self) -> int:
        """The first turn that it asks for."""
        return 1 + self.resumed

    async def work(self) -> None:
        async with httpx.AsyncClient(timeout=WORK_S, trust_env=False, verify=NO_TLS) as client:
            self._says("Begin, please.")
            if self.resumed:
                own = GotCall("call_of_its_own", TOOL, json.dumps({"text": OWN}))
                self._remember("Begun before.", [own])
                self._answer([own])
            for turn in range(self.first, self.answers + 1):
                answer = await self._asked(client, turn)
                calls = list(answer.calls.values())
                self._remember(answer.text, calls)
                for call in calls:
                    self.effects.append(call)
                if calls:
                    self._answer(calls)
                else:
                    self._says("Go on.")

    async def _asked(self, client: httpx.AsyncClient, turn: int) -> Attempt:
        """As an SDK asks: again where the answer broke off, or the server was not there."""
        while True:
            await self.may_ask.wait()
            attempt = Attempt(turn)
            self.attempts.append(attempt)
            with suppress(httpx.HTTPError):
                await self._ask(client, attempt)
            if attempt.whole:
                return attempt
            await asyncio.sleep(RETRY_S)

    async def _ask(self, client: httpx.AsyncClient, attempt: Attempt) -> None:
        is_anthropic = self.protocol == "anthropic"
        path = "/v1/messages" if is_anthropic else "/chat/completions"
        async with client.stream(
            "POST", self.url + path, json=self._body(), headers=self.headers
        ) as answer:
            if answer.status_code != 200:
                message = (await answer.aread()).decode()
                if answer.status_code < 500:
                    raise AssertionError(f"it was refused: {answer.status_code} {message[:200]}")
                return
            pending = b""
            async for data in answer.aiter_raw():
                attempt.raw += data
                self._look(attempt)
                *frames, pending = (pending + data).split(b"\n\n")
                for frame in frames:
                    for line in frame.split(b"\n"):
                        if line == b"data: [DONE]":
                            attempt.whole = True
                        elif line.startswith(b"data:"):
                            self._read(attempt, json.loads(line[5:]))

    def _body(self) -> dict[str, Any]:
        common: dict[str, Any] = {"model": "m", "max_tokens": 1000, "stream": True}
        if self.protocol == "anthropic":
            tool = {"name": TOOL, "description": "Notes.", "input_schema": SCHEMA}
            return {**common, "system": self.name, "tools": [tool], "messages": self.messages}
        function = {"name": TOOL, "description": "Notes.", "parameters": SCHEMA}
        system = {"role": "system", "content": self.name}
        tools = [{"type": "function", "function": function}]
        return {**common, "tools": tools, "messages": [system, *self.messages]}

    def _look(self, attempt: Attempt) -> None:
        """Of a held call no byte may be here before its decision."""
        if self.decided is None:
            return
        for nth in range(CALLS[attempt.turn - 1]):
            text = mark(attempt.turn, nth)
            if text not in self.decided and _bears(attempt.raw, text, self.protocol):
                self.problems.append(f"call {text} was held, and bytes of it left")

    def _read(self, attempt: Attempt, data: Mapping[str, Any]) -> None:
        now = time.monotonic()
        if self.protocol == "anthropic":
            self._read_anthropic(attempt, data, now)
            return
        for choice in data["choices"]:
            delta = choice["delta"]
            if delta.get("content"):
                attempt.texts.append((now, delta["content"]))
            for piece in delta.get("tool_calls", ()):
                call = attempt.calls.setdefault(piece["index"], GotCall())
                call.id += piece.get("id") or ""
                call.name += piece["function"].get("name") or ""
                call.arguments += piece["function"].get("arguments") or ""

    def _read_anthropic(self, attempt: Attempt, data: Mapping[str, Any], now: float) -> None:
        match data["type"]:
            case "content_block_start" if data["content_block"]["type"] == "tool_use":
                block = data["content_block"]
                attempt.calls[data["index"]] = GotCall(block["id"], block["name"])
            case "content_block_delta":
                delta = data["delta"]
                if delta["type"] == "text_delta":
                    attempt.texts.append((now, delta["text"]))
                elif delta["type"] == "input_json_delta":
                    attempt.calls[data["index"]].arguments += delta["partial_json"]
            case "message_stop":
                attempt.whole = True

    def _says(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def _remember(self, text: str, calls: list[GotCall]) -> None:
        if self.protocol == "anthropic":
            content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
            for call in calls:
                arguments = json.loads(call.arguments or "{}")
                block = {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}
                content.append(block)
            self.messages.append({"role": "assistant", "content": content})
            return
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in calls
            ]
        self.messages.append(message)

    def _answer(self, calls: list[GotCall]) -> None:
        if self.protocol == "anthropic":
            results = [
                {"type": "tool_result", "tool_use_id": call.id, "content": returned(call.text)}
                for call in calls
            ]
            self.messages.append({"role": "user", "content": results})
            return
        for call in calls:
            result = {"role": "tool", "tool_call_id": call.id, "content": returned(call.text)}
            self.messages.append(result)


def _bears(raw: bytes | bytearray, text: str, protocol: str) -> bool:
    """Whether `raw` has anything of a call that only the call of this text can be: a call at all
    where it is the first, else its arguments."""
    if text.encode() in raw:
        return True
    first = text == mark(int(text.split("-")[1]), 0)
    return first and (b'"tool_use"' if protocol == "anthropic" else b'"tool_calls":') in raw


# The script that decides ------------------------------------------------------------------------


@dataclass(frozen=True)
class Card:
    """A held call as the page's script sees it."""

    session: str
    call: str
    provider_id: str
    text: str
    digest: str


@dataclass(frozen=True)
class Choice:
    decision: str
    arguments: str | None = None


@dataclass
class Decider:
    """Decides each held call of the agents named, unless it is `idle`. `seen` are all cards by
    (agent, mark), `sent` what was asked for, `confirmed` what the server said yes to."""

    agents: Mapping[str, Agent]
    results: ResultDecider
    by_hand: HandDecider
    chance: Random
    idle: bool
    sessions: dict[str, str] = field(default_factory=dict)
    seen: dict[tuple[str, str], Card] = field(default_factory=dict)
    sent: dict[tuple[str, str], Choice] = field(default_factory=dict)
    confirmed: dict[tuple[str, str], Choice] = field(default_factory=dict)
    deciding: asyncio.Event = field(default_factory=asyncio.Event)
    problems: list[str] = field(default_factory=list)

    async def run(self, client: httpx.AsyncClient) -> None:
        with suppress(httpx.HTTPError):
            while True:
                await self.look(client)
                await asyncio.sleep(POLL_S)

    async def look(self, client: httpx.AsyncClient) -> None:
        for session in (await client.get("/sessions")).json():
            if session["id"] not in self.sessions:
                log = await read_log(client, session["id"])
                if name := _agent_of(log):  # of a new one there may be no request yet
                    self.sessions[session["id"]] = name
        for session_id, name in self.sessions.items():
            if name in self.agents:
                folded = (await client.get(f"/sessions/{session_id}")).json()
                await self._look_at(client, session_id, name, folded)
            elif name in self.results.agents:
                folded = (await client.get(f"/sessions/{session_id}")).json()
                await self.results.look_at(client, session_id, name, folded)
            elif name in self.by_hand.agents:
                folded = (await client.get(f"/sessions/{session_id}")).json()
                await self.by_hand.look_at(client, session_id, name, folded)

    async def _look_at(
        self, client: httpx.AsyncClient, session_id: str, name: str, folded: Any
    ) -> None:
        for call in folded["calls"]:
            if call["status"] != "waiting":
                continue
            text = json.loads(call["arguments_raw"])["text"]
            card = Card(session_id, call["id"], call["provider_id"], text, call["digest"])
            before = self.seen.setdefault((name, text), card)
            if (before.call, before.provider_id) != (card.call, card.provider_id):
                self.problems.append(f"{name}: the card of {text} was {before} and is {card}")
            self.seen[name, text] = card
            if not self.idle:
                await self._decide(client, name, card)

    async def _decide(self, client: httpx.AsyncClient, name: str, card: Card) -> None:
        edited = json.dumps({"text": card.text + "-edited"})
        choice = self.chance.choice([Choice("run"), Choice("run", edited), Choice("deny")])
        body: dict[str, Any] = {"decision": choice.decision, "digest": card.digest}
        if choice.arguments is not None:
            body["arguments"] = choice.arguments
        key = name, card.text
        decided = self.agents[name].decided
        assert decided is not None
        decided.add(card.text)
        self.sent[key] = choice
        self.deciding.set()
        path = f"/sessions/{card.session}/calls/{card.call}/decision"
        answer = await client.post(path, json=body)
        if answer.is_success:
            self.confirmed[key] = choice
        else:
            self.problems.append(f"{name}: {choice} was refused: {answer.text[:200]}")


def _agent_of(log: Mapping[int, Mapping[str, Any]]) -> str:
    """Whose session it is, by what its first request says."""
    for line in log.values():
        if line["kind"] == "request_sent" and line["body"]:  # none: of the agent's own history
            body = json.loads(line["body"])
            return str(body.get("system") or body["messages"][0]["content"])
    return ""


# A round ----------------------------------------------------------------------------------------


@dataclass
class Machine:
    """How late whatever sleeps wakes up here, as other processes want the processors, too: of a
    server that gets none no text can be saved in time."""

    late: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=200))

    async def watch(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(BEAT_S)
            now = time.monotonic()
            self.late.append((now, now - began - BEAT_S))

    def lateness(self, until: float) -> float:
        """The most in the second before `until`, in seconds."""
        return max((late for at, late in self.late if until - 1 < at <= until), default=0.0)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def tap_kill_round(folder: Path, seed: int) -> Outcome:
    """One round in `folder`, which is empty."""
    chance, moment = Random(seed), MOMENTS[seed % len(MOMENTS)]
    names = frozenset(f"{protocol} stops at results" for protocol in PATHS)
    results = ResultDecider(names, chance, idle=moment == MOMENTS[3])
    by_hand = HandDecider(frozenset(f"{protocol} is answered" for protocol in PATHS), marks())
    upstream, port, machine = Upstream(results, by_hand), free_port(), Machine()
    words = ("--port", str(port))
    db = folder / "kill.db"
    async with serve_app(upstream) as place:
        first = launch_server(db, *words, **{KEY: "any"})
        try:
            async with first.client() as client:
                agents = await _agents(client, place, chance)
                deciding_agents = {
                    agent.name: agent for agent in agents if agent.decided is not None
                }
                decider = Decider(
                    deciding_agents, results, by_hand, chance, idle=moment == MOMENTS[1]
                )
                working = [asyncio.create_task(agent.work()) for agent in agents]
                deciding = asyncio.create_task(decider.run(client))
                watching = asyncio.create_task(machine.watch())
                await _until(moment, decider, chance)
                for agent in agents:
                    agent.may_ask.clear()
                killed_at = time.monotonic()
                first.kill()
                watching.cancel()
                async with asyncio.timeout(20):
                    await deciding
        finally:
            end_server(first)
        second = launch_server(db, *words, **{KEY: "any"})
        try:
            async with second.client() as client:
                late_s = machine.lateness(killed_at)
                round_ = Round(agents, decider, upstream, killed_at, late_s)
                round_.caught[LATE] = round(1000 * late_s)
                round_.caught["resumed agents"] = sum(agent.resumed for agent in agents)
                await round_.compare_at_start(client)
                decider.idle = results.idle = False
                for agent in agents:
                    agent.may_ask.set()
                deciding = asyncio.create_task(decider.run(client))
                try:
                    async with asyncio.timeout(WORK_S):
                        await asyncio.gather(*working)
                except (TimeoutError, AssertionError) as error:
                    round_.say(f"the agents did not come to their end: {error}")
                deciding.cancel()
                await asyncio.gather(deciding, *working, return_exceptions=True)
                await round_.compare_at_end(client)
            round_.violations += sound(db)
            round_.caught[moment] += 1
            return Outcome(round_.violations, round_.reported, round_.caught)
        finally:
            for task in working:
                task.cancel()
            end_server(second)


def end_server(server: ServerProcess) -> None:
    if server.process.poll() is None:
        server.kill()
    assert server.process.stdout is not None
    server.process.stdout.close()


async def _agents(client: httpx.AsyncClient, place: str, chance: Random) -> list[Agent]:
    agents = []
    for protocol, path in PATHS.items():
        address = {"base_url": place + path, "key_name": KEY}
        row = {"name": f"up-{protocol}", "model": "m", "protocol": protocol, **address}
        assert (await client.post("/providers", json=row)).is_success
        named = {"name": KEY, "base_url": address["base_url"]}
        assert (await client.post("/keys", json=named)).is_success
        for what in ("stops at nothing", "stops at calls", "stops at results", "is answered"):
            stop_at = what.split()[-1] if what != "is answered" else "calls"
            tap_form = {"upstream": f"up-{protocol}", "stop_at": stop_at}
            tap = (await client.post("/taps", json=tap_form)).json()
            door = "anthropic" if protocol == "anthropic" else "openai"
            name = f"{protocol} {what}"
            headers = {"anthropic-version": "2023-06-01", "authorization": "Bearer of-the-agent"}
            if chance.random() < 0.5:
                headers["x-session-id"] = name.replace(" ", "-")
            decided = set[str]() if what == "stops at calls" else None
            count = ANSWERS if what == "is answered" else len(CALLS)
            resumed = what in ("stops at nothing", "stops at calls") and chance.random() < 0.5
            agent = Agent(
                name,
                protocol=protocol,
                url=tap["urls"][door],
                headers=headers,
                decided=decided,
                answers=count,
                resumed=resumed,
            )
            agent.may_ask.set()
            agents.append(agent)
    return agents


async def _until(moment: str, decider: Decider, chance: Random) -> None:
    """The instant of the kill."""
    async with asyncio.timeout(WORK_S):
        match MOMENTS.index(moment):
            case 0:
                await asyncio.sleep(chance.uniform(0.1, 4.0))
            case 1:
                while {name for name, _ in decider.seen} != set(decider.agents):
                    await asyncio.sleep(POLL_S)
                await asyncio.sleep(chance.uniform(0, 0.3))
            case 4:
                while not decider.by_hand.goes_on:
                    await asyncio.sleep(POLL_S)
                await asyncio.sleep(chance.uniform(0, 3.0))
            case 3:
                while {name for name, _ in decider.results.seen} != decider.results.agents:
                    await asyncio.sleep(POLL_S)
                await asyncio.sleep(chance.uniform(0, 0.3))
            case _:
                for _ in range(chance.randint(1, 8)):
                    decider.deciding.clear()
                    await decider.deciding.wait()
                await asyncio.sleep(chance.choice([0, 0, 0.001, 0.003, 0.01, 0.03]))


@dataclass
class Round:
    """What the agents and the script got before the kill at `killed_at` (monotonic seconds),
    against what the server says after it. Text may be lost of LOST_S, and of twice `late_s`, by
    which this very process was late then."""

    agents: list[Agent]
    decider: Decider
    upstream: Upstream
    killed_at: float
    late_s: float
    violations: list[str] = field(default_factory=list)
    caught: Counter[str] = field(default_factory=Counter)
    reported: int = 0
    _before: dict[str, Log] = field(default_factory=dict)
    _asked: dict[str, Counter[int]] = field(default_factory=dict)

    def say(self, violation: str) -> None:
        self.violations.append(violation)

    async def compare_at_start(self, client: httpx.AsyncClient) -> None:
        """Before any agent asks again."""
        logs = await self._logs(client)
        for agent in self.agents:
            log = logs.get(agent.name, {})
            self._before[agent.name] = log
            turns = _turns_of(log)
            if turns and turns[-1][0].get("continues") and not agent.attempts[-1].whole:
                self.caught["answers cut where they went on here"] += 1
            for match in (*self._calls(agent, log), *self._text(agent, log)):
                self.say(f"{agent.name}: {match}")
            self._asked[agent.name] = Counter(
                request.turn for request in self.upstream.asked if request.agent == agent.name
            )
        for each in (self.decider.results, self.decider.by_hand):
            self.violations += each.lost(logs)
            self.reported += len(each.confirmed)
        self.caught["held results"] += len(self.decider.results.seen)
        for key, choice in self.decider.confirmed.items():
            self.reported += 1
            there = _decisions(self._before[key[0]]).get(self.decider.seen[key].call)
            if there != choice:
                self.say(f"{key}: {choice} was confirmed, and the log has {there}")
        for key in self.decider.sent.keys() - self.decider.confirmed.keys():
            self.caught["decisions on their way"] += 1
            if self.decider.seen[key].call not in _decisions(self._before[key[0]]):
                decided = self.decider.agents[key[0]].decided
                assert decided is not None
                decided.discard(key[1])  # once more it is held

    def _calls(self, agent: Agent, log: Log) -> Iterator[str]:
        started = {line["call_id"] for line in log.values() if line["kind"] == "call_started"}
        of = _call_ids(log)
        for attempt in agent.attempts:
            for call in attempt.calls.values() if attempt.whole else ():
                self.reported += 1
                if of.get(call.id) not in started:
                    yield f"call {call.text} was got, and its start is not in the log"
        for (name, text), card in self.decider.seen.items():
            if name == agent.name and of.get(card.provider_id) != card.call:
                yield f"the card of {text} is gone"
            self.caught["held calls"] += name == agent.name and card.call not in started

    def _text(self, agent: Agent, log: Log) -> Iterator[str]:
        last = agent.attempts[-1] if agent.attempts else None
        if last is None:
            return
        turn, saved = last.turn, ""
        if agent.answers < len(CALLS):
            turn = _turns_in(log)
            if last.turn == _answers_in(log):
                saved = _last_text(log, len(_turns_of(log)))
        elif last.turn == _turns_in(log):
            saved = _last_text(log)
        if not last.whole and last.text:
            self.caught["cut answers"] += 1
        if lost := last.lost(saved):
            self.caught["characters that passed and were lost"] += len(last.text) - len(saved)
            lost_ms = round((self.killed_at - lost) * 1000)
            self.caught[MOST] = max(self.caught[MOST], lost_ms)
            if self.killed_at - lost > LOST_S + 2 * self.late_s:
                late = f"what sleeps is {1000 * self.late_s:.0f} ms late here"
                yield f"text that passed {lost_ms} ms before the kill is not in the log ({late})"
        whole_at = [request.whole_at for request in self.upstream.of(agent.name, turn)]
        is_due = any(at is not None and at < self.killed_at - SETTLED_S for at in whole_at)
        if is_due and not _has_ended(log):
            yield f"upstream's answer to turn {turn} was whole, and the log has no end"

    async def compare_at_end(self, client: httpx.AsyncClient) -> None:
        logs = await self._logs(client)
        self.violations += [f"card: {problem}" for problem in self.decider.problems]
        self.violations += self.decider.results.broken(logs)
        self.violations += self.decider.by_hand.broken(logs)
        for agent in self.agents:
            log = logs.get(agent.name, {})
            for match in (
                *agent.problems,
                *self._check_agent(agent, log),
                *self._upstream(agent),
                *self._effects(agent, log),
            ):
                self.say(f"{agent.name}: {match}")

    def _check_agent(self, agent: Agent, log: Log) -> Iterator[str]:
        self.reported += len(log)
        before = self._before[agent.name]
        if any(log.get(seq) != line for seq, line in before.items()):
            yield "events of before the retry are others now"
        if list(log) != list(range(1, len(log) + 1)):
            yield "the log has a gap"

    def _upstream(self, agent: Agent) -> Iterator[str]:
        """Each turn is asked for once before the kill at most, and after it only where its answer
        had not come to its end."""
        before, log = self._asked[agent.name], self._before[agent.name]
        cut = 0 if _has_ended(log) else _turns_in(log)
        for turn in range(agent.first, len(CALLS) + 1):
            after = len(self.upstream.of(agent.name, turn)) - before[turn]
            due = int(not before[turn] or turn == cut)
            self.caught["turns asked again"] += due and before[turn]
            if before[turn] > 1 or after != due:
                yield f"turn {turn} was asked {before[turn]} times and then {after}, not {due}"

    def _effects(self, agent: Agent, log: Log) -> Iterator[str]:
        if agent.answers < len(CALLS):
            yield from self._one_answer(agent)
            return
        ran = Counter(call.text for call in agent.effects)
        decisions, of = _decisions(log), _call_ids(log)
        results = {
            line["call_id"]: [line["result"], line.get("real")]
            for line in log.values()
            if line["kind"] == "call_ended"
        }
        for turn, count in enumerate(CALLS[agent.first - 1 :], agent.first):
            for nth in range(count):
                text = mark(turn, nth)
                due = text
                if agent.decided is not None:
                    card = self.decider.seen.get((agent.name, text))
                    choice = decisions.get(card.call) if card is not None else None
                    if card is None or choice is None:
                        yield f"call {text} was not decided"
                        continue
                    output = self.decider.confirmed.get((agent.name, text), choice)
                    if output != choice:
                        yield f"call {text}: {output} was confirmed, {choice} is in the log"
                    edited = choice.arguments is not None
                    due = "" if choice.decision == "deny" else text + "-edited" * edited
                for each in (text, text + "-edited"):
                    if ran[each] != (each == due):
                        yield f"call {each} ran {ran[each]} times, and {due or 'nothing'} was due"
        for call in agent.effects:
            card = self.decider.seen.get((agent.name, call.text.removesuffix("-edited")))
            if agent.decided is not None and (card is None or card.provider_id != call.id):
                yield f"the call {call.text} has another id than its card"
            words = json.dumps(results.get(of.get(call.id, ""), ""))
            if returned(call.text) not in words:
                yield f"the result of {call.text} is not in the log"

    def _one_answer(self, agent: Agent) -> Iterator[str]:
        """All that was said up to where nothing was called, as one answer without any call."""
        whole_attempts = [attempt for attempt in agent.attempts if attempt.whole]
        ends = [turn for turn, count in enumerate(CALLS, 1) if not count]
        due = [range(first + 1, last + 1) for first, last in zip([0, *ends], ends, strict=False)]
        if len(whole_attempts) != len(due):
            yield f"it got {len(whole_attempts)} answers, and {len(due)} were due"
        for attempt, turns in zip(whole_attempts, due, strict=False):
            if "".join(attempt.text.split()) != "".join("".join(map(turn_text, turns)).split()):
                yield f"it got {attempt.text!r} of the turns {turns}"
        for attempt in agent.attempts:
            if attempt.calls or any(_bears(attempt.raw, mark(1, 0), p) for p in PATHS):
                yield "it got bytes of a call that was answered by hand"

    async def _logs(self, client: httpx.AsyncClient) -> dict[str, Log]:
        """By agent; more than one session of an agent is a violation."""
        logs: dict[str, Log] = {}
        for session in (await client.get("/sessions")).json():
            log = await read_log(client, session["id"])
            name = _agent_of(log)
            if not name:
                self.say(f"session {session['id']} has no request")
            elif name in logs:
                self.say(f"{name}: there are two sessions of it")
            else:
                logs[name] = log
        return logs


def _turns_of(log: Log) -> list[list[Mapping[str, Any]]]:
    turns: list[list[Mapping[str, Any]]] = []
    for line in log.values():
        if line["kind"] == "request_sent":
            turns.append([])
        if turns:
            turns[-1].append(line)
    return turns


def _turns_in(log: Log) -> int:
    """The turns that are not dropped."""
    lines = log.values()
    kinds = Counter(str(line["kind"]) for line in lines)
    return kinds["request_sent"] - kinds["turn_dropped"]


def _has_ended(log: Log) -> bool:
    """Whether the last answer had come to its end."""
    turns = _turns_of(log)
    return bool(turns) and any(line["kind"] == "response_ended" for line in turns[-1])


def _answers_in(log: Log) -> int:
    """The requests that the agent itself made."""
    return sum(not line.get("continues") for line in log.values() if line["kind"] == "request_sent")


def _last_text(log: Log, most: int = 1) -> str:
    """What the agent has of the last answer, which may go on from others: `most` with that."""
    text = ""
    for lines in reversed(_turns_of(log)[-most:]):
        deltas = [line for line in lines if line["kind"] == "part_delta" and _is_text(line, lines)]
        text = "".join(line["text"] for line in deltas) + text
        if not lines[0].get("continues"):
            break
        text = "  " + text  # what may stand between two answers
    return text


def _is_text(delta: Mapping[str, Any], lines: list[Mapping[str, Any]]) -> bool:
    return any(
        line["kind"] == "part_started"
        and line["index"] == delta["index"]
        and line["part_kind"] == "text"
        for line in lines
    )


def _call_ids(log: Log) -> dict[str, str]:
    """Our ids of calls by the provider's."""
    ids: dict[str, str] = {}
    for number, lines in enumerate(_turns_of(log), 1):
        for line in lines:
            if line["kind"] in ("part_started", "part_ended") and line.get("provider_id"):
                ids[line["provider_id"]] = f"{number}.{line['index']}"
    return ids


def _decisions(log: Log) -> dict[str, Choice]:
    return {
        line["call_id"]: Choice(line["decision"], line.get("arguments"))
        for line in log.values()
        if line["kind"] == "call_decided"
    }
