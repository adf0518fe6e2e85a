"""The inputs of a request. The log stores settings completely, so old sessions can be replayed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from playground.core.tools import Tool, ToolChoice

Protocol = Literal[
    "anthropic",
    "openai_chat",
    "openai_responses",
    "gemini",
    "ollama",
]
"""All protocols; each is the name of its folder in `protocols/`."""
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)

SIMULATOR_URL = "sim:"
"""The base URL of the built-in simulator; resolved to this process's own port when used."""

RECORDING_URL = "recording:"
"""Followed by a session id: the base URL of its recording, which the simulator plays."""


@dataclass(frozen=True)
class Profile:
    """A provider as a row of data.

    `key_name` names an environment variable; only `net` reads the key itself. `base_url` is the
    part before the protocol's own path (`/v1/messages`, `/chat/completions`). `quirks` name its
    server's deviations; the codec of the protocol explains them. Time limits in seconds: to
    connect, for the first byte of an answer, and for silence after it.
    """

    name: str
    protocol: Protocol
    base_url: str
    key_name: str = ""
    model: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    quirks: tuple[str, ...] = ()
    connect_s: float = 10.0
    first_byte_s: float = 60.0
    idle_s: float = 60.0

    @property
    def simulated(self) -> bool:
        return self.base_url.startswith((SIMULATOR_URL, RECORDING_URL))

    @property
    def recorded(self) -> str:
        """The id of the session whose recording answers, or ""."""
        is_one = self.base_url.startswith(RECORDING_URL)
        return self.base_url.removeprefix(RECORDING_URL) if is_one else ""


@dataclass(frozen=True)
class Limits:
    """Limits for a run and for the size of an answer. Times in seconds, sizes in bytes; for a run,
    0 means no limit.

    A run begins with a prompt, and again with Continue. `max_run_tokens` are read and written,
    `max_cost` is in US dollars, `max_minutes` counts while a model or a tool works, `max_repeats`
    is how often the same call may be made. Without `continue_on_error` a failed call pauses the
    run. `max_retries` is how often a request that failed before any output is retried
    automatically. `max_calls_per_turn` is how many calls of a turn run before a user is asked; of
    calls beyond `max_calls_per_answer` only the bytes are stored.
    """

    max_turns: int = 10
    max_calls_per_turn: int = 32
    max_parallel: int = 4
    max_run_tokens: int = 0
    max_cost: float = 0.0
    max_minutes: float = 0.0
    max_repeats: int = 10
    continue_on_error: bool = True
    max_retries: int = 2
    connect_s: float = 10.0
    first_byte_s: float = 60.0
    idle_s: float = 60.0
    wall_s: float = 1800.0
    max_event_bytes: int = 8 * 1024 * 1024
    max_stream_bytes: int = 64 * 1024 * 1024
    max_calls_per_answer: int = 256


def apply_timeouts(limits: Limits, profile: Profile) -> Limits:
    """`limits` with the times of `profile`: a local server may load its model first."""
    return replace(
        limits,
        connect_s=profile.connect_s,
        first_byte_s=profile.first_byte_s,
        idle_s=profile.idle_s,
    )


@dataclass(frozen=True)
class Settings:
    """Everything a request depends on except the history.

    `params` are protocol-independent (`temperature`, `max_tokens`, `top_p`, `stop`, `thinking`);
    `extra` is merged into the request body unchanged.
    """

    profile: Profile
    model: str = ""
    system: str = ""
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = field(default_factory=ToolChoice)
    params: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = True
    limits: Limits = field(default_factory=Limits)

    def tool(self, name: str) -> Tool | None:
        """The tool of that name, or None."""
        return next((tool for tool in self.tools if tool.name == name), None)


def model_of(settings: Settings) -> str:
    """The requested model, or the profile's default."""
    return settings.model or settings.profile.model or settings.profile.name
