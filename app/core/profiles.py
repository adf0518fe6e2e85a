"""The vendors this version knows, as rows of data. Adding one is adding a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from app.core.errors import NotFound
from app.core.settings import Profile

SIMULATOR = Profile("simulator", "anthropic", "sim:", model="simulator")
SIMULATOR_OPENAI = Profile("simulator-openai", "openai_chat", "sim:", model="simulator")
ANTHROPIC = Profile(
    "anthropic",
    "anthropic",
    "https://api.anthropic.com",
    key_name="ANTHROPIC_API_KEY",
    model="claude-sonnet-5-5",
)
OPENAI = Profile(
    "openai",
    "openai_chat",
    "https://api.openai.com/v1",
    key_name="OPENAI_API_KEY",
    model="gpt-5.4-mini",
    # Reasoning models refuse max_tokens; every current model takes this one.
    quirks=("max_completion_tokens",),
)

PROFILES: tuple[Profile, ...] = (SIMULATOR, SIMULATOR_OPENAI, ANTHROPIC, OPENAI)

BASE_URL_NAMES: Mapping[str, str] = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "openai": "OPENAI_BASE_URL",
}
"""The variables by which the person moves a vendor to another address."""


def profiles(environment: Mapping[str, str]) -> tuple[Profile, ...]:
    """All profiles, moved to where the environment says."""
    return tuple(_moved(profile, environment) for profile in PROFILES)


def profile(name: str, environment: Mapping[str, str]) -> Profile:
    """The profile of that name; NotFound names those there are."""
    for one in profiles(environment):
        if one.name == name:
            return one
    known = ", ".join(one.name for one in PROFILES)
    raise NotFound(f"There is no profile {name!r}; there are {known}.")


def _moved(profile: Profile, environment: Mapping[str, str]) -> Profile:
    url = environment.get(BASE_URL_NAMES.get(profile.name, ""), "").strip()
    return replace(profile, base_url=url) if url else profile
