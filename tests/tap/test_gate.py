"""The gate: no byte of a call reaches an agent before the call is decided to run, whatever history
the agent sends, and however the answer arrives and ends."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.core.errors import Refused
from playground.core.messages import Message, ModelRequest
from playground.core.rules import Rule
from playground.core.session import Session
from playground.core.settings import Profile, Protocol
from playground.core.tools import Tool, ToolChoice
from playground.engine.decisions import DecisionRequest, ResultDecision
from playground.engine.engine import Engine
from playground.engine.rules import ALWAYS
from playground.net.client import NetworkError
from playground.protocols.registry import codec
from playground.tap.door import DOORS
from playground.tap.exchange import AgentExchange
from playground.tap.recording import AgentSessions, may_bring_calls
from playground.tap.relay import AgentRequest, Exchange
from playground.tap.taps import Tap
from tests.databases import create_empty_database
from tests.protocols.answers import PROTOCOLS, AnswerPart, body
from tests.protocols.answers import call as answer_call
from tests.protocols.answers import text as answer_text
from tests.protocols.requests import assistant, call, result_part, results, user
from tests.tap.agent import taps_of

pytestmark = pytest.mark.anyio

URLS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "gemini": "/v1beta/models/m:{method}",
    "ollama": "/api/chat",
}
STREAM_TYPES = {"ollama": b"application/x-ndjson"}
TOOLS = tuple(Tool(f"tool{nth}", "Does it.", {"type": "object"}) for nth in range(1, 10))
BROKE = NetworkError("interrupted", "The connection broke.", began=True)

Gate = Literal["calls", "results", "rule"]
"""What holds: the tap's `stop_at`, or a rule that denies every call at a tap that stops at nothing
else."""

Decision = Literal["run", "deny", "leave"]

Ending = Literal["whole", "length", "broken", "cut", "stray", "unreadable"]
"""How an answer ends: `whole`; `length` (a finish reason that says it was cut short); `broken` (the
connection breaks after the bytes); `cut` (it breaks in the middle); `stray` (another answer with
calls comes behind the end); `unreadable` (an event that is no JSON stands before the calls)."""

SYNTHETIC = st.lists(
    st.sampled_from(("user", "assistant", "call", "call without result", "result alone")),
    max_size=6,
)
HISTORIES = ("fresh", "continued", "resumed", "compacted", "edited", "repeated")

REASONS = (
    (b'"tool_use"}', b'"max_tokens"}'),
    (b'"stop_reason": "tool_use"', b'"stop_reason": "max_tokens"'),
    (b'"tool_calls"}', b'"length"}'),
    (b'"finish_reason": "tool_calls"', b'"finish_reason": "length"'),
    (b'"STOP"', b'"MAX_TOKENS"'),
    (b'"done_reason": "stop"', b'"done_reason": "length"'),
)
"""How finish reasons become those of an answer that was cut short."""

WHOLE = [(b"content-type", b"application/json")]

UNREAD_RESULTS = ("rewritten", "behind a word of its user", "of no known call", "changed")
DEEP = b'{"messages": [], "a": ' + b"[" * 200 + b"]" * 200 + b"}"
UNREADABLE = [
    None,
    b"[]",
    b"{",
    b"\xff",
    b'\xef\xbb\xbf{"messages": []}',
    DEEP,
]


@dataclass(frozen=True)
class Round:
    """One request of the agent and its answer. `turns` are what it puts into the history by itself;
    `texts` and `calls` are what the provider answers; `decisions` are made on these calls in turn,
    "leave": the agent disconnects instead."""

    history: str
    turns: Sequence[str]
    texts: int
    calls: int
    streamed: bool
    ending: Ending
    chunk: int
    decisions: Sequence[Decision]


ROUNDS = st.builds(
    Round,
    history=st.sampled_from(HISTORIES),
    turns=SYNTHETIC,
    texts=st.integers(0, 1),
    calls=st.integers(0, 2),
    streamed=st.booleans(),
    ending=st.sampled_from(("whole", "whole", "length", "broken", "cut", "stray", "unreadable")),
    chunk=st.sampled_from((1, 7, 100, 100_000)),
    decisions=st.lists(st.sampled_from(("run", "run", "deny", "leave")), min_size=3, max_size=3),
)


@dataclass
class GatedAgent:
    """An agent behind a tap that holds calls. `named`: its requests name their conversation.
    `secret` are the words of every call that any answer had; `decided` are the calls that waited,
    `allowed` those that were decided to run. `got` are the bytes of the last answer."""

    engine: Engine
    sessions: AgentSessions
    tap: Tap
    protocol: Protocol
    gate: Gate
    named: bool = False
    messages: list[Message] = field(default_factory=list)
    sent: list[Message] = field(default_factory=list)
    secret: dict[str, list[bytes]] = field(default_factory=dict)
    allowed: set[str] = field(default_factory=set)
    decided: set[str] = field(default_factory=set)
    got: bytes = b""
    answers: int = 0
    numbers: int = 0

    def ask(self, *, streamed: bool) -> AgentExchange:
        """The exchange of a request with the history `messages`."""
        self.sent = list(self.messages)
        request = ModelRequest(
            "m", "You help.", tuple(self.messages), TOOLS, ToolChoice(), stream=streamed
        )
        method = "streamGenerateContent" if streamed else "generateContent"
        target = URLS[self.protocol].format(method=method)
        profile = Profile("provider", self.protocol, "http://127.0.0.1:1")
        door = next(door for door, spoken in DOORS.items() if self.protocol in spoken)
        agent_request = AgentRequest(
            tap=self.tap,
            door=door,
            method="POST",
            target=target.encode(),
            headers=[(b"x-session-id", b"its-own")] if self.named else [],
            body=codec(self.protocol).encode(request).body,
            url="http://127.0.0.1:1" + target,
            profile=profile,
            at_ms=self.engine.sessions.clock(),
        )
        self.got = b""
        return AgentExchange(self.sessions, agent_request)

    def answer(self, result: Round) -> tuple[list[AnswerPart], bytes]:
        """The parts of the next answer, each call with words of its own, and its bytes."""
        self.answers += 1
        parts = [answer_text(f"Text {self.answers}.")] * result.texts
        for _ in range(result.calls):
            self.numbers += 1
            part = answer_call(self.numbers)
            self.secret[part.name] = part.words
            parts.append(part)
        data = body(self.protocol, parts, streamed=result.streamed)
        for name in (b"msg_", b"resp_", b"c", b"r"):
            data = data.replace(b'"%s1"' % name, b'"%s%d"' % (name, 1000 + self.answers))
        return parts, data

    def take(self, data: bytes) -> None:
        """The agent gets `data`: nothing of it may be of a call that was not decided to run."""
        self.got += data
        leaked = {
            name
            for name, words in self.secret.items()
            if name not in self.allowed and any(word in self.got for word in words)
        }
        assert not leaked, f"{leaked} reached the agent before a decision."

    def grow(self, history: str, turns: Sequence[str]) -> None:
        """Makes the history of the next request: what the agent keeps of the last one, and `turns`
        that no provider wrote."""
        match history:
            case "repeated" if self.sent:
                self.messages = list(self.sent)
                return
            case "fresh" | "resumed":
                self.messages = []
            case "compacted":
                self.messages = [user("This is a summary."), assistant(*user("I see.").parts)]
            case "edited" if self.messages:
                self.messages[0] = user(f"Edited {self.answers}.")
        for turn in turns if history != "continued" else ():
            self._add(turn)
        self.messages.append(user(f"Question {self.answers}."))

    def _add(self, turn: str) -> None:
        self.numbers += 1
        id_ = f"id_own{self.numbers}"
        match turn:
            case "user":
                self.messages.append(user("Own words."))
            case "assistant":
                self.messages.append(assistant(*user("Own answer.").parts))
            case "call" | "call without result":
                self.messages.append(assistant(call(id_, name="tool1")))
                if turn == "call":
                    self.messages.append(results(result_part(id_, "Own result.")))
            case "result alone":
                self.messages.append(results(result_part(id_, "Own result.")))

    def check_whole(self, parts: Sequence[AnswerPart]) -> None:
        """Nothing of an answer that ended well is missing but calls that were not decided to run,
        and each call waited."""
        for part in parts:
            words = part.words if part.kind == "call" else [part.text.encode()]
            if part.kind == "text" or part.name in self.allowed:
                assert all(word in self.got for word in words), f"{part} did not reach the agent."
            if part.kind == "call" and self.gate == "calls":
                assert part.name in self.decided, f"{part.name} did not wait."

    def keep(self, parts: Sequence[AnswerPart]) -> None:
        """Puts the answer, as far as the agent got it, and the results into the history."""
        ran = [part for part in parts if part.kind == "call" and part.name in self.allowed]
        texts = [p for part in parts if part.kind == "text" for p in user(part.text).parts]
        calls = [call(part.id, part.text, name=part.name) for part in ran]
        if texts or calls:
            self.messages.append(assistant(*texts, *calls))
        if ran:
            self.messages.append(results(*(result_part(part.id, "Done.") for part in ran)))


PLAIN = Round(
    "fresh", turns=(), texts=1, calls=1, streamed=False, ending="whole", chunk=100_000, decisions=()
)
SPEECH = replace(PLAIN, calls=0)


@asynccontextmanager
async def gated(protocol: Protocol, gate: Gate) -> AsyncIterator[GatedAgent]:
    """An agent behind a tap with this `gate`, in an engine of its own."""
    with tempfile.TemporaryDirectory() as folder:
        await create_empty_database(Path(folder) / "test.db")
        engine = await Engine.open(
            Path(folder) / "test.db",
            simulator_url=lambda: "http://127.0.0.1:1",
            simulator_key="key",
            environment={},
        )
        try:
            taps = taps_of(engine)
            tap, _ = await taps.create("simulator", agent="tester")
            if gate != "rule":
                tap = await taps.set_stop_at(tap.id, gate)
            else:
                await engine.rules.put(ALWAYS, [Rule("*", "deny", text="No.")], TOOLS)
            sessions = AgentSessions(engine, taps, b"key", keepalive_s=0.01)
            yield GatedAgent(engine, sessions, tap, protocol, gate)
        finally:
            await engine.close()


def arriving(result: Round, data: bytes, stray: bytes) -> tuple[bytes, NetworkError | None]:
    """The bytes of an answer with that ending, and the trouble it ends with."""
    match result.ending:
        case "length":
            for reason, cut in REASONS:
                data = data.replace(reason, cut)
            return data, None
        case "broken":
            return data, BROKE
        case "cut":
            return data[: len(data) * 2 // 3], BROKE
        case "stray":
            return data + stray, None
        case "unreadable" if result.streamed:
            end = data.find(b"\n") + 1
            start = b"{]\n" if data[:1] == b"{" else b"data: {]\n\n"
            return start + data if end else data, None
    return data, None


async def play(agent: GatedAgent, result: Round) -> None:
    """One request: checks each byte that the agent gets."""
    agent.grow(result.history, result.turns)
    exchange = agent.ask(streamed=result.streamed)
    head = await exchange.begin()
    parts: list[AnswerPart] = []
    trouble: NetworkError | None = None
    if head is None:
        parts, data = agent.answer(result)
        _, stray = agent.answer(result)
        data, trouble = arriving(result, data, stray)
        streamed = STREAM_TYPES.get(agent.protocol, b"text/event-stream")
        kind = streamed if result.streamed else b"application/json"
        exchange.receive_head(200, [(b"content-type", kind)])
        for start in range(0, len(data), result.chunk):
            agent.take(await exchange.pass_on(data[start : start + result.chunk]))
    is_sound = head is None and result.ending in ("whole", "stray")
    how = await read_rest(agent, exchange, trouble, result.decisions)
    assert not (is_sound and how == "cut"), "An answer that ended well did not arrive."
    if how == "complete":
        agent.keep(parts)
    if how == "complete" and is_sound:
        agent.check_whole(parts)


async def read_rest(
    agent: GatedAgent,
    exchange: Exchange,
    trouble: NetworkError | None,
    decisions: Sequence[Decision],
) -> Literal["complete", "cut", "left"]:
    """Reads the rest of the answer while the calls that wait are decided in turn: whether all of it
    arrived, it was cut, or the agent left."""

    async def read() -> None:
        async for data in exchange.finish_answer(trouble):
            agent.take(data)

    left = list(decisions)
    reading = asyncio.create_task(read())
    async with asyncio.timeout(30):
        while not reading.done():
            position = agent.engine.sessions.position
            session = await newest(agent)
            waiting = session.waiting if session is not None else []
            if not waiting or session is None:
                await agent.engine.sessions.wait(position, agent.engine.sessions.list_version, 0.02)
                continue
            how = left.pop(0) if left else "deny"
            if how == "leave":
                reading.cancel()
                await asyncio.wait({reading})
                await exchange.leave()
                return "left"
            await decide(agent, session, waiting[0].id, how)
    try:
        await reading
    except NetworkError:
        return "cut"
    return "complete"


async def decide(
    agent: GatedAgent, session: Session, call_id: str, how: Literal["run", "deny"]
) -> None:
    """Decides a call; one that cannot run as it came is denied."""
    call_ = session.call(call_id)
    name = call_.name
    agent.decided.add(name)
    if how == "run":
        agent.allowed.add(name)
    decision = DecisionRequest(how, call_.digest)
    try:
        await agent.engine.runner.decide(session.id, call_id, decision)
    except Refused:
        agent.allowed.discard(name)
        denied = DecisionRequest("deny", call_.digest)
        await agent.engine.runner.decide(session.id, call_id, denied)


async def newest(agent: GatedAgent) -> Session | None:
    """The agent's session in which calls wait, or else any."""
    session: Session | None = None
    for session_id in await agent.engine.log.tapped_sessions(agent.tap.id, 20):
        async with agent.engine.sessions.lock_session(session_id) as live:
            if session is None or live.session.waiting:
                session = live.session
    return session


@given(
    protocol=st.sampled_from(PROTOCOLS),
    gate=st.sampled_from(("calls", "rule")),
    named=st.booleans(),
    rounds=st.lists(ROUNDS, min_size=1, max_size=3),
)
async def test_no_call_reaches_an_agent_before_its_decision(
    protocol: Protocol, gate: Gate, named: bool, rounds: Sequence[Round]
) -> None:
    async with gated(protocol, gate) as agent:
        agent.named = named
        for result in rounds:
            await play(agent, result)


@pytest.mark.parametrize("data", UNREADABLE)
async def test_a_request_that_cannot_be_read_is_refused_where_calls_are_held(
    data: bytes | None,
) -> None:
    async with gated("openai_chat", "calls") as agent:
        exchange = agent.ask(streamed=True)
        exchange.request = replace(exchange.request, body=data)
        with pytest.raises(Refused, match="cannot be read"):
            await exchange.begin()
        (other,) = agent.sessions.taps.activity(agent.tap.id).others
        assert (other.status, "cannot be read" in other.refused) == (403, True)
        agent.tap = await agent.sessions.taps.set_stop_at(agent.tap.id, "nothing")
        exchange = agent.ask(streamed=True)
        exchange.request = replace(exchange.request, body=data)
        assert await exchange.begin() is None


async def test_an_answer_that_cannot_be_unpacked_does_not_leave_where_calls_are_held() -> None:
    async with gated("openai_chat", "calls") as agent:
        agent.grow("fresh", ())
        exchange = agent.ask(streamed=False)
        await exchange.begin()
        kind = [(b"content-type", b"application/json"), (b"content-encoding", b"br")]
        with pytest.raises(NetworkError, match="in an unsupported way"):
            exchange.receive_head(200, kind)


async def test_a_call_that_only_a_second_choice_has_does_not_leave() -> None:
    """A client that reads the first entry of the list takes it, whatever its index says."""
    async with gated("openai_chat", "calls") as agent:
        agent.grow("fresh", ())
        exchange = agent.ask(streamed=False)
        await exchange.begin()
        exchange.receive_head(200, [(b"content-type", b"application/json")])
        _, data = agent.answer(PLAIN)
        second = data.replace(b'"index": 0', b'"index": 1')
        assert second != data
        agent.take(await exchange.pass_on(second))
        assert await read_rest(agent, exchange, None, ()) == "cut"


@pytest.mark.parametrize(
    ("protocol", "streamed", "old", "new"),
    [
        ("anthropic", False, b'"type": "message"', b'"kind": "message"'),
        ("openai_chat", False, b'"tool_calls": [', b'"toolCalls": ['),
        ("openai_chat", True, b'"tool_calls": [', b'"toolCalls": ['),
        ("openai_responses", False, b'"object": "response"', b'"kind": "response"'),
        ("gemini", False, b'"functionCall"', b'"function_call"'),
        ("gemini", True, b'"functionCall"', b'"function_call"'),
        ("gemini", True, b'"parts": [', b'"parts": [], "other": ['),
        ("ollama", False, b'"function": {', b'"call": {'),
        ("ollama", True, b'"function": {', b'"call": {'),
    ],
)
async def test_a_call_that_only_a_client_sees_does_not_leave(
    protocol: Protocol, streamed: bool, old: bytes, new: bytes
) -> None:
    async with gated(protocol, "calls") as agent:
        agent.grow("fresh", ())
        exchange = agent.ask(streamed=streamed)
        await exchange.begin()
        kind = STREAM_TYPES.get(protocol, b"text/event-stream") if streamed else b"application/json"
        exchange.receive_head(200, [(b"content-type", kind)])
        _, data = agent.answer(replace(PLAIN, streamed=streamed))
        changed = data.replace(old, new)
        assert changed != data
        agent.take(await exchange.pass_on(changed))
        assert await read_rest(agent, exchange, None, ()) == "cut"


@pytest.mark.parametrize(
    ("method", "path", "brings"),
    [
        ("GET", "/v1/responses/resp_1", True),
        ("POST", "/v1/responses/resp_1/cancel", True),
        ("DELETE", "/v1/responses/resp_1", False),
        ("POST", "/v1//chat//completions/", True),
        ("POST", "/v1/chat/%63ompletions/", True),
        ("POST", "/v1/chat%252Fcompletions", True),
        ("POST", "/v1/messages;x=1", True),
        ("GET", "/v1/messages/batches/msgbatch_1/results", True),
        ("GET", "/v1/files/file_1/content", True),
        ("GET", "/v1/conversations/conv_1/items", True),
        ("POST", "/v1/conversations", False),
        ("POST", "/v1beta/models/m:batchGenerateContent", True),
        ("POST", "/v1/projects/p/publishers/anthropic/models/m:streamRawPredict", True),
        ("POST", "/v1/messages/count_tokens", False),
        ("POST", "/v1/responses/compact", False),
        ("GET", "/v1/models", False),
        ("POST", "/v1beta/models/m:countTokens", False),
        ("POST", "/v1/embeddings", False),
    ],
)
def test_addresses_whose_answers_may_bring_calls(method: str, path: str, brings: bool) -> None:
    assert may_bring_calls(method, "https://api.example.com" + path) is brings


async def test_a_stored_answer_is_not_fetched_where_calls_are_held() -> None:
    async with gated("openai_responses", "calls") as agent:
        for stop_at, is_refused in (("calls", True), ("nothing", False)):
            agent.tap = await agent.sessions.taps.set_stop_at(agent.tap.id, stop_at)
            exchange = agent.ask(streamed=False)
            url = exchange.request.url + "/resp_1"
            exchange.request = replace(exchange.request, method="GET", url=url, body=b"")
            with (
                pytest.raises(Refused, match="may contain undecided calls")
                if is_refused
                else nullcontext()
            ):
                assert await exchange.begin() is None


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("before", "named"),
    [(0, False), (1, False), (1, True)],
    ids=["resumed", "in mid-session", "in mid-session with an id"],
)
async def test_a_result_of_a_history_waits_before_the_model_reads_it(
    protocol: Protocol, before: int, named: bool
) -> None:
    """Its call was made elsewhere: the tap never saw it."""
    async with gated(protocol, "results") as agent:
        agent.named = named
        agent.messages.append(user("Look."))
        for _ in range(before):
            await play(agent, replace(SPEECH, history="continued"))
        own = result_part("id_own", "Rain.")
        agent.messages += [assistant(call("id_own", name="tool1")), results(own)]
        exchange = agent.ask(streamed=True)
        asking = asyncio.create_task(exchange.begin())
        session = await waiting_session(agent)
        assert not asking.done()
        (held_call,) = session.waiting
        decision = ResultDecision(held_call.digest, "Snow.")
        await agent.engine.runner.decide_result(session.id, held_call.id, decision)
        async with asyncio.timeout(20):
            assert await asking is None
        assert exchange.body is not None
        assert (b"Snow." in exchange.body, b"Rain." in exchange.body) == (True, False)
        exchange.receive_head(200, [(b"content-type", b"application/json")])
        agent.take(await exchange.pass_on(agent.answer(SPEECH)[1]))
        assert await read_rest(agent, exchange, None, ()) == "complete"
        sessions = await agent.engine.log.tapped_sessions(agent.tap.id, 20)
        assert len(sessions) == (1 if named else 1 + before)
        async with agent.engine.sessions.lock_session(session.id) as live:
            assert [call.status for call in live.session.calls()][:1] == ["done"]


async def waiting_session(agent: GatedAgent) -> Session:
    """The agent's session as soon as something in it waits for the user."""
    async with asyncio.timeout(20):
        while True:
            position = agent.engine.sessions.position
            session = await newest(agent)
            if session is not None and session.waiting:
                return session
            await agent.engine.sessions.wait(position, agent.engine.sessions.list_version, 20)


async def test_an_answer_that_came_when_nothing_was_held_is_asked_for_again() -> None:
    """Its agent left before it had all of it, and calls are held since."""
    async with gated("openai_chat", "calls") as agent:
        taps = agent.sessions.taps
        agent.tap = await taps.set_stop_at(agent.tap.id, "nothing")
        agent.grow("fresh", ())
        exchange = agent.ask(streamed=False)
        await exchange.begin()
        exchange.receive_head(200, WHOLE)
        await exchange.pass_on(agent.answer(PLAIN)[1])
        await anext(aiter(exchange.finish_answer(None)))
        await exchange.leave()
        agent.tap = await taps.set_stop_at(agent.tap.id, "calls")
        agent.grow("repeated", ())
        exchange = agent.ask(streamed=False)
        assert await exchange.begin() is None, "The provider is asked again."
        assert exchange.holds
        exchange.receive_head(200, WHOLE)
        agent.take(await exchange.pass_on(agent.answer(PLAIN)[1]))
        assert await read_rest(agent, exchange, None, ["deny"]) == "complete"
        assert len(agent.decided) == 1


async def test_rules_of_a_session_hold_for_requests_beside_it_and_where_something_fails() -> None:
    async with gated("openai_chat", "calls") as agent:
        agent.tap = await agent.sessions.taps.set_stop_at(agent.tap.id, "nothing")
        agent.named = True
        await play(agent, replace(SPEECH, history="fresh"))
        session = await newest(agent)
        assert session is not None
        await agent.engine.rules.put(session.id, [Rule("*", "deny", text="No.")], TOOLS)
        agent.grow("continued", ())
        first, beside = agent.ask(streamed=False), agent.ask(streamed=False)
        for exchange in (first, beside):
            await exchange.begin()
            assert exchange.holds
        assert first.session_id != beside.session_id
        for exchange in (beside, first):
            exchange.receive_head(200, WHOLE)
            agent.take(await exchange.pass_on(agent.answer(PLAIN)[1]))
            assert await read_rest(agent, exchange, None, ()) == "complete"
        exchange = agent.ask(streamed=False)
        exchange.request = replace(exchange.request, body=b"[]")
        with pytest.raises(Refused, match="cannot be read"):
            await exchange.begin()


@pytest.mark.parametrize("status", [203, 300])
async def test_an_answer_of_another_status_that_is_no_error_waits(status: int) -> None:
    async with gated("openai_chat", "calls") as agent:
        agent.grow("fresh", ())
        exchange = agent.ask(streamed=False)
        await exchange.begin()
        exchange.receive_head(status, WHOLE)
        agent.take(await exchange.pass_on(agent.answer(PLAIN)[1]))
        assert await read_rest(agent, exchange, None, ["run"]) == "complete"
        assert b"tool1" in agent.got


async def test_what_leaves_is_what_the_card_showed_where_places_disagree() -> None:
    """The last event of the answer has other arguments for the call."""
    async with gated("openai_responses", "calls") as agent:
        agent.grow("fresh", ())
        exchange = agent.ask(streamed=True)
        await exchange.begin()
        exchange.receive_head(200, [(b"content-type", b"text/event-stream")])
        _, data = agent.answer(replace(PLAIN, streamed=True))
        start = data.index(b"response.completed")
        other = data[:start] + data[start:].replace(b"first1", b"other1")
        assert other != data
        agent.take(await exchange.pass_on(other))
        assert await read_rest(agent, exchange, None, ["run"]) == "complete"
        assert (b"first1" in agent.got, b"other1" in agent.got) == (True, False)


@pytest.mark.parametrize("way", UNREAD_RESULTS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_result_that_belongs_to_no_card_does_not_leave(
    protocol: Protocol, way: str
) -> None:
    """It waits on a card of its own, or its request is refused."""
    async with gated(protocol, "results") as agent:
        agent.named = True
        agent.messages.append(user("Look."))
        await play(agent, replace(SPEECH, history="continued"))
        own, its = call("id_own", name="tool1"), result_part("id_own", "Rain.")
        match way:
            case "rewritten":
                agent.messages = [user("A summary."), assistant(own), results(its)]
            case "behind a word of its user":
                agent.messages += [assistant(own), user("Go on."), results(its)]
            case "of no known call":
                agent.messages += [user("Go on."), results(result_part("id_none", "Rain."))]
            case "changed":
                agent.messages += [assistant(own), results(its)]
                exchange = agent.ask(streamed=False)
                asking = asyncio.create_task(exchange.begin())
                session = await waiting_session(agent)
                (held_call,) = session.waiting
                await agent.engine.runner.decide_result(
                    session.id, held_call.id, ResultDecision(held_call.digest, None)
                )
                await asking
                exchange.receive_head(529, WHOLE)
                await exchange.pass_on(b"{}")
                await read_rest(agent, exchange, None, ())
                agent.messages[-1] = results(result_part("id_own", "Snow."))
        exchange = agent.ask(streamed=False)
        asking = asyncio.create_task(exchange.begin())
        waits = asyncio.create_task(waiting_session(agent))
        async with asyncio.timeout(20):
            await asyncio.wait({asking, waits}, return_when=asyncio.FIRST_COMPLETED)
        for task in (asking, waits):
            task.cancel()
        outcomes = await asyncio.gather(asking, waits, return_exceptions=True)
        assert not any(outcome is None for outcome in outcomes), "It went to the provider."
