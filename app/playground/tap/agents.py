"""The agents that `playground tap` starts, as rows of data, and the preparation of a start.

A row has the options that point an agent at one of our doors without a change to its user's own
files, and without the secret in an argument, because every user of the machine can read arguments.
The rows were tested with the versions in `bench/agents.py`; docs/tap.md is for users.

Texts in rows have placeholders: `{base}` is the address of the server, `{secret}` the tap's,
`{scratch}` a folder for this start only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playground import config
from playground.core.errors import BadInput
from playground.core.providers import AGENT_TITLES, AGENT_WAITS, LOOPBACK_NAMES, AgentWaits
from playground.core.settings import Protocol

HEADER = "x-playground-tap"
SECRET_VARIABLE = "PLAYGROUND_TAP"
"""The variable with the secret, for agents that read headers from variables."""

DUMMY_KEY = "playground-has-the-key"
"""An agent's key when ours is sent upstream: without one it would not start."""

ALL_SDKS: Mapping[str, str] = {
    "ANTHROPIC_BASE_URL": "anthropic",
    "COPILOT_PROVIDER_BASE_URL": "openai",
    "GOOGLE_GEMINI_BASE_URL": "gemini",
    "OLLAMA_HOST": "ollama",
    "OPENAI_API_BASE": "openai",
    "OPENAI_BASE_URL": "openai",
}
"""Base URL variables with their doors, for a command that has no row."""

ALL_KEYS = ("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY")

_CHATGPT = (
    "Codex is logged in with ChatGPT, which does not use api.openai.com. If requests are "
    "refused, set OPENAI_API_KEY or name another --upstream."
)

_GEMINI_COPIED = ("settings.json", "trustedFolders.json")
_BY_KEY = "gemini-api-key"

_COMMENTS = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)

MOST_CONFIG = 8 * 1024 * 1024
"""Bytes of an agent's own configuration that are read."""

_OPENCODE_PROVIDERS: Mapping[Protocol, tuple[str, str]] = {
    "anthropic": ("anthropic", "anthropic/v1"),
    "openai_responses": ("openai", "openai/v1"),
    "openai_chat": ("playground", "openai/v1"),
    "gemini": ("google", "gemini/v1beta"),
}
"""opencode's provider for each protocol, and the path of its door."""


@dataclass(frozen=True)
class Agent:
    """`name` is the argument of `playground tap`, `command` the command on PATH, `package` that of
    npm.

    `upstream` is the profile of its vendor, which gets the agent's own login; `protocols` are those
    it supports, the preferred one first. `environment` is always set, `defaults` only if the user
    has no value; `listed` are variables with lists (variable to separator), in which the user's own
    entries are kept. If our key is sent upstream, `dummies` replace the login, and `removed` are
    unset. `settings` is a file in the scratch folder with all these variables, for an agent whose
    settings override its environment. `kept_alive` is the keep-alive event of a held answer;
    `hidden` describes the requests that bypass the tap, in sentences.
    """

    name: str
    title: str
    command: str
    package: str
    upstream: str
    protocols: tuple[Protocol, ...]
    waits: AgentWaits
    kept_alive: str
    hidden: str
    environment: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    listed: Mapping[str, str] = field(default_factory=dict)
    dummies: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    settings: str = ""

    @property
    def install(self) -> str:
        """The command line that installs it."""
        return f"npm install -g {self.package}"


CLAUDE = Agent(
    "claude",
    AGENT_TITLES["claude"],
    "claude",
    "@anthropic-ai/claude-code",
    upstream="anthropic",
    protocols=("anthropic",),
    environment={
        "ANTHROPIC_BASE_URL": "{base}/tap/anthropic",
        "ANTHROPIC_CUSTOM_HEADERS": HEADER + ": {secret}",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # The fallback would repeat the request in another form.
        "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
        "API_TIMEOUT_MS": "3600000",
        "CLAUDE_STREAM_IDLE_TIMEOUT_MS": "3600000",
    },
    # A base URL that is not the vendor's disables these.
    defaults={
        "ENABLE_TOOL_SEARCH": "true",
        "CLAUDE_CODE_ENABLE_FINE_GRAINED_TOOL_STREAMING": "1",
    },
    listed={"ANTHROPIC_CUSTOM_HEADERS": "\n"},
    # The agent would ask about a key in the environment at startup, but not about a token.
    dummies={"ANTHROPIC_AUTH_TOKEN": DUMMY_KEY},
    removed=("ANTHROPIC_API_KEY",),
    arguments=("--settings", "{scratch}/settings.json"),
    settings="settings.json",
    waits=AGENT_WAITS["claude"],
    kept_alive="event `ping`",
    hidden="Sessions through Bedrock, Vertex or Foundry. If you pass --settings, its variables can "
    "override those of the tap.",
)

CODEX = Agent(
    "codex",
    AGENT_TITLES["codex"],
    "codex",
    "@openai/codex",
    upstream="openai-responses",
    protocols=("openai_responses",),
    environment={SECRET_VARIABLE: "{secret}"},
    dummies={"OPENAI_API_KEY": DUMMY_KEY},
    # A provider not called "OpenAI": that one would compress bodies, and try a WebSocket first.
    arguments=(
        *("-c", 'model_provider="playground_tap"'),
        *("-c", 'model_providers.playground_tap.name="tap"'),
        *("-c", 'model_providers.playground_tap.base_url="{base}/tap/openai/v1"'),
        *("-c", 'model_providers.playground_tap.wire_api="responses"'),
        "-c",
        f'model_providers.playground_tap.env_http_headers={{"{HEADER}"="{SECRET_VARIABLE}"}}',
    ),
    waits=AGENT_WAITS["codex"],
    kept_alive="event `response.in_progress`",
    hidden="Work in Codex cloud. A ChatGPT login uses another address than api.openai.com, which "
    "may refuse the requests. If it does, set OPENAI_API_KEY.",
)

GEMINI = Agent(
    "gemini",
    AGENT_TITLES["gemini"],
    "gemini",
    "@google/gemini-cli",
    upstream="gemini",
    protocols=("gemini",),
    environment={
        "GOOGLE_GEMINI_BASE_URL": "{base}/tap/gemini",
        "GEMINI_CLI_CUSTOM_HEADERS": HEADER + ": {secret}",
    },
    listed={"GEMINI_CLI_CUSTOM_HEADERS": ", "},
    dummies={"GEMINI_API_KEY": DUMMY_KEY},
    waits=AGENT_WAITS["gemini"],
    kept_alive="an empty line",
    hidden="A Google login and Vertex AI. With a tap, Gemini CLI uses only GEMINI_API_KEY.",
)

OPENCODE = Agent(
    "opencode",
    AGENT_TITLES["opencode"],
    "opencode",
    "opencode-ai",
    upstream="anthropic",
    protocols=("anthropic", "openai_responses", "openai_chat", "gemini"),
    environment={SECRET_VARIABLE: "{secret}"},
    waits=AGENT_WAITS["opencode"],
    kept_alive="the protocol's keep-alive event",
    hidden="Models of providers other than the tap's, and logins with their own address "
    "(Copilot, opencode Zen).",
)

AGENTS: Mapping[str, Agent] = {agent.name: agent for agent in (CLAUDE, CODEX, GEMINI, OPENCODE)}


# Agents and SDKs that are configured by hand ----------------------------------------------------


@dataclass(frozen=True)
class ByHand:
    """Shell lines that point an agent at a tap; `door` is the word in its address.

    `{url}` is the address of that door including the secret, `{base}` that of the server alone,
    `{path}` the rest. `tried`: it was tested, not only documented.
    """

    title: str
    door: str
    lines: tuple[str, ...]
    note: str = ""
    tried: bool = False


BY_HAND: tuple[ByHand, ...] = (
    ByHand("Anthropic SDKs", "anthropic", ("export ANTHROPIC_BASE_URL={url}",), tried=True),
    ByHand("OpenAI SDKs", "openai", ("export OPENAI_BASE_URL={url}",), tried=True),
    ByHand("Google Gen AI SDKs", "gemini", ("export GOOGLE_GEMINI_BASE_URL={url}",)),
    ByHand("Ollama, and its SDKs", "ollama", ("export OLLAMA_HOST={url}",)),
    ByHand("aider", "openai", ("export OPENAI_API_BASE={url}",), "With models named openai/…."),
    ByHand(
        "goose",
        "openai",
        ("export OPENAI_HOST={base}", "export OPENAI_BASE_PATH={path}/chat/completions"),
        "With GOOSE_PROVIDER=openai.",
    ),
    ByHand(
        "goose, with Claude",
        "anthropic",
        ("export ANTHROPIC_HOST={url}",),
        "With GOOSE_PROVIDER=anthropic.",
    ),
    ByHand(
        "Copilot CLI",
        "openai",
        ("export COPILOT_PROVIDER_BASE_URL={url}",),
        "With COPILOT_MODEL, and a model for your own key.",
    ),
)

DOORS: Mapping[str, str] = {
    "anthropic": "/anthropic",
    "openai": "/openai/v1",
    "gemini": "/gemini",
    "ollama": "/ollama",
}
"""Door name -> the path of its base URL after the secret."""


def fill_lines(row: ByHand, url: str) -> list[str]:
    """The row's lines, for pasting into a shell, for a tap whose door is at `url`."""
    place = urlsplit(url)
    given = {"url": url, "base": f"{place.scheme}://{place.netloc}", "path": place.path[1:]}
    return [_fill(line, given) for line in row.lines]


# Preparing the start of an agent ------------------------------------------------------------------


@dataclass(frozen=True)
class LaunchUpstream:
    """The upstream of a tap. `own_login`: the agent's own credentials are sent there; otherwise
    ours are, and the agent gets a dummy. `model` is available there, for agents that request only
    known models; "" leaves the choice to the agent."""

    protocol: Protocol
    own_login: bool
    model: str = ""


@dataclass(frozen=True)
class AgentLaunch:
    """A command with its arguments and its whole environment. First create `files` (path in the
    scratch folder to content, for the user only) and `links` (path there to target; a missing
    target is made a folder). `note` is a sentence for the user before the start, or ""."""

    command: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    files: Mapping[str, bytes] = field(default_factory=dict)
    links: Mapping[str, Path] = field(default_factory=dict)
    note: str = ""


def prepare(
    agent: Agent,
    base: str,
    secret: str,
    environ: Mapping[str, str],
    upstream: LaunchUpstream,
    *,
    home: Path,
    folder: Path,
    scratch: Path,
    arguments: Sequence[str] = (),
) -> AgentLaunch:
    """Prepares the start of `agent` in `folder`, with the user's `arguments` after ours.

    Reads the user's settings of Claude Code and Gemini CLI below `home` and `folder`, and the login
    of Codex; writes nothing. BadInput if the agent does not speak the upstream's protocol, or if
    settings that must be copied cannot be read.
    """
    if upstream.protocol not in agent.protocols:
        raise BadInput(
            f"{agent.title} uses {' or '.join(agent.protocols)}, but the upstream uses "
            f"{upstream.protocol}. Name another with --upstream."
        )
    given = {"base": base, "secret": secret, "scratch": str(scratch)}
    theirs = _read_variables(agent, environ, home, folder)
    set_here = {name: _fill(text, given) for name, text in agent.environment.items()}
    set_here |= {name: theirs.get(name) or text for name, text in agent.defaults.items()}
    for name, separator in agent.listed.items():
        entries = theirs.get(name, "").strip(separator + " \n")
        set_here[name] = separator.join(filter(None, (entries, set_here[name])))
    files: dict[str, bytes] = {}
    links: dict[str, Path] = {}
    note = ""
    ours = [_fill(text, given) for text in agent.arguments]
    if not upstream.own_login:
        set_here |= agent.dummies
    match agent.name:
        case "codex":
            by_key = bool({**environ, **set_here}.get("OPENAI_API_KEY", "").strip())
            login = 'env_key="OPENAI_API_KEY"' if by_key else "requires_openai_auth=true"
            ours += ["-c", f"model_providers.playground_tap.{login}"]
            if not by_key and _has_chatgpt_login(environ, home):
                note = _CHATGPT
        case "gemini":
            files, links = _copy_gemini_home(environ, home)
            if files:
                set_here["GEMINI_CLI_HOME"] = str(scratch)
        case "opencode":
            set_here["OPENCODE_CONFIG_CONTENT"] = _make_opencode_config(base, environ, upstream)
    if agent.settings:
        blank = dict.fromkeys(agent.removed, "") if not upstream.own_login else {}
        files[agent.settings] = _to_json({"env": {**set_here, **blank}})
    environment = _clean_environment(environ, base) | set_here
    if not upstream.own_login:
        environment = {k: value for k, value in environment.items() if k not in agent.removed}
    return AgentLaunch(
        agent.command,
        arguments=(*ours, *arguments),
        environment=environment,
        files=files,
        links=links,
        note=note,
    )


def prepare_command(
    command: Sequence[str], base: str, secret: str, environ: Mapping[str, str], own_login: bool
) -> AgentLaunch:
    """Prepares a command without a row: every SDK finds the tap by its variables. The secret is in
    the URLs, because no variable sets a header for all SDKs."""
    urls = {name: f"{base}/tap/{secret}{DOORS[door]}" for name, door in ALL_SDKS.items()}
    goose = {
        "ANTHROPIC_HOST": urls["ANTHROPIC_BASE_URL"],
        "OPENAI_HOST": base,
        "OPENAI_BASE_PATH": f"tap/{secret}{DOORS['openai']}/chat/completions",
    }
    dummies = {} if own_login else dict.fromkeys(ALL_KEYS, DUMMY_KEY)
    environment = _clean_environment(environ, base) | urls | goose | dummies
    return AgentLaunch(command[0], tuple(command[1:]), environment)


def _clean_environment(environ: Mapping[str, str], base: str) -> dict[str, str]:
    """The user's environment without our page's token, and with no proxy for our server."""
    cleaned = {name: value for name, value in environ.items() if name != "PLAYGROUND_TOKEN"}
    hosts = dict.fromkeys((*LOOPBACK_NAMES, urlsplit(base).hostname or ""))
    for name in ("NO_PROXY", "no_proxy"):
        theirs = [host.strip() for host in environ.get(name, "").split(",") if host.strip()]
        cleaned[name] = ",".join([*theirs, *(host for host in hosts if host not in theirs)])
    return cleaned


def _read_variables(
    agent: Agent, environ: Mapping[str, str], home: Path, folder: Path
) -> Mapping[str, str]:
    """The user's variables as the agent sees them. In Claude Code the `env` of its settings
    overrides the environment, and the folder's settings override the user's."""
    if agent is not CLAUDE:
        return environ
    own = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    values = dict(environ)
    for path in (
        own / "settings.json",
        folder / ".claude" / "settings.json",
        folder / ".claude" / "settings.local.json",
    ):
        try:
            data = json.loads(_read(path))
        except (BadInput, ValueError):
            continue  # the agent reports the error itself
        variables = data.get("env") if isinstance(data, dict) else None
        if isinstance(variables, dict):
            values |= {name: str(value) for name, value in variables.items()}
    return values


def _has_chatgpt_login(environ: Mapping[str, str], home: Path) -> bool:
    """Whether `codex login` stored a ChatGPT account and no key."""
    path = Path(environ.get("CODEX_HOME") or home / ".codex") / "auth.json"
    try:
        login = json.loads(_read(path))
    except (BadInput, ValueError):
        return False
    return isinstance(login, dict) and bool(login.get("tokens")) and not login.get("OPENAI_API_KEY")


def _copy_gemini_home(
    environ: Mapping[str, str], home: Path
) -> tuple[dict[str, bytes], dict[str, Path]]:
    """Files and links of a home that selects the key; empty if the user's own does.

    With a base URL Gemini CLI uses its key only if its settings select it, and it has no option for
    that. The other contents of `.gemini` are linked.
    """
    own = Path(environ.get("GEMINI_CLI_HOME") or home) / ".gemini"
    settings = _read_gemini_settings(own / "settings.json")
    security = settings.get("security")
    security = dict(security) if isinstance(security, dict) else {}
    auth = security.get("auth")
    auth = dict(auth) if isinstance(auth, dict) else {}
    if auth.get("selectedType") == _BY_KEY:
        return {}, {}
    changed = {**settings, "security": {**security, "auth": {**auth, "selectedType": _BY_KEY}}}
    files = {".gemini/settings.json": _to_json(changed)}
    # Its sessions, for --resume, must outlive the copy; it creates these folders itself, too.
    links = {f".gemini/{name}": own / name for name in ("history", "tmp")}
    for entry in sorted(own.iterdir()) if own.is_dir() else ():
        if entry.name not in _GEMINI_COPIED:
            links[f".gemini/{entry.name}"] = entry
        elif entry.name != "settings.json":
            files[f".gemini/{entry.name}"] = _read(entry)
    return files, links


def _read_gemini_settings(path: Path) -> dict[str, Any]:
    """Its settings, which may contain comments."""
    if not path.exists():
        return {}
    text = _COMMENTS.sub(lambda match: match[1] or " ", _read(path).decode("utf-8", "replace"))
    try:
        data = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise BadInput(
            f"{path} is not valid JSON: {error}. Fix it; Gemini CLI reads this file."
        ) from error
    if not isinstance(data, dict):
        raise BadInput(f"{path} is not a JSON object. Fix it; Gemini CLI reads this file.")
    return data


def _read(path: Path) -> bytes:
    try:
        return config.read_file(path, MOST_CONFIG, plain=True)
    except OSError as error:
        raise BadInput(f"Cannot read {path} ({error.strerror}). Make it readable.") from error


def _make_opencode_config(base: str, environ: Mapping[str, str], upstream: LaunchUpstream) -> str:
    """A configuration that is merged into the user's own, and overrides it. The user's own value of
    the variable is preserved if it is an object."""
    name, path = _OPENCODE_PROVIDERS[upstream.protocol]
    options: dict[str, Any] = {
        "baseURL": f"{base}/tap/{path}",
        "headers": {HEADER: "{env:" + SECRET_VARIABLE + "}"},
    }
    provider: dict[str, Any] = {"options": options}
    config: dict[str, Any] = {"provider": {name: provider}}
    if name == "playground":
        provider |= {"npm": "@ai-sdk/openai-compatible", "name": "Playground"}
    if not upstream.own_login:
        options["apiKey"] = DUMMY_KEY
    if upstream.model and (not upstream.own_login or name == "playground"):
        provider["models"] = {upstream.model: {"name": upstream.model}}
        config |= dict.fromkeys(("model", "small_model"), f"{name}/{upstream.model}")
    try:
        theirs = json.loads(environ.get("OPENCODE_CONFIG_CONTENT") or "{}")
    except ValueError:
        theirs = {}
    return json.dumps(_merge(theirs, config) if isinstance(theirs, dict) else config)


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        old = merged.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            merged[name] = _merge(old, value)
        else:
            merged[name] = value
    return merged


def _to_json(data: object) -> bytes:
    return json.dumps(data, indent=2, ensure_ascii=False).encode() + b"\n"


def _fill(text: str, given: Mapping[str, str]) -> str:
    """`text` with its placeholders replaced; other braces stay."""
    for name, value in given.items():
        text = text.replace("{" + name + "}", value)
    return text
