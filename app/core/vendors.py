"""The vendors this version knows, as rows of data. Adding one is adding a row.

A row says where a vendor is reached, what its server does otherwise than its protocol (quirks, by
name: the codec has the reasons) and what is known about it; it fetches nothing. Model names are a
beginning: a wrong one would be worse than none.
"""

from __future__ import annotations

from app.core.compatible import LOCALS, REMOTE
from app.core.settings import Profile
from app.core.vendor import LOCAL_S, Hint, Vendor, simulated

SIMULATORS: tuple[Vendor, ...] = (
    simulated("simulator", "anthropic", "Anthropic Messages"),
    simulated("simulator-openai", "openai_chat", "OpenAI Chat Completions"),
    simulated("simulator-responses", "openai_responses", "OpenAI Responses"),
    simulated("simulator-gemini", "gemini", "Gemini"),
    simulated("simulator-ollama", "ollama", "Ollama"),
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
            quirks=("max_completion_tokens", "custom_tools", "allowed_tools"),
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
        hosts=("aiplatform.googleapis.com", "-aiplatform.googleapis.com"),
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

VENDORS: tuple[Vendor, ...] = (*SIMULATORS, *OWN_PROTOCOLS, *REMOTE, *LOCALS)
