"""Small logs and sessions for every test: say what matters, the rest has a default.

A log is a list of Logged; `Log` numbers and times the events.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from playground.core.events import (
    CallChecked,
    CallDecided,
    CallEnded,
    CallStarted,
    Event,
    Logged,
    PartDelta,
    PartEnded,
    PartKind,
    PartStarted,
    Problem,
    PromptAdded,
    RequestSent,
    ResponseEnded,
    ResponseStarted,
    SessionStarted,
    Source,
    Usage,
)
from playground.core.reducer import fold
from playground.core.session import Session
from playground.core.settings import Profile, Settings
from playground.core.tools import Tool, text_result

START_MS = 1_790_000_000_000
SIMULATOR = Profile("simulator", "anthropic", "sim:", model="sim-1")
WEATHER = Tool(
    "get_weather",
    "The forecast of a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    config={"result": '{"sky": "clear", "high": 11}'},
    parallel_safe=True,
)
ADD_EVENT = Tool(
    "add_event",
    "Put one event into the calendar.",
    {
        "type": "object",
        "properties": {"title": {"type": "string"}, "minutes": {"type": "integer", "minimum": 5}},
        "required": ["title"],
    },
    answered_by="python",
    config={"file": "tools.py", "function": "add_event"},
)
ASK_ME = Tool("ask_me", "Asks the user.", answered_by="person")
DIGEST = "d" * 64


def settings(*tools: Tool, **changes: Any) -> Settings:
    """Settings on the simulator with the three tools above, unless others are named."""
    base = Settings(SIMULATOR, tools=tools or (WEATHER, ADD_EVENT, ASK_ME))
    return replace(base, **changes)


@dataclass
class Log:
    """A log that grows: `add` numbers and times; `step_ms` lies between two events."""

    events: list[Logged] = field(default_factory=list)
    now_ms: int = START_MS
    step_ms: int = 10
    turns: int = 0
    sent_bytes: int = 0

    def add(self, *events: Event) -> Log:
        for event in events:
            self.now_ms += self.step_ms
            self.events.append(Logged(len(self.events) + 1, self.now_ms, event, self._at(event)))
        return self

    def start(self, with_settings: Settings | None = None) -> Log:
        return self.add(SessionStarted(with_settings or settings()))

    def prompt(self, text: str = "What is the weather in Paris?") -> Log:
        return self.add(PromptAdded(text))

    def request(self, **changes: Any) -> Log:
        self.turns += 1
        self.sent_bytes = 0
        sent = RequestSent(
            self.turns,
            protocol="anthropic",
            method="POST",
            url="http://127.0.0.1/v1/messages",
            headers={"content-type": "application/json"},
            body="{}",
            model="sim-1",
        )
        return self.add(replace(sent, **changes), ResponseStarted(200, {}))

    def part(
        self,
        index: int,
        kind: PartKind,
        *pieces: str,
        name: str = "",
        provider_id: str = "",
        complete: bool = True,
    ) -> Log:
        self.add(PartStarted(index, kind, name, provider_id))
        self.add(*(PartDelta(index, piece) for piece in pieces))
        return self.add(PartEnded(index, "".join(pieces), name, provider_id, complete=complete))

    def call(self, index: int, name: str, arguments: Any, **changes: Any) -> Log:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        middle = len(text) // 2
        provider_id = changes.pop("provider_id", f"toolu_{self.turns:02}{index}")
        return self.part(
            index, "call", text[:middle], text[middle:], name=name, provider_id=provider_id
        )

    def end(self, reason: Any = "calls") -> Log:
        return self.add(ResponseEnded(reason, usage=Usage(412, 96)))

    def check(self, call_id: str, *problems: Problem, digest: str = DIGEST) -> Log:
        return self.add(CallChecked(call_id, problems, digest=digest))

    def run(self, call_id: str, result: str = "11 degrees", **changes: Any) -> Log:
        decided = replace(CallDecided(call_id, "run", digest=DIGEST), **changes)
        self.add(decided, CallStarted(call_id, 1))
        return self.add(CallEnded(call_id, text_result(result)))

    def session(self, session_id: str = "s1") -> Session:
        return fold(session_id, self.events)

    def _at(self, event: Event) -> Source | None:
        if not isinstance(event, PartStarted | PartDelta | PartEnded):
            return None
        start = self.sent_bytes
        self.sent_bytes += 40
        return Source(self.turns, start, self.sent_bytes)


def session(log: Sequence[Logged] | None = None) -> Session:
    """The fold of `log`, or a session that has only begun."""
    return fold("s1", Log().start().events if log is None else log)


def turn_with_calls(*calls: tuple[str, Any], checked: bool = True) -> Log:
    """A log up to a turn that ended with `calls` (name, arguments), waiting for a user."""
    log = Log().start().prompt().request().part(0, "text", "I'll look.")
    for place, (name, arguments) in enumerate(calls, 1):
        log.call(place, name, arguments)
    log.end()
    if checked:
        for place in range(1, len(calls) + 1):
            log.check(f"{log.turns}.{place}")
    return log
