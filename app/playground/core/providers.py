"""Providers known to this version, as rows of data: to add one, add a row. Agents, too.

A row has a provider's address, its deviations from the protocol (quirks, by name: the protocol's
encoder and decoder explain them) and facts about it; it sends nothing. Most use dialects of
OpenAI's Chat Completions (docs/wire.md, section 6). Model names are suggestions, or "": a wrong one
would be worse than none.

Profiles are found by name, and moved to addresses given by the environment. Does not read the
environment itself and checks no key: `net.keys` decides to which address a key may be sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, assert_never, get_args
from urllib.parse import urlsplit

from playground.core.errors import NotFound
from playground.core.events import StopAt
from playground.core.settings import SIMULATOR_URL, Profile, Protocol

ProviderName = Literal[
    "simulator",
    "simulator-openai",
    "simulator-responses",
    "simulator-gemini",
    "simulator-ollama",
    "anthropic",
    "openai",
    "openai-responses",
    "gemini",
    "vertex",
    "ollama",
    "ollama-cloud",
    "azure",
    "openrouter",
    "groq",
    "mistral",
    "deepseek",
    "xai",
    "together",
    "fireworks",
    "cerebras",
    "huggingface",
    "perplexity",
    "lmstudio",
    "llamacpp",
    "vllm",
    "sglang",
    "litellm",
]
"""The names of the built-in providers, in the order of lists. Each has a row in `provider_row`."""

PROVIDER_NAMES: tuple[ProviderName, ...] = get_args(ProviderName)

LOCAL_S = 300.0
"""Seconds for local servers: one may load its model before the first byte, and pause long between
two bytes."""

KEY_NAME = re.compile(r"\w*(KEY|TOKEN|SECRET)\w*", re.I)
"""The form of a key's name; no other variable is ever sent anywhere."""

ACCOUNT: Mapping[str, str] = {
    "OPENAI_ORG_ID": "openai-organization",
    "OPENAI_PROJECT_ID": "openai-project",
}
"""The account header, sent to OpenAI only: variable and header."""

OLLAMA_PORT = 11434
_PLACE = re.compile(r"[a-z0-9][a-z0-9:.-]{0,99}")

AGENT_TITLES: Mapping[str, str] = {
    "claude": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "opencode": "opencode",
}

HELD_WHOLE_S = 60.0
"""Seconds that a non-streamed answer waits here for decisions on its calls. No keep-alive can be
sent to the agent during this time."""

STOPS_AT: Mapping[StopAt, str] = {
    "nothing": "nothing",
    "unruled": "calls no rule runs",
    "calls": "every call",
    "results": "every result",
    "errors": "results that are errors",
}
"""Descriptions of where a tap stops, for users."""


@dataclass(frozen=True)
class Hint:
    """A fact that matters before a request, and its source."""

    fact: str
    source: str


@dataclass(frozen=True)
class Provider:
    """A profile with information for the user.

    `key_place` is where to get a key, `start` how to start a `local` server; both are texts.
    `hosts` are its hosts in addition to the profile's; one that begins with a dot or a dash is the
    suffix for a provider with one host per region or customer. `is_vendor`: its protocol is its
    own. `address_name` is the variable by which the user moves it to another address.
    """

    profile: Profile
    title: str
    about: str
    key_place: str = ""
    local: bool = False
    start: str = ""
    hints: tuple[Hint, ...] = ()
    hosts: tuple[str, ...] = ()
    is_vendor: bool = False
    address_name: str = ""

    @property
    def origin(self) -> str:
        """`scheme://host:port` of its address, or "" if it has none."""
        parts = urlsplit(self.profile.base_url)
        return f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""

    def is_at(self, base_url: str) -> bool:
        """Whether `base_url` belongs to it: compares the host, on this machine the port.

        Never raises, even for an invalid URL.
        """
        try:
            there, own = urlsplit(base_url), urlsplit(self.profile.base_url)
            host = (there.hostname or "").removesuffix(".")  # a trailing dot makes no difference
            if self.local:
                return host in LOOPBACK_NAMES and own.port == there.port
        except ValueError:
            return False
        ends = tuple(host for host in self.hosts if host.startswith((".", "-")))
        return host != "" and (host in (own.hostname, *self.hosts) or host.endswith(ends))


LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")


def simulator_provider(name: ProviderName, protocol: Protocol, title: str) -> Provider:
    return Provider(
        Profile(name, protocol, SIMULATOR_URL, model="simulator"),
        f"Simulator, {title}",
        "Built in. Chooses tools from words in the prompt and simulates faults.",
    )


def local_provider(
    name: ProviderName,
    title: str,
    about: str,
    url: str,
    start: str,
    hints: tuple[Hint, ...] = (),
    key_name: str = "",
    key_place: str = "",
    model: str = "",
    quirks: tuple[str, ...] = (),
) -> Provider:
    """A Chat Completions server on this machine."""
    profile = Profile(
        name,
        "openai_chat",
        url,
        key_name,
        model,
        quirks=quirks,
        first_byte_s=LOCAL_S,
        idle_s=LOCAL_S,
    )
    return Provider(
        profile, title=title, about=about, key_place=key_place, local=True, start=start, hints=hints
    )


def compatible_provider(
    name: ProviderName,
    title: str,
    about: str,
    url: str,
    key_name: str,
    key_place: str,
    hints: tuple[Hint, ...] = (),
    model: str = "",
    quirks: str = "",
    hosts: tuple[str, ...] = (),
) -> Provider:
    """A remote Chat Completions service."""
    named = tuple(quirks.split())
    profile = Profile(name, "openai_chat", url, key_name, model, quirks=named)
    return Provider(profile, title, about, key_place, hints=hints, hosts=hosts)


# The rows --------------------------------------------------------------------------------------


def provider_row(name: ProviderName) -> Provider:
    """The row of each provider. The type checker names a provider without one."""
    match name:
        case "simulator":
            return simulator_provider(name, "anthropic", "Anthropic Messages")
        case "simulator-openai":
            return simulator_provider(name, "openai_chat", "OpenAI Chat Completions")
        case "simulator-responses":
            return simulator_provider(name, "openai_responses", "OpenAI Responses")
        case "simulator-gemini":
            return simulator_provider(name, "gemini", "Gemini")
        case "simulator-ollama":
            return simulator_provider(name, "ollama", "Ollama")
        case "anthropic":
            return Provider(
                Profile(
                    name,
                    "anthropic",
                    "https://api.anthropic.com",
                    key_name="ANTHROPIC_API_KEY",
                    model="claude-sonnet-5-5",
                ),
                "Anthropic",
                "Claude, through the Messages API.",
                "https://platform.claude.com/settings/keys",
                hints=(
                    Hint(
                        "Some models refuse a forced tool while thinking is on.",
                        "Anthropic's documentation of extended thinking",
                    ),
                ),
                is_vendor=True,
                address_name="ANTHROPIC_BASE_URL",
            )
        case "openai":
            return Provider(
                Profile(
                    name,
                    "openai_chat",
                    "https://api.openai.com/v1",
                    key_name="OPENAI_API_KEY",
                    model="gpt-5.4-mini",
                    # Reasoning models refuse max_tokens; every current model accepts this one.
                    quirks=("max_completion_tokens", "custom_tools", "allowed_tools"),
                ),
                "OpenAI, Chat Completions",
                "GPT, through the API that most other providers copy.",
                "https://platform.openai.com/api-keys",
                hints=(
                    Hint(
                        "A tool result cannot be marked as an error.",
                        "the format has no field for it",
                    ),
                    Hint(
                        "Reasoning is not shown and cannot be sent back; the Responses API can.",
                        "OpenAI's documentation of reasoning models",
                    ),
                ),
                is_vendor=True,
                address_name="OPENAI_BASE_URL",
            )
        case "openai-responses":
            return Provider(
                Profile(
                    name,
                    "openai_responses",
                    "https://api.openai.com/v1",
                    key_name="OPENAI_API_KEY",
                    model="gpt-5.4-mini",
                ),
                "OpenAI, Responses",
                "GPT, through the newer API. Encrypted reasoning is sent back.",
                "https://platform.openai.com/api-keys",
                hints=(
                    Hint(
                        "A tool result cannot be marked as an error.",
                        "the format has no field for it",
                    ),
                ),
                is_vendor=True,
                address_name="OPENAI_BASE_URL",
            )
        case "gemini":
            return Provider(
                Profile(
                    name,
                    "gemini",
                    "https://generativelanguage.googleapis.com",
                    key_name="GEMINI_API_KEY",
                    model="gemini-3.5-flash",
                ),
                "Gemini",
                "Google's models, through the Gemini API.",
                "https://aistudio.google.com/apikey",
                hints=(
                    Hint(
                        "A call's arguments arrive in one piece, not streamed.", "recorded streams"
                    ),
                    Hint(
                        "Each call has a signature that must be sent back with it.",
                        "Google's documentation of thought signatures",
                    ),
                ),
                is_vendor=True,
            )
        case "vertex":
            return Provider(
                Profile(
                    name,
                    "gemini",
                    "",
                    key_name="VERTEX_ACCESS_TOKEN",
                    model="gemini-3.5-flash",
                    quirks=("vertex",),
                ),
                "Vertex AI",
                "Google's models, through your Google Cloud project.",
                "gcloud auth print-access-token (good for an hour)",
                hosts=("aiplatform.googleapis.com", "-aiplatform.googleapis.com"),
                hints=(
                    Hint(
                        "GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION set the address. "
                        "Without them, edit it.",
                        "Google's own client reads the same names",
                    ),
                    Hint(
                        "Its models cannot be listed here. Type a model's name.",
                        "Google's reference",
                    ),
                    Hint(
                        "Claude on Vertex uses other paths, which this version does not support.",
                        "Anthropic's client for Vertex",
                    ),
                ),
                is_vendor=True,
            )
        case "ollama":
            return Provider(
                Profile(
                    name,
                    "ollama",
                    "http://127.0.0.1:11434",
                    first_byte_s=LOCAL_S,
                    idle_s=LOCAL_S,
                ),
                "Ollama",
                "Models on this machine, through Ollama's own API.",
                local=True,
                start="Start it with: ollama serve. Get a model with: ollama pull MODEL.",
                hints=(
                    Hint(
                        "tool_choice is ignored: the model decides.",
                        "Ollama's API has no such field",
                    ),
                    Hint(
                        "A tool result cannot be marked as an error.",
                        "the format has no field for it",
                    ),
                    Hint(
                        "OLLAMA_HOST changes the address.",
                        "Ollama's own client reads the same name",
                    ),
                ),
                is_vendor=True,
            )
        case "ollama-cloud":
            return Provider(
                Profile(name, "ollama", "https://ollama.com", key_name="OLLAMA_API_KEY"),
                "Ollama Cloud",
                "Larger open models, through Ollama's own API.",
                "https://ollama.com/settings/keys",
                hints=(
                    Hint(
                        "tool_choice is ignored: the model decides.",
                        "Ollama's API has no such field",
                    ),
                ),
                is_vendor=True,
            )
        case "azure":
            return compatible_provider(
                name,
                title="Azure OpenAI",
                about="GPT in your own Azure resource, through its v1 API. "
                "The model is a deployment.",
                url="",
                key_name="AZURE_OPENAI_API_KEY",
                key_place="https://portal.azure.com, at the resource under Keys and Endpoint",
                hints=(
                    Hint(
                        "AZURE_OPENAI_ENDPOINT sets the address. Without it, edit the address.",
                        "OpenAI's client for Azure reads the same name",
                    ),
                    Hint(
                        "An older deployment: https://RESOURCE.openai.azure.com/openai/deployments/NAME"
                        "?api-version=2024-10-21.",
                        "Microsoft's reference",
                    ),
                ),
                quirks="api_key_header max_completion_tokens",
                hosts=(".openai.azure.com", ".services.ai.azure.com"),
            )
        case "openrouter":
            return compatible_provider(
                name,
                title="OpenRouter",
                about="Many providers with one key.",
                url="https://openrouter.ai/api/v1",
                key_name="OPENROUTER_API_KEY",
                key_place="https://openrouter.ai/settings/keys",
                hints=(
                    Hint(
                        "Features differ by model; see its list of models.",
                        "OpenRouter's model list",
                    ),
                    Hint(
                        "A stream that began with status 200 can contain an error.",
                        "recorded streams",
                    ),
                ),
                model="openai/gpt-oss-120b",
            )
        case "groq":
            return compatible_provider(
                name,
                title="Groq",
                about="Open models, very fast.",
                url="https://api.groq.com/openai/v1",
                key_name="GROQ_API_KEY",
                key_place="https://console.groq.com/keys",
                hints=(
                    Hint(
                        "An invalid call ends the stream with tool_use_failed.",
                        "recorded streams",
                    ),
                ),
                model="openai/gpt-oss-120b",
                quirks="whole_arguments",
            )
        case "mistral":
            return compatible_provider(
                name,
                title="Mistral",
                about="Mistral's models, through Mistral's own API.",
                url="https://api.mistral.ai/v1",
                key_name="MISTRAL_API_KEY",
                key_place="https://console.mistral.ai/api-keys",
                hints=(Hint("Call ids are mapped to nine letters or digits.", "its error 3280"),),
                model="mistral-medium-latest",
                quirks="short_ids no_stream_options any_for_required whole_arguments "
                "assistant_after_tool",
            )
        case "deepseek":
            return compatible_provider(
                name,
                title="DeepSeek",
                about="DeepSeek's models, through DeepSeek's own API.",
                url="https://api.deepseek.com",
                key_name="DEEPSEEK_API_KEY",
                key_place="https://platform.deepseek.com/api_keys",
                hints=(
                    Hint(
                        "In thinking mode, its reasoning must be sent back with its calls.",
                        "its error 400",
                    ),
                ),
                model="deepseek-v4-flash",
                quirks="no_forced_with_thinking text_only no_strict",
            )
        case "xai":
            return compatible_provider(
                name,
                title="xAI",
                about="Grok.",
                url="https://api.x.ai/v1",
                key_name="XAI_API_KEY",
                key_place="https://console.x.ai",
                model="grok-4.5",
                quirks="whole_arguments",
            )
        case "together":
            return compatible_provider(
                name,
                title="Together AI",
                about="Open models.",
                url="https://api.together.xyz/v1",
                key_name="TOGETHER_API_KEY",
                key_place="https://api.together.ai/settings/api-keys",
                model="openai/gpt-oss-120b",
            )
        case "fireworks":
            return compatible_provider(
                name,
                title="Fireworks AI",
                about="Open models.",
                url="https://api.fireworks.ai/inference/v1",
                key_name="FIREWORKS_API_KEY",
                key_place="https://app.fireworks.ai/settings/users/api-keys",
                model="accounts/fireworks/models/gpt-oss-120b",
            )
        case "cerebras":
            return compatible_provider(
                name,
                title="Cerebras",
                about="Open models, very fast.",
                url="https://api.cerebras.ai/v1",
                key_name="CEREBRAS_API_KEY",
                key_place="https://cloud.cerebras.ai",
                model="gpt-oss-120b",
                quirks="max_completion_tokens",
            )
        case "huggingface":
            return compatible_provider(
                name,
                title="Hugging Face",
                about="Open models at many providers with one token.",
                url="https://router.huggingface.co/v1",
                key_name="HF_TOKEN",
                key_place="https://huggingface.co/settings/tokens",
                hints=(
                    Hint(
                        "A model's features depend on the provider that runs it.",
                        "its documentation",
                    ),
                ),
                model="openai/gpt-oss-120b",
            )
        case "perplexity":
            return compatible_provider(
                name,
                title="Perplexity",
                about="Models that search the web.",
                url="https://api.perplexity.ai",
                key_name="PERPLEXITY_API_KEY",
                key_place="https://www.perplexity.ai/settings/api",
                hints=(
                    Hint("It does not accept your tools.", "docs/wire.md, section 6"),
                    Hint("It lists no models.", "its API has no such path"),
                ),
                model="sonar",
            )
        case "lmstudio":
            return local_provider(
                name,
                title="LM Studio",
                about="Models on this machine.",
                url="http://127.0.0.1:1234/v1",
                start="Open LM Studio, load a model, and start its server (or: lms server start).",
            )
        case "llamacpp":
            return local_provider(
                name,
                title="llama.cpp",
                about="One model on this machine.",
                url="http://127.0.0.1:8080/v1",
                start="Start it with: llama-server --jinja -m MODEL.gguf",
                hints=(
                    Hint("Without --jinja it refuses tools.", "its error 500"),
                    Hint("It ignores the model name.", "recorded streams"),
                ),
                model="any",
            )
        case "vllm":
            return local_provider(
                name,
                title="vLLM",
                about="One model on your own GPU.",
                url="http://127.0.0.1:8000/v1",
                start="Start it with: vllm serve MODEL --enable-auto-tool-choice "
                "--tool-call-parser PARSER",
                hints=(
                    Hint(
                        "Without these options it refuses or ignores tools.", "vLLM's documentation"
                    ),
                    Hint("Older versions ignore parallel_tool_calls.", "vllm-project/vllm#9451"),
                ),
                quirks=("long_ids",),
            )
        case "sglang":
            return local_provider(
                name,
                title="SGLang",
                about="One model on your own GPU.",
                url="http://127.0.0.1:30000/v1",
                start="Start it with: python -m sglang.launch_server --model-path MODEL"
                " --tool-call-parser PARSER",
                hints=(Hint("Its call ids repeat from turn to turn.", "SGLang's documentation"),),
                quirks=("long_ids",),
            )
        case "litellm":
            return local_provider(
                name,
                title="LiteLLM",
                about="A proxy of your own in front of any provider.",
                url="http://127.0.0.1:4000/v1",
                start="Start it with: litellm --config config.yaml",
                hints=(
                    Hint(
                        "Its features depend on the provider it calls.", "LiteLLM's documentation"
                    ),
                ),
                quirks=("long_ids",),
                key_name="LITELLM_API_KEY",
                key_place="the proxy's own master or virtual key",
            )
        case _:
            assert_never(name)


PROVIDERS: tuple[Provider, ...] = tuple(map(provider_row, PROVIDER_NAMES))
SIMULATORS: tuple[Provider, ...] = tuple(row for row in PROVIDERS if row.profile.simulated)
VENDORS: tuple[Provider, ...] = tuple(row for row in PROVIDERS if row.is_vendor)
"""The providers whose protocol is their own."""

# Lookup by name and address -----------------------------------------------------------------------

PROFILES: tuple[Profile, ...] = tuple(provider.profile for provider in PROVIDERS)
SHIPPED: Mapping[str, Provider] = {provider.profile.name: provider for provider in PROVIDERS}

SIMULATOR = SHIPPED["simulator"].profile
ANTHROPIC = SHIPPED["anthropic"].profile
OPENAI = SHIPPED["openai"].profile


def profiles(environment: Mapping[str, str]) -> tuple[Profile, ...]:
    """All built-in profiles, moved to the addresses given by the environment."""
    return tuple(
        add_account_headers(_apply_environment(profile_, environment), environment)
        for profile_ in PROFILES
    )


def profile(name: str, environment: Mapping[str, str]) -> Profile:
    """The built-in profile of that name; NotFound lists all names."""
    return profile_named(name, profiles(environment))


def profile_named(name: str, among: tuple[Profile, ...]) -> Profile:
    """The profile of `among` with that name; NotFound lists all names."""
    for profile in among:
        if profile.name == name:
            return profile
    known = ", ".join(profile.name for profile in among)
    raise NotFound(f"There is no profile {name!r}. Choose from {known}.")


def provider_at(base_url: str, protocol: str) -> Provider | None:
    """The built-in provider at `base_url`, preferring a row with that `protocol`. None if
    unknown."""
    there = [
        provider
        for provider in PROVIDERS
        if not provider.profile.simulated and provider.is_at(base_url)
    ]
    return next(
        (provider for provider in there if provider.profile.protocol == protocol), (*there, None)[0]
    )


def add_account_headers(profile: Profile, environment: Mapping[str, str]) -> Profile:
    """`profile` with the account headers, if it is OpenAI's."""
    if not profile.base_url.lower().startswith("https://api.openai.com/"):
        return profile
    named = {header: environment.get(name, "").strip() for name, header in ACCOUNT.items()}
    own = {name.lower() for name in profile.headers}
    added = {header: value for header, value in named.items() if value and header not in own}
    return replace(profile, headers={**profile.headers, **added}) if added else profile


def ollama_url(host: str) -> str:
    """The base URL in OLLAMA_HOST, in any of its forms; "" if it has none.

    A listening address (0.0.0.0) means this machine. Parsed like Ollama's client does, except for a
    scheme without a port: the scheme's default port is used.
    """
    text = host.strip().rstrip("/")
    if not text:
        return ""
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "http", text
    try:
        parts = urlsplit(f"{scheme}://{rest}")
        name, port = parts.hostname or "127.0.0.1", parts.port
    except ValueError:
        return ""
    if name in ("0.0.0.0", "::"):
        name = "127.0.0.1"
    port = port if port is not None or separator else OLLAMA_PORT
    shown = f"[{name}]" if ":" in name else name
    return f"{scheme}://{shown}" + (f":{port}" if port is not None else "") + parts.path


def vertex_url(environment: Mapping[str, str]) -> str:
    """The Vertex address of the environment's project, or ""."""
    project = environment.get("GOOGLE_CLOUD_PROJECT", "").strip()
    location = environment.get("GOOGLE_CLOUD_LOCATION", "").strip() or "global"
    if not _PLACE.fullmatch(project) or not re.fullmatch(r"[a-z0-9-]{2,40}", location):
        return ""
    host = "aiplatform" if location == "global" else f"{location}-aiplatform"
    place = f"projects/{project}/locations/{location}"
    return f"https://{host}.googleapis.com/v1/{place}/publishers/google"


def azure_url(environment: Mapping[str, str]) -> str:
    """The v1 API of the environment's Azure resource, or ""."""
    endpoint = environment.get("AZURE_OPENAI_ENDPOINT", "").strip().rstrip("/")
    if not endpoint:
        return ""
    return endpoint if "/openai" in endpoint else endpoint + "/openai/v1"


def _apply_environment(profile: Profile, environment: Mapping[str, str]) -> Profile:
    match profile.name:
        case "ollama":
            url = ollama_url(environment.get("OLLAMA_HOST", ""))
        case "azure":
            url = azure_url(environment)
        case "vertex":
            url = vertex_url(environment)
        case name:
            row = SHIPPED.get(name)
            url = environment.get(row.address_name, "").strip() if row is not None else ""
    return replace(profile, base_url=url) if url else profile


# Names of the agents that `playground tap` starts, how long they wait, and what can be held for
# them. tap/agents.py starts them.


def agent_title(name: str) -> str:
    """The agent's title for users; one with no name or an unknown one was started by hand."""
    return AGENT_TITLES.get(name, name) or "an agent"


@dataclass(frozen=True)
class AgentWaits:
    """Seconds that an agent waits, with the variables of its row; None if no limit was observed:
    for the head of an answer, in an answer with a keep-alive every 10 s, and in a silent one."""

    head_s: float | None = None
    stream_s: float | None = None
    silent_s: float | None = None


AGENT_WAITS: Mapping[str, AgentWaits] = {
    "claude": AgentWaits(head_s=362, stream_s=1800),
    "codex": AgentWaits(),
    "gemini": AgentWaits(silent_s=301),
    "opencode": AgentWaits(head_s=300, silent_s=300),
}
"""By the names of `AGENT_TITLES`. Tested with the versions in docs/tap.md; the 1800 s of Claude
Code are from its own text."""
