"""Events in, commands out: short words for writing down a session's log in a test."""

from __future__ import annotations

from collections.abc import Iterable
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
    PartStarted,
    Problem,
    PromptAdded,
    RequestSent,
    ResponseEnded,
    ResponseFailed,
    ResponseStarted,
    SessionStarted,
)
from playground.core.providers import SIMULATOR
from playground.core.reducer import fold
from playground.core.session import Session
from playground.core.settings import Limits, Settings
from playground.core.tools import Tool, ToolChoice, text_result

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Tool("get_weather", "The weather.", SCHEMA, "mock", {"result": "sunny"})
SAFE = Tool("look", "Looks.", {"type": "object"}, "mock", {"result": "ok"}, parallel_safe=True)
PERSON = Tool("ask", "Asks a user.", {"type": "object"}, "person")


def settings(
    *tools: Tool,
    choice: ToolChoice | None = None,
    max_turns: int = 10,
    max_retries: int = 2,
    **more: Any,
) -> Settings:
    return Settings(
        SIMULATOR,
        tools=tools or (WEATHER, SAFE, PERSON),
        tool_choice=choice or ToolChoice(),
        limits=Limits(max_turns=max_turns, max_retries=max_retries),
        **more,
    )


def number_events(*events: Event) -> list[Logged]:
    """Events with seq 1, 2, ... and a ms between them."""
    return [Logged(seq, 1_000 + seq, event) for seq, event in enumerate(events, 1)]


def session(*events: Event) -> Session:
    return fold("s", number_events(*events))


def start_events(*tools: Tool, **more: Any) -> list[Event]:
    """A session with one prompt."""
    return [SessionStarted(settings(*tools, **more)), PromptAdded("hello")]


def request_sent(number: int, choice: ToolChoice | None = None) -> Event:
    return RequestSent(
        number,
        protocol="anthropic",
        method="POST",
        url="http://x/v1/messages",
        headers={},
        body="{}",
        model="m",
        choice=choice or ToolChoice(),
    )


def opened(number: int) -> list[Event]:
    return [request_sent(number), ResponseStarted(200, {})]


def part(index: int, kind: Any = "text", text: str = "hi", **more: Any) -> list[Event]:
    return [
        PartStarted(index, kind, more.get("name", ""), more.get("provider_id", "")),
        PartDelta(index, text),
        PartEnded(index, text, **more),
    ]


def call(
    index: int,
    name: str = "get_weather",
    arguments: str = '{"city":"Paris"}',
    provider_id: str | None = None,
) -> list[Event]:
    id_ = f"toolu_{index}" if provider_id is None else provider_id
    return part(index, "call", arguments, name=name, provider_id=id_)


def turn(
    number: int, *parts: Iterable[Event], reason: Any = "calls", abrupt: bool = False
) -> list[Event]:
    """A whole turn; without parts it says hi and ends."""
    inner = [event for part in parts for event in part] or part(0)
    ended = ResponseEnded(reason if parts else "stop", abrupt=abrupt)
    return [*opened(number), *inner, ended]


def failed(number: int, *parts: Iterable[Event], failure: Any = "interrupted") -> list[Event]:
    inner = [event for part in parts for event in part]
    return [*opened(number), *inner, ResponseFailed(failure, "It stopped.")]


def call_checked(call_id: str, *problems: Problem, parallel_safe: bool = False) -> Event:
    return CallChecked(call_id, problems, parallel_safe, "digest")


def run(call_id: str, **more: Any) -> Event:
    return CallDecided(call_id, "run", digest="digest", **more)


def run_call(call_id: str, text: str = "ok") -> list[Event]:
    return [CallStarted(call_id, 1), CallEnded(call_id, text_result(text))]
