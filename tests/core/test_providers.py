"""The rows: each vendor can be found, reached and told apart."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from playground.core.providers import LOCAL_S, PROVIDERS, SIMULATORS, provider_at
from playground.core.settings import PROTOCOLS

ADDRESSED_BY_THE_PERSON = {"azure", "vertex"}


def test_no_name_is_there_twice() -> None:
    names = [vendor.profile.name for vendor in PROVIDERS]
    assert len(set(names)) == len(names)
    assert {"simulator", "simulator-openai", "openai", "openai-responses", "gemini"} <= set(names)


def test_every_row_says_where_it_is_and_whose_key_it_takes() -> None:
    for vendor in PROVIDERS:
        profile = vendor.profile
        url = urlsplit(profile.base_url)
        assert profile.protocol in PROTOCOLS
        assert vendor.title
        assert vendor.about.endswith(".")
        assert bool(vendor.key_place) == bool(profile.key_name), profile.name
        assert all(hint.fact.endswith(".") and hint.source for hint in vendor.hints), profile.name
        if profile.simulated or profile.name in ADDRESSED_BY_THE_PERSON:
            continue
        if vendor.local:
            assert url.hostname == "127.0.0.1"
            assert vendor.start.endswith((".", "PARSER", ".gguf", ".yaml", ")."))
        else:
            assert url.scheme == "https"
            assert profile.key_name


def test_a_local_server_may_take_its_time() -> None:
    for vendor in PROVIDERS:
        waits = (vendor.profile.first_byte_s, vendor.profile.idle_s)
        assert waits == ((LOCAL_S, LOCAL_S) if vendor.local else (60.0, 60.0))


def test_the_simulator_has_an_end_for_each_protocol() -> None:
    assert tuple(vendor.profile.protocol for vendor in SIMULATORS) == PROTOCOLS


@pytest.mark.parametrize(
    ("base_url", "protocol", "name"),
    [
        ("https://api.openai.com/v1", "openai_chat", "openai"),
        ("https://API.openai.com:443/v1/", "openai_chat", "openai"),
        ("https://api.openai.com./v1", "openai_chat", "openai"),
        ("https://api.openai.com/v1", "openai_responses", "openai-responses"),
        ("https://mine.openai.azure.com/openai/v1", "openai_responses", "azure"),
        ("https://mine.services.ai.azure.com/openai/v1", "openai_chat", "azure"),
        ("https://europe-west4-aiplatform.googleapis.com/v1/x", "gemini", "vertex"),
        ("https://aiplatform.googleapis.com/v1/x", "gemini", "vertex"),
        ("http://localhost:11434", "ollama", "ollama"),
        ("http://localhost.:11434", "ollama", "ollama"),
        ("http://127.0.0.1:8000/v1", "openai_chat", "vllm"),
        ("http://127.0.0.1:8999/v1", "openai_chat", ""),
        ("https://api.openai.com.evil.example/v1", "openai_chat", ""),
        ("https://evil.example/api.openai.com", "openai_chat", ""),
        ("https://openai.azure.com.evil.example", "openai_chat", ""),
        ("http://[::1", "openai_chat", ""),
        ("sim:", "openai_chat", ""),
        ("", "gemini", ""),
    ],
)
def test_a_vendor_is_known_by_its_host(base_url: str, protocol: str, name: str) -> None:
    provider = provider_at(base_url, protocol)
    assert (provider.profile.name if provider else "") == name
