"""A session that talks to the simulator's ends without a server: codec, end, codec, fold.

Every request is written by the codec, read by the strict end of its protocol, answered with a
reply given by hand, and decoded again: so ids and signatures in the history are the end's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from playground.core.events import (
    CallDecided,
    CallEnded,
    CallStarted,
    Event,
    PartEnded,
    PromptAdded,
    RequestSent,
    ResponseFailed,
    ResponseStarted,
    RunStopped,
    SettingsChanged,
    TurnDropped,
)
from playground.core.messages import ModelRequest, model_request
from playground.core.reducer import fold
from playground.core.session import Session
from playground.core.settings import PROTOCOLS, SIMULATOR_URL, Profile, Settings
from playground.core.tools import Content, ToolChoice, ToolResult, text_result
from playground.protocols.base import WireRequest
from playground.protocols.registry import CODECS
from playground.protocols.server import IdSource, ModelReply, ParsedRequest, ProviderServer
from playground.simulator.app import ENDS
from tests.factories import Log, settings

ENDS_BY_NAME = {end.name: end for end in ENDS}

IMAGE = Content(
    "image",
    media_type="image/png",
    data="iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg==",
)
"""One transparent pixel."""


def profile(protocol: str, model: str = "simulator") -> Profile:
    """The simulator of `protocol` as a profile, with nothing of a vendor's own."""
    spoken = next(literal for literal in PROTOCOLS if literal == protocol)
    return Profile(f"sim-{protocol}", spoken, SIMULATOR_URL, model=model)


def accepted(protocol: str, sent: WireRequest) -> ParsedRequest:
    """What the strict end of `protocol` makes of a request; BadRequest where it refuses."""
    end = ENDS_BY_NAME[protocol]
    assert end.takes.fullmatch(sent.path.partition("?")[0]), sent.path
    headers = {**sent.headers, **CODECS[protocol].key_header("k", ())}
    return end.parse(sent.body, headers, sent.path)


class Talk:
    """A session under construction. `changes` are of its settings."""

    def __init__(self, protocol: str, **changes: Any) -> None:
        self.protocol = protocol
        self.settings: Settings = settings(**{"profile": profile(protocol), **changes})
        self.log = Log().start(self.settings)

    @property
    def session(self) -> Session:
        return fold("s", self.log.events)

    @property
    def end(self) -> ProviderServer:
        return ENDS_BY_NAME[self.protocol]

    def move(self, protocol: str) -> None:
        """From now on another provider is asked."""
        self.protocol = protocol
        self.settings = replace(self.settings, profile=profile(protocol))
        self.log.add(SettingsChanged(self.settings))

    def prompt(self, text: str, *images: Content) -> None:
        self.log.add(PromptAdded(text, images))

    def request(self, choice: ToolChoice | None = None) -> ModelRequest:
        return model_request(self.session, choice or ToolChoice())

    def ask(self, choice: ToolChoice | None = None) -> tuple[WireRequest, ParsedRequest]:
        """Write the next request and have it read."""
        sent = CODECS[self.protocol].encode(self.request(choice))
        return sent, accepted(self.protocol, sent)

    def answer(
        self, reply: ModelReply, *, cut: float | None = None, stopped: bool = False
    ) -> Session:
        """One turn: asked, answered with `reply`; `cut` keeps only that share of its frames."""
        sent, model_request = self.ask()
        self._send()
        frames = [
            frame.data
            for frame in self.end.frames(reply, model_request, IdSource.from_body(sent.body, 1, 1))
        ]
        stored_items = frames if cut is None else frames[: max(1, int(len(frames) * cut))]
        decoder = CODECS[self.protocol].decoder(200)
        events = [
            event for _, _, event in decoder.feed(b"".join(stored_items)) + decoder.end(cut is None)
        ]
        if stopped:
            events[-1] = ResponseFailed("stopped", "Stopped by the user.")
        self.log.add(*events)
        if stopped:
            self.stop()
        return self.session

    def fail(self) -> None:
        """A turn that was refused with an error status."""
        self._send()
        self.log.add(ResponseFailed("http", "no", status=500))

    def stop(self) -> None:
        """The person stops the run, whatever waits."""
        self.log.add(RunStopped())

    def drop(self) -> None:
        self.log.add(TurnDropped(self.session.turns[-1].number))

    def results(self, results: Sequence[str | ToolResult | None]) -> None:
        """Settle the calls of the last turn: a text, a whole result, or None for a denial."""
        calls = self.session.turns[-1].calls
        assert len(calls) == len(results)
        for call, result in zip(calls, results, strict=True):
            self.log.check(call.id)
            match result:
                case None:
                    self.log.add(CallDecided(call.id, "deny", text="No."))
                    denied = text_result("No.", is_error=True, kind="denied")
                    self.log.add(CallEnded(call.id, denied))
                case str():
                    self.log.run(call.id, result)
                case ToolResult():
                    self.log.add(CallDecided(call.id, "run"), CallStarted(call.id, 1))
                    self.log.add(CallEnded(call.id, result))

    def _send(self) -> None:
        sent = RequestSent(
            len(self.session.turns) + 1,
            protocol=self.protocol,
            method="POST",
            url="sim:",
            headers={},
            body="{}",
        )
        self.log.add(sent, ResponseStarted(200, {}))


def ended_parts(events: Sequence[Event]) -> list[PartEnded]:
    return [event for event in events if isinstance(event, PartEnded)]
