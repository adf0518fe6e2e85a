"""Keys go to the origin they are bound to and nowhere else."""

from __future__ import annotations

from collections import UserDict
from collections.abc import ItemsView
from dataclasses import replace

import pytest

from playground.core.errors import BadInput
from playground.core.providers import profiles
from playground.core.settings import Profile, Protocol
from playground.net.keys import (
    DEFAULT_ORIGINS,
    Keys,
    is_near,
    is_vendors_own,
    origin,
    provider_keys,
)

ENV = {"ANTHROPIC_API_KEY": "sk-ant-canary-1234", "OPENAI_API_KEY": " sk-canary-5678\n"}

ORIGINS = [
    ("https://API.Anthropic.com", "https://api.anthropic.com"),
    ("https://api.anthropic.com:443/v1?x=1", "https://api.anthropic.com"),
    ("http://127.0.0.1:11434/", "http://127.0.0.1:11434"),
    ("http://[::1]:80/v1", "http://[::1]"),
    ("http://localhost:443", "http://localhost:443"),
]

NO_ADDRESS = [
    "",
    "sim:",
    "api.anthropic.com",
    "ftp://api.anthropic.com",
    "file:///etc/passwd",
    "https://",
    "https://api.anthropic.com@evil.example",
    "https://evil.example\\@api.anthropic.com",
    "https://api.anthropic.com:99999",
    "https://api.anthropic.com:x",
    "https://api anthropic.com",
    "https://api.anthropic.com%2eevil.example",
    "https://[::1",
    "https://api.anthropic.com\n.evil.example",
    " https://api.anthropic.com",
    "https://аpi.anthropic.com",
]

BOUND = [
    ("https://api.anthropic.com", True),
    ("https://api.anthropic.com:443/", True),
    ("http://api.anthropic.com", False),
    ("https://api.anthropic.com:8443", False),
    ("https://api.anthropic.com.evil.example", False),
    ("https://evil.example/https://api.anthropic.com", False),
    ("https://api.openai.com", False),
    ("http://127.0.0.1:9999", False),
]

SENT = {"TEAM_TOKEN": "of the team", "OPENAI_API_KEY": "of openai", "EMPTY_KEY": " "}


def profile(base_url: str, key_name: str = "ANTHROPIC_API_KEY") -> Profile:
    return Profile("p", "anthropic", base_url, key_name)


@pytest.mark.parametrize(("url", "expected"), ORIGINS)
def test_an_origin_is_scheme_host_and_port(url: str, expected: str) -> None:
    assert origin(url) == expected


@pytest.mark.parametrize("url", NO_ADDRESS)
def test_what_two_parsers_might_read_differently_is_no_address(url: str) -> None:
    with pytest.raises(BadInput, match="Invalid URL"):
        origin(url)
    assert Keys(ENV).key_for(profile(url)) is None or url == "sim:"


@pytest.mark.parametrize(("url", "sent"), BOUND)
def test_a_key_of_the_environment_goes_to_its_vendor_alone(url: str, sent: bool) -> None:
    keys = Keys(ENV)
    assert keys.key_for(profile(url)) == (ENV["ANTHROPIC_API_KEY"] if sent else None)
    assert bool(keys.missing_reason(profile(url))) is not sent


def test_a_changed_address_gets_the_key_once_it_is_confirmed() -> None:
    keys = Keys(ENV)
    typed = profile("https://proxy.example:8443/v1")
    assert "not confirmed for https://proxy.example:8443" in keys.missing_reason(typed)
    keys.confirm("ANTHROPIC_API_KEY", "https://proxy.example:8443")
    assert keys.key_for(typed) == ENV["ANTHROPIC_API_KEY"]
    assert keys.key_for(profile(typed.base_url, "OPENAI_API_KEY")) is None
    again = Keys(ENV, confirmed=keys.confirmations())
    assert again.key_for(typed) == ENV["ANTHROPIC_API_KEY"]


def test_a_base_url_of_the_environment_counts_as_typed() -> None:
    keys = Keys({**ENV, "ANTHROPIC_BASE_URL": "http://localhost:4000", "OPENAI_BASE_URL": "junk"})
    assert keys.key_for(profile("http://localhost:4000/x")) == ENV["ANTHROPIC_API_KEY"]
    assert keys.key_for(profile("http://localhost:4000", "OPENAI_API_KEY")) is None


def test_a_moved_vendor_gets_the_key_of_the_environment_alone() -> None:
    moved = profile("http://localhost:4000")
    keys = Keys({**ENV, "ANTHROPIC_BASE_URL": "http://localhost:4000"})
    keys.paste("ANTHROPIC_API_KEY", "pasted-canary")
    assert keys.key_for(moved) is None
    assert keys.unconfirmed_origin(moved) == "http://localhost:4000"
    keys.confirm("ANTHROPIC_API_KEY", moved.base_url)
    assert (keys.key_for(moved), keys.unconfirmed_origin(moved)) == ("pasted-canary", "")
    names = {"GOOGLE_API_KEY": "of the shell", "GEMINI_API_KEY": "of a folder"}
    keys = Keys({**names, "GEMINI_BASE_URL": "http://localhost:4000"})
    assert keys.key_for(profile("http://localhost:4000", "GEMINI_API_KEY")) is None


def test_only_what_is_named_like_a_key_is_confirmed() -> None:
    keys = Keys(ENV)
    for name in ("", "HOME", "SSH_AUTH_SOCK", "MY KEY", "DATABASE_URL"):
        with pytest.raises(BadInput, match="does not look like"):
            keys.confirm(name, "http://localhost:1")
    assert keys.confirmations() == []


def test_a_key_that_was_given_is_masked_whatever_its_name() -> None:
    keys = Keys({"my_tokens": "canary-12", "OTHER": "canary-13"}, [("my_tokens", "http://h:1")])
    assert keys.redactor().redact_text("canary-12") == "canary-12"
    assert keys.key_for(profile("http://h:1", "my_tokens")) == "canary-12"
    assert keys.redactor().redact_text("canary-12 canary-13") == "********* canary-13"


def test_a_pasted_key_wins_and_is_bound_as_well() -> None:
    keys = Keys(ENV)
    keys.paste("ANTHROPIC_API_KEY", " pasted-key-1 ")
    keys.paste("MY_KEY", "pasted-key-2", "https://my.example")
    assert keys.key_for(profile("https://api.anthropic.com")) == "pasted-key-1"
    assert keys.key_for(profile("https://evil.example")) is None
    assert keys.key_for(profile("https://my.example/v1", "MY_KEY")) == "pasted-key-2"
    assert keys.key_for(profile("https://evil.example", "MY_KEY")) is None
    with pytest.raises(BadInput, match="Paste it again"):
        keys.paste("MY_KEY", " ")


def test_googles_two_names_are_one_key_and_google_wins() -> None:
    url = DEFAULT_ORIGINS["GEMINI_API_KEY"]
    keys = Keys({"GOOGLE_API_KEY": "google", "GEMINI_API_KEY": "gemini"})
    assert keys.key_for(profile(url, "GEMINI_API_KEY")) == "google"
    assert Keys({"GEMINI_API_KEY": "g"}).key_for(profile(url, "GOOGLE_API_KEY")) == "g"


def test_a_profile_without_a_key_and_the_simulators() -> None:
    keys = Keys({}, simulator_key="the-page-token")
    assert keys.key_for(profile("http://localhost:11434", "")) is None
    assert keys.missing_reason(profile("http://localhost:11434", "")) == ""
    assert keys.key_for(profile("sim:")) == "the-page-token"
    assert keys.missing_reason(profile("sim:")) == ""
    assert "ANTHROPIC_API_KEY is not set" in keys.missing_reason(
        profile("https://api.anthropic.com")
    )


def test_names_are_told_and_values_never() -> None:
    keys = Keys({**ENV, "GROQ_API_KEY": " ", "HOME": "/home/me"})
    keys.paste("MY_KEY", "pasted-canary")
    assert keys.names() == ["ANTHROPIC_API_KEY", "MY_KEY", "OPENAI_API_KEY"]
    keys_text = repr(keys) + str(keys) + repr(keys.redactor()) + repr(keys.confirmations())
    assert "canary" not in keys_text


def test_the_redactor_knows_every_secret_also_those_pasted_later() -> None:
    keys = Keys({**ENV, "GITHUB_TOKEN": "ghp_canary_token", "EDITOR": "canary-editor"})
    keys_of_words = Keys({"A_TOKEN": "disabled", "MY_SECRET": "password"})
    assert keys_of_words.redactor().redact_text("disabled password") == "disabled password"
    text = "sk-ant-canary-1234 sk-canary-5678 ghp_canary_token pasted-canary canary-editor"
    redactor = keys.redactor()
    assert keys.redactor() is redactor
    assert redactor.redact_text(text).split()[3:] == ["pasted-canary", "canary-editor"]
    keys.paste("MY_KEY", "pasted-canary")
    assert keys.redactor().redact_text(text).replace("*", "").split() == ["canary-editor"]


def test_a_profile_gets_its_key_at_its_own_place_and_at_no_other() -> None:
    environment = {name: f"canary-of-{name}" for name in DEFAULT_ORIGINS}
    environment |= {
        "AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com",
        "GOOGLE_CLOUD_PROJECT": "p",
        "OLLAMA_HOST": "http://127.0.0.1:11434",
    }
    keys = Keys(environment)
    for profile in profiles(environment):
        assert not profile.key_name or profile.key_name in DEFAULT_ORIGINS, profile.name
        if profile.simulated or not profile.key_name:
            continue
        assert keys.missing_reason(profile) == ""
        assert str(keys.key_for(profile)).startswith("canary-of-"), profile.name
        for elsewhere in ("https://evil.example/v1", f"{profile.base_url[:12]}.evil.example", ""):
            moved = replace(profile, base_url=elsewhere)
            assert keys.key_for(moved) is None, profile.name
            assert keys.missing_reason(moved) != ""


def test_azure_s_key_goes_where_its_endpoint_says() -> None:
    place = "https://mine.openai.azure.com"
    url = place + "/openai/v1"
    names = {"AZURE_OPENAI_API_KEY": "azure-canary"}
    azure = profile(url, "AZURE_OPENAI_API_KEY")
    assert Keys(names).key_for(azure) is None
    assert Keys(names).unconfirmed_origin(azure) == place
    keys = Keys({**names, "AZURE_OPENAI_ENDPOINT": place + "/"})
    assert keys.key_for(azure) == "azure-canary"
    assert keys.key_for(profile("https://other.openai.azure.com", "AZURE_OPENAI_API_KEY")) is None
    keys.paste("AZURE_OPENAI_API_KEY", "pasted-canary")
    assert keys.key_for(azure) is None


def test_vertex_s_token_goes_to_the_region_of_the_environment() -> None:
    token = {"VERTEX_ACCESS_TOKEN": "ya29-canary"}
    regional = profile("https://europe-west1-aiplatform.googleapis.com/v1", "VERTEX_ACCESS_TOKEN")
    assert Keys(token).key_for(regional) is None
    for region, sent in (("europe-west1", True), ("us-east1", False), ("evil.example/", False)):
        keys = Keys({**token, "GOOGLE_CLOUD_LOCATION": region})
        assert (keys.key_for(regional) == "ya29-canary") is sent


def test_where_a_key_was_found_is_told_by_its_name() -> None:
    keys = Keys({"GOOGLE_API_KEY": "google", "PPLX_API_KEY": "perplexity"})
    assert keys.key_source("GEMINI_API_KEY") == ("GOOGLE_API_KEY", "environment")
    assert keys.key_source("PERPLEXITY_API_KEY") == ("PPLX_API_KEY", "environment")
    assert keys.key_source("GROQ_API_KEY") == ("", "")
    keys.paste("GEMINI_API_KEY", "pasted")
    assert keys.key_source("GEMINI_API_KEY") == ("GEMINI_API_KEY", "pasted")


@pytest.mark.parametrize(
    ("place", "names"),
    [
        ("https://api.groq.com", ["GROQ_API_KEY"]),
        ("https://api.groq.com:8443", ["GROQ_API_KEY"]),
        ("http://api.groq.com", ["GROQ_API_KEY"]),
        ("https://api.openai.com", ["OPENAI_API_KEY"]),
        ("https://europe-west1-aiplatform.googleapis.com", ["VERTEX_ACCESS_TOKEN"]),
        ("https://mine.openai.azure.com", ["AZURE_OPENAI_API_KEY"]),
        ("http://127.0.0.1:4000", ["LITELLM_API_KEY"]),
        ("http://127.0.0.1:4001", []),
        ("https://my.example", []),
    ],
)
def test_the_keys_that_a_vendor_s_place_may_mean(place: str, names: list[str]) -> None:
    assert provider_keys(place) == names


def of_tools() -> Keys:
    keys = Keys(SENT)
    keys.paste("BOUND_KEY", "pasted", "https://bound.example/v1")
    for place in ("https://anywhere.example", "http://plain.example", "http://10.0.0.9:80"):
        keys.confirm("TEAM_TOKEN", place)
    keys.confirm("EMPTY_KEY", "https://anywhere.example")
    return keys


@pytest.mark.parametrize(
    ("name", "url", "value"),
    [
        ("TEAM_TOKEN", "https://anywhere.example/x", "of the team"),
        ("TEAM_TOKEN", "http://10.0.0.9/x", "of the team"),
        ("OPENAI_API_KEY", "https://api.openai.com/v1/files", "of openai"),
        ("BOUND_KEY", "https://bound.example/a", "pasted"),
    ],
)
def test_a_key_for_the_header_of_a_tool(name: str, url: str, value: str) -> None:
    keys = of_tools()
    assert keys.tool_key(name, url) == value
    assert value in keys.secrets()


@pytest.mark.parametrize(
    ("name", "url", "message"),
    [
        ("OPENAI_API_KEY", "https://evil.example/", "does not belong to https://evil.example"),
        ("OPENAI_API_KEY", "http://api.openai.com/", "does not belong to http://api.openai.com"),
        ("BOUND_KEY", "https://evil.example/a", "it is not confirmed for https://evil.exam"),
        (
            "TEAM_TOKEN",
            "https://other.example/a",
            "save the tool on its page, or switch it off and on",
        ),
        ("TEAM_TOKEN", "http://anywhere.example/a", "it is not confirmed for http://anywhere"),
        ("TEAM_TOKEN", "http://plain.example/a", "could read it. Use https"),
        ("EMPTY_KEY", "https://anywhere.example", "EMPTY_KEY is not set"),
        ("HOME", "https://anywhere.example", "does not look like a key's name"),
        ("TEAM_TOKEN", "nowhere", "Invalid URL"),
    ],
)
def test_a_key_that_no_tool_gets(name: str, url: str, message: str) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        of_tools().tool_key(name, url)
    assert "of openai" not in str(caught.value)


@pytest.mark.parametrize(
    ("place", "near"),
    [
        *(("http://127.0.0.1:80", True), ("http://[::1]", True), ("http://localhost:1", True)),
        *(("http://192.168.1.2", True), ("http://nas.lan", True), ("http://nas", True)),
        *(("http://example.com", False), ("http://93.184.216.34", False)),
        *(("http://[2606:2800:220:1::1]", False), ("http://localhost.example.com", False)),
    ],
)
def test_a_key_goes_over_plain_http_to_what_is_near_alone(place: str, near: bool) -> None:
    assert is_near(place) is near


def test_a_variable_of_a_server_is_masked_whatever_it_is_called() -> None:
    keys = Keys({"GH_PAT": "canary-991188", "PATH": "/usr/bin:/bin", "TEAM_TOKEN": "of-the-team"})
    assert keys.variable("GH_PAT") == "canary-991188"
    assert keys.variable("PATH") == "/usr/bin:/bin"
    assert keys.variable("NOT_THERE") is None
    assert (
        keys.redactor().redact_text("canary-991188 /usr/bin:/bin") == "************* /usr/bin:/bin"
    )
    assert keys.variable("TEAM_TOKEN", "https://accepted.example/mcp") == "of-the-team"
    for name in ("TEAM_TOKEN", "GH_PAT"):
        with pytest.raises(BadInput, match="Use https"):
            keys.variable(name, "http://accepted.example/mcp")


class CountedEnvironment(UserDict[str, str]):
    """Counts how often it is gone through."""

    walks = 0

    def items(self) -> ItemsView[str, str]:
        self.walks += 1
        return super().items()


def test_secrets_are_read_when_they_change_and_not_for_each_event() -> None:
    environment = CountedEnvironment(ENV)
    keys = Keys(environment)
    for _ in range(3):
        redactor = keys.redactor()
    assert environment.walks == 1
    keys.paste("MY_KEY", "pasted-canary")
    assert keys.redactor() is not redactor
    keys.variable("OPENAI_API_KEY")
    redactor = keys.redactor()
    keys.variable("OPENAI_API_KEY")
    assert keys.redactor() is redactor
    assert environment.walks == 3


@pytest.mark.parametrize(
    ("protocol", "base_url", "own"),
    [
        ("anthropic", "https://api.anthropic.com", True),
        ("anthropic", "https://API.anthropic.com:443/v1", True),
        ("openai_responses", "https://api.openai.com/v1", True),
        ("gemini", "https://generativelanguage.googleapis.com", True),
        ("openai_chat", "https://api.anthropic.com", False),  # it takes another login
        ("anthropic", "http://api.anthropic.com", False),
        ("anthropic", "https://api.anthropic.com:8443", False),
        ("anthropic", "https://api.anthropic.com.example", False),
        ("anthropic", "https://user@api.anthropic.com", False),
        ("anthropic", "sim:", False),
        ("gemini", "", False),
    ],
)
def test_a_login_of_another_program_goes_to_its_vendor_alone(
    protocol: Protocol, base_url: str, own: bool
) -> None:
    assert is_vendors_own(Profile("p", protocol, base_url)) is own
