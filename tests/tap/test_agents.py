"""What agents are started with: exact environments, no secret in an argument, the user's own files
and values kept."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from playground.core import providers
from playground.core.errors import BadInput
from playground.core.settings import Protocol
from playground.tap.agents import (
    AGENTS,
    BY_HAND,
    DOORS,
    DUMMY_KEY,
    AgentLaunch,
    LaunchUpstream,
    fill_lines,
    prepare,
    prepare_command,
)

BASE = "http://127.0.0.1:8765"
SECRET = "s3cret-of-this-tap"
HOSTS = "127.0.0.1,localhost,::1"
THEIRS = {"PATH": "/bin", "PLAYGROUND_TOKEN": "token-of-the-page", "no_proxy": "intranet,::1"}
KEPT = {"PATH": "/bin", "NO_PROXY": HOSTS, "no_proxy": "intranet,::1,127.0.0.1,localhost"}

CLAUDE_SET = {
    "ANTHROPIC_BASE_URL": f"{BASE}/tap/anthropic",
    "ANTHROPIC_CUSTOM_HEADERS": f"x-playground-tap: {SECRET}",
    "API_TIMEOUT_MS": "3600000",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "CLAUDE_CODE_ENABLE_FINE_GRAINED_TOOL_STREAMING": "1",
    "CLAUDE_STREAM_IDLE_TIMEOUT_MS": "3600000",
    "ENABLE_TOOL_SEARCH": "true",
}
GEMINI_SET = {
    "GEMINI_CLI_CUSTOM_HEADERS": f"x-playground-tap: {SECRET}",
    "GOOGLE_GEMINI_BASE_URL": f"{BASE}/tap/gemini",
}


def launched(
    name: str,
    folder: Path,
    own_login: bool = True,
    protocol: Protocol | None = None,
    model: str = "",
    **environ: str,
) -> AgentLaunch:
    agent = AGENTS[name]
    return prepare(
        agent,
        BASE,
        SECRET,
        {**THEIRS, **environ},
        LaunchUpstream(protocol or agent.protocols[0], own_login, model),
        home=folder / "home",
        folder=folder / "work",
        scratch=folder / "scratch",
        arguments=("-p", "hi"),
    )


def write_json(path: Path, data: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else json.dumps(data))


def opencode_config(launch: AgentLaunch) -> Any:
    return json.loads(launch.environment["OPENCODE_CONFIG_CONTENT"])


def codex_options(launch: AgentLaunch) -> list[str]:
    words = launch.arguments[:-2]
    assert set(words[::2]) == {"-c"}
    return [word.removeprefix("model_providers.playground_tap.") for word in words[1::2]]


@pytest.mark.parametrize(
    ("name", "own_login"), [(name, own) for name in AGENTS for own in (True, False)]
)
def test_the_secret_is_in_no_argument(name: str, own_login: bool, tmp_path: Path) -> None:
    launch = launched(name, tmp_path, own_login)
    assert launch.command == AGENTS[name].command
    assert launch.arguments[-2:] == ("-p", "hi")
    assert SECRET not in " ".join(launch.arguments)
    assert SECRET in " ".join(launch.environment.values())
    assert "PLAYGROUND_TOKEN" not in launch.environment
    assert "token-of-the-page" not in str(launch)


def test_claude(tmp_path: Path) -> None:
    launch = launched("claude", tmp_path)
    assert launch.environment == KEPT | CLAUDE_SET
    assert launch.arguments[:2] == ("--settings", f"{tmp_path}/scratch/settings.json")
    assert json.loads(launch.files["settings.json"]) == {"env": CLAUDE_SET}
    assert not launch.links


def test_claude_with_our_key(tmp_path: Path) -> None:
    """No key of the user's, for it would be asked about, and not used."""
    launch = launched("claude", tmp_path, False, ANTHROPIC_API_KEY="theirs")
    dummy = {"ANTHROPIC_AUTH_TOKEN": DUMMY_KEY}
    assert launch.environment == KEPT | CLAUDE_SET | dummy
    in_file = json.loads(launch.files["settings.json"])["env"]
    assert in_file == CLAUDE_SET | dummy | {"ANTHROPIC_API_KEY": ""}


@pytest.mark.parametrize(
    ("user", "project", "local", "stored_text"),
    [
        (None, None, None, "x-env: 1"),
        ("x-user: 1\nx-two: 2\n", None, None, "x-user: 1\nx-two: 2"),
        ("x-user: 1", "x-project: 1", None, "x-project: 1"),
        ("x-user: 1", "x-project: 1", "x-local: 1", "x-local: 1"),
    ],
)
def test_claude_keeps_the_user_s_headers(
    user: str | None, project: str | None, local: str | None, stored_text: str, tmp_path: Path
) -> None:
    places = ("home/.claude/settings", "work/.claude/settings", "work/.claude/settings.local")
    for place, headers in zip(places, (user, project, local), strict=True):
        if headers is not None:
            data = {"env": {"ANTHROPIC_CUSTOM_HEADERS": headers, "ENABLE_TOOL_SEARCH": "false"}}
            write_json(tmp_path / f"{place}.json", data)
    launch = launched("claude", tmp_path, ANTHROPIC_CUSTOM_HEADERS="x-env: 1")
    both = f"{stored_text}\nx-playground-tap: {SECRET}"
    in_file = json.loads(launch.files["settings.json"])["env"]
    assert launch.environment["ANTHROPIC_CUSTOM_HEADERS"] == both
    assert in_file["ANTHROPIC_CUSTOM_HEADERS"] == both
    assert in_file["ENABLE_TOOL_SEARCH"] == ("true" if user is None else "false")


@pytest.mark.parametrize("text", ["{oops", "[]", '{"env": 3}', ""])
def test_claude_settings_that_say_nothing(text: str, tmp_path: Path) -> None:
    write_json(tmp_path / "home/.claude/settings.json", text)
    assert launched("claude", tmp_path).environment == KEPT | CLAUDE_SET


@pytest.mark.parametrize(
    ("own_login", "key", "login", "dummy"),
    [
        (True, None, "requires_openai_auth=true", {}),
        (True, "theirs", 'env_key="OPENAI_API_KEY"', {}),
        (False, "theirs", 'env_key="OPENAI_API_KEY"', {"OPENAI_API_KEY": DUMMY_KEY}),
    ],
)
def test_codex(
    own_login: bool, key: str | None, login: str, dummy: dict[str, str], tmp_path: Path
) -> None:
    environment = {} if key is None else {"OPENAI_API_KEY": key}
    launch = launched("codex", tmp_path, own_login, None, "", **environment)
    assert launch.environment == KEPT | environment | {"PLAYGROUND_TAP": SECRET} | dummy
    assert codex_options(launch) == [
        'model_provider="playground_tap"',
        'name="tap"',
        f'base_url="{BASE}/tap/openai/v1"',
        'wire_api="responses"',
        'env_http_headers={"x-playground-tap"="PLAYGROUND_TAP"}',
        login,
    ]
    assert (launch.files, launch.links) == ({}, {})


@pytest.mark.parametrize(
    ("stored", "key", "own_login", "says"),
    [
        ({"tokens": {"access_token": "t"}, "OPENAI_API_KEY": None}, "", True, True),
        ({"tokens": {"access_token": "t"}, "OPENAI_API_KEY": None}, "key", True, False),
        ({"tokens": {"access_token": "t"}, "OPENAI_API_KEY": None}, "", False, False),
        ({"tokens": None, "OPENAI_API_KEY": "key"}, "", True, False),
        ([], "", True, False),
    ],
)
def test_codex_with_a_chatgpt_login(
    stored: object, key: str, own_login: bool, says: bool, tmp_path: Path
) -> None:
    write_json(tmp_path / "home/.codex/auth.json", stored)
    launch = launched("codex", tmp_path, own_login, None, "", OPENAI_API_KEY=key)
    assert ("ChatGPT" in launch.note) is says


def test_gemini_where_the_key_is_chosen(tmp_path: Path) -> None:
    settings = '{"security": {"auth": {"selectedType": /* by key */ "gemini-api-key"}}}'
    write_json(tmp_path / "home/.gemini/settings.json", settings)
    launch = launched("gemini", tmp_path, GEMINI_CLI_CUSTOM_HEADERS="x-own: a, x-two: b,c")
    headers = {"GEMINI_CLI_CUSTOM_HEADERS": f"x-own: a, x-two: b,c, x-playground-tap: {SECRET}"}
    assert launch.environment == KEPT | GEMINI_SET | headers
    assert (launch.arguments, launch.files, launch.links) == (("-p", "hi"), {}, {})


def test_gemini_in_a_home_where_it_is(tmp_path: Path) -> None:
    own = tmp_path / "home/.gemini"
    text = '{"ui": {"theme": "a // b"}, // theirs\n "security": {"auth": {"selectedType": "x"}}}'
    write_json(own / "settings.json", text)
    write_json(own / "trustedFolders.json", {"/project": "TRUST_FOLDER"})
    write_json(own / "commands/mine.toml", "")
    launch = launched("gemini", tmp_path, False)
    scratch = {"GEMINI_CLI_HOME": str(tmp_path / "scratch")}
    assert launch.environment == KEPT | GEMINI_SET | scratch | {"GEMINI_API_KEY": DUMMY_KEY}
    assert {name: json.loads(text) for name, text in launch.files.items()} == {
        ".gemini/settings.json": {
            "ui": {"theme": "a // b"},
            "security": {"auth": {"selectedType": "gemini-api-key"}},
        },
        ".gemini/trustedFolders.json": {"/project": "TRUST_FOLDER"},
    }
    names = ("commands", "history", "tmp")
    assert launch.links == {f".gemini/{name}": own / name for name in names}
    assert (own / "settings.json").read_text() == text


def test_gemini_without_settings_or_with_broken_ones(tmp_path: Path) -> None:
    agent_launch = launched("gemini", tmp_path, GEMINI_CLI_HOME=str(tmp_path / "none"))
    chosen = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    assert json.loads(agent_launch.files[".gemini/settings.json"]) == chosen
    for text in ("{oops", "[]"):
        write_json(tmp_path / "home/.gemini/settings.json", text)
        with pytest.raises(BadInput, match=r"settings\.json"):
            launched("gemini", tmp_path)


@pytest.mark.parametrize(
    ("protocol", "own_login", "provider"),
    [
        ("anthropic", True, {"anthropic": {"options": {"baseURL": f"{BASE}/tap/anthropic/v1"}}}),
        ("openai_responses", True, {"openai": {"options": {"baseURL": f"{BASE}/tap/openai/v1"}}}),
        ("gemini", True, {"google": {"options": {"baseURL": f"{BASE}/tap/gemini/v1beta"}}}),
        (
            "anthropic",
            False,
            {
                "anthropic": {
                    "options": {"baseURL": f"{BASE}/tap/anthropic/v1", "apiKey": DUMMY_KEY},
                    "models": {"m": {"name": "m"}},
                }
            },
        ),
        (
            "openai_chat",
            False,
            {
                "playground": {
                    "npm": "@ai-sdk/openai-compatible",
                    "name": "Playground",
                    "options": {"baseURL": f"{BASE}/tap/openai/v1", "apiKey": DUMMY_KEY},
                    "models": {"m": {"name": "m"}},
                }
            },
        ),
    ],
)
def test_opencode(
    protocol: Protocol, own_login: bool, provider: dict[str, Any], tmp_path: Path
) -> None:
    launch = launched("opencode", tmp_path, own_login, protocol, "m")
    config = opencode_config(launch)
    (name,) = config["provider"]
    headers = config["provider"][name]["options"].pop("headers")
    assert headers == {"x-playground-tap": "{env:PLAYGROUND_TAP}"}
    assert config["provider"] == provider
    assert config.get("model") == (None if own_login else f"{name}/m")
    others = {k: v for k, v in launch.environment.items() if k != "OPENCODE_CONFIG_CONTENT"}
    assert others == KEPT | {"PLAYGROUND_TAP": SECRET}


def test_opencode_keeps_the_user_s_own_content(tmp_path: Path) -> None:
    theirs = {"theme": "x", "provider": {"anthropic": {"options": {"timeout": 1}}}}
    launch = launched("opencode", tmp_path, OPENCODE_CONFIG_CONTENT=json.dumps(theirs))
    config = opencode_config(launch)
    options = config["provider"]["anthropic"]["options"]
    assert (config["theme"], options["timeout"]) == ("x", 1)
    assert options["baseURL"].startswith(BASE)


def test_a_protocol_that_it_does_not_speak(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="Claude Code uses anthropic"):
        launched("claude", tmp_path, protocol="gemini")


def test_another_command() -> None:
    launch = prepare_command(("run", "it"), BASE, SECRET, THEIRS, own_login=False)
    assert (launch.command, launch.arguments) == ("run", ("it",))
    assert launch.environment == KEPT | {
        "ANTHROPIC_API_KEY": DUMMY_KEY,
        "ANTHROPIC_BASE_URL": f"{BASE}/tap/{SECRET}/anthropic",
        "ANTHROPIC_HOST": f"{BASE}/tap/{SECRET}/anthropic",
        "COPILOT_PROVIDER_BASE_URL": f"{BASE}/tap/{SECRET}/openai/v1",
        "GEMINI_API_KEY": DUMMY_KEY,
        "GOOGLE_API_KEY": DUMMY_KEY,
        "GOOGLE_GEMINI_BASE_URL": f"{BASE}/tap/{SECRET}/gemini",
        "OLLAMA_HOST": f"{BASE}/tap/{SECRET}/ollama",
        "OPENAI_API_BASE": f"{BASE}/tap/{SECRET}/openai/v1",
        "OPENAI_API_KEY": DUMMY_KEY,
        "OPENAI_BASE_PATH": f"tap/{SECRET}/openai/v1/chat/completions",
        "OPENAI_BASE_URL": f"{BASE}/tap/{SECRET}/openai/v1",
        "OPENAI_HOST": BASE,
    }
    own = prepare_command(("run",), BASE, SECRET, THEIRS | {"OPENAI_API_KEY": "k"}, own_login=True)
    assert own.environment["OPENAI_API_KEY"] == "k"
    assert "GEMINI_API_KEY" not in own.environment


def test_rows_by_hand_lead_to_their_door() -> None:
    for row in BY_HAND:
        text = " ".join(fill_lines(row, f"{BASE}/tap/{SECRET}{DOORS[row.door]}"))
        assert BASE in text
        assert f"tap/{SECRET}/{row.door}" in text
        assert not re.search(r"[{}]", text)


def test_rows_name_profiles_that_are_there() -> None:
    profiles = {row.profile.name: row.profile for row in providers.VENDORS}
    for agent in AGENTS.values():
        assert profiles[agent.upstream].protocol == agent.protocols[0]
