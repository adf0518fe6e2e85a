"""OpenAI Responses: client end (encode, decode) and server end (request, server)."""

from playground.protocols import Assessment, ParameterWords, ProtocolFacts, words_of

FACTS = ProtocolFacts(
    "OpenAI Responses",
    "/openai/v1",
    "/responses",
    ParameterWords(
        same={
            "max_tokens": "max_output_tokens",
            "temperature": "temperature",
            "top_p": "top_p",
        },
        own=words_of(
            """context_management include max_output_tokens max_tool_calls metadata prompt
            prompt_cache_key prompt_cache_retention reasoning safety_identifier service_tier store
            text top_logprobs truncation user"""
        ),
        thinking="reasoning",
        off={"effort": "none"},
        members=words_of("effort summary"),
    ),
    forced=Assessment("yes", "tool_choice names it."),
    images=Assessment("yes", "A result can have images."),
    short="Responses",
    key_name="OPENAI_API_KEY",
)
