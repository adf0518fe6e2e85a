"""Profiles: found by name, moved by the environment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from playground.core.errors import NotFound
from playground.core.providers import (
    OPENAI,
    PROFILES,
    add_account_headers,
    ollama_url,
    profile,
    profiles,
)

ACCOUNT = {"OPENAI_ORG_ID": "org-1", "OPENAI_PROJECT_ID": "proj-1"}


def test_the_simulator_needs_no_key() -> None:
    for known in PROFILES:
        assert not (known.simulated and known.key_name)


def test_the_environment_moves_a_vendor_and_no_other() -> None:
    environment = {"OPENAI_BASE_URL": "http://localhost:1234/v1"}
    moved = {profile.name for profile in profiles(environment)} - {
        profile.name for profile in PROFILES
    }
    assert moved == set()
    changed = [profile.name for profile in profiles(environment) if profile not in PROFILES]
    assert changed == ["openai", "openai-responses"]
    assert profile("openai", environment).base_url == "http://localhost:1234/v1"


@pytest.mark.parametrize(
    ("name", "environment", "url"),
    [
        ("ollama", {"OLLAMA_HOST": "box"}, "http://box:11434"),
        ("azure", {}, ""),
        (
            "azure",
            {"AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com/"},
            "https://mine.openai.azure.com/openai/v1",
        ),
        (
            "azure",
            {"AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com/openai/deployments/x"},
            "https://mine.openai.azure.com/openai/deployments/x",
        ),
        ("vertex", {"GOOGLE_CLOUD_LOCATION": "europe-west1"}, ""),
        ("vertex", {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "evil.example/x"}, ""),
        (
            "vertex",
            {"GOOGLE_CLOUD_PROJECT": "p"},
            "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google",
        ),
        (
            "vertex",
            {"GOOGLE_CLOUD_PROJECT": "p-1", "GOOGLE_CLOUD_LOCATION": "europe-west1"},
            "https://europe-west1-aiplatform.googleapis.com/v1/projects/p-1/locations/europe-west1"
            "/publishers/google",
        ),
    ],
)
def test_vendors_whose_address_is_the_person_s(
    name: str, environment: dict[str, str], url: str
) -> None:
    assert profile(name, environment).base_url == url


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("1.2.3.4", "http://1.2.3.4:11434"),
        (":56789", "http://127.0.0.1:56789"),
        ("box:1", "http://box:1"),
        ("box/path/", "http://box:11434/path"),
        ("http://box", "http://box"),
        ("https://box:5/p/", "https://box:5/p"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:99", "http://127.0.0.1:99"),
        ("http://0.0.0.0:11434", "http://127.0.0.1:11434"),
        ("[::1]:5", "http://[::1]:5"),
        ("[::]", "http://127.0.0.1:11434"),
        ("box:x", ""),
        (" ", ""),
    ],
)
def test_the_forms_of_ollama_s_host(host: str, url: str) -> None:
    assert ollama_url(host) == url


def test_the_account_is_named_to_openai_alone() -> None:
    named = [profile.name for profile in profiles(ACCOUNT) if profile.headers]
    assert named == ["openai", "openai-responses"]
    headers = {"openai-organization": "org-1", "openai-project": "proj-1"}
    assert profile("openai", ACCOUNT).headers == headers
    for url in ("http://localhost:1/v1", "https://api.openai.com.evil.example/v1"):
        moved = {**ACCOUNT, "OPENAI_BASE_URL": url}
        assert profile("openai", moved).headers == {}
    own = replace(OPENAI, headers={"OpenAI-Organization": "mine"})
    assert add_account_headers(own, {"OPENAI_ORG_ID": "org-1"}) == own


def test_an_unknown_name_tells_those_there_are() -> None:
    with pytest.raises(NotFound, match=r"simulator, simulator-openai.* anthropic, openai"):
        profile("nope", {})
