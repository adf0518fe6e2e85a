"""Anthropic Messages: client end (encode, decode) and server end (request, server)."""

from playground.protocols import Assessment, ParameterWords, ProtocolFacts, words_of

FACTS = ProtocolFacts(
    "Anthropic",
    "/anthropic",
    "/v1/messages",
    ParameterWords(
        same={
            "max_tokens": "max_tokens",
            "temperature": "temperature",
            "top_p": "top_p",
            "stop": "stop_sequences",
            "top_k": "top_k",
        },
        own=words_of(
            """cache_control container context_management inference_geo mcp_servers metadata
            output_config service_tier stop_sequences top_k"""
        ),
        thinking="thinking",
        off={"type": "disabled"},
        free={"type": "adaptive"},
        members=words_of("type budget_tokens"),
        budgeted=True,
    ),
    forced=Assessment("yes", "tool_choice names it. Not while thinking is on."),
    images=Assessment("yes", "A result can have images, but a failed one cannot."),
    tool_tokens=40,
    key_name="ANTHROPIC_API_KEY",
)
