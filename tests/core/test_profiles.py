"""Profiles: found by name, moved by the environment."""

from __future__ import annotations

import pytest

from app.core.errors import NotFound
from app.core.profiles import PROFILES, profile


def test_the_simulator_needs_no_key() -> None:
    for one in PROFILES:
        assert one.simulated == (not one.key_name)


def test_the_environment_moves_a_vendor_and_no_other() -> None:
    environment = {"OPENAI_BASE_URL": "http://localhost:1234/v1"}
    assert profile("openai", environment).base_url == "http://localhost:1234/v1"
    assert profile("anthropic", environment).base_url == "https://api.anthropic.com"


def test_an_unknown_name_tells_those_there_are() -> None:
    with pytest.raises(NotFound, match="simulator, simulator-openai, anthropic, openai"):
        profile("nope", {})
