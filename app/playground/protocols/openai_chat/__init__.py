"""OpenAI Chat Completions: client end (encode, decode) and server end (request, server)."""

from playground.protocols import Assessment, ParameterWords, ProtocolFacts, words_of

FACTS = ProtocolFacts(
    "OpenAI Chat",
    "/openai/v1",
    "/chat/completions",
    ParameterWords(
        same={
            "max_tokens": "max_completion_tokens",
            "temperature": "temperature",
            "top_p": "top_p",
            "stop": "stop",
            "seed": "seed",
            "presence_penalty": "presence_penalty",
            "frequency_penalty": "frequency_penalty",
        },
        own=words_of(
            """audio frequency_penalty logit_bias logprobs max_completion_tokens metadata
            modalities n prediction presence_penalty prompt_cache_key prompt_cache_retention
            reasoning_effort response_format safety_identifier seed service_tier store
            top_logprobs user verbosity web_search_options"""
        ),
        thinking="reasoning_effort",
        off="none",
    ),
    forced=Assessment("yes", "tool_choice names it. Compatible servers may not support this."),
    images=Assessment(
        "partly", "OpenAI accepts images in results. Many compatible servers do not."
    ),
    key_name="OPENAI_API_KEY",
)
