"""Tools that a provider defines itself: an entry of `tools` with a `type` and no schema.

The model knows how to call them. Either the provider runs their calls, or the client does.
https://platform.openai.com/docs/guides/tools
https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-reference
https://ai.google.dev/gemini-api/docs/interactions
https://docs.x.ai/docs/guides/tools/overview
https://docs.mistral.ai/agents/connectors/connectors
https://console.groq.com/docs/tool-use/built-in-tools
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_SystemTool.html
https://openrouter.ai/docs/guides/features/server-tools
https://docs.perplexity.ai/docs/agent-api/tools
https://platform.moonshot.ai/docs/guide/use-web-search
https://docs.z.ai/api-reference/llm/chat-completion
https://learn.microsoft.com/azure/ai-foundry/agents/how-to/tools/overview
https://ai-sdk.dev/docs/foundations/tools
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

Runner = Literal["client", "provider", "either"]
"""Who runs the calls of a tool; "either" where its entry does not say."""

_CLIENT = ("apply_patch", "computer", "computer_use_preview", "local_shell")
_CLIENT_DATED = ("bash", "text_editor", "computer", "memory", "computer_toolset", "browser_toolset")
_PROVIDER = (
    *("web_search", "file_search", "code_interpreter", "image_generation", "mcp", "retrieval"),
    *("programmatic_tool_calling", "automations"),  # OpenAI
    *("mcp_toolset", "tool_search_tool_bm25", "tool_search_tool_regex"),  # Anthropic
    *("google_search", "google_search_retrieval", "google_maps", "url_context"),  # Google
    *("code_execution", "mcp_server", "enterprise_web_search"),
    *("x_search", "collections_search", "live_search"),  # xAI
    *("web_search_premium", "document_library", "connector"),  # Mistral
    *("browser_search", "browser_automation", "visit_website", "wolfram_alpha"),  # Groq
    *("fetch_url", "finance_search", "people_search"),  # Perplexity
    *("builtin_function", "drawing_tool", "web_browser"),  # Moonshot, Z.ai
    *("bing_grounding", "bing_custom_search", "azure_ai_search", "azure_function"),  # Azure
    *("fabric_dataagent", "sharepoint_grounding", "connected_agent", "deep_research"),
)
_PROVIDER_DATED = (
    *("web_search", "web_fetch", "code_execution", "advisor"),
    *("tool_search_tool_bm25", "tool_search_tool_regex"),
)
_EITHER = ("shell", "computer_use", "tool_search")
_RUNNERS: Mapping[str, Runner] = {
    **dict.fromkeys(_CLIENT, "client"),
    **dict.fromkeys(_PROVIDER, "provider"),
    **dict.fromkeys(_EITHER, "either"),
}
_RUNNERS_DATED: Mapping[str, Runner] = {
    **dict.fromkeys(_CLIENT_DATED, "client"),
    **dict.fromkeys(_PROVIDER_DATED, "provider"),
}
"""Types that end with the day of their version: those of Anthropic (`bash_20250124`)."""
_DATE = re.compile(r"_20[0-9]{6}$")
_PREVIEW = re.compile(r"(?:_preview)?(?:_20[0-9]{2}_[0-9]{2}_[0-9]{2})?$")
_SDK_TYPES = ("provider", "provider-defined", "provider-defined-client", "provider-defined-server")
"""Types of the AI SDK, whose `id` is the vendor and the vendor's own type."""
_SERVER_PREFIX = "openrouter:"


def runner_of_type(kind: str) -> Runner | None:
    """Who runs the calls of tools of the type `kind`; None if it is not known here."""
    if kind.startswith(_SERVER_PREFIX):
        return "provider"
    if _DATE.search(kind):
        return _RUNNERS_DATED.get(_DATE.sub("", kind))
    return _RUNNERS.get(kind) or _RUNNERS.get(_PREVIEW.sub("", kind))


def runner(entry: Mapping[str, Any]) -> Runner | None:
    """Who runs the calls of the tool that `entry` declares; None if its type is not known here."""
    kind = entry.get("type")
    if not isinstance(kind, str):
        return "provider" if "systemTool" in entry and len(entry) == 1 else None
    match kind, entry:
        case "shell", {"environment": {"type": "local"}}:
            return "client"
        case "shell", {"environment": {"type": str()}}:
            return "provider"
        case "tool_search", _:
            return "client" if entry.get("execution") == "client" else "provider"
        case "openapi", {"openapi": {"spec": _}}:  # of Azure's agents
            return "provider"
    if kind in _SDK_TYPES:
        own = str(entry.get("id", "")).partition(".")[2]
        return runner_of_type(own) or "either"
    return runner_of_type(kind)


def why_not_imported(kind: str, who: Runner) -> str:
    """A sentence on who runs the tools of the type `kind`, and why none is imported."""
    match who:
        case "provider":
            return f"A tool of the type {kind!r} is run by its provider, so it cannot be imported."
        case "client":
            return (
                f"A tool of the type {kind!r} is run by the client with a schema that only the "
                "provider's models know, so it cannot be imported."
            )
        case "either":
            return (
                f"A tool of the type {kind!r} has no schema, and its entry does not say who runs "
                "it, so it cannot be imported."
            )
