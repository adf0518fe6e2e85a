"""The simulator as an ASGI application: one base URL for each protocol's server.

Mounted inside a server or served alone. The only state it keeps of a request is the number of times
it came, for faults that stop after a few times, and what a protocol stores for a key.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import anyio
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from playground.core.errors import BadInput
from playground.core.messages import Message, ModelRequest
from playground.net.isolation import isolate_headers
from playground.net.threads import run_in_daemon
from playground.protocols import registry
from playground.protocols.server import (
    CUT,
    BadRequest,
    IdSource,
    ModelReply,
    OutgoingFrame,
    ProviderServer,
)
from playground.simulator import CODING_AGENT, recorded
from playground.simulator.fault_transport import Canned, RawResponse, has_socket, split_frames
from playground.simulator.faults import (
    FAULTS,
    Injected,
    parse_fault,
    prompt_fault,
    scope_error,
    strip_fault,
)
from playground.simulator.local_servers import LOCAL_ENDS
from playground.simulator.model import reply as model_reply
from playground.simulator.scenario import CodingAgent, Script

ENDS: tuple[ProviderServer, ...] = tuple(registry.ENDS.values())
_ALL_ENDS = (*ENDS, *LOCAL_ENDS)

_JSON = "application/json"
_ISOLATING = {name.decode(): value.decode() for name, value in isolate_headers(())}
_MOST_KEYS = 16
"""The most keys for which something is stored."""
_LARGE_BODY = 64 * 1024
"""Bytes of a request that is parsed outside the event loop."""
_NO_WEBSOCKET = BadRequest(
    "There are no WebSockets here. Send the request over HTTP, to the same address.", 426
)
_NO_SOCKET = (
    "This fault writes to the socket directly, which this server does not allow. Use playground "
    "simulate or playground serve."
)

Sleep = Callable[[float], Awaitable[None]]

_MOST = 16_384
"""Bytes that are sent together if there is no pause between them."""


def simulator_app(
    *,
    pace: float = 1.0,
    scenario: Script | None = None,
    seed: int = 0,
    key: Callable[[str], bool] | None = None,
    sleep: Sleep = anyio.sleep,
    clock: Callable[[], float] = time.time,
    tapes: recorded.SessionLookup | None = None,
) -> ASGIApp:
    """The protocol servers, each under its base path.

    `pace` 1 is human reading speed, 0 no pause; the header `x-playground-pace` overrides it per
    request. `key` says whether a key is right (None: any non-empty one). `sleep` takes seconds,
    `clock` returns Unix seconds. `tapes` are the recordings that can be played as models.
    """
    desk = _SharedState(
        SimulatorPace(pace), scenario=scenario, seed=seed, key=key, sleep=sleep, clock=clock
    )
    routes = [Route("/", _overview)]
    for base in dict.fromkeys(end.base for end in _ALL_ENDS):
        ends = tuple(end for end in _ALL_ENDS if end.base == base)
        routes.append(Route(f"{base}/{{rest:path}}", _Endpoint(ends, desk)))
    if tapes is not None:
        routes.append(Route("/recorded/{session}/{rest:path}", _Recording(tapes, desk)))
    return Starlette(routes=routes)


async def _overview(request: Request) -> Response:
    """An overview, for a user who opens the address."""
    bases = "\n".join(f"  {end.base:<12} {end.name}" for end in _ALL_ENDS)
    faults = "\n".join(f"  {fault.name:<22} {fault.about}" for fault in FAULTS)
    return PlainTextResponse(
        f"This is the simulator. Base URLs:\n\n{bases}\n\n"
        f"Faults, as [[fault:NAME]] in a prompt or the header x-playground-fault:\n\n{faults}\n"
    )


def _script_of(model: str) -> Script | None:
    """The script of a model name that denotes a scenario."""
    return CodingAgent() if model == CODING_AGENT else None


@dataclass
class _SharedState:
    """The shared state of one application's endpoints. `came` counts requests by fault and body;
    `stores` are the ends that store something, by name and key, the last used one last."""

    pace: SimulatorPace
    scenario: Script | None
    seed: int
    key: Callable[[str], bool] | None
    sleep: Sleep
    clock: Callable[[], float]
    requests: int = 0
    came: Counter[str] = field(default_factory=Counter)
    stores: OrderedDict[tuple[str, str], ProviderServer] = field(default_factory=OrderedDict)

    def end_for(self, end: ProviderServer, key: str) -> ProviderServer:
        """The end that serves this key."""
        if end.for_key is None:
            return end
        mine = self.stores.pop((end.name, key), None) or end.for_key()
        self.stores[end.name, key] = mine
        if len(self.stores) > _MOST_KEYS:
            self.stores.popitem(last=False)
        return mine


@dataclass(frozen=True)
class _Endpoint:
    """The servers of one base path as an ASGI application; the rest of the path selects one."""

    ends: tuple[ProviderServer, ...]
    desk: _SharedState

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        path = "/" + request.path_params["rest"]
        known = (end for end in self.ends if end.takes.fullmatch(path) or end.side_endpoints(path))
        exchange = _Exchange.of(next(known, self.ends[0]), request, self.desk)
        await exchange.play(exchange.respond, send)


@dataclass(frozen=True)
class _Recording:
    """Recorded sessions as models, at their own pace whatever that of the simulator is."""

    tapes: recorded.SessionLookup
    desk: _SharedState

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        tape = await self.tapes(request.path_params["session"])
        ends = (end for end in ENDS if tape is not None and end.name == tape.protocol)
        exchange = _Exchange.of(next(ends, ENDS[0]), request, self.desk)
        await exchange.play(lambda: exchange.replay(tape), send)


@dataclass(frozen=True)
class _Exchange:
    """A request to `end` and the response to it."""

    end: ProviderServer
    request: Request
    desk: _SharedState
    id: str

    @classmethod
    def of(cls, end: ProviderServer, request: Request, desk: _SharedState) -> _Exchange:
        desk.requests += 1
        return cls(
            end, request, desk, IdSource.from_body(b"", desk.seed, 0).id("req_", desk.requests)
        )

    async def play(self, respond: Callable[[], Awaitable[SimulatorResponse]], send: Send) -> None:
        scope, receive = self.request.scope, self.request.receive
        try:
            response = await respond()
        except BadInput as problem:
            response = self.error_response(problem)
        except ClientDisconnect:
            return
        if isinstance(response, RawResponse) and not has_socket(scope):
            response = self.error_response(BadInput(_NO_SOCKET))
        await response(scope, receive, send)

    def error_response(self, problem: BadInput) -> FrameResponse:
        """The provider's own error, with the source of this refusal, if known."""
        if not isinstance(problem, BadRequest):
            kind, code = self.end.kinds[400]
            problem = BadRequest(str(problem), kind=kind, code=code)
        headers = {"content-type": _JSON}
        if problem.status == 426:
            headers["upgrade"] = "HTTP/1.1"
        if problem.source:
            marked = "inferred: " if problem.inferred else ""
            headers["x-simulator-source"] = f"{marked}{problem.source}"
        return self.canned_response(
            Canned(problem.status, self.end.error(problem, self.id), headers)
        )

    def canned_response(self, canned: Canned) -> FrameResponse:
        length = {"content-length": str(len(canned.body))} if canned.status != 204 else {}
        headers = {**self.end.headers(self.id), **length, **canned.headers}
        frames = [OutgoingFrame(canned.body, tag="body")] if canned.body else []
        return FrameResponse(canned.status, headers, frames, SimulatorPace(0), self.desk.sleep)

    def check_key(self) -> str:
        """The key of the request; BadRequest if it is wrong."""
        end, right = self.end, self.desk.key
        given = end.key(self.request.headers) or self.request.query_params.get(end.key_param, "")
        if not given and (end.no_key is not None or right is not None):
            raise end.no_key or end.bad_key("")
        if right is not None and not right(given):
            raise end.bad_key(given)
        return given

    async def respond(self) -> SimulatorResponse:
        end, request, headers = self.end, self.request, self.request.headers
        if headers.get("upgrade", "").lower() == "websocket":
            raise _NO_WEBSOCKET
        key = self.check_key()
        end = self.desk.end_for(end, key)
        path, now = "/" + request.path_params["rest"], int(self.desk.clock())
        target = path + (f"?{request.url.query}" if request.url.query else "")
        takes, other = end.takes.fullmatch(path) is not None, end.side_endpoints(path)
        if request.method == "GET" and path == end.models_path:
            return self.canned_response(Canned(200, end.models(now)))
        if request.method == "POST" and takes:
            exchange = replace(self, end=end)
            return await exchange.answer(await request.body(), target, key)
        for route in other:
            if route.method == request.method:
                at = target if route.with_query else path
                body = route.answer(await request.body(), headers, at, now)
                return self.canned_response(Canned(200, body))
        if takes or other or path == end.models_path:
            sentence = f"Method {request.method} is not allowed here."
            raise BadRequest(sentence, 405, kind=end.kinds[400][0])
        kind, code = end.kinds[404]
        raise BadRequest(
            f"There is no {path} here. Use POST {end.base}{end.path}, or GET "
            f"{end.base}{end.models_path}.",
            404,
            kind=kind,
            code="unknown_url" if code else None,
        )

    async def answer(self, body: bytes, target: str, key: str) -> SimulatorResponse:
        """The answer to a request for messages, with the faults that it or the script names."""
        end, headers = self.end, self.request.headers
        if len(body) > _LARGE_BODY:
            asked = await run_in_daemon(end.parse, body, headers, target)
        else:
            asked = end.parse(body, headers, target)
        pace = pace_of(headers, self.desk.pace)
        faults = faults_of(asked.request, headers)
        turn = None
        for script in (self.desk.scenario, _script_of(asked.request.model)):
            if script is not None and turn is None:
                turn = script.turn(asked.request)
        if turn is None:
            # The model must not see the name of a fault.
            messages = tuple(_strip_fault(message) for message in asked.request.messages)
            plain = replace(asked.request, messages=messages)
            # Values for the schemas of its tools may take a while.
            reply = await run_in_daemon(model_reply, plain)
        else:
            reply, pace, faults = turn.reply, pace.times(turn.pace), (*turn.faults, *faults)
        for injected in faults:
            if sentence := scope_error(injected.fault, end):
                raise BadRequest(sentence, kind=end.kinds[400][0])
            if injected.fault.answer is not None and not self._is_used_up(injected, body):
                return self.canned_response(injected.fault.answer(end, injected.number, key))
            reply = _change_reply(
                reply, asked.request, injected, in_words="x-playground-fault" in headers
            )
        ids = IdSource.from_body(body + asked.salt.encode(), self.desk.seed, int(self.desk.clock()))
        if end.keep is not None:
            end.keep(reply, asked, ids)
        stream = asked.request.stream and not any(fault.fault.unstreamed for fault in faults)
        frames: Iterable[OutgoingFrame] = end.frames(reply, asked, ids)
        if not stream:
            # A client without streaming waits as long as for a stream, but at most two seconds.
            wait = min(2.0, sum(frame.pause for frame in frames))
            frames = [OutgoingFrame(end.whole(reply, asked, ids), wait, "body")]
        frames = _apply_faults(frames, faults, end, stream)
        kind = (asked.stream_type or end.stream_type) if stream else _JSON
        response_headers = _headers({"content-type": kind, **end.headers(self.id)}, faults)
        for fault in faults:
            if fault.fault.raw is not None:
                response_headers |= _ISOLATING  # nothing else adds them on the socket itself
                return RawResponse(fault.fault.raw(response_headers, list(frames), fault.number))
        return FrameResponse(200, response_headers, frames, pace, self.desk.sleep)

    def _is_used_up(self, injected: Injected, body: bytes) -> bool:
        """Whether a fault was played often enough for this request."""
        if not injected.fault.then_ok:
            return False
        mark = IdSource.from_body(body, injected.number, 0).id(injected.fault.name)
        self.desk.came[mark] += 1
        return self.desk.came[mark] > injected.number

    async def replay(self, tape: recorded.RecordedSession | None) -> SimulatorResponse:
        if tape is None:
            raise BadRequest(recorded.GONE)
        self.check_key()
        body, headers = await self.request.body(), self.request.headers
        again = headers.get(recorded.AGAIN, "0")
        times = int(again) if again.isascii() and again.isdigit() and len(again) < 6 else 0
        match = recorded.find_exchange(tape, body.decode("utf-8", "replace"), times)
        take = match.take
        if take.status is None:
            return RawResponse([CUT])
        frames = recorded.frames(take)
        pace = pace_of(headers, SimulatorPace(1.0))
        return FrameResponse(take.status, recorded.headers(match), frames, pace, self.desk.sleep)


def _strip_fault(message: Message) -> Message:
    if message.role != "user":
        return message
    return replace(
        message,
        parts=tuple(
            replace(part, text=strip_fault(part.text)) if part.kind == "text" else part
            for part in message.parts
        ),
    )


def pace_of(headers: Mapping[str, str], usual: SimulatorPace) -> SimulatorPace:
    """The pace that a request specifies, or else the `usual` one."""
    wanted = headers.get("x-playground-pace")
    if wanted is None:
        return usual
    try:
        factor = float(wanted)
    except ValueError:
        factor = -1.0
    if not 0 <= factor <= 1000:
        raise BadRequest("x-playground-pace must be a number from 0 (no pause) to 1000.")
    return SimulatorPace(factor)


def faults_of(request: ModelRequest, headers: Mapping[str, str]) -> tuple[Injected, ...]:
    """The fault that the header names, else the one in the last prompt."""
    if header := headers.get("x-playground-fault"):
        return (parse_fault(header),)
    prompts = [message for message in request.messages if message.role == "user"]
    texts = [part.text for part in prompts[-1].parts if part.kind == "text"] if prompts else []
    # A prompt whose answer failed is repeated with the next one, before it in the same message.
    named = prompt_fault(texts[-1].rpartition("\n\n")[2]) if texts else None
    return (named,) if named else ()


def _change_reply(
    answer: ModelReply, request: ModelRequest, injected: Injected, *, in_words: bool
) -> ModelReply:
    """The reply with a fault: once after a prompt, unless it is permanent or was named `in_words`
    for this request."""
    fault = injected.fault
    once = not fault.always and not in_words
    if fault.change is None or (once and request.messages[-1].role == "results"):
        return answer
    return fault.change(answer, request, injected.number)


def _headers(headers: Mapping[str, str], faults: Sequence[Injected]) -> dict[str, str]:
    """`headers` as changed by the faults."""
    wanted: dict[str, str | None] = dict(headers)
    for injected in faults:
        wanted.update(injected.fault.headers)
    return {name: value for name, value in wanted.items() if value is not None}


def _apply_faults(
    frames: Iterable[OutgoingFrame], faults: Sequence[Injected], end: ProviderServer, stream: bool
) -> Iterable[OutgoingFrame]:
    """The answer's frames under `faults`. BadRequest if one of them needs a stream."""
    twisted = [injected for injected in faults if injected.fault.twist is not None]
    if sum(injected.fault.endless for injected in twisted) > 1:
        raise BadRequest("Two endless faults cannot be played in one answer. Name one.")
    # Endless faults come last; faults that parse JSON come before those that cut its bytes.
    twisted.sort(key=lambda injected: (injected.fault.endless, not injected.fault.whole_frames))
    pieces = stream
    for injected in twisted:
        if not stream and not injected.fault.any_body:
            name = injected.fault.name
            raise BadRequest(f"The fault {name} needs a stream. Ask for one: set stream to true.")
        if not pieces and not injected.fault.whole_frames:
            pieces, frames = True, split_frames(frames)
        assert injected.fault.twist is not None
        frames = injected.fault.twist(list(frames), end, injected.number)
    return frames


# -- playing an answer over ASGI, frame by frame at a pace


@dataclass(frozen=True)
class SimulatorPace:
    """The speed of the simulator: 1 is human reading speed, 0 no pause."""

    factor: float = 1.0

    def pause(self, seconds: float) -> float:
        return seconds * self.factor

    def times(self, factor: float) -> SimulatorPace:
        return SimulatorPace(self.factor * factor)


@dataclass(frozen=True)
class FrameResponse:
    """An ASGI response: status, headers, then the frames. `sleep` takes seconds."""

    status: int
    headers: Mapping[str, str]
    frames: Iterable[OutgoingFrame]
    pace: SimulatorPace
    sleep: Sleep = anyio.sleep

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Plays until the end, or until the client disconnects."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._wait_for_disconnect, receive, group.cancel_scope)
            await self._play(send)
            group.cancel_scope.cancel()

    async def _wait_for_disconnect(self, receive: Receive, scope: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async def _play(self, send: Send) -> None:
        started = False
        for pause, data, tag in self._sends():
            if pause > 0:
                await self.sleep(pause)
            if not started:
                await send(self._start())
                started = True
            match tag:
                case "cut" | "reset":
                    return
                case "stall":
                    await anyio.sleep_forever()
                case _:
                    await send({"type": "http.response.body", "body": data, "more_body": True})
                    await anyio.lowlevel.checkpoint()
        if not started:
            await send(self._start())
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _start(self) -> dict[str, object]:
        headers = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        return {
            "type": "http.response.start",
            "status": self.status,
            "headers": isolate_headers(headers),
        }

    def _sends(self) -> Iterator[tuple[float, bytes, str]]:
        """(pause before, bytes, tag) for each send: deltas without a pause are sent together."""
        held, size, wait = list[bytes](), 0, 0.0
        for frame in self.frames:
            pause = frame.pause if frame.tag == "slow" else self.pace.pause(frame.pause)
            joins = frame.tag in ("text", "args") and pause == 0 and size < _MOST
            if held and not joins:
                yield wait, b"".join(held), "held"
                held, size = [], 0
            if frame.tag not in ("text", "args"):
                yield pause, frame.data, frame.tag
                continue
            wait = wait if held else pause
            held.append(frame.data)
            size += len(frame.data)
        if held:
            yield wait, b"".join(held), "held"


SimulatorResponse = FrameResponse | RawResponse
