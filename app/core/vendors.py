"""The vendors this version knows, as rows of data. Adding one is adding a row.

A row says where a vendor is reached, what its server does otherwise than its protocol (quirks, by
name: the codec has the reasons) and what is known about it; it fetches nothing. Dialects:
docs/wire.md, section 6. Model names are a beginning: a wrong one would be worse than none.
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


def _simulator(name: str, protocol: str, title: str) -> Vendor:
    return Vendor(
        Profile(name, protocol, SIMULATOR_URL, model="simulator"),  # type: ignore[arg-type]
        f"Simulator, {title}",
        "Built in: answers at once, calls tools by the words of a prompt, plays faults.",
    )


def _local(
    name: str, title: str, about: str, url: str, start: str, *hints: Hint, quirks: str = ""
) -> Vendor:
    """A server on this machine that speaks Chat Completions and wants no key."""
    profile = Profile(
        name,
        "openai_chat",
        url,
        quirks=(*quirks.split(), *TEXT_RESULTS),
        first_byte_s=LOCAL_S,
        idle_s=LOCAL_S,
    )
    return Vendor(profile, title, about, local=True, start=start, hints=hints)


def _chat(
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


SIMULATORS: tuple[Vendor, ...] = (
    _simulator("simulator", "anthropic", "Anthropic Messages"),
    _simulator("simulator-openai", "openai_chat", "OpenAI Chat Completions"),
    _simulator("simulator-responses", "openai_responses", "OpenAI Responses"),
    _simulator("simulator-gemini", "gemini", "Gemini"),
    _simulator("simulator-ollama", "ollama", "Ollama"),
)

OWN_PROTOCOLS: tuple[Vendor, ...] = (
    Vendor(
        Profile(
            "anthropic",
            "anthropic",
            "https://api.anthropic.com",
            key_name="ANTHROPIC_API_KEY",
            model="claude-sonnet-5-5",
        ),
        "Anthropic",
        "Claude, by the Messages API.",
        "https://platform.claude.com/settings/keys",
        hints=(
            Hint(
                "Thinking and a forced tool do not go together: some models refuse it.",
                "Anthropic's documentation of extended thinking",
            ),
        ),
    ),
    Vendor(
        Profile(
            "openai",
            "openai_chat",
            "https://api.openai.com/v1",
            key_name="OPENAI_API_KEY",
            model="gpt-5.4-mini",
            # Reasoning models refuse max_tokens; every current model takes the other name.
            quirks=("max_completion_tokens", "custom_tools", "allowed_tools", *TEXT_RESULTS),
        ),
        "OpenAI, Chat Completions",
        "GPT, by the API that most others copy.",
        "https://platform.openai.com/api-keys",
        hints=(
            Hint("A tool result cannot be marked as an error.", "the format has no field for it"),
            Hint(
                "Reasoning is not shown and cannot be sent back; the Responses API can.",
                "OpenAI's documentation of reasoning models",
            ),
        ),
    ),
    Vendor(
        Profile(
            "openai-responses",
            "openai_responses",
            "https://api.openai.com/v1",
            key_name="OPENAI_API_KEY",
            model="gpt-5.4-mini",
        ),
        "OpenAI, Responses",
        "GPT, by the newer API: reasoning goes back encrypted.",
        "https://platform.openai.com/api-keys",
        hints=(
            Hint("A tool result cannot be marked as an error.", "the format has no field for it"),
        ),
    ),
    Vendor(
        Profile(
            "gemini",
            "gemini",
            "https://generativelanguage.googleapis.com",
            key_name="GEMINI_API_KEY",
            model="gemini-3.5-flash",
        ),
        "Gemini",
        "Google's models, by the Gemini API.",
        "https://aistudio.google.com/apikey",
        hints=(
            Hint("The arguments of a call come whole, not bit by bit.", "recorded streams"),
            Hint(
                "A call comes with a signature that must go back with it.",
                "Google's documentation of thought signatures",
            ),
        ),
    ),
    Vendor(
        Profile(
            "vertex",
            "gemini",
            "",
            key_name="VERTEX_ACCESS_TOKEN",
            model="gemini-3.5-flash",
            quirks=("vertex",),
        ),
        "Vertex AI",
        "Google's models, by your Google Cloud project.",
        "gcloud auth print-access-token (good for an hour)",
        hints=(
            Hint(
                "GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION say where it is; without them edit"
                " the address.",
                "Google's own client reads the same names",
            ),
            Hint("It lists its models elsewhere: type the name of one.", "Google's reference"),
            Hint(
                "Claude on Vertex is reached by other paths, which this version does not speak.",
                "Anthropic's client for Vertex",
            ),
        ),
    ),
    Vendor(
        Profile(
            "ollama",
            "ollama",
            "http://127.0.0.1:11434",
            first_byte_s=LOCAL_S,
            idle_s=LOCAL_S,
        ),
        "Ollama",
        "Models on this machine, by Ollama's own API.",
        local=True,
        start="Start it with: ollama serve. Get a model with: ollama pull MODEL.",
        hints=(
            Hint("tool_choice is ignored: the model calls as it likes.", "Ollama's API has none"),
            Hint("A tool result cannot be marked as an error.", "the format has no field for it"),
            Hint("OLLAMA_HOST moves it.", "Ollama's own client reads the same name"),
        ),
    ),
    Vendor(
        Profile("ollama-cloud", "ollama", "https://ollama.com", key_name="OLLAMA_API_KEY"),
        "Ollama Cloud",
        "Larger open models, by Ollama's own API.",
        "https://ollama.com/settings/keys",
        hints=(
            Hint("tool_choice is ignored: the model calls as it likes.", "Ollama's API has none"),
        ),
    ),
)

SERVICES: tuple[Vendor, ...] = (
    _chat(
        "azure",
        "Azure OpenAI",
        "GPT in your own Azure resource, by its v1 API; the model is the name of a deployment.",
        "",
        "AZURE_OPENAI_API_KEY",
        "https://portal.azure.com, at the resource under Keys and Endpoint",
        Hint(
            "AZURE_OPENAI_ENDPOINT says where it is; without it edit the address.",
            "OpenAI's client for Azure reads the same name",
        ),
        Hint(
            "An older deployment: https://RESOURCE.openai.azure.com/openai/deployments/NAME"
            "?api-version=2024-10-21.",
            "Microsoft's reference",
        ),
        quirks="api_key_header max_completion_tokens",
    ),
    _chat(
        "openrouter",
        "OpenRouter",
        "Many vendors behind one key.",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        "https://openrouter.ai/settings/keys",
        Hint("What a model can do differs; its list of models tells.", "OpenRouter's model list"),
        Hint("An error can come inside a stream that began with 200.", "recorded streams"),
        model="openai/gpt-oss-120b",
    ),
    _chat(
        "groq",
        "Groq",
        "Open models, very fast.",
        "https://api.groq.com/openai/v1",
        "GROQ_API_KEY",
        "https://console.groq.com/keys",
        Hint(
            "A call that its model wrote badly ends the stream by tool_use_failed.",
            "recorded streams",
        ),
        model="openai/gpt-oss-120b",
        quirks="whole_arguments",
    ),
    _chat(
        "mistral",
        "Mistral",
        "Mistral's models, by their own API.",
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        "https://console.mistral.ai/api-keys",
        Hint("Ids of calls are mapped to nine letters or digits.", "its error 3280"),
        model="mistral-medium-latest",
        quirks="short_ids no_stream_options any_for_required whole_arguments",
    ),
    _chat(
        "deepseek",
        "DeepSeek",
        "DeepSeek's models, by their own API.",
        "https://api.deepseek.com",
        "DEEPSEEK_API_KEY",
        "https://platform.deepseek.com/api_keys",
        Hint("While it thinks, its reasoning must go back with its calls.", "its error 400"),
        model="deepseek-v4-flash",
        quirks="no_forced_with_thinking text_only no_strict",
    ),
    _chat(
        "xai",
        "xAI",
        "Grok.",
        "https://api.x.ai/v1",
        "XAI_API_KEY",
        "https://console.x.ai",
        model="grok-4.5",
        quirks="whole_arguments",
    ),
    _chat(
        "together",
        "Together AI",
        "Open models.",
        "https://api.together.xyz/v1",
        "TOGETHER_API_KEY",
        "https://api.together.ai/settings/api-keys",
        model="openai/gpt-oss-120b",
    ),
    _chat(
        "fireworks",
        "Fireworks AI",
        "Open models.",
        "https://api.fireworks.ai/inference/v1",
        "FIREWORKS_API_KEY",
        "https://app.fireworks.ai/settings/users/api-keys",
        model="accounts/fireworks/models/gpt-oss-120b",
    ),
    _chat(
        "cerebras",
        "Cerebras",
        "Open models, very fast.",
        "https://api.cerebras.ai/v1",
        "CEREBRAS_API_KEY",
        "https://cloud.cerebras.ai",
        model="gpt-oss-120b",
        quirks="max_completion_tokens",
    ),
    _chat(
        "huggingface",
        "Hugging Face",
        "Open models at many providers behind one token.",
        "https://router.huggingface.co/v1",
        "HF_TOKEN",
        "https://huggingface.co/settings/tokens",
        Hint("What a model can do depends on the provider that runs it.", "its documentation"),
        model="openai/gpt-oss-120b",
    ),
    _chat(
        "perplexity",
        "Perplexity",
        "Models that search the web.",
        "https://api.perplexity.ai",
        "PERPLEXITY_API_KEY",
        "https://www.perplexity.ai/settings/api",
        Hint("It takes no tools of yours.", "docs/wire.md, section 6"),
        Hint("It lists no models.", "its API has no such path"),
        model="sonar",
    ),
)

LOCALS: tuple[Vendor, ...] = (
    _local(
        "lmstudio",
        "LM Studio",
        "Models on this machine.",
        "http://127.0.0.1:1234/v1",
        "Open LM Studio, load a model, and start its server (or: lms server start).",
    ),
    _local(
        "llamacpp",
        "llama.cpp",
        "One model on this machine.",
        "http://127.0.0.1:8080/v1",
        "Start it with: llama-server --jinja -m MODEL.gguf",
        Hint("Without --jinja it refuses tools.", "its error 500"),
        Hint("It ignores the name of the model.", "recorded streams"),
    ),
    _local(
        "vllm",
        "vLLM",
        "One model on your own GPU.",
        "http://127.0.0.1:8000/v1",
        "Start it with: vllm serve MODEL --enable-auto-tool-choice --tool-call-parser PARSER",
        Hint("Without these options it refuses or ignores tools.", "vLLM's documentation"),
        Hint("parallel_tool_calls was ignored for long.", "vllm-project/vllm#9451"),
    ),
    _local(
        "sglang",
        "SGLang",
        "One model on your own GPU.",
        "http://127.0.0.1:30000/v1",
        "Start it with: python -m sglang.launch_server --model-path MODEL"
        " --tool-call-parser PARSER",
        Hint("Its call ids repeat from turn to turn.", "SGLang's documentation"),
    ),
    Vendor(
        Profile(
            "litellm",
            "openai_chat",
            "http://127.0.0.1:4000/v1",
            key_name="LITELLM_API_KEY",
            quirks=TEXT_RESULTS,
            first_byte_s=LOCAL_S,
            idle_s=LOCAL_S,
        ),
        "LiteLLM",
        "A proxy of your own in front of any vendor.",
        "the proxy's own master or virtual key",
        local=True,
        start="Start it with: litellm --config config.yaml",
        hints=(
            Hint("What is possible depends on the vendor behind it.", "LiteLLM's documentation"),
        ),
    ),
)

VENDORS: tuple[Vendor, ...] = (*SIMULATORS, *OWN_PROTOCOLS, *SERVICES, *LOCALS)
