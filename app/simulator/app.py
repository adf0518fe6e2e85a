"""The simulator as an ASGI application: one base URL for each protocol's server end.

Mounted inside a server or served alone. It keeps nothing of a request but how often it came, for
the faults that give way after a few times.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import anyio
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from app.core.errors import BadInput
from app.core.messages import Message, ModelRequest
from app.simulator import anthropic, openai_chat
from app.simulator.end import Asked, BadRequest, End, Frame, Stamp
from app.simulator.fault_answers import Canned
from app.simulator.fault_streams import in_pieces
from app.simulator.faults import FAULTS, Injected, by_name, in_prompt, without_fault
from app.simulator.model import reply as model_reply
from app.simulator.play import Played, SimulatorPace, Sleep
from app.simulator.reply import Reply
from app.simulator.scenario import Scenario

ENDS: tuple[End, ...] = (anthropic.END, openai_chat.END)

_SSE = "text/event-stream; charset=utf-8"
_JSON = "application/json"


def simulator_app(
    *,
    pace: float = 1.0,
    scenario: Scenario | None = None,
    seed: int = 0,
    key: Callable[[str], bool] | None = None,
    sleep: Sleep = anyio.sleep,
    clock: Callable[[], float] = time.time,
) -> ASGIApp:
    """The server ends under `/anthropic` and `/openai/v1`.

    `pace` 1 is a person's reading pace, 0 no pause; a request may say otherwise by the header
    `x-playground-pace`. `key` says whether a key is right (None: any that is not empty). `sleep`
    takes seconds, `clock` gives Unix seconds.
    """
    desk = _Desk(SimulatorPace(pace), scenario, seed, key, sleep, clock)
    routes = [Route("/", _front)]
    routes += [Route(f"{end.base}/{{rest:path}}", _Endpoint(end, desk)) for end in ENDS]
    return Starlette(routes=routes)


async def _front(request: Request) -> Response:
    """What is here, for a person who opens the address."""
    bases = "\n".join(f"  {end.base:<12} {end.name}" for end in ENDS)
    faults = "\n".join(f"  {fault.name:<22} {fault.about}" for fault in FAULTS)
    return PlainTextResponse(
        f"This is the simulator. Base URLs:\n\n{bases}\n\n"
        f"Faults, as [[fault:NAME]] in a prompt or the header x-playground-fault:\n\n{faults}\n"
    )


@dataclass
class _Desk:
    """What all endpoints of one application share. `came` counts requests by fault and body."""

    pace: SimulatorPace
    scenario: Scenario | None
    seed: int
    key: Callable[[str], bool] | None
    sleep: Sleep
    clock: Callable[[], float]
    requests: int = 0
    came: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class _Endpoint:
    """One protocol's server end as an ASGI application below its base."""

    end: End
    desk: _Desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        self.desk.requests += 1
        request_id = Stamp.of(b"", self.desk.seed, 0).id("req_", self.desk.requests)
        try:
            response = await self._response(request, request_id)
        except BadRequest as problem:
            canned = Canned(problem.status, self.end.error(problem, request_id))
            response = self._canned(canned, request_id)
        except BadInput as problem:
            body = self.end.error(BadRequest(str(problem)), request_id)
            response = self._canned(Canned(400, body), request_id)
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    async def _response(self, request: Request, request_id: str) -> Played:
        end, headers = self.end, request.headers
        given = end.key(headers)
        if not given:
            raise end.no_key
        if self.desk.key is not None and not self.desk.key(given):
            raise end.bad_key(given)
        path = "/" + request.path_params["rest"]
        match request.method, path:
            case "GET", end.models_path:
                return self._canned(Canned(200, end.models(int(self.desk.clock()))), request_id)
            case "POST", end.path:
                return self._answer(await request.body(), headers, given, request_id)
            case method, (end.path | end.models_path):
                raise BadRequest(f"Method {method} is not allowed here.", 405)
            case _:
                raise BadRequest(
                    f"There is no {path} here: POST {end.base}{end.path}, "
                    f"or GET {end.base}{end.models_path}.",
                    404,
                    kind="not_found_error" if end.name == "anthropic" else "invalid_request_error",
                    code="unknown_url",
                )

    def _answer(self, body: bytes, headers: Mapping[str, str], key: str, request_id: str) -> Played:
        asked = self.end.parse(body, headers)
        pace = self._pace(headers)
        faults = _faults(asked.request, headers)
        if self.desk.scenario is None:
            answer = self._model(asked.request)
        else:
            turn = self.desk.scenario.turn(asked.request)
            answer, pace, faults = turn.reply, pace.times(turn.pace), (*turn.faults, *faults)
        for injected in faults:
            canned = self._canned_by(injected, key, body)
            if canned is not None:
                return self._canned(canned, request_id)
            answer = _changed(answer, asked.request, injected, told="x-playground-fault" in headers)
        stamp = Stamp.of(body, self.desk.seed, int(self.desk.clock()))
        stream = asked.request.stream and not any(one.fault.unstreamed for one in faults)
        frames = self._frames(answer, asked, stamp, stream)
        frames = _twisted(frames, faults, self.end, stream)
        kinds = (one.fault.content_type for one in faults if one.fault.content_type)
        kind = next(kinds, _SSE if stream else _JSON)
        told = {"content-type": kind, **self.end.headers(request_id)}
        return Played(200, told, frames, pace, self.desk.sleep)

    def _model(self, request: ModelRequest) -> Reply:
        """The model's reply; it does not get to read the name of a fault."""
        today = datetime.fromtimestamp(self.desk.clock(), UTC).date()
        messages = tuple(_plain(message) for message in request.messages)
        return model_reply(replace(request, messages=messages), seed=self.desk.seed, today=today)

    def _frames(self, answer: Reply, asked: Asked, stamp: Stamp, stream: bool) -> Iterable[Frame]:
        if stream:
            return self.end.frames(answer, asked, stamp)
        # Who waits for the whole waits as long as for a stream, but not longer than two seconds.
        wait = sum(frame.pause for frame in self.end.frames(answer, asked, stamp))
        return [Frame(self.end.whole(answer, asked, stamp), min(wait, 2.0), "body")]

    def _pace(self, headers: Mapping[str, str]) -> SimulatorPace:
        told = headers.get("x-playground-pace")
        if told is None:
            return self.desk.pace
        try:
            factor = float(told)
        except ValueError:
            factor = -1.0
        if not 0 <= factor <= 1000:
            raise BadRequest("x-playground-pace: send a number from 0 (no pause) to 1000.")
        return SimulatorPace(factor)

    def _canned_by(self, injected: Injected, key: str, body: bytes) -> Canned | None:
        """The answer of a fault that replaces all; None where it has given way."""
        fault, number = injected.fault, injected.number
        if fault.answer is None:
            return None
        if fault.then_ok:
            mark = Stamp.of(body, number, 0).id(fault.name)
            self.desk.came[mark] += 1
            if self.desk.came[mark] > number:
                return None
        return fault.answer(self.end, number, key)

    def _canned(self, canned: Canned, request_id: str) -> Played:
        length = {"content-length": str(len(canned.body))} if canned.status != 204 else {}
        headers = {**self.end.headers(request_id), **length, **canned.headers}
        frames = [Frame(canned.body, tag="body")] if canned.body else []
        return Played(canned.status, headers, frames, SimulatorPace(0), self.desk.sleep)


def _plain(message: Message) -> Message:
    if message.role != "user":
        return message
    return replace(
        message,
        parts=tuple(
            replace(part, text=without_fault(part.text)) if part.kind == "text" else part
            for part in message.parts
        ),
    )


def _faults(request: ModelRequest, headers: Mapping[str, str]) -> tuple[Injected, ...]:
    """The fault that the header names, else the one in the last prompt."""
    if told := headers.get("x-playground-fault"):
        return (by_name(told),)
    prompts = [message for message in request.messages if message.role == "user"]
    texts: Iterable[str] = (part.text for part in prompts[-1].parts) if prompts else ()
    found = in_prompt("\n".join(texts))
    return (found,) if found else ()


def _changed(answer: Reply, request: ModelRequest, injected: Injected, *, told: bool) -> Reply:
    """What is said under a fault: once after a prompt, unless it is for always or was `told` for
    this very request.
    """
    fault = injected.fault
    once = not fault.always and not told
    if fault.change is None or (once and request.messages[-1].role == "results"):
        return answer
    return fault.change(answer, request, injected.number)


def _twisted(
    frames: Iterable[Frame], faults: Sequence[Injected], end: End, stream: bool
) -> Iterable[Frame]:
    """The answer as it travels under `faults`. BadRequest where one of them needs a stream."""
    twisted = [one for one in faults if one.fault.twist is not None]
    if twisted and not stream:
        frames = in_pieces(frames)
    for one in twisted:
        if not stream and not one.fault.any_body:
            name = one.fault.name
            raise BadRequest(f"The fault {name} needs a stream. Ask for one: set stream to true.")
        assert one.fault.twist is not None
        frames = one.fault.twist(list(frames), end, one.number)
    return frames
