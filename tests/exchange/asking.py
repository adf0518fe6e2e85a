"""Sessions for the exports: spoken with the simulator's own ends, over any protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from playground.core.events import RequestSent, ResponseStarted
from playground.core.reducer import fold
from playground.core.session import Session
from playground.core.settings import Profile
from playground.core.tools import ToolChoice
from playground.exchange.bundle import RecordedChunk, Recording, SessionBundle
from playground.protocols.base import join_url
from playground.protocols.registry import CODECS
from playground.protocols.server import IdSource
from playground.simulator.model import reply
from tests.simulator.talking import Talk

PATHS = {
    "anthropic": "/anthropic",
    "openai_chat": "/openai/v1",
    "openai_responses": "/openai/v1",
    "gemini": "/gemini",
    "ollama": "/ollama",
}
PROTOCOLS = tuple(PATHS)


def simulated(protocol: str, **changes: Any) -> Profile:
    return Profile(f"simulator-{protocol}", protocol, "sim:", model="simulator", **changes)  # type: ignore[arg-type]


class Kind(Talk):
    """A talk whose requests stand in the log as they were sent, with the bytes that came back."""

    def __init__(self, protocol: str, **changes: Any) -> None:
        super().__init__(protocol, **{"profile": simulated(protocol), **changes})
        self.recordings: dict[int, Recording] = {}
        self.bodies: list[Mapping[str, Any]] = []

    def turn(self, choice: ToolChoice | None = None) -> Session:
        """One request and what the simulator's model says to it."""
        sent, model_request = self.ask(choice)
        number = len(self.session.turns) + 1
        profile = self.settings.profile
        key_header = CODECS[self.protocol].key_header("$PLAYGROUND_TOKEN", profile.quirks)
        url = join_url("http://127.0.0.1:1234/sim" + PATHS[self.protocol], sent.path)
        body = sent.body.decode()
        self.bodies.append(json.loads(body))
        headers = {**sent.headers, **profile.headers, **key_header}
        request = RequestSent(
            number,
            protocol=self.protocol,
            method="POST",
            url=url,
            headers=headers,
            body=body,
            model="simulator",
        )
        self.log.turns = number
        self.log.add(request, ResponseStarted(200, {"content-type": "text/event-stream"}))
        stamp = IdSource.from_body(sent.body, 1, 1)
        answer = reply(model_request.request)
        frames = (
            [frame.data for frame in self.end.frames(answer, model_request, stamp)]
            if model_request.request.stream
            else [self.end.whole(answer, model_request, stamp)]
        )
        decoder, pieces = CODECS[self.protocol].decoder(200), []
        for frame in frames:
            pieces.append(RecordedChunk(self.log.now_ms + 1, frame))
            self.log.add(*(event for _, _, event in decoder.feed(frame)))
        self.log.add(*(event for _, _, event in decoder.end(True)))
        self.recordings[number] = Recording(number, pieces, True)
        return self.session

    def bundle(self, title: str = "Paris") -> SessionBundle:
        events = self.log.events
        return SessionBundle(
            fold("s1", events),
            title=title,
            log=events,
            recordings=self.recordings,
            tags=(),
            parent="",
            created_ms=0,
        )


def weather(protocol: str, **changes: Any) -> Kind:
    """Asked for the weather: a call, its result, an answer."""
    kind = Kind(protocol, **changes)
    kind.prompt("What is the weather in Paris? It's 'cold', \"I\" hear: $HOME `id` \\ é 漢")
    kind.turn()
    kind.results(["11 degrees" for _ in kind.session.turns[-1].calls])
    kind.turn()
    return kind
