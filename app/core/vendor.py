"""What a vendor is: a profile, and what a person wants to know about it. The rows are in `vendors`
and `compatible`.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.core.settings import SIMULATOR_URL, Profile

LOCAL_S = 300.0
"""A local server may load its model before its first byte, and think long between two."""


TEXT_RESULTS = ("text_only_results",)
"""Chat Completions as OpenAI wrote it has no images in tool messages; none is known to take them.
"""


@dataclass(frozen=True)
class Hint:
    """Something worth knowing before a request is made, and where that is known from."""

    fact: str
    source: str


@dataclass(frozen=True)
class Vendor:
    """A profile with what a person wants to know about it.

    `key_place` is where to get a key, `start` how a `local` server is started. Both are texts.
    """

    profile: Profile
    title: str
    about: str
    key_place: str = ""
    local: bool = False
    start: str = ""
    hints: tuple[Hint, ...] = ()


def simulated(name: str, protocol: str, title: str) -> Vendor:
    return Vendor(
        Profile(name, protocol, SIMULATOR_URL, model="simulator"),  # type: ignore[arg-type]
        f"Simulator, {title}",
        "Built in: answers at once, calls tools by the words of a prompt, plays faults.",
    )


def on_this_machine(
    name: str,
    title: str,
    about: str,
    url: str,
    start: str,
    *hints: Hint,
    key_name: str = "",
    key_place: str = "",
    model: str = "",
) -> Vendor:
    """A server on this machine that speaks Chat Completions."""
    profile = Profile(
        name,
        "openai_chat",
        url,
        key_name,
        model,
        quirks=TEXT_RESULTS,
        first_byte_s=LOCAL_S,
        idle_s=LOCAL_S,
    )
    return Vendor(profile, title, about, key_place, True, start, hints)


def compatible(
    name: str,
    title: str,
    about: str,
    url: str,
    key_name: str,
    key_place: str,
    *hints: Hint,
    model: str = "",
    quirks: str = "",
) -> Vendor:
    """A service out there that speaks Chat Completions."""
    named = (*quirks.split(), *TEXT_RESULTS)
    profile = Profile(name, "openai_chat", url, key_name, model, quirks=named)
    return Vendor(profile, title, about, key_place, hints=hints)
